//! Options that say what of a source is copied: rsync's filter rules in the order of the command line, lists of names,
//! sizes and times.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{ArgMatches, Args, Command, FromArgMatches};
use tidegate_service::job::Request;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::filter::rule::{Action, Line, Lines, Merge, Rule, blank, itself, read, read_file};
use tidegate_transfer::filter::{listed_names, prefixed};
use tidegate_transfer::selection::bounds::{Moment, rsync_size};
use tidegate_transfer::selection::{Selection, Taking};
use tidegate_transfer::text::show;

use crate::exit::usage;

/// Deepest nesting of files of rules that name each other.
const MAX_NESTED: usize = 16;

/// Most bytes read of one file of rules, or list of names.
const MAX_FILE: u64 = 64 << 20;

/// What of a source is copied, and what the destination takes of it.
#[derive(Clone, Debug)]
pub struct FilterArgs {
    options: FilterOptions,
    /// Where the rules come from, as they stand on the command line.
    rules: Vec<(From, OsString)>,
}

/// What an option of rules holds.
#[derive(Clone, Copy, Debug)]
enum From {
    Pattern(bool),
    File(bool),
    Rule,
}

const RULES: [(&str, From); 5] = [
    ("exclude", From::Pattern(false)),
    ("include", From::Pattern(true)),
    ("exclude_from", From::File(false)),
    ("include_from", From::File(true)),
    ("filter", From::Rule),
];

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "What is copied")]
struct FilterOptions {
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
    /// Copy only the names in FILE, relative to the one source, and what lies in directories among them
    #[arg(long, value_name = "FILE")]
    files_from: Option<OsString>,
    /// Files of names and of rules have a NUL byte behind each, not a line's end
    #[arg(short = '0', long)]
    from0: bool,
    /// Leave out files smaller than SIZE: bytes, or with rsync's suffixes as in 1.5M, 10KB, 2G-1
    #[arg(long, value_name = "SIZE", value_parser = rsync_size)]
    min_size: Option<u64>,
    /// Leave out files larger than SIZE
    #[arg(long, value_name = "SIZE", value_parser = rsync_size)]
    max_size: Option<u64>,
    /// Leave out files that were not modified after TIME: an age such as 7d, or a local time as
    /// 2026-01-31 or 2026-01-31T12:00:00, or with a zone 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = str::parse::<Moment>)]
    newer_than: Option<Moment>,
    /// Leave out files that were not modified before TIME
    #[arg(long, value_name = "TIME", value_parser = str::parse::<Moment>)]
    older_than: Option<Moment>,
    /// Do not enter directories on which another file system is mounted
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// Make nothing new at the destination
    #[arg(long)]
    existing: bool,
    /// Leave files alone that are at the destination
    #[arg(long)]
    ignore_existing: bool,
    /// Leave files alone that are newer at the destination
    #[arg(short, long)]
    update: bool,
}

impl Args for FilterArgs {
    fn augment_args(command: Command) -> Command {
        FilterOptions::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        FilterOptions::augment_args_for_update(command)
    }
}

