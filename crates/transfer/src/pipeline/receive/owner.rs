//! Does what the logic of a receiver says: on the thread of its conversation, which has it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::disk::{DestinationDisk, Task};
use super::names::Offered;
use super::splitting::Splitting;
use super::streams::{NewStream, Streams};
use super::{Destination, Receiver};
use crate::error::{Error, Result};
use crate::fence::Permit;
use crate::hash::Digest;
use crate::logic::asked::Asked;
use crate::logic::deciding::Policy;
use crate::logic::receiver::{OfferRules, ReceiverAction, ReceiverEvent, ReceiverLogic, ReceiverTerms};
use crate::manifest::FileId;
use crate::pipeline::incoming::{Change, Incoming};
use crate::pipeline::write_path::{WriteHandler, spawn};
use crate::sys::sync::mpsc;
use crate::sys::thread::JoinHandle;
use crate::wire::message::Message;

/// What reaches the owner from other threads.
pub(super) enum Happening {
    /// What its logic is to know.
    Event(ReceiverEvent),
    /// A stream that the peer dialled, or that was dialled here.
    Stream(NewStream),
}

/// What decides for a [`Receiver`].
pub(crate) struct ReceiverOwner {
    logic: ReceiverLogic,
    actions: Vec<ReceiverAction>,
    happened: mpsc::Receiver<Happening>,
    receiver: Arc<Receiver>,
    permit: Option<Arc<Permit>>,
    streams: Streams,
    /// What the disk's thread is to do, and which files are whole.
    tasks: Option<mpsc::Sender<Task>>,
    vouched: Option<mpsc::Sender<Arc<Incoming>>>,
    background: Vec<JoinHandle<()>>,
    handing_in: Option<JoinHandle<()>>,
}

tidegate_contract::opaque!(ReceiverOwner);

impl ReceiverOwner {
    /// Starts the threads besides streams' and writers'.
    pub(super) fn start(
        receiver: &Arc<Receiver>,
        asked: Asked,
        destination: Destination,
        permit: Option<Arc<Permit>>,
        happened: mpsc::Receiver<Happening>,
    ) -> Self {
        let shared = &receiver.shared;
        let Destination { catalogue, leftovers, asks_hashes, taking, selection, .. } = destination;
        let Destination { moving, mirror, split, .. } = destination;
        let metadata = &shared.share.metadata;
        let policy = Policy::of(&shared.terms, taking, asks_hashes);
        let logic = ReceiverLogic::new(ReceiverTerms {
            policy,
            offers: OfferRules::new(asked, selection.as_ref(), taking),
            moving,
            mirrors: mirror.is_some(),
            metadata: Arc::clone(metadata),
        });
        let (tasks, to_do) = mpsc::channel();
        let (to_hand_in, vouched) = mpsc::channel();
        let (to_continue, continued) = mpsc::channel();
        let disk = DestinationDisk {
            shared: Arc::clone(shared),
            policy,
            catalogue,
            leftovers,
            mirror,
            offered: Offered::new(metadata),
            folded: Offered::new(metadata),
            split: Splitting::of(split),
            shared_parts: HashMap::new(),
            continued: to_continue,
        };
        let background = [
            spawn(shared, "disk", move |_| disk.work(&to_do)),
            spawn(shared, "continue", move |shared| shared.continue_files(&continued)),
        ];
        let handing_in = spawn(shared, "hand-in", move |shared| shared.hand_in_vouched(&vouched));
        Self {
            logic,
            actions: Vec::new(),
            happened,
            receiver: Arc::clone(receiver),
            permit,
            streams: Streams::default(),
            tasks: Some(tasks),
            vouched: Some(to_hand_in),
            background: background.into_iter().flatten().collect(),
            handing_in,
        }
    }

    /// Acts on a message of the sender.
    pub fn hear(&mut self, message: Message) -> Result<()> {
        let heard = self.logic.hear(message, &mut self.actions);
        self.act().and(heard)
    }

