//! What a record loses before it is kept: secrets in texts, and numbers that no database holds.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_contract::redact;
use tidegate_contract::text::one_line;
use tidegate_control::{BitRate, ByteCount};

use super::record::{
    Basis, Beside, Circumstances, Conditions, Decision, Estimate, Point, Record, Sample, Timestamp, Transfer,
};

/// Characters kept of any one text.
const MAX_TEXT: usize = 1000;

/// Samples and coefficients kept of one estimate, and numbers of one decision.
const MAX_NUMBERS: usize = 64;

impl Record {
    /// The same as it is kept: numbers a database can hold, texts of a bounded length, no secret in any text.
    #[must_use]
    pub(crate) fn scrubbed(self) -> Self {
        match self {
            Self::Sample(record) => Self::Sample(Sample {
                throughput: rate(record.throughput),
                bytes: bytes(record.bytes),
                duration: to_milliseconds(record.duration),
                circumstances: circumstances(record.circumstances),
                at: moment(record.at),
                ..record
            }),
            Self::Estimate(record) => Self::Estimate(Estimate {
                throughput: rate(record.throughput),
                basis: basis(record.basis),
                samples: points(record.samples),
                cost_bytes: bytes(record.cost_bytes),
                cost: to_milliseconds(record.cost),
                circumstances: circumstances(record.circumstances),
                at: moment(record.at),
                ..record
            }),
            Self::Transfer(record) => Self::Transfer(Transfer {
                job: maybe_text(record.job.as_deref()),
                bytes: bytes(record.bytes),
                files: number(record.files),
                concurrency: record.concurrency.map(|n| n.and_then(not_negative)),
                optimizer: maybe_text(record.optimizer.as_deref()),
                goodput: rate(record.goodput),
                duration: to_milliseconds(record.duration),
                loss: record.loss.and_then(not_negative),
                rtt: record.rtt.map(to_microseconds),
                retransmits: record.retransmits.map(number),
                reason: maybe_text(record.reason.as_deref()),
                circumstances: circumstances(record.circumstances),
                at: moment(record.at),
                ..record
            }),
            Self::Decision(record) => Self::Decision(Decision {
                job: maybe_text(record.job.as_deref()),
                state: state(record.state),
                action: text(&record.action),
                reason: text(&record.reason),
                at: moment(record.at),
                ..record
            }),
        }
    }
}

/// A text in one line, of bounded length, in which addresses have neither user nor secret nor question.
fn text(text: &str) -> String {
    let mut words = String::with_capacity(text.len().min(MAX_TEXT));
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        words.extend((!words.is_empty()).then_some(' '));
        words.push_str(word);
        if words.len() > 4 * MAX_TEXT {
            break;
        }
    }
    let mut kept = one_line(&redact::text(&words));
    if let Some((end, _)) = kept.char_indices().nth(MAX_TEXT) {
        kept.truncate(end);
        // So that the same once more changes nothing.
        kept.truncate(kept.trim_end().len());
    }
    kept
}

/// The same of a text that may be missing; an empty one is missing.
fn maybe_text(text: Option<&str>) -> Option<String> {
    text.map(self::text).filter(|text| !text.is_empty())
}

/// Limits kept of one record; there are not so many options.
const MAX_LIMITS: usize = 16;

fn circumstances(Circumstances { conditions, beside }: Circumstances) -> Circumstances {
    let conditions = conditions.map(|all| Conditions {
        verify: maybe_text(all.verify.as_deref()),
        buffer_bytes: all.buffer_bytes.map(bytes),
        mtu_bytes: all.mtu_bytes.map(bytes),
        limits_bps: all
            .limits_bps
            .into_iter()
            .take(MAX_LIMITS)
            .map(|(name, limit)| (text(&name), rate(limit)))
            .collect(),
        ..all
    });
    let beside = beside.map(|beside| Beside { throughput: rate(beside.throughput), ..beside });
    Circumstances { conditions, beside }
}

/// A number that a database can hold.
fn number(number: u64) -> u64 {
    number.min(i64::MAX as u64)
}

/// A size that a database can hold.
fn bytes(bytes: ByteCount) -> ByteCount {
    ByteCount(number(bytes.0))
}

/// A rate that a database can hold.
fn rate(rate: BitRate) -> BitRate {
    BitRate(number(rate.0))
}

/// Whole milliseconds.
fn to_milliseconds(duration: Duration) -> Duration {
    // A thousandth of what fits: microseconds fit as well.
    Duration::from_millis(duration.as_millis().min(i64::MAX as u128 / 1000) as u64)
}

/// Whole microseconds.
fn to_microseconds(duration: Duration) -> Duration {
    Duration::from_micros(duration.as_micros().min(i64::MAX as u128) as u64)
}

/// A moment between 1970 and 9999.
fn moment(moment: Timestamp) -> Timestamp {
    moment.clamp(Timestamp(0), Timestamp::LAST)
}

/// A number of 0 or more, or none.
fn not_negative(number: f64) -> Option<f64> {
    // -0.0 would come back as 0.0.
    (number.is_finite() && number >= 0.0).then_some(number.abs())
}

/// Points a database can hold.
fn points(mut points: Vec<Point>) -> Vec<Point> {
    points.truncate(MAX_NUMBERS);
    points.iter_mut().for_each(|point| point.throughput = rate(point.throughput));
    points
}

/// A basis of finite numbers.
fn basis(basis: Basis) -> Basis {
    match basis {
        Basis::Model { model, coefficients } if coefficients.iter().any(|c| !c.is_finite()) => {
            Basis::Fallback { reason: text(&format!("the fit of {model} has no finite coefficients")) }
        }
        Basis::Model { model, mut coefficients } => {
            coefficients.truncate(MAX_NUMBERS);
            Basis::Model {
                model: maybe_text(Some(&model)).unwrap_or_else(|| "unnamed".to_owned()),
                coefficients,
            }
        }
        Basis::Fallback { reason } => Basis::Fallback { reason: text(&reason) },
    }
}

/// Finite numbers only.
fn state(state: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let finite = state.into_iter().filter(|(_, value)| value.is_finite()).take(MAX_NUMBERS);
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
        assert_eq!(text(&"ä".repeat(5000)).chars().count(), MAX_TEXT);
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
