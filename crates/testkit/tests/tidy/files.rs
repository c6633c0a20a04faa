//! What holds for every file: its length, its white space, and what may not be left in it.

use super::rust::{code_lines, is_word};
use super::{has_extension, read, report, text_files};

/// A source file keeps one idea, so it stays short. Tests at its end do not count.
const MAX_LINES: usize = 700;

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
fn a_crate_has_one_program_of_integration_tests_and_forgets_no_file() {
    let mut problems = Vec::new();
    for file in text_files().iter().filter(|path| has_extension(path, "rs")) {
        let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
        match &parts.iter().map(|part| &**part).collect::<Vec<_>>()[..] {
            ["crates", "testkit", "tests", "tidy", ..] | ["crates", _, "tests", "it", "main.rs"] => {}
            ["crates", name, "tests", "it", module, ..] => {
                let module = module.trim_end_matches(".rs");
                let main = format!("crates/{name}/tests/it/main.rs");
                let declared = format!("mod {module};");
                if !read(main.as_ref()).unwrap_or_default().lines().any(|line| line == declared) {
                    problems.push(format!(
                        "{}: no test of it runs; write `{declared}` in {main}",
                        file.display()
                    ));
                }
            }
            ["crates", name, "tests", ..] => {
                problems.push(format!(
                    "{}: a program of its own; move it to crates/{name}/tests/it/",
                    file.display()
                ));
            }
            _ => {}
        }
    }
    report("one program of integration tests a crate:", &problems);
}
