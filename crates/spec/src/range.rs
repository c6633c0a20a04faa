//! Values within bounds, whoever gives them.

use std::str::FromStr;
use std::time::Duration;

use tidegate_control::ByteCount;
use tidegate_control::units::parse_duration;

/// What a value may be, and what is said of others.
#[derive(Clone, Copy, Debug)]
pub struct Range<T> {
    least: T,
    most: T,
    why: &'static str,
}

impl<T: PartialOrd> Range<T> {
    /// From `least` to `most`; others are told `why`.
    pub const fn new(least: T, most: T, why: &'static str) -> Self {
        Self { least, most, why }
    }

    /// The value, if it lies within.
    pub fn within(&self, value: T) -> Result<T, String> {
        match (&self.least..=&self.most).contains(&&value) {
            true => Ok(value),
            false => Err(self.why.to_owned()),
        }
    }

    /// The least and the most.
    pub const fn ends(&self) -> (&T, &T) {
        (&self.least, &self.most)
    }

    /// Whether the value of `option` lies within.
    pub fn check(&self, option: &str, value: T) -> Result<(), String> {
        self.within(value).map(drop).map_err(|why| format!("{option} {why}"))
    }
}

impl Range<Duration> {
    /// Reads a time such as `30s`.
    pub fn time(&self, text: &str) -> Result<Duration, String> {
        self.within(parse_duration(text).map_err(|error| error.to_string())?)
    }
}

impl Range<ByteCount> {
    /// Reads a size such as `16MiB`.
    pub fn size(&self, text: &str) -> Result<ByteCount, String> {
        self.within(text.parse().map_err(|error: <ByteCount as FromStr>::Err| error.to_string())?)
    }
}

impl Range<f64> {
    /// Reads a number.
    pub fn number(&self, text: &str) -> Result<f64, String> {
        self.within(text.parse().map_err(|_| self.why.to_owned())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_held_to_their_range() {
        let times = Range::new(Duration::from_secs(1), Duration::from_secs(60), "must be from 1s to 60s");
        assert_eq!(times.time("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(times.time("61s"), Err("must be from 1s to 60s".to_owned()));
        assert!(times.time("much").is_err_and(|why| why.contains("much")));
        let told = times.check("--timeout", Duration::ZERO);
        assert_eq!(told, Err("--timeout must be from 1s to 60s".to_owned()));
        let sizes = Range::new(ByteCount(1), ByteCount::mib(1), "must be from 1B to 1MiB");
        assert_eq!(sizes.size("1MiB"), Ok(ByteCount::mib(1)));
        assert_eq!(sizes.size("0B"), Err("must be from 1B to 1MiB".to_owned()));
        let numbers = Range::new(1.0, f64::MAX, "must be a number, 1 or more");
        assert_eq!(numbers.number("1.5"), Ok(1.5));
        for wrong in ["0", "NaN", "inf", "x"] {
            assert!(numbers.number(wrong).is_err(), "{wrong}");
        }
    }
}
