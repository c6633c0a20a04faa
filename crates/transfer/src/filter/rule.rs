//! The language of rules: what one line or one option says, as rsync reads it.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::text::show;

/// One rule, as it travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// What becomes of what it matches.
    pub action: Action,
    /// The pattern as written; of a file of rules, its name.
    pub pattern: Vec<u8>,
    /// At which end it holds.
    pub side: RuleSide,
    /// Whether it matches what the pattern does not.
    pub negated: bool,
    /// Whether it is void in a directory that is being deleted.
    pub perishable: bool,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// What matches is left out at the source, and left alone at the destination.
    Exclude,
    /// What matches is taken, whatever later rules say.
    Include,
    /// Each directory may hold a file of that name, whose rules stand here for it and all beneath it.
    Merge(Merge),
}

/// At which end a rule holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RuleSide {
    /// At both.
    #[default]
    Both,
    /// Where files are listed.
    Source,
    /// Where files are deleted.
    Destination,
}

/// How a file of rules is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merge {
    /// Whether the file itself is excluded (`e`).
    pub excludes_itself: bool,
    /// Whether its rules hold in its own directory alone (`n`).
    pub stays: bool,
    /// Whether every word is a rule, and not every line (`w`).
    pub words: bool,
    /// What its lines are.
    pub lines: Lines,
}

/// What each line, or word, of a file of rules is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lines {
    /// A rule.
    #[default]
    Rules,
    /// A pattern to include (`+`), or else to exclude (`-`).
    Patterns(bool),
    /// A pattern that `+ ` or `- ` may stand before, as in `--exclude-from`; the bare ones include or not.
    Prefixed(bool),
}

/// What one line turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A rule.
    Rule(Rule),
    /// All rules before it are void.
    Clear,
    /// The rules of a file that is read now stand here.
    File(Vec<u8>, Merge, Rule),
}

/// Longest pattern, as long as the longest path.
const MAX_PATTERN: usize = 4096;

/// A rule without a pattern, which others are made from.
pub fn blank(action: Action) -> Rule {
    Rule { action, pattern: Vec::new(), side: RuleSide::Both, negated: false, perishable: false }
}

impl Rule {
    /// The rule in the language, as it can be read again.
    ///
    /// ```
    /// # use tidegate_transfer::filter::rule::{Line, Lines, read};
    /// let Ok(Line::Rule(rule)) = read(b"hide,p *.tmp", Lines::Rules) else { panic!() };
    /// assert_eq!(rule.text(), b"-sp *.tmp");
    /// ```
    pub fn text(&self) -> Vec<u8> {
        let (letter, merge) = match self.action {
            Action::Exclude => (b'-', Merge::default()),
            Action::Include => (b'+', Merge::default()),
            Action::Merge(merge) => (b':', merge),
        };
        let lines = match merge.lines {
            Lines::Rules => None,
            Lines::Patterns(includes) | Lines::Prefixed(includes) => Some(if includes { b'+' } else { b'-' }),
        };
        let modifiers = [
            self.negated.then_some(b'!'),
            (self.side == RuleSide::Source).then_some(b's'),
            (self.side == RuleSide::Destination).then_some(b'r'),
            self.perishable.then_some(b'p'),
            merge.excludes_itself.then_some(b'e'),
            merge.stays.then_some(b'n'),
            merge.words.then_some(b'w'),
            lines,
        ];
        let prefix = [Some(letter)].into_iter().chain(modifiers).flatten();
        prefix.chain([b' ']).chain(self.pattern.iter().copied()).collect()
    }
}

fn wrong(text: &[u8], why: &str) -> Error {
    Error::new(ErrorKind::Usage, format!("the filter rule '{}' is none: {why}", show(text)))
}

