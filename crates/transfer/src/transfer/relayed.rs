//! A third-party transfer as its initiator sees it: the sending endpoint runs the epochs, we decide.

use std::sync::Arc;
use std::time::Duration;

use tidegate_control::{Bounds, Concurrency, Environment, Host, Observation, PerStage, Proposal, Streams};

use crate::error::{Error, ErrorKind, Result};
use crate::ledger::Ledger;
use crate::record::Record;
use crate::sys::clock::Instant;
use crate::terms::Purpose;
use crate::transfer::hearing::Hearing;
use crate::transfer::link::Link;
use crate::transfer::paced::this_host;
use crate::transfer::{Interrupt, Pace, Tracked};
use crate::wire::message::{Message, Step, Stepped};

/// How long beyond an epoch the sending endpoint may be silent.
const PATIENCE: Duration = Duration::from_secs(30);

/// A transfer between two endpoints.
#[derive(Debug)]
pub(crate) struct RelayedTransfer {
    link: Link,
    round_trip: Option<Duration>,
    /// What the next step asks for besides workers.
    next: Step,
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
        (bounds, round_trip): (PerStage<Bounds>, Option<Duration>),
        (pace, interrupt): (Pace, Interrupt),
        ledger: Arc<Ledger>,
        purpose: Purpose,
    ) -> Result<Self> {
        let hearing = match purpose {
            Purpose::Plan => Some(Hearing::start(Arc::clone(&ledger), link.outbox.clone())?),
            Purpose::Copy | Purpose::Compare => None,
        };
        let started = Instant::now();
        Ok(Self {
            link,
            round_trip,
            next: Step::default(),
            bounds,
            pace,
            interrupt,
            ledger,
            hearing,
            started,
        })
    }
}

impl RelayedTransfer {
    /// Takes over what an epoch showed.
    fn stepped(&mut self, stepped: Stepped) -> Result<Option<Observation>> {
        let Stepped { seen, failure, bounds, totals, refreshed, deleted, not_kept, unfinished } = stepped;
        self.ledger.adopt(totals);
        self.ledger.adopt_refreshed(refreshed);
        self.ledger.deleted(deleted);
        self.ledger.keeps_not(not_kept);
        self.ledger.leaves(unfinished);
        if let Some(error) = failure {
            return Err(error);
        }
        // Whatever it says, as bounds are.
        self.bounds = PerStage::from_fn(|stage| Bounds::new(bounds[stage].min, bounds[stage].max));
        if let (None, Some(hearing)) = (&seen, &mut self.hearing) {
            hearing.finish();
        }
        Ok(seen.as_ref().map(sound))
    }
}

/// What the other end saw; what makes no sense is taken for untold.
fn sound(seen: &Observation) -> Observation {
    let share = |share: f64| (0.0..=1.0).contains(&share);
    let amount = |amount: f64| if amount.is_finite() { amount.max(0.0) } else { 0.0 };
    let shares = |streams: &Streams| {
        [streams.busy, streams.receiver_limited, streams.app_limited].into_iter().all(share)
            && streams.spread.is_finite()
    };
    Observation {
        standard_error: seen.standard_error.map(amount),
        waited: seen.waited.map(|waited| waited.filter(|&waited| share(waited))),
        draining: seen.draining.map(|workers| amount(workers).min(u16::MAX.into())),
        streams: seen.streams.filter(shares),
        queued: amount(seen.queued).min(1.0),
        held: amount(seen.held).min(1.0),
        model_based: amount(seen.model_based).min(1.0),
        ..seen.clone()
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

    fn heed(&mut self, proposal: &Proposal, bounds: PerStage<Bounds>) {
        let ramps_to = if proposal.ramps { bounds.network.max } else { 0 };
        self.next =
            Step { short: proposal.short_epochs, yields: proposal.yields, ramps_to, ..Step::default() };
    }

    fn step(&mut self, setpoint: Concurrency) -> Result<Option<Observation>> {
        if self.pace.stop_after.is_some_and(|time| self.started.elapsed() >= time) {
            self.link.outbox.send(&Message::Stop);
            return Ok(None);
        }
        let step = Step { setpoint, ..self.next };
        self.link.outbox.send(&Message::Step(Record::of(&step)));
        let mut waited = Duration::ZERO;
        let tick = Duration::from_millis(50);
        loop {
            if self.interrupt.is_raised() {
                self.link.outbox.send(&Message::Stop);
                let why = "interrupted; run the same command again to continue";
                return Err(Error::new(ErrorKind::Interrupted, why));
            }
            match self.link.inbox.receive_within(tick)? {
                Some(Message::Problem(path, error)) => self.ledger.adopt_failure(path, error),
                Some(Message::LeftOut(path, why)) => why.warn(&path),
                Some(Message::Planned(planned)) => match &self.hearing {
                    Some(hearing) => hearing.add(planned),
                    None => return Err(Error::protocol("the endpoint says what it was not asked for")),
                },
                Some(Message::Stepped(stepped)) => return self.stepped(stepped.read()?),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_was_not_told() {
        let seen = sound(&Observation {
            standard_error: PerStage::new(0.1, f64::NAN, -1.0),
            waited: PerStage::new(Some(0.3), Some(1.5), Some(f64::NAN)),
            draining: PerStage::new(2.5, f64::INFINITY, 1e300),
            streams: Some(Streams { busy: 7.0, ..Streams::default() }),
            ..Observation::default()
        });
        assert_eq!(seen.standard_error, PerStage::new(0.1, 0.0, 0.0));
        assert_eq!(seen.waited, PerStage::new(Some(0.3), None, None));
        assert_eq!(seen.draining, PerStage::new(2.5, 0.0, 65_535.0));
        assert_eq!(seen.streams, None);
        assert_eq!(sound(&Observation::default()), Observation::default());
    }
}
