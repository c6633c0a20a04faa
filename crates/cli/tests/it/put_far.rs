//! What endpoints, and hosts that ssh reaches, have is put to servers: trees, filters, versions, faults, kills, sessions.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use testkit::moto::Moto;
use testkit::{noise, skip};

use crate::common::service::Service;
use crate::common::sshd::{Sshd, user};
use crate::common::{Ran, World, eventually, finish, signal, wait};
use crate::copy_from_servers::{failed, files};
use crate::put::{parts, start, summary, tidegate};
use crate::put_chosen::dav;

const MIB: usize = 1 << 20;

fn copy(world: &World, server: &Moto, words: &[&str]) -> Ran {
    finish(tidegate(world, server).arg("copy").args(words))
}

/// What the bucket holds beneath `prefix`.
fn objects(moto: &Moto, prefix: &str) -> BTreeMap<String, Vec<u8>> {
    let keys = moto.keys().into_iter().filter_map(|key| key.strip_prefix(prefix).map(str::to_owned));
    keys.map(|key| (key.clone(), moto.get(&format!("{prefix}{key}")).expect("it is listed"))).collect()
}

fn fill(world: &World, root: &str) {
    world.fill(format!("{root}/tree/large"), 19 * MIB + 7, 1);
    world.write(format!("{root}/tree/empty"), "");
    for n in 0..300 {
        world.fill(format!("{root}/tree/sub{}/file {n}+%#?.dat", n % 7), 37 * n, n as u64 + 2);
    }
    world.write(format!("{root}/tree/deep/er/é x.tmp"), "odd");
    fs::create_dir(world.path(format!("{root}/tree/nothing"))).expect("made");
}

#[test]
fn a_tree_of_an_endpoint_arrives_in_a_bucket_and_is_there_the_second_time() {
    let test = "a_tree_of_an_endpoint_arrives_in_a_bucket_and_is_there_the_second_time";
    let Some((world, moto)) = start(test) else { return };
    fill(&world, "there");
    // Fewer sessions than there are readers: those that there are do it.
    let endpoint = world.endpoint("there", &["--sessions", "3"]);
    let words = ["--json", "--optimizer=fixed:8", &endpoint.at("tree/"), "s3://bucket/in/"];
    let ran = copy(&world, &moto, &words);
    let said = summary(&ran.out);
    assert_eq!(
        (ran.code, &said["files"]["ok"], &said["verified"]),
        (0, &303.into(), &true.into()),
        "{ran:?}"
    );
    assert_eq!(objects(&moto, "in/"), files(&world.path("there/tree")));
    let kept = moto.ask("HEAD", "bucket/in/empty", b"");
    assert!(kept.header("x-amz-meta-mtime").is_some(), "times go along");
    let ran = copy(&world, &moto, &words);
    assert_eq!((ran.code, &summary(&ran.out)["files"]["skipped"]), (0, &303.into()), "{ran:?}");
    // Whole directories keep their names, single files get one, and filters choose.
    for (words, keys) in [
        (&["tree/deep", "s3://bucket/1/"][..], &["1/deep/er/é x.tmp"][..]),
        (&["tree/empty", "s3://bucket/2"], &["2"]),
        (&["tree/empty", "s3://bucket/3/"], &["3/empty"]),
        (&["--exclude=sub*", "--max-size=99", "tree/", "s3://bucket/4/"], &["4/deep/er/é x.tmp", "4/empty"]),
        (
            &["--exclude=*.tmp", "--exclude=sub*", "--exclude=large", "tree", "s3://bucket/5/"],
            &["5/tree/empty"],
        ),
        (&["--existing", "tree/", "s3://bucket/6/"], &[]),
    ] {
        let words: Vec<String> = words
            .iter()
            .map(|word| if word.starts_with("tree") { endpoint.at(word) } else { (*word).to_owned() })
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ran = copy(&world, &moto, &[&["-q"][..], &words].concat());
        assert!(ran.code == 0 && ran.err.is_empty(), "{words:?}: {ran:?}");
        let prefix = words.last().expect("some").trim_start_matches("s3://bucket/");
        let found: Vec<String> = moto.keys().into_iter().filter(|key| key.starts_with(prefix)).collect();
        assert_eq!(found, keys, "{words:?}");
    }
    world.write("list", "deep\nempty\nabsent\n");
    let ran = copy(&world, &moto, &["--files-from", "list", &endpoint.at("tree/"), "s3://bucket/7/"]);
    assert!(ran.code == 1 && ran.err.contains("absent: there is no such file"), "{ran:?}");
    assert_eq!(objects(&moto, "7/").into_keys().collect::<Vec<_>>(), ["deep/er/é x.tmp", "empty"]);
    let ran = copy(&world, &moto, &["-n", "--exclude=sub*", &endpoint.at("tree/"), "s3://bucket/8/"]);
    assert!(
        ran.code == 0 && ran.out.ends_with("3 files, 19 MiB would be sent, 0 there already\n"),
        "{ran:?}"
    );
}

