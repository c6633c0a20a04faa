//! What the header of an HTTP answer says of a file.

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::BASE64;
use tidegate_transfer::manifest::Timestamp;
use ureq::http::HeaderMap;

use crate::checksum::{Algorithm, Checksums};
use crate::remote::Why;

/// Longest wait that a server may ask for; more is taken for this.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// The value of header line `name`, if it is there once and is text.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Where a redirect leads. What is no ASCII goes on as the bytes that came, whatever their encoding.
pub(crate) fn location(headers: &HeaderMap) -> Option<String> {
    let value = headers.get("location")?.as_bytes().trim_ascii();
    let encode = |byte: &u8| match byte {
        0x20..0x7f => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    Some(value.iter().map(encode).collect())
}

/// Whether the body is parts of a file with a header each.
pub(crate) fn is_multipart(headers: &HeaderMap) -> bool {
    content_type(headers) == "multipart/byteranges"
}

/// Whether the body is a web page.
pub(crate) fn is_page(headers: &HeaderMap) -> bool {
    matches!(&*content_type(headers), "text/html" | "application/xhtml+xml")
}

fn content_type(headers: &HeaderMap) -> String {
    let kind = text(headers, "content-type").unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

/// What to try next after an answer with this status, none of 200, 206 and a redirect.
pub fn why(status: u16, headers: &HeaderMap) -> Why {
    match status {
        // A copy is being staged, from tape as a rule.
        202 => Why::Later,
        // Some services say 403 for "too often", and then they say until when.
        403 if headers.contains_key("retry-after") => Why::Busy,
        401 | 402 | 403 | 407 | 451 | 511 => Why::Denied,
        404 | 410 => Why::Missing,
        412 => Why::Changed,
        // 420 and 509 are in no standard; the one is Twitter's, the other cPanel's "bandwidth exceeded".
        420 | 429 | 503 | 509 => Why::Busy,
        502 | 504 => Why::Unreachable,
        // What it cannot do now it cannot do later.
        501 | 505 => Why::Senseless,
        408 | 425 | 500..=599 => Why::Broken,
        _ => Why::Senseless,
    }
}

/// How long the server wants us to wait: seconds, or a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = text(headers, "retry-after")?;
    let wait = match value.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(LONGEST_WAIT))
}

/// `Content-Range: bytes 0-9/100` as range and size; an unknown size (`*`) is `None`.
pub(crate) fn content_range(headers: &HeaderMap) -> Option<(Range<u64>, Option<u64>)> {
    let (range, size) = text(headers, "content-range")?.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.trim().split_once('-')?;
    let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    let end = last.checked_add(1)?;
    let size = match size.trim() {
        "*" => None,
        digits => Some(digits.parse::<u64>().ok()?),
    };
    (first < end && size.is_none_or(|size| end <= size)).then_some((first..end, size))
}

/// The size in `Content-Range: bytes */100`, which comes with status 416.
pub(crate) fn size_beyond(headers: &HeaderMap) -> Option<u64> {
    text(headers, "content-range")?.strip_prefix("bytes ")?.trim().strip_prefix("*/")?.trim().parse().ok()
}

/// What servers put behind a tag when they pack, or say that they could: the file is the same.
const PACKED: [&str; 6] = ["-gzip", "--gzip", ";gzip", "-br", "-zstd", "-deflate"];

/// A strong entity tag, with its quotes.
pub(crate) fn strong_tag(headers: &HeaderMap) -> Option<String> {
    let tag = text(headers, "etag")?;
    let inner = tag.strip_prefix('"')?.strip_suffix('"')?;
    let bare = PACKED.iter().find_map(|packed| inner.strip_suffix(packed)).unwrap_or(inner);
    Some(format!("\"{}\"", bare.trim_end_matches('-')))
}

/// When the file was last modified.
pub(crate) fn modified(headers: &HeaderMap) -> Option<Timestamp> {
    let time = httpdate::parse_http_date(text(headers, "last-modified")?).ok()?;
    let seconds = time.duration_since(UNIX_EPOCH).ok()?.as_secs();
    Some(Timestamp { seconds: i64::try_from(seconds).ok()?, nanoseconds: 0 })
}

/// A time as HTTP writes it, if HTTP can.
pub(crate) fn http_date(time: Timestamp) -> Option<String> {
    // Year 9999 ends there.
    let seconds = u64::try_from(time.seconds).ok().filter(|&seconds| seconds < 253_402_300_800)?;
    Some(httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds)))
}

