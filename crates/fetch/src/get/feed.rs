//! Reads what was named, no further than work is needed, and settles what needs no server: names that
//! collide, files that are there already, disks that are full.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::manifest::FileId;
use tidegate_transfer::offer::warn_left_out;
use tidegate_transfer::pipeline::write_path::WriteHandler;

use crate::get::event::{DownloadEvent, Got};
use crate::get::existing::ExistingFile;
use crate::get::file::DownloadFile;
use crate::get::memory::fingerprint;
use crate::get::queue::Task;
use crate::get::state::DownloadState;
use crate::record::{Named, Names, Record};
use crate::remote::Version;

/// Paths named so far, by half of their hash, with a hash of where each comes from: sixteen and eight
/// bytes a file are all that is kept of one that has ended.
type Seen = HashMap<[u8; 16], u64>;

impl DownloadState {
    /// Reads the names to their end.
    pub(super) fn feed(&self, names: Names) {
        let mut seen = Seen::new();
        let mut next: FileId = 0;
        for named in names {
            if self.path.is_stopped() {
                return;
            }
            match named {
                Named::LeftOut(path, why) => warn_left_out(path.as_bytes(), &why),
                Named::Note(note) => (self.tell)(DownloadEvent::Note(&note)),
                Named::Problem(named, error) => {
                    self.path.ledger.failed(named.as_bytes(), error.clone(), false);
                    (self.tell)(DownloadEvent::Failed { named: &named, record: None, error: &error });
                }
                Named::Record(record) => {
                    let Some(id) = next.checked_add(1) else {
                        let why = "more files were named than can be numbered";
                        return self.fail(Error::new(ErrorKind::Usage, why));
                    };
                    next = id;
                    if !self.admit() {
                        return;
                    }
                    self.feed_record(id, *record, &mut seen);
                }
            }
        }
        self.fed();
    }

    fn feed_record(&self, id: FileId, record: Record, seen: &mut Seen) {
        let name = record.path.to_string();
        match place_of(&record, self.sink.folded_place(&record.path), seen) {
            Ok(true) => {}
            Ok(false) => {
                (self.tell)(DownloadEvent::Note(&format!(
                    "{name} was named twice, from the same place: taken once"
                )));
                return self.pass_over();
            }
            Err(error) => {
                self.path.ledger.failed(record.path.as_bytes(), error.clone(), false);
                (self.tell)(DownloadEvent::Failed { named: &name, record: Some(&record), error: &error });
                return self.pass_over();
            }
        }
        self.path.ledger.listed(record.bytes.unwrap_or(0));
        let existing = self.existing(&record);
        let known = match (&existing, &self.memory) {
            (Ok(Some(existing)), Some(memory)) => {
                let known = memory.lock().get(record.path.as_bytes());
                known.filter(|known| existing.is(known))
            }
            _ => None,
        };
        let hosts = record.urls.iter().map(|url| self.hosts.of(url)).collect();
        let file = Arc::new(DownloadFile::new(id, record, hosts, known));
        self.add(&file);
        let record = &file.record;
        match existing {
            Err(error) => return self.fail_one(&file, &error),
            Ok(Some(existing)) => {
                if self.settle(&file, existing) {
                    return;
                }
            }
            Ok(None) => {}
        }
        if let Some(bytes) = record.bytes
            && let Err(error) = self.reserve(&file, bytes)
        {
            return self.fail_one(&file, &error);
        }
        let left = self.path.journal().is_some_and(|journal| journal.lock().has_left(&record.path));
        let asks = left || (file.before.is_some() && record.checksums.is_empty());
        let task = if asks { Task::Look } else { Task::First };
        self.queue.push(&file, task, None);
    }

    /// Sees what the file that bears the name is good for; `false` if it may be replaced.
    fn settle(&self, file: &Arc<DownloadFile>, existing: ExistingFile) -> bool {
        let record = &file.record;
        let fits = existing.may_have(record.bytes);
        if fits && !record.checksums.is_empty() {
            let declared = fingerprint(&record.checksums, record.bytes, &record.urls[0], &Version::default());
            if let Some(known) = &file.before
                && Some(known.version) == declared
            {
                let mut checksums = known.checksums();
                for algorithm in record.checksums.algorithms() {
                    checksums.add(algorithm, record.checksums.get(algorithm).unwrap_or_default());
                }
                let got = Got {
                    bytes: existing.size,
                    checksums,
                    checked: self.settings.verify,
                    seconds: 0.0,
                    url: record.urls[0].clone(),
                    modified: Some(existing.mtime),
                };
                self.skip(file, &got);
                return true;
            }
            if existing.content.is_some() {
                self.check(file, existing, 0, Version::default());
                return true;
            }
        }
        match self.gives_way(file, &existing) {
            Ok(()) => false,
            // Its server may say what it sums up to, or an earlier run may have been about to say that it is ours.
            Err(_) if fits && record.checksums.is_empty() => {
                self.queue.push(file, Task::Look, None);
                true
            }
            Err(error) => {
                self.fail_one(file, &error);
                true
            }
        }
    }
}

/// Whether a record's path is its own: `false` if the same file was named before, an error if another was. `folded` is what
/// tells it from others where several spellings are one name.
fn place_of(record: &Record, folded: Option<Vec<u8>>, seen: &mut Seen) -> Result<bool> {
    let half =
        |bytes: &[u8]| -> [u8; 16] { *blake3::hash(bytes).as_bytes().first_chunk().expect("long enough") };
    let from = record.urls.first().map(|url| half(url.as_str().as_bytes())).unwrap_or_default();
    let from = u64::from_le_bytes(*from.first_chunk().expect("long enough"));
    let is_folded = folded.is_some();
    let place = half(&folded.unwrap_or_else(|| record.path.as_bytes().to_vec()));
    match seen.insert(place, from) {
        None if record.urls.is_empty() => {
            Err(Error::new(ErrorKind::Usage, format!("{} has no URL", record.path)))
        }
        None => Ok(true),
        Some(before) if before == from => Ok(false),
        Some(before) => {
            seen.insert(place, before);
            let also = if is_folded { ", as its file system takes them for one" } else { "" };
            let why = format!(
                "{} is the name of two files that were named{also}: only the first is fetched; give the other one a name of its own",
                record.path
            );
            Err(Error::new(ErrorKind::UnsafeName, why))
        }
    }
}
