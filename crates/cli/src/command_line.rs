//! The command line: which commands there are, who runs them, and what a command line that makes no sense is told.

#[cfg(feature = "servers")]
mod from_servers;
#[cfg(feature = "service")]
mod jobs;

use std::ffi::OsString;
use std::process::ExitCode;

#[cfg(feature = "servers")]
use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind as Misuse};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
#[cfg(all(feature = "servers", not(all(feature = "get", feature = "put"))))]
use tidegate_contract::feature;
use tidegate_run::told::TOLD;
use tidegate_spec::run::Run;
use tidegate_transfer::error::Error;
use tidegate_transfer::offer::LEFT_OUT;

#[cfg(feature = "servers")]
use self::from_servers::ServerCommand;
#[cfg(feature = "service")]
use self::jobs::JobCommand;
use crate::asked::{Call, Task};
use crate::caller::Caller;
use crate::command::copy::CopyArgs;
use crate::command::hash::HashArgs;
use crate::command::ls::LsArgs;
use crate::command::verify::VerifyArgs;
use crate::exit::usage;
#[cfg(feature = "servers")]
use crate::servers::Instead;
use crate::warned::ToTerminal;
use crate::{command, exit, features, servers, summary, terminal};

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
    Copy(Box<CopyArgs>),
    #[cfg(feature = "servers")]
    #[command(flatten)]
    Server(ServerCommand),
    Run(command::run::RunArgs),
    Endpoint(command::endpoint::EndpointArgs),
    Verify(Box<VerifyArgs>),
    Ls(LsArgs),
    Hash(HashArgs),
    Clean(command::clean::CleanArgs),
    Remote(command::remote::RemoteArgs),
    Ticket(command::ticket::TicketArgs),
    Share(command::share::ShareArgs),
    Probe(command::probe::ProbeArgs),
    Iperf3(command::iperf3::Iperf3Args),
    #[cfg(feature = "service")]
    #[command(flatten)]
    Job(JobCommand),
    Explore(command::explore::ExploreArgs),
    #[cfg(feature = "train")]
    Simulate(command::simulate::SimulateArgs),
    Rules(command::rules::RulesArgs),
    #[cfg(feature = "train")]
    Train(command::train::TrainArgs),
    Demo(command::demo::DemoArgs),
    SelfTest(command::self_test::SelfTestArgs),
    #[cfg(feature = "man")]
    Completions(command::completions::CompletionsArgs),
    #[cfg(feature = "man")]
    Man(command::man::ManArgs),
    #[command(hide = true)]
    WithParent(command::with_parent::WithParentArgs),
    #[command(hide = true)]
    Describe(command::describe::DescribeArgs),
}

impl Command {
    /// Whether a script reads standard output, and what optimizer it asked for.
    fn asks_for_json(&self) -> Option<&str> {
        let (json, optimizer) = match self {
            Self::Copy(args) => (args.output.json, args.optimizer()),
            #[cfg(feature = "servers")]
            Self::Server(command) => return command.asks_for_json(),
            Self::Verify(args) => (args.output.json, &*args.route.control.spec.optimizer),
            Self::Demo(args) => (args.output.json, &*args.route.control.spec.optimizer),
            Self::Probe(args) => (args.output.json, &*args.route.control.spec.optimizer),
            Self::Explore(args) => (args.output.json, &*args.route.control.spec.optimizer),
            _ => return None,
        };
        json.then_some(optimizer)
    }

    /// Prints what a script gets of a command that ended by `error` before anything was begun.
    fn print_nothing(&self, error: &anyhow::Error) -> std::io::Result<()> {
        match self {
            Self::Copy(args) if args.is_listed_in_json() => {
                terminal::print_json(&summary::plan_of_nothing(error))
            }
            #[cfg(feature = "put")]
            Self::Server(command) if command.is_listed_in_json() => {
                terminal::print_json(&command::put::Plan::of_nothing(error))
            }
            _ => match self.asks_for_json() {
                Some(optimizer) => terminal::print_json(&summary::of_nothing(optimizer, error)),
                None => Ok(()),
            },
        }
    }

    /// Whether nothing is to be said unless something is wrong.
    fn is_quiet(&self) -> bool {
        match self {
            Self::Copy(args) => args.output.quiet,
            #[cfg(feature = "servers")]
            Self::Server(command) => command.is_quiet(),
            #[cfg(feature = "service")]
            Self::Job(command) => command.is_quiet(),
            _ => false,
        }
    }

    /// Whether everything that it says goes through its caller, so that it can run in another program's process.
    fn is_for_programs(&self) -> bool {
        match self {
            #[cfg(feature = "servers")]
            Self::Server(command) => command.is_for_programs(),
            #[cfg(feature = "service")]
            Self::Job(command) => command.is_for_programs(),
            _ => matches!(self, Self::Copy(_) | Self::Verify(_) | Self::Ls(_) | Self::Hash(_)),
        }
    }

    /// The command that another program has written down.
    fn told(args: &command::run::RunArgs) -> Result<Self, Error> {
        command::run::read(args).and_then(Self::try_from)
    }

