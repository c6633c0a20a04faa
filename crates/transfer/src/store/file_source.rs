//! Files of a local file system as a source.

use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::filter::Filter;
use crate::manifest::{Entry, Kind};
use crate::offer::DirectoryNames;
use crate::path::split;
use crate::quota::{Held, Quota};
use crate::selection::Selection;
use crate::spec::Sources;
use crate::store::named::Scope;
use crate::store::{Found, Listed, RangeReader, Source};
use crate::sys::confined::Root;
use crate::sys::fs::{Mode, OFlags, fstat};
use crate::sys::sync::Mutex;
use crate::sys::thread;
use crate::terms::Links;

mod names;
mod places;
mod reader;
mod settling;
mod tree;
mod unlinked;
mod walk;

use names::Names;
use reader::{FileReader, changed};
use settling::{LOOKS, is_short, unsettled};
use tree::Tree;
use unlinked::Unlinked;
use walk::Walk;

pub(crate) use walk::{MAX_DEPTH, rule_file};

/// Most files that are put off until their times have settled.
const MAX_YOUNG: usize = 16 << 10;

/// Trees and files of the local file system.
#[derive(Debug)]
pub struct FileSource {
    roots: Vec<Tree>,
    links: Links,
    /// Which of them has a name of its own at the destination, and which put their contents there.
    names: HashMap<Vec<u8>, usize>,
    contents: Vec<usize>,
    /// What of them is offered, its rules compiled.
    selection: Selection,
    filter: Filter,
    /// Whether the receiver may ask for all names.
    mirrored: bool,
    /// Whether files are removed once they have arrived.
    moved: bool,
    unlinked: Arc<Unlinked>,
    /// How many entries were listed.
    listed: AtomicU64,
    /// The directory that a file was opened in last, and of which tree: neighbours follow each other.
    last: Mutex<Option<(u16, Vec<u8>, Arc<Root>)>>,
    _descriptors: Option<Held>,
}

impl FileSource {
    /// Opens what the local user named; a trailing slash on a directory means its contents.
    pub fn local(paths: &[Vec<u8>], links: Links) -> Result<Self> {
        Self::new(paths.iter().map(|path| Tree::local(path)), links, None)
    }

    /// Opens paths as a peer named them, within `scope`. Each takes one of its `descriptors`.
    pub fn beneath(
        scope: &Scope<'_>,
        paths: &[Vec<u8>],
        links: Links,
        descriptors: &Arc<Quota>,
    ) -> Result<Self> {
        let held = descriptors.take(paths.len()).ok_or_else(|| {
            let why = format!(
                "{} paths are more than may be open here for one peer right now: name a directory that holds them",
                paths.len()
            );
            Error::new(ErrorKind::Busy, why)
        })?;
        Self::new(paths.iter().map(|path| Tree::beneath(scope, path)), links, Some(held))
    }

    fn new(
        trees: impl Iterator<Item = Result<Tree>>,
        links: Links,
        descriptors: Option<Held>,
    ) -> Result<Self> {
        let (mut roots, mut names, mut contents) = (Vec::<Tree>::new(), HashMap::new(), HashMap::new());
        for tree in trees {
            let tree = tree?;
            let index = roots.len();
            if index > usize::from(u16::MAX) {
                return Err(Error::new(ErrorKind::Usage, "more than 65536 sources in one command"));
            }
            let earlier = match tree.name() {
                Some(name) => names.insert(name.to_vec(), index),
                None => tree.id().and_then(|id| contents.insert(id, index)),
            };
            if let Some(earlier) = earlier {
                return Err(tree.doubles(&roots[earlier]));
            }
            roots.push(tree);
        }
        let mut contents: Vec<usize> = contents.into_values().collect();
        contents.sort_unstable();
        let (selection, filter, listed, unlinked) = Default::default();
        let (mirrored, moved, last, _descriptors) = (false, false, Mutex::default(), descriptors);
        Ok(Self {
            roots,
            links,
            names,
            contents,
            selection,
            filter,
            mirrored,
            moved,
            unlinked,
            listed,
            last,
            _descriptors,
        })
    }

    /// Offers no more than `selection` of it.
    pub fn selecting(self, selection: Selection) -> Result<Self> {
        let is_one_directory = matches!(self.roots.as_slice(), [tree] if tree.file().is_none());
        if selection.listed && !is_one_directory {
            let why = "a list of files names what lies in one source, which must be one directory";
            return Err(Error::new(ErrorKind::Usage, why));
        }
        let filter = selection.filter()?;
        Ok(Self { selection, filter, ..self })
    }

