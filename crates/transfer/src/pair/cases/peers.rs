//! Ends that do not keep to what is agreed.

use super::*;
use crate::filter::rule::{Action, Rule, blank};
use crate::hash::Digest;
use crate::manifest::{Entry, Kind, MAX_SIZE, Timestamp};
use crate::offer::{Again, DirectoryNames, Outcome, WINDOW};
use crate::path::RelPath;
use crate::plan::PlannedChange;

fn file(path: &str, size: u64) -> Entry {
    let kind = Kind::File { size, fingerprint: [1; 16] };
    Entry::new(RelPath::new(path).expect("a path"), kind, 0o644, Timestamp::default())
}

/// Runs until `message` was said in the name of `by`, as the first thing of a run or behind `heard` messages.
fn refusal(mut pair: Pair, by: End, heard: u64, messages: Vec<Message>) -> Error {
    assert!(pair.run_for(heard));
    messages.into_iter().for_each(|message| pair.say_as(by, message));
    pair.run();
    let (sender, receiver) = pair.ended();
    assert!(sender.is_err() && receiver.is_err(), "both know: {sender:?} {receiver:?}");
    let (one, other) = (sender.expect_err("refused"), receiver.expect_err("refused"));
    if by == End::Sender { other } else { one }
}

fn says(by: End, messages: Vec<Message>) -> String {
    let pair = Pair::new(PairSettings { batch: 2, ..PairSettings::default() });
    refusal(pair, by, 0, messages).message
}

#[test]
fn a_sender_that_finishes_with_files_open_has_not_succeeded() {
    let pair = filled(PairSettings { delay: 1000..1001, ..PairSettings::default() });
    // It has listed all, and nothing has arrived.
    let error = refusal(pair, End::Sender, 2, vec![Message::Finish]);
    assert!(error.message.contains("of its files are open, such as"), "{error}");
}

#[test]
fn a_sender_that_finishes_early_has_not_succeeded() {
    assert_eq!(
        says(End::Sender, vec![Message::Finish]),
        "the sender finished before it had listed everything"
    );
}

#[test]
fn a_sender_that_says_no_word_of_what_it_was_asked_for_has_not_succeeded() {
    let asked = Asked::Beneath(vec![b"a".to_vec(), b"b".to_vec()]);
    for problem in [false, true] {
        let mut pair =
            Pair::new(PairSettings { asked: asked.clone(), pulls: true, ..PairSettings::default() });
        pair.source.tree.file("a", 3, 1);
        if problem {
            pair.source.problems = vec!["b".into()];
        }
        pair.begin();
        pair.is_honest = false;
        pair.run();
        let (sender, receiver) = pair.ended();
        match problem {
            // That it cannot be read is a word, and no success.
            true => assert_eq!((sender, pair.files()), (Ok(()), (1, 0, 0, 1))),
            false => {
                let why = receiver.expect_err("no word").message;
                assert!(sender.is_err() && why.contains("without a word of b"), "{why}");
            }
        }
    }
}

#[test]
fn what_may_be_left_out_needs_no_word() {
    let selection = Selection { min_size: Some(5), ..Selection::default() };
    let asked = Asked::Beneath(vec![b"a".to_vec()]);
    let mut pair =
        Pair::new(PairSettings { asked, pulls: true, selection: Some(selection), ..PairSettings::default() });
    pair.succeed();
}

#[test]
fn nothing_is_taken_that_was_not_asked_for() {
    let beneath = || Asked::Beneath(vec![b"report".to_vec()]);
    let directory = |path: &str| Entry { kind: Kind::Directory, ..file(path, 0) };
    let link = |path: &str| Entry { kind: Kind::Symlink { target: b"x".to_vec() }, ..file(path, 0) };
    for (asked, entry, why) in [
        (beneath(), file(".bashrc", 1), "which was not asked for"),
        (beneath(), link("report"), "a link where a file or a directory was asked for"),
        (Asked::OneFile, directory("x"), "which is no file"),
    ] {
        let pair = Pair::new(PairSettings { asked, pulls: true, ..PairSettings::default() });
        let error = refusal(pair, End::Sender, 0, vec![Message::Offer { first: 0, entries: vec![entry] }]);
        assert!(error.kind == ErrorKind::UnsafeName && error.message.contains(why), "{error}");
    }
}

