//! How long a mover may give files their names: for two thirds of its lease's term, from before it last asked.

use std::time::Duration;

/// Leave to publish; times are those of one monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leave {
    until: Duration,
}

impl Leave {
    /// What follows from a lease that was claimed or renewed for `term`, by a question asked at `asked`.
    pub fn granted(asked: Duration, term: Duration) -> Self {
        Self { until: asked + term * 2 / 3 }
    }

    /// None any more.
    pub fn none() -> Self {
        Self { until: Duration::ZERO }
    }

    /// How much of it is left at `now`, if any is.
    pub fn left(self, now: Duration) -> Option<Duration> {
        self.until.checked_sub(now).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_came_late_gives_no_more_time() {
        let at = Duration::from_secs;
        let leave = Leave::granted(at(100), at(60));
        assert_eq!(leave.left(at(139)), Some(at(1)));
        assert_eq!((leave.left(at(140)), leave.left(at(150))), (None, None));
        assert_eq!(Leave::none().left(Duration::ZERO), None);
    }
}
