//! Lines for people from whatever does not know who has it run. Whoever prints, or hands them to another program, hears them
//! as events.

/// Marks what is told to people as it is: a warning without a level and a time in front, an error behind the program's name.
pub const TOLD: &str = "told";

/// Tells people a line.
pub fn tell(text: &str) {
    tracing::warn!(target: TOLD, "{text}");
}

/// The same of what is wrong.
pub fn complain(text: &str) {
    tracing::error!(target: TOLD, "{text}");
}
