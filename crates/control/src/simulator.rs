//! A scenario as an [`Environment`]: the fluid path, and what happens to it in time.
//!
//! An epoch is cut where something changes (the timeline, a burst of other traffic, a set-point that
//! takes effect late, the end of the settling time); between two cuts [`Fluid`] tells what moved. The
//! clock counts nanoseconds, so epochs never drift. A step allocates nothing.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use crate::environment::Environment;
use crate::fluid::{Fluid, Moved};
use crate::observation::{Observation, Remaining};
use crate::optimizer::Proposal;
use crate::pace::Pace;
use crate::path::Path;
use crate::rng::Rng;
use crate::scenario::Scenario;
use crate::simulated_kernel::SimulatedKernel;
use crate::stage::{Bounds, Concurrency, Ends, PerStage, Stage};
use crate::units::{BitRate, ByteCount};

/// The time of what will not happen.
const NEVER: u64 = u64::MAX;

/// How often the streams' congestion control is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// So many time constants until new workers are up to speed.
const WARM_UP: f64 = 2.0;

/// How a scenario is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatorOptions {
    /// Seed of the measurement noise and of bursts.
    pub seed: u64,
    /// How long an epoch lasts.
    pub epoch: Duration,
    /// What is left out of the measurement after each decision; less than an epoch.
    pub settle: Duration,
    /// The time after which to stop, in epochs of this length; endless if absent, unless the data set ends.
    pub epochs: Option<u32>,
    /// Whether a rule that asks for short epochs on its way up gets them, as it does in a transfer.
    pub short_epochs: bool,
    /// Whether another congestion control is tried where packets are lost by chance, as a transfer does; if so, whether it runs
    /// under a pace.
    pub tries: Option<bool>,
}

impl SimulatorOptions {
    /// Epochs of `epoch`, of which the first fifth, or the second of the published rules' three,
    /// is left out.
    pub fn new(seed: u64, epoch: Duration, epochs: u32) -> Self {
        let settle = if epoch >= Duration::from_secs(3) { Duration::from_secs(1) } else { epoch / 5 };
        Self { seed, epoch, settle, epochs: Some(epochs), short_epochs: false, tries: None }
    }

    /// The same with short epochs for a rule that asks for them.
    pub fn with_short_epochs(self) -> Self {
        Self { short_epochs: true, ..self }
    }

    /// The same where another congestion control is tried, under a pace if it is `bounded`.
    pub fn with_trials(self, bounded: bool) -> Self {
        Self { tries: Some(bounded), ..self }
    }
}

/// What an epoch truly delivered, settling time included and noise left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delivered {
    /// The end of the epoch.
    pub at: Duration,
    /// Its length.
    pub length: Duration,
    /// Workers that ran at its end.
    pub concurrency: Concurrency,
    /// What the last stage moved.
    pub goodput: BitRate,
    /// What the oracle would have moved.
    pub best: BitRate,
}

/// A path and the oracle's goodput on it in bit/s, between bursts and in one.
#[derive(Clone, Copy, Debug)]
struct Conditions {
    quiet: (Path, f64),
    burst: (Path, f64),
}

impl Conditions {
    fn at(scenario: &Scenario, now: u64) -> Self {
        let judged = |path: Path| (path, path.oracle().goodput.0 as f64);
        let path = Path::at(scenario, Duration::from_nanos(now));
        let quiet = judged(path);
        let burst = if path.background.bursts.is_some() { judged(path.in_burst()) } else { quiet };
        Self { quiet, burst }
    }
}

/// A scenario that answers set-points.
///
/// ```
/// use std::time::Duration;
/// use tidegate_control::random_path::unseen;
/// use tidegate_control::{Environment, PerStage, Simulator, SimulatorOptions};
///
/// let options = SimulatorOptions::new(1, Duration::from_secs(1), 10);
/// let mut simulator = Simulator::new(unseen(7), options);
/// let Ok(seen) = simulator.step(PerStage::all(2));
/// assert_eq!(seen.map(|seen| seen.at), Some(Duration::from_secs(1)));
/// ```
#[derive(Clone, Debug)]
pub struct Simulator {
    scenario: Scenario,
    options: SimulatorOptions,
    bounds: PerStage<Bounds>,
    /// The conditions at the start, kept for resetting.
    initial: Conditions,
    conditions: Conditions,
    best: f64,
    fluid: Fluid,
    noise: Rng,
    bursts: Rng,
    bursting: bool,
    next_burst: u64,
    next_change: u64,
    /// When the next of all that happens by itself is due.
    due: u64,
    /// Whether the next epoch may be a short one.
    short: bool,
    /// Nanoseconds since the start.
    now: u64,
    epochs: u32,
    /// Set-points asked for and not yet in force, with the time they will be.
    asked: VecDeque<(u64, Concurrency)>,
    /// Bits at the source.
    unread: f64,
    last: Option<Delivered>,
    delivered: Option<Vec<Delivered>>,
    /// The streams' congestion control, where it is not always the same, and when it is looked at next.
    kernel: Option<SimulatedKernel>,
    next_look: u64,
}

