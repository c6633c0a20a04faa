//! The last step: what is complete becomes durable, is recorded, and gets its name, in groups so that
//! small files share the cost; what is verified of unfinished files is recorded about once a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::catalogue::{Catalogue, Verified};
use crate::error::{Error, ErrorKind, Result};
use crate::fence::Permit;
use crate::hash::{Digest, SomeBlocks};
use crate::journal::Journal;
use crate::manifest::{Entry, FileId};
use crate::offer::Outcome;
use crate::pipeline::incoming::Incoming;
use crate::quota::Quota;
use crate::store::naming::{Durable, Replaced, Unnamed, give_names};
use crate::store::split_part::SplitPart;
use crate::store::{Sink, SinkFile};
use crate::sys::clock::Instant;
use crate::sys::sync::Mutex;
use crate::sys::sync::mpsc::{Receiver, RecvTimeoutError};
use crate::sys::thread;

/// Most files that get their names together.
pub(crate) const GROUP: usize = 256;

/// Most files made durable at the same time, and how long a group takes before it is worth threads.
const SYNCERS: usize = 16;
const WORTH_THREADS: Duration = Duration::from_millis(1);

/// How often what is verified of unfinished files is made durable and recorded.
pub(crate) const CHECKPOINT: Duration = Duration::from_secs(1);

/// A complete, verified file.
pub(crate) struct Complete {
    /// Its number.
    pub id: FileId,
    /// What it is.
    pub entry: Arc<Entry>,
    /// Its unfinished file, sealed.
    pub part: Arc<dyn SinkFile>,
    /// Its root hash; zeros if none was computed.
    pub root: Digest,
    /// What of it was moved here, if others moved the rest.
    pub split: Option<CompletePortion>,
}

/// All that this transfer moves of a file that several do.
pub(crate) struct CompletePortion {
    /// The unfinished file.
    pub part: Arc<SplitPart>,
    /// Verified segments that are not recorded yet.
    pub segments: Vec<(u64, Digest)>,
    /// Whether everything is there by now, and the file is to get its name.
    pub completes: bool,
}

impl Complete {
    /// Says what is durable of a file that others move, too.
    fn record(&self) -> Result<()> {
        self.split.as_ref().map_or(Ok(()), |split| split.part.record(&split.segments))
    }

    fn gets_its_name(&self) -> bool {
        self.split.as_ref().is_none_or(|split| split.completes)
    }
}

/// Verified segments of a file that is not complete.
pub struct Progress<F> {
    /// The file; what is verified of one that has ended is not recorded.
    pub file: Arc<F>,
    /// Its unfinished file.
    pub part: Arc<dyn SinkFile>,
    /// What was verified since the last time.
    pub segments: Vec<(u64, Digest)>,
    /// What is there of others, if the file is left so.
    pub blocks: Vec<SomeBlocks>,
}

/// Where the committer puts things.
#[derive(Clone)]
pub(crate) struct Committer {
    /// Names and directories.
    pub sink: Arc<dyn Sink>,
    /// What is safe; none for memory.
    pub journal: Option<Arc<Mutex<Journal>>>,
    /// What is verified for ever; none if another process holds it.
    pub catalogue: Option<Arc<Mutex<Catalogue>>>,
    /// What there has to be before a file gets its name.
    pub permit: Option<Arc<Permit>>,
    /// How many threads may help.
    pub threads: Arc<Quota>,
    /// Whether it was said that the journal cannot be written.
    pub warned: Arc<AtomicBool>,
}

impl Committer {
    /// It may fail again and again, and is said once.
    fn warn_of_journal(&self, error: &Error) {
        if !self.warned.swap(true, Relaxed) {
            tracing::warn!("what was received may be sent again after a crash: {error}");
        }
    }
}

