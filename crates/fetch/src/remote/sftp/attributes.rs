//! What a server tells of a file, and is told of one.

use tidegate_transfer::manifest::Timestamp;

use super::packet::{Fields, Packet};
use crate::remote::Version;

const SIZE: u32 = 1;
const OWNER: u32 = 2;
const PERMISSIONS: u32 = 4;
const TIMES: u32 = 8;
const EXTENDED: u32 = 0x8000_0000;

/// The bits of a mode that say what a file is, and their values.
const KIND: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;

/// What is told of a file; what is `None` is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub size: Option<u64>,
    /// What it is, and who may do what.
    pub mode: Option<u32>,
    /// When it was last modified, in seconds since 1970.
    pub modified: Option<u32>,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Regular,
    Directory,
    Link,
    /// A device, a pipe or a socket.
    Other,
    /// The server does not tell.
    Untold,
}

impl Attributes {
    /// Reads those at the front of `fields`; owners and what servers add are passed over.
    pub fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let flags = fields.u32()?;
        let mut read = Self::default();
        if flags & SIZE != 0 {
            read.size = Some(fields.u64()?);
        }
        if flags & OWNER != 0 {
            fields.u64()?;
        }
        if flags & PERMISSIONS != 0 {
            read.mode = Some(fields.u32()?);
        }
        if flags & TIMES != 0 {
            fields.u32()?;
            read.modified = Some(fields.u32()?);
        }
        if flags & EXTENDED != 0 {
            for _ in 0..fields.u32()? {
                fields.string()?;
                fields.string()?;
            }
        }
        Some(read)
    }

    /// Puts them at the end of `packet`. A file was last read when it was last modified.
    pub fn write(&self, packet: Packet) -> Packet {
        let flag = |is_there: bool, flag: u32| if is_there { flag } else { 0 };
        let flags = flag(self.size.is_some(), SIZE)
            | flag(self.mode.is_some(), PERMISSIONS)
            | flag(self.modified.is_some(), TIMES);
        let mut packet = packet.u32(flags);
        if let Some(size) = self.size {
            packet = packet.u64(size);
        }
        if let Some(mode) = self.mode {
            packet = packet.u32(mode);
        }
        if let Some(modified) = self.modified {
            packet = packet.u32(modified).u32(modified);
        }
        packet
    }

    /// What it is of.
    pub fn kind(&self) -> FileKind {
        match self.mode.map(|mode| mode & KIND) {
            Some(REGULAR) => FileKind::Regular,
            Some(DIRECTORY) => FileKind::Directory,
            Some(LINK) => FileKind::Link,
            None | Some(0) => FileKind::Untold,
            Some(_) => FileKind::Other,
        }
    }

    /// When it was last modified.
    pub fn time(&self) -> Option<Timestamp> {
        self.modified.map(|seconds| Timestamp { seconds: i64::from(seconds), nanoseconds: 0 })
    }

    /// Which version of a file they are of.
    pub fn version(&self) -> Version {
        Version { bytes: self.size, modified: self.time(), ranges: true, ..Version::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::sftp::packet::LENGTH;

    #[test]
    fn what_is_written_is_read() {
        let all = Attributes { size: Some(5 << 32), mode: Some(0o100_640), modified: Some(1_500_000_000) };
        for attributes in [all, Attributes { size: None, ..all }, Attributes::default()] {
            let packet = attributes.write(Packet::new(9)).finish();
            let mut fields = Fields::new(&packet[LENGTH + 1..]);
            assert_eq!(Attributes::read(&mut fields), Some(attributes));
            assert!(fields.is_empty());
        }
        assert_eq!(all.kind(), FileKind::Regular);
        assert_eq!(all.version().time(), Some(Timestamp { seconds: 1_500_000_000, nanoseconds: 0 }));
    }

    #[test]
    fn owners_and_what_servers_add_are_passed_over() {
        let flags = OWNER | PERMISSIONS | EXTENDED;
        let packet = Packet::new(9).u32(flags).u64(3).u32(0o040_755).u32(1).string(b"a@b").string(b"c");
        let packet = packet.string(b"next").finish();
        let mut fields = Fields::new(&packet[LENGTH + 1..]);
        assert_eq!(Attributes::read(&mut fields).map(|read| read.kind()), Some(FileKind::Directory));
        assert_eq!(fields.string(), Some(&b"next"[..]));
        // As many as it says there are do not fit.
        let packet = Packet::new(9).u32(EXTENDED).u32(u32::MAX).finish();
        assert_eq!(Attributes::read(&mut Fields::new(&packet[LENGTH + 1..])), None);
    }
}
