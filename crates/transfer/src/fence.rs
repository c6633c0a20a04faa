//! Leave to give files their names, where somebody else may have taken the work over: whoever holds a lease of it says
//! yes, for so long, and what is verified waits for that.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::sys::clock::Instant;
use crate::sys::sync::{Condvar, Mutex};
use crate::wire::message::Message;
use crate::wire::session::Outbox;

/// How long the initiator may take to answer whether files may get their names.
const ANSWER: Duration = Duration::from_secs(60);

/// How often it is asked in a row where leave was over when it came.
const QUESTIONS: usize = 3;

/// How often whoever waits for that looks whether the initiator is still there.
const LOOK: Duration = Duration::from_millis(100);

/// The lease under which a transfer is made.
#[derive(Clone)]
pub struct Fence {
    lease: u64,
    ask: Arc<dyn Fn() -> Result<Duration> + Send + Sync>,
}

tidegate_contract::opaque!(Fence);

impl Fence {
    /// The lease of this number, which no other has ever had. `ask` makes sure that it is still held, and says for how
    /// long from when it was called files may get their names.
    pub fn new(lease: u64, ask: impl Fn() -> Result<Duration> + Send + Sync + 'static) -> Self {
        Self { lease, ask: Arc::new(ask) }
    }

    /// The number of the lease.
    pub(crate) fn lease(&self) -> u64 {
        self.lease
    }

    /// Asks once.
    pub(crate) fn ask(&self) -> Result<Duration> {
        (self.ask)()
    }

    /// The answer of an initiator that was asked, as it is said; it may take its time.
    pub(crate) fn answer(&self, number: u32) -> Message {
        let leave = self.ask().map(|time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
        Message::Permitted(number, leave)
    }
}

/// What a receiver has to have before a file gets its name.
pub struct Permit {
    asks: Asks,
    until: Mutex<Option<Instant>>,
}

/// Whom it asks.
enum Asks {
    /// Whoever began the transfer, in this process.
    Here(Fence),
    /// The initiator at the other end of the session.
    Peer(Outbox, Answers),
}

/// What the initiator answered.
#[derive(Default)]
struct Answers {
    asked: Mutex<u32>,
    latest: Mutex<Option<(u32, Result<u32>)>>,
    changed: Condvar,
}

tidegate_contract::opaque!(Permit);

impl Permit {
    /// One that is asked for here.
    pub fn of(fence: Fence) -> Self {
        Self { asks: Asks::Here(fence), until: Mutex::default() }
    }

    /// One that the initiator is asked for.
    pub(crate) fn of_peer(outbox: Outbox) -> Self {
        Self { asks: Asks::Peer(outbox, Answers::default()), until: Mutex::default() }
    }

    /// Waits for leave; asks anew only when the last one is over. It counts from before the question, by this host's
    /// clock, so that an answer that came late is none.
    pub(crate) fn obtain(&self) -> Result<()> {
        let mut until = self.until.lock();
        if until.is_some_and(|until| Instant::now() < until) {
            return Ok(());
        }
        for _ in 0..QUESTIONS {
            let asked = Instant::now();
            let time = match &self.asks {
                Asks::Here(fence) => fence.ask()?,
                Asks::Peer(outbox, answers) => answers.ask(outbox)?,
            };
            let end = asked + time;
            if Instant::now() < end {
                *until = Some(end);
                return Ok(());
            }
        }
        Err(Error::new(ErrorKind::Connection, "leave came too late: the lease may be over"))
    }

    /// What the initiator says.
    pub fn answered(&self, number: u32, leave: Result<u32>) -> Result<()> {
        let Asks::Peer(_, answers) = &self.asks else {
            return Err(Error::protocol("the sender answered what it was not asked"));
        };
        *answers.latest.lock() = Some((number, leave));
        answers.changed.notify_all();
        Ok(())
    }
}

impl Answers {
    fn ask(&self, outbox: &Outbox) -> Result<Duration> {
        let number = {
            let mut asked = self.asked.lock();
            *asked = asked.wrapping_add(1);
            *asked
        };
        outbox.send(&Message::AskPermit(number));
        let asked = Instant::now();
        let mut latest = self.latest.lock();
        loop {
            match latest.take() {
                Some((answered, leave)) if answered == number => {
                    return leave.map(|ms| Duration::from_millis(ms.into()));
                }
                _ => {}
            }
            if outbox.is_lost() || asked.elapsed() > ANSWER {
                let why = "the initiator did not say whether files may get their names";
                return Err(Error::new(ErrorKind::Connection, why));
            }
            latest = self.changed.wait_timeout(latest, LOOK).0;
        }
    }
}
