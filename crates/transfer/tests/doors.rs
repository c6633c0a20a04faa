//! What a ticket does not open: other hosts, more time, and what files hold.

mod common;

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{Fixture, assert_same_tree, dial, is_error, limit, write};
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::spec::SourceSpec;
use tidegate_transfer::terms::{Compare, Purpose};
use tidegate_transfer::transfer::route::{From, To};
use tidegate_transfer::wire::message::{Message, Request};
use tidegate_transfer::wire::ticket::{Address, Claims};
use tidegate_transfer::wire::tls::Trust;

/// What `f` answers to whoever may only read and asks it to send to `destination`.
fn send_to(f: &Fixture, destination: &Address) -> Error {
    let reader = f.endpoint.address(&Claims { write: false, ..Claims::FULL }).expect("an address");
    let trust = Trust::Pinned(reader.ticket.as_ref().expect("a ticket").fingerprint);
    let (outbox, inbox) = dial(&reader, &trust.client().expect("set up")).expect("let in");
    outbox.send(&Message::Request(Request::SendTo {
        source: SourceSpec::Files(vec![b"file".to_vec()]),
        destination: destination.to_bytes(),
        pace_ms: (100, 0),
        terms: f.terms.clone(),
    }));
    match inbox.receive().expect("an answer") {
        Message::Refused(error) => error,
        other => panic!("{other:?}"),
    }
}

/// An endpoint's address under another name, at another port.
fn at(address: &Address, host: &str, port: u16) -> Address {
    Address { host: host.into(), port, ..address.clone() }
}

#[test]
fn an_endpoint_tells_nobody_what_it_reaches() {
    let (a, b) = (Fixture::new(), Fixture::new());
    write(&a.root.join("file"), 10, 1);
    let closed =
        std::net::TcpListener::bind("127.0.0.1:0").expect("bound").local_addr().expect("bound").port();
    // It speaks no TLS and hangs up.
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let open = other.local_addr().expect("bound").port();
    std::thread::spawn(move || other.incoming().for_each(drop));
    let unreachable: Vec<Error> = [
        at(&b.address, "127.0.0.1", closed),
        at(&b.address, "127.0.0.1", open),
        at(&b.address, "no-such-host.invalid", 7117),
        // Another endpoint than the ticket's.
        at(&b.address, "127.0.0.1", a.address.port),
    ]
    .iter()
    .map(|destination| send_to(&a, destination))
    .collect();
    assert!(unreachable[0].message.contains("cannot open a session with the destination"), "{unreachable:?}");
    assert!(unreachable.iter().all(|error| *error == unreachable[0]), "{unreachable:?}");

    let strict = Fixture::with(|config| config.allow_local_targets = false);
    write(&strict.root.join("file"), 10, 1);
    for host in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "169.254.169.254", "fe80::1", "224.0.0.1"]
    {
        let error = send_to(&strict, &at(&b.address, host, b.address.port));
        assert_eq!(error.kind, ErrorKind::Denied, "{host}: {error}");
        assert!(error.message.contains("--allow-local-targets"), "{error}");
    }
    // A name says no more than one that does not exist.
    assert_eq!(send_to(&strict, &at(&b.address, "localhost", b.address.port)), unreachable[0]);
    assert_eq!(send_to(&strict, &at(&b.address, "no-such-host.invalid", 7117)), unreachable[0]);
}

/// A ticket for so long.
fn for_seconds(f: &Fixture, seconds: u64) -> Address {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    f.endpoint.address(&Claims { expires: Some(now + seconds), ..Claims::FULL }).expect("an address")
}

fn assert_expired(error: &Error) {
    assert_eq!(error.kind, ErrorKind::Authentication, "{error}");
    let told = error.message.contains("expired") && error.message.contains("run the same command");
    assert!(told && !error.message.contains('\n'), "{error}");
}

