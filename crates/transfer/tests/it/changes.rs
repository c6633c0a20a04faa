//! Source files that change while they are sent: each fails by itself, the rest arrives, and no name
//! ever bears a mix of two versions.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_transfer::sys::sync::Mutex;

use crate::common::{Fixture, content, leftovers, slow_readers, write};
use tidegate_control::PerStage;
use tidegate_transfer::counters::Totals;
use tidegate_transfer::error::ErrorKind;
use tidegate_transfer::ledger::Failure;
use tidegate_transfer::terms::DataPlane;
use tidegate_transfer::transfer::route::{From, To, begin};

const SIZE: u64 = 9_000_000;

/// Copies `source/tree`, does `change` to it once a megabyte has moved, and looks at every name that
/// appears at the destination meanwhile.
fn copy_while(
    f: &Fixture,
    from: &From,
    to: &To,
    destination: &Path,
    allowed: &[Vec<u8>],
    change: impl FnOnce(),
) -> (Totals, Vec<Failure>) {
    let over = Arc::new(AtomicBool::new(false));
    let wrong = Arc::new(Mutex::new(None));
    let watcher = {
        let (over, wrong) = (Arc::clone(&over), Arc::clone(&wrong));
        let (file, allowed) = (destination.to_path_buf(), allowed.to_vec());
        thread::spawn(move || {
            while !over.load(SeqCst) {
                if let Ok(bytes) = fs::read(&file)
                    && !allowed.contains(&bytes)
                {
                    *wrong.lock() = Some(bytes.len());
                }
                thread::sleep(Duration::from_millis(5));
            }
        })
    };
    let mut transfer = begin(from, to, &f.setup()).expect("begun");
    let mut change = Some(change);
    loop {
        if transfer.ledger().totals().bytes_moved > 1_000_000
            && let Some(change) = change.take()
        {
            change();
        }
        if transfer.step(PerStage::all(1)).expect("goes on").is_none() {
            break;
        }
    }
    assert!(change.is_none(), "the change came too late");
    over.store(true, SeqCst);
    watcher.join().expect("watched");
    assert_eq!(*wrong.lock(), None, "a final name bore a mix");
    (transfer.ledger().totals(), transfer.ledger().failures())
}

/// One version of each change for push and pull, with old content in the way.
fn changed(change: impl Fn(&Path)) {
    // On a clear stream the kernel sends from the file itself, behind the checks.
    for (pull, plane, joined) in [
        (false, DataPlane::Tls, false),
        (true, DataPlane::Tls, false),
        (false, DataPlane::Clear, false),
        (true, DataPlane::Clear, false),
        (false, DataPlane::Clear, true),
    ] {
        let mut f = Fixture::new();
        (f.terms.data_plane, f.joined) = (plane, joined);
        f.terms.limits = slow_readers(60);
        let base = if pull { f.root.join("source") } else { f.dir("source") };
        let victim = base.join("tree/a-victim");
        write(&victim, SIZE, 1);
        for i in 0..20 {
            write(&base.join(format!("tree/other/{i}")), 1000 * i, i);
        }
        let target = if pull { f.dir("target") } else { f.root.join("target") };
        let old = content(5000, 77);
        fs::create_dir_all(target.join("tree")).expect("made");
        fs::write(target.join("tree/a-victim"), &old).expect("written");
        let (from, to) = match pull {
            false => (f.local(&[base.join("tree")]), f.to_endpoint("target/")),
            true => {
                use std::os::unix::ffi::OsStrExt;
                (f.remote(&["source/tree"]), To::Local(target.as_os_str().as_bytes().to_vec()))
            }
        };
        let destination = target.join("tree/a-victim");
        let (totals, failures) =
            copy_while(&f, &from, &to, &destination, std::slice::from_ref(&old), || change(&victim));
        assert_eq!((totals.files_done, totals.files_failed), (20, 1), "{failures:?}");
        let [failure] = failures.as_slice() else { panic!("{failures:?}") };
        assert_eq!(failure.error.kind, ErrorKind::Changed, "{failure:?}");
        assert!(failure.error.message.contains("a-victim"), "{failure:?}");
        assert_eq!(fs::read(&destination).expect("still there"), old, "old content stays");
        assert!(leftovers(&target).is_empty());
        // Once it rests, the same run brings it.
        if victim.exists() {
            f.terms.limits = tidegate_transfer::throttle::Limits::default();
            let (totals, failures) = f.run(&from, &to).expect("copied");
            assert_eq!((totals.files_failed, failures.len()), (0, 0), "{failures:?}");
            assert_eq!(fs::read(&destination).expect("there"), fs::read(&victim).expect("there"));
        }
    }
}