impl Simulator {
    /// Lets the next epoch be a short one, where the options have such.
    pub fn short_epochs(&mut self, short: bool) {
        self.short = short && self.options.short_epochs;
    }

    /// The scenario at its start, with empty staging and no worker running.
    pub fn new(scenario: Scenario, options: SimulatorOptions) -> Self {
        let initial = Conditions::at(&scenario, 0);
        let mut simulator = Self {
            bounds: scenario.bounds(),
            initial,
            conditions: initial,
            best: initial.quiet.1,
            fluid: Fluid::new(initial.quiet.0, scenario.staging),
            noise: Rng::new(0),
            bursts: Rng::new(0),
            bursting: false,
            next_burst: NEVER,
            next_change: NEVER,
            due: NEVER,
            short: false,
            now: 0,
            epochs: 0,
            asked: VecDeque::new(),
            unread: 0.0,
            last: None,
            delivered: None,
            kernel: None,
            next_look: NEVER,
            scenario,
            options,
        };
        simulator.reset(options.seed);
        simulator
    }

    /// The same, keeping what every epoch delivers.
    pub fn recording(mut self) -> Self {
        self.delivered = Some(Vec::new());
        self
    }

    /// Back to the start, with another seed. Allocates nothing.
    pub fn reset(&mut self, seed: u64) {
        self.options.seed = seed;
        self.conditions = self.initial;
        self.best = self.initial.quiet.1;
        self.fluid = Fluid::new(self.initial.quiet.0, self.scenario.staging);
        self.noise = Rng::new(seed);
        self.bursts = Rng::new(seed).fork();
        self.bursting = false;
        self.short = false;
        self.now = 0;
        self.next_burst = self.draw_burst();
        self.next_change = self.change_after(0);
        self.epochs = 0;
        self.asked.clear();
        self.kernel = self.options.tries.map(SimulatedKernel::new);
        self.next_look = if self.kernel.is_some() { 0 } else { NEVER };
        self.due = self.next_due();
        self.unread = self.scenario.dataset.map_or(f64::INFINITY, |dataset| dataset.size.bits());
        self.last = None;
        if let Some(delivered) = &mut self.delivered {
            delivered.clear();
        }
    }

    /// What is staged and who works, to look at or to begin an episode elsewhere.
    pub const fn fluid(&mut self) -> &mut Fluid {
        &mut self.fluid
    }

    /// What the last epoch truly delivered.
    pub const fn last(&self) -> Option<Delivered> {
        self.last
    }

    /// What every epoch so far truly delivered; empty unless [recording](Self::recording).
    pub fn delivered(&self) -> &[Delivered] {
        self.delivered.as_deref().unwrap_or_default()
    }

    /// The path in force, bursts included.
    pub const fn path(&self) -> &Path {
        self.fluid.path()
    }

    /// Bits not yet at the sink.
    #[inline]
    fn missing(&self) -> f64 {
        let staged = self.fluid.staged();
        self.unread + staged.sender + staged.receiver
    }

    #[inline]
    fn finished(&self) -> bool {
        self.missing() < 1.0
    }

    fn change_after(&self, now: u64) -> u64 {
        let times = self.scenario.timeline.iter().map(|change| change.at.as_nanos() as u64);
        times.filter(|&at| at > now).min().unwrap_or(NEVER)
    }

    /// When the present burst, or the quiet before the next, ends.
    fn draw_burst(&mut self) -> u64 {
        let Some(bursts) = self.scenario.background.bursts else { return NEVER };
        let mean = if self.bursting { bursts.on } else { bursts.off };
        let length = -(1.0 - self.bursts.unit()).ln() * mean.as_nanos() as f64;
        self.now.saturating_add((length as u64).max(1))
    }

