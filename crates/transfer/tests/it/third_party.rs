//! Transfers between two endpoints, and memory to memory.

use std::time::Duration;

use crate::common::{Fixture, assert_same_tree, drive, is_error, leftovers, write};
use tidegate_control::{BitRate, ByteCount};
use tidegate_transfer::error::ErrorKind;
use tidegate_transfer::spec::Memory;
use tidegate_transfer::terms::DataPlane;
use tidegate_transfer::transfer::Pace;
use tidegate_transfer::transfer::route::{From, To, begin};
use tidegate_transfer::wire::ticket::Claims;

fn filled() -> Fixture {
    let f = Fixture::new();
    write(&f.root.join("tree/large"), 5_000_000, 1);
    for i in 0..40 {
        write(&f.root.join(format!("tree/small/{i}")), 900 * i, i);
    }
    f
}

#[test]
fn two_endpoints_move_a_tree_between_them() {
    for plane in [DataPlane::Tls, DataPlane::Clear] {
        let (mut a, b) = (filled(), Fixture::new());
        a.terms.data_plane = plane;
        let (from, to) = (a.remote(&["tree"]), b.to_endpoint("in/"));
        let (totals, failures) = a.run(&from, &to).expect("moved");
        assert_eq!((totals.files_done, totals.files_failed, failures.len()), (41, 0, 0), "{failures:?}");
        assert_same_tree(&a.root.join("tree"), &b.root.join("in/tree"));
        assert!(leftovers(&b.root).is_empty());
        let (again, _) = a.run(&from, &to).expect("moved");
        assert_eq!((again.files_done, again.files_skipped), (0, 41));
    }
}

#[test]
fn failures_between_endpoints_are_told_to_who_asked() {
    let (a, b) = (filled(), Fixture::new());
    std::fs::create_dir_all(b.root.join("in/tree/large/full")).expect("made");
    let (totals, failures) = a.run(&a.remote(&["tree"]), &b.to_endpoint("in/")).expect("ran");
    assert_eq!((totals.files_done, totals.files_failed), (40, 1));
    assert_eq!((failures.len(), failures[0].path.as_slice()), (1, &b"tree/large"[..]));
    // A source that is not there, a destination that is not, and rights that are not given.
    let error = is_error(a.run(&a.remote(&["missing"]), &b.to_endpoint("in/")));
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    let mut nowhere = b.address.clone();
    nowhere.port = 1;
    let error = is_error(a.run(&a.remote(&["tree"]), &To::Endpoint(nowhere.with_path("in/"))));
    assert_eq!(error.kind, ErrorKind::Connection, "{error}");
    let reader = b.endpoint.address(&Claims { write: false, ..Claims::FULL }).expect("an address");
    let error = is_error(a.run(&a.remote(&["tree"]), &To::Endpoint(reader.with_path("in/"))));
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
    let writer = a.endpoint.address(&Claims { read: false, ..Claims::FULL }).expect("an address");
    let error = is_error(a.run(&From::Endpoint(writer, vec![b"tree".to_vec()]), &b.to_endpoint("in/")));
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
}

/// The initiator is not on the path, but its rule is to begin as if it were.
#[test]
fn who_asked_knows_the_round_trip_and_may_ask_for_short_epochs() {
    let (a, b) = (Fixture::new(), Fixture::new());
    let endless = Memory { bytes: ByteCount::mib(1 << 20) };
    let mut setup = a.setup();
    setup.pace = Pace::new(Duration::from_secs(4));
    // An even flow, whatever else this host does: an epoch that shows too little is prolonged.
    setup.terms.limits.link = Some(BitRate::mbps(80));
    let from = From::EndpointZero(a.address.clone(), endless);
    let mut transfer = begin(&from, &b.to_endpoint(""), &setup).expect("begun");
    let round_trip = transfer.host().round_trip.expect("told");
    assert!(round_trip < Duration::from_secs(1), "{round_trip:?}");
    transfer.short_epochs(true);
    let seen = transfer.step(a.setpoint).expect("goes on").expect("not over");
    assert!(seen.interval < setup.pace.epoch / 2, "a short epoch of {:?}", seen.interval);
}

#[test]
fn memory_is_moved_in_every_direction_and_stops_in_time() {
    let (a, b) = (Fixture::new(), Fixture::new());
    let memory = Memory { bytes: ByteCount::mib(1 << 20) };
    let mut setup = a.setup();
    setup.pace =
        Pace { stop_after: Some(Duration::from_millis(600)), ..Pace::new(Duration::from_millis(100)) };
    for (from, to) in
        [(From::Zero(memory), a.to_endpoint("")), (From::EndpointZero(a.address.clone(), memory), To::Null)]
    {
        let transfer = begin(&from, &to, &setup).expect("begun");
        let (totals, failures) = drive(transfer, a.setpoint).expect("moved");
        assert!(totals.bytes_moved > 1 << 20, "{totals:?}");
        assert_eq!(failures, []);
    }
    // A given amount ends by itself, also between endpoints.
    let little = Memory { bytes: ByteCount::mib(3) };
    for (from, to) in [
        (From::Zero(little), a.to_endpoint("")),
        (From::EndpointZero(a.address.clone(), little), To::Null),
        (From::EndpointZero(a.address.clone(), little), b.to_endpoint("")),
    ] {
        let (totals, failures) = a.run(&from, &to).expect("moved");
        assert_eq!((totals.files_done, failures.len(), totals.bytes_done), (1, 0, 3 << 20));
    }
    assert_eq!(std::fs::read_dir(&a.root).expect("listed").count(), 0);
}
