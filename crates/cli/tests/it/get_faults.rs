//! What `tidegate get` leaves behind when it is killed, interrupted, or out of room, and how it goes on.
//!
//! Every run prints its seed; `TIDEGATE_SEED` repeats one. `TIDEGATE_LONG=1` makes more kills.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::common::{World, eventually, finish, journal, signal, wait};
use rustix::process::Signal;
use testkit::mounted::Mounted;
use testkit::nginx::Nginx;
use testkit::scripted::{Scripted, Then, http};
use testkit::skip;
use tidegate_fetch::checksum::{Algorithm, Hashers};

const LARGE: usize = 24 << 20;

/// Slow enough that a signal finds it at work.
const SLOW: [&str; 8] = ["--limit-rate", "96Mbit/s", "--staging", "1MiB", "--fixed", "4", "--epoch", "100ms"];

/// Two large files and some small ones on an nginx, and a list of them with their sums.
struct Lab {
    world: World,
    _nginx: Nginx,
    names: Vec<String>,
}

impl Lab {
    fn new(test: &str, seed: u64) -> Option<Self> {
        let world = World::new();
        let mut names: Vec<String> = (0..2).map(|i| format!("large{i}")).collect();
        names.extend((0..10).map(|i| format!("small{i}")));
        for (i, name) in names.iter().enumerate() {
            let size = if name.starts_with("large") { LARGE } else { 1000 * i };
            world.fill(format!("www/{name}"), size, seed + i as u64);
        }
        let Some(nginx) = Nginx::start(&world.path("www")) else {
            skip(test, "nginx is not installed");
            return None;
        };
        let line = |name: &String| {
            let mut hashers = Hashers::new([Algorithm::Md5]);
            hashers.update(&world.read(format!("www/{name}")));
            let sum = hashers.finish().hex(Algorithm::Md5).expect("computed");
            format!("{}\n  checksum=md5={sum}\n", nginx.url(name))
        };
        let list: String = names.iter().map(line).collect();
        world.write("larges", list.lines().take(4).map(|line| format!("{line}\n")).collect::<String>());
        world.write("list", list);
        Some(Self { world, _nginx: nginx, names })
    }

    fn start(&self, list: &str) -> Child {
        let mut command = self.world.command();
        command.args(["get", list, "-o", "out"]).args(SLOW).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("started")
    }

    /// Whatever has its final name is whole.
    fn check_names(&self) -> usize {
        let there = self.names.iter().filter(|name| self.world.path(format!("out/{name}")).exists());
        there.inspect(|name| self.check(name)).count()
    }

    fn check(&self, name: &str) {
        let same = self.world.read(format!("out/{name}")) == self.world.read(format!("www/{name}"));
        assert!(same, "{name} differs");
    }

    fn finish(&self) -> serde_json::Value {
        let (code, all) = self.world.json(&["get", "list", "-o", "out"]);
        assert_eq!((code, &all["status"], &all["verified"]), (0, &"complete".into(), &true.into()), "{all}");
        assert_eq!(self.check_names(), self.names.len());
        let mut tree = self.world.tree("out");
        tree.retain(|name| !self.names.contains(name));
        assert_eq!(tree, ["md5sums.txt"], "nothing else is left");
        all
    }
}

