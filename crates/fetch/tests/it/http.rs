//! HTTP beyond the suite of every store: redirects, refusals, logins, proxies, and servers that lie.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::conformance::{ask, get};
use testkit::nginx::Nginx;
use testkit::scripted::{Scripted, Then, http};
use testkit::{congestion_at, congestion_controls, noise, skip};
use tidegate_fetch::checksum::Algorithm;
use tidegate_fetch::remote::servers::{Proxies, ServerSettings, Servers};
use tidegate_fetch::remote::{Ask, Refusal, Remote, Remotes as _, Version, Why};
use tidegate_transfer::error;
use url::Url;

fn settings() -> ServerSettings {
    ServerSettings { timeout: Duration::from_secs(10), ..ServerSettings::default() }
}

fn remote(settings: &ServerSettings) -> Box<dyn Remote> {
    Servers::new(settings).remote()
}

/// An nginx with a file `whole` of 100,000 bytes.
fn nginx(test: &str) -> Option<(Nginx, Vec<u8>, tempfile::TempDir)> {
    let root = tempfile::tempdir().expect("a directory");
    let file = noise(11, 100_000);
    fs::write(root.path().join("whole"), &file).expect("written");
    let nginx = Nginx::start(root.path());
    if nginx.is_none() {
        skip(test, "nginx is not installed");
    }
    Some((nginx?, file, root))
}

fn refused(remote: &mut dyn Remote, url: &Url) -> Refusal {
    remote.open(&ask(url, 0..10)).expect_err("a refusal")
}

#[test]
fn ignored_ranges_are_the_whole_file() {
    let Some((nginx, file, _root)) = nginx("ignored_ranges_are_the_whole_file") else { return };
    let mut remote = remote(&settings());
    let (version, range, data) = get(&mut *remote, &ask(&nginx.url("noranges/whole"), 10..20)).expect("it");
    assert_eq!((range, version.ranges, version.bytes), (0..100_000, false, Some(100_000)));
    assert!(data == file);
}

#[test]
fn connections_have_the_congestion_control_that_was_asked_for_and_work_as_others_do() {
    for name in congestion_controls() {
        let server = Scripted::http(|request| {
            let keep = if request.number == 2 { Then::Close } else { Then::Keep };
            (http("200 OK", &[("Content-Length", "7")], b"content"), keep)
        });
        let congestion = Some(name.parse().expect("a name"));
        let mut remote = remote(&ServerSettings { congestion, ..settings() });
        for path in ["a", "b", "c", "d"] {
            let (_, _, data) = get(&mut *remote, &ask(&server.url(path), 0..7)).expect("it");
            assert_eq!(data, b"content", "{name}: {path}");
        }
        let seen: Vec<usize> = server.requests().iter().map(|request| request.connection).collect();
        assert_eq!(seen, [0, 0, 0, 1], "one is kept until it is closed");
        let Some(given) = congestion_at(server.url("").port().expect("a port")) else {
            return skip("congestion", "ss is not installed");
        };
        assert!(given.contains(&name), "{name}: {given:?}");
    }
}

#[test]
fn a_server_that_is_silent_or_away_is_told_alike_whatever_the_congestion_control() {
    let server = Scripted::http(|_| (Vec::new(), Then::Hang));
    let nobody = Url::parse(&format!("http://127.0.0.1:{}/file", testkit::free_port())).expect("a URL");
    let name = congestion_controls().first().map(|name| name.parse().expect("a name"));
    let [usual, named] = [None, name].map(|congestion| {
        let timeout = Duration::from_millis(300);
        let mut remote = remote(&ServerSettings { congestion, timeout, ..settings() });
        [server.url("file"), nobody.clone()].map(|url| refused(&mut *remote, &url).why)
    });
    assert_eq!(usual, named);
}

#[test]
fn a_status_says_what_to_try_next() {
    let Some((nginx, _, _root)) = nginx("a_status_says_what_to_try_next") else { return };
    let mut remote = remote(&settings());
    for (path, why) in [
        ("busy429/x", Why::Busy),
        ("busy503/x", Why::Busy),
        ("forbidden/x", Why::Denied),
        ("gone/x", Why::Missing),
        ("broken/x", Why::Broken),
        ("behind/x", Why::Unreachable),
        ("never/x", Why::Senseless),
        ("nothing-there", Why::Missing),
        ("page/x.gz", Why::Senseless),
    ] {
        let refusal = refused(&mut *remote, &nginx.url(path));
        assert_eq!(refusal.why, why, "{refusal:?}");
        let wait = refusal.retry_after;
        match path {
            "busy429/x" => assert_eq!(wait, Some(Duration::from_secs(7))),
            "busy503/x" => assert_eq!(wait, Some(Duration::from_secs(3600)), "a far date is cut"),
            _ => assert_eq!(wait, None, "{path}"),
        }
    }
    // As few connections as there can be, since their bodies are short: nginx closes after 500 and 501.
    assert_eq!(nginx.connections(), 3);
    let mut settings = settings();
    settings.allow_pages = true;
    let (_, _, data) =
        get(&mut *self::remote(&settings), &ask(&nginx.url("page/x.gz"), 0..u64::MAX)).expect("it");
    assert_eq!(data, b"<html>An error occurred</html>");
}

