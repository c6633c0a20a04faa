//! Files, directories and links are copied once.

use super::*;
use crate::pipeline::incoming::Incoming;

#[test]
fn all_of_it_arrives_and_is_skipped_the_second_time() {
    for pulls in [false, true] {
        for verify in [Verify::Blake3, Verify::Block] {
            let mut pair = filled(PairSettings { pulls, verify, ..PairSettings::default() });
            pair.succeed();
            pair.assert_same();
            assert_eq!(pair.files(), (FILES, 0, 0, 0));
            let bytes: u64 = SIZES.iter().sum::<u64>() + 9;
            assert_eq!(
                (pair.sent().bytes_moved, pair.sent().bytes_again),
                (bytes, 0),
                "nothing is sent twice"
            );
            let arrived = pair.disk.tree.clone();
            pair.succeed();
            assert_eq!((pair.files(), pair.sent().bytes_moved), ((0, FILES, 0, 0), 0));
            assert_eq!(pair.verdicts(|verdict| *verdict == Verdict::Skip) as u64, FILES);
            assert_eq!(pair.disk.tree, arrived, "nothing is touched");
        }
    }
}

#[test]
fn one_entry_hundreds_and_many_arrive() {
    for count in [1, 300, 2000] {
        let mut pair = pair();
        for number in 0..count {
            pair.source.tree.file(&format!("f{number}"), number % 3, number % 200);
        }
        pair.succeed();
        pair.assert_same();
        assert_eq!(pair.files(), (count, 0, 0, 0));
    }
}

#[test]
fn an_empty_source_is_copied() {
    let mut pair = pair();
    pair.succeed();
    assert_eq!(pair.files(), (0, 0, 0, 0));
}

#[test]
fn what_stands_in_the_way_is_replaced_or_named() {
    let mut pair = pair();
    for (source, there) in [("a", "file"), ("b", "link"), ("c", "directory"), ("d", "pipe")] {
        pair.source.tree.file(source, 5, 1);
        match there {
            "file" => drop(pair.disk.tree.file(source, 6, 2).mode),
            "link" => drop(pair.disk.tree.link(source, "x").mode),
            "directory" => drop(pair.disk.tree.directory(source).mode),
            _ => drop(pair.disk.tree.put(source, tree::Node::new(tree::What::Special, 1)).mode),
        }
    }
    pair.source.tree.directory("e");
    pair.source.tree.file("e/inside", 5, 1);
    pair.disk.tree.file("e", 6, 2);
    pair.source.tree.link("f", "y");
    pair.disk.tree.file("f", 6, 2);
    let before = pair.disk.tree.clone();
    pair.succeed();
    // c, d, the directory e and what is in it.
    assert_eq!((pair.sent().files_done, pair.sent().files_failed), (2, 4), "{:?}", pair.failures());
    for kept in ["c", "d", "e"] {
        assert_eq!(pair.disk.tree.get(kept), before.get(kept), "{kept}");
    }
    for path in ["a", "b", "f"] {
        let what = |tree: &tree::ModelTree| tree.get(path).map(|node| node.what.clone());
        assert_eq!(what(&pair.disk.tree), what(&pair.source.tree), "{path}");
    }
}

#[test]
fn what_cannot_be_written_fails_alone_and_arrives_the_next_time() {
    for deed in [Deed::Look, Deed::Begin, Deed::Write, Deed::Commit] {
        let mut pair = filled(PairSettings::default());
        pair.disk.faults.fail(deed, "d/f3", ErrorKind::Io);
        pair.succeed();
        assert_eq!(pair.files(), (FILES - 1, 0, 0, 1), "{deed:?}");
        assert_eq!(pair.disk.tree.get("d/f3"), None);
        pair.disk.faults.mend();
        pair.succeed();
        assert_eq!(pair.files(), (1, FILES - 1, 0, 0), "{deed:?}");
        pair.assert_same();
    }
}

#[test]
fn old_content_stays_until_the_new_is_whole() {
    let mut pair = pair();
    pair.source.tree.file("f", SEGMENT + 1, 2);
    pair.disk.tree.file("f", SEGMENT + 1, 1);
    let old = pair.disk.tree.clone();
    let is_whole = |pair: &Pair| {
        let file = |begun: &committing::BegunFile| Incoming::is_complete(&begun.file);
        pair.receiver.files.values().any(file)
    };
    assert!(pair.run_until(is_whole));
    assert_eq!(pair.disk.tree, old);
    pair.succeed();
    pair.assert_same();
}

