//! Objects of S3-compatible stores: a moto that knows what S3 says, and an nginx for what only a real
//! web server shows (large offsets, restarts, connections), which is what anonymous S3 reading is.

use std::sync::Arc;

use tidegate_transfer::sys::sync::Mutex;

use crate::common::conformance::{Subject, ask, conforms, get};
use crate::common::moto::{self, Configured as _, Moto, NO_MOTO};
use testkit::nginx::Nginx;
use testkit::scripted::{Scripted, Then, http};
use testkit::{noise, skip};
use tidegate_control::ByteCount;
use tidegate_fetch::checksum::{Algorithm, Hashers};
use tidegate_fetch::put::s3::S3Target;
use tidegate_fetch::put::target::Target as _;
use tidegate_fetch::record::Named;
use tidegate_fetch::remote::patience::Patience;
use tidegate_fetch::remote::request::Requests;
use tidegate_fetch::remote::s3::calls::S3Client;
use tidegate_fetch::remote::s3::list::{names, names_by};
use tidegate_fetch::remote::servers::{ServerSettings, Servers};
use tidegate_fetch::remote::{Ask, Remotes, Why};
use tidegate_transfer::error::ErrorKind;
use url::Url;

fn moto() -> Option<Subject> {
    let server = Arc::new(Moto::start()?);
    let root = tempfile::tempdir().expect("a directory");
    let (directory, store) = (root.path().to_owned(), Arc::clone(&server));
    Some(Subject {
        remotes: Box::new(Servers::new(&server.settings())),
        url: Box::new(|path| Url::parse(&format!("s3://bucket/{path}")).expect("a URL")),
        restart: None,
        connections: None,
        denied: None,
        written: Some(Box::new(move |name| {
            store.put(name, &std::fs::read(directory.join(name)).expect("read"));
        })),
        root,
        _server: Box::new(server),
    })
}

fn anonymous() -> Option<Subject> {
    let root = tempfile::tempdir().expect("a directory");
    let served = tempfile::tempdir().expect("a directory");
    std::os::unix::fs::symlink(root.path(), served.path().join("bucket")).expect("linked");
    let nginx = Nginx::start(served.path())?;
    let endpoint = nginx.url("").to_string();
    let nginx = Arc::new(Mutex::new(nginx));
    let [for_restart, for_count] = [0; 2].map(|_| Arc::clone(&nginx));
    Some(Subject {
        remotes: Box::new(Servers::new(&moto::settings(&endpoint, false))),
        root,
        url: Box::new(|path| Url::parse(&format!("s3://bucket/{path}")).expect("a URL")),
        restart: Some(Box::new(move || for_restart.lock().restart())),
        connections: Some(Box::new(move || for_count.lock().connections())),
        denied: Some(Url::parse("s3://forbidden/x").expect("a URL")),
        written: None,
        _server: Box::new((nginx, served)),
    })
}

conforms!(s3_anonymous, anonymous(), "nginx is not installed");

/// Every case that a store in memory can have, against one server: it takes seconds to start.
#[test]
fn s3_signed() {
    use crate::common::conformance as case;
    let Some(mut subject) = moto() else { return skip("s3_signed", NO_MOTO) };
    let cases = [
        ("whole_file", case::whole_file as fn(&mut Subject)),
        ("every_shape_of_range", case::every_shape_of_range),
        ("beyond_the_end", case::beyond_the_end),
        ("empty_file", case::empty_file),
        ("odd_names", case::odd_names),
        ("missing_and_denied", case::missing_and_denied),
        ("changed_between_requests", case::changed_between_requests),
        ("small_files_share_a_connection", case::small_files_share_a_connection),
        ("a_body_may_be_left", case::a_body_may_be_left),
        ("several_workers_at_once", case::several_workers_at_once),
    ];
    for (name, case) in cases {
        eprintln!("{name}");
        case(&mut subject);
    }
}

fn client(settings: &ServerSettings, url: &Url) -> S3Client {
    S3Client::new(Requests::new(settings).client(url).expect("a client"), Arc::new(moto::signer(settings)))
}

