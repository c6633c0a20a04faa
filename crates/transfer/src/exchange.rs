//! One end of a running transfer, and the conversation between the two: acts on the peer's messages,
//! answers its polls, obeys its set-points.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use tidegate_control::{BitRate, Concurrency, PerStage, Stage};

use crate::counters::{Counters, Glimpse};
use crate::error::{Error, ErrorKind, Result};
use crate::fence::Fence;
use crate::pipeline::data_streams::{in_vain_pause, open_patiently};
use crate::pipeline::dialer::Dialer;
use crate::pipeline::receive::{Receiver, ReceiverOwner};
use crate::pipeline::send::{Sender, SenderOwner};
use crate::rate_samples::RateSamples;
use crate::sys::clock::Instant;
use crate::sys::sync::{Condvar, Mutex};
use crate::sys::thread;
use crate::throttle::Throttle;
use crate::wire::channel::Channel;
use crate::wire::message::{CounterReport, Message};
use crate::wire::order::{self, Part, Phase};
use crate::wire::session::{Inbox, Outbox};

/// How often the receiver confirms what it took.
const CONFIRM: Duration = Duration::from_millis(5);

/// How often the sender looks for streams that the receiver closed.
const CHECK: Duration = Duration::from_millis(200);

/// How much a peer may say that moves nothing, and how fast it may go on then: hearing it takes processors that others
/// need. An honest one polls a few times an epoch, and of more failures than this none is remembered.
const TALK: usize = 8 << 20;
const TALK_RATE: BitRate = BitRate::mbps(8);

/// What a message takes besides its text, with the answer to it.
const TALK_EACH: usize = 256;

/// One end of a transfer.
#[derive(Debug)]
pub(crate) enum Side {
    /// It sends.
    Send(Sender),
    /// It receives; `Some` if it dials the streams as well.
    Receive(Arc<Receiver>, Option<StreamKeeper>),
}

/// What decides at one end: on the thread of its conversation, and on no other.
#[derive(Debug)]
pub(crate) enum Owner {
    /// Of a sender.
    Send(SenderOwner),
    /// Of a receiver.
    Receive(ReceiverOwner),
}

impl Owner {
    /// Acts on a message of the peer.
    fn hear(&mut self, message: Message) -> Result<()> {
        match self {
            Self::Send(owner) => owner.hear(message),
            Self::Receive(owner) => owner.hear(message),
        }
    }

    /// Whether everything is durable here and the sender has been told.
    fn is_finished(&self) -> bool {
        matches!(self, Self::Receive(owner) if owner.is_finished())
    }

    /// Looks after streams that are taken in; called a few times a second.
    fn check_streams(&self) {
        if let Self::Receive(owner) = self {
            owner.check_streams();
        }
    }

    /// Waits for every worker of this end. Afterwards the journal is free for the next run.
    pub fn end(self) {
        drop(self);
    }

    /// Acts on what has happened at this end since; `true` once everything is durable at the receiver.
    fn turn(&mut self) -> Result<bool> {
        match self {
            Self::Send(owner) => owner.turn(),
            Self::Receive(owner) => owner.turn().map(|()| false),
        }
    }

    /// Whether everything was sent from here.
    fn has_sent_all(&self) -> bool {
        matches!(self, Self::Send(owner) if owner.has_finished())
    }
}

impl Side {
    /// What the other end is.
    fn peer(&self) -> Part {
        match self {
            Self::Send(_) => Part::Receiver,
            Self::Receive(..) => Part::Sender,
        }
    }

    /// Lets so many workers run on this end.
    pub fn resize(&self, setpoint: Concurrency) {
        match self {
            Self::Send(sender) => sender.resize(setpoint),
            Self::Receive(receiver, keeper) => {
                receiver.resize(setpoint);
                if let Some(keeper) = keeper {
                    keeper.resize(setpoint.network);
                }
            }
        }
    }

    /// What this end counted so far.
    pub fn counters(&self) -> Counters {
        match self {
            Self::Send(sender) => sender.counters(),
            Self::Receive(receiver, _) => receiver.counters(),
        }
    }

    /// What is seen of this end's stages.
    pub fn glimpse(&self) -> Glimpse {
        match self {
            Self::Send(sender) => sender.glimpse(),
            Self::Receive(receiver, _) => receiver.glimpse(),
        }
    }

    /// A data stream that the peer dialled.
    pub(crate) fn stream_arrived(&self, index: u32, channel: Channel) {
        match self {
            Self::Send(sender) => sender.stream_arrived(index, channel),
            Self::Receive(receiver, _) => receiver.stream_arrived(index, channel, |_| {}),
        }
    }

