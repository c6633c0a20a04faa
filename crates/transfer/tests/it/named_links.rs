//! Symbolic links in the paths that somebody names: followed on the user's own host, and at an endpoint within what the
//! ticket covers or where the operator said.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::{Fixture, assert_same_tree, content, is_error, leftovers, picture, write};
use tidegate_transfer::error::ErrorKind;
use tidegate_transfer::terms::Links;
use tidegate_transfer::transfer::route::{From, To};
use tidegate_transfer::wire::ticket::{Address, Claims};

fn to(path: &Path) -> To {
    To::Local(path.as_os_str().as_bytes().to_vec())
}

fn tree(at: &Path, seed: u64) {
    write(&at.join("file"), 200_000, seed);
    write(&at.join("sub/file"), 1000, seed + 1);
    symlink("sub", at.join("inner")).expect("linked");
}

#[test]
fn a_link_that_is_named_is_followed_within_what_the_ticket_covers() {
    let f = Fixture::new();
    let real = f.root.join("area/real");
    tree(&real, 1);
    symlink("real", f.root.join("area/relative")).expect("linked");
    symlink(&real, f.root.join("area/absolute")).expect("linked");
    symlink("real/file", f.root.join("area/one")).expect("linked");
    let source = f.dir("source");
    tree(&source.join("tree"), 5);
    let narrow = f.endpoint.address(&Claims { path: b"area".to_vec(), ..Claims::FULL }).expect("an address");
    for (number, address) in [&f.address, &narrow].into_iter().enumerate() {
        let back = f.dir(&format!("back{number}"));
        for name in ["relative", "absolute"] {
            // With its name, and its contents; a link beneath it stays one.
            let from = |path: &str| From::Endpoint(address.clone(), vec![path.into()]);
            f.run(&from(&format!("area/{name}")), &to(&back.join(""))).expect("pulled");
            assert_same_tree(&real, &back.join(name));
            f.run(&from(&format!("area/{name}/")), &to(&back.join(name).join("contents"))).expect("pulled");
            assert_same_tree(&real, &back.join(name).join("contents"));
            f.run(&from(&format!("area/{name}/sub/file")), &to(&back.join(format!("{name}-file"))))
                .expect("pulled");
            assert_eq!(fs::read(back.join(format!("{name}-file"))).expect("there"), content(1000, 2));
        }
        f.run(&From::Endpoint(address.clone(), vec![b"area/one".to_vec()]), &to(&back.join("")))
            .expect("pulled");
        assert_eq!(fs::read(back.join("one")).expect("there"), content(200_000, 1));
        // As a destination, also with what is to be made behind it.
        for (path, made) in
            [("area/relative/", ""), ("area/absolute", ""), ("area/relative/new/deep/", "new/deep")]
        {
            let there = To::Endpoint(address.clone().with_path(path));
            let ran = f.run(&f.local(&[source.join("tree")]), &there).expect("pushed");
            assert_eq!(ran.0.files_failed, 0, "{path}: {:?}", ran.1);
            assert_same_tree(&source.join("tree"), &real.join(made).join("tree"));
        }
        fs::remove_dir_all(real.join("tree")).expect("removed");
        fs::remove_dir_all(real.join("new")).expect("removed");
    }
    // A link to a file is the file.
    f.push(&[source.join("tree/file")], "area/one");
    assert!(f.root.join("area/one").is_symlink());
    assert_eq!(fs::read(real.join("file")).expect("there"), content(200_000, 5));
    // By the link or not, it is one destination: what was verified there is known.
    f.push(&[source.join("tree")], "area/relative/");
    assert_eq!(f.push(&[source.join("tree")], "area/real/").files_skipped, 2);
    assert!(leftovers(&f.root).is_empty());
}

