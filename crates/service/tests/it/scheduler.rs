//! The scheduler against a mover that only pretends: limits and budgets, priorities, dependencies, retries, and
//! what users ask of jobs that run.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tidegate_contract::summary::{Files, Status, Summary};
use tidegate_control::{Arrival, BitRate, ByteCount, Concurrency, Epoch, PerStage, Rng};
use tidegate_service::history::{Decision, Transfer};
use tidegate_service::job::{Dependency, JobId, JobKind, Progress, Request, State};
use tidegate_service::mover::{BoxFuture, Class, Ended, Mover, Outcome, Run, StreamDemand};
use tidegate_service::queue::Queue;
use tidegate_service::scheduler::{Estimated, JobEstimator, Limits, Memory, Parts, Scheduler};
use tidegate_transfer::sys::sync::Mutex;
use tokio::sync::watch;

/// What a pretended job does.
type Script = Arc<dyn Fn(&Run) -> Ended + Send + Sync>;

/// What runs in the pretended mover, and what was seen.
#[derive(Default)]
struct Seen {
    running: HashMap<JobId, (String, watch::Receiver<u16>)>,
    begun: Vec<JobId>,
    starts: BTreeMap<JobId, Option<u16>>,
    most_running: usize,
    most_between: usize,
    /// The most streams of all jobs between two sites at any moment that was looked at.
    most_streams: u32,
}

#[derive(Clone)]
struct Pretender {
    seen: Arc<Mutex<Seen>>,
    script: Script,
    /// Jobs end when this is true.
    gate: watch::Receiver<bool>,
}

fn complete() -> Ended {
    let summary =
        Summary { status: Status::Complete, bytes: 7, duration_ms: 5, verified: true, ..Summary::default() };
    Ended { outcome: Outcome::Complete, message: String::new(), summary: Some(summary) }
}

impl Seen {
    fn look(&mut self) {
        self.most_running = self.most_running.max(self.running.len());
        let mut pairs: HashMap<&str, (usize, u32)> = HashMap::new();
        for (pair, share) in self.running.values() {
            let entry = pairs.entry(pair).or_default();
            *entry = (entry.0 + 1, entry.1 + u32::from(*share.borrow()));
        }
        for (jobs, streams) in pairs.into_values() {
            self.most_between = self.most_between.max(jobs);
            self.most_streams = self.most_streams.max(streams);
        }
    }
}

impl Mover for Pretender {
    fn run(&self, run: Run) -> BoxFuture<Ended> {
        let this = self.clone();
        Box::pin(async move {
            let pair = run.request.pair().expect("a pair").to_string();
            {
                let mut seen = this.seen.lock();
                seen.begun.push(run.id);
                seen.starts.insert(run.id, run.start);
                assert!(
                    seen.running.insert(run.id, (pair, run.share.clone())).is_none(),
                    "{} runs twice",
                    run.id
                );
                seen.look();
            }
            let epoch = Epoch {
                t_ms: 1000,
                interval_ms: 1000,
                concurrency: Concurrency::all(3),
                setpoint: Concurrency::all(3),
                throughput_bps: PerStage::all(BitRate::mbps(8)),
                remaining_bytes: Some(ByteCount(3_000_000)),
                arrived: Some(Arrival {
                    bytes: ByteCount(1_500_000),
                    new_bytes: ByteCount(1_000_000),
                    total_bytes: Some(ByteCount(3_000_000)),
                }),
                ..Epoch::default()
            };
            let _ = run.epochs.send(epoch).await;
            let (mut gate, mut stop) = (this.gate.clone(), run.stop.clone());
            let ended = tokio::select! {
                _ = gate.wait_for(|open| *open) => (this.script)(&run),
                _ = stop.wait_for(|stop| *stop) =>
                    Ended { outcome: Outcome::Stopped, message: "stopped".into(), summary: None },
            };
            let mut seen = this.seen.lock();
            seen.look();
            seen.running.remove(&run.id);
            ended
        })
    }

    fn demand(&self, request: &Request) -> StreamDemand {
        match request.route() {
            Ok(tidegate_spec::address::Route::GridFtp) => StreamDemand { most: 512, adapts: false },
            _ if !request.optimization => StreamDemand { most: 1, adapts: true },
            _ => StreamDemand { most: 512, adapts: true },
        }
    }
}

