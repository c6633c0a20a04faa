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

/// Control characters, and the marks that reverse the direction of writing.
fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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
}