#[test]
fn nothing_is_taken_that_a_rule_excludes() {
    let rules = vec![Rule { pattern: b"*.key".to_vec(), ..blank(Action::Exclude) }];
    let selection = Some(Selection { rules, ..Selection::default() });
    let mut pair = Pair::new(PairSettings { pulls: true, selection, ..PairSettings::default() });
    pair.source.tree.file("a", 3, 1);
    pair.source.tree.file("b.key", 3, 1);
    pair.run();
    let error = pair.ended().1.expect_err("refused");
    assert!(error.kind == ErrorKind::UnsafeName && error.message.contains("b.key"), "{error}");
    assert!(pair.disk.tree.names().is_empty());
}

#[test]
fn a_senders_messages_out_of_turn_end_the_session() {
    let offer = |first| Message::Offer { first, entries: vec![file("x", 1)] };
    let names = || Message::Names(vec![DirectoryNames::default()]);
    let large = Message::Offer { first: 0, entries: vec![file("x", MAX_SIZE + 1)] };
    for (messages, why) in [
        (vec![offer(1)], "numbers are not the next ones"),
        (vec![offer(u32::MAX)], "numbers are not the next ones"),
        (vec![offer(0), offer(0)], "numbers are not the next ones"),
        (vec![large], "longer than any file"),
        (vec![Message::Listed, offer(0)], "an offer after the last one"),
        (vec![Message::Listed, Message::Finish, offer(0)], "said Offer out of turn"),
        (vec![Message::Listed, Message::Finish, Message::Finish], "said Finish out of turn"),
        (vec![names()], "said Names out of turn"),
        (vec![Message::Listed, Message::Finish, names()], "names that nobody wanted"),
        (vec![Message::Listed, Message::Finish, Message::NamesEnd(None)], "names that nobody wanted"),
        (vec![Message::Done(Vec::new())], "said Done, which is not its part"),
        (vec![Message::Refused(Error::new(ErrorKind::Denied, "as it likes"))], "as it likes"),
    ] {
        let told = says(End::Sender, messages);
        assert!(told.contains(why), "{told}: not {why}");
    }
}

#[test]
fn more_files_than_may_be_under_way_end_the_session() {
    let offers = (0..70).map(|offer| {
        let first = offer * 256;
        let entries = (first..first + 256).map(|number| file(&format!("f{number}"), 1)).collect();
        Message::Offer { first, entries }
    });
    let told = says(End::Sender, offers.collect());
    assert_eq!(told, format!("more than {WINDOW} entries are offered and have not ended"));
}

#[test]
fn what_is_said_of_files_that_do_not_exist_changes_nothing() {
    let mut pair = filled(PairSettings::default());
    let digest: Digest = [9; 32];
    pair.begin();
    for message in [
        Message::Keep(vec![(999, digest)]),
        Message::Replace(vec![999]),
        Message::Abandon(999, Error::new(ErrorKind::Io, "gone")),
        Message::Hashes(vec![(999, 0, digest)]),
    ] {
        pair.say_as(End::Sender, message);
    }
    for message in [
        Message::Have(999, vec![(0, digest)]),
        Message::Again(vec![Again { file: 999, range: 0..1 }]),
        Message::Done(vec![(999, Outcome::Committed)]),
        Message::StreamLost(999),
        Message::Taken(vec![(999, 9)]),
    ] {
        pair.say_as(End::Receiver, message);
    }
    pair.succeed();
    pair.assert_same();
}

