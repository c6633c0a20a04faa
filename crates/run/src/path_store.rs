//! What paths last held, in files of the state directory: one a path, replaced in one step, so that runs side by side do
//! not disturb one another. It is advice: what cannot be read is said and not used, what is old is forgotten.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tidegate_control::PathMemory;
use tidegate_spec::pair::PathKey;
use tidegate_transfer::wire::tls::write_private;

/// Most paths that are remembered, and for how long.
const MAX_PATHS: usize = 1000;
const MAX_AGE: Duration = Duration::from_secs(30 * 86_400);
/// The longest file that is read, in bytes; a memory takes some 1500.
const MAX_FILE: u64 = 16 << 10;
/// What the files say is said in this version.
const VERSION: u32 = 1;

/// A path and what it last held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownPath {
    version: u32,
    /// The path.
    pub path: PathKey,
    /// What it held.
    pub memory: PathMemory,
}

/// Where it is kept.
#[derive(Clone, Debug)]
pub struct PathStore {
    directory: PathBuf,
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// How long ago that was.
pub fn age(memory: &PathMemory) -> Duration {
    Duration::from_secs(now().saturating_sub(memory.at_unix_s))
}

impl PathStore {
    /// That of the state directory `state`.
    pub fn new(state: &Path) -> Self {
        Self { directory: state.join("paths") }
    }

    /// What `path` last held, if that is known and not too old; damage is told.
    pub fn recall(&self, path: &PathKey) -> Option<PathMemory> {
        match read(&self.file(path)) {
            Ok(known) => {
                let known = known.filter(|known| known.path == *path && age(&known.memory) <= MAX_AGE)?;
                Some(known.memory)
            }
            Err(why) => {
                tracing::warn!("what was remembered of this path is not used: {why}");
                None
            }
        }
    }

    /// Remembers what `path` held, and forgets the oldest of too many.
    pub fn keep(&self, path: &PathKey, memory: PathMemory) {
        let known = KnownPath { version: VERSION, path: path.clone(), memory };
        let text = serde_json::to_string(&known).expect("a memory is plain data");
        if let Err(error) = write_private(&self.file(path), text.as_bytes()) {
            tracing::warn!("this path is not remembered: {error}");
        }
        self.prune();
    }

    /// Every path that is known, the newest first; and why a file is not used.
    pub fn all(&self) -> (Vec<KnownPath>, Vec<String>) {
        let (mut all, mut wrong) = (Vec::new(), Vec::new());
        for (_, file) in self.files() {
            match read(&file) {
                Ok(known) => all.extend(known.filter(|known| age(&known.memory) <= MAX_AGE)),
                Err(why) => wrong.push(why),
            }
        }
        all.sort_by_key(|known| std::cmp::Reverse(known.memory.at_unix_s));
        (all, wrong)
    }

    /// Forgets everything; tells how many paths that were.
    pub fn forget(&self) -> u64 {
        self.files().iter().filter(|(_, file)| fs::remove_file(file).is_ok()).count() as u64
    }

    fn file(&self, path: &PathKey) -> PathBuf {
        let text = serde_json::to_string(path).expect("a key is plain data");
        let name = &blake3::hash(text.as_bytes()).to_hex()[..32];
        self.directory.join(name).with_extension("json")
    }

    /// The files, the newest first.
    fn files(&self) -> Vec<(SystemTime, PathBuf)> {
        let Ok(entries) = fs::read_dir(&self.directory) else { return Vec::new() };
        let changed = |entry: fs::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()));
        let mut files: Vec<_> = entries.flatten().filter_map(changed).collect();
        // What a run was killed over is no memory, and goes when it is old.
        let is_old = |changed: &SystemTime| changed.elapsed().is_ok_and(|age| age > MAX_AGE);
        files.retain(|(changed, file)| file.extension().is_some_and(|end| end == "json") || is_old(changed));
        files.sort_by(|a, b| b.cmp(a));
        files
    }

    fn prune(&self) {
        let is_old = |changed: &SystemTime| changed.elapsed().is_ok_and(|age| age > MAX_AGE);
        for (i, (changed, file)) in self.files().iter().enumerate() {
            if i >= MAX_PATHS || is_old(changed) {
                // Somebody else may have been quicker.
                let _ = fs::remove_file(file);
            }
        }
    }
}

