//! A destination within a source that the filter rules of the copy surely leave out: nothing in it is read or removed as a
//! part of the source.

use std::collections::HashSet;

use crate::filter::Filter;
use crate::path::inside;
use crate::spec::SourceRoot;
use crate::sys::confined::{Root, path_of};
use crate::sys::fs::{Dir, fstat};
use crate::sys::identity::{FileIdentity, identity, with_ancestors};
use crate::sys::whereabouts::Mounts;

/// What those of `roots` are known by that contain `rest` beneath `directory`, and of which `filter` leaves that out. Where
/// that is not sure they are not among them.
pub(super) fn around(
    filter: &Filter,
    roots: &[SourceRoot],
    (directory, rest): (&Root, &[u8]),
    mounts: &Mounts,
) -> HashSet<FileIdentity> {
    let mut found = HashSet::new();
    let Ok(path) = path_of(directory) else { return found };
    let path = path.strip_suffix(b"/").unwrap_or(&path);
    let mut end = path.len();
    for (level, id) in with_ancestors(directory).into_iter().enumerate() {
        if level > 0 {
            match path[..end].iter().rposition(|&byte| byte == b'/') {
                Some(slash) => end = slash,
                None => break,
            }
        }
        let existing = path[end..].strip_prefix(b"/").unwrap_or_default();
        let inner = if rest.is_empty() { existing.to_vec() } else { inside(existing, rest) };
        let named: Vec<_> = roots.iter().filter(|root| root.identity == id).collect();
        let is_left_out = |root: &&SourceRoot| !filter.takes_all_of(&inside(&root.name, &inner), true);
        if inner.is_empty() || named.is_empty() || !named.iter().all(is_left_out) || !is_plain(rest) {
            continue;
        }
        let top = if end == 0 { Root::open(b"/") } else { Root::open(&path[..end]) };
        if let Some(top) = top.ok().filter(|top| is_so_called(top, id, existing, directory)) {
            found.extend(mounts.whereabouts(&top).itself.here);
        }
    }
    found
}

/// Whether every file system writes down `path` as it is, which is yet to be made.
fn is_plain(path: &[u8]) -> bool {
    let mut names = path.split(|&byte| byte == b'/');
    path.is_ascii() && names.all(|name| !name.ends_with(b".") && !name.ends_with(b" "))
}

/// Whether `top` is the directory of that identity, and lists the way to `directory` by the names in `path`, and no other
/// spelling of them.
fn is_so_called(top: &Root, id: FileIdentity, path: &[u8], directory: &Root) -> bool {
    let is = |dir: &Root, id| fstat(dir).is_ok_and(|stat| identity(&stat) == id);
    let Ok(stat) = fstat(directory) else { return false };
    if !is(top, id) || !top.dir(path).is_ok_and(|there| is(&there, identity(&stat))) {
        return false;
    }
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let ends: Vec<usize> = ends.chain([path.len()]).filter(|&end| end > 0).collect();
    ends.iter().all(|&end| {
        let (parent, name) = crate::path::split(&path[..end]);
        let listed = top.dir(parent).and_then(|dir| Dir::read_from(&dir));
        let mut listed = listed.into_iter().flatten().flatten();
        listed.any(|entry| entry.file_name().to_bytes() == name)
    })
}
