//! What is said of fleets over HTTP, by whoever lists, by movers, and by the service.

use std::borrow::Cow;

use data_encoding::BASE64;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use tidegate_contract::job_id::JobId;
use tidegate_contract::object::object_if_any;
use tidegate_spec::copy::CopySpec;
use tidegate_spec::options::Options;
#[cfg(feature = "movers")]
use tidegate_transfer::error::{Result, usage};

use crate::shards::{Ending, Extent, FleetError, FleetResult, PoolEndpoint, ShardContent, ShardLease};

/// Most endpoints of a pool.
pub const MAX_ENDPOINTS: usize = 256;

/// The options of a copy in JSON: those that there are, or, of one that was taken, what was said of them.
struct CopyOptions;

impl JsonSchema for CopyOptions {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "CopyOptions".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        match generator.contract().is_serialize() {
            true => json_schema!({"type": "object"}),
            false => generator.subschema_for::<CopySpec>(),
        }
    }
}

/// What is to be moved by many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpreadRequest {
    /// The sources.
    pub sources: Vec<String>,
    /// Where to.
    pub destination: String,
    /// Options of the copies, by their names.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    #[schemars(with = "CopyOptions")]
    pub options: Options,
    /// Network streams of all movers together, if there is a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub streams: Option<u16>,
    /// The pool that addresses of the form `NAME:/path` mean.
    #[serde(default, deserialize_with = "object_if_any", skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolWords>,
}

/// Endpoints that serve one tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Pool")]
#[serde(deny_unknown_fields)]
pub struct PoolWords {
    /// What it is called in addresses.
    pub name: String,
    /// Its endpoints.
    #[schemars(length(min = 1, max = MAX_ENDPOINTS))]
    pub endpoints: Vec<EndpointWords>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolEndpoint")]
#[serde(deny_unknown_fields)]
pub struct EndpointWords {
    /// What people call it.
    pub name: String,
    /// Where the tree is there; it may hold a ticket.
    pub address: String,
    /// Its part of the leases beside the others'.
    #[schemars(range(min = 1))]
    pub weight: u32,
}

impl PoolWords {
    /// The path in the pool that `address` means, if it means one.
    pub fn path<'a>(&self, address: &'a str) -> Option<&'a str> {
        let path = address.strip_prefix(&self.name[..])?.strip_prefix(':')?;
        Some(path.strip_prefix('/').unwrap_or(path))
    }

    /// What is kept of its endpoints to give out leases.
    pub fn kept(&self) -> Vec<PoolEndpoint> {
        let kept = |words: &EndpointWords| PoolEndpoint { name: words.name.clone(), weight: words.weight };
        self.endpoints.iter().map(kept).collect()
    }
}

#[cfg(feature = "movers")]
impl SpreadRequest {
    /// Whether what arrives is verified by several who do not tell one another: endpoints of a pool, or movers that write
    /// into a file system themselves.
    pub(crate) fn is_verified_apart(&self) -> bool {
        let to_pool = self.pool.as_ref().is_some_and(|pool| pool.path(&self.destination).is_some());
        to_pool || self.destination.starts_with('/')
    }

    /// One of its addresses as it is by way of the pool's endpoint of that number; one that means no pool as it is.
    pub(crate) fn by_way_of<'a>(&self, address: &'a str, endpoint: u16) -> Result<Cow<'a, str>> {
        let in_pool = self.pool.as_ref().and_then(|pool| Some((pool, pool.path(address)?)));
        let Some((pool, path)) = in_pool else { return Ok(Cow::Borrowed(address)) };
        match pool.endpoints.get(usize::from(endpoint)) {
            Some(words) => Ok(format!("{}/{path}", words.address.trim_end_matches('/')).into()),
            None => {
                let why = format!("the pool {} has no endpoint of number {endpoint}", pool.name);
                Err(usage(why))
            }
        }
    }
}

/// A run that has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpreadBegun {
    /// The job.
    pub id: JobId,
    /// What its movers show; it is told once.
    pub token: String,
}

/// Some of what was listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Listed")]
#[serde(deny_unknown_fields)]
pub struct ListedShards {
    /// Shards.
    #[serde(default)]
    pub shards: Vec<ShardWords>,
    /// Files that nobody can move: names in base64, kinds and reasons.
    #[serde(default)]
    pub failed: Vec<(String, String, String)>,
    /// Whether nothing more comes.
    #[serde(default)]
    pub all: bool,
}

