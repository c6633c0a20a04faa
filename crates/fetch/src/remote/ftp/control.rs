//! A control connection: opened, logged in, and what is asked on it.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use rustix::net::sockopt;
use rustls::ClientConfig;
use rustls::client::Resumption;
use suppaftp::types::FileType;
use suppaftp::{
    FtpError, FtpResult, Mode, RustlsConnector, RustlsFtpStream, Status, TlsConnector, TransferStream,
};
use tidegate_transfer::congestion::{CongestionName, give};
use tidegate_transfer::error::{Error, is_no_such_name};
use tidegate_transfer::manifest::Timestamp;
use tidegate_transfer::text;
use url::Url;

use super::listing::FtpEntry;
use crate::foreign::io_again;
use crate::remote::login::Login;
use crate::remote::settings::ServerSettings;
use crate::remote::tls::{Tls, words};
use crate::remote::{Refusal, Version, Why, shown};

/// How often an idle control connection is probed, so that a router on the way does not forget it while data
/// flows on another.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// A TLS connection as the library makes it.
type TlsStream = <RustlsConnector as TlsConnector>::Stream;
/// The data connection of a file that is being sent.
pub type Transfer = TransferStream<TlsStream>;

/// Where FTP servers listen.
const PORT: u16 = 21;

/// Longest wait for one address of a host that has several.
const ONE_OF_SEVERAL: Duration = Duration::from_secs(5);

/// Longest wait for a data connection, which comes from a host that answers.
const DATA_CONNECT: Duration = Duration::from_secs(15);

/// Longest wait for an answer that a file can do without: some servers end none that has no text.
const BRIEF: Duration = Duration::from_secs(10);

/// TLS sessions remembered for one control connection.
const SESSIONS: usize = 8;

/// What tells one control connection from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    host: String,
    port: u16,
    login: Option<Login>,
    security: Security,
}

/// When TLS begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Security {
    None,
    /// After `AUTH TLS` (RFC 4217).
    Explicit,
    /// At once.
    Implicit,
}

impl Silence {
    /// What is known by either.
    pub const fn with(self, other: Self) -> Self {
        Self {
            size: self.size || other.size,
            times: self.times || other.times,
            extended: self.extended || other.extended,
        }
    }
}

impl Key {
    /// Which server it is.
    pub fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// What `url` needs. `ftps` begins with `AUTH TLS`, but for the port of implicit TLS.
    pub fn of(url: &Url, login: Option<Login>, implicit_port: u16) -> Result<Self, Refusal> {
        let Some(host) = url.host_str().filter(|host| !host.is_empty()) else {
            return Err(Refusal::new(Why::Senseless, format!("{}: it names no host", shown(url))));
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = url.port().unwrap_or(PORT);
        let security = match url.scheme() {
            "ftps" if port == implicit_port => Security::Implicit,
            "ftps" => Security::Explicit,
            _ => Security::None,
        };
        Ok(Self { host, port, login, security })
    }
}

/// What a server does not answer, as far as it is known, so that it is not asked again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Silence {
    /// `SIZE`.
    size: bool,
    /// `MDTM`.
    times: bool,
    /// `EPSV`.
    extended: bool,
}

/// Why something did not work.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The server, or its silence.
    Server(FtpError),
    /// There is no such host.
    NoHost,
    /// Our own settings.
    Ours(Error),
}

impl From<FtpError> for Trouble {
    fn from(error: FtpError) -> Self {
        Self::Server(error)
    }
}