    /// Acts on what has happened since.
    pub fn turn(&mut self) -> Result<()> {
        while let Ok(happening) = self.happened.try_recv() {
            match happening {
                Happening::Event(event) => self.logic.happened(event, &mut self.actions),
                Happening::Stream(stream) => self.streams.add(&self.receiver.shared, stream),
            }
        }
        self.act()
    }

    /// Whether everything is durable and the sender has been told.
    pub fn is_finished(&self) -> bool {
        self.logic.is_finished()
    }

    /// Raises the buffers of streams that they hold back; called a few times a second.
    pub fn check_streams(&self) {
        self.streams.look_at_buffers();
    }

    fn act(&mut self) -> Result<()> {
        let actions = std::mem::take(&mut self.actions);
        actions.into_iter().try_for_each(|action| self.do_one(action))
    }

    fn do_one(&mut self, action: ReceiverAction) -> Result<()> {
        let shared = &self.receiver.shared;
        match action {
            ReceiverAction::Say(message) => shared.outbox.send(&message),
            ReceiverAction::Count(count) => shared.path.ledger.count(count),
            ReceiverAction::Look { first, entries, open } => self.ask(Task::Look { first, entries, open }),
            ReceiverAction::Digest(files) => self.ask(Task::Digest(files)),
            ReceiverAction::Settle(files) => self.ask(Task::Settle(files)),
            ReceiverAction::ReadAgain(id, entry, left) => self.ask(Task::ReadAgain(id, entry, left)),
            ReceiverAction::Share(id, entry) => self.ask(Task::Share(id, entry)),
            ReceiverAction::Begin(files) => self.ask(Task::Begin(files)),
            ReceiverAction::Discard(entry) => self.ask(Task::Discard(entry)),
            ReceiverAction::CompareNames(directories) => self.ask(Task::CompareNames(directories)),
            ReceiverAction::Delete => self.ask(Task::Delete),
            ReceiverAction::Conclude => self.ask(Task::Conclude),
            ReceiverAction::Vouch(hashes) => self.vouch(hashes)?,
            ReceiverAction::HandIn(id) => {
                if let Some((file, _)) = shared.file(id) {
                    self.hand_in(file);
                }
            }
            ReceiverAction::End(id) => shared.end(id),
            ReceiverAction::Permit(number, leave) => match &self.permit {
                Some(permit) => permit.answered(number, leave)?,
                None => return Err(Error::protocol("the sender answered what it was not asked")),
            },
            ReceiverAction::LookAfter(streams, for_ms) => {
                for lost in self.streams.look_after(&streams, Duration::from_millis(for_ms.into())) {
                    shared.outbox.send(&Message::StreamLost(lost));
                }
            }
            ReceiverAction::Warn(path, why) => why.warn(&path),
            ReceiverAction::Break(error) => shared.fail(error),
        }
        Ok(())
    }

    fn ask(&self, task: Task) {
        if let Some(tasks) = &self.tasks {
            let _ = tasks.send(task);
        }
    }

    /// Holds what has come against what the sender says.
    fn vouch(&self, hashes: Vec<(FileId, u64, Digest)>) -> Result<()> {
        let shared = &self.receiver.shared;
        for (id, segment, digest) in hashes {
            let Some((file, _)) = shared.file(id) else { continue };
            match file.expect(segment, digest)? {
                Change::Complete => self.hand_in(file),
                change => shared.path.follow(&**shared, &file, change),
            }
        }
        Ok(())
    }

    fn hand_in(&self, file: Arc<Incoming>) {
        if let Some(queue) = &self.vouched {
            let _ = queue.send(file);
        }
    }

