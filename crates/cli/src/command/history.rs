//! `tidegate history`: what is remembered of paths, to look at, import, export and forget.

mod import;
mod paths;
mod show;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use tidegate_contract::text::count;
use tidegate_control::units::parse_duration;
use tidegate_run::path_store::PathStore;
use tidegate_run::settings::{StateArgs, history_url};
use tidegate_service::history::{
    Blocking, Cursor, Decision, Estimate, Kind, Query, Record, Retention, Sample, Selection, Timestamp,
    Transfer, csv,
};
use tidegate_spec::pair::Site;

use crate::exit::usage;
use crate::terminal;

/// Show, import, export or forget what is remembered of paths.
///
/// Every sample, estimate, transfer and decision is kept by source and destination, so that the next estimate of
/// a path is free. Logs of GridFTP servers and output of `iperf3 -J` can be imported, and give estimates at once.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct HistoryArgs {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    list: ShowArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the newest of everything (the default)
    List(ShowArgs),
    /// Show what each path last held, where the next run over it begins
    Show(paths::PathsArgs),
    /// Show the pairs of sites and how much is known of each
    Pairs(OpenArgs),
    /// Show measured throughputs
    Samples(ShowArgs),
    /// Show what was concluded from samples
    Estimates(ShowArgs),
    /// Show transfers that ended
    Transfers(ShowArgs),
    /// Show what was decided, and why
    Decisions(ShowArgs),
    /// Read logs of GridFTP servers, output of `iperf3 -J`, or exports
    Import(import::ImportArgs),
    /// Write everything as JSON Lines, or one kind as CSV
    Export(ExportArgs),
    /// Forget what is old, or too much, or of a site
    Forget(ForgetArgs),
}

/// Where history is.
#[derive(Clone, Debug, Args)]
struct OpenArgs {
    /// The database: sqlite:PATH or postgres://USER:PASSWORD@HOST/NAME
    /// [default: history.db in the state directory]
    #[arg(long, value_name = "URL", env = "TIDEGATE_DATABASE", hide_env_values = true)]
    database: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    state: StateArgs,
}

/// Which records.
#[derive(Clone, Debug, Args)]
struct SelectArgs {
    /// Only from the site of this URL
    #[arg(long, value_name = "URL")]
    source: Option<Site>,
    /// Only to the site of this URL
    #[arg(long, value_name = "URL")]
    destination: Option<Site>,
}

#[derive(Clone, Debug, Args)]
struct ShowArgs {
    #[command(flatten)]
    which: SelectArgs,
    /// Only transfers and decisions of this job
    #[arg(long, value_name = "ID")]
    job: Option<String>,
    /// Only what is not older than this, such as 12h or 30d
    #[arg(long, value_name = "TIME", value_parser = age)]
    newer_than: Option<Duration>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Go on where the page before ended
    #[arg(long, value_name = "CURSOR")]
    after: Option<Cursor>,
    #[command(flatten)]
    open: OpenArgs,
}

/// A kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KindName {
    Samples,
    Estimates,
    Transfers,
    Decisions,
}

impl KindName {
    const ALL: [Self; 4] = [Self::Samples, Self::Estimates, Self::Transfers, Self::Decisions];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// One JSON object a line; importing it gives the same back
    Jsonl,
    /// A table of one kind
    Csv,
}

#[derive(Debug, Args)]
struct ExportArgs {
    #[command(flatten)]
    which: SelectArgs,
    /// How it is written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = ExportFormat::Jsonl)]
    format: ExportFormat,
    /// Only this kind; CSV needs one
    #[arg(long, value_name = "KIND", value_enum)]
    kind: Option<KindName>,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    open: OpenArgs,
}

#[derive(Debug, Args)]
struct ForgetArgs {
    #[command(flatten)]
    which: SelectArgs,
    /// Only what is older than this, such as 12h or 365d
    #[arg(long, value_name = "TIME", value_parser = age)]
    older_than: Option<Duration>,
    /// Of each kind and pair, all but the newest N
    #[arg(long, value_name = "N", conflicts_with_all = ["source", "destination", "all"])]
    keep: Option<u32>,
    /// Everything, --paths included
    #[arg(long, conflicts_with_all = ["source", "destination", "older_than"])]
    all: bool,
    /// What each path last held, and nothing else
    #[arg(long, conflicts_with_all = ["source", "destination", "older_than", "keep", "all"])]
    paths: bool,
    #[command(flatten)]
    open: OpenArgs,
}

