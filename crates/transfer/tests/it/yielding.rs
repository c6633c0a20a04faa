//! Streams that yield to others, wherever the sender is.

use std::fs;
use std::time::Duration;

use crate::common::{Fixture, drive, eventually};
use tidegate_control::{ByteCount, Proposal};
use tidegate_transfer::spec::Memory;
use tidegate_transfer::transfer::Pace;
use tidegate_transfer::transfer::route::{From, To, Transfer, begin};

/// How many senders of this process follow the delay of their packets.
fn followed() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("listed").flatten();
    // A thread that has just ended has no name any more.
    tasks
        .filter(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name == "yield\n"))
        .count()
}

/// Asks its streams to yield, or no more.
fn heed(transfer: &mut Transfer, yields: bool) {
    let bounds = transfer.bounds();
    transfer.heed(&Proposal { yields, ..Proposal::default() }, bounds);
}

// One test alone in its process: it looks at all threads.
#[test]
fn a_sender_is_told_to_yield_on_every_route() {
    testkit::alone!();
    let (a, b) = (Fixture::new(), Fixture::new());
    let memory = Memory { bytes: ByteCount::mib(1 << 20) };
    let mut setup = a.setup();
    setup.pace = Pace { stop_after: Some(Duration::from_secs(60)), ..Pace::new(Duration::from_millis(100)) };
    for (from, to) in [
        (From::Zero(memory), a.to_endpoint("")),
        (From::EndpointZero(a.address.clone(), memory), To::Null),
        (From::EndpointZero(a.address.clone(), memory), b.to_endpoint("")),
    ] {
        let mut transfer = begin(&from, &to, &setup).expect("begun");
        transfer.step(a.setpoint).expect("goes on").expect("not over");
        assert_eq!(followed(), 0, "nobody asked for it");
        heed(&mut transfer, true);
        let mut moved = 0;
        for _ in 0..4 {
            let seen = transfer.step(a.setpoint).expect("goes on").expect("not over");
            moved += seen.throughput.network.0;
        }
        assert!(moved > 0, "it moves all the same");
        assert_eq!(followed(), 1);
        heed(&mut transfer, false);
        transfer.step(a.setpoint).expect("goes on").expect("not over");
        drop(transfer);
        eventually("the sender has ended", || followed() == 0);
    }
    // All of it arrives before long where nobody else is, also over the loopback with its large segments.
    let some = From::Zero(Memory { bytes: ByteCount::mib(64) });
    let mut transfer = begin(&some, &a.to_endpoint(""), &a.setup()).expect("begun");
    heed(&mut transfer, true);
    let (totals, failures) = drive(transfer, a.setpoint).expect("moved");
    assert_eq!((totals.bytes_done, failures.len()), (64 << 20, 0));
}
