//! What every rule owes: it stays within the bounds and survives whatever it is shown.

use crate::common::seeds;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_control::optimizer::{NAMES, Optimizer, OptimizerOptions, build};
use tidegate_control::{
    BitRate, Bounds, ByteCount, Concurrency, Ends, Host, Observation, PerStage, Remaining, Stage,
};

/// Rules that fit a model each epoch: they get fewer histories, or these tests would take minutes.
const SLOW: [&str; 4] =
    ["bayesian", "bayesian:repaired", "independent:bayesian", "independent:bayesian:repaired"];

/// Names of the other rules, with the liftings and variants.
fn names() -> impl Iterator<Item = &'static str> {
    let more = [
        "fixed:13,7,5",
        "explore:isolate",
        "aimd:hold",
        "gradient:repaired",
        "marlin:repaired",
        "coupled:falcon",
        "independent:aimd",
        "independent:falcon",
        "independent:gradient",
        "fts3:aggressive,interval=5s",
        "independent:fts3:interval=1s",
    ];
    NAMES.into_iter().filter(|name| !SLOW.contains(name)).chain(more)
}

fn rate() -> impl Strategy<Value = BitRate> + Clone {
    prop_oneof![
        2 => Just(BitRate::ZERO),
        1 => Just(BitRate(u64::MAX)),
        1 => Just(BitRate(1)),
        6 => (0..100_000_000_000u64).prop_map(BitRate),
    ]
}

fn per_stage<T: std::fmt::Debug>(
    value: impl Strategy<Value = T> + Clone,
) -> impl Strategy<Value = PerStage<T>> {
    (value.clone(), value.clone(), value).prop_map(|(read, network, write)| PerStage { read, network, write })
}

fn bounds() -> impl Strategy<Value = Bounds> + Clone {
    prop_oneof![
        (1..100u16, 1..100u16).prop_map(|(min, max)| Bounds::new(min, max)),
        (1..10u16).prop_map(Bounds::fixed),
        Just(Bounds::new(1, u16::MAX)),
        Just(Bounds::fixed(u16::MAX)),
    ]
}

fn bytes() -> impl Strategy<Value = ByteCount> + Clone {
    prop_oneof![Just(ByteCount(0)), Just(ByteCount(u64::MAX)), (0..1u64 << 32).prop_map(ByteCount)]
}

prop_compose! {
    fn observation()(
        throughput in per_stage(rate()),
        ran in prop::option::weighted(0.3, per_stage(prop_oneof![Just(0u16), Just(u16::MAX), 1..200u16])),
        free in (bytes(), bytes()),
        size in (bytes(), bytes()),
        loss in prop::option::of(prop_oneof![Just(0.0), Just(1.0), 0.0..1.0]),
        left in prop::option::of((bytes(), any::<u64>())),
        at in (0..900u64).prop_map(Duration::from_secs),
        interval in prop_oneof![Just(Duration::ZERO), (1..5000u64).prop_map(Duration::from_millis)],
    ) -> (Option<Concurrency>, Observation) {
        let concurrency = PerStage::all(1);
        (ran, Observation {
            at,
            interval,
            concurrency,
            throughput,
            standard_error: PerStage::all(0.0),
            waited: PerStage::all(None),
            draining: PerStage::all(0.0),
            staging_free: Ends { sender: free.0, receiver: free.1 },
            staging_capacity: Ends { sender: size.0, receiver: size.1 },
            loss,
            rtt: None,
            streams: None,
            queued: 0.0,
            held: 0.0,
            model_based: 0.0,
            tries: false,
            ramp: Vec::new(),
            cpu: Ends::default(),
            remaining: left.map(|(bytes, files)| Remaining { bytes, files }),
        })
    }
}

type History = Vec<(PerStage<Bounds>, (Option<Concurrency>, Observation), bool)>;

