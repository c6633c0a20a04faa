//! Names as text for people.

use std::borrow::Cow;

/// A name as text that cannot upset a terminal or a log: control characters and invalid UTF-8 are
/// shown as `\x1b`.
pub fn show(name: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(name)
        && !text.chars().any(is_unprintable)
    {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    for piece in name.utf8_chunks() {
        for c in piece.valid().chars() {
            if is_unprintable(c) {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    shown.push_str(&format!("\\x{byte:02x}"));
                }
            } else {
                shown.push(c);
            }
        }
        for byte in piece.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    Cow::Owned(shown)
}

/// Most bytes of a text that a peer made up: a line, and the longest path in it.
const MOST: usize = 5 << 10;

/// How much of a longer one is kept of its end, where the cause stands.
const TAIL: usize = 1 << 10;

/// A peer's words as [`show`] has them, without their middle if they are long.
pub fn foreign(text: &str) -> String {
    let whole = text.len() <= MOST;
    let (head, tail) = match whole {
        true => (text, ""),
        false => (
            &text[..text.floor_char_boundary(MOST - TAIL - "…".len())],
            &text[text.ceil_char_boundary(text.len() - TAIL)..],
        ),
    };
    let gap = if whole { "" } else { "…" };
    [&show(head.as_bytes()), gap, &show(tail.as_bytes())].concat()
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
        }
    }

    #[test]
    fn a_peers_long_words_keep_their_beginning_and_their_cause() {
        assert_eq!(foreign("no\x1b[2J"), "no\\x1b[2J");
        let told = foreign(&format!("cannot write {}: no space left", "ü".repeat(1 << 20)));
        assert!(told.starts_with("cannot write ü") && told.ends_with("ü: no space left"), "{told}");
        assert!(told.len() < MOST + 10);
        assert_eq!(foreign(&told), told);
    }
}
