//! A third-party transfer as its initiator sees it: the sending endpoint runs the epochs, we decide.

use std::sync::Arc;
use std::time::Duration;

use tidegate_control::{Bounds, Concurrency, Environment, Host, Observation, PerStage};

use crate::error::{Error, ErrorKind, Result};
use crate::exchange::tell_to_yield;
use crate::ledger::Ledger;
use crate::sys::clock::Instant;
use crate::terms::Purpose;
use crate::transfer::hearing::Hearing;
use crate::transfer::link::Link;
use crate::transfer::paced::this_host;
use crate::transfer::{Interrupt, Pace, Tracked};
use crate::wire::message::{Message, SHORT_EPOCHS_SINCE};
use crate::wire::stepped::join;

/// How long beyond an epoch the sending endpoint may be silent.
const PATIENCE: Duration = Duration::from_secs(30);

/// A transfer between two endpoints.
#[derive(Debug)]
pub(crate) struct RelayedTransfer {
    link: Link,
    round_trip: Option<Duration>,
    short: bool,
    yields: bool,
    bounds: PerStage<Bounds>,
    pace: Pace,
    interrupt: Interrupt,
    ledger: Arc<Ledger>,
    /// Where it is only said what would be done.
    hearing: Option<Hearing>,
    started: Instant,
}

impl RelayedTransfer {
    /// Drives the endpoint at the other end of this session, which has agreed to send.
    /// What it counts, and what is planned, goes into `ledger`.
    pub fn start(
        link: Link,
        bounds: PerStage<Bounds>,
        (pace, interrupt): (Pace, Interrupt),
        ledger: Arc<Ledger>,
        purpose: Purpose,
    ) -> Result<Self> {
        // We are not on the path; its ends know how long it is.
        let round_trip = match link.version >= SHORT_EPOCHS_SINCE {
            true => match link.answer()? {
                Message::RoundTrip(us) => (us > 0).then(|| Duration::from_micros(us)),
                _ => return Err(Error::protocol("the endpoint did not say how long the path is")),
            },
            false => None,
        };
        let hearing = match purpose {
            Purpose::Plan => Some(Hearing::start(Arc::clone(&ledger), link.outbox.clone())?),
            Purpose::Copy | Purpose::Compare => None,
        };
        let started = Instant::now();
        Ok(Self {
            link,
            round_trip,
            short: false,
            yields: false,
            bounds,
            pace,
            interrupt,
            ledger,
            hearing,
            started,
        })
    }
}

impl Tracked for RelayedTransfer {
    /// As of the last epoch.
    fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }
}

impl Environment for RelayedTransfer {
    type Error = Error;

    fn bounds(&self) -> PerStage<Bounds> {
        self.bounds
    }

    fn host(&self) -> Host {
        Host { round_trip: self.round_trip, ..this_host() }
    }

    fn short_epochs(&mut self, short: bool) {
        if self.short != short && self.link.version >= SHORT_EPOCHS_SINCE {
            self.link.outbox.send(&Message::ShortEpochs(short));
            self.short = short;
        }
    }

    fn yields(&mut self, yields: bool) {
        if self.yields != yields {
            tell_to_yield(&self.link.outbox, self.link.version, yields);
            self.yields = yields;
        }
    }

    fn step(&mut self, setpoint: Concurrency) -> Result<Option<Observation>> {
        if self.pace.stop_after.is_some_and(|time| self.started.elapsed() >= time) {
            self.link.outbox.send(&Message::Stop);
            return Ok(None);
        }
        self.link.outbox.send(&Message::Step(setpoint));
        let (mut waited, mut detail, mut draining) = (Duration::ZERO, None, PerStage::default());
        let tick = Duration::from_millis(50);
        loop {
            if self.interrupt.is_raised() {
                self.link.outbox.send(&Message::Stop);
                let why = "interrupted; run the same command again to continue";
                return Err(Error::new(ErrorKind::Interrupted, why));
            }
            match self.link.inbox.receive_within(tick)? {
                Some(Message::Deleted(entries, _)) => self.ledger.deleted(entries),
                Some(Message::NotKept(not_kept)) => self.ledger.keeps_not(not_kept),
                Some(Message::LeftOut(path, why)) => why.warn(&path),
                Some(Message::Refreshed(files)) => self.ledger.adopt_refreshed(files),
                Some(Message::Progress(totals)) => self.ledger.adopt(totals),
                Some(Message::Planned(planned)) => match &self.hearing {
                    Some(hearing) => hearing.add(planned),
                    None => return Err(Error::protocol("the endpoint says what it was not asked for")),
                },
                Some(Message::Draining(workers)) => draining = workers,
                Some(Message::StepDetail(more)) => detail = Some(more.with(draining)),
                Some(Message::Stepped(seen, bounds)) => {
                    self.bounds = bounds;
                    if let (None, Some(hearing)) = (&seen, &mut self.hearing) {
                        hearing.finish();
                    }
                    return Ok(seen.map(|seen| join(&seen, detail)));
                }
                Some(Message::Refused(error)) => return Err(error),
                Some(_) => return Err(Error::protocol("the endpoint sent something else than was asked")),
                None => waited += tick,
            }
            if waited > self.pace.longest() + PATIENCE {
                return Err(Error::new(ErrorKind::Connection, "the sending endpoint has fallen silent"));
            }
        }
    }
}

impl Drop for RelayedTransfer {
    fn drop(&mut self) {
        self.link.outbox.close();
    }
}
