//! `tidegate spread` of a large file, ranges of which several movers write into one unfinished file.

use crate::common;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::counter::Counter;
use crate::common::service::Service;
use crate::common::{Ran, World, eventually, signal};
use rustix::process::Signal;
use serde_json::{Value, json};
use tidegate_control::Rng;

/// Of no whole number of segments, nor of blocks: more than three movers are given at first, even where one of them has found
/// out how fast it is; and more than one is given.
const LARGE: u64 = 200_000_077;
const LESS: u64 = 90_000_077;
const SMALL: u64 = 20;

/// How long a lease holds here.
const TERM: Duration = Duration::from_secs(4);

/// What a copy at this rate may have on its way when it dies, and in segments that are not whole.
const OPTIONS: [&str; 3] =
    ["--option=--limit-link=100Mbit/s", "--option=--staging=1MiB", "--option=--optimizer=fixed:2"];
const ON_ITS_WAY: u64 = 20_000_000;

/// What one moves in a second, which is how often what is durable is recorded.
const A_SECOND: u64 = 12_500_000;

/// A file of so many bytes without any two alike segments, some small ones, and an empty directory.
fn tree(world: &World, large: u64) {
    world.fill("block", 1 << 20, 5);
    let block = world.read("block");
    fs::create_dir_all(world.path("src/empty")).expect("made");
    let mut file = fs::File::create(world.path("src/large")).expect("made");
    let mut left = large as usize;
    for number in 0u64.. {
        file.write_all(&number.to_le_bytes()[..left.min(8)]).expect("written");
        left = left.saturating_sub(8);
        let more = left.min(block.len());
        file.write_all(&block[..more]).expect("written");
        left -= more;
        if left == 0 {
            break;
        }
    }
    for file in 0..SMALL {
        world.fill(format!("src/d{}/f{file}", file % 3), 1000 * (file as usize + 1), file + 1);
    }
}

fn assert_same(world: &World, source: &str, copy: &str) {
    assert_eq!(world.tree(source), world.tree(copy));
    for name in world.tree(source).iter().filter(|name| !name.ends_with('/')) {
        let (a, b) = (world.path(source).join(name), world.path(copy).join(name));
        let times = [&a, &b].map(|path| fs::metadata(path).expect("there").modified().expect("known"));
        assert_eq!(times[0], times[1], "{name}");
        assert!(fs::read(a).expect("read") == fs::read(b).expect("read"), "{name}");
    }
}

/// How many movers have moved more than all small files are.
fn movers_of_ranges(job: &Value) -> usize {
    let movers = job["spread"]["movers"].as_array().into_iter().flatten();
    movers.filter(|mover| mover["bytes"].as_u64().is_some_and(|bytes| bytes > 10_000_000)).count()
}

fn assert_complete(ended: &Ran, large: u64, small: u64) {
    let summary: Value = serde_json::from_str(&ended.out).unwrap_or_default();
    let (files, bytes) = (small + 1, large + (1..=small).map(|file| 1000 * file).sum::<u64>());
    assert_eq!((ended.code, &summary["status"]), (0, &json!("complete")), "{ended:?}");
    assert_eq!((&summary["files"]["ok"], &summary["bytes"]), (&json!(files), &json!(bytes)), "{summary}");
}

/// A copy to an endpoint by one mover of its own and two others, and what counts its bytes.
struct Running {
    world: World,
    service: Service,
    spread: Child,
    movers: [Child; 2],
    counter: Counter,
    endpoint: Option<common::Server>,
}

