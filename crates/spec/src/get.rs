//! Files from servers of others.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};
use tidegate_control::{BitRate, ByteCount};
use tidegate_fetch::checksum::{Algorithm, Checksums};
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::throttle::Limits;

use crate::archive::ArchiveSpec;
use crate::control::ControlSpec;
use crate::form::{listed, time};
use crate::plane::{CHUNK, STAGING, Switch};
use crate::range::Range;

const TIMEOUT: Range<Duration> =
    Range::new(Duration::from_millis(100), Duration::from_secs(3600), "must be from 100ms to 3600s");

/// What a download is to be like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "GetOptions", extend("additionalProperties" = false)))]
#[serde(default)]
pub struct GetSpec {
    /// Replace files of the same names that no earlier run has written, or that were changed since
    #[arg(long)]
    pub overwrite: bool,
    /// Accessions.
    #[command(flatten)]
    #[serde(flatten)]
    pub archive: ArchiveSpec,
    /// How servers are asked.
    #[command(flatten)]
    #[serde(flatten)]
    pub requests: GetRequests,
    /// Who decides.
    #[command(flatten)]
    #[serde(flatten)]
    pub control: ControlSpec,
}

/// How servers are asked for files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[command(next_help_heading = "Servers")]
pub struct GetRequests {
    /// Rate of all connections together, such as 80Mbit/s
    #[arg(long, alias = "limit-link", value_name = "RATE")]
    #[serde(alias = "limit_link")]
    #[cfg_attr(feature = "schema", schemars(extend("x-alias" = "limit_link")))]
    pub limit_rate: Option<BitRate>,
    /// Rate of each connection
    #[arg(long, value_name = "RATE")]
    pub limit_network: Option<BitRate>,
    /// Rate of each writer
    #[arg(long, value_name = "RATE")]
    pub limit_write: Option<BitRate>,
    /// How long a server may be silent
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = |text: &str| TIMEOUT.time(text))]
    #[serde(with = "time")]
    #[cfg_attr(feature = "schema", schemars(with = "time::WrittenTime"))]
    pub timeout: Duration,
    /// Do not hold files against the checksums that are known of them
    #[arg(long)]
    pub no_verify: bool,
    /// Compute these checksums as well: crc32, crc32c, crc64nvme, md5, sha1, sha256, sha512, blake3; or hold the one URL
    /// against a sum, as sha256:HEX
    #[arg(long, value_name = "NAMES|ALG:HEX", value_delimiter = ',')]
    #[serde(with = "listed")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub checksum: Vec<ChecksumWish>,
    /// Memory for blocks between network and disk
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = |text: &str| STAGING.size(text))]
    pub staging: ByteCount,
    /// Bytes of a large file given to one connection at a time
    #[arg(long, hide_short_help = true, value_name = "SIZE", default_value = "64MiB", value_parser = |text: &str| CHUNK.size(text))]
    pub chunk_size: ByteCount,
    /// Whether large files are fetched in parallel pieces
    #[arg(long, hide_short_help = true, value_name = "SWITCH", value_enum, default_value_t = Switch::On)]
    pub chunking: Switch,
    /// Whether a connection serves request after request, or one each: with --chunking off a file
    #[arg(long, hide_short_help = true, value_name = "SWITCH", value_enum, default_value_t = Switch::On)]
    pub pipelining: Switch,
}

/// A checksum to compute, or one that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChecksumWish {
    /// It is computed as well.
    Computed(Algorithm),
    /// It is what the file must have, in hexadecimal.
    Declared(Algorithm, String),
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

impl fmt::Display for ChecksumWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Computed(algorithm) => algorithm.fmt(f),
            Self::Declared(algorithm, hex) => write!(f, "{algorithm}:{hex}"),
        }
    }
}

impl Default for GetRequests {
    fn default() -> Self {
        Self {
            limit_rate: None,
            limit_network: None,
            limit_write: None,
            timeout: Duration::from_secs(60),
            no_verify: false,
            checksum: Vec::new(),
            staging: ByteCount::mib(16),
            chunk_size: ByteCount::mib(64),
            chunking: Switch::On,
            pipelining: Switch::On,
        }
    }
}

impl GetSpec {
    /// Whether all of it makes sense together.
    pub fn check(&self) -> Result<(), String> {
        self.control.check()?;
        TIMEOUT.check("timeout", self.requests.timeout)?;
        STAGING.check("staging", self.requests.staging)?;
        CHUNK.check("chunk_size", self.requests.chunk_size)
    }
}

impl GetRequests {
    /// The rates that are kept.
    pub const fn limits(&self) -> Limits {
        Limits { read: None, network: self.limit_network, write: self.limit_write, link: self.limit_rate }
    }

    /// The checksums that are computed besides those that are known.
    pub fn computed(&self) -> Vec<Algorithm> {
        let computed = |wish: &ChecksumWish| match wish {
            ChecksumWish::Computed(algorithm) => Some(*algorithm),
            ChecksumWish::Declared(..) => None,
        };
        self.checksum.iter().filter_map(computed).collect()
    }

    /// What the only file that is named must sum up to.
    ///
    /// # Errors
    /// Two sums of one kind.
    pub fn declared(&self) -> Result<Checksums> {
        let mut all = Checksums::none();
        for wish in &self.checksum {
            let ChecksumWish::Declared(algorithm, hex) = wish else { continue };
            let before = all.hex(*algorithm);
            all.add_hex(*algorithm, hex)?;
            if before.is_some_and(|before| all.hex(*algorithm) != Some(before)) {
                let why = format!("--checksum says two sums by {algorithm}");
                return Err(Error::new(ErrorKind::Usage, why));
            }
        }
        Ok(all)
    }

    /// What changes the rate besides limits, as the path is remembered.
    pub fn terms(&self) -> Vec<&'static str> {
        let words = [
            (!self.no_verify, "verified"),
            (self.chunking == Switch::Off, "files whole"),
            (self.pipelining == Switch::Off, "a connection each file"),
        ];
        words.into_iter().filter_map(|(is_so, word)| is_so.then_some(word)).collect()
    }
}
