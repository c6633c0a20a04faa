//! Crowds of connections that prove nothing, and honest peers among them. Hosts are addresses of the loopback.

use std::collections::VecDeque;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Fixture, assert_same_tree, drive, limit, write};
use rustix::process::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use testkit::proxy::{Fault, Plan, Proxy};
use tidegate_transfer::error::Retry;
use tidegate_transfer::transfer::link::Link;
use tidegate_transfer::transfer::route::begin;

/// An endpoint in a process that may have few descriptors: 64 strangers, 16 of an address, 32 where a session runs.
fn fixture() -> Fixture {
    let mut limit = getrlimit(Resource::Nofile);
    (limit.current, limit.maximum) = (Some(512), Some(512));
    setrlimit(Resource::Nofile, limit).expect("lowered");
    Fixture::new()
}

/// A connection to the endpoint from `host` of the loopback; `None` if it was not to be had.
fn connect_from(host: u8, port: u16) -> Option<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
    socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 0, host), 0)).into()).ok()?;
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    socket.connect_timeout(&to.into(), Duration::from_secs(1)).ok()?;
    Some(socket.into())
}

/// How many of these still stand after a moment.
fn standing(crowd: &mut [TcpStream]) -> usize {
    thread::sleep(Duration::from_millis(300));
    let stands = |socket: &mut TcpStream| {
        socket.set_nonblocking(true).expect("set");
        matches!(socket.read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    };
    crowd.iter_mut().map(stands).filter(|stands| *stands).count()
}

/// What passes is 50 ms late each time it turns round.
fn far_away(_: usize) -> Plan {
    let late = |at| Fault::Pause(at, Duration::from_millis(50));
    Plan { up: vec![late(0), late(300)], down: vec![late(0)] }
}

#[test]
fn a_flood_from_elsewhere_keeps_out_nobody_far_away() {
    testkit::alone!();
    let mut f = fixture();
    let source = f.dir("source");
    for i in 0..20 {
        write(&source.join(format!("{i}")), 1000 * i, i);
    }
    let over = Arc::new(AtomicBool::new(false));
    let flood = {
        let (over, port) = (Arc::clone(&over), f.address.port);
        thread::spawn(move || {
            let (mut crowd, mut count) = (VecDeque::new(), 0);
            let end = Instant::now() + Duration::from_secs(120);
            while !over.load(SeqCst) && Instant::now() < end {
                crowd.extend(connect_from(66, port));
                count += 1;
                if crowd.len() > 100 {
                    crowd.pop_front();
                }
                thread::sleep(Duration::from_micros(100));
            }
            count
        })
    };
    thread::sleep(Duration::from_millis(300));
    let proxy = Proxy::start(f.address.port, far_away);
    f.address.port = proxy.port;
    // Not one is lost, so none needs its retries.
    let links: Vec<Link> = (0..5).map(|_| Link::open(&f.address, None).expect("let in")).collect();
    assert_eq!(proxy.count(), links.len());
    for link in &links {
        link.outbox.close();
    }
    assert_eq!(f.push(std::slice::from_ref(&source), "in/").files_done, 20);
    assert_same_tree(&source, &f.root.join("in/source"));
    over.store(true, SeqCst);
    assert!(flood.join().expect("ended") > 200, "no flood");
}

#[test]
fn an_idle_crowd_is_bounded_by_address_and_disturbs_no_running_copy() {
    testkit::alone!();
    let mut f = fixture();
    f.terms.limits = limit(40);
    let source = f.source(&[("file", 5_000_000)]);
    let port = f.address.port;
    let transfer = begin(&f.local(std::slice::from_ref(&source)), &f.to_endpoint("in/"), &f.setup());
    let transfer = transfer.expect("begun");
    let mut crowd: Vec<TcpStream> = (0..100).filter_map(|_| connect_from(66, port)).collect();
    assert_eq!(standing(&mut crowd), 16);
    let mut others: Vec<TcpStream> = (0..100).filter_map(|i| connect_from(70 + i % 4, port)).collect();
    let all = standing(&mut others) + standing(&mut crowd);
    assert!((50..=64).contains(&all), "{all}");
    let (totals, failures) = drive(transfer, f.setpoint).expect("undisturbed");
    assert_eq!((totals.files_done, failures.len()), (1, 0));
    // And who comes now is let in.
    drop(Link::open(&f.address, None).expect("let in"));
}

#[test]
fn whoever_shares_the_address_of_an_idle_crowd_gets_in_a_little_later() {
    testkit::alone!();
    let f = fixture();
    let mut crowd: Vec<TcpStream> = (0..60).filter_map(|_| connect_from(1, f.address.port)).collect();
    assert_eq!(standing(&mut crowd), 16);
    drop(Link::open(&f.address, None).expect("let in"));
}

/// Forwards to `port`, but hangs up on the first `lost` connections.
fn hanging_up(port: u16, lost: usize) -> (u16, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let ours = listener.local_addr().expect("bound").port();
    let forwarded = Arc::new(AtomicBool::new(false));
    let reached = Arc::clone(&forwarded);
    thread::spawn(move || {
        for (i, client) in listener.incoming().take(lost + 1).enumerate() {
            let Ok(mut client) = client else { continue };
            if i < lost {
                continue;
            }
            reached.store(true, SeqCst);
            let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
            let (mut down, mut up) =
                (server.try_clone().expect("cloned"), client.try_clone().expect("cloned"));
            thread::spawn(move || std::io::copy(&mut down, &mut up));
            let _ = std::io::copy(&mut client, &mut server);
        }
    });
    (ours, forwarded)
}

#[test]
fn a_session_that_is_closed_before_its_welcome_is_opened_again_a_few_times() {
    testkit::alone!();
    let mut f = fixture();
    let port = f.address.port;
    let (through, forwarded) = hanging_up(port, 3);
    f.address.port = through;
    let link = Link::open(&f.address, None).expect("let in");
    assert!(forwarded.load(SeqCst));
    link.outbox.close();
    let (never, forwarded) = hanging_up(port, 20);
    f.address.port = never;
    let begun = Instant::now();
    let error = Link::open(&f.address, None).expect_err("given up");
    assert!(error.kind.retry() == Retry::Outage, "{error}");
    assert!(!forwarded.load(SeqCst) && begun.elapsed() < Duration::from_secs(15));
    // Where nobody listens nothing is tried again.
    f.address.port =
        TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
    let begun = Instant::now();
    Link::open(&f.address, None).expect_err("nobody there");
    assert!(begun.elapsed() < Duration::from_secs(2));
}
