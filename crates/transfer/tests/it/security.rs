//! Peers that may not, and peers that never finish a sentence.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::common::{Fixture, assert_same_tree, dial, drive, eventually, is_error, limit, picture, write};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::selection::Deletion;
use tidegate_transfer::spec::{Iperf3Amount, Iperf3Test, SourceSpec};
use tidegate_transfer::terms::DataPlane;
use tidegate_transfer::transfer::link::{Iperf3Server, iperf3_between};
use tidegate_transfer::transfer::route::{From, To, begin};
use tidegate_transfer::wire::handshake::{self};
use tidegate_transfer::wire::message::Message;
use tidegate_transfer::wire::request::{Request, RequestKind};
use tidegate_transfer::wire::ticket::{Address, Claims, Ticket};
use tidegate_transfer::wire::tls::{Identity, PkiFiles, Trust};

fn refused(f: &Fixture, address: &Address, path: &str, kind: ErrorKind) -> Error {
    let source = f.dir("some-source");
    write(&source.join("file"), 10, 1);
    let error = is_error(f.run(&f.local(&[source]), &To::Endpoint(address.clone().with_path(path))));
    assert_eq!(error.kind, kind, "{error}");
    error
}

#[test]
fn tickets_that_do_not_hold_open_nothing() {
    let f = Fixture::new();
    write(&f.root.join("there/file"), 100, 1);
    let before = picture(&f.root);
    let good = f.address.ticket.clone().expect("a ticket");
    let with = |change: &dyn Fn(&mut Ticket)| {
        let mut ticket = good.clone();
        change(&mut ticket);
        Address { ticket: Some(ticket), ..f.address.clone() }
    };
    // A wrong key, claims that were widened, another endpoint's certificate, no ticket at all.
    refused(&f, &with(&|ticket| ticket.key[3] ^= 1), "in/", ErrorKind::Authentication);
    let narrow = Claims { write: false, ..Claims::FULL };
    let narrow = f.endpoint.address(&narrow).expect("an address").ticket.expect("a ticket");
    let widened = with(&|ticket| ticket.key = narrow.key);
    refused(&f, &widened, "in/", ErrorKind::Authentication);
    let error = refused(&f, &with(&|ticket| ticket.fingerprint[0] ^= 1), "in/", ErrorKind::Authentication);
    assert!(error.message.contains("certificate"), "{error}");
    refused(&f, &Address { ticket: None, ..f.address.clone() }, "in/", ErrorKind::Usage);
    // One whose time is over.
    let past = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() - 10;
    let expired = f.endpoint.address(&Claims { expires: Some(past), ..Claims::FULL }).expect("an address");
    let error = refused(&f, &expired, "in/", ErrorKind::Authentication);
    assert!(error.message.contains("expired"), "{error}");
    assert_eq!(picture(&f.root), before);
}

#[test]
fn narrow_tickets_open_only_what_they_name() {
    let f = Fixture::new();
    write(&f.root.join("mine/file"), 100, 1);
    write(&f.root.join("mine-not/file"), 100, 2);
    let of = |claims: Claims| f.endpoint.address(&claims).expect("an address");
    let back = f.dir("back");
    let pull = |address: &Address, path: &str| {
        use std::os::unix::ffi::OsStrExt;
        let from = From::Endpoint(address.clone(), vec![path.as_bytes().to_vec()]);
        f.run(&from, &To::Local(back.as_os_str().as_bytes().to_vec()))
    };
    let narrow = of(Claims { path: b"mine".to_vec(), ..Claims::FULL });
    for path in ["", "/", "mine-not/", "mine-not/x", "other", "mine/../mine-not/", "..", "mine/../../x"] {
        let error = is_error(
            f.run(&f.local(std::slice::from_ref(&back)), &To::Endpoint(narrow.clone().with_path(path))),
        );
        assert!(matches!(error.kind, ErrorKind::Denied | ErrorKind::UnsafeName), "{path}: {error}");
        let error = is_error(pull(&narrow, path));
        assert!(matches!(error.kind, ErrorKind::Denied | ErrorKind::UnsafeName), "{path}: {error}");
    }
    assert_eq!(pull(&narrow, "mine/file").expect("allowed").0.files_done, 1);
    assert_eq!(pull(&narrow, "mine/").expect("allowed").0.files_failed, 0);
    let reader = of(Claims { write: false, ..Claims::FULL });
    refused(&f, &reader, "in/", ErrorKind::Denied);
    let writer = of(Claims { read: false, ..Claims::FULL });
    assert_eq!(is_error(pull(&writer, "mine/file")).kind, ErrorKind::Denied);
    assert!(!f.root.join("in").exists());
}

