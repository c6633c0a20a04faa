//! The connections below HTTP: TCP, a tunnel through a proxy, TLS, and two things we want to know of them.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use tidegate_transfer::congestion::CongestionName;
use tidegate_transfer::error::{Error as Refused, ErrorKind};
use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectProxyConnector, ConnectionDetails, Connector, LazyBuffers, NextTimeout, TcpConnector,
    Transport, TransportAdapter,
};

use super::early::EarlyAnswers;
use super::named::NamedConnector;
use crate::remote::reach::reachable_first;
use crate::remote::tls::Tls;

/// How many connections one agent has opened so far.
pub(crate) type ConnectionCount = Arc<AtomicU64>;

/// What makes connections for an agent and counts them in `opened`.
pub(crate) fn connector(
    tls: &Arc<Tls>,
    congestion: Option<CongestionName>,
    opened: &ConnectionCount,
) -> impl Connector<Out = impl Transport> {
    ().chain(ConnectProxyConnector::default())
        .chain(NamedConnector(congestion))
        .chain(TcpConnector::default())
        .chain(Secure(Arc::clone(tls)))
        .chain(Watched::new(opened))
}

/// Puts TLS on a connection that needs it, with settings that all workers share.
#[derive(Debug)]
struct Secure(Arc<Tls>);

impl<In: Transport> Connector<In> for Secure {
    type Out = Box<dyn Transport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        let Some(below) = chained else { return Ok(None) };
        if !details.needs_tls() || below.is_tls() {
            return Ok(Some(Box::new(below)));
        }
        let host = details.uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let name =
            ServerName::try_from(host.to_owned()).map_err(|_| Error::Tls("its host has no valid name"))?;
        let settings = self.0.client().map_err(|error| Error::Other(error.into()))?;
        let mut tls = ClientConnection::new(settings, name).map_err(Error::Rustls)?;
        let mut socket =
            TransportAdapter::new(Box::new(below) as Box<dyn Transport>, details.current_time.clone());
        socket.set_timeout(details.timeout);
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        let buffers =
            LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Box::new(SecureTransport { buffers, stream: StreamOwned::new(tls, socket) })))
    }
}

struct SecureTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

tidegate_contract::opaque!(SecureTransport);

impl Transport for SecureTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.sock.set_timeout(timeout);
        let output = &self.buffers.output()[..amount];
        io::Write::write_all(&mut self.stream, output)?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.sock.set_timeout(timeout);
        let amount = io::Read::read(&mut self.stream, self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

/// Counts connections, and tells a connection that was cut from one that was closed in order: a body
/// without a stated length ends with the connection, so a cut must not look like its end.
#[derive(Debug)]
pub(crate) struct Watched(ConnectionCount);

impl Watched {
    /// Counts in `opened`.
    pub fn new(opened: &ConnectionCount) -> Self {
        Self(Arc::clone(opened))
    }
}

impl<In: Transport> Connector<In> for Watched {
    type Out = Strict<In>;

    fn connect(
        &self,
        _details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(chained.map(|inner| Strict { inner, early: EarlyAnswers::default() }))
    }
}

/// A connection whose cut is no end, and whose answers are the final ones.
#[derive(Debug)]
pub(crate) struct Strict<T> {
    inner: T,
    early: EarlyAnswers,
}

impl<T: Transport> Strict<T> {
    fn await_more(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.inner.await_input(timeout).map_err(|error| match error {
            // ureq takes these three for an end.
            Error::Io(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::UnexpectedEof
                        | io::ErrorKind::ConnectionAborted
                        | io::ErrorKind::ConnectionReset
                ) =>
            {
                Error::Io(io::Error::new(io::ErrorKind::BrokenPipe, "the connection was cut"))
            }
            other => other,
        })
    }
}

impl<T: Transport> Transport for Strict<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.early = EarlyAnswers::default();
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        loop {
            let more = self.await_more(timeout)?;
            if !more || self.early.pass_over(self.inner.buffers())? {
                return Ok(more);
            }
        }
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

/// How long a host's addresses are taken for true.
const ADDRESSES_LAST: Duration = Duration::from_secs(60);
/// How many hosts' addresses are remembered.
const HOSTS_KEPT: usize = 1024;

/// What is known of one host. Whoever looks it up holds the lock, so that the other workers wait for the
/// answer rather than look it up too.
type Slot = Arc<Mutex<Option<(Instant, ResolvedSocketAddrs)>>>;

/// Looks names up once a minute for all workers, rather than once a connection, and finds out then by which
/// family of addresses the host can be reached.
#[derive(Clone, Default)]
pub(crate) struct Addresses(Arc<Mutex<HashMap<String, Slot>>>);

tidegate_contract::opaque!(Addresses);

impl Addresses {
    fn slot(&self, host: String) -> Slot {
        let mut known = lock(&self.0);
        if known.len() >= HOSTS_KEPT {
            // Those that are being looked up are found by their workers all the same.
            known.clear();
        }
        Arc::clone(known.entry(host).or_default())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn copy(addresses: &[SocketAddr]) -> ResolvedSocketAddrs {
    let mut copied = ResolvedSocketAddrs::from_fn(|_| SocketAddr::from(([0, 0, 0, 0], 0)));
    addresses.iter().for_each(|address| copied.push(*address));
    copied
}

impl Addresses {
    /// The addresses of the host in `uri`, looked up if that was not done lately.
    pub fn look_up(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let scheme = uri.scheme_str().unwrap_or_default();
        let slot = self.slot(format!("{scheme}://{}", uri.authority().map_or("", |name| name.as_str())));
        let mut known = lock(&slot);
        if let Some((since, addresses)) = &*known
            && since.elapsed() < ADDRESSES_LAST
        {
            return Ok(copy(addresses));
        }
        let mut found = DefaultResolver::default().resolve(uri, config, timeout)?;
        reachable_first(&mut found);
        *known = Some((Instant::now(), copy(&found)));
        Ok(found)
    }

    /// The same for a text, within the time that `config` gives.
    pub fn of(&self, uri: &str, config: &Config) -> Result<ResolvedSocketAddrs, Error> {
        let uri = uri.parse::<Uri>().map_err(|error| Error::Http(error.into()))?;
        let after = config
            .timeouts()
            .resolve
            .map_or(ureq::unversioned::transport::time::Duration::NotHappening, Into::into);
        self.look_up(
            &uri,
            config,
            NextTimeout { after, reason: ureq::Timeout::Resolve, ..NextTimeout::default() },
        )
    }
}

/// Why a redirect is not followed.
pub(crate) const NOT_PUBLIC: &str =
    "a public server redirects here, to a private address, which is not followed";

/// Addresses of which only some may be connected to. What is left out here is never connected to, whatever a
/// name says a moment later.
#[derive(Clone, Debug)]
pub(crate) struct Guarded {
    /// Where names are looked up.
    pub addresses: Addresses,
    /// Which addresses count; all if there is no rule.
    pub only: Option<fn(IpAddr) -> bool>,
}

impl Resolver for Guarded {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let found = self.addresses.look_up(uri, config, timeout)?;
        let Some(only) = self.only else { return Ok(found) };
        let allowed: Vec<SocketAddr> = found.iter().copied().filter(|found| only(found.ip())).collect();
        if allowed.is_empty() {
            return Err(Error::Other(Refused::new(ErrorKind::Denied, NOT_PUBLIC).into()));
        }
        Ok(copy(&allowed))
    }
}
