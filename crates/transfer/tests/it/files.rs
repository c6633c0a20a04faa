//! Files that are asked about without a transfer: what a ticket allows, what stays beneath its path, and what is written
//! whole or not at all.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crate::common::peer::agreed;
use crate::common::peer::{Server, TOKEN};
use crate::common::{Fixture, content, dial, leftovers, write};
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::transfer::file_client::{FileClient, WantedRange};
use tidegate_transfer::wire::files::{
    Content, FileKind, FileRange, FileReply, FileRequest, FileStatus, MAX_CONTENT,
};
use tidegate_transfer::wire::message::Message;
use tidegate_transfer::wire::request::{Request, RequestKind};
use tidegate_transfer::wire::ticket::{Address, Claims};
use tidegate_transfer::wire::tls::Trust;
use tidegate_transfer::wire::way::Carriers;

fn client(address: &Address) -> FileClient {
    FileClient::connect(address, &Carriers::default(), None, 4, Duration::ZERO, &Interrupt::default())
        .expect("let in")
}

fn with(f: &Fixture, claims: &Claims) -> FileClient {
    client(&f.endpoint.address(claims).expect("an address"))
}

fn names(client: &FileClient, path: &str, recursive: bool) -> Vec<String> {
    let listing = client.list(path.as_bytes(), recursive, &Interrupt::default()).expect("listed");
    listing.entries.iter().map(|entry| entry.path.to_string()).collect()
}

fn range(path: &str, start: u64, end: u64) -> WantedRange {
    WantedRange { path: path.as_bytes().to_vec(), version: None, range: start..end }
}

fn read(client: &FileClient, wanted: &[WantedRange]) -> Vec<Result<Vec<u8>>> {
    let read = client.read(wanted, &Interrupt::default()).expect("answered");
    read.into_iter().map(|pieces| pieces.map(|pieces| pieces.concat())).collect()
}

fn change(client: &FileClient, request: FileRequest) -> Result<()> {
    client.change(vec![request], &Interrupt::default()).expect("answered").remove(0)
}

fn put(path: &str) -> FileRequest {
    FileRequest::Write { path: path.into(), content: Content(b"new".to_vec()) }
}

fn remove(path: &str) -> FileRequest {
    FileRequest::Remove { path: path.into() }
}

fn rename(from: &str, to: &str) -> FileRequest {
    FileRequest::Rename { from: from.into(), to: to.into() }
}

#[test]
fn of_those_who_create_one_name_at_once_one_has_made_it() {
    let f = Fixture::new();
    write(&f.root.join("there"), 3, 1);
    let before = fs::read(f.root.join("there")).expect("there");
    let create = |path: &str, content: &[u8]| FileRequest::Create {
        path: path.into(),
        content: Content(content.into()),
    };
    let directory = |path: &str| FileRequest::MakeDirectory { path: path.into(), parents: false };
    let asking = client(&f.address);
    fs::create_dir(f.root.join("directory")).expect("made");
    for taken in ["there", "directory"] {
        for request in [create(taken, b"new"), directory(taken)] {
            let error = change(&asking, request).expect_err("taken");
            assert!(error.kind == ErrorKind::Changed && error.message.contains("is there"), "{error}");
        }
    }
    assert_eq!(fs::read(f.root.join("there")).expect("there"), before);
    for round in 0..20 {
        let path = format!("in/new{round}");
        let made: Vec<(u8, bool)> = thread::scope(|scope| {
            let threads = [1_u8, 2, 3].map(|who| {
                let (path, f) = (&path, &f);
                scope.spawn(move || (who, change(&client(&f.address), create(path, &[who; 100])).is_ok()))
            });
            threads.map(|thread| thread.join().expect("no panic")).into()
        });
        let made: Vec<u8> = made.into_iter().filter_map(|(who, made)| made.then_some(who)).collect();
        assert_eq!(made.len(), 1, "{made:?}");
        assert_eq!(fs::read(f.root.join(&path)).expect("there"), [made[0]; 100]);
    }
    assert!(leftovers(&f.root).is_empty());
}

