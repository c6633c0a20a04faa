//! Disks that are full and files that may not be touched.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::common::{Fixture, assert_same_tree, content, drive, is_error, leftovers, limit, write};
use testkit::mounted::Mounted;
use testkit::skip;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::terms::{Compare, DataPlane, Purpose};
use tidegate_transfer::transfer::route::{From, To, begin};

/// A file system of its own, where one can be mounted.
fn mounted(test: &str, place: &Path, options: &str) -> Option<Mounted> {
    let mounted = Mounted::tmpfs(place, options);
    if mounted.is_none() {
        skip(test, "mounting a tmpfs needs root");
    }
    mounted
}

fn fails_with<T>(kind: ErrorKind, result: Result<T>) -> Error {
    let error = is_error(result);
    assert_eq!(error.kind, kind, "{error}");
    error
}

#[test]
fn a_full_disk_ends_the_run_and_room_lets_it_continue() {
    for (pull, joined) in [(false, false), (true, false), (false, true)] {
        let mut f = Fixture::new();
        f.joined = joined;
        let place = if pull { f.dir("small") } else { f.root.join("small") };
        let Some(_mounted) =
            mounted("a_full_disk_ends_the_run_and_room_lets_it_continue", &place, "size=12m")
        else {
            return;
        };
        let source = if pull { f.root.join("tree") } else { f.dir("tree") };
        write(&source.join("a-large"), 9_000_000, 1);
        write(&source.join("b-small"), 50_000, 2);
        // What is in the way of the room, and what was there before.
        fs::write(place.join("ballast"), content(6_000_000, 3)).expect("written");
        fs::create_dir(place.join("tree")).expect("made");
        fs::write(place.join("tree/a-large"), content(40_000, 4)).expect("written");
        let (from, to) = match pull {
            false => (f.local(std::slice::from_ref(&source)), f.to_endpoint("small/")),
            true => (f.remote(&["tree"]), To::Local(place.as_os_str().as_bytes().to_vec())),
        };
        let error = fails_with(ErrorKind::NoSpace, f.run(&from, &to));
        assert!(error.message.contains("free some space"), "{error}");
        assert_eq!(fs::read(place.join("tree/a-large")).expect("there"), content(40_000, 4));
        fs::remove_file(place.join("ballast")).expect("removed");
        let (totals, failures) = f.run(&from, &to).expect("continued");
        assert_eq!((totals.files_failed, failures.len()), (0, 0), "{failures:?}");
        assert_same_tree(&source, &place.join("tree"));
        assert!(leftovers(&place).is_empty());
    }
}

#[test]
fn a_disk_without_room_for_another_name_is_named() {
    let f = Fixture::new();
    let place = f.root.join("small");
    let Some(_mounted) =
        mounted("a_disk_without_room_for_another_name_is_named", &place, "size=8m,nr_inodes=20")
    else {
        return;
    };
    let source = f.dir("tree");
    for i in 0..60 {
        write(&source.join(format!("{i}")), 100, i);
    }
    fails_with(ErrorKind::NoSpace, f.try_push(&[source], "small/"));
}

/// Fills all but so many pages of a file system in memory of `size` bytes.
fn fill(place: &Path, size: usize, pages: usize) {
    fs::write(place.join("ballast"), vec![0; size - 4096 * pages]).expect("written");
}

#[test]
fn a_journal_that_has_no_room_ends_the_run_in_one_line_that_says_where_it_is() {
    const SIZE: usize = 1 << 20;
    let test = "a_journal_that_has_no_room_ends_the_run_in_one_line_that_says_where_it_is";
    for (pull, joined) in [(false, false), (true, false), (false, true)] {
        // Room for its beginning, and none.
        for pages in [1, 0] {
            let mut f = Fixture::new();
            f.joined = joined;
            let place = if pull { f.dir("small") } else { f.root.join("small") };
            let Some(_mounted) = mounted(test, &place, "size=1m") else { return };
            fill(&place, SIZE, pages);
            let source = if pull { f.root.join("tree") } else { f.dir("tree") };
            for number in 0..100 {
                fs::create_dir_all(source.join(format!("{}{number}", "long".repeat(40)))).expect("made");
            }
            let (from, to) = match pull {
                false => (f.local(std::slice::from_ref(&source)), f.to_endpoint("small/")),
                true => (f.remote(&["tree"]), To::Local(place.as_os_str().as_bytes().to_vec())),
            };
            let ledger = Mutex::new(None);
            let error = fails_with(ErrorKind::NoSpace, {
                begin(&from, &to, &f.setup()).and_then(|transfer| {
                    *ledger.lock() = Some(Arc::clone(transfer.ledger()));
                    drive(transfer, f.setpoint)
                })
            });
            let message = &error.message;
            assert!(message.contains(".tidegate/") && message.contains("/journal: No space"), "{message}");
            assert!(message.ends_with("free some space and run the same command again"), "{message}");
            if let Some(ledger) = ledger.lock().take() {
                assert_eq!((ledger.failures(), ledger.totals().files_listed), (Vec::new(), 0));
            }
        }
    }
}

