//! Transfers that are interrupted and continued, with the journal and the source as they may be found.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, SystemTime};

use crate::common::peer::Server;
use crate::common::{Fixture, assert_same_tree, content, dial, drive, is_error, leftovers, limit, write};
use tidegate_control::ByteCount;
use tidegate_transfer::counters::Totals;
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::spec::SinkSpec;
use tidegate_transfer::terms::{Compare, Purpose, Verify};
use tidegate_transfer::throttle::Limits;
use tidegate_transfer::transfer::route::{From, Setup, To, Transfer, begin};
use tidegate_transfer::wire::message::Message;
use tidegate_transfer::wire::request::RequestKind;
use tidegate_transfer::wire::request::Run;
use tidegate_transfer::wire::ticket::Claims;
use tidegate_transfer::wire::tls::Trust;

const LARGE: u64 = 48_000_000;

/// What may come twice: staging at both ends with what their workers hold, the segments that two
/// readers have begun, and sockets; what was verified is recorded when an end stops by itself.
const IN_FLIGHT: u64 = 2 * (1 << 20) + 8 * (128 << 10) + 3 * (4 << 20) + (6 << 20);

struct World {
    f: Fixture,
    from: From,
    to: To,
    source: PathBuf,
    target: PathBuf,
}

/// A large file and some small ones, to be pushed or pulled slowly.
fn world(pull: bool) -> World {
    world_of(pull, LARGE)
}

/// The same with a large file of this size.
fn world_of(pull: bool, large: u64) -> World {
    let mut f = Fixture::new();
    f.terms.staging = ByteCount::mib(1);
    f.terms.limits = limit(150);
    let source = if pull { f.root.join("tree") } else { f.dir("tree") };
    write(&source.join("large"), large, 1);
    for i in 0..30 {
        write(&source.join(format!("small/{i}")), 5000, i);
    }
    let (from, to, target) = if pull {
        let back = f.dir("back");
        (f.remote(&["tree"]), To::Local(back.as_os_str().as_bytes().to_vec()), back)
    } else {
        (f.local(std::slice::from_ref(&source)), f.to_endpoint("in/"), f.root.join("in"))
    };
    World { f, from, to, source, target }
}

impl World {
    /// Runs until about `bytes` have moved, then ends the transfer as `end` does.
    fn until(
        &self,
        bytes: u64,
        end: impl FnOnce(Transfer, &tidegate_transfer::transfer::Interrupt),
    ) -> Totals {
        let setup = self.f.setup();
        let mut transfer = begin(&self.from, &self.to, &setup).expect("begun");
        while transfer.ledger().totals().bytes_moved < bytes {
            assert!(transfer.step(self.f.setpoint).expect("goes on").is_some(), "it ended too early");
        }
        let ledger = std::sync::Arc::clone(transfer.ledger());
        end(transfer, &setup.interrupt);
        ledger.totals()
    }

    fn interrupted(&self, bytes: u64) -> Totals {
        self.until(bytes, |mut transfer, interrupt| {
            interrupt.raise();
            assert_eq!(is_error(transfer.step(self.f.setpoint)).kind, ErrorKind::Interrupted);
        })
    }

    /// Runs to the end at full speed.
    fn finish(&mut self) -> Totals {
        self.f.terms.limits = Limits::default();
        let (totals, failures) = self.f.run(&self.from, &self.to).expect("continued");
        assert_eq!(failures, []);
        assert_same_tree(&self.source, &self.target.join("tree"));
        assert!(leftovers(&self.target).is_empty());
        totals
    }

    /// The same, with nothing kept of the large file.
    fn finish_anew(&mut self) {
        let totals = self.finish();
        assert!(totals.bytes_moved >= LARGE, "{totals:?}");
    }

    /// The journal of the one unfinished transfer.
    fn journal(&self) -> PathBuf {
        let work = self.target.join(".tidegate");
        let transfers: Vec<_> =
            fs::read_dir(&work).expect("left").map(|e| e.expect("listed").path()).collect();
        assert_eq!(transfers.len(), 1);
        transfers[0].join("journal")
    }
}

