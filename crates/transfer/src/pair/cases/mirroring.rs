//! What the source does not have is removed at the end, or nothing is.

use super::*;

fn mirror(change: impl FnOnce(&mut PairSettings)) -> Pair {
    let mut settings = PairSettings { mirrors: true, ..PairSettings::default() };
    change(&mut settings);
    let mut pair = filled(settings);
    for directory in ["d", "gone", "gone/deep"] {
        pair.disk.tree.directory(directory);
    }
    for file in ["d/old", "old", "gone/deep/f", "gone/g"] {
        pair.disk.tree.file(file, 4, 9);
    }
    pair.disk.tree.link("d/stale", "old");
    pair
}

/// What [`mirror`] has at the destination that the source has not.
const GONE: u64 = 7;

fn wanted(pair: &Pair) -> usize {
    pair.count(End::Receiver, |message| matches!(message, Message::WantNames(_)))
}

#[test]
fn what_the_source_has_not_goes_once_everything_has_arrived() {
    for (pulls, batch) in [(false, 1), (true, 1), (false, 256)] {
        let mut pair = mirror(|settings| (settings.pulls, settings.batch) = (pulls, batch));
        assert!(pair.run_until(|pair| pair.sender.logic.has_finished()));
        assert!(pair.disk.tree.get("old").is_some(), "nothing goes before");
        pair.run();
        assert_eq!(pair.ended(), (Ok(()), Ok(())));
        pair.assert_same();
        assert_eq!(pair.disk.tree.names(), pair.source.tree.names());
        let deleted = |ledger: &crate::ledger::Ledger| ledger.entries_deleted();
        assert_eq!((deleted(&pair.sender.ledger), deleted(&pair.receiver.ledger)), (GONE, GONE));
        pair.succeed();
        assert_eq!((deleted(&pair.sender.ledger), pair.files()), (0, (0, FILES, 0, 0)));
    }
}

#[test]
fn nothing_goes_and_no_name_is_asked_for_if_anything_failed() {
    for what in ["listed", "read", "written", "named"] {
        let mut pair = mirror(|_| {});
        match what {
            "listed" => pair.source.problems = vec!["secret".into()],
            "read" => pair.source.faults.fail(Deed::Read, "top", ErrorKind::Io),
            "written" => pair.disk.faults.fail(Deed::Write, "top", ErrorKind::Io),
            _ => pair.disk.faults.fail(Deed::Commit, "top", ErrorKind::Io),
        }
        pair.succeed();
        assert_eq!((pair.sender.ledger.entries_deleted(), wanted(&pair)), (0, 0), "{what}");
        assert!(pair.disk.tree.get("gone/deep/f").is_some(), "{what}");
        let why = pair.failures();
        assert!(why.iter().any(|why| why.contains("not everything could be read or written")), "{why:?}");
    }
}

#[test]
fn names_that_cannot_be_told_delete_nothing() {
    let mut pair = mirror(|settings| settings.batch = 1);
    pair.source.faults.fail(Deed::Name, "", ErrorKind::Io);
    pair.succeed();
    assert_eq!(pair.sender.ledger.entries_deleted(), 0);
    assert!(pair.disk.tree.get("old").is_some() && pair.failures().len() == 1);
    // Nor if that turns out when some were told.
    pair.source.faults.mend();
    let some = |pair: &Pair| pair.count(End::Sender, |message| matches!(message, Message::Names(_))) == 1;
    assert!(pair.run_until(some));
    pair.source.faults.fail(Deed::Name, "", ErrorKind::Io);
    pair.run();
    assert_eq!((pair.ended(), pair.sender.ledger.entries_deleted()), ((Ok(()), Ok(())), 0));
    assert!(pair.disk.tree.get("old").is_some());
}

#[test]
fn what_cannot_be_deleted_is_told_and_the_rest_goes() {
    let mut pair = mirror(|_| {});
    pair.disk.faults.fail(Deed::Delete, "gone/deep/f", ErrorKind::Denied);
    pair.succeed();
    let left: Vec<&str> =
        pair.disk.tree.names().into_iter().filter(|name| name.starts_with("gone")).collect();
    assert_eq!(left, ["gone", "gone/deep", "gone/deep/f"]);
    assert_eq!(pair.sender.ledger.entries_deleted(), GONE - 3);
    assert_eq!((pair.failures().len(), pair.sent().files_failed), (1, 0), "no file has failed");
    pair.disk.faults.mend();
    pair.succeed();
    assert_eq!(pair.disk.tree.names(), pair.source.tree.names());
}

#[test]
fn no_more_goes_than_was_said() {
    let mut pair = mirror(|settings| settings.most_deleted = Some(2));
    pair.succeed();
    assert_eq!(pair.sender.ledger.entries_deleted(), 2);
    assert!(pair.failures()[0].contains("--max-delete"), "{:?}", pair.failures());
}

#[test]
fn an_empty_source_deletes_nothing_unless_a_number_is_said() {
    let mut pair = mirror(|_| {});
    pair.source.tree = tree::ModelTree::default();
    pair.succeed();
    assert!(pair.disk.tree.get("old").is_some() && pair.failures().len() == 1);
    pair.settings.most_deleted = Some(100);
    pair.succeed();
    assert!(pair.disk.tree.names().is_empty());
}

#[test]
fn names_are_told_no_faster_than_they_are_compared() {
    let mut pair = Pair::new(PairSettings { mirrors: true, batch: 1, ..PairSettings::default() });
    pair.settings.disk_delay = 5000;
    for number in 0..100 {
        pair.source.tree.directory(&format!("d{number}"));
        pair.disk.tree.directory(&format!("d{number}"));
        pair.disk.tree.file(&format!("d{number}/old"), 1, 1);
    }
    pair.begin();
    let mut most = 0;
    while pair.step() {
        let told = pair.count(End::Sender, |message| matches!(message, Message::Names(_)));
        let asked = wanted(&pair);
        most = most.max(told.saturating_sub(asked.saturating_sub(1)));
    }
    assert_eq!(pair.ended(), (Ok(()), Ok(())));
    assert_eq!(pair.sender.ledger.entries_deleted(), 100);
    assert!((2..=8).contains(&most), "{most} messages of names were ahead");
}

#[test]
fn what_is_the_sources_in_another_spelling_stays() {
    let mut pair = Pair::new(PairSettings { mirrors: true, ..PairSettings::default() });
    pair.disk.folds = true;
    pair.source.tree.directory("Dir");
    pair.source.tree.file("Dir/a", 3, 1);
    pair.succeed();
    pair.disk.tree = tree::ModelTree::default();
    pair.disk.tree.directory("Dir");
    pair.disk.tree.file("Dir/A", 3, 1);
    pair.disk.tree.file("Dir/b", 3, 1);
    pair.succeed();
    assert_eq!(pair.sent().files_failed, 1, "{:?}", pair.failures());
    pair.source.tree.remove("Dir/a");
    pair.source.tree.file("Dir/c", 3, 1);
    pair.succeed();
    assert_eq!(pair.disk.tree.names(), ["Dir", "Dir/c"]);
}
