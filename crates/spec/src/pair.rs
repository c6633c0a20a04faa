//! What a path between two sites is called, whoever remembers it: copies in files, a service in its database. No path of a
//! file and no secret is part of it: no ticket, no user, no password, and of a URL neither path nor query.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tidegate_control::BitRate;
use tidegate_transfer::throttle::Limits;
#[cfg(not(feature = "servers"))]
use tidegate_transfer::wire::ticket::Place;
#[cfg(feature = "servers")]
use url::Url;

#[cfg(feature = "servers")]
use crate::address;
use crate::control::Control;

/// The longest name of a site: what a URL's scheme, host and port take, and some.
const LONGEST: usize = 300;

/// One end of transfers: `tg://host:port`, `gsiftp://host`, `s3://bucket`, `archive://insdc` for accessions, `local` for
/// this host's files, or `local:/mnt` for those of one of its file systems.
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

    /// The file system of the host that asks which is mounted at `place`.
    pub fn file_system(place: &str) -> Self {
        Self(format!("{}:{place}", Self::LOCAL))
    }

    /// The same, where file systems of one host are not told apart.
    #[must_use]
    pub fn of_host(&self) -> Self {
        match is_file_system(&self.0) {
            true => Self(Self::LOCAL.to_owned()),
            false => self.clone(),
        }
    }

    /// The same of hosts that run Tidegate; no other server is spoken to.
    #[cfg(not(feature = "servers"))]
    pub fn of(address: &str) -> Result<Self, SiteError> {
        let Some((scheme, rest)) = address.split_once("://").filter(|(scheme, _)| *scheme != "file") else {
            return Ok(Self(Self::LOCAL.to_owned()));
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
        let wrong = |why: &str| SiteError(format!("{}://…: {why}", scheme.escape_debug()));
        let place: Place = place.parse().map_err(|_| wrong("it names no host and port"))?;
        Self::at(scheme, &place.to_string().to_ascii_lowercase())
    }

    /// The site of a job's URL or path: what has no scheme is local, and the user, the secret and the path
    /// of an address are left out.
    #[cfg(feature = "servers")]
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
        Self::at(url.scheme(), &format!("{}{port}", host.to_ascii_lowercase()))
    }

    /// What is reached by that scheme at `place`, a host and perhaps a port.
    fn at(scheme: &str, place: &str) -> Result<Self, SiteError> {
        let site = format!("{scheme}://{place}");
        match site.len() {
            ..=LONGEST => Ok(Self(site)),
            _ => Err(SiteError(format!("{scheme}://…: its host has more than {LONGEST} bytes"))),
        }
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

    /// Whether it is the sequence archives.
    pub fn is_archive(&self) -> bool {
        self.0.strip_prefix(Self::ARCHIVE).is_some_and(|rest| rest.starts_with("://"))
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

    /// Reads how it is written, or an address.
    fn from_str(text: &str) -> Result<Self, SiteError> {
        if is_file_system(text) { Ok(Self(text.to_owned())) } else { Self::of(text) }
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

/// Whether it is how one of this host's file systems is written.
fn is_file_system(text: &str) -> bool {
    text.strip_prefix(Site::LOCAL).is_some_and(|rest| rest.starts_with(":/"))
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

    /// The same, where file systems of one host are not told apart, as history does not.
    #[must_use]
    pub fn of_hosts(&self) -> Self {
        Self { source: self.source.of_host(), destination: self.destination.of_host() }
    }
}

/// A path as it is remembered by whoever moved over it: between which sites, and what else changes its rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathKey {
    /// Between which sites.
    #[serde(flatten)]
    pub pair: Pair,
    /// How, in words: data plane, verification, limits, how many workers.
    pub terms: Vec<String>,
}

impl PathKey {
    /// The path of `pair`, moved on these `terms`, within these limits.
    pub fn new(pair: Pair, terms: &[&str], limits: &Limits, control: &Control) -> Self {
        let mut terms: Vec<String> = terms.iter().map(|&term| term.to_owned()).collect();
        let limited = [
            ("each reader", limits.read),
            ("each stream", limits.network),
            ("each writer", limits.write),
            ("all streams", limits.link),
        ];
        let word = |(who, rate): (&str, Option<BitRate>)| Some(format!("{who} {} bit/s", rate?.0));
        terms.extend(limited.into_iter().filter_map(word));
        terms.push(format!("at most {} workers", control.local.max_workers));
        terms.extend(control.spec.share.map(|share| format!("share {share}")));
        Self { pair, terms }
    }
}

impl fmt::Display for PathKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.pair, self.terms.join(", "))
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

    #[cfg(feature = "servers")]
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

    #[test]
    fn a_key_is_read_as_it_was_written_and_has_no_secrets() {
        let destination = Site::of("tg://TICKET:hush@DTN.example.org:7000/hush").expect("a site");
        let pair = Pair { source: Site::file_system("/scratch"), destination };
        let key = PathKey { pair, terms: vec!["tls".to_owned()] };
        let text = serde_json::to_string(&key).expect("plain data");
        assert_eq!(
            text,
            r#"{"source":"local:/scratch","destination":"tg://dtn.example.org:7000","terms":["tls"]}"#
        );
        assert_eq!(serde_json::from_str::<PathKey>(&text).ok().as_ref(), Some(&key));
        assert_eq!(key.pair.of_hosts().to_string(), "local → tg://dtn.example.org:7000");
        let over_ssh = Site::of("ssh://me@dtn.example.org:22/hush").map(|site| site.to_string());
        assert_eq!(over_ssh, Ok("ssh://dtn.example.org:22".to_owned()));
    }
}
