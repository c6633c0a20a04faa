//! Listens: sockets, TLS, and the limits that keep one client from costing the others.

use std::future::pending;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::connections::{Connections, Place};

/// Most connections at once, where the limit of open files allows; one more is told to come again.
const MAX_CONNECTIONS: usize = 20_000;
/// Open files that are left for everything else.
const OTHER_FILES: usize = 256;
/// Connections that the kernel may hold for us; it has a bound of its own, net.core.somaxconn.
const BACKLOG: i32 = 4096;
/// How long a connection may take to say what it wants, idle time included.
const HEADER_TIME: Duration = Duration::from_secs(75);
/// How long TLS may take to be agreed on.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Most bytes of a request's line and headers.
const HEADER_BYTES: usize = 32 << 10;
/// Most headers.
const MAX_HEADERS: usize = 100;
/// How long a client may leave what it was sent unacknowledged.
const UNACKNOWLEDGED: Duration = Duration::from_secs(60);
/// How long what is being answered may take to end when the service stops.
const DRAIN: Duration = Duration::from_secs(10);
/// The pause after a connection could not be accepted, as when files run out.
const BREATH: Duration = Duration::from_millis(50);

/// What a client over the limit is told.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\n\
content-length: 0\r\n\r\n";

/// Whether other hosts reach what listens at `address`.
pub fn is_open(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

/// The certificate and the key of a server.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate's chain, PEM.
    pub cert: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
}

/// What agrees on TLS, with the certificate that its files held when they were read last.
#[derive(Clone)]
struct Acceptor {
    files: TlsFiles,
    current: Arc<RwLock<TlsAcceptor>>,
}

impl Acceptor {
    fn new(files: &TlsFiles) -> io::Result<Self> {
        Ok(Self { files: files.clone(), current: Arc::new(RwLock::new(acceptor(files)?)) })
    }

    fn current(&self) -> TlsAcceptor {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TLS")
    }
}

/// Reads a listener's certificate again.
#[derive(Clone, Debug, Default)]
pub struct Renewal(Option<Acceptor>);

impl Renewal {
    /// Reads the files again: connections from now on are shown what they hold, and those that are open stay as they are.
    /// Answers with the certificate's file, if there is one. Where a file cannot be used all stays as it was.
    pub fn renew(&self) -> io::Result<Option<&Path>> {
        let Some(Acceptor { files, current }) = &self.0 else { return Ok(None) };
        let renewed = acceptor(files)?;
        *current.write().unwrap_or_else(PoisonError::into_inner) = renewed;
        Ok(Some(&files.cert))
    }

    /// Whether there is no certificate to be read.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The same, and tells the log of it.
    pub fn renew_and_tell(&self) {
        match self.renew() {
            Ok(Some(cert)) => tracing::info!("{} was read again", cert.display()),
            Ok(None) => tracing::info!("there is no certificate of a server to be read again"),
            Err(error) => tracing::warn!("the certificate stays the one of before: {error}"),
        }
    }
}

/// A socket that listens.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    tls: Option<Acceptor>,
    address: SocketAddr,
    connections: Connections,
}

