//! Rules of the user's own: a program that drives, what becomes of one that does not, and who may not name one.

use std::process::{Command, Stdio};
use std::thread;

use crate::common::service::{Service, post_for};
use crate::common::{Ran, World, eventually, finish, signal, wait};
use rustix::process::Signal;
use serde_json::Value;

/// Answers each line by what `$1` says, a list of answers of which the last is repeated, and writes down what it was told.
const RULE: &str = r#"#!/usr/bin/env python3
import json, os, sys
log, answers = open(sys.argv[1], "a"), sys.argv[2:]
print(os.getpid(), file=log, flush=True)
for line in sys.stdin:
    log.write(line)
    log.flush()
    print(answers.pop(0) if len(answers) > 1 else answers[0], flush=True)
print("over", file=log, flush=True)
"#;

/// Some 1.6 s.
const LINK: &str = "--limit-link=2Mbit/s";
const SLOW: [&str; 4] = ["--data-plane=clear", "--staging=1MiB", "--max-workers=8", "--quiet"];

fn world() -> World {
    let world = World::new();
    world.fill("data", 400_000, 1);
    world.write("my rule.py", RULE);
    world
}

/// Copies the data to `there` under `rule`; what it did, and its epochs.
fn drive(world: &World, rule: &str, there: &str, more: &[&str]) -> (Ran, Vec<Value>) {
    let epochs = format!("{there}.jsonl");
    // A state of its own, so that several may run at a time.
    let state = format!("{there}.state");
    let mut command = world.command();
    command.args(["copy", "--optimizer", rule, "--epochs", &epochs, "--state", &state]);
    command.args(SLOW).args(more).args(["data", there]);
    let ran = finish(&mut command);
    let text = std::fs::read_to_string(world.path(&epochs)).unwrap_or_default();
    let epochs = text.lines().map(|line| serde_json::from_str(line).expect("an epoch")).collect();
    (ran, epochs)
}

fn lines(world: &World, log: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(world.path(log)).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| line.into())).collect()
}

fn network(epochs: &[Value]) -> Vec<u64> {
    epochs.iter().map(|epoch| epoch["setpoint"]["network"].as_u64().expect("a number")).collect()
}

#[test]
fn a_program_is_told_of_each_epoch_and_decides() {
    let world = world();
    let rule =
        r#"exec:python3 'my rule.py' log 2 '{"setpoint": [1, 3, 2], "utility": 0.5}' "{\"setpoint\": 1}""#;
    let rule = rule.replacen(" 2 ", " '{\"setpoint\": 2}' ", 1);
    let (ran, epochs) = drive(&world, &rule, "there", &["--limit-link=1Mbit/s"]);
    assert_eq!((ran.code, &ran.err[..]), (0, ""), "{ran:?}");
    assert_eq!(world.read("there"), world.read("data"));
    let told = lines(&world, "log");
    let (Some(pid), Some(end)) = (told.first(), told.last()) else { panic!("{told:?}") };
    assert!(pid.is_u64() && *end == "over", "it is started once, and its input ends: {told:?}");
    let told = &told[1..told.len() - 1];
    assert_eq!((&told[0]["type"], &told[0]["version"]), (&"start".into(), &1.into()));
    assert_eq!(told[0]["bounds"]["network"], serde_json::json!({"min": 1, "max": 8}));
    assert!(told[0]["host"]["processors"].is_u64() && told[0]["epoch_ms"] == 1000, "{}", told[0]);
    // What it is told is what is logged, and what it answers is done.
    assert!(epochs.len() >= 2 && told.len() == epochs.len() + 1, "{} and {}", told.len(), epochs.len());
    for (told, epoch) in told[1..].iter().zip(&epochs) {
        assert_eq!((&told["type"], &told["bounds"]["read"]["max"]), (&"epoch".into(), &8.into()));
        for key in ["interval_ms", "concurrency", "throughput_bps", "staging_free_bytes", "rtt_us", "cpu"] {
            assert!(told.get(key) == epoch.get(key), "{key}: {told} and {epoch}");
        }
    }
    assert_eq!(epochs[0]["concurrency"]["network"], 2);
    assert_eq!(epochs[0]["setpoint"], serde_json::json!({"read": 1, "network": 3, "write": 2}));
    assert_eq!((&epochs[0]["utility"], &epochs[1]["utility"]), (&0.5.into(), &Value::Null));
    assert_eq!(network(&epochs[1..]), vec![1; epochs.len() - 1]);
}

