//! `get --self-check`: whether the archives answer as they are expected to.

use std::process::ExitCode;

use tidegate_fetch::archive::self_check::{CheckStatus, InterfaceCheck, KNOWN_RUN, self_check};
use tidegate_fetch::archive::{Accession, Kind};
use tidegate_transfer::text::show;

use super::GetArgs;
use crate::exit::{SOME_FAILED, usage};
use crate::terminal;

/// Runs the check.
pub fn run(args: &GetArgs) -> anyhow::Result<ExitCode> {
    let run = match &args.names[..] {
        [] => KNOWN_RUN.to_owned(),
        [one] => one.to_string_lossy().into_owned(),
        _ => return Err(usage("--self-check asks for one run").into()),
    };
    let run: Accession = run.parse()?;
    if run.kind() != Kind::Run {
        return Err(usage(format!("--self-check asks for a run, and {run} is none")).into());
    }
    let checks = self_check(args.archive.settings(&args.server, &args.spec), &run)?;
    let is_well = checks.iter().all(|check| check.status == CheckStatus::AsExpected);
    if args.output.json {
        let all = serde_json::json!({ "run": run.as_str(), "as_expected": is_well, "checks": checks });
        terminal::print_json(&all)?;
    } else {
        for check in &checks {
            terminal::print(&line(check))?;
        }
    }
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(SOME_FAILED) })
}

/// One interface in one line.
fn line(check: &InterfaceCheck) -> String {
    let InterfaceCheck { name, url, seconds, .. } = check;
    let what = show(check.differs.join("; ").as_bytes()).into_owned();
    match check.status {
        CheckStatus::AsExpected => format!("as expected  {name} at {url} ({seconds:.2} s)"),
        CheckStatus::Differs => format!("differs      {name} at {url}: {what}"),
        CheckStatus::NoAnswer => format!("no answer    {what}"),
    }
}