/// Reads `text` as `lines` say.
pub fn read(text: &[u8], lines: Lines) -> Result<Line> {
    let include = |include| blank(if include { Action::Include } else { Action::Exclude });
    match lines {
        Lines::Rules => read_rule(text),
        Lines::Patterns(includes) => finish(text, text, include(includes)),
        Lines::Prefixed(includes) => match text {
            b"!" => Ok(Line::Clear),
            [b'+', b' ', rest @ ..] => finish(text, rest, include(true)),
            [b'-', b' ', rest @ ..] => finish(text, rest, include(false)),
            rest => finish(text, rest, include(includes)),
        },
    }
}

/// A rule with its prefix: a letter or a word, modifiers, one space or `_`, and the pattern.
fn read_rule(text: &[u8]) -> Result<Line> {
    const WORDS: [(&[u8], u8); 9] = [
        (b"exclude", b'-'),
        (b"include", b'+'),
        (b"hide", b'H'),
        (b"show", b'S'),
        (b"protect", b'P'),
        (b"risk", b'R'),
        (b"merge", b'.'),
        (b"dir-merge", b':'),
        (b"clear", b'!'),
    ];
    let word = WORDS.iter().find_map(|(word, letter)| {
        let rest = text.strip_prefix(*word)?;
        matches!(rest.first(), None | Some(b' ' | b'_' | b',')).then_some((*letter, rest))
    });
    let (letter, rest) = match (word, text) {
        (Some(found), _) => found,
        (None, [letter, rest @ ..]) if b"-+HSPR.:!".contains(letter) => (*letter, rest),
        _ => return Err(wrong(text, "it begins with none of + - P R H S ! . : and no word for one")),
    };
    let rest = rest.strip_prefix(b",").unwrap_or(rest);
    let end = rest.iter().position(|byte| matches!(byte, b' ' | b'_')).unwrap_or(rest.len());
    let (modifiers, pattern) = (&rest[..end], rest.get(end + 1..).unwrap_or_default());
    let is_merge = matches!(letter, b'.' | b':');
    let mut rule =
        blank(if matches!(letter, b'+' | b'S' | b'R') { Action::Include } else { Action::Exclude });
    rule.side = match letter {
        b'H' | b'S' => RuleSide::Source,
        b'P' | b'R' => RuleSide::Destination,
        _ => RuleSide::Both,
    };
    let (mut merge, named_side) = (Merge::default(), rule.side != RuleSide::Both);
    let mut sides = (false, false);
    for modifier in modifiers {
        match modifier {
            b'/' | b'C' | b'x' => {
                let why = format!("the modifier {} is not supported", char::from(*modifier));
                return Err(wrong(text, &why));
            }
            b'!' if !is_merge && letter != b'!' => rule.negated = true,
            b'p' if letter != b'!' => rule.perishable = true,
            b's' if !named_side && letter != b'!' => sides.0 = true,
            b'r' if !named_side && letter != b'!' => sides.1 = true,
            b'e' if is_merge => merge.excludes_itself = true,
            b'n' if is_merge => merge.stays = true,
            b'w' if is_merge => merge.words = true,
            b'-' if is_merge && merge.lines == Lines::Rules => merge.lines = Lines::Patterns(false),
            b'+' if is_merge && merge.lines == Lines::Rules => merge.lines = Lines::Patterns(true),
            other => {
                let why = format!("{} is no modifier of it", show(&[*other]));
                return Err(wrong(text, &why));
            }
        }
    }
    match sides {
        (true, false) => rule.side = RuleSide::Source,
        (false, true) => rule.side = RuleSide::Destination,
        _ => {}
    }
    match letter {
        b'!' if pattern.is_empty() && modifiers.is_empty() && rest.is_empty() => Ok(Line::Clear),
        b'!' => Err(wrong(text, "nothing may follow '!'")),
        b'.' if pattern.is_empty() => Err(wrong(text, "it names no file")),
        b'.' => Ok(Line::File(pattern.to_vec(), merge, rule)),
        b':' => {
            if pattern.contains(&b'/') {
                return Err(wrong(
                    text,
                    "a file of rules in each directory is called by a name without a slash",
                ));
            }
            rule.action = Action::Merge(merge);
            finish(text, pattern, rule)
        }
        _ => finish(text, pattern, rule),
    }
}

