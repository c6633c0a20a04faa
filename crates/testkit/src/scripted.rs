//! A server that says exactly what a test wants it to say.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use url::Url;

/// One request: how many connections and requests came before it, and its lines.
#[derive(Clone, Debug)]
pub struct Request {
    pub connection: usize,
    pub number: usize,
    pub lines: Vec<String>,
}

impl Request {
    /// The value of a header line.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.lines.iter().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The path that is asked for.
    pub fn path(&self) -> &str {
        self.lines[0].split(' ').nth(1).expect("a path")
    }
}

/// What happens to the connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It waits for the next request.
    Keep,
    /// It is closed in order.
    Close,
    /// It is reset.
    Reset,
    /// Nothing ever comes again.
    Hang,
}

/// An answer: bytes as they are, and what follows.
pub type Answer = (Vec<u8>, Then);

/// An answer with status 200 (or another status line) and header lines.
pub fn http(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status}\r\n").into_bytes();
    for (name, value) in headers {
        out.extend(format!("{name}: {value}\r\n").into_bytes());
    }
    out.extend(b"\r\n");
    out.extend(body);
    out
}

/// A server in this process. It ends with it, or when it is dropped.
pub struct Scripted {
    port: u16,
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Scripted {
    /// An HTTP server that answers each request by `script`.
    pub fn http(script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::with_bodies(move |request, _| script(request))
    }

    /// The same, with the body of each request, whose length must be given.
    pub fn with_bodies(script: impl Fn(&Request, &[u8]) -> Answer + Send + Sync + 'static) -> Self {
        let numbers = AtomicUsize::new(0);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&seen);
        let mut server = Self::raw(move |connection, stream| {
            let mut reader = BufReader::new(stream.try_clone().expect("the same socket"));
            loop {
                let mut lines: Vec<String> = Vec::new();
                loop {
                    let mut line = String::new();
                    match reader.read_line(&mut line) {
                        Ok(count) if count > 0 => {}
                        _ => return,
                    }
                    match line.trim_end() {
                        "" => break,
                        line => lines.push(line.to_owned()),
                    }
                }
                let request = Request { connection, number: numbers.fetch_add(1, Ordering::Relaxed), lines };
                told.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
                let length = request.header("content-length").and_then(|length| length.parse().ok());
                let mut body = vec![0; length.unwrap_or(0)];
                if reader.read_exact(&mut body).is_err() {
                    return;
                }
                let (bytes, then) = script(&request, &body);
                if (&stream).write_all(&bytes).is_err() {
                    return;
                }
                match then {
                    Then::Keep => {}
                    Then::Close => return,
                    Then::Reset => {
                        // Closing with no time to linger resets the connection.
                        let _ = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
                        return;
                    }
                    Then::Hang => loop {
                        std::thread::park_timeout(Duration::from_secs(60));
                    },
                }
            }
        });
        server.seen = seen;
        server
    }

    /// Any server: `serve` has each connection, with its number, in a thread.
    pub fn raw(serve: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let (stop, serve) = (Arc::new(AtomicBool::new(false)), Arc::new(serve));
        let stopped = Arc::clone(&stop);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (serve, Ok(stream)) = (Arc::clone(&serve), stream) else { continue };
                std::thread::spawn(move || serve(number, stream));
            }
        });
        Self { port, stop, seen: Arc::default() }
    }

    /// A file there.
    pub fn url(&self, path: &str) -> Url {
        self.url_as("http", path)
    }

    /// A file there by another protocol.
    pub fn url_as(&self, scheme: &str, path: &str) -> Url {
        Url::parse(&format!("{scheme}://127.0.0.1:{}/{path}", self.port)).expect("a URL")
    }

    /// What was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}
