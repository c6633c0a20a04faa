//! An open file there: written at offsets, read back, and made what the source is. Many requests are under way at a time.

use std::collections::HashMap;
use std::io::Read;
use std::ops::Range;

use md5::{Digest, Md5};

use crate::put::target::Md5Sum;
use crate::remote::sftp::attributes::Attributes;
use crate::remote::sftp::request::{Opening, Request};
use crate::remote::sftp::session::{Session, WINDOW};
use crate::remote::sftp::trouble::SftpTrouble;
use crate::remote::{Refusal, Why};

/// The mode of an unfinished file: nobody else's.
const PRIVATE: u32 = 0o600;

/// Bytes by which a part that was begun is told from one that was not.
const PROBE: u64 = 32 << 10;

/// An open file.
pub(super) struct RemoteFile<'s> {
    session: &'s mut Session,
    handle: Vec<u8>,
}

impl<'s> RemoteFile<'s> {
    /// Opens the file at `path`; made by nobody else's leave if it is to be written.
    pub fn open(session: &'s mut Session, path: &[u8], how: Opening) -> Result<Self, SftpTrouble> {
        let attributes = match how {
            Opening::Read => Attributes::default(),
            Opening::Write => Attributes { mode: Some(PRIVATE), ..Attributes::default() },
        };
        let handle = session.handle(&Request::Open(path, how, attributes))?;
        Ok(Self { session, handle })
    }

    /// What it is.
    pub fn attributes(&mut self) -> Result<Attributes, SftpTrouble> {
        self.session.attributes(&Request::Fstat(&self.handle))
    }

    /// Writes what comes of `content` from `start` on; answers with how much that was.
    pub fn write(&mut self, start: u64, content: &mut dyn Read) -> Result<u64, SftpTrouble> {
        let mut under_way = HashMap::new();
        let written = self.write_ahead(start, content, &mut under_way);
        // After an error nobody waits for the rest.
        under_way.into_keys().for_each(|id| self.session.abandon(id));
        written
    }

    fn write_ahead(
        &mut self,
        start: u64,
        content: &mut dyn Read,
        under_way: &mut HashMap<u32, u64>,
    ) -> Result<u64, SftpTrouble> {
        let (mut at, mut waiting) = (start, 0);
        let mut buffer = vec![0; self.session.lengths.write as usize];
        loop {
            let length = fill(content, &mut buffer)?;
            if length > 0 {
                let data = &buffer[..length];
                let id = self.session.ask(&Request::Write { handle: &self.handle, offset: at, data })?;
                under_way.insert(id, length as u64);
                at += length as u64;
                waiting += length as u64;
            }
            while waiting >= WINDOW || (length == 0 && waiting > 0) {
                let (id, reply) = self.session.hear()?;
                let unasked = SftpTrouble::Senseless("an answer came to what was not asked");
                waiting -= under_way.remove(&id).ok_or(unasked)?;
                reply.done()?;
            }
            if length == 0 {
                return Ok(at - start);
            }
        }
    }

    /// The MD5 of `range`, as far as it is there.
    pub fn sum(&mut self, range: Range<u64>) -> Result<Md5Sum, SftpTrouble> {
        let mut sum = Md5::new();
        self.read(range, &mut |data| sum.update(data))?;
        Ok(sum.finalize().into())
    }

    /// The same by another opening of it, at `path`.
    pub fn sum_anew(&mut self, path: &[u8], range: Range<u64>) -> Result<Md5Sum, SftpTrouble> {
        let mut there = RemoteFile::open(self.session, path, Opening::Read)?;
        let sum = there.sum(range)?;
        there.leave()?;
        Ok(sum)
    }

    /// Whether something was written at the beginning of `range`: what was not holds zeros.
    pub fn is_begun(&mut self, range: &Range<u64>) -> Result<bool, SftpTrouble> {
        let mut is_begun = false;
        let front = range.start..range.end.min(range.start + PROBE);
        self.read(front, &mut |data| is_begun |= data.iter().any(|&byte| byte != 0))?;
        Ok(is_begun)
    }

    /// Has `take` have what is in `range`, as far as it is there.
    fn read(&mut self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), SftpTrouble> {
        let length = u64::from(self.session.lengths.read);
        let mut at = range.start;
        while at < range.end {
            let some = at..range.end.min(at.saturating_add(WINDOW));
            let handle = &self.handle;
            let ask = |offset: u64| {
                let length = length.min(some.end - offset) as u32;
                Request::Read { handle, offset, length }
            };
            let asked: Vec<Request<'_>> = some.clone().step_by(length as usize).map(ask).collect();
            for reply in self.session.all(&asked)? {
                let Some(data) = reply.data()? else { return Ok(()) };
                let wanted = length.min(range.end - at);
                if data.is_empty() || data.len() as u64 > wanted {
                    return Err(SftpTrouble::Senseless(
                        "an answer came of another length than was asked for",
                    ));
                }
                take(&data);
                at += data.len() as u64;
                if (data.len() as u64) < wanted {
                    // What follows was asked for further on: it is asked for again.
                    break;
                }
            }
        }
        Ok(())
    }

    /// Has it have a mode and a time; `false` if the server keeps neither.
    pub fn set(&mut self, attributes: Attributes) -> Result<bool, SftpTrouble> {
        match self.session.done(&Request::SetAttributes(&self.handle, attributes)) {
            Ok(()) => Ok(true),
            Err(SftpTrouble::Status(_)) => Ok(false),
            Err(trouble) => Err(trouble),
        }
    }

    /// Has it be on the server's disk, if the server can do that.
    pub fn sync(&mut self) -> Result<(), SftpTrouble> {
        match self.session.abilities.fsync {
            true => self.session.done(&Request::Fsync(&self.handle)),
            false => Ok(()),
        }
    }

    /// Closes it: some servers say only then that there was no room.
    pub fn close(self) -> Result<(), SftpTrouble> {
        self.session.done(&Request::Close(&self.handle))
    }

    /// Closes it, whatever comes of that.
    pub fn leave(self) -> Result<(), SftpTrouble> {
        self.session.close(&self.handle)
    }
}

/// Fills `buffer` as far as `content` goes.
fn fill(content: &mut dyn Read, buffer: &mut [u8]) -> Result<usize, SftpTrouble> {
    let mut filled = 0;
    while filled < buffer.len() {
        match content.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => {
                return Err(SftpTrouble::Refused(Refusal::new(
                    Why::Broken,
                    "what was to be sent was cut off",
                )));
            }
        }
    }
    Ok(filled)
}
