//! How a run ends, as scripts see it: exit codes, the JSON contract, and what is printed where.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{World, eventually, finish, signal, wait};
use rustix::process::Signal;
use serde_json::Value;
use testkit::skip;

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// Asserts that `value` is a summary as the documentation describes it.
fn assert_summary(value: &Value) {
    let required = [
        "bytes",
        "concurrency_mean",
        "duration_ms",
        "failures",
        "files",
        "goodput_bps",
        "optimizer",
        "resent_bytes",
        "status",
        "verified",
    ];
    let have = keys(value);
    for key in required {
        assert!(have.contains(&key), "{key} is missing: {value}");
    }
    let others = ["errno", "error", "error_kind", "kept_bytes", "log", "unfinished_bytes"];
    for key in have {
        assert!(required.contains(&key) || others.contains(&key), "{key} is unknown: {value}");
    }
    for key in ["bytes", "duration_ms", "goodput_bps", "resent_bytes"] {
        assert!(value[key].is_u64(), "{key}: {value}");
    }
    assert_eq!(keys(&value["files"]), ["failed", "ok", "skipped", "total"]);
    assert!(value["files"].as_object().expect("an object").values().all(Value::is_u64));
    assert_eq!(keys(&value["concurrency_mean"]), ["network", "read", "write"]);
    assert!(value["concurrency_mean"].as_object().expect("an object").values().all(Value::is_f64));
    assert!(value["verified"].is_boolean() && value["optimizer"].is_string());
    let known = ["complete", "incomplete", "interrupted", "no_space", "failed"];
    assert!(known.contains(&value["status"].as_str().expect("text")), "{value}");
    for failure in value["failures"].as_array().expect("a list") {
        let have: Vec<_> = keys(failure).into_iter().filter(|key| *key != "errno").collect();
        assert_eq!(have, ["kind", "message", "path"]);
        assert!(have.iter().all(|key| failure[key].is_string()));
        assert!(failure["errno"].is_i64() || failure["errno"].is_null());
    }
}

#[test]
fn success_is_0_and_quiet() {
    let world = World::new();
    world.fill("file", 300_000, 1);
    let ran = world.run(&["copy", "file", "copy"]);
    assert_eq!((ran.code, ran.err.as_str(), ran.out.lines().count()), (0, "", 1), "{ran:?}");
    assert!(ran.out.starts_with("1 file, 293 KiB, all verified in "), "{ran:?}");
    assert!(!ran.out.contains(['\x1b', '\r']));
    let (code, seen) = world.json(&["copy", "file", "copy2", "--optimizer", "fixed:2"]);
    assert_summary(&seen);
    assert_eq!((code, &seen["status"], &seen["verified"]), (0, &"complete".into(), &true.into()));
    assert_eq!((seen["bytes"].as_u64(), &seen["optimizer"]), (Some(300_000), &"fixed:2".into()));
}