#[test]
fn a_file_that_shrinks_fails_alone() {
    changed(|path| {
        OpenOptions::new().write(true).open(path).expect("opened").set_len(2_000_000).expect("cut");
    });
}

#[test]
fn a_file_that_grows_fails_alone() {
    changed(|path| {
        let mut file = OpenOptions::new().append(true).open(path).expect("opened");
        file.write_all(&content(100_000, 5)).expect("written");
    });
}

#[test]
fn a_file_rewritten_in_place_fails_alone() {
    changed(|path| {
        let mut file = OpenOptions::new().write(true).open(path).expect("opened");
        file.seek(SeekFrom::Start(8_000_000)).expect("sought");
        file.write_all(&content(500_000, 6)).expect("written");
    });
}

#[test]
fn a_file_replaced_by_another_fails_alone() {
    changed(|path| {
        let fresh = path.with_extension("new");
        fs::write(&fresh, content(SIZE, 8)).expect("written");
        fs::rename(&fresh, path).expect("renamed");
    });
}

#[test]
fn a_file_that_vanishes_fails_alone() {
    changed(|path| fs::remove_file(path).expect("removed"));
}

#[test]
fn old_content_stays_until_the_new_is_whole() {
    let mut f = Fixture::new();
    f.terms.limits = slow_readers(60);
    let source = f.dir("source");
    write(&source.join("tree/a-victim"), SIZE, 1);
    let (old, new) = (content(5000, 77), content(SIZE, 1));
    fs::create_dir_all(f.root.join("target/tree")).expect("made");
    let destination = f.root.join("target/tree/a-victim");
    fs::write(&destination, &old).expect("written");
    let from = f.local(&[source.join("tree")]);
    let (totals, _) =
        copy_while(&f, &from, &f.to_endpoint("target/"), &destination, &[old, new.clone()], || {});
    assert_eq!(totals.files_done, 1);
    assert_eq!(fs::read(&destination).expect("there"), new);
}

/// The one connection must not wait for a last block that could not be read.
#[test]
fn without_pipelining_a_last_block_that_is_gone_holds_nothing_up() {
    let mut f = Fixture::new();
    f.terms.pipelining = false;
    // A second a block: the last one is waited for when the first has arrived.
    f.terms.limits = slow_readers(1);
    let tree = f.dir("source").join("tree");
    let victim = tree.join("a-victim");
    write(&victim, 200_000, 1);
    for i in 0..20 {
        write(&tree.join(format!("other/{i}")), 100 * i, i);
    }
    let mut transfer = begin(&f.local(&[tree]), &f.to_endpoint("target/"), &f.setup()).expect("begun");
    let began = Instant::now();
    while transfer.step(PerStage::all(1)).expect("goes on").is_some() {
        if transfer.ledger().totals().bytes_moved > 0 {
            OpenOptions::new().write(true).open(&victim).expect("opened").set_len(199_999).expect("cut");
        }
        assert!(began.elapsed() < Duration::from_secs(300), "it hangs: {:?}", transfer.ledger().totals());
    }
    let (totals, failures) = (transfer.ledger().totals(), transfer.ledger().failures());
    assert_eq!((totals.files_done, totals.files_failed), (20, 1), "{failures:?}");
    assert_eq!(failures[0].error.kind, ErrorKind::Changed, "{failures:?}");
}
