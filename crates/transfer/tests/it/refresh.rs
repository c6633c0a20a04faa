//! A file that was verified before and of which only the mode or the time is another now: both are set, and no content
//! is sent. Whatever else is another is sent.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::common::{Fixture, assert_same_tree, drive, eventually, write};
use tidegate_transfer::sys::confined;
use tidegate_transfer::terms::Verify;
use tidegate_transfer::transfer::route::{From, To, begin};
use tidegate_transfer::wire::ticket::Claims;

const SIZES: [(&str, u64); 4] = [("empty", 0), ("small", 1000), ("sub/block", 200_000), ("large", 9_000_000)];

/// Two places between which a tree is copied.
struct Route {
    name: &'static str,
    from: From,
    to: To,
    source: PathBuf,
    there: PathBuf,
}

fn routes(a: &Fixture, b: &Fixture) -> Vec<Route> {
    let here = a.dir("here");
    let local = |path: &Path| [path.as_os_str().as_bytes(), b"/"].concat();
    let routes = vec![
        Route {
            name: "push",
            from: From::Local(vec![local(&here)]),
            to: a.to_endpoint("pushed/"),
            source: here,
            there: a.root.join("pushed"),
        },
        Route {
            name: "pull",
            from: a.remote(&["source/"]),
            to: To::Local(local(&a.dir("pulled"))),
            source: a.root.join("source"),
            there: a.dir("pulled"),
        },
        Route {
            name: "third-party",
            from: a.remote(&["source3/"]),
            to: To::Endpoint(b.address.clone().with_path("third/")),
            source: a.root.join("source3"),
            there: b.root.join("third"),
        },
    ];
    for route in &routes {
        for (seed, (name, size)) in (1..).zip(SIZES) {
            write(&route.source.join(name), size, seed);
        }
    }
    routes
}

/// What one run did: files moved, there already, and of them given a mode or time; bytes moved.
fn run(f: &Fixture, route: &Route) -> (u64, u64, u64, u64) {
    let setup = f.setup();
    if let To::Local(path) = &route.to {
        // The run before may be about to let go of what it remembers. Taken in this run's own setup, which waits for
        // whoever still reads it here.
        let place = confined::canonical(path).expect("there");
        eventually("nobody has the catalogue", || setup.catalogues.of(&place).is_some());
    }
    let mut transfer = begin(&route.from, &route.to, &setup).expect("begun");
    let ledger = std::sync::Arc::clone(transfer.ledger());
    while transfer.step(f.setpoint).expect("goes on").is_some() {}
    let totals = ledger.totals();
    assert_eq!(totals.files_failed, 0, "{}: {:?}", route.name, ledger.failures());
    (totals.files_done, totals.files_skipped, ledger.files_refreshed(), totals.bytes_moved)
}

fn set_time(path: &Path, time: SystemTime) {
    fs::File::options().read(true).open(path).expect("opened").set_modified(time).expect("set");
}

#[test]
fn a_mode_or_a_time_alone_is_set_without_sending_content() {
    let (a, b) = (Fixture::new(), Fixture::new());
    let long_ago = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    for route in routes(&a, &b) {
        assert_eq!(run(&a, &route).0, 4, "{}", route.name);
        assert_eq!(run(&a, &route), (0, 4, 0, 0), "{}", route.name);
        fs::set_permissions(route.source.join("small"), fs::Permissions::from_mode(0o750)).expect("set");
        assert_eq!(run(&a, &route), (0, 4, 1, 0), "{}: a mode", route.name);
        assert_same_tree(&route.source, &route.there);
        for (name, _) in SIZES {
            set_time(&route.source.join(name), long_ago);
        }
        fs::set_permissions(route.source.join("large"), fs::Permissions::from_mode(0o600)).expect("set");
        assert_eq!(run(&a, &route), (0, 4, 4, 0), "{}: times", route.name);
        assert_same_tree(&route.source, &route.there);
        assert_eq!(run(&a, &route), (0, 4, 0, 0), "{}: and is remembered", route.name);
        // The destination's mode was changed.
        fs::set_permissions(route.there.join("large"), fs::Permissions::from_mode(0o644)).expect("set");
        assert_eq!(run(&a, &route), (0, 4, 1, 0), "{}: a mode at the destination", route.name);
        assert_same_tree(&route.source, &route.there);
    }
}

#[test]
fn what_nobody_has_recorded_or_may_be_told_is_sent_again() {
    let mut f = Fixture::new();
    let source = f.source(&[("file", 200_000)]);
    let contents = || From::Local(vec![[source.as_os_str().as_bytes(), b"/"].concat()]);
    let later = SystemTime::now() + Duration::from_secs(100);
    // With --verify block no hash is recorded.
    f.terms.verify = Verify::Block;
    f.run(&contents(), &f.to_endpoint("block/")).expect("pushed");
    set_time(&source.join("file"), later);
    let (totals, _) = f.run(&contents(), &f.to_endpoint("block/")).expect("pushed");
    assert_eq!((totals.files_done, totals.bytes_moved), (1, 200_000));
    // Who may not read is not told whether it has what is there.
    f.terms.verify = Verify::Blake3;
    let claims = Claims { read: false, ..Claims::FULL };
    let blind = To::Endpoint(f.endpoint.address(&claims).expect("an address").with_path("blind/"));
    f.run(&contents(), &blind).expect("pushed");
    set_time(&source.join("file"), later + Duration::from_secs(1));
    assert_eq!(f.run(&contents(), &blind).expect("pushed").0.files_done, 1);
    fs::set_permissions(source.join("file"), fs::Permissions::from_mode(0o700)).expect("set");
    let transfer = begin(&contents(), &blind, &f.setup()).expect("begun");
    assert_eq!(drive(transfer, f.setpoint).expect("pushed").0.files_skipped, 1, "a mode tells nothing");
    assert_same_tree(&source, &f.root.join("blind"));
}
