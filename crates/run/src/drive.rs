//! Runs whatever moves data under its rule: the control loop, who follows it, the log, and another try when the connection
//! was lost. What is moved, and between whom, is the [`Work`]'s business: a copy between endpoints, a download, an upload.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_contract::outage_line;
use tidegate_contract::rule_line::is_program;
use tidegate_contract::summary::{FailedFile, Files, Status, Summary};
use tidegate_control::optimizer::Optimizer;
use tidegate_control::path_memory::BEGINS;
use tidegate_control::units::duration_in_words;
use tidegate_control::{Arrival, BitRate, ByteCount, Epoch, PerStage, Stage, run};
use tidegate_spec::control::Control;
use tidegate_transfer::counters::Totals;
use tidegate_transfer::error::{Error, ErrorKind, Result, Retry, usage};
use tidegate_transfer::ledger::Ledger;
use tidegate_transfer::manifest::BLOCK;
use tidegate_transfer::outage::{NO_SUCH_NAME, Next, Outage, pause};
use tidegate_transfer::terms::Purpose;
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::transfer::route::{From, Setup, To, Transfer, begin};

use crate::audience::{Attempt, Audience, UnderWay};
use crate::capped::Capped;
use crate::followed;
use crate::lesson::Lesson;
use crate::own_rule::NEVER_ANSWERED;
use crate::recalled::Recalled;
use crate::recorder::Recorder;
use crate::run_memory::{RunMemory, notice};
use crate::ssh::{OverSsh, Words};
use crate::steady::UntilSteady;
use crate::summary;

pub use crate::summary::{Besides, ended_by, failed_file};

/// What moves data once it has begun.
pub struct Begun {
    /// What is driven.
    pub transfer: Transfer,
    /// What tells of single files under way, where that is known.
    pub under_way: Option<UnderWay>,
}

impl std::convert::From<Transfer> for Begun {
    fn from(transfer: Transfer) -> Self {
        Self { transfer, under_way: None }
    }
}

/// Whether all that has arrived is where it was to be.
pub type Landed<'a> = Box<dyn Fn() -> Result<()> + 'a>;

/// What is to be done, and how it is begun.
pub struct Work<'a> {
    /// Begins it.
    pub begin: Box<dyn FnMut() -> Result<Begun> + 'a>,
    /// How long it is begun again after it broke off, counted from when it last got on; never where that is zero.
    pub retry_for: Duration,
    /// The stages that it has here or at the other end.
    pub stages: &'static [Stage],
    /// Memory between the stages, at each end.
    pub staging: ByteCount,
    /// Stops it.
    pub interrupt: Interrupt,
    /// Whether both sides are only compared.
    pub dry: bool,
    /// What errors call the ends.
    pub words: Words,
    /// Fails if what has arrived is not where it was to be, as far as only this end can tell.
    pub landed: Landed<'a>,
}

impl<'a> Work<'a> {
    /// Moves `from` there `to` here or elsewhere, between endpoints of ours.
    pub fn transfer(from: From, to: To, setup: Setup, retry_for: Duration) -> Self {
        Self::between_endpoints(setup, retry_for, move |setup| begin(&from, &to, setup))
    }

    /// The same where ssh starts what is needed at one end or at both, for each try anew.
    pub(crate) fn over_ssh(
        mut ends: OverSsh,
        (from, to): (From, To),
        setup: Setup,
        retry_for: Duration,
    ) -> Self {
        let (plane, words) = (setup.terms.data_plane, ends.words());
        let work = Self::between_endpoints(setup, retry_for, move |setup| {
            let (from, to) = ends.reach(&from, &to, setup, plane)?;
            begin(&from, &to, setup)
        });
        Self { words, ..work }
    }

