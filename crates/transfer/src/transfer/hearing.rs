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
pub(crate) struct Unheard(Arc<(Mutex<usize>, Condvar)>);

impl Unheard {
    /// Tells the peer behind `outbox`, no more at a time than is offered at once.
    pub(crate) fn listener(&self, outbox: &Outbox) -> PlanListener {
        let (unheard, outbox) = (self.clone(), outbox.clone());
        PlanListener::new(move |planned: Vec<Planned>| {
            let (entries, changed) = &*unheard.0;
            let mut entries = entries.lock().expect("not poisoned");
            while *entries > WINDOW && !outbox.is_lost() {
                entries = changed.wait_timeout(entries, LOOK).expect("not poisoned").0;
            }
            *entries += planned.len();
            drop(entries);
            outbox.send(&Message::Planned(planned));
        })
    }

    /// The peer has heard so many.
    pub(crate) fn heard(&self, count: u32) {
        let (entries, changed) = &*self.0;
        let mut entries = entries.lock().expect("not poisoned");
        *entries = entries.saturating_sub(count as usize);
        changed.notify_all();
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
