//! Jobs over HTTP: submitted in batches, listed by pages, shown, paused, resumed, cancelled and tried again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_contract::text::one_line;
use tidegate_fleet::shards::Standing;
use tidegate_http::listener::Peer;
use tidegate_transfer::wire::ticket::Address;
use tokio::sync::Mutex;

use super::App;
use super::frame::{Path, QueryParams, Routes, Text};
use super::health::lost;
use super::operation::{JSON, Operation};
use super::problem::Problem;
use crate::history::{self, Decision};
use crate::job::file::{Format, JobsOfJson, read};
use crate::job::{Event, Job, JobId, JobKind, Request, State as JobState};
use crate::queue::{IdempotencyKey, Queue, QueueError, Submission};

/// Jobs of a page unless told otherwise, and at most.
const PAGES: (u32, u32) = (50, 100);
/// The header of a submission that is to be taken once.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The media types of job files that are not JSON.
const TOML: &str = "application/toml";
const CLASS_ADS: &str = "application/x-classad";

const TAG: &str = "jobs";
/// Decisions shown with a job; the newest.
const DECISIONS: u32 = 200;

/// The routes.
pub(crate) fn routes() -> Routes<Arc<App>> {
    let said = |name, summary| Operation::new(name, TAG, summary);
    let changes = |name, summary| {
        said(name, summary).of_job().answers::<View>(StatusCode::OK, "The job as it stands now.")
    };
    Routes::new()
        .get(
            "/api/v1/jobs",
            list,
            said("listJobs", "List jobs, the newest first.")
                .query::<Which>()
                .answers::<Page>(StatusCode::OK, "A page of jobs."),
        )
        .post("/api/v1/jobs", submit, submits())
        .get(
            "/api/v1/jobs/{id}",
            show,
            said("showJob", "Show a job, with what was decided for it.")
                .of_job()
                .answers::<View>(StatusCode::OK, "The job."),
        )
        .post("/api/v1/jobs/{id}/cancel", cancel, changes("cancelJob", "End a job. What arrived complete stays."))
        .post(
            "/api/v1/jobs/{id}/pause",
            pause,
            changes("pauseJob", "Let a job rest. What it moved is kept for when it goes on."),
        )
        .post("/api/v1/jobs/{id}/resume", resume, changes("resumeJob", "Let a job go on."))
        .post(
            "/api/v1/jobs/{id}/retry",
            retry,
            said(
                "retryJob",
                "Try a job again that failed, or that waits to be tried again, and those that failed because it did.",
            )
            .of_job()
            .query::<Alike>()
            .answers::<Retried>(StatusCode::OK, "The job as it stands now."),
        )
}

fn submits() -> Operation {
    Operation::new(
        "submitJobs",
        TAG,
        "Submit one job or a batch; all are taken or none. Answered when they are safe on disk.",
    )
    .header::<IdempotencyKey>(
        "Idempotency-Key",
        "What the client calls this batch, such as a UUID. The same batch under the same key is taken once: later \
         submissions are answered with the numbers of the first, also after a restart, for as long as its jobs are kept and \
         30 days at least. Other jobs under the same key are refused with 409.",
    )
    .reads::<JobsOfJson>()
    .reads_as::<TomlText>(TOML)
    .reads_as::<ClassAdsText>(CLASS_ADS)
    .answers::<Submitted>(
        StatusCode::OK,
        "It was submitted under the same key before: the numbers given then. Nothing was taken now.",
    )
    .answers::<Submitted>(StatusCode::CREATED, "The numbers given, in the order submitted.")
    .fails(StatusCode::CONFLICT)
}

/// A job file: the keys of a job request, or one `[[job]]` for each.
#[derive(JsonSchema)]
#[schemars(inline)]
struct TomlText(#[allow(dead_code, reason = "it is described alone")] String);

/// Stork submit ads, `[ dap_type = transfer; src_url = "…"; dest_url = "…"; ]`.
#[derive(JsonSchema)]
#[schemars(inline)]
struct ClassAdsText(#[allow(dead_code, reason = "it is described alone")] String);

/// What can be asked of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Action {
    Pause,
    Resume,
    Cancel,
    Retry,
}

/// A job as it stands.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Job")]
pub(crate) struct View {
    #[serde(flatten)]
    job: Job,
    /// What can be asked of it now.
    actions: Vec<Action>,
    /// What was decided for it, the oldest first; only where one job is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    decisions: Option<Vec<Decision>>,
    /// How its shards and movers stand, if many hosts move it.
    #[serde(skip_serializing_if = "Option::is_none")]
    spread: Option<Standing>,
}

impl View {
    /// Of `job`.
    pub fn new(job: Job) -> Self {
        let asked = [
            (Action::Pause, Event::Pause),
            (Action::Resume, Event::Resume { blocked: false }),
            (Action::Cancel, Event::Cancel),
            (Action::Retry, Event::Retry { blocked: false }),
        ];
        // What failed for another job is tried again with that one; what many hosts move is not held up.
        let held = |event| match event {
            Event::Retry { .. } => job.waits_for > 0,
            Event::Pause => job.request.kind == JobKind::Spread,
            _ => false,
        };
        let asked = asked.into_iter().filter(|(_, event)| !held(*event));
        let actions = asked.filter(|(_, event)| job.state.after(*event).is_ok());
        Self {
            actions: actions.map(|(action, _)| action).collect(),
            job: job.public(),
            decisions: None,
            spread: None,
        }
    }
}

/// Which jobs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Jobs in this state only.
    #[schemars(with = "Option<JobState>")]
    state: Option<String>,
    /// Most entries of the page.
    #[schemars(range(min = 1, max = PAGES.1), extend("default" = PAGES.0))]
    limit: Option<u32>,
    /// Where the page begins: `next` of the page before.
    cursor: Option<String>,
}

