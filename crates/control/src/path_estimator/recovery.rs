//! Streams on their way to what they can move: after a loss, or when others were taken away.
//!
//! A cubic stream that has lost a packet sends 0.7 W and needs K = ∛(0.3 W / 0.4) seconds to come back to its window W
//! (RFC 9438), or where round trips are short what Reno needs, 0.57 W of them; and streams that are to take over from
//! others need as long to grow. What they move meanwhile is the least they can.

use std::time::Duration;

use crate::observation::Observation;

/// Payload of a full TCP segment in bits.
const SEGMENT_BITS: f64 = 1448.0 * 8.0;
/// 0.3 / 0.4 of cubic; round trips a segment of Reno's window.
const CUBIC: f64 = 0.75;
const RENO: f64 = 0.57;
/// Shorter recoveries are over before they are seen, and longer ones are not waited for, in s.
const SHORTEST: f64 = 0.5;
const LONGEST: f64 = 8.0;
/// Share of the segments: so much lost is more than the odd one.
const LOST: f64 = 5e-4;
/// Share of the streams: so many fewer leave a gap that others must fill.
const TAKEN: f64 = 0.9;
/// Share of the streams: so many at most are taken away at once where the others take long to fill the gap.
const GENTLE: f64 = 0.25;
/// Share of what was moved before: who moves as much has recovered.
const RECOVERED: f64 = 0.98;

/// What the streams are recovering from, if anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovery {
    /// The shortest round trip so far.
    round_trip: Option<Duration>,
    /// Streams and what they moved, in bit/s, in the epoch before; whether it lost packets.
    streams: f64,
    rate: f64,
    lost: bool,
    /// The share of a round trip that was spent in queues.
    queued: f64,
    /// When it should be over, and what is moved then.
    until: Option<(Duration, f64)>,
}

impl Recovery {
    /// Whether streams are recovering.
    pub const fn is_under_way(&self) -> bool {
        self.until.is_some()
    }

    /// Takes in an epoch.
    pub fn watch(&mut self, seen: &Observation) {
        // Without the kernel's word nobody knows whose windows they are.
        let Some(kernel) = seen.streams else { return };
        self.round_trip = self.round_trip.into_iter().chain(kernel.min_rtt).min();
        let (streams, rate) = (f64::from(seen.concurrency.network.max(1)), seen.throughput.network.0 as f64);
        let lost = seen.loss.is_some_and(|loss| loss >= LOST);
        let began = seen.at.saturating_sub(seen.interval);
        let goal = rate.max(self.rate);
        if let Some((end, goal)) = self.until
            && (seen.at >= end || rate >= RECOVERED * goal)
        {
            self.until = None;
        }
        // A path that loses packets all the time is as quick as it will be.
        let hurt = lost && !self.lost && self.streams > 0.0;
        let taken = streams < TAKEN * self.streams && rate < RECOVERED * self.rate;
        if hurt || taken {
            let length = self.length(goal / streams);
            let from = if taken { began } else { seen.at };
            self.until = length.map(|length| (from + length, goal));
        }
        (self.streams, self.rate, self.lost) = (streams, rate, lost);
        let least = self.round_trip.map_or(0.0, |least| least.as_secs_f64());
        self.queued = seen.rtt.map_or(0.0, |now| (1.0 - least / now.as_secs_f64().max(least)).max(0.0));
    }

    /// The fewest streams that may be left: where the others take long to fill a gap, no more are taken away than the
    /// queue makes up for, but one.
    pub fn fewest(&self) -> f64 {
        match self.length(self.rate / self.streams.max(1.0)) {
            Some(_) => self.streams - (self.streams * self.queued.min(GENTLE)).floor().max(1.0),
            None => 1.0,
        }
    }

    /// How long a stream needs that is to move so much, in bit/s; `None` if it shows nothing.
    fn length(&self, rate: f64) -> Option<Duration> {
        let round_trip = self.round_trip?.as_secs_f64();
        let window = rate * round_trip / SEGMENT_BITS;
        let seconds = (CUBIC * window).cbrt().min(RENO * window * round_trip);
        (seconds >= SHORTEST).then(|| Duration::from_secs_f64(seconds.min(LONGEST)))
    }
}
