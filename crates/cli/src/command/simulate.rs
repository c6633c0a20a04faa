//! `tidegate simulate`: rules on a scenario, without moving a byte.

mod papers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tidegate_control::optimizer::{
    Optimizer, OptimizerOptions, RuleDescription, needs_policy, with_constants,
};
use tidegate_control::paper_path::PaperSimulator;
use tidegate_control::simulation::{Summary, judge};
use tidegate_control::{
    Bounds, Concurrency, Host, Observation, Oracle, Path as NetworkPath, PerStage, Proposal, Scenario, Share,
};
use tidegate_run::own_rule::{self, NEVER_ANSWERED};
use tidegate_run::settings::rule;
use tidegate_spec::control::epoch_length;
use tidegate_transfer::error::Error;

use crate::exit::usage;
use crate::terminal;

/// Run optimizers on a simulated path and compare them.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// The path, as a TOML file (docs/scenarios.md describes every key)
    #[arg(long, value_name = "FILE")]
    scenario: PathBuf,
    /// The rules to compare, as in `--optimizer auto gradient fixed:4`, or rules of your own: 'exec:PROGRAM ARGUMENT…' or
    /// python:MODULE:NAME (docs/own-rule.md)
    #[arg(long, value_name = "NAME", num_args = 1.., default_values_t = ["auto".to_owned()])]
    optimizer: Vec<String>,
    /// The policy that the rules `policy`, `policy:sampled` and `policy:online` decide by
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// How hard the rule auto pushes beside the traffic of others: background, fair or full [default: fair]
    #[arg(long, value_name = "NAME")]
    share: Option<Share>,
    /// What the rule aimd takes for a change of throughput, as a share of it: 0.02 or 2%
    #[arg(long, value_name = "SHARE")]
    aimd_epsilon: Option<String>,
    /// Seed of the measurement noise and of rules that draw at random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Epochs to run; a scenario with a data set may end sooner
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    epochs: u32,
    /// Length of an epoch, as in 1s or 500ms [default: what each rule asks for]
    #[arg(long, value_name = "TIME", value_parser = epoch_length)]
    epoch: Option<Duration>,
    /// Run them on a paper's own simulator in place of ours: ldm or automdt; what is told then is throughput, workers, and what
    /// the papers make a path of, max T and max T/n
    #[arg(long, value_name = "NAME")]
    simulator: Option<PaperSimulator>,
    /// Print one JSON object instead of a table, with what was best between changes of the path (docs/scenarios.md)
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    scenario: &'a str,
    seed: u64,
    optimum: Concurrency,
    goodput_bps: u64,
    results: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    optimizer: &'a str,
    #[serde(flatten)]
    summary: Summary,
}

/// Runs the command: 0, or 2 with one line of why.
pub fn run(args: &SimulateArgs) -> anyhow::Result<ExitCode> {
    let scenario = load(&args.scenario).map_err(usage)?;
    let rules = rules(args)?;
    if let Some(simulator) = args.simulator {
        return papers::run(args, &scenario, rules, simulator);
    }
    let mut results = Vec::new();
    for (name, rule) in rules {
        let mut rule = Heard { rule, never_answered: None };
        let summary = judge(&scenario, &mut rule, args.seed, args.epochs, args.epoch);
        if let Some(why) = rule.never_answered {
            return Err(usage(why).into());
        }
        results.push(Line { optimizer: name, summary });
    }
    let oracle = NetworkPath::at(&scenario, Duration::ZERO).oracle();
    if args.json {
        let report = Report {
            scenario: &scenario.name,
            seed: args.seed,
            optimum: oracle.setpoint,
            goodput_bps: oracle.goodput.0,
            results,
        };
        terminal::print(&serde_json::to_string(&report)?)?;
    } else {
        terminal::print(&table(&scenario, args.seed, oracle, &results))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// How long an answer may take that no path waits for.
const PATIENCE: Duration = Duration::from_secs(20);

/// A rule whose notices are told.
struct Heard {
    rule: Box<dyn Optimizer>,
    never_answered: Option<String>,
}

impl Optimizer for Heard {
    fn start(&mut self, bounds: PerStage<Bounds>, host: &Host) -> Proposal {
        let first = self.rule.start(bounds, host);
        match first.reason {
            Some(NEVER_ANSWERED) => self.never_answered.clone_from(&first.notice),
            _ => first.notice.iter().for_each(|notice| terminal::complain(notice)),
        }
        first
    }

    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Proposal {
        let next = self.rule.propose(seen, bounds);
        next.notice.iter().for_each(|notice| terminal::complain(notice));
        next
    }

    fn epoch_length(&self) -> Duration {
        self.rule.epoch_length()
    }
}

fn load(file: &Path) -> Result<Scenario, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Scenario::from_toml(&text).map_err(|error| format!("{}: {error}", file.display()))
}

/// A rule under the name it was asked for by.
type Named<'a> = (&'a str, Box<dyn Optimizer>);