    /// Stops, records what is verified, and waits for every worker. Afterwards the journal is free for the next run.
    pub fn end(&mut self) {
        let shared = &self.receiver.shared;
        shared.path.stop();
        self.streams.end();
        drop(shared.handing_over.write());
        // What is whole is handed in while somebody commits.
        self.vouched.take();
        join_all(self.handing_in.take());
        self.receiver.threads.join();
        self.tasks.take();
        join_all(self.background.drain(..));
        let files = shared.files.read();
        shared.path.ledger.leaves(files.values().map(|file| file.verified_bytes()).sum());
        shared.path.release_journal();
    }
}

impl Drop for ReceiverOwner {
    fn drop(&mut self) {
        self.end();
    }
}

fn join_all(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        if thread.join().is_err() {
            tracing::error!("a worker of the receiver panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ledger::Ledger;
    use crate::manifest::{Entry, Kind, Timestamp};
    use crate::offer::{OFFER_ENTRIES, Verdict};
    use crate::path::RelPath;
    use crate::quota::{Quota, Share};
    use crate::store::file_sink::FileSink;
    use crate::store::folding::Folding;
    use crate::sys::confined::scratch;
    use crate::terms::{Compare, Purpose, Terms};
    use crate::wire::session::{self, Inbox, Outbox};

    fn entry(path: &str, kind: Kind) -> Entry {
        Entry::new(RelPath::new(path).expect("a name"), kind, 0o755, Timestamp::default())
    }

    fn file(path: &str) -> Entry {
        entry(path, Kind::File { size: 5, fingerprint: [1; 16] })
    }

    /// A receiver into `sink`, and what its sender hears and says.
    fn receiver(sink: FileSink, terms: Terms) -> (ReceiverOwner, Inbox, Outbox) {
        receiver_of(sink, terms, Share::own())
    }

    fn receiver_of(sink: FileSink, terms: Terms, share: Share) -> (ReceiverOwner, Inbox, Outbox) {
        let (ours, theirs) = session::pair();
        let (outbox, _) = session::start(ours, "the sender").expect("started");
        let (back, heard) = session::start(theirs, "the receiver").expect("started");
        let destination = Destination::nowhere(Arc::new(sink));
        let ledger = Arc::<Ledger>::default();
        let (_, owner) = Receiver::start(Asked::Anything, destination, terms, outbox, ledger, share);
        (owner, heard, back)
    }

    fn verdicts(owner: &mut ReceiverOwner, heard: &Inbox, count: usize) -> Vec<Verdict> {
        let mut all = BTreeMap::new();
        while all.len() < count {
            owner.turn().expect("nothing is wrong");
            let message = heard.receive_within(Duration::from_millis(1)).expect("it is there");
            if let Some(Message::Verdicts { first, verdicts }) = message {
                all.extend((first..).zip(verdicts));
            }
        }
        all.into_values().collect()
    }

    #[test]
    fn what_stands_there_in_another_spelling_stays() {
        for purpose in [Purpose::Copy, Purpose::Plan] {
            let (directory, root) = scratch();
            std::fs::write(directory.path().join("README"), "earlier").expect("written");
            let apart = crate::store::apart::Apart::default();
            let sink = FileSink::new((&root, b""), false, &[1; 16], purpose, apart).expect("a sink");
            sink.assume(Folding::CASEFOLD);
            let (mut owner, heard, _back) = receiver(sink, Terms { purpose, ..Terms::default() });
            let entries = vec![file("readme"), file("other")];
            owner.hear(Message::Offer { first: 0, entries }).expect("taken");
            let [Verdict::Failed(error), other] = &verdicts(&mut owner, &heard, 2)[..] else {
                panic!("two verdicts")
            };
            assert!(error.message.contains("has README"), "{error}");
            assert!(!matches!(other, Verdict::Failed(_)), "{other:?}");
        }
    }

    #[test]
    fn of_two_names_that_are_one_at_the_destination_the_second_fails() {
        for purpose in [Purpose::Copy, Purpose::Plan] {
            let (directory, root) = scratch();
            let apart = crate::store::apart::Apart::default();
            let sink = FileSink::new((&root, b""), false, &[1; 16], purpose, apart).expect("a sink");
            sink.assume(Folding::CASEFOLD);
            let (mut owner, heard, _back) = receiver(sink, Terms { purpose, ..Terms::default() });
            let directory_of = |path| entry(path, Kind::Directory);
            let entries = vec![
                file("README"),
                file("readme"),
                directory_of("Dir"),
                file("Dir/x"),
                directory_of("dir"),
                // Directories of one name merge, as always.
                directory_of("Dir"),
            ];
            owner.hear(Message::Offer { first: 0, entries }).expect("taken");
            let failed: Vec<_> = verdicts(&mut owner, &heard, 6)
                .into_iter()
                .map(|verdict| match verdict {
                    Verdict::Failed(error) => Some(error.message),
                    _ => None,
                })
                .collect();
            let why = |index: usize| {
                failed[index].as_deref().is_some_and(|why| why.contains("takes it for another"))
            };
            assert!(why(1) && why(4), "{failed:?}");
            assert_eq!(failed.iter().flatten().count(), 2, "{failed:?}");
            drop(owner);
            drop(directory);
        }
    }

    #[test]
    fn of_files_that_wait_for_others_to_end_those_that_have_begun_are_told() {
        let (_directory, root) = scratch();
        let apart = crate::store::apart::Apart::default();
        let sink = FileSink::new((&root, b""), false, &[1; 16], Purpose::Copy, apart).expect("a sink");
        let metadata = Quota::new(1 << 20);
        let others = metadata.take(900 << 10).expect("there is room");
        let share = Share { metadata, ..Share::own() };
        let (mut owner, heard, _back) = receiver_of(sink, Terms::default(), share);
        let entries = vec![file("first"), file("second")];
        owner.hear(Message::Offer { first: 0, entries }).expect("taken");
        assert!(matches!(verdicts(&mut owner, &heard, 1)[..], [Verdict::Want { .. }]));
        drop(others);
        assert!(matches!(verdicts(&mut owner, &heard, 1)[..], [Verdict::Want { .. }]));
    }

    #[test]
    fn as_many_files_are_compared_at_once_as_a_sender_may_offer_and_have_answered() {
        let (directory, root) = scratch();
        let count = 2 * (crate::offer::WINDOW + OFFER_ENTRIES);
        let names: Vec<String> = (0..count).map(|number| format!("f{number}")).collect();
        for name in &names {
            std::fs::write(directory.path().join(name), "12345").expect("written");
        }
        let apart = crate::store::apart::Apart::default();
        let sink = FileSink::new((&root, b""), false, &[1; 16], Purpose::Compare, apart).expect("a sink");
        let terms = Terms { purpose: Purpose::Compare, compare: Compare::Checksum, ..Terms::default() };
        let (mut owner, heard, _back) = receiver(sink, terms);
        let offer = |owner: &mut ReceiverOwner, from: usize, to: usize| {
            for first in (from..to).step_by(OFFER_ENTRIES) {
                let entries = names[first..first + OFFER_ENTRIES].iter().map(|name| file(name)).collect();
                owner.hear(Message::Offer { first: first as FileId, entries }).expect("taken");
            }
        };
        let half = count / 2;
        offer(&mut owner, 0, half);
        let there = verdicts(&mut owner, &heard, half);
        let Verdict::Exists(root) = there[0] else { panic!("{:?}", there[0]) };
        // The sender has ended these by what it says now, and offers as many more at once.
        for first in (0..half).step_by(OFFER_ENTRIES) {
            let same = (first..first + OFFER_ENTRIES).map(|id| (id as FileId, root)).collect();
            owner.hear(Message::Keep(same)).expect("taken");
        }
        offer(&mut owner, half, count);
        assert_eq!(verdicts(&mut owner, &heard, half).len(), half);
    }
}