    /// The error that ended this end, if one did.
    pub fn failure(&self) -> Option<Error> {
        match self {
            Self::Send(sender) => sender.failure(),
            Self::Receive(receiver, keeper) => {
                receiver.failure().or_else(|| keeper.as_ref().and_then(StreamKeeper::failure))
            }
        }
    }

    /// Stops all workers; what is needed to resume stays.
    pub fn stop(&self) {
        match self {
            Self::Send(sender) => sender.join(),
            Self::Receive(receiver, keeper) => {
                if let Some(keeper) = keeper {
                    keeper.stop();
                }
                receiver.stop();
            }
        }
    }
}

/// What the peer reported last.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    latest: Mutex<CounterReport>,
    arrived: Condvar,
}

impl Reports {
    fn store(&self, report: CounterReport) {
        *self.latest.lock() = report;
        self.arrived.notify_all();
    }

    /// The report for poll `number`, unless `give_up` comes true first.
    pub fn wait(&self, number: u32, give_up: impl Fn() -> bool) -> Option<Counters> {
        let mut latest = self.latest.lock();
        while latest.number != number {
            if give_up() {
                return None;
            }
            latest = self.arrived.wait_timeout(latest, Duration::from_millis(20)).0;
        }
        Some(latest.counters)
    }
}

/// How much the peer has said that moves nothing.
struct Talk {
    said: usize,
    pace: Option<Throttle>,
    over: AtomicBool,
}

impl Talk {
    fn new() -> Self {
        Self { said: 0, pace: Throttle::new(Some(TALK_RATE)), over: AtomicBool::new(false) }
    }

    /// Waits before `message` is acted on if it is one too many.
    fn pace(&mut self, message: &Message) {
        let bytes = match message {
            Message::Setpoint(_) | Message::Yield(_) | Message::Poll(_) | Message::Report(_) => TALK_EACH,
            Message::Problem(path, error) => TALK_EACH + path.len() + error.message.len(),
            Message::LeftOut(path, _) => TALK_EACH + path.len(),
            _ => return,
        };
        self.said = self.said.saturating_add(bytes);
        if let Some(pace) = self.pace.as_ref().filter(|_| self.said > TALK) {
            pace.take(bytes, &self.over);
        }
    }
}

/// How often an end that is asked for its counters looks at them.
const LOOK: Duration = Duration::from_millis(50);

/// What moved here since it was asked last.
struct Pulse {
    at: Instant,
    last: Glimpse,
    samples: PerStage<RateSamples>,
}

impl Pulse {
    fn new(side: &Side) -> Self {
        Self { at: Instant::now(), last: side.glimpse(), samples: PerStage::default() }
    }

    fn look(&mut self, side: &Side) {
        let (time, seen) = (self.at.elapsed(), side.glimpse());
        for stage in Stage::ALL {
            if let (Some(before), Some(now)) = (self.last[stage], seen[stage]) {
                self.samples[stage].add(now.moved.saturating_sub(before.moved), time);
            }
        }
        (self.at, self.last) = (Instant::now(), seen);
    }

    fn error_ppm(&self) -> PerStage<Option<u32>> {
        PerStage::from_fn(|stage| {
            self.last[stage].map(|_| (self.samples[stage].relative_error() * 1e6) as u32)
        })
    }
}

/// Whom a peer is told by and heard from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerLine<'a> {
    /// What it is told.
    pub outbox: &'a Outbox,
    /// What it says.
    pub inbox: &'a Inbox,
    /// Whether it is the initiator, or the endpoint.
    pub part: Part,
}

