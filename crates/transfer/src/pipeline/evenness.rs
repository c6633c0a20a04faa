//! How fast a stream may send: evenly over each round trip, and no faster than what arrives where it begins in a queue.
//!
//! Without a pace the kernel sends what a window allows at once. On a far path such a burst overflows queues at a tenth of what
//! the path carries, each overflow costs windows a third, and cubic takes seconds to make up for that.
//!
//! A stream that begins doubles its window every round trip until a queue overflows (slow start), which costs all who share the
//! queue a part of theirs, ours and others'. So it is held at what arrives as soon as it waits in a queue, by the bounds of
//! HyStart (RFC 9406). What it is held at grows slowly, and ends with the first loss, which ends slow start, too.

use std::time::Duration;

use crate::sys::clock::Instant;
use crate::sys::net::TcpStream;
use crate::sys::tcp::{self, TcpInfo};

/// Factor a second by which a stream that is held back may send more, while no queue stands.
const GROWTH: f64 = 1.5;
/// Factor on what arrives: a stream that may send so much more is held back by something else.
const RELEASE: f64 = 2.0;
/// C of cubic, in segments a cubic second.
const CUBIC: f64 = 0.4;
/// A queue that stands: this part of the shortest round trip, but no less and no more than this.
const QUEUE_SHARE: u32 = 8;
const QUEUE: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(16));
/// Round trips shorter than this: bursts are short, slow start is soon over, and a pace costs more than it brings.
const NEAR: Duration = Duration::from_millis(5);

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
fn queues(info: &TcpInfo) -> bool {
    info.rtt.saturating_sub(info.least_rtt) > (info.least_rtt / QUEUE_SHARE).clamp(QUEUE.0, QUEUE.1)
}

impl StreamPace {
    /// The pace of a stream that begins on `socket`; one whose congestion control goes by a model of the path has a pace of its own.
    pub fn new(socket: &TcpStream, model_based: bool) -> Self {
        let mut pace = Self { most: tcp::rate_limit(socket).min(tcp::EVENLY), start: None };
        if let Some(info) = tcp::info(socket).filter(|info| !model_based && info.rtt >= NEAR) {
            pace.start = Some(SlowStart { retransmits: info.retransmits, held: None, queued: false });
            pace.tell(socket, tcp::EVENLY);
        }
        pace
    }

    /// It is held back no more, and its beginning is over.
    pub fn let_go(&mut self, socket: &TcpStream) {
        self.start = None;
        self.tell(socket, tcp::EVENLY);
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
            self.let_go(socket);
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
    fn who_begins_in_a_queue_is_held_at_what_arrives_until_it_loses_something() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let socket = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let slow_start = SlowStart { retransmits: 0, held: None, queued: false };
        let mut pace = StreamPace { most: 2_000_000, start: Some(slow_start) };
        pace.tell(&socket, tcp::EVENLY);
        assert_eq!(tcp::rate_limit(&socket), 2_000_000, "what the host has set stays");
        pace.tend(&socket, &info(44, 900_000));
        assert!(pace.starts() && !pace.is_held() && !pace.is_queued());
        pace.tend(&socket, &info(60, 900_000));
        assert!(pace.is_held() && pace.is_queued());
        assert_eq!(tcp::rate_limit(&socket), 900_000);
        pace.tend(&socket, &TcpInfo { retransmits: 1, ..info(60, 900_000) });
        assert!(!pace.starts() && !pace.is_held());
        assert_eq!(tcp::rate_limit(&socket), 2_000_000);
    }
}
