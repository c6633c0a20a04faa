//! `tidegate explore` against live paths with known limits, and how it refuses.
//!
//! A busy machine finds less than the limits allow and never more, so only that is asserted here; how near what is
//! found comes is held by the simulated explorations of the control crate.

use std::fs;
use std::process::Stdio;

use crate::common::{World, eventually, signal, wait};
use rustix::process::Signal;
use serde_json::Value;
use tidegate_control::Scenario;

const NETWORK: [&str; 4] = ["--limit-network", "80Mbit/s", "--limit-link", "500Mbit/s"];
const STORAGE: [&str; 4] = ["--limit-read", "40Mbit/s", "--limit-write", "100Mbit/s"];
/// Staging that fills and empties well within an epoch, and epochs short enough for a test.
const SHORT: [&str; 6] = ["--staging", "8MiB", "--epoch", "400ms", "--duration", "8s"];

/// What exploring says. On a busy machine a run may end with too few epochs to say anything; as the error says, a longer
/// one helps.
fn explored(world: &World, arguments: &[&str]) -> (i32, Value) {
    let (code, seen) = world.json(&[arguments, &SHORT].concat());
    match seen["error"].as_str() {
        Some(error) if error.ends_with("explore longer") => {
            world.json(&[arguments, &SHORT[..5], &["40s"]].concat())
        }
        _ => (code, seen),
    }
}

/// Asserts that `value` is what a limit of `most` lets through, give or take how coarsely it is measured.
fn within(value: &Value, most: f64, seen: &Value) {
    let value = value.as_f64().unwrap_or_else(|| panic!("no number: {seen}"));
    assert!(value > 0.0 && value <= most * 1.35, "{value} of {most}: {seen}");
}

#[test]
fn a_path_is_explored_from_memory_to_memory() {
    let world = World::new();
    let a = world.endpoint("a", &[]);
    for direction in [&[][..], &["--pull"]] {
        let files = ["-o", "log", "--scenario", "my-path.toml"];
        let (code, seen) =
            explored(&world, &[&["explore", &a.address], direction, &NETWORK[..], &files].concat());
        assert_eq!((code, &seen["status"], &seen["log"]), (0, &"complete".into(), &"log".into()), "{seen}");
        within(&seen["stages"]["network"]["worker_rate_bps"], 80e6, &seen);
        within(&seen["bandwidth_bps"], 500e6, &seen);
        assert!(seen["stages"]["read"].is_null() && seen["stages"]["write"].is_null(), "{seen}");
        // LDM: BW·K^(-BW/TPT).
        let mbps = |rate: &Value| rate.as_f64().expect("a rate") / 1e6;
        let (bandwidth, worker) =
            (mbps(&seen["bandwidth_bps"]), mbps(&seen["stages"]["network"]["worker_rate_bps"]));
        let reward = bandwidth * 1.02_f64.powf(-bandwidth / worker);
        assert!(
            (seen["r_max_mbps"].as_f64().expect("a reward") / reward - 1.0).abs() < 0.01,
            "{reward}: {seen}"
        );

        let log = String::from_utf8(world.read("log")).expect("text");
        assert_eq!(Some(log.lines().count() as u64), seen["epochs"].as_u64());
        let text = String::from_utf8(world.read("my-path.toml")).expect("text");
        let scenario = Scenario::from_toml(&text).expect("a scenario");
        assert_eq!(scenario.name, "my-path");
        world.ok(&["simulate", "--scenario", "my-path.toml"]);
        // The log alone gives the same.
        let (code, again) = world.json(&["explore", "--from", "log"]);
        assert_eq!((code, &again["stages"]), (0, &seen["stages"]));
        assert!(world.tree("a").is_empty(), "no file is touched");
    }
    let names = fs::read_dir(world.path("")).expect("listed").flatten().map(|entry| entry.file_name());
    assert!(
        !names.into_iter().any(|name| name.to_string_lossy().ends_with(".new")),
        "nothing is left behind"
    );
}

#[test]
fn a_path_is_explored_with_files() {
    let world = World::new();
    for i in 0..6 {
        world.write(format!("src/{i}"), vec![7; 64 << 20]);
    }
    let command = ["explore", "--files", "src/", "dst/", "-o", "log"];
    let (code, seen) = explored(&world, &[&command[..], &NETWORK, &STORAGE].concat());
    assert_eq!((code, &seen["status"]), (0, &"complete".into()), "{seen}");
    let stages = &seen["stages"];
    within(&stages["read"]["worker_rate_bps"], 40e6, &seen);
    within(&stages["network"]["worker_rate_bps"], 80e6, &seen);
    within(&stages["write"]["worker_rate_bps"], 100e6, &seen);
    within(&seen["bandwidth_bps"], 500e6, &seen);
    assert_eq!(seen["staging_bytes"], serde_json::json!({ "sender": 8 << 20, "receiver": 8 << 20 }));
    // What was not finished is finished by a copy.
    world.ok(&["copy", "src/", "dst/"]);
    assert_eq!(world.read("dst/5"), world.read("src/5"));
}

