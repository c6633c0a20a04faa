//! What `copy --dry-run` says: what a copy then does, and what rsync would say; and that it changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::common::{Ran, Server, World};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};
use serde_json::Value;
use tidegate_control::Rng;

/// What can be seen of an entry, the time of its last access aside.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    inode: u64,
    mode: u32,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

fn seen(root: &Path) -> BTreeMap<String, Seen> {
    fn walk(path: &Path, name: &str, found: &mut BTreeMap<String, Seen>) {
        let Ok(about) = fs::symlink_metadata(path) else { return };
        let seen = Seen {
            inode: about.ino(),
            mode: about.mode(),
            size: about.size(),
            modified: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
        };
        found.insert(name.to_owned(), seen);
        if about.is_dir() {
            for entry in fs::read_dir(path).expect("listed").flatten() {
                let inner = entry.file_name().to_string_lossy().into_owned();
                let inner = if name.is_empty() { inner } else { format!("{name}/{inner}") };
                walk(&entry.path(), &inner, found);
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(root, "", &mut found);
    found
}

/// The entries of a dry run by path, and its summary.
fn plan(ran: &Ran) -> (BTreeMap<String, Value>, Value) {
    assert!(ran.err.is_empty(), "{ran:?}");
    let mut lines: Vec<Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let summary = lines.pop().expect("a summary");
    assert_eq!(summary["dry_run"], true, "{summary}");
    let entries = lines.into_iter().map(|line| (line["path"].as_str().expect("a path").to_owned(), line));
    (entries.collect(), summary)
}

fn draw(rng: &mut Rng, most: u64) -> u64 {
    rng.next_u64() % most
}

fn set_time(path: &Path, seconds: u64) {
    let file = fs::File::open(path).expect("opened");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("set");
}

/// Gives what was changed just now a time of long ago, in whole seconds: rsync does not see less of directories and links.
fn set_back(root: &Path, rng: &mut Rng) {
    for (name, about) in seen(root) {
        if about.modified.0 > 1_500_000_000 {
            let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
            let then = Timespec { tv_sec: 1_300_000_000 + draw(rng, 1000) as i64, tv_nsec: 0 };
            let times = Timestamps { last_access: omit, last_modification: then };
            utimensat(CWD, root.join(&name), &times, AtFlags::SYMLINK_NOFOLLOW).expect("set");
        }
    }
}

/// A tree of some directories, files and links.
fn plant(root: &Path, rng: &mut Rng) {
    fs::create_dir_all(root).expect("made");
    let mut directories = vec![root.to_path_buf()];
    for number in 0..4 {
        let parent = directories[draw(rng, directories.len() as u64) as usize].join(format!("d {number}"));
        fs::create_dir(&parent).expect("made");
        directories.push(parent);
    }
    for number in 0..14 {
        let path = directories[draw(rng, directories.len() as u64) as usize].join(format!("f{number}"));
        if draw(rng, 4) == 0 {
            symlink(format!("t{number}"), &path).expect("linked");
            continue;
        }
        fs::write(&path, vec![number as u8; draw(rng, 3000) as usize]).expect("written");
        set_time(&path, 1_000_000_000 + draw(rng, 1000));
    }
    set_back(root, rng);
}

/// Changes about half of a tree's entries, in every way that a file can come to differ.
fn disturb(root: &Path, rng: &mut Rng) {
    for (name, about) in seen(root) {
        let path = root.join(&name);
        let is_link = about.mode & 0o170_000 == 0o120_000;
        let is_directory = about.mode & 0o170_000 == 0o040_000;
        match draw(rng, 14) {
            0 if is_directory => set_time(&path, 1_100_000_000 + draw(rng, 1000)),
            1 if is_directory => fs::set_permissions(&path, PermissionsExt::from_mode(0o750)).expect("set"),
            2 | 3 if is_directory => fs::write(path.join("new"), name).expect("written"),
            4 if is_directory => symlink("anywhere", path.join("new link")).expect("linked"),
            _ if is_directory => {}
            0 | 1 => fs::remove_file(&path).expect("removed"),
            2 => {
                fs::remove_file(&path).expect("removed");
                symlink("elsewhere", &path).expect("linked");
            }
            3 if is_link => {
                fs::remove_file(&path).expect("removed");
                fs::write(&path, "no link").expect("written");
            }
            _ if is_link => {}
            3 => fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("set"),
            4 => set_time(&path, 1_200_000_000 + draw(rng, 1000)),
            5 => fs::write(&path, vec![b'y'; about.size as usize]).expect("written"),
            6 => fs::write(&path, vec![b'z'; about.size as usize + 1]).expect("written"),
            _ => {}
        }
    }
    set_back(root, rng);
}

/// What a copy did to a destination: what was made, what got another content or target, what another time or mode.
fn done(before: &BTreeMap<String, Seen>, after: &BTreeMap<String, Seen>) -> BTreeMap<String, &'static str> {
    let what = |(name, now): (&String, &Seen)| {
        let what = match before.get(name) {
            None => "new",
            Some(was) if was.inode != now.inode => "replaced",
            Some(was) if (was.mode, was.modified) != (now.mode, now.modified) => "set",
            Some(_) => "same",
        };
        (name.clone(), what)
    };
    after.iter().filter(|(name, _)| !name.is_empty()).map(what).collect()
}

/// The same as a dry run says it.
fn said(entries: &BTreeMap<String, Value>) -> BTreeMap<String, &'static str> {
    let what = |(path, entry): (&String, &Value)| {
        let differs =
            |word: &str| entry["differs"].as_array().is_some_and(|all| all.iter().any(|one| one == word));
        let replaced = entry["sent"] == true || differs("target") || differs("kind");
        let what = match entry["action"].as_str().expect("a word") {
            "new" => "new",
            "changed" if replaced => "replaced",
            "changed" => "set",
            "same" => "same",
            other => panic!("{other}: {entry}"),
        };
        (path.clone(), what)
    };
    entries.iter().map(what).collect()
}

/// Where one case copies from and to, and the directory that is.
struct Route {
    from: String,
    to: String,
    destination: String,
}

fn routes(case: usize, (a, b): (&Server, &Server)) -> [Route; 4] {
    let route = |from: String, to: String, destination: String| Route { from, to, destination };
    let source = format!("a/src{case}/");
    let [local, push, pull, third] =
        ["local", "push", "pull", "third"].map(|name| format!("{name}{case}/in"));
    [
        route(source.clone(), format!("{local}/"), local),
        route(source, b.at(&format!("{push}/")), format!("b/{push}")),
        route(a.at(&format!("src{case}/")), format!("{pull}/"), pull),
        route(a.at(&format!("src{case}/")), b.at(&format!("{third}/")), format!("b/{third}")),
    ]
}

/// What rsync would touch, comparing contents: whether each path would be sent or made.
fn rsync(world: &World, from: &str, to: &str) -> BTreeSet<String> {
    let listed =
        Command::new("rsync").args(["-acni8", from, to]).current_dir(world.path("")).output().expect("runs");
    assert!(listed.status.success(), "{listed:?}");
    let out = String::from_utf8(listed.stdout).expect("text");
    let path =
        |line: &str| Some(line.split_once(' ')?.1.split(" -> ").next()?.trim_end_matches('/').to_owned());
    out.lines().filter_map(path).filter(|path| path != ".").collect()
}

#[test]
fn what_is_said_is_what_a_copy_then_does_and_nothing_is_changed() {
    if !testkit::has("what_is_said_is_what_a_copy_then_does_and_nothing_is_changed", &["rsync"]) {
        return;
    }
    let seed: u64 = 27;
    println!("seed {seed}");
    let world = World::new();
    let (a, b) = (world.endpoint("a", &[]), world.endpoint("b", &[]));
    // A first run of ours makes its keys.
    world.write("one", "1");
    world.ok(&["copy", "-q", "one", "two/"]);
    let everything = || {
        let mut all = seen(&world.path(""));
        // They write as they serve, and nothing of it is state.
        all.retain(|name, _| !name.ends_with(".log"));
        all
    };
    let dry = |options: &[&str], route: &Route| {
        let before = everything();
        let arguments = [&["copy", "-nv", "--json"], options, &[&route.from, &route.to]].concat();
        let mut ran = world.run(&arguments);
        // That an endpoint of ours served it is said with -v.
        ran.err.clear();
        assert_eq!(ran.code, 0, "{ran:?}");
        let after = everything();
        let differs = |name: &&String| before.get(*name) != after.get(*name);
        let changed: Vec<_> = before.keys().chain(after.keys()).filter(differs).collect();
        assert!(changed.is_empty(), "{arguments:?}: {changed:?}");
        plan(&ran)
    };
    for case in 0..5 {
        let mut rng = Rng::new(seed + case as u64);
        let source = world.path(format!("a/src{case}"));
        plant(&source, &mut rng);
        for route in routes(case, (&a, &b)) {
            let (entries, summary) = dry(&[], &route);
            let all = seen(&source).len() - 1;
            assert_eq!((entries.len(), summary["failed"].as_u64()), (all, Some(0)), "{}", route.to);
            assert!(said(&entries).values().all(|what| *what == "new"), "{}: {entries:?}", route.to);
            world.ok(&["copy", "-q", &route.from, &route.to]);
            assert!(said(&dry(&[], &route).0).values().all(|what| *what == "same"), "{}", route.to);
            let mut theirs = Rng::new(seed + 100 + case as u64);
            disturb(&world.path(&route.destination), &mut theirs);
        }
        disturb(&source, &mut rng);
        let options: &[&str] = if case % 2 == 0 { &[] } else { &["--checksum"] };
        for route in routes(case, (&a, &b)) {
            let destination = world.path(&route.destination);
            let rsyncs = rsync(&world, &format!("a/src{case}/"), &format!("{}/", route.destination));
            let (entries, summary) = dry(options, &route);
            let before = seen(&destination);
            world.ok(&[&["copy", "-q"], options, &[&route.from, &route.to]].concat());
            let mut did = done(&before, &seen(&destination));
            did.retain(|name, _| entries.contains_key(name) || seen(&source).contains_key(name));
            assert_eq!(said(&entries), did, "{options:?} to {}", route.to);
            let sent = entries.values().filter(|entry| entry["sent"] == true);
            let bytes: u64 = sent.filter_map(|entry| entry["bytes"].as_u64()).sum();
            assert_eq!(summary["sent_bytes"].as_u64(), Some(bytes));
            if !options.is_empty() {
                let touched = entries.iter().filter(|(_, entry)| entry["action"] != "same");
                let touched: BTreeSet<String> = touched.map(|(path, _)| path.clone()).collect();
                assert_eq!(touched, rsyncs, "to {}", route.to);
            }
        }
    }
}

#[test]
fn what_a_mirror_would_remove_is_said_on_every_route_and_stays() {
    let world = World::new();
    let (a, b) = (world.endpoint("a", &[]), world.endpoint("b", &[]));
    let state = world.text("b.state");
    let ticket = |more: &[&str]| {
        world.ok(&[&["ticket", &b.place(), "--state", &state][..], more].concat()).trim_end().to_owned()
    };
    let may = ticket(&["--delete"]);
    for name in ["a/src/kept", "a/src/d/kept", "a/src/d/sub/kept"] {
        world.write(name, name);
    }
    let extraneous = ["d/sub/x", "e", "e/f", "e/f/x", "e/l", "x"];
    let there = [("local", ""), ("push", "b/"), ("pull", ""), ("third", "b/")];
    for (name, top) in there {
        let top = world.text(&format!("{top}{name}"));
        for kept in ["kept", "d/kept", "d/sub/kept", "d/sub/x", "e/f/x", "x", "y.o"] {
            world.write(format!("{top}/{kept}"), "something else");
        }
        symlink("nowhere", format!("{top}/e/l")).expect("linked");
    }
    for (name, from, to) in [
        ("local", "a/src/".to_owned(), "local/".to_owned()),
        ("b/push", "a/src/".to_owned(), format!("{may}push/")),
        ("pull", a.at("src/"), "pull/".to_owned()),
        ("b/third", a.at("src/"), format!("{may}third/")),
    ] {
        let before = seen(&world.path(name));
        let mirror = ["--delete", "--exclude=*.o", &from, &to];
        let (entries, summary) = plan(&world.run(&[&["copy", "-n", "--json"][..], &mirror].concat()));
        let goes = entries.iter().filter(|(_, entry)| entry["action"] == "delete");
        let goes: Vec<&String> = goes.map(|(path, _)| path).collect();
        assert_eq!(goes, extraneous, "{name}");
        let kinds = ["d/sub/x", "e", "e/l"].map(|path| entries[path]["kind"].as_str().expect("a kind"));
        assert_eq!((kinds, &entries["x"]["bytes"]), (["file", "directory", "link"], &14.into()));
        let counted = ["files", "directories", "links"].map(|kind| summary["delete"][kind].as_u64());
        assert_eq!(counted, [Some(3), Some(2), Some(1)], "{name}: {summary}");
        assert_eq!(seen(&world.path(name)), before, "{name}");
        // No more is named than would go, and that more is to go is no success.
        let ran = world.run(&[&["copy", "-n", "--max-delete=2"][..], &mirror].concat());
        let named = ran.out.lines().filter(|line| line.starts_with("delete")).count();
        assert_eq!((ran.code, named), (1, 2), "{name}: {ran:?}");
        assert!(ran.err.contains("4 more would go") && !ran.out.contains("cannot be copied"), "{ran:?}");
        world.ok(&[&["copy", "-q"][..], &mirror].concat());
        let after = seen(&world.path(name));
        let gone = before.keys().filter(|path| !after.contains_key(*path));
        assert_eq!(gone.collect::<Vec<_>>(), extraneous, "{name}");
    }
    // Whose ticket does not allow it is not told what is there, either.
    let ran = world.run(&["copy", "-n", "--delete", "a/src/", &b.at("push/")]);
    assert!(ran.code == 5 && ran.out.is_empty() && ran.err.contains("ticket --delete"), "{ran:?}");
    // Nothing is there yet.
    let (entries, _) = plan(&world.run(&["copy", "-n", "--json", "--delete", "a/src/", "nowhere/"]));
    assert!(entries.values().all(|entry| entry["action"] == "new") && !world.path("nowhere").exists());
}

#[test]
fn what_a_copy_would_leave_out_or_fail_at_is_said_so() {
    let world = World::new();
    for name in ["src/a", "src/b.o", "src/d/e", "src/f"] {
        world.write(name, name);
    }
    world.write("there/src/a", "longer than what is there");
    world.write("there/src/d", "no directory");
    let dry = |options: &[&str], from: &str, to: &str| {
        let ran = world.run(&[&["copy", "-n"], options, &[from, to]].concat());
        (ran.code, ran.out, ran.err)
    };
    let (code, out, err) = dry(&["--exclude=*.o"], "src", "there/");
    assert_eq!((code, err.lines().count()), (1, 2), "{out}{err}");
    assert!(err.contains("cannot create the directory src/d: a file or link of that name is there"), "{err}");
    assert!(!out.contains("b.o") && out.contains("2 cannot be copied"), "{out}");
    let (code, out, _) = dry(&["--existing", "--exclude=d"], "src", "there/");
    assert!(code == 0 && out.contains("src/a") && !out.contains("src/f"), "{out}");
    let whole = fs::read_dir(world.path("there/src")).expect("listed").count();
    assert_eq!(whole, 2, "{:?}", world.tree("there"));
    // A list that is no list is not followed by a sum.
    let (code, out, err) = dry(&[], "missing", "there/");
    assert!(code == 3 && out.is_empty() && err.lines().count() == 1, "{out}{err}");
    let (code, out, err) = dry(&[], "src", "src/d/");
    assert!(code == 2 && out.is_empty() && err.contains("into itself"), "{out}{err}");
    let (code, object) = world.json(&["copy", "-n", "missing", "there/"]);
    assert_eq!((code, &object["status"], &object["error_kind"]), (3, &"failed".into(), &"not_found".into()));
    let (code, _, err) = dry(&["--epochs", "log"], "src", "there/");
    assert!(code == 2 && err.contains("--epochs"), "{err}");
}

#[test]
fn after_an_interruption_it_says_what_is_left_to_send() {
    let world = World::new();
    let a = world.endpoint("a", &[]);
    for (from, to, there) in [("one/", "to/".to_owned(), "to"), ("two/", a.at("to/"), "a/to")] {
        world.write(format!("{from}small"), "x");
        world.ok(&["copy", from, &to]);
        world.fill(format!("{from}large"), 24 << 20, 1);
        let mut copy = world.command();
        let copy = copy.args(["copy", "--limit-link", "16Mbit/s", from, &to]).stdout(Stdio::null());
        let mut running = copy.spawn().expect("started");
        // A record of segments has a hash and more; nothing else is recorded.
        let is_recorded = || {
            let work = fs::read_dir(world.path(there).join(".tidegate")).ok()?.next()?.ok()?;
            Some(fs::metadata(work.path().join("journal")).ok()?.len() > 64)
        };
        let begun = Instant::now();
        while is_recorded() != Some(true) {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing of it is recorded");
            thread::sleep(Duration::from_millis(50));
        }
        running.kill().and_then(|()| running.wait()).expect("killed");
        // The endpoint may have to find out that it was.
        let said = loop {
            let ran = world.run(&["copy", "-n", "--json", from, &to]);
            if !ran.out.contains("is under way") {
                break plan(&ran);
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{ran:?}");
            thread::sleep(Duration::from_millis(50));
        };
        let bytes = said.1["sent_bytes"].as_u64().expect("a number");
        assert!(said.0.keys().eq(["large"]) && bytes < 24 << 20, "{to}: {said:?}");
        let (code, copied) = world.json(&["copy", from, &to]);
        assert_eq!((code, &copied["bytes"]), (0, &bytes.into()), "{to}: {copied}");
        let (_, summary) = plan(&world.run(&["copy", "-n", "--json", from, &to]));
        assert_eq!((&summary["sent_files"], &summary["sent_bytes"]), (&0.into(), &0.into()));
    }
}

#[test]
fn a_list_that_is_refused_before_it_begins_is_one_object_of_its_kind() {
    let world = World::new();
    world.write("src/file", "x");
    let lines = [
        ("copy", ["src/", "b/a/../../c/"], "cannot use the destination b/a/../../c/"),
        ("copy", ["src/", "none:/x"], "no endpoint is called 'none'"),
        #[cfg(feature = "put")]
        ("put", ["src/", "s3://bucket-without-a-region-or-keys/"], ""),
    ];
    for (command, paths, why) in lines {
        let (code, object) = world.json(&[command, "--dry-run", paths[0], paths[1]]);
        assert_ne!(code, 0, "{object}");
        assert_eq!(object["dry_run"], true, "{object}");
        assert!(object["error"].as_str().is_some_and(|error| error.contains(why)), "{object}");
        assert!(object.get("optimizer").is_none() && object["error_kind"].is_string(), "{object}");
    }
}

#[test]
fn what_is_left_out_of_a_run_that_is_refused_is_not_told() {
    let world = World::new();
    world.write("src/file", "x");
    let fifo = Command::new("mkfifo").arg(world.path("src/fifo")).status().expect("ran");
    assert!(fifo.success());
    let endpoint = world.endpoint("root", &[]);
    let state = world.state_of("root");
    let writer =
        world.ok(&["ticket", "--state", state.to_str().expect("text"), "--write-only", &endpoint.place()]);
    for _ in 0..5 {
        for (words, why) in [
            (vec!["verify", "src/", &endpoint.at("none/")], "none"),
            (vec!["verify", "src/", "none/"], "none"),
            (vec!["copy", "-n", "src/", writer.trim_end()], "a dry run would tell what is here"),
        ] {
            let ran = world.run(&words);
            assert_eq!(ran.err.lines().count(), 1, "{words:?}: {ran:?}");
            assert!(ran.code != 0 && ran.err.contains(why), "{words:?}: {ran:?}");
        }
    }
    // Of one that is not, it is.
    let ran = world.run(&["copy", "-n", "src/", &endpoint.address]);
    assert!(ran.code == 0 && ran.err.contains("left out fifo"), "{ran:?}");
}
