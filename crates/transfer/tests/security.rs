//! Peers that may not, peers that lie, and peers that never finish a sentence.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::{Fixture, assert_same_tree, content, drive, eventually, is_error, limit, terms, write};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::hash::{Digest, block_digest};
use tidegate_transfer::manifest::{Entry, Kind, Timestamp};
use tidegate_transfer::path::RelPath;
use tidegate_transfer::pipeline::proof::Proof;
use tidegate_transfer::transfer::route::{From, To, begin};
use tidegate_transfer::wire::channel::Channel;
use tidegate_transfer::wire::frame::{Frame, FrameKind};
use tidegate_transfer::wire::handshake::{self, Opening, StreamHello, session_name};
use tidegate_transfer::wire::message::{
    DataPlane, Message, Outcome, Request, SinkSpec, SourceSpec, Terms, Verdict, Verify, encode,
};
use tidegate_transfer::wire::session::{self, Inbox, Outbox};
use tidegate_transfer::wire::ticket::{Address, Claims, Ticket};
use tidegate_transfer::wire::tls::{Identity, PkiFiles, Trust};

/// Everything beneath a directory with its content, to see that nothing changed.
fn picture(root: &Path) -> Vec<(std::path::PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(path) = todo.pop() {
        for entry in fs::read_dir(&path).expect("listed") {
            let path = entry.expect("listed").path();
            if path.symlink_metadata().expect("there").is_dir() {
                todo.push(path.clone());
                found.push((path, None));
            } else {
                let bytes = fs::read(&path).ok();
                found.push((path, bytes));
            }
        }
    }
    found.sort();
    found
}

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
    refused(&f, &Address { ticket: None, ..f.address.clone() }, "in/", ErrorKind::Authentication);
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
    outbox.send(&Message::Request(Request::OneTimeTicket { path: b"in/".to_vec() }));
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
    let source = f.dir("source");
    write(&source.join("file"), 400_000, 1);
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
    assert_eq!(attempt(friend).expect("let in").0.files_done, 1);
    assert_same_tree(&source, &f.root.join("in/source"));
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
fn garbage_half_open_and_slow_peers_disturb_nobody() {
    let mut f = Fixture::new();
    f.terms.limits = limit(60);
    let source = f.dir("source");
    write(&source.join("file"), 5_000_000, 1);
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

/// A session that we speak by hand.
fn dial(
    address: &Address,
    config: &Arc<rustls::ClientConfig>,
) -> tidegate_transfer::error::Result<(Outbox, Inbox)> {
    let channel = handshake::open_session(address, config)?;
    session::start(channel, "the endpoint")
}

struct ByHand {
    f: Fixture,
    config: Arc<rustls::ClientConfig>,
    outbox: Outbox,
    inbox: Inbox,
    token: Digest,
}

fn by_hand_with(terms: Terms) -> ByHand {
    let f = Fixture::new();
    let config =
        Trust::Pinned(f.address.ticket.as_ref().expect("a ticket").fingerprint).client().expect("set up");
    let (outbox, inbox) = dial(&f.address, &config).expect("let in");
    let sink = SinkSpec::Files { path: b"in/".to_vec(), single: false };
    outbox.send(&Message::Request(Request::Receive { id: [7; 16], sink, terms }));
    let Ok(Message::Accepted { token }) = inbox.receive() else { panic!("not accepted") };
    outbox.send(&Message::Setpoint(tidegate_control::PerStage::all(2)));
    ByHand { f, config, outbox, inbox, token }
}

fn by_hand() -> ByHand {
    by_hand_with(terms())
}

impl ByHand {
    /// The next message that is no confirmation; an error once the session is over.
    fn next(&self) -> Result<Message, Error> {
        loop {
            match self.inbox.receive_within(Duration::from_secs(20))?.expect("an answer in time") {
                Message::Taken(_) => {}
                Message::Refused(error) => return Err(error),
                message => return Ok(message),
            }
        }
    }

    /// The endpoint must end this session with a protocol error, and still serve others.
    fn is_cast_out(&self) {
        let error = loop {
            match self.next() {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(
            matches!(error.kind, ErrorKind::Protocol | ErrorKind::Connection | ErrorKind::UnsafeName),
            "{error}"
        );
        self.still_serves();
    }

    fn still_serves(&self) {
        let source = self.f.dir("honest");
        write(&source.join("file"), 1000, 1);
        assert_eq!(self.f.push(&[source], "honest/").files_failed, 0);
    }

    fn stream(&self, index: u32, plane: DataPlane) -> Channel {
        handshake::open_stream(&self.f.address, &self.config, plane, &self.token, index).expect("opened")
    }
}

fn file(path: &[u8], size: u64) -> Entry {
    let kind = Kind::File { size, fingerprint: [1; 16] };
    Entry { path: RelPath::new(path).expect("a name"), kind, mode: 0o644, mtime: Timestamp::default() }
}

/// `message` with `placeholder` replaced by bytes that no honest sender could write.
fn forged(message: &Message, placeholder: &[u8], name: &[u8]) -> Vec<u8> {
    assert_eq!(placeholder.len(), name.len());
    let mut bytes = encode(message);
    let at = bytes.windows(name.len()).position(|window| window == placeholder).expect("in there");
    bytes[at..at + name.len()].copy_from_slice(name);
    bytes
}

#[test]
fn hostile_names_end_the_session_before_anything_is_made() {
    let names: [&[u8]; 12] = [
        b"../../escape.",
        b"/absolute/xy.",
        b"a/../../escap",
        b"nul\0inside.xy",
        b".tidegate/jou",
        b"a//double.sla",
        b"./dot/first.x",
        b"a/./dot/mid.x",
        b"trailing/sla/",
        b"..///////////",
        b"/////////////",
        b"a/b/c/d/e/../",
    ];
    for name in names {
        let f = Fixture::new();
        let config =
            Trust::Pinned(f.address.ticket.as_ref().expect("a ticket").fingerprint).client().expect("set up");
        let mut channel = handshake::open_session(&f.address, &config).expect("let in");
        let sink = SinkSpec::Files { path: Vec::new(), single: false };
        let request = Message::Request(Request::Receive { id: [7; 16], sink, terms: terms() });
        channel.write_all(&encode(&request)).expect("written");
        let offer = Message::Offer { first: 0, entries: vec![file(b"placeholder.x", 5)] };
        channel.write_all(&forged(&offer, b"placeholder.x", name)).expect("written");
        channel.socket().set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        let mut answer = Vec::new();
        let _ = channel.read_to_end(&mut answer);
        // At most the work directory with its journal, which a refused run leaves for the next one.
        let made = picture(&f.root);
        let work = f.root.join(".tidegate");
        assert!(made.iter().all(|(path, _)| path.starts_with(&work)) && made.len() <= 3, "{made:?}");
        let outside: Vec<_> = fs::read_dir(f.temporary.path()).expect("listed").collect();
        assert_eq!(outside.len(), 3, "root, state and state: {outside:?}");
        assert!(!Path::new("/absolute").exists());
    }
}

#[test]
fn requests_for_hostile_paths_are_refused() {
    let f = Fixture::new();
    let config =
        Trust::Pinned(f.address.ticket.as_ref().expect("a ticket").fingerprint).client().expect("set up");
    for path in [&b"../x"[..], b"a/../../x", b"/etc/", b"x\0y", b".tidegate/x", b"a//b"] {
        let sink = SinkSpec::Files { path: path.to_vec(), single: false };
        for request in [
            Request::Receive { id: [1; 16], sink, terms: terms() },
            Request::Send { source: SourceSpec::Files(vec![path.to_vec()]), terms: terms() },
            Request::OneTimeTicket { path: path.to_vec() },
        ] {
            let (outbox, inbox) = dial(&f.address, &config).expect("let in");
            outbox.send(&Message::Request(request.clone()));
            match inbox.receive() {
                Ok(Message::Refused(error)) => assert_eq!(error.kind, ErrorKind::UnsafeName, "{error}"),
                other => panic!("{request:?}: {other:?}"),
            }
        }
    }
    assert_eq!(fs::read_dir(&f.root).expect("listed").count(), 0);
}

#[test]
fn offers_out_of_order_and_impossible_sizes_are_cast_out() {
    for (first, entry) in [
        (5, file(b"gap", 1)),
        (u32::MAX, file(b"end", 1)),
        (0, file(b"huge", u64::MAX)),
        (0, file(b"huge", i64::MAX as u64 + 1)),
    ] {
        let hand = by_hand();
        hand.outbox.send(&Message::Offer { first, entries: vec![entry.clone(), entry] });
        hand.is_cast_out();
    }
    let hand = by_hand();
    hand.outbox.send(&Message::Offer { first: 0, entries: vec![file(b"once", 1)] });
    hand.outbox.send(&Message::Offer { first: 0, entries: vec![file(b"twice", 1)] });
    hand.is_cast_out();
}

#[test]
fn the_largest_possible_file_costs_no_memory() {
    let hand = by_hand();
    hand.outbox.send(&Message::Offer { first: 0, entries: vec![file(b"huge", i64::MAX as u64)] });
    let verdict = hand.next();
    assert!(matches!(verdict, Ok(Message::Verdicts { .. })), "{verdict:?}");
    hand.outbox.send(&Message::Hashes(vec![(0, 1, [0; 32]), (99, 0, [0; 32])]));
    hand.outbox.send(&Message::Hashes(vec![(0, u64::MAX, [0; 32])]));
    hand.is_cast_out();
}

#[test]
fn messages_only_a_receiver_says_and_oversized_ones_are_cast_out() {
    for message in [
        Message::Verdicts { first: 0, verdicts: vec![Verdict::Skip] },
        Message::Finished,
        Message::Done(vec![(0, Outcome::Committed)]),
        Message::Welcome(1),
        Message::Accepted { token: [0; 32] },
    ] {
        let hand = by_hand();
        hand.outbox.send(&message);
        hand.is_cast_out();
    }
    let f = Fixture::new();
    let config =
        Trust::Pinned(f.address.ticket.as_ref().expect("a ticket").fingerprint).client().expect("set up");
    for length in [5u32 << 20, u32::MAX] {
        let mut channel = handshake::open_session(&f.address, &config).expect("let in");
        channel.write_all(&length.to_le_bytes()).expect("written");
        channel.socket().set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        let started = Instant::now();
        let _ = channel.read_to_end(&mut Vec::new());
        assert!(started.elapsed() < Duration::from_secs(15), "not hung up on");
    }
}

/// What a frame of a transfer that is verified by BLAKE3 carries.
fn checksum(payload: &[u8], offset: u64, size: u64) -> u32 {
    Proof::of(payload, offset, size, Verify::Blake3).checksum
}

#[test]
fn frames_that_fit_no_file_change_nothing() {
    let hand = by_hand();
    let data = content(200_000, 3);
    hand.outbox.send(&Message::Offer { first: 0, entries: vec![file(b"tree-file", data.len() as u64)] });
    assert!(matches!(hand.next(), Ok(Message::Verdicts { .. })));
    let mut stream = hand.stream(0, DataPlane::Tls);
    let frame = |file: u32, offset: u64, payload: &[u8]| {
        let length = payload.len() as u32;
        let checksum = checksum(payload, offset, data.len() as u64);
        let header = Frame { kind: FrameKind::Data, length, file, checksum, offset };
        [&header.encode()[..], payload].concat()
    };
    let block = 128 << 10;
    let zero = |offset: u64, length: u32| {
        Frame { kind: FrameKind::Zero, length, file: 0, checksum: 0, offset }.encode().to_vec()
    };
    for bytes in [
        frame(77, 0, &data[..100]),
        frame(u32::MAX, 0, &data[..100]),
        // Beyond the end, at the end of the numbers, part of a block, more than the rest.
        frame(0, 1 << 40, &data[..100]),
        frame(0, u64::MAX - (block as u64 - 1), &data[..block]),
        zero(u64::MAX - (block as u64 - 1), block as u32),
        frame(0, 0, &data[..100]),
        frame(0, block as u64, &data[..block]),
        zero(0, 5),
        zero(0, 0),
        // And what is right, one of them twice.
        frame(0, 0, &data[..block]),
        frame(0, 0, &data[..block]),
        frame(0, block as u64, &data[block..]),
    ] {
        stream.write_all(&bytes).expect("written");
    }
    let size = data.len() as u64;
    let leaves = [block_digest(&data[..block], 0, size), block_digest(&data[block..], block as u64, size)];
    let mut hash = tidegate_transfer::hash::FileHash::new(size);
    hash.add_block(0, leaves[0]);
    let (segment, digest) = hash.add_block(block as u64, leaves[1]).expect("complete");
    hand.outbox.send(&Message::Hashes(vec![(0, segment, digest)]));
    loop {
        match hand.next().expect("goes on") {
            Message::Done(done) => {
                assert_eq!(done, [(0, Outcome::Committed)]);
                break;
            }
            other => drop(other),
        }
    }
    assert_eq!(fs::read(hand.f.root.join("in/tree-file")).expect("there"), data);
}

#[test]
fn a_hash_that_is_wrong_keeps_the_name_from_the_bytes() {
    let hand = by_hand();
    let data = content(1000, 3);
    hand.outbox.send(&Message::Offer { first: 0, entries: vec![file(b"lie", 1000)] });
    assert!(matches!(hand.next(), Ok(Message::Verdicts { .. })));
    hand.outbox.send(&Message::Hashes(vec![(0, 0, [9; 32])]));
    let mut stream = hand.stream(0, DataPlane::Tls);
    let header =
        Frame { kind: FrameKind::Data, length: 1000, file: 0, checksum: checksum(&data, 0, 1000), offset: 0 };
    stream.write_all(&[&header.encode()[..], &data].concat()).expect("written");
    let again = hand.next().expect("an answer");
    assert!(matches!(&again, Message::Again(again) if again[0].range == (0..1000)), "{again:?}");
    assert!(!hand.f.root.join("in/lie").exists());
    // A sender that gives up leaves nothing.
    hand.outbox.send(&Message::Abandon(0, Error::new(ErrorKind::Changed, "changed")));
    hand.outbox.send(&Message::Finish);
    assert!(matches!(hand.next(), Ok(Message::Finished)));
    assert_eq!(fs::read_dir(hand.f.root.join("in")).expect("listed").count(), 0);
}

#[test]
fn wrong_bytes_in_a_hole_do_not_stay() {
    // On a clear stream an attacker may put data where a hole was sent; the hash finds it, and the
    // hole that comes again must overwrite it.
    let hand = by_hand_with(Terms { verify: Verify::Blake3, ..terms() });
    let size = 2 * (128 << 10);
    hand.outbox.send(&Message::Offer { first: 0, entries: vec![file(b"holes", size)] });
    assert!(matches!(hand.next(), Ok(Message::Verdicts { .. })));
    let zeros = vec![0; 128 << 10];
    let mut hash = tidegate_transfer::hash::FileHash::new(size);
    hash.add_block(0, block_digest(&zeros, 0, size));
    let (segment, digest) =
        hash.add_block(128 << 10, block_digest(&zeros, 128 << 10, size)).expect("complete");
    hand.outbox.send(&Message::Hashes(vec![(0, segment, digest)]));
    let mut stream = hand.stream(0, DataPlane::Tls);
    let zero =
        |offset| Frame { kind: FrameKind::Zero, length: 128 << 10, file: 0, checksum: 0, offset }.encode();
    let evil = content(128 << 10, 6);
    let header = Frame {
        kind: FrameKind::Data,
        length: 128 << 10,
        file: 0,
        checksum: checksum(&evil, 0, size),
        offset: 0,
    };
    stream.write_all(&[&header.encode()[..], &evil, &zero(128 << 10)].concat()).expect("written");
    assert!(matches!(hand.next(), Ok(Message::Again(_))));
    stream.write_all(&[zero(0), zero(128 << 10)].concat()).expect("written");
    assert!(matches!(hand.next(), Ok(Message::Done(done)) if done == [(0, Outcome::Committed)]));
    assert!(fs::read(hand.f.root.join("in/holes")).expect("there").iter().all(|byte| *byte == 0));
}

#[test]
fn streams_with_a_wrong_proof_or_a_used_number_are_hung_up_on() {
    let mut hand = by_hand();
    hand.f.terms.data_plane = DataPlane::Tls;
    let refused = |mut channel: Channel| {
        channel.socket().set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        let started = Instant::now();
        let _ = channel.read(&mut [0; 16]);
        assert!(started.elapsed() < Duration::from_secs(15), "not hung up on");
    };
    // Another token, an unknown session, a number used before, and a proof bound to another connection.
    let address = &hand.f.address;
    let mut token = hand.token;
    token[0] ^= 1;
    refused(handshake::open_stream(address, &hand.config, DataPlane::Tls, &token, 0).expect("opened"));
    let kept = hand.stream(3, DataPlane::Tls);
    eventually("the first one is known", || {
        let mut again = hand.stream(3, DataPlane::Tls);
        again.socket().set_read_timeout(Some(Duration::from_millis(300))).expect("set");
        match again.read(&mut [0; 16]) {
            Ok(n) => n == 0,
            Err(error) => {
                !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
            }
        }
    });
    drop(kept);
    let mut socket = TcpStream::connect((address.host.as_str(), address.port)).expect("connected");
    socket.write_all(b"TIDEGATE").expect("written");
    let mut nonce = [0; 32];
    socket.read_exact(&mut nonce).expect("a nonce");
    let proof = *handshake::stream_proof(&hand.token, 4, &[0; 32]).as_bytes();
    let hello = Opening::Stream(StreamHello { session: session_name(&hand.token), index: 4, proof });
    socket.write_all(&encode(&hello)).expect("written");
    refused(Channel::Clear(socket));
    hand.still_serves();
}

#[test]
fn a_hostile_receiver_cannot_harm_who_sends() {
    let f = Fixture::new();
    write(&f.root.join("tree/file"), 9_000_000, 1);
    let config =
        Trust::Pinned(f.address.ticket.as_ref().expect("a ticket").fingerprint).client().expect("set up");
    let lies: [fn(u32) -> Message; 8] = [
        |id| Message::Verdicts {
            first: id,
            verdicts: vec![Verdict::Want { have: vec![(u64::MAX, [0; 32])] }],
        },
        |id| Message::Verdicts { first: id, verdicts: vec![Verdict::Want { have: vec![(3, [0; 32])] }] },
        |_| Message::Verdicts { first: u32::MAX, verdicts: vec![Verdict::Skip, Verdict::Skip] },
        |id| Message::Have(id, vec![(u64::MAX, [0; 32]), (2, [1; 32])]),
        |_| Message::Taken(vec![(0, u64::MAX), (9, 1)]),
        |_| Message::StreamLost(77),
        |id| {
            let again = |start, end| tidegate_transfer::wire::message::Again {
                file: id,
                range: Range { start, end },
            };
            Message::Again(vec![again(0, u64::MAX), again(5, 1), again(u64::MAX, 0), again(1 << 60, 1 << 61)])
        },
        |id| {
            Message::Done(vec![
                (id, Outcome::Committed),
                (id, Outcome::Committed),
                (u32::MAX, Outcome::Committed),
            ])
        },
    ];
    for lie in lies {
        let (outbox, inbox) = dial(&f.address, &config).expect("let in");
        let mut terms = terms();
        terms.chunk = Some(tidegate_control::ByteCount(u64::MAX));
        terms.staging = tidegate_control::ByteCount(u64::MAX);
        let source = SourceSpec::Files(vec![b"tree".to_vec()]);
        outbox.send(&Message::Request(Request::Send { source, terms }));
        outbox.send(&Message::Setpoint(tidegate_control::PerStage::all(u16::MAX)));
        let mut files = Vec::new();
        while files.is_empty() {
            match inbox.receive().expect("goes on") {
                Message::Offer { first, entries } => {
                    for (id, entry) in (first..).zip(entries) {
                        if matches!(entry.kind, Kind::File { .. }) {
                            files.push(id);
                        }
                    }
                }
                Message::Refused(error) => panic!("{error}"),
                _ => {}
            }
        }
        outbox.send(&lie(files[0]));
        // It still answers, or has ended the session; either way it still serves.
        outbox.send(&Message::Poll(1));
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            assert!(Instant::now() < end, "no answer");
            match inbox.receive_within(Duration::from_millis(100)) {
                Ok(Some(Message::Report(..)) | None) | Err(_) => break,
                Ok(Some(_)) => {}
            }
        }
        outbox.close();
    }
    let back = f.dir("back");
    assert_eq!(f.pull(&["tree"], &back).files_failed, 0);
    assert_same_tree(&f.root.join("tree"), &back.join("tree"));
}
