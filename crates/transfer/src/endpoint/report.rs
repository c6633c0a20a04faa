//! One line in the log for each transfer: who had what done, how it went, and why it failed.

use std::sync::Arc;
use std::time::Duration;

use tidegate_control::{BitRate, ByteCount};

use crate::endpoint::counted::{Counted, Direction};
use crate::error::{ErrorKind, Result};
use crate::ledger::Ledger;
use crate::spec::{SinkSpec, SourceSpec};
use crate::sys::clock::Instant;
use crate::terms::Purpose;
use crate::text::show;
use crate::wire::request::{Request, RequestKind};
use crate::wire::ticket::Address;

/// A transfer that was asked for.
#[derive(Debug)]
pub struct Report {
    who: String,
    what: String,
    began: Instant,
    /// Which way its files go, if it has any.
    direction: Option<Direction>,
    /// Its ledger.
    pub ledger: Arc<Ledger>,
}

impl Report {
    /// What `who` asks for, if that is a transfer.
    pub fn of(request: &Request, who: String) -> Option<Self> {
        let purpose = request.purpose()?;
        let what = match &request.kind {
            RequestKind::Receive { sink: SinkSpec::Files { path, .. }, .. } => match purpose {
                Purpose::Copy => format!("writes to {}", named(path)),
                Purpose::Compare => format!("compares with {}", named(path)),
                Purpose::Plan => format!("asks what it would write to {}", named(path)),
            },
            RequestKind::Receive { sink: SinkSpec::Null, .. } => "measures the way to here".to_owned(),
            RequestKind::Send { source: SourceSpec::Files(paths) } => format!("reads {}", all(paths)),
            RequestKind::Send { source: SourceSpec::Zero(_) } => "measures the way from here".to_owned(),
            RequestKind::SendTo { source, destination, .. } => {
                let to = Address::parse(destination).map_or_else(|_| "nowhere".to_owned(), |to| to.public());
                match source {
                    SourceSpec::Files(paths) => format!("sends {} to {to}", all(paths)),
                    SourceSpec::Zero(_) => format!("measures the way from here to {to}"),
                }
            }
            _ => return None,
        };
        let direction = match &request.kind {
            RequestKind::Receive { sink: SinkSpec::Files { .. }, .. } => Some(Direction::Received),
            RequestKind::Send { source: SourceSpec::Files(_) }
            | RequestKind::SendTo { source: SourceSpec::Files(_), .. } => Some(Direction::Sent),
            _ => None,
        };
        let direction = direction.filter(|_| purpose == Purpose::Copy);
        Some(Self { who, what, began: Instant::now(), direction, ledger: Arc::default() })
    }

    /// Has it counted from now on.
    pub fn count(&self, counted: &Counted) {
        self.direction.into_iter().for_each(|direction| counted.began(direction, &self.ledger));
    }

    /// Tells how it ended.
    pub fn tell(&self, result: &Result<()>, counted: &Counted) {
        let status = self.status(result);
        self.direction.into_iter().for_each(|direction| counted.ended(direction, &self.ledger, status));
        tracing::info!("{}", self.line(self.began.elapsed(), result));
    }

    /// How it ended, in a word.
    fn status(&self, result: &Result<()>) -> &'static str {
        match result {
            Ok(()) if self.ledger.totals().files_failed == 0 && self.ledger.failures().is_empty() => {
                "complete"
            }
            Ok(()) => "incomplete",
            Err(error) if error.kind == ErrorKind::Interrupted => "interrupted",
            Err(_) => "failed",
        }
    }

    fn line(&self, lasted: Duration, result: &Result<()>) -> String {
        let totals = self.ledger.totals();
        let status = self.status(result);
        let files = match totals.files_done {
            1 => "1 file".to_owned(),
            files => format!("{files} files"),
        };
        let bytes = ByteCount(totals.bytes_moved);
        let mut line = format!(
            "{} {}: {status}, {files}, {bytes} in {:.1} s, {}",
            self.who,
            self.what,
            lasted.as_secs_f64(),
            BitRate::over(bytes, lasted)
        );
        for (number, what) in [(totals.files_skipped, "there already"), (totals.files_failed, "failed")] {
            if number > 0 {
                line.push_str(&format!(", {number} {what}"));
            }
        }
        let first = self.ledger.failures().into_iter().next().map(|failure| failure.error);
        if let Some(error) = result.as_ref().err().or(first.as_ref()) {
            line.push_str(&format!(": {error}"));
        }
        line
    }
}

/// A path beneath the root.
fn named(path: &[u8]) -> String {
    format!("/{}", show(path))
}

fn all(paths: &[Vec<u8>]) -> String {
    let first = paths.first().map(|path| named(path)).unwrap_or_default();
    match paths.len() {
        0 | 1 => first,
        n => format!("{first} and {} more", n - 1),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_control::ByteCount;

    use super::*;
    use crate::error::Error;
    use crate::terms::Terms;

    fn terms() -> Terms {
        Terms { chunk: None, staging: ByteCount::mib(4), max_workers: 4, ..Terms::default() }
    }

    #[test]
    fn a_line_says_how_it_ended_and_nothing_of_it_moves_a_cursor() {
        let source = SourceSpec::Files(vec![b"a\x1b[2J\n".to_vec(), b"b".to_vec()]);
        let request = RequestKind::Send { source }.under(terms());
        let report = Report::of(&request, "10.0.0.2:4711 (ticket 1a2b3c4d)".to_owned()).expect("a transfer");
        report.ledger.done(5);
        report.ledger.bytes_moved.fetch_add(1 << 20, std::sync::atomic::Ordering::Relaxed);
        report.ledger.skipped(1);
        let second = Duration::from_secs(1);
        assert_eq!(
            report.line(second, &Ok(())),
            "10.0.0.2:4711 (ticket 1a2b3c4d) reads /a\\x1b[2J\\x0a and 1 more: complete, 1 file, 1 MiB in 1.0 s, 8.39 Mbit/s, 1 there already"
        );
        report.ledger.failed(b"f", Error::new(ErrorKind::Denied, "f may not be read"), true);
        let line = report.line(second, &Ok(()));
        assert!(
            line.contains(": incomplete, 1 file") && line.ends_with("1 failed: f may not be read"),
            "{line}"
        );
        let stopped = Err(Error::new(ErrorKind::Interrupted, "the other end stopped the transfer"));
        assert!(report.line(second, &stopped).ends_with("the other end stopped the transfer"));
        assert!(report.line(second, &stopped).contains(": interrupted,"));
    }
}
