//! `failed.txt`: what was not got, as a list to be given to `get` again, with the reasons as comments.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::text::foreign;

use super::spool::Spool;
use crate::archive::Accession;
use crate::foreign::is_plain;
use crate::list::{entry, url};
use crate::record::Record;

const HEAD: &str = "# What was not got; `tidegate get failed.txt` tries it again.";

/// Longest file of an earlier run that is taken in.
const MAX_EARLIER: u64 = 64 << 20;

/// What failed, by what is to be given again.
#[derive(Debug)]
pub(crate) struct FailureList {
    /// Of an earlier run, and not met by this one.
    earlier: BTreeMap<String, String>,
    /// By half of the key's hash: all of a long list may fail.
    now: Spool<[u8; 16]>,
    /// Accessions that earlier entries name, and that led to files now.
    led: BTreeSet<String>,
    foreign: bool,
}

impl FailureList {
    /// Begins with what stands in the file of that name in `directory`, if it is ours.
    pub fn new(directory: &Path) -> Result<Self> {
        let (earlier, led) = (BTreeMap::new(), BTreeSet::new());
        let mut this = Self { earlier, now: Spool::new(directory)?, led, foreign: false };
        if let Ok(file) = File::open(directory.join(super::FAILED)) {
            this.foreign = !this.take_in(BufReader::new(file.take(MAX_EARLIER)));
        }
        Ok(this)
    }

    /// Reads what an earlier run wrote; `false` if none of ours did. What cannot be given again is left out.
    fn take_in(&mut self, file: impl BufRead) -> bool {
        let mut lines = file.lines();
        if !matches!(lines.next(), Some(Ok(line)) if line == HEAD) {
            return false;
        }
        let (mut key, mut text) = (String::new(), String::new());
        for line in lines.map_while(io::Result::ok) {
            let is_more = line.starts_with([' ', '\t']);
            if !key.is_empty() && !is_more {
                self.keep(std::mem::take(&mut key), std::mem::take(&mut text));
            }
            if line.is_empty() {
                text.clear();
                continue;
            }
            if !line.starts_with('#') && !is_more {
                key = key_of(&line);
            }
            text.push_str(&line);
            text.push('\n');
        }
        if !key.is_empty() {
            self.keep(key, text);
        }
        true
    }

    fn keep(&mut self, key: String, text: String) {
        if is_name(&key) {
            self.earlier.insert(key, text);
        }
    }

    pub fn is_ours(&self) -> bool {
        !self.foreign
    }

    pub fn is_empty(&self) -> bool {
        self.earlier.is_empty() && self.now.is_empty()
    }

    /// The file of `record` is there: whatever was said of it earlier is over.
    pub fn forget(&mut self, record: &Record) {
        if self.earlier.is_empty() {
            return;
        }
        if let Some(group) = &record.group {
            self.earlier.remove(&group[..]);
        }
        if let Some(accession) = record.meta.get("accession").filter(|name| self.earlier.contains_key(*name))
        {
            self.led.insert(accession.clone());
        }
        for url in &record.urls {
            self.earlier.remove(url.as_str());
        }
    }

    /// All that was named has been asked for, and what did not come of it has an entry of its own.
    pub fn conclude(&mut self) {
        for accession in std::mem::take(&mut self.led) {
            self.earlier.remove(&accession);
        }
    }

    /// Takes in what was not got; not what makes no sense, which is told and not tried again.
    pub fn add(&mut self, named: &str, record: Option<&Record>, error: &Error) -> Result<()> {
        let why = comment(&error.message);
        let text = match record {
            Some(Record { group: Some(group), .. }) if is_name(group) => format!("{group}\n"),
            Some(record) => entry(record),
            None if is_name(named) => format!("{named}\n"),
            None if error.kind == ErrorKind::Usage => return Ok(()),
            // The empty line ends what belongs together.
            None => format!("{}\n", comment(named)),
        };
        let first = text.lines().next().unwrap_or_default();
        let key = key_of(first);
        self.earlier.remove(&key);
        let half = *blake3::hash(key.as_bytes()).as_bytes().first_chunk().expect("a hash has 32 bytes");
        // Another file of the same run adds its reason.
        let known = self.now.get(&half)?.unwrap_or_default();
        let known = String::from_utf8_lossy(&known);
        let reasons = known.lines().filter(|line| line.starts_with('#') && *line != first);
        let reasons: String = reasons.map(|line| format!("{line}\n")).collect();
        self.now.put(half, format!("{reasons}{why}{text}").as_bytes())
    }

    pub fn write(&mut self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{HEAD}")?;
        self.earlier.values().try_for_each(|text| out.write_all(text.as_bytes()))?;
        let mut now = self.now.in_order().map_err(|error| io::Error::other(error.message))?;
        now.try_for_each(|text| out.write_all(&text?))
    }
}

/// What an entry is known by: its first URL, or its accession.
fn key_of(line: &str) -> String {
    line.split('\t').next().unwrap_or_default().trim().to_owned()
}

fn comment(words: &str) -> String {
    format!("# {}\n", foreign(&words.replace(['\n', '\r'], " ")))
}

/// Whether a name can be given again: an accession, or a URL in one line that people see as it is. No file of this
/// machine, which a list from a pipe may not name, while this one is read from a file.
fn is_name(named: &str) -> bool {
    is_plain(named)
        && (named.parse::<Accession>().is_ok() || url(named).is_ok_and(|url| url.scheme() != "file"))
}