/// A shard, its names in base64 as they need not be text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Shard")]
pub struct ShardWords {
    /// Its key; nothing while it is listed.
    #[serde(default)]
    pub id: u64,
    /// Which of the sources it is of.
    pub source: u32,
    /// How many files.
    pub files: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Names relative to the source, a NUL byte behind each, in base64.
    pub names: String,
    /// Where the range of the one file begins and ends that the shard is, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<(u64, u64)>,
    /// Whether it completes the one file, all ranges of which have been moved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub completes: bool,
}

impl ShardWords {
    /// Of `content`.
    pub fn of(id: u64, content: &ShardContent) -> Self {
        let ShardContent { source, files, bytes, names, extent } = content;
        let range = match extent {
            Extent::Range(range) => Some((range.start, range.end)),
            Extent::Whole | Extent::Completion => None,
        };
        let (names, completes) = (BASE64.encode(names), *extent == Extent::Completion);
        Self { id, source: *source, files: *files, bytes: *bytes, names, range, completes }
    }

    /// What it says.
    pub fn content(&self) -> FleetResult<ShardContent> {
        let names = bytes(&self.names)?;
        let extent = match (self.range, self.completes) {
            (Some((start, end)), _) => Extent::Range(start..end),
            (None, true) => Extent::Completion,
            (None, false) => Extent::Whole,
        };
        Ok(ShardContent { source: self.source, files: self.files, bytes: self.bytes, names, extent })
    }
}

/// A mover asks for work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    /// What it calls itself.
    pub mover: String,
    /// Its version, which is that of the service.
    pub version: String,
    /// The host it runs on.
    #[serde(default)]
    pub host: String,
    /// The numbers of the pool's endpoints that it is not to be given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<u16>,
}

/// What it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Claim")]
#[serde(rename_all = "snake_case", tag = "answer")]
pub enum ClaimAnswer {
    /// Do this.
    Lease {
        /// The lease's number.
        lease: u64,
        /// How long it holds from before it was asked for, in ms.
        term_ms: u64,
        /// What to move.
        work: SpreadRequest,
        /// Which of it.
        shards: Vec<ShardWords>,
        /// No more network streams than these, for now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        streams: Option<u16>,
        /// By way of the pool's endpoint of that number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        endpoint: Option<u16>,
    },
    /// Ask again later.
    Wait,
    /// There is nothing any more.
    Drained,
}

impl ClaimAnswer {
    /// A lease, with no more streams than `grant` says of all those of the run.
    pub fn of(lease: &ShardLease, term_ms: u64, grant: impl Fn(u16) -> u16) -> FleetResult<Self> {
        let work: SpreadRequest =
            serde_json::from_str(&lease.work).map_err(|error| FleetError::Refused(error.to_string()))?;
        let streams = work.streams.map(grant);
        let shards = lease.shards.iter().map(|(id, content)| ShardWords::of(*id, content)).collect();
        Ok(Self::Lease { lease: lease.token, term_ms, work, shards, streams, endpoint: lease.endpoint })
    }
}

/// A mover keeps its lease, and says what it sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    /// The lease.
    pub lease: u64,
    /// Network streams.
    #[serde(default)]
    pub streams: u16,
    /// What they bring.
    #[serde(default)]
    pub throughput_bps: u64,
    /// Bytes that have arrived under it.
    #[serde(default)]
    pub bytes: u64,
}

/// It is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Renewed {
    /// How long it holds from before that was asked, in ms.
    pub term_ms: u64,
    /// No more network streams than these from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u16>,
}

/// A mover ends its lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishRequest {
    /// The lease.
    pub lease: u64,
    /// What became of its shards; one that is not named was not begun.
    pub shards: Vec<EndingWords>,
}

/// What became of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ShardEnd")]
pub struct EndingWords {
    /// Its key.
    pub id: u64,
    /// Names in base64, kinds and reasons of what failed.
    #[serde(default)]
    pub failed: Vec<(String, String, String)>,
}

impl EndingWords {
    /// What they say.
    pub fn ending(&self) -> FleetResult<Ending> {
        Ok(Ending { shard: self.id, kept: false, failed: failures(&self.failed)? })
    }
}

/// What failed, as it is said.
pub fn failures(said: &[(String, String, String)]) -> FleetResult<Vec<(Vec<u8>, String, String)>> {
    said.iter().map(|(name, kind, why)| Ok((bytes(name)?, kind.clone(), why.clone()))).collect()
}

/// A name that need not be text, as it is said.
pub fn encoded(name: &[u8]) -> String {
    BASE64.encode(name)
}

fn bytes(text: &str) -> FleetResult<Vec<u8>> {
    BASE64.decode(text.as_bytes()).map_err(|error| FleetError::Refused(format!("names are base64: {error}")))
}
