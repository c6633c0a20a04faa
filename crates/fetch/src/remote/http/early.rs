//! Informational answers, which may come before the final one (RFC 9110, section 15.2).
//!
//! ureq passes over them too, but not over those with header lines, nor those that come together with much of a body.

use ureq::Error;
use ureq::unversioned::transport::Buffers;

/// Most informational answers before one final one.
const MAX_EARLY: u32 = 100;

/// How the next answer on a connection begins.
#[derive(Debug, Default)]
pub(crate) struct EarlyAnswers {
    /// The final one has begun.
    passed: bool,
    count: u32,
}

/// What the bytes at the beginning of an answer are.
#[derive(Debug, PartialEq, Eq)]
enum Beginning {
    /// An informational answer of so many bytes.
    Early(usize),
    /// It may be one; more has to come.
    Unclear,
    /// Something else.
    Final,
}

impl EarlyAnswers {
    /// Takes informational answers out of what has come; whether the final one has begun.
    pub(crate) fn pass_over(&mut self, buffers: &mut dyn Buffers) -> Result<bool, Error> {
        while !self.passed {
            match beginning(buffers.input()) {
                Beginning::Early(length) => {
                    self.count += 1;
                    if self.count > MAX_EARLY {
                        return Err(too_much(length));
                    }
                    buffers.input_consume(length);
                }
                Beginning::Unclear => {
                    let come = buffers.input().len();
                    return if buffers.input_append_buf().is_empty() {
                        Err(too_much(come))
                    } else {
                        Ok(false)
                    };
                }
                Beginning::Final => self.passed = true,
            }
        }
        Ok(true)
    }
}

const fn too_much(bytes: usize) -> Error {
    Error::LargeResponseHeader(bytes, 0)
}

/// How `input` begins. 101 is a final answer: what follows it is another protocol.
fn beginning(input: &[u8]) -> Beginning {
    let fits = |(at, byte): (usize, &u8)| match at {
        7 | 10 | 11 => byte.is_ascii_digit(),
        _ => *byte == b"HTTP/1.? 1??"[at],
    };
    if !input.iter().take(12).enumerate().all(fits) || input.get(9..12) == Some(b"101") {
        return Beginning::Final;
    }
    match input.windows(4).position(|end| end == b"\r\n\r\n") {
        Some(at) => Beginning::Early(at + 4),
        None => Beginning::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_informational_answers_are_early() {
        let early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
        assert_eq!(beginning(early), Beginning::Early(early.len()));
        assert_eq!(beginning(b"HTTP/1.0 100\r\n\r\nHTTP/1.0 200 OK"), Beginning::Early(16));
        for length in 0..early.len() {
            assert_eq!(beginning(&early[..length]), Beginning::Unclear, "{length}");
        }
        for text in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 101 Other\r\n\r\n", "HTTP/2", "<html>"] {
            assert_eq!(beginning(text.as_bytes()), Beginning::Final, "{text}");
        }
    }
}
