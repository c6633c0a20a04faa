//! A session: messages both ways over one TLS connection, carried by one thread.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::error::{Error, ErrorKind, Result};
use crate::sys::tcp;
use crate::wire::channel::{Channel, Tls};
use crate::wire::message::{MAX_MESSAGE, Message, decode, encode};

/// Most bytes that wait for a peer that does not read; no honest one lets so much gather.
const MAX_BACKLOG: usize = 256 << 20;

/// How long a closing session waits for the peer to read what is still queued.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Sends messages to the peer; cheap to clone.
#[derive(Clone, Debug)]
pub struct Outbox {
    shared: Arc<Shared>,
}

/// Receives the peer's messages.
#[derive(Debug)]
pub struct Inbox {
    messages: Mutex<Receiver<Result<Message>>>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    wake: OwnedFd,
    round_trip: Option<Duration>,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Vec<u8>>,
    closing: bool,
    lost: bool,
    /// Bytes queued since everything was last sent.
    backlog: usize,
}

/// Starts the thread that carries `channel`'s messages; `peer` names it in errors.
pub fn start(channel: Channel, peer: &str) -> Result<(Outbox, Inbox)> {
    let tls = channel.into_tls().ok_or_else(|| Error::protocol("a session needs TLS"))?;
    let failed = |error: io::Error| Error::connection("cannot run the session with", peer, &error);
    tls.socket().set_nonblocking(true).map_err(failed)?;
    let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
    let round_trip = tcp::info(tls.socket()).map(|info| info.least_rtt).filter(|rtt| !rtt.is_zero());
    let shared = Arc::new(Shared { queue: Mutex::default(), wake, round_trip });
    let (sender, messages) = self::channel();
    let outbox = Outbox { shared: Arc::clone(&shared) };
    let peer = peer.to_owned();
    thread::Builder::new()
        .name("session".to_owned())
        .spawn(move || {
            let result = carry(tls, &shared, &sender);
            let mut queue = shared.queue.lock().expect("not poisoned");
            queue.lost = true;
            let closing = queue.closing;
            drop(queue);
            let error = match result {
                // Ours; what TLS finds damaged is the network's doing, or the end of a peer.
                Err(error) if error.get_ref().is_some_and(|inner| inner.is::<Error>()) => {
                    Error::new(ErrorKind::Protocol, format!("the session with {peer}: {error}"))
                }
                Err(error) if !closing => Error::connection("lost the session with", &peer, &error),
                _ => Error::new(ErrorKind::Connection, format!("the session with {peer} was closed")),
            };
            let _ = sender.send(Err(error));
        })
        .map_err(failed)?;
    Ok((outbox, Inbox { messages: Mutex::new(messages) }))
}

impl Outbox {
    /// Queues `message`; a lost session is noticed at the [`Inbox`].
    pub fn send(&self, message: &Message) {
        let bytes = encode(message);
        let mut queue = self.shared.queue.lock().expect("not poisoned");
        if queue.closing || queue.lost {
            return;
        }
        queue.backlog += bytes.len();
        queue.messages.push_back(bytes);
        drop(queue);
        self.wake();
    }

    /// Ends the session once everything queued is sent.
    pub fn close(&self) {
        self.shared.queue.lock().expect("not poisoned").closing = true;
        self.wake();
    }

    /// Whether the session is over.
    pub fn is_lost(&self) -> bool {
        self.shared.queue.lock().expect("not poisoned").lost
    }

    /// The path's round-trip time, as far as the kernel knew it when the session began.
    pub fn round_trip(&self) -> Option<Duration> {
        self.shared.round_trip
    }

    fn wake(&self) {
        // Fails only when the counter is full, and then the thread is awake already.
        let _ = rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes());
    }
}

impl Inbox {
    /// The next message; an error once the session is over.
    pub fn receive(&self) -> Result<Message> {
        self.messages.lock().expect("not poisoned").recv().unwrap_or_else(|_| Err(over()))
    }

