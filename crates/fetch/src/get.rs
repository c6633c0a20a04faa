//! Getting files from servers, seen by the control loop as an
//! [`Environment`](tidegate_control::Environment): the network stage is the connections, the write stage the writers behind the staging; there is no read stage of ours.
//!
//! ```text
//! names ─► feeder ─► queue ─► network pool ─► staging ─► write pool ─► part file ─► digest ─► committer
//! ```

mod answer;
mod begin;
mod digest;
mod digest_queue;
mod event;
mod existing;
mod feed;
mod fetch;
mod file;
pub mod memory;
mod queue;
mod sample;
mod settings;
mod sources;
mod state;
mod stream;
mod threads;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tidegate_control::{BitRate, Bounds, ByteCount, Concurrency, Ends, Observation, PathSample, PerStage};
use tidegate_transfer::counters::{Glimpse, StageGlimpse};
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::ledger::Ledger;
use tidegate_transfer::pipeline::waits::share_waited;
use tidegate_transfer::sys::clock;
use tidegate_transfer::sys::processors::CpuTime;
use tidegate_transfer::transfer::{Interrupt, Pace, Paced, Running};

use crate::get::state::DownloadState;
use crate::get::threads::DownloadThreads;
use crate::host::ceilings::CONNECTIONS;
use crate::record::Names;
use crate::remote::Remotes;

pub use event::{Active, DownloadEvent, DownloadListener, Got};
pub use settings::DownloadSettings;

/// How often a finished or interrupted download is looked for while an epoch passes.
const GLANCE: Duration = Duration::from_millis(10);

/// So many times what an answer takes, a new connection takes to show what it brings.
pub(crate) const ANSWERS: u32 = 4;

/// A download that has begun.
///
/// ```
/// use std::os::unix::ffi::OsStrExt;
/// use std::sync::Arc;
///
/// use tidegate_control::{Concurrency, Environment};
/// use tidegate_fetch::get::{Download, DownloadSettings};
/// use tidegate_fetch::list;
/// use tidegate_fetch::remote::servers::{ServerSettings, Servers};
///
/// let directory = tempfile::tempdir()?;
/// let (from, out) = (directory.path().join("data.bin"), directory.path().join("out"));
/// std::fs::write(&from, "some bytes")?;
/// std::fs::create_dir(&out)?;
///
/// let names = Box::new(std::iter::once(list::of_url(&format!("file://{}", from.display()))));
/// let servers = Arc::new(Servers::new(&ServerSettings::default()));
/// let settings = DownloadSettings::new(out.as_os_str().as_bytes())?;
/// let mut download = Download::start(names, servers, settings, Box::new(|event| println!("{event:?}")))?;
/// while download.step(Concurrency { read: 1, network: 2, write: 1 })?.is_some() {}
/// assert_eq!(std::fs::read(out.join("data.bin"))?, b"some bytes");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Download {
    threads: DownloadThreads,
    pace: Pace,
    interrupt: Interrupt,
    started: Instant,
}

/// Counters at one moment.
#[derive(Clone, Copy, Debug)]
pub struct DownloadCounters {
    at: Instant,
    network: u64,
    written: u64,
    staged: ByteCount,
    /// How long connections had no staging to fill, and writers none to take from.
    waited: (Duration, Duration),
    cpu: CpuTime,
}

tidegate_contract::opaque!(Download);

impl Download {
    /// Begins to get `names`; nothing is asked for before the first step allows connections.
    pub fn start(
        names: Names,
        remotes: Arc<dyn Remotes>,
        settings: DownloadSettings,
        tell: DownloadListener,
    ) -> Result<Paced<Self>> {
        let (pace, interrupt) = (settings.pace, settings.interrupt.clone());
        let threads = DownloadThreads::start(names, remotes, settings, tell)?;
        Ok(Paced::new(Self { threads, pace, interrupt, started: Instant::now() }, pace))
    }

    /// What is needed to show files under way while a step has the download.
    pub fn watch(&self) -> Watch {
        Watch(Arc::clone(self.shared()))
    }

    /// The files under way, in the order they were named.
    pub fn active(&self) -> Vec<Active> {
        self.shared().active()
    }

    fn shared(&self) -> &Arc<DownloadState> {
        self.threads.shared()
    }
}

impl Running for Download {
    type Counters = DownloadCounters;

    fn ledger(&self) -> &Arc<Ledger> {
        &self.shared().path.ledger
    }

