//! What `tidegate copy` and `tidegate verify` do, on every route.

use crate::common;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{World, eventually, finish};
use testkit::mounted::Mounted;
use testkit::skip;

/// A world with a small tree in `dir`.
fn with_tree() -> World {
    let world = World::new();
    world.fill("dir/large", 5_000_000, 1);
    world.write("dir/deep/er/small", "small");
    world.write("dir/empty", "");
    fs::create_dir_all(world.path("dir/hollow")).expect("made");
    symlink("deep/er/small", world.path("dir/link")).expect("linked");
    world
}

const TREE: [&str; 7] = ["deep/", "deep/er/", "deep/er/small", "empty", "hollow/", "large", "link"];

#[test]
fn a_trailing_slash_means_the_contents_on_every_route() {
    let world = with_tree();
    let (a, b) = (world.endpoint("a", &[]), world.endpoint("b", &[]));
    let at_a = |path: &str| a.at(path);
    world.ok(&["copy", "dir", "local/"]);
    world.ok(&["copy", "dir/", "local/contents/"]);
    world.ok(&["copy", "dir", &at_a("push/")]);
    world.ok(&["copy", "dir/", &at_a("push/contents")]);
    world.ok(&["copy", &at_a("push/dir"), "pull/"]);
    world.ok(&["copy", &at_a("push/dir/"), "pull/contents"]);
    world.ok(&["copy", &at_a("push/dir"), &b.at("third/")]);
    world.ok(&["copy", &at_a("push/dir/"), &b.at("third/contents/")]);
    // As for rsync and cp, a dot at the end says the same.
    world.ok(&["copy", "dir/.", "local/contents"]);
    world.ok(&["copy", "dir/./.", &at_a("push/contents/")]);
    world.ok(&["copy", &at_a("push/dir/."), "pull/contents/."]);
    for place in ["local", "a/push", "pull", "b/third"] {
        for name in ["dir", "contents"] {
            assert_eq!(world.tree(format!("{place}/{name}")), TREE, "{place}/{name}");
        }
        assert_eq!(world.read(format!("{place}/dir/large")), world.read("dir/large"));
        assert_eq!(world.tree(place).len(), 16, "nothing else is left in {place}");
    }
    // The endpoint's whole root, and several sources at it.
    world.ok(&["copy", &a.address, "all/"]);
    assert_eq!(world.tree("all/push/dir"), TREE);
    world.ok(&["copy", &at_a("push/dir/empty"), &at_a("push/dir/deep"), "some/"]);
    assert_eq!(world.tree("some"), ["deep/", "deep/er/", "deep/er/small", "empty"]);
}

#[test]
fn one_file_may_be_given_a_name() {
    let world = with_tree();
    let (a, b) = (world.endpoint("a", &[]), world.endpoint("b", &[]));
    fs::create_dir_all(world.path("there")).expect("made");
    world.ok(&["copy", "dir/large", "renamed"]);
    world.ok(&["copy", "dir/large", "there"]);
    world.ok(&["copy", "dir/large", "new/"]);
    world.ok(&["copy", "dir/large", &a.at("renamed")]);
    world.ok(&["copy", "dir/large", &a.at("new/")]);
    world.ok(&["copy", "dir/deep/er/small", &a.at("new")]);
    world.ok(&["copy", &a.at("renamed"), "back"]);
    world.ok(&["copy", &a.at("renamed"), "there"]);
    world.ok(&["copy", &a.at("renamed"), &b.at("third")]);
    world.ok(&["copy", &a.at("new/small"), &b.at("new/")]);
    let large = world.read("dir/large");
    for name in [
        "renamed",
        "there/large",
        "new/large",
        "a/renamed",
        "a/new/large",
        "back",
        "there/renamed",
        "b/third",
    ] {
        assert!(world.read(name) == large, "{name}");
    }
    for name in ["a/new/small", "b/new/small"] {
        assert_eq!(world.read(name), b"small", "{name}");
    }
}

