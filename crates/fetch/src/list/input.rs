//! A list that is read, and its lines.

use std::collections::VecDeque;
use std::fmt;
use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_contract::redact;
use tidegate_transfer::error::{Error, ErrorKind};

use crate::record::Named;

/// A list that was opened.
pub(crate) struct Input {
    /// Its name, for people.
    pub list: Arc<str>,
    /// Where it lies, if it lies anywhere.
    pub path: Option<PathBuf>,
    /// The rest of it.
    pub reader: Reader,
}

/// Reads a list.
pub(crate) type Reader = BufReader<Box<dyn Read + Send>>;

/// What reads one kind of list.
pub(crate) trait ListParser {
    /// Reads on until something was named; `false` at the end.
    fn fill(&mut self, named: &mut VecDeque<Named>) -> bool;
}

/// A line of a list.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    /// The list's name, for people.
    pub list: Arc<str>,
    /// Counted from 1.
    pub line: u64,
}

impl Position {
    /// What is wrong there.
    pub fn error(&self, kind: ErrorKind, why: impl fmt::Display) -> Error {
        Error::new(kind, format!("{self}: {why}"))
    }

    /// That it cannot be read.
    pub fn usage(&self, why: impl fmt::Display) -> Error {
        self.error(ErrorKind::Usage, why)
    }

    /// What people should know of it.
    pub fn note(&self, why: impl fmt::Display) -> Named {
        Named::note(&format!("{self}: {why}"))
    }

    /// `what` cannot be got, for a reason that this place is added to.
    pub fn problem(&self, what: &str, error: Error) -> Named {
        Named::problem(&redact::public_text(what), error.within(self))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.list, self.line)
    }
}
