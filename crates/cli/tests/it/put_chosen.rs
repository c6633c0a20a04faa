//! What of a local tree is put to servers: filter rules, lists, sizes, times, and what the destination takes of it.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use testkit::moto::Moto;
use testkit::nginx::Nginx;
use testkit::skip;

use crate::common::service::Service;
use crate::common::{Ran, World, finish};
use crate::put::{start, summary, tidegate};

/// A tree with something for each kind of rule.
fn tree(world: &World) {
    for (name, size) in
        [("a.txt", 10), ("b.tmp", 20), ("sub/c.txt", 3000), ("sub/d.tmp", 5), ("sub/e é#?.txt", 0)]
    {
        world.fill(format!("tree/{name}"), size, size as u64 + 1);
    }
    world.write("tree/.hidden/x", "x");
    world.write("tree/sub/.rules", "- c.txt\n");
    fs::create_dir(world.path("tree/empty")).expect("made");
    symlink("a.txt", world.path("tree/link")).expect("linked");
    let old = SystemTime::now() - Duration::from_secs(40 * 86_400);
    let file = File::options().write(true).open(world.path("tree/a.txt")).expect("opened");
    file.set_modified(old).expect("set");
}

/// An nginx that takes files beneath `dav/`, by moving them to their names.
pub(crate) fn dav(world: &World) -> Option<Nginx> {
    fs::create_dir_all(world.path("www/dav")).expect("made");
    let place = format!(
        "        location /dav/ {{ alias {}/; dav_methods PUT DELETE MKCOL MOVE; create_full_put_path on; autoindex on; client_max_body_size 100m; }}\n",
        world.text("www/dav")
    );
    Nginx::with(&world.path("www"), "", &place)
}

fn copy(world: &World, server: &Moto, words: &[&str]) -> Ran {
    finish(tidegate(world, server).arg("copy").args(words))
}

/// The keys that a copy of the tree leaves, relative to where it went.
fn keys_of(world: &World, server: &Moto, words: &[&str]) -> Vec<String> {
    let to = format!("s3://bucket/{}/", words.len());
    let ran = copy(world, server, &[words, &["-q", "tree/", &to]].concat());
    assert_eq!((ran.code, ran.err.lines().count()), (0, 0), "{words:?}: {ran:?}");
    let prefix = format!("{}/", words.len());
    let keys: Vec<String> =
        server.keys().iter().filter_map(|key| key.strip_prefix(&prefix).map(str::to_owned)).collect();
    for key in server.keys() {
        server.ask(
            "DELETE",
            &format!(
                "bucket/{}",
                key.replace('#', "%23").replace('?', "%3F").replace(' ', "%20").replace('é', "%C3%A9")
            ),
            b"",
        );
    }
    assert_eq!(server.keys(), [""; 0], "{words:?}");
    keys
}

#[test]
fn what_is_chosen_of_a_tree_arrives_in_a_bucket_and_nothing_else() {
    let Some((world, server)) = start("what_is_chosen_of_a_tree_arrives_in_a_bucket_and_nothing_else") else {
        return;
    };
    tree(&world);
    world.write("list", "sub\na.txt\n");
    world.write("rules", "*.tmp\n.*\n");
    let all =
        [".hidden/x", "a.txt", "b.tmp", "link", "sub/.rules", "sub/c.txt", "sub/d.tmp", "sub/e é#?.txt"];
    let cases: [(&[&str], &[&str]); 11] = [
        (&[], &all),
        (&["--exclude=*.tmp", "--no-hidden"], &["a.txt", "link", "sub/c.txt", "sub/e é#?.txt"]),
        (&["--exclude-from", "rules"], &["a.txt", "link", "sub/c.txt", "sub/e é#?.txt"]),
        (&["--include=*.tmp", "--include=*/", "--exclude=*"], &["b.tmp", "sub/d.tmp"]),
        (&["-f", ": .rules", "--exclude=*.tmp", "--no-hidden"], &["a.txt", "link", "sub/e é#?.txt"]),
        (&["--files-from", "list", "--exclude=.*"], &["a.txt", "sub/c.txt", "sub/d.tmp", "sub/e é#?.txt"]),
        (&["--min-size=1", "--max-size", "10"], &[".hidden/x", "a.txt", "link", "sub/.rules", "sub/d.tmp"]),
        (&["--older-than", "7d"], &["a.txt", "link"]),
        (&["--newer-than=7d", "--exclude=sub"], &[".hidden/x", "b.tmp"]),
        (&["--links=skip", "-x", "--exclude=sub", "--no-hidden"], &["a.txt", "b.tmp"]),
        (&["--existing", "--no-memory"], &[]),
    ];
    for (words, wanted) in cases {
        assert_eq!(keys_of(&world, &server, words), wanted, "{words:?}");
    }
    let ran = copy(&world, &server, &["-n", "--exclude=*.tmp", "--min-size=11", "tree/", "s3://bucket/in/"]);
    assert_eq!(ran.out, "sub/c.txt  2.93 KiB\n1 file, 2.93 KiB would be sent, 0 there already\n", "{ran:?}");
    assert_eq!(server.keys(), [""; 0]);
}