#[test]
fn a_one_time_ticket_opens_once() {
    let f = Fixture::new();
    let config =
        Trust::Pinned(f.address.ticket.as_ref().expect("a ticket").fingerprint).client().expect("set up");
    let (outbox, inbox) = dial(&f.address, &config).expect("let in");
    outbox.send(&Request::from(RequestKind::OneTimeTicket { path: b"in/".to_vec() }).into());
    let Ok(Message::Ticket(text)) = inbox.receive() else { panic!("no ticket") };
    let once = Address { ticket: Ticket::parse(&text), ..f.address.clone() };
    let source = f.dir("some-source");
    write(&source.join("file"), 10, 1);
    refused(&f, &once, "elsewhere/", ErrorKind::Denied);
    let error = refused(&f, &once, "in/", ErrorKind::Authentication);
    assert!(error.message.contains("one-time"), "{error}");
    outbox.close();
}

#[test]
fn clear_streams_need_both_ends_to_ask() {
    let mut f = Fixture::with(|config| config.clear = false);
    f.terms.data_plane = DataPlane::Clear;
    let error = refused(&f, &f.address.clone(), "in/", ErrorKind::Denied);
    assert!(error.message.contains("--data-plane"), "{error}");
    assert_eq!(fs::read_dir(&f.root).expect("listed").count(), 0);
    // And the bytes a clear stream begins with are hung up on.
    let mut socket = TcpStream::connect((f.address.host.as_str(), f.address.port)).expect("connected");
    socket.write_all(b"TIDEGATE").expect("written");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    assert!(matches!(socket.read(&mut [0; 64]), Ok(0) | Err(_)), "an answer to a clear stream");
}

#[test]
fn read_only_endpoints_take_nothing() {
    let f = Fixture::with(|config| config.read_only = true);
    refused(&f, &f.address.clone(), "in/", ErrorKind::Denied);
    assert_eq!(fs::read_dir(&f.root).expect("listed").count(), 0);
}

/// A small PKI: one CA, and certificates for `names`.
fn pki(directory: &Path, ca: &CertifiedIssuer<'_, KeyPair>, name: &str, host: &str) -> Arc<Identity> {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![host.to_owned()]).expect("a name");
    let cert = params.signed_by(&key, ca).expect("signed");
    let files = PkiFiles {
        ca: directory.join(format!("{name}.ca.pem")),
        cert: directory.join(format!("{name}.cert.pem")),
        key: directory.join(format!("{name}.key.pem")),
    };
    fs::write(&files.ca, ca.pem()).expect("written");
    fs::write(&files.cert, cert.pem()).expect("written");
    fs::write(&files.key, key.serialize_pem()).expect("written");
    Arc::new(Identity::from_pki(&files).expect("usable"))
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signed")
}