#[test]
fn an_interrupted_copy_sends_again_only_what_was_in_flight() {
    for pull in [false, true] {
        for (moved, politely) in [(6_000_000, true), (14_000_000, false)] {
            let mut w = world(pull);
            let first = match politely {
                true => w.interrupted(moved),
                // The session just goes, as when the process does.
                false => w.until(moved, |transfer, _| drop(transfer)),
            };
            assert!(!w.target.join("tree/large").exists());
            let second = w.finish();
            let total = LARGE + 30 * 5000;
            let again = (first.bytes_moved + second.bytes_moved).saturating_sub(total);
            println!(
                "pull {pull}, politely {politely}: {} then {}, {again} twice",
                first.bytes_moved, second.bytes_moved
            );
            assert!(again <= IN_FLIGHT, "{again} bytes came twice");
            assert!(second.bytes_skipped > 0);
        }
    }
}

#[test]
fn a_damaged_journal_costs_time_and_never_content() {
    for pull in [false, true] {
        let damages: [fn(&Path); 6] = [
            |journal| {
                let file = fs::OpenOptions::new().write(true).open(journal).expect("opened");
                file.set_len(file.metadata().expect("there").len() / 2).expect("cut");
            },
            |journal| {
                let bytes = fs::read(journal).expect("read");
                let file = fs::OpenOptions::new().write(true).open(journal).expect("opened");
                file.write_all_at(&[0xff; 3], bytes.len() as u64 / 3).expect("written");
            },
            |journal| fs::write(journal, b"").expect("written"),
            |journal| fs::write(journal, vec![0; 4000]).expect("written"),
            |journal| fs::write(journal, b"somebody else's file, not a journal at all").expect("written"),
            |journal| fs::remove_file(journal).expect("removed"),
        ];
        for (i, damage) in damages.into_iter().enumerate() {
            println!("damage {i}, pull {pull}");
            let mut w = world_of(pull, 20_000_000);
            w.interrupted(9_000_000);
            damage(&w.journal());
            w.finish();
        }
    }
}

#[test]
fn parts_that_were_lost_or_cut_are_sent_anew() {
    let ruins: [fn(&Path); 3] = [
        |part| fs::remove_file(part).expect("removed"),
        |part| fs::OpenOptions::new().write(true).open(part).expect("opened").set_len(1000).expect("cut"),
        |part| {
            fs::remove_file(part).expect("removed");
            std::os::unix::fs::symlink("/etc/passwd", part).expect("linked");
        },
    ];
    for ruin in ruins {
        let mut w = world(false);
        w.interrupted(12_000_000);
        let work = w.journal().parent().expect("a directory").to_path_buf();
        for entry in fs::read_dir(&work).expect("listed") {
            let path = entry.expect("listed").path();
            if path.file_name().is_some_and(|name| name != "journal")
                && path.metadata().is_ok_and(|part| part.len() > 1 << 20)
            {
                ruin(&path);
            }
        }
        // Interrupted once more: what the first run recorded must not count for the second one's part.
        w.interrupted(5_000_000);
        w.finish();
        let passwd = fs::metadata("/etc/passwd").expect("there");
        assert!(passwd.is_file() && passwd.mode() & 0o777 == 0o644);
    }
}

/// The unfinished file of `large`.
fn large_part(w: &World) -> PathBuf {
    let work = w.journal().parent().expect("a directory").to_path_buf();
    let parts = fs::read_dir(&work).expect("listed").map(|entry| entry.expect("listed").path());
    let mut large = parts.filter(|path| path.metadata().expect("there").len() == LARGE);
    large.next().expect("the part of `large`")
}

