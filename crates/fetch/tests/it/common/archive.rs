//! What asks the stand-in archive within a test.

use std::sync::Arc;
use std::time::Duration;

use testkit::standin::Standin;
use tidegate_fetch::archive::{ArchiveSettings, Archives, ResolveOptions};
use tidegate_fetch::record::{Named, Record};
use tidegate_transfer::error::Error;

/// An archive that is asked within the test.
pub trait Ask {
    fn settings(&self) -> ArchiveSettings;

    /// Resolves a list to its end.
    fn resolve(&self, list: &[&str], wish: ResolveOptions) -> Outcome {
        resolve(self.settings(), list, wish)
    }
}

impl Ask for Standin {
    fn settings(&self) -> ArchiveSettings {
        ArchiveSettings {
            ena_url: self.url("ena_url").to_owned(),
            eutils_url: self.url("eutils_url").to_owned(),
            sdl_url: self.url("sdl_url").to_owned(),
            aws_url: self.url("aws_url").to_owned(),
            timeout: Duration::from_secs(10),
            backoff: Duration::from_millis(5),
            ena_rate: 0.0,
            ncbi_rate: Some(0.0),
            ..ArchiveSettings::default()
        }
    }
}

/// What a list came to.
#[derive(Debug, Default)]
pub struct Outcome {
    pub records: Vec<Record>,
    pub problems: Vec<(String, Error)>,
    pub notes: Vec<String>,
}

impl Outcome {
    /// The runs that have records, in their order, once each.
    pub fn runs(&self) -> Vec<String> {
        let mut runs: Vec<String> =
            self.records.iter().map(|record| record.group.as_deref().expect("a run").to_owned()).collect();
        runs.sort();
        runs.dedup();
        runs
    }

    pub fn paths(&self) -> Vec<String> {
        self.records.iter().map(|record| record.path.to_string()).collect()
    }

    /// The one problem there is.
    pub fn problem(&self) -> &Error {
        assert!(self.records.is_empty(), "{:?}", self.records);
        let [(_, error)] = &self.problems[..] else { panic!("one problem, not {:?}", self.problems) };
        error
    }
}

pub fn resolve(settings: ArchiveSettings, list: &[&str], wish: ResolveOptions) -> Outcome {
    let archives = Arc::new(Archives::new(settings).expect("good settings"));
    let list: Vec<String> = list.iter().map(|line| (*line).to_owned()).collect();
    let mut outcome = Outcome::default();
    for named in archives.resolve(list.into_iter(), wish) {
        match named {
            Named::Record(record) => outcome.records.push(*record),
            Named::Problem(name, error) => outcome.problems.push((name, error)),
            Named::LeftOut(path, _) => panic!("{path}"),
            Named::Note(note) => outcome.notes.push(note),
        }
    }
    outcome
}
