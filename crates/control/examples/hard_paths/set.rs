//! The paths that rules are judged on.

use std::error::Error;
use std::fs;
use std::path::Path;

use tidegate_control::Scenario;
use tidegate_control::random_path::unseen;

/// Seeds of `lab/hard_paths.py` and `lab/wide_paths.py` that constants of our rules were chosen by.
const TUNING: [u64; 5] = [12, 101, 102, 301, 302];
/// Paths drawn by `random_path`.
const COUNT: u64 = 500;

/// Paths with their own seeds.
pub struct Set {
    pub name: String,
    pub drawn_by: String,
    /// What else the paths served for.
    pub served: &'static str,
    pub paths: Vec<(u64, Scenario)>,
}

/// The number in a name; 0 if there is none.
fn number(name: &Path) -> u64 {
    let name = name.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or_default()
}

impl Set {
    /// The set of that name; none if it is neither a folder nor one of ours.
    pub fn named(name: &str) -> Result<Option<Self>, Box<dyn Error>> {
        let (kind, first) = name.split_once(':').unwrap_or((name, "0"));
        match kind {
            "ideal" | "extras" => Ok(Some(Self::unseen(kind, first.parse()?))),
            _ if Path::new(name).is_dir() => Ok(Some(Self::read(Path::new(name))?)),
            _ => Ok(None),
        }
    }

    fn unseen(kind: &str, first: u64) -> Self {
        let draw = |seed| if kind == "ideal" { unseen(seed).ideal() } else { unseen(seed) };
        let last = first + COUNT - 1;
        Self {
            name: format!("{kind}, seeds {first} to {last}"),
            drawn_by: format!("`random_path::unseen`, seeds {first} to {last}, {kind}"),
            served: if first < COUNT { "the table of learning.md" } else { "nothing else" },
            paths: (first..=last).map(|seed| (seed, draw(seed))).collect(),
        }
    }

    fn read(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let mut paths = Vec::new();
        for file in fs::read_dir(folder)? {
            let file = file?.path();
            let scenario = Scenario::from_toml(&fs::read_to_string(&file)?)
                .map_err(|error| format!("{}: {error}", file.display()))?;
            paths.push((number(&file), scenario));
        }
        paths.sort_by_key(|path| path.0);
        let (seed, count) = (number(folder), paths.len());
        let wide = paths.first().is_some_and(|(_, scenario)| scenario.name.starts_with('w'));
        let (program, of) = if wide { ("wide_paths", "every kind, ") } else { ("hard_paths", "") };
        Ok(Self {
            name: format!("{of}seed {seed}"),
            drawn_by: format!("`python3 -m lab.{program} {count} {seed} target/hard-paths/{seed}`"),
            served: if TUNING.contains(&seed) { "tuning" } else { "nothing else: drawn once, afterwards" },
            paths,
        })
    }
}
