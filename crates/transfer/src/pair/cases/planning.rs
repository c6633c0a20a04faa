//! What a copy would do is said in the order of the source, nothing is done, and a copy then does just that.

use std::collections::BTreeMap;

use super::*;
use crate::plan::{Action, Difference, EntryKind, Planned};

/// A destination that differs from the source in all the ways there are.
fn disturbed(settings: PairSettings) -> Pair {
    let mut pair = copied(settings);
    let there = &mut pair.disk.tree;
    there.remove("d/f5");
    there.file("d/f4", SIZES[4], 99).mtime = 3;
    there.file("d/f3", 3, 99);
    there.get_mut("d/f2").expect("there").mode = 0o600;
    there.remove("dangling");
    there.link("d/link", "elsewhere");
    there.get_mut("d/empty").expect("there").mtime = 1;
    there.directory("d/extra");
    there.file("d/extra/file", 8, 8);
    pair.source.tree.get_mut("top").expect("there").mtime = 5555;
    pair
}

/// What the plan says would change, as a disk tells it.
fn said(planned: &[Planned]) -> BTreeMap<String, &'static str> {
    let changes = planned.iter().filter_map(|Planned { path, kind, change, .. }| {
        let deed = match (change.action, kind) {
            (Action::Delete, _) => "deleted",
            (Action::Same, _) => return None,
            (_, EntryKind::File) if change.sent => "sent",
            (Action::New, _) => "made",
            (_, EntryKind::File) => "refreshed",
            (_, EntryKind::Link) if change.differs != [Difference::Time] => "made",
            // A directory's mode and time are set at the end, and a link's time with the link.
            _ => return None,
        };
        Some((String::from_utf8(path.as_bytes().to_vec()).expect("text"), deed))
    });
    changes.collect()
}

fn done(pair: &Pair) -> BTreeMap<String, &'static str> {
    pair.disk.changed.iter().map(|(deed, path)| (path.clone(), *deed)).collect()
}

fn bytes(planned: &[Planned]) -> u64 {
    planned.iter().filter(|planned| planned.change.sent).map(|planned| planned.size).sum()
}

#[test]
fn a_copy_does_just_what_its_plan_says() {
    for pulls in [false, true] {
        for compare in [Compare::Recorded, Compare::Checksum] {
            for mirrors in [false, true] {
                let settings = PairSettings { pulls, compare, batch: 3, ..PairSettings::default() };
                let mut pair = disturbed(settings);
                (pair.settings.mirrors, pair.settings.purpose) = (mirrors, Purpose::Plan);
                pair.succeed();
                let (planned, skipped) = (pair.sender.planned.clone(), pair.sent());
                assert_eq!(pair.sent().bytes_moved, 0);
                pair.settings.purpose = Purpose::Copy;
                pair.succeed();
                assert_eq!(said(&planned), done(&pair), "{compare:?} {mirrors}");
                assert_eq!(pair.sent().bytes_moved, bytes(&planned));
                assert_eq!(pair.sent().files_skipped, skipped.files_skipped);
                assert!(said(&planned).len() >= 6, "{planned:?}");
                assert_eq!(said(&planned).values().any(|deed| *deed == "deleted"), mirrors);
            }
        }
    }
}

#[test]
fn a_plan_is_told_in_the_order_of_the_source_however_its_comparisons_end() {
    for seed in 0..20 {
        let settings = PairSettings { seed, compare: Compare::Checksum, batch: 4, ..PairSettings::default() };
        let mut pair = disturbed(settings);
        pair.settings.purpose = Purpose::Plan;
        pair.succeed();
        let told: Vec<_> = pair.sender.planned.iter().map(|planned| planned.path.as_bytes()).collect();
        let names = pair.source.tree.names();
        assert_eq!(told, names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>());
    }
}

#[test]
fn what_would_differ_is_named() {
    let mut pair = disturbed(PairSettings { purpose: Purpose::Copy, ..PairSettings::default() });
    pair.settings.purpose = Purpose::Plan;
    pair.succeed();
    let of = |path: &str| {
        let planned = &pair.sender.planned;
        let found = planned.iter().find(|planned| planned.path.as_bytes() == path.as_bytes());
        found.expect("planned").change.clone()
    };
    assert_eq!((of("d/f5").action, of("d/f5").sent), (Action::New, true));
    assert_eq!(of("d/f2").differs, [Difference::Mode]);
    assert_eq!(of("d/f3").differs, [Difference::Size, Difference::Time]);
    assert_eq!((of("top").differs, of("top").sent), (vec![Difference::Time], false));
    assert_eq!(of("d/link").differs, [Difference::Target]);
    assert_eq!((of("d/f0").action, of("dangling").action), (Action::Same, Action::New));
}

#[test]
fn a_plan_says_what_would_fail() {
    let mut pair = disturbed(PairSettings::default());
    pair.settings.purpose = Purpose::Plan;
    pair.disk.faults.fail(Deed::Begin, "d/f5", ErrorKind::Denied);
    pair.disk.tree.remove("d/empty");
    pair.disk.tree.file("d/empty", 3, 3);
    pair.source.problems = vec!["secret".into()];
    pair.succeed();
    assert_eq!((pair.sent().files_failed, pair.received().files_failed), (3, 3), "{:?}", pair.failures());
    let failed = [&b"d/f5"[..], b"d/empty"];
    assert!(!pair.sender.planned.iter().any(|planned| failed.contains(&planned.path.as_bytes())));
}

#[test]
fn a_file_that_cannot_be_compared_fails_in_a_plan_and_the_rest_is_told() {
    let mut pair = copied(PairSettings { compare: Compare::Checksum, ..PairSettings::default() });
    pair.settings.purpose = Purpose::Plan;
    pair.source.faults.fail(Deed::Read, "d/f1", ErrorKind::Io);
    pair.succeed();
    assert_eq!((pair.sent().files_failed, pair.received().files_failed), (1, 1));
    assert_eq!(pair.sender.planned.len(), pair.source.tree.names().len() - 1);
}

#[test]
fn after_an_interruption_a_plan_says_what_is_left_to_send() {
    let mut pair = pair();
    pair.source.tree.file("large", 3 * SEGMENT + 5, 1);
    let one = |pair: &Pair| !pair.disk.journal.is_empty();
    assert!(pair.run_until(one));
    pair.cut();
    pair.settings.purpose = Purpose::Plan;
    pair.succeed();
    let (left, kept) = (pair.sent().bytes_listed, pair.sent().bytes_skipped);
    assert!(kept >= SEGMENT && pair.received().bytes_skipped == kept, "{kept}");
    pair.settings.purpose = Purpose::Copy;
    pair.succeed();
    assert_eq!((pair.sent().bytes_moved, pair.sent().bytes_skipped), (left - kept, kept));
}

#[test]
fn a_plan_of_very_many_files_stays_within_the_window() {
    let mut pair =
        Pair::new(PairSettings { purpose: Purpose::Plan, delay: 1..30, ..PairSettings::default() });
    for number in 0..20_000 {
        pair.source.tree.file(&format!("f{number}"), 1, number % 200);
    }
    pair.succeed();
    assert_eq!(pair.sender.planned.len(), 20_000);
}