#[test]
fn several_sources_go_into_one_directory() {
    let world = with_tree();
    let a = world.endpoint("a", &[]);
    world.write("other/file", "file");
    world.ok(&["copy", "dir/large", "dir/deep", "other/", &a.at("in")]);
    assert_eq!(world.tree("a/in"), ["deep/", "deep/er/", "deep/er/small", "file", "large"]);
    for bad in [vec!["other/file", "dir/../other/file"], vec!["other", &a.address]] {
        let ran = world.run(&[&["copy"], &bad[..], &["local/"]].concat());
        assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{ran:?}");
        assert!(!ran.err.contains(a.secret()));
    }
}

#[test]
fn modes_times_and_links_are_kept() {
    let world = with_tree();
    let a = world.endpoint("a", &[]);
    fs::set_permissions(world.path("dir/large"), fs::Permissions::from_mode(0o751)).expect("set");
    fs::set_permissions(world.path("dir/hollow"), fs::Permissions::from_mode(0o700)).expect("set");
    world.ok(&["copy", "dir", &a.address]);
    for name in ["large", "hollow", "deep/er", "empty"] {
        let (from, to) = (world.path("dir").join(name), world.path("a/dir").join(name));
        let (from, to) = (fs::metadata(from).expect("there"), fs::metadata(to).expect("there"));
        assert_eq!((from.mode(), from.mtime(), from.mtime_nsec()), (to.mode(), to.mtime(), to.mtime_nsec()));
    }
    assert_eq!(fs::read_link(world.path("a/dir/link")).expect("a link").to_str(), Some("deep/er/small"));
    world.ok(&["copy", "--links", "skip", "dir/", "skipped"]);
    assert!(!world.path("skipped/link").exists());
    world.ok(&["copy", "--links", "follow", "dir/", "followed"]);
    assert!(world.path("followed/link").symlink_metadata().expect("there").is_file());
    assert_eq!(world.read("followed/link"), b"small");
    // A link out of the tree is kept as it is, and never followed.
    symlink("/etc/hostname", world.path("dir/out")).expect("linked");
    world.ok(&["copy", "dir/", "kept"]);
    assert!(world.path("kept/out").symlink_metadata().expect("there").is_symlink());
    let ran = world.run(&["copy", "--links", "follow", "dir/", "unfollowed"]);
    assert!(ran.code == 1 && ran.err.contains("points out of the source tree"), "{ran:?}");
    assert!(!world.path("unfollowed/out").exists());
}

#[test]
fn a_directory_that_is_made_is_no_more_open_than_the_one_it_is_made_for() {
    let world = World::new();
    world.write("private/inner/file", "x");
    for name in ["private", "private/inner"] {
        fs::set_permissions(world.path(name), fs::Permissions::from_mode(0o700)).expect("set");
    }
    let mode = |name: &str| fs::metadata(world.path(name)).expect("there").mode() & 0o777;
    let (a, b) = (world.endpoint("a", &[]), world.endpoint("b", &[]));
    for (from, to, made) in [
        ("private/".to_owned(), "local/".to_owned(), "local"),
        ("private/".to_owned(), a.at("pushed/"), "a/pushed"),
        (a.at("pushed/"), "pulled".to_owned(), "pulled"),
        (a.at("pushed/"), b.at("third/"), "b/third"),
        ("private/".to_owned(), "new/and/deep/".to_owned(), "new/and/deep"),
    ] {
        world.ok(&["copy", &from, &to]);
        assert_eq!((mode(made), mode(&format!("{made}/inner"))), (0o700, 0o700), "{to}");
    }
    // One that was there is somebody's, and one that is written to is no more open meanwhile than at the end.
    fs::create_dir(world.path("there")).expect("made");
    fs::set_permissions(world.path("there"), fs::Permissions::from_mode(0o750)).expect("set");
    world.ok(&["copy", "private/", "there/"]);
    assert_eq!(mode("there"), 0o750);
    fs::set_permissions(world.path("private/inner"), fs::Permissions::from_mode(0o500)).expect("set");
    world.ok(&["copy", "private/", "closed/"]);
    assert_eq!(mode("closed/inner"), 0o500);
    // Who shares a directory by its group goes on to.
    fs::create_dir(world.path("shared")).expect("made");
    fs::set_permissions(world.path("shared"), fs::Permissions::from_mode(0o2775)).expect("set");
    world.ok(&["copy", "private", "shared/"]);
    assert_eq!(fs::metadata(world.path("shared/private/inner")).expect("there").mode() & 0o7777, 0o2500);
}

