//! Peers that proved who they are, and then lie.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::peer::agreed;
use crate::common::{Fixture, assert_same_tree, content, dial, eventually, picture, terms, write};
use tidegate_transfer::counters::NotKept;
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::hash::{Digest, block_digest};
use tidegate_transfer::manifest::{Entry, Kind, Timestamp};
use tidegate_transfer::offer::{Outcome, Verdict};
use tidegate_transfer::path::RelPath;
use tidegate_transfer::pipeline::proof::Proof;
use tidegate_transfer::record::Record;
use tidegate_transfer::spec::{SinkSpec, SourceSpec};
use tidegate_transfer::terms::{DataPlane, Terms, Verify};
use tidegate_transfer::wire::channel::Channel;
use tidegate_transfer::wire::frame::{Frame, FrameKind};
use tidegate_transfer::wire::greeting::Welcome;
use tidegate_transfer::wire::handshake::{self, Opening, StreamHello, StreamOpening, session_name};
use tidegate_transfer::wire::message::{Message, encode};
use tidegate_transfer::wire::request::RequestKind;
use tidegate_transfer::wire::session::{Inbox, Outbox};
use tidegate_transfer::wire::tls::Trust;

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
    outbox.send(&RequestKind::Receive { id: [7; 16], sink }.under(terms).into());
    let Ok(Message::Accepted(agreement)) = inbox.receive() else { panic!("not accepted") };
    let token = agreement.read().expect("whole").token;
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
        let stream = StreamOpening { plane, token: &self.token, index };
        handshake::open_stream(&self.f.address, &self.config, &stream).expect("opened")
    }

    /// What a clear stream begins with, proved by `binding`.
    fn opening(&self, index: u32, binding: &[u8]) -> Vec<u8> {
        let proof = *handshake::stream_proof(&self.token, index, binding).as_bytes();
        encode(&Opening::Stream(StreamHello { session: session_name(&self.token), index, proof }))
    }
}

fn file(path: &[u8], size: u64) -> Entry {
    let kind = Kind::File { size, fingerprint: [1; 16] };
    Entry::new(RelPath::new(path).expect("a name"), kind, 0o644, Timestamp::default())
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
        let request = Message::from(RequestKind::Receive { id: [7; 16], sink }.under(terms()));
        channel.write_all(&encode(&request)).expect("written");
        let offer = Message::Offer { first: 0, entries: vec![file(b"placeholder.x", 5)] };
        channel.write_all(&forged(&offer, b"placeholder.x", name)).expect("written");
        channel.socket().set_read_timeout(Some(Duration::from_secs(120))).expect("set");
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
            RequestKind::Receive { id: [1; 16], sink }.under(terms()),
            RequestKind::Send { source: SourceSpec::Files(vec![path.to_vec()]) }.under(terms()),
            RequestKind::OneTimeTicket { path: path.to_vec() }.into(),
        ] {
            let (outbox, inbox) = dial(&f.address, &config).expect("let in");
            outbox.send(&request.clone().into());
            match inbox.receive() {
                Ok(Message::Refused(error)) => assert_eq!(error.kind, ErrorKind::UnsafeName, "{error}"),
                other => panic!("{request:?}: {other:?}"),
            }
        }
    }
    assert_eq!(fs::read_dir(&f.root).expect("listed").count(), 0);
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
        Message::Finished(NotKept::default()),
        Message::Done(vec![(0, Outcome::Committed)]),
        Message::Welcome(Record::of(&Welcome::to(1))),
        agreed([0; 32]),
    ] {
        let hand = by_hand();
        hand.outbox.send(&message);
        hand.is_cast_out();
    }
    let f = Fixture::new();
    let config =
        Trust::Pinned(f.address.ticket.as_ref().expect("a ticket").fingerprint).client().expect("set up");
    for length in [9u32 << 20, u32::MAX] {
        let mut channel = handshake::open_session(&f.address, &config).expect("let in");
        channel.write_all(&length.to_le_bytes()).expect("written");
        channel.socket().set_read_timeout(Some(Duration::from_secs(120))).expect("set");
        let started = Instant::now();
        let _ = channel.read_to_end(&mut Vec::new());
        assert!(started.elapsed() < Duration::from_secs(45), "not hung up on");
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
    hand.outbox.send(&Message::Listed);
    hand.outbox.send(&Message::Finish);
    assert!(matches!(hand.next(), Ok(Message::Finished(_))));
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
        channel.socket().set_read_timeout(Some(Duration::from_secs(120))).expect("set");
        let started = Instant::now();
        let _ = channel.read(&mut [0; 16]);
        assert!(started.elapsed() < Duration::from_secs(45), "not hung up on");
    };
    // Another token, an unknown session, a number used before, and a proof bound to another connection.
    let address = &hand.f.address;
    let mut token = hand.token;
    token[0] ^= 1;
    for plane in [DataPlane::Tls, DataPlane::Clear] {
        let stream = StreamOpening { plane, token: &token, index: 0 };
        let forged = handshake::open_stream(address, &hand.config, &stream);
        refused(forged.expect("opened"));
    }
    // A clear stream that was listened to says the same twice.
    for (index, plane) in [(3, DataPlane::Tls), (5, DataPlane::Clear)] {
        let kept = hand.stream(index, plane);
        eventually("the first one is known", || is_hung_up(&mut hand.stream(index, plane)));
        drop(kept);
    }
    let connect = || TcpStream::connect((address.host.as_str(), address.port)).expect("connected");
    for preface in [b"TIDEGATE", b"TIDEGAT3"] {
        let mut socket = connect();
        socket.write_all(&[preface, &hand.opening(4, &[0; 32])[..]].concat()).expect("written");
        refused(Channel::Clear(socket));
    }
    hand.still_serves();
}