#[test]
fn what_is_continued_is_read_again_and_damage_in_it_is_sent_again() {
    let ruins: [(&str, u64, fn(&Path)); 3] = [
        ("nothing", 0, |_| {}),
        ("a byte", 4 << 20, |part| {
            let file = fs::OpenOptions::new().read(true).write(true).open(part).expect("opened");
            let mut byte = [0];
            file.read_exact_at(&mut byte, 1_000_000).expect("read");
            file.write_all_at(&[byte[0] ^ 1], 1_000_000).expect("written");
        }),
        ("all of it", LARGE, |part| {
            let file = fs::OpenOptions::new().write(true).open(part).expect("opened");
            file.set_len(0).and_then(|()| file.set_len(LARGE)).expect("zeros");
        }),
    ];
    for verify in [Verify::Blake3, Verify::Block] {
        for pull in [false, true] {
            for (what, size, ruin) in ruins {
                let mut w = world(pull);
                w.f.terms.verify = verify;
                let first = w.interrupted(20_000_000);
                let part = large_part(&w);
                ruin(&part);
                let second = w.finish();
                let total = LARGE + 30 * 5000;
                let again = (first.bytes_moved + second.bytes_moved).saturating_sub(total);
                println!("{verify:?}, pull {pull}, {what}: {again} twice, {} kept", second.bytes_skipped);
                assert!(again <= IN_FLIGHT + size, "{verify:?}, pull {pull}, {what}: {again} came twice");
                match size {
                    0 => assert!(second.bytes_skipped > 4 << 20, "{what}: {second:?}"),
                    LARGE => assert!(second.bytes_moved >= LARGE, "{what}: {second:?}"),
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn what_was_verified_in_another_way_is_sent_again() {
    for (before, after) in [(Verify::Block, Verify::Blake3), (Verify::Blake3, Verify::Block)] {
        let mut w = world(false);
        w.f.terms.verify = before;
        w.interrupted(14_000_000);
        w.f.terms.verify = after;
        println!("{before:?} then {after:?}");
        w.finish_anew();
    }
}

#[test]
fn a_source_that_changed_between_runs_is_sent_whole() {
    for pull in [false, true] {
        let mut w = world(pull);
        w.interrupted(12_000_000);
        // The same size: only the version tells.
        fs::write(w.source.join("large"), content(LARGE, 99)).expect("written");
        w.finish_anew();
    }
}

#[test]
fn a_directory_that_changed_between_runs_is_as_it_is_by_now() {
    for pull in [false, true] {
        let mut w = world(pull);
        w.interrupted(12_000_000);
        let small = w.source.join("small");
        fs::set_permissions(&small, fs::Permissions::from_mode(0o700)).expect("set");
        fs::File::open(&small).and_then(|small| small.set_modified(SystemTime::UNIX_EPOCH)).expect("set");
        w.finish();
        let there = fs::metadata(w.target.join("tree/small")).expect("there");
        assert_eq!((there.mode() & 0o777, there.mtime()), (0o700, 0));
    }
}

#[test]
fn checksums_find_what_was_altered_in_silence() {
    for pull in [false, true] {
        let mut w = world(pull);
        for i in 0..4 {
            write(&w.source.join(format!("more/{i}")), 700_000, i);
        }
        w.finish();
        // Altered behind our back, with the size and the time as they were.
        for name in ["large", "small/7", "more/0", "more/2", "more/3"] {
            let path = w.target.join("tree").join(name);
            let file = fs::OpenOptions::new().write(true).open(&path).expect("opened");
            let time = file.metadata().and_then(|m| m.modified()).expect("a time");
            file.write_all_at(b"altered", 100).expect("written");
            file.set_modified(time).expect("set");
        }
        let quick = w.f.run(&w.from, &w.to).expect("ran").0;
        assert_eq!((quick.files_done, quick.files_skipped), (0, 35), "a quick run trusts its records");
        w.f.terms.compare = Compare::Checksum;
        w.f.terms.purpose = Purpose::Compare;
        let (seen, failures) = w.f.run(&w.from, &w.to).expect("compared");
        assert_eq!((seen.files_failed, failures.len(), seen.files_skipped), (5, 5, 30), "{failures:?}");
        assert!(failures.iter().all(|failure| failure.error.kind == ErrorKind::Corrupt), "{failures:?}");
        w.f.terms.purpose = Purpose::Copy;
        let totals = w.finish();
        assert_eq!((totals.files_done, totals.files_skipped), (5, 30));
        // And files that are missing are told by a comparison, which makes nothing.
        fs::remove_file(w.target.join("tree/small/9")).expect("removed");
        w.f.terms.purpose = Purpose::Compare;
        let (_, failures) = w.f.run(&w.from, &w.to).expect("compared");
        assert_eq!((failures.len(), failures[0].error.kind), (1, ErrorKind::NotFound), "{failures:?}");
        assert!(!w.target.join("tree/small/9").exists());
    }
}

#[test]
fn a_replacement_that_is_interrupted_continues_with_its_own_bytes() {
    let mut w = world(false);
    // A part and a journal of a first run, then the same file by other means, altered.
    w.interrupted(12_000_000);
    let place = w.target.join("tree/large");
    fs::create_dir_all(place.parent().expect("a parent")).expect("made");
    let mut altered = content(LARGE, 1);
    altered[5_000_000] ^= 1;
    fs::write(&place, &altered).expect("written");
    w.f.terms.compare = Compare::Checksum;
    w.until(4_000_000, |transfer, _| drop(transfer));
    assert_eq!(fs::read(&place).expect("there"), altered, "old content stays");
    w.f.terms.compare = Compare::Recorded;
    w.finish();
}

#[test]
fn a_run_that_lost_its_session_takes_over_from_itself() {
    let mut w = world(false);
    let mut setup = w.f.setup();
    setup.terms.limits = limit(80);
    let mut first = begin(&w.from, &w.to, &setup).expect("begun");
    while first.ledger().totals().bytes_moved < 5_000_000 {
        first.step(w.f.setpoint).expect("goes on");
    }
    setup.terms.limits = Limits::default();
    let again = begin(&w.from, &w.to, &setup).expect("takes over");
    w.f.terms.limits = Limits::default();
    let setpoint = w.f.setpoint;
    let loser = std::thread::spawn(move || drive(first, setpoint));
    let (_, failures) = drive(again, setpoint).expect("finished");
    assert_eq!(failures, []);
    let error = is_error(loser.join().expect("no panic"));
    assert!(matches!(error.kind, ErrorKind::Connection | ErrorKind::Interrupted), "{error}");
    assert_same_tree(&w.source, &w.target.join("tree"));
    assert!(leftovers(&w.target).is_empty());
}

#[test]
fn another_run_of_the_same_copy_ends_nothing() {
    let mut w = world(false);
    w.f.terms.limits = limit(50);
    let mut first = begin(&w.from, &w.to, &w.f.setup()).expect("begun");
    let (over, setpoint) = (AtomicBool::new(false), w.f.setpoint);
    std::thread::scope(|scope| {
        let goes_on = scope.spawn(|| {
            loop {
                let going = first.step(setpoint).is_ok_and(|step| step.is_some());
                if !going || over.load(SeqCst) {
                    break;
                }
            }
            first.ledger().totals()
        });
        let error = is_error(begin(&w.from, &w.to, &w.f.setup()));
        over.store(true, SeqCst);
        assert_eq!(error.kind, ErrorKind::Busy);
        assert!(error.message.contains("another run") && !error.message.contains('\n'), "{error}");
        let totals = goes_on.join().expect("no panic");
        assert!(totals.bytes_moved > 0 && totals.files_failed == 0, "{totals:?}");
    });
    w.f.terms.limits = Limits::default();
    // It was not disturbed.
    let (_, failures) = drive(first, setpoint).expect("finished");
    assert_eq!(failures, []);
    assert_same_tree(&w.source, &w.target.join("tree"));
    assert!(leftovers(&w.target).is_empty());
}

#[test]
fn a_third_party_copy_says_which_run_it_is() {
    let (said, heard) = std::sync::mpsc::channel();
    let said = tidegate_transfer::sys::sync::Mutex::new(said);
    let server = Server::new(move |visit| {
        said.lock().send(visit.request.preamble.run).expect("heard");
        visit.outbox.send(&Message::Refused(Error::new(ErrorKind::Denied, "no")));
        visit.outbox.close();
    });
    let f = Fixture::new();
    let setup = Setup { stall: Duration::from_millis(12_345), ..f.setup() };
    let from = From::Endpoint(server.address.clone(), vec![b"file".to_vec()]);
    begin(&from, &f.to_endpoint("in/"), &setup).err().expect("refused");
    let run = heard.recv_timeout(Duration::from_secs(60)).expect("asked");
    assert_eq!(run, Some(Run { id: setup.run, stall_ms: 12_345 }));
}

#[test]
fn a_ticket_for_one_name_reaches_no_unfinished_file_of_others() {
    let f = Fixture::new();
    let source = f.dir("source").join("theirs");
    write(&source, 40 << 20, 1);
    let mut slow = f.setup();
    slow.terms.limits = limit(80);
    let to = f.to_endpoint("shared/theirs");
    fs::create_dir(f.root.join("shared")).expect("made");
    let mut copy = begin(&f.local(std::slice::from_ref(&source)), &to, &slow).expect("begun");
    let work = f.root.join("shared/.tidegate");
    // Until something is written down of it.
    let recorded = || {
        let mut left = fs::read_dir(&work).into_iter().flatten().flatten();
        left.any(|left| fs::metadata(left.path().join("journal")).is_ok_and(|journal| journal.len() > 60))
    };
    while !recorded() {
        copy.step(f.setpoint).expect("it goes on").expect("not done yet");
    }
    drop(copy);
    // Whoever may write one other name there names every transfer that it finds, and says that it is done.
    let names: Vec<String> = fs::read_dir(&work)
        .expect("listed")
        .map(|left| left.expect("listed").file_name().into_string().expect("text"))
        .collect();
    let claims = Claims { path: b"shared/mine".to_vec(), ..Claims::FULL };
    let narrow = f.endpoint.address(&claims).expect("an address");
    let trust =
        Trust::Pinned(narrow.ticket.as_ref().expect("a ticket").fingerprint).client().expect("set up");
    for name in &names {
        let id = data_encoding::HEXLOWER.decode(name.as_bytes()).expect("an id");
        let (outbox, inbox) = dial(&narrow, &trust).expect("let in");
        let sink = SinkSpec::Files { path: b"shared/mine".to_vec(), single: true };
        let id = id.try_into().expect("sixteen bytes");
        outbox.send(&RequestKind::Receive { id, sink }.under(f.terms.clone()).into());
        outbox.send(&Message::Listed);
        outbox.send(&Message::Finish);
        while !matches!(inbox.receive(), Ok(Message::Finished(_)) | Err(_)) {}
    }
    let left: Vec<_> = names.iter().filter(|name| work.join(name).join("journal").exists()).collect();
    assert_eq!(left.len(), names.len(), "what others had begun is gone");
    let (totals, failures) = f.run(&f.local(std::slice::from_ref(&source)), &to).expect("continued");
    assert!(failures.is_empty() && totals.bytes_skipped > 0, "{totals:?}");
    assert!(fs::read(&source).expect("read") == fs::read(f.root.join("shared/theirs")).expect("read"));
}

#[test]
fn two_copies_into_one_directory_do_not_disturb_each_other() {
    for round in 0..4u64 {
        let f = Fixture::new();
        let sources: Vec<_> = (0..3u64)
            .map(|i| {
                let source = f.dir(&format!("source-{i}"));
                // Different lengths, so that one ends while another begins or works.
                write(&source.join(format!("own-{i}")), 300_000 * i * round + 10, i);
                write(&source.join("common/file"), 1000, 5);
                source
            })
            .collect();
        std::thread::scope(|scope| {
            for source in &sources {
                let f = &f;
                scope.spawn(move || {
                    let from = From::Local(vec![[source.as_os_str().as_bytes(), b"/"].concat()]);
                    for _ in 0..3 {
                        let (_, failures) = f.run(&from, &f.to_endpoint("in/")).expect("ran");
                        assert_eq!(failures, []);
                    }
                });
            }
        });
        for (i, source) in sources.iter().enumerate() {
            let own = format!("own-{i}");
            assert_eq!(
                fs::read(source.join(&own)).expect("read"),
                fs::read(f.root.join("in").join(&own)).expect("read")
            );
        }
        assert_eq!(fs::read(f.root.join("in/common/file")).expect("read"), content(1000, 5));
        assert!(leftovers(&f.root).is_empty());
    }
}

#[test]
fn a_very_slow_copy_ends_at_once_when_told() {
    for pull in [false, true] {
        let mut w = world(pull);
        let crawl = Some(tidegate_control::BitRate(8000));
        w.f.terms.limits = Limits { read: crawl, network: crawl, write: crawl, link: crawl };
        let setup = w.f.setup();
        let mut transfer = begin(&w.from, &w.to, &setup).expect("begun");
        transfer.step(w.f.setpoint).expect("goes on");
        let started = std::time::Instant::now();
        setup.interrupt.raise();
        assert_eq!(is_error(transfer.step(w.f.setpoint)).kind, ErrorKind::Interrupted);
        drop(transfer);
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    }
}
