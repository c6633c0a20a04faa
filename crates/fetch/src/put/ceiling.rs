//! The most connections the server can take: lowered when it asks for less, raised again with patience.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tidegate_control::Rng;

/// How long a lowered ceiling stays before it is raised by one; doubled each time it was too early.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest patience.
const LONGEST: Duration = Duration::from_secs(600);

/// Requests that are refused together are one hint, not many.
const TOGETHER: Duration = Duration::from_secs(1);

/// First and longest pause before a request is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The ceiling of the network stage.
#[derive(Debug)]
pub struct Ceiling {
    most: u16,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    now: u16,
    changed: Option<Instant>,
    patience: Duration,
    rng: Rng,
}

impl Ceiling {
    /// At most `most` connections; pauses are drawn with `seed`.
    pub fn new(most: u16, seed: u64) -> Self {
        let state = State { now: most, changed: None, patience: PATIENCE, rng: Rng::new(seed) };
        Self { most, state: Mutex::new(state) }
    }

    /// The most connections at `now`.
    pub fn at(&self, now: Instant) -> u16 {
        let mut state = self.state.lock().expect("not poisoned");
        if state.now < self.most
            && let Some(changed) = state.changed
            && now.saturating_duration_since(changed) >= state.patience
        {
            state.now += 1;
            state.changed = Some(now);
        }
        state.now
    }

    /// The server asked for less at `now`, while `active` requests were under way.
    pub fn lower(&self, now: Instant, active: u16) {
        let mut state = self.state.lock().expect("not poisoned");
        if state.changed.is_some_and(|changed| now.saturating_duration_since(changed) < TOGETHER) {
            return;
        }
        if state.changed.is_some() {
            state.patience = (state.patience * 2).min(LONGEST);
        }
        // A quarter less than what was too many.
        let fewer = active.min(state.now);
        state.now = (fewer - fewer.div_ceil(4)).max(1);
        state.changed = Some(now);
    }

    /// How long to wait before try number `tries`: what the server asked for, and else a random share of
    /// a time that doubles.
    pub fn pause(&self, tries: u32, asked: Option<Duration>) -> Duration {
        let longest = (FIRST_PAUSE * 2_u32.pow(tries.min(10))).min(LONGEST_PAUSE);
        let mut state = self.state.lock().expect("not poisoned");
        let share = longest.mul_f64(state.rng.unit());
        asked.map_or(share, |asked| asked + share / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_falls_at_once_and_rises_slowly() {
        let start = Instant::now();
        let ceiling = Ceiling::new(16, 1);
        ceiling.lower(start, 12);
        assert_eq!(ceiling.at(start), 9);
        ceiling.lower(start + TOGETHER / 2, 9);
        assert_eq!(ceiling.at(start), 9, "refused together");
        assert_eq!(ceiling.at(start + PATIENCE), 10);
        ceiling.lower(start + PATIENCE + TOGETHER, 10);
        assert_eq!(ceiling.at(start + PATIENCE * 2 + TOGETHER), 7, "its patience has doubled");
        for i in 2..20 {
            ceiling.lower(start + PATIENCE * i, 1);
        }
        assert_eq!(ceiling.at(start + PATIENCE * 19), 1, "never none");
    }

    #[test]
    fn pauses_are_bounded_and_honour_the_server() {
        let ceiling = Ceiling::new(4, 7);
        for tries in 0..60 {
            assert!(ceiling.pause(tries, None) <= LONGEST_PAUSE);
        }
        let asked = Duration::from_secs(5);
        assert!(ceiling.pause(0, Some(asked)) >= asked);
    }
}
