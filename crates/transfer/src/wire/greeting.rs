//! How two ends find out what they can say to each other: versions of the protocol, and names of what an end can be asked
//! for beyond a plain copy.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::record::tagged;

/// The oldest and the newest protocol version spoken here. A peer offers a range; the highest common one is used.
pub const VERSIONS: (u16, u16) = (1, 1);

/// What both ends name as they begin TLS (ALPN). Who does not is from before version 1.
pub const APPLICATION: &[u8] = b"tidegate";

/// Most names of capabilities that a peer may tell.
const MAX_CAPABILITIES: usize = 256;

/// What an end can be asked for beyond a plain copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// To say what a copy would do.
    Plan,
    /// To remove what the source does not have.
    Delete,
    /// To remove at the source what has arrived.
    Move,
    /// To ask before files get their names, and to share large files with other transfers.
    Lease,
    /// To tell of files without a transfer, and to change them.
    Files,
    /// To make URLs.
    Share,
    /// To measure by iperf3.
    Iperf3,
}

impl Capability {
    /// All that is known here.
    pub const ALL: [Self; 7] =
        [Self::Plan, Self::Delete, Self::Move, Self::Lease, Self::Files, Self::Share, Self::Iperf3];

    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::Lease => "lease",
            Self::Files => "files",
            Self::Share => "share",
            Self::Iperf3 => "iperf3",
        }
    }

    /// What a peer without it does not know, and what helps where nobody updates it.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Plan => ("dry runs", ""),
            Self::Delete => ("--delete", " or leave it out"),
            Self::Move => ("--move", " or leave it out"),
            Self::Lease => ("leases", ""),
            Self::Files => ("how to list and read files without a copy", ""),
            Self::Share => ("how to make a URL", ""),
            Self::Iperf3 => ("iperf3", ", or run `iperf3 -s` there and name it HOST:PORT"),
        }
    }
}

/// What an end can be asked for, by names: those that are not known here are kept and of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities(BTreeSet<String>);

impl Capabilities {
    /// Everything that is known here.
    pub fn ours() -> Self {
        Self(Capability::ALL.iter().map(|capability| capability.name().to_owned()).collect())
    }

    /// The same without one.
    #[must_use]
    pub fn without(mut self, capability: Capability) -> Self {
        self.0.remove(capability.name());
        self
    }

    /// Whether an end can be asked for something.
    pub fn has(&self, capability: Capability) -> bool {
        self.0.contains(capability.name())
    }

    /// Refuses to ask `peer` for what it does not know.
    pub(crate) fn need(&self, capability: Capability, peer: &str) -> Result<()> {
        if self.has(capability) {
            return Ok(());
        }
        let (what, instead) = capability.words();
        Err(Error::protocol(format!("{peer} does not know {what}: update it{instead}")))
    }
}

/// What an end speaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spoken {
    /// The oldest and the newest version.
    pub versions: (u16, u16),
    /// Names of what it can be asked for.
    #[serde(deserialize_with = "at_most::<MAX_CAPABILITIES, _, _>")]
    pub capabilities: Vec<String>,
}

impl Spoken {
    /// What is spoken here.
    pub fn ours() -> Self {
        Self::with(VERSIONS, Capabilities::ours())
    }

    /// These versions and names.
    pub fn with(versions: (u16, u16), capabilities: Capabilities) -> Self {
        Self { versions, capabilities: capabilities.0.into_iter().collect() }
    }

    /// What can be asked for.
    pub fn capabilities(&self) -> Capabilities {
        Capabilities(self.capabilities.iter().cloned().collect())
    }
}

/// How a session begins, inside TLS and before anything else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Oldest and newest version spoken.
    pub versions: (u16, u16),
    /// Names of what this end can be asked for.
    pub capabilities: Vec<String>,
    /// What the ticket allows, as the endpoint wrote it; `None` with mutual TLS.
    pub claims: Option<Vec<u8>>,
    /// Proof of knowing the ticket's secret, bound to this TLS connection.
    pub proof: Digest,
}

tagged!(Hello, "a greeting" {
    1 => versions,
    2 => capabilities: list[MAX_CAPABILITIES],
    3 => claims,
    5 => proof,
});

/// The endpoint lets the peer in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Welcome {
    /// The version to speak.
    pub version: u16,
    /// Names of what the endpoint can be asked for.
    pub capabilities: Vec<String>,
}

tagged!(Welcome, "a welcome" { 1 => version, 2 => capabilities: list[MAX_CAPABILITIES], });

impl Welcome {
    /// A welcome in this version.
    pub fn to(version: u16) -> Self {
        Self { version, capabilities: Spoken::ours().capabilities }
    }
}

/// The highest version within both ranges.
pub(crate) fn common_version(ours: (u16, u16), theirs: (u16, u16)) -> Option<u16> {
    let version = ours.1.min(theirs.1);
    (version >= ours.0.max(theirs.0)).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_common_version_is_used() {
        for (theirs, version) in [
            ((1, 1), Some(1)),
            ((1, 2), Some(2)),
            ((2, 9), Some(2)),
            ((3, 9), None),
            ((0, 0), None),
            ((2, 1), None),
        ] {
            assert_eq!(common_version((1, 2), theirs), version, "{theirs:?}");
        }
    }

    #[test]
    fn what_a_peer_does_not_know_is_said_in_one_line_that_helps() {
        for capability in Capability::ALL {
            let capabilities = Capabilities::ours().without(capability);
            let error = capabilities.need(capability, "the endpoint at h").expect_err("not known");
            assert!(error.message.starts_with("the endpoint at h does not know "), "{error}");
            assert!(error.message.contains(": update it") && !error.message.contains('\n'), "{error}");
            assert!(
                Capability::ALL
                    .iter()
                    .filter(|&&other| other != capability)
                    .all(|&other| capabilities.has(other))
            );
        }
    }
}
