//! What every route shares: the list of routes, limits of requests, headers of answers, errors in one shape.

use std::time::Duration;

use axum::Router;
use axum::extract::rejection::StringRejection;
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Request};
use axum::handler::Handler;
use axum::http::header::{CACHE_CONTROL, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use serde::de::DeserializeOwned;
use tidegate_contract::object::Object;

use super::document::DescribedRoute;
use super::operation::Operation;
use super::problem::Problem;

/// Most bytes of a request's body: a batch of ten thousand jobs has room.
pub(crate) const BODY_BYTES: usize = 16 << 20;
/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);
/// How long an answer may take, its request's body included.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Routes, and what each says of itself, of which the OpenAPI document is made.
pub(crate) struct Routes<S> {
    router: Router<S>,
    listed: Vec<DescribedRoute>,
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// No routes.
    pub fn new() -> Self {
        Self { router: Router::new(), listed: Vec::new() }
    }

    /// Answers GET.
    pub fn get<H: Handler<T, S>, T: 'static>(
        self,
        path: &'static str,
        handler: H,
        operation: Operation,
    ) -> Self {
        self.add(MethodFilter::GET, handler, DescribedRoute { method: "get", path, operation })
    }

    /// Answers POST.
    pub fn post<H: Handler<T, S>, T: 'static>(
        self,
        path: &'static str,
        handler: H,
        operation: Operation,
    ) -> Self {
        self.add(MethodFilter::POST, handler, DescribedRoute { method: "post", path, operation })
    }

    fn add<H: Handler<T, S>, T: 'static>(
        mut self,
        method: MethodFilter,
        handler: H,
        listed: DescribedRoute,
    ) -> Self {
        self.router = self.router.route(listed.path, on(method, handler));
        self.listed.push(listed);
        self
    }

    /// Changes the router, as by a layer over the routes so far.
    pub fn map(self, change: impl FnOnce(Router<S>) -> Router<S>) -> Self {
        Self { router: change(self.router), listed: self.listed }
    }

    /// With the routes of another.
    pub fn and(mut self, other: Self) -> Self {
        self.listed.extend(other.listed);
        Self { router: self.router.merge(other.router), listed: self.listed }
    }

    /// The router, and what it answers.
    pub fn into_parts(self) -> (Router<S>, Vec<DescribedRoute>) {
        (self.router, self.listed)
    }
}

/// Answers what no route does, besides what every answer gets.
pub(crate) fn finish<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    hardened(router.fallback(nowhere).method_not_allowed_fallback(otherwise))
}

/// Gives each answer what a browser should know, and bounds bodies.
pub(crate) fn hardened<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    router.layer(DefaultBodyLimit::max(BODY_BYTES)).layer(axum::middleware::from_fn(harden))
}

/// A path that means nothing.
async fn nowhere() -> Problem {
    Problem::not_found("nothing is here", "GET /api/v1/openapi.json lists what there is")
}

/// A method that a path does not answer.
async fn otherwise() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "this path does not answer that method",
        "GET /api/v1/openapi.json lists what there is",
    )
}

/// Ends what takes too long. Streams and samplings have limits of their own.
pub(crate) async fn patient(request: Request, next: Next) -> Response {
    tokio::time::timeout(ANSWER_TIME, next.run(request)).await.unwrap_or_else(|_| {
        let detail = format!("no answer within {} s", ANSWER_TIME.as_secs());
        Problem::unavailable(detail, "try again later").into_response()
    })
}

/// Headers that keep a browser from guessing, framing and telling.
async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let opener = HeaderName::from_static("cross-origin-opener-policy");
    let resource = HeaderName::from_static("cross-origin-resource-policy");
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (opener, "same-origin"),
        (resource, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// A body that did not arrive in time.
fn late() -> Problem {
    let detail = format!("the body did not arrive within {} s", BODY_TIME.as_secs());
    Problem::new(StatusCode::REQUEST_TIMEOUT, detail, "send it sooner, or in parts")
}

/// A body of JSON, or one line that says what is wrong with it.
pub(crate) struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let reading = axum::Json::<Object<T>>::from_request(request, state);
        let axum::Json(Object(value)) =
            tokio::time::timeout(BODY_TIME, reading).await.map_err(|_| late())??;
        Ok(Self(value))
    }
}

/// A body that is text, or one line that says what is wrong with it.
pub(crate) struct Text(pub String);

impl<S: Send + Sync> FromRequest<S> for Text {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let reading = String::from_request(request, state);
        let read = tokio::time::timeout(BODY_TIME, reading).await.map_err(|_| late())?;
        let wrong = |rejection: StringRejection| {
            Problem::new(rejection.status(), rejection.body_text(), "send UTF-8 of up to 16 MiB, in batches")
        };
        read.map(Self).map_err(wrong)
    }
}

/// The query of a request, or one line that says what is wrong with it.
pub(crate) struct QueryParams<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let axum::extract::Query(value) = axum::extract::Query::<T>::from_request_parts(parts, state).await?;
        Ok(Self(value))
    }
}

/// A part of a request's path, or one line that says what is wrong with it.
pub(crate) struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let axum::extract::Path(value) = axum::extract::Path::<T>::from_request_parts(parts, state).await?;
        Ok(Self(value))
    }
}
