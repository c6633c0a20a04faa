//! What the default rule owes at each share, and the goodput it reaches on paths nobody chose.

use std::time::Duration;

use crate::common::seeds;
use tidegate_control::optimizer::{Optimizer, OptimizerOptions, build};
use tidegate_control::random_path::{EPOCHS, unseen};
use tidegate_control::simulator::Delivered;
use tidegate_control::{
    BitRate, Bounds, ByteCount, Concurrency, CpuLoad, Ends, Host, Observation, PerStage, Proposal, Rng,
    Scenario, Share, Simulation, SimulatorOptions, Stage, Streams, simulate,
};

fn rule(share: Share) -> Box<dyn Optimizer> {
    build(&format!("auto:share={share}"), &OptimizerOptions::default()).expect("a rule")
}

fn drive(scenario: &Scenario, share: Share, seed: u64) -> Simulation {
    let mut rule = rule(share);
    let options = SimulatorOptions::new(seed, rule.epoch_length(), EPOCHS).with_short_epochs();
    simulate(scenario, rule.as_mut(), None, options)
}

/// The streams that fill the link of [`crowded`] alone.
const FILL: f64 = 20.0;

/// A link with ten streams of others on it.
fn crowded() -> Scenario {
    let text = "
        name = 'crowded'
        description = ''
        [network]
        worker_rate = '50Mbit/s'
        [link]
        rate = '1Gbit/s'
        rtt = '10ms'
        [background]
        streams = 10
        [noise]
        throughput = 0.03";
    Scenario::from_toml(text).expect("a scenario")
}

/// Mean streams over the second half of the time.
fn streams(share: Share, seed: u64) -> f64 {
    let delivered = drive(&crowded(), share, seed).delivered;
    let half = &delivered[delivered.len() / 2..];
    half.iter().map(|epoch| f64::from(epoch.concurrency.network)).sum::<f64>() / half.len() as f64
}

#[test]
fn beside_others_fair_takes_what_fills_the_path_alone_and_full_takes_more() {
    let mut all = Vec::new();
    for seed in 0..5 {
        let (fair, full) = (streams(Share::Fair, seed), streams(Share::Full, seed));
        assert!((0.7 * FILL..2.0 * FILL).contains(&fair), "seed {seed}: fair takes {fair}");
        assert!(full > 1.3 * fair && full > 2.0 * FILL, "seed {seed}: fair takes {fair}, full {full}");
        all.push(fair);
    }
    all.sort_by(f64::total_cmp);
    assert!(all[2] < 1.7 * FILL, "{all:?}");
}

#[test]
fn in_the_background_there_is_one_stream_from_the_start() {
    for seed in 0..5 {
        let epochs = drive(&crowded(), Share::Background, seed).epochs;
        assert!(
            epochs.iter().all(|epoch| (epoch.concurrency.network, epoch.setpoint.network) == (1, 1)),
            "seed {seed}"
        );
    }
}

#[test]
fn beside_a_stage_that_is_not_ours_to_change_there_is_no_crowd() {
    let text = "
        name = 'one-stream'
        description = ''
        [read]
        worker_rate = '3Gbit/s'
        max_workers = 1
        [network]
        worker_rate = '800Mbit/s'
        max_workers = 1
        [write]
        worker_rate = '700Mbit/s'
        [link]
        rate = '1Gbit/s'
        rtt = '1ms'
        [noise]
        throughput = 0.03";
    let scenario = Scenario::from_toml(text).expect("a scenario");
    for seed in 0..5 {
        for epoch in &drive(&scenario, Share::Fair, seed).delivered[3..] {
            let writers = epoch.concurrency.write;
            assert!(writers <= 3, "seed {seed}: {writers} writers at {:?}", epoch.at);
        }
    }
}

