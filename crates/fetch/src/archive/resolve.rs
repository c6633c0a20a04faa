//! From accessions to records, as a stream: the first files are known before the last accession is asked for.
//!
//! Accessions are gathered into batches, a small one first. Each batch is a request or two to ENA; what ENA does
//! not know is asked of NCBI; SRA files are located a hundred runs at a time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::text::show;

use super::accession::{Accession, Kind, words};
use super::client::{ArchiveSettings, Client};
use super::files::{Offer, records};
use super::sdl::{self, Want};
use super::table::{Row, rows};
use super::wish::{Format, Source, Wish};
use super::{ena, eutils};
use crate::record::{Named, Names};

/// Accessions in the first batch, so that fetching begins soon, and in the later ones, as many as ENA takes.
const FIRST_BATCH: usize = 50;
const BATCH: usize = 1000;

/// How long a batch waits for the next accession, which may come from a pipe.
const LINGER: Duration = Duration::from_millis(50);

/// How long one wait for an accession lasts, between two looks at whether it is over.
const PATIENCE: Duration = Duration::from_millis(200);

/// Accessions read ahead, and files resolved ahead.
const READ_AHEAD: usize = 1000;
const FILES_AHEAD: usize = 1024;

/// The sequence archives.
#[derive(Debug)]
pub struct Archives {
    client: Client,
}

impl Archives {
    /// With these settings; a base URL that is none is refused.
    pub fn new(settings: ArchiveSettings) -> Result<Self> {
        Ok(Self { client: Client::new(settings)? })
    }

    /// Resolves accessions as they come: lines with one or more of them, and `#` comments. Two threads do it, and
    /// end soon after the stream is dropped (the one that reads, when its iterator next answers).
    pub fn resolve(
        self: Arc<Self>,
        accessions: impl Iterator<Item = String> + Send + 'static,
        wish: Wish,
    ) -> Names {
        let (found, names) = sync_channel(FILES_AHEAD);
        let (read, ahead) = sync_channel(READ_AHEAD);
        let over = Arc::new(AtomicBool::new(false));
        let resolver = Resolver {
            archives: self,
            wish,
            found: found.clone(),
            over: Arc::clone(&over),
            asked: HashSet::new(),
            seen: HashSet::new(),
            waiting: Vec::new(),
        };
        let reader = thread::Builder::new().name("accessions".to_owned()).spawn(move || {
            for line in accessions {
                for word in words(&line) {
                    if read.send(word.to_owned()).is_err() {
                        return;
                    }
                }
            }
        });
        let worker = thread::Builder::new().name("resolve".to_owned()).spawn(move || resolver.run(&ahead));
        if let Err(error) = reader.and(worker) {
            let error = Error::new(ErrorKind::Io, format!("cannot start a thread that resolves: {error}"));
            let _ = found.try_send(Named::Problem("accessions".to_owned(), error));
        }
        Box::new(Stream { names, over })
    }
}

/// What was resolved so far.
struct Stream {
    names: Receiver<Named>,
    over: Arc<AtomicBool>,
}

impl Iterator for Stream {
    type Item = Named;

    fn next(&mut self) -> Option<Named> {
        self.names.recv().ok()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
    }
}

/// What was named, and what came of it.
struct Asked {
    /// What is asked for: GEO's accessions are asked for as what they are in the read archives.
    accession: Accession,
    /// As it was named, in capitals.
    named: Arc<str>,
    found: bool,
    trouble: Option<Error>,
}

/// One batch of them.
#[derive(Default)]
struct Batch {
    all: Vec<Asked>,
    /// Where an accession stands in it, more than once if GEO names it too.
    places: HashMap<Accession, Vec<usize>>,
}

impl Batch {
    fn add(&mut self, accession: Accession, named: Arc<str>) {
        self.places.entry(accession.clone()).or_default().push(self.all.len());
        self.all.push(Asked { accession, named, found: false, trouble: None });
    }

    /// Marks an accession as found; answers as what it was named.
    fn find(&mut self, accession: &Accession) -> Option<Arc<str>> {
        let places = self.places.get(accession)?;
        for &place in places {
            self.all[place].found = true;
        }
        Some(Arc::clone(&self.all[*places.first()?].named))
    }

    /// Remembers why nothing was learnt of some accessions.
    fn trouble(&mut self, part: &[Accession], error: &Error) {
        for accession in part {
            for &place in self.places.get(accession).into_iter().flatten() {
                self.all[place].trouble = Some(error.clone().within(accession));
            }
        }
    }

