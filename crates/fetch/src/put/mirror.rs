//! A destination as a mirror: what lies there and not at the source is removed, once everything has arrived and nothing
//! failed. Of the source's names sixteen bytes each are held, of the destination's those that are to go.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::filter::Filter;
use tidegate_transfer::mirror::extent::{Extent, nothing_deleted, stopped_at};
use tidegate_transfer::offer::warn_left_out;
use tidegate_transfer::path::{RelPath, inside, lies_in, split};
use tidegate_transfer::selection::Deletion;
use tidegate_transfer::store::Source;
use tidegate_transfer::store::folding::common_spelling;

use super::arrived::ArrivedNames;
use super::queue::SendTask;
use super::state::{UploadEvent, UploadState};
use super::target::UNFINISHED;
use crate::record::{Named, Names};
use crate::remote::patience::Patience;
use crate::server_source::seen::{above, key};

/// Refuses rules of which a server can say nothing.
///
/// # Errors
/// There are files of rules in the tree.
pub(crate) fn check(deletion: &Deletion) -> Result<()> {
    if deletion.filter()?.is_whole() {
        return Ok(());
    }
    let why = "--delete at a server goes by rules that are known before: give those that are read from files of each directory by --filter or --exclude-from";
    Err(Error::new(ErrorKind::Usage, why))
}

/// Waits until every file has ended, and removes what the source does not have.
pub(crate) fn act(shared: &Arc<UploadState>, deletion: &Deletion) {
    if !shared.queue.wait_for_rest() {
        return;
    }
    let going = match compare(shared, deletion) {
        Ok(going) => going,
        Err(error) => return shared.ledger.not_deleted(nothing_deleted(&error)),
    };
    let most = deletion.most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    let (now, beyond) = going.split_at(going.len().min(most));
    match shared.settings.dry {
        true => now.iter().for_each(|path| (shared.tell)(UploadEvent::WouldDelete(path))),
        false => remove(shared, now),
    }
    if let Some(error) = stopped_at(deletion.most, beyond.len() as u64) {
        shared.ledger.not_deleted(error);
    }
}

/// What is to go.
///
/// # Errors
/// Not everything is known, or what would go looks like an accident.
fn compare(shared: &UploadState, deletion: &Deletion) -> Result<Vec<RelPath>> {
    let failed = shared.ledger.totals().files_failed;
    if failed > 0 {
        let files = if failed == 1 { "a file" } else { "files" };
        return Err(Error::new(ErrorKind::Io, format!("{files} of the source did not arrive")));
    }
    let mut kept = Kept::of(&*shared.source, shared.target.may_fold())?;
    if kept.roots.is_empty() {
        // Files alone were named.
        return Ok(Vec::new());
    }
    let mut comparison =
        Comparison { filter: deletion.filter()?, extent: Extent::default(), going: Vec::new() };
    let patience = Patience::new(shared.settings.retry_for, shared.settings.interrupt.clone());
    comparison.read(shared.target.names(patience)?, &kept, &shared.arrived)?;
    let missing = shared.arrived.missing();
    if missing > 0 {
        let why = format!(
            "the destination lists no such name for {missing} of the files that are there: it spells names in a way of its own"
        );
        return Err(Error::new(ErrorKind::Protocol, why));
    }
    comparison.extent.emptied =
        kept.emptied.take().filter(|root| comparison.going.iter().any(|path| lies_in(path.as_bytes(), root)));
    comparison.extent.verdict(deletion.most)?;
    Ok(comparison.going)
}

fn remove(shared: &Arc<UploadState>, going: &[RelPath]) {
    let files = going.iter().map(|path| SendTask::Remove(path.clone())).collect();
    let directories =
        emptied(going).into_iter().map(|level| level.into_iter().map(SendTask::RemoveDirectory).collect());
    for tasks in std::iter::once::<Vec<_>>(files).chain(directories) {
        tasks.into_iter().for_each(|task| shared.queue.add_task(task));
        if !shared.queue.wait_for_rest() {
            return;
        }
    }
    let (files, error) = shared.removed.outcome();
    shared.ledger.deleted(files);
    if let Some(error) = error {
        shared.ledger.not_deleted(error);
    }
}

/// The directories in which something was, the deepest ones first, all of one depth together.
fn emptied(going: &[RelPath]) -> Vec<Vec<RelPath>> {
    let mut levels: BTreeMap<Reverse<usize>, BTreeSet<&[u8]>> = BTreeMap::new();
    for directory in going.iter().flat_map(|path| above(path.as_bytes())) {
        let depth = directory.iter().filter(|&&byte| byte == b'/').count();
        levels.entry(Reverse(depth)).or_default().insert(directory);
    }
    let paths =
        |level: BTreeSet<&[u8]>| level.into_iter().filter_map(|path| RelPath::new(path).ok()).collect();
    levels.into_values().map(paths).collect()
}

