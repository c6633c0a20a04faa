//! What was once verified where: lets a second run skip a file without reading it.
//!
//! A file counts as there if its size, its modification time and the source's modification time are
//! what they were when its root hash was verified. Kept in the state directory, never among the data.
//!
//! What is remembered goes to a log first, and from there into sorted tables (`levels`), which are looked up in place: what a
//! directory was sent in all its life costs a run neither time nor memory. Keys are paths in the order of a walk, so that
//! neighbours in a listing are neighbours in a table.

mod levels;
mod table;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::catalogue::levels::{Levels, TablePlace};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::manifest::Timestamp;
use crate::record_log::{LockedLog, RecordLog, Replay};
use crate::sys::clock::Instant;
use crate::sys::confined::Root;
use crate::sys::sync::Mutex;
use crate::sys::thread::{self, JoinHandle};
use crate::terms::Purpose;

/// How long a catalogue that nobody uses any more may take to be closed.
const CLOSING: Duration = Duration::from_secs(2);

/// How many records are in memory and in the log before they go into a table, and how many stay there at the end of a run: as
/// many as the next one reads in some milliseconds.
const RECENT: u64 = 32 << 10;
const LEFT_IN_LOG: u64 = 4 << 10;

/// What a catalogue remembers of a file.
pub trait Remembered: Clone + Serialize + for<'a> Deserialize<'a> + Send + Sync + 'static {
    /// What its log begins with.
    const MAGIC: &'static [u8; 8];

    /// The directory of such catalogues in the state directory.
    const DIRECTORY: &'static [u8];
}

/// What was seen when a file was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Its size in bytes.
    pub size: u64,
    /// The source's modification time, which the file was given.
    pub mtime: Timestamp,
    /// Its root hash; zeros if only block checksums were asked for.
    pub root: Digest,
}

impl Remembered for Verified {
    const MAGIC: &'static [u8; 8] = b"TGCATL02";
    const DIRECTORY: &'static [u8] = b"catalogue";
}

/// Everything verified in one destination directory.
#[derive(Debug)]
pub struct Catalogue<V: Remembered = Verified> {
    /// Where more is remembered; `None` of one that is only looked at.
    log: Option<RecordLog<(Vec<u8>, V)>>,
    /// How many records the log has.
    logged: u64,
    /// What they say.
    recent: BTreeMap<Vec<u8>, V>,
    levels: Levels<V>,
    merging: Option<Merging<V>>,
    /// With how many records in the log room is made.
    room_at: u64,
    /// The directory on this host that it is of.
    base: Option<Vec<u8>>,
    place: TablePlace,
}

/// What a thread of its own puts into a table.
#[derive(Debug)]
struct Merging<V> {
    recent: Arc<BTreeMap<Vec<u8>, V>>,
    thread: JoinHandle<Result<usize>>,
}

impl<V: Remembered> Catalogue<V> {
    fn read(locked: LockedLog, place: TablePlace, base: &[u8]) -> Result<Self> {
        let (log, recent, logged) = replayed(|show| locked.read(&place.directory, V::MAGIC, show))?;
        let levels = Levels::open(place.clone())?;
        // What servers have under a name cannot be looked for.
        let base = base.starts_with(b"/").then(|| base.to_vec());
        let room_at = place.first;
        Ok(Self { log: Some(log), logged, recent, levels, merging: None, room_at, base, place })
    }

    /// What is remembered by now, and nothing more.
    fn look_at(place: TablePlace) -> Result<Self> {
        let ((), recent, logged) =
            replayed(|show| RecordLog::read(&place.directory, &place.name, V::MAGIC, show))?;
        let levels = Levels::open(place.clone())?;
        let room_at = place.first;
        Ok(Self { log: None, logged, recent, levels, merging: None, room_at, base: None, place })
    }

    /// What is known of `path`.
    pub fn get(&mut self, path: &[u8]) -> Option<V> {
        let key = key_of(path);
        let merging = self.merging.as_ref().and_then(|merging| merging.recent.get(&key));
        self.recent.get(&key).or(merging).cloned().or_else(|| self.levels.get(&key))
    }

