//! What the head of an object says beyond what HTTP says of any file: an MD5, where its tag is one, the sums that S3 keeps,
//! and what was kept with it: the time that the file had where it came from, its MD5, and how large its parts are.

use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use tidegate_transfer::manifest::Timestamp;
use ureq::http::HeaderMap;

use super::super::http::answer::{md5_of_tag, strong_tag, text};
use crate::checksum::Algorithm;
use crate::remote::Version;

/// Has S3 tell the sums that it keeps.
pub(crate) const ASKS_SUMS: (&str, &str) = ("x-amz-checksum-mode", "ENABLED");

/// Where `put` keeps a file's time, and rclone and s3fs too.
pub(crate) const MTIME: &str = "x-amz-meta-mtime";

/// Where `put` keeps the MD5 of a file that it sends in one request, and rclone and others too.
pub(crate) const MD5: &str = "x-amz-meta-md5chksum";

/// Where `put` keeps how large the parts are in which it sends a file.
pub(crate) const PART_SIZE: &str = "x-amz-meta-tidegate-part-size";

/// How the names of buckets end whose tags look like MD5s and are none (S3 Express One Zone).
const NO_MD5_THERE: &str = "--x-s3";

/// Most parts that an object has.
const MAX_PARTS: u64 = 10_000;

const NANOSECONDS: u128 = 1_000_000_000;

/// A sum that is made of the sums of so many parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Composite {
    /// By which algorithm.
    pub algorithm: Algorithm,
    /// The sum.
    pub sum: Box<[u8]>,
    /// Of how many parts.
    pub count: u64,
}

