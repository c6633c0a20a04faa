use super::*;
use crate::rng::Rng;
use choice::{Reason, choose_by};

fn sampled(curve: &Curve, streams: &[u16]) -> Vec<Sample> {
    let at = |&streams| Sample::new(streams, curve.predict(streams).expect("a throughput"));
    streams.iter().map(at).collect()
}

fn samples(points: &[(u16, f64)]) -> Vec<Sample> {
    points.iter().map(|&(streams, mbps)| Sample::new(streams, BitRate::from_mbps(mbps))).collect()
}

fn near(value: f64, expected: f64, relative: f64) -> bool {
    (value - expected).abs() <= relative * expected.abs()
}

/// A peak at `peak` streams with exponent `c`: b = (c/2 − 1)·a·peakᶜ.
fn dynamic(c: f64, peak: f64) -> Curve {
    let a = 1e-6;
    Curve::DynamicOrder(DynamicOrder { a, b: (c / 2.0 - 1.0) * a * peak.powf(c), c })
}

/// A peak at `peak` streams; the least p′ per n² is `s` times that of one stream.
fn second_order(peak: f64, s: f64) -> Curve {
    let c = 1e-4;
    Curve::FullSecondOrder(FullSecondOrder { a: c * (1.0 + s) / (peak * peak), b: -2.0 * c / peak, c })
}

/// Fast paths, so that rounding to whole bit/s is far below what is asserted.
fn recovered(model: Model, truth: &Curve, streams: &[u16]) -> Curve {
    let curve = model.through(&sampled(truth, streams));
    curve.unwrap_or_else(|why| panic!("{truth:?} from {streams:?}: {why}"))
}

#[test]
fn the_exponent_is_recovered_in_closed_form_and_by_search() {
    let truth = dynamic(2.6, 11.37);
    for streams in [[1, 2, 4], [4, 8, 16], [2, 6, 18], [1, 3, 10], [3, 7, 40], [10, 2, 5]] {
        let Curve::DynamicOrder(DynamicOrder { c, .. }) = recovered(Model::DynamicOrder, &truth, &streams)
        else {
            panic!("another model");
        };
        assert!(near(c, 2.6, 1e-4), "{streams:?}: {c}");
        let curve = recovered(Model::DynamicOrder, &truth, &streams);
        let Optimum::Peak { streams: peak, throughput } = curve.optimum() else { panic!("no peak") };
        assert!(near(peak, 11.37, 1e-3), "{streams:?}: {peak}");
        assert!(near(throughput.as_mbps(), truth.mbps(11.37).expect("some"), 1e-4));
        assert_eq!(curve.best(64).map(|best| best.streams), Some(11));
    }
}

#[test]
fn every_exponent_is_found_within_the_search() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let c = rng.uniform(0.5, 8.0);
        let truth = Curve::DynamicOrder(DynamicOrder { a: 1e-7, b: 1e-7 * rng.uniform(1.0, 50.0), c });
        let first = rng.integer(1, 6);
        let second = first + rng.integer(1, 6);
        let third = second + rng.integer(1, 12);
        let Curve::DynamicOrder(found) = recovered(Model::DynamicOrder, &truth, &[first, second, third])
        else {
            panic!("another model");
        };
        assert!(near(found.c, c, 1e-3), "seed {seed}: {found:?}, not {truth:?}");
    }
}

#[test]
fn the_full_second_order_is_solved_and_its_peak_is_where_facts_say() {
    for (peak, s) in [(2.5, 0.5), (11.0, 1.0), (40.0, 3.0)] {
        let truth = second_order(peak, s);
        for streams in [[1, 2, 4], [4, 8, 16], [1, 5, 64]] {
            let curve = recovered(Model::FullSecondOrder, &truth, &streams);
            let Optimum::Peak { streams: found, throughput } = curve.optimum() else { panic!("no peak") };
            assert!(near(found, peak, 1e-3), "{streams:?}: {found}, not {peak}");
            assert!(near(throughput.as_mbps(), truth.mbps(peak).expect("some"), 1e-4));
            let best = (1..=64).max_by_key(|&n| truth.predict(n)).expect("one");
            assert_eq!(curve.best(64).map(|best| best.streams), Some(best));
        }
    }
}

