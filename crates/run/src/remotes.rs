//! Remembered endpoints: names and tickets in a file that only its owner may read, or in
//! `TIDEGATE_REMOTE_<NAME>` so that no secret need stand in a file or in `ps`.

pub mod pool;

use std::collections::BTreeMap;
use std::path::PathBuf;

use tidegate_contract::home;
use tidegate_contract::text::show;
use tidegate_transfer::error::{Error, usage};
use tidegate_transfer::sys::hidden;
use tidegate_transfer::wire::ticket::Address;
use tidegate_transfer::wire::tls::write_private;

use crate::remotes::pool::Pool;
use crate::ssh::target::{SCHEME, Target};

/// Whether `name` may name an endpoint.
pub fn is_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 64 && name.chars().all(legal) && !name.starts_with(['-', '.'])
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub enum Remote {
    /// An endpoint that is served there.
    Served(Address),
    /// A host where ssh starts one, and a path there.
    Ssh(Target, Vec<u8>),
    /// Endpoints over one file system.
    Pool(Pool),
}

impl Remote {
    /// Reads a ticket, the URL of a host that ssh reaches, or the endpoints of a pool.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.starts_with(pool::SCHEME) {
            return Pool::parse(text).map(Self::Pool);
        }
        match text.starts_with(SCHEME) {
            true => Target::of_url(text.as_bytes()).map(|(target, path)| Self::Ssh(target, path)),
            false => Address::parse(text.as_bytes()).map(Self::Served),
        }
    }

    /// Without secrets, for people.
    pub fn public(&self) -> String {
        match self {
            Self::Served(address) => address.public(),
            Self::Ssh(target, path) => format!("{target}{}", show(&in_url(path))),
            Self::Pool(pool) => pool.to_string(),
        }
    }

    /// Whole, with its secrets.
    pub fn whole(&self) -> String {
        match self {
            Self::Served(address) => address.to_string(),
            Self::Ssh(..) => self.public(),
            Self::Pool(pool) => pool.whole(),
        }
    }

    /// A path beneath the one that it has; each endpoint of a pool has its own.
    pub fn beneath(&self, path: &[u8]) -> Vec<u8> {
        let base = match self {
            Self::Served(Address { path, .. }) | Self::Ssh(_, path) => &path[..],
            Self::Pool(_) => b"",
        };
        let path = path.strip_prefix(b"/").unwrap_or(path);
        match base.strip_suffix(b"/").unwrap_or(base) {
            // The root of a host that is reached by ssh is that of its paths.
            b"" if !base.is_empty() => [b"/", path].concat(),
            b"" => path.to_vec(),
            base => [base, b"/", path].concat(),
        }
    }
}

/// A path at a host that ssh reaches, as its URL has it.
fn in_url(path: &[u8]) -> Vec<u8> {
    if path.starts_with(b"/") { path.to_vec() } else { [b"/~/", path].concat() }
}

/// Where the names are kept.
pub fn file() -> Result<PathBuf, Error> {
    let base = home::base_directory("XDG_CONFIG_HOME", ".config")
        .ok_or_else(|| usage("neither HOME nor XDG_CONFIG_HOME is an absolute path: set one"))?;
    Ok(base.join("tidegate").join("remotes.json"))
}

/// Everything remembered in the file.
pub fn load() -> Result<BTreeMap<String, String>, Error> {
    let path = file()?;
    match std::fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| {
            usage(format!("{} cannot be read ({error}): mend or remove it", path.display()))
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(usage(format!("cannot read {}: {error}", path.display()))),
    }
}

/// Replaces what is remembered.
pub fn save(remotes: &BTreeMap<String, String>) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(remotes).expect("names and addresses are text");
    let file = file()?;
    write_private(&file, text.as_bytes())?;
    // They have tickets in them. Without a mark they are still kept.
    let _ = file.parent().map(hidden::mark);
    Ok(())
}

/// The environment variable for `name`: `my-dtn` is `TIDEGATE_REMOTE_MY_DTN`.
pub fn variable(name: &str) -> String {
    let upper: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    format!("TIDEGATE_REMOTE_{upper}")
}

/// What `name` stands for; the environment comes first.
pub fn find(name: &str) -> Result<Remote, Error> {
    let variable = variable(name);
    if let Ok(text) = std::env::var(&variable) {
        return Remote::parse(text.trim()).map_err(|error| error.within(variable));
    }
    match load()?.get(name) {
        Some(text) => Remote::parse(text),
        None => Err(usage(format!(
            "no endpoint is called '{name}': add it with `tidegate remote add {name} TICKET`, write USER@{name}:… for a host that ssh reaches, or ./{name}:… for a local path"
        ))),
    }
}
