//! `tidegate self-test`: what works is told, what does not is told too, and nothing is left behind.

use crate::common;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::World;
use serde_json::Value;

fn check<'a>(seen: &'a Value, name: &str) -> &'a Value {
    let checks = seen["checks"].as_array().expect("a list");
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name}: {seen}"))
}

#[test]
fn an_installation_that_works_says_so_and_leaves_nothing_behind() {
    let world = World::new();
    fs::create_dir(world.path("here")).expect("made");
    let (code, seen) = world.json(&["self-test", "--directory", "here"]);
    assert_eq!((code, &seen["works"]), (0, &true.into()), "{seen}");
    for name in ["program", "state", "checksums", "copy", "resume", "verify", "trust"] {
        assert_eq!(check(&seen, name)["status"], "works", "{seen}");
    }
    assert!(world.tree("here").is_empty(), "{:?}", world.tree("here"));
    // The mark that says whose the directory is.
    let mark = ["tidegate/", "tidegate/.tidegate/", "tidegate/.tidegate/private"];
    assert_eq!(world.tree("state"), mark, "nothing of a test is kept");
}

#[test]
fn what_is_missing_is_a_warning_and_what_fails_an_exit_code() {
    let world = World::new();
    fs::create_dir_all(world.path("open")).expect("made");
    fs::set_permissions(world.path("open"), fs::Permissions::from_mode(0o755)).expect("set");
    let mut command = world.command();
    command.args(["self-test", "--json", "--state", "open", "--directory", "."]);
    let ran = common::finish(command.env("PATH", "/nowhere").env("SSL_CERT_FILE", "/nowhere"));
    let seen: Value = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!((ran.code, &seen["works"]), (0, &true.into()), "{seen}");
    for (name, said) in
        [("state", "chmod 700"), ("certificates", "ca-certificates"), ("ssh", "openssh-client")]
    {
        assert_eq!(check(&seen, name)["status"], "warning", "{seen}");
        assert!(check(&seen, name)["message"].as_str().expect("text").contains(said), "{seen}");
    }

    world.write("file", "");
    let ran = world.run(&["self-test", "--directory", ".", "--state", "file/state"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("failed   state"), "{ran:?}");
    let ran = world.run(&["self-test", "--directory", "nowhere"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("--directory") && ran.err.lines().count() == 1, "{ran:?}");
}
