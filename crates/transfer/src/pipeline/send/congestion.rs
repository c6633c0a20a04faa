//! Streams with another congestion control where packets are lost by chance: a thread looks at what the kernel tells, and does
//! what [`CongestionTrial`] says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tidegate_control::{CongestionStep, CongestionTrial};

use super::SenderState;
use crate::congestion::{Congestion, CongestionName, CongestionTerms};
use crate::counters::StreamCounters;
use crate::sys::thread;

/// How often it is looked.
const TICK: Duration = Duration::from_millis(10);

/// What has come of it so far.
#[derive(Debug, Default)]
pub(super) struct Trying {
    undecided: AtomicBool,
    full: AtomicBool,
}

impl Trying {
    /// Whether it will be known before long what streams can do.
    pub fn is_under_way(&self) -> bool {
        self.undecided.load(Relaxed)
    }

    /// What is told of the streams besides what their kernel tells.
    pub fn told(&self, streams: StreamCounters) -> StreamCounters {
        let queued = if self.full.load(Relaxed) { streams.model_based } else { streams.queued };
        StreamCounters { queued, tries: self.is_under_way(), ..streams }
    }
}

/// Follows the streams of `sender` until it is stopped, if their congestion control is ours to choose or to pace.
pub(super) fn follow(sender: &Arc<SenderState>) {
    let CongestionTerms { asked, bounded } = &sender.terms.congestion;
    let trial = match asked {
        Congestion::Auto => CongestionTrial::new(*bounded),
        Congestion::Named(name) if *bounded && name.is_model_based() => CongestionTrial::paced(),
        Congestion::Named(_) | Congestion::System => return,
    };
    let followed = Arc::clone(sender);
    let spawned = thread::Builder::new().name("congestion".to_owned()).spawn(move || run(&followed, trial));
    if let Err(error) = spawned {
        tracing::warn!("congestion control stays as it is: cannot start a thread: {error}");
    }
}

fn run(sender: &SenderState, mut trial: CongestionTrial) {
    let streams = &sender.data_streams;
    while !sender.is_stopped() {
        if let Some(seen) = streams.path_sample(sender.tally.started.elapsed()) {
            match trial.look(&seen) {
                CongestionStep::Waits => {}
                CongestionStep::Tries => {
                    let name = CongestionName::model_based();
                    tracing::debug!("packets are lost though nothing queues: {seen:?}");
                    if let Err(error) = streams.try_congestion(&name) {
                        let (name, kept) = (name.as_str(), CongestionName::plain(&sender.terms.congestion));
                        tracing::warn!(
                            "packets are lost by chance, and this host has no {name} to try ({error}): streams keep {}",
                            kept.as_str()
                        );
                        break;
                    }
                }
                CongestionStep::Keeps => {
                    tracing::debug!("it moves far more: all streams have it");
                    streams.set_congestion(&CongestionName::model_based());
                }
                CongestionStep::GivesBack => {
                    tracing::debug!(
                        "it moves no more, or others queue: streams have what they had: {seen:?}"
                    );
                    streams.set_congestion(&CongestionName::plain(&sender.terms.congestion));
                }
            }
            if let Some(rate) = trial.rate(&seen) {
                streams.limit_model_based(rate);
            }
            sender.policy.trying.undecided.store(trial.is_undecided(), Relaxed);
            sender.policy.trying.full.store(trial.is_full(), Relaxed);
        }
        thread::sleep(TICK);
    }
    sender.policy.trying.undecided.store(false, Relaxed);
}
