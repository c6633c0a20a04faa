//! Estimates over HTTP: answered at once, past the queue. Who accepts server-sent events is told how sampling goes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::App;
use super::frame::{Body, Routes};
use super::operation::{Operation, event};
use super::problem::Problem;
use crate::estimate::{Answer, EstimateError, EstimateRequest, SamplingEvent};

/// How long an estimate may take, waiting for others included.
const LONGEST: Duration = Duration::from_secs(300);
/// Events on their way to a client that reads slowly; more are left out.
const UNREAD: usize = 64;
/// How often something is sent while nothing happens, so that a client that is gone is noticed.
const ALIVE: Duration = Duration::from_secs(15);

/// The route, which has a limit of time of its own.
pub(crate) fn routes() -> Routes<Arc<App>> {
    let said = Operation::new(
        "estimate",
        "estimates",
        "Say how many streams a path wants, how fast it is and how long so many bytes take. Answered at once, past the \
         queue: from history if it may, or else by measuring, which takes some seconds. Who accepts text/event-stream is \
         told how it goes: events `sampling`, and at the end `answer` or `problem`.",
    );
    let said = said.reads::<EstimateRequest>().answers::<Answer>(StatusCode::OK, "The estimate.");
    let events = [event::<SamplingEvent>("sampling"), event::<Answer>("answer"), event::<Problem>("problem")];
    Routes::new().post("/api/v1/estimates", estimate, said.events(events))
}

async fn estimate(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Body(request): Body<EstimateRequest>,
) -> Result<Response, Problem> {
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if accepts.into_iter().any(|value| value.contains("text/event-stream")) {
        return Ok(followed(app, request).into_response());
    }
    // The client may go away: then the future is dropped, and the sampling ends.
    answer(&app, &request, &mut |_| {}).await.map(|answer| Json(answer).into_response())
}

async fn answer(
    app: &App,
    request: &EstimateRequest,
    tell: &mut (dyn FnMut(SamplingEvent) + Send),
) -> Result<Answer, Problem> {
    let mut stop = app.stop.clone();
    let answer = app.estimator.estimate(request, tell);
    tokio::select! {
        answer = tokio::time::timeout(LONGEST, answer) => match answer {
            Ok(answer) => Ok(answer?),
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

/// `sampling` for each thing that happens, and at the end `answer` or `problem`.
fn followed(app: Arc<App>, request: EstimateRequest) -> impl IntoResponse {
    let (sender, receiver) = mpsc::channel::<Result<Event, Infallible>>(UNREAD);
    tokio::spawn(async move {
        let told = sender.clone();
        let mut tell = move |event: SamplingEvent| {
            if let Ok(event) = Event::default().event("sampling").json_data(&event) {
                let _ = told.try_send(Ok(event));
            }
        };
        let ended = tokio::select! {
            ended = answer(&app, &request, &mut tell) => ended,
            // The client is gone, and sampling ends.
            () = sender.closed() => return,
        };
        let event = match &ended {
            Ok(answer) => Event::default().event("answer").json_data(answer),
            Err(problem) => Event::default().event("problem").json_data(problem),
        };
        if let Ok(event) = event {
            let _ = sender.send(Ok(event)).await;
        }
    });
    Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::new().interval(ALIVE))
}

impl From<EstimateError> for Problem {
    fn from(error: EstimateError) -> Self {
        let detail = error.to_string();
        match error {
            EstimateError::Usage(_) => {
                Self::bad_request(detail, "GET /api/v1/openapi.json tells what is expected")
            }
            EstimateError::Unknown(_) => Self::new(
                StatusCode::BAD_GATEWAY,
                detail,
                "see that both ends answer, then try again; nothing was remembered",
            ),
            EstimateError::Busy | EstimateError::Interrupted => Self::unavailable(detail, "try again later"),
        }
    }
}