/// What a file holds; `None` if there is none, an error that says why if it cannot be used.
fn read(file: &Path) -> Result<Option<KnownPath>, String> {
    let wrong = |why: String| format!("{}: {why}", file.display());
    let mut text = String::new();
    let opened = match File::open(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| wrong(error.to_string()))?,
    };
    opened.take(MAX_FILE).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
    match serde_json::from_str::<KnownPath>(&text) {
        Ok(known) if known.version == VERSION => Ok(Some(known)),
        Ok(known) => Err(wrong(format!("is of version {}, not {VERSION}", known.version))),
        Err(error) => Err(wrong(format!("is damaged ({error})"))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    use tidegate_spec::pair::Pair;

    use super::*;

    fn key(source: &str) -> PathKey {
        let pair = Pair::of(&format!("tg://{source}"), "tg://h:7117").expect("sites");
        PathKey { pair, terms: Vec::new() }
    }

    fn memory(at_unix_s: u64, epochs: u64) -> PathMemory {
        PathMemory { at_unix_s, epochs, ..PathMemory::default() }
    }

    #[test]
    fn each_path_is_remembered_by_itself_and_for_its_owner_only() {
        let state = tempfile::tempdir().expect("a directory");
        let store = PathStore::new(state.path());
        assert_eq!(store.recall(&key("a")), None);
        store.keep(&key("a"), memory(now(), 5));
        store.keep(&key("b"), memory(now(), 6));
        store.keep(&key("a"), memory(now(), 7));
        let epochs = |source: &str| store.recall(&key(source)).map(|memory| memory.epochs);
        assert_eq!((epochs("a"), epochs("b"), epochs("c")), (Some(7), Some(6), None));
        let mode = |path: &Path| fs::metadata(path).map(|about| about.permissions().mode() & 0o777).ok();
        assert_eq!(mode(&store.file(&key("a"))), Some(0o600));
        assert_eq!(mode(&store.directory), Some(0o700));
        assert_eq!(store.forget(), 2);
        assert_eq!((epochs("a"), store.all().0.len()), (None, 0));
    }

    #[test]
    fn what_is_old_or_too_much_is_forgotten() {
        let state = tempfile::tempdir().expect("a directory");
        let store = PathStore::new(state.path());
        store.keep(&key("old"), memory(now() - MAX_AGE.as_secs() - 10, 5));
        assert_eq!((store.recall(&key("old")), store.all().0.len()), (None, 0));
        for i in 0..MAX_PATHS + 3 {
            let text = serde_json::to_string(&KnownPath {
                version: VERSION,
                path: key(&i.to_string()),
                memory: memory(now(), 5),
            });
            fs::write(store.file(&key(&i.to_string())), text.expect("plain data")).expect("written");
        }
        store.keep(&key("last"), memory(now(), 9));
        assert_eq!(store.files().len(), MAX_PATHS);
        assert_eq!(store.recall(&key("last")).map(|memory| memory.epochs), Some(9));
    }

    #[test]
    fn what_is_damaged_is_not_used_and_the_next_run_mends_it() {
        let state = tempfile::tempdir().expect("a directory");
        let store = PathStore::new(state.path());
        store.keep(&key("a"), memory(now(), 5));
        let file = store.file(&key("a"));
        let whole = fs::read_to_string(&file).expect("there");
        let cut = &whole[..whole.len() / 2];
        let [newer, too_long, odd] = [
            whole.replacen("\"version\":1", "\"version\":2", 1),
            format!("{whole}{}", " ".repeat(1 << 20)).replace("\"epochs\":5", "\"epochs\":-5"),
            whole.replacen("\"workers\":0", "\"workers\":70000", 1),
        ];
        for damaged in ["", cut, "null", "\u{0}\u{1}", &newer, &too_long, &odd] {
            fs::write(&file, damaged).expect("written");
            assert_eq!(store.recall(&key("a")), None);
            let (known, wrong) = store.all();
            assert!(known.is_empty() && wrong.len() == 1, "{damaged:?}: {wrong:?}");
        }
        store.keep(&key("a"), memory(now(), 6));
        assert_eq!(store.recall(&key("a")).map(|memory| memory.epochs), Some(6));
    }

    #[test]
    fn runs_side_by_side_leave_a_whole_memory() {
        let state = tempfile::tempdir().expect("a directory");
        let store = PathStore::new(state.path());
        thread::scope(|scope| {
            for writer in 0..4 {
                // Processes have temporary files of their own; threads here have paths of their own.
                let store = &store;
                scope.spawn(move || {
                    for i in 0..50 {
                        store.keep(&key(&writer.to_string()), memory(now(), i));
                        assert_eq!(store.all().1, Vec::<String>::new());
                    }
                });
            }
        });
        assert_eq!(store.all().0.len(), 4);
    }
}
