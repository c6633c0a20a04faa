//! What is asked about files without a transfer, and what is answered: requests with numbers, answered in their order, so
//! that many may be on their way.

use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::bounded::at_most;
use crate::error::Error;
use crate::hash::Digest;
use crate::manifest::{Fingerprint, Timestamp};
use crate::path::RelPath;
use crate::spec::TransferId;

/// Most bytes of one range, and of a file that is written by one request.
pub const MAX_CONTENT: usize = 1 << 20;

/// Most ranges of one request, and most files told of in one reply.
pub(crate) const MAX_RANGES: usize = 1024;

/// A file's content, or a part of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Content(pub Vec<u8>);

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRange {
    /// Where it begins.
    pub offset: u64,
    /// How long it is; what lies behind the file's end is not answered.
    pub length: u32,
}

/// What is asked of an endpoint. Paths are relative to what it serves; an empty one is that itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FileRequest {
    /// What is there?
    Stat {
        /// Where; a link is followed.
        path: Vec<u8>,
    },
    /// What lies in a directory? Answered in parts.
    List {
        /// Which.
        path: Vec<u8>,
        /// Whether what lies in its directories is told as well; links are not entered.
        recursive: bool,
    },
    /// Answered by one reply for each range.
    Read {
        /// Of which file.
        path: Vec<u8>,
        /// Which version of it; any if it is not said.
        version: Option<Fingerprint>,
        /// Which ranges.
        #[serde(deserialize_with = "at_most::<MAX_RANGES, _, _>")]
        ranges: Vec<FileRange>,
    },
    /// What does the whole file hash to?
    Hash {
        /// Which.
        path: Vec<u8>,
    },
    /// Write a small file, whole or not at all, in place of what bears its name. Missing directories are made.
    Write {
        /// Where.
        path: Vec<u8>,
        /// What.
        content: Content,
    },
    /// Give a file, link or directory another name, in place of a file that bears it.
    Rename {
        /// What.
        from: Vec<u8>,
        /// Which name.
        to: Vec<u8>,
    },
    /// Remove a file or link.
    Remove {
        /// Which.
        path: Vec<u8>,
    },
    /// Remove an empty directory.
    RemoveDirectory {
        /// Which.
        path: Vec<u8>,
    },
    /// Make a directory.
    MakeDirectory {
        /// Where.
        path: Vec<u8>,
        /// Whether missing ones above are made, and one that is there will do.
        parents: bool,
    },
    /// Leave a mark in a directory that nothing else is called, to be looked for by way of another endpoint.
    Mark {
        /// In which directory.
        path: Vec<u8>,
        /// What tells it from others.
        mark: TransferId,
    },
    /// Is that mark in the directory?
    FindMark {
        /// In which.
        path: Vec<u8>,
        /// Which mark.
        mark: TransferId,
    },
    /// Remove a mark.
    RemoveMark {
        /// From which directory.
        path: Vec<u8>,
        /// Which.
        mark: TransferId,
    },
    /// Write a small file, whole or not at all, if nothing bears its name. Missing directories are made.
    Create {
        /// Where.
        path: Vec<u8>,
        /// What.
        content: Content,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FileReply {
    /// It could not be done. The session goes on.
    Failed(Error),
    /// It is done.
    Done,
    /// What is there.
    Status(FileStatus),
    /// What lies in a directory, in no order.
    Entries {
        /// Some of it.
        #[serde(deserialize_with = "at_most::<MAX_RANGES, _, _>")]
        entries: Vec<ListedFile>,
        /// Directories beneath it that cannot be listed, and why.
        #[serde(deserialize_with = "at_most::<MAX_RANGES, _, _>")]
        problems: Vec<(RelPath, Error)>,
        /// Whether more follows.
        more: bool,
    },
    /// The content of one range, shorter where the file ends.
    Data(Content),
    /// What the file hashes to.
    Hash(Digest),
}

/// What something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A link that leads to nothing that may be reached.
    Link,
    /// A device, a socket or a pipe.
    Other,
}

/// What is told of a file; of a link, that to which it leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStatus {
    /// What it is.
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
    /// Permission bits, at most 0o777.
    pub mode: u32,
    /// When it was modified.
    pub mtime: Timestamp,
    /// Which version of it this is.
    pub version: Fingerprint,
    /// What stands in the link, if it was reached by one.
    pub link: Option<Vec<u8>>,
}

/// A file in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedFile {
    /// Where, relative to the directory that is listed.
    pub path: RelPath,
    /// What it is.
    pub status: FileStatus,
}

impl ListedFile {
    /// Bytes that it takes in memory, about.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.path.as_bytes().len() + self.status.link.as_ref().map_or(0, Vec::len)
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

// Whole, where a list of numbers would go byte by byte; the bytes are the same.
impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "at most {MAX_CONTENT} bytes")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Content, E> {
                match bytes.len() <= MAX_CONTENT {
                    true => Ok(Content(bytes.to_vec())),
                    false => Err(E::custom(format_args!("more than {MAX_CONTENT} bytes"))),
                }
            }
        }

        deserializer.deserialize_bytes(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_on_the_wire_as_a_list_of_its_bytes_and_bounded() {
        let content: Vec<u8> = (0..=255).collect();
        let bytes = postcard::to_stdvec(&content).expect("plain data");
        assert_eq!(postcard::to_stdvec(&Content(content.clone())).expect("plain data"), bytes);
        assert_eq!(postcard::from_bytes::<Content>(&bytes).expect("read"), Content(content));
        let bytes = postcard::to_stdvec(&vec![0_u8; MAX_CONTENT + 1]).expect("plain data");
        assert!(postcard::from_bytes::<Content>(&bytes).is_err());
        assert!(postcard::from_bytes::<Content>(&bytes[..100]).is_err(), "what is claimed is not there");
    }
}
