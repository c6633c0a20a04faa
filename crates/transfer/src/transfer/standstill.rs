//! Notices that nothing moves at either end, and says where it stands. A stream that delivers nothing is replaced
//! (docs/protocol.md); a disk that does not answer can only be waited for, and whoever waits should know.

use std::time::Duration;

use super::Snapshot;
use crate::sys::clock::Instant;

/// Part of a processor that is work: what is hashed or compared moves no counter.
const WORK: f64 = 0.05;

/// Looks at one snapshot after the other.
#[derive(Debug)]
pub(super) struct Standstill {
    patience: Duration,
    last: Option<(Snapshot, u64)>,
    since: Instant,
}

impl Standstill {
    /// Says so once every `patience` in which nothing has moved.
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, last: None, since: Instant::now() }
    }

    /// Sees the counters, and the files that are done; answers with what is to be said if nothing has moved for so long.
    pub(super) fn see(&mut self, now: &Snapshot, done: u64) -> Option<String> {
        let still = self.last.as_ref().is_some_and(|(last, before)| *before == done && stands(last, now));
        let stands = still && self.since.elapsed() >= self.patience;
        if stands || !still {
            self.since = Instant::now();
        }
        self.last = Some((*now, done));
        stands.then(|| format!("nothing has moved for {} s: {}", self.patience.as_secs(), place(now)))
    }
}

fn stands(last: &Snapshot, now: &Snapshot) -> bool {
    let moved = |s: &Snapshot| (s.sender.read, s.sender.network, s.receiver.network, s.receiver.written);
    let works = |a: &crate::counters::Counters, b: &crate::counters::Counters| {
        b.cpu.ours_us.saturating_sub(a.cpu.ours_us) as f64 > WORK * b.at_us.saturating_sub(a.at_us) as f64
    };
    moved(last) == moved(now) && !works(&last.sender, &now.sender) && !works(&last.receiver, &now.receiver)
}

/// Where it stands.
fn place(now: &Snapshot) -> &'static str {
    if now.receiver.staging_used > 0 {
        "the destination's storage takes nothing"
    } else if now.sender.staging_used == 0 {
        "the source's storage gives nothing, or the other end waits for its own"
    } else {
        "the network delivers nothing"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counters;
    use crate::sys::clock::manual;

    fn snapshot(at_s: u64, change: impl FnOnce(&mut Snapshot)) -> Snapshot {
        let counters = Counters { at_us: at_s * 1_000_000, ..Counters::default() };
        let mut snapshot = Snapshot { sender: counters, receiver: counters };
        change(&mut snapshot);
        snapshot
    }

    #[test]
    fn only_what_neither_moves_nor_works_stands_still() {
        let before = snapshot(1, |_| {});
        assert!(stands(&before, &snapshot(2, |_| {})));
        assert!(!stands(&before, &snapshot(2, |s| s.sender.read = 1)));
        assert!(!stands(&before, &snapshot(2, |s| s.receiver.written = 1)));
        assert!(!stands(&before, &snapshot(2, |s| s.receiver.cpu.ours_us = 100_000)), "it hashes");
    }

    #[test]
    fn a_standstill_is_told_once_every_so_long_until_something_moves() {
        let clock = manual::stop();
        let minute = Duration::from_secs(60);
        let mut standstill = Standstill::new(minute);
        // Looks every ten seconds for so long, and says after which it was told.
        let mut told = |looks: u64, now: &Snapshot, done: u64| -> Vec<u64> {
            (1..=looks)
                .filter(|_| {
                    clock.advance(minute / 6);
                    standstill.see(now, done).is_some()
                })
                .collect()
        };
        let (before, after) = (snapshot(1, |_| {}), snapshot(1, |s| s.receiver.written = 1));
        assert_eq!(told(20, &before, 0), [7, 13, 19]);
        assert!(told(6, &before, 1).is_empty(), "a file is done");
        assert!(told(6, &after, 1).is_empty(), "a byte is written");
        assert_eq!(told(1, &after, 1), [1]);
    }

    #[test]
    fn where_it_stands_is_told_by_what_is_full() {
        assert!(place(&snapshot(1, |s| s.receiver.staging_used = 1)).contains("destination"));
        assert!(place(&snapshot(1, |_| {})).contains("source"));
        assert!(place(&snapshot(1, |s| s.sender.staging_used = 1)).contains("network"));
    }
}
