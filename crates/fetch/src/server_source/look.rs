//! What servers say of files before they are offered: several are asked at a time, and answers come in the order of the
//! questions.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::manifest::Fingerprint;
use tidegate_transfer::sys::sync::Mutex;
use url::Url;

use super::line::LinePool;
use crate::get::memory::{Validators, label, unlike_any, validators};
use crate::remote::Version;

/// Most that ask at a time.
const LOOKERS: usize = 16;

/// Most files that are asked about, or whose answers wait for those before them.
const AHEAD: usize = 4 * LOOKERS;

/// In place of the validators of a version that has none.
const NONE: Validators = [0; 8];

/// Which version of the file at `url` this is, so that an answer can be held against it.
pub(super) fn version_of(url: &Url, size: u64, seen: &Version, number: u32) -> Fingerprint {
    match seen.tag.is_some() || seen.modified.is_some() {
        true => label(url, size, validators(seen)),
        false => {
            let mut unlike = unlike_any(0, number);
            unlike[8..].copy_from_slice(&NONE);
            unlike
        }
    }
}

/// Whether its server tells nothing by which one version could be told from the next.
pub(super) fn is_untold(listed: &Fingerprint) -> bool {
    listed[8..] == NONE
}

/// Whether an answer is of the version that was listed, as far as both tell.
pub(super) fn is_version(url: &Url, size: u64, seen: &Version, listed: &Fingerprint) -> bool {
    let tells = !is_untold(listed) && (seen.tag.is_some() || seen.modified.is_some());
    seen.bytes.is_none_or(|bytes| bytes == size) && (!tells || label(url, size, validators(seen)) == *listed)
}

/// A question, and where its answer goes.
type Question = (Url, SyncSender<Result<Version>>);

/// Who asks about files, each with what is known of it.
pub(super) struct Looks<T> {
    questions: SyncSender<Question>,
    /// What was asked about, the first one first.
    waiting: VecDeque<(T, Receiver<Result<Version>>)>,
}

/// Does `work` with what asks over `lines`.
pub(super) fn with_looks<T, R>(lines: &LinePool, work: impl FnOnce(Looks<T>) -> R) -> R {
    let (questions, asked) = sync_channel(AHEAD);
    let asked = Mutex::new(asked);
    thread::scope(|scope| {
        for _ in 0..LOOKERS {
            scope.spawn(|| answer(&asked, lines));
        }
        work(Looks { questions, waiting: VecDeque::new() })
    })
}

/// Answers one question after the other, until nobody asks any more.
fn answer(asked: &Mutex<Receiver<Question>>, lines: &LinePool) {
    loop {
        let next = asked.lock().recv();
        let Ok((url, answer)) = next else { return };
        // Whoever asked may have left.
        let _ = answer.send(lines.look(&url).map_err(|refusal| refusal.error));
    }
}

impl<T> Looks<T> {
    /// Asks about the file at `url`, of which `known` is known.
    pub fn ask(&mut self, known: T, url: Url) {
        let (answer, answered) = sync_channel(1);
        // Who answers is there as long as this is, and what it waits for is shorter than the queue.
        let _ = self.questions.send((url, answer));
        self.waiting.push_back((known, answered));
    }

    /// What is known of the next file without asking.
    pub fn know(&mut self, known: T, seen: Version) {
        let (answer, answered) = sync_channel(1);
        let _ = answer.send(Ok(seen));
        self.waiting.push_back((known, answered));
    }

    /// The next answer, which is waited for if no more may be asked; `None` if there is none yet.
    pub fn ready(&mut self) -> Option<(T, Result<Version>)> {
        if self.waiting.len() >= AHEAD {
            return self.next();
        }
        let answer = self.waiting.front()?.1.try_recv().ok()?;
        self.waiting.pop_front().map(|(known, _)| (known, answer))
    }

    /// The next answer, which is waited for; `None` if nothing more was asked.
    pub fn next(&mut self) -> Option<(T, Result<Version>)> {
        let (known, answered) = self.waiting.pop_front()?;
        let over = || Err(Error::new(ErrorKind::Interrupted, "stopped"));
        Some((known, answered.recv().unwrap_or_else(|_| over())))
    }
}