#[test]
fn what_is_read_only_is_completed_by_a_later_run_of_somebody_who_is_not_root() {
    const NOBODY: u32 = 65534;
    let world = World::new();
    for name in ["from/closed/a", "from/closed/deep/b", "to/closed/old/x"] {
        world.write(name, name);
    }
    fs::write(world.path("from/late"), "x").expect("written");
    let is_root = fs::metadata(world.path("from")).expect("there").uid() == 0;
    let run = |arguments: &[&str]| {
        let mut command = world.command();
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        finish(command.args(arguments))
    };
    let close = |mode| {
        for name in ["from/closed/deep", "from/closed"] {
            fs::set_permissions(world.path(name), fs::Permissions::from_mode(mode)).expect("set");
        }
    };
    close(0o555);
    fs::set_permissions(world.path("to/closed/old"), fs::Permissions::from_mode(0o555)).expect("set");
    if is_root {
        own(&world.path(""), NOBODY);
    }
    let ran = run(&["copy", "from/", "to/"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(world.read("to/closed/deep/b"), b"from/closed/deep/b");
    // What is new in them arrives, and what is gone goes.
    close(0o755);
    fs::remove_file(world.path("from/closed/a")).expect("removed");
    world.write("from/closed/deep/c", "new");
    close(0o555);
    if is_root {
        own(&world.path("from"), NOBODY);
    }
    let ran = run(&["copy", "--delete", "--max-delete=9", "from/", "to/"]);
    assert!(ran.code == 0 && ran.out.contains("3 deleted"), "{ran:?}");
    assert_eq!(world.tree("to"), ["closed/", "closed/deep/", "closed/deep/b", "closed/deep/c", "late"]);
    let mode = |name: &str| fs::metadata(world.path(name)).expect("there").mode() & 0o777;
    assert_eq!((mode("to/closed"), mode("to/closed/deep")), (0o555, 0o555));
    // So does the directory whose contents were asked for, and nothing of ours stays in it.
    for (new, there) in
        [("e", &["deep/", "deep/b", "deep/c", "e"][..]), ("f", &["deep/", "deep/b", "deep/c", "e", "f"])]
    {
        close(0o755);
        world.write(format!("from/closed/{new}"), new);
        close(0o555);
        if is_root {
            own(&world.path("from"), NOBODY);
        }
        let ran = run(&["copy", "from/closed/", "top/"]);
        assert_eq!((ran.code, mode("top")), (0, 0o555), "{ran:?}");
        assert_eq!(world.tree("top"), there);
        assert_eq!(
            fs::read_dir(world.path("top")).expect("listed").count(),
            there.len() - 2,
            "nothing of ours"
        );
    }
}

#[test]
fn what_would_lie_beneath_a_mount_is_refused_before_it_is_sent() {
    let world = World::new();
    for (path, content) in
        [("from/in/file", "new"), ("from/in/same", "same"), ("from/out", "out"), ("other/same", "same")]
    {
        world.write(path, content);
    }
    fs::create_dir_all(world.path("to/in")).expect("made");
    let Some(_mounted) = Mounted::bind(&world.path("other"), &world.path("to/in")) else {
        return skip("what_would_lie_beneath_a_mount_is_refused_before_it_is_sent", "nothing can be mounted");
    };
    let why = "another file system is mounted there";
    for options in [&["--dry-run"][..], &[], &["--checksum", "--dry-run"], &["--checksum"]] {
        let ran = finish(world.command().args(["copy", "--delete"]).args(options).args(["from/", "to/"]));
        assert!(ran.code == 1 && ran.err.contains(why), "{options:?}: {ran:?}");
        assert!(ran.err.contains("cannot create in/file"), "{options:?}: {ran:?}");
    }
    assert_eq!(world.tree("to"), ["in/", "in/same", "out"]);
    // So is a download.
    let list = format!("url,path\nfile://{},in/got\n", world.text("from/out"));
    world.write("list.csv", list);
    let ran = finish(world.command().args(["get", "list.csv", "-o", "to"]));
    assert!(ran.code == 5 && ran.err.contains(why), "{ran:?}");
    // What is there and the same is no file to create.
    assert_eq!(finish(world.command().args(["verify", "from/in/same", "to/in/same"])).code, 0);
}

/// Gives all beneath `path` to a user.
fn own(path: &Path, user: u32) {
    std::os::unix::fs::lchown(path, Some(user), Some(user)).expect("given");
    if path.symlink_metadata().expect("there").is_dir() {
        for entry in fs::read_dir(path).expect("listed") {
            own(&entry.expect("listed").path(), user);
        }
    }
}

#[test]
fn no_device_pipe_or_socket_is_replaced() {
    let world = World::new();
    world.write("file", "x");
    world.write("tree/pipe", "x");
    symlink("file", world.path("tree/socket")).expect("linked");
    let a = world.endpoint("a", &[]);
    for place in ["to", "a/to"] {
        fs::create_dir_all(world.path(place)).expect("made");
        let made = Command::new("mkfifo").arg(world.path(place).join("pipe")).status();
        assert!(made.is_ok_and(|status| status.success()));
        drop(std::os::unix::net::UnixListener::bind(world.path(place).join("socket")).expect("bound"));
    }
    let (pipe, null) = (a.at("to/pipe"), "/dev/null".to_owned());
    for to in ["to/pipe", &pipe, &null] {
        let ran = world.run(&["copy", "file", to]);
        assert!(ran.code != 0 && ran.err.contains("will not replace"), "{to}: {ran:?}");
    }
    for to in ["to/", &a.at("to/")] {
        for dry in [&["--dry-run"][..], &[]] {
            let ran = world.run(&[&["copy"], dry, &["tree/", to]].concat());
            assert_eq!((ran.code, ran.err.matches("will not replace").count()), (1, 2), "{to}: {ran:?}");
        }
    }
    for place in ["to", "a/to"] {
        let kind =
            |name: &str| fs::symlink_metadata(world.path(place).join(name)).expect("there").file_type();
        assert!(kind("pipe").is_fifo() && kind("socket").is_socket());
    }
    assert!(fs::symlink_metadata("/dev/null").expect("there").file_type().is_char_device());
}

#[test]
fn what_is_no_file_is_left_out_with_one_line_on_every_route_and_without_one_by_quiet() {
    let world = World::new();
    world.write("tree/file", "x");
    let (a, b) = (world.endpoint("a", &[]), world.endpoint("b", &[]));
    world.write("a/tree/file", "x");
    let _sockets = ["tree", "a/tree"].map(|place| {
        let made = Command::new("mkfifo").arg(world.path(place).join("pipe")).status();
        assert!(made.is_ok_and(|status| status.success()));
        std::os::unix::net::UnixListener::bind(world.path(place).join("socket")).expect("bound")
    });
    let routes = [
        ("tree/".to_owned(), "local/".to_owned()),
        ("tree/".to_owned(), a.at("pushed/")),
        (a.at("tree/"), "pulled/".to_owned()),
        (a.at("tree/"), b.at("third/")),
    ];
    for (from, to) in &routes {
        for more in [&["-n"][..], &[], &["--json"]] {
            let ran = world.run(&[&["copy", from, to], more].concat());
            let said: Vec<_> = ran.err.lines().filter(|line| line.contains("left out ")).collect();
            assert_eq!((ran.code, said.len()), (0, 2), "{from} {to} {more:?}: {ran:?}");
            for name in ["pipe", "socket"] {
                let line = format!("left out {name}: neither a file, a directory nor a link");
                assert!(said.iter().any(|said| said.contains(&line)), "{from} {to} {more:?}: {ran:?}");
            }
            let ran = world.run(&[&["copy", "-q", from, to], more].concat());
            assert_eq!((ran.code, &ran.err[..]), (0, ""), "{from} {to} {more:?}: {ran:?}");
        }
    }
}

#[test]
fn a_second_run_moves_only_what_changed() {
    let world = with_tree();
    let (a, b) = (world.endpoint("a", &[]), world.endpoint("b", &[]));
    for (from, to) in [
        ("dir/".to_owned(), "local/".to_owned()),
        ("dir/".to_owned(), a.at("x/")),
        (a.at("x/"), "back/".to_owned()),
        (a.at("x/"), b.at("y/")),
    ] {
        let run = |more: &[&str]| {
            let (code, seen) = world.json(&[&["copy", &from, &to], more].concat());
            let files = &seen["files"];
            let number = |name: &str| files[name].as_u64().expect("a number");
            (
                code,
                number("total"),
                number("ok"),
                number("skipped"),
                seen["bytes"].as_u64().expect("a number"),
            )
        };
        assert_eq!(run(&[]), (0, 3, 3, 0, 5_000_005), "{to}");
        assert_eq!(run(&[]), (0, 3, 0, 3, 0), "{to}");
        assert_eq!(run(&["--checksum"]), (0, 3, 0, 3, 0), "{to}");
    }
    world.write("dir/empty", "no more");
    let out = world.ok(&["copy", "dir/", "local/"]);
    assert!(out.starts_with("1 file, 7 B, all verified in ") && out.contains("2 there already"), "{out}");
    let out = world.ok(&["copy", "dir/", "local/"]);
    assert!(out.starts_with("nothing to do: 3 files there already"), "{out}");
}

#[test]
fn a_mode_or_a_time_alone_is_set_on_the_next_run() {
    let world = with_tree();
    let a = world.endpoint("a", &[]);
    for (there, to) in [("local", "local/".to_owned()), ("a/x", a.at("x/"))] {
        world.ok(&["copy", "dir/", &to]);
        fs::set_permissions(world.path("dir/empty"), fs::Permissions::from_mode(0o700)).expect("set");
        let out = world.ok(&["copy", "dir/", &to]);
        assert!(out.starts_with("nothing to send: 3 files there already, mode or time set of 1,"), "{out}");
        let large = fs::File::options().append(true).open(world.path("dir/large")).expect("opened");
        large.set_modified(std::time::UNIX_EPOCH).expect("set");
        let (code, seen) = world.json(&["copy", "dir/", &to]);
        assert_eq!((code, seen["bytes"].as_u64(), seen["files"]["ok"].as_u64()), (0, Some(0), Some(0)));
        assert_eq!(seen["files"]["refreshed"].as_u64(), Some(1));
        for name in ["empty", "large"] {
            let (from, to) = (world.path("dir").join(name), world.path(there).join(name));
            let (from, to) = (fs::metadata(from).expect("there"), fs::metadata(to).expect("there"));
            assert_eq!((from.mode(), from.mtime()), (to.mode(), to.mtime()), "{there}/{name}");
        }
        fs::set_permissions(world.path("dir/empty"), fs::Permissions::from_mode(0o644)).expect("set");
        large.set_modified(std::time::SystemTime::now()).expect("set");
    }
}

#[test]
fn checksum_and_verify_find_what_size_and_time_hide() {
    let world = with_tree();
    let a = world.endpoint("a", &[]);
    let there = a.at("x/");
    world.ok(&["copy", "dir/", &there]);
    world.ok(&["verify", "dir/", &there]);
    let path = world.path("a/x/large");
    let times = fs::metadata(&path).expect("there").modified().expect("known");
    let mut content = world.read("a/x/large");
    content[2_500_000] ^= 1;
    fs::write(&path, content).expect("written");
    fs::File::options().write(true).open(&path).expect("opened").set_modified(times).expect("set");
    fs::remove_file(world.path("a/x/empty")).expect("removed");
    world.write("a/x/more", "not looked at");

    let (code, seen) = world.json(&["verify", "dir/", &there]);
    assert_eq!((code, &seen["status"], &seen["verified"]), (1, &"incomplete".into(), &false.into()));
    assert_eq!((seen["files"]["total"].as_u64(), seen["files"]["failed"].as_u64()), (Some(3), Some(2)));
    let mut kinds: Vec<_> = seen["failures"].as_array().expect("a list").iter().collect();
    kinds.sort_by_key(|failure| failure["path"].as_str());
    assert_eq!((&kinds[0]["path"], &kinds[0]["kind"]), (&"empty".into(), &"not_found".into()));
    assert_eq!((&kinds[1]["path"], &kinds[1]["kind"]), (&"large".into(), &"corrupt".into()));
    let ran = world.run(&["verify", &there, "dir/"]);
    assert!(ran.code == 1 && ran.out.starts_with("2 of 3 files missing or different"), "{ran:?}");

    // Trusting size and time, the copy sees one of the two; reading, it sees both.
    let (code, seen) = world.json(&["copy", "dir/", &there]);
    assert_eq!((code, seen["files"]["ok"].as_u64()), (0, Some(1)));
    let (code, seen) = world.json(&["copy", "--checksum", "dir/", &there]);
    assert_eq!((code, seen["files"]["ok"].as_u64()), (0, Some(1)));
    world.ok(&["verify", "dir/", &there]);
    assert!(world.read("a/x/large") == world.read("dir/large"));
}

#[test]
fn verify_writes_nothing() {
    let world = with_tree();
    let a = world.endpoint("a", &[]);
    assert_eq!(world.run(&["verify", "dir/", &a.at("nowhere/")]).code, 3);
    assert_ne!(world.run(&["verify", "dir/", "nowhere/"]).code, 0);
    assert!(world.tree("a").is_empty() && !world.path("nowhere").exists());
}

#[test]
fn endpoints_are_remembered_by_name() {
    let world = with_tree();
    let (a, b) = (world.endpoint("a", &[]), world.endpoint("b", &[]));
    world.ok(&["remote", "add", "dtn-1", &a.address]);
    let mut command = world.command();
    command.args(["remote", "add", "other"]).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    let mut input = child.stdin.take().expect("piped");
    std::io::Write::write_all(&mut input, format!("{}\n", b.at("sub/")).as_bytes()).expect("written");
    drop(input);
    assert_eq!(common::wait(child).code, 0);
    let file = world.path("config/tidegate/remotes.json");
    assert_eq!(fs::metadata(&file).expect("there").mode() & 0o777, 0o600);

    let out = world.ok(&["remote", "list"]);
    assert_eq!(out, format!("dtn-1  tg://{}/\nother  tg://{}/sub/\n", a.place(), b.place()));
    let (_, list) = world.json(&["remote", "list"]);
    assert_eq!(list["dtn-1"].as_str(), Some(format!("tg://{}/", a.place()).as_str()));

    world.ok(&["copy", "dir", "dtn-1:/in/"]);
    world.ok(&["copy", "dtn-1:in/dir/empty", "back"]);
    world.ok(&["copy", "dtn-1:/in/dir", "other:/x/"]);
    assert_eq!(world.tree("a/in/dir"), TREE);
    assert_eq!(world.tree("b/sub/x/dir"), TREE);
    // The environment comes first, and names are not told apart by case or punctuation there.
    let ran = finish(world.command().env("TIDEGATE_REMOTE_DTN_1", &b.address).args([
        "copy",
        "dir/empty",
        "dtn-1:from-env",
    ]));
    assert!(ran.code == 0 && world.path("b/from-env").exists(), "{ran:?}");
    // A local name with a colon.
    world.write("dtn-1:x", "local");
    world.ok(&["copy", "./dtn-1:x", "plain"]);
    assert_eq!(world.read("plain"), b"local");

    world.ok(&["remote", "remove", "dtn-1"]);
    for (arguments, word) in [
        (vec!["copy", "dir", "dtn-1:/in/"], "no endpoint is called 'dtn-1'"),
        (vec!["remote", "remove", "dtn-1"], "no endpoint is called 'dtn-1'"),
        (vec!["remote", "add", "a/b", &a.address], "cannot be a name"),
        (vec!["remote", "add", "c", "tg://nonsense@x/"], "the ticket is damaged"),
    ] {
        let ran = world.run(&arguments);
        assert_eq!((ran.code, ran.err.lines().count(), ran.err.contains(word)), (2, 1, true), "{ran:?}");
    }
}

#[test]
fn any_name_is_copied_and_shown_safely() {
    let world = World::new();
    let a = world.endpoint("a", &[]);
    let longest = [b'z'; 255];
    let names: [&[u8]; 6] = [b"-rf", b"new\nline", b"\x1b[31mred", b"\xff\xfe", b"tg:x", &longest];
    for name in names {
        world.write(Path::new("odd").join(OsStr::from_bytes(name)), name);
    }
    world.ok(&["copy", "odd/", &a.at("x/")]);
    world.ok(&["copy", &a.at("x/"), "back"]);
    for name in names {
        assert_eq!(world.read(Path::new("back").join(OsStr::from_bytes(name))), name);
    }
    world.ok(&["copy", "--", "odd/-rf", "-dash"]);
    assert_eq!(world.read("-dash"), b"-rf");
    let missing = OsStr::from_bytes(b"a\x1b[31m\xff\nb");
    let ran = world.run(&[OsStr::new("copy"), missing, OsStr::new("x")]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (3, "tidegate: cannot read a\\x1b[31m\\xff\\x0ab: No such file or directory\n")
    );
    let ran = world.run(&["verify", "odd/", "odd2"]);
    assert!(ran.err.lines().all(|line| line.starts_with("tidegate: ")), "{ran:?}");
}

/// Has the kernel refuse locks of files for a program, as Lustre does without `-o flock` (ENOSYS) and NFS without its daemon
/// (ENOLCK): a seccomp filter that answers `flock` with an error.
const WITHOUT_LOCKS: &str = "\
import ctypes, errno, os, platform, struct, sys
number = {'x86_64': 73, 'aarch64': 32}[platform.machine()]
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | getattr(errno, sys.argv[1])), (0x06, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *rule) for rule in rules))
libc, program = ctypes.CDLL(None), ctypes.create_string_buffer(struct.pack('HxxxxxxQ', len(rules), ctypes.addressof(code)))
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0): sys.exit(77)
os.execv(sys.argv[2], sys.argv[2:])
";

