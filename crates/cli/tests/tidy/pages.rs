//! What is promised on a page is there, and what is there has its page.

use std::collections::BTreeSet;
use std::path::Path;

use super::rust::contains_word;
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
    let page = "docs/protocol.md";
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
