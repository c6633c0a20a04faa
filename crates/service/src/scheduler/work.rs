//! One attempt at one job: estimated, run, and concluded.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_contract::error_kind::Retry;
use tidegate_contract::summary::{Status, Summary};
use tidegate_contract::text::{count, one_line};
use tidegate_control::units::duration_in_words;
use tidegate_control::{BitRate, ByteCount, PerStage};
use tidegate_spec::address::Route;
use tidegate_spec::pair::Pair;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::event_log::Logged;
use crate::history::{Circumstances, Origin, Timestamp, Transfer};
use crate::job::{Event, JobId, JobKind, Request};
use crate::mover::{Away, Class, Ended, Outcome, Run};
use crate::queue::{GIVEN_UP, Note, QueueError};
use crate::traffic::OwnJob;

use super::estimates::conditions_of;
use super::live::{Telling, Tracker};
use super::outages::{self, lasted};
use super::outputs::result_of;
use super::pause::{outage, pause};
use super::{Estimated, SchedulerState, now_ms};

/// How often the log tells of progress.
const TELLING: Duration = Duration::from_secs(10);
/// Epochs on their way to the tracker.
const EPOCHS: usize = 64;
/// The rest before an end that could not be written is written again.
const AGAIN: Duration = Duration::from_secs(1);

/// An attempt at a transfer.
#[derive(Clone)]
pub(crate) struct Task {
    pub shared: Arc<SchedulerState>,
    pub id: JobId,
    pub pair: Pair,
    pub request: Arc<Request>,
    pub stop: watch::Receiver<bool>,
    pub share: watch::Receiver<u16>,
    pub(crate) tracker: Arc<Mutex<Tracker>>,
}

/// An estimation that was asked for as a job.
pub(crate) struct Estimation {
    pub shared: Arc<SchedulerState>,
    pub id: JobId,
    pub pair: Pair,
    pub request: Arc<Request>,
    pub stop: watch::Receiver<bool>,
}

impl Task {
    /// Runs it to its end, and writes that down.
    pub async fn run(self) {
        // In a task of its own: whatever goes wrong in it, the job ends.
        let attempt = self.clone();
        let attempt = tokio::spawn(async move { attempt.attempt().await }).await;
        let (ended, mut past, circumstances) = attempt.unwrap_or_else(|error| {
            tracing::error!("job {}: {error}", self.id);
            (
                Ended::failed(Class::Passing, "the service made a mistake while it ran; its log says more"),
                Past { failures: u32::MAX, ..Past::default() },
                Circumstances::default(),
            )
        });
        let progress = self.tracker().progress();
        past.unmoved = self.tracker().unmoved();
        self.shared
            .tally
            .attempted(ended.outcome, ended.summary.as_ref().map_or(0, |summary| summary.files.ok));
        let summary = ended.summary.clone().map(|summary| past.with(summary, &self.request));
        self.remember(&ended, circumstances);
        let message = if ended.message.is_empty() { String::new() } else { format!("{}\n", ended.message) };
        self.shared.leave(self.id, &self.request, summary.as_ref().and_then(result_of), message).await;
        let note = Note { summary, progress: Some(progress), ..Note::default() };
        self.conclude(&ended, past, note).await;
        self.shared.has_ended(self.id).await;
    }

