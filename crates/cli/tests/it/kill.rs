//! Real processes that are killed at random moments, and what they cost in memory.
//!
//! Every run prints its seed; `TIDEGATE_SEED` repeats one. The long mode (`TIDEGATE_LONG=1`, or
//! `--include-ignored`) makes at least fifty runs of each sort and copies 100,000 files.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::common::counter::Counter;
use serde_json::Value;
use testkit::noise;
use tidegate_control::Rng;

/// What a killed run may cost at most: staging at both ends (1 MiB each) and sockets, one checkpoint
/// (1 s at 8 MB/s, and as much again for a slow disk), and the begun segments (4 MiB) of two readers.
const COST_OF_A_KILL: u64 = (8 << 20) + 2 * 8_000_000 + 2 * (4 << 20);

/// Slow enough that a kill finds it at work, and with little in flight.
const THROTTLED: [&str; 8] =
    ["--limit-link", "64Mbit/s", "--staging", "1MiB", "--optimizer", "fixed:2", "--epoch", "100ms"];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Sender,
    Receiver,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Route {
    Push,
    Pull,
}

/// A child that does not outlive the test.
struct Process(Child);

impl Process {
    fn peak(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
    }

    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

struct World {
    scratch: tempfile::TempDir,
    counter: Counter,
}

impl World {
    fn new() -> Self {
        Self { scratch: tempfile::tempdir().expect("a directory"), counter: Counter::start() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.stdin(Stdio::null()).env_remove("TIDEGATE_LOG").env_remove("TIDEGATE_STATE");
        command
    }

    /// Starts the endpoint for `root`; answers with the address as seen through the counter.
    fn endpoint(&self, root: &Path) -> (Process, String) {
        let child = self
            .command()
            .args(["endpoint", "--listen", "127.0.0.1:0", "--data-plane", "clear"])
            .arg("--root")
            .arg(root)
            .arg("--state")
            .arg(self.path("endpoint-state"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let mut process = Process(child);
        let mut line = String::new();
        let out = process.0.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("a ticket");
        let (ticket, rest) = line.trim().rsplit_once(':').expect("a port");
        let port = rest.trim_end_matches('/').parse().expect("a number");
        self.counter.lead_to(port);
        (process, format!("{ticket}:{}/", self.counter.port()))
    }

    fn copy(&self, from: &str, to: &str, more: &[&str]) -> Process {
        let child = self
            .command()
            .args(["copy", "--json", "--data-plane", "clear"])
            .args(more)
            .arg("--state")
            .arg(self.path("copy-state"))
            .args([from, to])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        Process(child)
    }
}

type Tree = BTreeMap<PathBuf, Vec<u8>>;

fn read_tree(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(path) = todo.pop() {
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_name() == ".tidegate" {
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => todo.push(path),
                Ok(_) => {
                    let Ok(bytes) = fs::read(&path) else { continue };
                    tree.insert(path.strip_prefix(root).expect("beneath").to_owned(), bytes);
                }
                Err(_) => {}
            }
        }
    }
    tree
}

fn write_tree(root: &Path, tree: &Tree) {
    for (name, bytes) in tree {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, bytes).expect("written");
    }
}

/// One transfer that is killed `kills` times and then run to its end.
fn run(route: Route, victim: Victim, seed: u64) {
    println!("seed {seed}: {route:?}, the {victim:?} is killed");
    let mut random = Rng::new(seed);
    let world = World::new();
    let (source, target) = (world.path("source"), world.path("target"));
    let mut new = Tree::new();
    new.insert("tree/large".into(), noise(random.next_u64(), 9_000_000));
    new.insert("tree/old-large".into(), noise(random.next_u64(), 4_200_000));
    for i in 0..60 {
        let size = random.below(20_000) as usize;
        new.insert(format!("tree/small/{i}").into(), noise(random.next_u64(), size));
    }
    // Old content under some of the names.
    let mut old = Tree::new();
    for name in ["tree/old-large", "tree/small/3", "tree/small/7"] {
        old.insert(name.into(), noise(random.next_u64(), 10_000));
    }
    write_tree(&source, &new);
    write_tree(&target, &old);
    let total: u64 = new.values().map(|bytes| bytes.len() as u64).sum();
    let root = if route == Route::Push { &target } else { &source };
    let (mut endpoint, address) = world.endpoint(root);
    let (from, to) = match route {
        Route::Push => (format!("{}/", source.display()), address),
        Route::Pull => (address, format!("{}/", target.display())),
    };
    let remote_is_victim = (route == Route::Push) == (victim == Victim::Receiver);
    let kills = 1 + random.below(2);
    let mut killed = 0;
    let mut attempts = 0;
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        assert!(Instant::now() < deadline, "seed {seed}: no end in sight");
        attempts += 1;
        let mut copy = world.copy(&from, &to, &THROTTLED);
        if killed < kills {
            // At a random moment, or a random number of bytes after the last kill.
            let moment = Instant::now() + Duration::from_millis(50 + random.below(1500));
            while Instant::now() < moment && copy.0.try_wait().expect("waited").is_none() {
                thread::sleep(Duration::from_millis(1));
            }
            killed += 1;
            if remote_is_victim {
                endpoint.kill();
                check_names(&target, &old, &new, seed);
                endpoint = world.endpoint(root).0;
            } else {
                copy.kill();
                check_names(&target, &old, &new, seed);
                continue;
            }
        }
        let mut out = String::new();
        copy.0.stdout.take().expect("piped").read_to_string(&mut out).expect("read");
        let mut err = String::new();
        copy.0.stderr.take().expect("piped").read_to_string(&mut err).expect("read");
        let status = copy.0.wait().expect("waited");
        check_names(&target, &old, &new, seed);
        if status.success() {
            let summary: Value = serde_json::from_str(&out).expect("one object");
            assert_eq!(summary["verified"], true, "seed {seed}: {out}");
            break;
        }
        assert!(attempts < 10, "seed {seed}: still failing: {out} {err}");
    }
    assert_eq!(read_tree(&target), new, "seed {seed}");
    assert!(!target.join(".tidegate").exists(), "seed {seed}: leftovers");
    let moved = world.counter.bytes();
    // Frame headers, handshakes, lists and polls besides the content.
    let overhead = total / 50 + 400_000 * (attempts + killed);
    let again = moved.saturating_sub(total);
    println!("seed {seed}: {killed} kills, {attempts} runs, {again} bytes besides {total}");
    assert!(
        again <= killed * COST_OF_A_KILL + overhead,
        "seed {seed}: {again} bytes moved again after {killed} kills"
    );
}

/// No name bears anything but the old content or the new.
fn check_names(target: &Path, old: &Tree, new: &Tree, seed: u64) {
    let there = read_tree(target);
    for (name, bytes) in &there {
        let right = Some(bytes) == new.get(name) || Some(bytes) == old.get(name);
        assert!(right, "seed {seed}: {} bears something else ({} bytes)", name.display(), bytes.len());
    }
    for name in old.keys() {
        assert!(there.contains_key(name), "seed {seed}: {} is gone", name.display());
    }
}

fn base_seed() -> u64 {
    let given = std::env::var("TIDEGATE_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        now.as_nanos() as u64 % 1_000_000_000
    })
}

