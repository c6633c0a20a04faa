//! What a path can do, fitted to the epochs of an exploration, and the simulated path that does the same.
//!
//! The papers explore with random concurrency and take BW = max T and TPT = max T/n, a stage each
//! (LDM, AutoMDT). Two things make that fragile. A maximum believes the worst outlier (`fit` says
//! what is done instead). And a stage shows its own rate only while no other holds it back, which for
//! each stage is in few epochs. Staging tells which: a reader waits where the sender's staging is full,
//! a stream where the sender's is empty or the receiver's full, a writer where the receiver's is empty.
//! While a set-point holds, a level moves one way, so its end tells of the whole epoch.

use serde::Serialize;

use crate::control_loop::Epoch;
use crate::scenario::Scenario;
use crate::stage::{Bounds, Concurrency, Ends, PerStage, Stage};
use crate::units::{BitRate, ByteCount};

mod fit;
mod log;
mod settled;
mod write;

pub use log::read_log;

use fit::{Law, Reading, median};
use settled::settled;

/// The fewest epochs that are worth a fit.
pub const MIN_EPOCHS: usize = 8;

/// Staging with more than this free counts as empty.
const EMPTY: f64 = 0.875;
/// Staging with less than this free counts as full: a real one wakes those who wait to fill it only
/// once it is half empty, so while it holds them back it moves between a half and full.
const FULL: f64 = 0.55;

/// The share of the bandwidth that counts as reaching it, as for the oracle.
const REACHED: f64 = 0.98;

/// The lower bound of a rate that was never seen unhindered: all but a tenth of the readings are below.
const UPPER: f64 = 0.9;

/// Why a log tells nothing; always one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CalibrationError {
    /// Nothing in it.
    #[error("holds no epochs: explore the path first (tidegate explore)")]
    Empty,
    /// Cut off.
    #[error("line {line}: ends in the middle of an epoch: the log was cut off, explore again")]
    Truncated {
        /// Counted from 1.
        line: usize,
    },
    /// A line that is no epoch.
    #[error("line {line}: {reason}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it, with the field.
        reason: String,
    },
    /// Not enough to fit.
    #[error("holds {epochs} epochs, at least {MIN_EPOCHS} are needed: explore longer")]
    TooFew {
        /// Epochs there are.
        epochs: usize,
    },
    /// A value that makes no sense.
    #[error("line {line}: {field}: {reason}")]
    Value {
        /// Counted from 1; epochs are one a line.
        line: usize,
        /// The field, with its parts.
        field: String,
        /// What it must be.
        reason: &'static str,
    },
    /// One set-point only.
    #[error(
        "{field}: is {value} in every epoch, which tells nothing of one worker's rate: explore with random concurrency (tidegate explore, or --optimizer explore)"
    )]
    Constant {
        /// The field, with its parts.
        field: String,
        /// What it always is.
        value: u16,
    },
    /// Nothing moved.
    #[error("{field}: is zero in every epoch: nothing was moved")]
    Zero {
        /// The field, with its parts.
        field: String,
    },
}

/// What one stage can do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StageFit {
    /// What one worker moves when nothing holds it back: the papers' TPT.
    pub worker_rate_bps: BitRate,
    /// What all workers move at most: the papers' BW. None if the log shows no such limit: then it is
    /// beyond what the most workers move, or another stage hides it.
    pub total_rate_bps: Option<BitRate>,
    /// Epochs the worker's rate rests on; with none it is only a lower bound.
    pub worker_readings: u32,
    /// Epochs the total rests on.
    pub total_readings: u32,
    /// The fewest and the most workers that were tried.
    pub workers: Bounds,
}

impl StageFit {
    /// What `n` workers move.
    fn carried(&self, n: u16) -> f64 {
        let total = self.total_rate_bps.map_or(f64::INFINITY, |total| total.0 as f64);
        (f64::from(n) * self.worker_rate_bps.0 as f64).min(total)
    }
}

/// What a path can do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// Epochs in the log.
    pub epochs: u32,
    /// Each stage; none for a stage that was never given more than one worker, and so is absent
    /// (memory to memory has the network alone).
    pub stages: PerStage<Option<StageFit>>,
    /// Staging at each end; none beside an absent stage.
    pub staging_bytes: Ends<Option<ByteCount>>,
    /// The papers' b: the most that goes through all stages with the workers that were tried.
    pub bandwidth_bps: BitRate,
    /// Whether `bandwidth_bps` is a limit of the path; if not, more workers may move more.
    pub bandwidth_reached: bool,
    /// The papers' n*: the fewest workers a stage that reach the bandwidth, less 2 %.
    pub optimum: Concurrency,
    /// Standard deviation of a measured throughput about the fit, relative.
    pub noise: f64,
    /// Median round-trip time in µs.
    pub rtt_us: Option<u64>,
    /// Median share of segments sent again.
    pub loss: Option<f64>,
}

