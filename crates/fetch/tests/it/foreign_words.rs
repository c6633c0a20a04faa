//! What servers and lists say is never shown as it is: they answer with escape sequences wherever they choose the
//! words, and none of it comes through, neither in what is told nor in logs nor in what is written beside the files.

use std::fmt;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, Once};
use std::time::Duration;

use tidegate_transfer::sys::sync::Mutex;

use crate::common::in_memory::{Place, drive};
use crate::common::moto;
use testkit::scripted::{Answer, Request, Scripted, Then, http};
use tidegate_control::{ByteCount, Environment, PerStage};
use tidegate_fetch::archive::{ArchiveSettings, Archives, Format, ResolveOptions, Source};
use tidegate_fetch::get::{Download, DownloadEvent};
use tidegate_fetch::list::{self, Options};
use tidegate_fetch::put::dav::DavTarget;
use tidegate_fetch::put::s3::S3Target;
use tidegate_fetch::put::target::Target;
use tidegate_fetch::put::{self, Upload};
use tidegate_fetch::record::{Named, Names};
use tidegate_fetch::remote::servers::{ServerSettings, Servers};
use tidegate_fetch::sidecar::{Arrived, Shape, Sidecars};
use tidegate_transfer::store::file_source::FileSource;
use tidegate_transfer::terms::Links;
use tidegate_transfer::transfer::Pace;
use tracing::field::{Field, Visit};
use tracing::span;
use url::Url;

/// Moves the cursor, sets a title, rings, changes the direction, is invisible, and ends a line.
const EVIL: &str =
    "evil\x1b[2J\x1b]0;x\x07\x08\x7f\u{9b}31m\u{202e}\u{2066}\u{61c}\u{200b}\u{2028}\r\nforged: line";

/// The same where a line cannot end: in the middle of one.
fn evil_word() -> String {
    EVIL.replace("\r\n", "\r").replace(' ', "")
}

/// The same where control characters would spoil the protocol.
fn evil_header() -> String {
    EVIL.chars().filter(|c| !c.is_ascii_control()).collect()
}

fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whatever is shown to somebody.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<Vec<String>>>);

impl Shown {
    fn add(&self, text: impl Into<String>) {
        self.0.lock().push(text.into());
    }

    /// Nothing of it reaches beyond its line, and there were at least `least` texts, one with each of `words`.
    fn assert_harmless(&self, least: usize, words: &[&str]) {
        let texts = [&*self.0.lock(), &*logs().0.lock()].map(Clone::clone);
        for text in texts.iter().flatten() {
            assert_eq!(text.chars().find(|&c| is_hidden(c)), None, "{text:?}");
            assert!(text.len() < 10_000, "{} bytes", text.len());
        }
        assert!(texts[0].len() >= least, "{:#?}", texts[0]);
        for word in words {
            assert!(texts[0].iter().any(|text| text.contains(word)), "{word}: {:#?}", texts[0]);
        }
    }
}

/// What is logged by this process, at every level.
fn logs() -> &'static Shown {
    static LOGS: std::sync::LazyLock<Shown> = std::sync::LazyLock::new(Shown::default);
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| tracing::subscriber::set_global_default(Log).expect("the first"));
    &LOGS
}

/// Hears what is logged, as a log writes it: words as they are, other fields as Rust shows them.
struct Log;

impl tracing::Subscriber for Log {
    fn enabled(&self, of: &tracing::Metadata<'_>) -> bool {
        of.target().starts_with("tidegate")
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                self.0.push_str(&format!("{field}={value:?} "));
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        logs().add(text.0);
    }
}

fn settings() -> ServerSettings {
    ServerSettings { timeout: Duration::from_secs(2), ..ServerSettings::default() }
}

