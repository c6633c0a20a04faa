//! A destination that is the source, lies in it, or holds it where it removes, by whatever path: refused before anything
//! is made or removed; and what is mounted in it, which stays.

use crate::common;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::common::nest;
use crate::common::{Fixture, assert_same_tree, drive, is_error, picture, write};
use testkit::mounted::Mounted;
use testkit::skip;
use tidegate_transfer::endpoint::{Config, Endpoint};
use tidegate_transfer::error::{ErrorKind, Result};
use tidegate_transfer::filter::rule::{Line, Lines, read};
use tidegate_transfer::ledger::Failure;
use tidegate_transfer::plan::PlanListener;
use tidegate_transfer::selection::{Deletion, Selection};
use tidegate_transfer::terms::{Links, Purpose};
use tidegate_transfer::transfer::route::{From, Setup, To, begin};
use tidegate_transfer::wire::ticket::Claims;

/// An endpoint whose root holds a tree.
fn world() -> Fixture {
    let f = Fixture::new();
    write(&f.root.join("d/file"), 1000, 1);
    write(&f.root.join("d/sub/file"), 1000, 2);
    symlink("d", f.root.join("link")).expect("linked");
    f
}

fn assert_refused(f: &Fixture, from: &From, to: &To, how: &str) {
    let before = picture(&f.root);
    let error = is_error(f.run(from, to));
    assert_eq!(error.kind, ErrorKind::Usage, "{from:?} {to:?}: {error}");
    let expected = format!("would be copied {how} itself: name another destination");
    assert!(error.message.contains(&expected) && !error.message.contains('\n'), "{error}");
    assert_eq!(picture(&f.root), before, "{from:?} {to:?}");
}

/// Sources, the destination beneath the endpoint's root, and how they meet.
const MEETINGS: [(&str, &str, &str); 9] = [
    ("d", "", "onto"),
    ("d/", "d", "onto"),
    ("d/", "d/", "onto"),
    ("d", "d/", "into"),
    ("d/sub", "d/", "onto"),
    ("d/file", "d/", "onto"),
    ("d/file", "d/file", "onto"),
    ("d", "d/sub/", "into"),
    ("d/", "d/new/deep/", "into"),
];

#[test]
fn nothing_is_copied_onto_or_into_itself_on_any_route() {
    let f = world();
    for (source, to, how) in MEETINGS {
        let local = |path: &str| f.root.join(path).as_os_str().as_bytes().to_vec();
        let there = f.to_endpoint(to);
        assert_refused(&f, &From::Local(vec![local(source)]), &there, how);
        assert_refused(&f, &f.remote(&[source]), &there, how);
        assert_refused(&f, &f.remote(&[source]), &To::Local(local(to)), how);
    }
    // By another path.
    let linked = f.root.join("link").as_os_str().as_bytes().to_vec();
    assert_refused(&f, &From::Local(vec![[&linked[..], b"/"].concat()]), &f.to_endpoint("d/sub/"), "into");
    assert_refused(&f, &f.remote(&["d/"]), &To::Local(linked), "onto");
    // At an endpoint a link that is named is followed on either side.
    let local = |path: &str| From::Local(vec![f.root.join(path).as_os_str().as_bytes().to_vec()]);
    for (source, to, how) in [("d", "link/sub/", "into"), ("link/", "d", "onto"), ("link", "d/sub/", "into")]
    {
        assert_refused(&f, &f.remote(&[source]), &f.to_endpoint(to), how);
        assert_refused(&f, &local(source), &f.to_endpoint(to), how);
    }
    let error = is_error(f.run(&f.remote(&["d"]), &f.to_endpoint("d/sub/")));
    assert_eq!(error.message.matches("the endpoint at ").count(), 1, "both are one: {error}");
}

#[test]
fn what_lies_beside_or_above_is_copied() {
    let f = world();
    f.pull(&["d/sub/"], &f.root.join("beside"));
    assert_same_tree(&f.root.join("d/sub"), &f.root.join("beside"));
    // Out of itself, into what holds it.
    f.push(&[PathBuf::from(format!("{}/", f.root.join("d/sub").display()))], "d/");
    assert_eq!(fs::read(f.root.join("d/file")).expect("read"), common::content(1000, 2));
}

