//! How fast a list becomes shards, and how fast movers claim them. No data is moved.
//!
//! ```text
//! cargo run --release -p tidegate-service --example fleet_speed -- [FILES] [MOVERS] [SECONDS] [DATABASE]
//! ```
//!
//! The list is made up as it is sent. Then so many movers at a time claim a shard each and report it done, for so long.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_service::fleet::{Claimed, Ending, Fleet, MoverToken, Packer, Report, Seen, ShardContent};
use tidegate_service::job::JobId;
use tokio::task::JoinSet;

fn number(at: usize, otherwise: u64) -> u64 {
    std::env::args().nth(at).and_then(|word| word.parse().ok()).unwrap_or(otherwise)
}

/// The most memory that this process has had, in MB.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb =
        line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|kb| kb.trim().parse::<u64>().ok());
    kb.unwrap_or(0) / 1000
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (files, movers, seconds) = (number(1, 10_000_000), number(2, 64), number(3, 10));
    let directory = tempfile::tempdir()?;
    let fleet = Arc::new(match std::env::args().nth(4) {
        Some(url) => Fleet::open_at(&url).await?,
        None => Fleet::open(directory.path()).await?,
    });
    let mut out = std::io::stdout();
    // Numbers of jobs that no run before has had in the same database.
    let first = std::time::UNIX_EPOCH.elapsed()?.as_millis() as u64;
    let job = |more: u64| JobId::new(first + more).ok_or("no number");

    let (listing, token) = (job(0)?, MoverToken::random());
    fleet.begin(listing, &token, "{}").await?;
    let began = Instant::now();
    let (mut packer, mut full, mut shards) = (Packer::new(0), Vec::new(), 0);
    for file in 0..files {
        let name = format!("run42/sample{:05}/lane{}/reads_{file:09}.fastq.gz", file / 1000, file % 8);
        full.extend(packer.add(name.as_bytes(), 10_000));
        if full.len() == 64 {
            shards += full.len();
            fleet.list(listing, &full, false).await?;
            full.clear();
        }
    }
    full.extend(packer.finish());
    shards += full.len();
    fleet.list(listing, &full, true).await?;
    let took = began.elapsed().as_secs_f64();
    let rate = files as f64 / took;
    writeln!(
        out,
        "{files} files: {shards} shards in {took:.1} s, {rate:.0} files/s, at most {} MB",
        peak_mb()
    )?;

    let (claiming, token) = (job(1)?, MoverToken::random());
    fleet.begin(claiming, &token, "{}").await?;
    // As large as one claim, so that each takes one.
    let one = ShardContent { source: 0, files: 1, bytes: 1 << 40, names: b"large\0".to_vec() };
    for _ in 0..100 {
        fleet.list(claiming, &vec![one.clone(); 500], false).await?;
    }
    let mut tasks = JoinSet::new();
    let end = Instant::now() + Duration::from_secs(seconds);
    for mover in 0..movers {
        let (fleet, token) = (Arc::clone(&fleet), token.clone());
        tasks.spawn(async move {
            let (mut waits, name) = (Vec::new(), format!("mover-{mover}"));
            while Instant::now() < end {
                let asked = Instant::now();
                let Ok(Claimed::Lease(lease)) = fleet.claim(&token, &name).await else { break };
                waits.push(asked.elapsed());
                let ending = |(id, _): &(u64, _)| Ending { shard: *id, ..Ending::default() };
                let report = Report { shards: lease.shards.iter().map(ending).collect() };
                let renewed = fleet.renew(&token, lease.token, Seen::default()).await;
                if renewed.is_err() || fleet.finish(&token, lease.token, &report).await.is_err() {
                    break;
                }
            }
            waits
        });
    }
    let mut waits = Vec::new();
    while let Some(done) = tasks.join_next().await {
        waits.extend(done?);
    }
    waits.sort();
    let at = |share: f64| {
        waits.get((waits.len() as f64 * share) as usize).map_or(0.0, |wait| wait.as_secs_f64() * 1e3)
    };
    let rate = waits.len() as f64 / seconds as f64;
    writeln!(
        out,
        "{movers} movers: {rate:.0} claims/s, each renewed and reported once; a claim takes {:.1} ms, 95th percentile {:.1} ms",
        at(0.5),
        at(0.95)
    )?;
    fleet.close().await;
    Ok(())
}
