//! A job that many hosts move, as the scheduler sees it: it is followed until its shards are at their end.

use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::error_kind::ErrorKind;
use tidegate_contract::summary::{FailedFile, Files, Status, Summary};
use tidegate_contract::text::count;
use tidegate_control::{Arrival, BitRate, ByteCount, Epoch, PerStage};
use tidegate_fleet::shards::{Fleet, FleetError, Standing};
use tokio::time::{Instant, sleep};

use crate::history::Timestamp;
use crate::job::{JobKind, Request};
use crate::mover::{BoxFuture, Class, Ended, Mover, Outcome, Run, StreamDemand};

/// How often it is looked at: what its epochs are.
const LOOK: Duration = Duration::from_secs(1);

/// How long a job may be there before it is begun by whoever submitted it.
const BEGINNING: Duration = Duration::from_secs(30);

/// Failures that a summary tells.
const FAILURES: u32 = 100;

/// Follows jobs of many hosts, and leaves the others to another mover.
pub(crate) struct Spreading {
    /// What other jobs are moved by.
    pub others: Arc<dyn Mover>,
    /// The shards.
    pub fleet: Arc<Fleet>,
}

impl Mover for Spreading {
    fn run(&self, run: Run) -> BoxFuture<Ended> {
        if run.request.kind != JobKind::Spread {
            return self.others.run(run);
        }
        let fleet = Arc::clone(&self.fleet);
        Box::pin(async move { follow(&fleet, run).await })
    }

    fn demand(&self, request: &Request) -> StreamDemand {
        match request.kind {
            // Movers are elsewhere, and share nothing with the jobs of this host.
            JobKind::Spread => StreamDemand { most: 1, adapts: true },
            _ => self.others.demand(request),
        }
    }
}

async fn follow(fleet: &Fleet, run: Run) -> Ended {
    let Run { id, submitted_ms, mut stop, epochs, .. } = run;
    let began = Instant::now();
    loop {
        tokio::select! {
            () = sleep(LOOK) => {}
            _ = stop.wait_for(|stop| *stop) => {
                let message = "stopped; whoever moves goes on if the job does".to_owned();
                return Ended { outcome: Outcome::Stopped, message, summary: None };
            }
        }
        // Whoever looks ends the leases of those who do not answer any more.
        if let Err(error) = fleet.sweep().await {
            tracing::warn!("job {id}: {error}");
        }
        let standing = match fleet.standing(id).await {
            Ok(standing) => standing,
            Err(FleetError::NotSpread(_)) if began.elapsed() < BEGINNING => continue,
            Err(FleetError::NotSpread(_)) => return Ended::failed(Class::Usage, "nobody began to list it"),
            Err(error) => {
                tracing::warn!("job {id}: {error}");
                continue;
            }
        };
        // One that is not taken in time is dropped.
        let _ = epochs.try_send(epoch(&standing, began.elapsed()));
        if standing.has_ended() {
            // What has arrived did so since it was submitted, whichever service followed it.
            let lasted = u64::try_from(Timestamp::now().0.saturating_sub(submitted_ms)).unwrap_or(0);
            return ended(fleet, &run.request, id, &standing, Duration::from_millis(lasted)).await;
        }
        if fleet.lister_is_gone(id).await.unwrap_or(false) {
            if let Err(error) = fleet.cancel(id).await {
                tracing::warn!("job {id}: {error}");
            }
            let why = "whoever listed it is gone: run `tidegate spread` again, which skips what arrived";
            return Ended::failed(Class::Usage, why);
        }
    }
}

/// All movers as one.
fn epoch(standing: &Standing, elapsed: Duration) -> Epoch {
    let sum = |of: fn(&tidegate_fleet::shards::MoverStanding) -> u64| {
        standing.movers.iter().filter(|mover| mover.leases > 0).map(of).sum::<u64>()
    };
    let streams = u16::try_from(sum(|mover| mover.streams)).unwrap_or(u16::MAX);
    let total = (standing.state != "listing").then_some(ByteCount(standing.bytes));
    let bytes = ByteCount((standing.done_bytes + standing.moving_bytes).min(standing.bytes));
    Epoch {
        t_ms: elapsed.as_millis() as u64,
        interval_ms: LOOK.as_millis() as u64,
        concurrency: PerStage::all(streams),
        setpoint: PerStage::all(streams),
        throughput_bps: PerStage::all(BitRate(sum(|mover| mover.throughput_bps))),
        remaining_bytes: total.map(|total| total.saturating_sub(bytes)),
        arrived: Some(Arrival { bytes, new_bytes: bytes, total_bytes: total }),
        ..Epoch::default()
    }
}

/// The kind of this name.
fn kind_of(name: &str) -> ErrorKind {
    serde_json::from_value(name.into()).unwrap_or(ErrorKind::Io)
}

async fn ended(
    fleet: &Fleet,
    request: &Request,
    id: crate::job::JobId,
    standing: &Standing,
    duration: Duration,
) -> Ended {
    let failures = fleet.failures(id, FAILURES).await.unwrap_or_default();
    let failures: Vec<FailedFile> = failures
        .into_iter()
        .map(|(path, kind, message)| FailedFile { path, kind: kind_of(&kind), message, errno: None })
        .collect();
    let failed = standing.failed_files;
    let cancelled = standing.state == "cancelled";
    let status = Status::of(cancelled.then_some(ErrorKind::Interrupted), failed);
    let summary = Summary {
        status,
        verified: status == Status::Complete,
        files: Files { total: standing.files, ok: standing.done_files, failed, ..Files::default() },
        bytes: standing.done_bytes,
        duration_ms: duration.as_millis() as u64,
        goodput_bps: BitRate::over(ByteCount(standing.done_bytes), duration).0,
        optimizer: request.optimizer().unwrap_or("auto").to_owned(),
        failures,
        ..Summary::default()
    };
    let (outcome, message) = match status {
        Status::Complete => (Outcome::Complete, String::new()),
        Status::Interrupted => (Outcome::Stopped, "cancelled".to_owned()),
        _ => {
            let why = format!("{} could not be moved by anybody", count(failed, "file"));
            (Outcome::Failed(Class::Usage), why)
        }
    };
    Ended { outcome, message, summary: Some(summary) }
}
