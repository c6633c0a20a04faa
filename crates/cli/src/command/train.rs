//! `tidegate train`: learns a policy for a path in simulation.

mod beside_auto;

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use tidegate_control::calibration::{calibrate, read_log};
use tidegate_control::policy::network::MAX_WIDTH;
use tidegate_control::policy::{Policy, Recipe};
use tidegate_control::{Concurrency, Scenario};
use tidegate_run::settings::policy_of;
use tidegate_run::whole_file::WholeFile;
use tidegate_train::practice::PathTask;
use tidegate_train::published::Published;
use tidegate_train::session::{BeginError, Facts, Progress, Session, Trainer};
use tidegate_train::settings::{Plan, PpoPlan};
use tidegate_train::universal::{self, Universal};

use crate::chart::{Chart, Line};
use crate::exit::{self, usage};
use crate::signals::interrupt_on_signals;
use crate::terminal;

use beside_auto::BesideAuto;

/// Learn a policy in simulation: for one path in seconds, or for every path in minutes.
///
/// The path is a scenario, or fitted to a log of epochs that `copy --epochs` or `explore` wrote. The
/// policy drives transfers with `--optimizer policy --policy FILE`. Beside it, FILE.svg shows how it
/// was learned. Ctrl-C stops and keeps the best policy so far. `--universal` makes the policy that
/// `--optimizer universal` has built in.
#[derive(Debug, Args)]
pub struct TrainArgs {
    /// The path, as a TOML file (docs/scenarios.md describes every key)
    #[arg(long, value_name = "FILE", required_unless_present_any = ["from", "universal", "list_settings"])]
    scenario: Option<PathBuf>,
    /// The path, fitted to a log of epochs, as `explore` and `--epochs` write it
    #[arg(long, value_name = "LOG", conflicts_with = "scenario")]
    from: Option<PathBuf>,
    /// One policy for every path, learned on random ones
    #[arg(long, conflicts_with_all = ["scenario", "from", "recipe", "utility_k"])]
    universal: bool,
    /// Where to write the policy
    #[arg(short, long, value_name = "FILE", required_unless_present = "list_settings")]
    output: Option<PathBuf>,
    /// How to learn: fast, or for comparison ldm and automdt as published (minutes to hours),
    /// automdt_discrete, where automdt chooses among all numbers of workers (its paper's figure 4), or
    /// discrete_rl, steps up and down
    #[arg(long, value_name = "NAME", default_value_t = Recipe::Fast)]
    recipe: Recipe,
    /// Begin with the weights of this policy, of the same recipe, in place of random ones
    #[arg(long, value_name = "FILE", conflicts_with = "universal")]
    policy: Option<PathBuf>,
    /// Set a hyper-parameter of the recipe, its K, a limit or a penalty; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE", conflicts_with = "universal")]
    settings: Vec<String>,
    /// Train nothing, and list what --set can set for RECIPE: default, range, and whether the default is of the
    /// paper's text, only of its authors' program, or ours
    #[arg(long, value_name = "RECIPE", conflicts_with_all = ["universal", "settings"])]
    list_settings: Option<Recipe>,
    /// Seed of everything random; the same seed gives the same policy
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Base K of the utility T/K^n, the price of a worker [default: 1.02; 1.002 for ldm]
    #[arg(long, value_name = "K", value_parser = price)]
    utility_k: Option<f64>,
    /// The most episodes [default: 60000; 30000 for automdt and automdt_discrete, 300000 for ldm]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    episodes: Option<u64>,
    /// Threads; the policy is the same with one and with two
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=2))]
    threads: u8,
    /// Write the curve as CSV to FILE too: series, episodes, utility as a share of R_max
    #[arg(long, value_name = "FILE")]
    curve: Option<PathBuf>,
    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
    /// No progress bar
    #[arg(short, long)]
    quiet: bool,
}

fn price(text: &str) -> Result<f64, String> {
    let k = text.parse::<f64>().ok().filter(|k| *k > 1.0 && *k <= 2.0);
    k.ok_or_else(|| "must be a number above 1 and at most 2".to_owned())
}

/// How a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    /// The papers' criterion was met and nothing better came.
    Complete,
    /// The most episodes were played without meeting it.
    Exhausted,
    /// Ctrl-C.
    Interrupted,
}

