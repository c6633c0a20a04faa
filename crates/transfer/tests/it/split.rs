//! Files that several transfers of one run move, each a range, into one unfinished file.

use crate::common;
use std::fs;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use crate::common::{
    Fixture, assert_same_tree, content, dial, drive, eventually, is_error, leftovers, limit,
};
use tidegate_control::ByteCount;
use tidegate_transfer::counters::Totals;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::fence::Fence;
use tidegate_transfer::manifest::{Entry, Kind, SEGMENT, Timestamp};
use tidegate_transfer::offer::Verdict;
use tidegate_transfer::path::RelPath;
use tidegate_transfer::spec::{RunId, SinkSpec};
use tidegate_transfer::split::{Split, SplitTask};
use tidegate_transfer::store::abandoned::{self, Removal};
use tidegate_transfer::sys::confined::Root;
use tidegate_transfer::terms::{Compare, Verify};
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::transfer::route::{From, Setup, Sharing, To, Transfer, begin};
use tidegate_transfer::wire::message::Message;
use tidegate_transfer::wire::request::RequestKind;
use tidegate_transfer::wire::request::{Preamble, Request};
use tidegate_transfer::wire::tls::Trust;

const LONG: Duration = Duration::from_secs(600);
const RUN: RunId = [7; 16];

/// Of no whole number of segments, nor of blocks.
const SIZE: u64 = 6 * SEGMENT + 333_333;
const FIRST: Range<u64> = 0..2 * SEGMENT;
const REST: Range<u64> = 2 * SEGMENT..SIZE;

struct World {
    f: Fixture,
    from: From,
    to: To,
    source: PathBuf,
    target: PathBuf,
}

impl World {
    /// A large file with a hole, and a small one, on one of the two routes.
    fn new(pull: bool) -> Self {
        let mut f = Fixture::new();
        f.terms.staging = ByteCount::mib(1);
        let source = if pull { f.root.join("tree") } else { f.dir("tree") };
        common::write(&source.join("d/small"), 5000, 3);
        let large = fs::File::create(source.join("large")).expect("made");
        large.write_all_at(&content(3 * SEGMENT, 1), 0).expect("written");
        large.write_all_at(&content(SIZE - 4 * SEGMENT, 2), 4 * SEGMENT).expect("written");
        let (from, to, target) = if pull {
            let back = f.dir("back");
            (f.remote(&["tree"]), To::Local(back.as_os_str().as_bytes().to_vec()), back)
        } else {
            (f.local(std::slice::from_ref(&source)), f.to_endpoint("in/"), f.root.join("in"))
        };
        Self { f, from, to, source, target: target.join("tree") }
    }

    /// What a mover with that lease is to do of the large file, and of the small one besides.
    fn setup(&self, fence: Fence, task: SplitTask) -> Setup {
        let mut setup = Setup { sharing: Sharing { fence: Some(fence), split: None }, ..self.f.setup() };
        let names: &[&[u8]] =
            if task == SplitTask::Completion { &[b"large"] } else { &[b"large", b"d/small"] };
        setup.selection.listed = true;
        setup.selection.names = names.iter().map(|name| name.to_vec()).collect();
        setup.sharing.split = Some(Split { run: RUN, files: vec![(b"tree/large".to_vec(), task)] });
        setup
    }

    fn begin(&self, lease: u64, task: SplitTask) -> Result<Transfer> {
        begin(&self.from, &self.to, &self.setup(Fence::new(lease, || Ok(LONG)), task))
    }

    fn moved(&self, lease: u64, task: SplitTask) -> Totals {
        let (totals, failures) =
            drive(self.begin(lease, task).expect("begun"), self.f.setpoint).expect("moved");
        assert_eq!(failures, []);
        totals
    }

    fn ranges(&self, lease: u64, range: Range<u64>) -> Totals {
        self.moved(lease, SplitTask::Ranges(vec![range]))
    }

    /// Where transfers share what is unfinished: the directory with a log.
    fn shared(&self) -> PathBuf {
        let base = self.target.parent().expect("one");
        let of = |path: &Path| fs::read_dir(path).expect("listed").map(|entry| entry.expect("listed").path());
        let with_logs = |path: &PathBuf| {
            of(path).any(|path| path.file_name().is_some_and(|n| n.as_bytes().starts_with(b"journal-")))
        };
        of(&base.join(".tidegate")).find(with_logs).expect("there")
    }