/// These rules exclude.
fn excluding(patterns: &[&str]) -> Selection {
    let rule = |pattern: &&str| match read(pattern.as_bytes(), Lines::Prefixed(false)) {
        Ok(Line::Rule(rule)) => rule,
        other => panic!("{pattern}: {other:?}"),
    };
    Selection { rules: patterns.iter().map(rule).collect(), ..Selection::default() }
}

impl Fixture {
    /// Copies `sources` to `to`, both beneath the root, by each route, `mirroring` or not; `change` changes how.
    fn by_each_route(
        &self,
        sources: &[&str],
        to: &str,
        mirroring: bool,
        change: &dyn Fn(&mut Setup),
    ) -> Vec<Result<Vec<Failure>>> {
        let ((pushed, pulled), (here, there)) = (self.sources(sources), self.destinations(to));
        let run = |from, to| {
            let mut setup = Setup { deletion: mirroring.then(|| deletion(None)), ..self.setup() };
            change(&mut setup);
            if let Some(deletion) = &mut setup.deletion {
                deletion.rules = setup.selection.rules.clone();
            }
            drive(begin(from, to, &setup)?, self.setpoint).map(|(_, failures)| failures)
        };
        vec![run(&pushed, &there), run(&pulled, &here), run(&pulled, &there)]
    }
}

fn planned(setup: &mut Setup) {
    setup.plan = Some(PlanListener::new(|_| {}));
    setup.terms.purpose = Purpose::Plan;
}

#[test]
fn a_directory_that_the_rules_leave_out_of_the_source_may_be_the_destination() {
    for (source, to, rules, arrives) in [
        ("d/", "d/back/", &["back"][..], "d/back/sub/file"),
        ("d/", "d/back/", &["/back/"], "d/back/sub/file"),
        ("d", "d/back/", &["/d/back"], "d/back/d/sub/file"),
        ("d/", "d/back/new/deep/", &["back"], "d/back/new/deep/sub/file"),
        ("d/", "d/back/in/", &["*.tmp", "+ x", "in"], "d/back/in/sub/file"),
    ] {
        for mirroring in [false, true] {
            let f = world();
            let rules = |setup: &mut Setup| setup.selection = excluding(rules);
            let before = picture(&f.root);
            let dry = f.by_each_route(&[source], to, mirroring, &|setup| {
                rules(setup);
                planned(setup);
            });
            assert!(dry.iter().all(|ran| *ran == Ok(Vec::new())), "{source} {to}: {dry:?}");
            assert_eq!(picture(&f.root), before, "{source} {to}");
            let stranger = f.root.join(arrives).with_file_name("stranger");
            // Twice: the second time it is there, with what goes where it is a mirror.
            for stays in [false, !mirroring] {
                let ran = f.by_each_route(&[source], to, mirroring, &rules);
                assert!(ran.iter().all(|ran| *ran == Ok(Vec::new())), "{source} {to}: {ran:?}");
                assert_eq!(fs::read(f.root.join(arrives)).expect("there"), common::content(1000, 2));
                for (name, seed) in [("d/file", 1), ("d/sub/file", 2)] {
                    assert_eq!(fs::read(f.root.join(name)).expect("stays"), common::content(1000, seed));
                }
                assert_eq!(stranger.exists(), stays, "{source} {to}");
                write(&stranger, 10, 3);
            }
        }
    }
}

