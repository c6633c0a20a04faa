//! Files one after the other as one stream, verified while it flows: what a pipe takes is neither kept on a disk nor
//! asked for again. Connections fetch ahead of the reader, as many as a rule finds good and as far as memory allows.
//!
//! What was written cannot be taken back: whoever reads must not trust it before the end is known to be good.

mod flow;
mod run;
mod worker;

use std::io::{ErrorKind as IoErrorKind, Write};
use std::sync::Arc;
use std::time::Duration;

use tidegate_control::{ByteCount, Optimizer, run};
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::manifest::BLOCK;
use tidegate_transfer::path::RelPath;
use tidegate_transfer::pipeline::pool::Pool;
use tidegate_transfer::sys::thread;
use tidegate_transfer::throttle::Limits;
use tidegate_transfer::transfer::{Interrupt, Pace, Paced};

use crate::checksum::{Algorithm, Checksums, Difference, Hashers};
use crate::host::Hosts;
use crate::host::ceilings::Ceilings;
use crate::host::held::HeldCeilings;
use crate::pipe::flow::{PipeFlow, PipeFront, PipeState};
use crate::pipe::run::PipeRun;
use crate::pipe::worker::PipeWorker;
use crate::record::Record;
use crate::remote::Remotes;

/// How files are piped.
#[derive(Debug)]
pub struct PipeSettings {
    /// Connections that fetch ahead, at most.
    pub connections: u16,
    /// In what epochs the rule is asked how many it shall be.
    pub pace: Pace,
    /// How far, which bounds the memory.
    pub window: ByteCount,
    /// Most connections to a host.
    pub ceilings: Ceilings,
    /// What hosts bore that pushed back in earlier runs; those that do in this one are noted there.
    pub held: Arc<HeldCeilings>,
    /// Rates to keep: a connection's, and all connections' together.
    pub limits: Limits,
    /// How often a file is tried again without a byte of progress.
    pub retries: u32,
    /// How long a server that does not answer is tried again.
    pub retry_for: Duration,
    /// Whether what flows is held against checksums.
    pub verify: bool,
    /// Stops it.
    pub interrupt: Interrupt,
    /// What waits are drawn from.
    pub seed: u64,
}

impl PipeSettings {
    /// Connections at most: two pieces of each fit into the window.
    fn most(&self) -> u16 {
        let pieces = u16::try_from(self.window.0 / (2 * BLOCK)).unwrap_or(u16::MAX);
        self.connections.min(pieces).max(1)
    }
}

/// What went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piped {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files of which no checksum was known.
    pub unchecked: u64,
}

/// How a pipe ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeEnd {
    /// All is written, and what could be verified is.
    Whole(Piped),
    /// The reader has gone, having had so many bytes.
    ReaderLeft(u64),
}

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub struct PipeProgress<'a> {
    /// The file that flows.
    pub path: &'a RelPath,
    /// Its bytes that are written.
    pub done: u64,
    /// Its size, once known.
    pub bytes: Option<u64>,
    /// All bytes that are written.
    pub total: u64,
    /// Connections that fetch.
    pub connections: u16,
}

