//! One file on its way: where it may come from, what became of that so far, and the bytes of the version
//! that is being fetched.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use tidegate_control::units::duration_in_words;
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::manifest::{FileId, Fingerprint, Timestamp, missing};
use tidegate_transfer::outage::{self, Outage};
use tidegate_transfer::pipeline::write_path::Incoming;
use tidegate_transfer::sys::sync::{Mutex, MutexGuard};

use crate::checksum::{Checksums, Hashers};
use crate::get::memory::{ALTERNATING, Fetched, SEVERAL, Validators};
use crate::get::sources::Sources;
use crate::host::Host;
use crate::record::Record;
use crate::remote::Version;

/// The size of a file that nobody knows yet.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// How often a file is begun anew because its server's changed under way. The last time all comes in one answer.
const CHANGES: u32 = 2;

/// Answers of another version that are let pass once versions are not relied upon.
const MAX_STALE: u32 = 256;

/// Failures in a row of the only mirror that may continue a version, before another begins anew.
const PATIENCE: u32 = 3;

/// A file that was named, until it has ended.
pub(super) struct DownloadFile {
    pub(super) id: FileId,
    pub(super) record: Record,
    /// The mirrors' hosts, in the order of the record's URLs.
    pub(super) hosts: Vec<Arc<Host>>,
    /// What was fetched there before, if the file is still as it was then.
    pub(super) before: Option<Fetched>,
    /// Room on the disk that is kept for it.
    pub(super) reserved: AtomicU64,
    /// About how much an earlier run left of it, while that is read again.
    pub(super) left: AtomicU64,
    state: Mutex<State>,
}

/// What changes while a file is under way.
pub(super) struct State {
    pub(super) body: Option<Arc<Body>>,
    pub(super) mirrors: Vec<Mirror>,
    /// What tells that its parts belong together.
    pub(super) trust: Trust,
    /// That a sample tells so was given up.
    pub(super) samples_failed: bool,
    /// Nothing but this mirror may be used.
    pub(super) alone: Option<usize>,
    /// Failures in a row without a byte of progress.
    pub(super) tries: u32,
    /// Since when it is being made ready.
    pub(super) waits: Outage,
    pub(super) changes: u32,
    /// Answers of another version that were let pass since that counts no longer.
    stale: u32,
    pub(super) mismatches: u32,
    /// What the ledger lists it with.
    pub(super) listed: u64,
    pub(super) started: Option<Instant>,
    pub(super) ended: bool,
}

/// What tells that the parts of a file belong together. Behind a balancer each server may have a tag and a time of its
/// own for the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// The tags and times that servers give.
    Validators,
    /// Its checksum, which was declared, and its size.
    Checksum,
    /// Its size, and a sample of bytes that come from several of them.
    Sample,
    /// That all of it comes in one answer.
    OneAnswer,
}

/// What is known of one of a file's places.
#[derive(Default)]
pub(super) struct Mirror {
    /// The version it showed first.
    pub(super) pin: Option<Version>,
    /// Why it is asked no more.
    pub(super) gone: Option<Error>,
    /// It gives the file as a whole only.
    pub(super) whole: bool,
    /// It gave bytes of the version under way.
    pub(super) used: bool,
    /// Bytes that it alone gave had a wrong checksum.
    pub(super) suspect: bool,
    /// Requests that failed.
    pub(super) failures: u32,
}

/// One version of a file on its way to the disk.
pub(super) struct Body {
    pub(super) file: Arc<DownloadFile>,
    pub(super) incoming: Incoming,
    /// Its size, [`UNKNOWN`] until a stream has ended.
    pub(super) size: AtomicU64,
    /// What tells the version; like no other's if nothing does.
    pub(super) version: Fingerprint,
    pub(super) modified: Option<Timestamp>,
    /// Whether a later run can go on with it.
    pub(super) resumes: bool,
    /// What servers vouch for, of the algorithms that are computed.
    pub(super) vouched: Checksums,
    /// The mirror whose answer began it.
    pub(super) mirror: usize,
    /// Bytes written, those of earlier runs included.
    pub(super) written: AtomicU64,
    /// What came from which of its server's versions.
    sources: Mutex<Sources>,
    front: Mutex<Front>,
}