#[test]
fn redirects_are_followed_within_reason() {
    let Some((nginx, file, _root)) = nginx("redirects_are_followed_within_reason") else { return };
    let mut remote = remote(&settings());
    for path in ["redirect/whole", "permanent/whole", "hops/aaaaaaaaaa"] {
        let (version, range, data) = get(&mut *remote, &ask(&nginx.url(path), 5..50_000)).expect(path);
        assert_eq!((version.bytes, range), (Some(100_000), 5..50_000));
        assert!(data == file[5..50_000]);
    }
    assert_eq!(nginx.connections(), 1);
    for (path, words) in [
        ("hops/aaaaaaaaaaa", "more than 10 times"),
        ("loop/a", "in a circle"),
        ("nowhere/x", "redirects to ftp"),
    ] {
        let refusal = refused(&mut *remote, &nginx.url(path));
        assert_eq!(refusal.why, Why::Senseless);
        assert!(refusal.error.message.contains(words), "{refusal:?}");
    }
}

#[test]
fn encryption_is_not_given_up_unless_told() {
    let Some((nginx, file, _root)) = nginx("encryption_is_not_given_up_unless_told") else { return };
    let url = nginx.secure_url("downgrade/x");
    let mut settings = settings();
    settings.ca = Some(nginx.certificates().ca.clone());
    let refusal = refused(&mut *remote(&settings), &url);
    assert_eq!(refusal.why, Why::Senseless);
    assert!(refusal.error.message.contains("without encryption"), "{refusal:?}");
    settings.allow_downgrade = true;
    let (_, _, data) = get(&mut *remote(&settings), &ask(&url, 0..u64::MAX)).expect("it");
    assert!(data == file);
}

#[test]
fn what_is_wrong_with_tls_is_said_in_words() {
    use rustls::pki_types::PrivateKeyDer;
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let own = params.self_signed(&key).expect("signed");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![own.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .expect("a server");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let server = Arc::new(server);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut tls = rustls::ServerConnection::new(Arc::clone(&server)).expect("a connection");
            let _ = tls.complete_io(&mut stream);
        }
    });
    let ca = tempfile::NamedTempFile::new().expect("a file");
    fs::write(ca.path(), own.pem()).expect("written");
    let trusting = ServerSettings { ca: Some(ca.path().to_owned()), ..settings() };
    let url = Url::parse(&format!("https://localhost:{port}/x")).expect("a URL");
    let said = |settings: &ServerSettings, url: &Url, why| {
        let refusal = refused(&mut *remote(settings), url);
        let message = refusal.error.message;
        assert_eq!(refusal.why, why, "{message}");
        assert!(!message.contains("Other") && message.lines().count() == 1, "{message}");
        message
    };
    // It hangs up without an answer.
    said(&trusting, &url, Why::Unreachable);
    let stranger = said(&settings(), &url, Why::Denied);
    assert!(stranger.contains("--ca"), "{stranger}");
    let clear = Scripted::raw(|_, mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        // What the client said is read, or its connection would be reset before it has read ours.
        let _ = stream.read(&mut [0; 4096]);
    });
    let url = clear.url("x").as_str().replace("http:", "https:");
    let clear = said(&settings(), &Url::parse(&url).expect("a URL"), Why::Unreachable);
    assert!(clear.contains("speaks no TLS there"), "{clear}");
}

