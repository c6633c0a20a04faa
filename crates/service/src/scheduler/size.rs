//! How much a job will move, as far as that can be learned in a moment: by looking at files of this host, or by asking
//! the servers of URLs.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tidegate_contract::redact;
use tidegate_control::ByteCount;
use tidegate_spec::address::{End, Route, accession, local, scheme};
use tidegate_spec::measure::SizeRun;
use tidegate_spec::run::Run;

use crate::job::Request;
use crate::mover::gridftp_size;
use crate::names::name_of;
use crate::sampler::ours::Program;
use crate::sampler::program::Invocation;

/// What a job is taken to move where nobody knows: enough for sampling to pay, as of most jobs it does.
pub(crate) const UNKNOWN: ByteCount = ByteCount::gib(1);

/// The most files and directories that are looked at, and how long that may take.
const MAX_ENTRIES: usize = 10_000;
const LOOKING: Duration = Duration::from_secs(2);
/// The most URLs that are asked for, and how long that may take.
const MAX_URLS: usize = 20;
const ASKING: Duration = Duration::from_secs(10);

/// How much it is, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The job says so.
    Told(ByteCount),
    /// The files are here.
    Files(ByteCount),
    /// Servers say so.
    Servers(ByteCount),
    /// Nobody knows.
    Unknown,
}

impl Size {
    /// What is reckoned with.
    pub const fn bytes(self) -> ByteCount {
        match self {
            Self::Told(bytes) | Self::Files(bytes) | Self::Servers(bytes) => bytes,
            Self::Unknown => UNKNOWN,
        }
    }

    /// `reason`, and where its size comes from if it was not given.
    pub fn explain(self, reason: &str) -> String {
        match self {
            Self::Told(_) => reason.to_owned(),
            Self::Files(bytes) => format!("{reason}; {bytes} by the files' sizes"),
            Self::Servers(bytes) => format!("{reason}; {bytes} as the server says"),
            Self::Unknown => format!("{reason}; the size is not known and taken to be {UNKNOWN}"),
        }
    }
}

/// Finds sizes out.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Our own program, which asks servers.
    pub program: Program,
    /// GridFTP's, which asks its servers.
    pub globus: PathBuf,
}

/// What a run of `size` prints.
#[derive(Deserialize)]
struct Report {
    bytes: Option<u64>,
}

impl Sizes {
    /// The size of what `request` moves.
    pub async fn of(&self, request: &Request) -> Size {
        if let Some(bytes) = request.bytes {
            return Size::Told(bytes);
        }
        let route = request.route();
        let found = if route == Ok(Route::GridFtp) && !is_here(&request.sources) {
            gridftp_size(&self.globus, request, ASKING).await.map(Size::Servers)
        } else if request.sources.iter().all(|source| End::is_of_server(source)) {
            self.of_urls(&request.sources).await.map(Size::Servers)
        } else {
            of_files(&request.sources).await.map(Size::Files)
        };
        found.unwrap_or(Size::Unknown)
    }

    async fn of_urls(&self, urls: &[String]) -> Option<ByteCount> {
        if urls.len() > MAX_URLS {
            return None;
        }
        let run = SizeRun { urls: urls.to_vec(), setup: self.program.setup.clone() };
        let program = Invocation::ours(&self.program.path, &Run::Size(Box::new(run)));
        let mut said = String::new();
        let ended = program.run(ASKING, |line, _| line.clone_into(&mut said)).await;
        let ended = ended.inspect_err(|error| tracing::debug!("a size is not known: {error}")).ok()?;
        if !ended.status.success() {
            let said = redact::line(&said, &[]);
            tracing::debug!("a size is not known: {said}");
            return None;
        }
        serde_json::from_slice::<Report>(&ended.output).ok()?.bytes.map(ByteCount)
    }
}

/// Whether all of them are files of this host.
fn is_here(sources: &[String]) -> bool {
    sources.iter().all(|source| scheme(&local(source)).is_none())
}

async fn of_files(sources: &[String]) -> Option<ByteCount> {
    let path = |source: &String| {
        let path = local(source);
        let is_here = scheme(&path).is_none() && name_of(&path).is_none() && accession(&path).is_none();
        is_here.then(|| PathBuf::from(&*path))
    };
    let paths = sources.iter().map(path).collect::<Option<Vec<_>>>()?;
    let all = tokio::task::spawn_blocking(move || sum(&paths, MAX_ENTRIES, Instant::now() + LOOKING));
    all.await.ok().flatten()
}

/// The sizes of files and of what lies in directories; `None` where that is too many, or takes too long.
fn sum(paths: &[PathBuf], most: usize, end: Instant) -> Option<ByteCount> {
    let (mut bytes, mut seen) = (0_u64, 0);
    // Whoever names a link means what it leads to; a link that is found on the way is a link.
    let mut directories = Vec::new();
    let mut count = |path: &Path, about: &std::fs::Metadata, directories: &mut Vec<PathBuf>| {
        seen += 1;
        if about.is_dir() {
            directories.push(path.to_path_buf());
        } else if about.is_file() {
            bytes = bytes.saturating_add(about.len());
        }
        (seen <= most && Instant::now() < end).then_some(())
    };
    for path in paths {
        count(path, &std::fs::metadata(path).ok()?, &mut directories)?;
    }
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).ok()? {
            let entry = entry.ok()?;
            count(&entry.path(), &entry.metadata().ok()?, &mut directories)?;
        }
    }
    Some(ByteCount(bytes))
}

#[cfg(test)]
mod tests {
    use tidegate_spec::setup::Setup;

    use super::*;

