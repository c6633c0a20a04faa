//! The whole service: history, queue, scheduler and API put together, kept tidy, and ended in order.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tidegate_control::units::UnitError;
use tidegate_control::{BitRate, ByteCount};

use crate::api::{Api, Config, DIRECTORY, EpochFiles, Parts};
use crate::database::DatabaseError;
use crate::estimate::{self, Answer, Program, Terms};
use crate::history::{History, Recorder, Retention, Timestamp};
use crate::job::address::local;
use crate::job::names::Names;
use crate::job::{Kind, Request};
use crate::mover::{BoxFuture, Mover};
use crate::queue::{Queue, QueueError};
use crate::scheduler::{self, Estimated, Limits, Scheduler};

/// How long jobs that have ended are kept in the queue; history keeps what was learned from them.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// How often what is too old is forgotten.
const TIDYING: Duration = Duration::from_secs(3600);
/// Longest wait for history to be written at the end.
const FLUSHING: Duration = Duration::from_secs(5);
/// What a job is taken to move where nobody knows: enough for sampling to pay, as of most jobs it does.
const UNKNOWN_SIZE: ByteCount = ByteCount::gib(1);

/// What a service is started with.
pub struct Options {
    /// How it is reached, and where its state lies.
    pub api: Config,
    /// Where history is kept.
    pub database: String,
    /// How much may run at the same time.
    pub limits: Limits,
    /// What measures.
    pub program: Program,
    /// What knows remembered endpoints by their names.
    pub names: Names,
    /// What moves; made once a runtime is there.
    pub mover: Box<dyn FnOnce() -> io::Result<Arc<dyn Mover>> + Send>,
    /// Where a job leaves its epochs.
    pub epochs: EpochFiles,
    /// Of pauses drawn by chance.
    pub seed: u64,
}

/// Why a service did not start: one line.
#[derive(Debug, Error)]
pub enum StartError {
    /// It cannot listen, or its files cannot be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// History cannot be opened.
    #[error("{0}")]
    History(#[from] DatabaseError),
    /// The queue cannot be opened.
    #[error("{0}")]
    Queue(#[from] QueueError),
}

/// Runs a service until `stop`; `ready` hears its address and the link that signs a browser in.
pub async fn run(
    options: Options,
    ready: impl FnOnce(&str, &str),
    stop: impl Future<Output = ()>,
) -> Result<(), StartError> {
    let Options { api: config, database, limits, program, names, mover, epochs, seed } = options;
    let listener = Api::listen(&config)?;
    let queue = Arc::new(Queue::open(&config.state.join(DIRECTORY)).await?.with_names(names.clone()));
    let history = History::open(&database).await?;
    let recorder = Recorder::start(history.clone());
    let estimator = estimate::Estimator::with_names(program, Some(history.clone()), names);
    let parts = scheduler::Parts {
        queue: Arc::clone(&queue),
        mover: mover()?,
        estimator: Arc::new(Chooser(estimator.clone())),
        memory: Arc::new(recorder.clone()),
        limits,
        seed,
    };
    let scheduler = Scheduler::start(parts).await?;
    let tidying = tokio::spawn(tidy(history.clone(), Arc::clone(&queue)));
    let parts = Parts { history: history.clone(), estimator, scheduler: scheduler.clone(), epochs };
    let api = Api::new(listener, &config, parts)?;
    ready(&api.url(), &api.sign_in_link());
    api.serve(stop).await;
    tidying.abort();
    scheduler.stop().await;
    if !recorder.flush(FLUSHING).await {
        tracing::warn!("some of what happened last is not in the history");
    }
    queue.close().await;
    history.close().await;
    Ok(())
}

/// Forgets what is too old, now and then.
async fn tidy(history: History, queue: Arc<Queue>) {
    loop {
        let now = Timestamp::now();
        if let Err(error) = history.retain(&Retention::default(), now).await {
            tracing::warn!("history keeps what is too old: {error}");
        }
        if let Err(error) = queue.forget(now.before(KEPT).0).await {
            tracing::warn!("the queue keeps what is too old: {error}");
        }
        tokio::time::sleep(TIDYING).await;
    }
}

/// Answers the scheduler by estimates.
struct Chooser(estimate::Estimator);

impl scheduler::Estimator for Chooser {
    fn estimate(&self, request: Arc<Request>, most: u16) -> BoxFuture<Result<Estimated, String>> {
        let estimator = self.0.clone();
        Box::pin(async move {
            let asked = asked(&request, most).await?;
            let answer = estimator.estimate(&asked, &mut |_| {}).await.map_err(|error| error.to_string())?;
            estimated(&request, &answer)
        })
    }
}

/// What is asked of the estimator for a job.
async fn asked(request: &Request, most: u16) -> Result<estimate::Request, String> {
    let source = request.sources.first().ok_or("it has no source")?;
    let bytes = match request.bytes {
        Some(bytes) => bytes,
        None => size_of(&request.sources).await.unwrap_or(UNKNOWN_SIZE),
    };
    let rate = |name: &str| -> Result<Option<BitRate>, String> {
        let parse = |text: &str| text.parse().map_err(|error: UnitError| error.to_string());
        option(&request.options, name).map(parse).transpose()
    };
    let terms = Terms {
        clear: option(&request.options, "--data-plane") == Some("clear"),
        limit_network: rate("--limit-network")?,
        limit_link: rate("--limit-link")?,
    };
    Ok(estimate::Request {
        most_streams: most,
        use_history: request.use_history,
        sample_bytes: request.sample_bytes,
        buffer_bytes: request.buffer_bytes,
        x509proxy: request.x509proxy.clone(),
        terms,
        ..estimate::Request::new(source.clone(), request.destination.clone(), bytes)
    })
}

/// The size of sources that are files of this host; nothing else is known without asking somebody.
async fn size_of(sources: &[String]) -> Option<ByteCount> {
    let mut sum = ByteCount(0);
    for source in sources {
        let path = local(source).into_owned();
        if !path.starts_with('/') {
            return None;
        }
        let about = tokio::fs::metadata(Path::new(&path)).await.ok()?;
        if !about.is_file() {
            return None;
        }
        sum += ByteCount(about.len());
    }
    Some(sum)
}

/// The last value of an option, in either way of writing.
fn option<'a>(options: &'a [String], name: &str) -> Option<&'a str> {
    let mut found = None;
    let mut words = options.iter();
    while let Some(word) = words.next() {
        match word.strip_prefix(name) {
            Some("") => found = words.next().map(String::as_str),
            Some(rest) if rest.starts_with('=') => found = rest.strip_prefix('='),
            _ => {}
        }
    }
    found
}

