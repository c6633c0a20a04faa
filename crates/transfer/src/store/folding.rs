//! Which names a file system takes for one: FAT, exFAT, shares of Windows, ext4 with casefold, HFS+ and ZFS do. It is asked,
//! by looking a name up in another spelling.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use unicode_normalization::UnicodeNormalization;

use crate::sys::confined::Root;
use crate::sys::fs::{Dir, Mode, OFlags};

/// What is made to find out: it has letters, one of them with an accent.
const PROBE: &str = "probe-\u{e9}";

/// Which spellings of a name are one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Folding {
    /// Capitals and small letters.
    case: bool,
    /// An accented letter, and a letter with an accent behind it (NFC and NFD of Unicode).
    form: bool,
    /// With and without dots or blanks at the end.
    end: bool,
    /// It writes down names in another case, or in another normal form, than they were given.
    changes_case: bool,
    changes_form: bool,
}

/// What all spellings of `path` have in common that some file system or server takes for one.
pub fn common_spelling(path: &[u8]) -> Vec<u8> {
    Folding { end: true, ..Folding::CASEFOLD }.key(path)
}

impl Folding {
    /// Capitals and small letters, in any normal form: what a directory says of itself that has ext4's casefold.
    pub(crate) const CASEFOLD: Self =
        Self { case: true, form: true, end: false, changes_case: false, changes_form: false };

    /// That of the file system of `work`, a directory of ours, in which a file is made and removed.
    pub fn probe(work: &Root) -> Self {
        let flags = OFlags::WRONLY | OFlags::CREATE;
        match work.open_beneath(PROBE.as_bytes(), flags, Mode::RUSR | Mode::WUSR) {
            Ok(_) => {
                let found = Self::of_name(work, PROBE, &|_| false).writing(work);
                let _ = work.remove(PROBE.as_bytes());
                found
            }
            // Names with accents are none there.
            Err(_) => Self::default(),
        }
    }

    /// That of `dir`, as far as the names in it show it; nothing is made.
    pub(crate) fn look_into(dir: &Root) -> Self {
        let names: Vec<Vec<u8>> = names(dir).collect();
        Self::look(dir, names.iter().map(Vec::as_slice))
    }

    /// That of `dir`, as far as the `names` in it show it; nothing is made.
    pub fn look<'n>(dir: &Root, names: impl Iterator<Item = &'n [u8]> + Clone) -> Self {
        let there: HashSet<&[u8]> = names.clone().collect();
        let is_there = |name: &str| there.contains(name.as_bytes());
        let mut texts = names.filter_map(|name| std::str::from_utf8(name).ok());
        let telling = |name: &&str| name.bytes().any(|byte| byte.is_ascii_alphabetic());
        let accented = texts.clone().find(|name| telling(name) && other_form(name).is_some());
        let name = accented.or_else(|| texts.find(telling));
        name.map_or_else(Self::default, |name| Self::of_name(dir, name, &is_there))
    }

    /// What shows whether `name` in `dir` is found in other spellings, which no other file has that `is_there`.
    fn of_name(dir: &Root, name: &str, is_there: &dyn Fn(&str) -> bool) -> Self {
        let found = |other: &str| other != name && !is_there(other) && dir.stat(other.as_bytes()).is_ok();
        let case = found(&other_case(name));
        Self {
            case,
            form: other_form(name).is_some_and(|other| found(&other)),
            end: found(&format!("{name}.")),
            changes_case: false,
            // Unless it is made, nobody knows how it would be written.
            changes_form: true,
        }
    }

    /// The same with what became of the name of the probe in `work`.
    fn writing(self, work: &Root) -> Self {
        let mut written = names(work);
        let form = |name: &[u8]| Self { form: true, ..Self::default() }.key(name);
        let changes_form = !written.any(|name| name == PROBE.as_bytes());
        let changes_case = changes_form && !names(work).any(|name| form(&name) == form(PROBE.as_bytes()));
        Self { changes_case, changes_form, ..self }
    }

    /// Whether any two spellings are one.
    pub fn is_any(self) -> bool {
        self.case || self.form || self.end
    }

    /// What spellings of `name` have in common that the file system writes down as one.
    fn written(self, name: &[u8]) -> Vec<u8> {
        Self { case: self.case && self.changes_case, form: self.form && self.changes_form, ..self }.key(name)
    }

    /// What all spellings of `path` have in common.
    pub fn key(self, path: &[u8]) -> Vec<u8> {
        let Ok(text) = std::str::from_utf8(path) else {
            return if self.case { path.to_ascii_lowercase() } else { path.to_vec() };
        };
        let mut text = Cow::Borrowed(text);
        if self.case {
            text = text.to_lowercase().into();
        }
        if self.form {
            text = text.nfc().collect::<String>().into();
        }
        if self.end {
            let names: Vec<&str> = text.split('/').map(|name| name.trim_end_matches(['.', ' '])).collect();
            text = names.join("/").into();
        }
        text.into_owned().into_bytes()
    }
}

