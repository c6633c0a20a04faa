use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tidegate_control::Rng;

use super::*;
use crate::sys::fs::faulty::{self, Call};

/// Catalogues in `state` that put records into tables soon.
fn catalogues(state: &Path, recent: u64) -> Catalogues {
    let root = Root::open(state.as_os_str().as_bytes()).expect("opened");
    Catalogues { recent, ..Catalogues::new(&root).expect("made") }
}

fn opened(catalogues: &Catalogues, base: &[u8]) -> Arc<Mutex<Catalogue>> {
    // A process that another test starts has our lock for a moment.
    let until = Instant::now() + CLOSING;
    loop {
        match catalogues.of(base) {
            Some(catalogue) => return catalogue,
            None if Instant::now() < until => thread::sleep(Duration::from_millis(1)),
            None => panic!("nobody else has it"),
        }
    }
}

fn verified(size: u64) -> Verified {
    Verified { size, mtime: Timestamp::default(), root: [7; 32] }
}

fn put(catalogue: &Mutex<Catalogue>, files: &[(String, u64)]) {
    let files = files.iter().map(|(path, size)| (path.as_bytes(), verified(*size)));
    assert!(catalogue.lock().expect("not poisoned").put(files).expect("put"));
}

/// Whether all of `known`, and nothing else, is known.
fn check(catalogue: &Mutex<Catalogue>, known: &BTreeMap<String, u64>, unknown: &[&str]) {
    let mut catalogue = catalogue.lock().expect("not poisoned");
    let found = catalogue.get_all(known.keys().map(String::as_bytes));
    let expected: Vec<_> = known.values().map(|size| Some(verified(*size))).collect();
    assert_eq!(found, expected);
    assert_eq!(catalogue.get_all(unknown.iter().map(|path| path.as_bytes())), vec![None; unknown.len()]);
}

#[test]
fn a_catalogue_is_waited_for_while_it_is_closed_and_not_for_ever() {
    let state = tempfile::tempdir().expect("a directory");
    let root = || Root::open(state.path().as_os_str().as_bytes()).expect("opened");
    let ours = Catalogues::<Verified>::new(&root()).expect("made");
    let theirs = Catalogues::<Verified>::new(&root()).expect("made");
    drop(ours.of(b"/data").expect("nobody has it"));
    // It is closed when it has been read, too.
    let held = (0..CLOSING.as_millis()).find_map(|_| {
        thread::sleep(Duration::from_millis(1));
        theirs.of(b"/data")
    });
    let held = held.expect("nobody has it");
    let release = thread::spawn(move || {
        thread::sleep(Duration::from_millis(5));
        drop(held);
    });
    assert!(ours.of(b"/data").is_some(), "it is let go soon");
    release.join().expect("no panic");
    let _kept = theirs.of(b"/data").expect("nobody has it");
    assert!(ours.of(b"/data").is_none(), "somebody else keeps it");
    assert!(
        !ours.open.lock().expect("not poisoned").contains_key(&b"/data"[..]),
        "and is not waited for again"
    );
}

/// A path in one of some directories that resemble one another.
fn path(rng: &mut Rng) -> String {
    let depth = rng.integer(1, 3);
    let part = |rng: &mut Rng| {
        format!("{}{}", ["a", "a.b", "run ", "é"][usize::from(rng.integer(0, 3))], rng.integer(0, 5))
    };
    (0..depth).map(|_| part(rng)).collect::<Vec<_>>().join("/")
}

#[test]
fn what_was_remembered_last_is_known_through_merges_and_runs() {
    for seed in 0..9 {
        println!("seed {seed}");
        let (mut rng, state) = (Rng::new(seed), tempfile::tempdir().expect("a directory"));
        let catalogues = catalogues(state.path(), [2, 8, 32][seed as usize % 3]);
        let mut known = BTreeMap::new();
        for _ in 0..4 {
            let catalogue = opened(&catalogues, b"https://server/");
            for _ in 0..rng.integer(0, 12) {
                let files: Vec<_> =
                    (0..rng.integer(1, 9)).map(|_| (path(&mut rng), rng.next_u64())).collect();
                put(&catalogue, &files);
                known.extend(files);
            }
            check(&catalogue, &known, &["", "/", "a", "zz", "a0/b"]);
            drop(catalogue);
            let planned =
                catalogues.for_purpose(Purpose::Plan, b"https://server/").expect("it may be looked at");
            check(&planned, &known, &["", "zz"]);
        }
        let catalogue = opened(&catalogues, b"https://server/");
        assert!(catalogue.lock().expect("not poisoned").logged <= 16, "the rest is in tables");
    }
}

