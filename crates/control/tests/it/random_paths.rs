//! The default rule on paths nobody chose: whatever the rates, it ends up near the best goodput with
//! not many more workers than that takes.

use std::time::Duration;

use crate::common::seeds;
use tidegate_control::optimizer::{OptimizerOptions, build};
use tidegate_control::scenario::{StageKnee, StagePath};
use tidegate_control::{BitRate, ByteCount, Path, Rng, Scenario, SimulatorOptions, simulate};

/// A path drawn from `seed`: a link of 0.2 to 40 Gbit/s, 1 to 25 workers a stage to fill it, some
/// stages capped, staging for 0.1 to 2 s.
fn path(seed: u64, noise: f64, knee: bool) -> Scenario {
    let text =
        "name = 'random'\ndescription = ''\n[network]\nworker_rate = '1Mbit/s'\n[link]\nrate = '1Gbit/s'";
    let mut scenario = Scenario::from_toml(text).expect("good");
    let mut rng = Rng::new(seed);
    let link = rng.log_uniform(2e8, 4e10);
    let stage = |rng: &mut Rng| StagePath {
        worker_rate: BitRate::from_bps(link / rng.log_uniform(0.8, 25.0)),
        total_rate: (rng.unit() < 0.4).then(|| BitRate::from_bps(link * rng.uniform(0.4, 1.5))),
        knee: knee.then(|| StageKnee { workers: rng.integer(1, 32), slope: rng.log_uniform(0.01, 0.5) }),
        ..scenario.network
    };
    let (read, network, write) = (stage(&mut rng), stage(&mut rng), stage(&mut rng));
    scenario.read = Some(read);
    scenario.network = network;
    scenario.write = Some(write);
    scenario.link.rate = BitRate::from_bps(link);
    scenario.staging.sender = ByteCount((rng.log_uniform(0.1, 2.0) * link / 8.0) as u64);
    scenario.staging.receiver = ByteCount((rng.log_uniform(0.1, 2.0) * link / 8.0) as u64);
    scenario.noise.throughput = noise;
    scenario
}

/// Shares of the best goodput over the second half of a minute, worst first, and mean workers by the oracle's.
fn play(noise: f64, knee: bool) -> (Vec<f64>, f64) {
    let paths = seeds(20, 400);
    let mut shares = Vec::new();
    let mut surplus = 0.0;
    for seed in 0..paths {
        let scenario = path(seed, noise, knee);
        let mut rule = build("auto", &OptimizerOptions::default()).expect("a rule");
        let options = SimulatorOptions::new(seed, rule.epoch_length(), 60);
        let summary = simulate(&scenario, rule.as_mut(), None, options).summary;
        let best = Path::at(&scenario, Duration::ZERO).oracle().setpoint.into_array();
        let used: f64 = summary.concurrency_mean.into_array().iter().sum();
        surplus += used / best.iter().map(|&n| f64::from(n)).sum::<f64>() / paths as f64;
        shares.push(summary.second_half_share);
    }
    shares.sort_by(f64::total_cmp);
    (shares, surplus)
}

fn check(noise: f64, knee: bool, mean: f64, hundredth: f64, workers: f64) {
    let (shares, surplus) = play(noise, knee);
    let average = shares.iter().sum::<f64>() / shares.len() as f64;
    let low = shares[shares.len() / 100];
    println!(
        "noise {noise}, knee {knee}: mean {average:.3}, worst of a hundred {low:.3}, workers {surplus:.2}"
    );
    assert!(average >= mean && low >= hundredth && surplus <= workers, "{average} {low} {surplus}");
}

#[test]
fn with_exact_measurements() {
    // A few percent are not worth half as many workers again.
    check(0.0, false, 0.99, 0.95, 1.2);
}

#[test]
fn with_five_per_cent_noise() {
    check(0.05, false, 0.98, 0.92, 1.3);
}

#[test]
fn with_ten_per_cent_noise() {
    check(0.1, false, 0.98, 0.9, 1.5);
}

#[test]
fn with_workers_that_disturb_one_another() {
    check(0.05, true, 0.94, 0.45, 1.3);
}
