//! The path as a fluid: what three stages and two bounded stagings move in a stretch of time.
//!
//! While rates hold still, both stagings fill or drain at constant speed until one becomes full or
//! empty. So time is cut at those events alone, and between them everything is a product: the result
//! is exact and a stretch costs a few nanoseconds. Only while workers ramp up do rates move by
//! themselves; then the stretch is cut into pieces in each of which the workers' mean stands for them.
//!
//! Plain numbers (bits, seconds) and no allocation: this is the inner loop of training.

use crate::path::{Limits, ModelBased, Path};
use crate::scenario::Staging;
use crate::stage::{Concurrency, Ends, PerStage, Stage};

/// A ramp is cut where another tenth of the workers has arrived...
const PIECE: f64 = 0.1;
/// ...and ends when a thousandth is missing.
const ARRIVED: f64 = 1e-3;
/// Bits too few to be anything but rounding.
const DUST: f64 = 1e-3;

/// A path with what is staged on it and who works on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fluid {
    path: Path,
    limits: Limits,
    model_based: ModelBased,
    size: Ends<f64>,
    staged: Ends<f64>,
    setpoint: Concurrency,
    /// Workers at full rate, once new ones have ramped up.
    active: PerStage<f64>,
    ramping: bool,
    /// What the set-point carries in bit/s, and loses, once nobody ramps up.
    carried: PerStage<f64>,
    loss: f64,
}

/// What happened in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moved {
    /// Bits a stage.
    pub bits: PerStage<f64>,
    /// Seconds that passed; fewer than asked for only if nothing was left to move.
    pub seconds: f64,
    /// The share of segments lost, integrated over those seconds.
    pub lost_seconds: f64,
    /// The share of a stage's workers that did not wait for staging, integrated over those seconds.
    pub busy_seconds: PerStage<f64>,
}

impl Moved {
    /// Adds what happened in the stretch after it.
    pub fn add(&mut self, next: &Self) {
        for stage in Stage::ALL {
            self.bits[stage] += next.bits[stage];
            self.busy_seconds[stage] += next.busy_seconds[stage];
        }
        self.seconds += next.seconds;
        self.lost_seconds += next.lost_seconds;
    }
}

impl Fluid {
    /// The path with empty staging and no worker.
    ///
    /// Beside an absent stage there is no staging: what the network takes was there, what it brings
    /// is gone.
    pub fn new(path: Path, staging: Staging) -> Self {
        let size = Ends {
            sender: path.stages.read.map_or(0.0, |_| staging.sender.bits()),
            receiver: path.stages.write.map_or(0.0, |_| staging.receiver.bits()),
        };
        let none = PerStage::all(0.0);
        let staged = Ends { sender: 0.0, receiver: 0.0 };
        let mut fluid = Self {
            path,
            limits: path.limits(),
            model_based: ModelBased::default(),
            size,
            staged,
            setpoint: PerStage::all(0),
            active: none,
            ramping: false,
            carried: none,
            loss: 0.0,
        };
        fluid.enforce(PerStage::all(0));
        fluid
    }

    /// The path in force.
    pub const fn path(&self) -> &Path {
        &self.path
    }

    /// Bits staged.
    pub const fn staged(&self) -> Ends<f64> {
        self.staged
    }

    /// Bits that can be staged.
    pub const fn size(&self) -> Ends<f64> {
        self.size
    }

    /// The time constant, in seconds, with which a stage's new workers approach their rate.
    pub fn ramp_up(&self, stage: Stage) -> f64 {
        self.limits.ramp_up(stage)
    }

    /// The set-point in force.
    pub const fn setpoint(&self) -> Concurrency {
        self.setpoint
    }

    /// Changes the path under what is staged and who works; stages neither come nor go.
    pub fn set_path(&mut self, path: Path) {
        self.path = path;
        self.limits = path.limits().with(self.model_based);
        self.enforce(self.setpoint);
    }