/// The names that the source has.
struct Kept {
    /// The directories that are compared with what lies in them.
    roots: Vec<Vec<u8>>,
    names: HashSet<[u8; 16]>,
    /// Directories whose names were told: nothing is known of others, such as those on which something is mounted.
    told: HashSet<[u8; 16]>,
    /// Whether other spellings of them stay.
    folds: bool,
    /// One of `roots` that is empty.
    emptied: Option<Vec<u8>>,
}

impl Kept {
    fn of(source: &dyn Source, folds: bool) -> Result<Self> {
        let mut kept =
            Self { roots: Vec::new(), names: HashSet::new(), told: HashSet::new(), folds, emptied: None };
        let mut has_names = false;
        source.names(&mut |told| {
            for name in told.names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
                has_names = true;
                kept.add(&inside(&told.directory, name));
            }
            if told.is_whole {
                if told.is_root && !std::mem::take(&mut has_names) {
                    kept.emptied = Some(told.directory.clone());
                }
                has_names = false;
                insert(&mut kept.told, &told.directory, folds);
                if told.is_root {
                    kept.roots.push(told.directory);
                }
            }
            true
        })?;
        Ok(kept)
    }

    fn add(&mut self, path: &[u8]) {
        insert(&mut self.names, path, self.folds);
    }

    /// Whether the source has something called `path`.
    fn has(&self, path: &[u8]) -> bool {
        contains(&self.names, path, self.folds)
    }

    /// Whether the source surely has nothing called `path`: of a directory that it has, and of which nothing was told, nobody
    /// knows.
    fn lacks(&self, path: &[u8]) -> bool {
        let compared =
            |directory: &&[u8]| self.roots.iter().any(|root| root == directory) || self.covers(directory);
        let untold =
            above(path).filter(compared).find(|directory| !contains(&self.told, directory, self.folds));
        !self.has(untold.unwrap_or(path))
    }

    /// Whether the directory `path` is compared, or lies on the way to what is.
    fn leads_to_root(&self, path: &[u8]) -> bool {
        self.roots.iter().any(|root| root == path || lies_in(root, path))
    }

    /// Whether `path` lies in what is compared.
    fn covers(&self, path: &[u8]) -> bool {
        self.roots.iter().any(|root| lies_in(path, root))
    }
}

/// What the destination has, compared name by name.
struct Comparison {
    filter: Filter,
    extent: Extent,
    going: Vec<RelPath>,
}

impl Comparison {
    fn read(&mut self, names: Names, kept: &Kept, arrived: &ArrivedNames) -> Result<()> {
        for named in names {
            match named {
                Named::Record(record) => {
                    arrived.found(&record.path);
                    self.add(record.path, kept);
                }
                // There is nothing yet.
                Named::Problem(_, error) if error.kind == ErrorKind::NotFound && self.extent.files == 0 => {}
                Named::Problem(name, error) if error.kind == ErrorKind::UnsafeName => {
                    warn_left_out(name.as_bytes(), &format!("it stays at the destination: {error}"));
                }
                Named::Problem(_, error) => return Err(error),
                // It is no file, and stays.
                Named::LeftOut(..) => {}
                Named::Note(note) => tracing::warn!("{note}"),
            }
        }
        Ok(())
    }

    fn add(&mut self, path: RelPath, kept: &Kept) {
        let name = path.as_bytes();
        if !kept.covers(name) || split(name).1.starts_with(UNFINISHED.as_bytes()) {
            return;
        }
        self.extent.files += 1;
        if kept.lacks(name) && self.lets_go(name, kept) {
            self.extent.going += 1;
            self.going.push(path);
        }
    }

    /// Whether rules let `path` go. Those that are perishable are void in a directory that the source does not have.
    fn lets_go(&mut self, path: &[u8], kept: &Kept) -> bool {
        let goes = |directory: &&[u8]| !kept.leads_to_root(directory) && !kept.has(directory);
        // A directory that both have is no question of rules here.
        let mut way = above(path).filter(goes).map(|directory| (directory, true)).chain([(path, false)]);
        way.all(|(path, is_directory)| {
            self.filter.going(goes(&split(path).0));
            self.filter.takes(path, is_directory)
        })
    }
}

fn insert(all: &mut HashSet<[u8; 16]>, path: &[u8], folds: bool) {
    all.insert(key(path));
    if folds {
        all.insert(key(&common_spelling(path)));
    }
}

fn contains(all: &HashSet<[u8; 16]>, path: &[u8], folds: bool) -> bool {
    all.contains(&key(path)) || (folds && all.contains(&key(&common_spelling(path))))
}

#[cfg(test)]
mod tests {
    use tidegate_transfer::error::Result;
    use tidegate_transfer::filter::rule::{Line, Lines, read};
    use tidegate_transfer::offer::DirectoryNames;
    use tidegate_transfer::store::{Found, Listed, RangeReader};
    use url::Url;

