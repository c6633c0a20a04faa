//! A path explored in the simulator is found again: its rates, its staging, its optimum, and a
//! simulated path that answers as the explored one did.

use std::time::Duration;

use tidegate_control::calibration::{CalibrationError, calibrate, read_log};
use tidegate_control::optimizer::{OptimizerOptions, build};
use tidegate_control::scenario::StagePath;
use tidegate_control::{
    BitRate, ByteCount, Calibration, Concurrency, Environment, Epoch, Observation, Path, PerStage, Rng,
    Scenario, Simulator, SimulatorOptions, Stage, simulate,
};

/// AutoMDT's first bottleneck (figure 5) with the staging of a real transfer.
const READ: &str = r#"
name = "read"
description = "13, 7 and 5 workers are best"
read = { worker_rate = "80Mbit/s", max_workers = 32 }
network = { worker_rate = "160Mbit/s", max_workers = 32 }
write = { worker_rate = "200Mbit/s", max_workers = 32 }
link = { rate = "1Gbit/s", rtt = "10ms" }
staging = { sender = "16MiB", receiver = "16MiB" }
"#;

const MEMORY: &str = r#"
name = "memory"
description = "ten streams fill the link"
network = { worker_rate = "200Mbit/s", max_workers = 32 }
link = { rate = "2Gbit/s" }
"#;

fn scenario(text: &str) -> Scenario {
    Scenario::from_toml(text).expect("good")
}

/// The epochs of an exploration in the simulator.
fn explore(scenario: &Scenario, rule: &str, seed: u64, epochs: u32) -> Vec<Epoch> {
    let mut rule = build(rule, &OptimizerOptions { seed, ..OptimizerOptions::default() }).expect("a rule");
    let options = SimulatorOptions::new(seed, Duration::from_secs(1), epochs);
    simulate(scenario, rule.as_mut(), None, options).epochs
}

fn off(found: BitRate, truth: f64) -> f64 {
    (found.0 as f64 / truth - 1.0).abs()
}

#[test]
fn three_stages_are_found_again_in_half_a_minute() {
    let fit = calibrate(&explore(&scenario(READ), "explore:isolate", 1, 30)).expect("a fit");
    for (stage, mbps) in [(Stage::Read, 80.0), (Stage::Network, 160.0), (Stage::Write, 200.0)] {
        let stage = fit.stages[stage].expect("present");
        assert!(off(stage.worker_rate_bps, mbps * 1e6) < 0.005, "{fit:?}");
    }
    assert!(off(fit.bandwidth_bps, 1e9) < 0.005 && fit.bandwidth_reached, "{fit:?}");
    assert_eq!(fit.optimum, PerStage::new(13, 7, 5));
    let staging = fit.staging_bytes;
    assert_eq!((staging.sender, staging.receiver), (Some(ByteCount::mib(16)), Some(ByteCount::mib(16))));
    // AutoMDT: b(k^-n_r + k^-n_n + k^-n_w) with n = b/TPT.
    let k = 1.02f64;
    let expected = 1000.0 * (k.powf(-12.5) + k.powf(-6.25) + k.powf(-5.0));
    assert!((fit.r_max(k) / expected - 1.0).abs() < 0.01, "{}", fit.r_max(k));
    assert_eq!((fit.rtt_us, fit.noise < 0.01), (Some(10_000), true));
}

#[test]
fn one_stage_is_found_again() {
    let fit = calibrate(&explore(&scenario(MEMORY), "explore", 1, 60)).expect("a fit");
    assert!(fit.stages.read.is_none() && fit.stages.write.is_none(), "{fit:?}");
    let network = fit.stages.network.expect("present");
    assert!(off(network.worker_rate_bps, 2e8) < 0.005 && off(fit.bandwidth_bps, 2e9) < 0.005, "{fit:?}");
    assert_eq!(fit.optimum, PerStage::new(1, 10, 1));
    // LDM: BW·K^(-BW/TPT).
    assert!((fit.r_max(1.02) / (2000.0 * 1.02f64.powf(-10.0)) - 1.0).abs() < 0.01, "{}", fit.r_max(1.02));
    assert_eq!((fit.staging_bytes.sender, fit.staging_bytes.receiver), (None, None));
}

/// LDM's link at a fortieth: far, so that streams take seconds to come to their rate, also those that were parked.
const FAR: &str = r#"
name = "far"
description = "sixteen streams fill the link"
network = { worker_rate = "60Mbit/s", max_workers = 32 }
link = { rate = "956Mbit/s", rtt = "90ms", ramp_rtts = 20 }
noise = { throughput = 0.02 }
"#;

