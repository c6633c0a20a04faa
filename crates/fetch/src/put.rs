//! Uploads: what a source has to S3-compatible and WebDAV-style targets, as an
//! [`Environment`](tidegate_control::Environment) of the control loop.
//!
//! ```text
//! Source ─read pool─► staging ─network pool─► target ─► confirmed ─► complete ─► confirmed
//! ```
//!
//! A part is read whole, summed up and then sent with its checksum ahead of it, so that the server can
//! refuse what arrives damaged, and a part that is lost is sent again without reading it twice. A file
//! has its name only when every part was confirmed. There is no write stage: the server writes.

mod arrived;
pub mod dav;
mod mirror;
mod queue;
mod reading;
mod removed;
pub mod s3;
mod sending;
#[cfg(feature = "sftp")]
pub mod sftp;
mod state;
pub mod target;
mod unfinished;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tidegate_control::{BitRate, Bounds, ByteCount, Concurrency, Ends, Observation, PerStage};
use tidegate_transfer::counters::{Glimpse, StageGlimpse};
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::ledger::Ledger;
use tidegate_transfer::manifest::Kind;
use tidegate_transfer::pipeline::pool::Pool;
use tidegate_transfer::pipeline::waits::share_waited;
use tidegate_transfer::store::{Found, Listed, Source};
use tidegate_transfer::sys::clock;
use tidegate_transfer::sys::processors::CpuTime;
use tidegate_transfer::sys::thread::{self, JoinHandle};
use tidegate_transfer::throttle::Throttle;
use tidegate_transfer::transfer::{Paced, Running};

use self::arrived::ArrivedNames;
use self::queue::UploadQueue;
use self::removed::Removed;
use self::state::UploadState;
use self::target::{Target, UploadFile};
use crate::host::Hosts;
use crate::host::ceilings::Ceilings;

pub use self::state::{UploadEvent, UploadListener, UploadSettings};

/// How often an interrupt is looked for while an epoch passes.
const GLANCE: Duration = Duration::from_millis(10);

/// How long the end of an upload that is given up is waited for: a request that is under way ends when
/// its next bytes are asked for, or when the server answers.
const LETTING_GO: Duration = Duration::from_secs(5);

/// An upload under way.
pub struct Upload {
    shared: Arc<UploadState>,
    readers: Pool,
    senders: Pool,
    feeder: Option<JoinHandle<()>>,
    started: Instant,
}

/// Counters at a moment.
#[derive(Clone, Copy, Debug)]
pub struct UploadCounters {
    at: Instant,
    read: u64,
    network: u64,
    /// How long readers and connections had nothing to do.
    waited: (Duration, Duration),
    cpu: CpuTime,
}

impl Upload {
    /// Begins to bring what `source` lists to `target`; `tell` hears what becomes of each file.
    pub fn start(
        source: Box<dyn Source>,
        target: Arc<dyn Target>,
        settings: UploadSettings,
        tell: UploadListener,
    ) -> Result<Paced<Self>> {
        if let Some(deletion) = &settings.deletion {
            mirror::check(deletion)?;
        }
        let most = settings.max_workers.max(1);
        let shared = Arc::new(UploadState {
            queue: Arc::new(UploadQueue::new(settings.staging)),
            ledger: Arc::default(),
            host: Hosts::new(Ceilings::all(most), Arc::default(), most, settings.seed).of(&target.server()?),
            over: AtomicBool::new(false),
            read: AtomicU64::new(0),
            network: AtomicU64::new(0),
            active: AtomicU16::new(0),
            link: Throttle::new(settings.limits.link),
            inhabited: AtomicBool::new(true),
            removed: Removed::default(),
            arrived: ArrivedNames::new(settings.deletion.is_some(), target.may_fold()),
            source,
            target,
            settings,
            tell,
        });
        let worker = |name, work: fn(&Arc<UploadState>, u16, &tidegate_transfer::pipeline::pool::Gate)| {
            let shared = Arc::clone(&shared);
            Pool::new(name, most, move |index, gate| work(&shared, index, gate))
        };
        let (readers, senders) = (worker("read", reading::work), worker("network", sending::work));
        let feeder = {
            let shared = Arc::clone(&shared);
            thread::Builder::new()
                .name("list".to_owned())
                .spawn(move || feed(&shared))
                .map_err(|error| Error::new(ErrorKind::Io, format!("cannot start a thread: {error}")))?
        };
        let pace = shared.settings.pace;
        let upload = Self { shared, readers, senders, feeder: Some(feeder), started: Instant::now() };
        Ok(Paced::new(upload, pace))
    }
}

impl Running for Upload {
    type Counters = UploadCounters;

    fn ledger(&self) -> &Arc<Ledger> {
        &self.shared.ledger
    }

    fn bounds(&self) -> PerStage<Bounds> {
        let most = self.shared.settings.max_workers;
        PerStage {
            read: Bounds::new(
                1,
                self.shared.source.most_readers().map_or(most, |bears| bears.clamp(1, most)),
            ),
            network: Bounds::new(1, self.shared.host.ceiling(Instant::now())),
            write: Bounds::fixed(1),
        }
    }

