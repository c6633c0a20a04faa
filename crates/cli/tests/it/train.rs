//! Learning a policy and driving with it, from the command line.

use std::fs;
use std::process::Stdio;

use crate::common::{World, eventually, signal, wait};
use rustix::process::Signal;
use tidegate_control::policy::Policy;

const SCENARIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");

#[test]
fn a_policy_is_learned_written_and_driven_with() {
    let world = World::new();
    let scenario = format!("{SCENARIOS}/ldm-1g.toml");
    let train = |output: &str, seed: &str| {
        let arguments = ["train", "--scenario", &scenario, "-o", output, "--seed", seed, "--episodes", "32"];
        let (code, report) = world.json(&arguments);
        assert_eq!((code, &report["status"]), (1, &"exhausted".into()), "too few episodes: {report}");
        assert_eq!((&report["episodes"], &report["recipe"]), (&32.into(), &"fast".into()));
        assert!(report["utility_share"].as_f64().is_some_and(|share| share > 0.0), "{report}");
        // What it moves is said beside what auto moves, there and in the file.
        let rate = |name: &str| report[name].as_f64().expect("a rate");
        let below = rate("throughput_bps") < 0.98 * rate("auto_throughput_bps");
        assert!(rate("throughput_bps") > 0.0 && report["below_auto"] == below, "{report}");
        let file = fs::read(world.path(output)).expect("the policy");
        let policy = Policy::from_bytes(&file).expect("a policy");
        for fact in ["throughput_bps", "auto_throughput_bps", "below_auto"] {
            let kept = policy.facts.get(&format!("training.{fact}"));
            assert_eq!(kept, Some(&report[fact].to_string()), "{fact}");
        }
        file
    };
    let first = train("first.safetensors", "1");
    assert_eq!(first, train("again.safetensors", "1"), "the same seed gives the same file");
    assert_ne!(first, train("other.safetensors", "2"));
    let curve = fs::read_to_string(world.path("first.svg")).expect("the curve");
    assert!(curve.starts_with("<svg") && curve.contains("polyline") && curve.contains("ldm-1g"));

    let drive = ["simulate", "--scenario", &scenario, "--optimizer", "policy", "policy:sampled", "--policy"];
    let (code, seen) = world.json(&[&drive[..], &["first.safetensors"]].concat());
    assert_eq!((code, seen["results"].as_array().map(Vec::len)), (0, Some(2)), "{seen}");
}

#[test]
fn a_policy_is_learned_from_a_log_of_epochs() {
    let world = World::new();
    let stage = |value: u64| serde_json::json!({ "read": value, "network": value, "write": value });
    let one = |n: u64| serde_json::json!({ "read": 1, "network": n, "write": 1 });
    let lines: Vec<String> = (0..40u64)
        .map(|i| {
            let n = 1 + i * 7 % 20;
            let moved = stage((n * 100).min(1000) * 1_000_000);
            serde_json::json!({
                "t_ms": (i + 1) * 1000, "interval_ms": 800, "concurrency": one(n), "setpoint": one(n),
                "throughput_bps": moved, "staging_free_bytes": { "sender": 0, "receiver": 0 },
                "staging_capacity_bytes": { "sender": 0, "receiver": 0 }, "loss": 0.0, "rtt_us": 20_000,
                "utility": null,
            })
            .to_string()
        })
        .collect();
    world.write("epochs.jsonl", lines.join("\n") + "\n");
    let arguments = ["train", "--from", "epochs.jsonl", "-o", "fitted.safetensors"];
    let (code, report) = world.json(&arguments);
    assert_eq!((code, &report["status"], &report["scenario"]), (0, &"complete".into(), &"epochs".into()));
    assert_eq!(report["below_auto"], false, "{report}");
    let n = report["setpoint"]["network"].as_u64().expect("a number");
    assert!((9..=11).contains(&n), "{report}");

    world.write("cut.jsonl", &lines[0][..60]);
    let ran = world.run(&["train", "--from", "cut.jsonl", "-o", "x"]);
    assert!(
        (ran.code, ran.err.lines().count()) == (2, 1) && ran.err.contains("cut.jsonl: line 1"),
        "{ran:?}"
    );
    assert!(!world.path("x").exists() && !world.path("x.svg").exists());
}

