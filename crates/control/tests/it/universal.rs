//! The policy for every path: what it is shown has no unit, and what is shipped drives well.

use std::time::Duration;

use tidegate_control::optimizer::{OptimizerOptions, build};
use tidegate_control::policy::{Policy, Recipe, Scales};
use tidegate_control::random_path::{EPOCHS, training};
use tidegate_control::{
    BitRate, Bounds, ByteCount, Concurrency, Ends, Observation, PerStage, SimulatorOptions, simulate,
};

const SHIPPED: &[u8] = include_bytes!("../../policies/universal.safetensors");

fn scales() -> Scales {
    Scales { rate_bps: BitRate::mbps(1), bounds: PerStage::all(Bounds::new(1, 9)), start: None }
}

fn seen(second: u64, n: Concurrency, mbps: [u64; 3], scale: u64) -> Observation {
    let mib = |mib: u64| ByteCount::mib(mib * scale);
    Observation {
        at: Duration::from_secs(second),
        interval: Duration::from_millis(800),
        concurrency: n,
        throughput: PerStage::new(mbps[0], mbps[1], mbps[2]).map(|mbps| BitRate::mbps(mbps * scale)),
        standard_error: PerStage::all(0.0),
        waited: PerStage::all(None),
        draining: PerStage::all(0.0),
        staging_free: Ends { sender: mib(900), receiver: mib(100 * second) },
        staging_capacity: Ends { sender: mib(1000), receiver: mib(1000) },
        loss: Some(0.001),
        rtt: Some(Duration::from_millis(20)),
        streams: None,
        queued: 0.0,
        held: 0.0,
        model_based: 0.0,
        tries: false,
        ramp: Vec::new(),
        cpu: Ends::default(),
        remaining: None,
    }
}

#[test]
fn what_is_shown_is_free_of_units() {
    let bounds = PerStage::all(Bounds::new(1, 64));
    let [mut slow, mut fast] = [(); 2].map(|()| Recipe::Universal.features(&scales()));
    let epochs = [([1, 1, 1], [200, 100, 150]), ([4, 8, 2], [600, 800, 300]), ([4, 8, 4], [600, 650, 600])];
    for (second, (n, mbps)) in (1..).zip(epochs) {
        let n = PerStage::new(n[0], n[1], n[2]);
        let mut states = [vec![0.0; slow.inputs()], vec![0.0; slow.inputs()]];
        slow.encode(&seen(second, n, mbps, 1), bounds, &mut states[0]);
        fast.encode(&seen(second, n, mbps, 1000), bounds, &mut states[1]);
        let far = states[0].iter().zip(&states[1]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(far < 1e-5, "second {second}: {far}");
        assert!(states[0].iter().any(|&value| value != 0.0));
    }
    assert_eq!(slow.decode(&[0.3, -0.2, 1.0], bounds), fast.decode(&[0.3, -0.2, 1.0], bounds));
}

#[test]
fn no_offset_keeps_to_what_is_believed() {
    // One worker moves 100; 8 of them fill the link: that is what it needs, however many there are.
    let bounds = PerStage::new(Bounds::fixed(1), Bounds::new(1, 64), Bounds::fixed(1));
    let mut features = Recipe::Universal.features(&scales());
    let mut state = vec![0.0; features.inputs()];
    for (second, n, mbps) in [(1, 1, 100), (2, 4, 400), (3, 20, 800), (4, 12, 800), (5, 8, 800), (6, 8, 800)]
    {
        let n = PerStage::new(1, n, 1);
        features.encode(&seen(second, n, [mbps; 3], 1), bounds, &mut state);
    }
    let anchor = features.anchor().expect("it moved");
    assert_eq!((anchor.read, anchor.write), (1.0, 1.0));
    assert!((7.0..=10.0).contains(&anchor.network), "{anchor:?}");
    assert_eq!(f64::from(features.decode(&[0.0; 3], bounds).network), anchor.network);
    assert_eq!(f64::from(features.decode(&[0.0, 1.0, 0.0], bounds).network), 2.0 * anchor.network);
}

#[test]
fn a_step_upwards_is_measured_shortly() {
    let bounds = PerStage::all(Bounds::new(1, 64));
    let mut features = Recipe::Universal.features(&scales());
    let mut state = vec![0.0; features.inputs()];
    features.encode(&seen(1, PerStage::all(4), [400; 3], 1), bounds, &mut state);
    assert!(features.short_epochs(PerStage::new(4, 8, 4)) && !features.short_epochs(PerStage::new(4, 4, 2)));
}

#[test]
fn a_fixed_stage_shows_nothing_and_a_stall_changes_nothing() {
    let bounds = PerStage::new(Bounds::fixed(1), Bounds::new(1, 64), Bounds::fixed(3));
    let mut features = Recipe::Universal.features(&scales());
    let mut state = vec![1.0; features.inputs()];
    features.encode(&seen(1, PerStage::new(1, 6, 3), [300; 3], 1), bounds, &mut state);
    assert!(state[..state.len() / 4].iter().all(|&value| value == 0.0), "nothing of the fixed read stage");
    assert!(state[state.len() / 3..].iter().any(|&value| value != 0.0), "but of the network");
    features.encode(&seen(2, PerStage::new(1, 6, 3), [0; 3], 1), bounds, &mut state);
    assert!(state.iter().all(|&value| value == 0.0) && features.anchor().is_none());
    assert_eq!(features.decode(&[3.0; 3], bounds), PerStage::new(1, 6, 3));
}

#[test]
fn the_shipped_policy_is_sound_and_small() {
    assert!(SHIPPED.len() <= 300 << 10, "{} bytes", SHIPPED.len());
    let policy = Policy::from_bytes(SHIPPED).expect("the shipped file");
    assert_eq!(policy.recipe, Recipe::Universal);
    assert!(policy.facts["training.command"].contains("train --universal"));
}

/// Mean goodput by the oracle's over paths, and over the second half of each.
fn play(rule: &str, extras: bool) -> (f64, f64) {
    const PATHS: u64 = 40;
    let (mut whole, mut second) = (0.0, 0.0);
    for seed in 0..PATHS {
        let scenario = if extras { training(seed) } else { training(seed).ideal() };
        let mut rule = build(rule, &OptimizerOptions::default()).expect("a rule");
        let options = SimulatorOptions::new(seed, rule.epoch_length(), EPOCHS);
        let played = simulate(&scenario, rule.as_mut(), None, options);
        let bounds = scenario.bounds();
        assert!(played.epochs.iter().all(|epoch| bounds.clamp(epoch.setpoint) == epoch.setpoint), "{seed}");
        whole += played.summary.throughput_share / PATHS as f64;
        second += played.summary.second_half_share / PATHS as f64;
    }
    (whole, second)
}

#[test]
fn the_shipped_policy_drives_paths_it_never_saw() {
    let (whole, second) = play("universal", false);
    println!("ideal: mean {whole:.3}, second half {second:.3}");
    assert!(whole > 0.96 && second > 0.98, "{whole} {second}");
    let (whole, _) = play("universal", true);
    println!("with extras: mean {whole:.3}");
    assert!(whole > 0.93, "{whole}");
}
