//! `tidegate spread`: one copy by many hosts. Lists the sources into a job of a service, has movers started, and follows.

mod home;
mod listing;

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;
use tidegate_contract::summary::{FailedFile, Files, Status, Summary};
use tidegate_control::{BitRate, ByteCount};
use tidegate_service::fleet::Standing;
use tidegate_service::fleet::words::{PoolWords, SpreadBegun, SpreadRequest};
use tidegate_service::job::JobId;
use tidegate_spec::copy::CopySpec;
use tidegate_spec::filters::FilterSpec;
use tidegate_spec::options::Options;
use tidegate_transfer::error::{Error, ErrorKind, Retry};
use tidegate_transfer::transfer::Interrupt;

use crate::engine::{EngineArgs, Started};
use crate::exit::usage;
use crate::output::OutputArgs;
use crate::place::Place;
use crate::pools;
use crate::service::jobs::ShownJob;
use crate::service::leases::of;
use crate::service::{PATIENCE, Service, ServiceArgs, address_there};
use crate::shard::SharedCopy;
use crate::signals::interrupt_on_signals;
use crate::ssh::SshArgs;
use crate::summary::complain_of;
use crate::terminal;

use home::HomeArgs;
use listing::ShardListing;

/// How often the job is looked at, and how often people are told.
const LOOK: Duration = Duration::from_millis(500);
const TELLING: Duration = Duration::from_secs(5);

/// How long an engine may say that no mover runs while shards wait, before that is an error: it may be about to start some.
const NOBODY: Duration = Duration::from_secs(30);

/// Most files of tokens of jobs that have one number, each of another service.
const MAX_ALIKE: u32 = 1000;

/// Have many hosts move one data set, shard by shard.
///
/// SRC and DST are paths that every mover's host sees alike, endpoints, or pools of endpoints (`tidegate remote pool`); one of
/// the two is a path. What is at DST already
/// is skipped. The job is one of the service: `tidegate job ID --follow` and `tidegate cancel ID` know it, and more movers
/// may join by `tidegate mover` or `tidegate movers`. With no service running one is started for the run.
#[derive(Debug, Args)]
#[command(override_usage = "tidegate spread [OPTIONS] <SRC>... <DST>", after_help = crate::exit::HELP)]
pub struct SpreadArgs {
    /// One or more sources, and last the destination
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,
    /// An option of the copies, as in --option=--limit-network=80Mbit/s
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    option: Vec<String>,
    /// Most network streams of all movers together, shared out by what each uses
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_streams: Option<u16>,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    filters: FilterSpec,
    #[command(flatten)]
    pub output: OutputArgs<true, false>,
    #[command(flatten)]
    ssh: SshArgs,
    #[command(flatten)]
    service: ServiceArgs,
    #[command(flatten)]
    home: HomeArgs,
}

/// A run that was begun.
struct Run<'a> {
    args: &'a SpreadArgs,
    service: &'a Service,
    request: SpreadRequest,
    id: JobId,
    interrupt: Interrupt,
    began: Instant,
}

/// Runs the command.
pub fn run(args: &SpreadArgs) -> anyhow::Result<ExitCode> {
    let mut request = args.request()?;
    let state = args.service.state_dir()?;
    let mut options = SharedCopy::of(&request.options, &state)?;
    let selection = args.filters.selection()?;
    let engine = args.engine.engine(&args.ssh)?;
    let interrupt = interrupt_on_signals();
    if let Some(pool) = &mut request.pool {
        pools::prove(pool, options.pki()?.as_ref(), &interrupt, terminal::tell)?;
        options.fail_early();
    }
    let home = args.home.service(&args.service, args.engine.is_here())?;
    let service = home.service();
    let begun: SpreadBegun = service.post("/spreads", &request)?;
    let token = TokenFile::write(&state, begun.id, &begun.token)?;
    let run = Run { args, service, request, id: begun.id, interrupt, began: Instant::now() };
    // Another service has a job of that number, too, and engines know movers by their name.
    let name = format!("tidegate-{}-{}", begun.id, &blake3::hash(begun.token.as_bytes()).to_hex()[..8]);
    let movers =
        args.engine.movers(name, service.base().to_owned(), args.service.server_ca(), &token.path)?;
    run.tell(&format!("job {} at {}", begun.id, service.base()));
    let result = engine.start(&movers).map_err(anyhow::Error::from).and_then(|mut started| {
        let result = run.move_all(&mut *started, &options, &selection);
        let stopped = started.stop();
        result.and_then(|standing| stopped.map(|()| standing).map_err(Into::into))
    });
    match result {
        Ok(standing) => run.ended(&standing, options.optimizer()),
        Err(error) => {
            // Nothing more is given out, and what was under way is not taken.
            let _: anyhow::Result<Value> = service.post(&format!("/jobs/{}/cancel", run.id), &Value::Null);
            Err(error)
        }
    }
}

