//! Files of a place, looked at and changed without a copy: at an endpoint, at a host that ssh reaches, or here, where an
//! endpoint of our own answers.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use clap::{Args, Parser};
use serde::{Deserialize, Serialize};
use tidegate_run::beneath::beneath_root;
use tidegate_run::loopback::Loopback;
use tidegate_run::place::{Place, refuse_servers};
use tidegate_run::settings::TrustArgs;
use tidegate_run::ssh::{FarHost, SshArgs, Words as FarWords};
use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::path::inside;
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::transfer::file_client::{FileClient, Listing, SESSION_PATIENCE, WantedRange};
use tidegate_transfer::wire::files::{FileRequest, FileStatus};
use tidegate_transfer::wire::way::Carriers;

use crate::exit::usage;

/// Who is asked about files, and how.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub struct FileAccess {
    #[command(flatten)]
    #[serde(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    #[serde(flatten)]
    ssh: SshArgs,
}

impl FileAccess {
    /// The same as a program says it.
    pub(crate) fn asked(self) -> Result<Self> {
        self.ssh.check()?;
        Ok(Self { trust: self.trust.or_said()?, ..self })
    }
}

/// A place, and how it is reached, as words of a command line.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Words {
    #[arg(value_name = "PLACE")]
    place: OsString,
    #[command(flatten)]
    access: FileAccess,
}

/// Files beneath one place. Paths are relative to it; an empty one is the place itself.
pub struct Files {
    client: FileClient,
    base: Vec<u8>,
    far: Option<FarHost>,
    /// Ends last: it waits for nobody.
    _loopback: Option<Loopback>,
}

impl Files {
    /// Reaches the place that `words` name, with options of `tidegate ls`; as many as `sessions` read at once.
    ///
    /// # Errors
    /// In one line: the words make no sense, or the place is not reached.
    pub fn connect(words: Vec<OsString>, sessions: u16, interrupt: &Interrupt) -> Result<Self> {
        let Words { place, access } = Words::try_parse_from(words).map_err(|error| {
            let text = error.render().to_string();
            usage(text.lines().next().unwrap_or_default().trim_start_matches("error: "))
        })?;
        Self::at(&place, &access, sessions, interrupt)
    }

    /// The same as options of a command say.
    pub(crate) fn at(
        place: &OsString,
        access: &FileAccess,
        sessions: u16,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        refuse_servers(&[], place)?;
        let pki = access.trust.pki()?;
        let connect = |address: &_, carriers: &_, pki| {
            FileClient::connect(address, carriers, pki, sessions, SESSION_PATIENCE, interrupt)
        };
        let (client, path, far, loopback) = match Place::parse(place)? {
            Place::Endpoint(address) => {
                (connect(&address, &Carriers::default(), pki)?, address.path, None, None)
            }
            Place::Ssh(target, path) => {
                let far = FarHost::reach(&access.ssh, &target, &path, &FarWords::default(), interrupt)?;
                let client =
                    connect(&far.address, &far.carriers, None).map_err(|error| far.words.error(error))?;
                (client, far.address.path.clone(), Some(far), None)
            }
            Place::Local(path) => {
                // Said in the words that were typed, and not in an endpoint's.
                std::fs::metadata(place).map_err(|error| Error::io("find", &path, error))?;
                let beneath = beneath_root(&path)?;
                let loopback = Loopback::start(Path::new("/"), &access.trust.state_dir()?)?;
                let client = connect(&loopback.address()?, &Carriers::default(), None)?;
                (client, beneath, None, Some(loopback))
            }
        };
        let base = path.strip_suffix(b"/").unwrap_or(&path).to_vec();
        Ok(Self { client, base, far, _loopback: loopback })
    }

    /// The same in the words for where it lies.
    fn said<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.far.as_ref().map_or(error.clone(), |far| far.words.error(error)))
    }

    fn beneath(&self, path: &[u8]) -> Vec<u8> {
        match path.is_empty() {
            true => self.base.clone(),
            false => inside(&self.base, path),
        }
    }

    /// What is at `path`.
    pub fn stat(&self, path: &[u8], interrupt: &Interrupt) -> Result<FileStatus> {
        self.said(self.client.stat(&self.beneath(path), interrupt))
    }

    /// What lies in the directory `path`, sorted, and in its directories if `recursive`.
    pub fn list(&self, path: &[u8], recursive: bool, interrupt: &Interrupt) -> Result<Listing> {
        self.said(self.client.list(&self.beneath(path), recursive, interrupt))
    }

    /// The BLAKE3 hash of the file at `path`.
    pub fn hash(&self, path: &[u8], interrupt: &Interrupt) -> Result<[u8; 32]> {
        self.said(self.client.hash(&self.beneath(path), interrupt))
    }

    /// Reads all that is wanted, each in the pieces that it came in.
    pub fn read(
        &self,
        mut wanted: Vec<WantedRange>,
        interrupt: &Interrupt,
    ) -> Result<Vec<Result<Vec<Vec<u8>>>>> {
        for one in &mut wanted {
            one.path = self.beneath(&one.path);
        }
        self.said(self.client.read(&wanted, interrupt))
    }

    /// Writes a small file.
    pub fn write(&self, path: &[u8], content: Vec<u8>, interrupt: &Interrupt) -> Result<()> {
        self.said(self.client.write(&self.beneath(path), content, interrupt))
    }

    /// Writes a small file that is not there: fails as `Changed` if something bears its name.
    pub fn create(&self, path: &[u8], content: Vec<u8>, interrupt: &Interrupt) -> Result<()> {
        self.said(self.client.create(&self.beneath(path), content, interrupt))
    }

    /// Gives what is called `from` the name `to`.
    pub fn rename(&self, from: &[u8], to: &[u8], interrupt: &Interrupt) -> Result<()> {
        self.all_of(vec![FileRequest::Rename { from: self.beneath(from), to: self.beneath(to) }], interrupt)
    }

    /// Makes a directory; with `parents` those above it too, and one that is there will do.
    pub fn make_directory(&self, path: &[u8], parents: bool, interrupt: &Interrupt) -> Result<()> {
        self.all_of(vec![FileRequest::MakeDirectory { path: self.beneath(path), parents }], interrupt)
    }

    /// Removes files and links, then empty directories, in the order in which they stand here.
    pub fn remove(&self, files: &[Vec<u8>], directories: &[Vec<u8>], interrupt: &Interrupt) -> Result<()> {
        let files = files.iter().map(|path| FileRequest::Remove { path: self.beneath(path) });
        let directories =
            directories.iter().map(|path| FileRequest::RemoveDirectory { path: self.beneath(path) });
        self.all_of(files.chain(directories).collect(), interrupt)
    }

    /// The first that failed, if one did.
    fn all_of(&self, changes: Vec<FileRequest>, interrupt: &Interrupt) -> Result<()> {
        self.said(self.client.change(changes, interrupt)?.into_iter().collect::<Result<(), Error>>())
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").finish_non_exhaustive()
    }
}