/// Commits what arrives on `complete` until the other side hangs up. `progress` is asked for what to
/// record; `ended` is told how the files of a group ended, or why no more may get their names.
pub(crate) fn commit_all<F: AsRef<Incoming>>(
    committer: &Committer,
    complete: &Receiver<Complete>,
    progress: impl Fn() -> Vec<Progress<F>>,
    ended: impl Fn(Result<Vec<(FileId, Outcome)>>),
) {
    let mut checkpoint = Instant::now() + CHECKPOINT;
    loop {
        match complete.recv_timeout(checkpoint.saturating_duration_since(Instant::now())) {
            Ok(first) => {
                let group: Vec<Complete> =
                    std::iter::once(first).chain(complete.try_iter().take(GROUP - 1)).collect();
                ended(commit(committer, group));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                record(committer, progress());
                return;
            }
        }
        if Instant::now() >= checkpoint {
            record(committer, progress());
            checkpoint = Instant::now() + CHECKPOINT;
        }
    }
}

fn commit(committer: &Committer, group: Vec<Complete>) -> Result<Vec<(FileId, Outcome)>> {
    let outcomes = commit_each(committer, group)?;
    let is_failure = |(_, outcome): &(FileId, Outcome)| matches!(outcome, Outcome::Failed(_));
    match outcomes.iter().any(is_failure).then(|| committer.sink.moved()).flatten() {
        Some(moved) => Err(moved),
        None => Ok(outcomes),
    }
}

fn commit_each(committer: &Committer, group: Vec<Complete>) -> Result<Vec<(FileId, Outcome)>> {
    let mut outcomes = Vec::with_capacity(group.len());
    let mut lose = |file: &Complete, error: Error| {
        if error.kind != ErrorKind::NoSpace {
            discard(committer, &file.entry);
        }
        outcomes.push((file.id, Outcome::Failed(error)));
    };
    let results = sync_all(&group, &committer.threads);
    let synced: Vec<(Complete, Durable)> = group
        .into_iter()
        .zip(results)
        .filter_map(|(file, result)| {
            let durable = result.and_then(|durable| file.record().map(|()| durable));
            durable.map_err(|error| lose(&file, error)).ok().map(|durable| (file, durable))
        })
        .collect();
    let (synced, ranges): (Vec<_>, Vec<_>) =
        synced.into_iter().partition(|(file, _)| Complete::gets_its_name(file));
    let ranges: Vec<_> = ranges.into_iter().map(|(file, _)| (file.id, Outcome::Committed)).collect();
    if synced.is_empty() {
        outcomes.extend(ranges);
        return Ok(outcomes);
    }
    if let Some(journal) = &committer.journal {
        let mut journal = journal.lock();
        let ready = synced.iter().map(|(file, _)| (&*file.entry, file.root));
        if let Err(error) = journal.ready(ready).and_then(|()| journal.sync()) {
            // The files are whole; only a crash before their renaming would send them again.
            committer.warn_of_journal(&error);
        }
    }
    // As late as can be: from here to the last rename it must hold.
    committer.permit.as_ref().map_or(Ok(()), |permit| permit.obtain())?;
    let (files, durable): (Vec<_>, Vec<_>) = synced.into_iter().unzip();
    let named = durable.into_iter().zip(&files).map(|(durable, file)| Unnamed {
        entry: &file.entry,
        split: file.split.as_ref().map(|split| &*split.part),
        replaced: Replaced::File,
        durable,
    });
    let named = give_names(&*committer.sink, &named.collect::<Vec<_>>(), ());
    let named: Vec<Complete> = files
        .into_iter()
        .zip(named)
        .filter_map(|(file, named)| match named {
            Ok(_) => Some(file),
            Err(error) => {
                lose(&file, error);
                None
            }
        })
        .collect();
    if let Some(catalogue) = &committer.catalogue {
        let verified = named.iter().map(|file| {
            let verified = Verified { size: file.entry.size(), mtime: file.entry.mtime, root: file.root };
            (committer.sink.place(&file.entry).as_bytes(), verified)
        });
        if let Err(error) = catalogue.lock().put(verified) {
            tracing::warn!("cannot remember what is verified: {error}");
        }
    }
    named.iter().filter_map(|file| file.split.as_ref()).for_each(|split| split.part.remove());
    outcomes.extend(ranges);
    outcomes.extend(named.into_iter().map(|file| (file.id, Outcome::Committed)));
    Ok(outcomes)
}

