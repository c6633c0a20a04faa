//! What is to be moved, cut into slices of so many bytes: whole files, and parts of those that are larger than a slice.

use std::io::{self, BufRead};

use tidegate_control::ByteCount;

use super::listing::Entry;

/// Parts of files are multiples of so many bytes, and no file is cut for less.
const PART: u64 = 1 << 20;
/// The most files of a slice: they are kept in memory.
const MAX_PIECES: usize = 10_000;

/// The names that files have while they are only listed, and the places that they are for.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The address of a directory that there is not; beneath it a directory or file for each pair, by number.
    pub nowhere: String,
    /// From where to where.
    pub pairs: Vec<(String, String)>,
}

impl Places {
    /// Where what was listed as `place` is to go; `None` where that cannot be told.
    pub fn there(&self, place: &str) -> Option<String> {
        let Some(rest) = place.strip_prefix(&self.nowhere).filter(|_| !self.nowhere.is_empty()) else {
            return Some(place.to_owned());
        };
        let rest = rest.strip_prefix('/')?;
        let (number, name) = rest.split_once('/').map_or((rest, None), |(number, name)| (number, Some(name)));
        let (source, destination) = self.pairs.get(number.parse::<usize>().ok()?)?;
        match (name, destination.ends_with('/')) {
            (Some(name), true) => Some(format!("{destination}{name}")),
            // A tree goes into no file.
            (Some(_), false) => None,
            (None, true) => Some(format!("{destination}{}", source.rsplit('/').next()?)),
            (None, false) => Some(destination.clone()),
        }
    }
}

/// A file, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    source: String,
    destination: String,
    /// Where it begins.
    offset: u64,
    /// How long it is.
    bytes: u64,
    /// Whether it is all of the file: such a one is written anew, where a part leaves what is beside it.
    is_whole: bool,
    /// Whether the file ends with it.
    ends_file: bool,
}

impl Piece {
    /// How long it is.
    pub const fn bytes(&self) -> ByteCount {
        ByteCount(self.bytes)
    }

    /// Whether its file ends with it.
    pub(crate) const fn ends_file(&self) -> bool {
        self.ends_file
    }

    /// The line that asks for it.
    pub fn line(&self) -> String {
        let Self { source, destination, offset, bytes, .. } = self;
        match self.is_whole {
            true => format!("\"{source}\" \"{destination}\"\n"),
            false => format!("\"{source}\" \"{destination}\" {offset},{bytes}\n"),
        }
    }

    /// Its first `bytes`, and the rest.
    fn cut(self, bytes: u64) -> (Self, Self) {
        let first = Self { bytes, is_whole: false, ends_file: false, ..self.clone() };
        (first, Self { offset: self.offset + bytes, bytes: self.bytes - bytes, is_whole: false, ..self })
    }
}

/// Cuts a list, which is read as it is needed.
#[derive(Debug)]
pub(crate) struct Slices<R> {
    lines: R,
    places: Places,
    /// What is left of a file that was cut.
    rest: Option<Piece>,
}

impl<R: BufRead> Slices<R> {
    /// Cuts what `globus-url-copy` has written down.
    pub fn new(lines: R, places: Places) -> Self {
        Self { lines, places, rest: None }
    }

