//! HTCondor's plug-in for transfers of several files: what `copy`, `get` and `put` do, for who starts jobs.
//!
//! HTCondor asks it what it can do (`-classad`), and then hands over a file of ads that each name a URL and a local file
//! (`-infile`), and a file for as many answers (`-outfile`). Its Protocol is version 4, which extends version 2.

mod batch;
mod report;
mod request;
mod trouble;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use tidegate_contract::error_kind::ErrorKind;
use tidegate_contract::summary::Summary;
use tidegate_transfer::transfer::Interrupt;

use crate::exit::usage;
use crate::run::Run;
use crate::signals::interrupt_on_signals;
use crate::{exit, terminal};
use batch::Batch;
use report::{Outcome, Report};
use request::Request;
use trouble::Trouble;

/// What the program is called when it is the plug-in.
pub const NAME: &str = "tidegate-condor-plugin";

/// The schemes of URLs that it takes.
const METHODS: &str = "tg,ssh,http,https,ftp,ftps,s3,gs";

const HELP: &str = "tidegate-condor-plugin -classad, or -infile FILE -outfile FILE [-upload]: \
HTCondor starts it (FILETRANSFER_PLUGINS, or transfer_plugins of a job); people use `tidegate`";

/// How often it is looked whether somebody wants it to end.
const INTERVAL: Duration = Duration::from_millis(100);

/// What HTCondor asks for.
struct Asked {
    requests: PathBuf,
    answers: PathBuf,
    upload: bool,
}

/// Runs the plug-in on its command line, without its name.
pub fn main(words: &[OsString]) -> ExitCode {
    if words == ["-classad"] {
        return match terminal::print(&description()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::from(exit::SOME_FAILED),
        };
    }
    match asked(words).and_then(|asked| run(&asked)) {
        Ok(true) => ExitCode::SUCCESS,
        // 2 would have HTCondor renew credentials.
        Ok(false) => ExitCode::from(exit::SOME_FAILED),
        Err(error) => {
            terminal::complain(&exit::in_one_line(&error));
            ExitCode::from(exit::SOME_FAILED)
        }
    }
}

/// What it can do, an attribute a line.
fn description() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "MultipleFileSupport = true\nPluginType = \"FileTransfer\"\nPluginVersion = \"{version}\"\n\
         ProtocolVersion = 4\nSupportedMethods = \"{METHODS}\""
    )
}

/// Reads a command line, in whatever order.
fn asked(words: &[OsString]) -> Result<Asked> {
    let (mut requests, mut answers, mut upload) = (None, None, false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let file = match word.to_str() {
            Some("-infile") => &mut requests,
            Some("-outfile") => &mut answers,
            Some("-upload") => {
                upload = true;
                continue;
            }
            _ => {
                let why = format!("'{}' means nothing here: {HELP}", word.to_string_lossy());
                return Err(usage(why).into());
            }
        };
        *file = Some(PathBuf::from(words.next().ok_or_else(|| usage(format!("a file is missing: {HELP}")))?));
    }
    match (requests, answers) {
        (Some(requests), Some(answers)) => Ok(Asked { requests, answers, upload }),
        _ => Err(usage(format!("-infile and -outfile are needed: {HELP}")).into()),
    }
}

/// Moves what is asked for and answers; whether all of it is there.
fn run(asked: &Asked) -> Result<bool> {
    let path = &asked.requests;
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let requests = request::read(&text).map_err(|error| usage(format!("{}: {error}", path.display())))?;
    let mut report = Report::open(&asked.answers, &requests, asked.upload)
        .with_context(|| format!("cannot write {}", asked.answers.display()))?;
    let carrier =
        Carrier { interrupt: interrupt_on_signals(), list: beside(&asked.answers), state: state(asked) };
    let (batches, refused) = batch::plan(requests, asked.upload);
    let mut complete = refused.is_empty();
    for (request, why) in refused {
        let now = SystemTime::now();
        report.add(&request, &Outcome { began: now, ended: now, moved: Err(why) })?;
    }
    for batch in batches {
        for (request, outcome) in carrier.carry(&batch) {
            complete &= outcome.moved.is_ok();
            report.add(request, &outcome)?;
        }
    }
    Ok(complete)
}

