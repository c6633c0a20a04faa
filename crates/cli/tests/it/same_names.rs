//! Two sources that would get one name at the destination: what is refused, what merges, and which of two comes first.

use crate::common::{Ran, World};

/// Every route: where the sources are, as a prefix of their names, and the destination, as given and as a directory.
fn on_every_route(world: &World, check: impl Fn(&dyn Fn(&str) -> String, &str, &str)) {
    let (a, b) = (world.endpoint("a", &[]), world.endpoint("b", &[]));
    let here = |name: &str| name.to_owned();
    let there = |name: &str| a.at(name);
    // The same sources at the endpoint.
    world.ok(&["copy", "w", &a.address]);
    check(&here, "local/", "local");
    check(&here, &b.at("push/"), "b/push");
    check(&there, "pull/", "pull");
    check(&there, &b.at("third/"), "b/third");
}

/// Two trees: a file and a directory swap their names in them, and both have one file.
fn world() -> World {
    let world = World::new();
    for (tree, other) in [("w/one", "1"), ("w/two", "2")] {
        world.write(format!("{tree}/both"), other);
        world.write(format!("{tree}/d/both"), other);
        world.write(format!("{tree}/d/only-{other}"), other);
    }
    world.write("w/one/swapped", "a file");
    world.write("w/two/swapped/inner", "in a directory");
    world.write("w/two/turned", "a file");
    world.write("w/one/turned/inner", "in a directory");
    world
}

fn is_one_line(ran: &Ran, code: i32, words: &[&str]) {
    assert_eq!((ran.code, ran.err.lines().count()), (code, 1), "{ran:?}");
    assert!(words.iter().all(|word| ran.err.contains(word)), "{words:?}: {ran:?}");
}

#[test]
fn what_is_named_twice_is_refused_before_anything_is_made() {
    let world = world();
    on_every_route(&world, |at, to, there| {
        for (first, second, name) in [
            ("w/one/both", "w/two/both", "both"),
            ("w/one/d", "w/two/d", "d"),
            ("w/one/swapped", "w/two/swapped", "swapped"),
            ("w/one/turned", "w/two/turned", "turned"),
        ] {
            let ran = world.run(&["copy", &at(first), &at(second), to]);
            is_one_line(&ran, 2, &[first, second, &format!("would both become {name}"), "copy them apart"]);
        }
        let ran = world.run(&["copy", &at("w/one/"), &at("w/one/"), to]);
        is_one_line(&ran, 2, &["w/one and w/one are the same directory"]);
        assert!(!world.path(there).exists(), "{there}");
    });
}

#[test]
fn contents_merge_and_of_two_files_of_one_name_the_first_is_copied() {
    let world = world();
    on_every_route(&world, |at, to, there| {
        let ran = world.run(&["copy", &at("w/one/"), &at("w/two/"), to]);
        assert_eq!((ran.code, ran.err.lines().count()), (1, 4), "{ran:?}");
        for name in ["both", "d/both", "swapped", "turned"] {
            let line = ran.err.lines().find(|line| line.contains(&format!("would both become {name}:")));
            let line = line.unwrap_or_else(|| panic!("{name}: {ran:?}"));
            for tree in ["w/one", "w/two"] {
                assert!(line.contains(&format!("{tree}/{name}")), "{line}");
            }
        }
        let merged = ["both", "d/", "d/both", "d/only-1", "d/only-2", "swapped", "turned/", "turned/inner"];
        assert_eq!(world.tree(there), merged, "{there}");
        for name in ["both", "d/both"] {
            assert_eq!(world.read(format!("{there}/{name}")), b"1", "{there}");
        }
        assert_eq!(world.read(format!("{there}/swapped")), b"a file");
    });
}

#[test]
fn a_directory_and_what_another_source_holds_under_its_name() {
    let world = world();
    on_every_route(&world, |at, to, there| {
        // `d`, and a directory that contains a `d` too.
        let ran = world.run(&["copy", &at("w/one/d"), &at("w/two/"), to]);
        is_one_line(&ran, 1, &["w/one/d/both and w/two/d/both would both become d/both"]);
        assert_eq!(world.read(format!("{there}/d/both")), b"1");
        assert_eq!(world.read(format!("{there}/both")), b"2");
        assert_eq!(world.read(format!("{there}/d/only-2")), b"2");
        // A directory by name, and a file of that name among another's contents; and the other way about.
        let aside = format!("{to}aside/");
        let ran = world.run(&["copy", &at("w/one/turned"), &at("w/two/"), &aside]);
        is_one_line(&ran, 1, &["w/one/turned and w/two/turned would both become turned"]);
        assert_eq!(world.read(format!("{there}/aside/turned/inner")), b"in a directory");
        let last = format!("{to}last/");
        let ran = world.run(&["copy", &at("w/two/"), &at("w/one/turned"), &last]);
        is_one_line(&ran, 1, &["w/two/turned and w/one/turned would both become turned"]);
        assert_eq!(world.read(format!("{there}/last/turned")), b"a file");
    });
}

#[test]
fn what_stands_at_the_destination_under_another_kind_is_named() {
    let world = world();
    // A file comes where a directory is, and a directory where a file is.
    world.ok(&["copy", "w/one/", "local/"]);
    let ran = world.run(&["copy", "w/two/swapped", "w/two/turned", "local/"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    for (name, why) in
        [("turned", "a directory of that name is there"), ("swapped", "a file or link of that name is there")]
    {
        assert!(ran.err.lines().any(|line| line.contains(name) && line.contains(why)), "{ran:?}");
    }
    assert_eq!(world.read("local/swapped"), b"a file");
    assert_eq!(world.read("local/turned/inner"), b"in a directory");
}