    /// How it ended, how the job fared before, and what its rate came of.
    async fn attempt(&self) -> (Ended, Past, Circumstances) {
        let Self { shared, id, request, .. } = self;
        let job = match shared.queue.get(*id).await {
            Ok(Some(job)) => job,
            Ok(None) => {
                let gone = Ended::failed(Class::Usage, "the job is gone");
                return (gone, Past::default(), Circumstances::default());
            }
            Err(error) => {
                let failed = Ended::failed(Class::Passing, error.to_string());
                return (failed, Past::default(), Circumstances::default());
            }
        };
        let (failures, outage_since_ms) = (job.failures, job.outage_since_ms);
        let past = Past { failures, outage_since_ms, summary: job.summary, ..Past::default() };
        shared.log(*id, request, &Logged::Started { attempt: job.attempts }).await;
        if let (Some(since), Some(away)) = (outage_since_ms, outages::away(past.summary.as_ref())) {
            self.tracker().goes_on_with(lasted(since), away);
        }
        let start = match self.estimate().await {
            Ok(start) => start,
            Err(stopped) => return (stopped, past, Circumstances::default()),
        };
        let policy = match shared.queue.policy(*id).await {
            Ok(policy) => policy,
            Err(error) => {
                return (Ended::failed(Class::Passing, error.to_string()), past, Circumstances::default());
            }
        };
        let demand = shared.mover.demand(request);
        let share = *self.share.borrow();
        if !demand.adapts {
            let streams = start.unwrap_or(share).min(share);
            shared.settle(*id, &self.pair, streams).await;
        }
        let (epochs, heard) = mpsc::channel(EPOCHS);
        let (outages, said) = mpsc::channel(EPOCHS);
        self.tracker().moves(telling(request));
        let run = Run {
            id: *id,
            attempt: job.attempts,
            submitted_ms: job.submitted_ms,
            request: outage_since_ms.map_or_else(|| Arc::clone(request), |since| within(request, since)),
            policy,
            start: start.map(|start| start.min(share)),
            most: demand.most.min(shared.limits.streams_per_pair).max(1),
            share: self.share.clone(),
            stop: self.stop.clone(),
            epochs,
            outages,
        };
        let mtu = shared.estimator.path_mtu(self.pair.clone()).await;
        let conditions = conditions_of(request, shared.limits.streams_per_pair, mtu);
        let mut own = shared.traffic.join(&self.pair);
        let running = shared.mover.run(run);
        let (ended, ()) = tokio::join!(running, self.listen(heard, said, &mut own));
        // What its epochs did not tell.
        let bytes = ended.summary.as_ref().map_or(0, |summary| summary.bytes + summary.unfinished_bytes);
        shared.tally.arrived(ByteCount(bytes).saturating_sub(own.moved()));
        (ended, past, Circumstances { conditions: Some(conditions), beside: Some(own.beside()) })
    }

    /// The streams to begin with; or how it ended, because somebody asked it to.
    async fn estimate(&self) -> Result<Option<u16>, Ended> {
        let Self { shared, id, request, pair, .. } = self;
        if !request.optimization || request.optimizer().is_some_and(|rule| rule.starts_with("fixed:")) {
            return Ok(None);
        }
        let mut stop = self.stop.clone();
        let most = shared.limits.streams_per_pair;
        let estimated = tokio::select! {
            estimated = shared.estimator.estimate(Arc::clone(request), most) => estimated,
            _ = stop.wait_for(|stop| *stop) => {
                let message = "stopped before it began to move".to_owned();
                return Err(Ended { outcome: Outcome::Stopped, message, summary: None });
            }
        };
        match estimated {
            Ok(Estimated { throughput: BitRate::ZERO, reason, .. }) => {
                shared.decide(pair, *id, &[], "start as the rule does".to_owned(), reason.clone());
                shared.log(*id, request, &Logged::NoEstimate(reason)).await;
                Ok(None)
            }
            Ok(Estimated { streams, throughput, reason, .. }) => {
                let streams = streams.clamp(1, most.max(1));
                let state = [("streams", f64::from(streams)), ("throughput_bps", throughput.0 as f64)];
                shared.decide(
                    pair,
                    *id,
                    &state,
                    format!("start with {}", count(streams, "stream")),
                    reason.clone(),
                );
                shared.log(*id, request, &Logged::Estimate { streams, throughput, reason }).await;
                Ok(Some(streams))
            }
            // A job need not be estimated to be moved.
            Err(why) => {
                shared.decide(
                    pair,
                    *id,
                    &[],
                    "start as the rule does".to_owned(),
                    format!("no estimate: {why}"),
                );
                shared.log(*id, request, &Logged::NoEstimate(why)).await;
                Ok(None)
            }
        }
    }

    /// Hears epochs until there are no more, and tells the log of them now and then, and of whom it waits for.
    async fn listen(
        &self,
        mut heard: mpsc::Receiver<tidegate_control::Epoch>,
        mut said: mpsc::Receiver<Away>,
        own: &mut OwnJob,
    ) {
        let mut told = Instant::now();
        loop {
            let next = told + TELLING;
            tokio::select! {
                epoch = heard.recv() => {
                    let Some(epoch) = epoch else { return };
                    self.hear(epoch, own);
                }
                Some(away) = said.recv() => {
                    let is_new = self.tracker().hear_away(away);
                    // The first one is told of at once.
                    if is_new {
                        self.tell_of_stall(true).await;
                        told = Instant::now();
                    }
                }
                () = tokio::time::sleep_until(next) => {
                    told = Instant::now();
                    let heard = self.tracker().progress_heard();
                    if !self.tell_of_stall(false).await && let Some(progress) = heard {
                        self.shared.log(self.id, &self.request, &Logged::Progress(progress)).await;
                    }
                }
            }
        }
    }

