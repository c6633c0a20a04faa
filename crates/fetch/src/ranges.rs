//! What so many connections bring of files: ranges are read and thrown away until their rate is steady. Nothing is read
//! twice, so a sample costs a server no more than the files once.

use std::collections::VecDeque;
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tidegate_control::ByteCount;
use tidegate_control::throughput_model::settled::{self, Piece};
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::sys::sync::{Mutex, MutexGuard};
use tidegate_transfer::sys::thread;
use tidegate_transfer::throttle::{Limits, Throttle};
use url::Url;

use crate::remote::{Ask, Opened, Refusal, Remote, Remotes, Version, shown};

/// Most files that are read of; more are not needed to keep connections busy.
pub const MAX_FILES: usize = 64;

/// So many ranges each connection has of what there is, so that all of them end at about the same time, ...
const RANGES: u64 = 4;
/// ... of no less and no more than this: each is a request, and what is left of one is lost.
const SMALLEST: u64 = 1 << 20;
const LARGEST: u64 = 64 << 20;

/// What is read at a time.
const BUFFER: usize = 256 << 10;

/// How often it is looked whether an end has come.
const GLANCE: Duration = Duration::from_millis(10);

/// How much is read.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// Until the rate was steady for so long.
    Steady(Duration),
    /// Until so much has come.
    Bytes(ByteCount),
}

/// What is read, and how.
#[derive(Clone, Debug)]
pub struct RangeSettings {
    /// Of these files, the first [`MAX_FILES`].
    pub files: Vec<Url>,
    /// By so many connections.
    pub connections: u16,
    /// When it is enough.
    pub until: Until,
    /// The most that this may take.
    pub longest: Duration,
    /// The time of a piece in which the rate is seen.
    pub piece: Duration,
    /// Rates to keep: a connection's, and all connections' together.
    pub limits: Limits,
}

/// Why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangesEnd {
    /// There was what was wanted.
    Enough,
    /// The time was over, and the rate had not been steady.
    Late,
    /// A connection found nothing more to read.
    All,
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangesRead {
    /// All of it.
    pub bytes: ByteCount,
    /// The pieces that tell the rate; none where it ended before there was one.
    pub counted: Vec<Piece>,
    /// From the first byte to the end.
    pub time: Duration,
    /// Why it ended.
    pub end: RangesEnd,
}

/// What is left to be read, and what came.
struct Reading {
    left: Mutex<VecDeque<Part>>,
    moved: AtomicU64,
    /// Least time in which a first request of a connection was answered: some round trips.
    answered: Mutex<Option<Duration>>,
    /// A connection found nothing left.
    ended: AtomicBool,
    failed: Mutex<Option<Error>>,
    stopped: AtomicBool,
    link: Option<Throttle>,
}

/// A part of a file, of one version; its end is `u64::MAX` where the size is not known.
struct Part {
    url: Url,
    range: Range<u64>,
    version: Version,
}

impl Reading {
    fn failed(&self) -> MutexGuard<'_, Option<Error>> {
        self.failed.lock()
    }

    fn over(&self) -> bool {
        self.stopped.load(Relaxed) || self.ended.load(Relaxed)
    }

    /// Reads one part after the other, until there is none or the end has come.
    fn work(&self, remote: &mut dyn Remote, own: Option<&Throttle>) -> Result<(), Error> {
        let mut buffer = vec![0; BUFFER];
        let mut asked = Some(Instant::now());
        while !self.over() {
            let next = self.left.lock().pop_front();
            let Some(part) = next else {
                self.ended.store(true, Relaxed);
                break;
            };
            let ask =
                Ask { url: &part.url, headers: &[], range: part.range.clone(), version: Some(&part.version) };
            let opened = remote.open(&ask).map_err(|refusal| refusal.error)?;
            if let Some(asked) = asked.take() {
                let time = asked.elapsed();
                let mut least = self.answered.lock();
                *least = Some(least.map_or(time, |least| least.min(time)));
            }
            self.read(&part, opened, own, &mut buffer)?;
        }
        Ok(())
    }

    fn read(&self, part: &Part, opened: Opened, own: Option<&Throttle>, buffer: &mut [u8]) -> Result<()> {
        let whole = part.range.start == 0 && part.range.end == part.version.bytes.unwrap_or(u64::MAX);
        if !whole && opened.range != part.range {
            let why = "its server says that it gives parts of it, and does not";
            return Err(Error::new(ErrorKind::Protocol, format!("{}: {why}", shown(&part.url))));
        }
        let portion = own.into_iter().chain(&self.link).map(Throttle::portion).min();
        let most = portion.unwrap_or(BUFFER).min(BUFFER);
        let mut body = opened.body;
        while !self.over() {
            let n = body.read(&mut buffer[..most]).map_err(|error| {
                Error::new(ErrorKind::Connection, format!("{}: {error}", shown(&part.url)))
            })?;
            if n == 0 {
                break;
            }
            for throttle in own.into_iter().chain(&self.link) {
                throttle.take(n, &self.stopped);
            }
            self.moved.fetch_add(n as u64, Relaxed);
        }
        Ok(())
    }
}

