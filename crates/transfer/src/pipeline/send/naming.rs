//! Tells the receiver what each directory of the source holds, as much at a time as it wants.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{LOOK, SenderState};
use crate::error::{Error, ErrorKind, Result};
use crate::offer::{DirectoryNames, TOLD_DIRECTORIES};
use crate::sys::sync::{Condvar, Mutex};
use crate::sys::thread;
use crate::wire::message::Message;

/// Bytes of names in a message, about.
const PORTION: usize = 256 << 10;

/// Most messages that a receiver may want at a time.
const MAX_WANTED: u32 = 64;

/// How many messages of names are wanted.
#[derive(Debug, Default)]
pub(super) struct Naming {
    wanted: Mutex<(bool, u32)>,
    changed: Condvar,
}

impl Naming {
    /// Nobody waits here any more.
    pub(super) fn close(&self) {
        drop(self.wanted.lock());
        self.changed.notify_all();
    }
}

impl SenderState {
    /// The receiver wants so many more messages; the first time the telling begins.
    pub(super) fn want_names(self: &Arc<Self>, messages: u32) -> Result<()> {
        if !self.pending.lock().finish_sent {
            return Err(Error::protocol("names were asked for before everything was sent"));
        }
        let began = {
            let mut wanted = self.naming.wanted.lock();
            wanted.1 = wanted.1.saturating_add(messages).min(MAX_WANTED);
            std::mem::replace(&mut wanted.0, true)
        };
        self.naming.changed.notify_all();
        if !began {
            let shared = Arc::clone(self);
            let tell = move || shared.tell_names();
            thread::Builder::new()
                .name("names".to_owned())
                .spawn(tell)
                .map_err(|error| Error::new(ErrorKind::Io, format!("cannot start a thread: {error}")))?;
        }
        Ok(())
    }

    fn tell_names(&self) {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let told = self.source.names(&mut |directory: DirectoryNames| {
            bytes += directory.names.len() + directory.directory.len();
            batch.push(directory);
            if bytes < PORTION && batch.len() < TOLD_DIRECTORIES {
                return true;
            }
            bytes = 0;
            self.tell_batch(std::mem::take(&mut batch))
        });
        if batch.is_empty() || told.is_err() || self.tell_batch(batch) {
            self.outbox.send(&Message::NamesEnd(told.err()));
        }
    }

    /// Waits until the receiver wants more; `false` once stopped.
    fn tell_batch(&self, batch: Vec<DirectoryNames>) -> bool {
        let mut wanted = self.naming.wanted.lock();
        while (wanted.1 == 0 || self.is_behind()) && !self.stopped.load(Relaxed) {
            wanted = self.naming.changed.wait_timeout(wanted, LOOK).0;
        }
        if self.stopped.load(Relaxed) {
            return false;
        }
        wanted.1 -= 1;
        drop(wanted);
        self.outbox.send(&Message::Names(batch));
        true
    }
}
