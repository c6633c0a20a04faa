//! Jobs that many hosts move, over HTTP: begun and listed by their owner, and moved by whoever shows the token of one.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use tidegate_contract::text::{one_line, show};
use tidegate_fleet::shards::{
    Claimed, Claimer, FleetError, MoverToken, PoolEndpoint, Report, Seen, Standing,
};
use tidegate_fleet::words::{
    ClaimAnswer, ClaimRequest, EndingWords, FinishRequest, ListedShards, MAX_ENDPOINTS, RenewRequest,
    Renewed, ShardWords, SpreadBegun, SpreadRequest, failures,
};

use super::App;
use super::frame::{Body, Path, Routes};
use super::jobs::number;
use super::operation::Operation;
use super::problem::Problem;
use crate::job::{JobKind, Request};

/// Longest name of a mover.
const MAX_NAME: usize = 200;

const TAG: &str = "spreads";

/// What the owner of the service asks.
pub(crate) fn routes() -> Routes<Arc<App>> {
    let said = |name, summary| Operation::new(name, TAG, summary);
    Routes::new()
        .post(
            "/api/v1/spreads",
            begin,
            said("beginSpread", "Begin a job that many hosts move. The token for its movers is told once.")
                .reads::<SpreadRequest>()
                .answers::<SpreadBegun>(StatusCode::CREATED, "The job, and the token."),
        )
        .get(
            "/api/v1/spreads/{id}",
            stand,
            said("showSpread", "How a job of many hosts stands: in all, and by mover.")
                .of_job()
                .answers::<Standing>(StatusCode::OK, "As it stands."),
        )
        .post(
            "/api/v1/spreads/{id}/shards",
            list,
            said(
                "listShards",
                "Add shards to it; `all` says that nothing more comes. Movers begin meanwhile.",
            )
            .of_job()
            .reads::<ListedShards>()
            .answers::<Standing>(StatusCode::OK, "As it stands now."),
        )
}

/// What movers ask; each shows the token of its run.
pub(crate) fn mover_routes() -> Routes<Arc<App>> {
    let said = |name, summary| Operation::new(name, TAG, summary).by_mover();
    Routes::new()
        .post(
            "/api/v1/mover/claim",
            claim,
            said("claimShards", "Ask for work, as a mover of the job whose token it shows.")
                .reads::<ClaimRequest>()
                .answers::<ClaimAnswer>(
                    StatusCode::OK,
                    "A lease with shards, or nothing for now, or nothing any more.",
                ),
        )
        .post(
            "/api/v1/mover/renew",
            renew,
            said("renewLease", "Keep a lease for another term; 409 if it is over.")
                .reads::<RenewRequest>()
                .answers::<Renewed>(StatusCode::OK, "It is kept.")
                .fails(StatusCode::CONFLICT),
        )
        .post(
            "/api/v1/mover/finish",
            finish,
            said(
                "finishLease",
                "End a lease and say what became of its shards: all of it is taken, or nothing if the lease is over (409).",
            )
            .reads::<FinishRequest>()
            .answers::<()>(StatusCode::OK, "It is taken.")
            .fails(StatusCode::CONFLICT),
        )
}

/// Whoever shows a token; what it opens the fleet says.
struct Shown(MoverToken);

impl<S: Send + Sync> FromRequestParts<S> for Shown {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let given = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.split_once(' '));
        match given {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                Ok(Self(MoverToken::new(token)))
            }
            _ => Err(FleetError::NoRun.into()),
        }
    }
}

async fn begin(
    State(app): State<Arc<App>>,
    Body(asked): Body<SpreadRequest>,
) -> Result<(StatusCode, Json<SpreadBegun>), Problem> {
    let request = Request {
        kind: JobKind::Spread,
        sources: asked.sources.clone(),
        options: asked.options.clone(),
        // Each mover's rule finds out for itself, and what fails is tried again shard by shard.
        optimization: false,
        retries: 0,
        ..Request::transfer("", asked.destination.clone())
    };
    let endpoints = pool(&asked)?;
    let ids = app.scheduler.submit(&[request]).await?;
    let id = *ids.first().ok_or_else(|| Problem::unavailable("no job was made", "try again"))?;
    let (token, work) = (MoverToken::random(), serde_json::to_string(&asked).unwrap_or_default());
    app.fleet.begin_by(id, &token, &work, &endpoints).await?;
    Ok((StatusCode::CREATED, Json(SpreadBegun { id, token: token.reveal().to_owned() })))
}

