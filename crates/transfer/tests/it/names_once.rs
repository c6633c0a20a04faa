//! One name, one file: whatever is merged and whatever a sender or a server offers.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use crate::common::peer::agreed;
use crate::common::peer::{Server, entry, file, hash_of, whole};
use crate::common::{Fixture, content, dial, drive, is_error, leftovers, terms, write};
use std::io::Write;
use tidegate_transfer::counters::NotKept;
use tidegate_transfer::error::ErrorKind;
use tidegate_transfer::filter::rule::{self, Rule, blank};
use tidegate_transfer::manifest::Kind;
use tidegate_transfer::offer::{Outcome, Verdict};
use tidegate_transfer::selection::Selection;
use tidegate_transfer::spec::SinkSpec;
use tidegate_transfer::terms::DataPlane;
use tidegate_transfer::transfer::route::{From, Setup, To, begin};
use tidegate_transfer::wire::handshake::{self, StreamOpening};
use tidegate_transfer::wire::message::Message;
use tidegate_transfer::wire::request::RequestKind;
use tidegate_transfer::wire::tls::Trust;

const SIZE: u64 = 3_000_000;

/// Directories `a` and `b` with a file `f` of one size in both, and what only one has.
fn two_of_one_name(f: &Fixture, beneath: &str) {
    for (name, seed) in [("a", 1), ("b", 2)] {
        let directory = f.temporary.path().join(beneath).join(name);
        write(&directory.join("f"), SIZE, seed);
        write(&directory.join("sub/g"), 1000, seed);
        write(&directory.join(format!("sub/only-{name}")), 1000, seed);
    }
}

fn is_merged(there: &std::path::Path) {
    assert!(fs::read(there.join("f")).expect("there") == content(SIZE, 1), "a mixture, or the second one");
    assert_eq!(fs::read(there.join("sub/g")).expect("there"), content(1000, 1));
    for (name, seed) in [("sub/only-a", 1), ("sub/only-b", 2)] {
        assert_eq!(fs::read(there.join(name)).expect("there"), content(1000, seed));
    }
}

#[test]
fn sources_that_merge_keep_the_first_of_two_files_of_one_name() {
    let f = Fixture::new();
    two_of_one_name(&f, "root/w");
    two_of_one_name(&f, "w");
    let here = |name: &str| f.temporary.path().join("w").join(name).join("");
    let back = f.dir("back");
    let (other, third) = (Fixture::new(), Fixture::new());
    let runs = [
        f.run(&f.local(&[here("a"), here("b")]), &f.to_endpoint("merge/")),
        f.run(&f.remote(&["w/a/", "w/b/"]), &To::Local(back.as_os_str().as_bytes().to_vec())),
        {
            let from = f.remote(&["w/a/", "w/b/"]);
            f.run(&from, &To::Endpoint(other.address.clone().with_path("merge/")))
        },
        // `n1/a n2/`, where n2 has an `a` too.
        {
            let n2 = third.dir("n2");
            fs::rename(here("b"), n2.join("a")).expect("moved");
            f.run(&f.local(&[here("a").join("."), n2.join("")]), &third.to_endpoint("unused/"))
                .map(drop)
                .ok();
            let a = here("a").to_str().expect("text").trim_end_matches('/').into();
            f.run(&f.local(&[a, n2.join("")]), &third.to_endpoint("merge/"))
        },
    ];
    for run in runs {
        let (totals, failures) = run.expect("goes on");
        assert_eq!((totals.files_done, totals.files_failed), (4, 2), "{failures:?}");
        for name in ["f", "g"] {
            let failure = failures.iter().find(|failure| failure.path.ends_with(name.as_bytes()));
            let why = &failure.expect("told").error.message;
            assert!(
                why.contains("would both become") && why.matches(&format!("/{name}")).count() >= 2,
                "{why}"
            );
        }
    }
    for there in [f.root.join("merge"), back, other.root.join("merge"), third.root.join("merge/a")] {
        is_merged(&there);
    }
}

