//! Runs of one transfer take turns, so that at no time two of them work on the same unfinished files. A later try of
//! the same run ends the one before it, and so does any run where the one before it has fallen silent; another one
//! that is alive is waited for a little, and then left alone. Each ticket has its own turns: nobody can end what is
//! done with another one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::endpoint::accounts::AccountId;
use crate::error::{Error, ErrorKind, Result};
use crate::spec::{RunId, TransferId};
use crate::sys::clock::Instant;
use crate::sys::sync::{Condvar, Mutex};
use crate::sys::thread;
use crate::wire::session::Outbox;

/// How long a run that is to end may take to let go.
const LET_GO: Duration = Duration::from_secs(10);

/// A run whose initiator says nothing for so long has been left; live ones say something every few seconds.
pub(crate) const SILENT: Duration = Duration::from_secs(10);

/// How often a run that is in the way is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Whose transfer, and which.
pub(crate) type Key = (AccountId, TransferId);

/// The newest run of each transfer that has not ended.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    newest: Mutex<HashMap<Key, Arc<Run>>>,
}

/// What speaks for a run.
pub(crate) trait Speaker {
    /// How long its initiator has said nothing.
    fn silence(&self) -> Duration;

    /// Asks it to end.
    fn stop(&self);

    /// Whether its initiator has left.
    fn is_lost(&self) -> bool;
}

impl Speaker for Outbox {
    fn silence(&self) -> Duration {
        self.silence()
    }

    fn stop(&self) {
        self.close();
    }

    fn is_lost(&self) -> bool {
        self.is_lost()
    }
}

/// A run that wants its turn.
#[derive(Clone, Debug)]
pub struct Candidate<S> {
    /// Its name; `None` from initiators of before version 5, whose later tries cannot be told from other runs.
    pub run: Option<RunId>,
    /// Its session.
    pub session: S,
}

/// One run, from its turn until it has let go.
struct Run {
    name: Option<RunId>,
    speaker: Box<dyn Speaker + Send + Sync>,
    over: Mutex<bool>,
    ended: Condvar,
}

/// The right to work on a transfer's files, until dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    key: Key,
    run: Arc<Run>,
}

impl Turns {
    /// Waits for the turn of a run.
    ///
    /// # Errors
    ///
    /// `Busy` if another run is alive, or does not end although it was asked to; `Interrupted` if a newer run came
    /// meanwhile.
    pub fn take<S>(&self, key: Key, candidate: &Candidate<S>) -> Result<Turn<'_>>
    where
        S: Speaker + Clone + Send + Sync + 'static,
    {
        let end = Instant::now() + SILENT + LOOK;
        loop {
            let older = {
                let mut newest = self.newest.lock();
                let older = newest.get(&key).map(Arc::clone);
                if older.as_ref().is_none_or(|older| older.gives_way_to(candidate.run)) {
                    let run = Arc::new(Run {
                        name: candidate.run,
                        speaker: Box::new(candidate.session.clone()),
                        over: Mutex::default(),
                        ended: Condvar::new(),
                    });
                    newest.insert(key, Arc::clone(&run));
                    drop(newest);
                    // From here on a newer run waits for this one, whatever becomes of it.
                    return Turn { turns: self, key, run }.after(older.as_deref());
                }
                older
            };
            // It may end meanwhile, or turn out to have been left.
            if candidate.session.is_lost() || Instant::now() >= end {
                let since = older.map_or(Duration::ZERO, |older| older.speaker.silence()).as_secs();
                let why = format!(
                    "another run of the same transfer is under way, last heard {since} s ago: wait until it has ended, or stop it"
                );
                return Err(Error::new(ErrorKind::Busy, why));
            }
            thread::sleep(LOOK);
        }
    }
}

impl Run {
    /// Whether a newer run may end this one.
    fn gives_way_to(&self, newer: Option<RunId>) -> bool {
        let unnamed = self.name.is_none() || newer.is_none();
        unnamed || self.name == newer || self.speaker.silence() >= SILENT || self.speaker.is_lost()
    }

    /// Waits for the run's end; `false` if it does not come in time.
    fn wait(&self, patience: Duration) -> bool {
        let over = self.over.lock();
        let (over, _) = self.ended.wait_timeout_while(over, patience, |over| !*over);
        *over
    }
}

impl<'a> Turn<'a> {
    /// Ends `older`, and waits until it has let go.
    fn after(self, older: Option<&Run>) -> Result<Self> {
        if let Some(older) = older {
            older.speaker.stop();
            if !older.wait(LET_GO) {
                return Err(Error::new(ErrorKind::Busy, "an older run of the same transfer does not end"));
            }
        }
        match self.is_newest() {
            true => Ok(self),
            false => Err(Error::new(ErrorKind::Interrupted, "a newer run of the same transfer takes over")),
        }
    }

