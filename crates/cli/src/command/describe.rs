//! `tidegate describe`: what this program offers, for programs that drive it.

use std::process::ExitCode;

use clap::{Arg, ArgAction, Args, Command, CommandFactory};
use serde::Serialize;
use tidegate_control::optimizer::{LEARNED, NAMES};
use tidegate_control::policy::Recipe;

use crate::terminal;

/// Tell as one JSON object which commands, options, rules and recipes there are
#[derive(Debug, Args)]
pub struct DescribeArgs {}

#[derive(Serialize)]
struct Program {
    version: &'static str,
    /// What `--optimizer` takes: rules, some with a variant after a `:`, and those that need a policy.
    optimizers: Vec<&'static str>,
    /// How a policy can have been trained.
    recipes: Vec<&'static str>,
    commands: Vec<Described>,
}

/// A command, also one that help does not show.
#[derive(Serialize)]
struct Described {
    name: String,
    hidden: bool,
    options: Vec<Parameter>,
    arguments: Vec<Parameter>,
    commands: Vec<Described>,
}

/// An option or a positional argument.
#[derive(Serialize)]
struct Parameter {
    /// As it is written: `--json`, `-v`, or the name of an argument.
    name: String,
    /// What it is for, in a sentence.
    help: String,
    /// What its value is called; none if it takes no value.
    value: Option<String>,
    /// The values there are; empty where others are understood.
    values: Vec<String>,
    /// What holds without it; empty where nothing is fixed.
    default: Vec<String>,
    required: bool,
    /// Whether it may be given several times.
    repeats: bool,
}

impl Described {
    fn of(command: &Command) -> Self {
        let parameters = |positional: bool| {
            command
                .get_arguments()
                .filter(|arg| arg.is_positional() == positional)
                .map(Parameter::of)
                .collect()
        };
        Self {
            name: command.get_name().to_owned(),
            hidden: command.is_hide_set(),
            options: parameters(false),
            arguments: parameters(true),
            commands: command.get_subcommands().map(Self::of).collect(),
        }
    }
}

impl Parameter {
    fn of(arg: &Arg) -> Self {
        let takes_value = arg.is_positional() || arg.get_action().takes_values();
        // That a switch is off without being given says nothing.
        let (values, default) = if takes_value {
            (arg.get_possible_values(), arg.get_default_values())
        } else {
            (vec![], &[][..])
        };
        let long = arg.get_long().map(|long| format!("--{long}"));
        let short = || arg.get_short().map(|short| format!("-{short}"));
        Self {
            name: long.or_else(short).unwrap_or_else(|| arg.get_id().to_string()),
            help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
            value: arg
                .get_value_names()
                .filter(|_| takes_value)
                .and_then(|names| names.first())
                .map(ToString::to_string),
            values: values.iter().map(|value| value.get_name().to_owned()).collect(),
            default: default.iter().map(|value| value.to_string_lossy().into_owned()).collect(),
            required: arg.is_required_set(),
            repeats: matches!(arg.get_action(), ArgAction::Append),
        }
    }
}

/// Runs the command for the program described by `C`.
pub fn run<C: CommandFactory>(_: &DescribeArgs) -> anyhow::Result<ExitCode> {
    let program = Program {
        version: env!("CARGO_PKG_VERSION"),
        optimizers: NAMES.into_iter().chain(LEARNED).collect(),
        recipes: Recipe::ALL.into_iter().map(Recipe::name).collect(),
        commands: C::command().get_subcommands().map(Described::of).collect(),
    };
    terminal::print(&serde_json::to_string(&program)?)?;
    Ok(ExitCode::SUCCESS)
}
