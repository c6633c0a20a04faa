//! A running `tidegate serve`: which one is meant, where it is, and with which token.

pub mod jobs;

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use tidegate_fleet::client::Service;
use tidegate_run::place::as_content;
use tidegate_run::remotes;
use tidegate_run::settings::StateArgs;
use tidegate_run::ssh::target::{SCHEME, Target};
use tidegate_service::api::{DIRECTORY, URL_FILE, read_token};
use tidegate_transfer::error::Result;

use crate::exit::usage;

/// Where the service listens if nothing else is said.
const DEFAULT_URL: &str = "http://127.0.0.1:7118";
/// Most bytes of the file that names the service.
const MAX_FILE: u64 = 1 << 20;

/// Which service.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Service")]
pub struct ServiceArgs {
    /// The service's address [default: the one started with this state directory]
    #[arg(long, value_name = "URL", env = "TIDEGATE_SERVER")]
    server: Option<String>,
    /// The certificate authority of its certificate, PEM [default: the system's]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_SERVER_CA")]
    server_ca: Option<PathBuf>,
    #[command(flatten)]
    state: StateArgs,
}

impl ServiceArgs {
    /// Whether it was named.
    pub fn is_named(&self) -> bool {
        self.server.is_some()
    }

    /// The authority that certifies it, if that is none of the system's.
    pub fn server_ca(&self) -> Option<&Path> {
        self.server_ca.as_deref()
    }

    /// The state directory, made if it is missing.
    pub fn state_dir(&self) -> Result<PathBuf> {
        self.state.state_dir()
    }

    /// The service meant.
    pub fn open(&self) -> Result<Service> {
        connect(self.server.as_deref(), self.server_ca.as_deref(), &self.state.state_dir()?)
    }
}

/// A path of this directory from `/` on, as the service runs elsewhere; a URL or a remembered name as it is.
pub fn address_there(word: &str) -> Result<String> {
    if word.starts_with(SCHEME) || Target::of_path(word.as_bytes()).is_some() {
        let why = format!(
            "{word} is reached by ssh, and no job runs ssh: serve an endpoint there (`tidegate endpoint`), or write ./{word} for a path here"
        );
        return Err(usage(why));
    }
    let remembered = word.split_once(':').is_some_and(|(name, _)| remotes::is_name(name));
    if word.contains("://") || remembered && !Path::new(word).exists() {
        return Ok(word.to_owned());
    }
    let path: PathBuf = std::path::absolute(word).map_err(|error| usage(format!("{word}: {error}")))?;
    // A slash at the end says that the content is meant, or a directory.
    let slash = if as_content(word.as_bytes()).ends_with(b"/") { "/" } else { "" };
    let text = path.to_str().ok_or_else(|| usage(format!("{} is not valid UTF-8", path.display())))?;
    Ok(if text.ends_with('/') { text.to_owned() } else { format!("{text}{slash}") })
}

/// The service at `server`, or the one that was started with the state directory `state`. The token comes from
/// `TIDEGATE_TOKEN` or that directory, never from the command line, which others can see.
pub fn connect(server: Option<&str>, ca: Option<&Path>, state: &Path) -> Result<Service> {
    let directory = state.join(DIRECTORY);
    let told = std::env::var("TIDEGATE_TOKEN").ok().filter(|token| !token.is_empty());
    let token = match told {
        Some(token) => token,
        None => read_token(&directory)
            .map_err(|error| usage(format!("cannot read the service's token: {error}")))?
            .ok_or_else(|| {
                usage(format!(
                    "no token in {}: start `tidegate serve` with this state directory, or set TIDEGATE_TOKEN",
                    directory.display()
                ))
            })?,
    };
    let base = match server {
        Some(server) => server.to_owned(),
        None => noted(&directory.join(URL_FILE)).unwrap_or_else(|| DEFAULT_URL.to_owned()),
    };
    Service::at(&base, token, ca)
}

/// What the file at `path` says, if it can be read.
fn noted(path: &Path) -> Option<String> {
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(MAX_FILE).read_to_string(&mut text).ok()?;
    Some(text)
}
