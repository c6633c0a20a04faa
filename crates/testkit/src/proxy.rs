//! A TCP proxy that damages what passes: resets, flipped bits and stalls at given byte offsets.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use socket2::SockRef;

/// What happens to one direction of a connection, at which byte.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// The connection is reset on both sides.
    Reset(u64),
    /// One bit of the byte is flipped.
    Flip(u64, u8),
    /// Nothing passes for this long.
    Pause(u64, Duration),
    /// From here on everything is taken, and nothing passed on.
    Swallow(u64),
}

impl Fault {
    fn at(self) -> u64 {
        match self {
            Self::Reset(at) | Self::Flip(at, _) | Self::Pause(at, _) | Self::Swallow(at) => at,
        }
    }
}

/// The faults of one connection; offsets count from its first byte.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub up: Vec<Fault>,
    pub down: Vec<Fault>,
}

struct Connection {
    client: TcpStream,
    server: TcpStream,
    reset: AtomicBool,
    /// Whether the server spoke last.
    answered: AtomicBool,
}

pub struct Proxy {
    pub port: u16,
    connections: Arc<Mutex<Vec<Arc<Connection>>>>,
    /// Faults that came to pass.
    pub happened: Arc<AtomicUsize>,
    /// Bytes that passed from clients to the server.
    pub up: Arc<AtomicU64>,
    /// How often servers answered what clients had said, on all connections but the first.
    pub answers: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
}

impl Proxy {
    /// Forwards to `target` on the loopback; `plan` is asked for each connection, numbered from 0. The
    /// first one is a transfer's session.
    pub fn start(target: u16, plan: impl Fn(usize) -> Plan + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        // What a fault holds back is soon held back at the client too.
        SockRef::from(&listener).set_recv_buffer_size(64 << 10).expect("set");
        let port = listener.local_addr().expect("an address").port();
        let proxy = Self {
            port,
            connections: Arc::default(),
            happened: Arc::default(),
            up: Arc::default(),
            answers: Arc::default(),
            over: Arc::default(),
        };
        let answers = Arc::clone(&proxy.answers);
        let (connections, happened, up, over) = (
            Arc::clone(&proxy.connections),
            Arc::clone(&proxy.happened),
            Arc::clone(&proxy.up),
            Arc::clone(&proxy.over),
        );
        thread::spawn(move || {
            for (index, client) in listener.incoming().enumerate() {
                if over.load(SeqCst) {
                    return;
                }
                let client = client.expect("accepted");
                let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else { continue };
                for socket in [&client, &server] {
                    socket.set_nodelay(true).expect("set");
                    socket.set_read_timeout(Some(Duration::from_millis(10))).expect("set");
                }
                let connection = Arc::new(Connection {
                    client,
                    server,
                    reset: AtomicBool::new(false),
                    answered: AtomicBool::new(true),
                });
                connections.lock().expect("sound").push(Arc::clone(&connection));
                let Plan { up: mut faults_up, down: mut faults_down } = plan(index);
                faults_up.sort_by_key(|fault| fault.at());
                faults_down.sort_by_key(|fault| fault.at());
                let (back, happened_down) = (Arc::clone(&connection), Arc::clone(&happened));
                let answers = (index > 0).then(|| Arc::clone(&answers));
                thread::spawn(move || {
                    let spoke = |_| {
                        if !back.answered.swap(true, SeqCst)
                            && let Some(answers) = &answers
                        {
                            answers.fetch_add(1, SeqCst);
                        }
                    };
                    pump(&back, &back.server, &back.client, &faults_down, &happened_down, spoke);
                });
                let (happened, up) = (Arc::clone(&happened), Arc::clone(&up));
                thread::spawn(move || {
                    let spoke = |bytes| {
                        connection.answered.store(false, SeqCst);
                        up.fetch_add(bytes, SeqCst);
                    };
                    pump(&connection, &connection.client, &connection.server, &faults_up, &happened, spoke);
                });
            }
        });
        proxy
    }

    /// Resets connection `index`; `false` if there is no such one.
    pub fn reset(&self, index: usize) -> bool {
        match self.connections.lock().expect("sound").get(index) {
            Some(connection) => {
                connection.reset();
                true
            }
            None => false,
        }
    }

    /// Connections made so far.
    pub fn count(&self) -> usize {
        self.connections.lock().expect("sound").len()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        self.connections.lock().expect("sound").drain(..).for_each(|connection| connection.reset());
    }
}

impl Connection {
    fn reset(&self) {
        self.reset.store(true, SeqCst);
        // A disconnect sends a reset at once, whoever else holds the socket.
        for socket in [&self.client, &self.server] {
            let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
            disconnect(socket);
        }
    }
}

#[allow(unsafe_code)]
fn disconnect(socket: &TcpStream) {
    use std::os::fd::AsRawFd;
    // SAFETY: an all-zero sockaddr is a valid AF_UNSPEC address, and its size is given.
    unsafe {
        let nowhere: libc::sockaddr = std::mem::zeroed();
        libc::connect(socket.as_raw_fd(), &raw const nowhere, size_of::<libc::sockaddr>() as libc::socklen_t);
    }
}

fn pump(
    connection: &Connection,
    from: &TcpStream,
    to: &TcpStream,
    faults: &[Fault],
    happened: &AtomicUsize,
    spoke: impl Fn(u64),
) {
    let (mut from, mut to) = (from, to);
    let mut buffer = vec![0; 64 << 10];
    let mut offset = 0;
    let mut faults = faults.iter().copied().peekable();
    while !connection.reset.load(SeqCst) {
        let n = match from.read(&mut buffer) {
            Ok(0) => {
                let _ = to.shutdown(std::net::Shutdown::Write);
                return;
            }
            Ok(n) => n,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(_) => break,
        };
        let mut sent = 0;
        spoke(n as u64);
        while let Some(fault) = faults.next_if(|fault| fault.at() < offset + n as u64) {
            let at = fault.at().saturating_sub(offset) as usize;
            happened.fetch_add(1, SeqCst);
            match fault {
                Fault::Flip(_, bit) => buffer[at] ^= 1 << bit,
                Fault::Reset(_) => {
                    let _ = to.write_all(&buffer[sent..at]);
                    connection.reset();
                    return;
                }
                Fault::Swallow(_) => {
                    let _ = to.write_all(&buffer[sent..at]);
                    swallow(connection, from);
                    return;
                }
                Fault::Pause(_, time) => {
                    if to.write_all(&buffer[sent..at]).is_err() {
                        break;
                    }
                    sent = at;
                    thread::sleep(time);
                }
            }
        }
        if to.write_all(&buffer[sent..n]).is_err() {
            break;
        }
        offset += n as u64;
    }
    connection.reset();
}

/// Takes everything until the end, and passes nothing on.
fn swallow(connection: &Connection, mut from: &TcpStream) {
    let mut buffer = vec![0; 64 << 10];
    while !connection.reset.load(SeqCst) {
        match from.read(&mut buffer) {
            Ok(n) if n > 0 => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            _ => return,
        }
    }
}
