//! Files to S3-compatible stores and WebDAV servers: against moto, wsgidav and nginx, and against
//! servers that lie.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tidegate_transfer::sys::sync::Mutex;

use crate::common::moto::{self, Configured as _, Moto, NO_MOTO};
use data_encoding::BASE64;
use testkit::scripted::{Answer, Request, Scripted, Then, http};
use testkit::{noise, skip};
use tidegate_control::{ByteCount, Environment, PerStage};
use tidegate_fetch::checksum::{Algorithm, Hashers};
use tidegate_fetch::put::s3::S3Target;
use tidegate_fetch::put::target::Target;
use tidegate_fetch::put::{Upload, UploadEvent, UploadSettings};
use tidegate_fetch::remote::servers::{ServerSettings, Servers};
use tidegate_fetch::remote::{Ask, Remotes as _};
use tidegate_transfer::catalogue::Catalogues;
use tidegate_transfer::counters::Totals;
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::store::file_source::FileSource;
use tidegate_transfer::sys::confined::Root;
use tidegate_transfer::terms::Links;
use tidegate_transfer::transfer::{Interrupt, Pace};

const MIB: usize = 1 << 20;

/// What a run was told and counted.
#[derive(Debug)]
struct Ran {
    result: Result<(), Error>,
    totals: Totals,
    events: Vec<String>,
    failures: Vec<(String, Error)>,
    verified: bool,
    /// The lowest ceiling that a rule would have seen.
    fewest: u16,
}

/// How a run goes.
struct Run<'a> {
    sources: Vec<&'a Path>,
    target: Arc<dyn Target>,
    interrupt: Interrupt,
    state: Option<&'a Path>,
    retries: u32,
    dry: bool,
    checksum: bool,
    /// Readers and connections, epoch by epoch, over and over.
    setpoints: Vec<(u16, u16)>,
}

impl<'a> Run<'a> {
    fn new(source: &'a Path, target: impl Target + 'static) -> Self {
        let target = Arc::new(target);
        let interrupt = Interrupt::default();
        Self {
            sources: vec![source],
            target,
            interrupt,
            state: None,
            retries: 8,
            dry: false,
            checksum: false,
            setpoints: vec![(2, 3)],
        }
    }

    fn go(self) -> Ran {
        let paths: Vec<_> = self.sources.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect();
        let source = FileSource::local(&paths, Links::Follow).expect("a source");
        let catalogues = self.state.map(|state| {
            let root = Root::open(state.as_os_str().as_bytes()).expect("opened");
            Catalogues::new(&root).expect("catalogues")
        });
        let unverified = Arc::new(AtomicBool::new(false));
        let settings = UploadSettings {
            staging: ByteCount::mib(32),
            max_workers: 8,
            retries: self.retries,
            pace: Pace::new(Duration::from_millis(50)),
            interrupt: self.interrupt,
            dry: self.dry,
            checksum: self.checksum,
            catalogue: catalogues.as_ref().and_then(|all| all.of(&self.target.identity())),
            unverified: Arc::clone(&unverified),
            ..UploadSettings::default()
        };
        let events = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&events);
        let tell = move |event: UploadEvent<'_>| {
            let line = match event {
                UploadEvent::Done(path, _) => format!("done {path}"),
                UploadEvent::Skipped(path, _) => format!("skipped {path}"),
                UploadEvent::Left(path) => format!("left {path}"),
                UploadEvent::Would(path, _) => format!("would {path}"),
                UploadEvent::Deleted(path) => format!("deleted {path}"),
                UploadEvent::WouldDelete(path) => format!("would delete {path}"),
                UploadEvent::Failed(path, _) => format!("failed {}", String::from_utf8_lossy(path)),
                UploadEvent::Note(path, why) => format!("note {} {why}", String::from_utf8_lossy(path)),
            };
            told.lock().push(line);
        };
        let mut upload =
            Upload::start(Box::new(source), self.target, settings, Box::new(tell)).expect("started");
        let mut setpoints = self.setpoints.iter().cycle();
        let end = std::time::Instant::now() + Duration::from_secs(60);
        let mut fewest = u16::MAX;
        let result = loop {
            assert!(std::time::Instant::now() < end, "it never ends: {:?}", upload.ledger().totals());
            let (read, network) = *setpoints.next().expect("some");
            match upload.step(PerStage { read, network, write: 1 }) {
                Ok(Some(_)) => fewest = fewest.min(upload.bounds().network.max),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let (ledger, verified) = (Arc::clone(upload.ledger()), !unverified.load(Relaxed));
        drop(upload);
        let failures = ledger.failures();
        let failures = failures
            .into_iter()
            .map(|failure| (String::from_utf8_lossy(&failure.path).into_owned(), failure.error))
            .collect();
        let mut events = events.lock().clone();
        events.sort();
        Ran { result, totals: ledger.totals(), events, failures, verified, fewest }
    }
}

