//! Servers made of memory that do what a test's script says: sizes, rates, faults.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use testkit::bytes::fill;
use tidegate_control::{ByteCount, Concurrency, Environment, Rng};
use tidegate_fetch::checksum::{Algorithm, Checksums, Hashers};
use tidegate_fetch::get::memory::Memory;
use tidegate_fetch::get::{Download, DownloadEvent, DownloadSettings, Got};
use tidegate_fetch::record::{Named, Names, Record};
use tidegate_fetch::remote::{Ask, Opened, Refusal, Remote, Remotes, Version, Why};
use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::manifest::Timestamp;
use tidegate_transfer::path::RelPath;
use tidegate_transfer::sys::confined::Root;
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::transfer::{Pace, Paced};
use url::Url;

/// A file at a server.
#[derive(Clone, Debug)]
pub struct Item {
    /// What its bytes are made from; zero makes zeros.
    pub seed: u64,
    pub bytes: u64,
    pub tag: Option<String>,
    pub modified: Option<Timestamp>,
    /// Whether parts can be asked for.
    pub ranges: bool,
    /// Whether the server tells the size.
    pub sized: bool,
    /// What it promises instead of its size.
    pub promises: Option<u64>,
    /// More bytes in each body than promised.
    pub surplus: u64,
    /// Becomes another version every so many requests.
    pub changes_every: Option<u64>,
    pub refuses: Option<Why>,
    /// Sums that the server vouches for.
    pub vouches: Checksums,
}

impl Item {
    pub fn new(seed: u64, bytes: u64) -> Self {
        Self {
            seed,
            bytes,
            tag: Some(format!("v{seed}")),
            modified: Some(Timestamp { seconds: 1_600_000_000 + seed as i64 % 1000, nanoseconds: 0 }),
            ranges: true,
            sized: true,
            promises: None,
            surplus: 0,
            changes_every: None,
            refuses: None,
            vouches: Checksums::none(),
        }
    }

    fn version(&self) -> Version {
        Version {
            bytes: self.sized.then(|| self.promises.unwrap_or(self.bytes)),
            tag: self.tag.clone(),
            modified: self.modified,
            ranges: self.ranges,
            checksums: self.vouches.clone(),
            kept: None,
        }
    }

    /// Its content's sum.
    pub fn sums(&self, algorithm: Algorithm) -> Checksums {
        let mut hashers = Hashers::new([algorithm]);
        let mut buffer = vec![0; 1 << 20];
        let mut at = 0;
        while at < self.bytes {
            let length = (self.bytes - at).min(1 << 20) as usize;
            fill(self.seed, at, &mut buffer[..length]);
            hashers.update(&buffer[..length]);
            at += length as u64;
        }
        hashers.finish()
    }

    pub fn content(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes as usize];
        fill(self.seed, 0, &mut bytes);
        bytes
    }
}

/// What a host does.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Bytes a second of one connection.
    pub rate: Option<u64>,
    pub latency: Duration,
    /// Requests at once above which it says that it is busy.
    pub bears: Option<usize>,
    pub retry_after: Option<Duration>,
    /// Requests at once above which it answers so much later, and all together get no more.
    pub crowd: Option<(usize, Duration)>,
    /// One request in so many is refused as broken, and one body in so many breaks off.
    pub breaks: Option<u64>,
    pub drops: Option<u64>,
    pub down: bool,
    /// The body of this request, by its number, falls silent half-way.
    pub silent: Option<u64>,
}

#[derive(Default)]
pub struct Served {
    pub opens: AtomicU64,
    pub looks: AtomicU64,
    pub bytes: AtomicU64,
    pub busy: AtomicU64,
    pub active: AtomicUsize,
    pub most: AtomicUsize,
    /// Connections that are open, used or not, and the most there were.
    pub open: AtomicUsize,
    pub most_open: AtomicUsize,
    /// Connections that were ever made.
    pub made: AtomicUsize,
}

pub struct World {
    items: Mutex<HashMap<String, (Item, u64)>>,
    rules: Mutex<HashMap<String, Rules>>,
    served: Mutex<HashMap<String, Arc<Served>>>,
    rng: Mutex<Rng>,
    /// Each part that was asked for: which, and of what.
    pub asked: Mutex<Vec<(String, Range<u64>)>>,
    /// Connections that are open, whether used or not.
    pub connections: AtomicUsize,
}

