//! Leases of shards: a seed drives movers that claim, copy, commit, stop, go on and die, and a service that restarts.
//! No shard is lost, none is done twice, and nothing unverified is under a final name. Large files are cut into ranges, which
//! movers write into one unfinished file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use tempfile::TempDir;
use testkit::postgres::Postgres;
use tidegate_contract::job_id::JobId;
use tidegate_control::Rng;
use tidegate_fleet::shards::{
    Claimed, Claimer, Ending, Extent, Fleet, FleetError, Leave, MAX_TRIES, MoverToken, Packer, PoolEndpoint,
    Report, Seen, ShardContent, ShardLease, TERM,
};

fn job(number: u64) -> JobId {
    JobId::new(number).expect("a number")
}

/// Where a fleet's tables are, and how they are opened again.
struct Tables {
    url: String,
    _directory: Option<TempDir>,
}

impl Tables {
    fn file() -> Self {
        // Nothing of it has to outlive a power failure.
        let memory = std::path::Path::new("/dev/shm");
        let directory = match memory.is_dir() {
            true => tempfile::tempdir_in(memory),
            false => tempfile::tempdir(),
        }
        .expect("a directory");
        let url = format!("sqlite:{}", directory.path().join("fleet.sqlite3").display());
        Self { url, _directory: Some(directory) }
    }

    async fn open(&self, clock: &Arc<AtomicI64>, seed: u64) -> Fleet {
        Fleet::open_at(&self.url).await.expect("opened").driven(Arc::clone(clock), seed)
    }
}

/// How much of a range is made durable, and recorded, at a time.
const RECORDED: u64 = 32 << 20;

/// What a mover holds.
struct Holding {
    lease: ShardLease,
    leave: Leave,
    /// Files that are still to be copied: shard and name.
    left: Vec<(u64, Vec<u8>)>,
    /// Files that are copied, verified, and wait for their names.
    verified: Vec<(u64, Vec<u8>)>,
    /// A rename that leave was given for and that has not happened.
    under_way: Option<(u64, Vec<u8>)>,
    /// Names that failed.
    failed: Vec<(u64, Vec<u8>)>,
}

/// A mover, which lives in its own time: it acts when it is drawn, unless it is stopped.
#[derive(Default)]
struct Mover {
    name: String,
    stopped_until_ms: i64,
    holding: Option<Holding>,
}

/// All that a seed drives.
struct World<'t> {
    tables: &'t Tables,
    fleet: Fleet,
    clock: Arc<AtomicI64>,
    rng: Rng,
    seed: u64,
    job: JobId,
    token: MoverToken,
    /// Shards that are not listed yet, and all names.
    unlisted: Vec<ShardContent>,
    all: bool,
    files: HashSet<Vec<u8>>,
    movers: Vec<Mover>,
    named: usize,
    /// Unfinished files: who writes the one of that name and lease, and whether it was verified.
    parts: HashMap<(Vec<u8>, u64), (String, bool)>,
    /// Large files, and what of them is durable in the unfinished file that movers share, with who wrote it.
    large: HashMap<Vec<u8>, u64>,
    recorded: HashMap<Vec<u8>, Vec<(Range<u64>, String)>>,
    /// What lies under final names: the lease whose unfinished file it was.
    finals: BTreeMap<Vec<u8>, u64>,
    /// The last lease of each shard, and those that are done.
    owner: HashMap<u64, u64>,
    done: HashSet<u64>,
    /// Names that fail whoever tries them.
    bad: HashSet<Vec<u8>>,
}

