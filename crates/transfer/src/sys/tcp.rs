//! The kernel's view of a TCP connection (`TCP_INFO`) and the options our streams set.

use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};

/// What the kernel counted on one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    /// Segments retransmitted since the connection was made.
    pub retransmits: u64,
    /// Data segments sent since the connection was made.
    pub(crate) segments_sent: u64,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// The shortest one of late; zero if there was none.
    pub(crate) least_rtt: Duration,
    /// Bytes a second that the peer acknowledged of late; zero before the first.
    pub(crate) delivery: u64,
    /// How long no data has come.
    pub idle: Duration,
    /// Bytes that the peer has acknowledged since the connection was made; `None` where the kernel does not tell.
    pub acknowledged: Option<u64>,
    /// Bytes that have arrived: what is acknowledged and what came behind a gap, in whole segments.
    pub delivered: Option<u64>,
    /// The congestion window in bytes.
    pub window: u64,
    /// Bytes that a segment carries at most.
    pub segment: u64,
    /// Whether it was us that limited `delivery`.
    pub app_limited: bool,
    /// How long data has been under way since the connection was made.
    pub busy: Duration,
    /// How long of that the peer's window has held us back.
    pub receiver_limited: Duration,
    /// How long of it our own buffer has.
    pub(crate) sender_limited: Duration,
    /// Bytes that are sent and not acknowledged, and those that wait to be sent.
    pub in_flight: u64,
    pub(crate) unsent: u64,
    /// The most bytes that were read of what came within a round trip.
    pub(crate) read_in_round_trip: u32,
}

/// What `tcp_info` takes, in words.
const WORDS: usize = size_of::<libc::tcp_info>().div_ceil(8);

/// Where the bit lies that says whether the delivery rate was limited by the application: `libc` does not name it.
const APP_LIMITED: (usize, u8) = (7, if cfg!(target_endian = "little") { 1 } else { 1 << 7 });

/// Reads the counters of `stream`; `None` where the kernel has none.
#[allow(unsafe_code)]
pub(crate) fn info(stream: &TcpStream) -> Option<TcpInfo> {
    // SAFETY: `tcp_info` is plain old data for which zero is valid; the kernel writes at most `size`
    // bytes and tells how many.
    let (info, first, size) = unsafe {
        let mut words = [0u64; WORDS];
        let mut size = size_of::<libc::tcp_info>() as libc::socklen_t;
        let pointer = words.as_mut_ptr().cast();
        let result =
            libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, pointer, &raw mut size);
        if result != 0 {
            return None;
        }
        (words.as_ptr().cast::<libc::tcp_info>().read(), words[0].to_ne_bytes(), size as usize)
    };
    let has_segments = size >= std::mem::offset_of!(libc::tcp_info, tcpi_data_segs_out) + 4;
    let has_least = size >= std::mem::offset_of!(libc::tcp_info, tcpi_min_rtt) + 4;
    // All ones before the first.
    let least_rtt = if has_least && info.tcpi_min_rtt != u32::MAX { info.tcpi_min_rtt } else { 0 };
    let has_delivery = size >= std::mem::offset_of!(libc::tcp_info, tcpi_delivery_rate) + 8;
    let has_acknowledged = size >= std::mem::offset_of!(libc::tcp_info, tcpi_bytes_acked) + 8;
    let has_busy = size >= std::mem::offset_of!(libc::tcp_info, tcpi_rwnd_limited) + 8;
    let has_sender = size >= std::mem::offset_of!(libc::tcp_info, tcpi_sndbuf_limited) + 8;
    let has_delivered = size >= std::mem::offset_of!(libc::tcp_info, tcpi_delivered) + 4;
    let segment = u64::from(info.tcpi_snd_mss);
    let busy = |us: u64| Duration::from_micros(if has_busy { us } else { 0 });
    Some(TcpInfo {
        retransmits: u64::from(info.tcpi_total_retrans),
        segments_sent: if has_segments { u64::from(info.tcpi_data_segs_out) } else { 0 },
        rtt: Duration::from_micros(u64::from(info.tcpi_rtt)),
        least_rtt: Duration::from_micros(u64::from(least_rtt)),
        delivery: if has_delivery { info.tcpi_delivery_rate } else { 0 },
        idle: Duration::from_millis(u64::from(info.tcpi_last_data_recv)),
        window: u64::from(info.tcpi_snd_cwnd) * segment,
        segment,
        app_limited: has_delivery && first[APP_LIMITED.0] & APP_LIMITED.1 != 0,
        busy: busy(info.tcpi_busy_time),
        receiver_limited: busy(info.tcpi_rwnd_limited),
        sender_limited: busy(if has_sender { info.tcpi_sndbuf_limited } else { 0 }),
        in_flight: u64::from(info.tcpi_unacked) * segment,
        unsent: if has_least { u64::from(info.tcpi_notsent_bytes) } else { 0 },
        read_in_round_trip: info.tcpi_rcv_space,
        acknowledged: has_acknowledged.then_some(info.tcpi_bytes_acked),
        delivered: has_delivered.then_some(u64::from(info.tcpi_delivered) * segment),
    })
}

