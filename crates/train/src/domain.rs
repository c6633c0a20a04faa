//! What one policy for every path is trained on: more than what `random_path` draws.
//!
//! A third of the paths are ideal, a third have the extras of `random_path`, and a third are harder: the streams of
//! others are there from the start, workers are slow and many, new streams take long on far paths, what streams offer
//! beyond the link is lost, staging is small, and what was moved is counted in whole blocks.

use std::time::Duration;

use tidegate_control::random_path::training;
use tidegate_control::scenario::StagePath;
use tidegate_control::{BitRate, ByteCount, Observation, Rng, Scenario, Stage};

/// Streams of others.
const OTHERS: (f64, f64) = (1.0, 16.0);
/// Workers that fill the link, by the most that there may be; and the most there may be.
const NEED: (f64, f64) = (1.0, 0.7);
const MAX_WORKERS: (f64, f64) = (8.0, 128.0);
/// The round trip in s, and how many a new stream takes to get up to speed.
const ROUND_TRIP: (f64, f64) = (0.001, 0.2);
const RAMP_RTTS: (f64, f64) = (2.0, 10.0);
/// Share of the streams' surplus that is lost.
const SURPLUS_LOSS: (f64, f64) = (0.0, 0.4);
/// Staging, in seconds of the link's rate.
const STAGING: (f64, f64) = (0.03, 3.0);
/// A block by what the path moves in an epoch.
const BLOCK: (f64, f64) = (0.001, 0.1);

/// A path, and how what moves on it is counted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TrainingPath {
    /// The path.
    pub scenario: Scenario,
    /// What moves is counted in so many bits.
    pub(crate) block_bits: Option<f64>,
}

impl TrainingPath {
    /// The path of this seed.
    pub fn draw(seed: u64) -> Self {
        let scenario = training(seed);
        let mut rng = Rng::new(seed).fork();
        match rng.integer(0, 2) {
            0 => Self { scenario: scenario.ideal(), block_bits: None },
            1 => Self { scenario, block_bits: None },
            _ => harder(scenario, &mut rng),
        }
    }
}

/// What is seen where only whole blocks of so many bits are counted.
pub(crate) fn counted(mut seen: Observation, block_bits: Option<f64>) -> Observation {
    let Some(block) = block_bits else { return seen };
    let seconds = seen.interval.as_secs_f64();
    for stage in Stage::ALL {
        let (rate, error) = (&mut seen.throughput[stage], &mut seen.standard_error[stage]);
        let bits = rate.0 as f64 * seconds;
        *rate = BitRate::from_bps((bits / block).round() * block / seconds);
        // That of a number which is rounded at both ends.
        *error = error.hypot(block / bits.max(block) / 6.0_f64.sqrt());
    }
    seen
}

fn harder(mut scenario: Scenario, rng: &mut Rng) -> TrainingPath {
    let link = scenario.link.rate.0 as f64;
    let most = rng.log_uniform(MAX_WORKERS.0, MAX_WORKERS.1).floor();
    let slow = |stage: &mut StagePath, rng: &mut Rng| {
        let need = rng.log_uniform(NEED.0, (NEED.1 * most).max(1.5));
        stage.worker_rate = BitRate::from_bps(link / need);
        stage.max_workers = most as u16;
        stage.total_rate = None;
    };
    [scenario.read.as_mut(), Some(&mut scenario.network), scenario.write.as_mut()]
        .into_iter()
        .flatten()
        .for_each(|stage| slow(stage, rng));
    let often = |rng: &mut Rng| rng.unit() < 0.5;
    if often(rng) {
        scenario.background.streams = rng.log_uniform(OTHERS.0, OTHERS.1) as u16;
    }
    scenario.link.rtt = Duration::from_secs_f64(rng.log_uniform(ROUND_TRIP.0, ROUND_TRIP.1));
    scenario.link.ramp_rtts = if often(rng) { rng.uniform(RAMP_RTTS.0, RAMP_RTTS.1) } else { 0.0 };
    scenario.link.surplus_loss = if often(rng) { rng.uniform(SURPLUS_LOSS.0, SURPLUS_LOSS.1) } else { 0.0 };
    let staging =
        |rng: &mut Rng| ByteCount((rng.log_uniform(STAGING.0, STAGING.1) * link / 8.0).max(65536.0) as u64);
    (scenario.staging.sender, scenario.staging.receiver) = (staging(rng), staging(rng));
    for change in &mut scenario.timeline {
        // Rates of workers that are no longer there.
        change.read.worker_rate = None;
        change.write.worker_rate = None;
        if change.network.worker_rate.take().is_some() {
            let factor = rng.log_uniform(1.0 / 3.0, 3.0);
            change.network.worker_rate =
                Some(BitRate::from_bps(scenario.network.worker_rate.0 as f64 * factor));
        }
    }
    let block_bits = (rng.unit() < 0.25).then(|| link * rng.log_uniform(BLOCK.0, BLOCK.1));
    TrainingPath { scenario, block_bits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_control::{Path, PerStage};

    #[test]
    fn every_path_can_move_something_and_each_kind_is_drawn() {
        let paths: Vec<TrainingPath> = (0..600).map(TrainingPath::draw).collect();
        for (seed, path) in paths.iter().enumerate() {
            path.scenario.check().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert!(Path::at(&path.scenario, Duration::ZERO).oracle().goodput.0 > 0, "seed {seed}");
        }
        let count = |is: fn(&TrainingPath) -> bool| paths.iter().filter(|path| is(path)).count();
        assert!(count(|path| path.scenario == path.scenario.clone().ideal()) > 100);
        assert!(count(|path| path.scenario.background.streams > 0) > 50, "others from the start");
        assert!(
            count(|path| path.scenario.link.ramp_rtts == 0.0 && path.scenario.noise.throughput > 0.0) > 50
        );
        assert!(count(|path| path.scenario.link.surplus_loss > 0.05) > 30);
        assert!(count(|path| path.block_bits.is_some()) > 20, "counted in blocks");
        assert_eq!(TrainingPath::draw(7), TrainingPath::draw(7));
    }

    #[test]
    fn what_is_counted_in_blocks_is_whole_and_as_uncertain() {
        let seen = Observation {
            interval: Duration::from_millis(500),
            throughput: PerStage::new(BitRate(1_000), BitRate(1_700), BitRate(100)),
            ..Observation::default()
        };
        assert_eq!(counted(seen.clone(), None), seen);
        let counted = counted(seen, Some(300.0));
        assert_eq!(counted.throughput, PerStage::new(BitRate(1_200), BitRate(1_800), BitRate(0)));
        let error = counted.standard_error;
        assert!(error.read > error.network && error.network > 0.1 && error.write < 0.5, "{error:?}");
    }
}
