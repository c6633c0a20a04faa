//! `globus-url-copy` from `/dev/zero` to `/dev/null`: between two GridFTP servers, or one and this host.
//!
//! It moves amounts, not times. Where one end is this host the kernel says how much it has moved so far: it is given more than
//! it needs, and stopped once that has been steady for long enough. Of two servers nothing is seen but how long an amount took.
//! Its own figures count in whole seconds, so what its conversation with the servers says is timed instead: from the reply
//! that data begins to flow until the operation is complete. Connecting and logging in are not in it.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_control::throughput_model::settled;
use tidegate_control::{BitRate, ByteCount};
use tidegate_spec::estimate::SAMPLE_SIZE;
use url::Url;

use crate::sampler::credential;
use crate::sampler::growing::{Growing, Learned};
use crate::sampler::program::{Invocation, ProgramEnd, ProgramOutput};
use crate::sampler::watched::{self, Wanted};
use crate::sampler::{Amount, Failure, Measured, Measuring, STILL_ROSE, Sampler, SamplerError, SamplerKind};

/// Most streams asked of a server.
pub(super) const MAX_STREAMS: u16 = 128;

/// Lines that are heard within so long were read at once, on a host that had no time for it before: what lies between them
/// is not the time of the transfer.
const AT_ONCE: Duration = Duration::from_millis(1);

/// Seconds without data until it gives up by itself.
const STALLED: &str = "20";

/// What an error says is at most so many lines, and of credentials it says so many.
const MAX_LINES: usize = 12;
const MAX_HEARD: usize = 64;

/// What a server sends at a time, unless it was told otherwise when it was started: each block goes by one stream.
const SERVER_BLOCK: u64 = 256 << 10;
/// What `globus-url-copy` itself sends at a time where it is told nothing.
const CLIENT_BLOCK: u64 = 1 << 20;
/// Blocks for each stream: with one, whoever is ready first would take that of another.
const BLOCKS_EACH: u64 = 4;
/// What `globus-url-copy` sends at a time where it is watched. A block counts as soon as it was read, whatever of it has been
/// sent: 18 streams of a link of 94 Mbit/s showed 89 to 95 with blocks of 256 KiB, and 90 with these.
const WATCHED_BLOCK: ByteCount = ByteCount::kib(64);

/// The block (`-bs`) by which `globus-url-copy` itself sends so much by all of so many streams.
pub(crate) fn block(streams: u16, bytes: ByteCount) -> ByteCount {
    let block = bytes.0 / (u64::from(streams.max(1)) * BLOCKS_EACH);
    ByteCount(block.clamp(1 << 12, CLIENT_BLOCK) >> 12 << 12)
}

/// What a server sends at least so that all of so many streams are in use, and a block more or less changes little.
fn all_busy(streams: u16) -> ByteCount {
    ByteCount(u64::from(streams) * BLOCKS_EACH * SERVER_BLOCK)
}

/// GridFtpOptions of `globus-url-copy`.
#[derive(Clone, Debug, Default)]
pub struct GridFtpOptions {
    /// The buffer of each data connection.
    pub buffer: Option<ByteCount>,
    /// The credential to log in with.
    pub proxy: Option<PathBuf>,
}

/// Measures with `globus-url-copy`.
pub struct GridFtp {
    /// What to read, a space, what to write: it has passwords, and goes by standard input.
    urls: String,
    options: GridFtpOptions,
    /// What the last sample showed.
    learned: Option<Learned>,
}

impl GridFtp {
    /// Between the servers of two URLs, or one and this host.
    pub fn new(source: &str, destination: &str, options: GridFtpOptions) -> Result<Self, SamplerError> {
        let (from, to) = (device(source, "zero")?, device(destination, "null")?);
        if from.scheme() == "file" && to.scheme() == "file" {
            let why = "both ends are on this host: the gridftp sampler measures against a server, gsiftp://… or ftp://…";
            return Err(SamplerError::new(Failure::Usage, why));
        }
        Ok(Self { urls: format!("{from} {to}\n"), options, learned: None })
    }

