//! What was once verified where: lets a second run skip a file without reading it.
//!
//! A file counts as there if its size, its modification time and the source's modification time are
//! what they were when its root hash was verified. Kept in the state directory, never among the data.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::hashed::ByItself;
use crate::manifest::Timestamp;
use crate::record_log::{LockedLog, RecordLog, Replay};
use crate::sys::clock::Instant;
use crate::sys::confined::Root;
use crate::sys::sync::{Mutex, mpsc};
use crate::sys::thread;
use crate::terms::Purpose;

/// How long a catalogue that nobody uses any more may take to be closed.
const CLOSING: Duration = Duration::from_secs(2);

/// About what a record takes in a log.
const RECORD: usize = 80;

/// How many records are passed on together, and how many such lots may wait to be taken in.
const TOGETHER: usize = 512;
const TOGETHER_AHEAD: usize = 8;

/// A destination file: the first half of the hash of its path.
type Key = [u8; 16];

/// What a catalogue remembers of a file.
pub trait Remembered: Clone + Serialize + for<'a> Deserialize<'a> + Send + 'static {
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
    const MAGIC: &'static [u8; 8] = b"TGCATL01";
    const DIRECTORY: &'static [u8] = b"catalogue";
}

/// In the order of the log, which is about that of the next listing: what is looked up next lies beside it.
type Known<V> = IndexMap<Key, V, ByItself>;

/// Everything verified in one destination directory.
#[derive(Debug)]
pub struct Catalogue<V = Verified> {
    /// Where more is remembered; `None` of one that is only looked at, or could not be read.
    log: Option<RecordLog<(Key, V)>>,
    known: Known<V>,
}

impl<V: Remembered> Catalogue<V> {
    /// One that knows nothing and remembers nothing.
    fn blank() -> Self {
        Self { log: None, known: IndexMap::default() }
    }

    fn read(locked: LockedLog, directory: &Root) -> Result<Self> {
        let (mut log, known, records) = gathered::<V, _>(|show| locked.read(directory, V::MAGIC, show))?;
        // Each later verification of a file adds a record: keep the log within twice what it holds.
        if records > 2 * known.len() + 1000 {
            let records: Vec<_> = known.iter().map(|(key, value)| (*key, value.clone())).collect();
            log.rewrite(directory, V::MAGIC, &records)?;
        }
        Ok(Self { log: Some(log), known })
    }

    /// What is remembered by now, and nothing more.
    fn look_at(directory: &Root, name: &str) -> Result<Self> {
        let ((), known, _) = gathered::<V, _>(|show| RecordLog::read(directory, name, V::MAGIC, show))?;
        Ok(Self { log: None, known })
    }

    /// What is known of `path`.
    pub fn get(&self, path: &[u8]) -> Option<V> {
        self.known.get(&key(path)).cloned()
    }

    /// What is known of each of `paths`. Neighbours in a listing are neighbours in the log as a rule: whoever follows
    /// the last one found is looked at before the whole is searched.
    pub fn get_all<'p>(&self, paths: impl Iterator<Item = &'p [u8]>) -> Vec<Option<V>> {
        if self.known.is_empty() {
            return paths.map(|_| None).collect();
        }
        let mut next = 0;
        let get = |path: &'p [u8]| {
            let key = key(path);
            if self.known.get_index(next).is_none_or(|(there, _)| *there != key) {
                next = self.known.get_index_of(&key)?;
            }
            next += 1;
            Some(self.known[next - 1].clone())
        };
        paths.map(get).collect()
    }

    /// Remembers verified files.
    pub fn put<'p>(&mut self, files: impl Iterator<Item = (&'p [u8], V)>) -> Result<()> {
        let records: Vec<_> = files.map(|(path, verified)| (key(path), verified)).collect();
        let Some(log) = &mut self.log else { return Ok(()) };
        log.append(&records)?;
        self.known.extend(records);
        Ok(())
    }

    /// Remembers a file for later runs only, without memory for it in this one; `false` where nothing can be remembered.
    pub fn put_aside(&mut self, path: &[u8], verified: V) -> Result<bool> {
        let Some(log) = &mut self.log else { return Ok(false) };
        log.append(&[(key(path), verified)]).map(|()| true)
    }
}

