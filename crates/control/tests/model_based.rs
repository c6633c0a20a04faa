//! What the model-based rule makes of a host's processors, of short epochs and of small gains.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use tidegate_control::optimizer::model_based::ModelBased;
use tidegate_control::{
    BitRate, Bounds, Concurrency, CpuLoad, Ends, Host, Observation, Optimizer, PerStage, Proposal,
};

/// An epoch on a path that gives every worker of every stage 1 Gbit/s, with this load on both hosts.
fn seen(n: Concurrency, load: Option<CpuLoad>) -> Observation {
    Observation {
        at: Duration::from_secs(1),
        interval: Duration::from_secs(1),
        concurrency: n,
        throughput: n.map(|n| BitRate::mbps(1000 * u64::from(n))),
        cpu: Ends { sender: load, receiver: load },
        ..Observation::default()
    }
}

/// What the rule asks for in ten epochs with this load.
fn proposals(load: Option<CpuLoad>) -> Vec<Concurrency> {
    let bounds = PerStage::all(Bounds::new(1, 64));
    let mut rule = ModelBased::default();
    let mut n = rule.start(bounds, &Host::default()).setpoint;
    let mut all = vec![n];
    for _ in 0..40 {
        n = rule.propose(&seen(n, load), bounds).setpoint;
        all.push(n);
    }
    all
}

#[test]
fn a_host_that_we_have_used_up_gets_no_more_workers() {
    let load = CpuLoad { ours: 0.5, idle: 0.04 };
    assert!(proposals(Some(load)).iter().all(|n| *n == PerStage::all(2)));
}

#[test]
fn a_host_busy_with_the_work_of_others_does() {
    let loads = [(0.05, 0.0), (0.3, 0.03), (0.7, 0.3)];
    for load in [None].into_iter().chain(loads.map(|(ours, idle)| Some(CpuLoad { ours, idle }))) {
        assert!(proposals(load).iter().any(|n| *n == PerStage::all(64)), "{load:?}");
    }
}

#[test]
fn only_the_stages_of_the_host_that_is_used_up_stay() {
    let bounds = PerStage::all(Bounds::new(1, 64));
    let mut rule = ModelBased::default();
    let start = rule.start(bounds, &Host::default()).setpoint;
    let load = CpuLoad { ours: 0.9, idle: 0.05 };
    let epoch = Observation { cpu: Ends { sender: None, receiver: Some(load) }, ..seen(start, None) };
    let next = rule.propose(&epoch, bounds).setpoint;
    assert!(next.read > start.read, "{next:?}");
    assert_eq!((next.network, next.write), (start.network, start.write));
}

/// So many epochs on a link of `mbps` with workers of 50 Mbit/s; short ones of the ramp, in which many have just
/// begun, show a sixth less of the link. What the rule asked for last.
fn on_a_link(rule: &mut ModelBased, mut next: Proposal, mbps: f64, epochs: usize) -> Proposal {
    let bounds = PerStage::all(Bounds::new(1, 64));
    for _ in 0..epochs {
        let n = next.setpoint;
        let (seconds, share) = if next.short_epochs { (0.25, 0.84) } else { (1.0, 1.0) };
        let rate = (50.0 * f64::from(n.network)).min(share * mbps);
        let epoch = Observation {
            interval: Duration::from_secs_f64(seconds),
            throughput: PerStage::all(BitRate::from_bps(rate * 1e6)),
            ..seen(n, None)
        };
        next = rule.propose(&epoch, bounds);
    }
    next
}

#[test]
fn a_short_epoch_whose_workers_have_just_begun_does_not_hide_what_the_link_carries() {
    let mut rule = ModelBased::default();
    let start = rule.start(PerStage::all(Bounds::new(1, 64)), &Host::default());
    let settled = on_a_link(&mut rule, start, 980.0, 9).setpoint;
    assert_eq!(settled.network, 20, "{settled:?}");
}

