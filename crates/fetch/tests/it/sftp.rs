//! Files to OpenSSH's server of SFTP, which is reached without ssh here.

use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, UNIX_EPOCH};

use testkit::{noise, skip};
use tidegate_control::{BitRate, ByteCount, Environment, PerStage};
use tidegate_fetch::put::sftp::{SftpTarget, SftpWriting};
use tidegate_fetch::put::{Upload, UploadSettings};
use tidegate_fetch::remote::servers::{ServerSettings, Servers};
use tidegate_fetch::remote::{Ask, Remotes};
use tidegate_transfer::counters::Totals;
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::store::file_source::FileSource;
use tidegate_transfer::terms::Links;
use tidegate_transfer::throttle::Limits;
use tidegate_transfer::transfer::Pace;
use url::Url;

use crate::common::direct_sftp::{CREATE, Direct, EMPTY, NO_SFTP, SOFT, WRITE, url};

const MIB: usize = 1 << 20;

struct Ran {
    result: Result<(), Error>,
    totals: Totals,
    failures: Vec<Error>,
    verified: bool,
}

/// How files are put in most tests.
const USUAL: SftpWriting = SftpWriting { part: ByteCount::mib(5), reads_back: true, compares: false };

struct Put<'a> {
    source: &'a Path,
    direct: &'a Arc<Direct>,
    to: Url,
    writing: SftpWriting,
    retries: u32,
    retry_for: Duration,
    /// Ends all servers once so many bytes were sent.
    breaks_at: Option<u64>,
}

impl<'a> Put<'a> {
    fn new(source: &'a Path, direct: &'a Arc<Direct>, to: Url) -> Self {
        Self {
            source,
            direct,
            to,
            writing: USUAL,
            retries: 4,
            retry_for: Duration::from_secs(60),
            breaks_at: None,
        }
    }

