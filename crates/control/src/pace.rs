//! How time is cut into epochs.

use std::time::Duration;

/// The share of a step on the way up that is not measured where a new worker takes longer than a short epoch to get
/// up to speed: what it moves while it gets there would pass for its rate.
const WARMING: f64 = 0.6;

/// The share of an epoch that a step on the way up takes at least: it is told by a factor of two to four, and lasts longer
/// where it is not.
const STEP: u32 = 10;

/// So many epochs are the most that a step lasts for it, or that an epoch is prolonged to.
pub const MAX_EPOCHS: u32 = 4;

/// The length of an epoch and what of it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// One epoch, settling included.
    pub epoch: Duration,
    /// The part of it after a change that is not measured.
    pub settle: Duration,
}

impl Pace {
    /// Epochs of this length, of which a fifth, at most 500 ms, is left out to settle.
    pub fn new(epoch: Duration) -> Self {
        Self { epoch, settle: (epoch / 5).min(Duration::from_millis(500)) }
    }

    /// The same for one step on the way up: a tenth of the time, or what a new worker takes to get up to speed and
    /// to show it.
    pub fn shortened(self, warm_up: Duration) -> Self {
        let quick = self.epoch / STEP;
        if warm_up <= quick {
            return Self::new(quick);
        }
        let warm_up = warm_up.min(self.epoch * MAX_EPOCHS);
        Self { epoch: warm_up, settle: warm_up.mul_f64(WARMING) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_epoch_is_a_tenth_or_what_a_worker_needs() {
        let pace = Pace::new(Duration::from_secs(1));
        let (near, far) = (pace.shortened(Duration::ZERO), pace.shortened(Duration::from_millis(900)));
        assert_eq!((near.epoch, near.settle), (Duration::from_millis(100), Duration::from_millis(20)));
        assert_eq!(far.epoch, Duration::from_millis(900));
        assert_eq!(far.settle, Duration::from_millis(540), "its slow start is not measured");
        let farthest = pace.shortened(Duration::from_secs(9));
        assert_eq!((farthest.epoch, farthest.settle), (4 * pace.epoch, Duration::from_millis(2400)));
    }
}
