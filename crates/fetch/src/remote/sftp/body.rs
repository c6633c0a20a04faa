//! Bytes of a file as they come: many reads are under way at a time, and their answers are put in order.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;

use super::attributes::Attributes;
use super::line::Taken;
use super::request::Request;
use super::session::WINDOW;
use super::trouble::SftpTrouble;

/// A read under way, or what came of it.
struct Piece {
    range: Range<u64>,
    id: u32,
    data: Option<Vec<u8>>,
}

/// An open file and the reads of it that are under way.
pub(crate) struct Pieces {
    taken: Taken,
    handle: Vec<u8>,
    /// Where the next read begins, and where the last one ends.
    next: u64,
    end: u64,
    pieces: VecDeque<Piece>,
    /// The number of the question for the file's attributes, and its answer.
    asked: Option<u32>,
    told: Option<Attributes>,
    /// Whether it was asked behind the last read what the file is by then.
    is_ending: bool,
}

impl Pieces {
    /// Nothing is asked for yet.
    pub const fn new(taken: Taken, handle: Vec<u8>, range: &Range<u64>) -> Self {
        let (next, end) = (range.start, range.end);
        let pieces = VecDeque::new();
        Self { taken, handle, next, end, pieces, asked: None, told: None, is_ending: false }
    }

    /// Asks for what comes next, as much as may be under way.
    pub fn ask_ahead(&mut self) -> Result<(), SftpTrouble> {
        let length = u64::from(self.taken.session.lengths.read);
        let front = self.pieces.front().map_or(self.next, |piece| piece.range.start);
        while self.next < self.end && self.next - front < WINDOW {
            let range = self.next..self.end.min(self.next.saturating_add(length));
            self.next = range.end;
            let id = self.ask(&range)?;
            self.pieces.push_back(Piece { range, id, data: None });
        }
        Ok(())
    }

    fn ask(&mut self, range: &Range<u64>) -> Result<u32, SftpTrouble> {
        let length = (range.end - range.start) as u32;
        self.taken.session.ask(&Request::Read { handle: &self.handle, offset: range.start, length })
    }

    /// Asks what the file is.
    pub fn ask_attributes(&mut self) -> Result<(), SftpTrouble> {
        self.told = None;
        let asked = self.taken.session.ask(&Request::Fstat(&self.handle))?;
        if let Some(before) = self.asked.replace(asked) {
            self.taken.session.abandon(before);
        }
        Ok(())
    }

    /// What the file is, which was asked for before.
    pub fn attributes(&mut self) -> Result<Attributes, SftpTrouble> {
        loop {
            if let Some(told) = self.told {
                return Ok(told);
            }
            self.hear()?;
        }
    }

    /// Nothing is wanted beyond `end`.
    pub fn ends_at(&mut self, end: u64) {
        self.end = end;
        self.next = self.next.min(end);
        while let Some(piece) = self.pieces.pop_back_if(|piece| piece.range.start >= end) {
            self.give_up(&piece);
        }
        if let Some(last) = self.pieces.back_mut() {
            last.range.end = last.range.end.min(end);
        }
    }

    fn give_up(&mut self, piece: &Piece) {
        if piece.data.is_none() {
            self.taken.session.abandon(piece.id);
        }
    }

    /// Takes one answer in.
    fn hear(&mut self) -> Result<(), SftpTrouble> {
        let (id, reply) = self.taken.session.hear()?;
        if self.asked == Some(id) {
            self.asked = None;
            self.told = Some(reply.attributes()?);
            return Ok(());
        }
        let unasked = SftpTrouble::Senseless("an answer came to what was not asked");
        let at =
            self.pieces.iter().position(|piece| piece.id == id && piece.data.is_none()).ok_or(unasked)?;
        // What lies behind the end of the file was asked for before its size was known.
        let Some(mut data) = reply.data()? else {
            self.pieces[at].data = Some(Vec::new());
            return Ok(());
        };
        let Range { start, end } = self.pieces[at].range;
        data.truncate((end - start) as usize);
        if data.is_empty() {
            return Err(SftpTrouble::Senseless("an answer came without any bytes"));
        }
        let come = start + data.len() as u64;
        self.pieces[at].range.end = come;
        self.pieces[at].data = Some(data);
        if come < end {
            // Less came than was asked for.
            let id = self.ask(&(come..end))?;
            self.pieces.insert(at + 1, Piece { range: come..end, id, data: None });
            self.is_ending = false;
        }
        Ok(())
    }