impl World<'_> {
    fn draw(&mut self, most: u16) -> u16 {
        self.rng.integer(0, most)
    }

    fn now_ms(&self) -> i64 {
        self.clock.load(Relaxed)
    }

    fn now(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.now_ms()).expect("after the start"))
    }

    fn pass(&mut self, most_ms: u16) {
        let passed = i64::from(self.draw(most_ms));
        self.clock.fetch_add(passed, Relaxed);
    }

    async fn list(&mut self) {
        let take = usize::from(self.draw(2)).min(self.unlisted.len());
        let shards: Vec<_> = self.unlisted.drain(..take).collect();
        let all = self.unlisted.is_empty();
        self.fleet.list(self.job, &shards, all).await.expect("taken");
        self.all = all;
    }

    async fn act(&mut self, at: usize) {
        if self.movers[at].stopped_until_ms > self.now_ms() {
            return;
        }
        match self.draw(99) {
            0..2 => {
                self.named += 1;
                self.movers[at] = Mover { name: format!("mover-{}", self.named), ..Mover::default() };
                return;
            }
            2..6 => {
                let time = i64::from(self.draw(200)) * 1000;
                self.movers[at].stopped_until_ms = self.now_ms() + time;
                return;
            }
            _ => {}
        }
        let Some(mut holding) = self.movers[at].holding.take() else { return self.claim(at).await };
        if self.go_on(at, &mut holding).await {
            self.movers[at].holding = Some(holding);
        }
    }

    async fn claim(&mut self, at: usize) {
        let asked = self.now();
        let claimed =
            self.fleet.claim(&self.token, Claimer::named(&self.movers[at].name)).await.expect("answered");
        // The answer may be slow.
        self.pass(3000);
        let Claimed::Lease(lease) = claimed else { return };
        assert!(!lease.shards.is_empty(), "seed {}: an empty claim", self.seed);
        for (shard, _) in &lease.shards {
            assert!(!self.done.contains(shard), "seed {}: shard {shard} was done", self.seed);
            let before = self.owner.insert(*shard, lease.token);
            assert!(before.is_none_or(|before| before < lease.token), "seed {}: tokens count up", self.seed);
        }
        let names = |(id, content): &(u64, ShardContent)| {
            content.names().map(|name| (*id, name.to_vec())).collect::<Vec<_>>()
        };
        let left = lease.shards.iter().flat_map(names).collect();
        self.movers[at].holding = Some(Holding {
            leave: Leave::granted(asked, TERM),
            lease: *lease,
            left,
            verified: Vec::new(),
            under_way: None,
            failed: Vec::new(),
        });
    }

    /// One step of a mover with a lease; whether it still holds it.
    async fn go_on(&mut self, at: usize, holding: &mut Holding) -> bool {
        let token = holding.lease.token;
        if let Some((_, name)) = holding.under_way.take() {
            // However long it was stopped meanwhile, this happens now.
            let (_, verified) = self.parts[&(name.clone(), token)];
            assert!(verified, "seed {}: {name:?} was not verified", self.seed);
            self.finals.insert(name, token);
            return true;
        }
        if let Some((shard, name)) = holding.left.pop() {
            if self.bad.contains(&name) {
                holding.failed.push((shard, name));
                return true;
            }
            let writer = self.movers[at].name.clone();
            match extent(&holding.lease, shard) {
                Extent::Range(range) => {
                    // Others may have the range by now, and write it.
                    if holding.leave.left(self.now()).is_none() {
                        holding.left.push((shard, name));
                        return self.renew(holding).await;
                    }
                    assert_eq!(self.owner[&shard], token, "seed {}: range {shard} is another's", self.seed);
                    let recorded = self.recorded.entry(name.clone()).or_default();
                    let end = (recorded_from(recorded, range.start) + RECORDED).min(range.end);
                    recorded.push((range.start..end, writer));
                    if end < range.end {
                        holding.left.push((shard, name));
                    }
                    return true;
                }
                Extent::Completion => {
                    let size = self.large[&name];
                    let recorded = recorded_from(&self.recorded[&name], 0);
                    assert!(recorded >= size, "seed {}: {recorded} of {size} bytes are there", self.seed);
                }
                Extent::Whole => {}
            }
            let part = self.parts.entry((name.clone(), token)).or_insert_with(|| (writer.clone(), false));
            assert_eq!(part.0, writer, "seed {}: two movers write {name:?}", self.seed);
            part.1 = true;
            holding.verified.push((shard, name));
            return true;
        }
        if !holding.verified.is_empty() && holding.leave.left(self.now()).is_none() {
            return self.renew(holding).await;
        }
        if let Some((shard, name)) = holding.verified.pop() {
            // Nobody else can have it by now, whatever the clocks of others say.
            assert_eq!(self.owner[&shard], token, "seed {}: shard {shard} is another's", self.seed);
            holding.under_way = Some((shard, name));
            return true;
        }
        self.finish(holding).await;
        false
    }

    async fn renew(&mut self, holding: &mut Holding) -> bool {
        let asked = self.now();
        let renewed = self.fleet.renew(&self.token, holding.lease.token, Seen::default()).await;
        self.pass(3000);
        match renewed {
            Ok(_) => {
                holding.leave = Leave::granted(asked, TERM);
                true
            }
            Err(FleetError::Lost(_)) => false,
            Err(error) => panic!("seed {}: {error}", self.seed),
        }
    }

    async fn finish(&mut self, holding: &Holding) {
        let token = holding.lease.token;
        let ending = |(id, _): &(u64, ShardContent)| {
            let failed = holding.failed.iter().filter(|(shard, _)| shard == id);
            let failed = failed.map(|(_, name)| (name.clone(), "io".to_owned(), "bad".to_owned())).collect();
            Ending { shard: *id, kept: false, failed }
        };
        let report = Report { shards: holding.lease.shards.iter().map(ending).collect() };
        match self.fleet.finish(&self.token, token, &report).await {
            Ok(()) => {
                for ending in report.shards.iter().filter(|ending| ending.failed.is_empty()) {
                    assert!(self.done.insert(ending.shard), "seed {}: done twice", self.seed);
                }
                for (shard, content) in &holding.lease.shards {
                    let failed = |name: &[u8]| holding.failed.iter().any(|(_, bad)| bad == name);
                    if let Extent::Range(_) = content.extent {
                        continue;
                    }
                    for name in content.names().filter(|name| !failed(name)) {
                        assert!(self.finals.contains_key(name), "seed {}: shard {shard}", self.seed);
                    }
                }
                // The answer may be lost, and a second report is of a lease that is over.
                if self.draw(3) == 0 {
                    let again = self.fleet.finish(&self.token, token, &report).await;
                    assert_eq!(again, Err(FleetError::Lost(token)), "seed {}", self.seed);
                }
            }
            Err(FleetError::Lost(_)) => {}
            Err(error) => panic!("seed {}: {error}", self.seed),
        }
    }

    /// Drives it to its end; answers with how many files several movers have moved, too.
    async fn run(mut self) -> (Fleet, usize) {
        for step in 0.. {
            assert!(step < 20_000, "seed {}: it does not end", self.seed);
            self.pass(4000);
            match self.draw(30) {
                0 => drop(self.fleet.sweep().await.expect("swept")),
                1 if self.draw(20) == 0 => {
                    let fleet = self.tables.open(&self.clock, self.seed ^ step).await;
                    std::mem::replace(&mut self.fleet, fleet).close().await;
                }
                2..5 if !self.all => self.list().await,
                _ => {
                    let last = u16::try_from(self.movers.len() - 1).expect("few");
                    let at = usize::from(self.draw(last));
                    self.act(at).await;
                }
            }
            if step % 8 == 7 && self.fleet.standing(self.job).await.expect("known").has_ended() {
                break;
            }
        }
        let standing = self.fleet.standing(self.job).await.expect("known");
        assert_eq!(&standing.state, "done", "seed {}", self.seed);
        assert_eq!(standing.ended_shards, standing.shards, "seed {}", self.seed);
        assert_eq!(standing.files, self.files.len() as u64);
        assert_eq!(standing.done_files + standing.failed_files, standing.files, "seed {}", self.seed);
        let failures = self.fleet.failures(self.job, 10_000).await.expect("known");
        let failed: HashSet<Vec<u8>> = failures.into_iter().map(|(path, ..)| path.into_bytes()).collect();
        assert_eq!(failed.len() as u64, standing.failed_files, "seed {}", self.seed);
        for name in &self.files {
            let there = self.finals.contains_key(name);
            assert!(there || failed.contains(name), "seed {}: {name:?} is lost", self.seed);
        }
        let writers =
            |of: &Vec<(Range<u64>, String)>| of.iter().map(|(_, by)| by).collect::<HashSet<_>>().len();
        let shared = self.recorded.values().filter(|of| writers(of) > 1).count();
        (self.fleet, shared)
    }
}