    /// The command that a program asks for, and whether more is to be said.
    fn asked(asked: Task) -> Result<(Self, bool), Error> {
        let command = match asked {
            Task::Told(run) => run.try_into()?,
            Task::Copy(call) => Self::copy(call)?,
            #[cfg(feature = "get")]
            Task::Get(call) => ServerCommand::get(call)?.into(),
            #[cfg(feature = "put")]
            Task::Put(call) => ServerCommand::put(call)?.into(),
            Task::Verify(Call { options, from, to }) => {
                Self::Verify(Box::new(VerifyArgs::asked(&options, from, to)?))
            }
            Task::Ls(Call { options, from, .. }) => Self::Ls(LsArgs::asked(&options, from)?),
            Task::Hash(Call { options, from, .. }) => Self::Hash(HashArgs::asked(&options, from)?),
            #[cfg(feature = "service")]
            Task::Estimate(call) => Self::Job(JobCommand::estimate(call)?),
        };
        Ok((command, false))
    }

    /// A copy, or what does it with servers of others.
    fn copy(Call { options, from, to }: Call) -> Result<Self, Error> {
        #[cfg(feature = "servers")]
        if let Some(instead) = servers::instead(&options, &from, &to)? {
            return Ok(ServerCommand::from(instead).into());
        }
        #[cfg(not(feature = "servers"))]
        servers::route(&from, &to)?;
        CopyArgs::asked(&options, from, to).map(|args| Self::Copy(Box::new(args)))
    }

    /// `verbose` if more is to be said.
    fn run(&self, caller: &Caller, verbose: bool) -> anyhow::Result<ExitCode> {
        match self {
            Self::Copy(args) => command::copy::run(args, caller, verbose),
            #[cfg(feature = "servers")]
            Self::Server(command) => command.run(caller),
            #[cfg(feature = "service")]
            Self::Job(command) => command.run(caller),
            Self::Run(args) => Self::told(args)?.run(caller, verbose),
            Self::Endpoint(args) => command::endpoint::run(args),
            Self::Verify(args) => command::verify::run(args, caller),
            Self::Ls(args) => command::ls::run(args, caller),
            Self::Hash(args) => command::hash::run(args, caller),
            Self::Clean(args) => command::clean::run(args),
            Self::Remote(args) => command::remote::run(args),
            Self::Ticket(args) => command::ticket::run(args),
            Self::Share(args) => command::share::run(args),
            Self::Probe(args) => command::probe::run(args),
            Self::Iperf3(args) => command::iperf3::run(args),
            Self::Explore(args) => command::explore::run(args),
            #[cfg(feature = "train")]
            Self::Simulate(args) => command::simulate::run(args),
            Self::Rules(args) => command::rules::run(args),
            #[cfg(feature = "train")]
            Self::Train(args) => command::train::run(args),
            Self::Demo(args) => command::demo::run(args),
            Self::SelfTest(args) => command::self_test::run(args),
            #[cfg(feature = "man")]
            Self::Completions(args) => command::completions::run::<Cli>(args),
            #[cfg(feature = "man")]
            Self::Man(args) => command::man::run::<Cli>(args),
            Self::WithParent(args) => command::with_parent::run(args),
            Self::Describe(args) => command::describe::run::<Cli>(args),
        }
    }
}

impl TryFrom<Run> for Command {
    type Error = Error;

    fn try_from(run: Run) -> Result<Self, Error> {
        Ok(match run {
            Run::Copy(told) => Self::Copy(Box::new((*told).into())),
            Run::Probe(told) => Self::Probe((*told).into()),
            Run::Iperf3(told) => Self::Iperf3((*told).into()),
            #[cfg(feature = "get")]
            Run::Get(told) => ServerCommand::Get(Box::new((*told).into())).into(),
            #[cfg(feature = "put")]
            Run::Put(told) => ServerCommand::Put(Box::new((*told).into())).into(),
            #[cfg(feature = "get")]
            Run::Ranges(told) => ServerCommand::Ranges(told).into(),
            #[cfg(feature = "get")]
            Run::Size(told) => ServerCommand::Size(told).into(),
            #[cfg(all(feature = "servers", not(feature = "get")))]
            Run::Get(_) | Run::Ranges(_) | Run::Size(_) => return Err(usage(feature::missing("get", "get"))),
            #[cfg(all(feature = "servers", not(feature = "put")))]
            Run::Put(_) => return Err(usage(feature::missing("put", "put"))),
        })
    }
}

#[cfg(feature = "servers")]
impl From<ServerCommand> for Command {
    fn from(command: ServerCommand) -> Self {
        Self::Server(command)
    }
}

