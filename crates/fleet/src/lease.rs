//! A lease of shards, kept at the service for as long as they are moved.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tidegate_transfer::error::{Result, Retry};
use tidegate_transfer::fence::Fence;
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::transfer::Interrupt;

use crate::client::Service;
use crate::shards::Leave;
use crate::words::{RenewRequest, Renewed};

/// How often it is renewed: twelve times while it holds, and no less often than this.
const RENEWED: Duration = Duration::from_secs(5);
const RENEWALS: u32 = 12;

/// How long a service that does not answer is asked again before files are denied their names.
const PATIENCE: Duration = Duration::from_secs(45);

/// The rest between two questions to one that does not.
const REST: Duration = Duration::from_millis(500);

/// What a transfer does.
#[derive(Clone, Copy, Debug, Default)]
pub struct SeenHere {
    /// Network streams.
    pub streams: u16,
    /// What they bring.
    pub throughput_bps: u64,
    /// What has arrived.
    pub bytes: u64,
}

/// A lease that is held.
pub struct Held {
    service: Arc<Service>,
    lease: u64,
    leave: Mutex<Leave>,
    /// How often it is renewed.
    renewed: Duration,
    /// Where this process's time begins.
    origin: Instant,
    /// What the transfer does.
    seen: Mutex<SeenHere>,
    /// Hears how many network streams it may use.
    granted: Box<dyn Fn(u16) + Send + Sync>,
    /// Stops what is moved under it.
    interrupt: Interrupt,
}

impl Held {
    /// The lease of that number, which was asked for at `asked`, and holds for `term` from then. What is moved under it
    /// is stopped by `interrupt` when it is lost, and `granted` hears how many network streams it may use.
    pub fn new(
        service: Arc<Service>,
        lease: u64,
        (asked, term): (Instant, Duration),
        interrupt: Interrupt,
        granted: impl Fn(u16) + Send + Sync + 'static,
    ) -> Self {
        let leave = Mutex::new(Leave::granted(Duration::ZERO, term));
        let (seen, granted) = (Mutex::default(), Box::new(granted));
        let renewed = RENEWED.min(term / RENEWALS);
        Self { service, lease, leave, renewed, origin: asked, seen, granted, interrupt }
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.lease
    }

    /// What stops what is moved under it.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// What the transfer does.
    pub fn saw(&self, seen: SeenHere) {
        *self.seen.lock() = seen;
    }

    fn left(&self) -> Option<Duration> {
        self.leave.lock().left(self.origin.elapsed())
    }

    /// Renews it once.
    fn renew(&self) -> Result<()> {
        let SeenHere { streams, throughput_bps, bytes } = *self.seen.lock();
        let asked = self.origin.elapsed();
        let request = RenewRequest { lease: self.lease, streams, throughput_bps, bytes };
        let renewed: Renewed = self.service.post("/mover/renew", &request)?;
        let term = Duration::from_millis(renewed.term_ms);
        *self.leave.lock() = Leave::granted(asked, term);
        if let Some(streams) = renewed.streams {
            (self.granted)(streams);
        }
        Ok(())
    }

    /// For how long files may get their names from now on; asks the service where that is over.
    fn leave(&self) -> Result<Duration> {
        let began = Instant::now();
        loop {
            if let Some(left) = self.left() {
                return Ok(left);
            }
            let Err(error) = self.renew() else { continue };
            if error.kind.retry() != Retry::Outage || began.elapsed() > PATIENCE {
                return Err(error);
            }
            thread::sleep(REST);
        }
    }

    /// What a transfer under it asks before files get their names.
    pub fn fence(self: &Arc<Self>) -> Fence {
        let held = Arc::clone(self);
        Fence::new(self.lease, move || held.leave())
    }

    /// Renews it until what this answers with is dropped. What is moved is stopped when it is lost.
    pub fn keep(self: &Arc<Self>) -> Keeper {
        let (stop, stopped) = channel();
        let held = Arc::clone(self);
        let thread = thread::spawn(move || held.renew_until(&stopped));
        Keeper { stop: Some(stop), thread: Some(thread) }
    }

    fn renew_until(&self, stopped: &Receiver<()>) {
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(self.renewed) {
            match self.renew() {
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!("lease {}: {error}", self.lease);
                    // Nothing of it would be taken.
                    if error.kind.retry() != Retry::Outage {
                        *self.leave.lock() = Leave::none();
                        self.interrupt.raise();
                        return;
                    }
                }
            }
        }
    }
}

/// Keeps a lease while it is there.
pub struct Keeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