    /// Tells all names, too, if `mirrored`.
    pub fn mirrored(self, mirrored: bool) -> Result<Self> {
        if mirrored && self.selection.listed {
            let why = "--delete needs whole directories, and --files-from names single files: leave one of them out";
            return Err(Error::new(ErrorKind::Usage, why));
        }
        Ok(Self { mirrored, ..self })
    }

    /// Removes files once they have arrived, if `moved`.
    pub fn moved(self, moved: bool) -> Result<Self> {
        if let Some(linked) = self.roots.iter().find(|tree| moved && tree.is_linked()) {
            return Err(linked.is_link());
        }
        Ok(Self { moved, ..self })
    }

    /// What of `file`'s tree is meant by its path.
    fn inner<'f>(&'f self, file: &'f Listed) -> &'f [u8] {
        let tree = &self.roots[usize::from(file.root)];
        let path = file.entry.path.as_bytes();
        match tree.file() {
            Some(inner) => inner,
            None if tree.prefix.is_empty() => path,
            None => &path[tree.prefix.len() + 1..],
        }
    }

    /// Whether the sources before `root` leave the name of `entry` to it; `false` if it is a directory that one
    /// of them has as well, and an error if both cannot have it. Looked up, so that no list is held.
    fn is_free(&self, root: u16, inner: &[u8], entry: &Entry) -> Result<bool> {
        let root = usize::from(root);
        let tree = &self.roots[root];
        let first = entry.path.as_bytes().split(|&b| b == b'/').next().unwrap_or_default();
        let named = self.names.get(first).copied();
        let others = named.into_iter().chain(self.contents.iter().copied()).filter(|&other| other < root);
        for other in others.map(|other| &self.roots[other]) {
            match other.bears(entry.path.as_bytes(), self.links) {
                None => {}
                Some(kind) if kind.is_dir() && entry.kind == Kind::Directory => return Ok(false),
                Some(_) => return Err(tree.clash(inner, other, &entry.path)),
            }
        }
        Ok(true)
    }

    /// Whether the directory `inner` of `tree` is reached through a mount, also one of the same file system; not told of what
    /// links lead to.
    fn is_mounted(&self, tree: &Tree, inner: &[u8]) -> bool {
        self.links != Links::Follow && tree.base.dir_within(inner).is_err_and(|error| error == Errno::XDEV)
    }

    /// Puts a file off whose time may be that of a later write too; `None` if it is shown later.
    fn put_off(&self, found: Found, young: &mut Vec<Listed>) -> Option<Found> {
        let Found::Entry(listed) = found else { return Some(found) };
        let is_file = matches!(listed.entry.kind, Kind::File { .. });
        match unsettled(listed.entry.mtime).filter(|_| is_file) {
            None => Some(Found::Entry(listed)),
            Some(wait) if is_short(wait) => {
                thread::sleep(wait);
                let again = self.look_again(&listed);
                Some(
                    again.map_or_else(
                        |error| Found::Problem(self.inner(&listed).to_vec(), error),
                        Found::Entry,
                    ),
                )
            }
            Some(_) => {
                young.push(listed);
                None
            }
        }
    }

    /// Shows files that were put off once their times have settled; `false` once nobody wants more.
    fn settle(&self, young: &mut Vec<Listed>, found: &mut dyn FnMut(Found) -> bool) -> bool {
        for look in 1..=LOOKS {
            let longest = young.iter().filter_map(|listed| unsettled(listed.entry.mtime)).max();
            thread::sleep(longest.unwrap_or_default());
            for listed in std::mem::take(young) {
                let shown = match self.look_again(&listed) {
                    Ok(now) if unsettled(now.entry.mtime).is_none() => {
                        self.listed.fetch_add(1, Relaxed);
                        Found::Entry(now)
                    }
                    Ok(now) if look < LOOKS => {
                        young.push(now);
                        continue;
                    }
                    Ok(now) => {
                        let error = changed(now.entry.path.as_bytes(), "it is written to again and again");
                        Found::Problem(self.inner(&listed).to_vec(), error)
                    }
                    Err(error) => Found::Problem(self.inner(&listed).to_vec(), error),
                };
                if !found(shown) {
                    return false;
                }
            }
        }
        true
    }

    /// What a listed file is by now.
    fn look_again(&self, listed: &Listed) -> Result<Listed> {
        let path = listed.entry.path.as_bytes();
        let stat = self.open_as(listed, OFlags::PATH)?;
        let stat = fstat(&stat).map_err(|error| Error::io("read", path, error))?;
        let entry = walk::file_entry(listed.entry.path.clone(), &stat);
        let entry = entry.ok_or_else(|| changed(path, "it is no file any more"))?;
        match self.selection.fits(&entry) {
            true => Ok(Listed { entry, root: listed.root }),
            false => Err(changed(path, "it got another size")),
        }
    }