/// Fits a path to `log`, the epochs of an exploration in order.
///
/// ```
/// use tidegate_control::optimizer::{OptimizerOptions, build};
/// use tidegate_control::{BitRate, Scenario, SimulatorOptions, calibrate, simulate};
///
/// let text = "name = 'memory'\ndescription = ''\n[network]\nworker_rate = '100Mbit/s'\n[link]\nrate = '1Gbit/s'";
/// let mut rule = build("explore", &OptimizerOptions::default())?;
/// let options = SimulatorOptions::new(1, rule.epoch_length(), 60);
/// let explored = simulate(&Scenario::from_toml(text)?, rule.as_mut(), None, options);
/// let path = calibrate(&explored.epochs)?;
/// assert_eq!(path.optimum.network, 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn calibrate(log: &[Epoch]) -> Result<Calibration, CalibrationError> {
    check(log)?;
    let present = PerStage::from_fn(|stage| is_present(log, stage));
    let capacity = capacity(log);
    let mut stages = PerStage::all(None);
    let mut errors = Vec::new();
    for stage in Stage::ALL.into_iter().filter(|&stage| present[stage]) {
        let field = |part: &str| format!("{part}.{stage}");
        let all = log.iter().map(|epoch| epoch.concurrency[stage]);
        let (min, max) = (all.clone().min().unwrap_or(1), all.max().unwrap_or(1));
        if min == max {
            return Err(CalibrationError::Constant { field: field("concurrency"), value: max });
        }
        if log.iter().all(|epoch| epoch.throughput_bps[stage] == BitRate::ZERO) {
            return Err(CalibrationError::Zero { field: field("throughput_bps") });
        }
        let (free, held): (Vec<usize>, Vec<usize>) =
            (0..log.len()).partition(|&i| is_free(&log[i], stage, present, capacity));
        let free = settled(log, stage, free);
        let readings = |of: &[usize]| of.iter().map(|&i| reading(log, i, stage)).collect::<Vec<Reading>>();
        let (free, held) = (readings(&free), readings(&held));
        let law = fit::fit(&free, &held).unwrap_or_else(|| at_least(log, stage));
        errors.extend(free.iter().map(|&reading| law.error(reading).abs()));
        stages[stage] = Some(StageFit {
            worker_rate_bps: BitRate::from_bps(law.worker),
            total_rate_bps: law.total.map(BitRate::from_bps),
            worker_readings: law.worker_readings as u32,
            total_readings: law.total_readings as u32,
            workers: Bounds::new(min, max),
        });
    }
    let known = stages.into_array().into_iter().flatten();
    let all_of = |stage: StageFit| (stage.carried(stage.workers.max), stage.total_rate_bps.is_some());
    // A rate that is only a lower bound limits nothing.
    let sure = known.clone().filter(|stage| stage.worker_readings + stage.total_readings > 0);
    let (bandwidth, bandwidth_reached) =
        sure.map(all_of).min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_else(|| {
            (known.map(|stage| stage.carried(stage.workers.max)).fold(f64::INFINITY, f64::min), false)
        });
    let optimum = stages.map(|stage| {
        let enough = |stage: &StageFit, n: u16| stage.carried(n) > REACHED * bandwidth;
        stage.map_or(1, |stage| {
            (1..=stage.workers.max).find(|&n| enough(&stage, n)).unwrap_or(stage.workers.max)
        })
    });
    let loss = median(log.iter().filter_map(|epoch| epoch.loss));
    let rtt = median(log.iter().filter_map(|epoch| epoch.rtt_us).map(|rtt| rtt as f64));
    Ok(Calibration {
        epochs: log.len() as u32,
        stages,
        staging_bytes: Ends {
            sender: present.read.then_some(capacity.sender),
            receiver: present.write.then_some(capacity.receiver),
        },
        bandwidth_bps: BitRate::from_bps(bandwidth),
        bandwidth_reached,
        optimum,
        noise: median(errors.into_iter()).map_or(0.0, |error| fit::NORMAL * error),
        rtt_us: rtt.map(|rtt| rtt.round() as u64),
        loss,
    })
}

impl Calibration {
    /// The papers' R_max, in Mbit/s: the most a step can score with T/kⁿ summed over the stages there
    /// are. LDM: BW·k^(−BW/TPT); AutoMDT: b·Σ k^(−b/TPT_i). Where less than one worker would do, one
    /// is paid for.
    pub fn r_max(&self, k: f64) -> f64 {
        let bandwidth = self.bandwidth_bps.as_mbps();
        let workers = |stage: StageFit| (bandwidth / stage.worker_rate_bps.as_mbps()).max(1.0);
        let stages = self.stages.into_array().into_iter().flatten();
        stages.map(|stage| bandwidth * k.powf(-workers(stage))).sum()
    }