impl World {
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            items: Mutex::default(),
            rules: Mutex::default(),
            served: Mutex::default(),
            rng: Mutex::new(Rng::new(seed)),
            asked: Mutex::default(),
            connections: AtomicUsize::new(0),
        })
    }

    pub fn put(&self, url: &str, item: Item) {
        self.items.lock().insert(url.to_owned(), (item, 0));
    }

    pub fn rules(&self, host: &str, rules: Rules) {
        self.rules.lock().insert(host.to_owned(), rules);
    }

    pub fn served(&self, host: &str) -> Arc<Served> {
        Arc::clone(self.served.lock().entry(host.to_owned()).or_default())
    }

    /// Requests to all hosts.
    pub fn requests(&self) -> u64 {
        self.served.lock().values().map(|s| s.opens.load(Relaxed) + s.looks.load(Relaxed)).sum()
    }

    fn one_in(&self, n: Option<u64>) -> bool {
        n.is_some_and(|n| self.rng.lock().next_u64().is_multiple_of(n))
    }
}

/// A worker's way, which is connected by its first request.
struct Link {
    world: Arc<World>,
    connected: bool,
    /// The hosts that it keeps a connection to.
    hosts: Vec<String>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.world.connections.fetch_sub(usize::from(self.connected), Relaxed);
        for host in &self.hosts {
            self.world.served(host).open.fetch_sub(1, Relaxed);
        }
    }
}

pub struct Servers(pub Arc<World>);

impl Remotes for Servers {
    fn remote(&self) -> Box<dyn Remote> {
        Box::new(Link { world: Arc::clone(&self.0), connected: false, hosts: Vec::new() })
    }
}

/// A file of two seconds, and where it goes.
pub fn slow_file() -> (Arc<World>, Place, Item) {
    let (world, place) = (World::new(1), Place::new());
    let item = Item::new(5, 8 << 20);
    world.put("http://h/f", item.clone());
    world.rules("h", Rules { rate: Some(4 << 20), ..Rules::default() });
    (world, place, item)
}

fn refusal(why: Why, url: &Url, retry_after: Option<Duration>) -> Refusal {
    Refusal::new(why, format!("{url}: {why:?}")).after(retry_after)
}

impl Link {
    fn ask(&mut self, ask: &Ask<'_>) -> Result<(Item, Rules, Arc<Served>), Refusal> {
        self.world.connections.fetch_add(usize::from(!std::mem::replace(&mut self.connected, true)), Relaxed);
        let host = ask.url.host_str().unwrap_or_default().to_owned();
        let rules = self.world.rules.lock().get(&host).cloned().unwrap_or_default();
        let served = self.world.served(&host);
        if !self.hosts.contains(&host) {
            self.hosts.push(host);
            served.made.fetch_add(1, Relaxed);
            served.most_open.fetch_max(served.open.fetch_add(1, Relaxed) + 1, Relaxed);
        }
        std::thread::sleep(rules.latency);
        if rules.down {
            return Err(refusal(Why::Unreachable, ask.url, None));
        }
        if self.world.one_in(rules.breaks) {
            return Err(refusal(Why::Broken, ask.url, None));
        }
        let mut items = self.world.items.lock();
        let Some((item, asked)) = items.get_mut(ask.url.as_str()) else {
            return Err(refusal(Why::Missing, ask.url, None));
        };
        if let Some(why) = item.refuses {
            return Err(refusal(why, ask.url, rules.retry_after));
        }
        *asked += 1;
        if item.changes_every.is_some_and(|every| *asked % every == 0) {
            item.seed += 1000;
            item.tag = Some(format!("v{}", item.seed));
        }
        let item = item.clone();
        if let Some(pin) = ask.version
            && (pin.tag.is_some() && pin.tag != item.tag || pin.bytes != item.version().bytes)
        {
            return Err(refusal(Why::Changed, ask.url, None));
        }
        Ok((item, rules, served))
    }
}