#[test]
fn what_little_a_probe_finds_is_kept() {
    let mut rule = ModelBased::default();
    let start = rule.start(PerStage::all(Bounds::new(1, 64)), &Host::default());
    let settled = on_a_link(&mut rule, start, 1000.0, 9);
    // Workers and link have both become as much quicker as a probe does not begin again for.
    let enough = settled.setpoint.network;
    let wider = on_a_link(&mut rule, settled, 50.0 * f64::from(enough) + 40.0, 16);
    assert_eq!(wider.setpoint.network, enough + 1);
}

#[test]
fn a_ramp_aims_the_higher_the_nearer_the_other_end_is() {
    let bounds = PerStage::all(Bounds::new(1, 64));
    for (rtt, third) in [(Some(1), 32), (Some(30), 16), (Some(100), 12), (None, 16)] {
        let mut rule = ModelBased::default();
        let mut n = rule.start(bounds, &Host::default()).setpoint;
        for _ in 0..2 {
            let epoch = Observation { rtt: rtt.map(Duration::from_millis), ..seen(n, None) };
            n = rule.propose(&epoch, bounds).setpoint;
        }
        assert_eq!(n, PerStage::all(third), "{rtt:?} ms");
    }
}

#[test]
fn a_server_that_few_connections_exhaust_is_asked_for_no_more_than_twice_as_many() {
    let bounds = PerStage::new(Bounds::fixed(1), Bounds::new(1, 64), Bounds::fixed(1));
    for (enough, most, settled) in [(1, 16, 2), (6, 16, 6), (10, 16, 10), (12, 17, 12)] {
        let mut rule = ModelBased::default();
        let mut n = PerStage::new(1, 8, 1);
        let mut seen_most = 0;
        for _ in 0..10 {
            let mbps = 100 * u64::from(n.network.min(enough));
            n = rule
                .propose(
                    &Observation { throughput: PerStage::all(BitRate::mbps(mbps)), ..seen(n, None) },
                    bounds,
                )
                .setpoint;
            seen_most = seen_most.max(n.network);
        }
        assert_eq!((seen_most, n.network), (most, settled), "{enough}");
    }
}

/// A link of 950 Mbit/s far away, whose streams of 100 Mbit/s lose packets to their own number, all of them if many
/// come at once and else the quickest, and then need some epochs to recover, as cubic ones do.
struct FarLink {
    /// What each stream sends of what it could.
    health: Vec<f64>,
}

impl FarLink {
    const MBPS: f64 = 950.0;

    /// Goodput of an epoch with `n` streams, in Mbit/s, and the share of packets lost.
    fn epoch(&mut self, n: u16) -> (f64, f64) {
        self.health.resize(usize::from(n), 1.0);
        let demand = 100.0 * self.health.iter().sum::<f64>();
        let over = demand / Self::MBPS;
        let loss = if over > 1.15 {
            0.05
        } else if over > 1.02 {
            0.002
        } else {
            0.0
        };
        let quickest = (0..self.health.len()).max_by(|&a, &b| self.health[a].total_cmp(&self.health[b]));
        for (stream, health) in self.health.iter_mut().enumerate() {
            let hurt = over > 1.15 || over > 1.02 && Some(stream) == quickest;
            *health = if hurt { 0.7 * *health } else { (*health + 0.02).min(1.0) };
        }
        // What gaps held back arrives at once.
        let late = if over > 1.15 { 1.2 } else { 1.0 };
        (late * demand.min(Self::MBPS), loss)
    }

    /// What the rule asks for, and the goodput of it, in a minute.
    fn minute(rule: &mut ModelBased) -> Vec<(u16, f64)> {
        let bounds = PerStage::new(Bounds::fixed(1), Bounds::new(1, 64), Bounds::fixed(1));
        let (mut link, mut n) = (Self { health: Vec::new() }, rule.start(bounds, &Host::default()).setpoint);
        let mut epochs = Vec::new();
        for _ in 0..60 {
            let (goodput, loss) = link.epoch(n.network);
            epochs.push((n.network, goodput));
            let epoch = Observation {
                throughput: PerStage::all(BitRate::from_bps(goodput * 1e6)),
                loss: Some(loss),
                rtt: Some(Duration::from_millis(100)),
                ..seen(n, None)
            };
            n = rule.propose(&epoch, bounds).setpoint;
        }
        epochs
    }
}

