//! Begins a version of a file, with what earlier runs left of it, and drops one that came to nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::hash::Digest;
use tidegate_transfer::manifest::{Entry, Fingerprint, Kind, Timestamp};
use tidegate_transfer::pipeline::write_path::Incoming;
use tidegate_transfer::quota::Quota;
use tidegate_transfer::store::{Sink, Standing};
use tidegate_transfer::terms::Verify;

use crate::checksum::{Algorithm, Checksums};
use crate::get::event::Got;
use crate::get::file::{Body, DownloadFile, Trust, UNKNOWN};
use crate::get::memory::{
    ALTERNATING, Fetched, SEVERAL, Validators, fingerprint, label, left_by, unlike_any, validators,
};
use crate::get::queue::Task;
use crate::get::state::DownloadState;
use crate::remote::Version;

impl DownloadState {
    /// Begins the version of `file` that `mirror` shows, of `bytes` if that is known.
    pub(super) fn begin_body(
        &self,
        file: &Arc<DownloadFile>,
        mirror: usize,
        seen: &Version,
        bytes: Option<u64>,
    ) -> Result<Arc<Body>> {
        let record = &file.record;
        self.is_free(file)?;
        let (entry, version, _) = self.entry(file, mirror, seen, bytes);
        let (parent, _) = record.path.split();
        if !parent.is_empty() {
            self.settings
                .out
                .make_dir(parent)
                .map_err(|error| Error::io("create the directory", parent, error))?;
        }
        self.sink.takes(&entry)?;
        if let Some(bytes) = bytes {
            self.reserve(file, bytes)?;
            self.resized(file, bytes);
        }
        let (labelled, before) = self.as_left(file, &entry);
        let left = self.left_of(file, &labelled, bytes)?;
        let before = before.filter(|_| left.is_some());
        let entry = if before.is_some() { labelled } else { entry };
        // How much is under way is ours to choose here, not a peer's.
        let metadata = Quota::unlimited();
        let (segments, blocks) = left.unzip();
        let incoming = Incoming::new(file.id, entry, Verify::Block, segments, &metadata)?;
        let incoming = incoming.with_blocks(blocks.into_iter().flatten());
        let hashers = self.hashers(file, &seen.checksums, bytes.is_none());
        let body =
            Body::new(Arc::clone(file), incoming, mirror, version, seen, hashers, bytes.unwrap_or(UNKNOWN));
        let body = Arc::new(body);
        let mut state = file.lock();
        if state.ended || state.body.is_some() {
            return Err(Error::new(ErrorKind::Changed, format!("{} was begun twice", file.name())));
        }
        if let Some(before) = before {
            body.goes_on(before);
            state.trust = Trust::Sample;
        }
        if state.trust == Trust::Sample
            && before.is_none_or(|before| ![SEVERAL, ALTERNATING].contains(&before))
        {
            self.several(&body, SEVERAL)?;
        }
        state.mirrors[mirror].pin = Some(seen.clone());
        state.body = Some(Arc::clone(&body));
        Ok(body)
    }

    /// The entry under which an earlier run left something of the same file, and of which other version of its server's,
    /// if it is of another.
    fn as_left(&self, file: &DownloadFile, entry: &Entry) -> (Entry, Option<Validators>) {
        let left = self.path.journal().and_then(|journal| journal.lock().left_version(&entry.path));
        if let (Kind::File { size, fingerprint }, Some(left)) = (&entry.kind, left)
            && let Some(before) = left_by(&left, fingerprint)
            && left != *fingerprint
            && file.record.checksums.is_empty()
        {
            let kind = Kind::File { size: *size, fingerprint: left };
            return (Entry { kind, ..entry.clone() }, Some(before));
        }
        (entry.clone(), None)
    }

    /// What is recorded of a version is labelled as of `several` from now on.
    pub(super) fn several(&self, body: &Arc<Body>, several: Validators) -> Result<()> {
        let url = &body.file.record.urls[body.mirror];
        self.path.relabel(body, label(url, body.size(), several))
    }

    /// What a version will be on the disk, its fingerprint, and whether that tells it from others.
    fn entry(
        &self,
        file: &DownloadFile,
        mirror: usize,
        seen: &Version,
        bytes: Option<u64>,
    ) -> (Entry, Fingerprint, bool) {
        let record = &file.record;
        let url = &record.urls[mirror];
        let known = fingerprint(&record.checksums, record.bytes, url, seen);
        let version = known.unwrap_or_else(|| unlike_any(self.settings.seed, file.id));
        let fingerprint = match bytes {
            Some(bytes) if known.is_some() && record.checksums.is_empty() => {
                label(url, bytes, validators(seen))
            }
            _ => version,
        };
        let entry = Entry::new(
            record.path.clone(),
            Kind::File { size: bytes.unwrap_or(0), fingerprint },
            self.mode,
            seen.time().unwrap_or_else(now),
        );
        (entry, version, known.is_some())
    }

