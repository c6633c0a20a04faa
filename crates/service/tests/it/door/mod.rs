//! What tests of the service share.

pub mod asked;
pub mod client;
pub mod described;

use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::summary::{Status, Summary};
use tidegate_control::Epoch;
use tidegate_fleet::shards::Fleet;
use tidegate_service::api::{Api, ApiParts, Config};
use tidegate_service::estimate::{Estimator, Program};
use tidegate_service::history::{History, Recorder};
use tidegate_service::job::Request;
use tidegate_service::mover::{BoxFuture, Ended, Mover, Outcome, Run, StreamDemand};
use tidegate_service::queue::Queue;
use tidegate_service::scheduler::{self, Estimated, Limits, Scheduler};
use tidegate_spec::setup::Setup;

/// Moves so many epochs for each job, slowly, and then is done; estimates nothing.
pub struct Still;

impl Mover for Still {
    fn run(&self, mut run: Run) -> BoxFuture<Ended> {
        Box::pin(async move {
            for i in 1..=EPOCHS {
                let _ = run.epochs.send(epoch(i)).await;
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(100)) => {}
                    _ = run.stop.wait_for(|stop| *stop) => {
                        let message = "stopped".to_owned();
                        return Ended { outcome: Outcome::Stopped, message, summary: None };
                    }
                }
            }
            let summary = Summary { status: Status::Complete, verified: true, ..Summary::default() };
            Ended { outcome: Outcome::Complete, message: String::new(), summary: Some(summary) }
        })
    }

    fn demand(&self, _: &Request) -> StreamDemand {
        StreamDemand { most: 8, adapts: true }
    }
}

impl scheduler::JobEstimator for Still {
    fn estimate(&self, _: Arc<Request>, _: u16) -> BoxFuture<Result<Estimated, String>> {
        Box::pin(async { Err("nothing is measured here".to_owned()) })
    }
}

/// Epochs of each job.
pub const EPOCHS: u64 = 8;

fn epoch(i: u64) -> Epoch {
    let text = format!(
        r#"{{"t_ms":{},"interval_ms":100,"concurrency":{{"read":1,"network":{i},"write":1}},
        "setpoint":{{"read":1,"network":{i},"write":1}},
        "throughput_bps":{{"read":8000,"network":8000,"write":8000}},
        "staging_free_bytes":{{"sender":0,"receiver":0}},"loss":null,"rtt_us":null,"utility":null}}"#,
        i * 100
    );
    serde_json::from_str(&text).expect("an epoch")
}

/// The API of a service whose state is `config.state`.
pub async fn api(config: &Config) -> Api {
    let listener = Api::listen(config).expect("it listens");
    let history = format!("sqlite:{}", config.state.join("history.db").display());
    let history = History::open(&history).await.expect("a history");
    let queue = Arc::new(Queue::open(&config.state).await.expect("a queue"));
    let program = Program { path: "tidegate".into(), setup: Setup::default() };
    let estimator = Estimator::new(program, Some(history.clone()));
    let parts = scheduler::Parts {
        queue,
        mover: Arc::new(Still),
        estimator: Arc::new(Still),
        memory: Arc::new(Recorder::start(history.clone())),
        limits: Limits::default(),
        seed: 1,
    };
    let scheduler = Scheduler::start(parts).await.expect("a scheduler");
    let state = config.state.clone();
    let epochs = Box::new(move |id| state.join(format!("{id}.jsonl")));
    let fleet = Arc::new(Fleet::open(&config.state).await.expect("a fleet"));
    Api::new(listener, config, ApiParts { history, estimator, scheduler, fleet, epochs }).expect("an API")
}