impl Remote for Link {
    fn open(&mut self, ask: &Ask<'_>) -> Result<Opened, Refusal> {
        let (item, rules, served) = self.ask(ask)?;
        served.opens.fetch_add(1, Relaxed);
        self.world.asked.lock().push((ask.url.to_string(), ask.range.clone()));
        let active = served.active.fetch_add(1, Relaxed) + 1;
        let guard = Guard(Arc::clone(&served));
        if rules.bears.is_some_and(|bears| active > bears) {
            served.busy.fetch_add(1, Relaxed);
            return Err(refusal(Why::Busy, ask.url, rules.retry_after));
        }
        served.most.fetch_max(active, Relaxed);
        let mut rate = rules.rate;
        if let Some((crowd, later)) = rules.crowd.filter(|(crowd, _)| active > *crowd) {
            std::thread::sleep(later);
            rate = rate.map(|rate| rate * crowd as u64 / active as u64);
        }
        let version = item.version();
        let promised = item.promises.unwrap_or(item.bytes);
        let range = match (item.ranges, item.sized) {
            (true, true) => ask.range.start..ask.range.end.min(promised),
            (false, true) => 0..promised,
            (_, false) => 0..u64::MAX,
        };
        let ends = range.end.min(promised) + item.surplus;
        let length = ends - range.start;
        let drops_at = (length > 0 && self.world.one_in(rules.drops))
            .then(|| range.start + self.world.rng.lock().next_u64() % length);
        let silent = rules.silent == Some(served.opens.load(Relaxed));
        let body = Body {
            at: range.start,
            silent_at: silent.then(|| range.start + length / 2),
            ends,
            real: item.bytes + item.surplus,
            drops_at,
            seed: item.seed,
            rate,
            begun: Instant::now(),
            given: 0,
            guard,
        };
        Ok(Opened { version, range, body: Box::new(body) })
    }

    fn look(&mut self, ask: &Ask<'_>) -> Result<Version, Refusal> {
        let (item, _, served) = self.ask(ask)?;
        served.looks.fetch_add(1, Relaxed);
        Ok(item.version())
    }
}

struct Guard(Arc<Served>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Relaxed);
    }
}

struct Body {
    at: u64,
    ends: u64,
    /// Where the bytes really end.
    real: u64,
    drops_at: Option<u64>,
    silent_at: Option<u64>,
    seed: u64,
    rate: Option<u64>,
    begun: Instant,
    given: u64,
    guard: Guard,
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let stops = self.drops_at.unwrap_or(u64::MAX).min(self.real);
        let end = self.ends.min(stops);
        if self.at >= end && end < self.ends {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if self.silent_at.is_some_and(|at| self.at >= at) {
            std::thread::sleep(Duration::from_secs(60));
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        let most = if self.rate.is_some() { 16 << 10 } else { 1 << 20 };
        let length = ((end - self.at).min(most) as usize).min(buffer.len());
        fill(self.seed, self.at, &mut buffer[..length]);
        self.at += length as u64;
        self.given += length as u64;
        self.guard.0.bytes.fetch_add(length as u64, Relaxed);
        if let Some(rate) = self.rate {
            let due = Duration::from_secs_f64(self.given as f64 / rate as f64);
            std::thread::sleep(due.saturating_sub(self.begun.elapsed()));
        }
        Ok(length)
    }
}

/// An output directory with what is remembered of it.
pub struct Place {
    pub directory: tempfile::TempDir,
    pub memory: Arc<Memory>,
    _state: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        let root = Root::open(state.path().as_os_str().as_bytes()).unwrap();
        Self {
            directory: tempfile::tempdir().unwrap(),
            memory: Arc::new(Memory::new(&root).unwrap()),
            _state: state,
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn settings(&self) -> DownloadSettings {
        let out = self.path().as_os_str().as_bytes();
        DownloadSettings {
            memory: Arc::clone(&self.memory),
            staging: ByteCount::mib(8),
            max_workers: 32,
            retries: 2,
            retry_for: Duration::from_secs(2),
            chunk: Some(ByteCount::mib(8)),
            pace: Pace::new(Duration::from_millis(20)),
            ..DownloadSettings::new(out).unwrap()
        }
    }

    pub fn read(&self, path: &str) -> Option<Vec<u8>> {
        std::fs::read(self.path().join(path)).ok()
    }

    /// Names in the output directory and beneath it.
    pub fn names(&self) -> Vec<String> {
        fn walk(directory: &Path, base: &Path, names: &mut Vec<String>) {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, base, names);
                } else {
                    names.push(path.strip_prefix(base).unwrap().display().to_string());
                }
            }
        }
        let mut names = Vec::new();
        walk(self.path(), self.path(), &mut names);
        names.sort();
        names
    }
}

