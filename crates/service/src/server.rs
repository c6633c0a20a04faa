//! The whole service: history, queue, scheduler and API put together, kept tidy, and ended in order.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tidegate_transfer::wire::ticket::Place;

use tidegate_database::DatabaseError;
use tidegate_fleet::shards::{Fleet, FleetError};
use tidegate_http::listener::{Listener, Renewal};
use tokio::sync::mpsc;

use crate::api::{Api, ApiParts, Config, DIRECTORY, EpochFiles, note_url, share_token};
use crate::estimate::{self, Program};
use crate::history::{History, Recorder, Retention, Timestamp};
use crate::mover::Mover;
use crate::names::Names;
use crate::queue::{FILE, Queue, QueueError, SharedQueue, hold};
use crate::scheduler::{self, Chooser, Limits, Scheduler, Sizes};
use crate::spread::Spreading;
use crate::standby;

/// How long jobs that have ended are kept in the queue; history keeps what was learned from them.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// How often what is too old is forgotten.
const TIDYING: Duration = Duration::from_secs(3600);
/// Longest wait for history to be written at the end.
const FLUSHING: Duration = Duration::from_secs(5);

/// What a service is started with.
pub struct Options {
    /// How it is reached, and where its state lies.
    pub api: Config,
    /// Where history is kept.
    pub database: String,
    /// Whether the queue is there too, which must be PostgreSQL, and shared with other services, one of which works on it.
    pub sharing: Option<Sharing>,
    /// How much of history is kept.
    pub retention: Retention,
    /// How much may run at the same time.
    pub limits: Limits,
    /// What measures.
    pub program: Program,
    /// What finds out how much a job moves.
    pub sizes: Sizes,
    /// What knows remembered endpoints by their names.
    pub names: Names,
    /// What moves; made once a runtime is there.
    pub mover: Box<dyn FnOnce() -> io::Result<Arc<dyn Mover>> + Send>,
    /// Where a job leaves its epochs.
    pub epochs: EpochFiles,
    /// How long a lease of shards holds without being renewed.
    pub lease_term: Duration,
    /// Of pauses drawn by chance.
    pub seed: u64,
    /// Has the certificate read again whenever something comes.
    pub renewals: mpsc::Receiver<()>,
}

/// A queue that services share.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    /// Where the others reach this one, unless that is where it listens.
    pub reached_at: Option<Place>,
}

