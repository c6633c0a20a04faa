//! Work that may wait for a disk, on a thread of its own.

use axum::http::StatusCode;
use tokio::task::spawn_blocking;

use crate::refusal::{Answer, Refusal};

/// Does it; needs a runtime.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Answer<T> + Send + 'static,
) -> Answer<T> {
    let failed = "this cannot be answered; the endpoint's log says why";
    spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, failed)))
}