pub(crate) fn s3(settings: &ServerSettings, key: &str, single: bool, state: Option<&Path>) -> S3Target {
    let root = state.map(|state| Root::open(state.as_os_str().as_bytes()).expect("opened"));
    let part = ByteCount::mib(5);
    S3Target::new(settings, moto::object(key), single, part, root.as_ref()).expect("a target")
}

pub(crate) fn write(root: &Path, name: impl AsRef<Path>, data: &[u8]) {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().expect("above")).expect("made");
    std::fs::write(path, data).expect("written");
}

fn directories() -> (tempfile::TempDir, tempfile::TempDir) {
    let make = || tempfile::tempdir().expect("a directory");
    (make(), make())
}

fn none_under_way(server: &Moto) {
    let xml = server.uploads();
    assert!(!xml.contains("<Upload>"), "{xml}");
}

#[test]
fn a_tree_goes_to_a_bucket_and_a_second_run_finds_it_there() {
    let Some(server) = Moto::start() else {
        return skip("a_tree_goes_to_a_bucket_and_a_second_run_finds_it_there", NO_MOTO);
    };
    let (tree, state) = directories();
    let files = [
        ("empty", noise(1, 0)),
        ("one", noise(2, 1)),
        ("a b/100%+ü?#&='\"<>.txt", noise(3, 5000)),
        ("日本/語", noise(4, 200_000)),
        ("exact", noise(5, 5 * MIB)),
        ("large", noise(6, 12 * MIB + 345)),
    ];
    for (name, data) in &files {
        write(tree.path(), name, data);
    }
    write(tree.path(), std::ffi::OsStr::from_bytes(b"no\xffutf8"), b"x");
    let contents = tree.path().join("");
    let run = |checksum| {
        let target = s3(&server.settings(), "in/here", false, Some(state.path()));
        let run = Run { state: Some(state.path()), checksum, ..Run::new(&contents, target) };
        run.go()
    };
    let ran = run(false);
    assert_eq!(ran.result, Ok(()));
    assert_eq!((ran.totals.files_done, ran.totals.files_failed), (6, 1), "{ran:?}");
    assert!(ran.verified);
    assert!(ran.failures[0].1.message.contains("UTF-8"), "{:?}", ran.failures);
    for (name, data) in &files {
        assert!(server.get(&format!("in/here/{name}")).as_ref() == Some(data), "{name}");
    }
    let head = server.ask("HEAD", "bucket/in/here/large", b"");
    assert!(head.header("etag").is_some_and(|tag| tag.trim_matches('"').ends_with("-3")), "sent in parts");
    assert!(head.header("x-amz-meta-mtime").is_some());
    none_under_way(&server);
    // Remembered, then by reading, then without any memory: nothing is sent again.
    for (checksum, forget) in [(false, false), (true, false), (false, true)] {
        if forget {
            std::fs::remove_dir_all(state.path().join("catalogue")).expect("removed");
        }
        let again = run(checksum);
        assert_eq!((again.totals.files_skipped, again.totals.bytes_moved), (6, 0), "{again:?}");
    }
    // Same size, other content: found by reading, and by what is remembered.
    write(tree.path(), "one", &noise(99, 1));
    write(tree.path(), "exact", &noise(98, 5 * MIB));
    let changed = run(false);
    assert_eq!((changed.totals.files_done, changed.totals.files_skipped), (2, 4), "{changed:?}");
    assert_eq!(server.get("in/here/exact"), Some(noise(98, 5 * MIB)));
}