#[test]
fn streams_that_recover_are_waited_for_on_the_farthest_paths() {
    let epochs = FarLink::minute(&mut ModelBased::default());
    let late = &epochs[10..];
    let mean = |of: &dyn Fn(&(u16, f64)) -> f64| late.iter().map(of).sum::<f64>() / late.len() as f64;
    let (streams, goodput) = (mean(&|epoch| f64::from(epoch.0)), mean(&|epoch| epoch.1));
    assert!((10.0..=12.0).contains(&streams), "{streams}: {epochs:?}");
    assert!(goodput >= 0.98 * FarLink::MBPS, "{goodput}: {epochs:?}");
}

#[test]
fn a_ramp_ends_where_much_is_lost_for_the_first_time() {
    let bounds = PerStage::all(Bounds::new(1, 64));
    for (rtt, grows) in [(30, true), (100, false)] {
        let mut rule = ModelBased::default();
        let mut n = rule.start(bounds, &Host::default()).setpoint;
        for loss in [0.0, 0.06] {
            let rtt = Some(Duration::from_millis(rtt));
            let next = rule.propose(&Observation { rtt, loss: Some(loss), ..seen(n, None) }, bounds).setpoint;
            assert_eq!(next.network > n.network, loss == 0.0 || grows, "{rtt:?}");
            n = next;
        }
    }
}

/// Every number of streams that the rule asks for at this round trip, where `n` of them move and lose
/// `path(n)`, in Mbit/s and as a share of the packets.
fn streams(
    rule: &mut ModelBased,
    rtt: u64,
    first: u16,
    epochs: usize,
    path: impl Fn(f64) -> (f64, f64),
) -> Vec<u16> {
    let bounds = PerStage::new(Bounds::fixed(1), Bounds::new(1, 200), Bounds::fixed(1));
    let mut n = PerStage::new(1, first, 1);
    let mut all = vec![first];
    for _ in 0..epochs {
        let (mbps, loss) = path(f64::from(n.network));
        let throughput = PerStage::all(BitRate::from_bps(mbps * 1e6));
        let rtt = Some(Duration::from_millis(rtt));
        n = rule
            .propose(&Observation { throughput, rtt, loss: Some(loss), ..seen(n, None) }, bounds)
            .setpoint;
        all.push(n.network);
    }
    all
}

/// The largest factor between two numbers that follow one another.
fn steepest(streams: &[u16]) -> f64 {
    streams.windows(2).map(|pair| f64::from(pair[1]) / f64::from(pair[0])).fold(0.0, f64::max)
}

/// The streams that it settles with where each moves 50 Mbit/s and all of them 1 Gbit/s.
fn settled(rule: &mut ModelBased, rtt: u64) -> u16 {
    *streams(rule, rtt, 2, 12, |n| ((50.0 * n).min(1000.0), 0.0)).last().expect("some")
}

#[test]
fn the_farthest_paths_keep_streams_to_spare_which_are_its_probe_for_a_wider_link() {
    for (rtt, enough) in [(1, 20), (100, 24)] {
        let mut rule = ModelBased::default();
        let n = settled(&mut rule, rtt);
        assert_eq!(n, enough, "{rtt} ms");
        let held = streams(&mut rule, rtt, n, 100, |n| ((50.0 * n).min(1000.0), 0.0));
        assert_eq!(held.iter().all(|&n| n == enough), rtt == 100, "{rtt} ms: {held:?}");
        let wider = streams(&mut rule, rtt, n, 60, |n| ((50.0 * n).min(1500.0), 0.0));
        assert!(wider.ends_with(&[enough * 3 / 2]), "{rtt} ms: {wider:?}");
    }
}

#[test]
fn a_far_path_that_is_known_to_be_one_begins_with_more_streams_whose_rate_is_believed() {
    for (rtt, first) in [(39, 2), (40, 8)] {
        let mut rule = ModelBased::default();
        let host = Host { round_trip: Some(Duration::from_millis(rtt)), ..Host::default() };
        let start = rule.start(PerStage::all(Bounds::new(1, 64)), &host).setpoint;
        assert_eq!(start, PerStage::new(2, first, 2), "{rtt} ms");
        // Eight fill the link, and it is not tried whether fewer would.
        let all = streams(&mut rule, rtt, 8, 20, |n| ((100.0 * n).min(800.0), 0.0));
        assert_eq!(all.iter().any(|&n| n < 8), first == 2, "{rtt} ms: {all:?}");
    }
}

