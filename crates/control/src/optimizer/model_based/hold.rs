//! Content: staying, noticing that the path has changed, and a probe now and then.

use crate::optimizer::model_based::epoch::Seen;
use crate::optimizer::model_based::{FARTHEST_MEND, MEND, ModelBased, PLAIN, Phase, SPARE, gained};
use crate::stage::{Bounds, Concurrency, PerStage, Stage};

/// How much more a probe aims at.
const PROBE: f64 = 1.2;
/// A lasting gain of this share is worth a probe at once.
const HINT: f64 = 0.02;
/// So many times what goodput strays above the capacity, two epochs running, is worth a probe.
const ABOVE: f64 = 1.5;
/// Weight of the newest epoch in what is held for noise, and in running means.
const STRAY: f64 = 0.1;
const WEIGHT: f64 = 0.3;

impl ModelBased {
    /// Stays unless the path has changed, or a probe is due.
    pub(super) fn hold(
        &mut self,
        seen: &Seen,
        (epochs, mean, off, above): (u32, f64, u32, u32),
        bounds: PerStage<Bounds>,
    ) -> Concurrency {
        if seen.goodput < (1.0 - self.noticed()) * mean && self.healing.explains(seen, mean) {
            self.phase = Phase::Hold { epochs, mean, off: 0, above: 0 };
            return seen.n;
        }
        let stray = (seen.goodput / mean - 1.0).abs();
        if stray > self.config.change.max(3.0 * self.stray) {
            // A plain gain costs only workers to follow, but on the farthest paths it may be a burst after losses.
            let plain = !seen.farthest && seen.goodput > (1.0 + PLAIN * self.stray) * mean;
            if off == 1 || plain {
                return self.begin_again(seen, self.config.growth, bounds);
            }
            self.phase = Phase::Hold { epochs, mean, off: off + 1, above };
            return seen.n;
        }
        self.stray += STRAY * (stray - self.stray);
        let mean = mean + WEIGHT * (seen.goodput - mean);
        if mean > self.capacity && self.has_spare(seen, mean, bounds) {
            // Streams that recover, or a link that got a little wider: the spare ones carry it.
            self.capacity = mean;
        }
        let off = mean / self.capacity - 1.0;
        if off < -self.noticed() || off > 2.0 * self.noticed() {
            // Too slow a slide, or too small a step, to be seen between two epochs.
            let mend = if seen.farthest { FARTHEST_MEND } else { MEND };
            return self.begin_again(seen, mend, bounds);
        }
        let epochs = epochs + 1;
        // A little more with the same workers: a link that got wider leaves them no more than they can
        // carry, and only a probe shows how much wider.
        let higher = seen.goodput > (1.0 + HINT.max(ABOVE * self.stray)) * self.capacity;
        let above = if higher { above + 1 } else { 0 };
        let hint = off > HINT.max(2.0 * self.stray) || above > 1;
        if epochs < self.patience && !hint {
            self.phase = Phase::Hold { epochs, mean, off: 0, above };
            return seen.n;
        }
        if hint {
            self.patience = self.config.probe_every;
        }
        let more = PerStage::from_fn(|stage| {
            let n = seen.n[stage];
            let more = ((f64::from(n) * PROBE).ceil() as u16).max(n.saturating_add(1));
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
        seen.farthest && self.workers_for(SPARE.sqrt() * mbps, bounds).network <= seen.n.network
    }

    /// Judges a probe: a new ramp, a few more workers, or back.
    pub(super) fn probe(
        &mut self,
        seen: &Seen,
        (mean, first, back): (f64, Option<f64>, Concurrency),
        bounds: PerStage<Bounds>,
    ) -> Concurrency {
        // A second epoch where the first might be chance.
        let plain = gained(mean, seen.goodput, PROBE, self.config.full_gain + PLAIN * self.stray);
        let goodput = match first {
            Some(first) => (first + seen.goodput) / 2.0,
            None if plain => seen.goodput,
            // Streams that lose packets get no quicker.
            None if seen.wounded => seen.goodput,
            None => {
                self.phase = Phase::Probe { mean, first: Some(seen.goodput), back };
                return seen.n;
            }
        };
        if gained(mean, goodput, PROBE, self.config.probe_gain) {
            // The path carries more; what a worker moves is no less true for that.
            self.patience = self.config.probe_every;
            self.growth = self.config.growth;
            return self.ramp(seen, bounds);
        }
        self.patience = (self.patience * 2).min(self.config.probe_every * 4);
        let gain = goodput / mean - 1.0;
        if gain < HINT.max(ABOVE * self.stray) {
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
