//! The source of a [`Pair`](super::Pair).

use std::collections::{BTreeMap, VecDeque};

use super::content::ModelContent;
use super::faults::{Deed, Faults};
use super::tree::{ModelTree, Node, path_of};
use crate::error::{Error, ErrorKind, Result};
use crate::logic::sender::SenderEvent;
use crate::manifest::{Entry, Fingerprint};
use crate::offer::LeftOut;
use crate::store::Listed;

/// What a sender lists, reads and removes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelSource {
    /// What it holds.
    pub tree: ModelTree,
    /// What fails.
    pub faults: Faults,
    /// What cannot be listed.
    pub problems: Vec<String>,
    /// What is offered once more, behind the rest.
    pub twice: Vec<String>,
    /// Names that were removed.
    pub removed: Vec<String>,
    /// What each version of a file that was offered holds.
    offered: BTreeMap<(String, Fingerprint), ModelContent>,
}

impl ModelSource {
    /// What is listed now, so many entries at a time.
    pub fn list(&mut self, batch: usize) -> VecDeque<SenderEvent> {
        let mut events = VecDeque::new();
        for path in &self.problems {
            let error = Error::new(ErrorKind::Denied, format!("cannot list {path}: as it was told to"));
            events.push_back(SenderEvent::Problem(path.clone().into_bytes(), error));
        }
        let mut listed = Vec::new();
        let names = self.tree.iter().map(|(path, _)| path).chain(&self.twice);
        for path in names {
            let Some(entry) = self.tree.entry(path) else {
                events.push_back(SenderEvent::LeftOut(path.clone().into_bytes(), LeftOut::Special));
                continue;
            };
            if let Some(content) = self.tree.get(path).and_then(Node::content) {
                self.offered.insert((path.clone(), super::disk::version(&entry)), content);
            }
            listed.push(Listed { entry, root: 0 });
        }
        events.extend(listed.chunks(batch).map(|some| SenderEvent::Listed(some.to_vec())));
        events.push_back(SenderEvent::AllListed);
        events
    }

    /// What the version of a file holds that was offered.
    pub fn content_of(&self, entry: &Entry) -> ModelContent {
        let key = (path_of(entry).to_owned(), super::disk::version(entry));
        *self.offered.get(&key).expect("only what was offered is taken in")
    }

    /// Reads a file, as long as it is the version that was listed.
    pub fn read(&self, entry: &Entry) -> Result<ModelContent> {
        self.faults.check(Deed::Read, path_of(entry))?;
        self.check(entry)?;
        Ok(self.content_of(entry))
    }

    fn check(&self, entry: &Entry) -> Result<()> {
        let path = path_of(entry);
        match self.tree.entry(path).is_some_and(|now| now.kind == entry.kind) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Changed, format!("{path} has changed"))),
        }
    }

    /// Removes a file, unless it has changed.
    pub fn remove(&mut self, entry: &Entry) -> Result<()> {
        self.faults.check(Deed::Remove, path_of(entry))?;
        self.check(entry)?;
        self.tree.remove(path_of(entry));
        self.removed.push(path_of(entry).to_owned());
        Ok(())
    }
}