#[test]
fn failed_files_are_1_and_listed() {
    let world = World::new();
    world.write("dir/good", "good");
    world.write("dir/taken", "a file");
    world.write("there/taken/in-the-way", "a directory");
    let ran = world.run(&["copy", "dir/", "there/"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.starts_with("tidegate: ") && ran.err.contains("taken"), "{ran:?}");
    assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    assert!(ran.out.contains("incomplete") && ran.out.contains("1 of 2 failed"), "{ran:?}");
    let (code, seen) = world.json(&["copy", "dir/", "there/"]);
    assert_summary(&seen);
    assert_eq!((code, &seen["status"], &seen["verified"]), (1, &"incomplete".into(), &false.into()));
    assert_eq!(seen["failures"][0]["path"], "taken");
    assert_eq!(world.read("there/good"), b"good");
}

#[test]
fn nonsense_is_2_in_one_line() {
    let world = World::new();
    world.write("file", "file");
    let usage: [&[&str]; 19] = [
        &["copy"],
        &["copy", "file"],
        &["copy", "file", "x", "--unknown"],
        &["copy", "file", ""],
        &["copy", "file", "x", "--optimizer", "magic"],
        &["copy", "file", "x", "--optimizer", "fixed:0"],
        &["copy", "file", "x", "--limit-link", "5"],
        &["copy", "file", "x", "--limit-link", "-5Mbit/s"],
        &["copy", "file", "x", "--staging", "1B"],
        &["copy", "file", "x", "--max-workers", "0"],
        &["copy", "file", "x", "--epoch", "1ms"],
        &["copy", "file", "x", "--tls-ca", "ca.pem"],
        &["copy", "file", "x", "--epochs", "no/such/directory/epochs"],
        &["copy", "file", "tg://nonsense@host/"],
        &["copy", "file", "localhost:/x/"],
        &["copy", "[::1]:/x", "file"],
        &["verify", "file", "no-such-name:x"],
        &["simulate"],
        &["no-such-command"],
    ];
    for arguments in usage {
        let ran = world.run(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{arguments:?}: {ran:?}");
        assert!(ran.err.starts_with("tidegate: ") && ran.err.lines().count() == 1, "{arguments:?}: {ran:?}");
    }
    assert!(!world.path("x").exists());
    // Without any command the help is shown, and it is still a mistake.
    let ran = world.run::<&str>(&[]);
    assert!(ran.code == 2 && ran.err.contains("Usage:"), "{ran:?}");
    let ran = world.run(&["copy", "--help"]);
    assert!(ran.code == 0 && ran.out.contains("Usage:") && ran.err.is_empty(), "{ran:?}");
}

#[test]
fn a_colon_is_a_host_unless_the_name_is_there() {
    let world = World::new();
    world.write("root@host:file", "one");
    world.write("host:file", "two");
    assert_eq!(world.run(&["copy", "root@host:file", "host:file", "to/"]).code, 0);
    assert_eq!(world.tree("to"), ["host:file", "root@host:file"]);
    let ran = world.run(&["copy", "to/", "host:/to/"]);
    assert!(ran.code == 2 && ran.err.contains("./host:"), "{ran:?}");
    assert_eq!(world.run(&["copy", "to/", "./root@host:/to/"]).code, 0);
    assert_eq!(world.tree("root@host:/to"), world.tree("to"));
}

#[test]
fn nobody_there_is_given_up_after_the_time_asked_for() {
    let world = World::new();
    world.write("file", "file");
    let gone = world.endpoint("gone", &[]).at("x");
    for (time, lines, said) in [("0s", 1, "refused"), ("1s", 2, "(given up after 1 second)")] {
        let (code, seen) = world.json(&["copy", "file", &gone, "--retry-for", time]);
        assert_summary(&seen);
        assert_eq!((code, &seen["status"], &seen["error_kind"]), (1, &"failed".into(), &"connection".into()));
        let ran = world.run(&["copy", "file", &gone, "--retry-for", time]);
        assert_eq!((ran.code, ran.err.lines().count()), (1, lines), "{ran:?}");
        assert!(ran.err.contains(said), "{ran:?}");
    }
    let ran = world.run(&["copy", "file", &gone, "--retry-for", "99d"]);
    assert!(ran.code == 2 && ran.err.contains("30d"), "{ran:?}");
}

#[test]
fn a_source_that_is_not_there_is_3() {
    let world = World::new();
    let a = world.endpoint("a", &[]);
    for source in ["nowhere", "nowhere/", &a.at("nowhere")] {
        let ran = world.run(&["copy", source, "x"]);
        assert_eq!((ran.code, ran.err.lines().count(), ran.out.as_str()), (3, 1, ""), "{ran:?}");
        assert!(ran.err.contains("nowhere") && !ran.err.contains(a.secret()), "{ran:?}");
        let (code, seen) = world.json(&["copy", source, "x"]);
        assert_summary(&seen);
        assert_eq!((code, &seen["status"]), (3, &"failed".into()));
        assert!(seen["error"].as_str().expect("a reason").contains("nowhere"));
    }
    assert!(!world.path("x").exists());
}

#[test]
fn a_full_disk_is_4_and_the_rest_follows_once_there_is_room() {
    let name = "a_full_disk_is_4_and_the_rest_follows_once_there_is_room";
    let world = World::new();
    fs::create_dir(world.path("small")).expect("made");
    // A file system of 4 MiB in a mount namespace of its own, as root or as a user who may.
    let mut unshare = None;
    for how in [&["--mount"][..], &["--mount", "--map-root-user"]] {
        let works = Command::new("unshare")
            .args(how)
            .args(["mount", "-t", "tmpfs", "-o", "size=4m", "none"])
            .arg(world.path("small"))
            .stderr(Stdio::null())
            .status();
        if testkit::may_use_installed() && works.is_ok_and(|status| status.success()) {
            unshare = Some(how);
            break;
        }
    }
    let Some(how) = unshare else { return skip(name, "no mount namespace can be made here") };
    world.fill("file", 6 << 20, 1);
    let script = "mount -t tmpfs -o size=4m none small; tidegate copy file small/ --json; echo $?; \
        ls small; mount -o remount,size=9m small; tidegate copy file small/ --json; echo $?; cmp file small/file";
    let mut command = Command::new("unshare");
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_tidegate")).parent().expect("a directory");
    command.args(how).args(["sh", "-c", script]).current_dir(world.path(""));
    command.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display()));
    command.env("XDG_STATE_HOME", world.path("state")).env("HOME", world.path("home"));
    let ran = finish(&mut command);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(ran.code == 0 && lines.len() == 4, "{ran:?}");
    let first: Value = serde_json::from_str(lines[0]).expect("JSON");
    assert_summary(&first);
    assert_eq!((&first["status"], lines[1]), (&"no_space".into(), "4"), "{ran:?}");
    assert!(first["error"].as_str().expect("a reason").contains("free some space"), "{ran:?}");
    let second: Value = serde_json::from_str(lines[2]).expect("JSON");
    assert_eq!((&second["status"], lines[3]), (&"complete".into(), "0"), "{ran:?}");
}