#[test]
fn a_certificate_of_nobody_we_know_is_refused() {
    let Some((nginx, _, _root)) = nginx("a_certificate_of_nobody_we_know_is_refused") else { return };
    let refusal = refused(&mut *remote(&settings()), &nginx.secure_url("whole"));
    assert_eq!(
        (refusal.why, refusal.error.kind),
        (Why::Denied, error::ErrorKind::Authentication),
        "{refusal:?}"
    );
    assert!(refusal.error.message.contains("not trusted"), "{refusal:?}");
    let mut settings = settings();
    settings.ca = Some("/nowhere/ca.pem".into());
    let refusal = refused(&mut *remote(&settings), &nginx.secure_url("whole"));
    assert!(refusal.error.message.contains("/nowhere/ca.pem"), "{refusal:?}");
    // In clear nobody asks for certificates.
    assert!(get(&mut *remote(&settings), &ask(&nginx.url("whole"), 0..1)).is_ok());
}

#[test]
fn logins_come_from_the_url_or_netrc_and_stay_secret() {
    let Some((nginx, file, _root)) = nginx("logins_come_from_the_url_or_netrc_and_stay_secret") else {
        return;
    };
    let url = nginx.url("private/whole");
    let refusal = refused(&mut *remote(&settings()), &url);
    assert_eq!(
        (refusal.why, refusal.error.kind),
        (Why::Denied, error::ErrorKind::Authentication),
        "{refusal:?}"
    );
    let mut with_login = url.clone();
    with_login.set_username("Aladdin").expect("set");
    with_login.set_password(Some("open sesame")).expect("set");
    let (_, _, data) = get(&mut *remote(&settings()), &ask(&with_login, 0..u64::MAX)).expect("it");
    assert!(data == file);
    with_login.set_password(Some("open barley")).expect("set");
    let refusal = refused(&mut *remote(&settings()), &with_login);
    assert!(!refusal.error.message.contains("barley") && !refusal.error.message.contains("Aladdin"));
    let dir = tempfile::tempdir().expect("a directory");
    let netrc = dir.path().join("netrc");
    fs::write(&netrc, "machine 127.0.0.1 login Aladdin password \"open sesame\"\n").expect("written");
    let settings = ServerSettings { netrc: Some(netrc), ..settings() };
    let (_, _, data) = get(&mut *remote(&settings), &ask(&url, 0..u64::MAX)).expect("it");
    assert!(data == file);
}

#[test]
fn secrets_do_not_follow_a_redirect_to_another_host() {
    let Some((nginx, _, _root)) = nginx("secrets_do_not_follow_a_redirect_to_another_host") else { return };
    let headers =
        [("Authorization".to_owned(), "Bearer 123".to_owned()), ("X-Api-Key".to_owned(), "456".to_owned())];
    for (path, seen) in [("echo", "Bearer 123|456"), ("elsewhere/x", "|")] {
        let mut url = nginx.url(path);
        let ask = Ask { headers: &headers, ..ask(&url, 0..u64::MAX) };
        let (_, _, data) = get(&mut *remote(&settings()), &ask).expect("it");
        assert_eq!(String::from_utf8_lossy(&data), seen, "{path}");
        url.set_username("me").expect("set");
        let data = get(&mut *remote(&settings()), &self::ask(&url, 0..u64::MAX)).expect("it").2;
        assert_eq!(data.starts_with(b"Basic "), path == "echo");
    }
}

#[test]
fn a_version_without_a_tag_is_pinned_by_its_time() {
    let Some((nginx, _, root)) = nginx("a_version_without_a_tag_is_pinned_by_its_time") else { return };
    let mut remote = remote(&settings());
    for (path, changes) in [("notag/whole", true), ("nothing/whole", false)] {
        let url = nginx.url(path);
        let version = remote.look(&ask(&url, 0..u64::MAX)).expect("it");
        assert_eq!((version.tag.is_none(), version.modified.is_some()), (true, changes));
        let file = fs::File::options().write(true).open(root.path().join("whole")).expect("opened");
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("set");
        let pinned = Ask { version: Some(&version), ..ask(&url, 0..10) };
        let answer = remote.open(&pinned);
        assert_eq!(answer.is_err_and(|refusal| refusal.why == Why::Changed), changes, "{path}");
        file.set_modified(std::time::SystemTime::now()).expect("set");
    }
}

