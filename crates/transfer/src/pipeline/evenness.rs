//! How fast a stream may send: evenly over each round trip, and while it is new no faster than its share.
//!
//! Without a pace the kernel sends what a window allows at once. On a far path such a burst overflows queues at a tenth of what
//! the path carries, each overflow costs windows a third, and cubic takes seconds to make up for that.
//!
//! A stream that begins doubles its window every round trip until a queue overflows (slow start), which costs all who share the
//! queue a part of theirs, ours and others'. So it is held at what arrives as soon as it waits in a queue, by the bounds of
//! HyStart (RFC 9406), and if it joins others under way, at a little more than what one of them has, or at what is missing from
//! what all moved of late. What it is held at grows slowly, and ends with the first loss, which ends slow start, too.

use std::collections::VecDeque;
use std::time::Duration;

use crate::sys::clock::Instant;
use crate::sys::net::TcpStream;
use crate::sys::tcp::{self, TcpInfo};

/// Factor on what those that are there move: so much may one have that joins them, and where a queue has overflowed of late all of
/// them together.
const SHARE: f64 = 1.25;
/// Factor a second by which a stream that is held back may send more, while no queue stands.
const GROWTH: f64 = 1.5;
/// Factor on what arrives: a stream that may send so much more is held back by something else.
const RELEASE: f64 = 2.0;
/// C of cubic, in segments a cubic second.
const CUBIC: f64 = 0.4;
/// A queue that stands: this part of the shortest round trip, but no less and no more than this.
const QUEUE_SHARE: u32 = 8;
const QUEUE: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(16));
/// How long the most that was moved is remembered.
const OF_LATE: Duration = Duration::from_secs(5);
/// Round trips shorter than this: bursts are short, slow start is soon over, and a pace costs more than it brings.
const NEAR: Duration = Duration::from_millis(5);

/// What all streams move, and what one that joins them may.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    /// When it was looked last, and bytes that had arrived by then.
    last: Option<(Instant, u64)>,
    /// Bytes a second between the looks of late.
    rates: VecDeque<(Instant, f64)>,
    /// Segments sent again by then, when some were last, and when a queue stood.
    retransmits: u64,
    lost: Option<Instant>,
    queued: Option<Instant>,
    /// Bytes a second of a stream that begins from now on.
    pace: Option<u64>,
}

/// How fast one stream may send.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamPace {
    /// What this host allows it.
    most: u64,
    /// While it has lost nothing, and so doubles its window each round trip unless it is held back.
    start: Option<SlowStart>,
}

/// A stream that has lost nothing.
#[derive(Clone, Copy, Debug)]
struct SlowStart {
    retransmits: u64,
    /// Since when it is held back, if it is, at how many bytes a second, and when that was changed last.
    held: Option<Held>,
    /// Whether a queue stood.
    queued: bool,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    since: Instant,
    rate: f64,
    changed: Instant,
}

impl Held {
    fn at(rate: u64) -> Self {
        let now = Instant::now();
        Self { since: now, rate: rate as f64, changed: now }
    }

    /// As long as no queue stands it has more by a factor, and else what a window has more that cubic lets grow (RFC 9438).
    fn grow(&mut self, queues: bool, info: &TcpInfo) {
        let now = Instant::now();
        let passed = now.saturating_duration_since(self.changed).as_secs_f64();
        let since = now.saturating_duration_since(self.since).as_secs_f64();
        let window = 3.0 * CUBIC * since * since * passed * info.segment as f64;
        let more =
            if queues { window / info.rtt.as_secs_f64() } else { self.rate * (GROWTH.powf(passed) - 1.0) };
        (self.rate, self.changed) = (self.rate + more, now);
    }
}

/// Whether a stream's packets wait in a queue.
pub(super) fn queues(info: &TcpInfo) -> bool {
    info.rtt.saturating_sub(info.least_rtt) > (info.least_rtt / QUEUE_SHARE).clamp(QUEUE.0, QUEUE.1)
}

impl Newcomers {
    /// Takes in what has arrived and what was sent again of all streams there were, and whether a queue stands.
    pub fn look(&mut self, delivered: u64, retransmits: u64, queues: bool) {
        let now = Instant::now();
        if retransmits > std::mem::replace(&mut self.retransmits, retransmits) {
            self.lost = Some(now);
        }
        if queues {
            self.queued = Some(now);
        }
        if let Some((at, before)) = self.last.replace((now, delivered)) {
            let passed = now.saturating_duration_since(at).max(Duration::from_millis(1));
            let rate = delivered.saturating_sub(before) as f64 / passed.as_secs_f64();
            self.rates.push_back((now, rate));
            self.rates.retain(|&(at, _)| now.saturating_duration_since(at) <= OF_LATE);
        }
    }

