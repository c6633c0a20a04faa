//! The tables of a catalogue, one a level: a level holds several times what the one before does, and is younger than the one
//! behind it. What is remembered newly is merged into the first level that has room for it and for all before.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::Arc;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::table::{Table, TableRecords, TableSize, TableWriter};
use crate::error::{Error, Result};
use crate::sys::confined::Root;
use crate::sys::fs::fsync;

/// How many times what the one before does a level holds. More levels make a file that is not known dearer to look for, fewer
/// ones a record dearer to keep: each is written some twice a level.
const GROWTH: u64 = 4;

/// Most levels: the last holds whatever there is.
const LEVELS: usize = 10;

/// What one directory's tables have in common.
#[derive(Clone, Debug)]
pub(crate) struct TablePlace {
    /// Where they are.
    pub directory: Arc<Root>,
    /// What their names begin with.
    pub name: String,
    /// What each begins with.
    pub magic: &'static [u8; 8],
    /// How many records the first level holds.
    pub first: u64,
}

impl TablePlace {
    fn table(&self, level: usize) -> String {
        format!("{}.{}", self.name, level + 1)
    }

    fn unfinished(&self) -> String {
        format!("{}.merged", self.name)
    }

    fn holds(&self, level: usize) -> u64 {
        self.first.saturating_mul(GROWTH.saturating_pow(level as u32 + 1))
    }
}

/// The tables of a catalogue.
#[derive(Debug)]
pub(crate) struct Levels<V> {
    place: TablePlace,
    tables: Vec<Option<Table<V>>>,
}

impl<V: Clone + Serialize + for<'a> Deserialize<'a> + Send + Sync + 'static> Levels<V> {
    /// Those that are there. The youngest are opened first: what is merged meanwhile is found in an older one.
    pub fn open(place: TablePlace) -> Result<Self> {
        let open = |level| Table::open(&place.directory, &place.table(level), place.magic);
        let tables = (0..LEVELS).map(open).collect::<Result<_>>()?;
        Ok(Self { place, tables })
    }

    /// The value of `key`.
    pub fn get(&mut self, key: &[u8]) -> Option<V> {
        self.tables.iter_mut().flatten().find_map(|table| table.get(key).cloned())
    }

    /// How many records all tables have.
    #[cfg(test)]
    pub fn records(&self) -> u64 {
        self.tables.iter().flatten().map(|table| table.size().records).sum()
    }

    /// How `recent` gets into a table. Files that are gone are forgotten by way of that, beneath the directory `base`, once as
    /// many records are new as there were when that was done before.
    pub fn merge(&self, recent: Arc<BTreeMap<Vec<u8>, V>>, base: Option<&[u8]>) -> TableMerge<V> {
        let sizes: Vec<TableSize> = self
            .tables
            .iter()
            .map(|table| table.as_ref().map_or_else(TableSize::default, Table::size))
            .collect();
        let oldest = sizes.iter().rposition(|size| size.records > 0).unwrap_or(0);
        let all = sizes.iter().map(|size| size.records).sum::<u64>() + recent.len() as u64;
        let forgets = all >= 2 * sizes[oldest].last_seen.max(self.place.first);
        let gone = base.filter(|_| forgets).and_then(Gone::beneath);
        let mut records = recent.len() as u64;
        let fits = |level: &usize| {
            records += sizes[*level].records;
            let is_last = level + 1 == LEVELS;
            (records <= self.place.holds(*level) && (gone.is_none() || *level >= oldest)) || is_last
        };
        let level = (0..LEVELS).find(fits).expect("the last one does");
        TableMerge {
            level,
            inputs: self.tables[..=level].iter().flatten().map(Table::records).collect(),
            recent,
            gone,
            last_seen: sizes[oldest].last_seen,
            place: self.place.clone(),
        }
    }

    /// Takes the place of what was merged into `level`.
    ///
    /// # Errors
    /// It could not in part; all is known as before as long as the log has what was recent.
    pub fn take_in(&mut self, level: usize) -> Result<()> {
        let TablePlace { directory, magic, .. } = &self.place;
        let name = self.place.table(level);
        let failed = |error: Errno| Error::io("write", name.as_bytes(), error);
        directory.rename(self.place.unfinished().as_bytes(), directory, name.as_bytes()).map_err(failed)?;
        fsync(directory).map_err(failed)?;
        // Younger ones would hide it, and are in it: they must not be back once the log has been emptied.
        for younger in 0..level {
            match directory.remove(self.place.table(younger).as_bytes()) {
                Ok(()) | Err(Errno::NOENT) => self.tables[younger] = None,
                Err(error) => return Err(failed(error)),
            }
        }
        fsync(directory).map_err(failed)?;
        self.tables[level] = Table::open(directory, &name, magic)?;
        Ok(())
    }
}

