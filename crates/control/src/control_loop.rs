//! The one loop of the house: each epoch look once, propose once, set once.

use serde::{Deserialize, Serialize};

use crate::arrival::Arrival;
use crate::environment::Environment;
use crate::observation::{CpuLoad, Observation};
use crate::optimizer::{Optimizer, Proposal};
use crate::stage::{Concurrency, Ends, PerStage};
use crate::units::{BitRate, ByteCount};

/// One epoch as it is reported, logged and learned from; one JSON line in `--epochs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Free staging at each end, in bytes.
    pub staging_free_bytes: Ends<ByteCount>,
    /// Size of the staging at each end, in bytes; 0 in logs written before this was told.
    #[serde(default)]
    pub staging_capacity_bytes: Ends<ByteCount>,
    /// Bytes listed, and neither committed nor there before, once the whole list is known.
    #[serde(default)]
    pub remaining_bytes: Option<ByteCount>,
    /// How much has arrived, as whoever keeps the transfer's ledger says; null where nobody does.
    #[serde(default)]
    pub arrived: Option<Arrival>,
    /// Retransmitted segments per segment sent.
    pub loss: Option<f64>,
    /// Smoothed round-trip time in µs.
    pub rtt_us: Option<u64>,
    /// What each end's processors did; null of an end that is not ours.
    #[serde(default)]
    pub cpu: Ends<Option<CpuLoad>>,
    /// The optimizer's score of this epoch.
    pub utility: Option<f64>,
    /// What the optimizer has to say, where it has changed how it decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

impl Epoch {
    fn new(seen: &Observation, next: &Proposal) -> Self {
        Self {
            t_ms: seen.at.as_millis() as u64,
            interval_ms: seen.interval.as_millis() as u64,
            concurrency: seen.concurrency,
            setpoint: next.setpoint,
            throughput_bps: seen.throughput,
            staging_free_bytes: seen.staging_free,
            staging_capacity_bytes: seen.staging_capacity,
            remaining_bytes: seen.remaining.map(|remaining| remaining.bytes),
            arrived: None,
            loss: seen.loss,
            rtt_us: seen.rtt.map(|rtt| rtt.as_micros() as u64),
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
/// assert_eq!(asked[0], 2);
/// assert!(asked.is_sorted(), "every worker more brings more: {asked:?}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run<E: Environment + ?Sized>(
    environment: &mut E,
    optimizer: &mut dyn Optimizer,
    start: Option<Concurrency>,
    mut watch: impl FnMut(Option<&Epoch>, &Proposal),
) -> Result<(), E::Error> {
    let bounds = environment.bounds();
    let mut next = optimizer.start(bounds, &environment.host());
    next.setpoint = bounds.clamp(start.unwrap_or(next.setpoint));
    watch(None, &next);
    loop {
        environment.short_epochs(next.short_epochs);
        let Some(seen) = environment.step(next.setpoint)? else { return Ok(()) };
        let bounds = environment.bounds();
        next = optimizer.propose(&seen, bounds);
        next.setpoint = bounds.clamp(next.setpoint);
        watch(Some(&Epoch::new(&seen, &next)), &next);
    }
}