#[test]
fn a_prefix_is_listed_page_after_page() {
    let Some(server) = Moto::start() else {
        return skip("a_prefix_is_listed_page_after_page", NO_MOTO);
    };
    server.put("runs/dir/", b"");
    // More than a page holds, and names that need encoding, in one prefix; others beside it.
    for i in 0..203 {
        server.put(&format!("runs/a/{i:04}.txt"), i.to_string().as_bytes());
    }
    for key in ["runs/b c+d%/é&<\"'.txt", "runs2/x", "other", "runs/../up", "runs//double"] {
        // Some cannot be written as a URL: put them through the signed way of an upload.
        if moto::object(key).url().is_ok() {
            server.put(key, b"x");
        }
    }
    let settings = server.settings();
    let list = |key: &str| {
        let url = Url::parse(&server.endpoint()).expect("a URL");
        names_by(client(&settings, &url), moto::object(key), Patience::default(), 50).collect::<Vec<_>>()
    };
    let (mut paths, mut problems) = (Vec::new(), Vec::new());
    for named in list("runs/") {
        match named {
            Named::Record(record) => paths.push(record),
            Named::Problem(key, error) => problems.push((key, error)),
            Named::LeftOut(path, _) => panic!("{path}"),
            Named::Note(note) => panic!("{note}"),
        }
    }
    assert_eq!(paths.len(), 204, "{problems:?}");
    assert_eq!(paths[7].path.as_bytes(), b"a/0007.txt");
    assert_eq!(paths[7].bytes, Some(1));
    let odd = &paths[203];
    assert_eq!(odd.path.as_bytes(), "b c+d%/é&<\"'.txt".as_bytes());
    // What was listed can be got.
    let mut remote = Servers::new(&settings).remote();
    let (_, _, data) = get(&mut *remote, &ask(&odd.urls[0], 0..u64::MAX)).expect("an answer");
    assert_eq!(data, b"x");
    // The key with an empty name in it is refused as a path, and the rest goes on.
    let kinds: Vec<_> = problems.iter().map(|(key, error)| (key.as_str(), error.kind)).collect();
    assert_eq!(kinds, [("s3://bucket/runs//double", ErrorKind::UnsafeName)]);
    let by_url = Servers::new(&settings).list(&moto::url("runs/a/")).expect("a prefix").expect("a client");
    assert_eq!(by_url.count(), 203);
    assert!(Servers::new(&settings).list(&moto::url("runs/a")).is_none(), "an object");
    let nothing = list("nothing/here/");
    assert!(matches!(&nothing[..], [Named::Problem(_, error)] if error.kind == ErrorKind::NotFound));
    let mut elsewhere = moto::object("x/");
    elsewhere.bucket = "no-such-bucket".to_owned();
    let url = Url::parse(&server.endpoint()).expect("a URL");
    let missing: Vec<_> = names(client(&settings, &url), elsewhere, Patience::default()).collect();
    assert!(
        matches!(&missing[..], [Named::Problem(_, error)] if error.message.contains("NoSuchBucket")),
        "{missing:?}"
    );
}

