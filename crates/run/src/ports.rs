//! Ranges of ports, as they are typed.

use std::ops::RangeInclusive;

/// Reads `5201` or `5201-5204`.
pub fn port_range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let wrong = || "write a port, or the first and the last as in 5201-5204".to_owned();
    let (first, last): (u16, u16) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
    if first <= last { Ok(first..=last) } else { Err(wrong()) }
}

/// Ports that may be left out, as [`port_range`] reads them.
#[cfg(feature = "ssh")]
pub(crate) mod ports_option {
    use std::ops::RangeInclusive;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes them, or null.
    pub(crate) fn serialize<S: Serializer>(
        ports: &Option<RangeInclusive<u16>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match ports {
            Some(ports) => to.collect_str(&format_args!("{}-{}", ports.start(), ports.end())),
            None => to.serialize_none(),
        }
    }

    /// Reads them, or null.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<RangeInclusive<u16>>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| super::port_range(&text)).transpose().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_one_or_a_range() {
        assert_eq!(port_range("5201"), Ok(5201..=5201));
        assert_eq!(port_range("5201-5204"), Ok(5201..=5204));
        assert_eq!(port_range("0"), Ok(0..=0));
        for wrong in ["", "-", "9-8", "1-2-3", "70000", "-1", "a"] {
            assert!(port_range(wrong).is_err(), "{wrong}");
        }
    }
}