fn finish(text: &[u8], pattern: &[u8], mut rule: Rule) -> Result<Line> {
    if pattern.is_empty() {
        return Err(wrong(text, "it has no pattern"));
    }
    if pattern.len() > MAX_PATTERN || pattern.contains(&0) {
        return Err(wrong(&text[..text.len().min(40)], "no path is that long, or has a NUL byte in it"));
    }
    rule.pattern = pattern.to_vec();
    Ok(Line::Rule(rule))
}

/// The lines, or words, of a file of rules; `by_nul` if a NUL byte ends each, and no line's end does.
pub(crate) fn lines(content: &[u8], words: bool, by_nul: bool) -> impl Iterator<Item = &[u8]> {
    let ends = move |byte: &u8| match (words, by_nul) {
        (true, _) => byte.is_ascii_whitespace() || *byte == 0x0b || (by_nul && *byte == 0),
        (false, true) => *byte == 0,
        (false, false) => matches!(byte, b'\n' | b'\r'),
    };
    let is_comment = move |line: &[u8]| !words && matches!(line.first(), Some(b'#' | b';'));
    content.split(ends).filter(move |line| !line.is_empty() && !is_comment(line))
}

/// What adds the rules of the file of that name to others.
pub(crate) type AddFile<'f> = dyn FnMut(&[u8], Merge, &Rule, &mut Vec<Rule>) -> Result<()> + 'f;

/// Adds what the lines of a file of rules say to the `rules` before them, all as `of` says; answers whether a `!` has
/// voided those. `add_file` brings what stands in another file that they name.
pub fn read_file(
    content: &[u8],
    (merge, by_nul): (Merge, bool),
    of: &Rule,
    add_file: &mut AddFile<'_>,
    rules: &mut Vec<Rule>,
) -> Result<bool> {
    let mut cleared = false;
    for line in lines(content, merge.words, by_nul) {
        match read(line, merge.lines)? {
            Line::Clear => {
                rules.clear();
                cleared = true;
            }
            Line::Rule(rule) => rules.push(within(rule, of, line)?),
            Line::File(name, merge, rule) => {
                let rule = within(rule, of, line)?;
                if merge.excludes_itself {
                    rules.push(itself(&name, &rule));
                }
                add_file(&name, merge, &rule, rules)?;
            }
        }
    }
    Ok(cleared)
}

/// What excludes a file of rules called `name`.
pub fn itself(name: &[u8], rule: &Rule) -> Rule {
    let name = crate::path::split(name).1.to_vec();
    Rule { action: Action::Exclude, pattern: name, negated: false, perishable: false, side: rule.side }
}