#[test]
fn a_line_is_printed_each_epoch() {
    let world = World::new();
    let a = world.endpoint("a", &[]);
    let short = ["--epoch", "100ms", "--duration", "2s", "--limit-link", "80Mbit/s"];
    let ran = world.run(&[&["explore", &a.address], &short[..]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let out = ran.out;
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].contains("for 2 s, explore:isolate, seed 1") && !out.contains(a.secret()), "{out}");
    assert!(lines[1].contains("streams") && lines[2].contains("bit/s"), "{out}");
    assert!(lines.iter().filter(|line| line.contains(" s  ")).count() >= 4, "{out}");
    assert!(lines.iter().any(|line| line.contains("one worker")), "{out}");
    assert!(lines.iter().all(|line| line.chars().count() <= 110), "{out}");
}

#[test]
fn what_cannot_be_explored_is_refused_in_one_line() {
    let world = World::new();
    let a = world.endpoint("a", &["--read-only"]);
    let at_a = a.address.as_str();
    world.write("empty", "");
    world.write("cut", "{\"t_ms\":1000,\"interv");
    let epoch = |t: usize, n: u16, bps: u64| {
        format!(
            "{{\"t_ms\":{t}000,\"interval_ms\":1000,\"concurrency\":{{\"read\":1,\"network\":{n},\"write\":1}},\
             \"setpoint\":{{\"read\":1,\"network\":1,\"write\":1}},\"throughput_bps\":{{\"read\":0,\"network\":{bps},\
             \"write\":0}},\"staging_free_bytes\":{{\"sender\":0,\"receiver\":0}},\"loss\":null,\"rtt_us\":null,\
             \"utility\":null}}\n"
        )
    };
    world.write("constant", (1..20).map(|t| epoch(t, 4, 9_000_000)).collect::<String>());
    world.write("zero", (1..20).map(|t| epoch(t, t as u16, 0)).collect::<String>());
    world.write("field", epoch(1, 1, 1).replace("\"network\":1", "\"network\":\"many\""));
    let cases: [(&[&str], i32, &[&str]); 12] = [
        (&[], 2, &["DST"]),
        (&["directory"], 2, &["endpoint", "--files"]),
        (&[at_a, "--duration", "3s"], 2, &["3 epochs", "--duration"]),
        (&[at_a, "--duration", "30"], 2, &["--duration"]),
        (&[at_a, "-o", "no/such/log"], 2, &["no/such/log"]),
        (&[at_a, "--scenario", "a"], 2, &["cannot write a"]),
        (&[at_a], 5, &["read-only"]),
        (&["--from", "nowhere"], 3, &["nowhere"]),
        (&["--from", "empty"], 1, &["empty: ", "no epochs"]),
        (&["--from", "cut"], 1, &["cut: line 1", "cut off"]),
        (&["--from", "constant"], 1, &["constant: concurrency.network", "is 4 in every epoch"]),
        (&["--from", "zero"], 1, &["zero: throughput_bps.network", "is zero"]),
    ];
    for (arguments, code, words) in cases {
        let ran = world.run(&[&["explore"], arguments].concat());
        assert_eq!((ran.code, ran.err.lines().count()), (code, 1), "{arguments:?}: {ran:?}");
        assert!(words.iter().all(|word| ran.err.contains(word)), "{arguments:?}: {ran:?}");
        assert!(!ran.err.contains(a.secret()), "{ran:?}");
    }
    let ran = world.run(&["explore", "--from", "field"]);
    assert!(ran.code == 1 && ran.err.contains("field: line 1: network: "), "{ran:?}");
    let (code, seen) = world.json(&["explore", "--from", "empty"]);
    assert_eq!((code, &seen["status"]), (1, &"failed".into()));
    assert!(seen["error"].as_str().is_some_and(|text| text.contains("no epochs")), "{seen}");
}

#[test]
fn an_interrupted_exploration_keeps_what_it_saw() {
    let world = World::new();
    let a = world.endpoint("a", &[]);
    let mut command = world.command();
    command.args(["explore", &a.address, "--epoch", "100ms", "--limit-link", "80Mbit/s", "-o", "log"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    // Until the first epoch is printed, below the two lines of the heading.
    let mut out = std::io::BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    for _ in 0..3 {
        line.clear();
        std::io::BufRead::read_line(&mut out, &mut line).expect("a line");
    }
    assert!(line.contains("bit/s"), "{line}");
    assert!(!world.path("log").exists(), "not before it is whole");
    signal(child.id(), Signal::INT);
    let rest = std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
    let ran = wait(child);
    rest.join().expect("no panic").expect("read");
    assert_eq!((ran.code, ran.err.lines().count()), (130, 1), "{ran:?}");
    assert!(ran.err.contains("interrupted after "), "{ran:?}");
    eventually(|| world.path("log").exists());
    let log = String::from_utf8(world.read("log")).expect("text");
    assert!(log.ends_with('\n') && log.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
}
