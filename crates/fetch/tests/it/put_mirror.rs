//! Mirrors and moves at servers that are odd: directories that look like files, moves that do damage, files that come in one
//! answer.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::common::moto;
use crate::put::{s3, store, write};
use testkit::noise;
use testkit::scripted::{Scripted, Then, http};
use tidegate_control::{Environment, PerStage};
use tidegate_fetch::put::dav::DavTarget;
use tidegate_fetch::put::target::Target;
use tidegate_fetch::put::{Upload, UploadSettings};
use tidegate_fetch::remote::servers::ServerSettings;
use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::ledger::Ledger;
use tidegate_transfer::selection::Deletion;
use tidegate_transfer::store::file_source::FileSource;
use tidegate_transfer::store::{BlockContent, Found, Listed, RangeReader, Source};
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::terms::Links;
use tidegate_transfer::transfer::Pace;

/// The contents of a directory of this host.
fn contents(root: &Path) -> FileSource {
    FileSource::local(&[root.join("").as_os_str().as_bytes().to_vec()], Links::Follow).expect("a source")
}

/// Brings `source` to `target`.
fn upload(
    source: impl Source + 'static,
    target: impl Target + 'static,
    deletion: Option<Deletion>,
) -> Arc<Ledger> {
    let pace = Pace::new(Duration::from_millis(50));
    let settings = UploadSettings { pace, deletion, checksum: true, ..UploadSettings::default() };
    let (source, target) = (Box::new(source), Arc::new(target));
    let mut upload = Upload::start(source, target, settings, Box::new(|_| ())).expect("started");
    while upload.step(PerStage { read: 4, network: 4, write: 1 }).expect("it goes on").is_some() {}
    Arc::clone(upload.ledger())
}

fn failures(ledger: &Ledger) -> Vec<String> {
    ledger.failures().into_iter().map(|failure| failure.error.message).collect()
}

type Files = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// A server that takes files and lists a directory as a page whose links have no slash at their ends, also those of
/// directories. It knows no PROPFIND. `moved` is what becomes of a file's content when it is moved, and `listed` of a name.
fn server(
    files: &Files,
    moved: impl Fn(Vec<u8>) -> Vec<u8> + Send + Sync + 'static,
    listed: impl Fn(&str) -> String + Send + Sync + 'static,
) -> Scripted {
    let files = Arc::clone(files);
    Scripted::with_bodies(move |request, body| {
        let (method, path) = request.lines[0].split_once(' ').expect("a request");
        let path = path.split(' ').next().expect("a path").to_owned();
        let mut files = files.lock();
        let is_directory = files.keys().any(|name| name.starts_with(&format!("{path}/")));
        let empty = |status: &str| http(status, &[("content-length", "0")], b"");
        let answer = match method {
            "PUT" => {
                files.insert(path, body.to_vec());
                empty("201 Created")
            }
            "MOVE" => {
                let to = request.header("destination").expect("where to").to_owned();
                let to = format!("/{}", to.splitn(4, '/').nth(3).expect("a path"));
                let content = files.remove(&path).expect("it is there");
                files.insert(to, moved(content));
                empty("201 Created")
            }
            "DELETE" => {
                files.retain(|name, _| *name != path && !name.starts_with(&format!("{path}/")));
                empty("204 No Content")
            }
            "GET" if path.ends_with('/') => {
                let beneath = files.keys().filter_map(|name| name.strip_prefix(&path));
                let links = beneath.map(|name| {
                    let name = listed(name.split('/').next().expect("a name"));
                    format!("<a href=\"{name}\">{name}</a>")
                });
                let page: String = links.collect();
                http(
                    "200 OK",
                    &[("content-type", "text/html"), ("content-length", &page.len().to_string())],
                    page.as_bytes(),
                )
            }
            "HEAD" | "GET" => match files.get(&path) {
                Some(content) => {
                    let size = content.len().to_string();
                    http("200 OK", &[("content-length", &size)], if method == "GET" { content } else { b"" })
                }
                None if is_directory => {
                    let to = format!("{path}/");
                    http("301 Moved Permanently", &[("location", &to), ("content-length", "0")], b"")
                }
                None => empty("404 Not Found"),
            },
            _ => empty("405 Method Not Allowed"),
        };
        (answer, Then::Keep)
    })
}

fn dav(server: &Scripted) -> DavTarget {
    let url = server.url("m/");
    DavTarget::new(&ServerSettings::default(), url, false, Vec::new(), true).expect("a target")
}

