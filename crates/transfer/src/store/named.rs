//! Where a path leads that a peer named. Symbolic links on the way are followed, and never out of what the peer may
//! reach: the kernel follows one, and what it leads to counts only if it lies in what the ticket covers or where the
//! operator said. Everything behind it is opened relative to the directory that was checked, and what the endpoint hides
//! is not there by whatever way.

use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::path::{MAX_PIECE, is_reserved, split};
use crate::sys::confined::{Root, path_of};
use crate::sys::fs::{FileType, fstat};
use crate::sys::identity::{identity, with_ancestors};
use crate::text::show;

/// Most links on the way to one place, as many as the kernel follows.
const MAX_LINKS: usize = 40;

/// What a peer may reach.
#[derive(Clone, Debug)]
pub struct Scope<'a> {
    /// What is served.
    pub root: Arc<Root>,
    /// The part of it that the peer's ticket covers, wherever links lead.
    pub claim: &'a [u8],
    /// Absolute paths of directories elsewhere that links may lead to, or into.
    pub followed: &'a [Vec<u8>],
}

/// Where a path leads.
#[derive(Debug)]
pub struct Reached {
    /// The root, or the directory that the last link on the way led to.
    pub base: Root,
    /// What of the path lies beneath that: it has no link in it, and may not exist.
    pub rest: Vec<u8>,
    /// Whether a link was followed.
    pub by_link: bool,
}

/// What a link leads to.
enum Target {
    Directory(Root),
    /// A file, by its directory and its name there.
    File(Root, Vec<u8>),
}

impl Scope<'_> {
    /// Goes along `path`, which was checked to be relative and without dots; a trailing slash stays.
    pub fn reach(&self, path: &[u8]) -> Result<Reached> {
        let failed = |error| Error::io("reach", path, error);
        // Each directory on the way is looked at from the top.
        if path.len() > MAX_PIECE {
            return Err(failed(Errno::NAMETOOLONG));
        }
        let mut reached =
            Reached { base: self.root.dir(b"").map_err(failed)?, rest: path.to_vec(), by_link: false };
        for _ in 0..MAX_LINKS {
            let Reached { base, rest, .. } = &reached;
            let Some(link) = first_link(base, rest) else { return Ok(reached) };
            let behind = &rest[link.end..];
            let (base, rest) = match self.follow(base, &rest[..link.end]) {
                Some(Target::Directory(directory)) => {
                    (directory, behind.strip_prefix(b"/").unwrap_or(behind).to_vec())
                }
                Some(Target::File(directory, name)) if behind.is_empty() || behind == b"/" => {
                    (directory, [&name[..], behind].concat())
                }
                Some(Target::File(..)) => return Err(failed(Errno::NOTDIR)),
                None => return Err(not_followed(&path[..path.len() - behind.len()])),
            };
            reached = Reached { base, rest, by_link: true };
        }
        Err(not_followed(path))
    }

    /// What the link at `path` beneath `base` leads to, if that may be reached.
    fn follow(&self, base: &Root, path: &[u8]) -> Option<Target> {
        let (parent, name) = split(path);
        let target = base.dir(parent).ok()?.open_link(name).ok()?;
        if FileType::from_raw_mode(fstat(&target).ok()?.st_mode).is_dir() {
            return self.covered(&path_of(&target).ok()?).map(Target::Directory);
        }
        let whole = path_of(&target).ok()?;
        let (parent, name) = split(&whole);
        let directory = self.covered(if parent.is_empty() { b"/" } else { parent })?;
        (!is_reserved(name)).then(|| Target::File(directory, name.to_vec()))
    }

    /// The directory at the absolute path `whole`, if it is or lies in something that may be reached, and not where transfers
    /// or the endpoint keep their state.
    fn covered(&self, whole: &[u8]) -> Option<Root> {
        let directory = self.root.elsewhere(whole).ok()?;
        let above = with_ancestors(&directory);
        // Looked up now: a file system may have been mounted there meanwhile.
        let followed = self.followed.iter().map(|path| self.root.elsewhere(path));
        [self.root.dir(self.claim)].into_iter().chain(followed).flatten().find_map(|outer| {
            let outermost = identity(&fstat(&outer).ok()?);
            let depth = above.iter().position(|one| *one == outermost)?;
            let mut names: Vec<&[u8]> = whole.rsplit(|&b| b == b'/').take(depth).collect();
            if names.iter().any(|name| is_reserved(name)) {
                return None;
            }
            names.reverse();
            // By the names in between, of which one may be hidden.
            let reached = outer.dir(&names.join(&b'/')).ok()?;
            (identity(&fstat(&reached).ok()?) == above[0]).then_some(reached)
        })
    }
}