#[test]
fn a_destination_in_its_source_is_refused_unless_it_is_surely_left_out() {
    let f = world();
    for name in ["d/back/file", "d/other/back/file", "e/d/file"] {
        write(&f.root.join(name), 100, 3);
    }
    write(&f.root.join("d/.rules"), 0, 0);
    fs::write(f.root.join("d/.rules"), "- /back\n").expect("written");
    let refused = |sources: &[&str], to: &str, change: &dyn Fn(&mut Setup)| {
        let before = picture(&f.root);
        for mirroring in [false, true] {
            for ran in f.by_each_route(sources, to, mirroring, change) {
                let error = ran.expect_err("refused");
                assert_eq!(error.kind, ErrorKind::Usage, "{sources:?} {to}: {error}");
                assert!(error.message.contains("itself: name another destination"), "{error}");
            }
        }
        assert_eq!(picture(&f.root), before, "{sources:?} {to}");
    };
    let by =
        |patterns: &'static [&'static str]| move |setup: &mut Setup| setup.selection = excluding(patterns);
    refused(&["d/"], "d/back/", &by(&["sub"]));
    refused(&["d/"], "d/back/", &by(&["+ back", "back"]));
    refused(&["d/"], "d/back/", &by(&["/other/back", "back/*"]));
    refused(&["d/"], "d/", &by(&["d", "back"]));
    refused(&["d"], "d/back/", &by(&["/back"]));
    refused(&["d/"], "d/back/in/", &by(&["/in"]));
    // One of the sources leaves it out, and the other does not.
    refused(&["d/", "d"], "d/back/", &by(&["/back"]));
    refused(&["d/", "d/back"], "d/back/", &by(&["/back"]));
    // By a link that is followed the same files may have another name.
    refused(&["d/"], "d/back/", &|setup| {
        setup.selection = excluding(&["back"]);
        setup.terms.links = Links::Follow;
    });
    // What files of the tree say is not known before it is walked.
    refused(&["d/"], "d/back/", &|setup| {
        let Ok(Line::Rule(rule)) = read(b": .rules", Lines::Rules) else { panic!("a rule") };
        setup.selection.rules = vec![rule];
    });
    let Some(shown) = Mounted::bind(&f.root.join("d/back"), &f.root.join("d/other")) else {
        return skip("a_destination_in_its_source_is_refused", "nothing can be mounted here");
    };
    // What is left out by one name is in the source by another.
    refused(&["d/"], "d/back/", &by(&["/back"]));
    drop(shown);
    // What is mounted in the destination may be what is copied.
    let _source =
        Mounted::bind(&f.root.join("d/sub"), &f.root.join("d/back/sub")).expect("mounted, as before");
    let before = picture(&f.root.join("d/sub"));
    write(&f.root.join("e/sub/new"), 10, 3);
    let ran = f.by_each_route(&["d/", "e/"], "d/back/", false, &by(&["/back"]));
    assert!(ran.iter().all(|ran| ran.as_ref().is_ok_and(|failures| !failures.is_empty())), "{ran:?}");
    assert_eq!(picture(&f.root.join("d/sub")), before);
}

#[test]
fn a_bind_mount_is_the_directory_it_shows() {
    let f = world();
    let view = f.dir("view");
    let Some(_mounted) = Mounted::bind(&f.root.join("d"), &view) else {
        return skip("a_bind_mount_is_the_directory_it_shows", "nothing can be mounted here");
    };
    for (to, how) in [("", "onto"), ("sub", "into")] {
        let to = To::Local(view.join(to).as_os_str().as_bytes().to_vec());
        assert_refused(&f, &f.remote(&["d/"]), &to, how);
    }
    // Within the root, and both ends there.
    let inner = f.root.join("view");
    let _inner = Mounted::bind(&f.root.join("d"), &inner).expect("mounted as well");
    for (source, to, how) in [("d/", "view/", "onto"), ("view/", "d/", "onto"), ("view", "d/sub/", "into")] {
        assert_refused(&f, &f.remote(&[source]), &f.to_endpoint(to), how);
    }
}

#[test]
fn a_file_that_is_there_by_another_name_is_not_rewritten() {
    let f = world();
    fs::create_dir(f.root.join("snapshot")).expect("made");
    fs::hard_link(f.root.join("d/file"), f.root.join("snapshot/file")).expect("linked");
    let before = fs::metadata(f.root.join("snapshot/file")).expect("there");
    let totals = f.push(&[PathBuf::from(format!("{}/", f.root.join("d").display()))], "snapshot/");
    assert_eq!((totals.files_skipped, totals.files_done), (1, 1));
    let after = fs::metadata(f.root.join("d/file")).expect("there");
    use std::os::unix::fs::MetadataExt;
    assert_eq!(
        (before.ino(), before.nlink(), before.ctime_nsec()),
        (after.ino(), after.nlink(), after.ctime_nsec())
    );
}

