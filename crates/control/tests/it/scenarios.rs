//! Every scenario in the repository says the truth about itself, and the default rule keeps to the
//! ranges stated in it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::common::seeds;
use tidegate_control::optimizer::{OptimizerOptions, build};
use tidegate_control::simulation::Simulation;
use tidegate_control::{Path, PerStage, Scenario, SimulatorOptions, Stage, simulate};

fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios"))
}

fn scenario(name: &str) -> Scenario {
    let file = directory().join(name).with_extension("toml");
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    Scenario::from_toml(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory())
        .expect("the scenarios lie beside the crates")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert!(!names.is_empty());
    names
}

fn play(scenario: &Scenario, rule: &str, seed: u64, epochs: u32) -> Simulation {
    let mut rule = build(rule, &OptimizerOptions { seed, ..OptimizerOptions::default() }).expect("a rule");
    let options = SimulatorOptions::new(seed, rule.epoch_length(), epochs);
    simulate(scenario, rule.as_mut(), None, options)
}

#[test]
fn each_is_named_after_its_file_and_states_its_optimum() {
    for name in names() {
        let scenario = scenario(&name);
        assert_eq!(scenario.name, name);
        let oracle = Path::at(&scenario, Duration::ZERO).oracle();
        if let Some(goodput) = scenario.expected.goodput {
            assert_eq!(oracle.goodput, goodput, "{name}");
        }
        if let Some(optimum) = scenario.expected.optimum {
            // The papers count a stage that carries 97.5 % as enough; the oracle wants 98.
            for stage in Stage::ALL {
                let gap = oracle.setpoint[stage].abs_diff(optimum[stage]);
                assert!(gap <= 1, "{name}: {:?} is not near {optimum:?}", oracle.setpoint);
            }
        }
    }
}

#[test]
fn the_oracle_is_as_good_as_it_says() {
    for name in names() {
        let mut scenario = scenario(&name);
        scenario.timeline.clear();
        scenario.dataset = None;
        let oracle = Path::at(&scenario, Duration::ZERO).oracle();
        let PerStage { read, network, write } = oracle.setpoint;
        let run = play(&scenario, &format!("fixed:{read},{network},{write}"), 1, 30);
        assert!(run.summary.second_half_share > 0.975, "{name}: {}", run.summary.second_half_share);
    }
}

#[test]
fn the_default_rule_keeps_to_the_stated_ranges() {
    for name in names() {
        let scenario = scenario(&name);
        // Ranges are by the best, which is what the most streams take.
        for seed in 1..=seeds(1, 5) {
            let summary = play(&scenario, "auto:share=full", seed, 60).summary;
            if let Some(least) = scenario.expected.throughput_share_min {
                assert!(summary.throughput_share >= least, "{name}, seed {seed}: {summary:?}");
            }
            if let Some(most) = scenario.expected.epochs_to_95_max {
                let reached = summary.epochs_to_95.is_some_and(|epochs| epochs <= most);
                assert!(reached, "{name}, seed {seed}: {summary:?}");
            }
        }
    }
}

#[test]
fn a_path_of_ten_streams_is_full_from_the_sixth_epoch_on_but_for_a_try_of_fewer() {
    for seed in 1..=seeds(5, 20) {
        let run = play(&scenario("per-stream-cap"), "auto", seed, 60);
        // The first steps are short ones.
        let late = run.delivered.iter().filter(|epoch| epoch.at > Duration::from_secs(6));
        let mut shares: Vec<f64> = late.map(|epoch| epoch.goodput.0 as f64 / epoch.best.0 as f64).collect();
        shares.sort_by(f64::total_cmp);
        assert!(shares[0] >= 0.75 && shares[1] >= 0.9, "seed {seed}: {shares:?}");
        assert!(run.summary.concurrency_mean.network < 20.0, "seed {seed}: {:?}", run.summary);
    }
}

#[test]
fn the_default_rule_settles_near_each_stages_optimum() {
    for name in ["automdt-read", "automdt-network", "automdt-write"] {
        let scenario = scenario(name);
        let optimum = scenario.expected.optimum.expect("stated");
        for seed in 1..=seeds(3, 10) {
            let run = play(&scenario, "auto", seed, 60);
            assert!(run.summary.second_half_share >= 0.9, "{name}, seed {seed}: {:?}", run.summary);
            for stage in Stage::ALL {
                // The median: at times it tries another number for an epoch.
                let mut late: Vec<u16> =
                    run.delivered[40..].iter().map(|epoch| epoch.concurrency[stage]).collect();
                late.sort_unstable();
                let surplus = f64::from(late[late.len() / 2]) / f64::from(optimum[stage]);
                assert!((0.75..=1.7).contains(&surplus), "{name}, seed {seed}, {stage}: {late:?}");
            }
        }
    }
}