/// Estimates six streams, or fails.
struct Six(bool);

impl JobEstimator for Six {
    fn estimate(&self, request: Arc<Request>, _: u16) -> BoxFuture<Result<Estimated, String>> {
        let fails = self.0 || request.name.as_deref() == Some("unknown");
        Box::pin(async move {
            if fails {
                return Err("nobody answers".to_owned());
            }
            let answer = serde_json::json!({ "streams": 6 });
            Ok(Estimated { streams: 6, throughput: BitRate::mbps(600), reason: "measured".into(), answer })
        })
    }
}

#[derive(Default)]
struct Notes {
    decisions: Mutex<Vec<Decision>>,
    transfers: Mutex<Vec<Transfer>>,
}

impl Memory for Notes {
    fn decided(&self, decision: Decision) {
        self.decisions.lock().push(decision);
    }
    fn moved(&self, transfer: Transfer) {
        self.transfers.lock().push(transfer);
    }
}

struct World {
    directory: TempDir,
    scheduler: Scheduler,
    seen: Arc<Mutex<Seen>>,
    gate: watch::Sender<bool>,
    notes: Arc<Notes>,
}

async fn world(limits: Limits, open: bool, script: impl Fn(&Run) -> Ended + Send + Sync + 'static) -> World {
    let directory = tempfile::tempdir().expect("a directory");
    let (gate, _) = watch::channel(open);
    let seen = Arc::new(Mutex::new(Seen::default()));
    let notes = Arc::new(Notes::default());
    let scheduler = begin(&directory, limits, &gate, &seen, &notes, Arc::new(script)).await;
    World { directory, scheduler, seen, gate, notes }
}

async fn begin(
    directory: &TempDir,
    limits: Limits,
    gate: &watch::Sender<bool>,
    seen: &Arc<Mutex<Seen>>,
    notes: &Arc<Notes>,
    script: Script,
) -> Scheduler {
    let parts = Parts {
        queue: Arc::new(Queue::open(directory.path()).await.expect("opened")),
        mover: Arc::new(Pretender { seen: Arc::clone(seen), script, gate: gate.subscribe() }),
        estimator: Arc::new(Six(false)),
        memory: Arc::clone(notes) as Arc<dyn Memory>,
        limits,
        seed: 1,
    };
    Scheduler::start(parts).await.expect("started")
}

fn to(host: &str) -> Request {
    Request::transfer("/a", format!("tg://{host}/b"))
}

impl World {
    async fn submit(&self, requests: &[Request]) -> Vec<JobId> {
        self.scheduler.submit(requests).await.expect("taken")
    }

    async fn end(&self, id: JobId) -> tidegate_service::job::Job {
        let ended = tokio::time::timeout(Duration::from_secs(180), self.scheduler.wait(id)).await;
        ended.expect("it ended").expect("read").expect("there")
    }

    async fn state(&self, id: JobId) -> State {
        self.scheduler.job(id).await.expect("read").expect("there").state
    }

    async fn until(&self, what: impl Fn(&Seen) -> bool) {
        self.eventually(|| what(&self.seen.lock())).await;
    }

    async fn eventually(&self, what: impl Fn() -> bool) {
        let looks = async {
            while !what() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(180), looks).await.expect("it came true");
    }

