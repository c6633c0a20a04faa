//! How time is cut into epochs: what is waited for, what is left out, and what is measured, for whatever
//! moves bytes and can count them.

use std::time::Duration;

use tidegate_control::{Concurrency, Observation};

use crate::error::Result;
use crate::sys::clock::Instant;

/// How often a short epoch is looked into.
const LOOK: Duration = Duration::from_millis(20);

/// How uncertain the mean of a short epoch may be, as a share of it: a step on the way up is told by a
/// factor of two to four.
const SURE: f64 = 0.2;

/// The share of a step on the way up that is not measured where a new worker takes longer than a short epoch to get
/// up to speed: what it moves while it gets there would pass for its rate.
const WARMING: f64 = 0.6;

/// So many epochs are the most that a step lasts for it.
const LONGEST: u32 = 4;

/// How a transfer is driven.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// One epoch, settling included.
    pub epoch: Duration,
    /// The part of it after a change that is not measured.
    pub settle: Duration,
    /// When to end a transfer that has no end of its own (memory to memory).
    pub stop_after: Option<Duration>,
}

impl Pace {
    /// Epochs of this length, of which a fifth, at most 500 ms, is left out to settle.
    pub fn new(epoch: Duration) -> Self {
        Self { epoch, settle: (epoch / 5).min(Duration::from_millis(500)), stop_after: None }
    }

    /// The same for one step on the way up: a quarter of the time, or what a new worker takes to get up to speed and
    /// to show it.
    fn shortened(self, warm_up: Duration) -> Self {
        let quick = self.epoch / 4;
        if warm_up <= quick {
            return Self { epoch: quick, settle: Self::new(quick).settle, ..self };
        }
        let warm_up = warm_up.min(self.epoch * LONGEST);
        Self { epoch: warm_up, settle: warm_up.mul_f64(WARMING), ..self }
    }
}

/// What is under way and is measured in epochs.
pub trait Running {
    /// Its counters at one moment.
    type Counters: Copy;

    /// Lets so many workers run.
    fn resize(&mut self, setpoint: Concurrency);

    /// Lets time pass until `until`; `None` once everything has ended.
    fn pass(&mut self, until: Instant) -> Result<Option<()>>;

    /// What was counted so far; `None` if it ended meanwhile.
    fn counters(&mut self) -> Result<Option<Self::Counters>>;

    /// Bytes that the network has moved.
    fn moved(&self, counters: &Self::Counters) -> u64;

    /// How long a new worker takes to get up to speed, and to show it.
    fn warm_up(&self) -> Duration {
        Duration::ZERO
    }

    /// What the time between two counts showed.
    fn observe(&self, setpoint: Concurrency, before: &Self::Counters, after: &Self::Counters) -> Observation;
}

/// Takes one step after the other of something that runs.
#[derive(Clone, Copy, Debug)]
pub struct Stepper<C> {
    pace: Pace,
    short: bool,
    setpoint: Option<Concurrency>,
    before: Option<C>,
}

impl<C: Copy> Stepper<C> {
    /// Nothing has been asked for yet.
    pub const fn new(pace: Pace) -> Self {
        Self { pace, short: false, setpoint: None, before: None }
    }

    /// Whether the next epoch may be a short one.
    pub const fn short_epochs(&mut self, short: bool) {
        self.short = short;
    }

    /// One epoch with `setpoint`; `None` once everything has ended.
    pub fn step<R: Running<Counters = C>>(
        &mut self,
        run: &mut R,
        setpoint: Concurrency,
    ) -> Result<Option<Observation>> {
        let mut pace = if self.short { self.pace.shortened(run.warm_up()) } else { self.pace };
        let mut begun = Instant::now();
        let changed = self.setpoint != Some(setpoint);
        if changed {
            let first = self.setpoint.replace(setpoint).is_none();
            run.resize(setpoint);
            if first && self.short {
                if wait_for_data(run, begun + self.pace.epoch)?.is_none() {
                    return Ok(None);
                }
                begun = Instant::now();
                // Only now it is known for sure how long the path is.
                pace = self.pace.shortened(run.warm_up());
            }
            if run.pass(begun + pace.settle)?.is_none() {
                return Ok(None);
            }
        }
        // Without a change the last epoch's end is this one's beginning.
        let before = match self.before.filter(|_| !changed) {
            Some(before) => Some(before),
            None => run.counters()?,
        };
        let (soonest, latest) = (begun + pace.epoch, begun + self.pace.epoch.max(pace.epoch));
        let after = match before {
            Some(before) if self.short => watch(run, &before, (soonest, latest))?,
            _ => run.pass(soonest)?.map(|()| run.counters()).transpose()?,
        };
        self.measured(run, setpoint, before, after)
    }

