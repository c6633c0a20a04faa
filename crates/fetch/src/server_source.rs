//! Files of others' servers as a source of copies: listed as they are named, read in ranges, each of one version.
//!
//! Nothing is kept of a listed file but a hash of its name: where it lies follows from its path, and which version was
//! listed from its fingerprint, which every answer is held against.

pub(crate) mod chooser;
mod front;
mod line;
mod look;
pub(crate) mod names;
mod place;
mod reader;
pub(crate) mod seen;
mod walk;
mod wanted;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use tidegate_transfer::error::{Error, Result, usage};
use tidegate_transfer::manifest::Kind;
use tidegate_transfer::offer::DirectoryNames;
use tidegate_transfer::selection::Selection;
use tidegate_transfer::store::{Found, Listed, RangeReader, Source};
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::terms::Links;
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::transfer::route::{Setup, SourceOrigin};
use url::Url;

use crate::remote::servers::{ServerSettings, Servers};
use crate::remote::shown;
use front::Fronts;
use line::LinePool;
use look::is_untold;
use names::ListedNames;
use place::ServerPlace;
use reader::{Handed, ServerReader};
use walk::Walk;
use wanted::Wanted;

/// What servers have under these URLs: each a file, or with a slash at its end all that lies beneath.
#[derive(Clone, Debug)]
pub struct ServerOrigin {
    urls: Vec<Url>,
    settings: ServerSettings,
}

impl ServerOrigin {
    /// Nothing is asked yet.
    ///
    /// # Errors
    /// One of them is no URL of a server's file.
    pub fn new(urls: &[String], settings: ServerSettings) -> Result<Self> {
        let urls = urls.iter().map(|url| crate::list::url(url)).collect::<Result<Vec<_>>>()?;
        if urls.len() > usize::from(u16::MAX) {
            return Err(usage("more than 65535 sources in one command"));
        }
        Ok(Self { urls, settings })
    }

    /// A source that offers what `selection` selects, for as many as `most` readers; `interrupt` ends its waiting.
    ///
    /// # Errors
    /// There is nothing, or it asks for what a server cannot tell.
    pub fn select(
        &self,
        selection: &Selection,
        links: Links,
        most: u16,
        interrupt: &Interrupt,
    ) -> Result<ServerSource> {
        refuse_what_listings_lack(selection, links)?;
        let wanted = Arc::new(Wanted::of(selection)?);
        if !wanted.filter().is_whole() {
            let why = "rules that are read from files of each directory need a source with directories: a server's listing has none to read them from, so give the rules by --filter or --exclude-from";
            return Err(usage(why));
        }
        let settings = ServerSettings { interrupt: interrupt.clone(), ..self.settings.clone() };
        let servers = Arc::new(Servers::new(&settings));
        let lines = LinePool::new(servers.clone(), most, settings.retry_for, interrupt.clone());
        let places = self.urls.iter().map(|url| ServerPlace::find(url, &servers, &lines, &wanted));
        let places = places.collect::<Result<Vec<_>>>()?;
        if selection.listed && !matches!(&places[..], [place] if !place.is_file()) {
            return Err(usage("a list of files names what lies in one source, which must be one directory"));
        }
        lines.begin();
        let (lines, fronts) = (Arc::new(lines), Arc::default());
        let selection = selection.clone();
        Ok(ServerSource { lines, fronts, places, selection, wanted, names: None })
    }

    /// Refuses to be what a mirror at `destination` is made of.
    ///
    /// # Errors
    /// A listing may leave out what is there, or a source lies in what is mirrored.
    pub fn check_mirror(&self, destination: &Url) -> Result<()> {
        self.check_listings()?;
        let Some(url) = self.urls.iter().find(|url| lies_beneath(url, destination)) else { return Ok(()) };
        let (from, to) = (shown(url), shown(destination));
        Err(usage(format!("--delete would remove {from}, which lies in {to}: name another destination")))
    }

    fn check_listings(&self) -> Result<()> {
        let Some(url) = self.urls.iter().find(|url| !lists_all(url)) else { return Ok(()) };
        let why = "--delete needs a listing that leaves nothing out, as s3://, gs:// and sftp:// give: a page, FTP or WebDAV may leave out files that are there";
        Err(usage(format!("{}: {why}", shown(url))))
    }

    /// The first of its URLs that `destination` is or lies in, with what would be put there: nothing is copied onto or into
    /// itself.
    pub fn meets(&self, destination: &Url) -> Option<&Url> {
        self.urls.iter().find(|url| meets(url, destination))
    }
}

