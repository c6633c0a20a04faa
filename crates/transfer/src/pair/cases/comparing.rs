//! What is there already, or may be.

use super::*;

fn by_checksum() -> PairSettings {
    PairSettings { compare: Compare::Checksum, ..PairSettings::default() }
}

#[test]
fn a_mode_or_a_time_alone_is_set_without_sending_content() {
    for pulls in [false, true] {
        let mut pair = copied(PairSettings { pulls, ..PairSettings::default() });
        pair.source.tree.get_mut("top").expect("there").mode = 0o750;
        pair.succeed();
        assert_eq!((pair.files(), pair.sent().bytes_moved), ((0, FILES, 1, 0), 0), "a mode");
        pair.assert_same();
        for path in ["top", "d/f0", "d/f5"] {
            pair.source.tree.get_mut(path).expect("there").mtime = 5;
        }
        pair.source.tree.get_mut("d/f5").expect("there").mode = 0o600;
        pair.succeed();
        assert_eq!((pair.files(), pair.sent().bytes_moved), ((0, FILES, 3, 0), 0), "times");
        assert_eq!(pair.verdicts(|verdict| *verdict == Verdict::Tell), 3);
        assert_eq!(pair.count(End::Sender, |message| matches!(message, Message::Keep(_))), 3);
        pair.assert_same();
        pair.succeed();
        assert_eq!(pair.files(), (0, FILES, 0, 0), "and is remembered");
        pair.disk.tree.get_mut("top").expect("there").mode = 0o644;
        pair.succeed();
        assert_eq!(pair.files(), (0, FILES, 1, 0), "a mode at the destination");
        pair.assert_same();
    }
}

#[test]
fn content_that_differs_is_sent_whatever_its_size_and_time() {
    let mut pair = copied(PairSettings::default());
    // Another content of the same size, and a later time.
    pair.source.tree.file("d/f5", SIZES[5], 77).mtime = 3000;
    pair.succeed();
    assert_eq!((pair.files(), pair.sent().bytes_moved), ((1, FILES - 1, 0, 0), SIZES[5]));
    assert_eq!(pair.verdicts(|verdict| *verdict == Verdict::Tell), 1);
    pair.assert_same();
    // The destination was written to: what is recorded of it says nothing any more.
    pair.disk.tree.file("top", 9, 88).mtime = 2500;
    pair.source.tree.get_mut("top").expect("there").mtime = 3000;
    pair.succeed();
    assert_eq!((pair.files(), pair.sent().bytes_moved), ((1, FILES - 1, 0, 0), 9));
    assert_eq!(pair.verdicts(|verdict| *verdict == Verdict::Tell), 0);
    pair.assert_same();
}

#[test]
fn what_nobody_has_recorded_or_may_be_told_is_sent_again() {
    for (verify, asks_hashes, remembers) in
        [(Verify::Block, true, true), (Verify::Blake3, false, true), (Verify::Blake3, true, false)]
    {
        let mut pair = copied(PairSettings { verify, asks_hashes, ..PairSettings::default() });
        if !remembers {
            pair.disk.catalogue.clear();
        }
        pair.source.tree.get_mut("d/f3").expect("there").mtime = 5;
        pair.succeed();
        let (sent, kept) = if remembers { (1, FILES - 1) } else { (FILES, 0) };
        assert_eq!(pair.files(), (sent, kept, 0, 0), "{verify:?} {asks_hashes} {remembers}");
        pair.assert_same();
    }
}

#[test]
fn a_mode_alone_is_set_although_no_hash_may_be_told() {
    let mut pair = copied(PairSettings { asks_hashes: false, ..PairSettings::default() });
    pair.source.tree.get_mut("d/f3").expect("there").mode = 0o700;
    pair.succeed();
    assert_eq!(pair.files(), (0, FILES, 1, 0));
    pair.assert_same();
}

#[test]
fn by_checksum_what_is_the_same_gets_its_mode_and_time() {
    let mut pair = filled(by_checksum());
    pair.disk.tree = pair.source.tree.clone();
    for path in ["top", "d/f5"] {
        let node = pair.disk.tree.get_mut(path).expect("there");
        (node.mode, node.mtime) = (0o777, 1);
    }
    pair.succeed();
    assert_eq!((pair.files().0, pair.files().1, pair.sent().bytes_moved), (0, FILES, 0));
    pair.assert_same();
    pair.settings.compare = Compare::Recorded;
    pair.succeed();
    assert_eq!(pair.files(), (0, FILES, 0, 0), "and is remembered with them");
}

