//! A scheduler within a test, whose jobs are run by the real command.

use std::sync::Arc;
use std::time::Duration;

use tidegate_service::history::{Decision, Transfer};
use tidegate_service::job::{Job, JobId, Request};
use tidegate_service::mover::{BoxFuture, Programs};
use tidegate_service::queue::Queue;
use tidegate_service::scheduler::{Estimated, JobEstimator, Limits, Memory, Parts, Scheduler};

use super::World;

/// Nobody is asked, and nothing remembered.
struct Nobody;

impl JobEstimator for Nobody {
    fn estimate(&self, _: Arc<Request>, _: u16) -> BoxFuture<Result<Estimated, String>> {
        Box::pin(async { Err("nobody is asked".to_owned()) })
    }
}

impl Memory for Nobody {
    fn decided(&self, _: Decision) {}
    fn moved(&self, _: Transfer) {}
}

/// The programs that move data, with their state in the world.
pub fn programs(world: &World) -> Programs {
    Programs::new(env!("CARGO_BIN_EXE_tidegate").into(), world.path("service"))
}

/// A scheduler of these programs, which estimates nothing.
pub async fn start(world: &World, programs: Programs) -> Scheduler {
    let parts = Parts {
        queue: Arc::new(Queue::open(&world.path("service")).await.expect("opened")),
        mover: programs.mover().expect("made"),
        estimator: Arc::new(Nobody),
        memory: Arc::new(Nobody),
        limits: Limits::default(),
        seed: 1,
    };
    Scheduler::start(parts).await.expect("started")
}

/// How a job ended.
pub async fn end(scheduler: &Scheduler, id: JobId) -> Job {
    let ended = tokio::time::timeout(Duration::from_secs(240), scheduler.wait(id)).await;
    ended.expect("it ended").expect("read").expect("there")
}