#[test]
fn a_list_cannot_change_what_we_say_of_ranges() {
    let headers = ["Range: bytes=5-6", "Accept-Encoding: gzip", "host: elsewhere", "X-Mine: 1"]
        .map(|line| line.split_once(": ").expect("a line"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let server = Scripted::http(|_| (http("200 OK", &[("Content-Length", "2")], b"ok"), Then::Keep));
    let url = server.url("x");
    let asked = Ask { headers: &headers, ..ask(&url, 0..2) };
    assert_eq!(get(&mut *remote(&settings()), &asked).expect("it").2, b"ok");
    let seen = &server.requests()[0];
    let said = ["range", "accept-encoding", "host", "x-mine"].map(|name| seen.header(name));
    assert_eq!(said, [Some("bytes=0-1"), Some("identity"), Some(url.authority()), Some("1")]);
}

#[test]
fn all_parts_of_a_file_come_from_one_mirror() {
    let mirror = |tag: &'static str| {
        Scripted::http(move |request| {
            if request.header("if-match").is_some_and(|wanted| wanted != tag) {
                return (http("412 Precondition Failed", &[("Content-Length", "0")], b""), Then::Keep);
            }
            let range = request.header("range").expect("a part").replace("bytes=", "bytes ") + "/1000";
            let headers = [("ETag", tag), ("Content-Range", range.as_str()), ("Content-Length", "10")];
            (http("206 Partial Content", &headers, b"0123456789"), Then::Keep)
        })
    };
    let mirrors = [mirror("\"one\""), mirror("\"two\"")];
    let places = mirrors.each_ref().map(|mirror| mirror.url("file").to_string());
    // Each request is sent to the next mirror.
    let service = Scripted::http(move |request| {
        let place = &places[request.number % 2];
        (http("302 Found", &[("Location", place), ("Content-Length", "0")], b""), Then::Keep)
    });
    let url = service.url("file");
    let servers = Servers::new(&settings());
    let (version, ..) = get(&mut *servers.remote(), &ask(&url, 0..10)).expect("it");
    for part in 1..4 {
        let pinned = Ask { version: Some(&version), ..ask(&url, part * 10..part * 10 + 10) };
        // Another worker, too.
        assert_eq!(get(&mut *servers.remote(), &pinned).expect("it").0.tag, version.tag);
    }
    assert_eq!((service.requests().len(), mirrors[1].requests().len()), (1, 0));
    // A mirror that fails is left: the service is asked again.
    drop(mirrors);
    assert_eq!(refused(&mut *servers.remote(), &url).why, Why::Unreachable);
    assert_eq!(service.requests().len(), 2);
    // What is signed expires, so it is asked for each time.
    let mirror = mirror("\"three\"");
    let place = format!("{}?sig=1", mirror.url("file"));
    let service = Scripted::http(move |_| {
        (http("302 Found", &[("Location", &place), ("Content-Length", "0")], b""), Then::Keep)
    });
    for _ in 0..3 {
        get(&mut *servers.remote(), &ask(&service.url("file"), 0..10)).expect("it");
    }
    assert_eq!(service.requests().len(), 3);
}

/// Reads a body to its end or its error.
fn read(
    server: &Scripted,
    settings: &ServerSettings,
    range: std::ops::Range<u64>,
) -> (Vec<u8>, Option<ErrorKind>) {
    let mut opened = remote(settings).open(&ask(&server.url("file"), range)).expect("an answer");
    let mut data = Vec::new();
    let error = opened.body.read_to_end(&mut data).err();
    if let Some(error) = &error {
        // Whoever reads knows where, and says it once.
        assert!(!error.to_string().contains("/file"), "{error}");
    }
    (data, error.map(|error| error.kind()))
}

#[test]
fn a_body_that_is_cut_is_never_taken_for_whole() {
    let length: &[_] = &[("Content-Length", "100")];
    let chunked: &[_] = &[("Transfer-Encoding", "chunked")];
    let close: &[_] = &[("Connection", "close")];
    let chunk = b"a\r\n0123456789\r\n";
    let cases: [(&str, &[(&str, &str)], &[u8], Then, Option<ErrorKind>); 9] = [
        ("closed early", length, b"0123456789", Then::Close, Some(ErrorKind::UnexpectedEof)),
        ("reset early", length, b"0123456789", Then::Reset, Some(ErrorKind::UnexpectedEof)),
        ("silent", length, b"0123456789", Then::Hang, Some(ErrorKind::TimedOut)),
        ("chunks that end", chunked, b"a\r\n0123456789\r\n0\r\n\r\n", Then::Keep, None),
        ("chunks cut", chunked, chunk, Then::Close, Some(ErrorKind::UnexpectedEof)),
        ("chunks reset", chunked, chunk, Then::Reset, Some(ErrorKind::UnexpectedEof)),
        (
            "garbled chunks",
            chunked,
            b"a\r\n0123456789\r\nxyz\r\n",
            Then::Close,
            Some(ErrorKind::UnexpectedEof),
        ),
        ("no length, closed", close, b"0123456789", Then::Close, None),
        ("no length, reset", close, b"0123456789", Then::Reset, Some(ErrorKind::UnexpectedEof)),
    ];
    for (name, headers, body, then, expected) in cases {
        let answer = http("200 OK", headers, body);
        let server = Scripted::http(move |_| (answer.clone(), then));
        let mut settings = settings();
        if then == Then::Hang {
            settings.timeout = Duration::from_millis(300);
        }
        let (data, error) = read(&server, &settings, 0..u64::MAX);
        // An error may overtake the bytes before it.
        assert!(data == b"0123456789" || (expected.is_some() && data.is_empty()), "{name}: {data:?}");
        assert_eq!(error, expected, "{name}");
    }
}

#[test]
fn an_unknown_size_is_said_to_be_unknown() {
    let server = Scripted::http(|_| {
        (http("200 OK", &[("Transfer-Encoding", "chunked")], b"3\r\nabc\r\n0\r\n\r\n"), Then::Keep)
    });
    let (version, range, data) = get(&mut *remote(&settings()), &ask(&server.url("x"), 0..100)).expect("it");
    assert_eq!((version.bytes, version.ranges, range), (None, false, 0..u64::MAX));
    assert_eq!(data, b"abc");
}

#[test]
fn a_part_is_the_one_asked_for_or_refused() {
    let tagged = Version { bytes: Some(100), tag: Some("\"one\"".into()), ..Version::default() };
    let ten: &[u8] = b"0123456789";
    let cases: [(&str, &[(&str, &str)], &[u8], Option<Why>); 9] = [
        ("right", &[("Content-Range", "bytes 20-29/100"), ("Content-Length", "10")], ten, None),
        ("no range", &[("Content-Length", "10")], ten, Some(Why::Senseless)),
        (
            "another start",
            &[("Content-Range", "bytes 19-28/100"), ("Content-Length", "10")],
            ten,
            Some(Why::Senseless),
        ),
        (
            "longer",
            &[("Content-Range", "bytes 20-30/100"), ("Content-Length", "11")],
            b"01234567890",
            Some(Why::Senseless),
        ),
        (
            "another length",
            &[("Content-Range", "bytes 20-29/100"), ("Content-Length", "9")],
            &ten[1..],
            Some(Why::Senseless),
        ),
        (
            "another size",
            &[("Content-Range", "bytes 20-29/101"), ("Content-Length", "10")],
            ten,
            Some(Why::Changed),
        ),
        (
            "another tag",
            &[("Content-Range", "bytes 20-29/100"), ("Content-Length", "10"), ("ETag", "\"two\"")],
            ten,
            Some(Why::Changed),
        ),
        (
            "unknown size",
            &[("Content-Range", "bytes 20-29/*"), ("Content-Length", "10"), ("ETag", "\"one\"")],
            ten,
            None,
        ),
        (
            "in parts",
            &[("Content-Type", "multipart/byteranges; boundary=x"), ("Content-Length", "10")],
            ten,
            Some(Why::Senseless),
        ),
    ];
    for (name, headers, body, expected) in cases {
        let answer = http("206 Partial Content", headers, body);
        let server = Scripted::http(move |_| (answer.clone(), Then::Keep));
        let url = server.url("file");
        let pinned = Ask { version: Some(&tagged), ..ask(&url, 20..30) };
        match (get(&mut *remote(&settings()), &pinned), expected) {
            (Ok((_, range, data)), None) => assert_eq!((range, data), (20..30, ten.to_vec()), "{name}"),
            (Err(refusal), Some(why)) => assert_eq!(refusal.why, why, "{name}: {refusal:?}"),
            (other, _) => panic!("{name}: {other:?}"),
        }
        let seen = &server.requests()[0];
        assert_eq!(seen.header("range"), Some("bytes=20-29"));
        assert_eq!(seen.header("if-match"), Some("\"one\""));
        assert_eq!(seen.header("accept-encoding"), Some("identity"));
        assert!(seen.header("user-agent").is_some_and(|agent| agent.starts_with("tidegate/")));
    }
}

#[test]
fn a_part_that_is_too_short_or_too_long_is_an_error() {
    let part = |length: &'static str, body: &'static [u8], range: &'static str| {
        Scripted::http(move |_| {
            let headers = [
                ("Content-Range", range),
                (
                    if length.is_empty() { "Transfer-Encoding" } else { "Content-Length" },
                    if length.is_empty() { "chunked" } else { length },
                ),
            ];
            (http("206 Partial Content", &headers, body), Then::Keep)
        })
    };
    let short = part("5", b"01234", "bytes 20-24/100");
    assert_eq!(read(&short, &settings(), 20..30), (b"01234".to_vec(), Some(ErrorKind::UnexpectedEof)));
    let long = part("", b"c\r\n0123456789ab\r\n0\r\n\r\n", "bytes 20-29/100");
    assert_eq!(read(&long, &settings(), 20..30).1, Some(ErrorKind::InvalidData));
}