#[test]
fn slow_starts_do_not_lower_what_a_far_link_carries() {
    for seed in 0..20 {
        let log = explore(&scenario(FAR), "explore:isolate", seed, 120);
        let fit = calibrate(&log).expect("a fit");
        let network = fit.stages.network.expect("present");
        assert!(fit.bandwidth_reached && off(fit.bandwidth_bps, 956e6) < 0.05, "seed {seed}: {fit:?}");
        assert!(off(network.worker_rate_bps, 6e7) < 0.05, "seed {seed}: {fit:?}");
    }
}

#[test]
fn a_link_that_was_never_full_is_not_given_a_limit() {
    let mut wide = scenario(MEMORY);
    wide.link.rate = BitRate::mbps(100_000);
    let fit = calibrate(&explore(&wide, "explore", 1, 60)).expect("a fit");
    let network = fit.stages.network.expect("present");
    assert_eq!((network.total_rate_bps, fit.bandwidth_reached), (None, false));
    let most = f64::from(network.workers.max) * 2e8;
    assert!(off(fit.bandwidth_bps, most) < 0.005, "{fit:?}");
    assert!(off(fit.scenario("wide").link.rate, most) < 0.005);
}

#[test]
fn what_no_stage_ever_showed_is_a_lower_bound() {
    let mut hidden = scenario(READ);
    let write = hidden.write.as_mut().expect("present");
    write.worker_rate = BitRate::mbps(20_000);
    let fit = calibrate(&explore(&hidden, "explore", 1, 60)).expect("a fit");
    let write = fit.stages.write.expect("present");
    assert_eq!((write.worker_readings, write.total_rate_bps), (0, None));
    assert!(write.worker_rate_bps.0 > 0 && off(fit.bandwidth_bps, 1e9) < 0.005, "{fit:?}");
}

/// Epochs as a live path spoils them, from `seed`: one in twelve stalls, and one in fifteen counts what
/// another moved.
fn spoiled(mut log: Vec<Epoch>, seed: u64) -> Vec<Epoch> {
    let mut rng = Rng::new(seed);
    for epoch in &mut log {
        let factor = match rng.integer(0, 59) {
            0..5 => rng.uniform(0.0, 0.3),
            5..9 => rng.uniform(1.5, 3.0),
            _ => 1.0,
        };
        epoch.throughput_bps = epoch.throughput_bps.map(|rate| BitRate::from_bps(rate.0 as f64 * factor));
    }
    log
}

#[test]
fn outliers_stalls_ramp_up_and_noise_are_borne() {
    let mut noisy = scenario(READ);
    noisy.noise.throughput = 0.1;
    noisy.network.ramp_up = Duration::from_millis(400);
    if let (Some(read), Some(write)) = (&mut noisy.read, &mut noisy.write) {
        (read.ramp_up, write.ramp_up) = (Duration::from_millis(400), Duration::from_millis(400));
    }
    for seed in 0..10 {
        let log = spoiled(explore(&noisy, "explore:isolate", seed, 300), seed);
        let fit = calibrate(&log).expect("a fit");
        let largest = log.iter().map(|epoch| epoch.throughput_bps.network).max().expect("some");
        assert!(off(largest, 1e9) > 0.3, "the papers' maximum: {largest}");
        for (stage, mbps) in [(Stage::Read, 80.0), (Stage::Network, 160.0), (Stage::Write, 200.0)] {
            let found = fit.stages[stage].expect("present").worker_rate_bps;
            assert!(off(found, mbps * 1e6) < 0.08, "seed {seed}, {stage}: {found}, {fit:?}");
        }
        assert!(off(fit.bandwidth_bps, 1e9) < 0.06, "seed {seed}: {fit:?}");
        assert!((0.05..0.2).contains(&fit.noise), "seed {seed}: {}", fit.noise);
    }
}

/// A path drawn from `seed`: a link of 0.1 to 100 Gbit/s, 1 to 25 workers a stage to fill it, some
/// stages capped, staging for 0.02 to 10 s; one in four has the network alone.
fn random_path(seed: u64, noise: f64) -> Scenario {
    let mut rng = Rng::new(seed);
    let mut drawn = scenario(READ);
    let link = rng.log_uniform(1e8, 1e11);
    let stage = |rng: &mut Rng| StagePath {
        worker_rate: BitRate::from_bps(link / rng.log_uniform(0.8, 25.0)),
        total_rate: (rng.unit() < 0.3).then(|| BitRate::from_bps(link * rng.uniform(0.4, 1.5))),
        ..drawn.network
    };
    let (read, network, write) = (stage(&mut rng), stage(&mut rng), stage(&mut rng));
    let alone = rng.unit() < 0.25;
    drawn.read = (!alone).then_some(read);
    drawn.network = network;
    drawn.write = (!alone).then_some(write);
    drawn.link.rate = BitRate::from_bps(link);
    let size = |rng: &mut Rng| ByteCount((rng.log_uniform(0.02, 10.0) * link / 8.0) as u64);
    drawn.staging.sender = size(&mut rng);
    drawn.staging.receiver = size(&mut rng);
    drawn.noise.throughput = noise;
    drawn
}

