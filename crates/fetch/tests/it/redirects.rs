//! Where servers of the public Internet may not lead us: this host and the network around it. To these tests the
//! public Internet is 127.0.0.1.

use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use crate::common::moto;
use testkit::scripted::{Answer, Scripted, Then, http};
use tidegate_control::ByteCount;
use tidegate_fetch::archive::{ArchiveSettings, Archives, Format, ResolveOptions, Source};
use tidegate_fetch::put::dav::DavTarget;
use tidegate_fetch::put::s3::S3Target;
use tidegate_fetch::put::target::Target;
use tidegate_fetch::record::Named;
use tidegate_fetch::remote::servers::{Proxies, ServerSettings, Servers};
use tidegate_fetch::remote::{Ask, Refusal, Remotes as _};
use tidegate_transfer::error::{Error, ErrorKind};
use url::Url;

fn is_public(address: IpAddr) -> bool {
    address == IpAddr::V4(Ipv4Addr::LOCALHOST)
}

fn settings() -> ServerSettings {
    ServerSettings { timeout: Duration::from_secs(5), is_public, ..ServerSettings::default() }
}

fn answer(status: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let length = body.len().to_string();
    (http(status, &[headers, &[("Content-Length", &length)]].concat(), body.as_bytes()), Then::Keep)
}

fn to(location: &str) -> Answer {
    answer("302 Found", &[("Location", location)], "")
}

/// The whole of a file.
fn get(settings: &ServerSettings, url: &str) -> Result<String, Refusal> {
    let url = Url::parse(url).expect("a URL");
    let ask = Ask { url: &url, headers: &[], range: 0..u64::MAX, version: None };
    let mut text = String::new();
    Servers::new(settings).remote().open(&ask)?.body.read_to_string(&mut text).expect("read");
    Ok(text)
}

fn refused(error: &Error) {
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
    assert!(error.message.contains("to a private address, which is not followed"), "{error}");
}

/// A proxy that answers itself: what is asked for behind `/to/` is where it redirects.
fn proxy() -> Scripted {
    Scripted::http(|request| {
        match request.path().split_once("/to/") {
            Some((_, place)) => to(place),
            // It makes no tunnels.
            None if request.lines[0].starts_with("CONNECT") => answer("403 Forbidden", &[], ""),
            None => answer("200 OK", &[], request.path()),
        }
    })
}

#[test]
fn through_a_proxy_no_public_server_leads_to_a_private_host() {
    let proxy = proxy();
    let settings = ServerSettings { proxies: Proxies::all(proxy.url("").as_str(), ""), ..settings() };
    for (asked, place) in [
        ("http://data.example", "http://other.example/x"),
        ("http://data.example", "http://127.0.0.1:81/x"),
        // Who names a host of a private network may be led about in it.
        ("http://10.0.0.1", "http://10.0.0.2/x"),
        ("http://intranet", "http://localhost:81/x"),
    ] {
        assert_eq!(get(&settings, &format!("{asked}/to/{place}")).as_deref(), Ok(place), "{asked}");
    }
    let before = proxy.requests().len();
    let private = [
        "http://10.0.0.1/x",
        "http://127.1.2.3:81/x",
        "http://169.254.169.254/latest",
        "http://0xa000001/x",
        "http://167772161/x",
        "http://[::1]/x",
        "http://[::ffff:10.0.0.1]/x",
        "http://localhost/x",
        "http://LOCALHOST.:81/x",
        "http://a.localhost/x",
        "http://metadata.google.internal/x",
        "http://intranet/x",
        "https://10.0.0.1/x",
        "https://localhost/x",
    ];
    for place in private {
        refused(&get(&settings, &format!("http://data.example/to/{place}")).expect_err(place).error);
    }
    assert_eq!(proxy.requests().len(), before + private.len(), "the proxy was asked for what was named only");
}