    fn hear(&self, epoch: tidegate_control::Epoch, own: &mut OwnJob) {
        if let Some(arrived) = &epoch.arrived {
            let more = own.has_moved(arrived.new_bytes);
            self.shared.tally.arrived(more);
        }
        if self.tracker().hear(epoch) {
            tracing::info!("job {}: goes on", self.id);
        }
    }

    /// Tells the log of the job why nothing gets on, and the service's own the first time; answers with whether that is so.
    async fn tell_of_stall(&self, first: bool) -> bool {
        let Some(stall) = self.tracker().stall() else { return false };
        let why = outages::in_words(&stall, Some(&self.pair));
        if first {
            tracing::warn!("job {}: {}", self.id, one_line(&why));
        }
        self.shared.log(self.id, &self.request, &Logged::Waits(why)).await;
        true
    }

    fn tracker(&self) -> MutexGuard<'_, Tracker> {
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn conclude(&self, ended: &Ended, past: Past, note: Note) {
        let Self { shared, id, request, pair, .. } = self;
        let failures = past.failures;
        let (event, note) = match ended.outcome {
            Outcome::Complete => (Event::Completed, Note { reason: said(note.summary.as_ref()), ..note }),
            Outcome::Stopped if shared.is_stopping() && shared.is_wanted(*id).await => (
                Event::Stopped,
                Note { reason: "the service stopped; it goes on with the next".to_owned(), ..note },
            ),
            Outcome::Stopped => (Event::Stopped, Note { reason: ended.message.clone(), ..note }),
            Outcome::Failed(class) if past.allows(class, ended, request) => {
                let (since, rest) = {
                    let rng = &mut shared.board.lock().await.rng;
                    match class.retry() {
                        Retry::Outage => {
                            let since = past.outage_since(ended);
                            // The last try is at the end of the time for it.
                            let left = left(request, since);
                            (Some(since), outage(lasted(since), rng).min(left))
                        }
                        _ => (None, pause(class, failures + 1, rng)),
                    }
                };
                let state = match since {
                    Some(since) => {
                        [("outage_s", lasted(since).as_secs_f64()), ("pause_s", rest.as_secs_f64())]
                    }
                    None => [("failures", f64::from(failures + 1)), ("pause_s", rest.as_secs_f64())],
                };
                let action = format!("try again in {:.1} s", rest.as_secs_f64());
                let why = format!("{class}: {}", ended.message);
                shared.decide(pair, *id, &state, action, why.clone());
                shared.log(*id, request, &Logged::Retrying { pause: rest, why }).await;
                let not_before = now_ms().saturating_add(i64::try_from(rest.as_millis()).unwrap_or(i64::MAX));
                (
                    Event::Broke,
                    Note {
                        reason: ended.message.clone(),
                        not_before_ms: Some(not_before),
                        outage_since_ms: since,
                        ..note
                    },
                )
            }
            Outcome::Failed(class) => {
                let tries = failures.saturating_add(1);
                let message = &ended.message;
                let why = match class.retry() {
                    Retry::Outage => {
                        let lasted = duration_in_words(lasted(past.outage_since(ended)));
                        format!("{}{GIVEN_UP}{lasted})", message.split(GIVEN_UP).next().unwrap_or(message))
                    }
                    Retry::Later if tries == 1 => format!("{message}{GIVEN_UP}1 try)"),
                    Retry::Later => format!("{message}{GIVEN_UP}{tries} tries)"),
                    Retry::Never => message.clone(),
                };
                shared.decide(
                    pair,
                    *id,
                    &[("failures", f64::from(tries))],
                    "give up".to_owned(),
                    format!("{class}: {why}"),
                );
                (Event::GaveUp, Note { reason: why, cause: Some(class.name()), ..note })
            }
        };
        let rest =
            note.not_before_ms.map(|at| Duration::from_millis(u64::try_from(at - now_ms()).unwrap_or(0)));
        tracing::info!("{}", in_words(*id, request, ended, rest));
        conclude(shared, *id, event, &note).await;
    }

