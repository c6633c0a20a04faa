//! The default rule: [`ModelBased`], which begins with what the hosts are known to bear.
//!
//! A short transfer ends before any rule acts, so its first set-point counts most.

use crate::environment::Host;
use crate::observation::Observation;
use crate::optimizer::model_based::{FARTHEST, ModelBased};
use crate::optimizer::{Optimizer, Proposal};
use crate::path_memory::BEGINS;
use crate::stage::{Bounds, PerStage};

/// The default rule.
#[derive(Clone, Debug)]
pub struct Auto {
    rule: ModelBased,
}

impl Auto {
    /// Begins as it sees fit, and then lets `rule` decide.
    pub const fn new(rule: ModelBased) -> Self {
        Self { rule }
    }
}

impl Optimizer for Auto {
    /// A host with few processors is not helped by more workers than those while nothing else is known; the streams of
    /// a far path wait more than they work, and what the other end bears from the first second is asked for.
    fn start(&mut self, bounds: PerStage<Bounds>, host: &Host) -> Proposal {
        let next = self.rule.start(bounds, host);
        if let Some(memory) = &host.remembered {
            return Proposal { setpoint: memory.start(bounds), reason: Some(BEGINS), ..next };
        }
        let most = host.processors.unwrap_or(u16::MAX);
        let mut start = next.setpoint.map(|n| n.min(most));
        if host.round_trip >= Some(FARTHEST) {
            start.network = next.setpoint.network;
        }
        start.network = host.streams.unwrap_or(start.network);
        Proposal { setpoint: bounds.clamp(start), ..next }
    }

    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Proposal {
        self.rule.propose(seen, bounds)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::stage::Concurrency;

    fn start(host: &Host, bounds: PerStage<Bounds>) -> Concurrency {
        Auto::new(ModelBased::default()).start(bounds, host).setpoint
    }

    #[test]
    fn it_begins_with_what_the_hosts_are_known_to_bear() {
        let wide = PerStage::all(Bounds::new(1, 32));
        let host = |processors, ms, streams| Host {
            processors,
            round_trip: Some(Duration::from_millis(ms)),
            streams,
            remembered: None,
        };
        for (host, wanted) in [
            (Host::default(), [2, 2, 2]),
            (host(Some(1), 1, None), [1, 1, 1]),
            (host(Some(64), 1, None), [2, 2, 2]),
            (host(Some(1), 39, None), [1, 1, 1]),
            (host(Some(1), 40, None), [1, 8, 1]),
            (host(None, 100, None), [2, 8, 2]),
            (host(Some(1), 1, Some(8)), [1, 8, 1]),
            (host(Some(4), 100, Some(3)), [2, 3, 2]),
        ] {
            assert_eq!(start(&host, wide).into_array(), wanted, "{host:?}");
        }
        let narrow = PerStage::new(Bounds::fixed(1), Bounds::new(1, 4), Bounds::new(3, 4));
        assert_eq!(start(&host(Some(1), 100, Some(8)), narrow), PerStage::new(1, 4, 3), "within the bounds");
    }
}
