//! Clocks and sleep. [`Instant`] is the only monotonic time there is here: it also reads the clock in
//! [`elapsed`](Instant::elapsed), which a bare `std::time::Instant` would do behind a simulation's back.

use std::ops::{Add, AddAssign, Sub};
use std::time::{Duration, SystemTime};

#[cfg(test)]
pub(crate) mod manual;

/// A point in monotonic time, as `std::time::Instant`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(std::time::Instant);

impl Instant {
    /// What the clock says.
    #[inline]
    pub fn now() -> Self {
        #[cfg(test)]
        if let Some(now) = manual::now() {
            return Self(now);
        }
        Self(std::time::Instant::now())
    }

    /// How long ago it was; zero if it is still to come.
    #[inline]
    pub fn elapsed(&self) -> Duration {
        Self::now().saturating_duration_since(*self)
    }

    /// The time from `earlier` to this; zero if that is later.
    #[inline]
    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// So much earlier; `None` where the clock does not reach back so far.
    #[inline]
    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        self.0.checked_sub(duration).map(Self)
    }
}

impl From<std::time::Instant> for Instant {
    fn from(instant: std::time::Instant) -> Self {
        Self(instant)
    }
}

impl From<Instant> for std::time::Instant {
    fn from(instant: Instant) -> Self {
        instant.0
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    #[inline]
    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, duration: Duration) {
        self.0 += duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

/// The time of day, which may be set at any moment.
#[inline]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

/// How often the kernel's clock for the times of files moves on: what is written in between gets one time.
pub(crate) fn tick() -> Duration {
    let tick = rustix::time::clock_getres(rustix::time::ClockId::RealtimeCoarse);
    Duration::from_nanos(tick.tv_nsec.try_into().unwrap_or_default())
}

/// Lets `duration` pass.
#[inline]
pub fn sleep(duration: Duration) {
    let duration = passing(duration);
    if !duration.is_zero() {
        std::thread::sleep(duration);
    }
}

/// How long the process has to wait for `duration` to pass: that long, or not at all with a clock set by hand, which is
/// moved on by it.
#[inline]
pub(super) fn passing(duration: Duration) -> Duration {
    #[cfg(test)]
    if manual::moved(duration) {
        return Duration::ZERO;
    }
    duration
}
