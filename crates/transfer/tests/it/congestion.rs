//! Which congestion control streams have, on every route, and what is said where a kernel has none of that name.

use std::fs;
use std::time::Duration;

use crate::common::Fixture;
use testkit::{congestion_at, congestion_controls};
use tidegate_control::ByteCount;
use tidegate_transfer::congestion::{Congestion, CongestionTerms};
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::spec::Memory;
use tidegate_transfer::terms::DataPlane;
use tidegate_transfer::transfer::Pace;
use tidegate_transfer::transfer::route::{From, To, begin};

const MEMORY: Memory = Memory { bytes: ByteCount::mib(1 << 20) };

/// What the kernel gives a socket that nobody asks anything of.
fn system() -> String {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").expect("told").trim().to_owned()
}

/// A fixture on such terms.
fn fixture(asked: &str, bounded: bool, plane: DataPlane) -> Fixture {
    let mut fixture = Fixture::new();
    let asked: Congestion = asked.parse().expect("a name");
    fixture.terms.congestion = CongestionTerms { asked, bounded };
    fixture.terms.data_plane = plane;
    fixture
}

/// Some epochs of memory from one end to the other; the congestion control of connections to the endpoint meanwhile.
fn seen(fixture: &Fixture, from: &From, to: &To) -> Result<Option<Vec<String>>, Error> {
    let mut setup = fixture.setup();
    setup.pace = Pace { stop_after: Some(Duration::from_secs(60)), ..Pace::new(Duration::from_millis(100)) };
    let mut transfer = begin(from, to, &setup)?;
    let mut moved = 0;
    for _ in 0..3 {
        moved += transfer.step(fixture.setpoint)?.expect("not over").throughput.network.0;
    }
    assert!(moved > 0, "it moves");
    Ok(congestion_at(fixture.address.port))
}

#[test]
fn streams_have_the_congestion_control_that_was_asked_for_on_every_route() {
    for plane in [DataPlane::Tls, DataPlane::Clear] {
        for name in congestion_controls() {
            for bounded in [true, false] {
                let a = fixture(&name, bounded, plane);
                let b = Fixture::new();
                for (from, to) in [
                    (From::Zero(MEMORY), a.to_endpoint("")),
                    (From::EndpointZero(a.address.clone(), MEMORY), To::Null),
                    (From::EndpointZero(b.address.clone(), MEMORY), a.to_endpoint("")),
                ] {
                    let Some(seen) = seen(&a, &from, &to).expect("moves") else {
                        return testkit::skip("congestion", "ss is not installed");
                    };
                    // Both ends of two streams; the session keeps what it has.
                    let count = seen.iter().filter(|seen| **seen == name).count();
                    assert!(count >= 4, "{name}: {seen:?}");
                }
            }
        }
    }
}

#[test]
fn system_leaves_streams_as_they_are_and_auto_begins_with_one_that_goes_by_losses() {
    for (asked, bounded) in [("system", true), ("auto", false), ("auto", true)] {
        let a = fixture(asked, bounded, DataPlane::Tls);
        let Some(seen) = seen(&a, &From::Zero(MEMORY), &a.to_endpoint("")).expect("moves") else {
            return testkit::skip("congestion", "ss is not installed");
        };
        let given =
            if bounded && asked == "auto" && system() == "bbr" { "cubic".to_owned() } else { system() };
        assert!(seen.iter().filter(|seen| **seen == given).count() >= 4, "{asked}, {bounded}: {seen:?}");
    }
}

#[test]
fn a_name_that_this_host_has_not_is_refused_before_anything_is_asked() {
    let a = fixture("nosuch", true, DataPlane::Tls);
    for (from, to) in
        [(From::Zero(MEMORY), a.to_endpoint("")), (From::EndpointZero(a.address.clone(), MEMORY), To::Null)]
    {
        let error = begin(&from, &to, &a.setup()).err().expect("refused");
        assert_eq!(error.kind, ErrorKind::Usage);
        let all = congestion_controls().join(", ");
        assert!(error.message.contains("nosuch") && error.message.ends_with(&all), "{error}");
        assert!(!error.message.contains('\n'), "{error}");
    }
}

#[test]
fn an_end_elsewhere_that_has_not_what_was_asked_for_goes_on_with_what_it_has() {
    let (a, b) = (fixture("nosuch", true, DataPlane::Tls), Fixture::new());
    let from = From::EndpointZero(a.address.clone(), MEMORY);
    // Neither end is here: both refuse, and say so.
    let Some(seen) = seen(&a, &from, &b.to_endpoint("")).expect("it goes on") else {
        return testkit::skip("congestion", "ss is not installed");
    };
    assert!(seen.iter().all(|seen| *seen == system()), "{seen:?}");
}
