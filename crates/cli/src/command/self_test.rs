//! `tidegate self-test`: whether an installation works.

mod copying;
mod host;
#[cfg(feature = "servers")]
mod servers;
mod storage;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use tidegate_control::ByteCount;
use tidegate_run::settings::StateArgs;
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::text::show;
use tidegate_transfer::transfer::Interrupt;

use crate::exit::{SOME_FAILED, in_one_line};
use crate::output::JsonArgs;
use crate::scratch::Scratch;
use crate::signals::interrupt_on_signals;
use crate::terminal;

/// Bytes that are copied. At the rate of the copy that is interrupted they take some seconds.
const SIZE: ByteCount = ByteCount::mib(48);

const HELP: &str = "Exit codes: 0 it works, 1 a check failed, 2 usage, 4 no space left, 130 interrupted";

/// Tell whether this installation works: ten seconds, no network but the loopback.
///
/// Copies files over the loopback and compares every byte, interrupts a copy and resumes it, looks for a byte that was
/// changed, and looks at checksums, the file system, the state directory, the clock, certificates and ssh. A line for
/// each check: `works`, `warning` where something is missing that some uses need, or `failed`. Removes what it made.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct SelfTestArgs {
    /// Where to copy, to try that file system [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    output: JsonArgs,
    #[command(flatten)]
    state: StateArgs,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Works,
    /// Something is missing that some uses need.
    Warning,
    Failed,
}

/// What a check found, unless it failed.
enum Found {
    Works(String),
    Warning(String),
}

/// A check as it is told.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    status: Status,
    message: String,
    seconds: f64,
}

impl Check {
    fn run(name: &'static str, check: impl FnOnce() -> anyhow::Result<Found>) -> Self {
        let started = Instant::now();
        let (status, message) = match check() {
            Ok(Found::Works(message)) => (Status::Works, message),
            Ok(Found::Warning(message)) => (Status::Warning, message),
            Err(error) => (Status::Failed, in_one_line(&error)),
        };
        let message = show(message.as_bytes()).into_owned();
        Self { name, status, message, seconds: started.elapsed().as_secs_f64() }
    }

    fn line(&self) -> String {
        let status = match self.status {
            Status::Works => "works",
            Status::Warning => "warning",
            Status::Failed => "failed",
        };
        format!("{status:<8} {:<12} {} ({:.1} s)", self.name, self.message, self.seconds)
    }
}

/// Runs checks one after the other and tells of each as soon as it is done.
struct Checks<'a> {
    done: Vec<Check>,
    json: bool,
    interrupt: &'a Interrupt,
}

impl Checks<'_> {
    fn run(
        &mut self,
        name: &'static str,
        check: impl FnOnce() -> anyhow::Result<Found>,
    ) -> anyhow::Result<()> {
        let check = Check::run(name, check);
        if self.interrupt.is_raised() {
            return Err(Error::new(ErrorKind::Interrupted, "interrupted; what was made is removed").into());
        }
        if !self.json {
            terminal::print(&check.line())?;
        }
        self.done.push(check);
        Ok(())
    }
}

/// Runs the command.
pub fn run(args: &SelfTestArgs) -> anyhow::Result<ExitCode> {
    let interrupt = interrupt_on_signals();
    let home = args.directory.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = Scratch::new(&home, "self-test", ByteCount(SIZE.0 * 3))?;
    let mut checks = Checks { done: Vec::new(), json: args.output.json, interrupt: &interrupt };

    checks.run("program", host::program)?;
    checks.run("state", || host::state(&args.state))?;
    checks.run("clock", || host::clock(scratch.path()))?;
    checks.run("files", || storage::features(scratch.path()))?;
    #[cfg(feature = "servers")]
    checks.run("checksums", servers::known_answers)?;
    let copying = copying::Copying::begin(scratch.path(), SIZE, &interrupt)?;
    checks.run("copy", || copying.copy())?;
    checks.run("resume", || copying.resume())?;
    checks.run("verify", || copying.find_changed_byte())?;
    checks.run("trust", || copying.refuse_strangers())?;
    drop(copying);
    #[cfg(feature = "servers")]
    checks.run("certificates", servers::certificates)?;
    #[cfg(feature = "ssh")]
    checks.run("ssh", host::ssh)?;

    let works = checks.done.iter().all(|check| check.status != Status::Failed);
    if args.output.json {
        let version = env!("CARGO_PKG_VERSION");
        let all = serde_json::json!({ "version": version, "works": works, "checks": checks.done });
        terminal::print_json(&all)?;
    } else {
        let warnings = checks.done.iter().filter(|check| check.status == Status::Warning).count();
        terminal::print(match (works, warnings) {
            (true, 0) => "this installation works",
            (true, _) => "this installation works, but for what the warnings say",
            (false, _) => "this installation does not work: see what failed",
        })?;
    }
    Ok(if works { ExitCode::SUCCESS } else { ExitCode::from(SOME_FAILED) })
}