#[test]
fn a_session_ends_with_its_ticket_and_a_new_one_continues() {
    let mut f = Fixture::new();
    let source = f.dir("source");
    for i in 0..20 {
        write(&source.join(format!("{i}")), 200_000, i);
    }
    // So slow that it would take a minute.
    f.terms.limits = limit(1);
    let brief = for_seconds(&f, 2);
    let error =
        is_error(f.run(&f.local(std::slice::from_ref(&source)), &To::Endpoint(brief.with_path("in/"))));
    assert_expired(&error);
    f.terms.limits = limit(1000);
    let totals = f.push(std::slice::from_ref(&source), "in/");
    assert_eq!(totals.files_failed, 0);
    assert_same_tree(&source, &f.root.join("in/source"));

    f.terms.limits = limit(1);
    let brief = for_seconds(&f, 2);
    let here = f.dir("here").as_os_str().as_encoded_bytes().to_vec();
    let error = is_error(f.run(&From::Endpoint(brief, vec![b"in".to_vec()]), &To::Local(here)));
    assert_expired(&error);
}

#[test]
fn a_third_party_transfer_ends_with_either_ticket() {
    let (mut a, b) = (Fixture::new(), Fixture::new());
    write(&a.root.join("file"), 5_000_000, 1);
    a.terms.limits = limit(1);
    let from = From::Endpoint(for_seconds(&a, 2), vec![b"file".to_vec()]);
    assert_expired(&is_error(a.run(&from, &b.to_endpoint(""))));
    let to = To::Endpoint(for_seconds(&b, 2));
    assert_expired(&is_error(a.run(&a.remote(&["file"]), &to)));
}

#[test]
fn a_session_that_asks_nothing_ends_with_its_ticket() {
    let f = Fixture::new();
    let address = for_seconds(&f, 1);
    let trust = Trust::Pinned(address.ticket.as_ref().expect("a ticket").fingerprint);
    let (_outbox, inbox) = dial(&address, &trust.client().expect("set up")).expect("let in");
    match inbox.receive_within(Duration::from_secs(20)).expect("an answer") {
        Some(Message::Refused(error)) => assert_expired(&error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_ticket_to_write_learns_no_hashes() {
    let (mut f, a) = (Fixture::new(), Fixture::new());
    let source = f.source(&[("file", 10_000)]);
    write(&a.root.join("source/file"), 10_000, 1);
    // Where the content is the same, the time is taken over too.
    let time = fs::metadata(source.join("file")).and_then(|meta| meta.modified()).expect("a time");
    let copy = fs::File::options().write(true).open(a.root.join("source/file")).expect("open");
    copy.set_modified(time).expect("set");
    f.push(std::slice::from_ref(&source), "in/");
    f.terms.compare = Compare::Checksum;
    let writer = f.endpoint.address(&Claims { read: false, ..Claims::FULL }).expect("an address");
    let to = To::Endpoint(writer.with_path("in/"));
    for purpose in [Purpose::Copy, Purpose::Compare, Purpose::Plan] {
        f.terms.purpose = purpose;
        let error = is_error(f.run(&f.local(std::slice::from_ref(&source)), &to));
        assert!(error.kind == ErrorKind::Denied && error.message.contains("--checksum"), "{error}");
        assert!(!error.message.contains('\n'), "{error}");
        // Nor by way of a third one.
        let from = a.remote(&["source"]);
        let error = is_error(f.run(&from, &to));
        assert!(error.kind == ErrorKind::Denied && error.message.contains("--checksum"), "{error}");
        // With a ticket to read as well both do.
        assert_eq!(f.push(std::slice::from_ref(&source), "in/").files_skipped, 1);
        let (totals, failures) = f.run(&from, &f.to_endpoint("in/")).expect("ran");
        assert_eq!((totals.files_skipped, failures.len()), (1, 0), "{failures:?}");
    }
    // A dry run says of what is there more than that.
    (f.terms.compare, f.terms.purpose) = (Compare::Recorded, Purpose::Plan);
    let error = is_error(f.run(&f.local(std::slice::from_ref(&source)), &to));
    assert!(error.kind == ErrorKind::Denied && error.message.contains("a dry run would tell"), "{error}");
    f.terms.purpose = Purpose::Copy;
    let (totals, _) = f.run(&f.local(&[source]), &to).expect("needs no hashes");
    assert_eq!(totals.files_skipped, 1);
}
