//! What servers have is put to other servers: trees, keys, versions, faults, kills, numbers of connections.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use rustix::process::Signal;
use serde_json::Value;
use testkit::moto::Moto;
use testkit::nginx::Nginx;
use testkit::scripted::{Scripted, Then, http};
use testkit::vsftpd::{Security, Vsftpd};
use testkit::{noise, skip};

use crate::common::service::Service;
use crate::common::{Ran, World, eventually, finish, signal, wait};
use crate::copy_from_servers::{Faulty, failed, files, small_tree};
use crate::put::{parts, start, summary, tidegate};
use crate::put_chosen::dav;

const MIB: usize = 1 << 20;

fn copy(world: &World, server: &Moto, words: &[&str]) -> Ran {
    finish(tidegate(world, server).arg("copy").args(words))
}

/// A bucket, and an nginx with a small tree; nothing where `test` cannot run.
fn both(test: &str) -> Option<(World, Moto, Nginx)> {
    let (world, moto) = start(test)?;
    small_tree(&world);
    let nginx = Nginx::with(&world.path("www"), "", "autoindex on;");
    if nginx.is_none() {
        skip(test, "nginx is not installed");
    }
    nginx.map(|nginx| (world, moto, nginx))
}

/// What the bucket holds beneath `prefix`.
fn objects(moto: &Moto, prefix: &str) -> BTreeMap<String, Vec<u8>> {
    let keys = moto.keys().into_iter().filter_map(|key| key.strip_prefix(prefix).map(str::to_owned));
    keys.map(|key| (key.clone(), moto.get(&format!("{prefix}{key}")).expect("it is listed"))).collect()
}

#[test]
fn a_tree_of_a_web_server_arrives_in_a_bucket_and_is_there_the_second_time() {
    let test = "a_tree_of_a_web_server_arrives_in_a_bucket_and_is_there_the_second_time";
    let Some((world, moto, nginx)) = both(test) else { return };
    let from = nginx.url("tree/").to_string();
    let ran = copy(
        &world,
        &moto,
        &["--json", "--max-workers=40", "--optimizer=fixed:40", &from, "s3://bucket/in/"],
    );
    let said = summary(&ran.out);
    assert_eq!(
        (ran.code, &said["files"]["ok"], &said["verified"]),
        (0, &303.into(), &true.into()),
        "{ran:?}"
    );
    assert_eq!(objects(&moto, "in/"), files(&world.path("www/tree")));
    // What its server bears, whatever the rule asks for.
    let readers = said["concurrency_mean"]["read"].as_f64().expect("a number");
    assert!(readers <= 32.0 && nginx.connections() < 40, "{said}");
    let before = nginx.requests().len();
    let ran = copy(&world, &moto, &["--json", &from, "s3://bucket/in/"]);
    assert_eq!((ran.code, &summary(&ran.out)["files"]["skipped"]), (0, &303.into()), "{ran:?}");
    let again = nginx.requests();
    assert!(again[before..].iter().all(|line| !line.contains("GET /tree/large")), "nothing is read again");
    // One file gets its name, or another.
    let large = nginx.url("tree/large").to_string();
    let empty = nginx.url("tree/empty").to_string();
    for (words, key) in [
        (vec![&large[..], "s3://bucket/one/"], "one/large"),
        (vec![&large[..], "s3://bucket/other"], "other"),
        (vec![&large[..], &empty, "s3://bucket/two/"], "two/large"),
    ] {
        assert_eq!(copy(&world, &moto, &words).code, 0, "{words:?}");
        assert!(moto.get(key).as_ref() == Some(&world.read("www/tree/large")), "{key}");
    }
    assert_eq!(moto.get("two/empty").as_deref(), Some(&b""[..]));
    // Filters, and what would be done.
    let words = ["--exclude=sub*", "--max-size=100", &from, "s3://bucket/chosen/"];
    let ran = copy(&world, &moto, &[&["-n"][..], &words].concat());
    assert!(ran.code == 0 && ran.out.ends_with("2 files, 3 B would be sent, 0 there already\n"), "{ran:?}");
    assert_eq!(copy(&world, &moto, &words).code, 0);
    let chosen: Vec<String> = objects(&moto, "chosen/").into_keys().collect();
    assert_eq!(chosen, ["deep/er/x#y?z", "empty"]);
}

