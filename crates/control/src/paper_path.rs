//! The papers' simulators as a path under control: what a rule does where LDM's and AutoMDT's agents learned, and the numbers
//! that both papers take from it, max T and max T/n.

use std::convert::Infallible;
use std::time::Duration;

use crate::environment::Environment;
use crate::events::{automdt, ldm};
use crate::observation::Observation;
use crate::path::Path;
use crate::rng::Rng;
use crate::scenario::{Scenario, StagePath};
use crate::stage::{Bounds, Concurrency, Ends, PerStage, Stage};
use crate::units::{BitRate, ByteCount};

/// Whose simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaperSimulator {
    /// LDM's: streams that share a link.
    Ldm,
    /// AutoMDT's: reading, sending and writing.
    Automdt,
}

impl PaperSimulator {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Ldm, Self::Automdt];

    /// How it is asked for.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ldm => "ldm",
            Self::Automdt => "automdt",
        }
    }

    /// The path that it plays of `scenario`.
    pub fn path(self, scenario: &Scenario) -> Scenario {
        match self {
            Self::Ldm => of_whole_workers(scenario),
            Self::Automdt => scenario.clone(),
        }
    }
}

crate::named!(PaperSimulator, "simulator");

/// The path as LDM knows it, whose workers read, send and write: one moves what the slowest of its stages does, and all of
/// them what the narrowest stage carries.
fn of_whole_workers(scenario: &Scenario) -> Scenario {
    let path = Path::at(scenario, Duration::ZERO);
    let (limits, bounds) = (path.limits(), path.bounds());
    let present = || Stage::ALL.into_iter().filter(|&stage| path.stages[stage].is_some());
    // Stages of which there is always the same number are part of the way.
    let open = || present().filter(|&stage| !bounds[stage].is_fixed());
    let least = |rates: &mut dyn Iterator<Item = f64>| rates.fold(f64::INFINITY, f64::min);
    let worker = least(&mut open().map(|stage| limits.offered(stage, 1.0)));
    let total = least(&mut present().map(|stage| path.carried(stage, f64::from(bounds[stage].max))));
    let rate = |bps: f64| BitRate::from_bps(bps.min(u64::MAX as f64));
    let network = StagePath {
        worker_rate: rate(worker),
        total_rate: Some(rate(total)),
        min_workers: open().map(|stage| bounds[stage].min).min().unwrap_or(1),
        max_workers: open().map(|stage| bounds[stage].max).max().unwrap_or(1),
        ..scenario.network
    };
    Scenario { read: None, write: None, network, ..scenario.clone() }
}

/// The simulators, with bytes of eight bits: a second a step.
#[derive(Clone, Debug)]
enum Seconds {
    Ldm(ldm::Ldm),
    Automdt(automdt::Automdt),
}

/// A path that a paper's simulator plays.
#[derive(Clone, Debug)]
pub struct PaperPath {
    seconds: Seconds,
    bounds: PerStage<Bounds>,
    capacity: Ends<ByteCount>,
    at: Duration,
    /// Seconds of an epoch, and epochs that are left.
    epoch: u32,
    left: u32,
    most: PerStage<f64>,
    most_each: PerStage<f64>,
}

impl PaperPath {
    /// `scenario` as [`PaperSimulator::path`] gives it; `rng` seeds what draws.
    pub fn new(scenario: &Scenario, simulator: PaperSimulator, rng: &mut Rng) -> Self {
        let path = Path::at(scenario, Duration::ZERO);
        let bounds = scenario.bounds();
        let rate = |bps: f64| BitRate::from_bps(bps.min(u64::MAX as f64));
        let worker_rate = PerStage::from_fn(|stage| rate(path.limits().offered(stage, 1.0)));
        let total_rate = PerStage::from_fn(|stage| rate(path.carried(stage, f64::from(bounds[stage].max))));
        let seconds = match simulator {
            PaperSimulator::Ldm => {
                let settings = ldm::LdmSettings::new(worker_rate.network, total_rate.network);
                Seconds::Ldm(ldm::Ldm::new(&settings, rng.next_u64()))
            }
            PaperSimulator::Automdt => {
                let settings = automdt::AutomdtSettings::new(worker_rate, total_rate, scenario.staging);
                Seconds::Automdt(automdt::Automdt::new(&settings))
            }
        };
        let capacity = Ends { sender: scenario.staging.sender, receiver: scenario.staging.receiver };
        let (most, most_each) = (PerStage::all(0.0), PerStage::all(0.0));
        Self { seconds, bounds, capacity, at: Duration::ZERO, epoch: 1, left: 0, most, most_each }
    }

    /// The same for so many epochs of `length`, in whole seconds.
    #[must_use]
    pub fn lasting(self, epochs: u32, length: Duration) -> Self {
        Self { epoch: length.as_secs_f64().ceil().clamp(1.0, 3600.0) as u32, left: epochs, ..self }
    }

    /// Throughput in Mbit/s and free staging in Mbit after a second with `n`.
    pub fn second(&mut self, n: Concurrency) -> (PerStage<f64>, Ends<f64>) {
        let (mbps, free) = match &mut self.seconds {
            Seconds::Ldm(ldm) => (PerStage::all(ldm.step(n.network).throughput), Ends::default()),
            Seconds::Automdt(automdt) => {
                let step = automdt.step(n);
                (step.throughput, step.free)
            }
        };
        self.most = PerStage::from_fn(|stage| self.most[stage].max(mbps[stage]));
        self.most_each =
            PerStage::from_fn(|stage| self.most_each[stage].max(mbps[stage] / f64::from(n[stage].max(1))));
        (mbps, free)
    }

