//! What of a source is copied: rsync's filter rules in their order, lists of names, sizes and times.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde::{Deserialize, Serialize};
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::filter::rule::{Action, Line, Lines, Merge, Rule, blank, itself, read, read_file};
use tidegate_transfer::filter::{listed_names, prefixed};
use tidegate_transfer::selection::bounds::{Moment, rsync_size};
use tidegate_transfer::selection::{Selection, Taking};
use tidegate_transfer::text::show;

use crate::form::{path_option, size_option, text_option, word};

/// Deepest nesting of files of rules that name each other.
const MAX_NESTED: usize = 16;

/// Most bytes read of one file of rules, or list of names.
const MAX_FILE: u64 = 64 << 20;

/// What of a source is copied, and what the destination takes of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct FilterSpec {
    /// The rules, the first that matches deciding.
    #[serde(rename = "filter")]
    pub rules: Vec<FilterRule>,
    /// Names relative to the one source; only they are copied, if there is such a list.
    pub files: Option<Vec<String>>,
    /// What else there is.
    #[serde(flatten)]
    pub bounds: FilterBounds,
}

/// A rule, or where some are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", expecting = "a rule such as \"- *.o\", or one as {\"exclude\": \"*.o\"}")]
pub enum FilterRule {
    /// Leaves out what a pattern matches.
    #[cfg_attr(feature = "schema", schemars(with = "word::WrittenWord"))]
    Exclude(#[serde(with = "word")] OsString),
    /// Takes what a pattern matches.
    #[cfg_attr(feature = "schema", schemars(with = "word::WrittenWord"))]
    Include(#[serde(with = "word")] OsString),
    /// Leaves out what the patterns in a file match.
    #[cfg_attr(feature = "schema", schemars(with = "word::WrittenWord"))]
    ExcludeFrom(#[serde(with = "word")] OsString),
    /// Takes what the patterns in a file match.
    #[cfg_attr(feature = "schema", schemars(with = "word::WrittenWord"))]
    IncludeFrom(#[serde(with = "word")] OsString),
    /// A rule in rsync's language, which is written alone.
    #[serde(untagged)]
    #[cfg_attr(feature = "schema", schemars(with = "word::WrittenWord"))]
    Filter(#[serde(with = "word")] OsString),
}

/// What is chosen by other things than names, and where a list of names is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[command(next_help_heading = "What is copied")]
pub struct FilterBounds {
    /// Copy only the names in FILE, relative to the one source, and what lies in directories among them
    #[arg(long, value_name = "FILE")]
    #[serde(with = "path_option")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<word::WrittenWord>", extend("format" = "path")))]
    pub files_from: Option<std::path::PathBuf>,
    /// Files of names and of rules have a NUL byte behind each, not a line's end
    #[arg(short = '0', long)]
    pub(crate) from0: bool,
    /// Leave out files smaller than SIZE: bytes, or with rsync's suffixes as in 1.5M, 10KB, 2G-1
    #[arg(long, value_name = "SIZE", value_parser = rsync_size)]
    #[serde(deserialize_with = "size_option::deserialize")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<size_option::WrittenSize>"))]
    pub min_size: Option<u64>,
    /// Leave out files larger than SIZE
    #[arg(long, value_name = "SIZE", value_parser = rsync_size)]
    #[serde(deserialize_with = "size_option::deserialize")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<size_option::WrittenSize>"))]
    pub max_size: Option<u64>,
    /// Leave out files that were not modified after TIME: an age such as 7d, or a local time as
    /// 2026-01-31 or 2026-01-31T12:00:00, or with a zone 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = str::parse::<Moment>)]
    #[serde(with = "text_option")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub newer_than: Option<Moment>,
    /// Leave out files that were not modified before TIME
    #[arg(long, value_name = "TIME", value_parser = str::parse::<Moment>)]
    #[serde(with = "text_option")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub older_than: Option<Moment>,
    /// Do not enter directories on which another file system is mounted
    #[arg(short = 'x', long)]
    pub(crate) one_file_system: bool,
    /// Leave out files and directories whose names begin with a dot, unless a rule takes them
    #[arg(long)]
    pub(crate) no_hidden: bool,
    /// Make nothing new at the destination
    #[arg(long)]
    pub existing: bool,
    /// Leave files alone that are at the destination
    #[arg(long)]
    pub(crate) ignore_existing: bool,
    /// Leave files alone that are newer at the destination
    #[arg(short, long)]
    pub update: bool,
}

/// Options of rules, as they are typed; clap tells the order of values only by their places.
#[derive(Args)]
#[command(next_help_heading = "What is copied")]
struct RuleWords {
    /// Leave out what PATTERN matches, as rsync does; the first of all rules that matches decides
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    exclude: Vec<OsString>,
    /// Take what PATTERN matches, whatever later rules say
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    include: Vec<OsString>,
    /// Leave out what the patterns in FILE match, one a line (- is standard input)
    #[arg(long, value_name = "FILE")]
    exclude_from: Vec<OsString>,
    /// Take what the patterns in FILE match
    #[arg(long, value_name = "FILE")]
    include_from: Vec<OsString>,
    /// Add a filter rule in rsync's language: + - P R H S ! . : and a pattern or a file
    #[arg(short, long, value_name = "RULE", allow_hyphen_values = true)]
    filter: Vec<OsString>,
}

type Make = fn(OsString) -> FilterRule;

const RULES: [(&str, Make); 5] = [
    ("exclude", FilterRule::Exclude),
    ("include", FilterRule::Include),
    ("exclude_from", FilterRule::ExcludeFrom),
    ("include_from", FilterRule::IncludeFrom),
    ("filter", FilterRule::Filter),
];

impl Args for FilterSpec {
    fn augment_args(command: Command) -> Command {
        FilterBounds::augment_args(RuleWords::augment_args(command))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FilterSpec {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut rules = Vec::new();
        for (id, make) in RULES {
            let values = matches.get_many::<OsString>(id).into_iter().flatten().cloned();
            let at = matches.indices_of(id).into_iter().flatten();
            rules.extend(at.zip(values).map(|(at, value)| (at, make(value))));
        }
        rules.sort_by_key(|(at, _)| *at);
        let rules = rules.into_iter().map(|(_, rule)| rule).collect();
        Ok(Self { rules, files: None, bounds: FilterBounds::from_arg_matches(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl FilterRule {
    /// What it says, in rsync's language or as the name of a file that does.
    fn line(&self) -> Result<Line> {
        let of_file = |name: &OsString, includes: bool| {
            Line::File(name.as_bytes().to_vec(), prefixed(includes), blank(Action::Exclude))
        };
        match self {
            Self::Exclude(pattern) => read(pattern.as_bytes(), Lines::Prefixed(false)),
            Self::Include(pattern) => read(pattern.as_bytes(), Lines::Prefixed(true)),
            Self::Filter(rule) => read(rule.as_bytes(), Lines::Rules),
            Self::ExcludeFrom(name) => Ok(of_file(name, false)),
            Self::IncludeFrom(name) => Ok(of_file(name, true)),
        }
    }
}

impl FilterSpec {
    /// What of the source is offered; reads the files that options name.
    pub fn selection(&self) -> Result<Selection> {
        let FilterBounds { min_size, max_size, newer_than, older_than, one_file_system, .. } = &self.bounds;
        let names = self.names()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let time = |moment: &Option<Moment>| moment.map(|moment| moment.seen_at(now));
        Ok(Selection {
            rules: self.rules()?,
            listed: names.is_some(),
            names: names.unwrap_or_default(),
            min_size: *min_size,
            max_size: *max_size,
            newer_than: time(newer_than),
            older_than: time(older_than),
            one_file_system: *one_file_system,
        })
    }

    /// What the destination takes of what is offered.
    pub fn taking(&self) -> Taking {
        let FilterBounds { existing, ignore_existing, update, .. } = self.bounds;
        Taking { existing, ignore_existing, update }
    }

    /// The same with the content of those files in place of their names, for whoever cannot read them; an age counts
    /// from when it is used.
    pub fn content(&self) -> Result<Self> {
        let text = |bytes: Vec<u8>| {
            String::from_utf8(bytes).map_err(|error| {
                let bytes = error.into_bytes();
                usage(format!("{} is not valid UTF-8, as all of a job must be", show(&bytes)))
            })
        };
        // The source itself is an empty name.
        let name = |name: Vec<u8>| if name.is_empty() { Ok(".".to_owned()) } else { text(name) };
        let rule = |rule: &Rule| Ok(FilterRule::Filter(text(rule.text())?.into()));
        let files = self.names()?.map(|names| names.into_iter().map(name).collect::<Result<_>>());
        Ok(Self {
            rules: self.rules()?.iter().map(rule).collect::<Result<_>>()?,
            files: files.transpose()?,
            bounds: FilterBounds { files_from: None, from0: false, no_hidden: false, ..self.bounds.clone() },
        })
    }

    /// Whether it says all that there is to know: no file of whoever reads it is named, and every rule can be read.
    pub fn check_content(&self) -> Result<(), String> {
        if let Some(file) = &self.bounds.files_from {
            return Err(there(file.as_os_str().as_bytes()));
        }
        for rule in &self.rules {
            // A file that each directory of the source may hold (`:`) is part of what is copied; one that a rule names is not.
            if let Line::File(name, ..) = rule.line().map_err(|error| error.message)? {
                return Err(there(&name));
            }
        }
        Ok(())
    }

    fn names(&self) -> Result<Option<Vec<Vec<u8>>>> {
        let from0 = self.bounds.from0;
        let listed = |file: &std::path::PathBuf| {
            content(file.as_os_str().as_bytes()).map(|content| listed_names(&content, from0))
        };
        let of_file = self.bounds.files_from.as_ref().map(listed).transpose()?;
        // A name is read as it is in a file.
        let given = self.files.as_ref().map(|names| listed_names(names.join("\0").as_bytes(), true));
        Ok(of_file.or(given))
    }

    fn rules(&self) -> Result<Vec<Rule>> {
        let mut rules = Vec::new();
        for rule in &self.rules {
            match rule.line()? {
                Line::Clear => rules.clear(),
                Line::Rule(rule) => rules.push(rule),
                Line::File(name, merge, rule) => self.add_file(&name, merge, &rule, &mut rules, 0)?,
            }
        }
        if self.bounds.no_hidden
            && let Line::Rule(hidden) = read(b".*", Lines::Prefixed(false))?
        {
            rules.push(hidden);
        }
        Ok(rules)
    }

    fn add_file(
        &self,
        name: &[u8],
        merge: Merge,
        of: &Rule,
        rules: &mut Vec<Rule>,
        depth: usize,
    ) -> Result<()> {
        if depth >= MAX_NESTED {
            return Err(usage(format!("{} names files of filter rules that name each other", show(name))));
        }
        if merge.excludes_itself {
            rules.push(itself(name, of));
        }
        let mut nested = |name: &[u8], merge: Merge, of: &Rule, rules: &mut Vec<Rule>| {
            self.add_file(name, merge, of, rules, depth + 1)
        };
        read_file(&content(name)?, (merge, self.bounds.from0), of, &mut nested, rules)
            .map_err(|error| error.within(show(name)))?;
        Ok(())
    }
}

fn usage(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, why)
}

fn there(name: &[u8]) -> String {
    format!(
        "the rules of the file {} would be read where the service runs: write them here, or have `tidegate submit` send them",
        show(name)
    )
}

/// What the file `name` holds, or standard input for `-`.
fn content(name: &[u8]) -> Result<Vec<u8>> {
    let failed = |error| Error::io("read", name, error);
    let mut content = Vec::new();
    let read: &mut dyn Read = match name {
        b"-" => &mut std::io::stdin(),
        name => &mut std::fs::File::open(OsStr::from_bytes(name)).map_err(failed)?,
    };
    read.take(MAX_FILE + 1).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 > MAX_FILE {
        return Err(usage(format!("{} is longer than 64 MiB: split it", show(name))));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(words: &[&str]) -> FilterSpec {
        let command = FilterSpec::augment_args(Command::new("copy"));
        let matches = command.try_get_matches_from([&["copy"], words].concat()).expect("options");
        FilterSpec::from_arg_matches(&matches).expect("read")
    }

    #[test]
    fn rules_keep_the_order_of_the_command_line_whatever_option_they_come_from() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("rules");
        std::fs::write(&file, "c\n+ d\n").expect("written");
        let file = file.to_str().expect("text");
        let words = ["--include", "a", "-f", "- b", "--exclude-from", file, "--exclude=- e", "--include=!x"];
        let typed = spec(&words);
        let rules = typed.selection().expect("rules").rules;
        let shown =
            rules.iter().map(|rule| (rule.action, String::from_utf8_lossy(&rule.pattern).into_owned()));
        let (plus, minus) = (Action::Include, Action::Exclude);
        let wanted = [(plus, "a"), (minus, "b"), (minus, "c"), (plus, "d"), (minus, "e"), (plus, "!x")];
        let wanted = wanted.map(|(action, pattern)| (action, pattern.to_owned()));
        assert_eq!(shown.collect::<Vec<_>>(), wanted);
        let json = serde_json::to_string(&typed).expect("plain data");
        assert_eq!(serde_json::from_str::<FilterSpec>(&json).expect("read"), typed, "{json}");
        let content = typed.content().expect("read");
        assert_eq!(content.selection().expect("rules").rules, rules);
        assert_eq!(content.check_content(), Ok(()));
        assert!(typed.check_content().is_err_and(|why| why.contains("where the service runs")));
        let cleared = spec(&["--exclude=a", "--exclude=!", "--exclude=b"]);
        assert_eq!(cleared.selection().expect("rules").rules.len(), 1);
    }

    #[test]
    fn hidden_files_are_left_out_by_the_last_rule() {
        let typed = spec(&["--no-hidden", "--include=.profile"]);
        let rules = typed.selection().expect("rules").rules;
        let shown: Vec<_> = rules.iter().map(|rule| (rule.action, &rule.pattern[..])).collect();
        assert_eq!(shown, [(Action::Include, &b".profile"[..]), (Action::Exclude, b".*")]);
        assert_eq!(typed.content().expect("read").selection().expect("rules").rules, rules, "once");
        assert!(spec(&[]).selection().expect("rules").rules.is_empty());
    }

    #[test]
    fn files_that_name_each_other_come_to_an_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("rules");
        std::fs::write(&file, format!(". {}", file.display())).expect("written");
        let error = spec(&["-f", &format!(". {}", file.display())]).selection().expect_err("a circle");
        assert!(error.message.contains("name each other") && !error.message.contains('\n'), "{error}");
    }

    #[test]
    fn what_is_no_rule_is_told_what_one_is() {
        for text in
            ["7", "{}", r#"{"exclude": "a", "include": "b"}"#, r#"{"exclde": "a"}"#, r#"{"exclude": 1}"#]
        {
            let why = serde_json::from_str::<FilterRule>(text).expect_err(text).to_string();
            assert!(why.starts_with("a rule such as"), "{text}: {why}");
        }
        let rule: FilterRule = serde_json::from_str(r#"{"exclude": "a"}"#).expect("a rule");
        assert_eq!(rule, FilterRule::Exclude("a".into()));
    }

    #[test]
    fn content_names_no_file_of_the_one_who_reads_it() {
        let rules =
            |text: &str| FilterSpec { rules: vec![FilterRule::Filter(text.into())], ..FilterSpec::default() };
        for fine in ["- *.tmp", ":e .keep", "!", "P x"] {
            assert_eq!(rules(fine).check_content(), Ok(()), "{fine}");
        }
        for (filter, wanted) in [
            (". /etc/passwd", "where the service runs"),
            ("merge /etc/passwd", "where the service runs"),
            (".e- rules", "where the service runs"),
            (": ../rules", "without a slash"),
            ("*.tmp", "begins with none of"),
        ] {
            let why = rules(filter).check_content().expect_err(wanted);
            assert!(why.contains(wanted) && !why.contains('\n'), "{filter}: {why}");
        }
        for words in [["--files-from=/etc/passwd"], ["--exclude-from=/etc/passwd"]] {
            assert!(spec(&words).check_content().is_err_and(|why| why.contains("/etc/passwd")));
        }
    }
}
