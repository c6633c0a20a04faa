//! Typed quantities: sizes in bytes, rates in bit/s.
//!
//! Shown: rates in SI bits (`9.41 Gbit/s`), sizes in IEC bytes (`256 MiB`). Parsed with a unit; a
//! bare number is refused, because nobody can tell what it means. Serialised as plain integers
//! whose field name carries the unit (`bytes`, `throughput_bps`).

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

/// A size in bytes.
///
/// ```
/// use tidegate_control::ByteCount;
///
/// let size: ByteCount = "16MiB".parse()?;
/// assert_eq!(size, ByteCount::mib(16));
/// assert_eq!(ByteCount::kib(1).bits(), 8192.0);
/// # Ok::<(), tidegate_control::units::UnitError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ByteCount(pub u64);

/// A rate in bit/s.
///
/// ```
/// use std::time::Duration;
/// use tidegate_control::{BitRate, ByteCount};
///
/// let rate: BitRate = "1.5Gbit/s".parse()?;
/// assert_eq!(rate.as_mbps(), 1500.0);
/// assert_eq!(BitRate::over(ByteCount(1_000_000), Duration::from_secs(2)), BitRate::mbps(4));
/// # Ok::<(), tidegate_control::units::UnitError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct BitRate(pub u64);

/// A quantity that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{input}' is not a {quantity}: write {example}")]
pub struct UnitError {
    input: String,
    quantity: &'static str,
    example: &'static str,
}

impl ByteCount {
    /// `n` KiB.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// `n` GiB.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    /// The number of bits.
    pub fn bits(self) -> f64 {
        self.0 as f64 * 8.0
    }

    /// `self - other`, or zero.
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl BitRate {
    /// No rate at all.
    pub const ZERO: Self = Self(0);

    /// `n` Mbit/s (10⁶ bit/s).
    pub const fn mbps(n: u64) -> Self {
        Self(n * 1_000_000)
    }

    /// A rate in Mbit/s with a fraction; negative and non-finite values become zero.
    pub fn from_mbps(mbps: f64) -> Self {
        Self::from_bps(mbps * 1e6)
    }

    /// A rate in bit/s; negative and non-finite values become zero.
    pub fn from_bps(bps: f64) -> Self {
        if bps.is_finite() && bps > 0.0 { Self(bps.round() as u64) } else { Self::ZERO }
    }

    /// The rate of `bytes` moved in `interval`; zero for an empty interval.
    pub fn over(bytes: ByteCount, interval: Duration) -> Self {
        let seconds = interval.as_secs_f64();
        if seconds > 0.0 { Self::from_bps(bytes.bits() / seconds) } else { Self::ZERO }
    }

    /// In Mbit/s, the scale of the papers' utilities.
    pub fn as_mbps(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// In bytes a second.
    pub fn bytes_per_second(self) -> f64 {
        self.0 as f64 / 8.0
    }
}

impl Add for ByteCount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for ByteCount {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for ByteCount {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Sum for ByteCount {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        Self(iter.map(|bytes| bytes.0).sum())
    }
}

/// Three significant digits, no trailing zeros after the point.
fn three_digits(value: f64) -> String {
    let decimals = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn scaled(f: &mut fmt::Formatter<'_>, value: u64, step: f64, units: &[&str]) -> fmt::Result {
    let mut value = value as f64;
    let mut unit = 0;
    // 999.5 and more would be shown as 1000: move on to the next unit instead.
    while value >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let number = if unit == 0 { format!("{value:.0}") } else { three_digits(value) };
    f.pad(&format!("{number} {}", units[unit]))
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(f, self.0, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(f, self.0, 1000.0, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
    }
}

/// Reads a plain number, or from what people write a text with its unit, too.
fn quantity<'de, D: Deserializer<'de>, T: FromStr<Err = UnitError>>(
    from: D,
    of: fn(u64) -> T,
) -> Result<T, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "a whole number, or a text with its unit such as \"10MiB\" or \"80Mbit/s\""
    )]
    enum Written {
        Number(u64),
        Text(String),
    }
    if !from.is_human_readable() {
        return u64::deserialize(from).map(of);
    }
    match Written::deserialize(from)? {
        Written::Number(number) => Ok(of(number)),
        Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
    }
}

/// Bytes as a number, or a text such as `"10MiB"`.
impl<'de> Deserialize<'de> for ByteCount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        quantity(from, Self)
    }
}

