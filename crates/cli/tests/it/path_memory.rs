//! A path seen before begins where it ended: what is kept of it, what is made of that, and what is not.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use crate::common::{Ran, Server, World, eventually, signal, wait};
use serde_json::Value;

/// A world with something to copy, and an endpoint.
fn world() -> (World, Server) {
    let world = World::new();
    world.fill("data/big", 24 << 20, 1);
    let server = world.endpoint("served", &["--data-plane", "clear"]);
    (world, server)
}

/// Where each of so many runs puts what it copies.
fn destination(server: &Server, run: usize) -> String {
    format!("{}/run{run}/", server.address.trim_end_matches('/'))
}

/// Copies to the endpoint in about a second and a half, and hands out the epochs.
fn copy(world: &World, server: &Server, run: usize, more: &[&str]) -> (Ran, Vec<Value>) {
    let (to, epochs) = (destination(server, run), format!("{run}.jsonl"));
    let fixed = [
        "copy",
        "data/big",
        &to,
        "--quiet",
        "--epoch",
        "100ms",
        "--limit-link",
        "120Mbit/s",
        "--epochs",
        &epochs,
    ];
    let ran = world.run(&[&fixed[..], more].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let text = String::from_utf8(world.read(&epochs)).expect("text");
    (ran, text.lines().map(|line| serde_json::from_str(line).expect("an epoch")).collect())
}

/// The same until a run has shown enough to be remembered: on a busy machine the first may not.
fn learn(world: &World, server: &Server, run: usize, more: &[&str]) -> (Ran, Vec<Value>) {
    let mut runs = (0..8).map(|again| copy(world, server, run + 100 * again, more));
    runs.find(|_| files(world).len() == 1).expect("what it found is kept")
}

/// The files in which paths are remembered.
fn files(world: &World) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(world.path("state/tidegate/paths")) else { return Vec::new() };
    entries.map(|entry| entry.expect("listed").path()).collect()
}

/// Has the one path that is remembered say that it held so many workers a stage.
fn edit(world: &World, workers: u64) {
    let files = files(world);
    let [file] = &files[..] else { panic!("{files:?}") };
    let mut known: Value = serde_json::from_slice(&fs::read(file).expect("read")).expect("JSON");
    for stage in ["read", "network", "write"] {
        known["memory"]["stages"][stage]["workers"] = workers.into();
    }
    fs::write(file, known.to_string()).expect("written");
}

fn workers(epoch: &Value) -> [u64; 3] {
    ["read", "network", "write"].map(|stage| epoch["concurrency"][stage].as_u64().expect("a number"))
}

#[test]
fn a_second_run_begins_where_the_first_ended_unless_told_not_to() {
    let (world, server) = world();
    for (i, rule) in ["auto", "auto:share=full"].into_iter().enumerate() {
        let run = |n: usize, more: &[&str]| {
            let more = [&["--optimizer", rule], more].concat();
            copy(&world, &server, 10 * i + n, &more)
        };
        let (ran, first) = run(0, &["--no-memory"]);
        assert!(ran.err.is_empty() && files(&world).is_empty(), "{ran:?}: nothing is left behind");
        assert!(
            workers(&first[0]) == workers(&learn(&world, &server, 10 * i + 1, &["--optimizer", rule]).1[0]),
            "{rule}: a fresh start"
        );
        edit(&world, 7);
        let (ran, again) = run(2, &[]);
        assert_eq!((workers(&again[0]), &ran.err[..]), ([7; 3], ""), "{rule}");
        let notice = again[0]["notice"].as_str().unwrap_or_default();
        assert!(
            notice.starts_with("begins where this path ended (") && notice.ends_with(" ago)"),
            "{notice}"
        );
        assert!(again[1..].iter().all(|epoch| epoch["notice"].is_null()), "said once");
        edit(&world, 7);
        let (ran, _) = run(3, &["-v"]);
        assert!(ran.err.contains("begins where this path ended ("), "{ran:?}");
        edit(&world, 7);
        for (n, more) in [&["--no-memory"][..], &["--limit-read", "90Mbit/s"], &["--data-plane", "clear"]]
            .into_iter()
            .enumerate()
        {
            let (_, fresh) = run(4 + n, more);
            assert_eq!(workers(&fresh[0]), workers(&first[0]), "{rule} {more:?}");
        }
        assert_eq!(workers(&run(8, &["--start", "3"]).1[0]), [3; 3], "{rule}");
        world.ok(&["history", "forget", "--paths"]);
    }
}

#[test]
fn other_rules_begin_as_published_and_leave_what_they_found() {
    let (world, server) = world();
    copy(&world, &server, 0, &["--optimizer", "fixed:5"]);
    assert!(files(&world).is_empty(), "numbers that were given are no finding");
    learn(&world, &server, 1, &["--optimizer", "gradient"]);
    edit(&world, 9);
    let (_, epochs) = copy(&world, &server, 2, &["--optimizer", "gradient"]);
    assert_ne!(workers(&epochs[0]), [9; 3]);
}

#[test]
fn a_share_of_a_path_is_remembered_only_where_it_is_all_of_it() {
    let (world, server) = world();
    let run = |n, share: &str| {
        world.write("share", share);
        copy(&world, &server, n, &["--bounds", "share"]).1
    };
    world.write("share", "32");
    learn(&world, &server, 1, &["--bounds", "share"]);
    edit(&world, 7);
    let kept = fs::read(&files(&world)[0]).expect("read");
    assert_ne!(workers(&run(2, "8")[0]), [7; 3], "a share begins afresh");
    assert_eq!(fs::read(&files(&world)[0]).expect("read"), kept);
    assert_eq!(workers(&run(3, "32")[0]), [7; 3]);
}

