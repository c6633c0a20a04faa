//! Uploads that were begun and not ended, kept between runs. The server's own list is the truth; this
//! tells which of them are ours, and of which version of the source.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::manifest::Fingerprint;
use tidegate_transfer::record_log::{RecordLog, Replay};
use tidegate_transfer::sys::confined::Root;
use tidegate_transfer::sys::sync::Mutex;

const MAGIC: &[u8; 8] = b"TGBEGN01";

/// A change of what is under way.
#[derive(Debug, Serialize, Deserialize)]
enum Change {
    Started { key: String, id: String, version: Fingerprint },
    Ended { key: String },
}

/// What is under way at one target.
#[derive(Debug)]
pub(crate) struct UnfinishedUploads {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    log: Option<RecordLog<Change>>,
    /// At most what runs of this host have left behind.
    open: HashMap<String, (String, Fingerprint)>,
}

impl UnfinishedUploads {
    /// What is remembered in the state directory of the target with this identity. Without it, or while
    /// another process has it, uploads are found by the server's list alone.
    pub fn open(state: Option<&Root>, identity: &[u8]) -> Self {
        let mut found = State::default();
        match state.map(|state| Self::load(state, identity, &mut found.open)) {
            Some(Ok(log)) => found.log = Some(log),
            Some(Err(error)) => tracing::warn!("uploads under way are not remembered: {error}"),
            None => {}
        }
        Self { state: Mutex::new(found) }
    }

    fn load(
        state: &Root,
        identity: &[u8],
        open: &mut HashMap<String, (String, Fingerprint)>,
    ) -> Result<RecordLog<Change>> {
        let directory = state.make_dir(b"uploads").map_err(|error| Error::io("create", b"uploads", error))?;
        let name = data_encoding::HEXLOWER.encode(&blake3::hash(identity).as_bytes()[..16]);
        let mut count = 0;
        let mut log = RecordLog::open(&directory, &name, MAGIC, |shown| {
            count += usize::from(matches!(shown, Replay::Record(_)));
            match shown {
                Replay::Length(_) => {}
                Replay::Record(Change::Started { key, id, version }) => drop(open.insert(key, (id, version))),
                Replay::Record(Change::Ended { key }) => drop(open.remove(&key)),
                Replay::Void => open.clear(),
            }
        })?;
        if count > 2 * open.len() + 100 {
            let started = |(key, (id, version)): (&String, &(String, Fingerprint))| Change::Started {
                key: key.clone(),
                id: id.clone(),
                version: *version,
            };
            let records: Vec<_> = open.iter().map(started).collect();
            log.rewrite(&directory, MAGIC, &records)?;
        }
        Ok(log)
    }

    /// Our upload of `key`, and of which version of the source.
    pub fn get(&self, key: &str) -> Option<(String, Fingerprint)> {
        self.state.lock().open.get(key).cloned()
    }

    /// An upload was begun.
    pub fn started(&self, key: &str, id: &str, version: Fingerprint) {
        let mut state = self.state.lock();
        state.open.insert(key.to_owned(), (id.to_owned(), version));
        state.append(&Change::Started { key: key.to_owned(), id: id.to_owned(), version });
    }

    /// The upload of `key` is complete or aborted.
    pub fn ended(&self, key: &str) {
        let mut state = self.state.lock();
        if state.open.remove(key).is_some() {
            state.append(&Change::Ended { key: key.to_owned() });
        }
    }
}

impl State {
    fn append(&mut self, change: &Change) {
        if let Some(log) = &mut self.log
            && let Err(error) = log.append([change])
        {
            tracing::warn!("uploads under way are not remembered: {error}");
            self.log = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn what_was_begun_is_known_to_the_next_run() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = Root::open(directory.path().as_os_str().as_bytes()).expect("opened");
        let uploads = UnfinishedUploads::open(Some(&root), b"s3://b/");
        for i in 0..300 {
            uploads.started(&format!("key {i}"), "id", [i as u8; 16]);
        }
        (0..299).for_each(|i| uploads.ended(&format!("key {i}")));
        drop(uploads);
        let uploads = UnfinishedUploads::open(Some(&root), b"s3://b/");
        assert_eq!(uploads.get("key 299"), Some(("id".to_owned(), [299_u32 as u8; 16])));
        assert_eq!(uploads.get("key 1"), None);
        assert_eq!(UnfinishedUploads::open(Some(&root), b"s3://other/").get("key 299"), None);
        assert_eq!(UnfinishedUploads::open(None, b"s3://b/").get("key 299"), None);
    }
}