#[test]
fn coefficients_that_describe_no_path_are_refused() {
    let refuse = |model: Model, points: &[(u16, f64)]| model.through(&samples(points)).expect_err("refused");
    let second = Model::FullSecondOrder;
    assert_eq!(
        refuse(second, &[(1, 21f64.powf(-0.5)), (2, 2.0 * 12f64.powf(-0.5)), (16, 16.0 * 96f64.powf(-0.5))]),
        Rejection::Pole
    );
    assert_eq!(refuse(second, &[(1, 100.0), (2, 150.0), (4, 290.0)]), Rejection::Explodes);
    let dynamic = Model::DynamicOrder;
    assert_eq!(refuse(dynamic, &[(1, 100.0), (2, 210.0), (4, 300.0)]), Rejection::NoExponent);
    assert_eq!(
        refuse(dynamic, &[(1, 100.0), (2, 199.999), (4, 3.0)]),
        Rejection::ExponentTooHigh { most: 12.0 }
    );
    assert_eq!(
        refuse(dynamic, &[(1, 100.0), (2, 199.999), (5, 3.0)]),
        Rejection::ExponentTooHigh { most: 12.0 }
    );
    assert_eq!(refuse(Model::Dinda, &[(1, 100.0), (2, 210.0)]), Rejection::Explodes);
    assert_eq!(refuse(Model::Dinda, &[(1, 100.0), (2, 0.0)]), Rejection::Nothing { streams: 2 });
    assert_eq!(refuse(Model::Dinda, &[(2, 100.0), (2, 90.0)]), Rejection::SameStreams { streams: 2 });
    assert_eq!(refuse(Model::Dinda, &[(2, 100.0)]), Rejection::TooFewSamples { have: 1, need: 2 });
    assert_eq!(refuse(Model::Knee, &[(4, 100.0), (8, 300.0), (16, 900.0)]), Rejection::NoKnee);
    for why in [Rejection::Pole, Rejection::Explodes, Rejection::Misses { error: 0.4 }] {
        assert!(!why.to_string().contains('\n'));
    }
    assert_eq!(Rejection::Misses { error: 0.4 }.to_string(), "misses the samples by 40 %");
}

#[test]
fn a_fall_from_the_start_is_best_with_one() {
    let falling = samples(&[(1, 100.0), (2, 90.0), (4, 80.0), (8, 72.0)]);
    let choice = choose(&falling, 64);
    assert_eq!((choice.streams, choice.reason), (1, Reason::Fewest), "{choice:#?}");
    let steep = samples(&[(1, 100.0), (2, 40.0), (4, 11.0)]);
    assert_eq!(choose(&steep, 64).streams, 1);
}

#[test]
fn baselines_are_what_they_are_published_as() {
    let Ok(Curve::Dinda(dinda)) = Model::Dinda.through(&samples(&[(1, 100.0), (4, 320.0)])) else {
        panic!("refused");
    };
    // p′: 1/100² and 4²/320².
    assert!(near(dinda.a, (16.0 / 102_400.0 - 1e-4) / 15.0, 1e-9));
    assert!(near(dinda.a + dinda.b, 1e-4, 1e-9));
    let hacker = Model::Hacker.through(&samples(&[(1, 100.0)])).expect("solved");
    assert_eq!(hacker.predict(7), Some(BitRate::mbps(700)));
    assert_eq!(hacker.optimum(), Optimum::Unbounded);
}

