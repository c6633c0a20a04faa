//! Peers that hold a ticket and want everything: an endpoint gives each ticket its share and no more, and whoever
//! holds another one goes on as if nothing were.

use crate::common;
use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use crate::common::peer::agreed;
use crate::common::peer::{Server, file};
use crate::common::{Fixture, dial, terms, write};
use tidegate_control::{ByteCount, PerStage};
use tidegate_transfer::error::{Error, ErrorKind, Retry};
use tidegate_transfer::hash::Digest;
use tidegate_transfer::offer::{Again, OFFER_ENTRIES, Verdict};
use tidegate_transfer::quota::Allowance;
use tidegate_transfer::record::Record;
use tidegate_transfer::spec::{SinkSpec, SourceSpec};
use tidegate_transfer::terms::DataPlane;
use tidegate_transfer::transfer::link::Link;
use tidegate_transfer::wire::handshake::{self, StreamOpening};
use tidegate_transfer::wire::message::Step;
use tidegate_transfer::wire::message::{Message, encode};
use tidegate_transfer::wire::request::RequestKind;
use tidegate_transfer::wire::session::{Inbox, Outbox};
use tidegate_transfer::wire::ticket::{Address, Claims};
use tidegate_transfer::wire::tls::Trust;

const SMALL: Allowance = Allowance { sessions: 3, threads: 12, memory: ByteCount::mib(4) };

/// An endpoint with small shares, and a ticket for an attacker.
struct Prey {
    f: Fixture,
    address: Address,
    config: Arc<rustls::ClientConfig>,
}

fn prey() -> Prey {
    let f = Fixture::with(|config| config.allowance = SMALL);
    let claims = Claims { path: b"theirs".to_vec(), ..Claims::FULL };
    let address = f.endpoint.address(&claims).expect("an address");
    let config =
        Trust::Pinned(f.address.ticket.as_ref().expect("a ticket").fingerprint).client().expect("set up");
    Prey { f, address, config }
}

impl Prey {
    /// A session of the attacker's that puts something there.
    fn session(&self, id: u8) -> Result<(Outbox, Inbox, Digest), Error> {
        let (outbox, inbox) = dial(&self.address, &self.config)?;
        let sink = SinkSpec::Files { path: format!("theirs/{id}/").into_bytes(), single: false };
        outbox.send(&RequestKind::Receive { id: [id; 16], sink }.under(terms()).into());
        match inbox.receive()? {
            Message::Accepted(agreement) => Ok((outbox, inbox, agreement.read()?.token)),
            Message::Refused(error) => Err(error),
            message => panic!("{message:?}"),
        }
    }

    /// Others are served meanwhile.
    fn serves_others(&self) {
        let source = self.f.dir("honest");
        write(&source.join("file"), 300_000, 1);
        write(&source.join("more/file"), 10, 2);
        let totals = self.f.push(&[source], "honest/");
        assert_eq!((totals.files_done, totals.files_failed), (2, 0));
        fs::remove_dir_all(self.f.root.join("honest")).expect("removed");
    }
}

/// Why the session ended, whatever else was said.
fn end(inbox: &Inbox) -> Error {
    loop {
        match inbox.receive_within(Duration::from_secs(30)) {
            Ok(Some(Message::Refused(error))) | Err(error) => return error,
            Ok(Some(_)) => {}
            Ok(None) => panic!("the session goes on"),
        }
    }
}

/// The session was ended for what was said in it, and for nothing else.
fn is_broken_off(inbox: &Inbox, what: &str) {
    let error = end(inbox);
    assert!(matches!(error.kind, ErrorKind::Protocol | ErrorKind::Connection), "{what}: {error}");
}

/// Threads of this process whose name begins so.
fn threads(prefix: &str) -> usize {
    let names = fs::read_dir("/proc/self/task").expect("listed").flatten();
    names.filter(|t| fs::read_to_string(t.path().join("comm")).is_ok_and(|n| n.starts_with(prefix))).count()
}

