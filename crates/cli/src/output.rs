//! What a run prints: options about it, and how it ended, for people or as one JSON object.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use serde::{Deserialize, Deserializer, Serialize};
use tidegate_run::drive::{Ended, Job, Work};
use tidegate_spec::control::Control;
use tidegate_spec::form::path_option;
use tidegate_spec::run::Setup;

use crate::caller::Caller;
use crate::summary;

/// What a run prints, and where it writes its epochs. Some commands cannot be told to be `QUIET`, or write no
/// `EPOCHS` where they are told to; then there is no such option.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OutputArgs<const QUIET: bool = true, const EPOCHS: bool = true> {
    /// One JSON object on standard output, and nothing for people.
    pub json: bool,
    /// No view, and no summary for people.
    #[serde(skip_serializing_if = "is_no_option::<_, QUIET>")]
    pub quiet: bool,
    /// Where each epoch is written as a line.
    #[serde(with = "path_option", skip_serializing_if = "is_no_option::<_, EPOCHS>")]
    pub epochs: Option<PathBuf>,
}

/// Whether the command has no such option, which nobody can then say by name.
const fn is_no_option<T, const IS: bool>(_: &T) -> bool {
    !IS
}

impl<'de, const QUIET: bool, const EPOCHS: bool> Deserialize<'de> for OutputArgs<QUIET, EPOCHS> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Written {
            json: bool,
            quiet: bool,
            #[serde(with = "path_option")]
            epochs: Option<PathBuf>,
        }
        let Written { json, quiet, epochs } = Written::deserialize(from)?;
        Ok(Self { json, quiet, epochs })
    }
}

/// For a command whose only such option is `--json`.
pub type JsonArgs = OutputArgs<false, false>;

impl<const QUIET: bool, const EPOCHS: bool> Args for OutputArgs<QUIET, EPOCHS> {
    fn augment_args(command: Command) -> Command {
        let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
        let json = flag("json").help("Print one JSON object on standard output");
        let quiet = flag("quiet").short('q').help("Say nothing unless something is wrong");
        let epochs = Arg::new("epochs")
            .long("epochs")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("Write each epoch as one JSON line to FILE");
        command.arg(json).args(QUIET.then_some(quiet)).args(EPOCHS.then_some(epochs))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const QUIET: bool, const EPOCHS: bool> FromArgMatches for OutputArgs<QUIET, EPOCHS> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.json = matches.get_flag("json");
        self.quiet = QUIET && matches.get_flag("quiet");
        self.epochs = if EPOCHS { matches.get_one("epochs").cloned() } else { None };
        Ok(())
    }
}

impl<const QUIET: bool, const EPOCHS: bool> OutputArgs<QUIET, EPOCHS> {
    /// As `setup` says.
    pub fn of(setup: &Setup) -> Self {
        Self { json: setup.json, quiet: setup.quiet, epochs: setup.epochs.clone() }
    }

    /// Work that is to be shown so to `caller`, headed with `title`; its log goes into the directory `state`.
    pub fn job<'a>(
        &self,
        work: Work<'a>,
        control: &'a Control,
        title: String,
        state: PathBuf,
        caller: &Caller,
    ) -> Job<'a> {
        let audience = caller.audience(!self.json && !self.quiet);
        Job { work, audience, control, title, epochs: self.epochs.clone(), state, memory: None }
    }

    /// Runs a job, prints how it ended, and answers with the exit code.
    pub fn finish(&self, job: Job<'_>, caller: &Caller) -> anyhow::Result<ExitCode> {
        let ended = job.run()?;
        if self.json || !self.quiet {
            return report(&ended, self.json, caller);
        }
        summary::complain(&ended.summary);
        Ok(code_of(&ended, caller))
    }
}

/// Prints how a job ended, and answers with the exit code.
pub fn report(ended: &Ended, json: bool, caller: &Caller) -> anyhow::Result<ExitCode> {
    print(ended, json, caller)?;
    Ok(code_of(ended, caller))
}

/// Prints how a job ended: for people, or as one JSON object.
pub fn print(ended: &Ended, json: bool, caller: &Caller) -> anyhow::Result<()> {
    if json {
        caller.print_json(&ended.summary)?;
    } else {
        summary::print(&ended.summary, &ended.besides)?;
    }
    Ok(())
}

/// What ended a job early is told, and its exit code.
fn code_of(ended: &Ended, caller: &Caller) -> ExitCode {
    if let Some(error) = &ended.error {
        caller.complain(&error.message);
    }
    ExitCode::from(ended.summary.exit(ended.error.as_ref().map(|error| error.kind)).code())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<const QUIET: bool, const EPOCHS: bool>(words: &[&str]) -> Option<(bool, bool, Option<PathBuf>)> {
        let command = OutputArgs::<QUIET, EPOCHS>::augment_args(Command::new("run"));
        let matches = command.try_get_matches_from([&["run"], words].concat()).ok()?;
        let args = OutputArgs::<QUIET, EPOCHS>::from_arg_matches(&matches).ok()?;
        Some((args.json, args.quiet, args.epochs))
    }

    #[test]
    fn a_command_has_the_options_it_asks_for_and_no_others() {
        assert_eq!(read::<true, true>(&[]), Some((false, false, None)));
        let all = ["--json", "-q", "--epochs", "log"];
        assert_eq!(read::<true, true>(&all), Some((true, true, Some("log".into()))));
        assert_eq!(read::<false, true>(&["--epochs", "log"]), Some((false, false, Some("log".into()))));
        assert_eq!(read::<false, true>(&["--quiet"]), None);
        assert_eq!(read::<false, false>(&["--json"]), Some((true, false, None)));
        assert_eq!(read::<false, false>(&["--epochs", "log"]), None);
    }
}
