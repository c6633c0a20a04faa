//! How much of the start of a sample does not count, where a program can leave whole seconds of it out. Of the first
//! sample nobody knows how much of it is slow start: it is taken again without its first second, its first two, and so
//! on, until that shows no more.

use std::time::Duration;

use tidegate_control::BitRate;
use tidegate_control::throughput_model::settled::rises;

/// A sample of so many round trips need not care for slow start, which takes some ten.
const UNSEEN: u32 = 100;
/// The longest start that is left out.
const LONGEST_START: Duration = Duration::from_secs(8);

/// What is left out of each sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Start {
    /// What the next sample leaves out.
    pub omitted: Duration,
    /// What a sample showed that leaves out less; `None` before the first one.
    before: Option<(Duration, BitRate)>,
    known: bool,
    /// Whether the rate rose whatever was left out.
    pub rose: bool,
}

impl Start {
    /// Of the first sample.
    pub(crate) const NOTHING: Self =
        Self { omitted: Duration::ZERO, before: None, known: false, rose: false };

    /// Whether the sample that showed this is to be taken again, leaving out more.
    pub fn again(&mut self, rate: BitRate, round_trip: Option<Duration>, time: Duration) -> bool {
        if self.known {
            return false;
        }
        match self.before {
            None => self.known = round_trip.is_some_and(|round_trip| round_trip * UNSEEN <= time),
            Some((omitted, before)) if !rises(before, rate) => (self.omitted, self.known) = (omitted, true),
            Some(_) => {
                self.rose = self.omitted >= LONGEST_START;
                self.known = self.rose;
            }
        }
        if !self.known {
            self.before = Some((self.omitted, rate));
            self.omitted = (self.omitted * 2).max(Duration::from_secs(1));
        }
        !self.known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_left_out_as_far_as_it_shows() {
        let (second, ms) = (Duration::from_secs(1), Duration::from_millis);
        // Rates in Mbit/s by the seconds that are left out.
        let found = |rates: &dyn Fn(u64) -> u64, round_trip| {
            let (mut start, mut tests) = (Start::NOTHING, 1);
            while start.again(BitRate::mbps(rates(start.omitted.as_secs())), round_trip, second) {
                tests += 1;
            }
            assert!(!start.again(BitRate::mbps(1), round_trip, second), "it is known");
            (start.omitted.as_secs(), tests, start.rose)
        };
        assert_eq!(found(&|_| 950, Some(ms(1))), (0, 1, false), "a near path says so itself");
        assert_eq!(found(&|_| 950, None), (0, 2, false));
        let far = |omitted| if omitted == 0 { 300 } else { 950 };
        assert_eq!(found(&far, Some(ms(100))), (1, 3, false));
        let farther = |omitted| [50, 400, 800, 0, 820][omitted as usize];
        assert_eq!(found(&farther, Some(ms(200))), (2, 4, false));
        assert_eq!(found(&|omitted| 10 << omitted, None), (8, 5, true), "it has an end");
    }
}
