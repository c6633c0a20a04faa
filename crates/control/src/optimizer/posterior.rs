//! Dev.

use crate::environment::Host;
use crate::observation::Observation;
use crate::optimizer::{Optimizer, Proposal};
use crate::path_estimator::Curve;
use crate::stage::{Bounds, Concurrency, PerStage, Stage};
use crate::waiting::Waiting;

fn knob(name: &str, default: f64) -> f64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Dev.
#[derive(Clone, Debug)]
pub struct Posterior {
    curves: PerStage<Curve>,
    suspect: PerStage<u32>,
    growth: f64,
    keep: f64,
    drift: f64,
    credible: f64,
    gain: f64,
    saving: f64,
    enough: f64,
    hazard: f64,
    floor: f64,
    start: u16,
    lift: f64,
    risk: f64,
    short: f64,
    hope: f64,
    down: f64,
    before: PerStage<Option<f64>>,
    same: f64,
    debug: bool,
}

impl Default for Posterior {
    fn default() -> Self {
        Self {
            curves: PerStage::from_fn(|_| Curve::default()),
            suspect: PerStage::all(0),
            growth: knob("GROWTH", 4.0),
            keep: knob("KEEP", 0.98),
            drift: knob("DRIFT", 0.0001),
            credible: knob("CREDIBLE", 0.1),
            gain: knob("GAIN", 0.03),
            saving: knob("SAVING", 0.75),
            enough: knob("ENOUGH", 0.98),
            hazard: knob("HAZARD", 0.01),
            floor: knob("FLOOR", 0.02),
            start: knob("START", 2.0) as u16,
            before: PerStage::all(None),
            same: knob("SAME", 0.5),
            hope: knob("HOPE", 0.5),
            down: knob("DOWN", 0.3),
            risk: knob("RISK", 0.15),
            short: knob("SHORT", 1.25),
            lift: knob("LIFT", 0.0),
            debug: std::env::var("DEBUG").is_ok(),
        }
    }
}

/// Standard deviation of ln of a stage's rate after a change.
const CHANGED: f64 = 0.7;

impl Posterior {
    fn learn(&mut self, seen: &Observation, bounds: PerStage<Bounds>) {
        let free = PerStage::from_fn(|stage: Stage| !bounds[stage].is_fixed());
        let waiting = Waiting::of(seen, free, 0.1);
        for stage in Stage::ALL.into_iter().filter(|&stage| free[stage]) {
            let busy = match seen.waited[stage] {
                Some(waited) => 1.0 - waited,
                None if waiting[stage].is_busy() => 1.0,
                None => 0.0,
            };
            let moved = seen.throughput[stage].as_mbps();
            if busy < 0.05 || moved <= 0.0 {
                continue;
            }
            let n = f64::from(seen.concurrency[stage].max(1));
            let total = moved / busy;
            let error = seen.standard_error[stage].max(self.floor);
            let variance = error * error + (0.1 * (1.0 - busy)).powi(2);
            let curve = &mut self.curves[stage];
            curve.forget(self.keep, self.drift);
            if stage == Stage::Network && busy < 0.85 && knob("NETCENS", 0.0) > 0.0 {
                curve.observe_at_least(n, moved, 1.0 / busy, error * error);
                continue;
            }
            let before = self.before[stage].replace(n);
            if curve.is_known() && before.is_some_and(|before| (n / before).ln().abs() < self.same) {
                let old = curve.density(n, total, variance);
                let wide = CHANGED * CHANGED;
                let far = (total / curve.expected(n, f64::INFINITY)).ln();
                let new = self.hazard.ln() - 0.5 * (far * far / wide + wide.ln());
                if new > old {
                    self.suspect[stage] += 1;
                    if self.suspect[stage] >= 2 || new > old + 5.0 {
                        if self.debug {
                            eprintln!("   {stage} changed: {far:.2}");
                        }
                        *curve = Curve::default();
                        self.suspect[stage] = 0;
                    } else {
                        continue;
                    }
                } else {
                    self.suspect[stage] = 0;
                }
            }
            curve.observe(n, total, variance);
        }
    }

