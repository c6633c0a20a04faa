//! How a copy says no: one line with what was typed, the exit code of docs/copy.md, and nothing on success if it is to
//! be quiet.

use std::fs;
use std::net::ToSocketAddrs;
use std::process::Stdio;

use crate::common::{World, eventually, signal, wait};
use rustix::process::Signal;

fn world() -> World {
    let world = World::new();
    world.write("dir/file", "file");
    world
}

#[test]
fn exit_codes_are_those_of_the_table() {
    let world = world();
    let a = world.endpoint("a", &[]);
    let nowhere = world.text("nowhere");
    for (arguments, code, words) in [
        (vec!["copy", "nowhere", "x/"], 3, "cannot read nowhere"),
        (vec!["copy", "dir", "nowhere", "x/"], 3, "cannot read nowhere"),
        (vec!["copy", &a.at("nowhere"), "x/"], 3, "nowhere"),
        (vec!["verify", "nowhere", "dir"], 3, "cannot read nowhere"),
        (vec!["verify", "dir/", "nowhere/"], 3, &nowhere),
        (vec!["verify", "dir/", &a.at("nowhere/")], 3, "nowhere/"),
        // Where nobody can make anything, the source is there all the same.
        (
            vec!["copy", "dir", "/proc/"],
            5,
            "tidegate: cannot use the destination /proc/: cannot create .tidegate",
        ),
        (vec!["copy", "dir/file", "/proc/x"], 5, "tidegate: cannot use the destination /proc/x"),
        (vec!["copy", "dir", "/proc/x/y/"], 5, "cannot use the destination /proc/x/y/"),
        (vec!["copy", &a.at(""), "/proc/"], 5, "cannot use the destination"),
        (vec!["copy", "dir", &a.at("../x/")], 5, "contains '.' or '..'"),
        (vec!["copy", &a.at("x/../y"), "x/"], 5, "contains '.' or '..'"),
        (vec!["copy", "dir", &a.at(".tidegate/x")], 5, "'.tidegate' is where transfers keep their state"),
        (vec!["copy", "dir"], 2, "a source and a destination are needed"),
        (vec!["copy", "dir", ""], 2, "an empty path"),
    ] {
        let ran = world.run(&arguments);
        assert_eq!((ran.code, ran.err.lines().count()), (code, 1), "{arguments:?}: {ran:?}");
        assert!(ran.err.contains(words), "{words}: {ran:?}");
        let (_, seen) = world.json(&arguments);
        assert!(
            seen["error"].as_str().expect("text").contains(words.trim_start_matches("tidegate: ")),
            "{seen}"
        );
    }
    assert!(!world.path("x").exists() && world.tree("a").is_empty());
}

#[test]
fn how_a_mirror_is_meant_is_said_whole_or_not_at_all() {
    let world = world();
    world.write("list", "file\n");
    let a = world.endpoint("a", &[]);
    for (options, words) in [
        (&["--max-delete", "3"][..], "give it as well"),
        (&["--backup-dir", "../old"], "give it as well"),
        (&["--delete", "--max-delete", "-1"], "invalid value '-1'"),
        (&["--delete", "--files-from", "list"], "leave one of them out"),
        (&["--delete", "--move"], "cannot be used with"),
        (&["--move", "--dry-run"], "cannot be used with"),
        (&["--move", "--verify", "block"], "leave --verify block out"),
    ] {
        let to = a.at("x/");
        let arguments: Vec<&str> = [&["copy"], options, &["dir/", &to]].concat();
        let ran = world.run(&arguments);
        assert!(ran.code == 2 && ran.err.contains(words), "{options:?}: {ran:?}");
    }
    // What the ticket does not allow is refused by the endpoint, before anything is moved.
    for option in ["--delete", "--move"] {
        let (from, to) =
            if option == "--move" { (a.at("y"), "z/".to_owned()) } else { ("dir/".to_owned(), a.at("x/")) };
        world.write("a/y", "y");
        let ran = world.run(&["copy", option, &from, &to]);
        assert!(ran.code == 5 && ran.err.contains("tidegate ticket --delete"), "{option}: {ran:?}");
        assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    }
    assert!(world.path("dir/file").exists() && world.path("a/y").exists() && !world.path("a/x").exists());
}

