//! Files on this machine, by `file` URLs.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use rustix::fs::{Mode, OFlags};
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::manifest::Timestamp;
use url::Url;

use super::{Ask, Opened, Refusal, Remote, Version, Why, shown};

/// Files of this machine. Needs nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local;

impl Remote for Local {
    fn open(&mut self, ask: &Ask<'_>) -> Result<Opened, Refusal> {
        let (file, version) = find(ask)?;
        let size = version.bytes.unwrap_or(0);
        let Range { start, end } = ask.range;
        if start > 0 && start >= size {
            let what = format!("{}: the file ends at byte {size}, before the part asked for", shown(ask.url));
            return Err(Refusal::new(Why::Senseless, what));
        }
        let range = start..end.min(size);
        let body =
            LocalBody { file, at: start, end: range.end, version: version.clone(), url: shown(ask.url) };
        Ok(Opened { version, range, body: Box::new(body) })
    }

    fn look(&mut self, ask: &Ask<'_>) -> Result<Version, Refusal> {
        find(ask).map(|(_, version)| version)
    }
}

/// Opens the file, which is a regular one and of the version asked for.
fn find(ask: &Ask<'_>) -> Result<(File, Version), Refusal> {
    let refuse = |why, what: &str| Err(Refusal::new(why, format!("{}: {what}", shown(ask.url))));
    let Some(path) = path_of(ask.url) else {
        return refuse(Why::Senseless, "it names no file on this machine");
    };
    // Opening a pipe without NONBLOCK would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::open(&path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(error) => {
            let error = Error::io("open", path.as_os_str().as_bytes(), error);
            let why = match error.kind {
                ErrorKind::NotFound => Why::Missing,
                ErrorKind::Denied => Why::Denied,
                _ => Why::Broken,
            };
            return Err(Refusal::of(why, error));
        }
    };
    let Some(version) = version_of(&file) else {
        return refuse(Why::Senseless, "this is no regular file");
    };
    match ask.version {
        Some(wanted) if wanted.differs(&version) => refuse(Why::Changed, "the file has changed"),
        _ => Ok((file, version)),
    }
}

fn path_of(url: &Url) -> Option<std::path::PathBuf> {
    url.to_file_path().ok()
}

fn version_of(file: &File) -> Option<Version> {
    let meta = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let (seconds, nanoseconds) = (meta.mtime(), u32::try_from(meta.mtime_nsec()).unwrap_or_default());
    Some(Version {
        bytes: Some(meta.len()),
        tag: Some(format!("{:x}-{:x}-{:x}.{nanoseconds:x}", meta.dev(), meta.ino(), seconds)),
        modified: Some(Timestamp { seconds, nanoseconds }),
        ranges: true,
        ..Version::default()
    })
}

struct LocalBody {
    file: File,
    at: u64,
    end: u64,
    version: Version,
    url: String,
}

impl Read for LocalBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let most = left.min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let count = self.file.read_at(&mut buffer[..most], self.at)?;
        self.at += count as u64;
        // Bytes of two versions must not mix: whoever writes into the file moves its time.
        let ends = count == 0 || self.at == self.end;
        if ends && version_of(&self.file).is_none_or(|now| now != self.version) {
            let what = format!("{}: the file changed while it was read", self.url);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        if count == 0 {
            let what = format!("{}: the file ended too early", self.url);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn ask(url: &Url) -> Ask<'_> {
        Ask { url, headers: &[], range: 0..u64::MAX, version: None }
    }

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().expect("a directory");
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0).expect("made");
        for path in [dir.path(), &pipe, "/dev/zero".as_ref()] {
            let url = Url::from_file_path(path).expect("a URL");
            assert_eq!(Local.open(&ask(&url)).expect_err("no file").why, Why::Senseless, "{path:?}");
        }
        let url = Url::parse("file://elsewhere/etc/passwd").expect("a URL");
        assert_eq!(Local.open(&ask(&url)).expect_err("not here").why, Why::Senseless);
    }

    #[test]
    fn a_file_that_changes_while_it_is_read_is_noticed() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        std::fs::write(&path, [1; 1000]).expect("written");
        let url = Url::from_file_path(&path).expect("a URL");
        let mut opened = Local.open(&ask(&url)).expect("there");
        opened.body.read_exact(&mut [0; 500]).expect("half");
        let mut file = File::options().write(true).open(&path).expect("opened");
        file.write_all(&[2; 1000]).expect("written");
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("set");
        assert!(opened.body.read_to_end(&mut Vec::new()).is_err());
    }
}
