//! The most of something within a while: later samples that are as large replace those before them.

use std::collections::VecDeque;
use std::time::Duration;

/// The largest of the samples of a window that moves with time.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowedMax {
    window: Duration,
    /// When, and how much; each is less than the one before it.
    samples: VecDeque<(Duration, f64)>,
}

impl WindowedMax {
    /// Of no samples yet.
    pub const fn new(window: Duration) -> Self {
        Self { window, samples: VecDeque::new() }
    }

    /// Takes in a sample, and forgets what is older than the window; times do not run back.
    pub fn add(&mut self, at: Duration, value: f64) {
        while self.samples.front().is_some_and(|&(at_first, _)| at.saturating_sub(at_first) > self.window) {
            self.samples.pop_front();
        }
        while self.samples.back().is_some_and(|&(_, less)| less <= value) {
            self.samples.pop_back();
        }
        self.samples.push_back((at, value));
    }

    /// The largest that is no older than the window; 0 if there is none.
    pub fn get(&self, now: Duration) -> f64 {
        let recent = |&&(at, _): &&(Duration, f64)| now.saturating_sub(at) <= self.window;
        self.samples.iter().find(recent).map_or(0.0, |&(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_counts_until_it_is_old() {
        let at = Duration::from_secs;
        let mut most = WindowedMax::new(at(5));
        assert_eq!(most.get(at(0)), 0.0);
        for (second, value, wanted) in
            [(0, 3.0, 3.0), (1, 9.0, 9.0), (2, 4.0, 9.0), (6, 5.0, 9.0), (7, 1.0, 5.0)]
        {
            most.add(at(second), value);
            assert_eq!(most.get(at(second)), wanted, "{second}");
        }
        assert_eq!((most.get(at(12)), most.get(at(13))), (1.0, 0.0));
        for second in 20..2000 {
            most.add(at(second), 3000.0 - second as f64);
        }
        assert!(most.samples.len() <= 6, "what is old is forgotten");
    }
}
