//! LineReader of bounded length, numbered.

use std::io::{self, BufRead};

/// A line without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// From 1.
    pub number: u64,
    /// What it says; bytes that are no UTF-8 are replaced.
    pub text: String,
    /// Whether it was longer than allowed, and the rest of it left out.
    pub(crate) is_cut: bool,
}

/// Reads lines of any length in bounded memory.
pub(crate) struct LineReader<R> {
    file: R,
    longest: usize,
    number: u64,
}

impl<R: BufRead> LineReader<R> {
    /// LineReader of `file`, cut at `longest` bytes.
    pub fn new(file: R, longest: usize) -> Self {
        Self { file, longest, number: 0 }
    }

    /// The next line, until the end.
    pub fn next(&mut self) -> io::Result<Option<Line>> {
        let (mut bytes, mut is_cut, mut is_any) = (Vec::new(), false, false);
        loop {
            let piece = match self.file.fill_buf() {
                Ok(piece) => piece,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if piece.is_empty() {
                break;
            }
            is_any = true;
            let end = piece.iter().position(|&byte| byte == b'\n');
            let (text, used) = end.map_or((piece, piece.len()), |end| (&piece[..end], end + 1));
            let room = self.longest - bytes.len();
            is_cut |= text.len() > room;
            bytes.extend_from_slice(&text[..text.len().min(room)]);
            self.file.consume(used);
            if end.is_some() {
                break;
            }
        }
        if !is_any {
            return Ok(None);
        }
        self.number += 1;
        Ok(Some(Line { number: self.number, text: String::from_utf8_lossy(&bytes).into_owned(), is_cut }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_and_cut() {
        let mut lines = LineReader::new(&b"one\n\nthree is long\n\xffend"[..], 5);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().expect("memory") {
            seen.push((line.number, line.text, line.is_cut));
        }
        let expected = [(1, "one", false), (2, "", false), (3, "three", true), (4, "\u{fffd}end", false)];
        assert_eq!(seen, expected.map(|(number, text, cut)| (number, text.to_owned(), cut)));
    }
}
