//! What programs of ours measure for a service, or ask of servers, as they are told it. Addresses in it may hold secrets.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_contract::object::object;
use tidegate_control::{BitRate, ByteCount};

use crate::control::ControlSpec;
use crate::form::time;
use crate::options::strict;
use crate::plane::PlaneSpec;
use crate::setup::Setup;

/// When a measurement has seen enough.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// As soon as the rate has stopped rising and was seen for so long.
    Steady(#[serde(with = "time")] Duration),
    /// After so much.
    Bytes(ByteCount),
}

/// From memory to memory, between two endpoints, or one and this host.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeRun {
    /// Where data comes from; this host if it is left out.
    #[serde(default)]
    pub source: Option<String>,
    /// Where it goes to; this host if it is left out.
    #[serde(default)]
    pub destination: Option<String>,
    /// When it ends.
    pub until: Until,
    /// The most that it may take.
    #[serde(with = "time")]
    pub longest: Duration,
    /// Who decides.
    #[serde(default, deserialize_with = "strict")]
    pub control: ControlSpec,
    /// How data is moved.
    #[serde(default, deserialize_with = "strict")]
    pub plane: PlaneSpec,
    /// On this host.
    #[serde(default, deserialize_with = "object")]
    pub setup: Setup,
}

/// What comes of files at servers by so many connections, read and thrown away.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RangesRun {
    /// The files, or what contains them.
    pub urls: Vec<String>,
    /// How many connections.
    pub connections: u16,
    /// When it ends.
    pub until: Until,
    /// The most that it may take.
    #[serde(with = "time")]
    pub longest: Duration,
    /// How long each piece is in which the rate is seen.
    #[serde(with = "time")]
    pub piece: Duration,
    /// Rate of each connection.
    #[serde(default)]
    pub limit_network: Option<BitRate>,
    /// Rate of all connections together.
    #[serde(default)]
    pub limit_link: Option<BitRate>,
    /// On this host.
    #[serde(default, deserialize_with = "object")]
    pub setup: Setup,
}

/// How much lies at URLs, as servers say without sending it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeRun {
    /// Where.
    pub urls: Vec<String>,
    /// On this host.
    #[serde(default, deserialize_with = "object")]
    pub setup: Setup,
}

/// A test by iperf3 against an endpoint, or between two.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Iperf3Run {
    /// The endpoint that is asked.
    pub endpoint: String,
    /// How long it may take in all.
    #[serde(with = "time")]
    pub limit: Duration,
    /// Who runs iperf3.
    pub by: Iperf3By,
    /// On this host.
    #[serde(default, deserialize_with = "object")]
    pub setup: Setup,
}

/// Who runs `iperf3 -c`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Iperf3By {
    /// This host, with those arguments of its own beside the server.
    Us(Vec<String>),
    /// The endpoint, against another one.
    Endpoint(Iperf3Between),
}

/// A test between two endpoints.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Iperf3Between {
    /// The other endpoint.
    pub to: String,
    /// From the other endpoint.
    #[serde(default)]
    pub reverse: bool,
    /// Streams at a time.
    pub streams: u16,
    /// How long, or how much.
    pub amount: Iperf3For,
    /// How much of the start is left out before.
    #[serde(default, with = "time::option")]
    pub omit: Option<Duration>,
    /// The buffer of each socket.
    #[serde(default)]
    pub buffer: Option<ByteCount>,
}

/// How long a test is, or how much it moves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Iperf3For {
    /// So long.
    Time(#[serde(with = "time")] Duration),
    /// So much.
    Bytes(ByteCount),
}

// Addresses have tickets and passwords.
tidegate_contract::opaque!(ProbeRun);
tidegate_contract::opaque!(RangesRun);
tidegate_contract::opaque!(SizeRun);
tidegate_contract::opaque!(Iperf3Run);
