//! Checksum files as `md5sum`, `sha256sum`, `b3sum` and their BSD fellows print them; the files lie beneath
//! a base URL.

use std::collections::VecDeque;
use std::io::BufRead;

use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::path::RelPath;
use tidegate_transfer::text::show;
use url::Url;

use super::input::{Input, ListParser, Reader};
use super::lines::Lines;
use super::name;
use crate::checksum::{Algorithm, Checksums};
use crate::record::{Named, Record};

pub(crate) struct Sums<R = Reader> {
    lines: Lines<R>,
    base: Url,
    algorithm: Option<Algorithm>,
}

impl Sums {
    pub fn new(input: Input, base: Option<Url>) -> Result<Self> {
        let base = base.ok_or_else(|| {
            let why = "is a checksum file: say beneath which URL its files lie, with --base-url";
            Error::new(ErrorKind::Usage, format!("{} {why}", input.list))
        })?;
        let algorithm = hinted(&input.list);
        Ok(Self { lines: Lines::new(input.reader, input.list), base, algorithm })
    }
}

/// The algorithm that a list's name speaks of, where the length of a sum fits several.
fn hinted(list: &str) -> Option<Algorithm> {
    let name = list.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    (name.contains("blake3") || name.contains("b3sum") || name.ends_with(".b3")).then_some(Algorithm::Blake3)
}

impl<R: BufRead> ListParser for Sums<R> {
    fn fill(&mut self, named: &mut VecDeque<Named>) -> bool {
        let Some(line) = self.lines.next() else { return false };
        let place = self.lines.place();
        let line = match line {
            Ok(line) => line,
            Err(error) => {
                named.push_back(Named::problem(&place.to_string(), error));
                return true;
            }
        };
        if line.iter().all(u8::is_ascii_whitespace) || line.first() == Some(&b'#') {
            return true;
        }
        named.push_back(match parse(&line, self.algorithm).and_then(|sum| record(&sum, &self.base)) {
            Ok(record) => Named::Record(Box::new(record)),
            Err(error) => place.problem(&show(&line[..line.len().min(200)]), error),
        });
        true
    }
}

/// One line of a checksum file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    pub algorithm: Algorithm,
    pub hex: String,
    pub name: Vec<u8>,
}

fn record(sum: &Sum, base: &Url) -> Result<Record> {
    let path = RelPath::new(plain(&sum.name))?;
    let mut checksums = Checksums::none();
    checksums.add_hex(sum.algorithm, &sum.hex)?;
    Ok(Record { checksums, ..Record::new(name::beneath(base, &path)?, path) })
}

/// A name as `find . -type f | xargs md5sum` writes it, without what says "here".
pub(crate) fn plain(name: &[u8]) -> &[u8] {
    name.strip_prefix(b"./").unwrap_or(name)
}

/// Reads `HEX  name`, `HEX *name`, `\HEX  escaped\nname` or `MD5 (name) = HEX`.
pub(crate) fn parse(line: &[u8], hint: Option<Algorithm>) -> Result<Sum> {
    let refuse = |why: &str| Error::new(ErrorKind::Usage, why.to_owned());
    let (escaped, line) = match line.strip_prefix(b"\\") {
        Some(line) => (true, line),
        None => (false, line),
    };
    let unescaped = |name: &[u8]| if escaped { unescape(name) } else { Some(name.to_vec()) };
    let bad_escape = || refuse("a backslash in the name stands before something it cannot stand before");
    if let Some((algorithm, name, hex)) = bsd(line) {
        let algorithm = algorithm.parse()?;
        return Ok(Sum { algorithm, hex, name: unescaped(name).ok_or_else(bad_escape)? });
    }
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let (hex, rest) = line.split_at(end);
    // One space and a mark: another space for text, '*' for binary. Some tools write one space or a tab.
    let name = match rest {
        [b' ', b' ' | b'*', name @ ..] | [b' ' | b'\t', name @ ..] if !name.is_empty() => name,
        _ => return Err(refuse("neither 'CHECKSUM  name' nor 'MD5 (name) = CHECKSUM'")),
    };
    let algorithm = match hint {
        Some(hint) if 2 * hint.length() == end => hint,
        _ => [Algorithm::Md5, Algorithm::Sha1, Algorithm::Sha256, Algorithm::Sha512]
            .into_iter()
            .find(|algorithm| 2 * algorithm.length() == end)
            .ok_or_else(|| refuse("the checksum's length is none of md5, sha1, sha256 or sha512"))?,
    };
    let hex = String::from_utf8_lossy(hex).into_owned();
    Ok(Sum { algorithm, hex, name: unescaped(name).ok_or_else(bad_escape)? })
}

/// `ALGORITHM (name) = HEX`.
fn bsd(line: &[u8]) -> Option<(&str, &[u8], String)> {
    let open = line.windows(2).position(|pair| pair == b" (")?;
    let algorithm = std::str::from_utf8(&line[..open]).ok()?;
    if algorithm.is_empty() || !algorithm.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return None;
    }
    let close = line.windows(4).rposition(|four| four == b") = ").filter(|close| *close >= open + 2)?;
    let hex = std::str::from_utf8(&line[close + 4..]).ok()?.trim();
    Some((algorithm, &line[open + 2..close], hex.to_owned()))
}

/// Undoes what `md5sum` does to a name with a line end or a backslash.
fn unescape(name: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(name.len());
    let mut bytes = name.iter();
    while let Some(&byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b'\\' => b'\\',
                _ => return None,
            },
            other => other,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";

    #[test]
    fn every_form_of_a_line_is_read() {
        let sha256 = "e".repeat(64);
        for (line, algorithm, name) in [
            (format!("{MD5}  a b"), Algorithm::Md5, "a b"),
            (format!("{MD5} *a"), Algorithm::Md5, "a"),
            (format!("{MD5} a"), Algorithm::Md5, "a"),
            (format!("{MD5}\ta"), Algorithm::Md5, "a"),
            (format!("{MD5}   a"), Algorithm::Md5, " a"),
            (format!("\\{MD5}  a\\nb\\\\c"), Algorithm::Md5, "a\nb\\c"),
            (format!("{sha256}  x"), Algorithm::Sha256, "x"),
            (format!("MD5 (a (b) = c) = {MD5}"), Algorithm::Md5, "a (b) = c"),
            (format!("SHA256 (x) = {sha256}"), Algorithm::Sha256, "x"),
            (format!("BLAKE3 (x) = {sha256}"), Algorithm::Blake3, "x"),
        ] {
            let sum = parse(line.as_bytes(), None).expect(&line);
            assert_eq!((sum.algorithm, &sum.name[..]), (algorithm, name.as_bytes()), "{line}");
        }
        let hinted = parse(format!("{sha256}  x").as_bytes(), hinted("a/data.b3")).expect("fine");
        assert_eq!(hinted.algorithm, Algorithm::Blake3);
        for bad in [MD5, "", "x", "SHA224 (x) = 00", "\\d41d8cd98f00b204e9800998ecf8427e  a\\t", "ab  x"] {
            assert!(parse(bad.as_bytes(), None).is_err(), "{bad}");
        }
    }
}