    fn complete(&self) {
        assert_same_tree(&self.source, &self.target);
        assert_eq!(leftovers(self.target.parent().expect("one")), Vec::<PathBuf>::new());
    }
}

fn on_both_routes(test: impl Fn(World)) {
    test(World::new(false));
    test(World::new(true));
}

#[test]
fn each_moves_its_range_at_the_same_time_and_one_gives_the_file_its_name() {
    on_both_routes(|world| {
        let (first, rest) =
            (world.begin(1, SplitTask::Ranges(vec![FIRST])), world.begin(2, SplitTask::Ranges(vec![REST])));
        let setpoint = world.f.setpoint;
        let other = std::thread::spawn({
            let rest = rest.expect("begun");
            move || drive(rest, setpoint).expect("moved").0
        });
        let totals =
            [drive(first.expect("begun"), setpoint).expect("moved").0, other.join().expect("no panic")];
        // Both had the small one to move, and one of them was first.
        let bytes = totals.map(|totals| totals.bytes_done);
        assert!(bytes.iter().sum::<u64>() - SIZE <= 2 * 5000 && bytes[0] >= FIRST.end, "{bytes:?}");
        assert!(!world.target.join("large").exists(), "it is not complete");
        let completed = world.moved(3, SplitTask::Completion);
        assert_eq!((completed.files_done, completed.bytes_done, completed.bytes_moved), (1, 0, 0));
        world.complete();
        // Who completes it once more, because the report of it was lost, finds it done.
        assert_eq!(world.moved(4, SplitTask::Completion).bytes_moved, 0);
        world.complete();
    });
}

#[test]
fn what_nobody_moved_is_moved_by_whoever_completes_it() {
    on_both_routes(|mut world| {
        for verify in [Verify::Blake3, Verify::Block] {
            world.f.terms.verify = verify;
            // What was verified before in another way is compared.
            world.f.terms.compare = Compare::Checksum;
            let _ = fs::remove_file(world.target.join("large"));
            world.moved(1, SplitTask::Ranges(vec![0..SEGMENT, 3 * SEGMENT..5 * SEGMENT]));
            let completed = world.moved(2, SplitTask::Completion);
            assert_eq!(completed.bytes_done, SIZE - 3 * SEGMENT, "{verify:?}");
            world.complete();
        }
        // Nothing at all, as after somebody has cleaned up.
        fs::remove_file(world.target.join("large")).expect("removed");
        assert_eq!(world.moved(3, SplitTask::Completion).bytes_done, SIZE);
        world.complete();
    });
}

/// How long the logs are of what is durable, in bytes; each part takes some forty.
fn recorded(directory: &Path) -> u64 {
    let inner = fs::read_dir(directory).into_iter().flatten().flatten();
    let files = inner.flat_map(|run| fs::read_dir(run.path()).into_iter().flatten().flatten());
    let logs = files.filter(|file| file.file_name().as_bytes().starts_with(b"journal-"));
    logs.filter_map(|log| log.metadata().ok()).map(|about| about.len()).sum()
}

