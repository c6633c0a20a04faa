//! Whether a request still wants what it wanted: `ETag`, `Last-Modified`, and the headers that compare them.

use std::time::{Duration, UNIX_EPOCH};

use axum::http::header::{
    ETAG, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
    LAST_MODIFIED,
};
use axum::http::{HeaderMap, Method};
use tidegate_transfer::manifest::Timestamp;

/// The last second that both forms of dates know: almost the end of the year 9999.
const LAST_SECOND: u64 = 253_402_207_200;

/// Which version of a file is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Validators {
    /// The entity tag, with its quotes; no two versions have one.
    pub tag: String,
    /// When it was modified.
    pub modified: Timestamp,
}

/// What the conditions of a request come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is to be done.
    Proceed,
    /// The client has this version: 304.
    NotModified,
    /// Another version is there than the client supposed: 412.
    Failed,
}

impl Validators {
    /// As headers of an answer.
    pub fn write(&self, headers: &mut HeaderMap) {
        let values = [(ETAG, self.tag.clone()), (LAST_MODIFIED, http_date(self.modified))];
        for (name, value) in values {
            headers.insert(name, value.parse().expect("plain text"));
        }
    }

    /// Whether the range of a request is still meant for this version.
    pub(crate) fn range_holds(&self, headers: &HeaderMap) -> bool {
        match text(headers, &IF_RANGE) {
            None => true,
            Some(tag) if tag.ends_with('"') => tag == self.tag,
            // A second is coarse: who has only the date may have the version before.
            Some(date) => date == http_date(self.modified),
        }
    }
}

/// What the conditions among `headers` say of what is `there`, if anything is.
pub(crate) fn judge(method: &Method, headers: &HeaderMap, there: Option<&Validators>) -> Verdict {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let seconds = there.map(|there| second(there.modified));
    if let Some(tags) = text(headers, &IF_MATCH) {
        // A weak tag may be that of other bytes.
        let is_it = |there: &Validators| list(tags).any(|one| one == "*" || one == there.tag);
        if !there.is_some_and(is_it) {
            return Verdict::Failed;
        }
    } else if let (Some(since), Some(modified)) = (date(headers, &IF_UNMODIFIED_SINCE), seconds)
        && modified > since
    {
        return Verdict::Failed;
    }
    if let Some(tags) = text(headers, &IF_NONE_MATCH) {
        let is_it = |there: &Validators| {
            list(tags).any(|one| one == "*" || one.trim_start_matches("W/") == there.tag)
        };
        if there.is_some_and(is_it) {
            return if reads { Verdict::NotModified } else { Verdict::Failed };
        }
    } else if let (true, Some(since), Some(modified)) = (reads, date(headers, &IF_MODIFIED_SINCE), seconds)
        && modified <= since
    {
        return Verdict::NotModified;
    }
    Verdict::Proceed
}

/// The tags of a list.
fn list(tags: &str) -> impl Iterator<Item = &str> {
    tags.split(',').map(str::trim)
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    let date = httpdate::parse_http_date(text(headers, name)?).ok()?;
    Some(date.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// The second of a time, within what dates can say.
fn second(time: Timestamp) -> u64 {
    u64::try_from(time.seconds).unwrap_or(0).min(LAST_SECOND)
}

/// A time as HTTP writes it.
pub(crate) fn http_date(time: Timestamp) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second(time)))
}

/// A time as RFC 3339 and XML write it, to the second.
pub(crate) fn date_time(time: Timestamp) -> String {
    let second = i64::try_from(second(time)).unwrap_or(0);
    jiff::Timestamp::from_second(second).map(|time| time.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_judged_in_their_order() {
        let there = Validators {
            tag: "\"a\"".to_owned(),
            modified: Timestamp { seconds: 784_111_777, nanoseconds: 5 },
        };
        let (then, before) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:36 GMT");
        use Verdict::{Failed, NotModified, Proceed};
        for (given, read, written) in [
            (vec![], Proceed, Proceed),
            (vec![("if-match", "\"a\"")], Proceed, Proceed),
            (vec![("if-match", "*")], Proceed, Proceed),
            (vec![("if-match", "\"b\", \"c\"")], Failed, Failed),
            (vec![("if-match", "W/\"a\"")], Failed, Failed),
            (vec![("if-match", "\"b\", \"a\"")], Proceed, Proceed),
            (vec![("if-none-match", "\"b\", W/\"a\"")], NotModified, Failed),
            (vec![("if-none-match", "\"b\"")], Proceed, Proceed),
            (vec![("if-none-match", "*")], NotModified, Failed),
            (vec![("if-modified-since", then)], NotModified, Proceed),
            (vec![("if-modified-since", before)], Proceed, Proceed),
            (vec![("if-modified-since", "yesterday")], Proceed, Proceed),
            (vec![("if-unmodified-since", before)], Failed, Failed),
            (vec![("if-unmodified-since", then)], Proceed, Proceed),
            // A tag says more than a date.
            (vec![("if-none-match", "\"b\""), ("if-modified-since", then)], Proceed, Proceed),
            (vec![("if-match", "\"a\""), ("if-unmodified-since", before)], Proceed, Proceed),
        ] {
            let headers: HeaderMap = given
                .iter()
                .map(|(n, v)| (n.parse::<HeaderName>().expect("a name"), v.parse().expect("a value")))
                .collect();
            assert_eq!(judge(&Method::GET, &headers, Some(&there)), read, "{given:?}");
            assert_eq!(judge(&Method::PUT, &headers, Some(&there)), written, "{given:?}");
        }
        let new: HeaderMap = [(IF_NONE_MATCH, "*".parse().expect("a value"))].into_iter().collect();
        assert_eq!(judge(&Method::PUT, &new, None), Proceed);
        let old: HeaderMap = [(IF_MATCH, "*".parse().expect("a value"))].into_iter().collect();
        assert_eq!(judge(&Method::PUT, &old, None), Failed);
    }

    #[test]
    fn any_time_of_a_file_system_can_be_said() {
        for seconds in [i64::MIN, -1, 0, 1, i64::MAX] {
            let time = Timestamp { seconds, nanoseconds: 0 };
            assert!(http_date(time).ends_with("GMT") && date_time(time).ends_with('Z'), "{seconds}");
        }
        assert_eq!(date_time(Timestamp { seconds: 1, nanoseconds: 9 }), "1970-01-01T00:00:01Z");
    }
}
