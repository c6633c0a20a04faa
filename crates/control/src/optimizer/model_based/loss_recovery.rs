//! Streams of the farthest paths that have lost packets: cubic needs ten seconds and more there to send again what it
//! sent before, and what they move meanwhile says little of the path.

use crate::optimizer::model_based::constants::{MIN_RECOVERING_SHARE, RECOVERED_EPOCHS, RECOVERY_GROWTH};
use crate::optimizer::model_based::epoch::Seen;

/// What became of them.
#[derive(Clone, Copy, Debug, Default)]
pub enum LossRecovery {
    /// They move what they can.
    #[default]
    Recovered,
    /// They have just lost packets; `again` if the epoch before did, too: then it is the path's doing.
    Lost { again: bool },
    /// They recover: the most since then, in Mbit/s, and epochs in a row that brought no more.
    Recovering { best: f64, same: u32 },
}

impl LossRecovery {
    /// Remembers losses until the streams have recovered from them.
    pub fn watch(&mut self, seen: &Seen) {
        *self = match *self {
            Self::Lost { .. } if seen.loss_slows => Self::Lost { again: true },
            _ if seen.loss_slows => Self::Lost { again: false },
            Self::Recovered => Self::Recovered,
            Self::Lost { .. } => Self::Recovering { best: seen.goodput, same: 0 },
            Self::Recovering { best, same } => {
                let same = if seen.goodput > (1.0 + RECOVERY_GROWTH) * best { 0 } else { same + 1 };
                let best = best.max(seen.goodput);
                if same < RECOVERED_EPOCHS { Self::Recovering { best, same } } else { Self::Recovered }
            }
        };
    }

    /// Whether they still recover.
    pub fn is_under_way(&self) -> bool {
        !matches!(self, Self::Recovered)
    }

    /// Whether a goodput below `usual` may be theirs.
    pub fn explains(&self, seen: &Seen, usual: f64) -> bool {
        !matches!(self, Self::Recovered | Self::Lost { again: true })
            && seen.goodput >= MIN_RECOVERING_SHARE * usual
    }
}
