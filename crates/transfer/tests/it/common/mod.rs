//! An endpoint in this process, and what tests do with it.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidegate_control::{BitRate, Concurrency, PerStage};
use tidegate_transfer::catalogue::Catalogues;
use tidegate_transfer::counters::Totals;
use tidegate_transfer::endpoint::{Config, Endpoint};
use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::ledger::Failure;
use tidegate_transfer::quota::Share;
use tidegate_transfer::sys::confined::Root;
use tidegate_transfer::terms::Terms;
use tidegate_transfer::throttle::Limits;
use tidegate_transfer::transfer::route::{From, STALL, Setup, Sharing, To, Transfer, begin, random_run};
use tidegate_transfer::transfer::{Interrupt, Pace};
use tidegate_transfer::wire::handshake;
use tidegate_transfer::wire::session::{self, Inbox, Outbox};
use tidegate_transfer::wire::ticket::{Address, Claims};
use tidegate_transfer::wire::way::Carriers;

pub struct Fixture {
    pub temporary: tempfile::TempDir,
    pub root: PathBuf,
    pub endpoint: Arc<Endpoint>,
    pub address: Address,
    pub terms: Terms,
    pub stall: Duration,
    pub setpoint: Concurrency,
    /// Whether what is pushed is handed over to the endpoint, as it is in this process.
    pub joined: bool,
}

pub fn terms() -> Terms {
    Terms::default()
}

impl Fixture {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Config)) -> Self {
        testkit::raise_file_limit();
        let temporary = tempfile::tempdir().expect("a directory");
        let root = temporary.path().join("root");
        fs::create_dir(&root).expect("made");
        let mut config = Config {
            clear: true,
            allow_local_targets: true,
            ..Config::local(&root, temporary.path().join("endpoint-state"))
        };
        change(&mut config);
        let endpoint = Endpoint::bind(config).expect("bound");
        let address = endpoint.address(&Claims::FULL).expect("an address");
        let serving = Arc::clone(&endpoint);
        std::thread::spawn(move || serving.serve());
        fs::create_dir(temporary.path().join("state")).expect("made");
        Self {
            temporary,
            root,
            endpoint,
            address,
            terms: terms(),
            stall: STALL,
            setpoint: PerStage::all(2),
            joined: false,
        }
    }

    pub fn dir(&self, name: &str) -> PathBuf {
        let path = self.temporary.path().join(name);
        fs::create_dir_all(&path).expect("made");
        path
    }

    /// A directory of files of these sizes, each with a content of its own.
    pub fn source(&self, files: &[(&str, u64)]) -> PathBuf {
        let source = self.dir("source");
        for (seed, (name, size)) in (1..).zip(files) {
            write(&source.join(name), *size, seed);
        }
        source
    }

    pub fn setup(&self) -> Setup {
        let state = Root::open(self.temporary.path().join("state").as_os_str().as_bytes()).expect("opened");
        let mut carriers = Carriers::default();
        if self.joined {
            carriers.join(&self.address, self.endpoint.clone());
        }
        Setup {
            terms: self.terms.clone(),
            selection: Default::default(),
            taking: Default::default(),
            plan: None,
            deletion: None,
            moving: false,
            sharing: Sharing::default(),
            pace: Pace::new(Duration::from_millis(100)),
            run: random_run(),
            stall: self.stall,
            interrupt: Interrupt::default(),
            pki: None,
            catalogues: Catalogues::new(&state).expect("opened"),
            share: Share::own(),
            carriers,
        }
    }

    pub fn run(&self, from: &From, to: &To) -> Result<(Totals, Vec<Failure>)> {
        let transfer = begin(from, to, &self.setup())?;
        drive(transfer, self.setpoint)
    }

    pub fn local(&self, paths: &[PathBuf]) -> From {
        From::Local(paths.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect())
    }

    pub fn to_endpoint(&self, path: &str) -> To {
        To::Endpoint(self.address.clone().with_path(path))
    }

    pub fn remote(&self, paths: &[&str]) -> From {
        From::Endpoint(self.address.clone(), paths.iter().map(|path| path.as_bytes().to_vec()).collect())
    }

    pub fn try_push(&self, paths: &[PathBuf], to: &str) -> Result<(Totals, Vec<Failure>)> {
        self.run(&self.local(paths), &self.to_endpoint(to))
    }

    pub fn push(&self, paths: &[PathBuf], to: &str) -> Totals {
        self.try_push(paths, to).expect("pushed").0
    }

    pub fn pull(&self, paths: &[&str], to: &Path) -> Totals {
        self.run(&self.remote(paths), &To::Local(to.as_os_str().as_bytes().to_vec())).expect("pulled").0
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.endpoint.drain();
    }
}