    /// The directory `path` of a tree, looked up `anew` or the one that was opened last.
    fn directory(&self, root: u16, path: &[u8], anew: bool) -> Result<Arc<Root>, Errno> {
        if let Some((of, known, directory)) = &*self.last.lock()
            && !anew
            && *of == root
            && known == path
        {
            return Ok(Arc::clone(directory));
        }
        let directory = Arc::new(self.roots[usize::from(root)].base.dir_to_open_in(path)?);
        let last = Some((root, path.to_vec(), Arc::clone(&directory)));
        *self.last.lock() = last;
        Ok(directory)
    }

    fn open_file(&self, file: &Listed) -> Result<OwnedFd> {
        self.open_as(file, OFlags::RDONLY | OFlags::NONBLOCK)
    }

    fn open_as(&self, file: &Listed, flags: OFlags) -> Result<OwnedFd> {
        let tree = &self.roots[usize::from(file.root)];
        let path = file.entry.path.as_bytes();
        let inner = self.inner(file);
        let opened = match tree.links(self.links) {
            Links::Follow => tree.open_following(inner, flags),
            _ => {
                let (parent, name) = split(inner);
                let open = |directory: Arc<Root>| directory.open_beneath(name, flags, Mode::empty());
                // Another directory may have that path by now.
                let opened = self.directory(file.root, parent, false).and_then(open);
                opened.or_else(|_| self.directory(file.root, parent, true).and_then(open))
            }
        };
        opened.map_err(|error| match error {
            Errno::NOENT => changed(path, "it vanished"),
            Errno::LOOP => changed(path, "it became a link"),
            error => Error::io("open", path, error),
        })
    }
}

impl Source for FileSource {
    fn sources(&self) -> Sources {
        Sources {
            roots: self.roots.iter().filter_map(|tree| tree.root(self.links)).collect(),
            places: places::of(&self.roots, self.selection.one_file_system),
        }
    }

    fn contents_mode(&self) -> Option<u32> {
        let tree = &self.roots[*self.contents.first()?];
        fstat(&tree.base).ok().map(|stat| stat.st_mode & 0o777)
    }

    fn list(&self, found: &mut dyn FnMut(Found) -> bool) -> Result<()> {
        let mut young = Vec::new();
        let mut counted = |found_one: Found| {
            if let Some(found_one) = self.put_off(found_one, &mut young) {
                self.listed.fetch_add(u64::from(matches!(found_one, Found::Entry(_))), Relaxed);
                if !found(found_one) {
                    return false;
                }
            }
            young.len() < MAX_YOUNG || self.settle(&mut young, found)
        };
        for (index, tree) in self.roots.iter().enumerate() {
            if !Walk::new(self, tree, index as u16, &mut counted).run()? {
                return Ok(());
            }
        }
        self.settle(&mut young, found);
        Ok(())
    }

    fn names(&self, told: &mut dyn FnMut(DirectoryNames) -> bool) -> Result<()> {
        if !self.mirrored {
            return Err(Error::protocol("names were asked for, and nothing is to be deleted"));
        }
        match Names::new(self).run(told)? {
            Some(names) if names < self.listed.load(Relaxed) => {
                let why = "the source has fewer names than when it was copied: run the same command again";
                Err(Error::new(ErrorKind::Changed, why))
            }
            _ => Ok(()),
        }
    }

    fn is_moved(&self) -> bool {
        self.moved
    }

    fn is_single_file(&self) -> bool {
        matches!(self.roots.as_slice(), [tree] if tree.file().is_some())
    }

    fn remove(&self, file: &Listed) -> Result<()> {
        let path = file.entry.path.as_bytes();
        let failed = |error| Error::io("remove", path, error);
        let Kind::File { fingerprint: listed, .. } = file.entry.kind else {
            return Err(Error::protocol("only files are removed"));
        };
        let (parent, name) = split(self.inner(file));
        let directory = self.roots[usize::from(file.root)].base.dir(parent).map_err(failed)?;
        match self.unlinked.remove(&directory, name, &listed).map_err(failed)? {
            true => Ok(()),
            false => {
                let why = "it has changed since, or is reached by a link";
                Err(Error::new(ErrorKind::Changed, why))
            }
        }
    }

