//! The fluid against the papers' simulators: the same mapping where no stage starves, and by how much
//! the published polling falls behind where one does. docs/simulators.md explains the figures.

use std::time::Duration;

use tidegate_control::events::Units;
use tidegate_control::events::automdt::{Automdt, AutomdtSettings};
use tidegate_control::events::ldm::{self, Ldm};
use tidegate_control::scenario::Staging;
use tidegate_control::{BitRate, ByteCount, Concurrency, Ends, Fluid, Path, PerStage, Rng, Scenario, Stage};

/// Fewer where the compiler does not optimise.
const SETTINGS: u64 = if cfg!(debug_assertions) { 60 } else { 300 };

/// A path of both kinds: rates within a factor of ten of one another, staging for `seconds` of the
/// fastest stage, a pause of `pause`.
fn random(rng: &mut Rng, seconds: f64, pause: Duration) -> AutomdtSettings {
    let link = rng.log_uniform(200.0, 10_000.0);
    let worker = PerStage::from_fn(|_| BitRate::from_mbps(link / rng.uniform(2.0, 20.0)));
    let total = PerStage::from_fn(|_| BitRate::from_mbps(link * rng.uniform(1.0, 2.0)));
    let size = ByteCount((2.0 * link * seconds * 1e6 / 8.0) as u64);
    AutomdtSettings { pause, ..AutomdtSettings::new(worker, total, Staging { sender: size, receiver: size }) }
}

fn fluid(settings: &AutomdtSettings) -> Fluid {
    let text = "name = 'test'\ndescription = ''\n[read]\nworker_rate = '1Mbit/s'\n[network]\n\
                worker_rate = '1Mbit/s'\n[write]\nworker_rate = '1Mbit/s'\n[link]\nrate = '1Gbit/s'";
    let mut scenario = Scenario::from_toml(text).expect("good");
    let stages = [(Stage::Read, scenario.read.as_mut()), (Stage::Write, scenario.write.as_mut())];
    for (stage, path) in stages {
        let path = path.expect("stated");
        path.worker_rate = settings.worker_rate[stage];
        path.total_rate = Some(settings.total_rate[stage]);
    }
    scenario.network.worker_rate = settings.worker_rate.network;
    scenario.link.rate = settings.total_rate.network;
    Fluid::new(Path::at(&scenario, Duration::ZERO), settings.staging)
}

/// Begins both with stagings half full.
fn half_full(settings: &AutomdtSettings) -> (Fluid, Automdt) {
    let (mut fluid, mut events) = (fluid(settings), Automdt::new(settings));
    let half = |size: ByteCount| size.bits() / 2.0;
    let half = Ends { sender: half(settings.staging.sender), receiver: half(settings.staging.receiver) };
    fluid.set_staged(half);
    events.set_staged(Ends { sender: half.sender / 1e6, receiver: half.receiver / 1e6 });
    (fluid, events)
}

/// What `n` workers a stage moved in a second here and there, in Mbit/s.
fn second(fluid: &mut Fluid, events: &mut Automdt, n: Concurrency) -> (PerStage<f64>, PerStage<f64>) {
    let here = fluid.advance(n, 1.0, f64::INFINITY).bits.map(|bits| bits / 1e6);
    (here, events.step(n).throughput)
}

#[test]
fn the_same_where_no_stage_starves() {
    let mut worst: f64 = 0.0;
    for seed in 0..SETTINGS {
        let mut rng = Rng::new(seed);
        // Stagings of four seconds, half full: whatever the stages do, a second passes without one
        // that is empty or full.
        let settings = random(&mut rng, 4.0, Duration::from_millis(10));
        let (mut fluid, mut events) = half_full(&settings);
        let n = PerStage::from_fn(|_| rng.integer(1, 30));
        let (here, there) = second(&mut fluid, &mut events, n);
        for stage in Stage::ALL {
            let off = (there[stage] / here[stage] - 1.0).abs();
            worst = worst.max(off);
            assert!(off <= 0.05, "seed {seed}, {n:?}: {stage} {} here, {} there", here[stage], there[stage]);
        }
    }
    println!("no stage starves: at most {:.1} % apart", 100.0 * worst);
}