/// Where URLs are listed for `get`.
fn beside(answers: &std::path::Path) -> PathBuf {
    let mut name = answers.as_os_str().to_owned();
    name.push(".urls");
    PathBuf::from(name)
}

/// The state directory where nobody has said or can write one: jobs may run as users without a home.
fn state(asked: &Asked) -> Option<PathBuf> {
    if std::env::var_os("TIDEGATE_STATE").is_some() {
        return None;
    }
    let usual = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).or_else(|| {
        std::env::var_os("HOME")
            .filter(|home| !home.is_empty())
            .map(|home| PathBuf::from(home).join(".local/state"))
    });
    let is_usable = usual.is_some_and(|usual| std::fs::create_dir_all(usual.join("tidegate")).is_ok());
    let here = asked.answers.parent().unwrap_or_else(|| ".".as_ref());
    (!is_usable).then(|| here.join(".tidegate-state"))
}

/// Moves batches.
struct Carrier {
    interrupt: Interrupt,
    list: PathBuf,
    state: Option<PathBuf>,
}

impl Carrier {
    /// Moves a batch, at once, and what of it remains unclear one by one.
    fn carry<'a>(&self, batch: &'a Batch) -> Vec<(&'a Request, Outcome)> {
        let began = SystemTime::now();
        let ran = self.run(batch);
        let ended = SystemTime::now();
        let mut outcomes = Vec::new();
        for request in &batch.requests {
            let told = match &ran {
                Ok(summary) if summary.error.is_none() => {
                    batch.failure(summary, request).map(Trouble::of_file)
                }
                _ if batch.requests.len() > 1 => {
                    outcomes.extend(
                        self.carry(&batch.alone(request)).into_iter().map(|(_, outcome)| (request, outcome)),
                    );
                    continue;
                }
                Ok(summary) => Some(Trouble::of_end(summary)),
                Err(trouble) => Some(trouble.clone()),
            };
            let moved = match told {
                Some(trouble) => Err(trouble),
                None => batch.arrived(request, ran.as_ref().unwrap_or(&Summary::default())),
            };
            outcomes.push((request, Outcome { began, ended, moved }));
        }
        outcomes
    }

    /// Runs the command that moves a batch.
    fn run(&self, batch: &Batch) -> Result<Summary, Trouble> {
        if self.interrupt.is_raised() {
            return Err(Trouble::new(ErrorKind::Interrupted, "HTCondor has ended the transfer"));
        }
        let listed = batch.list().map(|text| std::fs::write(&self.list, text));
        if let Some(Err(error)) = listed {
            let kind =
                tidegate_transfer::error::Error::io("write", self.list.as_os_str().as_encoded_bytes(), error);
            return Err(Trouble::new(kind.kind, &kind.message));
        }
        let state = self.state.iter().flat_map(|state| [OsStr::new("--state"), state.as_os_str()]);
        let run = Run::start(batch.words(&self.list, state), || {});
        while !run.wait(INTERVAL) {
            if self.interrupt.is_raised() {
                run.interrupt();
            }
        }
        let _ = std::fs::remove_file(&self.list);
        let outcome = run.outcome();
        let (kind, why) = match outcome {
            Some(outcome) => match (outcome.refusal, outcome.results.last()) {
                (Some(refusal), _) => refusal,
                (None, Some(line)) => match serde_json::from_str(line) {
                    Ok(summary) => return Ok(summary),
                    Err(error) => (ErrorKind::Io, format!("the command's answer cannot be read: {error}")),
                },
                (None, None) => (ErrorKind::Io, run.messages().join("; ")),
            },
            None => (ErrorKind::Io, "the command did not end".to_owned()),
        };
        Err(Trouble::new(kind, &why))
    }
}