#[test]
fn the_published_recipes_are_trained_too() {
    let world = World::new();
    for (recipe, scenario) in
        [("ldm", "ldm-1g"), ("automdt", "automdt-read"), ("automdt_discrete", "automdt-read")]
    {
        let scenario = format!("{SCENARIOS}/{scenario}.toml");
        let output = format!("{recipe}.safetensors");
        let train = ["train", "--scenario", &scenario, "-o", &output, "--recipe", recipe];
        let (code, report) = world.json(&[&train[..], &["--episodes", "2", "--curve", "curve.csv"]].concat());
        assert_eq!((code, &report["episodes"]), (1, &2.into()), "{report}");
        let curve = fs::read_to_string(world.path("curve.csv")).expect("the curve");
        let lines: Vec<&str> = curve.lines().collect();
        assert!(lines[0] == "series,episodes,utility_share" && lines[2].starts_with("played,2,"), "{curve}");
        let drive =
            ["simulate", "--scenario", &scenario, "--optimizer", "policy:sampled", "--policy", &output];
        assert_eq!(world.json(&drive).0, 0);
        let by_name = ["simulate", "--scenario", &scenario, "--optimizer", recipe, "--policy", &output];
        assert_eq!(world.json(&by_name).0, 0);
        let other = ["simulate", "--scenario", &scenario, "--optimizer", "discrete_rl", "--policy", &output];
        let ran = world.run(&other);
        assert!(ran.code == 2 && ran.err.contains("was trained by the recipe"), "{ran:?}");
    }
}

#[test]
fn hyper_parameters_are_set_by_name_and_listed_with_their_origin() {
    let world = World::new();
    for (recipe, rows) in [
        ("ldm", &["k 1.002 program", "sigma 1 program", "blocks 3 paper", "penalty_mbps 100 program"][..]),
        ("automdt", &["k 1.02 paper", "production_sigma 0.5 program", "rate 0.0001 program"]),
        ("discrete_rl", &["epochs 4 ours", "gamma 0.9 ours", "idle 1000 paper"]),
    ] {
        let listed = world.ok(&["train", "--list-settings", recipe]);
        let words = |line: &str| line.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
        let listed: Vec<String> = listed.lines().map(words).collect();
        assert!(rows.iter().all(|row| listed.contains(&(*row).to_owned())), "{recipe}: {listed:?}");
    }
    let scenario = format!("{SCENARIOS}/ldm-1g.toml");
    let train = ["train", "--scenario", &scenario, "--recipe", "ldm", "--episodes", "2"];
    let with = |output: &str, settings: &[&str]| {
        let mut arguments = [&train[..], &["-o", output]].concat();
        settings.iter().for_each(|setting| arguments.extend(["--set", setting]));
        assert_eq!(world.json(&arguments).0, 1, "two episodes are not enough");
        Policy::from_bytes(&world.read(output)).expect("a policy")
    };
    let plain = with("plain", &[]);
    assert!(!plain.facts.contains_key("training.settings"));
    let own = with("own", &["width=16", "blocks=1", "sigma=2", "production_sigma=1", "rate=1e-6"]);
    assert_eq!((own.actor.shape().width, own.actor.shape().blocks), (16, 1));
    assert!((own.log_sigma[0] - 2.0f32.ln()).abs() < 1e-4, "{:?}", own.log_sigma);
    assert_eq!((plain.spread(), own.spread()), (0.5, 1.0));
    assert!(own.facts["training.settings"].contains("width=16"));
    // What is the default already changes nothing.
    let same = with("same", &["gamma=0.99", "steps=10"]);
    assert_eq!((same.actor, same.critic, same.log_sigma), (plain.actor, plain.critic, plain.log_sigma));
}

#[test]
fn a_training_begins_with_a_policy() {
    let world = World::new();
    let scenario = format!("{SCENARIOS}/ldm-1g.toml");
    for recipe in ["fast", "ldm"] {
        let train = ["train", "--scenario", &scenario, "--recipe", recipe, "--episodes"];
        let learned = |episodes: &'static str, output: &'static str, more: &[&str]| {
            let (_, report) = world.json(&[&train[..], &[episodes, "-o", output], more].concat());
            assert_eq!(report["recipe"], recipe, "{report}");
            Policy::from_bytes(&world.read(output)).expect("a policy")
        };
        let first = learned("320", "first", &[]);
        // Weights change with every step, the less the smaller it is: these hardly do.
        let second = learned("1", "second", &["--policy", "first", "--set", "rate=1e-7"]);
        assert_eq!(second.facts["training.begun_with"], "first");
        let other = learned("1", "other", &["--set", "rate=1e-7"]);
        let far = |a: &Policy| {
            let pairs = a.actor.parameters().iter().zip(first.actor.parameters());
            pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
        };
        assert!(far(&second) < 1e-4 && far(&other) > 1e-3, "{} and {}", far(&second), far(&other));
    }
    let train = ["train", "--scenario", &scenario, "-o", "x", "--policy", "first", "--recipe"];
    for (arguments, wanted) in [
        (&["fast"][..], "first: was trained by the recipe ldm, not fast: give --recipe ldm"),
        (&["ldm", "--set", "width=8"], "first: its networks have other sizes"),
    ] {
        let ran = world.run(&[&train[..], arguments].concat());
        assert!(ran.code == 2 && ran.err.contains(wanted) && ran.err.lines().count() == 1, "{ran:?}");
    }
}

