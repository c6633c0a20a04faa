//! The papers' simulators: small cases by hand, and a plain loop that must give the same bits.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tidegate_control::events::Units;
use tidegate_control::events::automdt::{self, Automdt};
use tidegate_control::events::ldm::{self, Ldm};
use tidegate_control::scenario::Staging;
use tidegate_control::{BitRate, ByteCount, Concurrency, Ends, PerStage, Rng, Stage};

/// Rates in Mbit/s, staging in Mbit.
fn settings(worker: [f64; 3], total: f64, staging: f64) -> automdt::AutomdtSettings {
    let size = ByteCount((staging * 1e6 / 8.0).round() as u64);
    automdt::AutomdtSettings::new(
        PerStage::new(worker[0], worker[1], worker[2]).map(BitRate::from_mbps),
        PerStage::all(BitRate::from_mbps(total)),
        Staging { sender: size, receiver: size },
    )
}

fn near(left: f64, right: f64) {
    assert!((left - right).abs() <= 1e-9 * right.abs().max(1.0), "{left} instead of {right}");
}

#[test]
fn one_thread_a_stage_by_hand() {
    // At 0 the network comes first and finds nothing (next at 0.01); then the reader puts in 100 (ends
    // at 1.01); then the writer finds nothing. At 0.01 the network moves 100 (ends at 1.02), and after
    // it the writer 100.
    let mut simulator = Automdt::new(&settings([100.0, 100.0, 100.0], 1000.0, 1000.0));
    let step = simulator.step(PerStage::all(1));
    near(step.throughput.read, 100.0 / 1.01);
    near(step.throughput.network, 100.0 / 1.02);
    near(step.throughput.write, 100.0 / 1.02);
    near(step.utility, (100.0 / 1.01 + 200.0 / 1.02) / 1.02);
    assert_eq!(simulator.staged(), Ends { sender: 0.0, receiver: 0.0 });
}

#[test]
fn a_cap_is_met_in_parts() {
    // Two readers of 100 with a cap of 150: one full task (ends at 1.01), one of 50 (0.51), and from
    // then on nothing every 10 ms until the second is over. The finish is the last pause's.
    let mut simulator = Automdt::new(&settings([100.0, 1.0, 1.0], 150.0, 1000.0));
    simulator.set_staged(Ends { sender: 0.0, receiver: 0.0 });
    let mut last: f64 = 0.5 + 0.01;
    while last < 1.0 {
        last += 0.01;
    }
    near(simulator.step(PerStage::new(2, 1, 1)).throughput.read, 150.0 / last);
}

#[test]
fn what_is_staged_stays() {
    let settings = settings([300.0, 200.0, 100.0], 1000.0, 150.0);
    let mut simulator = Automdt::new(&settings);
    assert_eq!(simulator.staged(), Ends { sender: 100.0, receiver: 100.0 });
    // The network takes the 100 that fit... 50 into the receiver's, so the reader finds 100 free.
    let step = simulator.step(PerStage::all(1));
    near(step.free.sender + simulator.staged().sender, 150.0);
    assert!(simulator.staged().receiver > 0.0);
    let before = simulator.staged();
    simulator.step(PerStage::new(0, 0, 0));
    assert_eq!(simulator.staged(), before);
}

#[test]
fn published_units_shrink_staging() {
    let size = ByteCount::gib(2);
    near(Units::Published.mbit(size), 2048.0);
    near(Units::Corrected.mbit(size), 17_179.869_184);
    let published = automdt::AutomdtSettings {
        units: Units::Published,
        staging: Staging { sender: ByteCount::gib(1), receiver: ByteCount::gib(1) },
        ..settings([5000.0, 1.0, 1.0], 1e6, 1.0)
    };
    assert_eq!(Automdt::new(&published).staged().sender, 1024.0);
    let corrected = automdt::AutomdtSettings { units: Units::Corrected, ..published };
    assert_eq!(Automdt::new(&corrected).staged().sender, 4999.0);
}

/// AutoMDT's loop as published, one thread after the other.
struct Plain {
    settings: automdt::AutomdtSettings,
    staged: [f64; 2],
}

impl Plain {
    fn step(&mut self, n: Concurrency) -> [f64; 3] {
        let names = ["network", "read", "write"];
        let rate = self.settings.worker_rate.map(BitRate::as_mbps);
        let total = self.settings.total_rate.map(BitRate::as_mbps);
        let size = [self.settings.staging.sender, self.settings.staging.receiver].map(|s| s.bits() / 1e6);
        let (mut moved, mut finish) = (PerStage::all(0.0), PerStage::all(0.0));
        let mut heap = BinaryHeap::new();
        for stage in Stage::ALL {
            for _ in 0..n[stage] {
                heap.push(Reverse((0f64.to_bits(), stage.name())));
            }
        }
        while let Some(Reverse((time, name))) = heap.pop() {
            assert!(names.contains(&name));
            let time = f64::from_bits(time);
            let stage = Stage::ALL.into_iter().find(|stage| stage.name() == name).expect("a stage");
            let most = f64::min(rate[stage], total[stage] - moved[stage]);
            let [sender, receiver] = self.staged;
            let credit = match stage {
                Stage::Read if sender < size[0] => most.min(size[0] - sender),
                Stage::Network if sender > 0.0 && receiver < size[1] => {
                    most.min(sender).min(size[1] - receiver)
                }
                Stage::Write if receiver > 0.0 => most.min(receiver),
                _ => 0.0,
            };
            match stage {
                Stage::Read => self.staged[0] += credit,
                Stage::Network => self.staged = [sender - credit, receiver + credit],
                Stage::Write => self.staged[1] -= credit,
            }
            moved[stage] += credit;
            let end = time + credit / rate[stage] + 0.01;
            finish[stage] = end;
            if end < 1.0 {
                heap.push(Reverse((end.to_bits(), name)));
            }
        }
        PerStage::from_fn(|stage| moved[stage] / finish[stage]).into_array()
    }
}