#[test]
fn a_packed_answer_is_refused() {
    let server = Scripted::http(|_| {
        (http("200 OK", &[("Content-Encoding", "gzip"), ("Content-Length", "3")], b"abc"), Then::Keep)
    });
    let refusal = refused(&mut *remote(&settings()), &server.url("table.tsv"));
    assert_eq!(refusal.why, Why::Senseless, "{refusal:?}");
    // What is stored so, and labelled, is what was asked for.
    assert!(get(&mut *remote(&settings()), &ask(&server.url("table.tsv.gz"), 0..u64::MAX)).is_ok());
}

#[test]
fn a_connection_that_was_closed_meanwhile_is_no_failure() {
    let server = Scripted::http(|request| {
        let answer = http("200 OK", &[("Content-Length", "2")], b"ok");
        // The second request of the first connection meets a server that has just given up waiting.
        let closes = request.connection == 0 && request.number == 1;
        if closes { (Vec::new(), Then::Close) } else { (answer, Then::Keep) }
    });
    let mut remote = remote(&settings());
    for _ in 0..3 {
        assert_eq!(get(&mut *remote, &ask(&server.url("x"), 0..u64::MAX)).expect("it").2, b"ok");
    }
    let connections: Vec<usize> = server.requests().iter().map(|request| request.connection).collect();
    assert_eq!(connections, [0, 0, 1, 1]);
}

