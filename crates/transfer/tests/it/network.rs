//! A network that resets, flips bits and stalls.

use std::time::Duration;

use crate::common::{Fixture, assert_same_tree, drive, eventually, is_error, leftovers, limit, write};
use testkit::proxy::{Fault, Plan, Proxy};
use tidegate_control::Rng;
use tidegate_transfer::error::ErrorKind;
use tidegate_transfer::terms::{DataPlane, Verify};
use tidegate_transfer::transfer::route::begin;

fn fixture(plane: DataPlane) -> Fixture {
    let mut f = Fixture::new();
    f.terms.data_plane = plane;
    let source = f.source(&[("large", 6_000_000), ("middle", 300_001)]);
    for i in 0..60 {
        write(&source.join(format!("small/{i}")), i * 331, i);
    }
    f
}

/// Pushes and pulls through a proxy that follows `plan`; both must end well.
fn both_ways(
    plane: DataPlane,
    verify: Verify,
    least: usize,
    plan: impl Fn(usize) -> Plan + Send + Clone + 'static,
) {
    let mut f = fixture(plane);
    f.terms.verify = verify;
    let source = f.dir("source");
    let direct = f.address.port;
    {
        let proxy = Proxy::start(direct, plan.clone());
        f.address.port = proxy.port;
        let (totals, failures) = f.try_push(std::slice::from_ref(&source), "in/").expect("pushed");
        assert_eq!((totals.files_done, failures.len()), (62, 0), "{failures:?}");
        let happened = proxy.happened.load(std::sync::atomic::Ordering::SeqCst);
        assert!(happened >= least, "only {happened} faults came to pass on the way there");
    }
    assert_same_tree(&source, &f.root.join("in/source"));
    assert!(leftovers(&f.root).is_empty());
    pulls_back(&mut f, &Proxy::start(direct, plan));
}

/// Pulls by way of `proxy` what was pushed; it must end well.
fn pulls_back(f: &mut Fixture, proxy: &Proxy) {
    f.address.port = proxy.port;
    let back = f.dir("back");
    let totals = f.pull(&["in/source"], &back);
    assert_eq!((totals.files_done, totals.files_failed), (62, 0));
    assert_same_tree(&f.dir("source"), &back.join("source"));
    assert!(leftovers(&back).is_empty());
}

/// One fault for both directions: data flows up in a push and down in a pull.
fn each_way(fault: Fault) -> Plan {
    Plan { up: vec![fault], down: vec![fault] }
}

#[test]
fn streams_reset_anywhere_cost_only_what_was_on_its_way() {
    for (plane, seed) in [(DataPlane::Tls, 1), (DataPlane::Clear, 2)] {
        both_ways(plane, Verify::Blake3, 2, move |index| match index {
            // The first bytes, in the handshake, and later ones, in the midst of blocks.
            1..=6 => {
                let mut random = Rng::new(seed * 1000 + index as u64);
                each_way(Fault::Reset(if index == 1 {
                    40 + random.below(100)
                } else {
                    random.below(900_000)
                }))
            }
            _ => Plan::default(),
        });
    }
}

#[test]
fn a_stream_cut_before_the_receiver_knows_it_is_missed_all_the_same() {
    // Everything fits into the socket's buffer, so that no later write can notice.
    for plane in [DataPlane::Tls, DataPlane::Clear] {
        let mut f = Fixture::new();
        f.terms.data_plane = plane;
        let source = f.source(&[("one", 1000)]);
        let proxy = Proxy::start(f.address.port, |index| match index {
            1 | 2 => Plan { up: vec![Fault::Reset(if index == 1 { 60 } else { 20 })], ..Plan::default() },
            _ => Plan::default(),
        });
        f.address.port = proxy.port;
        assert_eq!(f.push(std::slice::from_ref(&source), "in/").files_done, 1);
        assert_same_tree(&source, &f.root.join("in/source"));
    }
}

#[test]
fn a_stream_that_takes_everything_and_delivers_nothing_is_replaced() {
    for plane in [DataPlane::Tls, DataPlane::Clear] {
        let mut f = fixture(plane);
        f.stall = Duration::from_secs(1);
        let source = f.dir("source");
        // In the midst of blocks; the third one right behind its opening, before any frame.
        let plan = |index: usize| match index {
            1 => each_way(Fault::Swallow(700_000)),
            2 => each_way(Fault::Swallow(40_000)),
            3 => each_way(Fault::Swallow(4_000)),
            _ => Plan::default(),
        };
        let direct = f.address.port;
        let proxy = Proxy::start(direct, plan);
        f.address.port = proxy.port;
        let totals = f.push(std::slice::from_ref(&source), "in/");
        assert_eq!((totals.files_done, totals.files_failed), (62, 0));
        assert!(totals.bytes_again > 0, "nothing was lost");
        assert_same_tree(&source, &f.root.join("in/source"));
        pulls_back(&mut f, &Proxy::start(direct, plan));
    }
}