impl Composite {
    fn read(algorithm: Algorithm, text: &str, decode: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Option<Self> {
        let (sum, count) = text.trim().rsplit_once('-')?;
        let sum = decode(sum.as_bytes()).filter(|sum| sum.len() == algorithm.length())?;
        let count = count.parse().ok().filter(|count| (1..=MAX_PARTS).contains(count))?;
        Some(Self { algorithm, sum: sum.into(), count })
    }
}

/// The sums that a head says, as they are written.
fn sums(headers: &HeaderMap) -> impl Iterator<Item = (Algorithm, &str)> {
    headers.iter().filter_map(|(name, value)| {
        let algorithm = name.as_str().strip_prefix("x-amz-checksum-")?.parse().ok()?;
        Some((algorithm, value.to_str().ok()?))
    })
}

/// Adds to `version` the sums of the whole object that its head says.
pub(crate) fn add_sums(headers: &HeaderMap, version: &mut Version) {
    let kind = text(headers, "x-amz-checksum-type");
    if kind.is_some_and(|kind| kind != "FULL_OBJECT") {
        return;
    }
    let in_parts = strong_tag(headers).is_some_and(|tag| tag.contains('-'));
    for (algorithm, value) in sums(headers) {
        // Of an object that came in parts, only this one is always of the whole.
        let is_of_whole = kind.is_some() || !in_parts || algorithm == Algorithm::Crc64Nvme;
        let sum = BASE64.decode(value.trim().as_bytes()).ok().filter(|sum| sum.len() == algorithm.length());
        if let Some(sum) = sum.filter(|_| is_of_whole) {
            version.checksums.add(algorithm, sum);
        }
    }
}

/// The strongest of the sums that S3 has made of the sums of the object's parts.
pub(crate) fn sum_of_parts(headers: &HeaderMap) -> Option<Composite> {
    let decode = |text: &[u8]| BASE64.decode(text).ok();
    let all = sums(headers).filter_map(|(algorithm, text)| Composite::read(algorithm, text, decode));
    all.max_by_key(|sum| sum.algorithm)
}

/// What the tag of an object in `bucket` is, where it is made of its parts' MD5s.
pub(crate) fn tag_of_parts(headers: &HeaderMap, bucket: &str) -> Option<Composite> {
    let tag = strong_tag(headers).filter(|_| has_md5_tags(headers) && !bucket.ends_with(NO_MD5_THERE))?;
    Composite::read(Algorithm::Md5, tag.trim_matches('"'), |text| HEXLOWER_PERMISSIVE.decode(text).ok())
}

/// How large the parts of the object are, as `put` has kept it.
pub(crate) fn part_size(headers: &HeaderMap) -> Option<u64> {
    text(headers, PART_SIZE)?.parse().ok().filter(|&size| size > 0)
}

/// Adds to `version` what the head of an object in `bucket` says.
pub(crate) fn add(headers: &HeaderMap, bucket: &str, version: &mut Version) {
    if has_md5_tags(headers)
        && !bucket.ends_with(NO_MD5_THERE)
        && let Some(sums) = strong_tag(headers).as_deref().and_then(md5_of_tag)
    {
        version.checksums = sums;
    } else if let Some(sum) = text(headers, MD5).and_then(|sum| BASE64.decode(sum.trim().as_bytes()).ok())
        && sum.len() == Algorithm::Md5.length()
    {
        version.checksums.add(Algorithm::Md5, sum);
    }
    version.kept = kept_time(headers);
}

/// When the file was modified where it came from, as it was kept with the object.
pub(crate) fn kept_time(headers: &HeaderMap) -> Option<Timestamp> {
    text(headers, MTIME).and_then(time)
}

/// Whether tags are made of MD5s: not with a key of KMS or of the customer's.
pub(crate) fn has_md5_tags(headers: &HeaderMap) -> bool {
    text(headers, "x-amz-server-side-encryption").is_none_or(|how| how == "AES256")
        && !headers.contains_key("x-amz-server-side-encryption-customer-algorithm")
}

/// A time as rclone writes it: seconds since 1970 with their fraction.
pub(crate) fn time_text(time: Timestamp) -> String {
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
            &[("x-amz-checksum-crc32", "y/Q5Jg=="), ("etag", "\"25f9e794323b453885f5181f1b624d0b-2\"")],
        ] {
            assert_eq!(sums(none), []);
        }
    }

    #[test]
    fn sums_of_parts_are_read_from_headers_and_tags() {
        let line = |&(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().expect("a name"), HeaderValue::from_str(value).expect("a value"))
        };
        let heads = |lines: &[(&str, &str)]| lines.iter().map(line).collect::<HeaderMap>();
        let of = |lines: &[(&str, &str)]| sum_of_parts(&heads(lines)).map(|sum| (sum.algorithm, sum.count));
        let (crc, sha) = ("x-amz-checksum-crc32", "x-amz-checksum-sha1");
        assert_eq!(of(&[(crc, "y/Q5Jg==-3")]), Some((Algorithm::Crc32, 3)));
        let both = [(crc, "y/Q5Jg==-3"), (sha, "98O8HYCOBHMq32eZZczDTKfkroI=-3")];
        assert_eq!(of(&both), Some((Algorithm::Sha1, 3)));
        for none in ["y/Q5Jg==", "y/Q5Jg==-0", "y/Q5Jg==-", "y/Q5-1", "y/Q5Jg==-10001", "-1", ""] {
            assert_eq!(of(&[(crc, none)]), None, "{none}");
        }
        let tag = |tag: &str, bucket| tag_of_parts(&heads(&[("etag", tag)]), bucket).map(|sum| sum.count);
        let hex = "25f9e794323b453885f5181f1b624d0b";
        assert_eq!(tag(&format!("\"{hex}-7\""), "b"), Some(7));
        for (none, bucket) in [
            (format!("\"{hex}\""), "b"),
            (format!("\"{hex}-7\""), "b--x-s3"),
            (format!("W/\"{hex}-7\""), "b"),
        ] {
            assert_eq!(tag(&none, bucket), None, "{none}");
        }
    }

    #[test]
    fn an_md5_that_was_kept_counts_where_the_tag_is_none() {
        let kept = (super::MD5, "JfnnlDI7RTiF9RgfG2JNCw==");
        for (lines, sum) in [
            (&[kept, ("etag", "\"x\"")][..], Some(MD5)),
            (
                &[kept, ("etag", "\"00f9e794323b453885f5181f1b624d0b\"")],
                Some("00f9e794323b453885f5181f1b624d0b"),
            ),
            (&[(super::MD5, "JfnnlDI7RTiF9RgfG2JN")], None),
            (&[(super::MD5, "?")], None),
        ] {
            assert_eq!(version("b", lines).checksums.hex(Algorithm::Md5).as_deref(), sum, "{lines:?}");
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
