//! The options of `get` by what they are about, and what they become.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Deserializer, Serialize};
use tidegate_fetch::archive::ArchiveSettings;
use tidegate_fetch::get::DownloadSettings as Settings;
use tidegate_fetch::get::memory::Memory;
use tidegate_fetch::host::ceilings::Ceilings;
use tidegate_fetch::list;
use tidegate_fetch::remote::servers::ServerSettings;
use tidegate_fetch::sidecar::Sidecars;
use tidegate_run::settings::StateArgs;
use tidegate_run::ssh::SshCommand;
use tidegate_spec::archive::ArchiveSpec;
use tidegate_spec::control::Control;
use tidegate_spec::form::{listed, path_option, text_option, time};
use tidegate_spec::get::GetSpec;
use tidegate_spec::pair::Site;
use tidegate_spec::plane::{Patience, RETRY, Switch};
use tidegate_spec::run::Setup;
use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::sys::confined::Root;
use tidegate_transfer::transfer::{Interrupt, Pace};
use url::Url;

use crate::exit::usage;
use crate::google::GoogleArgs;
use crate::s3::S3Args;

/// Variables that stand for options.
const NCBI_API_KEY: &str = "NCBI_API_KEY";
const NCBI_EMAIL: &str = "NCBI_EMAIL";
const ENA_URL: &str = "TIDEGATE_ENA_URL";
const EUTILS_URL: &str = "TIDEGATE_EUTILS_URL";
const SDL_URL: &str = "TIDEGATE_SDL_URL";
const AWS_URL: &str = "TIDEGATE_AWS_URL";

/// Who is asked about accessions.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Sequence archives")]
pub struct ArchiveArgs {
    /// NCBI's API key, which allows more requests a second
    #[arg(long, value_name = "KEY", env = NCBI_API_KEY, hide_env_values = true)]
    api_key: Option<String>,
    /// An address that NCBI may write to about your requests
    #[arg(long, value_name = "ADDRESS", env = NCBI_EMAIL)]
    email: Option<String>,
    /// Base URL of ENA's Portal API
    #[arg(long, value_name = "URL", env = ENA_URL)]
    ena_url: Option<String>,
    /// Base URL of NCBI's E-utilities
    #[arg(long, value_name = "URL", env = EUTILS_URL)]
    eutils_url: Option<String>,
    /// URL of NCBI's locator of data
    #[arg(long, value_name = "URL", env = SDL_URL)]
    sdl_url: Option<String>,
    /// Base URL of the open-data mirror of SRA
    #[arg(long, value_name = "URL", env = AWS_URL)]
    aws_url: Option<String>,
}

/// How lists are read.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Lists")]
pub struct ListArgs {
    /// What lists are, instead of finding out: urls, sums, tsv, csv, json, bagit or metalink
    #[arg(long, value_name = "KIND")]
    input_format: Option<list::ListFormat>,
    /// Where the files of a checksum file lie, and what relative addresses of a table are relative to
    #[arg(long, value_name = "URL", value_parser = base_url)]
    #[serde(serialize_with = "text_option::serialize", deserialize_with = "base_url_option")]
    base_url: Option<Url>,
}

/// What is written beside the files.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Beside the files")]
pub struct SidecarArgs {
    /// Write no runs.tsv, md5sums.txt, samplesheet.csv or failed.txt
    #[arg(long)]
    pub no_sidecars: bool,
}

/// How servers are dealt with.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Servers")]
pub struct ServerArgs {
    /// Most connections to a host, or HOST=N (*.HOST=N for all beneath it) for one
    /// [default: 8 to ENA, 64 to S3, 32 to others, and --max-workers in all]
    #[arg(long, value_name = "[HOST=]N", value_delimiter = ',')]
    #[serde(with = "listed")]
    max_connections: Vec<Ceiling>,
    /// How often a file is tried again without any progress although its server answers; with 0 nothing is tried
    /// again
    #[arg(long, value_name = "N", default_value_t = Self::default().retries)]
    retries: u32,
    /// How long a server that does not answer is tried again; one that never answered is given up after 30s at most
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = |text: &str| RETRY.time(text))]
    #[serde(with = "time")]
    retry_for: Duration,
    /// Certificates (PEM) to trust besides the system's
    #[arg(long, value_name = "FILE")]
    #[serde(with = "path_option")]
    ca: Option<PathBuf>,
    /// Follow redirects from https to http
    #[arg(long)]
    allow_downgrade: bool,
    /// Take a web page for a file that is not called .html
    #[arg(long, hide_short_help = true)]
    allow_pages: bool,
    /// Let FTP servers connect to us
    #[arg(long, hide_short_help = true)]
    ftp_active: bool,
    #[command(flatten)]
    #[serde(flatten)]
    ssh: SshCommand,
    #[command(flatten)]
    #[serde(flatten)]
    s3: S3Args,
    #[command(flatten)]
    #[serde(flatten)]
    google: GoogleArgs,
}