/// Bits a second as a number, or a text such as `"80Mbit/s"`.
impl<'de> Deserialize<'de> for BitRate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        quantity(from, Self)
    }
}

/// How both look in JSON: as they are read, a text will do, too.
#[cfg(feature = "schema")]
mod schema {
    use std::borrow::Cow;

    use schemars::generate::Contract;
    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

    use super::{BitRate, ByteCount};

    fn quantity(contract: &Contract, unit: &str, example: &str) -> Schema {
        if contract.is_serialize() {
            return json_schema!({"type": "integer", "format": "uint64", "minimum": 0});
        }
        json_schema!({
            "anyOf": [
                {"type": "integer", "format": "uint64", "minimum": 0, "description": unit},
                {"type": "string", "description": "The same with its unit.", "examples": [example]},
            ]
        })
    }

    impl JsonSchema for ByteCount {
        fn inline_schema() -> bool {
            true
        }

        fn schema_name() -> Cow<'static, str> {
            "ByteCount".into()
        }

        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            quantity(generator.contract(), "Bytes.", "10GiB")
        }
    }

    impl JsonSchema for BitRate {
        fn inline_schema() -> bool {
            true
        }

        fn schema_name() -> Cow<'static, str> {
            "BitRate".into()
        }

        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            quantity(generator.contract(), "bit/s.", "80Mbit/s")
        }
    }
}

/// Splits `"12.5 MiB"` into 12.5 and `"mib"`.
fn number_and_unit(input: &str) -> Option<(f64, String)> {
    let input = input.trim();
    let end = input.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(input.len());
    let number = input[..end].parse::<f64>().ok()?;
    Some((number, input[end..].trim().to_ascii_lowercase()))
}

fn whole(value: f64) -> Option<u64> {
    (value.is_finite() && value >= 0.0 && value < u64::MAX as f64).then(|| value.round() as u64)
}

impl FromStr for ByteCount {
    type Err = UnitError;

    fn from_str(input: &str) -> Result<Self, UnitError> {
        let parse = || {
            let (number, unit) = number_and_unit(input)?;
            let factor = match unit.as_str() {
                "b" => 1.0,
                "kb" => 1e3,
                "mb" => 1e6,
                "gb" => 1e9,
                "tb" => 1e12,
                "pb" => 1e15,
                "k" | "kib" => 1024.0,
                "m" | "mib" => 1024f64.powi(2),
                "g" | "gib" => 1024f64.powi(3),
                "t" | "tib" => 1024f64.powi(4),
                "p" | "pib" => 1024f64.powi(5),
                _ => return None,
            };
            whole(number * factor).map(Self)
        };
        parse().ok_or_else(|| UnitError {
            input: input.to_owned(),
            quantity: "size",
            example: "a number with a unit, as in 256MiB or 10GB",
        })
    }
}

impl FromStr for BitRate {
    type Err = UnitError;

    fn from_str(input: &str) -> Result<Self, UnitError> {
        let parse = || {
            let (number, unit) = number_and_unit(input)?;
            let unit = unit.strip_suffix("/s").or_else(|| unit.strip_suffix("ps"))?.to_owned();
            let factor = match unit.as_str() {
                "bit" | "b" => 1.0,
                "kbit" | "kb" => 1e3,
                "mbit" | "mb" => 1e6,
                "gbit" | "gb" => 1e9,
                "tbit" | "tb" => 1e12,
                _ => return None,
            };
            // `MB/s` reads as bytes to many and as bits to some: refused rather than guessed.
            if !unit.ends_with("bit") && input.trim_end().ends_with("B/s") {
                return None;
            }
            whole(number * factor).map(Self)
        };
        parse().ok_or_else(|| UnitError {
            input: input.to_owned(),
            quantity: "rate",
            example: "a number with a unit in bits, as in 200Mbit/s or 10Gbit/s",
        })
    }
}

