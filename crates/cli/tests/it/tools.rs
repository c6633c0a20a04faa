//! The commands around the copy: probe, simulate, demo, and what packagers need.

use std::fs;
use std::process::Stdio;

use crate::common::{World, eventually, signal, wait};
use rustix::process::Signal;
use serde_json::{Value, json};

const SCENARIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");

#[test]
fn a_path_is_measured_in_every_direction() {
    let world = World::new();
    let (a, b) = (world.endpoint("a", &[]), world.endpoint("b", &[]));
    let (at_a, at_b) = (a.address.as_str(), b.address.as_str());
    let short = ["--time", "900ms", "--epoch", "200ms", "--limit-link", "80Mbit/s"];
    for route in [&[at_a][..], &[at_a, "--pull"], &[at_b, "--from", at_a]] {
        let (code, seen) = world.json(&[&["probe"], route, &short[..]].concat());
        assert_eq!((code, &seen["status"]), (0, &"complete".into()), "{route:?}: {seen}");
        for key in ["duration_ms", "throughput_bps", "best_throughput_bps", "best_concurrency"] {
            assert!(seen[key].as_u64().expect("a number") > 0, "{key}: {seen}");
        }
        let epochs = seen["epochs"].as_array().expect("a list");
        assert!(!epochs.is_empty() && epochs[0]["throughput_bps"]["network"].is_u64(), "{seen}");
    }
    let limited = ["probe", at_a, "--limit-link", "80Mbit/s", "--optimizer", "fixed:2", "--time", "30s"];
    let (code, seen) = world.json(&[&limited[..], &["--steady", "500ms"]].concat());
    let steady = |key: &str| seen["steady"][key].as_f64().expect("a number");
    assert_eq!((code, &seen["status"]), (0, &"complete".into()), "{seen}");
    assert!(steady("duration_ms") >= 500.0 && seen["duration_ms"].as_f64() < Some(29_000.0), "{seen}");
    let share = steady("throughput_bps") / 80e6;
    assert!(
        (0.5..1.5).contains(&share) && seen["epochs"].as_array().is_some_and(|epochs| epochs.len() >= 4),
        "{seen}"
    );
    assert!(world.ok(&[&limited[..], &["--steady", "500ms"]].concat()).contains("steady "));
    let out = world.ok(&[&["probe", at_a], &short[..]].concat());
    assert!(out.contains("streams") && out.contains("best "), "{out}");
    assert!(world.tree("a").is_empty() && world.tree("b").is_empty(), "nothing is written");
    let (code, seen) = world.json(&["probe", at_a, "--time", "500ms", "--epoch", "60s"]);
    assert_eq!((code, &seen["status"]), (1, &"incomplete".into()), "nothing was measured: {seen}");
    assert_eq!(world.run(&["probe", "directory"]).code, 2);
    let (code, seen) = world.json(&["probe", "tg://127.0.0.1:1/"]);
    assert_eq!((code, &seen["status"]), (2, &"failed".into()), "no ticket");
    let nobody = format!("tg://{}@127.0.0.1:1/", a.secret());
    let (code, seen) = world.json(&["probe", &nobody, "--retry-for", "0s"]);
    assert_eq!((code, &seen["status"]), (1, &"failed".into()), "{seen}");
}

/// Streams that are capped, and a link that has room for many: each epoch adds one. With an ε that nothing exceeds the
/// second stream, which is forced, is the last.
#[test]
fn aimd_adds_a_stream_an_epoch_on_a_live_path() {
    let world = World::new();
    let endpoint = world.endpoint("a", &[]);
    let streams = |epsilon: &str| -> Vec<u64> {
        let path = ["--limit-network", "4Mbit/s", "--time", "6s", "--epoch", "500ms"];
        let rule = ["--optimizer", "aimd", "--aimd-epsilon", epsilon];
        let (code, seen) = world.json(&[&["probe", &endpoint.address], &path[..], &rule].concat());
        assert_eq!(code, 0, "{seen}");
        let epochs = seen["epochs"].as_array().expect("a list");
        epochs.iter().filter_map(|epoch| epoch["concurrency"]["network"].as_u64()).collect()
    };
    let climbs = streams("2%");
    assert!(climbs.len() > 4 && climbs.iter().max() >= Some(&4), "{climbs:?}");
    assert!(climbs.windows(2).all(|pair| pair[0].abs_diff(pair[1]) <= 1), "{climbs:?}");
    let holds = streams("99.9%");
    assert!(holds.iter().max() <= Some(&3), "{holds:?}");
}

