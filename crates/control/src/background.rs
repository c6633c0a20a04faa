//! The rate of a transfer in the background: less than best effort, by the delay of its packets in queues.
//!
//! As LEDBAT does (RFC 6817), what waits in queues is the round trip less the shortest one. A window, of all streams together,
//! grows while that is less than a target, and shrinks beyond it, so that whoever fills the queue gets the path. The rate is
//! the window by the round trip of the moment: a queue that grows slows it down by itself. Unlike LEDBAT's the window moves by
//! factors, so that a path of any capacity is filled in a few dozen round trips.

use std::time::Duration;

use crate::path_sample::PathSample;
use crate::units::{BitRate, ByteCount};

/// What may wait in queues: so long, or this share of the shortest round trip if that is longer, as that varies more.
const TARGET: Duration = Duration::from_millis(5);
const TARGET_SHARE: f64 = 0.1;
/// The window is changed every other round trip, so that each change is seen before the next, and not more often than this;
/// what waits is the least of what was seen meanwhile, as processors that are busy make single packets late.
const ROUND_TRIPS: u32 = 2;
const MIN_INTERVAL: Duration = Duration::from_millis(20);
/// Share by which it is changed for a whole target that is missing, or too much.
const GAIN: f64 = 0.06;
/// Share by which it grows at most where nothing waits, each time twice as much as before: until something has waited, and
/// from then on.
const STARTUP_GROWTH: f64 = 1.0;
const MAX_GROWTH: f64 = 0.25;
/// Share of the target: less than this is nothing.
const CLEAR: f64 = 0.25;
/// What is left of it at least, and after a loss.
const LEFT: f64 = 0.5;
/// It never grows beyond what was under way by more than this factor: something else may limit it.
const UNUSED: f64 = 2.0;
/// The same of streams that find their rate by themselves, on a path that was full: so much more they can have at once.
const SPARE: f64 = 1.2;
/// Changes running before which nothing has waited: after so many it grows as fast as it may, and the path is not full any more.
const RESUMES: u16 = 4;
const LATELY: u16 = 50;
/// Segments: the least window (RFC 6817), with which what others leave is noticed, and the first (RFC 6928).
const MIN_SEGMENTS: f64 = 2.0;
const FIRST_SEGMENTS: f64 = 10.0;

/// The rate that is left to a transfer by others.
#[derive(Clone, Copy, Debug, Default)]
pub struct BackgroundRate {
    /// In bits; 0 before anything was seen.
    window: f64,
    before: PathSample,
    /// The least round trip since the last change.
    least: Duration,
    /// Changes running before which nothing has waited.
    clear: u16,
    /// Something has waited: the path was full once.
    found: bool,
    /// Streams find their rate by themselves, and are only kept from a queue.
    guards: bool,
}

impl BackgroundRate {
    /// The rate of streams that are under way and move so much, and that find how much they may by themselves.
    pub fn guarding(rate: BitRate, seen: &PathSample) -> Self {
        let mut guarding =
            Self { before: *seen, least: seen.rtt, clear: RESUMES, guards: true, ..Self::default() };
        guarding.raise(rate, seen);
        guarding
    }

    /// No less than this.
    pub fn raise(&mut self, rate: BitRate, seen: &PathSample) {
        let trip = (seen.rtt + TARGET).as_secs_f64();
        self.window = self.window.max(rate.0 as f64 * trip).max(FIRST_SEGMENTS * seen.segment.bits());
    }

    /// Whether the path was full once.
    pub const fn has_found(&self) -> bool {
        self.found
    }

    /// Whether something has waited of late, so that the path is full.
    pub const fn is_full(&self) -> bool {
        self.found && self.clear < LATELY
    }

    /// The rate from now on; to be asked every few milliseconds.
    pub fn next(&mut self, seen: PathSample) -> BitRate {
        // Where a round trip takes next to nothing a queue would make it many times as long, and the rate swing.
        let trip = (seen.rtt + TARGET).as_secs_f64();
        if self.window == 0.0 {
            self.window = FIRST_SEGMENTS * seen.segment.bits();
            (self.before, self.least) = (seen, seen.rtt);
        }
        self.least = self.least.min(seen.rtt);
        let passed = seen.at.saturating_sub(self.before.at);
        if passed >= (ROUND_TRIPS * seen.rtt).max(MIN_INTERVAL) {
            self.change(&seen, passed, trip);
            (self.before, self.least) = (seen, Duration::MAX);
        }
        BitRate::from_bps(self.window / trip)
    }

