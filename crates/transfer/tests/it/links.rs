//! Symbolic links at both ends, and what may stand in a destination's way.

use crate::common;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Fixture, assert_same_tree, content, leftovers, write};
use tidegate_transfer::error::ErrorKind;
use tidegate_transfer::ledger::Failure;
use tidegate_transfer::terms::Links;
use tidegate_transfer::transfer::route::{From, To};

/// A source with links of every sort; `outside` lies beside it.
fn tree(f: &Fixture) -> std::path::PathBuf {
    let source = f.source(&[("real/file", 1000)]);
    write(&f.dir("outside").join("secret"), 500, 2);
    symlink("real/file", source.join("to-file")).expect("linked");
    symlink("real", source.join("to-dir")).expect("linked");
    symlink("../outside", source.join("out-dir")).expect("linked");
    symlink("../outside/secret", source.join("out-file")).expect("linked");
    symlink("/etc/passwd", source.join("absolute")).expect("linked");
    symlink("nowhere", source.join("dangling")).expect("linked");
    symlink("..", source.join("real/up")).expect("linked");
    symlink("self", source.join("self")).expect("linked");
    source
}

#[test]
fn links_are_kept_as_they_are() {
    let f = Fixture::new();
    let source = tree(&f);
    assert_eq!(f.push(std::slice::from_ref(&source), "in/").files_failed, 0);
    assert_same_tree(&source, &f.root.join("in/source"));
    let back = f.dir("back");
    assert_eq!(f.pull(&["in/source"], &back).files_failed, 0);
    assert_same_tree(&source, &back.join("source"));
    // Links that changed are made anew.
    fs::remove_file(source.join("to-file")).expect("removed");
    symlink("elsewhere", source.join("to-file")).expect("linked");
    assert_eq!(f.push(std::slice::from_ref(&source), "in/").files_failed, 0);
    assert_same_tree(&source, &f.root.join("in/source"));
}

#[test]
fn links_are_left_out_when_asked() {
    let mut f = Fixture::new();
    f.terms.links = Links::Skip;
    let source = tree(&f);
    assert_eq!(f.push(&[source], "in/").files_failed, 0);
    let names = |path: &str| -> Vec<_> {
        let mut names: Vec<_> = fs::read_dir(f.root.join(path))
            .expect("listed")
            .map(|e| e.expect("listed").file_name())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("in/source"), ["real"]);
    assert_eq!(names("in/source/real"), ["file"]);
}

#[test]
fn links_are_followed_within_the_tree_and_never_out_of_it() {
    for pull in [false, true] {
        let mut f = Fixture::new();
        f.terms.links = Links::Follow;
        let source = tree(&f);
        let (from, to, there) = if pull {
            // The same tree at the endpoint, with its neighbour beside it.
            for name in ["source", "outside"] {
                fs::rename(f.dir(name), f.root.join(name)).expect("moved");
            }
            let there = f.dir("back");
            (f.remote(&["source"]), To::Local(there.as_os_str().as_bytes().to_vec()), there.join("source"))
        } else {
            (f.local(&[source]), f.to_endpoint("in/"), f.root.join("in/source"))
        };
        let (totals, failures) = f.run(&from, &to).expect("ran");
        let mut failed: Vec<_> =
            failures.iter().map(|f| String::from_utf8_lossy(&f.path).into_owned()).collect();
        failed.sort();
        assert_eq!(totals.files_done, 3, "the file, and once more through each link: {failures:?}");
        for name in ["absolute", "dangling", "out-dir", "out-file", "self"] {
            assert!(failed.iter().any(|path| path.ends_with(name)), "{name} in {failed:?}");
            assert!(there.join(name).symlink_metadata().is_err(), "{name}");
        }
        for name in ["real/file", "to-file", "to-dir/file"] {
            assert_eq!(fs::read(there.join(name)).expect("there"), content(1000, 1), "{name}");
            assert!(!there.join(name).symlink_metadata().expect("there").is_symlink());
        }
        assert!(there.join("real/up").symlink_metadata().is_err(), "a loop");
    }
}

#[test]
fn a_destination_beneath_a_link_is_refused() {
    let f = Fixture::new();
    let source = f.source(&[("tree/a/file", 1000), ("tree/b", 1000)]);
    let outside = f.dir("outside");
    // The destination itself, a directory on the way, and one of the tree's.
    symlink(&outside, f.root.join("door")).expect("linked");
    for path in ["door/", "door/deep/er/", "door"] {
        let error = common::is_error(f.try_push(&[source.join("tree")], path));
        assert_eq!(error.kind, ErrorKind::UnsafeName, "{path}: {error}");
    }
    fs::create_dir_all(f.root.join("in/tree")).expect("made");
    symlink(&outside, f.root.join("in/tree/a")).expect("linked");
    let (totals, failures) = f.try_push(&[source.join("tree")], "in/").expect("ran");
    assert_eq!(totals.files_done, 1, "the other file");
    assert!(failures.iter().all(|failure| failure.path.starts_with(b"tree/a")), "{failures:?}");
    let tells = |failure: &Failure| failure.error.message.contains("a link is there or on the way");
    assert!(!failures.is_empty() && failures.iter().all(tells), "{failures:?}");
    assert_eq!(fs::read_dir(&outside).expect("listed").count(), 0, "nothing got out");
    // And no data comes in through one either.
    symlink("/etc", f.root.join("etc")).expect("linked");
    let error = common::is_error(
        f.run(&f.remote(&["etc/hostname"]), &To::Local(f.dir("back").as_os_str().as_bytes().to_vec())),
    );
    assert!(matches!(error.kind, ErrorKind::UnsafeName | ErrorKind::NotFound), "{error}");
}

