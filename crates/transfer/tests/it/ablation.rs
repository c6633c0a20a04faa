//! What can be switched off for comparison changes how a tree travels, never what arrives.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use crate::common::{Fixture, assert_same_tree, content, leftovers, limit, write};
use testkit::proxy::{Fault, Plan, Proxy};
use tidegate_control::{ByteCount, PerStage};
use tidegate_transfer::counters::Totals;
use tidegate_transfer::terms::{DataPlane, Terms, Verify};
use tidegate_transfer::transfer::Pace;
use tidegate_transfer::transfer::route::{From, To, begin};

/// Every file of `make_tree`.
const FILES: u64 = 300 + 20 + 1 + 1;

/// Small files, empty files and an empty directory, one large file and one that is mostly a hole.
fn make_tree(root: &Path) {
    for i in 0..300 {
        write(&root.join(format!("small/{}/{i}", i % 7)), 1 + (i * 997) % 40_000, i);
    }
    for i in 0..20 {
        write(&root.join(format!("empty/{i}")), 0, 0);
    }
    fs::create_dir_all(root.join("hollow/inside")).expect("made");
    write(&root.join("large"), 20_000_000, 1000);
    let sparse = fs::File::create(root.join("sparse")).expect("made");
    sparse.set_len(12_000_001).expect("stretched");
    std::os::unix::fs::FileExt::write_all_at(&sparse, &content(100_000, 1001), 5_000_000).expect("written");
}

/// A fixture whose terms let the large files be cut in pieces, then changed by `change`.
fn fixture(change: impl FnOnce(&mut Terms)) -> Fixture {
    let mut f = Fixture::new();
    f.setpoint = PerStage::all(4);
    f.terms.chunk = Some(ByteCount::mib(4));
    change(&mut f.terms);
    make_tree(&f.dir("source"));
    f
}

/// Moves the tree there and back by `run` and compares all three.
fn there_and_back(f: &Fixture, run: impl Fn(&From, &To) -> Totals) {
    let (source, back) = (f.dir("source"), f.dir("back"));
    let pushed = run(&f.local(std::slice::from_ref(&source)), &f.to_endpoint("in/"));
    assert_eq!((pushed.files_done, pushed.files_failed, pushed.bytes_again), (FILES, 0, 0), "pushed");
    assert_same_tree(&source, &f.root.join("in/source"));
    assert!(leftovers(&f.root).is_empty());
    let to = To::Local(std::os::unix::ffi::OsStrExt::as_bytes(back.as_os_str()).to_vec());
    let pulled = run(&f.remote(&["in/source"]), &to);
    assert_eq!((pulled.files_done, pulled.files_failed, pulled.bytes_again), (FILES, 0, 0), "pulled");
    assert_same_tree(&source, &back.join("source"));
    assert!(leftovers(&back).is_empty());
}

fn the_same_arrives(change: impl FnOnce(&mut Terms)) {
    let f = fixture(change);
    there_and_back(&f, |from, to| {
        let (totals, failures) = f.run(from, to).expect("moved");
        assert!(failures.is_empty(), "{failures:?}");
        totals
    });
}

#[test]
fn without_chunking() {
    the_same_arrives(|terms| terms.chunk = None);
}

#[test]
fn without_pipelining() {
    the_same_arrives(|terms| terms.pipelining = false);
}

#[test]
fn without_chunking_and_pipelining() {
    the_same_arrives(|terms| (terms.chunk, terms.pipelining) = (None, false));
}

#[test]
fn verified_by_block() {
    the_same_arrives(|terms| terms.verify = Verify::Block);
}

#[test]
fn in_the_clear() {
    the_same_arrives(|terms| terms.data_plane = DataPlane::Clear);
}

#[test]
fn in_the_clear_verified_by_block() {
    the_same_arrives(|terms| (terms.data_plane, terms.verify) = (DataPlane::Clear, Verify::Block));
}

#[test]
fn in_the_clear_without_chunking_and_pipelining() {
    the_same_arrives(|terms| {
        (terms.data_plane, terms.chunk, terms.pipelining) = (DataPlane::Clear, None, false);
    });
}

/// Workers come and go every 50 ms while each file or piece has a connection of its own.
fn a_restless_set_point(change: impl FnOnce(&mut Terms)) {
    let f = fixture(|terms| {
        terms.pipelining = false;
        terms.limits = limit(240);
        change(terms);
    });
    there_and_back(&f, |from, to| {
        let mut setup = f.setup();
        setup.pace = Pace::new(Duration::from_millis(50));
        let mut transfer = begin(from, to, &setup).expect("begun");
        let (began, mut epochs) = (Instant::now(), 0);
        while transfer.step(PerStage::all(if epochs % 2 == 0 { 8 } else { 1 })).expect("goes on").is_some() {
            epochs += 1;
            let totals = transfer.ledger().totals();
            assert!(began.elapsed() < Duration::from_secs(300), "it hangs: {totals:?}");
        }
        // An epoch that has shown too little is prolonged.
        assert!(epochs >= 5, "it was over after {epochs} epochs, too soon to tell anything");
        transfer.ledger().totals()
    });
}

