//! The fluid against hand-made sums, against a finely ticked model, and against itself.

use std::time::Duration;

use tidegate_control::scenario::StageKnee;
use tidegate_control::{BitRate, ByteCount, Concurrency, Ends, Fluid, Path, PerStage, Rng, Scenario, Stage};

const ENDLESS: f64 = f64::INFINITY;

/// A path of workers that move 100 Mbit/s each, with staging in Mbit at both ends.
fn scenario(sender: f64, receiver: f64) -> Scenario {
    let text = "name = 'test'\ndescription = ''\n[read]\nworker_rate = '100Mbit/s'\n[network]\n\
                worker_rate = '100Mbit/s'\n[write]\nworker_rate = '100Mbit/s'\n[link]\nrate = '10Gbit/s'";
    let mut scenario = Scenario::from_toml(text).expect("good");
    scenario.staging.sender = ByteCount((sender * 1e6 / 8.0) as u64);
    scenario.staging.receiver = ByteCount((receiver * 1e6 / 8.0) as u64);
    scenario
}

fn fluid(scenario: &Scenario) -> Fluid {
    Fluid::new(Path::at(scenario, Duration::ZERO), scenario.staging)
}

fn mbit(bits: PerStage<f64>) -> [f64; 3] {
    bits.map(|bits| (bits / 1e3).round() / 1e3).into_array()
}

#[test]
fn stagings_fill_one_after_the_other_and_drain_again() {
    let mut fluid = fluid(&scenario(150.0, 100.0));
    // The receiver's is full after 1 s; from then on the network carries 100, and the sender's, which
    // holds 100, fills by 200 a second: full after 1.25 s.
    let filling = fluid.advance(PerStage::new(3, 2, 1), 2.0, ENDLESS);
    assert_eq!(mbit(filling.bits), [450.0, 300.0, 200.0]);
    assert_eq!(fluid.staged(), Ends { sender: 150e6, receiver: 100e6 });
    // Reading 100 and sending 200 while writing 400: the receiver's drains first (0.5 s), the sender's
    // after 1.5 s; then all three run at the readers' pace.
    let draining = fluid.advance(PerStage::new(1, 2, 4), 2.0, ENDLESS);
    assert_eq!(mbit(draining.bits), [200.0, 350.0, 450.0]);
    assert_eq!(fluid.staged(), Ends { sender: 0.0, receiver: 0.0 });
}

#[test]
fn without_staging_all_move_together() {
    for size in [0.0, 8e-6] {
        let mut fluid = fluid(&scenario(size, size));
        for (n, pace) in [((5, 3, 9), 300.0), ((2, 3, 9), 200.0), ((7, 7, 1), 100.0)] {
            assert_eq!(mbit(fluid.advance(n.into_setpoint(), 1.0, ENDLESS).bits), [pace; 3], "{size}");
        }
    }
}

trait IntoSetpoint {
    fn into_setpoint(self) -> Concurrency;
}

impl IntoSetpoint for (u16, u16, u16) {
    fn into_setpoint(self) -> Concurrency {
        PerStage::new(self.0, self.1, self.2)
    }
}

#[test]
fn a_source_runs_dry_and_the_stagings_empty_behind_it() {
    let mut fluid = fluid(&scenario(1000.0, 1000.0));
    // 500 Mbit read in 1 s; sent in 2.5 s; written in 5 s.
    let moved = fluid.advance(PerStage::new(5, 2, 1), 60.0, 500e6);
    assert_eq!((mbit(moved.bits), moved.seconds), ([500.0; 3], 5.0));
    assert_eq!(fluid.advance(PerStage::new(5, 2, 1), 1.0, 0.0).seconds, 0.0);
}

#[test]
fn absent_stages_hold_nothing_back() {
    let mut scenario = scenario(64.0, 64.0);
    scenario.read = None;
    scenario.write = None;
    let mut fluid = fluid(&scenario);
    assert_eq!(mbit(fluid.advance(PerStage::new(1, 4, 1), 1.0, ENDLESS).bits), [400.0; 3]);
    assert_eq!(fluid.size(), Ends { sender: 0.0, receiver: 0.0 });
}

#[test]
fn a_ramp_follows_its_exponential() {
    let mut scenario = scenario(0.0, 0.0);
    (scenario.read, scenario.write) = (None, None);
    scenario.link.rtt = Duration::from_millis(100);
    scenario.link.ramp_rtts = 5.0;
    let mut fluid = fluid(&scenario);
    let mut total = 0.0;
    for tenth in 1..=40 {
        total += fluid.advance(PerStage::new(1, 8, 1), 0.1, ENDLESS).bits.network;
        let (t, tau) = (f64::from(tenth) / 10.0, 0.5);
        let exact = 800e6 * (t - tau * (1.0 - (-t / tau).exp()));
        assert!((total / exact - 1.0).abs() < 2e-3, "after {t} s: {total} instead of {exact}");
    }
    // Fewer workers stop at once, and those who stay keep their pace.
    let fewer = fluid.advance(PerStage::new(1, 4, 1), 1.0, ENDLESS);
    assert_eq!(mbit(fewer.bits)[1], 400.0);
}

