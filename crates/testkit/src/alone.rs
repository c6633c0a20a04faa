//! Tests that change or look at the whole process: a limit, the names of its threads.

use std::process::Command;

/// Says to the copy of the test in a process of its own that it is that.
const ALONE: &str = "TIDEGATE_TEST_ALONE";

/// Runs the test that calls it once more, alone in a process of its own, and returns from the test; in that process
/// it does nothing.
#[macro_export]
macro_rules! alone {
    () => {
        fn here() {}
        if $crate::alone::runs_elsewhere(::std::any::type_name_of_val(&here)) {
            return;
        }
    };
}

/// Whether the test that holds the function `here` has run in another process; in that one it has not.
///
/// # Panics
///
/// Where the test has failed there.
pub fn runs_elsewhere(here: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return false;
    }
    let (_, test) = here.split_once("::").expect("a crate");
    let test = test.strip_suffix("::here").expect("within a function");
    let program = std::env::current_exe().expect("this program");
    let ran = Command::new(program)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .output();
    let ran = ran.expect("started");
    let said = [ran.stdout, ran.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(ran.status.success() && said.contains("1 passed"), "{test}, alone: {said}");
    true
}