/// How far a calibration is from the truth: the worst rate of one worker among the stages that need two
/// or more, the bandwidth, and the goodput of a hundred random set-points in the mean.
fn errors(truth: &Scenario, fit: &Calibration, seed: u64) -> (f64, f64, f64) {
    let path = Path::at(truth, Duration::ZERO);
    let bandwidth = path.oracle().goodput.0 as f64;
    let mut rates: f64 = 0.0;
    for stage in Stage::ALL {
        let (Some(found), Some(is)) = (fit.stages[stage], truth.stages()[stage]) else { continue };
        let rate = is.worker_rate.0 as f64;
        if rate < 0.6 * bandwidth {
            rates = rates.max(off(found.worker_rate_bps, rate));
        }
    }
    let fitted = Path::at(&fit.scenario("fitted"), Duration::ZERO);
    let mut rng = Rng::new(seed);
    let tries = 100;
    let goodput = (0..tries).map(|_| {
        let n: Concurrency = path.bounds().map(|bounds| rng.integer(bounds.min, bounds.max));
        (fitted.goodput(n) / path.goodput(n) - 1.0).abs()
    });
    let goodput = goodput.sum::<f64>() / f64::from(tries);
    (rates, off(fit.bandwidth_bps, bandwidth), goodput)
}

/// The value that `share` of `values` do not exceed.
fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share).round() as usize]
}

/// Explores random paths, and says how far off the middle and the 95th percentile of the fits are.
fn play(rule: &str, noise: f64, epochs: u32, paths: u64) -> [(f64, f64); 3] {
    let mut all: [Vec<f64>; 3] = Default::default();
    for seed in 0..paths {
        let truth = random_path(seed, noise);
        let fit = calibrate(&explore(&truth, rule, seed, epochs)).expect("a fit");
        let (rates, bandwidth, goodput) = errors(&truth, &fit, seed);
        for (values, value) in all.iter_mut().zip([rates, bandwidth, goodput]) {
            values.push(value);
        }
    }
    let found = all.map(|mut values| (quantile(&mut values, 0.5), quantile(&mut values, 0.95)));
    let percent = |(median, high): (f64, f64)| format!("{:.1}/{:.1} %", median * 100.0, high * 100.0);
    let [rates, bandwidth, goodput] = found.map(percent);
    println!(
        "{rule}, noise {noise}, {epochs} epochs: rates {rates}, bandwidth {bandwidth}, goodput {goodput}"
    );
    found
}

#[test]
fn random_paths_are_found_again() {
    for (noise, epochs, rates, bandwidth, goodput) in
        [(0.0, 30, 0.01, 0.01, 0.01), (0.05, 120, 0.05, 0.03, 0.03), (0.1, 240, 0.05, 0.04, 0.04)]
    {
        let found = play("explore:isolate", noise, epochs, 100);
        for ((_, high), most) in found.into_iter().zip([rates, bandwidth, goodput]) {
            assert!(high <= most, "noise {noise}: {found:?}");
        }
    }
}

/// The table in docs/learning.md: `cargo test --release -p tidegate-control --test it -- \
/// --include-ignored --nocapture calibration::how_long`.
#[test]
#[ignore = "prints a table and takes a minute"]
fn how_long_to_explore() {
    for rule in ["explore", "explore:isolate"] {
        for noise in [0.0, 0.05, 0.1] {
            for epochs in [15, 30, 60, 300, 600] {
                let [rates, ..] = play(rule, noise, epochs, 300);
                assert!(rates.0 < 0.2, "{rule}, {noise}, {epochs}");
            }
        }
    }
}

#[test]
fn the_fitted_path_reproduces_the_log() {
    for (text, seed) in [(READ, 1), (READ, 2), (MEMORY, 3)] {
        let mut truth = scenario(text);
        truth.noise.throughput = 0.05;
        let log = explore(&truth, "explore:isolate", seed, 120);
        let mut fitted = calibrate(&log).expect("a fit").scenario("fitted");
        assert!((0.03..0.08).contains(&fitted.noise.throughput), "{}", fitted.noise.throughput);
        // Both without noise, under the log's own set-points.
        fitted.noise.throughput = 0.0;
        truth.noise.throughput = 0.0;
        for (a, b) in replay(&fitted, &log).into_iter().zip(replay(&truth, &log)) {
            for stage in Stage::ALL {
                let (a, b) = (a.throughput[stage].0 as f64, b.throughput[stage].0 as f64);
                assert!((a / b - 1.0).abs() < 0.06, "{stage}: {a} for {b}");
            }
        }
    }
}