    fn between_endpoints(
        mut setup: Setup,
        retry_for: Duration,
        mut begin: impl FnMut(&mut Setup) -> Result<Transfer> + 'a,
    ) -> Self {
        Self {
            retry_for,
            stages: &Stage::ALL,
            staging: ByteCount(setup.terms.staging.0.max(4 * BLOCK) / BLOCK * BLOCK),
            interrupt: setup.interrupt.clone(),
            dry: setup.terms.purpose != Purpose::Copy,
            begin: Box::new(move || Ok(begin(&mut setup)?.into())),
            words: Words::default(),
            landed: Box::new(|| Ok(())),
        }
    }
}

impl Work<'_> {
    /// The same until its rate has stopped rising and was seen for so long.
    #[must_use]
    pub fn until_steady(mut self, least: Duration) -> Self {
        let mut begin = self.begin;
        self.begin = Box::new(move || {
            let begun = begin()?;
            Ok(Begun { transfer: Box::new(UntilSteady::new(begun.transfer, least)), ..begun })
        });
        self
    }

    /// The same between two places of this host: of the endpoint of ours that is `loopback` nobody needs to hear.
    #[must_use]
    pub(crate) fn at_home(mut self, loopback: Option<String>) -> Self {
        if let Some(place) = loopback {
            let (mut begin, who) = (self.begin, format!("the endpoint at {place}: "));
            self.begin = Box::new(move || {
                begin().map_err(|error| {
                    let message = error.message.strip_prefix(&who).unwrap_or(&error.message).to_owned();
                    Error { message, ..error }
                })
            });
        }
        self
    }
}

/// What to run, and who is told of it.
pub struct Job<'a> {
    /// What is done.
    pub work: Work<'a>,
    /// Who is told of it.
    pub audience: Box<dyn Audience + 'a>,
    /// Who decides.
    pub control: &'a Control,
    /// What it is called.
    pub title: String,
    /// Where each epoch is written as well.
    pub epochs: Option<PathBuf>,
    /// The directory for the run's log.
    pub state: PathBuf,
    /// What is remembered of the path, if anything is to be.
    pub memory: Option<RunMemory>,
}

/// How a job ended.
pub struct Ended {
    /// What happened.
    pub summary: Summary,
    /// What people are told besides.
    pub besides: Besides,
    /// What ended it early.
    pub error: Option<Error>,
    /// Every epoch.
    pub epochs: Vec<Epoch>,
    /// Bytes moved by the last try, those of files that were not completed included.
    pub moved: ByteCount,
}