/// Gets `names`, writes what is to stand beside them, and gathers whatever is shown on the way.
fn get(names: Names, servers: &ServerSettings, shown: &Shown) {
    logs();
    let place = Place::new();
    let sidecars = Sidecars::new(place.path(), Some(Shape::Generic)).expect("begun");
    let sidecars = Arc::new(Mutex::new(sidecars));
    let (heard, kept) = (shown.clone(), Arc::clone(&sidecars));
    let tell = move |event: DownloadEvent<'_>| {
        let mut sidecars = kept.lock();
        match event {
            DownloadEvent::Done { record, got } | DownloadEvent::Skipped { record, got } => {
                let (url, bytes) = (&got.url, Some(got.bytes));
                let arrived =
                    Arrived { url, bytes, checksums: &got.checksums, seconds: None, verified: false };
                sidecars.arrived(record, &arrived).expect("noted");
            }
            DownloadEvent::Failed { named, record, error } => {
                heard.add(named);
                heard.add(&error.message);
                sidecars.failed(named, record, error).expect("noted");
            }
            DownloadEvent::Note(note) => heard.add(note),
        }
    };
    let mut settings = place.settings();
    settings.retries = 0;
    let servers = Arc::new(Servers::new(servers));
    let mut download = Download::start(names, servers, settings, Box::new(tell)).expect("begun");
    if let Err(error) = drive(&mut download, |_| 4) {
        shown.add(error.message);
    }
    let failures = download.ledger().failures();
    failures.iter().for_each(|failure| shown.add(&failure.error.message));
    drop(download);
    let sidecars = Arc::try_unwrap(sidecars).expect("nobody else has them");
    let written = sidecars.into_inner().write(true).expect("written");
    written.notes.iter().for_each(|note| shown.add(note));
    for name in written.files {
        let text = std::fs::read_to_string(place.path().join(name)).expect("text");
        text.lines().for_each(|line| shown.add(line.replace('\t', " ")));
        assert!(text.lines().all(|line| !line.starts_with("forged")), "{text}");
    }
}

fn urls(urls: impl IntoIterator<Item = Url>) -> Names {
    let urls: Vec<String> = urls.into_iter().map(String::from).collect();
    Box::new(urls.into_iter().map(|url| list::of_url(&url)))
}

/// An answer with a length.
fn answer(status: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let length = body.len().to_string();
    (http(status, &[headers, &[("Content-Length", &length)]].concat(), body.as_bytes()), Then::Close)
}

#[test]
fn what_http_servers_say_is_shown_escaped() {
    fn script(request: &Request) -> Answer {
        let (evil, word, header) = (EVIL, evil_word(), evil_header());
        let path = request.path().trim_start_matches('/').split('?').next().unwrap_or_default();
        let located = |to: &str| answer("302 Found", &[("Location", to)], EVIL);
        match path {
            "status" => answer(&format!("404 {header}"), &[], evil),
            "raw-status" => answer(&format!("503 {word}"), &[], evil),
            "no-status" => (evil.as_bytes().to_vec(), Then::Close),
            "to-nowhere" => located(&header),
            "to-raw" => located(&format!("http://{word}/")),
            "to-scheme" => located(&format!("x-{header}://host/")),
            "to-host" => located(&format!("http://{header}.example/{header}")),
            "to-path" => located(&format!("/found/{header}")),
            "to-query" => located(&format!("/found?{header}#{header}")),
            "to-elsewhere" => located("http://%1b[2J.example/%E2%80%AE%0aforged"),
            "to-known" => located("gopher://host/%E2%80%AE%0aforged"),
            "packed-so" => answer("200 OK", &[("Content-Encoding", "x\"\\evil")], evil),
            "packed" => answer("200 OK", &[("Content-Encoding", &header)], evil),
            "page" => answer("200 OK", &[("Content-Type", "text/html"), ("X-Evil", &header)], evil),
            "kind" => answer("404 Not Found", &[("Content-Type", &header)], evil),
            "range" => answer("206 Partial", &[("Content-Range", &header)], evil),
            "tag" => answer("403 No", &[("ETag", &header), ("WWW-Authenticate", &header)], evil),
            "wait" => answer("429 Slow", &[("Retry-After", &header), ("Date", &header)], evil),
            "chunks" => {
                let chunked = [("Transfer-Encoding", "chunked")];
                (http("200 OK", &chunked, format!("3\r\nabc\r\n{EVIL}\r\n").as_bytes()), Then::Close)
            }
            "short" => (http("200 OK", &[("Content-Length", "100000")], evil.as_bytes()), Then::Close),
            _ => answer("404 Not Found", &[], evil),
        }
    }
    let server = Scripted::http(script);
    let paths = [
        "status",
        "raw-status",
        "no-status",
        "to-nowhere",
        "to-raw",
        "to-scheme",
        "to-host",
        "to-path",
        "to-query",
        "to-elsewhere",
        "to-known",
        "packed",
        "packed-so",
        "page",
        "kind",
        "range",
        "tag",
        "wait",
        "chunks",
        "short",
        "a%1b%5b2J%E2%80%AE%0aforged",
    ];
    let shown = Shown::default();
    get(urls(paths.map(|path| server.url(path))), &settings(), &shown);
    shown.assert_harmless(2 * paths.len(), &["404 Not Found", "packed the file", "redirects", "web page"]);
}