/// What becomes of an accession at archives that all are at one server.
fn resolve(server: &Scripted, proxies: Proxies, wish: ResolveOptions) -> Vec<Named> {
    let at = |path: &str| match proxies == Proxies::none() {
        true => server.url(path).to_string(),
        false => format!("http://archive.example/{path}"),
    };
    let settings = ArchiveSettings {
        ena_url: at("ena"),
        eutils_url: at("eutils"),
        sdl_url: at("sdl"),
        aws_url: at("aws"),
        timeout: Duration::from_secs(5),
        backoff: Duration::from_millis(1),
        ncbi_rate: Some(0.0),
        proxies,
        is_public,
        ..ArchiveSettings::default()
    };
    let archives = Arc::new(Archives::new(settings).expect("good settings"));
    archives.resolve(["SRR000001".to_owned()].into_iter(), wish).collect()
}

#[test]
fn archives_are_followed_as_files_are() {
    let report = "run_accession\tfastq_ftp\nSRR000001\t127.0.0.1:9/a.fastq.gz\n";
    let archive = |place: &'static str| {
        Scripted::http(move |request| match request.path() {
            path if path.ends_with("/moved") => answer("200 OK", &[], report),
            path if path.contains("/ena/filereport") => to(place),
            _ => answer("404 Not Found", &[], ""),
        })
    };
    let ena = || ResolveOptions { source: Source::Ena, ..ResolveOptions::default() };
    for proxied in [false, true] {
        let proxies = |server: &Scripted| match proxied {
            true => Proxies::all(server.url("").as_str(), ""),
            false => Proxies::none(),
        };
        let server = archive("/moved");
        let found = resolve(&server, proxies(&server), ena());
        assert!(matches!(&found[..], [Named::Record(_)]), "{found:?}");
        assert_eq!(server.requests().len(), 2);
        for place in ["http://10.0.0.1/moved", "http://[::1]:9/moved", "http://127.0.0.2:9/moved"] {
            let server = archive(place);
            let found = resolve(&server, proxies(&server), ena());
            let [Named::Problem(_, error)] = &found[..] else { panic!("{found:?}") };
            refused(error);
            assert_eq!(server.requests().len(), 1, "asked once");
        }
    }
    let server = archive("/ena/filereport?again");
    let found = resolve(&server, Proxies::none(), ena());
    let [Named::Problem(_, error)] = &found[..] else { panic!("{found:?}") };
    assert!(error.message.contains("in a circle"), "{error}");
    // The open-data mirror is asked for a head.
    let server = Scripted::http(|request| match request.path().split('/').nth(1) {
        Some("ena") => answer("200 OK", &[], r#"[{"run_accession":"SRR000001"}]"#),
        Some("aws") => to("http://10.0.0.1/sra"),
        _ => answer("404 Not Found", &[], ""),
    });
    let wish = ResolveOptions { source: Source::Aws, format: Format::Sra, ..ResolveOptions::default() };
    let found = resolve(&server, Proxies::none(), ResolveOptions { source: Source::Auto, ..wish });
    let [Named::Problem(_, error)] = &found[..] else { panic!("{found:?}") };
    assert!(error.message.contains("private address"), "{error}");
}

#[test]
fn stores_lead_nowhere_but_to_files() {
    let elsewhere = Scripted::http(|_| answer("200 OK", &[("ETag", "\"x\"")], ""));
    let place = elsewhere.url("there").to_string();
    let store = Scripted::http(move |request| match request.path().contains("private") {
        true => answer("307 Temporary Redirect", &[("Location", "http://10.0.0.1/private")], ""),
        false => answer("307 Temporary Redirect", &[("Location", &place)], ""),
    });
    let with = ServerSettings { is_public, ..moto::settings(store.url("").as_str(), true) };
    // Listing and writing are done at the server that was named, or not at all: what is sent is for nobody else.
    let listed: Vec<_> =
        Servers::new(&with).list(&moto::url("in/")).expect("a prefix").expect("a client").collect();
    assert!(matches!(&listed[..], [Named::Problem(..)]), "{listed:?}");
    let s3 = S3Target::new(&with, moto::object("in/"), false, ByteCount::mib(5), None).expect("a target");
    assert!(s3.connection().expect("a connection").survey().is_err());
    let file = tempfile::NamedTempFile::new().expect("a file");
    assert!(put(file.path(), Arc::new(s3)).is_some(), "nothing is taken");
    // WebDAV servers may store on others, but in no private place.
    let dav = DavTarget::new(&with, store.url("private/"), false, Vec::new(), true).expect("a target");
    refused(&put(file.path(), Arc::new(dav)).expect("nothing is taken"));
    assert!(elsewhere.requests().is_empty(), "{:?}", elsewhere.requests());
    // A file may lie elsewhere, but for private places.
    assert_eq!(get(&with, "s3://bucket/key").as_deref(), Ok(""));
    assert_eq!(elsewhere.requests().len(), 1);
    let error = get(&with, "s3://bucket/private").expect_err("refused").error;
    assert!(!error.message.contains("Signature"), "{error}");
    refused(&error);
}