/// Most connections to one host, or to each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceiling {
    host: Option<String>,
    max: u16,
}

impl fmt::Display for Ceiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.host.as_ref().map_or(Ok(()), |host| write!(f, "{host}="))?;
        self.max.fmt(f)
    }
}

impl FromStr for Ceiling {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (host, number) = match text.rsplit_once('=') {
            Some((host, number)) => (Some(host.trim().to_owned()).filter(|host| !host.is_empty()), number),
            None => (None, text),
        };
        let max = number.trim().parse().ok().filter(|max| (1..=512).contains(max));
        let named = host.is_some() == text.contains('=');
        match max.filter(|_| named) {
            Some(max) => Ok(Self { host, max }),
            None => Err(usage("must be a number from 1 to 512, or HOST=NUMBER")),
        }
    }
}

fn base_url(text: &str) -> Result<Url> {
    list::url(text)
}

fn base_url_option<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Url>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.as_deref().map(base_url).transpose().map_err(serde::de::Error::custom)
}

impl ArchiveArgs {
    /// What the environment says, as where options are typed.
    pub fn of_environment() -> Self {
        let said = |name: &str| std::env::var(name).ok();
        Self {
            api_key: said(NCBI_API_KEY),
            email: said(NCBI_EMAIL),
            ena_url: said(ENA_URL),
            eutils_url: said(EUTILS_URL),
            sdl_url: said(SDL_URL),
            aws_url: said(AWS_URL),
        }
    }

    /// The same, and what the environment says of the rest.
    pub fn or_said(self) -> Self {
        let said = Self::of_environment();
        Self {
            api_key: self.api_key.or(said.api_key),
            email: self.email.or(said.email),
            ena_url: self.ena_url.or(said.ena_url),
            eutils_url: self.eutils_url.or(said.eutils_url),
            sdl_url: self.sdl_url.or(said.sdl_url),
            aws_url: self.aws_url.or(said.aws_url),
        }
    }

    /// Where runs come from.
    pub fn site(&self, wanted: &ArchiveSpec) -> Site {
        Site::archive(Some(wanted.source.name()))
    }

    /// How, in words.
    pub fn terms(&self, wanted: &ArchiveSpec) -> Vec<String> {
        let base = self.ena_url.as_deref().filter(|url| !url.is_empty()).and_then(|url| Site::of(url).ok());
        let base = base.map(|site| format!("at {site}"));
        [format!("by {}", wanted.protocol.name())].into_iter().chain(base).collect()
    }

    /// Who is asked, as patiently as `server` and `spec` say.
    pub fn settings(&self, server: &ServerArgs, spec: &GetSpec) -> ArchiveSettings {
        let usual = ArchiveSettings::default();
        // An empty variable is as good as none.
        let or = |asked: &Option<String>, usual: String| {
            asked.clone().filter(|url| !url.is_empty()).unwrap_or(usual)
        };
        ArchiveSettings {
            ena_url: or(&self.ena_url, usual.ena_url),
            eutils_url: or(&self.eutils_url, usual.eutils_url),
            sdl_url: or(&self.sdl_url, usual.sdl_url),
            aws_url: or(&self.aws_url, usual.aws_url),
            api_key: self.api_key.clone().filter(|key| !key.is_empty()),
            email: self.email.clone().filter(|email| !email.is_empty()),
            ca: server.ca.clone(),
            timeout: spec.requests.timeout,
            retries: server.retries.min(usual.retries),
            seed: spec.control.seed,
            ..usual
        }
    }
}

impl ListArgs {
    /// How lists are read, given what is wanted of runs.
    pub fn options(&self, archive: &ArchiveSpec) -> list::Options {
        list::Options {
            format: self.input_format,
            base: self.base_url.clone(),
            files: archive.format.name().to_owned(),
            scheme: archive.protocol.name().to_owned(),
        }
    }
}