    /// Whether the program here sends, and not a server.
    fn sends(&self) -> bool {
        self.urls.starts_with("file:")
    }

    /// Whether an end is this host, whose kernel tells how far it is.
    fn is_here(&self) -> bool {
        self.sends() || self.urls.contains(" file:")
    }

    /// What there is to say of a sample of which a part moved `bytes` last.
    fn note(&self, streams: u16, bytes: ByteCount, told: bool) -> Option<String> {
        let least = all_busy(streams).0;
        if !told {
            Some(
                "the time includes connecting: globus-url-copy was not heard in time saying when data flowed"
                    .to_owned(),
            )
        } else if !self.sends() && bytes.0 < least && streams > 1 {
            let least = ByteCount(least);
            Some(format!(
                "a server sends blocks of 256 KiB, and {bytes} is too little for {streams} streams: take {least} or more"
            ))
        } else {
            None
        }
    }

    /// `block` is the size of one that is sent from here.
    fn command(&self, streams: u16, bytes: ByteCount, block: ByteCount) -> Invocation {
        let mut program = Invocation::new("globus-url-copy", "globus-gass-copy-progs");
        program.args(["-dbg", "-fast", "-st", STALLED, "-f", "/dev/stdin"]);
        program.args(["-p", &streams.to_string(), "-len", &bytes.0.to_string()]);
        if self.sends() {
            program.args(["-bs", &block.0.to_string()]);
        }
        if let Some(buffer) = self.options.buffer {
            program.args(["-tcp-bs", &buffer.0.to_string()]);
        }
        if let Some(proxy) = &self.options.proxy {
            program.secret("X509_USER_PROXY", &proxy.to_string_lossy());
        }
        program.input(self.urls.clone().into_bytes());
        program
    }

    /// Moves more than a sample needs, until it is stopped.
    fn watched(&self, streams: u16) -> Invocation {
        self.command(streams, *SAMPLE_SIZE.ends().1, WATCHED_BLOCK)
    }

    /// Moves `bytes` and answers with the time they took.
    async fn once(&self, streams: u16, bytes: ByteCount, limit: Duration) -> Result<Timed, SamplerError> {
        let mut conversation = Conversation::default();
        let command = self.command(streams, bytes, block(streams, bytes));
        let ended = command.run(limit, |line, at| conversation.hear(line, at)).await?;
        conversation.timed(&ended)
    }

    /// Moves for `length` once the rate is steady, where the kernel tells how far that is.
    async fn steady(
        &self,
        streams: u16,
        length: Duration,
        limit: Duration,
    ) -> Result<Measured, SamplerError> {
        let started = Instant::now();
        let all = *SAMPLE_SIZE.ends().1;
        let conversation = Mutex::new(Conversation::default());
        let heard = || conversation.lock().unwrap_or_else(PoisonError::into_inner);
        let said = || {
            let heard = heard();
            (heard.begun.is_some(), heard.round_trip.unwrap_or_default())
        };
        // Blocks are read and written whole.
        let wanted = Wanted { time: length, bytes: all_busy(streams) };
        let watch = |pid| watched::watch(pid, wanted, said);
        let command = self.watched(streams);
        match command.run_until(limit, |line, at| heard().hear(line, at), watch).await? {
            ProgramEnd::Stopped(seen) if settled::rate(&seen.counted) == BitRate::ZERO => Err(nothing()),
            ProgramEnd::Stopped(seen) => Ok(Measured {
                streams,
                throughput: settled::rate(&seen.counted),
                bytes: seen.moved,
                measured: seen.counted.iter().map(|piece| piece.time).sum(),
                spent: started.elapsed(),
                note: (!seen.steady).then(|| STILL_ROSE.to_owned()),
            }),
            // There is no more to be had of a path as fast as this.
            ProgramEnd::Itself(ended) => {
                let timed = heard().timed(&ended)?;
                let (throughput, note) =
                    (BitRate::over(all, timed.measured), self.note(streams, all, timed.told));
                Ok(Measured {
                    streams,
                    throughput,
                    bytes: all,
                    measured: timed.measured,
                    spent: ended.spent,
                    note,
                })
            }
        }
    }