#[test]
fn rules_are_compared_on_a_scenario() {
    let world = World::new();
    let scenario = format!("{SCENARIOS}/automdt-read.toml");
    let arguments = ["simulate", "--scenario", &scenario, "--optimizer", "auto", "gradient", "coupled:aimd"];
    let (code, seen) = world.json(&arguments);
    assert_eq!((code, &seen["scenario"]), (0, &"automdt-read".into()));
    assert_eq!(seen["optimum"], json!({ "read": 13, "network": 7, "write": 5 }));
    let results = seen["results"].as_array().expect("a list");
    let names: Vec<_> = results.iter().map(|line| line["optimizer"].as_str().expect("text")).collect();
    assert_eq!(names, ["auto", "gradient", "coupled:aimd"]);
    for key in ["epochs", "epoch_ms", "throughput_bps", "throughput_share", "concurrency_mean"] {
        assert!(!results[0][key].is_null(), "{key}: {seen}");
    }
    assert_eq!(world.json(&arguments).1, seen, "the same seed gives the same");
    assert_eq!(results[0]["periods"].as_array().map(Vec::len), Some(1), "nothing changes there: {seen}");
    let out = world.ok(&arguments);
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");

    world.write("bad.toml", "name = \"bad\"\nnonsense = 1\n");
    for bad in ["bad.toml", "nowhere.toml"] {
        let ran = world.run(&["simulate", "--scenario", bad]);
        assert_eq!((ran.code, ran.err.lines().count(), ran.err.contains(bad)), (2, 1, true), "{ran:?}");
    }
    let ran = world.run(&["simulate", "--scenario", &scenario, "--optimizer", "magic"]);
    assert!(ran.code == 2 && ran.err.contains("magic"), "{ran:?}");
}

#[test]
fn workers_are_held_against_the_best_between_changes() {
    let world = World::new();
    let scenario = format!("{SCENARIOS}/link-step.toml");
    let (code, seen) =
        world.json(&["simulate", "--scenario", &scenario, "--optimizer", "fixed:4", "--epochs", "50"]);
    assert_eq!(code, 0, "{seen}");
    let period = |from: u64, until: u64, streams: u64, best: u64, ratio: f64| {
        json!({
            "from_ms": from,
            "until_ms": until,
            "optimum": { "read": 1, "network": streams, "write": 1 },
            "best_bps": best,
            "fair_bps": best,
            "concurrency_mean": { "read": 1.0, "network": 4.0, "write": 1.0 },
            "concurrency_ratio": { "read": null, "network": ratio, "write": null },
        })
    };
    let expected = [
        period(0, 20_000, 10, 1_000_000_000, 0.4),
        period(20_000, 40_000, 4, 400_000_000, 1.0),
        period(40_000, 50_000, 10, 1_000_000_000, 0.4),
    ];
    assert_eq!(seen["results"][0]["periods"], json!(expected));
}

#[test]
fn the_demo_verifies_and_leaves_nothing_behind() {
    let world = World::new();
    fs::create_dir(world.path("scratch")).expect("made");
    let (code, seen) = world.json(&["demo", "--size", "24MiB", "--directory", "scratch", "--epoch", "200ms"]);
    assert_eq!((code, &seen["status"], &seen["verified"]), (0, &"complete".into(), &true.into()), "{seen}");
    assert_eq!(seen["bytes"].as_u64(), Some(24 << 20));
    assert_eq!(seen["files"]["ok"], seen["files"]["total"]);
    assert!(fs::metadata(seen["log"].as_str().expect("a log")).expect("there").len() > 0);
    assert!(world.tree("scratch").is_empty());
    // Also when the terminal is closed, unless `nohup` asks it not to mind.
    for (wrapper, code, size) in [("exec", 130, "240MiB"), ("exec nohup", 0, "24MiB")] {
        let demo =
            format!("demo --size {size} --directory scratch --limit-link 64Mbit/s --json --epochs epochs");
        let script = format!("{wrapper} '{}' {demo}", env!("CARGO_BIN_EXE_tidegate"));
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script]).current_dir(world.path("")).env_clear();
        command.envs(world.command().get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("started");
        eventually(|| world.path("epochs").exists());
        signal(child.id(), Signal::HUP);
        let ran = wait(child);
        assert_eq!(ran.code, code, "{wrapper}: {ran:?}");
        assert!(world.tree("scratch").is_empty(), "{wrapper}: {ran:?}");
        fs::remove_file(world.path("epochs")).expect("removed");
    }
    assert_eq!(world.run(&["demo", "--size", "1KiB"]).code, 2);
    let ran = world.run(&["demo", "--directory", "nowhere"]);
    assert!(ran.code == 2 && ran.err.contains("--directory"), "{ran:?}");
}

