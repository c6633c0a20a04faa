//! Policies in charge of transfers over the loopback: what they decide, and what one that goes on learning leaves behind.

use std::process::Stdio;
use std::time::Duration;

use crate::common::{World, eventually, signal, wait};
use rustix::process::Signal;
use serde_json::Value;
use tidegate_contract::epoch_line;
use tidegate_control::observation::Streams;
use tidegate_control::optimizer::{Optimizer, OptimizerOptions, build};
use tidegate_control::policy::Policy;
use tidegate_control::{Bounds, Epoch, Host, Observation, PerStage};

const SCENARIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
const SEED: u64 = 5;
const MAX_WORKERS: u16 = 12;

/// A policy of two episodes: it knows next to nothing, and drives all the same.
fn train(world: &World, recipe: &str, scenario: &str, output: &str) -> Policy {
    let scenario = format!("{SCENARIOS}/{scenario}.toml");
    let sizes = if recipe == "fast" { &[][..] } else { &["--set", "width=16", "--set", "blocks=1"] };
    let train = ["train", "--scenario", &scenario, "--recipe", recipe, "--episodes", "2", "-o", output];
    let (code, report) = world.json(&[&train[..], sizes].concat());
    assert_eq!(code, 1, "two episodes are not enough: {report}");
    Policy::from_bytes(&world.read(output)).expect("a policy")
}

/// Copies `data` to `to` in a few seconds of short epochs; the summary, and the epochs.
fn copy(world: &World, to: &str, more: &[&str]) -> (Value, Vec<Epoch>) {
    let (seed, most) = (SEED.to_string(), MAX_WORKERS.to_string());
    let fixed = [
        "copy",
        "data/",
        to,
        "--no-memory",
        "--epoch=100ms",
        "--limit-link=24Mbit/s",
        "--epochs=epochs",
        "--seed",
        &seed,
        "--max-workers",
        &most,
    ];
    let (code, summary) = world.json(&[&fixed[..], more].concat());
    assert_eq!(
        (code, &summary["status"], &summary["verified"]),
        (0, &"complete".into(), &true.into()),
        "{summary}"
    );
    let text = String::from_utf8(world.read("epochs")).expect("text");
    let epochs = text.lines().map(|line| epoch_line::read(line.as_bytes()).expect("an epoch"));
    (summary, epochs.collect())
}

fn world() -> World {
    let world = World::new();
    for i in 0..4 {
        world.fill(format!("data/{i}"), (2 << 20) - 1000 * i as usize, i);
    }
    world
}

/// What was seen in an epoch, as far as its line tells.
fn seen(epoch: &Epoch) -> Observation {
    Observation {
        at: Duration::from_millis(epoch.t_ms),
        interval: Duration::from_millis(epoch.interval_ms),
        concurrency: epoch.concurrency,
        throughput: epoch.throughput_bps,
        standard_error: epoch.standard_error,
        waited: epoch.waited,
        draining: epoch.draining,
        staging_free: epoch.staging_free_bytes,
        staging_capacity: epoch.staging_capacity_bytes,
        loss: epoch.loss,
        rtt: epoch.rtt_us.map(Duration::from_micros),
        streams: epoch.streams.map(|streams| Streams {
            count: streams.count,
            min_rtt: streams.min_rtt_us.map(Duration::from_micros),
            delivery_rate: streams.delivery_rate_bps,
            window: streams.window_bytes,
            busy: streams.busy,
            receiver_limited: streams.receiver_limited,
            app_limited: streams.app_limited,
            spread: streams.spread,
        }),
        queued: 0.0,
        held: 0.0,
        model_based: 0.0,
        tries: false,
        ramp: Vec::new(),
        cpu: epoch.cpu,
        remaining: None,
    }
}

