//! Files from servers that answer in ways that are odd, and right all the same.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tempfile::TempDir;
use testkit::noise;
use testkit::scripted::{Answer, Request, Scripted, Then, http};
use tidegate_control::{ByteCount, Concurrency, Environment as _};
use tidegate_fetch::checksum::{Algorithm, Hashers};
use tidegate_fetch::get::{Download, DownloadEvent, DownloadSettings};
use tidegate_fetch::record::{Named, Record};
use tidegate_fetch::remote::servers::{ServerSettings, Servers};
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::path::RelPath;
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::transfer::Pace;
use url::Url;

/// Gets what `record` names with four connections.
fn get(record: Record, change: impl FnOnce(&mut DownloadSettings)) -> Result<Vec<u8>, Error> {
    get_into(&tempfile::tempdir().expect("a directory"), record, change)
}

/// The same into a directory in which an earlier run may have left something.
fn get_into(
    directory: &TempDir,
    record: Record,
    change: impl FnOnce(&mut DownloadSettings),
) -> Result<Vec<u8>, Error> {
    let path = directory.path().join(record.path.to_string());
    let mut settings = DownloadSettings {
        retries: 2,
        retry_for: Duration::from_secs(2),
        chunk: Some(ByteCount::mib(1)),
        pace: Pace::new(Duration::from_millis(20)),
        ..DownloadSettings::new(directory.path().as_os_str().as_bytes()).expect("settings")
    };
    change(&mut settings);
    let failed: Arc<Mutex<Option<Error>>> = Arc::default();
    let tell = {
        let failed = Arc::clone(&failed);
        Box::new(move |event: DownloadEvent<'_>| {
            if let DownloadEvent::Failed { error, .. } = event {
                *failed.lock() = Some(error.clone());
            }
        })
    };
    let names = Box::new(std::iter::once(Named::Record(Box::new(record))));
    let timeout = Duration::from_secs(10);
    let servers = Servers::new(&ServerSettings { timeout, ..ServerSettings::default() });
    let mut download = Download::start(names, Arc::new(servers), settings, tell).expect("started");
    while download.step(Concurrency { read: 1, network: 4, write: 2 }).expect("no error").is_some() {}
    drop(download);
    let failed = failed.lock().take();
    failed.map_or_else(|| Ok(std::fs::read(path).expect("it is there")), Err)
}

/// The same with the MD5 of `file` declared.
fn declared(url: &Url, file: &[u8]) -> Record {
    let mut record = record(url);
    let mut hashers = Hashers::new([Algorithm::Md5]);
    hashers.update(file);
    record.checksums = hashers.finish();
    record
}

fn record(url: &Url) -> Record {
    Record::new(url.clone(), RelPath::new("f").expect("a path"))
}

/// The bytes that are asked for, of a file of `size`.
fn range(request: &Request, size: usize) -> Option<(usize, usize)> {
    let (from, to) = request.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
    let to = to.parse().map_or(size, |last: usize| (last + 1).min(size));
    Some((from.parse().ok()?, to))
}

/// An answer to a range, or of the whole, with these header lines more.
fn answer(status: &str, more: &[(&str, &str)], body: &[u8], request: &Request) -> Answer {
    let length = body.len().to_string();
    let body = if request.lines[0].starts_with("HEAD") { &[] } else { body };
    (http(status, &[more, &[("Content-Length", &length)]].concat(), body), Then::Keep)
}

/// What a server that knows ranges answers.
fn ranged(request: &Request, file: &[u8], more: &[(&str, &str)]) -> Answer {
    match range(request, file.len()) {
        Some((from, to)) => {
            let range = format!("bytes {from}-{}/{}", to - 1, file.len());
            let more = [more, &[("Content-Range", &range)]].concat();
            answer("206 Partial Content", &more, &file[from..to], request)
        }
        None => answer("200 OK", &[more, &[("Accept-Ranges", "bytes")]].concat(), file, request),
    }
}

fn gets(name: &str, file: &[u8], server: &Scripted) {
    let got = get(record(&server.url("f")), |_| {});
    assert!(got.as_ref().is_ok_and(|got| got == file), "{name}: {:?}", got.err());
}

