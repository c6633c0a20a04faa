//! What is remembered: samples, estimates, transfers and decisions, as they are written in JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_contract::summary::Status;
use tidegate_control::{BitRate, ByteCount, PerStage};

use tidegate_spec::pair::Pair;

/// A moment, in milliseconds since 1970 in UTC.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[schemars(inline)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The end of the year 9999: nothing that is remembered comes later.
    pub const LAST: Self = Self(253_402_300_799_999);

    /// The clock of this host.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// So long before this moment.
    pub fn before(self, age: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => f.pad(&moment.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()),
            Err(_) => f.pad(&format!("{} ms", self.0)),
        }
    }
}

/// How throughput was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Between Tidegate's endpoints, memory to memory.
    Native,
    /// By iperf3.
    Iperf3,
    /// By `globus-url-copy`.
    Gridftp,
    /// By ranges of a server's files.
    Ranges,
    /// By what earlier transfers reached, with no sample taken.
    Transfers,
}

/// What a rate depends on besides the path: under other conditions it is another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Conditions {
    /// Whether bulk travels unencrypted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub clear: bool,
    /// How content is verified, where it is not as usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<String>,
    /// The buffer of each connection, where one was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_bytes: Option<ByteCount>,
    /// The path MTU that the kernel of this host told then. Records of older versions tell none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu_bytes: Option<ByteCount>,
    /// Rates that were kept to, by the names of their options: `network`, `link`, ….
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits_bps: BTreeMap<String, BitRate>,
    /// Most streams that were allowed, where that is a property of what was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_streams: Option<u16>,
}

/// Our own jobs that ran over the path meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Beside {
    /// Other jobs of the service that ran over the path meanwhile, for a part of the time at least; missing where that is
    /// not known.
    #[serde(rename = "beside_jobs")]
    pub jobs: u32,
    /// What they moved together, over the whole time.
    #[serde(rename = "beside_bps")]
    pub throughput: BitRate,
}

impl Beside {
    /// Whether what was measured is a share of the path.
    pub const fn is_shared(&self) -> bool {
        self.jobs > 0
    }
}

/// How a rate came to be. Records of older versions, and those of others, tell nothing of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Circumstances {
    /// Under which settings it was measured, where they are not as usual, and at which path MTU, where that is known; missing
    /// where nothing is known of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Conditions>,
    /// Who else of ours ran.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
}

/// The throughput of so many streams, measured once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Between which sites.
    #[serde(flatten)]
    pub pair: Pair,
    /// What measured.
    pub method: Method,
    /// Parallel streams.
    pub streams: u32,
    /// What they reached together.
    #[serde(rename = "throughput_bps")]
    pub throughput: BitRate,
    /// Bytes moved for it.
    pub bytes: ByteCount,
    /// Time taken for it.
    #[serde(rename = "duration_ms", with = "milliseconds")]
    #[schemars(with = "u64")]
    pub duration: Duration,
    /// Under what.
    #[serde(flatten)]
    pub circumstances: Circumstances,
    /// When it ended.
    #[serde(rename = "at_ms")]
    pub at: Timestamp,
}

/// A number of streams and what it reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Parallel streams.
    pub streams: u32,
    /// What they reached together.
    #[serde(rename = "throughput_bps")]
    pub throughput: BitRate,
}

/// What an estimate was concluded by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "basis", rename_all = "snake_case")]
pub enum Basis {
    /// A model of throughput, fitted to the samples.
    Model {
        /// Its name.
        model: String,
        /// Its coefficients, in the model's own order.
        coefficients: Vec<f64>,
    },
    /// No model fitted.
    Fallback {
        /// Why, and what was done instead.
        reason: String,
    },
}

/// What a path was expected to do, and with how many streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PastEstimate")]
pub struct Estimate {
    /// Between which sites.
    #[serde(flatten)]
    pub pair: Pair,
    /// What measured the samples.
    pub method: Method,
    /// The chosen number of streams.
    pub streams: u32,
    /// What it is expected to reach.
    #[serde(rename = "throughput_bps")]
    pub throughput: BitRate,
    /// What this was concluded by.
    #[serde(flatten)]
    pub basis: Basis,
    /// What it rests on, in the order of sampling.
    pub samples: Vec<Point>,
    /// Bytes moved to find out.
    pub cost_bytes: ByteCount,
    /// Time taken to find out.
    #[serde(rename = "cost_ms", with = "milliseconds")]
    #[schemars(with = "u64")]
    pub cost: Duration,
    /// Under what.
    #[serde(flatten)]
    pub circumstances: Circumstances,
    /// When it was made.
    #[serde(rename = "at_ms")]
    pub at: Timestamp,
}

/// Where the news of a transfer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A transfer of our own.
    Own,
    /// The log of a GridFTP server.
    GridftpLog,
    /// What `iperf3 -J` printed.
    Iperf3,
}

/// A transfer that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Transfer {
    /// Between which sites.
    #[serde(flatten)]
    pub pair: Pair,
    /// Where the news of it comes from.
    pub origin: Origin,
    /// The job it belonged to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Bytes moved.
    pub bytes: ByteCount,
    /// Files moved.
    pub files: u64,
    /// Workers a stage, averaged over the time, as far as they are known.
    #[serde(default)]
    pub concurrency: PerStage<Option<f64>>,
    /// The rule that decided them, if any did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<String>,
    /// Bytes over the duration.
    #[serde(rename = "goodput_bps")]
    pub goodput: BitRate,
    /// From its start to its end.
    #[serde(rename = "duration_ms", with = "milliseconds")]
    #[schemars(with = "u64")]
    pub duration: Duration,
    /// Segments retransmitted per segment sent, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Smoothed round-trip time.
    #[serde(
        rename = "rtt_us",
        with = "maybe_microseconds",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<u64>")]
    pub rtt: Option<Duration>,
    /// Segments retransmitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// How it ended.
    pub outcome: Status,
    /// Why it ended so, if not well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Under what.
    #[serde(flatten)]
    pub circumstances: Circumstances,
    /// When it ended.
    #[serde(rename = "at_ms")]
    pub at: Timestamp,
}

/// Something that was decided, what was seen before, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// Between which sites.
    #[serde(flatten)]
    pub pair: Pair,
    /// The job it was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// What was seen, as numbers whose names end with their units.
    #[serde(default)]
    pub state: BTreeMap<String, f64>,
    /// What was done.
    pub action: String,
    /// Why.
    pub reason: String,
    /// When.
    #[serde(rename = "at_ms")]
    pub at: Timestamp,
}

/// Anything that is remembered; one line of an export.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs, reason = "each is what it holds")]
pub enum Record {
    Sample(Sample),
    Estimate(Estimate),
    Transfer(Transfer),
    Decision(Decision),
}

macro_rules! into_record {
    ($($kind:ident),*) => {$(
        impl From<$kind> for Record {
            fn from(record: $kind) -> Self {
                Self::$kind(record)
            }
        }
    )*};
}

into_record!(Sample, Estimate, Transfer, Decision);

impl Record {
    /// Between which sites.
    pub fn pair(&self) -> &Pair {
        match self {
            Self::Sample(record) => &record.pair,
            Self::Estimate(record) => &record.pair,
            Self::Transfer(record) => &record.pair,
            Self::Decision(record) => &record.pair,
        }
    }

    /// When.
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Sample(record) => record.at,
            Self::Estimate(record) => record.at,
            Self::Transfer(record) => record.at,
            Self::Decision(record) => record.at,
        }
    }
}

mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

mod maybe_microseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        duration.map(|d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX)).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_micros))
    }
}