#[test]
fn what_cannot_be_read_fails_alone() {
    let mut pair = filled(PairSettings::default());
    pair.source.faults.fail(Deed::Read, "d/f5", ErrorKind::Io);
    pair.succeed();
    assert_eq!(pair.files(), (FILES - 1, 0, 0, 1));
    assert!(!pair.disk.parts.contains_key("d/f5"), "nothing is kept of it");
    assert_eq!(pair.count(End::Sender, |message| matches!(message, Message::Abandon(..))), 1);
}

#[test]
fn a_file_that_changes_while_it_is_read_fails_alone() {
    for change in ["shrinks", "grows", "is rewritten", "vanishes", "becomes a directory"] {
        let mut pair = filled(PairSettings::default());
        pair.source.tree.file("d/f5", 4 * SEGMENT, 6);
        assert!(pair.run_until(|pair| pair.disk.parts.contains_key("d/f5")));
        let tree = &mut pair.source.tree;
        match change {
            "shrinks" => drop(tree.file("d/f5", 7, 6).mode),
            "grows" => drop(tree.file("d/f5", 5 * SEGMENT, 6).mode),
            "is rewritten" => drop(tree.file("d/f5", 4 * SEGMENT, 60).mode),
            "vanishes" => tree.remove("d/f5"),
            _ => drop(tree.directory("d/f5").mode),
        }
        pair.run();
        assert_eq!(pair.ended(), (Ok(()), Ok(())), "{change}");
        assert_eq!(pair.files(), (FILES - 1, 0, 0, 1), "{change}");
        assert_eq!(pair.failures(), ["d/f5 has changed"]);
        pair.succeed();
        pair.assert_same();
    }
}

#[test]
fn what_cannot_be_listed_is_a_failure_at_both_ends() {
    let mut pair = filled(PairSettings { pulls: true, ..PairSettings::default() });
    pair.source.problems = vec!["secret".into()];
    pair.source.tree.put("pipe", tree::Node::new(tree::What::Special, 1));
    pair.succeed();
    assert_eq!((pair.files(), pair.received().files_failed), ((FILES, 0, 0, 1), 1));
    assert_eq!(pair.receiver.warned.len(), 1, "what is left out is no failure");
}

#[test]
fn whoever_sends_unasked_tells_nobody_what_is_left_out() {
    let mut pair = pair();
    pair.source.tree.put("pipe", tree::Node::new(tree::What::Special, 1));
    pair.succeed();
    assert_eq!(pair.count(End::Sender, |message| matches!(message, Message::LeftOut(..))), 0);
}

#[test]
fn without_space_the_run_ends_and_the_next_one_continues() {
    let mut pair = pair();
    pair.source.tree.file("large", 3 * SEGMENT, 1);
    let a_third = |pair: &Pair| pair.disk.parts.get("large").is_some_and(|part| part.blocks.len() > 60);
    assert!(pair.run_until(a_third));
    pair.disk.faults.fail(Deed::Write, "large", ErrorKind::NoSpace);
    pair.run();
    let (sender, receiver) = pair.ended();
    assert_eq!(sender, receiver, "both know why");
    let error = sender.expect_err("no space");
    assert!(
        error.kind == ErrorKind::NoSpace && error.message.ends_with("run the same command again"),
        "{error}"
    );
    pair.disk.faults.mend();
    pair.succeed();
    pair.assert_same();
    assert!(pair.sent().bytes_moved < 3 * SEGMENT, "{:?}", pair.sent());
}

#[test]
fn names_wait_for_leave() {
    let mut pair = filled(PairSettings { leave: Some(true), ..PairSettings::default() });
    pair.succeed();
    pair.assert_same();
    let asked = pair.count(End::Receiver, |message| matches!(message, Message::AskPermit(_)));
    let given = pair.count(End::Sender, |message| matches!(message, Message::Permitted(_, Ok(_))));
    assert!(asked > 0 && asked == given, "{asked} {given}");
}

#[test]
fn without_leave_no_file_gets_its_name() {
    let mut pair = filled(PairSettings { leave: Some(false), ..PairSettings::default() });
    pair.run();
    let (sender, receiver) = pair.ended();
    assert_eq!(sender.expect_err("refused").kind, ErrorKind::Denied);
    assert_eq!(receiver.expect_err("refused").kind, ErrorKind::Denied);
    assert!(!pair.disk.changed.iter().any(|(deed, _)| *deed == "sent"));
    // Who has leave goes on with what is there.
    pair.settings.leave = Some(true);
    pair.succeed();
    pair.assert_same();
}