impl Trouble {
    /// Whether nothing was said, or what was said did not end.
    fn is_silence(error: &FtpError) -> bool {
        matches!(error, FtpError::ConnectionError(error)
            if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock))
    }

    fn connection(error: io::Error) -> Self {
        Self::Server(FtpError::ConnectionError(error))
    }

    /// The code of a reply and its text.
    fn reply(&self) -> Option<(u16, String)> {
        let Self::Server(FtpError::UnexpectedResponse(response)) = self else { return None };
        let said = String::from_utf8_lossy(&response.body);
        let code = said.get(..3)?.parse().ok()?;
        let first = said.lines().next().unwrap_or_default().get(4..).unwrap_or_default();
        Some((code, first.trim().chars().take(200).collect()))
    }

    /// Whether the control connection is of no more use: it is gone, or we are out of step with it.
    pub(crate) fn loses_connection(&self) -> bool {
        match self {
            Self::Server(FtpError::UnexpectedResponse(_)) => {
                !matches!(self.reply(), Some((code, _)) if code != 421 && (400..600).contains(&code))
            }
            _ => true,
        }
    }

    pub fn why(&self) -> Why {
        match self.reply() {
            Some((421, _)) => return Why::Busy,
            // Some servers say so instead of 421.
            Some((530, text)) if mentions(&text, &["maximum", "too many", "limit"]) => return Why::Busy,
            Some((430 | 530 | 532 | 534, _)) => return Why::Denied,
            Some((550, text)) if mentions(&text, &["permission", "denied", "not allowed"]) => {
                return Why::Denied;
            }
            Some((550 | 553, _)) => return Why::Missing,
            Some((100..=499, _)) => return Why::Broken,
            Some(_) => return Why::Senseless,
            None => {}
        }
        match self {
            Self::NoHost => Why::Missing,
            Self::Ours(_) => Why::Denied,
            Self::Server(error) if is_distrust(error) => Why::Denied,
            Self::Server(FtpError::BadResponse | FtpError::InvalidAddress(_)) => Why::Senseless,
            Self::Server(FtpError::ConnectionError(_)) => Why::Unreachable,
            Self::Server(_) => Why::Broken,
        }
    }

    pub(crate) fn is_about_login(&self) -> bool {
        matches!(self.reply(), Some((430 | 530 | 532, _))) && self.why() == Why::Denied
    }

    /// What the operating system said, if that is what it failed over.
    pub(crate) fn system_error(&self) -> Option<io::Error> {
        match self {
            Self::Server(FtpError::ConnectionError(error)) => Some(io_again(error)),
            _ => None,
        }
    }

    /// For people, without the URL.
    pub fn message(&self, host: &str) -> String {
        text::foreign(&self.words(host))
    }

    fn words(&self, host: &str) -> String {
        if let Some((code, text)) = self.reply() {
            return format!("the server says {code} {text}");
        }
        match self {
            Self::NoHost => format!("there is no host {host}"),
            Self::Ours(error) => error.message.clone(),
            Self::Server(error) if let Some(error) = tls_error(error) => words::of(host, error),
            Self::Server(FtpError::ConnectionError(error)) => match error.kind() {
                io::ErrorKind::ConnectionRefused => format!("{host} takes no connections"),
                io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                    format!("{host} does not answer in time, or does not end its answer")
                }
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::ConnectionAborted => {
                    format!("{host} closed the connection without an answer")
                }
                _ => format!("no connection to {host}: {error}"),
            },
            Self::Server(error) => format!("{host} does not answer as FTP servers do: {error}"),
        }
    }
}

fn mentions(text: &str, words: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    words.iter().any(|word| text.contains(word))
}

/// What TLS failed over, if it did; the library passes rustls' error on inside of others.
fn tls_error(error: &FtpError) -> Option<&rustls::Error> {
    let FtpError::ConnectionError(error) = error else { return None };
    error.get_ref()?.downcast_ref()
}

/// Whether TLS failed over the server's certificate.
fn is_distrust(error: &FtpError) -> bool {
    matches!(tls_error(error), Some(rustls::Error::InvalidCertificate(_)))
}

/// Puts TLS on sockets that do not wait for ever.
struct Patient {
    tls: RustlsConnector,
    timeout: Duration,
}

tidegate_contract::opaque!(Patient);

impl TlsConnector for Patient {
    type Stream = TlsStream;

    fn connect(&self, domain: &str, stream: TcpStream) -> FtpResult<TlsStream> {
        prepare(&stream, self.timeout, None).map_err(FtpError::ConnectionError)?;
        self.tls.connect(domain, stream)
    }
}

