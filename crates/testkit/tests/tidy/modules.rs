//! Who may import whom: downwards only, in no circle, and a command no other command.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use super::rust::{Import, code_lines, declared_module, imports};
use super::{has_extension, read, report, text_files};

/// A module's path from the crate's root.
type ModulePath = Vec<String>;

/// Every crate's directory of sources, and the Rust files in it.
pub fn sources() -> BTreeMap<PathBuf, Vec<PathBuf>> {
    let mut found: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for file in text_files() {
        let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
        if let (["crates", name, "src", ..], true) =
            (&parts.iter().map(|part| &**part).collect::<Vec<_>>()[..], has_extension(&file, "rs"))
        {
            found.entry(Path::new("crates").join(name).join("src")).or_default().push(file.clone());
        }
    }
    found
}

/// Whether a file is `tests.rs`, the tests of the module whose directory it lies in.
pub fn is_test(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == "tests.rs")
}

/// The module of a file, given its path below `src`.
fn module_of(in_src: &Path) -> ModulePath {
    let mut path: ModulePath =
        in_src.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if path.last().is_some_and(|last| ["mod", "lib", "main"].contains(&&last[..])) {
        path.pop();
    }
    path
}

/// The modules of a crate, and what each imports.
#[derive(Default)]
struct Modules {
    known: BTreeMap<ModulePath, Vec<Import>>,
    files: BTreeMap<ModulePath, PathBuf>,
}

/// An import of one module by another in the same folder of modules.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    from: String,
    to: String,
    /// `file:line`.
    place: String,
}

impl Modules {
    fn read(source: &Path, files: &[PathBuf]) -> Self {
        let mut modules = Self::default();
        for file in files.iter().filter(|file| !is_test(file)) {
            let in_src = file.strip_prefix(source).expect("below src");
            modules.add(file, module_of(in_src), &read(file).unwrap_or_default());
        }
        modules
    }

    fn add(&mut self, file: &Path, module: ModulePath, text: &str) {
        let found = imports(&code_lines(text), &["crate", "super", "self"]);
        for import in &found {
            // What is written within a file, and the folder of files, are modules too.
            let inner = [&module[..], &import.inside].concat();
            self.known.entry(inner).or_default();
        }
        for end in 0..module.len() {
            self.known.entry(module[..end].to_vec()).or_default();
        }
        self.files.insert(module.clone(), file.to_owned());
        self.known.insert(module, found);
    }

    /// The module that `path` leads to, seen from `from`; `None` for what is of another crate. A name that a module
    /// imports from elsewhere, as in `pub use`, is followed to there.
    fn target(&self, from: &[String], path: &[String], depth: usize) -> Option<ModulePath> {
        let mut at = from.to_vec();
        let mut rest = path;
        match &path.first()?[..] {
            "crate" => (at, rest) = (Vec::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    at.pop()?;
                    rest = &rest[1..];
                }
            }
            first => {
                let child = [from, &[first.to_owned()]].concat();
                if !self.known.contains_key(&child) {
                    return None;
                }
            }
        }
        for (i, name) in rest.iter().enumerate() {
            let child = [&at[..], std::slice::from_ref(name)].concat();
            if self.known.contains_key(&child) {
                at = child;
                continue;
            }
            let here = self.known.get(&at).into_iter().flatten();
            let mut imported = here.filter(|import| import.is_use && import.name == *name);
            let onward = imported.find(|import| import.inside.is_empty() && depth > 0);
            let onward = onward.map(|import| [&import.path[..], &rest[i + 1..]].concat());
            return match onward {
                Some(path) => self.target(&at, &path, depth - 1).or(Some(at)),
                None => Some(at),
            };
        }
        Some(at)
    }

    /// Who imports whom, by the folder of modules that both stand in.
    fn edges(&self) -> BTreeMap<ModulePath, Vec<Edge>> {
        let mut edges: BTreeMap<ModulePath, Vec<Edge>> = BTreeMap::new();
        for (module, found) in &self.known {
            for import in found {
                let from = [&module[..], &import.inside].concat();
                let Some(to) = self.target(&from, &import.path, 8) else { continue };
                let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                let (Some(a), Some(b)) = (from.get(shared), to.get(shared)) else { continue };
                let place = format!("{}:{}", self.files[module].display(), import.line);
                let edge = Edge { from: a.clone(), to: b.clone(), place };
                let here = edges.entry(from[..shared].to_vec()).or_default();
                if here.last() != Some(&edge) {
                    here.push(edge);
                }
            }
        }
        edges
    }
}