#[test]
fn mutual_tls_lets_in_who_the_ca_signed_and_nobody_else() {
    let directory = tempfile::tempdir().expect("a directory");
    let (ours, theirs) = (authority(), authority());
    let server = pki(directory.path(), &ours, "server", "127.0.0.1");
    let f = Fixture::with(|config| config.pki = Some(server));
    assert_eq!(f.address.ticket, None);
    let source = f.source(&[("file", 400_000)]);
    let attempt = |identity: Arc<Identity>| {
        let mut setup = f.setup();
        setup.pki = Some(identity);
        begin(&f.local(std::slice::from_ref(&source)), &f.to_endpoint("in/"), &setup)
            .and_then(|transfer| drive(transfer, f.setpoint))
    };
    // Signed by a CA that the endpoint does not know, and one whose own CA does not know the endpoint.
    let mut stranger = pki(directory.path(), &theirs, "stranger", "somebody");
    let error = is_error(attempt(Arc::clone(&stranger)));
    assert_eq!(error.kind, ErrorKind::Authentication, "{error}");
    fs::write(directory.path().join("stranger.ca.pem"), ours.pem()).expect("written");
    stranger = {
        let of = |end: &str| directory.path().join(format!("stranger.{end}.pem"));
        let files = PkiFiles { ca: of("ca"), cert: of("cert"), key: of("key") };
        Arc::new(Identity::from_pki(&files).expect("usable"))
    };
    let error = is_error(attempt(stranger));
    assert_eq!(error.kind, ErrorKind::Authentication, "{error}");
    // A ticket of another endpoint, and no certificate at all.
    let other = Fixture::new();
    let address = Address { ticket: other.address.ticket.clone(), ..f.address.clone() };
    refused(&f, &address, "in/", ErrorKind::Authentication);
    assert_eq!(fs::read_dir(&f.root).expect("listed").count(), 0);
    let friend = pki(directory.path(), &ours, "friend", "friend");
    assert_eq!(attempt(Arc::clone(&friend)).expect("let in").0.files_done, 1);
    assert_same_tree(&source, &f.root.join("in/source"));
    // A certificate has no narrower form: to delete is the endpoint's to allow.
    let mirror = |f: &Fixture| {
        let mut setup = f.setup();
        setup.pki = Some(Arc::clone(&friend));
        setup.deletion = Some(Deletion { rules: Vec::new(), excluded: false, most: None, backup: None });
        begin(&f.local(std::slice::from_ref(&source)), &f.to_endpoint("in/"), &setup)
            .and_then(|transfer| drive(transfer, f.setpoint))
    };
    let error = is_error(mirror(&f));
    assert!(error.kind == ErrorKind::Denied && error.message.contains("--allow-delete"), "{error}");
    let server = pki(directory.path(), &ours, "other", "127.0.0.1");
    let allows = Fixture::with(|config| (config.pki, config.allow_delete) = (Some(server), true));
    assert_eq!(mirror(&allows).expect("allowed").0.files_done, 1);
}

#[test]
fn an_endpoint_with_another_name_is_not_trusted() {
    let directory = tempfile::tempdir().expect("a directory");
    let ours = authority();
    let server = pki(directory.path(), &ours, "server", "elsewhere.example");
    let f = Fixture::with(|config| config.pki = Some(server));
    let mut setup = f.setup();
    setup.pki = Some(pki(directory.path(), &ours, "friend", "friend"));
    let source = f.dir("source");
    let error = is_error(begin(&f.local(&[source]), &f.to_endpoint("in/"), &setup));
    assert_eq!(error.kind, ErrorKind::Authentication, "{error}");
}

#[test]
fn an_iperf3_server_is_run_for_nobody_without_a_ticket() {
    let ask = |address: &Address| {
        let asked = Iperf3Server::ask(address, None, Duration::from_secs(20));
        asked.expect_err("refused").kind
    };
    let f = Fixture::with(|config| config.iperf3 = Some(0..=0));
    let mut wrong = f.address.clone();
    wrong.ticket.as_mut().expect("a ticket").key[0] ^= 1;
    assert_eq!(ask(&wrong), ErrorKind::Authentication);
    assert_eq!(ask(&Address { ticket: None, ..f.address.clone() }), ErrorKind::Usage);
    let nothing = Claims { read: false, write: false, ..Claims::FULL };
    assert_eq!(ask(&f.endpoint.address(&nothing).expect("an address")), ErrorKind::Denied);
    // One that holds once is for one path.
    let config =
        Trust::Pinned(f.address.ticket.as_ref().expect("a ticket").fingerprint).client().expect("set up");
    let (outbox, inbox) = dial(&f.address, &config).expect("let in");
    outbox.send(&Request::from(RequestKind::OneTimeTicket { path: b"in/".to_vec() }).into());
    let Ok(Message::Ticket(text)) = inbox.receive() else { panic!("no ticket") };
    assert_eq!(ask(&Address { ticket: Ticket::parse(&text), ..f.address.clone() }), ErrorKind::Denied);
    // And nobody gets one where the endpoint was not told to.
    assert_eq!(ask(&Fixture::new().address), ErrorKind::Denied);
}