/// What a training came to.
#[derive(Serialize)]
struct Report<'a> {
    status: Status,
    recipe: Recipe,
    scenario: &'a str,
    seed: u64,
    episodes: u64,
    converged_episodes: Option<u64>,
    converged_ms: Option<u64>,
    duration_ms: u64,
    episodes_per_second: f64,
    /// The best policy's utility as a share of R_max.
    utility_share: f32,
    setpoint: Option<Concurrency>,
    /// What it moves on its path, beside `auto`; none of a policy for every path.
    #[serde(flatten)]
    beside_auto: Option<BesideAuto>,
    policy: String,
    curve: String,
}

/// Runs the command: 0 when converged, 1 when not, 130 when interrupted.
pub fn run(args: &TrainArgs) -> anyhow::Result<ExitCode> {
    if let Some(recipe) = args.list_settings {
        terminal::print(&settings(recipe))?;
        return Ok(ExitCode::SUCCESS);
    }
    let output = args.output.as_deref().ok_or_else(|| usage("give --output FILE"))?;
    // Nothing is worse than learning for minutes and having nowhere to put it.
    if let Some(curve) = &args.curve {
        drop(WholeFile::begin(curve)?);
    }
    if args.universal {
        drop(WholeFile::begin(output)?);
        let default = universal::UniversalConfig::default();
        let most = args.episodes.unwrap_or(default.most);
        let config = universal::UniversalConfig { threads: args.threads.into(), most, ..default };
        return Training::new((args, output), None, Recipe::Universal)
            .run(&mut Universal::new(config, args.seed));
    }
    let (scenario, file) = path(args)?;
    drop(WholeFile::begin(output)?);
    let bounds = scenario.bounds().into_array();
    if bounds.iter().all(|bounds| bounds.is_fixed()) {
        return Err(usage(format!("{}: no stage has a choice of workers", file.display())).into());
    }
    let three_stages = matches!(args.recipe, Recipe::Automdt | Recipe::AutomdtDiscrete);
    if three_stages && bounds.iter().any(|bounds| bounds.is_fixed()) {
        let why = format!("the recipe {} needs all three stages; use fast or ldm", args.recipe);
        return Err(usage(format!("{}: {why}", file.display())).into());
    }
    let choices: usize = bounds.iter().map(|bounds| usize::from(bounds.max - bounds.min) + 1).sum();
    if args.recipe == Recipe::AutomdtDiscrete && choices > MAX_WIDTH {
        let why = format!(
            "{choices} numbers of workers to choose among, of at most {MAX_WIDTH}: lower max_workers"
        );
        return Err(usage(format!("{}: {why}", file.display())).into());
    }
    let plan = plan(args)?;
    let k = match &plan {
        Plan::Published(constants) => constants.k,
        Plan::Ppo(plan) => plan.k,
    };
    let task = PathTask::of(&scenario, args.recipe, k);
    let mut trainer: Box<dyn Trainer + '_> = match plan {
        Plan::Ppo(PpoPlan { mut config, stop, .. }) => {
            config.threads = args.threads.into();
            let mut session = Session::new(&task, (args.recipe, task.scales), config, stop, args.seed);
            begin(args, |policy| session.begin_with(policy))?;
            Box::new(session)
        }
        Plan::Published(mut constants) => {
            constants.threads = args.threads.into();
            let mut published = Published::new(&scenario, args.recipe, constants, args.seed);
            begin(args, |policy| published.begin_with(policy))?;
            Box::new(published)
        }
    };
    Training::new((args, output), Some(&scenario), args.recipe).run(trainer.as_mut())
}

/// Begins `with` the policy that was given, if one was.
fn begin(args: &TrainArgs, with: impl FnOnce(&Policy) -> Result<(), BeginError>) -> anyhow::Result<()> {
    let Some(file) = &args.policy else { return Ok(()) };
    with(&policy_of(file)?).map_err(|error| usage(format!("{}: {error}", file.display())).into())
}

