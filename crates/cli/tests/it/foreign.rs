//! What others say is never given to the terminal or a log as it is: servers answer with escape sequences in every
//! text of their protocol, clients and jobs name things with them, and none of them comes through any command.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use crate::common::service::Service;
use crate::common::{Ran, World, finish};
use crate::peer::agreed;
use crate::peer::{Server, TOKEN, Visit, entry, file};
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::manifest::Kind;
use tidegate_transfer::offer::{Outcome, Verdict};
use tidegate_transfer::wire::message::Message;
use tidegate_transfer::wire::request::RequestKind;

/// Moves the cursor, sets a title, changes the direction, is invisible, and ends a line.
const EVIL: &str =
    "evil\x1b[2J\x1b]0;x\x07\x08\x7f\u{9b}31m\u{202e}\u{2066}\u{61c}\u{200b}\u{2028}\r\nforged: line";

fn evil() -> Error {
    Error::new(ErrorKind::Denied, EVIL.repeat(300))
}

fn assert_harmless(ran: &Ran) {
    for text in [&ran.out, &ran.err] {
        let bad = text.chars().find(|&c| {
            (c.is_control() && c != '\n')
                || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        });
        assert_eq!(bad, None, "{text:?}");
        assert!(text.lines().all(|line| !line.starts_with("forged")), "{text}");
        assert!(text.lines().all(|line| line.len() < 100_000), "{} bytes", text.len());
    }
}

/// Runs `arguments` against a server with this script, for people, in detail, and for programs; SERVER is its address.
fn against(script: fn(&Visit), arguments: &[&str]) {
    let world = World::new();
    world.fill("file", 3000, 1);
    world.fill("tree/other", 3000, 1);
    let server = Server::new(script);
    let address = server.address.to_string();
    let arguments: Vec<String> = arguments.iter().map(|word| word.replace("SERVER/", &address)).collect();
    for more in [&[][..], &["-vv"], &["--json"]] {
        let words: Vec<&str> = arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let ran = world.run(&words);
        assert_harmless(&ran);
        let told = ran.err.contains("evil\\x1b[2J") || ran.out.contains("evil\\\\x1b[2J");
        assert!(ran.code != 0 && told, "{words:?}: {ran:?}");
    }
}

fn refuse(visit: &Visit) {
    visit.outbox.send(&Message::Refused(evil()));
    visit.outbox.close();
}

#[test]
fn a_refusal_is_shown_escaped() {
    against(refuse, &["copy", "file", "SERVER/x"]);
    against(refuse, &["copy", "SERVER/x", "copy"]);
    against(refuse, &["verify", "tree", "SERVER/x"]);
    against(refuse, &["probe", "SERVER/"]);
    against(refuse, &["copy", "SERVER/x", "SERVER/y"]);
    against(refuse, &["explore", "SERVER/"]);
    against(refuse, &["estimate", "file", "SERVER/x", "--bytes=1GiB"]);
}

/// A server of HTTP that says evil in each line of its answers, and where it can be asked.
fn evil_http() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = format!("http://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut socket = socket;
                let mut line = String::new();
                let mut lines = BufReader::new(socket.try_clone().expect("a socket"));
                // An upload is answered when its header is there.
                while lines.read_line(&mut line).is_ok_and(|length| length > 2) {
                    line.clear();
                }
                let body = format!("<Error><Code>{EVIL}</Code><Message>{EVIL}</Message></Error>");
                let head =
                    format!("Content-Type: text/html; evil\u{9b}31m\r\nContent-Length: {}\r\n", body.len());
                let _ = write!(socket, "HTTP/1.1 403 evil\u{9b}31m\r\n{head}Connection: close\r\n\r\n{body}");
            });
        }
    });
    place
}

#[test]
fn what_a_web_server_says_is_shown_escaped() {
    let world = World::new();
    world.fill("file", 3000, 1);
    let place = evil_http();
    let url = format!("{place}/{}", EVIL.replace(['\r', '\n'], ""));
    world.write("list", format!("{url}\n  out={EVIL}\n"));
    let s3 = format!("--s3-endpoint={place}");
    let mut told = 0;
    let commands: [&[&str]; 6] = [
        &["get", &url, "-o", "got"],
        &["get", "list", "-o", "got"],
        &["get", "list", "-o", "got", "--dry-run"],
        &["get", "s3://bucket/prefix/", "-o", "got", &s3],
        &["put", "file", &format!("{place}/there/")],
        &["put", "file", "s3://bucket/x", &s3],
    ];
    for command in commands {
        for more in [&[][..], &["-vv"], &["--json"]] {
            let words: Vec<&str> = command.iter().chain(more).copied().collect();
            let mut run = world.command();
            run.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret").args(&words);
            let ran = finish(&mut run);
            assert_harmless(&ran);
            assert!(ran.code != 0, "{words:?}: {ran:?}");
            told += usize::from(ran.err.contains("evil\\x1b[2J") || ran.out.contains("evil\\\\x1b[2J"));
        }
    }
    assert!(told >= 8, "what they say is not told at all ({told})");
    for file in ["failed.txt", "got/failed.txt"] {
        let text = std::fs::read_to_string(world.path(file)).unwrap_or_default();
        assert_harmless(&Ran { code: 0, out: text, err: String::new() });
    }
}

