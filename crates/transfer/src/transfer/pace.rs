//! How time is cut into epochs: what is waited for, what is left out, and what is measured, for whatever
//! moves bytes and can count them.

use std::time::{Duration, Instant};

use tidegate_control::{Concurrency, Observation};

use crate::error::Result;

/// How often the first bytes are looked for.
const FIRST_LOOK: Duration = Duration::from_millis(20);

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

    /// The same for one step on the way up: a quarter of the time, unless a new worker takes longer to
    /// show what it moves.
    fn hurried(self, warm_up: Duration) -> Self {
        let epoch = (self.epoch / 4).max(warm_up).min(self.epoch);
        Self { epoch, settle: Self::new(epoch).settle, ..self }
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

    /// Whether anything has been moved.
    fn has_begun(&self, counters: &Self::Counters) -> bool;

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
    hurried: bool,
    setpoint: Option<Concurrency>,
    before: Option<C>,
}

impl<C: Copy> Stepper<C> {
    /// Nothing has been asked for yet.
    pub const fn new(pace: Pace) -> Self {
        Self { pace, hurried: false, setpoint: None, before: None }
    }

    /// Whether the next epoch may be a short one.
    pub const fn hurry(&mut self, hurried: bool) {
        self.hurried = hurried;
    }

    /// One epoch with `setpoint`; `None` once everything has ended.
    pub fn step<R: Running<Counters = C>>(
        &mut self,
        run: &mut R,
        setpoint: Concurrency,
    ) -> Result<Option<Observation>> {
        let pace = if self.hurried { self.pace.hurried(run.warm_up()) } else { self.pace };
        let mut begun = Instant::now();
        let changed = self.setpoint != Some(setpoint);
        if changed {
            let first = self.setpoint.replace(setpoint).is_none();
            run.resize(setpoint);
            if first && self.hurried {
                if wait_for_data(run, begun + self.pace.epoch)?.is_none() {
                    return Ok(None);
                }
                begun = Instant::now();
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
        if run.pass(begun + pace.epoch)?.is_none() {
            return Ok(None);
        }
        let after = run.counters()?;
        self.before = after;
        match (before, after) {
            (Some(before), Some(after)) => Ok(Some(run.observe(setpoint, &before, &after))),
            // It ended while we asked.
            _ => Ok(run.pass(Instant::now())?.and(None)),
        }
    }
}

/// Waits for the first bytes, so that connecting is not measured, but not beyond `until`.
fn wait_for_data<R: Running>(run: &mut R, until: Instant) -> Result<Option<()>> {
    while Instant::now() < until {
        if run.pass(Instant::now() + FIRST_LOOK)?.is_none() {
            return Ok(None);
        }
        match run.counters()? {
            Some(now) if run.has_begun(&now) => break,
            Some(_) => {}
            None => return run.pass(Instant::now()).map(|_| None),
        }
    }
    Ok(Some(()))
}
