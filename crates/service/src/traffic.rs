//! What our own jobs move over each path, so that a rate that was measured beside them is known to be a share of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use tidegate_control::{BitRate, ByteCount};
use tidegate_spec::pair::Pair;

use crate::history::Beside;

/// The paths that jobs run over, or that somebody looks at. Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct OwnTraffic {
    paths: Arc<Mutex<HashMap<Pair, Weak<Mutex<Flow>>>>>,
}

/// What ran over a path since somebody looked at it first.
#[derive(Debug, Default)]
struct Flow {
    running: u32,
    /// Jobs that began, those that have ended among them.
    begun: u32,
    bytes: u64,
}

/// What ran over a path since this was made.
#[derive(Debug)]
pub struct TrafficWatch {
    flow: Arc<Mutex<Flow>>,
    since: Instant,
    running: u32,
    begun: u32,
    bytes: u64,
}

/// A job that moves data over a path until this is dropped.
#[derive(Debug)]
pub struct OwnJob {
    others: TrafficWatch,
    moved: u64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OwnTraffic {
    /// Looks at a path from now on.
    pub fn watch(&self, pair: &Pair) -> TrafficWatch {
        let flow = self.flow(pair);
        let (running, begun, bytes) = {
            let flow = locked(&flow);
            (flow.running, flow.begun, flow.bytes)
        };
        TrafficWatch { flow, since: Instant::now(), running, begun, bytes }
    }

    /// A job begins to move data.
    pub fn join(&self, pair: &Pair) -> OwnJob {
        let mut others = self.watch(pair);
        {
            let mut flow = locked(&others.flow);
            flow.running += 1;
            flow.begun = flow.begun.wrapping_add(1);
        }
        others.begun = others.begun.wrapping_add(1);
        OwnJob { others, moved: 0 }
    }

    fn flow(&self, pair: &Pair) -> Arc<Mutex<Flow>> {
        let mut paths = locked(&self.paths);
        if let Some(flow) = paths.get(pair).and_then(Weak::upgrade) {
            return flow;
        }
        paths.retain(|_, flow| flow.strong_count() > 0);
        let flow = Arc::default();
        paths.insert(pair.clone(), Arc::downgrade(&flow));
        flow
    }
}

impl TrafficWatch {
    /// Who ran so far.
    pub fn beside(&self) -> Beside {
        self.beside_but(0)
    }

    /// The same without so many bytes.
    fn beside_but(&self, own: u64) -> Beside {
        let flow = locked(&self.flow);
        let jobs = self.running.saturating_add(flow.begun.wrapping_sub(self.begun));
        let bytes = flow.bytes.wrapping_sub(self.bytes).saturating_sub(own);
        Beside { jobs, throughput: BitRate::over(ByteCount(bytes), self.since.elapsed()) }
    }
}

impl OwnJob {
    /// So much has it moved since it began; answers with how much that is more than was known.
    pub fn has_moved(&mut self, bytes: ByteCount) -> ByteCount {
        let new = bytes.0.saturating_sub(self.moved);
        self.moved += new;
        let mut flow = locked(&self.others.flow);
        flow.bytes = flow.bytes.wrapping_add(new);
        ByteCount(new)
    }

    /// How much it has moved.
    pub fn moved(&self) -> ByteCount {
        ByteCount(self.moved)
    }

    /// The others that ran so far.
    pub fn beside(&self) -> Beside {
        self.others.beside_but(self.moved)
    }
}

impl Drop for OwnJob {
    fn drop(&mut self) {
        locked(&self.others.flow).running -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_runs_knows_who_else_ran_and_who_looks_knows_of_all() {
        let (traffic, pair) = (OwnTraffic::default(), Pair::of("/a", "tg://b").expect("a pair"));
        let (mut one, watch) = (traffic.join(&pair), traffic.watch(&pair));
        assert_eq!((one.beside(), watch.beside().jobs), (Beside::default(), 1));
        one.has_moved(ByteCount(1_000_000));
        // What one itself moved is no company.
        assert_eq!(one.beside().throughput, BitRate::ZERO);
        assert!(watch.beside().throughput > BitRate::ZERO);
        let mut two = traffic.join(&pair);
        two.has_moved(ByteCount(5_000));
        drop(two);
        // One that came and went was there.
        assert_eq!((one.beside().jobs, watch.beside().jobs), (1, 2));
        assert!(one.beside().throughput > BitRate::ZERO);
        let other = Pair::of("/a", "tg://c").expect("a pair");
        assert_eq!(traffic.watch(&other).beside(), Beside::default());
        drop((one, watch));
        assert_eq!(traffic.watch(&pair).beside(), Beside::default());
        assert_eq!(locked(&traffic.paths).len(), 1, "paths that nobody looks at are forgotten");
    }
}