/// Runs the program `tidegate` on a command line, which begins with the program's name.
pub fn main(words: &[OsString]) -> ExitCode {
    let (mut cli, mut refused) = match parsed(words) {
        Ok(parsed) => parsed,
        Err(error) => return misused(&error, words),
    };
    if let Command::Run(args) = &cli.command {
        match Command::told(args) {
            Ok(command) => cli.command = command,
            Err(error) => refused = Some(error),
        }
    }
    log(cli.verbose, cli.command.is_quiet());
    let run = || cli.command.run(&Caller::Terminal, cli.verbose > 0);
    refused.map_or_else(run, |error| Err(error.into())).unwrap_or_else(|error| {
        // Nothing was begun, and a script still gets its one object.
        let _ = cli.command.print_nothing(&error);
        terminal::complain(&exit::in_one_line(&error));
        exit::code_of(&error)
    })
}

/// Runs a command for the program behind `caller`.
pub(crate) fn run_for(asked: Task, caller: &Caller) -> anyhow::Result<ExitCode> {
    let (command, verbose) = Command::asked(asked)?;
    if !command.is_for_programs() {
        return Err(usage("this is for a terminal, and not for a program that runs it in its process").into());
    }
    command.run(caller, verbose)
}

/// What is asked for, and why it is not done. A copy to or from a server is asked of the command that does it.
fn parsed(words: &[OsString]) -> Result<(Cli, Option<Error>), clap::Error> {
    let asked = Cli::command().try_get_matches_from(words)?;
    #[cfg_attr(not(feature = "servers"), expect(unused_mut, reason = "there is nothing else that copies"))]
    let mut cli = Cli::from_arg_matches(&asked)?;
    #[cfg(not(feature = "servers"))]
    if let Command::Copy(copy) = &cli.command
        && let Ok((sources, destination)) = copy.paths()
        && let Err(error) = servers::route(sources, destination)
    {
        return Ok((cli, Some(error)));
    }
    #[cfg(feature = "servers")]
    if let (Command::Copy(copy), Some((_, typed))) = (&cli.command, asked.subcommand()) {
        match of_server(copy, typed) {
            Ok(None) => {}
            Ok(Some(instead)) => cli.command = ServerCommand::from(instead).into(),
            Err(error) => return Ok((cli, Some(error))),
        }
    }
    Ok((cli, None))
}

/// What does a copy instead of `copy`, if something does.
#[cfg(feature = "servers")]
fn of_server(copy: &CopyArgs, typed: &ArgMatches) -> Result<Option<Instead>, Error> {
    match copy.paths() {
        Ok((sources, destination)) => {
            servers::instead(&servers::options_typed(copy, typed), sources, destination)
        }
        // It says so itself.
        Err(_) => Ok(None),
    }
}

/// A command line that makes no sense: one line that says why, and where to read more.
fn misused(error: &clap::Error, words: &[OsString]) -> ExitCode {
    let is_help = matches!(
        error.kind(),
        Misuse::DisplayHelp | Misuse::DisplayVersion | Misuse::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if is_help {
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(exit::USAGE));
    }
    if let Some(why) = left_out(error) {
        terminal::complain(&why);
        return ExitCode::from(exit::USAGE);
    }
    let known = Cli::command();
    let command = words.get(1).and_then(|name| name.to_str());
    let command = command.filter(|name| known.find_subcommand(name).is_some());
    let help = command.map_or_else(|| "--help".to_owned(), |name| format!("{name} --help"));
    terminal::complain(&format!("{} (see `tidegate {help}`)", reason(error)));
    ExitCode::from(exit::USAGE)
}

/// That a command line is of a part that was left out, if it is.
fn left_out(error: &clap::Error) -> Option<String> {
    let kind = match error.kind() {
        Misuse::InvalidSubcommand => ContextKind::InvalidSubcommand,
        Misuse::UnknownArgument => ContextKind::InvalidArg,
        _ => return None,
    };
    match error.get(kind) {
        Some(ContextValue::String(word)) => features::left_out(word),
        _ => None,
    }
}

/// Why a command line makes no sense.
fn reason(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let reason = text.split("\n\nUsage:").next().unwrap_or(&text);
    let reason = reason.split("\n\nFor more information").next().unwrap_or(reason);
    let reason = reason.strip_prefix("error:").unwrap_or(reason);
    // That an unknown option could be a path is what nobody means.
    let kept = reason.split("\n\n  tip:").enumerate();
    let kept = kept.filter(|(at, part)| *at == 0 || !part.trim_start().starts_with("to pass '"));
    let reason = kept.map(|(_, part)| part).collect::<Vec<_>>().join("; tip:");
    reason.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Quiet by default: warnings only, and where nothing but trouble is to be told none of what is left out on purpose.
/// `TIDEGATE_LOG` takes a filter such as `tidegate_transfer=debug`.
fn log(verbose: u8, quiet: bool) {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::layer::{Layer, SubscriberExt};
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
    let left_out = if quiet && verbose == 0 { LevelFilter::OFF } else { level };
    let usual = || Targets::new().with_default(level).with_target(LEFT_OUT, left_out);
    let filter = asked.unwrap_or_else(usual);
    let filter = filter.with_target(TOLD, LevelFilter::OFF);
    // A process in which somebody else logs keeps to that.
    let told = ToTerminal.with_filter(Targets::new().with_target(TOLD, LevelFilter::WARN));
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter)).with(told).try_init();
}