/// Reads ranges of files by so many connections, and tells how they came.
///
/// # Errors
/// A connection is refused or lost, a file is not there, or there is nothing in any.
pub fn read(remotes: &dyn Remotes, settings: &RangeSettings) -> Result<RangesRead> {
    let mut first = remotes.remote();
    let parts = parts(&mut *first, settings).map_err(|refusal| refusal.error)?;
    let (n, least) = (parts.len(), usize::from(settings.connections));
    if n == 0 {
        return Err(Error::new(ErrorKind::NotFound, "there is nothing to read in what was named"));
    } else if n < least {
        let why = format!(
            "{least} connections have too little to read: it is small, or its server gives no parts of it"
        );
        return Err(Error::new(ErrorKind::Usage, why));
    }
    let reading = Arc::new(Reading {
        left: Mutex::new(parts),
        moved: AtomicU64::new(0),
        answered: Mutex::default(),
        ended: AtomicBool::new(false),
        failed: Mutex::default(),
        stopped: AtomicBool::new(false),
        link: Throttle::new(settings.limits.link),
    });
    // The first has a connection already, which its answer would be too quick by.
    drop(first);
    for number in 0..settings.connections {
        let (reading, mut remote) = (Arc::clone(&reading), remotes.remote());
        let own = Throttle::new(settings.limits.network);
        // They are not waited for at the end: a server may hold them up, and what they hold is not needed.
        let work = move || {
            if let Err(error) = reading.work(&mut *remote, own.as_ref()) {
                reading.failed().get_or_insert(error);
            }
        };
        let thread = thread::Builder::new().name(format!("range-{number}"));
        thread
            .spawn(work)
            .map_err(|error| Error::new(ErrorKind::Io, format!("cannot start a thread: {error}")))?;
    }
    let read = watch(&reading, settings);
    reading.stopped.store(true, Relaxed);
    read
}

/// What there is to read, file by file, in ranges where a server gives them.
fn parts(remote: &mut dyn Remote, settings: &RangeSettings) -> Result<VecDeque<Part>, Refusal> {
    let mut files = Vec::new();
    for url in settings.files.iter().take(MAX_FILES) {
        let ask = Ask { url, headers: &[], range: 0..u64::MAX, version: None };
        let version = remote.look(&ask)?;
        files.push((url, version));
    }
    let all = files.iter().filter_map(|(_, version)| version.bytes).fold(0, u64::saturating_add);
    let length = (all / (RANGES * u64::from(settings.connections.max(1)))).clamp(SMALLEST, LARGEST);
    let mut parts = VecDeque::new();
    for (url, version) in files {
        let size = version.bytes.unwrap_or(u64::MAX);
        let length = if version.bytes.is_some() && version.ranges { length } else { size };
        let mut start = 0;
        while start < size {
            let end = size.min(start.saturating_add(length));
            parts.push_back(Part { url: url.clone(), range: start..end, version: version.clone() });
            start = end;
        }
    }
    Ok(parts)
}

/// Looks piece by piece at what comes, until that is enough.
fn watch(reading: &Reading, settings: &RangeSettings) -> Result<RangesRead> {
    let begun = Instant::now();
    let moved = || reading.moved.load(Relaxed);
    let check = || reading.failed().take().map_or(Ok(()), Err);
    // What comes before the first byte is connecting.
    while moved() == 0 && !reading.over() && begun.elapsed() < settings.longest {
        check()?;
        std::thread::sleep(GLANCE);
    }
    let flows = Instant::now();
    let (mut pieces, mut last) = (Vec::new(), (flows, moved()));
    let end = loop {
        let ended = pass(reading, settings, last.0);
        check()?;
        let now = (Instant::now(), moved());
        pieces.push(Piece { time: now.0 - last.0, bytes: ByteCount(now.1 - last.1) });
        last = now;
        if enough(reading, settings, &pieces).is_some() {
            break RangesEnd::Enough;
        } else if ended {
            // What is shorter than a piece tells of no rate, and connections end one by one in it.
            pieces.pop();
            break RangesEnd::All;
        } else if begun.elapsed() >= settings.longest {
            break RangesEnd::Late;
        }
    };
    let counted = match (enough(reading, settings, &pieces), settings.until) {
        (Some(tail), _) => tail,
        (None, Until::Steady(time)) => settled::latest(&pieces, time).to_vec(),
        (None, Until::Bytes(_)) => pieces,
    };
    if moved() == 0 {
        return Err(Error::new(ErrorKind::Connection, "nothing came in the time of a sample"));
    }
    Ok(RangesRead { bytes: ByteCount(moved()), counted, time: flows.elapsed(), end })
}

