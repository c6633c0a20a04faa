//! Tar: ustar headers, and pax ones before them where a name or a size does not fit.

use std::io;

use super::{Member, Writer};

const BLOCK: usize = 512;

/// The longest name and the largest size that a ustar header has.
const MAX_NAME: usize = 100;
const MAX_SIZE: u64 = 0o777_7777_7777;

/// Writes a tar.
#[derive(Default)]
pub(crate) struct Tar {
    is_over: bool,
}

impl Writer for Tar {
    fn begin(&mut self, member: &Member) -> io::Result<Vec<u8>> {
        let mut name = member.name.clone();
        let (size, mode, kind) = match &member.file {
            Some(file) => (file.size, file.mode, b'0'),
            None => {
                name.push(b'/');
                (0, 0o755, b'5')
            }
        };
        let mut records = Vec::new();
        if name.len() > MAX_NAME {
            if std::str::from_utf8(&name).is_err() {
                // Names in these records are UTF-8 unless they are said not to be.
                records.extend(record(b"hdrcharset", b"BINARY"));
            }
            records.extend(record(b"path", &name));
        }
        if size > MAX_SIZE {
            records.extend(record(b"size", size.to_string().as_bytes()));
        }
        let modified = u64::try_from(member.modified.seconds).unwrap_or(0);
        let mut bytes = Vec::new();
        if !records.is_empty() {
            bytes.extend(header(b"pax", records.len() as u64, 0o644, modified, b'x'));
            let padding = padding(records.len() as u64);
            bytes.extend(records);
            bytes.resize(bytes.len() + padding, 0);
        }
        name.truncate(MAX_NAME);
        bytes.extend(header(&name, size.min(MAX_SIZE), mode, modified, kind));
        Ok(bytes)
    }

    fn note(&mut self, _: &[u8]) {}

    fn end(&mut self, member: &Member) -> io::Result<Vec<u8>> {
        Ok(vec![0; padding(member.file.as_ref().map_or(0, |file| file.size))])
    }

    fn finish(&mut self) -> io::Result<Option<Vec<u8>>> {
        Ok((!std::mem::replace(&mut self.is_over, true)).then(|| vec![0; 2 * BLOCK]))
    }
}

/// Zeros up to the next block.
fn padding(size: u64) -> usize {
    (BLOCK - (size % BLOCK as u64) as usize) % BLOCK
}

/// A record of a pax header, which begins with its own length.
fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let rest = [b" ", key, b"=", value, b"\n"].concat();
    let mut length = rest.len();
    while length != rest.len() + length.to_string().len() {
        length = rest.len() + length.to_string().len();
    }
    [length.to_string().as_bytes(), &rest].concat()
}

fn header(name: &[u8], size: u64, mode: u32, modified: u64, kind: u8) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name);
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000");
    put(116, b"0000000");
    put(124, format!("{size:011o}").as_bytes());
    put(136, format!("{:011o}", modified.min(MAX_SIZE)).as_bytes());
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_its_own_length() {
        for length in 1..300 {
            let record = record(b"path", &vec![b'x'; length]);
            let said: usize = std::str::from_utf8(&record)
                .expect("text")
                .split(' ')
                .next()
                .expect("one")
                .parse()
                .expect("a number");
            assert_eq!(said, record.len());
        }
    }
}