#[test]
fn one_file_gets_the_name_it_is_given() {
    let Some(server) = Moto::start() else { return skip("one_file_gets_the_name_it_is_given", NO_MOTO) };
    let tree = tempfile::tempdir().expect("a directory");
    write(tree.path(), "x", b"content");
    let file = tree.path().join("x");
    let settings = server.settings();
    let dry = Run { dry: true, ..Run::new(&file, s3(&settings, "new name", true, None)) }.go();
    assert_eq!((dry.events, server.keys().len()), (vec!["would x".to_owned()], 0));
    for key in ["new name", "dir/", ""] {
        assert_eq!(Run::new(&file, s3(&settings, key, true, None)).go().result, Ok(()));
    }
    assert_eq!(server.keys(), ["dir/x", "new name", "x"]);
    let whole = Run::new(tree.path(), s3(&settings, "deep", false, None)).go();
    let name = tree.path().file_name().expect("a name").to_string_lossy();
    assert_eq!(whole.result, Ok(()));
    assert!(server.keys().contains(&format!("deep/{name}/x")), "{:?}", server.keys());
}

/// An upload is stopped in the middle and goes on where it was.
#[test]
fn an_interrupted_upload_goes_on_by_the_servers_list() {
    let Some(server) = Moto::start() else {
        return skip("an_interrupted_upload_goes_on_by_the_servers_list", NO_MOTO);
    };
    let (tree, state) = directories();
    let data = noise(1, 33 * MIB);
    write(tree.path(), "big", &data);
    let file = tree.path().join("big");
    // Three parts of it, as a run that was killed leaves them; the second is damaged.
    let begin = || {
        let xml = server.ask("POST", "bucket/big?uploads", b"").text();
        let id = tidegate_fetch::remote::s3::answer::element(&xml, "UploadId").expect("an id");
        for number in 1..=3 {
            let mut part = data[(number - 1) * 5 * MIB..number * 5 * MIB].to_vec();
            part[7] ^= u8::from(number == 2);
            let path = format!("bucket/big?partNumber={number}&uploadId={id}");
            assert!(server.ask("PUT", &path, &part).is_ok());
        }
        id
    };
    begin();
    let ran = Run::new(&file, s3(&server.settings(), "big", true, Some(state.path()))).go();
    assert_eq!(ran.result, Ok(()), "{ran:?}");
    assert_eq!(ran.totals.bytes_skipped, 10 * MIB as u64, "two parts were there");
    assert_eq!(ran.totals.bytes_done, 23 * MIB as u64);
    assert!(server.get("big") == Some(data.clone()));
    none_under_way(&server);
    // Cut otherwise, it is left alone and another one is begun.
    server.ask("DELETE", "bucket/big", b"");
    let xml = server.ask("POST", "bucket/big?uploads", b"").text();
    let id = tidegate_fetch::remote::s3::answer::element(&xml, "UploadId").expect("an id");
    assert!(server.ask("PUT", &format!("bucket/big?partNumber=1&uploadId={id}"), &data[..6 * MIB]).is_ok());
    let ran = Run::new(&file, s3(&server.settings(), "big", true, Some(state.path()))).go();
    assert_eq!((ran.result, ran.totals.bytes_skipped), (Ok(()), 0));
    assert!(server.get("big") == Some(data));
    assert!(server.uploads().contains(&id), "it may be somebody else's");
}

#[test]
fn what_changes_meanwhile_is_never_mixed_and_its_upload_is_removed() {
    let Some(server) = Moto::start() else {
        return skip("what_changes_meanwhile_is_never_mixed_and_its_upload_is_removed", NO_MOTO);
    };
    let tree = tempfile::tempdir().expect("a directory");
    write(tree.path(), "growing", &noise(1, 12 * MIB));
    write(tree.path(), "steady", &noise(2, 1000));
    let file = tree.path().join("growing");
    // It is written to once its upload has begun: the listing sees it before, the reader after.
    let target = Meddler { inner: s3(&server.settings(), "in", false, None), file };
    let contents = tree.path().join("");
    let ran = Run::new(&contents, target).go();
    assert_eq!(ran.result, Ok(()));
    assert_eq!(ran.events, ["done steady", "failed growing"], "{ran:?}");
    assert_eq!(ran.failures[0].1.kind, ErrorKind::Changed);
    assert_eq!(server.keys(), ["in/steady"]);
    none_under_way(&server);
}

/// Writes to a file when its plan has been made.
struct Meddler {
    inner: S3Target,
    file: std::path::PathBuf,
}

