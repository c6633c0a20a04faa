//! A read seen by the control loop: its sessions are the network stage. It ends in memory, and the other end reads by itself.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tidegate_control::{BitRate, Bounds, ByteCount, Concurrency, Ends, Observation, PerStage};

use crate::counters::{Glimpse, StageGlimpse};
use crate::error::Result;
use crate::ledger::Ledger;
use crate::sys::clock::Instant;
use crate::sys::processors::CpuTime;
use crate::sys::thread::Scope;
use crate::transfer::file_client::reading::Reading;
use crate::transfer::{Running, SLOW_START};

/// A read under way.
pub(super) struct ReadRun<'scope, 'env> {
    reading: &'env Reading<'env>,
    scope: &'scope Scope<'scope, 'env>,
    began: Instant,
}

/// Counters at one moment.
#[derive(Clone, Copy)]
pub(super) struct ReadCounters {
    at: Instant,
    arrived: u64,
    cpu: CpuTime,
}

impl<'scope, 'env> ReadRun<'scope, 'env> {
    /// Nothing is asked for before the first step; its sessions are threads of `scope`.
    pub(super) fn new(reading: &'env Reading<'env>, scope: &'scope Scope<'scope, 'env>) -> Self {
        Self { reading, scope, began: Instant::now() }
    }

    fn arrived(&self) -> u64 {
        self.reading.ledger().bytes_moved.load(Relaxed)
    }
}

impl Running for ReadRun<'_, '_> {
    type Counters = ReadCounters;

    fn ledger(&self) -> &Arc<Ledger> {
        self.reading.ledger()
    }

    fn bounds(&self) -> PerStage<Bounds> {
        PerStage { network: Bounds::new(1, self.reading.most_sessions()), ..PerStage::all(Bounds::fixed(1)) }
    }

    fn other_end(&self) -> (Option<Duration>, Option<u16>) {
        (Some(self.round_trip()), None)
    }

    fn resize(&mut self, setpoint: Concurrency) {
        let reading = self.reading;
        for _ in 0..reading.allow(setpoint.network) {
            self.scope.spawn(|| reading.serve());
        }
    }

    fn pass(&mut self, until: Instant) -> Result<Option<()>> {
        self.reading.pass(until)
    }

    fn counters(&mut self) -> Result<Option<ReadCounters>> {
        Ok(Some(ReadCounters { at: Instant::now(), arrived: self.arrived(), cpu: CpuTime::now() }))
    }

    fn glimpse(&self) -> Glimpse {
        let network = StageGlimpse { moved: self.arrived(), waited: Duration::ZERO };
        PerStage { read: None, network: Some(network), write: None }
    }

    fn round_trip(&self) -> Duration {
        Duration::from_micros(self.reading.client().quickest_us.load(Relaxed))
    }

    fn moved(&self, counters: &ReadCounters) -> u64 {
        counters.arrived
    }

    fn warm_up(&self) -> Duration {
        SLOW_START * self.round_trip()
    }

    fn observe(&self, setpoint: Concurrency, before: &ReadCounters, after: &ReadCounters) -> Observation {
        let interval = after.at.saturating_duration_since(before.at);
        let rate = BitRate::over(ByteCount(after.arrived.saturating_sub(before.arrived)), interval);
        Observation {
            at: after.at.saturating_duration_since(self.began),
            interval,
            concurrency: setpoint,
            throughput: PerStage::all(rate),
            remaining: self.reading.ledger().totals().remaining(),
            rtt: Some(self.round_trip()),
            cpu: Ends { sender: None, receiver: after.cpu.load_since(&before.cpu, interval) },
            ..Observation::default()
        }
    }
}
