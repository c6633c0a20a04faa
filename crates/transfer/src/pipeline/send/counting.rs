//! What the sending end counts, and who waits there.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate_control::PerStage;

use super::{Sender, SenderState};
use crate::counters::{Counters, Glimpse, StageGlimpse};
use crate::pipeline::waits::WorkerTime;
use crate::sys::clock::Instant;
use crate::sys::processors::CpuTime;
use crate::sys::sync::Mutex;

/// What it counts as it goes.
#[derive(Debug)]
pub(super) struct Tally {
    pub started: Instant,
    /// Bytes.
    pub read: AtomicU64,
    /// Bytes.
    pub sent: AtomicU64,
    /// Readers without work.
    pub readers_idle: Mutex<WorkerTime>,
    /// Streams' workers that read for themselves, without work.
    pub streams_idle: Mutex<WorkerTime>,
}

impl Default for Tally {
    fn default() -> Self {
        let (read, sent) = (AtomicU64::new(0), AtomicU64::new(0));
        let (readers_idle, streams_idle) = (Mutex::default(), Mutex::default());
        Self { started: Instant::now(), read, sent, readers_idle, streams_idle }
    }
}

impl Sender {
    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        let shared = &self.shared;
        let (tcp, streams) = shared.data_streams.count();
        let (reading, sending) = shared.waited();
        let worked = self.readers.ran().saturating_sub(shared.readers_waited_in_all());
        Counters {
            at_us: shared.tally.started.elapsed().as_micros() as u64,
            read: shared.tally.read.load(Relaxed),
            network: shared.tally.sent.load(Relaxed),
            written: 0,
            // Whoever reads in place is as quick as memory: nobody waits for it, as with full staging.
            staging_used: match shared.bypass.direct.load(Relaxed) || shared.terms.streams_read() {
                true => shared.staging.capacity().0,
                false => shared.staging.used().0,
            },
            staging_capacity: shared.staging.capacity().0,
            segments_sent: tcp.segments_sent,
            retransmits: tcp.retransmits,
            rtt_us: tcp.rtt.as_micros() as u64,
            cpu: CpuTime::now(),
            filling_us: reading.as_micros() as u64,
            taking_us: sending.as_micros() as u64,
            worked_us: worked.as_micros() as u64,
            streams: Some(shared.policy.trying.told(streams)),
            ..Counters::default()
        }
    }

    /// What is seen of readers and streams; what the peer acknowledged comes more evenly than what the kernel takes,
    /// and whoever is held back by its window waits for its staging.
    pub fn glimpse(&self) -> Glimpse {
        let shared = &self.shared;
        let (reading, sending) = shared.waited();
        let sent = shared.tally.sent.load(Relaxed);
        let (acknowledged, held_back) = shared.data_streams.progress();
        let read = StageGlimpse { moved: shared.tally.read.load(Relaxed), waited: reading };
        let network = StageGlimpse { moved: acknowledged.unwrap_or(sent), waited: sending + held_back };
        PerStage { read: self.has_read_stage().then_some(read), network: Some(network), write: None }
    }
}

impl SenderState {
    /// Of those who wait, as many as these count.
    pub(super) fn allow(&self, readers: u16, streams: u16) {
        self.staging.allow(readers, streams);
        self.tally.readers_idle.lock().allow(readers);
        self.tally.streams_idle.lock().allow(streams);
    }

    /// How long readers had nothing to do, those too that may not run any more.
    fn readers_waited_in_all(&self) -> Duration {
        let idle = self.tally.readers_idle.lock().of_all();
        self.staging.waited_in_all().0 + idle
    }

    /// How long readers and streams could have worked and did not. While streams' workers read for themselves, they
    /// are readers that send nothing.
    fn waited(&self) -> (Duration, Duration) {
        let (filling, taking) = self.staging.waited();
        let idle = |idle: &Mutex<WorkerTime>| idle.lock().total();
        // Zeros are made in place of being read: there is no stage that could do more of it.
        let in_place =
            if self.source.has_read_stage() { self.bypass.shortcut.in_place() } else { Duration::ZERO };
        let readers = (filling + idle(&self.tally.readers_idle)).saturating_sub(in_place);
        let streams = taking + idle(&self.tally.streams_idle) + in_place;
        (readers, streams)
    }
}