#[test]
fn informational_answers_before_the_final_one_are_passed_over() {
    let file = noise(3, 3_000_000);
    for early in [
        "HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n",
        "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n",
        "HTTP/1.1 100 Continue\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\n\r\n",
    ] {
        let whole = file.clone();
        let server = Scripted::http(move |request| {
            let (bytes, then) = ranged(request, &whole, &[("ETag", "\"one\"")]);
            ([early.as_bytes(), &bytes].concat(), then)
        });
        gets(early, &file, &server);
    }
    let server =
        Scripted::http(|_| ("HTTP/1.1 102 Processing\r\n\r\n".repeat(2000).into_bytes(), Then::Keep));
    let error = get(record(&server.url("f")), |_| {}).expect_err("it never answers");
    assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
}

#[test]
fn an_empty_file_may_be_told_by_a_refusal_of_its_beginning() {
    let server = Scripted::http(|request| match request.header("range") {
        Some(_) => {
            answer("416 Range Not Satisfiable", &[("Content-Type", "text/html")], b"<p>no</p>", request)
        }
        None => answer("200 OK", &[], b"", request),
    });
    gets("empty", b"", &server);
}

#[test]
fn parts_of_a_size_that_is_not_told_are_taken() {
    let file = noise(4, 3_000_000);
    for has_head in [true, false] {
        let whole = file.clone();
        let server = Scripted::http(move |request| match range(request, whole.len()) {
            Some((from, to)) => {
                let range = format!("bytes {from}-{}/*", to - 1);
                answer("206 Partial Content", &[("Content-Range", &range)], &whole[from..to], request)
            }
            None if request.lines[0].starts_with("HEAD") && !has_head => answer("405 No", &[], b"", request),
            None => answer("200 OK", &[], &whole, request),
        });
        gets("size from elsewhere", &file, &server);
    }
}

#[test]
fn less_than_was_asked_for_is_continued_and_other_forms_are_asked_for_whole() {
    let file = noise(5, 1_500_000);
    for most in [200_000, 10_000] {
        let whole = file.clone();
        let server = Scripted::http(move |request| match range(request, whole.len()) {
            Some((from, to)) => {
                let to = to.min(from + most);
                let range = format!("bytes {from}-{}/{}", to - 1, whole.len());
                answer("206 Partial Content", &[("Content-Range", &range)], &whole[from..to], request)
            }
            None => answer("200 OK", &[("Accept-Ranges", "bytes")], &whole, request),
        });
        gets(&format!("{most} bytes at a time"), &file, &server);
    }
    let whole = file.clone();
    let server = Scripted::http(move |request| match request.header("range") {
        Some(_) => {
            let kind = "multipart/byteranges; boundary=B";
            answer("206 Partial Content", &[("Content-Type", kind)], b"\r\n--B\r\n", request)
        }
        None => answer("200 OK", &[("Accept-Ranges", "bytes")], &whole, request),
    });
    gets("several parts", &file, &server);
}

#[test]
fn a_part_may_come_with_the_status_of_the_whole() {
    let file = noise(6, 3_000_000);
    let whole = file.clone();
    let server = Scripted::http(move |request| match range(request, whole.len()) {
        Some((from, to)) => {
            let range = format!("bytes {from}-{}/{}", to - 1, whole.len());
            answer("200 OK", &[("Content-Range", &range), ("ETag", "\"a\"")], &whole[from..to], request)
        }
        None => answer("200 OK", &[("ETag", "\"a\"")], &whole, request),
    });
    gets("200 and a range", &file, &server);
    // One that ignores ranges and says so in its own way.
    let whole = file.clone();
    let server = Scripted::http(move |request| {
        let range = format!("bytes 0-{}/{}", whole.len() - 1, whole.len());
        answer("200 OK", &[("Content-Range", &range)], &whole, request)
    });
    gets("200 and the whole range", &file, &server);
}