/// Prepares a connection: no Nagle, and a dead peer noticed within `patience`.
pub(crate) fn prepare(stream: &TcpStream, patience: Duration) -> std::io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_user_timeout(Some(patience))?;
    let probe = (patience / 3).max(Duration::from_secs(1));
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(probe).with_interval(probe).with_retries(2))
}

/// The congestion control of `stream`, by the kernel's name.
pub(crate) fn congestion(stream: &TcpStream) -> std::io::Result<String> {
    let name = SockRef::from(stream).tcp_congestion()?;
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// Gives `socket` the congestion control of that name, now and for what it sends from now on.
pub(crate) fn set_congestion(socket: &impl AsFd, name: &str) -> std::io::Result<()> {
    SockRef::from(socket).set_tcp_congestion(name.as_bytes())
}

/// What the kernel says of a congestion control of that name to whoever asks for it.
pub(crate) fn try_congestion(name: &str) -> std::io::Result<()> {
    set_congestion(&Socket::new(Domain::IPV4, Type::STREAM, None)?, name)
}

/// What streams have that nobody gives another congestion control.
pub(crate) fn system_congestion() -> std::io::Result<String> {
    congestion(&Socket::new(Domain::IPV4, Type::STREAM, None)?.into())
}

/// The names of what the kernel has, as it lists them; none where it does not.
pub(crate) fn congestion_controls() -> Vec<String> {
    let listed = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    listed.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// A limit in bytes a second that no stream reaches, but below which the kernel spreads a window over the round trip: without any
/// it sends what a window allows at once, and far away that overflows queues long before the path is full.
pub(crate) const EVENLY: u64 = 1 << 40;

/// How many bytes a second the kernel sends at most on `stream`, as whoever runs this host may have set it.
#[allow(unsafe_code)]
pub(crate) fn rate_limit(stream: &TcpStream) -> u64 {
    let mut rate = u64::MAX;
    // SAFETY: the kernel writes one number of at most eight bytes, of which older ones write four.
    let result = unsafe {
        let (pointer, mut size) = ((&raw mut rate).cast(), size_of::<u64>() as libc::socklen_t);
        let fd = stream.as_raw_fd();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, pointer, &raw mut size)
    };
    if result == 0 { rate } else { u64::MAX }
}

/// Lets the kernel send no more than so many bytes a second on `stream`, and those evenly.
#[allow(unsafe_code)]
pub(crate) fn limit_rate(stream: &TcpStream, rate: u64) -> std::io::Result<()> {
    // SAFETY: the kernel reads one number of eight bytes.
    let result = unsafe {
        let (pointer, size) = ((&raw const rate).cast(), size_of::<u64>() as libc::socklen_t);
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, pointer, size)
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Lets `stream` take bytes only while fewer than `bytes` wait in the kernel to be sent for the first time.
pub(crate) fn limit_unsent(stream: &TcpStream, bytes: u32) -> std::io::Result<()> {
    SockRef::from(stream).set_tcp_notsent_lowat(bytes)
}

/// Lets the window that is offered on `stream` grow to so many bytes, where its buffer has room for that.
#[allow(unsafe_code)]
pub(crate) fn clamp_window(stream: &TcpStream, bytes: usize) -> std::io::Result<()> {
    let most = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel reads one number of the size of a `c_int`.
    let result = unsafe {
        let (pointer, size) = ((&raw const most).cast(), size_of::<libc::c_int>() as libc::socklen_t);
        libc::setsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, pointer, size)
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