impl Target for Meddler {
    fn connection(
        &self,
    ) -> tidegate_transfer::error::Result<Box<dyn tidegate_fetch::put::target::UploadConnection>> {
        self.inner.connection()
    }
    fn plan(
        &self,
        path: &tidegate_transfer::path::RelPath,
        size: u64,
    ) -> tidegate_transfer::error::Result<(tidegate_transfer::path::RelPath, tidegate_fetch::put::target::Plan)>
    {
        if path.as_bytes() == b"growing" {
            let mut file = std::fs::File::options().append(true).open(&self.file).expect("opened");
            std::io::Write::write_all(&mut file, b"more").expect("written");
        }
        self.inner.plan(path, size)
    }
    fn server(&self) -> tidegate_transfer::error::Result<url::Url> {
        self.inner.server()
    }
    fn names(
        &self,
        patience: tidegate_fetch::remote::patience::Patience,
    ) -> tidegate_transfer::error::Result<tidegate_fetch::record::Names> {
        self.inner.names(patience)
    }
    fn shown(&self, path: &tidegate_transfer::path::RelPath) -> String {
        self.inner.shown(path)
    }
    fn identity(&self) -> Vec<u8> {
        self.inner.identity()
    }
}

/// An S3 server of few words: `alter` may answer in its place, and learns how often the same was asked.
pub(crate) fn store(alter: impl Fn(&Request, usize) -> Option<Answer> + Send + Sync + 'static) -> Scripted {
    store_hearing(|_, _| (), alter)
}

/// The same, and `hear` learns the bodies.
fn store_hearing(
    hear: impl Fn(&Request, &[u8]) + Send + Sync + 'static,
    alter: impl Fn(&Request, usize) -> Option<Answer> + Send + Sync + 'static,
) -> Scripted {
    let seen = Mutex::new(std::collections::HashMap::<String, usize>::new());
    Scripted::with_bodies(move |request, body| {
        hear(request, body);
        let method = request.lines[0].split(' ').next().unwrap_or_default().to_owned();
        let (path, query) = request.path().split_once('?').unwrap_or((request.path(), ""));
        let own: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("X-Amz")).collect();
        let what = format!("{method} {path} {}", own.join("&"));
        let times = {
            let mut seen = seen.lock();
            let times = seen.entry(what).or_default();
            *times += 1;
            *times
        };
        if let Some(answer) = alter(request, times) {
            return answer;
        }
        let xml =
            |text: &str| http("200 OK", &[("content-length", &text.len().to_string())], text.as_bytes());
        use md5::{Digest, Md5};
        let tag = format!("\"{}\"", data_encoding::HEXLOWER.encode(&Md5::digest(body)));
        let answer = match (method.as_str(), query) {
            ("GET", query) if query.contains("list-type=2") => {
                xml("<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
            }
            ("GET", query) if query.contains("uploads") => {
                xml("<ListMultipartUploadsResult></ListMultipartUploadsResult>")
            }
            ("POST", query) if query.contains("uploads") => {
                xml("<InitiateMultipartUploadResult><UploadId>id</UploadId></InitiateMultipartUploadResult>")
            }
            ("POST", _) => xml("<CompleteMultipartUploadResult></CompleteMultipartUploadResult>"),
            ("PUT", _) => http("200 OK", &[("etag", &tag), ("content-length", "0")], b""),
            ("DELETE", _) => http("204 No Content", &[], b""),
            _ => http("404 Not Found", &[("content-length", "0")], b""),
        };
        (answer, Then::Keep)
    })
}

fn is_part(request: &Request) -> bool {
    request.path().contains("partNumber=")
}

fn refusal(status: &str, code: &str) -> Option<Answer> {
    let body = format!("<Error><Code>{code}</Code><Message>so</Message></Error>");
    Some((http(status, &[("content-length", &body.len().to_string())], body.as_bytes()), Then::Keep))
}

/// What was asked, without the signatures.
fn asked(server: &Scripted, method: &str, what: &str) -> usize {
    let is = |request: &Request| request.lines[0].starts_with(method) && request.path().contains(what);
    server.requests().iter().filter(|request| is(request)).count()
}