/// Checksums of the whole file. `whole` says that the body is the whole file: `Content-MD5` is of the body,
/// and the others are of the file (RFC 3230, RFC 9530, and Google's own).
pub(crate) fn checksums(headers: &HeaderMap, whole: bool) -> Checksums {
    let mut sums = Checksums::none();
    let mut add = |algorithm: Algorithm, base64: &str| {
        let sum = BASE64.decode(base64.trim().as_bytes()).ok();
        if let Some(sum) = sum.filter(|sum| sum.len() == algorithm.length()) {
            sums.add(algorithm, sum);
        }
    };
    if whole && let Some(sum) = text(headers, "content-md5") {
        add(Algorithm::Md5, sum);
    }
    // What Google unpacks on its way keeps the hashes of its packed form.
    let is_stored = text(headers, "x-goog-stored-content-encoding").is_none_or(|how| how == "identity")
        || headers.contains_key("content-encoding");
    for name in ["x-goog-hash", "digest", "repr-digest"] {
        if name == "x-goog-hash" && !is_stored {
            continue;
        }
        for line in headers.get_all(name).iter().filter_map(|value| value.to_str().ok()) {
            for (algorithm, sum) in line.split(',').filter_map(|item| item.trim().split_once('=')) {
                let known = match algorithm.to_ascii_lowercase().as_str() {
                    "md5" => Algorithm::Md5,
                    "crc32c" => Algorithm::Crc32c,
                    "sha-256" => Algorithm::Sha256,
                    "sha-512" => Algorithm::Sha512,
                    _ => continue,
                };
                // RFC 9530 puts the sum between colons and may put parameters after it.
                let sum = sum.split(';').next().unwrap_or_default().trim().trim_matches(':');
                add(known, sum);
            }
        }
    }
    sums
}

/// The MD5 that a tag is at stores that make it so (32 hexadecimal digits, and no number of parts after).
pub(crate) fn md5_of_tag(tag: &str) -> Option<Checksums> {
    let mut sums = Checksums::none();
    sums.add_hex(Algorithm::Md5, tag.trim_matches('"')).ok().map(|()| sums)
}

