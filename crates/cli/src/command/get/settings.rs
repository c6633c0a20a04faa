//! The options of `get` by what they are about, and what they become.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tidegate_control::{BitRate, ByteCount};
use tidegate_fetch::archive::{
    ArchiveSettings, Format, Layout, Naming, Protocol, ResolveOptions as Wish, Source,
};
use tidegate_fetch::checksum::{Algorithm, Checksums};
use tidegate_fetch::get::DownloadSettings as Settings;
use tidegate_fetch::get::memory::Memory;
use tidegate_fetch::host::ceilings::Ceilings;
use tidegate_fetch::list;
use tidegate_fetch::remote::gs_settings::GsSettings;
use tidegate_fetch::remote::servers::ServerSettings;
use tidegate_fetch::sidecar::{Shape, Sidecars};
use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::sys::confined::Root;
use tidegate_transfer::throttle::Limits;
use tidegate_transfer::transfer::{Interrupt, Pace};
use url::Url;

use crate::exit::usage;
use crate::path_key::server;
use crate::s3::S3Args;
use crate::settings::{ControlArgs, StateArgs, chunk_size, retry_time, staging_size};
use crate::values::time;

/// What is wanted of accessions, and who is asked.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Sequence archives")]
pub struct ArchiveArgs {
    /// What files: fastq, sra, sralite or submitted; nothing else is taken in its place unasked
    #[arg(long, value_name = "FORMAT", default_value = "fastq")]
    format: Format,
    /// Take another format where the wished one is missing, and say so
    #[arg(long)]
    allow_fallback: bool,
    /// Who gives them: auto (ENA, then the open data on AWS, then NCBI), ena, ncbi or aws
    #[arg(long, value_name = "SOURCE", default_value = "auto")]
    source: Source,
    /// How ENA's files are fetched: https or ftp
    #[arg(long, value_name = "PROTOCOL", default_value = "https")]
    protocol: Protocol,
    /// Where they go: flat, or a directory for each run or experiment
    #[arg(long, value_name = "LAYOUT", default_value = "flat")]
    layout: Layout,
    /// What they are called: as the archive does (archive), or with the experiment in front (fetchngs)
    #[arg(long, value_name = "NAMING", default_value = "archive")]
    name: Naming,
    /// Columns of ENA's to ask for, separated by commas, or 'all'
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    fields: Vec<String>,
    /// NCBI's API key, which allows more requests a second
    #[arg(long, value_name = "KEY", env = "NCBI_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// An address that NCBI may write to about your requests
    #[arg(long, value_name = "ADDRESS", env = "NCBI_EMAIL")]
    email: Option<String>,
    /// Base URL of ENA's Portal API
    #[arg(long, value_name = "URL", env = "TIDEGATE_ENA_URL")]
    ena_url: Option<String>,
    /// Base URL of NCBI's E-utilities
    #[arg(long, value_name = "URL", env = "TIDEGATE_EUTILS_URL")]
    eutils_url: Option<String>,
    /// URL of NCBI's locator of data
    #[arg(long, value_name = "URL", env = "TIDEGATE_SDL_URL")]
    sdl_url: Option<String>,
    /// Base URL of the open-data mirror of SRA
    #[arg(long, value_name = "URL", env = "TIDEGATE_AWS_URL")]
    aws_url: Option<String>,
}

/// How lists are read.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Lists")]
pub struct ListArgs {
    /// What lists are, instead of finding out: urls, sums, tsv, csv, json, bagit or metalink
    #[arg(long, value_name = "KIND")]
    input_format: Option<list::ListFormat>,
    /// Where the files of a checksum file lie, and what relative addresses of a table are relative to
    #[arg(long, value_name = "URL", value_parser = base_url)]
    base_url: Option<Url>,
}

/// What is written beside the files.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Beside the files")]
pub struct SidecarArgs {
    /// The pipeline that samplesheet.csv is for: rnaseq, atacseq, viralrecon, taxprofiler or generic
    #[arg(long, value_name = "PIPELINE", default_value = "generic")]
    samplesheet: Shape,
    /// Write no runs.tsv, md5sums.txt, samplesheet.csv or failed.txt
    #[arg(long)]
    no_sidecars: bool,
}