    async fn sample(&mut self, streams: u16, amount: Amount) -> Result<Measured, SamplerError> {
        let started = Instant::now();
        let limit = amount.checked()?.limit();
        let length = match amount {
            Amount::Time(length) => length,
            Amount::Bytes(bytes) => {
                let timed = self.once(streams, bytes, limit).await?;
                return Ok(Measured {
                    streams,
                    throughput: BitRate::over(bytes, timed.measured),
                    bytes,
                    measured: timed.measured,
                    spent: started.elapsed(),
                    note: self.note(streams, bytes, timed.told),
                });
            }
        };
        if self.is_here() && watched::is_told() {
            return self.steady(streams, length, limit).await;
        }
        let mut growing = Growing::new(streams, length, self.learned);
        let (mut moved, mut largest, mut told) = (ByteCount(0), ByteCount(0), true);
        let left = || limit.saturating_sub(started.elapsed());
        while let Some(bytes) = growing.next(left()) {
            let timed = match self.once(streams, bytes, left()).await {
                // What moved before says enough where the rate went on to rise, and then fell.
                Err(error) if error.failure == Failure::Late && largest > ByteCount(0) => break,
                timed => timed?,
            };
            growing.record(bytes, timed.measured);
            moved += bytes;
            (largest, told) = (bytes, told && timed.told);
        }
        self.learned = growing.learned().or(self.learned);
        let (throughput, measured, rising) = growing.rate().ok_or_else(nothing)?;
        let note = self.note(streams, largest, told);
        Ok(Measured {
            streams,
            throughput,
            bytes: moved,
            measured,
            spent: started.elapsed(),
            note: note.or_else(|| rising.then(|| STILL_ROSE.to_owned())),
        })
    }
}

fn nothing() -> SamplerError {
    SamplerError::new(Failure::Failed, "globus-url-copy moved nothing in the time of a sample")
}

impl Sampler for GridFtp {
    fn kind(&self) -> SamplerKind {
        SamplerKind::GridFtp
    }

    fn measure(&mut self, streams: u16, amount: Amount) -> Measuring<'_> {
        Box::pin(self.sample(streams, amount))
    }
}

struct Timed {
    measured: Duration,
    told: bool,
}

/// The device `name` at the server of `address`, or of this host.
fn device(address: &str, name: &str) -> Result<Url, SamplerError> {
    let path = format!("/dev/{name}");
    let local = || Url::parse("file:///dev/").and_then(|base| base.join(name));
    let url = match address.split_once("://") {
        None => local(),
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("file") => local(),
        Some(_) => Url::parse(address).map(|mut url| {
            url.set_path(&path);
            url.set_query(None);
            url.set_fragment(None);
            url
        }),
    };
    // The error does not repeat the address.
    let wrong = |why: &str| {
        SamplerError::new(Failure::Usage, format!("the gridftp sampler speaks gsiftp:// and ftp://: {why}"))
    };
    let url = url.map_err(|error| wrong(&error.to_string()))?;
    match url.scheme() {
        "file" => Ok(url),
        "gsiftp" | "ftp" if url.host_str().is_some_and(|host| !host.is_empty()) => Ok(url),
        "gsiftp" | "ftp" => Err(wrong("an address without a host")),
        other => Err(wrong(&format!("not {other}://"))),
    }
}

/// What `-dbg` tells of the conversation with the servers, and what it says went wrong.
#[derive(Debug, Default)]
struct Conversation {
    begun: Option<Instant>,
    complete: Option<Instant>,
    /// When a server was last told something, and the least time until one answered: a round trip.
    asked: Option<Instant>,
    round_trip: Option<Duration>,
    error: Option<String>,
    lines: usize,
    /// All that is said from the error on.
    heard: String,
    heard_lines: usize,
}

