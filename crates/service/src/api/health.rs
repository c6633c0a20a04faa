//! Health, metrics, and the document that describes all of it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use tidegate_control::BitRate;
use tidegate_database::DatabaseError;
use tidegate_fleet::shards::HostStanding;
use tidegate_http::prometheus::{self, Series, family, one};

use super::frame::Routes;
use super::operation::{JSON, Operation};
use super::problem::Problem;
use super::{App, DOCUMENT};
use crate::history::Timestamp;
use crate::job::State as JobState;
use crate::scheduler::Tallied;

/// The states in which something runs, and the most jobs looked at there.
const ACTIVE: [JobState; 3] = [JobState::Running, JobState::Pausing, JobState::Cancelling];
const MAX_ACTIVE: u32 = 1000;

/// The states in which a job may wait for an end that does not answer.
const WITH_OUTAGES: [JobState; 3] = [JobState::Running, JobState::Retrying, JobState::Queued];

/// Most hosts of movers that are told of.
const MAX_HOSTS: u32 = 1000;

const TAG: &str = "service";

/// Health.
#[derive(Serialize, JsonSchema)]
struct Health {
    /// That all is well.
    status: &'static str,
}

const WELL: Health = Health { status: "ok" };

/// What needs no token.
pub(crate) fn open_routes() -> Routes<Arc<App>> {
    let said = |name, summary| Operation::new(name, TAG, summary).open();
    Routes::new()
        .get(
            "/healthz",
            alive,
            said("alive", "Whether the process answers.").answers::<Health>(StatusCode::OK, "It does."),
        )
        .get(
            "/readyz",
            ready,
            said("ready", "Whether jobs are taken.")
                .answers::<Health>(StatusCode::OK, "They are.")
                .fails(StatusCode::SERVICE_UNAVAILABLE),
        )
        .get(
            "/api/v1/openapi.json",
            document,
            said("document", "This document.").answers::<Map<String, Value>>(StatusCode::OK, "OpenAPI 3.1."),
        )
}

/// What does.
pub(crate) fn routes() -> Routes<Arc<App>> {
    let said = Operation::new("metrics", TAG, "Metrics.");
    let said = said.answers_as::<String>(StatusCode::OK, "Prometheus text.", "text/plain");
    Routes::new().get("/metrics", metrics, said)
}

/// The process answers.
async fn alive() -> Json<Health> {
    Json(WELL)
}

/// Jobs are taken.
async fn ready(State(app): State<Arc<App>>) -> Response {
    if *app.stop.borrow() {
        return Problem::unavailable("the service is stopping", "try again when it runs").into_response();
    }
    if let Some(error) = app.history.lost() {
        return lost(&error).into_response();
    }
    match app.scheduler.queue().takes_changes().await {
        Ok(_) => Json(WELL).into_response(),
        Err(error) => Problem::from(error).into_response(),
    }
}

/// What is answered while history's server is lost.
pub fn lost(error: &DatabaseError) -> Problem {
    Problem::unavailable(
        format!("history is lost for now: {error}"),
        "submit again when its database answers; jobs that were taken go on",
    )
}

async fn document() -> Response {
    ([(CONTENT_TYPE, JSON)], DOCUMENT.as_str()).into_response()
}

