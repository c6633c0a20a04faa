//! How long the epochs of a transfer are.

use std::time::Duration;

use tidegate_control::pace::{MAX_EPOCHS, Pace as Epochs};

/// An epoch is prolonged to no more than this, unless it is longer anyway.
const MAX_PROLONGED: Duration = Duration::from_secs(20);

/// How often an epoch is looked into, where it is not very short or long.
const LOOK: Duration = Duration::from_millis(20);

/// The share of an epoch, and the round trips, that show what streams move which are up to speed.
const STEP: u32 = 10;
const SHOWN: u32 = 4;

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
        let Epochs { epoch, settle } = Epochs::new(epoch);
        Self { epoch, settle, stop_after: None }
    }

    /// The longest that an epoch lasts while too little is seen.
    pub(super) fn longest(self) -> Duration {
        (self.epoch * MAX_EPOCHS).min(MAX_PROLONGED).max(self.epoch)
    }

    /// How often an epoch is looked into: not more than once a round trip, as what comes in between comes in bursts.
    pub(super) fn look(self, round_trip: Duration) -> Duration {
        let (min, max) = LOOKS;
        LOOK.max(self.epoch / max).max(round_trip).min(self.epoch / min * 2)
    }

    /// The same for what a ramp came to: its streams are up to speed.
    pub(super) fn after_ramp(self, round_trip: Duration) -> Self {
        Self { epoch: (self.epoch / STEP).max(SHOWN * round_trip), settle: Duration::ZERO, ..self }
    }

    /// The same for one step on the way up: a tenth of the time, or what a new worker takes to get up to speed and
    /// to show it.
    pub(super) fn shortened(self, warm_up: Duration) -> Self {
        let Epochs { epoch, settle } = Epochs { epoch: self.epoch, settle: self.settle }.shortened(warm_up);
        Self { epoch, settle, ..self }
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
        assert_eq!([15, 150, 900].map(|round_trip| pace(1000).look(ms(round_trip))), [20, 150, 200].map(ms));
    }
}
