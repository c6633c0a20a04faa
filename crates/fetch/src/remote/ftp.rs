//! Files on FTP servers, in clear (`ftp`) and with TLS (`ftps`).
//!
//! FTP has one control connection and a data connection for each file. The control connection of a host is
//! kept warm. A part of a file begins by `REST` and ends by closing the data connection early. A version is
//! what `SIZE` and `MDTM` say, asked before every part. Data connections are made to the host of the
//! control connection only, whatever address the server names, so that no server makes us talk to a third.

mod control;
mod listing;

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use tidegate_transfer::error::ErrorKind;
use url::Url;

use self::control::{Control, Key, Silence, Transfer, Trouble};
use self::listing::FtpEntry;
use super::index::{Link, Lists};
use super::login::{Login, Logins, decoded_bytes};
use super::settings::ServerSettings;
use super::tls::Tls;
use super::{Ask, Opened, Refusal, Remote, Version, Why, shown};

/// What stays as it is of a name in a URL.
const IN_NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Silent servers that are remembered.
const SILENT: usize = 1024;

/// Control connections kept for different hosts.
const IDLE: usize = 4;

/// What all workers' FTP shares.
#[derive(Debug)]
pub(crate) struct FtpContext {
    settings: ServerSettings,
    tls: Arc<Tls>,
    logins: Arc<Logins>,
    /// What servers did not answer.
    silent: Mutex<HashMap<String, Silence>>,
}

impl FtpContext {
    /// With these settings, trust and logins.
    pub fn new(settings: &ServerSettings, tls: &Arc<Tls>, logins: &Arc<Logins>) -> Self {
        let silent = Mutex::default();
        Self { settings: settings.clone(), tls: Arc::clone(tls), logins: Arc::clone(logins), silent }
    }

    fn silence(&self, key: &Key) -> Silence {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.get(&key.place()).copied().unwrap_or_default()
    }

    /// Whether `control` has found its server to be silent where it was not known to be.
    fn learns(&self, control: &Control) -> bool {
        let (place, silence) = (control.key().place(), control.silence());
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        let known = silent.get(&place).copied().unwrap_or_default();
        if known.with(silence) == known {
            return false;
        }
        if silent.len() >= SILENT {
            silent.clear();
        }
        silent.insert(place, known.with(silence));
        true
    }
}

/// One worker's way to FTP servers: one control connection a host.
#[derive(Debug)]
pub(crate) struct Ftp {
    shared: Arc<FtpContext>,
    /// The one used last comes last.
    controls: Vec<Control>,
}

impl Ftp {
    /// Without a connection yet.
    pub const fn new(shared: Arc<FtpContext>) -> Self {
        Self { shared, controls: Vec::new() }
    }

    /// Does `work` on the control connection for `url`. One that was kept may have been closed by the server
    /// in the meantime, or may have an answer left over from a part that was cut short; then the work is done
    /// once more on a new one.
    fn with<T>(
        &mut self,
        url: &Url,
        work: impl Fn(&mut Control) -> Result<T, Trouble>,
    ) -> Result<T, Refusal> {
        let login = Login::in_url(url).or_else(|| self.shared.logins.of(url).cloned());
        let key = Key::of(url, login, self.shared.settings.ftps_implicit_port)?;
        if let Some(at) = self.controls.iter().position(|control| control.key() == &key) {
            let mut kept = self.controls.remove(at);
            match work(&mut kept) {
                Ok(done) => {
                    self.keep(kept);
                    return Ok(done);
                }
                Err(trouble) if trouble.loses_connection() => drop(self.shared.learns(&kept)),
                Err(trouble) => {
                    self.keep(kept);
                    return Err(refusal(url, &trouble));
                }
            }
        }
        loop {
            let silence = self.shared.silence(&key);
            let connected = Control::connect(key.clone(), silence, &self.shared.settings, &self.shared.tls);
            let mut control = connected.map_err(|trouble| refusal(url, &trouble))?;
            let done = work(&mut control);
            match done {
                // It can do without, and is asked no more; each is learned once.
                Err(trouble) if trouble.loses_connection() && self.shared.learns(&control) => {
                    tracing::debug!("{}; trying without", refusal(url, &trouble).error);
                }
                Err(trouble) if trouble.loses_connection() => return Err(refusal(url, &trouble)),
                done => {
                    self.keep(control);
                    return done.map_err(|trouble| refusal(url, &trouble));
                }
            }
        }
    }