    fn resize(&mut self, setpoint: Concurrency) {
        self.readers.resize(setpoint.read);
        self.senders.resize(setpoint.network);
        // Whoever waits at the desk looks whether it is still their turn.
        self.shared.queue.look_again();
    }

    /// Lets time pass until `until`, or until everything has arrived.
    fn pass(&mut self, until: clock::Instant) -> Result<Option<()>> {
        let until = Instant::from(until);
        loop {
            if self.shared.settings.interrupt.is_raised() {
                return Err(UploadQueue::stopped_error());
            }
            if let Some(outcome) = self.shared.queue.outcome() {
                return outcome.map(|()| None);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Some(()));
            }
            self.shared.queue.wait(left.min(GLANCE));
        }
    }

    fn counters(&mut self) -> Result<Option<UploadCounters>> {
        let (read, network) = (self.shared.read.load(Relaxed), self.shared.network.load(Relaxed));
        let waited = self.shared.queue.waited();
        Ok(Some(UploadCounters { at: Instant::now(), read, network, waited, cpu: CpuTime::now() }))
    }

    fn observe(&self, setpoint: Concurrency, before: &UploadCounters, after: &UploadCounters) -> Observation {
        let interval = after.at - before.at;
        let rate = |a: u64, b: u64| BitRate::over(ByteCount(b.saturating_sub(a)), interval);
        let network = rate(before.network, after.network);
        let (size, free) = self.shared.queue.room();
        Observation {
            at: self.started.elapsed(),
            interval,
            concurrency: setpoint,
            // The server writes what it takes.
            throughput: PerStage { read: rate(before.read, after.read), network, write: network },
            waited: PerStage {
                read: share_waited(interval, (before.waited.0, after.waited.0), setpoint.read),
                network: share_waited(interval, (before.waited.1, after.waited.1), setpoint.network),
                write: None,
            },
            staging_free: Ends { sender: free, receiver: size },
            staging_capacity: Ends { sender: size, receiver: size },
            loss: None,
            rtt: None,
            streams: None,
            cpu: Ends { sender: after.cpu.load_since(&before.cpu, interval), receiver: None },
            remaining: self.shared.ledger.totals().remaining(),
            ..Observation::default()
        }
    }

    fn glimpse(&self) -> Glimpse {
        let (reading, sending) = self.shared.queue.waited();
        let read = StageGlimpse { moved: self.shared.read.load(Relaxed), waited: reading };
        let network = StageGlimpse { moved: self.shared.network.load(Relaxed), waited: sending };
        PerStage { read: Some(read), network: Some(network), write: None }
    }

    fn moved(&self, counters: &UploadCounters) -> u64 {
        counters.network
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let complete = self.shared.queue.outcome().is_some_and(|outcome| outcome.is_ok());
        self.shared.over.store(true, Relaxed);
        self.shared.source.stop();
        self.shared.queue.stop(None);
        self.readers.close();
        self.senders.close();
        self.shared.queue.look_again();
        if complete {
            self.readers.join();
            self.senders.join();
        } else {
            // A request to a server that is silent is not waited for.
            let end = Instant::now() + LETTING_GO;
            while self.shared.active.load(Relaxed) > 0 && Instant::now() < end {
                thread::sleep(GLANCE);
            }
        }
        if let Some(feeder) = self.feeder.take().filter(JoinHandle::is_finished) {
            let _ = feeder.join();
        }
    }
}

/// Lists the source.
fn feed(shared: &Arc<UploadState>) {
    if let Err(error) = sending::survey(shared) {
        return shared.queue.stop(Some(error));
    }
    let listed = shared.source.list(&mut |found| {
        match found {
            Found::Entry(listed) => return take_in(shared, listed),
            Found::Problem(path, error) => {
                (shared.tell)(UploadEvent::Failed(&path, &error));
                shared.ledger.failed(&path, error, false);
            }
            Found::Note(path, why) => (shared.tell)(UploadEvent::Note(&path, &why)),
        }
        !shared.is_over()
    });
    match listed {
        Ok(()) => {
            shared.ledger.all_listed();
            if let Some(deletion) = &shared.settings.deletion {
                mirror::act(shared, deletion);
            }
            shared.queue.all_listed();
        }
        Err(error) => shared.queue.stop(Some(error)),
    }
}

/// Queues a listed entry; `false` once all is over.
fn take_in(shared: &Arc<UploadState>, listed: Listed) -> bool {
    let size = match listed.entry.kind {
        Kind::File { size, .. } => size,
        // Directories are what names with a slash have in common.
        Kind::Directory => return true,
        Kind::Symlink { .. } => {
            (shared.tell)(UploadEvent::Note(
                listed.entry.path.as_bytes(),
                &"a link, which cannot be kept there",
            ));
            return true;
        }
    };
    let path = listed.entry.path.clone();
    let file = shared.target.plan(&path, size).map(|(path, plan)| UploadFile::new(listed, path, plan));
    match file {
        Ok(Some(file)) => {
            shared.ledger.listed(size);
            shared.queue.add(Arc::new(file))
        }
        Ok(None) => true,
        Err(error) => {
            (shared.tell)(UploadEvent::Failed(path.as_bytes(), &error));
            shared.ledger.failed(path.as_bytes(), error, false);
            true
        }
    }
}