/// Removes an unfinished file. The journal is told before: what it calls complete, the next run would take for renamed.
fn discard(committer: &Committer, entry: &Entry) {
    let forgotten = match &committer.journal {
        Some(journal) => journal.lock().anew(std::iter::once(entry)),
        None => Ok(()),
    };
    match forgotten {
        Ok(()) => committer.sink.discard(entry),
        Err(error) => committer.warn_of_journal(&error),
    }
}

/// Makes files durable, several at a time unless it is quick: a file system that is asked for many at once writes its own
/// journal once for all of them, and one in memory is done sooner than a thread has started.
fn sync_all(group: &[Complete], threads: &Arc<Quota>) -> Vec<Result<Durable>> {
    let sync = |file: &Complete| Durable::make(&*file.part);
    let began = Instant::now();
    let mut results = Vec::with_capacity(group.len());
    results.extend(group.iter().take_while(|_| began.elapsed() < WORTH_THREADS).map(sync));
    let rest = &group[results.len()..];
    thread::scope(|scope| {
        let mut shares = rest.chunks(rest.len().div_ceil(SYNCERS).max(1));
        let first = shares.next().unwrap_or_default();
        let others: Vec<_> = shares
            .map(|files| {
                let work = threads.take(1).and_then(|held| {
                    spawn(scope, move || {
                        let _held = held;
                        files.iter().map(sync).collect::<Vec<_>>()
                    })
                });
                (files, work)
            })
            .collect();
        results.extend(first.iter().map(sync));
        for (files, other) in others {
            let joined = other.and_then(|other| other.join().ok());
            // Whatever no thread could be had for is done here.
            results.extend(joined.unwrap_or_else(|| files.iter().map(sync).collect()));
        }
        results
    })
}

fn spawn<'s, T: Send + 's>(
    scope: &'s thread::Scope<'s, '_>,
    work: impl FnOnce() -> T + Send + 's,
) -> Option<thread::ScopedJoinHandle<'s, T>> {
    thread::Builder::new().name("sync".to_owned()).spawn_scoped(scope, work).ok()
}

