//! A destination that is moved away, removed or replaced while files are put into it: no such copy has succeeded.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::common::{Fixture, drive, eventually, is_error, leftovers, limit, write};
use tidegate_transfer::counters::Totals;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::ledger::Failure;
use tidegate_transfer::selection::Deletion;
use tidegate_transfer::terms::Compare;
use tidegate_transfer::transfer::route::{From, Setup, To, begin};
use tidegate_transfer::wire::ticket::Claims;

const LARGE: u64 = 2_000_000;

/// What becomes of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Moved,
    Removed,
    AFile,
    ALink,
    AnotherDirectory,
}

const FATES: [Fate; 5] = [Fate::Moved, Fate::Removed, Fate::AFile, Fate::ALink, Fate::AnotherDirectory];

impl Fate {
    fn befalls(self, directory: &Path) {
        let elsewhere = directory.with_file_name("elsewhere");
        if self == Self::Removed {
            // Files may be made in it meanwhile.
            while directory.exists() {
                let _ = fs::remove_dir_all(directory);
            }
            return;
        }
        fs::rename(directory, &elsewhere).expect("moved");
        match self {
            Self::AFile => fs::write(directory, "a file").expect("written"),
            Self::ALink => {
                let other = directory.with_file_name("other");
                fs::create_dir(&other).expect("made");
                symlink(other, directory).expect("linked");
            }
            Self::AnotherDirectory => fs::create_dir(directory).expect("made"),
            _ => {}
        }
    }
}

/// Which way files go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Push,
    /// To an endpoint of the same process.
    Joined,
    Pull,
    ThirdParty,
}

struct Copying {
    f: Fixture,
    other: Fixture,
    source: PathBuf,
    route: Route,
}

impl Copying {
    fn new(route: Route) -> Self {
        let (mut f, other) = (Fixture::new(), Fixture::new());
        f.joined = route == Route::Joined;
        f.terms.limits = limit(40);
        let from_endpoint = matches!(route, Route::Pull | Route::ThirdParty);
        let source = if from_endpoint { f.root.join("source") } else { f.dir("source") };
        write(&source.join("sub/large"), LARGE, 1);
        write(&source.join("sub/small"), 10, 2);
        write(&source.join("sub/tiny/empty"), 0, 3);
        write(&source.join("sub/z-large"), LARGE, 4);
        Self { f, other, source, route }
    }

    /// The directory that `d` is at the destination.
    fn destination(&self, d: &str) -> PathBuf {
        match self.route {
            Route::Push | Route::Joined => self.f.root.join(d),
            Route::Pull => self.f.dir("here").join(d),
            Route::ThirdParty => self.other.root.join(d),
        }
    }

    /// From `from` beneath the source to `to` at the destination.
    fn between(&self, from: &str, to: &str) -> (From, To) {
        let from = match self.route {
            Route::Push | Route::Joined => {
                From::Local(vec![[self.source.as_os_str().as_bytes(), b"/", from.as_bytes()].concat()])
            }
            Route::Pull | Route::ThirdParty => self.f.remote(&[&format!("source/{from}")]),
        };
        let to = match self.route {
            Route::Push | Route::Joined => self.f.to_endpoint(to),
            Route::Pull => To::Local([self.destination("").as_os_str().as_bytes(), to.as_bytes()].concat()),
            Route::ThirdParty => self.other.to_endpoint(to),
        };
        (from, to)
    }

    /// Copies, and has `happens` happen once that has begun.
    fn run_while(
        &self,
        (from, to): &(From, To),
        setup: &Setup,
        happens: impl FnOnce() + Send,
    ) -> Result<(Totals, Vec<Failure>)> {
        let transfer = begin(from, to, setup)?;
        let top = self.destination("");
        thread::scope(|scope| {
            scope.spawn(move || {
                eventually("something is on its way", || !leftovers(&top).is_empty());
                happens();
            });
            drive(transfer, self.f.setpoint)
        })
    }

    fn fails(&self, from: &str, to: &str, named: &str, fate: Fate) {
        let directory = self.destination(named);
        let route = self.between(from, to);
        let result = self.run_while(&route, &self.f.setup(), || fate.befalls(&directory));
        let case = format!("{:?}, {fate:?}, {from} to {to}", self.route);
        assert_moved(&is_error(result), named, &case);
        if fate == Fate::AnotherDirectory {
            assert_eq!(fs::read_dir(&directory).expect("listed").count(), 0, "{case}");
        }
    }
}

fn assert_moved(error: &Error, named: &str, case: &str) {
    assert_eq!(error.kind, ErrorKind::Changed, "{case}: {error}");
    let message = &error.message;
    let is_said =
        message.contains(named) && message.contains("was moved or replaced") && !message.contains('\n');
    assert!(is_said && message.ends_with("start again"), "{case}: {message}");
}

