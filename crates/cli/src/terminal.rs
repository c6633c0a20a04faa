//! Everything that is printed goes through here: results on standard output, messages on standard
//! error, and the live view beneath the messages. A reader who has left (`tidegate … | head`) is no
//! error, and no secret of an address is ever printed on standard error.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use tidegate_contract::redact;
use tidegate_transfer::sys::sync::Mutex;

/// Shortest and longest line of the view.
const WIDTHS: std::ops::RangeInclusive<usize> = 20..=160;

/// The visible lengths of the view's lines that stand on the screen.
static VIEW: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Prints a result and a newline on standard output.
pub fn print(text: &str) -> io::Result<()> {
    clear();
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Prints a result for scripts: one JSON object and a newline.
pub fn print_json(value: &impl Serialize) -> io::Result<()> {
    print(&serde_json::to_string(value)?)
}

/// Prints a message for people on standard error, above the view.
pub fn tell(text: &str) {
    let mut bytes = redact::text(text).into_owned().into_bytes();
    bytes.push(b'\n');
    write_above(&bytes);
}

/// The same with the program's name in front.
pub fn complain(text: &str) {
    tell(&format!("tidegate: {text}"));
}

/// Whether a view can be shown: standard error is a terminal that can move its cursor.
pub fn can_show_view() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

/// Whether colours are welcome (<https://no-color.org>).
pub fn has_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Columns the view may use.
pub fn width() -> usize {
    // One is left free: some terminals wrap when the last one is filled.
    size().map_or(79, |(columns, _)| columns - 1).clamp(*WIDTHS.start(), *WIDTHS.end())
}

fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok()?;
    (size.ws_col > 1 && size.ws_row > 1).then(|| (size.ws_col.into(), size.ws_row.into()))
}

/// Puts `lines` on the screen in place of what was there, in one write so that nothing flickers.
pub fn draw(lines: &[String]) {
    let (width, rows) = (width(), size().map_or(24, |(_, rows)| rows));
    let mut shown = VIEW.lock();
    let mut text = rewind(&shown);
    shown.clear();
    // No wrapping, whatever the terminal makes of a wide character.
    text.push_str("\x1b[?7l");
    for line in lines.iter().take(rows.saturating_sub(1)) {
        let (line, length) = fit(line, width);
        text.push_str(&line);
        text.push_str("\x1b[K\r\n");
        shown.push(length);
    }
    text.push_str("\x1b[J\x1b[?7h");
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Takes the view off the screen.
pub fn clear() {
    write_above(b"");
}

fn write_above(bytes: &[u8]) {
    let mut shown = VIEW.lock();
    let mut all = rewind(&shown).into_bytes();
    if !shown.is_empty() {
        all.extend_from_slice(b"\x1b[J");
        shown.clear();
    }
    all.extend_from_slice(bytes);
    if !all.is_empty() {
        // Nobody is left to complain to.
        let _ = io::stderr().lock().write_all(&all);
    }
}

/// To the first line of a view with lines of these lengths; a narrower terminal has wrapped them.
fn rewind(shown: &[usize]) -> String {
    let columns = size().map_or(usize::MAX, |(columns, _)| columns);
    match shown.iter().map(|length| length.div_ceil(columns).max(1)).sum::<usize>() {
        0 => String::new(),
        rows => format!("\r\x1b[{rows}A"),
    }
}

/// Cuts `line` to `width` visible characters; colours take no room.
fn fit(line: &str, width: usize) -> (String, usize) {
    let mut kept = String::with_capacity(line.len());
    let (mut length, mut in_escape, mut coloured) = (0, false, false);
    for c in line.chars() {
        if c == '\x1b' || in_escape {
            in_escape = c != 'm';
            coloured = true;
            kept.push(c);
        } else if length < width {
            kept.push(c);
            length += 1;
        } else {
            kept.pop();
            kept.push('…');
            break;
        }
    }
    if coloured {
        kept.push_str("\x1b[0m");
    }
    (kept, length)
}

/// Standard error for logs: above the view, without secrets.
#[derive(Debug, Default)]
pub struct Log(Vec<u8>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let text = String::from_utf8_lossy(&self.0);
        write_above(redact::text(&text).as_bytes());
        self.0.clear();
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_by_what_is_visible() {
        assert_eq!(fit("abc", 3), ("abc".to_owned(), 3));
        assert_eq!(fit("abcd", 3), ("ab…".to_owned(), 3));
        assert_eq!(fit("\x1b[36mab\x1b[0mcd", 4).1, 4);
        assert_eq!(fit("\x1b[36mabcd", 2), ("\x1b[36ma…\x1b[0m".to_owned(), 2));
    }
}
