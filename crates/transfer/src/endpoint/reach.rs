//! Where an endpoint connects to for others. Whoever holds a ticket may have it send to a third one, and is not to learn
//! by that what else it reaches: services of its own host, or what its network has.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::quota::Quota;
use crate::transfer::link::{Link, check_ticket};
use crate::wire::handshake::{Unopened, resolve};
use crate::wire::ticket::Address;
use crate::wire::tls::Identity;
use crate::wire::way::Way;

/// Opens a session with the endpoint at `address`, at the addresses that were checked.
///
/// # Errors
///
/// The same one whatever failed, unless the destination proved itself and says no; the log has the cause.
pub fn open(
    address: &Address,
    pki: Option<&Arc<Identity>>,
    allow_local: bool,
    metadata: &Arc<Quota>,
) -> Result<Link> {
    let unreachable = |why: &Error| {
        tracing::info!("did not reach the destination that a peer named: {why}");
        let told = "the sending endpoint cannot open a session with the destination: check that its address is right, that it runs, that its ticket is its own, and that it is not on a loopback or link-local address (--allow-local-targets)";
        Error::new(ErrorKind::Connection, told)
    };
    check_ticket(address, pki)?;
    let found = resolve(address).map_err(|error| unreachable(&error))?;
    let reachable: Vec<SocketAddr> =
        found.into_iter().filter(|found| allow_local || !is_local(found.ip())).collect();
    if reachable.is_empty() {
        if address.host.parse::<IpAddr>().is_ok() {
            // Who writes the number learns nothing by this.
            let why = "an endpoint sends to no loopback, link-local, unspecified or multicast address for others: name the destination by another one, or start the sending endpoint with --allow-local-targets";
            return Err(Error::new(ErrorKind::Denied, why));
        }
        let why = Error::new(ErrorKind::Denied, format!("{} has only local addresses", address.place()));
        return Err(unreachable(&why));
    }
    Link::open_at(address, &Way::Dial(reachable), pki, metadata).map_err(|unopened| match unopened {
        Unopened::Refused(error) => error,
        Unopened::Closed(error) | Unopened::Failed(error) => unreachable(&error),
    })
}

/// Whether an address is of this host or of nobody beyond the next wire. Those of private networks are not.
fn is_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            v4.is_loopback()
                || v4.is_link_local()
                || v4.octets()[0] == 0
                || v4.is_multicast()
                || v4.is_broadcast()
        }
        IpAddr::V6(v6) => {
            // `::/96` holds no address but the two, and IPv4 ones in a form that nobody uses.
            let is_low = v6.segments()[..6] == [0; 6];
            is_low
                || v6.is_loopback()
                || v6.is_unicast_link_local()
                || v6.is_unspecified()
                || v6.is_multicast()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_host_and_of_the_wire_are_local() {
        let local = [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.1.1",
            "fe80::1",
            "ff02::1",
        ];
        for text in local {
            assert!(is_local(text.parse().expect("an address")), "{text}");
        }
        for text in
            ["10.0.0.1", "192.168.1.1", "172.16.0.1", "8.8.8.8", "fd00::1", "2001:db8::1", "::ffff:10.0.0.1"]
        {
            assert!(!is_local(text.parse().expect("an address")), "{text}");
        }
    }
}