    /// Lets so many streams go by a model of the path.
    pub fn set_model_based(&mut self, model_based: ModelBased) {
        self.model_based = model_based;
        self.set_path(self.path);
    }

    /// What the streams in force are like.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Sets what is staged, in bits, within what fits: a training episode may begin anywhere.
    pub fn set_staged(&mut self, bits: Ends<f64>) {
        self.staged.sender = bits.sender.clamp(0.0, self.size.sender);
        self.staged.receiver = bits.receiver.clamp(0.0, self.size.receiver);
    }

    /// Lets `seconds` pass with `setpoint` workers while the source still holds `unread` bits
    /// (infinite for a source that never ends).
    #[inline]
    pub fn advance(&mut self, setpoint: Concurrency, seconds: f64, unread: f64) -> Moved {
        self.set(setpoint);
        self.pass(seconds, unread)
    }

    /// Puts a set-point into force: new workers begin their ramp, surplus ones stop.
    #[inline]
    pub fn set(&mut self, setpoint: Concurrency) {
        if setpoint != self.setpoint {
            self.enforce(setpoint);
        }
    }

    /// As [`advance`](Self::advance), with the set-point in force.
    #[inline]
    pub fn pass(&mut self, seconds: f64, unread: f64) -> Moved {
        if self.ramping {
            return self.advance_ramping(seconds, unread);
        }
        let moved = self.flow(self.carried, seconds, unread);
        Moved { lost_seconds: self.loss * moved.seconds, ..moved }
    }

    /// The same while workers ramp up, and for what is left once all have arrived.
    #[inline(never)]
    fn advance_ramping(&mut self, seconds: f64, mut unread: f64) -> Moved {
        let mut total = Moved::default();
        let mut left = seconds;
        while left > 0.0 {
            let (length, carried, loss) = if self.ramping {
                let (length, active) = self.ramp(left);
                let carried = PerStage::from_fn(|stage| self.limits.carried(stage, active[stage]));
                (length, carried, self.limits.loss(active.network))
            } else {
                (left, self.carried, self.loss)
            };
            let moved = self.flow(carried, length, unread);
            total.add(&Moved { lost_seconds: loss * moved.seconds, ..moved });
            unread = (unread - moved.bits.read).max(0.0);
            left = if moved.seconds < length { 0.0 } else { left - length };
        }
        total
    }

    fn enforce(&mut self, setpoint: Concurrency) {
        self.setpoint = setpoint;
        self.ramping = false;
        for stage in Stage::ALL {
            let n = f64::from(setpoint[stage]);
            if n > self.active[stage] && self.limits.ramp_up(stage) > 0.0 {
                self.ramping = true;
            } else {
                self.active[stage] = n;
            }
            self.carried[stage] = self.limits.carried(stage, n);
        }
        self.loss = self.limits.loss(f64::from(setpoint.network));
    }

    /// The next piece of the ramp, of at most `left` seconds: its length and the mean of the
    /// workers' weight in it. Who has all but arrived counts as there from then on.
    fn ramp(&mut self, left: f64) -> (f64, PerStage<f64>) {
        let tau = PerStage::from_fn(|stage| self.limits.ramp_up(stage));
        let missing = |active: &PerStage<f64>, stage: Stage| f64::from(self.setpoint[stage]) - active[stage];
        let mut length = left;
        for stage in Stage::ALL {
            let (n, gap) = (f64::from(self.setpoint[stage]), missing(&self.active, stage));
            if gap > 0.0 {
                let end = (gap - PIECE * n).max(ARRIVED * n).min(0.999 * gap);
                length = length.min(tau[stage] * (gap / end).ln());
            }
        }
        let mut mean = PerStage::all(0.0);
        let mut active = self.active;
        for stage in Stage::ALL {
            let (n, gap) = (f64::from(self.setpoint[stage]), missing(&active, stage));
            let rest = if gap > 0.0 { (-length / tau[stage]).exp() } else { 0.0 };
            mean[stage] = if gap > 0.0 { n - gap * (1.0 - rest) * tau[stage] / length } else { n };
            active[stage] = if gap * rest <= 1.001 * ARRIVED * n { n } else { n - gap * rest };
        }
        self.ramping = Stage::ALL.into_iter().any(|stage| missing(&active, stage) > 0.0);
        self.active = active;
        (length, mean)
    }

