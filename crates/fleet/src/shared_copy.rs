//! One copy of many that hosts share: the names of some shards, from one source, under a lease.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidegate_control::Epoch;
use tidegate_run::audience::Nobody;
use tidegate_run::drive::{Ended, Job, Work};
use tidegate_run::ends::Ends;
use tidegate_run::route::setup;
use tidegate_run::run_memory::MemoryArgs;
use tidegate_run::settings::{TrustArgs, optimizer, pace};
use tidegate_run::ssh::SshArgs;
use tidegate_spec::control::{Control, ControlLocal};
use tidegate_spec::copy::CopySpec;
use tidegate_spec::deletion::DeletionSpec;
use tidegate_spec::filters::FilterSpec;
use tidegate_spec::options::Options;
use tidegate_spec::plane::Patience;
use tidegate_transfer::error::{ErrorKind, Result, usage};
use tidegate_transfer::fence::Fence;
use tidegate_transfer::selection::Selection;
use tidegate_transfer::spec::RunId;
use tidegate_transfer::split::{Split, SplitTask};
use tidegate_transfer::sys::whole_file::WholeFile;
use tidegate_transfer::terms::Terms;
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::transfer::route::Setup;
use tidegate_transfer::wire::tls::Identity;

use crate::shards::{Extent, ShardContent};

/// A copy that hosts share, as its job says, on this host.
#[derive(Debug)]
pub struct SharedCopy {
    spec: CopySpec,
    control: Control,
    retry_for: Duration,
    trust: TrustArgs,
    ssh: SshArgs,
    memory: MemoryArgs,
}

/// What is copied, and for whom.
pub(crate) struct Shards<'a> {
    /// The source, as typed.
    pub source: &'a str,
    /// The destination, as typed.
    pub destination: &'a str,
    /// What is theirs of it.
    pub content: &'a [(u64, ShardContent)],
    /// Names the run, for files that several hosts move.
    pub run: RunId,
    /// The lease.
    pub fence: Fence,
    /// Stops it.
    pub interrupt: Interrupt,
}

/// A file that holds how many network streams a mover may use, which its copies read each epoch.
pub(crate) struct Bound(PathBuf);