    /// The bytes that come next, and where they begin. Behind the last read it is asked what the file is by then.
    fn front(&mut self) -> Result<(u64, Vec<u8>), SftpTrouble> {
        loop {
            self.ask_ahead()?;
            if self.next >= self.end && !self.is_ending {
                self.is_ending = true;
                self.ask_attributes()?;
            }
            if let Some(piece) = self.pieces.pop_front_if(|piece| piece.data.is_some()) {
                return Ok((piece.range.start, piece.data.unwrap_or_default()));
            }
            if self.pieces.is_empty() {
                return Ok((self.next, Vec::new()));
            }
            self.hear()?;
        }
    }

    /// Closes the file. The session is used again.
    pub fn close(mut self) {
        for piece in std::mem::take(&mut self.pieces) {
            self.give_up(&piece);
        }
        if let Some(asked) = self.asked.take() {
            self.taken.session.abandon(asked);
        }
        if self.taken.session.close(&self.handle).is_ok() {
            self.taken.give_back();
        }
    }
}

/// The bytes of a range of a file, exactly as many as were promised, and of one version.
pub(crate) struct SftpBody {
    /// Until the last byte was read, or something went wrong.
    pieces: Option<Pieces>,
    at: u64,
    end: u64,
    first: Attributes,
    /// What has come and was not read.
    ready: Vec<u8>,
    read: usize,
}

impl SftpBody {
    /// What `pieces` bring, of a file that was `first` at first.
    pub const fn new(pieces: Pieces, range: &Range<u64>, first: Attributes) -> Self {
        let (at, end) = (range.start, range.end);
        Self { pieces: Some(pieces), at, end, first, ready: Vec::new(), read: 0 }
    }

    /// Has bytes ready. With the last of them it is known whether they are all of one version.
    fn refill(&mut self) -> io::Result<()> {
        let Some(pieces) = &mut self.pieces else { return Ok(()) };
        let mut next = || -> Result<(Vec<u8>, Option<Attributes>), SftpTrouble> {
            let (at, data) = pieces.front()?;
            if at != self.at {
                return Err(SftpTrouble::Senseless("bytes of another place came than were asked for"));
            }
            if at + (data.len() as u64) < self.end {
                return Ok((data, None));
            }
            Ok((data, Some(pieces.attributes()?)))
        };
        let (data, last) = match next() {
            Ok(next) => next,
            Err(trouble) => {
                self.pieces = None;
                return Err(lost(trouble));
            }
        };
        let is_changed =
            last.is_some_and(|last| (last.size, last.modified) != (self.first.size, self.first.modified));
        if data.is_empty() || is_changed {
            let what = if is_changed { "it changed while it was read" } else { "it ended too early" };
            self.leave();
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        (self.ready, self.read) = (data, 0);
        if last.is_some() {
            self.leave();
        }
        Ok(())
    }

    fn leave(&mut self) {
        if let Some(pieces) = self.pieces.take() {
            pieces.close();
        }
    }
}

fn lost(trouble: SftpTrouble) -> io::Error {
    let (kind, what) = match trouble {
        SftpTrouble::Silent(timeout) => {
            (io::ErrorKind::TimedOut, format!("its server said nothing for {} s", timeout.as_secs()))
        }
        SftpTrouble::Lost(error) => (io::ErrorKind::UnexpectedEof, error.message),
        SftpTrouble::Senseless(what) => (io::ErrorKind::InvalidData, what.to_owned()),
        SftpTrouble::Status(status) => {
            (io::ErrorKind::Other, format!("its server cannot read it (status {})", status.code))
        }
        SftpTrouble::Refused(refusal) => (io::ErrorKind::Other, refusal.error.message),
    };
    io::Error::new(kind, what)
}

impl Read for SftpBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.end || buffer.is_empty() {
            self.leave();
            return Ok(0);
        }
        if self.read == self.ready.len() {
            self.refill()?;
        }
        let front = &self.ready[self.read..];
        let count = front.len().min(buffer.len());
        buffer[..count].copy_from_slice(&front[..count]);
        self.read += count;
        self.at += count as u64;
        Ok(count)
    }
}

impl Drop for SftpBody {
    fn drop(&mut self) {
        self.leave();
    }
}
