//! Transfers under a lease: files get their names by leave alone, and two leases never share an unfinished file.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::common::{Fixture, assert_same_tree, drive, eventually, is_error};
use tidegate_control::{BitRate, PerStage};
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::fence::Fence;
use tidegate_transfer::transfer::route::{From, Setup, Sharing, To, begin};

const LONG: Duration = Duration::from_secs(600);

fn routes(f: &Fixture) -> [(From, To); 2] {
    let source = f.source(&[("large", 3_000_000), ("d/small", 10), ("e", 0)]);
    let here = f.dir("here");
    let pull = From::Endpoint(f.address.clone(), vec![b"in/source".to_vec()]);
    [(f.local(&[source]), f.to_endpoint("in/")), (pull, To::Local(here.as_os_str().as_bytes().to_vec()))]
}

fn fenced(f: &Fixture, fence: Fence) -> Setup {
    Setup { sharing: Sharing { fence: Some(fence), split: None }, ..f.setup() }
}

#[test]
fn files_get_their_names_once_leave_is_given_on_either_route() {
    let f = Fixture::new();
    let routes = routes(&f);
    for (lease, (from, to)) in (1..).zip(&routes) {
        // What is not given leaves nothing behind under a name.
        let no = Fence::new(lease, || Err(Error::new(ErrorKind::Busy, "the lease is another's")));
        let error =
            is_error(begin(from, to, &fenced(&f, no)).and_then(|transfer| drive(transfer, f.setpoint)));
        assert!(error.message.contains("the lease is another's"), "{error}");
        // Nor what came too late.
        let late = Fence::new(lease, || Ok(Duration::ZERO));
        let error =
            is_error(begin(from, to, &fenced(&f, late)).and_then(|transfer| drive(transfer, f.setpoint)));
        assert!(error.message.contains("too late"), "{error}");
        let there = if lease == 1 { f.root.join("in/source") } else { f.dir("here").join("source") };
        for name in ["large", "d/small", "e"] {
            assert!(!there.join(name).exists(), "{name} on route {lease}");
        }
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        let yes = Fence::new(lease, move || {
            count.fetch_add(1, Relaxed);
            Ok(LONG)
        });
        let transfer = begin(from, to, &fenced(&f, yes)).expect("begun");
        assert_eq!(drive(transfer, f.setpoint).expect("moved").0.files_failed, 0);
        assert_same_tree(&f.dir("source"), &there);
        assert_eq!(asked.load(Relaxed), 1, "leave lasts");
    }
}

/// Hashes that come after the content, of more files than may wait for their names: who hears of them hears the answer, too.
#[test]
fn leave_is_heard_of_while_more_files_become_whole_than_may_wait_for_their_names() {
    let mut f = Fixture::new();
    f.terms.limits.read = Some(BitRate::from_mbps(40.0));
    f.setpoint = PerStage::all(8);
    let names: Vec<String> = (0..2000).map(|file| format!("d{}/{file}", file % 7)).collect();
    let files: Vec<(&str, u64)> = names.iter().map(|name| (&name[..], 15_000)).collect();
    let from = f.local(&[f.source(&files)]);
    let slow = Fence::new(1, || {
        std::thread::sleep(Duration::from_millis(200));
        Ok(Duration::from_secs(2))
    });
    let transfer = begin(&from, &f.to_endpoint("in/"), &fenced(&f, slow)).expect("begun");
    let moved = drive(transfer, f.setpoint).expect("moved").0;
    assert_eq!((moved.files_failed, moved.files_done), (0, 2000));
    assert_same_tree(&f.dir("source"), &f.root.join("in/source"));
}

#[test]
fn a_mover_that_was_stopped_beyond_its_lease_changes_nothing() {
    let f = Fixture::new();
    let (from, to) = &routes(&f)[0];
    let (stopped, is_stopped) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel::<()>();
    let goes_on = tidegate_transfer::sys::sync::Mutex::new(goes_on);
    let first = Fence::new(1, move || {
        let _ = stopped.send(());
        let _ = goes_on.lock().recv();
        Err(Error::new(ErrorKind::Busy, "the lease is another's"))
    });
    let slow = begin(from, to, &fenced(&f, first)).expect("begun");
    let setpoint = f.setpoint;
    let slow = std::thread::spawn(move || drive(slow, setpoint).map(drop));
    is_stopped.recv().expect("it asks");
    // Another takes over meanwhile, from a source that has changed, and both have unfinished files of their own.
    fs::write(f.dir("source").join("e"), "newer").expect("written");
    let second = begin(from, to, &fenced(&f, Fence::new(2, || Ok(LONG)))).expect("begun");
    assert_eq!(drive(second, f.setpoint).expect("moved").0.files_failed, 0);
    assert_same_tree(&f.dir("source"), &f.root.join("in/source"));
    go_on.send(()).expect("it waits");
    let error = slow.join().expect("no panic").expect_err("it has lost its lease");
    assert!(error.message.contains("another's"), "{error}");
    assert_same_tree(&f.dir("source"), &f.root.join("in/source"));
    eventually("what it left can be told from what is used", || {
        let work = f.root.join("in/.tidegate");
        fs::read_dir(work).is_ok_and(|left| left.count() == 1)
    });
}

#[test]
fn nobody_asks_for_leave_who_has_no_side_of_his_own() {
    let (f, g) = (Fixture::new(), Fixture::new());
    let setup = fenced(&f, Fence::new(1, || Ok(LONG)));
    let error = is_error(begin(&f.remote(&["x"]), &g.to_endpoint("y"), &setup));
    assert_eq!(error.kind, ErrorKind::Usage, "{error}");
}