fn estimated(request: &Request, answer: &Answer) -> Result<Estimated, String> {
    match answer.throughput_bps {
        // An estimation is answered with what there is; a transfer is better begun as its rule does.
        None if request.kind == Kind::Transfer => Err(answer.reason.clone()),
        throughput => Ok(Estimated {
            streams: answer.streams,
            throughput: throughput.unwrap_or(BitRate::ZERO),
            reason: answer.reason.clone(),
            answer: serde_json::to_value(answer).map_err(|error| error.to_string())?,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_job_is_estimated_as_it_will_be_moved() {
        let scratch = tempfile::tempdir().expect("a directory");
        let file = scratch.path().join("data");
        std::fs::write(&file, [0; 5000]).expect("written");
        let mut request = Request::transfer(file.to_str().expect("text"), "tg://dtn/in");
        request.options = ["--limit-network", "80Mbit/s", "--data-plane=clear", "--limit-network=90Mbit/s"]
            .map(str::to_owned)
            .to_vec();
        let asked = asked(&request, 12).await.expect("asked");
        assert_eq!((asked.bytes, asked.most_streams), (ByteCount(5000), 12));
        let limit = Some(BitRate::mbps(90));
        assert_eq!(asked.terms, Terms { clear: true, limit_network: limit, limit_link: None });
        request.sources.push("tg://other/x".to_owned());
        assert_eq!(size_of(&request.sources).await, None);
        assert_eq!(option(&["--limit-networks=1".to_owned()], "--limit-network"), None);
    }

    #[test]
    fn a_transfer_of_which_nothing_is_known_begins_as_its_rule_does() {
        let mut request = Request::transfer("/a", "tg://dtn/in");
        let pair = request.pair().expect("a pair");
        let answer = Answer::unknown(pair, ByteCount(1), "too small");
        assert_eq!(estimated(&request, &answer), Err("too small".to_owned()));
        request.kind = Kind::Estimation;
        assert_eq!(estimated(&request, &answer).map(|estimated| estimated.streams), Ok(1));
    }
}
