//! Finds out what kind of list something is, from its first line and its name.

use std::io::{self, Read};
use std::path::Path;

use super::options::ListFormat;
use super::{name, row, sums};

/// How far the first line that says something is looked for.
const MAX_HEAD: usize = 64 << 10;

/// Reads as far as the end of the first line that says something.
pub(crate) fn head(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut buffer = [0; 4096];
    while head.len() < MAX_HEAD && !has_whole_line(&head) {
        match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => head.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(head)
}

fn says_something(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    !line.is_empty() && line[0] != b'#'
}

fn has_whole_line(head: &[u8]) -> bool {
    let end = head.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
    head[..end].split(|&byte| byte == b'\n').any(says_something)
}

/// What a list that begins with `head` is.
pub(crate) fn format(head: &[u8], path: Option<&Path>) -> ListFormat {
    let head = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
    let name = path.and_then(Path::file_name).map(|name| name.to_string_lossy().to_ascii_lowercase());
    let name = name.unwrap_or_default();
    let line = head.split(|&byte| byte == b'\n').find(|line| says_something(line)).unwrap_or_default();
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    if text.starts_with('<') {
        return ListFormat::Metalink;
    }
    if text.starts_with(['{', '[']) {
        return ListFormat::Json;
    }
    if name == "fetch.txt" || is_fetch_line(text) {
        return ListFormat::Bag;
    }
    if sums::parse(line.trim_ascii_end(), None).is_ok() {
        return ListFormat::Sums;
    }
    for (format, separator) in [(ListFormat::Tsv, '\t'), (ListFormat::Csv, ',')] {
        if row::is_header(text.split(separator)) && (text.contains(separator) || is_named(&name, format)) {
            return format;
        }
    }
    // One column of ENA's, cut out of a report.
    if row::lists_files(std::iter::once(&*row::normal(text))) {
        return ListFormat::Tsv;
    }
    match name.rsplit('.').next() {
        Some("meta4" | "metalink") => ListFormat::Metalink,
        Some("jsonl" | "ndjson" | "json") => ListFormat::Json,
        Some("md5" | "sha1" | "sha256" | "sha512" | "b3" | "md5sum" | "sha256sum") => ListFormat::Sums,
        // Without a column for URLs it is a table all the same, and is refused as one.
        Some("tsv") if text.contains('\t') && !text.contains("://") => ListFormat::Tsv,
        Some("csv") if text.contains(',') && !text.contains("://") => ListFormat::Csv,
        _ => ListFormat::Urls,
    }
}

fn is_named(name: &str, format: ListFormat) -> bool {
    name.ends_with(if format == ListFormat::Tsv { ".tsv" } else { ".csv" })
}

/// `URL LENGTH PATH`, as BagIt has it. Mirrors on a line are URLs all of them.
fn is_fetch_line(text: &str) -> bool {
    let mut fields = text.split_ascii_whitespace();
    let (Some(url), Some(length), Some(_)) = (fields.next(), fields.next(), fields.next()) else {
        return false;
    };
    (length == "-" || length.parse::<u64>().is_ok()) && name::url(url).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_list_is_found() {
        let sum = "d41d8cd98f00b204e9800998ecf8427e";
        for (head, path, kind) in [
            ("https://a/b\n", "", ListFormat::Urls),
            ("# c\n\nhttps://a/b\thttps://c/d\n", "", ListFormat::Urls),
            ("https://a/b\tftp://c/d\thttps://e/f\n", "", ListFormat::Urls),
            ("SRR1234567\n", "x.csv", ListFormat::Urls),
            ("SRR1234567\nSRR1234568", "x.txt", ListFormat::Urls),
            (&format!("{sum}  a"), "", ListFormat::Sums),
            (&format!("MD5 (a) = {sum}"), "", ListFormat::Sums),
            ("run_accession\tfastq_ftp\tfastq_md5\n", "", ListFormat::Tsv),
            ("URL,MD5,Size\n", "", ListFormat::Csv),
            ("sample,\"url\"\n", "", ListFormat::Csv),
            ("url\n", "x.csv", ListFormat::Csv),
            ("Run,ReleaseDate,LoadDate\n", "SraRunInfo", ListFormat::Csv),
            ("\"sample\",\"fastq_1\",\"run_accession\"\n", "", ListFormat::Csv),
            ("run\n", "", ListFormat::Urls),
            ("a\tb\n", "x.tsv", ListFormat::Tsv),
            ("fastq_ftp\n", "", ListFormat::Tsv),
            ("ftp.sra.ebi.ac.uk/vol1/a.gz;ftp.sra.ebi.ac.uk/vol1/b.gz\n", "", ListFormat::Urls),
            ("{\"url\": \"https://a\"}", "", ListFormat::Json),
            ("  [{", "", ListFormat::Json),
            ("https://a/b 12 data/b\n", "", ListFormat::Bag),
            ("https://a/b - data/b c\n", "", ListFormat::Bag),
            ("<?xml version=\"1.0\"?>", "", ListFormat::Metalink),
            ("", "x.meta4", ListFormat::Metalink),
            ("", "", ListFormat::Urls),
        ] {
            let path = Some(Path::new(path)).filter(|path| !path.as_os_str().is_empty());
            assert_eq!(format(head.as_bytes(), path), kind, "{head:?} {path:?}");
            let marked = format!("\u{feff}{head}");
            assert_eq!(format(marked.as_bytes(), path), kind, "{marked:?} {path:?}");
        }
    }

    #[test]
    fn no_more_is_read_ahead_than_the_first_line_needs() {
        struct Slow(Vec<&'static [u8]>);
        impl Read for Slow {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let next = self.0.remove(0);
                buffer[..next.len()].copy_from_slice(next);
                Ok(next.len())
            }
        }
        let mut input = Slow(vec![b"# a\n", b"\nSRR", b"1\nSR", b"unread"]);
        assert_eq!(head(&mut input).expect("read"), b"# a\n\nSRR1\nSR");
        assert_eq!(head(&mut io::repeat(b' ')).expect("read").len(), MAX_HEAD);
    }
}
