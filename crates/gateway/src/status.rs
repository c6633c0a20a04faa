//! How an endpoint stands, for who watches it: whether it runs, and what it counts. Nobody shows a token for that, and no path
//! and no ticket stands in it.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use tidegate_http::listener::Listener;
use tidegate_http::prometheus::{self, Series, family, one};
use tidegate_transfer::endpoint::{Endpoint, EndpointCounts};
use tidegate_transfer::error::{Error, ErrorKind, Result};

use std::net::SocketAddr;

/// Most connections at once; who watches needs one.
const MAX_CONNECTIONS: usize = 32;

/// What listens for who watches, and does not answer yet.
#[derive(Debug)]
pub struct Status {
    listener: Listener,
    endpoint: Arc<Endpoint>,
}

impl Status {
    /// Listens; needs a runtime.
    pub fn bind(endpoint: Arc<Endpoint>, listen: SocketAddr) -> Result<Self> {
        let listener =
            Listener::bind(listen, None).map_err(|error| Error::new(ErrorKind::Busy, error.to_string()))?;
        Ok(Self { listener: listener.at_most(MAX_CONNECTIONS), endpoint })
    }

    /// Where it can be reached from this host.
    pub fn url(&self) -> String {
        self.listener.url()
    }

    /// Answers until `stop`.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let app = Router::new()
            .route("/healthz", get(async || "ok\n"))
            .route("/metrics", get(metrics))
            .with_state(self.endpoint);
        self.listener.serve(app, stop).await;
    }
}

async fn metrics(State(endpoint): State<Arc<Endpoint>>) -> impl IntoResponse {
    let counts = tokio::task::spawn_blocking(move || endpoint.counts()).await.unwrap_or_default();
    ([(CONTENT_TYPE, prometheus::CONTENT_TYPE)], text(&counts))
}

fn text(counts: &EndpointCounts) -> String {
    let mut text = String::new();
    let build = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    family(&mut text, "tidegate_build_info", "gauge", "The version that runs.", [(build, 1.0)]);
    let gauges = [
        ("root_available", "Whether the directory that is served is there.", f64::from(counts.has_root)),
        ("transfers", "Transfers that run.", counts.running as f64),
        ("unproven_connections", "Connections that have proved nothing yet.", counts.unproven as f64),
    ];
    for (name, help, value) in gauges {
        family(&mut text, &format!("tidegate_endpoint_{name}"), "gauge", help, one(value));
    }
    let direction = |way: &str| ("direction", way.to_owned());
    let moved = |value: fn(&tidegate_transfer::endpoint::Moved) -> u64| -> Vec<Series> {
        counts.moved.iter().map(|(way, moved)| (vec![direction(way)], value(moved) as f64)).collect()
    };
    let bytes = "Bytes of content that transfers moved since the endpoint began.";
    family(&mut text, "tidegate_endpoint_bytes_total", "counter", bytes, moved(|moved| moved.bytes));
    let files = "Files that transfers completed since the endpoint began.";
    family(&mut text, "tidegate_endpoint_files_total", "counter", files, moved(|moved| moved.files));
    let ended = counts
        .ended
        .iter()
        .map(|((way, how), count)| (vec![direction(way), ("outcome", (*how).to_owned())], *count as f64));
    let help = "Transfers that ended since the endpoint began, by how.";
    family(&mut text, "tidegate_endpoint_transfers_total", "counter", help, ended);
    let refused =
        counts.refused.iter().map(|(why, count)| (vec![("cause", (*why).to_owned())], *count as f64));
    let help = "Peers that were refused since the endpoint began, by why.";
    family(&mut text, "tidegate_endpoint_refused_total", "counter", help, refused);
    let http = counts.http.iter().map(|(class, count)| (vec![("code", format!("{class}xx"))], *count as f64));
    let help = "Requests that were answered over HTTP since the endpoint began.";
    family(&mut text, "tidegate_endpoint_http_requests_total", "counter", help, http);
    text
}