fn prepare(stream: &TcpStream, timeout: Duration, congestion: Option<&CongestionName>) -> io::Result<()> {
    if let Some(name) = congestion {
        give(stream, name);
    }
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    Ok(sockopt::set_tcp_keepidle(stream, KEEP_ALIVE)?)
}

/// A control connection that is logged in and sends files as they are.
pub(crate) struct Control {
    key: Key,
    ftp: RustlsFtpStream,
    has_size: bool,
    has_times: bool,
    /// Whether data connections are asked for by EPSV.
    extended: bool,
    /// Whether that has worked here.
    is_proven: bool,
    /// The last data connection could not be made.
    unmade: Arc<AtomicBool>,
    /// Whether it knows `REST`, if it was asked.
    restart: Option<bool>,
    /// Whether it knows `MLSD`, as far as it was asked.
    has_facts: bool,
    /// Where a login begins, if that was asked.
    home: Option<String>,
    is_ipv4: bool,
    timeout: Duration,
    silence: Silence,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Control {
    /// Connects and logs in; what the server is known not to answer is not asked.
    pub fn connect(
        key: Key,
        silence: Silence,
        settings: &ServerSettings,
        tls: &Tls,
    ) -> Result<Self, Trouble> {
        let timeout = settings.timeout;
        let patient = || {
            let shared = tls.client().map_err(Trouble::Ours)?;
            // A data connection must resume its own control connection's session (vsftpd's
            // `require_ssl_reuse`), and tickets kept for all would hand it another worker's.
            let mut config = ClientConfig::clone(&shared);
            config.resumption = Resumption::in_memory_sessions(SESSIONS);
            Ok::<_, Trouble>(Patient { tls: RustlsConnector::from(Arc::new(config)), timeout })
        };
        let congestion = settings.congestion.clone();
        let (address, stream) = reach(&key.host, key.port, timeout, congestion.as_ref())?;
        let ftp = match key.security {
            Security::None => RustlsFtpStream::connect_with_stream(stream)?,
            Security::Explicit => {
                RustlsFtpStream::connect_with_stream(stream)?.into_secure(patient()?, &key.host)?
            }
            Security::Implicit => {
                // The library wants to connect by itself here.
                drop(stream);
                let mut ftp = RustlsFtpStream::connect_secure_implicit(address, patient()?, &key.host)?;
                // Else files would come in clear.
                ftp.custom_command("PBSZ 0", &[Status::CommandOk])?;
                ftp.custom_command("PROT P", &[Status::CommandOk])?;
                ftp
            }
        };
        let unmade = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&unmade);
        let mut ftp = ftp.passive_stream_builder(move |wanted| {
            // Whatever host the answer to PASV names: behind a NAT it is often a wrong one.
            let mut there = address;
            there.set_port(wanted.port());
            let connect = || {
                let stream = TcpStream::connect_timeout(&there, timeout.min(DATA_CONNECT))?;
                prepare(&stream, timeout, congestion.as_ref())?;
                Ok(stream)
            };
            let connected = connect();
            told.store(connected.is_err(), Relaxed);
            connected.map_err(FtpError::ConnectionError)
        });
        if settings.ftp_active {
            ftp = ftp.active_mode(timeout);
        } else {
            ftp.set_mode(if silence.extended { Mode::Passive } else { Mode::ExtendedPassive });
        }
        let anonymous = Login { user: "anonymous".to_owned(), password: "anonymous@".to_owned() };
        let login = key.login.as_ref().unwrap_or(&anonymous);
        ftp.login(&login.user, &login.password)?;
        ftp.transfer_type(FileType::Binary)?;
        Ok(Self {
            key,
            ftp,
            has_size: !silence.size,
            has_times: !silence.times,
            extended: !settings.ftp_active && !silence.extended,
            is_proven: false,
            unmade,
            restart: None,
            has_facts: true,
            home: None,
            is_ipv4: address.is_ipv4(),
            timeout,
            silence,
        })
    }

    /// What it is for.
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// What the server did not answer so far.
    pub const fn silence(&self) -> Silence {
        self.silence
    }

