//! What the crate `tidegate` offers to other programs is written down, so that a change of it is seen and reviewed.

use std::collections::BTreeSet;
use std::path::Path;

use super::{read, report};
use crate::rust::code_lines;

/// What is public in the modules that `lib.rs` of the crate `tidegate` exports from, and what it exports of other crates.
fn listing() -> String {
    let home = Path::new("crates/cli/src");
    let text = read(&home.join("lib.rs")).expect("the library is there");
    let (mut listed, mut known) = (String::new(), BTreeSet::new());
    for export in statements(&text).iter().filter_map(|line| line.strip_prefix("pub use ")) {
        listed += &format!("pub use {export}\n");
        let module = export.split("::").next().unwrap_or_default();
        if !known.insert(module.to_owned()) {
            continue;
        }
        let items = read(&home.join(module).with_extension("rs")).unwrap_or_default();
        for item in statements(&items) {
            listed += &format!("    {item}\n");
        }
    }
    listed
}

/// What is public in `text`, each on a line and without its body.
fn statements(text: &str) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), None::<String>);
    for line in code_lines(text).iter().map(|line| line.trim()) {
        let begun = match open.take() {
            Some(begun) => format!("{begun} {line}"),
            None if line.starts_with("pub ") => line.to_owned(),
            None => continue,
        };
        // A list of names goes on to its semicolon, all else to its body; a field and what stands alone end with the line.
        let is_use = begun.starts_with("pub use ");
        let goes_on = |ends: &[char]| !begun.ends_with(ends);
        match (is_use && goes_on(&[';'])) || (begun.contains('(') && !begun.contains(')')) {
            true => open = Some(begun),
            false => found.push(begun.trim_end_matches(['{', ' ', ',']).to_owned()),
        }
    }
    found
}

#[test]
fn the_public_interface_is_written_down() {
    let listed = listing();
    let count = listed.lines().filter(|line| line.starts_with("    ")).count();
    report(
        "the library is small:",
        &(count > 120).then(|| format!("{count} public items")).into_iter().collect::<Vec<_>>(),
    );
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("interface", listed);
    });
}