/// The circles among `edges`: for each import that is in one, the shortest, told once.
fn circles(edges: &[Edge]) -> Vec<Vec<Edge>> {
    let mut next: BTreeMap<&str, BTreeMap<&str, &Edge>> = BTreeMap::new();
    for edge in edges {
        next.entry(&edge.from).or_default().entry(&edge.to).or_insert(edge);
    }
    let mut found: BTreeSet<Vec<Edge>> = BTreeSet::new();
    for &first in next.values().flat_map(BTreeMap::values) {
        let mut came_by: BTreeMap<&str, &Edge> = BTreeMap::from([(&first.to[..], first)]);
        let mut waiting = VecDeque::from([&first.to[..]]);
        while let Some(at) = waiting.pop_front().filter(|_| !came_by.contains_key(&first.from[..])) {
            for (&to, &edge) in next.get(at).into_iter().flatten() {
                came_by.entry(to).or_insert_with(|| {
                    waiting.push_back(to);
                    edge
                });
            }
        }
        let Some(&last) = came_by.get(&first.from[..]) else { continue };
        let mut circle = vec![last.clone()];
        while circle[0].from != first.from {
            circle.insert(0, came_by[&circle[0].from[..]].clone());
        }
        let least = (0..circle.len()).min_by_key(|&i| circle[i].from.clone()).unwrap_or(0);
        circle.rotate_left(least);
        found.insert(circle);
    }
    found.into_iter().collect()
}

#[test]
fn modules_import_each_other_in_no_circle() {
    let mut problems = Vec::new();
    for (source, files) in sources() {
        for (folder, edges) in Modules::read(&source, &files).edges() {
            for circle in circles(&edges) {
                let steps: Vec<String> = circle
                    .iter()
                    .map(|edge| format!("`{}` imports `{}` ({})", edge.from, edge.to, edge.place))
                    .collect();
                let within = folder.iter().fold(source.clone(), |path, name| path.join(name));
                problems.push(format!(
                    "{}: a circle in {}: {}; move what both need into a module of its own, or turn one import round",
                    circle[0].place,
                    within.display(),
                    steps.join(", ")
                ));
            }
        }
    }
    report("no module imports what imports it:", &problems);
}

#[test]
fn a_command_imports_no_other_command() {
    let mut problems = Vec::new();
    for (source, files) in sources() {
        let edges = Modules::read(&source, &files).edges().remove(&["command".to_owned()][..]);
        for Edge { from, to, place } in edges.into_iter().flatten() {
            problems.push(format!(
                "{place}: the command `{from}` imports the command `{to}`; give what they share a module beside command/"
            ));
        }
    }
    report("a command is read without the others:", &problems);
}

/// For each module of a `lib.rs` its place there, and the module of each re-exported name.
struct Floors {
    place: BTreeMap<String, usize>,
    home: BTreeMap<String, String>,
}

fn floors(lib: &str) -> Floors {
    let code = code_lines(lib);
    let names = code.iter().filter_map(|line| declared_module(line));
    let place: BTreeMap<String, usize> = names.enumerate().map(|(i, name)| (name.to_owned(), i)).collect();
    let mut home = BTreeMap::new();
    for import in imports(&code, &[]) {
        let mut path = import.path.iter().skip_while(|name| ["crate", "self"].contains(&&name[..]));
        if let Some(module) = path.next() {
            home.insert(import.name, module.clone());
        }
    }
    Floors { place, home }
}

