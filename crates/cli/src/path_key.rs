//! What a path is remembered by: its two ends and what else changes its rate. No secret is part of it: no ticket, no user,
//! no password, and of a URL neither path nor query.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tidegate_contract::home::LOCAL;
use tidegate_contract::text::show;
use tidegate_control::BitRate;
use tidegate_spec::control::Control;
use tidegate_transfer::throttle::Limits;
use tidegate_transfer::wire::ticket::{Address, SCHEME};

/// A path as it is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathKey {
    /// From where: this host's file system, an endpoint, a server.
    pub source: String,
    /// To where.
    pub destination: String,
    /// How, in words: data plane, verification, limits, how many workers.
    pub terms: Vec<String>,
}

impl PathKey {
    /// The path between two ends, moved on these `terms`, within these limits.
    pub fn new(
        source: String,
        destination: String,
        terms: &[&str],
        limits: &Limits,
        control: &Control,
    ) -> Self {
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
        Self { source, destination, terms }
    }
}

/// The file system of this host that a path lies on, or will.
pub fn local(path: &Path) -> Option<String> {
    let typed = std::path::absolute(path).ok()?;
    let mut at = typed.ancestors().find_map(|path| path.canonicalize().ok())?;
    let device = |path: &Path| path.metadata().map(|about| about.dev()).ok();
    let ours = device(&at)?;
    while let Some(above) = at.parent().filter(|above| device(above) == Some(ours)) {
        at = above.to_path_buf();
    }
    Some(format!("{}:{}", LOCAL, show(at.as_os_str().as_bytes())))
}

/// An endpoint of ours, whatever name it was called by.
pub fn endpoint(address: &Address) -> String {
    format!("{SCHEME}{}", address.place())
}

/// A server or a bucket.
#[cfg(feature = "get")]
pub fn server(url: &str) -> Option<String> {
    tidegate_spec::pair::Site::of(url).ok().map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_no_secrets() {
        let secret = "hush";
        for url in [
            "https://me:hush@data.example.org/hush?X-Amz-Signature=hush#hush",
            "ftp://me:hush@data.example.org/hush",
            "s3://hush@data.example.org/hush?versionId=hush",
        ] {
            let key = server(url).expect("a place");
            assert!(key.ends_with("://data.example.org") && !key.contains(secret), "{key}");
        }
        let address = Address::parse(b"tg://dtn.example.org:7000/hush").expect("an address");
        assert_eq!(endpoint(&address), "tg://dtn.example.org:7000");
        assert_eq!(server("no place://"), None);
    }

    #[test]
    fn a_local_end_is_its_file_system() {
        let directory = tempfile::tempdir().expect("a directory");
        let within = local(directory.path());
        assert!(within.as_ref().is_some_and(|place| place.starts_with("local:/")), "{within:?}");
        assert_eq!(local(&directory.path().join("not/yet/there")), within);
        assert_ne!(local(Path::new("/proc/self")), within);
    }
}