#[test]
fn a_bucket_is_copied_to_another_with_the_times_of_its_files_and_not_into_itself() {
    let test = "a_bucket_is_copied_to_another_with_the_times_of_its_files_and_not_into_itself";
    let Some((world, moto)) = start(test) else { return };
    assert!(moto.ask("PUT", "other", b"").is_ok());
    for (name, size) in [("large", 11 * MIB + 3), ("empty", 0), ("a b/c+d%", 5), ("back\\slash", 7)] {
        world.fill(format!("tree/{name}"), size, 3);
    }
    assert_eq!(copy(&world, &moto, &["-q", "tree/", "s3://bucket/p/"]).code, 0);
    let ran = copy(&world, &moto, &["--json", "s3://bucket/p/", "s3://other/q/"]);
    assert_eq!((ran.code, &summary(&ran.out)["files"]["ok"]), (0, &4.into()), "{ran:?}");
    let head = |path: &str| {
        let reply = moto.ask("HEAD", path, b"");
        (reply.header("x-amz-meta-mtime").map(str::to_owned), reply.header("etag").map(str::to_owned))
    };
    for name in ["large", "empty", "a%20b/c%2Bd%25", "back%5Cslash"] {
        let (from, to) = (head(&format!("bucket/p/{name}")), head(&format!("other/q/{name}")));
        assert!(from == to && from.0.is_some(), "{name}: {from:?} {to:?}");
    }
    // A key that is no file name is told, and the rest goes on.
    moto.put("p/x//y", b"no");
    moto.put("p/../up", b"no");
    let ran = copy(&world, &moto, &["--json", "s3://bucket/p/", "s3://other/q/"]);
    let said = summary(&ran.out);
    let files = &said["files"];
    assert_eq!((ran.code, &files["skipped"], &files["failed"]), (1, &4.into(), &2.into()), "{ran:?}");
    for (from, to) in [
        ("s3://bucket/p/", "s3://bucket/p/q/"),
        ("s3://bucket/p/", "s3://bucket/p"),
        ("s3://bucket/p", "s3://bucket/"),
        ("s3://bucket", "s3://bucket/x/"),
    ] {
        failed(&copy(&world, &moto, &[from, to]), 2, "onto or into itself");
    }
}

#[test]
fn ftp_and_buckets_are_copied_to_webdav() {
    let test = "ftp_and_buckets_are_copied_to_webdav";
    let Some((world, moto)) = start(test) else { return };
    small_tree(&world);
    world.write("www/tree/-dash/ blank", "blank");
    let Some(nginx) = dav(&world) else { return skip(test, "nginx is not installed") };
    let Some(ftp) = Vsftpd::start(&world.path("www"), Security::Clear) else {
        return skip(test, "vsftpd is not installed");
    };
    let to = |name: &str| nginx.url(&format!("dav/{name}")).to_string();
    let ran = copy(&world, &moto, &["--json", ftp.url("tree/").as_ref(), &to("by ftp/")]);
    let said = summary(&ran.out);
    assert_eq!((ran.code, &said["verified"]), (0, &true.into()), "{ran:?}");
    assert_eq!(files(&world.path("www/dav/by ftp")), files(&world.path("www/tree")));
    moto.put("p/large", &noise(1, 9 * MIB));
    moto.put("p/odd #?%/empty", b"");
    let ran = copy(&world, &moto, &["-q", "s3://bucket/p/", &to("of s3/")]);
    assert!(ran.code == 0 && ran.err.is_empty(), "{ran:?}");
    assert_eq!(files(&world.path("www/dav/of s3")), objects(&moto, "p/"));
    let ran = copy(&world, &moto, &["-q", &to("of s3/"), &to("of s3/again/")]);
    failed(&ran, 2, "onto or into itself");
}

