//! Paths nobody chose: scenarios drawn at random over everything a path may be.
//!
//! Training randomises its domain with them and the tables judge every rule on them, from seeds that
//! must not meet: [`training`] draws from one half of the seeds, [`unseen`] from the other. What is
//! drawn is log-uniform, because a path of 10 Mbit/s is as likely as one of 100 Gbit/s. Every path has
//! every extra; [`Scenario::ideal`] takes them away.

use std::time::Duration;

use crate::rng::Rng;
use crate::scenario::{
    Background, BackgroundChange, Change, Decision, Expected, Link, LinkChange, Noise, Scenario, StageChange,
    StageKnee, StagePath, Staging,
};
use crate::stage::PerStage;
use crate::units::{BitRate, ByteCount};

/// How long a drawn path is meant to be driven; changes fall into its middle.
pub const EPOCHS: u32 = 60;

/// The link's rate in bit/s, and the most workers a stage may have.
const RATES: (f64, f64) = (10e6, 400e9);
const LIMITS: (f64, f64) = (1.0, 256.0);
/// The workers it takes to fill the link, from a part of one to a little more than are allowed.
const NEED: (f64, f64) = (0.5, 1.2);
/// Staging, in seconds of the link's rate.
const STAGING: (f64, f64) = (0.05, 10.0);

/// New streams need this many round trips to get up to speed.
const RAMP_RTTS: f64 = 5.0;
/// Standard deviation of measurements, at most.
const NOISE: f64 = 0.1;

/// One of the paths that training may see.
pub fn training(seed: u64) -> Scenario {
    draw(seed << 1)
}

/// One of the paths that training never sees.
///
/// ```
/// use tidegate_control::random_path::{training, unseen};
///
/// assert_eq!(unseen(1), unseen(1));
/// assert_ne!(unseen(1), training(1));
/// ```
pub fn unseen(seed: u64) -> Scenario {
    draw(seed << 1 | 1)
}

fn draw(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed);
    let link = rng.log_uniform(RATES.0, RATES.1);
    let rtt = Duration::from_secs_f64(rng.log_uniform(0.0002, 0.2));
    // Nothing is read where the source is remote, nothing written where it is memory to memory.
    let absent = rng.unit();
    let (read, write) = (absent > 0.2, !(0.1..0.2).contains(&absent));
    let stages = PerStage::from_fn(|_| stage(&mut rng, link));
    let staging = |rng: &mut Rng| {
        let size = rng.log_uniform(STAGING.0, STAGING.1) * link / 8.0;
        ByteCount((size as u64).max(ByteCount::mib(1).0))
    };
    let staging = Staging { sender: staging(&mut rng), receiver: staging(&mut rng) };
    let noise = Noise { throughput: rng.uniform(0.0, NOISE) };
    let decision = Decision { lag: Duration::from_millis(u64::from(rng.integer(0, 300))) };
    let timeline = changes(&mut rng, link, &stages, (read, write));
    Scenario {
        name: format!("random-{seed}"),
        description: "A path drawn at random.".to_owned(),
        read: read.then_some(stages.read),
        network: stages.network,
        write: write.then_some(stages.write),
        link: Link {
            rate: BitRate::from_bps(link),
            rtt,
            loss: 0.0,
            surplus_loss: rng.uniform(0.0, 0.01),
            ramp_rtts: RAMP_RTTS,
        },
        staging,
        noise,
        background: Background::default(),
        decision,
        dataset: None,
        timeline,
        expected: Expected::default(),
    }
}

fn stage(rng: &mut Rng, link: f64) -> StagePath {
    let limit = rng.log_uniform(LIMITS.0, LIMITS.1 + 1.0).floor();
    let need = rng.log_uniform(NEED.0, NEED.1 * limit);
    let capped = rng.unit() < 0.3;
    let cap = rng.uniform(0.3, 1.2) * link;
    let knee =
        StageKnee { workers: (need * rng.uniform(1.0, 3.0)) as u16 + 1, slope: rng.log_uniform(0.002, 0.1) };
    let crowded = rng.unit() < 0.5;
    StagePath {
        worker_rate: BitRate::from_bps(link / need),
        total_rate: capped.then(|| BitRate::from_bps(cap)),
        min_workers: 1,
        max_workers: limit as u16,
        knee: crowded.then_some(knee),
        ramp_up: Duration::ZERO,
    }
}

/// Up to two changes, far enough apart and from both ends to show how a rule answers.
fn changes(
    rng: &mut Rng,
    link: f64,
    stages: &PerStage<StagePath>,
    (read, write): (bool, bool),
) -> Vec<Change> {
    let count = rng.integer(0, 2);
    let at = [rng.integer(12, 28), rng.integer(34, 48)];
    let factor = |rng: &mut Rng| {
        let factor = rng.log_uniform(1.3, 3.0);
        if rng.unit() < 0.5 { factor } else { 1.0 / factor }
    };
    let mut drawn = Vec::new();
    for at in at.into_iter().take(usize::from(count)) {
        let mut change = Change {
            at: Duration::from_secs(u64::from(at)),
            read: StageChange::default(),
            network: StageChange::default(),
            write: StageChange::default(),
            link: LinkChange::default(),
            background: BackgroundChange::default(),
        };
        match rng.integer(0, 4) {
            0 => change.background.rate = Some(BitRate::from_bps(link * rng.uniform(0.0, 0.3))),
            1 => change.background.streams = Some(rng.integer(0, 8)),
            2 => change.link.rate = Some(BitRate::from_bps(link * factor(rng))),
            _ => {
                let rate = |stage: &StagePath, rng: &mut Rng| StageChange {
                    worker_rate: Some(BitRate::from_bps(stage.worker_rate.0 as f64 * factor(rng))),
                    total_rate: None,
                };
                match rng.integer(0, 2) {
                    0 if read => change.read = rate(&stages.read, rng),
                    1 if write => change.write = rate(&stages.write, rng),
                    _ => change.network = rate(&stages.network, rng),
                }
            }
        }
        drawn.push(change);
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Path;
    use crate::stage::Stage;

    #[test]
    fn every_draw_can_move_something_and_stays_in_its_ranges() {
        for seed in 0..500 {
            for scenario in [unseen(seed), unseen(seed).ideal()] {
                scenario.check().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                let oracle = Path::at(&scenario, Duration::ZERO).oracle();
                assert!(oracle.goodput.0 > 0, "seed {seed}");
                for stage in Stage::ALL {
                    assert!((1..=256).contains(&oracle.setpoint[stage]), "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn training_and_test_never_meet() {
        let names = |draw: fn(u64) -> Scenario| (0..50).map(move |seed| draw(seed).name);
        let seen: Vec<String> = names(training).collect();
        assert!(names(unseen).all(|name| !seen.contains(&name)));
        assert_ne!(unseen(1), unseen(2));
        assert_eq!(unseen(1), unseen(1));
    }
}
