//! `tidegate spread` and `tidegate mover`: one copy by several processes, as a user has it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::service::Service;
use crate::common::{Server, World, eventually, finish, signal};
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

#[test]
#[ignore = "waits for one service to take another's place: make long"]
fn runs_of_one_state_directory_share_a_service_that_outlives_the_first_of_them() {
    let world = World::new();
    let runs = [("fast", "8Mbit/s"), ("slow", "3Mbit/s")].map(|(name, rate)| {
        world.fill(format!("{name}/file"), 700_000, 5);
        let mut command = world.command();
        command.args(["spread", &format!("{name}/"), &format!("out/{name}/"), "--state", "svc", "--json"]);
        command.arg(format!("--option=--limit-link={rate}"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")
    });
    for (run, name) in runs.into_iter().zip(["fast", "slow"]) {
        let ran = run.wait_with_output().expect("waited");
        assert!(ran.status.success(), "{name}: {}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(world.read(format!("out/{name}/file")), world.read(format!("{name}/file")));
    }
    assert_eq!(fs::read_dir(world.path("svc/movers")).expect("listed").count(), 0, "a token is left");
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

/// Endpoints over the directories `roots`, as a pool of the name `dtn` whose tree is in `in`.
fn pool(world: &World, roots: &[&str], more: &[&str]) -> Vec<Server> {
    let mut words = vec!["remote".to_owned(), "pool".to_owned(), "dtn".to_owned()];
    let mut servers = Vec::new();
    for (number, root) in roots.iter().enumerate() {
        let server = world.endpoint(root, more);
        world.ok(&["remote", "add", &format!("dtn{number}"), &server.address]);
        words.push(format!("dtn{number}:/in"));
        servers.push(server);
    }
    world.ok(&words);
    servers
}

/// A directory under two names, for two endpoints.
fn one_directory_of_two_names(world: &World) {
    fs::create_dir_all(world.path("there/in")).expect("made");
    symlink("there", world.path("also")).expect("linked");
}

#[test]
fn a_pool_that_loses_an_endpoint_has_everything_nevertheless() {
    let world = World::new();
    tree(&world);
    for file in 0..1500 {
        world.fill(format!("src/more/{file}"), 8_000, 1000 + file);
    }
    one_directory_of_two_names(&world);
    let mut servers = pool(&world, &["there", "also"], &[]);
    let service = Service::start(&world, "svc", &[]);
    let words = ["spread", "src/", "dtn:/run/", "--movers", "2", "--json", "--option=--limit-link=5Mbit/s"];
    let spread = service.command(&world, &words).stdout(Stdio::piped()).spawn().expect("started");
    let job = || service.run(&world, &["job", "1", "--json"]).out;
    let movers = || {
        let job: Value = serde_json::from_str(&job()).unwrap_or_default();
        job["spread"]["movers"].as_array().cloned().unwrap_or_default()
    };
    let moves_by =
        |name: &str| movers().iter().any(|mover| mover["endpoint"] == name && mover["leases"] == 1);
    eventually(|| moves_by("dtn0:/in") && moves_by("dtn1:/in"));
    drop(servers.pop());
    let ended = spread.wait_with_output().expect("waited for");
    let summary: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let files = &summary["files"];
    assert_eq!((&summary["status"], &files["ok"]), (&json!("complete"), &json!(1563)), "{summary}");
    // What the endpoint had not finished when it was killed.
    world.ok(&["clean", "--older-than", "0s", "there/in"]);
    assert_same(&world, "there/in/run");
    assert!(movers().iter().all(|mover| mover["endpoint"] == "dtn0:/in"), "{}", job());
    // What others verified is compared by one that comes anew, and not sent again.
    symlink("there", world.path("too")).expect("linked");
    let third = world.endpoint("too", &[]);
    world.ok(&["remote", "add", "dtn2", &third.address]);
    world.ok(&["remote", "pool", "--replace", "dtn", "dtn2:/in"]);
    let inodes = || -> Vec<u64> {
        let names = world.tree("there/in/run").into_iter();
        let of = |name| fs::symlink_metadata(world.path("there/in/run").join(name)).expect("there").ino();
        names.map(of).collect()
    };
    let before = inodes();
    let (code, again) = service.json(&world, &["spread", "src/", "dtn:/run/", "-q"]);
    assert_eq!(
        (code, &again["status"], &again["files"]["ok"]),
        (0, &json!("complete"), &json!(1562)),
        "{again}"
    );
    assert!(inodes() == before, "files were replaced");
    let shown = service.job(&world, 1);
    assert_eq!(shown["request"]["destination"], "dtn:/run/");
    assert!(!shown.to_string().contains(servers[0].secret()), "{shown}");
}

#[test]
fn an_endpoint_of_a_pool_that_writes_nothing_is_left_out() {
    let world = World::new();
    for file in 0..1500 {
        world.fill(format!("src/{file}"), 8_000, 1000 + file);
    }
    one_directory_of_two_names(&world);
    let first = world.endpoint("there", &[]);
    // It bears the signal that comes with what the system refuses to write.
    let mut command = Command::new("sh");
    command.envs(world.command().get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_tidegate")]);
    let second = world.endpoint_by(command, "also", "127.0.0.1:0", &[]);
    for (name, endpoint) in [("dtn0", &first), ("dtn1", &second)] {
        world.ok(&["remote", "add", name, &endpoint.address]);
    }
    world.ok(&["remote", "pool", "dtn", "dtn0:/in", "dtn1:/in"]);
    let limited = Command::new("prlimit").args(["--fsize=0", "--pid", &second.id().to_string()]).status();
    assert!(limited.expect("begun").success());
    let service = Service::start(&world, "svc", &[]);
    let words = ["spread", "src/", "dtn:/run/", "--movers", "2", "--json", "--option=--limit-link=8Mbit/s"];
    let ended = service.run(&world, &words);
    let summary: Value = serde_json::from_str(&ended.out).expect("JSON");
    let files = &summary["files"];
    assert_eq!((&summary["status"], &files["ok"]), (&json!("complete"), &json!(1500)), "{summary}");
    assert!(ended.err.contains("dtn1:/in is left out for a while: "), "{}", ended.err);
    world.ok(&["clean", "--older-than", "0s", "there/in"]);
    assert_eq!(world.tree("src"), world.tree("there/in/run"));
}

#[test]
fn endpoints_of_a_pool_that_serve_different_trees_are_noticed_before_anything_moves() {
    let world = World::new();
    tree(&world);
    for root in ["there/in", "elsewhere/in"] {
        fs::create_dir_all(world.path(root)).expect("made");
    }
    let servers = pool(&world, &["there", "elsewhere"], &[]);
    let refused = |words: &[&str], wanted: &str| {
        let ran = world.run(words);
        let lines = ran.err.lines().count();
        assert!(ran.code == 2 && lines == 1 && ran.err.contains(wanted), "{words:?}: {ran:?}");
        assert!(!servers.iter().any(|server| ran.err.contains(server.secret())), "{ran:?}");
    };
    refused(&["spread", "src", "dtn:/", "-q"], "dtn0:/in and dtn1:/in serve different trees");
    for root in ["there", "elsewhere"] {
        assert_eq!(world.tree(root), ["in/"], "neither a file nor a mark");
    }
    refused(&["copy", "src", "dtn:/"], "only `tidegate spread` moves to or from");
    refused(&["remote", "pool", "of-pools", "dtn:/"], "only `tidegate spread`");
    refused(&["remote", "pool", "none", "nobody:/"], "no endpoint is called 'nobody'");
    refused(&["remote", "pool", "heavy", "dtn0:/in=0"], "the weight of an endpoint");
    refused(&["remote", "pool", "twice", "dtn0:/in", "dtn0:/in=2"], "is in the pool twice");
    refused(&["remote", "pool", "here", "/in"], "a pool needs an endpoint");
    world.ok(&["remote", "pool", "other", "dtn0:/in=3"]);
    refused(&["spread", "dtn:/a", "other:/b", "here/", "-q"], "one pool moves in one run");
    assert!(world.ok(&["remote", "list"]).contains("other  pool of dtn0:/in=3"));
}

#[test]
fn a_pool_that_may_only_be_read_is_compared_and_who_does_not_answer_is_left_out() {
    let world = World::new();
    one_directory_of_two_names(&world);
    world.fill("there/in/run/one", 100_000, 1);
    world.fill("there/in/run/two", 5_000, 2);
    fs::create_dir_all(world.path("gone")).expect("made");
    let mut servers = pool(&world, &["there", "also", "gone"], &["--read-only"]);
    drop(servers.pop());
    let ran = world.run(&["spread", "dtn:/run/", "back/", "--movers", "2", "-q"]);
    let lines: Vec<_> = ran.err.lines().collect();
    assert_eq!((ran.code, lines.len()), (0, 2), "{ran:?}");
    assert!(lines[0].contains("dtn2:/in is left out of this run"), "{ran:?}");
    assert!(lines[1].contains("cannot be proved") && lines[1].contains("is alike"), "{ran:?}");
    for file in ["one", "two"] {
        assert!(world.read(format!("back/{file}")) == world.read(format!("there/in/run/{file}")), "{file}");
    }
    drop(servers);
    let ran = world.run(&["spread", "dtn:/run/", "back/", "-q"]);
    let last = ran.err.lines().last().unwrap_or_default();
    assert!(ran.code != 0 && last.contains("no endpoint of the pool dtn answers"), "{ran:?}");
}

/// A program of that name in the world, for movers.
fn script(world: &World, name: &str, text: &str) -> String {
    world.write(name, format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(world.path(name), fs::Permissions::from_mode(0o755)).expect("set");
    world.text(name)
}

#[test]
fn an_engine_that_gives_fewer_movers_than_asked_does_and_one_that_gives_none_is_said() {
    let world = World::new();
    tree(&world);
    let program = env!("CARGO_BIN_EXE_tidegate");
    let service = Service::start(&world, "svc", &[]);
    // The first that comes may run, and the engine has no host for the others.
    let taken = world.text("taken");
    let one =
        script(&world, "one", &format!("mkdir '{taken}' 2>/dev/null || exit 78\nexec {program} \"$@\""));
    let words = ["spread", "src/", "one-of-three/", "--movers", "3", "--mover-path", &one, "-q"];
    let (code, summary) = service.json(&world, &words);
    assert_eq!((code, &summary["files"]["ok"]), (0, &json!(63)), "{summary}");
    assert_same(&world, "one-of-three");
    let job = service.job(&world, 1);
    assert_eq!(job["spread"]["movers"].as_array().map(Vec::len), Some(1), "{job}");
    let none = script(&world, "none", "exit 78");
    let ran =
        service.run(&world, &["spread", "src/", "nobody/", "--movers", "2", "--mover-path", &none, "-q"]);
    assert_eq!((ran.code, ran.err.lines().count()), (1, 1), "{ran:?}");
    assert!(ran.err.contains("shards wait and nobody moves them"), "{ran:?}");
    assert!(!world.path("nobody").exists());
    assert_eq!(service.job(&world, 2)["state"], "cancelled");
}

#[test]
fn a_mover_of_another_version_ends_for_good() {
    let world = World::new();
    let service = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://{}", service.local_addr().expect("bound"));
    let answering = thread::spawn(move || {
        let (stream, _) = service.accept().expect("asked");
        let mut asked = BufReader::new(stream);
        let mut line = String::new();
        let mut length = 0;
        while asked.read_line(&mut line).is_ok_and(|read| read > 2) {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
            line.clear();
        }
        let mut body = vec![0; length];
        asked.read_exact(&mut body).expect("a body");
        let why = json!({"status": 400, "detail": "the mover is of version 2, and the service of 1",
            "advice": "install the same version on all hosts"});
        let why = why.to_string();
        let head =
            format!("HTTP/1.1 400 Bad Request\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", why.len());
        asked.get_mut().write_all((head + &why).as_bytes()).expect("answered");
        serde_json::from_slice::<Value>(&body).expect("JSON")
    });
    world.write("token", "0123456789abcdef\n");
    fs::set_permissions(world.path("token"), fs::Permissions::from_mode(0o600)).expect("set");
    let ran = world.run(&["mover", "--service", &url, "--token-file", "token"]);
    let wanted = "the mover is of version 2, and the service of 1: install the same version on all hosts";
    assert!(ran.code == 78 && ran.err.lines().count() == 1 && ran.err.contains(wanted), "{ran:?}");
    assert_eq!(answering.join().expect("no panic")["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_mover_whose_clock_is_an_hour_off_keeps_its_lease() {
    let test = "a_mover_whose_clock_is_an_hour_off_keeps_its_lease";
    if !testkit::has(test, &["faketime"]) {
        return;
    }
    let world = World::new();
    tree(&world);
    let endpoint = world.endpoint("there", &[]);
    let service = Service::start(&world, "svc", &[]);
    let (program, clock) = (env!("CARGO_BIN_EXE_tidegate"), world.text("clock"));
    let off = format!("faketime -f +1h date +%s >'{clock}'\nexec faketime -f +1h {program} \"$@\"");
    let off = script(&world, "off", &off);
    let to = endpoint.at("in/");
    // So slow that the lease is renewed.
    let slow = "--option=--limit-link=5Mbit/s";
    let (code, summary) = service.json(&world, &["spread", "src/", &to, "--mover-path", &off, slow, "-q"]);
    assert_eq!((code, &summary["files"]["ok"]), (0, &json!(63)), "{summary}");
    assert_same(&world, "there/in");
    let ahead = String::from_utf8(world.read("clock")).expect("text").trim().parse::<u64>().expect("a time");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    assert!(ahead > now + 1800, "the mover's clock was {ahead} before {now}");
    let job = service.job(&world, 1);
    let silent = job["spread"]["movers"][0]["silent_ms"].as_u64().expect("heard");
    assert!(silent < 1_800_000, "by the database's clock, and not by the mover's: {job}");
}