#[test]
fn directories_are_listed_and_links_told_of_by_what_they_lead_to() {
    let f = Fixture::new();
    // More than one answer holds.
    for i in 0..1100 {
        write(&f.root.join(format!("many/{i:04}")), 3, i);
    }
    write(&f.root.join("a/b/c"), 10, 1);
    fs::create_dir(f.root.join("a/.tidegate")).expect("made");
    symlink("b", f.root.join("a/in")).expect("linked");
    symlink("/etc", f.root.join("a/out")).expect("linked");
    let client = client(&f.address);
    let many = names(&client, "many", false);
    assert!(many.len() == 1100 && many.is_sorted());
    assert_eq!(names(&client, "a", true), ["b", "b/c", "in", "out"]);
    assert_eq!(names(&client, "a/in/", false), ["c"]);
    assert_eq!(names(&client, "", false), ["a", "many"]);
    let listing = client.list(b"a", false, &Interrupt::default()).expect("listed");
    let told: Vec<_> = listing.entries.iter().map(|e| (e.status.kind, e.status.link.as_deref())).collect();
    let wanted = [
        (FileKind::Directory, None),
        (FileKind::Directory, Some(&b"b"[..])),
        (FileKind::Link, Some(&b"/etc"[..])),
    ];
    assert_eq!(told, wanted);
    for (path, kind, size) in [("a/b/c", FileKind::File, 10), ("a/in/c", FileKind::File, 10)] {
        let status = client.stat(path.as_bytes(), &Interrupt::default()).expect("there");
        assert_eq!((status.kind, status.size), (kind, size));
    }
    assert_eq!(client.stat(b"a/out", &Interrupt::default()).expect("a link").kind, FileKind::Link);
    for path in ["nothing", "a/b/c/d"] {
        let error = client.stat(path.as_bytes(), &Interrupt::default()).expect_err("not there");
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    }
    // A file is told of itself, and holds nothing.
    let listing = client.list(b"a/b/c", false, &Interrupt::default()).expect("listed");
    assert_eq!((listing.itself.kind, listing.entries.len()), (FileKind::File, 0));
}

#[test]
fn ranges_are_read_by_several_sessions_and_of_one_version() {
    let f = Fixture::new();
    let data = content(5 << 20, 1);
    fs::write(f.root.join("large"), &data).expect("written");
    write(&f.root.join("small"), 100, 2);
    let client = client(&f.address);
    let mut wanted: Vec<_> = (0..400_u64).map(|i| range("large", i * 13_000, i * 13_000 + 999)).collect();
    wanted.push(range("large", 0, (5 << 20) + 7_000_000));
    wanted.extend([
        range("small", 90, 1000),
        range("none", 0, 1),
        range("small", 5, 5),
        range("small", 1000, 1001),
    ]);
    let got = read(&client, &wanted);
    for (one, got) in wanted.iter().zip(&got).take(401) {
        let end = (one.range.end as usize).min(data.len());
        assert!(got.as_deref() == Ok(&data[one.range.start as usize..end]), "{one:?}");
    }
    let lengths: Vec<_> = got[401..].iter().map(|got| got.as_ref().map(Vec::len)).collect();
    assert!(matches!(lengths[..], [Ok(10), Err(_), Ok(0), Ok(0)]), "{lengths:?}");
    assert_eq!(got[402].as_ref().expect_err("not there").kind, ErrorKind::NotFound);

    let version = client.stat(b"small", &Interrupt::default()).expect("there").version;
    let of_version = WantedRange { version: Some(version), ..range("small", 0, 100) };
    assert!(read(&client, std::slice::from_ref(&of_version))[0].is_ok());
    fs::write(f.root.join("small"), "another").expect("written");
    let error = read(&client, &[of_version]).remove(0).expect_err("another version");
    assert_eq!(error.kind, ErrorKind::Changed, "{error}");
    let hash = client.hash(b"large", &Interrupt::default()).expect("hashed");
    assert_eq!(hash, *blake3::hash(&data).as_bytes());
}