#[test]
fn a_listing_without_end_is_given_up() {
    let page = |of: &str, next: String| {
        let body = format!("<{of}><IsTruncated>true</IsTruncated>{next}</{of}>");
        (http("200 OK", &[("content-length", &body.len().to_string())], body.as_bytes()), Then::Keep)
    };
    let list = |names: fn(usize) -> (String, String), why: &str, most: usize| {
        let server = Scripted::http(move |request| {
            let (token, keys) = names(request.number);
            page("ListBucketResult", format!("<NextContinuationToken>{token}</NextContinuationToken>{keys}"))
        });
        let settings = moto::settings(server.url("").as_str(), true);
        let names = Servers::new(&settings).list(&moto::url("runs/")).expect("a prefix").expect("a client");
        let named: Vec<Named> = names.collect();
        let Some(Named::Problem(_, error)) = named.last() else { panic!("{named:?}") };
        assert!(error.kind == ErrorKind::Protocol && error.message.contains(why), "{error}");
        assert!(server.requests().len() <= most, "{} requests", server.requests().len());
        named.len() - 1
    };
    let key = |n: usize| format!("<Contents><Key>runs/{n}</Key><Size>1</Size></Contents>");
    // Ever new tokens, and nothing; the same after some files; and a circle of full pages.
    assert_eq!(list(|n| (n.to_string(), String::new()), "has no end", 110), 0);
    let some = |n: usize| {
        let keys = if n < 3 {
            format!("<Contents><Key>runs/{n}</Key><Size>1</Size></Contents>")
        } else {
            String::new()
        };
        (n.to_string(), keys)
    };
    assert_eq!(list(some, "has no end", 110), 3);
    let circle =
        |n: usize| ((n % 2).to_string(), "<Contents><Key>runs/x</Key><Size>1</Size></Contents>".to_owned());
    assert_eq!(list(circle, "in a circle", 3), 2);
    // A few empty pages are no more than that.
    let server = Scripted::http(move |request| match request.number {
        n @ 0..50 => page("ListBucketResult", format!("<NextContinuationToken>{n}</NextContinuationToken>")),
        n => {
            let body = format!("<ListBucketResult>{}</ListBucketResult>", key(n));
            (http("200 OK", &[("content-length", &body.len().to_string())], body.as_bytes()), Then::Keep)
        }
    });
    let settings = moto::settings(server.url("").as_str(), true);
    let names = Servers::new(&settings).list(&moto::url("runs/")).expect("a prefix").expect("a client");
    assert!(matches!(&names.collect::<Vec<_>>()[..], [Named::Record(_)]));
    // Of uploads under way and of their parts too.
    let server = Scripted::http(move |request| {
        let n = request.number + 1;
        match request.path() {
            path if path.contains("list-type") => {
                page("ListBucketResult", format!("<NextContinuationToken>{n}</NextContinuationToken>"))
            }
            path if path.contains("uploads") => {
                page("ListMultipartUploadsResult", format!("<NextKeyMarker>{n}</NextKeyMarker>"))
            }
            _ => page("ListPartsResult", format!("<NextPartNumberMarker>{n}</NextPartNumberMarker>")),
        }
    });
    let settings = moto::settings(server.url("").as_str(), true);
    let target =
        S3Target::new(&settings, moto::object("in/"), false, ByteCount::mib(5), None).expect("a target");
    assert_eq!(target.connection().expect("a connection").survey(), Ok(false));
    assert!((90..=110).contains(&server.requests().len()), "{} requests", server.requests().len());
    let before = server.requests().len();
    let failed = client(&settings, &server.url("")).parts(&moto::object("in/x"), "id").expect_err("no end");
    assert_eq!((failed.refusal.why, server.requests().len()), (Why::Senseless, before + 1));
}

#[test]
fn the_sums_that_s3_keeps_of_a_whole_object_are_asked_for() {
    let server = Scripted::http(|request| {
        assert_eq!(request.header("x-amz-checksum-mode"), Some("ENABLED"));
        let sum = |kind| [("x-amz-checksum-crc64nvme", "rosUhgp5mIg="), ("x-amz-checksum-type", kind)];
        let about = [("etag", "\"of-parts-2\""), ("content-length", "9")];
        let kind = if request.path().contains("composite") { "COMPOSITE" } else { "FULL_OBJECT" };
        let answer = match (request.header("range"), request.lines[0].starts_with("HEAD")) {
            // What is said of a part is not of the whole.
            (Some("bytes=0-3"), false) => {
                let about = [about[0], ("content-length", "4"), ("content-range", "bytes 0-3/9")];
                http(
                    "206 Partial Content",
                    &[&about[..], &[("x-amz-checksum-crc32", "AAAAAA==")]].concat(),
                    b"1234",
                )
            }
            (_, true) => http("200 OK", &[&about[..], &sum(kind)[..]].concat(), b""),
            _ => http("200 OK", &[&about[..], &sum(kind)[..]].concat(), b"123456789"),
        };
        (answer, Then::Keep)
    });
    let settings = moto::settings(server.url("").as_str(), true);
    let mut remote = Servers::new(&settings).remote();
    let mut hashers = Hashers::new([Algorithm::Crc64Nvme]);
    hashers.update(b"123456789");
    let sums = hashers.finish();
    for (range, requests) in [(0..4, 2), (0..u64::MAX, 1)] {
        let before = server.requests().len();
        let opened = remote.open(&ask(&moto::url("object"), range)).expect("an answer");
        assert_eq!(opened.version.checksums, sums);
        drop(opened);
        assert_eq!(server.requests().len(), before + requests);
        let opened = remote.open(&ask(&moto::url("composite"), 0..4)).expect("an answer");
        assert!(opened.version.checksums.is_empty());
    }
    assert_eq!(remote.look(&ask(&moto::url("object"), 0..u64::MAX)).expect("an answer").checksums, sums);
}

