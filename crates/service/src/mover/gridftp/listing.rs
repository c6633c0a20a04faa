//! What `globus-url-copy` would move, as it writes it down with `-do`, and what a server lists of a directory.

use std::collections::HashSet;
use std::io::{self, BufRead};

/// The most files that are kept by name; further ones are only counted.
const MAX_NAMES: usize = 20;

/// Files and directories that would be moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    /// How many files.
    pub files: u64,
    /// Their sizes, as far as they are told.
    pub bytes: u64,
    /// The addresses of the first files at the source.
    pub names: Vec<String>,
    /// Every directory beneath the sources, as addresses at the source and at the destination.
    pub directories: Vec<(String, String)>,
    /// Directories at the source that hold a file or a directory.
    filled: HashSet<String>,
}

impl Listed {
    /// Reads lines such as `"ftp://a/x" "ftp://b/x" 0,-1 size=7;modify=…`, and with `#` before them those of directories.
    pub fn read(mut lines: impl BufRead) -> io::Result<Self> {
        let mut listed = Self::default();
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            listed.add(&String::from_utf8_lossy(&line));
            line.clear();
        }
        Ok(listed)
    }

    fn add(&mut self, line: &str) {
        let Some(entry) = Entry::of(line) else { return };
        if let Some((parent, _)) = entry.source.trim_end_matches('/').rsplit_once('/')
            && !self.filled.contains(parent)
        {
            self.filled.insert(parent.to_owned());
        }
        if entry.is_directory {
            self.directories.push((entry.source.to_owned(), entry.destination.to_owned()));
            return;
        }
        self.files += 1;
        self.bytes += entry.size.unwrap_or(0);
        if self.names.len() < MAX_NAMES {
            self.names.push(entry.source.to_owned());
        }
    }

    /// The directories that nothing lies in.
    pub fn empty(&self) -> impl Iterator<Item = &(String, String)> {
        self.directories.iter().filter(|(source, _)| !self.filled.contains(source.trim_end_matches('/')))
    }
}

/// A line of what is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Its address at the source.
    pub source: &'a str,
    /// Its address at the destination.
    pub destination: &'a str,
    /// Its size, if that is told.
    pub size: Option<u64>,
}

impl<'a> Entry<'a> {
    /// What a line tells; `None` of one that is no entry.
    pub fn of(line: &'a str) -> Option<Self> {
        let (is_directory, line) = match line.strip_prefix('#') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        // A name may hold a quote.
        let (source, rest) = line.strip_prefix('"')?.split_once("\" \"")?;
        let (destination, facts) = rest.rsplit_once('"')?;
        let size = facts.split([' ', ';']).find_map(|fact| fact.strip_prefix("size="));
        let size = size.and_then(|size| size.trim().parse().ok());
        Some(Self { is_directory, source, destination, size })
    }
}

/// The names of directories in what a server lists of a directory: one a line, with a slash at its end.
pub(crate) fn subdirectories(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = list.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"    "));
    lines.filter_map(|line| line.strip_suffix(b"/")).filter(|name| !matches!(*name, b"." | b".."))
}

/// The path in an address, without what it is escaped by and without slashes at its end.
pub(crate) fn path_of(address: &str) -> Vec<u8> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let escaped = rest.find('/').map_or("", |at| &rest[at..]).trim_end_matches('/').as_bytes();
    let mut path = Vec::with_capacity(escaped.len());
    let mut at = 0;
    while at < escaped.len() {
        let byte = escaped.get(at + 1..at + 3).filter(|_| escaped[at] == b'%');
        let byte = byte.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        path.push(byte.unwrap_or(escaped[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_and_empty_directories_found() {
        let text = concat!(
            "#\"ftp://a/t/empty/\" \"ftp://b/t/empty/\" 0,-1 modify=1;mode=0755;\n",
            "#\"ftp://a/t/in/\" \"ftp://b/t/in/\" 0,-1 modify=1;mode=0755;\n",
            "\"ftp://a/t/in/q\"x\" \"ftp://b/t/in/q\"x\" 0,-1 size=10;modify=1;mode=0644;cksm=ab;\n",
            "\"ftp://a/t/one\" \"ftp://b/t/one\"\n",
            "garbage\n\"ftp://a/half\n\n#\n",
        );
        let listed = Listed::read(text.as_bytes()).expect("read");
        assert_eq!((listed.files, listed.bytes, listed.directories.len()), (2, 10, 2));
        assert_eq!(listed.names, ["ftp://a/t/in/q\"x", "ftp://a/t/one"]);
        let empty: Vec<&str> = listed.empty().map(|(_, there)| &there[..]).collect();
        assert_eq!(empty, ["ftp://b/t/empty/"]);
    }

    #[test]
    fn directories_are_told_from_files() {
        let list = b"ftp://a/t/\n    one \n    in/\n    a b/\n    ./\n    \xff/\n\n";
        let names: Vec<&[u8]> = subdirectories(list).collect();
        assert_eq!(names, [&b"in"[..], b"a b", b"\xff"]);
        assert_eq!(path_of("ftp://h:1/a%20b/%ff%zz%2/"), b"/a b/\xff%zz%2");
        assert_eq!((path_of("ftp://h"), path_of("file:///%")), (Vec::new(), b"/%".to_vec()));
    }
}