fn is_hung_up(channel: &mut Channel) -> bool {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    channel.socket().set_read_timeout(Some(Duration::from_millis(300))).expect("set");
    match channel.read(&mut [0; 16]) {
        Ok(n) => n == 0,
        Err(error) => !matches!(error.kind(), WouldBlock | TimedOut),
    }
}

#[test]
fn streams_of_either_kind_carry_data() {
    for plane in [DataPlane::Clear, DataPlane::Tls] {
        let hand = by_hand();
        hand.outbox.send(&Message::Offer { first: 0, entries: vec![file(b"file", 3)] });
        assert!(matches!(hand.next(), Ok(Message::Verdicts { .. })));
        let frame =
            Frame { kind: FrameKind::Data, length: 3, file: 0, checksum: checksum(b"abc", 0, 3), offset: 0 };
        let mut stream = hand.stream(0, plane);
        stream.write_all(&[&frame.encode()[..], b"abc"].concat()).expect("written");
        hand.outbox.send(&Message::Hashes(vec![(0, 0, *blake3::hash(b"abc").as_bytes())]));
        let done = hand.next();
        assert!(matches!(&done, Ok(Message::Done(done)) if *done == [(0, Outcome::Committed)]), "{done:?}");
        assert_eq!(fs::read(hand.f.root.join("in/file")).expect("there"), b"abc");
    }
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
            let again =
                |start, end| tidegate_transfer::offer::Again { file: id, range: Range { start, end } };
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
        outbox.send(&RequestKind::Send { source }.under(terms).into());
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
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            assert!(Instant::now() < end, "no answer");
            match inbox.receive_within(Duration::from_millis(100)) {
                Ok(Some(Message::Report(_)) | None) | Err(_) => break,
                Ok(Some(_)) => {}
            }
        }
        outbox.close();
    }
    let back = f.dir("back");
    assert_eq!(f.pull(&["tree"], &back).files_failed, 0);
    assert_same_tree(&f.root.join("tree"), &back.join("tree"));
}