#[test]
fn what_looks_like_another_host_is_no_file_here() {
    let world = world();
    let a = world.endpoint("a", &[]);
    world.ok(&["remote", "add", "dtn", &a.address]);
    for path in ["[::1]:/x", "::1:/x", ":x", ".:x"] {
        for arguments in [["copy", "dir", path], ["copy", path, "here/"], ["verify", "dir", path]] {
            let ran = world.run(&arguments);
            assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{ran:?}");
            assert!(ran.err.contains(&format!("{path} looks like a path on another host")), "{ran:?}");
            assert!(ran.err.contains(&format!("write ./{path} for a path on this host")), "{ran:?}");
        }
    }
    for path in ["root@[x]:/x/", "root@$(id):x", "root@-l:x", "ssh://-x/"] {
        for arguments in [["copy", "dir", path], ["copy", path, "here/"], ["verify", "dir", path]] {
            let ran = world.run(&arguments);
            assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{ran:?}");
            assert!(ran.err.contains("is no host for ssh"), "{ran:?}");
        }
    }
    for path in ["localhost:/x", "10.0.0.1:x", "C:/x", "C:\\x", "host:"] {
        for arguments in [["copy", "dir", path], ["copy", path, "here/"]] {
            let ran = world.run(&arguments);
            assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{ran:?}");
            let name = path.split(':').next().expect("a name");
            assert!(ran.err.contains(&format!("no endpoint is called '{name}'")), "{ran:?}");
        }
    }
    for arguments in [["copy", "dir", "scp://host/x"], ["copy", "scp://host/x", "here/"]] {
        let ran = world.run(&arguments);
        assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{ran:?}");
        assert!(ran.err.contains("scp://host/x is a URL"), "{ran:?}");
    }
    // Unless it begins with ./ or /, or its first component is there and is no endpoint's name.
    world.ok(&["copy", "dir", "./root@localhost:x/"]);
    assert_eq!(world.tree("root@localhost:x"), ["dir/", "dir/file"]);
    world.ok(&["copy", "dir/", "root@localhost:x/new/"]);
    world.ok(&["copy", "root@localhost:x/new/file", &world.text("C:file")]);
    world.ok(&["copy", "C:file", "here"]);
    world.write("dtn:x/file", "local");
    world.ok(&["copy", "dir/file", "dtn:x/"]);
    assert_eq!(
        (world.tree("a"), world.tree("dtn:x")),
        (vec!["x/".to_owned(), "x/file".to_owned()], vec!["file".to_owned()])
    );
}

#[test]
fn an_unknown_option_is_not_taken_for_a_path() {
    let world = world();
    for option in ["--zyzzyva", "-Z", "--quux-frobnicated"] {
        let ran = world.run(&["copy", option, "dir", "x/"]);
        let wanted = format!("tidegate: unexpected argument '{option}' found (see `tidegate copy --help`)\n");
        assert_eq!((ran.code, ran.err), (2, wanted));
    }
    let ran = world.run(&["copy", "--cheksum", "dir", "x/"]);
    assert!(ran.err.contains("; tip: a similar argument exists: '--checksum' (see"), "{ran:?}");
}

#[test]
fn a_quiet_copy_says_nothing_unless_something_is_wrong() {
    let world = world();
    let a = world.endpoint("a", &[]);
    for to in ["local/".to_owned(), a.at("x/")] {
        for _ in 0..2 {
            assert_eq!(world.ok(&["copy", "-q", "dir/", &to]), "");
        }
    }
    fs::create_dir_all(world.path("a/y/file")).expect("made");
    let ran = world.run(&["copy", "--quiet", "dir/", &a.at("y/")]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.lines().count()), (1, "", 1), "{ran:?}");
    assert!(ran.err.contains("cannot create file: a directory of that name is there"), "{ran:?}");
    let (code, seen) = world.json(&["copy", "-q", "dir/", "local/"]);
    assert_eq!((code, &seen["status"]), (0, &"complete".into()), "what was asked for is printed");
}

