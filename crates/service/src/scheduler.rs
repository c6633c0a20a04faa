//! Takes jobs from the queue when their turn comes, gives each its share of the path, and sees to it that each
//! ends: by success, by giving up after so many tries, or because somebody wants it to.
//!
//! What is to happen is written to the queue first and done then. So whatever is lost with the service is only
//! work under way, which its successor finds in the queue and begins again.

mod estimates;
mod live;
mod outages;
mod outputs;
mod pause;
mod round;
mod shares;
mod size;
mod tally;
mod work;

pub use estimates::Chooser;
pub use live::Live;
pub(crate) use live::MAX_EPOCHS;
pub use shares::Limits;
pub use size::{Size, Sizes};
pub(crate) use tally::Tallied;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::text::{count, one_line};
use tidegate_control::{BitRate, ByteCount, Rng};
use tidegate_spec::pair::Pair;
use tokio::sync::{Mutex, Notify, Semaphore, broadcast, watch};
use tokio::task::JoinSet;

use crate::event_log::Logged;
use crate::history::{Decision, Recorder, Timestamp, Transfer};
use crate::job::{Event, Job, JobId, JobKind, Request, State};
use crate::mover::{BoxFuture, Mover};
use crate::queue::{Change, IdempotencyKey, Note, Queue, QueueError, Submission};
use crate::traffic::OwnTraffic;

use live::Tracker;
use shares::Table;
use tally::{DEPENDENCY, NO_CAUSE, Tally, USER};

/// Estimations that run at the same time; more wait.
const ESTIMATIONS: usize = 8;
/// Changes that a slow listener may be behind.
const CHANGES: usize = 1024;
/// Longest wait for jobs to stop where they can go on, when the service ends.
const STOPPING: Duration = Duration::from_secs(15);

/// What a path is expected to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimated {
    /// The chosen number of streams.
    pub streams: u16,
    /// What they reach; zero if that is not known, and then so many streams are only a guess.
    pub throughput: BitRate,
    /// Where that comes from, in one line.
    pub reason: String,
    /// The whole answer, for an estimation job.
    pub answer: serde_json::Value,
}

/// Tells with how many streams a job is to begin.
pub trait JobEstimator: Send + Sync + 'static {
    /// The estimate for a job that is given up to `most` streams; or why there is none, in one line. Dropping the
    /// future ends the measurement.
    fn estimate(&self, request: Arc<Request>, most: u16) -> BoxFuture<Result<Estimated, String>>;

    /// Where jobs tell what they move, so that what is measured beside them is known to be a share.
    fn traffic(&self) -> OwnTraffic {
        OwnTraffic::default()
    }

    /// The path MTU between two sites, where it can be told.
    fn path_mtu(&self, _pair: Pair) -> BoxFuture<Option<ByteCount>> {
        Box::pin(std::future::ready(None))
    }
}

/// What is remembered of jobs.
pub trait Memory: Send + Sync + 'static {
    /// Something was decided.
    fn decided(&self, decision: Decision);
    /// Data was moved.
    fn moved(&self, transfer: Transfer);
}

impl Memory for Recorder {
    fn decided(&self, decision: Decision) {
        self.record(decision);
    }

    fn moved(&self, transfer: Transfer) {
        // What GridFTP moved with one number of streams is as good as a sample of it.
        if let Some(sample) = transfer.as_sample() {
            self.record(sample);
        }
        self.record(transfer);
    }
}

/// What a scheduler works with.
pub struct Parts {
    /// The jobs.
    pub queue: Arc<Queue>,
    /// What moves their data.
    pub mover: Arc<dyn Mover>,
    /// What tells with how many streams.
    pub estimator: Arc<dyn JobEstimator>,
    /// What remembers.
    pub memory: Arc<dyn Memory>,
    /// How much may run at the same time.
    pub limits: Limits,
    /// Of pauses drawn by chance.
    pub seed: u64,
}

/// A job that runs.
struct Active {
    /// Becomes true when it is to stop.
    stop: watch::Sender<bool>,
    /// Its streams.
    share: watch::Sender<u16>,
    tracker: Arc<std::sync::Mutex<Tracker>>,
}

/// What runs.
struct Board {
    table: Table,
    active: HashMap<JobId, Active>,
    tasks: JoinSet<()>,
    rng: Rng,
}

struct SchedulerState {
    queue: Arc<Queue>,
    mover: Arc<dyn Mover>,
    estimator: Arc<dyn JobEstimator>,
    traffic: OwnTraffic,
    memory: Arc<dyn Memory>,
    limits: Limits,
    /// Held for as long as it takes to begin or end one job.
    board: Mutex<Board>,
    /// The latest of each job that runs, to be looked at without waiting.
    trackers: std::sync::Mutex<BTreeMap<JobId, Arc<std::sync::Mutex<Tracker>>>>,
    estimations: Semaphore,
    tally: Tally,
    /// Something may be ready to begin.
    work: Notify,
    stopping: watch::Sender<bool>,
    /// What waits for room to be written.
    late: Arc<Semaphore>,
    changes: broadcast::Sender<(JobId, State)>,
}