fn large(seed: u64) -> (tempfile::TempDir, std::path::PathBuf) {
    let tree = tempfile::tempdir().expect("a directory");
    write(tree.path(), "large", &noise(seed, 11 * MIB));
    let file = tree.path().join("large");
    (tree, file)
}

fn head_of_large() -> Option<Answer> {
    use md5::{Digest, Md5};
    let data = noise(5, 11 * MIB);
    let mut all = Md5::new();
    data.chunks(5 * MIB).for_each(|part| all.update(Md5::digest(part)));
    let tag = format!("\"{}-3\"", data_encoding::HEXLOWER.encode(&all.finalize()));
    let length = data.len().to_string();
    Some((http("200 OK", &[("etag", &tag), ("content-length", &length)], b""), Then::Keep))
}

#[test]
fn a_part_that_arrives_damaged_is_sent_again() {
    let server = store(|request, times| match request.lines[0].split(' ').next() {
        Some("HEAD") => head_of_large(),
        // Once the wrong sum, once a dropped connection, once S3's own word for damage.
        _ if is_part(request) && request.path().contains("partNumber=1&") && times == 1 => Some((
            http("200 OK", &[("etag", "\"00000000000000000000000000000000\""), ("content-length", "0")], b""),
            Then::Keep,
        )),
        _ if is_part(request) && request.path().contains("partNumber=2&") && times == 1 => {
            Some((Vec::new(), Then::Reset))
        }
        _ if is_part(request) && request.path().contains("partNumber=3&") && times == 1 => {
            refusal("400 Bad Request", "BadDigest")
        }
        _ => None,
    });
    let (_tree, file) = large(5);
    let target = s3(&moto::settings(server.url("").as_str(), true), "large", true, None);
    let ran = Run::new(&file, target).go();
    assert_eq!((ran.result, ran.events), (Ok(()), vec!["done large".to_owned()]), "{:?}", ran.failures);
    assert_eq!(asked(&server, "PUT", "partNumber="), 6);
    assert_eq!(ran.totals.bytes_done, 11 * MIB as u64);
    assert!(ran.totals.bytes_again > 0);
    // The sum went ahead of each part, and completing named the tags.
    let requests = server.requests();
    assert!(requests.iter().filter(|request| is_part(request)).all(|r| r.header("content-md5").is_some()));
    assert_eq!(asked(&server, "POST", "uploadId=id"), 1);
}

fn sum(algorithm: Algorithm, data: &[u8]) -> String {
    let mut hashers = Hashers::new([algorithm]);
    hashers.update(data);
    BASE64.encode(hashers.finish().get(algorithm).expect("computed"))
}

#[test]
fn each_piece_has_its_crc_and_the_whole_that_of_all() {
    let completed = Arc::new(Mutex::new(String::new()));
    let said = Arc::clone(&completed);
    let hear = move |request: &Request, body: &[u8]| {
        if request.lines[0].starts_with("POST") && request.path().contains("uploadId=id") {
            *said.lock() = String::from_utf8_lossy(body).into_owned();
        }
    };
    let is_head = |request: &Request| request.lines[0].starts_with("HEAD /bucket/in/large");
    let server = store_hearing(hear, move |request, _| is_head(request).then(head_of_large).flatten());
    let tree = tempfile::tempdir().expect("a directory");
    let (large, small) = (noise(5, 11 * MIB), noise(7, 1234));
    write(tree.path(), "large", &large);
    write(tree.path(), "small", &small);
    write(tree.path(), "empty", b"");
    let contents = tree.path().join("");
    let target = s3(&moto::settings(server.url("").as_str(), true), "in", false, None);
    let ran = Run::new(&contents, target).go();
    assert_eq!((ran.result, ran.totals.files_done), (Ok(()), 3), "{:?}", ran.failures);
    let requests = server.requests();
    let one = |method: &str, what: &str| {
        let is = |request: &&Request| request.lines[0].starts_with(method) && request.path().contains(what);
        requests.iter().find(is).unwrap_or_else(|| panic!("no {method} {what}")).clone()
    };
    let crc = "x-amz-checksum-crc64nvme";
    for (name, data) in [("small", &small[..]), ("empty", b"")] {
        let put = one("PUT", &format!("/in/{name}"));
        assert_eq!(put.header(crc), Some(&*sum(Algorithm::Crc64Nvme, data)), "{name}");
        assert_eq!(put.header("x-amz-meta-md5chksum"), Some(&*sum(Algorithm::Md5, data)), "{name}");
        assert!(put.header("x-amz-meta-mtime").is_some(), "{name}");
    }
    let begun = one("POST", "uploads=");
    assert_eq!(begun.header("x-amz-checksum-algorithm"), Some("CRC64NVME"));
    assert_eq!(begun.header("x-amz-checksum-type"), Some("FULL_OBJECT"));
    assert_eq!(begun.header("x-amz-meta-tidegate-part-size"), Some("5242880"));
    let xml = completed.lock().clone();
    for (number, part) in (1..).zip(large.chunks(5 * MIB)) {
        let (sent, sum) = (one("PUT", &format!("partNumber={number}&")), sum(Algorithm::Crc64Nvme, part));
        assert_eq!(sent.header(crc), Some(&*sum), "part {number}");
        assert!(xml.contains(&format!("<ChecksumCRC64NVME>{sum}</ChecksumCRC64NVME>")), "{xml}");
    }
    let end = one("POST", "uploadId=id");
    assert_eq!(end.header(crc), Some(&*sum(Algorithm::Crc64Nvme, &large)));
    assert_eq!(end.header("x-amz-checksum-type"), Some("FULL_OBJECT"));
}

