//! Files at an endpoint as a source of uploads: listed by what it tells of its directories, read in ranges, each of one
//! version.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::Duration;

use tidegate_contract::outage_line;
use tidegate_control::units::duration_in_words;
use tidegate_transfer::error::{Error, ErrorKind, Result, usage};
use tidegate_transfer::filter::Filter;
use tidegate_transfer::manifest::{Entry, Fingerprint, Kind};
use tidegate_transfer::offer::{DirectoryNames, warn_left_out};
use tidegate_transfer::outage::{Next, Outage, pause};
use tidegate_transfer::path::{RelPath, inside, split};
use tidegate_transfer::selection::Selection;
use tidegate_transfer::store::{BlockContent, Found, Listed, RangeReader, Source};
use tidegate_transfer::sys::clock::Instant;
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::sys::thread;
use tidegate_transfer::terms::Links;
use tidegate_transfer::text::show;
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::transfer::file_client::range_stream::RangeStream;
use tidegate_transfer::transfer::file_client::{FileClient, Listing};
use tidegate_transfer::wire::files::{FileKind, FileStatus, ListedFile};

use crate::server_source::chooser::Chooser;
use crate::server_source::names::ListedNames;

/// How often who waits looks whether it is over.
const GLANCE: Duration = Duration::from_millis(50);

/// How it is asked.
#[derive(Clone, Debug)]
pub struct EndpointSettings {
    /// What to do about links, if that was said.
    pub links: Option<Links>,
    /// Most that read at once.
    pub most: u16,
    /// How long an endpoint that is away is waited for.
    pub retry_for: Duration,
    /// Whether all names are told, too.
    pub mirrored: bool,
}

/// Files and directories at one endpoint.
#[derive(Debug)]
pub struct EndpointSource {
    shared: Arc<Asking>,
    roots: Vec<FarRoot>,
    selection: Selection,
    filter: Filter,
    /// Whether links are left out without a word.
    skips_links: bool,
    /// What was listed, for a mirror.
    names: Option<Mutex<ListedNames>>,
}

/// What all who ask share.
#[derive(Debug)]
struct Asking {
    client: Arc<FileClient>,
    retry_for: Duration,
    /// Readers that have a session, and how many the endpoint bears.
    reading: AtomicU16,
    bears: AtomicU16,
    stopped: Interrupt,
}

/// What was named.
#[derive(Debug)]
struct FarRoot {
    path: Vec<u8>,
    /// What it is called at the destination; nothing if its contents are put there.
    name: Vec<u8>,
    status: FileStatus,
}

impl EndpointSource {
    /// What lies at `paths`, each with a slash at its end for the contents of a directory, as far as it is selected.
    ///
    /// # Errors
    /// Something is not there, or what is selected cannot be told from afar.
    pub fn new(
        client: FileClient,
        paths: &[Vec<u8>],
        selection: Selection,
        settings: &EndpointSettings,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        refuse_what_lists_lack(&selection, settings.links)?;
        let filter = selection.filter()?;
        if !filter.is_whole() {
            let why = "rules that are read from files of each directory are for sources on this host: an endpoint only lists its files here, so give the rules by --filter or --exclude-from";
            return Err(usage(why));
        }
        let roots = paths.iter().map(|path| FarRoot::find(&client, path, interrupt));
        let roots = roots.collect::<Result<Vec<_>>>()?;
        if u16::try_from(roots.len()).is_err() {
            return Err(usage("more than 65535 sources in one command"));
        }
        if selection.listed && !matches!(&roots[..], [root] if !root.is_file()) {
            return Err(usage("a list of files names what lies in one source, which must be one directory"));
        }
        let shared = Asking {
            client: Arc::new(client),
            retry_for: settings.retry_for,
            reading: AtomicU16::new(0),
            bears: AtomicU16::new(settings.most.max(1)),
            stopped: Interrupt::default(),
        };
        let skips_links = settings.links == Some(Links::Skip);
        let names = settings.mirrored.then(Mutex::default);
        Ok(Self { shared: Arc::new(shared), roots, selection, filter, skips_links, names })
    }
}