/// The scheduler; clones are the same one.
#[derive(Clone)]
pub struct Scheduler {
    shared: Arc<SchedulerState>,
}

impl Scheduler {
    /// Begins with what the service before this one left.
    pub async fn start(parts: Parts) -> Result<Self, QueueError> {
        let Parts { queue, mover, estimator, memory, limits, seed } = parts;
        let recovered = queue.recover(now_ms()).await?;
        if !recovered.is_empty() {
            tracing::info!(
                "{} under way when the service ended: they go on",
                count(recovered.len() as u64, "job")
            );
        }
        let board = Board {
            table: Table::new(limits),
            active: HashMap::new(),
            tasks: JoinSet::new(),
            rng: Rng::new(seed),
        };
        let shared = Arc::new(SchedulerState {
            queue,
            mover,
            traffic: estimator.traffic(),
            estimator,
            memory,
            limits,
            board: Mutex::new(board),
            trackers: std::sync::Mutex::default(),
            estimations: Semaphore::new(ESTIMATIONS),
            tally: Tally::default(),
            work: Notify::new(),
            stopping: watch::Sender::new(false),
            late: Arc::new(Semaphore::new(outputs::MAX_LATE)),
            changes: broadcast::Sender::new(CHANGES),
        });
        let rounds = Arc::clone(&shared);
        tokio::spawn(async move { rounds.go_round().await });
        Ok(Self { shared })
    }

    /// Takes a batch of jobs, whole or not at all; answers with their numbers once they are on disk. Estimations
    /// begin at once and wait for no transfer.
    pub async fn submit(&self, requests: &[Request]) -> Result<Vec<JobId>, QueueError> {
        self.submit_once(None, requests).await.map(|submission| submission.ids)
    }

    /// The same; but what was submitted under the `key` before is not taken again.
    pub async fn submit_once(
        &self,
        key: Option<&IdempotencyKey>,
        requests: &[Request],
    ) -> Result<Submission, QueueError> {
        let shared = &self.shared;
        let submission = shared.queue.submit_once(key, requests, now_ms()).await?;
        if submission.repeated {
            return Ok(submission);
        }
        let ids = &submission.ids;
        for (id, request) in ids.iter().zip(requests) {
            shared.log(*id, request, &Logged::submitted(request)).await;
            if request.kind == JobKind::Estimation {
                shared.begin_estimation(*id, Arc::new(request.clone())).await;
            }
        }
        shared.work.notify_one();
        Ok(submission)
    }

    /// Ends a job; one that runs stops in a moment. Answers with the state that it is in now.
    pub async fn cancel(&self, id: JobId) -> Result<State, QueueError> {
        self.ask(id, Event::Cancel, "cancelled by its user").await
    }

    /// Lets a job rest; one that runs stops where it can go on.
    pub async fn pause(&self, id: JobId) -> Result<State, QueueError> {
        self.ask(id, Event::Pause, "paused by its user").await
    }

    /// Puts a job that rests back in line.
    pub async fn resume(&self, id: JobId) -> Result<State, QueueError> {
        self.ask(id, Event::Resume { blocked: false }, "resumed by its user").await
    }

    /// Puts a failed job back in line, and those that failed for it; with `alike` also all others that failed for
    /// the same reason. Answers with how many wait again.
    pub async fn retry(&self, id: JobId, alike: bool) -> Result<u64, QueueError> {
        let shared = &self.shared;
        let note = Note::why("tried again by its user");
        let reason = shared.queue.get(id).await?.map(|job| job.reason).unwrap_or_default();
        let (mut changed, done) = (shared.queue.retry(id, &note, now_ms()).await?, id);
        let (mut count, mut last) = (0, None);
        loop {
            count += changed.len() as u64;
            for (id, change) in changed {
                shared.tell(id, &change, &note).await;
                if let Ok(Some(job)) = shared.queue.get(id).await
                    && job.request.kind == JobKind::Estimation
                    && job.state == State::Queued
                {
                    shared.begin_estimation(id, Arc::new(job.request)).await;
                }
            }
            shared.work.notify_one();
            if !alike {
                return Ok(count);
            }
            // Each job once: one that is begun at once may have failed again by now.
            (changed, last) = shared.queue.retry_alike(&reason, (done, last), &note, now_ms()).await?;
            if last.is_none() {
                return Ok(count);
            }
        }
    }

