//! Hosts where nothing of ours runs yet: ssh starts an endpoint there for one run, and what it is told travels over ssh
//! alone. Data takes its own way (`via`); both ends prove themselves on it as everywhere.

pub mod agent;
mod conversation;
mod elf;
mod install;
mod noise;
mod session;
#[cfg(feature = "servers")]
mod sftp;
pub mod target;
mod via;
mod words;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde::{Deserialize, Serialize};
#[cfg(feature = "servers")]
use tidegate_fetch::remote::carrier::SftpCarrier;
use tidegate_spec::form::text_option;
use tidegate_transfer::error::{Result, usage};
use tidegate_transfer::terms::DataPlane;
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::transfer::route::{From, Setup, To};
use tidegate_transfer::wire::ticket::{Address, Place};
use tidegate_transfer::wire::way::Carriers;

use crate::ports::{port_range, ports_option};
use crate::ssh::conversation::{Asked, Bytes};
use crate::ssh::install::{Executable, FIND, SAFE, UNSAFE};
use crate::ssh::session::Session;
pub use crate::ssh::session::Ssh;
pub use crate::ssh::session::{complaint, end};
use crate::ssh::target::Target;
use crate::ssh::via::Via;
pub use crate::ssh::words::Words;

/// The program that is ssh.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[serde(default)]
pub struct SshCommand {
    /// The command that is run for ssh, with its options, as in 'ssh -p 2222'
    #[arg(short = 'e', long, value_name = "COMMAND", default_value = "ssh")]
    ssh: String,
}

impl Default for SshCommand {
    fn default() -> Self {
        Self { ssh: "ssh".to_owned() }
    }
}

impl SshCommand {
    /// The words of the command.
    fn words(&self) -> Result<Vec<String>> {
        let words = crate::words::split(&self.ssh).unwrap_or_default();
        match words.first() {
            Some(_) => Ok(words),
            None => Err(usage(format!(
                "--ssh '{}' is no command: its quotes do not match or it is empty",
                self.ssh
            ))),
        }
    }

    /// What reaches hosts that have a server of SFTP.
    #[cfg(feature = "servers")]
    pub fn carrier(&self) -> Result<Option<Arc<dyn SftpCarrier>>> {
        Ok(Some(Arc::new(sftp::SshSubsystem::new(self.words()?))))
    }
}

/// How a host is reached by ssh.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Hosts over ssh (user@host:path)")]
pub struct SshArgs {
    /// The program that is run.
    #[command(flatten)]
    #[serde(flatten)]
    pub command: SshCommand,
    /// Which way data takes to a host that is reached by ssh
    #[arg(long, value_name = "WAY", value_enum, default_value_t)]
    via: Via,
    /// The ports that data may be sent to, there and with --via reverse here [default: any that is free]
    #[arg(long, value_name = "PORT[-PORT]", value_parser = port_range)]
    #[serde(with = "ports_option")]
    port_range: Option<std::ops::RangeInclusive<u16>>,
    /// By which name or address its port is reached from here [default: as ssh does]
    #[arg(long, value_name = "HOST")]
    #[serde(with = "text_option")]
    advertise: Option<Place>,
    /// Where `tidegate` is there
    #[arg(long, value_name = "PATH")]
    remote_path: Option<String>,
    /// Put this program there first, if it is not, or the one in FILE; it must run there, as a static one does, and goes into ~/.cache/tidegate
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with = "remote_path")]
    #[serde(with = "installed")]
    install_remote: Option<Option<PathBuf>>,
}

/// A program to install: the one in a file, or with `true` this one.
mod installed {
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tidegate_spec::form::path_option;

    #[derive(Serialize, Deserialize)]
    #[serde(untagged, expecting = "the file of a program, or true for this one")]
    enum Written {
        Ours(bool),
        File(#[serde(with = "path_option")] Option<PathBuf>),
    }

    pub fn serialize<S: Serializer>(install: &Option<Option<PathBuf>>, to: S) -> Result<S::Ok, S::Error> {
        let written = match install {
            None => Written::File(None),
            Some(None) => Written::Ours(true),
            Some(file) => Written::File(file.clone()),
        };
        written.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<PathBuf>>, D::Error> {
        Ok(match Written::deserialize(from)? {
            Written::Ours(install) => install.then_some(None),
            Written::File(file) => file.map(Some),
        })
    }
}

impl SshArgs {
    /// Whether all of it makes sense together.
    pub fn check(&self) -> Result<()> {
        match self.remote_path.is_some() && self.install_remote.is_some() {
            true => Err(usage("--install-remote cannot be used with --remote-path")),
            false => Ok(()),
        }
    }

    /// What is run there, in words that every shell reads alike.
    fn remote_program(&self) -> Result<String> {
        let program = self.remote_tidegate()?;
        Ok(match self.remote_path {
            None => format!("exec sh -c '{} exec {program} endpoint --once'", search_path()),
            Some(_) => format!("exec {program} endpoint --once"),
        })
    }