#[test]
fn a_ticket_has_so_many_sessions_and_no_more() {
    let prey = prey();
    let open: Vec<_> = (0..3).map(|id| prey.session(id).expect("room")).collect();
    let error = prey.session(3).expect_err("one too many");
    assert!(error.kind == ErrorKind::Busy && error.message.contains("--sessions"), "{error}");
    // A command waits for a place, as for a host that is away.
    let error = Link::open(&prey.address, None).expect_err("one too many");
    assert!(error.kind.retry() == Retry::Outage && error.message.contains("--sessions"), "{error}");
    prey.serves_others();
    for (outbox, ..) in open {
        outbox.close();
    }
    // Their room is free again once they have ended.
    common::eventually("there is room", || prey.session(4).is_ok());
}

#[test]
fn a_ticket_has_so_many_threads_and_no_more() {
    testkit::alone!();
    let prey = prey();
    let sessions: Vec<_> = (0..3).map(|id| prey.session(id).expect("room")).collect();
    let mut streams = Vec::new();
    for (outbox, _, token) in &sessions {
        outbox.send(&Message::Setpoint(PerStage::all(512)));
        for index in 0..20 {
            let stream = StreamOpening { plane: DataPlane::Tls, token, index };
            streams.extend(handshake::open_stream(&prey.address, &prey.config, &stream));
        }
    }
    // Each session has the first of each for itself. Other tests of this program have some too.
    let most = SMALL.threads + 3 * 2 + 40;
    let now = || threads("write-") + threads("network-");
    assert!(now() <= most, "{} threads for one ticket", now());
    prey.serves_others();
    drop((sessions, streams));
}

#[test]
fn a_transfer_that_has_ended_leaves_no_thread_and_no_descriptor() {
    testkit::alone!();
    let (a, b) = (Fixture::new(), Fixture::new());
    let source = a.dir("source");
    write(&source.join("file"), 300_000, 1);
    let visit = |name: &str| {
        assert_eq!(a.push(std::slice::from_ref(&source), &format!("{name}/")).files_done, 1);
        assert_eq!(a.pull(&[&format!("{name}/source")], &a.dir(name)).files_done, 1);
        let (from, to) = (a.remote(&[&format!("{name}/source")]), b.to_endpoint(&format!("{name}/")));
        assert_eq!(a.run(&from, &to).expect("moved").0.files_done, 1);
    };
    let descriptors = || fs::read_dir("/proc/self/fd").expect("listed").count();
    visit("first");
    // What both endpoints keep for good is open by now.
    common::eventually("all have ended", || threads("starts") == 0);
    let kept = descriptors();
    for name in ["second", "third", "fourth"] {
        visit(name);
    }
    common::eventually("all have ended", || threads("starts") == 0 && descriptors() <= kept);
}

#[test]
fn what_is_remembered_for_a_ticket_is_bounded() {
    let prey = prey();
    // Long names, as many as are allowed at once.
    let (outbox, inbox, _) = prey.session(0).expect("room");
    let mut first = 0;
    while first < 8192 && !outbox.is_lost() {
        let name = |i: u32| format!("{:0>200}/{:0>200}/{i}", first, first);
        let entries = (0..OFFER_ENTRIES as u32).map(|i| file(name(first + i).as_bytes(), 9)).collect();
        outbox.send_patiently(&Message::Offer { first, entries }, || false);
        first += OFFER_ENTRIES as u32;
    }
    let (mut wanted, mut answered) = (0, 0);
    while answered < first {
        match inbox.receive_within(Duration::from_secs(3)) {
            Ok(Some(Message::Verdicts { verdicts, .. })) => {
                answered += verdicts.len() as u32;
                wanted += verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Want { .. })).count();
            }
            // It waits for some of them to end, or has had enough.
            Ok(Some(Message::Refused(_)) | None) | Err(_) => break,
            Ok(Some(_)) => {}
        }
    }
    assert!(wanted < 4000, "{wanted} files are under way");
    drop((outbox, inbox));
    // Hashes of segments that never come.
    let (outbox, inbox, _) = prey.session(1).expect("room");
    outbox.send(&Message::Offer { first: 0, entries: vec![file(b"huge", 1 << 60)] });
    loop {
        match inbox.receive().expect("a verdict") {
            Message::Verdicts { verdicts, .. } => {
                break assert!(matches!(verdicts[..], [Verdict::Want { .. }]), "{verdicts:?}");
            }
            Message::Refused(error) => panic!("{error}"),
            _ => {}
        }
    }
    let mut segment = 0;
    while segment < 1 << 20 && !outbox.is_lost() {
        let hashes = (segment..segment + 4096).map(|segment| (0, segment, [1; 32])).collect();
        outbox.send_patiently(&Message::Hashes(hashes), || false);
        segment += 4096;
    }
    let error = end(&inbox);
    assert!(matches!(error.kind, ErrorKind::Busy | ErrorKind::Connection), "{error}");
    assert!(segment < 1 << 19, "{segment} hashes were taken");
    prey.serves_others();
    // What an ended session took is free again.
    common::eventually("there is room", || prey.session(2).is_ok());
}