/// Shows `epochs` to the rule called `name`, with bounds that change.
fn stays_within_the_bounds(name: &str, seed: u64, epochs: &History) -> Result<(), TestCaseError> {
    let mut rule = build(name, &OptimizerOptions { seed, ..OptimizerOptions::default() })?;
    let mut limits = epochs[0].0;
    let mut setpoint = rule.start(limits, &Host::default()).setpoint;
    prop_assert_eq!(setpoint, limits.clamp(setpoint), "{} starts outside", name);
    for (next, (ran, seen), change) in epochs {
        if *change {
            limits = *next;
        }
        let seen = Observation { concurrency: ran.unwrap_or(setpoint), ..seen.clone() };
        let next = rule.propose(&seen, limits);
        setpoint = next.setpoint;
        prop_assert_eq!(setpoint, limits.clamp(setpoint), "{} left the bounds", name);
        prop_assert!(next.utility.is_none_or(f64::is_finite), "{} scored no number", name);
    }
    Ok(())
}

fn answers_alike(
    name: &str,
    seed: u64,
    epochs: &[(Option<Concurrency>, Observation)],
) -> Result<(), TestCaseError> {
    let limits = PerStage::all(Bounds::new(1, 30));
    let run = || -> Result<Vec<Concurrency>, TestCaseError> {
        let mut rule = build(name, &OptimizerOptions { seed, ..OptimizerOptions::default() })?;
        Ok(epochs.iter().map(|(_, seen)| rule.propose(seen, limits).setpoint).collect())
    };
    prop_assert_eq!(run()?, run()?, "{}", name);
    Ok(())
}

type Pair = ((Option<Concurrency>, Observation), BitRate, (ByteCount, ByteCount));

fn ignores_fixed_stages(name: &str, epochs: &[Pair]) -> Result<(), TestCaseError> {
    let limits = PerStage::new(Bounds::fixed(1), Bounds::new(1, 30), Bounds::fixed(1));
    let mut one = build(name, &OptimizerOptions::default())?;
    let mut two = build(name, &OptimizerOptions::default())?;
    let start = |rule: &mut dyn Optimizer| rule.start(limits, &Host::default()).setpoint;
    let (mut a, mut b) = (start(&mut *one), start(&mut *two));
    for ((_, seen), other, staging) in epochs {
        let seen = Observation { concurrency: a, ..seen.clone() };
        let mut changed = Observation { concurrency: b, ..seen.clone() };
        changed.throughput[Stage::Read] = *other;
        changed.throughput[Stage::Write] = *other;
        changed.staging_free.sender = staging.0;
        // Marlin's read stage alone looks at staging; the network's is the receiver's.
        changed.staging_capacity.sender = staging.1;
        a = one.propose(&seen, limits).setpoint;
        b = two.propose(&changed, limits).setpoint;
        prop_assert_eq!(a, b, "{}", name);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(seeds(60, 200) as u32))]

    #[test]
    fn every_rule_stays_within_the_bounds(
        seed: u64,
        epochs in prop::collection::vec((per_stage(bounds()), observation(), any::<bool>()), 1..60),
    ) {
        for name in names() {
            stays_within_the_bounds(name, seed, &epochs)?;
        }
    }

    #[test]
    fn the_same_history_gives_the_same_answer(
        seed: u64,
        epochs in prop::collection::vec(observation(), 1..30),
    ) {
        for name in names() {
            answers_alike(name, seed, &epochs)?;
        }
    }

    #[test]
    fn a_fixed_stage_has_no_influence(
        epochs in prop::collection::vec((observation(), rate(), (bytes(), bytes())), 1..30),
    ) {
        // That policy looks at fixed stages too: one that is there may hold the path back.
        for name in names().filter(|&name| name != "universal") {
            ignores_fixed_stages(name, &epochs)?;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn rules_that_fit_a_model_owe_the_same(
        seed: u64,
        bounded in prop::collection::vec((per_stage(bounds()), observation(), any::<bool>()), 1..60),
        epochs in prop::collection::vec((observation(), rate(), (bytes(), bytes())), 1..30),
    ) {
        for name in SLOW {
            stays_within_the_bounds(name, seed, &bounded)?;
            let seen: Vec<_> = epochs.iter().map(|(seen, ..)| seen.clone()).collect();
            answers_alike(name, seed, &seen)?;
            ignores_fixed_stages(name, &epochs)?;
        }
    }
}