    /// Our program there, in a word of any shell; where it is not named, it is found in the [`search_path`].
    pub fn remote_tidegate(&self) -> Result<&str> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '~');
        match self.remote_path.as_deref() {
            None => Ok("tidegate"),
            Some(path) if !path.is_empty() && path.chars().all(plain) && !path.starts_with('-') => Ok(path),
            Some(_) => Err(usage("--remote-path is of letters, digits, '/', '.', '_', '-' and '~' only")),
        }
    }

    /// What is to be put there first, if anything is.
    fn to_install(&self) -> Result<Option<Executable>> {
        self.install_remote.as_ref().map(|file| Executable::read(file.as_deref())).transpose()
    }

    fn ports(&self) -> Option<(u16, u16)> {
        self.port_range.as_ref().map(|range| (*range.start(), *range.end()))
    }
}

/// A host that ssh reaches, where no copy is made: its endpoint, which ends with this, and the way there.
#[derive(Debug)]
pub struct FarHost {
    session: Arc<Session>,
    /// Its address, with the path that was named.
    pub address: Address,
    /// Bring connections to it.
    pub carriers: Carriers,
    /// What errors call it.
    pub words: Words,
}

impl FarHost {
    /// Starts an endpoint at `target`, and finds a way there.
    /// `words` learn what it is called.
    pub fn reach(
        args: &SshArgs,
        target: &Target,
        path: &[u8],
        words: &Words,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let asked = Asked { destination: None, ports: args.ports() };
        let session = Session::start(Ssh::new(args, target)?, asked, args.to_install()?, false, interrupt)?;
        let advertised = args.advertise.as_ref().map(|place| place.host.as_str());
        let found = via::find(&session, args.via, advertised, args.ports())?;
        let address = session.endpoint.clone().with_path(beneath_home(&session.ready.home.0, path));
        let mut carriers = Carriers::default();
        carriers.carry(&address, found.carrier, session.ready.protocol.clone());
        words.call(&address, &session.ssh.place());
        words.path(&address.path, path);
        Ok(Self { session, address, carriers, words: words.clone() })
    }

    /// Another path there, as its endpoint has it.
    pub fn beneath(&self, path: &[u8]) -> Vec<u8> {
        let beneath = beneath_home(&self.session.ready.home.0, path);
        self.words.path(&beneath, path);
        beneath
    }
}

/// Has a shell at another host look for our program. One that was put there is of this very version, and taken where nobody
/// else can have changed it.
pub fn search_path() -> String {
    format!(
        "{SAFE}; {FIND}; PATH=$PATH:$HOME/.local/bin:$HOME/.cargo/bin; if [ -e \"$f\" ]; then if safe /tidegate; then PATH=$d:$PATH; else echo \"{UNSAFE}$p\" >&2; fi; fi; export PATH;"
    )
}

/// The ends of a copy that ssh reaches, and their sessions while it runs.
#[derive(Debug)]
pub(crate) struct OverSsh {
    args: SshArgs,
    source: Option<Target>,
    destination: Option<Target>,
    sessions: Vec<Arc<Session>>,
    begun: bool,
    /// Whether the program is there, where it was to be put there.
    installed: bool,
    words: Words,
}

/// What stands for the address of an end that ssh reaches until it is reached.
pub(crate) fn placeholder(target: &Target, path: Vec<u8>) -> Address {
    Address { ticket: None, host: target.host().to_owned(), port: 22, path }
}

/// An end that was reached.
struct Reached {
    session: Arc<Session>,
    address: Address,
}

impl OverSsh {
    /// Of two ends, those that are reached by ssh; `None` if there is none.
    pub fn new(args: &SshArgs, source: Option<Target>, destination: Option<Target>) -> Option<Self> {
        let needed = source.is_some() || destination.is_some();
        let args = args.clone();
        needed.then_some(Self {
            args,
            source,
            destination,
            sessions: Vec::new(),
            begun: false,
            installed: false,
            words: Words::default(),
        })
    }

    /// What errors call the ends that it reaches.
    pub fn words(&self) -> Words {
        self.words.clone()
    }