#[test]
fn checksums_find_what_was_altered_in_silence() {
    let mut pair = copied(PairSettings::default());
    let node = pair.disk.tree.get("d/f5").cloned().expect("there");
    let altered = pair.disk.tree.file("d/f5", SIZES[5], 99);
    (altered.mode, altered.mtime) = (node.mode, node.mtime);
    pair.succeed();
    assert_eq!(pair.files(), (0, FILES, 0, 0), "what is recorded looks the same");
    pair.settings.compare = Compare::Checksum;
    pair.succeed();
    assert_eq!(pair.files(), (1, FILES - 1, 0, 0));
    assert_eq!(pair.count(End::Sender, |message| matches!(message, Message::Replace(_))), 1);
    pair.assert_same();
}

#[test]
fn a_file_that_cannot_be_compared_counts_as_failed_at_both_ends() {
    for here in [true, false] {
        let mut pair = copied(by_checksum());
        match here {
            true => pair.source.faults.fail(Deed::Read, "d/f4", ErrorKind::Io),
            false => pair.disk.faults.fail(Deed::Digest, "d/f4", ErrorKind::Io),
        }
        pair.succeed();
        assert_eq!((pair.files(), pair.received().files_failed), ((0, FILES - 1, 0, 1), 1));
    }
}

#[test]
fn a_comparison_names_what_differs_or_is_missing_and_changes_nothing() {
    for pulls in [false, true] {
        let mut pair = copied(by_checksum());
        (pair.settings.purpose, pair.settings.pulls) = (Purpose::Compare, pulls);
        pair.succeed();
        assert_eq!(pair.files(), (0, FILES, 0, 0));
        pair.disk.tree.file("d/f4", SIZES[4], 99);
        pair.disk.tree.remove("top");
        pair.disk.tree.file("d/f3", 3, 4);
        pair.succeed();
        assert_eq!(pair.files(), (0, FILES - 3, 0, 3));
        let mut failures = pair.failures();
        failures.sort();
        let missing = |path: &str| format!("{path} is missing, or has another size");
        assert_eq!(failures, [missing("d/f3"), "d/f4 differs".into(), missing("top")]);
        assert_eq!(pair.received().files_failed, 3);
    }
}

#[test]
fn the_very_same_file_is_neither_read_nor_sent() {
    let mut pair = filled(by_checksum());
    pair.disk.tree = pair.source.tree.clone();
    pair.disk.same = ["top".to_owned()].into();
    pair.succeed();
    assert_eq!(pair.files(), (0, FILES, 0, 0));
    assert_eq!(pair.verdicts(|verdict| *verdict == Verdict::Skip), 1);
}

#[test]
fn what_was_touched_since_its_hash_was_recorded_is_sent_although_the_hash_is_right() {
    let mut pair = copied(PairSettings::default());
    pair.source.tree.get_mut("d/f3").expect("there").mtime = 3000;
    let is_told = |pair: &Pair| pair.count(End::Sender, |message| matches!(message, Message::Keep(_))) == 1;
    assert!(pair.run_until(is_told));
    pair.disk.tree.file("d/f3", SIZES[3], 66).mtime = 2999;
    pair.run();
    assert_eq!((pair.ended(), pair.files()), ((Ok(()), Ok(())), (1, FILES - 1, 0, 0)));
    pair.assert_same();
}

#[test]
fn a_mode_that_cannot_be_set_fails_alone_unless_both_ends_have_read_the_file() {
    let mut pair = copied(PairSettings::default());
    pair.source.tree.get_mut("d/f3").expect("there").mode = 0o700;
    pair.disk.faults.fail(Deed::Settle, "d/f3", ErrorKind::Denied);
    pair.succeed();
    assert_eq!(pair.files(), (0, FILES - 1, 0, 1));
    pair.settings.compare = Compare::Checksum;
    pair.succeed();
    assert_eq!(pair.files(), (0, FILES, 0, 0), "its content is right");
}

#[test]
fn every_file_that_is_equal_by_checksum_ends() {
    let mut pair =
        Pair::new(PairSettings { compare: Compare::Checksum, delay: 1..30, ..PairSettings::default() });
    for number in 0..20_000 {
        pair.source.tree.file(&format!("f{number}"), 1, number % 200);
    }
    pair.disk.tree = pair.source.tree.clone();
    pair.succeed();
    assert_eq!(pair.files(), (0, 20_000, 0, 0));
}