/// A path with anything that a path can have; some stagings are tiny or none.
fn random(rng: &mut Rng, ramps: bool) -> Scenario {
    let mut size = || if rng.unit() < 0.2 { 0.0 } else { rng.log_uniform(1e-3, 2e3) };
    let mut scenario = scenario(size(), size());
    let stages = [scenario.read.as_mut(), Some(&mut scenario.network), scenario.write.as_mut()];
    for stage in stages.into_iter().flatten() {
        stage.worker_rate = BitRate::from_mbps(rng.log_uniform(10.0, 500.0));
        stage.total_rate = (rng.unit() < 0.5).then(|| BitRate::from_mbps(rng.uniform(200.0, 2000.0)));
        stage.knee = (rng.unit() < 0.5)
            .then(|| StageKnee { workers: rng.integer(1, 16), slope: rng.log_uniform(0.01, 0.5) });
        if ramps && rng.unit() < 0.7 {
            stage.ramp_up = Duration::from_secs_f64(rng.log_uniform(0.02, 2.0));
        }
    }
    scenario.link.rate = BitRate::from_mbps(rng.log_uniform(100.0, 5000.0));
    scenario.background.streams = rng.integer(0, 8);
    scenario
}

fn setpoint(rng: &mut Rng) -> Concurrency {
    PerStage::from_fn(|_| rng.integer(1, 30))
}

/// The same path in ticks of a millisecond, as simply as it can be written.
struct Ticked {
    path: Path,
    size: Ends<f64>,
    staged: Ends<f64>,
    active: PerStage<f64>,
}

impl Ticked {
    fn second(&mut self, setpoint: Concurrency, unread: &mut f64) -> PerStage<f64> {
        const TICK: f64 = 1e-3;
        let mut moved = PerStage::all(0.0);
        for _ in 0..1000 {
            for stage in Stage::ALL {
                let (n, tau) = (f64::from(setpoint[stage]), self.path.limits().ramp_up(stage));
                let active = &mut self.active[stage];
                let rises = tau > 0.0 && n > *active;
                *active = if rises { *active + (n - *active) * (1.0 - (-TICK / tau).exp()) } else { n };
            }
            let mut flow = PerStage::from_fn(|stage| self.path.carried(stage, self.active[stage]) * TICK);
            flow.read = flow.read.min(*unread);
            for _ in 0..3 {
                flow.network = flow.network.min(self.staged.sender + flow.read);
                flow.write = flow.write.min(self.staged.receiver + flow.network);
                flow.network = flow.network.min(self.size.receiver - self.staged.receiver + flow.write);
                flow.read = flow.read.min(self.size.sender - self.staged.sender + flow.network);
            }
            self.staged.sender = (self.staged.sender + flow.read - flow.network).max(0.0);
            self.staged.receiver = (self.staged.receiver + flow.network - flow.write).max(0.0);
            *unread -= flow.read;
            moved = PerStage::from_fn(|stage| moved[stage] + flow[stage]);
        }
        moved
    }
}

fn compare(ramps: bool, tolerance: f64) {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let scenario = random(&mut rng, ramps);
        let mut fluid = fluid(&scenario);
        let mut ticked = Ticked {
            path: *fluid.path(),
            size: fluid.size(),
            staged: fluid.staged(),
            active: PerStage::all(0.0),
        };
        let mut unread = rng.log_uniform(1e8, 1e11);
        let mut left = unread;
        for second in 0..8 {
            let n = setpoint(&mut rng);
            let exact = fluid.advance(n, 1.0, left).bits;
            left = (left - exact.read).max(0.0);
            let near = ticked.second(n, &mut unread);
            for stage in Stage::ALL {
                let allowed = tolerance * fluid.path().carried(stage, f64::from(n[stage])).max(near[stage]);
                let off = (exact[stage] - near[stage]).abs();
                assert!(
                    off <= allowed + 1.0,
                    "seed {seed}, second {second}, {n:?}: {stage} moved {} here and {} in ticks",
                    exact[stage],
                    near[stage]
                );
            }
        }
    }
}

#[test]
fn it_agrees_with_fine_ticks() {
    compare(false, 0.005);
}

#[test]
fn it_agrees_with_fine_ticks_while_workers_ramp_up() {
    compare(true, 0.02);
}

#[test]
fn it_does_not_matter_how_a_stretch_is_cut() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let scenario = random(&mut rng, false);
        let (mut whole, mut cut) = (fluid(&scenario), fluid(&scenario));
        for _ in 0..5 {
            let n = setpoint(&mut rng);
            let one = whole.advance(n, 1.0, ENDLESS).bits;
            let first = rng.unit();
            let (a, b) = (cut.advance(n, first, ENDLESS).bits, cut.advance(n, 1.0 - first, ENDLESS).bits);
            for stage in Stage::ALL {
                let off = (one[stage] - a[stage] - b[stage]).abs();
                assert!(off <= 1.0, "seed {seed}: {stage} {} or {}", one[stage], a[stage] + b[stage]);
            }
        }
    }
}