    /// So many streams become so many more.
    pub fn join(&mut self, there: u16, more: u16) {
        let now = self.rates.back().map_or(0.0, |&(_, rate)| rate);
        let most = self.rates.iter().map(|&(_, rate)| rate).fold(0.0, f64::max);
        let (there, more) = (f64::from(there.max(1)), f64::from(more.max(1)));
        let of_late = |at: Option<Instant>| at.is_some_and(|at| at.elapsed() <= OF_LATE);
        // What is lost by chance is lost to nobody else.
        let full = of_late(self.lost) && of_late(self.queued);
        let share = if full { (SHARE - 1.0) * now / more } else { SHARE * now / there };
        let each = share.max((most - now) / more);
        self.pace = (now > 0.0).then_some(each as u64);
    }
}

impl StreamPace {
    /// The pace of a stream that begins on `socket`.
    pub fn new(socket: &TcpStream, newcomers: &Newcomers) -> Self {
        let mut pace = Self { most: tcp::rate_limit(socket).min(tcp::EVENLY), start: None };
        if let Some(info) = tcp::info(socket).filter(|info| info.rtt >= NEAR) {
            let held = newcomers.pace.map(Held::at);
            pace.start = Some(SlowStart { retransmits: info.retransmits, held, queued: false });
            pace.tell(socket, held.map_or(tcp::EVENLY, |held| held.rate as u64));
        }
        pace
    }

    /// Whether it has lost nothing yet.
    pub const fn starts(&self) -> bool {
        self.start.is_some()
    }

    /// Whether it is held back.
    pub fn is_held(&self) -> bool {
        self.start.is_some_and(|start| start.held.is_some())
    }

    /// Whether a queue stood while it began.
    pub fn is_queued(&self) -> bool {
        self.start.is_some_and(|start| start.queued)
    }

    /// Holds it back where a queue stands, lets it have a little more as time passes, and lets it go after a loss, or where something
    /// else holds it back.
    pub fn tend(&mut self, socket: &TcpStream, info: &TcpInfo) {
        let Some(start) = &mut self.start else { return };
        let other = |held: Held| held.rate > RELEASE * info.delivery as f64;
        if info.retransmits > start.retransmits || start.held.is_some_and(other) {
            self.start = None;
            self.tell(socket, tcp::EVENLY);
            return;
        }
        let queues = queues(info);
        start.queued |= queues;
        match &mut start.held {
            Some(held) => held.grow(queues, info),
            None if queues && !info.app_limited && info.delivery > 0 => {
                start.held = Some(Held::at(info.delivery));
            }
            None => return,
        }
        if let Some(held) = start.held {
            self.tell(socket, held.rate as u64);
        }
    }

    /// Lets it send no more than so many bytes a second.
    pub fn tell(&self, socket: &TcpStream, rate: u64) {
        // A system that cannot be told sends as before.
        let _ = tcp::limit_rate(socket, rate.min(self.most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::manual;
    use crate::sys::thread;

    fn info(rtt_ms: u64, delivery: u64) -> TcpInfo {
        let ms = Duration::from_millis;
        TcpInfo { rtt: ms(rtt_ms), least_rtt: ms(40), delivery, segment: 1448, ..TcpInfo::default() }
    }

    #[test]
    fn a_queue_is_told_from_round_trips_that_vary() {
        assert!(!queues(&info(44, 0)) && queues(&info(46, 0)));
    }

    #[test]
    fn who_is_held_back_grows_by_a_factor_and_in_a_queue_as_cubic_does() {
        let _clock = manual::stop();
        let after = |rtt_ms, seconds: u64| {
            let mut held = Held::at(1_000_000);
            for _ in 0..100 * seconds {
                thread::sleep(Duration::from_millis(10));
                held.grow(rtt_ms > 45, &info(rtt_ms, 0));
            }
            held.rate / 1e6
        };
        let (free, queued) = (after(40, 2), after(60, 10));
        assert!((2.2..2.3).contains(&free), "{free}");
        // 0.4 · 10³ segments a round trip of 60 ms.
        let window = 400.0 * 1448.0 / 0.06 / 1e6;
        assert!((0.98 * window..1.02 * window).contains(&(queued - 1.0)), "{queued}");
    }

    #[test]
    fn who_joins_has_a_share_or_the_gap_and_in_a_full_path_next_to_nothing() {
        let _clock = manual::stop();
        let paced = |moved: [u64; 3], lost: u64, queues: bool| {
            let (mut newcomers, mut sum) = (Newcomers::default(), 0);
            newcomers.look(0, 0, false);
            for bytes in moved {
                thread::sleep(Duration::from_secs(1));
                sum += bytes;
                newcomers.look(sum, lost, queues);
            }
            newcomers.join(4, 8);
            newcomers.pace
        };
        assert_eq!(paced([4000; 3], 0, false), Some(1250), "a quarter more than each of four");
        assert_eq!(paced([4000; 3], 9, false), Some(1250), "what is lost by chance is nobody's");
        assert_eq!(paced([4000; 3], 9, true), Some(125), "a quarter of all among eight");
        assert_eq!(paced([20_000, 20_000, 4000], 9, true), Some(2000), "what is missing");
        assert_eq!(paced([0; 3], 0, false), None, "nothing is under way");
    }
}
