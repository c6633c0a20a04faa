//! Which addresses are of the public Internet, by the registries of RFC 6890, and which names may be.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether anybody on the Internet may have this address: no loopback, private, link-local, shared, multicast,
/// unspecified or reserved one.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => public_v4(address),
        IpAddr::V6(address) => public_v6(address),
    }
}

fn public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(a == 0
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || (a == 100 && b & 0xc0 == 64)
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && b & 0xfe == 18)
        || a >= 224)
}

fn public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let low = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match parts {
        // Mapped, compatible (with :: and ::1), and NAT64: what counts is the address within.
        [0, 0, 0, 0, 0, 0xffff | 0, a, b] | [0x64, 0xff9b, 0, 0, 0, 0, a, b] => public_v4(low(a, b)),
        // 6to4 too.
        [0x2002, a, b, ..] => public_v4(low(a, b)),
        // All that was ever given out is 2000::/3.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Whether a host of this name may be one of the public Internet, as far as the name tells. Asked where a proxy looks
/// it up: this host, names of one's own network (RFC 6761, 6762, 8375, and ICANN's `internal`), and bare ones are none.
pub(crate) fn may_be_public(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let private = ["localhost", "localdomain", "local", "internal", "home.arpa"];
    name.contains('.')
        && !private.iter().any(|end| name.strip_suffix(end).is_some_and(|front| front.ends_with('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ones_own_network_are_not_public() {
        for name in [
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "intranet",
            "x.local",
            "metadata.google.internal",
            "a.home.arpa",
        ] {
            assert!(!may_be_public(name), "{name}");
        }
        assert!(
            ["ftp.sra.ebi.ac.uk", "localhost.example.org", "notlocal.example"].into_iter().all(may_be_public)
        );
    }

    #[test]
    fn only_the_internets_own_addresses_are_public() {
        let public = |text: &str| is_public(text.parse().expect("an address"));
        for address in [
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.32.0.1",
            "193.62.193.1",
            "2001:4860::8888",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
        ] {
            assert!(public(address), "{address}");
        }
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "127.9.9.9",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.127.255.255",
            "192.0.0.8",
            "198.19.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::1",
        ] {
            assert!(!public(address), "{address}");
        }
    }
}
