//! What a running program has moved so far, as the kernel counts what it reads and writes: so slow start is seen to end, and
//! the program is stopped once its rate has been steady for long enough, as a probe of our own is.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use tidegate_control::ByteCount;
use tidegate_control::throughput_model::settled::{self, Piece, ROUND_TRIPS};

use crate::sampler::{Amount, RISING};

/// Whatever the program says of it, data flows where more than this moves in a piece: logging in takes less.
const FLOWS: ByteCount = ByteCount::kib(64);

/// What process `pid` has moved: read, or written if that is more, without what still lies in the kernel to be sent; `None`
/// where the kernel does not say. Of what goes through connections it counts a part or nothing, of what is read from or
/// written to a device everything.
pub(super) fn moved(pid: u32) -> Option<ByteCount> {
    let counts = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let count = |name| counts.lines().find_map(|line| line.strip_prefix(name))?.trim().parse::<u64>().ok();
    let handed = count("rchar: ").max(count("wchar: "))?;
    Some(ByteCount(handed.saturating_sub(unacknowledged(pid, &connections(pid)))))
}

/// The connections of process `pid`, by their inodes.
fn connections(pid: u32) -> HashSet<String> {
    let Ok(open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return HashSet::new() };
    open.filter_map(|file| inode(&file.ok()?.path())).collect()
}

/// The inode of the connection that an open file is.
fn inode(open: &Path) -> Option<String> {
    let link = std::fs::read_link(open).ok()?;
    Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
}

/// Bytes that `ours`, where `pid` is, have to send, or have sent and not been told to have arrived.
fn unacknowledged(pid: u32, ours: &HashSet<String>) -> u64 {
    let table = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    ["tcp", "tcp6"]
        .map(table)
        .iter()
        .flat_map(|table| table.lines())
        .filter_map(|line| queued(line, ours))
        .sum()
}

/// The bytes to be sent of a line of `/proc/net/tcp`, if it is of one of `ours`.
fn queued(line: &str, ours: &HashSet<String>) -> Option<u64> {
    let mut columns = line.split_ascii_whitespace();
    // 0A: of one that listens it is another number.
    let to_send = columns.nth(3).filter(|state| *state != "0A").and(columns.next())?;
    ours.contains(columns.nth(4)?).then_some(())?;
    u64::from_str_radix(to_send.split(':').next()?, 16).ok()
}

/// Whether the kernel says so of the programs that we run.
pub(super) fn is_told() -> bool {
    moved(std::process::id()).is_some()
}

/// When a program has shown enough.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// The rate is to be steady for so long, ...
    pub time: Duration,
    /// ... and to be that of so much.
    pub bytes: ByteCount,
}

/// What was seen of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Watched {
    /// All that moved.
    pub moved: ByteCount,
    /// The pieces that tell its rate.
    pub counted: Vec<Piece>,
    /// Whether the rate had stopped rising in them.
    pub steady: bool,
}

/// Watches process `pid` until it has shown what is `wanted`, or has had the time for it; `said` tells whether it has said
/// that data flows, and the round trip to its server.
pub(super) async fn watch(pid: u32, wanted: Wanted, said: impl Fn() -> (bool, Duration)) -> Watched {
    let piece = Amount::piece(wanted.time);
    let (mut pieces, mut last) = (Vec::new(), None::<(Instant, ByteCount)>);
    loop {
        tokio::time::sleep(piece).await;
        // What has ended says so itself.
        let Some(now) = moved(pid) else { return std::future::pending().await };
        let (flows, round_trip) = said();
        let at = Instant::now();
        if let Some((before, had)) = last.replace((at, now)) {
            let bytes = ByteCount(now.0.saturating_sub(had.0));
            if !pieces.is_empty() || flows || bytes > FLOWS {
                pieces.push(Piece { time: at.saturating_duration_since(before), bytes });
            }
        }
        if let Some(seen) = seen(&pieces, wanted, round_trip) {
            return seen;
        }
    }
}

