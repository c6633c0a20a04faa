//! Sessions as version 1 spoke them, kept beside this file: whatever changes, both ends go on understanding them.
//!
//! `cargo test -p tidegate-transfer --test it -- --ignored recorded::record` records them anew: only where a session is
//! added, for what was recorded is a promise.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tidegate_control::PerStage;
use tidegate_transfer::hash::Digest;
use tidegate_transfer::selection::Deletion;
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::terms::{DataPlane, Purpose};
use tidegate_transfer::transfer::route::{From, Setup, To, begin};
use tidegate_transfer::wire::channel::Channel;
use tidegate_transfer::wire::handshake::{self, StreamOpening};
use tidegate_transfer::wire::message::{Message, decode, encode};
use tidegate_transfer::wire::order;
use tidegate_transfer::wire::session::{Inbox, Outbox};
use tidegate_transfer::wire::ticket::{Address, Claims};
use tidegate_transfer::wire::tls::Trust;

use crate::common::peer::{Server, Visit};
use crate::common::{Fixture, content, dial, drive, write};

/// What is recorded, and whether the initiator sends.
const SESSIONS: [(&str, bool); 4] = [("push", true), ("pull", false), ("mirror", true), ("plan", true)];

/// What lies at the source; one file has more than a block where it is pushed.
fn files(session: &str) -> [(&'static str, u64); 4] {
    let large = if session == "push" { 140_000 } else { 3000 };
    [("a", 0), ("b", 1000), ("sub/c", large), ("sub/deeper/d", 5)]
}

fn path_of(session: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/1").join(format!("{session}.session"))
}

/// What was said, one after the other.
#[derive(Clone, Debug, PartialEq)]
enum Said {
    Initiator(Message),
    Endpoint(Message),
    /// Bytes of the only stream.
    Stream(Vec<u8>),
}

impl Said {
    fn line(&self) -> String {
        let (who, bytes) = match self {
            Self::Initiator(message) => ("initiator", encode(message)),
            Self::Endpoint(message) => ("endpoint", encode(message)),
            Self::Stream(bytes) => ("stream", bytes.clone()),
        };
        format!("{who} {}", data_encoding::HEXLOWER.encode(&bytes))
    }

    fn parse(line: &str) -> Self {
        let (who, text) = line.split_once(' ').expect("two words");
        let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).expect("hexadecimal");
        if who == "stream" {
            return Self::Stream(bytes);
        }
        let (message, length) = decode(&bytes, 8 << 20).expect("readable").expect("whole");
        assert_eq!(length, bytes.len(), "one message: {line}");
        match who {
            "initiator" => Self::Initiator(message),
            "endpoint" => Self::Endpoint(message),
            _ => panic!("{line}"),
        }
    }
}

fn recorded(session: &str) -> Vec<Said> {
    let text = fs::read_to_string(path_of(session)).expect("recorded");
    text.lines().filter(|line| !line.starts_with('#')).map(Said::parse).collect()
}

/// What comes when a clock or a worker has it come.
fn is_timed(message: &Message) -> bool {
    matches!(
        message,
        Message::Setpoint(_)
            | Message::Poll(_)
            | Message::Report(_)
            | Message::Taken(_)
            | Message::StreamLost(_)
            | Message::Yield(_)
    )
}

/// What a message says, each thing by itself: how many are said at a time is a matter of time.
fn things(message: &Message) -> Vec<String> {
    let name = order::rule(message).name;
    match message {
        message if is_timed(message) => Vec::new(),
        Message::Verdicts { first, verdicts } => {
            (*first..).zip(verdicts).map(|(id, verdict)| format!("{name} {id} {verdict:?}")).collect()
        }
        Message::Done(files) => files.iter().map(|(id, how)| format!("{name} {id} {how:?}")).collect(),
        _ => vec![name.to_owned()],
    }
}

// Recording -----------------------------------------------------------------------------------------

type Log = Arc<Mutex<Vec<Said>>>;

/// Hands on what one end of a session says to the other, and writes it down.
fn hand_on(from: &Inbox, to: &Outbox, log: &Log, said: fn(Message) -> Said) {
    while let Ok(message) = from.receive() {
        log.lock().push(said(message.clone()));
        to.send(&message);
    }
    to.close();
}

fn hand_on_bytes(from: &mut Channel, to: &mut Channel, log: &Log) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(n) = from.read(&mut buffer) {
        if n == 0 {
            break;
        }
        log.lock().push(Said::Stream(buffer[..n].to_vec()));
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = to.finish();
}