#[test]
fn an_interrupt_is_130_and_the_same_command_goes_on() {
    let world = World::new();
    let a = world.endpoint("a", &[]);
    world.fill("file", 120 << 20, 1);
    let target = a.at("x/");
    for signal_sent in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut command = world.command();
        command.args(["copy", "file", &target, "--json", "--limit-link", "64Mbit/s", "--epochs", "epochs"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("started");
        // More than two readers have begun, so that something is complete and kept.
        eventually(|| {
            let text = fs::read_to_string(world.path("epochs")).unwrap_or_default();
            let epochs = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let written = |epoch: Value| {
                epoch["throughput_bps"]["write"].as_u64().expect("a rate") / 8000
                    * epoch["interval_ms"].as_u64().expect("a time")
            };
            epochs.map(written).sum::<u64>() >= 16 << 20
        });
        signal(child.id(), signal_sent);
        let ran = wait(child);
        let seen: Value = serde_json::from_str(&ran.out).expect("JSON");
        assert_summary(&seen);
        assert_eq!(
            (ran.code, &seen["status"], &seen["verified"]),
            (130, &"interrupted".into(), &false.into())
        );
        assert!(ran.err.contains("run the same command again"), "{ran:?}");
        assert!(!world.path("a/x/file").exists(), "no name before everything is verified");
        fs::remove_file(world.path("epochs")).expect("removed");
    }
    let (code, seen) = world.json(&["copy", "file", &target]);
    assert_summary(&seen);
    assert_eq!((code, seen["files"]["ok"].as_u64()), (0, Some(1)));
    assert!(seen["bytes"].as_u64().expect("a number") < 120 << 20, "it went on: {seen}");
    assert!(world.read("a/x/file") == world.read("file"));
    assert_eq!(world.tree("a/x"), ["file"]);
}

/// While streams read in place of the readers, staging is empty because nobody needs it; that must not
/// pass for slow reading.
#[test]
fn slow_streams_get_more_streams_before_more_readers() {
    let world = World::new();
    let a = world.endpoint("a", &[]);
    world.fill("file", 8 << 20, 1);
    let options = ["--limit-network", "6Mbit/s", "--epoch", "300ms", "--epochs", "epochs"];
    let (code, seen) = world.json(&[&["copy", "file", &a.at("x")], &options[..]].concat());
    assert_eq!((code, seen["optimizer"].as_str()), (0, Some("auto")), "{seen}");
    let text = String::from_utf8(world.read("epochs")).expect("text");
    let epochs = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let changed =
        epochs.into_iter().find(|epoch| epoch["setpoint"] != epoch["concurrency"]).expect("a change");
    assert!(changed["setpoint"]["network"].as_u64() > changed["concurrency"]["network"].as_u64(), "{text}");
    assert!(changed["setpoint"]["read"].as_u64() <= changed["concurrency"]["read"].as_u64(), "{text}");
}

#[test]
fn epochs_are_json_lines_with_units() {
    let world = World::new();
    let (a, b) = (world.endpoint("a", &[]), world.endpoint("b", &[]));
    world.fill("a/file", 6 << 20, 1);
    let shaped = ["--limit-link", "32Mbit/s", "--epoch", "300ms", "--epochs", "epochs", "--optimizer"];
    for (from, to, rule) in [
        ("a/file".to_owned(), a.at("push"), "gradient"),
        (a.at("file"), "pull".to_owned(), "auto"),
        (a.at("file"), b.at("third"), "fixed:2"),
    ] {
        let (code, seen) = world.json(&[&["copy", &from, &to], &shaped[..], &[rule]].concat());
        assert_eq!((code, seen["log"].as_str()), (0, Some("epochs")), "{seen}");
        let text = String::from_utf8(world.read("epochs")).expect("text");
        let epochs: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("one object a line")).collect();
        // A busy machine makes long ones.
        assert!(!epochs.is_empty(), "{text}");
        let (mut before, mut arrived) = (0, 0);
        for epoch in &epochs {
            let expected = [
                "arrived",
                "concurrency",
                "cpu",
                "interval_ms",
                "loss",
                "remaining_bytes",
                "rtt_us",
                "setpoint",
                "staging_capacity_bytes",
                "staging_free_bytes",
                "t_ms",
                "throughput_bps",
                "utility",
            ];
            // What is not known is left out.
            let sure = ["draining", "standard_error", "streams", "waited"];
            let always: Vec<_> = keys(epoch).into_iter().filter(|key| !sure.contains(key)).collect();
            assert_eq!(always, expected);
            assert_eq!(keys(&epoch["standard_error"]), ["network", "read", "write"], "{text}");
            for stages in ["concurrency", "setpoint", "throughput_bps"] {
                assert_eq!(keys(&epoch[stages]), ["network", "read", "write"]);
                assert!(epoch[stages].as_object().expect("an object").values().all(Value::is_u64));
            }
            assert_eq!(keys(&epoch["staging_free_bytes"]), ["receiver", "sender"]);
            let of = |key: &str| epoch["arrived"][key].as_u64();
            assert_eq!(of("bytes"), of("new_bytes"), "{text}");
            assert!(of("total_bytes").is_none_or(|total| total == 6 << 20), "{text}");
            assert!((arrived..=6 << 20).contains(&of("bytes").expect("a number")), "{text}");
            arrived = of("bytes").expect("a number");
            let t = epoch["t_ms"].as_u64().expect("a number");
            assert!(t > before && epoch["interval_ms"].as_u64() > Some(0), "{text}");
            before = t;
            for maybe in ["loss", "utility"] {
                assert!(epoch[maybe].is_null() || epoch[maybe].is_f64(), "{text}");
            }
            for end in ["sender", "receiver"] {
                let load = &epoch["cpu"][end];
                let share = |of: &str| load[of].as_f64().is_some_and(|share| (0.0..=1.0).contains(&share));
                assert!(share("ours") && share("idle"), "{text}");
            }
            assert!(epoch["rtt_us"].is_null() || epoch["rtt_us"].is_u64());
        }
        assert!((1..=6 << 20).contains(&arrived), "{text}");
        assert!(rule != "gradient" || epochs[0]["utility"].is_f64(), "{text}");
    }
    // Not asked for, they are kept in the state directory.
    let (_, seen) = world.json(&["copy", "a/file", "local", "--limit-link", "32Mbit/s", "--epoch", "300ms"]);
    let log = seen["log"].as_str().expect("a log");
    assert!(log.starts_with(world.path("state/tidegate/runs").to_str().expect("text")), "{log}");
    assert!(fs::read_to_string(log).expect("there").lines().count() >= 2);
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let world = World::new();
    world.write("file", "file");
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/demo.toml");
    let scripts: [&[&str]; 4] = [
        &["copy", "file", "copy"],
        &["copy", "nowhere", "copy", "--json"],
        &["simulate", "--scenario", scenario, "--epochs", "5"],
        &["completions", "bash"],
    ];
    for (arguments, code) in scripts.into_iter().zip([0, 3, 0, 0]) {
        let mut command = world.command();
        let mut child =
            command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        drop(child.stdout.take());
        drop(child.stderr.take());
        assert_eq!(child.wait().expect("waited").code(), Some(code), "{arguments:?}");
    }
    let shell = format!("'{}' copy file closed >&- 2>&-", env!("CARGO_BIN_EXE_tidegate"));
    let mut command = Command::new("sh");
    command.args(["-c", &shell]).current_dir(world.path("")).env_clear();
    command.envs(world.command().get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert_eq!(finish(&mut command).code, 0);
    assert_eq!(world.read("closed"), b"file");
}

#[test]
fn a_copy_waits_for_an_endpoint_that_comes_back() {
    let world = World::new();
    let a = world.endpoint("a", &[]);
    let (place, target) = (a.place(), a.at("x/"));
    world.fill("file", 24 << 20, 1);
    let mut command = world.command();
    command.args(["copy", "file", &target, "--json", "--limit-link", "60Mbit/s", "--epochs", "epochs"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    eventually(|| fs::read_to_string(world.path("epochs")).is_ok_and(|text| text.lines().count() >= 2));
    signal(a.id(), Signal::KILL);
    drop(a);
    std::thread::sleep(Duration::from_millis(300));
    let again = world.endpoint_at("a", &place, &[]);
    assert_eq!(again.at("x/"), target, "the ticket survives");
    let ran = wait(child);
    let seen: Value = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_summary(&seen);
    assert_eq!((ran.code, &seen["status"]), (0, &"complete".into()), "{ran:?}");
    assert!(ran.err.contains("trying again"), "{ran:?}");
    assert!(world.read("a/x/file") == world.read("file"));
}

#[test]
fn what_was_abandoned_is_cleaned_away() {
    let world = World::new();
    let left = |name: &str, days: u64| {
        let directory = world.path(name).join(".tidegate").join("0f".repeat(16));
        fs::create_dir_all(&directory).expect("made");
        fs::write(directory.join("journal"), [1; 9000]).expect("written");
        let then = std::time::SystemTime::now() - Duration::from_secs(days * 86_400);
        for path in [directory.join("journal"), directory.clone()] {
            fs::File::open(path).expect("opened").set_modified(then).expect("set");
        }
        directory
    };
    let (old, young) = (left("data/deep/old", 31), left("data/young", 3));
    world.fill("data/file", 10, 1);
    let text = world.ok(&["clean", "--dry-run", "data"]);
    assert!(text.contains("untouched for 31 days): would be removed"), "{text}");
    assert!(text.contains("1 unfinished transfer, ") && text.ends_with("; 1 kept\n"), "{text}");
    assert!(old.exists());
    let (code, said) = world.json(&["clean", "data"]);
    assert_eq!((code, said["unfinished"].as_array().map(Vec::len)), (0, Some(2)), "{said}");
    assert!(said["bytes_removed"].as_u64().expect("a number") >= 8192, "{said}");
    assert_eq!([world.path("data/deep/old/.tidegate").exists(), young.exists()], [false, true]);
    let text = world.ok(&["clean", "data"]);
    assert!(text.contains("untouched for 3 days): kept, it can be continued"), "{text}");
    assert!(text.ends_with("nothing to remove: 1 unfinished transfer kept\n"), "{text}");
    let lock = fs::File::open(young.join("journal")).expect("opened");
    lock.lock().expect("locked");
    let all = ["clean", "--older-than", "0s", "data"];
    assert!(world.ok(&all).contains("kept, it is running"));
    drop(lock);
    world.ok(&all);
    assert!(!world.path("data/young/.tidegate").exists() && world.path("data/file").exists());
    assert_eq!(world.ok(&["clean", "data"]), "no unfinished transfers there\n");
    let ran = world.run(&["clean", "data", "elsewhere"]);
    assert_eq!((ran.code, ran.err.lines().count()), (3, 1), "{ran:?}");
}

#[test]
fn without_a_home_state_is_kept_in_a_temporary_directory_and_that_is_said() {
    let world = World::new();
    world.write("file", "file");
    fs::create_dir(world.path("temporary")).expect("made");
    let before = world.tree("");
    let kept = world.path("temporary").join(format!("tidegate-{}", rustix::process::geteuid().as_raw()));
    for (home, state) in
        [(None, None), (Some(""), Some("")), (Some("relative"), None), (Some("/proc/none"), None)]
    {
        let mut command = world.command();
        for (name, value) in [("HOME", home), ("XDG_STATE_HOME", state)] {
            match value {
                None => command.env_remove(name),
                Some(value) => command.env(name, value),
            };
        }
        command.env_remove("XDG_RUNTIME_DIR").env("TMPDIR", world.path("temporary"));
        let ran = finish(command.args(["copy", "file", "out"]));
        let told = ran.err.lines().collect::<Vec<_>>();
        assert!(ran.code == 0 && told.len() == 1, "{home:?}: {ran:?}");
        assert!(
            told[0].contains(kept.to_str().expect("text")) && told[0].contains("--state"),
            "{home:?}: {ran:?}"
        );
        assert!(kept.is_dir());
        fs::remove_file(world.path("out")).expect("removed");
        fs::remove_dir_all(&kept).expect("removed");
        assert_eq!(world.tree(""), before, "nothing where it was started");
    }
}
