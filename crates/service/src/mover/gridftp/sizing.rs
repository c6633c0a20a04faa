//! How much a job of GridFTP moves, as its servers say (`SIZE`, `MLST`): what `globus-url-copy` would move is written down, and
//! nothing is moved.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate_control::ByteCount;

use crate::job::Request;
use crate::sampler::program::Invocation;

use super::listing::Listed;
use super::{BY_SIZE, lines, pairs};

/// A directory of its own for what is written down, removed with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("tidegate-size-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What the sources of `request` hold, as `globus` lists them within `limit`; none if that is not told.
pub(crate) async fn size_of(globus: &Path, request: &Request, limit: Duration) -> Option<ByteCount> {
    let unknown = |why: &dyn std::fmt::Display| tracing::debug!("a size is not known: {why}");
    let scratch = Scratch::new().inspect_err(|error| unknown(error)).ok()?;
    let dump = scratch.0.join("listed");
    let nowhere = url::Url::from_file_path(scratch.0.join("nowhere")).ok()?;
    let sources = pairs(request).inspect_err(|why| unknown(why)).ok()?.into_iter().enumerate();
    let sources = sources.map(|(i, (source, _))| {
        let slash = if source.ends_with('/') { "/" } else { "" };
        (source, format!("{nowhere}/{i}{slash}"))
    });
    let mut program = Invocation::new(globus, "globus-gass-copy-progs");
    program.args(["-r", "-sync", "-sync-level", BY_SIZE, "-do"]).arg(&dump).args(["-f", "/dev/stdin"]);
    program.input(lines(&sources.collect::<Vec<_>>()));
    if let Some(proxy) = request.x509proxy.as_ref().and_then(|proxy| proxy.to_str()) {
        program.secret("X509_USER_PROXY", proxy);
    }
    let ended = program.run(limit, |_, _| ()).await.inspect_err(|error| unknown(error)).ok()?;
    if !ended.status.success() {
        unknown(&ended.how());
        return None;
    }
    let read = tokio::task::spawn_blocking(move || {
        let file = std::fs::File::open(dump)?;
        Listed::read(io::BufReader::new(file))
    });
    let listed = read.await.ok()?.inspect_err(|error| unknown(error)).ok()?;
    (listed.files > 0).then_some(ByteCount(listed.bytes))
}
