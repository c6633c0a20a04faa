//! Files to servers of others.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use tidegate_control::{BitRate, ByteCount};
use tidegate_transfer::throttle::Limits;

use crate::control::ControlSpec;
use crate::deletion::DeletionSpec;
use crate::filters::FilterSpec;
use crate::form::time;
use crate::plane::STAGING;
use crate::range::Range;

const PART: Range<ByteCount> = Range::new(ByteCount::mib(5), ByteCount::gib(5), "must be from 5MiB to 5GiB");
const TIMEOUT: Range<Duration> =
    Range::new(Duration::from_secs(1), Duration::from_secs(3600), "must be from 1s to 1h");

/// What an upload is to be like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "PutOptions", extend("additionalProperties" = false)))]
#[serde(default)]
pub struct PutSpec {
    /// Read files that are there already and compare, instead of trusting size, time and what was
    /// recorded
    #[arg(long)]
    pub checksum: bool,
    /// What to do about symbolic links; they cannot be kept as such [default: follow]
    #[arg(long, value_name = "RULE", value_enum)]
    pub links: Option<PutLinks>,
    /// What is put.
    #[command(flatten)]
    #[serde(flatten)]
    pub filters: FilterSpec,
    /// What is removed.
    #[command(flatten)]
    #[serde(flatten)]
    pub deletion: DeletionSpec,
    /// How servers are asked.
    #[command(flatten)]
    #[serde(flatten)]
    pub requests: PutRequests,
    /// Who decides.
    #[command(flatten)]
    #[serde(flatten)]
    pub control: ControlSpec,
}

/// What to do about symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PutLinks {
    /// Leave links out
    Skip,
    /// Put what they point to, if that lies within the source
    Follow,
}

/// How servers are given files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[command(next_help_heading = "Server")]
pub struct PutRequests {
    /// Bytes of each part of a large file; larger where a file would have more than 10,000
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = |text: &str| PART.size(text))]
    pub part_size: ByteCount,
    /// Memory for parts, from reading to confirmation
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = |text: &str| STAGING.size(text))]
    pub staging: ByteCount,
    /// How long a server may be silent
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = |text: &str| TIMEOUT.time(text))]
    #[serde(with = "time")]
    #[cfg_attr(feature = "schema", schemars(with = "time::WrittenTime"))]
    pub timeout: Duration,
    /// Rate of each reader, such as 80Mbit/s
    #[arg(long, value_name = "RATE", hide_short_help = true)]
    pub limit_read: Option<BitRate>,
    /// Rate of each connection
    #[arg(long, value_name = "RATE", hide_short_help = true)]
    pub limit_network: Option<BitRate>,
    /// Rate of all connections together
    #[arg(long, alias = "limit-link", value_name = "RATE")]
    #[serde(alias = "limit_link")]
    #[cfg_attr(feature = "schema", schemars(extend("x-alias" = "limit_link")))]
    pub limit_rate: Option<BitRate>,
}

impl Default for PutRequests {
    fn default() -> Self {
        Self {
            part_size: ByteCount::mib(8),
            staging: ByteCount::mib(256),
            timeout: Duration::from_secs(60),
            limit_read: None,
            limit_network: None,
            limit_rate: None,
        }
    }
}

impl PutSpec {
    /// Whether what is there is read, whatever its size and time: what is removed at the source was compared before.
    pub const fn compares(&self) -> bool {
        self.checksum || self.deletion.moving
    }

    /// Whether all of it makes sense together.
    pub fn check(&self) -> Result<(), String> {
        self.control.check()?;
        self.deletion.check(&self.filters, false)?;
        PART.check("part_size", self.requests.part_size)?;
        STAGING.check("staging", self.requests.staging)?;
        TIMEOUT.check("timeout", self.requests.timeout)
    }
}

impl PutRequests {
    /// The rates that are kept.
    pub const fn limits(&self) -> Limits {
        Limits { read: self.limit_read, network: self.limit_network, write: None, link: self.limit_rate }
    }
}
