//! What both ends decide together.

use super::*;
use crate::manifest::SEGMENT;

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
fn files_of_all_sizes_arrive() {
    let mut pair = Pair::new(PairSettings::default());
    for (number, size) in SIZES.into_iter().enumerate() {
        pair.source.tree.file(&format!("f{number}"), size, number as u64);
    }
    pair.succeed();
    pair.assert_same();
}
