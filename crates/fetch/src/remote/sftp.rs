//! Files at hosts that have a server of SFTP, which is reached by the user's own ssh.
//!
//! A version is a size and a time in whole seconds, of the open file: asked for before its first byte is believed, and behind
//! the last one again.

pub(crate) mod attributes;
mod body;
mod line;
mod packet;
pub(crate) mod path;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod session;
pub(crate) mod trouble;

use std::io;
use std::sync::Arc;

use url::Url;

use self::attributes::{Attributes, FileKind};
use self::body::{Pieces, SftpBody};
use self::path::{path_of, url_within, within};
use self::reply::{Name, SftpReply, Status};
use self::request::{Opening, Request};
use self::session::Session;
use self::trouble::SftpTrouble;
use super::index::{Link, Lists};
use super::{Ask, Opened, Refusal, Remote, Version, Why, shown};

pub(crate) use self::line::{SftpContext, SftpLine};

/// How many requests for a part of a directory are under way at a time: each brings a hundred names.
const LISTED_AHEAD: usize = 8;

/// How many links are followed at a time.
const FOLLOWED_AHEAD: usize = 64;

/// One worker's way to such hosts.
#[derive(Debug)]
pub(crate) struct Sftp {
    line: SftpLine,
}

impl Sftp {
    /// Without a session yet.
    pub fn new(context: Arc<SftpContext>) -> Self {
        Self { line: SftpLine::new(context) }
    }

    /// Opens a file, and asks for its first bytes before it is known what it is.
    fn begin(&self, ask: &Ask<'_>, path: &[u8]) -> Result<(Pieces, Attributes), SftpTrouble> {
        loop {
            let mut taken = self.line.take(ask.url)?;
            let is_old = taken.is_old;
            let opening = Request::Open(path, Opening::Read, Attributes::default());
            let handle = match taken.session.handle(&opening) {
                Ok(handle) => handle,
                Err(trouble) if !trouble.loses_session() => {
                    taken.give_back();
                    return Err(trouble);
                }
                // It was kept, and ended meanwhile.
                Err(trouble) if is_old && !matches!(trouble, SftpTrouble::Silent(_)) => continue,
                Err(trouble) => return Err(trouble),
            };
            let known = ask.version.and_then(|version| version.bytes);
            let first = ask.range.start..ask.range.end.min(known.unwrap_or(ask.range.start + 1));
            let mut pieces = Pieces::new(taken, handle, &first);
            pieces.ask_attributes()?;
            pieces.ask_ahead()?;
            let attributes = pieces.attributes()?;
            return Ok((pieces, attributes));
        }
    }
}

impl Remote for Sftp {
    fn open(&mut self, ask: &Ask<'_>) -> Result<Opened, Refusal> {
        let path = path_in(ask.url)?;
        let began = self.begin(ask, &path);
        let (mut pieces, attributes) = began.map_err(|trouble| trouble.refusal("read", ask.url))?;
        let version = match fit(ask, &attributes) {
            Ok(version) => version,
            Err(refusal) => {
                pieces.close();
                return Err(refusal);
            }
        };
        let size = version.bytes.unwrap_or(0);
        if size == 0 {
            pieces.close();
            return Ok(Opened { version, range: 0..0, body: Box::new(io::empty()) });
        }
        let range = ask.range.start..ask.range.end.min(size);
        pieces.ends_at(range.end);
        let body = SftpBody::new(pieces, &range, attributes);
        Ok(Opened { version, range, body: Box::new(body) })
    }

    fn look(&mut self, ask: &Ask<'_>) -> Result<Version, Refusal> {
        let path = path_in(ask.url)?;
        let seen = self.line.with(ask.url, |session| session.attributes(&Request::Stat(&path)));
        let seen = seen.map_err(|trouble| trouble.refusal("look at", ask.url))?;
        let anything = Ask { range: 0..u64::MAX, ..ask.clone() };
        fit(&anything, &seen)
    }
}