    /// The most that each stage moved in a second so far, max T, of which the papers make the bandwidth.
    pub fn most(&self) -> PerStage<BitRate> {
        self.most.map(BitRate::from_mbps)
    }

    /// The most that a worker of each stage moved in the mean of a second, max T/n.
    pub fn most_each(&self) -> PerStage<BitRate> {
        self.most_each.map(BitRate::from_mbps)
    }
}

impl Environment for PaperPath {
    type Error = Infallible;

    fn bounds(&self) -> PerStage<Bounds> {
        self.bounds
    }

    fn step(&mut self, setpoint: Concurrency) -> Result<Option<Observation>, Infallible> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let (mut sum, mut free) = (PerStage::all(0.0), Ends::default());
        for _ in 0..self.epoch {
            let (mbps, left) = self.second(setpoint);
            sum = PerStage::from_fn(|stage| sum[stage] + mbps[stage]);
            free = left;
        }
        let interval = Duration::from_secs(self.epoch.into());
        self.at += interval;
        let bytes = |mbit: f64| ByteCount((mbit * 1e6 / 8.0) as u64);
        Ok(Some(Observation {
            at: self.at,
            interval,
            concurrency: setpoint,
            throughput: sum.map(|sum| BitRate::from_mbps(sum / f64::from(self.epoch))),
            staging_free: Ends { sender: bytes(free.sender), receiver: bytes(free.receiver) },
            staging_capacity: self.capacity,
            ..Observation::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(scenario: &Scenario) -> BitRate {
        Path::at(scenario, Duration::ZERO).oracle().goodput
    }

    fn whole(text: &str) -> Scenario {
        of_whole_workers(&Scenario::from_toml(text).expect("a scenario"))
    }

    #[test]
    fn a_worker_of_ldm_moves_what_the_slowest_of_its_stages_does() {
        let read = whole(include_str!("../../../scenarios/automdt-read.toml"));
        assert!(read.read.is_none() && read.write.is_none());
        assert_eq!(read.network.worker_rate, BitRate::mbps(80));
        assert_eq!(best(&read), BitRate::mbps(1000));
        // Its simulator moves by as many workers what the path does: 80 Mbit/s each, and no more than 1000 in all.
        let mut path = PaperPath::new(&read, PaperSimulator::Ldm, &mut Rng::new(1));
        for (n, wanted) in [(5, 400.0), (7, 560.0), (13, 1000.0), (20, 1000.0)] {
            let (mbps, _) = path.second(PerStage::all(n));
            assert!((mbps.network / wanted - 1.0).abs() < 0.1, "{n}: {mbps:?}");
        }
        // Memory to memory nothing changes.
        let plain = Scenario::from_toml(include_str!("../../../scenarios/ldm-1g.toml")).expect("a scenario");
        let same = of_whole_workers(&plain);
        assert_eq!(same.network.worker_rate, plain.network.worker_rate);
        assert_eq!(best(&same), best(&plain));
    }

    #[test]
    fn a_rule_drives_the_papers_simulators_and_both_numbers_are_told() {
        let text = include_str!("../../../scenarios/automdt-read.toml");
        let scenario = Scenario::from_toml(text).expect("a scenario");
        for (simulator, each) in [
            (PaperSimulator::Automdt, PerStage::new(80.0, 160.0, 200.0)),
            (PaperSimulator::Ldm, PerStage::all(80.0)),
        ] {
            let path = PaperPath::new(&simulator.path(&scenario), simulator, &mut Rng::new(1));
            let mut path = path.lasting(40, Duration::from_millis(2500));
            let mut seen = Vec::new();
            let (few, many) = match simulator {
                PaperSimulator::Ldm => (PerStage::all(1), PerStage::all(8)),
                PaperSimulator::Automdt => (PerStage::all(2), PerStage::new(14, 8, 6)),
            };
            while let Ok(Some(one)) = path.step(if seen.len() < 3 { few } else { many }) {
                seen.push(one);
            }
            assert_eq!(
                (seen.len(), seen[0].interval, seen[39].at),
                (40, Duration::from_secs(3), Duration::from_secs(120))
            );
            let goodput = seen[39].goodput().as_mbps();
            assert!(
                (goodput / if simulator == PaperSimulator::Ldm { 640.0 } else { 1000.0 } - 1.0).abs() < 0.1,
                "{goodput}"
            );
            for stage in Stage::ALL {
                let (most, one) = (path.most()[stage].as_mbps(), path.most_each()[stage].as_mbps());
                // Who waits for the slow readers shows less than a worker of his could.
                let least = if stage == Stage::Read { 0.9 * each.read } else { 70.0 };
                let fits = most >= goodput - 1.0 && (least..=1.1 * each[stage]).contains(&one);
                assert!(fits, "{simulator} {stage:?} {most} {one}");
            }
        }
    }

    #[test]
    fn what_has_no_choice_of_workers_only_limits_the_whole() {
        let fixed = whole(
            "name = \"x\"\ndescription = \"x\"\n[read]\nworker_rate = \"50Mbit/s\"\nmin_workers = 8\nmax_workers = 8\n\
             [network]\nworker_rate = \"100Mbit/s\"\n[link]\nrate = \"1Gbit/s\"\n",
        );
        assert_eq!(fixed.network.worker_rate, BitRate::mbps(100));
        assert_eq!(fixed.network.total_rate, Some(BitRate::mbps(400)));
    }
}