#[test]
fn a_module_imports_only_from_modules_listed_above_it() {
    let mut problems = Vec::new();
    for (source, files) in sources() {
        let lib = source.join("lib.rs");
        let Some(text) = read(&lib) else { continue };
        let floors = floors(&text);
        for file in files {
            let module = module_of(file.strip_prefix(&source).expect("below src"));
            let Some(&own) = module.first().and_then(|module| floors.place.get(module)) else { continue };
            let text = read(&file).unwrap_or_default();
            for import in imports(&code_lines(&text), &["crate", "super"]) {
                // How far up `super` leads.
                let ups = import.path.iter().take_while(|name| *name == "super").count();
                let at_root = ups == module.len() + import.inside.len() || import.path[0] == "crate";
                let Some(name) = import.path.get(ups.max(1)).filter(|_| at_root) else { continue };
                let target = floors.home.get(name).unwrap_or(name);
                if floors.place.get(target).is_some_and(|&place| place > own) {
                    problems.push(format!(
                        "{}:{}: `{}` imports `{target}`, which {} lists below it; list `{target}` above \
                         `{}` (a blank line keeps rustfmt from sorting) or turn the import round",
                        file.display(),
                        import.line,
                        module[0],
                        lib.display(),
                        module[0]
                    ));
                }
            }
        }
    }
    report("lib.rs lists modules from the ground up, and imports never go up:", &problems);
}

#[test]
fn the_list_of_modules_is_read_with_what_it_passes_on() {
    let floors = floors("pub mod units;\n\npub(crate) mod stage;\npub use stage::{Ends, Stage as Step};\n");
    assert_eq!(floors.place.get("stage"), Some(&1));
    assert_eq!(floors.home.get("Step").map(String::as_str), Some("stage"));
    assert_eq!(floors.home.get("Ends").map(String::as_str), Some("stage"));
}

#[test]
fn imports_are_followed_to_the_module_they_are_of() {
    let mut modules = Modules::default();
    for (file, text) in [
        ("lib.rs", "pub mod a;\npub mod d;\npub use d::e::Thing as Item;\nuse serde::Serialize;"),
        ("a.rs", "mod b;\nmod c;\nuse c::C;\nmod inner {\n    use super::b::X;\n}"),
        ("a/b.rs", "use super::C;\nfn x() { super::super::d::y(); crate::Item::new(); std::fs::x(); }"),
        ("a/c.rs", "use crate::Serialize;\nuse super::b::{self, X};"),
        ("d/mod.rs", "pub mod e;\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}"),
        ("d/e.rs", ""),
    ] {
        modules.add(Path::new(file), module_of(Path::new(file)), text);
    }
    let edges = modules.edges();
    let shown = |folder: &[&str]| -> Vec<String> {
        let folder: ModulePath = folder.iter().map(|&name| name.to_owned()).collect();
        let show = |edge: &Edge| format!("{} {} {}", edge.from, edge.to, edge.place);
        edges.get(&folder).into_iter().flatten().map(show).collect()
    };
    assert_eq!(shown(&[]), ["a d a/b.rs:2"]);
    assert_eq!(shown(&["a"]), ["inner b a.rs:5", "b c a/b.rs:1", "c b a/c.rs:2"]);
    assert_eq!(circles(&edges[&Vec::new()]), Vec::<Vec<Edge>>::new());
    assert_eq!(circles(&edges[&vec!["a".to_owned()]]).len(), 1);
}

#[test]
fn a_circle_of_any_length_is_found_once() {
    let edge = |from: &str, to: &str| Edge { from: from.into(), to: to.into(), place: String::new() };
    let found = circles(&[
        edge("c", "a"),
        edge("b", "c"),
        edge("a", "b"),
        edge("a", "d"),
        edge("d", "e"),
        edge("e", "d"),
        edge("e", "f"),
    ]);
    let shown: Vec<String> =
        found.iter().map(|circle| circle.iter().map(|edge| &edge.from[..]).collect()).collect();
    assert_eq!(shown, ["abc", "de"]);
}
