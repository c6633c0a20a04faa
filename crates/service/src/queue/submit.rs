//! Jobs come in: a batch is taken whole, in one transaction, or not at all.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;

use sqlx::Row;
use tidegate_database::Transaction;
use tidegate_spec::pair::Pair;

use super::once::{IdempotencyKey, Once, Submission};
use super::{MAX_WAITING, Queue, QueueError, QueueResult, number};
use crate::job::file::MAX_JOBS;
use crate::job::{Dependency, Event, JobId, JobKind, Request, State};
use crate::names::Names;

/// A request that was checked, before its batch is written.
struct Checked<'a> {
    request: &'a Request,
    /// The same as it is kept, with the digest of its policy.
    kept: Cow<'a, Request>,
    json: String,
    pair: Pair,
    /// Jobs of the same batch that must be done first.
    siblings: Vec<usize>,
    /// Jobs that were there before.
    elders: Vec<JobId>,
}

impl Queue {
    /// Takes a batch of jobs; answers with their numbers once they are on disk.
    pub async fn submit(&self, requests: &[Request], now_ms: i64) -> QueueResult<Vec<JobId>> {
        self.submit_once(None, requests, now_ms).await.map(|submission| submission.ids)
    }

    /// The same; but what was submitted under the `key` before is not taken again.
    pub async fn submit_once(
        &self,
        key: Option<&IdempotencyKey>,
        requests: &[Request],
        now_ms: i64,
    ) -> QueueResult<Submission> {
        let once = key.map(|key| Once::new(key, requests));
        // What was taken is answered, whatever would be said to it today.
        if let Some(once) = &once
            && let Some(earlier) = self.earlier(self.database.reads(), once).await?
        {
            return Ok(earlier);
        }
        let waiting = self.waiting.load(Relaxed);
        if waiting + requests.len() as u64 > MAX_WAITING {
            return Err(QueueError::Full(waiting));
        }
        let refused = |number: usize, message: String| QueueError::Refused { number, message };
        if requests.len() > MAX_JOBS {
            return Err(refused(MAX_JOBS + 1, format!("a batch has at most {MAX_JOBS} jobs")));
        }
        let checked = check(requests, &self.names.remembered())?;
        let order = in_order(&checked)?;
        let mut tx = self.begin().await?;
        // It may have come twice at the same time.
        if let Some(once) = &once
            && let Some(earlier) = self.earlier(&mut *tx, once).await?
        {
            return Ok(earlier);
        }
        let mut pairs = HashMap::new();
        let mut elders = HashMap::new();
        let mut ids: Vec<Option<JobId>> = vec![None; checked.len()];
        let mut edges = Vec::new();
        for i in order {
            let job = &checked[i];
            let mut needs: HashSet<JobId> = job.siblings.iter().filter_map(|&sibling| ids[sibling]).collect();
            for &elder in &job.elders {
                let state = match elders.get(&elder) {
                    Some(state) => *state,
                    None => self.elder(&mut tx, elder).await?,
                };
                elders.insert(elder, state);
                match state {
                    None => {
                        return Err(refused(
                            i + 1,
                            format!("it waits for job {elder}, which does not exist"),
                        ));
                    }
                    Some(state @ (State::Failed | State::Cancelled)) => {
                        return Err(refused(
                            i + 1,
                            format!("it waits for job {elder}, which {}", state.in_words()),
                        ));
                    }
                    Some(State::Done) => {}
                    Some(_) => drop(needs.insert(elder)),
                }
            }
            let pair = match pairs.get(&job.pair) {
                Some(&pair) => pair,
                None => self.pair_number(&mut tx, &job.pair).await?,
            };
            pairs.insert(job.pair.clone(), pair);
            self.keep_policy(&mut tx, job).await?;
            let id = self.insert(&mut tx, job, pair, needs.len(), now_ms).await?;
            ids[i] = Some(id);
            edges.extend(needs.into_iter().map(|needed| (needed, id)));
        }
        for (needed, id) in edges {
            sqlx::query("INSERT INTO dependency (needs, job) VALUES ($1, $2)")
                .bind(number(needed))
                .bind(number(id))
                .execute(&mut *tx)
                .await
                .map_err(|error| self.failed(&error))?;
        }
        let ids: Vec<JobId> = ids.into_iter().flatten().collect();
        if let Some(once) = &once {
            self.remember(&mut tx, once, &ids, now_ms).await?;
        }
        self.commit(tx).await?;
        self.waiting.fetch_add(requests.len() as u64, Relaxed);
        Ok(Submission { ids, repeated: false })
    }