/// The recipe's defaults, with what was asked for in their place.
fn plan(args: &TrainArgs) -> anyhow::Result<Plan> {
    let recipe = args.recipe;
    let none = || match recipe {
        Recipe::Gymnasium => {
            usage("the recipe gymnasium is trained in Python, on its environments (docs/own-rule.md)")
        }
        _ => usage(format!("the recipe {recipe} learns no path of its own: use --universal")),
    };
    let mut plan = Plan::of(recipe).ok_or_else(none)?;
    let mut set =
        |key: &str, value: &str| plan.set(recipe, key, value).map_err(|error| usage(error.to_string()));
    let options =
        [("k", args.utility_k.map(|k| k.to_string())), ("episodes", args.episodes.map(|n| n.to_string()))];
    let mut seen: Vec<&str> = Vec::new();
    for (key, value) in options {
        if let Some(value) = value {
            set(key, &value)?;
            seen.push(key);
        }
    }
    for setting in &args.settings {
        let (key, value) = setting.split_once('=').ok_or_else(|| {
            usage(format!("--set {setting}: must be KEY=VALUE; --list-settings {recipe} has the keys"))
        })?;
        if seen.contains(&key) {
            return Err(usage(format!("--set {key}: is set twice, give it once")).into());
        }
        set(key, value)?;
        seen.push(key);
    }
    Ok(plan)
}

/// What can be set for `recipe`, a line each.
fn settings(recipe: Recipe) -> String {
    let Some(plan) = Plan::of(recipe) else { return format!("the recipe {recipe} has no settings") };
    let mut lines = vec![format!("{:<17} {:>7}  {:<7}  {:<18}  what", "key", "default", "from", "range")];
    for setting in plan.settings(recipe) {
        let (least, most) = setting.range;
        let range = format!("{least} to {most}");
        lines.push(format!(
            "{:<17} {:>7}  {:<7}  {range:<18}  {}",
            setting.key,
            setting.value,
            setting.source.name(),
            setting.about
        ));
    }
    lines.join("\n")
}