/// Stands between an initiator and the endpoint of `f`.
fn between(f: &Fixture, visit: &Visit, log: &Log, pushes: bool) {
    let address = f.endpoint.address(&Claims::OWNER).expect("an address");
    let config = Trust::Pinned(address.ticket.as_ref().expect("a ticket").fingerprint);
    let config = config.client().expect("set up");
    let (outbox, inbox) = dial(&address, &config).expect("let in");
    let request = Message::from(&visit.request);
    log.lock().push(Said::Initiator(request.clone()));
    outbox.send(&request);
    let answer = inbox.receive().expect("an answer");
    let Message::Accepted(agreement) = &answer else { panic!("{answer:?}") };
    let token = agreement.read().expect("whole").token;
    log.lock().push(Said::Endpoint(answer.clone()));
    visit.outbox.send(&answer);
    let (heard, say) = (&visit.inbox, &visit.outbox);
    thread::scope(|scope| {
        scope.spawn(|| hand_on(heard, &outbox, log, Said::Initiator));
        scope.spawn(|| hand_on(&inbox, say, log, Said::Endpoint));
        while let Ok((index, mut theirs)) = visit.streams.recv_timeout(Duration::from_secs(3)) {
            let stream = StreamOpening { plane: DataPlane::Tls, token: &token, index };
            let mut ours = handshake::open_stream(&address, &config, &stream).expect("opened");
            let (from, to) = if pushes { (&mut theirs, &mut ours) } else { (&mut ours, &mut theirs) };
            hand_on_bytes(from, to, log);
        }
    });
}

/// The command of a session, from `there` or to it.
fn command(f: &Fixture, session: &str, there: &Address) -> (From, To, Setup) {
    let source = [f.temporary.path().join("source").as_os_str().as_bytes(), b"/"].concat();
    let mut setup = f.setup();
    if session == "mirror" {
        setup.deletion = Some(Deletion::default());
    }
    if session == "plan" {
        setup.terms.purpose = Purpose::Plan;
    }
    let (from, to) = match session {
        "pull" => (
            From::Endpoint(there.clone(), vec![b"tree/".to_vec()]),
            To::Local([f.temporary.path().join("back").as_os_str().as_bytes(), b"/"].concat()),
        ),
        _ => (From::Local(vec![source]), To::Endpoint(there.clone().with_path("in/"))),
    };
    (from, to, setup)
}

/// An endpoint and a source as all sessions find them.
fn world(session: &str) -> Fixture {
    let f = Fixture::new();
    for (seed, (name, size)) in (1..).zip(files(session)) {
        write(&f.temporary.path().join("source").join(name), size, seed);
        write(&f.root.join("tree").join(name), size, seed);
    }
    write(&f.root.join("in/extra"), 7, 99);
    f
}

#[test]
#[ignore = "records what is a promise from then on"]
fn record() {
    for (session, pushes) in SESSIONS {
        let f = Arc::new(world(session));
        let log = Log::default();
        let server = {
            let (f, log) = (Arc::clone(&f), Arc::clone(&log));
            Server::new(move |visit| between(&f, visit, &log, pushes))
        };
        let (from, to, setup) = command(&f, session, &server.address);
        let (totals, failures) =
            drive(begin(&from, &to, &setup).expect("begun"), PerStage::all(1)).expect("done");
        assert!(failures.is_empty() && totals.files_listed == 4, "{session}: {totals:?} {failures:?}");
        // What is still on its way.
        thread::sleep(Duration::from_millis(500));
        let mut text = format!("# What an initiator and an endpoint of version 1 said: {session}.\n");
        log.lock().iter().for_each(|said| writeln!(text, "{}", said.line()).expect("a string"));
        let path = path_of(session);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, text).expect("written");
    }
}

// Replaying -----------------------------------------------------------------------------------------

#[test]
fn what_was_said_in_version_1_is_read_and_written_as_then() {
    for (session, _) in SESSIONS {
        let text = fs::read_to_string(path_of(session)).expect("recorded");
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let said: Vec<String> = recorded(session).iter().map(Said::line).collect();
        assert!(said == lines, "{session} is encoded otherwise");
        for said in recorded(session) {
            if let Said::Initiator(Message::Request(_, preamble)) = &said {
                preamble.read().expect("all of it is known");
            }
            if let Said::Endpoint(Message::Accepted(agreement)) = &said {
                agreement.read().expect("all of it is known");
            }
        }
    }
}

/// What the other end has said.
#[derive(Default)]
struct Heard {
    things: BTreeMap<String, usize>,
    /// What streams show, once that was said.
    token: Option<Digest>,
}

