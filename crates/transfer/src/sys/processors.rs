//! What this host's processors do: for us, and for nobody.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tidegate_control::CpuLoad;

/// How many processors we may use, where the system says.
pub(crate) fn count() -> Option<u16> {
    std::thread::available_parallelism().ok().map(|n| u16::try_from(n.get()).unwrap_or(u16::MAX))
}

/// Processor time until now; loads are differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTime {
    /// Processors we may use; 0 if nothing of this is known.
    pub processors: u16,
    /// Time this process has had, in µs.
    pub(crate) ours_us: u64,
    /// Time nobody used, over all of the host's processors, in the kernel's ticks.
    pub idle: u64,
    /// Time there was, in the same ticks.
    pub all: u64,
}

impl CpuTime {
    /// Reads the clocks; all zero where the kernel shows none (`/proc` may be hidden).
    pub fn now() -> Self {
        let Some((idle, all)) = std::fs::read_to_string("/proc/stat").ok().as_deref().and_then(parse) else {
            return Self::default();
        };
        let ours = clock_gettime(ClockId::ProcessCPUTime);
        let ours = Duration::new(ours.tv_sec.unsigned_abs(), ours.tv_nsec.unsigned_abs() as u32);
        Self { processors: count().unwrap_or(1), ours_us: ours.as_micros() as u64, idle, all }
    }

    /// The load between `earlier` and this, `interval` later; `None` if nothing is known or no tick has passed.
    pub fn load_since(&self, earlier: &Self, interval: Duration) -> Option<CpuLoad> {
        let all = self.all.checked_sub(earlier.all).filter(|&all| all > 0)? as f64;
        let available = f64::from(self.processors.min(earlier.processors)) * interval.as_secs_f64();
        if available <= 0.0 {
            return None;
        }
        let ours = (self.ours_us.saturating_sub(earlier.ours_us) as f64 / 1e6 / available).min(1.0);
        let idle = self.idle.saturating_sub(earlier.idle) as f64 / all;
        // A quota or an affinity leaves us less than the host has.
        Some(CpuLoad { ours, idle: idle.min(1.0 - ours) })
    }
}

/// Idle and all ticks of the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq and
/// steal; guests' time is part of user's.
fn parse(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_ascii_whitespace().take(8).map_while(|text| text.parse().ok()).collect();
    // Waiting for a disk is time that somebody else could have had.
    (ticks.len() >= 5).then(|| (ticks[3] + ticks[4], ticks.iter().sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_read_and_another_is_not() {
        let stat = "cpu  10 1 20 300 40 0 5 4 9 9\ncpu0 5 0 10 150 20 0 2 2 4 4\n";
        assert_eq!(parse(stat), Some((340, 380)));
        assert_eq!(parse("cpu0 5 0 10 150 20 0 2 2 4 4\n"), None);
        assert_eq!(parse("cpu  1 2\n"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_load_is_a_share_of_what_we_may_use() {
        let before = CpuTime { processors: 2, ours_us: 0, idle: 100, all: 1_000 };
        let after = CpuTime { processors: 2, ours_us: 1_000_000, idle: 110, all: 1_200 };
        let load = after.load_since(&before, Duration::from_secs(1)).expect("known");
        assert_eq!(load, CpuLoad { ours: 0.5, idle: 0.05 });
        // Two of sixteen processors, both ours: the idle ones are out of reach.
        let before = CpuTime { processors: 2, ours_us: 0, idle: 0, all: 0 };
        let after = CpuTime { processors: 2, ours_us: 2_000_000, idle: 1_400, all: 1_600 };
        let load = after.load_since(&before, Duration::from_secs(1)).expect("known");
        assert_eq!(load, CpuLoad { ours: 1.0, idle: 0.0 });
        assert_eq!(after.load_since(&after, Duration::from_secs(1)), None);
        assert_eq!(after.load_since(&CpuTime::default(), Duration::ZERO), None);
    }

    #[test]
    fn work_shows_as_ours() {
        let before = CpuTime::now();
        let mut sum = 0_u64;
        while CpuTime::now().ours_us - before.ours_us < 1_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(before.processors > 0 && CpuTime::now().all >= before.all);
    }
}
