//! What `globus-url-copy -vb` says while it runs, and how it ended.

use std::time::{Duration, Instant};

use tidegate_control::stage::{Concurrency, Ends, PerStage};
use tidegate_control::{Arrival, BitRate, ByteCount, Epoch};
use tokio::sync::mpsc;

use crate::address;
use crate::job::{Files, Request, Summary};

use super::child::Exit;
use super::report::{cut, how};
use super::{Class, Ended, Outcome};

/// The longest line that is looked at.
const MOST_LINE: usize = 4096;
/// The shortest time between two epochs.
const EPOCH: Duration = Duration::from_millis(900);

/// Makes epochs of the lines `     50331648 bytes        12.00 MB/sec avg        11.50 MB/sec inst`.
#[derive(Debug)]
pub struct Listener {
    epochs: mpsc::Sender<Epoch>,
    streams: u16,
    started: Instant,
    line: Vec<u8>,
    /// Bytes and time of the last epoch.
    last: (u64, Duration),
    /// Bytes of the file under way, and of those before it.
    bytes: (u64, u64),
}

impl Listener {
    /// Nothing was heard yet of a transfer with so many streams.
    pub fn new(epochs: mpsc::Sender<Epoch>, streams: u16) -> Self {
        Self {
            epochs,
            streams,
            started: Instant::now(),
            line: Vec::new(),
            last: (0, Duration::ZERO),
            bytes: (0, 0),
        }
    }

    /// Hears a piece of standard output.
    pub fn hear(&mut self, piece: &[u8]) {
        for &byte in piece {
            if byte == b'\n' || byte == b'\r' {
                let line = std::mem::take(&mut self.line);
                self.hear_line(&String::from_utf8_lossy(&line));
            } else if self.line.len() < MOST_LINE {
                self.line.push(byte);
            }
        }
    }

    fn hear_line(&mut self, line: &str) {
        let Some(bytes) = bytes(line) else { return };
        if bytes < self.bytes.0 {
            // The next file.
            self.bytes.1 += self.bytes.0;
        }
        self.bytes.0 = bytes;
        let (now, at) = (self.moved(), self.started.elapsed());
        let interval = at - self.last.1;
        if interval < EPOCH {
            return;
        }
        let rate = BitRate::over(ByteCount(now.saturating_sub(self.last.0)), interval);
        self.last = (now, at);
        let concurrency = Concurrency::new(1, self.streams, 1);
        // Nobody waits for a listener.
        let _ = self.epochs.try_send(Epoch {
            t_ms: at.as_millis() as u64,
            interval_ms: interval.as_millis() as u64,
            concurrency,
            setpoint: concurrency,
            throughput_bps: PerStage::all(rate),
            staging_free_bytes: Ends::default(),
            staging_capacity_bytes: Ends::default(),
            remaining_bytes: None,
            arrived: Some(Arrival { bytes: ByteCount(now), new_bytes: ByteCount(now), total_bytes: None }),
            loss: None,
            rtt_us: None,
            cpu: Ends::default(),
            utility: None,
            notice: None,
        });
    }

    /// Bytes moved so far.
    pub const fn moved(&self) -> u64 {
        self.bytes.0 + self.bytes.1
    }