/// `rule`, with what the file it stands in says of all its rules.
fn within(rule: Rule, of: &Rule, line: &[u8]) -> Result<Rule> {
    let side = match (of.side, rule.side) {
        (RuleSide::Both, side) | (side, RuleSide::Both) => side,
        _ => return Err(wrong(line, "its file is of one side already")),
    };
    Ok(Rule { side, perishable: rule.perishable || of.perishable, ..rule })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        match read(text.as_bytes(), Lines::Rules) {
            Ok(Line::Rule(rule)) => rule,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_rule_is_read_in_all_its_spellings() {
        for (texts, action, side) in [
            (["- a", "exclude a", "-_a"], Action::Exclude, RuleSide::Both),
            (["+ a", "include a", "include_a"], Action::Include, RuleSide::Both),
            (["H a", "hide a", "-s a"], Action::Exclude, RuleSide::Source),
            (["S a", "show a", "+,s a"], Action::Include, RuleSide::Source),
            (["P a", "protect a", "exclude,r a"], Action::Exclude, RuleSide::Destination),
            (["R a", "risk a", "+r a"], Action::Include, RuleSide::Destination),
        ] {
            for text in texts {
                let wanted = Rule { pattern: b"a".to_vec(), side, ..blank(action) };
                assert_eq!(rule(text), wanted, "{text}");
            }
        }
        assert_eq!(rule("-  a").pattern, b" a");
        assert!(rule("-!p */").negated && rule("-!p */").perishable);
        let merge = Merge { excludes_itself: true, lines: Lines::Patterns(false), ..Merge::default() };
        assert_eq!(rule(":e- .f").action, Action::Merge(merge));
        assert_eq!(read(b"!", Lines::Rules), Ok(Line::Clear));
        assert_eq!(read(b"clear", Lines::Rules), Ok(Line::Clear));
        assert_eq!(read(b"!", Lines::Prefixed(false)), Ok(Line::Clear));
        assert_eq!(read(b"!a", Lines::Prefixed(false)), read(b"- !a", Lines::Rules));
        assert_eq!(read(b"- a", Lines::Prefixed(true)), read(b"- a", Lines::Rules));
    }

    #[test]
    fn a_rule_is_written_as_it_is_read() {
        for text in
            ["- a", "+! */", "H d", "P  e", "Rp x_y", "-s -", "+r #", ":enw- .f", ":+sp f", ": - g", "-_ "]
        {
            let read = rule(text);
            assert_eq!(rule(std::str::from_utf8(&read.text()).expect("text")), read, "{text}");
        }
    }

    #[test]
    fn what_is_no_rule_or_not_supported_is_refused_in_one_line() {
        for text in [
            "", "a", "# c", "-a", "- ", "+", "-", "-/ a", "-x a", "-C", ":C", "! x", "!x", ". ", ":",
            ": a/b", "-e a", "Hs a", ".! a", ":-+ a", "-n a",
        ] {
            let error = read(text.as_bytes(), Lines::Rules).expect_err(text);
            assert!(error.kind == ErrorKind::Usage && !error.message.contains('\n'), "{error}");
        }
        assert!(read(b"", Lines::Prefixed(false)).is_err() && read(b"- ", Lines::Prefixed(false)).is_err());
    }

    #[test]
    fn a_file_of_rules_is_read_by_line_by_word_or_by_nul() {
        let read = |content: &[u8], merge: Merge, by_nul| {
            let mut rules = vec![rule("- before")];
            let of = blank(Action::Exclude);
            let mut none = |_: &[u8], _: Merge, _: &Rule, _: &mut Vec<Rule>| Ok(());
            let cleared = read_file(content, (merge, by_nul), &of, &mut none, &mut rules).expect("rules");
            let shown = rules.iter().map(|rule| {
                let sign = if rule.action == Action::Include { "+" } else { "-" };
                format!("{sign}{}", String::from_utf8_lossy(&rule.pattern))
            });
            (shown.collect::<Vec<_>>().join(" "), cleared)
        };
        let prefixed = Merge { lines: Lines::Prefixed(false), ..Merge::default() };
        assert_eq!(read(b"a\r\n#c\n;d\n+ b\n\nd \n", prefixed, false), ("-before -a +b -d ".into(), false));
        assert_eq!(read(b"a\nb\0#c\0c\0", prefixed, true), ("-before -a\nb -c".into(), false));
        assert_eq!(read(b"- a\n!\n- b", Merge::default(), false), ("-b".into(), true));
        let words = Merge { words: true, ..Merge::default() };
        assert_eq!(read(b"-_a +_b\n-_#c", words, false), ("-before -a +b -#c".into(), false));
        let plain = Merge { words: true, lines: Lines::Patterns(false), ..Merge::default() };
        assert_eq!(read(b"a + - b", plain, false), ("-before -a -+ -- -b".into(), false));
    }
}