#[test]
fn a_server_that_takes_no_crc_is_asked_once_and_served_without() {
    let names = ["x-amz-checksum-algorithm", "x-amz-checksum-crc64nvme"];
    type Refuses = fn(&Request) -> bool;
    let at: [(&str, Refuses, &str, &str); 3] = [
        ("all", |_| true, "400 Bad Request", "InvalidArgument"),
        ("pieces", |request| request.lines[0].starts_with("PUT"), "501 Not Implemented", "NotImplemented"),
        (
            "completion",
            |request| request.path().contains("uploadId=id") && !is_part(request),
            "400 Bad Request",
            "InvalidRequest",
        ),
    ];
    for (what, refuses, status, code) in at {
        let refused = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&refused);
        let server = store(move |request, _| {
            if refuses(request) && names.iter().any(|name| request.header(name).is_some()) {
                count.fetch_add(1, Relaxed);
                return refusal(status, code);
            }
            request.lines[0].starts_with("HEAD").then(head_of_large).flatten()
        });
        let tree = tempfile::tempdir().expect("a directory");
        write(tree.path(), "0", &noise(5, 11 * MIB));
        (1..20).for_each(|n| write(tree.path(), n.to_string(), &noise(n, 100 + n as usize)));
        let contents = tree.path().join("");
        let target = s3(&moto::settings(server.url("").as_str(), true), "in", false, None);
        let ran = Run { setpoints: vec![(1, 1)], ..Run::new(&contents, target) }.go();
        assert_eq!((ran.result, ran.totals.files_done), (Ok(()), 20), "{what}: {:?}", ran.failures);
        assert_eq!(refused.load(Relaxed), 1, "{what}");
    }
}

#[test]
fn what_went_in_parts_is_proved_when_it_is_got() {
    let Some(server) = Moto::start() else {
        return skip("what_went_in_parts_is_proved_when_it_is_got", NO_MOTO);
    };
    let (_tree, file) = large(5);
    let data = noise(5, 11 * MIB);
    // Moto keeps the sum that it is told, and one that has none tells by its tag and what was kept.
    for (name, checks) in [("kept", true), ("told", false)] {
        if checks {
            let target = s3(&server.settings(), name, true, None);
            assert_eq!(Run::new(&file, target).go().result, Ok(()));
        } else {
            let xml = server.ask("POST", "bucket/told?uploads", b"").text();
            let id = tidegate_fetch::remote::s3::answer::element(&xml, "UploadId").expect("an id");
            let mut parts = Vec::new();
            for (number, part) in (1..).zip(data.chunks(6 * MIB)) {
                let reply =
                    server.ask("PUT", &format!("bucket/told?partNumber={number}&uploadId={id}"), part);
                parts.push((number, reply.header("etag").expect("a tag").trim_matches('"').to_owned()));
            }
            let parts = parts.iter().map(|(number, tag)| (*number, tag.as_str(), None));
            let xml = tidegate_fetch::remote::s3::answer::complete(parts);
            assert!(server.ask("POST", &format!("bucket/told?uploadId={id}"), xml.as_bytes()).is_ok());
        }
        let mut remote = Servers::new(&server.settings()).remote();
        let ask = Ask { url: &moto::url(name), headers: &[], range: 0..u64::MAX, version: None };
        let vouched = remote.look(&ask).expect("an answer").checksums;
        let mut sums = Hashers::new(vouched.algorithms()).and_of_parts(vouched.of_parts());
        sums.update(&data);
        let sums = sums.finish();
        assert!(vouched.agrees(&sums) && vouched.refute(), "{name}: {vouched:?} {sums:?}");
    }
}

