//! Makes FASTQ of one archive, by the `fasterq-dump` of NCBI's SRA toolkit.
//!
//! It writes into a directory of its own, which is called ready once all is written and on the disk; what is ready is
//! moved beside the archive, also by a later run. So no name of a FASTQ file ever holds half of one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tidegate_transfer::error::{Error, ErrorKind, Result, usage};
use tidegate_transfer::path::RelPath;
use tidegate_transfer::text::show;
use tidegate_transfer::transfer::Interrupt;

use super::written::Written;

/// The program that converts.
const PROGRAM: &str = "fasterq-dump";

/// Where it works, in the output directory.
const WORKPLACE: &str = ".tidegate-convert";

/// How often a running conversion is looked at.
const GLANCE: Duration = Duration::from_millis(50);

/// Most of its words that are repeated.
const MAX_WORDS: usize = 200;

/// What archives are converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ConvertTo {
    /// FASTQ, in as many files as reads have ends
    Fastq,
}

/// Converts what has arrived in a directory.
pub struct Converter {
    program: PathBuf,
    directory: PathBuf,
    overwrite: bool,
    interrupt: Interrupt,
}

impl Converter {
    /// For files in `directory`; an error that says what to install if there is nothing that converts.
    pub fn find(directory: &Path, overwrite: bool, interrupt: Interrupt) -> Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program =
            std::env::split_paths(&path).map(|place| place.join(PROGRAM)).find(|file| file.is_file());
        let program = program.ok_or_else(|| {
            usage(format!(
                "--convert needs {PROGRAM}, which is not installed: install NCBI's SRA toolkit (sra-toolkit on Debian, \
                 sra-tools in bioconda), and nothing was downloaded yet"
            ))
        })?;
        Ok(Self { program, directory: directory.to_owned(), overwrite, interrupt })
    }

    /// Whether a file is an archive that can be converted.
    pub fn takes(path: &RelPath) -> bool {
        [&b".sra"[..], b".sralite"].iter().any(|end| path.as_bytes().ends_with(end))
    }

    /// Converts an archive of so many `reads`, if that is known; answers with the files that are beside it now, none if
    /// they were there before.
    pub fn convert(&self, archive: &RelPath, reads: Option<u64>) -> Result<Vec<String>> {
        use std::os::unix::ffi::OsStrExt;
        let name = Path::new(std::ffi::OsStr::from_bytes(archive.as_bytes()));
        let failed = |why: String| {
            Error::new(ErrorKind::Io, format!("cannot convert {archive}: {why}; the archive is kept"))
        };
        let io = |error: io::Error| failed(error.to_string());
        let beside = self.directory.join(name).parent().unwrap_or(&self.directory).to_owned();
        let work = self.directory.join(WORKPLACE).join(name);
        let (part, ready) = (work.with_extension("part"), work.with_extension("ready"));
        if !ready.exists() {
            if !self.overwrite && is_converted(&beside, name).map_err(io)? {
                return Ok(Vec::new());
            }
            remove(&part).map_err(io)?;
            let (made, temporary) = (part.join("made"), part.join("temporary"));
            fs::create_dir_all(&made).and_then(|()| fs::create_dir(&temporary)).map_err(io)?;
            let log = part.join("log");
            let mut command = Command::new(&self.program);
            command.arg("--outdir").arg(&made).arg("--temp").arg(&temporary);
            command.arg("--threads").arg(threads().to_string()).arg(self.directory.join(name));
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command.stderr(File::create(&log).map_err(io)?);
            let child =
                command.spawn().map_err(|error| failed(format!("{PROGRAM} does not start: {error}")))?;
            let status = self.wait(child).map_err(io)?;
            self.uninterrupted(archive)?;
            let files = files(&made).map_err(io)?;
            if !status.success() || files.is_empty() {
                return Err(failed(words(status, &fs::read(&log).unwrap_or_default())));
            }
            let written = Written::count(&files, &self.interrupt).map_err(io)?;
            self.uninterrupted(archive)?;
            if let Some(lack) = written.lacks(reads) {
                return Err(failed(format!("{PROGRAM} ended well, and {lack}")));
            }
            for file in files.iter().chain([&made]) {
                File::open(file).and_then(|file| file.sync_all()).map_err(io)?;
            }
            fs::rename(&made, &ready).map_err(io)?;
            remove(&part).map_err(io)?;
        }
        let mut names = Vec::new();
        for file in files(&ready).map_err(io)? {
            let Some(own) = file.file_name() else { continue };
            fs::rename(&file, beside.join(own)).map_err(io)?;
            let place = name.parent().unwrap_or(Path::new("")).join(own);
            names.push(show(place.as_os_str().as_bytes()).into_owned());
        }
        File::open(&beside).and_then(|directory| directory.sync_all()).map_err(io)?;
        remove(&ready).map_err(io)?;
        self.tidy(&work);
        Ok(names)
    }

    fn uninterrupted(&self, archive: &RelPath) -> Result<()> {
        match self.interrupt.is_raised() {
            true => {
                Err(Error::new(ErrorKind::Interrupted, format!("interrupted while converting {archive}")))
            }
            false => Ok(()),
        }
    }

    /// Waits for the program, which ends when we are to end.
    fn wait(&self, mut child: Child) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if self.interrupt.is_raised() {
                child.kill()?;
                return child.wait();
            }
            std::thread::sleep(GLANCE);
        }
    }

    /// Removes what is empty by now of the directories above `work`.
    fn tidy(&self, work: &Path) {
        let above = work.ancestors().skip(1).take_while(|place| *place != self.directory);
        // One that still holds another conversion stays.
        let _ = above.map(fs::remove_dir).take_while(io::Result::is_ok).count();
    }
}

/// Whether FASTQ of the archive `name` is there.
fn is_converted(beside: &Path, name: &Path) -> io::Result<bool> {
    let stem = name.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let is_of = |file: &Path| {
        let own = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let rest = own.strip_prefix(&stem).and_then(|rest| rest.strip_suffix(".fastq"));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    Ok(files(beside)?.iter().any(|file| is_of(file)))
}

/// The files in a directory, in the order of their names.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How the program ended, in its own words.
fn words(status: ExitStatus, log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log);
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    let last: String = last.unwrap_or("it made no file").chars().take(MAX_WORDS).collect();
    let how = status.code().map_or_else(|| "was killed".to_owned(), |code| format!("ended with {code}"));
    format!("{PROGRAM} {how}: {}", show(last.as_bytes()))
}
