//! Streams that begin: a thread looks at them many times a round trip, and holds back those that wait in a queue.

use std::sync::Arc;
use std::time::Duration;

use super::SenderState;
use crate::sys::thread;

/// How often it is looked while streams begin.
const TICK: Duration = Duration::from_millis(10);

/// Follows the streams of `sender` until it is stopped.
pub(super) fn follow(sender: &Arc<SenderState>) {
    let followed = Arc::clone(sender);
    let follow = move || {
        while followed.data_streams.wait_for_starts() {
            followed.data_streams.tend_starts();
            thread::sleep(TICK);
        }
    };
    if let Err(error) = thread::Builder::new().name("starts".to_owned()).spawn(follow) {
        tracing::warn!("streams begin unheeded: cannot start a thread: {error}");
    }
}
