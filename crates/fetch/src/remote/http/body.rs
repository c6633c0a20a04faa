//! The bytes of an answer, exactly as many as were promised.

use std::io::{self, Read};

use tidegate_transfer::text;
use ureq::BodyReader;

/// A body that is no shorter and no longer than promised.
pub(crate) struct ResponseBody {
    inner: BodyReader<'static>,
    /// What has still to come; `None` if nobody knows.
    left: Option<u64>,
    /// Whether its end is marked, so that the connection can be used again after it.
    ends: bool,
}

impl ResponseBody {
    /// The next `promised` bytes of `inner`; with nothing promised, all of it. `ends` says that it has an
    /// end other than that of the connection.
    pub fn new(inner: BodyReader<'static>, promised: Option<u64>, ends: bool) -> io::Result<Self> {
        let mut body = Self { inner, left: promised, ends };
        if promised == Some(0) {
            body.end()?;
        }
        Ok(body)
    }

    /// Meets the end of the body, which gives the connection back for the next request.
    fn end(&mut self) -> io::Result<()> {
        if !self.ends {
            return Ok(());
        }
        match self.inner.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "the server sent more than it promised")),
            // All that was promised is here; the connection is of no more use, and ureq has dropped it.
            Err(_) => Ok(()),
        }
    }
}

impl Read for ResponseBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == Some(0) || buffer.is_empty() {
            return Ok(0);
        }
        let most = self
            .left
            .map_or(buffer.len(), |left| buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
        let count = match self.inner.read(&mut buffer[..most]) {
            Ok(count) => count,
            Err(error) => return Err(explain(&error)),
        };
        match &mut self.left {
            Some(left) if count == 0 => {
                let missing = *left;
                let what = format!("the answer ended {missing} bytes before its end");
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, what))
            }
            Some(left) => {
                *left -= count as u64;
                if *left == 0 {
                    self.end()?;
                }
                Ok(count)
            }
            None => Ok(count),
        }
    }
}

/// What went wrong, for people; whoever reads knows where.
fn explain(error: &io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
    match (inner, error.kind()) {
        (Some(ureq::Error::Timeout(_)), _) | (_, io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
            io::Error::new(io::ErrorKind::TimedOut, "the server fell silent in the middle of an answer")
        }
        (_, io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
            io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was lost in the middle of an answer")
        }
        (Some(ureq::Error::Protocol(_)), _) => {
            io::Error::new(io::ErrorKind::UnexpectedEof, "the answer is garbled")
        }
        (_, kind) => {
            let words = format!("the answer could not be read: {error}");
            io::Error::new(kind, text::foreign(&words))
        }
    }
}
