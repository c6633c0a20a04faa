//! Where a run's files are, beyond what ENA lists: asked of NCBI's locator, a hundred runs at a time, and of
//! the open-data mirror. Then what is taken, or why nothing is.

use std::sync::Arc;

use tidegate_transfer::error::{Error, ErrorKind};

use super::client::ArchiveClient;
use super::files::{Offer, records};
use super::options::{Format, ResolveOptions, Source};
use super::report::Report;
use super::sdl::{self, Want};
use super::table::Row;
use crate::record::Named;

/// A run whose files are still to be located.
pub(crate) struct PendingRun {
    /// What is known of it.
    pub row: Row,
    /// The accession that led to it.
    pub named: Arc<str>,
    /// The files found so far.
    pub offer: Offer,
    /// Why the locator gives none.
    pub refusal: Option<String>,
    /// Why somebody could not be asked.
    pub trouble: Option<Error>,
}

impl PendingRun {
    fn run(&self) -> &str {
        self.row.get("run_accession")
    }
}

/// Locates runs' files, some runs at a time.
pub(crate) struct Locator {
    /// Whom to ask.
    pub client: Arc<ArchiveClient>,
    /// What is wished for.
    pub options: ResolveOptions,
    /// Whom to tell.
    pub report: Report,
    /// Runs that wait.
    pub waiting: Vec<PendingRun>,
}

impl Locator {
    /// Locates the files of the runs that wait, and tells of them.
    pub(crate) fn locate(&mut self) {
        let mut runs = std::mem::take(&mut self.waiting);
        let (first, second) = match self.options.format {
            Format::SraLite => (Want::Lite, Want::Full),
            Format::Submitted => (Want::All, Want::Lite),
            Format::Fastq | Format::Sra => (Want::Full, Want::Lite),
        };
        self.ask_locator(&mut runs, first, |_| true);
        // A second question only where the first left nothing to take.
        let fallback = self.options.allow_fallback;
        let lacks = |run: &PendingRun| {
            let has = |format: &Format| !run.offer.files(*format).is_empty();
            let stands_in = self.options.fallbacks().any(|format| has(&format));
            !has(&self.options.format) && !stands_in && (fallback || first == Want::Lite)
        };
        self.ask_locator(&mut runs, second, lacks);
        for run in &mut runs {
            if self.report.is_over() {
                return;
            }
            self.ask_mirror(run);
            self.settle(run);
        }
    }

    fn ask_locator(&self, runs: &mut [PendingRun], want: Want, which: impl Fn(&PendingRun) -> bool) {
        let names: Vec<String> =
            runs.iter().filter(|run| which(run)).map(|run| run.run().to_owned()).collect();
        if names.is_empty() || self.report.is_over() {
            return;
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let answer = sdl::retrieve(&self.client, &names, want, &self.report.over);
        for run in runs.iter_mut().filter(|run| names.contains(&run.run())) {
            match &answer {
                Ok(located) => {
                    let Some(located) = located.get(run.run()) else { continue };
                    let name = run.run().to_owned();
                    run.offer.add_located(&name, &located.files, self.options.source);
                    run.refusal.clone_from(&located.refusal);
                }
                Err(error) => run.trouble = Some(error.clone()),
            }
        }
    }

    /// Looks on the open-data mirror for a run that nobody gave an SRA file of. What the locator knows with
    /// other qualities only is left alone: nobody would say which those are.
    fn ask_mirror(&self, run: &mut PendingRun) {
        let possible = matches!(self.options.source, Source::Auto | Source::Aws);
        let stand_ins = || self.options.fallbacks().any(|format| !run.offer.files(format).is_empty());
        let wanted = match self.options.format {
            Format::Sra => true,
            format => run.offer.files(format).is_empty() && self.options.allow_fallback && !stand_ins(),
        };
        if !possible || !wanted || run.offer.has_sra() || self.report.is_over() {
            return;
        }
        let name = run.run().to_owned();
        let path = format!("sra/{name}/{name}");
        match self.client.head(&path, &self.report.over) {
            Ok(Some(head)) => run.offer.add_mirrored(&name, self.client.aws.at(&path), &head),
            Ok(None) => {}
            Err(error) => run.trouble = Some(error),
        }
    }

    /// Tells of a run's files in the format that was wished for, or in one that may stand in, or what there
    /// is.
    pub fn settle(&self, waiting: &PendingRun) {
        let (options, run) = (&self.options, waiting.run());
        let has = |format: Format| !waiting.offer.files(format).is_empty();
        let stand_in = options.fallbacks().find(|format| has(*format));
        // That nobody could say is not that there is none; of FASTQ ENA has said it.
        let unsure = waiting.trouble.is_some() && options.format != Format::Fastq;
        let format = match stand_in {
            _ if has(options.format) => options.format,
            Some(format) if options.allow_fallback && !unsure => {
                let words = format!("{run}: no {} for it; taking {format} in its place", options.format);
                self.report.tell(Named::note(&words));
                format
            }
            _ => return self.report.problem(run, self.missing(waiting, stand_in, unsure)),
        };
        match records(&waiting.row, &waiting.named, format, waiting.offer.files(format), options) {
            Ok(records) => {
                records.into_iter().for_each(|record| self.report.tell(Named::Record(Box::new(record))));
            }
            Err(error) => self.report.problem(run, error.within(run)),
        }
    }

    /// Why a run has nothing to take, and what would help.
    fn missing(&self, waiting: &PendingRun, stand_in: Option<Format>, unsure: bool) -> Error {
        let (options, run) = (&self.options, waiting.run());
        let from =
            if options.source == Source::Auto { String::new() } else { format!(" from {}", options.source) };
        let mut text = format!("{run}: no {} for it{from}", options.format);
        let there = waiting.offer.summary();
        if !there.is_empty() {
            text += &format!("; there is {there}");
        }
        if stand_in.is_some() && !options.allow_fallback {
            text += "; --allow-fallback takes it";
        }
        if there.is_empty() {
            text += &waiting.refusal.as_ref().map_or(String::new(), |words| format!("; NCBI says: {words}"));
        }
        match &waiting.trouble {
            Some(trouble) if unsure || there.is_empty() => {
                Error::new(trouble.kind, format!("{text}; {trouble}"))
            }
            _ => Error::new(ErrorKind::NotFound, text),
        }
    }
}
