//! Trees and lists of rules, drawn from a seed.

use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

use tidegate_control::rng::Rng;
use tidegate_transfer::filter::rule::{Line, Lines, Rule, read};

const NAMES: [&str; 18] = [
    "a", "b", "ab", "a.o", "b.o", "foo", "x", "y", "z", ".hid", "é", "[a]", "a\\b", "a b", "*s", "x-y", "d1",
    "Foo",
];

/// Draws; what is drawn follows from the seed.
pub struct Draw(pub Rng);

impl Draw {
    pub fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n as u64) as usize
    }

    pub fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Makes a tree and answers with its paths.
    pub fn tree(&mut self, at: &Path, prefix: &str, depth: usize, paths: &mut Vec<String>) {
        for _ in 0..2 + self.below(5) {
            let name = self.of(&NAMES);
            let (path, shown) = (at.join(name), format!("{prefix}{name}"));
            if path.symlink_metadata().is_ok() {
                continue;
            }
            if depth > 0 && self.chance(45) {
                fs::create_dir(&path).expect("made");
                self.tree(&path, &format!("{shown}/"), depth - 1, paths);
            } else if self.chance(8) {
                std::os::unix::fs::symlink(self.of(&NAMES), &path).expect("linked");
            } else {
                fs::write(&path, "content".repeat(self.below(3))).expect("written");
            }
            paths.push(shown);
        }
    }

    /// A pattern made of one of the `paths`, or of anything.
    pub fn pattern(&mut self, paths: &[String]) -> String {
        if self.chance(12) {
            let of = [
                "a",
                "b",
                "o",
                "x",
                ".",
                "/",
                "*",
                "**",
                "?",
                "[",
                "]",
                "[!a]",
                "[a-y]",
                "[[:alpha:]]",
                "\\",
                "-",
            ];
            return (0..1 + self.below(6)).map(|_| self.of(&of)).collect();
        }
        let path = &paths[self.below(paths.len())];
        let mut parts: Vec<String> = path.split('/').map(str::to_owned).collect();
        parts.drain(..self.below(parts.len()));
        parts.truncate(1 + self.below(parts.len()));
        for part in &mut parts {
            *part = match self.below(14) {
                0 => "*".to_owned(),
                1 => "**".to_owned(),
                2 => part.chars().map(|c| if self.chance(50) { '?' } else { c }).collect(),
                3 => format!("{}*", part.chars().next().unwrap_or('a')),
                4 => format!("*{}", part.chars().last().unwrap_or('a')),
                5 => format!("**{}", part.chars().last().unwrap_or('a')),
                6 => format!("{}**", part.chars().next().unwrap_or('a')),
                7 => format!("[{}b-z]*", part.chars().next().unwrap_or('a')),
                8 => "[^a]*".to_owned(),
                9 => "[[:lower:][:punct:]]*".to_owned(),
                10 => part.chars().flat_map(|c| ['\\', c]).collect(),
                _ => part.clone(),
            };
        }
        let start = if self.chance(30) { "/" } else { "" };
        let end = match self.below(12) {
            0 | 1 => "/",
            2 => "/***",
            3 => "/**",
            4 => "***",
            _ => "",
        };
        format!("{start}{}{end}", parts.join("/"))
    }

    pub fn rule(&mut self, paths: &[String]) -> String {
        let sign =
            self.of(&["-", "-", "-", "-", "+", "+", "H", "S", "P", "R", "-!", "-s", "-r", "+p", "exclude"]);
        match self.below(25) {
            0 => "!".to_owned(),
            1 => "+ */".to_owned(),
            2 => "- *".to_owned(),
            _ => format!("{sign} {}", self.pattern(paths)),
        }
    }

    /// Rules, and in some directories of `source` files of them; answers with both, those of files for people.
    pub fn rules(&mut self, source: &Path, paths: &[String]) -> (Vec<String>, Vec<String>) {
        let mut texts: Vec<String> = (0..1 + self.below(5)).map(|_| self.rule(paths)).collect();
        let mut merged = Vec::new();
        if self.chance(30) {
            let at = self.below(texts.len() + 1);
            texts.insert(at, format!("{} .f", self.of(&[":", ":e", ":n", ":-", ":s", "dir-merge,e"])));
            let bare = texts[at].starts_with(":-");
            let directories: Vec<_> =
                paths.iter().filter(|path| source.join(path).is_dir()).cloned().collect();
            for directory in directories.iter().map(String::as_str).chain([""]) {
                if self.chance(60) {
                    let mut file = fs::File::create(source.join(directory).join(".f")).expect("made");
                    for _ in 0..1 + self.below(3) {
                        let line = if bare { self.pattern(paths) } else { self.rule(paths) };
                        // rsync takes bytes of the directory's own name for wildcards in what is anchored there.
                        if directory.contains(['[', '*', '\\']) && line.contains('/') {
                            continue;
                        }
                        merged.push(format!("{directory}: {line}"));
                        if bare
                            || texts[at] != ":s .f"
                            || ["- ", "+ ", "!"].iter().any(|start| line.starts_with(start))
                        {
                            writeln!(file, "{line}").expect("written");
                        }
                    }
                }
            }
        }
        (texts, merged)
    }
}

/// What the texts say, of which all are rules.
pub fn read_rules(texts: &[String]) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for text in texts {
        match read(text.as_bytes(), Lines::Rules) {
            Ok(Line::Clear) => rules.clear(),
            Ok(Line::Rule(rule)) => rules.push(rule),
            // What is no rule is none for either.
            other => panic!("{text}: {other:?}"),
        }
    }
    rules
}

/// Holds that each of `seeds` is as rsync has it: `differences` says where one is not. `what` says what is the same then.
pub fn judged_by_rsync(what: &str, seeds: Range<u64>, differences: impl Fn(u64) -> Option<String>) {
    if !testkit::has(what, &["rsync"]) {
        return;
    }
    println!("seeds {seeds:?}");
    let all = seeds.end - seeds.start;
    let different: Vec<_> = seeds.filter_map(differences).collect();
    println!("{} of {all} {what} as rsync", all - different.len() as u64);
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}