    /// The next slice, of some `size`; empty at the end. Files whose size is not told are left out, and those whose
    /// names hold a quote, which no list can name.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn next(&mut self, size: ByteCount) -> io::Result<Vec<Piece>> {
        let mut slice = Vec::new();
        let mut left = size.0.max(PART);
        while slice.len() < MAX_PIECES {
            let Some(piece) = self.rest.take().map_or_else(|| self.read(), |rest| Ok(Some(rest)))? else {
                break;
            };
            if piece.bytes < left.saturating_add(PART) {
                left = left.saturating_sub(piece.bytes);
                slice.push(piece);
            } else if left >= PART {
                let (first, rest) = piece.cut(left / PART * PART);
                slice.push(first);
                self.rest = Some(rest);
                break;
            } else {
                self.rest = Some(piece);
                break;
            }
            if left == 0 {
                break;
            }
        }
        Ok(slice)
    }

    fn read(&mut self) -> io::Result<Option<Piece>> {
        let mut line = Vec::new();
        while self.lines.read_until(b'\n', &mut line)? > 0 {
            let text = String::from_utf8_lossy(&line);
            if let Some(Entry { is_directory: false, source, destination, size: Some(bytes) }) =
                Entry::of(&text)
                && let Some(destination) = self.places.there(destination)
                && !source.contains('"')
                && !destination.contains('"')
            {
                let source = source.to_owned();
                let whole = Piece { source, destination, offset: 0, bytes, is_whole: true, ends_file: true };
                return Ok(Some(whole));
            }
            line.clear();
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn slices(files: &[(&str, u64)]) -> Slices<io::Cursor<String>> {
        let line = |(name, size): &(&str, u64)| {
            format!("\"ftp://a/{name}\" \"file:///x.nowhere/0/{name}\" 0,-1 size={size};mode=0644;\n")
        };
        let places = Places {
            nowhere: "file:///x.nowhere".into(),
            pairs: vec![("ftp://a/".into(), "ftp://b/t/".into())],
        };
        Slices::new(io::Cursor::new(files.iter().map(line).collect()), places)
    }

    #[test]
    fn a_slice_is_files_or_parts_of_one_and_nothing_is_left_out_or_moved_twice() {
        let files = [("a", 10 * MIB + 5), ("zero", 0), ("b", 3), ("c", 2 * MIB)];
        for size in [1, MIB, 3 * MIB, 4 * MIB + 17, 100 * MIB] {
            let mut slices = slices(&files);
            let mut seen = vec![0; files.len()];
            loop {
                let slice = slices.next(ByteCount(size)).expect("read");
                if slice.is_empty() {
                    break;
                }
                let bytes: u64 = slice.iter().map(|piece| piece.bytes).sum();
                assert!(bytes < size.max(MIB) + MIB, "{size}: {slice:?}");
                for piece in slice {
                    let at = files.iter().position(|(name, _)| piece.source.ends_with(*name)).expect("known");
                    assert_eq!(piece.offset, seen[at], "parts follow each other: {piece:?}");
                    seen[at] += piece.bytes;
                    assert_eq!(piece.is_whole, piece.bytes == files[at].1, "{piece:?}");
                    assert_eq!(piece.ends_file, seen[at] == files[at].1, "{piece:?}");
                    assert_eq!(piece.destination, format!("ftp://b/t/{}", files[at].0));
                }
            }
            assert!(seen.iter().zip(&files).all(|(seen, (_, size))| seen == size), "{seen:?}");
        }
        let mut slices = slices(&files[..1]);
        let first = slices.next(ByteCount::mib(4)).expect("read");
        assert_eq!(first[0].line(), "\"ftp://a/a\" \"ftp://b/t/a\" 0,4194304\n");
        let next = slices.next(ByteCount::mib(4)).expect("read");
        assert_eq!(next[0].line(), "\"ftp://a/a\" \"ftp://b/t/a\" 4194304,4194304\n");
    }

    #[test]
    fn what_no_list_can_name_and_what_has_no_size_is_left_out() {
        let text = "#\"a/d/\" \"b/d/\" 0,-1 mode=1;\n\"a/q\"x\" \"b/q\"x\" 0,-1 size=3;\n\"a/y\" \"b/y\"\ngarbage\n\"a/z\" \"b/z\" 0,-1 size=1;\n";
        let mut slices = Slices::new(text.as_bytes(), Places::default());
        let slice = slices.next(ByteCount::mib(1)).expect("read");
        assert_eq!(slice.iter().map(Piece::line).collect::<String>(), "\"a/z\" \"b/z\"\n");
    }

    #[test]
    fn a_place_is_found_by_the_number_of_its_pair() {
        let pairs = [("g/a", "h/b"), ("g/c", "h/in/"), ("g/t/", "h/u/"), ("g/t/", "h/file")];
        let pairs = pairs.map(|(from, to)| (from.to_owned(), to.to_owned())).into();
        let places = Places { nowhere: "n".into(), pairs };
        for (place, there) in [
            ("n/0", Some("h/b")),
            ("n/1", Some("h/in/c")),
            ("n/2/x/y", Some("h/u/x/y")),
            ("n/3/x", None),
            ("n/9", None),
            ("h/other", Some("h/other")),
        ] {
            assert_eq!(places.there(place).as_deref(), there, "{place}");
        }
    }
}