    async fn elder(&self, tx: &mut Transaction, id: JobId) -> QueueResult<Option<State>> {
        match self.state_of(tx, id).await {
            Ok((state, _)) => Ok(Some(state)),
            Err(QueueError::NoJob(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn pair_number(&self, tx: &mut Transaction, pair: &Pair) -> QueueResult<i64> {
        let insert = "INSERT INTO pair (source, destination) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        let select = "SELECT id FROM pair WHERE source = $1 AND destination = $2";
        let (source, destination) = (pair.source.as_str(), pair.destination.as_str());
        let made =
            sqlx::query(insert).bind(source.to_owned()).bind(destination.to_owned()).execute(&mut **tx).await;
        made.map_err(|error| self.failed(&error))?;
        let found = sqlx::query(select)
            .bind(source.to_owned())
            .bind(destination.to_owned())
            .fetch_one(&mut **tx)
            .await;
        found.and_then(|row| row.try_get(0)).map_err(|error| self.failed(&error))
    }

    /// Keeps what a learned rule decides by, before the job that names it.
    async fn keep_policy(&self, tx: &mut Transaction, job: &Checked<'_>) -> QueueResult<()> {
        let (Some(digest), Some(content)) = (&job.kept.policy, job.request.policy_content()) else {
            return Ok(());
        };
        let insert = "INSERT INTO policy (digest, content) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        let done = sqlx::query(insert).bind(digest.clone()).bind(content.to_vec()).execute(&mut **tx).await;
        done.map(drop).map_err(|error| self.failed(&error))
    }

    async fn insert(
        &self,
        tx: &mut Transaction,
        job: &Checked<'_>,
        pair: i64,
        waits_for: usize,
        now_ms: i64,
    ) -> QueueResult<JobId> {
        let state = match (job.request.kind, waits_for) {
            // It is answered at once: whoever submits it runs it.
            (JobKind::Estimation, 0) => State::Queued.after(Event::Claimed).unwrap_or(State::Queued),
            (_, 0) => State::Queued,
            _ => State::Blocked,
        };
        let runs = state == State::Running;
        let insert = concat!(
            "INSERT INTO job (pair, state, reason, priority, waits_for, submitted_ms, request, attempts, started_ms, policy) ",
            "VALUES ($1, $2, 'submitted', $3, $4, $5, $6, $7, $8, $9) RETURNING id"
        );
        let row = sqlx::query(insert)
            .bind(pair)
            .bind(state.name())
            .bind(i64::from(job.request.priority))
            .bind(i64::try_from(waits_for).unwrap_or(i64::MAX))
            .bind(now_ms)
            .bind(job.json.clone())
            .bind(i64::from(runs))
            .bind(runs.then_some(now_ms))
            .bind(job.kept.policy.clone())
            .fetch_one(&mut **tx)
            .await
            .map_err(|error| self.failed(&error))?;
        self.id(&row, 0)
    }
}

fn check<'a>(requests: &'a [Request], known: &Names) -> QueueResult<Vec<Checked<'a>>> {
    let mut names = HashMap::new();
    for (i, request) in requests.iter().enumerate() {
        if let Some(name) = &request.name
            && let Some(other) = names.insert(name.as_str(), i)
        {
            let message = format!("job {} of the batch is called {name:?} as well", other + 1);
            return Err(QueueError::Refused { number: i + 1, message });
        }
    }
    let mut checked = Vec::with_capacity(requests.len());
    for (i, request) in requests.iter().enumerate() {
        let refused = |message: String| QueueError::Refused { number: i + 1, message };
        request.check().map_err(|error| refused(error.to_string()))?;
        let pair = request.pair_by(known).map_err(refused)?;
        let kept = request.with_policy_named();
        let json = serde_json::to_string(&kept).map_err(|error| refused(error.to_string()))?;
        let (mut siblings, mut elders) = (Vec::new(), Vec::new());
        for dependency in &request.after {
            match dependency {
                Dependency::Id(id) => elders.push(*id),
                Dependency::Name(name) => {
                    let sibling = names.get(name.as_str());
                    siblings.push(*sibling.ok_or_else(|| {
                        refused(format!("it waits for {name:?}, and no job of the batch is called that"))
                    })?);
                }
            }
        }
        checked.push(Checked { request, kept, json, pair, siblings, elders });
    }
    Ok(checked)
}

/// An order in which every job comes behind those it waits for, and otherwise as they were given; a circle is
/// refused with its names.
fn in_order(jobs: &[Checked<'_>]) -> QueueResult<Vec<usize>> {
    let mut left: Vec<usize> = jobs.iter().map(|job| job.siblings.len()).collect();
    let mut dependents: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (i, job) in jobs.iter().enumerate() {
        for &sibling in &job.siblings {
            dependents.entry(sibling).or_default().push(i);
        }
    }
    let mut ready: std::collections::BTreeSet<usize> = (0..jobs.len()).filter(|&i| left[i] == 0).collect();
    let mut order = Vec::with_capacity(jobs.len());
    while let Some(i) = ready.pop_first() {
        order.push(i);
        for &dependent in dependents.get(&i).into_iter().flatten() {
            left[dependent] -= 1;
            if left[dependent] == 0 {
                ready.insert(dependent);
            }
        }
    }
    if order.len() == jobs.len() {
        return Ok(order);
    }
    // Going from one that waits to one that it waits for, a job is met again sooner or later.
    let mut at = (0..jobs.len()).find(|&i| left[i] > 0).unwrap_or(0);
    let (mut path, mut met) = (Vec::new(), HashSet::new());
    while met.insert(at) {
        path.push(at);
        let Some(&next) = jobs[at].siblings.iter().find(|&&sibling| left[sibling] > 0) else { break };
        at = next;
    }
    let circle = path.iter().skip_while(|&&i| i != at).take(10).chain([&at]);
    let names: Vec<&str> = circle.map(|&i| jobs[i].request.name.as_deref().unwrap_or("?")).collect();
    Err(QueueError::Refused {
        number: at + 1,
        message: format!("jobs wait for each other: {}", names.join(" → ")),
    })
}
