//! A session: messages both ways over one TLS connection, carried by one thread. What waits to be handled and what
//! waits to be sent are both bounded, whatever the peer does: a session that nobody here listens to is not read
//! from, and a peer that does not read is not listened to.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::error::{Error, ErrorKind, Result};
use crate::quota::{Held, Quota, remember};
use crate::sys::clock::{self, Instant};
use crate::sys::net::Waker;
use crate::sys::sync::{Condvar, Mutex};
use crate::sys::tcp;
use crate::sys::thread;
use crate::wire::channel::{Channel, Tls};
use crate::wire::message::{MAX_MESSAGE, Message, announced, decode, encode};

/// Most bytes that wait for a peer that does not read; no honest one lets so much gather. One message always has room.
const MAX_BACKLOG: usize = MAX_MESSAGE + (1 << 20);

/// So much of it that nothing more is done for the peer before it has read some.
const BACKED_UP: usize = 1 << 20;

/// So much of it that who has a lot to say waits.
const PATIENT: usize = 256 << 10;

/// How long a peer may read nothing while something waits for it.
const UNREAD: Duration = Duration::from_secs(300);

/// Most messages and bytes that wait to be handled; one message always has room.
const INBOX_MESSAGES: usize = 256;
const INBOX_BYTES: usize = 1 << 20;

/// What is given to TLS at once, and what a message may have without being counted as memory of the peer's.
const PIECE: usize = 64 << 10;

/// How long a closing session waits for the peer to read what is still queued, and how long one that has left is
/// heard out.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Sends messages to the peer; cheap to clone.
#[derive(Clone, Debug)]
pub struct Outbox {
    shared: Arc<SessionState>,
}

/// Receives the peer's messages.
#[derive(Debug)]
pub struct Inbox {
    shared: Arc<SessionState>,
}

#[derive(Debug)]
struct SessionState {
    queue: Mutex<Queue>,
    drained: Condvar,
    arrivals: Mutex<Arrivals>,
    arrived: Condvar,
    waker: Waker,
    round_trip: Option<Duration>,
}

/// What waits to be sent.
#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Vec<u8>>,
    bytes: usize,
    closing: bool,
    lost: bool,
}

