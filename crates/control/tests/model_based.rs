//! What the model-based rule makes of a host's processors.

use std::time::Duration;

use tidegate_control::optimizer::model_based::{Config, ModelBased};
use tidegate_control::{BitRate, Bounds, Concurrency, CpuLoad, Ends, Observation, Optimizer, PerStage};

/// An epoch on a path that gives every worker of every stage 1 Gbit/s, with this load on both hosts.
fn seen(n: Concurrency, load: Option<CpuLoad>) -> Observation {
    Observation {
        at: Duration::from_secs(1),
        interval: Duration::from_secs(1),
        concurrency: n,
        throughput: n.map(|n| BitRate::mbps(1000 * u64::from(n))),
        staging_free: Ends::default(),
        staging_capacity: Ends::default(),
        loss: None,
        rtt: None,
        cpu: Ends { sender: load, receiver: load },
        remaining: None,
    }
}

/// What the rule asks for in ten epochs with this load.
fn proposals(load: Option<CpuLoad>) -> Vec<Concurrency> {
    let bounds = PerStage::all(Bounds::new(1, 64));
    let mut rule = ModelBased::new(Config::default());
    let mut n = rule.start(bounds);
    let mut all = vec![n];
    for _ in 0..40 {
        n = rule.propose(&seen(n, load), bounds);
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
    for load in [None, Some(CpuLoad { ours: 0.05, idle: 0.0 }), Some(CpuLoad { ours: 0.7, idle: 0.3 })] {
        assert!(proposals(load).iter().any(|n| *n == PerStage::all(64)), "{load:?}");
    }
}

#[test]
fn only_the_stages_of_the_host_that_is_used_up_stay() {
    let bounds = PerStage::all(Bounds::new(1, 64));
    let mut rule = ModelBased::new(Config::default());
    let start = rule.start(bounds);
    let load = CpuLoad { ours: 0.9, idle: 0.05 };
    let epoch = Observation { cpu: Ends { sender: None, receiver: Some(load) }, ..seen(start, None) };
    let next = rule.propose(&epoch, bounds);
    assert!(next.read > start.read, "{next:?}");
    assert_eq!((next.network, next.write), (start.network, start.write));
}