/// Reads a share, written as in `0.02` or `2%`; `None` if it is no number. Nothing bounds it.
///
/// ```
/// use tidegate_control::units::parse_share;
///
/// assert_eq!((parse_share("0.5"), parse_share("5%"), parse_share("%")), (Some(0.5), Some(0.05), None));
/// ```
pub fn parse_share(input: &str) -> Option<f64> {
    let (digits, scale) = input.strip_suffix('%').map_or((input, 1.0), |digits| (digits, 100.0));
    digits.parse::<f64>().ok().map(|number| number / scale)
}

/// Reads a duration written with its unit: `250us`, `20ms`, `1.5s`, `2min`, `1h` or `7d`.
pub fn parse_duration(input: &str) -> Result<Duration, UnitError> {
    let parse = || {
        let (number, unit) = number_and_unit(input)?;
        let factor = match unit.as_str() {
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "min" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        Duration::try_from_secs_f64(number * factor).ok()
    };
    parse().ok_or_else(|| UnitError {
        input: input.to_owned(),
        quantity: "duration",
        example: "a number with a unit, as in 20ms or 1.5s",
    })
}

/// So long, in the one unit that says most: `90 s` is `1 minute`.
pub fn duration_in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    let (count, unit) = match seconds {
        86_400.. => (seconds / 86_400, "day"),
        3600.. => (seconds / 3600, "hour"),
        60.. => (seconds / 60, "minute"),
        _ => (seconds, "second"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_words() {
        let words = |seconds| duration_in_words(Duration::from_secs(seconds));
        assert_eq!(
            (words(0), words(1), words(59)),
            ("0 seconds".into(), "1 second".into(), "59 seconds".into())
        );
        assert_eq!(
            (words(61), words(7200), words(86_400)),
            ("1 minute".into(), "2 hours".into(), "1 day".into())
        );
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(parse_duration("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("7d"), Ok(Duration::from_secs(604_800)));
        for bad in ["", "12", "s", "-1s", "1e3s", "3 weeks", "9999999999999999999999h"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_shown_in_iec_units() {
        assert_eq!(ByteCount(0).to_string(), "0 B");
        assert_eq!(ByteCount(1023).to_string(), "1023 B");
        assert_eq!(ByteCount::kib(128).to_string(), "128 KiB");
        assert_eq!(ByteCount::mib(256).to_string(), "256 MiB");
        assert_eq!(ByteCount(1_500_000_000).to_string(), "1.4 GiB");
    }

    #[test]
    fn rates_are_shown_in_si_bits() {
        assert_eq!(BitRate(9_410_000_000).to_string(), "9.41 Gbit/s");
        assert_eq!(BitRate::mbps(200).to_string(), "200 Mbit/s");
        assert_eq!(BitRate(999_999).to_string(), "1 Mbit/s");
    }

    #[test]
    fn quantities_need_a_unit() {
        assert_eq!("256MiB".parse(), Ok(ByteCount::mib(256)));
        assert_eq!("10 GB".parse(), Ok(ByteCount(10_000_000_000)));
        assert_eq!("0B".parse(), Ok(ByteCount(0)));
        assert_eq!("10PB".parse(), Ok(ByteCount(10_000_000_000_000_000)));
        assert_eq!("10Gbit/s".parse(), Ok(BitRate(10_000_000_000)));
        assert_eq!("2.5 Gbps".parse(), Ok(BitRate(2_500_000_000)));
        for bad in ["", "12", "MiB", "-1MiB", "1e400GB", "5 apples", "99999999999TiB"] {
            assert!(bad.parse::<ByteCount>().is_err(), "{bad}");
        }
        for bad in ["", "12", "12M", "10MB/s", "-1Mbit/s", "Gbit/s"] {
            assert!(bad.parse::<BitRate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_rate_over_no_time_is_zero() {
        assert_eq!(BitRate::over(ByteCount(5), Duration::ZERO), BitRate::ZERO);
        assert_eq!(BitRate::over(ByteCount::mib(1), Duration::from_secs(1)), BitRate(8 << 20));
    }
}