#[test]
fn the_truth_is_chosen_when_nothing_strays() {
    let knee = Curve::Knee(Knee { stream_mbps: 100.0, streams: 10.0, decline: 0.0 });
    let declining = Curve::Knee(Knee { stream_mbps: 100.0, streams: 11.0, decline: 0.4 });
    let hacker = Curve::Hacker(Hacker { stream_mbps: 30.0 });
    let dinda = Curve::Dinda(Dinda { a: 1e-8, b: 1e-6 });
    for truth in [knee, declining, hacker, dinda, second_order(12.0, 1.0), dynamic(4.0, 12.0)] {
        let choice = choose(&sampled(&truth, &[1, 2, 4, 8, 16, 32]), 64);
        assert_eq!(choice.fit.as_ref().map(|fit| fit.curve.model()), Some(truth.model()), "{choice:#?}");
        for n in 1..=32 {
            let expected = truth.mbps(n.into()).expect("some");
            let chosen = choice.fit.as_ref().and_then(|fit| fit.curve.predict(n)).expect("some").as_mbps();
            assert!(near(chosen, expected, 0.01), "{truth:?} at {n}: {chosen}, not {expected}");
            // The others count a little.
            let blended = choice.predict(n).as_mbps();
            assert!(near(blended, expected, 0.05), "{truth:?} at {n}: {blended}, not {expected}");
        }
    }
}

#[test]
fn fewer_streams_are_taken_where_they_do_as_well() {
    let truth = dynamic(2.6, 11.37);
    let given = sampled(&truth, &[1, 2, 4, 8, 16]);
    // As published it is the peak itself.
    assert_eq!(choose_by(&given, 64, &ModelSelection::DynamicOrder.options()).streams, 11);
    let frugal = |model| Options { same: 0.02, ..Options::published(vec![model]) };
    let choice = choose_by(&given, 64, &frugal(Model::DynamicOrder));
    assert!(choice.streams < 11 && choice.reason == Reason::Peak, "{choice:#?}");
    let share = |n: u16| truth.mbps(n.into()).expect("some") / truth.mbps(11.0).expect("some");
    assert!(share(choice.streams) >= 0.98 && share(choice.streams - 1) < 0.98);
    // A curve without a peak: the fewest with 95 % of its limit.
    let dinda = Curve::Dinda(Dinda { a: 1e-8, b: 1e-6 });
    let choice = choose_by(&sampled(&dinda, &[1, 2, 4, 8, 16, 32]), 64, &frugal(Model::Dinda));
    assert_eq!((choice.streams, choice.reason), (31, Reason::Saturation));
}

#[test]
fn the_bound_and_what_was_sampled_limit_the_choice() {
    let linear = samples(&[(1, 10.0), (2, 20.0), (4, 40.0), (8, 80.0)]);
    for (most, streams, reason) in
        [(64, 16, Reason::Reach), (16, 16, Reason::Bound), (6, 6, Reason::Bound), (1, 1, Reason::Bound)]
    {
        let choice = choose(&linear, most);
        assert_eq!((choice.streams, choice.reason), (streams, reason), "at most {most}");
        // Other models count a little too.
        assert!(near(choice.throughput.as_mbps(), 10.0 * f64::from(streams), 0.1), "{choice:#?}");
    }
    let choice = choose(&sampled(&second_order(20.0, 1.0), &[1, 2, 4, 8, 16, 32]), 8);
    assert_eq!((choice.streams, choice.reason), (8, Reason::Bound));
}

#[test]
fn within_the_samples_no_more_is_told_than_the_best() {
    // Sampled on a link of 500 Mbit/s at 40 ms; what 21 streams then moved were 474 Mbit/s.
    let mbps = [(1, 30), (2, 60), (4, 120), (8, 240), (16, 474), (32, 473)];
    let samples = mbps.map(|(streams, rate)| Sample::new(streams, BitRate::mbps(rate)));
    let ours = choose(&samples, 32);
    assert!((17..32).contains(&ours.streams), "{ours:?}");
    assert!(
        ours.throughput <= BitRate::mbps(474) && ours.predict(ours.streams) > ours.throughput,
        "{ours:?}"
    );
    let bare = choose_by(&samples, 32, &Options { bounded: false, ..Options::default() });
    assert_eq!((bare.streams, bare.throughput), (ours.streams, ours.predict(ours.streams)));
    // Beyond the samples it may be more.
    let rising = choose(&samples[..4], 32);
    assert!(rising.streams > 8 && rising.throughput > BitRate::mbps(300), "{rising:?}");
}