/// Where an object's parts are told, or are not.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PartsSaid {
    Listed,
    ByHead,
    Kept,
    Nowhere,
}

#[test]
fn a_sum_of_parts_is_made_again_where_their_sizes_can_be_known() {
    let data = noise(3, 100);
    for algorithm in [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Sha1, Algorithm::Sha256, Algorithm::Md5]
    {
        for (said, sizes, told) in [
            (PartsSaid::Listed, &[20, 50, 10, 20][..], true),
            (PartsSaid::ByHead, &[30, 70], true),
            (PartsSaid::ByHead, &[20, 50, 30], true),
            (PartsSaid::ByHead, &[30, 30, 30, 10], false),
            (PartsSaid::ByHead, &[30, 20, 30, 20], false),
            (PartsSaid::Kept, &[30, 30, 30, 10], true),
            (PartsSaid::Nowhere, &[30, 70], true),
            (PartsSaid::Nowhere, &[100], true),
        ] {
            let mut all = Hashers::new([algorithm]);
            let mut rest = &data[..];
            for size in sizes {
                let (part, more) = rest.split_at(*size);
                let mut one = Hashers::new([algorithm]);
                one.update(part);
                all.update(one.finish().get(algorithm).expect("computed"));
                rest = more;
            }
            let all = all.finish();
            let sum = all.get(algorithm).expect("computed");
            let (name, count) = (format!("x-amz-checksum-{algorithm}"), sizes.len());
            let (value, tag) = match algorithm {
                Algorithm::Md5 => {
                    (String::new(), format!("\"{}-{count}\"", data_encoding::HEXLOWER.encode(sum)))
                }
                _ => (format!("{}-{count}", data_encoding::BASE64.encode(sum)), format!("\"other-{count}\"")),
            };
            let server = Scripted::http(move |request| {
                let count = count.to_string();
                let mut about = vec![("etag", tag.as_str()), ("content-length", "100")];
                if !value.is_empty() {
                    about.extend([(name.as_str(), value.as_str()), ("x-amz-checksum-type", "COMPOSITE")]);
                }
                if said == PartsSaid::Kept {
                    about.push(("x-amz-meta-tidegate-part-size", "30"));
                }
                let number =
                    request.path().split(['?', '&']).find_map(|pair| pair.strip_prefix("partNumber="));
                let number = number.and_then(|number| number.parse::<usize>().ok());
                let answer = if request.path().contains("attributes=") && said != PartsSaid::Listed {
                    error("403 Forbidden", "AccessDenied", &[])
                } else if request.path().contains("attributes=") {
                    assert_eq!(request.header("x-amz-object-attributes"), Some("ObjectParts"));
                    let behind = request
                        .header("x-amz-part-number-marker")
                        .map_or(0, |n| n.parse().expect("a number"));
                    let part = |n: usize| {
                        format!("<Part><PartNumber>{n}</PartNumber><Size>{}</Size></Part>", sizes[n - 1])
                    };
                    let parts: String = (behind + 1..=sizes.len().min(behind + 3)).map(part).collect();
                    let more = behind + 3 < sizes.len();
                    let xml = format!(
                        "<GetObjectAttributesResponse><ObjectParts><NextPartNumberMarker>{}</NextPartNumberMarker>\
                         <IsTruncated>{more}</IsTruncated>{parts}</ObjectParts></GetObjectAttributesResponse>",
                        behind + 3
                    );
                    http("200 OK", &[("content-length", &xml.len().to_string())], xml.as_bytes())
                } else if let Some(number) = number.filter(|_| said == PartsSaid::ByHead) {
                    let size = sizes[number - 1].to_string();
                    let about =
                        [("etag", tag.as_str()), ("content-length", &size), ("x-amz-mp-parts-count", &count)];
                    http("206 Partial Content", &about, b"")
                } else {
                    http("200 OK", &about, b"")
                };
                (answer, Then::Keep)
            });
            let settings = moto::settings(server.url("").as_str(), true);
            let mut remote = Servers::new(&settings).remote();
            let vouched = remote.look(&ask(&moto::url("x"), 0..u64::MAX)).expect("an answer").checksums;
            // What lists its parts has another sum than its tag.
            let known = match (said, algorithm) {
                (PartsSaid::Nowhere, _) => count == 1,
                (PartsSaid::Listed, Algorithm::Md5) => false,
                (PartsSaid::ByHead, _) => sizes != [30, 20, 30, 20],
                _ => true,
            };
            assert_eq!(!vouched.is_empty(), known, "{algorithm} {said:?} {sizes:?}");
            if known {
                let mut sums = Hashers::new([]).and_of_parts(vouched.of_parts());
                sums.update(&data);
                assert!(vouched.agrees(&sums.finish()), "{algorithm} {said:?} {sizes:?}: {vouched:?}");
                assert_eq!(vouched.refute(), told, "{algorithm} {said:?} {sizes:?}");
            }
        }
    }
}