#[test]
fn a_job_copies_from_one_server_to_another() {
    let Some((world, moto)) = start("a_job_copies_from_one_server_to_another") else { return };
    moto.put("p/a.tmp", b"no");
    moto.put("p/b", b"yes");
    let environment = [
        ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        ("AWS_ENDPOINT_URL_S3", &moto.endpoint()),
    ];
    let service = Service::start_in(&world, "serves", &[], &environment);
    let ran =
        service.run(&world, &["submit", "s3://bucket/p/", "s3://bucket/q/", "--exclude=*.tmp", "--wait"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(objects(&moto, "q/"), BTreeMap::from([("b".to_owned(), b"yes".to_vec())]));
}

#[test]
fn what_servers_cannot_tell_is_refused_by_its_name() {
    let Some((world, moto, nginx)) = both("what_servers_cannot_tell_is_refused_by_its_name") else { return };
    world.write("here", "here");
    let from = nginx.url("tree/").to_string();
    for (words, code, wanted) in [
        (&["-x"][..], 2, "--one-file-system is for directories of a host"),
        (&["--links=follow"], 2, "--links follow is for directories of a host"),
        (&["-f", ": .rules"], 2, "a server's listing has none to read them from"),
        (&["--move"], 2, "--move removes files of this host once they are put"),
        (&["--delete"], 2, "--delete needs a listing that leaves nothing out"),
        (&["here"], 2, "here is at no server, and other sources are"),
    ] {
        failed(&copy(&world, &moto, &[words, &[&from, "s3://bucket/in/"]].concat()), code, wanted);
    }
    for (from, to, code, wanted) in [
        ("absent/", "s3://bucket/in/", 3, "404"),
        ("absent", "s3://bucket/in/", 3, "404"),
        ("tree/", "s3://nobucket/in/", 1, "NoSuchBucket"),
        ("tree/", "gs://bucket/in/", 2, "nothing is put to gs://bucket/in/"),
    ] {
        failed(&copy(&world, &moto, &[nginx.url(from).as_ref(), to]), code, wanted);
    }
    let nobody = format!("http://127.0.0.1:{}/x/", testkit::ports::free_port());
    let ran = copy(&world, &moto, &["--retry-for=0s", &nobody, "s3://bucket/in/"]);
    assert!(ran.code == 1 && ran.err.lines().count() == 1, "{ran:?}");
    assert_eq!(moto.keys(), [""; 0]);
}

#[test]
fn a_file_that_changes_at_its_server_is_not_mixed() {
    let Some((world, moto)) = start("a_file_that_changes_at_its_server_is_not_mixed") else { return };
    let changes = Mutex::new(Some((7, noise(4, 23 * MIB))));
    let (faulty, server) = Faulty { changes, ..Faulty::new(noise(3, 23 * MIB)) }.serve();
    faulty.cuts.store(usize::MAX, SeqCst);
    moto.put("in/x", b"of before");
    let words = ["--optimizer=fixed:2", server.url("x").as_str(), "s3://bucket/in/"].map(str::to_owned);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ran = copy(&world, &moto, &words);
    assert!(ran.code == 1 && ran.err.contains("changed"), "{ran:?}");
    assert_eq!(moto.get("in/x").as_deref(), Some(&b"of before"[..]));
    assert!(!moto.uploads().contains("<Upload>"), "nothing of it stays");
    assert_eq!(copy(&world, &moto, &words).code, 0);
    assert!(moto.get("in/x") == Some(noise(4, 23 * MIB)));
}

#[test]
fn files_that_come_in_one_answer_and_cut_connections_are_borne() {
    let test = "files_that_come_in_one_answer_and_cut_connections_are_borne";
    let Some((world, moto, nginx)) = both(test) else { return };
    world.fill("www/x", 23 * MIB + 5, 4);
    let from = nginx.url("noranges/x").to_string();
    let ran = copy(&world, &moto, &["-q", "--optimizer=fixed:4", &from, "s3://bucket/whole"]);
    assert!(ran.code == 0 && moto.get("whole") == Some(world.read("www/x")), "{ran:?}");
    // Its bytes are others with each answer, and it tells neither a tag nor a time: all of them are of one answer.
    let count = AtomicUsize::new(1);
    let server = Scripted::http(move |request| {
        let size = (13 * MIB).to_string();
        let headers = [("Content-Length", &size[..])];
        match request.lines[0].starts_with("HEAD") {
            true => (http("200 OK", &headers, b""), Then::Keep),
            false => {
                (http("200 OK", &headers, &vec![count.fetch_add(1, SeqCst) as u8; 13 * MIB]), Then::Keep)
            }
        }
    });
    let from = server.url("u").to_string();
    for _ in 0..2 {
        let words = ["-q", "--optimizer=fixed:4", &from, "s3://bucket/untold"];
        let ran = copy(&world, &moto, &words);
        let got = moto.get("untold").unwrap_or_default();
        assert!(ran.code == 0 && got.len() == 13 * MIB && got.iter().all(|&byte| byte == got[0]), "{ran:?}");
    }
    let (faulty, server) = Faulty::new(noise(5, 9 * MIB)).serve();
    faulty.cuts.store(12, SeqCst);
    let ran = copy(&world, &moto, &["-q", "--start=2", server.url("cut").as_ref(), "s3://bucket/"]);
    assert!(ran.code == 0 && moto.get("cut") == Some(noise(5, 9 * MIB)), "{ran:?}");
    assert_eq!(faulty.cuts.load(SeqCst), 0);
}

/// Starts a copy slow enough to be stopped.
fn slow(world: &World, moto: &Moto, from: &str, to: &str) -> Command {
    let mut command = tidegate(world, moto);
    command.args(["put", "-q", "--part-size=5MiB", "--limit-rate=40Mbit/s", "--start=2", from, to]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

#[test]
fn a_copy_between_servers_that_was_killed_or_lost_its_source_goes_on_exactly() {
    let test = "a_copy_between_servers_that_was_killed_or_lost_its_source_goes_on_exactly";
    let Some((world, moto)) = start(test) else { return };
    world.fill("www/d/big", 42 * MIB, 1);
    world.fill("www/d/small", 1000, 2);
    let limit = format!("location /paced/ {{ alias {}/; limit_rate 3m; }}", world.text("www/d"));
    let Some(mut nginx) = Nginx::with(&world.path("www"), "", &format!("autoindex on; {limit}")) else {
        return skip(test, "nginx is not installed");
    };
    let from = nginx.url("d/").to_string();
    for _ in 0..2 {
        let child = slow(&world, &moto, &from, "s3://bucket/in/").spawn().expect("started");
        let before = parts(&moto).0;
        eventually(|| parts(&moto).0 >= before + 2);
        signal(child.id(), Signal::KILL);
        assert_eq!(wait(child).code, -1);
        assert_eq!(moto.get("in/big"), None, "it has a name before it is whole");
    }
    let mut again = tidegate(&world, &moto);
    let ran = finish(again.args(["put", "--json", "--part-size=5MiB", &from, "s3://bucket/in/"]));
    assert_eq!(ran.code, 0, "{ran:?}");
    let bytes = summary(&ran.out)["bytes"].as_u64().expect("a number");
    assert!(bytes < 40 * MIB as u64, "what was there is kept: {bytes}");
    assert_eq!(objects(&moto, "in/"), files(&world.path("www/d")));
    // One that goes away for a while is waited for.
    let child =
        slow(&world, &moto, nginx.url("paced/big").as_ref(), "s3://bucket/again").spawn().expect("started");
    eventually(|| moto.uploads().contains("<Upload>"));
    nginx.restart();
    let ran = wait(child);
    assert!(ran.code == 0 && moto.get("again") == Some(world.read("www/d/big")), "{ran:?}");
    // One that does not come back fails the file, and what arrived waits for the next run.
    let child = {
        let mut command = slow(&world, &moto, nginx.url("paced/big").as_ref(), "s3://bucket/third");
        command.arg("--retry-for=1s").spawn().expect("started")
    };
    eventually(|| moto.uploads().contains("<Upload>"));
    drop(nginx);
    let ran = wait(child);
    assert!(ran.code == 1 && moto.get("third").is_none(), "{ran:?}");
    assert!(fs::metadata(world.path("www/d/big")).is_ok());
}

#[test]
fn both_sides_have_logins_of_their_own() {
    let Some((world, moto, nginx)) = both("both_sides_have_logins_of_their_own") else { return };
    let to = Scripted::with_bodies(|request, _| {
        // A header for the destination is not for the source.
        let token = request.header("authorization") == Some("Bearer there");
        let status = if token { "201 Created" } else { "401 Unauthorized" };
        (http(status, &[("Content-Length", "0")], b""), Then::Keep)
    });
    let mut command = tidegate(&world, &moto);
    command.args(["put", "--json", "--no-read-back", "--header=Authorization: Bearer there"]);
    let ran = finish(command.args([nginx.url("private/tree/empty").as_ref(), to.url("in/").as_ref()]));
    assert_eq!(ran.code, 5, "the token opens nothing at the source: {ran:?}");
    let value = summary(&ran.out);
    assert_eq!(value["error_kind"], Value::from("authentication"), "{value}");
}

#[test]
fn what_refusals_advise_is_an_option_of_copy() {
    let Some((world, moto, nginx)) = both("what_refusals_advise_is_an_option_of_copy") else { return };
    let endpoint = world.endpoint("there", &[]);
    let secure = nginx.secure_url("tree/empty").to_string();
    let ca = nginx.certificates().ca.display().to_string();
    let asked = |words: &[&str]| {
        let mut command = tidegate(&world, &moto);
        finish(command.env_remove("AWS_ENDPOINT_URL_S3").args(["copy", "--retry-for=0s"]).args(words))
    };
    let (there, store) = (endpoint.at("in/"), moto.endpoint());
    for to in [&there[..], "s3://bucket/in/"] {
        let ran = asked(&["--s3-endpoint", &store, &secure, to]);
        assert!(ran.code != 0 && ran.err.contains("given with --ca"), "{to}: {ran:?}");
        let ran = asked(&["-q", "--s3-endpoint", &store, "--ca", &ca, &secure, to]);
        assert!(ran.code == 0 && ran.err.is_empty(), "{to}: {ran:?}");
    }
    let words =
        ["-q", "--s3-endpoint", &store, "s3://bucket/in/", &endpoint.at("from s3/")].map(str::to_owned);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_eq!(asked(&words).code, 0);
    assert_eq!(world.tree("there"), ["from s3/", "from s3/empty", "in/", "in/empty"]);
    // A login for the destination.
    let dav = Scripted::with_bodies(|request, _| {
        let token = request.header("authorization") == Some("Bearer there");
        let status = if token { "507 Insufficient Storage" } else { "401 Unauthorized" };
        (http(status, &[("Content-Length", "0")], b""), Then::Keep)
    });
    let (from, to) = (world.text("www/tree/empty"), dav.url("in/").to_string());
    let ran = asked(&[&from, &to]);
    assert!(ran.code == 5 && ran.err.contains("a token into --header"), "{ran:?}");
    let ran = asked(&["--header", "Authorization: Bearer there", &from, &to]);
    assert!(ran.code == 4 && ran.err.contains("507"), "{ran:?}");
    for (words, wanted) in [
        (&["--ca", "x", &from, "copy"][..], "--ca is for servers, and no server is named"),
        (&["--billing-project=x", &from, &there], "--billing-project is for servers, and no server is named"),
        (&["--header=a: b", &secure, &there], "--header is for a WebDAV server as the destination"),
    ] {
        failed(&asked(words), 2, wanted);
    }
}