/// That `rule`, shown what the epochs show, decides what they say was decided, or in each stage up to `off` from it.
fn decided_by(mut rule: Box<dyn Optimizer>, epochs: &[Epoch], off: u16) {
    let bounds = PerStage::all(Bounds::new(1, MAX_WORKERS));
    let start = bounds.clamp(rule.start(bounds, &Host::default()).setpoint);
    assert!(epochs.len() >= 5 && epochs[0].concurrency == start, "seed {SEED}: {start:?}, then {epochs:?}");
    for (i, epoch) in epochs.iter().enumerate() {
        let next = bounds.clamp(rule.propose(&seen(epoch), bounds).setpoint);
        let apart = next.into_array().into_iter().zip(epoch.setpoint.into_array());
        let apart = apart.map(|(one, other)| one.abs_diff(other)).max();
        assert!(apart <= Some(off), "seed {SEED}, epoch {i}: {next:?} and not {epoch:?}");
        assert!(epoch.notice.is_none(), "nothing took over: {epoch:?}");
    }
    for pair in epochs.windows(2) {
        assert_eq!(pair[1].concurrency, pair[0].setpoint, "what was decided is what ran");
    }
}

#[test]
fn learned_policies_decide_a_live_transfer_and_it_verifies() {
    let world = world();
    let server = world.endpoint("served", &[]);
    for (recipe, scenario) in [("ldm", "ldm-1g"), ("automdt", "automdt-read"), ("universal", "")] {
        let policy = match recipe {
            "universal" => None,
            _ => Some(train(&world, recipe, scenario, recipe)),
        };
        let to = server.at(&format!("{recipe}/"));
        let more = ["--optimizer", recipe, "--policy", recipe];
        let (summary, epochs) = copy(&world, &to, if policy.is_some() { &more } else { &more[..2] });
        assert_eq!(summary["optimizer"], recipe);
        for i in 0..4 {
            let there = world.read(format!("served/{recipe}/{i}"));
            assert!(there == world.read(format!("data/{i}")), "{recipe}: file {i} differs");
        }
        // Lines round what the rule for every path is shown.
        let off = u16::from(policy.is_none());
        let options = OptimizerOptions { seed: SEED, policy, ..OptimizerOptions::default() };
        decided_by(build(recipe, &options).expect("a rule"), &epochs, off);
    }
}

#[test]
fn what_a_transfer_taught_is_saved_and_gone_on_from() {
    let world = world();
    let server = world.endpoint("served", &[]);
    let first = train(&world, "fast", "ldm-1g", "first");
    let online = |from: &str, to: &str, save: &str| {
        let (_, epochs) =
            copy(&world, to, &["--optimizer=policy:online", "--policy", from, "--save-policy", save]);
        (Policy::from_bytes(&world.read(save)).expect("a policy"), epochs.len() as u64)
    };
    let fact = |policy: &Policy, name: &str| {
        policy.facts.get(&format!("online.{name}")).cloned().unwrap_or_default()
    };
    let count = |policy: &Policy, name: &str| fact(policy, name).parse::<u64>().unwrap_or(0);
    let (saved, epochs) = online("first", &server.at("one/"), "saved");
    // Ten epochs and one more are a lesson, however long a busy machine makes them.
    assert!(epochs >= 11 && count(&saved, "updates") == (epochs - 1) / 10, "{epochs}: {:?}", saved.facts);
    assert_eq!((count(&saved, "runs"), count(&saved, "epochs")), (1, epochs));
    assert_eq!((&fact(&saved, "begun_with")[..], &fact(&saved, "seed")[..]), ("first", "5"));
    assert!(fact(&saved, "program").starts_with("tidegate "), "{:?}", saved.facts);
    assert_eq!(saved.facts.get("training.scenario").map(String::as_str), Some("ldm-1g"), "where it began");
    assert_ne!(saved.actor, first.actor, "it has learned");
    let far = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    // 8 small steps a lesson.
    let steps = count(&saved, "updates") as f32 * 8.0 * 1e-4;
    assert!(far(saved.actor.parameters(), first.actor.parameters()) <= steps, "little by little");
    assert!(far(&saved.log_sigma, &first.log_sigma) <= steps + 1e-6, "{:?}", saved.log_sigma);
    assert_eq!((saved.recipe, saved.scales), (first.recipe, first.scales));
    // Over itself, and both runs count.
    let (again, more) = online("saved", &server.at("two/"), "saved");
    assert_eq!((count(&again, "runs"), count(&again, "epochs")), (2, epochs + more));
    assert!(count(&again, "updates") > count(&saved, "updates"), "{:?}", again.facts);
    // It drives, and is trained on.
    let (_, epochs) = copy(&world, &server.at("three/"), &["--optimizer=policy", "--policy=saved"]);
    let options = OptimizerOptions { seed: SEED, policy: Some(again), ..OptimizerOptions::default() };
    decided_by(build("policy", &options).expect("a rule"), &epochs, 0);
    let scenario = format!("{SCENARIOS}/ldm-1g.toml");
    let train = ["train", "--scenario", &scenario, "--policy", "saved", "--episodes", "2", "-o", "trained"];
    assert_eq!(world.json(&train).0, 1, "two episodes are not enough");
    assert!(Policy::from_bytes(&world.read("trained")).is_ok());
    let left = world.tree("").into_iter().filter(|name| name.ends_with(".new")).count();
    assert_eq!(left, 0, "nothing half-written stays");
}

