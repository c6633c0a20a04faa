//! What a request that cannot be answered gets: one shape of error for all, as of RFC 9457.

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use tidegate_contract::text::elided;

/// An error: what failed, and what to do about it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Problem {
    /// The status, as a number.
    status: u16,
    /// The status, in words.
    title: String,
    /// What failed, in one line.
    detail: String,
    /// What to do, in one line.
    advice: String,
}

impl Problem {
    /// An error with `status`.
    pub fn new(status: StatusCode, detail: impl Into<String>, advice: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error").to_owned();
        // It repeats what was asked, however long that is.
        let one_line = |text: String| {
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            elided(line.into()).into_owned()
        };
        Self {
            status: status.as_u16(),
            title,
            detail: one_line(detail.into()),
            advice: one_line(advice.into()),
        }
    }

    /// The request makes no sense.
    pub(crate) fn bad_request(detail: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail, advice)
    }

    /// There is no such thing.
    pub fn not_found(detail: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail, advice)
    }

    /// It cannot be done in the state things are in.
    pub(crate) fn conflict(detail: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail, advice)
    }

    /// The service itself cannot, for now.
    pub fn unavailable(detail: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail, advice)
    }

    /// No token, or a wrong one.
    pub(crate) fn unauthorized() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "this needs the service's token",
            "send 'Authorization: Bearer TOKEN'; the service keeps it in its state directory, in service/token",
        )
    }

    /// What failed, in one line.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"tidegate\""));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }
}

/// Where the shapes of requests are told.
const SEE: &str = "GET /api/v1/openapi.json tells what is expected";

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(rejection.status(), in_our_words(&rejection.body_text()), SEE)
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(rejection.status(), in_our_words(&rejection.body_text()), SEE)
    }
}

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text(), SEE)
    }
}

/// How axum begins to say why it refuses, and how we do.
const BEGINNINGS: [(&str, &str); 3] = [
    ("Failed to deserialize the JSON body into the target type: ", "the body cannot be read: "),
    ("Failed to parse the request body as JSON: ", "the body is no JSON: "),
    ("Failed to deserialize query string: ", "the query cannot be read: "),
];

fn in_our_words(refusal: &str) -> String {
    let known = BEGINNINGS.iter().find_map(|(theirs, ours)| Some((ours, refusal.strip_prefix(theirs)?)));
    known.map_or(refusal.to_owned(), |(ours, why)| [ours, why].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_repeated_of_a_request_has_an_end() {
        let problem = Problem::bad_request("x".repeat(1 << 20), "say less");
        assert!(problem.detail().len() < 8 << 10 && problem.detail().starts_with("xxx"));
    }
}
