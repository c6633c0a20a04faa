//! Objects of Google Cloud Storage, against a server that says what Google documents of its XML interface.

use std::io::Read as _;
use std::sync::Arc;

use data_encoding::BASE64;
use testkit::noise;
use testkit::scripted::{Answer, Request, Scripted, Then, http};
use tidegate_fetch::checksum::{Algorithm, Hashers};
use tidegate_fetch::record::Named;
use tidegate_fetch::remote::gs_settings::GsSettings;
use tidegate_fetch::remote::servers::{ServerSettings, Servers};
use tidegate_fetch::remote::{Ask, Remote, Remotes as _, Why};
use tidegate_transfer::error::ErrorKind;
use url::Url;

const TOKEN: &str = "ya29.a-token";
const PROJECT: &str = "who-pays";

/// A bucket `open` for everybody, and `pays`, whose requesters pay.
fn store(content: Vec<u8>) -> Scripted {
    Scripted::http(move |request| {
        let url = Url::parse(&format!("http://h{}", request.path())).expect("a path");
        let query =
            |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        let paid = query("userProject").as_deref() == Some(PROJECT);
        let known = request.header("authorization") == Some(&format!("Bearer {TOKEN}")[..]);
        if url.path().starts_with("/pays") && !(paid && known) {
            let why = if known { "UserProjectMissing" } else { "AccessDenied" };
            return refuse(if known { 400 } else { 403 }, why);
        }
        match url.path() {
            "/open" | "/pays" => {
                list(&query("prefix").unwrap_or_default(), query("continuation-token").as_deref())
            }
            "/open/runs/a%20b.gz" | "/pays/x" => object(request, &content),
            _ => refuse(404, "NoSuchKey"),
        }
    })
}

fn refuse(status: u16, code: &str) -> Answer {
    let text =
        format!("<?xml version='1.0'?><Error><Code>{code}</Code><Message>Bucket says no.</Message></Error>");
    let length = text.len().to_string();
    (http(&format!("{status} No"), &[("Content-Length", &length)], text.as_bytes()), Then::Keep)
}

fn list(prefix: &str, from: Option<&str>) -> Answer {
    let (key, size, more) = match from {
        None => (
            "a%20b.gz",
            300_000,
            "<IsTruncated>true</IsTruncated><NextContinuationToken>t/2</NextContinuationToken>",
        ),
        Some("t/2") => ("deep/c", 7, "<IsTruncated>false</IsTruncated>"),
        Some(other) => panic!("{other} leads nowhere"),
    };
    let text = format!(
        "<ListBucketResult><EncodingType>url</EncodingType>{more}<Contents><Key>{prefix}{key}</Key>\
         <Size>{size}</Size></Contents></ListBucketResult>"
    );
    let length = text.len().to_string();
    (http("200 OK", &[("Content-Length", &length)], text.as_bytes()), Then::Keep)
}

fn object(request: &Request, content: &[u8]) -> Answer {
    let mut hashers = Hashers::new([Algorithm::Crc32c, Algorithm::Md5]);
    hashers.update(content);
    let sums = hashers.finish();
    let base64 = |algorithm| BASE64.encode(sums.get(algorithm).expect("computed"));
    let crc = format!("crc32c={}", base64(Algorithm::Crc32c));
    let md5 = format!("md5={}", base64(Algorithm::Md5));
    let range = request.header("range").and_then(|range| {
        let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
        let first: usize = first.parse().ok()?;
        Some(first..last.parse::<usize>().map_or(content.len(), |last| content.len().min(last + 1)))
    });
    let (status, part) = match range {
        Some(range) => ("206 Partial Content", range),
        None => ("200 OK", 0..content.len()),
    };
    let length = part.len().to_string();
    let place = format!("bytes {}-{}/{}", part.start, part.end.max(1) - 1, content.len());
    let mut headers = vec![
        ("ETag", "\"0a1b\""),
        ("x-goog-generation", "1"),
        ("x-goog-hash", &crc),
        ("x-goog-hash", &md5),
        ("x-goog-stored-content-encoding", "identity"),
        ("Accept-Ranges", "bytes"),
        ("Content-Length", &length),
    ];
    if status.starts_with("206") {
        headers.push(("Content-Range", &place));
    }
    let body = if request.lines[0].starts_with("HEAD") { &[][..] } else { &content[part] };
    (http(status, &headers, body), Then::Keep)
}