    /// What is still to be found, once each, in the order it was named.
    fn open(&self, which: impl Fn(&Asked) -> bool) -> Vec<Accession> {
        let mut open: Vec<(usize, &Accession)> = Vec::new();
        for (accession, places) in &self.places {
            if places.iter().any(|&place| !self.all[place].found && which(&self.all[place])) {
                open.push((places[0], accession));
            }
        }
        open.sort_unstable();
        open.into_iter().map(|(_, accession)| accession.clone()).collect()
    }

    /// What was named and not found; a series stands for several studies, and one that has runs is enough.
    fn missing(&self) -> Vec<&Asked> {
        let found: HashSet<&str> =
            self.all.iter().filter(|asked| asked.found).map(|asked| &*asked.named).collect();
        let mut told = HashSet::new();
        let missing = self.all.iter().filter(|asked| !found.contains(&*asked.named));
        missing.filter(|asked| told.insert(&*asked.named)).collect()
    }
}

/// A run whose files are still to be located.
struct Waiting {
    row: Row,
    named: Arc<str>,
    offer: Offer,
    refusal: Option<String>,
    trouble: Option<Error>,
}

impl Waiting {
    fn run(&self) -> &str {
        self.row.get("run_accession")
    }
}

struct Resolver {
    archives: Arc<Archives>,
    wish: Wish,
    found: SyncSender<Named>,
    over: Arc<AtomicBool>,
    /// Accessions that were named before, and runs that were found before.
    asked: HashSet<Accession>,
    seen: HashSet<Box<str>>,
    waiting: Vec<Waiting>,
}

impl Resolver {
    fn run(mut self, ahead: &Receiver<String>) {
        let (mut number, mut most) = (0, FIRST_BATCH);
        while let Some(batch) = gather(ahead, most, &self.over) {
            self.batch(&mut number, batch);
            most = BATCH;
        }
    }

    /// Hands something over; waits while there is much already.
    fn tell(&self, named: Named) {
        if self.found.send(named).is_err() {
            self.over.store(true, Relaxed);
        }
    }

    fn problem(&self, name: &str, error: Error) {
        self.tell(Named::Problem(name.to_owned(), error));
    }

    fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    fn batch(&mut self, number: &mut usize, words: Vec<String>) {
        let (archives, over) = (Arc::clone(&self.archives), Arc::clone(&self.over));
        let mut batch = self.parse(number, words);
        if self.wish.source.has_ena() {
            let fields = self.wish.fields.clone();
            for chunk in ena::chunks(batch.open(|_| true)) {
                ena::runs(&archives.client, &chunk, &fields, &over, &mut |part, answer| {
                    self.take(&mut batch, part, &answer);
                });
            }
        }
        if self.wish.source.has_ncbi() {
            self.ask_ncbi(&mut batch);
        }
        self.locate();
        for asked in batch.missing() {
            if self.is_over() {
                return;
            }
            let error = asked.trouble.clone().unwrap_or_else(|| self.nothing(asked));
            self.problem(&asked.named, error);
        }
    }

    /// That an accession has no runs, as far as those asked know.
    fn nothing(&self, asked: &Asked) -> Error {
        let whom = match self.wish.source {
            Source::Auto => "neither ENA nor NCBI knows",
            Source::Ena => "ENA does not know",
            Source::Ncbi | Source::Aws => "NCBI does not know",
        };
        let (name, accession) = (&asked.named, &asked.accession);
        let what = if **name == *accession.as_str() { String::new() } else { format!(" ({accession})") };
        Error::new(ErrorKind::NotFound, format!("{name}{what}: {whom} public runs of it"))
    }

    /// Reads names; those that are none are told, with their number in the list.
    fn parse(&mut self, number: &mut usize, words: Vec<String>) -> Batch {
        let (mut batch, mut geo) = (Batch::default(), Vec::new());
        for word in words {
            *number += 1;
            match word.parse::<Accession>() {
                Err(error) => self.problem(&show(word.as_bytes()), error.within(format!("item {number}"))),
                Ok(accession) if !self.asked.insert(accession.clone()) => {}
                Ok(accession) if accession.is_geo() => geo.push(accession),
                Ok(accession) => {
                    let named = accession.as_str().into();
                    batch.add(accession, named);
                }
            }
        }
        if !geo.is_empty() {
            self.ask_geo(&geo, &mut batch);
        }
        batch
    }