impl SpreadArgs {
    /// What the job is asked for.
    fn request(&self) -> anyhow::Result<SpreadRequest> {
        let (destination, sources) = match self.paths.split_last() {
            Some((destination, sources @ [_, ..])) => (destination, sources),
            _ => return Err(usage("a source and a destination are needed").into()),
        };
        let mut pool = None;
        let sources = sources
            .iter()
            .map(|source| address_anywhere(source, &mut pool))
            .collect::<Result<Vec<_>, _>>()?;
        let mut destination = address_anywhere(destination, &mut pool)?;
        if sources.len() > 1 && !destination.ends_with('/') {
            destination.push('/');
        }
        let is_far = |address: &String| !address.starts_with('/');
        if is_far(&destination) && sources.iter().any(is_far) {
            let why = "a source and the destination are endpoints: movers need one side as a path of their own host";
            return Err(usage(why).into());
        }
        let options = Options::typed::<CopySpec>(&self.option).map_err(usage)?;
        let streams = self.max_streams;
        Ok(SpreadRequest { sources, destination, options, streams, pool })
    }
}

impl Run<'_> {
    /// Tells people, unless a script reads.
    fn tell(&self, text: &str) {
        if !self.args.output.json && !self.args.output.quiet {
            terminal::tell(text);
        }
    }

    /// Lists everything while movers move it, waits for the last shard, and gives directories their times.
    fn move_all(
        &self,
        started: &mut dyn Started,
        options: &SharedCopy,
        selection: &tidegate_transfer::selection::Selection,
    ) -> anyhow::Result<Standing> {
        let listing = ShardListing {
            service: self.service,
            id: self.id,
            interrupt: &self.interrupt,
            listed: Default::default(),
        };
        let listed = listing.list(&self.request, options, selection)?;
        let standing = self.follow(started)?;
        if standing.state == "cancelled" {
            return Err(Error::new(ErrorKind::Interrupted, format!("job {} was cancelled", self.id)).into());
        }
        for (number, source) in self.request.sources.iter().enumerate() {
            if listed.trees.contains(&number) {
                // Of files there are none of that size: what is left is directories and links.
                let rest = tidegate_transfer::selection::Selection {
                    min_size: Some(1),
                    max_size: Some(0),
                    ..selection.clone()
                };
                pools::by_way_of_any(&self.request, |endpoint| {
                    let source = self.request.by_way_of(source, endpoint)?;
                    let destination = self.request.by_way_of(&self.request.destination, endpoint)?;
                    let ended =
                        options.copy((&source, &destination), rest.clone(), self.interrupt.clone())?;
                    ended.error.map_or(Ok(()), |error| Err(error.into()))
                })?;
            }
        }
        Ok(standing)
    }

    /// Waits until all shards are at their end.
    fn follow(&self, started: &mut dyn Started) -> anyhow::Result<Standing> {
        let (mut told, mut somebody, mut heard) = (Instant::now(), Instant::now(), Instant::now());
        loop {
            if self.interrupt.is_raised() {
                let why = "interrupted; run the same command again to continue";
                return Err(Error::new(ErrorKind::Interrupted, why).into());
            }
            let standing: Standing = match self.service.get(&format!("/spreads/{}", self.id)).map_err(of) {
                Ok(standing) => standing,
                Err(error) if error.kind.retry() == Retry::Outage && heard.elapsed() < PATIENCE => {
                    thread::sleep(LOOK);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            heard = Instant::now();
            if standing.has_ended() {
                return Ok(standing);
            }
            // An engine that does not answer now may later.
            if let Ok(status) = started.look() {
                let joined = standing.movers.iter().any(|mover| mover.leases > 0);
                if !status.is_over() || joined {
                    somebody = Instant::now();
                }
                let left = standing.shards - standing.ended_shards;
                if status.failed > 0 && status.is_over() || somebody.elapsed() > NOBODY {
                    let why = status.why.unwrap_or_else(|| "none is left".to_owned());
                    let text = format!("{left} shards wait and nobody moves them: {why}");
                    return Err(Error::new(ErrorKind::Io, text).into());
                }
                if told.elapsed() >= TELLING {
                    told = Instant::now();
                    self.tell(&format!("{}; movers: {status}", in_words(&standing, self.began.elapsed())));
                }
            }
            thread::sleep(LOOK);
        }
    }

    /// Says how it ended.
    fn ended(&self, standing: &Standing, optimizer: &str) -> anyhow::Result<ExitCode> {
        let shown: ShownJob = crate::service::jobs::wait_for(self.service, self.id)?;
        let duration = self.began.elapsed();
        let failures: Vec<FailedFile> = shown.job.summary.map(|summary| summary.failures).unwrap_or_default();
        let summary = Summary {
            status: Status::of(None, standing.failed_files),
            verified: standing.failed_files == 0,
            files: Files {
                total: standing.files,
                ok: standing.done_files,
                failed: standing.failed_files,
                ..Files::default()
            },
            bytes: standing.done_bytes,
            duration_ms: duration.as_millis() as u64,
            goodput_bps: BitRate::over(ByteCount(standing.done_bytes), duration).0,
            failures,
            optimizer: optimizer.to_owned(),
            ..Summary::default()
        };
        complain_of(&summary.failures, standing.failed_files, &format!("tidegate job {}", self.id));
        if self.args.output.json {
            terminal::print_json(&summary)?;
        } else if !self.args.output.quiet {
            terminal::print(&format!(
                "{} files, {}, {:.1} s, {} (shards: {}, movers: {})",
                summary.files.ok,
                ByteCount(summary.bytes),
                duration.as_secs_f64(),
                BitRate(summary.goodput_bps),
                standing.shards,
                standing.movers.len(),
            ))?;
        }
        Ok(summary.exit(None).into())
    }
}

/// An address as any host understands it: names of endpoints are known here alone. One in a pool keeps its name, and
/// movers are told what that means.
fn address_anywhere(word: &str, pool: &mut Option<PoolWords>) -> Result<String, Error> {
    if let Some((words, path)) = pools::of_word(word)? {
        let address = format!("{}:{path}", words.name);
        pools::take(pool, words)?;
        return Ok(address);
    }
    Ok(match Place::parse(word.as_ref()) {
        Ok(Place::Endpoint(address)) => address.to_string(),
        _ => address_there(word)?,
    })
}

fn in_words(standing: &Standing, elapsed: Duration) -> String {
    let done = ByteCount(standing.done_bytes + standing.moving_bytes);
    let all = match &standing.state[..] {
        "listing" => "listing".to_owned(),
        _ => format!("of {}", ByteCount(standing.bytes)),
    };
    format!("{} files, {done} {all}, {}", standing.done_files, BitRate::over(done, elapsed))
}

/// The file that holds the token of a run's movers, as long as the run is followed.
struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    fn write(state: &Path, id: JobId, token: &str) -> anyhow::Result<Self> {
        let directory = state.join("movers");
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let names = std::iter::once(format!("{id}.token"));
        for name in names.chain((2..MAX_ALIKE).map(|other| format!("{id}-{other}.token"))) {
            let path = directory.join(name);
            let mut options = std::fs::OpenOptions::new();
            match options.write(true).create_new(true).mode(0o600).open(&path) {
                Ok(mut file) => {
                    let written = Self { path };
                    writeln!(file, "{token}")?;
                    return Ok(written);
                }
                // That of another service's job.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(Error::io("make", path.as_os_str().as_encoded_bytes(), error).into());
                }
            }
        }
        let why = format!("{} holds too many tokens of jobs {id}: remove the old ones", directory.display());
        Err(usage(why).into())
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_services_may_have_a_job_of_one_number() {
        let state = tempfile::tempdir().expect("a directory");
        let id = JobId::new(1).expect("a number");
        let [one, two] = ["first", "second"].map(|token| TokenFile::write(state.path(), id, token));
        let (one, two) = (one.expect("written"), two.expect("written"));
        assert_eq!(one.path, state.path().join("movers/1.token"));
        let read = |file: &TokenFile| std::fs::read_to_string(&file.path).expect("read");
        assert_eq!((&read(&one)[..], &read(&two)[..]), ("first\n", "second\n"));
        drop(one);
        assert_eq!(read(&two), "second\n");
    }
}
