//! The token of a run in a file, which only its owner may read: written for movers, and read by them.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tidegate_contract::job_id::JobId;
use tidegate_transfer::error::{Error, Result, usage};

/// Longest token that is read.
const MAX_TOKEN: u64 = 4096;

/// Most files of tokens of jobs that have one number, each of another service.
const MAX_ALIKE: u32 = 1000;

/// The token in `path`, which nobody else may read.
pub fn read(path: &Path) -> Result<String> {
    let failed = |error| Error::io("read", path.as_os_str().as_encoded_bytes(), error);
    let mut text = String::new();
    if path.as_os_str() == "-" {
        BufReader::new(io::stdin().take(MAX_TOKEN)).read_line(&mut text).map_err(failed)?;
    } else {
        let file = File::open(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.mode();
        if mode & 0o077 != 0 {
            let path = path.display();
            return Err(usage(format!(
                "{path} can be read by others (mode {:o}): chmod 600 {path}",
                mode & 0o777
            )));
        }
        file.take(MAX_TOKEN).read_to_string(&mut text).map_err(failed)?;
    }
    match text.trim() {
        "" => Err(usage(format!("{} holds no token", path.display()))),
        token => Ok(token.to_owned()),
    }
}

/// The file that holds the token of a run's movers, as long as the run is followed.
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// Writes that of the job `id` beneath the state directory `state`.
    pub fn write(state: &Path, id: JobId, token: &str) -> Result<Self> {
        let directory = state.join("movers");
        let failed = |path: &Path, error| Error::io("make", path.as_os_str().as_encoded_bytes(), error);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(|error| failed(&directory, error))?;
        let names = std::iter::once(format!("{id}.token"));
        for name in names.chain((2..MAX_ALIKE).map(|other| format!("{id}-{other}.token"))) {
            let path = directory.join(name);
            let mut options = OpenOptions::new();
            match options.write(true).create_new(true).mode(0o600).open(&path) {
                Ok(mut file) => {
                    let written = Self { path };
                    writeln!(file, "{token}").map_err(|error| failed(&written.path, error))?;
                    return Ok(written);
                }
                // That of another service's job.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&path, error)),
            }
        }
        let why = format!("{} holds too many tokens of jobs {id}: remove the old ones", directory.display());
        Err(usage(why))
    }
}

impl TokenFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_services_may_have_a_job_of_one_number() {
        let state = tempfile::tempdir().expect("a directory");
        let id = JobId::new(1).expect("a number");
        let [one, two] = ["first", "second"].map(|token| TokenFile::write(state.path(), id, token));
        let (one, two) = (one.expect("written"), two.expect("written"));
        assert_eq!(one.path, state.path().join("movers/1.token"));
        let read = |file: &TokenFile| std::fs::read_to_string(&file.path).expect("read");
        assert_eq!((&read(&one)[..], &read(&two)[..]), ("first\n", "second\n"));
        drop(one);
        assert_eq!(read(&two), "second\n");
    }
}