    fn ask_geo(&self, geo: &[Accession], batch: &mut Batch) {
        let mut targets = match eutils::geo(&self.archives.client, geo, &self.over) {
            Ok(targets) => targets,
            Err(error) => {
                for accession in geo {
                    self.problem(accession.as_str(), error.clone().within(accession));
                }
                return;
            }
        };
        for accession in geo {
            let name = accession.as_str();
            let Some(targets) = targets.remove(name) else {
                self.problem(name, Error::new(ErrorKind::NotFound, format!("{name}: GEO does not know it")));
                continue;
            };
            if targets.is_empty() {
                let why = format!("{name}: GEO names no reads of it in the read archives");
                self.problem(name, Error::new(ErrorKind::NotFound, why));
            }
            let named: Arc<str> = name.into();
            targets.into_iter().for_each(|target| batch.add(target, Arc::clone(&named)));
        }
    }

    /// Takes in ENA's answer about some accessions.
    fn take(&mut self, batch: &mut Batch, part: &[Accession], answer: &Result<Option<String>>) {
        let read = match answer {
            Ok(None) => return,
            Ok(Some(text)) => rows(text),
            Err(error) => Err(error.clone()),
        };
        let outcome = read.and_then(|rows| {
            for row in rows {
                self.row(batch, part, row?, true);
                if self.is_over() {
                    break;
                }
            }
            Ok(())
        });
        if let Err(error) = outcome {
            batch.trouble(part, &error);
        }
    }

    /// Asks NCBI for the runs of what was not found so far.
    fn ask_ncbi(&mut self, batch: &mut Batch) {
        // What ENA could not be asked for it may well have: nobody else has its FASTQ.
        let needs_ena = self.wish.source == Source::Auto && self.wish.format == Format::Fastq;
        let part = batch.open(|asked| !needs_ena || asked.trouble.is_none());
        if part.is_empty() || self.is_over() {
            return;
        }
        match eutils::runinfo(&self.archives.client, &part, &self.over) {
            Ok(rows) => rows.into_iter().for_each(|row| self.row(batch, &part, row, false)),
            Err(error) => batch.trouble(&part, &error),
        }
    }

    /// Takes in one run: marks whom it belongs to, and sees what there is of it.
    fn row(&mut self, batch: &mut Batch, part: &[Accession], row: Row, at_ena: bool) {
        let Ok(run) = row.get("run_accession").parse::<Accession>() else { return };
        if run.kind() != Kind::Run {
            return;
        }
        // What ENA answers to one accession belongs to it, under whatever other name.
        let mut named = None;
        if let ([one], true) = (part, at_ena) {
            named = batch.find(one);
        }
        for id in ena::IDS.iter().flat_map(|column| row.list(column)) {
            let found = id.parse().ok().and_then(|id| batch.find(&id));
            named = named.or(found);
        }
        // A search in words finds others too.
        let Some(named) = named else { return };
        if !self.seen.insert(run.as_str().into()) {
            return;
        }
        if let Some(error) = controlled(&row) {
            return self.problem(run.as_str(), error);
        }
        let offer = if at_ena { Offer::at_ena(&row, self.wish.protocol) } else { Ok(Offer::default()) };
        let offer = match offer {
            Ok(offer) => offer,
            Err(error) => return self.problem(run.as_str(), error.within(&run)),
        };
        let waiting = Waiting { row, named, offer, refusal: None, trouble: None };
        let here = !waiting.offer.files(self.wish.format).is_empty();
        // Of FASTQ and of what was submitted ENA has all there is; SRA files have mirrors.
        let enough = here && matches!(self.wish.format, Format::Fastq | Format::Submitted);
        if enough || !self.wish.source.has_ncbi() {
            return self.settle(&waiting);
        }
        self.waiting.push(waiting);
        if self.waiting.len() >= sdl::MAX_RUNS {
            self.locate();
        }
    }

    /// Locates the files of the runs that wait, and tells of them.
    fn locate(&mut self) {
        let mut runs = std::mem::take(&mut self.waiting);
        let (first, second) = match self.wish.format {
            Format::SraLite => (Want::Lite, Want::Full),
            Format::Submitted => (Want::All, Want::Lite),
            Format::Fastq | Format::Sra => (Want::Full, Want::Lite),
        };
        self.ask_locator(&mut runs, first, |_| true);
        // A second question only where the first left nothing to take.
        let fallback = self.wish.allow_fallback;
        let lacks = |run: &Waiting| {
            let has = |format: &Format| !run.offer.files(*format).is_empty();
            let stands_in = self.wish.format.fallbacks().iter().any(has);
            !has(&self.wish.format) && !stands_in && (fallback || first == Want::Lite)
        };
        self.ask_locator(&mut runs, second, lacks);
        for run in &mut runs {
            if self.is_over() {
                return;
            }
            self.ask_mirror(run);
            self.settle(run);
        }
    }