    fn run(self) -> Ran {
        let source = [self.source.as_os_str().as_bytes().to_vec()];
        let source = FileSource::local(&source, Links::Follow).expect("a source");
        let single = tidegate_transfer::store::Source::is_single_file(&source);
        let settings = ServerSettings { timeout: Duration::from_secs(10), ..ServerSettings::default() };
        let settings = self.direct.settings(settings);
        let target = SftpTarget::new(&settings, &self.to, single, self.writing).expect("a target");
        let unverified = Arc::new(AtomicBool::new(false));
        let settings = UploadSettings {
            staging: ByteCount::mib(32),
            max_workers: 4,
            retries: self.retries,
            retry_for: self.retry_for,
            pace: Pace::new(Duration::from_millis(100)),
            checksum: self.writing.compares,
            limits: Limits { link: self.breaks_at.map(|_| BitRate::mbps(200)), ..Limits::default() },
            unverified: Arc::clone(&unverified),
            ..UploadSettings::default()
        };
        let mut upload =
            Upload::start(Box::new(source), Arc::new(target), settings, Box::new(|_| {})).expect("started");
        let (mut breaks_at, end) = (self.breaks_at, Instant::now() + Duration::from_secs(60));
        let result = loop {
            assert!(Instant::now() < end, "it never ends: {:?}", upload.ledger().totals());
            if breaks_at.is_some_and(|at| upload.ledger().totals().bytes_moved >= at) {
                breaks_at = None;
                self.direct.refuse_all();
            }
            match upload.step(PerStage { read: 2, network: 3, write: 1 }) {
                Ok(Some(_)) => {}
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let failures = upload.ledger().failures().into_iter().map(|failure| failure.error).collect();
        Ran { result, totals: upload.ledger().totals(), failures, verified: !unverified.load(Relaxed) }
    }
}

impl Ran {
    fn arrived(&self) {
        assert!(self.result.is_ok() && self.failures.is_empty(), "{:?} {:?}", self.result, self.failures);
    }

    /// Nothing was sent, for this reason in one line.
    fn refused(&self, kind: ErrorKind, words: &str) {
        let errors: Vec<&Error> = self.result.as_ref().err().into_iter().chain(&self.failures).collect();
        let [error] = errors[..] else { panic!("{errors:?}") };
        assert!(error.kind == kind && error.message.contains(words), "{error:?}");
        assert!(!error.message.contains('\n') && error.message.contains("sftp://host/"), "{error:?}");
    }
}

fn direct(test: &str, options: &[&str]) -> Option<Arc<Direct>> {
    let direct = Direct::new(options);
    if direct.is_none() {
        skip(test, NO_SFTP);
    }
    direct
}

/// A directory with a source and a place to put it.
fn world() -> tempfile::TempDir {
    let world = tempfile::tempdir().expect("a directory");
    for made in ["src/deep/er", "to"] {
        fs::create_dir_all(world.path().join(made)).expect("made");
    }
    world
}

fn tree(root: &Path) -> Vec<(Vec<u8>, u64, u32, i64)> {
    let mut found = Vec::new();
    let mut left = vec![root.to_path_buf()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).expect("listed").flatten() {
            let (path, meta) = (entry.path(), entry.metadata().expect("known"));
            if meta.is_dir() {
                left.push(path);
            } else {
                let inner = path.strip_prefix(root).expect("beneath").as_os_str().as_bytes().to_vec();
                found.push((inner, meta.len(), meta.mode() & 0o777, meta.mtime()));
            }
        }
    }
    found.sort();
    found
}

fn contents(root: &Path) -> Vec<Vec<u8>> {
    let path = |name: &[u8]| root.join(std::ffi::OsStr::from_bytes(name));
    tree(root).iter().map(|(name, ..)| fs::read(path(name)).expect("read")).collect()
}

#[test]
fn a_tree_arrives_with_modes_and_times_and_is_there_the_next_time() {
    let Some(direct) = direct("sftp, a tree", &[]) else { return };
    let world = world();
    let src = world.path().join("src");
    let odd: [&[u8]; 6] = [b"a b", b"\xff\xfe", b"x?y#z%", b"-rf", b"new\nline", b"deep/er/empty"];
    for (n, name) in odd.iter().enumerate() {
        let size = if name.ends_with(b"empty") { 0 } else { 1000 * n + 1 };
        fs::write(src.join(std::ffi::OsStr::from_bytes(name)), noise(n as u64, size)).expect("written");
    }
    for n in 0..300 {
        fs::write(src.join(format!("deep/{n}")), noise(n, 37 * n as usize)).expect("written");
    }
    let program = src.join("deep/7");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o750)).expect("set");
    fs::File::options().write(true).open(&program).expect("opened").set_modified(UNIX_EPOCH).expect("set");
    let to = world.path().join("to/new");
    let put = |writing| Put { writing, ..Put::new(&src, &direct, url(&to)) }.run();
    let first = put(USUAL);
    first.arrived();
    assert!(first.verified && first.totals.files_done == 306, "{:?}", first.totals);
    assert_eq!(tree(&src), tree(&to.join("src")));
    assert!(contents(&src) == contents(&to.join("src")));
    assert!(direct.begun() <= 5, "{}", direct.begun());
    let again = put(USUAL);
    again.arrived();
    assert_eq!((again.totals.files_skipped, again.totals.bytes_moved), (306, 0));
    // Of the same size and time: only reading tells.
    let changed = to.join("src/deep/9");
    let time = fs::metadata(&changed).expect("there").modified().expect("known");
    fs::write(&changed, noise(99, 37 * 9)).expect("written");
    fs::File::options().write(true).open(&changed).expect("opened").set_modified(time).expect("set");
    let compared = put(SftpWriting { compares: true, ..USUAL });
    compared.arrived();
    assert_eq!((compared.totals.files_skipped, compared.totals.files_done), (305, 1));
    assert!(contents(&src) == contents(&to.join("src")));
}

