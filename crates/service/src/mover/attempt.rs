//! One attempt at a job: what it is given, and how it ended.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tidegate_contract::error_kind::{ErrorKind, Retry};
use tidegate_contract::summary::Summary;
use tidegate_control::Epoch;
use tokio::sync::{mpsc, watch};

use crate::job::{JobId, Request};

/// A future that may be kept beside others of its kind.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Moves the data of jobs.
pub trait Mover: Send + Sync + 'static {
    /// Runs one attempt to its end.
    fn run(&self, run: Run) -> BoxFuture<Ended>;

    /// How many streams a job of that kind can use.
    fn demand(&self, request: &Request) -> StreamDemand;
}

/// How many streams a job can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamDemand {
    /// No more than these.
    pub most: u16,
    /// Whether that can be changed while it runs; otherwise it keeps what it begins with.
    pub adapts: bool,
}

/// One attempt at a job.
#[derive(Debug)]
pub struct Run {
    /// The job.
    pub id: JobId,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// When the job was submitted, in ms since the epoch.
    pub submitted_ms: i64,
    /// What is to be done.
    pub request: Arc<Request>,
    /// What its learned rule decides by: the content of a policy file.
    pub policy: Option<Vec<u8>>,
    /// Streams to begin with; the rule's own beginning if there are none.
    pub start: Option<u16>,
    /// The most streams there can ever be, whatever becomes of the share.
    pub most: u16,
    /// The most streams for now; changes while the job runs.
    pub share: watch::Receiver<u16>,
    /// Becomes true when it is to stop where it can go on later.
    pub stop: watch::Receiver<bool>,
    /// Hears each epoch; one that is not taken in time is dropped.
    pub epochs: mpsc::Sender<Epoch>,
    /// Hears of each end that is away, without secrets; what is not taken in time is dropped.
    pub(crate) outages: mpsc::Sender<Away>,
}

/// What an attempt waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Away {
    /// Why, in one line without secrets.
    pub why: String,
    /// Whether an end is not reached; otherwise it answered.
    pub is_away: bool,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// In one word.
    pub outcome: Outcome,
    /// In one line, without secrets.
    pub message: String,
    /// In numbers, where there are any.
    pub summary: Option<Summary>,
}

/// How an attempt ended, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is at its destination.
    Complete,
    /// It stopped because it was asked to.
    Stopped,
    /// It failed.
    Failed(Class),
}

/// A class of errors: what trying again may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// What was asked makes no sense, or a program is missing.
    Usage,
    /// The source does not exist.
    NotFound,
    /// Refused, and it will be refused again.
    Denied,
    /// The destination is full: somebody may make room.
    NoSpace,
    /// An end does not answer, or the destination is in use: an outage, which is outlived by time.
    Unreachable,
    /// Anything else that may pass: a damaged file, a program that was killed.
    Passing,
}

impl Class {
    /// That of an error.
    pub const fn of(kind: ErrorKind) -> Self {
        match (kind, kind.retry()) {
            (ErrorKind::Usage, _) => Self::Usage,
            (ErrorKind::NotFound, _) => Self::NotFound,
            (ErrorKind::NoSpace, _) => Self::NoSpace,
            // Who is busy may be so for long: that is timed, too.
            (ErrorKind::Busy, _) | (_, Retry::Outage) => Self::Unreachable,
            (_, Retry::Never) => Self::Denied,
            (_, Retry::Later) => Self::Passing,
        }
    }

    /// Whether the job is tried again: so often, or for so long.
    pub const fn retry(self) -> Retry {
        match self {
            Self::Usage | Self::NotFound | Self::Denied => Retry::Never,
            Self::NoSpace | Self::Passing => Retry::Later,
            Self::Unreachable => Retry::Outage,
        }
    }

    /// Its name in decisions and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::NotFound => "not_found",
            Self::Denied => "denied",
            Self::NoSpace => "no_space",
            Self::Unreachable => "unreachable",
            Self::Passing => "passing",
        }
    }
}

tidegate_control::named!(Class);

impl Ended {
    /// A failure that there is nothing more to say of.
    pub fn failed(class: Class, message: impl Into<String>) -> Self {
        Self { outcome: Outcome::Failed(class), message: message.into(), summary: None }
    }
}