/// What waits to be handled.
#[derive(Debug)]
struct Arrivals {
    messages: VecDeque<Arrival>,
    bytes: usize,
    /// Nothing is read from the peer until there is room.
    paused: bool,
    /// Nobody listens any more.
    deserted: bool,
    end: Option<Error>,
    /// When the peer may no longer be listened to, and why.
    limit: Option<(SystemTime, &'static str)>,
    /// When the peer was last heard.
    heard: Instant,
    /// Whether whoever listens is to look at something else.
    nudged: bool,
}

#[derive(Debug)]
struct Arrival {
    message: Message,
    bytes: usize,
    _held: Option<Held>,
}

/// Starts the thread that carries `channel`'s messages; `peer` names it in errors.
pub fn start(channel: Channel, peer: &str) -> Result<(Outbox, Inbox)> {
    start_within(channel, peer, &Quota::unlimited())
}

/// As [`start`]; what large messages take in memory counts in `metadata`.
pub(crate) fn start_within(channel: Channel, peer: &str, metadata: &Arc<Quota>) -> Result<(Outbox, Inbox)> {
    let tls = channel.into_tls().ok_or_else(|| Error::protocol("a session needs TLS"))?;
    let failed = |error: io::Error| Error::connection("cannot run the session with", peer, error);
    tls.socket().set_nonblocking(true).map_err(failed)?;
    let waker = Waker::new().map_err(failed)?;
    let round_trip = tcp::info(tls.socket()).map(|info| info.least_rtt).filter(|rtt| !rtt.is_zero());
    let shared = Arc::new(SessionState::new(waker, round_trip));
    let ends = (Outbox { shared: Arc::clone(&shared) }, Inbox { shared: Arc::clone(&shared) });
    let (peer, metadata) = (peer.to_owned(), Arc::clone(metadata));
    thread::Builder::new()
        .name("session".to_owned())
        .spawn(move || {
            let result = carry(tls, &shared, &metadata);
            let mut queue = shared.queue.lock();
            queue.lost = true;
            let closing = queue.closing;
            drop(queue);
            shared.drained.notify_all();
            let error = match result {
                // Ours; what TLS finds damaged is the network's doing, or the end of a peer.
                Err(error) if error.get_ref().is_some_and(|inner| inner.is::<Error>()) => {
                    Error::new(ErrorKind::Protocol, format!("the session with {peer}: {error}"))
                }
                Err(error) if !closing => Error::connection("lost the session with", &peer, error),
                _ => Error::new(ErrorKind::Connection, format!("the session with {peer} was closed")),
            };
            shared.arrivals.lock().end = Some(error);
            shared.arrived.notify_all();
        })
        .map_err(failed)?;
    Ok(ends)
}

impl Arrivals {
    /// How long the peer may be listened to.
    fn time_left(&self) -> Result<Duration> {
        match self.limit {
            None => Ok(Duration::MAX),
            // The clock may be set meanwhile: it is looked at again.
            Some((end, why)) => match end.duration_since(clock::wall()) {
                Ok(left) if !left.is_zero() => Ok(left.min(Duration::from_secs(60))),
                _ => Err(Error::new(ErrorKind::Authentication, why)),
            },
        }
    }
}

impl SessionState {
    fn new(waker: Waker, round_trip: Option<Duration>) -> Self {
        Self {
            queue: Mutex::default(),
            drained: Condvar::new(),
            arrivals: Mutex::new(Arrivals {
                messages: VecDeque::new(),
                bytes: 0,
                paused: false,
                deserted: false,
                end: None,
                limit: None,
                heard: Instant::now(),
                nudged: false,
            }),
            arrived: Condvar::new(),
            waker,
            round_trip,
        }
    }

    fn wake(&self) {
        self.waker.wake();
    }
}

impl Outbox {
    /// Queues `message`; a lost session is noticed at the [`Inbox`].
    pub fn send(&self, message: &Message) {
        let bytes = encode(message);
        let mut queue = self.shared.queue.lock();
        if queue.closing || queue.lost {
            return;
        }
        queue.bytes += bytes.len();
        queue.messages.push_back(bytes);
        drop(queue);
        self.shared.wake();
    }

    /// As [`send`](Self::send), once the peer has read most of what was said before, or it is time to `give_up`:
    /// for whoever has a lot to say, and may wait.
    pub fn send_patiently(&self, message: &Message, give_up: impl Fn() -> bool) {
        self.wait_for_room(give_up);
        self.send(message);
    }

    /// Waits until the peer has read most of what was said, or it is time to `give_up`.
    pub(crate) fn wait_for_room(&self, give_up: impl Fn() -> bool) {
        let look = Duration::from_millis(50);
        let mut queue = self.shared.queue.lock();
        while queue.bytes > PATIENT && !queue.closing && !queue.lost && !give_up() {
            queue = self.shared.drained.wait_timeout(queue, look).0;
        }
    }

    /// Whether so much waits for the peer to read it that nothing more should be done for it.
    pub(crate) fn is_backed_up(&self) -> bool {
        let queue = self.shared.queue.lock();
        queue.bytes > BACKED_UP && !queue.lost
    }

    /// Has whoever listens to the peer look at what else there is: its wait ends with nothing.
    pub(crate) fn nudge(&self) {
        self.shared.arrivals.lock().nudged = true;
        self.shared.arrived.notify_all();
    }

    /// Ends the session once everything queued is sent.
    pub fn close(&self) {
        self.shared.queue.lock().closing = true;
        self.shared.drained.notify_all();
        self.shared.wake();
    }

    /// Whether the session is over.
    pub fn is_lost(&self) -> bool {
        self.shared.queue.lock().lost
    }