#[test]
fn what_never_arrives_whole_is_removed_and_never_completed() {
    let server = store(|request, _| {
        let is_second = is_part(request) && request.path().contains("partNumber=2&");
        is_second.then(|| refusal("400 Bad Request", "BadDigest")).flatten()
    });
    let (_tree, file) = large(6);
    let target = s3(&moto::settings(server.url("").as_str(), true), "large", true, None);
    let ran = Run { retries: 2, ..Run::new(&file, target) }.go();
    assert_eq!((ran.result, ran.events), (Ok(()), vec!["failed large".to_owned()]));
    assert_eq!(asked(&server, "PUT", "partNumber=2&"), 3);
    assert_eq!(asked(&server, "POST", "uploadId=id"), 0, "not completed");
    assert_eq!(asked(&server, "DELETE", "uploadId=id"), 1, "but removed");
    assert_eq!(ran.failures[0].1.kind, ErrorKind::Corrupt, "{:?}", ran.failures);
}

#[test]
fn a_wrong_sum_of_the_whole_is_found_out() {
    let server = store(|request, _| match request.lines[0].split(' ').next() {
        Some("HEAD") => Some((
            http(
                "200 OK",
                &[("etag", "\"00000000000000000000000000000000-3\""), ("content-length", "11534336")],
                b"",
            ),
            Then::Keep,
        )),
        _ => None,
    });
    let (_tree, file) = large(5);
    let target = s3(&moto::settings(server.url("").as_str(), true), "large", true, None);
    let ran = Run::new(&file, target).go();
    assert_eq!(ran.failures[0].1.kind, ErrorKind::Corrupt, "{:?}", ran.failures);
    assert_eq!(ran.events, ["failed large"]);
}

#[test]
fn a_tag_of_the_whole_in_place_of_the_parts_is_proved_by_reading_back() {
    use md5::{Digest, Md5};
    for (seed, event) in [(5, "done large"), (6, "failed large")] {
        let there = noise(seed, 11 * MIB);
        let tag = format!("\"{}\"", data_encoding::HEXLOWER.encode(&Md5::digest(&there)));
        let server = store(move |request, _| {
            let is_read =
                request.lines[0].starts_with("GET /bucket/large?") && !request.path().contains("list-type");
            let body = if is_read { &there[..] } else { b"" };
            let head = [("etag", tag.as_str()), ("content-length", "11534336")];
            (is_read || request.lines[0].starts_with("HEAD"))
                .then(|| (http("200 OK", &head, body), Then::Keep))
        });
        let (_tree, file) = large(5);
        let target = s3(&moto::settings(server.url("").as_str(), true), "large", true, None);
        let ran = Run::new(&file, target).go();
        assert_eq!(ran.events, [event], "{:?}: {:?}", ran.failures, server.requests());
    }
}

#[test]
fn a_server_that_asks_for_less_gets_less() {
    let server = store(|request, times| match request.lines[0].split(' ').next() {
        Some("HEAD") => head_of_large(),
        Some("PUT") if times <= 2 => refusal("503 Slow Down", "SlowDown"),
        _ => None,
    });
    let (_tree, file) = large(5);
    let target = s3(&moto::settings(server.url("").as_str(), true), "large", true, None);
    let ran = Run::new(&file, target).go();
    assert_eq!((ran.result, ran.events), (Ok(()), vec!["done large".to_owned()]), "{:?}", ran.failures);
    assert!(ran.fewest < 8, "every rule sees that fewer connections are wanted");
}

