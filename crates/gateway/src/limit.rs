//! What one token may use at a time, so that who has one leaves the rest to others, and what is begun with a token that is not
//! valid any more, which ends.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::StatusCode;
use hyper::body::{Frame, SizeHint};
use tidegate_http::connections::Line;
use tidegate_transfer::endpoint::access::Access;
use tidegate_transfer::quota::{Held, Quota};
use tidegate_transfer::sys::sync::Mutex;
use tokio::sync::Semaphore;

use crate::refusal::{Answer, Refusal};

/// Most requests that are answered at once, as there are connections.
pub(crate) const MAX_REQUESTS: usize = 1024;

/// Most bytes of memory for what is sent and taken.
const MAX_MEMORY: usize = 256 << 20;

/// Most uploads in parts under way.
const MAX_UPLOADS: usize = 256;

/// Most bytes of disk for what does not fit into memory.
const MAX_SCRATCH: usize = 1 << 30;

/// Most descriptors that a request has open, but for its connection.
const FILES: usize = 6;

/// What there is, and what of it each token has in use.
#[derive(Debug)]
pub(crate) struct Limits {
    whole: Share,
    known: Mutex<HashMap<Arc<str>, Weak<Share>>>,
    running: Arc<Mutex<Running>>,
}

/// One token's part of what there is.
#[derive(Debug)]
pub(crate) struct Share {
    requests: Arc<Quota>,
    memory: Arc<Quota>,
    /// Descriptors.
    files: Arc<Quota>,
    uploads: Arc<Quota>,
    scratch: Arc<Quota>,
    /// Files that are hashed for it.
    pub(crate) hashing: Semaphore,
}

/// The requests that are being answered.
#[derive(Debug, Default)]
struct Running {
    next: u64,
    all: HashMap<u64, (Access, Option<Line>)>,
}

/// A request that is being answered, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    number: u64,
    running: Arc<Mutex<Running>>,
    share: Arc<Share>,
    _held: (Held, Held),
}

impl Limits {
    /// For a process that may have so many `descriptors`: an eighth of them is for what requests open.
    pub fn new(descriptors: usize) -> Self {
        let whole = Share {
            requests: Quota::new(MAX_REQUESTS),
            memory: Quota::new(MAX_MEMORY),
            files: Quota::new((descriptors / 8).clamp(8 * FILES, MAX_REQUESTS * FILES)),
            uploads: Quota::new(MAX_UPLOADS),
            scratch: Quota::new(MAX_SCRATCH),
            hashing: Semaphore::new(1),
        };
        Self { whole, known: Mutex::default(), running: Arc::default() }
    }

    /// One more request of who may do what `access` says, by way of `line`.
    pub fn begin(&self, access: &Access, line: Option<Line>) -> Answer<Turn> {
        let share = self.of(access.name());
        let held = (share.take(&share.requests, 1)?, share.take(&share.files, FILES)?);
        let mut running = self.running.lock();
        running.next += 1;
        let number = running.next;
        running.all.insert(number, (access.clone(), line));
        Ok(Turn { number, running: Arc::clone(&self.running), share, _held: held })
    }

    fn of(&self, name: &str) -> Arc<Share> {
        let mut known = self.known.lock();
        if let Some(share) = known.get(name).and_then(Weak::upgrade) {
            return share;
        }
        known.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(self.whole.part());
        known.insert(name.into(), Arc::downgrade(&share));
        share
    }

    /// What the token that is called `name` may use.
    #[cfg(test)]
    pub fn share(&self, name: &str) -> Arc<Share> {
        self.of(name)
    }

    /// How much memory is in use.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        let known = self.known.lock();
        known.values().filter_map(Weak::upgrade).map(|share| share.memory.used()).sum()
    }

    /// Ends what is being answered to whom may not be answered any more.
    pub(crate) fn end_invalid(&self) {
        let all: Vec<(Access, Line)> = {
            let running = self.running.lock();
            running.all.values().filter_map(|(access, line)| Some((access.clone(), line.clone()?))).collect()
        };
        for (access, line) in all {
            if let Err(error) = access.check_valid() {
                tracing::info!("what token {} had begun is ended: {error}", access.name());
                line.end();
            }
        }
    }
}

impl Share {
    /// A quarter of what can be begun, three eighths of memory; and a sixteenth of that whatever others use.
    fn part(&self) -> Self {
        let part = |whole: &Arc<Quota>, eighths: usize| {
            let most = whole.most() * eighths / 8;
            whole.within(most, most.div_ceil(16))
        };
        Self {
            requests: part(&self.requests, 2),
            memory: part(&self.memory, 3),
            files: part(&self.files, 4),
            uploads: part(&self.uploads, 2),
            scratch: part(&self.scratch, 2),
            hashing: Semaphore::new(1),
        }
    }