#[test]
fn a_remembered_endpoint_is_copied_to_webdav_and_links_are_told() {
    let test = "a_remembered_endpoint_is_copied_to_webdav_and_links_are_told";
    let world = World::new();
    fill(&world, "there");
    let wanted = files(&world.path("there/tree"));
    symlink("large", world.path("there/tree/link")).expect("linked");
    symlink("not/there", world.path("there/tree/broken")).expect("linked");
    let Some(nginx) = dav(&world) else { return skip(test, "nginx is not installed") };
    let endpoint = world.endpoint("there", &[]);
    world.ok(&["remote", "add", "dtn", &endpoint.at("")]);
    let to = nginx.url("dav/in/").to_string();
    let ran = world.run(&["copy", "--json", "dtn:/tree/", &to]);
    assert_eq!((ran.code, &summary(&ran.out)["verified"]), (0, &true.into()), "{ran:?}");
    assert!(ran.err.contains("a link, which is not followed at an endpoint"), "{ran:?}");
    assert_eq!(files(&world.path("www/dav/in")), wanted);
    let ran = world.run(&["copy", "-q", "--links=skip", "dtn:/tree/", &to]);
    assert!(ran.code == 0 && ran.err.is_empty(), "{ran:?}");
}

#[test]
fn what_cannot_be_from_afar_is_refused_in_one_line() {
    let Some((world, moto)) = start("what_cannot_be_from_afar_is_refused_in_one_line") else { return };
    fill(&world, "there");
    world.write("here", "here");
    let endpoint = world.endpoint("there", &[]);
    let from = endpoint.at("tree/");
    for (words, wanted) in [
        (&["-x"][..], "--one-file-system is for directories of this host"),
        (&["--links=follow"], "links at an endpoint are left out"),
        (&["-f", ": .rules"], "rules that are read from files of each directory"),
        (&["--move"], "--move removes files of this host once they are put"),
        (&["here"], "all sources of one copy must be local"),
        (&["https://h/x"], "is at no server, and other sources are"),
    ] {
        failed(&copy(&world, &moto, &[words, &[&from, "s3://bucket/in/"]].concat()), 2, wanted);
    }
    for (from, code, wanted) in
        [("absent/", 3, "absent"), ("../x", 5, ""), ("tree/empty/", 2, "is no directory")]
    {
        failed(&copy(&world, &moto, &[&endpoint.at(from), "s3://bucket/in/"]), code, wanted);
    }
    let secret = endpoint.secret().to_owned();
    let ran = copy(&world, &moto, &[&from, "s3://nobucket/in/"]);
    assert!(ran.code == 1 && ran.err.contains("NoSuchBucket") && !ran.err.contains(&secret), "{ran:?}");
    assert_eq!(moto.keys(), [""; 0]);
    let place = endpoint.at("tree/");
    endpoint.terminate();
    let ran = copy(&world, &moto, &["--retry-for=0s", &place, "s3://bucket/in/"]);
    assert!(ran.code == 1 && ran.err.lines().count() == 1 && !ran.err.contains(&secret), "{ran:?}");
}

