//! Who waits for whom, as an observation tells it: behind and before a stage that is slow the others wait.

mod common;

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use common::{Fixture, write};
use tidegate_control::{BitRate, ByteCount, Observation, PerStage, Stage};
use tidegate_transfer::throttle::Limits;
use tidegate_transfer::transfer::Pace;
use tidegate_transfer::transfer::route::{From, To, begin};

const WORKERS: u16 = 2;

/// What epochs in the midst of a transfer showed, with no more staging than there must be.
fn seen(from: &From, to: &To, f: &mut Fixture, slow: Stage) -> Vec<Observation> {
    let mut limits = Limits::default();
    let rate = Some(BitRate::mbps(16));
    match slow {
        Stage::Read => limits.read = rate,
        Stage::Network => limits.network = rate,
        Stage::Write => limits.write = rate,
    }
    f.terms.limits = limits;
    f.terms.staging = ByteCount(1);
    let mut setup = f.setup();
    setup.pace = Pace::new(Duration::from_millis(300));
    let mut transfer = begin(from, to, &setup).expect("begun");
    let mut seen = Vec::new();
    while let Some(epoch) = transfer.step(PerStage::all(WORKERS)).expect("goes on") {
        seen.push(epoch);
    }
    // What is under way at first fills staging and the kernel's buffers, and in the end there is nothing to do.
    let end = seen.len().saturating_sub(2);
    seen[2.min(end)..end].to_vec()
}

fn mean(seen: &[Observation], stage: Stage) -> f64 {
    let waited: Vec<f64> = seen.iter().map(|epoch| epoch.waited[stage].expect("both ends tell")).collect();
    assert!(waited.len() > 2, "too short to say anything: {} epochs", waited.len());
    assert!(waited.iter().all(|share| (0.0..=1.0).contains(share)), "{waited:?}");
    waited.iter().sum::<f64>() / waited.len() as f64
}

#[test]
fn behind_slow_readers_the_others_wait_on_every_route() {
    let mut f = Fixture::new();
    let source = f.dir("source");
    write(&source.join("file"), 12_000_000, 1);
    let to = f.dir("back");
    let legs = [
        (f.local(std::slice::from_ref(&source)), f.to_endpoint("in/")),
        (f.remote(&["in/source"]), To::Local(to.as_os_str().as_bytes().to_vec())),
        (f.remote(&["in/source"]), f.to_endpoint("third/")),
    ];
    for (leg, (from, to)) in legs.iter().enumerate() {
        let seen = seen(from, to, &mut f, Stage::Read);
        let [read, network, write] = Stage::ALL.map(|stage| mean(&seen, stage));
        assert!(read < 0.4, "leg {leg}: readers are what is slow, and waited {read}");
        assert!(network > 0.6, "leg {leg}: streams have nothing to send, and waited {network}");
        assert!(write > 0.6, "leg {leg}: writers have nothing to write, and waited {write}");
    }
}

#[test]
fn before_slow_writers_the_others_wait() {
    let mut f = Fixture::new();
    let source = f.dir("source");
    write(&source.join("file"), 40_000_000, 1);
    let (from, to) = (f.local(std::slice::from_ref(&source)), f.to_endpoint("in/"));
    let seen = seen(&from, &to, &mut f, Stage::Write);
    let [read, network, write] = Stage::ALL.map(|stage| mean(&seen, stage));
    assert!(write < 0.4, "writers are what is slow, and waited {write}");
    assert!(network > 0.6, "streams have no room, and waited {network}");
    // Readers fill what the kernel still takes.
    assert!(read > 0.4, "readers have no room, and waited {read}");
}
