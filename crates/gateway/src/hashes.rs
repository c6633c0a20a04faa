//! What files hash to, for those who compare: made when it is asked for, and remembered for the version that it was made of.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use adler2::Adler32;
use axum::http::StatusCode;
use tidegate_fetch::checksum::{Algorithm, Hashers};
use tidegate_transfer::endpoint::access::Access;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::sys::sync::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::blocking::blocking;
use crate::limit::Share;
use crate::refusal::{Answer, Refusal};
use crate::tree::File;
use crate::validators::Validators;

/// What a request has in its query that asks for the hash of a file.
pub(crate) const HASH: &str = "hash=blake3";

/// What that is.
pub(crate) const BLAKE3: HashKind = HashKind::Of(Algorithm::Blake3);

/// Most hashes that are remembered.
const MAX_KNOWN: usize = 10_000;

/// Files that are read for this at a time: more would take the disk from those who transfer. Of one token it is one.
const AT_ONCE: usize = 4;

/// How long one may wait for a hash and have it made.
const MAX_TIME: Duration = Duration::from_secs(3600);

/// A kind of hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HashKind {
    /// One that finds accidents only, and that physicists' stores keep.
    Adler32,
    /// Another one.
    Of(Algorithm),
}

/// The hashes that were asked for.
#[derive(Debug)]
pub(crate) struct Hashes {
    /// By kind, and by the tag of the version.
    known: Mutex<HashMap<(HashKind, String), Vec<u8>>>,
    places: Semaphore,
}

impl Default for Hashes {
    fn default() -> Self {
        Self { known: Mutex::default(), places: Semaphore::new(AT_ONCE) }
    }
}

impl Hashes {
    /// The hash of this version of a file, if it is known.
    pub fn known(&self, kind: HashKind, version: &Validators) -> Option<Vec<u8>> {
        self.known.lock().get(&(kind, version.tag.clone())).cloned()
    }

    /// The hash of `file`, for who may do what `access` says and has the `share`; whoever waits for it and leaves, or may not
    /// any more, has it not made.
    pub async fn of(&self, kind: HashKind, access: &Access, share: &Share, file: File) -> Answer<Vec<u8>> {
        if let Some(digest) = self.known(kind, &file.version) {
            return Ok(digest);
        }
        let why = "the hash was not made within an hour: ask for it again, or by `tidegate hash`";
        let late = |_| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why);
        timeout(MAX_TIME, self.make(kind, access.clone(), share, file)).await.map_err(late)?
    }

    async fn make(&self, kind: HashKind, access: Access, share: &Share, file: File) -> Answer<Vec<u8>> {
        let closed = |_| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the endpoint stops");
        let _own = share.hashing.acquire().await.map_err(closed)?;
        let _place = self.places.acquire().await.map_err(closed)?;
        let left = Left(Arc::default());
        let over = Arc::clone(&left.0);
        let tag = file.version.tag.clone();
        let is_over = move || over.load(Relaxed) || access.check_valid().is_err();
        let digest = blocking(move || Ok(hash(kind, &file, &is_over)?)).await?;
        let mut known = self.known.lock();
        if known.len() >= MAX_KNOWN
            && let Some(some) = known.keys().next().cloned()
        {
            known.remove(&some);
        }
        known.insert((kind, tag), digest.clone());
        Ok(digest)
    }
}

/// What `file` hashes to; an error once it is another version, or `over`.
fn hash(kind: HashKind, file: &File, over: &dyn Fn() -> bool) -> Result<Vec<u8>> {
    let each = |take: &mut dyn FnMut(&[u8])| {
        for piece in file.pieces(0..file.size) {
            if over() {
                return Err(Error::new(ErrorKind::Interrupted, "nobody waits for the hash any more"));
            }
            take(&piece.map_err(|error| Error::new(ErrorKind::Changed, error.to_string()))?);
        }
        Ok(())
    };
    match kind {
        // By several threads.
        BLAKE3 => Ok(file.digest(over)?.to_vec()),
        HashKind::Of(algorithm) => {
            let mut hashers = Hashers::new([algorithm]);
            each(&mut |piece| hashers.update(piece))?;
            Ok(hashers.finish().get(algorithm).expect("it was asked for").to_vec())
        }
        HashKind::Adler32 => {
            let mut hasher = Adler32::new();
            each(&mut |piece| hasher.write_slice(piece))?;
            Ok(hasher.checksum().to_be_bytes().to_vec())
        }
    }
}

/// Becomes true once nobody waits any more.
struct Left(Arc<AtomicBool>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
