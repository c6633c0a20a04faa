//! Objects that are here are copied, whole or as a part of another.

use std::ops::Range;
use std::sync::Arc;

use axum::http::header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode};
use tidegate_transfer::endpoint::access::Access;

use super::{document as answered, object};
use crate::checksums::Verified;
use crate::conditions::{Conditions, Names, failed};
use crate::multipart::{Multipart, Receiving};
use crate::names::path as path_of;
use crate::receive::{Taker, modified};
use crate::refusal::{Answer, Refusal};
use crate::tree::{File, Found};
use crate::upload::{Parents, Upload};
use crate::validators::{Validators, Verdict, date_time, judge};

/// The header that says what is copied.
pub(crate) const SOURCE: &str = "x-amz-copy-source";

/// The one that says which bytes of it become a part.
const RANGE: &str = "x-amz-copy-source-range";

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// What must hold of the source, as it is said of what is read.
fn conditions(headers: &HeaderMap) -> HeaderMap {
    let names = [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE];
    let said = |name: HeaderName| Some((headers.get(format!("{SOURCE}-{name}"))?.clone(), name));
    names.into_iter().filter_map(said).map(|(value, name)| (name, value)).collect()
}

/// What is to be copied.
fn source(access: &Access, headers: &HeaderMap) -> Answer<File> {
    let from = text(headers, SOURCE).unwrap_or_default();
    if from.contains('?') {
        return Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, "no versions are kept here"));
    }
    let path = path_of(from)?;
    match object(access, &path)? {
        Found::File(file) if !path.ends_with(b"/") => {
            match judge(&Method::GET, &conditions(headers), Some(&file.version)) {
                Verdict::Proceed => Ok(file),
                Verdict::NotModified | Verdict::Failed => {
                    Err(failed("another version of the source is there"))
                }
            }
        }
        _ => Err(Refusal::new(StatusCode::NOT_FOUND, "there is no such object")),
    }
}

/// Gives the bytes of `range` to `taker`, for as long as that may be.
fn give(access: &Access, source: &File, range: Range<u64>, taker: &mut impl Taker) -> Answer<()> {
    for piece in source.pieces(range) {
        let piece = piece.map_err(|error| Refusal::new(StatusCode::CONFLICT, error.to_string()))?;
        access.check_valid()?;
        taker.take(&piece)?;
    }
    Ok(())
}

/// Copies an object to `to`.
pub(crate) fn copy(access: &Access, names: &Names, to: &[u8], headers: &HeaderMap) -> Answer {
    let conditions = Conditions::read(headers)?;
    conditions.check(access, to)?;
    if headers.contains_key(RANGE) {
        return Err(Refusal::senseless("an object is copied whole, and its ranges as parts")
            .called("InvalidArgument"));
    }
    let source = source(access, headers)?;
    let replaces_metadata =
        text(headers, "x-amz-metadata-directive").is_some_and(|how| how.eq_ignore_ascii_case("replace"));
    let modified = if replaces_metadata { modified(headers, true) } else { source.version.modified };
    let mut upload = Upload::begin(access, to, Some(source.size), Parents::Make)?;
    give(access, &source, 0..source.size, &mut upload)?;
    let version = upload.finish(access, modified, (names, &conditions))?.unwrap_or(source.version);
    Ok(told("CopyObjectResult", &version.tag, &version))
}

/// Copies an object, or a range of it, to be part `number` of `upload`.
pub(crate) fn copy_part(
    access: &Access,
    upload: Arc<Multipart>,
    number: &str,
    headers: &HeaderMap,
) -> Answer {
    let source = source(access, headers)?;
    let range = match headers.get(RANGE) {
        None => 0..source.size,
        Some(value) => value.to_str().ok().and_then(|said| range(said, source.size)).ok_or_else(|| {
            let why = format!("{RANGE} is bytes=FIRST-LAST, within an object of {} bytes", source.size);
            Refusal::senseless(why).called("InvalidArgument")
        })?,
    };
    let mut part = Receiving::begin(upload, number, Some(range.end - range.start))?;
    give(access, &source, range, &mut part)?;
    let tag = part.finish(Verified::default())?;
    Ok(told("CopyPartResult", &tag, &source.version))
}

/// Both ends are said, and lie in the object.
fn range(said: &str, size: u64) -> Option<Range<u64>> {
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    let (first, last) = said.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last): (u64, u64) = (number(first)?, number(last)?);
    (first <= last && last < size).then(|| first..last + 1)
}

fn told(name: &str, tag: &str, version: &Validators) -> axum::response::Response {
    answered(name, |xml| {
        xml.element("ETag", tag);
        xml.element("LastModified", &date_time(version.modified));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_a_source_lies_in_it() {
        for (said, expected) in [
            ("bytes=0-0", Some(0..1)),
            ("bytes=0-9", Some(0..10)),
            ("bytes=3-5", Some(3..6)),
            ("bytes=0-10", None),
            ("bytes=5-4", None),
            ("bytes=0-", None),
            ("bytes=-1", None),
            ("bytes=+1-2", None),
            ("bytes=1-2,4-5", None),
            ("bytes=1-99999999999999999999", None),
            ("1-2", None),
            ("", None),
        ] {
            assert_eq!(range(said, 10), expected, "{said}");
        }
        assert_eq!(range("bytes=0-0", 0), None);
    }
}
