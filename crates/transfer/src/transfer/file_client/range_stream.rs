//! One range of one version of a file, read front to back over a session of its own, which is asked some pieces ahead.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::manifest::Fingerprint;
use crate::transfer::Interrupt;
use crate::transfer::file_client::{FileClient, FileSession, unasked};
use crate::wire::files::{Content, FileRange, FileReply, FileRequest, MAX_CONTENT};

/// So much is asked for by one request.
const PIECE: u64 = MAX_CONTENT as u64 / 2;

/// Requests that are asked ahead of their answers: 4 MiB, what 1 Gbit/s has under way at 30 ms.
const AHEAD: usize = 8;

/// What is still to come of a range.
#[derive(Debug)]
pub struct RangeStream {
    client: Arc<FileClient>,
    path: Vec<u8>,
    version: Fingerprint,
    /// What nobody was asked for yet.
    rest: Range<u64>,
    session: Option<FileSession>,
    /// Whether the session worked before, so that it may have been closed while nobody used it.
    was_used: bool,
    asked: VecDeque<(u32, FileRange)>,
    piece: Vec<u8>,
    /// What of the piece was taken.
    taken: usize,
}

impl FileClient {
    /// The bytes of `range` of that version of the file at `path`; nothing is asked for yet.
    pub fn stream(self: &Arc<Self>, path: Vec<u8>, version: Fingerprint, range: Range<u64>) -> RangeStream {
        let client = Arc::clone(self);
        let (session, was_used, asked, piece, taken) = Default::default();
        RangeStream { client, path, version, rest: range, session, was_used, asked, piece, taken }
    }
}

impl RangeStream {
    /// Fills the beginning of `buffer` with what comes next, and tells how much that is: nothing behind the end.
    ///
    /// # Errors
    /// The file is another version by now, or the session was lost or is not to be had: then the next call goes on where
    /// this one would have.
    pub fn read(&mut self, buffer: &mut [u8], interrupt: &Interrupt) -> Result<usize> {
        while self.taken == self.piece.len() {
            if self.asked.is_empty() && self.rest.is_empty() {
                return Ok(0);
            }
            match self.next_piece(interrupt) {
                Ok(piece) => (self.piece, self.taken, self.was_used) = (piece, 0, false),
                Err(error) => {
                    let was_closed = error.kind == ErrorKind::Connection && self.was_used;
                    self.forget();
                    if !was_closed {
                        return Err(error);
                    }
                }
            }
        }
        let some = &self.piece[self.taken..];
        let length = some.len().min(buffer.len());
        buffer[..length].copy_from_slice(&some[..length]);
        self.taken += length;
        Ok(length)
    }

    fn next_piece(&mut self, interrupt: &Interrupt) -> Result<Vec<u8>> {
        if self.session.is_none() {
            let (was_used, session) = self.client.take_at_once()?;
            (self.session, self.was_used) = (Some(session), was_used);
        }
        self.ask_ahead();
        let (Some(session), Some((number, range))) = (&self.session, self.asked.front().copied()) else {
            return Err(unasked());
        };
        let piece = match session.reply(number, interrupt)? {
            FileReply::Data(Content(piece)) if piece.len() == range.length as usize => piece,
            FileReply::Data(Content(piece)) if piece.len() < range.length as usize => {
                return Err(Error::new(ErrorKind::Changed, "the file has become shorter while it was read"));
            }
            FileReply::Failed(error) => return Err(error),
            _ => return Err(unasked()),
        };
        self.asked.pop_front();
        if self.asked.is_empty() && self.rest.is_empty() {
            self.session.take().into_iter().for_each(|session| self.client.give_back(session));
        }
        Ok(piece)
    }

    fn ask_ahead(&mut self) {
        let Some(session) = &mut self.session else { return };
        while self.asked.len() < AHEAD && !self.rest.is_empty() {
            let length = (self.rest.end - self.rest.start).min(PIECE);
            let range = FileRange { offset: self.rest.start, length: length as u32 };
            let request = FileRequest::Read {
                path: self.path.clone(),
                version: Some(self.version),
                ranges: vec![range],
            };
            self.asked.push_back((session.ask(request), range));
            self.rest.start += length;
        }
    }

    /// The session is of no use any more: what it did not answer is asked for again.
    fn forget(&mut self) {
        self.session = None;
        if let Some((_, first)) = self.asked.front() {
            self.rest.start = first.offset;
        }
        self.asked.clear();
    }
}
