//! An endpoint that HTTP clients reach, too.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use clap::Args;
pub use tidegate_gateway::Renewal;
use tidegate_gateway::{Config, Gateway, Status, TlsFiles};
use tidegate_transfer::endpoint::Endpoint;
use tidegate_transfer::error::Error;
use tidegate_transfer::wire::ticket::Place;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::exit::usage;
use crate::values::listen_address;

/// Where it listens unless told otherwise; the endpoint's port is 7117, and the service's 7118.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 7119);

/// How an endpoint serves HTTP.
#[derive(Debug, Args)]
#[command(next_help_heading = "HTTP")]
pub struct HttpArgs {
    /// Serve the same directory over HTTPS, to browsers, curl and whatever reads by HTTP, with a token of
    /// `tidegate ticket --http` or a link of `tidegate share`
    #[arg(
        long,
        value_name = "[ADDR:]PORT",
        requires = "https_cert",
        requires = "https_key",
        conflicts_with = "once"
    )]
    https: Option<String>,
    /// The certificate chain for that, PEM; one that browsers trust
    #[arg(long, value_name = "FILE", requires = "https")]
    https_cert: Option<PathBuf>,
    /// Its private key, PEM
    #[arg(long, value_name = "FILE", requires = "https")]
    https_key: Option<PathBuf>,
    /// Serve it without TLS, on a loopback address alone: for a proxy in front that encrypts, or for programs of this host
    #[arg(long, value_name = "[ADDR:]PORT", conflicts_with_all = ["https", "once"])]
    http: Option<String>,
    /// Take files by HTTP that nothing vouches for: neither Content-MD5, Repr-Digest, x-amz-checksum-… nor a signature over
    /// the content
    #[arg(long)]
    allow_unverified_put: bool,
    /// The URL that others reach it by, for links, as in https://data.example.org [default: the host of --advertise]
    #[arg(long, value_name = "URL", value_parser = base_url)]
    http_url: Option<String>,
    /// Answer /healthz and /metrics (Prometheus) without a token: on the loopback, where a port alone is given
    /// [default: nowhere]
    #[arg(long, value_name = "[ADDR:]PORT", conflicts_with = "once")]
    status: Option<String>,
}

/// Becomes ready when it is to stop.
type Stopped = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What serves HTTP, until it is stopped.
pub struct OverHttp {
    runtime: Runtime,
    serving: Vec<(oneshot::Sender<()>, JoinHandle<()>)>,
    renewal: Renewal,
}

impl HttpArgs {
    /// The files of its certificate, which no endpoint serves.
    pub fn private(&self) -> impl Iterator<Item = PathBuf> {
        [&self.https_cert, &self.https_key].into_iter().filter_map(Clone::clone)
    }

    /// Begins to serve what `endpoint` serves, and how it stands, where that was asked for; others call this host `host`.
    pub fn serve(&self, endpoint: &Arc<Endpoint>, host: &str) -> anyhow::Result<Option<OverHttp>> {
        let asked = self.https.as_ref().or(self.http.as_ref());
        if asked.is_none() && (self.http_url.is_some() || self.allow_unverified_put) {
            return Err(usage("--http-url and --allow-unverified-put go with --https or --http").into());
        }
        if asked.is_none() && self.status.is_none() {
            return Ok(None);
        }
        let runtime = Builder::new_multi_thread().enable_all().thread_name("http").build()?;
        let mut over = OverHttp { runtime, serving: Vec::new(), renewal: Renewal::default() };
        if let Some(listen) = asked {
            let open = if self.https.is_some() { DEFAULT_LISTEN.ip() } else { Ipv4Addr::LOCALHOST.into() };
            self.serve_files(&mut over, endpoint, host, address(listen, open)?)?;
        }
        if let Some(listen) = &self.status {
            let listen = address(listen, Ipv4Addr::LOCALHOST.into())?;
            let status = {
                let _within = over.runtime.enter();
                Status::bind(Arc::clone(endpoint), listen)?
            };
            tracing::info!("telling how it stands at {}/metrics", status.url());
            over.begin(|stopped| status.serve(stopped));
        }
        Ok(Some(over))
    }

    fn serve_files(
        &self,
        over: &mut OverHttp,
        endpoint: &Arc<Endpoint>,
        host: &str,
        listen: SocketAddr,
    ) -> anyhow::Result<()> {
        let tls =
            self.https_cert.clone().zip(self.https_key.clone()).map(|(cert, key)| TlsFiles { cert, key });
        let gateway = {
            let _within = over.runtime.enter();
            Gateway::bind(
                Arc::clone(endpoint),
                &Config { listen, tls, unverified: self.allow_unverified_put },
            )?
        };
        let port = gateway.port();
        let url = match (&self.http_url, self.https.is_some()) {
            (Some(url), _) => url.clone(),
            (None, true) => format!("https://{}", shown(host, port)),
            (None, false) => gateway.url(),
        };
        endpoint.announce_http(url.clone());
        tracing::info!("serving over HTTP at {}, advertised as {url}", gateway.url());
        over.renewal = gateway.renewal();
        over.begin(|stopped| gateway.serve(stopped));
        Ok(())
    }
}

impl OverHttp {
    fn begin<F>(&mut self, serve: impl FnOnce(Stopped) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        let stopped: Stopped = Box::pin(async {
            let _ = stopped.await;
        });
        self.serving.push((stop, self.runtime.spawn(serve(stopped))));
    }

    /// What reads its certificate again while it serves.
    pub fn renewal(&self) -> Renewal {
        self.renewal.clone()
    }

    /// Answers nobody any more, once what is being answered has ended or had its time.
    pub fn stop(self) {
        let (stops, serving): (Vec<_>, Vec<_>) = self.serving.into_iter().unzip();
        for stop in stops {
            let _ = stop.send(());
        }
        serving.into_iter().for_each(|serving| drop(self.runtime.block_on(serving)));
        self.runtime.shutdown_background();
    }
}

/// Where `text` says to listen; a number alone is a port of `host`.
fn address(text: &str, host: IpAddr) -> anyhow::Result<SocketAddr> {
    Ok(match text.parse::<u16>() {
        Ok(port) => SocketAddr::new(host, port),
        Err(_) => listen_address(text, DEFAULT_LISTEN)?,
    })
}

/// Host and port, as a URL has them.
fn shown(host: &str, port: u16) -> String {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    if port == 443 { host } else { format!("{host}:{port}") }
}

/// Reads the URL that links begin with.
fn base_url(text: &str) -> Result<String, Error> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let fits = rest.is_some_and(|rest| {
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        place.parse::<Place>().is_ok() && path.bytes().all(|b| b.is_ascii_graphic() && !b"?#\"".contains(&b))
    });
    match fits {
        true => Ok(text.trim_end_matches('/').to_owned()),
        false => Err(usage(format!(
            "'{text}' is no URL that links can begin with, as in https://data.example.org"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_begin_with_a_url_and_no_more() {
        for (text, url) in [
            ("https://data.example.org/", "https://data.example.org"),
            ("https://h:8443/tide/gate/", "https://h:8443/tide/gate"),
            ("http://[::1]:7119", "http://[::1]:7119"),
        ] {
            assert_eq!(base_url(text).expect(text), url);
        }
        for bad in
            ["", "data.example.org", "ftp://x", "https://", "https://x/?a", "https://a b/", "https://x/\n"]
        {
            assert!(base_url(bad).is_err(), "{bad}");
        }
        assert_eq!((shown("::1", 443), shown("h", 7119)), ("[::1]".to_owned(), "h:7119".to_owned()));
    }
}
