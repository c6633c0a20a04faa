//! HTCondor's plug-in for transfers of several files: what `copy`, `get` and `put` do, for who starts jobs.
//!
//! HTCondor asks it what it can do (`-classad`), and then hands over a file of ads that each name a URL and a local file
//! (`-infile`), and a file for as many replies (`-outfile`). Its protocol is version 4, which extends version 2.

mod batch;
mod carrier;
mod replies;
mod request;
mod trouble;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, Result};
use tidegate_run::state_place;
use tidegate_spec::address::End;

use crate::exit::usage;
use crate::signals::interrupt_on_signals;
use crate::{exit, terminal};
use carrier::Carrier;
use replies::{Replies, Reply};

/// What the program is called when it is the plug-in.
pub const NAME: &str = "tidegate-condor-plugin";

const HELP: &str = "tidegate-condor-plugin -classad, or -infile FILE -outfile FILE [-upload]: \
HTCondor starts it (FILETRANSFER_PLUGINS, or transfer_plugins of a job); people use `tidegate`";

/// What HTCondor asks for.
struct Asked {
    requests: PathBuf,
    replies: PathBuf,
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

/// Whether it takes URLs of such an end.
const fn is_taken(end: End) -> bool {
    end.is_server() || matches!(end, End::Endpoint | End::Ssh)
}

/// The schemes of URLs that it takes.
fn methods() -> String {
    End::schemes(is_taken).collect::<Vec<_>>().join(",")
}

/// What it can do, an attribute a line.
fn description() -> String {
    let (version, methods) = (env!("CARGO_PKG_VERSION"), methods());
    format!(
        "MultipleFileSupport = true\nPluginType = \"FileTransfer\"\nPluginVersion = \"{version}\"\n\
         ProtocolVersion = 4\nSupportedMethods = \"{methods}\""
    )
}

/// Reads a command line, in whatever order.
fn asked(words: &[OsString]) -> Result<Asked> {
    let (mut requests, mut replies, mut upload) = (None, None, false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let file = match word.to_str() {
            Some("-infile") => &mut requests,
            Some("-outfile") => &mut replies,
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
    match (requests, replies) {
        (Some(requests), Some(replies)) => Ok(Asked { requests, replies, upload }),
        _ => Err(usage(format!("-infile and -outfile are needed: {HELP}")).into()),
    }
}

/// Moves what is asked for and replies; whether all of it is there.
fn run(asked: &Asked) -> Result<bool> {
    let path = &asked.requests;
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let requests = request::read(&text).map_err(|error| usage(format!("{}: {error}", path.display())))?;
    let mut replies = Replies::open(&asked.replies, &requests, asked.upload)
        .with_context(|| format!("cannot write {}", asked.replies.display()))?;
    let carrier = Carrier::new(state(asked), interrupt_on_signals());
    let (batches, refused) = batch::plan(requests, asked.upload);
    let mut complete = refused.is_empty();
    for (request, why) in refused {
        let now = SystemTime::now();
        replies.add(&request, &Reply { began: now, ended: now, moved: Err(why) })?;
    }
    for batch in batches {
        for (request, reply) in carrier.carry(&batch) {
            complete &= reply.moved.is_ok();
            replies.add(request, &reply)?;
        }
    }
    Ok(complete)
}

/// The state directory where nobody has said or can write one: jobs may run as users without a home.
fn state(asked: &Asked) -> Option<PathBuf> {
    if std::env::var_os("TIDEGATE_STATE").is_some() {
        return None;
    }
    let here = asked.replies.parent().unwrap_or_else(|| ".".as_ref());
    state_place::usable().is_err().then(|| here.join(".tidegate-state"))
}
