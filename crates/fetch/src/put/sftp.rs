//! Hosts that have a server of SFTP: a file is written under a name of its own, by several sessions if it is large, read back,
//! and renamed once all of it is there.

mod connection;
mod file;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tidegate_control::ByteCount;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::path::RelPath;
use tidegate_transfer::sys::sync::Mutex;
use url::Url;

use self::connection::SftpConnection;
use crate::put::target::{Plan, Target, UNFINISHED, UploadConnection, UploadFile};
use crate::record::Names;
use crate::remote::index::Index;
use crate::remote::patience::Patience;
use crate::remote::servers::ServerSettings;
use crate::remote::sftp::path::{path_of, url_within, within};
use crate::remote::sftp::{Sftp, SftpContext, SftpLine};
use crate::remote::shown;

/// Most directories that are remembered as made.
const MAX_MADE: usize = 100_000;

/// A directory of such a host, or with a single file the file's URL.
pub struct SftpTarget {
    shared: Arc<Shared>,
}

/// What its connections share.
struct Shared {
    sessions: Arc<SftpContext>,
    base: Url,
    /// The path of `base` there.
    directory: Vec<u8>,
    /// The one file's name within `base`.
    single: Option<Vec<u8>>,
    /// Whether a directory bears that name: then the file goes into it.
    goes_within: AtomicBool,
    part: ByteCount,
    /// Whether what was written is read back.
    reads_back: bool,
    /// Whether what is there already is read.
    compares: bool,
    /// Directories that are there.
    made: Mutex<HashSet<Vec<u8>>>,
    /// Whether what was written is read by another opening of the file.
    reads_anew: AtomicBool,
    /// Whether a file that is opened to be written is known to keep what is in it.
    keeps: AtomicBool,
    /// What was told once of what the server lacks.
    told_of_renames: AtomicBool,
    told_of_attributes: AtomicBool,
}

/// How files are put to such hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SftpWriting {
    /// Bytes of each part of a large file.
    pub part: ByteCount,
    /// Whether what was written is read back and compared, and not its size alone.
    pub reads_back: bool,
    /// Whether what is there already is read, in place of trusting size and time.
    pub compares: bool,
}

