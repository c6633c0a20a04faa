//! Reads Rust as rustfmt leaves it: imports, modules, types and constants, line by line.

/// The part of a Rust file before its `#[cfg(test)] mod tests`, without comments, line by line.
pub fn code_lines(text: &str) -> Vec<&str> {
    let all: Vec<&str> = text.lines().collect();
    let is_test_module = |i: usize| {
        all[i].trim() == "#[cfg(test)]"
            && all[i + 1..].iter().take(3).any(|line| line.trim().starts_with("mod "))
    };
    let end = (0..all.len()).find(|&i| is_test_module(i)).unwrap_or(all.len());
    all[..end].iter().map(|line| line.split("//").next().unwrap_or_default()).collect()
}

pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The word that `text` begins with.
fn word(text: &str) -> &str {
    &text[..text.find(|c| !is_word(c)).unwrap_or(text.len())]
}

/// Whether `word` stands in `line` with no letter, digit or underscore on either side.
pub fn contains_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        !line[..at].chars().next_back().is_some_and(is_word)
            && !line[at + word.len()..].chars().next().is_some_and(is_word)
    })
}

/// `line` without `pub`, `pub(crate)` and the like; `None` if it begins with none of them.
fn after_visibility(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = if rest.starts_with('(') { rest.split_once(')')?.1 } else { rest };
    rest.strip_prefix(' ')
}

/// A path that is imported or written out in code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Where it, or the group it stands in, begins; from 1.
    pub line: usize,
    /// Its words, `crate`, `super` and `self` included; a glob ends before the `*`.
    pub path: Vec<String>,
    /// What it is called here.
    pub name: String,
    /// The modules of this file that it stands in, written `mod name { … }`.
    pub inside: Vec<String>,
    /// Whether a `use` imports it.
    pub is_use: bool,
}

/// Every path of the code that begins with a name of `roots`, and every one that is imported.
pub fn imports(code: &[&str], roots: &[&str]) -> Vec<Import> {
    let mut found = Vec::new();
    let mut inside: Vec<(usize, String)> = Vec::new();
    for (i, line) in code.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        if line.trim() == "}" && inside.last().is_some_and(|(at, _)| *at == indent) {
            inside.pop();
        }
        let item = after_visibility(line).unwrap_or(line.trim_start());
        if let (Some(name), true) = (item.strip_prefix("mod ").map(word), line.ends_with('{')) {
            inside.push((indent, name.to_owned()));
        }
        let imported = item.strip_prefix("use ").map(|rest| (line.len() - rest.len(), true));
        let written = roots.iter().filter(|_| imported.is_none()).flat_map(|root| {
            let starts = line.match_indices(root).map(|(at, _)| at);
            starts.filter(|&at| {
                let before = line[..at].chars().next_back();
                line[at + root.len()..].starts_with("::")
                    && !before.is_some_and(|c| is_word(c) || c == '$' || c == ':')
            })
        });
        for (at, is_use) in imported.into_iter().chain(written.map(|at| (at, false))) {
            let mut rest = line[at..].to_owned();
            rest.extend(code[i + 1..].iter().take(if rest.contains('{') { 60 } else { 0 }).copied());
            for (path, name) in spelt_out(&rest) {
                let inside = inside.iter().map(|(_, name)| name.clone()).collect();
                found.push(Import { line: i + 1, path, name, inside, is_use });
            }
        }
    }
    found
}

/// The paths that a path with groups stands for, each with the name it goes by.
fn spelt_out(text: &str) -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    spell(&mut text.trim_start(), &mut Vec::new(), &mut found);
    found
}

/// Reads one path from `text` behind `before`, and leaves what follows it there.
fn spell(text: &mut &str, before: &mut Vec<String>, found: &mut Vec<(Vec<String>, String)>) {
    let depth = before.len();
    loop {
        let name = word(text);
        *text = &text[name.len()..];
        // `{self}` is what the group stands behind.
        if !name.is_empty() && (name != "self" || before.is_empty()) {
            before.push(name.to_owned());
        }
        match text.strip_prefix("::") {
            Some(rest) => *text = rest,
            None => break,
        }
        if let Some(rest) = text.strip_prefix('{') {
            *text = rest;
            while !text.trim_start().starts_with('}') && !text.trim().is_empty() {
                *text = text.trim_start();
                spell(text, before, found);
                *text = text.trim_start();
                *text = text.strip_prefix(',').unwrap_or_else(|| text.trim_start_matches(|c| c != '}'));
            }
            *text = text.trim_start().strip_prefix('}').unwrap_or_default();
            before.truncate(depth);
            return;
        }
    }
    *text = text.strip_prefix('*').unwrap_or(text);
    let mut name = before.last().cloned().unwrap_or_default();
    if let Some(rest) = text.strip_prefix(" as ") {
        name = word(rest).to_owned();
        *text = &rest[name.len()..];
    }
    if !before.is_empty() {
        found.push((before.clone(), name));
    }
    before.truncate(depth);
}

