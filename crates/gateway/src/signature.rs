//! Requests signed as AWS has it (Signature Version 4), by a header or in a URL that was signed before.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::percent_decode_str;
use sha2::{Digest as _, Sha256};
use tidegate_transfer::endpoint::access::url_path;

use crate::names::value;
use crate::refusal::{Answer, Refusal};

/// How requests are signed.
const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The header that says what the body is: its SHA-256, or a word for how it is vouched for.
const PAYLOAD: &str = "x-amz-content-sha256";

/// The parameter that a signed URL has.
pub(crate) const PARAMETER: &str = "X-Amz-Signature";

/// How far clocks may be apart.
const SKEW: Duration = Duration::from_secs(15 * 60);

/// How long a signed URL holds at most.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// Whether an `Authorization` header has a signature.
pub(crate) fn is_signed(header: &str) -> bool {
    header.starts_with(ALGORITHM)
}

/// What a request says of its signature, not checked.
#[derive(Debug)]
pub(crate) struct Claimed {
    id: String,
    scope: Scope,
    signature: String,
    canonical: String,
    payload: String,
}

/// When and for what a key holds.
#[derive(Clone, Debug)]
struct Scope {
    time: String,
    day: String,
    region: String,
    service: String,
}

/// A signature that holds, and what it says of the body.
#[derive(Debug)]
pub(crate) struct Signed {
    /// What the request says of its body: its SHA-256, or a word for how it is vouched for.
    pub payload: String,
    key: Vec<u8>,
    scope: Scope,
    signature: String,
}

/// Reads what the request of `parts` says, and checks all but the signature.
pub fn read(parts: &Parts, query: &[(String, String)], now: SystemTime) -> Answer<Claimed> {
    let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let header = header.filter(|header| is_signed(header));
    let malformed =
        || Refusal::senseless("the signature cannot be read").called("AuthorizationHeaderMalformed");
    let field = |name: &str| match header {
        Some(header) => header[ALGORITHM.len()..]
            .split(',')
            .filter_map(|field| field.trim().split_once('='))
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.to_owned()),
        None => value(query, &format!("X-Amz-{name}")).map(str::to_owned),
    };
    let (credential, signed) =
        (field("Credential").ok_or_else(malformed)?, field("SignedHeaders").ok_or_else(malformed)?);
    let signature = field("Signature").ok_or_else(malformed)?;
    let [id, day, region, service, "aws4_request"] = credential.split('/').collect::<Vec<_>>()[..] else {
        return Err(malformed());
    };
    if header.is_none() && value(query, "X-Amz-Algorithm") != Some(ALGORITHM) {
        let why = format!("a URL is signed by {ALGORITHM}");
        return Err(Refusal::senseless(why).called("AuthorizationQueryParametersError"));
    }
    let time = match header {
        Some(_) => text(&parts.headers, "x-amz-date").map(str::to_owned),
        None => value(query, "X-Amz-Date").map(str::to_owned),
    };
    let time = time.ok_or_else(malformed)?;
    let began = instant(&time).filter(|_| time.starts_with(day)).ok_or_else(malformed)?;
    let early = began.duration_since(now).is_ok_and(|ahead| ahead > SKEW);
    let age = now.duration_since(began).unwrap_or_default();
    let lifetime = match header {
        Some(_) => SKEW,
        None => {
            let seconds =
                value(query, "X-Amz-Expires").and_then(|text| text.parse().ok()).ok_or_else(malformed)?;
            let lifetime = Duration::from_secs(seconds);
            if lifetime > LONGEST {
                return Err(Refusal::senseless("a signed URL holds seven days at most"));
            }
            lifetime
        }
    };
    if early || (header.is_some() && age > lifetime) {
        let why = "the request was signed at another time than now: set the clock";
        return Err(Refusal::new(StatusCode::FORBIDDEN, why).called("RequestTimeTooSkewed"));
    }
    if age > lifetime {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "the signed URL has expired"));
    }
    let payload = match (text(&parts.headers, PAYLOAD), header) {
        (Some(payload), _) => payload,
        (None, Some(_)) => return Err(malformed()),
        (None, None) => value(query, "X-Amz-Content-Sha256").unwrap_or("UNSIGNED-PAYLOAD"),
    };
    if !is_known(payload) {
        let why = format!("{PAYLOAD} is the body's SHA-256, UNSIGNED-PAYLOAD, or how its chunks are signed");
        return Err(Refusal::senseless(why).called("InvalidArgument"));
    }
    all_are_signed(&parts.headers, &signed)?;
    let scope = Scope { time, day: day.to_owned(), region: region.to_owned(), service: service.to_owned() };
    let canonical = canonical(parts, &signed, payload).ok_or_else(malformed)?;
    Ok(Claimed { id: id.to_owned(), scope, signature, canonical, payload: payload.to_owned() })
}