    /// From its beginning until now.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

fn bytes(line: &str) -> Option<u64> {
    let (number, rest) = line.trim().split_once(" bytes")?;
    rest.contains("/sec").then_some(())?;
    number.trim().parse().ok()
}

/// How it ended.
pub fn ended(exit: &Exit, request: &Request, listener: &Listener) -> Ended {
    let said = error(&exit.messages);
    let outcome = match exit.code() {
        Ok(0) => Outcome::Complete,
        _ if exit.asked => Outcome::Stopped,
        Ok(2) if said.contains("is not installed here") => Outcome::Failed(Class::Usage),
        _ => Outcome::Failed(class(&said)),
    };
    let message = match outcome {
        Outcome::Complete => String::new(),
        Outcome::Stopped => "stopped where it can go on".to_owned(),
        Outcome::Failed(_) if said.is_empty() => how(exit),
        Outcome::Failed(_) => said,
    };
    let complete = outcome == Outcome::Complete;
    let files = request.sources.len() as u64;
    // It says nothing of a file that is moved within its first second.
    let bytes = match listener.moved() {
        0 if complete => local_size(request),
        bytes => bytes,
    };
    let time = listener.elapsed();
    let summary = Summary {
        status: match outcome {
            Outcome::Complete => "complete",
            Outcome::Stopped => "interrupted",
            Outcome::Failed(Class::NoSpace) => "no_space",
            Outcome::Failed(_) => "failed",
        }
        .to_owned(),
        // GridFTP checks nothing end to end unless it is told to compare.
        verified: false,
        files: Files { total: files, ok: if complete { files } else { 0 }, failed: 0, skipped: 0 },
        bytes,
        duration_ms: time.as_millis() as u64,
        goodput_bps: BitRate::over(ByteCount(bytes), time).0,
        optimizer: format!("fixed:{}", listener.streams),
        streams_mean: f64::from(listener.streams),
        error: (!complete).then(|| cut(&message, request)),
        ..Summary::default()
    };
    Ended { outcome, message: cut(&message, request), summary: Some(summary) }
}

/// The size of what was moved, where one end of it is here.
fn local_size(request: &Request) -> u64 {
    let size = |address: &str| {
        let path = address::local(address);
        std::fs::metadata(&*path).ok().filter(std::fs::Metadata::is_file).map_or(0, |known| known.len())
    };
    match request.sources.iter().map(|source| size(source)).sum() {
        0 => size(&request.destination),
        bytes => bytes,
    }
}

/// What stands behind `error:`, in one line and without the protocol's numbers.
fn error(messages: &str) -> String {
    let lines: Vec<&str> = messages.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let first = lines.iter().position(|line| line.starts_with("error:"));
    let Some(first) = first else { return lines.last().map(|line| (*line).to_owned()).unwrap_or_default() };
    let parts = lines[first..].iter().map(|line| {
        let line = line.strip_prefix("error:").unwrap_or(line).trim();
        match line.as_bytes() {
            [a, b, c, b' ' | b'-', ..] if [a, b, c].iter().all(|digit| digit.is_ascii_digit()) => {
                line[4..].trim()
            }
            _ => line,
        }
    });
    let mut kept: Vec<&str> = Vec::new();
    for part in parts.filter(|part| !part.is_empty() && *part != "End.") {
        if !kept.contains(&part) && kept.len() < 6 {
            kept.push(part);
        }
    }
    kept.join("; ")
}

fn class(said: &str) -> Class {
    let said = said.to_lowercase();
    let any = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if any(&["no space left", "disk quota", "quota exceeded"]) {
        Class::NoSpace
    } else if any(&["no such file", "not found", "does not exist"]) {
        Class::NotFound
    } else if any(&[
        "permission denied",
        "not authorized",
        "530 ",
        "login incorrect",
        "no valid proxy",
        "credential",
    ]) {
        Class::Denied
    } else if any(&["invalid option", "syntax", "malformed"]) {
        Class::Usage
    } else {
        Class::Passing
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn its_lines_are_epochs_and_garbage_is_not() {
        let (epochs, _heard) = mpsc::channel(4);
        let mut listener = Listener::new(epochs, 4);
        listener.hear(b"Source: gsiftp://h/a\n     50331648 bytes        12.00 MB/sec avg    ");
        listener.hear(
            b"    11.50 MB/sec inst\r     60331648 bytes        12.00 MB/sec avg        11.50 MB/sec inst\n",
        );
        assert_eq!(listener.moved(), 60_331_648);
        listener.hear(b"  10 bytes  1.00 MB/sec avg  1.00 MB/sec inst\n bytes /sec\n-5 bytes /sec\n\xff\n");
        assert_eq!(listener.moved(), 60_331_658);
        listener.hear(&[b'9'; 100_000]);
        assert!(listener.line.len() <= MOST_LINE);
    }

    #[test]
    fn errors_are_one_line_and_have_a_class() {
        let request = Request::transfer("gsiftp://h/a", "gsiftp://u:secret@g/b");
        let (epochs, _heard) = mpsc::channel(4);
        let listener = Listener::new(epochs, 1);
        for (said, class, wanted) in [
            (
                "\nerror: globus_ftp_client: the server responded with an error\n500 500-Command failed. : open error: No such file or directory\n500-x\n500 End.\n",
                Class::NotFound,
                "No such file",
            ),
            ("error: write: No space left on device\n", Class::NoSpace, "No space"),
            (
                "error: globus_xio: Unable to connect to h:2811\nglobus_xio: System error in connect: Connection refused\n",
                Class::Passing,
                "Connection refused",
            ),
            ("error: 530 Login incorrect. gsiftp://u:secret@g/b\n", Class::Denied, "Login"),
            ("", Class::Passing, "exit code 1"),
        ] {
            let exit = Exit {
                status: std::process::ExitStatus::from_raw(1 << 8),
                output: None,
                messages: said.to_owned(),
                asked: false,
            };
            let ended = ended(&exit, &request, &listener);
            assert_eq!(ended.outcome, Outcome::Failed(class), "{said}");
            assert!(ended.message.contains(wanted) && !ended.message.contains("secret"), "{}", ended.message);
        }
    }
}
