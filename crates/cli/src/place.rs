//! What a SRC or DST argument means: a local path, an endpoint's address, or a remembered name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use tidegate_transfer::error::Error;
use tidegate_transfer::text::show;
use tidegate_transfer::wire::ticket::Address;

use crate::exit::usage;
use crate::remotes;

/// The paths of a command line: what is copied, and where to.
///
/// One list, so that anything may stand behind `--`.
#[derive(Debug, Args)]
pub struct Paths {
    /// One or more sources, and last the destination
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

impl Paths {
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
}

impl Place {
    /// Reads `tg://…`, `name:/path` or a local path. A local path with a colon in its first component
    /// is written `./a:b`, as for scp, unless that is there and no endpoint has the name.
    pub fn parse(text: &OsStr) -> Result<Self, Error> {
        let bytes = text.as_bytes();
        if bytes.is_empty() {
            return Err(usage("an empty path: '.' is the current directory"));
        }
        if Address::is_address(bytes) {
            return Address::parse(bytes).map(Self::Endpoint);
        }
        let first = bytes.split(|&b| b == b'/').next().unwrap_or(bytes);
        let Some(colon) = first.iter().position(|&b| b == b':') else {
            return Ok(Self::Local(bytes.to_vec()));
        };
        let (name, path) = (&bytes[..colon], &bytes[colon + 1..]);
        let is_here = || std::fs::symlink_metadata(OsStr::from_bytes(first)).is_ok();
        if path.starts_with(b"//") && !is_here() {
            let why = format!(
                "{} is a URL, which is neither a path here nor at an endpoint: `tidegate get` fetches URLs, `tidegate put` writes to S3 and WebDAV",
                show(bytes)
            );
            return Err(usage(why));
        }
        let known = match std::str::from_utf8(name).ok().filter(|name| remotes::is_name(name)) {
            Some(name) => remotes::find(name),
            None => Err(usage(format!(
                "{0} looks like a path on another host, and Tidegate needs an endpoint there: start `tidegate endpoint` on it, call it NAME by `tidegate remote add NAME` here, and write NAME:/path; or write ./{0} for a path on this host",
                show(bytes)
            ))),
        };
        let address = match known {
            Ok(address) => address,
            Err(_) if is_here() => return Ok(Self::Local(bytes.to_vec())),
            Err(error) => return Err(error),
        };
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let base = address.path.strip_suffix(b"/").unwrap_or(&address.path);
        let path = if base.is_empty() { path.to_vec() } else { [base, b"/", path].concat() };
        Ok(Self::Endpoint(address.with_path(path)))
    }

    /// How it is shown, without secrets.
    pub fn show(&self) -> String {
        match self {
            Self::Local(path) => show(path).into_owned(),
            Self::Endpoint(address) => address.public(),
        }
    }
}

/// Refuses stores and web servers, saying which command is for them.
pub fn refuse_servers(sources: &[OsString], destination: &OsStr) -> Result<(), Error> {
    let shown = |text: &OsStr| tidegate_fetch::list::public_text(&text.to_string_lossy());
    let refuse = |place: &OsStr, advice: &str| {
        Err(usage(format!("{} is no host that runs Tidegate: {advice}", shown(place))))
    };
    match (scheme(destination), sources) {
        (Some("ftp" | "ftps"), _) => refuse(destination, "files are put to S3 and WebDAV, not by FTP"),
        (Some(_), [first, rest @ ..]) => {
            let more = if rest.is_empty() { "" } else { " …" };
            let advice = format!("write `tidegate put {}{more} {}`", shown(first), shown(destination));
            refuse(destination, &advice)
        }
        _ => match sources.iter().find(|source| scheme(source).is_some()) {
            Some(source) => {
                let advice = format!("write `tidegate get {} -o {}`", shown(source), shown(destination));
                refuse(source, &advice)
            }
            None => Ok(()),
        },
    }
}

/// The scheme of a store's or web server's URL, unless a file is called so.
fn scheme(text: &OsStr) -> Option<&'static str> {
    let (name, _) = text.to_str()?.split_once("://")?;
    let known = ["s3", "gs", "http", "https", "ftp", "ftps"]
        .into_iter()
        .find(|known| name.eq_ignore_ascii_case(known));
    known.filter(|_| std::fs::symlink_metadata(text).is_err())
}

/// Reads several sources, which must all be local or all at one endpoint.
pub fn sources(texts: &[OsString]) -> Result<(Vec<Vec<u8>>, Option<Address>), Error> {
    let mut paths = Vec::new();
    let mut endpoint: Option<Address> = None;
    for (i, text) in texts.iter().enumerate() {
        match (Place::parse(text)?, &endpoint) {
            (Place::Local(path), None) => paths.push(path),
            (Place::Endpoint(address), None) if i == 0 => {
                paths.push(address.path.clone());
                endpoint = Some(address);
            }
            (Place::Endpoint(address), Some(known)) if address.place() == known.place() => {
                paths.push(address.path);
            }
            _ => return Err(usage("all sources of one copy must be local, or all at the same endpoint")),
        }
    }
    Ok((paths, endpoint))
}