/// What a shard of a lease is of its file.
fn extent(lease: &ShardLease, shard: u64) -> Extent {
    let of = |(id, content): &(u64, ShardContent)| (*id == shard).then(|| content.extent.clone());
    lease.shards.iter().find_map(of).expect("of the lease")
}

/// How far what is recorded reaches without a gap from `start` on.
fn recorded_from(recorded: &[(Range<u64>, String)], start: u64) -> u64 {
    let mut end = start;
    while let Some((range, _)) = recorded.iter().find(|(range, _)| range.start <= end && range.end > end) {
        end = range.end;
    }
    end
}

/// Plays the game of `seed` in tables that `fleet` has open, or their successor.
async fn play(tables: &Tables, fleet: Fleet, seed: u64) -> (Fleet, usize) {
    let mut rng = Rng::new(seed);
    let clock = Arc::new(AtomicI64::new(1_000_000));
    let fleet = fleet.driven(Arc::clone(&clock), seed);
    let (job, token) = (job(seed + 1), MoverToken::random());
    fleet.begin(job, &token, "{}").await.expect("begun");
    let shards = rng.integer(1, 6);
    let (mut unlisted, mut files, mut bad) = (Vec::new(), HashSet::new(), HashSet::new());
    let mut large = HashMap::new();
    for shard in 0..shards {
        let mut packer = Packer::new(0);
        if rng.integer(0, 4) == 0 {
            let (name, size) = (format!("{shard}/large").into_bytes(), (64 << 20) + (rng.next_u64() >> 35));
            assert_eq!(packer.add(&name, size), None);
            unlisted.extend(packer.finish());
            if rng.integer(0, 9) == 0 {
                bad.insert(name.clone());
            }
            files.insert(name.clone());
            large.insert(name, size);
        }
        for file in 0..rng.integer(1, 4) {
            let name = format!("{shard}/{file}").into_bytes();
            assert_eq!(packer.add(&name, rng.next_u64() >> 40), None);
            if rng.integer(0, 19) == 0 {
                bad.insert(name.clone());
            }
            files.insert(name);
        }
        unlisted.extend(packer.finish());
    }
    let movers = (0..rng.integer(1, 4))
        .map(|number| Mover { name: format!("first-{number}"), ..Mover::default() })
        .collect();
    let world = World {
        tables,
        fleet,
        clock,
        rng,
        seed,
        job,
        token,
        unlisted,
        all: false,
        files,
        movers,
        named: 0,
        parts: HashMap::new(),
        large,
        recorded: HashMap::new(),
        finals: BTreeMap::new(),
        owner: HashMap::new(),
        done: HashSet::new(),
        bad,
    };
    world.run().await
}