#[test]
fn a_hash_that_is_wrong_keeps_the_name_from_the_bytes() {
    let mut pair = pair();
    pair.source.tree.file("f", BLOCK + 1, 1);
    assert!(pair.run_until(|pair| pair.receiver.files.contains_key(&0)));
    pair.say_as(End::Sender, Message::Hashes(vec![(0, 0, [9; 32])]));
    pair.succeed();
    // It was held against the bytes that came, or the right one came first.
    pair.assert_same();
    pair.source.tree.file("g", BLOCK + 1, 2);
    assert!(pair.run_until(|pair| pair.receiver.files.contains_key(&1)));
    pair.say_as(End::Sender, Message::Hashes(vec![(1, 1, [9; 32])]));
    pair.run();
    assert!(pair.ended().1.expect_err("refused").message.contains("a segment that does not exist"));
}

#[test]
fn a_receiver_has_one_word_for_each_file() {
    let offered = || {
        let mut pair = pair();
        pair.source.tree.file("f", 3, 1);
        pair.settings.disk_delay = 1_000_000;
        pair
    };
    let one = |verdict| Message::Verdicts { first: 0, verdicts: vec![verdict] };
    let want = || one(Verdict::Want { have: Vec::new() });
    let change = PlannedChange::new(true);
    for (messages, why) in [
        (vec![want(), want()], "a second verdict"),
        (vec![one(Verdict::Exists([1; 32])), one(Verdict::Exists([1; 32]))], "a second verdict"),
        (vec![one(Verdict::Tell), one(Verdict::Tell)], "a second verdict"),
        (vec![want(), one(Verdict::WantRanges(vec![0..3]))], "a second verdict"),
        (vec![one(Verdict::WantRanges(vec![1..3]))], "not those of the file's segments"),
        (vec![one(Verdict::WantRanges(vec![0..4]))], "not those of the file's segments"),
        (vec![one(Verdict::Would(change))], "was asked to do it"),
        (vec![Message::Verdicts { first: 1, verdicts: vec![Verdict::Skip] }], "never offered"),
        (vec![Message::Finished(Default::default())], "said Finished out of turn"),
        (vec![Message::WantNames(1)], "said WantNames out of turn"),
        (vec![Message::Planned(Vec::new())], "said Planned out of turn"),
        (vec![Message::Listed], "said Listed, which is not its part"),
    ] {
        let told = refusal(offered(), End::Receiver, 1, messages).message;
        assert!(told.contains(why), "{told}: not {why}");
    }
}

#[test]
fn who_was_asked_what_it_would_do_may_not_begin_to() {
    for verdict in [Verdict::Want { have: Vec::new() }, Verdict::Skip, Verdict::Made] {
        let mut pair = pair();
        pair.settings.purpose = Purpose::Plan;
        pair.settings.disk_delay = 1_000_000;
        pair.source.tree.file("f", 3, 1);
        let error =
            refusal(pair, End::Receiver, 1, vec![Message::Verdicts { first: 0, verdicts: vec![verdict] }]);
        assert!(error.message.contains("was asked what it would do"), "{error}");
    }
}

#[test]
fn ranges_that_are_not_the_files_are_not_sent_again() {
    let mut pair = pair();
    pair.source.tree.file("f", 2 * SEGMENT, 1);
    assert!(pair.run_until(|pair| pair.disk.parts.contains_key("f")));
    let ranges = [(0, 0), (1, BLOCK), (SEGMENT, BLOCK), (0, 2 * SEGMENT + 1), (2 * SEGMENT, 3 * SEGMENT)];
    for (start, end) in ranges {
        let range = start..end;
        pair.say_as(End::Receiver, Message::Again(vec![Again { file: 0, range }]));
    }
    pair.succeed();
    assert_eq!((pair.sent().bytes_moved, pair.sent().bytes_again), (2 * SEGMENT, 0));
}
