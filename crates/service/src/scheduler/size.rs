//! How much a job will move, as far as that can be learned in a moment: by looking at files of this host, or by asking
//! the servers of URLs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tidegate_control::ByteCount;

use crate::address::{accession, local, scheme};
use crate::job::Request;
use crate::names::name_of;
use crate::sampler::program::Invocation;
use tidegate_contract::redact;

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
    pub program: PathBuf,
    /// What it is told of whom to trust.
    pub servers: Vec<OsString>,
}

/// What `tidegate size` prints.
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
        let is_web = |source: &String| matches!(scheme(source).as_deref(), Some("http" | "https"));
        let found = match request.sources.iter().all(is_web) {
            true => self.of_urls(&request.sources).await.map(Size::Servers),
            false => of_files(&request.sources).await.map(Size::Files),
        };
        found.unwrap_or(Size::Unknown)
    }

    async fn of_urls(&self, urls: &[String]) -> Option<ByteCount> {
        if urls.len() > MAX_URLS {
            return None;
        }
        let mut program = Invocation::new(&self.program, "tidegate");
        // An address may hold a password: it is not told on a command line.
        program.arg("size").args(&self.servers).input((urls.join("\n") + "\n").into_bytes());
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
        Sizes { program, servers: vec!["--ca".into(), "/ca.pem".into()] }
    }

    #[tokio::test]
    async fn a_size_is_told_found_or_said_to_be_unknown() {
        let scratch = tempfile::tempdir().expect("a directory");
        let file = scratch.path().join("file");
        std::fs::write(&file, [0; 77]).expect("written");
        let file = file.to_str().expect("text");
        let asks = r#"[ "$*" = "size --ca /ca.pem" ] && read url && [ "$url" = https://u:p@h/x ] && echo '{"bytes":5}'"#;
        let sizes = script(scratch.path(), asks);
        let size = async |source: &str| sizes.of(&Request::transfer(source, "/b")).await;
        assert_eq!(size(file).await, Size::Files(ByteCount(77)));
        assert_eq!(size(&format!("file://{file}")).await, Size::Files(ByteCount(77)));
        assert_eq!(size("https://u:p@h/x").await, Size::Servers(ByteCount(5)));
        for unknown in ["https://h/other", "tg://T@h/x", "dtn:/x", "SRR390728", "/no/such/file"] {
            assert_eq!(size(unknown).await, Size::Unknown, "{unknown}");
        }
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