#[tokio::test]
async fn whatever_becomes_of_movers_every_shard_is_done_once() {
    let seeds = if testkit::is_long() { 20_000 } else { 80 };
    let tables = Tables::file();
    let mut fleet = tables.open(&Arc::default(), 0).await;
    let mut shared = 0;
    for seed in 0..seeds {
        if seed % 1000 == 0 {
            println!("seed {seed} of {seeds}");
        }
        let played = play(&tables, fleet, seed).await;
        (fleet, shared) = (played.0, shared + played.1);
    }
    assert!(shared as u64 > seeds / 10, "{shared} files were moved by several");
}

#[tokio::test]
async fn the_same_in_a_database_that_services_share() {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(reason) => return testkit::skip("the_same_in_a_database_that_services_share", &reason),
    };
    let tables = Tables { url: server.fresh(), _directory: None };
    let mut fleet = tables.open(&Arc::default(), 0).await;
    for seed in 0..10 {
        fleet = play(&tables, fleet, seed).await.0;
    }
}

#[tokio::test]
async fn what_fails_everywhere_is_set_aside_and_the_rest_is_done() {
    let tables = Tables::file();
    let clock = Arc::new(AtomicI64::new(1_000_000));
    let (fleet, token) = (tables.open(&clock, 1).await, MoverToken::random());
    fleet.begin(job(1), &token, "{}").await.expect("begun");
    let shard =
        |names: &[u8]| ShardContent { files: 2, bytes: 10, names: names.to_vec(), ..Default::default() };
    fleet.list(job(1), &[shard(b"a\0b\0"), shard(b"c\0d\0")], true).await.expect("taken");
    let mut tries = 0;
    let lease = loop {
        match fleet.claim(&token, Claimer::named("here")).await.expect("answered") {
            Claimed::Lease(lease) => {
                tries += usize::from(lease.shards.iter().any(|(_, shard)| shard.names().any(|n| n == b"c")));
                let ending = |(id, shard): &(u64, ShardContent)| {
                    let failed = shard.names().filter(|name| *name == b"c");
                    let failed = failed.map(|name| (name.to_vec(), "denied".into(), "no".into())).collect();
                    Ending { shard: *id, kept: false, failed }
                };
                let report = Report { shards: lease.shards.iter().map(ending).collect() };
                fleet.finish(&token, lease.token, &report).await.expect("taken");
            }
            other => break other,
        }
    };
    assert_eq!((lease, tries), (Claimed::Drained, MAX_TRIES as usize));
    let standing = fleet.standing(job(1)).await.expect("known");
    assert_eq!((&standing.state[..], standing.done_files, standing.failed_files), ("done", 3, 1));
    let failures = fleet.failures(job(1), 10).await.expect("known");
    assert_eq!(failures, [("c".to_owned(), "denied".to_owned(), "no".to_owned())]);
    assert_eq!(fleet.claim(&MoverToken::random(), Claimer::named("here")).await, Err(FleetError::NoRun));
    assert_eq!(fleet.claim(&token, Claimer::named("here")).await, Ok(Claimed::Drained));
}