#[test]
fn a_large_file_goes_in_parts_and_on_where_it_was_broken_off() {
    let Some(direct) = direct("sftp, parts", &[]) else { return };
    let world = world();
    let (file, to) = (world.path().join("src/large"), world.path().join("to/there"));
    fs::write(&file, noise(1, 43 * MIB + 7)).expect("written");
    let put = || Put { retries: 0, ..Put::new(&file, &direct, url(&to)) };
    let broken = Put { breaks_at: Some(20 << 20), ..put() }.run();
    assert!(broken.result.is_err() || !broken.failures.is_empty());
    assert!(!to.exists(), "it has its name before it is whole");
    direct.allow_all();
    let again = put().run();
    again.arrived();
    assert!(again.totals.bytes_moved < 40 << 20, "{:?}", again.totals);
    assert!(fs::read(&file).expect("read") == fs::read(&to).expect("read"));
    assert_eq!(tree(&world.path().join("to")).len(), 1, "nothing is left beside it");
}

#[test]
fn a_host_that_goes_away_is_waited_for_as_long_as_is_borne() {
    let Some(direct) = direct("sftp, away", &[]) else { return };
    let world = world();
    let (file, to) = (world.path().join("src/large"), world.path().join("to/there"));
    fs::write(&file, noise(1, 23 * MIB)).expect("written");
    let put = || Put { breaks_at: Some(9 << 20), retries: 3, ..Put::new(&file, &direct, url(&to)) };
    let back = Arc::clone(&direct);
    let comes_back = std::thread::spawn(move || {
        while !back.refuses() {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_secs(8));
        back.allow_all();
    });
    put().run().arrived();
    comes_back.join().expect("it came back");
    assert!(fs::read(&file).expect("read") == fs::read(&to).expect("read"));
    fs::remove_file(&to).expect("removed");
    let began = Instant::now();
    let gone = Put { retries: 100, retry_for: Duration::from_secs(2), ..put() }.run();
    let told = gone.failures.first().map(|error| &error.message[..]).unwrap_or_default();
    assert!(told.contains("given up after 2 s"), "{:?}", gone.failures);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn a_file_is_replaced_also_where_the_server_cannot_at_once() {
    for options in [&[][..], &["-P", "posix-rename,fsync,limits"]] {
        let Some(direct) = direct("sftp, replaced", options) else { return };
        let world = world();
        let (file, to) = (world.path().join("src/a"), world.path().join("to/a"));
        fs::write(&file, noise(1, 3 * MIB)).expect("written");
        fs::write(&to, "old").expect("written");
        Put::new(&file, &direct, url(&to)).run().arrived();
        assert!(fs::read(&file).expect("read") == fs::read(&to).expect("read"), "{options:?}");
        assert_eq!(tree(&world.path().join("to")).len(), 1);
        // A directory of the name takes the file in.
        let within = world.path().join("to/dir");
        fs::create_dir(&within).expect("made");
        Put::new(&file, &direct, url(&within)).run().arrived();
        assert!(within.join("a").is_file());
    }
}

#[test]
fn what_arrives_damaged_is_sent_again_and_never_has_its_name() {
    let Some(direct) = direct("sftp, damage", &[]) else { return };
    let world = world();
    let (file, to) = (world.path().join("src/a"), world.path().join("to/a"));
    fs::write(&file, vec![SOFT; 9 * MIB]).expect("written");
    direct.damage(true);
    let damaged = Put { retries: 1, ..Put::new(&file, &direct, url(&to)) }.run();
    damaged.refused(ErrorKind::Corrupt, "read back, it is not what was sent");
    assert!(!to.exists() && tree(&world.path().join("to")).is_empty(), "what was damaged is removed");
    let unread = SftpWriting { reads_back: false, ..USUAL };
    let unread = Put { writing: unread, ..Put::new(&file, &direct, url(&to)) }.run();
    unread.arrived();
    assert!(!unread.verified && fs::read(&file).expect("read") != fs::read(&to).expect("read"));
}

#[test]
fn a_server_that_reads_nothing_by_what_writes_is_asked_anew() {
    let Some(direct) = direct("sftp, write-only", &[]) else { return };
    direct.write_by(WRITE | CREATE);
    let world = world();
    let (source, to) = (world.path().join("src"), world.path().join("to"));
    fs::write(source.join("small"), "small").expect("written");
    fs::write(source.join("deep/large"), noise(1, 12 * MIB)).expect("written");
    let ran = Put::new(&source.join(""), &direct, url(&to)).run();
    ran.arrived();
    assert!(ran.verified);
    assert_eq!(contents(&source), contents(&to));
}

#[test]
fn parts_do_not_go_to_a_server_that_empties_what_it_opens() {
    let Some(direct) = direct("sftp, emptying", &[]) else { return };
    direct.write_by(WRITE | CREATE | EMPTY);
    for reads_back in [true, false] {
        let world = world();
        let (file, to) = (world.path().join("src/a"), world.path().join("to/a"));
        let put = |part| {
            let writing = SftpWriting { part: ByteCount::mib(part), reads_back, ..USUAL };
            Put { writing, ..Put::new(&file, &direct, url(&to)) }.run()
        };
        fs::write(&file, noise(1, 12 * MIB)).expect("written");
        put(5).refused(ErrorKind::Usage, "--part-size");
        assert!(tree(&world.path().join("to")).is_empty(), "something is there");
        put(16).arrived();
        assert!(fs::read(&file).expect("read") == fs::read(&to).expect("read"));
    }
}

#[test]
fn what_may_not_be_written_is_one_line() {
    let Some(direct) = direct("sftp, read-only", &["-R"]) else { return };
    let world = world();
    let file = world.path().join("src/a");
    fs::write(&file, "x").expect("written");
    let to = url(&world.path().join("to/a"));
    Put::new(&file, &direct, to.clone()).run().refused(ErrorKind::Denied, "we may not write there");
    let Some(direct) = self::direct("sftp, odd places", &[]) else { return };
    let under_a_file = url(&file.join("b/"));
    Put::new(&file, &direct, under_a_file).run().refused(ErrorKind::UnsafeName, "no directory");
    let device = Url::parse("sftp://host/dev/null").expect("a URL");
    Put::new(&file, &direct, device).run().refused(ErrorKind::UnsafeName, "is no file");
    let closed = world.path().join("to");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).expect("set");
    // Modes keep root from nothing.
    if fs::write(closed.join("b"), "x").is_err() {
        Put::new(&file, &direct, to).run().refused(ErrorKind::Denied, "we may not write there");
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("set");
}

#[test]
fn a_file_that_changes_while_it_is_read_is_noticed() {
    let Some(direct) = direct("sftp, changes", &[]) else { return };
    let world = world();
    let file = world.path().join("src/a");
    let servers = Servers::new(&direct.settings(ServerSettings::default()));
    let url = url(&file);
    let change = |how: &str| match how {
        "longer" => fs::write(&file, noise(2, 21 * MIB)).expect("written"),
        "shorter" => fs::write(&file, "short").expect("written"),
        _ => {
            let file = fs::File::options().write(true).open(&file).expect("opened");
            file.set_modified(UNIX_EPOCH).expect("set");
        }
    };
    for how in ["longer", "shorter", "of another time"] {
        fs::write(&file, noise(1, 20 * MIB)).expect("written");
        let mut remote = servers.remote();
        let ask = Ask { url: &url, headers: &[], range: 0..u64::MAX, version: None };
        let mut opened = remote.open(&ask).expect("there");
        opened.body.read_exact(&mut [0; 1000]).expect("some");
        change(how);
        let error = opened.body.read_to_end(&mut Vec::new()).expect_err(how);
        assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "{how}: {error}");
        // The session is sound.
        assert!(remote.look(&ask).is_ok(), "{how}");
    }
}

#[test]
fn a_full_disk_is_one_line_and_leaves_nothing() {
    let Some(direct) = direct("sftp, a full disk", &[]) else { return };
    let world = world();
    let small = world.path().join("small");
    let Some(_mounted) = testkit::mounted::Mounted::tmpfs(&small, "size=8m") else {
        return skip("sftp, a full disk", "nothing may be mounted here");
    };
    let file = world.path().join("src/a");
    fs::write(&file, noise(1, 20 * MIB)).expect("written");
    let full = Put::new(&file, &direct, url(&small.join("a"))).run();
    full.refused(ErrorKind::Io, "is there room");
    assert!(tree(&small).is_empty());
}