    fn keep(&mut self, control: Control) {
        if self.controls.len() >= IDLE {
            self.controls.remove(0);
        }
        self.controls.push(control);
    }
}

impl Remote for Ftp {
    fn open(&mut self, ask: &Ask<'_>) -> Result<Opened, Refusal> {
        let path = path_of(ask.url)?;
        enum Found {
            FtpBody(Transfer, u64, Version),
            Empty(Version),
            Refused(Refusal),
        }
        let found = self.with(ask.url, |control| {
            let version = control.version(&path)?;
            if let Some(refusal) = ask.unfit(&version) {
                return Ok(Found::Refused(refusal));
            }
            if version.bytes == Some(0) {
                return Ok(Found::Empty(version));
            }
            let (stream, start) = control.retrieve(&path, ask.range.start)?;
            Ok(Found::FtpBody(stream, start, version))
        })?;
        match found {
            Found::Refused(refusal) => Err(refusal),
            Found::Empty(version) => Ok(Opened { version, range: 0..0, body: Box::new(io::empty()) }),
            Found::FtpBody(stream, start, mut version) => {
                let size = version.bytes.unwrap_or(u64::MAX);
                // Without REST all of it comes.
                // So it does where nobody knows how much that is: parts of it would have no end.
                let is_sized = version.bytes.or(ask.version.and_then(|version| version.bytes)).is_some();
                version.ranges = start == ask.range.start && (is_sized || start > 0);
                let range = if version.ranges { start..ask.range.end.min(size) } else { 0..size };
                let body = FtpBody {
                    stream: Some(stream),
                    left: (range.end != u64::MAX).then(|| range.end - range.start),
                    to_the_end: range.end == size,
                };
                Ok(Opened { version, range, body: Box::new(body) })
            }
        }
    }

    fn look(&mut self, ask: &Ask<'_>) -> Result<Version, Refusal> {
        let path = path_of(ask.url)?;
        let version = self.with(ask.url, |control| {
            let version = control.version(&path)?;
            if version.bytes.is_none() && version.modified.is_none() {
                // Neither is known; whether the file is there, only the transfer tells.
                drop(control.retrieve(&path, 0)?);
            }
            Ok(version)
        })?;
        let anything = Ask { range: 0..u64::MAX, ..ask.clone() };
        anything.unfit(&version).map_or(Ok(version), Err)
    }
}

impl Lists for Ftp {
    fn list(&mut self, url: &Url, _start: &Url) -> Result<Vec<Link>, Refusal> {
        let path = directory_of(url)?;
        let entries = self.with(url, |control| control.list(&path))?;
        let link = |entry: FtpEntry| {
            let slash = if entry.is_directory { "/" } else { "" };
            let encoded = percent_encode(entry.name.as_bytes(), IN_NAME);
            let url = url.join(&format!("{encoded}{slash}")).ok()?;
            Some(Link {
                url,
                name: entry.name.into_bytes(),
                is_directory: entry.is_directory,
                left_out: None,
                bytes: None,
                modified: None,
            })
        };
        Ok(entries.into_iter().filter_map(link).collect())
    }
}

/// The path of a URL as the server takes it: relative to where a login begins (RFC 1738, section 3.2.2), so
/// an absolute one begins with `%2F`.
fn path_of(url: &Url) -> Result<String, Refusal> {
    let path = url.path();
    let path = match path.rsplit_once(";type=") {
        Some((front, kind)) if kind.len() == 1 => front,
        _ => path,
    };
    let path = decoded(url, path)?;
    if path.is_empty() || path.ends_with('/') {
        return Err(refuse(url, "this is no file"));
    }
    Ok(path)
}

/// The path of a URL as that of a directory: empty for the one where a login begins, else without a slash at its end.
fn directory_of(url: &Url) -> Result<String, Refusal> {
    let path = decoded(url, url.path())?;
    match path.trim_end_matches('/') {
        "" if path.starts_with('/') => Ok("/".to_owned()),
        path => Ok(path.to_owned()),
    }
}

