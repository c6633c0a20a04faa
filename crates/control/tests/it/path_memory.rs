//! What a run leaves behind, and what the next one over the path makes of it: right, or wrong by four times.

use std::time::Duration;

use crate::common::seeds;
use tidegate_control::look::Look;
use tidegate_control::optimizer::{Optimizer, OptimizerOptions, build};
use tidegate_control::path_memory::{BEGINS, PathMemory, StageMemory};
use tidegate_control::random_path::{EPOCHS, unseen};
use tidegate_control::remember::{MIN_EPOCHS, remember};
use tidegate_control::simulator::Delivered;
use tidegate_control::{
    BitRate, Bounds, Concurrency, Epoch, Host, Observation, PerStage, Proposal, Scenario, Simulation,
    SimulatorOptions, Stage, simulate,
};

/// A rule that is told of a memory.
struct Recalling {
    rule: Box<dyn Optimizer>,
    memory: Option<PathMemory>,
}

impl Optimizer for Recalling {
    fn start(&mut self, bounds: PerStage<Bounds>, host: &Host) -> Proposal {
        self.rule.start(bounds, &Host { remembered: self.memory.clone(), ..host.clone() })
    }

    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Proposal {
        self.rule.propose(seen, bounds)
    }
}

/// Knows the numbers, and keeps them.
struct Held(Concurrency);

impl Optimizer for Held {
    fn start(&mut self, bounds: PerStage<Bounds>, _: &Host) -> Proposal {
        Proposal { short_epochs: true, ..bounds.clamp(self.0).into() }
    }

    fn propose(&mut self, _: &Observation, bounds: PerStage<Bounds>) -> Proposal {
        bounds.clamp(self.0).into()
    }
}

fn rule(name: &str) -> Box<dyn Optimizer> {
    build(name, &OptimizerOptions::default()).expect("a rule")
}

fn drive(scenario: &Scenario, rule: &mut dyn Optimizer, seed: u64, epochs: u32) -> Simulation {
    let options = SimulatorOptions::new(seed, Duration::from_secs(1), epochs).with_short_epochs();
    simulate(scenario, rule, None, options)
}

/// Mean goodput in bit/s.
fn goodput(delivered: &[Delivered]) -> f64 {
    let seconds = |epoch: &Delivered| epoch.length.as_secs_f64();
    let bits: f64 = delivered.iter().map(|epoch| epoch.goodput.0 as f64 * seconds(epoch)).sum();
    bits / delivered.iter().map(seconds).sum::<f64>()
}

/// Epochs until 90 % of `goal` are reached.
fn epochs_to(goal: f64, run: &Simulation) -> usize {
    let at = run.delivered.iter().position(|epoch| epoch.goodput.0 as f64 >= 0.9 * goal);
    at.map_or(usize::MAX, |at| at + 1)
}

/// The same with `workers` times as many workers that can do `able` times as much.
fn scaled(memory: &PathMemory, workers: f64, able: f64) -> PathMemory {
    let number = |n: u16| ((f64::from(n) * workers).round() as u16).max(1);
    let mut wrong = memory.clone();
    for stage in Stage::ALL {
        let stage = &mut wrong.stages[stage];
        stage.workers = number(stage.workers);
        for look in &mut stage.looks {
            look.workers = number(look.workers);
            look.able_bps = BitRate::from_bps(look.able_bps.0 as f64 * able);
        }
    }
    wrong
}

/// Factors on workers, and on what they can do: right; workers that were slower and faster; a link that was wider and
/// narrower.
const MEMORIES: [(&str, f64, f64); 5] = [
    ("right", 1.0, 1.0),
    ("too many workers", 4.0, 1.0),
    ("too few workers", 0.25, 1.0),
    ("of a wider link", 4.0, 4.0),
    ("of a narrower link", 0.25, 0.25),
];

/// Share of the paths: so many may be told otherwise by the noise of their first epochs.
const CHANCE: f64 = 0.05;

#[test]
fn a_right_memory_saves_the_way_up_and_a_wrong_one_costs_two_epochs_at_most() {
    let paths = seeds(4, 200) as usize;
    for share in ["full", "fair"] {
        let name = format!("auto:share={share}");
        let mut without: Vec<usize> = Vec::new();
        let mut with = MEMORIES.map(|_| Vec::new());
        let mut late = Vec::new();
        for seed in (30_000..).take(paths) {
            let mut scenario = unseen(seed);
            scenario.timeline.clear();
            let first = drive(&scenario, &mut *rule(&name), seed, EPOCHS);
            let goal = goodput(&first.delivered[first.delivered.len() - 10..]);
            let memory = remember(&first.epochs, 0).expect("long enough");
            let again = |memory| {
                let mut rule = Recalling { rule: rule(&name), memory };
                epochs_to(goal, &drive(&scenario, &mut rule, seed + 1_000_000, 20))
            };
            let fresh = again(None);
            without.push(fresh);
            let mut held = Held(memory.start(PerStage::all(Bounds::new(1, u16::MAX))));
            let held = epochs_to(goal, &drive(&scenario, &mut held, seed + 1_000_000, 20));
            for (i, (what, workers, able)) in MEMORIES.into_iter().enumerate() {
                let epochs = again(Some(scaled(&memory, workers, able)));
                with[i].push(epochs);
                if epochs > if i == 0 { held.saturating_add(1) } else { fresh + 2 } {
                    late.push(format!(
                        "seed {seed}, {what}: {epochs} epochs, {fresh} without, {held} if it is held"
                    ));
                }
            }
        }
        let told = |epochs: &mut Vec<usize>| {
            epochs.sort_unstable();
            let at = |share: f64| epochs[((epochs.len() - 1) as f64 * share) as usize];
            (at(0.5), at(0.95), at(1.0))
        };
        println!("{share}: epochs to 90 % (median, 95th percentile, most) on {paths} paths from seed 30000");
        println!("  without a memory: {:?}", told(&mut without));
        for ((what, _, _), epochs) in MEMORIES.iter().zip(&mut with) {
            println!("  {what}: {:?}", told(epochs));
        }
        println!("  later than they may: {late:#?}");
        let sum = |epochs: &[usize]| epochs.iter().sum::<usize>();
        assert!(sum(&with[0]) < sum(&without), "{share}: a right memory saves nothing");
        let most = CHANCE * (paths * MEMORIES.len()) as f64;
        assert!(late.len() as f64 <= most, "{share}: {late:#?}");
    }
}