    /// As [`receive`](Self::receive); `None` if nothing came in time.
    pub fn receive_within(&self, time: Duration) -> Result<Option<Message>> {
        match self.messages.lock().expect("not poisoned").recv_timeout(time) {
            Ok(message) => message.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(over()),
        }
    }
}

fn over() -> Error {
    Error::new(ErrorKind::Connection, "the session is over")
}

/// Moves bytes until the peer leaves or we are asked to close.
fn carry(mut tls: Tls, shared: &Shared, inbox: &Sender<Result<Message>>) -> io::Result<()> {
    let mut received = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let mut pending = Vec::new();
    let mut last_words = None;
    loop {
        let closing = {
            let mut queue = shared.queue.lock().expect("not poisoned");
            pending.clear();
            queue.messages.drain(..).for_each(|message| pending.extend_from_slice(&message));
            if !tls.wants_write() {
                queue.backlog = pending.len();
            } else if queue.backlog > MAX_BACKLOG {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read"));
            }
            queue.closing
        };
        // In one piece: many small messages share a record and a system call.
        tls.queue(&pending)?;
        let written = match tls.flush_records() {
            Ok(()) if closing => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            // A peer that has left may have said why: that is read first.
            written => written,
        };
        let timeout = closing.then(|| {
            let end = *last_words.get_or_insert_with(|| Instant::now() + LAST_WORDS);
            end.saturating_duration_since(Instant::now())
        });
        if timeout.is_some_and(|left| left.is_zero()) {
            return Ok(());
        }
        // Everything that has arrived, before sleeping: TLS may hold decrypted bytes.
        loop {
            match tls.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => received.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            let mut used = 0;
            while let Some((message, length)) = decode(&received[used..], MAX_MESSAGE)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?
            {
                used += length;
                if inbox.send(Ok(message)).is_err() {
                    return Ok(());
                }
            }
            received.drain(..used);
        }
        written?;
        let mut interest = PollFlags::IN;
        if tls.wants_write() {
            interest |= PollFlags::OUT;
        }
        let mut polled = [
            PollFd::from_borrowed_fd(tls.socket().as_fd(), interest),
            PollFd::new(&shared.wake, PollFlags::IN),
        ];
        let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut count = [0; 8];
        let _ = rustix::io::read(&shared.wake, &mut count);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use rustls::pki_types::ServerName;
    use rustls::{ClientConnection, Connection, ServerConnection};

    use super::*;
    use crate::wire::tls::{Identity, Trust};

    /// Both ends of a TLS connection.
    fn pair() -> (Channel, Channel) {
        let directory = tempfile::tempdir().expect("a directory");
        let identity = Identity::load_or_create(directory.path()).expect("made");
        let client = Trust::Pinned(identity.fingerprint()).client().expect("a configuration");
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        let client = Connection::Client(ClientConnection::new(client, name).expect("a client"));
        let server = identity.server().expect("a configuration");
        let server = Connection::Server(ServerConnection::new(server).expect("a server"));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let socket = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let mut ends =
            (Channel::tls(client, socket), Channel::tls(server, listener.accept().expect("came").0));
        thread::scope(|scope| {
            scope.spawn(|| ends.1.finish_handshake().expect("shaken"));
            ends.0.finish_handshake().expect("shaken");
        });
        ends
    }

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
        let mut polled = [PollFd::from_borrowed_fd(tls.socket().as_fd(), PollFlags::empty())];
        poll(&mut polled, Timespec::try_from(Duration::from_secs(30)).ok().as_ref()).expect("polled");
        let queue = Queue { messages: VecDeque::from([encode(&Message::Listed)]), ..Queue::default() };
        let wake = eventfd(0, EventfdFlags::NONBLOCK).expect("made");
        let shared = Shared { queue: Mutex::new(queue), wake, round_trip: None };
        let (sender, messages) = channel();
        carry(tls, &shared, &sender).expect_err("it has left");
        assert_eq!(messages.try_recv().map(|message| message.expect("heard")).ok(), Some(why));
    }
}
