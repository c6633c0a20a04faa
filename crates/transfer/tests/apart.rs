//! A destination that is the source, or lies in it, by whatever path: refused before anything is made.

mod common;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use common::mounted::Mounted;
use common::{Fixture, assert_same_tree, is_error, picture, skip, write};
use tidegate_transfer::error::ErrorKind;
use tidegate_transfer::transfer::route::{From, To};

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
