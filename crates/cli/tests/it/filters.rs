//! What is copied and what is left out, by every route, beside rsync; and what is refused.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::common::World;
use testkit::skip;

fn world() -> World {
    let world = World::new();
    for name in [
        "src/a.c",
        "src/a.o",
        "src/b/a.o",
        "src/b/keep/x.o",
        "src/b/keep/deep/y.o",
        "src/tmp/big",
        "src/d/e/f.c",
        "src/d/.f",
        "src/d/g",
    ] {
        world.write(name, name);
    }
    world.write("src/d/.f", "- /g\n- *.c\n+ *\n");
    fs::create_dir_all(world.path("src/empty")).expect("made");
    symlink("a.c", world.path("src/link")).expect("linked");
    world.write("rules", "# what tools leave\ntmp/\n+ keep/***\r\n- *.o\n");
    world
}

fn rsync(world: &World, options: &[&str], to: &str) {
    let mut command = Command::new("rsync");
    command.args(["-a", "-r"]).args(options).args(["src/", to]).current_dir(world.path(""));
    assert!(command.status().expect("runs").success(), "{options:?}");
}

#[test]
fn every_route_copies_what_rsync_copies() {
    if !testkit::has("every_route_copies_what_rsync_copies", &["rsync"]) {
        return;
    }
    let world = world();
    let (a, b) = (world.endpoint("a", &[]), world.endpoint("b", &[]));
    let put = Command::new("cp").args(["-a", "src", "a/src"]).current_dir(world.path("")).status();
    assert!(put.expect("runs").success());
    world.write("list", "d\nb/keep/x.o\n# no\n/empty/\n");
    let cases: [&[&str]; 4] = [
        &["--exclude-from", "rules", "-f", ":e .f"],
        &["--include", "*/", "--include=*.c", "--exclude", "*"],
        &["--files-from", "list", "--exclude=e/"],
        &["--max-size=5b", "-f", "H b/", "-f", "P *.c"],
    ];
    for (at, options) in cases.iter().enumerate() {
        let to = |route: &str| format!("{route}{at}");
        rsync(&world, options, &format!("{}/", to("rsync")));
        let wanted = world.tree(to("rsync"));
        assert!(!wanted.is_empty() && wanted.len() < 14, "{options:?}: {wanted:?}");
        for (from, there, route) in [
            ("src/".to_owned(), format!("{}/", to("local")), to("local")),
            ("src/".to_owned(), b.at(&format!("{}/", to("push"))), format!("b/{}", to("push"))),
            (a.at("src/"), format!("{}/", to("pull")), to("pull")),
            (a.at("src/"), b.at(&format!("{}/", to("third"))), format!("b/{}", to("third"))),
        ] {
            let arguments = [&["copy", "-q"], *options, &[&from, &there]].concat();
            world.ok(&arguments);
            assert_eq!(world.tree(&route), wanted, "{options:?} to {route}");
            // What was left out is not missing, and the same is nothing to do.
            let (code, verified) = world.json(&[&["verify"], *options, &[&from, &there]].concat());
            assert_eq!(
                (code, &verified["files"]["failed"]),
                (0, &0.into()),
                "{options:?} to {route}: {verified}"
            );
        }
    }
}