#[test]
fn a_restless_set_point_without_pipelining() {
    a_restless_set_point(|_| {});
}

#[test]
fn a_restless_set_point_without_chunking_and_pipelining() {
    a_restless_set_point(|terms| terms.chunk = None);
}

#[test]
fn a_restless_set_point_without_pipelining_in_the_clear() {
    a_restless_set_point(|terms| (terms.data_plane, terms.verify) = (DataPlane::Clear, Verify::Block));
}

/// A large file on a stream that comes to stand still, and many small ones: those must go past it on the other stream,
/// however little staging there is.
fn a_file_on_a_slow_stream_holds_up_no_other(change: impl FnOnce(&mut Terms)) {
    const SMALL: u64 = 1000;
    let mut f = Fixture::new();
    (f.terms.staging, f.terms.data_plane) = (ByteCount(1), DataPlane::Clear);
    // No other stream takes its place.
    f.stall = Duration::from_secs(600);
    change(&mut f.terms);
    // More than sockets hold on the way, so that its worker has to wait; the small ones are less than it takes.
    let source = f.dir("source");
    write(&source.join("a"), 64_000_000, 1);
    (0..SMALL).for_each(|i| write(&source.join(format!("b{i}")), 1000, 2 + i));
    let still = |_| Plan { up: vec![Fault::Pause(2_000_000, Duration::from_secs(600))], ..Plan::default() };
    let proxy = Proxy::start(f.address.port, still);
    f.address.port = proxy.port;
    let mut transfer = begin(&f.local(&[source]), &f.to_endpoint("in/"), &f.setup()).expect("begun");
    let began = Instant::now();
    while transfer.ledger().totals().files_done < SMALL {
        assert!(transfer.step(f.setpoint).expect("goes on").is_some(), "the large one cannot have arrived");
        assert!(began.elapsed() < Duration::from_secs(120), "they wait for a stream that is not theirs");
    }
    assert!(proxy.happened.load(SeqCst) >= 1, "a stream stands still");
}

#[test]
fn a_slow_stream_holds_up_no_other_file() {
    a_file_on_a_slow_stream_holds_up_no_other(|terms| (terms.chunk, terms.pipelining) = (None, false));
    a_file_on_a_slow_stream_holds_up_no_other(|terms| terms.chunk = None);
}

/// How many streams carried more than an eighth of a file that took a second.
fn streams_of_one_file(chunk: Option<ByteCount>) -> usize {
    let mut f = Fixture::new();
    (f.terms.chunk, f.setpoint) = (chunk, PerStage::all(4));
    f.terms.limits = limit(64);
    let source = f.source(&[("one", 8_000_000)]);
    let notable = |_| Plan { up: vec![Fault::Pause(1_000_000, Duration::ZERO)], ..Plan::default() };
    let proxy = Proxy::start(f.address.port, notable);
    f.address.port = proxy.port;
    assert_eq!(f.push(&[source], "in/").files_done, 1);
    proxy.happened.load(SeqCst)
}

#[test]
fn without_chunking_a_file_has_one_stream() {
    assert_eq!(streams_of_one_file(None), 1);
    assert!(streams_of_one_file(Some(ByteCount::mib(64))) > 1);
}

/// Connections for so many files, each of which has its own, and how often the endpoint answered on them.
fn conversations(plane: DataPlane) -> (usize, usize) {
    const FILES: u64 = 20;
    let mut f = Fixture::new();
    (f.terms.chunk, f.terms.pipelining, f.terms.data_plane) = (None, false, plane);
    let source = f.dir("source");
    (0..FILES).for_each(|i| write(&source.join(i.to_string()), 50_000, i));
    let proxy = Proxy::start(f.address.port, |_| Plan::default());
    f.address.port = proxy.port;
    assert_eq!(f.push(&[source], "in/").files_done, FILES);
    (proxy.count() - 1, proxy.answers.load(SeqCst))
}

/// What a connection of its own costs a file in round trips, besides slow start: TCP's hand-shake, TLS's (an answer
/// here; its tickets may make another, which nobody waits for), and the confirmation on the session.
#[test]
fn a_connection_of_its_own_costs_a_file_few_round_trips() {
    let (connections, answers) = conversations(DataPlane::Tls);
    assert!(connections == 20 && answers <= 2 * connections, "{answers} answers on {connections}");
    assert_eq!(conversations(DataPlane::Clear), (20, 0));
}
