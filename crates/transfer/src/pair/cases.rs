//! What both ends decide together.

use super::*;
use crate::manifest::{BLOCK, SEGMENT};
use crate::offer::Verdict;

mod comparing;
mod continuing;
mod copying;
mod mirroring;
mod moving;
mod peers;
mod planning;
mod random;
mod windows;

fn pair() -> Pair {
    Pair::new(PairSettings::default())
}

/// A pair whose source has files of all sizes, directories and links.
fn filled(settings: PairSettings) -> Pair {
    let mut pair = Pair::new(settings);
    let tree = &mut pair.source.tree;
    tree.directory("d").mode = 0o700;
    tree.directory("d/empty").mtime = 77;
    for (number, size) in SIZES.into_iter().enumerate() {
        tree.file(&format!("d/f{number}"), size, number as u64 + 1).mtime += number as i64;
    }
    tree.file("top", 9, 20).mode = 0o600;
    tree.link("d/link", "../top");
    tree.link("dangling", "nowhere");
    pair
}

/// Files of which [`filled`] has the given number.
const FILES: u64 = SIZES.len() as u64 + 1;

/// A destination that has been copied to once.
fn copied(settings: PairSettings) -> Pair {
    let mut pair = filled(settings);
    pair.succeed();
    pair
}

impl Pair {
    /// Files that were sent, that were there, that got another mode or time, and that failed.
    fn files(&self) -> (u64, u64, u64, u64) {
        let totals = self.sent();
        (totals.files_done, totals.files_skipped, self.sender.ledger.files_refreshed(), totals.files_failed)
    }

    /// Why entries failed, as the sender counts it.
    fn failures(&self) -> Vec<String> {
        self.sender.ledger.failures().into_iter().map(|failure| failure.error.message).collect()
    }

    /// How many messages of an end are so.
    fn count(&self, end: End, is_so: impl Fn(&Message) -> bool) -> usize {
        self.said.iter().filter(|(by, message)| *by == end && is_so(message)).count()
    }

    /// The verdicts in this run that are so.
    fn verdicts(&self, is_so: impl Fn(&Verdict) -> bool) -> usize {
        let verdicts = self.said.iter().filter_map(|(_, message)| match message {
            Message::Verdicts { verdicts, .. } => Some(verdicts),
            _ => None,
        });
        verdicts.flatten().filter(|verdict| is_so(verdict)).count()
    }
}

#[test]
fn what_the_module_shows_is_so() {
    let mut pair = Pair::new(PairSettings { seed: 7, loses: 20, ..PairSettings::default() });
    pair.source.tree.directory("d");
    pair.source.tree.file("d/a", SEGMENT + 5, 1);
    pair.source.tree.file("b", 9, 2).mode = 0o600;
    pair.disk.tree.file("b", 9, 3);
    pair.disk.faults.fail(Deed::Write, "b", ErrorKind::Io);
    // A session that is lost after ten messages.
    assert!(pair.run_for(10));
    pair.cut();
    // The next run continues on the same disks; what fails fails alone.
    pair.run();
    assert_eq!(pair.ended(), (Ok(()), Ok(())));
    assert_eq!(pair.sent().files_failed, 1);
    pair.disk.faults.mend();
    pair.succeed();
    pair.assert_same();
    assert_eq!(pair.sent().files_skipped, 1);
}

#[test]
fn a_seed_replays_a_run() {
    let run = |seed| {
        let mut pair = filled(PairSettings { seed, loses: 30, damages: 30, ..PairSettings::default() });
        pair.succeed();
        (pair.now(), pair.said)
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3).0, run(4).0);
}
