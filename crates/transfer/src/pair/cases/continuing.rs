//! What is interrupted anywhere is continued.

use super::*;
const LARGE: u64 = 4 * SEGMENT + 2 * BLOCK + 7;

fn large(settings: PairSettings) -> Pair {
    let mut pair = Pair::new(settings);
    pair.source.tree.file("large", LARGE, 1);
    pair
}

/// A pair that was interrupted when two segments were noted down.
fn interrupted() -> Pair {
    let mut pair = large(PairSettings::default());
    let two = |pair: &Pair| pair.disk.journal.get("large").is_some_and(|noted| noted.segments.len() >= 2);
    assert!(pair.run_until(two));
    pair.cut();
    pair
}

/// Bytes of segments that the journal knows of.
fn noted(pair: &Pair) -> u64 {
    pair.disk.journal["large"].segments.len() as u64 * SEGMENT
}

#[test]
fn only_what_is_not_there_is_sent() {
    let mut pair = interrupted();
    let noted = noted(&pair);
    pair.succeed();
    pair.assert_same();
    assert_eq!((pair.sent().bytes_moved, pair.sent().bytes_skipped), (LARGE - noted, noted));
    let said = |is: fn(&Message) -> bool| pair.said.iter().position(|(_, message)| is(message));
    let have = said(|message| matches!(message, Message::Have(..)));
    let want = said(|message| matches!(message, Message::Verdicts { .. }));
    assert!(have.is_some() && have < want, "what is there is told first");
}

#[test]
fn an_unfinished_file_that_is_gone_or_cut_is_sent_anew() {
    for is_gone in [true, false] {
        let mut pair = interrupted();
        match is_gone {
            true => pair.disk.parts.clear(),
            false => pair.disk.parts.get_mut("large").expect("left").size -= 1,
        }
        pair.succeed();
        pair.assert_same();
        assert_eq!((pair.sent().bytes_moved, pair.sent().bytes_skipped), (LARGE, 0));
    }
}

#[test]
fn what_is_anew_is_not_taken_for_what_was_left_if_that_is_interrupted_too() {
    let mut pair = interrupted();
    pair.disk.parts.clear();
    // It is made anew, and holds little when all stops at once.
    assert!(pair.run_until(|pair| pair.disk.parts.contains_key("large")));
    pair.crash();
    pair.succeed();
    pair.assert_same();
    assert_eq!(pair.sent().bytes_moved, LARGE);
}

#[test]
fn damage_in_what_was_left_is_sent_again() {
    let mut pair = interrupted();
    let (noted, segment) = (noted(&pair), *pair.disk.journal["large"].segments.keys().min().expect("one"));
    let part = pair.disk.parts.get_mut("large").expect("left");
    part.blocks.insert(segment * SEGMENT + BLOCK, 55);
    pair.succeed();
    pair.assert_same();
    assert_eq!(pair.sent().bytes_skipped, noted - SEGMENT);
}

#[test]
fn of_what_is_all_damaged_nothing_is_kept() {
    let mut pair = interrupted();
    pair.disk.parts.get_mut("large").expect("left").blocks.values_mut().for_each(|seed| *seed = 55);
    pair.succeed();
    pair.assert_same();
    assert_eq!((pair.sent().bytes_moved, pair.sent().bytes_skipped), (LARGE, 0));
}

#[test]
fn a_source_that_changed_between_runs_is_sent_whole() {
    let mut pair = interrupted();
    pair.source.tree.file("large", LARGE, 2);
    pair.succeed();
    pair.assert_same();
    assert_eq!(pair.sent().bytes_moved, LARGE);
}

#[test]
fn a_replacement_that_is_interrupted_continues_with_its_own_bytes() {
    let mut pair = large(PairSettings::default());
    pair.disk.tree.file("large", LARGE, 9);
    let one = |pair: &Pair| pair.disk.journal.contains_key("large");
    assert!(pair.run_until(one));
    pair.cut();
    assert_eq!(
        pair.disk.tree.get("large").and_then(tree::Node::content).map(|content| content.seed),
        Some(9)
    );
    pair.succeed();
    pair.assert_same();
    assert!(pair.sent().bytes_moved < LARGE);
}

