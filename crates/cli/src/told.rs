//! Lines for people from threads that do not know who has the command run.

use tracing::Level;

use crate::terminal;

/// Marks what is told to people as it is, without a level and a time in front.
pub const TOLD: &str = "told";

/// Tells people a line, or the program in whose process this runs.
pub fn tell(text: &str) {
    if tracing::enabled!(target: TOLD, Level::WARN) {
        tracing::warn!(target: TOLD, "{text}");
    } else {
        terminal::tell(text);
    }
}