    /// The queue, to be looked at.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.shared.queue
    }

    /// How a job that runs is doing: its progress, its latest epochs, and those to come.
    pub fn live(&self, id: JobId) -> Option<Live> {
        let trackers = self.shared.trackers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let tracker = Arc::clone(trackers.get(&id)?);
        drop(trackers);
        let tracker = tracker.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Some(tracker.live())
    }

    /// A job as it stands, with its latest progress if it runs.
    pub async fn job(&self, id: JobId) -> Result<Option<Job>, QueueError> {
        let mut job = self.shared.queue.get(id).await?;
        if let Some(job) = &mut job {
            self.look(job);
        }
        Ok(job)
    }

    /// A page of jobs as [`Queue::page`] gives it, with the latest progress of those that run.
    pub async fn page(
        &self,
        states: &[State],
        before: Option<JobId>,
        limit: u32,
    ) -> Result<Vec<Job>, QueueError> {
        let mut jobs = self.shared.queue.page(states, before, limit).await?;
        jobs.iter_mut().for_each(|job| self.look(job));
        Ok(jobs)
    }

    /// Has a job tell how far it is by now, and what it waits for.
    fn look(&self, job: &mut Job) {
        let live = if job.state.is_active() { self.live(job.id) } else { None };
        let stall = live.as_ref().and_then(|live| live.stall.as_ref());
        outages::show(job, stall, |request| self.shared.queue.pair_of(request).ok());
        if let Some(live) = live {
            job.progress = live.progress;
        }
    }

    /// What jobs did since the service began.
    pub(crate) fn tallied(&self) -> Tallied {
        self.shared.tally.so_far()
    }

    /// Changes of jobs from now on. A listener that falls behind misses some, and is told so.
    pub fn changes(&self) -> broadcast::Receiver<(JobId, State)> {
        self.shared.changes.subscribe()
    }

    /// Waits until a job has ended, and answers with it; `None` if there is no such job.
    pub async fn wait(&self, id: JobId) -> Result<Option<Job>, QueueError> {
        let mut changes = self.changes();
        loop {
            match self.job(id).await? {
                Some(job) if !job.state.is_final() => {}
                ended => return Ok(ended),
            }
            // Whoever missed some looks again.
            while let Ok((changed, _)) = changes.recv().await {
                if changed == id {
                    break;
                }
            }
        }
    }

    /// Begins no more jobs, and lets those that run stop where they can go on; waits for them, but not for ever.
    pub async fn stop(&self) {
        self.shared.stopping.send_replace(true);
        let mut board = self.shared.board.lock().await;
        for active in board.active.values() {
            active.stop.send_replace(true);
        }
        let mut tasks = std::mem::take(&mut board.tasks);
        drop(board);
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOPPING, all).await.is_err() {
            tracing::warn!("some jobs did not stop within {} s and are killed", STOPPING.as_secs());
        }
    }

    async fn ask(&self, id: JobId, event: Event, why: &str) -> Result<State, QueueError> {
        let shared = &self.shared;
        let change = shared.change(id, event, &Note::why(why)).await?;
        if matches!(change.to, State::Cancelling | State::Pausing) {
            let board = shared.board.lock().await;
            if let Some(active) = board.active.get(&id) {
                active.stop.send_replace(true);
            }
        }
        shared.work.notify_one();
        Ok(change.to)
    }
}

impl SchedulerState {
    /// Writes a change to the queue, and tells everybody.
    async fn change(&self, id: JobId, event: Event, note: &Note) -> Result<Change, QueueError> {
        let change = self.queue.change(id, event, note, now_ms()).await?;
        self.tell(id, &change, note).await;
        Ok(change)
    }

    async fn tell(&self, id: JobId, change: &Change, note: &Note) {
        // Nobody may be listening.
        let _ = self.changes.send((id, change.to));
        let others = change.doomed.iter().map(|id| (*id, State::Failed));
        for told in change.released.iter().map(|id| (*id, State::Queued)).chain(others) {
            let _ = self.changes.send(told);
        }
        if !change.released.is_empty() {
            self.work.notify_one();
        }
        if change.to.is_final() {
            let cause = if change.to == State::Cancelled { USER } else { note.cause.unwrap_or(NO_CAUSE) };
            self.tally.ended(change.to, cause);
        }
        change.doomed.iter().for_each(|_| self.tally.ended(State::Failed, DEPENDENCY));
        let logged = match change.to {
            State::Paused => Logged::Paused,
            State::Queued | State::Blocked if matches!(change.from, State::Paused | State::Failed) => {
                Logged::Resumed
            }
            State::Done => Logged::Done(note.summary.clone().map(Box::new)),
            State::Failed => Logged::Failed(note.reason.clone()),
            State::Cancelled => Logged::Cancelled,
            _ => return,
        };
        let ended = change.to.is_final().then(|| (id, logged.clone()));
        let ended = ended.into_iter().chain(change.doomed.iter().map(|doomed| {
            (*doomed, Logged::Failed(format!("it waited for job {id}, which {}", change.to.in_words())))
        }));
        let rest = (!change.to.is_final()).then_some((id, logged));
        for (id, logged) in rest.into_iter().chain(ended) {
            if let Ok(Some(job)) = self.queue.get(id).await {
                self.log(id, &job.request, &logged).await;
            }
        }
    }

    fn decide(&self, pair: &Pair, id: JobId, state: &[(&str, f64)], action: String, reason: String) {
        tracing::debug!("job {id}: {action}: {}", one_line(&reason));
        self.memory.decided(Decision {
            pair: pair.clone(),
            job: Some(id.to_string()),
            state: state.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            action,
            reason,
            at: Timestamp::now(),
        });
    }

    fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }
}

fn now_ms() -> i64 {
    Timestamp::now().0
}
