//! A request's body, taken in as it comes: taken apart, checked and written.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use tidegate_transfer::endpoint::access::Access;
use tidegate_transfer::manifest::{MAX_SIZE, Timestamp};
use tidegate_transfer::quota::Held;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};
use tokio_stream::StreamExt;

use crate::checksums::{Checksums, Verified};
use crate::chunked::{Decoder, Trailing};
use crate::credentials::Shown;
use crate::limit::Share;
use crate::refusal::{Answer, Refusal};

/// How long a client may take for [`MIN_PACE`] bytes.
const SILENCE: Duration = Duration::from_secs(60);

/// Bytes that a client sends within that time at least: who sends less has gone, or means to hold what others could use.
const MIN_PACE: usize = 64 << 10;

/// Bytes that are gathered before they are written.
const GATHERED: usize = 128 << 10;

/// Most bytes of a document: ten thousand parts, each with its tag and a checksum.
const MAX_DOCUMENT: usize = 4 << 20;

/// What is known of a body before it comes.
#[derive(Debug)]
pub(crate) struct Expected {
    /// Its size once it is taken apart, if that was said.
    pub size: Option<u64>,
    /// What vouches for it.
    pub checksums: Checksums,
    decoder: Option<Decoder>,
}

impl Expected {
    /// What the request of `parts` says; without anything that vouches for the body it is refused unless `unverified` is
    /// allowed.
    pub fn read(parts: &Parts, shown: Shown, unverified: bool) -> Answer<Self> {
        Self::with(parts, shown, unverified, Checksums::read)
    }

    /// The same for the document that completes an upload, whose parts were vouched for.
    pub fn completing(parts: &Parts, shown: Shown) -> Answer<Self> {
        Self::with(parts, shown, true, Checksums::of_document)
    }

    fn with(
        parts: &Parts,
        shown: Shown,
        unverified: bool,
        told: impl FnOnce(&HeaderMap, Option<&str>) -> Answer<Checksums>,
    ) -> Answer<Self> {
        let headers = &parts.headers;
        if headers.contains_key(CONTENT_RANGE) {
            return Err(Refusal::new(StatusCode::BAD_REQUEST, "a file is put whole, and not in ranges"));
        }
        let number = |text: &str| text.parse().ok().filter(|size| *size <= MAX_SIZE);
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let mut size = text(CONTENT_LENGTH.as_str()).and_then(number);
        let signed = match shown {
            Shown::Signature(signed) => Some(signed),
            Shown::Header | Shown::Link(_) => None,
        };
        let payload = signed.as_ref().map(|signed| signed.payload.clone());
        let streamed = payload.as_deref().and_then(|payload| payload.strip_prefix("STREAMING-"));
        let checksums = told(headers, payload.as_deref())?;
        let mut is_vouched = checksums.are_told();
        let decoder = match streamed {
            Some("UNSIGNED-PAYLOAD-TRAILER") => Some(Decoder::new(None, Trailing::Lines)),
            Some(how @ ("AWS4-HMAC-SHA256-PAYLOAD" | "AWS4-HMAC-SHA256-PAYLOAD-TRAILER")) => {
                is_vouched = true;
                let trailing = if how.ends_with("TRAILER") { Trailing::Lines } else { Trailing::Nothing };
                Some(Decoder::new(signed, trailing))
            }
            Some(_) => {
                let why = "bodies are signed by AWS4-HMAC-SHA256, or not";
                return Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, why));
            }
            None => None,
        };
        let taken_apart = if decoder.is_some() { "aws-chunked" } else { "identity" };
        let is_known = |how: &str| matches!(how, "" | "identity") || how.eq_ignore_ascii_case(taken_apart);
        if !text(CONTENT_ENCODING.as_str()).unwrap_or_default().split(',').map(str::trim).all(is_known) {
            let why = "a body is taken as it is: leave Content-Encoding out";
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
        }
        if decoder.is_some() {
            size = text("x-amz-decoded-content-length").and_then(number);
        }
        if !is_vouched && !unverified {
            let why = "nothing says what the body must be: send Content-MD5, Repr-Digest or x-amz-checksum-sha256 (`tidegate endpoint --allow-unverified-put` takes it as it comes)";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, why));
        }
        Ok(Self { size, checksums, decoder })
    }
}

/// What a body is written to.
pub(crate) trait Taker: Send + 'static {
    /// Takes the next bytes.
    fn take(&mut self, bytes: &[u8]) -> Answer<()>;
}