impl SidecarArgs {
    /// What gathers them, if they are wanted.
    pub fn sidecars(&self, directory: &Path, wanted: &ArchiveSpec) -> Result<Option<Sidecars>> {
        if self.no_sidecars {
            return Ok(None);
        }
        Sidecars::new(directory, Some(wanted.samplesheet)).map(Some)
    }
}

impl ListArgs {
    /// URLs, a line each.
    pub fn of_urls() -> Self {
        Self { input_format: Some(list::ListFormat::Urls), base_url: None }
    }
}

impl ServerArgs {
    /// Whether each value lies where the command line has it.
    pub fn check(&self) -> Result<(), String> {
        RETRY.check("retry_for", self.retry_for)
    }

    /// As usual, but for what a program says of servers.
    pub fn of(setup: &Setup) -> Self {
        let usual = Self::default();
        let retry_for = setup.retry_for.unwrap_or(usual.retry_for);
        Self { ca: setup.ca.clone(), retry_for, ..usual }
    }
}

impl Default for ServerArgs {
    fn default() -> Self {
        Self {
            max_connections: Vec::new(),
            retries: 8,
            retry_for: Patience::default().retry_for,
            ca: None,
            allow_downgrade: false,
            allow_pages: false,
            ftp_active: false,
            ssh: SshCommand::default(),
            s3: S3Args::default(),
            google: GoogleArgs::default(),
        }
    }
}

impl ServerArgs {
    /// How servers are spoken to.
    pub fn servers(&self, spec: &GetSpec) -> Result<ServerSettings> {
        Ok(ServerSettings {
            s3: self.s3.asked()?,
            gs: self.google.asked()?,
            ssh: self.ssh.carrier()?,
            timeout: spec.requests.timeout,
            ca: self.ca.clone(),
            allow_downgrade: self.allow_downgrade,
            allow_pages: self.allow_pages,
            ftp_active: self.ftp_active,
            congestion: spec.control.congestion.for_servers()?,
            ..ServerSettings::from_env()
        })
    }

    /// How files are got into `directory`.
    pub fn download(
        &self,
        directory: &Path,
        (spec, control): (&GetSpec, &Control),
        pace: Pace,
        interrupt: Interrupt,
        state: &StateArgs,
    ) -> Result<Settings> {
        use std::os::unix::ffi::OsStrExt;
        let base = directory.as_os_str().as_bytes();
        let asked = &spec.requests;
        Ok(Settings {
            out: Root::open(base).map_err(|error| Error::io("write to", base, error))?,
            base: base.to_vec(),
            typed: base.to_vec(),
            memory: Arc::new(Memory::new(&state.open()?)?),
            limits: asked.limits(),
            staging: asked.staging,
            max_workers: self.max_workers(control.local.max_workers),
            ceilings: self.ceilings(),
            held: Arc::default(),
            retries: self.retries,
            retry_for: if self.retries == 0 { Duration::ZERO } else { self.retry_for },
            timeout: asked.timeout,
            chunk: (asked.chunking == Switch::On).then_some(asked.chunk_size),
            pipelining: asked.pipelining == Switch::On,
            extra: asked.computed(),
            verify: !asked.no_verify,
            overwrite: spec.overwrite,
            pace,
            interrupt,
            seed: control.spec.seed,
        })
    }

    fn ceilings(&self) -> Ceilings {
        let every = self.max_connections.iter().rev().find(|ceiling| ceiling.host.is_none());
        let mut ceilings = every.map_or_else(Ceilings::default, |every| Ceilings::all(every.max));
        for ceiling in &self.max_connections {
            if let Some(host) = &ceiling.host {
                ceilings.set(host, ceiling.max);
            }
        }
        ceilings
    }

    /// Who allows a host more connections than workers wants as many workers.
    fn max_workers(&self, asked: u16) -> u16 {
        self.max_connections.iter().map(|ceiling| ceiling.max).fold(asked, u16::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceilings_are_read() {
        let read = |text: &str| text.parse::<Ceiling>().ok().map(|ceiling| (ceiling.host, ceiling.max));
        assert_eq!(read("8"), Some((None, 8)));
        assert_eq!(read("*.ebi.ac.uk=4"), Some((Some("*.ebi.ac.uk".to_owned()), 4)));
        for bad in ["", "0", "513", "x", "=4", "a=", "a=0"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
