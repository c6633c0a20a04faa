//! A job, live: its epochs so far, those to come, every change of its state, and who moves it where many hosts do, as
//! server-sent events.

use std::convert::Infallible;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use serde::Serialize;
use tidegate_contract::epoch_line;
use tidegate_control::Epoch;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

use super::App;
use super::frame::{Path, Routes};
use super::jobs::{View, find};
use super::operation::{Operation, event};
use super::problem::Problem;
use crate::job::{JobId, JobKind, State as JobState};
use crate::scheduler::MAX_EPOCHS;
use tidegate_fleet::shards::Standing;

/// Events on their way to a client that reads slowly.
const UNREAD: usize = 64;
/// How often something is sent while nothing happens, so that a client that is gone is noticed.
const ALIVE: Duration = Duration::from_secs(15);
/// How soon a job is looked at again where its end was missed.
const LOOK: Duration = Duration::from_secs(2);
/// How often the movers of a job of many hosts are told of.
const MOVERS: Duration = Duration::from_secs(5);

/// How often it is told again why a job that runs does not get on.
const STALL: Duration = Duration::from_secs(5);

/// Bytes that are read at the end of what a job left: as many epochs as are told of one that runs, and some.
const LEFT: u64 = 1 << 20;

type Sender = mpsc::Sender<Result<Event, Infallible>>;

/// The route, which has no limit of time.
pub(crate) fn routes() -> Routes<Arc<App>> {
    let said = Operation::new(
        "followJob",
        "jobs",
        "Follow a job, live. Events: `epoch` has an Epoch, the ones so far first; `job` the Job when it changes; `spread` how \
         a job of many hosts stands, every five seconds; `end` the Job when there is nothing more to follow.",
    );
    let events =
        [event::<Epoch>("epoch"), event::<View>("job"), event::<Standing>("spread"), event::<View>("end")];
    let said = said.of_job().says(StatusCode::OK, "Server-sent events.").events(events);
    Routes::new().get("/api/v1/jobs/{id}/epochs", follow, said)
}

async fn follow(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<impl IntoResponse, Problem> {
    let id = find(&app, &id).await?.id;
    let (sender, receiver) = mpsc::channel(UNREAD);
    tokio::spawn(async move {
        let mut stop = app.stop.clone();
        tokio::select! {
            // A client that leaves, or the end of the service, ends it.
            () = sender.closed() => {}
            _ = stop.wait_for(|stop| *stop) => {}
            told = tell(&app, id, &sender) => if told.is_none() {
                tracing::debug!("nobody follows job {id} any more, or it cannot be read");
            },
        }
    });
    Ok(Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::new().interval(ALIVE)))
}

/// Tells of a job until it is at its end; `None` if nobody listens.
async fn tell(app: &App, id: JobId, sender: &Sender) -> Option<()> {
    // First of all, so that no change is missed between two looks.
    let mut changes = app.scheduler.changes();
    let mut last = None;
    let mut told = false;
    let mut spread = None;
    loop {
        let job = app.scheduler.job(id).await.ok()??;
        let (state, is_final) = (job.state, job.state.is_final());
        let is_spread = job.request.kind == JobKind::Spread;
        // What does not run now may have run before.
        if !told && !state.is_active() {
            told = true;
            for epoch in left((app.epochs)(id)).await {
                send(sender, "epoch", &epoch).await?;
            }
        }
        if is_final {
            // Who came late is told who moved it all the same.
            if is_spread && spread.is_none() {
                tell_movers(app, id, sender).await?;
            }
            return send(sender, "end", &View::new(job)).await;
        }
        if last != Some(state) {
            last = Some(state);
            send(sender, "job", &View::new(job)).await?;
        }
        if let Some(mut live) = app.scheduler.live(id) {
            told = true;
            for epoch in &live.epochs {
                send(sender, "epoch", &**epoch).await?;
            }
            let mut look = tokio::time::interval_at(Instant::now() + STALL, STALL);
            loop {
                tokio::select! {
                    _ = look.tick() => {
                        let job = app.scheduler.job(id).await.ok()??;
                        if job.state == JobState::Running && job.outage_since_ms.is_some() {
                            send(sender, "job", &View::new(job)).await?;
                        }
                    }
                    epoch = live.to_come.recv() => match epoch {
                        Ok(epoch) => {
                            send(sender, "epoch", &*epoch).await?;
                            if is_spread && spread.is_none_or(|at: Instant| at.elapsed() >= MOVERS) {
                                spread = Some(Instant::now());
                                tell_movers(app, id, sender).await?;
                            }
                        }
                        // Some epochs are left out for a client that reads slowly.
                        Err(RecvError::Lagged(_)) => {}
                        Err(RecvError::Closed) => break,
                    },
                    change = changes.recv() => match change {
                        Ok((changed, state)) if changed == id && !state.is_active() => break,
                        Ok((changed, _)) if changed == id => {
                            let job = app.scheduler.job(id).await.ok()??;
                            last = Some(job.state);
                            send(sender, "job", &View::new(job)).await?;
                        }
                        Ok(_) => {}
                        Err(RecvError::Lagged(_)) => break,
                        Err(RecvError::Closed) => return Some(()),
                    },
                }
            }
        } else {
            // It waits, or begins or ends just now.
            let changed = async {
                loop {
                    match changes.recv().await {
                        Ok((changed, _)) if changed != id => {}
                        _ => return,
                    }
                }
            };
            let _ = tokio::time::timeout(LOOK, changed).await;
        }
    }
}

/// Tells who moves a job of many hosts. What cannot be looked at now will be told later.
async fn tell_movers(app: &App, id: JobId, sender: &Sender) -> Option<()> {
    match app.fleet.standing(id).await {
        Ok(standing) => send(sender, "spread", &standing).await,
        Err(_) => Some(()),
    }
}

async fn send(sender: &Sender, name: &'static str, data: &impl Serialize) -> Option<()> {
    let event = Event::default().event(name).json_data(data).ok()?;
    sender.send(Ok(event)).await.ok()
}

/// The last epochs in a file that a job left; none if there is no such file.
async fn left(path: PathBuf) -> Vec<Epoch> {
    let read = move || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(path)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(LEFT)))?;
        let mut bytes = Vec::new();
        file.take(LEFT).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = tokio::task::spawn_blocking(read).await.ok().and_then(Result::ok).unwrap_or_default();
    // The first line may be cut, and the last one be under way.
    let lines = bytes.split(|byte| *byte == b'\n').filter_map(epoch_line::read);
    let mut epochs: Vec<Epoch> = lines.collect();
    epochs.drain(..epochs.len().saturating_sub(MAX_EPOCHS));
    epochs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_epochs_of_a_job_are_found_again() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("7.jsonl");
        assert!(left(path.clone()).await.is_empty());
        let stages = r#"{"read":1,"network":2,"write":3}"#;
        let line = |i: u64| {
            format!(
                "{{\"t_ms\":{i},\"interval_ms\":1,\"concurrency\":{stages},\"setpoint\":{stages},\
                 \"throughput_bps\":{stages},\"staging_free_bytes\":{{\"sender\":0,\"receiver\":0}},\
                 \"loss\":null,\"rtt_us\":null,\"utility\":null}}\n"
            )
        };
        let text: String = (0..6000).map(line).chain(["{\"t_ms\": 7".to_owned()]).collect();
        assert!(text.len() as u64 > LEFT);
        std::fs::write(&path, text).expect("written");
        let epochs = left(path).await;
        assert_eq!(epochs.len(), MAX_EPOCHS);
        assert_eq!(epochs.last().map(|epoch| epoch.t_ms), Some(5999));
    }
}
