//! What others wrote, fit to be shown: servers and lists choose the words of most errors.

use std::borrow::Cow;

use tidegate_transfer::error::Error;
use tidegate_transfer::text;

/// An error whose message may hold somebody else's words; the same error if there is nothing to escape.
pub fn error(mut error: Error) -> Error {
    error.message = text::foreign(&error.message);
    error
}

/// Whether `words` may be written as they are into a file that people look at.
pub fn is_plain(words: &str) -> bool {
    matches!(text::show(words.as_bytes()), Cow::Borrowed(_))
}

/// `words` for a cell of a table that people look at: a space in place of each character that they would not see.
pub fn cell(words: &str) -> Cow<'_, str> {
    if is_plain(words) {
        return Cow::Borrowed(words);
    }
    let shown = |c: char| if is_plain(c.encode_utf8(&mut [0; 4])) { c } else { ' ' };
    Cow::Owned(words.chars().map(shown).collect())
}

/// An I/O error without the system's number.
pub fn io_words(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
