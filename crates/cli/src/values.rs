//! Readers of option values: times and sizes within a range, and where to listen.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_control::ByteCount;
use tidegate_control::units::{UnitError, parse_duration};
use tidegate_transfer::error::Error;

use crate::exit::usage;

/// A time such as `30s`; `why` says what is wrong outside of `range`.
pub fn time(text: &str, range: RangeInclusive<Duration>, why: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    if range.contains(&time) { Ok(time) } else { Err(why.to_owned()) }
}

/// A size such as `16MiB`; `why` says what is wrong outside of `range`.
pub fn size(text: &str, range: RangeInclusive<ByteCount>, why: &str) -> Result<ByteCount, String> {
    let size: ByteCount = text.parse().map_err(|error: UnitError| error.to_string())?;
    if range.contains(&size) { Ok(size) } else { Err(why.to_owned()) }
}

/// Reads `5201` or `5201-5204`.
pub fn port_range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let wrong = || "write a port, or the first and the last as in 5201-5204".to_owned();
    let (first, last): (u16, u16) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
    if first <= last { Ok(first..=last) } else { Err(wrong()) }
}

/// Ports that may be left out, as [`port_range`] reads them.
pub mod ports_option {
    use std::ops::RangeInclusive;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes them, or null.
    pub fn serialize<S: Serializer>(ports: &Option<RangeInclusive<u16>>, to: S) -> Result<S::Ok, S::Error> {
        match ports {
            Some(ports) => to.collect_str(&format_args!("{}-{}", ports.start(), ports.end())),
            None => to.serialize_none(),
        }
    }

    /// Reads them, or null.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<RangeInclusive<u16>>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| super::port_range(&text)).transpose().map_err(serde::de::Error::custom)
    }
}

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

/// Options as a test types them.
#[cfg(test)]
pub fn parsed<T: clap::Args>(words: &[&str]) -> T {
    let command = T::augment_args(clap::Command::new("tidegate"));
    let matches = command.try_get_matches_from([&["tidegate"], words].concat()).expect("understood");
    T::from_arg_matches(&matches).expect("read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_held_to_their_range() {
        let range = Duration::from_secs(1)..=Duration::from_secs(60);
        assert_eq!(time("60s", range.clone(), "no"), Ok(Duration::from_secs(60)));
        assert_eq!(time("61s", range.clone(), "no"), Err("no".to_owned()));
        assert!(time("much", range, "no").is_err_and(|why| why.contains("much")));
        let range = ByteCount(1)..=ByteCount::mib(1);
        assert_eq!(size("1MiB", range.clone(), "no"), Ok(ByteCount::mib(1)));
        assert_eq!(size("0B", range, "no"), Err("no".to_owned()));
    }

    #[test]
    fn ports_are_one_or_a_range() {
        assert_eq!(port_range("5201"), Ok(5201..=5201));
        assert_eq!(port_range("5201-5204"), Ok(5201..=5204));
        assert_eq!(port_range("0"), Ok(0..=0));
        for wrong in ["", "-", "9-8", "1-2-3", "70000", "-1", "a"] {
            assert!(port_range(wrong).is_err(), "{wrong}");
        }
    }

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