    /// How long the peer has said nothing.
    pub fn silence(&self) -> Duration {
        let arrivals = self.shared.arrivals.lock();
        // Whom we do not listen to is not silent.
        if arrivals.paused { Duration::ZERO } else { arrivals.heard.elapsed() }
    }

    /// The path's round-trip time, as far as the kernel knew it when the session began.
    pub fn round_trip(&self) -> Option<Duration> {
        self.shared.round_trip
    }
}

impl Inbox {
    /// The next message; an error once the session is over.
    pub fn receive(&self) -> Result<Message> {
        loop {
            if let Some(message) = self.receive_within(Duration::from_secs(3600))? {
                return Ok(message);
            }
        }
    }

    /// Nothing is received from `time` on: what waits then gets an error that says `why`.
    pub(crate) fn end_at(&self, time: SystemTime, why: &'static str) {
        self.shared.arrivals.lock().limit = Some((time, why));
    }

    /// An error once the time of [`end_at`](Self::end_at) has come, for whoever does not listen right now.
    pub(crate) fn check_time(&self) -> Result<()> {
        self.shared.arrivals.lock().time_left().map(drop)
    }

    /// As [`receive`](Self::receive); `None` if nothing came in time.
    pub fn receive_within(&self, time: Duration) -> Result<Option<Message>> {
        let arrivals = self.shared.arrivals.lock();
        let time = time.min(arrivals.time_left()?);
        let nothing = |arrivals: &mut Arrivals| {
            arrivals.messages.is_empty() && arrivals.end.is_none() && !arrivals.nudged
        };
        let (mut arrivals, _) = self.shared.arrived.wait_timeout_while(arrivals, time, nothing);
        arrivals.nudged = false;
        arrivals.time_left()?;
        let Some(Arrival { message, bytes, .. }) = arrivals.messages.pop_front() else {
            return arrivals.end.clone().map_or(Ok(None), Err);
        };
        arrivals.bytes -= bytes;
        let room = arrivals.messages.len() <= INBOX_MESSAGES / 2 && arrivals.bytes <= INBOX_BYTES / 2;
        if arrivals.paused && room {
            arrivals.paused = false;
            drop(arrivals);
            self.shared.wake();
        }
        Ok(Some(message))
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let mut arrivals = self.shared.arrivals.lock();
        arrivals.deserted = true;
        arrivals.paused = false;
        drop(arrivals);
        self.shared.wake();
    }
}

/// Bytes from the peer that have not been handed on.
#[derive(Default)]
struct Received {
    bytes: Vec<u8>,
    held: Option<Held>,
}

/// How far handing on went.
enum Delivered {
    /// What is left is no whole message.
    All,
    /// There is no room for more.
    Paused,
}

impl Received {
    fn deliver(&mut self, shared: &SessionState, metadata: &Arc<Quota>) -> Result<Delivered> {
        let mut used = 0;
        let delivered = loop {
            {
                let mut arrivals = shared.arrivals.lock();
                if arrivals.deserted {
                    // The peer is still read from, to see when it leaves.
                    self.bytes.clear();
                    return Ok(Delivered::All);
                }
                arrivals.paused |= arrivals.messages.len() >= INBOX_MESSAGES || arrivals.bytes >= INBOX_BYTES;
                if arrivals.paused {
                    break Delivered::Paused;
                }
            }
            let Some((message, bytes)) = decode(&self.bytes[used..], MAX_MESSAGE)? else {
                break Delivered::All;
            };
            used += bytes;
            let arrival = Arrival { message, bytes, _held: self.held.take() };
            let mut arrivals = shared.arrivals.lock();
            arrivals.bytes += bytes;
            arrivals.messages.push_back(arrival);
            drop(arrivals);
            shared.arrived.notify_one();
        };
        self.bytes.drain(..used);
        match announced(&self.bytes) {
            Some(length) if length > PIECE => {
                if self.held.is_none() {
                    self.held = Some(remember(metadata, length)?);
                }
                self.bytes.reserve_exact(length.saturating_sub(self.bytes.len()));
            }
            _ if self.bytes.capacity() > 4 * PIECE => self.bytes.shrink_to(2 * PIECE),
            _ => {}
        }
        Ok(delivered)
    }
}

impl SessionState {
    /// Nothing more can be sent: nobody waits for the peer to read any more.
    fn give_up_sending(&self) {
        let mut queue = self.queue.lock();
        queue.lost = true;
        queue.messages.clear();
        queue.bytes = 0;
        self.drained.notify_all();
    }