/// How servers are dealt with.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Servers")]
pub struct ServerArgs {
    /// Most connections to a host, or HOST=N (*.HOST=N for all beneath it) for one
    /// [default: 8 to ENA, 64 to S3, 32 to others, and --max-workers in all]
    #[arg(long, value_name = "[HOST=]N", value_delimiter = ',')]
    max_connections: Vec<Ceiling>,
    /// Rate of all connections together, such as 80Mbit/s
    #[arg(long, value_name = "RATE")]
    limit_rate: Option<BitRate>,
    /// Rate of each connection
    #[arg(long, value_name = "RATE")]
    limit_network: Option<BitRate>,
    /// Rate of each writer
    #[arg(long, value_name = "RATE")]
    limit_write: Option<BitRate>,
    /// How often a file is tried again without any progress although its server answers; with 0 nothing is tried
    /// again
    #[arg(long, value_name = "N", default_value_t = 8)]
    retries: u32,
    /// How long a server that does not answer is tried again; one that never answered is given up after 30s at most
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = retry_time)]
    retry_for: Duration,
    /// How long a server may be silent
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = timeout)]
    timeout: Duration,
    /// Do not hold files against the checksums that are known of them
    #[arg(long)]
    no_verify: bool,
    /// Compute these checksums as well: crc32, crc32c, crc64nvme, md5, sha1, sha256, sha512, blake3; or hold the one URL
    /// against a sum, as sha256:HEX
    #[arg(long, value_name = "NAMES|ALG:HEX", value_delimiter = ',')]
    checksum: Vec<ChecksumWish>,
    /// Certificates (PEM) to trust besides the system's
    #[arg(long, value_name = "FILE")]
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
    /// Memory for blocks between network and disk
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = staging_size)]
    staging: ByteCount,
    /// Bytes of a large file given to one connection at a time
    #[arg(long, hide_short_help = true, value_name = "SIZE", default_value = "64MiB", value_parser = chunk_size)]
    chunk_size: ByteCount,
    /// Whether large files are fetched in parallel pieces
    #[arg(long, hide_short_help = true, value_name = "SWITCH", value_parser = ["on", "off"], default_value = "on")]
    chunking: String,
    /// Whether a connection serves request after request, or one each: with --chunking off a file
    #[arg(long, hide_short_help = true, value_name = "SWITCH", value_parser = ["on", "off"], default_value = "on")]
    pipelining: String,
    #[command(flatten)]
    s3: S3Args,
    /// The server of gs:// [default: $STORAGE_EMULATOR_HOST, or `https://storage.googleapis.com`]
    #[arg(long, help_heading = "Google Cloud Storage", value_name = "URL", hide_short_help = true)]
    gs_endpoint: Option<String>,
    /// A project of yours that pays for requests to buckets of Google's whose owners charge for them; none otherwise
    #[arg(long, help_heading = "Google Cloud Storage", value_name = "PROJECT")]
    billing_project: Option<String>,
}

/// Most connections to one host, or to each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceiling {
    host: Option<String>,
    max: u16,
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

/// A checksum to compute, or one that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChecksumWish {
    /// It is computed as well.
    Computed(Algorithm),
    /// It is what the file must have, in hexadecimal.
    Declared(Algorithm, String),
}

impl ChecksumWish {
    fn computed(&self) -> Option<Algorithm> {
        match self {
            Self::Computed(algorithm) => Some(*algorithm),
            Self::Declared(..) => None,
        }
    }
}

impl FromStr for ChecksumWish {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let Some((algorithm, hex)) = text.split_once([':', '=']) else {
            return text.trim().parse().map(Self::Computed);
        };
        let algorithm: Algorithm = algorithm.trim().parse()?;
        Checksums::none().add_hex(algorithm, hex)?;
        Ok(Self::Declared(algorithm, hex.to_owned()))
    }
}

fn base_url(text: &str) -> Result<Url> {
    list::url(text)
}

fn timeout(text: &str) -> Result<Duration, String> {
    time(text, Duration::from_millis(100)..=Duration::from_secs(3600), "must be from 100ms to 3600s")
}

impl ArchiveArgs {
    /// What is wanted of every run.
    pub fn wish(&self) -> Wish {
        Wish {
            format: self.format,
            allow_fallback: self.allow_fallback,
            source: self.source,
            protocol: self.protocol,
            layout: self.layout,
            naming: self.name,
            fields: self.fields.clone(),
        }
    }