#[test]
fn a_large_read_takes_as_many_sessions_as_help_and_as_it_is_let_have() {
    const LET_IN: usize = 7;
    const AT_ONCE: u16 = 32;
    let content = |path: &[u8]| path.iter().copied().cycle().take(1000).collect::<Vec<_>>();
    let (open, most, lost) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let opened = Arc::new(AtomicUsize::new(0));
    let server = Server::new({
        let opened = Arc::clone(&opened);
        let (open, most) = (Arc::clone(&open), Arc::clone(&most));
        move |visit| {
            opened.fetch_add(1, SeqCst);
            let here = open.fetch_add(1, SeqCst) + 1;
            most.fetch_max(here, SeqCst);
            if here > LET_IN {
                let error = Error::new(ErrorKind::Busy, "no more of them");
                visit.outbox.send(&Message::Refused(error));
            } else {
                visit.outbox.send(&agreed(TOKEN));
            }
            let mut answers = 0;
            while here <= LET_IN
                && let Ok(Message::File(number, FileRequest::Read { path, .. })) = visit.next()
            {
                answers += 1;
                // One of them is lost half way.
                if here == 2 && answers == 20 && !lost.swap(true, SeqCst) {
                    break;
                }
                // What each can do: only more of them do more.
                thread::sleep(Duration::from_millis(15));
                visit.outbox.send(&Message::FileReply(number, FileReply::Data(Content(content(&path)))));
            }
            visit.outbox.close();
            open.fetch_sub(1, SeqCst);
        }
    });
    let client = FileClient::connect(
        &server.address,
        &Carriers::default(),
        None,
        AT_ONCE,
        Duration::ZERO,
        &Interrupt::default(),
    )
    .expect("let in");
    let wanted: Vec<_> = (0..1000).map(|i| range(&format!("file {i}"), 0, 1000)).collect();
    for (one, got) in wanted.iter().zip(read(&client, &wanted)) {
        assert!(got.as_ref() == Ok(&content(&one.path)), "{one:?}: {got:?}");
    }
    // It began with two.
    let most = most.load(SeqCst);
    assert!(most > 4, "{most} sessions");
    // Not as many as there may be at once, of which all but some would have been refused.
    let opened = opened.load(SeqCst);
    assert!(opened < usize::from(AT_ONCE), "{opened} sessions were opened");
}