impl Running {
    fn begin() -> Self {
        let (world, counter) = (World::new(), Counter::start());
        tree(&world, LARGE);
        let endpoint = endpoint(&world, &counter);
        let to = format!("tg://{}@127.0.0.1:{}/in/", endpoint.secret(), counter.port());
        let service = Service::start(&world, "svc", &["--lease-term", &format!("{}s", TERM.as_secs())]);
        let mut command = service.command(&world, &["spread", "src/", &to, "--json"]);
        let spread = command.args(OPTIONS).stdout(Stdio::piped()).spawn().expect("started");
        eventually(|| world.path("svc/movers/1.token").exists());
        let mover = || {
            let mut command = world.command();
            command.args(["mover", "--service", &service.url, "--token-file"]);
            command.arg(world.path("svc/movers/1.token")).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().expect("started")
        };
        let movers = [mover(), mover()];
        let running = Self { world, service, spread, movers, counter, endpoint: Some(endpoint) };
        eventually(|| running.movers.iter().all(|mover| running.holds(mover)));
        running
    }

    fn job(&self) -> Value {
        self.service.job(&self.world, 1)
    }

    fn holds(&self, mover: &Child) -> bool {
        let name = format!("-{}", mover.id());
        let job = self.job();
        let mut known = job["spread"]["movers"].as_array().into_iter().flatten();
        known.any(|mover| mover["name"].as_str().is_some_and(|n| n.ends_with(&name)) && mover["leases"] == 1)
    }

    /// Waits until so much has passed on the way to the endpoint.
    fn has_moved(&self, bytes: u64) {
        eventually(|| self.counter.bytes() > bytes);
    }

    /// Waits for the end: everything is there once, at least so many movers had a part of it, and little was sent again;
    /// answers with how much.
    fn ends(self, movers: usize, again: u64) -> u64 {
        let job = self.job();
        let ended = common::wait_within(self.spread, Duration::from_secs(120));
        for mut mover in self.movers {
            let _ = mover.kill();
            let _ = mover.wait();
        }
        assert_complete(&ended, LARGE, SMALL);
        let after = self.service.job(&self.world, 1);
        assert!(movers_of_ranges(&after) >= movers, "{job}\n{after}");
        let moved = self.counter.bytes();
        assert!(moved < LARGE + again, "{moved} bytes were sent of {LARGE}");
        // What the dead one had begun is kept apart from all that has a name, until it is cleaned away.
        self.world.ok(&["clean", "--older-than", "0s", "there/in"]);
        assert_same(&self.world, "src", "there/in");
        moved.saturating_sub(LARGE)
    }
}

/// An endpoint that serves `there`, and that the way leads to from now on.
fn endpoint(world: &World, counter: &Counter) -> common::Server {
    let endpoint = world.endpoint("there", &[]);
    let port = endpoint.place().rsplit(':').next().and_then(|port| port.parse().ok());
    counter.lead_to(port.expect("a port"));
    endpoint
}

#[test]
#[ignore = "some copies of ten seconds and more each: make long"]
fn a_large_file_survives_whatever_dies() {
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).ok().and_then(|word| word.parse().ok()).unwrap_or(otherwise)
    };
    let (first, runs) = (number("TIDEGATE_SEED", 1), number("TIDEGATE_RUNS", 12));
    for seed in first..first + runs {
        let mut rng = Rng::new(seed);
        let mut running = Running::begin();
        let (mut bound, mut moved) = (ON_ITS_WAY, 0);
        let mut told = format!("seed {seed}:");
        for _ in 0..rng.integer(1, 2) {
            moved += u64::from(rng.integer(5, 55)) * 1_000_000;
            running.has_moved(moved);
            let mover = usize::from(rng.integer(0, 1));
            match rng.integer(0, 2) {
                0 => {
                    told += &format!(" at {moved} mover {mover} is killed;");
                    running.movers[mover].kill().expect("killed");
                    bound += ON_ITS_WAY;
                }
                1 => {
                    told += &format!(" at {moved} mover {mover} is stopped;");
                    signal(running.movers[mover].id(), Signal::STOP);
                    thread::sleep(TERM + Duration::from_secs(1));
                    signal(running.movers[mover].id(), Signal::CONT);
                    bound += ON_ITS_WAY;
                }
                _ => {
                    told += &format!(" at {moved} the endpoint is killed;");
                    drop(running.endpoint.take());
                    running.endpoint = Some(endpoint(&running.world, &running.counter));
                    // What each mover has sent since what was last made durable.
                    bound += 3 * (ON_ITS_WAY + A_SECOND);
                }
            }
        }
        println!("{told}");
        println!("  {} bytes again of at most {bound}", running.ends(1, bound));
    }
}

