//! How data is moved between hosts that run Tidegate.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use tidegate_control::{BitRate, ByteCount};
use tidegate_transfer::terms::{Compare, DataPlane, Links, Purpose, Terms, Verify};
use tidegate_transfer::throttle::Limits;

use crate::form::time;
use crate::range::Range;

/// Memory between stages.
pub const STAGING: Range<ByteCount> =
    Range::new(ByteCount::mib(1), ByteCount::gib(64), "must be from 1MiB to 64GiB");
/// Bytes given to one worker at a time.
pub(crate) const CHUNK: Range<ByteCount> =
    Range::new(ByteCount::mib(1), ByteCount::gib(1 << 20), "must be from 1MiB to 1024TiB");
const STALL: Range<Duration> =
    Range::new(Duration::from_secs(1), Duration::from_secs(24 * 3600), "must be from 1s to 24h");
/// How long a connection is made again.
pub const RETRY: Range<Duration> =
    Range::new(Duration::ZERO, Duration::from_secs(30 * 86_400), "must be from 0s to 30d");

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    /// As it should be.
    On,
    /// For comparison.
    Off,
}

/// Rates, pieces and memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[command(next_help_heading = "Transfer")]
pub struct PlaneSpec {
    /// How the bulk travels
    #[arg(long, value_name = "PLANE", value_enum, default_value_t)]
    pub data_plane: DataPlane,
    /// How content is checked
    #[arg(long, value_name = "CHECK", value_enum, default_value_t)]
    pub verify: Verify,
    /// Rate of each reader, such as 80Mbit/s
    #[arg(long, value_name = "RATE")]
    pub limit_read: Option<BitRate>,
    /// Rate of each network stream
    #[arg(long, value_name = "RATE")]
    pub limit_network: Option<BitRate>,
    /// Rate of each writer
    #[arg(long, value_name = "RATE")]
    pub limit_write: Option<BitRate>,
    /// Rate of all streams together
    #[arg(long, value_name = "RATE")]
    pub limit_link: Option<BitRate>,
    /// Memory for blocks between the stages, at each end
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = |text: &str| STAGING.size(text))]
    pub staging: ByteCount,
    /// Bytes of a large file given to one worker at a time
    #[arg(long, hide_short_help = true, value_name = "SIZE", default_value = "64MiB", value_parser = |text: &str| CHUNK.size(text))]
    pub chunk_size: ByteCount,
    /// Whether large files are moved in parallel pieces, or each by one stream that reads it, too
    #[arg(long, value_name = "SWITCH", value_enum, default_value_t = Switch::On, hide_short_help = true)]
    pub chunking: Switch,
    /// Whether a connection serves file after file, or one file each, which it reads itself
    #[arg(long, value_name = "SWITCH", value_enum, default_value_t = Switch::On, hide_short_help = true)]
    pub pipelining: Switch,
}

/// How long who is away is waited for, which a service says of its jobs in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Args)]
#[serde(default)]
#[command(next_help_heading = "Transfer")]
pub struct Patience {
    /// How long a connection that was lost is made again, since the transfer last got on; one that was never made is
    /// given up after 30s at most
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = |text: &str| RETRY.time(text))]
    #[serde(with = "time")]
    pub retry_for: Duration,
}

/// When a stream stands still.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Stalls {
    /// How long a data stream may deliver nothing before it is replaced, and everything stand still before that is
    /// said
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = |text: &str| STALL.time(text), hide_short_help = true)]
    #[serde(with = "time")]
    #[cfg_attr(feature = "schema", schemars(with = "time::WrittenTime"))]
    pub stall_timeout: Duration,
}

/// The rule for symbolic links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LinkSpec {
    /// What to do about symbolic links
    #[arg(long, value_name = "RULE", value_enum, default_value_t)]
    pub links: Links,
}

impl Default for PlaneSpec {
    fn default() -> Self {
        Self {
            data_plane: DataPlane::default(),
            verify: Verify::default(),
            limit_read: None,
            limit_network: None,
            limit_write: None,
            limit_link: None,
            staging: ByteCount::mib(16),
            chunk_size: ByteCount::mib(64),
            chunking: Switch::On,
            pipelining: Switch::On,
        }
    }
}

/// What the slowest server may take to answer.
const LEAST_SILENCE: Duration = Duration::from_secs(10);

impl Default for Patience {
    fn default() -> Self {
        Self { retry_for: Duration::from_secs(3600) }
    }
}

impl Default for Stalls {
    fn default() -> Self {
        Self { stall_timeout: Duration::from_secs(30) }
    }
}

impl Patience {
    /// How long a server may be silent that may be so for `usual`: who says nothing is away as well, and is not waited for
    /// longer.
    pub fn silence(&self, usual: Duration) -> Duration {
        usual.min(self.retry_for.max(LEAST_SILENCE))
    }

    /// Whether each value lies where the command line has it.
    pub fn check(&self) -> Result<(), String> {
        RETRY.check("retry_for", self.retry_for)
    }
}

impl Stalls {
    /// Whether each value lies where the command line has it.
    pub fn check(&self) -> Result<(), String> {
        STALL.check("stall_timeout", self.stall_timeout)
    }
}

impl PlaneSpec {
    /// Whether each value lies where the command line has it.
    pub fn check(&self) -> Result<(), String> {
        STAGING.check("staging", self.staging)?;
        CHUNK.check("chunk_size", self.chunk_size)
    }

    /// The rates that are kept.
    pub const fn limits(&self) -> Limits {
        Limits {
            read: self.limit_read,
            network: self.limit_network,
            write: self.limit_write,
            link: self.limit_link,
        }
    }

    /// What both ends agree on.
    pub fn terms(&self, max_workers: u16) -> Terms {
        Terms {
            data_plane: self.data_plane,
            verify: self.verify,
            compare: Compare::Recorded,
            purpose: Purpose::Copy,
            links: Links::Keep,
            chunk: (self.chunking == Switch::On).then_some(self.chunk_size),
            pipelining: self.pipelining == Switch::On,
            limits: self.limits(),
            staging: self.staging,
            max_workers,
            ..Terms::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_waited_for_may_not_be_silent_for_long() {
        let seconds = Duration::from_secs;
        let silence = |retry_for, usual| Patience { retry_for: seconds(retry_for) }.silence(seconds(usual));
        assert_eq!(silence(3600, 60), seconds(60));
        assert_eq!(silence(30, 60), seconds(30));
        assert_eq!(silence(0, 60), seconds(10));
        assert_eq!(silence(0, 5), seconds(5));
    }
}
