//! `--delete` beside rsync, and where it keeps from deleting.

use crate::common;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::draw::{Draw, judged_by_rsync, read_rules};
use crate::common::{Fixture, drive, eventually, is_error};
use testkit::mounted::Mounted;
use testkit::proxy::{Fault, Plan, Proxy};
use tidegate_control::rng::Rng;
use tidegate_transfer::endpoint::Config;
use tidegate_transfer::error::{ErrorKind, Result};
use tidegate_transfer::ledger::Failure;
use tidegate_transfer::selection::{Deletion, Selection};
use tidegate_transfer::transfer::route::{From, Setup, To, begin};
use tidegate_transfer::wire::ticket::Claims;

/// The paths beneath `top`, directories with a slash.
fn paths_in(top: &Path) -> BTreeSet<String> {
    fn add(top: &Path, at: &Path, paths: &mut BTreeSet<String>) {
        for entry in fs::read_dir(at).expect("listed").flatten() {
            let path = entry.path();
            let shown = path.strip_prefix(top).expect("beneath").to_string_lossy().into_owned();
            match entry.file_type().expect("a kind").is_dir() {
                true => {
                    paths.insert(format!("{shown}/"));
                    add(top, &path, paths);
                }
                false => drop(paths.insert(shown)),
            }
        }
    }
    let mut paths = BTreeSet::new();
    add(top, top, &mut paths);
    paths
}

fn typed(path: &Path, contents: bool) -> Vec<u8> {
    let mut typed = path.as_os_str().as_bytes().to_vec();
    typed.extend(contents.then_some(b'/'));
    typed
}

/// Everything may go.
fn all(rules: &[&str]) -> Deletion {
    let texts: Vec<String> = rules.iter().map(|&text| text.to_owned()).collect();
    Deletion { rules: read_rules(&texts), most: Some(u64::MAX), ..Deletion::default() }
}

/// A mirror of one directory's contents, at an endpoint that allows it.
struct Mirrored {
    f: Fixture,
    source: PathBuf,
}

impl Mirrored {
    /// With these files at the source and at the destination.
    fn new(source: &[&str], destination: &[&str]) -> Self {
        let f = Fixture::new();
        let place = f.dir("source");
        for (top, names) in [(&place, source), (&f.root.join("dst"), destination)] {
            for name in names {
                let path = top.join(name);
                fs::create_dir_all(path.parent().expect("a parent")).expect("made");
                match name.ends_with('/') {
                    true => fs::create_dir_all(path).expect("made"),
                    false => fs::write(path, name).expect("written"),
                }
            }
        }
        Self { f, source: place }
    }

    fn setup(&self, deletion: Deletion) -> Setup {
        let selection = Selection { rules: deletion.rules.clone(), ..Selection::default() };
        Setup { selection, deletion: Some(deletion), ..self.f.setup() }
    }

    fn to(&self) -> To {
        To::Endpoint(self.f.endpoint.address(&Claims::OWNER).expect("an address").with_path("dst/"))
    }

    fn from(&self) -> From {
        From::Local(vec![typed(&self.source, true)])
    }

    /// How much was deleted, and what failed.
    fn run(&self, deletion: Deletion) -> Result<(u64, Vec<Failure>)> {
        self.run_between(&self.from(), &self.to(), deletion)
    }

    fn run_between(&self, from: &From, to: &To, deletion: Deletion) -> Result<(u64, Vec<Failure>)> {
        let transfer = begin(from, to, &self.setup(deletion))?;
        let ledger = transfer.ledger().clone();
        let (_, failures) = drive(transfer, self.f.setpoint)?;
        Ok((ledger.entries_deleted(), failures))
    }

    fn there(&self) -> Vec<String> {
        paths_in(&self.f.root.join("dst")).into_iter().collect()
    }

    /// Runs, and holds that nothing went and that one line says `why`.
    fn keeps_all(&self, deletion: Deletion, why: &str) {
        let before = self.there();
        let (deleted, failures) = self.run(deletion).expect("ran");
        let told = failures.last().expect("told").error.message.clone();
        assert!(deleted == 0 && told.contains(why) && !told.contains('\n'), "{deleted} deleted: {told}");
        let gone: Vec<_> = before.iter().filter(|path| !self.there().contains(path)).collect();
        assert!(gone.is_empty(), "{gone:?} went");
    }
}