#[tokio::test]
async fn a_list_of_files_is_divided_where_it_is_more_than_a_claim() {
    let tables = Tables::file();
    let fleet = tables.open(&Arc::new(AtomicI64::new(1_000_000)), 1).await;
    let token = MoverToken::random();
    fleet.begin(job(1), &token, "{}").await.expect("begun");
    let names = b"a\0b\0c\0d\0e\0f\0g\0".to_vec();
    let shard = ShardContent { files: 7, bytes: 7 << 23, names, ..Default::default() };
    fleet.list(job(1), &[shard], true).await.expect("taken");
    // Half of what is left, as nobody else has anything; then a quarter, and a file at the least.
    for (mover, files) in [("one", 3), ("another", 1)] {
        let Ok(Claimed::Lease(lease)) = fleet.claim(&token, Claimer::named(mover)).await else {
            panic!("there is more")
        };
        let given: Vec<u64> = lease.shards.iter().map(|(_, shard)| shard.files).collect();
        assert_eq!(given, [files]);
    }
}

#[tokio::test]
async fn a_large_file_is_moved_by_many_and_fails_once() {
    let tables = Tables::file();
    let clock = Arc::new(AtomicI64::new(1_000_000));
    let (fleet, token) = (tables.open(&clock, 1).await, MoverToken::random());
    fleet.begin(job(1), &token, "{}").await.expect("begun");
    let size = (1 << 30) + 12_345;
    let file = ShardContent { files: 1, bytes: size, names: b"large\0".to_vec(), ..Default::default() };
    let range = ShardContent { extent: Extent::Range(0..9), ..file.clone() };
    assert!(
        matches!(fleet.list(job(1), &[range], false).await, Err(FleetError::Refused(_))),
        "only files are listed"
    );
    fleet.list(job(1), &[file], true).await.expect("taken");
    let claim = async |mover: &str| match fleet.claim(&token, Claimer::named(mover)).await.expect("answered")
    {
        Claimed::Lease(lease) => Some(*lease),
        Claimed::Wait => None,
        Claimed::Drained => panic!("drained"),
    };
    let finish = async |lease: &ShardLease, why: Option<&str>| {
        let failed = |why: &str| (b"large".to_vec(), why.to_owned(), "no".to_owned());
        let ending = |(id, _): &(u64, ShardContent)| Ending {
            shard: *id,
            kept: false,
            failed: why.map(failed).into_iter().collect(),
        };
        let report = Report { shards: lease.shards.iter().map(ending).collect() };
        fleet.finish(&token, lease.token, &report).await.expect("taken");
    };
    // Four at a time, each for a second, until nothing waits.
    let mut at_once = Vec::new();
    let (mut moved, mut movers) = (0, HashSet::new());
    'all: for number in 0.. {
        let mover = format!("m{}", number % 4);
        while at_once.len() == 4 {
            clock.fetch_add(1000, Relaxed);
            finish(&at_once.remove(0), None).await;
        }
        match claim(&mover).await {
            Some(lease) if lease.shards[0].1.extent == Extent::Completion => {
                assert_eq!((moved, at_once.len(), lease.shards.len()), (size, 0, 1), "after all ranges");
                assert_eq!(fleet.standing(job(1)).await.expect("known").done_files, 0);
                finish(&lease, None).await;
                break 'all;
            }
            Some(lease) => {
                for (_, content) in &lease.shards {
                    let Extent::Range(range) = &content.extent else { panic!("{content:?}") };
                    assert_eq!((range.end - range.start, range.start % (4 << 20)), (content.bytes, 0));
                    moved += content.bytes;
                }
                movers.insert(mover);
                at_once.push(lease);
            }
            // The last ranges are others'.
            None => finish(&at_once.remove(0), None).await,
        }
    }
    let standing = fleet.standing(job(1)).await.expect("known");
    assert_eq!((&standing.state[..], standing.done_files, standing.done_bytes), ("done", 1, size));
    assert!(
        movers.len() == 4 && standing.shards > 8 && standing.ended_shards == standing.shards,
        "{standing:?}"
    );

    // Of one that nobody can read the rest is not tried once a range has been often enough.
    let token = MoverToken::random();
    fleet.begin(job(2), &token, "{}").await.expect("begun");
    let file = ShardContent { files: 1, bytes: size, names: b"large\0".to_vec(), ..Default::default() };
    let fine = ShardContent { files: 1, bytes: 10, names: b"fine\0".to_vec(), ..Default::default() };
    fleet.list(job(2), &[file, fine], true).await.expect("taken");
    let mut tried = 0;
    while let Claimed::Lease(lease) = fleet.claim(&token, Claimer::named("m")).await.expect("answered") {
        let ending = |(id, content): &(u64, ShardContent)| {
            let failed = content.names().filter(|name| *name == b"large");
            let failed = failed.map(|name| (name.to_vec(), "denied".into(), "no".into())).collect();
            Ending { shard: *id, kept: false, failed }
        };
        tried += 1;
        let report = Report { shards: lease.shards.iter().map(ending).collect() };
        fleet.finish(&token, lease.token, &report).await.expect("taken");
    }
    let standing = fleet.standing(job(2)).await.expect("known");
    assert_eq!(
        (&standing.state[..], standing.done_files, standing.failed_files),
        ("done", 1, 1),
        "{tried} tries"
    );
    assert_eq!(standing.ended_shards, standing.shards);
    let failures = fleet.failures(job(2), 10).await.expect("known");
    assert_eq!(failures, [("large".to_owned(), "denied".to_owned(), "no".to_owned())]);
}

