//! How things are called.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::modules::{is_test, sources};
use super::rust::{code_lines, constants, public_types};
use super::{has_extension, read, report, text_files};

/// Whether a bound is called by another word than MAX and MIN.
fn is_odd_bound(name: &str) -> bool {
    name.split('_').any(|word| ["MOST", "FEWEST"].contains(&word))
}

#[test]
fn no_two_public_types_of_a_crate_have_one_name() {
    let mut problems = Vec::new();
    for (_, files) in sources() {
        let mut known: BTreeMap<String, (PathBuf, usize)> = BTreeMap::new();
        for file in files.iter().filter(|file| !is_test(file)) {
            for (line, name) in public_types(&code_lines(&read(file).unwrap_or_default())) {
                if let Some((other, at)) = known.get(&name) {
                    problems.push(format!(
                        "{}:{line}: `{name}` is also the name of a type at {}:{at}; call one of them by what sets it apart",
                        file.display(),
                        other.display()
                    ));
                } else {
                    known.insert(name, (file.clone(), line));
                }
            }
        }
    }
    report("a name means one thing in a crate:", &problems);
}

#[test]
fn bounds_are_called_max_and_min() {
    let mut problems = Vec::new();
    for file in text_files().iter().filter(|path| has_extension(path, "rs")) {
        // All of it: tests have bounds, too.
        let text = read(file).unwrap_or_default();
        for (line, name) in constants(&text.lines().collect::<Vec<_>>()) {
            if is_odd_bound(&name) {
                problems.push(format!(
                    "{}:{line}: the constant `{name}`; call a bound MAX_ or MIN_ and what it bounds",
                    file.display()
                ));
            }
        }
    }
    report("bounds are MAX_ and MIN_, never MOST and FEWEST:", &problems);
}

#[test]
fn odd_bounds_are_told_from_others() {
    for (name, odd) in [
        ("MOST", true),
        ("MOST_FILES", true),
        ("FEWEST_POINTS", true),
        ("AT_MOST", true),
        ("MAX_FILES", false),
        ("MIN", false),
        ("ALMOST_ALL", false),
    ] {
        assert_eq!(is_odd_bound(name), odd, "{name}");
    }
    assert!(is_test(Path::new("a/src/b/tests.rs")) && !is_test(Path::new("a/src/contests.rs")));
}
