//! Looks at what moves while an epoch passes, and says when it has shown enough.

use std::time::Duration;

use tidegate_control::{Concurrency, PerStage, Stage};

use crate::counters::{Glimpse, StageGlimpse};
use crate::pipeline::waits::share_waited;
use crate::rate_samples::RateSamples;
use crate::sys::clock::Instant;

/// Fewer pieces of an epoch in which a stage moved something say little of its rate.
const MIN_ARRIVALS: u32 = 5;

/// A stage whose workers wait longer than this share moves what its neighbours let it, in gushes as large as they like.
const MAX_WAITED: f64 = 0.5;

/// What is to be done with an epoch, by what it has shown so far.
#[derive(Clone, Copy, Debug)]
pub(super) enum Judgement {
    /// It goes on.
    TooLittle,
    /// It is over.
    Enough,
    /// It is measured from here on, within this: what came before is not how it is now.
    Anew(Span),
}

/// When an epoch may end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// When the set-point was given.
    pub begun: Instant,
    /// Not before.
    pub soonest: Instant,
    /// Not later if nothing moves.
    pub usual: Instant,
    /// Not later.
    pub latest: Instant,
    /// How uncertain a rate may be, as a share of it.
    pub sure: f64,
    /// How often it is looked.
    pub look: Duration,
    /// What is seen of a path that changes meanwhile; `None` on the way up, where all that moves is on its way.
    pub change: Option<Duration>,
}

impl Span {
    /// The same, measured from now on: for what shows a change, or for as long as it has lasted. `None` if there is no
    /// time for that.
    fn anew(self, now: Instant) -> Option<Self> {
        let soonest = now + self.change.unwrap_or(now.saturating_duration_since(self.begun));
        let usual = if self.change.is_some() { soonest } else { self.usual.max(soonest) };
        (soonest <= self.latest).then_some(Self { soonest, usual, change: None, ..self })
    }

    /// From when on it is looked whether it is to be measured anew.
    fn told(&self, began: Instant) -> Instant {
        self.change.map_or(self.soonest, |change| (began + 2 * change).min(self.soonest))
    }
}

/// One stage, since the epoch began.
#[derive(Debug)]
struct Watched {
    first: StageGlimpse,
    last: StageGlimpse,
    samples: RateSamples,
}

/// The stages that are seen, since the epoch began.
#[derive(Debug)]
pub(super) struct Watch {
    began: Instant,
    last: Instant,
    workers: Concurrency,
    stages: PerStage<Option<Watched>>,
}

impl Watch {
    /// Begins now, with so many workers.
    pub(super) fn new(first: Glimpse, workers: Concurrency) -> Self {
        let now = Instant::now();
        let watched = |first| Watched { first, last: first, samples: RateSamples::default() };
        Self { began: now, last: now, workers, stages: first.map(|stage| stage.map(watched)) }
    }

    /// Looks again.
    pub(super) fn look(&mut self, seen: Glimpse, now: Instant) {
        let time = now.saturating_duration_since(self.last);
        for stage in Stage::ALL {
            if let (Some(watched), Some(seen)) = (&mut self.stages[stage], seen[stage]) {
                watched.samples.add(seen.moved.saturating_sub(watched.last.moved), time);
                watched.last = seen;
            }
        }
        self.last = now;
    }

    /// What comes of what was seen by the last look.
    pub(super) fn judge(&self, span: &Span) -> Judgement {
        let now = self.last;
        if now < span.told(self.began) {
            return Judgement::TooLittle;
        }
        let (mut moving, mut sure, mut drifts, mut changes) = (false, true, false, false);
        for stage in Stage::ALL {
            let Some(watched) = &self.stages[stage] else { continue };
            let samples = &watched.samples;
            if samples.arrivals() > 0 && !self.mostly_waits(watched, self.workers[stage]) {
                moving = true;
                if samples.arrivals() < MIN_ARRIVALS || samples.relative_error() > span.sure {
                    sure = false;
                    drifts |= now >= span.soonest && samples.drifts();
                }
                // A few pieces are uneven by chance.
                let many = samples.arrivals() >= 2 * MIN_ARRIVALS;
                changes |= span.change.is_some() && many && samples.steps();
            }
        }
        let enough = now >= span.soonest && if moving { sure } else { now >= span.usual };
        let over = now >= span.latest || enough;
        match span.anew(now) {
            Some(later) if changes => Judgement::Anew(later),
            _ if over => Judgement::Enough,
            Some(later) if drifts => Judgement::Anew(later),
            _ => Judgement::TooLittle,
        }
    }

    fn mostly_waits(&self, watched: &Watched, workers: u16) -> bool {
        let interval = self.last.saturating_duration_since(self.began);
        let waited = (watched.first.waited, watched.last.waited);
        share_waited(interval, waited, workers).is_some_and(|share| share > MAX_WAITED)
    }