#[test]
fn who_interrupts_is_told_what_is_kept() {
    let world = World::new();
    const SIZE: u64 = 64 << 20;
    let a = world.endpoint("a", &[]);
    world.fill("large", SIZE as usize, 1);
    let mut command = world.command();
    command.args([
        "copy",
        "large",
        &a.at("x"),
        "--limit-link",
        "60Mbit/s",
        "--epochs",
        "epochs",
        "--epoch",
        "200ms",
        "--max-workers",
        "1",
    ]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let moved = || -> f64 {
        let text = fs::read_to_string(world.path("epochs")).unwrap_or_default();
        let epochs = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let bytes = |epoch: serde_json::Value| {
            let number = |value: &serde_json::Value| value.as_f64().unwrap_or_default();
            number(&epoch["throughput_bps"]["network"]) * number(&epoch["interval_ms"]) / 8000.0
        };
        epochs.map(bytes).sum()
    };
    eventually(|| moved() > f64::from(16 << 20));
    signal(child.id(), Signal::INT);
    let ran = wait(child);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (130, "tidegate: interrupted; run the same command again to continue\n")
    );
    let first = ran.out.lines().next().expect("a line");
    assert!(first.starts_with("interrupted: nothing complete after "), "{ran:?}");
    let kept =
        first.split_once("about ").and_then(|(_, rest)| rest.split_once(" MiB of unfinished files kept"));
    let kept: u64 = kept.and_then(|(kept, _)| kept.parse().ok()).unwrap_or_else(|| panic!("{ran:?}"));
    assert!(kept >= 4 && first.ends_with("kept: the same command continues with them"), "{ran:?}");
    let (code, seen) = world.json(&["copy", "large", &a.at("x")]);
    assert_eq!((code, &seen["status"]), (0, &"complete".into()));
    // What was on its way to the disk when it ended comes again.
    let there = SIZE - seen["bytes"].as_u64().expect("a number");
    assert!(
        there + (16 << 20) >= kept << 20 && there <= (kept + 16) << 20,
        "{kept} MiB were promised: {seen}"
    );
}

#[test]
fn a_single_stream_is_one() {
    let world = World::new();
    let a = world.endpoint("a", &[]);
    let out = world.ok(&["probe", &a.address, "--time", "1s", "--epoch", "200ms", "--optimizer", "fixed:1"]);
    assert!(out.trim_end().ends_with(" with 1 stream"), "{out}");
}

#[test]
fn what_may_not_be_deleted_is_no_file_that_failed() {
    let world = World::new();
    for name in ["src/a", "dst/a", "dst/b", "dst/c"] {
        world.write(name, name);
    }
    let (code, ran) = world.json(&["copy", "--delete", "--max-delete=1", "src/", "dst/"]);
    assert_eq!((code, &ran["status"]), (1, &"incomplete".into()), "{ran}");
    let files = &ran["files"];
    assert_eq!((&files["total"], &files["ok"], &files["failed"]), (&1.into(), &1.into(), &0.into()), "{ran}");
    assert_eq!((world.tree("dst").len(), &files["deleted"]), (2, &1.into()), "{ran}");
    let told = ran["failures"][0]["message"].as_str().unwrap_or_default();
    assert!(told.contains("--max-delete"), "{ran}");
}

#[test]
fn a_host_whose_name_does_not_exist_is_given_up_soon_and_named() {
    let world = world();
    // No label is that long, which is known without asking anybody. An address of ours may not have it, either.
    let (host, other) = (format!("{}.example", "x".repeat(64)), "nohost.invalid");
    let ticket = world.endpoint("a", &[]).address.replace("127.0.0.1", other);
    let [web, ftp] = ["http", "ftp"].map(|scheme| format!("{scheme}://{host}/file"));
    let mut commands: Vec<(&str, &[&str])> = Vec::new();
    let (copy, put) = (["copy", "dir", &*ticket], ["put", "dir/file", &*web]);
    let gets = [(&web, "web"), (&ftp, "ftp")].map(|(url, out)| ["get", &**url, "-o", out]);
    commands.extend([&put[..], &gets[0], &gets[1]].map(|arguments| (&*host, arguments)));
    // Where nobody answers for names, none is known not to exist.
    let asked = (other, 1).to_socket_addrs().expect_err("nobody may have it");
    commands.extend(asked.to_string().contains("not known").then_some((other, &copy[..])));
    let begun: Vec<_> = commands
        .into_iter()
        .map(|(host, arguments)| {
            let mut command = world.command();
            command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
            (host, arguments, command.spawn().expect("started"))
        })
        .collect();
    for (host, arguments, child) in begun {
        let ran = wait(child);
        assert_ne!(ran.code, 0, "{arguments:?}: {ran:?}");
        let named = ran.err.lines().filter(|line| line.contains(host)).count();
        assert!(named == 1 && !ran.err.contains("trying again"), "{arguments:?}: {ran:?}");
    }
}