#[test]
fn who_looks_while_tables_are_merged_misses_nothing() {
    let state = tempfile::tempdir().expect("a directory");
    let (ours, theirs) = (catalogues(state.path(), 8), catalogues(state.path(), 8));
    let catalogue = opened(&ours, b"server");
    let mut known = BTreeMap::new();
    for round in 0..60 {
        let files = [(format!("d{}/f{round}", round % 7), round)];
        put(&catalogue, &files);
        known.extend(files);
        check(&theirs.for_purpose(Purpose::Plan, b"server").expect("it may be looked at"), &known, &["d"]);
    }
}

#[test]
fn what_cannot_be_put_into_a_table_is_known_all_the_same() {
    for seed in 0..6 {
        println!("seed {seed}");
        let (mut rng, state) = (Rng::new(seed), tempfile::tempdir().expect("a directory"));
        let (catalogues, disk) = (catalogues(state.path(), 4), faulty::disk());
        let mut known = BTreeMap::new();
        for is_well in [false, true] {
            let catalogue = opened(&catalogues, b"server");
            let mut faults = rng.fork();
            disk.set_faults(move |call, _| call != Call::Write && !is_well && faults.unit() < 0.5);
            for _ in 0..40 {
                let file = (path(&mut rng), rng.next_u64());
                put(&catalogue, std::slice::from_ref(&file));
                known.extend([file]);
            }
            check(&catalogue, &known, &["zz"]);
            drop(catalogue);
            disk.heal();
            check(&opened(&catalogues, b"server"), &known, &["zz"]);
        }
    }
}

#[test]
fn files_that_are_gone_are_forgotten_and_others_are_not() {
    let (state, data) = [(); 2].map(|()| tempfile::tempdir().expect("a directory")).into();
    let catalogues = catalogues(state.path(), 16);
    let base = data.path().as_os_str().as_bytes();
    let records = |catalogue: &Mutex<Catalogue>| {
        let catalogue = catalogue.lock().expect("not poisoned");
        catalogue.levels.records() + catalogue.recent.len() as u64
    };
    let mut stay = BTreeMap::new();
    for day in 0..40 {
        let catalogue = opened(&catalogues, base);
        std::fs::create_dir(data.path().join(format!("day{day}"))).expect("made");
        let files: Vec<_> = (0..20).map(|file| (format!("day{day}/{file}"), file)).collect();
        for (path, _) in &files {
            std::fs::write(data.path().join(path), "").expect("written");
        }
        put(&catalogue, &files);
        stay.extend([files[0].clone()]);
        check(&catalogue, &stay, &[]);
        for (path, _) in &files[1..] {
            std::fs::remove_file(data.path().join(path)).expect("removed");
        }
        if day % 2 == 1 {
            stay.remove(&files[0].0);
            std::fs::remove_dir_all(data.path().join(format!("day{day}"))).expect("removed");
        }
    }
    let catalogue = opened(&catalogues, base);
    check(&catalogue, &stay, &[]);
    let left = records(&catalogue);
    assert!(left < 300, "{left} records of 20 files that are there, of 800 that ever were");
    // What is not mounted is not gone.
    drop(catalogue);
    let away = data.path().with_extension("away");
    std::fs::rename(data.path(), &away).expect("renamed");
    let catalogue = opened(&catalogues, base);
    let more: Vec<_> = (0..2000).map(|file| (format!("new/{file}"), file)).collect();
    put(&catalogue, &more);
    drop(catalogue);
    check(&opened(&catalogues, base), &stay, &[]);
    std::fs::remove_dir_all(away).expect("removed");
}
