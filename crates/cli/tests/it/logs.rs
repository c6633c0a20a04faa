//! What `-v` and `-vv` tell: a line for each transfer, at an endpoint and at who copies, and each decision of the rule.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use crate::common::{Server, World, eventually, finish, signal, wait};
use rustix::process::Signal;

/// The endpoint's lines about transfers, once there are so many of them.
fn lines(server: &Server, many: usize) -> Vec<String> {
    let found = || -> Vec<String> {
        let told = server.log();
        told.lines().filter(|line| line.contains("(ticket ")).map(str::to_owned).collect()
    };
    eventually(|| found().len() >= many);
    let lines = found();
    assert_eq!(lines.len(), many, "one for each: {lines:?}");
    lines
}

/// One may be written after the next transfer has ended: the order says nothing.
fn assert_one_says(lines: &[String], words: &[&str]) {
    let many = lines.iter().filter(|line| words.iter().all(|word| line.contains(word))).count();
    assert_eq!(many, 1, "{words:?} in {lines:?}");
}

fn assert_says(line: &str, words: &[&str]) {
    assert!(words.iter().all(|word| line.contains(word)), "{words:?} in {line}");
}

#[test]
fn an_endpoint_logs_a_line_for_each_transfer() {
    let world = World::new();
    let (a, b) = (world.endpoint("a", &[]), world.endpoint("b", &[]));
    world.fill("dir/large", 3 << 20, 1);
    world.write("dir/small", "small");
    world.ok(&["copy", "dir", &a.at("in/")]);
    world.ok(&["copy", &a.at("in/dir"), &a.at("in/dir/small"), "back/"]);
    world.ok(&["copy", &a.at("in/dir/"), &b.at("third/")]);
    assert_eq!(world.run(&["copy", &a.at("nowhere"), "back/"]).code, 3);
    world.ok(&["copy", "dir", &a.at("in/")]);
    world.ok(&["verify", "dir", &a.at("in/")]);
    world.ok(&["probe", &a.address, "--time", "2s"]);
    let told = lines(&a, 7);
    assert_one_says(&told, &["127.0.0.1:", " writes to /in/: complete, 2 files, 3 MiB in ", "bit/s"]);
    assert_one_says(&told, &[" reads /in/dir and 1 more: complete, 3 files, "]);
    assert_one_says(&told, &[" sends /in/dir/ to tg://127.0.0.1:", "/third/: complete, 2 files, 3 MiB in "]);
    assert_one_says(&told, &[" reads /nowhere: failed, 0 files, 0 B in ", "No such file or directory"]);
    assert_one_says(&told, &[" writes to /in/: complete, 0 files, 0 B in ", "2 there already"]);
    assert_one_says(&told, &[" compares with /in/: complete, "]);
    assert_one_says(&told, &[" measures the way to here: "]);
    let there = lines(&b, 1);
    assert_one_says(&there, &[" writes to /third/: complete, 2 files, 3 MiB in "]);
    // Who it is: by a name of the ticket, which the operator sees when the ticket is made.
    let state = world.text("a.state");
    let ran = world.run(&["-v", "ticket", "--state", &state, "--path", "in", &a.place()]);
    let name = ran.err.trim_end().rsplit(' ').next().expect("a name").to_owned();
    assert!(ran.code == 0 && name.len() == 8, "{ran:?}");
    world.ok(&["copy", "dir/small", &format!("{}/x", ran.out.trim_end())]);
    let told = lines(&a, 8);
    assert_one_says(&told, &[&format!("(ticket {name}) writes to /in/x: complete, 1 file, 5 B in ")]);
    assert_eq!(told.iter().filter(|line| line.contains(&name)).count(), 1);
    for server in [&a, &b] {
        assert!(!server.log().contains(server.secret()));
    }
}

#[test]
fn an_endpoint_says_why_a_transfer_failed_and_shows_nothing_raw() {
    let world = World::new();
    let mut a = world.endpoint("a", &[]);
    let odd = OsStr::from_bytes(b"\x1b[31mred\n");
    fs::create_dir_all(world.path("a/taken").join(odd)).expect("made");
    world.write(std::path::Path::new("dir").join(odd), "content");
    assert_eq!(world.run(&["copy", "dir/", &a.at("taken/")]).code, 1);
    let told = lines(&a, 1);
    assert_says(
        &told[0],
        &[": incomplete, 0 files", "1 failed", "\\x1b[31mred\\x0a", "a directory of that name"],
    );
    // One that is interrupted, and one whose other end is killed.
    world.fill("large", 60 << 20, 1);
    for (number, (end, words)) in
        [(Signal::INT, ": interrupted, 0 files"), (Signal::KILL, ": failed, 0 files")].into_iter().enumerate()
    {
        let mut command = world.command();
        command.args(["copy", "large", &a.at(&format!("x{number}")), "--limit-link", "20Mbit/s"]);
        command.args(["--epochs", &format!("epochs{number}")]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        let begun =
            || fs::read_to_string(world.path(format!("epochs{number}"))).is_ok_and(|text| !text.is_empty());
        eventually(begun);
        signal(child.id(), end);
        wait(child);
        assert_one_says(&lines(&a, 2 + number), &[words]);
    }
    assert!(!a.has_ended() && !a.log().contains('\x1b'));
}

#[test]
fn a_copy_says_what_it_did_and_how_its_rule_decided() {
    let world = World::new();
    let a = world.endpoint("a", &[]);
    world.fill("dir/large", 3 << 20, 1);
    let run = |more: &[&str]| finish(world.command().env("NO_COLOR", "1").args(more));
    let ran = run(&["-v", "copy", "dir", &a.at("in/")]);
    let told: Vec<_> = ran.err.lines().collect();
    assert_eq!((ran.code, told.len()), (0, 1), "{ran:?}");
    let title = format!("dir → tg://{}/in/: complete, 1 of 1 file moved, 3 MiB in ", a.place());
    assert_says(told[0], &[&title]);
    let ran = run(&["-v", "copy", "dir", &a.at("in/")]);
    assert_says(&ran.err, &[": complete, 0 of 1 file moved, 0 B in ", ", 1 there already"]);
    world.fill("dir/more", 6 << 20, 1);
    let ran = run(&["-vv", "copy", "dir", &a.at("in/"), "--limit-link", "40Mbit/s", "--epoch", "200ms"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let decisions: Vec<_> =
        ran.err.lines().filter(|line| line.contains("workers (read/network/write)")).collect();
    assert!(!decisions.is_empty(), "{ran:?}");
    assert_says(decisions[0], &[" moved ", "; auto ", " (score ", "more may bring more"]);
    assert!(!ran.err.contains(a.secret()));
    // What failed is on it too.
    fs::create_dir_all(world.path("a/in/dir/clash")).expect("made");
    world.write("dir/clash", "a file");
    let ran = run(&["-v", "copy", "dir", &a.at("in/")]);
    let line =
        ran.err.lines().find(|line| line.contains(": incomplete, ")).unwrap_or_else(|| panic!("{ran:?}"));
    assert_says(line, &["1 failed: cannot create dir/clash"]);
}