    /// Asks what a file can do without; the second says whether there was no answer.
    fn briefly<T>(&mut self, ask: impl FnOnce(&mut RustlsFtpStream) -> FtpResult<T>) -> (FtpResult<T>, bool) {
        let wait = |ftp: &RustlsFtpStream, time| ftp.get_ref().set_read_timeout(Some(time));
        let answer = match wait(&self.ftp, self.timeout.min(BRIEF)) {
            Ok(()) => ask(&mut self.ftp),
            Err(error) => Err(FtpError::ConnectionError(error)),
        };
        let is_silent = answer.as_ref().is_err_and(Trouble::is_silence);
        // Where it fails the connection is of no more use.
        let waits = wait(&self.ftp, self.timeout).map_err(FtpError::ConnectionError);
        (answer.and_then(|answer| waits.map(|()| answer)), is_silent)
    }

    /// What the server says of the file at `path`.
    pub fn version(&mut self, path: &str) -> Result<Version, Trouble> {
        let bytes = match self.has_size.then(|| self.briefly(|ftp| ftp.size(path))) {
            Some((Ok(size), _)) => Some(size as u64),
            Some((Err(error), is_silent)) => {
                self.silence.size = is_silent;
                self.has_size = tolerated(error)?;
                None
            }
            None => None,
        };
        let modified = match self.has_times.then(|| self.briefly(|ftp| ftp.mdtm(path))) {
            Some((Ok(time), _)) => Some(Timestamp { seconds: time.and_utc().timestamp(), nanoseconds: 0 }),
            Some((Err(error), is_silent)) => {
                self.silence.times = is_silent;
                self.has_times = tolerated(error)?;
                None
            }
            None => None,
        };
        Ok(Version { bytes, modified, ranges: true, ..Version::default() })
    }

    /// Begins to get the file at `path` from byte `start`; where the server knows no `REST`, from 0, which
    /// is then returned in its place.
    pub fn retrieve(&mut self, path: &str, start: u64) -> Result<(Transfer, u64), Trouble> {
        let start = if start > 0 && !self.has_restart()? { 0 } else { start };
        if self.extended && self.is_ipv4 && !self.is_proven {
            self.answers_epsv()?;
        }
        let mut first = None;
        loop {
            let offset = usize::try_from(start).map_err(|_| FtpError::BadResponse)?;
            self.ftp.resume_transfer(offset)?;
            let trouble = match self.ftp.retr_as_stream(path) {
                Ok(stream) => {
                    self.is_proven = true;
                    return Ok((stream, start));
                }
                Err(error) => Trouble::from(error),
            };
            if self.extended && self.is_ipv4 && !self.is_proven && self.may_be_epsv(&trouble) {
                self.extend(false);
                first = Some(trouble);
                continue;
            }
            let Some(first) = first else { return Err(trouble) };
            // It was something else: the next file is asked for as this one was.
            self.extend(true);
            let is_about_file = matches!(first.reply(), Some((425 | 550, _)));
            return Err(if is_about_file { first } else { trouble });
        }
    }

    /// What is in the directory at `path`. It is gone to for that, as servers take some characters of a path that they are
    /// to list for patterns or options.
    pub fn list(&mut self, path: &str) -> Result<Vec<FtpEntry>, Trouble> {
        let home = match &self.home {
            Some(home) => home.clone(),
            None => self.home.insert(self.ftp.pwd()?).clone(),
        };
        let absolute = match path {
            "" => home.clone(),
            path if path.starts_with('/') => path.to_owned(),
            path => format!("{}/{path}", home.trim_end_matches('/')),
        };
        self.ftp.cwd(absolute)?;
        let mut lines = self.lines();
        if self.extended
            && self.is_ipv4
            && !self.is_proven
            && lines.as_ref().is_err_and(|t| self.may_be_epsv(t))
        {
            self.extend(false);
            lines = self.lines();
        }
        // Files are asked for from where a login begins.
        self.ftp.cwd(home)?;
        let facts = self.has_facts;
        Ok(lines?.iter().filter_map(|line| FtpEntry::read(line, facts)).collect())
    }

