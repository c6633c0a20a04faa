//! Content: staying, noticing that the path has changed, and a probe now and then.

use crate::optimizer::model_based::constants::{
    CHANGE_STRAYS, FARTHEST_SMALL_GROWTH, HINT_GAIN, HINT_MEAN_STRAYS, HINT_STRAYS, MAX_PATIENCE,
    MEAN_WEIGHT, PLAIN_STRAYS, PROBE_GROWTH, RISE_NOTICED, SMALL_GROWTH, SPARE_STREAMS, STRAY_WEIGHT,
};
use crate::optimizer::model_based::epoch::Seen;
use crate::optimizer::model_based::{ModelBased, Phase, gained};
use crate::stage::{Bounds, Concurrency, PerStage, Stage};

impl ModelBased {
    /// Stays unless the path has changed, or a probe is due.
    pub(super) fn hold(
        &mut self,
        seen: &Seen,
        (epochs, mean, off, above): (u32, f64, u32, u32),
        bounds: PerStage<Bounds>,
    ) -> Concurrency {
        if seen.goodput < (1.0 - self.noticed()) * mean && self.loss_recovery.explains(seen, mean) {
            self.phase = Phase::Hold { epochs, mean, off: 0, above: 0 };
            return seen.n;
        }
        let stray = (seen.goodput / mean - 1.0).abs();
        if stray > self.config.change.max(CHANGE_STRAYS * self.stray) {
            // A plain gain costs only workers to follow, but on the farthest paths it may be a burst after losses.
            let plain = !seen.farthest && seen.goodput > (1.0 + PLAIN_STRAYS * self.stray) * mean;
            if off == 1 || plain {
                return self.begin_again(seen, self.config.growth, bounds);
            }
            self.phase = Phase::Hold { epochs, mean, off: off + 1, above };
            return seen.n;
        }
        self.stray += STRAY_WEIGHT * (stray - self.stray);
        let mean = mean + MEAN_WEIGHT * (seen.goodput - mean);
        if mean > self.capacity && self.has_spare(seen, mean, bounds) {
            // Streams that recover, or a link that got a little wider: the spare ones carry it.
            self.capacity = mean;
        }
        let off = mean / self.capacity - 1.0;
        if off < -self.noticed() || off > RISE_NOTICED * self.noticed() {
            // Too slow a slide, or too small a step, to be seen between two epochs.
            let growth = if seen.farthest { FARTHEST_SMALL_GROWTH } else { SMALL_GROWTH };
            return self.begin_again(seen, growth, bounds);
        }
        let epochs = epochs + 1;
        // A little more with the same workers: a link that got wider leaves them no more than they can
        // carry, and only a probe shows how much wider.
        let higher = seen.goodput > (1.0 + HINT_GAIN.max(HINT_STRAYS * self.stray)) * self.capacity;
        let above = if higher { above + 1 } else { 0 };
        let hint = off > HINT_GAIN.max(HINT_MEAN_STRAYS * self.stray) || above > 1;
        if epochs < self.patience && !hint {
            self.phase = Phase::Hold { epochs, mean, off: 0, above };
            return seen.n;
        }
        if hint {
            self.patience = self.config.probe_every;
        }
        let more = PerStage::from_fn(|stage| {
            let n = seen.n[stage];
            let more = ((f64::from(n) * PROBE_GROWTH).ceil() as u16).max(n.saturating_add(1));
            // Streams to spare show by themselves that a link got wider.
            let shows = seen.farthest && stage == Stage::Network && !hint;
            bounds[stage].clamp(if seen.spent[stage] || shows { n } else { more })
        });
        if more == seen.n {
            self.phase = Phase::Hold { epochs: 0, mean, off: 0, above: 0 };
            return seen.n;
        }
        self.phase = Phase::Probe { mean, first: None, back: seen.n };
        more
    }

    /// Whether it is one of the farthest paths, and half of the spare streams would still be spare at `mbps`.
    fn has_spare(&self, seen: &Seen, mbps: f64, bounds: PerStage<Bounds>) -> bool {
        seen.farthest && self.workers_for(SPARE_STREAMS.sqrt() * mbps, bounds).network <= seen.n.network
    }

    /// Judges a probe: a new ramp, a few more workers, or back.
    pub(super) fn probe(
        &mut self,
        seen: &Seen,
        (mean, first, back): (f64, Option<f64>, Concurrency),
        bounds: PerStage<Bounds>,
    ) -> Concurrency {
        // A second epoch where the first might be chance.
        let plain =
            gained(mean, seen.goodput, PROBE_GROWTH, self.config.full_gain + PLAIN_STRAYS * self.stray);
        let goodput = match first {
            Some(first) => (first + seen.goodput) / 2.0,
            None if plain => seen.goodput,
            // Streams that lose packets get no quicker.
            None if seen.loss_slows => seen.goodput,
            None => {
                self.phase = Phase::Probe { mean, first: Some(seen.goodput), back };
                return seen.n;
            }
        };
        if gained(mean, goodput, PROBE_GROWTH, self.config.probe_gain) {
            // The path carries more; what a worker moves is no less true for that.
            self.patience = self.config.probe_every;
            self.growth = self.config.growth;
            return self.ramp(seen, bounds);
        }
        self.patience = (self.patience * 2).min(self.config.probe_every * MAX_PATIENCE);
        let gain = goodput / mean - 1.0;
        if gain < HINT_GAIN.max(HINT_STRAYS * self.stray) {
            self.capacity = mean;
            self.phase = Phase::Hold { epochs: 0, mean, off: 0, above: 0 };
            return bounds.clamp(back);
        }
        // A little more was there to be had, and this many workers carry it.
        self.capacity = goodput;
        self.phase = Phase::Hold { epochs: 0, mean: goodput, off: 0, above: 0 };
        let more = |n: u16| (f64::from(n) * (1.0 + gain)).ceil() as u16;
        PerStage::from_fn(|stage| bounds[stage].clamp(more(back[stage]).min(seen.n[stage])))
    }
}
