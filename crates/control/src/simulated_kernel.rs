//! What a kernel would tell of the streams on a fluid path, and which congestion control they have by that.

use std::time::Duration;

use crate::congestion::{CongestionStep, CongestionTrial};
use crate::fluid::{Fluid, Moved};
use crate::observation::Streams;
use crate::path::ModelBased;
use crate::path_sample::PathSample;
use crate::units::ByteCount;

/// Payload of a full TCP segment in bytes.
const SEGMENT: f64 = 1448.0;
/// Factor on the round trip where a queue stands.
const QUEUED: f64 = 1.5;
/// Deviation by the mean of what streams move that share a queue, or are held back by chance.
const SPREAD: f64 = 0.3;

/// The streams' congestion control, and what was counted of them.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedKernel {
    trial: CongestionTrial,
    model_based: ModelBased,
    /// Bytes that arrived, and those of streams that go by a model.
    delivered: f64,
    model_delivered: f64,
    /// Segments that were sent, and sent again.
    sent: f64,
    lost: f64,
}

impl SimulatedKernel {
    /// Streams go by losses, and another kind may be tried; `bounded` if under a pace.
    pub fn new(bounded: bool) -> Self {
        Self {
            trial: CongestionTrial::new(bounded),
            model_based: ModelBased { streams: 0, bounded },
            delivered: 0.0,
            model_delivered: 0.0,
            sent: 0.0,
            lost: 0.0,
        }
    }

    /// Counts what has moved.
    pub fn count(&mut self, fluid: &Fluid, moved: &Moved) {
        let n = f64::from(fluid.setpoint().network);
        let bytes = moved.bits.network / 8.0;
        let carried = fluid.limits().carried(crate::stage::Stage::Network, n);
        let share = if self.model_based.streams > 0 {
            fluid.limits().model_carried(n) / carried.max(1.0)
        } else {
            0.0
        };
        self.delivered += bytes;
        self.model_delivered += bytes * share.min(1.0);
        self.sent += bytes / SEGMENT;
        self.lost += bytes / SEGMENT * moved.lost_seconds / moved.seconds.max(f64::MIN_POSITIVE);
    }

    /// Lets streams have the congestion control that what they showed suggests.
    pub fn look(&mut self, fluid: &mut Fluid, at: Duration) {
        let step = self.trial.look(&self.sample(fluid, at));
        self.model_based.streams = match step {
            CongestionStep::Waits => return,
            CongestionStep::Tries => 1,
            CongestionStep::Keeps => u16::MAX,
            CongestionStep::GivesBack => 0,
        };
        fluid.set_model_based(self.model_based);
    }

    fn sample(&self, fluid: &Fluid, at: Duration) -> PathSample {
        let rtt = fluid.path().link.rtt;
        let queues = fluid.limits().queues(f64::from(fluid.setpoint().network));
        let streams = fluid.setpoint().network;
        let model_based = self.model_based.streams.min(streams);
        PathSample {
            at,
            rtt: if queues { rtt.mul_f64(QUEUED) } else { rtt },
            min_rtt: rtt,
            delivered: ByteCount(self.delivered as u64),
            retransmits: self.lost as u64,
            sent: self.sent as u64,
            segment: ByteCount(SEGMENT as u64),
            streams,
            loss_based: streams - model_based,
            model_based,
            model_delivered: ByteCount(self.model_delivered as u64),
            ..PathSample::default()
        }
    }

    /// The share of streams that go by a model, and whether that is tried.
    pub fn model_based(&self, fluid: &Fluid) -> (f64, bool) {
        let count = fluid.setpoint().network.max(1);
        let share = f64::from(self.model_based.streams.min(count)) / f64::from(count);
        (share, self.trial.is_undecided())
    }

    /// The share of streams that go by a model and fill the path.
    pub fn queued(&self, fluid: &Fluid) -> f64 {
        let fills = fluid.limits().model_fills(f64::from(fluid.setpoint().network));
        if fills { self.model_based(fluid).0 } else { 0.0 }
    }

    /// What is told of the streams under way.
    pub fn streams(&self, fluid: &Fluid) -> Streams {
        let count = fluid.setpoint().network;
        let rtt = fluid.path().link.rtt;
        Streams {
            count,
            min_rtt: (!rtt.is_zero()).then_some(rtt),
            busy: 1.0,
            spread: SPREAD,
            ..Streams::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::optimizer::optimistic::Optimistic;
    use crate::scenario::Scenario;
    use crate::share::Share;
    use crate::simulation::{Simulation, simulate};
    use crate::simulator::SimulatorOptions;
    use std::time::Duration;

    /// 60 s on 400 Mbit/s with so many percent lost by chance, this round trip in ms, and others.
    fn run(percent: f64, rtt_ms: u32, more: &str, share: Share, tries: bool) -> Simulation {
        let loss = percent / 100.0;
        let text = format!(
            "name = 'lossy'\ndescription = ''\n[network]\nworker_rate = '10Gbit/s'\nmax_workers = 32\n\
             [link]\nrate = '400Mbit/s'\nrtt = '{rtt_ms}ms'\nloss = {loss}\nramp_rtts = 2\n{more}"
        );
        let scenario = Scenario::from_toml(&text).expect("a scenario");
        let options = SimulatorOptions::new(7, Duration::from_secs(1), 60).with_short_epochs();
        let options = if tries { options.with_trials(share == Share::Fair) } else { options };
        simulate(&scenario, &mut Optimistic::new(share), None, options)
    }

    /// What moved in the second half of the time, in Mbit/s, and with how many streams.
    fn late(run: &Simulation) -> (f64, f64) {
        let late = &run.delivered[run.delivered.len() / 2..];
        let count = late.len() as f64;
        let moved: f64 = late.iter().map(|epoch| epoch.goodput.as_mbps()).sum();
        let streams: f64 = late.iter().map(|epoch| f64::from(epoch.concurrency.network)).sum();
        (moved / count, streams / count)
    }

    #[test]
    fn a_few_streams_fill_a_path_that_loses_packets_by_chance() {
        for percent in [0.1, 0.3, 1.0] {
            for rtt_ms in [10, 30, 100] {
                for (share, most) in [(Share::Fair, 4.0), (Share::Full, 12.0)] {
                    // Ten loss-based streams fill this one before anything is tried.
                    let most = if (percent, rtt_ms) == (0.1, 10) { 16.0 } else { most };
                    let (moved, streams) = late(&run(percent, rtt_ms, "", share, true));
                    assert!(
                        moved > 0.93 * 400.0 && streams <= most,
                        "{percent} % at {rtt_ms} ms, {share}: {moved} Mbit/s with {streams} streams"
                    );
                }
            }
        }
        let (moved, streams) = late(&run(1.0, 100, "", Share::Fair, false));
        assert!(moved < 100.0 && streams > 16.0, "without: {moved} Mbit/s with {streams} streams");
    }

    #[test]
    fn under_fair_others_keep_what_they_had() {
        let beside = "[background]\nstreams = 4\n";
        for (share, least, most) in [(Share::Fair, 380.0, 400.0), (Share::Full, 300.0, 400.0)] {
            let (moved, _) = late(&run(1.0, 30, beside, share, true));
            // Each of the others moves 4.7 Mbit/s.
            assert!((least..most).contains(&moved), "{share}: {moved}");
        }
        // Without losses by chance they have the path, and nothing is tried.
        let clean = run(0.0, 30, beside, Share::Fair, true);
        assert!(clean.epochs.iter().all(|epoch| epoch.streams.is_some_and(|it| it.model_based == 0)));
    }
}
