//! Lines by which FTP servers list a directory: facts (`MLSD`, RFC 3659), or what `ls -l` writes. Of both only the name is
//! taken, and whether it is a directory: the rest is asked for file by file, as it is more exact there.

/// Something in a directory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FtpEntry {
    pub name: String,
    pub is_directory: bool,
}

impl FtpEntry {
    /// Reads a line, which has `facts` or is one of `ls -l`; `None` for what is neither a file nor a directory in it.
    pub fn read(line: &str, facts: bool) -> Option<Self> {
        let line = line.trim_end_matches(['\r', '\n']);
        let (name, is_directory) = if facts { of_facts(line) } else { of_ls(line) }?;
        (!matches!(name, "" | "." | "..")).then(|| Self { name: name.to_owned(), is_directory })
    }
}

/// `type=file;size=9;modify=20260101120000; name`.
fn of_facts(line: &str) -> Option<(&str, bool)> {
    let (facts, name) = line.split_once("; ").or_else(|| line.split_once(' '))?;
    let kind = facts.split(';').find_map(|fact| {
        let (fact, value) = fact.split_once('=')?;
        fact.eq_ignore_ascii_case("type").then(|| value.to_ascii_lowercase())
    });
    match kind.as_deref() {
        Some("dir") => Some((name, true)),
        Some("file") => Some((name, false)),
        // The directory itself, the one above, and what the system of the server has besides, as links.
        _ => None,
    }
}

/// `-rw-r--r--    1 user     group        9 Jan 01 12:00 name`: eight columns, and one blank before the name.
fn of_ls(line: &str) -> Option<(&str, bool)> {
    let is_directory = match line.as_bytes().first()? {
        b'd' => true,
        b'-' => false,
        _ => return None,
    };
    let mut rest = line;
    for _ in 0..8 {
        let end = rest.find(' ')?;
        rest = rest[end..].trim_start_matches(' ');
    }
    // A name may begin with blanks: but for the last column they are no more than one.
    let column = line.len() - rest.len();
    let before = line[..column].trim_end_matches(' ').len();
    Some((&line[before + 1..], is_directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str, facts: bool) -> Option<(String, bool)> {
        FtpEntry::read(line, facts).map(|entry| (entry.name, entry.is_directory))
    }

    #[test]
    fn facts_name_files_and_directories_and_nothing_else() {
        let name = |name: &str, is_directory| Some((name.to_owned(), is_directory));
        assert_eq!(read("type=file;size=9;modify=20260101120000; a; b", true), name("a; b", false));
        assert_eq!(read("Size=9;Type=DIR; d\r", true), name("d", true));
        for line in
            ["type=cdir; .", "type=pdir; ..", "type=OS.unix=slink:/x; l", "type=dir; ..", "nonsense", ""]
        {
            assert_eq!(read(line, true), None, "{line}");
        }
    }

    #[test]
    fn what_ls_writes_is_read_up_to_the_name() {
        let name = |name: &str, is_directory| Some((name.to_owned(), is_directory));
        let line = "-rw-r--r--    1 0        0               9 Jan 01 12:00 a b";
        assert_eq!(read(line, false), name("a b", false));
        let line = "drwxr-xr-x    2 ftp      ftp          4096 Dec 31  2020  blank";
        assert_eq!(read(line, false), name(" blank", true));
        for line in [
            "total 8",
            "lrwxrwxrwx    1 0        0               1 Jan 01 12:00 l -> a",
            "drwxr-xr-x    2 ftp      ftp          4096 Dec 31  2020 ..",
            "-rw-r--r-- 1 0 0 9 Jan 01",
            "",
        ] {
            assert_eq!(read(line, false), None, "{line}");
        }
    }
}
