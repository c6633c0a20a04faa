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
    let shared = Arc::new(Shared { queue: Mutex::default(), wake });
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
        match tls.flush_records() {
            Ok(()) if closing => return Ok(()),
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
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
