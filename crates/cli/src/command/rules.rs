//! `tidegate rules`: the rules that `--optimizer` takes, and their constants.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use tidegate_control::optimizer::rules::{RuleDescription, RuleKey};
use tidegate_control::optimizer::{LEARNED_RULES, RULES, needs_policy};

use crate::terminal;

/// List the rules that --optimizer takes, who published them, and their constants.
///
/// A rule's constants follow its name: --optimizer RULE:KEY=VALUE,KEY=VALUE, as in aimd:epsilon=1%,hold. Of a value that
/// is one of several words the key can be left out: model_fit:published. An option of a constant that a rule does not have
/// (--utility-k, --share, …) is refused, and so is --policy for a rule that decides by none.
/// Rules of your own are programs (exec:PROGRAM) and functions in Python (python:MODULE:NAME).
#[derive(Debug, Args)]
pub struct RulesArgs {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    rules: Vec<Listed>,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    /// Whether it can stand behind `coupled:` and `independent:`.
    one_number: bool,
    /// Whether it decides by a policy, which `--policy FILE` names.
    needs_policy: bool,
    keys: Vec<Key>,
}

#[derive(Serialize)]
struct Key {
    #[serde(flatten)]
    key: RuleKey,
    /// What it may be, with its unit, in words.
    range: String,
}

/// Runs the command.
pub fn run(args: &RulesArgs) -> anyhow::Result<ExitCode> {
    if args.json {
        terminal::print_json(&Report { rules: RULES.iter().chain(&LEARNED_RULES).map(listed).collect() })?;
    } else {
        terminal::print(&table())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn listed(rule: &RuleDescription) -> Listed {
    let RuleDescription { name, summary, source, one_number, keys } = *rule;
    let keys = keys.iter().map(|&key| Key { key, range: key.range() }).collect();
    Listed { name, summary, source, one_number, needs_policy: needs_policy(name), keys }
}

fn table() -> String {
    let mut lines = Vec::new();
    for rule in RULES.iter().chain(&LEARNED_RULES) {
        let by = if needs_policy(rule.name) { " (--policy FILE)" } else { "" };
        lines.push(format!("{:<10} {}{by} [{}]", rule.name, rule.summary, rule.source));
        for key in rule.keys {
            let default = key.default.unwrap_or("off");
            lines.push(format!("    {:<10} {}: {}", key.name, key.summary, key.range()));
            lines.push(format!("    {:<10} default {default}, {}", "", key.source));
        }
    }
    let one: Vec<_> = RULES.iter().filter(|rule| rule.one_number).map(|rule| rule.name).collect();
    lines.push(format!("coupled:RULE and independent:RULE (one copy a stage) take {}", one.join(", ")));
    lines.push("exec:PROGRAM and python:MODULE:NAME are rules of your own (docs/own-rule.md)".to_owned());
    lines.join("\n")
}
