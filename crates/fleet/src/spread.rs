//! One copy by many hosts, from the first name that is listed to the last shard: what whoever asked for it does meanwhile.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_contract::job_id::JobId;
use tidegate_control::{BitRate, ByteCount};
use tidegate_transfer::error::{Error, ErrorKind, Result, Retry};
use tidegate_transfer::selection::Selection;
use tidegate_transfer::transfer::Interrupt;

use crate::client::{PATIENCE, Service};
use crate::engine::{Engine, Movers, Started};
use crate::listing::ShardListing;
use crate::pools;
use crate::shards::Standing;
use crate::shared_copy::SharedCopy;
use crate::words::SpreadRequest;

/// How often the job is looked at, and how often people are told.
const LOOK: Duration = Duration::from_millis(500);
const TELLING: Duration = Duration::from_secs(5);

/// How long an engine may say that no mover runs while shards wait, before that is an error: it may be about to start some.
const NOBODY: Duration = Duration::from_secs(30);

/// A job of many hosts that was begun.
pub struct Spread<'a> {
    /// Whose job it is.
    pub service: &'a Service,
    /// What is to be moved.
    pub request: SpreadRequest,
    /// Its number.
    pub id: JobId,
    /// Stops it.
    pub interrupt: Interrupt,
    /// Since when.
    pub began: Instant,
    /// Hears how far it is, in words for people.
    pub tell: &'a dyn Fn(&str),
}

impl Spread<'_> {
    /// Has `engine` start `movers`, and waits until they have moved everything; what `selection` leaves of it is listed for
    /// them meanwhile. Where that comes to nothing the job is cancelled.
    pub fn run(
        &self,
        engine: &dyn Engine,
        movers: &Movers,
        options: &SharedCopy,
        selection: &Selection,
    ) -> Result<Standing> {
        let moved = engine.start(movers).and_then(|mut started| {
            let moved = self.move_all(&mut *started, options, selection);
            let stopped = started.stop();
            moved.and_then(|standing| stopped.map(|()| standing))
        });
        if moved.is_err() {
            // Nothing more is given out, and what was under way is not taken.
            let _: Result<Value> = self.service.post(&format!("/jobs/{}/cancel", self.id), &Value::Null);
        }
        moved
    }

    /// Lists everything while movers move it, waits for the last shard, and gives directories their times.
    fn move_all(
        &self,
        started: &mut dyn Started,
        options: &SharedCopy,
        selection: &Selection,
    ) -> Result<Standing> {
        let listing = ShardListing {
            service: self.service,
            id: self.id,
            interrupt: &self.interrupt,
            listed: Cell::default(),
        };
        let listed = listing.list(&self.request, options, selection)?;
        let standing = self.follow(started)?;
        if standing.state == "cancelled" {
            return Err(Error::new(ErrorKind::Interrupted, format!("job {} was cancelled", self.id)));
        }
        for (number, source) in self.request.sources.iter().enumerate() {
            if listed.trees.contains(&number) {
                // Of files there are none of that size: what is left is directories and links.
                let rest = Selection { min_size: Some(1), max_size: Some(0), ..selection.clone() };
                pools::by_way_of_any(&self.request, |endpoint| {
                    let source = self.request.by_way_of(source, endpoint)?;
                    let destination = self.request.by_way_of(&self.request.destination, endpoint)?;
                    let ended =
                        options.copy((&source, &destination), rest.clone(), self.interrupt.clone())?;
                    ended.error.map_or(Ok(()), Err)
                })?;
            }
        }
        Ok(standing)
    }

    /// Waits until all shards are at their end.
    fn follow(&self, started: &mut dyn Started) -> Result<Standing> {
        let (mut told, mut somebody, mut heard) = (Instant::now(), Instant::now(), Instant::now());
        loop {
            if self.interrupt.is_raised() {
                let why = "interrupted; run the same command again to continue";
                return Err(Error::new(ErrorKind::Interrupted, why));
            }
            let standing: Standing = match self.service.get(&format!("/spreads/{}", self.id)) {
                Ok(standing) => standing,
                Err(error) if error.kind.retry() == Retry::Outage && heard.elapsed() < PATIENCE => {
                    thread::sleep(LOOK);
                    continue;
                }
                Err(error) => return Err(error),
            };
            heard = Instant::now();
            if standing.has_ended() {
                return Ok(standing);
            }
            // An engine that does not answer now may later.
            if let Ok(status) = started.look() {
                let joined = standing.movers.iter().any(|mover| mover.leases > 0);
                if !status.is_over() || joined {
                    somebody = Instant::now();
                }
                let left = standing.shards - standing.ended_shards;
                if status.failed > 0 && status.is_over() || somebody.elapsed() > NOBODY {
                    let why = status.why.unwrap_or_else(|| "none is left".to_owned());
                    let text = format!("{left} shards wait and nobody moves them: {why}");
                    return Err(Error::new(ErrorKind::Io, text));
                }
                if told.elapsed() >= TELLING {
                    told = Instant::now();
                    (self.tell)(&format!("{}; movers: {status}", in_words(&standing, self.began.elapsed())));
                }
            }
            thread::sleep(LOOK);
        }
    }
}

fn in_words(standing: &Standing, elapsed: Duration) -> String {
    let done = ByteCount(standing.done_bytes + standing.moving_bytes);
    let all = match &standing.state[..] {
        "listing" => "listing".to_owned(),
        _ => format!("of {}", ByteCount(standing.bytes)),
    };
    format!("{} files, {done} {all}, {}", standing.done_files, BitRate::over(done, elapsed))
}
