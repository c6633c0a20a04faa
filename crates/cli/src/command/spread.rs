//! `tidegate spread`: one copy by many hosts. Lists the sources into a job of a service, has movers started, and follows.

mod home;

use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use tidegate_contract::summary::{FailedFile, Files, Status, Summary};
use tidegate_control::{BitRate, ByteCount};
use tidegate_fleet::engine::EngineArgs;
use tidegate_fleet::pools;
use tidegate_fleet::shards::Standing;
use tidegate_fleet::shared_copy::SharedCopy;
use tidegate_fleet::spread::Spread;
use tidegate_fleet::token::TokenFile;
use tidegate_fleet::words::{PoolWords, SpreadBegun, SpreadRequest};
use tidegate_run::place::Place;
use tidegate_run::ssh::SshArgs;
use tidegate_spec::copy::CopySpec;
use tidegate_spec::filters::FilterSpec;
use tidegate_spec::options::Options;
use tidegate_transfer::error::Error;

use crate::exit::usage;
use crate::output::OutputArgs;
use crate::service::jobs::{ShownJob, wait_for};
use crate::service::{ServiceArgs, address_there};
use crate::signals::interrupt_on_signals;
use crate::summary::complain_of;
use crate::terminal;

use home::HomeArgs;

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
    let tell = |text: &str| args.tell(text);
    let (id, began) = (begun.id, Instant::now());
    let spread = Spread { service, request, id, interrupt, began, tell: &tell };
    // Another service has a job of that number, too, and engines know movers by their name.
    let name = format!("tidegate-{id}-{}", &blake3::hash(begun.token.as_bytes()).to_hex()[..8]);
    let movers =
        args.engine.movers(name, service.base().to_owned(), args.service.server_ca(), token.path())?;
    args.tell(&format!("job {id} at {}", service.base()));
    let standing = spread.run(&*engine, &movers, &options, &selection)?;
    args.ended(&spread, &standing, options.optimizer())
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

    /// Tells people, unless a script reads.
    fn tell(&self, text: &str) {
        if !self.output.json && !self.output.quiet {
            terminal::tell(text);
        }
    }

    /// Says how it ended.
    fn ended(&self, spread: &Spread<'_>, standing: &Standing, optimizer: &str) -> anyhow::Result<ExitCode> {
        let shown: ShownJob = wait_for(spread.service, spread.id)?;
        let duration = spread.began.elapsed();
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
        complain_of(&summary.failures, standing.failed_files, &format!("tidegate job {}", spread.id));
        if self.output.json {
            terminal::print_json(&summary)?;
        } else if !self.output.quiet {
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