#[test]
fn a_busy_host_is_left_with_few_workers() {
    for stage in Stage::ALL {
        let mean = |seed| {
            let run = play(&scenario("cpu-bound"), "auto", seed, 60);
            let workers = run.delivered[20..].iter().map(|epoch| f64::from(epoch.concurrency[stage]));
            workers.sum::<f64>() / 40.0
        };
        let means: Vec<f64> = (1..=seeds(4, 10)).map(mean).collect();
        assert!(means.iter().sum::<f64>() / means.len() as f64 <= 4.0, "{stage}: {means:?}");
        assert!(means.iter().all(|&mean| mean <= 5.0), "{stage}: {means:?}");
    }
}

#[test]
fn a_run_of_two_seconds_is_not_lost_to_searching() {
    // The command line begins with as many workers as the host has processors.
    let mut rule = build("auto", &OptimizerOptions::default()).expect("a rule");
    let options = SimulatorOptions::new(1, rule.epoch_length(), 2);
    let start = Some(PerStage::all(2));
    let summary = simulate(&scenario("cpu-bound"), rule.as_mut(), start, options).summary;
    assert!(summary.throughput_share > 0.8, "{summary:?}");
}

#[test]
fn the_published_gradient_fills_ten_streams_between_epochs_12_and_60() {
    let run = play(&scenario("per-stream-cap"), "gradient", 1, 60);
    let late = &run.delivered[11..];
    let share = |epoch: &tidegate_control::simulator::Delivered| epoch.goodput.0 as f64 / epoch.best.0 as f64;
    let mean = late.iter().map(share).sum::<f64>() / late.len() as f64;
    assert!(mean >= 0.9, "{mean}");
}

#[test]
fn marlin_takes_half_a_minute_with_large_staging_and_fails_with_small() {
    let reached = |name| play(&scenario(name), "marlin", 1, 60).summary.epochs_to_95;
    for name in ["automdt-read", "automdt-network", "automdt-write"] {
        assert!(
            reached(name).is_some_and(|epochs| (9..=15).contains(&epochs)),
            "{name}: {:?}",
            reached(name)
        );
    }
    assert!(play(&scenario("demo"), "marlin", 1, 60).summary.throughput_share < 0.8);
}

#[test]
fn a_fitted_model_fills_a_link_within_a_dozen_epochs_and_holds() {
    for (name, least) in [("per-stream-cap", 0.95), ("fastbiodl-500", 0.93), ("ldm-10g", 0.93)] {
        let mut scenario = scenario(name);
        scenario.dataset = None;
        for seed in 1..=5 {
            let run = play(&scenario, "model_fit", seed, 60);
            assert!(run.summary.second_half_share >= least, "{name}, seed {seed}: {:?}", run.summary);
            assert!(run.summary.epochs_to_95.is_some_and(|epoch| epoch <= 12), "{name}, seed {seed}");
            let late: Vec<_> = run.delivered[30..].iter().map(|epoch| epoch.concurrency).collect();
            assert!(late.iter().all(|n| *n == late[0]), "{name}, seed {seed}: {late:?}");
        }
    }
}

#[test]
fn bayesian_optimisation_fills_a_link_and_keeps_probing() {
    for (name, rule, least) in [
        ("per-stream-cap", "bayesian", 0.8),
        ("per-stream-cap", "bayesian:repaired", 0.85),
        ("fastbiodl-500", "bayesian", 0.75),
        ("fastbiodl-500", "bayesian:repaired", 0.8),
    ] {
        let mut scenario = scenario(name);
        scenario.dataset = None;
        for seed in 1..=3 {
            let summary = play(&scenario, rule, seed, 60).summary;
            assert!(summary.second_half_share >= least, "{name}, {rule}, seed {seed}: {summary:?}");
        }
    }
}

#[test]
fn the_same_seed_replays_the_same_run() {
    let scenario = scenario("noisy");
    for rule in ["auto", "explore", "explore:isolate", "bayesian", "marlin"] {
        assert_eq!(play(&scenario, rule, 7, 40), play(&scenario, rule, 7, 40));
        assert_ne!(play(&scenario, rule, 7, 40), play(&scenario, rule, 8, 40));
    }
}

/// Beside m streams, n get n/(n + m) of the link: one more adds m/(n·(n + m + 1)) of it. The rule stops where that is less
/// than ε, one worker later.
#[test]
fn aimd_on_its_figure_1_adds_a_stream_an_epoch_until_one_more_adds_less_than_epsilon() {
    let mut scenario = scenario("aimd-figure-1");
    scenario.noise.throughput = 0.0;
    for (epsilon, most) in [("5%", 13), ("2%", 23), ("1%", 34)] {
        let streams: Vec<u16> = play(&scenario, &format!("aimd:epsilon={epsilon}"), 1, 60)
            .epochs
            .iter()
            .map(|epoch| epoch.concurrency.network)
            .collect();
        assert!(streams.windows(2).all(|pair| pair[0].abs_diff(pair[1]) <= 1), "{streams:?}");
        let last = streams.last().copied().unwrap_or_default();
        let first = streams.iter().position(|&n| n == last).unwrap_or_default();
        assert!(last.abs_diff(most) <= 1 && first < usize::from(last) + 2, "ε = {epsilon}: {streams:?}");
    }
}