#[test]
fn completions_and_man_pages_come_from_the_definitions() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let out = world.ok(&["completions", shell]);
        assert!(out.contains("tidegate") && out.contains("limit-link"), "{shell}");
    }
    world.ok(&["man", "--all", "man"]);
    let pages = world.tree("man");
    for page in ["tidegate.1", "tidegate-copy.1", "tidegate-endpoint.1", "tidegate-remote-add.1"] {
        assert!(pages.iter().any(|name| name == page), "{page}: {pages:?}");
    }
    let copy = String::from_utf8(world.read("man/tidegate-copy.1")).expect("text");
    assert!(copy.contains("checksum") && copy.contains("CONTROL"));
    // One alone, and the way there for who installed the program and nothing else.
    let help = world.ok(&["--help"]);
    assert!(help.contains("\n  completions ") && help.contains("\n  man "), "{help}");
    assert!(world.ok(&["man", "remote", "add"]).contains(".TH tidegate-remote-add 1"));
    assert!(world.ok(&["man"]).contains(".TH tidegate 1"));
    let ran = world.run(&["man", "nothing"]);
    assert!(ran.code == 2 && ran.err.contains("there is no command 'nothing'"), "{ran:?}");
}

#[test]
fn rules_are_listed_with_constants_that_are_taken_as_they_are_told() {
    let world = World::new();
    let scenario = format!("{SCENARIOS}/automdt-read.toml");
    let (code, listed) = world.json(&["rules"]);
    assert_eq!(code, 0);
    let table = world.ok(&["rules"]);
    let mut simulate =
        ["simulate", "--scenario", &scenario, "--epochs", "2", "--optimizer"].map(String::from).to_vec();
    for rule in listed["rules"].as_array().expect("a list") {
        let name = rule["name"].as_str().expect("text");
        assert!(table.contains(name) && table.contains(rule["source"].as_str().expect("text")), "{table}");
        for key in rule["keys"].as_array().expect("a list") {
            let word = key["name"].as_str().expect("text");
            let constant = key["default"].as_str().map_or(word.to_owned(), |value| format!("{word}={value}"));
            assert!(table.contains(word), "{word}: {table}");
            if rule["needs_policy"] == true {
                continue;
            }
            simulate.push(format!("{name}:{constant}"));
        }
    }
    assert!(simulate.contains(&"aimd:epsilon=2%".to_owned()), "{simulate:?}");
    world.ok(&simulate);
    for learned in ["policy", "discrete_rl", "ldm", "automdt", "automdt_discrete"] {
        let rule =
            listed["rules"].as_array().and_then(|rules| rules.iter().find(|rule| rule["name"] == learned));
        assert_eq!(rule.map(|rule| rule["needs_policy"].clone()), Some(true.into()), "{learned}");
    }
    // One that none of several rules has is refused; else each takes what it has.
    let several = ["simulate", "--scenario", &scenario, "--epochs", "2", "--optimizer", "gradient", "auto"];
    world.ok(&[&several[..], &["--share", "full"]].concat());
    let refused = world.run(&[&several[..], &["--aimd-epsilon", "1%"]].concat());
    assert!(refused.code == 2 && refused.err.contains("--optimizer aimd"), "{refused:?}");
    let refused = world.run(&[&several[..], &["--policy", "x"]].concat());
    assert!(refused.code == 2 && refused.err.contains("decides by none"), "{refused:?}");
}

