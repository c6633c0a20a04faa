//! `--congestion` as people type it.

use crate::common::World;
use testkit::congestion_controls;

#[test]
fn a_name_that_this_kernel_has_moves_files_and_another_is_refused_in_one_line() {
    let world = World::new();
    world.fill("file", 300_000, 1);
    let endpoint = world.endpoint("a", &[]);
    for name in congestion_controls().iter().map(String::as_str).chain(["auto", "system"]) {
        let (there, here) = (endpoint.at(name), format!("back-{name}"));
        world.ok(&["copy", "--congestion", name, "file", &there]);
        world.ok(&["copy", "--congestion", name, "--data-plane", "tls", &there, &here]);
        assert!(world.read(&here) == world.read("file"), "{name}");
    }
    let all = congestion_controls().join(", ");
    for (name, wanted) in [
        (
            "nosuch",
            format!("--congestion nosuch: the kernel has no such congestion control: there are {all}"),
        ),
        ("No Such", "choose auto, system, or a name".to_owned()),
    ] {
        for command in [
            ["copy", "--congestion", name, "file", &endpoint.at("other")],
            ["get", "--congestion", name, "http://127.0.0.1:9/file", "there"],
            ["put", "--congestion", name, "file", "https://127.0.0.1:9/there/"],
        ] {
            let ran = world.run(&command);
            assert!(ran.code != 0 && ran.err.contains(&wanted), "{command:?}: {ran:?}");
        }
        assert!(!endpoint.root.join("other").exists());
    }
}

#[test]
fn what_the_other_end_has_not_is_said_once_and_copied_all_the_same() {
    let world = World::new();
    world.fill("a/file", 300_000, 1);
    let (a, b) = (world.endpoint("a", &[]), world.endpoint("b", &[]));
    let ran = world.run(&["copy", "--congestion", "nosuch", &a.at("file"), &b.at("file")]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(
        ran.err.matches("at the other end nosuch: the kernel has no such congestion control").count(),
        1,
        "{ran:?}"
    );
    assert!(world.read("a/file") == world.read("b/file"));
}