/// How each thing that was named ended.
#[derive(Default, Debug)]
pub struct Told {
    pub done: BTreeMap<String, Got>,
    pub skipped: BTreeMap<String, Got>,
    pub failed: BTreeMap<String, Error>,
    pub notes: Vec<String>,
}

pub type Ears = Arc<Mutex<Told>>;

pub fn tell(told: &Ears) -> Box<dyn Fn(DownloadEvent<'_>) + Send + Sync> {
    let told = Arc::clone(told);
    Box::new(move |event| {
        let mut told = told.lock();
        match event {
            DownloadEvent::Done { record, got } => {
                assert!(told.done.insert(record.path.to_string(), got.clone()).is_none(), "told twice");
            }
            DownloadEvent::Skipped { record, got } => {
                drop(told.skipped.insert(record.path.to_string(), got.clone()));
            }
            DownloadEvent::Failed { named, error, .. } => {
                drop(told.failed.insert(named.to_owned(), error.clone()));
            }
            DownloadEvent::Note(note) => told.notes.push(note.to_owned()),
        }
    })
}

pub fn record(path: &str, urls: &[&str]) -> Record {
    let urls: Vec<Url> = urls.iter().map(|url| Url::parse(url).unwrap()).collect();
    let mut record = Record::new(urls[0].clone(), RelPath::new(path).unwrap());
    record.urls = urls;
    record
}

/// With the size and checksum of `item` declared.
pub fn declared(path: &str, urls: &[&str], item: &Item) -> Record {
    let mut record = record(path, urls);
    record.bytes = Some(item.bytes);
    record.checksums = item.sums(Algorithm::Md5);
    record
}

pub fn named(records: Vec<Record>) -> Box<dyn Iterator<Item = Named> + Send> {
    Box::new(records.into_iter().map(|record| Named::Record(Box::new(record))))
}

pub fn start(
    world: &Arc<World>,
    place: &Place,
    records: Vec<Record>,
    change: impl FnOnce(&mut DownloadSettings),
) -> (Paced<Download>, Ears) {
    start_with(world, place, named(records), change)
}

/// The same with names that may yet come.
pub fn start_with(
    world: &Arc<World>,
    place: &Place,
    names: Names,
    change: impl FnOnce(&mut DownloadSettings),
) -> (Paced<Download>, Ears) {
    let mut settings = place.settings();
    change(&mut settings);
    let told = Ears::default();
    let download =
        Download::start(names, Arc::new(Servers(Arc::clone(world))), settings, tell(&told)).unwrap();
    (download, told)
}

/// Steps with set-points that `n` gives until the end; a download that takes minutes hangs.
pub fn drive(download: &mut Paced<Download>, mut n: impl FnMut(usize) -> u16) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(120);
    for i in 0.. {
        let setpoint = Concurrency { read: 1, network: n(i), write: n(i + 1) };
        if download.step(setpoint)?.is_none() {
            return Ok(());
        }
        assert!(Instant::now() < end, "it hangs: {:?}", download.active());
    }
    Ok(())
}

/// Gets records to the end with eight workers.
pub fn get(world: &Arc<World>, place: &Place, records: Vec<Record>) -> Told {
    let (mut download, told) = start(world, place, records, |_| {});
    drive(&mut download, |_| 8).unwrap();
    drop(download);
    Arc::try_unwrap(told).unwrap().into_inner()
}

/// Seeds to try: more where tests may take long, or the one that `TIDEGATE_SEED` names.
pub fn seeds(few: u64) -> Range<u64> {
    if let Some(seed) = std::env::var("TIDEGATE_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return seed..seed + 1;
    }
    let many = testkit::is_long();
    0..if many { 20 * few } else { few }
}
