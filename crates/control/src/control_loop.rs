//! The one loop of the house: each epoch look once, propose once, set once.

use serde::{Deserialize, Serialize};

use crate::arrival::Arrival;
use crate::environment::Environment;
use crate::observation::{CpuLoad, Observation, Streams};
use crate::optimizer::{Optimizer, Proposal};
use crate::stage::{Concurrency, Ends, PerStage};
use crate::units::{BitRate, ByteCount};

/// One epoch as it is reported, logged and learned from; one JSON line in `--epochs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Epoch {
    /// Time from the start of the transfer to the end of the interval, in ms.
    pub t_ms: u64,
    /// The time measured, in ms.
    pub interval_ms: u64,
    /// Workers that ran.
    pub concurrency: Concurrency,
    /// What the optimizer asks for next.
    pub setpoint: Concurrency,
    /// What each stage moved, in bit/s.
    pub throughput_bps: PerStage<BitRate>,
    /// The standard error of each of them, as a share of it; 0 where nobody knows.
    #[serde(default, skip_serializing_if = "is_none_at_all")]
    pub standard_error: PerStage<f64>,
    /// The share of the interval for which each stage's workers waited for staging, in the mean over them.
    #[serde(default, skip_serializing_if = "is_untold")]
    pub waited: PerStage<Option<f64>>,
    /// Workers that were let go and finished what they had begun, in the mean over the interval.
    #[serde(default, skip_serializing_if = "is_none_at_all")]
    pub draining: PerStage<f64>,
    /// Free staging at each end, in bytes.
    pub staging_free_bytes: Ends<ByteCount>,
    /// Size of the staging at each end, in bytes; 0 in logs written before this was told.
    #[serde(default)]
    pub staging_capacity_bytes: Ends<ByteCount>,
    /// Bytes listed, and neither committed nor there before, once the whole list is known.
    #[serde(default)]
    pub remaining_bytes: Option<ByteCount>,
    /// How much has arrived, and of how much, as whoever keeps the transfer's ledger says; null where nobody does.
    #[serde(default)]
    pub arrived: Option<Arrival>,
    /// Retransmitted segments per segment sent.
    pub loss: Option<f64>,
    /// Smoothed round-trip time in µs.
    pub rtt_us: Option<u64>,
    /// What the sender's kernel told of the network streams, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<EpochStreams>,
    /// What each end's processors did; null of an end that is not ours.
    #[serde(default)]
    pub cpu: Ends<Option<CpuLoad>>,
    /// The optimizer's score of this epoch.
    pub utility: Option<f64>,
    /// What the optimizer has to say, where it has changed how it decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

/// [`Streams`], with units in their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EpochStreams {
    /// Streams that were under way.
    pub count: u16,
    /// Of these, whose congestion control goes by a model of the path, as BBR does.
    #[serde(default)]
    pub model_based: u16,
    /// The shortest round trip that any of them has seen, in µs.
    pub min_rtt_us: Option<u64>,
    /// What the peer acknowledged last, summed, in bit/s.
    pub delivery_rate_bps: BitRate,
    /// Their congestion windows, summed, in bytes.
    pub window_bytes: ByteCount,
    /// The mean share of the time in which a stream had data under way.
    pub busy: f64,
    /// The mean share of the time in which the receiver's window held a stream back.
    pub receiver_limited: f64,
    /// The share of streams whose last measurement was limited by the application.
    pub app_limited: f64,
    /// The standard deviation of what they moved by its mean.
    pub spread: f64,
}

impl From<Streams> for EpochStreams {
    fn from(streams: Streams) -> Self {
        Self {
            count: streams.count,
            model_based: 0,
            min_rtt_us: streams.min_rtt.map(|rtt| rtt.as_micros() as u64),
            delivery_rate_bps: streams.delivery_rate,
            window_bytes: streams.window,
            busy: rounded(streams.busy),
            receiver_limited: rounded(streams.receiver_limited),
            app_limited: rounded(streams.app_limited),
            spread: rounded(streams.spread),
        }
    }
}

/// A share in as many digits as it is worth.
fn rounded(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}

fn is_none_at_all(values: &PerStage<f64>) -> bool {
    *values == PerStage::all(0.0)
}

fn is_untold(waited: &PerStage<Option<f64>>) -> bool {
    *waited == PerStage::all(None)
}