    fn change(&mut self, seen: &PathSample, passed: Duration, trip: f64) {
        let bytes = seen.delivered.0.saturating_sub(self.before.delivered.0);
        let under_way = BitRate::over(ByteCount(bytes), passed).0 as f64 * trip;
        let target = TARGET.max(seen.min_rtt.mul_f64(TARGET_SHARE));
        let waits = self.least.saturating_sub(seen.min_rtt).div_duration_f64(target);
        let lost = seen.retransmits > self.before.retransmits;
        if bytes == 0 && !lost {
            // There was nothing to send, and so nothing is told.
            return;
        }
        self.found |= lost || waits >= CLEAR;
        self.clear = if lost || waits >= CLEAR { 0 } else { self.clear.saturating_add(1) };
        if lost {
            self.window = self.window.min(under_way) * LEFT;
        } else if waits > 1.0 {
            if self.guards {
                self.window = self.window.min(under_way);
            }
            self.window *= (1.0 - GAIN * (waits - 1.0)).max(LEFT);
        } else {
            let most = if self.found { MAX_GROWTH } else { STARTUP_GROWTH };
            let growth = (GAIN * f64::from(self.clear).exp2()).min(most);
            let grown = self.window * (1.0 + growth * (1.0 - waits));
            let unused = if self.guards && self.found { SPARE } else { UNUSED };
            self.window = grown.min((unused * under_way).max(self.window));
        }
        self.window = self.window.max(MIN_SEGMENTS * seen.segment.bits());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: ByteCount = ByteCount(1448);

    /// A link in steps of 10 ms: what it carries, its round trip, and the queue of a plain flow on it.
    struct Link {
        mbps: f64,
        rtt_ms: f64,
        queue_ms: f64,
        /// Bytes of ours that came; delivered are whole segments.
        came: f64,
        /// Most that fits into the queue; beyond that packets are lost.
        most_ms: f64,
        seen: PathSample,
    }

    impl Link {
        fn new(mbps: f64, rtt_ms: f64, most_ms: f64) -> Self {
            let seen = PathSample { segment: SEGMENT, ..PathSample::default() };
            Self { mbps, rtt_ms, queue_ms: 0.0, came: 0.0, most_ms, seen }
        }

        /// Another 10 ms of us at this rate beside others, in Mbit/s; what we got.
        fn pass(&mut self, ours: f64, others: f64) -> f64 {
            const STEP_MS: f64 = 10.0;
            let offered = ours + others;
            self.queue_ms = (self.queue_ms + STEP_MS * (offered / self.mbps - 1.0)).max(0.0);
            if self.queue_ms > self.most_ms {
                self.queue_ms = self.most_ms;
                self.seen.retransmits += 1;
            }
            let carried = if offered > self.mbps { ours / offered * self.mbps } else { ours };
            self.seen.at += Duration::from_millis(10);
            self.seen.min_rtt = Duration::from_secs_f64(self.rtt_ms / 1e3);
            self.seen.rtt = Duration::from_secs_f64((self.rtt_ms + self.queue_ms) / 1e3);
            self.came += carried * STEP_MS * 1e3 / 8.0;
            self.seen.delivered.0 = self.came as u64 / SEGMENT.0 * SEGMENT.0;
            carried
        }

        /// What we get in the mean over so many seconds beside others, in Mbit/s.
        fn run(&mut self, rate: &mut BackgroundRate, seconds: usize, others: impl Fn(&Self) -> f64) -> f64 {
            let mut carried = 0.0;
            for _ in 0..100 * seconds {
                let ours = rate.next(self.seen).as_mbps();
                let others = others(self);
                carried += self.pass(ours, others);
            }
            carried / (100.0 * seconds as f64)
        }
    }

    #[test]
    fn it_fills_a_path_that_nobody_else_uses_and_keeps_its_queue_short() {
        for (mbps, rtt_ms, most_ms) in [
            (1.0, 40.0, 200.0),
            (20.0, 60.0, 100.0),
            (1000.0, 20.0, 20.0),
            (900.0, 0.2, 20.0),
            (500.0, 150.0, 150.0),
        ] {
            let (mut link, mut rate) = (Link::new(mbps, rtt_ms, most_ms), BackgroundRate::default());
            link.run(&mut rate, 10, |_| 0.0);
            let got = link.run(&mut rate, 20, |_| 0.0);
            assert!(got > 0.9 * mbps, "{got} of {mbps} Mbit/s at {rtt_ms} ms");
            assert!(link.queue_ms < 0.15 * rtt_ms + 10.0, "{} ms at {rtt_ms} ms", link.queue_ms);
        }
    }

    #[test]
    fn it_yields_to_whoever_fills_the_queue_and_comes_back() {
        let (mut link, mut rate) = (Link::new(100.0, 20.0, 40.0), BackgroundRate::default());
        link.run(&mut rate, 10, |_| 0.0);
        // Others who keep 15 ms in the queue, as far as what we leave allows it.
        let filled = |link: &Link| if link.queue_ms < 15.0 { 110.0 } else { 95.0 };
        link.run(&mut rate, 2, filled);
        let got = link.run(&mut rate, 20, filled);
        assert!(got < 2.0, "{got} of 100 Mbit/s beside others who fill it");
        link.run(&mut rate, 5, |_| 0.0);
        let got = link.run(&mut rate, 5, |_| 0.0);
        assert!(got > 90.0, "{got} of 100 Mbit/s once they are gone");
    }

    #[test]
    fn it_takes_what_others_leave() {
        let (mut link, mut rate) = (Link::new(100.0, 20.0, 40.0), BackgroundRate::default());
        link.run(&mut rate, 10, |_| 60.0);
        let got = link.run(&mut rate, 10, |_| 60.0);
        assert!((35.0..=40.0).contains(&got), "{got} of 40 Mbit/s that are left");
    }

    #[test]
    fn a_loss_halves_it_and_what_is_limited_by_something_else_does_not_grow_without_end() {
        let mut rate = BackgroundRate::default();
        let mut seen = PathSample {
            rtt: Duration::from_millis(20),
            min_rtt: Duration::from_millis(20),
            segment: SEGMENT,
            ..PathSample::default()
        };
        let mut step = |bytes: u64, lost: u64| {
            seen.at += Duration::from_millis(40);
            (seen.delivered.0, seen.retransmits) = (seen.delivered.0 + bytes, seen.retransmits + lost);
            rate.next(seen).as_mbps()
        };
        // 8 Mbit/s, whatever it would be allowed.
        let grown = (0..100).map(|_| step(40_000, 0)).last().expect("steps");
        assert!((15.9..16.1).contains(&grown), "{grown}");
        let lost = step(40_000, 1);
        assert!((3.9..4.1).contains(&lost), "half of what was delivered: {lost}");
        let least = (0..50).map(|_| step(0, 1)).last().expect("steps");
        assert!((0.92..0.93).contains(&least), "two segments in 25 ms: {least}");
    }

    #[test]
    fn a_pause_tells_nothing_and_large_segments_come_one_by_one() {
        // The loopback: 64 KiB a segment, and next to no round trip.
        let mut seen = PathSample {
            rtt: Duration::from_micros(50),
            min_rtt: Duration::from_micros(7),
            segment: ByteCount::kib(64),
            ..PathSample::default()
        };
        let mut rate = BackgroundRate::default();
        let mut step = |moves: bool| {
            let now = rate.next(seen);
            seen.at += Duration::from_millis(10);
            if moves {
                seen.delivered.0 += (now.bytes_per_second() * 0.01) as u64;
            }
            now.as_mbps()
        };
        let first = step(false);
        for _ in 0..100 {
            assert!(step(false) >= first, "nothing was sent yet");
        }
        let moved = (0..100).map(|_| step(true)).last().expect("steps");
        assert!(moved > 10_000.0, "{moved}");
        let rested = (0..100).map(|_| step(false)).last().expect("steps");
        assert!(rested > 0.9 * moved, "{rested} after {moved}");
    }
}
