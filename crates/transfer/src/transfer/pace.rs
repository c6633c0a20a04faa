//! How long the epochs of a transfer are.

use std::time::Duration;

/// The share of a step on the way up that is not measured where a new worker takes longer than a short epoch to get
/// up to speed: what it moves while it gets there would pass for its rate.
const WARMING: f64 = 0.6;

/// So many epochs are the most that a step lasts for it, or that an epoch is prolonged to.
const MAX_EPOCHS: u32 = 4;

/// An epoch is prolonged to no more than this, unless it is longer anyway.
const MAX_PROLONGED: Duration = Duration::from_secs(20);

/// How often an epoch is looked into, where it is not very short or long.
const LOOK: Duration = Duration::from_millis(20);

/// Looks in an epoch, at least and at most.
const LOOKS: (u32, u32) = (10, 50);

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

    /// The longest that an epoch lasts while too little is seen.
    pub(super) fn longest(self) -> Duration {
        (self.epoch * MAX_EPOCHS).min(MAX_PROLONGED).max(self.epoch)
    }

    /// How often an epoch is looked into: not more than once a round trip, as what comes in between comes in bursts.
    pub(super) fn look(self, round_trip: Duration) -> Duration {
        let (min, max) = LOOKS;
        LOOK.max(self.epoch / max).max(round_trip.min(self.epoch / min * 2)).min(self.epoch / min * 2)
    }

    /// The same for one step on the way up: a quarter of the time, or what a new worker takes to get up to speed and
    /// to show it.
    pub(super) fn shortened(self, warm_up: Duration) -> Self {
        let quick = self.epoch / 4;
        if warm_up <= quick {
            return Self { epoch: quick, settle: Self::new(quick).settle, ..self };
        }
        let warm_up = warm_up.min(self.epoch * MAX_EPOCHS);
        Self { epoch: warm_up, settle: warm_up.mul_f64(WARMING), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_prolonged_within_bounds_and_looked_into_often_enough() {
        let ms = Duration::from_millis;
        let pace = |epoch| Pace::new(ms(epoch));
        assert_eq!(
            [100, 1000, 10_000, 60_000].map(|epoch| pace(epoch).longest()),
            [400, 4000, 20_000, 60_000].map(ms)
        );
        assert_eq!([50, 1000, 10_000].map(|epoch| pace(epoch).look(Duration::ZERO)), [10, 20, 200].map(ms));
        assert_eq!([40, 150, 900].map(|round_trip| pace(1000).look(ms(round_trip))), [40, 150, 200].map(ms));
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
