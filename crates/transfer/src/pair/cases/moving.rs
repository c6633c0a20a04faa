//! Files are removed at the source once they are durable at the destination, and otherwise stay.

use super::*;

fn moving(compare: Compare) -> Pair {
    filled(PairSettings { moves: true, compare, ..PairSettings::default() })
}

fn files_left(pair: &Pair) -> Vec<String> {
    let files = pair.source.tree.iter().filter(|(_, node)| node.content().is_some());
    files.map(|(path, _)| path.clone()).collect()
}

#[test]
fn files_that_arrived_go_and_directories_and_links_stay() {
    let mut pair = moving(Compare::Checksum);
    let before = pair.source.tree.clone();
    // One is there already, and no run has verified it.
    pair.disk.tree.directory("d");
    pair.disk.tree.file("d/f4", SIZES[4], 5).mtime = 3;
    pair.succeed();
    assert_eq!(pair.files(), (FILES - 1, 1, 0, 0));
    assert_eq!(pair.source.tree.names(), ["d", "d/empty", "d/link", "dangling"]);
    assert_eq!(pair.source.removed.len() as u64, FILES);
    pair.source.tree = before;
    pair.assert_same();
}

#[test]
fn what_cannot_be_removed_stays_and_goes_the_next_time() {
    let mut pair = moving(Compare::Checksum);
    pair.source.faults.fail(Deed::Remove, "d/f5", ErrorKind::Denied);
    pair.succeed();
    assert_eq!((pair.files(), files_left(&pair)), ((FILES - 1, 0, 0, 1), vec!["d/f5".to_owned()]));
    assert!(pair.failures()[0].starts_with("d/f5 is there and stays at the source"), "{:?}", pair.failures());
    assert_eq!(pair.received().files_failed, 1, "the receiver knows");
    pair.source.faults.mend();
    pair.succeed();
    assert_eq!((pair.files(), files_left(&pair)), ((0, 1, 0, 0), vec![]));
}

#[test]
fn what_was_not_compared_or_is_the_same_file_stays() {
    for compare in [Compare::Recorded, Compare::Checksum] {
        let mut pair = moving(compare);
        let source = pair.source.tree.clone();
        pair.succeed();
        pair.source.tree = source;
        if compare == Compare::Checksum {
            pair.disk.same = pair.source.tree.names().into_iter().map(str::to_owned).collect();
        }
        pair.succeed();
        assert_eq!((pair.files(), files_left(&pair).len() as u64), ((0, 0, 0, FILES), FILES));
        assert!(
            pair.failures().iter().all(|why| why.contains("the same file at both ends, or was not compared"))
        );
    }
}

#[test]
fn what_fails_at_the_destination_stays() {
    for deed in [Deed::Write, Deed::Commit, Deed::Begin] {
        let mut pair = moving(Compare::Checksum);
        pair.disk.faults.fail(deed, "top", ErrorKind::Io);
        pair.succeed();
        assert_eq!(
            (pair.files(), files_left(&pair)),
            ((FILES - 1, 0, 0, 1), vec!["top".to_owned()]),
            "{deed:?}"
        );
    }
}

#[test]
fn what_changed_since_it_was_sent_stays() {
    let mut pair = moving(Compare::Checksum);
    let is_there = |pair: &Pair| pair.disk.tree.get("top").is_some();
    assert!(pair.run_until(is_there));
    pair.source.tree.file("top", 9, 21);
    pair.run();
    assert_eq!((pair.ended(), files_left(&pair)), ((Ok(()), Ok(())), vec!["top".to_owned()]));
    assert!(pair.failures()[0].contains("stays at the source: top has changed"), "{:?}", pair.failures());
}

#[test]
fn many_files_are_moved_within_the_window() {
    let mut pair =
        Pair::new(PairSettings { moves: true, compare: Compare::Checksum, ..PairSettings::default() });
    for number in 0..3000 {
        pair.source.tree.file(&format!("f{number}"), 1, number % 200);
        if number % 2 == 0 {
            pair.disk.tree.file(&format!("f{number}"), 1, number % 200);
        }
    }
    pair.succeed();
    assert_eq!((pair.files(), files_left(&pair)), ((1500, 1500, 0, 0), vec![]));
}