/// Whether this can be said of a body.
fn is_known(payload: &str) -> bool {
    let is_sum = payload.len() == 64 && payload.bytes().all(|b| b.is_ascii_hexdigit());
    is_sum || payload == "UNSIGNED-PAYLOAD" || payload.starts_with("STREAMING-")
}

/// Refuses a request with a header that means something to S3 and is not among those `signed`: whoever has a signed URL, or
/// stands on the way, could add it. One that comes twice is read once, and the signature holds for both together.
fn all_are_signed(headers: &HeaderMap, signed: &str) -> Answer<()> {
    let refuse = |why: String| Err(Refusal::new(StatusCode::FORBIDDEN, why));
    let ours = headers.keys().map(HeaderName::as_str).filter(|name| name.starts_with("x-amz-"));
    for name in [HOST.as_str()].into_iter().chain(ours) {
        if !signed.split(';').any(|known| known.eq_ignore_ascii_case(name)) {
            return refuse(format!("the header {name} is not signed: sign it, or leave it out"));
        }
        if headers.get_all(name).iter().count() > 1 {
            return refuse(format!("the header {name} comes more than once"));
        }
    }
    Ok(())
}

/// The form of a request that is signed.
fn canonical(parts: &Parts, signed: &str, payload: &str) -> Option<String> {
    let path: Vec<u8> = percent_decode_str(parts.uri.path()).collect();
    // Exact whatever their bytes are.
    let pairs = parts.uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<(String, String)> = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (encoded(name), encoded(value)))
        .filter(|(name, _)| name != PARAMETER)
        .collect();
    pairs.sort_unstable();
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut headers = String::new();
    for name in signed.split(';') {
        let values = parts.headers.get_all(name).iter().map(|value| value.to_str().ok());
        let mut values = values
            .map(|value| Some(value?.split_whitespace().collect::<Vec<_>>().join(" ")))
            .collect::<Option<Vec<_>>>()?;
        if values.is_empty() && name == HOST.as_str() {
            values.push(parts.uri.host()?.to_owned());
        }
        headers.push_str(&format!("{name}:{}\n", values.join(",")));
    }
    Some(format!(
        "{}\n{}\n{}\n{headers}\n{signed}\n{payload}",
        parts.method,
        url_path(&path),
        pairs.join("&")
    ))
}

/// A parameter's name or value of a URL as it is signed: with its slashes encoded, too.
fn encoded(text: &str) -> String {
    let bytes: Vec<u8> = percent_decode_str(text).collect();
    url_path(&bytes).replace('/', "%2F")
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// The time that `20260102T030405Z` is.
fn instant(text: &str) -> Option<SystemTime> {
    let time = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", text).ok()?;
    let second = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second();
    UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(second).ok()?))
}

impl Claimed {
    /// The key pair's public half.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The signature, if it was made with `secret`.
    pub fn check(self, secret: &str) -> Answer<Signed> {
        let Self { scope, signature, canonical, payload, .. } = self;
        let key = scope.key(secret);
        let wanted = scope.to_sign(ALGORITHM, &hash(canonical.as_bytes()));
        if !is_mac(&key, &wanted, &signature) {
            let why = "the signature does not match: check the key pair, and that nothing on the way changes paths or headers";
            return Err(Refusal::new(StatusCode::FORBIDDEN, why).called("SignatureDoesNotMatch"));
        }
        Ok(Signed { payload, key, scope, signature })
    }
}

impl Scope {
    fn key(&self, secret: &str) -> Vec<u8> {
        let mut key = format!("AWS4{secret}").into_bytes();
        for part in [&self.day[..], &self.region, &self.service, "aws4_request"] {
            key = mac(&key, part.as_bytes()).finalize().into_bytes().to_vec();
        }
        key
    }

