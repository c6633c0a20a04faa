//! One copy of many that hosts share: the names of some shards, from one source, under a lease.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tidegate_control::Epoch;
use tidegate_transfer::error::{ErrorKind, Result};
use tidegate_transfer::fence::Fence;
use tidegate_transfer::selection::Selection;
use tidegate_transfer::terms::{Compare, Terms};
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::transfer::route::Setup;
use tidegate_transfer::wire::tls::Identity;

use crate::caller::Caller;
use crate::drive::{Ended, Job, Work};
use crate::ends::Ends;
use crate::exit::usage;
use crate::route::RouteArgs;
use crate::run_memory::MemoryArgs;
use crate::settings::{LinkArgs, stall_timeout};
use crate::ssh::SshArgs;

/// Options of a copy that hosts share, as they stand in its job.
#[derive(Debug, Parser)]
#[command(name = "tidegate copy", no_binary_name = true)]
pub struct CopyOptions {
    #[arg(long)]
    checksum: bool,
    #[command(flatten)]
    links: LinkArgs,
    #[arg(long, default_value = "30s", value_parser = stall_timeout)]
    stall_timeout: Duration,
    #[command(flatten)]
    route: RouteArgs,
    #[command(flatten)]
    ssh: SshArgs,
    #[command(flatten)]
    memory: MemoryArgs,
}

/// What is copied, and for whom.
pub struct Shards<'a> {
    /// The source, as typed.
    pub source: &'a str,
    /// The destination, as typed.
    pub destination: &'a str,
    /// The names relative to the source; none of a source that is one file.
    pub names: Vec<Vec<u8>>,
    /// The lease.
    pub fence: Fence,
    /// Stops it.
    pub interrupt: Interrupt,
}

/// A file that holds how many network streams a mover may use, which its copies read each epoch.
pub struct Bound(PathBuf);

impl Bound {
    /// At `path`; nothing is written yet.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// That many from now on. Whole or not at all: it is read at any time.
    pub fn set(&self, streams: u16) -> std::io::Result<()> {
        let beside = self.0.with_extension("new");
        std::fs::write(&beside, format!("{streams}\n"))?;
        std::fs::rename(&beside, &self.0)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl CopyOptions {
    /// Reads them; `state` is where this host keeps its state.
    pub fn read(options: &[String], state: &std::path::Path) -> Result<Self> {
        let words = options.iter().map(OsString::from).chain(["--state".into(), state.into()]);
        Self::try_parse_from(words).map_err(|error| {
            let text = error.to_string();
            let reason = text.lines().next().unwrap_or_default();
            usage(format!("the job's options: {}", reason.strip_prefix("error: ").unwrap_or(reason)))
        })
    }

    /// Has copies use no more network streams than `bound` says.
    pub fn keep_within(&mut self, bound: &Bound) {
        self.route.control.bounds = Some(bound.0.clone());
    }

    /// Has copies fail when a connection is lost, for whoever has another endpoint to go to.
    pub fn fail_early(&mut self) {
        self.route.transfer.retry_for = Duration::ZERO;
    }

    /// Has what is there already compared by its content, where nothing tells who verified it.
    pub fn compare_content(&mut self) {
        self.checksum = true;
    }

    /// Who we are to endpoints that ask for a certificate.
    pub fn pki(&self) -> Result<Option<Arc<Identity>>> {
        self.route.trust.pki()
    }

    /// The rule that decides.
    pub fn optimizer(&self) -> &str {
        &self.route.control.optimizer
    }

    /// What both ends of a copy agree on.
    pub fn terms(&self) -> Terms {
        let mut terms = self.route.terms();
        terms.links = self.links.links.into();
        if self.checksum {
            terms.compare = Compare::Checksum;
        }
        terms
    }

    /// Work between two places, set up by `change`, and what it is called.
    pub fn work(
        &self,
        (source, destination): (&str, &str),
        mut terms: Terms,
        interrupt: Interrupt,
        change: impl FnOnce(&mut Setup),
    ) -> anyhow::Result<(Ends, Work<'static>)> {
        let typed = [OsString::from(source)];
        let ends =
            Ends::between(&typed, OsStr::from_bytes(destination.as_bytes()), &mut terms, &self.route.trust)?;
        let mut setup = self.route.setup(terms, self.route.pace()?, interrupt)?;
        setup.stall = self.stall_timeout;
        change(&mut setup);
        let work = ends.work(&self.ssh, setup, self.route.transfer.retry_for);
        Ok((ends, work))
    }

    /// Copies what `selection` leaves, without a lease.
    pub fn copy(
        &self,
        ends: (&str, &str),
        selection: Selection,
        interrupt: Interrupt,
    ) -> anyhow::Result<Ended> {
        let (ends, work) = self.work(ends, self.terms(), interrupt, |setup| setup.selection = selection)?;
        self.run(&ends, work, |_| {})
    }

    /// Copies shards, and shows each epoch.
    pub fn copy_shards(&self, shards: Shards<'_>, show: impl FnMut(&Epoch)) -> anyhow::Result<Ended> {
        let Shards { source, destination, names, fence, interrupt } = shards;
        let (ends, work) = self.work((source, destination), self.terms(), interrupt, |setup| {
            setup.selection.listed = !names.is_empty();
            setup.selection.names = names;
            setup.fence = Some(fence);
        })?;
        self.run(&ends, work, show)
    }

    fn run(&self, ends: &Ends, work: Work<'static>, show: impl FnMut(&Epoch)) -> anyhow::Result<Ended> {
        let control = &self.route.control;
        let state: PathBuf = self.route.trust.state_dir()?;
        let memory = self.memory.of(ends.key(&self.terms(), control), control, &state);
        let (caller, title) = (Caller::Terminal, ends.title.clone());
        let job = Job { work, caller, control, title, json: true, quiet: true, epochs: None, state, memory };
        Ok(job.run_and_show(show)?)
    }
}

/// What names of a source begin with at the destination: its own, unless its content is meant.
pub fn placed_beneath(source: &str) -> &str {
    if source.ends_with('/') { "" } else { source.rsplit(['/', ':']).next().unwrap_or(source) }
}

/// The name of a kind of failure, as it is said to a service.
pub fn kind_name(kind: ErrorKind) -> String {
    serde_json::to_value(kind).ok().and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default()
}
