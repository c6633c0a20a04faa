//! A run cut where its path changed: what was best in each part, and what ran.

use std::time::Duration;

use serde::Serialize;

use crate::path::Path;
use crate::scenario::Scenario;
use crate::simulator::Delivered;
use crate::stage::{Concurrency, PerStage};
use crate::units::BitRate;

/// A part of a run in which the path stayed as it was, bursts aside.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Period {
    /// Its begin, in ms since the start.
    pub from_ms: u64,
    /// Its end, in ms since the start.
    pub until_ms: u64,
    /// The oracle's set-point: the fewest workers within 2 % of the best goodput.
    pub optimum: Concurrency,
    /// The best goodput of any set-point, in bit/s.
    pub best_bps: BitRate,
    /// What the workers that would fill the path alone get beside the foreign streams, in bit/s.
    pub fair_bps: BitRate,
    /// Mean workers a stage.
    pub concurrency_mean: PerStage<f64>,
    /// The same by the oracle's; none for a stage without a choice.
    pub concurrency_ratio: PerStage<Option<f64>>,
}

/// The periods of what was delivered on `scenario`, from the first epoch to the last.
///
/// An epoch in which the path changed counts in both periods, for its time in each.
pub fn periods(scenario: &Scenario, delivered: &[Delivered]) -> Vec<Period> {
    let (Some(first), Some(last)) = (delivered.first(), delivered.last()) else { return Vec::new() };
    let (begin, end) = (first.at - first.length, last.at);
    let mut cuts = vec![begin];
    cuts.extend(scenario.timeline.iter().map(|change| change.at).filter(|at| (begin..end).contains(at)));
    cuts.push(end);
    cuts.dedup();
    cuts.windows(2).map(|cut| period(scenario, delivered, cut[0], cut[1])).collect()
}

fn period(scenario: &Scenario, delivered: &[Delivered], from: Duration, until: Duration) -> Period {
    let path = Path::at(scenario, from);
    let bounds = path.bounds();
    let oracle = path.oracle();
    let concurrency_mean = PerStage::from_fn(|stage| {
        let worked = delivered.iter().map(|epoch| {
            let within = epoch.at.min(until).saturating_sub((epoch.at - epoch.length).max(from));
            within.as_secs_f64() * f64::from(epoch.concurrency[stage])
        });
        worked.sum::<f64>() / (until - from).as_secs_f64()
    });
    Period {
        from_ms: from.as_millis() as u64,
        until_ms: until.as_millis() as u64,
        optimum: oracle.setpoint,
        best_bps: oracle.goodput,
        fair_bps: path.fair_goodput(),
        concurrency_mean,
        concurrency_ratio: PerStage::from_fn(|stage| {
            let ratio = concurrency_mean[stage] / f64::from(oracle.setpoint[stage]);
            (!bounds[stage].is_fixed()).then_some(ratio)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link of 1 Gbit/s for streams of 100 Mbit/s, memory to memory.
    fn scenario(changes: &str) -> Scenario {
        let text = "name = 'memory'\ndescription = ''\nnetwork = { worker_rate = '100Mbit/s' }\n\
                    link = { rate = '1Gbit/s' }\n";
        Scenario::from_toml(&format!("{text}{changes}")).expect("good")
    }

    /// Epochs that end at these seconds, with so many streams.
    fn delivered(epochs: &[(u64, u16)]) -> Vec<Delivered> {
        let mut before = 0;
        let epoch = |&(at, n): &(u64, u16)| {
            let length = Duration::from_secs(at - std::mem::replace(&mut before, at));
            Delivered {
                at: Duration::from_secs(at),
                length,
                concurrency: PerStage::new(1, n, 1),
                goodput: BitRate::ZERO,
                best: BitRate::ZERO,
            }
        };
        epochs.iter().map(epoch).collect()
    }

    const CHANGES: &str = "[[timeline]]\nat = '4s'\nlink.rate = '500Mbit/s'\n\
                           [[timeline]]\nat = '8s'\nbackground.streams = 5\n\
                           [[timeline]]\nat = '60s'\nbackground.streams = 0\n";

    #[test]
    fn a_run_is_cut_where_its_path_changes() {
        // The second epoch has two seconds on either side of the first change.
        let seen = periods(&scenario(CHANGES), &delivered(&[(2, 20), (6, 10), (8, 5), (10, 10)]));
        let times: Vec<_> = seen.iter().map(|period| (period.from_ms, period.until_ms)).collect();
        assert_eq!(times, [(0, 4000), (4000, 8000), (8000, 10_000)], "the last change never came");
        let best: Vec<_> = seen.iter().map(|period| period.optimum.network).collect();
        assert_eq!(best, [10, 5, 50]);
        let mean: Vec<_> = seen.iter().map(|period| period.concurrency_mean.network).collect();
        assert_eq!(mean, [15.0, 7.5, 10.0]);
        let ratio: Vec<_> = seen.iter().map(|period| period.concurrency_ratio).collect();
        let of = |network| PerStage::new(None, Some(network), None);
        assert_eq!(ratio, [of(1.5), of(1.5), of(10.0 / 50.0)]);
    }

    #[test]
    fn what_is_fair_is_what_those_who_fill_the_path_alone_get() {
        let seen = periods(&scenario(CHANGES), &delivered(&[(10, 10)]));
        let fair: Vec<_> = seen.iter().map(|period| period.fair_bps).collect();
        // Five streams fill 500 Mbit/s, and get half of it beside five others.
        assert_eq!(fair, [BitRate::mbps(1000), BitRate::mbps(500), BitRate::mbps(250)]);
    }

    #[test]
    fn a_part_of_a_run_has_its_part_of_the_periods() {
        assert_eq!(periods(&scenario(CHANGES), &[]), []);
        let seen = periods(&scenario(CHANGES), &delivered(&[(4, 1), (6, 2), (7, 2)])[1..]);
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].from_ms, seen[0].until_ms, seen[0].optimum.network), (4000, 7000, 5));
        assert_eq!(seen[0].concurrency_mean.network, 2.0);
    }
}
