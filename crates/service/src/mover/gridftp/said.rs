//! What `globus-url-copy -vb` says while it runs, and what it says of an error.

use std::time::{Duration, Instant};

use tidegate_control::stage::{Concurrency, PerStage};
use tidegate_control::{Arrival, BitRate, ByteCount, Epoch};
use tokio::sync::mpsc;

use super::super::Class;
use crate::sampler::gridftp::without_code;

/// The longest line that is looked at.
const MAX_LINE: usize = 4096;
/// The shortest time between two epochs.
const EPOCH: Duration = Duration::from_millis(900);

/// Makes epochs of the lines `     50331648 bytes        12.00 MB/sec avg        11.50 MB/sec inst`.
#[derive(Debug)]
pub(crate) struct OutputReader {
    epochs: mpsc::Sender<Epoch>,
    streams: u16,
    started: Instant,
    line: Vec<u8>,
    /// Bytes and time of the last epoch.
    last: (u64, Duration),
    /// Bytes of the file under way, and of those before it.
    bytes: (u64, u64),
    /// Bytes that are there already, and that will be there in the end.
    known: (u64, u64),
}

impl OutputReader {
    /// Nothing was heard yet of a transfer with so many streams that is to bring what is there from the first to the
    /// second of these numbers of bytes.
    pub fn new(epochs: mpsc::Sender<Epoch>, streams: u16, known: (u64, u64)) -> Self {
        Self {
            epochs,
            streams,
            started: Instant::now(),
            line: Vec::new(),
            last: (0, Duration::ZERO),
            bytes: (0, 0),
            known,
        }
    }

    /// Hears a piece of standard output.
    pub fn hear(&mut self, piece: &[u8]) {
        for &byte in piece {
            if byte == b'\n' || byte == b'\r' {
                let line = std::mem::take(&mut self.line);
                self.hear_line(&String::from_utf8_lossy(&line));
            } else if self.line.len() < MAX_LINE {
                self.line.push(byte);
            }
        }
    }

    fn hear_line(&mut self, line: &str) {
        if line.starts_with("Source: ") {
            self.bytes = (0, self.moved());
        }
        let Some(bytes) = bytes(line) else { return };
        if bytes < self.bytes.0 {
            // The next file.
            self.bytes.1 += self.bytes.0;
        }
        self.bytes.0 = bytes;
        let (before, total) = self.known;
        let (now, at) = (self.moved().min(total.saturating_sub(before)), self.started.elapsed());
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
            arrived: Some(Arrival {
                bytes: ByteCount(before + now),
                new_bytes: ByteCount(now),
                total_bytes: Some(ByteCount(total)),
            }),
            ..Epoch::default()
        });
    }

    /// Bytes moved so far.
    pub const fn moved(&self) -> u64 {
        self.bytes.0 + self.bytes.1
    }
}

fn bytes(line: &str) -> Option<u64> {
    let (number, rest) = line.trim().split_once(" bytes")?;
    rest.contains("/sec").then_some(())?;
    number.trim().parse().ok()
}

/// What stands behind `error:`, in one line and without the protocol's numbers.
pub fn error(messages: &str) -> String {
    let lines: Vec<&str> = messages.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let first = lines.iter().position(|line| line.starts_with("error:"));
    let Some(first) = first else { return lines.last().map(|line| (*line).to_owned()).unwrap_or_default() };
    let parts = lines[first..].iter().map(|line| {
        let line = line.strip_prefix("error:").unwrap_or(line).trim();
        without_code(without_code(line))
    });
    let mut kept: Vec<&str> = Vec::new();
    // Of the headings of a chain of errors nobody learns anything.
    let says = |part: &&str| !part.is_empty() && *part != "End." && !part.starts_with("GSS ");
    for part in parts.filter(says) {
        if !kept.contains(&part) && kept.len() < 6 {
            kept.push(part);
        }
    }
    kept.join("; ")
}

/// Words of an error and what they mean: the first that are in it count.
const MEANINGS: [(&[&str], Class); 5] = [
    (&["no space left", "disk quota", "quota exceeded"], Class::NoSpace),
    (&["no such file", "not found", "does not exist"], Class::NotFound),
    (
        &["permission denied", "not authorized", "530 ", "login incorrect", "no valid proxy", "credential"],
        Class::Denied,
    ),
    (&["invalid option", "syntax", "malformed"], Class::Usage),
    (
        &[
            "unable to connect",
            "connection refused",
            "connection reset",
            "connection timed out",
            "no route to host",
            "network is unreachable",
            "temporary failure in name resolution",
        ],
        Class::Unreachable,
    ),
];

/// Whether trying again may help after it said so.
pub(crate) fn class(said: &str) -> Class {
    let said = said.to_lowercase();
    let known = MEANINGS.iter().find(|(words, _)| words.iter().any(|word| said.contains(word)));
    known.map_or(Class::Passing, |&(_, class)| class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_lines_are_epochs_and_garbage_is_not() {
        let (epochs, _heard) = mpsc::channel(4);
        let mut listener = OutputReader::new(epochs, 4, (0, 0));
        listener.hear(b"Source: gsiftp://h/a\n     50331648 bytes        12.00 MB/sec avg    ");
        listener.hear(
            b"    11.50 MB/sec inst\r     60331648 bytes        12.00 MB/sec avg        11.50 MB/sec inst\n",
        );
        assert_eq!(listener.moved(), 60_331_648);
        listener.hear(b"  10 bytes  1.00 MB/sec avg  1.00 MB/sec inst\n bytes /sec\n-5 bytes /sec\n\xff\n");
        assert_eq!(listener.moved(), 60_331_658);
        listener.hear(&[b'9'; 100_000]);
        assert!(listener.line.len() <= MAX_LINE);
    }
}
