//! Sockets, as `std::net`, and waiting for them. What the kernel knows of a connection is in [`tcp`](super::tcp).

pub use std::net::{Shutdown, TcpListener, TcpStream};

use std::io::{self, Write as _};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::sendfile;
use rustix::io::{Errno, pread};
use rustix::net::{SendFlags, send};

#[cfg(test)]
pub(crate) mod faulty;

/// Connects to `address` within `patience`.
pub(crate) fn connect(address: &SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    #[cfg(test)]
    faulty::before_connect()?;
    let stream = TcpStream::connect_timeout(address, patience)?;
    #[cfg(test)]
    faulty::connected(&stream)?;
    Ok(stream)
}

/// Listens on `address`.
pub(crate) fn listen(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
    TcpListener::bind(address)
}

/// Where `host` is to be found.
pub fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.collect())
}

/// Writes `bytes`, then `length` bytes of `file` from `offset` without copying them here.
pub(crate) fn send_with_file(
    mut socket: &TcpStream,
    bytes: &[u8],
    file: BorrowedFd<'_>,
    mut offset: u64,
    length: usize,
) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        // More: the header shares a segment with what follows.
        match send(socket, rest, SendFlags::MORE | SendFlags::NOSIGNAL) {
            Ok(n) => rest = &rest[n..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let end = offset + length as u64;
    while offset < end {
        let left = (end - offset) as usize;
        match sendfile(socket, file, Some(&mut offset), left) {
            // The file has become shorter, and the frame cannot be completed.
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::INTR) => {}
            // Some file systems cannot; then the bytes go by way of memory.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                let mut buffer = vec![0; left];
                let n = pread(file, &mut buffer, offset)?;
                if n == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                socket.write_all(&buffer[..n])?;
                offset += n as u64;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether there is anything to read from `socket`, be it the end.
pub(crate) fn is_readable(socket: &TcpStream) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::IN | PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut polled, Some(&now)), Ok(n) if n > 0)
}

/// Ends another thread's [`wait`](Self::wait).
#[derive(Debug)]
pub(crate) struct Waker(OwnedFd);

impl Waker {
    /// One that has not been used.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    /// Ends the wait under way, or the next one.
    pub fn wake(&self) {
        // Fails only when the counter is full, and then the thread is awake already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Waits until `socket` can be read or written, as asked for, until somebody wakes, or for `patience`. Spurious
    /// returns happen.
    pub fn wait(
        &self,
        socket: &TcpStream,
        readable: bool,
        writable: bool,
        patience: Option<Duration>,
    ) -> io::Result<()> {
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::IN, readable);
        interest.set(PollFlags::OUT, writable);
        let mut polled =
            [PollFd::new(&self.0, PollFlags::IN), PollFd::from_borrowed_fd(socket.as_fd(), interest)];
        // The end of a connection that we do not look at would wake us again and again.
        let looked_at = if interest.is_empty() { 1 } else { 2 };
        let timeout = patience.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut polled[..looked_at], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.0, &mut count);
        Ok(())
    }
}
