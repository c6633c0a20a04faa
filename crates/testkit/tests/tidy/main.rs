//! The rules of the house, as tests. Every message names `file:line` and says what to do.

use std::path::{Path, PathBuf};
use std::process::Command;

mod rust;

mod files;
mod interface;
mod modules;
mod names;
mod pages;
mod seams;

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

fn report(rule: &str, problems: &[String]) {
    assert!(problems.is_empty(), "{rule}\n{}\n", problems.join("\n"));
}
