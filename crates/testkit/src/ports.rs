//! Ports for servers that take some time to start.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// First port that is given.
const FIRST: u16 = 10_000;
/// Ports between the beginnings of two processes whose identifiers follow each other: more than a test program asks for.
const APART: u32 = 97;

/// A port of loopback that nobody listens on, outside of those that the kernel gives by itself: between the answer and
/// the server's start none of the tests that run beside can be given it, be it to listen on or to connect from.
pub fn free_port() -> u16 {
    static ASKED: AtomicU16 = AtomicU16::new(0);
    let given = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").expect("Linux");
    let end: u16 = given.split_whitespace().next().and_then(|first| first.parse().ok()).expect("a port");
    let ports = u32::from(
        end.checked_sub(FIRST).filter(|&ports| ports > 0).expect("ports below those the kernel gives"),
    );
    loop {
        let asked = u32::from(ASKED.fetch_add(1, Ordering::Relaxed));
        let offset = std::process::id().wrapping_mul(APART).wrapping_add(asked) % ports;
        let port = FIRST + u16::try_from(offset).expect("less than a port");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