impl EndpointSource {
    fn note(&self, note: impl FnOnce(&mut ListedNames)) {
        if let Some(names) = &self.names {
            note(&mut names.lock());
        }
    }
}

fn refuse_what_lists_lack(selection: &Selection, links: Option<Links>) -> Result<()> {
    if selection.one_file_system {
        let why = "--one-file-system is for directories of this host, and an endpoint tells of no file systems: leave it out";
        return Err(usage(why));
    }
    match links {
        Some(Links::Follow | Links::Keep) => Err(usage(
            "links at an endpoint are left out of what is put: leave --links out, or say --links skip",
        )),
        Some(Links::Skip) | None => Ok(()),
    }
}

impl FarRoot {
    fn find(client: &FileClient, typed: &[u8], interrupt: &Interrupt) -> Result<Self> {
        let path = typed.strip_suffix(b"/").unwrap_or(typed);
        let status = client.stat(path, interrupt)?;
        let is_directory = status.kind == FileKind::Directory;
        if !is_directory && status.kind != FileKind::File {
            return Err(usage(format!("{} is neither a file nor a directory", show(path))));
        }
        let name = if typed.ends_with(b"/") || path.is_empty() { b"" } else { split(path).1 };
        if !is_directory && name.is_empty() {
            return Err(usage(format!("{} is no directory: leave the slash at its end out", show(typed))));
        }
        Ok(Self { path: path.to_vec(), name: name.to_vec(), status })
    }

    fn is_file(&self) -> bool {
        self.status.kind == FileKind::File
    }

    /// What it is called at the destination if it is a directory.
    fn directory(&self) -> Option<&[u8]> {
        (!self.is_file()).then_some(&self.name)
    }

    /// Where what is called `path` at the destination lies.
    fn place(&self, path: &RelPath) -> Vec<u8> {
        match path.as_bytes().strip_prefix(&self.name[..]) {
            Some(b"") => self.path.clone(),
            Some(inner) => inside(&self.path, inner.strip_prefix(b"/").unwrap_or(inner)),
            None => inside(&self.path, path.as_bytes()),
        }
    }
}

impl Asking {
    /// Asks until there is an answer, or none is to be hoped for.
    fn patiently<T>(&self, mut ask: impl FnMut() -> Result<T>) -> Result<T> {
        let mut outage = Outage::default();
        outage.is_known();
        loop {
            match ask() {
                Err(error) => self.outlast(error, &mut outage)?,
                answer => return answer,
            }
        }
    }

    /// Waits after `error`, if another try may do better.
    fn outlast(&self, error: Error, outage: &mut Outage) -> Result<()> {
        match error.kind {
            ErrorKind::Connection => {}
            // It has as many sessions as it bears: who reads goes on, and others wait for them.
            ErrorKind::Busy => {
                self.bears.store(self.reading.load(Relaxed).max(1), Relaxed);
            }
            _ => return Err(error),
        }
        let (failures, left) = match outage.failed(Instant::now(), self.retry_for) {
            Next::Again { failures, left, tell } => {
                if tell && error.kind == ErrorKind::Connection {
                    let words = outage_line::write(&error.to_string(), true, &duration_in_words(left));
                    tracing::warn!("{words}");
                }
                (failures, left)
            }
            Next::GiveUp(time) if time.is_zero() => return Err(error),
            Next::GiveUp(time) => {
                let why = format!("{} (given up after {})", error.message, duration_in_words(time));
                return Err(error.in_words(why));
            }
        };
        let until = Instant::now() + pause(failures, left);
        loop {
            if self.stopped.is_raised() {
                return Err(Error::new(ErrorKind::Interrupted, "stopped"));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(GLANCE));
        }
    }
}

/// A walk through all that was named.
struct Walk<'w> {
    source: &'w EndpointSource,
    found: &'w mut dyn FnMut(Found) -> bool,
    chooser: Chooser<'w>,
}

