//! Which server `gs://` means, for the commands that get from there.

use clap::Args;
use serde::{Deserialize, Serialize};
use tidegate_fetch::remote::gs_settings::GsSettings;
use tidegate_transfer::error::Result;

/// How Google's storage is asked.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Google Cloud Storage")]
pub struct GoogleArgs {
    /// The server of gs:// [default: $STORAGE_EMULATOR_HOST, or `https://storage.googleapis.com`]
    #[arg(long, value_name = "URL", hide_short_help = true)]
    gs_endpoint: Option<String>,
    /// A project of yours that pays for requests to buckets of Google's whose owners charge for them; none otherwise
    #[arg(long, value_name = "PROJECT")]
    billing_project: Option<String>,
}

impl GoogleArgs {
    /// What the environment says, and what was asked for instead, unless nothing was: then it is read when it is needed.
    pub fn asked(&self) -> Result<Option<GsSettings>> {
        if self.gs_endpoint.is_none() && self.billing_project.is_none() {
            return Ok(None);
        }
        let found =
            GsSettings::from_environment(&|name| std::env::var(name).ok(), self.gs_endpoint.as_deref())?;
        Ok(Some(GsSettings { project: self.billing_project.clone(), ..found }))
    }
}
