//! A run as a program is told of it on its standard input: what is moved, how, and what only this host's user says.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};
use tidegate_contract::object::object;

use crate::copy::CopySpec;
use crate::form::{word, words};
#[cfg(feature = "servers")]
use crate::get::GetSpec;
use crate::measure::{Iperf3Run, ProbeRun};
#[cfg(feature = "servers")]
use crate::measure::{RangesRun, SizeRun};
use crate::options::strict;
#[cfg(feature = "servers")]
use crate::put::PutSpec;
pub use crate::setup::{Pki, Setup};

/// What `tidegate run` does. Serialised it holds secrets, as addresses do.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Run {
    /// Between hosts that run Tidegate.
    Copy(Box<CopyRun>),
    /// From servers of others.
    #[cfg(feature = "servers")]
    Get(Box<GetRun>),
    /// To servers of others.
    #[cfg(feature = "servers")]
    Put(Box<PutRun>),
    /// A path, from memory to memory.
    Probe(Box<ProbeRun>),
    /// What servers give by so many connections.
    #[cfg(feature = "servers")]
    Ranges(Box<RangesRun>),
    /// How much servers have.
    #[cfg(feature = "servers")]
    Size(Box<SizeRun>),
    /// A path, by iperf3.
    Iperf3(Box<Iperf3Run>),
}

/// A copy.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyRun {
    /// Paths and addresses, all at one place.
    #[serde(with = "words")]
    pub sources: Vec<OsString>,
    /// Where to.
    #[serde(with = "word")]
    pub destination: OsString,
    /// How.
    #[serde(default, deserialize_with = "strict")]
    pub spec: CopySpec,
    /// On this host.
    #[serde(default, deserialize_with = "object")]
    pub setup: Setup,
}

/// A download.
#[cfg(feature = "servers")]
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetRun {
    /// Accessions, and places of which all is got.
    #[serde(default)]
    pub names: Vec<String>,
    /// Files.
    #[serde(default)]
    pub urls: Vec<NamedUrl>,
    /// The directory that they go into.
    #[serde(with = "word")]
    pub outdir: OsString,
    /// Whether what is known of them is written beside them.
    #[serde(default)]
    pub sidecars: bool,
    /// How.
    #[serde(default, deserialize_with = "strict")]
    pub spec: GetSpec,
    /// On this host.
    #[serde(default, deserialize_with = "object")]
    pub setup: Setup,
}

/// A file at a server, and what it is called here; its own name if that is left out.
#[cfg(feature = "servers")]
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedUrl {
    /// Where it is.
    pub url: String,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// An upload.
#[cfg(feature = "servers")]
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutRun {
    /// Files and directories here or at an endpoint, or what servers have.
    #[serde(with = "words")]
    pub sources: Vec<OsString>,
    /// Where to.
    #[serde(with = "word")]
    pub destination: OsString,
    /// How.
    #[serde(default, deserialize_with = "strict")]
    pub spec: PutSpec,
    /// On this host.
    #[serde(default, deserialize_with = "object")]
    pub setup: Setup,
}

/// Without its address, which may hold a password.
#[cfg(feature = "servers")]
impl std::fmt::Debug for NamedUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NamedUrl").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_read_as_it_is_written_and_what_it_does_not_know_is_refused() {
        let text = r#"{"copy": {"sources": ["a", [255, 47]], "destination": "b", "spec": {"limit_link": "8Mbit/s"}, "setup": {"retry_for": 3}}}"#;
        let run: Run = serde_json::from_str(text).expect("a run");
        let again = serde_json::to_string(&run).expect("plain data");
        assert!(serde_json::from_str::<Run>(&again).expect("read") == run, "{again}");
        for (text, wanted) in [
            (r#"{"copy": {"sources": ["a"], "destination": "b", "spec": {"limit_lnk": 1}}}"#, "limit_lnk"),
            (r#"{"copy": {"sources": ["a"], "destination": "b", "setup": {"staet": "/x"}}}"#, "staet"),
            (r#"{"copy": {"sources": ["a"]}}"#, "destination"),
            (r#"{"get": {"outdir": "b", "urls": [{"url": "https://h/x", "out": "y"}]}}"#, "out"),
            (r#"{"move": {}}"#, "move"),
            (r#"{"copy": {"sources": ["a"], "destination": "b", "setup": [true]}}"#, "expected an object"),
            (
                r#"{"copy": {"sources": ["a"], "destination": "b", "setup": {"control": []}}}"#,
                "expected an object",
            ),
            (r#"{"copy": {"sources": ["a"], "destination": "b", "spec": {"seed": 1, "seed": 2}}}"#, "seed"),
        ] {
            let why = serde_json::from_str::<Run>(text).err().expect(text).to_string();
            assert!(why.contains(wanted) && !why.contains('\n'), "{why}");
        }
    }
}