#[test]
fn what_is_there_stays_as_rsync_leaves_it() {
    if !testkit::has("what_is_there_stays_as_rsync_leaves_it", &["rsync"]) {
        return;
    }
    let world = World::new();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let set = |name: &str, after: u64| {
        let file = fs::File::options().write(true).open(world.path(name)).expect("opened");
        file.set_modified(old + Duration::from_secs(after)).expect("set");
    };
    for (at, options) in [&["--existing"][..], &["--ignore-existing"], &["-u"], &["--existing", "--update"]]
        .into_iter()
        .enumerate()
    {
        for (name, content) in
            [("same", "here"), ("newer", "here"), ("older", "here, longer"), ("d/new", "here")]
        {
            world.write(format!("src/{name}"), content);
            set(&format!("src/{name}"), 100);
        }
        fs::create_dir_all(world.path("src/only/e")).expect("made");
        for side in [format!("theirs{at}"), format!("ours{at}")] {
            for (name, after) in [("same", 100), ("newer", 200), ("older", 50), ("mine", 10)] {
                world.write(format!("{side}/{name}"), "there");
                set(&format!("{side}/{name}"), after);
            }
        }
        rsync(&world, options, &format!("theirs{at}/"));
        world.ok(&[&["copy", "-q"], options, &["src/", &format!("ours{at}/")]].concat());
        let (theirs, ours) = (world.tree(format!("theirs{at}")), world.tree(format!("ours{at}")));
        assert_eq!(ours, theirs, "{options:?}");
        for name in theirs.iter().filter(|name| !name.ends_with('/')) {
            let of =
                |side: &str| String::from_utf8_lossy(&world.read(format!("{side}{at}/{name}"))).into_owned();
            assert_eq!(of("ours"), of("theirs"), "{options:?}: {name}");
        }
    }
    let (code, json) = world.json(&["copy", "--existing", "src/", "nothing/"]);
    let files = &json["files"];
    assert_eq!((code, &files["total"], &files["ok"], &files["failed"]), (0, &0.into(), &0.into(), &0.into()));
    assert!(world.tree("nothing").is_empty(), "what is not taken does not count");
}

#[test]
fn sizes_times_and_lists_choose_files() {
    let world = World::new();
    for (name, size) in [("src/1", 1000), ("src/2", 1024), ("src/3", 2000), ("src/d/4", 5000)] {
        world.fill(name, size, 7);
    }
    let old = SystemTime::now() - Duration::from_secs(10 * 86_400);
    let file = fs::File::options().write(true).open(world.path("src/2")).expect("opened");
    file.set_modified(old).expect("set");
    let copied = |options: &[&str], to: &str| {
        world.ok(&[&["copy", "-q"], options, &["src/", to]].concat());
        world.tree(to)
    };
    assert_eq!(copied(&["--min-size=1K", "--max-size=2KB"], "a/"), ["2", "3", "d/"]);
    assert_eq!(copied(&["--newer-than=7d", "--min-size=1K+1"], "b/"), ["3", "d/", "d/4"]);
    assert_eq!(copied(&["--older-than", "7d"], "c/"), ["2", "d/"]);
    // The time of day counts, in the zone of who asks.
    let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(1_769_860_800);
    file.set_modified(noon).expect("set");
    let cases = [
        ("UTC0", "--older-than=2026-01-31T12:00:01", true),
        ("UTC0", "--older-than=2026-01-31T12:00:00", false),
        ("EST5", "--older-than=2026-01-31T07:00:01", true),
        ("EST5", "--older-than=2026-01-31 07:00:00", false),
        ("EST5", "--older-than=2026-01-31T12:00:00Z", false),
        ("EST5", "--older-than=2026-01-31", false),
        ("LINT-14", "--older-than=2026-02-01", false),
        ("LINT-14", "--older-than=2026-02-02", true),
    ];
    for (at, (zone, option, taken)) in cases.into_iter().enumerate() {
        let to = format!("at/{at}");
        let ran = world.command().args(["copy", "-q", option, "src/2", &to]).env("TZ", zone).status();
        assert!(ran.expect("runs").success(), "{zone} {option}");
        assert_eq!(world.path(&to).exists(), taken, "{zone} {option}");
    }
    fs::write(world.path("list"), b"3\0d/4\0").expect("written");
    assert_eq!(copied(&["-0", "--files-from", "list"], "e/"), ["3", "d/", "d/4"]);
    // A single file that is too large is left out; to whom it was asked from that is no surprise.
    let a = world.endpoint("src", &[]);
    world.ok(&["copy", "-q", "--max-size=1K", &a.at("3"), "f/"]);
    assert!(world.tree("f").is_empty());
    // What a list names and is not there fails, and the rest is copied.
    fs::write(world.path("list"), "nowhere\nd\n").expect("written");
    let ran = world.run(&["copy", "-q", "--files-from", "list", "src/", "g/"]);
    assert!(ran.code == 1 && ran.err.lines().count() == 1 && ran.err.contains("nowhere"), "{ran:?}");
    assert_eq!(world.tree("g"), ["d/", "d/4"]);
}

