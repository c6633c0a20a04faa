//! What is left of a request's body once it is answered. Who is refused while it still sends hears why only if somebody reads on;
//! and who keeps a connection must know that what comes next would be taken for the rest.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::HeaderMap;
use axum::http::header::EXPECT;
use hyper::body::{Frame, SizeHint};
use tidegate_transfer::sys::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use tokio_stream::StreamExt;

/// Most bytes that are read for nobody.
const MAX_UNREAD: usize = 1 << 20;

/// How long is read for nobody at most.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether somebody has begun to read it, and the body, once nobody reads it any more.
#[derive(Default)]
struct State {
    is_begun: bool,
    left: Option<Body>,
}

/// A body that comes back.
struct Lent {
    body: Body,
    to: Arc<Mutex<State>>,
}

/// What is left of a body that is lent to who answers.
pub(crate) struct Unread {
    state: Arc<Mutex<State>>,
    /// Whether the client sends only once it is told to.
    waits: bool,
}

impl Unread {
    /// Of the `body` of a request with `headers`, and what to read instead.
    pub fn of(body: Body, headers: &HeaderMap) -> (Self, Body) {
        let state = Arc::<Mutex<State>>::default();
        let waits =
            headers.get(EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        let lent = Lent { body, to: Arc::clone(&state) };
        (Self { state, waits }, Body::new(lent))
    }

    /// Reads what is left, within bounds. Answers with whether all has come, so that the connection may go on.
    pub async fn read(self) -> bool {
        let State { is_begun, left } = std::mem::take(&mut *self.state.lock());
        let Some(body) = left else { return false };
        if body.is_end_stream() {
            return true;
        }
        // It would be told to send.
        if self.waits && !is_begun {
            return false;
        }
        let (mut stream, until, mut came) = (body.into_data_stream(), Instant::now() + PATIENCE, 0);
        loop {
            match timeout_at(until, stream.next()).await {
                Ok(None) => return true,
                Ok(Some(Ok(bytes))) if came + bytes.len() <= MAX_UNREAD => came += bytes.len(),
                _ => return false,
            }
        }
    }
}

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.to.lock().is_begun = true;
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.to.lock().left = Some(std::mem::take(&mut self.body));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(pieces: usize, read: usize, waits: bool) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let headers = waits.then(|| (EXPECT, "100-continue".parse().expect("a value"))).into_iter().collect();
        let all =
            tokio_stream::iter((0..pieces).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![0; 100 << 10]))));
        runtime.block_on(async {
            let (unread, body) = Unread::of(Body::from_stream(all), &headers);
            let mut stream = body.into_data_stream();
            for _ in 0..read {
                stream.next().await;
            }
            drop(stream);
            unread.read().await
        })
    }

    #[test]
    fn a_connection_goes_on_once_all_of_a_body_has_come() {
        for (pieces, read, waits, goes_on) in [
            (0, 0, false, true),
            (3, 0, false, true),
            (3, 1, false, true),
            (3, 3, true, true),
            (3, 1, true, true),
            (3, 0, true, false),
            (99, 0, false, false),
            (99, 95, false, true),
        ] {
            assert_eq!(left(pieces, read, waits), goes_on, "{pieces} {read} {waits}");
        }
    }
}