impl SftpTarget {
    /// The target at `url`: with `single` the one file's name, unless it ends in a slash.
    ///
    /// # Errors
    /// It is no URL of a path there.
    pub fn new(settings: &ServerSettings, url: &Url, single: bool, writing: SftpWriting) -> Result<Self> {
        let path = path_of(url)?;
        let mut base = url.clone();
        let (mut directory, mut name) = (path.clone(), None);
        if single && !url.path().is_empty() && !url.path().ends_with('/') && path != b"." {
            let slash = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            name = Some(path[slash + 1..].to_vec());
            directory = if slash == 0 { b"/".to_vec() } else { path[..slash].to_vec() };
            let above = url.path().rsplit_once('/').map_or("", |(above, _)| above).to_owned();
            base.set_path(&format!("{above}/"));
        } else if !url.path().ends_with('/') {
            base.set_path(&format!("{}/", url.path()));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(Error::new(ErrorKind::Usage, format!("{}: it names no host", shown(url))));
        }
        let shared = Shared {
            sessions: Arc::new(SftpContext::of(settings)),
            base,
            directory,
            single: name,
            goes_within: AtomicBool::new(false),
            part: writing.part,
            reads_back: writing.reads_back,
            compares: writing.compares,
            made: Mutex::default(),
            reads_anew: AtomicBool::new(false),
            keeps: AtomicBool::new(false),
            told_of_renames: AtomicBool::new(false),
            told_of_attributes: AtomicBool::new(false),
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

impl Shared {
    /// What `path` is called within the directory.
    fn name<'a>(&'a self, path: &'a [u8]) -> Vec<u8> {
        match &self.single {
            Some(name) if self.goes_within.load(Relaxed) => within(name, path),
            Some(name) => name.clone(),
            None => path.to_vec(),
        }
    }

    /// Where a file goes.
    fn place(&self, file: &UploadFile) -> Place {
        let path = within(&self.directory, &self.name(file.path.as_bytes()));
        let slash = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        let (above, name) = (&path[..slash], &path[slash + 1..]);
        let above = if above.is_empty() { b"/" } else { above };
        // The same for each run, so that another goes on with it, and another for each version, so that no two are mixed.
        let hash = blake3::Hasher::new().update(name).update(&file.fingerprint).finalize();
        let hash = data_encoding::HEXLOWER.encode(&hash.as_bytes()[..10]);
        let part = within(above, format!("{UNFINISHED}{hash}").as_bytes());
        Place { above: above.to_vec(), part, url: self.url(file.path.as_bytes()), path }
    }

    fn url(&self, path: &[u8]) -> Url {
        let mut url = self.base.clone();
        let name = self.name(path);
        let mut names = name.split(|&byte| byte == b'/').peekable();
        while let Some(name) = names.next() {
            url = url_within(&url, name, names.peek().is_some()).unwrap_or(url);
        }
        url
    }
}

/// Where a file goes.
struct Place {
    /// The directory that it lies in, its path, and the one that it has until it is whole.
    above: Vec<u8>,
    path: Vec<u8>,
    part: Vec<u8>,
    /// For people.
    url: Url,
}

impl Target for SftpTarget {
    fn connection(&self) -> Result<Box<dyn UploadConnection>> {
        let line = SftpLine::new(Arc::clone(&self.shared.sessions));
        Ok(Box::new(SftpConnection::new(line, Arc::clone(&self.shared))))
    }

    fn server(&self) -> Result<Url> {
        Ok(self.shared.base.clone())
    }

    fn plan(&self, path: &RelPath, size: u64) -> Result<(RelPath, Plan)> {
        Ok((path.clone(), Plan::new(size, self.shared.part)))
    }

    fn names(&self, patience: Patience) -> Result<Names> {
        let sftp = Sftp::new(Arc::clone(&self.shared.sessions));
        Ok(Box::new(Index::new(sftp, &self.shared.base, Box::new(|_| true), patience)))
    }

    fn shown(&self, path: &RelPath) -> String {
        shown(&self.shared.url(path.as_bytes()))
    }

    fn identity(&self) -> Vec<u8> {
        let single = self.shared.single.as_deref().unwrap_or_default();
        [self.shared.base.as_str().as_bytes(), b" ", single].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str, single: bool) -> SftpTarget {
        let writing = SftpWriting { part: ByteCount::mib(8), reads_back: true, compares: false };
        let url = Url::parse(url).expect("a URL");
        SftpTarget::new(&ServerSettings::default(), &url, single, writing).expect("a target")
    }

    #[test]
    fn names_become_paths_and_urls() {
        for (url, single, directory, shown) in [
            ("sftp://me@host/in", false, &b"/in"[..], "sftp://host/in/a%20b/%FF"),
            ("sftp://host/in/", true, b"/in", "sftp://host/in/a%20b/%FF"),
            ("sftp://host/in/x", true, b"/in", "sftp://host/in/x"),
            ("sftp://host/x", true, b"/", "sftp://host/x"),
            ("sftp://host/~/x", true, b".", "sftp://host/~/x"),
            ("sftp://host/~", true, b".", "sftp://host/~/a%20b/%FF"),
            ("sftp://host", false, b"/", "sftp://host/a%20b/%FF"),
        ] {
            let target = target(url, single);
            assert_eq!(target.shared.directory, directory, "{url}");
            assert_eq!(target.shown(&RelPath::new(b"a b/\xff").expect("a path")), shown, "{url}");
        }
        let within = target("sftp://host/in/x", true);
        within.shared.goes_within.store(true, Relaxed);
        assert_eq!(within.shown(&RelPath::new(b"f").expect("a path")), "sftp://host/in/x/f");
    }
}