/// Writes the content of `records`, one after the other, to `out`, and shows each block that is written. `rule` decides how
/// many connections fetch ahead.
///
/// # Errors
///
/// If a file cannot be had, or is not what it must be: then what was written last is not to be trusted.
pub fn pipe(
    records: Vec<Record>,
    remotes: &Arc<dyn Remotes>,
    settings: PipeSettings,
    mut rule: Box<dyn Optimizer>,
    out: &mut dyn Write,
    show: &mut dyn FnMut(PipeProgress<'_>),
) -> Result<PipeEnd> {
    let (most, pace) = (settings.most(), settings.pace);
    let hosts = Hosts::new(settings.ceilings.clone(), Arc::clone(&settings.held), most, settings.seed);
    let (verify, interrupt) = (settings.verify, settings.interrupt.clone());
    let state = Arc::new(PipeState::new(hosts, settings));
    // Its workers are not waited for at the end: a server may hold them up, and what they hold is not needed.
    let pool = {
        let (state, remotes) = (Arc::clone(&state), Arc::clone(remotes));
        Pool::new("pipe", most, move |index, gate| PipeWorker::new(&state, &*remotes).work(index, gate))
    };
    let mut fetching = Paced::new(PipeRun::new(Arc::clone(&state), pool, pace), pace);
    let controlling = thread::Builder::new().name("control".to_owned());
    let controlling = controlling
        .spawn(move || run(&mut fetching, rule.as_mut(), None, |_, _| {}))
        .map_err(|error| Error::new(ErrorKind::Io, format!("cannot start a thread: {error}")))?;
    let end = write_all(records, &state, verify, &interrupt, out, show);
    state.stop();
    if controlling.join().is_err() {
        tracing::error!("the rule of a pipe panicked");
    }
    end
}

fn write_all(
    records: Vec<Record>,
    state: &PipeState,
    verify: bool,
    interrupt: &Interrupt,
    out: &mut dyn Write,
    show: &mut dyn FnMut(PipeProgress<'_>),
) -> Result<PipeEnd> {
    let mut piped = Piped::default();
    for record in records {
        let record = Arc::new(record);
        state.begin(PipeFlow::new(Arc::clone(&record), &state.hosts));
        let mut done = 0;
        let mut hashers: Option<Hashers> = None;
        let (size, vouched) = loop {
            if interrupt.is_raised() {
                return Err(Error::new(ErrorKind::Interrupted, "interrupted in the middle of the stream"));
            }
            match state.front() {
                PipeFront::Waits => {}
                PipeFront::Failed(error) => return Err(error),
                PipeFront::Ended { size, vouched } => break (size, vouched),
                PipeFront::Block { bytes, size, vouched } => {
                    let sums = || wanted(&record.checksums, &vouched, verify);
                    hashers.get_or_insert_with(sums).update(&bytes);
                    match out.write_all(&bytes) {
                        Err(error) if error.kind() == IoErrorKind::BrokenPipe => {
                            return Ok(PipeEnd::ReaderLeft(piped.bytes));
                        }
                        Err(error) => {
                            let why = format!("cannot write to standard output: {error}");
                            return Err(Error::new(ErrorKind::Io, why));
                        }
                        Ok(()) => {}
                    }
                    state.wrote(bytes.len() as u64);
                    done += bytes.len() as u64;
                    piped.bytes += bytes.len() as u64;
                    let connections = state.allowed();
                    show(PipeProgress {
                        path: &record.path,
                        done,
                        bytes: size,
                        total: piped.bytes,
                        connections,
                    });
                }
            }
        };
        debug_assert_eq!(size, done);
        let hashers = hashers.unwrap_or_else(|| wanted(&record.checksums, &vouched, verify));
        let sums = hashers.finish();
        piped.unchecked += u64::from(!record.checksums.agrees(&sums) && !vouched.agrees(&sums));
        for (expected, who) in [(&record.checksums, "declared"), (&vouched, "what its server vouches for")] {
            check(&record, if verify { expected } else { &NONE }, &sums, who)?;
        }
        piped.files += 1;
    }
    match out.flush() {
        Err(error) if error.kind() == IoErrorKind::BrokenPipe => Ok(PipeEnd::ReaderLeft(piped.bytes)),
        Err(error) => Err(Error::new(ErrorKind::Io, format!("cannot write to standard output: {error}"))),
        Ok(()) => Ok(PipeEnd::Whole(piped)),
    }
}

static NONE: Checksums = Checksums::none();

/// What is computed of a file.
fn wanted(declared: &Checksums, vouched: &Checksums, verify: bool) -> Hashers {
    let mut all: Vec<Algorithm> = declared.algorithms().chain(vouched.algorithms()).collect();
    all.sort_unstable();
    all.dedup();
    all.retain(|_| verify);
    Hashers::new(all).and_of_parts(vouched.of_parts().filter(|_| verify))
}

fn check(record: &Record, expected: &Checksums, sums: &Checksums, who: &str) -> Result<()> {
    let Some(Difference { kind, expected, computed }) = expected.differs(sums) else { return Ok(()) };
    let why = format!(
        "{}: the {kind} of what was written is {computed}, and {expected} is {who}: do not use it",
        record.path,
    );
    Err(Error::new(ErrorKind::Corrupt, why))
}
