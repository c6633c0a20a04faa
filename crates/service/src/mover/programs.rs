//! The programs that move data.

use std::path::PathBuf;

use tidegate_spec::run::Pki;

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
    /// The site's own PKI, for endpoints.
    pub pki: Option<Pki>,
    /// What certifies servers, besides what the system trusts.
    pub ca: Option<PathBuf>,
}

impl Programs {
    /// `tidegate` at that place, with that state directory, and `globus-url-copy` wherever it is found.
    pub fn new(tidegate: PathBuf, state: PathBuf) -> Self {
        Self { tidegate, globus: "globus-url-copy".into(), state, pki: None, ca: None }
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