impl Conversation {
    /// How long the transfer took, of a program that has ended.
    fn timed(&self, ended: &ProgramOutput) -> Result<Timed, SamplerError> {
        if !ended.status.success() {
            let why = credential::explained(&self.heard).or_else(|| self.error.clone());
            let why = why.unwrap_or_else(|| ended.how());
            return Err(SamplerError::new(Failure::Failed, format!("globus-url-copy: {why}")));
        }
        match (self.begun, self.complete) {
            (Some(begun), Some(complete)) if complete > begun + AT_ONCE => {
                Ok(Timed { measured: complete - begun, told: true })
            }
            // Another version may say other things, and what was read late shows no time; the whole is an honest figure still.
            _ => Ok(Timed { measured: ended.spent, told: false }),
        }
    }

    fn hear(&mut self, line: &str, at: Instant) {
        if line.starts_with("debug: sending command") {
            self.asked = Some(at);
        } else if line.starts_with("debug: response from")
            && let Some(asked) = self.asked.take()
        {
            self.round_trip = self.round_trip.into_iter().chain([at.saturating_duration_since(asked)]).min();
        }
        if (self.error.is_some() || line.starts_with("error: ")) && self.heard_lines < MAX_HEARD {
            self.heard_lines += 1;
            self.heard.push_str(line.trim_end());
            self.heard.push('\n');
        }
        if let Some(error) = line.strip_prefix("error: ") {
            self.error = Some(error.to_owned());
            self.lines = 1;
        } else if let Some(error) = self.error.as_mut() {
            let line = without_code(without_code(line));
            if self.lines < MAX_LINES && !line.is_empty() && line != "End." {
                error.push_str(if self.lines == 1 { ": " } else { "; " });
                error.push_str(line.trim_end_matches(':'));
                self.lines += 1;
            }
        } else if line.starts_with("150 ") || line.starts_with("125 ") {
            // Of two servers the second one to say so is the one that sends.
            self.begun = Some(at);
        } else if line == "debug: operation complete" {
            self.complete = Some(at);
        }
    }
}