/// The catalogues of a state directory, one a destination, shared by transfers of one process.
#[derive(Debug)]
pub struct Catalogues<V = Verified> {
    directory: Option<Arc<Root>>,
    open: Mutex<HashMap<Vec<u8>, Weak<Mutex<Catalogue<V>>>>>,
}

impl<V: Remembered> Catalogues<V> {
    /// The catalogues in `state`.
    pub fn new(state: &Root) -> Result<Self> {
        let directory =
            state.make_dir(V::DIRECTORY).map_err(|error| Error::io("create", V::DIRECTORY, error))?;
        Ok(Self { directory: Some(Arc::new(directory)), open: Mutex::default() })
    }

    /// No memory of the past.
    pub fn none() -> Self {
        Self { directory: None, open: Mutex::default() }
    }

    /// The catalogue of the directory with absolute path `base`, as a transfer for `purpose` needs it.
    pub fn for_purpose(&self, purpose: Purpose, base: &[u8]) -> Option<Arc<Mutex<Catalogue<V>>>> {
        match purpose {
            Purpose::Copy | Purpose::Compare => self.of(base),
            Purpose::Plan => self.look_at(base),
        }
    }

    /// What is known by now of the directory with absolute path `base`; nothing is made.
    fn look_at(&self, base: &[u8]) -> Option<Arc<Mutex<Catalogue<V>>>> {
        let open = self.open.lock().expect("not poisoned");
        if let Some(catalogue) = open.get(base).and_then(Weak::upgrade) {
            return Some(catalogue);
        }
        let (directory, name) = (Arc::clone(self.directory.as_ref()?), log_name(base));
        Some(being_read(move || Catalogue::look_at(&directory, &name)))
    }