/// Everything may go, and what goes is kept in `backup`.
fn deletion(backup: Option<&str>) -> Deletion {
    Deletion { most: Some(u64::MAX), backup: backup.map(Into::into), ..Deletion::default() }
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

impl Fixture {
    fn mirror(&self, from: &From, to: &To, backup: Option<&str>) -> Result<Vec<Failure>> {
        let setup = Setup { deletion: Some(deletion(backup)), ..self.setup() };
        drive(begin(from, to, &setup)?, self.setpoint).map(|(_, failures)| failures)
    }

    /// What a dry run of the same says.
    fn planned(&self, from: &From, to: &To, backup: Option<&str>) -> Result<Vec<Failure>> {
        let (deletion, plan) = (Some(deletion(backup)), Some(PlanListener::new(|_| {})));
        let mut setup = Setup { deletion, plan, ..self.setup() };
        setup.terms.purpose = Purpose::Plan;
        drive(begin(from, to, &setup)?, self.setpoint).map(|(_, failures)| failures)
    }

    /// Paths beneath the root as sources, here and at the endpoint.
    fn sources(&self, paths: &[&str]) -> (From, From) {
        let owner = self.endpoint.address(&Claims::OWNER).expect("an address");
        let here = |path: &&str| [&bytes(&self.root)[..], b"/", path.as_bytes()].concat();
        let there = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        (From::Local(paths.iter().map(here).collect()), From::Endpoint(owner, there))
    }

    /// A path beneath the root as the destination, here and at the endpoint.
    fn destinations(&self, path: &str) -> (To, To) {
        let owner = self.endpoint.address(&Claims::OWNER).expect("an address");
        let here = [&bytes(&self.root)[..], b"/", path.as_bytes()].concat();
        (To::Local(here), To::Endpoint(owner.with_path(path)))
    }

    /// That mirroring `sources` to `to`, both beneath the root, is refused on every route with these words, in a dry run as
    /// well, and touches nothing.
    fn refuses(&self, sources: &[&str], to: &str, backup: Option<&str>, why: &str) {
        let ((pushed, pulled), (here, there)) = (self.sources(sources), self.destinations(to));
        let before = picture(&self.root);
        for (from, to) in [(&pushed, &there), (&pulled, &here), (&pulled, &there)] {
            // What a backup directory is called begins at what is served.
            if matches!(to, To::Local(_)) && backup.is_some_and(|backup| backup.starts_with('/')) {
                continue;
            }
            for error in [is_error(self.mirror(from, to, backup)), is_error(self.planned(from, to, backup))] {
                assert!(
                    error.message.contains(why) && !error.message.contains('\n'),
                    "{from:?} {to:?}: {error}"
                );
                assert_eq!(error.kind, ErrorKind::Usage, "{error}");
            }
            assert_eq!(picture(&self.root), before, "{from:?} {to:?}");
        }
    }
}

const HELD: &str =
    "the source lies in the destination, and --delete would remove it: name another destination";

#[test]
fn a_mirror_never_holds_the_source_on_any_route() {
    let f = world();
    for name in ["d/run/deep/run/file", "d/one/file", "d/two/file", "other/file"] {
        write(&f.root.join(name), 100, 3);
    }
    for sources in [&["d/sub/"][..], &["d/one/", "d/two/"], &["d/run/deep/run"], &["other/", "d/sub/file"]] {
        f.refuses(sources, "d/", None, HELD);
    }
    f.refuses(&["link/sub/"], "d/", None, HELD);
    // Two endpoints that serve one tree, one of them only a part.
    let config = Config { allow_delete: true, ..Config::local(f.root.join("d"), f.dir("other-state")) };
    let part = Endpoint::bind(config).expect("bound");
    std::thread::spawn({
        let part = part.clone();
        move || part.serve()
    });
    let to = To::Endpoint(part.address(&Claims::OWNER).expect("an address").with_path("/"));
    let before = picture(&f.root);
    let error = is_error(f.mirror(&f.sources(&["d/sub/"]).1, &to, None));
    part.drain();
    assert!(error.message.contains(HELD), "{error}");
    assert_eq!(picture(&f.root), before);
    // What is mirrored is `d/run` alone, and the source lies beside it.
    let (_, to) = f.destinations("d/");
    assert_eq!(f.mirror(&f.sources(&["d/run/deep"]).0, &to, None), Ok(Vec::new()));
    assert!(f.root.join("d/run/deep/run/file").exists() && f.root.join("d/deep/run/file").exists());
}

#[test]
fn bind_mounts_hide_no_source_from_a_mirror() {
    let f = world();
    let outside = f.dir("outside");
    write(&outside.join("file"), 10, 4);
    let bind = |shown: &Path, place: &Path| Mounted::bind(shown, place);
    let Some(_by_part) = bind(&f.root.join("d/sub"), &f.root.join("part")) else {
        return skip("bind_mounts_hide_no_source_from_a_mirror", "nothing can be mounted here");
    };
    // A part of the destination, by a path that leads to nothing that contains it.
    f.refuses(&["part/"], "d/", None, HELD);
    write(&f.root.join("d/sub/deep/file"), 10, 5);
    f.refuses(&["part/deep/"], "d/", None, HELD);
    f.refuses(&["d/"], "part/", None, "would be copied into itself");
    // The destination by another path, and a source beneath which a part of the destination is mounted.
    let _view = bind(&f.root.join("d"), &f.root.join("view")).expect("mounted as well");
    f.refuses(&["part/"], "view/", None, HELD);
    fs::create_dir(f.root.join("s")).expect("made");
    let _beneath = bind(&f.root.join("d/sub"), &f.root.join("s/m")).expect("mounted as well");
    f.refuses(&["s/"], "d/", None, HELD);
    // What is mounted in the destination is not reached from it, and is a source like any other.
    let _inside = bind(&outside, &f.root.join("d/mounted")).expect("mounted as well");
    let (_, to) = f.destinations("d/");
    assert_eq!(f.mirror(&f.sources(&["d/mounted/"]).0, &to, None), Ok(Vec::new()));
    assert!(outside.join("file").exists() && f.root.join("d/file").exists());
    assert!(!f.root.join("d/sub/deep").exists(), "the rest was removed");
}

#[test]
fn what_is_mounted_in_a_mirror_stays() {
    let f = world();
    write(&f.root.join("s/file"), 10, 1);
    write(&f.root.join("s/m/file"), 10, 2);
    let outside = f.dir("outside");
    write(&outside.join("precious"), 10, 3);
    write(&outside.join("sub/precious"), 10, 4);
    fs::create_dir_all(f.root.join("t/gone")).expect("made");
    write(&f.root.join("t/gone/stranger"), 10, 6);
    write(&f.root.join("t/file-mount"), 10, 5);
    let Some(_alone) = Mounted::bind(&outside, &f.root.join("t/alone")) else {
        return skip("what_is_mounted_in_a_mirror_stays", "nothing can be mounted here");
    };
    let _deep = Mounted::bind(&outside, &f.root.join("t/gone/deep")).expect("mounted as well");
    let _file = Mounted::bind(&outside.join("precious"), &f.root.join("t/file-mount")).expect("mounted");
    let before = picture(&outside);
    for backup in [None, Some("../old")] {
        write(&f.root.join("t/stranger"), 10, 5);
        let (_, to) = f.destinations("t/");
        assert_eq!(f.mirror(&f.sources(&["s/"]).0, &to, backup), Ok(Vec::new()));
        assert_eq!(picture(&outside), before);
        assert!(!f.root.join("t/stranger").exists() && !f.root.join("t/gone/stranger").exists());
    }
    // One whose name the source has: nothing can be put there, as files are renamed, and so nothing is removed at all.
    let _same = Mounted::bind(&outside, &f.root.join("t/m")).expect("mounted as well");
    let (_, to) = f.destinations("t/");
    let failures = f.mirror(&f.sources(&["s/"]).0, &to, None).expect("ran");
    assert!(
        failures.iter().any(|failure| failure.error.message.contains("nothing was deleted")),
        "{failures:?}"
    );
    fs::remove_file(f.root.join("s/m/file")).expect("removed");
    assert_eq!(f.mirror(&f.sources(&["s/"]).0, &to, None), Ok(Vec::new()));
    assert_eq!(picture(&outside), before);
    // Nor is it mirrored itself by its name.
    f.refuses(&["s/m"], "t/", None, "m is mounted in the destination");
}

#[test]
fn what_is_mounted_where_unfinished_files_lie_is_none_of_them() {
    let f = world();
    let outside = f.dir("outside");
    let name = "0123456789abcdef0123456789abcdef";
    write(&outside.join(name).join("old"), 10, 1);
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    for path in [outside.join(name).join("old"), outside.join(name)] {
        fs::File::open(path).and_then(|file| file.set_modified(long_ago)).expect("set");
    }
    let place = f.root.join("t/.tidegate");
    let Some(mounted) = Mounted::bind(&outside, &place) else {
        return skip("what_is_mounted_where_unfinished_files_lie", "nothing can be mounted here");
    };
    let (_, to) = f.destinations("t/");
    let error = is_error(f.mirror(&f.sources(&["d/"]).0, &to, None));
    assert!(error.message.contains(".tidegate: something is mounted there"), "{error}");
    drop(mounted);
    let _one = Mounted::bind(&outside.join(name), &place.join(name)).expect("mounted as well");
    assert_eq!(f.mirror(&f.sources(&["d/"]).0, &to, None), Ok(Vec::new()));
    assert!(outside.join(name).join("old").exists());
}

#[test]
fn one_file_system_ends_at_a_bind_mount_too() {
    let f = world();
    write(&f.root.join("s/file"), 10, 1);
    let Some(_mount) = Mounted::bind(&f.root.join("d"), &f.root.join("s/m")) else {
        return skip("one_file_system_ends_at_a_bind_mount_too", "nothing can be mounted here");
    };
    // What lies there at the destination is not compared, and the mount does not make the source a part of it.
    write(&f.root.join("t/m/stays"), 10, 2);
    write(&f.root.join("t/goes"), 10, 2);
    for to in ["t/", "d/sub/"] {
        let mut setup = Setup { deletion: Some(deletion(None)), ..f.setup() };
        setup.selection.one_file_system = true;
        let transfer = begin(&f.sources(&["s/"]).0, &f.destinations(to).1, &setup).expect("begun");
        assert_eq!(drive(transfer, f.setpoint).expect("ran").1, Vec::new());
    }
    let there = |to: &str| picture(&f.root.join(to)).into_iter().map(|(path, _)| path).collect::<Vec<_>>();
    assert_eq!(there("t"), ["t/file", "t/m", "t/m/stays"].map(|name| f.root.join(name)));
    assert_eq!(there("d/sub"), ["d/sub/file", "d/sub/m"].map(|name| f.root.join(name)));
}

#[test]
fn a_backup_directory_is_kept_apart_from_source_and_destination() {
    let f = world();
    for name in ["s/f", "s/in/f", "bk/s2/f", "t/f", "t/gone"] {
        write(&f.root.join(name), name.len() as u64, 3);
    }
    for (sources, to, backup, why) in [
        (&["s/"][..], "t/", "../s", "is or lies in the source"),
        (&["s/"], "t/", "../s/in", "is or lies in the source"),
        (&["s/"], "t/", "../s/new/deep", "is or lies in the source"),
        (&["s/f", "d/"], "t/", "../d/sub", "is or lies in the source"),
        (&["s/"], "t/", "/s", "is or lies in the source"),
        (&["bk/s2/"], "t/", "../bk", "holds the source"),
        (&["s/f", "d/"], "t/", "../s", "holds the source"),
        (&["s/"], "bk/s2/", "..", "is or holds the destination"),
        (&["s/"], "t/", "../t", "is the destination itself"),
        // Nor is the destination made first.
        (&["s/"], "new/", "../s", "is or lies in the source"),
    ] {
        f.refuses(sources, to, Some(backup), why);
    }
    let Some(_view) = Mounted::bind(&f.root.join("s/in"), &f.root.join("view")) else {
        return skip("a_backup_directory_is_kept_apart", "nothing can be mounted here");
    };
    f.refuses(&["s/"], "t/", Some("../view"), "is or lies in the source");
    let _target = Mounted::bind(&f.root.join("t"), &f.root.join("target")).expect("mounted as well");
    f.refuses(&["s/"], "t/", Some("../target/gone-to"), "lies in the destination by another path");
    // Beside them it is one.
    let (_, to) = f.destinations("t/");
    assert_eq!(f.mirror(&f.sources(&["s/"]).0, &to, Some("../old")), Ok(Vec::new()));
    assert_eq!(fs::read(f.root.join("old/gone")).expect("kept"), common::content(6, 3));
}

#[test]
fn nothing_is_put_into_a_source_that_lies_in_the_destination() {
    let f = world();
    write(&f.root.join("d/sub/sub/file"), 500, 7);
    write(&f.root.join("o/sub/file"), 500, 8);
    let told = |sources: &[&str]| {
        let (_, failures) = f.run(&f.sources(sources).0, &f.destinations("d/").1).expect("ran");
        let words: Vec<_> = failures.iter().map(|failure| &failure.error.message).collect();
        let meant = words.iter().all(|words| words.contains("into the source itself, or in its place"));
        assert!(meant && !failures.is_empty(), "{words:?}");
    };
    // By a directory of its own name in it, and by another source.
    told(&["d/sub/"]);
    assert_eq!(fs::read(f.root.join("d/sub/file")).expect("read"), common::content(1000, 2));
    assert_eq!(fs::read(f.root.join("d/file")).expect("read"), common::content(1000, 2));
    told(&["d/sub/file", "o/"]);
    assert_eq!(fs::read(f.root.join("d/sub/file")).expect("read"), common::content(1000, 2));
    let Some(_mount) = Mounted::bind(&f.root.join("o/sub"), &f.root.join("t/x")) else {
        return skip("nothing_is_put_into_a_source", "nothing can be mounted here");
    };
    // By a mount in the destination.
    write(&f.root.join("o/x/new/file"), 10, 9);
    let (_, failures) = f.run(&f.sources(&["o/"]).0, &f.destinations("t/").1).expect("ran");
    assert!(!failures.is_empty());
    assert!(!f.root.join("o/sub/new").exists());
}

/// Whether something can be mounted, which is said where not.
fn mounts(f: &Fixture, test: &str) -> bool {
    let can = Mounted::bind(&f.dir("one"), &f.dir("other")).is_some();
    if !can {
        skip(test, "nothing can be mounted here: links alone are tried");
    }
    can
}

fn nested(seeds: std::ops::Range<u64>, test: &str) {
    let mounting = mounts(&Fixture::new(), test);
    let wrong: Vec<String> = seeds.filter_map(|seed| nest::wrong(seed, mounting)).collect();
    assert!(wrong.is_empty(), "{} seeds:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn nothing_else_changes_and_nothing_is_lost_however_places_lie_in_one_another() {
    nested(0..12, "nothing_else_changes");
}

#[test]
#[ignore = "minutes: make long"]
fn nothing_else_changes_from_many_seeds() {
    let seeds = std::env::var("TIDEGATE_SEEDS").ok().and_then(|seeds| {
        let (from, to) = seeds.split_once('-')?;
        Some(from.parse().ok()?..to.parse().ok()?)
    });
    nested(seeds.unwrap_or(1000..2000), "nothing_else_changes");
}