/// Whether `source` lies in the directory at `destination`, however often slashes are written, and at whatever port.
pub fn lies_beneath(source: &Url, destination: &Url) -> bool {
    let names = |url: &Url| {
        let path = decoded(url);
        let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
        names.map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    let is_bucket = |url: &Url| url.scheme() == "s3";
    let (from, to) = (names(source), names(destination));
    is_bucket(source) == is_bucket(destination)
        && source.host_str() == destination.host_str()
        && from.starts_with(&to)
}

fn server(url: &Url) -> (bool, Option<&str>, Option<u16>) {
    (url.scheme() == "s3", url.host_str(), url.port_or_known_default())
}

fn decoded(url: &Url) -> Vec<u8> {
    percent_decode_str(url.path()).collect()
}

/// Whether what lies at `source` comes to lie where it is, or within, if it is put to `destination`.
fn meets(source: &Url, destination: &Url) -> bool {
    let (from, to) = (decoded(source), decoded(destination));
    let beneath = |path: &[u8]| path.strip_suffix(b"/").unwrap_or(path).to_vec();
    let (within, name) = (beneath(&from), from.rsplit(|&byte| byte == b'/').next().unwrap_or_default());
    let at = [&beneath(&to)[..], b"/", name].concat();
    let lies_within = |path: &[u8]| path.starts_with(&[&within[..], b"/"].concat());
    server(source) == server(destination)
        && (from == to || lies_within(&at) || (!name.is_empty() && at == from))
}

impl SourceOrigin for ServerOrigin {
    fn identity(&self) -> Vec<u8> {
        let urls: Vec<String> = self.urls.iter().map(crate::remote::signed::identity).collect();
        urls.join("\0").into_bytes()
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn Source>> {
        if setup.moving {
            return Err(usage(
                "--move removes files at the source, and a server's files stay there: leave it out",
            ));
        }
        if setup.deletion.is_some() {
            self.check_listings()?;
        }
        let Setup { selection, terms, interrupt, .. } = setup;
        let source = self.select(selection, terms.links, terms.max_workers, interrupt)?;
        Ok(Box::new(source.mirrored(setup.deletion.is_some())))
    }
}

/// Whether a listing of what lies there is whole, or fails: object stores number their pages, and SFTP tells where a directory ends. An index page may be a login's, and
/// FTP servers call a directory empty that they may not read.
fn lists_all(url: &Url) -> bool {
    matches!(url.scheme(), "s3" | "gs" | "sftp")
}

/// Refuses what is asked for that no server's listing can answer.
fn refuse_what_listings_lack(selection: &Selection, links: Links) -> Result<()> {
    if selection.one_file_system {
        let why = "--one-file-system is for directories of a host, and a server tells of no file systems: leave it out";
        return Err(usage(why));
    }
    match links {
        Links::Follow => Err(usage(
            "--links follow is for directories of a host, and a server tells of no links: leave it out",
        )),
        Links::Keep | Links::Skip => Ok(()),
    }
}

/// Files of servers.
pub struct ServerSource {
    lines: Arc<LinePool>,
    /// Files that come in one answer.
    fronts: Arc<Fronts<Handed>>,
    places: Vec<ServerPlace>,
    selection: Selection,
    wanted: Arc<Wanted>,
    /// What was listed, for a mirror.
    names: Option<Mutex<ListedNames>>,
}

impl fmt::Debug for ServerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSource").field("places", &self.places).finish_non_exhaustive()
    }
}

impl ServerSource {
    /// Tells all names, too, if `mirrored`.
    #[must_use]
    pub fn mirrored(self, mirrored: bool) -> Self {
        Self { names: mirrored.then(Mutex::default), ..self }
    }
}

impl Source for ServerSource {
    fn list(&self, found: &mut dyn FnMut(Found) -> bool) -> Result<()> {
        Walk::new(self, found).run();
        Ok(())
    }

    fn names(&self, told: &mut dyn FnMut(DirectoryNames) -> bool) -> Result<()> {
        let roots: Vec<&[u8]> = self.places.iter().filter_map(ServerPlace::prefix).collect();
        ListedNames::tell_of(self.names.as_ref(), &roots, told)
    }

    fn open(&self, file: &Listed, range: Range<u64>) -> Result<Box<dyn RangeReader>> {
        let Kind::File { size, fingerprint } = file.entry.kind else {
            return Err(Error::protocol("only files are read"));
        };
        let url = self.places[usize::from(file.root)].url(&file.entry.path)?;
        let (lines, fronts) = (Arc::clone(&self.lines), Arc::clone(&self.fronts));
        Ok(Box::new(ServerReader::new(lines, fronts, url, size, fingerprint, range)))
    }

    fn is_undivided(&self, file: &Listed) -> bool {
        matches!(&file.entry.kind, Kind::File { fingerprint, .. } if is_untold(fingerprint))
    }

    fn is_single_file(&self) -> bool {
        matches!(&self.places[..], [place] if place.is_file())
    }

    fn most_readers(&self) -> Option<u16> {
        Some(self.lines.room(self.places.iter().map(ServerPlace::base)))
    }

    fn stop(&self) {
        self.lines.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_come_onto_or_into_itself_is_told() {
        let url = |text: &str| Url::parse(text).expect("a URL");
        for (from, to, is) in [
            ("s3://b/x/", "s3://b/x/", true),
            ("s3://b/x/", "s3://b/x", true),
            ("s3://b/x/", "s3://b/x/y/", true),
            ("s3://b/x/", "s3://b/xy/", false),
            ("s3://b/x/", "s3://b/", false),
            ("s3://b/x/", "s3://c/x/", false),
            ("s3://b", "s3://b/copy/", true),
            ("s3://b/", "s3://b", true),
            ("s3://b/x", "s3://b/", true),
            ("s3://b/x", "s3://b/x", true),
            ("s3://b/x", "s3://b/x/", true),
            ("s3://b/x", "s3://b/y", false),
            ("s3://b/x", "s3://b/y/", false),
            ("https://h/a%20b/", "https://h:443/a b/c/", true),
            ("https://h/a/", "https://other/a/", false),
            ("ftp://h/a/", "https://h/a/", false),
        ] {
            assert_eq!(meets(&url(from), &url(to)), is, "{from} {to}");
        }
    }
}