    fn remember(&self, ended: &Ended, circumstances: Circumstances) {
        let Some(summary) = &ended.summary else { return };
        let streams = Some(summary.concurrency_mean.network).filter(|&streams| streams > 0.0);
        if summary.duration_ms == 0 {
            return;
        }
        self.shared.memory.moved(Transfer {
            pair: self.pair.clone(),
            origin: Origin::Own,
            job: Some(self.id.to_string()),
            bytes: ByteCount(summary.bytes),
            files: summary.files.ok,
            concurrency: PerStage { read: None, network: streams, write: None },
            optimizer: Some(summary.optimizer.clone()).filter(|name| !name.is_empty()),
            goodput: BitRate(summary.goodput_bps),
            duration: Duration::from_millis(summary.duration_ms),
            loss: None,
            rtt: None,
            retransmits: None,
            outcome: summary.status,
            reason: (!ended.message.is_empty()).then(|| ended.message.clone()),
            circumstances,
            at: Timestamp::now(),
        });
    }
}

/// An attempt in one line without secrets: which job, what was moved, how it went and how fast; and why it failed and
/// how long it `rests`.
fn in_words(id: JobId, request: &Request, ended: &Ended, rests: Option<Duration>) -> String {
    let route = request.route_in_words();
    let (result, why) = match ended.outcome {
        Outcome::Complete => ("complete".to_owned(), String::new()),
        Outcome::Stopped => ("stopped".to_owned(), String::new()),
        Outcome::Failed(class) => (format!("failed ({class})"), format!(": {}", ended.message)),
    };
    let moved = ended.summary.as_ref().filter(|summary| summary.bytes > 0 || summary.files.ok > 0);
    let moved = moved.map_or_else(String::new, |summary| {
        let (files, time) = (summary.files.ok, Duration::from_millis(summary.duration_ms).as_secs_f64());
        let (files, rate) = (count(files, "file"), BitRate(summary.goodput_bps));
        format!(", {} in {files}, {time:.1} s, {rate}", ByteCount(summary.bytes))
    });
    let again = rests.map_or_else(String::new, |rest| format!("; again in {:.1} s", rest.as_secs_f64()));
    one_line(&format!("job {id} {result}: {route}{moved}{why}{again}"))
}

/// How what moves a job tells how it gets on.
fn telling(request: &Request) -> Telling {
    match (request.kind, request.route()) {
        (JobKind::Spread, _) | (_, Ok(Route::GridFtp) | Err(_)) => Telling::Seldom,
        (_, Ok(Route::Copy)) => Telling::Always,
        (_, Ok(Route::Get | Route::Put)) => Telling::Mostly,
    }
}

/// How much longer an outage is outlived.
fn left(request: &Request, since_ms: i64) -> Duration {
    Duration::from_secs(request.retry_for_s).saturating_sub(lasted(since_ms))
}

/// The same job, of which a try outlives an outage no longer than the job does.
fn within(request: &Request, since_ms: i64) -> Arc<Request> {
    Arc::new(Request { retry_for_s: left(request, since_ms).as_secs(), ..request.clone() })
}

/// How a job fared so far.
#[derive(Clone, Debug, Default)]
struct Past {
    /// Failures, other than outages.
    failures: u32,
    outage_since_ms: Option<i64>,
    /// How long nothing was moved when the last try ended.
    unmoved: Duration,
    /// Of the tries before.
    summary: Option<Summary>,
}

impl Past {
    /// The summary of one more try, whose numbers are those of all of them.
    fn with(&self, last: Summary, request: &Request) -> Summary {
        match &self.summary {
            // What many hosts move is counted over all of their tries.
            Some(before) if request.kind != JobKind::Spread => last.after(before),
            _ => last,
        }
    }

    /// Since when nobody answers: what moved anything began another outage, which began while the try still ran.
    fn outage_since(&self, ended: &Ended) -> i64 {
        let moved = ended.summary.as_ref().is_some_and(|summary| summary.bytes > 0);
        let unmoved = i64::try_from(self.unmoved.as_millis()).unwrap_or(0);
        self.outage_since_ms.filter(|_| !moved).unwrap_or_else(|| now_ms().saturating_sub(unmoved))
    }

    /// Whether the job is tried again.
    fn allows(&self, class: Class, ended: &Ended, request: &Request) -> bool {
        match class.retry() {
            Retry::Outage => lasted(self.outage_since(ended)) < Duration::from_secs(request.retry_for_s),
            Retry::Later => self.failures < request.retries,
            Retry::Never => false,
        }
    }
}

