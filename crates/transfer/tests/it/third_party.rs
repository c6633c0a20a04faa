//! Transfers between two endpoints, and memory to memory.

use std::sync::Arc;
use std::time::Duration;

use crate::common::peer::Server;
use crate::common::{Fixture, assert_same_tree, drive, is_error, leftovers, write};
use tidegate_control::{BitRate, Bounds, ByteCount, PerStage, Proposal};
use tidegate_transfer::endpoint::{Config, Endpoint};
use tidegate_transfer::error::ErrorKind;
use tidegate_transfer::record::Record;
use tidegate_transfer::spec::Memory;
use tidegate_transfer::terms::DataPlane;
use tidegate_transfer::transfer::Pace;
use tidegate_transfer::transfer::route::{From, To, begin};
use tidegate_transfer::wire::message::{Message, Stepped};
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
    let proposal = Proposal { short_epochs: true, ..Proposal::default() };
    transfer.heed(&proposal, transfer.bounds());
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

#[test]
fn an_endpoint_that_is_to_stop_sends_to_another_until_all_is_there() {
    let (mut a, b) = (filled(), Fixture::new());
    a.terms.limits.link = Some(BitRate::mbps(40));
    let local = Config { allow_local_targets: true, ..Config::local(&a.root, a.dir("its-state")) };
    let sending = Endpoint::bind(local).expect("bound");
    let address = sending.address(&Claims::FULL).expect("an address");
    let serving = Arc::clone(&sending);
    let served = std::thread::spawn(move || serving.serve());
    let from = From::Endpoint(address, vec![b"tree".to_vec()]);
    let mut transfer = begin(&from, &b.to_endpoint("in/"), &a.setup()).expect("begun");
    transfer.step(a.setpoint).expect("goes on").expect("not over");
    sending.drain();
    std::thread::sleep(Duration::from_millis(100));
    assert!(!served.is_finished(), "a transfer runs");
    let error = is_error(begin(&from, &b.to_endpoint("other/"), &a.setup()));
    assert!(error.message.contains("shutting down"), "{error}");
    let (totals, failures) = drive(transfer, a.setpoint).expect("moved");
    assert_eq!((totals.files_done, failures.len()), (41, 0), "{failures:?}");
    assert_same_tree(&a.root.join("tree"), &b.root.join("in/tree"));
    served.join().expect("it stops then");
}

#[test]
fn bounds_that_contradict_themselves_are_no_reason_to_panic() {
    let (a, b) = (Fixture::new(), Fixture::new());
    let hostile = Server::new(|visit| {
        visit.accept_send(false);
        while let Ok(Message::Step(_)) = visit.inbox.receive() {
            let bounds = PerStage::all(Bounds { min: 9, max: 2 });
            let stepped = Stepped { seen: Some(Default::default()), bounds, ..Stepped::default() };
            visit.outbox.send(&Message::Stepped(Record::of(&stepped)));
        }
    });
    let from = From::Endpoint(hostile.address.clone(), vec![b"tree".to_vec()]);
    let mut transfer = begin(&from, &b.to_endpoint("in/"), &a.setup()).expect("begun");
    for _ in 0..2 {
        transfer.step(a.setpoint).expect("goes on").expect("not over");
        assert_eq!(transfer.bounds().clamp(PerStage::all(1)), PerStage::all(9));
    }
}
