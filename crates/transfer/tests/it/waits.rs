//! Who waits for whom, as an observation tells it: behind and before a stage that is slow the others wait.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::common::Fixture;
use tidegate_control::{BitRate, ByteCount, Observation, PerStage, Stage};
use tidegate_transfer::terms::DataPlane;
use tidegate_transfer::throttle::Limits;
use tidegate_transfer::transfer::Pace;
use tidegate_transfer::transfer::route::{From, To, begin};

const WORKERS: u16 = 2;

const RATE: BitRate = BitRate::mbps(16);

/// What epochs in the midst of a transfer showed, with no more staging than there must be, where each worker of one
/// stage has this rate.
fn seen(from: &From, to: &To, f: &mut Fixture, (slow, rate): (Stage, BitRate)) -> Vec<Observation> {
    let mut limits = Limits::default();
    let rate = Some(rate);
    match slow {
        Stage::Read => limits.read = rate,
        Stage::Network => limits.network = rate,
        Stage::Write => limits.write = rate,
    }
    f.terms.limits = limits;
    f.terms.staging = ByteCount(1);
    let mut setup = f.setup();
    setup.pace = Pace::new(Duration::from_millis(300));
    setup.terms.chunk = Some(ByteCount::mib(4));
    let mut transfer = begin(from, to, &setup).expect("begun");
    let mut seen = Vec::new();
    while let Some(epoch) = transfer.step(PerStage::all(WORKERS)).expect("goes on") {
        assert!(epoch.standard_error.into_array().iter().all(|error| error.is_finite()), "{epoch:?}");
        seen.push(epoch);
    }
    // What is under way at first fills staging and the kernel's buffers, and in the end there is nothing to do.
    let end = seen.len().saturating_sub(1);
    seen[1.min(end)..end].to_vec()
}

/// To an endpoint, from it, and between two; the first leg makes what the others read.
fn legs(f: &Fixture, source: &PathBuf) -> [(From, To); 3] {
    let to = f.dir("back");
    [
        (f.local(std::slice::from_ref(source)), f.to_endpoint("in/")),
        (f.remote(&["in/source"]), To::Local(to.as_os_str().as_bytes().to_vec())),
        (f.remote(&["in/source"]), f.to_endpoint("third/")),
    ]
}

fn mean(seen: &[Observation], stage: Stage) -> f64 {
    let waited: Vec<f64> = seen.iter().map(|epoch| epoch.waited[stage].expect("both ends tell")).collect();
    assert!(waited.len() >= 2, "too short to say anything: {} epochs", waited.len());
    assert!(waited.iter().all(|share| (0.0..=1.0).contains(share)), "{waited:?}");
    waited.iter().sum::<f64>() / waited.len() as f64
}

/// Holds that `slow` waited for little, and each other stage for more than its `least` of the time.
fn others_waited(seen: &[Observation], slow: Stage, least: PerStage<f64>) {
    let waited = PerStage::from_fn(|stage| mean(seen, stage));
    assert!(waited[slow] < 0.4, "{slow} is what is slow: {waited:?}");
    let others = Stage::ALL.into_iter().filter(|stage| *stage != slow);
    assert!(others.into_iter().all(|stage| waited[stage] > least[stage]), "behind slow {slow}: {waited:?}");
}

/// The kernel's word on the sender's streams, on every route.
fn told_of_streams(seen: &[Observation]) {
    let streams: Vec<_> = seen.iter().filter_map(|epoch| epoch.streams).collect();
    assert!(2 * streams.len() >= seen.len(), "of {} epochs, {} told", seen.len(), streams.len());
    for told in streams {
        assert!((1..=WORKERS).contains(&told.count) && told.window > ByteCount(0), "{told:?}");
        assert!(told.min_rtt.is_some_and(|rtt| rtt < Duration::from_secs(10)), "{told:?}");
        assert!(told.delivery_rate > BitRate::ZERO && told.spread <= 1.0, "{told:?}");
        let shares = [told.busy, told.receiver_limited, told.app_limited];
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{told:?}");
    }
}

#[test]
fn behind_slow_readers_the_others_wait_on_every_route() {
    let mut f = Fixture::new();
    let source = f.source(&[("file", 16_000_000)]);
    for (leg, (from, to)) in legs(&f, &source).iter().enumerate() {
        println!("leg {leg}");
        let seen = seen(from, to, &mut f, (Stage::Read, RATE));
        told_of_streams(&seen);
        others_waited(&seen, Stage::Read, PerStage::all(0.6));
    }
}

