//! One copy by several movers whose parts are killed, stopped and started again at moments that a seed draws: a mover, an
//! endpoint of the pool, one of two services and their database. Each copy has to be complete and exact, each shard done once, and nothing sent
//! again but what the killed ones had not finished.
//!
//! Every run prints its seed; `TIDEGATE_SEED` begins with another, and `TIDEGATE_RUNS` makes more or fewer than a hundred:
//! both together repeat one.

use crate::common;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::counter::Counter;
use crate::common::service::Service;
use crate::common::{Server, World, eventually, signal};
use rustix::process::Signal;
use serde_json::Value;
use testkit::postgres::Postgres;
use testkit::skip;
use tidegate_control::Rng;
use tidegate_fleet::shards::Standing;

const MOVERS: usize = 3;
/// Of each, endpoints and services.
const PAIR: usize = 2;
/// What the endpoints of the pool serve, which is one directory.
const ROOTS: [&str; PAIR] = ["there", "also"];
const FILES: u64 = 4000;
const LARGE: u64 = 2;

/// How long a lease holds here: less than as usual, and more than a busy machine keeps a mover that is there from renewing it.
const TERM: Duration = Duration::from_secs(12);

/// How often a service is started that gives up, as whoever keeps services does: a busy database may not answer in time.
const STARTS: usize = 5;

/// Slow enough that a fault finds movers at work, and with little on its way.
const OPTIONS: [&str; 5] = [
    "--option=--limit-link=12Mbit/s",
    "--option=--staging=1MiB",
    "--option=--optimizer=fixed:2",
    "--option=--data-plane=clear",
    "--option=--epoch=250ms",
];

/// What may be on its way through sockets when a mover or the endpoint dies, and what is said again by whoever begins anew:
/// handshakes, and names, sizes and verdicts of at most all files.
const ON_ITS_WAY: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    MoverKilled,
    MoverStopped,
    EndpointKilled,
    ServiceKilled,
    DatabaseRestarted,
}

const FAULTS: [Fault; 5] = [
    Fault::MoverKilled,
    Fault::MoverStopped,
    Fault::EndpointKilled,
    Fault::ServiceKilled,
    Fault::DatabaseRestarted,
];

impl Fault {
    /// One after the other, or two of them.
    fn of(seed: u64) -> Vec<Self> {
        let mut rng = Rng::new(!seed);
        let mut drawn = || FAULTS[usize::from(rng.integer(0, FAULTS.len() as u16 - 1))];
        let turn = (seed % (FAULTS.len() as u64 + 1)) as usize;
        FAULTS.get(turn).map_or_else(|| vec![drawn(), drawn()], |fault| vec![*fault])
    }
}

/// What is copied in every run.
struct Source {
    world: World,
    bytes: u64,
}

impl Source {
    fn make(rng: &mut Rng) -> Self {
        let (world, mut bytes) = (World::new(), 0);
        let mut fill = |name: String, size: usize| {
            world.fill(name, size, rng.next_u64());
            bytes += size as u64;
            usize::from(rng.integer(0, 12_000))
        };
        let mut size = 0;
        for file in 0..FILES {
            size = fill(format!("source/d{}/f{file}", file % 7), size);
        }
        for file in 0..LARGE {
            fill(format!("source/large{file}"), 3_000_000);
        }
        fs::create_dir(world.path("source/empty")).expect("made");
        symlink("large0", world.path("source/link")).expect("linked");
        Self { world, bytes }
    }

    fn path(&self) -> PathBuf {
        self.world.path("source")
    }

    /// Whether there is the same beneath `copy`, to the byte and the second.
    fn assert_copied(&self, copy: &Path, run: &str) {
        let (ours, names) = (self.path(), self.world.tree("source"));
        assert_eq!(names, self.world.tree(copy), "{run}");
        for name in names.iter().filter(|name| *name != "link") {
            let (of, copied) = (ours.join(name), copy.join(name));
            let times = [&of, &copied].map(|path| fs::metadata(path).expect("there").mtime());
            assert_eq!(times[0], times[1], "{run}: the time of {name}");
            if !name.ends_with('/') {
                assert!(
                    fs::read(of).expect("read") == fs::read(copied).expect("read"),
                    "{run}: the content of {name}"
                );
            }
        }
        let target = fs::read_link(copy.join("link")).expect("a link");
        assert_eq!(target, Path::new("large0"), "{run}");
    }
}