#[test]
fn who_asked_for_a_copy_between_others_is_told_how_much_of_it_is_kept() {
    let test = "who_asked_for_a_copy_between_others_is_told_how_much_of_it_is_kept";
    let (mut from, to) = (Fixture::new(), Fixture::new());
    let Some(_mounted) = mounted(test, &to.root.join("small"), "size=24m") else { return };
    write(&from.root.join("large"), 40_000_000, 1);
    from.terms.limits = limit(100);
    let transfer = begin(&from.remote(&["large"]), &to.to_endpoint("small/"), &from.setup()).expect("begun");
    let ledger = Arc::clone(transfer.ledger());
    let error = fails_with(ErrorKind::NoSpace, drive(transfer, from.setpoint));
    assert!(error.message.contains("cannot write large"), "{error}");
    assert!(ledger.bytes_unfinished() > 4 << 20, "{}", ledger.bytes_unfinished());
}

#[test]
fn one_file_that_may_not_be_replaced_fails_alone() {
    let f = Fixture::new();
    let source = f.dir("tree");
    for name in ["a", "b", "c"] {
        write(&source.join(name), 200_000, 1);
    }
    let place = f.root.join("in/tree");
    write(&place.join("b"), 10, 9);
    let immutable = |flag: &str| Command::new("chattr").arg(flag).arg(place.join("b")).output();
    if !immutable("+i").is_ok_and(|out| out.status.success()) {
        return skip(
            "one_file_that_may_not_be_replaced_fails_alone",
            "chattr +i needs root and ext4 or the like",
        );
    }
    let result = f.try_push(std::slice::from_ref(&source), "in/");
    let kept = fs::read(place.join("b"));
    immutable("-i").expect("chattr runs");
    let (totals, failures) = result.expect("ran");
    assert_eq!((totals.files_done, totals.files_failed), (2, 1), "{failures:?}");
    assert_eq!(failures[0].error.kind, ErrorKind::Denied, "{failures:?}");
    assert_eq!(kept.expect("there"), content(10, 9));
    assert!(leftovers(&f.root).is_empty());
    assert_eq!(f.push(std::slice::from_ref(&source), "in/").files_failed, 0);
    assert_same_tree(&source, &place);
}

#[test]
fn a_read_only_destination_is_named() {
    let f = Fixture::new();
    let place = f.root.join("fixed");
    let Some(_mounted) = mounted("a_read_only_destination_is_named", &place, "size=1m,ro") else { return };
    let source = f.dir("tree");
    write(&source.join("file"), 100, 1);
    fails_with(ErrorKind::Denied, f.try_push(&[source], "fixed/"));
}

#[test]
fn what_is_not_there_is_not_found() {
    let f = Fixture::new();
    let back = f.dir("back");
    let back = To::Local(back.as_os_str().as_bytes().to_vec());
    fails_with(ErrorKind::NotFound, f.run(&f.remote(&["missing"]), &back));
    let nowhere = From::Local(vec![b"/no/such/path".to_vec()]);
    fails_with(ErrorKind::NotFound, f.run(&nowhere, &f.to_endpoint("in/")));
    assert!(!f.root.join("in").exists());
}

#[test]
fn where_a_file_system_shares_blocks_a_copy_takes_no_room_and_is_hashed_where_it_went() {
    let test = "where_a_file_system_shares_blocks_a_copy_takes_no_room_and_is_hashed_where_it_went";
    let mut f = Fixture::new();
    (f.joined, f.terms.data_plane) = (true, DataPlane::Clear);
    let (place, image) = (f.root.join("volume"), f.temporary.path().join("image"));
    let mkfs = ["mkfs.btrfs", "-q", "-m", "single"];
    let Some(_mounted) = Mounted::made(&place, &image, 160 << 20, &mkfs) else {
        return skip(test, "mounting a btrfs needs root and mkfs.btrfs");
    };
    let source = place.join("source");
    // Twice this does not fit.
    write(&source.join("large"), 90_000_001, 1);
    write(&source.join("middle"), 200_000, 2);
    write(&source.join("small"), 5000, 3);
    let copied = f.push(&[source.join("")], "volume/copy/");
    assert_eq!((copied.files_done, copied.files_failed, copied.bytes_moved), (3, 0, 90_205_001));
    assert_same_tree(&source, &place.join("copy"));
    // What was remembered is the hash of what is there.
    f.terms.compare = Compare::Checksum;
    f.terms.purpose = Purpose::Compare;
    let compared = f.push(&[source.join("")], "volume/copy/");
    assert_eq!((compared.files_skipped, compared.files_failed), (3, 0));
    (f.terms.compare, f.terms.purpose) = (Compare::Recorded, Purpose::Copy);
    // What is written to the one does not reach the other.
    fs::write(source.join("middle"), content(200_000, 4)).expect("written");
    assert_eq!(fs::read(place.join("copy/middle")).expect("there"), content(200_000, 2));
    // From another file system it is copied, and ends where nothing fits.
    let elsewhere = f.source(&[("middle", 300_000)]);
    f.push(&[elsewhere.join("")], "volume/other/");
    assert_same_tree(&elsewhere, &place.join("other"));
    write(&elsewhere.join("large"), 90_000_001, 1);
    fails_with(ErrorKind::NoSpace, f.try_push(&[elsewhere.join("")], "volume/other/"));
}
