//! How the bounds of a selection are written: sizes as rsync has them, and points in time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use tidegate_control::units::parse_duration;

use crate::manifest::Timestamp;

/// Nanoseconds of a second.
const SECOND: i128 = 1_000_000_000;

/// Reads a size as rsync does: `K` and `KiB` are 1024 bytes, `KB` is 1000, and `+1` or `-1` may follow.
///
/// ```
/// # use tidegate_transfer::selection::bounds::rsync_size;
/// assert_eq!(rsync_size("1.5K"), Ok(1536));
/// ```
pub fn rsync_size(text: &str) -> Result<u64, String> {
    let wrong = || "must be bytes, or a number with K, M, G, T or P, as in 1.5M, 10KB or 2G-1".to_owned();
    let (number, more) = match text {
        text if text.ends_with("+1") => (&text[..text.len() - 2], 1),
        text if text.ends_with("-1") => (&text[..text.len() - 2], -1),
        text => (text, 0),
    };
    let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
    let (digits, suffix) = number.split_at(end);
    let suffix = suffix.to_ascii_lowercase();
    let mut letters = suffix.chars();
    let power = match letters.next() {
        None => 0,
        Some(letter) => "bkmgtp".find(letter).ok_or_else(wrong)?,
    };
    let base: f64 = match letters.as_str() {
        "" | "ib" if power > 0 || letters.as_str().is_empty() => 1024.0,
        "b" if power > 0 => 1000.0,
        _ => return Err(wrong()),
    };
    let bytes = match (power, digits.parse::<u64>()) {
        (0, Ok(bytes)) => bytes as f64,
        _ => digits.parse::<f64>().map_err(|_| wrong())? * base.powi(power as i32),
    };
    // As far as a floating-point number is exact; no file is longer than what follows from a letter.
    if !bytes.is_finite() || !(0.0..=i64::MAX as f64).contains(&bytes) {
        return Err(wrong());
    }
    (bytes as u64).checked_add_signed(more).ok_or_else(wrong)
}

/// A point in time, or an age that counts from when it is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// So long ago.
    Ago(Duration),
    /// Then.
    At(Timestamp),
}

impl Moment {
    /// When that is; `now` is the time since 1970.
    pub fn seen_at(self, now: Duration) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::Ago(age) => {
                let then = now.as_nanos() as i128 - age.as_nanos() as i128;
                Timestamp {
                    seconds: i64::try_from(then.div_euclid(SECOND)).unwrap_or(i64::MIN),
                    nanoseconds: then.rem_euclid(SECOND) as u32,
                }
            }
        }
    }
}

/// Without a zone it is local time, as `touch` and `find` have it; a date is its midnight.
impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        read_in(text, &TimeZone::system())
    }
}

fn read_in(text: &str, local: &TimeZone) -> Result<Moment, String> {
    let wrong = || {
        "must be an age such as 7d, or a time as 2026-01-31, 2026-01-31T12:00:00 or 2026-01-31T12:00:00Z"
            .to_owned()
    };
    let time = if let Ok(time) = text.parse::<jiff::Timestamp>() {
        time
    } else if text.contains('[') {
        // A civil time would be read without the zone that is named.
        text.parse::<jiff::Zoned>().map_err(|_| wrong())?.timestamp()
    } else if let Ok(civil) = text.parse::<DateTime>() {
        local.to_timestamp(civil).map_err(|_| wrong())?
    } else {
        return parse_duration(text).map(Moment::Ago).map_err(|_| wrong());
    };
    Ok(Moment::At(Timestamp {
        seconds: time.as_nanosecond().div_euclid(SECOND) as i64,
        nanoseconds: time.as_nanosecond().rem_euclid(SECOND) as u32,
    }))
}

/// As it can be read again.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ago(age) => write!(f, "{}s", age.as_secs_f64()),
            Self::At(Timestamp { seconds, nanoseconds }) => {
                let time = jiff::Timestamp::new(*seconds, *nanoseconds as i32).unwrap_or_default();
                time.fmt(f)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_suffixes_of_rsync() {
        for (text, bytes) in [
            ("0", 0),
            ("10", 10),
            ("10b", 10),
            ("1.5K", 1536),
            ("2kb", 2000),
            ("1KiB", 1024),
            ("1M-1", (1 << 20) - 1),
            ("1m+1", (1 << 20) + 1),
            ("1GB", 1_000_000_000),
            ("1T", 1 << 40),
        ] {
            assert_eq!(rsync_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "x", "-1", "0-1", "1X", "1Kx", "1KBB", "1bb", "1bib", "1e400", "99999999P", "1..2"] {
            assert!(rsync_size(text).is_err(), "{text}: {:?}", rsync_size(text));
        }
    }

    #[test]
    fn a_moment_is_a_time_or_an_age_and_is_written_as_it_is_read() {
        let read = |text: &str| read_in(text, &TimeZone::UTC);
        assert_eq!(read("1970-01-02"), Ok(Moment::At(Timestamp { seconds: 86_400, nanoseconds: 0 })));
        let exact = Timestamp { seconds: 1, nanoseconds: 500_000_000 };
        assert_eq!(read("1970-01-01T00:00:01.5Z"), Ok(Moment::At(exact)));
        assert_eq!(read("1d"), Ok(Moment::Ago(Duration::from_secs(86_400))));
        for text in ["yesterday", "2026-02-31", "2026-01-31T25:00", "2026-01-31[No/Zone]", "-1d", ""] {
            assert!(read(text).is_err(), "{text}");
        }
        for text in ["1.5s", "7d", "250us", "2026-01-31", "1969-12-31T23:59:59.25Z", "2026-01-31T12:00:00Z"] {
            let moment = read(text).expect(text);
            assert_eq!(read(&moment.to_string()), Ok(moment), "{text}: {moment}");
        }
        let then = |age| Moment::Ago(Duration::from_millis(age)).seen_at(Duration::from_secs(100));
        assert_eq!(then(40_000), Timestamp { seconds: 60, nanoseconds: 0 });
        assert_eq!(then(100_500), Timestamp { seconds: -1, nanoseconds: 500_000_000 });
    }

    #[test]
    fn a_time_without_a_zone_is_local_and_keeps_its_time_of_day() {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a rule");
        for (text, same) in [
            ("2026-11-28T23:59:00", "2026-11-28T22:59:00Z"),
            ("2026-11-28 23:59", "2026-11-28T22:59:00Z"),
            ("2026-07-01T12:00:00.25", "2026-07-01T10:00:00.25Z"),
            ("2026-07-01", "2026-06-30T22:00:00Z"),
            ("2026-07-01T12:00:00-04:00", "2026-07-01T16:00:00Z"),
            // It is skipped: what clocks show then.
            ("2026-03-29T02:30:00", "2026-03-29T01:30:00Z"),
            // It is there twice.
            ("2026-10-25T02:30:00", "2026-10-25T00:30:00Z"),
        ] {
            assert_eq!(read_in(text, &berlin), read_in(same, &TimeZone::UTC), "{text}");
        }
    }
}