    /// What is next to be sent, and whether nothing will follow.
    fn next_piece(&self) -> (Vec<u8>, bool) {
        let mut queue = self.queue.lock();
        // In one piece: many small messages share a record and a system call.
        let mut piece = Vec::new();
        while piece.len() < PIECE
            && let Some(message) = queue.messages.pop_front()
        {
            queue.bytes -= message.len();
            piece.extend_from_slice(&message);
        }
        if queue.bytes <= PATIENT {
            self.drained.notify_all();
        }
        (piece, queue.closing)
    }
}

/// What sending came to.
enum Sent {
    /// Everything is sent; `true` if nothing will follow.
    All(bool),
    /// The peer takes no more right now.
    Some,
}

fn send_queued(tls: &mut Tls, shared: &SessionState, progress: &mut Instant) -> io::Result<Sent> {
    loop {
        match tls.flush_records() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            flushed => flushed?,
        }
        *progress = Instant::now();
        let (piece, closing) = shared.next_piece();
        if piece.is_empty() {
            return Ok(Sent::All(closing));
        }
        tls.queue(&piece)?;
    }
    let backlog = shared.queue.lock().bytes;
    match backlog > MAX_BACKLOG || progress.elapsed() >= UNREAD {
        true => Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")),
        false => Ok(Sent::Some),
    }
}

/// Moves bytes until the peer leaves or we are asked to close.
fn carry(mut tls: Tls, shared: &SessionState, metadata: &Arc<Quota>) -> io::Result<()> {
    let mut received = Received::default();
    let mut buffer = vec![0; PIECE];
    let mut progress = Instant::now();
    let mut last_words = None;
    let mut unsendable = None;
    loop {
        let mut waits = false;
        if unsendable.is_none() {
            match send_queued(&mut tls, shared, &mut progress) {
                Ok(Sent::All(true)) => return Ok(()),
                Ok(Sent::All(false)) => {}
                Ok(Sent::Some) => waits = true,
                // A peer that has left may have said why: that is read first.
                Err(error) => {
                    shared.give_up_sending();
                    unsendable = Some(error);
                    last_words = Some(Instant::now() + LAST_WORDS);
                }
            }
        }
        let closing = shared.queue.lock().closing;
        if closing {
            last_words.get_or_insert_with(|| Instant::now() + LAST_WORDS);
        }
        let timeout = match last_words {
            Some(end) => Some(end.saturating_duration_since(Instant::now())),
            None => waits.then(|| UNREAD.saturating_sub(progress.elapsed())),
        };
        if last_words.is_some() && timeout.is_some_and(|left| left.is_zero()) {
            return unsendable.map_or(Ok(()), Err);
        }
        // Everything that has arrived, before sleeping: TLS may hold decrypted bytes.
        let paused = loop {
            let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
            match received.deliver(shared, metadata).map_err(invalid)? {
                Delivered::All => {}
                Delivered::Paused => break true,
            }
            match tls.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => received.bytes.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            shared.arrivals.lock().heard = Instant::now();
        };
        // Whoever listens here may make room for the rest of what the peer said, now that nothing waits to be sent.
        if !paused && let Some(error) = unsendable.take() {
            return Err(error);
        }
        shared.waker.wait(tls.socket(), !paused, waits, timeout)?;
    }
}

