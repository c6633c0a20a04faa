//! The path as a fluid: what three stages and two bounded stagings move in a stretch of time.
//!
//! While rates hold still, both stagings fill or drain at constant speed until one becomes full or
//! empty. So time is cut at those events alone, and between them everything is a product: the result
//! is exact and a stretch costs a few nanoseconds. Only while workers ramp up do rates move by
//! themselves; then the stretch is cut into pieces in each of which the workers' mean stands for them.
//!
//! Plain numbers (bits, seconds) and no allocation: this is the inner loop of training.

use crate::path::Path;
use crate::scenario::Staging;
use crate::stage::{Concurrency, Ends, PerStage, Stage};

/// A ramp is cut where another sixteenth of the workers has arrived...
const PIECE: f64 = 1.0 / 16.0;
/// ...and ends when a thousandth is missing.
const ARRIVED: f64 = 1e-3;
/// Bits too few to be anything but rounding.
const DUST: f64 = 1e-3;

/// A path with what is staged on it and who works on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fluid {
    path: Path,
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
            size,
            staged,
            setpoint: PerStage::all(0),
            active: none,
            ramping: false,
            carried: none,
            loss: 0.0,
        };
        fluid.set(PerStage::all(0));
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

    /// The set-point in force.
    pub const fn setpoint(&self) -> Concurrency {
        self.setpoint
    }

    /// Changes the path under what is staged and who works; stages neither come nor go.
    pub fn set_path(&mut self, path: Path) {
        self.path = path;
        self.set(self.setpoint);
    }

    /// Sets what is staged, in bits, within what fits: a training episode may begin anywhere.
    pub fn set_staged(&mut self, bits: Ends<f64>) {
        self.staged.sender = bits.sender.clamp(0.0, self.size.sender);
        self.staged.receiver = bits.receiver.clamp(0.0, self.size.receiver);
    }

    /// Lets `seconds` pass with `setpoint` workers while the source still holds `unread` bits
    /// (infinite for a source that never ends).
    pub fn advance(&mut self, setpoint: Concurrency, seconds: f64, mut unread: f64) -> Moved {
        if setpoint != self.setpoint {
            self.set(setpoint);
        }
        let mut moved = Moved::default();
        let mut left = seconds;
        while self.ramping && left > 0.0 {
            let (length, active) = self.ramp(left);
            let carried = PerStage::from_fn(|stage| self.path.carried(stage, active[stage]));
            let passed = self.flow(carried, length, &mut unread, &mut moved.bits);
            moved.seconds += passed;
            moved.lost_seconds += self.path.loss(active.network) * passed;
            left = if passed < length { 0.0 } else { left - length };
        }
        if left > 0.0 {
            let passed = self.flow(self.carried, left, &mut unread, &mut moved.bits);
            moved.seconds += passed;
            moved.lost_seconds += self.loss * passed;
        }
        moved
    }

    /// Puts a set-point into force: new workers begin their ramp, surplus ones stop.
    fn set(&mut self, setpoint: Concurrency) {
        self.setpoint = setpoint;
        self.ramping = false;
        for stage in Stage::ALL {
            let n = f64::from(setpoint[stage]);
            if n > self.active[stage] && self.path.ramp_up(stage) > 0.0 {
                self.ramping = true;
            } else {
                self.active[stage] = n;
            }
            self.carried[stage] = self.path.carried(stage, n);
        }
        self.loss = self.path.loss(f64::from(setpoint.network));
    }

    /// The next piece of the ramp, of at most `left` seconds: its length and the mean of the
    /// workers' weight in it. Who has all but arrived counts as there from then on.
    fn ramp(&mut self, left: f64) -> (f64, PerStage<f64>) {
        let tau = PerStage::from_fn(|stage| self.path.ramp_up(stage));
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

    /// Lets `seconds` pass at constant `carried`; returns how many did before all was moved.
    fn flow(
        &mut self,
        carried: PerStage<f64>,
        seconds: f64,
        unread: &mut f64,
        bits: &mut PerStage<f64>,
    ) -> f64 {
        let mut left = seconds;
        loop {
            if *unread == 0.0 && self.staged.sender == 0.0 && self.staged.receiver == 0.0 {
                return seconds - left;
            }
            let rate = self.rates(carried, *unread);
            let (sender, receiver) = (rate.read - rate.network, rate.network - rate.write);
            let length = until(self.staged.sender, self.size.sender, sender, left)
                .min(until(self.staged.receiver, self.size.receiver, receiver, left))
                .min(if rate.read * left > *unread { *unread / rate.read } else { left });
            bits.read += rate.read * length;
            bits.network += rate.network * length;
            bits.write += rate.write * length;
            self.staged.sender = after(self.staged.sender, self.size.sender, sender, length);
            self.staged.receiver = after(self.staged.receiver, self.size.receiver, receiver, length);
            *unread -= rate.read * length;
            if *unread < DUST {
                *unread = 0.0;
            }
            if length >= left {
                return seconds;
            }
            left -= length;
        }
    }

    /// The greatest rates the neighbours allow: an empty staging gives no more than it gets, a full
    /// one gets no more than it gives. One pass down the path and one up settle all three.
    fn rates(&self, carried: PerStage<f64>, unread: f64) -> PerStage<f64> {
        let mut rate = carried;
        if unread <= 0.0 {
            rate.read = 0.0;
        }
        if self.staged.sender <= 0.0 {
            rate.network = rate.network.min(rate.read);
        }
        if self.staged.receiver <= 0.0 {
            rate.write = rate.write.min(rate.network);
        }
        if self.staged.receiver >= self.size.receiver {
            rate.network = rate.network.min(rate.write);
        }
        if self.staged.sender >= self.size.sender {
            rate.read = rate.read.min(rate.network);
        }
        rate
    }
}

/// Seconds, at most `left`, until a staging that changes at `rate` becomes empty or full.
fn until(staged: f64, size: f64, rate: f64, left: f64) -> f64 {
    let then = staged + rate * left;
    if then < 0.0 {
        staged / -rate
    } else if then > size {
        (size - staged) / rate
    } else {
        left
    }
}

/// What is staged after `seconds`; empty and full are met exactly.
fn after(staged: f64, size: f64, rate: f64, seconds: f64) -> f64 {
    let then = staged + rate * seconds;
    if rate < 0.0 && then < DUST {
        0.0
    } else if rate > 0.0 && then > size - DUST {
        size
    } else {
        then
    }
}