    /// Where runs come from, in words.
    pub fn place(&self) -> String {
        let base = self.ena_url.as_deref().filter(|url| !url.is_empty()).and_then(server);
        let base = base.map_or_else(String::new, |url| format!(" at {url}"));
        format!("archives: {}, {}{base}", self.source.name(), self.protocol.name())
    }

    /// Who is asked, as patiently as `server` says.
    pub fn settings(&self, server: &ServerArgs, seed: u64) -> ArchiveSettings {
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
            timeout: server.timeout,
            retries: server.retries.min(usual.retries),
            seed,
            ..usual
        }
    }
}

impl ListArgs {
    /// How lists are read, given what is wanted of runs.
    pub fn options(&self, archive: &ArchiveArgs) -> list::Options {
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
    pub fn sidecars(&self, directory: &Path) -> Result<Option<Sidecars>> {
        if self.no_sidecars {
            return Ok(None);
        }
        Sidecars::new(directory, Some(self.samplesheet)).map(Some)
    }
}

impl ServerArgs {
    /// How servers are spoken to.
    pub fn servers(&self) -> Result<ServerSettings> {
        Ok(ServerSettings {
            s3: self.s3.asked()?,
            gs: self.gs()?,
            timeout: self.timeout,
            ca: self.ca.clone(),
            allow_downgrade: self.allow_downgrade,
            allow_pages: self.allow_pages,
            ftp_active: self.ftp_active,
            ..ServerSettings::from_env()
        })
    }

    /// What was asked for of Google's storage, if anything was: else the environment is read when it is needed.
    fn gs(&self) -> Result<Option<GsSettings>> {
        if self.gs_endpoint.is_none() && self.billing_project.is_none() {
            return Ok(None);
        }
        let found =
            GsSettings::from_environment(&|name| std::env::var(name).ok(), self.gs_endpoint.as_deref())?;
        Ok(Some(GsSettings { project: self.billing_project.clone(), ..found }))
    }

    /// How files are got into `directory`.
    pub fn download(
        &self,
        directory: &Path,
        control: &ControlArgs,
        pace: Pace,
        interrupt: Interrupt,
        state: &StateArgs,
    ) -> Result<Settings> {
        use std::os::unix::ffi::OsStrExt;
        let base = directory.as_os_str().as_bytes();
        Ok(Settings {
            out: Root::open(base).map_err(|error| Error::io("write to", base, error))?,
            base: base.to_vec(),
            memory: Arc::new(Memory::new(&state.open()?)?),
            limits: Limits {
                read: None,
                network: self.limit_network,
                write: self.limit_write,
                link: self.limit_rate,
            },
            staging: self.staging,
            max_workers: self.max_workers(control.max_workers),
            ceilings: self.ceilings(),
            held: Arc::default(),
            retries: self.retries,
            retry_for: if self.retries == 0 { Duration::ZERO } else { self.retry_for },
            timeout: self.timeout,
            chunk: (self.chunking == "on").then_some(self.chunk_size),
            pipelining: self.pipelining == "on",
            extra: self.checksum.iter().filter_map(ChecksumWish::computed).collect(),
            verify: !self.no_verify,
            overwrite: false,
            pace,
            interrupt,
            seed: control.seed,
        })
    }

    /// What the only file that is named must sum up to.
    pub fn declared(&self) -> Result<Checksums> {
        let mut all = Checksums::none();
        for wish in &self.checksum {
            let ChecksumWish::Declared(algorithm, hex) = wish else { continue };
            let before = all.hex(*algorithm);
            all.add_hex(*algorithm, hex)?;
            if before.is_some_and(|before| all.hex(*algorithm) != Some(before)) {
                return Err(usage(format!("--checksum says two sums by {algorithm}")));
            }
        }
        Ok(all)
    }

    /// What changes the rate besides limits, as the path is remembered.
    pub fn terms(&self) -> Vec<&'static str> {
        let words = [
            (!self.no_verify, "verified"),
            (self.chunking != "on", "files whole"),
            (self.pipelining != "on", "a connection each file"),
        ];
        words.into_iter().filter_map(|(is_so, word)| is_so.then_some(word)).collect()
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
