//! Filter rules beside rsync: seeded trees and lists of rules, and the same names listed, path by path.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use tidegate_control::rng::Rng;
use tidegate_transfer::filter::listed_names;
use tidegate_transfer::filter::rule::{Line, Lines, Rule, read};
use tidegate_transfer::manifest::Kind;
use tidegate_transfer::selection::Selection;
use tidegate_transfer::store::file_source::FileSource;
use tidegate_transfer::store::{Found, Source};
use tidegate_transfer::terms::Links;

const NAMES: [&str; 18] = [
    "a", "b", "ab", "a.o", "b.o", "foo", "x", "y", "z", ".hid", "é", "[a]", "a\\b", "a b", "*s", "x-y", "d1",
    "Foo",
];

/// Draws; what is drawn follows from the seed.
struct Draw(Rng);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n as u64) as usize
    }

    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Makes a tree and answers with its paths.
    fn tree(&mut self, at: &Path, prefix: &str, depth: usize, paths: &mut Vec<String>) {
        for _ in 0..2 + self.below(5) {
            let name = self.of(&NAMES);
            let (path, shown) = (at.join(name), format!("{prefix}{name}"));
            if path.symlink_metadata().is_ok() {
                continue;
            }
            if depth > 0 && self.chance(45) {
                fs::create_dir(&path).expect("made");
                self.tree(&path, &format!("{shown}/"), depth - 1, paths);
            } else if self.chance(8) {
                std::os::unix::fs::symlink(self.of(&NAMES), &path).expect("linked");
            } else {
                fs::write(&path, "content".repeat(self.below(3))).expect("written");
            }
            paths.push(shown);
        }
    }

    /// A pattern made of one of the `paths`, or of anything.
    fn pattern(&mut self, paths: &[String]) -> String {
        if self.chance(12) {
            let of = [
                "a",
                "b",
                "o",
                "x",
                ".",
                "/",
                "*",
                "**",
                "?",
                "[",
                "]",
                "[!a]",
                "[a-y]",
                "[[:alpha:]]",
                "\\",
                "-",
            ];
            return (0..1 + self.below(6)).map(|_| self.of(&of)).collect();
        }
        let path = &paths[self.below(paths.len())];
        let mut parts: Vec<String> = path.split('/').map(str::to_owned).collect();
        parts.drain(..self.below(parts.len()));
        parts.truncate(1 + self.below(parts.len()));
        for part in &mut parts {
            *part = match self.below(14) {
                0 => "*".to_owned(),
                1 => "**".to_owned(),
                2 => part.chars().map(|c| if self.chance(50) { '?' } else { c }).collect(),
                3 => format!("{}*", part.chars().next().unwrap_or('a')),
                4 => format!("*{}", part.chars().last().unwrap_or('a')),
                5 => format!("**{}", part.chars().last().unwrap_or('a')),
                6 => format!("{}**", part.chars().next().unwrap_or('a')),
                7 => format!("[{}b-z]*", part.chars().next().unwrap_or('a')),
                8 => "[^a]*".to_owned(),
                9 => "[[:lower:][:punct:]]*".to_owned(),
                10 => part.chars().flat_map(|c| ['\\', c]).collect(),
                _ => part.clone(),
            };
        }
        let start = if self.chance(30) { "/" } else { "" };
        let end = match self.below(12) {
            0 | 1 => "/",
            2 => "/***",
            3 => "/**",
            4 => "***",
            _ => "",
        };
        format!("{start}{}{end}", parts.join("/"))
    }

    fn rule(&mut self, paths: &[String]) -> String {
        let sign =
            self.of(&["-", "-", "-", "-", "+", "+", "H", "S", "P", "R", "-!", "-s", "-r", "+p", "exclude"]);
        match self.below(25) {
            0 => "!".to_owned(),
            1 => "+ */".to_owned(),
            2 => "- *".to_owned(),
            _ => format!("{sign} {}", self.pattern(paths)),
        }
    }
}

/// One tree with its rules, and what both say of them.
fn differences(seed: u64) -> Option<String> {
    let mut draw = Draw(Rng::new(seed));
    let place = tempfile::tempdir().expect("a directory");
    let source = place.path().join("src");
    fs::create_dir(&source).expect("made");
    let mut paths = Vec::new();
    draw.tree(&source, "", 3, &mut paths);
    let mut texts: Vec<String> = (0..1 + draw.below(5)).map(|_| draw.rule(&paths)).collect();
    let mut merged = Vec::new();
    if draw.chance(30) {
        let at = draw.below(texts.len() + 1);
        texts.insert(at, format!("{} .f", draw.of(&[":", ":e", ":n", ":-", ":s", "dir-merge,e"])));
        let bare = texts[at].starts_with(":-");
        let directories: Vec<_> = paths.iter().filter(|path| source.join(path).is_dir()).cloned().collect();
        for directory in directories.iter().map(String::as_str).chain([""]) {
            if draw.chance(60) {
                let mut file = fs::File::create(source.join(directory).join(".f")).expect("made");
                for _ in 0..1 + draw.below(3) {
                    let line = if bare { draw.pattern(&paths) } else { draw.rule(&paths) };
                    // rsync takes bytes of the directory's own name for wildcards in what is anchored there.
                    if directory.contains(['[', '*', '\\']) && line.contains('/') {
                        continue;
                    }
                    merged.push(format!("{directory}: {line}"));
                    if bare
                        || texts[at] != ":s .f"
                        || ["- ", "+ ", "!"].iter().any(|start| line.starts_with(start))
                    {
                        writeln!(file, "{line}").expect("written");
                    }
                }
            }
        }
    }
    let mut list = None;
    if draw.chance(20) {
        let names = (0..1 + draw.below(4)).map(|_| paths[draw.below(paths.len())].clone());
        list = Some(names.collect::<Vec<_>>().join("\n"));
    }
    let contents = list.is_some() || draw.chance(70);
    let typed = format!("{}{}", source.display(), if contents { "/" } else { "" });

    let mut rules: Vec<Rule> = Vec::new();
    for text in &texts {
        match read(text.as_bytes(), Lines::Rules) {
            Ok(Line::Clear) => rules.clear(),
            Ok(Line::Rule(rule)) => rules.push(rule),
            // What is no rule is none for either.
            other => panic!("seed {seed}: {text}: {other:?}"),
        }
    }
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

fn compare(seeds: std::ops::Range<u64>) {
    let runs = Command::new("rsync").arg("--version").output().is_ok_and(|output| output.status.success());
    if !runs {
        common::skip("filters", "rsync is not installed");
        return;
    }
    println!("seeds {seeds:?}");
    let all = seeds.end - seeds.start;
    let different: Vec<_> = seeds.filter_map(differences).collect();
    println!(
        "{} of {all} trees and lists of rules list the same names as rsync",
        all - different.len() as u64
    );
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}

#[test]
fn the_same_names_are_listed_as_by_rsync() {
    compare(0..60);
}

#[test]
#[ignore = "two minutes: make long"]
fn the_same_names_are_listed_as_by_rsync_from_many_seeds() {
    compare(1000..2000);
}
