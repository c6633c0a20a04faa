//! Lists the source, as much of it at a time as there is room for.

use std::time::Duration;

use super::SenderState;
use crate::logic::sender::SenderEvent;
use crate::offer::{OFFER_BYTES, OFFER_ENTRIES};
use crate::store::{Found, Listed};
use crate::sys::clock::Instant;
use crate::sys::sync::mpsc;

impl SenderState {
    /// Tells of all that the source holds, one event each time it hears that there is `room`.
    pub(super) fn list(&self, room: &mpsc::Receiver<()>) {
        let (mut batch, mut bytes) = (Vec::<Listed>::new(), 0);
        let mut last = Instant::now();
        let listed = self.source.list(&mut |found| match found {
            Found::Entry(listed) => {
                bytes += listed.entry.memory();
                batch.push(listed);
                // Small batches first, so that the first file starts at once.
                let full = batch.len() >= OFFER_ENTRIES || bytes >= OFFER_BYTES;
                if !full && last.elapsed() <= Duration::from_millis(20) {
                    return !self.is_stopped();
                }
                (last, bytes) = (Instant::now(), 0);
                self.found(room, SenderEvent::Listed(std::mem::take(&mut batch)))
            }
            Found::Problem(path, error) => self.found(room, SenderEvent::Problem(path, error)),
            Found::Note(path, why) => {
                if !self.acceptance.wait(|| self.is_stopped()) {
                    return false;
                }
                why.warn(&path);
                self.ledger.leaves_out(&path, why);
                self.found(room, SenderEvent::LeftOut(path, why))
            }
        });
        if let Err(error) = listed {
            self.found(room, SenderEvent::Problem(Vec::new(), error));
        }
        if batch.is_empty() || self.found(room, SenderEvent::Listed(batch)) {
            self.events.tell(SenderEvent::AllListed);
        }
    }

    /// Tells of `event` once there is room, and the receiver has read most of what was said before; `false` once stopped.
    fn found(&self, room: &mpsc::Receiver<()>, event: SenderEvent) -> bool {
        if room.recv().is_err() {
            return false;
        }
        self.outbox.wait_for_room(|| self.is_stopped());
        self.events.tell(event);
        !self.is_stopped()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::sync::Arc;
    use std::time::Duration;

    use crate::pipeline::data_streams::{Arrivals, Supply};
    use crate::pipeline::send::{Peer, Sender};
    use crate::quota::Share;
    use crate::store::file_source::FileSource;
    use crate::sys::confined::Root;
    use crate::terms::{Links, Terms};
    use crate::wire::message::Message;
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
        let (_sender, mut owner) =
            Sender::start(Box::new(source), terms, outbox, supply, ledger, &Share::own(), peer);
        let (mut offered, mut longest) = (0, 0);
        loop {
            owner.turn().expect("no failure");
            match from_us.receive_within(Duration::from_millis(1)).expect("connected") {
                None => {}
                Some(Message::Offer { entries, .. }) => {
                    offered += entries.len();
                    let lengths = entries.iter().map(|entry| entry.path.as_bytes().len());
                    longest = lengths.max().unwrap_or_default().max(longest);
                }
                Some(Message::Listed) => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((offered, longest), (30, long.len()));
    }
}
