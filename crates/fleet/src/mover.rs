//! A mover: takes leases of shards of a run and moves them, until there are none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_contract::text::show;
use tidegate_run::drive::Ended;
use tidegate_transfer::error::{Error, ErrorKind, Result, Retry, usage};
use tidegate_transfer::spec::RunId;
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::transfer::route::transfer_id;

use crate::client::{PATIENCE, Service};
use crate::engine::ending::{DRAINED, TRY_AGAIN};
use crate::lease::{Held, SeenHere};
use crate::pools::LeftOut;
use crate::shards::{FleetError, ShardContent};
use crate::shared_copy::{Bound, Shards, SharedCopy, kind_name, placed_beneath};
use crate::words::{
    ClaimAnswer, ClaimRequest, EndingWords, FinishRequest, PoolWords, ShardWords, SpreadRequest, encoded,
};

/// The rest while others have what is left.
const REST: Duration = Duration::from_millis(500);

/// How often in a row leases may come to nothing before it leaves.
const MAX_IN_VAIN: u32 = 3;

/// How long no endpoint of a pool may do before it leaves.
const POOL_PATIENCE: Duration = Duration::from_secs(3600);

/// Which service a mover asks, and for which run.
pub struct Asked<'a> {
    /// The service's address.
    pub service: &'a str,
    /// The run's token.
    pub token: String,
    /// The authority that certifies the service, if that is none of the system's.
    pub server_ca: Option<&'a Path>,
}

/// The name of a mover's file in a state directory that hosts may share, where numbers of processes are not unique.
fn bound_file(host: &str) -> String {
    let host: String = host.chars().filter(|c| c.is_ascii_alphanumeric() || "-.".contains(*c)).collect();
    format!("mover-{host}-{}.bounds", std::process::id())
}

/// What became of a lease.
enum Moved {
    /// Its shards are at their end, or failed on their own.
    Done,
    /// Another has it.
    Lost,
    /// The copy ended early.
    BrokeOff(Error),
    /// The service did not take what was said of it.
    Unreported(Error),
}

/// A mover.
pub struct Mover {
    service: Arc<Service>,
    /// What movers of the run call the files that they move together after.
    run: RunId,
    name: String,
    host: String,
    state: PathBuf,
    stop: Interrupt,
    bound: Arc<Bound>,
}

impl Mover {
    /// One that asks the service at `at`, and shows the token of its run. It calls itself `name`, or else after this host and
    /// process; its own files are in the state directory `state`.
    pub fn new(at: Asked<'_>, name: Option<String>, state: &Path, stop: Interrupt) -> Result<Self> {
        let Asked { service, token, server_ca } = at;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let name = name.unwrap_or_else(|| format!("{host}-{}", std::process::id()));
        Ok(Self {
            run: transfer_id(&[b"split files of the run", token.as_bytes()]),
            service: Arc::new(Service::at(service, token, server_ca)?),
            bound: Arc::new(Bound::at(state.join(bound_file(&host)))),
            name,
            host,
            state: state.to_path_buf(),
            stop,
        })
    }

    /// Moves until nothing is left; answers with the exit code.
    pub fn run(&self) -> Result<i32> {
        let mut in_vain = 0;
        let mut heard = Instant::now();
        let mut left_out = LeftOut::default();
        while !self.stop.is_raised() {
            let asked = Instant::now();
            let request = ClaimRequest {
                mover: self.name.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                host: self.host.clone(),
                without: left_out.at(asked),
            };
            let answer = match self.service.post("/mover/claim", &request) {
                Ok(answer) => answer,
                // A service that is started again, or another one, goes on where this one was.
                Err(error) if error.kind.retry() == Retry::Outage && heard.elapsed() < PATIENCE => {
                    tracing::info!("{error}");
                    self.rest(REST);
                    continue;
                }
                Err(error) => return Err(error),
            };
            heard = Instant::now();
            match answer {
                ClaimAnswer::Drained => return Ok(DRAINED),
                ClaimAnswer::Wait => self.rest(REST),
                ClaimAnswer::Lease { lease, term_ms, work, shards, streams, endpoint } => {
                    if let Some(streams) = streams {
                        set(&self.bound, streams);
                    }
                    let bound = Arc::clone(&self.bound);
                    let held = Held::new(
                        Arc::clone(&self.service),
                        lease,
                        (asked, Duration::from_millis(term_ms)),
                        Interrupt::default(),
                        move |streams| set(&bound, streams),
                    );
                    match (self.move_shards(held, &work, &shards, endpoint)?, endpoint, &work.pool) {
                        (Moved::Lost, ..) => in_vain = 0,
                        (Moved::Done, ..) => {
                            in_vain = 0;
                            endpoint.into_iter().for_each(|endpoint| left_out.worked(endpoint));
                        }
                        (Moved::BrokeOff(error), Some(endpoint), Some(pool)) => {
                            self.leave_out(&mut left_out, endpoint, pool, error)?;
                            heard = Instant::now();
                        }
                        (Moved::BrokeOff(error), ..) if error.kind.retry() == Retry::Never => {
                            return Err(error);
                        }
                        (Moved::BrokeOff(error) | Moved::Unreported(error), ..) => {
                            tracing::warn!("{error}");
                            in_vain += 1;
                            if in_vain >= MAX_IN_VAIN {
                                return Err(Error::new(ErrorKind::Connection, error.message));
                            }
                            self.rest(REST);
                        }
                    }
                }
            }
        }
        Ok(TRY_AGAIN)
    }

