//! Which servers `s3://` means, for the commands that get from there and put there.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use tidegate_fetch::remote::s3_settings::{S3Settings, Style, endpoint};
use tidegate_transfer::error::Result;

/// How S3-compatible stores are found.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "S3")]
pub struct S3Args {
    /// The S3 server, such as http://127.0.0.1:9000 [default: $AWS_ENDPOINT_URL_S3,
    /// $AWS_ENDPOINT_URL, the profile's, or AWS]
    #[arg(long, value_name = "URL")]
    s3_endpoint: Option<String>,
    /// The region of S3 [default: $AWS_REGION, the profile's, or us-east-1]
    #[arg(long, value_name = "NAME")]
    s3_region: Option<String>,
    /// Where the bucket stands in URLs [default: in the host's name for AWS, in the path for others]
    #[arg(long, value_name = "STYLE", value_enum, hide_short_help = true)]
    s3_style: Option<S3Style>,
    /// Send requests unsigned, whatever keys there are
    #[arg(long, hide_short_help = true)]
    s3_anonymous: bool,
    /// Agree to pay for requests to buckets of S3 whose owners charge for them; never agreed to otherwise
    #[arg(long, alias = "s3-requester-pays")]
    #[serde(alias = "s3_requester_pays")]
    requester_pays: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum S3Style {
    /// `https://host/bucket/key`
    Path,
    /// `https://bucket.host/key`
    Virtual,
}

impl S3Args {
    /// What the environment says, and what was asked for instead.
    pub fn settings(&self) -> Result<S3Settings> {
        // Without keys only the place is asked for; no profile is read.
        let wanted = |name: &str| !self.s3_anonymous || name.contains("ENDPOINT") || name.contains("REGION");
        let variable = |name: &str| std::env::var(name).ok().filter(|_| wanted(name));
        let mut s3 = S3Settings::from_environment(&variable)?;
        if let Some(text) = &self.s3_endpoint {
            s3.endpoint = Some(endpoint(text)?);
        }
        s3.region = self.s3_region.clone().or(s3.region);
        s3.style = match self.s3_style {
            Some(S3Style::Path) => Some(Style::Path),
            Some(S3Style::Virtual) => Some(Style::Virtual),
            None => s3.style,
        };
        s3.requester_pays = self.requester_pays;
        Ok(s3)
    }

    /// The same, unless nothing was asked for: then the environment is read when it is needed.
    pub fn asked(&self) -> Result<Option<S3Settings>> {
        let nothing = self.s3_endpoint.is_none()
            && self.s3_region.is_none()
            && self.s3_style.is_none()
            && !self.s3_anonymous
            && !self.requester_pays;
        if nothing { Ok(None) } else { self.settings().map(Some) }
    }
}