#[test]
fn what_the_store_vouches_for_is_told() {
    let Some(server) = Moto::start() else {
        return skip("what_the_store_vouches_for_is_told", NO_MOTO);
    };
    let data = noise(1, 10_000);
    server.put("one", &data);
    let mut remote = Servers::new(&server.settings()).remote();
    let version = remote.look(&ask(&moto::url("one"), 0..u64::MAX)).expect("an answer");
    let mut hashers = Hashers::new([Algorithm::Md5]);
    hashers.update(&data);
    assert_eq!(version.checksums, hashers.finish());
}

/// An answer of S3's, with its code.
fn error(status: &str, code: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let body = format!("<Error><Code>{code}</Code><Message>said so</Message></Error>");
    let length = body.len().to_string();
    let headers = [&[("content-length", length.as_str())], more].concat();
    http(status, &headers, body.as_bytes())
}

fn refusal(script: impl Fn() -> Vec<u8> + Send + Sync + 'static) -> tidegate_fetch::remote::Refusal {
    let server = Scripted::http(move |_| (script(), Then::Keep));
    let settings = moto::settings(server.url("").as_str(), true);
    let mut remote = Servers::new(&settings).remote();
    let refusal = remote.open(&ask(&moto::url("a key"), 0..10)).expect_err("refused");
    let text = &refusal.error.message;
    assert!(text.contains("s3://bucket/a%20key"), "{text}");
    for secret in ["Signature", "AKIA", "wJalr", "X-Amz"] {
        assert!(!text.contains(secret) || text.contains("SignatureDoesNotMatch"), "{text}");
    }
    refusal
}

#[test]
fn refusals_say_what_to_do() {
    let denied = refusal(|| error("403 Forbidden", "AccessDenied", &[]));
    assert_eq!((denied.why, denied.error.kind), (Why::Denied, ErrorKind::Denied));
    assert!(denied.error.message.contains("AccessDenied: said so"), "{denied:?}");
    let wrong = refusal(|| error("403 Forbidden", "SignatureDoesNotMatch", &[]));
    assert!(wrong.error.message.contains("AWS_SECRET_ACCESS_KEY"), "{wrong:?}");
    let skewed = refusal(|| {
        let date = std::time::SystemTime::now() + std::time::Duration::from_secs(3 * 3600);
        error("403 Forbidden", "RequestTimeTooSkewed", &[("date", &httpdate::fmt_http_date(date))])
    });
    assert!(
        skewed.error.message.contains("clock is 1") && skewed.error.message.contains("behind"),
        "{skewed:?}"
    );
    let slow = refusal(|| error("503 Slow Down", "SlowDown", &[("retry-after", "3")]));
    assert_eq!((slow.why, slow.retry_after), (Why::Busy, Some(std::time::Duration::from_secs(3))));
    assert_eq!(refusal(|| error("404 Not Found", "NoSuchKey", &[])).why, Why::Missing);
    assert_eq!(refusal(|| error("500 Internal Server Error", "InternalError", &[])).why, Why::Broken);
}