#[test]
fn one_stream_is_enough_where_it_is_and_a_wider_link_is_soon_seen() {
    let text = "
        name = 'wider'
        description = ''
        [network]
        worker_rate = '100Mbit/s'
        [link]
        rate = '100Mbit/s'
        rtt = '20ms'
        ramp_rtts = 3.0
        [noise]
        throughput = 0.05
        [[timeline]]
        at = '30s'
        link.rate = '1Gbit/s'";
    let scenario = Scenario::from_toml(text).expect("a scenario");
    for seed in 0..5 {
        let delivered = drive(&scenario, Share::Fair, seed).delivered;
        let until = |seconds| delivered.partition_point(|epoch| epoch.at <= Duration::from_secs(seconds));
        let held = &delivered[until(10)..until(30)];
        let streams = held.iter().map(|epoch| f64::from(epoch.concurrency.network)).sum::<f64>();
        let mean = streams / held.len() as f64;
        assert!(mean < 1.9, "seed {seed}: {mean} streams");
        let soon = &delivered[until(30)..until(38)];
        assert!(soon.iter().any(|epoch| epoch.goodput > BitRate::mbps(900)), "seed {seed}: {soon:?}");
    }
}

/// A path that may have no more than two streams, which would carry half as much again as its readers and writers bring at first:
/// what those two move while they wait is all that tells it.
#[test]
fn a_stage_that_waits_is_not_believed_to_hold_the_path_back() {
    let scenario = unseen(25_440);
    for seed in 0..5 {
        let delivered = drive(&scenario, Share::Fair, seed).delivered;
        let last = &delivered[delivered.len() - 10..];
        let share = |epoch: &Delivered| epoch.goodput.0 as f64 / epoch.best.0 as f64;
        let mean = last.iter().map(share).sum::<f64>() / 10.0;
        assert!(mean > 0.9, "seed {seed}: {mean}");
    }
}

/// 100 kbit/s a stream, up to 1.6 Mbit/s: readers and writers move a block every sixteen seconds, and wait otherwise.
#[test]
fn a_path_so_slow_that_its_disks_work_in_bursts_is_filled() {
    let (bounds, mut rule) = (PerStage::all(Bounds::new(1, 32)), rule(Share::Fair));
    let mut now = rule.start(bounds, &Host::default()).setpoint;
    for second in 1..=12 {
        let burst = if second % 16 == 0 { BitRate::mbps(8) } else { BitRate::ZERO };
        let network = BitRate((100_000 * u64::from(now.network)).min(1_600_000));
        let seen = Observation {
            at: Duration::from_secs(second),
            interval: Duration::from_secs(1),
            concurrency: now,
            throughput: PerStage::new(burst, network, burst),
            standard_error: PerStage::new(1.0, 0.05, 1.0),
            waited: PerStage::new(Some(0.99), Some(0.0), Some(0.99)),
            ..Observation::default()
        };
        now = rule.propose(&seen, bounds).setpoint;
    }
    assert!(now.network >= 15, "{now:?}");
}

fn bounds(rng: &mut Rng) -> PerStage<Bounds> {
    PerStage::from_fn(|_| {
        let min = rng.integer(1, 20);
        if rng.unit() < 0.2 { Bounds::fixed(min) } else { Bounds::new(min, rng.integer(min, 64)) }
    })
}

/// A second that ends `at` s after the start; a few of them are stalls.
fn observation(rng: &mut Rng, at: u64, concurrency: Concurrency) -> Observation {
    let stalled = rng.unit() < 0.05;
    let rate = |rng: &mut Rng| if stalled { 0.0 } else { rng.log_uniform(1e3, 1e12) };
    let told = |rng: &mut Rng| rng.unit() < 0.7;
    let trip = |rng: &mut Rng| Duration::from_secs_f64(rng.log_uniform(1e-5, 1.0));
    let size = ByteCount::mib(64);
    Observation {
        at: Duration::from_secs(at),
        interval: Duration::from_millis(rng.integer(1, 2000).into()),
        concurrency,
        throughput: PerStage::from_fn(|_| BitRate::from_bps(rate(rng))),
        standard_error: PerStage::from_fn(|_| rng.log_uniform(1e-4, 1.0)),
        waited: PerStage::from_fn(|_| told(rng).then(|| rng.unit())),
        draining: PerStage::from_fn(|_| if told(rng) { 0.0 } else { rng.log_uniform(1e-3, 1e3) }),
        staging_free: Ends { sender: ByteCount(rng.next_u64() % size.0), receiver: ByteCount(0) },
        staging_capacity: Ends { sender: size, receiver: size },
        loss: told(rng).then(|| rng.log_uniform(1e-6, 1.0)),
        rtt: told(rng).then(|| trip(rng)),
        streams: told(rng).then(|| Streams { min_rtt: Some(trip(rng)), ..Streams::default() }),
        queued: 0.0,
        held: 0.0,
        model_based: 0.0,
        tries: false,
        ramp: Vec::new(),
        cpu: Ends {
            sender: told(rng).then(|| CpuLoad { ours: rng.unit(), idle: 0.3 * rng.unit() }),
            receiver: None,
        },
        remaining: None,
    }
}

