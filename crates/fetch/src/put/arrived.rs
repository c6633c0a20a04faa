//! The names that files were given at a destination: its listing has to have them, or it spells names in a way of its own.

use std::collections::HashSet;

use tidegate_transfer::path::RelPath;
use tidegate_transfer::store::folding::common_spelling;
use tidegate_transfer::sys::sync::Mutex;

use crate::server_source::seen::key;

/// Sixteen bytes of each name, if there will be a listing.
#[derive(Debug)]
pub(crate) struct ArrivedNames {
    names: Option<Mutex<HashSet<[u8; 16]>>>,
    folds: bool,
}

impl ArrivedNames {
    /// Nothing yet; `folds` if other spellings of a name are the same.
    pub fn new(is_listed: bool, folds: bool) -> Self {
        Self { names: is_listed.then(Mutex::default), folds }
    }

    /// A file has its name.
    pub fn add(&self, path: &RelPath) {
        if let Some(names) = &self.names {
            names.lock().insert(self.key(path));
        }
    }

    /// It was listed.
    pub fn found(&self, path: &RelPath) {
        if let Some(names) = &self.names {
            names.lock().remove(&self.key(path));
        }
    }

    /// How many were not.
    pub fn missing(&self) -> usize {
        self.names.as_ref().map_or(0, |names| names.lock().len())
    }

    fn key(&self, path: &RelPath) -> [u8; 16] {
        match self.folds {
            true => key(&common_spelling(path.as_bytes())),
            false => key(path.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrived_and_is_not_listed_is_counted_unless_it_is_only_spelled_otherwise() {
        let path = |path: &str| RelPath::new(path).expect("a path");
        for (folds, missing) in [(false, 2), (true, 1)] {
            let arrived = ArrivedNames::new(true, folds);
            ["a", "Sub/b", "new\nline"].iter().for_each(|name| arrived.add(&path(name)));
            assert_eq!(arrived.missing(), 3);
            ["a", "sub/B", "new\u{240a}line", "other"].iter().for_each(|name| arrived.found(&path(name)));
            assert_eq!(arrived.missing(), missing, "{folds}");
        }
        let unheard = ArrivedNames::new(false, true);
        unheard.add(&path("a"));
        assert_eq!(unheard.missing(), 0, "there is no listing");
    }
}
