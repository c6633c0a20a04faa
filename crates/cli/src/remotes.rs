//! Remembered endpoints: names and tickets in a file that only its owner may read, or in
//! `TIDEGATE_REMOTE_<NAME>` so that no secret need stand in a file or in `ps`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tidegate_transfer::error::Error;
use tidegate_transfer::wire::ticket::Address;
use tidegate_transfer::wire::tls::write_private;

use crate::exit::usage;

/// Whether `name` may name an endpoint.
pub fn is_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 64 && name.chars().all(legal) && !name.starts_with(['-', '.'])
}

/// Where the names are kept.
pub fn file() -> Result<PathBuf, Error> {
    let base = std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")))
        .ok_or_else(|| usage("neither HOME nor XDG_CONFIG_HOME is set"))?;
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
    write_private(&file()?, text.as_bytes())
}

/// The environment variable for `name`: `my-dtn` is `TIDEGATE_REMOTE_MY_DTN`.
pub fn variable(name: &str) -> String {
    let upper: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    format!("TIDEGATE_REMOTE_{upper}")
}

/// The address of `name`; the environment comes first.
pub fn find(name: &str) -> Result<Address, Error> {
    let variable = variable(name);
    if let Ok(text) = std::env::var(&variable) {
        return Address::parse(text.trim().as_bytes()).map_err(|error| error.within(variable));
    }
    match load()?.get(name) {
        Some(text) => Address::parse(text.as_bytes()),
        None => Err(usage(format!(
            "no endpoint is called '{name}': add it with `tidegate remote add {name} TICKET`, or write ./{name}:… for a local path"
        ))),
    }
}