impl Bound {
    /// At `path`; nothing is written yet.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// That many from now on. Whole or not at all: it is read at any time.
    pub fn set(&self, streams: u16) -> std::io::Result<()> {
        let mut file = WholeFile::begin(&self.0, 0o666)?;
        writeln!(file, "{streams}")?;
        file.show()
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl SharedCopy {
    /// What the options say; `state` is where this host keeps its state.
    pub fn of(options: &Options, state: &Path) -> Result<Self> {
        let wrong = |why: String| usage(format!("the job's options: {why}"));
        let spec: CopySpec = options.read().map_err(wrong)?;
        spec.check(false).map_err(wrong)?;
        if spec.filters != FilterSpec::default() || spec.deletion != DeletionSpec::default() {
            return Err(wrong(
                "what is copied `tidegate spread` is told itself, and it deletes nothing".to_owned(),
            ));
        }
        Ok(Self {
            control: Control { spec: spec.control.clone(), local: ControlLocal::default() },
            spec,
            retry_for: Patience::default().retry_for,
            trust: TrustArgs::kept_in(state),
            ssh: SshArgs::default(),
            memory: MemoryArgs::default(),
        })
    }

    /// Has copies use no more network streams than `bound` says.
    pub(crate) fn keep_within(&mut self, bound: &Bound) {
        self.control.local.bounds = Some(bound.0.clone());
        // Other hosts move over the path as well: nothing that it shows is its own.
        self.memory = MemoryArgs::OFF;
    }

    /// Has copies fail when a connection is lost, for whoever has another endpoint to go to.
    pub fn fail_early(&mut self) {
        self.retry_for = Duration::ZERO;
    }

    /// Has what is there already compared by its content, where nothing tells who verified it.
    pub(crate) fn compare_content(&mut self) {
        self.spec.checksum = true;
    }

    /// Who we are to endpoints that ask for a certificate.
    pub fn pki(&self) -> Result<Option<Arc<Identity>>> {
        self.trust.pki()
    }

    /// The rule that decides.
    pub fn optimizer(&self) -> &str {
        &self.spec.control.optimizer
    }

    /// What both ends of a copy agree on.
    pub(crate) fn terms(&self) -> Terms {
        self.spec.terms(self.control.local.max_workers)
    }

    /// Work between two places, set up by `change`, and what it is called.
    pub(crate) fn work(
        &self,
        (source, destination): (&str, &str),
        mut terms: Terms,
        interrupt: Interrupt,
        change: impl FnOnce(&mut Setup),
    ) -> Result<(Ends, Work<'static>)> {
        let typed = [OsString::from(source)];
        let ends = Ends::between(&typed, OsStr::from_bytes(destination.as_bytes()), &mut terms, &self.trust)?;
        let pace = pace(&self.control, optimizer(&self.control)?.as_ref());
        let mut setup = setup(&self.trust, terms, pace, interrupt)?;
        setup.stall = self.spec.stalls.stall_timeout;
        change(&mut setup);
        let work = ends.work(&self.ssh, setup, self.retry_for);
        Ok((ends, work))
    }

    /// Copies what `selection` leaves, without a lease.
    pub(crate) fn copy(
        &self,
        ends: (&str, &str),
        selection: Selection,
        interrupt: Interrupt,
    ) -> Result<Ended> {
        let (ends, work) = self.work(ends, self.terms(), interrupt, |setup| setup.selection = selection)?;
        self.run(&ends, work, |_| {})
    }

    /// Copies shards, and shows each epoch.
    pub(crate) fn copy_shards(&self, shards: Shards<'_>, show: impl FnMut(&Epoch)) -> Result<Ended> {
        let Shards { source, destination, content, run, fence, interrupt } = shards;
        let names: BTreeSet<&[u8]> = content.iter().flat_map(|(_, content)| content.names()).collect();
        let split = split(content, run, placed_beneath(source).as_bytes());
        let (ends, work) = self.work((source, destination), self.terms(), interrupt, |setup| {
            setup.selection.listed = !names.is_empty();
            setup.selection.names = names.into_iter().map(<[u8]>::to_vec).collect();
            setup.sharing.fence = Some(fence);
            setup.sharing.split = split;
        })?;
        self.run(&ends, work, show)
    }

    fn run(&self, ends: &Ends, work: Work<'static>, show: impl FnMut(&Epoch)) -> Result<Ended> {
        let control = &self.control;
        let state: PathBuf = self.trust.state_dir()?;
        let memory = self.memory.of(ends.key(&self.terms(), control), control, &state);
        let (audience, title) = (Box::new(Nobody), ends.title.clone());
        let job = Job { work, audience, control, title, epochs: None, state, memory };
        job.run_and_show(show)
    }
}

/// What shards of one source have to do of files that others move, too; `prefix` is what its names begin with.
fn split(shards: &[(u64, ShardContent)], run: RunId, prefix: &[u8]) -> Option<Split> {
    let mut ranges: BTreeMap<Vec<u8>, Vec<Range<u64>>> = BTreeMap::new();
    let mut completed = Vec::new();
    for (_, content) in shards {
        let path = match content.names().next() {
            None => prefix.to_vec(),
            Some(name) if prefix.is_empty() => name.to_vec(),
            Some(name) => [prefix, b"/", name].concat(),
        };
        match &content.extent {
            Extent::Whole => {}
            Extent::Range(range) => ranges.entry(path).or_default().push(range.clone()),
            Extent::Completion => completed.push((path, SplitTask::Completion)),
        }
    }
    let in_order = |(path, mut ranges): (Vec<u8>, Vec<Range<u64>>)| {
        ranges.sort_unstable_by_key(|range| range.start);
        (path, SplitTask::Ranges(ranges))
    };
    let files: Vec<_> = ranges.into_iter().map(in_order).chain(completed).collect();
    (!files.is_empty()).then_some(Split { run, files })
}

/// What names of a source begin with at the destination: its own, unless its content is meant.
pub(crate) fn placed_beneath(source: &str) -> &str {
    if source.ends_with('/') { "" } else { source.rsplit(['/', ':']).next().unwrap_or(source) }
}

/// The name of a kind of failure, as it is said to a service.
pub(crate) fn kind_name(kind: ErrorKind) -> String {
    serde_json::to_value(kind).ok().and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_one_file_are_one_task_by_its_path_at_the_destination() {
        let shard =
            |name: &[u8], extent| (1, ShardContent { names: name.to_vec(), extent, ..Default::default() });
        let range = |start: u64| Extent::Range(start << 22..(start + 1) << 22);
        let shards = [
            shard(b"d/a\0", range(3)),
            shard(b"b\0c\0", Extent::Whole),
            shard(b"d/a\0", range(1)),
            shard(b"e\0", Extent::Completion),
        ];
        let paths = |prefix: &[u8]| split(&shards, [1; 16], prefix).expect("split").files;
        let ranges = SplitTask::Ranges(vec![1 << 22..2 << 22, 3 << 22..4 << 22]);
        assert_eq!(paths(b""), [(b"d/a".to_vec(), ranges.clone()), (b"e".to_vec(), SplitTask::Completion)]);
        assert_eq!(paths(b"src")[0], (b"src/d/a".to_vec(), ranges));
        assert_eq!(split(&shards[1..2], [1; 16], b""), None);
        let alone = split(&[shard(b"", range(0))], [1; 16], b"file").expect("split");
        assert_eq!((alone.run, &alone.files[0].0[..]), ([1; 16], &b"file"[..]));
        alone.check().expect("in order");
    }
}
