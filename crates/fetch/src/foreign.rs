//! What others wrote, fit to be shown: servers and lists choose the words of most errors.

pub(crate) use tidegate_contract::text::{cell, is_plain};

use tidegate_contract::text;
use tidegate_transfer::error::Error;

/// An error whose message may hold somebody else's words; the same error if there is nothing to escape.
pub fn error(mut error: Error) -> Error {
    error.message = text::foreign(&error.message);
    error
}

/// An I/O error once more: what the system said, without what others have put into it.
pub(crate) fn io_again(error: &std::io::Error) -> std::io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), std::io::Error::from_raw_os_error)
}

/// An I/O error without the system's number.
pub(crate) fn io_words(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
