//! How fast a list becomes shards, and how fast movers claim, renew and finish them through a service's API. No data is
//! moved: the list is made up, and movers are connections that say what a mover says.
//!
//! `cargo build --release && cargo run --release -p tidegate-service --example fleet_speed -- --program target/release/tidegate`
//!
//! The service is a process of its own, on SQLite, or with `--postgres` on a PostgreSQL server that is started for it with
//! its usual durability. Claims of one shard are counted twice: at `--rate` a second, where a claim counts from the moment it was
//! due, and as fast as all movers together can; then those of the list, as large as they get.

#[path = "../load/http.rs"]
mod http;
mod service;

use std::process::ExitCode;
use std::time::Duration;

use tidegate_fleet::shards::{Packer, ShardContent, Standing};
use tidegate_fleet::words::{
    ClaimAnswer, ClaimRequest, EndingWords, FinishRequest, ListedShards, RenewRequest, Renewed, ShardWords,
    SpreadBegun, SpreadRequest,
};
use tidegate_spec::options::Options;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use service::{Caller, Result, Service, cpu_seconds};
use testkit::postgres::Postgres;

const USAGE: &str =
    "fleet_speed --program TIDEGATE [--files N] [--movers N] [--seconds S] [--rate CLAIMS/s] [--postgres]";

/// Shards that are sent at once, as `tidegate spread` does.
const BATCH: usize = 64;

/// Shards to be claimed one by one: more than are, in the time.
const SHARDS: usize = 40_000;

/// Claims of the list a second, as large as they get: what a thousand movers ask that claim for 45 s each.
const LARGE_PER_S: f64 = 22.0;

struct Settings {
    program: String,
    files: u64,
    movers: u32,
    seconds: f64,
    rate: f64,
    postgres: bool,
}

fn settings() -> Result<Settings> {
    let mut found = Settings {
        program: String::new(),
        files: 10_000_000,
        movers: 64,
        seconds: 10.0,
        rate: 500.0,
        postgres: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--postgres" {
            found.postgres = true;
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        match &name[..] {
            "--program" => found.program = value,
            "--files" => found.files = value.parse()?,
            "--movers" => found.movers = value.parse()?,
            "--seconds" => found.seconds = value.parse()?,
            "--rate" => found.rate = value.parse()?,
            _ => return Err(format!("{name} is not known").into()),
        }
    }
    if found.program.is_empty() { Err("--program is missing".into()) } else { Ok(found) }
}

/// Sends a list into a run, as many shards at a time as `tidegate spread` sends.
struct Lister {
    caller: Caller,
    path: String,
    full: Vec<ShardWords>,
    shards: usize,
}

impl Lister {
    fn new(caller: Caller, run: &SpreadBegun) -> Self {
        Self { caller, path: format!("/spreads/{}/shards", run.id), full: Vec::new(), shards: 0 }
    }

    async fn add(&mut self, shard: &ShardContent) -> Result<()> {
        self.full.push(ShardWords::of(0, shard));
        if self.full.len() >= BATCH { self.send(false).await } else { Ok(()) }
    }

    async fn send(&mut self, all: bool) -> Result<()> {
        self.shards += self.full.len();
        let listed = ListedShards { shards: std::mem::take(&mut self.full), failed: Vec::new(), all };
        self.caller.post::<_, Standing>(&self.path, &listed).await.map(drop)
    }
}

/// Begins a run; answers with what its movers show as well.
async fn begin(caller: &mut Caller) -> Result<SpreadBegun> {
    let request = SpreadRequest {
        sources: vec!["/data/".to_owned()],
        destination: "/archive/".to_owned(),
        options: Options::default(),
        streams: None,
        pool: None,
    };
    caller.post("/spreads", &request).await
}

/// A list of so many files, whose names are made up as they are sent.
async fn list(service: &Service, files: u64) -> Result<SpreadBegun> {
    let mut caller = service.caller(service.token()).await?;
    let run = begin(&mut caller).await?;
    let began = Instant::now();
    let (mut lister, mut packer) = (Lister::new(caller, &run), Packer::new(0));
    for file in 0..files {
        let name = format!("run42/sample{:05}/lane{}/reads_{file:09}.fastq.gz", file / 1000, file % 8);
        if let Some(shard) = packer.add(name.as_bytes(), 10_000) {
            lister.add(&shard).await?;
        }
        if file % 1_000_000 == 999_999 {
            eprintln!("{} files of {files} after {:.0} s", file + 1, began.elapsed().as_secs_f64());
        }
    }
    if let Some(shard) = packer.finish() {
        lister.add(&shard).await?;
    }
    lister.send(true).await?;
    let (shards, took) = (lister.shards, began.elapsed().as_secs_f64());
    let rate = files as f64 / took;
    println!(
        "{files} files: {shards} shards in {took:.1} s, {rate:.0} files/s; the service has had {} MB",
        service.peak_mb()
    );
    Ok(run)
}

/// A run with shards each of which is more than a mover is given of which nothing is known.
async fn claimable(service: &Service) -> Result<SpreadBegun> {
    let mut caller = service.caller(service.token()).await?;
    let run = begin(&mut caller).await?;
    let mut lister = Lister::new(caller, &run);
    // Of two files by number and one by name: nothing of it can be left to others.
    let one =
        ShardContent { files: 2, bytes: 1 << 40, names: b"large\0".to_vec(), ..ShardContent::default() };
    for _ in 0..SHARDS {
        lister.add(&one).await?;
    }
    lister.send(true).await?;
    Ok(run)
}

