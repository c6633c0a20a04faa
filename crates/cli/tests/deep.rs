//! Trees so deep that the kernel takes their paths only in pieces.

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use common::World;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

/// As deep, by names of so many bytes: four times what a path may have that the kernel is told at once.
const LEVELS: usize = 400;
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