    use super::*;
    use crate::record::Record;

    /// Directories and what is in them; those named first are roots.
    struct Tree(Vec<(&'static str, bool, &'static [&'static str])>);

    impl Source for Tree {
        fn list(&self, _: &mut dyn FnMut(Found) -> bool) -> Result<()> {
            Ok(())
        }

        fn names(&self, told: &mut dyn FnMut(DirectoryNames) -> bool) -> Result<()> {
            for (directory, is_root, names) in &self.0 {
                let names = names.iter().flat_map(|name| [name.as_bytes(), b"\0"].concat()).collect();
                let directory = directory.as_bytes().to_vec();
                told(DirectoryNames { directory, is_root: *is_root, names, is_whole: true });
            }
            Ok(())
        }

        fn open(&self, _: &Listed, _: std::ops::Range<u64>) -> Result<Box<dyn RangeReader>> {
            Err(Error::protocol("nothing is read"))
        }
    }

    fn going(tree: &Tree, rules: &[&str], folds: bool, there: &[&str]) -> (Vec<String>, Extent) {
        let kept = Kept::of(tree, folds).expect("names");
        let rule = |rule: &&str| match read(rule.as_bytes(), Lines::Rules) {
            Ok(Line::Rule(rule)) => rule,
            _ => panic!("{rule} is no rule"),
        };
        let rules = rules.iter().map(rule).collect();
        let filter = Deletion { rules, ..Deletion::default() }.filter().expect("rules");
        let mut comparison = Comparison { filter, extent: Extent::default(), going: Vec::new() };
        let url = Url::parse("s3://b/x").expect("a URL");
        let record = |path: &&str| {
            Named::Record(Box::new(Record::new(url.clone(), RelPath::new(*path).expect("a path"))))
        };
        let there: Vec<Named> = there.iter().map(record).collect();
        let arrived = ArrivedNames::new(false, folds);
        comparison.read(Box::new(there.into_iter()), &kept, &arrived).expect("compared");
        let going = comparison.going.iter().map(RelPath::to_string).collect();
        (going, comparison.extent)
    }

    #[test]
    fn what_the_source_does_not_have_goes_beneath_what_was_named_alone() {
        let tree = || Tree(vec![("d", true, &["a", "sub"]), ("d/sub", false, &["b"])]);
        let there = ["d/a", "d/c", "d/sub/b", "d/sub/c", "d/old/x", "e", "dd/a", "d/.tidegate-part.1"];
        let (gone, extent) = going(&tree(), &[], false, &there);
        assert_eq!(gone, ["d/c", "d/sub/c", "d/old/x"]);
        assert_eq!((extent.files, extent.going), (5, 3));
        let tree = Tree(vec![("", true, &["a"])]);
        assert_eq!(going(&tree, &[], false, &["a", "b", "c/d"]).0, ["b", "c/d"]);
    }

    #[test]
    fn what_rules_exclude_stays_with_all_that_is_in_it() {
        let tree = || Tree(vec![("", true, &["a", "sub"]), ("sub", false, &[])]);
        let there = ["a", "b.tmp", "b", "keep/b", "sub/c.tmp", "old/c.tmp"];
        assert_eq!(going(&tree(), &["- *.tmp", "P /keep/"], false, &there).0, ["b"]);
        assert_eq!(going(&tree(), &["-p *.tmp", "P /keep/"], false, &there).0, ["b", "old/c.tmp"]);
        // Rules are asked of what would go, and not of directories that both have.
        assert_eq!(going(&tree(), &["P */"], false, &there).0, ["b.tmp", "b", "sub/c.tmp"]);
    }

    #[test]
    fn what_is_not_told_of_stays() {
        // Something is mounted on `mnt`, and is not entered.
        let tree = Tree(vec![("d", true, &["a", "mnt", "sub"]), ("d/sub", false, &["b", "mnt"])]);
        let there = ["d/mnt/f", "d/mnt/x/f", "d/sub/mnt/f", "d/other/mnt/f", "d/a/f"];
        for folds in [false, true] {
            assert_eq!(going(&tree, &[], folds, &there).0, ["d/other/mnt/f"]);
        }
    }

    #[test]
    fn another_spelling_stays_where_it_may_be_the_same_file() {
        let tree = || Tree(vec![("", true, &["readme", "\u{e9}"])]);
        let there = ["README", "e\u{301}", "other"];
        assert_eq!(going(&tree(), &[], true, &there).0, ["other"]);
        assert_eq!(going(&tree(), &[], false, &there).0, there);
    }

    #[test]
    fn directories_are_emptied_from_the_innermost_on() {
        let path = |path: &str| RelPath::new(path).expect("a path");
        let all = emptied(&[path("a/b/c"), path("a/x"), path("f"), path("a/b/d"), path("e/b/c")]);
        assert_eq!(all, [vec![path("a/b"), path("e/b")], vec![path("a"), path("e")]]);
    }
}