    /// Leaves an endpoint of a pool out for a while, as `error` is what came of it; rests where no other is left.
    fn leave_out(&self, left_out: &mut LeftOut, endpoint: u16, pool: &PoolWords, error: Error) -> Result<()> {
        if error.kind == ErrorKind::Interrupted {
            return Ok(());
        }
        let (now, all) = (Instant::now(), pool.endpoints.len());
        let name = pool.endpoints.get(usize::from(endpoint)).map_or("an endpoint", |words| &words.name);
        left_out.failed(endpoint, error.kind.retry() == Retry::Never, now);
        if left_out.is_hopeless(all, POOL_PATIENCE, now) {
            return Err(
                error.within(format!("no endpoint of the pool {} will do, the last of them", pool.name))
            );
        }
        tracing::warn!("{name} is left out for a while: {error}");
        self.rest(left_out.pause(all, now));
        Ok(())
    }

    fn rest(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.stop.is_raised() {
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Moves the shards of a lease, source by source and by way of `endpoint` if there is a pool, and reports what became of
    /// them.
    fn move_shards(
        &self,
        held: Held,
        work: &SpreadRequest,
        shards: &[ShardWords],
        endpoint: Option<u16>,
    ) -> Result<Moved> {
        let mut options = SharedCopy::of(&work.options, &self.state)?;
        if work.pool.is_some() {
            options.fail_early();
        }
        if work.is_verified_apart() {
            options.compare_content();
        }
        if work.streams.is_some() {
            options.keep_within(&self.bound);
        }
        let mut sources: BTreeMap<u32, Vec<(u64, ShardContent)>> = BTreeMap::new();
        for shard in shards {
            let content = shard.content().map_err(|error: FleetError| usage(error.to_string()))?;
            sources.entry(shard.source).or_default().push((shard.id, content));
        }
        let held = Arc::new(held);
        let keeper = held.keep();
        let (mut endings, mut broke) = (Vec::new(), None);
        for (number, shards) in sources {
            let Some(source) = work.sources.get(number as usize) else {
                return Err(usage(format!("the job has no source {number}")));
            };
            let by_way = |address| work.by_way_of(address, endpoint.unwrap_or_default());
            let (source, destination) = (by_way(source)?, by_way(&work.destination)?);
            match self.copy(&held, &options, (&source, &destination), &shards) {
                Ok(failed) => endings.extend(failed),
                Err(error) => {
                    broke = Some(error);
                    break;
                }
            }
        }
        drop(keeper);
        // What is not named was not begun, or broke off: it waits again.
        let report = FinishRequest { lease: held.number(), shards: endings };
        match self.report(&report) {
            // Another has them by now.
            Err(error) if error.kind == ErrorKind::Busy => {
                tracing::warn!("{error}");
                Ok(Moved::Lost)
            }
            Err(error) if error.kind.retry() == Retry::Never => Err(error),
            Err(error) => Ok(Moved::Unreported(error)),
            Ok(()) => Ok(broke.map_or(Moved::Done, Moved::BrokeOff)),
        }
    }

    fn report(&self, report: &FinishRequest) -> Result<()> {
        let began = Instant::now();
        loop {
            match self.service.post::<()>("/mover/finish", report) {
                Err(error) if error.kind.retry() == Retry::Outage && began.elapsed() < PATIENCE => {
                    self.rest(REST);
                }
                done => return done,
            }
            if self.stop.is_raised() {
                thread::sleep(REST);
            }
        }
    }

    /// Copies shards of one source; answers with what became of each.
    fn copy(
        &self,
        held: &Arc<Held>,
        options: &SharedCopy,
        (source, destination): (&str, &str),
        shards: &[(u64, ShardContent)],
    ) -> Result<Vec<EndingWords>> {
        let interrupt = held.interrupt().clone();
        let stop = self.stop.clone();
        let stopping = interrupt.clone();
        let (content, run, fence) = (shards, self.run, held.fence());
        let copied = Shards { source, destination, content, run, fence, interrupt };
        let ended = options.copy_shards(copied, |epoch| {
            held.saw(SeenHere {
                streams: epoch.concurrency.network,
                throughput_bps: epoch.throughput_bps.network.0,
                bytes: epoch.arrived.map_or(0, |arrived| arrived.new_bytes.0),
            });
            if stop.is_raised() {
                stopping.raise();
            }
        });
        let Ended { summary, error, .. } = ended?;
        if let Some(error) = error {
            return Err(error);
        }
        let prefix = placed_beneath(source);
        let ending = |(id, content): &(u64, ShardContent)| {
            let failed = summary.failures.iter().filter_map(|failure| {
                let name = match content.names.is_empty() {
                    true => Some(&b""[..]),
                    false => content.names().find(|name| is_of(&failure.path, prefix, name)),
                }?;
                Some((encoded(name), kind_name(failure.kind), failure.message.clone()))
            });
            EndingWords { id: *id, failed: failed.collect() }
        };
        Ok(shards.iter().map(ending).collect())
    }
}

/// Whether `path`, as failures are told, is that of `name`.
fn is_of(path: &str, prefix: &str, name: &[u8]) -> bool {
    let name = show(name);
    path == name
        || path.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('/')).is_some_and(|rest| rest == name)
}

fn set(bound: &Bound, streams: u16) {
    if let Err(error) = bound.set(streams) {
        tracing::warn!("cannot keep to {streams} network streams: {error}");
    }
}
