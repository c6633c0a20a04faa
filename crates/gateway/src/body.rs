//! Bodies that are made while they are sent: a piece at a time, each on a thread of its own that is held no longer than
//! the piece takes, so that a slow client holds none.

use std::io;

use axum::body::{Body, Bytes};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio_stream::wrappers::ReceiverStream;

/// Pieces that are ready and not yet taken: a thousand clients that take none cost memory for theirs.
const AHEAD: usize = 1;

/// What makes the pieces of a body, which ends with them or with an error, by which the connection ends.
pub type Pieces = Box<dyn Iterator<Item = io::Result<Bytes>> + Send>;

/// The body that `pieces` make; needs a runtime.
pub fn streamed(mut pieces: Pieces) -> Body {
    let (sender, receiver) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        loop {
            let next = spawn_blocking(move || {
                let piece = pieces.next();
                (pieces, piece)
            });
            let piece = match next.await {
                Ok((_, None)) => return,
                Ok((rest, Some(piece))) => {
                    pieces = rest;
                    piece
                }
                Err(error) => {
                    let _ = sender.send(Err(io::Error::other(error))).await;
                    return;
                }
            };
            let is_last = piece.is_err();
            if sender.send(piece).await.is_err() || is_last {
                return;
            }
        }
    });
    Body::from_stream(ReceiverStream::new(receiver))
}
