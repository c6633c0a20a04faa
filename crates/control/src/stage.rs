//! The three stages of a transfer, and values held once a stage or once an end.

use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

/// A stage of the path, always in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// From the source into the sender's staging.
    Read,
    /// From the sender's staging into the receiver's.
    Network,
    /// From the receiver's staging into the sink.
    Write,
}

impl Stage {
    /// Read, network, write.
    pub const ALL: [Self; 3] = [Self::Read, Self::Network, Self::Write];

    /// The lower-case name used in files and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Network => "network",
            Self::Write => "write",
        }
    }
}

crate::named!(Stage);

/// One value a stage.
///
/// ```
/// use tidegate_control::{Concurrency, PerStage, Stage};
///
/// let n: Concurrency = PerStage::new(4, 8, 2);
/// assert_eq!(n[Stage::Network], 8);
/// assert_eq!(n.map(|n| n * 2), PerStage::new(8, 16, 4));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline))]
#[serde(deny_unknown_fields)]
pub struct PerStage<T> {
    /// The read stage's value.
    pub read: T,
    /// The network stage's value.
    pub network: T,
    /// The write stage's value.
    pub write: T,
}

/// Workers a stage: the set-point of a transfer, and the action of a learned policy.
pub type Concurrency = PerStage<u16>;

impl<T> PerStage<T> {
    /// Read, network, write.
    pub const fn new(read: T, network: T, write: T) -> Self {
        Self { read, network, write }
    }

    /// The values `f` gives for each stage, in order.
    pub fn from_fn(mut f: impl FnMut(Stage) -> T) -> Self {
        Self { read: f(Stage::Read), network: f(Stage::Network), write: f(Stage::Write) }
    }

    /// Each value through `f`.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> PerStage<U> {
        PerStage { read: f(self.read), network: f(self.network), write: f(self.write) }
    }

    /// The three values in order.
    pub fn into_array(self) -> [T; 3] {
        [self.read, self.network, self.write]
    }
}

impl<T: Copy> PerStage<T> {
    /// The same value for every stage.
    pub const fn all(value: T) -> Self {
        Self { read: value, network: value, write: value }
    }
}

impl<T> Index<Stage> for PerStage<T> {
    type Output = T;
    fn index(&self, stage: Stage) -> &T {
        match stage {
            Stage::Read => &self.read,
            Stage::Network => &self.network,
            Stage::Write => &self.write,
        }
    }
}

impl<T> IndexMut<Stage> for PerStage<T> {
    fn index_mut(&mut self, stage: Stage) -> &mut T {
        match stage {
            Stage::Read => &mut self.read,
            Stage::Network => &mut self.network,
            Stage::Write => &mut self.write,
        }
    }
}

/// One value an end of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline))]
#[serde(deny_unknown_fields)]
pub struct Ends<T> {
    /// The sending host's value.
    pub sender: T,
    /// The receiving host's value.
    pub receiver: T,
}

/// The fewest and the most workers a stage may have, both inclusive and at least 1.
///
/// A stage that a route lacks, or that runs elsewhere, has `min == max`, so optimizers stay
/// ignorant of routes.
///
/// ```
/// use tidegate_control::{Bounds, PerStage};
///
/// // Memory to memory: there is only a network to decide about.
/// let bounds = PerStage::new(Bounds::fixed(1), Bounds::new(1, 32), Bounds::fixed(1));
/// assert_eq!(bounds.clamp(PerStage::all(64)), PerStage::new(1, 32, 1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// The fewest workers.
    pub min: u16,
    /// The most workers.
    pub max: u16,
}

impl Bounds {
    /// Bounds from `min` to `max`; both are raised to 1 and `max` to `min` where needed.
    pub const fn new(min: u16, max: u16) -> Self {
        let min = if min == 0 { 1 } else { min };
        Self { min, max: if max < min { min } else { max } }
    }

    /// A stage that always has `n` workers.
    pub const fn fixed(n: u16) -> Self {
        Self::new(n, n)
    }

    /// Whether there is nothing to decide.
    pub const fn is_fixed(self) -> bool {
        self.min == self.max
    }

    /// The number of workers nearest to `n` within the bounds.
    pub fn clamp(self, n: u16) -> u16 {
        n.clamp(self.min, self.max)
    }

    /// As [`clamp`](Self::clamp), for the real or negative numbers rules compute; NaN becomes `min`.
    pub fn clamp_f64(self, n: f64) -> u16 {
        if n.is_nan() { self.min } else { n.round().clamp(f64::from(self.min), f64::from(self.max)) as u16 }
    }
}

impl PerStage<Bounds> {
    /// The set-point nearest to `n` within the bounds.
    pub fn clamp(self, n: Concurrency) -> Concurrency {
        PerStage::from_fn(|stage| self[stage].clamp(n[stage]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_never_empty() {
        assert_eq!(Bounds::new(0, 0), Bounds::fixed(1));
        assert_eq!(Bounds::new(5, 2), Bounds::fixed(5));
        assert_eq!(Bounds::new(2, 9).clamp(40), 9);
        assert_eq!(Bounds::new(2, 9).clamp_f64(f64::NAN), 2);
        assert_eq!(Bounds::new(2, 9).clamp_f64(-3.0), 2);
        assert_eq!(Bounds::new(2, 9).clamp_f64(4.6), 5);
    }
}
