//! Readers of option values: where to listen, and until when something holds.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_transfer::error::Error;

use crate::exit::usage;

/// An address to listen on, with the port of the `default` one where it names none.
pub fn listen_address(text: &str, default: SocketAddr) -> Result<SocketAddr, Error> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, default.port()));
    }
    let resolved = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    resolved.ok_or_else(|| {
        usage(format!("cannot listen on '{text}': write an address and a port, as in {default}"))
    })
}

/// The second since 1970 at which what holds for `time` from now on ends.
pub fn ends_in(time: Duration) -> Result<u64, Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.checked_add(time).map(|end| end.as_secs()).ok_or_else(|| usage("that is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_leave_the_port_out() {
        let default = SocketAddr::from(([127, 0, 0, 1], 7118));
        for (text, wanted) in
            [("0.0.0.0", "0.0.0.0:7118"), ("::1", "[::1]:7118"), ("127.0.0.1:9", "127.0.0.1:9")]
        {
            assert_eq!(
                listen_address(text, default).map(|address| address.to_string()).as_deref(),
                Ok(wanted)
            );
        }
        let error = listen_address("nonsense", default).expect_err("no address");
        assert_eq!(
            error.message,
            "cannot listen on 'nonsense': write an address and a port, as in 127.0.0.1:7118"
        );
    }
}