    /// The listing of the directory where it is: as facts, if the server knows those.
    fn lines(&mut self) -> Result<Vec<String>, Trouble> {
        if self.has_facts {
            match self.ftp.mlsd(None).map_err(Trouble::from) {
                Err(trouble) if matches!(trouble.reply(), Some((500..=504, _))) => self.has_facts = false,
                listed => return listed.inspect(|_| self.is_proven = true),
            }
        }
        let listed = self.ftp.list(None)?;
        self.is_proven = true;
        Ok(listed)
    }

    /// Asks for a data connection that is not used, and fails if there is no answer: else RETR would be waited for in vain.
    fn answers_epsv(&mut self) -> Result<(), Trouble> {
        let (asked, is_silent) =
            self.briefly(|ftp| ftp.custom_command("EPSV", &[Status::ExtendedPassiveMode]));
        self.silence.extended = is_silent;
        match asked {
            Err(error) if is_silent => Err(error.into()),
            // What else is wrong shows again.
            _ => Ok(()),
        }
    }

    /// Whether something failed that PASV may do where EPSV did not: it was refused, in whatever words, its answer
    /// makes no sense, or nobody listens at its port. The transfer may be refused in the same words.
    fn may_be_epsv(&self, trouble: &Trouble) -> bool {
        if self.unmade.swap(false, Relaxed) {
            return true;
        }
        match trouble.reply() {
            // 229 is EPSV's own, whose port could not be read.
            Some((code, _)) => matches!(code, 229 | 425 | 500..=504 | 522 | 550),
            None => matches!(trouble, Trouble::Server(FtpError::BadResponse | FtpError::InvalidAddress(_))),
        }
    }

    fn extend(&mut self, extended: bool) {
        self.extended = extended;
        self.ftp.set_mode(if extended { Mode::ExtendedPassive } else { Mode::Passive });
    }

    /// Whether a transfer can begin in the middle of a file.
    fn has_restart(&mut self) -> Result<bool, Trouble> {
        if self.restart.is_none() {
            // Zero, in case the server remembers it for another transfer.
            let asked = self.ftp.custom_command("REST 0", &[Status::RequestFilePending]);
            self.restart = Some(match asked {
                Ok(_) => true,
                Err(error) => {
                    let trouble = Trouble::from(error);
                    if trouble.loses_connection() {
                        return Err(trouble);
                    }
                    false
                }
            });
        }
        Ok(self.restart == Some(true))
    }
}

/// Whether the server knows the command but has no answer for this file; the transfer says more.
fn tolerated(error: FtpError) -> Result<bool, Trouble> {
    let trouble = Trouble::from(error);
    match trouble.reply() {
        Some((421, _)) => Err(trouble),
        Some((500 | 502, _)) => Ok(false),
        Some((400..=599, _)) => Ok(true),
        _ => Err(trouble),
    }
}

/// Connects to the first address of `host` that takes us.
fn reach(
    host: &str,
    port: u16,
    timeout: Duration,
    congestion: Option<&CongestionName>,
) -> Result<(SocketAddr, TcpStream), Trouble> {
    let addresses: Vec<SocketAddr> = match (host, port).to_socket_addrs() {
        Ok(found) => found.collect(),
        Err(error) if is_no_such_name(&error) => Vec::new(),
        Err(error) => return Err(Trouble::connection(error)),
    };
    // One of several gets less time: many machines have an IPv6 address and no way out by it.
    let each = if addresses.len() > 1 { timeout.min(ONE_OF_SEVERAL) } else { timeout };
    let mut last = Trouble::NoHost;
    for address in addresses {
        let connect = || {
            let stream = TcpStream::connect_timeout(&address, each)?;
            prepare(&stream, timeout, congestion)?;
            Ok(stream)
        };
        match connect() {
            Ok(stream) => return Ok((address, stream)),
            Err(error) => last = Trouble::connection(error),
        }
    }
    Err(last)
}
