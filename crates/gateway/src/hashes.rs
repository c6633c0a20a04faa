//! What files hash to, for those who compare: BLAKE3, made when it is asked for, and remembered for the version that it
//! was made of.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::StatusCode;
use tidegate_transfer::endpoint::access::Access;
use tidegate_transfer::hash::Digest;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::blocking::blocking;
use crate::limit::Share;
use crate::refusal::{Answer, Refusal};
use crate::tree::File;
use crate::validators::Validators;

/// What a request has in its query that asks for the hash of a file.
pub const HASH: &str = "hash=blake3";

/// Most hashes that are remembered.
const MAX_KNOWN: usize = 10_000;

/// Files that are read for this at a time: more would take the disk from those who transfer. Of one token it is one.
const AT_ONCE: usize = 4;

/// How long one may wait for a hash and have it made.
const MAX_TIME: Duration = Duration::from_secs(3600);

/// The hashes that were asked for.
#[derive(Debug)]
pub struct Hashes {
    known: Mutex<HashMap<String, Digest>>,
    places: Semaphore,
}

impl Default for Hashes {
    fn default() -> Self {
        Self { known: Mutex::default(), places: Semaphore::new(AT_ONCE) }
    }
}

impl Hashes {
    /// The hash of this version of a file, if it is known.
    pub fn known(&self, version: &Validators) -> Option<Digest> {
        self.known.lock().expect("not poisoned").get(&version.tag).copied()
    }

    /// The hash of `file`, for who may do what `access` says and has the `share`; whoever waits for it and leaves, or may not
    /// any more, has it not made.
    pub async fn of(&self, access: &Access, share: &Share, file: File) -> Answer<Digest> {
        if let Some(digest) = self.known(&file.version) {
            return Ok(digest);
        }
        let why = "the hash was not made within an hour: ask for it again, or by `tidegate hash`";
        let late = |_| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why);
        timeout(MAX_TIME, self.make(access.clone(), share, file)).await.map_err(late)?
    }

    async fn make(&self, access: Access, share: &Share, file: File) -> Answer<Digest> {
        let closed = |_| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the endpoint stops");
        let _own = share.hashing.acquire().await.map_err(closed)?;
        let _place = self.places.acquire().await.map_err(closed)?;
        let left = Left(Arc::default());
        let over = Arc::clone(&left.0);
        let tag = file.version.tag.clone();
        let is_over = move || over.load(Relaxed) || access.check_valid().is_err();
        let digest = blocking(move || Ok(file.digest(&is_over)?)).await?;
        let mut known = self.known.lock().expect("not poisoned");
        if known.len() >= MAX_KNOWN
            && let Some(some) = known.keys().next().cloned()
        {
            known.remove(&some);
        }
        known.insert(tag, digest);
        Ok(digest)
    }
}

/// Becomes true once nobody waits any more.
struct Left(Arc<AtomicBool>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