    /// The simulated path that behaves as the log; `name` is reduced to what a scenario may be called.
    pub fn scenario(&self, name: &str) -> Scenario {
        Scenario::from_toml(&self.to_toml(name)).expect("a calibration is checked")
    }
}

/// Whether every line can be used at all.
fn check(log: &[Epoch]) -> Result<(), CalibrationError> {
    for (i, epoch) in log.iter().enumerate() {
        let wrong = |field: String, reason| Err(CalibrationError::Value { line: i + 1, field, reason });
        if epoch.interval_ms == 0 {
            return wrong("interval_ms".to_owned(), "must be more than 0");
        }
        if epoch.loss.is_some_and(|loss| !(0.0..=1.0).contains(&loss)) {
            return wrong("loss".to_owned(), "must be from 0 to 1");
        }
        for stage in Stage::ALL {
            if epoch.concurrency[stage] == 0 {
                return wrong(format!("concurrency.{stage}"), "must be at least 1");
            }
            if epoch.throughput_bps[stage] > MAX_RATE {
                return wrong(format!("throughput_bps.{stage}"), "must be at most 1 Pbit/s");
            }
        }
    }
    match log.len() {
        0 => Err(CalibrationError::Empty),
        epochs if epochs < MIN_EPOCHS => Err(CalibrationError::TooFew { epochs }),
        _ if log.iter().all(|epoch| epoch.throughput_bps.network == BitRate::ZERO) => {
            Err(CalibrationError::Zero { field: "throughput_bps.network".to_owned() })
        }
        _ => Ok(()),
    }
}

/// More than any path carries, and little enough that nothing overflows.
const MAX_RATE: BitRate = BitRate(1_000_000_000_000_000);

/// A stage that a route lacks has one worker throughout; a third party learns that after the first
/// epoch.
fn is_present(log: &[Epoch], stage: Stage) -> bool {
    stage == Stage::Network || log.iter().filter(|epoch| epoch.concurrency[stage] != 1).count() > 1
}

/// Staging at each end: as told, or the most that was ever free.
fn capacity(log: &[Epoch]) -> Ends<ByteCount> {
    let most = |of: &dyn Fn(&Epoch) -> (ByteCount, ByteCount)| {
        let told = log.iter().map(|epoch| of(epoch).0).max().unwrap_or_default();
        let free = log.iter().map(|epoch| of(epoch).1).max().unwrap_or_default();
        told.max(free)
    };
    Ends {
        sender: most(&|epoch| (epoch.staging_capacity_bytes.sender, epoch.staging_free_bytes.sender)),
        receiver: most(&|epoch| (epoch.staging_capacity_bytes.receiver, epoch.staging_free_bytes.receiver)),
    }
}

/// Whether nothing but its own workers and its own limit held `stage` back.
fn is_free(epoch: &Epoch, stage: Stage, present: PerStage<bool>, capacity: Ends<ByteCount>) -> bool {
    let share = |free: ByteCount, capacity: ByteCount| free.0 as f64 / capacity.0.max(1) as f64;
    let sender = share(epoch.staging_free_bytes.sender, capacity.sender);
    let receiver = share(epoch.staging_free_bytes.receiver, capacity.receiver);
    let (empty, full) = (|free: f64| free > EMPTY, |free: f64| free < FULL);
    match stage {
        Stage::Read => !full(sender),
        Stage::Network => !(present.read && empty(sender) || present.write && full(receiver)),
        Stage::Write => !empty(receiver),
    }
}

/// What epoch `i` told of `stage`.
fn reading(log: &[Epoch], i: usize, stage: Stage) -> Reading {
    let n = log[i].concurrency[stage];
    let before = i.checked_sub(1).map_or(0, |before| log[before].concurrency[stage]);
    Reading { n: f64::from(n), rate: log[i].throughput_bps[stage].0 as f64, grown: n > before }
}

/// What is known of a stage that another held back in every epoch: one worker moves at least this.
fn at_least(log: &[Epoch], stage: Stage) -> Law {
    let rate = |epoch: &Epoch| epoch.throughput_bps[stage].0 as f64 / f64::from(epoch.concurrency[stage]);
    let mut rates: Vec<f64> = log.iter().map(rate).collect();
    rates.sort_by(f64::total_cmp);
    let moved = rates.iter().position(|&rate| rate > 0.0).unwrap_or(0);
    let upper = ((rates.len() as f64 * UPPER) as usize).clamp(moved, rates.len() - 1);
    Law { worker: rates[upper], total: None, worker_readings: 0, total_readings: 0 }
}