/// From this second on a stage is fixed that is to be.
const FIXED_AT: u64 = 8;

/// What the rule answers to a history drawn from `seed`, in which the bounds change at times; `fixed` is a stage that
/// becomes so, and what changes what is seen from then on.
fn answers(
    share: Share,
    seed: u64,
    fixed: Option<(Stage, fn(&mut Observation, Stage))>,
) -> Vec<(PerStage<Bounds>, Proposal)> {
    let mut rng = Rng::new(seed);
    let mut rule = rule(share);
    let mut now = bounds(&mut rng);
    let mut answers = vec![(now, rule.start(now, &Host::default()))];
    for at in 1..30 {
        let mut seen = observation(&mut rng, at, answers[answers.len() - 1].1.setpoint);
        if rng.unit() < 0.1 {
            now = bounds(&mut rng);
        }
        if let Some((stage, edit)) = fixed
            && at >= FIXED_AT
        {
            now[stage] = Bounds::fixed(3);
            edit(&mut seen, stage);
        }
        answers.push((now, rule.propose(&seen, now)));
    }
    answers
}

#[test]
fn whatever_is_seen_it_stays_within_the_bounds_and_answers_the_same_again() {
    for (seed, share) in (0..seeds(3, 8)).flat_map(|seed| Share::ALL.map(|share| (seed, share))) {
        let first = answers(share, seed, None);
        for (epoch, (bounds, answer)) in first.iter().enumerate() {
            assert_eq!(bounds.clamp(answer.setpoint), answer.setpoint, "{share}, seed {seed}, epoch {epoch}");
        }
        assert_eq!(answers(share, seed, None), first, "{share}, seed {seed}");
    }
}

#[test]
fn what_a_fixed_stage_shows_changes_nothing_where_nobody_tells_whether_it_waited() {
    for (seed, stage) in (0..seeds(2, 5)).flat_map(|seed| Stage::ALL.map(|stage| (seed, stage))) {
        let plain = answers(Share::Full, seed, Some((stage, |seen, stage| seen.waited[stage] = None)));
        let odd = answers(
            Share::Full,
            seed,
            Some((stage, |seen, stage| {
                seen.throughput[stage] = BitRate::mbps(1);
                seen.standard_error[stage] = 0.5;
                seen.waited[stage] = None;
            })),
        );
        assert_eq!(plain, odd, "{stage}, seed {seed}");
    }
}

#[test]
fn it_reaches_most_of_the_best_on_paths_nobody_chose() {
    // The many are of seeds that no rule was tuned on, and take minutes.
    let paths = 65_000..65_000 + seeds(20, 5000);
    let count = paths.clone().count();
    let mut worst = (f64::INFINITY, 0);
    let mut missed = Vec::new();
    for seed in paths {
        let delivered = drive(&unseen(seed), Share::Full, seed).delivered;
        let last = &delivered[delivered.len() - 10..];
        let bits = |rate: fn(&Delivered) -> BitRate| {
            last.iter().map(|epoch| rate(epoch).0 as f64 * epoch.length.as_secs_f64()).sum::<f64>()
        };
        let share = bits(|epoch| epoch.goodput) / bits(|epoch| epoch.best);
        if share < 0.7 {
            missed.push((seed, share));
        }
        worst = if share < worst.0 { (share, seed) } else { worst };
    }
    println!("worst: {:.3} of the best, seed {}; below 0.7: {missed:?} of {count}", worst.0, worst.1);
    // What is known to be left: docs/results/auto.md.
    assert!(1000 * missed.len() <= count, "{missed:?}");
}
