//! What a job is doing, and the one place that says what it may do next.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What a job is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobState")]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waiting for other jobs to be done.
    Blocked,
    /// Waiting for its turn.
    Queued,
    /// Moving data, or measuring.
    Running,
    /// Asked to pause, and not yet at rest.
    Pausing,
    /// At rest until it is resumed.
    Paused,
    /// Waiting to be begun again after a failure.
    Retrying,
    /// Asked to end, and not yet ended.
    Cancelling,
    /// Everything is at its destination.
    Done,
    /// Given up.
    Failed,
    /// Ended on request.
    Cancelled,
}

/// What happens to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The last job that it waited for is done.
    Released,
    /// A job that it waits for can never be done.
    Doomed,
    /// The pause after a failure is over.
    Due,
    /// Its turn has come.
    Claimed,
    /// It has finished its work.
    Completed,
    /// It failed, and may be tried again.
    Broke,
    /// It failed for good.
    GaveUp,
    /// It has stopped where it can go on later, as asked or because the service stops.
    Stopped,
    /// A user wants it to rest.
    Pause,
    /// A user wants it to go on; `blocked` if it still waits for other jobs.
    Resume {
        /// Whether it still waits for others.
        blocked: bool,
    },
    /// A user wants it to end.
    Cancel,
    /// A user wants what has failed to be tried again, or at once what waits to be; `blocked` if it waits for other jobs.
    Retry {
        /// Whether it waits for others.
        blocked: bool,
    },
    /// The service that ran it is gone, and another has begun.
    Recovered,
}

/// What a job in that state cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a job that {} cannot {event}", from.in_words())]
pub struct IllegalTransition {
    /// The state it is in.
    pub from: State,
    /// What was asked of it.
    pub event: Event,
}

impl State {
    /// Every state, in the order of a job's life.
    pub const ALL: [Self; 10] = [
        Self::Blocked,
        Self::Queued,
        Self::Running,
        Self::Pausing,
        Self::Paused,
        Self::Retrying,
        Self::Cancelling,
        Self::Done,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The state after `event`.
    pub const fn after(self, event: Event) -> Result<Self, IllegalTransition> {
        use State::{
            Blocked, Cancelled, Cancelling, Done, Failed, Paused, Pausing, Queued, Retrying, Running,
        };
        Ok(match (self, event) {
            (Blocked, Event::Released) => Queued,
            (Blocked, Event::Doomed) | (Paused, Event::Doomed) => Failed,
            (Retrying, Event::Due) => Queued,
            (Queued, Event::Claimed) => Running,
            // What is complete is complete, whatever was asked meanwhile.
            (Running | Pausing | Cancelling, Event::Completed) => Done,
            (Running, Event::Broke) => Retrying,
            (Running | Pausing, Event::GaveUp) => Failed,
            (Running, Event::Stopped | Event::Recovered) => Queued,
            (Pausing, Event::Stopped | Event::Broke | Event::Recovered) => Paused,
            (Cancelling, Event::Stopped | Event::Broke | Event::GaveUp | Event::Recovered) => Cancelled,
            (Blocked | Queued | Retrying, Event::Pause) => Paused,
            (Running, Event::Pause) => Pausing,
            (Paused, Event::Resume { blocked: false }) => Queued,
            (Paused, Event::Resume { blocked: true }) => Blocked,
            (Blocked | Queued | Retrying | Paused, Event::Cancel) => Cancelled,
            (Running | Pausing, Event::Cancel) => Cancelling,
            (Failed | Retrying, Event::Retry { blocked: false }) => Queued,
            (Failed, Event::Retry { blocked: true }) => Blocked,
            _ => return Err(IllegalTransition { from: self, event }),
        })
    }

    /// Whether it is at its end: it changes no more, unless it has failed and a user has it tried again.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }

    /// Whether something runs for it.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Running | Self::Pausing | Self::Cancelling)
    }

    /// What is said of a job in that state, behind its number.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Blocked => "waits for other jobs",
            Self::Queued => "waits for its turn",
            Self::Running => "is running",
            Self::Pausing => "is pausing",
            Self::Paused => "is paused",
            Self::Retrying => "waits to be tried again",
            Self::Cancelling => "is being cancelled",
            Self::Done => "is done",
            Self::Failed => "failed",
            Self::Cancelled => "was cancelled",
        }
    }

    /// Its name in files, tables and answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Pausing => "pausing",
            Self::Paused => "paused",
            Self::Retrying => "retrying",
            Self::Cancelling => "cancelling",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

tidegate_control::named!(State, "state of a job");

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Released => "be released",
            Self::Doomed => "fail for another",
            Self::Due => "be due again",
            Self::Claimed => "be begun",
            Self::Completed => "be completed",
            Self::Broke => "break off",
            Self::GaveUp => "be given up",
            Self::Stopped => "stop",
            Self::Pause => "be paused",
            Self::Resume { .. } => "be resumed",
            Self::Cancel => "be cancelled",
            Self::Retry { .. } => "be tried again",
            Self::Recovered => "be recovered",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EVENTS: [Event; 15] = [
        Event::Released,
        Event::Doomed,
        Event::Due,
        Event::Claimed,
        Event::Completed,
        Event::Broke,
        Event::GaveUp,
        Event::Stopped,
        Event::Pause,
        Event::Resume { blocked: false },
        Event::Resume { blocked: true },
        Event::Cancel,
        Event::Retry { blocked: false },
        Event::Retry { blocked: true },
        Event::Recovered,
    ];

    proptest! {
        #[test]
        fn whatever_happens_a_job_ends_once_and_only_by_its_own_doing(
            blocked in any::<bool>(),
            events in prop::collection::vec(0..EVENTS.len(), 0..60),
        ) {
            let mut state = if blocked { State::Blocked } else { State::Queued };
            let (mut claims, mut completions) = (0, 0);
            for event in events.into_iter().map(|i| EVENTS[i]) {
                match state.after(event) {
                    Ok(next) => {
                        let retried = state == State::Failed && matches!(event, Event::Retry { .. });
                        prop_assert!(!state.is_final() || retried, "{state} → {next} by {event:?}");
                        prop_assert_ne!(state, next);
                        if event == Event::Claimed {
                            prop_assert!(!state.is_active());
                            claims += 1;
                        }
                        if next == State::Done {
                            prop_assert!(state.is_active() && claims > 0);
                            completions += 1;
                        }
                        // A job that was asked to end never works on.
                        if state == State::Cancelling {
                            prop_assert!(next.is_final());
                        }
                        state = next;
                    }
                    Err(refused) => {
                        prop_assert_eq!((refused.from, refused.event), (state, event));
                        prop_assert!(refused.to_string().contains(state.in_words()));
                    }
                }
            }
            prop_assert!(completions <= 1);
        }
    }

    #[test]
    fn every_state_can_be_left_or_is_final_and_every_state_is_reached() {
        let nexts = |state: State| EVENTS.into_iter().filter_map(move |event| state.after(event).ok());
        for state in State::ALL {
            let ended = state.is_final() && state != State::Failed;
            assert_eq!(nexts(state).next().is_none(), ended, "{state}");
            let born = matches!(state, State::Blocked | State::Queued);
            assert!(
                born || State::ALL.into_iter().any(|from| nexts(from).any(|next| next == state)),
                "{state}"
            );
            assert_eq!(state.name().parse(), Ok(state));
            // What a service that died had running never stays so.
            if state.is_active() {
                let recovered = state.after(Event::Recovered).expect("recovers");
                assert!(!recovered.is_active());
            }
        }
        assert!("asleep".parse::<State>().is_err());
    }
}
