//! rsync's filter rules: which names of a tree are taken. Nothing here reads a file: whoever walks the tree brings the
//! content of the files of rules that it meets.
//!
//! The first rule that matches decides, and what none matches is taken. An excluded directory is not entered, so that
//! rules for what lies in it are never asked.

pub(crate) mod pattern;

pub mod rule;

use self::pattern::Pattern;
use self::rule::{Action, Lines, Merge, Rule, RuleSide};
use crate::error::{Error, ErrorKind, Result};
use crate::path::split;
use crate::text::show;

/// Largest file of rules in a directory.
pub(crate) const MAX_RULE_FILE: usize = 1 << 20;

/// Most rules of files that one walk holds at a time.
const MAX_RULES: usize = 64 << 10;

/// Rules, ready to be asked, and those of the directories on the way to where the walk is.
///
/// ```
/// use tidegate_transfer::filter::Filter;
/// use tidegate_transfer::filter::rule::{Line, Lines, RuleSide, read};
///
/// let rules = ["+ *.fastq", "- tmp/", "- *.bak"].map(|text| match read(text.as_bytes(), Lines::Rules) {
///     Ok(Line::Rule(rule)) => rule,
///     other => panic!("{other:?}"),
/// });
/// let filter = Filter::new(&rules, RuleSide::Source)?;
/// assert!(filter.takes(b"a/tmp", false) && !filter.takes(b"a/tmp", true));
/// assert!(!filter.takes(b"a/x.bak", false));
/// # Ok::<(), tidegate_transfer::error::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Filter {
    rules: Vec<Compiled>,
    /// Files of rules to look for in each directory.
    merges: Vec<(Rule, Merge)>,
    /// The directories that were entered: how long their paths are, and what each file held.
    levels: Vec<Level>,
    side: RuleSide,
    /// Whether rules that name no side do not count.
    alone: bool,
    /// Whether the directory that was entered last is to go, so that perishable rules are void.
    going: bool,
    held: usize,
}

#[derive(Clone, Debug)]
struct Level {
    /// What of each merge its file held.
    rules: Vec<Local>,
    /// Bytes of the paths in it that belong to it and those above, the slash included.
    base: usize,
}

/// What a directory's own file holds.
#[derive(Clone, Debug, Default)]
struct Local {
    rules: Vec<Compiled>,
    /// Whether those of directories above are void.
    cleared: bool,
}

#[derive(Clone, Debug)]
enum Compiled {
    Match {
        pattern: Pattern,
        includes: bool,
        negated: bool,
        anchored: bool,
        perishable: bool,
    },
    /// What the files of this merge say.
    Merged(usize),
}

impl Compiled {
    fn of(rule: &Rule) -> Self {
        Self::Match {
            pattern: Pattern::new(&rule.pattern),
            includes: rule.action == Action::Include,
            negated: rule.negated,
            anchored: Pattern::is_anchored(&rule.pattern),
            perishable: rule.perishable,
        }
    }
}

impl Filter {
    /// Those of `rules` that hold at `side`.
    pub fn new(rules: &[Rule], side: RuleSide) -> Result<Self> {
        Self { side, ..Self::default() }.with(rules)
    }

    /// Those that hold at the destination and nowhere else.
    pub(crate) fn of_destination_alone(rules: &[Rule]) -> Result<Self> {
        Self { side: RuleSide::Destination, alone: true, ..Self::default() }.with(rules)
    }

    /// The same where a directory is to go that was entered: perishable rules are void.
    pub fn going(&mut self, going: bool) {
        self.going = going;
    }

    fn holds(&self, rule: &Rule) -> bool {
        rule.side == self.side || (rule.side == RuleSide::Both && !self.alone)
    }

    fn with(self, rules: &[Rule]) -> Result<Self> {
        let mut filter = self;
        for rule in rules {
            match rule.action {
                // Its own rules may be for one side alone.
                Action::Merge(merge) if rule.side == RuleSide::Both || rule.side == filter.side => {
                    if merge.excludes_itself && filter.holds(rule) {
                        filter.rules.push(Compiled::of(&rule::itself(&rule.pattern, rule)));
                    }
                    if rule.pattern.contains(&b'/') || rule.pattern.contains(&0) {
                        return Err(Error::protocol("a file of rules whose name is none"));
                    }
                    filter.rules.push(Compiled::Merged(filter.merges.len()));
                    filter.merges.push((rule.clone(), merge));
                }
                Action::Include | Action::Exclude if filter.holds(rule) => {
                    filter.rules.push(Compiled::of(rule));
                }
                _ => {}
            }
        }
        Ok(filter)
    }

