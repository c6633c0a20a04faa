//! A destination that others write into as well: what they plant, swap or move is never taken for ours.

use crate::common;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::common::{Fixture, assert_same_tree, drive, is_error, limit, write};
use testkit::skip;
use tidegate_transfer::error::ErrorKind;
use tidegate_transfer::store::abandoned::{self, EXPIRY, Removal};
use tidegate_transfer::sys::confined::Root;
use tidegate_transfer::terms::Links;
use tidegate_transfer::throttle::Limits;
use tidegate_transfer::transfer::route::{To, Transfer, begin};

/// Whom the other user is.
const NOBODY: u32 = 65_534;

const LARGE: u64 = 12_000_000;

/// A push into a directory that everybody may write, as `/tmp` is.
fn shared() -> (Fixture, PathBuf, PathBuf) {
    let mut f = Fixture::new();
    f.terms.limits = limit(150);
    let source = f.dir("tree");
    write(&source.join("large"), LARGE, 1);
    let target = f.root.join("in");
    fs::create_dir(&target).expect("made");
    for (path, mode) in [(f.temporary.path(), 0o755), (&f.root, 0o755), (&target, 0o1777)] {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("set");
    }
    (f, source, target)
}

/// Runs until some of it has moved.
fn begun(f: &Fixture, source: &Path) -> Transfer {
    let sources = f.local(&[source.to_path_buf()]);
    let mut transfer = begin(&sources, &f.to_endpoint("in/"), &f.setup()).expect("begun");
    while transfer.ledger().totals().bytes_moved < LARGE / 4 {
        assert!(transfer.step(f.setpoint).expect("goes on").is_some(), "it ended too early");
    }
    transfer
}

