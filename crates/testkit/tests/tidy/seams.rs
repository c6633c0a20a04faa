//! Where the program meets the world: nowhere in control, in one folder in transfer; and what a crate publishes.

use std::path::{Path, PathBuf};

use super::rust::{code_lines, contains_word, declared_module, imports};
use super::{read, report, text_files};

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
        for import in imports(&code, &["std"]).iter().filter(|import| import.path[0] == "std") {
            let name = import.path.get(1).map_or("", String::as_str);
            if ["fs", "net", "thread", "env", "process", "io"].contains(&name) {
                complain(import.line, &format!("std::{name}"));
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

/// Whether a path leads to a clock, a thread, what threads wait on, a file or a socket; plain words, such as addresses
/// and `Errno`, do not.
fn is_the_world(path: &[&str]) -> bool {
    match path {
        ["std", "fs" | "thread", ..] | ["std", "os", "unix", "fs" | "net", ..] => true,
        ["std", "net", name, ..] => {
            ["TcpStream", "TcpListener", "UdpSocket", "ToSocketAddrs", "Shutdown"].contains(name)
        }
        ["std", "sync", name, ..] => {
            ["Mutex", "MutexGuard", "RwLock", "Condvar", "Barrier", "mpsc"].contains(name)
        }
        ["std", "time", "Instant", ..] | ["SystemTime", "now", ..] => true,
        ["std", "time", "SystemTime", "now", ..] => true,
        ["rustix", "io", name, ..] => *name != "Errno",
        ["rustix" | "libc" | "socket2", ..] => true,
        _ => false,
    }
}

#[test]
fn transfer_meets_the_world_in_one_place() {
    let mut problems = Vec::new();
    let source = Path::new("crates/transfer/src");
    let is_outside = |path: &&PathBuf| {
        path.starts_with(source) && !path.starts_with(source.join("sys")) && **path != source.join("sys.rs")
    };
    for file in text_files().iter().filter(is_outside) {
        let text = read(file).unwrap_or_default();
        for import in imports(&code_lines(&text), &["std", "rustix", "libc", "socket2", "SystemTime"]) {
            let path: Vec<&str> = import.path.iter().map(String::as_str).collect();
            if is_the_world(&path) {
                problems.push(format!(
                    "{}:{}: `{}`; import it from `crate::sys`, which has it under the same name, or add a function \
                     there",
                    file.display(),
                    import.line,
                    path.join("::")
                ));
            }
        }
    }
    report("crate transfer reads clocks, waits, and speaks to files and sockets in src/sys only:", &problems);
}

#[test]
fn what_is_of_the_world_is_told_from_plain_words() {
    for (path, wanted) in [
        ("std::thread::sleep", true),
        ("std::sync::Arc", false),
        ("std::sync::mpsc::Receiver", true),
        ("std::net::SocketAddr", false),
        ("std::net::TcpStream", true),
        ("std::time::Duration", false),
        ("std::time::Instant", true),
        ("rustix::io::Errno", false),
        ("rustix::fs::openat", true),
        ("crate::sys::thread", false),
    ] {
        assert_eq!(is_the_world(&path.split("::").collect::<Vec<_>>()), wanted, "{path}");
    }
}

#[test]
fn a_crate_lists_what_it_publishes() {
    let mut problems = Vec::new();
    for lib in text_files().iter().filter(|path| path.ends_with("src/lib.rs")) {
        let text = read(lib).unwrap_or_default();
        // The crates that list what they publish as text, rather than by re-exporting it.
        let Some((listing, modules)) =
            text.split_once("\n//! ```text\n").and_then(|(_, rest)| rest.split_once("```"))
        else {
            continue;
        };
        for line in modules.lines().filter(|line| line.starts_with("pub mod ")) {
            if let Some(name) = declared_module(line).filter(|name| !contains_word(listing, name)) {
                problems.push(format!(
                    "{}:1: list {name} in the crate's documentation, or make it pub(crate)",
                    lib.display()
                ));
            }
        }
    }
    report("what a crate publishes is said where it is declared:", &problems);
}
