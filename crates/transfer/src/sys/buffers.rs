//! A connection's buffers in the kernel, raised where they and not the path hold it back.
//!
//! The kernel makes them as large as a path needs, up to a bound of its own (`tcp_wmem`, `tcp_rmem`). On a far path that bound
//! may be too small. A program may ask for more, up to another bound (`wmem_max`, `rmem_max`), and has the kernel leave that
//! buffer alone from then on. So it is asked only where the kernel has come to its bound, and that is what limits the stream.

use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::Duration;

use socket2::SockRef;

use super::tcp::{self, TcpInfo};

/// No buffer is raised beyond this: 100 ms at 2.5 Gbit/s, for one stream.
pub(crate) const MAX_BUFFER: usize = 64 << 20;

/// A buffer is raised so many times at once: what a stream needs is told by what it does with that.
const RAISE: usize = 4;

/// A stream is limited by its send buffer that was so for this share of the time in which it had data under way.
const LIMITED: f64 = 0.05;

/// What the kernel gives, by itself and to who asks, of one kind of buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// The most that it comes to by itself.
    pub itself: usize,
    /// The most that may be asked for; the kernel doubles what is asked.
    pub asked: usize,
}

impl Given {
    /// Read from `tcp`, of three numbers, and `core`.
    fn of(tcp: &str, core: &str) -> Option<Self> {
        let read = |path: String| std::fs::read_to_string(path).ok();
        let itself =
            read(format!("/proc/sys/net/ipv4/{tcp}"))?.split_ascii_whitespace().nth(2)?.parse().ok()?;
        let asked = read(format!("/proc/sys/net/core/{core}"))?.trim().parse().ok()?;
        Some(Self { itself, asked })
    }

    /// What to ask for in place of a buffer of `now` bytes that limits a stream; `None` where the kernel may still raise it,
    /// or gives no more.
    fn next(self, now: usize) -> Option<usize> {
        let most = self.asked.min(MAX_BUFFER / 2);
        let ask = (now.saturating_mul(RAISE) / 2).min(most);
        (now >= self.itself && ask.saturating_mul(2) > now).then_some(ask)
    }
}

fn for_sending() -> Option<Given> {
    static GIVEN: OnceLock<Option<Given>> = OnceLock::new();
    *GIVEN.get_or_init(|| Given::of("tcp_wmem", "wmem_max"))
}

fn for_receiving() -> Option<Given> {
    static GIVEN: OnceLock<Option<Given>> = OnceLock::new();
    *GIVEN.get_or_init(|| Given::of("tcp_rmem", "rmem_max"))
}

/// The send buffer of a stream, looked at from time to time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SendBuffer {
    busy: Duration,
    sender_limited: Duration,
    receiver_limited: Duration,
}

impl SendBuffer {
    /// Raises the buffer of `stream` if it has held the stream back since it was looked at last.
    pub fn look(&mut self, stream: &TcpStream, info: &TcpInfo) {
        if let Some(given) = for_sending() {
            self.raise(stream, info, given);
        }
    }

    fn raise(&mut self, stream: &TcpStream, info: &TcpInfo, given: Given) {
        let before = std::mem::replace(self, Self::of(info));
        let socket = SockRef::from(stream);
        let Ok(now) = socket.send_buffer_size() else { return };
        if !before.holds_back(info, now) {
            return;
        }
        if let Some(ask) = given.next(now) {
            // A system that refuses sends as before.
            let raised = socket.set_send_buffer_size(ask);
            tracing::debug!("a send buffer limits its stream, {ask} bytes are asked for: {raised:?}");
        }
    }

    const fn of(info: &TcpInfo) -> Self {
        let TcpInfo { busy, sender_limited, receiver_limited, .. } = *info;
        Self { busy, sender_limited, receiver_limited }
    }

    /// Whether a buffer of `bytes` has held its stream back since then: the kernel says so, or the buffer is full where
    /// neither window is. The kernel counts such time only from the next packet on.
    fn holds_back(&self, info: &TcpInfo, bytes: usize) -> bool {
        let since = |now: Duration, then| now.saturating_sub(then);
        let limited = since(info.sender_limited, self.sender_limited);
        let told = !limited.is_zero() && limited >= since(info.busy, self.busy).mul_f64(LIMITED);
        let by_peer = info.receiver_limited > self.receiver_limited;
        let is_full = info.in_flight + info.unsent >= bytes as u64 / 2;
        told || is_full && !by_peer && info.window > info.in_flight
    }
}