#[test]
fn what_one_that_was_stopped_had_made_durable_is_not_sent_again() {
    on_both_routes(|mut world| {
        world.f.terms.limits = limit(50);
        let interrupt = Interrupt::default();
        let mut setup = world.setup(Fence::new(1, || Ok(LONG)), SplitTask::Ranges(vec![0..SIZE]));
        setup.interrupt = interrupt.clone();
        let transfer = begin(&world.from, &world.to, &setup).expect("begun");
        // Until two parts of it are durable: what has moved says less on a busy machine.
        let base = world.target.parent().expect("one").join(".tidegate");
        let stopping = std::thread::spawn(move || {
            eventually("two are durable", || recorded(&base) > 100);
            interrupt.raise();
        });
        let stopped = drive(transfer, world.f.setpoint).expect_err("stopped");
        assert_eq!(stopped.kind, ErrorKind::Interrupted, "{stopped}");
        stopping.join().expect("no panic");
        world.f.terms.limits = Default::default();
        // The hole counts as any other bytes.
        let again = world.ranges(2, 0..SIZE);
        assert!(again.bytes_done <= SIZE - SEGMENT, "{again:?}");
        // A byte that is lost meanwhile is noticed, and its segment comes again.
        let shared = world.shared();
        let is_part = |path: &PathBuf| path.file_name().is_some_and(|name| name.len() == 32);
        let mut left = fs::read_dir(&shared).expect("listed").map(|entry| entry.expect("listed").path());
        let part = left.find(is_part).expect("there");
        let file = fs::OpenOptions::new().write(true).open(part).expect("opened");
        file.write_all_at(b"lost", SEGMENT + 5).expect("written");
        assert_eq!(world.ranges(3, 0..2 * SEGMENT).bytes_done, SEGMENT);
        assert_eq!(world.moved(4, SplitTask::Completion).bytes_moved, 0);
        assert_same_tree(&world.source, &world.target);
    });
}

#[test]
fn who_has_lost_its_lease_writes_no_more() {
    on_both_routes(|mut world| {
        world.f.terms.limits = limit(40);
        let lost = Arc::new(AtomicBool::new(false));
        let is_lost = Arc::clone(&lost);
        let fence = Fence::new(1, move || match is_lost.load(SeqCst) {
            true => Err(Error::new(ErrorKind::Busy, "the lease is another's")),
            false => Ok(Duration::from_millis(100)),
        });
        let setup = world.setup(fence, SplitTask::Ranges(vec![0..SIZE]));
        let mut transfer = begin(&world.from, &world.to, &setup).expect("begun");
        let error = loop {
            match transfer.step(world.f.setpoint) {
                Ok(Some(_)) => lost.store(transfer.ledger().totals().bytes_moved > SEGMENT, SeqCst),
                Ok(None) => panic!("it moved all of it"),
                Err(error) => break error,
            }
        };
        assert!(error.message.contains("another's"), "{error}");
        drop(transfer);
        // Who has none at all makes nothing.
        let none = Fence::new(9, || Err(Error::new(ErrorKind::Busy, "the lease is another's")));
        let setup = world.setup(none, SplitTask::Ranges(vec![REST]));
        is_error(
            begin(&world.from, &world.to, &setup).and_then(|transfer| drive(transfer, world.f.setpoint)),
        );
        assert!(!world.target.join("large").exists());
        world.f.terms.limits = Default::default();
        world.ranges(2, 0..SIZE);
        world.moved(3, SplitTask::Completion);
        assert!(
            fs::read(world.target.join("large")).expect("read")
                == fs::read(world.source.join("large")).expect("read")
        );
    });
}

#[test]
fn ranges_of_two_versions_of_a_file_are_never_joined() {
    on_both_routes(|world| {
        world.ranges(1, FIRST);
        let newer = fs::OpenOptions::new().write(true).open(world.source.join("large")).expect("opened");
        newer.write_all_at(&content(SIZE, 5), 0).expect("written");
        world.ranges(2, REST);
        let completed = world.moved(3, SplitTask::Completion);
        assert_eq!(completed.bytes_done, FIRST.end);
        assert_same_tree(&world.source, &world.target);
    });
}

#[test]
fn an_unfinished_file_that_was_removed_is_not_taken_for_what_its_logs_say() {
    on_both_routes(|world| {
        world.ranges(1, FIRST);
        let shared = world.shared();
        for left in fs::read_dir(&shared).expect("listed").map(|entry| entry.expect("listed")) {
            if left.file_name().len() == 32 {
                fs::remove_file(left.path()).expect("removed");
            }
        }
        world.ranges(2, REST);
        assert_eq!(world.moved(3, SplitTask::Completion).bytes_done, FIRST.end);
        assert_same_tree(&world.source, &world.target);
    });
}

