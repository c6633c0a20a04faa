//! `tidegate put` as people run it: killed, interrupted, run again; exit codes and the JSON contract.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use crate::common::{World, eventually, finish, signal, wait};
use rustix::process::Signal;
use serde_json::Value;
use testkit::moto::{Moto, NO_MOTO};
use testkit::scripted::{Scripted, Then, http};
use testkit::{noise, skip};

const MIB: usize = 1 << 20;

/// `tidegate put` with keys for `server` and with nothing of the tester's own.
fn command(world: &World, server: &Moto) -> Command {
    let mut command = tidegate(world, server);
    command.arg("put");
    command
}

/// The same without its first word.
pub(crate) fn tidegate(world: &World, server: &Moto) -> Command {
    let mut command = world.command();
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
        command.env_remove(name);
    }
    command
        .env("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
        .env("AWS_ENDPOINT_URL_S3", server.endpoint());
    command
}

pub(crate) fn summary(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// How many parts of the one upload under way are there, and how many bytes.
pub(crate) fn parts(server: &Moto) -> (usize, usize) {
    let xml = server.uploads();
    let Some(id) = xml.split("<UploadId>").nth(1).and_then(|rest| rest.split('<').next()) else {
        return (0, 0);
    };
    let path = format!("bucket/in/big?uploadId={id}");
    let xml = server.ask("GET", &path, b"").text();
    let (parts, _) = tidegate_fetch::remote::s3::answer::parts(&xml).unwrap_or_default();
    (parts.len(), parts.iter().map(|part| part.bytes as usize).sum())
}

/// A world and an S3 server, unless there is none here and `test` is skipped.
pub(crate) fn start(test: &str) -> Option<(World, Moto)> {
    let server = Moto::start();
    if server.is_none() {
        skip(test, NO_MOTO);
    }
    server.map(|server| (World::new(), server))
}

/// Starts an upload slow enough to be stopped, and waits until some parts are there.
fn begun(world: &World, server: &Moto) -> Child {
    let mut command = command(world, server);
    command.args(["--json", "--part-size", "5MiB", "--limit-rate", "40Mbit/s", "--start", "2"]);
    command.arg(world.path("big")).arg("s3://bucket/in/");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    eventually(|| parts(server).0 >= 2);
    child
}

#[test]
fn an_upload_that_was_killed_goes_on_with_the_parts_that_are_there() {
    let Some((world, server)) = start("an_upload_that_was_killed_goes_on_with_the_parts_that_are_there")
    else {
        return;
    };
    let data = noise(11, 42 * MIB);
    world.write("big", &data);
    for how in [Signal::KILL, Signal::INT] {
        let child = begun(&world, &server);
        signal(child.id(), how);
        let ran = wait(child);
        match how {
            Signal::KILL => assert_eq!(ran.code, -1),
            _ => {
                assert_eq!(ran.code, 130, "{}", ran.err);
                assert_eq!(summary(&ran.out)["status"], "interrupted", "{}", ran.out);
            }
        }
        let (there, bytes) = parts(&server);
        assert!((2..9).contains(&there), "{there}");
        assert_eq!(server.get("in/big"), None, "nothing under its name");
        let mut again = command(&world, &server);
        let again =
            again.args(["--json", "--part-size", "5MiB"]).arg(world.path("big")).arg("s3://bucket/in/");
        let ran = finish(again);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let result = summary(&ran.out);
        assert_eq!((&result["status"], &result["verified"]), (&"complete".into(), &true.into()));
        let fresh = result["bytes"].as_u64().expect("a number") as usize;
        // A busy server may have one part sent twice.
        assert!(fresh + bytes <= data.len() + 5 * MIB, "{fresh} sent again, {bytes} were there");
        assert!(server.get("in/big").as_ref() == Some(&data));
        assert!(!server.uploads().contains("<Upload>"), "{}", server.uploads());
        server.ask("DELETE", "bucket/in/big", b"");
    }
}

#[test]
fn a_copy_to_a_server_is_what_put_does() {
    let Some((world, server)) = start("a_copy_to_a_server_is_what_put_does") else { return };
    world.write("dir/a", "1");
    world.write("dir/sub/b", "22");
    let copy = |arguments: &[&str]| finish(tidegate(&world, &server).arg("copy").args(arguments));
    let ran = copy(&["--json", "--staging=64MiB", "--limit-link", "800Mbit/s", "dir", "s3://bucket/in/"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(summary(&ran.out)["files"]["ok"], 2);
    assert_eq!(server.get("in/dir/sub/b").as_deref(), Some(&b"22"[..]));
    let again = copy(&["--checksum", "dir/", "s3://bucket/in/dir/"]);
    assert!(again.code == 0 && again.out.contains("there already"), "{again:?}");
}

#[test]
fn what_people_get_wrong_is_said_in_one_line() {
    let Some((world, server)) = start("what_people_get_wrong_is_said_in_one_line") else { return };
    world.write("one", "1");
    let one = world.text("one");
    let cases: [(&[&str], i32, &str); 9] = [
        (&[&one, "ftp://me:secret@host/x"], 2, "none of s3://bucket/prefix/"),
        (&[&one, "relative/path"], 2, "none of s3://bucket/prefix/"),
        (&[&one, "s3://me:secret@bucket/x"], 2, "environment"),
        (&[&one, "s3://bucket/x?y"], 2, "%3F"),
        (&[&one], 2, "destination"),
        (&[&one, "s3://bucket/", "--part-size", "1MiB"], 2, "5MiB"),
        (&[&one, "s3://bucket/", "--s3-endpoint", "ftp://x"], 2, "endpoint"),
        (&["not/there", "s3://bucket/"], 3, "not/there"),
        (&[&one, "s3://no-such-bucket/"], 1, "NoSuchBucket"),
    ];
    for (args, code, text) in cases {
        let ran = finish(command(&world, &server).args(args));
        assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
        assert!(ran.err.contains(text) && !ran.err.contains("secret"), "{args:?}: {}", ran.err);
        assert_eq!(ran.err.lines().count(), 1, "{args:?}: {}", ran.err);
    }
    let nobody = finish(
        command(&world, &server)
            .env("AWS_PROFILE", "x")
            .env_remove("AWS_ACCESS_KEY_ID")
            .args([&one, "s3://bucket/"]),
    );
    assert_eq!((nobody.code, nobody.err.contains("AWS_PROFILE")), (5, true), "{}", nobody.err);
}

#[test]
fn a_dry_run_says_what_would_be_sent_and_sends_nothing() {
    let Some((world, server)) = start("a_dry_run_says_what_would_be_sent_and_sends_nothing") else { return };
    world.write("tree/a", "a");
    world.write("tree/b/c", "cc");
    server.put("in/a", b"a");
    let put = |more: &[&str]| {
        let ran = finish(command(&world, &server).arg(world.text("tree/")).arg("s3://bucket/in").args(more));
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.out
    };
    assert_eq!(put(&["--dry-run"]), "b/c  2 B\n1 file, 2 B would be sent, 1 there already\n");
    let plan = summary(&put(&["--dry-run", "--json"]));
    assert_eq!(plan["files"], serde_json::json!([{"path": "b/c", "bytes": 2}]));
    assert_eq!(server.keys(), ["in/a"]);
    let text = put(&["--epochs", &world.text("epochs")]);
    assert!(text.starts_with("1 file, 2 B, all verified in "), "{text}");
    assert_eq!(server.keys(), ["in/a", "in/b/c"]);
    assert!(put(&[]).starts_with("nothing to do: 2 files there already"));
}

/// `get` from `server`, with JSON.
fn get(world: &World, endpoint: &str, arguments: &[&str]) -> (i32, Value) {
    let mut command = world.command();
    command
        .env("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
        .args(["get", "--json", "--s3-endpoint", endpoint, "--no-sidecars"])
        .args(arguments);
    let ran = finish(&mut command);
    (ran.code, summary(&ran.out))
}

#[test]
fn what_was_put_beneath_a_prefix_is_got_from_there() {
    let Some((world, server)) = start("what_was_put_beneath_a_prefix_is_got_from_there") else { return };
    let files = [("a", noise(1, 3 * MIB)), ("b c/d%", noise(2, 70_000)), ("b c/empty", Vec::new())];
    let times = [
        UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789),
        UNIX_EPOCH - Duration::from_millis(1500),
        UNIX_EPOCH + Duration::from_secs(981_173_106),
    ];
    let place = |name: &str| world.path(format!("tree/{name}"));
    for ((name, data), time) in files.iter().zip(times) {
        world.write(format!("tree/{name}"), data);
        let file = std::fs::File::options().write(true).open(place(name)).expect("opened");
        file.set_modified(time).expect("set");
    }
    let put = finish(command(&world, &server).arg(world.text("tree")).arg("s3://bucket/in/"));
    assert_eq!(put.code, 0, "{}", put.err);
    let out = world.text("out");
    let (code, got) = get(&world, &server.endpoint(), &["s3://bucket/in/", "-o", &out]);
    assert_eq!((code, &got["verified"], &got["unchecked"]), (0, &true.into(), &Value::Null), "{got}");
    let modified = |path: std::path::PathBuf| {
        std::fs::metadata(path).and_then(|about| about.modified()).expect("a time")
    };
    for (name, data) in &files {
        assert!(&world.read(format!("out/tree/{name}")) == data, "{name}");
        assert_eq!(modified(world.path(format!("out/tree/{name}"))), modified(place(name)), "{name}");
    }
    // Without what was remembered of it, its sums tell that it is the same.
    let state = world.text("elsewhere");
    let (code, got) = get(&world, &server.endpoint(), &["s3://bucket/in/", "-o", &out, "--state", &state]);
    assert_eq!((code, &got["files"]["skipped"], &got["verified"]), (0, &3.into(), &true.into()), "{got}");

    // What went in parts has a tag that is made of their MD5s.
    world.write("large", noise(3, 6 * MIB));
    let mut put = command(&world, &server);
    let put = finish(put.args(["--part-size", "5MiB"]).arg(world.text("large")).arg("s3://bucket/"));
    assert_eq!(put.code, 0, "{}", put.err);
    let (code, got) = get(&world, &server.endpoint(), &["s3://bucket/large", "-o", &out]);
    assert_eq!((code, &got["verified"], &got["unchecked"]), (0, &true.into(), &Value::Null), "{got}");
    assert_eq!(modified(world.path("out/large")), modified(world.path("large")));
}

#[test]
fn an_object_that_is_not_what_its_tag_says_gets_no_name() {
    let tag = "\"25f9e794323b453885f5181f1b624d0b\"";
    for (more, code) in [(("x-other", "1"), 1), (("x-amz-server-side-encryption", "aws:kms"), 0)] {
        let server = Scripted::http(move |_| {
            let lines = [("content-length", "9"), ("etag", tag), more];
            (http("200 OK", &lines, b"987654321"), Then::Keep)
        });
        let world = World::new();
        let endpoint = server.url("").to_string();
        let (ended, got) =
            get(&world, &endpoint, &["s3://bucket/x", "-o", &world.text("out"), "--retries", "0"]);
        assert_eq!((ended, world.path("out/x").exists()), (code, code == 0), "{more:?}: {got}");
        if code != 0 {
            assert_eq!(got["failures"][0]["kind"], "corrupt", "{got}");
        }
    }
}

#[test]
fn what_a_server_refuses_ends_with_the_code_for_that() {
    let world = World::new();
    world.write("one", "1");
    for (status, code) in [("403 Forbidden", 5), ("401 Unauthorized", 5), ("405 Method Not Allowed", 1)] {
        let server =
            Scripted::with_bodies(move |_, _| (http(status, &[("Content-Length", "0")], b""), Then::Keep));
        let ran = world.run(&["put", "one", server.url("in/").as_str(), "--retries", "0"]);
        assert!(ran.code == code && ran.err.contains(&status[..3]), "{status}: {ran:?}");
    }
}