#[test]
fn what_was_learned_until_an_interrupt_is_kept_and_too_little_is_said_to_be() {
    let world = world();
    let server = world.endpoint("served", &[]);
    let first = train(&world, "fast", "ldm-1g", "first");
    let online = ["--optimizer=policy:online", "--policy=first"];
    let mut command = world.command();
    command.args([
        "copy",
        "data/",
        &server.at("in/"),
        "--limit-link=1Mbit/s",
        "--epoch=100ms",
        "--epochs=epochs",
    ]);
    command.args(online).arg("--save-policy=saved").stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("started");
    let epochs = || std::fs::read_to_string(world.path("epochs")).map_or(0, |text| text.lines().count());
    eventually(|| epochs() > 12);
    assert!(!world.path("saved").exists(), "when the run ends, and no sooner");
    signal(child.id(), Signal::INT);
    let ran = wait(child);
    assert_eq!(ran.code, 130, "{ran:?}");
    let saved = Policy::from_bytes(&world.read("saved")).expect("a policy");
    assert!(saved.actor != first.actor && saved.facts["online.updates"] != "0", "{:?}", saved.facts);
    // A download of a moment.
    let url = format!("file://{}", world.text("data/0"));
    let got = ["get", &url, "--no-verify", "-o", "got", "--save-policy=short"];
    let ran = world.run(&[&got[..], &online].concat());
    assert!(ran.code == 0 && ran.err.contains("short is as it was before"), "{ran:?}");
    let short = Policy::from_bytes(&world.read("short")).expect("a policy");
    assert_eq!(
        (short.actor, short.log_sigma, &short.facts["online.updates"][..]),
        (first.actor, first.log_sigma, "0")
    );
}

#[test]
fn a_policy_that_cannot_be_saved_is_refused_before_anything_moves() {
    let world = world();
    train(&world, "fast", "ldm-1g", "first");
    let online = ["copy", "data/", "there/", "--optimizer=policy:online", "--policy=first"];
    for (arguments, wanted) in [
        ([&online[..], &["--save-policy=no/where"]].concat(), "cannot write no/where"),
        ([&online[..], &["--save-policy=data"]].concat(), "cannot write data"),
        (
            vec!["copy", "data/", "there/", "--save-policy=saved"],
            "--save-policy goes with --optimizer policy:online",
        ),
        (
            vec!["put", "data/", "s3://b/", "--save-policy=saved"],
            "--save-policy goes with --optimizer policy:online",
        ),
        (vec!["get", "http://127.0.0.1:9/x", "--save-policy=saved"], "--save-policy goes with"),
    ] {
        let ran = world.run(&arguments);
        let told = ran.err.lines().count() == 1 && ran.err.contains(wanted);
        assert!(ran.code == 2 && told && !world.path("there/0").exists(), "{arguments:?}: {ran:?}");
    }
}