#[test]
fn before_slow_writers_the_others_wait() {
    let mut f = Fixture::new();
    let source = f.source(&[("file", 24_000_000)]);
    let (from, to) = (f.local(std::slice::from_ref(&source)), f.to_endpoint("in/"));
    let seen = seen(&from, &to, &mut f, (Stage::Write, RATE));
    // Readers fill what the kernel still takes.
    others_waited(&seen, Stage::Write, PerStage { read: 0.4, ..PerStage::all(0.6) });
}

#[test]
fn what_a_slow_worker_moves_shows_when_it_moves_and_not_by_the_block() {
    let mut f = Fixture::new();
    let source = f.source(&[("file", 400_000)]);
    // A block takes 1.3 s.
    let rate = BitRate(800_000);
    for plane in [DataPlane::Clear, DataPlane::Tls] {
        f.terms.data_plane = plane;
        for slow in Stage::ALL {
            let to = format!("{}-{plane:?}/", slow.name());
            let seen =
                seen(&f.local(std::slice::from_ref(&source)), &f.to_endpoint(&to), &mut f, (slow, rate));
            let rates: Vec<u64> = seen.iter().map(|epoch| epoch.throughput[slow].0).collect();
            let moving = rates.iter().filter(|&&rate| rate > 0).count();
            assert!(rates.len() >= 2, "{slow}: too short to say anything");
            assert!(4 * moving >= 3 * rates.len(), "{slow}: {rates:?}");
        }
    }
    let parts = f.root.join("read-Tls/source/file");
    assert!(std::fs::read(source.join("file")).expect("there") == std::fs::read(parts).expect("there"));
}

#[test]
fn holes_that_are_read_in_portions_stay_holes() {
    let mut f = Fixture::new();
    let source = f.dir("source");
    let path = source.join("file");
    let mut content = vec![0; 600_000];
    content[300_000..300_100].fill(7);
    let file = std::fs::File::create(&path).expect("made");
    file.set_len(content.len() as u64).expect("grown");
    file.write_all_at(&[7; 100], 300_000).expect("written");
    let (from, to) = (f.local(std::slice::from_ref(&source)), f.to_endpoint("in/"));
    let _ = seen(&from, &to, &mut f, (Stage::Read, BitRate(1_600_000)));
    assert!(std::fs::read(f.root.join("in/source/file")).expect("there") == content);
}

#[test]
fn workers_that_are_let_go_show_until_they_have_finished_on_every_route() {
    let mut f = Fixture::new();
    let source = f.source(&[("file", 1_600_000)]);
    for (leg, (from, to)) in legs(&f, &source).iter().enumerate() {
        for slow in [Stage::Read, Stage::Write] {
            // A block takes 0.3 s, and an epoch 0.1.
            let rate = Some(BitRate(3_500_000));
            f.terms.limits = match slow {
                Stage::Read => Limits { read: rate, ..Limits::default() },
                _ => Limits { write: rate, ..Limits::default() },
            };
            let mut setup = f.setup();
            setup.pace = Pace::new(Duration::from_millis(100));
            let to = match (slow, to) {
                (Stage::Read, To::Endpoint(_)) => f.to_endpoint(&format!("read-{leg}/")),
                (Stage::Read, _) => To::Local(f.dir("read-back").as_os_str().as_bytes().to_vec()),
                _ => to.clone(),
            };
            let mut transfer = begin(from, &to, &setup).expect("begun");
            let (mut all, mut one) = (Vec::new(), Vec::new());
            for few in [false, true].into_iter().cycle() {
                let n = if few { 1 } else { 4 };
                let Some(seen) = transfer.step(PerStage::all(n)).expect("goes on") else { break };
                let draining = seen.draining[slow];
                assert!((0.0..=f64::from(u16::MAX)).contains(&draining), "{seen:?}");
                if few { one.push(draining) } else { all.push(draining) }
            }
            println!("leg {leg}, {slow}: four {all:?}, one of them {one:?}");
            let most = |of: &[f64]| of.iter().copied().fold(0.0, f64::max);
            assert!(most(&one) > 0.5, "leg {leg}, {slow}: three others had a block");
            let still = all.iter().filter(|&&draining| draining > 0.5).count();
            assert!(2 * still <= all.len(), "leg {leg}, {slow}: all may work");
        }
    }
}