    /// How uncertain each stage's rate is; of one that is not seen here what is `told`, and else that of the network.
    pub(super) fn standard_error(&self, told: PerStage<f64>) -> PerStage<f64> {
        let errors = PerStage::from_fn(|stage| {
            self.stages[stage].as_ref().map(|watched| watched.samples.relative_error())
        });
        let network = errors.network.unwrap_or(0.0);
        let told = |stage| Some(told[stage]).filter(|&error| error > 0.0);
        PerStage::from_fn(|stage| errors[stage].or(told(stage)).unwrap_or(network))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::manual;

    const LOOK: Duration = Duration::from_millis(20);
    const SECOND: Duration = Duration::from_secs(1);

    /// How long an epoch of one worker a stage takes, and what it tells, with what each stage has moved and waited
    /// after so many looks.
    fn lasts(soonest: Duration, glimpse: impl Fn(u64) -> Glimpse) -> (Duration, PerStage<f64>) {
        let clock = manual::stop();
        let began = Instant::now();
        let (usual, latest) = (began + SECOND, began + 4 * SECOND);
        let change = (soonest == SECOND).then_some(SECOND / 4);
        let mut span =
            Span { begun: began, soonest: began + soonest, usual, latest, sure: 0.15, look: LOOK, change };
        let mut watch = Watch::new(glimpse(0), PerStage::all(1));
        for look in 1.. {
            clock.advance(LOOK);
            watch.look(glimpse(look), Instant::now());
            match watch.judge(&span) {
                Judgement::TooLittle => {}
                Judgement::Enough => break,
                Judgement::Anew(later) => {
                    (span, watch) = (later, Watch::new(glimpse(look), PerStage::all(1)));
                }
            }
        }
        (began.elapsed(), watch.standard_error(PerStage::default()))
    }

    fn moved(bytes: u64) -> Option<StageGlimpse> {
        Some(StageGlimpse { moved: bytes, waited: Duration::ZERO })
    }

    #[test]
    fn an_even_flow_is_measured_no_longer_than_usual() {
        let (lasted, error) = lasts(SECOND, |at| PerStage::new(moved(50 * at), moved(100 * at), None));
        assert_eq!((lasted, error), (SECOND, PerStage::all(0.0)));
        let (lasted, _) = lasts(SECOND / 4, |at| PerStage::new(None, moved(100 * at), None));
        assert!(lasted < SECOND / 4 + LOOK, "{lasted:?}");
    }

    #[test]
    fn what_comes_in_few_pieces_is_waited_for_but_not_for_ever() {
        // Every 300 ms: the fifth comes after 1.5 s.
        let (lasted, _) = lasts(SECOND, |at| PerStage::new(None, moved(at / 15 * 1000), None));
        assert!((3 * SECOND / 2..3 * SECOND).contains(&lasted), "{lasted:?}");
        // One that is seen in another stage is waited for as well.
        let (other, error) = lasts(SECOND, |at| PerStage::new(moved(at / 15 * 1000), moved(at), None));
        assert_eq!((other, error.write), (lasted, error.network), "what is not seen is as the network");
        assert!(error.read > error.network);
    }

    #[test]
    fn what_was_on_its_way_is_left_out() {
        let (lasted, error) = lasts(SECOND, |at| PerStage::new(None, moved(at.pow(3)), None));
        assert!((2 * SECOND..=4 * SECOND).contains(&lasted), "it grows all the time: {lasted:?}");
        assert!(error.network < 0.4, "the last half of it varies less: {error:?}");
        // A slow start that is over after 400 ms, and a path that is another one after 600.
        let start =
            |at: u64| PerStage::new(None, moved(at.min(20).pow(2) + 40 * at.saturating_sub(20)), None);
        let (lasted, error) = lasts(SECOND / 4, start);
        assert!(lasted <= SECOND && error.network < 0.15, "{lasted:?}, {error:?}");
        let step = |at: u64| PerStage::new(None, moved(100 * at.min(30) + 20 * at.saturating_sub(30)), None);
        let (lasted, error) = lasts(SECOND, step);
        assert!(lasted < 5 * SECOND / 4 && error.network < 0.01, "{lasted:?}, {error:?}");
    }

    #[test]
    fn what_does_not_move_and_what_waits_for_others_is_not_waited_for() {
        assert_eq!(lasts(SECOND, |_| PerStage::all(moved(7))).0, SECOND);
        assert_eq!(lasts(SECOND / 4, |_| PerStage::all(moved(7))).0, SECOND);
        // Readers fill half the staging at once and then wait for long.
        let gushes = |at: u64| StageGlimpse { moved: at / 40 * 5_000_000, waited: LOOK * 9 / 10 * at as u32 };
        let (lasted, error) = lasts(SECOND, |at| PerStage::new(Some(gushes(at)), moved(100 * at), None));
        assert_eq!(lasted, SECOND);
        assert!(error.read > 0.5, "what is not waited for is told: {error:?}");
    }
}