#[test]
fn a_server_without_an_answer_is_unreachable_and_not_asked_again_here() {
    for (then, bytes) in
        [(Then::Close, &b""[..]), (Then::Reset, b""), (Then::Hang, b""), (Then::Close, b"HTTP/1.1 200")]
    {
        let server = Scripted::http(move |_| (bytes.to_vec(), then));
        let mut settings = settings();
        settings.timeout = Duration::from_millis(300);
        let refusal = refused(&mut *remote(&settings), &server.url("x"));
        assert_eq!(refusal.why, Why::Unreachable, "{then:?}: {refusal:?}");
        assert_eq!(server.requests().len(), 1);
    }
    let port = testkit::free_port();
    let url = Url::parse(&format!("http://127.0.0.1:{port}/x")).expect("a URL");
    let refusal = refused(&mut *remote(&settings()), &url);
    assert_eq!(
        (refusal.why, refusal.error.kind),
        (Why::Unreachable, error::ErrorKind::Connection),
        "{refusal:?}"
    );
}

#[test]
fn what_is_no_http_makes_no_sense() {
    let large = http("200 OK", &[("X-Large", &"x".repeat(100_000))], b"");
    for bytes in [b"220 ftp.example ready\r\n".to_vec(), b"HTTP/1.1 abc\r\n\r\n".to_vec(), large] {
        let server = Scripted::http(move |_| (bytes.clone(), Then::Close));
        let refusal = refused(&mut *remote(&settings()), &server.url("x"));
        assert_eq!(refusal.why, Why::Senseless, "{refusal:?}");
    }
    let headers = [("Bad Name".to_owned(), "x".to_owned())];
    let server = Scripted::http(|_| (http("200 OK", &[("Content-Length", "0")], b""), Then::Keep));
    let url = server.url("x");
    let refusal = remote(&settings()).open(&Ask { headers: &headers, ..ask(&url, 0..1) }).expect_err("no");
    assert_eq!(refusal.why, Why::Senseless);
    assert!(server.requests().is_empty());
}

#[test]
fn a_server_without_head_is_asked_for_a_byte() {
    let server = Scripted::http(|request| {
        if request.lines[0].starts_with("HEAD") {
            return (http("405 Method Not Allowed", &[("Content-Length", "0")], b""), Then::Keep);
        }
        let headers = [("Content-Range", "bytes 0-0/1000"), ("Content-Length", "1"), ("ETag", "\"x\"")];
        (http("206 Partial Content", &headers, b"a"), Then::Keep)
    });
    let version = remote(&settings()).look(&ask(&server.url("x"), 0..u64::MAX)).expect("it");
    assert_eq!((version.bytes, version.tag.as_deref(), version.ranges), (Some(1000), Some("\"x\""), true));
}

