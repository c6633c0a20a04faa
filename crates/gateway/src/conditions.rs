//! What must be there, or must not, for a request to change it: looked at before anything is done, and once more just before
//! a name is given, so that of two that ask for the same only one has it.

use tidegate_transfer::sys::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use axum::http::header::{IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use axum::http::{HeaderMap, Method, StatusCode};
use tidegate_transfer::endpoint::access::Access;
use tidegate_transfer::error::ErrorKind;
use tidegate_transfer::manifest::Timestamp;

use crate::refusal::{Answer, Refusal};
use crate::tree::{self, Found};
use crate::validators::{Validators, Verdict, judge};

/// What a request says that must hold of what is there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    /// Those that compare versions.
    compared: Option<HeaderMap>,
    /// Whether nothing may be there.
    pub new: bool,
}

/// Names are given and taken away while this is held: by many at a time, but for those who have looked first what bears the
/// name, and must not be overtaken.
#[derive(Debug, Default)]
pub struct Names(RwLock<()>);

/// Leave to change names.
pub(crate) struct Leave<'n> {
    _many: Option<RwLockReadGuard<'n, ()>>,
    _alone: Option<RwLockWriteGuard<'n, ()>>,
}

impl Conditions {
    /// What `headers` say.
    pub fn read(headers: &HeaderMap) -> Answer<Self> {
        if headers.contains_key("if") {
            // It names locks, or states that are not known here.
            return Err(failed("no lock is known here: leave the header If out"));
        }
        let new = headers.get(IF_NONE_MATCH).is_some_and(|tags| tags.as_bytes().trim_ascii() == b"*");
        let compares = [IF_MATCH, IF_UNMODIFIED_SINCE].iter().any(|name| headers.contains_key(name))
            || (!new && headers.contains_key(IF_NONE_MATCH));
        Ok(Self { compared: compares.then(|| headers.clone()), new })
    }

    /// Refuses a change of what is at `path` unless they hold there now. That nothing is there is seen by whoever gives the name.
    pub fn check(&self, access: &Access, path: &[u8]) -> Answer<()> {
        let Some(headers) = &self.compared else { return Ok(()) };
        let there = match tree::open(access, path) {
            Ok(Found::File(file)) => Some(file.version),
            // It is there, and has no version that anybody could name.
            Ok(Found::Directory(_)) => {
                Some(Validators { tag: String::new(), modified: Timestamp::default() })
            }
            Err(error) if error.kind == ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        match judge(&Method::PUT, headers, there.as_ref()) {
            Verdict::Proceed => Ok(()),
            Verdict::NotModified | Verdict::Failed => Err(failed("another version is there, or none")),
        }
    }

    /// Leave to change names, once they hold of `path`.
    pub fn leave<'n>(&self, names: &'n Names, access: &Access, path: &[u8]) -> Answer<Leave<'n>> {
        let leave = match self.compared {
            None => Leave { _many: Some(names.0.read()), _alone: None },
            Some(_) => Leave { _many: None, _alone: Some(names.0.write()) },
        };
        self.check(access, path)?;
        Ok(leave)
    }
}

/// A condition that does not hold.
pub fn failed(why: &str) -> Refusal {
    Refusal::new(StatusCode::PRECONDITION_FAILED, why)
}