#[test]
fn an_interrupt_keeps_the_best_policy_so_far() {
    let world = World::new();
    let scenario = format!("{SCENARIOS}/automdt-read.toml");
    let mut command = world.command();
    command.args([
        "train",
        "--scenario",
        &scenario,
        "-o",
        "best.safetensors",
        "--recipe",
        "automdt",
        "--json",
    ]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // It would go on for minutes. It catches SIGTERM (signal 15) after SIGINT, and a signal that came while
    // its own handler was being set up would be lost.
    let caught = |line: &str| u64::from_str_radix(line.trim_start_matches("SigCgt:").trim(), 16).unwrap_or(0);
    eventually(|| {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        status
            .lines()
            .find(|line| line.starts_with("SigCgt:"))
            .is_some_and(|line| caught(line) & (1 << 14) != 0)
    });
    signal(child.id(), Signal::INT);
    let ran = wait(child);
    assert!(ran.code == 130 && ran.out.contains("\"status\":\"interrupted\""), "{ran:?}");
    let drive =
        ["simulate", "--scenario", &scenario, "--optimizer", "automdt", "--policy", "best.safetensors"];
    assert_eq!(world.json(&drive).0, 0);
}

#[test]
fn what_cannot_be_used_is_refused_in_one_line() {
    let world = World::new();
    let scenario = format!("{SCENARIOS}/ldm-1g.toml");
    world.write("short.safetensors", "0123");
    let simulate = ["simulate", "--scenario", &scenario, "--optimizer", "policy"];
    let train = ["train", "--scenario", &scenario];
    for (arguments, wanted) in [
        (
            [&simulate[..], &["--policy", "short.safetensors"]].concat(),
            "short.safetensors: not a safetensors",
        ),
        ([&simulate[..], &["--policy", "nowhere"]].concat(), "nowhere"),
        (simulate.to_vec(), "needs --policy FILE"),
        (vec!["copy", "a", "b", "--optimizer", "policy"], "needs --policy FILE"),
        ([&train[..], &["-o", "no/where.safetensors"]].concat(), "cannot write"),
        ([&train[..], &["-o", "x", "--recipe", "automdt"]].concat(), "needs all three stages"),
        ([&train[..], &["-o", "x", "--recipe", "automdt_discrete"]].concat(), "needs all three stages"),
        ([&train[..], &["-o", "x", "--curve", "no/where.csv"]].concat(), "cannot write"),
        ([&train[..], &["-o", "x", "--recipe", "magic"]].concat(), "no recipe 'magic'"),
        ([&train[..], &["-o", "x", "--set", "lr=1"]].concat(), "choose one of k, episodes, enough"),
        (
            [&train[..], &["-o", "x", "--set", "clip=-1"]].concat(),
            "'clip': must be a number from 0.001 to 10",
        ),
        ([&train[..], &["-o", "x", "--set", "epochs=1.5"]].concat(), "'epochs': must be a whole number"),
        ([&train[..], &["-o", "x", "--set", "clip"]].concat(), "must be KEY=VALUE"),
        ([&train[..], &["-o", "x", "--set", "k=1.1", "--utility-k", "1.1"]].concat(), "give it once"),
        (vec!["train", "--scenario", "short.safetensors", "-o", "x"], "short.safetensors: line 1"),
        (vec!["train", "-o", "x"], "--scenario"),
    ] {
        let ran = world.run(&arguments);
        let told = ran.err.lines().count() == 1 && ran.err.contains(wanted);
        assert!(ran.code == 2 && told, "{arguments:?}: {ran:?}");
    }
}

#[test]
fn the_policy_for_every_path_is_learned_from_no_path_at_all() {
    let world = World::new();
    let (code, report) = world.json(&["train", "--universal", "-o", "all.safetensors", "--episodes", "1"]);
    assert_eq!((code, &report["status"]), (1, &"exhausted".into()), "cut short: {report}");
    assert_eq!((&report["recipe"], &report["scenario"]), (&"universal".into(), &"every path".into()));
    let curve = fs::read_to_string(world.path("all.svg")).expect("the curve");
    assert!(curve.starts_with("<svg") && curve.contains("every path"));
    let scenario = format!("{SCENARIOS}/ldm-1g.toml");
    let drive = ["simulate", "--scenario", &scenario, "--optimizer", "policy", "universal", "--policy"];
    let (code, seen) = world.json(&[&drive[..], &["all.safetensors"]].concat());
    assert_eq!((code, seen["results"].as_array().map(Vec::len)), (0, Some(2)), "{seen}");
    for (arguments, wanted) in [
        (vec!["train", "--universal", "--scenario", &scenario, "-o", "x"], "--universal"),
        (vec!["train", "--recipe", "universal", "--scenario", &scenario, "-o", "x"], "use --universal"),
    ] {
        let ran = world.run(&arguments);
        assert!(ran.code == 2 && ran.err.contains(wanted), "{arguments:?}: {ran:?}");
    }
}