impl Job<'_> {
    /// Runs the job to its end.
    pub fn run(self) -> Result<Ended> {
        self.run_and_show(|_| {})
    }

    /// The same, and shows each epoch to `show`.
    pub fn run_and_show(mut self, mut show: impl FnMut(&Epoch)) -> Result<Ended> {
        raise_file_limit();
        let mut lesson = Lesson::begin(self.control)?;
        let mut record = Recorder::new(self.epochs.as_deref(), &self.state)?;
        let started = Instant::now();
        let mut sum = Sum::default();
        let (mut outage, mut reached) = (Outage::default(), false);
        let mut optimizer = lesson.rule()?;
        let error = loop {
            let result = self.attempt(optimizer.as_mut(), &mut record, &mut show, started, &mut sum);
            lesson.take(optimizer.as_ref());
            let Err(error) = result.map_err(|error| self.work.words.error(error)) else { break None };
            if sum.moved_this_time || (sum.began && !reached) {
                outage.is_over();
            }
            reached = sum.began;
            if let Some(memory) = &mut self.memory {
                memory.learn(&record.epochs);
            }
            if error.kind.retry() != Retry::Outage || self.work.retry_for.is_zero() {
                break Some(error);
            }
            let is_misspelt = !reached && error.is_no_such_name();
            let most = if is_misspelt { NO_SUCH_NAME } else { Duration::MAX };
            let (failures, left, tell) = match outage.failed(Instant::now(), self.work.retry_for.min(most)) {
                Next::Again { failures, left, tell } => (failures, left, tell),
                Next::GiveUp(lasted) => {
                    let lasted = duration_in_words(lasted);
                    let why = format!("{error} (given up after {lasted})");
                    break Some(error.in_words(why));
                }
            };
            if tell && !is_misspelt {
                tracing::warn!("{}", outage_line::write(&error.to_string(), true, &duration_in_words(left)));
            }
            if !sleep(pause(failures, left), &self.work.interrupt) {
                break Some(Error::new(
                    ErrorKind::Interrupted,
                    "interrupted; run the same command again to continue",
                ));
            }
            // A program that runs is told that it begins again; any other rule does begin again.
            if !is_program(&self.control.spec.optimizer) {
                optimizer = lesson.rule()?;
            }
        };
        record.finish();
        if let (Some(memory), None) = (&self.memory, &error) {
            memory.keep(&record.epochs);
        }
        // Nothing was begun: the error is all there is to say.
        if let (Some(error), false) = (&error, sum.began) {
            return Err(error.clone());
        }
        lesson.keep(record.epochs.len());
        let duration = started.elapsed();
        let moved = ByteCount(sum.last.bytes_moved);
        if let Some(why) = &sum.not_kept {
            self.audience.complain(why);
        }
        for failure in &mut sum.failures {
            failure.message = self.work.words.text(&failure.message);
        }
        let summary = sum.summary(duration, &self, &record, error.as_ref());
        tracing::info!("{}", summary::line(&summary, &self.title));
        let setpoint = record.epochs.last().map(|epoch| epoch.concurrency);
        let besides = Besides { stages: self.work.stages, setpoint, dry: self.work.dry };
        Ok(Ended { summary, besides, error, epochs: record.epochs, moved })
    }

    fn attempt(
        &mut self,
        optimizer: &mut dyn Optimizer,
        record: &mut Recorder,
        show: &mut dyn FnMut(&Epoch),
        started: Instant,
        sum: &mut Sum,
    ) -> Result<()> {
        sum.moved_this_time = false;
        let Begun { transfer, mut under_way } = (self.work.begin)()?;
        let transfer = Capped::new(transfer, self.control.local.bounds.as_deref());
        sum.began = true;
        let ledger = Arc::clone(transfer.ledger());
        let alone = self.memory.as_ref().filter(|_| !transfer.is_shared());
        let held = alone.and_then(RunMemory::held).cloned();
        let mut transfer = Recalled::new(transfer, held.clone());
        let mut begins = None;
        let offset = started.elapsed();
        let earlier = sum.new;
        let (mut follower, mut never_answered) = (None, None);
        let interrupt = self.work.interrupt.clone();
        let (audience, title) = (&self.audience, &self.title);
        let (stages, staging) = (self.work.stages, self.work.staging);
        let result =
            run(&mut transfer, optimizer, self.control.local.start.map(PerStage::all), |epoch, next| {
                let Some(epoch) = epoch else {
                    if next.reason == Some(NEVER_ANSWERED) {
                        never_answered.clone_from(&next.notice);
                        interrupt.raise();
                    } else if let Some(notice) = &next.notice {
                        tracing::warn!("{notice}");
                    }
                    begins = held.as_ref().filter(|_| next.reason == Some(BEGINS)).map(notice);
                    if let Some(notice) = &begins {
                        tracing::info!("{notice}");
                    }
                    let (ledger, under_way, start) = (&ledger, under_way.take(), next.setpoint);
                    follower =
                        Some(audience.follow(Attempt { title, stages, staging, ledger, under_way, start }));
                    return;
                };
                let mut epoch = epoch.clone();
                epoch.t_ms += offset.as_millis() as u64;
                let arrival = ledger.arrival();
                epoch.arrived =
                    Some(Arrival { new_bytes: ByteCount(earlier + arrival.new_bytes.0), ..arrival });
                tracing::debug!("{}", followed::line(&epoch, &self.control.spec.optimizer, next.reason));
                if let Some(follower) = &follower {
                    follower.show(&epoch);
                }
                show(&epoch);
                if let Some(notice) = &epoch.notice {
                    tracing::warn!("{notice}");
                }
                // How it began is nothing to warn of.
                epoch.notice = epoch.notice.or_else(|| begins.take());
                record.add(epoch);
            });
        drop(follower);
        // Nobody remembers a share of a path, or goes on with it.
        if transfer.into_path().is_shared() {
            self.memory = None;
        }
        sum.add(&ledger);
        never_answered.map_or(result, |why| Err(usage(why)))?;
        (self.work.landed)()
    }
}

