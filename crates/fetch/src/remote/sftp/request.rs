//! What a server is asked.

use super::attributes::Attributes;
use super::packet::Packet;

/// The version that is spoken: the one that OpenSSH has.
pub(crate) const VERSION: u32 = 3;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// To be read.
    Read,
    /// To be written, made if it is not there, and to be read back; what is in it stays.
    Write,
}

impl Opening {
    const fn flags(self) -> u32 {
        const READ: u32 = 1;
        const WRITE: u32 = 2;
        const CREATE: u32 = 8;
        match self {
            Self::Read => READ,
            Self::Write => READ | WRITE | CREATE,
        }
    }
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request<'a> {
    Open(&'a [u8], Opening, Attributes),
    Close(&'a [u8]),
    Read {
        handle: &'a [u8],
        offset: u64,
        length: u32,
    },
    Write {
        handle: &'a [u8],
        offset: u64,
        data: &'a [u8],
    },
    /// Of what a name is, links too.
    Lstat(&'a [u8]),
    /// Of what a name leads to.
    Stat(&'a [u8]),
    Fstat(&'a [u8]),
    SetAttributes(&'a [u8], Attributes),
    OpenDirectory(&'a [u8]),
    ReadDirectory(&'a [u8]),
    Remove(&'a [u8]),
    MakeDirectory(&'a [u8]),
    /// Fails where something is in it.
    RemoveDirectory(&'a [u8]),
    /// Fails where something has the name already.
    Rename(&'a [u8], &'a [u8]),
    /// Replaces what has the name.
    PosixRename(&'a [u8], &'a [u8]),
    Fsync(&'a [u8]),
    Limits,
}

pub(crate) const POSIX_RENAME: &[u8] = b"posix-rename@openssh.com";
pub(crate) const FSYNC: &[u8] = b"fsync@openssh.com";
pub(crate) const LIMITS: &[u8] = b"limits@openssh.com";

/// What begins a session.
pub(crate) fn hello() -> Vec<u8> {
    Packet::new(1).u32(VERSION).finish()
}

impl Request<'_> {
    /// As bytes, with the number that its answer will have.
    pub fn encode(&self, id: u32) -> Vec<u8> {
        let packet = |kind: u8| Packet::new(kind).u32(id);
        let extended = |name: &[u8]| packet(200).string(name);
        match *self {
            Self::Open(path, how, attributes) => attributes.write(packet(3).string(path).u32(how.flags())),
            Self::Close(handle) => packet(4).string(handle),
            Self::Read { handle, offset, length } => packet(5).string(handle).u64(offset).u32(length),
            Self::Write { handle, offset, data } => packet(6).string(handle).u64(offset).string(data),
            Self::Lstat(path) => packet(7).string(path),
            Self::Fstat(handle) => packet(8).string(handle),
            Self::SetAttributes(handle, attributes) => attributes.write(packet(10).string(handle)),
            Self::OpenDirectory(path) => packet(11).string(path),
            Self::ReadDirectory(handle) => packet(12).string(handle),
            Self::Remove(path) => packet(13).string(path),
            Self::MakeDirectory(path) => Attributes::default().write(packet(14).string(path)),
            Self::RemoveDirectory(path) => packet(15).string(path),
            Self::Stat(path) => packet(17).string(path),
            Self::Rename(from, to) => packet(18).string(from).string(to),
            Self::PosixRename(from, to) => extended(POSIX_RENAME).string(from).string(to),
            Self::Fsync(handle) => extended(FSYNC).string(handle),
            Self::Limits => extended(LIMITS),
        }
        .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_bytes_as_the_draft_has_them() {
        assert_eq!(hello(), b"\0\0\0\x05\x01\0\0\0\x03");
        for (request, wanted) in [
            (
                Request::Open(b"a", Opening::Read, Attributes::default()),
                &b"\0\0\0\x12\x03\0\0\0\x07\0\0\0\x01a\0\0\0\x01\0\0\0\0"[..],
            ),
            (
                Request::Open(
                    b"a",
                    Opening::Write,
                    Attributes { mode: Some(0o600), ..Attributes::default() },
                ),
                b"\0\0\0\x16\x03\0\0\0\x07\0\0\0\x01a\0\0\0\x0b\0\0\0\x04\0\0\x01\x80",
            ),
            (
                Request::Read { handle: b"h", offset: 1, length: 2 },
                b"\0\0\0\x16\x05\0\0\0\x07\0\0\0\x01h\0\0\0\0\0\0\0\x01\0\0\0\x02",
            ),
            (
                Request::Write { handle: b"h", offset: 1, data: b"xy" },
                b"\0\0\0\x18\x06\0\0\0\x07\0\0\0\x01h\0\0\0\0\0\0\0\x01\0\0\0\x02xy",
            ),
            (Request::Fsync(b"h"), b"\0\0\0\x1f\xc8\0\0\0\x07\0\0\0\x11fsync@openssh.com\0\0\0\x01h"),
            (Request::Rename(b"a", b"b"), b"\0\0\0\x0f\x12\0\0\0\x07\0\0\0\x01a\0\0\0\x01b"),
        ] {
            assert_eq!(request.encode(7), wanted, "{request:?}");
        }
    }
}