/// Numbers of jobs by state. A million jobs take a while to be counted, so they are counted for a tenth of the
/// time at most, however many ask.
#[derive(Default)]
pub(crate) struct Counts(Mutex<Option<Counted>>);

struct Counted {
    at: Instant,
    took: Duration,
    counts: BTreeMap<JobState, u64>,
}

impl Counts {
    /// As they are, or were a moment ago.
    pub async fn get(&self, queue: &Queue) -> Result<BTreeMap<JobState, u64>, QueueError> {
        // Whoever comes while they are counted waits for that count.
        let mut last = self.0.lock().await;
        if let Some(last) = &*last
            && last.at.elapsed() < last.took * 9
        {
            return Ok(last.counts.clone());
        }
        let began = Instant::now();
        let counts = queue.counts().await?;
        let took = began.elapsed();
        *last = Some(Counted { at: began + took, took, counts: counts.clone() });
        Ok(counts)
    }
}

/// A page of jobs.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "JobPage")]
struct Page {
    /// The jobs.
    jobs: Vec<View>,
    /// Where the next page begins, if there may be one.
    next: Option<String>,
    /// All jobs, by state.
    counts: BTreeMap<&'static str, u64>,
}

async fn list(
    State(app): State<Arc<App>>,
    QueryParams(which): QueryParams<Which>,
) -> Result<Json<Page>, Problem> {
    let see = "GET /api/v1/openapi.json tells what is expected";
    let state =
        which.state.as_deref().filter(|state| !state.is_empty()).map(str::parse::<JobState>).transpose();
    let state = state.map_err(|error| Problem::bad_request(error, see))?;
    let before = which.cursor.as_deref().map(number).transpose()?;
    let limit = which.limit.unwrap_or(PAGES.0).clamp(1, PAGES.1);
    let states: Vec<JobState> = state.into_iter().collect();
    let jobs = app.scheduler.page(&states, before, limit).await?;
    let next = (jobs.len() as u32 == limit).then(|| jobs.last().map(|job| job.id.to_string())).flatten();
    let counts = app.counts.get(app.scheduler.queue()).await?;
    let counts = counts.into_iter().map(|(state, count)| (state.name(), count)).collect();
    Ok(Json(Page { jobs: jobs.into_iter().map(View::new).collect(), next, counts }))
}

/// Jobs that were taken.
#[derive(Serialize, JsonSchema)]
struct Submitted {
    /// Their numbers.
    ids: Vec<JobId>,
    /// Present and true if the batch was submitted under the same key before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
}

async fn submit(
    State(app): State<Arc<App>>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    Text(body): Text,
) -> Result<(StatusCode, Json<Submitted>), Problem> {
    match take(&app, &headers, &body).await {
        Ok((submission, requests)) => {
            tracing::info!("{peer} submitted {}", told(&submission, &requests));
            let status = if submission.repeated { StatusCode::OK } else { StatusCode::CREATED };
            Ok((status, Json(Submitted { ids: submission.ids, repeated: submission.repeated })))
        }
        Err(problem) => {
            tracing::info!("{peer} submitted what was refused: {}", one_line(problem.detail()));
            Err(problem)
        }
    }
}

async fn take(app: &App, headers: &HeaderMap, body: &str) -> Result<(Submission, Vec<Request>), Problem> {
    // What would be taken now would be estimated without what is known, and not be remembered.
    if let Some(error) = app.history.lost() {
        return Err(lost(&error));
    }
    let format = format_of(headers)?;
    let wrong = "correct it and submit it again; nothing of it was taken";
    let requests =
        read(body, format, None).map_err(|error| Problem::bad_request(error.to_string(), wrong))?;
    if requests.iter().any(|request| request.kind == JobKind::Spread) {
        let why = "a job that many hosts move has to be listed";
        return Err(Problem::bad_request(why, "begin it by `tidegate spread`, or POST /api/v1/spreads"));
    }
    for (number, request) in requests.iter().enumerate() {
        let addresses = request.sources.iter().chain([&request.destination]);
        let endpoints = addresses.filter(|text| Address::is_address(text.as_bytes()));
        for endpoint in endpoints {
            Address::parse(endpoint.as_bytes()).map_err(|error| {
                Problem::bad_request(format!("job {} of the batch: {error}", number + 1), wrong)
            })?;
        }
    }
    let key = key_of(headers)?;
    let submission = app.scheduler.submit_once(key.as_ref(), &requests).await?;
    Ok((submission, requests))
}