/// The names in one directory, as they are written down.
#[derive(Debug)]
pub(crate) struct WrittenNames {
    folding: Folding,
    by_key: HashMap<Vec<u8>, Vec<Vec<u8>>>,
}

impl WrittenNames {
    /// These `names`, where they are folded so.
    pub fn new(folding: Folding, names: impl Iterator<Item = Vec<u8>>) -> Self {
        let mut by_key: HashMap<_, Vec<_>> = HashMap::new();
        for name in names {
            by_key.entry(folding.key(&name)).or_default().push(name);
        }
        Self { folding, by_key }
    }

    /// The name that `name` leads to, if it was written down in another spelling: it is another's.
    pub(crate) fn other_spelling(&self, name: &[u8]) -> Option<&[u8]> {
        let there = self.by_key.get(&self.folding.key(name))?;
        let ours = self.folding.written(name);
        let is_ours = there.iter().any(|there| self.folding.written(there) == ours);
        there.first().filter(|_| !is_ours).map(Vec::as_slice)
    }
}

/// The names in `dir`, as they are written down.
pub fn names(dir: &Root) -> impl Iterator<Item = Vec<u8>> {
    let entries = Dir::read_from(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_bytes().to_vec())
}

fn other_case(name: &str) -> String {
    let other = |letter: char| match letter.is_ascii_lowercase() {
        true => letter.to_ascii_uppercase(),
        false => letter.to_ascii_lowercase(),
    };
    name.chars().map(other).collect()
}

/// The name in another normal form, if it has one.
fn other_form(name: &str) -> Option<String> {
    let forms: [String; 2] = [name.nfd().collect(), name.nfc().collect()];
    forms.into_iter().find(|form| form != name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::confined::scratch;

    #[test]
    fn a_name_that_was_written_in_another_spelling_is_anothers() {
        let plain = Folding { case: true, form: true, end: true, ..Folding::default() };
        let other = |folding: Folding, there: &[&str], name: &str| {
            let names = there.iter().map(|name| name.as_bytes().to_vec());
            let names = WrittenNames::new(folding, names);
            names.other_spelling(name.as_bytes()).map(|name| String::from_utf8(name.to_vec()).expect("text"))
        };
        let there = ["a", "README", "e\u{301}"];
        assert_eq!(other(plain, &there, "readme").as_deref(), Some("README"));
        assert_eq!(other(plain, &there, "\u{e9}").as_deref(), Some("e\u{301}"));
        for ours in ["README", "README.", "a", "new"] {
            assert_eq!(other(plain, &there, ours), None, "{ours}");
        }
        // What writes each name so says nothing of whose it is.
        let composes = Folding { changes_form: true, ..plain };
        assert_eq!(other(composes, &there, "\u{e9}"), None);
        assert_eq!(other(composes, &there, "readme").as_deref(), Some("README"));
        assert_eq!(other(Folding { changes_case: true, ..composes }, &there, "readme"), None);
    }

    #[test]
    fn spellings_that_are_one_have_one_key_and_others_do_not() {
        let all = Folding { case: true, form: true, end: true, ..Folding::default() };
        for (one, other) in [
            ("README", "readme"),
            ("caf\u{e9}", "CAFE\u{301}"),
            ("a/b.", "A/B"),
            ("x", "x ."),
            ("a./b", "a/b"),
        ] {
            assert_eq!(all.key(one.as_bytes()), all.key(other.as_bytes()), "{one} and {other}");
            assert_ne!(Folding::default().key(one.as_bytes()), Folding::default().key(other.as_bytes()));
        }
        assert_eq!(all.key(b"\xffA"), all.key(b"\xffa"));
        for (one, other) in [("a", "b"), ("a/b", "ab"), (".a", "a")] {
            assert_ne!(all.key(one.as_bytes()), all.key(other.as_bytes()), "{one} and {other}");
        }
    }

    #[test]
    fn an_ordinary_file_system_keeps_names_apart_and_nothing_is_left_of_the_question() {
        let (directory, root) = scratch();
        assert!(!Folding::probe(&root).is_any());
        assert_eq!(std::fs::read_dir(directory.path()).expect("listed").count(), 0);
        // Both spellings are there, which says nothing.
        for name in ["a", "A", "caf\u{e9}"] {
            std::fs::write(directory.path().join(name), "").expect("written");
        }
        let names: [&[u8]; 3] = [b"a", b"A", "caf\u{e9}".as_bytes()];
        assert!(!Folding::look(&root, names.into_iter()).is_any());
        assert!(!Folding::look(&root, std::iter::empty()).is_any());
    }
}