    fn take(&self, of: &Arc<Quota>, amount: usize) -> Answer<Held> {
        let what = [
            (&self.requests, "requests"),
            (&self.memory, "memory"),
            (&self.files, "open files"),
            (&self.uploads, "uploads in parts"),
            (&self.scratch, "scratch space"),
        ];
        of.take(amount).ok_or_else(|| {
            let what =
                what.into_iter().find(|(quota, _)| Arc::ptr_eq(quota, of)).map_or("", |(_, what)| what);
            let whose = if of.used() + amount > of.most() { "this token" } else { "all tokens together" };
            let why = format!("{whose} has as many {what} in use as may be: come again in a moment");
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why.replace("many memory", "much memory"))
        })
    }

    /// So many bytes of memory.
    pub fn memory(&self, bytes: usize) -> Answer<Held> {
        self.take(&self.memory, bytes)
    }

    /// How much memory it may use still.
    #[cfg(test)]
    pub fn left(&self) -> usize {
        self.memory.most() - self.memory.used()
    }

    /// Room for one more upload in parts, and for the files that it keeps open.
    pub fn upload(&self) -> Answer<(Held, Held)> {
        Ok((self.take(&self.uploads, 1)?, self.take(&self.files, FILES)?))
    }

    /// Space on disk, of which nothing is used yet.
    pub fn scratch(&self) -> Answer<Held> {
        self.take(&self.scratch, 0)
    }
}

impl Turn {
    /// What its token may use.
    pub fn share(&self) -> &Arc<Share> {
        &self.share
    }

    /// `body`, with which it ends.
    pub(crate) fn until_sent(self, body: Body) -> Body {
        Body::new(Sent { body, _turn: self })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.running.lock().all.remove(&self.number);
    }
}

/// The body of an answer, which counts until it is sent.
struct Sent {
    body: Body,
    _turn: Turn,
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use tidegate_transfer::endpoint::access::token_from_state;
    use tidegate_transfer::endpoint::{Config, Endpoint};
    use tidegate_transfer::wire::ticket::Claims;

    use super::*;

    #[test]
    fn a_token_has_its_share_until_its_answers_are_sent() {
        let outer = tempfile::tempdir().expect("a directory");
        let (root, state) = (outer.path().join("root"), outer.path().join("state"));
        for directory in [&root, &state] {
            std::fs::create_dir(directory).expect("made");
        }
        let endpoint = Endpoint::bind(Config::local(&root, &state)).expect("bound");
        let access = || {
            let token = token_from_state(&state, &Claims::FULL).expect("issued");
            endpoint.access(&token).expect("let in")
        };
        let limits = Limits::new(1 << 20);
        let (one, other) = (access(), access());
        let mut turns: Vec<Turn> =
            (0..MAX_REQUESTS / 4).map(|_| limits.begin(&one, None).expect("a turn")).collect();
        let last = turns.pop().expect("one").until_sent(Body::from("text"));
        assert_eq!(last.size_hint().exact(), Some(4), "a length stays known");
        let refused = limits.begin(&one, None).expect_err("that is its share");
        assert_eq!((refused.status, refused.code), (StatusCode::SERVICE_UNAVAILABLE, "SlowDown"));
        assert!(refused.message.contains("this token has as many requests"), "{}", refused.message);
        let another = limits.begin(&other, None).expect("a token of its own");
        drop(last);
        let again = limits.begin(&one, None).expect("one was sent");
        let held = again.share().memory(MAX_MEMORY / 8 * 3).expect("its share");
        assert!(again.share().memory(1).is_err() && again.share().memory(0).is_ok());
        // Of what all have together a little is left for each.
        let whole = another.share().memory(MAX_MEMORY / 8 * 3).expect("its share");
        let third = limits.begin(&access(), None).expect("a turn");
        assert!(
            third.share().memory(MAX_MEMORY / 8 * 3).is_err()
                && third.share().memory(MAX_MEMORY / 8 * 2).is_ok()
        );
        drop((held, whole, third, turns, again, another));
        limits.of("none");
        assert_eq!(
            (limits.whole.memory.used(), limits.whole.requests.used(), limits.whole.files.used()),
            (0, 0, 0)
        );
        assert_eq!(limits.known.lock().len(), 1, "nothing is remembered of who has none");
        assert!(limits.running.lock().all.is_empty());
    }
}
