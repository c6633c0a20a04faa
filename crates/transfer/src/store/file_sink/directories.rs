//! What is kept open of the directories of a destination.

use std::collections::HashMap;
use std::sync::Arc;

use crate::sys::confined::Root;

/// Directories beneath the destination that are kept open.
#[derive(Debug, Default)]
pub(super) struct Directories {
    pub looked_up: HashMap<Vec<u8>, Arc<Root>>,
    /// Files were renamed into these, so each stays the one of its path until that is known to be durable.
    pub renamed_into: HashMap<Vec<u8>, FilledDirectory>,
    /// The last that was asked for: neighbours follow each other.
    pub last: Option<(Vec<u8>, Arc<Root>)>,
}

/// One that files were renamed into.
#[derive(Debug)]
pub(super) struct FilledDirectory {
    pub directory: Arc<Root>,
    /// What the last of them is called.
    pub name: Vec<u8>,
}