#[test]
fn whatever_a_program_does_the_run_goes_on_and_says_so_in_one_line() {
    let world = world();
    let python = |code: &str| format!("exec:python3 -c 'import sys, time\n{code}'");
    let answering = |code: &str| {
        python(&format!(
            "n = 0\nfor line in sys.stdin:\n    n += 1\n    if n == 3:\n        {code}\n    print(\"{{\\\"setpoint\\\": 2}}\", flush=True)"
        ))
    };
    let cases = [
        // What it does, what is said of it, and what was asked for in the end.
        (
            "ends",
            answering("sys.exit(7)"),
            "has ended (exit status: 7); its last set-point stands to the end",
            2,
        ),
        ("raises", answering("raise KeyError(\"lost\")"), "has ended (exit status: 1)", 2),
        ("hangs", answering("time.sleep(600)"), "no answer within 50 ms; its last set-point stands until", 2),
        (
            "garbage",
            answering("print(\"more!\", flush=True); continue"),
            "answered more!, which is no JSON; its last set-point",
            2,
        ),
        (
            "zero",
            answering("print(\"{\\\"setpoint\\\": 0}\", flush=True); continue"),
            "from 1 to 65535; its last",
            2,
        ),
        ("talks", answering("print(\"{\\\"setpoint\\\": 2}\")"), "says more than one line", 2),
        (
            "closes",
            answering("import os; os.close(1); time.sleep(600)"),
            "has closed its output; its last",
            2,
        ),
        (
            "outside",
            python("for line in sys.stdin: print(\"{\\\"setpoint\\\": [3, 700, 3]}\", flush=True)"),
            "asked for 3/700/3 (read/network/write), of which the bounds allow 3/8/3",
            8,
        ),
        ("floods", "exec:yes '{\"setpoint\": 2}'".to_owned(), "says more than one line", 2),
    ];
    thread::scope(|scope| {
        for (name, rule, said, last) in &cases {
            let world = &world;
            scope.spawn(move || {
                let (ran, epochs) = drive(world, rule, name, &[LINK, "--epoch=100ms"]);
                assert_eq!(ran.code, 0, "{name}: {ran:?}");
                assert_eq!(world.read(name), world.read("data"), "{name}");
                // On a loaded machine any program may be late.
                let told = ran.err.lines().filter(|line| line.contains(" WARN "));
                let (told, late): (Vec<&str>, Vec<&str>) = told.partition(|line| line.contains(said));
                assert_eq!(told.len(), 1, "{name}: {ran:?}");
                assert!(late.iter().all(|line| line.contains("no answer within")), "{name}: {ran:?}");
                assert_eq!(network(&epochs).last(), Some(last), "{name}: {epochs:?}");
            });
        }
    });
}

