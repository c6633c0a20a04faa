//! Files of which a server gives no parts: what comes of one comes in one answer, which readers hand on to each other in the
//! order of their ranges, so that it is asked for once.

use std::cmp::Ordering;
use std::collections::HashMap;

use tidegate_transfer::sys::sync::Mutex;
use url::Url;

/// Answers `A` that are under way, by where their files lie.
pub(super) struct Fronts<A>(Mutex<HashMap<Url, Front<A>>>);

struct Front<A> {
    /// The answer and how far it has come, while nobody reads it.
    free: Option<(u64, A)>,
    is_held: bool,
    /// Whether it was asked for.
    was_asked: bool,
    /// Where those who wait go on.
    waiting: Vec<u64>,
}

impl<A> Default for Fronts<A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<A> Default for Front<A> {
    fn default() -> Self {
        Self { free: None, is_held: false, was_asked: false, waiting: Vec::new() }
    }
}

/// What a reader may do.
pub(super) enum Turn<A> {
    /// Go on with the answer, which has come no further than to its range.
    Take(A),
    /// Ask for all of it, for others as well.
    Ask,
    /// Ask for all of it, for itself: the answer of all has passed its range.
    AskAside,
    /// Wait: another reader has it, or comes first.
    Wait,
    /// Wait: nobody has it, and what comes first may be asked for any moment.
    WaitForOthers,
}

/// A place among those who wait, given up when it is dropped.
pub(super) struct Waiting<'f, A> {
    fronts: &'f Fronts<A>,
    url: &'f Url,
    at: u64,
}

impl<A> Drop for Waiting<'_, A> {
    fn drop(&mut self) {
        if let Some(front) = self.fronts.0.lock().get_mut(self.url)
            && let Some(place) = front.waiting.iter().position(|&at| at == self.at)
        {
            front.waiting.swap_remove(place);
        }
    }
}

impl<A> Fronts<A> {
    /// Whether the file at `url` is known to come in one answer.
    pub fn knows(&self, url: &Url) -> bool {
        self.0.lock().contains_key(url)
    }

    /// The file at `url` comes in one answer. Whoever says so first, and has its beginning, holds that; answers
    /// whether that is so.
    pub fn begin(&self, url: &Url, at: u64) -> bool {
        let mut fronts = self.0.lock();
        let is_first = !fronts.contains_key(url);
        let front = fronts.entry(url.clone()).or_default();
        front.is_held |= is_first && at == 0;
        is_first && at == 0
    }

    /// Waits for what comes from `at` on.
    pub fn wait<'f>(&'f self, url: &'f Url, at: u64) -> Waiting<'f, A> {
        self.0.lock().entry(url.clone()).or_default().waiting.push(at);
        Waiting { fronts: self, url, at }
    }

    /// What who waits for `at` may do: the one whose range comes first goes first. Who is `patient` passes over nothing that
    /// others may be about to ask for.
    pub fn turn(&self, url: &Url, at: u64, patient: bool) -> Turn<A> {
        let mut fronts = self.0.lock();
        let front = fronts.entry(url.clone()).or_default();
        let next = front.free.as_ref().map_or(0, |(at, _)| *at);
        match next.cmp(&at) {
            _ if front.is_held || front.waiting.iter().any(|&other| other < at) => return Turn::Wait,
            Ordering::Less if patient => return Turn::WaitForOthers,
            Ordering::Greater => return Turn::AskAside,
            _ => {}
        }
        front.is_held = true;
        match front.free.take() {
            Some((_, answer)) => Turn::Take(answer),
            None => Turn::Ask,
        }
    }

    /// Whether nobody has asked for the file at `url` in this way before.
    pub fn asks_first(&self, url: &Url) -> bool {
        let mut fronts = self.0.lock();
        !std::mem::replace(&mut fronts.entry(url.clone()).or_default().was_asked, true)
    }

    /// Who held the answer leaves it: what is `left` of it, and from where on.
    pub fn leave(&self, url: &Url, left: Option<(u64, A)>) {
        if let Some(front) = self.0.lock().get_mut(url) {
            (front.free, front.is_held) = (left, false);
        }
    }
}