/// The path to learn, and the file it comes from.
fn path(args: &TrainArgs) -> anyhow::Result<(Scenario, &Path)> {
    let file =
        args.from.as_deref().or(args.scenario.as_deref()).ok_or_else(|| usage("give --scenario FILE"))?;
    let wrong = |error: &dyn Display| usage(format!("{}: {error}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
    if args.from.is_none() {
        return Ok((Scenario::from_toml(&text).map_err(|error| wrong(&error))?, file));
    }
    let fitted = read_log(&text).and_then(|log| calibrate(&log)).map_err(|error| wrong(&error))?;
    Ok((fitted.scenario(&file.file_stem().unwrap_or_default().to_string_lossy()), file))
}

/// How often the view is drawn, and how often the best policy is saved meanwhile.
const VIEW: Duration = Duration::from_millis(100);
const CHECKPOINT: Duration = Duration::from_secs(5);

struct Training<'a> {
    args: &'a TrainArgs,
    output: &'a Path,
    /// The path; none if it is every one.
    path: Option<&'a Scenario>,
    recipe: Recipe,
    curve: Curve,
    begun: Instant,
}

impl<'a> Training<'a> {
    fn new((args, output): (&'a TrainArgs, &'a Path), path: Option<&'a Scenario>, recipe: Recipe) -> Self {
        Self { args, output, path, recipe, curve: Curve::default(), begun: Instant::now() }
    }

    fn run(mut self, trainer: &mut dyn Trainer) -> anyhow::Result<ExitCode> {
        let interrupt = interrupt_on_signals();
        let view = !self.args.json && !self.args.quiet && terminal::can_show_view();
        let (mut drawn, mut saved) = (self.begun, self.begun);
        let (mut converged, mut saved_best) = (None, 0.0);
        let (progress, status) = loop {
            let progress = trainer.advance();
            self.curve.add(&progress);
            if progress.converged_at.is_some() {
                converged.get_or_insert(self.begun.elapsed());
            }
            if interrupt.is_raised() {
                break (progress, Status::Interrupted);
            }
            if progress.done {
                let converged = progress.converged_at.is_some();
                break (progress, if converged { Status::Complete } else { Status::Exhausted });
            }
            if view && drawn.elapsed() >= VIEW {
                drawn = Instant::now();
                terminal::draw(&self.lines(&progress));
            }
            if saved.elapsed() >= CHECKPOINT && progress.best > saved_best {
                (saved, saved_best) = (Instant::now(), progress.best);
                self.save(trainer, &progress)?;
            }
        };
        terminal::clear();
        let beside_auto = self.save(trainer, &progress)?;
        let curve = beside(self.output);
        WholeFile::begin(&curve)?
            .commit(self.curve.chart(&self.title(), self.recipe == Recipe::Universal))?;
        if let Some(file) = &self.args.curve {
            WholeFile::begin(file)?.commit(self.curve.csv())?;
        }
        let duration = self.begun.elapsed();
        let report = Report {
            status,
            recipe: self.recipe,
            scenario: self.scenario(),
            seed: self.args.seed,
            episodes: progress.episodes,
            converged_episodes: progress.converged_at,
            converged_ms: converged.map(|time| time.as_millis() as u64),
            duration_ms: duration.as_millis() as u64,
            episodes_per_second: (progress.episodes as f64 / duration.as_secs_f64().max(1e-9)).round(),
            utility_share: progress.best,
            setpoint: trainer.rest(),
            beside_auto,
            policy: self.output.display().to_string(),
            curve: curve.display().to_string(),
        };
        if self.args.json {
            terminal::print(&serde_json::to_string(&report)?)?;
        } else {
            terminal::print(&told(&report))?;
        }
        Ok(match status {
            Status::Complete => ExitCode::SUCCESS,
            Status::Exhausted => ExitCode::from(exit::SOME_FAILED),
            Status::Interrupted => ExitCode::from(exit::INTERRUPTED),
        })
    }

    fn scenario(&self) -> &'a str {
        self.path.map_or("every path", |path| &path.name)
    }

    fn title(&self) -> String {
        format!("{}: recipe {}, seed {}", self.scenario(), self.recipe, self.args.seed)
    }

    /// Writes the best policy so far, with what it moves beside `auto`.
    fn save(&self, trainer: &mut dyn Trainer, progress: &Progress) -> anyhow::Result<Option<BesideAuto>> {
        let mut facts = Facts::new();
        let mut fact = |name: &str, value: String| drop(facts.insert(format!("training.{name}"), value));
        fact("program", format!("tidegate {}", env!("CARGO_PKG_VERSION")));
        if self.recipe == Recipe::Universal {
            fact("command", format!("tidegate train --universal -o FILE --seed {}", self.args.seed));
        }
        if !self.args.settings.is_empty() {
            fact("settings", self.args.settings.join(" "));
        }
        if let Some(file) = &self.args.policy {
            fact("begun_with", file.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
        fact("scenario", self.scenario().to_owned());
        fact("seed", self.args.seed.to_string());
        fact("episodes", progress.episodes.to_string());
        fact("utility_share", format!("{:.4}", progress.best));
        let mut policy =
            trainer.policy(facts).context("the weights are no longer numbers: try another seed")?;
        let beside_auto = match self.path {
            Some(path) => Some(BesideAuto::of(&policy, path, self.args.seed)?),
            None => None,
        };
        if let Some(BesideAuto { throughput_bps, auto_throughput_bps, below_auto }) = beside_auto {
            let mut fact = |name: &str, value: String| policy.facts.insert(format!("training.{name}"), value);
            fact("throughput_bps", throughput_bps.0.to_string());
            fact("auto_throughput_bps", auto_throughput_bps.0.to_string());
            fact("below_auto", below_auto.to_string());
        }
        WholeFile::begin(self.output)?.commit(policy.to_bytes())?;
        Ok(beside_auto)
    }

    /// The view: how far the reward is from R_max.
    fn lines(&self, progress: &Progress) -> Vec<String> {
        const CELLS: usize = 30;
        let filled = (progress.recent.clamp(0.0, 1.0) * CELLS as f32) as usize;
        let bar: String = (0..CELLS).map(|i| if i < filled { '█' } else { '░' }).collect();
        let seconds = self.begun.elapsed().as_secs_f64();
        let greedy =
            progress.greedy.map_or_else(String::new, |greedy| format!("  policy {:.1} %", greedy * 100.0));
        vec![
            self.title(),
            format!("reward {bar} {:5.1} % of R_max{greedy}", progress.recent * 100.0),
            format!(
                "{} episodes, {:.0} a second, {seconds:.0} s; best {:.1} %; Ctrl-C keeps the best",
                progress.episodes,
                progress.episodes as f64 / seconds.max(1e-9),
                progress.best * 100.0
            ),
        ]
    }
}

fn told(report: &Report<'_>) -> String {
    let seconds = |ms: u64| ms as f64 / 1000.0;
    let converged = match (report.converged_episodes, report.converged_ms) {
        (Some(episodes), Some(ms)) => format!("0.9 R_max after {episodes} episodes, {:.1} s", seconds(ms)),
        _ => "0.9 R_max was not reached".to_owned(),
    };
    let rest = report.setpoint.map_or_else(String::new, |n| {
        format!(", comes to rest at {}/{}/{} workers (read/network/write)", n.read, n.network, n.write)
    });
    let beside = report.beside_auto.map_or_else(String::new, |beside| beside.in_words() + "\n");
    let status = match report.status {
        Status::Complete => "converged",
        Status::Exhausted => "stopped without converging",
        Status::Interrupted => "interrupted, the best policy so far is kept",
    };
    format!(
        "{status}: {} episodes in {:.1} s ({:.0} a second); {converged}\n\
         utility {:.1} % of R_max{rest}\n{beside}policy {}, curve {}",
        report.episodes,
        seconds(report.duration_ms),
        report.episodes_per_second,
        report.utility_share * 100.0,
        report.policy,
        report.curve,
    )
}

/// `FILE.svg` for `FILE.safetensors`.
fn beside(policy: &Path) -> PathBuf {
    policy.with_extension("svg")
}

/// How the shares went, thinned as it grows.
#[derive(Default)]
struct Curve {
    recent: Vec<(f64, f64)>,
    greedy: Vec<(f64, f64)>,
    skip: u32,
    every: u32,
}

impl Curve {
    const MAX_POINTS: usize = 4_000;

    fn add(&mut self, progress: &Progress) {
        let x = progress.episodes as f64;
        if let Some(greedy) = progress.greedy
            && self.greedy.last().is_none_or(|last| last.1 != f64::from(greedy))
        {
            self.greedy.push((x, greedy.into()));
        }
        self.skip += 1;
        if self.skip < self.every {
            return;
        }
        self.skip = 0;
        self.recent.push((x, progress.recent.into()));
        if self.recent.len() > Self::MAX_POINTS {
            let mut i = 0;
            self.recent.retain(|_| {
                i += 1;
                i % 2 == 0
            });
            self.every = self.every.max(1) * 2;
        }
    }

    /// Both series, one point a line.
    fn csv(&self) -> String {
        let mut lines = String::from("series,episodes,utility_share\n");
        for (series, points) in [("played", &self.recent), ("policy", &self.greedy)] {
            for (episodes, share) in points {
                lines += &format!("{series},{episodes},{share:.5}\n");
            }
        }
        lines
    }

    fn chart(&self, title: &str, universal: bool) -> String {
        if universal {
            return self.chart_of_reward(title);
        }
        let mut lines = vec![Line { name: "mean of the last 100 episodes", points: &self.recent }];
        if !self.greedy.is_empty() {
            lines.insert(0, Line { name: "the policy from random starts", points: &self.greedy });
        }
        let levels = vec![("0.9 R_max, the papers' criterion", 0.9)];
        Chart { title, x: "episodes", y: "utility / R_max", lines, levels, top: 1.0 }.to_svg()
    }

    /// Where all paths are learned at once, everything worth seeing is near the top.
    fn chart_of_reward(&self, title: &str) -> String {
        let beyond = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
            points.iter().map(|&(x, share)| (x, 100.0 * share - 90.0)).collect()
        };
        let (exams, episodes) = (beyond(&self.greedy), beyond(&self.recent));
        let lines = vec![
            Line { name: "the policy's reward in exams", points: &exams },
            Line { name: "goodput as played while learning", points: &episodes },
        ];
        Chart { title, x: "episodes", y: "% of the oracle's, above 90", lines, levels: Vec::new(), top: 10.0 }
            .to_svg()
    }
}
