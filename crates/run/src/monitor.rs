//! How a run is getting on, for a program that asks whenever it likes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_control::{Arrival, BitRate, ByteCount, Concurrency, Meter};
use tidegate_transfer::ledger::Ledger;
use tidegate_transfer::sys::sync::Mutex;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Content that is at the destination.
    pub bytes: ByteCount,
    /// What will be there in the end, once everything has been listed.
    pub total_bytes: Option<ByteCount>,
    /// Files that are done: moved, there already, or failed.
    pub files: u64,
    /// Files in all, once everything has been listed.
    pub total_files: Option<u64>,
    /// Those that failed.
    pub failed_files: u64,
    /// The rate at which content arrives.
    pub rate: BitRate,
    /// Workers that read, send and write.
    pub concurrency: Concurrency,
    /// How long the rest takes, if anybody can know.
    pub time_left: Option<Duration>,
}

/// What is looked at when somebody asks.
#[derive(Debug, Default)]
pub struct Monitor(Mutex<Option<Watched>>);

#[derive(Debug)]
struct Watched {
    ledger: Arc<Ledger>,
    concurrency: Concurrency,
    began: Instant,
    meter: Meter,
}

impl Monitor {
    /// Follows `ledger`, that of a try that begins with so many workers.
    pub fn watch(&self, ledger: &Arc<Ledger>, concurrency: Concurrency) {
        let ledger = Arc::clone(ledger);
        let watched = Watched { ledger, concurrency, began: Instant::now(), meter: Meter::default() };
        *self.0.lock() = Some(watched);
    }

    /// Notes that there are so many workers from now on.
    pub fn show(&self, concurrency: Concurrency) {
        if let Some(watched) = &mut *self.0.lock() {
            watched.concurrency = concurrency;
        }
    }

    /// How far it is; `None` before anything has begun.
    pub fn progress(&self) -> Option<Progress> {
        self.0.lock().as_mut().map(Watched::progress)
    }
}

impl Watched {
    fn progress(&mut self) -> Progress {
        let (totals, arrival) = (self.ledger.totals(), self.ledger.arrival());
        let now = self.began.elapsed();
        self.meter.hear(now, arrival.new_bytes);
        let rate = self.meter.rate(now);
        let Arrival { bytes, total_bytes, .. } = arrival;
        Progress {
            bytes,
            total_bytes,
            files: totals.files_done + totals.files_skipped + totals.files_failed,
            total_files: totals.listed.then_some(totals.files_listed),
            failed_files: totals.files_failed,
            rate,
            concurrency: self.concurrency,
            time_left: arrival.time_left(rate),
        }
    }
}