/// How long claims, and all three questions of a lease, took.
#[derive(Default)]
struct Waits {
    claims: Vec<Duration>,
    cycles: Vec<Duration>,
    /// What was claimed.
    shards: usize,
}

/// One mover that claims, renews and finishes, lease after lease; `every` so often, or at once after the last. It is another
/// each time, where each claim is to be of one shard: one that was so fast is given as many as go into a claim.
async fn mover(
    mut caller: Caller,
    (name, another): (String, bool),
    (mut due, every): (Instant, Option<Duration>),
    end: Instant,
) -> Result<Waits> {
    let mut waits = Waits::default();
    while due < end {
        sleep_until(due).await;
        let mover = if another { format!("{name}.{}", waits.claims.len()) } else { name.clone() };
        let (version, host) = (env!("CARGO_PKG_VERSION").to_owned(), "here".to_owned());
        let claim = ClaimRequest { mover, version, host, without: Vec::new() };
        let ClaimAnswer::Lease { lease, shards, .. } = caller.post("/mover/claim", &claim).await? else {
            return Err("all shards are claimed: ask for fewer seconds, or more files".into());
        };
        waits.claims.push(due.elapsed());
        waits.shards += shards.len();
        let renew = RenewRequest { lease, streams: 4, throughput_bps: 1_000_000_000, bytes: 1 << 20 };
        let _: Renewed = caller.post("/mover/renew", &renew).await?;
        let ending = |shard: &ShardWords| EndingWords { id: shard.id, failed: Vec::new() };
        let report = FinishRequest { lease, shards: shards.iter().map(ending).collect() };
        caller.post::<_, ()>("/mover/finish", &report).await?;
        waits.cycles.push(due.elapsed());
        due = every.map_or_else(Instant::now, |every| due + every);
    }
    Ok(waits)
}

/// All movers for a while: `rate` claims a second, or as many as they can; of one shard each, or as large as they get.
async fn claims(
    (service, server): (&Service, Option<&Postgres>),
    run: &SpreadBegun,
    settings: &Settings,
    (rate, one): (Option<f64>, bool),
) -> Result<()> {
    let many = settings.movers;
    let mut tasks = JoinSet::new();
    let begin = Instant::now() + Duration::from_millis(100);
    let end = begin + Duration::from_secs_f64(settings.seconds);
    for number in 0..many {
        let every = rate.map(|rate| Duration::from_secs_f64(f64::from(many) / rate));
        let first = begin + every.unwrap_or_default() * number / many;
        let caller = service.caller(&run.token).await?;
        tasks.spawn(mover(
            caller,
            (format!("{}-{number}", if rate.is_some() { "steady" } else { "fast" }), one),
            (first, every),
            end,
        ));
    }
    let busy = || [service.cpu_seconds(), server.map_or(0.0, |server| cpu_seconds(server.id()))];
    let (mut waits, before) = (Waits::default(), busy());
    while let Some(done) = tasks.join_next().await {
        let Waits { claims, cycles, shards } = done??;
        waits.claims.extend(claims);
        waits.cycles.extend(cycles);
        waits.shards += shards;
    }
    let took = begin.elapsed().as_secs_f64();
    waits.claims.sort();
    let at = |share: f64| {
        let place = (waits.claims.len() as f64 * share) as usize;
        waits.claims.get(place).map_or(0.0, |wait| wait.as_secs_f64() * 1e3)
    };
    let spent = |at: usize| (busy()[at] - before[at]) * 1e3 / waits.claims.len().max(1) as f64;
    let cycle = waits.cycles.iter().sum::<Duration>().as_secs_f64() / waits.cycles.len().max(1) as f64;
    let asked =
        rate.map_or_else(|| "as fast as they can".to_owned(), |rate| format!("{rate:.0}/s asked for"));
    println!(
        "{many} movers, {asked}: {:.0} claims/s of {:.1} shards, each renewed and finished once; a claim takes {:.1} ms (95th percentile \
         {:.1} ms), all three {:.1} ms; CPU time for the three: {:.2} ms of the service, {:.2} ms of PostgreSQL; n = {}; the service has had {} MB",
        waits.claims.len() as f64 / took,
        waits.shards as f64 / waits.claims.len().max(1) as f64,
        at(0.5),
        at(0.95),
        cycle * 1e3,
        spent(0),
        spent(1),
        waits.claims.len(),
        service.peak_mb()
    );
    Ok(())
}

async fn measure(settings: &Settings) -> Result<()> {
    let server = match settings.postgres {
        true => Some(Postgres::start_with(&["fsync=on", "shared_buffers=128MB"])?),
        false => None,
    };
    let database = server.as_ref().map(Postgres::fresh);
    let service = Service::start(&settings.program, database.as_deref())?;
    println!("on {}:", if database.is_some() { "PostgreSQL" } else { "SQLite" });
    let run = claimable(&service).await?;
    let here = (&service, server.as_ref());
    claims(here, &run, settings, (Some(settings.rate), true)).await?;
    claims(here, &run, settings, (None, true)).await?;
    if settings.files > 0 {
        let run = list(&service, settings.files).await?;
        claims(here, &run, settings, (Some(LARGE_PER_S), false)).await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match settings() {
        Ok(settings) => measure(&settings).await,
        Err(error) => Err(format!("{error}\n{USAGE}").into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
