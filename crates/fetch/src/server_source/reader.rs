//! Reads a range of one version of a server's file, front to back, and goes on where a connection broke off.

use std::io::{ErrorKind as Io, Read};
use std::ops::Range;
use std::sync::Arc;

use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::manifest::Fingerprint;
use tidegate_transfer::store::{BlockContent, RangeReader};
use url::Url;

use super::line::{Line, LinePool, Tries};
use super::look::is_version;
use crate::checksum::Hashers;
use crate::remote::{Ask, Opened, Version, shown};

/// Most bytes before a range that are read in vain where a server gives no parts of a file.
const MAX_SKIPPED: u64 = 64 << 20;

/// What is read at a time of what is not wanted.
const SKIP: usize = 64 << 10;

/// One range of a listed file.
pub(super) struct ServerReader {
    lines: Arc<LinePool>,
    url: Url,
    size: u64,
    fingerprint: Fingerprint,
    range: Range<u64>,
    line: Option<Line>,
    answer: Option<Answer>,
    /// The version that was answered first.
    seen: Option<Version>,
    sums: Option<Hashers>,
    tries: Tries,
}

/// The bytes of an answer that are still to come.
struct Answer {
    body: Box<dyn Read + Send>,
    at: u64,
    end: u64,
}

impl ServerReader {
    /// Nothing is asked for before it is read.
    pub fn new(
        lines: Arc<LinePool>,
        url: Url,
        size: u64,
        fingerprint: Fingerprint,
        range: Range<u64>,
    ) -> Self {
        let (line, answer, seen, sums, tries) = Default::default();
        Self { lines, url, size, fingerprint, range, line, answer, seen, sums, tries }
    }

    /// What comes from `at` on, asked for if it does not come already.
    fn answer(&mut self, at: u64) -> Result<&mut Answer> {
        if self.answer.as_ref().is_none_or(|answer| answer.at != at) {
            self.answer = None;
            let opened = self.ask(at)?;
            let answer = self.begin(opened, at)?;
            self.answer = Some(answer);
        }
        Ok(self.answer.as_mut().expect("it was put there"))
    }

    fn ask(&mut self, at: u64) -> Result<Opened> {
        let line = self.line.get_or_insert_with(|| self.lines.take());
        let listed = Version { bytes: Some(self.size), ranges: true, ..Version::default() };
        let version = self.seen.as_ref().unwrap_or(&listed);
        let range = at..self.range.end.max(at + 1);
        let ask = Ask { url: &self.url, headers: &[], range, version: Some(version) };
        let opened = self.lines.open(line, &ask, &mut self.tries)?;
        match is_version(&self.url, self.size, &opened.version, &self.fingerprint) {
            true => Ok(opened),
            false => Err(self.changed()),
        }
    }

    /// Begins to take an answer in whose bytes from `at` on are wanted.
    fn begin(&mut self, opened: Opened, at: u64) -> Result<Answer> {
        let Range { start, end } = opened.range;
        let end = end.min(self.size);
        let mut answer = Answer { body: opened.body, at: start, end };
        if start != at {
            let why = match start {
                0 if at <= MAX_SKIPPED => None,
                0 => Some("its server gives no parts of it: get it by `tidegate get`, and copy that"),
                _ => Some("its server sent another part than was asked for"),
            };
            if let Some(why) = why {
                return Err(Error::new(ErrorKind::Protocol, format!("{}: {why}", shown(&self.url))));
            }
            let mut buffer = vec![0; SKIP];
            while answer.at < at {
                let most = buffer.len().min((at - answer.at) as usize);
                let skipped = answer.body.read(&mut buffer[..most]);
                let n = skipped.map_err(|error| Error::connection("reading", shown(&self.url), error))?;
                if n == 0 {
                    return Err(self.broken(answer.at, answer.end));
                }
                answer.at += n as u64;
            }
        }
        let vouched = &opened.version.checksums;
        let is_first = self.seen.is_none() && at == 0;
        if is_first && self.range == (0..self.size) && vouched.refute() {
            self.sums = Some(Hashers::new(vouched.algorithms()).and_of_parts(vouched.of_parts()));
        }
        self.seen.get_or_insert(opened.version);
        Ok(answer)
    }

    /// Fills some of `buffer` from `at` on; `None` if the answer broke off, and it makes sense to ask again.
    fn some(&mut self, at: u64, buffer: &mut [u8]) -> Result<Option<usize>> {
        let answer = self.answer(at)?;
        let most = buffer.len().min((answer.end - answer.at) as usize);
        let read = answer.body.read(&mut buffer[..most]);
        let end = answer.end;
        let error = match read {
            Ok(n) if n > 0 => {
                answer.at += n as u64;
                return Ok(Some(n));
            }
            Err(error) if error.kind() == Io::Interrupted => return Ok(None),
            Ok(_) => self.broken(at, end),
            Err(error) => Error::connection("reading", shown(&self.url), error),
        };
        self.answer = None;
        if let Some(line) = &mut self.line {
            self.lines.broke_off(line, &self.url, error, &mut self.tries)?;
        }
        Ok(None)
    }

    /// Ends an answer whose last byte was read: one read to its end leaves its connection warm.
    fn finish(&mut self) -> Result<()> {
        let Some(mut answer) = self.answer.take_if(|answer| answer.at == answer.end) else { return Ok(()) };
        let more = matches!(answer.body.read(&mut [0]), Ok(1..));
        drop(answer);
        if let Some(line) = &mut self.line {
            line.leave();
        }
        match more && self.seen.as_ref().is_some_and(|seen| seen.ranges) {
            true => {
                let why = "its server sent more bytes than it promised";
                Err(Error::new(ErrorKind::Protocol, format!("{}: {why}", shown(&self.url))))
            }
            false => Ok(()),
        }
    }

    /// Holds all that came against what the server says of it, where both are known.
    fn check_sums(&mut self, read_to: u64) -> Result<()> {
        let Some(sums) = self.sums.take_if(|_| read_to == self.size) else { return Ok(()) };
        let vouched = self.seen.as_ref().map(|seen| &seen.checksums);
        match vouched.and_then(|vouched| vouched.contradicts(&sums.finish())) {
            None => Ok(()),
            Some(differs) => {
                let why = format!(
                    "its server says that its {} is {}, and what came has {}",
                    differs.kind, differs.expected, differs.computed
                );
                Err(Error::new(ErrorKind::Corrupt, format!("{}: {why}", shown(&self.url))))
            }
        }
    }

    fn broken(&self, at: u64, end: u64) -> Error {
        let why = format!("{} broke off after {at} of {end} bytes", shown(&self.url));
        Error::new(ErrorKind::Connection, why)
    }

    fn changed(&self) -> Error {
        let why = "it changed at its server while it was being sent; copy it again once it rests";
        Error::new(ErrorKind::Changed, format!("{} was not copied: {why}", shown(&self.url)))
    }
}

impl RangeReader for ServerReader {
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<BlockContent> {
        let mut filled = 0;
        while filled < buffer.len() {
            let come = self.some(offset + filled as u64, &mut buffer[filled..])?;
            filled += come.unwrap_or_default();
        }
        self.tries.progress();
        if let Some(sums) = &mut self.sums {
            sums.update(buffer);
        }
        self.finish()?;
        self.check_sums(offset + buffer.len() as u64)?;
        Ok(BlockContent::Data)
    }
}

impl Drop for ServerReader {
    fn drop(&mut self) {
        // The body goes first: what is left of it may cost the connection.
        self.answer = None;
        if let Some(line) = self.line.take() {
            self.lines.give_back(line);
        }
    }
}