    /// The catalogue of the directory with absolute path `base`; `None` while another process holds it.
    pub fn of(&self, base: &[u8]) -> Option<Arc<Mutex<Catalogue<V>>>> {
        let mut open = self.open.lock().expect("not poisoned");
        if let Some(catalogue) = open.get(base).and_then(Weak::upgrade) {
            return Some(catalogue);
        }
        let (directory, name) = (Arc::clone(self.directory.as_ref()?), log_name(base));
        let mut locked = LockedLog::take(&directory, &name);
        // The last transfer that had it may be about to close it.
        let closing = open.contains_key(base).then(|| Instant::now() + CLOSING);
        while locked.as_ref().is_err_and(|error| error.kind == ErrorKind::Busy)
            && closing.is_some_and(|end| Instant::now() < end)
        {
            thread::sleep(Duration::from_millis(1));
            locked = LockedLog::take(&directory, &name);
        }
        match locked {
            Ok(locked) => {
                let catalogue = being_read(move || Catalogue::read(locked, &directory));
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

/// What the log says that `read` shows, and how many records it has. A thread of its own takes them in, which waits for
/// memory at each.
fn gathered<V: Remembered, T>(
    read: impl FnOnce(&mut dyn FnMut(Replay<(Key, V)>)) -> Result<T>,
) -> Result<(T, Known<V>, usize)> {
    let (to, from) = mpsc::sync_channel::<Vec<Replay<(Key, V)>>>(TOGETHER_AHEAD);
    let gather = move || {
        let (mut known, mut records) = (Known::default(), 0);
        for shown in from.into_iter().flatten() {
            match shown {
                // About as many as there are files; what else there is may take time to grow.
                Replay::Length(bytes) => known.reserve(bytes as usize / RECORD),
                Replay::Record((key, verified)) => {
                    records += 1;
                    known.insert(key, verified);
                }
                Replay::Void => known.clear(),
            }
        }
        (known, records)
    };
    thread::scope(|scope| {
        let gathering = thread::Builder::new()
            .name("catalogue".to_owned())
            .spawn_scoped(scope, gather)
            .map_err(|error| Error::new(ErrorKind::Io, format!("cannot start a thread: {error}")))?;
        let mut together = Vec::with_capacity(TOGETHER);
        let pass_on = |together| to.send(together).expect("it gathers until the last");
        let read = read(&mut |shown| {
            together.push(shown);
            if together.len() == TOGETHER {
                pass_on(std::mem::replace(&mut together, Vec::with_capacity(TOGETHER)));
            }
        });
        pass_on(together);
        drop(to);
        let (known, records) = gathering.join().expect("it cannot fail");
        read.map(|read| (read, known, records))
    })
}

/// A catalogue that a thread of its own reads, so that whoever is to offer files may begin: a million records take some tenths
/// of a second. Who locks it first waits until it is read.
fn being_read<V: Remembered>(
    read: impl FnOnce() -> Result<Catalogue<V>> + Send + 'static,
) -> Arc<Mutex<Catalogue<V>>> {
    let catalogue = Arc::new(Mutex::new(Catalogue::blank()));
    let (locked, is_locked) = mpsc::channel::<()>();
    let blank = Arc::clone(&catalogue);
    let fill = move || {
        let mut catalogue = blank.lock().expect("not poisoned");
        drop(locked);
        match read() {
            Ok(read) => *catalogue = read,
            Err(error) => tracing::warn!("what was verified is not known: {error}"),
        }
    };
    match thread::Builder::new().name("catalogue".to_owned()).spawn(fill) {
        Ok(_) => _ = is_locked.recv(),
        Err(error) => tracing::warn!("what was verified is not known: cannot start a thread: {error}"),
    }
    catalogue
}

fn log_name(base: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&key(base))
}

fn key(path: &[u8]) -> Key {
    blake3::hash(path).as_bytes()[..16].try_into().expect("sixteen bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalogue_is_waited_for_while_it_is_closed_and_not_for_ever() {
        use std::os::unix::ffi::OsStrExt;
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
        assert!(
            !ours.open.lock().expect("not poisoned").contains_key(&b"/data"[..]),
            "and is not waited for again"
        );
    }

    #[test]
    fn many_are_found_at_once_in_whatever_order_they_were_remembered() {
        use std::os::unix::ffi::OsStrExt;
        let state = tempfile::tempdir().expect("a directory");
        let root = Root::open(state.path().as_os_str().as_bytes()).expect("opened");
        let catalogues = Catalogues::<Verified>::new(&root).expect("made");
        let verified = |size| Verified { size, mtime: Timestamp::default(), root: [7; 32] };
        let names: Vec<String> = (0..100).map(|number| format!("d/{number}")).collect();
        let remembered = [40..50, 0..10, 90..100, 10..30];
        let catalogue = catalogues.of(b"/data").expect("nobody has it");
        for range in remembered.clone() {
            let files = range.map(|at| (names[at].as_bytes(), verified(at as u64)));
            catalogue.lock().expect("not poisoned").put(files).expect("put");
        }
        let expected: Vec<_> = (0..100)
            .map(|at| remembered.iter().any(|range| range.contains(&at)).then(|| verified(at as u64)))
            .collect();
        let looks = |catalogue: &Mutex<Catalogue>| {
            let paths = names.iter().map(String::as_bytes);
            assert_eq!(catalogue.lock().expect("not poisoned").get_all(paths), expected);
        };
        looks(&catalogue);
        drop(catalogue);
        // Whoever looks while it is still being read waits for all of it.
        let again = catalogues.of(b"/data").expect("it is closed");
        looks(&again);
        let planned = catalogues.for_purpose(Purpose::Plan, b"/data").expect("it may be looked at");
        assert!(Arc::ptr_eq(&planned, &again), "who plans sees what a transfer has open");
        drop((planned, again));
        looks(&catalogues.for_purpose(Purpose::Plan, b"/data").expect("it may be looked at"));
    }
}