#[test]
fn a_message_of_very_many_small_elements_ends_the_session() {
    let prey = prey();
    let (outbox, inbox, _) = prey.session(0).expect("room");
    outbox.send(&Message::Replace(vec![0; 3 << 20]));
    is_broken_off(&inbox, "three million numbers");
    prey.serves_others();
}

#[test]
fn who_does_not_read_the_answers_is_not_listened_to_and_keeps_no_place() {
    let prey = prey();
    for id in 0..SMALL.sessions as u8 {
        let mut channel = handshake::open_session(&prey.address, &prey.config).expect("let in");
        let sink = SinkSpec::Files { path: format!("theirs/{id}/").into_bytes(), single: false };
        let request = Message::from(RequestKind::Receive { id: [id; 16], sink }.under(terms()));
        channel.write_all(&encode(&request)).expect("written");
        channel.socket().set_write_timeout(Some(Duration::from_millis(500))).expect("set");
        // Each poll has an answer that is ten times as long.
        let polls: Vec<u8> = (0..10_000).flat_map(|number| encode(&Message::Poll(number))).collect();
        let taken = (0..200).take_while(|_| channel.write_all(&polls).is_ok()).count();
        assert!(taken < 200, "two million polls were taken");
        if id == 0 {
            prey.serves_others();
        }
        // It leaves without having read anything.
    }
    for id in 0..SMALL.sessions as u8 {
        common::eventually("there is room", || prey.session(id).is_ok());
    }
}

#[test]
fn who_is_sent_to_elsewhere_uses_no_more_than_the_ticket_has() {
    testkit::alone!();
    let prey = prey();
    write(&prey.f.root.join("theirs/file"), 1000, 1);
    // A destination of the attacker's own, which agrees and then does nothing.
    let server = Server::new(|visit| {
        visit.outbox.send(&agreed(common::peer::TOKEN));
        while visit.next().is_ok() {}
    });
    let mut sessions = Vec::new();
    for _ in 0..SMALL.sessions {
        let (outbox, inbox) = dial(&prey.address, &prey.config).expect("let in");
        outbox.send(
            &RequestKind::SendTo {
                source: SourceSpec::Files(vec![b"theirs/file".to_vec()]),
                destination: server.address.to_bytes(),
                pace_ms: (50, 0),
            }
            .under(tidegate_transfer::terms::Terms { max_workers: 512, ..terms() })
            .into(),
        );
        assert!(matches!(inbox.receive(), Ok(Message::Accepted(_))));
        outbox.send(&Message::Step(Record::of(&Step { setpoint: PerStage::all(512), ..Step::default() })));
        sessions.push((outbox, inbox));
    }
    // Each has stepped, so its workers run.
    for (_, inbox) in &sessions {
        while !matches!(inbox.receive().expect("it goes on"), Message::Stepped(_)) {}
    }
    let most = SMALL.threads + SMALL.sessions * 2 + 40;
    let now = threads("read-") + threads("network-");
    assert!(now <= most, "{now} threads for one ticket");
    prey.serves_others();
}

/// A session of the attacker's that is sent `theirs/file`, once that is offered.
fn receiving(prey: &Prey) -> (Outbox, Inbox) {
    write(&prey.f.root.join("theirs/file"), 20 << 20, 1);
    let (outbox, inbox) = dial(&prey.address, &prey.config).expect("let in");
    let source = SourceSpec::Files(vec![b"theirs/file".to_vec()]);
    outbox.send(&RequestKind::Send { source }.under(terms()).into());
    while !matches!(inbox.receive().expect("it is offered"), Message::Offer { .. }) {}
    (outbox, inbox)
}