/// The oldest that anything here can be.
const MAX_AGE: Duration = Duration::from_secs(100 * 366 * 86_400);

/// Reads an age.
fn age(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(age) if age > MAX_AGE => Err(format!("'{text}' is more than a hundred years")),
        Ok(age) => Ok(age),
        Err(error) => Err(error.to_string()),
    }
}

impl OpenArgs {
    fn open(&self) -> anyhow::Result<Blocking> {
        let url = match &self.database {
            Some(url) => url.clone(),
            None => history_url(None, &self.state.state_dir()?),
        };
        Ok(Blocking::open(&url)?)
    }
}

impl ShowArgs {
    fn query(&self) -> Query {
        Query {
            source: self.which.source.clone(),
            destination: self.which.destination.clone(),
            job: self.job.clone(),
            since: self.newer_than.map(|age| Timestamp::now().before(age)),
            after: self.after,
            limit: self.limit,
            alone: false,
        }
    }
}

/// Runs the command.
pub fn run(args: &HistoryArgs) -> anyhow::Result<ExitCode> {
    match &args.action {
        None => list(&args.list),
        Some(Action::List(args)) => list(args),
        Some(Action::Show(args)) => paths::run(args),
        Some(Action::Pairs(args)) => pairs(args),
        Some(Action::Samples(args)) => page::<Sample>(args),
        Some(Action::Estimates(args)) => page::<Estimate>(args),
        Some(Action::Transfers(args)) => page::<Transfer>(args),
        Some(Action::Decisions(args)) => page::<Decision>(args),
        Some(Action::Import(args)) => import::run(args),
        Some(Action::Export(args)) => export(args),
        Some(Action::Forget(args)) => forget(args),
    }
}

