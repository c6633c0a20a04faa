//! What people decide about a download.

use std::sync::Arc;
use std::time::Duration;

use tidegate_control::ByteCount;
use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::sys::confined::{Root, canonical};
use tidegate_transfer::throttle::Limits;
use tidegate_transfer::transfer::{Interrupt, Pace};

use crate::checksum::Algorithm;
use crate::get::memory::{self, Memory};
use crate::host::ceilings::Ceilings;
use crate::host::held::HeldCeilings;

/// Everything that begins a download, besides what and from whom.
#[derive(Debug)]
pub struct DownloadSettings {
    /// The output directory.
    pub out: Root,
    /// Its absolute path without symlinks (see
    /// [`canonical`](tidegate_transfer::sys::confined::canonical)).
    pub base: Vec<u8>,
    /// How the user called it: by that it is looked for again.
    pub typed: Vec<u8>,
    /// What was fetched there before.
    pub memory: Arc<Memory>,
    /// Rates to keep: a connection's, a writer's, and all connections' together.
    pub limits: Limits,
    /// Bytes between network and disk.
    pub staging: ByteCount,
    /// Most connections, and most writers.
    pub max_workers: u16,
    /// Most connections to a host.
    pub ceilings: Ceilings,
    /// What hosts bore that pushed back in earlier runs; those that do in this one are noted there.
    pub held: Arc<HeldCeilings>,
    /// How often a file is tried again without a byte of progress before it fails, as long as its server answers.
    pub retries: u32,
    /// How long a server that does not answer is tried again, if it ever answered; else half a minute at most.
    pub retry_for: Duration,
    /// How long a request may bring nothing. The remotes keep it; it is here for what is said to people.
    pub timeout: Duration,
    /// What one connection is given of a file at a time; `None` leaves each file to one connection.
    pub chunk: Option<ByteCount>,
    /// Whether a connection serves request after request; else it is closed after each, which without chunks is a file.
    pub pipelining: bool,
    /// Checksums to compute besides those that a record declares.
    pub extra: Vec<Algorithm>,
    /// Whether declared checksums are verified.
    pub verify: bool,
    /// Whether files that no earlier run has written are replaced.
    pub overwrite: bool,
    /// How it is driven.
    pub pace: Pace,
    /// Stops it.
    pub interrupt: Interrupt,
    /// What waits are drawn from.
    pub seed: u64,
}

impl DownloadSettings {
    /// What is usual, for files that go to the directory `out`; nothing is remembered from run to run.
    ///
    /// # Errors
    ///
    /// If the directory cannot be opened.
    pub fn new(out: &[u8]) -> Result<Self> {
        let failed = |error| Error::io("use", out, error);
        Ok(Self {
            out: Root::open(out).map_err(failed)?,
            base: canonical(out).map_err(failed)?,
            typed: out.to_vec(),
            memory: memory::none(),
            limits: Limits::default(),
            staging: ByteCount::mib(64),
            max_workers: 64,
            ceilings: Ceilings::default(),
            held: Arc::default(),
            retries: 5,
            retry_for: Duration::from_secs(600),
            timeout: Duration::from_secs(60),
            chunk: Some(ByteCount::mib(64)),
            pipelining: true,
            extra: Vec::new(),
            verify: true,
            overwrite: false,
            pace: Pace::new(Duration::from_secs(1)),
            interrupt: Interrupt::default(),
            seed: 1,
        })
    }
}
