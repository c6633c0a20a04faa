//! Whole transfers between a local side and an endpoint in the same process.

use crate::common::{Fixture, assert_same_tree, drive, eventually, is_error, write};
use std::fs;
use std::io;
use std::net::TcpStream;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tidegate_control::BitRate;
use tidegate_transfer::error::ErrorKind;
use tidegate_transfer::terms::{DataPlane, Verify};
use tidegate_transfer::throttle::Limits;
use tidegate_transfer::transfer::route::{To, begin};
use tidegate_transfer::wire::way::Carrier;

#[test]
fn a_tree_is_pushed_and_pulled_and_skipped_the_second_time() {
    let f = Fixture::new();
    let source = f.source(&[("tree/a.bin", 10_000_000), ("tree/deep/er/b.bin", 1), ("tree/deep/empty", 0)]);
    for i in 0..500 {
        write(&source.join(format!("tree/small/{i}")), (i * 37) as u64, i as u64);
    }
    fs::create_dir_all(source.join("tree/hollow/inside")).expect("made");
    std::os::unix::fs::symlink("../a.bin", source.join("tree/deep/link")).expect("linked");

    let pushed = f.push(&[source.join("tree")], "in/");
    assert_eq!((pushed.files_done, pushed.files_failed), (503, 0));
    assert_same_tree(&source.join("tree"), &f.root.join("in/tree"));
    let again = f.push(&[source.join("tree")], "in/");
    assert_eq!((again.files_done, again.files_skipped, again.bytes_moved), (0, 503, 0));

    let back = f.dir("back");
    let pulled = f.pull(&["in/tree/"], &back.join("here"));
    assert_eq!((pulled.files_done, pulled.files_failed), (503, 0));
    assert_same_tree(&source.join("tree"), &back.join("here"));
    let again = f.pull(&["in/tree/"], &back.join("here"));
    assert_eq!((again.files_done, again.files_skipped), (0, 503));
}

#[test]
fn nothing_is_sent_twice_on_a_sound_network() {
    for data_plane in [DataPlane::Tls, DataPlane::Clear] {
        let mut f = Fixture::new();
        f.terms.data_plane = data_plane;
        let source = f.dir("source");
        // Around the sizes where a file is bundled, sent in place, or cut into blocks.
        for (i, size) in
            [1, 60_000, 65_536, 70_000, 100_000, 131_072, 131_073, 200_000, 262_144].iter().enumerate()
        {
            for copy in 0..6 {
                write(&source.join(format!("{copy}/{i}")), *size, (10 * i + copy) as u64);
            }
        }
        let totals = f.push(&[source.join("")], "in/");
        assert_eq!((totals.files_done, totals.bytes_again), (54, 0), "{data_plane:?}");
        assert_same_tree(&source, &f.root.join("in"));
    }
}

#[test]
fn the_round_trip_is_known_before_anything_moves() {
    let f = Fixture::new();
    let source = f.source(&[("file", 1)]);
    write(&f.root.join("file"), 1, 1);
    let back = To::Local(f.dir("back").into_os_string().into_encoded_bytes());
    for (from, to) in [(f.local(&[source]), f.to_endpoint("in/")), (f.remote(&["file"]), back)] {
        let transfer = begin(&from, &to, &f.setup()).expect("begun");
        let round_trip = transfer.host().round_trip.expect("the kernel knows");
        assert!(!round_trip.is_zero() && round_trip < Duration::from_secs(1), "{round_trip:?}");
    }
}

