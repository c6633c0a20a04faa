//! Trees so deep that the kernel takes their paths only in pieces, and of so many files that no window holds them.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::common::World;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use serde_json::Value;

/// As deep, by names of so many bytes: twice what a path may have that the kernel is told at once.
const LEVELS: usize = 200;
const NAME: usize = 40;

/// The directory that lies `levels` below `top`, made if it is to be.
fn below(top: &Path, levels: usize, make: bool) -> OwnedFd {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let top = openat(CWD, top, flags, Mode::empty()).expect("there");
    (0..levels).fold(top, |directory, _| {
        let name = "n".repeat(NAME);
        if make {
            let _ = mkdirat(&directory, &name, Mode::RWXU);
        }
        openat(&directory, name, flags, Mode::empty()).expect("there")
    })
}

/// Four files, the last at the bottom.
fn fill(top: &Path) {
    for levels in (LEVELS / 4..=LEVELS).step_by(LEVELS / 4) {
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let file = openat(below(top, levels, true), "file", flags, Mode::RUSR | Mode::WUSR).expect("made");
        write!(File::from(file), "at level {levels}").expect("written");
    }
}

fn check(top: &Path) {
    for levels in (LEVELS / 4..=LEVELS).step_by(LEVELS / 4) {
        let file = openat(below(top, levels, false), "file", OFlags::RDONLY, Mode::empty());
        let mut content = String::new();
        File::from(file.expect("there")).read_to_string(&mut content).expect("read");
        assert_eq!(content, format!("at level {levels}"), "{}", top.display());
    }
}

#[test]
fn a_deep_tree_is_copied_on_every_route() {
    let world = World::new();
    std::fs::create_dir(world.path("deep")).expect("made");
    fill(&world.path("deep"));
    let (a, b) = (world.endpoint("a", &[]), world.endpoint("b", &[]));
    let routes = [
        ("deep", "local/".to_owned(), "local/deep"),
        ("deep", a.at("push/"), "a/push/deep"),
        (&a.at("push/deep/"), "pull/".to_owned(), "pull"),
        (&a.at("push/deep/"), b.at("third/"), "b/third"),
    ];
    for (from, to, copy) in &routes {
        world.ok(&["copy", from, to]);
        check(&world.path(copy));
    }
    let again = world.ok(&["copy", "deep", &a.at("push/")]);
    assert!(again.contains("there already"), "{again}");
    world.ok(&["verify", "deep/", &a.at("push/deep/")]);
}

/// A tree of `count` files of a few bytes each, some hundred in a directory.
fn grow(top: &Path, count: usize) {
    for number in 0..count {
        let directory = top.join(format!("d{:02}", number / 700));
        if number % 700 == 0 {
            std::fs::create_dir_all(&directory).expect("made");
        }
        std::fs::write(directory.join(format!("f{number}")), number.to_string()).expect("written");
    }
}

/// As many files as trees of the tests have; the largest only where there is time for it.
fn counts() -> &'static [usize] {
    match testkit::is_long() {
        true => &[1, 300, 20_000, 300_000],
        false => &[1, 300, 20_000],
    }
}

#[test]
fn a_tree_of_any_size_is_copied_compared_planned_mirrored_and_moved() {
    let world = World::in_memory();
    let (a, b) = (world.endpoint("a", &[]), world.endpoint("b", &[]));
    for count in counts() {
        let name = format!("of-{count}/");
        let (from, to) = (format!("a/{name}"), format!("b/{name}"));
        let (from_a, to_b) = (a.at(&name), b.at(&name));
        grow(&world.path(&from), *count);
        let files = |arguments: &[&str], ok: usize, skipped: usize| {
            let (code, summary) = world.json(arguments);
            let files = &summary["files"];
            assert_eq!(code, 0, "{arguments:?}: {summary}");
            let counted = (&files["ok"], &files["skipped"], &files["failed"]);
            assert_eq!(counted, (&ok.into(), &skipped.into(), &0.into()), "{arguments:?}");
        };
        files(&["copy", &from, &to_b], *count, 0);
        files(&["copy", "--checksum", &from, &to_b], 0, *count);
        for (from, to) in [(&from, &to), (&from, &to_b), (&from_a, &to), (&from_a, &to_b)] {
            files(&["verify", from, to], 0, *count);
        }
        let planned = world.ok(&["copy", "--dry-run", "--checksum", "--json", &from_a, &to]);
        let planned: Value = serde_json::from_str(planned.lines().last().expect("a summary")).expect("JSON");
        assert_eq!((&planned["same"]["files"], &planned["sent_files"]), (&(*count).into(), &0.into()));
        std::fs::write(world.path(&to).join("extraneous"), "x").expect("written");
        files(&["copy", "--checksum", "--delete", &from, &to], 0, *count);
        assert!(!world.path(&to).join("extraneous").exists());
        files(&["copy", "--move", &from, &to_b], 0, *count);
        assert!(world.tree(&from).iter().all(|name| name.ends_with('/')), "all files are moved away");
    }
}