    /// Whether what it takes can be told without the files of the tree.
    pub fn is_whole(&self) -> bool {
        self.merges.is_empty()
    }

    /// Enters the directory `path`, empty for the root; `file` reads the file of that name in it, if it is there.
    ///
    /// # Errors
    /// The file cannot be read, or holds what is no rule; then nothing has been entered.
    pub fn enter(
        &mut self,
        path: &[u8],
        mut file: impl FnMut(&[u8]) -> Result<Option<Vec<u8>>>,
    ) -> Result<()> {
        if self.merges.is_empty() {
            return Ok(());
        }
        let base = if path.is_empty() { 0 } else { path.len() + 1 };
        let mut level = Level { rules: Vec::with_capacity(self.merges.len()), base };
        for (rule, merge) in &self.merges {
            let shown = || show(&[path, b"/", &rule.pattern[..]].concat()).into_owned();
            let Some(content) = file(&rule.pattern)? else {
                level.rules.push(Local::default());
                continue;
            };
            let mut rules = Vec::new();
            let mut refuse = |name: &[u8], _: Merge, _: &Rule, _: &mut Vec<Rule>| {
                let why = format!("names the file {} itself, which is not supported", show(name));
                Err(Error::new(ErrorKind::Usage, why))
            };
            let cleared = rule::read_file(&content, (*merge, false), rule, &mut refuse, &mut rules)
                .map_err(|error| error.within(shown()))?;
            if let Some(nested) = rules.iter().find(|rule| matches!(rule.action, Action::Merge(_))) {
                let why = format!("names the file {} itself, which is not supported", show(&nested.pattern));
                return Err(Error::new(ErrorKind::Usage, why).within(shown()));
            }
            let ours = rules.iter().filter(|rule| self.holds(rule));
            let rules: Vec<_> = ours.map(Compiled::of).collect();
            level.rules.push(Local { rules, cleared });
        }
        let held = level.rules.iter().map(|local| local.rules.len()).sum::<usize>();
        if self.held + held > MAX_RULES {
            let why = format!("the files of rules on the way to {} hold more than {MAX_RULES}", show(path));
            return Err(Error::new(ErrorKind::Usage, why));
        }
        self.held += held;
        self.levels.push(level);
        Ok(())
    }

    /// Leaves the directory that was entered last.
    pub fn leave(&mut self) {
        if let Some(level) = self.levels.pop() {
            self.held -= level.rules.iter().map(|local| local.rules.len()).sum::<usize>();
        }
    }

    /// Whether `path` is taken, as far as rules say; it lies in the directory that was entered last.
    pub fn takes(&self, path: &[u8], is_directory: bool) -> bool {
        let mut decisions = self.rules.iter().filter_map(|rule| match rule {
            Compiled::Merged(index) => self.merged(*index, path, is_directory),
            rule => self.decision(rule, path, path, is_directory),
        });
        decisions.next().unwrap_or(true)
    }

    /// Whether `path` and all directories on the way to it are taken.
    pub(crate) fn takes_all_of(&self, path: &[u8], is_directory: bool) -> bool {
        let (parent, _) = split(path);
        if self.rules.is_empty() {
            return true;
        }
        self.takes(path, is_directory) && (parent.is_empty() || self.takes_all_of(parent, true))
    }

    /// What the files of one merge say: those of the innermost directory first.
    fn merged(&self, index: usize, path: &[u8], is_directory: bool) -> Option<bool> {
        for (above, level) in self.levels.iter().rev().enumerate() {
            let local = &level.rules[index];
            let here = path.get(level.base..).unwrap_or_default();
            let found = local.rules.iter().find_map(|rule| self.decision(rule, path, here, is_directory));
            if found.is_some() {
                return found;
            }
            if local.cleared || (self.merges[index].1.stays && above == 0) {
                return None;
            }
        }
        None
    }

    /// What one rule says of `path`, which is called `here` by the file that the rule stands in.
    fn decision(&self, rule: &Compiled, path: &[u8], here: &[u8], is_directory: bool) -> Option<bool> {
        let Compiled::Match { pattern, includes, negated, anchored, perishable } = rule else { return None };
        if self.going && *perishable {
            return None;
        }
        let matches = pattern.matches(if *anchored { here } else { path }, is_directory);
        (matches != *negated).then_some(*includes)
    }
}

