//! A tree of a [`Pair`](super::Pair): what a source or a destination holds.

use std::collections::BTreeMap;

use super::content::ModelContent;
use crate::manifest::{Entry, Fingerprint, Kind, Timestamp};
use crate::offer::DirectoryNames;
use crate::path::RelPath;
use crate::store::There;

/// What bears a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A file.
    File(ModelContent),
    /// A directory.
    Directory,
    /// A symbolic link to this.
    Link(String),
    /// A pipe.
    Special,
}

/// It, with its mode and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// What it is.
    pub what: What,
    /// Permission bits.
    pub mode: u32,
    /// When it was modified, in seconds.
    pub mtime: i64,
    /// How often it was put in its place.
    change: u64,
}

impl Node {
    /// One of an ordinary mode.
    pub fn new(what: What, mtime: i64) -> Self {
        let mode = match what {
            What::Directory => 0o755,
            What::Link(_) => 0o777,
            What::File(_) | What::Special => 0o644,
        };
        Self { what, mode, mtime, change: 0 }
    }

    /// What it holds, if it is a file.
    pub fn content(&self) -> Option<ModelContent> {
        if let What::File(content) = self.what { Some(content) } else { None }
    }

    /// It as a destination sees it.
    pub fn there(&self) -> There {
        let kind = match &self.what {
            What::File(content) => Some(Kind::File { size: content.size, fingerprint: [0; 16] }),
            What::Directory => Some(Kind::Directory),
            What::Link(target) => Some(Kind::Symlink { target: target.clone().into_bytes() }),
            What::Special => None,
        };
        There { kind, mode: self.mode, mtime: at(self.mtime) }
    }

    /// What tells this version of a file from others.
    fn fingerprint(&self, path: &str) -> Fingerprint {
        let content = self.content().map(|content| (content.seed, content.size));
        let version = format!("{path} {content:?} {} {} {}", self.mode, self.mtime, self.change);
        *blake3::hash(version.as_bytes()).as_bytes().first_chunk().expect("16 of 32")
    }
}

/// So many seconds after 1970.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanoseconds: 0 }
}

/// Names, and what bears them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelTree {
    nodes: BTreeMap<String, Node>,
    changes: u64,
}

impl ModelTree {
    /// Puts something in its place.
    pub fn put(&mut self, path: &str, node: Node) -> &mut Node {
        self.changes += 1;
        let node = Node { change: self.changes, ..node };
        self.nodes.insert(path.to_owned(), node);
        self.nodes.get_mut(path).expect("just put there")
    }

    /// Puts a file there, modified at 1000. All empty ones hold the same.
    pub fn file(&mut self, path: &str, size: u64, seed: u64) -> &mut Node {
        let seed = if size == 0 { 0 } else { seed };
        self.put(path, Node::new(What::File(ModelContent { seed, size }), 1000))
    }

    /// Puts a directory there.
    pub fn directory(&mut self, path: &str) -> &mut Node {
        self.put(path, Node::new(What::Directory, 1000))
    }

    /// Puts a link there.
    pub fn link(&mut self, path: &str, target: &str) -> &mut Node {
        self.put(path, Node::new(What::Link(target.to_owned()), 1000))
    }

    /// Takes something away, with what is in it.
    pub fn remove(&mut self, path: &str) {
        let beneath = format!("{path}/");
        self.nodes.retain(|name, _| name != path && !name.starts_with(&beneath));
    }

    /// What bears a name.
    pub fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// The same, to be changed, without being put there anew.
    pub fn get_mut(&mut self, path: &str) -> Option<&mut Node> {
        self.nodes.get_mut(path)
    }

    /// All of it, what contains something before that.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Node)> {
        self.nodes.iter()
    }

    /// All names.
    pub fn names(&self) -> Vec<&str> {
        self.nodes.keys().map(String::as_str).collect()
    }

    /// What lies in the directory `path`, by name.
    pub fn children<'t>(&'t self, path: &'t str) -> impl Iterator<Item = (&'t str, &'t Node)> {
        let inside = move |name: &'t str| match path {
            "" => Some(name),
            path => name.strip_prefix(path)?.strip_prefix('/'),
        };
        let named = self.nodes.iter().filter_map(move |(name, node)| Some((inside(name)?, node)));
        named.filter(|(name, _)| !name.contains('/'))
    }

    /// Whether something can be put at `path`.
    pub fn has_parent_of(&self, path: &str) -> bool {
        path.rsplit_once('/')
            .is_none_or(|(parent, _)| self.get(parent).is_some_and(|node| node.what == What::Directory))
    }

    /// What is offered of what bears a name.
    pub fn entry(&self, path: &str) -> Option<Entry> {
        let node = self.get(path)?;
        let kind = match &node.what {
            What::File(content) => Kind::File { size: content.size, fingerprint: node.fingerprint(path) },
            What::Directory => Kind::Directory,
            What::Link(target) => Kind::Symlink { target: target.clone().into_bytes() },
            What::Special => return None,
        };
        Some(Entry::new(RelPath::new(path).expect("a path"), kind, node.mode, at(node.mtime)))
    }

    /// The names in each directory.
    pub fn directory_names(&self) -> Vec<DirectoryNames> {
        let directories = self.iter().filter(|(_, node)| node.what == What::Directory);
        let directories = std::iter::once("").chain(directories.map(|(path, _)| path.as_str()));
        let names_in = |directory: &str| DirectoryNames {
            directory: directory.as_bytes().to_vec(),
            is_root: directory.is_empty(),
            names: self.children(directory).flat_map(|(name, _)| [name.as_bytes(), &[0]].concat()).collect(),
            is_whole: true,
        };
        directories.map(names_in).collect()
    }
}

/// What of an entry a tree is asked by.
pub(crate) fn path_of(entry: &Entry) -> &str {
    std::str::from_utf8(entry.path.as_bytes()).expect("paths of a pair are text")
}