#[test]
fn useless_samples_are_left_out_and_none_is_said_to_be_none() {
    let nothing = choose(&[], 64);
    assert_eq!((nothing.streams, nothing.throughput, nothing.reason), (1, BitRate::ZERO, Reason::Nothing));
    assert_eq!(nothing.rejected.len(), Model::ALL.len());
    assert_eq!(choose(&samples(&[(1, 0.0), (2, f64::NAN), (4, 0.0)]), 64).reason, Reason::Nothing);
    let zeros = samples(&[(1, 0.0), (1, 100.0), (2, 200.0), (4, 0.0), (4, 400.0), (0, 50.0)]);
    let choice = choose(&zeros, 8);
    assert_eq!((choice.streams, choice.samples.len()), (8, 3));
    assert_eq!(choose(&samples(&[(3, 90.0)]), 64).streams, 6);
    assert_eq!(choose(&samples(&[(8, 90.0)]), 2).streams, 2);
}

#[test]
fn what_no_model_fits_falls_back_to_the_best_sample() {
    let jagged = samples(&[(1, 900.0), (2, 40.0), (4, 700.0), (8, 20.0), (16, 950.0), (32, 30.0)]);
    let choice = choose(&jagged, 64);
    assert_eq!((choice.streams, choice.reason), (16, Reason::BestSample), "{choice:#?}");
    assert_eq!(choice.throughput, BitRate::mbps(950));
    assert!(choice.fit.is_none() && choice.rejected.len() == Model::ALL.len());
    // Between the samples it goes straight, in logarithms.
    assert!(near(choice.predict(3).as_mbps(), 40.0 * (700.0f64 / 40.0).powf(1.5f64.log2()), 1e-6));
    assert_eq!(choice.predict(60), BitRate::mbps(30));
    // Of samples as good, the fewest streams.
    let even = samples(&[(1, 10.0), (2, 950.0), (4, 30.0), (8, 955.0), (16, 20.0)]);
    assert_eq!(choose(&even, 64).streams, 2);
}

#[test]
fn one_hiccup_does_not_bend_the_curve() {
    let knee = Curve::Knee(Knee { stream_mbps: 100.0, streams: 10.0, decline: 0.0 });
    for broken in 0..6 {
        let mut given = sampled(&knee, &[1, 2, 4, 8, 16, 32]);
        given[broken].throughput.0 /= 2;
        let choice = choose(&given, 64);
        let share = knee.mbps(choice.streams.into()).expect("some") / 1000.0;
        assert!(share >= 0.8, "sample {broken} halved: {choice:#?}");
    }
}

#[test]
fn any_samples_give_an_answer_within_the_bound() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let count = rng.integer(0, 40);
        let given: Vec<Sample> = (0..count)
            .map(|_| {
                let mbps = if rng.unit() < 0.1 { 0.0 } else { rng.log_uniform(1e-6, 1e12) };
                Sample::new(
                    rng.integer(0, if seed % 2 == 0 { 20 } else { u16::MAX }),
                    BitRate::from_mbps(mbps),
                )
            })
            .collect();
        let most = rng.integer(0, 300);
        let choice = choose(&given, most);
        assert!((1..=most.max(1)).contains(&choice.streams), "seed {seed}: {choice:#?}");
        let moved = given.iter().any(|sample| sample.is_useful());
        assert_eq!(choice.reason != Reason::Nothing, moved, "seed {seed}: {choice:#?}");
        for fit in choice.fits() {
            assert_eq!(fit.curve.check(), Ok(()));
            assert!(fit.curve.points(most, 50).len() <= 50);
        }
    }
}