#[test]
fn a_parent_that_flips_between_directory_and_link_lets_nothing_out() {
    let mut f = Fixture::new();
    f.terms.max_workers = 4;
    let source = f.dir("source");
    for i in 0..150 {
        write(&source.join(format!("tree/flip/{i}")), 2000, i);
    }
    let outside = f.dir("outside");
    write(&outside.join("canary"), 10, 1);
    fs::create_dir_all(f.root.join("in/tree")).expect("made");
    let over = Arc::new(AtomicBool::new(false));
    let flipper = {
        let (over, place, outside) = (Arc::clone(&over), f.root.join("in/tree"), outside.clone());
        thread::spawn(move || {
            let (flip, aside) = (place.join("flip"), place.join("aside"));
            while !over.load(SeqCst) {
                let _ = fs::rename(&flip, &aside);
                let _ = symlink(&outside, &flip);
                thread::yield_now();
                let _ = fs::remove_file(&flip);
                let _ = fs::rename(&aside, &flip);
                thread::yield_now();
            }
        })
    };
    let end = Instant::now() + Duration::from_secs(2);
    let mut runs = 0;
    while Instant::now() < end {
        // Any file may fail; none may land elsewhere.
        let _ = f.try_push(&[source.join("tree")], "in/");
        runs += 1;
    }
    over.store(true, SeqCst);
    flipper.join().expect("flipped");
    assert!(runs > 0);
    let names: Vec<_> =
        fs::read_dir(&outside).expect("listed").map(|e| e.expect("listed").file_name()).collect();
    assert_eq!(names, ["canary"]);
    assert_eq!(fs::read(outside.join("canary")).expect("there"), content(10, 1));
}

#[test]
fn what_stands_in_the_way_is_replaced_or_named() {
    let f = Fixture::new();
    let source = f.dir("source");
    for name in ["directory", "link", "read-only", "pipe", "plain"] {
        write(&source.join("tree").join(name), 300_000, 1);
    }
    let outside = f.dir("outside");
    write(&outside.join("target"), 20, 9);
    let place = f.root.join("in/tree");
    fs::create_dir_all(place.join("directory/full")).expect("made");
    symlink(outside.join("target"), place.join("link")).expect("linked");
    write(&place.join("read-only"), 10, 3);
    fs::set_permissions(place.join("read-only"), fs::Permissions::from_mode(0o444)).expect("set");
    pipe(&place.join("pipe"));
    let (totals, failures) = f.try_push(&[source.join("tree")], "in/").expect("ran");
    assert_eq!((totals.files_done, totals.files_failed), (3, 2), "{failures:?}");
    for (failure, why) in
        failures.iter().zip(["a directory of that name is there", "will not replace tree/pipe"])
    {
        assert_eq!(failure.error.kind, ErrorKind::Denied);
        assert!(failure.error.message.contains(why), "{failures:?}");
    }
    assert!(place.join("directory/full").is_dir());
    assert!(place.join("pipe").symlink_metadata().expect("there").file_type().is_fifo());
    for name in ["link", "read-only", "plain"] {
        let kind = place.join(name).symlink_metadata().expect("there").file_type();
        assert!(kind.is_file(), "{name}");
        assert_eq!(fs::read(place.join(name)).expect("read"), content(300_000, 1), "{name}");
    }
    assert_eq!(fs::read(outside.join("target")).expect("read"), content(20, 9), "the link's target rests");
    // The other way about: a directory that comes where a file is.
    write(&source.join("other/plain/inside"), 10, 1);
    let (_, failures) = f
        .run(
            &From::Local(vec![[source.as_os_str().as_bytes(), b"/other/"].concat()]),
            &f.to_endpoint("in/tree/"),
        )
        .expect("ran");
    assert!(!failures.is_empty());
    assert_eq!(fs::read(place.join("plain")).expect("read"), content(300_000, 1));
    assert!(leftovers(&f.root).is_empty());
    // Pipes and sockets in the source are left out without waiting for them.
    pipe(&source.join("tree/a-pipe"));
    fs::remove_dir_all(place.join("directory")).expect("removed");
    fs::remove_file(place.join("pipe")).expect("removed");
    assert_eq!(f.push(&[source.join("tree")], "in/").files_failed, 0);
    assert!(place.join("a-pipe").symlink_metadata().is_err());
}

fn pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
    assert!(made.success() && path.symlink_metadata().expect("there").file_type().is_fifo());
}