/// Lets the time of a piece go by; `true` if a connection found nothing more to read before that.
fn pass(reading: &Reading, settings: &RangeSettings, since: Instant) -> bool {
    while since.elapsed() < settings.piece {
        if reading.ended.load(Relaxed) {
            return true;
        }
        std::thread::sleep(GLANCE.min(settings.piece.saturating_sub(since.elapsed())));
    }
    false
}

/// The pieces that tell the rate, once there is what was wanted.
fn enough(reading: &Reading, settings: &RangeSettings, pieces: &[Piece]) -> Option<Vec<Piece>> {
    match settings.until {
        Until::Steady(time) => {
            // Connecting and asking takes some round trips, and so much of a rate is to be seen.
            let answered = reading.answered.lock().unwrap_or_default();
            settled::settled(pieces, time.max(answered)).map(<[Piece]>::to_vec)
        }
        Until::Bytes(bytes) => (reading.moved.load(Relaxed) >= bytes.0).then(|| match pieces {
            // Slow start is in the first.
            [_, rest @ ..] if !rest.is_empty() => rest.to_vec(),
            all => all.to_vec(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_control::BitRate;

    use super::*;
    use crate::remote::servers::{ServerSettings, Servers};

    const PIECE: Duration = Duration::from_millis(20);

    /// Reads of a file of so many MiB on this machine, by so many connections.
    fn of(mib: u64, connections: u16, until: Until, limit: Option<BitRate>) -> Result<RangesRead> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("x");
        std::fs::File::create(&path).and_then(|file| file.set_len(mib << 20)).expect("made");
        let file = Url::from_file_path(&path).expect("a URL");
        let limits = Limits { network: limit, ..Limits::default() };
        let longest = Duration::from_secs(20);
        let settings = RangeSettings { files: vec![file], connections, until, longest, piece: PIECE, limits };
        read(&Servers::new(&ServerSettings::default()), &settings)
    }

    #[test]
    fn a_rate_is_read_off_ranges_and_no_more_than_there_is() {
        let until = Until::Steady(Duration::from_millis(100));
        let limit = BitRate::mbps(40);
        let seen = of(64, 2, until, Some(limit)).expect("read");
        assert_eq!(seen.end, RangesEnd::Enough, "{seen:?}");
        // No sleep is shorter than asked for, so what is let through is never more.
        let most = 2.0 * limit.bytes_per_second() * (seen.time.as_secs_f64() + 0.1) + 2.0 * BUFFER as f64;
        assert!(seen.bytes.0 > 0 && (seen.bytes.0 as f64) < most, "{seen:?}");
        let all = of(8, 3, Until::Bytes(ByteCount::gib(1)), None).expect("read");
        assert!(all.end == RangesEnd::All && all.bytes <= ByteCount::mib(8), "{all:?}");
        let some = of(64, 1, Until::Bytes(ByteCount::mib(2)), Some(BitRate::mbps(400))).expect("read");
        assert!(some.end == RangesEnd::Enough && some.bytes >= ByteCount::mib(2), "{some:?}");
    }

    #[test]
    fn what_cannot_keep_its_connections_busy_is_no_sample() {
        let until = Until::Steady(PIECE);
        let error = of(1, 2, until, None).expect_err("one range");
        assert!(error.message.contains("2 connections have too little"), "{error}");
        assert_eq!(of(0, 1, until, None).expect_err("empty").kind, ErrorKind::NotFound);
        let nowhere: Url = "file:///no/such/file".parse().expect("a URL");
        let limits = Limits::default();
        let settings = RangeSettings {
            files: vec![nowhere],
            connections: 1,
            until,
            longest: PIECE,
            piece: PIECE,
            limits,
        };
        let error = read(&Servers::new(&ServerSettings::default()), &settings).expect_err("not there");
        assert_eq!(error.kind, ErrorKind::NotFound);
    }
}
