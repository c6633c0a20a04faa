//! Bodies that are made while they are sent: a piece at a time, each on a thread of its own that is held no longer than
//! the piece takes, so that a slow client holds none.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use tidegate_transfer::endpoint::access::Access;
use tidegate_transfer::manifest::BLOCK;
use tidegate_transfer::quota::Held;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

/// Pieces that are ready and not yet taken: a thousand clients that take none cost memory for theirs.
const AHEAD: usize = 1;

/// Most bytes of a body that is on its way: a piece that is made, one that is ready, and one that is sent.
pub(crate) const MAX_HELD: usize = 3 * BLOCK as usize;

/// About how long a piece of text is.
pub(crate) const TEXT: usize = 32 << 10;

/// What makes the pieces of a body, which ends with them or with an error, by which the connection ends.
pub(crate) type Pieces = Box<dyn Iterator<Item = io::Result<Bytes>> + Send>;

/// The body that `pieces` make for as long as `access` is valid; `held` is until it is sent. Needs a runtime.
pub(crate) fn streamed(access: &Access, held: Held, mut pieces: Pieces) -> Body {
    let (sender, receiver) = mpsc::channel(AHEAD);
    let access = access.clone();
    let made_with = Arc::new(held);
    let sent_with = Arc::clone(&made_with);
    tokio::spawn(async move {
        let _held = made_with;
        loop {
            let access = access.clone();
            let next = spawn_blocking(move || {
                let piece = match access.check_valid() {
                    Ok(()) => pieces.next(),
                    Err(error) => Some(Err(io::Error::other(error))),
                };
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
    Body::from_stream(ReceiverStream::new(receiver).map(move |piece| {
        let _held = &sent_with;
        piece
    }))
}

/// Pieces of text: what stands before and behind, and between them what `write` makes of each of `items`.
pub(crate) fn text<T: Send + 'static>(
    before: String,
    mut items: impl Iterator<Item = io::Result<T>> + Send + 'static,
    mut write: impl FnMut(&T, &mut String) + Send + 'static,
    behind: impl FnOnce() -> String + Send + 'static,
) -> Pieces {
    let mut behind = Some(behind);
    let mut begun = Some(before);
    Box::new(std::iter::from_fn(move || {
        let mut piece = begun.take().unwrap_or_default();
        while piece.len() < TEXT && behind.is_some() {
            match items.next() {
                Some(Ok(item)) => write(&item, &mut piece),
                Some(Err(error)) => return Some(Err(error)),
                None => piece.push_str(&behind.take()?()),
            }
        }
        (!piece.is_empty()).then(|| Ok(piece.into()))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_in_pieces_and_all_of_it() {
        for count in [0, 1, 10_000_usize] {
            let items = (0..count).map(Ok);
            let pieces = text(
                "[".to_owned(),
                items,
                |item, text| text.push_str(&format!("{item},")),
                || "]".to_owned(),
            );
            let pieces: Vec<Bytes> = pieces.collect::<io::Result<_>>().expect("no error");
            let expected: String = (0..count).map(|item| format!("{item},")).collect();
            assert_eq!(pieces.concat(), format!("[{expected}]").as_bytes());
            assert_eq!(pieces.len(), 1 + expected.len() / (TEXT + 5), "{count}");
        }
        let broken = [Ok(1), Err(io::Error::other("broken"))].into_iter();
        let mut pieces = text(String::new(), broken, |_, text| text.push('x'), String::new);
        assert!(pieces.next().is_some_and(|piece| piece.is_err()));
    }
}