/// One source, one destination and a list of rules, mirrored by both.
fn differences(seed: u64, excluded: bool) -> Option<String> {
    let mut draw = Draw(Rng::new(seed));
    let f = Fixture::new();
    let source = f.dir("src");
    let mut paths = Vec::new();
    draw.tree(&source, "", 3, &mut paths);
    let (texts, merged) = draw.rules(&source, &paths);
    let contents = draw.chance(70);
    // What is there is partly as at the source, and of the same kinds: a file in the place of a directory is a failure.
    let (ours, theirs) = (f.root.join("dst"), f.dir("theirs"));
    fs::create_dir(&ours).expect("made");
    let copied = if contents { ours.clone() } else { ours.join("src") };
    let copy = |from: &Path, to: &Path| {
        let done = Command::new("cp").arg("-aT").arg(from).arg(to).status().expect("cp runs");
        assert!(done.success());
    };
    copy(&source, &copied);
    let mut more = paths.clone();
    for path in &paths {
        let here = copied.join(path);
        let is_directory = here.symlink_metadata().is_ok_and(|there| there.is_dir());
        if is_directory && draw.chance(60) {
            draw.tree(&here, &format!("{path}/"), 2, &mut more);
        }
    }
    draw.tree(&copied, "", 2, &mut more);
    for path in &paths {
        let here = copied.join(path);
        if !here.symlink_metadata().is_ok_and(|there| there.is_dir()) && draw.chance(30) {
            fs::remove_file(&here).expect("removed");
        }
    }
    copy(&ours, &theirs);

    let deletion =
        Deletion { rules: read_rules(&texts), excluded, most: Some(u64::MAX), ..Deletion::default() };
    let selection = Selection { rules: deletion.rules.clone(), ..Selection::default() };
    let setup = Setup { selection, deletion: Some(deletion), ..f.setup() };
    let to = To::Endpoint(f.endpoint.address(&Claims::OWNER).expect("an address").with_path("dst/"));
    let from = From::Local(vec![typed(&source, contents)]);
    let failed = begin(&from, &to, &setup).and_then(|transfer| drive(transfer, f.setpoint));
    let failed = failed.map(|(_, failures)| failures);

    let mut rsync = Command::new("rsync");
    rsync.args(["-a", "--delete-after", "-q"]).env("LC_ALL", "C");
    rsync.args(excluded.then_some("--delete-excluded"));
    rsync.args(texts.iter().map(|text| format!("--filter={text}")));
    let typed = typed(&source, contents);
    rsync.arg(std::ffi::OsStr::from_bytes(&typed)).arg(theirs.join(""));
    let output = rsync.output().expect("rsync runs");
    let (ours, theirs) = (paths_in(&ours), paths_in(&theirs));
    if ours == theirs {
        return None;
    }
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>();
    Some(format!(
        "seed {seed}, excluded {excluded}, contents {contents}: {texts:?}, files {merged:?}: only here {:?}, only rsync {:?}, {failed:?}, rsync {} {}",
        only(&ours, &theirs),
        only(&theirs, &ours),
        output.status,
        String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default(),
    ))
}

#[test]
fn the_same_is_deleted_as_by_rsync() {
    judged_by_rsync("mirrors keep and delete the same", 0..30, |seed| differences(seed, seed % 2 == 1));
}

#[test]
#[ignore = "minutes: make long"]
fn the_same_is_deleted_as_by_rsync_from_many_seeds() {
    judged_by_rsync("mirrors keep and delete the same", 1000..1600, |seed| differences(seed, seed % 2 == 1));
}

#[test]
fn a_source_that_could_not_be_read_whole_deletes_nothing() {
    let m = Mirrored::new(&["a", "d/b"], &["stranger", "d/stranger"]);
    // Larger than it was when it was listed, and so for anyone, root too: a link to nowhere that is followed.
    symlink("nowhere", m.source.join("dangling")).expect("linked");
    let mut setup = m.setup(all(&[]));
    setup.terms.links = tidegate_transfer::terms::Links::Follow;
    let (_, failures) = drive(begin(&m.from(), &m.to(), &setup).expect("begun"), m.f.setpoint).expect("ran");
    let told = &failures.last().expect("told").error.message;
    assert!(told.starts_with("nothing was deleted: not everything could be read"), "{told}");
    assert_eq!(m.there(), ["a", "d/", "d/b", "d/stranger", "stranger"]);
    // And with it mended the rest goes.
    fs::remove_file(m.source.join("dangling")).expect("removed");
    assert_eq!(m.run(all(&[])).expect("ran"), (2, Vec::new()));
    assert_eq!(m.there(), ["a", "d/", "d/b"]);
}