#[test]
fn a_bucket_in_another_region_is_asked_for_there() {
    let server = Scripted::http(|request| {
        let there = request.path().contains("eu-north-1%2Fs3%2Faws4_request");
        let answer = match there {
            true => http(
                "206 Partial Content",
                &[("content-range", "bytes 0-4/5"), ("content-length", "5")],
                b"there",
            ),
            false => error(
                "400 Bad Request",
                "AuthorizationHeaderMalformed",
                &[("x-amz-bucket-region", "eu-north-1")],
            ),
        };
        (answer, Then::Keep)
    });
    let settings = moto::settings(server.url("").as_str(), true);
    let mut remote = Servers::new(&settings).remote();
    let (_, _, data) = get(&mut *remote, &ask(&moto::url("x"), 0..5)).expect("an answer");
    assert_eq!(data, b"there");
    let asked = server.requests().len();
    let (_, _, data) = get(&mut *remote, &ask(&moto::url("y"), 0..5)).expect("an answer");
    assert_eq!((data, server.requests().len()), (b"there".to_vec(), asked + 1), "remembered");
}

#[test]
fn who_pays_and_who_does_not_is_said_and_signed() {
    let server = Scripted::http(|_| (http("200 OK", &[("content-length", "0")], b""), Then::Keep));
    let mut settings = moto::settings(server.url("").as_str(), true);
    if let Some(s3) = &mut settings.s3 {
        s3.requester_pays = true;
    }
    let open = |settings: &ServerSettings, url: &Url| {
        let mut remote = Servers::new(settings).remote();
        remote.open(&Ask { url, headers: &[], range: 0..10, version: None }).map(drop)
    };
    open(&settings, &moto::url("x")).expect("an answer");
    let request = &server.requests()[0];
    assert_eq!(request.header("x-amz-request-payer"), Some("requester"));
    assert!(
        request.path().contains("X-Amz-SignedHeaders=host%3Bx-amz-checksum-mode%3Bx-amz-request-payer"),
        "{}",
        request.path()
    );
    open(&moto::settings(server.url("").as_str(), false), &moto::url("x?")).expect("an answer");
    let request = &server.requests()[1];
    assert_eq!((request.path(), request.header("x-amz-request-payer")), ("/bucket/x%3F", None));
}

#[test]
fn the_requester_agrees_to_pay_only_where_that_was_asked_for() {
    let head = [("Content-Length", "1"), ("ETag", "\"a\"")];
    for agrees in [false, true] {
        let server = Scripted::http(move |request| {
            let is_head = request.lines[0].starts_with("HEAD");
            (http("200 OK", &head, if is_head { b"" } else { b"x" }), Then::Keep)
        });
        let mut settings = moto::settings(server.url("").as_str(), true);
        if let Some(s3) = &mut settings.s3 {
            s3.requester_pays = agrees;
        }
        let (servers, url) = (Servers::new(&settings), moto::url("k"));
        let mut remote = servers.remote();
        remote.look(&ask(&url, 0..u64::MAX)).expect("an answer");
        remote.open(&ask(&url, 0..1)).expect("an answer");
        assert_eq!(server.requests().len(), 2);
        for request in server.requests() {
            let said: Vec<_> =
                request.lines.iter().filter(|line| line.contains("x-amz-request-payer:")).collect();
            let signed = request
                .path()
                .contains("X-Amz-SignedHeaders=host%3Bx-amz-checksum-mode%3Bx-amz-request-payer");
            assert_eq!((said.len(), signed), (usize::from(agrees), agrees), "{request:?}");
        }
    }
}
