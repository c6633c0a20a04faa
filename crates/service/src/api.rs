//! The service over HTTP: estimates, jobs, history and metrics as JSON, and the dashboard.
//!
//! Every route is in the OpenAPI document beside this file, and the other way round. What needs no token says
//! nothing about jobs: health, the document itself, and the page's parts.

mod auth;
mod epochs;
mod estimates;
mod frame;
mod health;
mod jobs;
mod metrics;
mod past;
mod problem;
mod sign_in;
mod spread;

pub use auth::read_token;
pub(crate) use auth::share_token;
pub(crate) use frame::hardened;
pub(crate) use problem::Problem;
pub use tidegate_http::listener::{Listener, TlsFiles};

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use tidegate_http::listener::is_open;
use tokio::sync::watch;

use auth::Keys;
use frame::Routes;
use jobs::Counts;
use metrics::Metrics;

use crate::estimate::Estimator;
use crate::fleet::Fleet;
use crate::history::History;
use crate::job::JobId;
use crate::scheduler::Scheduler;

/// The directory of the service's own files below the state directory.
pub const DIRECTORY: &str = "service";
/// The file in it that says where the service listens.
pub const URL_FILE: &str = "url";

/// How the service is reached.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// With which certificate.
    pub tls: Option<TlsFiles>,
    /// Whether others may be answered without TLS.
    pub clear: bool,
    /// The state directory.
    pub state: PathBuf,
}

/// What the service is made of, beneath its API.
pub struct ApiParts {
    /// What is remembered.
    pub history: History,
    /// What answers estimates.
    pub estimator: Estimator,
    /// What runs the jobs.
    pub scheduler: Scheduler,
    /// What many hosts move.
    pub fleet: Arc<Fleet>,
    /// Where the epochs of a job's latest attempt are left, one JSON line each.
    pub epochs: EpochFiles,
}

/// Where a job leaves its epochs.
pub(crate) type EpochFiles = Box<dyn Fn(JobId) -> PathBuf + Send + Sync>;

/// What every handler may use.
struct App {
    history: History,
    estimator: Estimator,
    scheduler: Scheduler,
    fleet: Arc<Fleet>,
    epochs: EpochFiles,
    counts: Counts,
    metrics: Arc<Metrics>,
    connections: Box<dyn Fn() -> usize + Send + Sync>,
    stop: watch::Receiver<bool>,
}

/// A service that listens and has not begun to answer.
pub struct Api {
    listener: Listener,
    keys: Arc<Keys>,
    code: String,
    stopper: watch::Sender<bool>,
    app: Arc<App>,
}

impl Api {
    /// Listens; needs a runtime.
    pub fn listen(config: &Config) -> io::Result<Listener> {
        let address = config.listen;
        if config.tls.is_none() && !config.clear && is_open(address) {
            let why = format!(
                "{address} can be reached from other hosts: give --tls-cert and --tls-key, or say --insecure \
                 if something in front of it encrypts"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Listener::bind(address, config.tls.as_ref()).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => error,
            kind => io::Error::new(kind, format!("{error}; --listen chooses another")),
        })
    }

    /// The API of `parts` on `listener`, with the token that is made at the first start.
    pub fn new(listener: Listener, config: &Config, parts: ApiParts) -> io::Result<Self> {
        let directory = config.state.join(DIRECTORY);
        let (keys, code) = Keys::open(&directory, listener.address().port(), listener.secure())?;
        let (stopper, stop) = watch::channel(false);
        let ApiParts { history, estimator, scheduler, fleet, epochs } = parts;
        let connections = Box::new(listener.gauge());
        let app = App {
            history,
            estimator,
            scheduler,
            fleet,
            epochs,
            counts: Counts::default(),
            metrics: Arc::default(),
            connections,
            stop,
        };
        Ok(Self { listener, keys, code, stopper, app: Arc::new(app) })
    }

    /// Where it can be reached from this host.
    pub fn url(&self) -> String {
        self.listener.url()
    }

    /// The link that signs a browser in; a secret.
    pub fn sign_in_link(&self) -> String {
        format!("{}/login?code={}", self.url(), self.code)
    }

    /// Answers until `stop`, and ends what is being answered.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let router = router(self.app, &self.keys);
        let stopper = self.stopper;
        let stop = async move {
            stop.await;
            // Streams end by themselves, or a connection would never be idle.
            stopper.send_replace(true);
        };
        self.listener.serve(router, stop).await;
    }
}

/// Everything that is answered.
fn router(app: Arc<App>, keys: &Arc<Keys>) -> Router {
    let metrics = Arc::clone(&app.metrics);
    let patient = |routes: Routes<Arc<App>>| routes.map(|router| router.route_layer(from_fn(frame::patient)));
    // Movers show the token of their run, which opens nothing else.
    let open = patient(health::open_routes().and(spread::mover_routes()));
    let guarded = patient(health::routes().and(jobs::routes()).and(spread::routes()).and(past::routes()));
    // These have limits of time of their own.
    let guarded = guarded.and(estimates::routes()).and(epochs::routes());
    let guarded = guarded.map(|router| router.route_layer(from_fn_with_state(Arc::clone(keys), auth::guard)));
    let (ours, _) = open.and(guarded).into_parts();
    let (page, _) = sign_in::routes().map(|router| router.route_layer(from_fn(frame::patient))).into_parts();
    let router = ours.with_state(app).merge(page.with_state(Arc::clone(keys)));
    frame::finish(router).layer(from_fn_with_state(metrics, metrics::count))
}

/// Notes for commands on this host where the service listens.
pub(crate) fn note_url(config: &Config, url: &str) -> io::Result<()> {
    auth::replace_private(&config.state.join(DIRECTORY).join(URL_FILE), &format!("{url}\n"))
}

/// The token of the service whose state lies in `state`.
pub fn token_of(state: &Path) -> io::Result<Option<String>> {
    read_token(&state.join(DIRECTORY))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The methods, in lower case, and the paths that are answered.
    fn routes() -> Vec<(&'static str, &'static str)> {
        let ours = health::open_routes().and(health::routes()).and(jobs::routes()).and(past::routes());
        let ours = ours.and(spread::routes()).and(spread::mover_routes());
        let (_, mut listed) = ours.and(estimates::routes()).and(epochs::routes()).into_parts();
        listed.extend(sign_in::routes().into_parts().1);
        listed
    }

    #[test]
    fn every_route_is_in_the_document_and_the_other_way_round() {
        let routes: BTreeSet<(String, String)> =
            routes().into_iter().map(|(method, path)| (method.to_owned(), path.to_owned())).collect();
        let document: serde_json::Value = serde_json::from_str(health::DOCUMENT).expect("JSON");
        assert_eq!(document["openapi"], "3.1.0");
        let paths = document["paths"].as_object().expect("paths");
        let methods = ["get", "post", "put", "delete", "patch"];
        let told: BTreeSet<(String, String)> = paths
            .iter()
            .flat_map(|(path, item)| {
                let of = item.as_object().expect("an item").keys();
                of.filter(|key| methods.contains(&key.as_str())).map(|method| (method.clone(), path.clone()))
            })
            .collect();
        assert_eq!(routes, told);
        // Every reference leads somewhere.
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap_or_default();
            assert!(document.pointer(pointer).is_some(), "{pointer} is nowhere");
        }
    }
}
