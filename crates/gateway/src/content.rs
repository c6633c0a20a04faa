//! A file as an answer: whole, in part or in parts; never as something that a browser shows or runs.

use std::ops::Range;

use axum::body::{Body, Bytes};
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, RANGE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use tidegate_transfer::endpoint::access::{Access, url_path};

use crate::body::{MAX_HELD, Pieces, streamed};
use crate::limit::Share;
use crate::range::{Wanted, wanted};
use crate::refusal::{Answer, Refusal};
use crate::tree::File;
use crate::validators::{Verdict, judge};

/// What all content is said to be: who put it there decides nothing about it.
const KIND: &str = "application/octet-stream";

/// What stands between the parts of an answer in several.
const BOUNDARY: &str = "tidegate-7f3c1a9e52d84b06";

/// The answer to a request for `file`, which is called `name`, of who may do what `access` says and has the share.
pub fn answer(
    (access, share): (&Access, &Share),
    method: &Method,
    headers: &HeaderMap,
    file: &File,
    name: &[u8],
) -> Answer {
    match judge(method, headers, Some(&file.version)) {
        Verdict::Proceed => {}
        Verdict::NotModified => {
            let mut response = bare(StatusCode::NOT_MODIFIED, Body::empty());
            file.version.write(response.headers_mut());
            return Ok(response);
        }
        Verdict::Failed => {
            let why = "another version of the file is there";
            return Err(Refusal::new(StatusCode::PRECONDITION_FAILED, why));
        }
    }
    let range = headers.get(RANGE).and_then(|value| value.to_str().ok());
    let range = range.filter(|_| *method == Method::GET && file.version.range_holds(headers));
    let body = |pieces: Pieces, length: u64| match *method {
        Method::GET => {
            let held = share.memory(MAX_HELD.min(usize::try_from(length).unwrap_or(MAX_HELD)))?;
            Ok::<_, Refusal>(streamed(access, held, pieces))
        }
        _ => Ok(Body::empty()),
    };
    let (mut response, length, kind) = match range.map_or(Wanted::Whole, |range| wanted(range, file.size)) {
        Wanted::Whole => {
            let pieces = file.pieces(0..file.size);
            (bare(StatusCode::OK, body(Box::new(pieces), file.size)?), file.size, KIND.to_owned())
        }
        Wanted::Unsatisfiable => return Err(unsatisfiable(file.size)),
        Wanted::Ranges(ranges) => match &ranges[..] {
            [one] => {
                let length = one.end - one.start;
                let body = body(Box::new(file.pieces(one.clone())), length)?;
                let mut response = bare(StatusCode::PARTIAL_CONTENT, body);
                set(&mut response, CONTENT_RANGE, &content_range(one, file.size));
                (response, length, KIND.to_owned())
            }
            ranges => {
                let (pieces, length) = parts(file, ranges);
                let kind = format!("multipart/byteranges; boundary={BOUNDARY}");
                (bare(StatusCode::PARTIAL_CONTENT, body(pieces, length)?), length, kind)
            }
        },
    };
    file.version.write(response.headers_mut());
    set(&mut response, CONTENT_LENGTH, &length.to_string());
    set(&mut response, CONTENT_TYPE, &kind);
    set(&mut response, ACCEPT_RANGES, "bytes");
    set(&mut response, CACHE_CONTROL, "private, no-cache");
    set(&mut response, CONTENT_DISPOSITION, &attachment(name));
    set(&mut response, CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'");
    Ok(response)
}

fn bare(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

fn set(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

fn unsatisfiable(size: u64) -> Refusal {
    Refusal { size: Some(size), ..Refusal::new(StatusCode::RANGE_NOT_SATISFIABLE, "no such range is there") }
}

fn content_range(range: &Range<u64>, size: u64) -> String {
    format!("bytes {}-{}/{size}", range.start, range.end - 1)
}

/// Several ranges, each behind its own headers, and how long all that is.
fn parts(file: &File, ranges: &[Range<u64>]) -> (Pieces, u64) {
    let head = |range: &Range<u64>| {
        let range = content_range(range, file.size);
        format!("\r\n--{BOUNDARY}\r\ncontent-type: {KIND}\r\ncontent-range: {range}\r\n\r\n")
    };
    let end = format!("\r\n--{BOUNDARY}--\r\n");
    let length = |range: &Range<u64>| head(range).len() as u64 + range.end - range.start;
    let all = ranges.iter().map(length).sum::<u64>() + end.len() as u64;
    let parts: Vec<_> = ranges.iter().map(|range| (head(range), file.pieces(range.clone()))).collect();
    let text = |text: String| std::iter::once(Ok(Bytes::from(text)));
    let pieces = parts.into_iter().flat_map(move |(head, pieces)| text(head).chain(pieces)).chain(text(end));
    (Box::new(pieces), all)
}

/// The header that has a browser save what it gets, under the name `name`.
pub(crate) fn attachment(name: &[u8]) -> String {
    let plain: String = name
        .iter()
        .map(|&b| {
            if b.is_ascii_graphic() && !matches!(b, b'"' | b'\\' | b'%' | b'/') || b == b' ' {
                char::from(b)
            } else {
                '_'
            }
        })
        .collect();
    let text = String::from_utf8_lossy(name);
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{}", url_path(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_header() {
        let header = attachment(b"a\"b\r\nx: y\\\xe6\x97\xa5 c");
        assert_eq!(
            header,
            "attachment; filename=\"a_b__x: y____ c\"; filename*=UTF-8''a%22b%0D%0Ax%3A%20y%5C%E6%97%A5%20c"
        );
        HeaderValue::from_str(&header).expect("a header");
    }
}
