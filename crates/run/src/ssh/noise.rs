//! What the shell of another host prints before anything that it was asked for.

use std::io::{self, BufRead};

use tidegate_contract::text::one_line;
use tidegate_transfer::error::{Error, Result};

/// Most that a shell may print before the program speaks.
const MAX_NOISE: usize = 64 << 10;

/// Reads on until behind `mark`; `false` if that never comes.
pub fn skip_noise(from: &mut impl BufRead, mark: &[u8]) -> Result<bool> {
    let mut noise: Vec<u8> = Vec::new();
    let mut byte = [0];
    while noise.len() < MAX_NOISE {
        match from.read(&mut byte) {
            Ok(0) => return Ok(false),
            Ok(_) => noise.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Ok(false),
        }
        if noise.ends_with(mark) {
            return Ok(true);
        }
    }
    let begin = one_line(&String::from_utf8_lossy(&noise[..60]));
    let why = format!(
        "prints more than 64 KiB before it runs anything ('{begin}…'): let it be silent where nobody is at a terminal"
    );
    Err(Error::protocol(why))
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read};

    use super::*;

    #[test]
    fn what_a_shell_prints_first_is_skipped_up_to_a_bound() {
        let text = b"Welcome!\r\nTIDEGATE x nearly\nTIDEGATE 12 rest";
        let mut from = &text[..];
        assert!(skip_noise(&mut from, b"TIDEGATE 12 ").expect("found"));
        assert_eq!(from, b"rest");
        assert!(!skip_noise(&mut &b"nothing"[..], b"TIDEGATE 12 ").expect("an end"));
        let error =
            skip_noise(&mut io::repeat(b'!').take(100 << 20).by_ref_buffered(), b"X").expect_err("noise");
        assert!(error.message.contains("64 KiB") && !error.message.contains('\n'), "{error}");
    }

    trait Buffered: Read + Sized {
        fn by_ref_buffered(self) -> BufReader<Self> {
            BufReader::new(self)
        }
    }

    impl<R: Read> Buffered for R {}
}