/// What a list of names means: names beneath a source's root, as `--files-from` has them. `by_nul` if a NUL byte ends
/// each; then none is a comment.
pub fn listed_names(content: &[u8], by_nul: bool) -> Vec<Vec<u8>> {
    let lines: Box<dyn Iterator<Item = &[u8]>> = match by_nul {
        true => Box::new(content.split(|byte| *byte == 0).filter(|line| !line.is_empty())),
        false => Box::new(rule::lines(content, false, false)),
    };
    lines.map(clean).collect()
}

/// `name` without dots: what goes up beyond the root stays there.
fn clean(name: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in name.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join(&b'/')
}

/// The rules that `text` of an option `--exclude` or `--include` stands for, or of a file of them.
pub const fn prefixed(includes: bool) -> Merge {
    Merge { excludes_itself: false, stays: false, words: false, lines: Lines::Prefixed(includes) }
}

#[cfg(test)]
mod tests {
    use super::rule::{Line, read};
    use super::*;

    fn rules(texts: &[&str]) -> Vec<Rule> {
        let rule = |text: &&str| match read(text.as_bytes(), Lines::Rules) {
            Ok(Line::Rule(rule)) => rule,
            other => panic!("{text}: {other:?}"),
        };
        texts.iter().map(rule).collect()
    }

    #[test]
    fn the_first_rule_that_matches_decides_at_its_end() {
        let rules = rules(&["+ a", "- a", "-! */", "H d", "P e"]);
        let source = Filter::new(&rules, RuleSide::Source).expect("rules");
        assert!(source.takes(b"a", false) && source.takes(b"x", true) && !source.takes(b"x", false));
        assert!(!source.takes(b"d", true) && source.takes(b"e", true));
        let there = Filter::new(&rules, RuleSide::Destination).expect("rules");
        assert!(there.takes(b"d", true) && !there.takes(b"e", true));
        let above = Filter::new(&rules[3..], RuleSide::Source).expect("rules");
        assert!(above.takes(b"d/x", false) && !above.takes_all_of(b"d/x", false));
    }

    #[test]
    fn rules_of_a_directory_stand_where_its_file_is_named_and_the_innermost_come_first() {
        let mut filter =
            Filter::new(&rules(&["+ first", ":e .f", "- late"]), RuleSide::Source).expect("rules");
        assert!(!filter.takes(b".f", false), "it excludes itself");
        filter.enter(b"", |_| Ok(Some(b"- first\n- a\n- /top\n+ late\n".to_vec()))).expect("entered");
        assert!(filter.takes(b"first", false) && !filter.takes(b"a", false) && filter.takes(b"late", false));
        assert!(!filter.takes(b"top", false));
        filter.enter(b"b", |_| Ok(Some(b"+ a\n- /c\n".to_vec()))).expect("entered");
        assert!(filter.takes(b"b/a", false) && !filter.takes(b"b/c", false) && filter.takes(b"b/e/c", false));
        assert!(filter.takes(b"b/top", false) && filter.takes(b"b/late", false));
        filter.enter(b"b/d", |_| Ok(Some(b"!\n".to_vec()))).expect("entered");
        assert!(filter.takes(b"b/d/c", false) && !filter.takes(b"b/d/late", false));
        filter.leave();
        filter.leave();
        assert!(!filter.takes(b"a", false));
        let error = filter.enter(b"x", |_| Ok(Some(b"nonsense".to_vec()))).expect_err("no rule");
        assert!(error.message.starts_with("x/.f: "), "{error}");
        let mut alone = Filter::new(&rules(&[":n .f"]), RuleSide::Source).expect("rules");
        alone.enter(b"", |_| Ok(Some(b"- a".to_vec()))).expect("entered");
        assert!(!alone.takes(b"a", false));
        alone.enter(b"b", |_| Ok(None)).expect("entered");
        assert!(alone.takes(b"b/a", false), "it holds in its own directory alone");
    }

    #[test]
    fn names_of_a_list_stay_within_the_source() {
        let names = listed_names(b"a\r\n# no\n/b/\n../c\ne//f/./g\n..\n", false);
        assert_eq!(names, [&b"a"[..], b"b", b"c", b"e/f/g", b""].map(<[u8]>::to_vec));
        assert_eq!(listed_names(b"#a\nb\0c", true), [b"#a\nb".to_vec(), b"c".to_vec()]);
    }
}
