//! A path that is only measured, until what its streams carry has stopped rising.

use std::sync::Arc;
use std::time::Duration;

use tidegate_control::throughput_model::settled::{Piece, rate, settled};
use tidegate_control::{
    BitRate, Bounds, ByteCount, Concurrency, Environment, Epoch, Host, Observation, PerStage,
};
use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::ledger::Ledger;
use tidegate_transfer::transfer::Tracked;
use tidegate_transfer::transfer::route::Transfer;

/// So many round trips are seen at least: what comes within one comes in bursts, and slow start doubles each.
const ROUND_TRIPS: u32 = 4;

/// What was measured so far, and whether that is enough.
#[derive(Debug)]
pub struct Steady {
    least: Duration,
    pieces: Vec<Piece>,
    round_trip: Duration,
}

impl Steady {
    /// Enough is `least` of a rate that does not rise.
    pub const fn new(least: Duration) -> Self {
        Self { least, pieces: Vec::new(), round_trip: Duration::MAX }
    }

    /// The same of epochs that are over.
    pub fn of(epochs: &[Epoch], least: Duration) -> Self {
        let mut steady = Self::new(least);
        for epoch in epochs {
            let time = Duration::from_millis(epoch.interval_ms);
            steady.add(time, epoch.throughput_bps.network, epoch.rtt_us.map(Duration::from_micros));
        }
        steady
    }

    fn add(&mut self, time: Duration, rate: BitRate, round_trip: Option<Duration>) {
        self.round_trip = self.round_trip.min(round_trip.unwrap_or(Duration::MAX));
        self.pieces
            .push(Piece { time, bytes: ByteCount((rate.bytes_per_second() * time.as_secs_f64()) as u64) });
    }

    fn found(&self) -> Option<&[Piece]> {
        let known = if self.round_trip == Duration::MAX { Duration::ZERO } else { self.round_trip };
        settled(&self.pieces, self.least.max(known * ROUND_TRIPS))
    }

    /// The rate since it stopped rising, and how long that is.
    pub fn rate(&self) -> Option<(BitRate, Duration)> {
        self.found().map(|tail| (rate(tail), tail.iter().map(|piece| piece.time).sum()))
    }
}

/// A transfer that ends once it is steady.
pub struct UntilSteady {
    transfer: Transfer,
    steady: Steady,
}

impl UntilSteady {
    /// `transfer`, until it was steady for `least`.
    pub const fn new(transfer: Transfer, least: Duration) -> Self {
        Self { transfer, steady: Steady::new(least) }
    }
}

impl Tracked for UntilSteady {
    fn ledger(&self) -> &Arc<Ledger> {
        self.transfer.ledger()
    }
}

impl Environment for UntilSteady {
    type Error = Error;

    fn bounds(&self) -> PerStage<Bounds> {
        self.transfer.bounds()
    }

    fn host(&self) -> Host {
        self.transfer.host()
    }

    fn short_epochs(&mut self, short: bool) {
        self.transfer.short_epochs(short);
    }

    fn yields(&mut self, yields: bool) {
        self.transfer.yields(yields);
    }

    fn step(&mut self, setpoint: Concurrency) -> Result<Option<Observation>> {
        if self.steady.found().is_some() {
            return Ok(None);
        }
        let seen = self.transfer.step(setpoint)?;
        if let Some(seen) = &seen {
            self.steady.add(seen.interval, seen.throughput.network, seen.rtt);
        }
        Ok(seen)
    }
}
