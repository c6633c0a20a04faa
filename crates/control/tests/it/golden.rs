//! Traces of the published rules on an ideal link, T = min(n·α, BW), with K = 1.02.
//!
//! The sequences of the gradient and of Falcon were noted once from runs of the authors' own programs on such a link; those
//! programs are not part of this repository, so that whoever doubts a sequence has to run them again.

use std::time::Duration;

use tidegate_control::optimizer::aimd::{Aimd, AimdConfig};
use tidegate_control::optimizer::falcon::{self, Falcon};
use tidegate_control::optimizer::gradient::{self, Gradient};
use tidegate_control::optimizer::{StageOptimizer, StageSample};
use tidegate_control::{BitRate, Bounds};

/// The n a rule probes one after the other.
fn trace(mut rule: impl StageOptimizer, alpha: u64, link: u64, max: u16, probes: usize) -> Vec<u16> {
    let bounds = Bounds::new(1, max);
    let mut n = rule.start(bounds);
    (0..probes)
        .map(|probe| {
            let probed = n;
            let sample = StageSample {
                at: Duration::from_secs(3 * (probe as u64 + 1)),
                interval: Duration::from_secs(3),
                n,
                throughput: BitRate::mbps((u64::from(n) * alpha).min(link)),
                ..StageSample::default()
            };
            n = rule.propose(&sample, bounds).n;
            probed
        })
        .collect()
}

fn gradient(alpha: u64, link: u64, max: u16, probes: usize) -> Vec<u16> {
    trace(Gradient::new(gradient::GradientConfig::default()), alpha, link, max, probes)
}

#[test]
fn gradient_needs_24_probes_for_20_workers_and_then_circles() {
    let expected = [
        1, 2, 4, 6, 7, 8, 9, 10, 11, 12, 12, 11, 12, 13, 14, 15, 16, 17, 18, 19, 19, 18, 19, 20, 21, 20, 19,
        20, 21, 20, 19,
    ];
    assert_eq!(gradient(500, 10_000, 64, expected.len()), expected);
}

#[test]
fn gradient_on_a_slow_stage() {
    let expected = [1, 2, 4, 6, 7, 8, 9, 10, 11, 12, 12, 11, 12, 13, 14, 15, 14, 13, 14, 15, 14, 13];
    assert_eq!(gradient(75, 1000, 30, expected.len()), expected);
}

#[test]
fn gradient_on_fast_workers() {
    let expected = [1, 2, 4, 6, 7, 8, 9, 8, 7, 8, 8, 7, 8, 9, 8, 7];
    assert_eq!(gradient(1400, 10_000, 15, expected.len()), expected);
}

#[test]
fn gradient_where_one_worker_is_enough() {
    assert_eq!(gradient(1000, 1000, 64, 5), [1, 2, 1, 1, 1]);
}

#[test]
fn falcon_probes_both_sides_of_its_centre() {
    let expected = [1, 3, 3, 5, 7, 9, 10, 12, 14, 16, 19, 21, 25, 27, 24, 26, 22, 24, 19, 21, 20, 22];
    let rule = Falcon::new(falcon::FalconConfig::default());
    assert_eq!(trace(rule, 500, 10_000, 64, expected.len()), expected);
}

/// By hand from the paper's equations with ε = 2 %: where n workers give n·α, one more adds 1/n, and the first that adds
/// nothing is kept.
#[test]
fn aimd_climbs_one_stream_an_epoch_and_stays_where_one_more_adds_nothing() {
    let aimd = |alpha, link, probes| trace(Aimd::new(AimdConfig::default()), alpha, link, 64, probes);
    assert_eq!(aimd(75, 1000, 18), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 15, 15, 15]);
    assert_eq!(aimd(1400, 10_000, 11), [1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9]);
    assert_eq!(aimd(1000, 1000, 4), [1, 2, 2, 2]);
}

#[test]
fn the_repaired_gradient_still_finds_the_optimum() {
    let config = gradient::GradientConfig { repaired: true, ..gradient::GradientConfig::default() };
    let late = &trace(Gradient::new(config), 500, 10_000, 64, 60)[40..];
    assert!(late.iter().all(|n| (18..=21).contains(n)), "{late:?}");
}

#[test]
fn the_repaired_gradient_holds_on_a_slope_of_zero() {
    let config = gradient::GradientConfig { repaired: true, ..gradient::GradientConfig::default() };
    let mut rule = Gradient::new(config);
    let sample = StageSample {
        at: Duration::from_secs(3),
        interval: Duration::from_secs(3),
        n: 7,
        throughput: BitRate::mbps(900),
        ..StageSample::default()
    };
    let bounds = Bounds::new(1, 30);
    assert_eq!(rule.propose(&sample, bounds).n, 8);
    assert_eq!(rule.propose(&sample, bounds).n, 7);
}
