//! A way to an endpoint that counts what passes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::SeqCst};
use std::thread;

/// Counts what passes on the way to an endpoint whose port may change.
pub struct Counter {
    port: u16,
    target: Arc<AtomicU16>,
    bytes: Arc<AtomicU64>,
}

impl Counter {
    /// Starts it; it leads nowhere yet.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let port = listener.local_addr().expect("an address").port();
        let (target, bytes) = (Arc::new(AtomicU16::new(0)), Arc::new(AtomicU64::new(0)));
        let (to, counted) = (Arc::clone(&target), Arc::clone(&bytes));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A dead endpoint looks dead from behind, too.
                let Ok(server) = TcpStream::connect(("127.0.0.1", to.load(SeqCst))) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (mut from, mut to) =
                        (from.try_clone().expect("cloned"), to.try_clone().expect("cloned"));
                    let counted = Arc::clone(&counted);
                    thread::spawn(move || {
                        let mut buffer = vec![0; 64 << 10];
                        while let Ok(n) = from.read(&mut buffer) {
                            if n == 0 || to.write_all(&buffer[..n]).is_err() {
                                break;
                            }
                            counted.fetch_add(n as u64, SeqCst);
                        }
                        let _ = to.shutdown(Shutdown::Both);
                        let _ = from.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Self { port, target, bytes }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Connections from now on lead to that port.
    pub fn lead_to(&self, port: u16) {
        self.target.store(port, SeqCst);
    }

    /// What has passed so far, both ways.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(SeqCst)
    }
}