    /// One reader that is not ours, as many connections as the hosts bear, and writers.
    fn bounds(&self) -> PerStage<Bounds> {
        let shared = self.shared();
        PerStage::new(
            Bounds::fixed(1),
            Bounds::new(1, shared.room()),
            Bounds::new(1, shared.settings.max_workers),
        )
    }

    fn other_end(&self) -> (Option<Duration>, Option<u16>) {
        (None, Some(CONNECTIONS))
    }

    fn resize(&mut self, setpoint: Concurrency) {
        self.threads.resize(setpoint);
    }

    fn path_sample(&self) -> Option<PathSample> {
        let arrived = ByteCount(self.shared().network_bytes.load(Relaxed));
        Some(PathSample::of_arrival(self.started.elapsed(), self.round_trip(), arrived))
    }

    fn glimpse(&self) -> Glimpse {
        let shared = self.shared();
        let (taking_in, writing) = shared.path.waited();
        let network = StageGlimpse { moved: shared.network_bytes.load(Relaxed), waited: taking_in };
        let write = StageGlimpse { moved: shared.path.written_bytes(), waited: writing };
        PerStage { read: None, network: Some(network), write: Some(write) }
    }

    fn round_trip(&self) -> Duration {
        self.shared().quickest.time()
    }

    fn stops(&self) -> Option<clock::Instant> {
        let left = self.pace.stop_after?.saturating_sub(self.started.elapsed());
        Some(clock::Instant::now() + left)
    }

    fn moved(&self, counters: &DownloadCounters) -> u64 {
        counters.network
    }

    /// Connecting and asking, and the slow start of what comes. A server that takes its time to answer is not waited for.
    fn warm_up(&self) -> Duration {
        (ANSWERS * self.shared().quickest.time()).min(self.pace.epoch)
    }

    /// Lets time pass until `until`; `None` once everything has ended.
    fn pass(&mut self, until: clock::Instant) -> Result<Option<()>> {
        let until = Instant::from(until);
        loop {
            if let Some(error) = self.shared().path.failure() {
                self.threads.stop();
                return Err(error);
            }
            if self.shared().is_over() {
                self.threads.finish()?;
                return Ok(None);
            }
            if self.interrupt.is_raised() {
                self.threads.stop();
                let why = "interrupted; run the same command again to continue";
                return Err(Error::new(ErrorKind::Interrupted, why));
            }
            if self.pace.stop_after.is_some_and(|time| self.started.elapsed() >= time) {
                return Ok(None);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Some(()));
            }
            self.shared().wait(left.min(GLANCE));
        }
    }

    fn counters(&mut self) -> Result<Option<DownloadCounters>> {
        let shared = self.shared();
        Ok(Some(DownloadCounters {
            at: Instant::now(),
            network: shared.network_bytes.load(Relaxed),
            written: shared.path.written_bytes(),
            staged: shared.path.staging.used(),
            waited: shared.path.waited(),
            cpu: CpuTime::now(),
        }))
    }

    fn observe(
        &self,
        setpoint: Concurrency,
        before: &DownloadCounters,
        after: &DownloadCounters,
    ) -> Observation {
        let interval = after.at.duration_since(before.at);
        let rate = |a: u64, b: u64| BitRate::over(ByteCount(b.saturating_sub(a)), interval);
        let network = rate(before.network, after.network);
        let capacity = self.shared().path.staging.capacity();
        Observation {
            at: self.started.elapsed(),
            interval,
            concurrency: PerStage { read: 1, ..setpoint },
            // Reading is the servers' business: it is as quick as what comes.
            throughput: PerStage::new(network, network, rate(before.written, after.written)),
            waited: PerStage {
                read: None,
                network: share_waited(interval, (before.waited.0, after.waited.0), setpoint.network),
                write: share_waited(interval, (before.waited.1, after.waited.1), setpoint.write),
            },
            staging_free: Ends {
                sender: capacity,
                receiver: ByteCount(capacity.0.saturating_sub(after.staged.0)),
            },
            staging_capacity: Ends { sender: capacity, receiver: capacity },
            loss: None,
            rtt: None,
            streams: None,
            cpu: Ends { sender: None, receiver: after.cpu.load_since(&before.cpu, interval) },
            remaining: self.ledger().totals().remaining(),
            ..Observation::default()
        }
    }
}

/// Shows the files under way.
#[derive(Clone)]
pub struct Watch(Arc<DownloadState>);

impl Watch {
    /// The files under way, in the order they were named.
    pub fn active(&self) -> Vec<Active> {
        self.0.active()
    }
}

tidegate_contract::opaque!(Watch);