/// How reported and truly moved goodput compare with the fluid's where stages wait for one another,
/// over ten seconds of a steady state: sorted ratios.
fn starving(seconds: f64, pause: u64) -> [Vec<f64>; 2] {
    let (mut reported, mut moved) = (Vec::new(), Vec::new());
    for seed in 0..SETTINGS {
        let mut rng = Rng::new(seed);
        let settings = random(&mut rng, seconds, Duration::from_millis(pause));
        let (mut fluid, mut events) = (fluid(&settings), Automdt::new(&settings));
        let n = PerStage::from_fn(|_| rng.integer(1, 30));
        let mut sums = [0.0; 3];
        for step in 0..20 {
            let here = fluid.advance(n, 1.0, f64::INFINITY).bits.write / 1e6;
            let there = events.step(n);
            if step >= 10 {
                sums[0] += here;
                sums[1] += there.throughput.write;
                sums[2] += there.moved.write;
            }
        }
        reported.push(sums[1] / sums[0]);
        moved.push(sums[2] / sums[0]);
    }
    reported.sort_by(f64::total_cmp);
    moved.sort_by(f64::total_cmp);
    for (what, ratios) in [("reported", &reported), ("moved", &moved)] {
        let [worst, low, median, high, most] = [0.0, 0.05, 0.5, 0.95, 1.0].map(|share| at(ratios, share));
        println!(
            "staging {seconds} s, pause {pause} ms, {what}: \
             worst {worst:.2}, 5 % {low:.2}, median {median:.3}, 95 % {high:.2}, most {most:.2}"
        );
    }
    [reported, moved]
}

/// The ratio that `share` of them do not exceed.
fn at(sorted: &[f64], share: f64) -> f64 {
    sorted[(share * (sorted.len() - 1) as f64).round() as usize]
}

#[test]
fn where_a_stage_starves_the_published_loop_reports_less_than_it_moves() {
    let [reported, moved] = starving(4.0, 10);
    assert!((0.98..=1.0).contains(&at(&reported, 0.5)), "{}", at(&reported, 0.5));
    // A task that starts late ends late, and the second's sum is divided by that end.
    assert!(at(&reported, 0.0) < 0.8 && at(&reported, 0.05) > 0.95);
    // All the while nothing is lost: as much is credited as the fluid moves.
    assert!(at(&moved, 0.0) > 0.99 && at(&moved, 0.95) < 1.05);
    // A shorter pause does away with what polling costs, and with nothing else.
    let [brief, _] = starving(4.0, 1);
    assert!(1.0 - at(&brief, 0.5) < 0.3 * (1.0 - at(&reported, 0.5)));
    assert!(at(&brief, 0.0) < 0.8);
}

#[test]
fn with_staging_below_a_second_the_published_loop_moves_more_than_workers_can() {
    // Whatever is credited late is forgotten at the end of the second: all threads start anew.
    for (seconds, most) in [(0.5, 1.02), (0.1, 1.2)] {
        let [_, moved] = starving(seconds, 10);
        assert!(at(&moved, 0.0) > 0.99 && at(&moved, 1.0) > most, "{seconds} s: {}", at(&moved, 1.0));
    }
}

/// What LDM's simulator reports by what the fluid gives, min(n·rate, link).
fn ldm_share(settings: &ldm::LdmSettings, n: u16, seed: u64) -> f64 {
    let mut simulator = Ldm::new(settings, seed);
    let there = (0..10).map(|_| simulator.step(n).throughput).sum::<f64>() / 10.0;
    there / (f64::from(n) * settings.worker_rate.as_mbps()).min(settings.total_rate.as_mbps())
}

#[test]
fn streams_of_large_files_are_a_fluid() {
    let mut worst: f64 = 1.0;
    for seed in 0..SETTINGS {
        let mut rng = Rng::new(seed);
        let link = rng.log_uniform(500.0, 40_000.0);
        // Up to 4 Gbit/s a stream, as in LDM's tables: its files last a pause many times over.
        let rate = (link / rng.uniform(1.0, 40.0)).min(4000.0);
        let settings = ldm::LdmSettings::new(BitRate::from_mbps(rate), BitRate::from_mbps(link));
        let n = rng.integer(1, 60);
        let share = ldm_share(&settings, n, seed);
        worst = worst.min(share);
        assert!(
            (0.95..=1.0 + 1e-9).contains(&share),
            "seed {seed}, {n} streams of {rate} on {link}: {share}"
        );
    }
    println!("LDM: at most {:.1} % less than the fluid", 100.0 * (1.0 - worst));
}

#[test]
fn short_files_pay_a_pause_each() {
    // Published units turn files of 64 to 256 MiB into as many Mbit. At 4 Gbit/s they last 16 to 64 ms,
    // and after each the stream pauses for 10: the fifth of the rate that polling is known to cost.
    let one = ldm::LdmSettings::new(BitRate::mbps(4000), BitRate::mbps(100_000));
    let published = ldm::LdmSettings { units: Units::Published, ..one };
    let share = ldm_share(&published, 4, 1);
    println!("LDM, published units, 4 Gbit/s a stream: {:.1} % less", 100.0 * (1.0 - share));
    assert!((0.75..0.85).contains(&share), "{share}");
    let brief = ldm::LdmSettings { pause: Duration::from_micros(100), ..published };
    assert!(ldm_share(&brief, 4, 1) > 0.99);
}