#[test]
fn threads_counted_together_give_what_threads_one_by_one_give() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let rates = [0; 3].map(|_| rng.log_uniform(20.0, 500.0));
        let settings = settings(rates, rng.log_uniform(200.0, 4000.0), rng.log_uniform(10.0, 8000.0));
        let mut counted = Automdt::new(&settings);
        let staged = counted.staged();
        let mut plain = Plain { settings, staged: [staged.sender, staged.receiver] };
        for step in 0..6 {
            let n = PerStage::from_fn(|_| rng.integer(1, 30));
            let one = counted.step(n).throughput.into_array();
            assert_eq!(one, plain.step(n), "seed {seed}, step {step}: {n:?}");
            assert_eq!(counted.staged(), Ends { sender: plain.staged[0], receiver: plain.staged[1] });
        }
    }
}

#[test]
fn streams_of_one_file_a_second_by_hand() {
    // Every file is larger than what a stream moves in a second.
    let settings = ldm::LdmSettings::new(BitRate::mbps(100), BitRate::mbps(1000));
    let mut simulator = Ldm::new(&settings, 1);
    let step = simulator.step(4);
    near(step.throughput, 400.0 / 1.01);
    near(step.utility, 400.0 / 1.01 / 1.002f64.powi(4));
    // With 14 the link is full after ten; the other four pause a hundred times and end the second.
    let mut last: f64 = 0.0;
    while last < 1.0 {
        last += 0.01;
    }
    near(simulator.step(14).throughput, 1000.0 / last);
}

/// LDM's loop as published, one stream after the other.
fn plain_ldm(settings: &ldm::LdmSettings, rng: &mut Rng, n: u16) -> f64 {
    let (rate, total) = (settings.worker_rate.as_mbps(), settings.total_rate.as_mbps());
    let chunk = settings.units.mbit(settings.chunk);
    let (mut moved, mut finish) = (0.0, 0.0);
    let mut heap: BinaryHeap<_> = (0..n).map(|_| Reverse((0f64.to_bits(), rate.to_bits()))).collect();
    while let Some(Reverse((time, budget))) = heap.pop() {
        let (time, budget) = (f64::from_bits(time), f64::from_bits(budget));
        let (low, high) = if rng.unit() < 0.9 { (2.0, 4.0) } else { (4.0, 8.0) };
        let credit = (chunk / rng.uniform(low, high)).min(budget).min(total - moved);
        moved += credit;
        finish = time + credit / rate + 0.01;
        if finish < 1.0 {
            heap.push(Reverse((finish.to_bits(), (budget - credit).to_bits())));
        }
    }
    moved / finish
}

#[test]
fn small_files_cost_a_pause_each() {
    // Published units make a file at most 256 Mbit: a stream of 1 Gbit/s takes at least four a second.
    let rates = ldm::LdmSettings::new(BitRate::mbps(1000), BitRate::mbps(100_000));
    let published = ldm::LdmSettings { units: Units::Published, ..rates };
    for seed in 0..20 {
        let mut simulator = Ldm::new(&published, seed);
        let mut rng = Rng::new(seed);
        for n in [1, 3, 9] {
            // No link is full and no stream is out of budget in mid-second, so both draw alike.
            let throughput = simulator.step(n).throughput;
            assert_eq!(throughput, plain_ldm(&published, &mut rng, n), "seed {seed}, {n} streams");
            assert!((0.9..0.97).contains(&(throughput / (1000.0 * f64::from(n)))), "{throughput}");
        }
    }
}

#[test]
fn a_full_link_gives_what_streams_one_by_one_give() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let rates = ldm::LdmSettings::new(
            BitRate::from_mbps(rng.log_uniform(50.0, 3000.0)),
            BitRate::from_mbps(rng.log_uniform(500.0, 40_000.0)),
        );
        let settings = ldm::LdmSettings {
            units: if seed % 2 == 0 { Units::Published } else { Units::Corrected },
            ..rates
        };
        for n in [1, 2, 7, 30, 99] {
            // The same draws from the start of each second; afterwards the plain loop draws for nothing.
            let fast = Ldm::new(&settings, seed).step(n).throughput;
            let plain = plain_ldm(&settings, &mut Rng::new(seed), n);
            assert!((fast / plain - 1.0).abs() < 1e-12, "seed {seed}, {n} streams: {fast} or {plain}");
        }
    }
}