/// What `script` says when another user runs it in `directory`; `None` if we cannot become one.
fn as_nobody(directory: &Path, script: &str) -> Option<String> {
    let mut command = testkit::is_root().then(|| Command::new("sh"))?;
    command.args(["-c", script]).current_dir(directory).uid(NOBODY).gid(NOBODY);
    let output = command.output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn another_user_can_swap_nothing_of_a_running_transfer() {
    let name = "another_user_can_swap_nothing_of_a_running_transfer";
    for theirs in [false, true] {
        let (f, source, target) = shared();
        if theirs && as_nobody(&target, "mkdir -m 777 .tidegate; echo made").is_none() {
            return skip(name, "only root can act as another user");
        }
        let transfer = begun(&f, &source);
        let swap = "cd .tidegate; for id in *; do
                for part in $id/*; do echo evil >$part && echo written; rm -f $part && echo removed; done
                ls $id >/dev/null && echo listed
                mv $id stolen && mkdir $id && echo moved
                for part in 0 1 journal; do echo evil >$id/$part; done
            done 2>/dev/null; echo tried";
        let Some(said) = as_nobody(&target, swap) else {
            return skip(name, "only root can act as another user");
        };
        // Whose directory it is may call ours something else, and that is all.
        let expected = if theirs { "moved\ntried\n" } else { "tried\n" };
        assert_eq!(said.replace("removed\n", ""), expected);
        let (totals, failures) = drive(transfer, f.setpoint).expect("goes on");
        assert_eq!((totals.files_done, failures), (1, vec![]));
        assert_same_tree(&source, &target.join("tree"));
        let owner = target.join("tree/large").metadata().expect("there").uid();
        assert_eq!(owner, source.metadata().expect("there").uid());
    }
}

#[test]
fn what_another_user_prepared_is_refused_in_one_line() {
    let (mut f, source, target) = shared();
    drop(begun(&f, &source));
    let work = target.join(".tidegate");
    let id = fs::read_dir(&work).expect("left").next().expect("one").expect("listed").path();
    common::eventually("the endpoint lets go of it", || {
        let journal = fs::File::open(id.join("journal")).expect("opened");
        journal.try_lock().is_ok()
    });
    // The very work directory that the next run looks for, with all that makes it believable.
    let mut paths: Vec<PathBuf> =
        fs::read_dir(&id).expect("listed").map(|e| e.expect("listed").path()).collect();
    paths.extend([id.clone(), work.clone()]);
    if !testkit::is_root() || paths.iter().any(|path| chown(path, Some(NOBODY), Some(NOBODY)).is_err()) {
        return skip("what_another_user_prepared_is_refused_in_one_line", "only root can give files away");
    }
    f.terms.limits = Limits::default();
    let error = is_error(f.try_push(std::slice::from_ref(&source), "in/"));
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
    assert!(error.message.contains("it belongs to user 65534; remove it"), "{error}");
    assert!(!error.message.contains('\n') && !target.join("tree/large").exists());
    // One file of theirs among ours, under the name of the unfinished file.
    paths.iter().filter(|path| path.parent() != Some(&id)).for_each(|path| {
        chown(path, Some(0), Some(0)).expect("given back");
    });
    chown(id.join("journal"), Some(0), Some(0)).expect("given back");
    let (_, failures) = f.try_push(std::slice::from_ref(&source), "in/").expect("runs");
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].error.message.contains("it belongs to user 65534; remove it"), "{failures:?}");
    assert!(!target.join("tree/large").exists());
    let _ = fs::remove_dir_all(&work);
    f.push(std::slice::from_ref(&source), "in/");
    assert_same_tree(&source, &target.join("tree"));
}

#[test]
fn what_transfers_keep_for_themselves_is_no_content_at_any_depth() {
    let mut f = Fixture::new();
    let source = f.root.join("tree");
    write(&source.join("sub/file"), 10, 1);
    write(&source.join("sub/.tidegate/00/secret"), 10, 2);
    symlink("sub/.tidegate", source.join("link")).expect("linked");
    symlink("sub/.tidegate/00/secret", source.join("secret")).expect("linked");
    f.terms.links = Links::Follow;
    let files = |root: &Path| {
        let mut names: Vec<PathBuf> = common::picture(root)
            .into_iter()
            .filter(|(_, content)| content.is_some())
            .map(|(path, _)| path.strip_prefix(root).expect("beneath").to_path_buf())
            .collect();
        names.sort();
        names
    };
    let back = f.dir("back");
    let to = To::Local(back.as_os_str().as_bytes().to_vec());
    let (_, failures) = f.run(&f.remote(&["tree"]), &to).expect("runs");
    assert_eq!((files(&back), failures.len()), (vec!["tree/sub/file".into()], 2), "{failures:?}");
    f.run(&f.local(std::slice::from_ref(&source)), &f.to_endpoint("in/")).expect("runs");
    assert_eq!(files(&f.root.join("in")), [PathBuf::from("tree/sub/file")]);
    for named in ["tree/sub/.tidegate", "tree/sub/.tidegate/00/secret", "tree/link", "tree/secret"] {
        let to = f.dir("named");
        let result = f.run(&f.remote(&[named]), &To::Local(to.as_os_str().as_bytes().to_vec()));
        assert!(result.is_err() || result.is_ok_and(|(_, failures)| !failures.is_empty()), "{named}");
        assert_eq!(files(&to), Vec::<PathBuf>::new(), "{named}");
    }
    for into in ["in/.tidegate/", "in/sub/.tidegate/x", ".TIDEGATE/"] {
        let error = is_error(f.try_push(&[source.join("sub/file")], into));
        assert_eq!(error.kind, ErrorKind::UnsafeName, "{into}: {error}");
    }
}

/// Makes `directory` look as if nothing had been done to it for so long.
fn age(directory: &Path, idle: Duration) {
    let then = SystemTime::now() - idle;
    for entry in fs::read_dir(directory).expect("listed") {
        let path = entry.expect("listed").path();
        fs::File::open(path).expect("opened").set_modified(then).expect("set");
    }
    fs::File::open(directory).expect("opened").set_modified(then).expect("set");
}

#[test]
fn what_nobody_came_back_to_expires() {
    let f = Fixture::new();
    let (source, target) = (f.dir("tree"), f.root.join("in"));
    write(&source.join("file"), 10, 1);
    let left = |name: char, idle: Duration| {
        let id = target.join(".tidegate").join(name.to_string().repeat(32));
        write(&id.join("journal"), 100, 1);
        write(&id.join("c".repeat(32)), 100_000, 2);
        age(&id, idle);
        id
    };
    let day = Duration::from_secs(24 * 3600);
    let (old, young, held) = (left('a', EXPIRY + day), left('b', EXPIRY - day), left('d', EXPIRY + day));
    let lock = fs::File::open(held.join("journal")).expect("opened");
    lock.lock().expect("locked");
    write(&target.join(".tidegate/notes"), 10, 1);
    f.push(std::slice::from_ref(&source), "in/");
    assert_eq!([&old, &young, &held].map(|path| path.exists()), [false, true, true]);
    assert!(target.join(".tidegate/notes").exists(), "what is none of ours stays");

    let root = Root::open(f.temporary.path().as_os_str().as_bytes()).expect("opened");
    let mut found = Vec::new();
    abandoned::beneath(&root, &mut |abandoned| found.push(abandoned), &mut |error| panic!("{error}"));
    found.sort_by_key(|abandoned| abandoned.path.clone());
    let names: Vec<_> =
        found.iter().map(|abandoned| String::from_utf8_lossy(&abandoned.path).into_owned()).collect();
    assert_eq!(
        names,
        [&young, &held].map(|id| {
            id.strip_prefix(f.temporary.path()).expect("beneath").to_string_lossy().into_owned()
        })
    );
    assert!(found[0].size.0 >= 100_000 && found[0].idle >= EXPIRY - 2 * day, "{found:?}");
    let removals: Vec<Removal> = found.into_iter().map(|left| left.remove().expect("looked at")).collect();
    assert_eq!(removals, [Removal::Removed, Removal::Running]);
    assert!(!young.exists() && held.exists());
}

#[test]
fn a_directory_that_is_moved_away_is_no_success() {
    for replaced in [false, true] {
        let mut f = Fixture::new();
        let (source, target) = (f.dir("tree"), f.root.join("in"));
        for i in 0..3 {
            write(&source.join(format!("sub/{i}")), LARGE / 3, i);
        }
        f.terms.limits = limit(150);
        let transfer = begun(&f, &source);
        fs::rename(target.join("tree/sub"), target.join("elsewhere")).expect("moved");
        // Those that had their names by now were there when that was said of them.
        let before = fs::read_dir(target.join("elsewhere")).expect("listed").count();
        if replaced {
            fs::create_dir(target.join("tree/sub")).expect("made");
        }
        let missing = match drive(transfer, f.setpoint) {
            Ok((_, failures)) => failures.len(),
            Err(_) => 3,
        };
        let there = (0..3).filter(|i| target.join(format!("tree/sub/{i}")).exists()).count();
        assert!(there + missing + before >= 3, "{there} there, {missing} failed, {before} were done");
        assert!(replaced || missing > 0);
    }
}