#[test]
fn checksums_that_a_server_vouches_for_are_told() {
    let server = Scripted::http(|_| {
        let headers = [
            ("Content-Length", "9"),
            ("Content-MD5", "JfnnlDI7RTiF9RgfG2JNCw=="),
            ("x-goog-hash", "crc32c=4waSgw=="),
        ];
        (http("200 OK", &headers, b"123456789"), Then::Keep)
    });
    let version = get(&mut *remote(&settings()), &ask(&server.url("x"), 0..u64::MAX)).expect("it").0;
    assert_eq!(version.checksums.hex(Algorithm::Md5).as_deref(), Some("25f9e794323b453885f5181f1b624d0b"));
    assert_eq!(version.checksums.hex(Algorithm::Crc32c).as_deref(), Some("e3069283"));
}

/// A proxy that counts the tunnels it has made and the requests it has passed on. It passes each on with
/// `Connection: close`, and tunnels to ports of TLS only, as many do.
fn proxy(tunnels: &Arc<AtomicUsize>, forwarded: &Arc<AtomicUsize>, tls_port: u16) -> Scripted {
    let (tunnels, forwarded) = (Arc::clone(tunnels), Arc::clone(forwarded));
    Scripted::raw(move |_, stream| {
        let mut reader = BufReader::new(stream.try_clone().expect("the same socket"));
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line: &String| !line.trim_end().is_empty()) {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            lines.push(line);
        }
        // What this one wants to hear: "me:secret".
        let known = lines.iter().any(|line| {
            line.to_ascii_lowercase().starts_with("proxy-authorization:")
                && line.trim_end().ends_with("Basic bWU6c2VjcmV0")
        });
        if !known {
            let _ = (&stream)
                .write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
            return;
        }
        let mut words = lines[0].split(' ');
        let (method, target) = (words.next().expect("a method"), words.next().expect("a target"));
        if method != "CONNECT" {
            let url = Url::parse(target).expect("a whole URL");
            forwarded.fetch_add(1, Ordering::Relaxed);
            let mut there =
                TcpStream::connect(url.socket_addrs(|| None).expect("an address")[0]).expect("it");
            let asked = &lines[1..lines.len() - 1];
            let request =
                format!("{method} {} HTTP/1.1\r\n{}Connection: close\r\n\r\n", url.path(), asked.concat());
            there.write_all(request.as_bytes()).expect("written");
            let _ = std::io::copy(&mut there, &mut &stream);
            return;
        }
        assert!(target.ends_with(&format!(":{tls_port}")), "no tunnel to {target}");
        let there = TcpStream::connect((Ipv4Addr::LOCALHOST, tls_port)).expect("the target");
        tunnels.fetch_add(1, Ordering::Relaxed);
        (&stream).write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").expect("written");
        let (mut here, mut back) = (stream.try_clone().expect("again"), there.try_clone().expect("again"));
        let answers = std::thread::spawn(move || {
            let _ = std::io::copy(&mut back, &mut here);
            let _ = here.shutdown(Shutdown::Both);
        });
        let _ = std::io::copy(&mut reader, &mut &there);
        let _ = there.shutdown(Shutdown::Both);
        let _ = answers.join();
    })
}

#[test]
fn requests_go_through_a_proxy_but_for_spared_hosts() {
    let test = "requests_go_through_a_proxy_but_for_spared_hosts";
    let Some((nginx, file, _root)) = nginx(test) else { return };
    let (tunnels, forwarded) = (Arc::default(), Arc::default());
    let tls_port = nginx.secure_url("").port().expect("a port");
    let proxy = proxy(&tunnels, &forwarded, tls_port);
    let counts = || (tunnels.load(Ordering::Relaxed), forwarded.load(Ordering::Relaxed));
    let address = format!("http://me:secret@{}", proxy.url("").authority());
    let mut settings = settings();
    settings.ca = Some(nginx.certificates().ca.clone());
    settings.proxies = Proxies::all(&address, "127.0.0.1");
    let mut through = remote(&settings);
    let urls = [nginx.secure_url("whole"), nginx.url("whole")];
    for url in &urls {
        for _ in 0..2 {
            assert!(get(&mut *through, &ask(url, 0..u64::MAX)).expect("it").2 == file);
        }
        assert_eq!(counts(), (1, 0), "one tunnel for two requests, and 127.0.0.1 is spared");
    }
    settings.proxies = Proxies::all(&address, "");
    let mut through = remote(&settings);
    for url in &urls {
        for _ in 0..2 {
            assert!(get(&mut *through, &ask(url, 7..50_000)).expect("it").2 == file[7..50_000]);
        }
    }
    assert_eq!(counts(), (2, 2));
    settings.proxies = Proxies::all(&address.replace("secret", "guess"), "");
    for url in &urls {
        let refusal = refused(&mut *remote(&settings), url);
        assert!(!refusal.error.message.contains("guess"), "{refusal:?}");
    }
    settings.proxies = Proxies::all("socks5://me:guess@127.0.0.1:1080", "");
    let refusal = refused(&mut *remote(&settings), &urls[0]);
    assert_eq!(refusal.error.kind, error::ErrorKind::Usage);
    assert!(!refusal.error.message.contains("guess"), "{refusal:?}");
}

