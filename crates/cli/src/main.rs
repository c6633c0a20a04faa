//! The command `tidegate`: moves data between hosts and finds by itself how many readers, streams and
//! writers the path can use.

mod drive;
mod exit;
mod place;
mod progress;
mod remotes;
mod settings;
mod summary;
mod command {
    pub mod copy;
    pub mod demo;
    pub mod endpoint;
    pub mod generate;
    pub mod probe;
    pub mod remote;
    pub mod simulate;
    pub mod ticket;
    pub mod verify;
}

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Move data between hosts, adaptively, and prove that it arrived.
///
/// Tidegate opens as many readers, network streams and writers as the path can use, and no more. It
/// verifies every file end to end, continues where an interrupted run stopped, and is encrypted by
/// default.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, propagate_version = true, after_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Say more on standard error (-v what happens, -vv every detail)
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Command {
    Copy(command::copy::CopyArgs),
    Endpoint(command::endpoint::EndpointArgs),
    Verify(command::verify::VerifyArgs),
    Remote(command::remote::RemoteArgs),
    Ticket(command::ticket::TicketArgs),
    Probe(command::probe::ProbeArgs),
    Simulate(command::simulate::SimulateArgs),
    Demo(command::demo::DemoArgs),
    #[command(hide = true)]
    Generate(command::generate::GenerateArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    log(cli.verbose);
    let result = match &cli.command {
        Command::Copy(args) => command::copy::run(args),
        Command::Endpoint(args) => command::endpoint::run(args),
        Command::Verify(args) => command::verify::run(args),
        Command::Remote(args) => command::remote::run(args),
        Command::Ticket(args) => command::ticket::run(args),
        Command::Probe(args) => command::probe::run(args),
        Command::Simulate(args) => command::simulate::run(args),
        Command::Demo(args) => command::demo::run(args),
        Command::Generate(args) => command::generate::run::<Cli>(args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("tidegate: {error:#}");
        exit::code_of(&error)
    })
}

/// Quiet by default: warnings only. `TIDEGATE_LOG` takes a filter such as `tidegate_transfer=debug`.
fn log(verbose: u8) {
    use tracing_subscriber::EnvFilter;
    let level = match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_env("TIDEGATE_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .compact()
        .init();
}