/// Both ends of a TLS connection.
#[cfg(test)]
pub(crate) fn pair() -> (Channel, Channel) {
    use crate::sys::net::{TcpListener, TcpStream};
    use crate::wire::tls::{Identity, Trust};
    use rustls::pki_types::ServerName;
    use rustls::{ClientConnection, Connection, ServerConnection};
    let directory = tempfile::tempdir().expect("a directory");
    let identity = Identity::load_or_create(directory.path()).expect("made");
    let client = Trust::Pinned(identity.fingerprint()).client().expect("a configuration");
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let client = Connection::Client(ClientConnection::new(client, name).expect("a client"));
    let server = identity.server().expect("a configuration");
    let server = Connection::Server(ServerConnection::new(server).expect("a server"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let socket = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
    let mut ends = (Channel::tls(client, socket), Channel::tls(server, listener.accept().expect("came").0));
    thread::scope(|scope| {
        scope.spawn(|| ends.1.finish_handshake().expect("shaken"));
        ends.0.finish_handshake().expect("shaken");
    });
    ends
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    #[test]
    fn what_a_peer_said_before_it_left_is_heard_although_nothing_can_be_sent_to_it() {
        let (mut ours, mut theirs) = pair();
        ours.write_all(&encode(&Message::Stop)).expect("sent");
        let why = Message::Refused(Error::new(ErrorKind::NoSpace, "full"));
        theirs.write_all(&encode(&why)).expect("sent");
        // What it leaves unread makes this a reset.
        drop(theirs);
        let tls = ours.into_tls().expect("it is");
        tls.socket().set_nonblocking(true).expect("a socket");
        let mut polled = [PollFd::new(tls.socket(), PollFlags::empty())];
        poll(&mut polled, Timespec::try_from(Duration::from_secs(30)).ok().as_ref()).expect("polled");
        let shared = SessionState::new(Waker::new().expect("made"), None);
        {
            let mut queue = shared.queue.lock();
            queue.messages.push_back(encode(&Message::Listed));
            queue.bytes = queue.messages[0].len();
        }
        carry(tls, &shared, &Quota::unlimited()).expect_err("it has left");
        let arrivals = shared.arrivals.into_inner();
        assert_eq!(arrivals.messages.into_iter().map(|arrival| arrival.message).collect::<Vec<_>>(), [why]);
    }

    #[test]
    fn who_is_not_listened_to_is_not_read_from() {
        let (ours, mut theirs) = pair();
        let (_outbox, inbox) = start(ours, "the peer").expect("started");
        let socket = theirs.socket().try_clone().expect("a socket");
        socket.set_write_timeout(Some(Duration::from_millis(300))).expect("set");
        let problem = encode(&Message::Problem(vec![0; 4000], Error::protocol("no")));
        let mut sent = 0;
        // More than both kernels' queues take.
        while sent < 64_000 && theirs.write_all(&problem).is_ok() {
            sent += 1;
        }
        assert!(sent < 64_000, "all of it was taken");
        {
            let arrivals = inbox.shared.arrivals.lock();
            assert!(arrivals.bytes < INBOX_BYTES + problem.len(), "{} bytes", arrivals.bytes);
        }
        // Nothing that was taken is lost.
        socket.shutdown(std::net::Shutdown::Write).expect("shut");
        let mut heard = 0;
        while let Ok(message) = inbox.receive() {
            assert!(matches!(message, Message::Problem(..)));
            heard += 1;
        }
        assert!((sent..=sent + 1).contains(&heard), "{heard} of {sent}");
    }

    #[test]
    fn who_says_a_lot_waits_for_the_peer_to_read() {
        let (ours, theirs) = pair();
        let (outbox, _inbox) = start(ours, "the peer").expect("started");
        let message = Message::Problem(vec![0; 60_000], Error::protocol("no"));
        let most = PATIENT + encode(&message).len();
        // More than both kernels' queues take.
        let waited = (0..10_000).any(|_| {
            let looks = std::cell::Cell::new(0);
            outbox.send_patiently(&message, || looks.replace(looks.get() + 1) >= 20);
            let queued = outbox.shared.queue.lock().bytes;
            let gave_up = looks.get() > 20;
            assert!(gave_up || queued <= most, "{queued} bytes");
            gave_up
        });
        assert!(waited, "all of it was taken");
        drop(theirs);
    }
}
