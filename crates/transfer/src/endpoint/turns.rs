//! Runs of one transfer take turns. A newer run ends the one before it and begins when that one has let go of
//! everything; a run that is overtaken while it waits never begins. So at no time do two runs work on the same
//! unfinished files, however quickly a peer dies and comes again.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::wire::message::TransferId;

/// The newest run of each transfer that has not ended.
#[derive(Debug, Default)]
pub struct Turns {
    newest: Mutex<HashMap<TransferId, Arc<Run>>>,
}

/// One run, from its request until it has let go.
struct Run {
    stop: Box<dyn Fn() + Send + Sync>,
    over: Mutex<bool>,
    ended: Condvar,
}

/// The right to work on a transfer's files, until dropped.
#[derive(Debug)]
pub struct Turn<'a> {
    turns: &'a Turns,
    id: TransferId,
    run: Arc<Run>,
}

impl Turns {
    /// Asks the run before this one to stop and waits for its end, `patience` at most.
    ///
    /// `stop` is called, from another thread, when a newer run wants its turn.
    ///
    /// # Errors
    ///
    /// `Busy` if the older run does not end, `Interrupted` if a newer one came meanwhile.
    pub fn take(
        &self,
        id: TransferId,
        patience: Duration,
        stop: impl Fn() + Send + Sync + 'static,
    ) -> Result<Turn<'_>> {
        let run = Arc::new(Run { stop: Box::new(stop), over: Mutex::default(), ended: Condvar::new() });
        let older = self.newest.lock().expect("not poisoned").insert(id, Arc::clone(&run));
        // From here on a newer run waits for this one, whatever becomes of it.
        let turn = Turn { turns: self, id, run };
        if let Some(older) = older {
            (older.stop)();
            if !older.wait(patience) {
                return Err(Error::new(ErrorKind::Busy, "an older run of the same transfer does not end"));
            }
        }
        match turn.is_newest() {
            true => Ok(turn),
            false => Err(Error::new(ErrorKind::Interrupted, "a newer run of the same transfer takes over")),
        }
    }
}

impl Run {
    /// Waits for the run's end; `false` if it does not come in time.
    fn wait(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        let mut over = self.over.lock().expect("not poisoned");
        while !*over {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            over = self.ended.wait_timeout(over, left).expect("not poisoned").0;
        }
        true
    }
}

impl Turn<'_> {
    fn is_newest(&self) -> bool {
        let newest = self.turns.newest.lock().expect("not poisoned");
        newest.get(&self.id).is_some_and(|run| Arc::ptr_eq(run, &self.run))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut newest = self.turns.newest.lock().expect("not poisoned");
        if newest.get(&self.id).is_some_and(|run| Arc::ptr_eq(run, &self.run)) {
            newest.remove(&self.id);
        }
        drop(newest);
        *self.run.over.lock().expect("not poisoned") = true;
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
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    const ID: TransferId = [7; 16];
    const LONG: Duration = Duration::from_secs(30);

    /// A flag and what raises it.
    fn flag() -> (Arc<AtomicBool>, impl Fn() + Send + Sync + 'static) {
        let raised = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&raised);
        (raised, move || shared.store(true, SeqCst))
    }

    fn wait_for(flag: &AtomicBool) {
        while !flag.load(SeqCst) {
            thread::yield_now();
        }
    }

    #[test]
    fn a_newer_run_begins_when_the_older_has_let_go() {
        let turns = Turns::default();
        let (stopped, stop) = flag();
        let older = turns.take(ID, LONG, stop).expect("nobody before it");
        thread::scope(|scope| {
            let (told, said) = channel();
            let waiting = &turns;
            scope.spawn(move || {
                let newer = waiting.take(ID, LONG, || ());
                told.send("begun").expect("heard");
                newer.expect("its turn")
            });
            wait_for(&stopped);
            assert!(said.try_recv().is_err(), "the older run still holds the files");
            drop(older);
            assert_eq!(said.recv(), Ok("begun"));
        });
        assert!(turns.newest.lock().expect("not poisoned").is_empty());
    }

    #[test]
    fn a_run_that_is_overtaken_while_it_waits_never_begins() {
        let turns = Turns::default();
        let (first_stopped, stop_first) = flag();
        let (second_stopped, stop_second) = flag();
        let first = turns.take(ID, LONG, stop_first).expect("nobody before it");
        thread::scope(|scope| {
            let second = scope.spawn(|| turns.take(ID, LONG, stop_second).map(drop));
            wait_for(&first_stopped);
            let third = scope.spawn(|| turns.take(ID, LONG, || ()).map(drop));
            wait_for(&second_stopped);
            drop(first);
            let error = second.join().expect("no panic").expect_err("overtaken");
            assert_eq!(error.kind, ErrorKind::Interrupted);
            third.join().expect("no panic").expect("its turn");
        });
        assert!(turns.newest.lock().expect("not poisoned").is_empty());
    }

    #[test]
    fn an_end_that_does_not_come_is_an_error_and_the_next_run_may_try_again() {
        let turns = Turns::default();
        let stuck = turns.take(ID, LONG, || ()).expect("nobody before it");
        let error = turns.take(ID, Duration::from_millis(1), || ()).expect_err("it is stuck");
        assert_eq!(error.kind, ErrorKind::Busy);
        // The journal's lock keeps the next one out for as long as the stuck one has it.
        drop(turns.take(ID, LONG, || ()).expect("the last one known has ended"));
        drop(stuck);
        assert!(turns.newest.lock().expect("not poisoned").is_empty());
    }

    #[test]
    fn other_transfers_do_not_wait() {
        let turns = Turns::default();
        let _one = turns.take(ID, LONG, || panic!("not asked to stop")).expect("its turn");
        let _other = turns.take([8; 16], LONG, || ()).expect("its turn");
    }
}
