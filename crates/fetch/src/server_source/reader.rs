//! Reads a range of one version of a server's file, front to back, and goes on where a connection broke off.

use std::io::{ErrorKind as Io, Read};
use std::ops::Range;
use std::sync::Arc;

use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::manifest::Fingerprint;
use tidegate_transfer::store::{BlockContent, RangeReader};
use url::Url;

use super::front::{Fronts, Turn};
use super::line::{Line, LinePool, Tries};
use super::look::{is_untold, is_version};
use crate::checksum::Hashers;
use crate::remote::{Ask, Opened, Version, shown};

/// How often who waits for an answer looks before it passes over what comes before its own range.
const PATIENT: u32 = 50;

/// What is read at a time of what is not wanted.
const SKIP: usize = 64 << 10;

/// An answer that one reader hands on to the next, and the connection that it comes on.
pub(super) type Handed = (Line, ServerAnswer);

/// One range of a listed file.
pub(super) struct ServerReader {
    lines: Arc<LinePool>,
    fronts: Arc<Fronts<Handed>>,
    url: Url,
    size: u64,
    fingerprint: Fingerprint,
    range: Range<u64>,
    line: Option<Line>,
    answer: Option<ServerAnswer>,
    /// Whether others go on with the answer: the server gives no parts of the file.
    is_front: bool,
    /// The version that was answered first.
    seen: Option<Version>,
    sums: Option<Hashers>,
    tries: Tries,
}

/// The bytes of an answer that are still to come.
pub(super) struct ServerAnswer {
    body: Box<dyn Read + Send>,
    at: u64,
    end: u64,
}

impl ServerReader {
    /// Nothing is asked for before it is read.
    pub fn new(
        lines: Arc<LinePool>,
        fronts: Arc<Fronts<Handed>>,
        url: Url,
        size: u64,
        fingerprint: Fingerprint,
        range: Range<u64>,
    ) -> Self {
        let (line, answer, is_front, seen, sums, tries) = Default::default();
        Self { lines, fronts, url, size, fingerprint, range, line, answer, is_front, seen, sums, tries }
    }

    /// Has what comes from `at` on be next, asked for if it does not come already.
    fn reach(&mut self, at: u64) -> Result<()> {
        if self.answer.as_ref().is_some_and(|answer| answer.at == at) {
            return Ok(());
        }
        self.leave();
        let answer = match is_untold(&self.fingerprint) || self.fronts.knows(&self.url) {
            true => self.in_turn(at)?,
            false => self.part(at)?,
        };
        self.answer = Some(answer);
        self.skip(at)
    }

    /// Asks for what comes from `at` on.
    fn part(&mut self, at: u64) -> Result<ServerAnswer> {
        let asked = at..self.range.end.max(at + 1);
        let opened = self.ask(asked.clone())?;
        let Range { start, end } = opened.range;
        if start == at && end <= asked.end {
            return Ok(self.begin(opened, at));
        } else if start != 0 {
            let why = "its server sent another part than was asked for";
            return Err(Error::new(ErrorKind::Protocol, format!("{}: {why}", shown(&self.url))));
        }
        // All of it comes, and to one reader is enough.
        self.is_front = self.fronts.begin(&self.url, at);
        match self.is_front {
            true => Ok(self.begin(opened, at)),
            false => {
                drop(opened);
                self.in_turn(at)
            }
        }
    }

    /// The one answer that all of the file comes in, once it is this reader's turn.
    fn in_turn(&mut self, at: u64) -> Result<ServerAnswer> {
        if let Some(line) = self.line.take() {
            self.lines.give_back(line);
        }
        let (lines, fronts) = (Arc::clone(&self.lines), Arc::clone(&self.fronts));
        let url = self.url.clone();
        let _waiting = fronts.wait(&url, at);
        let is_untold = is_untold(&self.fingerprint);
        let mut glances = 0;
        loop {
            // A file of which one answer alone can be taken is with one reader at a time.
            match fronts.turn(&url, at, !is_untold && glances < PATIENT) {
                Turn::Wait => lines.glance()?,
                Turn::WaitForOthers => {
                    lines.glance()?;
                    glances += 1;
                }
                Turn::Take((line, answer)) => {
                    (self.line, self.is_front) = (Some(line), true);
                    return Ok(answer);
                }
                turn => {
                    self.is_front = matches!(turn, Turn::Ask);
                    if is_untold && !fronts.asks_first(&url) {
                        self.forget();
                        return Err(self.broken_off());
                    }
                    let opened = self.ask(0..u64::MAX).inspect_err(|_| self.is_front = false);
                    if opened.is_err() && matches!(turn, Turn::Ask) {
                        fronts.leave(&url, None);
                    }
                    return opened.map(|opened| self.begin(opened, at));
                }
            }
        }
    }

    fn ask(&mut self, range: Range<u64>) -> Result<Opened> {
        let line = self.line.get_or_insert_with(|| self.lines.take());
        let listed = Version { bytes: Some(self.size), ranges: true, ..Version::default() };
        let version = self.seen.as_ref().unwrap_or(&listed);
        let ask = Ask { url: &self.url, headers: &[], range, version: Some(version) };
        let opened = self.lines.open(line, &ask, &mut self.tries)?;
        match is_version(&self.url, self.size, &opened.version, &self.fingerprint) {
            true => Ok(opened),
            false => Err(self.changed()),
        }
    }

