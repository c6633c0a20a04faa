//! The two ends of a copy: from where to where, and the endpoint in between where both are here.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::redact;
use tidegate_spec::control::Control;
use tidegate_spec::pair::{Pair, PathKey, Site};
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::terms::{DataPlane, Terms, Verify};
use tidegate_transfer::text::show;
use tidegate_transfer::transfer::route::{From, Setup, SourceOrigin, To};
use tidegate_transfer::wire::ticket::{Address, SCHEME};

use crate::beneath::beneath_root;
use crate::drive::Work;
use crate::file_system;
use crate::loopback::Loopback;
use crate::place::{Paths, Place, Sources, refuse_servers, sources};
use crate::settings::TrustArgs;
use crate::ssh::target::Target;
use crate::ssh::{OverSsh, SshArgs, placeholder};

/// The two ends of a copy.
pub struct Ends {
    /// From where.
    pub from: From,
    /// To where.
    pub to: To,
    /// Both, for people.
    pub title: String,
    home: Option<Home>,
    far: Far,
    /// Where the sources are that are neither here nor at an endpoint.
    site: Option<Site>,
}

/// The endpoint in between where both ends are here.
struct Home {
    loopback: Loopback,
    /// The destination as it was typed, and beneath the root.
    typed: Vec<u8>,
    resolved: Vec<u8>,
}

impl Home {
    /// Fails if a link on the way to the destination leads elsewhere by now.
    fn still_leads_there(typed: &[u8], resolved: &[u8]) -> Result<()> {
        if beneath_root(typed).is_ok_and(|now| now == resolved) {
            return Ok(());
        }
        let why = format!(
            "the destination {} leads elsewhere by now: the files are in /{}; start again",
            show(typed),
            show(resolved)
        );
        Err(Error::new(ErrorKind::Changed, why))
    }
}

/// Which ends ssh reaches.
#[derive(Clone, Debug, Default)]
struct Far {
    source: Option<Target>,
    destination: Option<Target>,
}

impl Ends {
    /// What the paths on the command line mean.
    pub fn of(paths: &Paths, terms: &mut Terms, trust: &TrustArgs) -> Result<Self> {
        let (typed, destination) = paths.split()?;
        Self::between(typed, destination, terms, trust)
    }