/// An FTP server that replies so to one command, as usual to the others.
fn ftp(at: &'static str, reply: String) -> Scripted {
    Scripted::raw(move |_, stream| {
        let (mut out, mut data) = (&stream, None::<TcpListener>);
        let mut reader = BufReader::new(stream.try_clone().expect("the same socket"));
        let mut say = |reply: &str| out.write_all(format!("{reply}\r\n").as_bytes()).is_ok();
        if !say(if at == "greeting" { &reply } else { "220 ready" }) {
            return;
        }
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let command = line.trim_end().split(' ').next().unwrap_or_default();
            let usual = match command {
                _ if command == at => reply.clone(),
                "USER" => "331 password".to_owned(),
                "PASS" => "230 in".to_owned(),
                "TYPE" => "200 binary".to_owned(),
                "SIZE" => "213 1000".to_owned(),
                "EPSV" => {
                    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
                    let port = bound.local_addr().expect("its address").port();
                    data = Some(bound);
                    format!("229 it (|||{port}|)")
                }
                "RETR" => {
                    let Some(bound) = data.take() else { return };
                    say("150 here it comes");
                    let _ = bound.accept().map(|(mut data, _)| data.write_all(b"too little"));
                    if at == "end" { reply.clone() } else { "226 done".to_owned() }
                }
                _ => "500 what?".to_owned(),
            };
            if !say(&usual) {
                return;
            }
        }
    })
}

#[test]
fn what_ftp_servers_say_is_shown_escaped() {
    // What is answered to which command, in one line or several.
    let word = evil_word();
    let several = |code: u16| format!("{code}-{word}\r\n {word}\r\n{code} {word}");
    let mut cases = vec![("greeting", format!("421 {word}")), ("greeting", word.clone())];
    for (command, codes) in [
        ("greeting", &[500, 120][..]),
        ("USER", &[530, 331, 999]),
        ("PASS", &[530, 421]),
        ("SIZE", &[213, 550, 500]),
        ("MDTM", &[213, 550]),
        ("EPSV", &[229, 502, 421]),
        ("RETR", &[550, 553, 425, 450, 226]),
        ("end", &[426, 551]),
    ] {
        cases.extend(codes.iter().map(|code| (command, format!("{code} {word}"))));
        cases.extend(codes.iter().map(|code| (command, several(*code))));
    }
    let servers: Vec<Scripted> = cases.iter().cloned().map(|(at, reply)| ftp(at, reply)).collect();
    let shown = Shown::default();
    let files = (0..).zip(&servers).map(|(n, server)| server.url_as("ftp", &format!("dir/file{n}")));
    get(urls(files.collect::<Vec<_>>()), &settings(), &shown);
    shown.assert_harmless(
        cases.len(),
        &["the server says 550 evil\\x1b[2J", "the server says 421 evil\\x1b[2J"],
    );
}

/// What an XML document says of a character that it may not hold as it is.
fn xml(text: &str) -> String {
    text.chars().map(|c| format!("&#x{:x};", u32::from(c))).collect()
}