impl Listener {
    /// Listens at `address`.
    pub fn bind(address: SocketAddr, tls: Option<&TlsFiles>) -> io::Result<Self> {
        let tls = tls.map(Acceptor::new).transpose()?;
        let what =
            |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"));
        let domain = socket2::Domain::for_address(address);
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).map_err(what)?;
        // After a restart the port is ours again at once.
        socket.set_reuse_address(true).map_err(what)?;
        socket.set_nonblocking(true).map_err(what)?;
        socket.bind(&address.into()).and_then(|()| socket.listen(BACKLOG)).map_err(what)?;
        let socket = TcpListener::from_std(socket.into()).map_err(what)?;
        let address = socket.local_addr().map_err(what)?;
        let connections = Connections::new(most_connections());
        Ok(Self { socket, tls, address, connections })
    }

    /// The same with at most so many connections at once.
    #[must_use]
    pub fn at_most(self, connections: usize) -> Self {
        Self { connections: Connections::new(connections.min(most_connections())), ..self }
    }

    /// Where it can be reached from this host: a URL without a slash at its end.
    pub fn url(&self) -> String {
        let scheme = if self.secure() { "https" } else { "http" };
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        format!("{scheme}://{address}")
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it speaks TLS.
    pub fn secure(&self) -> bool {
        self.tls.is_some()
    }

    /// What reads its certificate again while it serves.
    pub fn renewal(&self) -> Renewal {
        Renewal(self.tls.clone())
    }

    /// How many connections are open, told at any time.
    pub fn gauge(&self) -> impl Fn() -> usize + Send + Sync + 'static {
        let connections = self.connections.clone();
        move || connections.count()
    }

    /// Serves until `stop`, and then ends what is being answered.
    pub async fn serve(self, app: Router, stop: impl Future<Output = ()>) {
        let graceful = GracefulShutdown::new();
        let (stopping, stopped) = watch::channel(());
        self.accept(app, async || None, Some(&graceful), (stopped, stop)).await;
        drop(self.socket);
        drop(stopping);
        if timeout(DRAIN, graceful.shutdown()).await.is_err() {
            tracing::info!("connections that were still busy after {DRAIN:?} are cut");
        }
    }

    /// Until it is dropped, passes what each connection brings to `other`, byte for byte and TLS included, and serves those
    /// that have none.
    pub async fn pass<F>(&self, other: impl Fn() -> F + Clone + Send + 'static, otherwise: Router)
    where
        F: Future<Output = Option<TcpStream>> + Send + 'static,
    {
        // What is being answered goes on when this is dropped.
        let (_stopping, stopped) = watch::channel(());
        self.accept(otherwise, other, None, (stopped, pending())).await;
    }

    /// Accepts until `stop`.
    async fn accept<F>(
        &self,
        app: Router,
        other: impl Fn() -> F + Clone + Send + 'static,
        graceful: Option<&GracefulShutdown>,
        (stopped, stop): (watch::Receiver<()>, impl Future<Output = ()>),
    ) where
        F: Future<Output = Option<TcpStream>> + Send + 'static,
    {
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                () = &mut stop => break,
            };
            let (mut stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!("cannot accept a connection: {error}");
                    self.connections.relieve();
                    sleep(BREATH).await;
                    continue;
                }
            };
            let Some(place) = self.connections.enter(peer) else {
                if self.tls.is_none() {
                    // A fresh socket has room for this; if not, the client sees a closed connection.
                    let _ = timeout(BREATH, stream.write_all(FULL)).await;
                }
                continue;
            };
            tune(&stream);
            let (app, watcher, tls) = (
                app.clone(),
                graceful.map(GracefulShutdown::watcher),
                self.tls.as_ref().map(Acceptor::current),
            );
            let (mut stopped, other) = (stopped.clone(), other());
            tokio::spawn(async move {
                let serving = async {
                    if let Some(mut other) = other.await {
                        tune(&other);
                        let _passing = place.line().answering()(axum::body::Body::empty());
                        if let Err(error) = copy_bidirectional(&mut stream, &mut other).await {
                            tracing::debug!("a connection that was passed on ended: {error}");
                        }
                        return;
                    }
                    let from = (Peer(peer), &place);
                    match tls {
                        None => answer(stream, from, app, watcher).await,
                        Some(tls) => tokio::select! {
                            agreed = timeout(HANDSHAKE_TIME, tls.accept(stream)) => match agreed {
                                Ok(Ok(stream)) => answer(stream, from, app, watcher).await,
                                Ok(Err(error)) => tracing::debug!("{peer}: TLS was not agreed on: {error}"),
                                Err(_) => tracing::debug!("{peer}: TLS was not agreed on in {HANDSHAKE_TIME:?}"),
                            },
                            // Who has not said anything yet is not waited for.
                            _ = stopped.changed() => {}
                        },
                    }
                };
                tokio::select! {
                    () = serving => {}
                    () = place.ended() => tracing::debug!("a connection was ended"),
                }
                drop(place);
            });
        }
    }
}

/// Who asks, as the handlers of a request learn it.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// Answers the requests of one connection.
async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    (peer, place): (Peer, &Place),
    app: Router,
    watcher: Option<Watcher>,
) {
    let app = TowerToHyperService::new(app);
    let line = place.line();
    let app = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(line.clone());
        let answering = line.answering();
        let called = app.call(request);
        async move { Ok::<_, std::convert::Infallible>(called.await?.map(answering)) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(HEADER_BYTES)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), app);
    let ended = match watcher {
        Some(watcher) => watcher.watch(connection).await,
        None => connection.await,
    };
    if let Err(error) = ended {
        tracing::debug!("a connection ended: {error}");
    }
}

/// Small answers leave at once, and a client that is gone is noticed.
fn tune(stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    let alive = socket2::TcpKeepalive::new().with_time(UNACKNOWLEDGED);
    let tuned = socket
        .set_tcp_nodelay(true)
        .and_then(|()| socket.set_tcp_keepalive(&alive))
        .and_then(|()| socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED)));
    if let Err(error) = tuned {
        tracing::debug!("a connection keeps the system's settings: {error}");
    }
}

/// How many files this process may have open.
pub fn open_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX))
}

/// As many as open files allow.
fn most_connections() -> usize {
    open_files().saturating_sub(OTHER_FILES).clamp(16, MAX_CONNECTIONS)
}

fn acceptor(files: &TlsFiles) -> io::Result<TlsAcceptor> {
    let wrong = |path: &Path, why: &dyn std::fmt::Display| {
        let why = format!("cannot use {}: {why}; give PEM files", path.display());
        io::Error::new(io::ErrorKind::InvalidInput, why)
    };
    let chain = CertificateDer::pem_file_iter(&files.cert).map_err(|error| wrong(&files.cert, &error))?;
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&files.cert, &error))?;
    if chain.is_empty() {
        return Err(wrong(&files.cert, &"it holds no certificate"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| wrong(&files.key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| wrong(&files.cert, &error))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| wrong(&files.key, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
