//! What every store must do, whatever protocol it speaks. A store under test is a [`Subject`]; the macro
//! `conforms` makes a test of every case for it.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::PathBuf;

use tidegate_fetch::remote::{Ask, Opened, Refusal, Remote, Remotes, Version, Why};
use url::Url;

use testkit::noise;

/// A store with a directory of files behind it.
pub struct Subject {
    pub remotes: Box<dyn Remotes>,
    /// Where the store's files are on this machine.
    pub root: tempfile::TempDir,
    /// The URL of a file, by its percent-encoded path.
    pub url: Box<dyn Fn(&str) -> Url>,
    /// Ends the server and starts it again, if there is one.
    pub restart: Option<Box<dyn FnMut()>>,
    /// How many connections were made so far, if that can be told.
    pub connections: Option<Box<dyn Fn() -> usize>>,
    /// A file that is there and that we may not have.
    pub denied: Option<Url>,
    /// Told of each file that is written, by stores that are no directory.
    pub written: Option<Box<dyn Fn(&str)>>,
    /// Keeps the server alive.
    pub _server: Box<dyn std::any::Any>,
}

impl Subject {
    fn put(&self, name: &str, data: &[u8]) {
        let path = self.root.path().join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, data).expect("written");
        self.tell(name);
    }

    fn tell(&self, name: &str) {
        if let Some(written) = &self.written {
            written(name);
        }
    }

    fn age(&self, name: &str, seconds: u64) {
        let file = fs::File::options().write(true).open(self.path(name)).expect("opened");
        let time =
            std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_500_000_000 - seconds);
        file.set_modified(time).expect("set");
        self.tell(name);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn url(&self, path: &str) -> Url {
        (self.url)(path)
    }
}

/// A question about `url` without further ado.
pub fn ask(url: &Url, range: Range<u64>) -> Ask<'_> {
    Ask { url, headers: &[], range, version: None }
}

/// Opens and reads all that was promised.
pub fn get(remote: &mut dyn Remote, ask: &Ask<'_>) -> Result<(Version, Range<u64>, Vec<u8>), Refusal> {
    let Opened { version, range, mut body } = remote.open(ask)?;
    let mut data = Vec::new();
    body.read_to_end(&mut data).unwrap_or_else(|error| panic!("{}: {error}", ask.url));
    Ok((version, range, data))
}

/// Reads one range and compares it with what is there.
fn expect(remote: &mut dyn Remote, url: &Url, range: Range<u64>, file: &[u8]) -> Version {
    let (version, got, data) = get(remote, &ask(url, range.clone())).expect("an answer");
    let size = file.len() as u64;
    let wanted = range.start..range.end.min(size);
    assert_eq!(got, wanted, "{url} {range:?}");
    let part = &file[wanted.start as usize..wanted.end as usize];
    assert!(data == part, "{url} {range:?}: {} bytes instead of {}", data.len(), part.len());
    assert_eq!(version.bytes, Some(size), "{url} {range:?}");
    assert!(version.ranges, "{url} {range:?}");
    version
}

pub fn whole_file(subject: &mut Subject) {
    let file = noise(1, 300_000);
    subject.put("whole", &file);
    let (url, mut remote) = (subject.url("whole"), subject.remotes.remote());
    let first = expect(&mut *remote, &url, 0..u64::MAX, &file);
    let again = expect(&mut *remote, &url, 0..file.len() as u64, &file);
    let looked = remote.look(&ask(&url, 0..u64::MAX)).expect("an answer");
    for other in [&again, &looked] {
        assert!(!first.differs(other), "{first:?} {other:?}");
        assert_eq!(first.modified, other.modified);
    }
    assert!(looked.modified.is_some() && looked.bytes == Some(300_000), "{looked:?}");
}

pub fn every_shape_of_range(subject: &mut Subject) {
    let file = noise(2, 100_003);
    subject.put("ranges", &file);
    let (url, mut remote) = (subject.url("ranges"), subject.remotes.remote());
    let size = file.len() as u64;
    let shapes = [
        0..1,
        size - 1..size,
        size - 1..u64::MAX,
        1..2,
        5_000..70_001,
        0..size,
        0..size + 1,
        1..u64::MAX,
        99_000..size + 50_000,
        0..u64::MAX - 1,
    ];
    for shape in shapes {
        expect(&mut *remote, &url, shape, &file);
    }
}

