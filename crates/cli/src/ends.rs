//! The two ends of a copy: from where to where, and the endpoint in between where both are here.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use tidegate_transfer::terms::{DataPlane, Terms, Verify};
use tidegate_transfer::transfer::route::{From, Setup, To, leads_nowhere};

use crate::drive::Work;
use crate::exit::usage;
use crate::loopback::Loopback;
use crate::path_key::{PathKey, endpoint, local};
use crate::place::{Paths, Place, refuse_servers, sources};
use crate::settings::{ControlArgs, TrustArgs};

/// The two ends of a copy.
pub struct Ends {
    /// From where.
    pub from: From,
    /// To where.
    pub to: To,
    /// Both, for people.
    pub title: String,
    loopback: Option<Loopback>,
}

impl Ends {
    /// What the paths on the command line mean.
    pub fn of(paths: &Paths, terms: &mut Terms, trust: &TrustArgs) -> anyhow::Result<Self> {
        let (typed, destination) = paths.split()?;
        Self::between(typed, destination, terms, trust)
    }

    /// Moves from one to the other. The endpoint in between, in a copy from here to here, is nobody's business.
    pub fn work(&self, setup: Setup, retry_for: Duration) -> Work<'static> {
        let work = Work::transfer(self.from.clone(), self.to.clone(), setup, retry_for);
        let address = self.loopback.as_ref().and_then(|loopback| loopback.address().ok());
        work.at_home(address.map(|address| address.place()))
    }

    /// What the path is remembered by, if both ends are places.
    pub fn key(&self, terms: &Terms, control: &ControlArgs) -> Option<PathKey> {
        let here = |path: &[u8]| local(Path::new(OsStr::from_bytes(path)));
        let source = match &self.from {
            From::Local(sources) => here(sources.first()?)?,
            From::Endpoint(address, _) => endpoint(address),
            From::Zero(_) | From::EndpointZero(..) => return None,
        };
        let destination = match (&self.to, &self.loopback) {
            (To::Local(path), _) => here(path)?,
            (To::Endpoint(address), None) => endpoint(address),
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
        Some(PathKey::new(source, destination, &words, &terms.limits, control))
    }

    /// Memory at one end and nowhere at the other.
    pub const fn of_memory(from: From, to: To, title: String) -> Self {
        Self { from, to, title, loopback: None }
    }

    /// From the paths `typed` to `destination`. From here to here goes through an endpoint of our own, on
    /// the loopback and in the clear.
    pub fn between(
        typed: &[OsString],
        destination: &OsStr,
        terms: &mut Terms,
        trust: &TrustArgs,
    ) -> anyhow::Result<Self> {
        refuse_servers(typed, destination)?;
        let (sources, endpoint) = sources(typed)?;
        let destination = Place::parse(destination)?;
        let title = format!("{} → {}", shown_sources(typed), destination.show());
        let (from, to, loopback) = match (endpoint, destination) {
            (None, Place::Endpoint(address)) => (From::Local(sources), To::Endpoint(address), None),
            (Some(source), Place::Local(path)) => (From::Endpoint(source, sources), To::Local(path), None),
            (Some(source), Place::Endpoint(address)) => {
                (From::Endpoint(source, sources), To::Endpoint(address), None)
            }
            (None, Place::Local(path)) => {
                terms.data_plane = DataPlane::Clear;
                let loopback = Loopback::start(Path::new("/"), &trust.state_dir()?)?;
                let address = loopback.address()?.with_path(absolute(&path)?);
                (From::Local(sources), To::Endpoint(address), Some(loopback))
            }
        };
        Ok(Self { from, to, title, loopback })
    }
}

fn shown_sources(sources: &[OsString]) -> String {
    let first = sources.first().and_then(|source| Place::parse(source).ok()).map(|place| place.show());
    match sources.len() {
        0 | 1 => first.unwrap_or_default(),
        n => format!("{} and {} more", first.unwrap_or_default(), n - 1),
    }
}

/// A local destination as a path beneath `/`, symlinks in its existing part resolved.
fn absolute(path: &[u8]) -> anyhow::Result<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt;
    let typed = Path::new(OsStr::from_bytes(path));
    let mut existing = std::path::absolute(typed)?;
    let mut rest = Vec::new();
    while !existing.exists() {
        if existing.is_symlink() {
            return Err(leads_nowhere(path).into());
        }
        let Some(name) = existing.file_name() else { break };
        rest.push(name.to_owned());
        existing.pop();
    }
    let mut resolved = existing.canonicalize()?;
    for name in rest.into_iter().rev() {
        if name == ".." {
            return Err(usage("the destination's path goes up out of a directory that does not exist").into());
        }
        resolved.push(name);
    }
    let mut bytes = resolved.into_os_string().into_vec();
    bytes.remove(0);
    if path.ends_with(b"/") && !bytes.is_empty() {
        bytes.push(b'/');
    }
    Ok(bytes)
}