/// Why a file does not get there.
fn put(file: &std::path::Path, target: Arc<dyn Target>) -> Option<Error> {
    use std::os::unix::ffi::OsStrExt as _;
    use tidegate_control::{Environment as _, PerStage};
    use tidegate_fetch::put::{Upload, UploadSettings};
    use tidegate_transfer::store::file_source::FileSource;
    use tidegate_transfer::terms::Links;

    use tidegate_transfer::transfer::Pace;
    let source = FileSource::local(&[file.as_os_str().as_bytes().to_vec()], Links::Follow).expect("a source");
    let settings = UploadSettings {
        staging: ByteCount::mib(32),
        max_workers: 1,
        retries: 0,
        pace: Pace::new(Duration::from_millis(20)),
        ..UploadSettings::default()
    };
    let mut upload = Upload::start(Box::new(source), target, settings, Box::new(|_| {})).expect("started");
    loop {
        match upload.step(PerStage { read: 1, network: 1, write: 1 }) {
            Ok(Some(_)) => {}
            Ok(None) => return upload.ledger().failures().pop().map(|failure| failure.error),
            Err(error) => return Some(error),
        }
    }
}

#[test]
fn a_sign_on_elsewhere_is_known_by_its_cookie_and_told_to_its_site_only() {
    let server = Scripted::http(|request| {
        let host = request.header("host").unwrap_or_default();
        let (name, port) = host.split_once(':').expect("a port");
        let cookies = request.header("cookie").unwrap_or_default();
        let cookie =
            |to: String, cookie: &str| answer("302 Found", &[("Location", &to), ("Set-Cookie", cookie)], "");
        match (name, request.path()) {
            ("127.0.0.1", "/data") if cookies == "session=2" => answer("200 OK", &[], "the data"),
            ("127.0.0.1", "/data") if cookies.is_empty() => to(&format!("http://localhost:{port}/sign-on")),
            ("localhost", "/sign-on") if cookies.is_empty() => {
                cookie(format!("http://127.0.0.1:{port}/login?code=1"), "sign=1; Path=/; HttpOnly")
            }
            ("127.0.0.1", "/login?code=1") if cookies.is_empty() => {
                cookie("/data".to_owned(), "session=2; Path=/")
            }
            // A new one each time leads nowhere either.
            ("127.0.0.1", "/loop") => {
                cookie("/loop".to_owned(), &format!("n={}; Path=/loop", request.number))
            }
            _ => answer("403 Forbidden", &[], cookies),
        }
    });
    let servers = Servers::new(&settings());
    let data = server.url("data");
    for mut remote in [servers.remote(), servers.remote()] {
        let ask = Ask { url: &data, headers: &[], range: 0..u64::MAX, version: None };
        let mut text = String::new();
        let mut opened = remote.open(&ask).expect("the data");
        opened.body.read_to_string(&mut text).expect("read");
        assert_eq!(text, "the data");
    }
    assert_eq!(server.requests().len(), 5, "one sign-on is enough for all");
    let error = get(&settings(), server.url("loop").as_str()).expect_err("a loop").error;
    assert!(error.message.ends_with("redirects more than 10 times"), "{error}");
    assert!(server.requests().len() < 20);
}
