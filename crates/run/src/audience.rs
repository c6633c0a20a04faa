//! Who is told of a run while it goes on, whatever they make of it: a view on a terminal, a program that asks, nobody.

use std::sync::Arc;

use tidegate_control::{ByteCount, Concurrency, Epoch, Stage};
use tidegate_transfer::ledger::Ledger;

use crate::told;

/// A file under way.
#[derive(Clone, Debug)]
pub struct FileBar {
    /// What it is called.
    pub name: String,
    /// Bytes that are there.
    pub done: u64,
    /// Its size, if known.
    pub bytes: Option<u64>,
}

/// Tells which files are under way.
pub type UnderWay = Box<dyn Fn() -> Vec<FileBar> + Send>;

/// One try of a job that has begun.
pub struct Attempt<'a> {
    /// What the job is called.
    pub title: &'a str,
    /// The stages that it has.
    pub stages: &'static [Stage],
    /// Memory between them, at each end.
    pub staging: ByteCount,
    /// What counts what it moves.
    pub ledger: &'a Arc<Ledger>,
    /// What tells of single files, where that is known.
    pub under_way: Option<UnderWay>,
    /// The workers that it begins with.
    pub start: Concurrency,
}

/// Whoever is told of a run.
pub trait Audience {
    /// Hears what is wrong, in one line.
    fn complain(&self, text: &str);

    /// Follows a try until the answer is dropped.
    fn follow(&self, attempt: Attempt<'_>) -> Box<dyn Follower>;
}

/// Whoever follows one try.
pub trait Follower {
    /// Hears of an epoch, and of the workers that it leaves to the next one.
    fn show(&self, epoch: &Epoch);
}

/// Hears of nothing but what is wrong, as one of the lines for people.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Audience for Nobody {
    fn complain(&self, text: &str) {
        told::complain(text);
    }

    fn follow(&self, _: Attempt<'_>) -> Box<dyn Follower> {
        Box::new(Self)
    }
}

impl Follower for Nobody {
    fn show(&self, _: &Epoch) {}
}