#[test]
fn rules_run_on_the_papers_simulators() {
    let world = World::new();
    let scenario = format!("{SCENARIOS}/automdt-read.toml");
    let of = |simulator: &str| {
        let given =
            ["simulate", "--scenario", &scenario, "--simulator", simulator, "--optimizer", "fixed:13,7,5"];
        let (code, said) = world.json(&given);
        assert_eq!((code, &said["simulator"]), (0, &simulator.into()), "{said}");
        said["results"][0].clone()
    };
    let mbps = |rate: &Value| (rate.as_f64().expect("a rate") / 1e7).round() * 10.0;
    let (three, one) = (of("automdt"), of("ldm"));
    assert!((970.0..=1000.0).contains(&mbps(&three["throughput_bps"])), "{three}");
    assert_eq!(mbps(&three["max_worker_throughput_bps"]["read"]), 80.0, "{three}");
    // There one of seven workers reads, sends and writes.
    assert!((500.0..=570.0).contains(&mbps(&one["throughput_bps"])), "{one}");
    assert_eq!(one["concurrency_mean"]["network"], 7.0, "{one}");
    let table = world.ok(&["simulate", "--scenario", &scenario, "--simulator", "ldm"]);
    assert!(table.contains("max T/n") && table.contains("auto"), "{table}");
    let refused = world.run(&["simulate", "--scenario", &scenario, "--simulator", "ns3"]);
    assert!(refused.code == 2 && refused.err.contains("choose one of ldm, automdt"), "{refused:?}");
}

#[test]
fn the_program_describes_itself() {
    let world = World::new();
    let said: Value = serde_json::from_str(&world.ok(&["describe"])).expect("JSON");
    assert!(world.ok(&["--version"]).contains(said["version"].as_str().expect("text")));
    let named = |list: &Value, name: &str| {
        let found = list.as_array().expect("a list").iter().find(|each| each["name"] == name);
        found.unwrap_or_else(|| panic!("no {name}: {list}")).clone()
    };

    // Every command that help shows, and those that only programs call.
    let help = world.ok(&["--help"]);
    let shown =
        help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("commands");
    let visible = said["commands"].as_array().expect("a list").iter().filter(|each| each["hidden"] == false);
    let visible: Vec<_> = visible.map(|each| each["name"].as_str().expect("text")).collect();
    // What goes on in a second line is indented further.
    let wanted = shown
        .lines()
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    let wanted: Vec<_> = wanted.filter(|name| *name != "help").collect();
    assert!(visible == wanted && visible.contains(&"copy"), "{visible:?} {wanted:?}");
    assert_eq!(named(&said["commands"], "describe")["hidden"], true);
    named(&named(&said["commands"], "remote")["commands"], "add");

    let copy = named(&said["commands"], "copy");
    let optimizer = named(&copy["options"], "--optimizer");
    assert_eq!((&optimizer["value"], &optimizer["default"]), (&"NAME".into(), &json!(["auto"])));
    let about = |option: &Value| option["help"].as_str().is_some_and(|help| help.len() > 10);
    assert!(copy["options"].as_array().expect("a list").iter().all(about), "{copy}");
    assert_eq!(named(&copy["options"], "--data-plane")["values"], json!(["tls", "clear"]));
    let switch = named(&copy["options"], "--json");
    assert_eq!(
        (&switch["value"], &switch["values"], &switch["default"]),
        (&Value::Null, &json!([]), &json!([]))
    );
    assert!(copy["arguments"].as_array().is_some_and(|arguments| !arguments.is_empty()), "{copy}");

    // Each rule is known: it moves nothing here for want of a policy, of a set-point, or of a ticket.
    for name in said["optimizers"].as_array().expect("a list") {
        let ran = world.run(&["probe", "tg://127.0.0.1:1/", "--optimizer", name.as_str().expect("text")]);
        assert!(ran.code == 2 && !ran.err.contains("no optimizer"), "{name}: {ran:?}");
    }
    for name in ["auto", "aimd", "fts3", "policy", "policy:online", "ldm", "discrete_rl"] {
        assert!(said["optimizers"].as_array().expect("a list").contains(&name.into()), "{name}: {said}");
    }
    let train = named(&said["commands"], "train");
    named(&train["options"], "--curve");
    let recipe = named(&train["options"], "--recipe");
    assert_eq!((&recipe["default"], &said["recipes"][0]), (&json!(["fast"]), &"fast".into()));
    for name in ["ldm", "automdt", "automdt_discrete", "discrete_rl"] {
        assert!(said["recipes"].as_array().expect("a list").contains(&name.into()), "{name}: {said}");
    }
}
