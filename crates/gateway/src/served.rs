//! What every request that changes something is answered with.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::request::Parts;
use tidegate_transfer::endpoint::Endpoint;
use tokio::task::spawn_blocking;

use crate::multipart::Uploads;
use crate::refusal::{Answer, Refusal};

/// What is served, and how.
pub struct Served {
    /// Root, rights and tokens.
    pub endpoint: Arc<Endpoint>,
    /// Whether files may be put that nothing vouches for.
    pub unverified: bool,
    /// What S3's clients put in parts.
    pub uploads: Uploads,
}

/// A request without its body.
pub struct Asked {
    /// As it came.
    pub parts: Parts,
    /// Where, beneath the root.
    pub path: Vec<u8>,
    /// Names and values.
    pub query: Vec<(String, String)>,
}

/// Does what may wait for a disk.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Answer<T> + Send + 'static) -> Answer<T> {
    let failed = "this cannot be answered; the endpoint's log says why";
    spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, failed)))
}