#[tokio::test]
async fn leases_go_through_the_endpoints_of_a_pool_and_not_through_those_left_out() {
    go_through_a_pool(&Tables::file()).await;
    match Postgres::start() {
        Ok(server) => go_through_a_pool(&Tables { url: server.fresh(), _directory: None }).await,
        Err(reason) => {
            let test = "leases_go_through_the_endpoints_of_a_pool_and_not_through_those_left_out";
            testkit::skip(test, &reason);
        }
    }
}

async fn go_through_a_pool(tables: &Tables) {
    let clock = Arc::new(AtomicI64::new(1_000_000));
    let (fleet, token) = (tables.open(&clock, 1).await, MoverToken::random());
    let endpoint = |name: &str, weight| PoolEndpoint { name: name.to_owned(), weight };
    let endpoints = [endpoint("a", 1), endpoint("b", 3)];
    fleet.begin_by(job(1), &token, "{}", &endpoints).await.expect("begun");
    let shard = |at: u64| ShardContent {
        files: 1,
        bytes: 64 << 20,
        names: format!("{at}\0").into_bytes(),
        ..Default::default()
    };
    fleet.list(job(1), &(0..64).map(shard).collect::<Vec<_>>(), true).await.expect("taken");
    let claim = async |mover: &str, without: &[u16]| {
        let claimer = Claimer { mover, host: "node1", without };
        match fleet.claim(&token, claimer).await.expect("answered") {
            Claimed::Lease(lease) => *lease,
            other => panic!("{other:?}"),
        }
    };
    let mut through = [0, 0];
    let mut leases = Vec::new();
    for mover in ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7"] {
        let lease = claim(mover, &[]).await;
        through[usize::from(lease.endpoint.expect("one of the pool"))] += 1;
        leases.push(lease);
    }
    assert_eq!(through, [2, 6], "by weight");
    assert_eq!(claim("n", &[1]).await.endpoint, Some(0), "what failed it is left out");
    assert!(claim("n", &[0, 1]).await.endpoint.is_some(), "but not all");
    // Leases through one that bring little get fewer.
    for lease in leases {
        let slow = lease.endpoint == Some(1);
        clock.fetch_add(if slow { 50_000 } else { 1000 }, Relaxed);
        let shards = lease.shards.iter().map(|(id, _)| Ending { shard: *id, ..Ending::default() }).collect();
        fleet.finish(&token, lease.token, &Report { shards }).await.expect("taken");
        clock.fetch_sub(if slow { 50_000 } else { 1000 }, Relaxed);
    }
    assert_eq!(claim("m", &[]).await.endpoint, Some(0), "though the other has the larger weight");
    let standing = fleet.standing(job(1)).await.expect("known");
    let mover = standing.movers.iter().find(|mover| mover.name == "m").expect("known");
    assert_eq!((&mover.host[..], mover.endpoint.as_deref()), ("node1", Some("a")));
    let hosts = fleet.hosts(10).await.expect("known");
    assert_eq!(hosts.iter().map(|host| (&host.host[..], host.movers)).collect::<Vec<_>>(), [("node1", 3)]);
}