fn epoch(t_ms: u64, workers: u16, mbps: u64) -> Epoch {
    let seen = serde_json::json!({
        "t_ms": t_ms, "interval_ms": 1000,
        "concurrency": PerStage::all(workers), "setpoint": PerStage::all(workers),
        "throughput_bps": PerStage::all(BitRate::mbps(mbps)),
        "waited": {"read": 0.5, "network": null, "write": 0.99},
        "staging_free_bytes": {"sender": 0, "receiver": 0}, "loss": null, "rtt_us": 70 + workers, "utility": null,
    });
    serde_json::from_value(seen).expect("an epoch")
}

#[test]
fn what_was_held_is_remembered_and_not_the_way_there() {
    let run: Vec<Epoch> =
        [(2, 200), (8, 800), (32, 1000), (10, 1000), (10, 1000), (40, 900), (10, 1000), (1, 0)]
            .into_iter()
            .zip(1..)
            .map(|((workers, mbps), t)| epoch(1000 * t, workers, mbps))
            .collect();
    let memory = remember(&run, 77).expect("long enough");
    assert_eq!((memory.at_unix_s, memory.epochs, memory.round_trip_us), (77, 7, Some(72)));
    assert_eq!(memory.start(PerStage::all(Bounds::new(1, 99))), PerStage::all(10));
    let PerStage { read, network, write } = memory.stages;
    assert_eq!(network.throughput_bps, BitRate(966_666_667), "the mean of the second half");
    let told = |stage: &StageMemory| -> Vec<(u16, u64)> {
        stage.looks.iter().map(|look| (look.workers, look.able_bps.0 / 1_000_000)).collect()
    };
    assert_eq!(told(&network), [(2, 200), (10, 1000), (32, 1000)], "what is near another tells little more");
    assert_eq!(told(&read), [(2, 400), (10, 2000), (32, 2000)], "who waited could have moved more");
    assert_eq!(told(&write), [], "who did nothing but wait tells nothing");
    let mut drained = run.clone();
    drained[0].draining.read = 3.0;
    let memory = remember(&drained, 77).expect("long enough");
    assert_eq!(told(&memory.stages.read)[0], (2, 100), "of four at work in the mean, three had been let go");
    assert_eq!(remember(&run[..MIN_EPOCHS - 1], 0), None, "too short");
    assert_eq!(remember(&[], 0), None);
}

#[test]
fn whatever_is_remembered_the_start_is_within_the_bounds() {
    let absurd = [0, 1, u16::MAX].into_iter().flat_map(|workers| {
        let look = |bps, standard_error| Look { workers, able_bps: BitRate(bps), standard_error };
        let looks = [(0, 0.0), (u64::MAX, f64::NAN), (1, f64::INFINITY), (u64::MAX, 1e300), (1, 0.0)];
        looks.map(|(bps, error)| StageMemory {
            workers,
            throughput_bps: BitRate(bps),
            looks: vec![look(bps, error); 9],
        })
    });
    let bounds = PerStage::new(Bounds::new(1, 32), Bounds::fixed(7), Bounds::new(3, 4));
    for stage in absurd {
        let memory = PathMemory { stages: PerStage::from_fn(|_| stage.clone()), ..PathMemory::default() };
        for name in ["auto", "aimd"] {
            let mut rule = Recalling { rule: rule(name), memory: Some(memory.clone()) };
            let start = rule.start(bounds, &Host::default());
            if name != "aimd" {
                assert_eq!((start.setpoint, start.reason), (memory.start(bounds), Some(BEGINS)), "{name}");
            }
            let mut setpoint = start.setpoint;
            for second in 1..20 {
                assert_eq!(bounds.clamp(setpoint), setpoint, "{name}, {stage:?}");
                let seen = Observation {
                    at: Duration::from_secs(second),
                    interval: Duration::from_secs(1),
                    concurrency: setpoint,
                    throughput: setpoint.map(|n| BitRate::mbps(u64::from(n) * 100)),
                    ..Observation::default()
                };
                setpoint = bounds.clamp(rule.propose(&seen, bounds).setpoint);
            }
        }
    }
}

#[test]
fn a_rule_that_begins_as_published_does_so() {
    let memory = PathMemory {
        stages: PerStage::from_fn(|_| StageMemory { workers: 20, ..StageMemory::default() }),
        ..PathMemory::default()
    };
    let bounds = PerStage::all(Bounds::new(1, 32));
    for name in ["universal", "aimd", "falcon", "gradient", "fts3", "fixed:3"] {
        let start = |remembered| rule(name).start(bounds, &Host { remembered, ..Host::default() });
        assert_eq!(start(Some(memory.clone())), start(None), "{name}");
    }
    let in_the_background =
        rule("auto:share=background").start(bounds, &Host { remembered: Some(memory), ..Host::default() });
    assert_eq!(in_the_background.setpoint, PerStage::new(20, 1, 20), "whatever is remembered, it gives way");
}