#[test]
fn a_ticket_for_a_test_between_endpoints_opens_nothing_else() {
    let f = Fixture::with(|config| config.iperf3 = Some(0..=0));
    let config =
        Trust::Pinned(f.address.ticket.as_ref().expect("a ticket").fingerprint).client().expect("set up");
    let ask = |address: &Address, request: RequestKind| {
        let (outbox, inbox) = dial(address, &config).expect("let in");
        outbox.send(&Request::from(request).into());
        let answer = inbox.receive();
        outbox.close();
        answer
    };
    let refused = |address: &Address, request: RequestKind, kind: ErrorKind| {
        let answer = ask(address, request.clone());
        assert!(
            matches!(&answer, Ok(Message::Refused(error)) if error.kind == kind),
            "{request:?}: {answer:?}"
        );
    };
    let of = |read, write| f.endpoint.address(&Claims { read, write, ..Claims::FULL }).expect("an address");
    let once = || {
        let Ok(Message::Ticket(text)) = ask(&of(false, true), RequestKind::OneTimeIperf3 { reverse: false })
        else {
            panic!("no ticket")
        };
        Address { ticket: Ticket::parse(&text), ..f.address.clone() }
    };
    // Data is to flow to it, or from it.
    refused(&of(true, false), RequestKind::OneTimeIperf3 { reverse: false }, ErrorKind::Denied);
    refused(&of(false, true), RequestKind::OneTimeIperf3 { reverse: true }, ErrorKind::Denied);
    let test = Iperf3Test { streams: 1, amount: Iperf3Amount::Seconds(1), reverse: false, buffer: None };
    let to = |reverse| RequestKind::Iperf3To {
        destination: f.address.to_bytes(),
        test: Iperf3Test { reverse, ..test },
        limit_s: 5,
    };
    refused(&of(false, true), to(false), ErrorKind::Denied);
    refused(&of(true, false), to(true), ErrorKind::Denied);
    // The ticket is for the server alone.
    for request in [
        RequestKind::OneTimeTicket { path: Vec::new() },
        RequestKind::OneTimeIperf3 { reverse: false },
        RequestKind::OneTimeIperf3 { reverse: true },
        to(false),
        to(true),
        RequestKind::Send { source: SourceSpec::Files(vec![b"x".to_vec()]) },
    ] {
        refused(&once(), request, ErrorKind::Denied);
    }
    // And holds once.
    let one = once();
    refused(&one, to(false), ErrorKind::Denied);
    assert_eq!(dial(&one, &config).expect_err("used").kind, ErrorKind::Authentication);
    // Nothing on this host is reached for others, nor more streams asked of iperf3 than it opens.
    let strict = Fixture::with(|config| {
        config.iperf3 = Some(0..=0);
        config.allow_local_targets = false;
    });
    let asked = iperf3_between(&strict.address, &f.address, None, test, Duration::from_secs(5));
    let error = asked.expect_err("refused");
    assert!(error.kind == ErrorKind::Denied && error.message.contains("no loopback"), "{error}");
}

#[test]
fn garbage_half_open_and_slow_peers_disturb_nobody() {
    let mut f = Fixture::new();
    f.terms.limits = limit(60);
    let source = f.source(&[("file", 5_000_000)]);
    let before = Instant::now();
    let place = (f.address.host.clone(), f.address.port);
    let connect = || TcpStream::connect((place.0.as_str(), place.1)).expect("connected");
    let transfer =
        begin(&f.local(std::slice::from_ref(&source)), &f.to_endpoint("in/"), &f.setup()).expect("begun");
    // More silent ones than are borne at once: the oldest must make room, honest ones get in.
    let half_open: Vec<TcpStream> = (0..600).map(|_| connect()).collect();
    let mut slow = Vec::new();
    for i in 0..40u8 {
        let mut socket = connect();
        match i % 4 {
            0 => drop(socket.write_all(&[i; 3000])),
            1 => drop(socket.write_all(b"GET / HTTP/1.1\r\n\r\n")),
            // A TLS record that never ends, and one that claims to be huge.
            2 => drop(socket.write_all(&[0x16, 3, 1, 2, 0, 1])),
            _ => drop(socket.write_all(&[0x16, 3, 3, 0xff, 0xff, 1, 2, 3])),
        }
        slow.push(socket);
    }
    let (totals, failures) = drive(transfer, f.setpoint).expect("undisturbed");
    assert_eq!((totals.files_done, failures.len()), (1, 0));
    assert_same_tree(&source, &f.root.join("in/source"));
    // A byte now and then does not buy more time than the handshake has.
    let mut drip = connect();
    drip.write_all(&[0x16, 3, 1, 0x3f, 0]).expect("written");
    drip.set_read_timeout(Some(Duration::from_millis(200))).expect("set");
    let started = Instant::now();
    let hung_up = || -> bool {
        let _ = drip.write_all(&[1]);
        match drip.read(&mut [0; 16]) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => {
                !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
            }
        }
    };
    eventually("the slow peer is hung up on", hung_up);
    assert!(started.elapsed() < handshake::HANDSHAKE_TIME * 2, "{:?} after {:?}", started.elapsed(), before);
    drop(half_open);
}