impl Epoch {
    /// The epoch that showed `seen`, after which `next` was decided; nobody has said yet what has arrived.
    pub fn new(seen: &Observation, next: &Proposal) -> Self {
        Self {
            t_ms: seen.at.as_millis() as u64,
            interval_ms: seen.interval.as_millis() as u64,
            concurrency: seen.concurrency,
            setpoint: next.setpoint,
            throughput_bps: seen.throughput,
            standard_error: seen.standard_error.map(rounded),
            waited: seen.waited.map(|waited| waited.map(rounded)),
            draining: seen.draining.map(rounded),
            staging_free_bytes: seen.staging_free,
            staging_capacity_bytes: seen.staging_capacity,
            remaining_bytes: seen.remaining.map(|remaining| remaining.bytes),
            arrived: None,
            loss: seen.loss,
            rtt_us: seen.rtt.map(|rtt| rtt.as_micros() as u64),
            streams: seen.streams.map(|streams| EpochStreams {
                model_based: (seen.model_based * f64::from(streams.count)).round() as u16,
                ..EpochStreams::from(streams)
            }),
            cpu: seen.cpu,
            utility: next.utility,
            notice: next.notice.clone(),
        }
    }
}

/// Runs `environment` under `optimizer` until everything is moved: from `start` where one is given, else from what the
/// rule makes of the [`Host`](crate::Host).
///
/// `watch` is shown what will be asked for next, within the bounds, and the epoch after which that was decided: none at
/// the start.
///
/// # Errors
/// Whatever a step of the environment fails with.
///
/// ```
/// use std::convert::Infallible;
/// use std::time::Duration;
/// use tidegate_control::optimizer::{OptimizerOptions, build};
/// use tidegate_control::{BitRate, Bounds, Concurrency, Environment, Observation, PerStage, run};
///
/// /// Three epochs on a path where each worker moves 100 Mbit/s.
/// struct ThreeEpochs(u32);
///
/// impl Environment for ThreeEpochs {
///     type Error = Infallible;
///
///     fn bounds(&self) -> PerStage<Bounds> {
///         PerStage::all(Bounds::new(1, 16))
///     }
///
///     fn step(&mut self, n: Concurrency) -> Result<Option<Observation>, Infallible> {
///         self.0 += 1;
///         Ok((self.0 <= 3).then(|| Observation {
///             at: Duration::from_secs(self.0.into()),
///             interval: Duration::from_secs(1),
///             concurrency: n,
///             throughput: n.map(|n| BitRate::mbps(100 * u64::from(n))),
///             ..Observation::default()
///         }))
///     }
/// }
///
/// let mut rule = build("auto", &OptimizerOptions::default())?;
/// let mut asked = Vec::new();
/// run(&mut ThreeEpochs(0), rule.as_mut(), None, |_epoch, next| asked.push(next.setpoint.network))?;
/// assert_eq!(asked[0], 4);
/// assert!(asked.is_sorted(), "every worker more brings more: {asked:?}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run<E: Environment + ?Sized>(
    environment: &mut E,
    optimizer: &mut dyn Optimizer,
    start: Option<Concurrency>,
    mut watch: impl FnMut(Option<&Epoch>, &Proposal),
) -> Result<(), E::Error> {
    let mut bounds = environment.bounds();
    let mut next = optimizer.start(bounds, &environment.host());
    next.setpoint = bounds.clamp(start.unwrap_or(next.setpoint));
    watch(None, &next);
    loop {
        environment.heed(&next, bounds);
        let Some(seen) = environment.step(next.setpoint)? else { return Ok(()) };
        bounds = environment.bounds();
        next = optimizer.propose(&seen, bounds);
        next.setpoint = bounds.clamp(next.setpoint);
        watch(Some(&Epoch::new(&seen, &next)), &next);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_nobody_knows_is_not_in_the_line_and_what_is_known_comes_back() {
        let next = Proposal::default();
        let line = |seen: &Observation| serde_json::to_value(Epoch::new(seen, &next)).expect("plain data");
        let plain = line(&Observation::default());
        for key in ["standard_error", "waited", "streams"] {
            assert!(plain.get(key).is_none(), "{key}");
        }
        let told = line(&Observation {
            standard_error: PerStage::new(0.123_456, 0.0, 0.0),
            waited: PerStage::new(None, Some(0.5), None),
            streams: Some(Streams {
                count: 3,
                min_rtt: Some(Duration::from_micros(70)),
                spread: 1.0 / 3.0,
                ..Streams::default()
            }),
            ..Observation::default()
        });
        assert_eq!(told["standard_error"]["read"], 0.1235);
        assert!(told["waited"]["read"].is_null());
        assert_eq!(told["waited"]["network"], 0.5);
        assert_eq!(told["streams"]["min_rtt_us"], 70);
        assert_eq!(told["streams"]["spread"], 0.3333);
        for line in [plain, told] {
            let epoch: Epoch = serde_json::from_value(line.clone()).expect("an epoch");
            assert_eq!(serde_json::to_value(epoch).expect("plain data"), line);
        }
    }
}