    /// Whether an earlier run gave this version its name, and ended before it could say so.
    pub(super) fn complete_before(&self, file: &DownloadFile, mirror: usize, seen: &Version) -> Option<Got> {
        let (entry, version, known) = self.entry(file, mirror, seen, seen.bytes);
        // Only what a sample has told is recorded so once it is complete.
        let (labelled, before) = self.as_left(file, &entry);
        let entry = if before == Some(ALTERNATING) { labelled } else { entry };
        let root = self.path.journal()?.lock().left_root(&entry)?;
        if !known || self.sink.has_part(&entry) || root == [0; 32] {
            return None;
        }
        match self.sink.prepare(&entry, true) {
            Ok(Standing::Present(mtime, _))
                if self
                    .sink
                    .digest(&entry, &|| self.path.is_stopped())
                    .is_ok_and(|digest| digest == root) =>
            {
                let mut checksums = Checksums::none();
                checksums.add(Algorithm::Blake3, root);
                self.remember(file, &Fetched::new(entry.size(), mtime, version, &checksums));
                let url = file.record.urls[mirror].clone();
                let checked = self.settings.verify && seen.checksums.refute();
                let (bytes, modified) = (entry.size(), seen.time());
                Some(Got { bytes, checksums, checked, seconds: 0.0, url, modified })
            }
            _ => None,
        }
    }

    /// Remembers a file for later runs; `false` if nothing is remembered.
    pub(super) fn remember(&self, file: &DownloadFile, fetched: &Fetched) -> bool {
        let Some(memory) = &self.memory else { return false };
        let path = file.record.path.as_bytes();
        let put = memory.lock().put(std::iter::once((path, fetched.clone())));
        put.unwrap_or_else(|error| {
            tracing::warn!("cannot remember what was fetched: {error}");
            false
        })
    }

    /// What earlier runs left of this version. Anything else that they left is forgotten, before its
    /// unfinished file is overwritten: no later run may take that for what it was.
    fn left_of(
        &self,
        file: &DownloadFile,
        entry: &Entry,
        bytes: Option<u64>,
    ) -> Result<Option<(HashMap<u64, Digest>, Vec<(u64, Digest)>)>> {
        let Some(journal) = self.path.journal() else { return Ok(None) };
        let left = {
            let mut journal = journal.lock();
            if !journal.has_left(&entry.path) {
                return Ok(None);
            }
            file.left.store(journal.left_bytes(&entry.path), Relaxed);
            journal.take_left(entry)
        };
        let there = left
            .filter(|_| bytes.is_some() && self.sink.has_part(entry))
            .map(|mut left| {
                let (blocks, proof) = (std::mem::take(&mut left.blocks), self.proof(file));
                let segments =
                    self.path.read_again(entry, proof, left.into_segments(entry.size()), |_, _| {});
                let others = blocks.into_values().filter(|some| !segments.contains_key(&some.segment));
                let blocks = self.path.read_blocks_again(entry, proof, others);
                (segments, blocks)
            })
            .filter(|(segments, blocks)| !segments.is_empty() || !blocks.is_empty());
        // A run that was stopped while it read knows nothing against what is left.
        if there.is_none() && !self.path.is_stopped() {
            self.path.start_anew([entry].into_iter())?;
        }
        Ok(there)
    }

    /// How the blocks of a file are proved: as the journal remembers them.
    pub(super) fn proof(&self, file: &DownloadFile) -> Verify {
        match self.settings.verify || self.wants_blake3(file) {
            true => Verify::Blake3,
            false => Verify::Block,
        }
    }

    /// Goes on with a version of which something is there: with a sample of it first, if that is another's.
    pub(super) fn go_on(&self, body: &Arc<Body>) {
        let is_others = body.file.lock().trust == Trust::Sample && body.incoming.kept > 0;
        if is_others && body.incoming.kept < body.size() {
            self.queue.push(&body.file, Task::Sample(Arc::clone(body)), None);
        } else {
            self.push_missing(body);
        }
    }

    /// Queues what is not there of a version that has just begun.
    pub(super) fn push_missing(&self, body: &Arc<Body>) {
        for range in body.incoming.absent() {
            self.queue.push(&body.file, Task::Part(Arc::clone(body), range), None);
        }
    }

    /// Drops the version under way, and begins with nothing.
    pub(super) fn begin_anew(
        &self,
        file: &Arc<DownloadFile>,
        body: Option<&Arc<Body>>,
        not_before: Option<Instant>,
    ) {
        let body = {
            let mut state = file.lock();
            if !state.concerns(body) {
                return;
            }
            for mirror in &mut state.mirrors {
                (mirror.pin, mirror.used) = (None, false);
            }
            state.body.take()
        };
        if let Some(body) = body {
            self.drop_body(&body, false);
            let fresh = body.written.load(Relaxed) - body.incoming.kept;
            self.path.ledger.bytes_again.fetch_add(fresh, Relaxed);
            self.path.ledger.already_not(body.incoming.kept);
        }
        self.queue.push(file, Task::First, not_before);
    }

    /// Ends a version; `keep` what is written of it for a later run.
    pub(super) fn drop_body(&self, body: &Arc<Body>, keep: bool) {
        if keep && body.resumes {
            self.path.checkpoint(body);
        }
        // In this order: what is still on its way to the disk, or to the journal, comes to nothing.
        body.incoming.end();
        self.queue.withdraw(body);
        if keep {
            return;
        }
        if let Err(error) = self.path.start_anew([&*body.incoming.entry].into_iter()) {
            tracing::warn!("the journal cannot be written: {error}");
        }
        // A new unfinished file gets a new inode: a late writer of this one cannot reach it.
        self.sink.discard(&body.incoming.entry);
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() }
}
