//! `tidegate ls`: of an endpoint, by name and by address, here, and over ssh.

use std::os::unix::fs::symlink;

use crate::common::World;
use crate::common::sshd::{Sshd, user};

fn fill(world: &World, directory: &str) {
    for (name, content) in [("b.txt", "four"), ("a/deep/er", "x"), ("odd\nname", "")] {
        world.write(format!("{directory}/{name}"), content);
    }
    symlink("a/deep", world.path(format!("{directory}/link"))).expect("linked");
}

const FLAT: &str = "a/\nb.txt\nlink/\nodd\\x0aname\n";
const DEEP: &str = "a/\na/deep/\na/deep/er\nb.txt\nlink/\nodd\\x0aname\n";

#[test]
fn a_place_is_listed_wherever_it_is() {
    let world = World::new();
    fill(&world, "root");
    let endpoint = world.endpoint("root", &[]);
    world.ok(&["remote", "add", "dtn", &endpoint.address]);
    for place in ["dtn:/", "dtn:", &endpoint.address, "root", "root/"] {
        assert_eq!(world.ok(&["ls", place]), FLAT, "{place}");
        assert_eq!(world.ok(&["ls", "-R", place]), DEEP, "{place}");
    }
    let long = world.ok(&["ls", "-l", "dtn:/"]);
    assert!(long.contains("-rw-r--r--              4 2"), "{long}");
    assert!(long.contains("link/ -> a/deep\n"), "{long}");
    assert_eq!(world.ok(&["ls", "dtn:/b.txt"]), "b.txt\n");
    let (code, told) = world.json(&["ls", "dtn:/b.txt"]);
    assert_eq!((code, told["path"].as_str(), told["kind"].as_str()), (0, Some("b.txt"), Some("file")));
    assert_eq!((told["bytes"].as_u64(), told.get("link")), (Some(4), None));
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let world = World::new();
    fill(&world, "root");
    let endpoint = world.endpoint("root", &[]);
    world.ok(&["remote", "add", "dtn", &endpoint.address]);
    let state = world.state_of("root");
    let state = state.to_str().expect("text");
    let writer = world.ok(&["ticket", "--state", state, "--write-only", &endpoint.place()]);
    for (place, code, words) in [
        ("dtn:/none", 3, "none"),
        ("dtn:/b.txt/x", 3, "b.txt/x"),
        ("dtn:/../etc", 5, ".."),
        ("none:/", 2, "no endpoint is called 'none'"),
        ("s3://bucket/", 2, "no host that runs Tidegate"),
        ("root/none", 3, "root/none"),
        ("", 2, "empty path"),
        ("tg://localhost:1/", 2, "holds no ticket"),
        (writer.trim_end(), 5, "does not allow reading"),
    ] {
        let ran = world.run(&["ls", place]);
        assert_eq!((ran.code, ran.err.lines().count()), (code, 1), "{place}: {ran:?}");
        assert!(ran.err.contains(words) && ran.out.is_empty(), "{place}: {ran:?}");
    }
}

#[test]
fn a_host_that_ssh_reaches_is_listed() {
    let world = World::new();
    let Some(sshd) = Sshd::start(&world, "a_host_that_ssh_reaches_is_listed") else { return };
    fill(&world, "far");
    let place = format!("{}@dtn:{}", user(), world.text("far"));
    assert_eq!(world.ok(&["ls", "-R", "--ssh", &sshd.command, &place]), DEEP);
    let ran = world.run(&["ls", "--ssh", &sshd.command, &format!("{place}/none")]);
    assert_eq!((ran.code, ran.err.lines().count()), (3, 1), "{ran:?}");
}

#[test]
fn a_file_is_hashed_wherever_it_is() {
    let world = World::new();
    fill(&world, "root");
    let endpoint = world.endpoint("root", &[]);
    world.ok(&["remote", "add", "dtn", &endpoint.address]);
    let hash = blake3::hash(b"four").to_hex().to_string();
    assert_eq!(
        world.ok(&["hash", "dtn:/b.txt", "root/b.txt"]),
        format!("{hash}  dtn:/b.txt\n{hash}  root/b.txt\n")
    );
    let (code, told) = world.json(&["hash", &endpoint.at("b.txt")]);
    assert_eq!((code, told["blake3"].as_str(), told["bytes"].as_u64()), (0, Some(&*hash), Some(4)));
    assert_eq!(
        told["path"].as_str(),
        Some(&*format!("tg://{}/b.txt", endpoint.place())),
        "no ticket is shown"
    );
    for (file, code, why) in [
        ("dtn:/none", 3, "none"),
        ("dtn:/a", 2, "is no regular file"),
        ("none:/x", 2, "no endpoint is called 'none'"),
        ("s3://bucket/key", 2, "no host that runs Tidegate"),
        ("nowhere", 3, "cannot read nowhere"),
    ] {
        let ran = world.run(&["hash", file]);
        assert_eq!((ran.code, ran.err.lines().count()), (code, 1), "{file}: {ran:?}");
        assert!(ran.err.contains(why) && ran.out.is_empty(), "{file}: {ran:?}");
    }
}
