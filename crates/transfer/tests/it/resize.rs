//! Set-points that change all the time: workers park in the midst of their work, with staging nearly
//! always full or empty, and nothing may be stranded.

use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use crate::common::{Fixture, assert_same_tree, eventually, leftovers, write};
use testkit::proxy::{Fault, Plan, Proxy};
use tidegate_control::{BitRate, ByteCount, PerStage, Rng};
use tidegate_transfer::terms::DataPlane;
use tidegate_transfer::throttle::Limits;
use tidegate_transfer::transfer::Pace;
use tidegate_transfer::transfer::route::{From, To, begin};

fn churn(pipelining: bool, plane: DataPlane, seed: u64) {
    let mut f = Fixture::new();
    f.terms.pipelining = pipelining;
    f.terms.data_plane = plane;
    // The least there is: four blocks.
    f.terms.staging = ByteCount(1);
    f.terms.max_workers = 6;
    f.terms.chunk = Some(ByteCount::mib(4));
    // Slow enough that set-points change many times on the way.
    let rate = Some(BitRate::mbps(100));
    // Odd seeds: reading is quick and staging always full.
    let read = rate.filter(|_| seed.is_multiple_of(2));
    f.terms.limits = Limits { read, network: rate, write: rate, link: None };
    let source = f.dir("source");
    for i in 0..3 {
        write(&source.join(format!("large-{i}")), 9_000_000, i);
    }
    for i in 0..60 {
        write(&source.join(format!("small/{i}")), i * 2000, i);
    }
    let back = f.dir("back");
    let legs = [
        (f.local(std::slice::from_ref(&source)), f.to_endpoint("in/")),
        (f.remote(&["in/source"]), To::Local(back.as_os_str().as_bytes().to_vec())),
    ];
    for (leg, (from, to)) in legs.iter().enumerate() {
        run(&f, from, to, seed * 10 + leg as u64);
    }
    assert_same_tree(&source, &f.root.join("in/source"));
    assert_same_tree(&source, &back.join("source"));
    assert!(leftovers(&back).is_empty());
}

fn run(f: &Fixture, from: &From, to: &To, seed: u64) {
    let mut random = Rng::new(seed);
    let mut setup = f.setup();
    setup.pace = Pace { epoch: Duration::from_millis(30), settle: Duration::ZERO, stop_after: None };
    let mut transfer = begin(from, to, &setup).expect("begun");
    let started = Instant::now();
    loop {
        let mut n = || 1 + (random.below(3) * random.below(3)) as u16;
        let setpoint = PerStage { read: n(), network: n(), write: n() };
        if transfer.step(setpoint).expect("goes on").is_none() {
            break;
        }
        let totals = transfer.ledger().totals();
        assert!(started.elapsed() < Duration::from_secs(300), "seed {seed}: it hangs: {totals:?}");
    }
    let (totals, failures) = (transfer.ledger().totals(), transfer.ledger().failures());
    assert_eq!((totals.files_done, failures), (63, Vec::new()), "seed {seed}");
}

#[test]
fn workers_that_park_and_wake_strand_nothing() {
    for seed in 0..2 {
        churn(true, DataPlane::Tls, seed);
        churn(true, DataPlane::Clear, seed + 10);
    }
}

#[test]
fn connections_of_one_file_each_strand_nothing_either() {
    for seed in 0..2 {
        churn(false, DataPlane::Clear, seed + 20);
    }
}

/// Of four streams all but one, at `index`, get stuck: whichever it is, it is the one that stays.
fn one_goes_on(index: usize) {
    let mut f = Fixture::new();
    f.terms.limits.network = Some(BitRate::mbps(20));
    let stuck = move |connection| match connection {
        n if n == 0 || n == index => Plan::default(),
        _ => Plan { up: vec![Fault::Pause(300_000, Duration::from_secs(1000))], ..Plan::default() },
    };
    let proxy = Proxy::start(f.address.port, stuck);
    f.address.port = proxy.port;
    let source = f.source(&[("file", 100_000_000)]);
    let mut setup = f.setup();
    setup.pace = Pace { epoch: Duration::from_millis(100), settle: Duration::ZERO, stop_after: None };
    let mut transfer = begin(&f.local(&[source]), &f.to_endpoint("in/"), &setup).expect("begun");
    let mut step = |network| {
        let epoch = transfer.step(PerStage { read: 2, network, write: 2 });
        epoch.expect("goes on").expect("there is more to send");
    };
    eventually("three are stuck", || {
        step(4);
        proxy.happened.load(SeqCst) == 3
    });
    // Those are known by an epoch in which nothing of theirs is acknowledged; those let go finish their blocks.
    (0..5).for_each(|_| step(4));
    (0..10).for_each(|_| step(1));
    let before = proxy.up.load(SeqCst);
    // Sooner than one that is stuck is given up and opened anew.
    let goes_on = (0..300).any(|_| {
        step(1);
        proxy.up.load(SeqCst) > before + 1_000_000
    });
    assert!(goes_on, "a stream that was stuck stayed, and {index} was let go");
}

#[test]
fn the_stream_that_moves_most_is_the_last_to_be_let_go() {
    for index in [1, 4] {
        one_goes_on(index);
    }
}
