//! What is remembered, over HTTP: pairs, samples, estimates, transfers, decisions, and the sites among them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_control::throughput_model::{Sample as Known, choose};
use tidegate_database::DatabaseError;
use tidegate_spec::pair::Site;

use super::App;
use super::frame::{QueryParams, Routes};
use super::operation::Operation;
use super::problem::Problem;
use crate::estimate::PlottedCurve;
use crate::history::{self, Decision, Estimate, Kind, Page, PairSummary, Sample, Timestamp, Transfer};

/// Entries of a page unless told otherwise.
const LIMIT: u32 = 100;
const A_PAGE: &str = "A page.";
/// Points of a curve, for a picture.
const POINTS: usize = 48;

/// Which records.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Which {
    /// A site or an address of it; the path and secrets are left out.
    source: Option<String>,
    /// The same for the other end.
    destination: Option<String>,
    /// Of this job only.
    job: Option<String>,
    /// Not older than this moment.
    since_ms: Option<i64>,
    /// Most entries of the page.
    #[schemars(range(min = 1, max = history::MAX_RECORDS), extend("default" = LIMIT))]
    limit: Option<u32>,
    /// Where the page begins: `next` of the page before.
    cursor: Option<String>,
}

impl Which {
    fn query(&self) -> Result<history::Query, Problem> {
        let site = |address: &Option<String>| {
            let site = address.as_deref().filter(|address| !address.is_empty()).map(Site::of).transpose();
            site.map_err(|error| {
                Problem::bad_request(error.to_string(), "name a site, as in tg://host:7117 or local")
            })
        };
        let after = self.cursor.as_deref().map(str::parse).transpose();
        let after = after.map_err(|_| {
            Problem::bad_request("that cursor is none", "give `next` of the page before, or leave it out")
        })?;
        Ok(history::Query {
            alone: false,
            source: site(&self.source)?,
            destination: site(&self.destination)?,
            job: self.job.clone(),
            since: self.since_ms.map(Timestamp),
            after,
            limit: self.limit.unwrap_or(LIMIT).clamp(1, history::MAX_RECORDS),
        })
    }
}

impl From<DatabaseError> for Problem {
    fn from(error: DatabaseError) -> Self {
        Self::unavailable(error.to_string(), "try again later; jobs go on without history")
    }
}

/// All about the past.
pub(crate) fn routes() -> Routes<Arc<App>> {
    let said = |name, summary| Operation::new(name, "history", summary);
    let pages = |name, summary| said(name, summary).query::<Which>();
    Routes::new()
        .get(
            "/api/v1/history/pairs",
            pairs,
            said("listPairs", "The pairs of sites that anything is known of, the last used first.")
                .answers::<Pairs>(StatusCode::OK, "The pairs."),
        )
        .get(
            "/api/v1/history/samples",
            records::<Sample>,
            pages("listSamples", "Samples, the newest first.").answers::<Page<Sample>>(StatusCode::OK, A_PAGE),
        )
        .get(
            "/api/v1/history/estimates",
            estimates,
            pages(
                "listEstimates",
                "Estimates, the newest first. The first page of one pair has the curves of its newest estimate.",
            )
            .answers::<Estimates>(StatusCode::OK, A_PAGE),
        )
        .get(
            "/api/v1/history/transfers",
            records::<Transfer>,
            pages("listTransfers", "Transfers, the newest first.")
                .answers::<Page<Transfer>>(StatusCode::OK, A_PAGE),
        )
        .get(
            "/api/v1/history/decisions",
            records::<Decision>,
            pages("listDecisions", "Decisions and their reasons, the newest first.")
                .answers::<Page<Decision>>(StatusCode::OK, A_PAGE),
        )
        .get(
            "/api/v1/endpoints",
            endpoints,
            said("listEndpoints", "The sites known, by what was moved from and to them.")
                .answers::<Endpoints>(StatusCode::OK, "The sites."),
        )
}

/// Pairs.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Pairs {
    /// Each once.
    pairs: Vec<PairSummary>,
}

async fn pairs(State(app): State<Arc<App>>) -> Result<Json<Pairs>, Problem> {
    Ok(Json(Pairs { pairs: app.history.pairs().await? }))
}

async fn records<K: Kind + Serialize>(
    State(app): State<Arc<App>>,
    QueryParams(which): QueryParams<Which>,
) -> Result<Json<Page<K>>, Problem> {
    Ok(Json(app.history.page(&which.query()?).await?))
}

/// An estimate, with the curves it was concluded by where they are to be drawn.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PastEstimate")]
struct Shown {
    #[serde(flatten)]
    estimate: Estimate,
    /// The curves through its samples.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    curves: Vec<PlottedCurve>,
}

/// A page of estimates.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Estimates {
    /// The records.
    records: Vec<Shown>,
    /// Where the next page begins, if there may be one.
    #[schemars(with = "Option<String>")]
    next: Option<history::Cursor>,
}

async fn estimates(
    State(app): State<Arc<App>>,
    QueryParams(which): QueryParams<Which>,
) -> Result<Json<Estimates>, Problem> {
    let query = which.query()?;
    let one_pair = query.source.is_some() && query.destination.is_some() && query.after.is_none();
    let Page { records, next } = app.history.page::<Estimate>(&query).await?;
    let records = records.into_iter().enumerate().map(|(i, estimate)| {
        let curves = if i == 0 && one_pair { curves(&estimate) } else { Vec::new() };
        Shown { estimate, curves }
    });
    Ok(Json(Estimates { records: records.collect(), next }))
}

/// The curves through the samples of an estimate, worked out anew: only their samples are kept.
fn curves(estimate: &Estimate) -> Vec<PlottedCurve> {
    let small = |streams: u32| u16::try_from(streams).unwrap_or(u16::MAX);
    let samples: Vec<Known> =
        estimate.samples.iter().map(|point| Known::new(small(point.streams), point.throughput)).collect();
    let widest = samples.iter().map(|sample| sample.streams).max().unwrap_or(1).max(small(estimate.streams));
    let end = widest.saturating_add(widest / 4);
    let choice = choose(&samples, end);
    let drawn = choice.fits().enumerate().map(|(i, fit)| PlottedCurve {
        model: fit.curve.model(),
        chosen: i == 0 && choice.fit.is_some(),
        points: fit.curve.points(end, POINTS),
    });
    drawn.collect()
}

/// What is known of a site.
#[derive(Serialize, JsonSchema)]
struct Endpoint {
    /// What it is called.
    site: String,
    /// Pairs it is an end of.
    pairs: u64,
    /// Transfers from and to it.
    transfers: u64,
    /// When anything of it was noted last.
    last_at_ms: i64,
}

/// Sites.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Endpoints {
    /// Each once.
    endpoints: Vec<Endpoint>,
}

async fn endpoints(State(app): State<Arc<App>>) -> Result<Json<Endpoints>, Problem> {
    let mut sites: BTreeMap<Site, Endpoint> = BTreeMap::new();
    for known in app.history.pairs().await? {
        let mut ends = vec![known.pair.source.clone()];
        if known.pair.destination != known.pair.source {
            ends.push(known.pair.destination.clone());
        }
        for site in ends {
            let name = site.to_string();
            let seen =
                sites.entry(site).or_insert(Endpoint { site: name, pairs: 0, transfers: 0, last_at_ms: 0 });
            seen.pairs += 1;
            seen.transfers += known.transfers;
            seen.last_at_ms = seen.last_at_ms.max(known.last_at.0);
        }
    }
    Ok(Json(Endpoints { endpoints: sites.into_values().collect() }))
}
