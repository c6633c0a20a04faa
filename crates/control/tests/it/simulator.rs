//! The fluid model keeps its books: nothing is created, lost or kept beyond its bounds.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_control::{BitRate, ByteCount, Environment, PerStage, Scenario, Simulator, SimulatorOptions};

fn scenario(extra: &str) -> Scenario {
    let text = format!(
        r#"
name = "test"
description = "a test"
read = {{ worker_rate = "80Mbit/s" }}
network = {{ worker_rate = "160Mbit/s" }}
write = {{ worker_rate = "200Mbit/s" }}
[link]
rate = "1Gbit/s"
{extra}
"#
    );
    Scenario::from_toml(&text).expect("good")
}

fn options(epochs: u32) -> SimulatorOptions {
    SimulatorOptions { settle: Duration::ZERO, ..SimulatorOptions::new(1, Duration::from_secs(1), epochs) }
}

/// What each stage moved in the last of `epochs` epochs.
fn steady(scenario: &Scenario, n: (u16, u16, u16), epochs: u32) -> PerStage<BitRate> {
    let mut simulator = Simulator::new(scenario.clone(), options(epochs));
    let mut last = PerStage::all(BitRate::ZERO);
    while let Ok(Some(seen)) = simulator.step(PerStage::new(n.0, n.1, n.2)) {
        last = seen.throughput;
    }
    last
}

#[test]
fn the_slowest_stage_sets_the_pace() {
    for (n, mbps) in [((4, 64, 64), 320), ((64, 2, 64), 320), ((64, 64, 3), 600), ((13, 7, 5), 1000)] {
        assert_eq!(steady(&scenario(""), n, 20), PerStage::all(BitRate::mbps(mbps)), "{n:?}");
    }
}

#[test]
fn staging_lets_a_stage_run_ahead_until_it_is_full() {
    let scenario = scenario("[staging]\nsender = \"125MB\"\nreceiver = \"125MB\"");
    let mut simulator = Simulator::new(scenario, options(9));
    let mut step = || simulator.step(PerStage::new(10, 1, 1)).ok().flatten().expect("running");
    let first = step();
    assert_eq!(first.throughput, PerStage::new(BitRate::mbps(800), BitRate::mbps(160), BitRate::mbps(160)));
    assert_eq!(first.staging_free.sender, ByteCount(45_000_000));
    let second = step();
    assert_eq!((second.throughput.read, second.staging_free.sender), (BitRate::mbps(520), ByteCount(0)));
    assert_eq!(step().throughput.read, BitRate::mbps(160));
}

#[test]
fn streams_share_a_busy_link() {
    let inelastic = scenario("[background]\nrate = \"400Mbit/s\"");
    assert_eq!(steady(&inelastic, (64, 64, 64), 9).write, BitRate::mbps(600));
    let elastic = scenario("[background]\nstreams = 10");
    assert_eq!(steady(&elastic, (64, 10, 64), 9).write, BitRate::mbps(500));
    assert_eq!(steady(&elastic, (64, 30, 64), 9).write, BitRate::mbps(750));
}

#[test]
fn changes_happen_in_time() {
    let scenario = scenario("[[timeline]]\nat = \"2s\"\nlink.rate = \"500Mbit/s\"");
    let mut simulator = Simulator::new(scenario, options(4)).recording();
    while let Ok(Some(_)) = simulator.step(PerStage::new(20, 20, 20)) {}
    let rates: Vec<u64> = simulator.delivered().iter().map(|epoch| epoch.goodput.0 / 1_000_000).collect();
    assert_eq!(rates, [1000, 1000, 500, 500]);
}

#[test]
fn a_data_set_ends() {
    let scenario = scenario("[dataset]\nsize = \"250MB\"\nfiles = 10");
    let mut simulator = Simulator::new(scenario, options(100));
    let mut epochs = 0;
    let mut left = Vec::new();
    while let Ok(Some(seen)) = simulator.step(PerStage::new(13, 7, 5)) {
        epochs += 1;
        left.push(seen.remaining.expect("known").files);
    }
    assert_eq!((epochs, left), (2, vec![5, 0]));
}

#[test]
fn new_streams_ramp_up_and_surplus_is_lost() {
    let mut slow = scenario("");
    slow.network.ramp_up = Duration::from_secs(1);
    slow.link.surplus_loss = 0.5;
    let mut simulator = Simulator::new(slow, options(9));
    let first = simulator.step(PerStage::new(64, 4, 64)).ok().flatten().expect("running");
    assert!(first.throughput.network < BitRate::mbps(400), "{:?}", first.throughput);
    assert_eq!(first.loss, Some(0.0));
    let late = (0..7).filter_map(|_| simulator.step(PerStage::new(64, 64, 64)).ok().flatten()).last();
    assert!(late.and_then(|seen| seen.loss).is_some_and(|loss| (0.4..0.5).contains(&loss)));
}

proptest! {
    #[test]
    fn nothing_is_created_or_lost(
        setpoints in prop::collection::vec((1..64u16, 1..64u16, 1..64u16), 1..30),
        mib in 1..512u64,
    ) {
        let mut scenario = scenario("");
        scenario.staging.sender = ByteCount::mib(mib);
        scenario.staging.receiver = ByteCount::mib(513 - mib);
        let mut simulator = Simulator::new(scenario.clone(), options(100));
        let (mut read, mut sent, mut written) = (0i128, 0i128, 0i128);
        for (r, n, w) in setpoints {
            let seen = simulator.step(PerStage::new(r, n, w)).ok().flatten();
            let Some(seen) = seen else { break };
            read += i128::from(seen.throughput.read.0);
            sent += i128::from(seen.throughput.network.0);
            written += i128::from(seen.throughput.write.0);
            let used = |free: ByteCount, size: ByteCount| i128::from((size.0 - free.0) * 8);
            let sender = used(seen.staging_free.sender, scenario.staging.sender);
            let receiver = used(seen.staging_free.receiver, scenario.staging.receiver);
            prop_assert!((read - sent - sender).abs() < 1000, "{} staged of {}", sender, read - sent);
            prop_assert!((sent - written - receiver).abs() < 1000, "{} staged of {}", receiver, sent - written);
            prop_assert!(seen.throughput.network <= BitRate::mbps(1000));
        }
    }
}