/// Starts an upload that is slow enough to be disturbed.
fn slow(world: &World, moto: &Moto, from: &str) -> Command {
    let mut command = tidegate(world, moto);
    command.args([
        "put",
        "--json",
        "--part-size=5MiB",
        "--limit-rate=40Mbit/s",
        "--start=2",
        from,
        "s3://bucket/in/",
    ]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_file_that_changes_at_its_endpoint_is_not_mixed() {
    let Some((world, moto)) = start("a_file_that_changes_at_its_endpoint_is_not_mixed") else { return };
    world.fill("there/big", 42 * MIB, 1);
    let endpoint = world.endpoint("there", &[]);
    moto.put("in/big", b"of before");
    let child = slow(&world, &moto, &endpoint.at("big")).spawn().expect("started");
    eventually(|| parts(&moto).0 >= 1);
    world.fill("there/big", 42 * MIB, 2);
    let ran = wait(child);
    let said = summary(&ran.out);
    assert_eq!((ran.code, &said["failures"][0]["kind"]), (1, &"changed".into()), "{ran:?}");
    assert_eq!(moto.get("in/big").as_deref(), Some(&b"of before"[..]));
    assert!(!moto.uploads().contains("<Upload>"), "nothing of it stays");
    assert_eq!(copy(&world, &moto, &["-q", &endpoint.at("big"), "s3://bucket/in/"]).code, 0);
    assert!(moto.get("in/big") == Some(world.read("there/big")));
}

#[test]
fn an_upload_that_was_killed_or_lost_its_endpoint_goes_on_exactly() {
    let test = "an_upload_that_was_killed_or_lost_its_endpoint_goes_on_exactly";
    let Some((world, moto)) = start(test) else { return };
    world.fill("there/big", 42 * MIB, 1);
    let port = testkit::ports::free_port();
    let listen = format!("127.0.0.1:{port}");
    let endpoint = world.endpoint_at("there", &listen, &[]);
    let from = endpoint.at("big");
    let child = slow(&world, &moto, &from).spawn().expect("started");
    eventually(|| parts(&moto).0 >= 2);
    signal(child.id(), Signal::KILL);
    assert_eq!(wait(child).code, -1);
    assert_eq!(moto.get("in/big"), None, "it has a name before it is whole");
    // The next one finds what is there, and outlives its endpoint.
    let child = slow(&world, &moto, &from).spawn().expect("started");
    let before = parts(&moto).0;
    eventually(|| parts(&moto).0 > before);
    signal(endpoint.id(), Signal::KILL);
    drop(endpoint);
    std::thread::sleep(Duration::from_millis(700));
    let endpoint = world.endpoint_at("there", &listen, &[]);
    let ran = wait(child);
    let said = summary(&ran.out);
    assert!(ran.code == 0 && said["bytes"].as_u64() < Some(40 * MIB as u64), "{ran:?}");
    assert!(moto.get("in/big") == Some(world.read("there/big")));
    // One that does not come back fails the file; the next run goes on.
    world.write("there/big", noise(9, 42 * MIB));
    let mut command = slow(&world, &moto, &from);
    let child = command.arg("--retry-for=1s").spawn().expect("started");
    eventually(|| parts(&moto).0 >= 1);
    drop(endpoint);
    let ran = wait(child);
    assert!(ran.code == 1, "{ran:?}");
    assert!(moto.get("in/big") != Some(world.read("there/big")));
}

#[test]
fn a_job_puts_what_an_endpoint_has() {
    let Some((world, moto)) = start("a_job_puts_what_an_endpoint_has") else { return };
    fill(&world, "there");
    let endpoint = world.endpoint("there", &[]);
    let environment = [
        ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        ("AWS_ENDPOINT_URL_S3", &moto.endpoint()),
    ];
    let service = Service::start_in(&world, "serves", &[], &environment);
    let ran = service.run(
        &world,
        &["submit", &endpoint.at("tree/"), "s3://bucket/q/", "--exclude=sub*", "--exclude=large", "--wait"],
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(objects(&moto, "q/").into_keys().collect::<Vec<_>>(), ["deep/er/é x.tmp", "empty"]);
}

#[test]
fn a_host_that_ssh_reaches_is_copied_to_a_bucket() {
    let Some((world, moto)) = start("a_host_that_ssh_reaches_is_copied_to_a_bucket") else { return };
    let Some(sshd) = Sshd::start(&world, "a_host_that_ssh_reaches_is_copied_to_a_bucket") else { return };
    fill(&world, "sshd/home");
    for way in ["auto", "ssh"] {
        let (from, to) = (format!("{}@dtn:tree/", user()), format!("s3://bucket/{way}/"));
        let words = ["--json", "--ssh", &sshd.command, "--via", way, &from, &to];
        let ran = copy(&world, &moto, &words);
        assert_eq!((ran.code, &summary(&ran.out)["files"]["ok"]), (0, &303.into()), "{way}: {ran:?}");
        assert_eq!(objects(&moto, &format!("{way}/")), files(&world.path("sshd/home/tree")), "{way}");
        eventually(|| sshd.running() == 0);
    }
    let absolute = world.path("sshd/home/tree/empty");
    let from = format!("{}@dtn:{}", user(), absolute.display());
    let ran = copy(&world, &moto, &["-q", "--ssh", &sshd.command, &from, "s3://bucket/one"]);
    assert!(ran.code == 0 && moto.get("one").is_some(), "{ran:?}");
    let ran =
        copy(&world, &moto, &["--ssh", &sshd.command, &format!("{}@dtn:absent", user()), "s3://bucket/x"]);
    failed(&ran, 3, "absent");
    assert!(ran.err.contains("dtn"), "as it was typed: {ran:?}");
}