/// A merge that is to be done.
#[derive(Debug)]
pub(crate) struct TableMerge<V> {
    level: usize,
    /// The youngest first.
    inputs: Vec<TableRecords<V>>,
    recent: Arc<BTreeMap<Vec<u8>, V>>,
    gone: Option<Gone>,
    last_seen: u64,
    place: TablePlace,
}

impl<V: Clone + Serialize + for<'a> Deserialize<'a> + 'static> TableMerge<V> {
    /// Does it; answers with the level of what [`Levels::take_in`] takes in.
    pub fn run(mut self) -> Result<usize> {
        let name = self.place.unfinished();
        let written = self.write(&name);
        if written.is_err() {
            let _ = self.place.directory.remove(name.as_bytes());
        }
        written.map(|()| self.level)
    }

    fn write(&mut self, name: &str) -> Result<()> {
        let mut table = TableWriter::new(&self.place.directory, name, self.place.magic)?;
        type Records<'r, V> = Box<dyn Iterator<Item = (Vec<u8>, V)> + 'r>;
        let recent = self.recent.iter().map(|(key, value)| (key.clone(), value.clone()));
        let tables = self.inputs.drain(..).map(|table| Box::new(table) as Records<'_, V>);
        let inputs = std::iter::once(Box::new(recent) as Records<'_, V>).chain(tables);
        for (key, value) in Merged::new(inputs) {
            // What is recent was there a moment ago.
            let is_gone = |gone: &mut Gone| !self.recent.contains_key(&key) && gone.is_gone(&key);
            if !self.gone.as_mut().is_some_and(is_gone) {
                table.push(&key, &value)?;
            }
        }
        table.finish(self.gone.is_none().then_some(self.last_seen))
    }
}

/// Sorted records of several inputs, in order; of those with one key the first input's.
struct Merged<I: Iterator>(Vec<Peekable<I>>);

impl<K: Ord, V, I: Iterator<Item = (K, V)>> Merged<I> {
    fn new(inputs: impl Iterator<Item = I>) -> Self {
        Self(inputs.map(Iterator::peekable).collect())
    }
}

impl<K: Ord, V, I: Iterator<Item = (K, V)>> Iterator for Merged<I> {
    type Item = (K, V);

    fn next(&mut self) -> Option<Self::Item> {
        let heads =
            self.0.iter_mut().enumerate().filter_map(|(at, input)| input.peek().map(|(key, _)| (key, at)));
        let (_, first) = heads.min()?;
        let record = self.0[first].next()?;
        for input in &mut self.0[first + 1..] {
            input.next_if(|(key, _)| *key == record.0);
        }
        Some(record)
    }
}

/// Which files are gone from a directory. What cannot be looked at is not.
#[derive(Debug)]
struct Gone {
    base: Root,
    /// The directory that was looked into last, or why it could not be.
    parent: Option<(Vec<u8>, Result<Root, Errno>)>,
}

impl Gone {
    fn beneath(base: &[u8]) -> Option<Self> {
        Some(Self { base: Root::open(base).ok()?, parent: None })
    }

    fn is_gone(&mut self, key: &[u8]) -> bool {
        let path = super::path_of(key);
        let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&[][..], &path[..]),
        };
        let opened = match self.parent.take().filter(|(there, _)| there == parent) {
            Some(same) => self.parent.insert(same),
            None => self.parent.insert((parent.to_vec(), self.base.dir_to_open_in(parent))),
        };
        let found = match &opened.1 {
            Ok(directory) => directory.stat(name).map(drop),
            Err(error) => Err(*error),
        };
        matches!(found, Err(Errno::NOENT | Errno::NOTDIR))
    }
}