/// What `scenario` shows under the set-points of `log`.
fn replay(scenario: &Scenario, log: &[Epoch]) -> Vec<Observation> {
    let options = SimulatorOptions::new(1, Duration::from_secs(1), log.len() as u32);
    let mut simulator = Simulator::new(scenario.clone(), options);
    log.iter().filter_map(|epoch| simulator.step(epoch.concurrency).ok().flatten()).collect()
}

#[test]
fn a_fit_survives_being_written() {
    for seed in 0..50 {
        let fit = calibrate(&explore(&random_path(seed, 0.05), "explore", seed, 40)).expect("a fit");
        let text = fit.to_toml("My path.v2");
        let read = Scenario::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!((read.name.as_str(), &read), ("my-path-v2", &fit.scenario("My path.v2")));
        let network = fit.stages.network.expect("present");
        assert_eq!(read.network.worker_rate, network.worker_rate_bps, "to the bit");
        assert_eq!(read.read.is_some(), fit.stages.read.is_some());
    }
    let fit = calibrate(&explore(&scenario(MEMORY), "explore", 1, 20)).expect("a fit");
    assert_eq!(fit.scenario("…").name, "path");
}

fn text_of(log: &[Epoch]) -> String {
    log.iter().map(|epoch| serde_json::to_string(epoch).expect("plain data") + "\n").collect()
}

fn refused(text: &str) -> String {
    let error = read_log(text).and_then(|log| calibrate(&log)).expect_err(text).to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

#[test]
fn a_log_survives_being_written() {
    let log = explore(&scenario(READ), "explore", 1, 20);
    assert_eq!(read_log(&text_of(&log)), Ok(log.clone()));
    // Logs of earlier versions do not tell the size of the staging.
    let old: String = text_of(&log)
        .lines()
        .map(|line| {
            let (before, rest) = line.split_once("\"staging_capacity_bytes\"").expect("told");
            let (_, after) = rest.split_once("},").expect("an object");
            format!("{before}{after}\n")
        })
        .collect();
    let fit = calibrate(&read_log(&old).expect("epochs")).expect("a fit");
    assert_eq!(fit.optimum, calibrate(&log).expect("a fit").optimum);
}

#[test]
fn a_log_that_tells_nothing_is_refused_with_line_and_field() {
    let log = explore(&scenario(READ), "explore", 1, 20);
    let text = text_of(&log);
    assert!(refused("").starts_with("holds no epochs"));
    assert!(refused(&text[..text.len() - 60]).starts_with("line 20: ends in the middle"));
    assert!(refused(&text_of(&log[..5])).contains("5 epochs"));
    let with = |from: &str, to: &str| refused(&text.replacen(from, to, 1));
    let error = with("\"t_ms\":1000,", "");
    assert!(error.starts_with("line 1: ") && error.contains("`t_ms`"), "{error}");
    let error = with("\"t_ms\":2000,", "\"t_ms\":\"soon\",");
    assert!(error.starts_with("line 2: t_ms: "), "{error}");
    assert!(refused(&text.replace("\"t_ms\":3000", "\n")).starts_with("line 3: "));
    assert!(refused(&format!("\n{text}")).starts_with("line 1: is empty"));
    assert!(refused("nonsense\n").starts_with("line 1: "));

    let change = |change: &dyn Fn(&mut Epoch)| {
        let mut log = log.clone();
        log.iter_mut().for_each(change);
        calibrate(&log).expect_err("refused")
    };
    let error = change(&|epoch| epoch.concurrency.network = 4);
    assert_eq!(error, CalibrationError::Constant { field: "concurrency.network".to_owned(), value: 4 });
    let error = change(&|epoch| epoch.concurrency = PerStage::all(1));
    assert!(error.to_string().starts_with("concurrency.network: is 1 in every epoch"), "{error}");
    let error = change(&|epoch| epoch.throughput_bps = PerStage::all(BitRate::ZERO));
    assert_eq!(error, CalibrationError::Zero { field: "throughput_bps.network".to_owned() });
    let error = change(&|epoch| epoch.throughput_bps.write = BitRate::ZERO);
    assert!(error.to_string().starts_with("throughput_bps.write: is zero"), "{error}");
    let error = change(&|epoch| epoch.concurrency.read = 0).to_string();
    assert!(error.starts_with("line 1: concurrency.read: "), "{error}");
    let error = change(&|epoch| epoch.interval_ms = 0).to_string();
    assert!(error.starts_with("line 1: interval_ms: "), "{error}");
    let error = change(&|epoch| epoch.throughput_bps.read = BitRate(u64::MAX)).to_string();
    assert!(error.starts_with("line 1: throughput_bps.read: "), "{error}");
}