impl<'w> Walk<'w> {
    fn run(&mut self) -> Result<()> {
        for directory in self.source.roots.iter().filter_map(FarRoot::directory) {
            self.source.note(|names| names.begin(directory));
        }
        for (root, named) in (0..).zip(&self.source.roots) {
            let goes_on = match named.is_file() {
                true => self.file(root, named),
                false => self.directory(root, named, b"")?,
            };
            if !goes_on {
                return Ok(());
            }
        }
        for (name, error) in self.chooser.take_missing().collect::<Vec<_>>() {
            if !self.problem(name.to_vec(), error) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Something cannot be copied; `false` once nobody wants more.
    fn problem(&mut self, path: Vec<u8>, error: Error) -> bool {
        self.source.note(ListedNames::is_partial);
        (self.found)(Found::Problem(path, error))
    }

    /// Notes names for a mirror, if there is to be one.
    fn noting(&self) -> impl Fn(&[u8], bool) + use<'w> {
        let source = self.source;
        move |name, is_directory| source.note(|names| names.add(name, is_directory))
    }

    /// The one file that was named.
    fn file(&mut self, root: u16, named: &FarRoot) -> bool {
        if !self.source.filter.takes(&named.name, false) {
            warn_left_out(&named.name, &"it was named, and rules exclude it");
            return true;
        }
        let path = RelPath::new(named.name.clone());
        let noted = self.noting();
        match path.and_then(|path| self.chooser.name(path.as_bytes(), &noted).map(|()| path)) {
            Ok(path) => self.show(root, path, &named.status),
            Err(error) => self.problem(named.name.clone(), error),
        }
    }

    /// What lies in the directory `inner` of what was named, in one answer where that is not too much.
    fn directory(&mut self, root: u16, named: &FarRoot, inner: &[u8]) -> Result<bool> {
        let Asking { client, stopped, .. } = &*self.source.shared;
        let path = if inner.is_empty() { named.path.clone() } else { inside(&named.path, inner) };
        let list = |recursive| self.source.shared.patiently(|| client.list(&path, recursive, stopped));
        let (listing, is_whole) = match client.list(&path, true, stopped) {
            Ok(listing) => (listing, true),
            // More than is listed at once.
            Err(error) if error.kind == ErrorKind::Busy => (list(false)?, false),
            Err(error) if error.kind == ErrorKind::Connection => (list(true)?, true),
            Err(error) => return Err(error),
        };
        let Listing { entries, problems, .. } = listing;
        for (within, error) in problems {
            let path = inside(&named.name, &inside(inner, within.as_bytes()));
            if self.source.filter.takes(&path, true) && !self.problem(path, error) {
                return Ok(false);
            }
        }
        for entry in entries {
            let within = inside(inner, entry.path.as_bytes());
            let is_entered =
                !is_whole && entry.status.kind == FileKind::Directory && entry.status.link.is_none();
            let goes_on = match is_entered {
                true if !self.source.filter.takes(&inside(&named.name, &within), true) => true,
                true => self.enter(root, named, &within)?,
                false => self.entry(root, named, &within, &entry),
            };
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What lies in a directory of one; that it cannot be listed is no end.
    fn enter(&mut self, root: u16, named: &FarRoot, inner: &[u8]) -> Result<bool> {
        match self.directory(root, named, inner) {
            Err(error) if !matches!(error.kind, ErrorKind::Connection | ErrorKind::Interrupted) => {
                Ok(self.problem(inside(&named.name, inner), error))
            }
            listed => listed,
        }
    }

    /// Something that was listed; directories are what names have in common.
    fn entry(&mut self, root: u16, named: &FarRoot, inner: &[u8], entry: &ListedFile) -> bool {
        let path = inside(&named.name, inner);
        let is_link = entry.status.link.is_some();
        if entry.status.kind == FileKind::Directory && !is_link {
            return true;
        }
        let noted = self.noting();
        let taken = self.chooser.takes(&path, inner, &noted);
        let path = match taken.and_then(|taken| taken.then(|| RelPath::new(path.clone())).transpose()) {
            Ok(Some(path)) => path,
            Ok(None) => return true,
            Err(error) => return self.problem(path, error),
        };
        if is_link {
            if !self.source.skips_links {
                warn_left_out(path.as_bytes(), &"a link, which is not followed at an endpoint");
            }
            return true;
        }
        if entry.status.kind != FileKind::File {
            warn_left_out(path.as_bytes(), &"it is no regular file");
            return true;
        }
        self.show(root, path, &entry.status)
    }

    fn show(&mut self, root: u16, path: RelPath, status: &FileStatus) -> bool {
        let kind = Kind::File { size: status.size, fingerprint: status.version };
        let entry = Entry::new(path, kind, status.mode, status.mtime);
        !self.source.selection.fits(&entry) || (self.found)(Found::Entry(Listed { entry, root }))
    }
}

impl Source for EndpointSource {
    fn list(&self, found: &mut dyn FnMut(Found) -> bool) -> Result<()> {
        let chooser = Chooser::new(&self.selection, &self.filter);
        Walk { source: self, found, chooser }.run()
    }

    fn names(&self, told: &mut dyn FnMut(DirectoryNames) -> bool) -> Result<()> {
        let roots: Vec<&[u8]> = self.roots.iter().filter_map(FarRoot::directory).collect();
        ListedNames::tell_of(self.names.as_ref(), &roots, told)
    }

    fn open(&self, file: &Listed, range: Range<u64>) -> Result<Box<dyn RangeReader>> {
        let Kind::File { fingerprint, .. } = file.entry.kind else {
            return Err(Error::protocol("only files are read"));
        };
        let (shared, path) = (Arc::clone(&self.shared), file.entry.path.clone());
        let place = self.roots[usize::from(file.root)].place(&path);
        if range.is_empty() {
            check(&shared, &path, &place, fingerprint)?;
        }
        let stream = shared.client.stream(place.clone(), fingerprint, range.clone());
        let mut outage = Outage::default();
        outage.is_known();
        let (at, is_reading) = (range.start, false);
        Ok(Box::new(EndpointReader {
            shared,
            path,
            place,
            fingerprint,
            stream,
            at,
            end: range.end,
            outage,
            is_reading,
        }))
    }

    fn is_single_file(&self) -> bool {
        matches!(&self.roots[..], [root] if root.is_file())
    }

    fn most_readers(&self) -> Option<u16> {
        Some(self.shared.bears.load(Relaxed))
    }

    fn stop(&self) {
        self.shared.stopped.raise();
    }
}

/// Fails unless the file is the version that was listed.
fn check(shared: &Asking, path: &RelPath, place: &[u8], listed: Fingerprint) -> Result<()> {
    let status = shared.patiently(|| shared.client.stat(place, &shared.stopped))?;
    match status.version == listed {
        true => Ok(()),
        false => Err(changed(path)),
    }
}

fn changed(path: &RelPath) -> Error {
    let why = format!(
        "{path} was not copied: it changed at its endpoint while it was being sent; copy it again once it rests"
    );
    Error::new(ErrorKind::Changed, why)
}

/// Reads one range of a listed file.
struct EndpointReader {
    shared: Arc<Asking>,
    path: RelPath,
    place: Vec<u8>,
    fingerprint: Fingerprint,
    stream: RangeStream,
    /// Where it goes on, and where it ends.
    at: u64,
    end: u64,
    outage: Outage,
    /// Whether it counts among those that have a session.
    is_reading: bool,
}

impl EndpointReader {
    fn some(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self.stream.read(buffer, &self.shared.stopped) {
            Ok(0) => Err(Error::protocol("more was read than is there")),
            Ok(length) => {
                self.at += length as u64;
                self.outage.is_over();
                if !std::mem::replace(&mut self.is_reading, true) {
                    self.shared.reading.fetch_add(1, Relaxed);
                }
                Ok(length)
            }
            Err(error) if error.kind == ErrorKind::Changed => Err(changed(&self.path)),
            Err(error) => self.shared.outlast(error, &mut self.outage).map(|()| 0),
        }
    }
}

impl RangeReader for EndpointReader {
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<BlockContent> {
        if offset != self.at {
            self.at = offset;
            self.stream = self.shared.client.stream(self.place.clone(), self.fingerprint, offset..self.end);
        }
        let mut filled = 0;
        while filled < buffer.len() {
            filled += self.some(&mut buffer[filled..])?;
        }
        Ok(BlockContent::Data)
    }
}

impl Drop for EndpointReader {
    fn drop(&mut self) {
        if self.is_reading {
            self.shared.reading.fetch_sub(1, Relaxed);
        }
    }
}
