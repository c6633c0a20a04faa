//! One connection, encrypted or not, with blocking reads and writes.

use std::io::{self, BufReader, Read, Write};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustls::Connection;
use rustls::pki_types::CertificateDer;

use crate::sys::clock::Instant;
use crate::sys::net::{self, Shutdown, TcpStream};

/// What TLS reads from the socket at once: several records a system call.
const TLS_READ: usize = 256 << 10;

/// A byte stream between two ends.
#[derive(Debug)]
pub enum Channel {
    /// Not encrypted.
    Clear(TcpStream),
    /// TLS 1.3.
    Tls(Box<Tls>),
}

/// TLS over a blocking socket.
#[derive(Debug)]
pub struct Tls {
    connection: Connection,
    socket: BufReader<TcpStream>,
    deadline: Option<Instant>,
}

impl Channel {
    /// TLS on `socket`; the handshake happens with `finish_handshake`.
    pub fn tls(mut connection: Connection, socket: TcpStream) -> Self {
        connection.set_buffer_limit(None);
        Self::Tls(Box::new(Tls {
            connection,
            socket: BufReader::with_capacity(TLS_READ, socket),
            deadline: None,
        }))
    }

    /// The TCP connection beneath.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Clear(socket) => socket,
            Self::Tls(tls) => tls.socket.get_ref(),
        }
    }

    /// Ends reading and writing at `deadline`, however slowly the peer talks; `None` lets them take
    /// any time.
    pub(crate) fn set_deadline(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        if let Self::Tls(tls) = self {
            tls.deadline = deadline;
        }
        limit(self.socket(), deadline)
    }

    /// Completes the TLS handshake; nothing to do on a clear channel.
    pub(crate) fn finish_handshake(&mut self) -> io::Result<()> {
        let Self::Tls(tls) = self else { return Ok(()) };
        while tls.connection.is_handshaking() {
            tls.flush_records()?;
            if tls.connection.wants_read() {
                tls.read_records()?;
            }
        }
        tls.flush_records()
    }

    /// The peer's certificates, if it showed any.
    pub(crate) fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        match self {
            Self::Clear(_) => &[],
            Self::Tls(tls) => tls.connection.peer_certificates().unwrap_or_default(),
        }
    }

    /// The peer's own certificate, if it showed one.
    pub(crate) fn peer_certificate(&self) -> Option<&[u8]> {
        self.peer_certificates().first().map(|certificate| certificate.as_ref())
    }

    /// The application protocol that both ends named (ALPN), if they did.
    pub(crate) fn application(&self) -> Option<&[u8]> {
        match self {
            Self::Clear(_) => None,
            Self::Tls(tls) => tls.connection.alpn_protocol(),
        }
    }

    /// Bytes that only the two ends of this TLS connection know; empty on a clear channel.
    pub(crate) fn exporter(&self) -> Vec<u8> {
        match self {
            Self::Clear(_) => Vec::new(),
            Self::Tls(tls) => {
                let exported = match &tls.connection {
                    Connection::Client(client) => {
                        client.export_keying_material([0; 32], b"EXPORTER-tidegate-session", None)
                    }
                    Connection::Server(server) => {
                        server.export_keying_material([0; 32], b"EXPORTER-tidegate-session", None)
                    }
                };
                exported.expect("the handshake is complete").to_vec()
            }
        }
    }

    /// Writes `bytes`, then `length` bytes of `file` from `offset` without copying them here. Clear
    /// channels only.
    pub(crate) fn write_with_file(
        &mut self,
        bytes: &[u8],
        file: BorrowedFd<'_>,
        offset: u64,
        length: usize,
    ) -> io::Result<()> {
        match self {
            Self::Clear(socket) => net::send_with_file(socket, bytes, file, offset, length),
            Self::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Tells the peer that nothing more comes, without losing what is under way.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Self::Tls(tls) = self {
            tls.connection.send_close_notify();
            tls.flush_records()?;
        }
        self.socket().shutdown(Shutdown::Write)
    }

    /// The connection, socket and buffered bytes, for a session that polls.
    pub(crate) fn into_tls(self) -> Option<Tls> {
        match self {
            Self::Clear(_) => None,
            Self::Tls(tls) => Some(*tls),
        }
    }
}

impl Tls {
    /// The TCP connection beneath.
    pub fn socket(&self) -> &TcpStream {
        self.socket.get_ref()
    }

    /// Queues plain bytes for sending.
    pub fn queue(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.connection.writer().write_all(bytes)
    }

    /// Writes queued records; `WouldBlock` on a non-blocking socket that is full.
    pub(crate) fn flush_records(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            // A caller that tried again after a signal would queue its bytes twice.
            if retry(|| self.connection.write_tls(self.socket.get_mut()))? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Reads some records from the socket; `UnexpectedEof` if the peer is gone.
    fn read_records(&mut self) -> io::Result<()> {
        if self.deadline.is_some() {
            limit(self.socket.get_ref(), self.deadline)?;
        }
        if retry(|| self.connection.read_tls(&mut self.socket))? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match self.connection.process_new_packets() {
            Ok(_) => Ok(()),
            Err(error) => {
                // Let the peer know why, if it still listens.
                let _ = self.flush_records();
                Err(io::Error::new(io::ErrorKind::InvalidData, error))
            }
        }
    }
}

/// Calls again what a signal interrupted: sockets with a timeout are not resumed by the kernel.
pub(crate) fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Lets one read or write on `socket` last until `deadline`.
fn limit(socket: &TcpStream, deadline: Option<Instant>) -> io::Result<()> {
    let left = match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
        Some(Duration::ZERO) => return Err(io::ErrorKind::TimedOut.into()),
        left => left,
    };
    socket.set_read_timeout(left)?;
    socket.set_write_timeout(left)
}

impl Read for Tls {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.read_records()?,
                result => return result,
            }
        }
    }
}

impl Read for Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Clear(socket) => retry(|| socket.read(buffer)),
            Self::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Clear(socket) => socket.write(bytes),
            Self::Tls(tls) => {
                tls.queue(bytes)?;
                tls.flush_records()?;
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Clear(socket) => socket.flush(),
            Self::Tls(tls) => tls.flush_records(),
        }
    }
}