    fn shares(&self) -> Vec<u16> {
        let seen = self.seen.lock();
        let mut shares: Vec<(JobId, u16)> =
            seen.running.iter().map(|(id, (_, share))| (*id, *share.borrow())).collect();
        shares.sort();
        shares.into_iter().map(|(_, share)| share).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_and_budgets_hold_whatever_is_asked() {
    let seed = 11;
    eprintln!("seed {seed}");
    let limits = Limits { jobs: 7, jobs_per_site: 5, jobs_per_pair: 3, streams_per_pair: 10 };
    let world = world(limits, false, |_| complete()).await;
    let mut rng = Rng::new(seed);
    let requests: Vec<Request> = (0..120)
        .map(|_| {
            let mut request = match rng.integer(0, 3) {
                0 => to("x"),
                1 => Request::transfer("tg://x/a", "tg://y/b"),
                2 => Request::transfer("gsiftp://g/a", "gsiftp://h/b"),
                _ => to("z"),
            };
            request.optimization = rng.integer(0, 3) > 0;
            request.priority = i32::from(rng.integer(0, 4));
            request
        })
        .collect();
    let ids = world.submit(&requests).await;
    // As many as limits admit, before any of them ends.
    world.until(|seen| seen.running.len() == 7).await;
    world.gate.send_replace(true);
    for id in ids {
        assert_eq!(world.end(id).await.state, State::Done);
    }
    let seen = world.seen.lock();
    assert_eq!(seen.begun.len(), 120);
    assert_eq!((seen.most_running, seen.most_between), (7, 3));
    assert!((2..=10).contains(&seen.most_streams), "{}", seen.most_streams);
    assert_eq!(world.notes.transfers.lock().len(), 120);
}

#[tokio::test]
async fn the_budget_is_shared_and_shared_again() {
    let limits = Limits { jobs_per_pair: 3, streams_per_pair: 10, ..Limits::default() };
    let world = world(limits, false, |_| complete()).await;
    let ids = world.submit(&[to("x"), to("x"), to("x"), to("x"), to("y")]).await;
    world.until(|seen| seen.running.len() == 4).await;
    assert_eq!(world.shares(), [4, 3, 3, 10]);
    assert_eq!(world.state(ids[3]).await, State::Queued);
    assert_eq!(world.scheduler.cancel(ids[0]).await, Ok(State::Cancelling));
    assert_eq!(world.end(ids[0]).await.state, State::Cancelled);
    world.until(|seen| seen.begun.contains(&ids[3])).await;
    assert_eq!(world.shares(), [4, 3, 3, 10]);
    // The estimate is where they begin, within their share.
    assert_eq!(world.seen.lock().starts[&ids[4]], Some(6));
    let told = |progress: Progress| (progress.bytes, progress.total_bytes);
    let wanted = (ByteCount(1_500_000), Some(ByteCount(3_000_000)));
    world.eventually(|| world.scheduler.live(ids[4]).is_some_and(|live| told(live.progress) == wanted)).await;
    world.gate.send_replace(true);
    for id in &ids[1..] {
        assert_eq!(world.end(*id).await.state, State::Done);
    }
    world.eventually(|| world.scheduler.live(ids[4]).is_none()).await;
    let decisions = world.notes.decisions.lock();
    let shared = decisions.iter().find(|decision| decision.action == "use up to 5 streams").expect("a share");
    assert!(shared.reason.contains("2 jobs share 10 streams"), "{shared:?}");
    assert!(
        decisions
            .iter()
            .any(|decision| decision.action == "start with 6 streams" && decision.reason == "measured")
    );
    assert!(decisions.iter().all(|decision| !decision.reason.is_empty() && decision.job.is_some()));
}

#[tokio::test]
async fn the_urgent_come_first_and_dependents_last() {
    let limits = Limits { jobs: 1, ..Limits::default() };
    let world = world(limits, false, |_| complete()).await;
    let first = world.submit(&[to("x")]).await[0];
    world.until(|seen| seen.running.len() == 1).await;
    let named = |name: &str, priority, after: &[&str]| Request {
        name: Some(name.to_owned()),
        priority,
        after: after.iter().map(|name| Dependency::Name((*name).to_owned())).collect(),
        ..to("y")
    };
    let batch = [named("a", 0, &[]), named("b", 9, &["a"]), named("c", 5, &[]), named("d", 5, &[])];
    let ids = world.submit(&batch).await;
    assert_eq!(world.state(ids[1]).await, State::Blocked);
    world.gate.send_replace(true);
    for id in &ids {
        world.end(*id).await;
    }
    let seen = world.seen.lock();
    assert_eq!(seen.begun, [first, ids[2], ids[3], ids[0], ids[1]]);
}

#[tokio::test]
async fn what_may_pass_is_tried_again_and_what_may_not_is_not() {
    let world = world(Limits::default(), true, |run| match run.request.name.as_deref() {
        Some("usage") => Ended::failed(Class::Usage, "no sense"),
        Some("gone") => Ended::failed(Class::NotFound, "no such file"),
        Some("lost") if run.attempt < 2 => Ended::failed(Class::Passing, "connection lost"),
        Some("never") => Ended::failed(Class::Passing, "connection lost"),
        _ => complete(),
    })
    .await;
    let named = |name: &str, retries| Request { name: Some(name.to_owned()), retries, ..to("x") };
    let mut after = named("after", 0);
    after.after = vec![Dependency::Name("gone".to_owned())];
    let batch = [named("usage", 5), named("gone", 5), named("lost", 5), named("never", 0), after];
    let ids = world.submit(&batch).await;
    let mut jobs = Vec::new();
    for id in &ids {
        jobs.push(world.end(*id).await);
    }
    let told: Vec<(State, u32, u32)> =
        jobs.iter().map(|job| (job.state, job.attempts, job.failures)).collect();
    use State::{Done, Failed};
    assert_eq!(told, [(Failed, 1, 0), (Failed, 1, 0), (Done, 2, 1), (Failed, 1, 0), (Failed, 0, 0)]);
    assert_eq!(jobs[3].reason, "connection lost (given up after 1 try)");
    assert!(jobs[4].reason.contains(&format!("job {}", ids[1])), "{}", jobs[4].reason);
    let decisions = world.notes.decisions.lock();
    assert!(decisions.iter().any(|decision| decision.action.starts_with("try again in")));
}

#[tokio::test]
async fn what_a_job_moved_is_what_all_of_its_tries_moved() {
    let world = world(Limits::default(), true, |run| {
        let try_of = |status, ok, skipped, bytes, unfinished_bytes| Summary {
            status,
            unfinished_bytes,
            files: Files { total: 5, ok, skipped, ..Files::default() },
            bytes,
            duration_ms: 10,
            ..Summary::default()
        };
        match run.attempt {
            1 => Ended {
                summary: Some(try_of(Status::Failed, 3, 0, 250, 50)),
                ..Ended::failed(Class::Passing, "connection lost")
            },
            _ => Ended {
                outcome: Outcome::Complete,
                message: String::new(),
                summary: Some(try_of(Status::Complete, 1, 4, 100, 0)),
            },
        }
    })
    .await;
    let at = |name: &str| Some(world.directory.path().join(name));
    let request = Request { log: at("log"), output: at("out"), ..to("x") };
    let job = world.end(world.submit(&[request]).await[0]).await;
    let summary = job.summary.expect("moved");
    assert_eq!((job.state, job.attempts, summary.bytes, summary.duration_ms), (State::Done, 2, 400, 20));
    assert_eq!(summary.files, Files { total: 5, ok: 4, skipped: 1, ..Files::default() });
    let read = |name| std::fs::read_to_string(at(name).expect("named")).expect("left");
    world.eventually(|| read("log").contains(" DONE 400 B ")).await;
    assert_eq!(serde_json::from_str::<Summary>(&read("out")).expect("JSON"), summary);
    // History has each try for itself.
    let transfers = world.notes.transfers.lock();
    assert_eq!(transfers.iter().map(|moved| moved.bytes.0).collect::<Vec<_>>(), [250, 100]);
}

#[tokio::test]
async fn an_outage_is_outlived_by_time_and_what_was_given_up_is_tried_again() {
    let back = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_back = Arc::clone(&back);
    let world = world(Limits::default(), true, move |run| match run.request.name.as_deref() {
        Some("short") if run.attempt < 4 => Ended::failed(Class::Unreachable, "nobody answers"),
        _ if is_back.load(std::sync::atomic::Ordering::SeqCst) => complete(),
        _ => Ended::failed(Class::Unreachable, "nobody answers (given up after 30 seconds)"),
    })
    .await;
    // No number of tries ends it, only time does.
    let named =
        |name: &str, retry_for_s| Request { name: Some(name.to_owned()), retries: 0, retry_for_s, ..to("x") };
    let ids = world.submit(&[named("short", 3600), named("long", 1), named("never", 0)]).await;
    let job = world.end(ids[1]).await;
    assert_eq!((job.state, job.failures), (State::Failed, 0));
    assert!(job.reason.starts_with("nobody answers (given up after ") && job.attempts >= 2, "{job:?}");
    let job = world.end(ids[2]).await;
    assert_eq!((job.state, job.attempts), (State::Failed, 1), "{job:?}");
    back.store(true, std::sync::atomic::Ordering::SeqCst);
    // The one that still waits for the same reason is tried at once, too, unless it runs just now.
    let retried = world.scheduler.retry(ids[1], true).await;
    assert!(matches!(retried, Ok(2 | 3)), "{retried:?}");
    for (id, attempts) in [(ids[0], 4), (ids[1], 0), (ids[2], 2)] {
        let job = world.end(id).await;
        assert_eq!(job.state, State::Done, "{job:?}");
        assert!(attempts == 0 || job.attempts == attempts, "{job:?}");
    }
    assert!(world.scheduler.retry(ids[0], false).await.is_err(), "what is done is done");
}

#[tokio::test]
async fn a_job_is_paused_and_goes_on_and_an_estimation_waits_for_nobody() {
    let limits = Limits { jobs: 1, ..Limits::default() };
    let world = world(limits, false, |_| complete()).await;
    let ids = world.submit(&[to("x"), to("x")]).await;
    world.until(|seen| seen.running.len() == 1).await;
    let estimation = Request { kind: JobKind::Estimation, bytes: Some(ByteCount::gib(10)), ..to("x") };
    let unknown = Request { name: Some("unknown".to_owned()), ..estimation.clone() };
    let asked = world.submit(&[estimation, unknown]).await;
    let answered = world.end(asked[0]).await;
    assert_eq!((answered.state, &answered.reason[..]), (State::Done, "6 streams, 600 Mbit/s"));
    assert_eq!(
        answered.summary.and_then(|summary| summary.estimate),
        Some(serde_json::json!({ "streams": 6 }))
    );
    let failed = world.end(asked[1]).await;
    assert_eq!((failed.state, &failed.reason[..]), (State::Failed, "nobody answers"));

    assert_eq!(world.scheduler.pause(ids[0]).await, Ok(State::Pausing));
    world.until(|seen| seen.running.contains_key(&ids[1])).await;
    assert_eq!(world.state(ids[0]).await, State::Paused);
    assert!(world.scheduler.pause(ids[0]).await.is_err());
    assert_eq!(world.scheduler.resume(ids[0]).await, Ok(State::Queued));
    world.gate.send_replace(true);
    assert_eq!(world.end(ids[0]).await.state, State::Done);
    assert!(world.scheduler.cancel(ids[0]).await.is_err());
    let job = world.end(ids[0]).await;
    assert_eq!((job.attempts, job.failures), (2, 0));
}

#[tokio::test]
async fn a_service_that_stops_leaves_its_jobs_to_the_next() {
    let world = world(Limits::default(), false, |_| complete()).await;
    let log = world.directory.path().join("job.log");
    let request = Request { log: Some(log.clone()), ..to("x") };
    let ids = world.submit(&[request, to("y")]).await;
    world.until(|seen| seen.running.len() == 2).await;
    world.scheduler.stop().await;
    for id in &ids {
        assert_eq!(world.state(*id).await, State::Queued);
    }
    world.scheduler.queue().close().await;
    let World { directory, scheduler, seen, gate, notes } = world;
    drop(scheduler);
    // The lock is free once its last user is gone.
    let mut tries = 0;
    while Queue::open(directory.path()).await.is_err() {
        tries += 1;
        assert!(tries < 500, "the queue stays locked");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    gate.send_replace(true);
    let next =
        begin(&directory, Limits::default(), &gate, &seen, &notes, Arc::new(|_: &Run| complete())).await;
    for id in &ids {
        let job = tokio::time::timeout(Duration::from_secs(180), next.wait(*id)).await.expect("it ended");
        let job = job.expect("read").expect("there");
        assert_eq!((job.state, job.attempts), (State::Done, 2));
    }
    // The log tells of an end once it is written down.
    let mut tries = 0;
    let text = loop {
        let text = std::fs::read_to_string(&log).expect("a log");
        tries += 1;
        if text.lines().count() >= 6 || tries > 500 {
            break text;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let events: Vec<&str> = text.lines().filter_map(|line| line.split(' ').nth(3)).collect();
    assert_eq!(events, ["SUBMITTED", "STARTED", "ESTIMATE", "STARTED", "ESTIMATE", "DONE"]);
}