#[test]
fn what_was_verified_in_another_way_is_sent_again() {
    let mut pair = interrupted();
    pair.settings.verify = Verify::Block;
    pair.succeed();
    pair.assert_same();
    assert_eq!(pair.sent().bytes_moved, LARGE);
}

#[test]
fn a_lost_journal_costs_time_and_never_content() {
    let mut pair = interrupted();
    pair.disk.journal.clear();
    pair.succeed();
    pair.assert_same();
    assert_eq!(pair.sent().bytes_moved, LARGE);
}

#[test]
fn what_had_its_name_when_all_stopped_is_recorded_by_the_next_run() {
    let mut pair = filled(PairSettings::default());
    assert!(pair.run_until(|pair| pair.disk.tree.get("top").is_some()));
    pair.crash();
    assert!(!pair.disk.catalogue.contains_key("top"));
    pair.succeed();
    pair.assert_same();
    assert!(pair.files().1 >= 1, "it is not sent again: {:?}", pair.files());
    assert!(pair.disk.catalogue.contains_key("top"));
}

#[test]
fn what_was_whole_and_is_given_up_is_not_taken_for_what_bears_its_name() {
    for (damaged, fails_at_the_source) in [(2 * SEGMENT, false), (SEGMENT, false), (SEGMENT, true)] {
        let mut pair = pair();
        pair.source.tree.file("f", 2 * SEGMENT, 1);
        // Another content of the same size and time, which nobody has verified.
        pair.disk.tree.file("f", 2 * SEGMENT, 9);
        let is_ready = |pair: &Pair| pair.disk.journal.get("f").is_some_and(|noted| noted.root.is_some());
        assert!(pair.run_until(is_ready));
        pair.crash();
        let blocks = &mut pair.disk.parts.get_mut("f").expect("left").blocks;
        blocks.range_mut(..damaged).for_each(|(_, seed)| *seed = 55);
        match fails_at_the_source {
            true => pair.source.faults.fail(Deed::Read, "f", ErrorKind::Io),
            false => pair.disk.faults.fail(Deed::Write, "f", ErrorKind::Io),
        }
        // Interrupted once more before the journal goes.
        assert!(pair.run_until(|pair| pair.received().files_failed == 1 && pair.disk.parts.is_empty()));
        pair.crash();
        pair.disk.faults.mend();
        pair.source.faults.mend();
        pair.succeed();
        pair.assert_same();
    }
}

#[test]
fn a_run_that_is_interrupted_many_times_still_arrives() {
    let mut pair = large(PairSettings { loses: 20, ..PairSettings::default() });
    let mut runs = 0;
    while pair.run_for(20) {
        pair.cut();
        runs += 1;
        assert!(runs < 1000, "it does not get on");
    }
    assert!(runs > 2, "{runs}");
    pair.assert_same();
}

/// Runs `settings` once, and once more for every message: interrupted behind it by `stop`, and continued.
fn anywhere(
    settings: &PairSettings,
    change: impl Fn(&mut Pair),
    stop: impl Fn(&mut Pair),
    check: impl Fn(&Pair),
) {
    let begin = || {
        let mut pair = filled(settings.clone());
        change(&mut pair);
        pair
    };
    let mut whole = begin();
    whole.succeed();
    let messages = whole.heard();
    assert!(messages > 10, "{messages}");
    for message in 0..messages {
        let mut pair = begin();
        assert!(pair.run_for(message), "after {message}");
        stop(&mut pair);
        pair.succeed();
        check(&pair);
    }
}

#[test]
fn a_session_may_be_lost_behind_every_message() {
    for pulls in [false, true] {
        let settings = PairSettings { pulls, batch: 3, ..PairSettings::default() };
        anywhere(
            &settings,
            |_| {},
            Pair::cut,
            |pair| {
                pair.assert_same();
                assert_eq!(pair.files().0 + pair.files().1, FILES);
            },
        );
    }
}

