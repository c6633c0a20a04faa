//! A receiver that takes its time: the sender offers no more than its window, and goes on with each
//! verdict, also on entries that are no files.

use std::fs;
use std::time::{Duration, Instant};

use crate::common::{Fixture, terms};
use tidegate_transfer::offer::Verdict;
use tidegate_transfer::spec::SourceSpec;
use tidegate_transfer::wire::handshake;
use tidegate_transfer::wire::message::Message;
use tidegate_transfer::wire::request::RequestKind;
use tidegate_transfer::wire::session;
use tidegate_transfer::wire::tls::Trust;

#[test]
fn directories_alone_fill_the_window_and_empty_it() {
    const DIRECTORIES: usize = 9000;
    const HANGS: Duration = Duration::from_secs(120);
    let f = Fixture::new();
    for i in 0..DIRECTORIES {
        fs::create_dir_all(f.root.join(format!("tree/{i}"))).expect("made");
    }
    let fingerprint = f.address.ticket.as_ref().expect("a ticket").fingerprint;
    let config = Trust::Pinned(fingerprint).client().expect("set up");
    let channel = handshake::open_session(&f.address, &config).expect("let in");
    let (outbox, inbox) = session::start(channel, "the endpoint").expect("started");
    let source = SourceSpec::Files(vec![b"tree/".to_vec()]);
    outbox.send(&RequestKind::Send { source }.under(terms()).into());
    let (mut offered, mut answered) = (Vec::new(), 0);
    let mut listed = false;
    let began = Instant::now();
    while !listed {
        match inbox.receive_within(Duration::from_millis(500)).expect("goes on") {
            Some(Message::Offer { first, entries }) => offered.push((first, entries.len())),
            Some(Message::Listed) => listed = true,
            Some(Message::Refused(error)) => panic!("{error}"),
            Some(_) => {}
            // It waits for us: what has been offered is the window, and every verdict makes room.
            None => {
                let count: usize = offered.iter().map(|(_, count)| count).sum();
                if answered == count {
                    assert!(
                        began.elapsed() < HANGS,
                        "it waits, with {count} of {DIRECTORIES} offered and all answered"
                    );
                    continue;
                }
                assert!(count < DIRECTORIES, "more was offered than the window holds");
                for (first, count) in &offered {
                    let verdicts = vec![Verdict::Made; *count];
                    outbox.send(&Message::Verdicts { first: *first, verdicts });
                }
                answered = count;
            }
        }
    }
    assert_eq!(offered.iter().map(|(_, count)| count).sum::<usize>(), DIRECTORIES);
    assert!(answered > 0, "the window was never full");
    outbox.close();
}