/// Raises the receive buffer of `stream` if the peer fills it in each round trip.
pub(crate) fn look_at_receive_buffer(stream: &TcpStream) {
    if let (Some(given), Some(info)) = (for_receiving(), tcp::info(stream)) {
        raise_receive_buffer(stream, &info, given);
    }
}

fn raise_receive_buffer(stream: &TcpStream, info: &TcpInfo, given: Given) {
    let socket = SockRef::from(stream);
    let Ok(now) = socket.recv_buffer_size() else { return };
    // Half of a buffer or more is window, the rest is what packets cost; a window of which half is used in a round trip will
    // not do for a rate that grows.
    if (info.read_in_round_trip as usize) < now / 4 {
        return;
    }
    if let Some(ask) = given.next(now) {
        let raised = socket.set_recv_buffer_size(ask).and_then(|()| tcp::clamp_window(stream, 2 * ask));
        tracing::debug!("a receive buffer limits its stream, {ask} bytes are asked for: {raised:?}");
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_buffer_is_raised_where_the_kernel_gives_no_more_by_itself() {
        let small = Given { itself: 64 << 10, asked: 4 << 20 };
        assert_eq!(small.next(64 << 10), Some(128 << 10), "which the kernel doubles");
        assert_eq!(small.next(32 << 10), None, "it grows by itself");
        assert_eq!(small.next(6 << 20), Some(4 << 20));
        assert_eq!(small.next(8 << 20), None, "it is as large as it may be");
        let large = Given { itself: 32 << 20, asked: 208 << 10 };
        assert_eq!((large.next(1 << 20), large.next(32 << 20)), (None, None), "asking would make it smaller");
        let endless = Given { itself: 4 << 20, asked: usize::MAX / 2 };
        assert_eq!(endless.next(MAX_BUFFER / 2), Some(MAX_BUFFER / 2));
        assert_eq!(endless.next(MAX_BUFFER), None, "a bound of our own");
    }

    /// Two ends of a connection with small buffers, which every system lets grow.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let one = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let other = listener.accept().expect("connected").0;
        SockRef::from(&one).set_send_buffer_size(16 << 10).expect("a socket");
        SockRef::from(&other).set_recv_buffer_size(16 << 10).expect("a socket");
        (one, other)
    }

    #[test]
    fn only_what_holds_a_stream_back_is_raised() {
        let (mut one, mut other) = pair();
        let now = |stream: &TcpStream| {
            let socket = SockRef::from(stream);
            (socket.send_buffer_size().expect("known"), socket.recv_buffer_size().expect("known"))
        };
        let before = (now(&one).0, now(&other).1);
        let sends = Given { itself: before.0, asked: 2 * before.0 };
        let receives = Given { itself: before.1, asked: 2 * before.1 };
        let second = Duration::from_secs(1);
        let told = |limited_ms: u64, read: u32| TcpInfo {
            busy: second,
            sender_limited: Duration::from_millis(limited_ms),
            read_in_round_trip: read,
            ..TcpInfo::default()
        };
        let mut buffer = SendBuffer::default();
        buffer.raise(&one, &told(10, 0), sends);
        raise_receive_buffer(&other, &told(0, 4000), receives);
        assert_eq!((now(&one).0, now(&other).1), before, "neither is what limits it");
        let limited = told(500, before.1 as u32 / 2);
        buffer.raise(&one, &limited, sends);
        raise_receive_buffer(&other, &limited, receives);
        let raised = (now(&one).0, now(&other).1);
        assert!(raised.0 > before.0 && raised.1 > before.1, "{before:?} {raised:?}");
        // Of what was limited before nothing is concluded now.
        let more = Given { itself: raised.0, asked: usize::MAX / 2 };
        buffer.raise(&one, &limited, more);
        assert_eq!(now(&one).0, raised.0);
        let full = |window: usize| TcpInfo { in_flight: raised.0 as u64, window: window as u64, ..limited };
        buffer.raise(&one, &full(raised.0), more);
        assert_eq!(now(&one).0, raised.0, "the path holds it back");
        let by_peer = TcpInfo { receiver_limited: second, ..full(2 * raised.0) };
        SendBuffer::of(&limited).raise(&one, &by_peer, more);
        assert_eq!(now(&one).0, raised.0, "the peer holds it back");
        buffer.raise(&one, &full(2 * raised.0), more);
        assert!(now(&one).0 > raised.0);
        one.write_all(b"it goes on").expect("open");
        let mut read = [0; 10];
        other.read_exact(&mut read).expect("it does");
        assert_eq!(&read, b"it goes on");
    }
}
