//! How what has happened at an end reaches the thread that owns its logic.

use crate::sys::sync::mpsc;
use crate::wire::session::Outbox;

/// Where pools and the disk's thread tell what they have done; cheap to clone.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    events: mpsc::Sender<E>,
    session: Outbox,
}

impl<E> EventQueue<E> {
    /// A queue whose owner listens to the peer of `session`, and is woken.
    pub fn new(session: &Outbox) -> (Self, mpsc::Receiver<E>) {
        let (events, happened) = mpsc::channel();
        (Self { events, session: session.clone() }, happened)
    }

    /// Tells the owner; nobody misses it once that is gone.
    pub fn tell(&self, event: E) {
        if self.events.send(event).is_ok() {
            self.session.nudge();
        }
    }
}

impl<E> Clone for EventQueue<E> {
    fn clone(&self) -> Self {
        Self { events: self.events.clone(), session: self.session.clone() }
    }
}