/// Everything that a copy needs, and that may be killed.
struct Site<'s> {
    world: World,
    database: &'s mut Postgres,
    name: String,
    endpoints: [Option<Server>; PAIR],
    counters: [Counter; PAIR],
    services: [Option<Service>; PAIR],
    listen: [String; PAIR],
    /// What stands in front of the services, and leads to one that runs.
    proxy: Counter,
}

impl<'s> Site<'s> {
    fn start(database: &'s mut Postgres) -> Self {
        let (world, url) = (World::new(), database.fresh());
        let name = url.rsplit('/').next().expect("a name").to_owned();
        fs::create_dir(world.path(ROOTS[0])).expect("made");
        symlink(ROOTS[0], world.path(ROOTS[1])).expect("linked");
        let mut site = Self {
            world,
            database,
            name,
            endpoints: [None, None],
            counters: [Counter::start(), Counter::start()],
            services: [None, None],
            listen: ROOTS.map(|_| "127.0.0.1:0".to_owned()),
            proxy: Counter::start(),
        };
        for (one, name) in ROOTS.iter().enumerate() {
            site.start_endpoint(one);
            site.start_service(one);
            let endpoint = site.endpoints[one].as_ref().expect("it runs");
            let place = format!("tg://{}@127.0.0.1:{}/", endpoint.secret(), site.counters[one].port());
            site.world.ok(&["remote", "add", name, &place]);
        }
        let pool = ROOTS.map(|name| format!("{name}:/"));
        site.world.ok(&["remote", "pool", "dtn", &pool[0], &pool[1]]);
        site
    }

    fn start_endpoint(&mut self, one: usize) {
        let endpoint = self.world.endpoint(ROOTS[one], &["--data-plane", "clear"]);
        self.counters[one].lead_to(port_of(&endpoint.place()));
        self.endpoints[one] = Some(endpoint);
    }

    fn start_service(&mut self, one: usize) {
        let term = format!("{}s", TERM.as_secs());
        let url = self.database.address(&self.name);
        let more = ["--database", &url, "--shared-queue", "--lease-term", &term];
        let (mut said, state, listen) = (String::new(), format!("svc{one}"), &self.listen[one]);
        let started = (0..STARTS).find_map(|_| {
            Service::stand_by(&self.world, &state, listen, &more).map_err(|why| said = why).ok()
        });
        let service = started.unwrap_or_else(|| panic!("{said}"));
        self.listen[one] = service.url.strip_prefix("http://").expect("without TLS").to_owned();
        self.proxy.lead_to(port_of(&self.listen[one]));
        self.services[one] = Some(service);
    }

    fn service(&self) -> &Service {
        self.services.iter().flatten().next().expect("one runs")
    }

    fn spread(&self, source: &Path) -> Child {
        let (from, movers) = (format!("{}/", source.display()), MOVERS.to_string());
        let proxy = format!("http://127.0.0.1:{}", self.proxy.port());
        let arguments = [
            "spread", &from, "dtn:/in/", "--engine", "local", "--movers", &movers, "--server", &proxy,
            "--json",
        ];
        let mut command = self.service().command(&self.world, &arguments);
        let log = fs::File::create(self.world.path("spread.log")).expect("made");
        command.args(OPTIONS).stdout(Stdio::piped()).stderr(log).spawn().expect("started")
    }

    /// How the run stands by what the database says, which outlives its service.
    fn standing(&self) -> Standing {
        let job = self.service().job(&self.world, 1);
        serde_json::from_value(job["spread"].clone()).unwrap_or_else(|error| panic!("{error}: {job}"))
    }

    /// What lies in unfinished files, in bytes.
    fn unfinished(&self) -> u64 {
        fn beneath(directory: &Path) -> u64 {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            let of = |entry: fs::DirEntry| match entry.metadata() {
                Ok(about) if about.is_dir() => beneath(&entry.path()),
                // One may have its whole length before it has its content.
                Ok(about) => about.len().min(about.blocks() * 512),
                Err(_) => 0,
            };
            entries.map(of).sum()
        }
        beneath(&self.world.path("there/in/.tidegate"))
    }