/// The version that is there, if it is a file and the one that is asked for.
fn fit(ask: &Ask<'_>, attributes: &Attributes) -> Result<Version, Refusal> {
    let refuse = |what: &str| Err(Refusal::new(Why::Senseless, format!("{}: {what}", shown(ask.url))));
    match attributes.kind() {
        FileKind::Regular => {}
        FileKind::Untold if attributes.size.is_some() => {}
        FileKind::Directory => return refuse("this is a directory"),
        _ => return refuse("this is no regular file"),
    }
    let version = attributes.version();
    match ask.unfit(&version) {
        Some(refusal) => Err(refusal),
        None if version.bytes.is_none() => refuse("its server does not tell how long it is"),
        None => Ok(version),
    }
}

fn path_in(url: &Url) -> Result<Vec<u8>, Refusal> {
    path_of(url).map_err(|error| Refusal::of(Why::Senseless, error))
}

impl Lists for Sftp {
    fn list(&mut self, url: &Url, _: &Url) -> Result<Vec<Link>, Refusal> {
        let path = path_in(url)?;
        let listed = self.line.with(url, |session| {
            let mut names = names(session, &path)?;
            let led = follow(session, &path, &mut names)?;
            Ok((names, led))
        });
        let (names, led) = listed.map_err(|trouble| trouble.refusal("list", url))?;
        let link = |(Name { name, attributes }, is_link): (Name, bool)| {
            let (is_directory, left_out) = match attributes.kind() {
                FileKind::Regular | FileKind::Untold => (false, None),
                FileKind::Directory if is_link => {
                    (false, Some("a link to a directory, which is not followed"))
                }
                FileKind::Directory => (true, None),
                FileKind::Link => (false, Some("a link that leads nowhere")),
                FileKind::Other => (false, Some("a device, a pipe or a socket")),
            };
            let url = url_within(url, &name, is_directory)?;
            let (bytes, modified) = match attributes.kind() {
                FileKind::Regular => (attributes.size, attributes.time()),
                _ => (None, None),
            };
            Some(Link { url, name, is_directory, left_out, bytes, modified })
        };
        Ok(names.into_iter().zip(led).filter_map(link).collect())
    }

    fn tells_of_empty(&self) -> bool {
        true
    }
}

/// What is in the directory at `path`, but for itself and what it lies in.
fn names(session: &mut Session, path: &[u8]) -> Result<Vec<Name>, SftpTrouble> {
    let handle = session.handle(&Request::OpenDirectory(path))?;
    let mut names = Vec::new();
    let read = || -> Result<(), SftpTrouble> {
        loop {
            for reply in session.all(&[Request::ReadDirectory(&handle); LISTED_AHEAD])? {
                let Some(some) = reply.names()? else { return Ok(()) };
                names.extend(some.into_iter().filter(|entry| !matches!(&entry.name[..], b"." | b"..")));
            }
        }
    };
    let read = { read }();
    session.close(&handle)?;
    read.map(|()| names)
}

/// Has links be what they lead to, if that is there; answers with which of the names were links.
fn follow(session: &mut Session, path: &[u8], names: &mut [Name]) -> Result<Vec<bool>, SftpTrouble> {
    let are_links: Vec<bool> = names
        .iter()
        .map(|name| matches!(name.attributes.kind(), FileKind::Link | FileKind::Untold))
        .collect();
    let links: Vec<usize> = (0..names.len()).filter(|&at| are_links[at]).collect();
    for some in links.chunks(FOLLOWED_AHEAD) {
        let paths: Vec<Vec<u8>> = some.iter().map(|&at| within(path, &names[at].name)).collect();
        let asked: Vec<Request<'_>> = paths.iter().map(|path| Request::Stat(path)).collect();
        for (&at, reply) in some.iter().zip(session.all(&asked)?) {
            match reply {
                SftpReply::Attributes(attributes) => names[at].attributes = attributes,
                // It stays a link that leads nowhere.
                SftpReply::Status(Status {
                    code: Status::NO_SUCH_FILE | Status::DENIED | Status::FAILURE,
                    ..
                }) => {}
                other => drop(other.attributes()?),
            }
        }
    }
    Ok(are_links)
}