#[test]
fn streams_that_recover_are_no_reason_for_a_probe_on_the_farthest_paths() {
    let mut rule = ModelBased::default();
    let n = *streams(&mut rule, 100, 2, 12, |n| ((50.0 * n).min(900.0), 0.0)).last().expect("some");
    let more = Cell::new(900.0);
    let held = streams(&mut rule, 100, n, 40, |n| {
        more.set(f64::min(1000.0, more.get() + 5.0));
        ((50.0 * n).min(more.get()), 0.0)
    });
    assert!(held.iter().all(|&now| now == n), "{held:?}");
}

/// What each epoch brings of what it would: `share` in the `nth`, all in the others.
fn dip(nth: u32, share: f64) -> impl Fn() -> f64 {
    let epoch = Cell::new(0);
    move || {
        epoch.set(epoch.get() + 1);
        if epoch.get() == nth { share } else { 1.0 }
    }
}

#[test]
fn a_burst_at_the_start_does_not_pass_for_what_a_worker_moves() {
    let mut rule = ModelBased::default();
    // Until chance takes their first packet streams are quicker than they will be.
    let each = RefCell::new([80.0, 62.0, 42.0, 29.0].into_iter());
    let all = streams(&mut rule, 20, 2, 12, |n| {
        let mbps = each.borrow_mut().next().unwrap_or(24.0);
        ((mbps * n).min(480.0), 0.001)
    });
    assert!(all.windows(2).take(5).all(|pair| pair[0] <= pair[1]), "{all:?}");
    assert!(all[7..].iter().all(|&n| n >= 20), "{all:?}");
}

#[test]
fn a_dip_at_the_end_of_a_ramp_is_not_taken_for_one() {
    let mut rule = ModelBased::default();
    let share = dip(4, 0.75);
    let all = streams(&mut rule, 1, 2, 12, |n| (share() * (50.0 * n).min(1000.0), 0.0));
    assert!(all.iter().all(|&n| n <= 32), "{all:?}");
}

#[test]
fn on_the_farthest_paths_a_slide_is_mended_with_few_workers() {
    for (rtt, mbps, factor) in [(1, 46.0, 1.4..=1.6), (100, 39.0, 1.1..=1.3)] {
        let mut rule = ModelBased::default();
        let n = settled(&mut rule, rtt);
        let mended = streams(&mut rule, rtt, n, 30, |n| ((mbps * n).min(930.0), 0.0));
        assert!(factor.contains(&steepest(&mended)), "{rtt} ms: {mended:?}");
    }
}

#[test]
fn on_the_farthest_paths_a_mend_ends_where_it_loses_packets() {
    for (loss, most) in [(0.0, 35..=200), (0.005, 28..=30)] {
        let mut rule = ModelBased::default();
        let n = settled(&mut rule, 100);
        // More streams seem to bring more, as what their losses held back arrives late.
        let path = |n: f64| if n <= 24.0 { (38.0 * n, 0.0) } else { (40.0 * n, loss * (n - 24.0)) };
        let mended = streams(&mut rule, 100, n, 12, path);
        assert!(most.contains(mended.iter().max().expect("some")), "{loss}: {mended:?}");
    }
}

#[test]
fn on_the_farthest_paths_a_climb_goes_by_few_workers() {
    for (rtt, ramp, factor) in [(1, 8, 1.9..=2.1), (100, 5, 1.1..=1.3)] {
        let mut rule = ModelBased::default();
        // Each stream gets its share beside eight others.
        let all = streams(&mut rule, rtt, 2, 40, |n| (950.0 * n / (n + 8.0), 0.0));
        let climb = &all[ramp..];
        assert!(factor.contains(&steepest(climb)), "{rtt} ms: {all:?}");
    }
}