/// Totals over all tries.
#[derive(Default)]
struct Sum {
    began: bool,
    moved_this_time: bool,
    done: u64,
    bytes: u64,
    /// Bytes that came, committed or not.
    new: u64,
    again: u64,
    refreshed: u64,
    deleted: u64,
    /// What is kept of files that are not complete.
    kept: u64,
    /// What came for files that were not complete when a try ended, and that the next one went on with.
    carried: u64,
    not_kept: Option<String>,
    last: Totals,
    failures: Vec<FailedFile>,
}

impl Sum {
    fn add(&mut self, ledger: &Ledger) {
        let totals = ledger.totals();
        self.moved_this_time = totals.bytes_moved > 0;
        self.done += totals.files_done;
        self.bytes += totals.bytes_done;
        let new = ledger.arrival().new_bytes.0;
        self.new += new;
        self.again += totals.bytes_again;
        self.refreshed += ledger.files_refreshed();
        self.deleted += ledger.entries_deleted();
        // One that reached nobody says nothing of them.
        if totals.files_listed > 0 {
            self.kept = ledger.bytes_unfinished();
        }
        self.carried += new.saturating_sub(totals.bytes_done).min(ledger.bytes_unfinished());
        self.not_kept = ledger.not_kept().text().or(self.not_kept.take());
        // A later try lists everything again, and meets what earlier ones committed as already there.
        self.failures = ledger.failures().iter().map(failed_file).collect();
        self.last = totals;
    }

    fn summary(self, duration: Duration, job: &Job<'_>, record: &Recorder, error: Option<&Error>) -> Summary {
        let earlier = self.done - self.last.files_done;
        let failed = self.last.files_failed;
        // What was to be removed and was not is no file that failed.
        let complete = error.is_none() && failed == 0 && self.failures.is_empty();
        let unfinished = self.carried.min(self.kept);
        let bytes = self.bytes + (self.carried - unfinished);
        Summary {
            status: Status::of(error.map(|error| error.kind), failed.max(self.failures.len() as u64)),
            verified: complete,
            files: Files {
                total: self.last.files_listed,
                ok: self.done,
                failed,
                skipped: self.last.files_skipped.saturating_sub(earlier),
                refreshed: self.refreshed,
                deleted: self.deleted,
            },
            bytes,
            unfinished_bytes: unfinished,
            kept_bytes: if error.is_some() { self.kept } else { 0 },
            resent_bytes: self.again,
            duration_ms: duration.as_millis() as u64,
            goodput_bps: BitRate::over(ByteCount(bytes), duration).0,
            optimizer: job.control.spec.optimizer.clone(),
            concurrency_mean: record.concurrency_mean(),
            failures: self.failures,
            error: error.map(ToString::to_string),
            error_kind: error.map(|error| error.kind),
            errno: error.and_then(Error::errno),
            log: record.path.as_ref().map(|path| path.display().to_string()),
            ..Summary::default()
        }
    }
}

/// Waits; `false` if interrupted.
fn sleep(time: Duration, interrupt: &Interrupt) -> bool {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if interrupt.is_raised() {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
    true
}

/// Many small files in flight need many descriptors: asks for as many as we may have.
pub fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}