#[test]
fn a_large_file_is_moved_by_several_and_one_that_is_killed_costs_what_was_on_its_way() {
    let mut running = Running::begin();
    running.has_moved(60_000_000);
    running.movers[0].kill().expect("killed");
    running.ends(2, 2 * ON_ITS_WAY);
}

#[test]
#[ignore = "waits beyond several leases: make long"]
fn movers_that_are_stopped_beyond_their_leases_and_go_on_write_nothing_more() {
    for moved in [15_000_000, 40_000_000, 75_000_000] {
        let running = Running::begin();
        running.has_moved(moved);
        for mover in &running.movers {
            signal(mover.id(), Signal::STOP);
        }
        // Until somebody else has what they had.
        eventually(|| !running.movers.iter().any(|mover| running.holds(mover)));
        thread::sleep(TERM);
        for mover in &running.movers {
            signal(mover.id(), Signal::CONT);
        }
        running.ends(2, 3 * ON_ITS_WAY);
    }
}

/// What lies in the directory of unfinished work at `copy`.
fn left_over(world: &World, copy: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(world.path(copy).join(".tidegate")).into_iter().flatten();
    entries.map(|entry| entry.expect("listed").path()).collect()
}

#[test]
fn hosts_that_share_file_systems_or_a_pool_move_a_large_file_together() {
    let world = World::new();
    tree(&world, LESS);
    fs::create_dir_all(world.path("there/in")).expect("made");
    symlink("there", world.path("also")).expect("linked");
    let endpoints = [world.endpoint("there", &[]), world.endpoint("also", &[])];
    for (name, endpoint) in ["dtn0", "dtn1"].iter().zip(&endpoints) {
        world.ok(&["remote", "add", name, &endpoint.address]);
    }
    world.ok(&["remote", "pool", "dtn", "dtn0:/in", "dtn1:/in"]);
    let service = Service::start(&world, "svc", &[]);
    let limit = "--option=--limit-link=400Mbit/s";
    // The large one only: of a mover that has moved small ones it may be known that it needs no help with a large one.
    fs::create_dir(world.path("alone")).expect("made");
    fs::hard_link(world.path("src/large"), world.path("alone/large")).expect("linked");
    for (job, (from, to)) in
        (1..).zip([("alone/", "dtn:/run/"), ("dtn:/run/", "back/"), ("alone/", "local/")])
    {
        let words = ["spread", from, to, "--movers", "2", "--json", limit];
        assert_complete(&service.run(&world, &words), LESS, 0);
        let job = service.job(&world, job);
        // Two ranges and what completes the file: who comes first may have moved all of them.
        assert!(job["spread"]["shards"].as_u64() >= Some(3), "{job}");
    }
    let words = ["spread", "src/", "dtn:/all/", "--movers", "2", "--json", limit];
    assert_complete(&service.run(&world, &words), LESS, SMALL);
    assert_same(&world, "src", "there/in/all");
    for copy in ["there/in/run", "back", "local"] {
        assert_same(&world, "alone", copy);
    }
    for copy in ["there/in/all", "there/in/run", "back", "local"] {
        assert_eq!(left_over(&world, copy), Vec::<PathBuf>::new());
    }
    // A file by itself, under another name.
    let ran = service.run(&world, &["spread", "src/large", "one", "--movers", "2", "-q", limit]);
    assert_eq!((ran.code, &ran.err[..]), (0, ""), "{ran:?}");
    assert!(world.read("one") == world.read("src/large"));
}