fn is_long() -> bool {
    std::env::var_os("TIDEGATE_LONG").is_some_and(|value| value == "1")
}

/// So many runs in which either side dies.
fn runs(route: Route, count: u64) {
    for victim in [Victim::Sender, Victim::Receiver] {
        let base = base_seed();
        (0..count).for_each(|i| run(route, victim, base + i));
    }
}

fn short() -> u64 {
    if is_long() { 50 } else { 2 }
}

#[test]
fn a_push_survives_the_death_of_either_side() {
    runs(Route::Push, short());
}

#[test]
fn a_pull_survives_the_death_of_either_side() {
    runs(Route::Pull, short());
}

#[test]
#[ignore = "long: 50 runs of each sort"]
fn any_copy_survives_fifty_deaths() {
    for route in [Route::Push, Route::Pull] {
        runs(route, 50);
    }
}

/// Copies `count` files of 10 KB both ways and looks at the most either side ever had in memory.
fn many_files(count: usize) {
    const MAX_RESIDENT: u64 = 300 << 20;
    let world = World::new();
    let (source, target) = (world.path("source"), world.path("target"));
    let mut random = Rng::new(7);
    for i in 0..count {
        let directory = source.join(format!("d{:03}", i / 500));
        if i % 500 == 0 {
            fs::create_dir_all(&directory).expect("made");
        }
        fs::write(directory.join(format!("file-{i}")), noise(random.next_u64(), 10_240)).expect("written");
    }
    fs::create_dir(&target).expect("made");
    let back = world.path("back");
    let (endpoint, address) = world.endpoint(&target);
    let legs =
        [(format!("{}/", source.display()), address.clone()), (address, format!("{}/", back.display()))];
    for (from, to) in legs {
        let started = Instant::now();
        let mut copy = world.copy(&from, &to, &[]);
        let mut peak = 0;
        let reader = copy.0.stdout.take().map(|mut out| {
            thread::spawn(move || {
                let mut text = String::new();
                out.read_to_string(&mut text).expect("read");
                text
            })
        });
        while copy.0.try_wait().expect("waited").is_none() {
            peak = peak.max(copy.peak().unwrap_or(0));
            thread::sleep(Duration::from_millis(5));
        }
        let seconds = started.elapsed().as_secs_f64();
        let text = reader.expect("piped").join().expect("read");
        let summary: Value = serde_json::from_str(&text).expect("one object");
        assert_eq!(summary["files"]["ok"], count, "{summary}");
        let there = endpoint.peak().expect("it runs");
        println!(
            "{count} files: {:.0} files/s, peak {} MiB at the command, {} MiB at the endpoint",
            count as f64 / seconds,
            peak >> 20,
            there >> 20
        );
        assert!(peak <= MAX_RESIDENT && there <= MAX_RESIDENT, "{peak} and {there} bytes resident");
    }
}

#[test]
fn many_small_files_cost_little_memory() {
    many_files(if is_long() { 100_000 } else { 10_000 });
}

#[test]
#[ignore = "long: 100,000 files"]
fn a_hundred_thousand_files_cost_little_memory() {
    many_files(100_000);
}