    /// What is known of each of `paths`.
    pub fn get_all<'p>(&mut self, paths: impl Iterator<Item = &'p [u8]>) -> Vec<Option<V>> {
        paths.map(|path| self.get(path)).collect()
    }

    /// Remembers verified files; `false` where nothing can be remembered.
    pub fn put<'p>(&mut self, files: impl Iterator<Item = (&'p [u8], V)>) -> Result<bool> {
        let Some(log) = &mut self.log else { return Ok(false) };
        let records: Vec<_> = files.map(|(path, verified)| (key_of(path), verified)).collect();
        log.append(&records)?;
        self.logged += records.len() as u64;
        self.recent.extend(records);
        if self.logged >= self.room_at {
            self.make_room();
        }
        Ok(true)
    }

    /// Sees to it that what is recent goes into a table.
    fn make_room(&mut self) {
        let is_over = self.merging.as_ref().is_some_and(|merging| merging.thread.is_finished());
        let must_be = self.logged >= 2 * self.room_at;
        if is_over || must_be {
            self.end_merge();
        }
        if self.merging.is_none() && self.logged >= self.room_at {
            self.begin_merge();
        }
    }

    fn begin_merge(&mut self) {
        let recent = Arc::new(std::mem::take(&mut self.recent));
        let merge = self.levels.merge(Arc::clone(&recent), self.base.as_deref());
        match thread::Builder::new().name("catalogue".to_owned()).spawn(move || merge.run()) {
            Ok(thread) => self.merging = Some(Merging { recent, thread }),
            Err(error) => {
                tracing::warn!("cannot make room in what is remembered: cannot start a thread: {error}");
                self.recent = Arc::unwrap_or_clone(recent);
            }
        }
    }

    fn end_merge(&mut self) {
        let Some(Merging { recent, thread }) = self.merging.take() else { return };
        let merged = thread.join().expect("a merge does not panic");
        self.room_at = self.place.first;
        if let Err(error) = merged.and_then(|level| self.take_in(level)) {
            tracing::warn!("cannot make room in what is remembered: {error}");
            // Tried again once there is as much more.
            self.room_at = 2 * self.logged;
            let newer = std::mem::replace(&mut self.recent, Arc::unwrap_or_clone(recent));
            self.recent.extend(newer);
        }
    }

    /// What was merged is in a table: the log needs only what came since.
    fn take_in(&mut self, level: usize) -> Result<()> {
        let Some(log) = &mut self.log else { return Ok(()) };
        log.check_lock()?;
        self.levels.take_in(level)?;
        let records: Vec<_> = self.recent.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        log.rewrite(&self.place.directory, V::MAGIC, &records)?;
        self.logged = records.len() as u64;
        Ok(())
    }
}

impl<V: Remembered> Drop for Catalogue<V> {
    fn drop(&mut self) {
        self.end_merge();
        if self.log.is_some() && self.logged > self.place.first.min(LEFT_IN_LOG) {
            self.begin_merge();
            self.end_merge();
        }
    }
}

/// The catalogues of a state directory, one a destination, shared by transfers of one process.
#[derive(Debug)]
pub struct Catalogues<V: Remembered = Verified> {
    directory: Option<Arc<Root>>,
    /// How many records of one are recent.
    recent: u64,
    open: Mutex<HashMap<Vec<u8>, Weak<Mutex<Catalogue<V>>>>>,
}

impl<V: Remembered> Catalogues<V> {
    /// The catalogues in `state`.
    pub fn new(state: &Root) -> Result<Self> {
        let directory =
            state.make_dir(V::DIRECTORY).map_err(|error| Error::io("create", V::DIRECTORY, error))?;
        Ok(Self { directory: Some(Arc::new(directory)), recent: RECENT, open: Mutex::default() })
    }

    /// No memory of the past.
    pub fn none() -> Self {
        Self { directory: None, recent: RECENT, open: Mutex::default() }
    }

