//! `tidegate history import`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use tidegate_contract::text::count;
use tidegate_service::history::import::{Import, ImportFormat, Sites};
use tidegate_service::history::{Blocking, Origin, Record, Timestamp};
use tidegate_spec::pair::{Pair, Site};

use super::OpenArgs;
use crate::{exit, terminal};

/// Records written at once.
const MAX_BATCH: usize = 1000;

/// Most bad lines told one by one, of each file.
const MAX_PROBLEMS: usize = 10;

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// Files to read; '-' is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// What they are [default: what their first lines say]
    #[arg(long, value_name = "FORMAT", value_parser = ImportFormat::NAMES)]
    format: Option<String>,
    /// The site that all of a log's data came from
    #[arg(long, value_name = "URL")]
    source: Option<Site>,
    /// The site that all of it went to
    #[arg(long, value_name = "URL")]
    destination: Option<Site>,
    /// The site of a host that a log names, as in 192.0.2.7=tg://dtn2.example.org:7700; may be given again
    #[arg(long, value_name = "HOST=URL", value_parser = host_and_site)]
    site: Vec<(String, Site)>,
    #[command(flatten)]
    open: OpenArgs,
}

fn host_and_site(text: &str) -> Result<(String, Site), String> {
    let (host, site) = text.split_once('=').ok_or("is no HOST=URL")?;
    Ok((host.to_ascii_lowercase(), site.parse().map_err(|error| format!("{error}"))?))
}

/// What a file gave.
#[derive(Debug, Default, Serialize)]
struct Imported {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<ImportFormat>,
    /// Records in it.
    records: u64,
    /// Those that were not known.
    new: u64,
    /// Lines or documents that make no sense.
    bad: u64,
    /// The first of them.
    problems: Vec<Problem>,
    /// Why the rest of it was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct Problem {
    line: u64,
    message: String,
}

pub(super) fn run(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let history = args.open.open()?;
    let format =
        args.format.as_deref().map(|name| name.parse::<ImportFormat>().map_err(exit::usage)).transpose()?;
    let sites = Sites {
        source: args.source.clone(),
        destination: args.destination.clone(),
        by_host: args.site.iter().cloned().collect(),
    };
    let (mut files, mut logged) = (Vec::new(), BTreeSet::new());
    for path in &args.files {
        let mut imported = Imported { file: path.display().to_string(), ..Imported::default() };
        let read = if path.as_os_str() == "-" {
            read_all(&history, std::io::stdin().lock(), format, &sites, &mut imported, &mut logged)
        } else {
            match File::open(path) {
                Ok(file) => {
                    read_all(&history, BufReader::new(file), format, &sites, &mut imported, &mut logged)
                }
                Err(error) => Err(error.into()),
            }
        };
        imported.error = read.err().map(|error| exit::in_one_line(&error));
        if !args.open.json {
            tell(&imported)?;
        }
        files.push(imported);
    }
    let mut samples = 0;
    for pair in &logged {
        samples += history.wait(history.history().warm_start(pair))?;
    }
    if args.open.json {
        terminal::print_json(&serde_json::json!({ "files": files, "samples_of_transfers": samples }))?;
    } else if samples > 0 {
        terminal::print(&format!("{} made of the transfers of logs", count(samples, "sample")))?;
    }
    let is_all = files.iter().all(|imported| imported.error.is_none());
    Ok(ExitCode::from(if is_all { 0 } else { exit::SOME_FAILED }))
}

fn read_all(
    history: &Blocking,
    file: impl BufRead,
    format: Option<ImportFormat>,
    sites: &Sites,
    imported: &mut Imported,
    logged: &mut BTreeSet<Pair>,
) -> anyhow::Result<()> {
    let mut import = Import::new(file, format, sites.clone(), Timestamp::now())?;
    imported.format = Some(import.format());
    let mut batch = Vec::with_capacity(MAX_BATCH);
    // What was read before an error is kept.
    let ended = loop {
        match import.next_item() {
            Ok(Some(item)) => match item.found {
                Ok(records) => batch.extend(records),
                Err(message) => {
                    imported.bad += 1;
                    if imported.problems.len() < MAX_PROBLEMS {
                        imported.problems.push(Problem { line: item.line, message });
                    }
                }
            },
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
        if batch.len() >= MAX_BATCH {
            write(history, &mut batch, imported, logged)?;
        }
    };
    write(history, &mut batch, imported, logged)?;
    Ok(ended?)
}

fn write(
    history: &Blocking,
    batch: &mut Vec<Record>,
    imported: &mut Imported,
    logged: &mut BTreeSet<Pair>,
) -> anyhow::Result<()> {
    imported.new += history.wait(history.history().record(batch))?;
    imported.records += batch.len() as u64;
    logged.extend(batch.drain(..).filter_map(|record| match record {
        Record::Transfer(transfer) if transfer.origin == Origin::GridftpLog => Some(transfer.pair),
        _ => None,
    }));
    Ok(())
}

fn tell(imported: &Imported) -> std::io::Result<()> {
    let Imported { file, records, new, bad, .. } = imported;
    for Problem { line, message } in &imported.problems {
        terminal::complain(&format!("{file}:{line}: {message}"));
    }
    if *bad > imported.problems.len() as u64 {
        terminal::complain(&format!("{file}: … and {} more bad lines", bad - imported.problems.len() as u64));
    }
    if let Some(error) = &imported.error {
        terminal::complain(&format!("{file}: {error}"));
    }
    match imported.format {
        Some(format) => {
            let bad =
                if *bad > 0 { format!(", {} left out", count(*bad, "bad line")) } else { String::new() };
            let records = count(*records, "record");
            terminal::print(&format!("{file}: {records} ({format}), {new} new{bad}"))
        }
        None => Ok(()),
    }
}
