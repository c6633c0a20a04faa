//! The lines of a list, each with a bound.

use std::io::{BufRead, Read};
use std::sync::Arc;

use tidegate_transfer::error::{Error, ErrorKind, Result};

use super::input::Position;

/// Longest line, and longest row, object or element of the other kinds.
pub(crate) const MAX_LINE: usize = 1 << 20;

/// Reads lines and counts them.
pub(crate) struct Lines<R> {
    reader: R,
    place: Position,
    over: bool,
}

impl<R: BufRead> Lines<R> {
    pub fn new(reader: R, list: Arc<str>) -> Self {
        Self { reader, place: Position { list, line: 0 }, over: false }
    }

    /// Where the line read last stands.
    pub fn place(&self) -> &Position {
        &self.place
    }

    /// The next line without its end. A line that is too long is an error, and what follows it is read on;
    /// after a failure to read there is nothing more.
    pub fn next(&mut self) -> Option<Result<Vec<u8>>> {
        if self.over {
            return None;
        }
        let mut line = Vec::new();
        self.place.line += 1;
        if let Err(error) = (&mut self.reader).take(MAX_LINE as u64).read_until(b'\n', &mut line) {
            return Some(Err(self.failed(&error)));
        }
        if line.is_empty() {
            self.over = true;
            return None;
        }
        if line.len() == MAX_LINE && line.last() != Some(&b'\n') {
            if let Err(error) = self.skip_line() {
                return Some(Err(self.failed(&error)));
            }
            return Some(Err(self.place.usage("the line is longer than 1 MiB")));
        }
        for end in [b'\n', b'\r'] {
            if line.last() == Some(&end) {
                line.pop();
            }
        }
        if self.place.line == 1 && line.starts_with("\u{feff}".as_bytes()) {
            line.drain(..3);
        }
        Some(Ok(line))
    }

    /// The next line as text.
    pub(crate) fn next_text(&mut self) -> Option<Result<String>> {
        Some(self.next()?.and_then(|line| {
            String::from_utf8(line).map_err(|_| self.place.usage("the line is not UTF-8 text"))
        }))
    }

    fn skip_line(&mut self) -> std::io::Result<()> {
        loop {
            let buffer = self.reader.fill_buf()?;
            let (length, found) = match buffer.iter().position(|&byte| byte == b'\n') {
                Some(end) => (end + 1, true),
                None => (buffer.len(), buffer.is_empty()),
            };
            self.reader.consume(length);
            if found {
                return Ok(());
            }
        }
    }

    fn failed(&mut self, error: &std::io::Error) -> Error {
        self.over = true;
        Error::new(ErrorKind::Io, format!("{}: the list cannot be read on: {error}", self.place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_and_bounded() {
        let text = [&b"\xef\xbb\xbfone\r\n"[..], &vec![b'x'; 3 << 20], b"\nthree\n\xff\nlast"].concat();
        let mut lines = Lines::new(&text[..], "list".into());
        assert_eq!(lines.next_text().expect("there").as_deref(), Ok("one"));
        let error = lines.next().expect("there").expect_err("too long");
        assert_eq!(error.message, "list:2: the line is longer than 1 MiB");
        assert_eq!(lines.next_text().expect("there").as_deref(), Ok("three"));
        assert_eq!(
            lines.next_text().expect("there").expect_err("bad").message,
            "list:4: the line is not UTF-8 text"
        );
        assert_eq!(lines.next().expect("there").expect("fine"), b"last");
        assert!(lines.next().is_none() && lines.next().is_none());
    }
}
