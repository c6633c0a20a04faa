//! Filter rules beside rsync: seeded trees and lists of rules, and the same names listed, path by path.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::common::draw::{Draw, judged_by_rsync, read_rules};
use tidegate_control::rng::Rng;
use tidegate_transfer::filter::listed_names;
use tidegate_transfer::manifest::Kind;
use tidegate_transfer::selection::Selection;
use tidegate_transfer::store::file_source::FileSource;
use tidegate_transfer::store::{Found, Source};
use tidegate_transfer::terms::Links;

/// One tree with its rules, and what both say of them.
fn differences(seed: u64) -> Option<String> {
    let mut draw = Draw(Rng::new(seed));
    let place = tempfile::tempdir().expect("a directory");
    let source = place.path().join("src");
    fs::create_dir(&source).expect("made");
    let mut paths = Vec::new();
    draw.tree(&source, "", 3, &mut paths);
    let (texts, merged) = draw.rules(&source, &paths);
    let mut list = None;
    if draw.chance(20) {
        let names = (0..1 + draw.below(4)).map(|_| paths[draw.below(paths.len())].clone());
        list = Some(names.collect::<Vec<_>>().join("\n"));
    }
    let contents = list.is_some() || draw.chance(70);
    let typed = format!("{}{}", source.display(), if contents { "/" } else { "" });

    let rules = read_rules(&texts);
    let names = list.as_ref().map(|list| listed_names(list.as_bytes(), false)).unwrap_or_default();
    let selection = Selection { rules, listed: list.is_some(), names, ..Selection::default() };
    let (mut ours, mut failed) = (BTreeSet::new(), BTreeSet::new());
    let sources = [typed.as_bytes().to_vec()];
    let opened =
        FileSource::local(&sources, Links::Keep).expect("opened").selecting(selection).expect("rules");
    let listed = opened.list(&mut |found| {
        match found {
            Found::Entry(listed) => {
                let end = if listed.entry.kind == Kind::Directory { "/" } else { "" };
                ours.insert(format!("{}{end}", String::from_utf8_lossy(listed.entry.path.as_bytes())));
            }
            Found::Problem(_, error) => drop(failed.insert(error.message)),
            Found::Note(..) => {}
        }
        true
    });
    if let Err(error) = listed {
        failed.insert(error.message);
    }

    let mut rsync = Command::new("rsync");
    rsync.args(["-a", "-r", "-n", "-8", "--out-format=%n", "--no-h"]).env("LC_ALL", "C");
    rsync.args(texts.iter().map(|text| format!("--filter={text}")));
    if let Some(list) = &list {
        fs::write(place.path().join("list"), list).expect("written");
        rsync.arg(format!("--files-from={}", place.path().join("list").display()));
    }
    let output = rsync.arg(&typed).arg(place.path().join("dst/")).output().expect("rsync runs");
    let theirs: BTreeSet<String> = output
        .stdout
        .split(|byte| *byte == b'\n')
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .map(|line| line.split(" -> ").next().unwrap_or_default().to_owned())
        .filter(|line| !line.is_empty() && line != "./")
        .collect();
    // A source that is named and excluded is an error here, and nothing there.
    let excluded = failed.iter().any(|why| why.contains("is named as a source and excluded"));
    if ours == theirs && (failed.is_empty() || (excluded && theirs.is_empty())) {
        return None;
    }
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>();
    Some(format!(
        "seed {seed}: {texts:?} of {:?}, list {list:?}, files {merged:?}: only here {:?}, only rsync {:?}, failed {failed:?}, rsync {} {}",
        typed.as_bytes().last().map(|byte| *byte as char),
        only(&ours, &theirs),
        only(&theirs, &ours),
        output.status,
        String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default(),
    ))
}

#[test]
fn the_same_names_are_listed_as_by_rsync() {
    judged_by_rsync("trees and lists of rules list the same names", 0..60, differences);
}

#[test]
#[ignore = "two minutes: make long"]
fn the_same_names_are_listed_as_by_rsync_from_many_seeds() {
    judged_by_rsync("trees and lists of rules list the same names", 1000..2000, differences);
}
