//! The service over HTTP: estimates, jobs, history and metrics as JSON, and the dashboard.
//!
//! The OpenAPI document is made of what each route says of itself, and of the types it reads and answers. What needs no token says
//! nothing about jobs: health, the document itself, and the page's parts.

mod auth;
mod document;
mod epochs;
mod estimates;
mod frame;
mod health;
mod jobs;
mod metrics;
mod operation;
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
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use tidegate_fleet::shards::Fleet;
use tidegate_http::listener::is_open;
use tokio::sync::watch;

use auth::Keys;
use document::DescribedRoute;
use frame::Routes;
use jobs::Counts;
use metrics::Metrics;

use crate::estimate::Estimator;
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

/// The OpenAPI document.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| document::write(&listed()).to_string());

/// Everything that is answered, as the document has it.
fn listed() -> Vec<DescribedRoute> {
    let ours = health::open_routes().and(health::routes()).and(jobs::routes()).and(past::routes());
    let ours = ours.and(spread::routes()).and(spread::mover_routes());
    let (_, mut listed) = ours.and(estimates::routes()).and(epochs::routes()).into_parts();
    listed.extend(sign_in::routes().into_parts().1);
    listed
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    fn document() -> Value {
        serde_json::from_str(&DOCUMENT).expect("JSON")
    }

    /// Every operation: its method, its path and what is said of it.
    fn operations(document: &Value) -> Vec<(String, String, &Value)> {
        let methods = ["get", "post", "put", "delete", "patch"];
        let paths = document["paths"].as_object().expect("paths");
        let of = |(path, item): (&String, &'_ Value)| {
            let item = item.as_object().expect("an item").clone();
            item.into_iter().map(|(method, _)| (method, path.clone())).collect::<Vec<_>>()
        };
        let all = paths.iter().flat_map(of).filter(|(method, _)| methods.contains(&&method[..]));
        all.map(|(method, path)| {
            let said = &document["paths"][&path][&method];
            (method, path, said)
        })
        .collect()
    }

    #[test]
    fn every_route_is_in_the_document_and_the_other_way_round() {
        let of = |route: DescribedRoute| (route.method.to_owned(), route.path.to_owned());
        let routes: BTreeSet<(String, String)> = listed().into_iter().map(of).collect();
        let document = document();
        assert_eq!(document["openapi"], "3.1.0");
        let told = operations(&document);
        let told: BTreeSet<_> = told.into_iter().map(|(method, path, _)| (method, path)).collect();
        assert_eq!((routes.len(), routes), (listed().len(), told));
        // Every reference leads somewhere.
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap_or_default();
            assert!(document.pointer(pointer).is_some(), "{pointer} is nowhere");
        }
    }

    #[test]
    fn every_operation_has_a_name_of_its_own_and_says_what_it_needs() {
        let document = document();
        let mut names = BTreeSet::new();
        for (_, path, said) in operations(&document) {
            let name = said["operationId"].as_str().expect("a name");
            assert!(names.insert(name.to_owned()), "{name} is the name of two");
            assert!(
                document["tags"].as_array().expect("tags").iter().any(|tag| tag["name"] == said["tags"][0])
            );
            assert!(
                said["responses"]["default"].is_object()
                    && said["responses"].as_object().is_some_and(|all| all.len() > 1)
            );
            let named = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
            let parameters = said["parameters"].as_array().cloned().unwrap_or_default();
            let of_path = parameters
                .iter()
                .filter(|parameter| parameter["in"] == "path" && parameter["required"] == true);
            assert!(named.eq(of_path.filter_map(|parameter| parameter["name"].as_str())), "{path}");
        }
    }

    /// What each field is for is its comment, which a client has to have.
    #[test]
    fn every_field_and_every_parameter_is_described() {
        fn look(at: &str, value: &Value, undescribed: &mut Vec<String>) {
            let (Value::Object(_) | Value::Array(_)) = value else { return };
            let is_described =
                |value: &Value| value["description"].as_str().is_some_and(|text| !text.is_empty());
            let fields = value.get("properties").and_then(Value::as_object);
            // One of several ways, which its only field names, is described as such.
            if let Some(fields) = fields.filter(|fields| fields.len() > 1 || !is_described(value)) {
                let bare = |(_, field): &(&String, &Value)| {
                    !is_described(field) && field.get("const").is_none() && field.get("$ref").is_none()
                };
                undescribed.extend(fields.iter().filter(bare).map(|(name, _)| format!("{at}/{name}")));
            }
            if value.get("in").is_some() && value.get("schema").is_some() && !is_described(value) {
                undescribed.push(format!("{at}: {}", value["name"]));
            }
            match value {
                Value::Object(fields) => {
                    fields.iter().for_each(|(name, value)| look(&format!("{at}/{name}"), value, undescribed));
                }
                Value::Array(items) => items.iter().for_each(|item| look(at, item, undescribed)),
                _ => {}
            }
        }
        let mut undescribed = Vec::new();
        let document = document();
        look("", &document, &mut undescribed);
        assert!(undescribed.is_empty(), "{undescribed:#?}");
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        let bare: Vec<_> = schemas.iter().filter(|(_, schema)| schema.get("description").is_none()).collect();
        assert!(bare.is_empty(), "{bare:#?}");
    }
}
