//! From accessions to records, as a stream: the first files are known before the last accession is asked for.
//!
//! Accessions are gathered into batches, a small one first. Each batch is a request or two to ENA; what its search
//! does not find is asked for one by one, what ENA does not know is asked of NCBI; SRA files are located a hundred runs at a time.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::sys::thread;
use tidegate_transfer::text::show;

use super::accession::{Accession, Kind, words};
use super::batch::{Asked, Batch};
use super::client::{ArchiveClient, ArchiveSettings};
use super::files::Offer;
use super::locate::{Locator, PendingRun};
use super::options::{Format, ResolveOptions, Source};
use super::report::Report;
use super::sdl;
use super::table::{Row, rows};
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
    client: Arc<ArchiveClient>,
}

impl Archives {
    /// With these settings; a base URL that is none is refused.
    pub fn new(settings: ArchiveSettings) -> Result<Self> {
        Ok(Self { client: Arc::new(ArchiveClient::new(settings)?) })
    }

    /// Resolves accessions as they come: lines with one or more of them, and `#` comments. Two threads do it,
    /// and end soon after the stream is dropped (the one that reads, when its iterator next answers).
    pub fn resolve(
        self: Arc<Self>,
        accessions: impl Iterator<Item = String> + Send + 'static,
        options: ResolveOptions,
    ) -> Names {
        let (found, names) = sync_channel(FILES_AHEAD);
        let (read, ahead) = sync_channel(READ_AHEAD);
        let over = Arc::new(AtomicBool::new(false));
        let report = Report { found: found.clone(), over: Arc::clone(&over) };
        let client = Arc::clone(&self.client);
        let locator = Locator { client, options, report: report.clone(), waiting: Vec::new() };
        let resolver = Resolver { locator, report, asked: HashSet::new(), seen: HashSet::new() };
        let reader = thread::Builder::new().name("accessions".to_owned()).spawn(move || {
            for line in accessions {
                for word in words(&line) {
                    if read.send(word.to_owned()).is_err() {
                        return;
                    }
                }
            }
        });
        // A thread that breaks must not look like a list that ends.
        let broken = |why: String| Named::problem("accessions", Error::new(ErrorKind::Io, why));
        let last = found.clone();
        let worker = thread::Builder::new().name("resolve".to_owned()).spawn(move || {
            let over = Arc::clone(&resolver.report.over);
            let done = catch_unwind(AssertUnwindSafe(|| resolver.run(&ahead)));
            drop(ahead);
            // Once nobody listens, the reader may wait for its iterator for ever.
            let read =
                if over.load(Relaxed) { Ok(()) } else { reader.map_or(Ok(()), thread::JoinHandle::join) };
            if done.and(read).is_err() {
                let _ = last
                    .send(broken("resolving stopped before the end of the list: a fault of ours".to_owned()));
            }
        });
        if let Err(error) = worker {
            let _ = found.try_send(broken(format!("cannot start a thread that resolves: {error}")));
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

/// What resolves a list.
struct Resolver {
    locator: Locator,
    report: Report,
    /// Accessions that were named before, and runs that were found before.
    asked: HashSet<Accession>,
    seen: HashSet<Box<str>>,
}

impl Resolver {
    fn run(mut self, ahead: &Receiver<String>) {
        let (mut number, mut most) = (0, FIRST_BATCH);
        while let Some(batch) = gather(ahead, most, &self.report.over) {
            self.batch(&mut number, batch);
            most = BATCH;
        }
    }

    fn batch(&mut self, number: &mut usize, words: Vec<String>) {
        let (client, over) = (Arc::clone(&self.locator.client), Arc::clone(&self.report.over));
        let mut batch = self.parse(number, words);
        if self.locator.options.source.has_ena() {
            let fields = self.locator.options.fields.clone();
            let mut alone = HashSet::new();
            for chunk in ena::chunks(batch.open(|_| true)) {
                ena::runs(&client, &chunk, &fields, &over, &mut |part, answer| {
                    if let [one] = part {
                        alone.insert(one.clone());
                    }
                    self.take(&mut batch, part, &answer);
                });
            }
            // What was asked for alone has been reported on.
            let lacking = batch.open(|asked| asked.trouble.is_none() && !alone.contains(&asked.accession));
            ena::reports(&client, &lacking, &fields, &over, &mut |part, answer| {
                self.take(&mut batch, part, &answer);
            });
        }
        if self.locator.options.source.has_ncbi() {
            self.ask_ncbi(&mut batch);
        }
        self.locator.locate();
        for asked in batch.missing() {
            if self.report.is_over() {
                return;
            }
            let error = asked.trouble.clone().unwrap_or_else(|| self.nothing(asked));
            self.report.problem(&asked.named, error);
        }
    }

    /// That an accession has no runs, as far as those asked know.
    fn nothing(&self, asked: &Asked) -> Error {
        let whom = match self.locator.options.source {
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
                Err(error) => {
                    self.report.problem(&show(word.as_bytes()), error.within(format!("item {number}")));
                }
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
        let mut targets = match eutils::geo(&self.locator.client, geo, &self.report.over) {
            Ok(targets) => targets,
            Err(error) => {
                for accession in geo {
                    self.report.problem(accession.as_str(), error.clone().within(accession));
                }
                return;
            }
        };
        for accession in geo {
            let name = accession.as_str();
            let Some(targets) = targets.remove(name) else {
                self.report
                    .problem(name, Error::new(ErrorKind::NotFound, format!("{name}: GEO does not know it")));
                continue;
            };
            if targets.is_empty() {
                let why = format!("{name}: GEO names no reads of it in the read archives");
                self.report.problem(name, Error::new(ErrorKind::NotFound, why));
            }
            let named: Arc<str> = name.into();
            targets.into_iter().for_each(|target| batch.add(target, Arc::clone(&named)));
        }
    }

    /// Takes in ENA's answer about some accessions.
    fn take(&mut self, batch: &mut Batch, part: &[Accession], answer: &Result<Option<String>>) {
        let rows = match answer {
            Ok(None) => return,
            Ok(Some(text)) => rows(text),
            Err(error) => Err(error.clone()),
        };
        match rows {
            Ok(rows) => self.rows(batch, part, rows, true),
            Err(error) => batch.trouble(part, &error),
        }
    }

    /// Takes in rows. One that cannot be read may be a run that was asked for, so it is told.
    fn rows(
        &mut self,
        batch: &mut Batch,
        part: &[Accession],
        rows: impl Iterator<Item = Result<Row>>,
        at_ena: bool,
    ) {
        let mut bad: Option<(usize, Error)> = None;
        for row in rows {
            if self.report.is_over() {
                return;
            }
            if let Err(error) = row.and_then(|row| self.row(batch, part, row, at_ena)) {
                let (count, first) = bad.unwrap_or((0, error));
                bad = Some((count + 1, first));
            }
        }
        if let Some((count, first)) = bad {
            let whose = if at_ena { "ENA" } else { "NCBI" };
            let name = if let [one] = part { one.as_str() } else { whose };
            let why = format!("{count} rows of {whose}'s answer cannot be read, the first since {first}");
            self.report.problem(name, Error::protocol(why));
        }
    }

    /// Asks NCBI for the runs of what was not found so far.
    fn ask_ncbi(&mut self, batch: &mut Batch) {
        // What ENA could not be asked for it may well have: nobody else has its FASTQ.
        let needs_ena =
            self.locator.options.source == Source::Auto && self.locator.options.format == Format::Fastq;
        let part = batch.open(|asked| !needs_ena || asked.trouble.is_none());
        if part.is_empty() || self.report.is_over() {
            return;
        }
        match eutils::runinfo(&self.locator.client, &part, &self.report.over) {
            Ok(rows) => self.rows(batch, &part, rows.into_iter().map(Ok), false),
            Err(error) => batch.trouble(&part, &error),
        }
    }

    /// Takes in one run: marks whom it belongs to, and sees what there is of it.
    fn row(&mut self, batch: &mut Batch, part: &[Accession], row: Row, at_ena: bool) -> Result<()> {
        let run = row.get("run_accession").parse::<Accession>().ok().filter(|run| run.kind() == Kind::Run);
        let Some(run) = run else {
            let why = format!("its run_accession is {:?}", show(row.get("run_accession").as_bytes()));
            return Err(Error::protocol(why));
        };
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
        let Some(named) = named else { return Ok(()) };
        if !self.seen.insert(run.as_str().into()) {
            return Ok(());
        }
        if let Some(error) = controlled(&row) {
            self.report.problem(run.as_str(), error);
            return Ok(());
        }
        let offer =
            if at_ena { Offer::at_ena(&row, self.locator.options.protocol) } else { Ok(Offer::default()) };
        let offer = match offer {
            Ok(offer) => offer,
            Err(error) => {
                self.report.problem(run.as_str(), error.within(&run));
                return Ok(());
            }
        };
        let waiting = PendingRun { row, named, offer, refusal: None, trouble: None };
        let here = !waiting.offer.files(self.locator.options.format).is_empty();
        // Of FASTQ and of what was submitted ENA has all there is; SRA files have mirrors.
        let enough = here && matches!(self.locator.options.format, Format::Fastq | Format::Submitted);
        if enough || !self.locator.options.source.has_ncbi() {
            self.locator.settle(&waiting);
            return Ok(());
        }
        self.locator.waiting.push(waiting);
        if self.locator.waiting.len() >= sdl::MAX_RUNS {
            self.locator.locate();
        }
        Ok(())
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