#[tokio::test]
async fn leases_that_ran_out_while_nobody_could_renew_them_are_left_to_be_renewed() {
    let tables = Tables::file();
    let clock = Arc::new(AtomicI64::new(1_000_000));
    let pass = |time: Duration| clock.fetch_add(time.as_millis() as i64, Relaxed);
    let (before, token) = (tables.open(&clock, 1).await, MoverToken::random());
    before.begin(job(1), &token, "{}").await.expect("begun");
    let shard =
        |name: &[u8]| ShardContent { files: 1, bytes: 64 << 20, names: name.to_vec(), ..Default::default() };
    before.list(job(1), &[shard(b"a\0"), shard(b"b\0")], true).await.expect("taken");
    let mut leases = Vec::new();
    for mover in ["here", "there"] {
        let Ok(Claimed::Lease(lease)) = before.claim(&token, Claimer::named(mover)).await else {
            panic!("no lease")
        };
        leases.push(lease.token);
    }
    before.close().await;
    pass(TERM * 3);
    let after = tables.open(&clock, 2).await;
    assert_eq!(after.sweep().await, Ok(0));
    after.renew(&token, leases[0], Seen::default()).await.expect("renewed");
    pass(TERM / 4);
    // Who has not renewed its lease by then is gone.
    assert_eq!(after.sweep().await, Ok(1));
    let kept = after.renew(&token, leases[0], Seen::default()).await;
    assert_eq!(kept.map(|renewal| renewal.mover), Ok("here".to_owned()));
    assert_eq!(after.renew(&token, leases[1], Seen::default()).await, Err(FleetError::Lost(leases[1])));
}
