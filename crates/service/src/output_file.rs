//! Files that jobs want written: somebody else named them, so a pipe that nobody reads must not hold a job up.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use crate::event_log::NOWHERE;

/// Writes `text` to the regular file at `path`, in place of what it held. Anything else there is left alone.
pub(crate) async fn write(path: &Path, text: String) -> io::Result<()> {
    let path = path.to_path_buf();
    let written = tokio::task::spawn_blocking(move || write_now(&path, text.as_bytes())).await;
    written.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn write_now(path: &Path, text: &[u8]) -> io::Result<()> {
    if path == Path::new(NOWHERE) {
        return Ok(());
    }
    let not_a_file = || io::Error::other("it is not a file");
    let mut options = OpenOptions::new();
    options.write(true).create(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    // A pipe that nobody reads answers with ENXIO.
    let mut file = options.open(path).map_err(|error| match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::NXIO.raw_os_error() => not_a_file(),
        _ => error,
    })?;
    if !file.metadata()?.is_file() {
        return Err(not_a_file());
    }
    // Only now: what is no file is not touched.
    file.set_len(0)?;
    let written = file.write_all(text);
    if written.is_err() {
        // Nothing rather than a part, which reads as the whole.
        file.set_len(0)?;
    }
    written
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn files_are_replaced_and_pipes_refused() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("out");
        for text in ["a longer text", "short"] {
            runtime.block_on(write(&path, text.to_owned())).expect("written");
            assert_eq!(std::fs::read_to_string(&path).expect("read"), text);
        }
        let pipe = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
        assert!(made.success());
        assert!(runtime.block_on(write(Path::new(NOWHERE), "gone".to_owned())).is_ok());
        for odd in [pipe.as_path(), Path::new("/dev/zero")] {
            let patient =
                async { tokio::time::timeout(Duration::from_secs(20), write(odd, String::new())).await };
            let error = runtime.block_on(patient).expect("it does not wait").expect_err("refused");
            assert!(error.to_string().contains("not a file"), "{error}");
        }
    }
}