#[test]
fn a_choice_survives_json() {
    let choice = choose(&sampled(&dynamic(3.0, 9.0), &[1, 2, 4, 8, 16]), 64);
    let text = serde_json::to_string(&choice).expect("written");
    for part in ["\"model\":\"dynamic_order\"", "\"throughput_bps\":", "\"kind\":\"peak\"", "\"streams\":"] {
        assert!(text.contains(part), "{text}");
    }
    let read: Choice = serde_json::from_str(&text).expect("read");
    assert_eq!(
        (read.streams, read.throughput, read.reason),
        (choice.streams, choice.throughput, choice.reason)
    );
    assert_eq!((&read.samples, &read.rejected), (&choice.samples, &choice.rejected));
    // Of a float's digits the last may be lost.
    assert!((1..=64).all(|n| near(read.predict(n).as_mbps(), choice.predict(n).as_mbps(), 1e-6)));
}

#[test]
fn points_are_of_whole_streams_and_few() {
    let curve = dynamic(3.0, 9.0);
    let points = curve.points(64, 30);
    assert!(points.len() <= 30 && points.windows(2).all(|pair| pair[0].streams < pair[1].streams));
    assert_eq!((points[0].streams, points.last().map(|point| point.streams)), (1, Some(64)));
    assert!(points.iter().all(|point| curve.predict(point.streams) == Some(point.throughput)));
    assert_eq!(curve.points(0, 0).len(), 1);
}

#[test]
fn each_selection_is_of_its_models_and_the_published_is_the_nearer_of_two() {
    let exact = [(dynamic(2.6, 11.37), 11), (second_order(12.0, 1.0), 12), (dynamic(4.0, 9.0), 9)];
    for (truth, peak) in exact {
        let given = sampled(&truth, &[1, 2, 4, 8, 16, 32]);
        let choice = choose_by(&given, 64, &ModelSelection::Published.options());
        let fit = choice.fit.as_ref().expect("a curve");
        assert_eq!(
            (choice.streams, fit.curve.model(), fit.refined),
            (peak, truth.model(), false),
            "{choice:#?}"
        );
        assert!((fit.weight - 1.0).abs() < 1e-12 && choice.others.iter().all(|other| other.weight == 0.0));
        assert!(choose(&given, 64).streams < peak, "ours takes the fewest that are as good");
        for selection in ModelSelection::ALL {
            let choice = choose_by(&given, 64, &selection.options());
            let all = choice.fits().map(|fit| fit.curve.model());
            let all: Vec<Model> = all.chain(choice.rejected.iter().map(|rejected| rejected.model)).collect();
            let wanted = match selection {
                ModelSelection::Averaged => Model::ALL.to_vec(),
                ModelSelection::Published => vec![Model::FullSecondOrder, Model::DynamicOrder],
                one => Model::ALL.into_iter().filter(|model| model.name() == one.name()).collect(),
            };
            assert!(
                all.len() == wanted.len() && wanted.iter().all(|model| all.contains(model)),
                "{selection}"
            );
        }
    }
    // A link with a knee is no curve of EOS's: its peak is beyond what is needed.
    let knee = Curve::Knee(Knee { stream_mbps: 100.0, streams: 10.0, decline: 0.0 });
    let given = sampled(&knee, &[1, 2, 4, 8, 16, 32]);
    let (ours, published) = (choose(&given, 64), choose_by(&given, 64, &ModelSelection::Published.options()));
    assert!(ours.streams <= 11 && published.streams > ours.streams + 1, "{ours:#?} {published:#?}");
    assert_eq!("full-second-order".parse(), "full_second_order".parse::<ModelSelection>());
    assert_eq!("dynamic-order".parse(), "dynamic_order".parse::<ModelSelection>());
    let refused = "newton".parse::<ModelSelection>().expect_err("no such model");
    assert!(ModelSelection::NAMES.iter().all(|name| refused.contains(name)) && !refused.contains('\n'));
}
