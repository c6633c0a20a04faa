//! No more is offered at a time than both ends remember.

use super::*;
use crate::offer::WINDOW;

#[test]
fn very_many_files_fill_the_window_and_empty_it() {
    let mut pair = Pair::new(PairSettings { delay: 1..30, disk_delay: 2000, ..PairSettings::default() });
    for number in 0..20_000 {
        pair.source.tree.file(&format!("f{number}"), 1, number % 200);
    }
    pair.succeed();
    assert_eq!(pair.files(), (20_000, 0, 0, 0));
    let peak = pair.watch.peak;
    assert!(peak > WINDOW - OFFER_ENTRIES && peak <= WINDOW, "{peak}");
}

#[test]
fn directories_alone_fill_the_window_and_empty_it() {
    for purpose in [Purpose::Copy, Purpose::Plan] {
        let mut pair = Pair::new(PairSettings { purpose, disk_delay: 5000, ..PairSettings::default() });
        for number in 0..9000 {
            pair.source.tree.directory(&format!("{number}"));
        }
        pair.succeed();
        assert_eq!(pair.disk.tree.names().len(), if purpose == Purpose::Copy { 9000 } else { 0 });
        assert!(pair.watch.peak > WINDOW - OFFER_ENTRIES, "{}", pair.watch.peak);
    }
}

#[test]
fn long_names_fill_it_sooner() {
    let mut pair = Pair::new(PairSettings { disk_delay: 5000, batch: 16, ..PairSettings::default() });
    let mut path = String::new();
    for _ in 0..20 {
        path.push_str(&"n".repeat(200));
        pair.source.tree.directory(&path);
        path.push('/');
    }
    for number in 0..2000 {
        pair.source.tree.file(&format!("{path}{number}"), 0, number);
    }
    pair.succeed();
    pair.assert_same();
    let peak = pair.watch.peak;
    assert!(peak > 100 && peak < crate::offer::WINDOW_BYTES / path.len() + 20, "{peak}");
}