    /// Begins to take an answer in of whose bytes those from `at` on are wanted.
    fn begin(&mut self, opened: Opened, at: u64) -> ServerAnswer {
        let vouched = &opened.version.checksums;
        let is_first = self.seen.is_none() && at == 0;
        if is_first && self.range == (0..self.size) && vouched.refute() {
            self.sums = Some(Hashers::new(vouched.algorithms()).and_of_parts(vouched.of_parts()));
        }
        self.seen.get_or_insert(opened.version);
        ServerAnswer { body: opened.body, at: opened.range.start, end: opened.range.end.min(self.size) }
    }

    /// Reads in vain what comes before `at`.
    fn skip(&mut self, at: u64) -> Result<()> {
        let mut buffer = Vec::new();
        while let Some(answer) = self.answer.as_mut().filter(|answer| answer.at < at) {
            buffer.resize(SKIP.min((at - answer.at) as usize), 0);
            match answer.body.read(&mut buffer) {
                Ok(0) => return Err(broken(&self.url, answer)),
                Ok(n) => answer.at += n as u64,
                Err(error) if error.kind() == Io::Interrupted => {}
                Err(error) => return Err(Error::connection("reading", shown(&self.url), error)),
            }
        }
        Ok(())
    }

    /// Fills some of `buffer` from `at` on; nothing if the answer broke off, and it makes sense to ask again.
    fn some(&mut self, at: u64, buffer: &mut [u8]) -> Result<usize> {
        if let Err(error) = self.reach(at) {
            // What has come may have broken off before what is wanted of it.
            return if self.answer.is_some() { self.lost(error) } else { Err(error) };
        }
        let Some(answer) = &mut self.answer else { return Ok(0) };
        let most = buffer.len().min((answer.end - answer.at) as usize);
        match answer.body.read(&mut buffer[..most]) {
            Ok(n) if n > 0 => {
                answer.at += n as u64;
                Ok(n)
            }
            Ok(_) => {
                let error = broken(&self.url, answer);
                self.lost(error)
            }
            Err(error) if error.kind() == Io::Interrupted => Ok(0),
            Err(error) => self.lost(Error::connection("reading", shown(&self.url), error)),
        }
    }

    /// An answer broke off; answers with no bytes once it makes sense to ask again.
    fn lost(&mut self, error: Error) -> Result<usize> {
        self.forget();
        if let Some(line) = &mut self.line {
            self.lines.broke_off(line, &self.url, error, &mut self.tries)?;
        }
        Ok(0)
    }

    /// An answer that broke off is nobody's any more.
    fn forget(&mut self) {
        self.answer = None;
        if std::mem::take(&mut self.is_front) {
            self.fronts.leave(&self.url, None);
        }
    }

    /// Leaves an answer that is not read to its end: others may go on with it, if it is the only one.
    fn leave(&mut self) {
        match (self.is_front, self.line.take(), self.answer.take()) {
            (true, Some(line), Some(answer)) => {
                self.is_front = false;
                self.fronts.leave(&self.url, Some((answer.at, (line, answer))));
            }
            (_, line, answer) => {
                // The body goes first: what is left of it may cost the connection.
                drop(answer);
                self.line = line;
                self.forget();
            }
        }
    }

    /// Ends an answer whose last byte was read: one read to its end leaves its connection warm.
    fn finish(&mut self) -> Result<()> {
        let Some(mut answer) = self.answer.take_if(|answer| answer.at == answer.end) else { return Ok(()) };
        let more = matches!(answer.body.read(&mut [0]), Ok(1..));
        drop(answer);
        self.forget();
        if let Some(line) = &mut self.line {
            line.leave();
        }
        match more {
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

    fn broken_off(&self) -> Error {
        let why = "its answer broke off, and its server tells neither a tag nor a time by which the rest could be known: copy it again";
        Error::new(ErrorKind::Changed, format!("{} was not copied: {why}", shown(&self.url)))
    }

    fn changed(&self) -> Error {
        let why = "it changed at its server while it was being sent; copy it again once it rests";
        Error::new(ErrorKind::Changed, format!("{} was not copied: {why}", shown(&self.url)))
    }
}

fn broken(url: &Url, answer: &ServerAnswer) -> Error {
    let why = format!("{} broke off after {} of {} bytes", shown(url), answer.at, answer.end);
    Error::new(ErrorKind::Connection, why)
}

impl RangeReader for ServerReader {
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<BlockContent> {
        let mut filled = 0;
        while filled < buffer.len() {
            self.lines.goes_on()?;
            filled += self.some(offset + filled as u64, &mut buffer[filled..])?;
        }
        self.tries.progress();
        if let Some(sums) = &mut self.sums {
            sums.update(buffer);
        }
        self.finish()?;
        self.check_sums(offset + buffer.len() as u64)?;
        Ok(BlockContent::Data)
    }

    fn is_undivided(&self) -> bool {
        self.is_front
    }
}

impl Drop for ServerReader {
    fn drop(&mut self) {
        self.leave();
        if let Some(line) = self.line.take() {
            self.lines.give_back(line);
        }
    }
}