#[test]
fn a_mounted_file_system_is_not_entered_if_asked() {
    let world = World::new();
    world.write("src/file", "x");
    world.write("src/m/below", "x");
    let script = "mount -t tmpfs none src/m && echo x > src/m/inside && exec \"$0\" copy -q $1 src/ dst/";
    let run = |option: &str| {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_tidegate"), option]);
        command.current_dir(world.path("")).env("XDG_STATE_HOME", world.path("state"));
        command.output().expect("runs")
    };
    if !testkit::is_root() {
        skip("a_mounted_file_system_is_not_entered_if_asked", "nothing may be mounted");
        return;
    }
    let output = run("-x");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(world.tree("dst"), ["file", "m/"]);
    assert!(run("--update").status.success());
    assert_eq!(world.tree("dst"), ["file", "m/", "m/inside"]);
}

#[test]
fn what_is_no_filter_is_refused_in_one_line_and_nothing_is_made() {
    let world = world();
    let a = world.endpoint("a", &[]);
    world.write("bad", "- fine\nnonsense\n");
    fs::create_dir_all(world.path("odd")).expect("made");
    world.write("odd/.f", "bad rule\n");
    for (options, code, words) in [
        (&["--exclude="][..], 2, "it has no pattern"),
        (&["--exclude", "- "], 2, "it has no pattern"),
        (&["-f", "nonsense"], 2, "it begins with none of"),
        (&["-f", "-/ a"], 2, "the modifier / is not supported"),
        (&["-f", ":C"], 2, "the modifier C is not supported"),
        (&["-f", ": a/b"], 2, "a name without a slash"),
        (&["-f", ". bad"], 2, "bad: the filter rule 'nonsense' is none"),
        (&["--exclude-from", "nowhere"], 3, "cannot read nowhere"),
        (&["--files-from", "nowhere"], 3, "cannot read nowhere"),
        (&["--files-from", "rules", "src/a.c"], 2, "which must be one directory"),
        (&["--max-size", "much"], 2, "must be bytes, or a number"),
        (&["--newer-than", "yesterday"], 2, "must be an age"),
    ] {
        let ran = world.run(&[&["copy"], options, &["src/", "x/"]].concat());
        assert_eq!((ran.code, ran.err.lines().count()), (code, 1), "{options:?}: {ran:?}");
        assert!(ran.err.contains(words), "{options:?}: {ran:?}");
        assert!(!world.path("x").exists(), "{options:?}");
    }
    // A source that is named and excluded.
    for (from, to) in [("src".to_owned(), "x/".to_owned()), (a.at("src"), "x/".to_owned())] {
        if from != "src" {
            fs::create_dir_all(world.path("a/src")).expect("made");
        }
        let ran = world.run(&["copy", "-q", "--exclude", "src/", &from, &to]);
        assert_eq!((ran.code, ran.err.lines().count()), (1, 1), "{ran:?}");
        assert!(ran.err.contains("src is named as a source and excluded by a filter rule"), "{ran:?}");
    }
    // A file of rules in the source that holds none: its directory is not entered.
    let ran = world.run(&["copy", "-q", "-f", ": .f", "odd", "y/"]);
    assert_eq!((ran.code, ran.err.lines().count()), (1, 1), "{ran:?}");
    assert!(ran.err.contains("odd/.f: the filter rule 'bad rule' is none"), "{ran:?}");
}