/// What `pieces` tell, once it is enough.
fn seen(pieces: &[Piece], wanted: Wanted, round_trip: Duration) -> Option<Watched> {
    let bytes = |pieces: &[Piece]| pieces.iter().map(|piece| piece.bytes).sum::<ByteCount>();
    let all = bytes(pieces);
    let least = wanted.time.max(round_trip * ROUND_TRIPS);
    let enough = |tail: &&[Piece]| bytes(tail) >= wanted.bytes;
    let told = |tail: &[Piece], steady| Watched { moved: all, counted: tail.to_vec(), steady };
    if let Some(tail) = settled::steady(pieces, least).filter(enough) {
        return Some(told(tail, true));
    }
    let passed: Duration = pieces.iter().map(|piece| piece.time).sum();
    (passed >= RISING + wanted.time).then(|| match settled::settled(pieces, least).filter(enough) {
        Some(tail) => told(tail, true),
        None => told(settled::latest(pieces, least), false),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    use super::*;

    const WANTED: Wanted = Wanted { time: Duration::from_secs(1), bytes: ByteCount::mib(1) };

    /// What is seen of pieces of 200 ms, at these rates in Mbit/s.
    fn of(rates: &[u64], round_trip_ms: u64) -> Option<Watched> {
        let piece = |rate: &u64| Piece { time: Duration::from_millis(200), bytes: ByteCount(rate * 25_000) };
        let pieces: Vec<Piece> = rates.iter().map(piece).collect();
        seen(&pieces, WANTED, Duration::from_millis(round_trip_ms))
    }

    fn rate(seen: &Watched) -> f64 {
        settled::rate(&seen.counted).as_mbps()
    }

    #[test]
    fn a_start_is_not_counted_but_it_moved() {
        let rising = [0, 5, 10, 20, 40, 80];
        assert_eq!(of(&rising, 1), None);
        let all: Vec<u64> = rising.iter().copied().chain([100; 5]).collect();
        let seen = of(&all, 1).expect("enough");
        assert!(seen.steady && (95.0..=100.0).contains(&rate(&seen)), "{seen:?}");
        assert_eq!(seen.moved, ByteCount(655 * 25_000));
    }

    #[test]
    fn what_comes_at_once_is_no_rate() {
        // Lost in slow start, and acknowledged together with what came after it.
        let falls = [20, 40, 80, 100, 50, 300, 100, 100];
        assert_eq!(of(&falls, 1), None);
        let all: Vec<u64> = falls.iter().copied().chain([100; 5]).collect();
        let seen = of(&all, 1).expect("enough");
        assert!(seen.steady && (98.0..=110.0).contains(&rate(&seen)), "{seen:?}");
    }

    #[test]
    fn far_paths_and_slow_ones_take_longer() {
        assert!(
            of(&[100; 5], 200).is_some() && of(&[100; 5], 500).is_none() && of(&[100; 10], 500).is_some()
        );
        // A mebibyte takes 8 s at 1 Mbit/s, and nothing at all is no rate.
        assert_eq!(of(&[1; 40], 1), None);
        assert!(of(&[1; 44], 1).is_some_and(|seen| seen.steady));
        assert_eq!(of(&[0; 40], 1), None);
    }

    #[test]
    fn what_never_settles_is_told_by_its_end() {
        let rising: Vec<u64> = (0..55).map(|i| 10 * i * i).collect();
        assert_eq!(of(&rising[..54], 1), None);
        let seen = of(&rising, 1).expect("its time is over");
        assert!(!seen.steady && seen.counted.len() == 5, "{seen:?}");
        assert!(rate(&seen) > 10.0 * 50.0 * 50.0, "{seen:?}");
    }

    #[test]
    fn what_lies_in_the_kernel_has_not_moved() {
        if !is_told() {
            return;
        }
        let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("bound");
        let mut sends = std::net::TcpStream::connect(address).expect("it listens");
        let (_reads, _) = listener.accept().expect("one that sends");
        sends.set_nonblocking(true).expect("a socket");
        // Until nothing more is taken, as nobody reads.
        let mut taken = 0;
        while let Ok(more) = sends.write(&[7; 1 << 16]) {
            taken += more as u64;
        }
        let us = std::process::id();
        let ours = inode(Path::new(&format!("/proc/self/fd/{}", sends.as_raw_fd()))).expect("a connection");
        assert!(connections(us).contains(&ours));
        let waits = unacknowledged(us, &HashSet::from([ours]));
        assert!(waits > 0 && waits <= taken, "{waits} of {taken}");
        for (line, found) in [
            (
                "   1: 0100007F:C350 0100007F:1B58 01 000004D2:00000000 01:00000018 00000000 0 0 77 2 0",
                Some(1234),
            ),
            ("   1: 0100007F:C350 0100007F:1B58 01 000004D2:00000000 01:00000018 00000000 0 0 78 2 0", None),
            ("   1: 0100007F:1B58 00000000:0000 0A 000004D2:00000000 00:00000000 00000000 0 0 77 1 0", None),
            (
                "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
                None,
            ),
            ("", None),
        ] {
            assert_eq!(queued(line, &HashSet::from(["77".to_owned()])), found, "{line}");
        }
    }

    #[test]
    fn what_a_process_moves_is_counted() {
        if !is_told() {
            return;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let null = || std::fs::OpenOptions::new().write(true).open("/dev/null").expect("there");
        let mut child =
            std::process::Command::new("cat").arg("/dev/zero").stdout(null()).spawn().expect("a program");
        let shown = runtime.block_on(watch(child.id(), WANTED, || (false, Duration::ZERO)));
        child.kill().expect("ours");
        child.wait().expect("ours");
        assert!(shown.moved >= WANTED.bytes && rate(&shown) > 1.0, "{shown:?}");
        // Who is gone shows nothing.
        let gone = watch(child.id(), WANTED, || (true, Duration::ZERO));
        let waited = runtime.block_on(async { tokio::time::timeout(Duration::from_millis(500), gone).await });
        assert!(waited.is_err());
    }
}