#[test]
fn the_same_directory_twice_and_a_link_beside_a_directory_are_refused() {
    let f = Fixture::new();
    two_of_one_name(&f, "w");
    let w = f.temporary.path().join("w");
    let error = is_error(f.try_push(&[w.join("a/"), w.join("./a/")], "x/"));
    assert!(error.kind == ErrorKind::Usage && error.message.contains("the same directory"), "{error}");
    // Of a link and a directory of one name the link comes first, and nothing goes through it.
    fs::create_dir(w.join("c")).expect("made");
    symlink("/etc", w.join("c/sub")).expect("linked");
    let (totals, failures) = f.try_push(&[w.join("c/"), w.join("a/")], "y/").expect("goes on");
    assert_eq!((totals.files_done, failures.len()), (1, 1), "{failures:?}");
    assert!(f.root.join("y/sub").is_symlink());
}

#[test]
fn a_second_offer_of_a_name_is_refused_whatever_the_sender_does() {
    for single in [false, true] {
        let f = Fixture::new();
        let config =
            Trust::Pinned(f.address.ticket.as_ref().expect("a ticket").fingerprint).client().expect("set up");
        let (outbox, inbox) = dial(&f.address, &config).expect("let in");
        let path = if single { b"in".to_vec() } else { b"in/".to_vec() };
        let sink = SinkSpec::Files { path, single };
        outbox.send(&RequestKind::Receive { id: [7; 16], sink }.under(terms()).into());
        let Ok(Message::Accepted(agreement)) = inbox.receive() else { panic!("not accepted") };
        let token = agreement.read().expect("whole").token;
        outbox.send(&Message::Setpoint(tidegate_control::PerStage::all(2)));
        let next = || loop {
            match inbox.receive_within(std::time::Duration::from_secs(20)).expect("goes on").expect("in time")
            {
                Message::Taken(_) => {}
                message => break message,
            }
        };
        // The second one has another name where one file gets the destination's.
        let second: &[u8] = if single { b"other" } else { b"f" };
        let link = Kind::Symlink { target: b"/etc/passwd".to_vec() };
        let entries = vec![file(b"f", 4), file(second, 4), entry(second, link)];
        outbox.send(&Message::Offer { first: 0, entries });
        let Message::Verdicts { verdicts, .. } = next() else { panic!("no verdicts") };
        let [Verdict::Want { .. }, Verdict::Failed(why), Verdict::Failed(_)] = &verdicts[..] else {
            panic!("{verdicts:?}");
        };
        assert!(why.message.contains("offered twice"), "{why}");
        // Frames of the refused one change nothing, although they come with hashes that fit.
        let stream = StreamOpening { plane: DataPlane::Tls, token: &token, index: 0 };
        let mut stream = handshake::open_stream(&f.address, &config, &stream).expect("opened");
        outbox.send(&Message::Hashes(vec![hash_of(0, b"good"), hash_of(1, b"evil")]));
        stream.write_all(&[whole(1, b"evil"), whole(0, b"good")].concat()).expect("written");
        assert_eq!(next(), Message::Done(vec![(0, Outcome::Committed)]));
        // Nor is it taken once the first has ended.
        outbox.send(&Message::Offer { first: 3, entries: vec![file(second, 5)] });
        let Message::Verdicts { verdicts, .. } = next() else { panic!("no verdicts") };
        assert!(matches!(&verdicts[..], [Verdict::Failed(_)]), "{verdicts:?}");
        outbox.send(&Message::Listed);
        outbox.send(&Message::Finish);
        assert_eq!(next(), Message::Finished(NotKept::default()));
        let there = if single { f.root.join("in") } else { f.root.join("in/f") };
        assert_eq!(fs::read(there).expect("there"), b"good");
    }
}