impl FromArgMatches for FilterArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let options = FilterOptions::from_arg_matches(matches)?;
        let mut rules = Vec::new();
        for (id, from) in RULES {
            let values = matches.get_many::<OsString>(id).into_iter().flatten().cloned();
            let at = matches.indices_of(id).into_iter().flatten();
            rules.extend(at.zip(values).map(|(at, value)| (at, (from, value))));
        }
        rules.sort_by_key(|(at, _)| *at);
        Ok(Self { options, rules: rules.into_iter().map(|(_, rule)| rule).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl FilterArgs {
    /// What of the source is offered; reads the files that options name.
    pub fn selection(&self) -> Result<Selection> {
        let options = &self.options;
        let names = self.names()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let time = |moment: Option<Moment>| moment.map(|moment| moment.seen_at(now));
        Ok(Selection {
            rules: self.rules()?,
            listed: names.is_some(),
            names: names.unwrap_or_default(),
            min_size: options.min_size,
            max_size: options.max_size,
            newer_than: time(options.newer_than),
            older_than: time(options.older_than),
            one_file_system: options.one_file_system,
        })
    }

    /// What tells jobs the same, with the content of those files; an age counts from when the job runs.
    pub fn for_jobs(&self) -> Result<impl Fn(&mut Request)> {
        let text = |bytes: Vec<u8>| {
            String::from_utf8(bytes).map_err(|error| {
                let bytes = error.into_bytes();
                usage(format!("{} is not valid UTF-8, as all of a job must be", show(&bytes)))
            })
        };
        // The source itself is an empty name.
        let name = |name: Vec<u8>| if name.is_empty() { Ok(".".to_owned()) } else { text(name) };
        let filter = self.rules()?.iter().map(|rule| text(rule.text())).collect::<Result<Vec<_>>>()?;
        let files: Option<Vec<_>> =
            self.names()?.map(|names| names.into_iter().map(name).collect::<Result<_>>()).transpose()?;
        let FilterOptions { min_size, max_size, newer_than, older_than, .. } = &self.options;
        let valued = [
            min_size.map(|size| format!("--min-size={size}")),
            max_size.map(|size| format!("--max-size={size}")),
            newer_than.map(|moment| format!("--newer-than={moment}")),
            older_than.map(|moment| format!("--older-than={moment}")),
        ];
        let FilterOptions { one_file_system, existing, ignore_existing, update, .. } = self.options;
        let switches = [
            ("--one-file-system", one_file_system),
            ("--existing", existing),
            ("--ignore-existing", ignore_existing),
            ("--update", update),
        ];
        let switches = switches.into_iter().filter(|(_, given)| *given).map(|(name, _)| name.to_owned());
        let options: Vec<_> = valued.into_iter().flatten().chain(switches).collect();
        Ok(move |request: &mut Request| {
            request.options.extend(options.iter().cloned());
            request.filter.extend(filter.iter().cloned());
            request.files = files.clone().or_else(|| request.files.take());
        })
    }

    fn names(&self) -> Result<Option<Vec<Vec<u8>>>> {
        let list = self.options.files_from.as_ref().map(|file| content(file.as_bytes())).transpose()?;
        Ok(list.map(|list| listed_names(&list, self.options.from0)))
    }

    fn rules(&self) -> Result<Vec<Rule>> {
        let mut rules = Vec::new();
        for (from, value) in &self.rules {
            let text = value.as_bytes();
            let line = match from {
                From::Pattern(includes) => read(text, Lines::Prefixed(*includes))?,
                From::File(includes) => {
                    Line::File(text.to_vec(), prefixed(*includes), blank(Action::Exclude))
                }
                From::Rule => read(text, Lines::Rules)?,
            };
            match line {
                Line::Clear => rules.clear(),
                Line::Rule(rule) => rules.push(rule),
                Line::File(name, merge, rule) => self.add_file(&name, merge, &rule, &mut rules, 0)?,
            }
        }
        Ok(rules)
    }

    /// What the destination takes of what is offered.
    pub fn taking(&self) -> Taking {
        let FilterOptions { existing, ignore_existing, update, .. } = self.options;
        Taking { existing, ignore_existing, update }
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
        read_file(&content(name)?, (merge, self.options.from0), of, &mut nested, rules)
            .map_err(|error| error.within(show(name)))?;
        Ok(())
    }
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
        return Err(Error::new(ErrorKind::Usage, format!("{} is longer than 64 MiB: split it", show(name))));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_args(words: &[&str]) -> Result<Selection> {
        let command = FilterArgs::augment_args(Command::new("copy"));
        let matches = command.try_get_matches_from([&["copy"], words].concat()).expect("options");
        FilterArgs::from_arg_matches(&matches).expect("read").selection()
    }

    #[test]
    fn rules_keep_the_order_of_the_command_line_whatever_option_they_come_from() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("rules");
        std::fs::write(&file, "c\n+ d\n").expect("written");
        let file = file.to_str().expect("text");
        let words = ["--include", "a", "-f", "- b", "--exclude-from", file, "--exclude=- e", "--include=!x"];
        let rules = read_args(&words).expect("rules").rules;
        let shown =
            rules.iter().map(|rule| (rule.action, String::from_utf8_lossy(&rule.pattern).into_owned()));
        let (plus, minus) = (Action::Include, Action::Exclude);
        let wanted = [(plus, "a"), (minus, "b"), (minus, "c"), (plus, "d"), (minus, "e"), (plus, "!x")];
        let wanted = wanted.map(|(action, pattern)| (action, pattern.to_owned()));
        assert_eq!(shown.collect::<Vec<_>>(), wanted);
        assert_eq!(read_args(&["--exclude=a", "--exclude=!", "--exclude=b"]).expect("rules").rules.len(), 1);
    }

    #[test]
    fn files_that_name_each_other_come_to_an_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("rules");
        std::fs::write(&file, format!(". {}", file.display())).expect("written");
        let error = read_args(&["-f", &format!(". {}", file.display())]).expect_err("a circle");
        assert!(error.message.contains("name each other") && !error.message.contains('\n'), "{error}");
    }
}
