//! Requests as they come, answered without a network.

mod bounds;
mod documents;
mod ending;
mod names;
mod racing;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use tidegate_transfer::endpoint::access::{AccessToken, token_from_state};
use tidegate_transfer::endpoint::{Config, Endpoint};
use tidegate_transfer::wire::ticket::Claims;
use tokio::runtime::Runtime;

use super::{Served, handle};
use crate::conditions::Names;
use crate::limit::Limits;
use crate::multipart::Uploads;
use crate::signature;

/// An endpoint over a directory with an empty bucket in it, and all that answers requests for it.
pub(crate) struct Site {
    _outer: tempfile::TempDir,
    pub root: PathBuf,
    pub state: PathBuf,
    pub served: Arc<Served>,
    pub runtime: Runtime,
    pub token: AccessToken,
}

/// A token that allows everything.
fn all_of(state: &Path) -> AccessToken {
    token_from_state(state, &Claims { delete: true, ..Claims::FULL }).expect("issued")
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answered {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Site {
    pub fn new() -> Self {
        let outer = tempfile::tempdir().expect("a directory");
        let (root, state) = (outer.path().join("root"), outer.path().join("state"));
        for directory in [&root.join("bucket"), &state] {
            std::fs::create_dir_all(directory).expect("made");
        }
        let endpoint = Endpoint::bind(Config::local(&root, &state)).expect("bound");
        let token = all_of(&state);
        let (uploads, hashes, limits) = (Uploads::default(), Arc::default(), Limits::new(1 << 20));
        let served = Arc::new(Served {
            endpoint,
            unverified: false,
            names: Names::default(),
            uploads,
            hashes,
            limits,
        });
        let runtime = Runtime::new().expect("a runtime");
        Self { _outer: outer, root, state, served, runtime, token }
    }

    pub(crate) fn another_token(&self) -> AccessToken {
        all_of(&self.state)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(path, content).expect("written");
    }

    pub fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.root.join(name)).ok()
    }

    /// A request with the token as a bearer's.
    pub fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Answered {
        self.send(method, target, &[headers, &[("authorization", &self.bearer())]].concat(), body)
    }

    pub fn bearer(&self) -> String {
        format!("Bearer {}", self.token.to_word())
    }

    /// One that is signed for the body `signed`, and has `body`.
    pub(crate) fn ask_s3(
        &self,
        (method, target): (&str, &str),
        headers: &[(&str, &str)],
        (signed, body): (&str, &str),
    ) -> Answered {
        let headers = self.signed((method, target), headers, signed);
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        self.send(method, target, &headers, body)
    }

    /// The headers of a request that is signed for a body.
    pub fn signed(
        &self,
        (method, target): (&str, &str),
        headers: &[(&str, &str)],
        body: &str,
    ) -> Vec<(String, String)> {
        let sum = HEXLOWER.encode(&Sha256::digest(body));
        let headers = [&[("host", "h"), ("x-amz-content-sha256", &sum)], headers].concat();
        let now = SystemTime::now();
        let made = signature::sign(method, target, &headers, (&self.token.id, &self.token.secret), now);
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        headers.iter().map(own).chain(made).collect()
    }

    fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Answered {
        let length = body.len().to_string();
        let headers = [headers, &[("content-length", &length)]].concat();
        self.runtime.block_on(async {
            let response = self.begin(method, target, &headers, Body::from(body.to_owned())).await;
            let (parts, body) = response.into_parts();
            let body = match to_bytes(body, usize::MAX).await {
                Ok(bytes) => bytes.to_vec(),
                Err(error) => format!("cut off: {error}").into_bytes(),
            };
            Answered { status: parts.status, headers: parts.headers, body }
        })
    }

    /// Begins to be answered.
    pub async fn begin(&self, method: &str, target: &str, headers: &[(&str, &str)], body: Body) -> Response {
        self.begin_owned(method, target, headers, body).await
    }

    /// The same, which needs nothing of this any more.
    pub(crate) fn begin_owned(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> impl Future<Output = Response> + Send + use<> {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        handle(State(Arc::clone(&self.served)), request.body(body).expect("a request"))
    }
}

impl Answered {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}
