//! What a run is told of the host that it is on.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_contract::object::{object, object_if_any};

use crate::control::ControlLocal;
use crate::form::{path_option, time};

/// What all runs are told of the host they are on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Setup {
    /// One JSON object is printed at the end.
    pub json: bool,
    /// Nothing is shown meanwhile.
    pub quiet: bool,
    /// Where each epoch is written as a line of JSON.
    #[serde(with = "path_option")]
    pub epochs: Option<PathBuf>,
    /// Where state is kept.
    #[serde(with = "path_option")]
    pub state: Option<PathBuf>,
    /// What surrounds the rule.
    #[serde(deserialize_with = "object")]
    pub control: ControlLocal,
    /// How long who is away is waited for; as usual if it is left out.
    #[serde(with = "time::option")]
    pub retry_for: Option<Duration>,
    /// What servers are certified by, besides what the system trusts, in PEM.
    #[serde(with = "path_option")]
    pub ca: Option<PathBuf>,
    /// The site's own certificates for endpoints, in PEM.
    #[serde(deserialize_with = "object_if_any")]
    pub pki: Option<Pki>,
}

/// A site's own certificates: the authority's, ours, and its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pki {
    /// The authority.
    pub ca: PathBuf,
    /// Our chain.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}