#[test]
fn a_late_answer_is_taken_when_it_comes() {
    let world = world();
    let rule = "exec:python3 -c 'import sys, time\nfor n, line in enumerate(sys.stdin):\n    time.sleep(0.5 * (n == 1))\n    \
                print(\"{\\\"setpoint\\\": \", 1 + n, \"}\", flush=True)'";
    let (ran, epochs) = drive(&world, rule, "there", &["--limit-link=1Mbit/s", "--epoch=100ms"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let asked = network(&epochs);
    assert_eq!(asked[0], 1, "nothing came in time: {asked:?}");
    assert!(asked.contains(&3), "the answer after the late one: {asked:?}");
    assert!(asked.is_sorted(), "none is taken for another epoch's: {asked:?}");
}

#[test]
fn a_rule_that_never_answers_moves_nothing() {
    let world = world();
    world.write("broken.py", "import no_such_module\n");
    for (rule, said) in [
        ("exec:sh -c 'exit 3'", "has ended (exit status: 3) before its first answer"),
        ("exec:python3 broken.py", "has ended (exit status: 1) before its first answer"),
        ("exec:sh -c 'echo hello; cat'", "answered hello, which is no JSON"),
        ("exec:sh -c 'exec >&-; sleep 600'", "has closed its output before its first answer"),
        ("exec:no-such-program", "there is no program no-such-program"),
        ("exec:./broken.py", "there is no program ./broken.py"),
        ("exec:", "names no program"),
        ("python:rule", "python:MODULE:NAME"),
    ] {
        let (ran, epochs) = drive(&world, rule, "there", &[]);
        let said_by_us: Vec<&str> = ran.err.lines().filter(|line| line.starts_with("tidegate: ")).collect();
        assert_eq!((ran.code, said_by_us.len(), epochs.len()), (2, 1, 0), "{rule}: {ran:?}");
        assert!(said_by_us[0].contains(said) && said_by_us[0].contains("--optimizer"), "{rule}: {ran:?}");
        // The other end may have heard what there is, and have made a place for it.
        let there = if world.path("there").exists() { world.tree("there") } else { Vec::new() };
        let moved = |path: &&String| !path.ends_with('/') && !path.starts_with(".tidegate/");
        assert_eq!(there.iter().find(moved), None, "{rule}");
        let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/noisy.toml");
        let ran = world.run(&["simulate", "--scenario", scenario, "--optimizer", rule]);
        assert!(ran.code == 2 && ran.out.is_empty() && ran.err.contains(said), "{rule}: {ran:?}");
    }
    // Its own words are told as well, and do nothing to a terminal.
    let (ran, _) = drive(&world, "exec:python3 broken.py", "there", &[]);
    assert!(
        ran.err.contains("exec:python3 broken.py: ModuleNotFoundError: No module named 'no_such_module'"),
        "{ran:?}"
    );
    let (ran, _) = drive(&world, r"exec:sh -c 'printf \\033[2J\\007evil\\n >&2; exit 1'", "there", &[]);
    assert!(ran.err.contains("\\x1b[2J\\x07evil") && !ran.err.contains('\x1b'), "{ran:?}");
}

#[test]
fn a_program_outlives_a_lost_connection() {
    let world = world();
    let server = world.endpoint("store", &["--data-plane", "clear"]);
    let (place, there) = (server.place(), server.at("copy"));
    let rule = "exec:python3 'my rule.py' log '{\"setpoint\": 1}'";
    let child = world
        .command()
        .args(["copy", "--optimizer", rule, "--retry-for=60s", "--epoch=100ms", LINK])
        .args(SLOW)
        .args(["data", &there])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    eventually(|| lines(&world, "log").len() >= 4);
    drop(server);
    let server = world.endpoint_at("store", &place, &["--data-plane", "clear"]);
    let ran = wait(child);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(std::fs::read(server.root.join("copy")).expect("there"), world.read("data"));
    let told = lines(&world, "log");
    let count = |what: fn(&Value) -> bool| told.iter().filter(|line| what(line)).count();
    assert_eq!((count(Value::is_u64), count(|line| line == "over")), (1, 1), "one process: {told:?}");
    assert!(count(|line| line["type"] == "start") >= 2, "told that it begins again: {told:?}");
}

#[test]
fn an_interrupted_run_ends_the_programs_input() {
    let world = world();
    let rule = "exec:python3 'my rule.py' log '{\"setpoint\": 1}'";
    let child = world
        .command()
        .args(["copy", "--optimizer", rule, "--epoch=100ms", "--limit-link=100kbit/s"])
        .args(SLOW)
        .args(["data", "there"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    eventually(|| lines(&world, "log").len() >= 3);
    signal(child.id(), Signal::INT);
    let ran = wait(child);
    assert_eq!(ran.code, 130, "{ran:?}");
    assert_eq!(lines(&world, "log").last(), Some(&"over".into()), "it had the time to write that down");
}

#[test]
fn downloads_and_probes_are_driven_as_well() {
    let world = world();
    let server = world.endpoint("store", &[]);
    let url = format!("file://{}", world.text("data"));
    let own = |log: &str| format!("exec:python3 'my rule.py' {log} '{{\"setpoint\": 2}}'");
    world.ok(&["get", &url, "-o", "got", "--quiet", "--optimizer", &own("get.log")]);
    assert_eq!(world.read("got/data"), world.read("data"));
    // Python is not always there within half a second.
    let probe = |time: &str| {
        let own = own("probe.log");
        world.json(&["probe", time, "--epoch=100ms", &server.address, "--optimizer", &own])
    };
    let times = ["--time=500ms", "--time=2s", "--time=10s", "--time=60s"];
    let (code, seen) =
        times.into_iter().map(probe).find(|(code, _)| *code != 1).expect("a rule that answers");
    assert_eq!((code, &seen["best_concurrency"]), (0, &2.into()), "{seen}");
    for log in ["get.log", "probe.log"] {
        let told = lines(&world, log);
        assert!(told[1]["type"] == "start" && told.last() == Some(&"over".into()), "{told:?}");
    }
    // What is learned in Python is not trained here.
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/noisy.toml");
    let ran = world.run(&["train", "--scenario", scenario, "--recipe", "gymnasium", "-o", "policy"]);
    assert!(
        (ran.code, ran.err.lines().count()) == (2, 1) && ran.err.contains("trained in Python"),
        "{ran:?}"
    );
    assert!(!world.path("policy").exists());
}

#[test]
fn a_program_is_judged_in_the_simulator_as_any_rule_is() {
    let world = world();
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/automdt-read.toml");
    let own = "exec:python3 'my rule.py' log '{\"setpoint\": [13, 7, 5]}'";
    let (code, seen) = world.json(&[
        "simulate",
        "--scenario",
        scenario,
        "--epochs",
        "20",
        "--optimizer",
        own,
        "fixed:13,7,5",
    ]);
    assert_eq!(code, 0, "{seen}");
    let mut results = seen["results"].as_array().expect("two").clone();
    let names: Vec<Value> = results.iter_mut().map(|line| line["optimizer"].take()).collect();
    assert_eq!((names, results[0].clone()), (vec![own.into(), "fixed:13,7,5".into()], results[1].clone()));
    assert_eq!(lines(&world, "log").len(), 1 + 1 + 20 + 1, "a process, a start, the epochs, an end");
}

#[test]
fn no_job_names_a_program_in_any_form() {
    let world = world();
    let service = Service::start(&world, "service", &[]);
    let refused = "a job starts no program of its own as its rule";
    world.write(
        "job.toml",
        "[[job]]\nsource = \"/a\"\ndestination = \"/b\"\noptions.optimizer = \"exec:touch evil\"\n",
    );
    world.write(
        "job.json",
        r#"[{"source": "/a", "destination": "/b", "options": {"optimizer": "python:evil:Rule"}}]"#,
    );
    world.write(
        "job.sub",
        "[ dap_type = transfer; src_url = \"file:///a\"; dest_url = \"file:///b\"; arguments = \"--optimizer exec:evil\"; ]",
    );
    for arguments in [
        &["submit", "job.sub"][..],
        &["submit", "/a", "/b", "--option=--optimizer=exec:touch evil"],
        &["submit", "/a", "/b", "--option=--optimizer=python:evil:Rule"],
        &["submit", "/a", "gsiftp://h/b", "--option=--optimizer=exec:touch evil"],
        &["submit", "job.toml"],
        &["submit", "job.json"],
    ] {
        let ran = service.run(&world, arguments);
        assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{arguments:?}: {ran:?}");
        assert!(ran.err.contains(refused), "{arguments:?}: {ran:?}");
    }
    for body in [
        r#"{"source": "/a", "destination": "/b", "options": {"optimizer": "exec:touch evil"}}"#,
        r#"{"source": "/a", "destination": "/b", "options": {"optimizer": "python:evil:Rule"}}"#,
    ] {
        let answer = post_for(&service, "/api/v1/jobs", "application/json", body);
        assert!(answer.starts_with("HTTP/1.1 4") && answer.contains(refused), "{answer}");
    }
    // A path of the service's host is no policy, and what is no option of a job is none by another name.
    for (option, said) in [
        ("--policy=/etc/passwd", "in a job by `tidegate copy`"),
        ("--rule=exec:true", "in a job by `tidegate copy`"),
    ] {
        let ran = service.run(&world, &["submit", "/a", "/b", &format!("--option={option}")]);
        assert!(ran.code == 2 && ran.err.contains(said), "{ran:?}");
    }
    assert_eq!(service.json(&world, &["jobs"]).1["jobs"].as_array().map(Vec::len), Some(0));
    assert!(!world.path("evil").exists());
}

#[test]
fn neither_the_environment_nor_a_file_that_is_read_names_a_program() {
    let world = world();
    let program = "exec:touch evil";
    world.write("config/tidegate/config.toml", format!("optimizer = \"{program}\"\n"));
    world.write("tidegate.toml", format!("optimizer = \"{program}\"\n"));
    let mut command: Command = world.command();
    command.env("TIDEGATE_OPTIMIZER", program).env("TIDEGATE_RULE", program);
    let ran = finish(command.args(["copy", "--quiet", "--epoch=100ms", "data", "there"]));
    assert_eq!((ran.code, &ran.err[..]), (0, ""), "{ran:?}");
    // A name that is remembered is an endpoint's and nothing else; a policy and a scenario are data.
    world.write("config/tidegate/remotes.json", format!(r#"{{"dtn": "{program}"}}"#));
    world.write("policy", program);
    world.write("scenario.toml", format!("name = 'x'\ndescription = ''\noptimizer = '{program}'\n"));
    for arguments in [
        &["copy", "data", "dtn:/x"][..],
        &["copy", "data", "x", "--optimizer=policy", "--policy=policy"],
        &["simulate", "--scenario", "scenario.toml"],
    ] {
        let ran = world.run(arguments);
        assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{arguments:?}: {ran:?}");
    }
    assert!(!world.path("evil").exists());
}