async fn metrics(State(app): State<Arc<App>>) -> Response {
    let mut text = String::new();
    let build = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    family(&mut text, "tidegate_build_info", "gauge", "The version that runs.", [(build, 1.0)]);
    let open = (app.connections)() as f64;
    family(&mut text, "tidegate_http_connections", "gauge", "Connections that are open.", one(open));
    if let Ok(counts) = app.counts.get(app.scheduler.queue()).await {
        let jobs = JobState::ALL.into_iter().map(|state| {
            (vec![("state", state.name().to_owned())], counts.get(&state).copied().unwrap_or_default() as f64)
        });
        family(&mut text, "tidegate_jobs", "gauge", "Jobs that are known, by state.", jobs);
    }
    of_jobs(&mut text, &app.scheduler.tallied());
    if let Ok(oldest) = app.scheduler.queue().oldest_queued_ms().await {
        let age = oldest.map_or(0, |ms| Timestamp::now().0.saturating_sub(ms).max(0));
        let name = "tidegate_jobs_oldest_queued_age_seconds";
        let help = "How long ago the job was submitted that waits for its turn the longest; 0 if none does.";
        family(&mut text, name, "gauge", help, one(age as f64 / 1000.0));
    }
    if let Ok(waiting) = app.scheduler.page(&WITH_OUTAGES, None, MAX_ACTIVE).await {
        let ages = waiting.iter().filter_map(|job| job.outage_since_ms);
        let ages: Vec<i64> = ages.map(|ms| Timestamp::now().0.saturating_sub(ms).max(0)).collect();
        let name = "tidegate_jobs_in_outage";
        let help = "Jobs that run or wait to be tried again, and of which an end does not answer.";
        family(&mut text, name, "gauge", help, one(ages.len() as f64));
        let oldest = ages.into_iter().max().unwrap_or(0) as f64 / 1000.0;
        let name = "tidegate_jobs_longest_outage_seconds";
        family(&mut text, name, "gauge", "How long the longest of these outages has lasted.", one(oldest));
    }
    // What cannot be read now is left out, and the next time it is there.
    if let Ok(active) = app.scheduler.page(&ACTIVE, None, MAX_ACTIVE).await {
        let streams = active.iter().map(|job| f64::from(job.progress.streams)).sum();
        family(
            &mut text,
            "tidegate_network_streams",
            "gauge",
            "Network streams of jobs that run.",
            one(streams),
        );
        let rate = active.iter().map(|job| job.progress.throughput_bps.bytes_per_second()).sum();
        let name = "tidegate_throughput_bytes_per_second";
        family(
            &mut text,
            name,
            "gauge",
            "What arrives of the jobs that run, over the last ten seconds.",
            one(rate),
        );
    }
    if let Ok(hosts) = app.fleet.hosts(MAX_HOSTS).await {
        fleet(&mut text, &hosts);
    }
    app.metrics.write(&mut text);
    ([(CONTENT_TYPE, prometheus::CONTENT_TYPE)], text).into_response()
}

/// What jobs did since the service began.
fn of_jobs(text: &mut String, tallied: &Tallied) {
    let bytes = "Bytes of content that jobs moved since the service began.";
    family(text, "tidegate_job_bytes_total", "counter", bytes, one(tallied.bytes as f64));
    let files = "Files that jobs completed since the service began.";
    family(text, "tidegate_job_files_total", "counter", files, one(tallied.files as f64));
    let by = |counted: &[(&'static str, &'static str, u64)], how: &'static str| -> Vec<Series> {
        let labels = |value: &str, cause: &str| vec![(how, value.to_owned()), ("cause", cause.to_owned())];
        counted.iter().map(|&(value, cause, count)| (labels(value, cause), count as f64)).collect()
    };
    let attempts = "Attempts at jobs that ended since the service began, by how and why.";
    family(text, "tidegate_job_attempts_total", "counter", attempts, by(&tallied.attempts, "outcome"));
    let ended = "Jobs that ended since the service began, by how and why.";
    family(text, "tidegate_jobs_ended_total", "counter", ended, by(&tallied.ended, "state"));
}

/// What movers do, by their hosts.
fn fleet(text: &mut String, hosts: &[HostStanding]) {
    let mut add = |name: &str, help: &str, value: fn(&HostStanding) -> f64| {
        let series = hosts.iter().map(|host| (vec![("host", host.host.clone())], value(host)));
        family(text, name, "gauge", help, series);
    };
    add("tidegate_movers", "Movers that hold a lease of shards, by host.", |host| host.movers as f64);
    add("tidegate_mover_network_streams", "Network streams of movers, by host.", |host| host.streams as f64);
    add("tidegate_mover_throughput_bytes_per_second", "What movers bring, by host.", |host| {
        BitRate(host.throughput_bps).bytes_per_second()
    });
    add(
        "tidegate_mover_silence_seconds",
        "Since when a mover with a lease has not been heard, by host.",
        |host| host.silent_ms as f64 / 1000.0,
    );
}
