//! `--move`: what is removed at the source, and what stays.

use crate::common;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::{Fixture, drive, is_error, write};
use tidegate_transfer::error::{ErrorKind, Result};
use tidegate_transfer::ledger::Failure;
use tidegate_transfer::selection::Deletion;
use tidegate_transfer::terms::{Compare, Verify};
use tidegate_transfer::transfer::route::{From, Setup, To, begin};
use tidegate_transfer::wire::ticket::Claims;

fn moving(f: &Fixture) -> Setup {
    let mut setup = Setup { moving: true, ..f.setup() };
    setup.terms.compare = Compare::Checksum;
    setup
}

fn run(f: &Fixture, from: &From, to: &To) -> Result<Vec<Failure>> {
    drive(begin(from, to, &moving(f))?, f.setpoint).map(|(_, failures)| failures)
}

fn there(at: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(at)
        .expect("listed")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn files_that_arrived_go_on_every_route_and_directories_and_links_stay() {
    let f = Fixture::new();
    let owner = f.endpoint.address(&Claims::OWNER).expect("an address");
    let source = f.source(&[("large", 5_000_000), ("d/small", 10), ("there", 100)]);
    symlink("d", source.join("link")).expect("linked");
    // One is there already, and no run of ours has verified it.
    fs::create_dir_all(f.root.join("in/source")).expect("made");
    fs::copy(source.join("there"), f.root.join("in/source/there")).expect("copied");
    assert_eq!(run(&f, &f.local(std::slice::from_ref(&source)), &f.to_endpoint("in/")), Ok(Vec::new()));
    assert_eq!((there(&source), there(&source.join("d"))), (vec!["d".into(), "link".into()], vec![]));
    let arrived = ["d", "large", "link", "there"].map(str::to_owned);
    assert_eq!(there(&f.root.join("in/source")), arrived);
    // From the endpoint to here.
    let back = f.dir("back");
    let remote = |address| From::Endpoint(address, vec![b"in/source".to_vec()]);
    let here = To::Local(back.as_os_str().as_bytes().to_vec());
    let error = is_error(run(&f, &remote(f.address.clone()), &here));
    assert!(error.kind == ErrorKind::Denied && error.message.contains("deleting is not allowed"), "{error}");
    assert_eq!(there(&f.root.join("in/source")), arrived);
    assert_eq!(run(&f, &remote(owner.clone()), &here), Ok(Vec::new()));
    assert_eq!(
        (there(&f.root.join("in/source")), there(&back.join("source"))),
        (vec!["d".to_owned(), "link".to_owned()], arrived.to_vec())
    );
    // And between two.
    let other = Fixture::new();
    write(&f.root.join("x/one"), 10, 1);
    let from = From::Endpoint(owner, vec![b"x/".to_vec()]);
    assert_eq!(run(&f, &from, &other.to_endpoint("y/")), Ok(Vec::new()));
    assert_eq!((there(&f.root.join("x")), there(&other.root.join("y"))), (vec![], vec!["one".to_owned()]));
}

#[test]
fn what_is_no_copy_stays() {
    let f = Fixture::new();
    let source = f.source(&[("one", 10), ("two", 10)]);
    // The same file by another name.
    fs::create_dir_all(f.root.join("in")).expect("made");
    fs::hard_link(source.join("one"), f.root.join("in/one")).expect("linked");
    let contents = From::Local(vec![[source.as_os_str().as_bytes(), b"/"].concat()]);
    let failures = run(&f, &contents, &f.to_endpoint("in/")).expect("ran");
    let told = &failures[0].error.message;
    assert!(failures.len() == 1 && told.contains("stays at the source: it is the same file"), "{told}");
    assert_eq!(
        (there(&source), there(&f.root.join("in"))),
        (vec!["one".to_owned()], vec!["one".to_owned(), "two".to_owned()])
    );
}

#[test]
fn a_file_with_several_names_is_moved_in_one_run() {
    let f = Fixture::new();
    let source = f.source(&[("a", 300_000), ("z", 10)]);
    let kept = f.dir("kept");
    fs::create_dir(source.join("d")).expect("made");
    for number in 0..40 {
        fs::hard_link(source.join("a"), source.join(format!("b{number}"))).expect("linked");
        fs::hard_link(source.join("z"), source.join(format!("d/{number}"))).expect("linked");
    }
    // One name is elsewhere, and stays.
    fs::hard_link(source.join("z"), kept.join("z")).expect("linked");
    let moved = run(&f, &f.local(std::slice::from_ref(&source)), &f.to_endpoint("in/"));
    assert_eq!(moved, Ok(Vec::new()));
    assert_eq!((there(&source), there(&source.join("d"))), (vec!["d".to_owned()], vec![]));
    assert_eq!(there(&kept), ["z"]);
    for (name, like) in [("a", 1), ("b39", 1), ("z", 2), ("d/0", 2), ("d/39", 2)] {
        let copy = fs::read(f.root.join("in/source").join(name)).expect("read");
        assert!(copy == common::content(copy.len() as u64, like), "{name}");
    }
    // And from an endpoint, whose ticket allows it.
    let owner = f.endpoint.address(&Claims::OWNER).expect("an address");
    fs::hard_link(f.root.join("in/source/z"), f.root.join("in/source/z2")).expect("linked");
    let to = To::Local(kept.as_os_str().as_bytes().to_vec());
    assert_eq!(run(&f, &From::Endpoint(owner, vec![b"in/source".to_vec()]), &to), Ok(Vec::new()));
    assert_eq!(there(&f.root.join("in/source")), ["d"]);
}

#[test]
fn nothing_is_moved_onto_or_into_itself_or_by_a_link() {
    let f = Fixture::new();
    write(&f.root.join("d/one"), 10, 1);
    write(&f.root.join("d/s/two"), 10, 1);
    let local = |name: &str| f.local(&[f.root.join(name)]);
    for (from, to) in [("d", ""), ("d", "d/s/"), ("d/one", "d/one")] {
        let error = is_error(run(&f, &local(from), &f.to_endpoint(to)));
        assert!(error.kind == ErrorKind::Usage && error.message.contains("itself"), "{from} {to}: {error}");
    }
    symlink("d", f.root.join("by-link")).expect("linked");
    symlink("d/one", f.root.join("file-link")).expect("linked");
    let owner = f.endpoint.address(&Claims::OWNER).expect("an address");
    let here = f.dir("here");
    let here = To::Local(here.as_os_str().as_bytes().to_vec());
    for name in ["by-link", "file-link"] {
        for (from, to) in [
            (local(name), f.to_endpoint("elsewhere/")),
            (From::Endpoint(owner.clone(), vec![name.into()]), here.clone()),
        ] {
            let error = is_error(run(&f, &from, &to));
            assert!(error.kind == ErrorKind::Usage && error.message.contains("is a link"), "{error}");
        }
    }
    // Nor without hashes at both ends, whatever the initiator says.
    let mut setup = moving(&f);
    setup.terms.verify = Verify::Block;
    let error = is_error(begin(&From::Endpoint(owner, vec![b"d".to_vec()]), &here, &setup));
    assert!(error.message.contains("only where their hashes are compared"), "{error}");
    assert!(f.root.join("d/one").exists() && f.root.join("d/s/two").exists());
}

#[test]
fn what_is_moved_away_is_not_deleted_at_the_destination_by_the_same_run() {
    let f = Fixture::new();
    let source = f.source(&[("file", 10)]);
    let back = f.dir("back");
    write(&f.root.join("in/other"), 10, 2);
    let owner = f.endpoint.address(&Claims::OWNER).expect("an address");
    let from = From::Local(vec![[source.as_os_str().as_bytes(), b"/"].concat()]);
    let there = From::Endpoint(owner.clone(), vec![b"in".to_vec()]);
    let routes = [
        (&from, To::Endpoint(owner.clone().with_path("in/"))),
        (&there, To::Local(back.as_os_str().as_bytes().to_vec())),
        (&there, To::Endpoint(owner.with_path("elsewhere/"))),
    ];
    for (from, to) in routes {
        let setup = Setup { deletion: Some(Deletion::default()), ..moving(&f) };
        let error = is_error(begin(from, &to, &setup));
        assert!(error.kind == ErrorKind::Usage && error.message.contains("leave one of both out"), "{error}");
    }
    assert_eq!(
        (self::there(&source), self::there(&f.root.join("in"))),
        (vec!["file".into()], vec!["other".into()])
    );
}