/// Gives `body` of whom may do what `access` says and has the `share` to `taker`, checks it, and answers with the taker and the
/// sums that hold.
pub(crate) async fn receive<T: Taker>(
    (access, share): (&Access, &Share),
    body: Body,
    expected: Expected,
    taker: T,
) -> Answer<(T, Verified)> {
    let Expected { size, checksums, mut decoder } = expected;
    // What is gathered, and what comes meanwhile.
    let _held = share.memory(2 * GATHERED)?;
    let mut stream = body.into_data_stream();
    let mut state = (checksums, taker, 0_u64);
    let mut is_over = false;
    while !is_over {
        let mut gathered: Vec<u8> = Vec::new();
        let (mut until, mut came) = (Instant::now() + SILENCE, 0);
        while gathered.len() < GATHERED && !is_over {
            let next = timeout_at(until, stream.next()).await;
            let next: Option<Result<Bytes, axum::Error>> = next.map_err(|_| {
                Refusal::new(StatusCode::REQUEST_TIMEOUT, "next to nothing of the body came for a minute")
                    .called("RequestTimeout")
            })?;
            match next {
                None => is_over = true,
                Some(Err(_)) => return Err(broken()),
                Some(Ok(bytes)) => {
                    came += bytes.len();
                    if came >= MIN_PACE {
                        (until, came) = (Instant::now() + SILENCE, 0);
                    }
                    match &mut decoder {
                        None => gathered.extend_from_slice(&bytes),
                        Some(decoder) => decoder.take(&bytes, &mut gathered)?,
                    }
                }
            }
        }
        let access = access.clone();
        let taken = spawn_blocking(move || {
            let (checksums, taker, length) = &mut state;
            checksums.update(&gathered);
            *length += gathered.len() as u64;
            let result = match (access.check_valid(), size.is_some_and(|size| *length > size)) {
                (Err(error), _) => Err(error.into()),
                (Ok(()), true) => Err(broken()),
                (Ok(()), false) => taker.take(&gathered),
            };
            (state, result)
        });
        let (back, result) = taken.await.map_err(|_| broken())?;
        result?;
        state = back;
    }
    let (mut checksums, taker, length) = state;
    if size.is_some_and(|size| size != length) {
        return Err(broken());
    }
    if let Some(decoder) = decoder {
        for (name, value) in decoder.finish()? {
            checksums.hear(&name, &value);
        }
    }
    Ok((taker, checksums.check()?))
}

/// A document that comes.
#[derive(Default)]
struct Arriving(Vec<u8>);

impl Taker for Arriving {
    fn take(&mut self, bytes: &[u8]) -> Answer<()> {
        if self.0.len() + bytes.len() > MAX_DOCUMENT {
            return Err(Refusal::senseless("the document is too long").called("MaxMessageLengthExceeded"));
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// A document, and what it takes in memory.
pub(crate) struct Document {
    /// What it says.
    pub text: String,
    _held: Held,
}

/// The document that a body is, held to what was said of it.
pub async fn document(who: (&Access, &Share), body: Body, expected: Expected) -> Answer<Document> {
    // As text, and as what it says.
    let most = expected
        .size
        .and_then(|size| usize::try_from(size).ok())
        .map_or(MAX_DOCUMENT, |size| size.min(MAX_DOCUMENT));
    let held = who.1.memory(3 * most)?;
    let (Arriving(bytes), _) = receive(who, body, expected, Arriving::default()).await?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Refusal::senseless("the document is no text").called("MalformedXML"))?;
    Ok(Document { text, _held: held })
}

/// What takes a body in which nothing may be.
struct Nothing(StatusCode);

impl Taker for Nothing {
    fn take(&mut self, bytes: &[u8]) -> Answer<()> {
        match bytes {
            [] => Ok(()),
            _ => Err(Refusal::new(self.0, "this request has no body here: nothing of it would be kept")),
        }
    }
}

/// Refuses, with `status`, a body in which something is.
pub(crate) async fn nothing(
    who: (&Access, &Share),
    body: Body,
    expected: Expected,
    status: StatusCode,
) -> Answer<()> {
    receive(who, body, expected, Nothing(status)).await.map(drop)
}

fn broken() -> Refusal {
    Refusal::senseless("the body is not as long as was said").called("IncompleteBody")
}

/// When the file was modified that is sent, as rclone and `tidegate put` say it; else now. Of a request that is signed only
/// what its signature covers counts.
pub(crate) fn modified(headers: &HeaderMap, is_signed: bool) -> Timestamp {
    let names = ["x-amz-meta-mtime", "x-oc-mtime"];
    let names = if is_signed { &names[..1] } else { &names };
    let said = names.iter().find_map(|name| headers.get(*name)?.to_str().ok());
    said.and_then(time).unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp { seconds: now.as_secs() as i64, nanoseconds: now.subsec_nanos() }
    })
}

/// The time that `seconds.fraction` is.
fn time(text: &str) -> Option<Timestamp> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) {
        return None;
    }
    let nanoseconds = format!("{fraction:0<9}")[..9].parse().ok()?;
    Some(Timestamp { seconds: seconds.parse().ok().filter(|seconds| *seconds < 1 << 40)?, nanoseconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_seconds_and_a_fraction() {
        let at = |seconds, nanoseconds| Some(Timestamp { seconds, nanoseconds });
        for (text, expected) in [
            ("0", at(0, 0)),
            ("1618235533.123456789", at(1_618_235_533, 123_456_789)),
            ("1.5", at(1, 500_000_000)),
            ("1.1234567899", at(1, 123_456_789)),
            ("-1", None),
            ("", None),
            ("1.", None),
            ("9999999999999999", None),
            ("1e9", None),
        ] {
            assert_eq!(time(text), expected, "{text}");
        }
    }
}
