//! What a request gets that is not done: a status, and one line that says why.

use axum::body::Body;
use axum::http::header::{CONTENT_RANGE, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use rustix::io::Errno;
use tidegate_transfer::error::{Error, ErrorKind};

use crate::xml::Xml;

/// Why a request is not done.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// S3's word for it.
    pub code: &'static str,
    /// One line.
    pub message: String,
    /// How long the file is of which no such range is there.
    pub size: Option<u64>,
}

/// A result that a client is told.
pub(crate) type Answer<T = Response> = Result<T, Refusal>;

impl Refusal {
    /// A refusal with `status`.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let code = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "AccessDenied",
            StatusCode::NOT_FOUND => "NoSuchKey",
            StatusCode::PRECONDITION_FAILED => "PreconditionFailed",
            StatusCode::RANGE_NOT_SATISFIABLE => "InvalidRange",
            StatusCode::NOT_IMPLEMENTED => "NotImplemented",
            StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowed",
            StatusCode::SERVICE_UNAVAILABLE => "SlowDown",
            status if status.is_client_error() => "InvalidRequest",
            _ => "InternalError",
        };
        Self { status, code, message: message.into(), size: None }
    }

    /// The same with another of S3's words.
    #[must_use]
    pub fn called(self, code: &'static str) -> Self {
        Self { code, ..self }
    }

    /// The request makes no sense.
    pub fn senseless(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// As S3 says it, of `resource`.
    pub(crate) fn into_s3(self, resource: &str) -> Response {
        let mut xml = Xml::new();
        xml.within("Error", |xml| {
            xml.element("Code", self.code);
            xml.element("Message", &self.message);
            xml.element("Resource", resource);
        });
        answered((self.status, self.size), "application/xml", xml.finish())
    }
}

fn answered((status, size): (StatusCode, Option<u64>), kind: &'static str, text: String) -> Response {
    let mut response = (status, Body::from(text)).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Some(Ok(range)) = size.map(|size| format!("bytes */{size}").parse()) {
        headers.insert(CONTENT_RANGE, range);
    }
    if status == StatusCode::UNAUTHORIZED {
        // Browsers ask for a password, which is the token.
        let challenge = "Basic realm=\"tidegate: the password is a token\", charset=\"UTF-8\"";
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
    }
    response
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        answered((self.status, self.size), "text/plain; charset=utf-8", self.message + "\n")
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match (error.kind, error.errno().map(Errno::from_raw_os_error)) {
            (ErrorKind::Io, Some(Errno::NOTDIR)) => {
                return Self::new(StatusCode::CONFLICT, "a file bears the name of a directory on the way");
            }
            (ErrorKind::Io, Some(Errno::NAMETOOLONG)) => {
                return Self::senseless("the path is longer than a file may have it")
                    .called("KeyTooLongError");
            }
            _ => {}
        }
        let status = match error.kind {
            ErrorKind::Authentication => StatusCode::UNAUTHORIZED,
            ErrorKind::Denied | ErrorKind::UnsafeName => StatusCode::FORBIDDEN,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
            ErrorKind::Busy => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::Usage | ErrorKind::Protocol => StatusCode::BAD_REQUEST,
            ErrorKind::Changed => StatusCode::CONFLICT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.message)
    }
}