    fn open(&self, file: &Listed, range: Range<u64>) -> Result<Box<dyn RangeReader>> {
        let Kind::File { size, fingerprint } = file.entry.kind else {
            return Err(Error::protocol("only files are read"));
        };
        let path = file.entry.path.as_bytes().to_vec();
        let fd = self.open_file(file)?;
        let unlinked = Arc::clone(&self.unlinked);
        Ok(Box::new(FileReader::new(fd, path, size, fingerprint, unlinked, range.start)?))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use super::*;
    use crate::text::show;

    /// What `paths` list: entries, problems with their kinds, and notes, each by its path.
    fn listed(paths: &[&Path], links: Links) -> (Vec<String>, Vec<(String, ErrorKind)>, Vec<String>) {
        let paths: Vec<_> = paths.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect();
        let source = FileSource::local(&paths, links).expect("opened");
        let (mut entries, mut problems, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        let all = source.list(&mut |found| {
            match found {
                Found::Entry(listed) => entries.push(listed.entry.path.to_string()),
                Found::Problem(path, error) => problems.push((show(&path).into_owned(), error.kind)),
                Found::Note(path, _) => notes.push(show(&path).into_owned()),
            }
            true
        });
        all.expect("listed");
        (entries, problems, notes)
    }

    #[test]
    fn what_is_left_out_is_no_failure() {
        let place = tempfile::tempdir().expect("a directory");
        let tree = place.path().join("tree");
        fs::create_dir(&tree).expect("made");
        fs::write(tree.join("file"), b"x").expect("written");
        symlink("file", tree.join("link")).expect("linked");
        let _socket = UnixListener::bind(tree.join("socket")).expect("bound");
        let there = |names: &[&str]| names.iter().map(|name| format!("tree{name}")).collect::<Vec<_>>();
        for (links, names) in [(Links::Skip, &["", "/file"][..]), (Links::Keep, &["", "/file", "/link"])] {
            let (entries, problems, notes) = listed(&[&tree], links);
            assert_eq!((entries, problems, notes), (there(names), Vec::new(), vec!["socket".to_owned()]));
        }
    }

    #[test]
    fn usage_errors_of_the_walk_are_failures() {
        let place = tempfile::tempdir().expect("a directory");
        let (a, b) = (place.path().join("a"), place.path().join("b"));
        for tree in [&a, &b] {
            fs::create_dir(tree).expect("made");
            fs::write(tree.join("same"), b"x").expect("written");
        }
        fs::write(b.join("other"), b"x").expect("written");
        // Both put their contents at one place, where only the first can have the name.
        let (entries, problems, notes) = listed(&[&a.join(""), &b.join("")], Links::Skip);
        assert_eq!(entries, ["same", "other"]);
        assert_eq!((problems, notes), (vec![("same".to_owned(), ErrorKind::Usage)], Vec::new()));
        // What was named must be there to be copied, unlike what lies beneath it.
        let socket = place.path().join("socket");
        let _socket = UnixListener::bind(&socket).expect("bound");
        let (entries, problems, notes) = listed(&[&socket, &a], Links::Skip);
        assert_eq!(entries, ["a", "a/same"]);
        assert_eq!((problems, notes), (vec![("socket".to_owned(), ErrorKind::Usage)], Vec::new()));
    }

    #[test]
    fn a_file_as_young_as_its_file_system_tells_times_apart_is_shown_once_it_has_settled() {
        let place = tempfile::tempdir().expect("a directory");
        let (young, old) = (place.path().join("young"), place.path().join("old"));
        for file in [&young, &old] {
            fs::write(file, "first").expect("written");
        }
        // As a file system of whole seconds tells them.
        let whole = |file: &Path, ago: u64| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(now.as_secs() - ago);
            fs::File::options().write(true).open(file).expect("opened").set_modified(time).expect("set");
        };
        whole(&old, 60);
        whole(&young, 0);
        let paths = [place.path().join("").as_os_str().as_bytes().to_vec()];
        let source = FileSource::local(&paths, Links::Skip).expect("opened").moved(true).expect("no link");
        let mut shown = Vec::new();
        let listed = source.list(&mut |found| {
            let Found::Entry(listed) = found else { panic!("{found:?}") };
            if shown.is_empty() {
                // Nobody could tell it from the first by size and time.
                fs::write(&young, "again").expect("written");
                whole(&young, 0);
            }
            shown.push(listed);
            true
        });
        listed.expect("listed");
        assert_eq!(
            shown.iter().map(|listed| listed.entry.path.to_string()).collect::<Vec<_>>(),
            ["old", "young"]
        );
        // It is what was written last that is read, and that may be removed.
        let mut buffer = [0; 5];
        source.open(&shown[1], 0..5).and_then(|mut reader| reader.read(0, &mut buffer)).expect("as listed");
        assert_eq!(&buffer, b"again");
        source.remove(&shown[1]).expect("removed");
        fs::write(&old, "other").expect("written");
        whole(&old, 60);
        source.remove(&shown[0]).expect_err("another version");
    }
}
