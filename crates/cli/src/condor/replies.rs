//! The replies to HTCondor, an ad for each request.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_service::classad::ClassAd;

use super::batch::Moved;
use super::request::Request;
use super::trouble::Trouble;

/// Room for a reply beside what it says of its request, in bytes: an error is told twice.
const ROOM: u64 = 4096;

/// How a request ended.
#[derive(Clone, Debug)]
pub struct Reply {
    /// When its run began.
    pub began: SystemTime,
    /// When that ended.
    pub ended: SystemTime,
    /// What it came to.
    pub moved: Result<Moved, Trouble>,
}

/// The file of replies. HTCondor has filled it with spaces, which are kept, so that there is room for replies when the disk
/// is full.
#[derive(Debug)]
pub struct Replies {
    file: File,
    upload: bool,
}

impl Replies {
    /// Opens the file, and takes room for the replies to `requests` before they take it.
    pub fn open(path: &Path, requests: &[Request], upload: bool) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        let needed = |request: &Request| ROOM + 2 * (request.url.len() + request.name.len()) as u64;
        let needed: u64 = requests.iter().map(needed).sum();
        let there = file.seek(SeekFrom::End(0))?;
        io::copy(&mut io::Read::take(io::repeat(b' '), needed.saturating_sub(there)), &mut file)?;
        file.rewind()?;
        Ok(Self { file, upload })
    }

    /// Adds the reply to a request.
    pub fn add(&mut self, request: &Request, reply: &Reply) -> io::Result<()> {
        let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let moved = reply.moved.as_ref().copied().unwrap_or(Moved { bytes: 0, carried: 0 });
        let mut ad = ClassAd::default()
            .with("TransferUrl", &*request.url)
            .with("TransferFileName", &*request.name)
            .with("TransferSuccess", reply.moved.is_ok())
            .with("TransferProtocol", &*request.scheme())
            .with("TransferType", if self.upload { "upload" } else { "download" })
            .with("TransferFileBytes", number(moved.bytes))
            .with("TransferTotalBytes", number(moved.carried))
            .with("TransferStartTime", number(seconds(reply.began)))
            .with("TransferEndTime", number(seconds(reply.ended)));
        if let Err(trouble) = &reply.moved {
            let told: &[ClassAd] = &[trouble.told(request, self.upload)];
            ad = ad.with("TransferError", &*trouble.why).with("TransferErrorData", told);
        }
        self.file.write_all(format!("{ad}\n").as_bytes())
    }
}