    /// Lets happen what is due now.
    fn apply(&mut self) {
        let changed = self.next_change <= self.now;
        if changed {
            self.conditions = Conditions::at(&self.scenario, self.now);
            self.next_change = self.change_after(self.now);
        }
        let turned = self.next_burst <= self.now;
        if turned {
            self.bursting = !self.bursting;
            self.next_burst = self.draw_burst();
        }
        if changed || turned {
            let (path, best) = if self.bursting { self.conditions.burst } else { self.conditions.quiet };
            self.fluid.set_path(path);
            self.best = best;
        }
        while let Some(&(at, setpoint)) = self.asked.front()
            && at <= self.now
        {
            self.fluid.set(setpoint);
            self.asked.pop_front();
        }
        if let Some(kernel) = self.kernel.as_mut().filter(|_| self.next_look <= self.now) {
            kernel.look(&mut self.fluid, Duration::from_nanos(self.now));
            self.next_look = self.now.saturating_add(nanos(LOOK));
        }
        self.due = self.next_due();
    }

    fn next_due(&self) -> u64 {
        let asked = self.asked.front().map_or(NEVER, |&(at, _)| at);
        asked.min(self.next_change).min(self.next_burst).min(self.next_look)
    }

    fn ask(&mut self, setpoint: Concurrency) {
        let setpoint = self.bounds.clamp(setpoint);
        let lag = self.scenario.decision.lag;
        if lag.is_zero() || self.epochs == 0 {
            self.fluid.set(setpoint);
        } else {
            self.asked.push_back((self.now.saturating_add(nanos(lag)), setpoint));
            self.due = self.next_due();
        }
    }

    /// Lets time pass until `end`, or until everything is moved, and adds up what moved and what
    /// the oracle would have moved.
    fn pass(&mut self, end: u64, moved: &mut Moved, best: &mut f64) {
        while self.now < end && !self.finished() {
            if self.due <= self.now {
                self.apply();
            }
            let cut = end.min(self.due);
            let length = seconds(cut - self.now);
            let piece = self.fluid.pass(length, self.unread);
            if let Some(kernel) = &mut self.kernel {
                kernel.count(&self.fluid, &piece);
            }
            self.unread = (self.unread - piece.bits.read).max(0.0);
            let passed = if piece.seconds < length { (piece.seconds * 1e9).ceil() as u64 } else { NEVER };
            self.now += passed.min(cut - self.now);
            moved.add(&piece);
            *best += self.best * piece.seconds;
        }
    }

    /// What was moved, as far as it can be measured with this standard error.
    fn measured(&mut self, bits: f64, seconds: f64, noise: f64) -> BitRate {
        let error = if noise > 0.0 { self.noise.normal(1.0, noise) } else { 1.0 };
        rate(bits / seconds * error)
    }

    /// The next epoch: a short one is a tenth, or what the workers that are new in it take to get up to speed.
    fn pace(&self, before: Concurrency, setpoint: Concurrency) -> Pace {
        let usual = Pace { epoch: self.options.epoch, settle: self.options.settle };
        if !self.short {
            return usual;
        }
        let raised = |stage: &Stage| self.epochs == 0 || setpoint[*stage] > before[*stage];
        let slowest =
            Stage::ALL.into_iter().filter(raised).map(|stage| self.fluid.ramp_up(stage)).fold(0.0, f64::max);
        let pace = usual.shortened(Duration::from_secs_f64(WARM_UP * slowest));
        // It may be over before a set-point is in force.
        let lag = self.scenario.decision.lag;
        Pace { epoch: pace.epoch + lag, settle: pace.settle + lag }
    }

    /// Whether the time is over.
    fn is_over(&self) -> bool {
        let end = self.options.epochs.map(|epochs| nanos(self.options.epoch).saturating_mul(epochs.into()));
        end.is_some_and(|end| self.now >= end)
    }

    fn remaining(&self) -> Option<Remaining> {
        self.scenario.dataset.map(|dataset| {
            let share = (self.missing() / dataset.size.bits()).clamp(0.0, 1.0);
            // A file that is short by rounding alone is complete.
            let files = dataset.files as f64 * share - 1e-9;
            Remaining {
                bytes: ByteCount((dataset.size.0 as f64 * share).round() as u64),
                files: files.max(0.0).ceil() as u64,
            }
        })
    }

