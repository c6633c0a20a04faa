//! Requests as they come, answered without a network.

mod documents;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use tidegate_transfer::endpoint::access::{AccessToken, token_from_state};
use tidegate_transfer::endpoint::{Config, Endpoint};
use tidegate_transfer::wire::ticket::Claims;
use tokio::runtime::Runtime;

use super::{Served, handle};
use crate::hashes::Hashes;
use crate::limit::Limit;
use crate::multipart::Uploads;
use crate::signature;

/// An endpoint over an empty directory, and all that answers requests for it.
pub struct Site {
    _outer: tempfile::TempDir,
    pub root: PathBuf,
    served: Arc<Served>,
    runtime: Runtime,
    pub token: AccessToken,
}

/// What came back.
#[derive(Debug)]
pub struct Answered {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
}

impl Site {
    pub fn new() -> Self {
        let outer = tempfile::tempdir().expect("a directory");
        let (root, state) = (outer.path().join("root"), outer.path().join("state"));
        for directory in [&root, &state] {
            std::fs::create_dir(directory).expect("made");
        }
        let endpoint = Endpoint::bind(Config::local(&root, &state)).expect("bound");
        let token = token_from_state(&state, &Claims { delete: true, ..Claims::FULL }).expect("issued");
        let (uploads, hashes, limit) = (Uploads::default(), Hashes::default(), Limit::new(100));
        let served = Arc::new(Served { endpoint, unverified: false, uploads, hashes, limit });
        let runtime = Runtime::new().expect("a runtime");
        Self { _outer: outer, root, served, runtime, token }
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
        let bearer = format!("Bearer {}", self.token.to_word());
        self.send(method, target, &[headers, &[("authorization", &bearer)]].concat(), body)
    }

    /// One that is signed for the body `signed`, and has `body`.
    pub fn ask_s3(
        &self,
        (method, target): (&str, &str),
        headers: &[(&str, &str)],
        (signed, body): (&str, &str),
    ) -> Answered {
        let sum = HEXLOWER.encode(&Sha256::digest(signed));
        let headers = [&[("host", "h"), ("x-amz-content-sha256", &sum)], headers].concat();
        let now = SystemTime::now();
        let made = signature::sign(method, target, &headers, (&self.token.id, &self.token.secret), now);
        let made: Vec<(&str, &str)> = made.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        self.send(method, target, &[&headers, &made[..]].concat(), body)
    }

    fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Answered {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.header("content-length", body.len()).body(Body::from(body.to_owned()));
        let request = request.expect("a request");
        self.runtime.block_on(async {
            let response = handle(State(Arc::clone(&self.served)), request).await;
            let (parts, body) = response.into_parts();
            let body =
                to_bytes(body, usize::MAX).await.map_or_else(|error| error.to_string().into(), Into::into);
            let body: Vec<u8> = body;
            Answered {
                status: parts.status,
                headers: parts.headers,
                body: String::from_utf8_lossy(&body).into_owned(),
            }
        })
    }
}
