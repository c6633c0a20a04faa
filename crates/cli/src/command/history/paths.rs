//! `tidegate history show`: what each path last held, where the next run over it begins.

use std::process::ExitCode;

use clap::Args;
use tidegate_contract::text::one_line;
use tidegate_control::Stage;
use tidegate_control::units::duration_in_words;
use tidegate_run::path_store::{KnownPath, PathStore, age};
use tidegate_run::settings::StateArgs;

use crate::terminal;

#[derive(Clone, Debug, Args)]
pub struct PathsArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    state: StateArgs,
}

/// Runs the command.
pub fn run(args: &PathsArgs) -> anyhow::Result<ExitCode> {
    let (known, wrong) = PathStore::new(&args.state.path()?).all();
    wrong.iter().for_each(|why| terminal::complain(why));
    if args.json {
        let paths: Vec<_> = known
            .iter()
            .map(|KnownPath { path, memory, .. }| serde_json::json!({ "path": path, "memory": memory }))
            .collect();
        terminal::print_json(&serde_json::json!({ "paths": paths }))?;
    } else if known.is_empty() {
        terminal::tell("no path is remembered");
    } else {
        for line in table(&known) {
            terminal::print(&line)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A line a path, and one that says what is what.
fn table(known: &[KnownPath]) -> Vec<String> {
    let head = ["read", "network", "write", "moved", "ago", "path"].map(str::to_owned);
    let row = |KnownPath { path, memory, .. }: &KnownPath| {
        let [read, network, write] = Stage::ALL.map(|stage| memory.stages[stage].workers.to_string());
        let moved = memory.stages.network.throughput_bps.to_string();
        let shown = one_line(&path.to_string());
        [read, network, write, moved, duration_in_words(age(memory)), shown]
    };
    let rows: Vec<[String; 6]> = std::iter::once(head).chain(known.iter().map(row)).collect();
    let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3, 4].map(width);
    let line = |row: &[String; 6]| {
        let cells = widths.iter().zip(row).map(|(width, cell)| format!("{cell:>width$}  "));
        cells.chain([row[5].clone()]).collect()
    };
    rows.iter().map(line).collect()
}