fn seed() -> u64 {
    let chosen = std::env::var("TIDEGATE_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let seed = chosen.unwrap_or_else(|| u64::from(now.subsec_nanos()));
    println!("seed {seed}");
    seed
}

#[test]
fn killed_again_and_again_it_goes_on() {
    let seed = seed();
    let Some(lab) = Lab::new("killed_again_and_again_it_goes_on", seed) else { return };
    let mut random = tidegate_control::rng::Rng::new(seed);
    let kills = if testkit::is_long() { 30 } else { 3 };
    for kill in 0..kills {
        let mut child = lab.start("list");
        std::thread::sleep(Duration::from_millis(50 + random.next_u64() % 2500));
        child.kill().expect("killed");
        child.wait().expect("waited");
        let there = lab.check_names();
        println!("kill {kill}: {there} files are there");
        assert!(!lab.world.path("out/failed.txt").exists());
    }
    let moved = lab.finish()["bytes"].as_u64().expect("a number");
    println!("moved {moved} bytes at last");
    assert!(moved <= 2 * LARGE as u64 + 100_000);
}

#[test]
fn what_was_written_down_before_a_kill_is_not_fetched_again() {
    let Some(lab) = Lab::new("what_was_written_down_before_a_kill_is_not_fetched_again", 3) else { return };
    let mut child = lab.start("larges");
    // A record of segments has 70 bytes or more, and what else a journal says of two files has less in all.
    eventually(|| journal(&lab.world.path("out/.tidegate")) > 130);
    child.kill().expect("killed");
    child.wait().expect("waited");
    lab.check_names();
    let moved = lab.finish()["bytes"].as_u64().expect("a number");
    println!("moved {moved} bytes at last");
    assert!(moved <= 2 * LARGE as u64 + 100_000 - (4 << 20), "{moved}");
}

#[test]
fn interrupted_it_says_so_and_goes_on() {
    let Some(lab) = Lab::new("interrupted_it_says_so_and_goes_on", 1) else { return };
    for sent in [Signal::INT, Signal::TERM] {
        let child = lab.start("list");
        std::thread::sleep(Duration::from_millis(1900));
        // A record of segments has 70 bytes or more, and what else a journal says of two files has less in all.
        eventually(|| journal(&lab.world.path("out/.tidegate")) > 130);
        signal(child.id(), sent);
        let ran = wait(child);
        assert_eq!(ran.code, 130, "{ran:?}");
        assert!(ran.err.contains("interrupted; run the same command again"), "{ran:?}");
        assert!(ran.out.starts_with("interrupted: "), "{ran:?}");
        assert!(
            ran.out.contains("of unfinished files kept: the same command continues with them"),
            "{ran:?}"
        );
        lab.check_names();
    }
    let all = lab.finish();
    // Two runs of more than a second each have brought something that is not fetched again.
    let moved = all["bytes"].as_u64().expect("a number");
    assert!(moved < 2 * LARGE as u64 - (4 << 20), "{moved} bytes were moved at last");
    // Once more there is nothing to do.
    let ran = lab.world.run(&["get", "list", "-o", "out"]);
    assert!(ran.code == 0 && ran.out.starts_with("nothing to do: 12 files there already"), "{ran:?}");
}

#[test]
fn a_server_that_says_nothing_does_not_keep_it_from_ending() {
    let server =
        Scripted::http(|_| (http("200 OK", &[("Content-Length", "1000000")], b"a beginning"), Then::Hang));
    let world = World::new();
    let mut command = world.command();
    command
        .args(["get", server.url("x").as_str(), "-o", "out"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().expect("started");
    std::thread::sleep(Duration::from_millis(700));
    signal(child.id(), Signal::INT);
    let ran = wait(child);
    assert_eq!(ran.code, 130, "{ran:?}");
    assert!(!world.path("out/x").exists());

    // Left alone it gives up by itself.
    let server = Scripted::http(|_| (http("200 OK", &[("Content-Length", "1000000")], b""), Then::Hang));
    let url = server.url("x").to_string();
    let (code, all) = world.json(&["get", &url, "-o", "out", "--timeout", "200ms", "--retries", "1"]);
    assert_eq!((code, &all["failures"][0]["kind"]), (1, &"connection".into()), "{all}");
}

#[test]
fn a_server_that_goes_away_is_waited_for_and_said_to_be_at_once() {
    for comes_back in [true, false] {
        // Away is who takes connections and answers nothing: the port stays ours.
        let away = Arc::new(AtomicBool::new(false));
        let is_away = Arc::clone(&away);
        let server = Scripted::http(move |request| match request.number {
            0 => {
                is_away.store(true, Relaxed);
                (http("200 OK", &[("Content-Length", "9")], b"half"), Then::Close)
            }
            _ if is_away.load(Relaxed) => (Vec::new(), Then::Reset),
            _ => (http("200 OK", &[("Content-Length", "9")], b"the whole"), Then::Keep),
        });
        let world = World::new();
        let mut command = world.command();
        command.args(["get", server.url("x").as_str(), "-o", "out", "--no-sidecars"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
        let waits =
            said.find(|line| line.as_ref().is_ok_and(|line| line.contains("trying again for up to 1 hour")));
        assert!(waits.is_some_and(|line| line.is_ok_and(|line| line.contains(server.url("x").as_str()))));
        if comes_back {
            away.store(false, Relaxed);
        } else {
            signal(child.id(), Signal::INT);
        }
        let rest: Vec<String> = said.map(|line| line.expect("text")).collect();
        let code = child.wait().expect("waited").code();
        assert_eq!(code, Some(if comes_back { 0 } else { 130 }), "{rest:?}");
        assert_eq!(world.path("out/x").exists(), comes_back);
        if comes_back {
            assert_eq!(world.read("out/x"), b"the whole");
        }
    }
}

#[test]
fn a_full_disk_is_told_of_and_room_lets_it_go_on() {
    let Some(lab) = Lab::new("a_full_disk_is_told_of_and_room_lets_it_go_on", 2) else { return };
    let out = lab.world.path("out");
    let Some(_mounted) = Mounted::tmpfs(&out, "size=80m") else {
        return skip("a_full_disk_is_told_of_and_room_lets_it_go_on", "mounting a tmpfs needs root");
    };
    fs::write(out.join("ballast"), vec![0; 45 << 20]).expect("written");
    let (code, all) = lab.world.json(&["get", "list", "-o", "out"]);
    assert_eq!(code, 4, "{all}");
    assert!(all.to_string().contains("no_space"), "{all}");
    lab.check_names();
    fs::remove_file(out.join("ballast")).expect("removed");
    // The large ones failed before and are asked for by what was written.
    let ran = lab.world.run(&["get", "list", "-o", "out"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(lab.check_names(), lab.names.len());
    assert!(!out.join("failed.txt").exists());
}

#[test]
fn a_directory_that_may_not_be_written_is_told_of_first() {
    let world = World::new();
    let place = world.path("out");
    let Some(_mounted) = Mounted::tmpfs(&place, "ro") else {
        return skip("a_directory_that_may_not_be_written_is_told_of_first", "mounting a tmpfs needs root");
    };
    let server = Scripted::http(|_| (http("200 OK", &[("Content-Length", "1")], b"x"), Then::Keep));
    let ran = world.run(&["get", server.url("x").as_str(), "-o", "out"]);
    assert!(ran.code == 5 && ran.err.contains("Read-only file system"), "{ran:?}");
    assert!(server.requests().is_empty(), "nothing was asked for");
    let ran = finish(world.command().args(["get", server.url("x").as_str(), "-o", "out", "--no-sidecars"]));
    assert!(ran.code == 5 && ran.err.contains("Read-only file system"), "{ran:?}");
}