/// Runs a transfer to its end with a fixed set-point; fails if that takes five minutes.
pub fn drive(mut transfer: Transfer, setpoint: Concurrency) -> Result<(Totals, Vec<Failure>)> {
    let start = std::time::Instant::now();
    while transfer.step(setpoint)?.is_some() {
        assert!(
            start.elapsed() < Duration::from_secs(300),
            "the transfer hangs: {:?}",
            transfer.ledger().totals()
        );
    }
    Ok((transfer.ledger().totals(), transfer.ledger().failures()))
}

/// Incompressible content from a seed.
pub fn content(size: u64, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; size as usize];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

pub fn write(path: &Path, size: u64, seed: u64) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("made");
    fs::write(path, content(size, seed)).expect("written");
}

/// Compares names, kinds, contents, modes and modification times.
pub fn assert_same_tree(a: &Path, b: &Path) {
    let list = |root: &Path| {
        let mut names = Vec::new();
        let mut todo = vec![root.to_path_buf()];
        while let Some(path) = todo.pop() {
            for entry in fs::read_dir(&path).expect("listed") {
                let path = entry.expect("listed").path();
                names.push(path.strip_prefix(root).expect("beneath").to_path_buf());
                if path.symlink_metadata().expect("there").is_dir() {
                    todo.push(path);
                }
            }
        }
        names.sort();
        names
    };
    let names = list(a);
    assert_eq!(names, list(b));
    for name in names {
        let (x, y) = (a.join(&name), b.join(&name));
        let (m, n) = (x.symlink_metadata().expect("there"), y.symlink_metadata().expect("there"));
        assert_eq!(m.file_type(), n.file_type(), "{name:?}");
        if m.is_symlink() {
            assert_eq!(fs::read_link(&x).expect("read"), fs::read_link(&y).expect("read"), "{name:?}");
            continue;
        }
        assert_eq!(m.permissions().mode(), n.permissions().mode(), "mode of {name:?}");
        assert_eq!((m.mtime(), m.mtime_nsec()), (n.mtime(), n.mtime_nsec()), "mtime of {name:?}");
        if m.is_file() {
            assert!(fs::read(&x).expect("read") == fs::read(&y).expect("read"), "content of {name:?}");
        }
    }
}

pub fn limit(rate: u64) -> Limits {
    Limits { link: Some(BitRate::mbps(rate)), ..Limits::default() }
}

pub fn is_error<T>(result: Result<T>) -> Error {
    match result {
        Ok(_) => panic!("should have failed"),
        Err(error) => error,
    }
}

pub mod draw;
pub mod nest;
pub mod peer;

/// Waits until `what` holds; fails after two minutes.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(std::time::Instant::now() < end, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Every path beneath `root` that lies in a transfer's work directory.
pub fn leftovers(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(path) = todo.pop() {
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_name() == ".tidegate" {
                found.push(path);
            } else if path.symlink_metadata().is_ok_and(|m| m.is_dir()) {
                todo.push(path);
            }
        }
    }
    found
}

/// A limit for each reader, so that a source can be changed while it is read.
pub fn slow_readers(rate: u64) -> Limits {
    Limits { read: Some(BitRate::mbps(rate)), ..Limits::default() }
}

/// Everything beneath a directory with its content, to see that nothing changed.
pub fn picture(root: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(path) = todo.pop() {
        for entry in fs::read_dir(&path).expect("listed") {
            let path = entry.expect("listed").path();
            if path.symlink_metadata().expect("there").is_dir() {
                todo.push(path.clone());
                found.push((path, None));
            } else {
                let bytes = fs::read(&path).ok();
                found.push((path, bytes));
            }
        }
    }
    found.sort();
    found
}

/// A session that we speak by hand.
pub fn dial(address: &Address, config: &Arc<rustls::ClientConfig>) -> Result<(Outbox, Inbox)> {
    let channel = handshake::open_session(address, config)?;
    session::start(channel, "the endpoint")
}