#[test]
fn a_receiver_has_one_word_for_each_file() {
    let prey = prey();
    let want = || Verdict::Want { have: Vec::new() };
    let exists = || Verdict::Exists([1; 32]);
    for words in [[want(), want()], [exists(), exists()], [want(), exists()], [exists(), want()]] {
        let (outbox, inbox) = receiving(&prey);
        for verdict in words.clone() {
            outbox.send(&Message::Verdicts { first: 0, verdicts: vec![verdict] });
        }
        is_broken_off(&inbox, &format!("{words:?}"));
    }
    prey.serves_others();
}

#[test]
fn a_receiver_has_little_sent_again_whatever_it_asks_for() {
    let prey = prey();
    let (outbox, inbox) = receiving(&prey);
    outbox.send(&Message::Verdicts { first: 0, verdicts: vec![Verdict::Want { have: Vec::new() }] });
    // Less than a block each, and each is read and sent as one.
    let again = Message::Again(vec![Again { file: 0, range: 0..1 }; 1000]);
    let refused = |message| matches!(message, Message::Abandon(0, _) | Message::Refused(_));
    let mut given_up = false;
    for _ in 0..2_000 {
        if given_up || outbox.is_lost() {
            break;
        }
        outbox.send_patiently(&again, || false);
        while let Ok(Some(message)) = inbox.receive_within(Duration::ZERO) {
            given_up |= refused(message);
        }
    }
    // A busy machine may be slower to refuse than this is to ask.
    while !given_up && let Ok(Some(message)) = inbox.receive_within(Duration::from_secs(30)) {
        given_up |= refused(message);
    }
    assert!(given_up || outbox.is_lost(), "two million ranges wait to be sent again");
    prey.serves_others();
}

#[test]
fn a_directory_is_recorded_once_however_often_it_is_offered() {
    let prey = prey();
    let (outbox, inbox, _) = prey.session(0).expect("room");
    let mut first = 0;
    for _ in 0..100 {
        let entry = common::peer::entry(b"directory", tidegate_transfer::manifest::Kind::Directory);
        let entries = vec![entry; OFFER_ENTRIES];
        outbox.send_patiently(&Message::Offer { first, entries }, || false);
        first += OFFER_ENTRIES as u32;
        while !matches!(inbox.receive().expect("it goes on"), Message::Verdicts { .. }) {}
    }
    let id = data_encoding::HEXLOWER.encode(&[0; 16]);
    let journal = prey.f.root.join("theirs/0/.tidegate").join(id).join("journal");
    let bytes = fs::metadata(journal).expect("there").len();
    assert!(bytes < 1000, "{bytes} bytes for one directory");
    outbox.send(&Message::Listed);
    outbox.send(&Message::Finish);
    while !matches!(inbox.receive().expect("it goes on"), Message::Finished(_)) {}
}

#[test]
fn a_server_cannot_fill_the_memory_of_who_pulls() {
    // Failures without end, each as long as may be.
    let server = Server::new(|visit| {
        visit.accept_send(false);
        let problem = Message::Problem(vec![b'x'; 4000], Error::new(ErrorKind::Io, "y".repeat(1000)));
        for _ in 0..2_000 {
            visit.outbox.send_patiently(&problem, || false);
        }
        visit.outbox.send(&Message::Listed);
        visit.finish();
    });
    let f = Fixture::new();
    let to = f.dir("to");
    let from =
        tidegate_transfer::transfer::route::From::Endpoint(server.address.clone(), vec![b"a/".to_vec()]);
    let to = tidegate_transfer::transfer::route::To::Local(to.to_str().expect("text").as_bytes().to_vec());
    let (totals, failures) = f.run(&from, &to).expect("nothing is lost");
    assert_eq!(totals.files_failed, 2_000);
    let bytes: usize = failures.iter().map(|f| f.path.len() + f.error.message.len()).sum();
    assert!(bytes <= 8 << 20 && !failures.is_empty(), "{bytes} bytes");
}
