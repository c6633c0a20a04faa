//! Learning a policy and driving with it, from the command line.

mod common;

use std::fs;

use common::World;

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
        fs::read(world.path(output)).expect("the policy")
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
fn the_published_recipes_are_trained_too() {
    let world = World::new();
    for (recipe, scenario) in [("ldm", "ldm-1g"), ("automdt", "automdt-read")] {
        let scenario = format!("{SCENARIOS}/{scenario}.toml");
        let output = format!("{recipe}.safetensors");
        let arguments =
            ["train", "--scenario", &scenario, "-o", &output, "--recipe", recipe, "--episodes", "2"];
        let (code, report) = world.json(&arguments);
        assert_eq!((code, &report["episodes"]), (1, &2.into()), "{report}");
        let drive =
            ["simulate", "--scenario", &scenario, "--optimizer", "policy:sampled", "--policy", &output];
        assert_eq!(world.json(&drive).0, 0);
    }
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
        ([&train[..], &["-o", "x", "--recipe", "magic"]].concat(), "no recipe 'magic'"),
        (vec!["train", "--scenario", "short.safetensors", "-o", "x"], "short.safetensors: line 1"),
        (vec!["train", "-o", "x"], "--scenario"),
    ] {
        let ran = world.run(&arguments);
        let told = ran.err.lines().count() == 1 && ran.err.contains(wanted);
        assert!(ran.code == 2 && told, "{arguments:?}: {ran:?}");
    }
}
