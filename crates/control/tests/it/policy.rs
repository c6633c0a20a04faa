//! Policies as files, and policies in charge: whatever a file holds or a network answers, reading
//! ends in one line and driving stays within the bounds.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_control::optimizer::Optimizer;
use tidegate_control::optimizer::policy::{ActionChoice, Learned};
use tidegate_control::policy::{Actions, Block, Network, Policy, Recipe, Scales, Shape};
use tidegate_control::{
    BitRate, Bounds, ByteCount, Ends, Host, Observation, PerStage, Rng, Scenario, SimulatorOptions, simulate,
};

fn scales(recipe: Recipe) -> Scales {
    let bounds = Bounds::new(1, 30);
    let bounds = match recipe {
        Recipe::Ldm => PerStage::new(Bounds::fixed(1), bounds, Bounds::fixed(1)),
        _ => PerStage::all(bounds),
    };
    Scales { rate_bps: BitRate::mbps(1000), bounds, start: None }
}

/// A policy of random weights.
fn policy(recipe: Recipe, seed: u64) -> Policy {
    let scales = scales(recipe);
    let features = recipe.features(&scales);
    let mut rng = Rng::new(seed);
    let (inputs, heads) = (features.inputs(), features.heads());
    let mut network = |block, outputs| {
        let shape = Shape { inputs, width: 16, blocks: 2, block, outputs };
        let draw = (0..shape.parameters()).map(|_| rng.normal(0.0, 0.5) as f32).collect();
        Network::new(shape, draw).expect("the count fits")
    };
    Policy {
        recipe,
        scales,
        actor: network(Block::Normed, heads),
        critic: Some(network(Block::Residual, 1)),
        log_sigma: vec![-1.0; if features.actions() == Actions::Gaussian { heads } else { 0 }],
        facts: BTreeMap::from([("seed".to_owned(), seed.to_string())]),
    }
}

fn seen(mbps: u64, n: u16) -> Observation {
    Observation {
        at: Duration::from_secs(1),
        interval: Duration::from_secs(1),
        concurrency: PerStage::all(n),
        throughput: PerStage::all(BitRate::mbps(mbps)),
        standard_error: PerStage::all(0.0),
        waited: PerStage::all(None),
        staging_free: Ends { sender: ByteCount::mib(5), receiver: ByteCount::mib(9) },
        staging_capacity: Ends { sender: ByteCount::mib(10), receiver: ByteCount::mib(10) },
        ..Observation::default()
    }
}

#[test]
fn a_file_gives_back_what_was_written() {
    for recipe in Recipe::ALL {
        let policy = policy(recipe, 1);
        let bytes = policy.to_bytes();
        assert!(Policy::from_bytes(&bytes).is_ok_and(|read| read == policy), "{recipe}");
        assert_eq!(bytes, policy.to_bytes(), "the same policy gives the same bytes");
        let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight"));
        assert_eq!((length % 8, bytes[8]), (0, b'{'));
    }
}

/// The file with `from` in its header replaced by `to`, which must be as long.
fn with_header(from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let bytes = policy(Recipe::Fast, 1).to_bytes();
    let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).expect("in the header");
    let mut changed = bytes;
    changed[at..at + to.len()].copy_from_slice(to.as_bytes());
    changed
}

