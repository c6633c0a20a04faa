//! `tidegate movers`: more movers for a run that there is, by an engine.

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tidegate_fleet::engine::{EngineArgs, Started, Status};
use tidegate_run::ssh::SshArgs;
use tidegate_transfer::error::{Error, ErrorKind, Retry};

use crate::exit::{self, usage};
use crate::signals::interrupt_on_signals;
use crate::terminal;

/// How often an engine is asked.
const LOOK: Duration = Duration::from_secs(2);

/// How often it is looked whether the user still wants it.
const GLANCE: Duration = Duration::from_millis(50);

/// How long an engine may not answer.
const PATIENCE: Duration = Duration::from_secs(300);

/// Start movers for a run of a service by Slurm, Kubernetes, HTCondor, PBS, Dask or ssh, and follow them
#[derive(Debug, Args)]
pub struct MoversArgs {
    #[command(flatten)]
    engine: EngineArgs,
    /// The address of the service whose shards are moved
    #[arg(long, value_name = "URL")]
    service: String,
    /// The certificate authority of the service's certificate, PEM, on the hosts of movers [default: the system's]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_SERVER_CA")]
    server_ca: Option<PathBuf>,
    /// The file that holds the run's token, on a file system that the hosts of movers share; only its owner may read it
    #[arg(long, value_name = "FILE", env = "TIDEGATE_MOVER_TOKEN_FILE")]
    token_file: PathBuf,
    /// What the engine calls them
    #[arg(long, value_name = "NAME", default_value = "tidegate")]
    name: String,
    /// Print the script, manifest or program instead of running it
    #[arg(long)]
    print: bool,
    /// Leave when the engine has them
    #[arg(long, conflicts_with = "print")]
    detach: bool,
    #[command(flatten)]
    ssh: SshArgs,
}

/// Runs the command.
pub fn run(args: &MoversArgs) -> anyhow::Result<ExitCode> {
    let is_address = args.service.starts_with("http://") || args.service.starts_with("https://");
    if !is_address || url::Url::parse(&args.service).is_err() || args.service.contains(char::is_whitespace) {
        return Err(usage(format!(
            "{:?} is no address of a service: write http://… or https://…",
            args.service
        ))
        .into());
    }
    let in_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = (1..=50).contains(&args.name.len()) && args.name.chars().all(in_name);
    if !is_name || !args.name.starts_with(|c: char| c.is_ascii_lowercase()) || args.name.ends_with('-') {
        let why = "--name is of at most 50 small letters, digits and '-', and begins with a letter";
        return Err(usage(why).into());
    }
    let engine = args.engine.engine(&args.ssh)?;
    let movers = args.engine.movers(
        args.name.clone(),
        args.service.clone(),
        args.server_ca.as_deref(),
        &args.token_file,
    )?;
    if args.print {
        terminal::print(engine.render(&movers)?.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    // Said here and not by each of them in a log somewhere.
    std::fs::File::open(&args.token_file)
        .map_err(|error| Error::io("read", movers.token_file.as_bytes(), error))?;
    let interrupt = interrupt_on_signals();
    let mut started = engine.start(&movers)?;
    if args.detach {
        if !started.outlives_us() {
            started.stop()?;
            return Err(
                usage("--detach is for engines of their own: these movers end with this command").into()
            );
        }
        terminal::print(&started.name())?;
        return Ok(ExitCode::SUCCESS);
    }
    match follow(&mut *started, || interrupt.is_raised())? {
        Some(end) if end.failed == 0 => Ok(ExitCode::SUCCESS),
        Some(_) => Ok(ExitCode::from(exit::SOME_FAILED)),
        None => {
            started.stop()?;
            Err(Error::new(ErrorKind::Interrupted, "interrupted; its movers were asked to end").into())
        }
    }
}

/// Tells how many run each time that changes, until none does, which is returned, or until nobody wants it.
fn follow(started: &mut dyn Started, is_over: impl Fn() -> bool) -> anyhow::Result<Option<Status>> {
    let (mut told, mut answered) = (None, Instant::now());
    loop {
        match started.look() {
            Ok(status) => {
                answered = Instant::now();
                if told.as_ref() != Some(&status) {
                    terminal::tell(&format!("{}: {status}", started.name()));
                }
                if status.is_over() {
                    return Ok(Some(status));
                }
                told = Some(status);
            }
            // A controller may be away for a while; movers do without it.
            Err(error) if error.kind.retry() == Retry::Outage && answered.elapsed() < PATIENCE => {
                tracing::info!("{error}");
            }
            Err(error) => return Err(error.into()),
        }
        let next = Instant::now() + LOOK;
        while Instant::now() < next {
            if is_over() {
                return Ok(None);
            }
            thread::sleep(GLANCE);
        }
    }
}