pub fn beyond_the_end(subject: &mut Subject) {
    subject.put("short", b"0123456789");
    let (url, mut remote) = (subject.url("short"), subject.remotes.remote());
    for range in [10..11, 10..u64::MAX, 1_000..2_000] {
        let refusal = remote.open(&ask(&url, range.clone())).expect_err("nothing is there");
        assert_eq!(refusal.why, Why::Senseless, "{range:?}: {refusal:?}");
    }
    // A file that has become shorter than the version asked for is another one.
    let version = remote.look(&ask(&url, 0..u64::MAX)).expect("an answer");
    subject.put("short", b"0123");
    subject.age("short", 5);
    let pinned = Ask { version: Some(&version), ..ask(&url, 8..10) };
    let refusal = remote.open(&pinned).expect_err("nothing is there");
    assert_eq!(refusal.why, Why::Changed, "{refusal:?}");
}

pub fn empty_file(subject: &mut Subject) {
    subject.put("empty", b"");
    let (url, mut remote) = (subject.url("empty"), subject.remotes.remote());
    for range in [0..u64::MAX, 0..1, 0..1 << 26] {
        let (version, got, data) = get(&mut *remote, &ask(&url, range.clone())).expect("an answer");
        assert_eq!((version.bytes, got, data.len()), (Some(0), 0..0, 0), "{range:?}");
    }
    assert_eq!(remote.look(&ask(&url, 0..u64::MAX)).expect("an answer").bytes, Some(0));
}

pub fn odd_names(subject: &mut Subject) {
    let names = [
        ("with space", "with%20space"),
        ("per%cent", "per%25cent"),
        ("hash#mark", "hash%23mark"),
        ("größe", "gr%C3%B6%C3%9Fe"),
        ("question?mark", "question%3Fmark"),
        ("plus+and&", "plus+and&"),
        ("a;b=c,d", "a;b=c,d"),
        ("quote\"'`", "quote%22'%60"),
        ("br[ack]{ets}", "br%5Back%5D{ets}"),
        ("pipe|caret^", "pipe|caret^"),
        ("deep/er/name", "deep/er/name"),
        ("日本語", "日本語"),
    ];
    let mut remote = subject.remotes.remote();
    for (name, encoded) in names {
        subject.put(name, name.as_bytes());
        expect(&mut *remote, &subject.url(encoded), 0..u64::MAX, name.as_bytes());
    }
}

pub fn beyond_four_gib(subject: &mut Subject) {
    let offset = (5 << 30) + 123;
    let mut file = fs::File::create(subject.path("large")).expect("made");
    file.seek(SeekFrom::Start(offset)).expect("there");
    file.write_all(b"far out").expect("written");
    drop(file);
    let (url, mut remote) = (subject.url("large"), subject.remotes.remote());
    let range = offset - 3..u64::MAX;
    let (version, got, data) = get(&mut *remote, &ask(&url, range)).expect("an answer");
    assert_eq!((version.bytes, got), (Some(offset + 7), offset - 3..offset + 7));
    assert_eq!(data, b"\0\0\0far out");
    let (_, got, data) = get(&mut *remote, &ask(&url, offset..offset + 3)).expect("an answer");
    assert_eq!((got, data), (offset..offset + 3, b"far".to_vec()));
}

pub fn missing_and_denied(subject: &mut Subject) {
    subject.put("there", b"x");
    let (url, mut remote) = (subject.url("not-there"), subject.remotes.remote());
    let refusal = remote.open(&ask(&url, 0..10)).expect_err("nothing is there");
    assert_eq!(refusal.why, Why::Missing, "{refusal:?}");
    assert!(refusal.error.message.contains("not-there"), "{refusal:?}");
    let refusal = remote.look(&ask(&url, 0..10)).expect_err("nothing is there");
    assert_eq!(refusal.why, Why::Missing, "{refusal:?}");
    if let Some(url) = &subject.denied {
        let refusal = remote.open(&ask(url, 0..10)).expect_err("not for us");
        assert_eq!(refusal.why, Why::Denied, "{refusal:?}");
        let refusal = remote.look(&ask(url, 0..10)).expect_err("not for us");
        assert_eq!(refusal.why, Why::Denied, "{refusal:?}");
    }
    // A refusal costs nothing: the next file comes.
    expect(&mut *remote, &subject.url("there"), 0..u64::MAX, b"x");
}