    /// Free and total staging; an absent stage has none beside it.
    fn staging(&self) -> (Ends<ByteCount>, Ends<ByteCount>) {
        let (size, staged) = (self.fluid.size(), self.fluid.staged());
        let bytes = |bits: f64| ByteCount(whole(bits / 8.0));
        let capacity = Ends { sender: bytes(size.sender), receiver: bytes(size.receiver) };
        let free = Ends {
            sender: capacity.sender.saturating_sub(bytes(staged.sender)),
            receiver: capacity.receiver.saturating_sub(bytes(staged.receiver)),
        };
        (free, capacity)
    }
}

/// The nearest whole number; 0 for one that is negative or none. Much faster than `round`.
fn whole(value: f64) -> u64 {
    (value + 0.5) as u64
}

fn rate(bps: f64) -> BitRate {
    BitRate(whole(bps))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NEVER)
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

impl Environment for Simulator {
    type Error = Infallible;

    // No scenario has processors, and what is said of its path is for those who look: what is known of the host is
    // the default, which limits no rule's start.

    fn bounds(&self) -> PerStage<Bounds> {
        self.bounds
    }

    fn heed(&mut self, proposal: &Proposal, _bounds: PerStage<Bounds>) {
        self.short_epochs(proposal.short_epochs);
    }

    fn step(&mut self, setpoint: Concurrency) -> Result<Option<Observation>, Infallible> {
        if self.is_over() || self.finished() {
            return Ok(None);
        }
        let pace = self.pace(self.fluid.setpoint(), setpoint);
        self.ask(setpoint);
        let begin = self.now;
        let epoch = nanos(pace.epoch).max(1);
        let settled = begin.saturating_add(nanos(pace.settle).min(epoch - 1));
        let mut from = begin;
        let mut moved = Moved::default();
        let (mut delivered, mut best) = (0.0, 0.0);
        if settled > begin {
            self.pass(settled, &mut moved, &mut best);
            // What ends while it settles is measured all the same.
            if !self.finished() {
                from = settled;
                delivered = std::mem::take(&mut moved).bits.write;
            }
        }
        self.pass(begin.saturating_add(epoch), &mut moved, &mut best);
        delivered += moved.bits.write;
        self.epochs += 1;
        let at = Duration::from_nanos(self.now);
        let length = seconds(self.now - begin);
        let truth = Delivered {
            at,
            length: Duration::from_nanos(self.now - begin),
            concurrency: self.fluid.setpoint(),
            goodput: rate(delivered / length),
            best: rate(best / length),
        };
        self.last = Some(truth);
        if let Some(all) = &mut self.delivered {
            all.push(truth);
        }
        let interval = seconds(self.now - from);
        // What strays is the mean of a whole epoch: that of a shorter one strays more.
        let usual = seconds(nanos(self.options.epoch.saturating_sub(self.options.settle)));
        let noise = self.scenario.noise.throughput * (usual / interval).sqrt().max(1.0);
        let read = self.measured(moved.bits.read, interval, noise);
        let network = self.measured(moved.bits.network, interval, noise);
        let write = self.measured(moved.bits.write, interval, noise);
        let waited = PerStage::from_fn(|stage| {
            self.path().stages[stage].map(|_| (1.0 - moved.busy_seconds[stage] / interval).clamp(0.0, 1.0))
        });
        let stages = &self.path().stages;
        let throughput = PerStage {
            read: if stages.read.is_some() { read } else { network },
            network,
            write: if stages.write.is_some() { write } else { network },
        };
        let (staging_free, staging_capacity) = self.staging();
        let rtt = self.path().link.rtt;
        let streams = self.kernel.as_ref().map(|kernel| kernel.streams(&self.fluid));
        let (model_based, tries) =
            self.kernel.as_ref().map_or((0.0, false), |kernel| kernel.model_based(&self.fluid));
        let queued = self.kernel.as_ref().map_or(0.0, |kernel| kernel.queued(&self.fluid));
        Ok(Some(Observation {
            at,
            interval: Duration::from_nanos(self.now - from),
            concurrency: self.fluid.setpoint(),
            throughput,
            standard_error: PerStage::all(noise),
            waited,
            draining: PerStage::all(0.0),
            staging_free,
            staging_capacity,
            loss: Some(moved.lost_seconds / interval),
            rtt: (!rtt.is_zero()).then_some(rtt),
            streams,
            queued,
            held: 0.0,
            model_based,
            tries,
            ramp: Vec::new(),
            cpu: Ends::default(),
            remaining: self.remaining(),
        }))
    }
}