/// A line of a reply without the code before it.
pub(crate) fn without_code(line: &str) -> &str {
    let line = line.trim();
    match line.as_bytes() {
        [a, b, c, b'-' | b' ', ..] if [a, b, c].iter().all(|digit| digit.is_ascii_digit()) => {
            line[4..].trim()
        }
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As globus-url-copy 10.12 told them.
    const THIRD_PARTY: &str = include_str!("samples/gridftp-third-party.txt");
    const NOT_FOUND: &str = include_str!("samples/gridftp-not-found.txt");

    /// Hears one line a millisecond.
    fn heard(text: &str) -> (Conversation, Instant) {
        let (mut conversation, start) = (Conversation::default(), Instant::now());
        for (i, line) in text.lines().enumerate() {
            conversation.hear(line.trim_end(), start + Duration::from_millis(i as u64));
        }
        (conversation, start)
    }

    #[test]
    fn the_time_is_from_the_senders_word_to_the_end() {
        let (conversation, start) = heard(THIRD_PARTY);
        let line = |wanted: &str| {
            THIRD_PARTY.lines().collect::<Vec<_>>().iter().rposition(|l| l.trim_end() == wanted)
        };
        let at = |wanted: &str| start + Duration::from_millis(line(wanted).expect("there") as u64);
        assert_eq!(conversation.begun, Some(at("150 Beginning transfer.")));
        assert_eq!(conversation.complete, Some(at("debug: operation complete")));
        assert_eq!(conversation.error, None);
    }

    #[test]
    fn an_error_is_told_without_the_protocols_numbers() {
        let (conversation, _) = heard(NOT_FOUND);
        let error = conversation.error.expect("it failed");
        assert_eq!(
            error,
            "globus_ftp_client: the server responded with an error: Command failed. : globus_l_gfs_file_open \
             failed.; globus_xio: Unable to open file /dev/nosuch; globus_xio: System error in open: No such file \
             or directory; globus_xio: A system call failed: No such file or directory"
        );
        let (conversation, _) = heard("garbage\n\u{0}\u{fffd}\n15\n150\nerror: \n\n\n");
        assert!(conversation.begun.is_none() && conversation.complete.is_none());
        let long = format!("error: it\n{}", "500-again\n".repeat(9_000));
        assert!(heard(&long).0.error.expect("it failed").len() < 200);
    }

    #[test]
    fn small_samples_are_sent_in_blocks_for_all_streams() {
        for (streams, bytes, wanted) in [
            (2, 1 << 20, 128 << 10),
            (4, 1_000_000, 61_440),
            (8, 1 << 30, 1 << 20),
            (128, 65_536, 4096),
            (0, 0, 4096),
        ] {
            assert_eq!(block(streams, ByteCount(bytes)), ByteCount(wanted), "{streams} of {bytes}");
        }
        let of = |from: &str| GridFtp::new(from, "ftp://b", GridFtpOptions::default()).expect("two ends");
        let command = |gridftp: &GridFtp| {
            format!("{:?}", gridftp.command(2, ByteCount::mib(1), block(2, ByteCount::mib(1))))
        };
        let (here, server) = (of("/here"), of("ftp://a"));
        assert!(command(&here).contains(r#""-bs", "131072""#) && !command(&server).contains("-bs"));
        // Of what is watched a block of each stream, sent or not, is little of what a sample has at least.
        assert!(format!("{:?}", here.watched(18)).contains(r#""-bs", "65536""#));
        assert!(18 * WATCHED_BLOCK.0 * 16 <= all_busy(18).0);
        // A server's blocks are its own: it is said where they are too large.
        assert_eq!(here.note(2, ByteCount::mib(1), true), None);
        assert_eq!(server.note(1, ByteCount::mib(1), true), None);
        assert_eq!(server.note(2, ByteCount::mib(2), true), None);
        let note = server.note(2, ByteCount::mib(1), true).expect("too little");
        assert!(
            note.contains("1 MiB is too little for 2 streams: take 2 MiB or more") && !note.contains('\n'),
            "{note}"
        );
    }

    #[test]
    fn only_the_server_is_taken_from_an_address() {
        let gridftp =
            |a: &str, b: &str| GridFtp::new(a, b, GridFtpOptions::default()).map(|gridftp| gridftp.urls);
        assert_eq!(
            gridftp("gsiftp://a.example.org:2811/data/x?y#z", "ftp://me:secret@b/y").as_deref(),
            Ok("gsiftp://a.example.org:2811/dev/zero ftp://me:secret@b/dev/null\n")
        );
        assert_eq!(gridftp("/data", "ftp://b").as_deref(), Ok("file:///dev/zero ftp://b/dev/null\n"));
        for (a, b) in [("/a", "b"), ("tg://a", "ftp://b"), ("ftp://", "ftp://b"), ("ftp://a:b:c", "x")] {
            let error = gridftp(a, b).expect_err(a);
            assert_eq!(error.failure, Failure::Usage, "{error}");
        }
        // A line break in an address would be a second pair of URLs.
        let urls = gridftp("ftp://a/\nfile:///etc/passwd file:///tmp/x", "ftp://b").expect("an address");
        assert_eq!(urls.lines().count(), 1);
        let hidden =
            GridFtp::new("ftp://me:secret@a", "ftp://b", GridFtpOptions::default()).expect("two ends");
        let text = format!("{:?}", hidden.command(2, ByteCount::mib(2), ByteCount::mib(1)));
        assert!(text.contains("/dev/stdin") && !text.contains("secret"), "{text}");
    }
}