    /// Has it happen; answers with what those who were killed had not finished, where nothing of it is left to be counted.
    fn happen(&mut self, fault: Fault, spread: &Child, rng: &mut Rng) -> u64 {
        let pause = Duration::from_millis(u64::from(rng.integer(0, 2000)));
        match fault {
            Fault::MoverKilled => {
                signal(drawn_mover(spread, rng), Signal::KILL);
                0
            }
            Fault::MoverStopped => {
                let mover = drawn_mover(spread, rng);
                signal(mover, Signal::STOP);
                thread::sleep(TERM + Duration::from_secs(1) + pause);
                signal(mover, Signal::CONT);
                0
            }
            Fault::EndpointKilled => {
                let one = usize::from(rng.integer(0, 1));
                let endpoint = self.endpoints[one].take().expect("it runs");
                signal(endpoint.id(), Signal::STOP);
                let unfinished = self.unfinished();
                drop(endpoint);
                thread::sleep(pause);
                self.start_endpoint(one);
                unfinished
            }
            Fault::ServiceKilled => {
                let one = usize::from(rng.integer(0, 1));
                self.services[one].take().expect("it runs").kill();
                self.proxy.lead_to(port_of(&self.listen[1 - one]));
                thread::sleep(pause);
                self.start_service(one);
                0
            }
            Fault::DatabaseRestarted => {
                self.database.stop();
                thread::sleep(pause);
                self.database.restart();
                0
            }
        }
    }
}

fn port_of(place: &str) -> u16 {
    place.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

/// Children of `spread` that move.
fn movers(spread: &Child) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("listed").flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let is_mover = words.split(|byte| *byte == 0).nth(1) == Some(b"mover");
        if is_mover && parent.is_some_and(|parent| parent.trim() == spread.id().to_string()) {
            found.push(id);
        }
    }
    found.sort_unstable();
    found
}

fn drawn_mover(spread: &Child, rng: &mut Rng) -> u32 {
    let mut there = Vec::new();
    eventually(|| {
        there = movers(spread);
        !there.is_empty()
    });
    there[usize::from(rng.integer(0, there.len() as u16 - 1))]
}

/// What one run came to.
struct Outcome {
    seconds: f64,
    /// What passed on the way to the endpoint.
    moved: u64,
    /// What killed movers left, and what a killed endpoint had not finished.
    unfinished: u64,
    /// Shards that were given out more than once.
    again: u64,
    /// Whether the run was over before the faults were.
    too_late: bool,
    /// What movers and their starter said.
    said: String,
}

/// One copy with faults at moments that `seed` draws.
fn run(source: &Source, database: &mut Postgres, faults: &[Fault], seed: u64) -> Outcome {
    let name = format!("seed {seed}, {faults:?}");
    println!("{name}");
    let mut rng = Rng::new(seed);
    let mut site = Site::start(database);
    let began = Instant::now();
    let mut spread = site.spread(&source.path());
    let (mut unfinished, mut too_late) = (0, false);
    eventually(|| {
        // It is written once the job is there.
        if !(0..PAIR).any(|one| site.world.path(format!("svc{one}/movers/1.token")).exists()) {
            return spread.try_wait().expect("asked").is_some();
        }
        let job = site.service().job(&site.world, 1);
        job["spread"]["movers"].as_array().is_some_and(|movers| movers.len() == MOVERS)
            || spread.try_wait().expect("asked").is_some()
    });
    for fault in faults {
        thread::sleep(Duration::from_millis(u64::from(rng.integer(0, 3500))));
        if spread.try_wait().expect("asked").is_some() {
            too_late = true;
            break;
        }
        unfinished += site.happen(*fault, &spread, &mut rng);
    }
    let ended = common::wait_within(spread, Duration::from_secs(180));
    let said = || format!("{}; {}", log(&site.world.path("spread.log")), ended.err);
    let summary: Value = serde_json::from_str(&ended.out).unwrap_or_default();
    assert_eq!((ended.code, &summary["status"]), (0, &"complete".into()), "{name}: {summary} {}", said());
    // Links count as files.
    let files = FILES + LARGE + 1;
    assert_eq!(summary["files"]["ok"], files, "{name}: {summary}");
    // What dead movers leave is for `tidegate clean`.
    unfinished += site.unfinished();
    let leftovers = site.world.path("there/in/.tidegate");
    if leftovers.exists() {
        fs::rename(leftovers, site.world.path("leftovers")).expect("moved away");
    }
    source.assert_copied(&site.world.path("there/in"), &name);
    assert_done_once(&site, files, source.bytes, &name);
    let again = site.database.ask(&site.name, "SELECT sum(tries) - count(*) FROM fleet_shard");
    Outcome {
        seconds: began.elapsed().as_secs_f64(),
        moved: site.counters.iter().map(Counter::bytes).sum(),
        unfinished,
        again: again.parse().expect("a number"),
        too_late,
        said: fs::read_to_string(site.world.path("spread.log")).unwrap_or_default(),
    }
}