fn without_locks(world: &World, error: &str, words: &[&str]) -> Command {
    let plain = world.command();
    let mut command = Command::new("python3");
    command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(world.path("")).stdin(Stdio::null());
    command.args(["-c", WITHOUT_LOCKS, error]).arg(plain.get_program()).args(words);
    command
}

#[test]
fn where_there_are_no_locks_owner_files_take_their_place() {
    let test = "where_there_are_no_locks_owner_files_take_their_place";
    let world = with_tree();
    for error in ["ENOSYS", "ENOLCK"] {
        let ran = finish(&mut without_locks(&world, error, &["copy", "dir/", &format!("{error}/")]));
        if ran.code == 77 || ran.err.contains("No such file") {
            return skip(test, "no filter of system calls can be set");
        }
        let said: Vec<&str> = ran.err.lines().collect();
        assert!(ran.code == 0 && said.len() == 1 && said[0].contains("has no locks"), "{ran:?}");
        assert_eq!(world.tree(error), TREE);
        let again =
            finish(&mut without_locks(&world, error, &["copy", "dir/", &format!("{error}/"), "--json"]));
        let again: serde_json::Value = serde_json::from_str(&again.out).expect("JSON");
        assert_eq!(again["files"]["skipped"], 3, "{again}");
    }
    // One at a time; of one that was killed the next goes on at once.
    let slowly = ["copy", "dir/", "slow/", "--limit-link", "8Mbit/s", "--optimizer", "fixed:1"];
    let mut first = without_locks(&world, "ENOLCK", &slowly);
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    let owners = || world.tree("slow").iter().filter(|name| name.ends_with("owner-journal")).count();
    eventually(|| world.path("slow").exists() && owners() == 1);
    for locks in [true, false] {
        let ran = match locks {
            true => world.run(&slowly),
            false => finish(&mut without_locks(&world, "ENOLCK", &slowly)),
        };
        assert!(ran.code != 0 && ran.err.contains("is in use"), "{ran:?}");
    }
    first.kill().expect("killed");
    let _ = first.wait();
    assert_eq!(owners(), 1);
    let ran = finish(&mut without_locks(&world, "ENOLCK", &["copy", "dir/", "slow/"]));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(world.tree("slow"), TREE);
    let ran =
        finish(&mut without_locks(&world, "ENOLCK", &["clean", "--older-than", "0s", "slow", "ENOSYS"]));
    assert!(ran.code == 0 && ran.out.contains("no unfinished"), "{ran:?}");
}
