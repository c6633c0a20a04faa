//! Endpoints of a pool that failed one mover: each is left out for a while, longer each time, and then tried again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long the first time, and at most.
const FIRST: Duration = Duration::from_secs(15);
const LONGEST: Duration = Duration::from_secs(300);

/// How one failed.
#[derive(Debug)]
struct Failing {
    times: u32,
    until: Instant,
    /// Whether it would fail so again.
    lasting: bool,
}

/// What has failed since it last worked, by the numbers of endpoints.
#[derive(Debug, Default)]
pub struct LeftOut {
    failing: BTreeMap<u16, Failing>,
    /// Since when nothing has worked, if something has failed.
    since: Option<Instant>,
}

impl LeftOut {
    /// `endpoint` failed at `now`.
    pub fn failed(&mut self, endpoint: u16, lasting: bool, now: Instant) {
        let times = self.failing.get(&endpoint).map_or(0, |failing| failing.times);
        let pause = FIRST.saturating_mul(1 << times.min(16)).min(LONGEST);
        self.failing.insert(endpoint, Failing { times: times + 1, until: now + pause, lasting });
        self.since.get_or_insert(now);
    }

    /// `endpoint` did what was asked of it.
    pub fn worked(&mut self, endpoint: u16) {
        self.failing.remove(&endpoint);
        self.since = None;
    }

    /// Those that are left out at `now`.
    pub fn at(&self, now: Instant) -> Vec<u16> {
        let out = self.failing.iter().filter(|(_, failing)| failing.until > now);
        out.map(|(endpoint, _)| *endpoint).collect()
    }

    /// How long it is at `now` until one of `all` endpoints may be tried.
    pub fn pause(&self, all: usize, now: Instant) -> Duration {
        let out = self.failing.values().filter(|failing| failing.until > now);
        match self.at(now).len() < all {
            true => Duration::ZERO,
            false => out.map(|failing| failing.until - now).min().unwrap_or_default(),
        }
    }

    /// Whether none of `all` endpoints will do: each fails so that it would again, or none has worked for `patience`.
    pub fn is_hopeless(&self, all: usize, patience: Duration, now: Instant) -> bool {
        let lasting = self.failing.values().filter(|failing| failing.lasting).count();
        let lasted = self.since.is_some_and(|since| now.duration_since(since) >= patience);
        lasting >= all || (lasted && self.failing.len() >= all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn what_failed_is_left_out_longer_each_time_and_tried_again() {
        let (mut out, start) = (LeftOut::default(), Instant::now());
        let mut now = start;
        for pause in [15, 30, 60, 120, 240, 300, 300] {
            assert_eq!(out.at(now), Vec::<u16>::new(), "it may be tried");
            out.failed(1, false, now);
            assert_eq!(out.at(now), [1]);
            assert_eq!(out.pause(2, now), Duration::ZERO, "there is another");
            assert_eq!(out.pause(1, now), Duration::from_secs(pause));
            now += Duration::from_secs(pause);
        }
        out.worked(1);
        out.failed(1, false, now);
        assert_eq!(out.pause(1, now), FIRST, "and begins anew once it worked");
    }

    #[test]
    fn a_mover_gives_up_only_where_no_endpoint_will_do() {
        let (mut out, start) = (LeftOut::default(), Instant::now());
        out.failed(0, true, start);
        assert!(!out.is_hopeless(2, HOUR, start), "there is another");
        out.failed(1, false, start + FIRST);
        assert!(!out.is_hopeless(2, HOUR, start + FIRST), "which may come back");
        assert!(out.is_hopeless(2, HOUR, start + HOUR), "but did not");
        out.failed(1, true, start + FIRST);
        assert!(out.is_hopeless(2, HOUR, start + FIRST));
        out.worked(1);
        assert!(!out.is_hopeless(2, HOUR, start + 2 * HOUR));
    }
}