#[test]
fn no_privilege_travels_with_a_file() {
    use std::os::unix::fs::PermissionsExt;
    let f = Fixture::new();
    let source = f.source(&[("program", 1000)]);
    fs::set_permissions(source.join("program"), fs::Permissions::from_mode(0o6755)).expect("set");
    f.push(&[source.join("")], "in/");
    let mode = f.root.join("in/program").metadata().expect("there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

#[test]
fn the_last_block_never_waits_for_a_writer_that_does_not_come_back() {
    let mut f = Fixture::new();
    f.terms.verify = Verify::Block;
    f.terms.data_plane = DataPlane::Clear;
    let source = f.source(&[("file", 300_000)]);
    for run in 0..100 {
        assert_eq!(f.push(&[source.join("file")], &format!("in/{run}")).files_done, 1);
    }
}

/// Dials a port of this host, and counts.
#[derive(Debug)]
struct Counting(u16, Arc<AtomicU32>);

impl Carrier for Counting {
    fn connection(&self, _: Duration) -> io::Result<TcpStream> {
        self.1.fetch_add(1, SeqCst);
        TcpStream::connect(("127.0.0.1", self.0))
    }
}

#[test]
fn what_goes_to_an_endpoint_of_this_process_is_handed_over_and_only_the_session_is_dialled() {
    for verify in [Verify::Blake3, Verify::Block] {
        let mut f = Fixture::new();
        (f.joined, f.terms.data_plane, f.terms.verify) = (true, DataPlane::Clear, verify);
        let source = f.dir("source");
        for (seed, size) in
            (1..).zip([0, 1, 60_000, 70_000, 131_072, 131_073, 4_194_304, 4_194_305, 20_000_000])
        {
            write(&source.join(format!("{size}")), size, seed);
        }
        for seed in 0..500 {
            write(&source.join(format!("small/{seed}")), seed * 37, seed);
        }
        let sparse = fs::File::create(source.join("sparse")).expect("made");
        sparse.set_len(9_000_000).and_then(|()| sparse.write_all_at(b"data", 5_000_000)).expect("written");
        let (from, to) = (f.local(&[source.join("")]), f.to_endpoint("in/"));
        let dialled = Arc::new(AtomicU32::new(0));
        let mut setup = f.setup();
        setup.carriers.carry(&f.address, Arc::new(Counting(f.address.port, Arc::clone(&dialled))), None);
        let (totals, failures) =
            drive(begin(&from, &to, &setup).expect("begun"), f.setpoint).expect("copied");
        assert_eq!((totals.files_done, failures.len(), totals.bytes_again), (510, 0, 0), "{failures:?}");
        assert_eq!(dialled.load(SeqCst), 1, "{verify:?}");
        assert_same_tree(&source, &f.root.join("in"));
        let blocks = |path: &std::path::Path| path.metadata().expect("there").blocks();
        assert!(blocks(&f.root.join("in/sparse")) <= blocks(&source.join("sparse")).max(256));
        // It is remembered with the hash that `b3sum` prints: another time is no reason to move a file again.
        let touched = fs::File::options().append(true).open(source.join("20000000")).expect("opened");
        touched.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_007)).expect("set");
        drop(touched);
        let again = f.push(&[source.join("")], "in/");
        let moved = if verify == Verify::Blake3 { 0 } else { 20_000_000 };
        assert_eq!((again.bytes_moved, again.files_failed), (moved, 0), "{verify:?}");
        assert_same_tree(&source, &f.root.join("in"));
    }
}

#[test]
fn who_waits_for_room_at_a_receiver_of_this_process_ends_when_told_to() {
    let mut f = Fixture::new();
    (f.joined, f.terms.data_plane) = (true, DataPlane::Clear);
    // A block takes two minutes to be written.
    f.terms.limits = Limits { write: Some(BitRate(8_000)), ..Limits::default() };
    let source = f.source(&[("file", 60_000_000)]);
    let (from, to) = (f.local(&[source.join("")]), f.to_endpoint("in/"));
    let setup = f.setup();
    let mut transfer = begin(&from, &to, &setup).expect("begun");
    while transfer.ledger().totals().bytes_moved < 16_000_000 {
        assert!(transfer.step(f.setpoint).expect("goes on").is_some(), "it cannot be done");
    }
    let began = Instant::now();
    setup.interrupt.raise();
    assert_eq!(is_error(transfer.step(f.setpoint)).kind, ErrorKind::Interrupted);
    drop(transfer);
    assert!(began.elapsed() < Duration::from_secs(60), "it waited for a block to be written");
    // Nobody holds what an earlier run left: the next one goes on with it.
    f.terms.limits = Limits::default();
    eventually("the endpoint has let go", || f.try_push(&[source.join("")], "in/").is_ok());
    assert_same_tree(&source, &f.root.join("in"));
}
