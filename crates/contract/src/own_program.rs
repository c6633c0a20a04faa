//! Where our own program is, which others of ours are begun with.

use std::path::PathBuf;
use std::sync::OnceLock;

/// What was said of it.
static TOLD: OnceLock<PathBuf> = OnceLock::new();

/// Says where it is. The first word counts.
pub fn is_at(path: PathBuf) {
    let _ = TOLD.set(path);
}

/// Where it is: in the search path, if nobody has said. What this process runs may be any program, which would begin itself.
pub fn path() -> PathBuf {
    TOLD.get().cloned().unwrap_or_else(|| "tidegate".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_told_nothing_is_not_taken_for_ours() {
        assert_eq!(path(), PathBuf::from("tidegate"));
        is_at("/opt/tidegate".into());
        is_at("/elsewhere".into());
        assert_eq!(path(), PathBuf::from("/opt/tidegate"));
    }
}