/// The endpoints of a pool that makes sense.
fn pool(asked: &SpreadRequest) -> Result<Vec<PoolEndpoint>, Problem> {
    let Some(pool) = &asked.pool else { return Ok(Vec::new()) };
    let (many, fine) = (pool.endpoints.len(), 1..=MAX_ENDPOINTS);
    let is_used =
        asked.sources.iter().chain([&asked.destination]).any(|address| pool.path(address).is_some());
    let why = match () {
        () if !fine.contains(&many) => format!("a pool has 1 to {MAX_ENDPOINTS} endpoints, and not {many}"),
        () if pool.endpoints.iter().any(|words| words.weight == 0) => {
            "the weights of a pool begin with 1".to_owned()
        }
        () if !is_used => format!("nothing is moved to or from the pool {}", one_line(&pool.name)),
        () => return Ok(pool.kept()),
    };
    Err(Problem::bad_request(why, "correct it; nothing of it was taken"))
}

async fn list(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(ListedShards { shards, failed, all }): Body<ListedShards>,
) -> Result<Json<Standing>, Problem> {
    let id = number(&id)?;
    let shards = shards.iter().map(ShardWords::content).collect::<Result<Vec<_>, _>>()?;
    app.fleet.list_with(id, &shards, &failures(&failed)?, all).await?;
    Ok(Json(app.fleet.standing(id).await?))
}

async fn stand(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<Standing>, Problem> {
    Ok(Json(app.fleet.standing(number(&id)?).await?))
}

async fn claim(
    State(app): State<Arc<App>>,
    Shown(token): Shown,
    Body(ClaimRequest { mover, version, host, without }): Body<ClaimRequest>,
) -> Result<Json<ClaimAnswer>, Problem> {
    let ours = env!("CARGO_PKG_VERSION");
    if version != ours {
        let theirs = show(version.as_bytes().get(..40).unwrap_or(version.as_bytes()));
        let why = format!("the mover is of version {theirs}, and the service of {ours}");
        return Err(Problem::bad_request(why, "install the same version on all hosts"));
    }
    if mover.is_empty() || mover.len() > MAX_NAME || host.len() > MAX_NAME {
        let why = format!("a mover's name has 1 to {MAX_NAME} bytes, and its host's at most as many");
        return Err(Problem::bad_request(why, "give another by --name"));
    }
    let (mover, host) = (one_line(&mover), one_line(&host));
    let claimer = Claimer { mover: &mover, host: &host, without: &without };
    Ok(Json(match app.fleet.claim(&token, claimer).await? {
        Claimed::Lease(lease) => {
            ClaimAnswer::of(&lease, term_ms(&app), |all| app.fleet.grant(lease.job, all, &mover, 0))?
        }
        Claimed::Wait => ClaimAnswer::Wait,
        Claimed::Drained => ClaimAnswer::Drained,
    }))
}

async fn renew(
    State(app): State<Arc<App>>,
    Shown(token): Shown,
    Body(RenewRequest { lease, streams, throughput_bps, bytes }): Body<RenewRequest>,
) -> Result<Json<Renewed>, Problem> {
    let renewal = app.fleet.renew(&token, lease, Seen { streams, throughput_bps, bytes }).await?;
    let work: SpreadRequest =
        serde_json::from_str(&renewal.work).map_err(|error| FleetError::Refused(error.to_string()))?;
    let streams = work.streams.map(|all| app.fleet.grant(renewal.job, all, &renewal.mover, streams));
    Ok(Json(Renewed { term_ms: term_ms(&app), streams }))
}

async fn finish(
    State(app): State<Arc<App>>,
    Shown(token): Shown,
    Body(FinishRequest { lease, shards }): Body<FinishRequest>,
) -> Result<Json<()>, Problem> {
    let shards = shards.iter().map(EndingWords::ending).collect::<Result<Vec<_>, _>>()?;
    app.fleet.finish(&token, lease, &Report { shards }).await?;
    Ok(Json(()))
}

fn term_ms(app: &App) -> u64 {
    u64::try_from(app.fleet.term().as_millis()).unwrap_or(u64::MAX)
}

impl From<FleetError> for Problem {
    fn from(error: FleetError) -> Self {
        let detail = error.to_string();
        match error {
            FleetError::NoRun => {
                Self::new(StatusCode::UNAUTHORIZED, detail, "each run has a token of its own for its movers")
            }
            FleetError::NotSpread(_) => Self::not_found(detail, "GET /api/v1/jobs lists jobs"),
            FleetError::Lost(_) => Self::conflict(detail, "claim anew"),
            FleetError::Refused(_) => Self::bad_request(detail, "correct it; nothing of it was taken"),
            FleetError::Database(_) => Self::unavailable(detail, "try again later"),
        }
    }
}
