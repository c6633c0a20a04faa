//! An endpoint that HTTP clients reach, too.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tidegate_gateway::{Config, Gateway, TlsFiles};
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
    #[arg(long, value_name = "[ADDR:]PORT", requires = "https_cert", requires = "https_key")]
    https: Option<String>,
    /// The certificate chain for that, PEM; one that browsers trust
    #[arg(long, value_name = "FILE", requires = "https")]
    https_cert: Option<PathBuf>,
    /// Its private key, PEM
    #[arg(long, value_name = "FILE", requires = "https")]
    https_key: Option<PathBuf>,
    /// Serve it without TLS, on a loopback address alone: for a proxy in front that encrypts, or for programs of this host
    #[arg(long, value_name = "[ADDR:]PORT", conflicts_with = "https")]
    http: Option<String>,
    /// Take files by HTTP that nothing vouches for: neither Content-MD5, Repr-Digest, x-amz-checksum-… nor a signature over
    /// the content
    #[arg(long)]
    allow_unverified_put: bool,
    /// The URL that others reach it by, for links, as in https://data.example.org [default: the host of --advertise]
    #[arg(long, value_name = "URL", value_parser = base_url)]
    http_url: Option<String>,
}

/// What serves HTTP, until it is stopped.
pub struct OverHttp {
    runtime: Runtime,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl HttpArgs {
    /// The files of its certificate, which no endpoint serves.
    pub fn private(&self) -> impl Iterator<Item = PathBuf> {
        [&self.https_cert, &self.https_key].into_iter().filter_map(Clone::clone)
    }

    /// Begins to serve what `endpoint` serves, if that was asked for; others call this host `host`.
    pub fn serve(&self, endpoint: &Arc<Endpoint>, host: &str) -> anyhow::Result<Option<OverHttp>> {
        let Some(listen) = self.https.as_ref().or(self.http.as_ref()) else {
            if self.http_url.is_some() || self.allow_unverified_put {
                return Err(usage("--http-url and --allow-unverified-put go with --https or --http").into());
            }
            return Ok(None);
        };
        // A number alone is a port.
        let listen = match listen.parse::<u16>() {
            Ok(port) => SocketAddr::new(
                if self.https.is_some() { DEFAULT_LISTEN.ip() } else { Ipv4Addr::LOCALHOST.into() },
                port,
            ),
            Err(_) => listen_address(listen, DEFAULT_LISTEN)?,
        };
        let tls =
            self.https_cert.clone().zip(self.https_key.clone()).map(|(cert, key)| TlsFiles { cert, key });
        let runtime = Builder::new_multi_thread().enable_all().thread_name("http").build()?;
        let gateway = {
            let _within = runtime.enter();
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
        let (stop, stopped) = oneshot::channel();
        let serving = runtime.spawn(gateway.serve(async {
            let _ = stopped.await;
        }));
        Ok(Some(OverHttp { runtime, stop, serving }))
    }
}

impl OverHttp {
    /// Answers nobody any more, once what is being answered has ended or had its time.
    pub fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.runtime.block_on(self.serving);
        self.runtime.shutdown_background();
    }
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