#[test]
fn a_bad_file_is_refused_in_one_line_that_names_the_place() {
    let good = policy(Recipe::Fast, 1).to_bytes();
    let with_value = |value: f32| {
        let mut bytes = good.clone();
        let end = bytes.len();
        bytes[end - 4..].copy_from_slice(&value.to_le_bytes());
        bytes
    };
    let one_stage = policy(Recipe::Ldm, 1).actor;
    let other_shape = Policy { actor: one_stage, ..policy(Recipe::Fast, 1) }.to_bytes();
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (Vec::new(), "no header"),
        (b"GIF89a..........".to_vec(), "header is too long"),
        (good[..100].to_vec(), "ends within its header"),
        (good[..good.len() - 1].to_vec(), "log_sigma"),
        (good[..good.len() - 8_000].to_vec(), "more values than the file holds"),
        (with_header("{\"__metadata__\"", "[\"__metadata__\""), "JSON"),
        (with_header("\"version\":\"1\"", "\"version\":\"2\""), "field 'version': is '2'"),
        (with_header("tidegate-policy", "tidegate-polity"), "field 'format'"),
        (with_header("\"recipe\":\"fast\"", "\"recipe\":\"slow\""), "field 'recipe': no recipe 'slow'"),
        (with_header("\"recipe\":\"fast\"", "\"retipe\":\"fast\""), "field 'recipe': is missing"),
        (
            with_header("\"shape\":[16,8]", "\"shape\":[8,16]"),
            "tensor 'actor.input.weight': has shape [8, 16]",
        ),
        (with_header("\"F32\"", "\"F16\""), "not of type F32"),
        (with_header("\"actor.head.bias\"", "\"actor.head.byas\""), "tensor 'actor.head.bias': is missing"),
        (with_header("\\\"inputs\\\":8", "\\\"inputs\\\":9"), "expected [16, 9]"),
        (other_shape, "field 'actor': recipe fast needs 8 inputs and 3 outputs"),
        (with_header("\\\"width\\\":16", "\\\"width\\\":99"), "field 'actor'"),
        (with_header("\\\"width\\\":16", "\\\"width\\\":-6"), "field 'actor'"),
        (with_header("1000000000", "0000000000"), "field 'scales'"),
        (with_value(f32::NAN), "tensor 'log_sigma': has a value that is NaN"),
        (with_value(f32::INFINITY), "tensor 'log_sigma': has a value that is NaN or infinite"),
    ];
    for (bytes, wanted) in cases {
        let error = Policy::from_bytes(&bytes).expect_err(wanted).to_string();
        assert!(error.contains(wanted) && error.lines().count() == 1, "{error} instead of {wanted}");
    }
}

#[test]
fn damage_anywhere_never_panics() {
    let seed = 11;
    let good = policy(Recipe::Automdt, 2).to_bytes();
    let mut rng = Rng::new(seed);
    for _ in 0..400 {
        let mut bytes = good.clone();
        for _ in 0..4 {
            let at = (rng.next_u64() % 1500) as usize;
            bytes[at] = rng.next_u64() as u8;
        }
        bytes.truncate((rng.next_u64() % (2 * good.len() as u64)) as usize);
        if let Ok(policy) = Policy::from_bytes(&bytes) {
            let values = policy.actor.parameters().iter().chain(&policy.log_sigma);
            assert!(values.into_iter().all(|value| value.is_finite()), "seed {seed}");
        }
    }
}

#[test]
fn a_policy_stays_within_any_bounds() {
    let seed = 5;
    let mut rng = Rng::new(seed);
    for recipe in Recipe::ALL {
        for (choice, policy_seed) in [(ActionChoice::Mean, 1), (ActionChoice::Sampled, 2)] {
            let mut rule = Learned::new(policy(recipe, policy_seed), choice, 3);
            for _ in 0..200 {
                let low = rng.integer(1, 20);
                let bounds = PerStage::all(Bounds::new(low, rng.integer(low, 60)));
                let start = rule.start(bounds, &Host::default()).setpoint;
                assert_eq!(bounds.clamp(start), start);
                let n = rule.propose(&seen(rng.next_u64() % 5_000, rng.integer(0, 90)), bounds).setpoint;
                assert_eq!(bounds.clamp(n), n, "seed {seed}, {recipe}: {n:?}");
            }
            assert!(!rule.has_fallen_back());
        }
    }
}

#[test]
fn nonsense_hands_over_to_a_safe_rule_and_says_so_once() {
    let mut policy = policy(Recipe::Fast, 1);
    let shape = policy.actor.shape();
    // Each weight is a number, and their sum is none.
    policy.actor = Network::new(shape, vec![3e38; shape.parameters()]).expect("the count fits");
    let mut rule = Learned::new(policy, ActionChoice::Mean, 1);
    let text = include_str!("../../../../scenarios/automdt-read.toml");
    let scenario = Scenario::from_toml(text).expect("a scenario");
    let run = simulate(&scenario, &mut rule, None, SimulatorOptions::new(1, Duration::from_secs(1), 60));
    assert!(rule.has_fallen_back());
    let notices: Vec<&String> = run.epochs.iter().filter_map(|epoch| epoch.notice.as_ref()).collect();
    assert!(notices.len() == 1 && notices[0].contains("`auto`"), "{notices:?}");
    assert!(run.summary.second_half_share > 0.9, "{:?}", run.summary);
}
