//! Peers that speak the wire by hand, in either role, and say whatever a test has them say.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::hash::Digest;
use tidegate_transfer::manifest::{Entry, FileId, Kind, Timestamp};
use tidegate_transfer::path::RelPath;
use tidegate_transfer::pipeline::proof::Proof;
use tidegate_transfer::record::Record;
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::terms::Verify;
use tidegate_transfer::wire::channel::Channel;
use tidegate_transfer::wire::frame::{Frame, FrameKind};
use tidegate_transfer::wire::greeting::{VERSIONS, Welcome};
use tidegate_transfer::wire::handshake::{self, Opening};
use tidegate_transfer::wire::message::{Message, encode};
use tidegate_transfer::wire::request::{Agreement, Request};
use tidegate_transfer::wire::session::{self, Inbox, Outbox};
use tidegate_transfer::wire::ticket::{Address, Claims, Ticket, derive_key};
use tidegate_transfer::wire::tls::Identity;

/// One session with a client, as the server's script sees it.
pub struct Visit {
    #[allow(dead_code, reason = "read where the command is the client")]
    pub request: Request,
    pub outbox: Outbox,
    pub inbox: Inbox,
    /// Data streams in the order they came, until another session begins: one whose client has left has no more.
    pub streams: Receiver<(u32, Channel)>,
}

/// A server whose script answers each session's request; it checks nobody's proof.
pub struct Server {
    pub address: Address,
    listening: SocketAddr,
    over: Arc<AtomicBool>,
    _state: tempfile::TempDir,
}

impl Server {
    pub fn new(script: impl Fn(&Visit) + Send + Sync + 'static) -> Self {
        Self::welcoming(script, None)
    }

    /// One that says welcome, with this version, only once it has been asked for something.
    pub fn late(version: u16, script: impl Fn(&Visit) + Send + Sync + 'static) -> Self {
        Self::welcoming(script, Some(version))
    }

    fn welcoming(script: impl Fn(&Visit) + Send + Sync + 'static, late: Option<u16>) -> Self {
        let state = tempfile::tempdir().expect("a directory");
        let identity = Identity::load_or_create(state.path()).expect("made");
        let tls = identity.server().expect("a configuration");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let listening = listener.local_addr().expect("bound");
        let claims = Claims::FULL.encode();
        let ticket =
            Ticket { fingerprint: identity.fingerprint(), key: derive_key(&[1; 32], &claims), claims };
        let (host, port) = (listening.ip().to_string(), listening.port());
        let address = Address { ticket: Some(ticket), host, port, path: Vec::new() };
        let over = Arc::new(AtomicBool::new(false));
        let newest: Arc<Mutex<Option<Sender<_>>>> = Arc::default();
        let (script, ending) = (Arc::new(script), Arc::clone(&over));
        thread::spawn(move || {
            for socket in listener.incoming() {
                if ending.load(Relaxed) {
                    return;
                }
                let Ok(socket) = socket else { continue };
                let (tls, newest, script) = (Arc::clone(&tls), Arc::clone(&newest), Arc::clone(&script));
                thread::spawn(move || {
                    let Ok(Some(arrival)) = handshake::accept(socket, &tls, true) else { return };
                    let mut channel = arrival.channel;
                    match arrival.opening {
                        Opening::Stream(hello) => {
                            let newest = newest.lock();
                            if let Some(arrived) = &*newest {
                                let _ = arrived.send((hello.index, channel));
                            }
                        }
                        Opening::Session(_) => {
                            let (arrived, streams) = mpsc::channel();
                            *newest.lock() = Some(arrived);
                            if late.is_none() {
                                let welcome = encode(&welcome(VERSIONS.1));
                                std::io::Write::write_all(&mut channel, &welcome).expect("written");
                            }
                            let (outbox, inbox) = session::start(channel, "a client").expect("started");
                            let request = match inbox.receive() {
                                Ok(Message::Request(kind, preamble)) => {
                                    Request { kind, preamble: preamble.read().expect("whole") }
                                }
                                Ok(message) => panic!("{message:?} in place of a request"),
                                Err(_) => return,
                            };
                            late.iter().for_each(|&version| outbox.send(&welcome(version)));
                            script(&Visit { request, outbox, inbox, streams });
                        }
                    }
                });
            }
        });
        Self { address, listening, over, _state: state }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        let _ = std::net::TcpStream::connect(self.listening);
    }
}

impl Visit {
    /// Agrees to send, as if to one file or not.
    pub fn accept_send(&self, single: bool) {
        let agreement = Agreement { token: TOKEN, single, ..Agreement::default() };
        self.outbox.send(&Message::accepted(&agreement));
    }

    /// The next message that is no set-point; polls are answered.
    pub fn next(&self) -> Result<Message, Error> {
        loop {
            match self.inbox.receive_within(Duration::from_secs(20))?.expect("an answer in time") {
                Message::Setpoint(_) => {}
                Message::Poll(number) => self.outbox.send(&Message::report(number, Default::default())),
                message => return Ok(message),
            }
        }
    }

    /// Waits until what was offered is waited for: what is told of a file before that is not heard.
    pub fn offered(&self) {
        while !matches!(self.next(), Ok(Message::Verdicts { .. }) | Err(_)) {}
    }

    /// Says that nothing more comes, and leaves once the receiver has answered or left.
    pub fn finish(&self) {
        self.outbox.send(&Message::Finish);
        while !matches!(self.next(), Ok(Message::Finished(_)) | Err(_)) {}
        self.outbox.close();
    }

    /// The next data stream.
    pub fn stream(&self) -> Channel {
        match self.streams.recv_timeout(Duration::from_secs(120)) {
            Ok((_, stream)) => stream,
            Err(RecvTimeoutError::Timeout) => panic!("no stream in time"),
            // Its client has left: nothing is to be said to anybody.
            Err(RecvTimeoutError::Disconnected) => std::panic::resume_unwind(Box::new("over")),
        }
    }
}

/// A welcome in this version.
fn welcome(version: u16) -> Message {
    Message::Welcome(Record::of(&Welcome::to(version)))
}

/// Agrees to what was asked; data streams show `token`.
pub fn agreed(token: Digest) -> Message {
    Message::accepted(&Agreement { token, ..Agreement::default() })
}

/// What data streams of a [`Server`] show.
pub const TOKEN: Digest = [5; 32];

/// A file to offer.
pub fn file(path: &[u8], size: u64) -> Entry {
    entry(path, Kind::File { size, fingerprint: [1; 16] })
}

/// Anything to offer.
pub fn entry(path: &[u8], kind: Kind) -> Entry {
    Entry::new(RelPath::new(path).expect("a name"), kind, 0o644, Timestamp::default())
}

/// A frame that holds all of a file of one block.
pub fn whole(file: FileId, data: &[u8]) -> Vec<u8> {
    let checksum = Proof::of(data, 0, data.len() as u64, Verify::Blake3).checksum;
    let header = Frame { kind: FrameKind::Data, length: data.len() as u32, file, checksum, offset: 0 };
    [&header.encode()[..], data].concat()
}

/// What such a file hashes to.
pub fn hash_of(file: FileId, data: &[u8]) -> (FileId, u64, Digest) {
    (file, 0, *blake3::hash(data).as_bytes())
}