#[test]
fn the_receivers_host_may_stop_behind_every_message() {
    for verify in [Verify::Blake3, Verify::Block] {
        let settings = PairSettings { verify, batch: 3, leave: Some(true), ..PairSettings::default() };
        anywhere(&settings, |_| {}, Pair::crash, Pair::assert_same);
    }
}

#[test]
fn a_comparison_by_checksum_may_be_lost_behind_every_message() {
    let settings = PairSettings { compare: Compare::Checksum, batch: 3, ..PairSettings::default() };
    let disturb = |pair: &mut Pair| {
        pair.disk.tree = pair.source.tree.clone();
        pair.disk.tree.file("d/f5", SIZES[5], 99);
        pair.disk.tree.get_mut("top").expect("there").mode = 0o777;
    };
    anywhere(&settings, disturb, Pair::crash, Pair::assert_same);
}

#[test]
fn a_mirror_may_be_lost_behind_every_message() {
    let settings = PairSettings { mirrors: true, batch: 2, ..PairSettings::default() };
    let disturb = |pair: &mut Pair| {
        for name in ["old", "d/old", "older"] {
            pair.disk.tree.directory("d");
            pair.disk.tree.file(name, 3, 3);
        }
    };
    anywhere(&settings, disturb, Pair::cut, |pair| {
        pair.assert_same();
        assert_eq!(pair.disk.tree.names(), pair.source.tree.names());
    });
}

#[test]
fn moved_files_are_never_at_neither_end() {
    let settings =
        PairSettings { moves: true, compare: Compare::Checksum, batch: 2, ..PairSettings::default() };
    anywhere(
        &settings,
        |_| {},
        Pair::crash,
        |pair| {
            let files = pair.source.tree.iter().filter(|(_, node)| node.content().is_some());
            assert_eq!(files.count(), 0);
            for (number, size) in SIZES.into_iter().enumerate() {
                let node = pair.disk.tree.get(&format!("d/f{number}")).expect("moved");
                assert_eq!(node.content().map(|content| content.size), Some(size));
            }
        },
    );
}

#[test]
fn a_stream_may_be_lost_anywhere_and_costs_only_what_was_on_its_way() {
    let mut whole = filled(PairSettings::default());
    whole.succeed();
    for message in 0..whole.heard() {
        let mut pair = filled(PairSettings::default());
        assert!(pair.run_for(message));
        let Some(lost) = pair.busy_stream() else { continue };
        pair.lose_stream(lost);
        pair.run();
        assert_eq!((pair.ended(), pair.files()), ((Ok(()), Ok(())), (FILES, 0, 0, 0)));
        pair.assert_same();
        assert!(pair.sent().bytes_again < 2 * SEGMENT, "{message}: {:?}", pair.sent());
    }
}

#[test]
fn blocks_that_are_damaged_or_come_twice_are_taken_once() {
    for verify in [Verify::Blake3, Verify::Block] {
        let mut pair = filled(PairSettings { verify, damages: 100, repeats: 200, ..PairSettings::default() });
        pair.succeed();
        pair.assert_same();
        assert_eq!(pair.files(), (FILES, 0, 0, 0));
        assert!(pair.count(End::Receiver, |message| matches!(message, Message::Again(_))) > 0);
        assert!(pair.sent().bytes_again > 0 && pair.received().bytes_again > 0);
    }
}

#[test]
fn what_arrives_damaged_again_and_again_is_given_up() {
    let mut pair = pair();
    pair.source.tree.file("f", BLOCK + 1, 1);
    pair.source.tree.directory("d");
    pair.settings.damages = 1000;
    pair.succeed();
    assert_eq!(pair.files(), (0, 0, 0, 1));
    assert!(pair.failures()[0].ends_with("again and again: given up"), "{:?}", pair.failures());
    assert!(pair.disk.tree.get("f").is_none() && pair.disk.tree.get("d").is_some());
}