    /// Starts what is needed at the ends that ssh reaches, and says where they are; connections to them go the way that
    /// is found. Of an earlier try nothing is kept.
    pub fn reach(&mut self, from: &From, to: &To, setup: &mut Setup, plane: DataPlane) -> Result<(From, To)> {
        setup.carriers = Carriers::default();
        setup.terms.data_plane = plane;
        self.sessions.clear();
        self.words.clear();
        // Whoever sat there to type a password may have left.
        let quiet = std::mem::replace(&mut self.begun, true);
        let typed = match to {
            To::Endpoint(address) => Some(Bytes(address.path.clone())),
            To::Local(_) | To::Null => None,
        };
        let source = self.source.as_ref().map(|target| self.start(target, None, quiet, &setup.interrupt));
        let source = source.transpose()?;
        let destination = self
            .destination
            .as_ref()
            .map(|target| self.start(target, typed, quiet, &setup.interrupt))
            .transpose()?;
        self.installed = true;
        self.sessions
            .extend([&source, &destination].into_iter().flatten().map(|end| Arc::clone(&end.session)));
        let mut reached = |end: Option<Reached>, is_destination: bool| -> Result<Option<Address>> {
            let Some(Reached { session, mut address }) = end else { return Ok(None) };
            let advertised = self.args.advertise.as_ref().map(|place| place.host.as_str());
            let found = via::find(&session, self.args.via, advertised, self.args.ports())?;
            if found.via == Via::Ssh {
                if is_destination && matches!(from, From::Endpoint(..)) {
                    let why = format!(
                        "{} is reached through ssh only, and another host has no such way there: copy by way of this host, or open a port (--port-range)",
                        session.ssh.place()
                    );
                    return Err(usage(why));
                }
                // ssh encrypts it already.
                setup.terms.data_plane = DataPlane::Clear;
            }
            if let Some(at) = found.at {
                // For another host, whose names may be others.
                address.host = at.to_string();
            }
            setup.carriers.carry(&address, found.carrier, session.ready.protocol.clone());
            self.words.call(&address, &session.ssh.place());
            if let (true, To::Endpoint(to)) = (is_destination, to) {
                self.words.path(&address.path, &to.path);
            }
            Ok(Some(address))
        };
        let (source, destination) = (reached(source, false)?, reached(destination, true)?);
        Ok((
            match (from, source) {
                (From::Endpoint(_, paths), Some(address)) => {
                    let home =
                        self.sessions.first().map(|session| session.ready.home.0.clone()).unwrap_or_default();
                    let beneath: Vec<_> = paths.iter().map(|path| beneath_home(&home, path)).collect();
                    for (beneath, path) in beneath.iter().zip(paths) {
                        self.words.path(beneath, path);
                    }
                    From::Endpoint(address, beneath)
                }
                (from, _) => from.clone(),
            },
            destination.map_or_else(|| to.clone(), To::Endpoint),
        ))
    }

    fn start(
        &self,
        target: &Target,
        destination: Option<Bytes>,
        quiet: bool,
        interrupt: &Interrupt,
    ) -> Result<Reached> {
        let asked = Asked { destination, ports: self.args.ports() };
        let program = if self.installed { None } else { self.args.to_install()? };
        let session = Session::start(Ssh::new(&self.args, target)?, asked, program, quiet, interrupt)?;
        let path = session.ready.destination.clone().map(|path| path.0).unwrap_or_default();
        let address = session.endpoint.clone().with_path(path);
        Ok(Reached { session, address })
    }
}

/// A path at the other end as one beneath its root.
fn beneath_home(home: &[u8], path: &[u8]) -> Vec<u8> {
    let path = path.strip_prefix(b"~/").unwrap_or(if path == b"~" { b"" } else { path });
    match path.strip_prefix(b"/") {
        Some(absolute) => absolute.to_vec(),
        None => {
            let home = home.strip_prefix(b"/").unwrap_or(home);
            let home = home.strip_suffix(b"/").unwrap_or(home);
            [home, b"/", path].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::process::Command;

    use super::*;

    #[test]
    fn a_program_that_others_could_change_is_not_found() {
        let home = tempfile::tempdir().expect("a directory");
        let cache = home.path().join(".cache");
        let directory = cache.join("tidegate").join(env!("CARGO_PKG_VERSION"));
        let program = directory.join("tidegate");
        fs::create_dir_all(&directory).expect("made");
        fs::write(&program, "").expect("written");
        let mode = |path: &std::path::Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
        mode(&program, 0o755).expect("set");
        let words = search_path();
        assert!(!words.contains(['\'', '!', '\\', '\n']), "login shells differ in these: {words}");
        let found = || {
            let mut sh = Command::new("sh");
            sh.args(["-c", &format!("{words} command -v tidegate || exit 127")]);
            let ran = sh.env("HOME", home.path()).env("PATH", "/usr/bin:/bin").output().expect("run");
            let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
            (said(&ran.stdout), said(&ran.stderr))
        };
        assert_eq!(found(), (program.display().to_string(), String::new()));
        for path in [&program, &directory, &cache, &home.path().to_owned()] {
            let before = fs::metadata(path).expect("there").permissions().mode() & 0o777;
            for open in [0o775, 0o757] {
                mode(path, open).expect("set");
                let (found, why) = found();
                assert!(found.is_empty() && why.starts_with(UNSAFE), "{path:?}: {found} {why}");
                assert!(why.ends_with(&path.display().to_string()), "{why}");
            }
            mode(path, before).expect("set");
        }
        if rustix::process::geteuid().is_root() {
            for path in [&program, &directory] {
                chown(path, Some(12_345), None).expect("given away");
                assert!(found().0.is_empty(), "{path:?}");
                chown(path, Some(0), None).expect("taken back");
            }
        }
        // Elsewhere by a link, as caches are at some sites.
        fs::rename(&cache, home.path().join("scratch")).expect("moved");
        symlink("scratch", &cache).expect("linked");
        assert_eq!(found().0, program.display().to_string());
        mode(&home.path().join("scratch"), 0o777).expect("set");
        assert!(found().0.is_empty());
    }
}
