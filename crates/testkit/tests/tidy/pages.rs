//! What is promised on a page is there, and what is there has its page.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::rust::{code_lines, contains_word, declared_module};
use super::{has_extension, read, report, text_files};

#[test]
fn decisions_are_numbered_without_gaps() {
    let mut problems = Vec::new();
    let files = text_files();
    let decisions = files.iter().filter(|path| path.parent() == Some(Path::new("docs/decisions")));
    let numbered = decisions.filter(|path| !path.ends_with("README.md"));
    for (i, file) in numbered.enumerate() {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let wanted = format!("{:04}-", i + 1);
        if !name.starts_with(&wanted) || !name.ends_with(".md") {
            problems.push(format!("{}:1: rename it to {wanted}<title>.md", file.display()));
        }
    }
    report("docs/decisions is numbered from 0001 without gaps or doubles:", &problems);
}

#[test]
fn every_scenario_is_documented() {
    let pages = ["docs/scenarios.md", "scenarios/README.md"];
    let documented: String = pages.iter().filter_map(|page| read(Path::new(page))).collect();
    let mut problems = Vec::new();
    let files = text_files();
    for file in files.iter().filter(|path| path.starts_with("scenarios") && has_extension(path, "toml")) {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        if !contains_word(&documented, &stem) {
            let place = file.display();
            problems.push(format!("{place}:1: say what it shows in {}, naming `{stem}`", pages.join(" or ")));
        }
    }
    report("a scenario without a page is a riddle:", &problems);
}

#[test]
fn every_command_of_the_makefile_is_explained() {
    let makefile = read(Path::new("Makefile")).unwrap_or_default();
    let phony = makefile.lines().find_map(|line| line.strip_prefix(".PHONY:")).unwrap_or_default();
    let explained = |line: &&str| line.contains(": ") && line.contains("## ");
    let targets: BTreeSet<&str> =
        makefile.lines().filter(explained).filter_map(|line| line.split(':').next()).collect();
    let problems: Vec<String> = phony
        .split_whitespace()
        .filter(|target| !targets.contains(target))
        .map(|target| format!("Makefile:1: explain the target {target} with `## …` behind it"))
        .collect();
    report("`make help` shows every target:", &problems);
}

#[test]
fn every_test_that_the_protocol_names_is_there() {
    let page = "docs/threats.md";
    let text = read(Path::new(page)).unwrap_or_default();
    let files = text_files();
    let mut problems = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for (file, test) in line.split('`').filter_map(|word| word.split_once(".rs::")) {
            let name = format!("{file}.rs");
            let mut named = files.iter().filter(|path| path.file_name().is_some_and(|n| *n == *name));
            if !named.any(|path| read(path).is_some_and(|code| code.contains(&format!("fn {test}()")))) {
                problems.push(format!("{page}:{number}: there is no test {test} in a file {name}"));
            }
        }
    }
    report("a promise is held by a test:", &problems);
}

/// The part of ARCHITECTURE.md from the heading that begins with `from` to the next one.
fn architecture(from: &str) -> String {
    let text = read(Path::new("ARCHITECTURE.md")).unwrap_or_default();
    let section = text.split("\n## ").find(|section| section.starts_with(from));
    section.unwrap_or_else(|| panic!("ARCHITECTURE.md has no heading that begins with {from:?}")).to_owned()
}

#[test]
fn the_picture_of_the_floors_names_every_module() {
    let floors = architecture("The floors");
    let mut problems = Vec::new();
    for lib in text_files().iter().filter(|path| path.ends_with("src/lib.rs")) {
        let name = lib.iter().nth(1).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let Some((_, floor)) = floors.split_once(&format!("\n crates/{name} ")) else {
            problems.push(format!("ARCHITECTURE.md: the floors have no crates/{name}"));
            continue;
        };
        let floor = floor.split("\n crates/").next().unwrap_or_default();
        let text = read(lib).unwrap_or_default();
        let declared = code_lines(&text);
        // What only makes the crate a library of another language has no floor of its own.
        for module in declared.iter().filter_map(|line| declared_module(line)).filter(|_| name != "python") {
            if !floor.lines().skip(1).any(|line| contains_word(line, module)) {
                problems
                    .push(format!("ARCHITECTURE.md: the floor of crates/{name} does not name `{module}`"));
            }
        }
    }
    report("the picture of the floors is whole:", &problems);
}

#[test]
fn the_picture_of_the_floors_is_in_the_order_of_the_lists() {
    let picture = architecture("The floors");
    let mut problems = Vec::new();
    let (mut name, mut floors, mut last) = ("", BTreeMap::new(), usize::MAX);
    for line in picture.lines() {
        if let Some(begun) = line.strip_prefix(" crates/") {
            name = begun.split(' ').next().unwrap_or_default();
            (floors, last) = (floors_of(name), usize::MAX);
            continue;
        }
        // The column of the modules, behind that of their group.
        let column: String = line.chars().skip(20).collect();
        for module in column.split_whitespace() {
            let Some(&floor) = floors.get(module) else { continue };
            if floor > last {
                problems.push(format!(
                    "ARCHITECTURE.md: crates/{name} lists `{module}` above what the picture names before it"
                ));
            }
            last = floor;
        }
    }
    report("the picture of the floors is read from the top down:", &problems);
}

/// How far up each module of a crate is listed. Neighbours are sorted by their names, and are of one floor.
fn floors_of(name: &str) -> BTreeMap<String, usize> {
    let text = read(&Path::new("crates").join(name).join("src/lib.rs")).unwrap_or_default();
    let (mut floor, mut floors) = (0, BTreeMap::new());
    for line in text.lines() {
        match declared_module(line) {
            Some(module) => drop(floors.insert(module.to_owned(), floor)),
            // What a module is left out without.
            None if line.starts_with("#[cfg") => {}
            None => floor += 1,
        }
    }
    floors
}

#[test]
fn every_function_that_the_walks_pass_is_there() {
    let code: String = text_files()
        .iter()
        .filter(|path| {
            path.starts_with("crates") && path.iter().any(|part| part == "src") && has_extension(path, "rs")
        })
        .map(|path| read(path).unwrap_or_default())
        .collect();
    let mut problems = Vec::new();
    for walk in ["an observation", "a block", "a job", "a ticket", "a new option"] {
        let walk = &format!("A walk with {walk}");
        let text = architecture(walk);
        // Options, commands and paths are none.
        let words = text.split('`').skip(1).step_by(2);
        let words = words.filter(|word| !word.starts_with('-') && !word.contains([' ', '/']));
        for word in words {
            let (home, name) = word.rsplit_once("::").unwrap_or(("", word));
            let is_function = name.starts_with(|c: char| c.is_ascii_lowercase());
            let is_there = |what: &str, name: &str| {
                ["(", "<", " ", ";", "\n", ":"]
                    .iter()
                    .any(|end| code.contains(&format!("{what} {name}{end}")))
            };
            let here = match is_function {
                true => is_there("fn", name),
                false => {
                    ["struct", "trait", "enum"].iter().any(|what| is_there(what, name)) || {
                        code.contains(&format!("\n    {name}(")) || code.contains(&format!("\n    {name},"))
                    }
                }
            };
            let home_is_there = home.is_empty()
                || home.starts_with(|c: char| c.is_ascii_lowercase())
                || ["struct", "trait", "enum", "type"].iter().any(|what| is_there(what, home));
            if !here || !home_is_there {
                problems.push(format!("ARCHITECTURE.md, {walk:?}: there is no `{word}` any more"));
            }
        }
    }
    report("the walks pass what is there:", &problems);
}