#[test]
fn a_loss_on_the_farthest_paths_is_waited_for_from_its_first_epoch_on() {
    for (lost, again, held) in [(0.0009, 0.0, true), (0.0009, 0.0009, false), (0.0001, 0.0, false)] {
        let mut rule = ModelBased::default();
        let n = settled(&mut rule, 100);
        // Every eighth epoch some stream loses packets, and needs the next five to recover.
        let at = Cell::new(0_u32);
        let all = streams(&mut rule, 100, n, 40, |_| {
            at.set(at.get() + 1);
            let recovered = [1000.0, 1000.0, 800.0, 830.0, 860.0, 900.0, 930.0, 960.0];
            let loss = if at.get() % 8 == 2 { lost } else { again };
            (recovered[at.get() as usize % 8], loss)
        });
        assert_eq!(all.iter().all(|&now| now == n), held, "{lost}, {again}: {all:?}");
    }
}

#[test]
fn a_trim_takes_no_eighth_for_chance_however_much_goodput_strays() {
    let mut rule = ModelBased::default();
    // Beside the streams of others, with a dip while the rule makes up its mind what the path carries.
    let share = dip(3, 0.627);
    let all = streams(&mut rule, 1, 20, 40, |n| (share() * 950.0 * n / (n + 4.0), 0.0));
    assert_eq!(all[..6], [20, 80, 80, 19, 12, 8], "{all:?}");
    assert!(all[6..].iter().all(|&n| n >= 8), "{all:?}");
}

#[test]
fn on_a_far_path_a_drop_asks_for_no_more_streams_than_could_bring_back_what_was_lost() {
    for (rtt, factor) in [(1, 3.9..=4.1), (20, 1.4..=1.6)] {
        let mut rule = ModelBased::default();
        let n = settled(&mut rule, rtt);
        // Others take three tenths of the link, whatever we do.
        let after = streams(&mut rule, rtt, n, 6, |n| ((50.0 * n).min(700.0), 0.0));
        assert!(factor.contains(&steepest(&after)), "{rtt} ms: {after:?}");
    }
}

#[test]
fn a_path_that_carries_all_with_fewer_workers_than_the_surplus_is_not_climbed() {
    // Workers move 250 Mbit/s; once, when eight are cut to four, these have not recovered yet.
    for (others, climbs) in [(0.0, false), (8.0, true)] {
        let mut rule = ModelBased::default();
        let epoch = Cell::new(0);
        let all = streams(&mut rule, 20, 2, 12, |n| {
            epoch.set(epoch.get() + 1);
            let slow = if epoch.get() == 4 { 0.9 } else { 1.0 };
            (slow * (250.0 * n).min(960.0 * n / (n + others)), 0.0)
        });
        assert_eq!(all.iter().any(|&n| n > 8), climbs, "{others}: {all:?}");
    }
}

#[test]
fn a_full_queue_makes_no_path_a_far_one() {
    // One of the farthest keeps streams to spare: 24 for 20.
    for (expected, enough) in [(None, 24), (Some(20), 20)] {
        let mut rule = ModelBased::default();
        let host = Host { round_trip: expected.map(Duration::from_millis), ..Host::default() };
        rule.start(PerStage::all(Bounds::new(1, 64)), &host);
        assert_eq!(settled(&mut rule, 60), enough, "{expected:?}");
    }
}

#[test]
fn a_plain_gain_is_followed_at_once_but_on_the_farthest_paths() {
    for (rtt, at) in [(1, 1), (100, 2)] {
        let mut rule = ModelBased::default();
        let held = settled(&mut rule, rtt);
        // Each stream moves twice as much.
        let after = streams(&mut rule, rtt, held, 4, |n| ((100.0 * n).min(2000.0), 0.0));
        assert_eq!(after.iter().position(|&n| n > held), Some(at), "{rtt} ms: {after:?}");
    }
}

#[test]
fn small_steps_of_a_ramp_end_where_one_brings_nothing() {
    let mut rule = ModelBased::default();
    let held = *streams(&mut rule, 20, 2, 12, |n| ((93.0 * n).min(384.0), 0.0)).last().expect("some");
    let after = streams(&mut rule, 20, held, 12, |n| ((93.0 * n).min(707.0), 0.0));
    assert!(after.iter().all(|&n| n <= 11), "{after:?}");
}