#[test]
fn changes_are_whole_and_leave_nothing_else() {
    let f = Fixture::new();
    let client = with(&f, &Claims::OWNER);
    write(&f.root.join("old"), 10, 1);
    fs::create_dir(f.root.join("dir")).expect("made");
    symlink("old", f.root.join("link")).expect("linked");
    assert_eq!(change(&client, put("new/deep/file")), Ok(()));
    assert_eq!(change(&client, put("old")), Ok(()), "in its place");
    assert_eq!(fs::read(f.root.join("old")).expect("there"), b"new");
    assert_eq!(change(&client, put("dir")).expect_err("a directory").kind, ErrorKind::Usage);
    assert_eq!(change(&client, rename("new/deep/file", "dir/other")), Ok(()));
    assert_eq!(change(&client, rename("none", "x")).expect_err("not there").kind, ErrorKind::NotFound);
    assert_eq!(change(&client, remove("link")), Ok(()), "and not what it leads to");
    assert!(f.root.join("old").exists());
    let directory = |path: &str| FileRequest::RemoveDirectory { path: path.into() };
    assert!(change(&client, directory("dir")).is_err(), "it is not empty");
    assert_eq!(change(&client, directory("new/deep")), Ok(()));
    let make = |path: &str, parents| FileRequest::MakeDirectory { path: path.into(), parents };
    assert_eq!(change(&client, make("a/b", false)).expect_err("no parent").kind, ErrorKind::NotFound);
    assert_eq!(change(&client, make("a/b", true)), Ok(()));
    assert_eq!(change(&client, make("a/b", true)), Ok(()));
    assert!(change(&client, make("a/b", false)).is_err(), "it is there");
    // Many at once, in their order.
    let many = (0..200).map(|i| put(&format!("a/{i}"))).chain((0..200).map(|i| remove(&format!("a/{i}"))));
    let ended = client.change(many.collect(), &Interrupt::default()).expect("answered");
    assert!(ended.len() == 400 && ended.iter().all(Result::is_ok));
    assert_eq!(fs::read_dir(f.root.join("a")).expect("there").count(), 1);
    assert_eq!(leftovers(&f.root), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_ticket_opens_what_it_says_and_nothing_else() {
    let f = Fixture::new();
    write(&f.root.join("in/file"), 10, 1);
    write(&f.root.join("inside"), 10, 1);
    symlink("../inside", f.root.join("in/out")).expect("linked");
    let denied = |ended: Result<()>, what: &str| {
        let error = ended.expect_err(what);
        assert!(matches!(error.kind, ErrorKind::Denied | ErrorKind::UnsafeName), "{what}: {error}");
        assert!(!error.message.contains('\n'));
    };
    let stat =
        |client: &FileClient, path: &str| client.stat(path.as_bytes(), &Interrupt::default()).map(drop);
    let reader = with(&f, &Claims { write: false, path: b"in".to_vec(), ..Claims::FULL });
    assert_eq!((stat(&reader, "in"), stat(&reader, "in/file")), (Ok(()), Ok(())));
    for path in ["", "inside", "in/../inside", "/etc", "in/.tidegate/x", "in//file"] {
        denied(stat(&reader, path), path);
    }
    denied(read(&reader, &[range("in/out", 0, 1)]).remove(0).map(drop), "a link out");
    denied(change(&reader, put("in/new")), "no right to write");
    let writer = with(&f, &Claims { read: false, ..Claims::FULL });
    denied(stat(&writer, "in/file"), "no right to read");
    denied(writer.hash(b"in/file", &Interrupt::default()).map(drop), "no right to read");
    assert_eq!(change(&writer, put("in/new")), Ok(()));
    denied(change(&writer, remove("in/new")), "no right to delete");
    denied(change(&writer, rename("in/new", "in/newer")), "a name would go");
    let owner = with(&f, &Claims { path: b"in".to_vec(), ..Claims::OWNER });
    denied(change(&owner, rename("in/new", "new")), "out of its path");
    denied(change(&owner, rename("in", "in/deeper")), "what it names itself");
    assert_eq!(change(&owner, rename("in/new", "in/newer")), Ok(()));
    let read_only = Fixture::with(|config| config.read_only = true);
    denied(change(&with(&read_only, &Claims::OWNER), put("new")), "read-only");
    assert!(!f.root.join("new").exists() && f.root.join("in/newer").exists());
}

#[test]
fn a_mark_is_seen_by_way_of_whoever_serves_that_directory_and_of_nobody_else() {
    let (f, elsewhere) = (Fixture::new(), Fixture::new());
    for root in [&f.root, &elsewhere.root] {
        fs::create_dir_all(root.join("in")).expect("made");
    }
    let none = Interrupt::default();
    let (mark, other) = ([7; 16], [8; 16]);
    let writer = with(&f, &Claims { read: false, path: b"in".to_vec(), ..Claims::FULL });
    assert_eq!(writer.mark(b"in/", mark, &none), Ok(()));
    let reader = with(&f, &Claims { write: false, ..Claims::FULL });
    for client in [&writer, &reader] {
        assert_eq!(client.has_mark(b"in", mark, &none), Ok(true));
        assert_eq!(client.has_mark(b"in", other, &none), Ok(false));
    }
    assert_eq!(reader.has_mark(b"", mark, &none), Ok(false), "it is in another directory");
    assert_eq!(client(&elsewhere.address).has_mark(b"in", mark, &none), Ok(false));
    assert_eq!(names(&reader, "", true), ["in"], "no list tells of it");
    for refused in [reader.mark(b"in", other, &none), writer.mark(b"", other, &none)] {
        assert_eq!(refused.expect_err("not allowed").kind, ErrorKind::Denied);
    }
    assert_eq!(reader.mark(b"none", other, &none).expect_err("no right").kind, ErrorKind::Denied);
    assert_eq!(
        client(&f.address).mark(b"none", other, &none).expect_err("not there").kind,
        ErrorKind::NotFound
    );
    // What a transfer has left is nothing to be removed so.
    let left = f.root.join("in/.tidegate/08080808080808080808080808080808/journal");
    write(&left, 3, 1);
    assert!(writer.remove_mark(b"in", other, &none).is_err() && left.exists());
    fs::remove_dir_all(left.parent().expect("a parent")).expect("removed");
    assert_eq!(writer.remove_mark(b"in", mark, &none), Ok(()));
    assert_eq!(writer.has_mark(b"in", mark, &none), Ok(false));
    assert!(!f.root.join("in/.tidegate").exists(), "nothing is left");
}

#[test]
fn an_endpoint_bears_what_no_client_asks() {
    let f = Fixture::new();
    write(&f.root.join("file"), 10, 1);
    let trust = Trust::Pinned(f.address.ticket.as_ref().expect("a ticket").fingerprint);
    let open = || {
        let (outbox, inbox) = dial(&f.address, &trust.client().expect("set up")).expect("let in");
        outbox.send(&Request::from(RequestKind::Files).into());
        assert!(matches!(inbox.receive(), Ok(Message::Accepted(_))));
        (outbox, inbox)
    };
    let too_long = FileRange { offset: 0, length: MAX_CONTENT as u32 + 1 };
    let far = FileRange { offset: u64::MAX, length: 1 };
    let path = b"file".to_vec();
    let (outbox, inbox) = open();
    let reads = [vec![too_long], vec![far], vec![]];
    for (number, ranges) in (0..).zip(reads) {
        let request = FileRequest::Read { path: path.clone(), version: None, ranges };
        outbox.send(&Message::File(number, request));
    }
    outbox.send(&Message::File(9, FileRequest::Stat { path }));
    assert!(matches!(inbox.receive(), Ok(Message::FileReply(0, FileReply::Failed(_)))));
    let empty = Message::FileReply(1, FileReply::Data(Content(Vec::new())));
    assert_eq!(inbox.receive(), Ok(empty));
    assert!(matches!(inbox.receive(), Ok(Message::FileReply(9, FileReply::Status(_)))), "it goes on");
    let (outbox, inbox) = open();
    outbox.send(&Message::Finish);
    assert!(matches!(inbox.receive(), Ok(Message::Refused(error)) if error.kind == ErrorKind::Protocol));
}

#[test]
fn a_client_believes_no_answer_that_it_did_not_ask_for() {
    let answers: [fn(u32) -> FileReply; 4] = [
        |_| FileReply::Done,
        |_| FileReply::Data(Content(vec![0; 11])),
        |_| FileReply::Entries { entries: Vec::new(), problems: Vec::new(), more: false },
        |_| FileReply::Hash([0; 32]),
    ];
    for answer in answers {
        let server = Server::new(move |visit| {
            visit.outbox.send(&agreed(TOKEN));
            while let Ok(Message::File(number, _)) = visit.next() {
                visit.outbox.send(&Message::FileReply(number, answer(number)));
            }
        });
        let client = client(&server.address);
        let ten = [range("file", 0, 10)];
        let error = client.read(&ten, &Interrupt::default()).expect_err("not what was asked");
        assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
        let error = client.stat(b"file", &Interrupt::default()).expect_err("not what was asked");
        assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
    }
}

#[test]
fn what_is_interrupted_or_lost_is_told_and_asked_again() {
    // The first session of each client is closed after one answer; another serves on.
    let server = Server::new(move |visit| {
        visit.outbox.send(&agreed(TOKEN));
        if let Ok(Message::File(number, _)) = visit.next() {
            let status = FileStatus {
                kind: FileKind::File,
                size: 7,
                mode: 0,
                mtime: Default::default(),
                version: [0; 16],
                link: None,
            };
            visit.outbox.send(&Message::FileReply(number, FileReply::Status(status)));
        }
        visit.outbox.close();
    });
    let lasting = client(&server.address);
    for _ in 0..3 {
        assert_eq!(lasting.stat(b"file", &Interrupt::default()).map(|status| status.size), Ok(7));
    }
    let silent = Server::new(|visit| {
        visit.outbox.send(&agreed(TOKEN));
        while visit.next().is_ok() {}
    });
    let client = client(&silent.address);
    let interrupt = Interrupt::default();
    let asked = thread::spawn({
        let interrupt = interrupt.clone();
        move || client.list(b"", true, &interrupt)
    });
    interrupt.raise();
    let error: Error = asked.join().expect("no panic").expect_err("nobody answers");
    assert_eq!(error.kind, ErrorKind::Interrupted);
}
