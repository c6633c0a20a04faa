//! Whole transfers between a local side and an endpoint in the same process.

use crate::common::{Fixture, assert_same_tree, write};
use std::fs;
use std::time::Duration;
use tidegate_transfer::terms::{Compare, DataPlane, Verify};
use tidegate_transfer::transfer::route::{To, begin};

#[test]
fn a_tree_is_pushed_and_pulled_and_skipped_the_second_time() {
    let f = Fixture::new();
    let source = f.source(&[("tree/a.bin", 10_000_000), ("tree/deep/er/b.bin", 1), ("tree/deep/empty", 0)]);
    for i in 0..500 {
        write(&source.join(format!("tree/small/{i}")), (i * 37) as u64, i as u64);
    }
    fs::create_dir_all(source.join("tree/hollow/inside")).expect("made");
    std::os::unix::fs::symlink("../a.bin", source.join("tree/deep/link")).expect("linked");

    let pushed = f.push(&[source.join("tree")], "in/");
    assert_eq!((pushed.files_done, pushed.files_failed), (503, 0));
    assert_same_tree(&source.join("tree"), &f.root.join("in/tree"));
    let again = f.push(&[source.join("tree")], "in/");
    assert_eq!((again.files_done, again.files_skipped, again.bytes_moved), (0, 503, 0));

    let back = f.dir("back");
    let pulled = f.pull(&["in/tree/"], &back.join("here"));
    assert_eq!((pulled.files_done, pulled.files_failed), (503, 0));
    assert_same_tree(&source.join("tree"), &back.join("here"));
    let again = f.pull(&["in/tree/"], &back.join("here"));
    assert_eq!((again.files_done, again.files_skipped), (0, 503));
}

#[test]
fn nothing_is_sent_twice_on_a_sound_network() {
    for data_plane in [DataPlane::Tls, DataPlane::Clear] {
        let mut f = Fixture::new();
        f.terms.data_plane = data_plane;
        let source = f.dir("source");
        // Around the sizes where a file is bundled, sent in place, or cut into blocks.
        for (i, size) in
            [1, 60_000, 65_536, 70_000, 100_000, 131_072, 131_073, 200_000, 262_144].iter().enumerate()
        {
            for copy in 0..6 {
                write(&source.join(format!("{copy}/{i}")), *size, (10 * i + copy) as u64);
            }
        }
        let totals = f.push(&[source.join("")], "in/");
        assert_eq!((totals.files_done, totals.bytes_again), (54, 0), "{data_plane:?}");
        assert_same_tree(&source, &f.root.join("in"));
    }
}

#[test]
fn a_file_whose_content_was_right_gets_its_mode_and_time_by_checksum() {
    use std::os::unix::fs::PermissionsExt;
    let mut f = Fixture::new();
    let source = f.source(&[("file", 300_000)]);
    f.push(&[source.join("")], "in/");
    let file = fs::File::open(source.join("file")).expect("opened");
    file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_007)).expect("set");
    file.set_permissions(fs::Permissions::from_mode(0o640)).expect("set");
    f.terms.compare = Compare::Checksum;
    assert_eq!(f.push(&[source.join("")], "in/").files_skipped, 1);
    assert_same_tree(&source, &f.root.join("in"));
    f.terms.compare = Compare::Recorded;
    assert_eq!(f.push(&[source.join("")], "in/").files_skipped, 1, "and is remembered with them");
}

#[test]
fn the_round_trip_is_known_before_anything_moves() {
    let f = Fixture::new();
    let source = f.source(&[("file", 1)]);
    write(&f.root.join("file"), 1, 1);
    let back = To::Local(f.dir("back").into_os_string().into_encoded_bytes());
    for (from, to) in [(f.local(&[source]), f.to_endpoint("in/")), (f.remote(&["file"]), back)] {
        let transfer = begin(&from, &to, &f.setup()).expect("begun");
        let round_trip = transfer.host().round_trip.expect("the kernel knows");
        assert!(!round_trip.is_zero() && round_trip < Duration::from_secs(1), "{round_trip:?}");
    }
}

#[test]
fn no_privilege_travels_with_a_file() {
    use std::os::unix::fs::PermissionsExt;
    let f = Fixture::new();
    let source = f.source(&[("program", 1000)]);
    fs::set_permissions(source.join("program"), fs::Permissions::from_mode(0o6755)).expect("set");
    f.push(&[source.join("")], "in/");
    let mode = f.root.join("in/program").metadata().expect("there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

#[test]
fn the_last_block_never_waits_for_a_writer_that_does_not_come_back() {
    let mut f = Fixture::new();
    f.terms.verify = Verify::Block;
    f.terms.data_plane = DataPlane::Clear;
    let source = f.source(&[("file", 300_000)]);
    for run in 0..100 {
        assert_eq!(f.push(&[source.join("file")], &format!("in/{run}")).files_done, 1);
    }
}
