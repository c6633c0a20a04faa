//! Offers what the source lists, a window of entries at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::{Asked, SendFile, SenderState};
use crate::error::{Error, ErrorKind};
use crate::manifest::{FileId, Kind};
use crate::offer::{LeftOut, OFFER_BYTES, OFFER_ENTRIES};
use crate::store::{Found, Listed};
use crate::sys::clock::Instant;
use crate::sys::sync::Mutex;
use crate::wire::message::Message;

impl SenderState {
    pub(super) fn list(&self) {
        let mut next: FileId = 0;
        let (mut batch, mut bytes) = (Vec::<Listed>::new(), 0);
        let mut last = Instant::now();
        let listed = self.source.list(&mut |found| {
            match found {
                Found::Entry(listed) => {
                    bytes += listed.entry.memory();
                    batch.push(listed);
                    // Small batches first, so that the first file starts at once.
                    if batch.len() >= OFFER_ENTRIES
                        || bytes >= OFFER_BYTES
                        || last.elapsed() > Duration::from_millis(20)
                    {
                        (last, bytes) = (Instant::now(), 0);
                        return self.offer(&mut next, &mut batch);
                    }
                }
                Found::Problem(path, error) => self.problem(path, error),
                Found::Note(path, why) => self.leaves_out(path, why),
            }
            !self.stopped.load(Relaxed)
        });
        if let Err(error) = listed {
            self.outbox.send(&Message::Problem(Vec::new(), error.clone()));
            self.ledger.failed(b"", error, false);
        }
        if self.offer(&mut next, &mut batch) {
            self.ledger.all_listed();
            self.outbox.send(&Message::Listed);
            self.pending.lock().listed = true;
            self.finish_if_done();
        }
    }

    /// Says that something cannot even be offered.
    fn problem(&self, path: Vec<u8>, error: Error) {
        self.ledger.failed(&path, error.clone(), false);
        self.outbox.send_patiently(&Message::Problem(path, error), || self.stopped.load(Relaxed));
    }

    /// Says that something is left out, to whoever looks here and to whoever asked.
    fn leaves_out(&self, path: Vec<u8>, why: LeftOut) {
        why.warn(&path);
        self.ledger.leaves_out(&path, why);
        if self.peer.asked {
            let message = Message::LeftOut(path, why);
            self.outbox.send_patiently(&message, || self.stopped.load(Relaxed));
        }
    }

    /// Offers `batch`, waiting for room; `false` once stopped.
    fn offer(&self, next: &mut FileId, batch: &mut Vec<Listed>) -> bool {
        let mut pending = self.pending.lock();
        while !pending.has_room() && !self.stopped.load(Relaxed) {
            pending = self.room.wait(pending);
        }
        if self.stopped.load(Relaxed) {
            return false;
        }
        if batch.is_empty() {
            return true;
        }
        let first = *next;
        let mut entries = Vec::with_capacity(batch.len());
        for listed in batch.drain(..) {
            let id = *next;
            let Some(following) = next.checked_add(1) else {
                drop(pending);
                self.fail(Error::new(
                    ErrorKind::Usage,
                    "more than 4 billion entries in one transfer: split it",
                ));
                return false;
            };
            *next = following;
            entries.push(listed.entry.clone());
            pending.names += listed.entry.memory();
            if let Kind::File { size, .. } = listed.entry.kind {
                self.ledger.listed(size);
                let file = SendFile {
                    id,
                    size,
                    listed,
                    hash: Mutex::default(),
                    kept: AtomicU64::new(0),
                    resent: AtomicU64::new(0),
                    arrived: Mutex::default(),
                    ended: AtomicBool::new(false),
                    asked: Mutex::new(Asked::Offered),
                };
                pending.files.insert(id, Arc::new(file));
            } else {
                pending.others.insert(id, listed);
            }
        }
        drop(pending);
        let offer = Message::Offer { first, entries };
        self.outbox.send_patiently(&offer, || self.stopped.load(Relaxed));
        true
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::pipeline::data_streams::{Arrivals, Supply};
    use crate::pipeline::send::{Peer, Sender};
    use crate::quota::Share;
    use crate::store::file_source::FileSource;
    use crate::sys::confined::Root;
    use crate::terms::{Links, Terms};
    use crate::wire::session;

    #[test]
    fn a_path_longer_than_the_kernel_takes_is_offered() {
        let place = tempfile::tempdir().expect("a directory");
        let tree = place.path().as_os_str().as_bytes();
        let long = vec![&[b'n'; 200][..]; 30].join(&b'/');
        Root::open(tree).and_then(|root| root.make_dir(&long)).expect("made");
        let (ours, theirs) = session::pair();
        let (outbox, _inbox) = session::start(ours, "the peer").expect("started");
        let (_to_us, from_us) = session::start(theirs, "us").expect("started");
        let source = FileSource::local(&[[tree, b"/"].concat()], Links::Skip).expect("opened");
        let (terms, peer) = (Terms::default(), Peer { patience: None, asked: false });
        let (ledger, supply) = (Arc::default(), Supply::Await(Arrivals::default()));
        let (_sender, _owner) =
            Sender::start(Box::new(source), terms, outbox, supply, ledger, &Share::own(), peer);
        let (mut offered, mut longest) = (0, 0);
        loop {
            match from_us.receive().expect("a message") {
                Message::Offer { entries, .. } => {
                    offered += entries.len();
                    let lengths = entries.iter().map(|entry| entry.path.as_bytes().len());
                    longest = lengths.max().unwrap_or_default().max(longest);
                }
                Message::Listed => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((offered, longest), (30, long.len()));
    }
}
