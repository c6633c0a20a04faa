//! How servers of others are asked, where a copy is from or to them: what their refusals advise.

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};
use tidegate_fetch::remote::servers::ServerSettings;
use tidegate_spec::form::{path_option, texts};
use tidegate_spec::options::Options;
use tidegate_transfer::error::Result;

use crate::asked::typed;
use crate::exit::usage;
use crate::google::GoogleArgs;
use crate::header::HeaderLine;
use crate::s3::S3Args;

/// How servers of others are asked.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Servers")]
pub struct ServerAccess {
    /// A header line for each request to a WebDAV server as DST, such as 'Authorization: Bearer …'
    #[arg(long, value_name = "LINE")]
    #[serde(with = "texts")]
    header: Vec<HeaderLine>,
    /// Certificates (PEM) to trust besides the system's
    #[arg(long, value_name = "FILE")]
    #[serde(with = "path_option")]
    ca: Option<PathBuf>,
    #[command(flatten)]
    #[serde(flatten)]
    s3: S3Args,
    #[command(flatten)]
    #[serde(flatten)]
    google: GoogleArgs,
}

impl ServerAccess {
    /// How servers that have the sources are asked; `ca` is trusted where nothing else was said.
    ///
    /// # Errors
    /// Something cannot be read, or is for a destination.
    pub fn settings(&self, ca: Option<PathBuf>) -> Result<ServerSettings> {
        if !self.header.is_empty() {
            return Err(usage("--header is for a WebDAV server as the destination: leave it out"));
        }
        let (s3, gs, ca) = (self.s3.asked()?, self.google.asked()?, self.ca.clone().or(ca));
        Ok(ServerSettings { ca, s3, gs, ..ServerSettings::from_env() })
    }

    /// Refuses what was said of servers where none is named.
    pub fn check_unused(&self) -> Result<()> {
        match Options::of(self).iter().next() {
            None => Ok(()),
            Some((name, _)) => {
                Err(usage(format!("{} is for servers, and no server is named: leave it out", typed(name))))
            }
        }
    }
}