/// Talks with the peer until the transfer ends: `Ok` once everything is durable at the receiver.
pub(crate) fn converse(
    (side, owner): (&Side, &mut Owner),
    PeerLine { outbox, inbox, part }: PeerLine<'_>,
    reports: &Reports,
    fence: Option<&Fence>,
) -> Result<()> {
    let asking = Arc::new(AtomicBool::new(false));
    let parts = [part, side.peer()];
    let mut phase = Phase::Moving;
    let mut confirmed = Instant::now();
    let mut checked = Instant::now();
    let mut talk = Talk::new();
    let mut pulse: Option<Pulse> = None;
    loop {
        let message = match listen(outbox, inbox) {
            Ok(message) => message,
            // The sender hangs up once it knows that everything is durable.
            Err(_) if owner.is_finished() => return Ok(()),
            Err(error) => return Err(side.failure().unwrap_or(error)),
        };
        if let Some(message) = &message {
            if owner.has_sent_all() {
                phase = Phase::Ending;
            }
            order::check(message, parts, phase)?;
            if *message == Message::Finish {
                phase = Phase::Ending;
            }
            talk.pace(message);
        }
        match (message, side) {
            (None, _) => {}
            (Some(Message::Setpoint(setpoint)), _) => side.resize(setpoint),
            (Some(Message::Yield(yields)), Side::Send(sender)) => sender.yields(yields),
            (Some(Message::Poll(number)), _) => {
                let error_ppm = pulse.as_ref().map(Pulse::error_ppm).unwrap_or_default();
                outbox.send(&Message::report(number, Counters { error_ppm, ..side.counters() }));
                pulse = Some(Pulse::new(side));
            }
            (Some(Message::Report(report)), _) => reports.store(report.read()?),
            (Some(Message::Stop), _) => {
                return Err(Error::new(ErrorKind::Interrupted, "the other end stopped the transfer"));
            }
            (Some(Message::AskPermit(number)), Side::Send(_)) => answer(fence, number, outbox, &asking)?,
            (Some(message), _) => {
                if let (Message::Finish, Side::Receive(_, Some(keeper))) = (&message, side) {
                    keeper.no_more();
                }
                owner.hear(message)?;
            }
        }
        if owner.turn()? {
            return Ok(());
        }
        if let Some(pulse) = pulse.as_mut().filter(|pulse| pulse.at.elapsed() >= LOOK) {
            pulse.look(side);
        }
        if confirmed.elapsed() >= CONFIRM {
            confirmed = Instant::now();
            if let Side::Receive(receiver, _) = side {
                receiver.report_taken();
            }
        }
        if checked.elapsed() >= CHECK {
            checked = Instant::now();
            match side {
                Side::Send(sender) => sender.check_streams(),
                Side::Receive(..) => owner.check_streams(),
            }
        }
        if let Some(error) = side.failure() {
            return Err(error);
        }
    }
}

/// Waits a moment for a message. Who does not read is not listened to.
fn listen(outbox: &Outbox, inbox: &Inbox) -> Result<Option<Message>> {
    match outbox.is_backed_up() {
        true => {
            thread::sleep(CONFIRM);
            inbox.check_time().map(|()| None)
        }
        false => inbox.receive_within(CONFIRM),
    }
}

/// Finds out whether files may get their names, and says so, while the conversation goes on. A receiver asks once at a time.
fn answer(fence: Option<&Fence>, number: u32, outbox: &Outbox, asking: &Arc<AtomicBool>) -> Result<()> {
    let fence =
        fence.ok_or_else(|| Error::protocol("the receiver asks for leave where there is no lease"))?;
    if asking.swap(true, Relaxed) {
        return Err(Error::protocol("the receiver asks for leave twice at a time"));
    }
    let (fence, outbox, asking) = (fence.clone(), outbox.clone(), Arc::clone(asking));
    let ask = move || {
        let answer = fence.answer(number);
        asking.store(false, Relaxed);
        outbox.send(&answer);
    };
    let started = thread::Builder::new().name("leave".to_owned()).spawn(ask);
    started.map(drop).map_err(|error| Error::new(ErrorKind::Io, format!("cannot start a thread: {error}")))
}

/// Keeps as many streams open as the receiver was told to dial.
#[derive(Debug)]
pub(crate) struct StreamKeeper {
    shared: Arc<Keeping>,
    most: u16,
}

#[derive(Debug)]
struct Keeping {
    wanted: Mutex<(u16, u16)>,
    changed: Condvar,
    /// Streams since the last one that carried anything: the sender has no room for them.
    in_vain: AtomicU32,
    over: AtomicBool,
    failure: Mutex<Option<Error>>,
}

impl StreamKeeper {
    /// Dials streams for `receiver`.
    pub fn start(receiver: &Arc<Receiver>, dialer: Dialer, most: u16) -> Result<Self> {
        let shared = Arc::new(Keeping {
            wanted: Mutex::default(),
            changed: Condvar::new(),
            in_vain: AtomicU32::new(0),
            over: AtomicBool::new(false),
            failure: Mutex::default(),
        });
        let (keeping, receiver) = (Arc::clone(&shared), Arc::downgrade(receiver));
        let work = move || {
            while keeping.wait_for_want() {
                match open_patiently(|| dialer.dial(), || !keeping.wants()) {
                    Ok((index, channel)) => {
                        let Some(receiver) = receiver.upgrade() else { return };
                        let lost = Arc::clone(&keeping);
                        // Counted before it can be lost.
                        keeping.add(1);
                        receiver.stream_arrived(index, channel, move |useful| lost.lose(useful));
                    }
                    // Nobody misses it.
                    Err(_) if !keeping.wants() => {}
                    Err(error) => {
                        *keeping.failure.lock() = Some(error);
                        return;
                    }
                }
            }
        };
        thread::Builder::new()
            .name("dial".to_owned())
            .spawn(work)
            .map_err(|error| Error::new(ErrorKind::Io, format!("cannot start a thread: {error}")))?;
        Ok(Self { shared, most })
    }

    fn resize(&self, n: u16) {
        self.shared.wanted.lock().0 = n.min(self.most);
        self.shared.changed.notify_all();
    }