#[test]
fn what_is_damaged_is_said_in_one_line_and_what_is_absurd_is_held_to_the_bounds() {
    let (world, server) = world();
    let (_, first) = learn(&world, &server, 0, &[]);
    edit(&world, 65_535);
    assert_eq!(workers(&copy(&world, &server, 1, &["--max-workers", "32"]).1[0]), [32; 3]);
    edit(&world, 0);
    assert_eq!(workers(&copy(&world, &server, 2, &[]).1[0]), [1; 3]);
    let file = files(&world).remove(0);
    fs::write(&file, "{").expect("written");
    let (ran, fresh) = copy(&world, &server, 3, &[]);
    assert_eq!(workers(&fresh[0]), workers(&first[0]));
    assert!(
        ran.err.lines().count() == 1 && ran.err.contains("is not used") && ran.err.contains("damaged"),
        "{ran:?}"
    );
    assert_eq!(copy(&world, &server, 4, &[]).0.err, "", "a run that ends well mends it");
}

#[test]
fn what_ends_badly_or_soon_leaves_what_was_remembered() {
    let (world, server) = world();
    learn(&world, &server, 0, &[]);
    let before = fs::read(&files(&world)[0]).expect("read");
    let (_, epochs) = copy(&world, &server, 0, &[]);
    assert!(epochs.len() < 5, "there is nothing to do: {epochs:?}");
    assert_eq!(fs::read(&files(&world)[0]).expect("read"), before);

    world.fill("data/big", 64 << 20, 2);
    let to = destination(&server, 1);
    let limits = ["--epoch", "100ms", "--limit-link", "120Mbit/s"];
    let child = world
        .command()
        .args([&["copy", "data/big", &to, "--quiet", "--epochs", "cut.jsonl"], &limits[..]].concat())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let written = || fs::read_to_string(world.path("cut.jsonl")).map_or(0, |text| text.lines().count());
    eventually(|| written() >= 8);
    signal(child.id(), rustix::process::Signal::INT);
    assert_ne!(wait(child).code, 0, "it was interrupted");
    assert_eq!(fs::read(&files(&world)[0]).expect("read"), before);
}

#[test]
fn paths_are_shown_and_forgotten() {
    let (world, server) = world();
    assert_eq!(world.json(&["history", "show"]).1["paths"], Value::Array(Vec::new()));
    let ran = world.run(&["history", "show"]);
    assert!(ran.code == 0 && ran.out.is_empty() && ran.err.contains("no path is remembered"), "{ran:?}");
    learn(&world, &server, 0, &[]);
    edit(&world, 7);
    let place =
        format!("tg://{}", server.address.rsplit_once('@').expect("a ticket").1.trim_end_matches('/'));
    let shown = world.ok(&["history", "show"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 2, "{shown}");
    let words: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(words[..3], ["7"; 3], "{shown}");
    assert!(lines[1].contains(&format!("→ {place} (tls, blake3, ")), "{shown}");
    assert!(lines[1].contains("all streams 120000000 bit/s, at most 32 workers"), "{shown}");
    let (_, seen) = world.json(&["history", "show"]);
    assert_eq!(seen["paths"][0]["path"]["destination"], place);
    assert_eq!(seen["paths"][0]["memory"]["stages"]["network"]["workers"], 7);
    fs::write(world.path("state/tidegate/paths/odd.json"), "odd").expect("written");
    let ran = world.run(&["history", "show"]);
    assert!(ran.code == 0 && ran.err.contains("odd.json: is damaged"), "{ran:?}");
    // Time has passed meanwhile.
    let of_path = |text: &str| text.rsplit("  ").next().map(str::to_owned);
    assert_eq!((ran.out.lines().count(), of_path(&ran.out)), (2, of_path(&shown)), "{ran:?}");
    assert_eq!(world.json(&["history", "forget", "--paths"]).1["paths"], 2);
    assert_eq!(world.ok(&["history", "forget", "--paths"]), "0 paths forgotten\n");
    learn(&world, &server, 1, &[]);
    assert_eq!(world.ok(&["history", "forget", "--all"]), "0 records, 1 path forgotten\n");
    assert!(files(&world).is_empty());
}

#[test]
fn no_secret_is_kept() {
    let (world, server) = world();
    let ticket =
        server.address.strip_prefix("tg://").and_then(|rest| rest.split_once('@')).expect("a ticket").0;
    learn(&world, &server, 0, &[]);
    let path = world.text("data/big");
    let from = format!("file://{path}?X-Amz-Signature=hush");
    let got = world.run(&["get", &from, "-o", "got", "--epoch", "100ms", "--limit-rate", "120Mbit/s", "-q"]);
    assert!(got.code == 0 && files(&world).len() == 2, "{got:?}");
    world.write("list.txt", &from);
    world.run(&["get", "list.txt", "-o", "listed", "--epoch", "100ms", "--limit-rate", "120Mbit/s", "-q"]);
    assert_eq!(files(&world).len(), 2, "what a list names is the same path");
    let (_, shown) = world.json(&["history", "show"]);
    assert_eq!(shown["paths"][0]["path"]["source"], "local", "the newest");
    let kept: String = files(&world).iter().map(|file| fs::read_to_string(file).expect("text")).collect();
    assert!(!kept.is_empty() && !kept.contains(ticket) && !kept.contains("hush"), "{kept}");
    assert!(!kept.contains("served") && !kept.contains("data"), "no path of a file either: {kept}");
}