#[test]
fn a_third_party_goes_through_a_link_as_its_initiator_may() {
    let (a, b) = (Fixture::new(), Fixture::new());
    tree(&a.root.join("real"), 1);
    symlink("real", a.root.join("from")).expect("linked");
    fs::create_dir(b.root.join("real")).expect("made");
    symlink("real", b.root.join("to")).expect("linked");
    symlink("/etc", b.root.join("out")).expect("linked");
    let there = |path: &str| To::Endpoint(b.address.clone().with_path(path));
    let (totals, failures) = a.run(&a.remote(&["from/"]), &there("to/")).expect("sent");
    assert_eq!((totals.files_done, failures.len()), (2, 0), "{failures:?}");
    assert_same_tree(&a.root.join("real"), &b.root.join("real"));
    let error = is_error(a.run(&a.remote(&["from/"]), &there("out/")));
    assert_eq!(error.kind, ErrorKind::UnsafeName, "{error}");
}

#[test]
fn a_link_that_was_planted_with_a_ticket_opens_nothing() {
    let f = Fixture::new();
    let outside = f.dir("outside");
    write(&outside.join("secret"), 100, 1);
    write(&f.root.join("theirs/secret"), 100, 2);
    let mine = f.endpoint.address(&Claims { path: b"mine".to_vec(), ..Claims::FULL }).expect("an address");
    // Planted by a copy.
    let source = f.dir("source");
    for (name, target) in [
        ("x", Path::new("/etc")),
        ("y", &outside),
        ("z", Path::new("../theirs")),
        ("none", Path::new("/no/such")),
    ] {
        symlink(target, source.join(name)).expect("linked");
    }
    let contents = [source.as_os_str().as_bytes(), b"/"].concat();
    f.run(&From::Local(vec![contents]), &To::Endpoint(mine.clone().with_path("mine/"))).expect("pushed");
    assert!(f.root.join("mine/x").is_symlink() && f.root.join("mine/z").is_symlink());
    let before = (picture(&outside), picture(&f.root.join("theirs")));
    write(&f.dir("more").join("file"), 1000, 3);
    let refused = |from: &From, to: &To, link: &str| {
        let error = is_error(f.run(from, to));
        assert_eq!(error.kind, ErrorKind::UnsafeName, "{error}");
        assert!(error.message.contains("is not followed") && !error.message.contains('\n'), "{error}");
        error.message.replace(link, "LINK")
    };
    let back = f.dir("back");
    let mut words = Vec::new();
    for name in ["x", "y", "z", "none"] {
        for path in [format!("mine/{name}/"), format!("mine/{name}"), format!("mine/{name}/secret")] {
            let link = format!("mine/{name}");
            let from = From::Endpoint(mine.clone(), vec![path.clone().into()]);
            let to_link = To::Endpoint(mine.clone().with_path(path.as_str()));
            words.push(refused(&from, &to(&back), &link));
            words.push(refused(&f.local(&[f.temporary.path().join("more/file")]), &to_link, &link));
            words.push(refused(&f.local(&[f.temporary.path().join("more")]), &to_link, &link));
        }
    }
    words.sort();
    words.dedup();
    assert_eq!(words.len(), 1, "the same words wherever it leads: {words:?}");
    assert_eq!((picture(&outside), picture(&f.root.join("theirs"))), before);
    assert_eq!(fs::read_dir(&back).expect("listed").count(), 0);
    // Whoever may use the whole root may go along the link within it.
    assert_eq!(f.pull(&["mine/z/"], &back).files_done, 1);
    assert_eq!(fs::read(back.join("secret")).expect("there"), content(100, 2));
}

