//! Algorithm 2 with a real sampler: one sample after the other until more streams bring too little.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_control::throughput_model::sampling::{Doubling, SamplingConfig};
use tidegate_control::{BitRate, ByteCount};

use crate::sampler::{Amount, Failure, Measured, Sampler, SamplerError};

use super::answer::{Sampled, milliseconds, time_ms};

/// The first sample by time, if nobody says how long: half a second is enough to tell what one stream carries.
const FIRST: Duration = Duration::from_millis(500);
/// The next ones are this share of what one stream would take for everything, within these bounds: a transfer
/// of ten seconds is to gain by an estimate still, and one of a minute affords what the EOS paper sampled.
const SHARE: u32 = 40;
const BOUNDS: (Duration, Duration) = (Duration::from_millis(400), Duration::from_secs(1));

/// Samples are worth it only for so many times what one of them moves, or takes (EOS: 256 MB with samples of
/// 100 MB were not).
pub(crate) const WORTH: u32 = 10;

/// The same where nobody says how much a sample is, so that cost can be held against gain. After the first sample three more
/// follow at least, which cost as much each. A few streams without them take a fourth of what one does; that more streams
/// bring twice as much again is believed at even odds, so samples gain an eighth of that time.
const WORTH_BELIEVED: u32 = 24;

/// So often the same sample is tried, and the pause between: a server that is busy, a connection that was lost.
const TRIES: u32 = 2;
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 500 });

/// What happens while samples are taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum SamplingEvent {
    /// Another estimate of the same path, or too many of others, are waited for.
    Waiting,
    /// So many streams are being measured.
    Sampling {
        /// How many.
        streams: u16,
    },
    /// What they showed.
    Sampled(Sampled),
    /// There is no such sample.
    Failed {
        /// Of so many streams.
        streams: u16,
        /// Why.
        why: String,
        /// Whether it is tried again.
        again: bool,
    },
}

/// What was sampled, and at what price.
#[derive(Debug, Default)]
pub struct Samples {
    /// In the order they were taken.
    pub taken: Vec<Sampled>,
    /// What was moved, as far as that is known of samples that failed.
    pub cost_bytes: ByteCount,
    /// The time that went by.
    pub cost_ms: u64,
    /// What ended it early.
    pub failed: Option<SamplerError>,
    /// Whether it ended because what is to be moved is too little.
    pub(crate) too_little: bool,
}

/// What is to be sampled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SamplingPlan {
    /// What decides on the next number of streams.
    pub(crate) doubling: SamplingConfig,
    /// How long, or how much, each sample is; `None` leaves it to what is seen.
    pub amount: Option<Amount>,
    /// What is to be moved afterwards.
    pub bytes: ByteCount,
    /// Whether to go on even if that is too little.
    pub always: bool,
}

/// Takes the samples of `plan`, and tells of each. Its bound: every sample has one of its own, and there are no
/// more than twice as many as doublings.
pub async fn take(
    sampler: &mut dyn Sampler,
    plan: &SamplingPlan,
    tell: &mut (dyn FnMut(SamplingEvent) + Send),
) -> Samples {
    let started = Instant::now();
    let mut samples = Samples::default();
    let mut doubling = Doubling::new(plan.doubling);
    let mut amount = plan.amount.unwrap_or(Amount::Time(FIRST));
    while let Some(streams) = doubling.next() {
        match one(sampler, streams, amount, tell).await {
            Ok(measured) => {
                let sampled = Sampled::from(&measured);
                samples.cost_bytes += sampled.bytes;
                tell(SamplingEvent::Sampled(sampled.clone()));
                samples.taken.push(sampled);
                doubling.record(measured.throughput);
                if samples.taken.len() == 1 && measured.throughput > BitRate::ZERO {
                    let single = single_time(plan.bytes, &measured);
                    let worth = if plan.amount.is_some() { WORTH } else { WORTH_BELIEVED };
                    if !plan.always && single < measured.spent * worth {
                        samples.too_little = true;
                        break;
                    }
                    if plan.amount.is_none() {
                        amount = Amount::Time((single / SHARE).clamp(BOUNDS.0, BOUNDS.1));
                    }
                }
            }
            Err(error) => {
                samples.failed = Some(error);
                break;
            }
        }
    }
    samples.cost_ms = milliseconds(started.elapsed());
    samples
}

/// What `bytes` would take the streams of `measured`.
fn single_time(bytes: ByteCount, measured: &Measured) -> Duration {
    Duration::from_millis(time_ms(bytes, measured.throughput).unwrap_or(u64::MAX))
}