fn page<K: Kind + Serialize>(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let history = args.open.open()?;
    let page = history.wait(history.history().page::<K>(&args.query()))?;
    if args.open.json {
        terminal::print_json(&page)?;
        return Ok(ExitCode::SUCCESS);
    }
    for record in page.records {
        terminal::print(&show::line(&record.into()))?;
    }
    if let Some(next) = page.next {
        terminal::tell(&format!("more: --after {next}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The newest of all kinds together.
fn list(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    if args.after.is_some() {
        return Err(usage("--after goes on with one kind: samples, estimates, transfers or decisions").into());
    }
    let history = args.open.open()?;
    let query = args.query();
    let mut records: Vec<Record> = Vec::new();
    for kind in KindName::ALL {
        records.extend(newest(&history, kind, &query)?.0);
    }
    records.sort_by_key(|record| std::cmp::Reverse(record.at()));
    records.truncate(args.limit as usize);
    if args.open.json {
        terminal::print_json(&serde_json::json!({ "records": records }))?;
    } else if records.is_empty() {
        terminal::tell(&format!("nothing is remembered in {}", history.history().place()));
    } else {
        for record in &records {
            terminal::print(&format!("{:8}  {}", show::kind(record), show::line(record)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A page of one kind, as records of any.
fn newest(
    history: &Blocking,
    kind: KindName,
    query: &Query,
) -> anyhow::Result<(Vec<Record>, Option<Cursor>)> {
    fn of<K: Kind>(history: &Blocking, query: &Query) -> anyhow::Result<(Vec<Record>, Option<Cursor>)> {
        let page = history.wait(history.history().page::<K>(query))?;
        Ok((page.records.into_iter().map(Into::into).collect(), page.next))
    }
    match kind {
        KindName::Samples => of::<Sample>(history, query),
        KindName::Estimates => of::<Estimate>(history, query),
        KindName::Transfers => of::<Transfer>(history, query),
        KindName::Decisions => of::<Decision>(history, query),
    }
}

fn pairs(args: &OpenArgs) -> anyhow::Result<ExitCode> {
    let history = args.open()?;
    let pairs = history.wait(history.history().pairs())?;
    if args.json {
        terminal::print_json(&serde_json::json!({ "pairs": pairs }))?;
    } else {
        for line in show::pairs(&pairs) {
            terminal::print(&line)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn export(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let kinds = match (args.kind, args.format) {
        (Some(kind), _) => vec![kind],
        (None, ExportFormat::Jsonl) => KindName::ALL.to_vec(),
        (None, ExportFormat::Csv) => return Err(usage("CSV is a table of one kind: give --kind").into()),
    };
    let history = args.open.open()?;
    let written = match &args.output {
        Some(path) => {
            let cannot = || format!("cannot write {}", path.display());
            let file = File::create(path).with_context(cannot)?;
            let mut file = BufWriter::new(file);
            let written = write_all(&history, args, &kinds, &mut file)?;
            file.into_inner().map_err(io::IntoInnerError::into_error).with_context(cannot)?;
            written
        }
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            let written = write_all(&history, args, &kinds, &mut out);
            match written.and_then(|written| Ok(out.flush().map(|()| written)?)) {
                // A reader who has left is no error.
                Err(error) if is_broken_pipe(&error) => return Ok(ExitCode::SUCCESS),
                written => written?,
            }
        }
    };
    if args.output.is_some() {
        if args.open.json {
            terminal::print_json(&serde_json::json!({ "records": written }))?;
        } else {
            terminal::print(&count(written, "record"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Writes page after page, so that no more than one is in memory.
fn write_all(
    history: &Blocking,
    args: &ExportArgs,
    kinds: &[KindName],
    out: &mut impl Write,
) -> anyhow::Result<u64> {
    let mut written = 0;
    for &kind in kinds {
        let mut query = Query {
            source: args.which.source.clone(),
            destination: args.which.destination.clone(),
            ..Query::default()
        };
        if args.format == ExportFormat::Csv {
            writeln!(out, "{}", csv_header(kind))?;
        }
        loop {
            let (records, next) = newest(history, kind, &query)?;
            for record in &records {
                match args.format {
                    ExportFormat::Jsonl => writeln!(out, "{}", serde_json::to_string(record)?)?,
                    ExportFormat::Csv => writeln!(out, "{}", csv_line(record))?,
                }
            }
            written += records.len() as u64;
            query.after = next;
            if query.after.is_none() {
                break;
            }
        }
    }
    Ok(written)
}

fn csv_header(kind: KindName) -> String {
    match kind {
        KindName::Samples => csv::header::<Sample>(),
        KindName::Estimates => csv::header::<Estimate>(),
        KindName::Transfers => csv::header::<Transfer>(),
        KindName::Decisions => csv::header::<Decision>(),
    }
}

fn csv_line(record: &Record) -> String {
    match record {
        Record::Sample(record) => csv::line(record),
        Record::Estimate(record) => csv::line(record),
        Record::Transfer(record) => csv::line(record),
        Record::Decision(record) => csv::line(record),
    }
}

fn forget(args: &ForgetArgs) -> anyhow::Result<ExitCode> {
    let SelectArgs { source, destination } = args.which.clone();
    if source.is_none()
        && destination.is_none()
        && args.older_than.is_none()
        && args.keep.is_none()
        && !args.all
        && !args.paths
    {
        return Err(usage("what? --older-than, --keep, --source, --destination, --paths or --all").into());
    }
    let paths = match args.all || args.paths {
        true => PathStore::new(&args.open.state.path()?).forget(),
        false => 0,
    };
    if args.paths {
        return forgotten(args, 0, paths);
    }
    let (history, now) = (args.open.open()?, Timestamp::now());
    let forgotten = match args.keep {
        Some(rows_per_pair) => {
            let retention = Retention { age: args.older_than.unwrap_or(Duration::MAX), rows_per_pair };
            history.wait(history.history().retain(&retention, now))?
        }
        None => {
            let before = args.older_than.map(|age| now.before(age));
            history.wait(history.history().forget(&Selection { source, destination, before }))?
        }
    };
    self::forgotten(args, forgotten, paths)
}

/// Says how much was forgotten.
fn forgotten(args: &ForgetArgs, records: u64, paths: u64) -> anyhow::Result<ExitCode> {
    if args.open.json {
        terminal::print_json(&serde_json::json!({ "forgotten": records, "paths": paths }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let counts = [(records, "record", !args.paths), (paths, "path", args.paths || paths > 0)];
    let said = counts.iter().filter(|(_, _, is_said)| *is_said).map(|&(n, what, _)| count(n, what));
    terminal::print(&format!("{} forgotten", said.collect::<Vec<_>>().join(", ")))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_may_be_in_days() {
        assert_eq!(age("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(age("12h"), Ok(Duration::from_secs(12 * 3600)));
        for bad in ["", "30", "d", "-1d", "99999999999d"] {
            assert!(age(bad).is_err(), "{bad}");
        }
    }
}