#[test]
fn a_session_that_is_lost_deletes_all_or_nothing_and_the_next_run_completes_it() {
    let names: Vec<String> = (0..300).map(|number| format!("d{}/f{number}", number % 7)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (mut lost, mut deleted) = (0, 0);
    for seed in 0..8 {
        let m = Mirrored::new(&names, &["stranger", "d1/stranger", "gone/x"]);
        // After how much of what this end says: from the offers to the last of the names, and behind it.
        let at = 3_000 + seed * 3_500;
        let proxy = Proxy::start(m.f.address.port, move |index| match index {
            0 => Plan { up: vec![Fault::Reset(at)], ..Plan::default() },
            _ => Plan::default(),
        });
        let direct = m.to();
        let To::Endpoint(mut address) = m.to() else { unreachable!("an endpoint") };
        address.port = proxy.port;
        let ran = m.run_between(&m.from(), &To::Endpoint(address), all(&[]));
        lost += u32::from(ran.is_err());
        let is_stranger = |path: &&String| path.contains("stranger") || path.starts_with("gone");
        let there = m.there().iter().filter(is_stranger).count();
        assert!(there == 0 || there == 4, "seed {seed}: {there} left of 4: {ran:?}");
        deleted += u32::from(there == 0);
        drop(proxy);
        // Whoever was cut off is let go of soon.
        eventually("the endpoint has let go", || m.run_between(&m.from(), &direct, all(&[])).is_ok());
        let expected: BTreeSet<String> = paths_in(&m.source);
        assert_eq!(m.there().into_iter().collect::<BTreeSet<_>>(), expected, "seed {seed}");
    }
    assert!(lost >= 4 && deleted < 8, "{lost} were lost, {deleted} deleted before that");
}

#[test]
fn what_looks_like_an_accident_needs_a_number() {
    let empty = Mirrored::new(&[], &["one"]);
    let unsaid = || Deletion { most: None, ..all(&[]) };
    empty.keeps_all(unsaid(), "the source is empty");
    assert_eq!(empty.run(all(&[])).expect("ran"), (1, Vec::new()));
    let names: Vec<String> = (0..101).map(|number| format!("f{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let half = Mirrored::new(&names[..50], &names);
    half.keeps_all(unsaid(), "51 of 101 files at the destination would go, over half");
    let (deleted, failures) = half.run(Deletion { most: Some(7), ..all(&[]) }).expect("ran");
    let told = &failures[0].error.message;
    assert!(deleted == 7 && told.contains("stopped at --max-delete 7: 44 more"), "{told}");
    assert_eq!(half.there().len(), 94);
    // Fewer need none.
    let less = Mirrored::new(&names[..51], &names);
    assert_eq!(less.run(unsaid()).expect("ran"), (50, Vec::new()));
}

#[test]
fn links_and_directories_go_and_nothing_behind_links_does() {
    let m = Mirrored::new(&["a"], &["gone/deep/x", "kept/keep.me", "kept/y"]);
    let outside = m.f.dir("outside");
    fs::write(outside.join("precious"), "x").expect("written");
    symlink(&outside, m.f.root.join("dst/link")).expect("linked");
    // Excluded files keep their directory.
    assert_eq!(m.run(all(&["- *.me"])).expect("ran"), (5, Vec::new()));
    assert_eq!(m.there(), ["a", "kept/", "kept/keep.me"]);
    assert!(outside.join("precious").exists());
}

#[test]
fn deleted_files_may_move_to_a_directory_of_the_same_file_system() {
    let backup = |path: &str, rules: &[&str]| Deletion { backup: Some(path.into()), ..all(rules) };
    let m = Mirrored::new(&["a"], &["d/x", "y"]);
    assert_eq!(m.run(backup("../old/1", &[])).expect("ran"), (3, Vec::new()));
    assert_eq!(
        (m.there(), paths_in(&m.f.root.join("old/1"))),
        (vec!["a".to_owned()], ["d/", "d/x", "y"].map(str::to_owned).into())
    );
    // Within the mirror it must be excluded, or it would go with the next run.
    let refused = |path: &str, rules: &[&str], kind, why: &str| {
        let error = is_error(m.run(backup(path, rules)));
        assert!(
            error.kind == kind && error.message.contains(why) && !error.message.contains('\n'),
            "{error}"
        );
    };
    for path in ["old", "./", "d/../old"] {
        refused(path, &[], ErrorKind::Usage, "the backup directory");
    }
    refused("../../..", &[], ErrorKind::Usage, "leads out of what is served");
    fs::write(m.f.root.join("dst/z"), "z").expect("written");
    assert_eq!(m.run(backup("old", &["- /old/"])).expect("ran"), (1, Vec::new()));
    assert_eq!(m.there(), ["a", "old/", "old/z"]);
    let Some(_other) = Mounted::tmpfs(&m.f.root.join("other"), "size=1m") else {
        testkit::skip("mirror", "nothing can be mounted");
        return;
    };
    refused("/other/old", &[], ErrorKind::Usage, "on another file system");
}

#[test]
fn what_is_replaced_is_kept_beside_what_is_deleted() {
    let m = Mirrored::new(&["a", "d/b"], &["d/x"]);
    let there = |name: &str| m.f.root.join("dst").join(name);
    let old = m.f.root.join("old");
    let backup = || Deletion { backup: Some("../old".into()), ..all(&[]) };
    fs::create_dir_all(&old).expect("made");
    fs::write(there("a"), "what was there before").expect("written");
    fs::write(there("d/b"), "x").expect("written");
    fs::write(old.join("a"), "kept by an earlier run").expect("written");
    assert_eq!(m.run(backup()).expect("ran"), (1, Vec::new()));
    assert_eq!(paths_in(&old), ["a", "d/", "d/b", "d/x"].map(str::to_owned).into());
    assert_eq!(fs::read_to_string(old.join("a")).expect("read"), "what was there before");
    assert_eq!(fs::read_to_string(old.join("d/b")).expect("read"), "x");
    assert!(fs::read(there("a")).expect("read") != b"what was there before");
    // What is the same is not replaced, and so not kept.
    fs::remove_dir_all(&old).expect("removed");
    assert_eq!(m.run(backup()).expect("ran"), (0, Vec::new()));
    assert!(!old.exists());
}

#[test]
fn a_ticket_without_the_right_deletes_nothing_whoever_sends() {
    let m = Mirrored::new(&["a"], &["stranger"]);
    let full = m.f.endpoint.address(&Claims::FULL).expect("an address").with_path("dst/");
    let other = Fixture::new();
    fs::write(other.root.join("a"), "a").expect("written");
    let there = From::Endpoint(other.address.clone(), vec![b"/".to_vec()]);
    for from in [m.from(), there] {
        let error = is_error(m.run_between(&from, &To::Endpoint(full.clone()), all(&[])));
        let wanted = "deleting is not allowed: ask for a ticket of `tidegate ticket --delete`";
        assert!(error.kind == ErrorKind::Denied && error.message.contains(wanted), "{error}");
    }
    assert_eq!(m.there(), ["stranger"]);
}

#[test]
fn every_route_mirrors() {
    let m = Mirrored::new(&["a", "d/b"], &["stranger", "d/old/x"]);
    // Between endpoints.
    let other = Fixture::new();
    for name in ["a", "d/b"] {
        common::write(&other.root.join("src").join(name), 10, 1);
    }
    let there = From::Endpoint(other.address.clone(), vec![b"src/".to_vec()]);
    assert_eq!(m.run_between(&there, &m.to(), all(&[])).expect("ran"), (3, Vec::new()));
    assert_eq!(m.there(), ["a", "d/", "d/b"]);
    // And from one to here.
    let here = m.f.dir("here");
    fs::create_dir_all(here.join("src/d/old")).expect("made");
    fs::write(here.join("stays"), "beside what is copied").expect("written");
    let from = From::Endpoint(other.address.clone(), vec![b"src".to_vec()]);
    let to = To::Local(typed(&here, true));
    assert_eq!(m.run_between(&from, &to, all(&[])).expect("ran"), (1, Vec::new()));
    assert_eq!(
        paths_in(&here).into_iter().collect::<Vec<_>>(),
        ["src/", "src/a", "src/d/", "src/d/b", "stays"]
    );
}

#[test]
fn a_mirror_keeps_the_programs_own_state_whoever_asks_for_it() {
    let own =
        |config: &mut Config| (config.serves_owner, config.state) = (true, config.root.join("dst/state"));
    let f = Fixture::with(own);
    let mirrored = Mirrored { source: f.dir("source"), f };
    let (state, there) = (mirrored.f.root.join("dst/state"), mirrored.f.root.join("dst"));
    fs::create_dir_all(mirrored.source.join("state/catalogue")).expect("made");
    fs::write(mirrored.source.join("new"), "new").expect("written");
    let secret = fs::read(state.join("endpoint.secret")).expect("there");
    let pulled = mirrored.f.dir("pulled");
    let copied = Command::new("cp").arg("-a").arg(&state).arg(&pulled).status();
    assert!(copied.expect("cp runs").success());
    let from = From::Endpoint(mirrored.f.address.clone().with_path(""), vec![b"from/".to_vec()]);
    fs::create_dir(mirrored.f.root.join("from")).expect("made");
    for (has_state, to) in [(true, &there), (false, &there), (false, &pulled)] {
        // The source has a directory of that name, with less in it; or it has none.
        if !has_state {
            let _ = fs::remove_dir_all(mirrored.source.join("state"));
        }
        fs::write(to.join("extraneous"), "x").expect("written");
        let deleted = match to == &pulled {
            true => mirrored.run_between(&from, &To::Local(typed(to, true)), all(&[])),
            false => mirrored.run(all(&[])),
        };
        assert_eq!(deleted.expect("ran"), (1, Vec::new()), "{has_state} {}", to.display());
        assert!(!to.join("extraneous").exists());
        assert_eq!(fs::read(to.join("state/endpoint.secret")).expect("there"), secret);
        assert!(to.join("state/endpoint.key.pem").exists() && to.join("state/catalogue").exists());
    }
}
