//! The rules of the house, as tests. Every message names `file:line` and says what to do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A source file keeps one idea, so it stays short. Tests at its end do not count.
const MAX_LINES: usize = 700;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository root exists")
}

/// Text files that belong to the repository, relative to its root.
fn text_files() -> Vec<PathBuf> {
    let listed = Command::new("git").arg("-C").arg(root()).args(["ls-files", "-z"]).output();
    let mut paths = match listed {
        Ok(out) if out.status.success() && !out.stdout.is_empty() => {
            String::from_utf8_lossy(&out.stdout).split_terminator('\0').map(PathBuf::from).collect()
        }
        _ => walk(&root()),
    };
    paths.retain(|path| read(path).is_some());
    paths.sort();
    paths
}

/// All files below `dir` relative to the root, for a source tree without git.
fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "target" && name != ".git" && name != "__pycache__" {
            found.extend(walk(&path));
        } else if path.is_file() {
            found.push(path.strip_prefix(root()).expect("below the root").to_owned());
        }
    }
    found
}

/// The text of a file; `None` for binary files, links and files that another edit just removed.
fn read(path: &Path) -> Option<String> {
    let bytes = std::fs::read(root().join(path)).ok()?;
    if bytes.contains(&0) { None } else { String::from_utf8(bytes).ok() }
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|found| found == wanted)
}

/// The part of a Rust file before its `#[cfg(test)] mod tests`, without comments, line by line.
fn code_lines(text: &str) -> Vec<&str> {
    let all: Vec<&str> = text.lines().collect();
    let is_test_module = |i: usize| {
        all[i].trim() == "#[cfg(test)]"
            && all[i + 1..].iter().take(3).any(|line| line.trim().starts_with("mod "))
    };
    let end = (0..all.len()).find(|&i| is_test_module(i)).unwrap_or(all.len());
    all[..end].iter().map(|line| line.split("//").next().unwrap_or_default()).collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether `word` stands in `line` with no letter, digit or underscore on either side.
fn contains_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        !line[..at].chars().next_back().is_some_and(is_word)
            && !line[at + word.len()..].chars().next().is_some_and(is_word)
    })
}

/// The first names of a use path's rest: `a::b` gives `a`; `{a::{x, y}, b as c}` gives `a` and `b`.
fn first_names(rest: &str) -> Vec<String> {
    let Some(group) = rest.strip_prefix('{') else {
        return vec![rest.chars().take_while(|&c| is_word(c)).collect()];
    };
    let (mut names, mut depth, mut item) = (Vec::new(), 0, String::new());
    for c in group.chars() {
        match c {
            '}' if depth == 0 => break,
            ',' if depth == 0 => names.push(std::mem::take(&mut item)),
            _ => {
                depth += i32::from(c == '{') - i32::from(c == '}');
                item.push(c);
            }
        }
    }
    names.push(item);
    let first = |item: &String| item.trim().chars().take_while(|&c| is_word(c)).collect::<String>();
    names.iter().map(first).filter(|name| !name.is_empty()).collect()
}

/// Every `prefix::name` in the code, with its line number from 1; groups may span lines.
fn names_after(code: &[&str], prefix: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (i, line) in code.iter().enumerate() {
        for (at, _) in line.match_indices(prefix) {
            if line[..at].chars().next_back().is_some_and(|c| is_word(c) || c == '$') {
                continue;
            }
            let mut rest = line[at + prefix.len()..].to_owned();
            if rest.starts_with('{') {
                rest.extend(code[i + 1..].iter().take(60).copied());
            }
            found.extend(first_names(&rest).into_iter().map(|name| (i + 1, name)));
        }
    }
    found
}

/// The name in `pub mod name;`, with any visibility.
fn declared_module(line: &str) -> Option<&str> {
    let line = line.trim();
    let after = match line.strip_prefix("mod ") {
        Some(after) => after,
        None => line.split_once(" mod ")?.1,
    };
    let visible = line.starts_with("mod ") || line.starts_with("pub");
    let name = after.strip_suffix(';')?.trim();
    (visible && name.chars().all(is_word)).then_some(name)
}

/// `source` of a crate: for each module its place in `lib.rs`, and the module of each re-exported name.
struct Floors {
    place: BTreeMap<String, usize>,
    home: BTreeMap<String, String>,
}