/// Where in `path` beneath `base` the first link stands, if there is one.
fn first_link(base: &Root, path: &[u8]) -> Option<Range<usize>> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let (mut start, mut reached) = (0, None);
    for name in path.split(|&b| b == b'/').filter(|name| !name.is_empty()) {
        let end = start + name.len();
        match reached.as_ref().unwrap_or(base).dir(name) {
            Ok(directory) => reached = Some(directory),
            Err(Errno::LOOP) => return Some(start..end),
            Err(_) => return None,
        }
        start = end + 1;
    }
    None
}

/// In the same words whether there is something outside or nothing at all: it is nobody's business who only holds a
/// ticket.
fn not_followed(link: &[u8]) -> Error {
    let why = format!(
        "the link {} is not followed: it leads nowhere, or out of what may be reached here (`tidegate endpoint --follow` allows more)",
        show(link)
    );
    Error::new(ErrorKind::UnsafeName, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_lead_to_what_may_be_reached_and_to_nothing_else() {
        let outer = tempfile::tempdir().expect("a directory");
        let at = |name: &str| outer.path().join(name);
        for directory in ["root/p/in/deep/.tidegate/id", "root/q", "lustre/project", "elsewhere"] {
            std::fs::create_dir_all(at(directory)).expect("made");
        }
        for file in ["root/p/in/file", "root/q/file", "elsewhere/file", "lustre/.tidegate"] {
            std::fs::write(at(file), file).expect("written");
        }
        for (link, target) in [
            ("root/p/near", "in/deep".into()),
            ("root/p/absolute", at("root/p/in")),
            ("root/p/twice", "near/..".into()),
            ("root/p/file", "in/file".into()),
            ("root/p/state", "in/deep/.tidegate/id".into()),
            ("root/p/record", at("lustre/.tidegate")),
            ("root/p/beside", "../q".into()),
            ("root/p/their-file", "../q/file".into()),
            ("root/p/out", at("elsewhere")),
            ("root/p/out-file", at("elsewhere/file")),
            ("root/p/nowhere", "nothing".into()),
            ("root/p/self", "self".into()),
            ("root/p/lustre", at("lustre")),
            ("root/p/project", at("lustre/project")),
            ("root/p/proc", "/proc/self/root".into()),
        ] {
            symlink(target, at(link)).expect("linked");
        }
        let root = Arc::new(Root::open(at("root").as_os_str().as_bytes()).expect("opened"));
        let lustre = [at("lustre").canonicalize().expect("there").as_os_str().as_bytes().to_vec()];
        let reach = |claim: &str, followed: &[Vec<u8>], path: &str| {
            let scope = Scope { root: Arc::clone(&root), claim: claim.as_bytes(), followed };
            let reached = scope.reach(path.as_bytes())?;
            let base = path_of(&reached.base).expect("known");
            let base = std::path::PathBuf::from(std::ffi::OsStr::from_bytes(&base));
            Ok::<_, Error>((base, String::from_utf8(reached.rest).expect("text")))
        };
        let canonical = |name: &str| at(name).canonicalize().expect("there");
        for (path, base, rest) in [
            ("p/in/new/", "root", "p/in/new/"),
            ("p/near", "root/p/in/deep", ""),
            ("p/near/new/er/", "root/p/in/deep", "new/er/"),
            ("p/absolute/file", "root/p/in", "file"),
            ("p/twice/", "root/p/in", ""),
            ("p/file", "root/p/in", "file"),
            ("p/absolute/nothing", "root/p/in", "nothing"),
        ] {
            assert_eq!(reach("p", &[], path), Ok((canonical(base), rest.to_owned())), "{path}");
        }
        let beside = Ok((canonical("root/q"), String::new()));
        assert_eq!(reach("", &[], "p/beside"), beside, "within the root, where the ticket covers that");
        let refused = |claim: &str, followed: &[Vec<u8>], path: &str| {
            let error = reach(claim, followed, path).expect_err(path);
            assert_eq!(error.kind, ErrorKind::UnsafeName, "{path}: {error}");
            error.message.replace(path, "LINK")
        };
        let words = refused("p", &[], "p/nowhere");
        for name in ["beside", "their-file", "out", "out-file", "self", "lustre", "project", "state", "proc"]
        {
            assert_eq!(refused("p", &[], &format!("p/{name}")), words, "{name}");
        }
        for (path, base) in [("p/lustre/", "lustre"), ("p/project", "lustre/project")] {
            assert_eq!(reach("p", &lustre, path), Ok((canonical(base), String::new())), "{path}");
        }
        // A ticket's path that is a link itself leads where the operator says, and nowhere else.
        assert_eq!(reach("p/lustre", &lustre, "p/lustre/project/x").expect("allowed").1, "project/x");
        assert_eq!(refused("p/near", &lustre, "p/near"), words);
        for name in ["out", "record", "proc"] {
            assert_eq!(refused("", &lustre, &format!("p/{name}")), words, "{name}");
        }
    }
}
