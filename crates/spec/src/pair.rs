//! What history is kept by: a source and a destination, without paths and without secrets.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use url::Url;

use crate::address;

/// The longest name of a site: what a URL's scheme, host and port take, and some.
const LONGEST: usize = 300;

/// One end of transfers: `tg://host:port`, `gsiftp://host`, `s3://bucket`, `archive://insdc` for accessions, or `local`
/// for this host's files.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline))]
#[serde(try_from = "String", into = "String")]
pub struct Site(String);

/// Why a text names no site.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SiteError(String);

impl Site {
    /// Files of the host that asks.
    pub const LOCAL: &'static str = tidegate_contract::home::LOCAL;
    /// The scheme of a sequence archive, which is asked by accession: no address has it.
    pub const ARCHIVE: &'static str = "archive";

    /// The site of a job's URL or path: what has no scheme is local, and the user, the secret and the path
    /// of an address are left out.
    pub fn of(address: &str) -> Result<Self, SiteError> {
        if address::accession(address).is_some() {
            return Ok(Self::archive(None));
        }
        let Some((scheme, _)) = address.split_once("://") else {
            return Ok(Self(Self::LOCAL.to_owned()));
        };
        let scheme: String = scheme.chars().take(16).collect();
        let wrong = |why: &dyn fmt::Display| SiteError(format!("{}://…: {why}", scheme.escape_debug()));
        let url = Url::parse(address).map_err(|error| wrong(&error))?;
        if url.scheme() == "file" {
            return Ok(Self(Self::LOCAL.to_owned()));
        }
        let host =
            url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| wrong(&"it names no host"))?;
        let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
        let site = format!("{}://{}{port}", url.scheme(), host.to_ascii_lowercase());
        if site.len() > LONGEST {
            return Err(wrong(&format!("its host has more than {LONGEST} bytes")));
        }
        Ok(Self(site))
    }

    /// The sequence archives: the one that accessions are to come from, as `get --source` has it, or else the
    /// International Nucleotide Sequence Database Collaboration, whose members have the same runs.
    pub fn archive(source: Option<&str>) -> Self {
        let name = source.filter(|name| *name != "auto").unwrap_or("insdc");
        Self(format!("{}://{name}", Self::ARCHIVE))
    }

    /// The host of a server that anybody may fetch from, as by HTTP or FTP, and of who is asked first for an accession.
    pub fn public_server(&self) -> Option<&str> {
        let (scheme, place) = self.0.split_once("://")?;
        match scheme {
            "http" | "https" | "ftp" | "ftps" => {
                let bracket = place.rfind(']').unwrap_or(0);
                let port = place[bracket..].find(':').map_or(place.len(), |colon| bracket + colon);
                Some(&place[..port])
            }
            Self::ARCHIVE => Some(match place {
                "ncbi" => "sra-download.ncbi.nlm.nih.gov",
                "aws" => "sra-pub-run-odp.s3.amazonaws.com",
                _ => "ftp.sra.ebi.ac.uk",
            }),
            _ => None,
        }
    }

    /// How it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Site {
    type Err = SiteError;

    fn from_str(text: &str) -> Result<Self, SiteError> {
        Self::of(text)
    }
}

impl TryFrom<String> for Site {
    type Error = SiteError;

    fn try_from(text: String) -> Result<Self, SiteError> {
        text.parse()
    }
}

impl From<Site> for String {
    fn from(site: Site) -> Self {
        site.0
    }
}

/// Where data comes from and where it goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pair {
    /// Where it comes from.
    pub source: Site,
    /// Where it goes.
    pub destination: Site,
}

impl Pair {
    /// The pair of two URLs or paths.
    ///
    /// ```
    /// use tidegate_spec::pair::Pair;
    ///
    /// let pair = Pair::of("/data/run7", "tg://TICKET@dtn2.example.org:7117/in")?;
    /// assert_eq!(pair.to_string(), "local → tg://dtn2.example.org:7117");
    /// # Ok::<(), tidegate_spec::pair::SiteError>(())
    /// ```
    pub fn of(source: &str, destination: &str) -> Result<Self, SiteError> {
        Ok(Self { source: Site::of(source)?, destination: Site::of(destination)? })
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {}", self.source, self.destination)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_has_no_path_and_no_secret() {
        for (address, site) in [
            ("/data/run 7", "local"),
            ("./a:b", "local"),
            ("file:///data", "local"),
            ("tg://FINGERPRINT:secret@dtn1.example.org:7700/x/y", "tg://dtn1.example.org:7700"),
            ("gsiftp://DTN2.example.org/etc/big", "gsiftp://dtn2.example.org"),
            ("s3://bucket/key?x=1", "s3://bucket"),
            ("srr390728", "archive://insdc"),
            ("./SRR390728", "local"),
            ("https://[2001:db8::1]:8443/f", "https://[2001:db8::1]:8443"),
        ] {
            assert_eq!(Site::of(address).map(|site| site.to_string()), Ok(site.to_owned()), "{address}");
            assert_eq!(site.parse::<Site>().map(|site| site.to_string()), Ok(site.to_owned()));
        }
        for address in ["http://", "tg:///x", "gsiftp://u:secret@host:99999/x"] {
            let error = Site::of(address).expect_err("it names no site");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