async fn one(
    sampler: &mut dyn Sampler,
    streams: u16,
    amount: Amount,
    tell: &mut (dyn FnMut(SamplingEvent) + Send),
) -> Result<Measured, SamplerError> {
    let mut tried = 0;
    loop {
        tell(SamplingEvent::Sampling { streams });
        tried += 1;
        let error = match sampler.measure(streams, amount).await {
            Ok(measured) => return Ok(measured),
            Err(error) => error,
        };
        // What took its whole time is not given it twice, and what is missing will not appear.
        let again = tried < TRIES && matches!(error.failure, Failure::Failed | Failure::Garbage);
        tell(SamplingEvent::Failed { streams, why: error.to_string(), again });
        if !again {
            return Err(error);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use tidegate_control::throughput_model::sampling::SamplingConfig;

    use super::*;
    use crate::sampler::{Measuring, SamplerKind};

    /// A path of 100 Mbit/s a stream and 1 Gbit/s in all, that fails where it is told to.
    struct Path {
        failures: Vec<(u16, Failure)>,
        asked: Vec<(u16, Amount)>,
    }

    impl Sampler for Path {
        fn kind(&self) -> SamplerKind {
            SamplerKind::Native
        }

        fn max_streams(&self) -> u16 {
            64
        }

        fn measure(&mut self, streams: u16, amount: Amount) -> Measuring<'_> {
            self.asked.push((streams, amount));
            let fails = self.failures.iter().position(|(n, _)| *n == streams);
            let fails = fails.map(|i| self.failures.remove(i).1);
            Box::pin(async move {
                if let Some(failure) = fails {
                    return Err(SamplerError::new(failure, "no luck"));
                }
                let throughput = BitRate::mbps((u64::from(streams) * 100).min(1000));
                let measured = match amount {
                    Amount::Time(time) => time,
                    Amount::Bytes(bytes) => Duration::from_secs_f64(bytes.bits() / throughput.0 as f64),
                };
                let bytes = ByteCount((throughput.bytes_per_second() * measured.as_secs_f64()) as u64);
                Ok(Measured { streams, throughput, bytes, measured, spent: measured, note: None })
            })
        }
    }

    fn run(
        plan: &SamplingPlan,
        failures: &[(u16, Failure)],
    ) -> (Samples, Vec<(u16, Amount)>, Vec<SamplingEvent>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let mut path = Path { failures: failures.to_vec(), asked: Vec::new() };
        let mut events = Vec::new();
        let samples =
            runtime.expect("a runtime").block_on(take(&mut path, plan, &mut |event| events.push(event)));
        (samples, path.asked, events)
    }

    fn plan(bytes: ByteCount, amount: Option<Amount>) -> SamplingPlan {
        SamplingPlan { doubling: SamplingConfig::up_to(32), amount, bytes, always: false }
    }

    #[test]
    fn streams_double_until_they_bring_too_little() {
        let (samples, asked, events) = run(&plan(ByteCount::gib(1), None), &[]);
        let streams: Vec<u16> = asked.iter().map(|(streams, _)| *streams).collect();
        assert_eq!(streams, [1, 2, 4, 8, 16, 32]);
        // 86 s for one stream: the later samples are as long as they get.
        assert_eq!((asked[0].1, asked[1].1), (Amount::Time(FIRST), Amount::Time(BOUNDS.1)));
        assert_eq!(events.len(), 12);
        assert!(samples.failed.is_none() && !samples.too_little);
        assert_eq!(samples.cost_bytes, samples.taken.iter().map(|sampled| sampled.bytes).sum());
    }

    #[test]
    fn samples_are_shorter_where_less_is_to_be_moved() {
        // 20 s for one stream.
        let (_, asked, _) = run(&plan(ByteCount(250_000_000), None), &[]);
        assert_eq!(asked[1].1, Amount::Time(Duration::from_millis(500)));
        let (_, asked, _) = run(&plan(ByteCount(160_000_000), None), &[]);
        assert_eq!(asked[1].1, Amount::Time(BOUNDS.0));
        let fixed = Amount::Bytes(ByteCount::mib(10));
        let (_, asked, _) = run(&plan(ByteCount::gib(1), Some(fixed)), &[]);
        assert!(asked.iter().all(|(_, amount)| *amount == fixed), "{asked:?}");
    }

    #[test]
    fn what_is_over_soon_is_not_sampled_on() {
        let small = plan(ByteCount(50_000_000), None);
        let (samples, asked, _) = run(&small, &[]);
        assert!(samples.too_little && asked.len() == 1, "{samples:?}");
        // 10 s for one stream, and 2.5 s for four: three more samples would cost a good part of that.
        let larger = plan(ByteCount(125_000_000), None);
        assert!(run(&larger, &[]).0.too_little);
        // Whoever says how long they are has decided.
        let said = plan(ByteCount(125_000_000), Some(Amount::Time(FIRST)));
        assert!(!run(&said, &[]).0.too_little);
        let (samples, asked, _) = run(&SamplingPlan { always: true, ..small }, &[]);
        assert!(!samples.too_little && asked.len() == 6, "{samples:?}");
        let (samples, ..) = run(&plan(ByteCount(10_000_000_000_000_000), None), &[]);
        assert!(!samples.too_little);
    }

    #[test]
    fn a_failure_is_tried_again_once_and_then_is_the_end() {
        let all = plan(ByteCount::gib(1), None);
        let (samples, asked, events) = run(&all, &[(4, Failure::Failed)]);
        assert!(samples.failed.is_none() && asked.len() == 7);
        assert!(events.contains(&SamplingEvent::Failed { streams: 4, why: "no luck".into(), again: true }));
        let (samples, asked, _) = run(&all, &[(4, Failure::Garbage), (4, Failure::Failed)]);
        assert_eq!((samples.taken.len(), asked.len()), (2, 4));
        assert_eq!(samples.failed.map(|error| error.failure), Some(Failure::Failed));
        for failure in [Failure::Missing, Failure::Late, Failure::Usage] {
            let (samples, asked, _) = run(&all, &[(1, failure)]);
            assert_eq!((samples.taken.len(), asked.len()), (0, 1), "{failure:?}");
        }
    }
}
