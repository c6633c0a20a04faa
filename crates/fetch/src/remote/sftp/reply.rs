//! What a server answers. Nothing that it sends is believed to be what was asked for.

use super::attributes::Attributes;
use super::packet::Fields;

/// Longest handle (section 6.3 of the draft).
const MAX_HANDLE: usize = 256;

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub code: u32,
    /// In the server's words, which nobody has checked.
    pub words: String,
}

impl Status {
    pub const OK: u32 = 0;
    pub const END: u32 = 1;
    pub const NO_SUCH_FILE: u32 = 2;
    pub const DENIED: u32 = 3;
    pub const FAILURE: u32 = 4;
    pub const NO_CONNECTION: u32 = 6;
    pub const CONNECTION_LOST: u32 = 7;
    pub const UNSUPPORTED: u32 = 8;
}

/// Something in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub name: Vec<u8>,
    pub attributes: Attributes,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SftpReply {
    Status(Status),
    Handle(Vec<u8>),
    Data(Vec<u8>),
    Names(Vec<Name>),
    Attributes(Attributes),
    /// To an extended request.
    Extended(Vec<u8>),
}

impl SftpReply {
    /// Reads a packet behind its length: the number of what it answers, and the answer.
    pub fn read(packet: &[u8]) -> Option<(u32, Self)> {
        let mut fields = Fields::new(packet);
        let kind = fields.u8()?;
        let id = fields.u32()?;
        let reply = match kind {
            101 => {
                let code = fields.u32()?;
                // Old servers send no words.
                let words = fields.string().unwrap_or_default();
                Self::Status(Status { code, words: String::from_utf8_lossy(words).into_owned() })
            }
            102 => {
                let handle = fields.string().filter(|handle| handle.len() <= MAX_HANDLE)?;
                Self::Handle(handle.to_vec())
            }
            103 => Self::Data(fields.string()?.to_vec()),
            104 => {
                let mut names = Vec::new();
                for _ in 0..fields.u32()? {
                    let name = fields.string()?.to_vec();
                    // What `ls -l` would say.
                    fields.string()?;
                    names.push(Name { name, attributes: Attributes::read(&mut fields)? });
                }
                Self::Names(names)
            }
            105 => Self::Attributes(Attributes::read(&mut fields)?),
            201 => Self::Extended(packet[5..].to_vec()),
            _ => return None,
        };
        Some((id, reply))
    }
}

/// What a server says of itself at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// Renames over what has the name.
    pub posix_rename: bool,
    /// Writes through to the disk.
    pub fsync: bool,
    /// Tells how long requests may be.
    pub limits: bool,
}

impl Abilities {
    /// Reads the packet that answers the hello, behind its length; `None` if it is none of version 3.
    pub fn read(packet: &[u8]) -> Option<Self> {
        let mut fields = Fields::new(packet);
        if (fields.u8()?, fields.u32()?) != (2, super::request::VERSION) {
            return None;
        }
        let mut read = Self::default();
        while !fields.is_empty() {
            let (name, version) = (fields.string()?, fields.string()?);
            match name {
                super::request::POSIX_RENAME => read.posix_rename = version == b"1",
                super::request::FSYNC => read.fsync = version == b"1",
                super::request::LIMITS => read.limits = version == b"1",
                _ => {}
            }
        }
        Some(read)
    }
}

/// How long requests may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lengths {
    /// Bytes asked for at a time.
    pub read: u32,
    /// Bytes sent at a time.
    pub write: u32,
}

/// What every server takes.
const USUAL: u32 = 32 << 10;
/// The longest that is used: OpenSSH's limit is a little less.
const MAX_LENGTH: u32 = 255 << 10;

impl Default for Lengths {
    fn default() -> Self {
        Self { read: USUAL, write: USUAL }
    }
}

impl Lengths {
    /// Reads the answer to the question for limits.
    pub fn read(answer: &[u8]) -> Option<Self> {
        let mut fields = Fields::new(answer);
        fields.u64()?;
        // 0 is no limit.
        let length = |limit: u64| match limit {
            0 => MAX_LENGTH,
            limit => limit.min(u64::from(MAX_LENGTH)).max(1) as u32,
        };
        Some(Self { read: length(fields.u64()?), write: length(fields.u64()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::sftp::packet::{LENGTH, MAX_PACKET, Packet};

    fn read(packet: Packet) -> Option<(u32, SftpReply)> {
        SftpReply::read(&packet.finish()[LENGTH..])
    }

    #[test]
    fn answers_are_read() {
        let status = |code, words: &str| SftpReply::Status(Status { code, words: words.to_owned() });
        let packet = Packet::new(101).u32(7).u32(2).string(b"No such file").string(b"");
        assert_eq!(read(packet), Some((7, status(2, "No such file"))));
        assert_eq!(read(Packet::new(101).u32(7).u32(4)), Some((7, status(4, ""))));
        assert_eq!(read(Packet::new(103).u32(1).string(b"xy")), Some((1, SftpReply::Data(b"xy".to_vec()))));
        let names = Packet::new(104).u32(1).u32(1).string(b"\xff").string(b"-rw- \xff").u32(0);
        let name = Name { name: b"\xff".to_vec(), attributes: Attributes::default() };
        assert_eq!(read(names), Some((1, SftpReply::Names(vec![name]))));
    }

    #[test]
    fn answers_that_make_no_sense_are_none() {
        for packet in [
            Packet::new(0),
            Packet::new(101).u32(7),
            Packet::new(102).u32(7).string(&[1; MAX_HANDLE + 1]),
            Packet::new(103).u32(7).u32(u32::MAX),
            Packet::new(104).u32(7).u32(u32::MAX),
            Packet::new(105).u32(7).u32(1),
            Packet::new(3).u32(7).string(b"x"),
        ] {
            assert_eq!(read(packet), None);
        }
        assert_eq!(SftpReply::read(b""), None);
    }

    #[test]
    fn what_a_server_can_is_read_of_its_first_packet() {
        let hello = Packet::new(2).u32(3).string(b"fsync@openssh.com").string(b"1");
        let hello = hello.string(b"posix-rename@openssh.com").string(b"2").string(b"x@y").string(b"");
        let read = Abilities::read(&hello.finish()[LENGTH..]);
        assert_eq!(read, Some(Abilities { fsync: true, ..Abilities::default() }));
        for wrong in [Packet::new(2).u32(2), Packet::new(101).u32(3), Packet::new(2).u32(3).u32(9)] {
            assert_eq!(Abilities::read(&wrong.finish()[LENGTH..]), None);
        }
    }

    #[test]
    fn lengths_are_what_a_server_bears_and_no_more_than_we_take() {
        let told = |read: u64, write: u64| {
            let packet = Packet::new(0).u64(1 << 18).u64(read).u64(write).u64(0).finish();
            Lengths::read(&packet[LENGTH + 1..])
        };
        assert_eq!(told(261_120, 0), Some(Lengths { read: 261_120, write: MAX_LENGTH }));
        assert_eq!(told(u64::MAX, 1000), Some(Lengths { read: MAX_LENGTH, write: 1000 }));
        assert!((MAX_LENGTH as usize) < MAX_PACKET);
        assert_eq!(Lengths::read(b"short"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            SftpReply::read(&bytes);
            Abilities::read(&bytes);
            Lengths::read(&bytes);
        }
    }
}