#[test]
fn a_bucket_takes_what_is_newer_what_is_there_or_what_is_not() {
    let Some((world, server)) = start("a_bucket_takes_what_is_newer_what_is_there_or_what_is_not") else {
        return;
    };
    for name in ["tree/new", "tree/old", "tree/absent"] {
        world.write(name, "here");
    }
    let set = |name: &str, time: SystemTime| {
        File::options()
            .write(true)
            .open(world.path(name))
            .and_then(|file| file.set_modified(time))
            .expect("set");
    };
    set("tree/old", SystemTime::now() - Duration::from_secs(86_400));
    set("tree/new", SystemTime::now() + Duration::from_secs(86_400));
    let refill = || ["new", "old"].iter().for_each(|name| server.put(&format!("in/{name}"), b"there!"));
    let there = || ["new", "old", "absent"].map(|name| server.get(&format!("in/{name}")));
    let (ours, theirs) = (Some(b"here".to_vec()), Some(b"there!".to_vec()));
    for (option, wanted, sent) in [
        ("--update", [ours.clone(), theirs.clone(), ours.clone()], 2),
        ("--ignore-existing", [theirs.clone(), theirs, ours.clone()], 1),
        ("--existing", [ours.clone(), ours, None], 2),
    ] {
        refill();
        let ran = copy(&world, &server, &["--json", option, "tree/", "s3://bucket/in/"]);
        assert_eq!((ran.code, there()), (0, wanted), "{option}: {ran:?}");
        let said = summary(&ran.out);
        assert_eq!(
            (&said["files"]["total"], &said["verified"]),
            (&Value::from(sent), &true.into()),
            "{option}: {said}"
        );
        server.ask("DELETE", "bucket/in/absent", b"");
    }
    // The time that was kept with an object counts, and not when it was stored.
    let ran = copy(&world, &server, &["-q", "tree/", "s3://bucket/kept/"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    world.write("tree/old", "changed");
    set("tree/old", SystemTime::now() - Duration::from_secs(3600));
    let ran = copy(&world, &server, &["-q", "--update", "tree/", "s3://bucket/kept/"]);
    assert_eq!((ran.code, server.get("kept/old").as_deref()), (0, Some(&b"changed"[..])), "{ran:?}");
}

#[test]
fn what_is_chosen_arrives_on_a_webdav_server() {
    let world = World::new();
    let Some(nginx) = dav(&world) else {
        return skip("what_is_chosen_arrives_on_a_webdav_server", "nginx is not installed");
    };
    tree(&world);
    let to = nginx.url("dav/in/").to_string();
    let copy = |words: &[&str]| world.run(&[&["copy"], words, &["tree/", &to]].concat());
    let ran = copy(&["-q", "--exclude=*.tmp", "--no-hidden", "--max-size=2K"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(world.tree("www/dav/in"), ["a.txt", "link", "sub/", "sub/e é#?.txt"]);
    let ran = copy(&["--json", "--ignore-existing", "--no-hidden"]);
    assert_eq!((ran.code, &summary(&ran.out)["files"]["ok"]), (0, &Value::from(3)), "{ran:?}");
    // It was stored later than the file was written.
    world.write("www/dav/in/a.txt", "of others");
    let ran = copy(&["-q", "--update", "--no-hidden"]);
    assert_eq!((ran.code, &*world.read("www/dav/in/a.txt")), (0, &b"of others"[..]), "{ran:?}");
}

#[test]
fn what_no_server_can_do_is_refused_by_its_name() {
    let world = World::new();
    tree(&world);
    for words in [&["--backup-dir=x", "--delete"][..], &["--verify=block"], &["--limit-write=1Mbit/s"]] {
        let ran = world.run(&[&["copy"], words, &["tree/", "s3://bucket/in/"]].concat());
        let name = words[0].split('=').next().expect("a name");
        assert!(ran.code == 2 && ran.err.lines().count() == 1, "{words:?}: {ran:?}");
        assert!(ran.err.contains(name) && ran.err.contains("s3://bucket/in/ is none"), "{words:?}: {ran:?}");
    }
    for (words, wanted) in [
        (&["--links=keep", "tree/"][..], "'keep' for '--links'"),
        (&["--files-from=list", "tree/", "tree"], "must be one directory"),
        (&["--files-from=absent", "tree/"], "absent"),
        (&["--exclude-from=absent", "tree/"], "absent"),
        (&["--header=X-Asked: y", "tree/"], "--header is for a WebDAV server"),
    ] {
        world.write("list", "a.txt\n");
        let ran = world.run(&[&["copy"], words, &["s3://bucket/in/"]].concat());
        assert!(
            ran.code != 0 && ran.err.lines().count() == 1 && ran.err.contains(wanted),
            "{words:?}: {ran:?}"
        );
    }
}

#[test]
fn a_job_puts_what_its_filters_choose() {
    let Some((world, server)) = start("a_job_puts_what_its_filters_choose") else { return };
    tree(&world);
    let environment = [
        ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        ("AWS_ENDPOINT_URL_S3", &server.endpoint()),
    ];
    let service = Service::start_in(&world, "serves", &[], &environment);
    let from = world.text("tree/");
    let submit =
        |words: &[&str]| service.run(&world, &[&["submit", &from, "s3://bucket/in/"], words].concat());
    let ran = submit(&["--exclude=sub", "--option=--no-hidden", "--option=--exclude=*.tmp", "--wait"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(server.keys(), ["in/a.txt", "in/link"]);
    // What is not written in a job's options is on the service's host.
    let ran = submit(&["--option=--exclude-from=/etc/passwd"]);
    assert!(ran.code == 2 && ran.err.contains("would be read where the service runs"), "{ran:?}");
}
