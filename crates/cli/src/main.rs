//! The command `tidegate`: moves data between hosts and finds by itself how many readers, streams and
//! writers the path can use.

mod beneath;
mod capped;
mod chart;
mod drive;
mod ends;
mod exit;
mod filters;
mod followed;
mod lesson;
mod loopback;
mod mirror;
mod output;
mod own_rule;
mod path_key;
mod path_store;
mod place;
mod progress;
mod recalled;
mod recorder;
mod remotes;
mod route;
mod run_memory;
mod s3;
mod sampling;
mod service;
mod settings;
mod ssh;
mod summary;
mod terminal;
mod values;
mod whole_file;
mod command {
    pub mod cancel;
    pub mod clean;
    pub mod copy;
    pub mod demo;
    pub mod describe;
    pub mod endpoint;
    pub mod estimate;
    pub mod explore;
    pub mod generate;
    pub mod get;
    pub mod history;
    pub mod iperf3;
    pub mod job;
    pub mod jobs;
    pub mod probe;
    pub mod put;
    pub mod remote;
    pub mod rules;
    pub mod serve;
    pub mod simulate;
    pub mod size;
    pub mod submit;
    pub mod ticket;
    pub mod train;
    pub mod verify;
    pub mod with_parent;
}

use std::process::ExitCode;

use clap::error::ErrorKind as Misuse;
use clap::{CommandFactory, Parser, Subcommand};

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
    Copy(Box<command::copy::CopyArgs>),
    Get(Box<command::get::GetArgs>),
    Put(Box<command::put::PutArgs>),
    Endpoint(command::endpoint::EndpointArgs),
    Verify(Box<command::verify::VerifyArgs>),
    Clean(command::clean::CleanArgs),
    Remote(command::remote::RemoteArgs),
    Ticket(command::ticket::TicketArgs),
    Probe(command::probe::ProbeArgs),
    Iperf3(command::iperf3::Iperf3Args),
    Estimate(Box<command::estimate::EstimateArgs>),
    Serve(command::serve::ServeArgs),
    Submit(Box<command::submit::SubmitArgs>),
    Jobs(command::jobs::JobsArgs),
    Job(command::job::JobArgs),
    Cancel(command::cancel::CancelArgs),
    Explore(command::explore::ExploreArgs),
    Simulate(command::simulate::SimulateArgs),
    Rules(command::rules::RulesArgs),
    Train(command::train::TrainArgs),
    History(Box<command::history::HistoryArgs>),
    Demo(command::demo::DemoArgs),
    #[command(hide = true)]
    Generate(command::generate::GenerateArgs),
    #[command(hide = true)]
    WithParent(command::with_parent::WithParentArgs),
    #[command(hide = true)]
    Size(command::size::SizeArgs),
    #[command(hide = true)]
    Describe(command::describe::DescribeArgs),
}

impl Command {
    /// Whether a script reads standard output, and what optimizer it asked for.
    fn asks_for_json(&self) -> Option<&str> {
        let (json, control) = match self {
            Self::Copy(args) => (args.output.json, &args.route.control),
            // A dry run prints a list, and a check what it found.
            Self::Get(args) => (args.output.json && !args.dry_run && !args.self_check, &args.control),
            Self::Put(args) => (args.output.json, &args.control),
            Self::Verify(args) => (args.output.json, &args.route.control),
            Self::Demo(args) => (args.output.json, &args.route.control),
            Self::Probe(args) => (args.output.json, &args.route.control),
            Self::Explore(args) => (args.output.json, &args.route.control),
            _ => return None,
        };
        json.then_some(&control.optimizer)
    }
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misused(&error),
    };
    log(cli.verbose);
    let result = match &cli.command {
        Command::Copy(args) => command::copy::run(args),
        Command::Get(args) => command::get::run(args),
        Command::Put(args) => command::put::run(args),
        Command::Endpoint(args) => command::endpoint::run(args),
        Command::Verify(args) => command::verify::run(args),
        Command::Clean(args) => command::clean::run(args),
        Command::Remote(args) => command::remote::run(args),
        Command::Ticket(args) => command::ticket::run(args),
        Command::Probe(args) => command::probe::run(args),
        Command::Iperf3(args) => command::iperf3::run(args),
        Command::Estimate(args) => command::estimate::run(args),
        Command::Serve(args) => command::serve::run(args),
        Command::Submit(args) => command::submit::run(args),
        Command::Jobs(args) => command::jobs::run(args),
        Command::Job(args) => command::job::run(args),
        Command::Cancel(args) => command::cancel::run(args),
        Command::Explore(args) => command::explore::run(args),
        Command::Simulate(args) => command::simulate::run(args),
        Command::Rules(args) => command::rules::run(args),
        Command::Train(args) => command::train::run(args),
        Command::History(args) => command::history::run(args),
        Command::Demo(args) => command::demo::run(args),
        Command::Generate(args) => command::generate::run::<Cli>(args),
        Command::WithParent(args) => command::with_parent::run(args),
        Command::Size(args) => command::size::run(args),
        Command::Describe(args) => command::describe::run::<Cli>(args),
    };
    result.unwrap_or_else(|error| {
        if let Some(optimizer) = cli.command.asks_for_json() {
            // Nothing was begun, and a script still gets its one object.
            let summary = summary::Summary::of_nothing(optimizer, &error);
            let _ = terminal::print_json(&summary);
        }
        terminal::complain(&exit::in_one_line(&error));
        exit::code_of(&error)
    })
}

/// A command line that makes no sense: one line that says why, and where to read more.
fn misused(error: &clap::Error) -> ExitCode {
    let is_help = matches!(
        error.kind(),
        Misuse::DisplayHelp | Misuse::DisplayVersion | Misuse::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if is_help {
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(exit::USAGE));
    }
    let text = error.render().to_string();
    let reason = text.split("\n\nUsage:").next().unwrap_or(&text);
    let reason = reason.split("\n\nFor more information").next().unwrap_or(reason);
    let reason = reason.strip_prefix("error:").unwrap_or(reason);
    // That an unknown option could be a path is what nobody means.
    let kept = reason.split("\n\n  tip:").enumerate();
    let kept = kept.filter(|(at, part)| *at == 0 || !part.trim_start().starts_with("to pass '"));
    let reason = kept.map(|(_, part)| part).collect::<Vec<_>>().join("; tip:");
    let words: Vec<&str> = reason.split_whitespace().collect();
    let known = Cli::command();
    let command = std::env::args_os().nth(1).and_then(|name| name.into_string().ok());
    let command = command.filter(|name| known.find_subcommand(name).is_some());
    let help = command.map_or_else(|| "--help".to_owned(), |name| format!("{name} --help"));
    terminal::complain(&format!("{} (see `tidegate {help}`)", words.join(" ")));
    ExitCode::from(exit::USAGE)
}

/// Quiet by default: warnings only. `TIDEGATE_LOG` takes a filter such as `tidegate_transfer=debug`.
fn log(verbose: u8) {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let asked = std::env::var("TIDEGATE_LOG").ok().and_then(|filter| filter.parse::<Targets>().ok());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(terminal::Log::default)
        .log_internal_errors(false)
        .with_target(false)
        .compact();
    let filter = asked.unwrap_or_else(|| Targets::new().with_default(level));
    tracing_subscriber::registry().with(filter).with(lines).init();
}
