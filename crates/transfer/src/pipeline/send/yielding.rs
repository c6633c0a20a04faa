//! Streams that yield to whatever else is on the path: a thread follows the delay of their packets, and the kernel sends no
//! faster than [`BackgroundRate`] says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tidegate_control::BackgroundRate;

use super::SenderState;
use crate::sys::thread;

/// How often the rate is set.
const TICK: Duration = Duration::from_millis(10);

/// Whether they do, and whether there is a thread for it.
#[derive(Debug, Default)]
pub(super) struct Yields {
    wanted: AtomicBool,
    followed: AtomicBool,
}

/// Lets the streams of `sender` yield from now on, or no more.
pub(super) fn set(sender: &Arc<SenderState>, yields: bool) {
    sender.policy.yields.wanted.store(yields, Relaxed);
    if yields && !sender.policy.yields.followed.swap(true, Relaxed) {
        let followed = Arc::clone(sender);
        let spawned = thread::Builder::new().name("yield".to_owned()).spawn(move || follow(&followed));
        if let Err(error) = spawned {
            sender.policy.yields.followed.store(false, Relaxed);
            tracing::warn!("streams do not yield to others: cannot start a thread: {error}");
        }
    }
}

fn follow(sender: &SenderState) {
    let (mut rate, mut limited) = (BackgroundRate::default(), false);
    while !sender.is_stopped() {
        let yields = sender.policy.yields.wanted.load(Relaxed);
        if let Some(seen) = sender.data_streams.path_sample(sender.tally.started.elapsed()).filter(|_| yields)
        {
            sender.data_streams.limit_rate(Some(rate.next(seen)));
            limited = true;
        } else if !yields && std::mem::take(&mut limited) {
            sender.data_streams.limit_rate(None);
        }
        thread::sleep(TICK);
    }
}