#[test]
fn what_fails_at_the_very_end_is_no_success() {
    let mut pair = filled(PairSettings::default());
    pair.disk.faults.fail(Deed::Conclude, "", ErrorKind::Io);
    pair.run();
    let (sender, receiver) = pair.ended();
    assert!(sender.is_err() && receiver.is_err());
    pair.disk.faults.mend();
    pair.succeed();
    assert_eq!(pair.files(), (0, FILES, 0, 0));
    pair.assert_same();
}

#[test]
fn only_what_was_asked_for_is_taken() {
    let taking = |taking| {
        let mut pair = pair();
        pair.settings.taking = taking;
        pair.source.tree.file("new", 5, 1);
        pair.source.tree.directory("d");
        pair.source.tree.file("d/new", 5, 1);
        pair.source.tree.file("older", 5, 1).mtime = 2000;
        pair.source.tree.file("newer", 5, 1).mtime = 500;
        for there in ["older", "newer"] {
            pair.disk.tree.file(there, 6, 2);
        }
        pair.succeed();
        let sent = pair.disk.changed.iter().filter(|(deed, _)| *deed == "sent");
        let sent: Vec<String> = sent.map(|(_, path)| path.clone()).collect();
        assert_eq!(pair.sent().files_listed, sent.len() as u64, "what stays does not count");
        let mut sent = sent;
        sent.sort();
        sent
    };
    let all = Taking::default();
    assert_eq!(taking(all), ["d/new", "new", "newer", "older"]);
    assert_eq!(taking(Taking { existing: true, ..all }), ["newer", "older"]);
    assert_eq!(taking(Taking { ignore_existing: true, ..all }), ["d/new", "new"]);
    assert_eq!(taking(Taking { update: true, ..all }), ["d/new", "new", "older"]);
    assert_eq!(taking(Taking { existing: true, update: true, ..all }), ["older"]);
}

#[test]
fn what_appears_meanwhile_stays_where_only_new_files_are_taken() {
    let taking = Taking { ignore_existing: true, ..Taking::default() };
    let mut pair = filled(PairSettings { taking, ..PairSettings::default() });
    assert!(pair.run_until(|pair| pair.disk.parts.contains_key("d/f5")));
    pair.disk.tree.file("d/f5", 3, 99);
    let theirs = pair.disk.tree.get("d/f5").cloned();
    pair.run();
    assert_eq!((pair.ended(), pair.files()), ((Ok(()), Ok(())), (FILES - 1, 0, 0, 1)));
    assert_eq!(pair.disk.tree.get("d/f5").cloned(), theirs);
}

#[test]
fn of_two_names_that_are_one_at_the_destination_the_second_fails() {
    for purpose in [Purpose::Copy, Purpose::Plan] {
        let mut pair = Pair::new(PairSettings { purpose, ..PairSettings::default() });
        pair.disk.folds = true;
        for name in ["README", "readme"] {
            pair.source.tree.file(name, 5, 1);
        }
        pair.source.tree.directory("Dir");
        pair.source.tree.file("Dir/x", 5, 1);
        pair.source.tree.directory("dir");
        pair.succeed();
        assert_eq!(pair.sent().files_failed, 2, "{:?}", pair.failures());
        assert!(pair.failures().iter().all(|why| why.contains("taken for another name")));
        assert!(pair.disk.tree.get("readme").is_none());
    }
}

#[test]
fn what_stands_there_in_another_spelling_stays() {
    let mut pair = pair();
    pair.disk.folds = true;
    pair.disk.tree.file("README", 9, 7);
    let before = pair.disk.tree.clone();
    pair.source.tree.file("readme", 5, 1);
    pair.succeed();
    assert_eq!((pair.files(), &pair.disk.tree), ((0, 0, 0, 1), &before));
    assert!(pair.failures()[0].contains("the destination has README"));
}

#[test]
fn of_two_files_of_one_name_the_first_is_kept() {
    let mut pair = filled(PairSettings { batch: 2, ..PairSettings::default() });
    pair.source.twice = vec!["d".into(), "top".into(), "d/f5".into()];
    pair.succeed();
    assert_eq!(pair.files(), (FILES, 0, 0, 2), "directories merge: {:?}", pair.failures());
    assert!(pair.failures().iter().all(|why| why.contains("offered twice")));
    pair.assert_same();
}

#[test]
fn names_are_told_apart_although_earlier_ones_were_forgotten() {
    let mut pair = Pair::new(PairSettings { names_remembered: 40, batch: 16, ..PairSettings::default() });
    for number in 0..300 {
        pair.source.tree.file(&format!("f{number:03}"), 3, number);
    }
    pair.source.twice = vec!["f299".into()];
    pair.succeed();
    pair.assert_same();
    assert_eq!((pair.sent().files_done + pair.sent().files_skipped, pair.sent().files_listed), (300, 301));
}
