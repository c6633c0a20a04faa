//! Names and others' words as text for people: fit for a terminal and a log, and no longer than is useful.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A name as text that cannot upset a terminal or a log: control characters and invalid UTF-8 are
/// shown as `\x1b`.
pub fn show(name: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(name)
        && is_plain(text)
    {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    for piece in name.utf8_chunks() {
        piece.valid().chars().for_each(|c| push(&mut shown, c));
        push_bytes(&mut shown, piece.invalid());
    }
    Cow::Owned(shown)
}

/// `text` in one line: ends of lines and tabs become spaces, the rest is as [`show`] has it.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    text.chars()
        .for_each(|c| if matches!(c, '\t' | '\n' | '\r') { line.push(' ') } else { push(&mut line, c) });
    line
}

/// Whether `words` may be written as they are into a file that people look at.
pub fn is_plain(words: &str) -> bool {
    !words.chars().any(is_unprintable)
}

/// `words` for a cell of a table that people look at: a space in place of each character that they would not see.
pub fn cell(words: &str) -> Cow<'_, str> {
    if is_plain(words) {
        return Cow::Borrowed(words);
    }
    Cow::Owned(words.chars().map(|c| if is_unprintable(c) { ' ' } else { c }).collect())
}

/// Most bytes of a line, with the longest path in it that the kernel takes at once.
const MAX_LINE: usize = 5 << 10;

/// How much of a longer one is kept of its end, where the cause stands.
const TAIL: usize = 1 << 10;

/// `text` without its middle if it is long.
pub fn elided(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.len() <= MAX_LINE {
        return text;
    }
    let head = &text[..text.floor_char_boundary(MAX_LINE - TAIL - "…".len())];
    let tail = &text[text.ceil_char_boundary(text.len() - TAIL)..];
    Cow::Owned([head, "…", tail].concat())
}

/// A peer's words as [`show`] has them, without their middle if they are long.
pub fn foreign(text: &str) -> String {
    show(elided(text.into()).as_bytes()).into_owned()
}

/// Most bytes of a reason or a name that is kept or shown: ten lines of a terminal.
pub const MAX_SHOWN: usize = 1000;

/// The first [`MAX_SHOWN`] bytes of a text, and `…` in place of more.
pub fn shorten(mut text: String) -> String {
    if text.len() > MAX_SHOWN {
        text.truncate(text.floor_char_boundary(MAX_SHOWN));
        text.push('…');
    }
    text
}

/// A number of things: `1 stream`, `2 streams`.
pub fn count(number: impl Into<u64>, what: &str) -> String {
    let number = number.into();
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn push(shown: &mut String, c: char) {
    if is_unprintable(c) {
        push_bytes(shown, c.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        shown.push(c);
    }
}

fn push_bytes(shown: &mut String, bytes: &[u8]) {
    bytes.iter().for_each(|byte| write!(shown, "\\x{byte:02x}").expect("a String takes whatever is written"));
}

/// Control characters (C0, DEL, C1), line ends that are none, and all that is written without being seen (Unicode's
/// format characters), such as the marks that reverse the direction of writing.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}'
            | '\u{8e2}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_without_control_characters() {
        assert_eq!(show(b"plain"), "plain");
        assert_eq!(show("größe".as_bytes()), "größe");
        assert_eq!(show(b"a\nb\x1b[31m\xff"), "a\\x0ab\\x1b[31m\\xff");
    }

    #[test]
    fn nothing_is_shown_that_moves_a_cursor_or_is_not_seen() {
        let marks =
            ['\x07', '\x7f', '\u{80}', '\u{9b}', '\u{9f}', '\u{ad}', '\u{61c}', '\u{200b}', '\u{200e}'];
        let more =
            ['\u{2028}', '\u{2029}', '\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}', '\u{feff}', '\u{e0041}'];
        for mark in marks.into_iter().chain(more) {
            let shown = show(mark.encode_utf8(&mut [0; 4]).as_bytes()).into_owned();
            assert!(shown.starts_with("\\x") && shown.is_ascii(), "{:x}: {shown}", u32::from(mark));
            assert_eq!((one_line(&mark.to_string()), &*cell(&mark.to_string())), (shown, " "));
        }
    }

    #[test]
    fn a_line_has_no_ends_of_lines() {
        assert_eq!(one_line("a\tb\r\nc\x1b[2J\u{202e}größe"), "a b  c\\x1b[2J\\xe2\\x80\\xaegröße");
        for c in ('\0'..=char::MAX).filter(|c| !matches!(c, '\t' | '\n' | '\r')) {
            let text = c.to_string();
            assert_eq!(one_line(&text), show(text.as_bytes()), "{:x}", u32::from(c));
        }
    }

    #[test]
    fn a_peers_long_words_keep_their_beginning_and_their_cause() {
        assert_eq!(foreign("no\x1b[2J"), "no\\x1b[2J");
        let told = foreign(&format!("cannot write {}: no space left", "ü".repeat(1 << 20)));
        assert!(told.starts_with("cannot write ü") && told.ends_with("ü: no space left"), "{told}");
        assert!(told.len() < MAX_LINE + 10);
        assert_eq!(foreign(&told), told);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(shorten("a".repeat(MAX_SHOWN)), "a".repeat(MAX_SHOWN));
        assert_eq!(shorten(format!("a{}", "ü".repeat(600))), format!("a{}…", "ü".repeat(499)));
    }

    #[test]
    fn one_is_one() {
        assert_eq!(
            [count(0_u64, "job"), count(1_u16, "job"), count(2_u8, "job")],
            ["0 jobs", "1 job", "2 jobs"]
        );
    }
}
