//! `md5sums.txt`, as `md5sum` writes it and `md5sum -c` reads it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use data_encoding::HEXLOWER;
use tidegate_transfer::error::{Error, Result};

use crate::checksum::{Algorithm, Checksums};
use crate::list::checksum_line;

/// Takes in the sums of an earlier run that this one has no newer ones of; `false` if the file at `path` holds
/// something else.
pub(crate) fn merge(sums: &mut BTreeMap<Vec<u8>, [u8; 16]>, path: &Path) -> Result<bool> {
    use std::os::unix::ffi::OsStrExt;
    let failed = |error| Error::io("read", path.as_os_str().as_bytes(), error);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(failed(error)),
    };
    let mut earlier = Vec::new();
    for line in BufReader::new(file).split(b'\n') {
        let line = line.map_err(failed)?;
        let Ok((algorithm, hex, name)) = checksum_line(&line) else { return Ok(false) };
        let mut sum = Checksums::none();
        if algorithm != Algorithm::Md5 || sum.add_hex(algorithm, &hex).is_err() {
            return Ok(false);
        }
        earlier.extend(sum.get(Algorithm::Md5).and_then(|sum| sum.try_into().ok()).map(|sum| (name, sum)));
    }
    for (name, sum) in earlier {
        sums.entry(name).or_insert(sum);
    }
    Ok(true)
}

/// Writes a line a file.
pub(crate) fn write(sums: &BTreeMap<Vec<u8>, [u8; 16]>, out: &mut impl Write) -> io::Result<()> {
    for (name, sum) in sums {
        let mark = if name.iter().any(|byte| b"\\\n\r".contains(byte)) { "\\" } else { "" };
        write!(out, "{mark}{}  ", HEXLOWER.encode(sum))?;
        for &byte in name {
            match byte {
                b'\\' => out.write_all(b"\\\\")?,
                b'\n' => out.write_all(b"\\n")?,
                b'\r' => out.write_all(b"\\r")?,
                other => out.write_all(&[other])?,
            }
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}