fn rules(args: &SimulateArgs) -> Result<Vec<Named<'_>>, Error> {
    let options = OptimizerOptions { seed: args.seed, ..OptimizerOptions::default() };
    let share = args.share.map(Share::name);
    let given = [("--share", "share", share), ("--aimd-epsilon", "epsilon", args.aimd_epsilon.as_deref())];
    let given: Vec<_> = given.into_iter().filter_map(|(o, key, value)| Some((o, key, value?))).collect();
    let has = |name: &str, key: &str| RuleDescription::of(name).is_some_and(|rule| rule.has(key));
    // Of several rules each takes what it has; what none has is refused, as of one.
    for option in &given {
        if let [.., last] = &args.optimizer[..]
            && !args.optimizer.iter().any(|name| has(name, option.1))
        {
            with_constants(last, [*option]).map_err(usage)?;
        }
    }
    let policy = args.policy.as_deref();
    let decides = args.optimizer.iter().any(|name| needs_policy(name));
    let build = |name: &str| {
        let own = given.iter().copied().filter(|option| has(name, option.1));
        let name = with_constants(name, own).map_err(usage)?;
        rule(&name, &options, policy.filter(|_| needs_policy(&name) || !decides))
    };
    let named = |name: &String| match own_rule::named(name, args.epoch, args.seed, Some(PATIENCE))? {
        Some(own) => Ok(own),
        None => build(name),
    };
    args.optimizer.iter().map(|name| Ok((name.as_str(), named(name)?))).collect()
}

fn table(scenario: &Scenario, seed: u64, oracle: Oracle, results: &[Line<'_>]) -> String {
    let best = oracle.setpoint;
    let names = results.iter().map(|line| line.optimizer.len()).max().unwrap_or(0).max(9);
    let mut lines = vec![
        format!("{}: {}", scenario.name, scenario.description),
        format!(
            "seed {seed}, best at the start {} with {}/{}/{} workers (read/network/write)",
            oracle.goodput, best.read, best.network, best.write
        ),
        String::new(),
        format!(
            "{:<names$}  {:>5}  {:>9}  {:>11}  {:>6}  {:<14}  {:>9}",
            "optimizer", "epoch", "to 95 %", "throughput", "share", "mean workers", "stability"
        ),
    ];
    for Line { optimizer, summary } in results {
        let seconds = |epochs: u32| f64::from(epochs) * summary.epoch_ms as f64 / 1000.0;
        let reached = summary
            .epochs_to_95
            .map_or_else(|| "never".to_owned(), |epochs| format!("{} s", seconds(epochs)));
        let mean = summary.concurrency_mean;
        lines.push(format!(
            "{:<names$}  {:>5}  {:>9}  {:>11}  {:>4.0} %  {:<14}  {:>9}",
            optimizer,
            format!("{} s", seconds(1)),
            reached,
            summary.throughput_bps.to_string(),
            summary.throughput_share * 100.0,
            format!("{:.1}/{:.1}/{:.1}", mean.read, mean.network, mean.write),
            summary.stability.map_or_else(|| "-".to_owned(), |value| format!("{:.1} %", value * 100.0)),
        ));
    }
    lines.join("\n")
}