fn decoded(url: &Url, path: &str) -> Result<String, Refusal> {
    let path = decoded_bytes(path.strip_prefix('/').unwrap_or(path));
    let path = String::from_utf8(path).map_err(|_| refuse(url, "its path is no UTF-8"))?;
    match path.contains(['\r', '\n', '\0']) {
        true => Err(refuse(url, "its path has a line break, which FTP cannot say")),
        false => Ok(path),
    }
}

fn refuse(url: &Url, what: &str) -> Refusal {
    Refusal::new(Why::Senseless, format!("{}: {what}", shown(url)))
}

fn refusal(url: &Url, trouble: &Trouble) -> Refusal {
    let what = format!("{}: {}", shown(url), trouble.message(url.host_str().unwrap_or_default()));
    let mut refusal = Refusal::new(trouble.why(), what);
    if trouble.is_about_login() {
        refusal.error.kind = ErrorKind::Authentication;
    }
    if let Some(cause) = trouble.system_error() {
        refusal.error = refusal.error.because(cause);
    }
    refusal
}

/// The bytes of a data connection, exactly as many as were promised.
struct FtpBody {
    stream: Option<Transfer>,
    /// What has still to come; `None` if nobody knows.
    left: Option<u64>,
    /// Whether the end of what was promised is the end of the file.
    to_the_end: bool,
}

impl FtpBody {
    /// All that was promised is here.
    fn end(&mut self) -> io::Result<()> {
        let Some(mut stream) = self.stream.take() else { return Ok(()) };
        // More bytes than the size that was told are another version of the file.
        let more = self.to_the_end && matches!(stream.read(&mut [0]), Ok(1..));
        // The answer says that the transfer was complete, or that it was cut short, which it was.
        let _ = stream.finish();
        if more {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the server sent more than it promised"));
        }
        Ok(())
    }

    /// The data connection ended, and nobody knew where it should.
    fn unknown_end(&mut self) -> io::Result<usize> {
        match self.stream.take().map(Transfer::finish) {
            None | Some(Ok(())) => Ok(0),
            Some(Err(_)) => {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server broke the transfer off"))
            }
        }
    }
}

impl Read for FtpBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(stream) = &mut self.stream else { return Ok(0) };
        if buffer.is_empty() {
            return Ok(0);
        }
        let most = self
            .left
            .map_or(buffer.len(), |left| buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
        let count = match stream.read(&mut buffer[..most]) {
            Ok(count) => count,
            Err(error) => {
                self.stream = None;
                return Err(match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => io::Error::new(
                        io::ErrorKind::TimedOut,
                        "the server fell silent in the middle of a transfer",
                    ),
                    _ => io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the data connection was lost in the middle of a transfer",
                    ),
                });
            }
        };
        match &mut self.left {
            Some(left) if count == 0 => {
                let mut what = format!("the transfer ended {left} bytes before its end");
                if let Some(Err(said)) = self.stream.take().map(Transfer::finish) {
                    what = format!("{what}: {}", Trouble::from(said).message("the server"));
                }
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, what))
            }
            Some(left) => {
                *left -= count as u64;
                if *left == 0 {
                    self.end()?;
                }
                Ok(count)
            }
            None if count == 0 => self.unknown_end(),
            None => Ok(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(url: &str) -> Option<String> {
        path_of(&Url::parse(url).expect("a URL")).ok()
    }

    #[test]
    fn a_path_is_relative_to_the_login() {
        assert_eq!(path("ftp://host/a/b%20c").as_deref(), Some("a/b c"));
        assert_eq!(path("ftp://host/%2Fetc/motd;type=i").as_deref(), Some("/etc/motd"));
        assert_eq!(path("ftps://host/a;type=x").as_deref(), Some("a"));
        assert_eq!(path("ftp://host/a;b").as_deref(), Some("a;b"));
        for bad in
            ["ftp://host", "ftp://host/", "ftp://host/a/", "ftp://host/a%0D%0ADELE%20b", "ftp://host/%ff"]
        {
            assert_eq!(path(bad), None, "{bad}");
        }
    }
}