/// What was submitted, in one line without secrets.
fn told(submission: &Submission, requests: &[Request]) -> String {
    let Submission { ids, repeated } = submission;
    let (Some(first), Some(last), Some(request)) = (ids.first(), ids.last(), requests.first()) else {
        return "no job".to_owned();
    };
    let jobs = match ids.len() {
        1 => format!("job {first}"),
        many => format!("{many} jobs, {first} to {last}, the first"),
    };
    let again = if *repeated { " again, which is taken once," } else { "" };
    one_line(&format!("{jobs}{again}: {}", request.route_in_words()))
}

/// What the client calls its submission, if it calls it anything.
fn key_of(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Problem> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
    let wrong =
        |why: String| Problem::bad_request(why, "send one, such as a UUID, and the same one to try again");
    match (given.next(), given.next()) {
        (None, _) => Ok(None),
        (Some(key), None) => key.to_str().unwrap_or_default().parse().map(Some).map_err(wrong),
        (Some(_), Some(_)) => Err(wrong("there are several idempotency keys".to_owned())),
    }
}

fn format_of(headers: &HeaderMap) -> Result<Format, Problem> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match &kind[..] {
        JSON => Ok(Format::Json),
        TOML => Ok(Format::Toml),
        CLASS_ADS => Ok(Format::ClassAds),
        _ => Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the content-type does not say how the jobs are written",
            "send application/json, application/toml or application/x-classad",
        )),
    }
}

/// The number in a path or a query.
pub fn number(text: &str) -> Result<JobId, Problem> {
    text.parse().map_err(|error: String| Problem::bad_request(error, "give the number of a job, as in 17"))
}

/// The job of a path.
pub async fn find(app: &App, text: &str) -> Result<Job, Problem> {
    let id = number(text)?;
    app.scheduler.job(id).await?.ok_or_else(|| QueueError::NoJob(id).into())
}

async fn show(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<View>, Problem> {
    view(&app, &id).await.map(Json)
}

async fn view(app: &App, id: &str) -> Result<View, Problem> {
    let job = find(app, id).await?;
    let query =
        history::Query { job: Some(job.id.to_string()), limit: DECISIONS, ..history::Query::default() };
    // Without history a job is shown all the same.
    let mut decisions = match app.history.page::<Decision>(&query).await {
        Ok(page) => page.records,
        Err(error) => {
            tracing::warn!("the decisions of job {} are not known: {error}", job.id);
            Vec::new()
        }
    };
    decisions.reverse();
    let spread = match job.request.kind {
        JobKind::Spread => app.fleet.standing(job.id).await.ok(),
        _ => None,
    };
    Ok(View { decisions: Some(decisions), spread, ..View::new(job) })
}

async fn cancel(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<View>, Problem> {
    let number = number(&id)?;
    app.scheduler.cancel(number).await?;
    app.fleet.cancel(number).await?;
    view(&app, &id).await.map(Json)
}

async fn pause(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<View>, Problem> {
    if find(&app, &id).await?.request.kind == JobKind::Spread {
        let why = format!("job {id} is moved by many hosts, which are not held up");
        return Err(Problem::conflict(why, "cancel it; spreading again skips what arrived"));
    }
    app.scheduler.pause(number(&id)?).await?;
    view(&app, &id).await.map(Json)
}

async fn resume(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<View>, Problem> {
    app.scheduler.resume(number(&id)?).await?;
    view(&app, &id).await.map(Json)
}

/// Which other jobs are tried again with one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Alike {
    /// Whether all other jobs that failed for the same reason are tried again as well.
    #[serde(default)]
    alike: bool,
}

/// A job that is tried again.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RetriedJob")]
struct Retried {
    #[serde(flatten)]
    view: View,
    /// The jobs that wait again, this one among them.
    #[schemars(range(min = 1))]
    retried: u64,
}

async fn retry(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    QueryParams(which): QueryParams<Alike>,
) -> Result<Json<Retried>, Problem> {
    let retried = app.scheduler.retry(number(&id)?, which.alike).await?;
    Ok(Json(Retried { view: view(&app, &id).await?, retried }))
}

impl From<QueueError> for Problem {
    fn from(error: QueueError) -> Self {
        let detail = error.to_string();
        match error {
            QueueError::Refused { .. } => {
                Self::bad_request(detail, "correct it and submit the batch again; nothing of it was taken")
            }
            QueueError::NoJob(_) => Self::not_found(detail, "GET /api/v1/jobs lists them"),
            QueueError::Illegal(..) => {
                Self::conflict(detail, "GET /api/v1/jobs/{id} tells in `actions` what can be asked of it now")
            }
            QueueError::Held { .. } => Self::conflict(detail, "POST /api/v1/jobs/{id}/retry on that one"),
            QueueError::Reused(_) => {
                Self::conflict(detail, "nothing of it was taken; a key belongs to one batch")
            }
            QueueError::Full(_) => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, detail, "submit again when some have ended")
            }
            QueueError::Busy(_) | QueueError::Database { .. } => Self::unavailable(detail, "try again later"),
        }
    }
}
