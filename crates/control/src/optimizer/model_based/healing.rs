//! Streams of the farthest paths that have lost packets: cubic needs ten seconds and more there to send again what it
//! sent before, and what they move meanwhile says little of the path.

use crate::optimizer::model_based::epoch::Seen;

/// They get quicker by this much an epoch, or have healed if so often they do not.
const GROWTH: f64 = 0.02;
const HEALED: u32 = 2;
/// A shortfall of more than this share of what was usual is not theirs.
const HURT: f64 = 0.5;

/// What became of them.
#[derive(Clone, Copy, Debug, Default)]
pub enum Healing {
    /// They move what they can.
    #[default]
    Sound,
    /// They have just lost packets; `again` if the epoch before did, too, which is no wound but the path.
    Wounded { again: bool },
    /// They recover: the most since then, in Mbit/s, and epochs in a row that brought no more.
    Recovering { best: f64, same: u32 },
}

impl Healing {
    /// Remembers losses until the streams have recovered from them.
    pub fn watch(&mut self, seen: &Seen) {
        *self = match *self {
            Self::Wounded { .. } if seen.wounded => Self::Wounded { again: true },
            _ if seen.wounded => Self::Wounded { again: false },
            Self::Sound => Self::Sound,
            Self::Wounded { .. } => Self::Recovering { best: seen.goodput, same: 0 },
            Self::Recovering { best, same } => {
                let same = if seen.goodput > (1.0 + GROWTH) * best { 0 } else { same + 1 };
                let best = best.max(seen.goodput);
                if same < HEALED { Self::Recovering { best, same } } else { Self::Sound }
            }
        };
    }

    /// Whether they still recover.
    pub fn goes_on(&self) -> bool {
        !matches!(self, Self::Sound)
    }

    /// Whether a goodput below `usual` may be theirs.
    pub fn explains(&self, seen: &Seen, usual: f64) -> bool {
        !matches!(self, Self::Sound | Self::Wounded { again: true }) && seen.goodput >= HURT * usual
    }
}
