//! A pipe seen by the control loop: its connections are the network stage, and who reads the stream is the write stage.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tidegate_control::{BitRate, Bounds, ByteCount, Concurrency, Ends, Observation, PerStage};
use tidegate_transfer::counters::{Glimpse, StageGlimpse};
use tidegate_transfer::error::Result;
use tidegate_transfer::ledger::Ledger;
use tidegate_transfer::pipeline::pool::Pool;
use tidegate_transfer::pipeline::waits::share_waited;
use tidegate_transfer::sys::clock;
use tidegate_transfer::sys::processors::CpuTime;
use tidegate_transfer::transfer::{Pace, Running};

use crate::get::ANSWERS;
use crate::host::ceilings::CONNECTIONS;
use crate::pipe::flow::PipeState;

/// How often the end is looked for while an epoch passes.
const GLANCE: Duration = Duration::from_millis(10);

/// A pipe under way.
pub(crate) struct PipeRun {
    state: Arc<PipeState>,
    pool: Pool,
    pace: Pace,
    ledger: Arc<Ledger>,
    started: Instant,
}

/// Counters at one moment.
#[derive(Clone, Copy)]
pub(crate) struct PipeCounters {
    at: Instant,
    brought: u64,
    written: u64,
    /// How long connections found the window full, and the writer nothing to write.
    waited: (Duration, Duration),
    cpu: CpuTime,
}

impl PipeRun {
    /// Nothing is asked for before the first step allows connections, which are the workers of `pool`.
    pub fn new(state: Arc<PipeState>, pool: Pool, pace: Pace) -> Self {
        Self { state, pool, pace, ledger: Arc::default(), started: Instant::now() }
    }

    fn count(&self) -> PipeCounters {
        PipeCounters {
            at: Instant::now(),
            brought: self.state.brought.load(Relaxed),
            written: self.state.written.load(Relaxed),
            waited: self.state.waited(),
            cpu: CpuTime::now(),
        }
    }
}

impl Running for PipeRun {
    type Counters = PipeCounters;

    fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    fn bounds(&self) -> PerStage<Bounds> {
        PerStage::new(Bounds::fixed(1), Bounds::new(1, self.state.room()), Bounds::fixed(1))
    }

    fn other_end(&self) -> (Option<Duration>, Option<u16>) {
        (None, Some(CONNECTIONS))
    }

    fn resize(&mut self, setpoint: Concurrency) {
        self.state.allow(setpoint.network);
        self.pool.resize(setpoint.network);
    }

    fn pass(&mut self, until: clock::Instant) -> Result<Option<()>> {
        let until = Instant::from(until);
        loop {
            if self.state.stopped.load(Relaxed) {
                self.pool.close();
                return Ok(None);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Some(()));
            }
            std::thread::sleep(left.min(GLANCE));
        }
    }

    fn counters(&mut self) -> Result<Option<PipeCounters>> {
        Ok(Some(self.count()))
    }

    fn glimpse(&self) -> Glimpse {
        let PipeCounters { brought, written, waited, .. } = self.count();
        let network = StageGlimpse { moved: brought, waited: waited.0 };
        let write = StageGlimpse { moved: written, waited: waited.1 };
        PerStage { read: None, network: Some(network), write: Some(write) }
    }

    fn round_trip(&self) -> Duration {
        self.state.quickest.time()
    }

    fn moved(&self, counters: &PipeCounters) -> u64 {
        counters.brought
    }

    fn warm_up(&self) -> Duration {
        (ANSWERS * self.state.quickest.time()).min(self.pace.epoch)
    }

    fn observe(&self, setpoint: Concurrency, before: &PipeCounters, after: &PipeCounters) -> Observation {
        let interval = after.at.duration_since(before.at);
        let rate = |a: u64, b: u64| BitRate::over(ByteCount(b.saturating_sub(a)), interval);
        let network = rate(before.brought, after.brought);
        let capacity = ByteCount(self.state.window);
        let ahead = after.brought.saturating_sub(after.written);
        Observation {
            at: self.started.elapsed(),
            interval,
            concurrency: PerStage { read: 1, write: 1, ..setpoint },
            // Reading is the servers' business: it is as quick as what comes.
            throughput: PerStage::new(network, network, rate(before.written, after.written)),
            waited: PerStage {
                read: None,
                network: share_waited(interval, (before.waited.0, after.waited.0), setpoint.network),
                write: share_waited(interval, (before.waited.1, after.waited.1), 1),
            },
            staging_free: Ends { sender: capacity, receiver: ByteCount(capacity.0.saturating_sub(ahead)) },
            staging_capacity: Ends { sender: capacity, receiver: capacity },
            cpu: Ends { sender: None, receiver: after.cpu.load_since(&before.cpu, interval) },
            ..Observation::default()
        }
    }
}