    fn place(&self, base: &[u8]) -> Option<TablePlace> {
        let directory = Arc::clone(self.directory.as_ref()?);
        Some(TablePlace { directory, name: log_name(base), magic: V::MAGIC, first: self.recent })
    }

    /// The catalogue of the directory with absolute path `base`, as a transfer for `purpose` needs it.
    pub(crate) fn for_purpose(&self, purpose: Purpose, base: &[u8]) -> Option<Arc<Mutex<Catalogue<V>>>> {
        match purpose {
            Purpose::Copy | Purpose::Compare => self.of(base),
            Purpose::Plan => self.look_at(base),
        }
    }

    /// What is known by now of the directory with absolute path `base`; nothing is made.
    fn look_at(&self, base: &[u8]) -> Option<Arc<Mutex<Catalogue<V>>>> {
        let open = self.open.lock();
        if let Some(catalogue) = open.get(base).and_then(Weak::upgrade) {
            return Some(catalogue);
        }
        match Catalogue::look_at(self.place(base)?) {
            Ok(catalogue) => Some(Arc::new(Mutex::new(catalogue))),
            Err(error) => {
                tracing::warn!("what was verified is not known: {error}");
                None
            }
        }
    }

    /// The catalogue of the directory with absolute path `base`; `None` while another process holds it.
    pub fn of(&self, base: &[u8]) -> Option<Arc<Mutex<Catalogue<V>>>> {
        let mut open = self.open.lock();
        if let Some(catalogue) = open.get(base).and_then(Weak::upgrade) {
            return Some(catalogue);
        }
        let place = self.place(base)?;
        let mut locked = LockedLog::take(&place.directory, &place.name);
        // The last transfer that had it may be about to close it.
        let closing = open.contains_key(base).then(|| Instant::now() + CLOSING);
        while locked.as_ref().is_err_and(|error| error.kind == ErrorKind::Busy)
            && closing.is_some_and(|end| Instant::now() < end)
        {
            thread::sleep(Duration::from_millis(1));
            locked = LockedLog::take(&place.directory, &place.name);
        }
        match locked.and_then(|locked| Catalogue::read(locked, place, base)) {
            Ok(catalogue) => {
                let catalogue = Arc::new(Mutex::new(catalogue));
                open.insert(base.to_vec(), Arc::downgrade(&catalogue));
                Some(catalogue)
            }
            // As where several movers on one host share a destination: another of them remembers.
            Err(error) if error.kind == ErrorKind::Busy => {
                // It is another's by now, who is not waited for again.
                open.remove(base);
                tracing::info!("cannot remember what is verified: {error}");
                None
            }
            Err(error) => {
                tracing::warn!("cannot remember what is verified: {error}");
                None
            }
        }
    }
}

/// What the log says that `read` shows, and how many records it has.
fn replayed<V: Remembered, T>(
    read: impl FnOnce(&mut dyn FnMut(Replay<(Vec<u8>, V)>)) -> Result<T>,
) -> Result<(T, BTreeMap<Vec<u8>, V>, u64)> {
    let (mut recent, mut records) = (BTreeMap::new(), 0);
    let read = read(&mut |shown| match shown {
        Replay::Length(_) => {}
        Replay::Record((key, verified)) => {
            records += 1;
            recent.insert(key, verified);
        }
        Replay::Void => recent.clear(),
    })?;
    Ok((read, recent, records))
}

fn log_name(base: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&blake3::hash(base).as_bytes()[..16])
}

/// What stands for a path: in the order of bytes it comes where a walk does, which is in a directory before it is at what
/// stands beside that.
fn key_of(path: &[u8]) -> Vec<u8> {
    path.iter().map(|byte| if *byte == b'/' { 0 } else { *byte }).collect()
}

