//! Streams of the farthest paths that have lost packets: cubic needs ten seconds and more there to send again what it
//! sent before, and what they move meanwhile says little of the path.

use crate::optimizer::model_based::epoch::Seen;

/// They get quicker by this much an epoch, or have healed if so often they do not.
const GROWTH: f64 = 0.02;
const HEALED: u32 = 2;
/// A shortfall of more than this share of what was usual is not theirs.
const HURT: f64 = 0.5;

/// What is seen of them since they lost something.
#[derive(Clone, Copy, Debug, Default)]
pub struct Healing(Option<Since>);

/// The most, in Mbit/s, and epochs in a row that brought no more.
#[derive(Clone, Copy, Debug, Default)]
struct Since {
    best: f64,
    same: u32,
}

impl Healing {
    /// Remembers losses until the streams have recovered from them.
    pub fn watch(&mut self, seen: &Seen) {
        if seen.wounded {
            self.0 = Some(Since::default());
        } else if let Some(since) = self.0 {
            let same = if seen.goodput > (1.0 + GROWTH) * since.best { 0 } else { since.same + 1 };
            self.0 = (same < HEALED).then(|| Since { best: since.best.max(seen.goodput), same });
        }
    }

    /// Whether they still recover.
    pub fn goes_on(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a goodput below `usual` may be theirs.
    pub fn explains(&self, seen: &Seen, usual: f64) -> bool {
        self.goes_on() && !seen.wounded && seen.goodput >= HURT * usual
    }
}