#[test]
fn a_receiver_that_takes_its_time_loses_no_stream() {
    // Every block waits for a slow writer for longer than a stream may deliver nothing.
    let mut f = Fixture::new();
    f.stall = Duration::from_secs(1);
    f.terms.limits.write = Some(tidegate_control::BitRate::mbps(2));
    f.terms.staging = tidegate_control::ByteCount::mib(1);
    let source = f.source(&[("file", 3_000_000)]);
    let totals = f.push(std::slice::from_ref(&source), "in/");
    assert_eq!((totals.files_done, totals.bytes_again), (1, 0));
}

#[test]
fn flipped_bits_are_found_and_the_blocks_sent_again() {
    // In the long mode a thousand copies there and back.
    let seeds = if testkit::is_long() { 500 } else { 6 };
    for seed in 0..seeds {
        for verify in [Verify::Blake3, Verify::Block] {
            both_ways(DataPlane::Clear, verify, 2, move |index| {
                if index == 0 {
                    return Plan::default();
                }
                let mut random = Rng::new(seed * 100 + index as u64);
                let mut faults: Vec<Fault> =
                    (0..3).map(|_| Fault::Flip(200 + random.below(500_000), random.below(8) as u8)).collect();
                // A header: the first frame begins behind the stream's opening.
                if seed.is_multiple_of(2) {
                    faults.push(Fault::Flip(90 + random.below(40), random.below(8) as u8));
                }
                // Not for ever, or nothing would arrive.
                if index > 4 {
                    faults.clear();
                }
                Plan { up: faults.clone(), down: faults }
            });
        }
    }
}

#[test]
fn flipped_bits_end_an_encrypted_stream_and_nothing_else() {
    both_ways(DataPlane::Tls, Verify::Blake3, 2, |index| match index {
        1..=3 => {
            let mut random = Rng::new(index as u64);
            each_way(Fault::Flip(
                if index == 1 { 50 } else { 1500 + random.below(300_000) },
                random.below(8) as u8,
            ))
        }
        _ => Plan::default(),
    });
}

#[test]
fn a_pause_is_waited_out() {
    both_ways(DataPlane::Tls, Verify::Blake3, 1, |index| match index {
        1 | 2 => each_way(Fault::Pause(100_000 * index as u64, Duration::from_millis(700))),
        _ => Plan::default(),
    });
}

#[test]
fn a_lost_session_is_a_connection_error_and_the_next_run_continues() {
    for (seed, flip) in [(1u64, false), (2, false), (3, true)] {
        let mut f = fixture(DataPlane::Tls);
        let source = f.dir("source");
        write(&source.join("huge"), 20_000_000, 9);
        // Their offers are what the flip hits: behind the handshake, before the session is quiet.
        for number in 0..200 {
            write(&source.join(format!("small-{number}")), 10, number);
        }
        f.terms.limits = limit(50);
        let direct = f.address.port;
        let proxy = Proxy::start(direct, move |index| match (index, flip) {
            (0, true) => Plan { up: vec![Fault::Flip(6_000 + seed, 3)], ..Plan::default() },
            _ => Plan::default(),
        });
        f.address.port = proxy.port;
        let from = f.local(std::slice::from_ref(&source));
        let (mut moved, mut cut) = (0, flip);
        // What is flipped may be seen before the transfer has begun: offers do not wait for that.
        let error = is_error(begin(&from, &f.to_endpoint("in/"), &f.setup()).and_then(|mut transfer| {
            while transfer.step(f.setpoint)?.is_some() {
                moved = transfer.ledger().totals().bytes_moved;
                if moved > 10_000_000 && !std::mem::replace(&mut cut, true) {
                    assert!(proxy.reset(0));
                }
            }
            Ok(())
        }));
        assert_eq!(error.kind, ErrorKind::Connection, "{error}");
        // The same place, as the transfer's id counts it.
        f.terms.limits = tidegate_transfer::throttle::Limits::default();
        eventually("the endpoint has let go", || {
            let transfer = begin(&from, &f.to_endpoint("in/"), &f.setup());
            match transfer {
                Ok(transfer) => {
                    let (second, failures) = drive(transfer, f.setpoint).expect("continued");
                    assert_eq!(failures, []);
                    // A flip ends the session early, before anything was worth keeping.
                    let kept = second.bytes_skipped;
                    assert!(flip || kept > 0, "nothing was kept of {moved} bytes");
                    true
                }
                Err(error) => {
                    assert!(matches!(error.kind, ErrorKind::Connection | ErrorKind::Busy), "{error}");
                    false
                }
            }
        });
        assert_same_tree(&source, &f.root.join("in/source"));
        assert!(leftovers(&f.root).is_empty());
    }
}
