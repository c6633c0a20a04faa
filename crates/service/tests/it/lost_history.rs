//! A service whose history lies on a server that goes away: jobs go on and wait for nobody, new ones are refused for
//! now, and readiness tells.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::door::client::{Answer, raw, request};
use serde_json::{Value, json};
use testkit::postgres::Postgres;
use testkit::skip;
use tidegate_contract::summary::{Status, Summary};
use tidegate_service::api::{Config, token_of};
use tidegate_service::estimate::Program;
use tidegate_service::job::Request;
use tidegate_service::mover::{BoxFuture, Ended, Mover, Outcome, Run, StreamDemand};
use tidegate_service::names::Names;
use tidegate_service::scheduler::{Limits, Sizes};
use tidegate_service::server::{Options, Ready, run};
use tidegate_spec::setup::Setup;
use tokio::sync::{mpsc, oneshot, watch};

/// Jobs that are done once the gate is open.
struct Gated(watch::Receiver<bool>);

impl Mover for Gated {
    fn run(&self, _: Run) -> BoxFuture<Ended> {
        let mut gate = self.0.clone();
        Box::pin(async move {
            let _ = gate.wait_for(|open| *open).await;
            let summary = Summary { status: Status::Complete, duration_ms: 1, ..Summary::default() };
            Ended { outcome: Outcome::Complete, message: String::new(), summary: Some(summary) }
        })
    }

    fn demand(&self, _: &Request) -> StreamDemand {
        StreamDemand { most: 8, adapts: true }
    }
}

struct Asked {
    address: SocketAddr,
    bearer: String,
}

impl Asked {
    async fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        let headers = [("authorization", &*self.bearer), ("content-type", "application/json")];
        raw(self.address, &request(method, path, &headers, body)).await
    }

    async fn submit(&self, jobs: usize) -> Answer {
        // A path of which something may be known, and too little to be measured: history is asked.
        let job = json!({ "source": "/data", "destination": "tg://127.0.0.1:1/in", "bytes": 1000 });
        self.ask("POST", "/api/v1/jobs", &Value::from(vec![job; jobs]).to_string()).await
    }

    async fn counts(&self) -> Value {
        self.ask("GET", "/api/v1/jobs?limit=1", "").await.json()["counts"].clone()
    }
}

/// Waits until something is so, for half a minute.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_go_on_without_history_and_new_ones_come_later() {
    let mut postgres = match Postgres::start() {
        Ok(postgres) => postgres,
        Err(reason) => return skip("jobs_go_on_without_history_and_new_ones_come_later", &reason),
    };
    let state = tempfile::tempdir().expect("a directory");
    let (gate, gated) = watch::channel(false);
    let path = std::path::PathBuf::from("/nowhere/tidegate");
    let options = Options {
        api: Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            tls: None,
            clear: false,
            state: state.path().to_owned(),
        },
        database: postgres.fresh(),
        sharing: None,
        lease_term: tidegate_fleet::shards::TERM,
        retention: Default::default(),
        limits: Limits::default(),
        program: Program { path: path.clone(), setup: Setup::default() },
        sizes: Sizes { program: Program { path, setup: Setup::default() }, globus: "none".into() },
        names: Names::default(),
        mover: Box::new(move || Ok(Arc::new(Gated(gated)))),
        epochs: Box::new(|id| format!("/nowhere/{id}").into()),
        seed: 1,
        renewals: mpsc::channel(1).1,
    };
    let (ready, mut urls) = mpsc::unbounded_channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let ready = move |told: Ready<'_>| {
        if let Ready::Listens(url) = told {
            ready.send(url.to_owned()).expect("heard");
        }
    };
    let serving = tokio::spawn(run(options, ready, async {
        let _ = stopped.await;
    }));
    let url = urls.recv().await.expect("ready");
    let token = token_of(state.path()).expect("read").expect("made");
    let address = url.strip_prefix("http://").expect("a URL").parse().expect("an address");
    let asked = Asked { address, bearer: format!("Bearer {token}") };

    assert_eq!(asked.ask("GET", "/readyz", "").await.status, 200);
    assert_eq!(asked.submit(200).await.status, 201);
    until("a job runs", async || asked.counts().await["running"].as_u64() > Some(0)).await;

    postgres.stop();
    until("it is not ready", async || asked.ask("GET", "/readyz", "").await.status == 503).await;
    let answer = asked.ask("GET", "/readyz", "").await;
    let detail = answer.json()["detail"].as_str().expect("a text").to_owned();
    assert!(detail.contains("postgres://127.0.0.1:") && !detail.contains("sesame"), "{detail}");
    assert_eq!(asked.ask("GET", "/healthz", "").await.status, 200);
    let answer = asked.submit(1).await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("5")), "{answer:?}");
    // What was taken is done; each asked history, and none waited the five seconds that a question may take.
    gate.send_replace(true);
    until("200 jobs are done", async || asked.counts().await["done"] == 200).await;
    assert_eq!(asked.ask("GET", "/api/v1/jobs/1", "").await.status, 200);
    assert_eq!(asked.ask("GET", "/api/v1/history/pairs", "").await.status, 503);

    postgres.restart();
    until("it is ready", async || asked.ask("GET", "/readyz", "").await.status == 200).await;
    assert_eq!(asked.submit(1).await.status, 201);
    // What happened meanwhile was kept.
    until("200 transfers are remembered", async || {
        let pairs = asked.ask("GET", "/api/v1/history/pairs", "").await.json();
        pairs["pairs"][0]["transfers"].as_u64() >= Some(200)
    })
    .await;
    stop.send(()).expect("heard");
    serving.await.expect("it ended").expect("well");
}