    /// What was moved between two counts, of which the second may have come too late.
    fn measured<R: Running<Counters = C>>(
        &mut self,
        run: &mut R,
        setpoint: Concurrency,
        before: Option<C>,
        after: Option<Option<C>>,
    ) -> Result<Option<Observation>> {
        let Some(after) = after else { return Ok(None) };
        self.before = after;
        match (before, after) {
            (Some(before), Some(after)) => Ok(Some(run.observe(setpoint, &before, &after))),
            // It ended while we asked.
            _ => Ok(run.pass(Instant::now())?.and(None)),
        }
    }
}

/// Waits for the first bytes, so that connecting is not measured, but not beyond `until`; `None` once everything
/// has ended.
fn wait_for_data<R: Running>(run: &mut R, until: Instant) -> Result<Option<()>> {
    loop {
        if run.pass(Instant::now() + LOOK)?.is_none() {
            return Ok(None);
        }
        let Some(now) = run.counters()? else { return run.pass(Instant::now()).map(|_| None) };
        if run.moved(&now) > 0 || Instant::now() >= until {
            return Ok(Some(()));
        }
    }
}

/// Lets time pass from `soonest` on until it is sure what is moved, at `latest`: a server that sends in
/// bursts says little in a short time. Answers with the last count; `None` once everything has ended.
fn watch<R: Running>(
    run: &mut R,
    before: &R::Counters,
    (soonest, latest): (Instant, Instant),
) -> Result<Option<Option<R::Counters>>> {
    let mut rates = Vec::new();
    let mut last = (Instant::now(), run.moved(before));
    loop {
        if run.pass(Instant::now() + LOOK)?.is_none() {
            return Ok(None);
        }
        let Some(now) = run.counters()? else { return Ok(Some(None)) };
        let (at, moved) = (Instant::now(), run.moved(&now));
        rates.push(moved.saturating_sub(last.1) as f64 / (at - last.0).as_secs_f64());
        last = (at, moved);
        if at >= latest || (at >= soonest && uncertainty(&rates) <= SURE) {
            return Ok(Some(Some(now)));
        }
    }
}

/// The standard error of the mean, as a share of it; as large as can be if nothing came.
fn uncertainty(rates: &[f64]) -> f64 {
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    if mean <= 0.0 {
        return f64::INFINITY;
    }
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count;
    (variance / count).sqrt() / mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_not_believed_and_an_even_flow_is() {
        assert!(uncertainty(&[10.0, 12.0, 9.0, 11.0]) < SURE);
        assert!(uncertainty(&[0.0, 0.0, 0.0, 100.0, 0.0, 0.0, 0.0, 0.0]) > SURE);
        assert!(uncertainty(&[0.0, 0.0]) > SURE);
    }

    #[test]
    fn a_short_epoch_is_a_quarter_or_what_a_worker_needs() {
        let pace = Pace::new(Duration::from_secs(1));
        let (near, far) = (pace.shortened(Duration::ZERO), pace.shortened(Duration::from_millis(900)));
        assert_eq!((near.epoch, near.settle), (Duration::from_millis(250), Duration::from_millis(50)));
        assert_eq!(far.epoch, Duration::from_millis(900));
        assert_eq!(far.settle, Duration::from_millis(540), "its slow start is not measured");
        let farthest = pace.shortened(Duration::from_secs(9));
        assert_eq!((farthest.epoch, farthest.settle), (4 * pace.epoch, Duration::from_millis(2400)));
    }
}