    fn to_sign(&self, algorithm: &str, rest: &str) -> String {
        let Self { time, day, region, service } = self;
        format!("{algorithm}\n{time}\n{day}/{region}/{service}/aws4_request\n{rest}")
    }
}

impl Signed {
    /// Checks the signature of a body's next chunk, of which this is the SHA-256; it depends on all before it.
    pub(crate) fn check_chunk(&mut self, sum: &[u8], signature: &str) -> bool {
        let rest = format!("{}\n{}\n{}", self.signature, hash(b""), HEXLOWER.encode(sum));
        self.check_next("AWS4-HMAC-SHA256-PAYLOAD", &rest, signature)
    }

    /// Checks the signature of the lines behind the last chunk.
    pub(crate) fn check_trailers(&mut self, lines: &str, signature: &str) -> bool {
        let rest = format!("{}\n{}", self.signature, hash(lines.as_bytes()));
        self.check_next("AWS4-HMAC-SHA256-TRAILER", &rest, signature)
    }

    fn check_next(&mut self, what: &str, rest: &str, signature: &str) -> bool {
        let holds = is_mac(&self.key, &self.scope.to_sign(what, rest), signature);
        self.signature = signature.to_owned();
        holds
    }
}

fn hash(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

fn mac(key: &[u8], text: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("keys of any length do");
    mac.update(text);
    mac
}

/// Compares in constant time.
fn is_mac(key: &[u8], text: &str, signature: &str) -> bool {
    let Ok(signature) = HEXLOWER.decode(signature.as_bytes()) else { return false };
    mac(key, text.as_bytes()).verify_slice(&signature).is_ok()
}

/// The headers that sign a request with `headers`, all of which are covered.
#[cfg(test)]
pub(crate) fn sign(
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    (id, secret): (&str, &str),
    now: SystemTime,
) -> Vec<(String, String)> {
    let now = jiff::Timestamp::try_from(now).expect("a time").strftime("%Y%m%dT%H%M%SZ").to_string();
    let day = now[..8].to_owned();
    let mut headers: Vec<(&str, &str)> = [headers, &[("x-amz-date", &now)]].concat();
    headers.sort_unstable();
    let mut request = axum::http::Request::builder().method(method).uri(target);
    for (name, value) in &headers {
        request = request.header(*name, *value);
    }
    let parts = request.body(()).expect("a request").into_parts().0;
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let signed = names.join(";");
    let payload = text(&parts.headers, PAYLOAD).expect("said");
    let canonical = canonical(&parts, &signed, payload).expect("readable");
    let scope = Scope { time: now.clone(), day, region: "auto".to_owned(), service: "s3".to_owned() };
    let signature = HEXLOWER.encode(
        &mac(&scope.key(secret), scope.to_sign(ALGORITHM, &hash(canonical.as_bytes())).as_bytes())
            .finalize()
            .into_bytes(),
    );
    let credential = format!("{id}/{}/auto/s3/aws4_request", scope.day);
    let value = format!("{ALGORITHM} Credential={credential},SignedHeaders={signed},Signature={signature}");
    vec![("x-amz-date".to_owned(), now), ("authorization".to_owned(), value)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::names::query;

    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

    fn parts(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = axum::http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    fn checked(parts: &Parts, now: &str) -> Answer<Signed> {
        let query = query(parts.uri.query().unwrap_or_default());
        read(parts, &query, instant(now).expect("a time"))?.check(SECRET)
    }

    /// The signature that a request gets.
    fn signature(parts: &Parts, signed: &str, payload: &str, (service, secret): (&str, &str)) -> String {
        let time = text(&parts.headers, "x-amz-date").expect("said").to_owned();
        let (day, region) = (time[..8].to_owned(), "us-east-1".to_owned());
        let scope = Scope { time, day, region, service: service.to_owned() };
        let canonical = canonical(parts, signed, payload).expect("readable");
        let wanted = scope.to_sign(ALGORITHM, &hash(canonical.as_bytes()));
        HEXLOWER.encode(&mac(&scope.key(secret), wanted.as_bytes()).finalize().into_bytes())
    }

    /// The cases of the test suite that AWS publishes for Signature Version 4, as far as S3 makes paths the same.
    #[test]
    fn requests_have_one_form_however_they_are_written() {
        let unreserved = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let (path, query) = (format!("/{unreserved}"), format!("/?{unreserved}={unreserved}"));
        let form = ("content-type", "application/x-www-form-urlencoded");
        let no_more = &[][..];
        for (request, headers, expected) in [
            ("GET /", no_more, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            ("POST /", no_more, "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
            (
                &format!("GET {path}"),
                no_more,
                "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
            ),
            (
                &format!("GET {query}"),
                no_more,
                "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
            ),
            ("GET /%e1%88%B4", no_more, "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
            (
                "GET /?%E1%88%b4=bar",
                no_more,
                "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
            ),
            (
                "GET /?Param1=value1",
                no_more,
                "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb",
            ),
            (
                "GET /?Param2=value2&Param1=value1",
                no_more,
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            (
                "GET /?Param1=value2&&Param1=V%61lue1",
                no_more,
                "eedbc4e291e521cf13422ffca22be7d2eb8146eecf653089df300a15b2382bd1",
            ),
            (
                "GET /?Param1=value2&Param1=value1",
                no_more,
                "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694",
            ),
            (
                "GET /",
                &[("My-Header1", "value2"), ("My-Header1", "value2"), ("My-Header1", "value1")],
                "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
            ),
            (
                "GET /",
                &[("My-Header1", " value1"), ("My-Header2", " \"a   b   c\" ")],
                "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
            ),
            (
                "POST /",
                &[("My-Header1", "VALUE1")],
                "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
            ),
            ("POST /", &[form], "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"),
        ] {
            let (method, target) = request.split_once(' ').expect("two");
            let given =
                [&[("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")], headers].concat();
            let parts = parts(method, target, &given);
            let mut names: Vec<&str> = parts.headers.keys().map(HeaderName::as_str).collect();
            names.sort_unstable();
            let body = if headers == [form] { "Param1=value1" } else { "" };
            let pair = ("service", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
            let made = signature(&parts, &names.join(";"), &hash(body.as_bytes()), pair);
            assert_eq!(made, expected, "{request} {headers:?}");
        }
    }

    /// The examples in AWS' pages on signing by the `Authorization` header and in a URL, that are not asked for here.
    #[test]
    fn sub_resources_names_and_urls_are_signed_as_amazon_has_them() {
        let (host, date) = (("host", "examplebucket.s3.amazonaws.com"), ("x-amz-date", "20130524T000000Z"));
        let (empty, sum) = (hash(b""), hash(b"Welcome to Amazon S3."));
        let lifecycle = parts("GET", "/?lifecycle", &[host, date, ("x-amz-content-sha256", &empty)]);
        assert_eq!(
            signature(&lifecycle, "host;x-amz-content-sha256;x-amz-date", &empty, ("s3", SECRET)),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
        );
        let more = [
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
            ("x-amz-content-sha256", &sum),
        ];
        let put = parts("PUT", "/test$file.text", &[&[host, date], &more[..]].concat());
        assert_eq!(
            signature(
                &put,
                "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
                &sum,
                ("s3", SECRET)
            ),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
        );
        let url = "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
                   &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
                   &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        for (url, now, is_let_in) in [
            (url.to_owned(), "20130524T120000Z", true),
            (url.to_owned(), "20130525T000001Z", false),
            (url.replace("HMAC-SHA256", "HMAC-SHA1"), "20130524T120000Z", false),
            (url.replace("X-Amz-Algorithm=AWS4-HMAC-SHA256&", ""), "20130524T120000Z", false),
        ] {
            assert_eq!(checked(&parts("GET", &url, &[host]), now).is_ok(), is_let_in, "{url} {now}");
        }
    }

    /// The examples in AWS' page on signing by the `Authorization` header.
    #[test]
    fn known_requests_are_let_in() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let credential = "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request";
        let host = ("host", "examplebucket.s3.amazonaws.com");
        let with = |uri: &str, signature: &str, more: &[(&'static str, &'static str)]| {
            let names: Vec<&str> = ["host"]
                .into_iter()
                .chain(more.iter().map(|(name, _)| *name))
                .chain(["x-amz-content-sha256", "x-amz-date"])
                .collect();
            let value =
                format!("{ALGORITHM} {credential},SignedHeaders={},Signature={signature}", names.join(";"));
            let mut headers = vec![
                host,
                ("authorization", &value),
                ("x-amz-date", "20130524T000000Z"),
                ("x-amz-content-sha256", empty),
            ];
            headers.extend(more);
            parts("GET", uri, &headers)
        };
        let get = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        let get = with("/test.txt", get, &[("range", "bytes=0-9")]);
        let list = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";
        let list = with("/?max-keys=2&prefix=J", list, &[]);
        for request in [&get, &list] {
            checked(request, "20130524T001459Z").expect("let in");
            let late = checked(request, "20130524T001501Z").expect_err("late");
            assert_eq!(late.code, "RequestTimeTooSkewed");
        }
        let other = with("/test.txt", &"0".repeat(64), &[("range", "bytes=0-9")]);
        assert_eq!(checked(&other, "20130524T000000Z").expect_err("forged").code, "SignatureDoesNotMatch");
    }

    /// The example in AWS' page on signed uploads in chunks.
    #[test]
    fn chunks_are_signed_one_after_the_other() {
        let value = format!(
            "{ALGORITHM} Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class,Signature=4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
        );
        let request = parts(
            "PUT",
            "/examplebucket/chunkObject.txt",
            &[
                ("host", "s3.amazonaws.com"),
                ("x-amz-date", "20130524T000000Z"),
                ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
                ("authorization", &value),
                ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
                ("content-encoding", "aws-chunked"),
                ("x-amz-decoded-content-length", "66560"),
                ("content-length", "66824"),
            ],
        );
        let mut signed = checked(&request, "20130524T000000Z").expect("let in");
        let chunks = [
            (65536, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"),
            (1024, "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"),
            (0, "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"),
        ];
        for (length, signature) in chunks {
            assert!(signed.check_chunk(&Sha256::digest(vec![b'a'; length]), signature), "{length}");
        }
        assert!(!signed.check_chunk(&Sha256::digest(b"a"), chunks[2].1));
    }

    /// The example in AWS' page on signed uploads in chunks with lines behind them.
    #[test]
    fn lines_behind_chunks_are_signed_too() {
        let value = format!(
            "{ALGORITHM} Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class;x-amz-trailer,Signature=106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"
        );
        let request = parts(
            "PUT",
            "/examplebucket/chunkObject.txt",
            &[
                ("host", "s3.amazonaws.com"),
                ("x-amz-date", "20130524T000000Z"),
                ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
                ("authorization", &value),
                ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"),
                ("content-encoding", "aws-chunked"),
                ("x-amz-decoded-content-length", "66560"),
                ("x-amz-trailer", "x-amz-checksum-crc32c"),
            ],
        );
        let signed = || {
            let mut signed = checked(&request, "20130524T000000Z").expect("let in");
            for (length, signature) in [
                (65536, "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2"),
                (1024, "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7"),
                (0, "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992"),
            ] {
                assert!(signed.check_chunk(&Sha256::digest(vec![b'a'; length]), signature), "{length}");
            }
            signed
        };
        let signature = "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435";
        assert!(signed().check_trailers("x-amz-checksum-crc32c:sOO8/Q==\n", signature));
        assert!(!signed().check_trailers("x-amz-checksum-crc32c:sOO8/g==\n", signature));
    }

    #[test]
    fn every_header_that_means_something_to_s3_is_signed() {
        let sign = |signed: &str| {
            let url = rusty_s3::signing::sign(
                &"2026-01-02T03:04:05Z".parse().expect("a time"),
                rusty_s3::Method::Put,
                url::Url::parse("https://h.example:1/b/key").expect("a URL"),
                "ID",
                SECRET,
                None,
                "auto",
                60,
                std::iter::empty(),
                signed.split(';').filter_map(|pair| pair.split_once('=')),
            );
            url.as_str().replace("https://h.example:1", "")
        };
        let ask = |signed: &str, sent: &[(&str, &str)]| {
            let headers = [&[("host", "h.example:1")], sent].concat();
            checked(&parts("PUT", &sign(signed), &headers), "20260102T030405Z").map(|signed| signed.payload)
        };
        let (source, sum) = (("x-amz-copy-source", "/b/other"), "a".repeat(64));
        assert_eq!(
            ask("", &[("range", "bytes=0-1"), ("content-md5", "x")]).expect("let in"),
            "UNSIGNED-PAYLOAD"
        );
        ask("x-amz-copy-source=/b/other", &[source]).expect("signed");
        for (signed, sent) in [
            ("", &[source][..]),
            ("", &[("x-amz-meta-mtime", "1")]),
            ("", &[("x-amz-metadata-directive", "REPLACE")]),
            ("", &[("x-amz-trailer", "x-amz-checksum-crc32")]),
            ("", &[("x-amz-whatever-comes", "")]),
            ("", &[("x-amz-content-sha256", &sum)]),
            ("x-amz-copy-source=/b/other", &[("x-amz-copy-source", "/b/another")]),
            // Both together are what was signed, and the first alone is what would be read.
            ("x-amz-copy-source=/b/a,/b/c", &[("x-amz-copy-source", "/b/a"), ("x-amz-copy-source", "/b/c")]),
        ] {
            let refused = ask(signed, sent).expect_err("not signed");
            assert_eq!(refused.status, StatusCode::FORBIDDEN, "{sent:?}: {}", refused.message);
        }
    }

    proptest! {
        #[test]
        fn whatever_is_said_of_a_signature_lets_nobody_in(words in "[A-Za-z0-9/=&,;% -]{0,60}", date in "[0-9TZ]{0,20}") {
            let fields = format!("{ALGORITHM} Credential={words},SignedHeaders={words};host,Signature={words}");
            let headers = [("host", "h"), ("x-amz-date", &date[..]), ("x-amz-content-sha256", "x"), ("authorization", &fields)];
            prop_assert!(checked(&parts("GET", "/", &headers), "20130524T000000Z").is_err());
        }
    }

    #[test]
    fn what_is_no_utf_8_is_signed_byte_by_byte() {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let ask = |signed: &str, sent: &str| {
            let headers = [("host", "h"), ("x-amz-content-sha256", "UNSIGNED-PAYLOAD")];
            let made = sign("GET", signed, &headers, ("ID", SECRET), now);
            let made: Vec<(&str, &str)> = made.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            let parts = parts("GET", sent, &[&headers, &made[..]].concat());
            read(&parts, &query(parts.uri.query().unwrap_or_default()), now)?.check(SECRET)
        };
        ask("/b?prefix=%FF%2f", "/b?prefix=%ff%2F").expect("let in");
        ask("/b?prefix=%FF", "/b?prefix=%FE").expect_err("another one");
        ask("/b/%FF", "/b/%FE").expect_err("another one");
    }

    #[test]
    fn signed_urls_hold_as_long_as_they_say_and_for_what_was_signed() {
        let url = rusty_s3::signing::sign(
            &"2026-01-02T03:04:05Z".parse().expect("a time"),
            rusty_s3::Method::Get,
            url::Url::parse("https://h.example:1/b/a%20b%2Bc").expect("a URL"),
            "ID",
            SECRET,
            None,
            "auto",
            60,
            [("prefix", "a/b c")].into_iter(),
            std::iter::empty(),
        );
        let uri = url.as_str().replace("https://h.example:1", "");
        let ask = |uri: &str, method: &str, now: &str| {
            checked(&parts(method, uri, &[("host", "h.example:1")]), now)
        };
        ask(&uri, "GET", "20260102T030505Z").expect("let in");
        ask(&uri, "GET", "20260102T030506Z").expect_err("over");
        ask(&uri, "GET", "20260102T020000Z").expect_err("not begun");
        ask(&uri, "PUT", "20260102T030405Z").expect_err("another method");
        for (from, to) in
            [("prefix=a", "prefix=b"), ("/b/", "/c/"), ("Expires=60", "Expires=61"), ("%2Fauto", "%2Fautx")]
        {
            ask(&uri.replace(from, to), "GET", "20260102T030405Z").expect_err(to);
        }
        for bad in [
            "X-Amz-Signature=",
            "X-Amz-Signature=zz&X-Amz-Credential=a/b",
            "X-Amz-Signature=&X-Amz-Credential=////&X-Amz-SignedHeaders=&X-Amz-Date=x",
        ] {
            ask(&format!("/?{bad}"), "GET", "20260102T030405Z").expect_err(bad);
        }
    }
}
