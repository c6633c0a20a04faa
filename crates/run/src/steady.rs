//! A path that is only measured, until what its streams carry has stopped rising.

use std::sync::Arc;
use std::time::Duration;

use tidegate_control::throughput_model::settled::{Piece, ROUND_TRIPS, rate, settled};
use tidegate_control::{
    BitRate, Bounds, ByteCount, Concurrency, Environment, Epoch, Host, Observation, PerStage, Proposal,
};
use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::ledger::Ledger;
use tidegate_transfer::transfer::Tracked;
use tidegate_transfer::transfer::route::Transfer;

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
            steady.add(epoch);
        }
        steady
    }

    /// What goes on counts as its record will, or what was enough while it ran might not be enough for [`Steady::of`].
    fn see(&mut self, seen: &Observation) {
        self.add(&Epoch::new(seen, &seen.concurrency.into()));
    }

    fn add(&mut self, epoch: &Epoch) {
        let time = Duration::from_millis(epoch.interval_ms);
        let bytes = ByteCount((epoch.throughput_bps.network.bytes_per_second() * time.as_secs_f64()) as u64);
        self.round_trip = self.round_trip.min(epoch.rtt_us.map_or(Duration::MAX, Duration::from_micros));
        self.pieces.push(Piece { time, bytes });
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
pub(crate) struct UntilSteady {
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

    fn heed(&mut self, proposal: &Proposal, bounds: PerStage<Bounds>) {
        self.transfer.heed(proposal, bounds);
    }

    fn step(&mut self, setpoint: Concurrency) -> Result<Option<Observation>> {
        if self.steady.found().is_some() {
            return Ok(None);
        }
        let seen = self.transfer.step(setpoint)?;
        if let Some(seen) = &seen {
            self.steady.see(seen);
        }
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: Duration = Duration::from_millis(100);

    fn observation(interval: Duration, mbps: u64, rtt: Option<Duration>) -> Observation {
        Observation {
            interval,
            throughput: PerStage::all(BitRate::mbps(mbps)),
            rtt,
            ..Observation::default()
        }
    }

    /// How many pieces of these rates are seen until it is steady, and at what rate.
    fn seen(rates: impl Iterator<Item = u64>, round_trips: &[u64]) -> Option<(usize, BitRate)> {
        let mut steady = Steady::new(4 * PIECE);
        rates.enumerate().take(100).find_map(|(i, mbps)| {
            let round_trip = round_trips.get(i % round_trips.len().max(1));
            steady.see(&observation(PIECE, mbps, round_trip.copied().map(Duration::from_millis)));
            steady.rate().map(|(rate, _)| (i + 1, rate))
        })
    }

    #[test]
    fn four_of_the_shortest_round_trip_are_seen_at_least() {
        let flat = || std::iter::repeat(100);
        let found = Some(BitRate::mbps(100));
        for (round_trips, pieces) in [(&[][..], 4), (&[1], 4), (&[200], 8), (&[900, 150, 400], 6)] {
            let seen = seen(flat(), round_trips);
            assert_eq!(seen.map(|(_, rate)| rate), found, "{round_trips:?}");
            assert!(seen.is_some_and(|(seen, _)| seen == pieces), "{round_trips:?}: {seen:?}");
        }
    }

    #[test]
    fn what_is_recorded_of_it_is_as_steady_as_it_was() {
        // By its whole milliseconds the fourth is one too few.
        let odd = observation(Duration::from_micros(100_999), 100, Some(Duration::from_micros(100_999)));
        let least = 4 * PIECE + Duration::from_millis(2);
        let (mut live, mut epochs) = (Steady::new(least), Vec::new());
        for pieces in 1..=6 {
            live.see(&odd);
            epochs.push(Epoch::new(&odd, &odd.concurrency.into()));
            assert_eq!(live.rate(), Steady::of(&epochs, least).rate(), "{pieces} pieces");
        }
        assert!(live.rate().is_some());
    }

    #[test]
    fn what_rises_is_not_steady_before_it_has_risen() {
        assert_eq!(seen((0..100).map(|i| (10.0 * 1.1f64.powi(i)) as u64), &[1]), None);
        let risen = seen((0..12).map(|i| 1 << i).chain(std::iter::repeat(4096)), &[1]);
        assert!(risen.is_some_and(|(pieces, rate)| pieces >= 14 && rate >= BitRate::mbps(3500)), "{risen:?}");
    }
}