#[test]
fn a_redirect_may_name_its_place_in_bytes_that_are_no_ascii() {
    for place in [&b"/caf\xc3\xa9 a.txt"[..], b"/caf\xe9"] {
        let server = Scripted::http(move |request| match request.path() {
            "/f" => {
                let head = [b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: ", place, b"\r\n\r\n"];
                (head.concat(), Then::Keep)
            }
            "/caf%C3%A9%20a.txt" | "/caf%E9" => ranged(request, b"found", &[]),
            _ => answer("404 Not Found", &[], b"", request),
        });
        gets("a redirect", b"found", &server);
    }
}

#[test]
fn what_is_being_staged_is_asked_for_until_it_is_there() {
    let asked = AtomicUsize::new(0);
    let server = Scripted::http(move |request| match asked.fetch_add(1, Relaxed) {
        0 | 1 => answer("202 Accepted", &[("Retry-After", "0")], b"being staged", request),
        _ => ranged(request, b"staged", &[]),
    });
    gets("staged", b"staged", &server);
    let server = Scripted::http(|request| answer("202 Accepted", &[("Retry-After", "3600")], b"", request));
    let error = get(record(&server.url("f")), |settings| settings.retry_for = Duration::from_secs(1));
    let error = error.expect_err("it never comes");
    assert!(error.message.contains("given up after 1"), "{error}");
    assert_eq!(server.requests().len(), 2, "once at first, and once at the end");
}

#[test]
fn a_busy_server_that_asks_for_a_long_wait_is_given_up_in_time() {
    let server =
        Scripted::http(|request| answer("503 Service Unavailable", &[("Retry-After", "3600")], b"", request));
    let error = get(record(&server.url("f")), |settings| settings.retry_for = Duration::from_secs(1));
    let error = error.expect_err("it is never less busy");
    assert_eq!(error.kind, ErrorKind::Busy, "{error}");
    assert!(error.message.contains("given up after 1"), "{error}");
}

/// Servers behind a balancer: one for every other connection, with a tag of its own.
fn balanced(files: [Vec<u8>; 2], honours: bool) -> Scripted {
    Scripted::http(move |request| {
        let node = request.connection % 2;
        let tag = format!("\"{node}\"");
        match request.header("if-match") {
            Some(wanted) if honours && wanted != tag => {
                answer("412 Precondition Failed", &[("ETag", &tag)], b"", request)
            }
            _ => ranged(request, &files[node], &[("ETag", &tag)]),
        }
    })
}

#[test]
fn tags_that_differ_for_the_same_bytes_end_no_download() {
    let file = noise(7, 6_000_000);
    for honours in [true, false] {
        for is_declared in [true, false] {
            let server = balanced([file.clone(), file.clone()], honours);
            let url = server.url("f");
            let record = if is_declared { declared(&url, &file) } else { record(&url) };
            let got = get(record, |_| {});
            assert!(got.as_ref().is_ok_and(|got| *got == file), "{honours} {is_declared}: {:?}", got.err());
        }
    }
}

#[test]
fn bytes_of_two_versions_are_never_one_file() {
    let files = [noise(8, 6_000_000), noise(9, 6_000_000)];
    for honours in [true, false] {
        let server = balanced(files.clone(), honours);
        match get(declared(&server.url("f"), &files[0]), |_| {}) {
            Ok(got) => assert!(got == files[0], "it has not the sum that was declared"),
            Err(error) => assert!(matches!(error.kind, ErrorKind::Corrupt | ErrorKind::Changed), "{error}"),
        }
        let server = balanced(files.clone(), honours);
        match get(record(&server.url("f")), |_| {}) {
            Ok(got) => assert!(files.contains(&got), "a mixture"),
            Err(error) => assert_eq!(error.kind, ErrorKind::Changed, "{error}"),
        }
    }
}

/// What two servers behind a balancer have: the same until `from`.
fn differing(size: usize, from: usize) -> [Vec<u8>; 2] {
    let one = noise(12, size);
    let other = [&one[..from], &noise(13, size)[from..]].concat();
    [one, other]
}

/// How often a file of `size` was begun, and over how many connections it came.
fn begun(server: &Scripted, size: usize) -> (usize, usize) {
    let requests = server.requests();
    let gets = || requests.iter().filter(|request| request.lines[0].starts_with("GET"));
    let ranges = gets().map(|request| range(request, size).unwrap_or((0, size)));
    let begun = ranges.filter(|(from, to)| *from == 0 && *to > 64 << 10).count();
    (begun, gets().map(|request| request.connection).collect::<BTreeSet<_>>().len())
}

#[test]
fn what_has_another_tag_over_each_connection_comes_over_several_connections() {
    let file = noise(14, 24 << 20);
    let server = balanced([file.clone(), file.clone()], false);
    gets("tags by connection", &file, &server);
    let (begun, connections) = begun(&server, file.len());
    assert!(connections > 1, "one connection");
    assert_eq!(begun, 1, "it was begun anew");
}

#[test]
fn servers_whose_bytes_differ_somewhere_give_the_file_of_one_of_them_in_one_answer() {
    // From the beginning, and where the first sample sees nothing of it.
    for from in [0, 12 << 20] {
        let files = differing(24 << 20, from);
        let server = balanced(files.clone(), false);
        let got = get(record(&server.url("f")), |_| {}).expect("it comes");
        assert!(files.contains(&got), "from {from} on: a mixture");
    }
}

#[test]
fn what_came_of_several_tags_is_continued_whichever_comes_next() {
    const SIZE: usize = 24 << 20;
    let [file, other] = differing(SIZE, 0);
    // What the second run finds: both tags, one of them, another file of their size by both, or a file of a third tag.
    for (second, whole, tags) in [
        ("both", &file, ["0", "1"]),
        ("one", &file, ["1", "1"]),
        ("replaced, by both", &other, ["0", "1"]),
        ("replaced", &other, ["2", "2"]),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let (is_second, sent) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
        let files = [file.clone(), whole.clone()];
        let runs = Arc::clone(&is_second);
        let server = Scripted::http(move |request| {
            let node = request.connection % 2;
            if runs.load(Relaxed) {
                return ranged(request, &files[1], &[("ETag", &format!("\"{}\"", tags[node]))]);
            }
            // In the first run each answer breaks off, and in the end there is none.
            if sent.load(Relaxed) >= 12 << 20 {
                return answer("403 Forbidden", &[], b"", request);
            }
            let (mut bytes, _) = ranged(request, &files[0], &[("ETag", &format!("\"{node}\""))]);
            bytes.truncate(2 << 20);
            sent.fetch_add(bytes.len(), Relaxed);
            (bytes, Then::Close)
        });
        let refused = get_into(&directory, record(&server.url("f")), |settings| settings.retries = 50);
        let refused = refused.map(|_| ());
        assert_eq!(refused.expect_err("it is refused").kind, ErrorKind::Denied);
        let first = server.requests().len();
        is_second.store(true, Relaxed);
        let got = get_into(&directory, record(&server.url("f")), |_| {});
        assert!(got.as_ref().is_ok_and(|got| got == whole), "{second}: {:?}", got.err());
        if second == "both" {
            let requests = server.requests();
            let asked: Vec<_> = requests[first..].iter().filter_map(|request| range(request, SIZE)).collect();
            let is_asked =
                |at: &usize| asked.iter().any(|(from, to)| to - from > 64 << 10 && (*from..*to).contains(at));
            let kept = (0..SIZE).step_by(128 << 10).filter(|at| !is_asked(at)).count();
            assert!(kept > 24, "{kept} blocks of what was there did not come again");
        }
    }
}

#[test]
fn a_server_that_refuses_every_condition_is_asked_without() {
    let file = noise(10, 6_000_000);
    for status in ["412 Precondition Failed", "400 Bad Request"] {
        let whole = file.clone();
        let server = Scripted::http(move |request| {
            let is_pinned =
                ["if-match", "if-unmodified-since"].iter().any(|name| request.header(name).is_some());
            match is_pinned {
                true => answer(status, &[], b"", request),
                false => ranged(request, &whole, &[("ETag", "\"same-gzip\"")]),
            }
        });
        gets(status, &file, &server);
        let parts = server.requests().iter().filter(|request| request.header("if-match").is_some()).count();
        assert!(parts > 1, "it was got in parts");
    }
}

#[test]
fn a_time_that_moves_beside_a_tag_or_alone_is_no_other_file() {
    let file = noise(11, 6_000_000);
    for head in [&[("ETag", "\"same\"")][..], &[]] {
        let (whole, asked) = (file.clone(), AtomicUsize::new(0));
        let server = Scripted::http(move |request| {
            let moved = format!("Mon, 01 Jan 2024 00:00:{:02} GMT", asked.fetch_add(1, Relaxed) % 60);
            ranged(request, &whole, &[head, &[("Last-Modified", &moved)]].concat())
        });
        gets("a time that moves", &file, &server);
    }
}