#[test]
fn a_destination_that_does_not_stay_is_no_success_on_any_route() {
    for fate in FATES {
        thread::scope(|scope| {
            for route in [Route::Push, Route::Joined, Route::Pull, Route::ThirdParty] {
                // A tree into a directory, and one file, by its own name and by another.
                scope.spawn(move || Copying::new(route).fails("sub", "d/", "d", fate));
                scope.spawn(move || Copying::new(route).fails("sub/", "a/d", "a/d", fate));
                scope.spawn(move || Copying::new(route).fails("sub/large", "d/", "d", fate));
                scope.spawn(move || {
                    let copying = Copying::new(route);
                    fs::create_dir_all(copying.destination("d")).expect("made");
                    copying.fails("sub/large", "d/name", "d", fate);
                });
                // What contains it.
                scope.spawn(move || Copying::new(route).fails("sub", "a/d/", "a", fate));
            }
        });
    }
}

#[test]
fn the_place_is_called_as_it_was_typed() {
    for route in [Route::Push, Route::ThirdParty, Route::Pull] {
        let copying = Copying::new(route);
        let (from, to) = copying.between("sub", "d/");
        let typed = match &to {
            To::Endpoint(address) => address.public(),
            To::Local(path) => String::from_utf8_lossy(path).into_owned(),
            To::Null => String::new(),
        };
        let directory = copying.destination("d");
        let result = copying.run_while(&(from, to), &copying.f.setup(), || Fate::Moved.befalls(&directory));
        let message = is_error(result).message;
        assert!(message.contains(&format!("the destination {typed} was moved")), "{message}");
    }
}

#[test]
fn a_link_on_the_way_that_leads_elsewhere_by_then_is_noticed() {
    for route in [Route::Push, Route::Pull] {
        for (to, one_file) in [("link/", false), ("link/d/", false), ("link/name", true)] {
            let copying = Copying::new(route);
            let [first, second, link] = ["first", "second", "link"].map(|name| copying.destination(name));
            fs::create_dir_all(&first).expect("made");
            fs::create_dir_all(&second).expect("made");
            symlink("first", &link).expect("linked");
            let between = copying.between(if one_file { "sub/large" } else { "sub" }, to);
            let result = copying.run_while(&between, &copying.f.setup(), || {
                fs::remove_file(&link).expect("removed");
                symlink("second", &link).expect("linked");
            });
            assert_moved(&is_error(result), "link", &format!("{route:?}, {to}"));
        }
    }
}

#[test]
fn nothing_is_removed_at_either_end_once_the_destination_has_moved() {
    for route in [Route::Push, Route::Joined, Route::Pull] {
        for moving in [false, true] {
            let copying = Copying::new(route);
            let directory = copying.destination("d");
            write(&directory.join("extraneous"), 10, 7);
            let deletion = Deletion { most: Some(u64::MAX), ..Deletion::default() };
            let deletion = (!moving).then_some(deletion);
            let mut setup = Setup { moving, deletion, ..copying.f.setup() };
            setup.terms.compare = Compare::Checksum;
            let owner = copying.f.endpoint.address(&Claims::OWNER).expect("an address");
            let between = match copying.between("sub/", "d/") {
                (From::Endpoint(_, paths), to) => (From::Endpoint(owner, paths), to),
                (from, _) => (from, To::Endpoint(owner.with_path("d/"))),
            };
            let result = copying.run_while(&between, &setup, || Fate::Moved.befalls(&directory));
            assert_moved(&is_error(result), "d", &format!("{route:?}"));
            assert!(directory.with_file_name("elsewhere").join("extraneous").exists(), "{route:?}");
            assert!(copying.source.join("sub/z-large").exists(), "{route:?}");
        }
    }
}

#[test]
fn a_directory_whose_files_were_all_there_before_it_moved_is_no_success() {
    for route in [Route::Push, Route::Pull] {
        for fate in FATES {
            let copying = Copying::new(route);
            write(&copying.source.join("sub/a-first/one"), 10, 5);
            let filled = copying.destination("d/sub/a-first");
            let between = copying.between("sub", "d/");
            let result = copying.run_while(&between, &copying.f.setup(), || {
                eventually("the first is there", || filled.join("one").exists());
                // What is said of it is said soon after.
                thread::sleep(Duration::from_millis(50));
                fate.befalls(&filled);
            });
            let message = is_error(result).message;
            assert!(message.contains("sub/a-first was moved or replaced"), "{route:?} {fate:?}: {message}");
        }
    }
}

#[test]
fn a_source_that_is_moved_away_stays_what_is_copied_or_fails() {
    for route in [Route::Push, Route::Pull] {
        let copying = Copying::new(route);
        let moved = copying.source.with_file_name("moved");
        let result = copying.run_while(&copying.between("sub", "d/"), &copying.f.setup(), || {
            fs::rename(&copying.source, &moved).expect("moved");
        });
        let missing = match result {
            Ok((totals, failures)) => {
                assert_eq!(totals.files_failed, failures.len() as u64);
                failures.len()
            }
            Err(_) => 4,
        };
        let there = ["large", "small", "tiny/empty", "z-large"].map(|name| {
            let there = fs::read(copying.destination("d/sub").join(name)).ok();
            assert!(there.is_none() || there == fs::read(moved.join("sub").join(name)).ok(), "{name}");
            there.is_some()
        });
        assert!(there.iter().filter(|there| **there).count() + missing >= 4, "{route:?}");
    }
}
