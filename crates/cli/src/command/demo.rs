//! `tidegate demo`: the main job on a path whose best set-point is known.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use tidegate_control::{BitRate, ByteCount};
use tidegate_run::drive::{Work, ended_by};
use tidegate_run::loopback::Loopback;
use tidegate_run::route::RouteArgs;
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::transfer::route::{From, To};

use crate::caller::Caller;
use crate::exit::usage;
use crate::output::{OutputArgs, report};
use crate::scratch::{Scratch, make_files};
use crate::signals::interrupt_on_signals;
use crate::terminal;

/// AutoMDT's read bottleneck (figure 5): what one worker of each stage may move, and the link.
const READ: BitRate = BitRate::mbps(80);
const NETWORK: BitRate = BitRate::mbps(160);
const WRITE: BitRate = BitRate::mbps(200);
const LINK: BitRate = BitRate::mbps(1000);

/// Watch real files move on a shaped path and the three concurrencies find their optimum.
///
/// Makes a mixed data set, starts an endpoint on the loopback, and limits each reader to 80, each
/// stream to 160 and each writer to 200 Mbit/s on a link of 1 Gbit/s: 13, 7 and 5 workers are best.
/// Verifies every file and removes what it made.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Size of the data set
    #[arg(long, value_name = "SIZE", default_value = "2GiB")]
    size: ByteCount,
    /// Where to make the data set and the copy [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs<false>,
    #[command(flatten)]
    pub route: RouteArgs,
}

/// Runs the command.
pub fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    if args.size < ByteCount::mib(1) || args.size > ByteCount::gib(1024) {
        return Err(usage("the data set must be from 1MiB to 1TiB").into());
    }
    let interrupt = interrupt_on_signals();
    let home = args.directory.clone().unwrap_or_else(std::env::temp_dir);
    let scratch =
        Scratch::new(&home, "demo", ByteCount(args.size.0 * 2 + (64 << 20))).map_err(
            |error| match error.kind {
                ErrorKind::NoSpace => Error::new(error.kind, format!("{error}, or less with --size")),
                _ => error,
            },
        )?;
    if !args.output.json {
        terminal::tell(&format!("making {} of mixed files beneath {}", args.size, scratch.path().display()));
    }
    let source = scratch.path().join("source");
    make_files(&source, args.size, args.route.control.spec.seed, &interrupt)?;
    let destination = scratch.path().join("destination");
    fs::create_dir(&destination).context("cannot make the destination")?;
    let loopback = Loopback::start(&destination, scratch.path())?;

    let mut shaped = args.route.plane.clone();
    shaped.limit_read = shaped.limit_read.or(Some(READ));
    shaped.limit_network = shaped.limit_network.or(Some(NETWORK));
    shaped.limit_write = shaped.limit_write.or(Some(WRITE));
    shaped.limit_link = shaped.limit_link.or(Some(LINK));
    let limits = shaped.limits();
    let show = |rate: Option<BitRate>| rate.unwrap_or_default().to_string();
    let title = format!(
        "demo: read {}, network {}, write {} each, link {}",
        show(limits.read),
        show(limits.network),
        show(limits.write),
        show(limits.link)
    );
    let pace = args.route.pace()?;
    let source = {
        use std::os::unix::ffi::OsStrExt;
        [source.as_os_str().as_bytes(), b"/"].concat()
    };
    let work = Work::transfer(
        From::Local(vec![source]),
        To::Endpoint(loopback.address()?),
        args.route.setup(shaped.terms(args.route.control.local.max_workers), pace, interrupt)?,
        args.route.patience.retry_for,
    );
    let job =
        args.output.job(work, &args.route.control, title, args.route.trust.state_dir()?, &Caller::Terminal);
    let mut ended = job.run()?;
    if ended.error.as_ref().is_some_and(|error| error.kind == ErrorKind::Interrupted) {
        let error = Error::new(ErrorKind::Interrupted, "interrupted; what the demo made is removed");
        ended_by(&mut ended.summary, &error);
        ended.error = Some(error);
    }
    let code = report(&ended, args.output.json, &Caller::Terminal)?;
    if !args.output.json && ended.error.is_none() && limits.link == Some(LINK) && limits.read == Some(READ) {
        terminal::print("  best     read 13, network 7, write 5 on this path")?;
    }
    Ok(code)
}