#[test]
fn a_sender_that_finishes_with_files_open_has_not_succeeded() {
    let f = Fixture::new();
    let config =
        Trust::Pinned(f.address.ticket.as_ref().expect("a ticket").fingerprint).client().expect("set up");
    for listed in [true, false] {
        let (outbox, inbox) = dial(&f.address, &config).expect("let in");
        let sink = SinkSpec::Files { path: b"in/".to_vec(), single: false };
        let id = [u8::from(listed); 16];
        outbox.send(&RequestKind::Receive { id, sink }.under(terms()).into());
        let Ok(Message::Accepted(_)) = inbox.receive() else { panic!("not accepted") };
        if listed {
            outbox.send(&Message::Offer { first: 0, entries: vec![file(b"one", 4), file(b"two", 4)] });
            outbox.send(&Message::Listed);
        }
        outbox.send(&Message::Finish);
        let error = loop {
            match inbox.receive() {
                Ok(Message::Refused(error)) => break error,
                Ok(Message::Finished(_)) => panic!("it says that all is there"),
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
    }
}

#[test]
fn a_server_that_finishes_early_or_takes_nothing_is_no_success() {
    // Pulled from: offers two files, sends one.
    let server = Server::new(|visit| {
        visit.accept_send(false);
        let entries = vec![entry(b"tree", Kind::Directory), file(b"tree/one", 4), file(b"tree/two", 4)];
        visit.outbox.send(&Message::Offer { first: 0, entries });
        visit.outbox.send(&Message::Listed);
        let mut stream = visit.stream();
        visit.offered();
        visit.outbox.send(&Message::Hashes(vec![hash_of(1, b"good")]));
        stream.write_all(&whole(1, b"good")).expect("written");
        while !matches!(visit.next(), Ok(Message::Done(_)) | Err(_)) {}
        visit.finish();
    });
    let f = Fixture::new();
    let back = f.dir("back");
    let to = To::Local(back.as_os_str().as_bytes().to_vec());
    let error = is_error(f.run(&From::Endpoint(server.address.clone(), vec![b"tree".to_vec()]), &to));
    assert!(error.kind == ErrorKind::Protocol && error.message.contains("are open"), "{error}");
    // Pushed to: says that all is durable before anything was sent.
    let server = Server::new(|visit| {
        visit.outbox.send(&agreed([5; 32]));
        visit.outbox.send(&Message::Finished(NotKept::default()));
        while visit.next().is_ok() {}
    });
    let source = f.source(&[("file", 1000)]);
    let to = To::Endpoint(server.address.clone().with_path("in/"));
    let error = is_error(f.run(&f.local(&[source]), &to));
    assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
}

#[test]
fn a_server_that_offers_nothing_of_what_was_asked_for_is_no_success() {
    let f = Fixture::new();
    for (offered, missing) in [(None, "one"), (Some(&b"one"[..]), "two"), (Some(b"two"), "one")] {
        let server = Server::new(move |visit| {
            visit.accept_send(false);
            if let Some(name) = offered {
                visit.outbox.send(&Message::Offer { first: 0, entries: vec![entry(name, Kind::Directory)] });
            }
            visit.outbox.send(&Message::Listed);
            visit.finish();
        });
        let to = To::Local(f.dir("back").as_os_str().as_bytes().to_vec());
        let from = From::Endpoint(server.address.clone(), vec![b"a/one".to_vec(), b"two".to_vec()]);
        let error = is_error(f.run(&from, &to));
        let told = error.message.contains(&format!("without a word of {missing},"));
        assert!(error.kind == ErrorKind::Protocol && told, "{error}");
    }
}

#[test]
fn a_pulled_server_does_not_choose_the_names() {
    let f = Fixture::new();
    let link = || Kind::Symlink { target: b"/etc/passwd".to_vec() };
    let offers = [
        (true, file(b".bashrc", 4)),
        (false, file(b".bashrc", 4)),
        (false, file(b"report.pdf.exe", 4)),
        (false, entry(b".ssh", Kind::Directory)),
        (false, entry(b"report.pdf", link())),
        (true, entry(b"report.pdf", link())),
    ];
    for (number, (single, offer)) in offers.into_iter().enumerate() {
        let directory = f.dir(&format!("back{number}"));
        for to in [directory.join(""), directory.join("new-name")] {
            // One for each: a client that leaves at once may have streams that come only when the next is there.
            let offered = offer.clone();
            let server = Server::new(move |visit| {
                visit.accept_send(single);
                visit.outbox.send(&Message::Offer { first: 0, entries: vec![offered.clone()] });
                visit.outbox.send(&Message::Listed);
                let mut stream = visit.stream();
                visit.offered();
                visit.outbox.send(&Message::Hashes(vec![hash_of(0, b"evil")]));
                let _ = stream.write_all(&whole(0, b"evil"));
                while !matches!(visit.next(), Ok(Message::Done(_)) | Err(_)) {}
                visit.finish();
            });
            let to = To::Local(to.as_os_str().as_bytes().to_vec());
            let from = From::Endpoint(server.address.clone(), vec![b"report.pdf".to_vec()]);
            let renamed = single && matches!(offer.kind, Kind::File { .. }) && !to_ends(&to);
            match (f.run(&from, &to), renamed) {
                // The one file that was asked for has the name of the user's command, whatever it was offered as.
                (Ok(_), true) => assert!(directory.join("new-name").is_file()),
                (Ok(_), false) => panic!("took {offer:?}"),
                (Err(error), _) => assert_eq!(error.kind, ErrorKind::UnsafeName, "{error}"),
            }
        }
        let made: Vec<_> =
            fs::read_dir(&directory).expect("listed").map(|entry| entry.expect("one").file_name()).collect();
        assert!(made.iter().all(|name| name == ".tidegate" || name == "new-name"), "{offer:?} made {made:?}");
    }
}

#[test]
fn a_pulled_server_does_not_offer_what_a_rule_excludes() {
    let f = Fixture::new();
    let rules = vec![Rule { pattern: b"secret/".to_vec(), ..blank(rule::Action::Exclude) }];
    let setup = Setup { selection: Selection { rules, ..Selection::default() }, ..f.setup() };
    // The file by itself is matched by no rule: the directory on the way to it is.
    for offered in [entry(b"tree/secret", Kind::Directory), file(b"tree/secret/file", 4)] {
        let server = Server::new(move |visit| {
            visit.accept_send(false);
            visit.outbox.send(&Message::Offer { first: 0, entries: vec![offered.clone()] });
            while visit.next().is_ok() {}
        });
        let to = To::Local(f.dir("back").as_os_str().as_bytes().to_vec());
        let from = From::Endpoint(server.address.clone(), vec![b"tree".to_vec()]);
        let begun = begin(&from, &to, &setup);
        let error = is_error(begun.and_then(|transfer| drive(transfer, f.setpoint)));
        let told = error.message.contains("which a filter rule excludes");
        assert!(error.kind == ErrorKind::UnsafeName && told, "{error}");
        assert!(!f.dir("back").join("tree").exists());
    }
}

fn to_ends(to: &To) -> bool {
    matches!(to, To::Local(path) if path.ends_with(b"/"))
}

#[test]
fn a_ticket_for_one_path_opens_nothing_else() {
    use tidegate_transfer::terms::Links;
    use tidegate_transfer::wire::ticket::Claims;
    let mut f = Fixture::new();
    f.terms.links = Links::Follow;
    write(&f.root.join("p/secret"), 100, 1);
    write(&f.root.join("p/open/inner"), 100, 2);
    let claims = Claims { path: b"p/x".to_vec(), ..Claims::FULL };
    let narrow = f.endpoint.address(&claims).expect("an address");
    // As a push of one link would leave it.
    symlink("secret", f.root.join("p/x")).expect("linked");
    let back = f.dir("back");
    let to = To::Local(back.join("got").as_os_str().as_bytes().to_vec());
    let from = |address: &tidegate_transfer::wire::ticket::Address, path: &str| {
        From::Endpoint(address.clone(), vec![path.into()])
    };
    for links in [Links::Follow, Links::Keep] {
        f.terms.links = links;
        match begin(&from(&narrow, "p/x"), &to, &f.setup()).and_then(|run| drive(run, f.setpoint)) {
            Ok((totals, failures)) => {
                assert_eq!((totals.files_done, failures.len()), (0, 1), "{failures:?}");
                assert_eq!(failures[0].error.kind, ErrorKind::UnsafeName, "{failures:?}");
            }
            Err(error) => assert_eq!(error.kind, ErrorKind::UnsafeName, "{error}"),
        }
        assert!(!back.join("got").exists());
    }
    // Within what a ticket covers a link that is named is followed.
    let wide = f.endpoint.address(&Claims { path: b"p".to_vec(), ..Claims::FULL }).expect("an address");
    let (totals, failures) = f.run(&from(&wide, "p/x"), &to).expect("pulled");
    assert_eq!((totals.files_done, failures.len()), (1, 0), "{failures:?}");
    assert_eq!(fs::read(back.join("got")).expect("there"), content(100, 1));
    symlink("open", f.root.join("p/dir")).expect("linked");
    symlink("/etc", f.root.join("p/out")).expect("linked");
    let to = To::Local(back.join("").as_os_str().as_bytes().to_vec());
    assert_eq!(f.run(&from(&wide, "p/dir/"), &to).expect("pulled").0.files_done, 1);
    assert_eq!(fs::read(back.join("inner")).expect("there"), content(100, 2));
    let error = is_error(f.run(&from(&wide, "p/out/"), &to));
    assert_eq!(error.kind, ErrorKind::UnsafeName, "{error}");
    assert!(leftovers(&back).is_empty());
}
