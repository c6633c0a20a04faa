//! What a record loses before it is kept: secrets in texts, and numbers that no database holds.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_control::{BitRate, ByteCount};

use super::record::{Basis, Point, Timestamp};
use crate::shown::one_line;

/// Characters kept of any one text.
const LONGEST: usize = 1000;

/// Samples and coefficients kept of one estimate, and numbers of one decision.
const MOST: usize = 64;

/// A text in one line, of bounded length, in which addresses have neither user nor secret nor question.
pub fn text(text: &str) -> String {
    let mut kept = String::with_capacity(text.len().min(LONGEST));
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !kept.is_empty() {
            kept.push(' ');
        }
        kept.push_str(&one_line(&without_secret(word)));
        if kept.len() > 4 * LONGEST {
            break;
        }
    }
    if let Some((end, _)) = kept.char_indices().nth(LONGEST) {
        kept.truncate(end);
        // So that the same once more changes nothing.
        kept.truncate(kept.trim_end().len());
    }
    kept
}

/// The same of a text that may be missing; an empty one is missing.
pub fn maybe_text(text: Option<&str>) -> Option<String> {
    text.map(self::text).filter(|text| !text.is_empty())
}

/// A word whose URLs, if it holds any, end before the question and name no user.
fn without_secret(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let mut kept = scheme.to_owned();
    for address in rest.split("://") {
        let (authority, path) = address.split_at(address.find('/').unwrap_or(address.len()));
        // A ticket that was cut off has no '@', and is longer than any host.
        let host = match authority.rsplit_once('@') {
            Some((_, host)) => host,
            None if authority.len() > 255 => "…",
            None => authority,
        };
        kept.push_str("://");
        kept.push_str(host);
        kept.push_str(path);
    }
    kept
}

/// A number that a database can hold.
pub fn number(number: u64) -> u64 {
    number.min(i64::MAX as u64)
}

/// A size that a database can hold.
pub fn bytes(bytes: ByteCount) -> ByteCount {
    ByteCount(number(bytes.0))
}

/// A rate that a database can hold.
pub fn rate(rate: BitRate) -> BitRate {
    BitRate(number(rate.0))
}

/// Whole milliseconds.
pub fn to_milliseconds(duration: Duration) -> Duration {
    // A thousandth of what fits: microseconds fit as well.
    Duration::from_millis(duration.as_millis().min(i64::MAX as u128 / 1000) as u64)
}

/// Whole microseconds.
pub fn to_microseconds(duration: Duration) -> Duration {
    Duration::from_micros(duration.as_micros().min(i64::MAX as u128) as u64)
}

/// A moment between 1970 and 9999.
pub fn moment(moment: Timestamp) -> Timestamp {
    moment.clamp(Timestamp(0), Timestamp::LAST)
}

/// A number of 0 or more, or none.
pub fn not_negative(number: f64) -> Option<f64> {
    // -0.0 would come back as 0.0.
    (number.is_finite() && number >= 0.0).then_some(number.abs())
}

/// Points a database can hold.
pub fn points(mut points: Vec<Point>) -> Vec<Point> {
    points.truncate(MOST);
    points.iter_mut().for_each(|point| point.throughput = rate(point.throughput));
    points
}

/// A basis of finite numbers.
pub fn basis(basis: Basis) -> Basis {
    match basis {
        Basis::Model { model, coefficients } if coefficients.iter().any(|c| !c.is_finite()) => {
            Basis::Fallback { reason: text(&format!("the fit of {model} has no finite coefficients")) }
        }
        Basis::Model { model, mut coefficients } => {
            coefficients.truncate(MOST);
            Basis::Model {
                model: maybe_text(Some(&model)).unwrap_or_else(|| "unnamed".to_owned()),
                coefficients,
            }
        }
        Basis::Fallback { reason } => Basis::Fallback { reason: text(&reason) },
    }
}

/// Finite numbers only.
pub fn state(state: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let finite = state.into_iter().filter(|(_, value)| value.is_finite()).take(MOST);
    finite.map(|(name, value)| (text(&name), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_lose_secrets_and_line_ends() {
        for (before, after) in [
            ("cannot reach tg://SECRET@dtn:7700/x: refused", "cannot reach tg://dtn:7700/x: refused"),
            ("get https://u:p@h/a?X-Amz-Signature=abc failed", "get https://h/a failed"),
            ("a\r\nb\tc\0d", "a b c d"),
            ("'s3://key:secret@bucket/k'", "'s3://bucket/k'"),
            ("http://proxy/http://u:p@h/x@y", "http://proxy/http://h/x@y"),
            ("url=http://http://u:p@h", "url=http://http://h"),
            ("größer als 1 → 2", "größer als 1 → 2"),
        ] {
            assert_eq!(text(before), after);
        }
        assert_eq!(text(&"ä".repeat(5000)).chars().count(), LONGEST);
        assert!(!text(&format!("tg://{}", "A".repeat(300))).contains("AAA"));
    }

    #[test]
    fn numbers_that_no_database_holds_are_left_out() {
        assert_eq!(bytes(ByteCount(u64::MAX)).0, i64::MAX as u64);
        assert_eq!(moment(Timestamp(-5)), Timestamp(0));
        assert_eq!(not_negative(f64::NAN), None);
        assert_eq!(not_negative(-1.0), None);
        let broken = Basis::Model { model: "m".into(), coefficients: vec![1.0, f64::INFINITY] };
        assert!(matches!(basis(broken), Basis::Fallback { .. }));
    }
}