/// Makes verified segments durable, then says so in the journal.
pub fn record<F: AsRef<Incoming>>(committer: &Committer, progress: Vec<Progress<F>>) {
    let durable = progress
        .into_iter()
        .filter(|file| file.part.sync().inspect_err(|error| tracing::warn!("{error}")).is_ok());
    let (split, durable): (Vec<_>, Vec<_>) =
        durable.partition(|progress| F::as_ref(&progress.file).portion().is_some());
    for progress in &split {
        let portion = F::as_ref(&progress.file).portion();
        let recorded = portion.map_or(Ok(()), |portion| portion.part.record(&progress.segments));
        if let Err(error) = recorded {
            tracing::warn!("what is durable of a split file cannot be recorded: {error}");
        }
    }
    let Some(journal) = &committer.journal else { return };
    let mut journal = journal.lock();
    // Looked at while the journal is ours: whoever begins a file anew ends it first, then says so there.
    let alive = durable.iter().filter(|progress| !F::as_ref(&progress.file).has_ended());
    let alive: Vec<_> = alive.map(|progress| (F::as_ref(&progress.file).recorded(), progress)).collect();
    let named = if alive.is_empty() { Ok(()) } else { committer.sink.settle_work() };
    let segments = alive.iter().map(|(entry, progress)| (&**entry, progress.segments.clone()));
    let blocks = alive.iter().map(|(entry, progress)| (&**entry, progress.blocks.clone()));
    let recorded = named.and_then(|()| journal.segments(segments)).and_then(|()| journal.blocks(blocks));
    if let Err(error) = recorded.and_then(|()| journal.sync()) {
        committer.warn_of_journal(&error);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use tidegate_control::Rng;

    use super::*;
    use crate::hash::block_digest;
    use crate::manifest::{Kind, Timestamp};
    use crate::path::RelPath;
    use crate::store::apart::Apart;
    use crate::store::file_sink::FileSink;
    use crate::sys::clock::manual;
    use crate::sys::confined::{Root, scratch};
    use crate::sys::fs::faulty::{self, Call, Disk};
    use crate::sys::sync::{Condvar, MutexGuard, mpsc};
    use crate::terms::Purpose;
    use crate::terms::Verify;

    const NAMES: [&str; 3] = ["a", "b", "c"];

    /// Files are recorded in pieces of this size, as if they were segments.
    const PIECE: usize = 40;
    const PIECES: u64 = 3;

    fn content(name: &str, version: u8) -> Vec<u8> {
        let mut bytes = vec![0; PIECE * PIECES as usize];
        blake3::Hasher::new_derive_key(name).update(&[version]).finalize_xof().fill(&mut bytes);
        bytes
    }

    /// One run of a transfer, on a thread of its own: the test's.
    struct Run {
        sink: Arc<FileSink>,
        committer: Committer,
    }

    impl Run {
        fn begin(root: &Root) -> Self {
            let sink = Arc::new(
                FileSink::new((root, b""), false, &[1; 16], Purpose::Copy, Apart::default()).expect("a sink"),
            );
            let work = sink.work().expect("it writes");
            let journal = Journal::open_for_test(work, &Quota::unlimited());
            let journal = Some(Arc::new(Mutex::new(journal)));
            let committer = Committer {
                sink: sink.clone(),
                journal,
                catalogue: None,
                permit: None,
                threads: Quota::new(0),
                warned: Arc::default(),
            };
            Self { sink, committer }
        }

        fn journal(&self) -> MutexGuard<'_, Journal> {
            self.committer.journal.as_ref().expect("one").lock()
        }

        fn expect(&self, id: FileId, resumed: bool) -> Arc<Incoming> {
            let path = RelPath::new(NAMES[id as usize]).expect("a name");
            let kind = Kind::File { size: PIECE as u64 * PIECES, fingerprint: [2; 16] };
            let entry = Entry::new(path, kind, 0o644, Timestamp::default());
            // Of pieces it knows nothing.
            let left = resumed.then(HashMap::new);
            Arc::new(Incoming::new(id, entry, Verify::Block, left, &Quota::unlimited()).expect("room"))
        }

        fn write(&self, file: &Incoming, piece: u64) -> Result<()> {
            let at = piece as usize * PIECE;
            let bytes = &content(NAMES[file.id as usize], 2)[at..at + PIECE];
            file.part(&*self.sink, None)?.write_at(at as u64, bytes)
        }

        fn record(&self, file: &Arc<Incoming>, piece: u64) {
            let part = file.part(&*self.sink, None).expect("open");
            let segments = vec![(piece, [piece as u8; 32])];
            record(
                &self.committer,
                vec![Progress { file: Arc::clone(file), part, segments, blocks: Vec::new() }],
            );
        }

        /// Hands in files that are written; answers with those that have their names, and the others.
        fn commit(&self, files: &[&Arc<Incoming>]) -> (Vec<FileId>, Vec<FileId>) {
            let (complete, completed) = mpsc::channel();
            for file in files {
                let part = file.part(&*self.sink, None).expect("open");
                part.seal(&file.entry).expect("sealed");
                let whole = content(NAMES[file.id as usize], 2);
                let root = block_digest(&whole, 0, file.size);
                let (id, entry) = (file.id, Arc::clone(&file.entry));
                complete.send(Complete { id, entry, part, root, split: None }).expect("listened to");
            }
            drop(complete);
            let ended = Mutex::new((Vec::new(), Vec::new()));
            let nothing = Vec::<Progress<Incoming>>::new;
            commit_all(&self.committer, &completed, nothing, |outcomes| {
                let mut ended = ended.lock();
                for (id, outcome) in outcomes.expect("nobody is asked") {
                    match outcome {
                        Outcome::Committed => ended.0.push(id),
                        Outcome::Failed(_) => ended.1.push(id),
                    }
                }
            });
            ended.into_inner()
        }
    }

    /// A directory in which files of these names lie in another version.
    fn destination() -> (tempfile::TempDir, Root) {
        let (directory, root) = scratch();
        for name in NAMES {
            std::fs::write(directory.path().join(name), content(name, 1)).expect("written");
        }
        (directory, root)
    }

    /// Which version a file has; none if it is neither the old nor the new one.
    fn version(directory: &tempfile::TempDir, name: &str) -> Option<u8> {
        let there = std::fs::read(directory.path().join(name)).expect("there");
        [1, 2].into_iter().find(|&version| there == content(name, version))
    }

    fn versions(directory: &tempfile::TempDir) -> [Option<u8>; 3] {
        NAMES.map(|name| version(directory, name))
    }

    /// A run that has written its files on a disk that can fail, and committed none.
    struct Begun {
        directory: tempfile::TempDir,
        root: Root,
        disk: Disk,
        run: Run,
        files: Vec<Arc<Incoming>>,
    }

    impl Begun {
        fn new() -> Self {
            let (directory, root) = destination();
            let disk = faulty::disk();
            let run = Run::begin(&root);
            let files: Vec<_> = (0..3).map(|id| run.expect(id, false)).collect();
            for (file, piece) in files.iter().flat_map(|file| (0..PIECES).map(move |piece| (file, piece))) {
                run.write(file, piece).expect("written");
            }
            Self { directory, root, disk, run, files }
        }
    }

    #[test]
    fn a_step_is_durable_before_the_next_one_begins() {
        let Begun { directory, disk, run, files, .. } = Begun::new();
        let (called, calls) = mpsc::channel();
        disk.set_faults(move |call, name| {
            let name = if name.len() == 32 { "part" } else { name };
            called.send(format!("{call:?} {name}")).is_err()
        });
        assert_eq!(run.commit(&[&files[0]]), (vec![0], vec![]));
        let place = directory.path().file_name().expect("a name").to_string_lossy().into_owned();
        let synced = ["Sync part", "Write journal", "Sync journal", "Write journal"];
        let named = ["Rename a".to_owned(), format!("Sync {place}")];
        let mut calls = calls.try_iter();
        assert!(synced.map(str::to_owned).into_iter().chain(named).eq(calls.by_ref().take(6)));
        // What contains it may be as young.
        assert!(calls.all(|call| call.starts_with("Sync ")));
    }

    #[test]
    fn a_journal_that_cannot_be_written_costs_no_file() {
        let journal = |call| move |called: Call, name: &str| called == call && name == "journal";
        let faults: [&dyn Fn(&Disk); 4] = [
            &|disk| disk.set_room(Some(0)),
            &|disk| disk.set_room(Some(50)),
            &|disk| disk.set_faults(journal(Call::Write)),
            &|disk| disk.set_faults(journal(Call::Sync)),
        ];
        for (number, fault) in faults.iter().enumerate() {
            let Begun { directory, root, disk, run, files } = Begun::new();
            run.record(&files[2], 1);
            fault(&disk);
            assert_eq!(run.commit(&[&files[0], &files[1]]), (vec![0, 1], vec![]), "fault {number}");
            // What is verified of the third is not recorded: it is not lost, but comes again.
            run.record(&files[2], 0);
            drop(run);
            disk.heal();
            disk.set_room(None);
            disk.crash(|_| 0);
            assert_eq!(versions(&directory), [Some(2), Some(2), Some(1)], "fault {number}");
            let run = Run::begin(&root);
            let left = run.journal().take_left(&files[2].entry).expect("recorded before");
            assert_eq!(left.segments.into_keys().collect::<Vec<_>>(), [1], "fault {number}");
            // And the journal of the next run is as good as new.
            run.record(&files[2], 2);
            drop(run);
            disk.crash(|_| 0);
            let left = Run::begin(&root).journal().take_left(&files[2].entry).expect("recorded");
            assert_eq!(left.segments.len(), 2, "fault {number}");
        }
    }

    #[test]
    fn what_could_not_be_made_durable_once_gets_no_name_later() {
        let Begun { directory, root, disk, run, files } = Begun::new();
        disk.set_faults(|call, name| call == Call::Sync && name.len() == 32);
        run.record(&files[0], 0);
        disk.heal();
        assert_eq!(run.commit(&[&files[0], &files[1]]), (vec![1], vec![0]));
        assert_eq!(versions(&directory), [Some(1), Some(2), Some(1)]);
        drop(run);
        assert_eq!(Run::begin(&root).journal().take_left(&files[0].entry), None);
    }

    #[test]
    fn a_name_that_cannot_be_given_leaves_what_bears_it_and_is_not_taken_for_given() {
        let Begun { directory, root, disk, run, files } = Begun::new();
        disk.set_faults(|call, name| call == Call::Rename && name == "b");
        let files: Vec<_> = files.iter().collect();
        assert_eq!(run.commit(&files), (vec![0, 2], vec![1]));
        assert_eq!(versions(&directory), [Some(2), Some(1), Some(2)]);
        drop(run);
        // The next run must not see that it was complete and has no unfinished file, and conclude that it was renamed.
        let run = Run::begin(&root);
        assert_eq!(
            NAMES.map(|name| run.journal().has_left(&RelPath::new(name).expect("a name"))),
            [true, false, true]
        );
    }

    /// Receives what is missing of a file, as a receiver does, until something fails; `None` if it is not whole.
    fn receive(
        run: &Run,
        named: bool,
        id: FileId,
        draw: &mut dyn FnMut(usize) -> usize,
    ) -> Option<Arc<Incoming>> {
        let file = run.expect(id, true);
        let left = run.journal().take_left(&file.entry);
        let has_part = run.sink.has_part(&file.entry);
        let (file, there) = match left {
            Some(left) if left.root.is_some() && !has_part => {
                assert!(named, "what was complete and has no unfinished file is taken for renamed");
                return None;
            }
            Some(left) if has_part => {
                let recorded = |piece: &u64| left.root.is_some() || left.segments.contains_key(piece);
                (file, (0..PIECES).filter(recorded).collect())
            }
            Some(_) => {
                run.journal().anew([&*file.entry].into_iter()).ok()?;
                (run.expect(id, false), Vec::new())
            }
            None => (run.expect(id, false), Vec::new()),
        };
        let whole = content(NAMES[id as usize], 2);
        for piece in 0..PIECES {
            if there.contains(&piece) {
                let mut bytes = [0; PIECE];
                let at = piece as usize * PIECE;
                file.part(&*run.sink, None).ok()?.read_at(at as u64, &mut bytes).expect("read");
                assert_eq!(bytes, whole[at..at + PIECE], "what is recorded is there");
                continue;
            }
            run.write(&file, piece).ok()?;
            if draw(3) == 0 {
                run.record(&file, piece);
            }
            if draw(8) == 0 {
                return None;
            }
        }
        Some(file)
    }

    /// Runs of one transfer in which calls fail, each ended by a crash, and a last one without; `draw` chooses.
    fn runs(disk: &Disk, draw: &mut dyn FnMut(usize) -> usize) {
        let (directory, root) = destination();
        let mut safe = [false; 3];
        for _ in 0..5 {
            let run = Run::begin(&root);
            let mut whole = Vec::new();
            for id in 0..3 {
                let (mut luck, rate) = (Rng::new(draw(1 << 30) as u64), [0, 4, 8][draw(3)]);
                disk.set_faults(move |_, _| rate > 0 && luck.next_u64() % rate == 0);
                let named = version(&directory, NAMES[id as usize]) == Some(2);
                whole.extend(receive(&run, named, id, draw));
            }
            for id in run.commit(&whole.iter().collect::<Vec<_>>()).0 {
                safe[id as usize] = true;
            }
            disk.heal();
            drop((run, whole));
            disk.crash(&mut *draw);
            for (id, version) in versions(&directory).into_iter().enumerate() {
                assert!(version.is_some(), "a part of {} has its name", NAMES[id]);
                assert!(!safe[id] || version == Some(2), "{} was said to be done", NAMES[id]);
            }
        }
        let run = Run::begin(&root);
        let rest = |id| receive(&run, version(&directory, NAMES[id as usize]) == Some(2), id, &mut |_| 1);
        let whole: Vec<_> = (0..3).filter_map(rest).collect();
        assert!(run.commit(&whole.iter().collect::<Vec<_>>()).1.is_empty());
        assert_eq!(versions(&directory), [Some(2); 3]);
    }

    /// A whole file, and what making it durable is like.
    struct Whole<F>(F);

    impl<F: Fn() -> Result<()> + Send + Sync> SinkFile for Whole<F> {
        fn write_at(&self, _: u64, _: &[u8]) -> Result<()> {
            unreachable!("it is written")
        }

        fn zero_at(&self, _: u64, _: u64) -> Result<()> {
            unreachable!("it is written")
        }

        fn seal(&self, _: &Entry) -> Result<()> {
            unreachable!("it is sealed")
        }

        fn sync(&self) -> Result<()> {
            self.0()
        }
    }

    /// Has twenty files made durable, of which each is told its number.
    fn sync_twenty(sync: impl Fn(u32) -> Result<()> + Send + Sync + 'static) -> Vec<Result<Durable>> {
        let sync = Arc::new(sync);
        let kind = Kind::File { size: 0, fingerprint: [2; 16] };
        let path = RelPath::new("a").expect("a name");
        let entry = Arc::new(Entry::new(path, kind, 0o644, Timestamp::default()));
        let whole = |id| {
            let (sync, entry) = (Arc::clone(&sync), Arc::clone(&entry));
            Complete { id, entry, part: Arc::new(Whole(move || sync(id))), root: [0; 32], split: None }
        };
        sync_all(&(0..20).map(whole).collect::<Vec<_>>(), &Quota::new(SYNCERS))
    }

    #[test]
    fn a_slow_disk_is_asked_for_several_files_at_once_and_each_gets_its_own_answer() {
        let (under_way, changed) = (Mutex::new(0), Condvar::default());
        // From the second on, each is durable only once another one is under way too.
        let results = sync_twenty(move |number| {
            if number == 0 {
                thread::sleep(2 * WORTH_THREADS);
                return Ok(());
            }
            let mut there = under_way.lock();
            *there += 1;
            changed.notify_all();
            let (_there, waited) =
                changed.wait_timeout_while(there, Duration::from_secs(10), |there| *there < 2);
            match number {
                _ if waited.timed_out() => Err(Error::new(ErrorKind::Io, "it was alone")),
                7 => Err(Error::new(ErrorKind::NoSpace, "this one")),
                _ => Ok(()),
            }
        });
        let failed: Vec<_> = (0..20).filter(|&number| results[number].is_err()).collect();
        assert_eq!((results.len(), failed), (20, vec![7]));
    }

    #[test]
    fn where_files_are_durable_at_once_no_thread_is_begun_for_them() {
        let _clock = manual::stop();
        let by = Arc::<Mutex<HashSet<_>>>::default();
        let seen = Arc::clone(&by);
        let results = sync_twenty(move |_| {
            seen.lock().insert(std::thread::current().id());
            Ok(())
        });
        assert_eq!(*by.lock(), HashSet::from([std::thread::current().id()]));
        assert!(results.len() == 20 && results.iter().all(Result::is_ok));
    }

    #[test]
    fn whatever_fails_and_whenever_power_does_names_are_whole_and_the_next_run_goes_on() {
        faulty::each_seed(50, 1000, runs);
    }
}
