//! What a SRC or DST argument means: a local path, an endpoint's address, or a remembered name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use tidegate_contract::redact;
use tidegate_spec::address::{End, scheme};
use tidegate_transfer::error::{Error, usage};
use tidegate_transfer::text::show;
use tidegate_transfer::wire::ticket::Address;

use crate::remotes::{self, Remote};
use crate::ssh::target::{SCHEME, Target};

/// What was typed as `dir/.` is the content of `dir`, as for cp and rsync: `dir/`.
pub fn as_content(mut typed: &[u8]) -> &[u8] {
    while let Some(content) = typed.strip_suffix(b".").filter(|content| content.ends_with(b"/")) {
        typed = content;
    }
    typed
}

/// The paths of a command line: what is copied, and where to.
///
/// One list, so that anything may stand behind `--`.
#[derive(Clone, Debug, Default, Args)]
pub struct Paths {
    /// One or more sources, and last the destination
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

impl Paths {
    /// Those that are not typed.
    pub fn of(mut sources: Vec<OsString>, destination: OsString) -> Self {
        sources.push(destination);
        Self { paths: sources }
    }

    /// The sources and the destination.
    pub fn split(&self) -> Result<(&[OsString], &OsStr), Error> {
        match self.paths.split_last() {
            Some((destination, sources @ [_, ..])) => Ok((sources, destination)),
            _ => Err(usage("a source and a destination are needed")),
        }
    }
}

/// One side of a copy.
#[derive(Clone, Debug)]
pub enum Place {
    /// A path on this host, as typed.
    Local(Vec<u8>),
    /// A path at an endpoint.
    Endpoint(Address),
    /// A path at a host that ssh reaches: from its root, or from the home directory.
    Ssh(Target, Vec<u8>),
}

impl Place {
    /// Reads `tg://…`, `name:/path`, `user@host:path`, `ssh://…` or a local path. A local path with a colon in its first component
    /// is written `./a:b`, as for scp, unless that is there and no endpoint has the name.
    pub fn parse(text: &OsStr) -> Result<Self, Error> {
        let bytes = as_content(text.as_bytes());
        if bytes.is_empty() {
            return Err(usage("an empty path: '.' is the current directory"));
        }
        if Address::is_address(bytes) {
            return Address::parse(bytes).map(Self::Endpoint);
        }
        if bytes.starts_with(SCHEME.as_bytes()) {
            return Target::of_url(bytes).map(|(target, path)| Self::Ssh(target, path));
        }
        let first = bytes.split(|&b| b == b'/').next().unwrap_or(bytes);
        let Some(colon) = first.iter().position(|&b| b == b':') else {
            return Ok(Self::Local(bytes.to_vec()));
        };
        let (name, path) = (&bytes[..colon], &bytes[colon + 1..]);
        let is_here = || std::fs::symlink_metadata(OsStr::from_bytes(first)).is_ok();
        if let Some(read) = Target::of_path(bytes)
            && !is_here()
        {
            return read.map(|(target, path)| Self::Ssh(target, path));
        }
        if path.starts_with(b"//") && !is_here() {
            let why = format!(
                "{} is a URL, which is neither a path here nor at an endpoint: `tidegate get` fetches URLs, `tidegate put` writes to S3, WebDAV and SFTP",
                show(bytes)
            );
            return Err(usage(why));
        }
        let known = match std::str::from_utf8(name).ok().filter(|name| remotes::is_name(name)) {
            Some(name) => remotes::find(name),
            None => Err(usage(format!(
                "{0} looks like a path on another host: write USER@HOST:PATH for one that ssh reaches; or start `tidegate endpoint` on it, call it NAME by `tidegate remote add NAME` here, and write NAME:/path; or write ./{0} for a path on this host",
                show(bytes)
            ))),
        };
        let remote = match known {
            Ok(remote) => remote,
            Err(_) if is_here() => return Ok(Self::Local(bytes.to_vec())),
            Err(error) => return Err(error),
        };
        let path = remote.beneath(path);
        Ok(match remote {
            Remote::Served(address) => Self::Endpoint(address.with_path(path)),
            Remote::Ssh(target, _) => Self::Ssh(target, path),
            Remote::Pool(pool) => {
                let name = show(name);
                let why = format!(
                    "{name} is a {pool}, which only `tidegate spread` moves to or from: name one of its endpoints"
                );
                return Err(usage(why));
            }
        })
    }