#[test]
fn what_a_transfer_shares_is_not_removed_while_it_goes_on() {
    let mut world = World::new(false);
    world.f.terms.limits = limit(40);
    let mut transfer = world.begin(1, SplitTask::Ranges(vec![0..SIZE])).expect("begun");
    while transfer.ledger().totals().bytes_moved < SEGMENT {
        transfer.step(world.f.setpoint).expect("it goes on");
    }
    let shared = world.shared();
    let base = Root::open(shared.ancestors().nth(2).expect("one").as_os_str().as_bytes()).expect("opened");
    let remove = || {
        let mut removed = None;
        abandoned::in_directory(&base, b"", &mut |found| {
            if shared.as_os_str().as_bytes().ends_with(&found.path) {
                removed = Some(found.remove().expect("tried"));
            }
        })
        .expect("listed");
        removed
    };
    assert_eq!(remove(), Some(Removal::Running));
    drop(transfer);
    eventually("its log is free", || remove() == Some(Removal::Removed));
    assert!(!shared.exists());
}

#[test]
fn a_peer_that_splits_nonsense_is_refused_and_the_largest_file_takes_no_time() {
    let f = Fixture::new();
    let config =
        Trust::Pinned(f.address.ticket.as_ref().expect("a ticket").fingerprint).client().expect("set up");
    let ask = |preamble: Preamble| {
        let (outbox, inbox) = dial(&f.address, &config).expect("let in");
        let sink = SinkSpec::Files { path: b"in/".to_vec(), single: false };
        let preamble = Preamble { terms: f.terms.clone(), ..preamble };
        let kind = RequestKind::Receive { id: [7; 16], sink };
        outbox.send(&Request { kind, preamble }.into());
        (outbox, inbox)
    };
    let split = |ranges: &[Range<u64>]| Preamble {
        fenced: true,
        split: Some(Split { run: RUN, files: vec![(b"huge".to_vec(), SplitTask::Ranges(ranges.to_vec()))] }),
        ..Preamble::default()
    };
    for nonsense in [
        Preamble { fenced: false, ..split(&[FIRST]) },
        split(&[5..SEGMENT]),
        split(&[REST, FIRST]),
        Preamble { moving: true, ..split(&[FIRST]) },
    ] {
        let (_outbox, inbox) = ask(nonsense.clone());
        match inbox.receive() {
            Ok(Message::Refused(error)) => {
                assert_eq!(error.kind, ErrorKind::Protocol, "{nonsense:?}: {error}");
            }
            other => panic!("{nonsense:?}: {other:?}"),
        }
    }
    let (outbox, inbox) = ask(split(&[0..i64::MAX as u64]));
    assert!(matches!(inbox.receive(), Ok(Message::Accepted(_))));
    let kind = Kind::File { size: i64::MAX as u64, fingerprint: [1; 16] };
    let path = RelPath::new(*b"huge").expect("a name");
    let entry = Entry::new(path, kind, 0o644, Timestamp::default());
    outbox.send(&Message::Offer { first: 0, entries: vec![entry] });
    let verdicts = loop {
        match inbox.receive_within(Duration::from_secs(20)).expect("heard").expect("in time") {
            Message::AskPermit(number) => outbox.send(&Message::Permitted(number, Ok(60_000))),
            Message::Verdicts { verdicts, .. } => break verdicts,
            _ => {}
        }
    };
    // Few file systems hold one so long.
    let fine = |verdict: &Verdict| matches!(verdict, Verdict::WantRanges(_) | Verdict::Failed(_));
    assert!(verdicts.len() == 1 && verdicts.iter().all(fine), "{verdicts:?}");
}

#[test]
fn nothing_is_split_without_a_lease_nor_within_a_segment() {
    let world = World::new(false);
    let mut setup = world.setup(Fence::new(1, || Ok(LONG)), SplitTask::Ranges(vec![FIRST]));
    setup.sharing.fence = None;
    assert_eq!(is_error(begin(&world.from, &world.to, &setup)).kind, ErrorKind::Usage);
    let within = SplitTask::Ranges(vec![5..SEGMENT]);
    let error = is_error(world.begin(1, within));
    assert!(error.message.contains("begin within a segment"), "{error}");
    let moving = Setup { moving: true, ..world.setup(Fence::new(1, || Ok(LONG)), SplitTask::Completion) };
    assert_eq!(is_error(begin(&world.from, &world.to, &moving)).kind, ErrorKind::Usage);
}