    /// Lets `seconds` pass at constant `carried`; of losses it knows nothing.
    #[inline(always)]
    fn flow(&mut self, carried: PerStage<f64>, seconds: f64, mut unread: f64) -> Moved {
        let size = self.size;
        let Ends { mut sender, mut receiver } = self.staged;
        let (mut read, mut network, mut write) = (0.0, 0.0, 0.0);
        let mut left = seconds;
        loop {
            if unread == 0.0 && sender == 0.0 && receiver == 0.0 {
                break;
            }
            let rate = rates(carried, unread, Ends { sender, receiver }, size);
            let (into_sender, into_receiver) = (rate.read - rate.network, rate.network - rate.write);
            // Most stretches end before anything happens: see that without a division.
            let then = (sender + into_sender * left, receiver + into_receiver * left);
            let calm =
                (then.0 >= 0.0) & (then.0 <= size.sender) & (then.1 >= 0.0) & (then.1 <= size.receiver);
            if calm & (rate.read * left <= unread) {
                read += rate.read * left;
                network += rate.network * left;
                write += rate.write * left;
                (sender, receiver) = then;
                left = 0.0;
                break;
            }
            let length = until(sender, size.sender, into_sender, left)
                .min(until(receiver, size.receiver, into_receiver, left))
                .min(if rate.read * left > unread { unread / rate.read } else { left });
            read += rate.read * length;
            network += rate.network * length;
            write += rate.write * length;
            sender = after(sender, size.sender, into_sender, length);
            receiver = after(receiver, size.receiver, into_receiver, length);
            unread -= rate.read * length;
            if unread < DUST {
                unread = 0.0;
            }
            if length >= left {
                left = 0.0;
                break;
            }
            left -= length;
        }
        self.staged = Ends { sender, receiver };
        let bits = PerStage::new(read, network, write);
        // Whoever moves less than it could waits for the rest of the time.
        let busy_seconds = PerStage::from_fn(|stage| bits[stage] / carried[stage].max(f64::MIN_POSITIVE));
        Moved { bits, seconds: seconds - left, lost_seconds: 0.0, busy_seconds }
    }
}

/// The greatest rates the neighbours allow: an empty staging gives no more than it gets, a full one
/// gets no more than it gives. One pass down the path and one up settle all three.
#[inline]
fn rates(carried: PerStage<f64>, unread: f64, staged: Ends<f64>, size: Ends<f64>) -> PerStage<f64> {
    let PerStage { read, network, write } = carried;
    let least = |bound: bool, rate: f64, other: f64| if bound & (other < rate) { other } else { rate };
    let read = if unread > 0.0 { read } else { 0.0 };
    let network = least(staged.sender <= 0.0, network, read);
    let write = least(staged.receiver <= 0.0, write, network);
    let network = least(staged.receiver >= size.receiver, network, write);
    let read = least(staged.sender >= size.sender, read, network);
    PerStage { read, network, write }
}

/// Seconds, at most `left`, until a staging that changes at `rate` becomes empty or full.
#[inline]
fn until(staged: f64, size: f64, rate: f64, left: f64) -> f64 {
    let end = if rate < 0.0 { 0.0 } else { size };
    // At rest this is infinite, or no number when full, which `min` passes over.
    left.min((end - staged) / rate)
}

/// What is staged after `seconds`; empty and full are met exactly.
#[inline]
fn after(staged: f64, size: f64, rate: f64, seconds: f64) -> f64 {
    let then = staged + rate * seconds;
    let then = if (rate < 0.0) & (then < DUST) { 0.0 } else { then };
    if (rate > 0.0) & (then > size - DUST) { size } else { then }
}
