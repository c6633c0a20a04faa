//! What an epoch showed, as the sending endpoint of a third-party transfer tells it: in the bytes that version 1 gave to
//! it, and what came to be seen later in a message of its own.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_control::{
    BitRate, ByteCount, Concurrency, CpuLoad, Ends, Observation, PerStage, Remaining, Streams,
};

/// What an [`Observation`] was in version 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stepped {
    at: Duration,
    interval: Duration,
    concurrency: Concurrency,
    throughput: PerStage<BitRate>,
    staging_free: Ends<ByteCount>,
    staging_capacity: Ends<ByteCount>,
    loss: Option<f64>,
    rtt: Option<Duration>,
    cpu: Ends<Option<CpuLoad>>,
    remaining: Option<Remaining>,
}

/// What came to be seen since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepDetail {
    standard_error: PerStage<f64>,
    waited: PerStage<Option<f64>>,
    /// Travels by itself.
    #[serde(skip)]
    pub(crate) draining: PerStage<f64>,
    streams: Option<Streams>,
}

impl StepDetail {
    /// The same, with so many workers that were let go and still worked.
    pub const fn with(self, draining: PerStage<f64>) -> Self {
        Self { draining, ..self }
    }
}

/// What is told of `seen`.
pub fn split(seen: &Observation) -> (Stepped, StepDetail) {
    let Observation {
        at,
        interval,
        concurrency,
        throughput,
        standard_error,
        waited,
        draining,
        staging_free,
        staging_capacity,
        loss,
        rtt,
        streams,
        cpu,
        remaining,
    } = *seen;
    let stepped = Stepped {
        at,
        interval,
        concurrency,
        throughput,
        staging_free,
        staging_capacity,
        loss,
        rtt,
        cpu,
        remaining,
    };
    (stepped, StepDetail { standard_error, waited, draining, streams })
}

/// What was told; an older endpoint does not tell everything, and what makes no sense is taken for untold.
pub fn join(stepped: &Stepped, detail: Option<StepDetail>) -> Observation {
    let StepDetail { standard_error, waited, draining, streams } = detail.unwrap_or_default();
    let share = |share: f64| (0.0..=1.0).contains(&share);
    let amount = |amount: f64| if amount.is_finite() { amount.max(0.0) } else { 0.0 };
    let sound = |streams: &Streams| {
        [streams.busy, streams.receiver_limited, streams.app_limited].into_iter().all(share)
            && streams.spread.is_finite()
    };
    Observation {
        at: stepped.at,
        interval: stepped.interval,
        concurrency: stepped.concurrency,
        throughput: stepped.throughput,
        standard_error: standard_error.map(amount),
        waited: waited.map(|waited| waited.filter(|&waited| share(waited))),
        draining: draining.map(|workers| amount(workers).min(u16::MAX.into())),
        staging_free: stepped.staging_free,
        staging_capacity: stepped.staging_capacity,
        loss: stepped.loss,
        rtt: stepped.rtt,
        streams: streams.filter(sound),
        cpu: stepped.cpu,
        remaining: stepped.remaining,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_was_not_told() {
        let detail = StepDetail {
            standard_error: PerStage::new(0.1, f64::NAN, -1.0),
            waited: PerStage::new(Some(0.3), Some(1.5), Some(f64::NAN)),
            draining: PerStage::new(2.5, f64::INFINITY, 1e300),
            streams: Some(Streams { busy: 7.0, ..Streams::default() }),
        };
        let seen = join(&Stepped::default(), Some(detail));
        assert_eq!(seen.standard_error, PerStage::new(0.1, 0.0, 0.0));
        assert_eq!(seen.waited, PerStage::new(Some(0.3), None, None));
        assert_eq!(seen.draining, PerStage::new(2.5, 0.0, 65_535.0));
        assert_eq!(seen.streams, None);
        assert_eq!(join(&Stepped::default(), None), Observation::default());
    }
}
