//! What is asked for at once: which accessions, under which names, and what came of each.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tidegate_transfer::error::Error;

use super::accession::Accession;

/// What was named, and what came of it.
pub(crate) struct Asked {
    /// What is asked for: GEO's accessions are asked for as what they are in the read archives.
    pub accession: Accession,
    /// As it was named, in capitals.
    pub named: Arc<str>,
    /// Whether it has runs.
    pub found: bool,
    /// Why nothing was learnt of it.
    pub trouble: Option<Error>,
}

/// One batch of them.
#[derive(Default)]
pub(crate) struct Batch {
    all: Vec<Asked>,
    /// Where an accession stands in it, more than once if GEO names it too.
    places: HashMap<Accession, Vec<usize>>,
}

impl Batch {
    /// Adds what is asked for, as it was named.
    pub fn add(&mut self, accession: Accession, named: Arc<str>) {
        self.places.entry(accession.clone()).or_default().push(self.all.len());
        self.all.push(Asked { accession, named, found: false, trouble: None });
    }

    /// Marks an accession as found; answers as what it was named.
    pub fn find(&mut self, accession: &Accession) -> Option<Arc<str>> {
        let places = self.places.get(accession)?;
        for &place in places {
            self.all[place].found = true;
        }
        Some(Arc::clone(&self.all[*places.first()?].named))
    }

    /// Remembers why nothing was learnt of some accessions.
    pub fn trouble(&mut self, part: &[Accession], error: &Error) {
        for accession in part {
            for &place in self.places.get(accession).into_iter().flatten() {
                self.all[place].trouble = Some(error.clone().within(accession));
            }
        }
    }

    /// What is still to be found, once each, in the order it was named.
    pub fn open(&self, which: impl Fn(&Asked) -> bool) -> Vec<Accession> {
        let mut open: Vec<(usize, &Accession)> = Vec::new();
        for (accession, places) in &self.places {
            if places.iter().any(|&place| !self.all[place].found && which(&self.all[place])) {
                open.push((places[0], accession));
            }
        }
        open.sort_unstable();
        open.into_iter().map(|(_, accession)| accession.clone()).collect()
    }

    /// What was named and not found. A series stands for several studies, and one that has runs is enough,
    /// unless nobody could say of another.
    pub fn missing(&self) -> Vec<&Asked> {
        let found: HashSet<&str> =
            self.all.iter().filter(|asked| asked.found).map(|asked| &*asked.named).collect();
        let mut told = HashSet::new();
        let open = self.all.iter().filter(|asked| !asked.found);
        let missing = open.filter(|asked| asked.trouble.is_some() || !found.contains(&*asked.named));
        missing.filter(|asked| told.insert(&*asked.named)).collect()
    }
}