    fn ask_locator(&self, runs: &mut [Waiting], want: Want, which: impl Fn(&Waiting) -> bool) {
        let names: Vec<String> =
            runs.iter().filter(|run| which(run)).map(|run| run.run().to_owned()).collect();
        if names.is_empty() || self.is_over() {
            return;
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let answer = sdl::retrieve(&self.archives.client, &names, want, &self.over);
        for run in runs.iter_mut().filter(|run| names.contains(&run.run())) {
            match &answer {
                Ok(located) => {
                    let Some(located) = located.get(run.run()) else { continue };
                    let name = run.run().to_owned();
                    run.offer.add_located(&name, &located.files, self.wish.source);
                    run.refusal.clone_from(&located.refusal);
                }
                Err(error) => run.trouble = Some(error.clone()),
            }
        }
    }

    /// Looks on the open-data mirror for a run that nobody gave an SRA file of.
    fn ask_mirror(&self, run: &mut Waiting) {
        let wanted = self.wish.format == Format::Sra || self.wish.allow_fallback;
        let possible = matches!(self.wish.source, Source::Auto | Source::Aws);
        if !wanted || !possible || run.offer.formats().next().is_some() || self.is_over() {
            return;
        }
        let name = run.run().to_owned();
        let path = format!("sra/{name}/{name}");
        match self.archives.client.head(&path, &self.over) {
            Ok(Some(head)) => run.offer.add_mirrored(&name, self.archives.client.aws.at(&path), &head),
            Ok(None) => {}
            Err(error) => run.trouble = Some(error),
        }
    }

    /// Tells of a run's files in the format that was wished for, or in one that may stand in, or what there is.
    fn settle(&self, waiting: &Waiting) {
        let (wish, run) = (&self.wish, waiting.run());
        let has = |format: Format| !waiting.offer.files(format).is_empty();
        let stand_in = wish.format.fallbacks().iter().copied().find(|format| has(*format));
        let format = match stand_in {
            _ if has(wish.format) => wish.format,
            Some(format) if wish.allow_fallback => {
                self.tell(Named::Note(format!(
                    "{run}: no {} for it; taking {format} in its place",
                    wish.format
                )));
                format
            }
            _ => return self.problem(run, self.missing(waiting, stand_in)),
        };
        match records(&waiting.row, &waiting.named, format, waiting.offer.files(format), wish) {
            Ok(records) => records.into_iter().for_each(|record| self.tell(Named::Record(Box::new(record)))),
            Err(error) => self.problem(run, error.within(run)),
        }
    }

    /// Why a run has nothing to take, and what would help.
    fn missing(&self, waiting: &Waiting, stand_in: Option<Format>) -> Error {
        let (wish, run) = (&self.wish, waiting.run());
        let from = if wish.source == Source::Auto { String::new() } else { format!(" from {}", wish.source) };
        let mut text = format!("{run}: no {} for it{from}", wish.format);
        let there = waiting.offer.summary();
        if !there.is_empty() {
            text += &format!("; there is {there}");
        }
        if stand_in.is_some() && !wish.allow_fallback {
            text += "; --allow-fallback takes it";
        }
        if there.is_empty() {
            text += &waiting.refusal.as_ref().map_or(String::new(), |words| format!("; NCBI says: {words}"));
        }
        match &waiting.trouble {
            Some(trouble) => Error::new(trouble.kind, format!("{text}; {trouble}")),
            None => Error::new(ErrorKind::NotFound, text),
        }
    }
}

/// The next batch: what is there, up to `most`; `None` when all is read.
fn gather(ahead: &Receiver<String>, most: usize, over: &AtomicBool) -> Option<Vec<String>> {
    let mut batch = loop {
        match ahead.recv_timeout(PATIENCE) {
            _ if over.load(Relaxed) => return None,
            Ok(first) => break vec![first],
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    };
    let end = Instant::now() + LINGER;
    while batch.len() < most {
        match ahead.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(next) => batch.push(next),
            Err(_) => break,
        }
    }
    Some(batch)
}

/// That a run is given to some persons only.
fn controlled(row: &Row) -> Option<Error> {
    let (study, consent) = (row.get("dbgap_study_accession"), row.get("Consent"));
    if study.is_empty() && matches!(consent, "" | "public") {
        return None;
    }
    let (run, study) = (row.get("run_accession"), show(study.as_bytes()));
    let why =
        format!("{run}: under controlled access (dbGaP {study}); get it with prefetch and your .ngc file");
    Some(Error::new(ErrorKind::Denied, why))
}