#[test]
fn the_operator_says_which_targets_outside_are_followed() {
    let disks = tempfile::tempdir().expect("a directory");
    let (lustre, other) = (disks.path().join("lustre"), disks.path().join("other"));
    tree(&lustre.join("project"), 1);
    tree(&other, 3);
    // Listed by another name, which is resolved when the endpoint starts.
    symlink(&lustre, disks.path().join("alias")).expect("linked");
    let f = Fixture::with(|config| config.follow = vec![disks.path().join("alias")]);
    symlink(&lustre, f.root.join("data")).expect("linked");
    symlink(disks.path().join("alias/project"), f.root.join("project")).expect("linked");
    symlink(&other, f.root.join("other")).expect("linked");
    symlink(&other, lustre.join("out")).expect("linked");
    let source = f.dir("source");
    tree(&source.join("run"), 7);
    let back = f.dir("back");
    assert_eq!(f.push(&[source.join("run")], "data/new/").files_failed, 0);
    assert_same_tree(&source.join("run"), &lustre.join("new/run"));
    assert_eq!(f.pull(&["project/"], &back.join("a")).files_failed, 0);
    assert_same_tree(&lustre.join("project"), &back.join("a"));
    // A ticket for such a link opens what it leads to.
    let narrow = f.endpoint.address(&Claims { path: b"data".to_vec(), ..Claims::FULL }).expect("an address");
    let from = |path: &str| From::Endpoint(Address::clone(&narrow), vec![path.into()]);
    f.run(&from("data/project/"), &to(&back.join("b"))).expect("pulled");
    assert_same_tree(&lustre.join("project"), &back.join("b"));
    for path in ["other/", "data/out/", "data/out/file"] {
        assert_eq!(is_error(f.run(&f.remote(&[path]), &to(&back.join("c")))).kind, ErrorKind::UnsafeName);
        let there = f.to_endpoint(path);
        let error = is_error(f.run(&f.local(&[source.join("run")]), &there));
        assert_eq!(error.kind, ErrorKind::UnsafeName, "{path}: {error}");
    }
    // Beneath what was named nothing leads out, whatever is listed.
    let mut following = Fixture::with(|config| config.follow = vec![lustre.clone()]);
    following.terms.links = Links::Follow;
    write(&following.root.join("tree/file"), 10, 1);
    symlink(&lustre, following.root.join("tree/data")).expect("linked");
    let (totals, failures) = following.run(&following.remote(&["tree/"]), &to(&back.join("d"))).expect("ran");
    assert_eq!((totals.files_done, totals.files_failed), (1, 1), "{failures:?}");
    assert!(failures[0].error.message.contains("points out of the source tree"), "{failures:?}");
    symlink(&lustre, following.root.join("in")).expect("linked");
    fs::create_dir_all(lustre.join("t")).expect("made");
    symlink(&other, lustre.join("t/run")).expect("linked");
    let (_, failures) = following.try_push(&[source.join("run")], "in/t/").expect("ran");
    assert!(failures.iter().any(|failure| failure.path.starts_with(b"run")), "{failures:?}");
    assert_eq!(fs::read(other.join("file")).expect("there"), content(200_000, 3), "untouched");
}

#[test]
fn a_directory_to_follow_must_be_there() {
    use tidegate_transfer::endpoint::{Config, Endpoint};
    let directory = tempfile::tempdir().expect("a directory");
    let config = Config {
        follow: vec![directory.path().join("missing")],
        ..Config::local(directory.path(), directory.path().join("state"))
    };
    let error = Endpoint::bind(config).expect_err("refused");
    assert!(error.message.contains("cannot follow links to"), "{error}");
}

#[test]
fn on_this_host_a_link_that_the_user_named_is_followed() {
    let f = Fixture::new();
    tree(&f.root.join("tree"), 1);
    let here = f.dir("here");
    tree(&here.join("real"), 5);
    symlink("real", here.join("link")).expect("linked");
    fs::create_dir(here.join("into")).expect("made");
    symlink("into", here.join("to")).expect("linked");
    symlink("into/name", here.join("one")).expect("linked");
    fs::write(here.join("into/name"), "old").expect("written");
    symlink("nothing", here.join("dangling")).expect("linked");
    f.push(&[here.join("link/")], "pushed/");
    assert_same_tree(&here.join("real"), &f.root.join("pushed"));
    f.pull(&["tree"], &here.join("to"));
    assert_same_tree(&f.root.join("tree"), &here.join("into/tree"));
    f.pull(&["tree/file"], &here.join("one"));
    assert!(here.join("one").is_symlink());
    assert_eq!(fs::read(here.join("into/name")).expect("there"), content(200_000, 1));
    for path in ["dangling", "dangling/", "dangling/deep/"] {
        for source in ["tree", "tree/file"] {
            let error = is_error(f.run(&f.remote(&[source]), &to(&here.join(path))));
            assert_eq!(error.kind, ErrorKind::UnsafeName, "{path}: {error}");
            assert!(error.message.contains("link"), "{error}");
        }
    }
    assert!(!here.join("nothing").exists());
}