fn floors(lib: &str) -> Floors {
    let code = code_lines(lib);
    let names = code.iter().filter_map(|line| declared_module(line));
    let place: BTreeMap<String, usize> = names.enumerate().map(|(i, name)| (name.to_owned(), i)).collect();
    let mut home = BTreeMap::new();
    for statement in code.join(" ").split(';') {
        let Some((_, path)) = statement.split_once("pub use ") else { continue };
        let path = path.trim().trim_start_matches("self::").trim_start_matches("crate::");
        let Some((module, rest)) = path.split_once("::") else { continue };
        for word in rest.split(|c| !is_word(c)).filter(|word| !word.is_empty() && *word != "as") {
            home.insert(word.to_owned(), module.to_owned());
        }
    }
    Floors { place, home }
}

/// The top-level module that a file below `src` belongs to.
fn module_of(in_src: &Path) -> String {
    let first = in_src.components().next().expect("a file has a name").as_os_str().to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

fn report(rule: &str, problems: &[String]) {
    assert!(problems.is_empty(), "{rule}\n{}\n", problems.join("\n"));
}

#[test]
fn a_module_imports_only_from_modules_listed_above_it() {
    let mut problems = Vec::new();
    let files = text_files();
    for lib in files.iter().filter(|path| path.ends_with("src/lib.rs")) {
        let source = lib.parent().expect("lib.rs lies in src");
        let floors = floors(&read(lib).unwrap_or_default());
        for file in files.iter().filter(|path| path.starts_with(source) && has_extension(path, "rs")) {
            let in_src = file.strip_prefix(source).expect("below src");
            let module = module_of(in_src);
            let Some(&own) = floors.place.get(&module) else { continue };
            let text = read(file).unwrap_or_default();
            let code = code_lines(&text);
            let mut names = names_after(&code, "crate::");
            if in_src.components().count() == 1 {
                let top: Vec<&str> = code.iter().map(|l| if l.starts_with(' ') { "" } else { *l }).collect();
                names.extend(names_after(&top, "use super::"));
            }
            for (line, name) in names {
                let target = floors.home.get(&name).unwrap_or(&name);
                if floors.place.get(target).is_some_and(|&place| place > own) {
                    problems.push(format!(
                        "{}:{line}: `{module}` imports `{target}`, which {} lists below it; list `{target}` above \
                         `{module}` (a blank line keeps rustfmt from sorting) or turn the import round",
                        file.display(),
                        lib.display()
                    ));
                }
            }
        }
    }
    report("lib.rs lists modules from the ground up, and imports never go up:", &problems);
}

#[test]
fn control_has_no_io_no_clock_and_no_thread() {
    let mut problems = Vec::new();
    for file in text_files().iter().filter(|path| path.starts_with("crates/control/src")) {
        let text = read(file).unwrap_or_default();
        let code = code_lines(&text);
        let mut complain = |line: usize, what: &str| {
            problems.push(format!(
                "{}:{line}: `{what}` does not belong in crate control; let the caller do it and hand in the result",
                file.display()
            ));
        };
        for (line, name) in names_after(&code, "std::") {
            if ["fs", "net", "thread", "env", "process", "io"].contains(&name.as_str()) {
                complain(line, &format!("std::{name}"));
            }
        }
        for (i, line) in code.iter().enumerate() {
            for clock in ["Instant", "SystemTime"].iter().filter(|clock| contains_word(line, clock)) {
                complain(i + 1, clock);
            }
        }
    }
    report("crate control performs no I/O, owns no clock and starts no thread:", &problems);
}

#[test]
fn transfer_meets_the_world_in_one_place() {
    // What is behind each prefix, but for plain words as `Errno` and addresses.
    let seam: [(&str, fn(&str) -> bool); 10] = [
        ("std::", |name| ["fs", "thread"].contains(&name)),
        ("std::os::unix::", |name| ["fs", "net"].contains(&name)),
        ("std::net::", |name| {
            ["TcpStream", "TcpListener", "UdpSocket", "ToSocketAddrs", "Shutdown"].contains(&name)
        }),
        ("std::sync::", |name| {
            ["Mutex", "MutexGuard", "RwLock", "Condvar", "Barrier", "mpsc"].contains(&name)
        }),
        ("std::time::", |name| name == "Instant"),
        ("SystemTime::", |name| name == "now"),
        ("rustix::", |name| name != "io"),
        ("rustix::io::", |name| name != "Errno"),
        ("libc::", |_| true),
        ("socket2::", |_| true),
    ];
    let mut problems = Vec::new();
    let files = text_files();
    let outside = |path: &&PathBuf| {
        path.strip_prefix("crates/transfer/src").is_ok_and(|inner| module_of(inner) != "sys")
    };
    for file in files.iter().filter(outside) {
        let text = read(file).unwrap_or_default();
        let code = code_lines(&text);
        for (prefix, is_the_world) in seam {
            for (line, name) in names_after(&code, prefix).into_iter().filter(|(_, name)| is_the_world(name))
            {
                problems.push(format!(
                    "{}:{line}: `{prefix}{name}`; import it from `crate::sys`, which has it under the same name, or \
                     add a function there",
                    file.display()
                ));
            }
        }
    }
    report("crate transfer reads clocks, waits, and speaks to files and sockets in src/sys only:", &problems);
}

#[test]
fn transfer_lists_what_it_publishes() {
    let text = read(Path::new("crates/transfer/src/lib.rs")).unwrap_or_default();
    let (listing, modules) =
        text.split_once("\n//! ```text\n").and_then(|(_, rest)| rest.split_once("```")).unwrap_or_default();
    let published = |line: &str| line.starts_with("pub mod ");
    let missing: Vec<String> = (modules.lines().filter(|line| published(line)))
        .filter_map(declared_module)
        .filter(|name| !contains_word(listing, name))
        .map(|name| {
            format!("crates/transfer/src/lib.rs:1: list {name} in the crate's doc, or make it pub(crate)")
        })
        .collect();
    assert!(modules.contains("pub mod "), "the listing stands in the crate's doc");
    report("what a crate publishes is said where it is declared:", &missing);
}

#[test]
fn source_files_stay_short() {
    let mut problems = Vec::new();
    for file in text_files() {
        let in_tests = file.components().any(|part| part.as_os_str() == "tests");
        let text = read(&file).unwrap_or_default();
        let lines = match file.extension().and_then(|extension| extension.to_str()) {
            Some("rs") if !in_tests => code_lines(&text).len(),
            Some("py") if !in_tests => text.lines().count(),
            _ => continue,
        };
        if lines > MAX_LINES {
            problems.push(format!(
                "{}:{lines}: {lines} lines, at most {MAX_LINES}; split it by idea",
                file.display()
            ));
        }
    }
    report("a source file keeps one idea:", &problems);
}

#[test]
fn no_tabs_and_no_trailing_whitespace() {
    let mut problems = Vec::new();
    for file in text_files() {
        let by_hand = ["rs", "toml", "md", "py", "sh", "yml", "yaml", "html", "css", "js"];
        if !by_hand.iter().any(|extension| has_extension(&file, extension)) {
            continue;
        }
        for (i, line) in read(&file).unwrap_or_default().lines().enumerate() {
            if line.contains('\t') {
                problems.push(format!("{}:{}: a tab; indent with spaces", file.display(), i + 1));
            }
            if line.ends_with([' ', '\t']) {
                problems.push(format!("{}:{}: trailing whitespace; remove it", file.display(), i + 1));
            }
        }
    }
    report("whitespace:", &problems);
}

#[test]
fn nothing_is_left_unfinished() {
    let unfinished = [concat!("to", "do!("), concat!("unimpl", "emented!("), concat!("d", "bg!(")];
    let mut problems = Vec::new();
    for file in text_files().iter().filter(|path| has_extension(path, "rs")) {
        for (i, line) in read(file).unwrap_or_default().lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for name in unfinished.iter().filter(|name| code.contains(**name)) {
                problems.push(format!("{}:{}: `{name}…)`; finish it or take it out", file.display(), i + 1));
            }
        }
    }
    report("no placeholders:", &problems);
}