    /// The endpoint that `text` names, for a command that needs one that is served.
    pub fn endpoint(text: &OsStr, command: &str) -> Result<Address, Error> {
        match Self::parse(text)? {
            Self::Endpoint(address) => Ok(address),
            Self::Local(_) => Err(usage(format!("{command} needs an endpoint: tg://… or name:"))),
            Self::Ssh(target, _) => {
                let why = format!(
                    "{command} needs an endpoint that is served: {target} has one only while a copy runs"
                );
                Err(usage(why))
            }
        }
    }

    /// How it is shown, without secrets.
    pub fn show(&self) -> String {
        match self {
            Self::Local(path) => show(path).into_owned(),
            Self::Endpoint(address) => address.public(),
            Self::Ssh(target, path) => Remote::Ssh(target.clone(), path.clone()).public(),
        }
    }
}

/// Refuses stores and web servers where only hosts that run Tidegate do.
pub fn refuse_servers(sources: &[OsString], destination: &OsStr) -> Result<(), Error> {
    let all = sources.iter().map(OsString::as_os_str).chain([destination]);
    match all.into_iter().find(|place| end(place).is_server()) {
        Some(place) => {
            let place = shown(place);
            let why = "only `copy`, `get` and `put` go to servers";
            Err(usage(format!("{place} is no host that runs Tidegate: {why}")))
        }
        None => Ok(()),
    }
}

/// What a place is of, by its scheme; of this host where it has none, or where a file is called so.
pub fn end(text: &OsStr) -> End {
    let of_scheme = text.to_str().and_then(scheme).and_then(|scheme| End::of_scheme(&scheme));
    of_scheme.filter(|_| std::fs::symlink_metadata(text).is_err()).unwrap_or(End::Local)
}

/// A place as it was typed, without secrets.
pub fn shown(text: &OsStr) -> String {
    redact::public_text(&text.to_string_lossy())
}

/// Where the sources of one copy are, with their paths there.
#[derive(Debug)]
pub enum Sources {
    /// Here.
    Local(Vec<Vec<u8>>),
    /// At an endpoint.
    Endpoint(Address, Vec<Vec<u8>>),
    /// At a host that ssh reaches.
    Ssh(Target, Vec<Vec<u8>>),
}

/// Reads several sources, which must all be local or all at one place.
pub fn sources(texts: &[OsString]) -> Result<Sources, Error> {
    let mut all: Option<Sources> = None;
    for text in texts {
        match (Place::parse(text)?, &mut all) {
            (Place::Local(path), None) => all = Some(Sources::Local(vec![path])),
            (Place::Endpoint(address), None) => {
                let paths = vec![address.path.clone()];
                all = Some(Sources::Endpoint(address, paths));
            }
            (Place::Ssh(target, path), None) => all = Some(Sources::Ssh(target, vec![path])),
            (Place::Local(path), Some(Sources::Local(paths))) => paths.push(path),
            (Place::Endpoint(address), Some(Sources::Endpoint(known, paths)))
                if address.place() == known.place() =>
            {
                paths.push(address.path);
            }
            (Place::Ssh(target, path), Some(Sources::Ssh(known, paths))) if target == *known => {
                paths.push(path);
            }
            _ => {
                return Err(usage(
                    "all sources of one copy must be local, or all at the same endpoint or host",
                ));
            }
        }
    }
    all.ok_or_else(|| usage("a source and a destination are needed"))
}
