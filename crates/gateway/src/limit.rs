//! How many requests of one token are answered at a time, so that who has one leaves connections to the others.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::StatusCode;
use hyper::body::{Frame, SizeHint};

use crate::refusal::{Answer, Refusal};

/// The requests that are being answered, by the name of their token.
#[derive(Clone, Debug)]
pub struct Limit {
    most: usize,
    open: Arc<Mutex<HashMap<Arc<str>, usize>>>,
}

/// A request that is being answered, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    name: Arc<str>,
    open: Arc<Mutex<HashMap<Arc<str>, usize>>>,
}

impl Limit {
    /// At most so many of a token.
    pub fn new(most: usize) -> Self {
        Self { most, open: Arc::default() }
    }

    /// One more of the token that is called `name`, unless there are as many as may be.
    pub fn begin(&self, name: &str) -> Answer<Turn> {
        let name: Arc<str> = name.into();
        let mut open = self.open.lock().expect("not poisoned");
        let count = open.entry(Arc::clone(&name)).or_default();
        if *count >= self.most {
            let why =
                format!("{} requests of this token are being answered: come again in a moment", self.most);
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
        }
        *count += 1;
        Ok(Turn { name, open: Arc::clone(&self.open) })
    }
}

impl Turn {
    /// `body`, with which it ends.
    pub fn until_sent(self, body: Body) -> Body {
        Body::new(Sent { body, _turn: self })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut open = self.open.lock().expect("not poisoned");
        match open.get_mut(&self.name) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(open.remove(&self.name)),
        }
    }
}

/// The body of an answer, which counts until it is sent.
struct Sent {
    body: Body,
    _turn: Turn,
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_its_share_until_its_answers_are_sent() {
        let limit = Limit::new(2);
        let first = limit.begin("one").expect("a turn");
        let body = limit.begin("one").expect("a turn").until_sent(Body::from("text"));
        assert_eq!(body.size_hint().exact(), Some(4), "a length stays known");
        let refused = limit.begin("one").expect_err("two are enough");
        assert_eq!((refused.status, refused.code), (StatusCode::SERVICE_UNAVAILABLE, "SlowDown"));
        let another = limit.begin("other").expect("a token of its own");
        drop(body);
        let second = limit.begin("one").expect("one was sent");
        drop((first, second, another));
        assert!(limit.open.lock().expect("not poisoned").is_empty(), "nothing is remembered of who has none");
    }
}