impl Heard {
    fn add(&mut self, message: &Message) {
        if let Message::Accepted(agreement) = message {
            self.token = Some(agreement.read().expect("whole").token);
        }
        things(message).into_iter().for_each(|thing| *self.things.entry(thing).or_default() += 1);
    }

    fn has(&self, other: &Self) -> bool {
        other.things.iter().all(|(thing, count)| self.things.get(thing).is_some_and(|heard| heard >= count))
    }

    /// Listens until all of `wanted` was said; `false` once the session is over. Polls are answered if `outbox` is given.
    fn listen(&mut self, wanted: &Self, inbox: &Inbox, outbox: Option<&Outbox>) -> bool {
        while !self.has(wanted) {
            let Ok(message) = inbox.receive_within(Duration::from_secs(60)) else { return false };
            let message =
                message.unwrap_or_else(|| panic!("of {:?} only {:?} was said", wanted.things, self.things));
            if let (Message::Poll(number), Some(outbox)) = (&message, outbox) {
                outbox.send(&Message::report(*number, Default::default()));
            }
            self.add(&message);
        }
        true
    }
}

#[test]
fn an_endpoint_answers_an_initiator_of_version_1_as_it_did() {
    for (session, pushes) in SESSIONS.into_iter().filter(|(_, pushes)| *pushes) {
        let f = world(session);
        let address = f.endpoint.address(&Claims::OWNER).expect("an address");
        let trust = Trust::Pinned(address.ticket.as_ref().expect("a ticket").fingerprint);
        let config = trust.client().expect("set up");
        let (outbox, inbox) = dial(&address, &config).expect("let in");
        let said = recorded(session);
        let (mut heard, mut wanted) = (Heard::default(), Heard::default());
        let mut stream = None::<Channel>;
        for step in &said {
            match step {
                Said::Initiator(message) => {
                    heard.listen(&wanted, &inbox, None);
                    outbox.send(message);
                }
                Said::Endpoint(message) => wanted.add(message),
                Said::Stream(bytes) => {
                    heard.listen(&wanted, &inbox, None);
                    let stream = stream.get_or_insert_with(|| {
                        let token = heard.token.as_ref().expect("accepted");
                        let opening = StreamOpening { plane: DataPlane::Tls, token, index: 0 };
                        handshake::open_stream(&address, &config, &opening).expect("opened")
                    });
                    stream.write_all(bytes).expect("taken");
                }
            }
        }
        assert!(heard.listen(&wanted, &inbox, None), "{session}: it ends as it did");
        assert_eq!(heard.things, wanted.things, "{session}");
        for (seed, (file, size)) in (1..).zip(files(session)).filter(|_| session != "plan") {
            assert!(
                fs::read(f.root.join("in").join(file)).expect(file) == content(size, seed),
                "{session}: {file}"
            );
        }
        assert_eq!(f.root.join("in/extra").exists(), session != "mirror", "{session}");
        assert!(pushes && f.root.join("in/a").exists() != (session == "plan"));
    }
}

#[test]
fn an_initiator_goes_on_with_an_endpoint_of_version_1_as_it_did() {
    let said = recorded("pull");
    let heard = Arc::new(Mutex::new(false));
    let server = {
        let all_heard = Arc::clone(&heard);
        Server::new(move |visit| {
            let (mut heard, mut wanted, mut stream) = (Heard::default(), Heard::default(), None);
            let mut listen = |wanted: &Heard| heard.listen(wanted, &visit.inbox, Some(&visit.outbox));
            for step in &said {
                match step {
                    Said::Initiator(Message::Request(..)) | Said::Endpoint(Message::Report(_)) => {}
                    Said::Initiator(message) => wanted.add(message),
                    Said::Endpoint(message) => {
                        listen(&wanted);
                        visit.outbox.send(message);
                    }
                    Said::Stream(bytes) => {
                        listen(&wanted);
                        let stream = stream.get_or_insert_with(|| visit.stream());
                        stream.write_all(bytes).expect("taken");
                    }
                }
            }
            *all_heard.lock() = listen(&wanted);
            visit.outbox.close();
        })
    };
    let f = world("pull");
    let (from, to, setup) = command(&f, "pull", &server.address);
    let (totals, failures) =
        drive(begin(&from, &to, &setup).expect("begun"), PerStage::all(1)).expect("done");
    assert!(failures.is_empty() && totals.files_done == 4, "{totals:?} {failures:?}");
    assert!(*heard.lock(), "it said what it did");
    for (seed, (file, size)) in (1..).zip(files("pull")) {
        assert!(
            fs::read(f.temporary.path().join("back").join(file)).expect(file) == content(size, seed),
            "{file}"
        );
    }
}
