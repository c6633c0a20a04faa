//! What two endpoints would do, on its way to who asked. They may take their time to hear it, and go on listening to the
//! session meanwhile, or it would be taken for lost: so the end that tells waits for what has been heard.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::ledger::Ledger;
use crate::offer::WINDOW;
use crate::plan::{PlanListener, Planned};
use crate::sys::sync::{Condvar, Mutex, mpsc};
use crate::sys::thread::{self, JoinHandle};
use crate::wire::message::Message;
use crate::wire::session::Outbox;

/// How often whoever waits looks whether anybody is left to hear it.
const LOOK: Duration = Duration::from_millis(50);

/// What was told and not heard yet, at the end that tells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unheard(Arc<(Mutex<Telling>, Condvar)>);

#[derive(Debug, Default)]
struct Telling {
    /// Whether the peer listens: what answers its request comes first.
    begun: bool,
    /// Entries that it has not heard.
    unheard: usize,
}

impl Unheard {
    /// Tells the peer behind `outbox`, once that has begun, no more at a time than is offered at once.
    pub(crate) fn listener(&self, outbox: &Outbox) -> PlanListener {
        let (shared, outbox) = (Arc::clone(&self.0), outbox.clone());
        PlanListener::new(move |planned: Vec<Planned>| {
            let (telling, changed) = &*shared;
            let mut telling = telling.lock();
            while (!telling.begun || telling.unheard > WINDOW) && !outbox.is_lost() {
                telling = changed.wait_timeout(telling, LOOK).0;
            }
            telling.unheard += planned.len();
            drop(telling);
            outbox.send(&Message::Planned(planned));
        })
    }

    /// The peer may be told.
    pub(crate) fn begin(&self) {
        self.0.0.lock().begun = true;
        self.0.1.notify_all();
    }

    /// The peer has heard so many.
    pub(crate) fn heard(&self, count: u32) {
        let mut telling = self.0.0.lock();
        telling.unheard = telling.unheard.saturating_sub(count as usize);
        self.0.1.notify_all();
    }
}

/// Who is told at the end that asked, by a thread of its own.
#[derive(Debug)]
pub(crate) struct Hearing {
    queue: Option<mpsc::Sender<Vec<Planned>>>,
    thread: Option<JoinHandle<()>>,
}

impl Hearing {
    /// Tells the listener of `ledger`, and the peer behind `outbox` what was heard.
    pub(crate) fn start(ledger: Arc<Ledger>, outbox: Outbox) -> Result<Self> {
        let (queue, to_tell) = mpsc::channel::<Vec<Planned>>();
        let work = move || {
            while let Ok(planned) = to_tell.recv() {
                let count = planned.len() as u32;
                ledger.would(planned);
                outbox.send(&Message::Heard(count));
            }
        };
        let thread = thread::Builder::new()
            .name("tell".to_owned())
            .spawn(work)
            .map_err(|error| Error::new(ErrorKind::Io, format!("cannot start a thread: {error}")))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Some more are to be told.
    pub(crate) fn add(&self, planned: Vec<Planned>) {
        if let Some(queue) = &self.queue {
            let _ = queue.send(planned);
        }
    }

    /// Waits until all of them are.
    pub(crate) fn finish(&mut self) {
        self.queue.take();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("whoever tells what would be done panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Entry, Kind, Timestamp};
    use crate::path::RelPath;
    use crate::plan::PlannedChange;
    use crate::wire::session;

    #[test]
    fn nothing_is_told_before_the_answer_and_no_more_than_is_heard() {
        let (ours, theirs) = session::pair();
        let (outbox, _inbox) = session::start(ours, "the peer").expect("started");
        let (_to_us, from_us) = session::start(theirs, "us").expect("started");
        let path = RelPath::new("a").expect("a name");
        let entry = Entry::new(path, Kind::Directory, 0o755, Timestamp::default());
        let planned = vec![Planned::new(entry, PlannedChange::new(false)); 256];
        let unheard = Unheard::default();
        let (listener, to_say) = (unheard.listener(&outbox), outbox.clone());
        let told = thread::spawn(move || (0..100).for_each(|_| listener.tell(planned.clone())));
        to_say.send(&Message::Listed);
        unheard.begin();
        assert_eq!(from_us.receive().expect("an answer"), Message::Listed);
        // As long as nothing is heard so much comes, and no more: the one who tells waits.
        let mut came = 0;
        while came <= WINDOW {
            let Message::Planned(some) = from_us.receive().expect("some") else { panic!("something else") };
            came += some.len();
        }
        assert!(from_us.receive_within(LOOK).expect("a session").is_none() && !told.is_finished());
        while came < 100 * 256 {
            unheard.heard(256);
            if let Some(Message::Planned(some)) = from_us.receive_within(LOOK).expect("a session") {
                came += some.len();
            }
        }
        told.join().expect("no panic");
    }
}