impl Estimation {
    /// Finds out, and writes that down.
    pub async fn run(self) {
        let Self { shared, id, request, .. } = &self;
        let found = async {
            let _turn = shared.estimations.acquire().await;
            shared.estimator.estimate(Arc::clone(request), shared.limits.streams_per_pair).await
        };
        let stopped = async {
            // It may have been cancelled before anybody could be told.
            if shared.is_wanted(*id).await {
                let mut stop = self.stop.clone();
                let _ = stop.wait_for(|stop| *stop).await;
            }
        };
        let (event, note) = tokio::select! {
            found = found => match found {
                Ok(Estimated { streams, throughput, reason, answer }) => {
                    let logged = Logged::Estimate { streams, throughput, reason: reason.clone() };
                    shared.log(*id, request, &logged).await;
                    shared.decide(&self.pair, *id, &[("streams", f64::from(streams))], "answer".to_owned(), reason);
                    let summary = Summary { status: Status::Complete, estimate: Some(answer), ..Summary::default() };
                    let reason = format!("{}, {throughput}", count(streams, "stream"));
                    (Event::Completed, Note { summary: Some(summary), ..Note::why(reason) })
                }
                Err(why) => (Event::GaveUp, Note::why(why)),
            },
            () = stopped => (Event::Stopped, Note::why("stopped")),
        };
        let answer =
            note.summary.as_ref().and_then(|summary| serde_json::to_string_pretty(&summary.estimate).ok());
        let messages = match &note.summary {
            // What went wrong on the way to an answer.
            Some(summary) => notes_of(summary).map(|note| format!("{note}\n")).collect(),
            None => format!("{}\n", one_line(&note.reason)),
        };
        shared.leave(*id, request, answer, messages).await;
        conclude(shared, *id, event, &note).await;
        shared.has_ended(*id).await;
    }
}

/// What went wrong on the way to an estimate, a line each.
fn notes_of(summary: &Summary) -> impl Iterator<Item = String> {
    let notes = summary.estimate.as_ref().and_then(|answer| answer["notes"].as_array());
    notes.into_iter().flatten().filter_map(|note| note.as_str().map(one_line))
}

/// Writes down how a job ended; as often as it takes, for it did end so.
async fn conclude(shared: &SchedulerState, id: JobId, event: Event, note: &Note) {
    let mut told = false;
    loop {
        match shared.change(id, event, note).await {
            Ok(_) => return,
            Err(QueueError::Database { path, message }) if !shared.is_stopping() => {
                if !std::mem::replace(&mut told, true) {
                    tracing::error!(
                        "the queue {path}: {message}; the end of job {id} is written as soon as that works"
                    );
                }
                tokio::time::sleep(AGAIN).await;
            }
            Err(error) => {
                tracing::error!("job {id}: {error}");
                return;
            }
        }
    }
}

fn said(summary: Option<&Summary>) -> String {
    let Some(summary) = summary else { return "complete".to_owned() };
    match (summary.files.ok, summary.files.skipped) {
        (0, 1) => "complete: 1 file was there already".to_owned(),
        (0, skipped @ 2..) => format!("complete: {skipped} files were there already"),
        _ if summary.verified => "complete, all verified".to_owned(),
        _ => "complete".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_timed_from_when_nothing_moved_any_more() {
        let seconds = Duration::from_secs;
        let request = Request { retry_for_s: 30, ..Request::transfer("/a", "tg://h:1/b") };
        let ended = Ended::failed(Class::Unreachable, "nobody answers");
        let past = |unmoved| Past { unmoved: seconds(unmoved), ..Past::default() };
        // A first try that waited so long leaves no time for another one.
        assert!(!past(30).allows(Class::Unreachable, &ended, &request));
        assert!(past(20).allows(Class::Unreachable, &ended, &request));
        let since = past(20).outage_since(&ended);
        assert!(left(&request, since) <= seconds(10) && within(&request, since).retry_for_s <= 10);
        // What earlier tries waited counts, unless this one moved something.
        let earlier = Past { outage_since_ms: Some(now_ms() - 29_000), ..past(5) };
        assert!(lasted(earlier.outage_since(&ended)) >= seconds(29));
        let moved = Summary { bytes: 1, ..Summary::default() };
        let ended = Ended { summary: Some(moved), ..ended };
        assert!(lasted(earlier.outage_since(&ended)) < seconds(29));
    }
}
