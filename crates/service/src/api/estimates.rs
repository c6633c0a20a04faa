//! Estimates over HTTP: answered at once, past the queue.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;

use super::App;
use super::frame::{Body, Routes};
use super::problem::Problem;
use crate::estimate::{Answer, EstimateError, EstimateRequest};

/// How long an estimate may take, waiting for others included.
const LONGEST: Duration = Duration::from_secs(300);

/// The route, which has a limit of time of its own.
pub(crate) fn routes() -> Routes<Arc<App>> {
    Routes::new().post("/api/v1/estimates", estimate)
}

async fn estimate(
    State(app): State<Arc<App>>,
    Body(request): Body<EstimateRequest>,
) -> Result<Json<Answer>, Problem> {
    // The client may go away: then the future is dropped, and the sampling ends.
    let mut stop = app.stop.clone();
    let mut silent = |_| {};
    let answer = app.estimator.estimate(&request, &mut silent);
    tokio::select! {
        answer = tokio::time::timeout(LONGEST, answer) => match answer {
            Ok(answer) => Ok(Json(answer?)),
            Err(_) => {
                let detail = format!("the estimate took longer than {} s", LONGEST.as_secs());
                Err(Problem::unavailable(detail, "give smaller samples, or try again later"))
            }
        },
        _ = stop.wait_for(|stop| *stop) => {
            Err(Problem::unavailable("the service is stopping", "try again when it runs"))
        }
    }
}

impl From<EstimateError> for Problem {
    fn from(error: EstimateError) -> Self {
        let detail = error.to_string();
        match error {
            EstimateError::Usage(_) => {
                Self::bad_request(detail, "GET /api/v1/openapi.json tells what is expected")
            }
            EstimateError::Unknown(_) => Self::new(
                axum::http::StatusCode::BAD_GATEWAY,
                detail,
                "see that both ends answer, then try again; nothing was remembered",
            ),
            EstimateError::Busy | EstimateError::Interrupted => Self::unavailable(detail, "try again later"),
        }
    }
}