#[test]
fn a_directory_that_is_listed_as_a_file_stays_with_all_that_is_in_it() {
    let tree = tempfile::tempdir().expect("a directory");
    for name in ["a", "b", "c"] {
        write(tree.path(), name, name.as_bytes());
    }
    let files = Files::default();
    for name in ["/m/old", "/m/keep/deep/k", "/m/keep/k"] {
        files.lock().insert(name.to_owned(), b"of others".to_vec());
    }
    let server = server(&files, |content| content, str::to_owned);
    let source = contents(tree.path()).mirrored(true).expect("whole directories");
    let ledger = upload(source, dav(&server), Some(Deletion::default()));
    assert_eq!((failures(&ledger), ledger.entries_deleted()), (Vec::new(), 1));
    let there: Vec<String> = files.lock().keys().cloned().collect();
    assert_eq!(there, ["/m/a", "/m/b", "/m/c", "/m/keep/deep/k", "/m/keep/k"]);
}

#[test]
fn a_listing_that_lacks_what_has_just_arrived_removes_nothing() {
    let tree = tempfile::tempdir().expect("a directory");
    for name in ["a", "b"] {
        write(tree.path(), name, name.as_bytes());
    }
    let files = Files::default();
    files.lock().insert("/m/old".to_owned(), b"of others".to_vec());
    let server = server(&files, |content| content, |name| name.replace('a', "%E2%90%81"));
    let source = contents(tree.path()).mirrored(true).expect("whole directories");
    let ledger = upload(source, dav(&server), Some(Deletion::default()));
    let why = failures(&ledger).join("; ");
    assert!(
        why.starts_with("nothing was deleted: the destination lists no such name for 1 of the files"),
        "{why}"
    );
    assert_eq!((ledger.entries_deleted(), files.lock().len()), (0, 3));
}

#[test]
fn what_a_servers_move_has_damaged_is_not_removed_at_the_source() {
    for damage in [0, 1] {
        let tree = tempfile::tempdir().expect("a directory");
        write(tree.path(), "a", b"content");
        let files = Files::default();
        let harm = move |mut content: Vec<u8>| {
            content[0] ^= damage;
            content
        };
        let server = server(&files, harm, str::to_owned);
        let source = contents(tree.path()).moved(true).expect("no link");
        let ledger = upload(source, dav(&server), None);
        let stays = tree.path().join("a").exists();
        assert_eq!(
            (stays, failures(&ledger).len()),
            (damage > 0, usize::from(damage > 0)),
            "{:?}",
            failures(&ledger)
        );
        assert!(failures(&ledger).iter().all(|why| why.contains("a has arrived, and stays at the source")));
    }
}

/// A source whose files come in one answer: a range can only be read behind the one before it.
struct OneAnswer {
    inner: FileSource,
    reading: Arc<AtomicUsize>,
    /// How far the one file was read.
    read_to: Arc<AtomicU64>,
}

impl Source for OneAnswer {
    fn list(&self, found: &mut dyn FnMut(Found) -> bool) -> Result<()> {
        self.inner.list(found)
    }

    fn open(&self, file: &Listed, range: Range<u64>) -> Result<Box<dyn RangeReader>> {
        let inner = self.inner.open(file, range.clone())?;
        if range.is_empty() {
            return Ok(inner);
        }
        let (reading, read_to) = (Arc::clone(&self.reading), Arc::clone(&self.read_to));
        // Whoever was let go first may come last.
        std::thread::sleep(Duration::from_millis(if range.start == 0 { 40 } else { 0 }));
        if reading.fetch_add(1, SeqCst) > 0 || read_to.load(SeqCst) != range.start {
            return Err(Error::protocol(format!("the answer is not at {}", range.start)));
        }
        Ok(Box::new(OneReader { inner, reading, read_to }))
    }

    fn is_undivided(&self, _: &Listed) -> bool {
        true
    }
}

struct OneReader {
    inner: Box<dyn RangeReader>,
    reading: Arc<AtomicUsize>,
    read_to: Arc<AtomicU64>,
}

impl RangeReader for OneReader {
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<BlockContent> {
        let read = self.inner.read(offset, buffer)?;
        self.read_to.store(offset + buffer.len() as u64, SeqCst);
        Ok(read)
    }
}

impl Drop for OneReader {
    fn drop(&mut self) {
        self.reading.fetch_sub(1, SeqCst);
    }
}

#[test]
fn parts_of_a_file_that_comes_in_one_answer_are_read_one_after_the_other() {
    let tree = tempfile::tempdir().expect("a directory");
    write(tree.path(), "large", &noise(3, 23 << 20));
    let server = store(|_, _| None);
    let target = s3(&moto::settings(server.url("").as_str(), true), "in", false, None);
    let (reading, read_to) = Default::default();
    let ledger = upload(OneAnswer { inner: contents(tree.path()), reading, read_to }, target, None);
    // The stand-in has no object afterwards: what matters is that each part could be read.
    assert!(
        failures(&ledger).iter().all(|why| !why.contains("the answer is not at")),
        "{:?}",
        failures(&ledger)
    );
    let sent = server.requests().iter().filter(|request| request.path().contains("partNumber=")).count();
    assert_eq!(sent, 5);
}