#[test]
fn no_path_of_a_development_machine() {
    let foreign = [concat!("/wo", "rk/"), concat!("/tmp/bash", "_jobs")];
    let mut problems = Vec::new();
    for file in text_files() {
        for (i, line) in read(&file).unwrap_or_default().lines().enumerate() {
            for path in foreign {
                let starts_here =
                    |at: usize| !line[..at].ends_with(|c: char| is_word(c) || "./-}$".contains(c));
                if line.match_indices(path).any(|(at, _)| starts_here(at)) {
                    let place = format!("{}:{}", file.display(), i + 1);
                    problems
                        .push(format!("{place}: mentions {path}; write a path relative to the repository"));
                }
            }
        }
    }
    report("the repository works wherever it is cloned:", &problems);
}

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

#[test]
fn the_reader_of_imports_understands_groups() {
    assert_eq!(first_names("units::BitRate;"), ["units"]);
    assert_eq!(first_names("{stage::{Ends, Stage}, units as u, Epoch};"), ["stage", "units", "Epoch"]);
    let code = ["use crate::{", "    stage::Stage,", "    units::{A, B},", "};", "let x = $crate::no();"];
    let found = names_after(&code, "crate::");
    assert_eq!(found, [(1, "stage".to_owned()), (1, "units".to_owned())]);
    let floors = floors("pub mod units;\n\npub(crate) mod stage;\npub use stage::{Ends, Stage as Step};\n");
    assert_eq!(floors.place.get("stage"), Some(&1));
    assert_eq!(floors.home.get("Step").map(String::as_str), Some("stage"));
}
