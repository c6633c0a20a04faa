//! What a conversion has written, held against what the archive has: a program that ends well may have written nothing, or
//! half.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tidegate_transfer::text::show;
use tidegate_transfer::transfer::Interrupt;

/// Lines of a read in FASTQ.
const LINES: u64 = 4;
/// What is read at a time.
const PIECE: usize = 1 << 20;

/// Files of one archive's reads.
#[derive(Debug, Default)]
pub struct Written {
    /// Their names, and how many lines each has, one without an end included.
    files: Vec<(String, u64)>,
}

impl Written {
    /// Counts the lines of `files`, until interrupted.
    pub fn count(files: &[PathBuf], interrupt: &Interrupt) -> io::Result<Self> {
        let mut piece = vec![0; PIECE];
        let mut written = Self::default();
        for file in files {
            let mut from = File::open(file)?;
            let (mut lines, mut last) = (0, b'\n');
            while !interrupt.is_raised() {
                let read = match from.read(&mut piece) {
                    Ok(0) => break,
                    Ok(read) => read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                };
                lines += piece[..read].iter().filter(|byte| **byte == b'\n').count() as u64;
                last = piece[read - 1];
            }
            written.files.push((name(file), lines + u64::from(last != b'\n')));
        }
        Ok(written)
    }

    /// What is missing of an archive of so many `reads`, in words.
    pub fn lacks(&self, reads: Option<u64>) -> Option<String> {
        if self.files.iter().all(|(_, lines)| *lines == 0) {
            return Some("wrote no read".to_owned());
        }
        let reads = reads.filter(|reads| *reads > 0)?;
        if let Some((name, lines)) = self.files.iter().find(|(_, lines)| lines % LINES != 0) {
            return Some(format!("{name} is cut after {lines} lines"));
        }
        let there = self.reads();
        (there < reads).then(|| format!("wrote {there} of {reads} reads"))
    }

    /// How many reads they hold: ends of one read are in files of their own (`_1`, `_2`, …), reads of which there is one
    /// end only in another.
    fn reads(&self) -> u64 {
        let (ends, others): (Vec<_>, Vec<_>) = self.files.iter().partition(|(name, _)| is_end(name));
        let most = ends.iter().map(|(_, lines)| lines / LINES).max().unwrap_or(0);
        most + others.iter().map(|(_, lines)| lines / LINES).sum::<u64>()
    }
}

fn name(file: &Path) -> String {
    show(file.file_name().unwrap_or_default().as_encoded_bytes()).into_owned()
}

/// Whether a file holds one end of each read: `NAME_1.fastq`.
fn is_end(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    stem.rsplit_once('_').is_some_and(|(_, end)| !end.is_empty() && end.chars().all(|c| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_reads_than_the_archive_has_are_told() {
        let lacks = |files: &[(&str, u64)], reads| {
            let files = files.iter().map(|(name, lines)| ((*name).to_owned(), *lines)).collect();
            Written { files }.lacks(reads)
        };
        let (one, two, single) = ("SRR1_1.fastq", "SRR1_2.fastq", "SRR1.fastq");
        for (files, reads) in [
            (&[(one, 8), (two, 8)][..], Some(2)),
            (&[(one, 8), (two, 8), (single, 4)], Some(3)),
            (&[(one, 8), (two, 4)], Some(2)),
            (&[(single, 12)], Some(3)),
            (&[(single, 16)], Some(3)),
            (&[(one, 1), (two, 0)], None),
            (&[(single, 4)], Some(0)),
        ] {
            assert_eq!(lacks(files, reads), None, "{files:?} {reads:?}");
        }
        for (files, reads, wanted) in [
            (&[(one, 0), (two, 0)][..], None, "wrote no read"),
            (&[(one, 8), (two, 8)], Some(3), "wrote 2 of 3 reads"),
            (&[(one, 8), (two, 8), (single, 4)], Some(9), "wrote 3 of 9 reads"),
            (&[(one, 8), (two, 7)], Some(2), "SRR1_2.fastq is cut after 7 lines"),
        ] {
            assert_eq!(lacks(files, reads).as_deref(), Some(wanted), "{files:?} {reads:?}");
        }
    }
}