#[test]
fn a_target_that_cannot_be_written_to_is_said_at_once() {
    let tree = tempfile::tempdir().expect("a directory");
    write(tree.path(), "x", b"x");
    let contents = tree.path().join("");
    let go = |script: fn(&Request, usize) -> Option<Answer>| {
        let server = store(script);
        let target = s3(&moto::settings(server.url("").as_str(), true), "in", false, None);
        let ran = Run::new(&contents, target).go();
        let error = ran.result.err().or_else(|| ran.failures.first().map(|(_, error)| error.clone()));
        (error.expect("refused"), server.requests().len())
    };
    let (wrong, asked) = go(|_, _| refusal("403 Forbidden", "SignatureDoesNotMatch"));
    assert_eq!((wrong.kind, asked), (ErrorKind::Authentication, 1), "{wrong}");
    assert!(wrong.message.contains("AWS_SECRET_ACCESS_KEY"), "{wrong}");
    let (missing, _) = go(|_, _| refusal("404 Not Found", "NoSuchBucket"));
    assert_eq!(missing.kind, ErrorKind::NotFound, "{missing}");
    let (denied, _) = go(|request, _| match request.lines[0].starts_with("PUT") {
        true => refusal("403 Forbidden", "AccessDenied"),
        false => None,
    });
    assert_eq!(denied.kind, ErrorKind::Denied, "{denied}");
    assert!(denied.message.contains("s3://bucket/in/x") && !denied.message.contains("X-Amz"), "{denied}");
    let server = store(|_, _| None);
    let settings = moto::settings(server.url("").as_str(), true);
    drop(server);
    let gone = Run { retries: 1, ..Run::new(&contents, s3(&settings, "in", false, None)) }.go();
    assert_eq!(gone.result.expect_err("nobody is there").kind, ErrorKind::Connection);
}

#[test]
fn whoever_may_only_write_can() {
    let server = store(|request, _| match request.lines[0].split(' ').next() {
        Some("GET") => refusal("403 Forbidden", "AccessDenied"),
        Some("HEAD") => Some((http("403 Forbidden", &[("content-length", "0")], b""), Then::Keep)),
        _ => None,
    });
    let tree = tempfile::tempdir().expect("a directory");
    write(tree.path(), "x", b"x");
    let contents = tree.path().join("");
    let target = s3(&moto::settings(server.url("").as_str(), true), "in", false, None);
    let ran = Run::new(&contents, target).go();
    assert_eq!((ran.result, ran.events), (Ok(()), vec!["done x".to_owned()]), "{:?}", ran.failures);
}

#[test]
fn small_files_share_warm_connections_while_workers_come_and_go() {
    let server = store(|_, _| None);
    let tree = tempfile::tempdir().expect("a directory");
    for i in 0..120 {
        write(tree.path(), format!("{i}"), &noise(i, 2000 + i as usize));
    }
    let contents = tree.path().join("");
    let target = s3(&moto::settings(server.url("").as_str(), true), "in", false, None);
    let run = Run { setpoints: vec![(1, 1), (4, 8), (2, 1), (8, 5)], ..Run::new(&contents, target) };
    let ran = run.go();
    assert_eq!((ran.result, ran.totals.files_done), (Ok(()), 120), "{:?}", ran.failures);
    assert_eq!(asked(&server, "PUT", "/bucket/in/"), 120);
    assert_eq!(asked(&server, "HEAD", ""), 0, "nothing was there, so nothing is looked at");
    // Eight workers, and whoever looked at the bucket first.
    let connections = server.requests().iter().map(|request| request.connection).max().expect("some") + 1;
    assert!(connections <= 9, "{connections}");
}

#[test]
fn parts_arrive_whatever_the_set_point_does() {
    let Some(server) = Moto::start() else {
        return skip("parts_arrive_whatever_the_set_point_does", NO_MOTO);
    };
    let tree = tempfile::tempdir().expect("a directory");
    let data = noise(3, 63 * MIB + 1);
    write(tree.path(), "big", &data);
    let file = tree.path().join("big");
    // More workers than staging has room for parts, fewer, and one.
    let setpoints = vec![(8, 8), (1, 1), (2, 6), (8, 1), (1, 8)];
    let run = Run { setpoints, ..Run::new(&file, s3(&server.settings(), "big", true, None)) };
    let ran = run.go();
    assert_eq!((ran.result, ran.totals.bytes_done), (Ok(()), data.len() as u64), "{:?}", ran.failures);
    assert!(server.get("big") == Some(data));
    none_under_way(&server);
}
