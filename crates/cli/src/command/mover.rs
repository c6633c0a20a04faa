//! `tidegate mover`: takes shards of a run from a service and moves them, until there are none.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tidegate_contract::text::show;
use tidegate_service::fleet::words::{
    ClaimAnswer, ClaimRequest, EndingWords, FinishRequest, PoolWords, ShardWords, SpreadRequest, encoded,
};
use tidegate_service::fleet::{FleetError, ShardContent};
use tidegate_transfer::error::{Error, ErrorKind, Result, Retry};
use tidegate_transfer::spec::RunId;
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::transfer::route::transfer_id;

use crate::drive::Ended;
use crate::engine::ending::{CONFIGURATION, DRAINED, TRY_AGAIN};
use crate::exit::{in_one_line, usage};
use crate::pools::LeftOut;
use crate::service::leases::{Held, SeenHere, of};
use crate::service::{PATIENCE, Service};
use crate::settings::StateArgs;
use crate::shard::{Bound, Shards, SharedCopy, kind_name, placed_beneath};
use crate::signals::interrupt_on_signals;
use crate::terminal;

/// The rest while others have what is left.
const REST: Duration = Duration::from_millis(500);

/// How often in a row leases may come to nothing before it leaves.
const MAX_IN_VAIN: u32 = 3;

/// How long no endpoint of a pool may do before it leaves.
const POOL_PATIENCE: Duration = Duration::from_secs(3600);

/// Longest token that is read.
const MAX_TOKEN: u64 = 4096;

/// Take shards of a run of a service, and move them until none is left.
///
/// Started by `tidegate spread`, by an engine, or by hand; any number may run, and each may end at any time. Exit codes: 0
/// nothing is left, 75 there is more to do (start it again), 78 it can never run so.
#[derive(Debug, Args)]
pub struct MoverArgs {
    /// The service's address
    #[arg(long, value_name = "URL")]
    service: String,
    /// The file that holds the run's token, which only its owner may read; - reads a line of standard input
    #[arg(long, value_name = "FILE", env = "TIDEGATE_MOVER_TOKEN_FILE")]
    token_file: PathBuf,
    /// What it calls itself: no two at a time may share a name [default: the host and the process]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The certificate authority of the service's certificate, PEM [default: the system's]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_SERVER_CA")]
    server_ca: Option<PathBuf>,
    #[command(flatten)]
    state: StateArgs,
}

/// Runs the command.
pub fn run(args: &MoverArgs) -> anyhow::Result<ExitCode> {
    let code = match args.agent().and_then(|agent| agent.run()) {
        Ok(code) => code,
        Err(error) => {
            terminal::complain(&in_one_line(&error));
            let lasting =
                error.downcast_ref::<Error>().is_none_or(|error| error.kind.retry() == Retry::Never);
            if lasting { CONFIGURATION } else { TRY_AGAIN }
        }
    };
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

impl MoverArgs {
    fn agent(&self) -> anyhow::Result<Agent> {
        let token = token(&self.token_file)?;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let name = self.name.clone().unwrap_or_else(|| format!("{host}-{}", std::process::id()));
        let state = self.state.state_dir()?;
        Ok(Agent {
            run: transfer_id(&[b"split files of the run", token.as_bytes()]),
            service: Arc::new(Service::at(&self.service, token, self.server_ca.as_deref())?),
            bound: Arc::new(Bound::at(state.join(bound_file(&host)))),
            name,
            host,
            state,
            stop: interrupt_on_signals(),
        })
    }
}

/// The name of a mover's file in a state directory that hosts may share, where numbers of processes are not unique.
fn bound_file(host: &str) -> String {
    let host: String = host.chars().filter(|c| c.is_ascii_alphanumeric() || "-.".contains(*c)).collect();
    format!("mover-{host}-{}.bounds", std::process::id())
}

/// The token in `path`, which nobody else may read.
fn token(path: &Path) -> Result<String> {
    let failed = |error| Error::io("read", path.as_os_str().as_encoded_bytes(), error);
    let mut text = String::new();
    if path.as_os_str() == "-" {
        BufReader::new(std::io::stdin().take(MAX_TOKEN)).read_line(&mut text).map_err(failed)?;
    } else {
        let file = File::open(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.mode();
        if mode & 0o077 != 0 {
            let path = path.display();
            return Err(usage(format!(
                "{path} can be read by others (mode {:o}): chmod 600 {path}",
                mode & 0o777
            )));
        }
        file.take(MAX_TOKEN).read_to_string(&mut text).map_err(failed)?;
    }
    match text.trim() {
        "" => Err(usage(format!("{} holds no token", path.display()))),
        token => Ok(token.to_owned()),
    }
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
struct Agent {
    service: Arc<Service>,
    /// What movers of the run call the files that they move together after.
    run: RunId,
    name: String,
    host: String,
    state: PathBuf,
    stop: Interrupt,
    bound: Arc<Bound>,
}

impl Agent {
    /// Moves until nothing is left; answers with the exit code.
    fn run(&self) -> anyhow::Result<i32> {
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
            let answer = match self.service.post("/mover/claim", &request).map_err(of) {
                Ok(answer) => answer,
                // A service that is started again, or another one, goes on where this one was.
                Err(error) if error.kind.retry() == Retry::Outage && heard.elapsed() < PATIENCE => {
                    tracing::info!("{error}");
                    self.rest(REST);
                    continue;
                }
                Err(error) => return Err(error.into()),
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
                            return Err(error.into());
                        }
                        (Moved::BrokeOff(error) | Moved::Unreported(error), ..) => {
                            tracing::warn!("{error}");
                            in_vain += 1;
                            if in_vain >= MAX_IN_VAIN {
                                return Err(Error::new(ErrorKind::Connection, error.message).into());
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
    ) -> anyhow::Result<Moved> {
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
                return Err(usage(format!("the job has no source {number}")).into());
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
            Err(error) if error.kind.retry() == Retry::Never => Err(error.into()),
            Err(error) => Ok(Moved::Unreported(error)),
            Ok(()) => Ok(broke.map_or(Moved::Done, Moved::BrokeOff)),
        }
    }

    fn report(&self, report: &FinishRequest) -> Result<()> {
        let began = Instant::now();
        loop {
            match self.service.post::<()>("/mover/finish", report).map_err(of) {
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
        let Ended { summary, error, .. } = ended.map_err(of)?;
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
