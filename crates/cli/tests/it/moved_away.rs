//! A destination that is moved away, removed or replaced during a copy from here to here: one line, and no success.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use crate::common::{Ran, World, eventually};
use serde_json::Value;

fn copy_while(world: &World, destination: &str, happens: impl FnOnce()) -> (Ran, Value) {
    let mut command = world.command();
    command.args(["copy", "source/", destination, "--json", "-q", "--limit-link", "30Mbit/s"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    eventually(|| world.path(destination).join("d0/file").exists());
    happens();
    let output = child.wait_with_output().expect("ended");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let code = output.status.code().unwrap_or(-1);
    let ran = Ran { code, out: text(output.stdout), err: text(output.stderr) };
    let summary = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    (ran, summary)
}

#[test]
fn a_destination_that_does_not_stay_is_told_in_one_line() {
    type Fate = fn(&World);
    let fates: [(&str, Fate); 4] = [
        ("moved", |world| fs::rename(world.path("to"), world.path("elsewhere")).expect("moved")),
        ("removed", |world| {
            while world.path("to").exists() {
                let _ = fs::remove_dir_all(world.path("to"));
            }
        }),
        ("replaced", |world| {
            fs::rename(world.path("to"), world.path("elsewhere")).expect("moved");
            fs::create_dir(world.path("to")).expect("made");
        }),
        ("led elsewhere", |world| {
            fs::remove_file(world.path("link")).expect("removed");
            symlink("source", world.path("link")).expect("linked");
        }),
    ];
    for (name, befalls) in fates {
        let world = World::new();
        for number in 0..40 {
            world.fill(format!("source/d{number}/file"), 60_000, number);
        }
        let by_link = name == "led elsewhere";
        if by_link {
            fs::create_dir(world.path("to")).expect("made");
            symlink("to", world.path("link")).expect("linked");
        }
        let destination = if by_link { "link/" } else { "to/" };
        let (ran, summary) = copy_while(&world, destination, || befalls(&world));
        assert_eq!((ran.code, ran.err.lines().count()), (1, 1), "{name}: {ran:?}");
        let said =
            if by_link { "the destination link/ leads elsewhere" } else { "/to/ was moved or replaced" };
        assert!(ran.err.contains(said), "{name}: {}", ran.err);
        assert_eq!(
            (&summary["verified"], &summary["error_kind"]),
            (&false.into(), &"changed".into()),
            "{name}"
        );
    }
}
