//! What a peer says is never given to the terminal as it is: a server answers with escape sequences in every text
//! of the protocol, and none of them comes through.

mod common;
#[path = "../../transfer/tests/common/peer.rs"]
#[allow(dead_code, missing_docs, reason = "each test file uses its part")]
mod peer;

use common::{Ran, World};
use peer::{Server, TOKEN, Visit, entry, file};
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::manifest::Kind;
use tidegate_transfer::wire::message::{Message, Outcome, Request, Totals, Verdict};

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
}

#[test]
fn what_a_receiver_says_of_files_is_shown_escaped() {
    against(
        |visit| {
            visit.outbox.send(&Message::Accepted { token: TOKEN });
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
        |visit| match visit.request {
            Request::OneTimeTicket { .. } => {
                // One that can be read, so that the transfer goes on.
                let ticket = tidegate_transfer::wire::ticket::Ticket {
                    fingerprint: [1; 32],
                    key: [1; 32],
                    claims: tidegate_transfer::wire::ticket::Claims::FULL.encode(),
                };
                visit.outbox.send(&Message::Ticket(ticket.encode()));
            }
            _ => {
                visit.outbox.send(&Message::Accepted { token: TOKEN });
                visit.outbox.send(&Message::RoundTrip(0));
                let failures = vec![(EVIL.into(), evil())];
                visit.outbox.send(&Message::Progress(Totals { failures, ..Totals::default() }));
                refuse(visit);
            }
        },
        &["copy", "SERVER/x", "SERVER/y"],
    );
}