#[test]
fn a_public_server_leads_to_no_private_address_and_gets_no_other_hosts_login() {
    let server = Scripted::http(|request| {
        let port = request.header("host").and_then(|host| host.rsplit_once(':')).map_or("", |(_, port)| port);
        let to = format!("http://localhost:{port}/there");
        let answer = match request.path() {
            "/there" => http("200 OK", &[("Content-Length", "2")], b"ok"),
            _ => http("302 Found", &[("Location", &to), ("Content-Length", "0")], b""),
        };
        (answer, Then::Keep)
    });
    let dir = tempfile::tempdir().expect("a directory");
    let netrc = dir.path().join("netrc");
    fs::write(&netrc, "default login Aladdin password sesame\n").expect("written");
    let mut settings = ServerSettings { netrc: Some(netrc), ..settings() };
    // Among private addresses all is well, but logins stay with the host that was named.
    assert_eq!(get(&mut *remote(&settings), &ask(&server.url("x"), 0..u64::MAX)).expect("it").2, b"ok");
    let logins: Vec<bool> =
        server.requests().iter().map(|request| request.header("authorization").is_some()).collect();
    assert_eq!(logins, [true, false]);
    let (named, before) = (Url::parse(server.url("x").as_str()).expect("a URL"), server.requests().len());
    // The test's public address is the literal one; what `localhost` means is known by then.
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    settings.is_public = |_| ASKED.fetch_add(1, Ordering::SeqCst) == 0;
    let refusal = refused(&mut *remote(&settings), &named);
    assert!(refusal.error.message.contains("private address"), "{refusal:?}");
    assert_eq!((refusal.why, server.requests().len()), (Why::Denied, before + 1));
}

#[test]
fn a_certificate_that_is_its_own_authority_is_trusted_for_its_host_where_it_was_given() {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
    let test = "a_certificate_that_is_its_own_authority_is_trusted_for_its_host_where_it_was_given";
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("x"), "here").expect("written");
    // As `openssl req -x509` makes them.
    let own = |name: &str, until: i32| {
        let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (parameters.not_before, parameters.not_after) =
            (date_time_ymd(2020, 1, 1), date_time_ymd(until, 1, 1));
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.self_signed(&key).expect("signed").pem();
        let [at, key_at] = [name, "key"].map(|end| dir.path().join(format!("{name}.{end}")));
        fs::write(&at, certificate).expect("written");
        fs::write(&key_at, key.serialize_pem()).expect("written");
        (at, key_at)
    };
    let shown = [own("good", 2090), own("other", 2090), own("old", 2021)];
    let ports = [(); 3].map(|()| testkit::ports::free_port());
    let blocks: String = shown.iter().zip(ports).map(|((at, key), port)| {
        format!(
            "server {{ listen 127.0.0.1:{port} ssl; root {}; ssl_certificate {}; ssl_certificate_key {}; }}\n",
            dir.path().display(), at.display(), key.display()
        )
    }).collect();
    let Some(_nginx) = Nginx::with(dir.path(), &blocks, "") else {
        return skip(test, "nginx is not installed");
    };
    let ask = |host: &str, port: u16, given: usize| {
        let settings = ServerSettings { ca: Some(shown[given].0.clone()), ..settings() };
        let url = Url::parse(&format!("https://{host}:{port}/x")).expect("a URL");
        Servers::new(&settings)
            .remote()
            .open(&ask(&url, 0..u64::MAX))
            .map(drop)
            .map_err(|refusal| refusal.error.message)
    };
    assert_eq!(ask("localhost", ports[0], 0), Ok(()));
    for (host, port, given) in
        [("127.0.0.1", ports[0], 0), ("localhost", ports[1], 0), ("localhost", ports[2], 2)]
    {
        let message = ask(host, port, given).expect_err("not trusted");
        assert!(message.contains("is not trusted"), "{message}");
    }
}
