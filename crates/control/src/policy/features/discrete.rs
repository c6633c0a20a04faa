//! The view of Hasibul et al.'s reinforcement learning, as far as it is known: what changed over the
//! last five epochs, and one of five steps up or down.
//!
//! The paper's text gives no network and no constants; actions and history are those its group's
//! later code shares, the rest is ours.

use std::collections::VecDeque;
use std::time::Duration;

use crate::observation::Observation;
use crate::policy::features::{Actions, Features, Scales, greatest, one_number};
use crate::stage::{Bounds, Concurrency, PerStage, Stage};

/// What an action adds to the number of workers.
const STEPS: [i32; 5] = [-3, -1, 0, 1, 3];
/// Epochs remembered.
const HISTORY: usize = 5;
/// ΔT/T, Δn/n, ΔU/U, loss, RTT/least RTT.
const PARTS: usize = 5;
/// K of the utility whose change is shown.
const K: f32 = 1.02;
/// Workers to begin with.
const START: u16 = 4;

/// See the module's description.
#[derive(Clone, Debug)]
pub(super) struct Discrete {
    scales: Scales,
    stages: Vec<Stage>,
    history: VecDeque<[f32; PARTS]>,
    /// T, n and U of the epoch before.
    before: Option<[f32; 3]>,
    least_rtt: Option<Duration>,
    n: u16,
}

impl Discrete {
    pub(super) fn new(scales: Scales) -> Self {
        Self {
            stages: scales.stages(),
            scales,
            history: VecDeque::new(),
            before: None,
            least_rtt: None,
            n: START,
        }
    }

    /// The bounds of the one number.
    fn bounds(&self) -> Bounds {
        match self.stages[..] {
            [only] => self.scales.bounds[only],
            _ => self.scales.bounds.network,
        }
    }
}

/// By how much `now` differs from `before`, relative; nothing is learned from a zero.
fn change(now: f32, before: f32) -> f32 {
    if before > 0.0 { (now / before - 1.0).clamp(-2.0, 2.0) } else { 0.0 }
}

impl Features for Discrete {
    fn inputs(&self) -> usize {
        HISTORY * PARTS + 1
    }

    fn heads(&self) -> usize {
        STEPS.len()
    }

    fn actions(&self) -> Actions {
        Actions::Choice
    }

    fn start(&self, bounds: PerStage<Bounds>) -> Concurrency {
        bounds.clamp(PerStage::all(START))
    }

    fn reset(&mut self) {
        (self.before, self.least_rtt, self.n) = (None, None, START);
        self.history.clear();
    }

    fn encode(&mut self, seen: &Observation, _bounds: PerStage<Bounds>, state: &mut [f32]) {
        self.n = one_number(seen, &self.stages);
        let (t, n) = (seen.goodput().as_mbps() as f32, f32::from(self.n));
        let now = [t, n, t * K.powf(-n)];
        let before = self.before.replace(now).unwrap_or(now);
        let rtt = seen.rtt.map_or(1.0, |rtt| {
            let least = self.least_rtt.map_or(rtt, |least| least.min(rtt));
            self.least_rtt = Some(least);
            (rtt.as_secs_f32() / least.as_secs_f32().max(1e-9)).min(10.0)
        });
        let loss = seen.loss.unwrap_or(0.0) as f32;
        let [t, n, u] = std::array::from_fn(|i| change(now[i], before[i]));
        self.history.push_front([t, n, u, loss, rtt - 1.0]);
        self.history.truncate(HISTORY);
        state.fill(0.0);
        for (slot, parts) in state.chunks_exact_mut(PARTS).zip(&self.history) {
            slot.copy_from_slice(parts);
        }
        state[HISTORY * PARTS] = now[1] / f32::from(self.bounds().max);
    }

    fn decode(&self, action: &[f32], bounds: PerStage<Bounds>) -> Concurrency {
        let chosen = greatest(action).unwrap_or(2);
        let n = f64::from(i32::from(self.n) + STEPS[chosen]);
        let n = self.bounds().clamp_f64(n);
        bounds.map(|bounds| bounds.clamp(n))
    }
}