/// The name in `pub mod name;`, with any visibility.
pub fn declared_module(line: &str) -> Option<&str> {
    let item = after_visibility(line).unwrap_or(line.trim_start());
    let name = item.strip_prefix("mod ")?.trim_end().strip_suffix(';')?;
    name.chars().all(is_word).then_some(name)
}

/// The public structs, enums, traits and type aliases, with their lines. What a macro would make does not count.
pub fn public_types(code: &[&str]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut macro_ends: Option<String> = None;
    for (i, line) in code.iter().enumerate() {
        if let Some(end) = &macro_ends {
            if line.trim_end() == end {
                macro_ends = None;
            }
            continue;
        }
        let trimmed = line.trim_start();
        if trimmed.starts_with("macro_rules!") {
            macro_ends = Some(format!("{}}}", &line[..line.len() - trimmed.len()]));
            continue;
        }
        let Some(item) = after_visibility(line) else { continue };
        let item = item.strip_prefix("unsafe ").unwrap_or(item);
        let kinds = ["struct ", "enum ", "trait ", "type "];
        if let Some(rest) = kinds.iter().find_map(|kind| item.strip_prefix(kind)) {
            found.push((i + 1, word(rest).to_owned()));
        }
    }
    found
}

/// The constants and statics, associated ones too, with their lines.
pub fn constants(code: &[&str]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (i, line) in code.iter().enumerate() {
        let item = after_visibility(line).unwrap_or(line.trim_start());
        let rest = item.strip_prefix("const ").or_else(|| item.strip_prefix("static "));
        let name = rest.map(|rest| word(rest.strip_prefix("mut ").unwrap_or(rest)));
        if let Some(name) = name.filter(|name| !name.is_empty() && !["fn", "unsafe"].contains(name)) {
            found.push((i + 1, name.to_owned()));
        }
    }
    found
}

#[test]
fn the_reader_of_imports_understands_groups() {
    let read = |text: &str| -> Vec<String> {
        let found = imports(&text.lines().collect::<Vec<_>>(), &["crate", "super"]);
        let shown = |import: Import| format!("{} {} {}", import.line, import.path.join("::"), import.name);
        found.into_iter().map(shown).collect()
    };
    assert_eq!(read("use crate::units::BitRate;"), ["1 crate::units::BitRate BitRate"]);
    assert_eq!(
        read(
            "\npub(crate) use super::{\n    stage::{self, Ends, Stage as S},\n    units as u,\n    rng::*,\n};\nlet x = 1;"
        ),
        [
            "2 super::stage stage",
            "2 super::stage::Ends Ends",
            "2 super::stage::Stage S",
            "2 super::units u",
            "2 super::rng rng"
        ]
    );
    assert_eq!(
        read("let x = $crate::no();\nlet (a, b) = (crate::yes::now(1), Some(super::b));\nuse self::c::D;"),
        ["2 crate::yes::now now", "2 super::b b", "3 self::c::D D"]
    );
    assert_eq!(read("self.crates::x(); my::crate_::x(); crate_name::y();"), Vec::<String>::new());
}

#[test]
fn the_reader_of_imports_knows_the_module_around_them() {
    let code =
        "mod a {\n    use super::b;\n    pub(super) mod c {\n        use super::d;\n    }\n}\nuse super::e;";
    let found = imports(&code.lines().collect::<Vec<_>>(), &[]);
    let inside: Vec<String> = found.iter().map(|import| import.inside.join("::")).collect();
    assert_eq!(inside, ["a", "a::c", ""]);
}

#[test]
fn the_reader_of_modules_knows_every_visibility() {
    for (line, name) in [
        ("mod a;", Some("a")),
        ("pub mod b_2;", Some("b_2")),
        ("    pub(in crate::x) mod c; ", Some("c")),
        ("mod d {", None),
        ("let model;", None),
        ("pub model;", None),
    ] {
        assert_eq!(declared_module(line), name, "{line}");
    }
}

#[test]
fn the_reader_of_types_counts_public_ones_that_are_written_out() {
    let text = "pub struct A<T>(T);\nstruct B;\npub(crate) enum C {\n    D,\n}\nimpl X for C {\n    type E = u8;\n}\n\
                pub(super) unsafe trait F {\n    type G;\n}\npub type H = A<u8>;\npub fn structure() {}\n\
                macro_rules! made {\n    () => {\n        pub struct I;\n    };\n}\npub const J: u8 = 0;\n\
                #[cfg(test)]\nmod tests {\n    pub struct K;\n}\n";
    let found = public_types(&code_lines(text));
    let wanted = [(1, "A"), (3, "C"), (9, "F"), (12, "H")];
    assert_eq!(found, wanted.map(|(line, name)| (line, name.to_owned())));
}

#[test]
fn the_reader_of_constants_passes_over_functions() {
    let text = "const A: u8 = 1;\npub(crate) static mut B_C: u8 = 2;\npub const fn d() {}\nconst unsafe fn e() {}\n\
                    const F: u8 = 3;\nfn g(x: *const u8) {}\nconst _: () = ();";
    let found = constants(&code_lines(text));
    let wanted = [(1, "A"), (2, "B_C"), (5, "F"), (7, "_")];
    assert_eq!(found, wanted.map(|(line, name)| (line, name.to_owned())));
}