    /// Moves from one to the other; ends that ssh reaches are reached as `ssh` says. The endpoint in between, in a copy
    /// from here to here, is nobody's business.
    pub fn work(&self, ssh: &SshArgs, mut setup: Setup, retry_for: Duration) -> Work<'static> {
        let Far { source, destination } = self.far.clone();
        if let Some(over_ssh) = OverSsh::new(ssh, source, destination) {
            return Work::over_ssh(over_ssh, (self.from.clone(), self.to.clone()), setup, retry_for);
        }
        let Some(Home { loopback, typed, resolved }) = &self.home else {
            return Work::transfer(self.from.clone(), self.to.clone(), setup, retry_for);
        };
        // Where that fails its streams are dialled.
        let _ = loopback.join(&mut setup.carriers);
        let work = Work::transfer(self.from.clone(), self.to.clone(), setup, retry_for);
        let work = work.at_home(loopback.address().ok().map(|address| address.place()));
        let (typed, resolved) = (typed.clone(), resolved.clone());
        Work { landed: Box::new(move || Home::still_leads_there(&typed, &resolved)), ..work }
    }

    /// What the path is remembered by, if both ends are places.
    pub fn key(&self, terms: &Terms, control: &Control) -> Option<PathKey> {
        let here = |path: &[u8]| file_system::site_of(Path::new(OsStr::from_bytes(path)));
        let there = |address: &Address, target: &Option<Target>| {
            let at =
                target.as_ref().map_or_else(|| format!("{SCHEME}{}", address.place()), Target::to_string);
            Site::of(&at).ok()
        };
        let source = match &self.from {
            From::Local(sources) => here(sources.first()?)?,
            From::Endpoint(address, _) => there(address, &self.far.source)?,
            From::Origin(_) => self.site.clone()?,
            From::Zero(_) | From::EndpointZero(..) => return None,
        };
        let destination = match (&self.to, &self.home) {
            (To::Local(path), _) => here(path)?,
            (To::Endpoint(address), None) => there(address, &self.far.destination)?,
            // Its root is that of this host.
            (To::Endpoint(address), Some(_)) => here(&[b"/", &address.path[..]].concat())?,
            (To::Null, _) => return None,
        };
        let plane = match terms.data_plane {
            DataPlane::Tls => "tls",
            DataPlane::Clear => "clear",
        };
        let check = match terms.verify {
            Verify::Blake3 => "blake3",
            Verify::Block => "block",
        };
        let mut words = vec![plane, check];
        // For comparisons: no run of either kind is to begin with the other's numbers.
        words.extend((terms.chunk.is_none()).then_some("files whole"));
        words.extend((!terms.pipelining).then_some("a connection a file"));
        Some(PathKey::new(Pair { source, destination }, &words, &terms.limits, control))
    }

    /// Memory at one end and nowhere at the other.
    pub fn of_memory(from: From, to: To, title: String) -> Self {
        Self { from, to, title, home: None, far: Far::default(), site: None }
    }

    /// From the paths `typed` to `destination`. From here to here goes through an endpoint of our own, on
    /// the loopback and in the clear.
    pub fn between(
        typed: &[OsString],
        destination: &OsStr,
        terms: &mut Terms,
        trust: &TrustArgs,
    ) -> Result<Self> {
        refuse_servers(typed, destination)?;
        let (sources, destination) = (sources(typed)?, Place::parse(destination)?);
        let title = format!("{} → {}", shown_sources(typed), destination.show());
        let (from, source) = match sources {
            Sources::Local(paths) => (From::Local(paths), None),
            Sources::Endpoint(address, paths) => (From::Endpoint(address, paths), None),
            Sources::Ssh(target, paths) => {
                (From::Endpoint(placeholder(&target, Vec::new()), paths), Some(target))
            }
        };
        let here = matches!(from, From::Local(_));
        let Destination { to, sink, home } = Destination::of(destination, here, terms, trust)?;
        Ok(Self { from, to, title, home, far: Far { source, destination: sink }, site: None })
    }

    /// From `origin`, whose first file is at the address `first`, to `destination`.
    pub fn of_origin(
        origin: Arc<dyn SourceOrigin>,
        first: &str,
        destination: &OsStr,
        terms: &mut Terms,
        trust: &TrustArgs,
    ) -> Result<Self> {
        refuse_servers(&[], destination)?;
        let destination = Place::parse(destination)?;
        let title = format!("{} → {}", redact::public_text(first), destination.show());
        let Destination { to, sink, home } = Destination::of(destination, true, terms, trust)?;
        let far = Far { source: None, destination: sink };
        Ok(Self { from: From::Origin(origin), to, title, home, far, site: Site::of(first).ok() })
    }
}

/// Where data goes, and what is needed for that.
struct Destination {
    to: To,
    sink: Option<Target>,
    home: Option<Home>,
}

impl Destination {
    /// `place`, for data that this host has or reads if it is sent from `here`.
    fn of(place: Place, here: bool, terms: &mut Terms, trust: &TrustArgs) -> Result<Self> {
        let (to, sink, home) = match place {
            Place::Endpoint(address) => (To::Endpoint(address), None, None),
            Place::Ssh(target, path) => (To::Endpoint(placeholder(&target, path)), Some(target), None),
            Place::Local(path) if here => {
                terms.data_plane = DataPlane::Clear;
                let loopback = Loopback::start(Path::new("/"), &trust.state_dir()?)?;
                let resolved = beneath_root(&path)?;
                let to = To::Endpoint(loopback.address()?.with_path(resolved.clone()));
                (to, None, Some(Home { loopback, typed: path, resolved }))
            }
            Place::Local(path) => (To::Local(path), None, None),
        };
        Ok(Self { to, sink, home })
    }
}

fn shown_sources(sources: &[OsString]) -> String {
    let first = sources.first().and_then(|source| Place::parse(source).ok()).map(|place| place.show());
    match sources.len() {
        0 | 1 => first.unwrap_or_default(),
        n => format!("{} and {} more", first.unwrap_or_default(), n - 1),
    }
}