    fn no_more(&self) {
        self.resize(0);
    }

    fn stop(&self) {
        self.shared.over.store(true, Relaxed);
        self.shared.changed.notify_all();
    }

    fn failure(&self) -> Option<Error> {
        self.shared.failure.lock().clone()
    }
}

impl Keeping {
    /// Whether fewer streams are open than wanted.
    fn wants(&self) -> bool {
        let wanted = self.wanted.lock();
        wanted.1 < wanted.0 && !self.over.load(Relaxed)
    }

    /// Waits until fewer streams are open than wanted; `false` once over.
    fn wait_for_want(&self) -> bool {
        let mut wanted = self.wanted.lock();
        loop {
            if self.over.load(Relaxed) {
                return false;
            }
            if wanted.1 < wanted.0 {
                drop(wanted);
                self.rest();
                return !self.over.load(Relaxed);
            }
            wanted = self.changed.wait(wanted);
        }
    }

    /// A pause that grows while one stream after the other is of no use.
    fn rest(&self) {
        let in_vain = self.in_vain.load(Relaxed);
        let end = Instant::now() + in_vain_pause(in_vain);
        while Instant::now() < end && !self.over.load(Relaxed) {
            thread::sleep(CONFIRM);
        }
    }

    fn lose(&self, useful: bool) {
        if useful {
            self.in_vain.store(0, Relaxed);
        } else {
            self.in_vain.fetch_add(1, Relaxed);
        }
        self.add(-1);
    }

    fn add(&self, change: i16) {
        let mut wanted = self.wanted.lock();
        wanted.1 = wanted.1.saturating_add_signed(change);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::data_streams::{Arrivals, Supply};
    use crate::pipeline::send::Peer;
    use tidegate_control::ByteCount;

    use crate::counters::NotKept;
    use crate::quota::Share;
    use crate::spec::Memory;
    use crate::store::memory::ZeroSource;
    use crate::terms::Terms;
    use crate::wire::session;

    #[test]
    fn a_poll_is_answered_by_one_report_with_all_that_was_counted() {
        let (ours, theirs) = session::pair();
        let (outbox, inbox) = session::start(ours, "the peer").expect("started");
        let (to_us, from_us) = session::start(theirs, "us").expect("started");
        let source = Box::new(ZeroSource(Memory { bytes: ByteCount::mib(1) }));
        let supply = Supply::Await(Arrivals::default());
        let peer = Peer { patience: None, asked: true };
        let share = Share::own();
        let (terms, ledger) = (Terms::default(), Arc::default());
        let (sender, owner) = Sender::start(source, terms, outbox.clone(), supply, ledger, &share, peer);
        let (side, mut owner) = (Side::Send(sender), Owner::Send(owner));
        let conversation = thread::spawn(move || {
            let line = PeerLine { outbox: &outbox, inbox: &inbox, part: Part::Initiator };
            converse((&side, &mut owner), line, &Reports::default(), None).expect_err("it is stopped");
        });
        to_us.send(&Message::Poll(6));
        to_us.send(&Message::Poll(7));
        let mut reports = Vec::new();
        while reports.len() < 2 {
            if let Message::Report(report) = from_us.receive().expect("an answer") {
                reports.push(report.read().expect("whole"));
            }
        }
        // How sure it is of what it saw since it was asked before: nothing has moved.
        let unsure = PerStage { network: Some(1_000_000), ..PerStage::default() };
        assert_eq!(reports.iter().map(|report| report.number).collect::<Vec<_>>(), [6, 7]);
        assert_eq!(reports[0].counters.error_ppm, PerStage::default());
        assert_eq!(reports[1].counters.error_ppm, unsure);
        assert!(reports[1].counters.at_us > 0 && reports[1].counters.streams.is_some());
        to_us.send(&Message::Stop);
        conversation.join().expect("no panic");
    }

    #[test]
    fn who_says_much_that_moves_nothing_is_heard_slowly() {
        let mut talk = Talk::new();
        let problem = |length| Message::Problem(vec![b'x'; length], Error::new(ErrorKind::Io, "failed"));
        talk.pace(&problem(TALK - TALK_EACH - 6));
        assert_eq!(talk.said, TALK, "nothing else can have been waited for");
        talk.pace(&Message::Finished(NotKept::default()));
        assert_eq!(talk.said, TALK, "what an end needs to know is no talk");
        let start = Instant::now();
        for number in 0..200 {
            talk.pace(&Message::Poll(number));
            talk.pace(&problem(500));
        }
        let least = 200.0 * (3 * TALK_EACH) as f64 / TALK_RATE.bytes_per_second();
        assert!(start.elapsed().as_secs_f64() > least - 0.05, "{:?}", start.elapsed());
    }
}
