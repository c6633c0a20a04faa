//! A fluid model of the three-stage path with both stagings: a scenario as an [`Environment`].
//!
//! Time moves in ticks of 0.1 s. In a tick each stage moves what its workers carry, bounded by what
//! its input staging holds and its output staging takes, the neighbours' flow of the same tick
//! included; the greatest flows that satisfy all three are taken. New workers approach their rate
//! exponentially, removed ones stop at once. Rates and staging are both counted in bits.

use std::convert::Infallible;
use std::time::Duration;

use crate::environment::Environment;
use crate::observation::{Observation, Remaining};
use crate::path::Path;
use crate::rng::Rng;
use crate::scenario::Scenario;
use crate::stage::{Bounds, Concurrency, Ends, PerStage, Stage};
use crate::units::{BitRate, ByteCount};

const TICK_MS: u64 = 100;
const TICK: f64 = TICK_MS as f64 / 1000.0;

/// How a scenario is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatorOptions {
    /// Seed of the measurement noise.
    pub seed: u64,
    /// How long an epoch lasts; rounded down to ticks of 0.1 s, at least one.
    pub epoch: Duration,
    /// What is left out of the measurement after each decision; less than an epoch.
    pub settle: Duration,
    /// Epochs after which to stop; endless if absent, unless the data set ends.
    pub epochs: Option<u32>,
}

impl SimulatorOptions {
    /// Epochs of `epoch`, of which the first fifth, or the second of the published rules' three,
    /// is left out.
    pub fn new(seed: u64, epoch: Duration, epochs: u32) -> Self {
        let settle = if epoch >= Duration::from_secs(3) { Duration::from_secs(1) } else { epoch / 5 };
        Self { seed, epoch, settle, epochs: Some(epochs) }
    }
}

/// What an epoch truly delivered, settling time included and noise left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delivered {
    /// The end of the epoch.
    pub at: Duration,
    /// Its length.
    pub length: Duration,
    /// Workers that ran.
    pub concurrency: Concurrency,
    /// What the last stage moved.
    pub goodput: BitRate,
    /// What the oracle would have moved.
    pub best: BitRate,
}

/// A scenario that answers set-points.
#[derive(Clone, Debug)]
pub struct Simulator {
    scenario: Scenario,
    options: SimulatorOptions,
    rng: Rng,
    path: Path,
    best: BitRate,
    changes: usize,
    ticks: u64,
    /// Workers at full rate, once new ones have ramped up.
    active: PerStage<f64>,
    /// Bits staged.
    staged: Ends<f64>,
    /// Bits that entered the first stage and left the last.
    entered: f64,
    left: f64,
    delivered: Vec<Delivered>,
}

impl Simulator {
    /// The scenario at its start, with empty staging and no worker running.
    pub fn new(scenario: Scenario, options: SimulatorOptions) -> Self {
        let path = Path::at(&scenario, Duration::ZERO);
        Self {
            best: path.oracle().goodput,
            changes: scenario.timeline.iter().take_while(|change| change.at.is_zero()).count(),
            path,
            options,
            rng: Rng::new(options.seed),
            scenario,
            ticks: 0,
            active: PerStage::all(0.0),
            staged: Ends { sender: 0.0, receiver: 0.0 },
            entered: 0.0,
            left: 0.0,
            delivered: Vec::new(),
        }
    }