/// What is to be known of a service from outside, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready<'a> {
    /// It is asked here: it works, or another one does, to which it passes on.
    Listens(&'a str),
    /// It works, and this link signs a browser in.
    Works(&'a str),
}

/// Why a service did not start: one line.
#[derive(Debug, Error)]
pub enum StartError {
    /// It cannot listen, or its files cannot be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// What many hosts move cannot be opened.
    #[error("{0}")]
    Fleet(#[from] FleetError),
    /// History cannot be opened.
    #[error("{0}")]
    History(#[from] DatabaseError),
    /// The queue cannot be opened.
    #[error("{0}")]
    Queue(#[from] QueueError),
}

/// Runs a service until `stop`; `ready` hears how it can be asked.
pub async fn run(
    options: Options,
    mut ready: impl FnMut(Ready<'_>),
    stop: impl Future<Output = ()>,
) -> Result<(), StartError> {
    let Options {
        api: config,
        database,
        sharing,
        retention,
        limits,
        program,
        sizes,
        names,
        mover,
        epochs,
        lease_term,
        seed,
        renewals,
    } = options;
    let mut stop = std::pin::pin!(stop);
    let own = config.state.join(DIRECTORY);
    // Whether that was said.
    let mut listens = false;
    let mut _held = None;
    let mut renewals = Some(renewals);
    let mut listen = || -> io::Result<Listener> {
        let listener = Api::listen(&config)?;
        renewals.take().map(|renewals| tokio::spawn(renew(listener.renewal(), renewals)));
        Ok(listener)
    };
    let (listener, queue) = match &sharing {
        None => {
            let queue = Queue::open(&own).await?;
            (listen()?, queue)
        }
        Some(sharing) => {
            nothing_waits(&own).await?;
            _held = Some(hold(&own)?);
            let shared = SharedQueue::open(&database).await?;
            share_token(&own, &shared).await?;
            let listener = listen()?;
            let place = standby::place(&listener, sharing.reached_at.as_ref());
            let queue = match shared.try_take(&place).await? {
                Some(queue) => queue,
                None => {
                    note_url(&config, &listener.url())?;
                    ready(Ready::Listens(&listener.url()));
                    listens = true;
                    // Who waits for another service's end may be stopped as well.
                    tokio::select! {
                        ours = standby::until_ours(&shared, &listener, &place) => ours?,
                        () = &mut stop => return Ok(()),
                    }
                }
            };
            (listener, queue)
        }
    };
    let queue = Arc::new(queue.with_names(names.clone()));
    let history = History::open(&database).await?;
    let fleet = match &sharing {
        Some(_) => Fleet::open_at(&database).await?,
        None => Fleet::open(&own).await?,
    };
    let fleet = Arc::new(fleet.with_term(lease_term));
    let recorder = Recorder::start(history.clone());
    let estimator = estimate::Estimator::with_names(program, Some(history.clone()), names);
    let parts = scheduler::Parts {
        queue: Arc::clone(&queue),
        mover: Arc::new(Spreading { others: mover()?, fleet: Arc::clone(&fleet) }),
        estimator: Arc::new(Chooser::new(estimator.clone(), sizes)),
        memory: Arc::new(recorder.clone()),
        limits,
        seed,
    };
    let scheduler = Scheduler::start(parts).await?;
    let tidying = tokio::spawn(tidy(history.clone(), retention, Arc::clone(&queue), Arc::clone(&fleet)));
    let watching = tokio::spawn({
        let history = history.clone();
        async move { history.watch().await }
    });
    let parts = ApiParts {
        history: history.clone(),
        estimator,
        scheduler: scheduler.clone(),
        fleet: Arc::clone(&fleet),
        epochs,
    };
    let api = Api::new(listener, &config, parts)?;
    if !listens {
        note_url(&config, &api.url())?;
        ready(Ready::Listens(&api.url()));
    }
    ready(Ready::Works(&api.sign_in_link()));
    let mut taken_over = false;
    let ended = async {
        tokio::select! {
            () = stop => {}
            () = queue.taken_over() => taken_over = true,
        }
    };
    api.serve(ended).await;
    tidying.abort();
    watching.abort();
    scheduler.stop().await;
    if !recorder.flush(FLUSHING).await {
        tracing::warn!("some of what happened last is not in the history");
    }
    queue.close().await;
    fleet.close().await;
    history.close().await;
    match taken_over {
        true => Err(QueueError::Busy(queue.place().to_owned()).into()),
        false => Ok(()),
    }
}

/// Reads the certificate again as often as that is asked for.
async fn renew(renewal: Renewal, mut asked: mpsc::Receiver<()>) {
    while asked.recv().await.is_some() {
        renewal.renew_and_tell();
    }
}

/// Makes sure that no jobs wait in the queue of a service's own, before it shares another: nobody would begin them.
async fn nothing_waits(own: &Path) -> Result<(), QueueError> {
    if own.join(FILE).exists() {
        let local = Queue::open(own).await?;
        let waiting = local.waiting();
        local.close().await;
        if waiting > 0 {
            let message =
                format!("{} in it: let them end in a service without --shared-queue", waits(waiting));
            return Err(QueueError::Database { path: local.place().to_owned(), message });
        }
    }
    Ok(())
}

fn waits(jobs: u64) -> String {
    if jobs == 1 { "1 job waits".to_owned() } else { format!("{jobs} jobs wait") }
}

/// Forgets what is too old, now and then.
async fn tidy(history: History, retention: Retention, queue: Arc<Queue>, fleet: Arc<Fleet>) {
    loop {
        let now = Timestamp::now();
        if let Err(error) = history.retain(&retention, now).await {
            tracing::warn!("history keeps what is too old: {error}");
        }
        if let Err(error) = queue.forget(now.before(KEPT).0).await {
            tracing::warn!("the queue keeps what is too old: {error}");
        }
        if let Err(error) = fleet.forget(KEPT).await {
            tracing::warn!("shards that are too old are kept: {error}");
        }
        tokio::time::sleep(TIDYING).await;
    }
}