    fn decide(&self, seen: &Observation, bounds: PerStage<Bounds>) -> (Concurrency, bool) {
        let free = |stage: &Stage| !bounds[*stage].is_fixed() && self.curves[*stage].is_known();
        let stages: Vec<Stage> = Stage::ALL.into_iter().filter(free).collect();
        let reach = PerStage::from_fn(|stage| {
            bounds[stage].clamp((f64::from(seen.concurrency[stage]) * self.growth).ceil() as u16)
        });
        let floor = PerStage::from_fn(|stage| {
            bounds[stage].clamp((f64::from(seen.concurrency[stage]) / self.growth).floor() as u16)
        });
        let range = |stage: Stage| floor[stage]..=reach[stage];
        let most = |stage: Stage, worth: &dyn Fn(f64) -> f64| {
            range(stage).map(|n| worth(f64::from(n))).fold(0.0, f64::max)
        };
        let first = |stage: Stage, worth: &dyn Fn(f64) -> f64, target: f64| {
            range(stage).find(|&n| worth(f64::from(n)) >= target).unwrap_or(reach[stage])
        };
        // The fewest workers that are expected to move the most.
        let sits = |target: f64| {
            PerStage::from_fn(|stage| {
                let worth = |n: f64| self.curves[stage].expected(n, target);
                if stages.contains(&stage) {
                    first(stage, &worth, self.enough * most(stage, &worth))
                } else {
                    seen.concurrency[stage]
                }
            })
        };
        let least =
            |of: &dyn Fn(Stage) -> f64| stages.iter().map(|&stage| of(stage)).fold(f64::INFINITY, f64::min);
        let goal = least(&|stage| most(stage, &|n| self.curves[stage].expected(n, f64::INFINITY)));
        let alone = sits(f64::INFINITY);
        let rise = |stage: Stage, n: f64| self.curves[stage].possible(n, self.credible, self.lift);
        let hope = least(&|stage| most(stage, &|n| rise(stage, n)));
        let up = hope > (1.0 + self.gain) * goal;
        let target = if up { hope } else { goal };
        let moved = least(&|stage| seen.throughput[stage].as_mbps());
        let tries = target > self.short * moved;
        let mut next = sits(target);
        for &stage in &stages {
            let curve = &self.curves[stage];
            let now = curve.expected(f64::from(alone[stage]), f64::INFINITY);
            if up && now < target {
                next[stage] = first(stage, &|n| rise(stage, n), self.enough * target);
            } else {
                let sit = f64::from(next[stage]);
                let worth = target.min(curve.expected(sit, f64::INFINITY));
                // Fewer are tried where they may be enough, and not much is lost if they are not.
                let fewer = first(
                    stage,
                    &|n| {
                        let may = curve.possible(n, self.down, self.hope) >= self.enough * worth;
                        f64::from(u8::from(may && curve.expected(n, target) >= (1.0 - self.risk) * worth))
                    },
                    1.0,
                );
                if f64::from(fewer) <= self.saving * sit {
                    next[stage] = fewer;
                }
            }
        }
        if self.debug {
            eprintln!(
                "{:5.1} n {:?} mbps {:.0?} waited {:.2?} hope {hope:.0} goal {goal:.0} up {up} -> {:?}",
                seen.at.as_secs_f64(),
                seen.concurrency.into_array(),
                seen.throughput.map(|r| r.as_mbps()).into_array(),
                seen.waited.map(|w| w.unwrap_or(-1.0)).into_array(),
                next.into_array()
            );
        }
        (next, tries)
    }
}

impl Optimizer for Posterior {
    fn start(&mut self, bounds: PerStage<Bounds>, _host: &Host) -> Proposal {
        Proposal {
            setpoint: bounds.clamp(PerStage::all(self.start)),
            short_epochs: true,
            ..Proposal::default()
        }
    }

    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Proposal {
        self.learn(seen, bounds);
        let (setpoint, tries) = self.decide(seen, bounds);
        Proposal { setpoint: bounds.clamp(setpoint), short_epochs: tries, ..Proposal::default() }
    }
}