    /// What every epoch so far truly delivered.
    pub fn delivered(&self) -> &[Delivered] {
        &self.delivered
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.ticks * TICK_MS)
    }

    fn size(&self) -> f64 {
        self.scenario.dataset.map_or(f64::INFINITY, |dataset| dataset.size.bits())
    }

    fn finished(&self) -> bool {
        self.left + 1.0 > self.size()
    }

    fn apply_changes(&mut self) {
        let now = self.now();
        let due = self.scenario.timeline.iter().take_while(|change| change.at <= now).count();
        if due > self.changes {
            self.changes = due;
            self.path = Path::at(&self.scenario, now);
            self.best = self.path.oracle().goodput;
        }
    }

    /// Lets one tick pass; returns the bits each stage moved.
    fn tick(&mut self, setpoint: Concurrency) -> PerStage<f64> {
        self.apply_changes();
        for stage in Stage::ALL {
            let n = f64::from(setpoint[stage]);
            let tau = self.path.stages[stage].map_or(0.0, |path| path.ramp_up.as_secs_f64());
            let active = &mut self.active[stage];
            let rises = tau > 0.0 && n > *active;
            *active = if rises { *active + (n - *active) * (1.0 - (-TICK / tau).exp()) } else { n };
        }
        let size = Ends {
            sender: self.scenario.staging.sender.bits(),
            receiver: self.scenario.staging.receiver.bits(),
        };
        let unread = self.size() - self.entered;
        let mut flow = PerStage::from_fn(|stage| self.path.carried(stage, self.active[stage]) * TICK);
        flow.read = flow.read.min(unread);
        // Three passes carry a bound from one end of the path to the other and back.
        for _ in 0..3 {
            flow.network = flow.network.min(self.staged.sender + flow.read);
            flow.write = flow.write.min(self.staged.receiver + flow.network);
            flow.network = flow.network.min(size.receiver - self.staged.receiver + flow.write);
            flow.read = flow.read.min(size.sender - self.staged.sender + flow.network);
        }
        self.staged.sender = (self.staged.sender + flow.read - flow.network).clamp(0.0, size.sender);
        self.staged.receiver = (self.staged.receiver + flow.network - flow.write).clamp(0.0, size.receiver);
        self.entered += flow.read;
        self.left += flow.write;
        self.ticks += 1;
        flow
    }

    fn measured(&mut self, bits: f64, seconds: f64) -> BitRate {
        let error = self.rng.normal(1.0, self.scenario.noise.throughput);
        BitRate::from_bps(bits / seconds * error)
    }

    fn remaining(&self) -> Option<Remaining> {
        self.scenario.dataset.map(|dataset| {
            let share = (1.0 - self.left / self.size()).clamp(0.0, 1.0);
            Remaining {
                bytes: ByteCount((dataset.size.0 as f64 * share).round() as u64),
                files: (dataset.files as f64 * share).ceil() as u64,
            }
        })
    }

    /// Free and total staging; an absent stage has none beside it.
    fn staging(&self) -> (Ends<ByteCount>, Ends<ByteCount>) {
        let exists =
            Ends { sender: self.path.stages.read.is_some(), receiver: self.path.stages.write.is_some() };
        let size = self.scenario.staging;
        let capacity = |exists: bool, size| if exists { size } else { ByteCount(0) };
        let capacity = Ends {
            sender: capacity(exists.sender, size.sender),
            receiver: capacity(exists.receiver, size.receiver),
        };
        let free =
            |capacity: ByteCount, bits: f64| capacity.saturating_sub(ByteCount((bits / 8.0).round() as u64));
        let free = Ends {
            sender: free(capacity.sender, self.staged.sender),
            receiver: free(capacity.receiver, self.staged.receiver),
        };
        (free, capacity)
    }
}

impl Environment for Simulator {
    type Error = Infallible;

    fn bounds(&self) -> PerStage<Bounds> {
        self.path.bounds()
    }

    fn step(&mut self, setpoint: Concurrency) -> Result<Option<Observation>, Infallible> {
        let over = self.options.epochs.is_some_and(|epochs| self.delivered.len() >= epochs as usize);
        if over || self.finished() {
            return Ok(None);
        }
        let setpoint = self.bounds().clamp(setpoint);
        let ticks = (self.options.epoch.as_millis() as u64 / TICK_MS).max(1);
        let settle = (self.options.settle.as_millis() as u64 / TICK_MS).min(ticks - 1);
        let (begin, before) = (self.ticks, self.left);
        let (mut moved, mut counted, mut lost) = (PerStage::all(0.0), 0u64, 0.0);
        for tick in 0..ticks {
            let flow = self.tick(setpoint);
            if tick >= settle || self.finished() {
                moved = PerStage::from_fn(|stage| moved[stage] + flow[stage]);
                lost += self.path.loss(self.active.network);
                counted += 1;
            }
            if self.finished() {
                break;
            }
        }
        let length = Duration::from_millis((self.ticks - begin) * TICK_MS);
        self.delivered.push(Delivered {
            at: self.now(),
            length,
            concurrency: setpoint,
            goodput: BitRate::from_bps((self.left - before) / length.as_secs_f64()),
            best: self.best,
        });
        let interval = Duration::from_millis(counted * TICK_MS);
        let mut throughput = PerStage::from_fn(|stage| self.measured(moved[stage], interval.as_secs_f64()));
        for stage in Stage::ALL {
            if self.path.stages[stage].is_none() {
                throughput[stage] = throughput.network;
            }
        }
        let (staging_free, staging_capacity) = self.staging();
        Ok(Some(Observation {
            at: self.now(),
            interval,
            concurrency: setpoint,
            throughput,
            staging_free,
            staging_capacity,
            loss: Some(lost / counted as f64),
            rtt: (!self.path.link.rtt.is_zero()).then_some(self.path.link.rtt),
            remaining: self.remaining(),
        }))
    }
}
