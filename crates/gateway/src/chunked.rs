//! Bodies in chunks with signatures, or with a checksum behind them, as AWS's clients send them (`aws-chunked`).

use axum::http::StatusCode;
use sha2::{Digest as _, Sha256};

use crate::refusal::{Answer, Refusal};
use crate::signature::Signed;

/// Longest line between chunks.
const MAX_LINE: usize = 1024;

/// The line that signs those before it.
const SIGNATURE: &str = "x-amz-trailer-signature";

/// Most lines behind the last chunk.
const MAX_TRAILERS: usize = 16;

/// Where in the body we are.
#[derive(Debug)]
enum At {
    Head,
    /// So many bytes of the chunk are to come.
    Data(u64),
    /// The line's end behind a chunk.
    End,
    Trailers,
    Over,
}

/// What may stand behind the last chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trailing {
    /// Nothing.
    Nothing,
    /// Lines, with their signature behind them where chunks are signed.
    Lines,
}

/// Takes such a body apart.
#[derive(Debug)]
pub(crate) struct Decoder {
    at: At,
    line: Vec<u8>,
    /// What checks chunks, if they are signed; with the hash of the chunk so far, and its signature.
    signed: Option<Box<Signed>>,
    hash: Sha256,
    signature: String,
    trailing: Trailing,
    trailers: Vec<(String, String)>,
}

impl Decoder {
    /// For a body whose chunks are signed, or not.
    pub fn new(signed: Option<Box<Signed>>, trailing: Trailing) -> Self {
        let (line, trailers) = (Vec::new(), Vec::new());
        Self { at: At::Head, line, signed, hash: Sha256::new(), signature: String::new(), trailing, trailers }
    }

    /// Takes `bytes` in, and gives what they hold to `out`.
    pub fn take(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Answer<()> {
        while !bytes.is_empty() {
            if let At::Data(left) = &mut self.at {
                let length = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                let (data, rest) = bytes.split_at(length);
                out.extend_from_slice(data);
                if self.signed.is_some() {
                    self.hash.update(data);
                }
                bytes = rest;
                *left -= length as u64;
                if *left == 0 {
                    self.check()?;
                    self.at = At::End;
                }
                continue;
            }
            let Some(end) = bytes.iter().position(|&b| b == b'\n') else {
                self.line.extend_from_slice(bytes);
                return if self.line.len() > MAX_LINE { Err(malformed()) } else { Ok(()) };
            };
            self.line.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            if self.line.len() > MAX_LINE || self.line.pop() != Some(b'\r') {
                return Err(malformed());
            }
            let line = String::from_utf8(std::mem::take(&mut self.line)).map_err(|_| malformed())?;
            self.line(&line)?;
        }
        Ok(())
    }

    /// What stood behind the body, which must be whole.
    pub fn finish(self) -> Answer<Vec<(String, String)>> {
        match self.at {
            At::Over if self.line.is_empty() => Ok(self.trailers),
            At::Over => Err(malformed()),
            _ => Err(Refusal::senseless("the body broke off").called("IncompleteBody")),
        }
    }

    fn line(&mut self, line: &str) -> Answer<()> {
        match self.at {
            At::Head => {
                let (size, extensions) = line.split_once(';').unwrap_or((line, ""));
                let is_size =
                    !size.is_empty() && size.len() <= 16 && size.bytes().all(|b| b.is_ascii_hexdigit());
                let size = u64::from_str_radix(size, 16).ok().filter(|_| is_size).ok_or_else(malformed)?;
                self.signature = extensions.strip_prefix("chunk-signature=").unwrap_or_default().to_owned();
                self.hash = Sha256::new();
                self.at = At::Data(size);
                if size == 0 {
                    self.check()?;
                    self.at = At::Trailers;
                }
            }
            At::End if line.is_empty() => self.at = At::Head,
            At::Trailers if line.is_empty() => {
                self.check_trailers()?;
                self.at = At::Over;
            }
            At::Trailers if self.trailing == Trailing::Lines && self.trailers.len() < MAX_TRAILERS => {
                let (name, value) = line.split_once(':').ok_or_else(malformed)?;
                self.trailers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
            }
            _ => return Err(malformed()),
        }
        Ok(())
    }

    fn check(&mut self) -> Answer<()> {
        let Some(signed) = &mut self.signed else { return Ok(()) };
        let hash = std::mem::take(&mut self.hash).finalize();
        match signed.check_chunk(&hash, &self.signature) {
            true => Ok(()),
            false => Err(forged("a chunk's signature does not match")),
        }
    }

    /// Lines behind signed chunks are signed themselves, by the last of them.
    fn check_trailers(&mut self) -> Answer<()> {
        let (Some(signed), Trailing::Lines) = (&mut self.signed, self.trailing) else { return Ok(()) };
        let last = self.trailers.pop().filter(|(name, _)| name == SIGNATURE);
        let lines: String = self.trailers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        match last.is_some_and(|(_, signature)| signed.check_trailers(&lines, &signature)) {
            true => Ok(()),
            false => Err(forged("the signature of what follows the body does not match")),
        }
    }
}

fn forged(why: &str) -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, why).called("SignatureDoesNotMatch")
}

fn malformed() -> Refusal {
    Refusal::senseless("the chunks of the body cannot be read").called("IncompleteBody")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(body: &[u8], piece: usize) -> Answer<(Vec<u8>, Vec<(String, String)>)> {
        let (mut decoder, mut out) = (Decoder::new(None, Trailing::Lines), Vec::new());
        for piece in body.chunks(piece) {
            decoder.take(piece, &mut out)?;
        }
        Ok((out, decoder.finish()?))
    }

    #[test]
    fn chunks_come_together_however_they_arrive() {
        let body = b"5\r\nhello\r\n1;chunk-signature=x\r\n!\r\n0\r\nx-amz-checksum-crc32:AA==\r\n\r\n";
        for piece in 1..body.len() {
            let (out, trailers) = decoded(body, piece).expect("read");
            assert_eq!(
                (&out[..], &trailers[..]),
                (&b"hello!"[..], &[("x-amz-checksum-crc32".to_owned(), "AA==".to_owned())][..])
            );
        }
        assert!(decoded(b"0\r\n\r\n", 9).expect("read").0.is_empty());
        for bad in [
            &b""[..],
            b"5\r\nhell",
            b"x\r\n",
            b"-1\r\n",
            b"5\nhello",
            b"5\r\nhello!\r\n",
            b"1\r\na\r\n0\r\n",
            b"0\r\n\r\nx\r\n",
            b"0\r\n\r\nx",
            b"\r\n",
        ] {
            assert!(decoded(bad, 3).is_err(), "{bad:?}");
        }
        assert!(decoded(&[b'1'; 5000], 5000).is_err());
        let (mut decoder, mut out) = (Decoder::new(None, Trailing::Nothing), Vec::new());
        assert!(
            decoder.take(b"0\r\nx-amz-checksum-crc32:AA==\r\n\r\n", &mut out).is_err(),
            "nothing was to follow"
        );
    }

    proptest! {
        #[test]
        fn garbage_never_panics(body in prop::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'0'), Just(b'f'), any::<u8>()], 0..60), piece in 1..9_usize) {
            let _ = decoded(&body, piece);
        }
    }
}