fn s3_error(code: &str, message: &str) -> Answer {
    answer("403 Forbidden", &[], &format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>"))
}

#[test]
fn what_s3_servers_say_is_shown_escaped() {
    let encoded: String = EVIL.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let server = Scripted::http(move |request| {
        let listing =
            |content: &str| answer("200 OK", &[], &format!("<ListBucketResult>{content}</ListBucketResult>"));
        let object =
            |key: &str, size: &str| format!("<Contents><Key>{key}</Key><Size>{size}</Size></Contents>");
        let (path, query) = request.path().split_once('?').unwrap_or((request.path(), ""));
        let prefix = query.split('&').find_map(|pair| pair.strip_prefix("prefix=")).unwrap_or_default();
        match prefix.trim_end_matches("%2F") {
            "encoded" => listing(&format!(
                "<EncodingType>url</EncodingType>{}{}",
                object(&format!("encoded/{encoded}"), "3"),
                object(&format!("elsewhere/{encoded}"), "3")
            )),
            "plain" => {
                listing(&format!("{}{}", object(&format!("plain/../{}", xml(EVIL)), "3"), object(EVIL, "3")))
            }
            "sizes" => listing(&object("sizes/x", EVIL)),
            "tokens" => listing(&format!(
                "<IsTruncated>true</IsTruncated><NextContinuationToken>{EVIL}</NextContinuationToken>"
            )),
            "garbage" => listing(EVIL),
            "refused" => s3_error(EVIL, EVIL),
            "refused-so" => s3_error(&xml(EVIL), &xml(EVIL)),
            "" if path.ends_with("/code") => s3_error("NoSuchKey", &format!("<![CDATA[{EVIL}]]>")),
            "" if path.ends_with("/region") => {
                let region = [("x-amz-bucket-region", "eu\u{202e}"), ("ETag", "\u{9b}")];
                answer("301 Moved", &region, EVIL)
            }
            _ => s3_error(&evil_word(), EVIL),
        }
    });
    let shown = Shown::default();
    let mut with = moto::settings(server.url("").as_str(), true);
    with.timeout = settings().timeout;
    let prefixes = ["encoded", "plain", "sizes", "tokens", "garbage", "refused", "refused-so"];
    let servers = Servers::new(&with);
    let listed = prefixes
        .map(|prefix| servers.list(&moto::url(&format!("{prefix}/"))).expect("a prefix").expect("a client"));
    let objects = urls(["code", "region", "x%1b%E2%80%AE"].map(moto::url));
    get(Box::new(listed.into_iter().flatten().chain(objects)), &with, &shown);
    shown.assert_harmless(prefixes.len() + 3, &["evil\\x1b[2J", "NoSuchKey: evil\\x1b", "in a circle"]);
}

/// The settings of archives that all are at one server.
fn archives(server: &Scripted) -> ArchiveSettings {
    let at = |path: &str| server.url(path).to_string();
    ArchiveSettings {
        ena_url: at("ena"),
        eutils_url: at("eutils"),
        sdl_url: at("sdl"),
        aws_url: at("aws"),
        timeout: Duration::from_secs(10),
        retries: 1,
        backoff: Duration::from_millis(1),
        ena_rate: 0.0,
        ncbi_rate: Some(0.0),
        ..ArchiveSettings::default()
    }
}

#[test]
fn what_archives_say_is_shown_escaped() {
    let json = |text: &str| serde_json::to_string(text).expect("text");
    let row = |column: &str, cell: &str| {
        let mut cells = serde_json::json!({
            "run_accession": "SRR000001", "fastq_ftp": "127.0.0.1:9/a.fastq.gz", "fastq_bytes": "3", "fastq_md5": "",
        });
        cells[column] = cell.into();
        answer("200 OK", &[], &format!("[{cells}]"))
    };
    let page = format!("<html><title>{EVIL}</title>");
    // What ENA answers, and then whoever else is asked.
    let cases: Vec<(Answer, Answer)> = [
        answer("200 OK", &[], EVIL),
        answer("400 Bad", &[], EVIL),
        answer("500 Broken", &[("Retry-After", &evil_header())], EVIL),
        answer("403 No", &[], &page),
        answer("200 OK", &[], &page),
        answer("302 Found", &[("Location", "gopher://host/%1b%E2%80%AE")], EVIL),
        answer("302 Found", &[("Location", &evil_header())], EVIL),
        answer("200 OK", &[], &format!("run_accession\tfastq_ftp\n{}\t\n", EVIL.replace("\r\n", ""))),
        answer("200 OK", &[], &format!("{{{}", json(EVIL))),
        row("run_accession", EVIL),
        row("run_accession", &format!("SRR000001{EVIL}")),
        row("fastq_ftp", EVIL),
        row("fastq_ftp", &format!("127.0.0.1:9/{EVIL}")),
        row("fastq_ftp", "127.0.0.1:9/a%1b%5b2J%E2%80%AE.gz"),
        row("fastq_bytes", EVIL),
        row("fastq_md5", EVIL),
        row("dbgap_study_accession", EVIL),
        row("sample_title", EVIL),
        row(EVIL, EVIL),
        (EVIL.as_bytes().to_vec(), Then::Close),
    ]
    .into_iter()
    .map(|ena| (ena, answer("200 OK", &[], &format!("<ERROR>{EVIL}</ERROR>"))))
    .chain(
        [
            answer("200 OK", &[], &format!(r#"{{"esearchresult":{{"ERROR":{}}}}}"#, json(EVIL))),
            answer(
                "200 OK",
                &[],
                &format!(r#"{{"result":[{{"bundle":"SRR000001","status":500,"msg":{}}}]}}"#, json(EVIL)),
            ),
            answer("200 OK", &[], &format!(r#"{{"message":{}}}"#, json(EVIL))),
            answer("200 OK", &[], &format!("Run,{EVIL}\n\"{EVIL}")),
            answer("200 OK", &[], &format!("<{EVIL}")),
        ]
        .into_iter()
        .flat_map(|others| {
            [answer("204 None", &[], ""), answer("200 OK", &[], r#"[{"run_accession":"SRR000001"}]"#)]
                .map(|ena| (ena, others.clone()))
        }),
    )
    .collect();
    let shown = Shown::default();
    for (ena, others) in cases {
        let server = Scripted::http(move |request| match request.path().split('/').nth(1) {
            Some("ena") => ena.clone(),
            Some("aws") => answer("404 None", &[("ETag", &evil_header())], EVIL),
            _ => others.clone(),
        });
        for format in [Format::Fastq, Format::Sra] {
            for source in [Source::Auto, Source::Ena, Source::Ncbi] {
                let wish =
                    ResolveOptions { format, source, allow_fallback: true, ..ResolveOptions::default() };
                let archives = Arc::new(Archives::new(archives(&server)).expect("good settings"));
                let asked = ["SRR000001", "GSE1", EVIL].map(str::to_owned).into_iter();
                get(archives.resolve(asked, wish), &settings(), &shown);
            }
        }
    }
    shown
        .assert_harmless(100, &["ENA refused the question: evil\\x1b", "NCBI's locator answered: evil\\x1b"]);
}

#[test]
fn what_lists_say_is_shown_escaped() {
    let json = |text: &str| serde_json::to_string(text).expect("text");
    let (evil, word) = (EVIL, EVIL.replace(['\r', '\n', ' '], ""));
    let lists: &[(&str, String)] = &[
        ("urls", format!("{word}\n")),
        ("urls", format!("{word}://x\nhttp://{word}/\nhttp://127.0.0.1:9/{word}\n  out=../{word}\n")),
        (
            "urls",
            format!("http://127.0.0.1:9/a\n  out={word}\nhttp://127.0.0.1:9/b\n  checksum={word}={word}\n"),
        ),
        ("urls", format!("http://127.0.0.1:9/a\n  {word}=x\nhttp://127.0.0.1:9/b\n  header=A: {word}\n")),
        ("urls", format!("http://127.0.0.1:9/a\n  header={word}: b\n  referer={word}\n  x-\u{202e}={word}")),
        ("sums", format!("{word}\n{}  {word}\nMD5 ({word}) = {word}\n", "0".repeat(32))),
        (
            "tsv",
            format!("url\tsize\t{word}\n{word}\t{word}\t{word}\nhttp://127.0.0.1:9/a\t3\t{word}\n{word}\n"),
        ),
        ("tsv", format!("fastq_ftp\trun_accession\n{word}\t{word}\n\t{word}\n")),
        ("tsv", format!("{word}\t{word}\n")),
        (
            "csv",
            format!("url,md5,group\n\"{evil}\",\"{evil}\",\"{evil}\"\nhttp://127.0.0.1:9/a,,\"{evil}\"\n"),
        ),
        (
            "json",
            format!("{{\"url\":{0},\"path\":{0},\"group\":{0}}}\n{evil}\n{{\"acc\":{0}}}\n", json(evil)),
        ),
        (
            "json",
            format!(
                "{{\"url\":\"http://127.0.0.1:9/a\",\"path\":{0},\"group\":{0},\"meta\":{{{0}:{0}}}}}\n",
                json(evil)
            ),
        ),
        ("json", format!("[{evil}]")),
        ("bagit", format!("http://127.0.0.1:9/a - {word}\nhttp://{word} - a\n{word} {word} {word}\n")),
        ("metalink", format!("<{word}>{evil}</{word}>")),
        (
            "metalink",
            format!(
                "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"{0}\"><size>{1}</size><url>{1}</url>\
                 <hash type=\"md5\">{1}</hash></file><file name=\"{0}\"><url>http://127.0.0.1:9/{0}</url></file>\
                 <file name=\"x\">&{word};</file><file name=\"y\"></{word}>",
                xml(evil),
                evil
            ),
        ),
    ];
    let shown = Shown::default();
    for (format, text) in lists {
        let base = Url::parse("http://127.0.0.1:9/").ok();
        let options = Options { format: Some(format.parse().expect("a kind")), base, ..Options::default() };
        let words = || -> list::Words {
            Box::new(|word| word.parse::<tidegate_fetch::archive::Accession>().map(drop))
        };
        match list::read(std::io::Cursor::new(text.clone()), None, &options, words()) {
            Ok(names) => get(names, &settings(), &shown),
            Err(error) => shown.add(error.message),
        }
        // As `--dry-run --json` prints it: it says the same, and nothing that a terminal obeys.
        let Ok(names) = list::read(std::io::Cursor::new(text.clone()), None, &options, words()) else {
            continue;
        };
        for named in names {
            let Named::Record(record) = named else { continue };
            let line = list::json_line(&record);
            shown.add(line.as_str());
            let said: serde_json::Value = serde_json::from_str(&line).expect("JSON");
            assert_eq!(said["group"].as_str(), record.group.as_deref());
        }
    }
    shown.assert_harmless(2 * lists.len(), &["evil\\x1b[2J", "is no size in bytes", "evil\\u001b[2J"]);
}

#[test]
fn what_servers_that_are_written_to_say_is_shown_escaped() {
    logs();
    let shown = Shown::default();
    let tree = tempfile::tempdir().expect("a directory");
    std::fs::write(tree.path().join("file"), b"content").expect("written");
    let answers = [
        answer("403 No", &[("Location", &evil_header())], EVIL),
        answer("301 Moved", &[("Location", "/%1b%E2%80%AE%0aforged")], EVIL),
        answer("507 Full", &[("Retry-After", &evil_header())], &format!("<D:error>{EVIL}</D:error>")),
        s3_error(EVIL, EVIL),
        s3_error("InternalError", &xml(EVIL)),
        answer("200 OK", &[("ETag", &format!("\"{}\"", evil_header()))], EVIL),
        answer("200 OK", &[("ETag", "\"evil\\x\"")], &format!("<ListBucketResult>{EVIL}</ListBucketResult>")),
        (EVIL.as_bytes().to_vec(), Then::Close),
    ];
    for said in answers {
        // A server that first says what is usual, so that its later answers are met too.
        for late in [false, true] {
            let said = said.clone();
            let server = Scripted::with_bodies(move |request, _| match &request.lines[0][..4] {
                "GET " | "HEAD" if late && request.path().contains("list-type") => {
                    answer("200 OK", &[], "<ListBucketResult></ListBucketResult>")
                }
                "GET " if late => {
                    answer("200 OK", &[], "<ListMultipartUploadsResult></ListMultipartUploadsResult>")
                }
                "HEAD" if late => answer("404 None", &[], ""),
                "MKCO" if late => answer("201 Made", &[], ""),
                _ => said.clone(),
            });
            let dav = DavTarget::new(&settings(), server.url("in/"), false, Vec::new(), true);
            let mut with = moto::settings(server.url("").as_str(), true);
            with.timeout = settings().timeout;
            let s3 = S3Target::new(&with, moto::object("in/"), false, ByteCount::mib(5), None);
            let targets: [Arc<dyn Target>; 2] =
                [Arc::new(dav.expect("a target")), Arc::new(s3.expect("a target"))];
            targets.into_iter().for_each(|target| upload(tree.path(), target, &shown));
        }
    }
    shown.assert_harmless(30, &["the server says 403", "evil\\x1b[2J"]);
}

fn upload(tree: &std::path::Path, target: Arc<dyn Target>, shown: &Shown) {
    let source = FileSource::local(&[tree.as_os_str().as_bytes().to_vec()], Links::Follow).expect("a source");
    let settings = put::UploadSettings {
        staging: ByteCount::mib(32),
        max_workers: 2,
        retries: 1,
        pace: Pace::new(Duration::from_millis(20)),
        ..put::UploadSettings::default()
    };
    let heard = shown.clone();
    let tell = move |event: put::UploadEvent<'_>| match event {
        put::UploadEvent::Failed(_, error) => heard.add(&error.message),
        put::UploadEvent::Note(_, why) => heard.add(why.to_string()),
        _ => {}
    };
    let mut upload = Upload::start(Box::new(source), target, settings, Box::new(tell)).expect("started");
    loop {
        match upload.step(PerStage { read: 1, network: 1, write: 1 }) {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) => break shown.add(error.message),
        }
    }
    upload.ledger().failures().iter().for_each(|failure| shown.add(&failure.error.message));
}