    #[test]
    fn files_are_summed_within_bounds() {
        let scratch = tempfile::tempdir().expect("a directory");
        let at = |name: &str| scratch.path().join(name);
        std::fs::create_dir_all(at("data/in/deep")).expect("made");
        for (name, size) in [("one", 7), ("data/a", 100), ("data/in/b", 20), ("data/in/deep/c", 3)] {
            std::fs::write(at(name), vec![0; size]).expect("written");
        }
        std::os::unix::fs::symlink(at("one"), at("data/link")).expect("linked");
        std::os::unix::fs::symlink("/", at("data/root")).expect("linked");
        let later = || Instant::now() + Duration::from_secs(60);
        let paths = [at("data"), at("one")];
        assert_eq!(sum(&paths, 100, later()), Some(ByteCount(130)));
        assert_eq!(sum(&[at("data/link")], 100, later()), Some(ByteCount(7)));
        assert_eq!(sum(&paths, 7, later()), None);
        assert_eq!(sum(&paths, 100, Instant::now()), None);
        assert_eq!(sum(&[at("missing")], 100, later()), None);
    }

    /// A program that answers for `tidegate`.
    fn script(directory: &Path, text: &str) -> Sizes {
        let program = directory.join("tidegate");
        // Written by another process: one of ours that is just being started would hold the file open, and what is
        // open for writing cannot be run.
        let mut writer = std::process::Command::new("sh");
        writer
            .args(["-c", "printf '#!/bin/sh\\n%s\\n' \"$1\" >\"$0\" && chmod 700 \"$0\""])
            .arg(&program)
            .arg(text);
        assert!(writer.status().expect("started").success());
        let globus = directory.join("globus-url-copy");
        let setup = Setup { ca: Some("/ca.pem".into()), ..Setup::default() };
        Sizes { program: Program { path: program, setup }, globus }
    }

    #[tokio::test]
    async fn a_size_is_told_found_or_said_to_be_unknown() {
        let scratch = tempfile::tempdir().expect("a directory");
        let file = scratch.path().join("file");
        std::fs::write(&file, [0; 77]).expect("written");
        let file = file.to_str().expect("text");
        let asks = r#"[ "$*" = "run -" ] && told=$(cat) && case $told in
            '{"size":{"urls":["https://u:p@h/x"],'*'"ca":"/ca.pem"'*) echo '{"bytes":5}';; *) exit 1;; esac"#;
        let sizes = script(scratch.path(), asks);
        let size = async |source: &str| sizes.of(&Request::transfer(source, "/b")).await;
        assert_eq!(size(file).await, Size::Files(ByteCount(77)));
        assert_eq!(size(&format!("file://{file}")).await, Size::Files(ByteCount(77)));
        assert_eq!(size("https://u:p@h/x").await, Size::Servers(ByteCount(5)));
        for unknown in ["https://h/other", "tg://T@h/x", "dtn:/x", "SRR390728", "/no/such/file"] {
            assert_eq!(size(unknown).await, Size::Unknown, "{unknown}");
        }
        // Files of other protocols are asked for in the same way, and GridFTP's by its own program.
        let sizes =
            script(scratch.path(), r#"told=$(cat); case $told in *ftp://h/x*) echo '{"bytes":6}';; esac"#);
        assert_eq!(sizes.of(&Request::transfer("ftp://h/x", "/b")).await, Size::Servers(ByteCount(6)));
        let lists = r#"while [ "$1" != -do ]; do shift; done
            read pair; case $pair in "\"gsiftp://g/d/\" \"file:///"*/nowhere/0/\") ;; *) exit 1;; esac
            printf '%s\n' '"gsiftp://g/d/a" "file:///x/a" 0,-1 size=70;' '"gsiftp://g/d/b" "file:///x/b" 0,-1 size=5;' >"$2""#;
        std::fs::rename(script(scratch.path(), lists).program.path, &sizes.globus).expect("renamed");
        let gridftp = Request::transfer("gsiftp://g/d/", "/b/");
        assert_eq!(sizes.of(&gridftp).await, Size::Servers(ByteCount(75)));
        let sizes = script(scratch.path(), "exit 1");
        std::fs::rename(&sizes.program.path, &sizes.globus).expect("renamed");
        assert_eq!(sizes.of(&gridftp).await, Size::Unknown, "nobody says");
        let sizes = script(scratch.path(), "exit 1");
        let told = Request { bytes: Some(ByteCount(9)), ..Request::transfer(file, "/b") };
        assert_eq!(sizes.of(&told).await, Size::Told(ByteCount(9)));
        // A server that does not say, and a program that prints something else.
        for answer in ["echo '{\"bytes\":null}'", "echo nonsense", "echo '{\"bytes\":5}'; exit 1"] {
            let sizes = script(scratch.path(), answer);
            assert_eq!(sizes.of(&Request::transfer("http://h/x", "/b")).await, Size::Unknown, "{answer}");
        }
        let many =
            Request { sources: vec!["http://h/x".to_owned(); MAX_URLS + 1], ..Request::transfer("", "/b") };
        assert_eq!(sizes.of(&many).await, Size::Unknown);
    }

    #[test]
    fn a_reason_says_where_the_size_comes_from() {
        assert_eq!(Size::Told(ByteCount(1)).explain("the peak"), "the peak");
        assert_eq!(Size::Unknown.bytes(), ByteCount::gib(1));
        assert_eq!(
            Size::Unknown.explain("the peak"),
            "the peak; the size is not known and taken to be 1 GiB"
        );
        assert!(Size::Servers(ByteCount::gib(5)).explain("").contains("5 GiB"));
    }
}