/// Why the body is not the bytes of a file at `path`, from what the header says of its form.
pub(crate) fn not_the_file(headers: &HeaderMap, path: &str, allow_pages: bool) -> Option<String> {
    let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    for encoding in headers.get_all("content-encoding").iter().flat_map(|value| value.to_str()) {
        let encoding = encoding.trim().to_ascii_lowercase();
        // Many servers label a stored `x.gz` so; its bytes come as they are.
        let is_form_of_file = match encoding.as_str() {
            "" | "identity" => true,
            "gzip" | "x-gzip" => ends(&[".gz", ".tgz", ".bgz", ".svgz"]),
            "compress" | "x-compress" => ends(&[".z"]),
            "bzip2" | "x-bzip2" => ends(&[".bz2", ".tbz", ".tbz2"]),
            "xz" | "x-xz" => ends(&[".xz", ".txz"]),
            "zstd" => ends(&[".zst"]),
            "br" => ends(&[".br"]),
            _ => false,
        };
        if !is_form_of_file {
            return Some(format!("the server packed the file ({encoding:?}) although it was told not to"));
        }
    }
    let kind = content_type(headers);
    if is_multipart(headers) {
        return Some("the server answered with several parts although one was asked for".to_owned());
    }
    let is_page = kind == "text/html" || kind == "application/xhtml+xml";
    let as_file = text(headers, "content-disposition").is_some_and(|how| how.starts_with("attachment"));
    if is_page && !allow_pages && !as_file && !ends(&[".html", ".htm", ".xhtml", ".shtml"]) {
        return Some("the server answered with a web page instead of the file".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use ureq::http::{HeaderName, HeaderValue};

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let pair = |&(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().expect("a name"), HeaderValue::from_str(value).expect("a value"))
        };
        lines.iter().map(pair).collect()
    }

    #[test]
    fn a_content_range_is_taken_only_whole() {
        let range = |value| content_range(&headers(&[("content-range", value)]));
        assert_eq!(range("bytes 0-9/100"), Some((0..10, Some(100))));
        assert_eq!(range("bytes 5-5/*"), Some((5..6, None)));
        for bad in
            ["bytes 9-0/100", "bytes 0-9/9", "0-9/100", "bytes */100", "bytes -9/100", "bytes 0-/9", ""]
        {
            assert_eq!(range(bad), None, "{bad}");
        }
        assert_eq!(range(&format!("bytes 0-{}/*", u64::MAX)), None, "its end is no number");
        assert_eq!(size_beyond(&headers(&[("content-range", "bytes */100")])), Some(100));
    }

    #[test]
    fn a_wait_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").expect("a date");
        let wait = |value| retry_after(&headers(&[("retry-after", value)]), now);
        assert_eq!(wait("120"), Some(Duration::from_secs(120)));
        assert_eq!(wait("Sun, 06 Nov 1994 08:50:37 GMT"), Some(Duration::from_secs(60)));
        assert_eq!(wait("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(wait("999999999999"), Some(LONGEST_WAIT));
        assert_eq!(wait("soon"), None);
    }

    #[test]
    fn only_a_strong_tag_pins_a_version() {
        let tag = |value| strong_tag(&headers(&[("etag", value)]));
        assert_eq!(tag("\"abc\""), Some("\"abc\"".to_owned()));
        assert_eq!(tag("W/\"abc\""), None);
        assert_eq!(tag("\"abc-gzip\""), tag("\"abc\""));
        assert_eq!(tag("\""), None);
        assert_eq!(tag("abc"), None);
        let sums = md5_of_tag("\"25f9e794323b453885f5181f1b624d0b\"").expect("an md5");
        assert_eq!(sums.hex(Algorithm::Md5).as_deref(), Some("25f9e794323b453885f5181f1b624d0b"));
        assert_eq!(md5_of_tag("\"25f9e794323b453885f5181f1b624d0b-7\""), None);
    }

    #[test]
    fn times_go_both_ways() {
        let at = modified(&headers(&[("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")])).expect("a time");
        assert_eq!(at.seconds, 784_111_777);
        assert_eq!(http_date(at).as_deref(), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
        assert_eq!(http_date(Timestamp { seconds: i64::MAX, nanoseconds: 0 }), None);
        assert_eq!(http_date(Timestamp { seconds: -1, nanoseconds: 0 }), None);
    }

    #[test]
    fn checksums_are_read_from_every_line_that_is_of_the_file() {
        // The sums of "123456789".
        let (md5, crc) = ("JfnnlDI7RTiF9RgfG2JNCw==", "4waSgw==");
        let sha = "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSJsiU=";
        let repr = format!("sha-256=:{sha}:, md5=:{md5}:;x=1");
        for (lines, whole, expected) in [
            (vec![("content-md5", md5)], true, vec![Algorithm::Md5]),
            (vec![("content-md5", md5)], false, vec![]),
            (
                vec![("x-goog-hash", "crc32c=4waSgw=="), ("x-goog-hash", "md5=JfnnlDI7RTiF9RgfG2JNCw==")],
                false,
                vec![Algorithm::Crc32c, Algorithm::Md5],
            ),
            (vec![("repr-digest", repr.as_str())], false, vec![Algorithm::Md5, Algorithm::Sha256]),
            (
                vec![("digest", "SHA-256=FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSJsiU=,adler32=03da0195")],
                false,
                vec![Algorithm::Sha256],
            ),
            (vec![("digest", "sha-256=short"), ("content-md5", "!")], true, vec![]),
        ] {
            // `collect` keeps the last of equal names, so lines are appended one by one.
            let mut map = HeaderMap::new();
            for &(name, value) in &lines {
                map.append(name.parse::<HeaderName>().expect("a name"), value.parse().expect("a value"));
            }
            let sums = checksums(&map, whole);
            assert_eq!(sums.algorithms().collect::<Vec<_>>(), expected, "{lines:?}");
        }
        let sums = checksums(&headers(&[("x-goog-hash", &format!("crc32c={crc}"))]), false);
        assert_eq!(sums.hex(Algorithm::Crc32c).as_deref(), Some("e3069283"));
    }

    #[test]
    fn what_is_not_the_file_is_told() {
        let page = headers(&[("content-type", "text/html; charset=utf-8")]);
        assert!(not_the_file(&page, "/data/x.fastq.gz", false).is_some());
        assert!(not_the_file(&page, "/data/SRR1", false).is_some());
        assert!(not_the_file(&page, "/data/x.fastq.gz", true).is_none());
        assert!(not_the_file(&page, "/data/index.HTML", false).is_none());
        let sent =
            headers(&[("content-type", "text/html"), ("content-disposition", "attachment; filename=x")]);
        assert!(not_the_file(&sent, "/get", false).is_none());
        let packed = headers(&[("content-encoding", "gzip")]);
        assert!(not_the_file(&packed, "/x.txt", false).is_some());
        assert!(not_the_file(&packed, "/x.fastq.gz", false).is_none());
        let parts = headers(&[("content-type", "multipart/byteranges; boundary=x")]);
        assert!(not_the_file(&parts, "/x", false).is_some());
    }

    proptest::proptest! {
        #[test]
        fn no_header_is_too_strange(value in "(bytes )?[-0-9*/ ]{0,30}|[ -~]{0,60}", whole: bool) {
            for name in ["content-range", "retry-after", "etag", "last-modified", "repr-digest", "x-goog-hash",
                "content-md5", "content-encoding", "content-type", "content-disposition"] {
                let headers = headers(&[(name, &value)]);
                if let Some((range, size)) = content_range(&headers) {
                    assert!(range.start < range.end && size.is_none_or(|size| range.end <= size));
                }
                size_beyond(&headers);
                retry_after(&headers, UNIX_EPOCH);
                strong_tag(&headers);
                modified(&headers);
                checksums(&headers, whole);
                not_the_file(&headers, "/x.gz", whole);
            }
        }
    }
}
