//! Whether a server answers later when more is asked of it at once, and gives no more for it: push-back of those who do
//! not say so. Requests over warm connections only are compared, each server with itself.
//!
//! Two things have to be true of the latest requests beside those with at most half as many connections. Their first
//! bytes came later, by the rank-sum test of Mann and Whitney (1947), to which one odd wait is one rank. And all
//! connections together brought no more in the median: who is slower and still brings more is worth asking.

use std::collections::VecDeque;
use std::time::Duration;

/// Requests that are judged together: from here on the rank sum is taken for normal, as tables of the test do.
const GROUP: usize = 8;

/// One-sided, with chance 1 in 1000: each group is judged once, so that one in a thousand is judged wrongly.
const SURE: f64 = 3.09;

/// Requests that are remembered.
const MAX_SEEN: usize = 256;

/// What one request showed.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Requests to the server that were under way with it.
    connections: u16,
    /// Seconds to its first byte.
    wait: f64,
    /// What all of them brought together, in bytes a second, if each brought as much.
    goodput: f64,
}

/// The latest requests to a server.
#[derive(Debug, Default)]
pub(crate) struct FirstBytes {
    seen: VecDeque<Seen>,
    /// Of these, so many are not judged yet.
    fresh: usize,
}

impl FirstBytes {
    /// A request among `connections` waited so long for its first byte and brought `rate` bytes a second. Answers with
    /// the connections at which the server pushes back, if it does.
    pub fn add(&mut self, connections: u16, wait: Duration, rate: f64) -> Option<u16> {
        if self.seen.len() == MAX_SEEN {
            self.seen.pop_front();
        }
        let goodput = rate * f64::from(connections);
        self.seen.push_back(Seen { connections, wait: wait.as_secs_f64(), goodput });
        self.fresh += 1;
        if self.fresh < GROUP {
            return None;
        }
        self.fresh = 0;
        let all = self.seen.make_contiguous();
        let (before, now) = all.split_at(all.len() - GROUP);
        let connections = now.iter().map(|seen| seen.connections).min()?;
        let before: Vec<Seen> =
            before.iter().filter(|seen| seen.connections <= connections / 2).copied().collect();
        let slower = before.len() >= GROUP && is_later(now, &before);
        (slower && goodput_of(now) <= goodput_of(&before)).then_some(connections)
    }
}

/// Whether the waits of `now` are longer than those of `before`, by their ranks. Ties count half, and make the test
/// more careful.
fn is_later(now: &[Seen], before: &[Seen]) -> bool {
    let above = |one: &Seen, other: &Seen| match one.wait.total_cmp(&other.wait) {
        std::cmp::Ordering::Greater => 1.0,
        std::cmp::Ordering::Equal => 0.5,
        std::cmp::Ordering::Less => 0.0,
    };
    let sum: f64 = now.iter().flat_map(|one| before.iter().map(move |other| above(one, other))).sum();
    let (m, n) = (now.len() as f64, before.len() as f64);
    (sum - m * n / 2.0 - 0.5) / (m * n * (m + n + 1.0) / 12.0).sqrt() > SURE
}

/// The median of what all connections brought.
fn goodput_of(seen: &[Seen]) -> f64 {
    let mut all: Vec<f64> = seen.iter().map(|seen| seen.goodput).collect();
    all.sort_by(f64::total_cmp);
    let middle = all.len() / 2;
    if all.len() % 2 == 1 { all[middle] } else { f64::midpoint(all[middle - 1], all[middle]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_control::Rng;

    const MS: f64 = 1e-3;

    /// Requests whose waits are about `wait` seconds, with a tail; whether any group is taken for push-back.
    fn ask(bytes: &mut FirstBytes, rng: &mut Rng, n: u32, connections: u16, wait: f64, rate: f64) -> bool {
        let mut pushed = false;
        for _ in 0..n {
            let tail = if rng.unit() < 0.05 { 20.0 } else { 1.0 };
            let wait = Duration::from_secs_f64(wait * (0.8 + 0.4 * rng.unit()) * tail);
            pushed |= bytes.add(connections, wait, rate * (0.9 + 0.2 * rng.unit())).is_some();
        }
        pushed
    }

    #[test]
    fn slower_first_bytes_for_nothing_are_push_back() {
        for seed in 0..50 {
            let (mut bytes, mut rng) = (FirstBytes::default(), Rng::new(seed));
            assert!(
                !ask(&mut bytes, &mut rng, 64, 4, 20.0 * MS, 9e6),
                "seed {seed}: nothing to compare with"
            );
            assert!(ask(&mut bytes, &mut rng, 24, 8, 60.0 * MS, 4e6), "seed {seed}");
        }
    }

    #[test]
    fn who_brings_more_is_asked_however_slowly_it_begins() {
        for seed in 0..50 {
            let (mut bytes, mut rng) = (FirstBytes::default(), Rng::new(seed));
            ask(&mut bytes, &mut rng, 64, 4, 20.0 * MS, 9e6);
            assert!(!ask(&mut bytes, &mut rng, 80, 8, 60.0 * MS, 7e6), "seed {seed}");
        }
    }

    #[test]
    fn chance_is_hardly_ever_taken_for_push_back() {
        let pushed = (0..200).filter(|&seed| {
            let (mut bytes, mut rng) = (FirstBytes::default(), Rng::new(seed));
            ask(&mut bytes, &mut rng, 64, 4, 20.0 * MS, 9e6);
            ask(&mut bytes, &mut rng, 40, 8, 20.0 * MS, 4e6)
        });
        // A thousand groups, of which one is expected.
        assert!(pushed.count() <= 6);
    }

    #[test]
    fn few_more_connections_say_nothing() {
        let (mut bytes, mut rng) = (FirstBytes::default(), Rng::new(1));
        ask(&mut bytes, &mut rng, 32, 6, 20.0 * MS, 9e6);
        assert!(!ask(&mut bytes, &mut rng, 32, 8, 90.0 * MS, 1e6));
    }
}