pub fn changed_between_requests(subject: &mut Subject) {
    let (old, new) = (noise(3, 50_000), noise(4, 50_000));
    subject.put("changing", &old);
    subject.age("changing", 100);
    let (url, mut remote) = (subject.url("changing"), subject.remotes.remote());
    let version = expect(&mut *remote, &url, 0..10_000, &old);
    let pinned = Ask { version: Some(&version), ..ask(&url, 10_000..20_000) };
    let (_, _, data) = get(&mut *remote, &pinned).expect("still the same");
    assert!(data == old[10_000..20_000]);
    // Of the same size, by another time only.
    subject.put("changing", &new);
    subject.age("changing", 50);
    let refusal = remote.open(&pinned).expect_err("another one");
    assert_eq!(refusal.why, Why::Changed, "{refusal:?}");
    let refusal = remote.look(&pinned).expect_err("another one");
    assert_eq!(refusal.why, Why::Changed, "{refusal:?}");
    expect(&mut *remote, &url, 10_000..20_000, &new);
    subject.put("changing", b"short");
    let refusal = remote.open(&Ask { range: 0..5, ..pinned }).expect_err("another one");
    assert_eq!(refusal.why, Why::Changed, "{refusal:?}");
}

pub fn small_files_share_a_connection(subject: &mut Subject) {
    let mut remote = subject.remotes.remote();
    for number in 0..50 {
        let (name, data) = (format!("small-{number}"), noise(number, 1_000 + 37 * number as usize));
        subject.put(&name, &data);
        expect(&mut *remote, &subject.url(&name), 0..1 << 26, &data);
    }
    let Some(connections) = &subject.connections else { return };
    assert_eq!(connections(), 1);
}

pub fn a_body_may_be_left(subject: &mut Subject) {
    let file = noise(5, 4 << 20);
    subject.put("left", &file);
    let (url, mut remote) = (subject.url("left"), subject.remotes.remote());
    for start in [0, 1 << 20] {
        let mut opened = remote.open(&ask(&url, start..u64::MAX)).expect("an answer");
        let mut first = [0; 1_000];
        opened.body.read_exact(&mut first).expect("bytes");
        assert!(first == file[start as usize..][..1_000]);
        drop(opened);
        expect(&mut *remote, &url, 7..1_007, &file);
    }
}

pub fn server_restarts_between_requests(subject: &mut Subject) {
    let file = noise(6, 10_000);
    subject.put("again", &file);
    let (url, mut remote) = (subject.url("again"), subject.remotes.remote());
    expect(&mut *remote, &url, 0..u64::MAX, &file);
    let Some(restart) = &mut subject.restart else { return };
    restart();
    expect(&mut *remote, &url, 0..u64::MAX, &file);
}

pub fn several_workers_at_once(subject: &mut Subject) {
    let file = noise(7, 2 << 20);
    subject.put("shared", &file);
    let url = subject.url("shared");
    std::thread::scope(|scope| {
        for part in 0..4_u64 {
            let (mut remote, url, file) = (subject.remotes.remote(), &url, &file);
            scope.spawn(move || {
                for step in 0..8 {
                    let start = (part * 8 + step) << 16;
                    expect(&mut *remote, url, start..start + (1 << 16), file);
                }
            });
        }
    });
}

/// `conforms!(name, start)` makes a module of tests, one for each case. `start` gives an
/// `Option<Subject>`; where it is `None`, the tests say `$why`.
macro_rules! conforms {
    ($name:ident, $start:expr, $why:expr) => {
        conforms!(@ $name, $start, $why,
            whole_file every_shape_of_range beyond_the_end empty_file odd_names beyond_four_gib
            missing_and_denied changed_between_requests small_files_share_a_connection a_body_may_be_left
            server_restarts_between_requests several_workers_at_once);
    };
    (@ $name:ident, $start:expr, $why:expr, $($case:ident)*) => {
        mod $name {
            use super::*;
            $(
                #[test]
                fn $case() {
                    match $start {
                        Some(mut subject) => crate::common::conformance::$case(&mut subject),
                        None => testkit::skip(concat!(stringify!($name), "::", stringify!($case)), $why),
                    }
                }
            )*
        }
    };
}

pub(crate) use conforms;
