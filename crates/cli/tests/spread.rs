//! `tidegate spread` and `tidegate mover`: one copy by several processes, as a user has it.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Child, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use common::service::Service;
use common::{World, eventually, finish, signal};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A tree of files, links and directories, some of them empty, that were changed long ago.
fn tree(world: &World) {
    for file in 0..60 {
        world.fill(format!("src/d{}/f{file}", file % 3), 1000 * (file + 1), file as u64);
    }
    world.fill("src/large", 3_000_000, 99);
    world.write("src/nothing", "");
    fs::create_dir(world.path("src/empty")).expect("made");
    symlink("large", world.path("src/link")).expect("linked");
    for directory in ["src/d0", "src/empty", "src"] {
        let opened = fs::File::open(world.path(directory)).expect("opened");
        opened.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).expect("set");
    }
}

fn assert_same(world: &World, copy: &str) {
    assert_eq!(world.tree("src"), world.tree(copy));
    for name in world.tree("src").iter().filter(|name| *name != "link") {
        let (a, b) = (world.path("src").join(name), world.path(copy).join(name));
        let (of, copied) = (fs::metadata(&a).expect("there"), fs::metadata(&b).expect("there"));
        assert_eq!(of.mtime(), copied.mtime(), "{name}");
        if of.is_file() {
            assert!(fs::read(a).expect("read") == fs::read(b).expect("read"), "{name}");
        }
    }
    assert_eq!(fs::read_link(world.path(copy).join("link")).expect("a link").to_str(), Some("large"));
}

#[test]
fn movers_share_a_copy_there_and_back_by_a_service_of_its_own() {
    let world = World::new();
    tree(&world);
    let endpoint = world.endpoint("there", &[]);
    let (code, summary) = world.json(&["spread", "src", &endpoint.at("in/"), "--movers", "3", "-q"]);
    assert_eq!(
        (code, &summary["status"], &summary["files"]["ok"]),
        (0, &json!("complete"), &json!(63)),
        "{summary}"
    );
    assert_same(&world, "there/in/src");
    // Nothing is left of it, and nothing is moved again.
    assert!(!world.path("there/in/.tidegate").exists());
    let (code, summary) = world.json(&["spread", "src", &endpoint.at("in/"), "-q"]);
    assert_eq!((code, &summary["files"]["total"], &summary["bytes"]), (0, &json!(0), &json!(0)), "{summary}");
    let back = ["spread", &endpoint.at("in/src/"), "back/", "--movers", "2", "--max-streams", "3", "-q"];
    assert_eq!(world.json(&back).0, 0);
    assert_same(&world, "back");
    let ran = world.run(&["spread", "src/large", "one", "-q"]);
    assert_eq!((ran.code, &ran.err[..]), (0, ""), "{ran:?}");
    assert!(world.read("one") == world.read("src/large"));
}

#[test]
fn what_nobody_can_move_is_set_aside_and_told() {
    let world = World::new();
    tree(&world);
    let endpoint = world.endpoint("there", &[]);
    world.write("there/in/src/d1/f1/in-the-way", "x");
    let service = Service::start(&world, "svc", &[]);
    let (code, summary) =
        service.json(&world, &["spread", "src", &endpoint.at("in/"), "--movers", "2", "-q"]);
    let files = &summary["files"];
    assert_eq!((code, &files["ok"], &files["failed"]), (1, &json!(62), &json!(1)), "{summary}");
    assert_eq!(summary["failures"][0]["path"], "d1/f1", "{summary}");
    let job = service.job(&world, 1);
    assert_eq!((&job["state"], &job["request"]["kind"]), (&json!("failed"), &json!("spread")), "{job}");
    assert!(!job.to_string().contains(endpoint.address.split(['/', '@']).nth(2).expect("a ticket")), "{job}");
}

#[test]
fn a_mover_that_never_can_run_says_why_and_is_not_started_again() {
    let world = World::new();
    let service = Service::start(&world, "svc", &[]);
    world.write("token", "0123456789abcdef\n");
    let mover = |more: &[&str]| {
        let ran =
            finish(world.command().args(["mover", "--service", &service.url, "--token-file"]).args(more));
        assert_eq!((ran.code, ran.err.lines().count()), (78, 1), "{more:?}: {ran:?}");
        ran.err
    };
    assert!(mover(&["nowhere"]).contains("cannot read nowhere"));
    fs::set_permissions(world.path("token"), fs::Permissions::from_mode(0o640)).expect("set");
    assert!(mover(&["token"]).contains("chmod 600"));
    fs::set_permissions(world.path("token"), fs::Permissions::from_mode(0o600)).expect("set");
    assert!(mover(&["token"]).contains("opens no run"));
    world.write("empty", "");
    fs::set_permissions(world.path("empty"), fs::Permissions::from_mode(0o600)).expect("set");
    assert!(mover(&["empty"]).contains("holds no token"));
    for (words, wanted) in [
        (&["spread", "src", "there/", "--movers", "0"][..], "--movers"),
        (&["spread", "src"], "a source and a destination"),
        (&["spread", "src", "there/", "--option=--bogus"], "--bogus"),
    ] {
        let ran = world.run(words);
        assert!(
            ran.code == 2 && ran.err.contains(wanted) && ran.err.lines().count() == 1,
            "{words:?}: {ran:?}"
        );
    }
}

/// Movers by hand, beside one that `spread` has started.
fn mover(world: &World, service: &Service, job: u64) -> Child {
    let token = world.path(format!("svc/movers/{job}.token"));
    let mut command = world.command();
    command.args(["mover", "--service", &service.url, "--token-file"]).arg(token);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started")
}

#[test]
#[ignore = "waits for a lease of a minute: make long"]
fn a_mover_that_is_killed_or_stopped_beyond_its_lease_costs_nothing_but_time() {
    let world = World::new();
    tree(&world);
    // Files for more shards than there are movers: a mover that has claimed one keeps it.
    for file in 0..4000 {
        world.fill(format!("src/more/{file}"), 8_000, 1000 + file);
    }
    let endpoint = world.endpoint("there", &[]);
    let service = Service::start(&world, "svc", &[]);
    let arguments = ["spread", "src/", &endpoint.at("in/"), "--json", "--option=--limit-link=4Mbit/s"];
    let mut spread = service.command(&world, &arguments);
    let spread = spread.stdout(Stdio::piped()).spawn().expect("started");
    eventually(|| world.path("svc/movers/1.token").exists());
    let mut movers = [mover(&world, &service, 1), mover(&world, &service, 1)];
    let holds = |mover: &Child| {
        let name = format!("-{}", mover.id());
        let job = service.job(&world, 1);
        let mut known = job["spread"]["movers"].as_array().into_iter().flatten();
        known.any(|mover| mover["name"].as_str().is_some_and(|n| n.ends_with(&name)) && mover["leases"] == 1)
    };
    eventually(|| movers.iter().all(holds));
    movers[0].kill().expect("killed");
    signal(movers[1].id(), Signal::STOP);
    // Until somebody else has what they had.
    eventually(|| !movers.iter().any(holds));
    signal(movers[1].id(), Signal::CONT);
    let ended = spread.wait_with_output().expect("waited for");
    let summary: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!(
        (&summary["status"], &summary["files"]["ok"]),
        (&json!("complete"), &json!(4063)),
        "{summary}"
    );
    for mut mover in movers {
        let _ = mover.kill();
        let _ = mover.wait();
    }
    // What the killed one had begun is kept apart from all that has a name, until it is cleaned away.
    world.ok(&["clean", "--older-than", "0s", "there/in"]);
    assert_same(&world, "there/in");
}
