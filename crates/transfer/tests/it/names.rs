//! Names, modes and shapes that file systems allow and programs forget.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::common::{Fixture, assert_same_tree, content, leftovers, write};
use tidegate_transfer::transfer::route::To;

fn there_and_back(f: &Fixture, source: &Path, files: u64) {
    let totals = f.push(&[source.to_path_buf()], "in/");
    assert_eq!((totals.files_done, totals.files_failed), (files, 0));
    let name = source.file_name().expect("a name");
    assert_same_tree(source, &f.root.join("in").join(name));
    assert!(leftovers(&f.root).is_empty());
    let back = f.dir("back");
    let from = [&b"in/"[..], name.as_bytes()].concat();
    let from = tidegate_transfer::transfer::route::From::Endpoint(f.address.clone(), vec![from]);
    let (totals, failures) = f.run(&from, &To::Local(back.as_os_str().as_bytes().to_vec())).expect("pulled");
    assert_eq!((totals.files_done, failures.len()), (files, 0), "{failures:?}");
    assert_same_tree(source, &back.join(name));
    assert!(leftovers(&back).is_empty());
    // A second time there is nothing to do.
    let again = f.push(&[source.to_path_buf()], "in/");
    assert_eq!((again.files_done, again.files_skipped), (0, files));
}

#[test]
fn any_name_arrives_as_it_is() {
    let f = Fixture::new();
    let source = f.dir("odd");
    let longest = vec![b'n'; 255];
    let names: [&[u8]; 12] = [
        b"new\nline",
        b"-rf",
        b"--help",
        &longest,
        b"\xff\xfe not text \x80",
        b"tab\tand\resc\x1b[31m",
        b" leading and trailing ",
        b"*?[a]{b}$(c)`d`;|&<>\"'\\",
        b"...",
        "größe\u{202e}gpj".as_bytes(),
        b"CON",
        b"a:b",
    ];
    for (i, name) in names.iter().enumerate() {
        fs::write(source.join(OsStr::from_bytes(name)), content(100 + i as u64, i as u64)).expect("written");
        let inner = source.join(OsStr::from_bytes(&[b"d", &name[..name.len().min(200)]].concat()));
        write(&inner.join(OsStr::from_bytes(name)), i as u64, i as u64);
    }
    there_and_back(&f, &source, 24);
}

#[test]
fn a_deep_tree_arrives() {
    let f = Fixture::new();
    let source = f.dir("deep");
    let mut path = source.clone();
    for i in 0..35 {
        path = path.join(format!("{i:-<90}"));
    }
    write(&path.join("bottom"), 5000, 1);
    there_and_back(&f, &source, 1);
}

#[test]
fn many_directories_arrive() {
    let f = Fixture::new();
    let source = f.dir("many");
    for i in 0..3000 {
        fs::create_dir(source.join(i.to_string())).expect("made");
    }
    there_and_back(&f, &source, 0);
}

#[test]
fn odd_modes_and_old_times_arrive() {
    let f = Fixture::new();
    let source = f.dir("modes");
    let old = SystemTime::UNIX_EPOCH + Duration::new(86_400, 123_456_789);
    let before = SystemTime::UNIX_EPOCH - Duration::new(1_000_000, 5);
    for (i, mode) in [0o444, 0o400, 0o000, 0o777, 0o111, 0o644].into_iter().enumerate() {
        let path = source.join(format!("f{i}"));
        write(&path, 200_000 * i as u64, i as u64);
        let time = if i % 2 == 0 { old } else { before };
        let file = File::open(&path).expect("opened");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("set");
        file.set_modified(time).expect("set");
    }
    write(&source.join("closed/inside"), 10, 1);
    write(&source.join("empty"), 0, 1);
    fs::create_dir(source.join("hollow")).expect("made");
    for (directory, mode) in [("closed", 0o555), ("hollow", 0o700), ("", 0o755)] {
        fs::set_permissions(source.join(directory), Permissions::from_mode(mode)).expect("set");
        File::open(source.join(directory)).and_then(|file| file.set_modified(old)).expect("set");
    }
    there_and_back(&f, &source, 8);
}

#[test]
fn holes_stay_holes_also_beyond_four_gibibytes() {
    let f = Fixture::new();
    let source = f.dir("sparse");
    let huge = File::create(source.join("huge")).expect("made");
    // 4 GiB and 2 GiB are where 32-bit numbers break.
    huge.set_len((4 << 30) + 700_000).expect("sized");
    let edges = [0, (2u64 << 30) - 5, (4 << 30) - 70_000, (4 << 30) + 699_000];
    for (i, at) in edges.into_iter().enumerate() {
        huge.write_all_at(&content(1000, i as u64), at).expect("written");
    }
    let hollow = File::create(source.join("hollow")).expect("made");
    hollow.set_len(50_000_000).expect("sized");
    let tail = File::create(source.join("tail")).expect("made");
    tail.write_all_at(&content(300_000, 7), 9_000_000).expect("written");
    let totals = f.push(std::slice::from_ref(&source), "in/");
    assert_eq!((totals.files_done, totals.files_failed), (3, 0));
    for name in ["huge", "hollow", "tail"] {
        let (a, b) = (source.join(name), f.root.join("in/sparse").join(name));
        let (m, n) = (fs::metadata(&a).expect("there"), fs::metadata(&b).expect("there"));
        assert_eq!((m.len(), m.mtime_nsec()), (n.len(), n.mtime_nsec()));
        // A block is the smallest hole that is kept.
        let least = m.blocks() * 512 + 2 * (128 << 10) * if name == "hollow" { 0 } else { 5 };
        assert!(n.blocks() * 512 <= least + least / 20, "{name}: {} of {}", n.blocks(), m.blocks());
    }
    let (a, b) = (source.join("huge"), f.root.join("in/sparse/huge"));
    let (a, b) = (File::open(a).expect("opened"), File::open(b).expect("opened"));
    for at in edges {
        let start = at.saturating_sub(200_000);
        let length = 400_000.min((4u64 << 30) + 700_000 - start) as usize;
        let (mut x, mut y) = (vec![0; length], vec![1; length]);
        a.read_exact_at(&mut x, start).expect("read");
        b.read_exact_at(&mut y, start).expect("read");
        assert!(x == y, "around {at}");
    }
}