#[test]
fn what_a_client_names_is_logged_escaped() {
    let world = World::new();
    world.fill("served/file", 3000, 1);
    let endpoint = world.endpoint("served", &[]);
    let evil = EVIL.replace('/', "");
    world.write(format!("tree/{evil}"), "data");
    for arguments in [
        ["copy", "tree", &endpoint.at("in/")],
        ["copy", "tree", &endpoint.at(&format!("{evil}/x"))],
        ["copy", &endpoint.at(&evil), "here"],
        ["verify", "tree", &endpoint.at("in/tree")],
        ["copy", &endpoint.at("in/tree"), "back/"],
    ] {
        assert_harmless(&world.run(&arguments));
    }
    // And what is said by hand, after a proof and without one.
    let mut socket = std::net::TcpStream::connect(endpoint.place()).expect("connected");
    socket.write_all(EVIL.as_bytes()).expect("written");
    drop(socket);
    let clean = world.run(&["clean", "served"]);
    assert_harmless(&clean);
    let log = endpoint.log();
    assert_harmless(&Ran { code: 0, out: log, err: String::new() });
}

#[test]
fn what_jobs_are_called_is_shown_escaped() {
    let world = World::new();
    let service = Service::start(&world, "service", &[]);
    world.write(EVIL.replace('/', ""), "data");
    let evil = EVIL.replace('/', "");
    let ran =
        service.run(&world, &["submit", &evil, &format!("tg://nowhere.invalid/{evil}"), "--retry-for=0s"]);
    assert_harmless(&ran);
    let words = ["jobs", "job 1", "history", "history show", "job 1 --retry", "cancel 1"];
    for words in words.map(|words| words.split(' ').collect::<Vec<_>>()) {
        for more in [&[][..], &["--json"]] {
            let all: Vec<&str> = words.iter().chain(more).copied().collect();
            assert_harmless(&service.run(&world, &all));
        }
    }
    assert_harmless(&Ran { code: 0, out: service.log(), err: String::new() });
}

#[test]
fn what_a_receiver_says_of_files_is_shown_escaped() {
    against(
        |visit| {
            visit.outbox.send(&agreed(TOKEN));
            while let Ok(message) = visit.next() {
                if let Message::Offer { first, entries } = message {
                    let verdicts = entries.iter().map(|_| Verdict::Failed(evil())).collect();
                    visit.outbox.send(&Message::Verdicts { first, verdicts });
                    visit.outbox.send(&Message::Done(vec![(first, Outcome::Failed(evil()))]));
                    refuse(visit);
                    return;
                }
            }
        },
        &["copy", "tree", "SERVER/x"],
    );
}

#[test]
fn what_a_sender_says_of_files_is_shown_escaped() {
    against(
        |visit| {
            visit.accept_send(false);
            let name = EVIL.replace('/', "");
            let link = Kind::Symlink { target: EVIL.into() };
            let entries = vec![
                file(name.as_bytes(), 10),
                file(format!("{name}/beneath").as_bytes(), 10),
                entry(format!("{name}2").as_bytes(), link),
            ];
            visit.outbox.send(&Message::Offer { first: 0, entries });
            visit.outbox.send(&Message::Problem(EVIL.into(), evil()));
            visit.outbox.send(&Message::Abandon(0, evil()));
            refuse(visit);
        },
        &["copy", "SERVER/x", "copy"],
    );
}

#[test]
fn what_an_endpoint_tells_of_a_third_party_is_shown_escaped() {
    against(
        |visit| match visit.request.kind {
            RequestKind::OneTimeTicket { .. } => {
                // One that can be read, so that the transfer goes on.
                let ticket = tidegate_transfer::wire::ticket::Ticket {
                    fingerprint: [1; 32],
                    key: [1; 32],
                    claims: tidegate_transfer::wire::ticket::Claims::FULL.encode(),
                };
                visit.outbox.send(&Message::Ticket(ticket.encode()));
            }
            _ => {
                visit.outbox.send(&agreed(TOKEN));
                visit.outbox.send(&Message::Problem(EVIL.into(), evil()));
                refuse(visit);
            }
        },
        &["copy", "SERVER/x", "SERVER/y"],
    );
}