/// How far the file's checksums have got.
pub(super) struct Front {
    /// Everything before is taken in.
    pub(super) at: u64,
    /// `None` while somebody takes bytes in.
    pub(super) hashers: Option<Hashers>,
    /// It waits for the digest pool.
    pub(super) queued: bool,
    /// The sums, once computed.
    pub(super) sums: Option<Checksums>,
}

/// What follows from a request that failed.
pub(super) enum Next {
    /// It is tried again, not before then if given.
    Again(Option<Instant>),
    /// The version under way is dropped, and the file begun anew.
    Anew,
    /// The file has failed.
    Fail(Error),
    /// It has ended already, or the version under way has.
    Nothing,
}

impl DownloadFile {
    pub(super) fn new(id: FileId, record: Record, hosts: Vec<Arc<Host>>, before: Option<Fetched>) -> Self {
        let state = State {
            body: None,
            mirrors: record.urls.iter().map(|_| Mirror::default()).collect(),
            trust: Trust::Validators,
            samples_failed: false,
            alone: None,
            tries: 0,
            waits: Outage::default(),
            changes: 0,
            stale: 0,
            mismatches: 0,
            listed: record.bytes.unwrap_or(0),
            started: None,
            ended: false,
        };
        hosts.iter().for_each(|host| host.want(true));
        Self {
            id,
            record,
            hosts,
            before,
            reserved: AtomicU64::new(0),
            left: AtomicU64::new(0),
            state: Mutex::new(state),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Its path, for people.
    pub(super) fn name(&self) -> String {
        self.record.path.to_string()
    }

    /// The mirror to ask next, if one has room: not one that fails while another does not, then the
    /// quickest. `mixes` if parts of several mirrors may be put together.
    pub(super) fn choose(
        &self,
        part: bool,
        mixes: bool,
        has_room: impl Fn(&Arc<Host>) -> bool,
    ) -> Option<usize> {
        let state = self.lock();
        let only = state.only(mixes);
        let fits = |(index, mirror): &(usize, &Mirror)| {
            only.is_none_or(|only| only == *index)
                && mirror.gone.is_none()
                && !(part && mirror.whole)
                && has_room(&self.hosts[*index])
        };
        let candidates = state.mirrors.iter().enumerate().filter(fits);
        candidates
            .map(|(index, mirror)| (index, mirror.failures, self.hosts[index].promise()))
            .min_by(|(a, failed, one), (b, others, other)| {
                failed.cmp(others).then_with(|| one.order(other)).then(a.cmp(b))
            })
            .map(|(index, ..)| index)
    }
}

impl Drop for DownloadFile {
    fn drop(&mut self) {
        self.hosts.iter().for_each(|host| host.want(false));
    }
}

impl State {
    /// Whether `body` is what is under way; `None` stands for a file of which nothing is.
    pub(super) fn concerns(&self, body: Option<&Arc<Body>>) -> bool {
        let same = match (&self.body, body) {
            (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs),
            (None, None) => true,
            _ => false,
        };
        same && !self.ended
    }

    /// The only mirror that may be asked, if there is just one.
    fn only(&self, mixes: bool) -> Option<usize> {
        match &self.body {
            Some(body) if !mixes => Some(body.mirror),
            _ => self.alone,
        }
    }

    /// Whether any mirror that may be asked gives parts of the version under way.
    pub(super) fn gives_parts(&self, mixes: bool) -> bool {
        let only = self.only(mixes);
        let gives = |(index, mirror): (usize, &Mirror)| {
            only.is_none_or(|only| only == index) && mirror.gone.is_none() && !mirror.whole
        };
        self.mirrors.iter().enumerate().any(gives)
    }

    /// A mirror brought bytes.
    pub(super) fn progress(&mut self, mirror: usize) {
        self.tries = 0;
        self.waits.is_over();
        self.mirrors[mirror].failures = 0;
    }

    /// A mirror is asked no more.
    pub(super) fn leave(
        &mut self,
        body: Option<&Arc<Body>>,
        mirror: usize,
        error: Error,
        mixes: bool,
    ) -> Next {
        if !self.concerns(body) {
            return Next::Nothing;
        }
        self.mirrors[mirror].gone = Some(error.clone());
        if self.mirrors.iter().all(|mirror| mirror.gone.is_some()) {
            return Next::Fail(error);
        }
        if self.alone == Some(mirror) {
            self.alone = None;
        }
        // Without a checksum nobody could tell that two mirrors' parts do not belong together.
        match &self.body {
            Some(body) if !mixes && body.mirror == mirror => Next::Anew,
            // Parts are for mirrors that give parts.
            Some(_) if !self.gives_parts(mixes) => Next::Anew,
            _ => Next::Again(None),
        }
    }

    /// A request to a mirror failed, which may pass.
    pub(super) fn try_again(
        &mut self,
        body: Option<&Arc<Body>>,
        mirror: usize,
        error: &Error,
        retries: u32,
        mixes: bool,
        wait: impl FnOnce(u32) -> Instant,
    ) -> Next {
        if !self.concerns(body) {
            return Next::Nothing;
        }
        self.mirrors[mirror].failures += 1;
        self.tries += 1;
        if self.tries > retries {
            let why = format!("{} (given up after {} tries)", error.message, self.tries);
            return Next::Fail(error.clone().in_words(why));
        }
        let others = self.mirrors.iter().enumerate().any(|(i, other)| i != mirror && other.gone.is_none());
        if others && !mixes && self.body.is_some() && self.tries >= PATIENCE {
            return Next::Anew;
        }
        Next::Again((!others && self.tries > 1).then(|| wait(self.tries - 1)))
    }

    /// A mirror's host does not answer, and `outage` says how long that is borne. It counts for this file only if
    /// the host has answered others meanwhile.
    pub(super) fn outlast(
        &mut self,
        body: Option<&Arc<Body>>,
        mirror: usize,
        error: Error,
        outage: outage::Next,
        retries: u32,
        mixes: bool,
    ) -> Next {
        match outage {
            outage::Next::GiveUp(time) if time.is_zero() => self.leave(body, mirror, error, mixes),
            outage::Next::GiveUp(time) => {
                let why = format!("{} (given up after {})", error.message, duration_in_words(time));
                self.leave(body, mirror, error.in_words(why), mixes)
            }
            outage::Next::Again { failures: 1, .. } => {
                self.try_again(body, mirror, &error, retries, mixes, |_| Instant::now())
            }
            outage::Next::Again { .. } if !self.concerns(body) => Next::Nothing,
            outage::Next::Again { .. } => {
                self.mirrors[mirror].failures += 1;
                Next::Again(None)
            }
        }
    }

    /// What a mirror's answers are held against.
    pub(super) fn pin(&self, mirror: usize) -> Option<Version> {
        let pin = self.mirrors[mirror].pin.as_ref()?;
        match self.trust {
            Trust::Validators => Some(pin.clone()),
            Trust::Checksum | Trust::Sample | Trust::OneAnswer => {
                Some(Version { bytes: pin.bytes, ..Version::default() })
            }
        }
    }

    /// Whether a sample may tell that what another version than the one under way has are the same bytes.
    pub(super) fn may_sample(&self, body: &Arc<Body>, mixes: bool) -> bool {
        let untold = self.trust == Trust::Validators && !self.samples_failed;
        untold && !mixes && body.resumes && self.concerns(Some(body))
    }

    /// No sample tells that all is one file. Where several versions `alternate` it is to come in one answer, else the one
    /// that was under way is there no more.
    pub(super) fn sample_fails(&mut self, body: &Arc<Body>, alternate: bool) -> Next {
        if !self.concerns(Some(body)) {
            return Next::Nothing;
        }
        self.trust = if alternate { Trust::OneAnswer } else { Trust::Validators };
        self.samples_failed = true;
        self.changes += 1;
        Next::Anew
    }

    /// A sample tells, so far, that the version under way and others of its server's are the same.
    pub(super) fn sample_holds(&mut self, body: &Arc<Body>) -> Next {
        if !self.concerns(Some(body)) {
            return Next::Nothing;
        }
        if self.trust == Trust::Validators && !self.samples_failed {
            self.trust = Trust::Sample;
        }
        Next::Again(None)
    }

    /// Another version lies at a mirror than the one under way, or so it says. `mixes` if a checksum tells.
    pub(super) fn changed(&mut self, body: Option<&Arc<Body>>, error: &Error, mixes: bool) -> Next {
        if !self.concerns(body) {
            return Next::Nothing;
        }
        // Requests of before may be answered yet.
        if matches!(self.trust, Trust::Checksum | Trust::Sample) && self.stale < MAX_STALE {
            self.stale += 1;
            return Next::Again(None);
        }
        self.changes += 1;
        match self.trust {
            Trust::Validators if mixes => {
                self.trust = Trust::Checksum;
                return Next::Again(None);
            }
            Trust::Sample => self.trust = Trust::OneAnswer,
            Trust::Validators if self.changes >= CHANGES => self.trust = Trust::OneAnswer,
            _ => {}
        }
        if self.changes > CHANGES {
            let why = format!("{} (it changed {} times under way)", error.message, self.changes);
            return Next::Fail(Error::new(ErrorKind::Changed, why));
        }
        Next::Anew
    }

    /// All of a version is there, and its checksum is wrong: the next one comes from a single mirror.
    pub(super) fn mismatched(&mut self, body: &Arc<Body>, error: Error) -> Next {
        if !self.concerns(Some(body)) {
            return Next::Nothing;
        }
        self.mismatches += 1;
        if self.trust == Trust::Checksum {
            self.trust = Trust::OneAnswer;
        }
        let used: Vec<usize> = (0..self.mirrors.len()).filter(|&i| self.mirrors[i].used).collect();
        if let [only] = used[..] {
            self.mirrors[only].suspect = true;
        }
        let fresh = self.mirrors.iter().position(|mirror| !mirror.suspect && mirror.gone.is_none());
        match fresh {
            Some(fresh) => {
                self.alone = Some(fresh);
                Next::Anew
            }
            None if self.mismatches < 2 => Next::Anew,
            None => Next::Fail(error),
        }
    }
}

impl AsRef<Incoming> for Body {
    fn as_ref(&self) -> &Incoming {
        &self.incoming
    }
}

impl Body {
    pub(super) fn new(
        file: Arc<DownloadFile>,
        incoming: Incoming,
        mirror: usize,
        version: Fingerprint,
        seen: &Version,
        hashers: Hashers,
        size: u64,
    ) -> Self {
        let is_told = !file.record.checksums.is_empty() || seen.tag.is_some() || seen.modified.is_some();
        let front = Front { at: 0, hashers: Some(hashers), queued: false, sums: None };
        Self {
            written: AtomicU64::new(incoming.kept),
            file,
            incoming,
            size: AtomicU64::new(size),
            version,
            modified: seen.time(),
            resumes: seen.ranges && is_told,
            vouched: seen.checksums.clone(),
            mirror,
            sources: Mutex::new(Sources::new(seen)),
            front: Mutex::new(front),
        }
    }

    pub(super) fn front(&self) -> MutexGuard<'_, Front> {
        self.front.lock()
    }

    /// What is there of it comes from `before`.
    pub(super) fn goes_on(&self, before: Validators) {
        let there = missing(self.incoming.size, &self.incoming.absent());
        let one = (![SEVERAL, ALTERNATING].contains(&before)).then_some(before);
        self.sources().are_left(&there, one, before == ALTERNATING);
    }

    pub(super) fn sources(&self) -> MutexGuard<'_, Sources> {
        self.sources.lock()
    }

    pub(super) fn size(&self) -> u64 {
        self.size.load(Relaxed)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.incoming.has_ended()
    }
}