    fn is_newest(&self) -> bool {
        let newest = self.turns.newest.lock();
        newest.get(&self.key).is_some_and(|run| Arc::ptr_eq(run, &self.run))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut newest = self.turns.newest.lock();
        if newest.get(&self.key).is_some_and(|run| Arc::ptr_eq(run, &self.run)) {
            newest.remove(&self.key);
        }
        drop(newest);
        *self.run.over.lock() = true;
        self.run.ended.notify_all();
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("over", &self.over).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
    use std::sync::mpsc::channel;

    use super::*;
    use crate::sys::clock::manual;

    const KEY: Key = ([1; 32], [7; 16]);

    /// A session of the tests'.
    #[derive(Clone, Default)]
    struct Session {
        stopped: Arc<AtomicBool>,
        silent_s: Arc<AtomicU64>,
    }

    impl Speaker for Session {
        fn silence(&self) -> Duration {
            Duration::from_secs(self.silent_s.load(SeqCst))
        }

        fn stop(&self) {
            self.stopped.store(true, SeqCst);
        }

        fn is_lost(&self) -> bool {
            false
        }
    }

    fn candidate(run: Option<u8>) -> Candidate<Session> {
        Candidate { run: run.map(|run| [run; 16]), session: Session::default() }
    }

    fn wait_for(flag: &AtomicBool) {
        while !flag.load(SeqCst) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_later_try_begins_when_the_earlier_has_let_go() {
        for (first, second) in [(Some(1), Some(1)), (None, None), (None, Some(1))] {
            let turns = Turns::default();
            let earlier = candidate(first);
            let turn = turns.take(KEY, &earlier).expect("nobody before it");
            thread::scope(|scope| {
                let (told, said) = channel();
                let waiting = &turns;
                scope.spawn(move || {
                    let newer = waiting.take(KEY, &candidate(second));
                    told.send("begun").expect("heard");
                    newer.expect("its turn")
                });
                wait_for(&earlier.session.stopped);
                assert!(said.try_recv().is_err(), "the earlier try still holds the files");
                drop(turn);
                assert_eq!(said.recv(), Ok("begun"));
            });
            assert!(turns.newest.lock().is_empty());
        }
    }

    #[test]
    fn another_run_that_is_alive_is_left_alone() {
        let turns = Turns::default();
        let alive = candidate(Some(1));
        let turn = turns.take(KEY, &alive).expect("nobody before it");
        let error = turns.take(KEY, &candidate(Some(2))).expect_err("it is alive");
        assert!(error.kind == ErrorKind::Busy && error.message.contains("another run"), "{error}");
        assert!(!alive.session.stopped.load(SeqCst));
        drop(turn);
        turns.take(KEY, &candidate(Some(2))).map(drop).expect("its turn");
    }

    #[test]
    fn a_run_that_has_fallen_silent_is_taken_over() {
        let turns = Turns::default();
        let left = candidate(Some(1));
        let turn = turns.take(KEY, &left).expect("nobody before it");
        thread::scope(|scope| {
            let newer = scope.spawn(|| turns.take(KEY, &candidate(Some(2))).map(drop));
            left.session.silent_s.store(11, SeqCst);
            wait_for(&left.session.stopped);
            drop(turn);
            newer.join().expect("no panic").expect("its turn");
        });
    }

    #[test]
    fn a_run_that_is_overtaken_while_it_waits_never_begins() {
        let turns = Turns::default();
        let (first, second) = (candidate(Some(1)), candidate(Some(1)));
        let turn = turns.take(KEY, &first).expect("nobody before it");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| turns.take(KEY, &second).map(drop));
            wait_for(&first.session.stopped);
            let third = scope.spawn(|| turns.take(KEY, &candidate(Some(1))).map(drop));
            wait_for(&second.session.stopped);
            drop(turn);
            let error = waiting.join().expect("no panic").expect_err("overtaken");
            assert_eq!(error.kind, ErrorKind::Interrupted);
            third.join().expect("no panic").expect("its turn");
        });
        assert!(turns.newest.lock().is_empty());
    }

    #[test]
    fn nobody_ends_what_is_done_with_another_ticket() {
        let turns = Turns::default();
        let theirs = candidate(None);
        let _theirs = turns.take(KEY, &theirs).expect("its turn");
        let _ours = turns.take(([2; 32], KEY.1), &candidate(None)).expect("its turn");
        let _other = turns.take((KEY.0, [8; 16]), &candidate(None)).expect("its turn");
        assert!(!theirs.session.stopped.load(SeqCst));
    }

    #[test]
    fn another_run_is_waited_for_as_long_as_it_takes_to_see_that_it_was_left() {
        let _clock = manual::stop();
        let turns = Turns::default();
        let _turn = turns.take(KEY, &candidate(Some(1))).expect("nobody before it");
        let began = Instant::now();
        let error = turns.take(KEY, &candidate(Some(2))).expect_err("one is alive");
        assert_eq!((error.kind, began.elapsed()), (ErrorKind::Busy, SILENT + LOOK));
    }

    #[test]
    fn an_older_run_that_does_not_let_go_is_not_waited_for_any_longer() {
        let _clock = manual::stop();
        let turns = Turns::default();
        let older = candidate(Some(1));
        let _turn = turns.take(KEY, &older).expect("nobody before it");
        let began = Instant::now();
        let error = turns.take(KEY, &candidate(Some(1))).expect_err("it holds on");
        assert_eq!((error.kind, began.elapsed()), (ErrorKind::Busy, LET_GO));
        assert!(older.session.stopped.load(SeqCst));
    }
}
