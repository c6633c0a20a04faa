//! TCP connections with the congestion control that was asked for: ureq's own connector does not hand out its socket.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tidegate_transfer::congestion::{CongestionName, give};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport,
};

/// Makes connections where a congestion control was asked for, and leaves them to the next connector where none was.
#[derive(Debug)]
pub(super) struct NamedConnector(pub Option<CongestionName>);

impl<In: Transport> Connector<In> for NamedConnector {
    type Out = Either<In, NamedTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let (Some(name), None) = (&self.0, &chained) else { return Ok(chained.map(Either::A)) };
        let stream = connect(details)?;
        stream.set_nodelay(details.config.no_delay())?;
        give(&stream, name);
        let buffers =
            LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Either::B(NamedTransport { stream, buffers })))
    }
}

/// Connects to the first address that takes us; each has an even part of the time.
fn connect(details: &ConnectionDetails<'_>) -> Result<TcpStream, ureq::Error> {
    let most = details.addrs.len().max(1) as u32;
    let each = left(details.timeout).map(|time| time / most);
    let mut last = io::Error::from(ErrorKind::ConnectionRefused);
    for address in &details.addrs[..] {
        let connected = match each {
            Some(each) => TcpStream::connect_timeout(address, each),
            None => TcpStream::connect(address),
        };
        match connected {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(in_words(last, details.timeout))
}

fn left(timeout: NextTimeout) -> Option<Duration> {
    timeout.not_zero().map(|time| *time)
}

/// What ureq calls it.
fn in_words(error: io::Error, timeout: NextTimeout) -> ureq::Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => ureq::Error::Timeout(timeout.reason),
        _ => error.into(),
    }
}

/// Such a connection.
#[derive(Debug)]
pub(super) struct NamedTransport {
    stream: TcpStream,
    buffers: LazyBuffers,
}

impl NamedTransport {
    /// Reads into what is free of the buffer, within the time that is left where signals interrupt it.
    fn read(&mut self, timeout: NextTimeout) -> io::Result<usize> {
        let (begun, time) = (Instant::now(), left(timeout));
        loop {
            let left = time.map(|time| time.saturating_sub(begun.elapsed()));
            if left == Some(Duration::ZERO) {
                return Err(ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(left)?;
            match self.stream.read(self.buffers.input_append_buf()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

impl Transport for NamedTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let timeout = timely(timeout.for_write())?;
        self.stream.set_write_timeout(left(timeout))?;
        self.stream.write_all(&self.buffers.output()[..amount]).map_err(|error| in_words(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let timeout = timely(timeout.for_read())?;
        let amount = self.read(timeout).map_err(|error| in_words(error, timeout))?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    /// Whatever there is to read of a connection that nothing was asked on is its end.
    fn is_open(&mut self) -> bool {
        let peeked = self.stream.set_nonblocking(true).and_then(|()| self.stream.peek(&mut [0]));
        let is_quiet = peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        is_quiet && self.stream.set_nonblocking(false).is_ok()
    }
}

fn timely(timeout: NextTimeout) -> Result<NextTimeout, ureq::Error> {
    match timeout.after.is_zero() {
        true => Err(ureq::Error::Timeout(timeout.reason)),
        false => Ok(timeout),
    }
}
