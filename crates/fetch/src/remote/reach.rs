//! Which of a host's addresses to try first: many machines have an IPv6 address and no way out by it.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long the family that the system names first has the field to itself (RFC 8305, section 5).
const HEAD_START: Duration = Duration::from_millis(250);
/// How long the other one is given.
const OTHER: Duration = Duration::from_secs(1);

/// Puts the family first that can be reached, where a host has addresses of both. It costs a connection that
/// is closed at once, so what comes of it should be remembered.
pub(crate) fn reachable_first(addresses: &mut [SocketAddr]) {
    let Some(&first) = addresses.first() else { return };
    let other = addresses.iter().copied().find(|address| address.is_ipv4() != first.is_ipv4());
    let Some(other) = other else { return };
    if TcpStream::connect_timeout(&first, HEAD_START).is_err()
        && TcpStream::connect_timeout(&other, OTHER).is_ok()
    {
        addresses.sort_by_key(|address| address.is_ipv4() != other.is_ipv4());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};

    #[test]
    fn the_family_that_answers_comes_first() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let dead = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
        let alive = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        for given in [[dead, alive], [alive, dead]] {
            let mut addresses = given;
            reachable_first(&mut addresses);
            assert_eq!(addresses, [alive, dead]);
        }
        drop(listener);
        let mut addresses = [dead, alive];
        reachable_first(&mut addresses);
        assert_eq!(addresses, [dead, alive], "with neither there, nothing is known");
        reachable_first(&mut []);
    }
}
