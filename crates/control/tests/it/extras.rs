//! What a scenario adds to the ideal path: late decisions, bursts, slow starts; and how to do without.

use std::time::Duration;

use tidegate_control::{
    BitRate, Concurrency, Environment, Extra, Observation, PerStage, Scenario, Simulator, SimulatorOptions,
};

const IDEAL: &str = r#"
name = "test"
description = "a test"
read = { worker_rate = "80Mbit/s" }
network = { worker_rate = "160Mbit/s" }
write = { worker_rate = "200Mbit/s" }
link = { rate = "1Gbit/s", rtt = "40ms" }
"#;

const ALL: &str = r#"
name = "test"
description = "a test"
read = { worker_rate = "80Mbit/s", ramp_up = "100ms", knee = { workers = 8, slope = 0.1 } }
network = { worker_rate = "160Mbit/s" }
write = { worker_rate = "200Mbit/s" }
link = { rate = "1Gbit/s", rtt = "40ms", loss = 1e-6, surplus_loss = 0.01, ramp_rtts = 5 }
noise = { throughput = 0.1 }
decision = { lag = "300ms" }
background = { streams = 2, bursts = { rate = "300Mbit/s", streams = 3, on = "4s", off = "6s" } }
[[timeline]]
at = "10s"
write.worker_rate = "50Mbit/s"
background.rate = "100Mbit/s"
[[timeline]]
at = "20s"
link.loss = 1e-4
"#;

fn scenario(text: &str) -> Scenario {
    Scenario::from_toml(text).expect("good")
}

fn options(seed: u64) -> SimulatorOptions {
    SimulatorOptions { settle: Duration::ZERO, ..SimulatorOptions::new(seed, Duration::from_secs(1), 60) }
}

/// What sixty epochs show while the set-point moves about.
fn play(simulator: &mut Simulator) -> Vec<Observation> {
    let setpoint = |epoch: u16| PerStage::new(2 + epoch % 13, 1 + epoch % 11, 3 + epoch % 7);
    (0..60).map_while(|epoch| simulator.step(setpoint(epoch)).ok().flatten()).collect()
}

fn seen(scenario: Scenario, seed: u64) -> Vec<Observation> {
    play(&mut Simulator::new(scenario, options(seed)))
}

#[test]
fn without_its_extras_a_path_is_the_ideal_one() {
    assert_eq!(seen(scenario(ALL).ideal(), 1), seen(scenario(IDEAL), 1));
}

#[test]
fn each_extra_makes_a_difference() {
    let all = seen(scenario(ALL), 1);
    for extra in Extra::ALL {
        let less = scenario(ALL).without(extra);
        assert_ne!(seen(less.clone(), 1), all, "{extra:?}");
        assert_eq!(less.clone().without(extra), less, "{extra:?}");
    }
    let text = scenario(ALL);
    let quiet = text.clone().without(Extra::Background);
    assert_eq!(quiet.timeline.len(), 2);
    assert!(quiet.timeline.iter().all(|change| change.background.rate.is_none()));
    assert_eq!(text.without(Extra::Changes).timeline.len(), 1);
}

#[test]
fn a_seed_fixes_everything_and_a_reset_replays_it() {
    let mut simulator = Simulator::new(scenario(ALL), options(7));
    let first = play(&mut simulator);
    assert_eq!(first.len(), 60);
    simulator.reset(8);
    let other = play(&mut simulator);
    simulator.reset(7);
    assert_eq!(play(&mut simulator), first);
    assert_ne!(other, first);
}

#[test]
fn a_late_decision_takes_effect_within_a_later_epoch() {
    let n = |n| PerStage::new(60, n, 60);
    let run = |lag: u64, asked: &[u16]| -> Vec<(Concurrency, u64)> {
        let mut scenario = scenario(IDEAL);
        scenario.decision.lag = Duration::from_millis(lag);
        let mut simulator = Simulator::new(scenario, options(1));
        let step = |&k: &u16| simulator.step(n(k)).ok().flatten();
        let seen = asked.iter().map_while(step);
        seen.map(|seen| (seen.concurrency, seen.throughput.network.0 / 1_000_000)).collect()
    };
    assert_eq!(run(0, &[1, 2, 3]), [(n(1), 160), (n(2), 320), (n(3), 480)]);
    assert_eq!(run(250, &[1, 2, 3]), [(n(1), 160), (n(2), 280), (n(3), 440)]);
    assert_eq!(run(1500, &[1, 2, 3, 3]), [(n(1), 160), (n(1), 160), (n(2), 240), (n(3), 400)]);
}

#[test]
fn bursts_come_and_go() {
    let mut scenario = scenario(IDEAL);
    let text = "name='b'\ndescription=''\n[network]\nworker_rate='1Mbit/s'\n[link]\nrate='1Gbit/s'\n\
                [background]\nbursts={ rate='600Mbit/s', on='3s', off='3s' }";
    scenario.background = Scenario::from_toml(text).expect("good").background;
    let mut simulator = Simulator::new(scenario, SimulatorOptions { epochs: None, ..options(3) }).recording();
    for _ in 0..2000 {
        simulator.step(PerStage::new(20, 20, 20)).expect("infallible");
    }
    let rates: Vec<BitRate> = simulator.delivered().iter().map(|epoch| epoch.goodput).collect();
    assert!(rates.contains(&BitRate::mbps(1000)) && rates.contains(&BitRate::mbps(400)));
    assert!(rates.iter().all(|rate| (400..=1000).contains(&(rate.0 / 1_000_000))));
    let mean = rates.iter().map(|rate| rate.as_mbps()).sum::<f64>() / rates.len() as f64;
    assert!((650.0..750.0).contains(&mean), "{mean}");
    // The oracle knows of the bursts: 20 workers a stage lose nothing that could be had.
    for epoch in simulator.delivered() {
        assert!((epoch.goodput.as_mbps() / epoch.best.as_mbps() - 1.0).abs() < 1e-6, "{epoch:?}");
    }
}

#[test]
fn an_epoch_need_not_be_a_round_number() {
    let odd = SimulatorOptions { epoch: Duration::from_nanos(777_777_777), ..options(1) };
    let mut simulator = Simulator::new(scenario(IDEAL), odd);
    let last = play(&mut simulator).pop().expect("sixty epochs");
    assert_eq!(last.at, Duration::from_nanos(777_777_777 * 60));
    assert_eq!(last.interval, Duration::from_nanos(777_777_777));
}