/// By each of the three counts that there are: of the run, of its movers, and of the shards.
fn assert_done_once(site: &Site<'_>, files: u64, bytes: u64, name: &str) {
    let standing = site.standing();
    assert_eq!((&standing.state[..], standing.failed_files), ("done", 0), "{name}: {standing:?}");
    assert_eq!((standing.shards, standing.files), (standing.ended_shards, files), "{name}: {standing:?}");
    assert_eq!((standing.done_files, standing.done_bytes), (files, bytes), "{name}: {standing:?}");
    let sum =
        |of: fn(&tidegate_fleet::shards::MoverStanding) -> u64| standing.movers.iter().map(of).sum::<u64>();
    let by_movers = (sum(|mover| mover.shards), sum(|mover| mover.files), sum(|mover| mover.bytes));
    assert_eq!(by_movers, (standing.shards, files, bytes), "{name}: {standing:?}");
    let counted = "SELECT count(*), sum(files), sum(bytes) FROM fleet_shard WHERE state = 2";
    let counted = site.database.ask(&site.name, counted);
    assert_eq!(counted, format!("{}|{files}|{bytes}", standing.shards), "{name}");
    let left =
        "SELECT (SELECT count(*) FROM fleet_lease), (SELECT count(*) FROM fleet_shard WHERE state <> 2)";
    assert_eq!(site.database.ask(&site.name, left), "0|0", "{name}");
}

fn log(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().rev().take(3).collect::<Vec<_>>().join("; ")
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|word| word.parse().ok()).unwrap_or(otherwise)
}

/// The one in the middle, and the most.
fn median_and_most(numbers: &mut [u64]) -> (u64, u64) {
    numbers.sort_unstable();
    let at = |place: usize| numbers.get(place).copied().unwrap_or(0);
    (at(numbers.len() / 2), at(numbers.len().saturating_sub(1)))
}

/// So many copies, each with the next of the faults, or with two of them.
fn runs(test: &str, count: u64, seed: u64) {
    let mut database = match Postgres::start() {
        Ok(database) => database,
        Err(reason) => return skip(test, &reason),
    };
    let source = Source::make(&mut Rng::new(1));
    let undisturbed = run(&source, &mut database, &[], seed).moved;
    println!("{} bytes of content; {undisturbed} pass where nothing goes wrong", source.bytes);
    assert!(undisturbed - source.bytes < ON_ITS_WAY, "more was sent than had to be");
    let mut outcomes: BTreeMap<Vec<Fault>, Vec<[u64; 3]>> = BTreeMap::new();
    let (mut made, mut next) = (0, seed);
    while made < count {
        let faults = Fault::of(next);
        let outcome = run(&source, &mut database, &faults, next);
        next += 1;
        if outcome.too_late {
            println!("  it was over before that; not counted");
            continue;
        }
        made += 1;
        let again = outcome.moved.saturating_sub(undisturbed);
        println!(
            "  {made} of {count}: {:.1} s, {again} bytes again, {} unfinished, {} shards given out again",
            outcome.seconds, outcome.unfinished, outcome.again
        );
        let bound = outcome.unfinished + faults.len() as u64 * ON_ITS_WAY;
        assert!(
            again <= bound,
            "seed {}, {faults:?}: {again} bytes again of {bound}: {}",
            next - 1,
            outcome.said
        );
        let kind = if faults.len() > 1 { Vec::new() } else { faults };
        let kilobytes = [again, outcome.unfinished].map(|bytes| bytes / 1000);
        outcomes.entry(kind).or_default().push([kilobytes[0], kilobytes[1], outcome.seconds as u64]);
    }
    println!(
        "| fault | runs | sent again, KB: median, most | unfinished, KB: median, most | whole time, s: median, most |"
    );
    println!("|---|---|---|---|---|");
    for (kind, outcomes) in outcomes {
        let columns = [0, 1, 2].map(|column| {
            let mut numbers: Vec<u64> = outcomes.iter().map(|outcome| outcome[column]).collect();
            let (median, most) = median_and_most(&mut numbers);
            format!("{median}, {most}")
        });
        let kind = kind.first().map_or_else(|| "two of them".to_owned(), |kind| format!("{kind:?}"));
        println!("| {kind} | {} | {} |", outcomes.len(), columns.join(" | "));
    }
}

#[test]
#[ignore = "a hundred copies of some ten seconds each, with PostgreSQL: make long"]
fn a_copy_by_many_survives_whatever_dies() {
    runs("a_copy_by_many_survives_whatever_dies", number("TIDEGATE_RUNS", 100), number("TIDEGATE_SEED", 1));
}
