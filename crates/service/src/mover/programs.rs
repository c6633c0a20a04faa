//! The programs that move data.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::job::JobId;

/// The programs that move data, and where they leave what they tell.
#[derive(Clone, Debug)]
pub struct Programs {
    /// Ours.
    pub tidegate: PathBuf,
    /// GridFTP's.
    pub globus: PathBuf,
    /// The state directory of ours; what runs writes into `jobs` in it.
    pub state: PathBuf,
    /// What `tidegate copy` is told of the site's own PKI: `--tls-ca FILE` and the certificate to show.
    pub endpoints: Vec<OsString>,
    /// What `tidegate get` and `put` are told of servers that a private authority certifies: `--ca FILE`.
    pub servers: Vec<OsString>,
}

impl Programs {
    /// `tidegate` at that place, with that state directory, and `globus-url-copy` wherever it is found.
    pub fn new(tidegate: PathBuf, state: PathBuf) -> Self {
        let (endpoints, servers) = (Vec::new(), Vec::new());
        Self { tidegate, globus: "globus-url-copy".into(), state, endpoints, servers }
    }

    /// Where the epochs of a job's latest attempt are, one JSON line each; those of older jobs are gone.
    pub fn epochs(&self, id: JobId) -> PathBuf {
        self.directory().join(format!("{id}.jsonl"))
    }

    /// Where they leave what they tell.
    pub(super) fn directory(&self) -> PathBuf {
        self.state.join("jobs")
    }
}
