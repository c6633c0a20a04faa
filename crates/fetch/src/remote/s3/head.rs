//! What the head of an object says beyond what HTTP says of any file: an MD5, where its tag is one, the sums that S3 keeps,
//! and the time that the file had where it came from.

use data_encoding::BASE64;
use tidegate_transfer::manifest::Timestamp;
use ureq::http::HeaderMap;

use super::super::http::answer::{md5_of_tag, strong_tag, text};
use crate::checksum::Algorithm;
use crate::remote::Version;

/// Has S3 tell the sums that it keeps.
pub const ASKS_SUMS: (&str, &str) = ("x-amz-checksum-mode", "ENABLED");

/// Where `put` keeps a file's time, and rclone and s3fs too.
pub const MTIME: &str = "x-amz-meta-mtime";

/// How the names of buckets end whose tags look like MD5s and are none (S3 Express One Zone).
const NO_MD5_THERE: &str = "--x-s3";

const NANOSECONDS: u128 = 1_000_000_000;

/// Adds to `version` the sums of the whole object that its head says. Those of an object that was put in parts may be made of
/// the sums of its parts, which is not what is computed here.
pub fn add_sums(headers: &HeaderMap, version: &mut Version) {
    if text(headers, "x-amz-checksum-type").is_some_and(|kind| kind != "FULL_OBJECT") {
        return;
    }
    for (name, value) in headers {
        let algorithm =
            name.as_str().strip_prefix("x-amz-checksum-").and_then(|name| name.parse::<Algorithm>().ok());
        let sum = value.to_str().ok().and_then(|text| BASE64.decode(text.trim().as_bytes()).ok());
        if let (Some(algorithm), Some(sum)) = (algorithm, sum)
            && sum.len() == algorithm.length()
        {
            version.checksums.add(algorithm, sum);
        }
    }
}

/// Adds to `version` what the head of an object in `bucket` says.
pub fn add(headers: &HeaderMap, bucket: &str, version: &mut Version) {
    if has_md5_tags(headers)
        && !bucket.ends_with(NO_MD5_THERE)
        && let Some(sums) = strong_tag(headers).as_deref().and_then(md5_of_tag)
    {
        version.checksums = sums;
    }
    version.kept = text(headers, MTIME).and_then(time);
}

/// Whether tags are made of MD5s: not with a key of KMS or of the customer's.
pub fn has_md5_tags(headers: &HeaderMap) -> bool {
    text(headers, "x-amz-server-side-encryption").is_none_or(|how| how == "AES256")
        && !headers.contains_key("x-amz-server-side-encryption-customer-algorithm")
}

/// A time as rclone writes it: seconds since 1970 with their fraction.
pub fn time_text(time: Timestamp) -> String {
    let all = i128::from(time.seconds) * NANOSECONDS as i128 + i128::from(time.nanoseconds);
    let sign = if all < 0 { "-" } else { "" };
    let (seconds, rest) = (all.unsigned_abs() / NANOSECONDS, all.unsigned_abs() % NANOSECONDS);
    let text = format!("{sign}{seconds}.{rest:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The time that such a text is, if it is one of the next or last thirty thousand years.
fn time(text: &str) -> Option<Timestamp> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (seconds, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if !(1..=12).contains(&seconds.len()) || !all_digits(seconds) || !all_digits(fraction) {
        return None;
    }
    let nanoseconds = format!("{:0<9}", &fraction[..fraction.len().min(9)]);
    let all =
        sign * (seconds.parse::<i128>().ok()? * NANOSECONDS as i128 + nanoseconds.parse::<i128>().ok()?);
    Some(Timestamp {
        seconds: i64::try_from(all.div_euclid(NANOSECONDS as i128)).ok()?,
        nanoseconds: u32::try_from(all.rem_euclid(NANOSECONDS as i128)).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ureq::http::{HeaderName, HeaderValue};

    const MD5: &str = "25f9e794323b453885f5181f1b624d0b";

    fn version(bucket: &str, lines: &[(&str, &str)]) -> Version {
        let line = |&(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().expect("a name"), HeaderValue::from_str(value).expect("a value"))
        };
        let mut version = Version::default();
        add(&lines.iter().map(line).collect(), bucket, &mut version);
        version
    }

    #[test]
    fn only_a_tag_that_is_an_md5_is_taken_for_one() {
        let (plain, parts, weak) = (format!("\"{MD5}\""), format!("\"{MD5}-2\""), format!("W/\"{MD5}\""));
        let sse = "x-amz-server-side-encryption";
        let customer = "x-amz-server-side-encryption-customer-algorithm";
        for (bucket, lines, is) in [
            ("b", &[("etag", &plain[..])][..], true),
            ("b", &[("etag", &plain), (sse, "AES256")], true),
            ("b", &[("etag", &plain), (sse, "aws:kms")], false),
            ("b", &[("etag", &plain), (sse, "aws:kms:dsse")], false),
            ("b", &[("etag", &plain), (customer, "AES256")], false),
            ("b", &[("etag", &parts)], false),
            ("b", &[("etag", &weak)], false),
            ("b--use1-az4--x-s3", &[("etag", &plain)], false),
            ("b", &[], false),
        ] {
            let sum = version(bucket, lines).checksums.hex(Algorithm::Md5);
            assert_eq!(sum, is.then(|| MD5.to_owned()), "{bucket} {lines:?}");
        }
    }

    #[test]
    fn sums_of_the_whole_are_taken_and_those_made_of_parts_are_not() {
        let (crc64, kind) = ("x-amz-checksum-crc64nvme", "x-amz-checksum-type");
        let sums = |lines: &[(&str, &str)]| {
            let line = |&(name, value): &(&str, &str)| {
                (name.parse::<HeaderName>().expect("a name"), HeaderValue::from_str(value).expect("a value"))
            };
            let mut version = Version::default();
            add_sums(&lines.iter().map(line).collect(), &mut version);
            version.checksums.algorithms().collect::<Vec<_>>()
        };
        let sum = "rosUhgp5mIg=";
        assert_eq!(sums(&[(crc64, sum), (kind, "FULL_OBJECT")]), [Algorithm::Crc64Nvme]);
        assert_eq!(
            sums(&[(crc64, sum), ("x-amz-checksum-crc32", "y/Q5Jg==")]),
            [Algorithm::Crc32, Algorithm::Crc64Nvme]
        );
        for none in [
            &[(crc64, sum), (kind, "COMPOSITE")][..],
            &[(crc64, "rosUhgp5mIg=-2")],
            &[(crc64, "AAAA")],
            &[(kind, "FULL_OBJECT")],
        ] {
            assert_eq!(sums(none), []);
        }
    }

    #[test]
    fn times_are_written_as_rclone_does_and_read_whoever_wrote_them() {
        let at = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
        for (time, text) in [
            (at(0, 0), "0"),
            (at(1_618_235_533, 123_456_789), "1618235533.123456789"),
            (at(1_618_235_530, 500_000_000), "1618235530.5"),
            (at(10, 0), "10"),
            (at(-2, 500_000_000), "-1.5"),
            (at(-10, 0), "-10"),
        ] {
            assert_eq!(time_text(time), text);
            assert_eq!(version("b", &[(MTIME, text)]).kept, Some(time), "{text}");
        }
        assert_eq!(time("10.000000000"), Some(at(10, 0)));
        assert_eq!(time("10.1234567899999"), Some(at(10, 123_456_789)));
        for none in ["", "-", ".5", "+1", "1e9", "2021-04-12", "1 ", "--1", "9999999999999", "1.x", "1.é"] {
            assert_eq!(time(none), None, "{none}");
        }
    }
}