fn path_of(key: &[u8]) -> Vec<u8> {
    key.iter().map(|byte| if *byte == 0 { b'/' } else { *byte }).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use tidegate_control::Rng;

    use super::*;
    use crate::sys::fs::faulty::{self, Call};

    /// Catalogues in `state` that put records into tables soon.
    fn catalogues(state: &Path, recent: u64) -> Catalogues {
        let root = Root::open(state.as_os_str().as_bytes()).expect("opened");
        Catalogues { recent, ..Catalogues::new(&root).expect("made") }
    }

    fn opened(catalogues: &Catalogues, base: &[u8]) -> Arc<Mutex<Catalogue>> {
        // A process that another test starts has our lock for a moment.
        let until = Instant::now() + CLOSING;
        loop {
            match catalogues.of(base) {
                Some(catalogue) => return catalogue,
                None if Instant::now() < until => thread::sleep(Duration::from_millis(1)),
                None => panic!("nobody else has it"),
            }
        }
    }

    fn verified(size: u64) -> Verified {
        Verified { size, mtime: Timestamp::default(), root: [7; 32] }
    }

    fn put(catalogue: &Mutex<Catalogue>, files: &[(String, u64)]) {
        let files = files.iter().map(|(path, size)| (path.as_bytes(), verified(*size)));
        assert!(catalogue.lock().put(files).expect("put"));
    }

    /// Whether all of `known`, and nothing else, is known.
    fn check(catalogue: &Mutex<Catalogue>, known: &BTreeMap<String, u64>, unknown: &[&str]) {
        let mut catalogue = catalogue.lock();
        let found = catalogue.get_all(known.keys().map(String::as_bytes));
        let expected: Vec<_> = known.values().map(|size| Some(verified(*size))).collect();
        assert_eq!(found, expected);
        assert_eq!(catalogue.get_all(unknown.iter().map(|path| path.as_bytes())), vec![None; unknown.len()]);
    }

    #[test]
    fn a_catalogue_is_waited_for_while_it_is_closed_and_not_for_ever() {
        let state = tempfile::tempdir().expect("a directory");
        let root = || Root::open(state.path().as_os_str().as_bytes()).expect("opened");
        let ours = Catalogues::<Verified>::new(&root()).expect("made");
        let theirs = Catalogues::<Verified>::new(&root()).expect("made");
        drop(ours.of(b"/data").expect("nobody has it"));
        // It is closed when it has been read, too.
        let held = (0..CLOSING.as_millis()).find_map(|_| {
            thread::sleep(Duration::from_millis(1));
            theirs.of(b"/data")
        });
        let held = held.expect("nobody has it");
        let release = thread::spawn(move || {
            thread::sleep(Duration::from_millis(5));
            drop(held);
        });
        assert!(ours.of(b"/data").is_some(), "it is let go soon");
        release.join().expect("no panic");
        let _kept = theirs.of(b"/data").expect("nobody has it");
        assert!(ours.of(b"/data").is_none(), "somebody else keeps it");
        assert!(!ours.open.lock().contains_key(&b"/data"[..]), "and is not waited for again");
    }

    /// A path in one of some directories that resemble one another.
    fn path(rng: &mut Rng) -> String {
        let depth = rng.integer(1, 3);
        let part = |rng: &mut Rng| {
            format!("{}{}", ["a", "a.b", "run ", "é"][usize::from(rng.integer(0, 3))], rng.integer(0, 5))
        };
        (0..depth).map(|_| part(rng)).collect::<Vec<_>>().join("/")
    }

    #[test]
    fn what_was_remembered_last_is_known_through_merges_and_runs() {
        for seed in 0..9 {
            println!("seed {seed}");
            let (mut rng, state) = (Rng::new(seed), tempfile::tempdir().expect("a directory"));
            let catalogues = catalogues(state.path(), [2, 8, 32][seed as usize % 3]);
            let mut known = BTreeMap::new();
            for _ in 0..4 {
                let catalogue = opened(&catalogues, b"https://server/");
                for _ in 0..rng.integer(0, 12) {
                    let files: Vec<_> =
                        (0..rng.integer(1, 9)).map(|_| (path(&mut rng), rng.next_u64())).collect();
                    put(&catalogue, &files);
                    known.extend(files);
                }
                check(&catalogue, &known, &["", "/", "a", "zz", "a0/b"]);
                drop(catalogue);
                let planned =
                    catalogues.for_purpose(Purpose::Plan, b"https://server/").expect("it may be looked at");
                check(&planned, &known, &["", "zz"]);
            }
            let catalogue = opened(&catalogues, b"https://server/");
            assert!(catalogue.lock().logged <= 16, "the rest is in tables");
        }
    }

    #[test]
    fn who_looks_while_tables_are_merged_misses_nothing() {
        let state = tempfile::tempdir().expect("a directory");
        let (ours, theirs) = (catalogues(state.path(), 8), catalogues(state.path(), 8));
        let catalogue = opened(&ours, b"server");
        let mut known = BTreeMap::new();
        for round in 0..60 {
            let files = [(format!("d{}/f{round}", round % 7), round)];
            put(&catalogue, &files);
            known.extend(files);
            check(
                &theirs.for_purpose(Purpose::Plan, b"server").expect("it may be looked at"),
                &known,
                &["d"],
            );
        }
    }

    #[test]
    fn what_cannot_be_put_into_a_table_is_known_all_the_same() {
        for seed in 0..6 {
            println!("seed {seed}");
            let (mut rng, state) = (Rng::new(seed), tempfile::tempdir().expect("a directory"));
            let (catalogues, disk) = (catalogues(state.path(), 4), faulty::disk());
            let mut known = BTreeMap::new();
            for is_well in [false, true] {
                let catalogue = opened(&catalogues, b"server");
                let mut faults = rng.fork();
                disk.set_faults(move |call, _| call != Call::Write && !is_well && faults.unit() < 0.5);
                for _ in 0..40 {
                    let file = (path(&mut rng), rng.next_u64());
                    put(&catalogue, std::slice::from_ref(&file));
                    known.extend([file]);
                }
                check(&catalogue, &known, &["zz"]);
                drop(catalogue);
                disk.heal();
                check(&opened(&catalogues, b"server"), &known, &["zz"]);
            }
        }
    }

    #[test]
    fn files_that_are_gone_are_forgotten_and_others_are_not() {
        let (state, data) = [(); 2].map(|()| tempfile::tempdir().expect("a directory")).into();
        let catalogues = catalogues(state.path(), 16);
        let base = data.path().as_os_str().as_bytes();
        let records = |catalogue: &Mutex<Catalogue>| {
            let catalogue = catalogue.lock();
            catalogue.levels.records() + catalogue.recent.len() as u64
        };
        let mut stay = BTreeMap::new();
        for day in 0..40 {
            let catalogue = opened(&catalogues, base);
            std::fs::create_dir(data.path().join(format!("day{day}"))).expect("made");
            let files: Vec<_> = (0..20).map(|file| (format!("day{day}/{file}"), file)).collect();
            for (path, _) in &files {
                std::fs::write(data.path().join(path), "").expect("written");
            }
            put(&catalogue, &files);
            stay.extend([files[0].clone()]);
            check(&catalogue, &stay, &[]);
            for (path, _) in &files[1..] {
                std::fs::remove_file(data.path().join(path)).expect("removed");
            }
            if day % 2 == 1 {
                stay.remove(&files[0].0);
                std::fs::remove_dir_all(data.path().join(format!("day{day}"))).expect("removed");
            }
        }
        let catalogue = opened(&catalogues, base);
        check(&catalogue, &stay, &[]);
        let left = records(&catalogue);
        assert!(left < 300, "{left} records of 20 files that are there, of 800 that ever were");
        // What is not mounted is not gone.
        drop(catalogue);
        let away = data.path().with_extension("away");
        std::fs::rename(data.path(), &away).expect("renamed");
        let catalogue = opened(&catalogues, base);
        let more: Vec<_> = (0..2000).map(|file| (format!("new/{file}"), file)).collect();
        put(&catalogue, &more);
        drop(catalogue);
        check(&opened(&catalogues, base), &stay, &[]);
        std::fs::remove_dir_all(away).expect("removed");
    }
}