fn servers(store: &Scripted, token: bool, pays: bool) -> Servers {
    let gs = GsSettings {
        endpoint: store.url(""),
        token: token.then(|| TOKEN.to_owned()),
        project: pays.then(|| PROJECT.to_owned()),
    };
    Servers::new(&ServerSettings { gs: Some(gs), ..ServerSettings::default() })
}

fn url(text: &str) -> Url {
    Url::parse(text).expect("a URL")
}

fn ask(url: &Url, range: std::ops::Range<u64>) -> Ask<'_> {
    Ask { url, headers: &[], range, version: None }
}

fn read(remote: &mut dyn Remote, ask: &Ask<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    remote.open(ask).expect("an answer").body.read_to_end(&mut bytes).expect("read");
    bytes
}

#[test]
fn an_object_comes_whole_in_parts_and_with_its_sums() {
    let content = noise(1, 300_000);
    let store = store(content.clone());
    let servers = servers(&store, false, false);
    let (mut remote, url) = (servers.remote(), url("gs://open/runs/a%20b.gz"));
    assert!(read(&mut *remote, &ask(&url, 0..u64::MAX)) == content);
    assert!(read(&mut *remote, &ask(&url, 70_000..200_001)) == content[70_000..200_001]);
    let version = remote.look(&ask(&url, 0..u64::MAX)).expect("an answer");
    assert_eq!(version.bytes, Some(300_000));
    assert_eq!(version.checksums.algorithms().collect::<Vec<_>>(), [Algorithm::Crc32c, Algorithm::Md5]);
    // A part of that version and no other is asked for.
    let pinned = Ask { version: Some(&version), ..ask(&url, 0..10) };
    read(&mut *remote, &pinned);
    let requests = store.requests();
    assert_eq!(requests.last().and_then(|last| last.header("if-match")), Some("\"0a1b\""));
    for request in requests {
        assert_eq!(request.header("authorization"), None);
        assert!(!request.path().contains("userProject"), "nobody has agreed to pay: {}", request.path());
    }
    let refusal = remote.look(&ask(&self::url("gs://open/nothing"), 0..1)).expect_err("not there");
    assert_eq!(refusal.why, Why::Missing);
}

#[test]
fn who_pays_is_said_only_where_it_was_asked_for() {
    let content = noise(2, 1000);
    let store = store(content.clone());
    let url = url("gs://pays/x");
    let refused = |token, pays| {
        let error = servers(&store, token, pays).remote().open(&ask(&url, 0..9)).expect_err("refused").error;
        assert!(!error.message.contains(TOKEN), "{error}");
        error
    };
    let error = refused(true, false);
    assert!(
        error.message.contains("UserProjectMissing") && error.message.contains("--billing-project"),
        "{error}"
    );
    let error = refused(false, true);
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(error.message.contains("GOOGLE_OAUTH_ACCESS_TOKEN"), "{error}");
    let before = store.requests().len();
    let servers = servers(&store, true, true);
    assert!(read(&mut *servers.remote(), &ask(&url, 0..u64::MAX)) == content);
    let asked = store.requests();
    assert_eq!(asked.len(), before + 1);
    assert_eq!(asked[before].path(), format!("/pays/x?userProject={PROJECT}"));
}

#[test]
fn a_prefix_is_listed_page_by_page() {
    let store = store(Vec::new());
    let servers = servers(&store, true, true);
    let names = servers.list(&url("gs://pays/runs/")).expect("a prefix").expect("a client");
    let found: Vec<_> = names
        .map(|named| match named {
            Named::Record(record) => (record.urls[0].to_string(), record.path.to_string(), record.bytes),
            other => panic!("{other:?}"),
        })
        .collect();
    let wanted = [("gs://pays/runs/a%20b.gz", "a b.gz", 300_000), ("gs://pays/runs/deep/c", "deep/c", 7)];
    assert_eq!(found, wanted.map(|(url, path, bytes)| (url.to_owned(), path.to_owned(), Some(bytes))));
    for request in store.requests() {
        assert!(request.path().contains("list-type=2") && request.path().contains("userProject=who-pays"));
        assert!(request.header("authorization").is_some());
    }
    assert!(servers.list(&url("gs://pays/runs/x")).is_none(), "one object");
    let servers = Arc::new(self::servers(&store, false, false));
    let names = servers.list(&url("gs://pays/")).expect("a prefix").expect("a client");
    let Some(Named::Problem(_, error)) = names.last() else { panic!("it is refused") };
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
}
