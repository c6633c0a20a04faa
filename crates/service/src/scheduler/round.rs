//! Who begins: round after round, the most urgent job that limits admit.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tidegate_contract::text::count;
use tidegate_spec::pair::Pair;
use tokio::sync::watch;

use crate::job::{Event, JobId, JobKind, Request, State};
use crate::queue::{Candidate, Note, QueueError};

use super::live::Tracker;
use super::{Active, Board, SchedulerState, now_ms, work};

/// The longest time between two rounds: nothing is missed for longer, whatever happens.
const LONGEST: Duration = Duration::from_secs(30);
/// The rest after the queue failed.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

impl SchedulerState {
    /// Goes round until the service stops.
    pub(super) async fn go_round(self: Arc<Self>) {
        let mut stopping = self.stopping.subscribe();
        while !self.is_stopping() {
            let rest = match self.round().await {
                Ok(rest) => rest,
                Err(error) => {
                    tracing::error!("{error}");
                    AFTER_FAILURE
                }
            };
            tokio::select! {
                () = self.work.notified() => {}
                () = tokio::time::sleep(rest) => {}
                _ = stopping.wait_for(|stopping| *stopping) => return,
            }
        }
    }

    /// Begins everything that may begin; answers with how long nothing is due.
    async fn round(self: &Arc<Self>) -> Result<Duration, QueueError> {
        let due = self.queue.release_due(now_ms()).await?;
        while self.begin_next().await? {}
        let rest = due.map(|due| Duration::from_millis(u64::try_from(due - now_ms()).unwrap_or(0)));
        Ok(rest.unwrap_or(LONGEST).clamp(Duration::from_millis(10), LONGEST))
    }

    /// Begins the next job; answers with whether there was one.
    async fn begin_next(self: &Arc<Self>) -> Result<bool, QueueError> {
        let mut board = self.board.lock().await;
        if self.is_stopping() {
            return Ok(false);
        }
        while board.tasks.try_join_next().is_some() {}
        let candidates = self.queue.next().await?;
        let next = candidates.into_iter().find(|next| {
            // One that still stops from its last run is not begun beside it.
            !board.active.contains_key(&next.id)
                && (next.request.kind == JobKind::Estimation || board.table.admits(&next.pair))
        });
        let Some(Candidate { id, priority, pair, request, submitted_ms }) = next else { return Ok(false) };
        let change = match self.queue.change(id, Event::Claimed, &Note::why("begun"), now_ms()).await {
            Ok(change) => change,
            // Its user was quicker.
            Err(QueueError::Illegal(..)) => return Ok(true),
            Err(error) => return Err(error),
        };
        let _ = self.changes.send((id, change.to));
        let request = Arc::new(request);
        if request.kind == JobKind::Estimation {
            self.run_estimation(&mut board, id, pair, request);
            return Ok(true);
        }
        let demand = self.mover.demand(&request);
        board.table.begin(id, pair.clone(), demand);
        let shares = board.table.shares(&pair);
        let share = shares.iter().find(|(job, _)| *job == id).map_or(1, |(_, share)| *share);
        let active = Active::new(share);
        let task = work::Task {
            shared: Arc::clone(self),
            id,
            pair: pair.clone(),
            request,
            stop: active.stop.subscribe(),
            share: active.share.subscribe(),
            tracker: Arc::clone(&active.tracker),
        };
        self.track(id, &active);
        board.active.insert(id, active);
        // Who runs already gives up its part before the new one begins.
        self.divide(&board, &pair, &format!("job {id} begins"), Some(id));
        let waited = (now_ms() - submitted_ms).max(0) as f64 / 1000.0;
        let beside = board.table.between(&pair) - 1;
        self.decide(
            &pair,
            id,
            &[("jobs", beside as f64 + 1.0), ("streams", f64::from(share)), ("waited_s", waited)],
            format!("begin with up to {}", count(share, "stream")),
            format!(
                "priority {priority}, waited {waited:.1} s, {} between these sites",
                count(beside as u64, "other")
            ),
        );
        board.tasks.spawn(task.run());
        Ok(true)
    }

    /// Begins an estimation that was just submitted, whatever else runs.
    pub(super) async fn begin_estimation(self: &Arc<Self>, id: JobId, request: Arc<Request>) {
        let mut board = self.board.lock().await;
        // One that the service stops before begins with the next.
        if !self.is_stopping()
            && let Ok(pair) = self.queue.pair_of(&request)
        {
            self.run_estimation(&mut board, id, pair, request);
        }
    }

    fn run_estimation(self: &Arc<Self>, board: &mut Board, id: JobId, pair: Pair, request: Arc<Request>) {
        let active = Active::new(1);
        let task =
            work::Estimation { shared: Arc::clone(self), id, pair, request, stop: active.stop.subscribe() };
        self.track(id, &active);
        board.active.insert(id, active);
        board.tasks.spawn(task.run());
    }

    fn track(&self, id: JobId, active: &Active) {
        let mut trackers = self.trackers.lock().unwrap_or_else(PoisonError::into_inner);
        trackers.insert(id, Arc::clone(&active.tracker));
    }

    /// A job has ended, and others share what it had.
    pub(super) async fn has_ended(&self, id: JobId) {
        let mut board = self.board.lock().await;
        board.active.remove(&id);
        self.trackers.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if let Some(pair) = board.table.end(id) {
            self.divide(&board, &pair, &format!("job {id} has ended"), None);
        }
        drop(board);
        self.work.notify_one();
    }

    /// A job that cannot change its streams has begun with so many.
    pub(super) async fn settle(&self, id: JobId, pair: &Pair, streams: u16) {
        let mut board = self.board.lock().await;
        board.table.settle(id, streams);
        self.divide(&board, pair, &format!("job {id} keeps {}", count(streams, "stream")), Some(id));
    }

    /// Hands every job between two sites its share; `new` is not told of as a change.
    fn divide(&self, board: &Board, pair: &Pair, why: &str, new: Option<JobId>) {
        let shares = board.table.shares(pair);
        let streams = count(board.table.budget(pair), "stream");
        let divided = match shares.len() {
            1 => format!("1 job has all {streams}"),
            many => format!("{many} jobs share {streams}"),
        };
        for &(id, share) in &shares {
            let Some(active) = board.active.get(&id) else { continue };
            let before = *active.share.borrow();
            if active.share.send_replace(share) == share || new == Some(id) {
                continue;
            }
            self.decide(
                pair,
                id,
                &[
                    ("jobs", shares.len() as f64),
                    ("streams_before", f64::from(before)),
                    ("streams", f64::from(share)),
                ],
                format!("use up to {}", count(share, "stream")),
                format!("{why}: {divided}"),
            );
        }
    }

    /// Whether a job is still meant to run.
    pub(super) async fn is_wanted(&self, id: JobId) -> bool {
        !matches!(self.queue.get(id).await, Ok(Some(job)) if job.state != State::Running)
    }
}

impl Active {
    fn new(share: u16) -> Self {
        Self {
            stop: watch::Sender::new(false),
            share: watch::Sender::new(share),
            tracker: Arc::new(std::sync::Mutex::new(Tracker::new())),
        }
    }
}
