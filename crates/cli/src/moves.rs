//! What moves data, for Rust programs: a copy, a download and an upload, each begun by a value that says what is wanted.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_contract::error_kind::ErrorKind;
use tidegate_contract::summary::Summary;
use tidegate_control::BitRate;
use tidegate_run::monitor::Progress;
use tidegate_spec::control::ControlSpec;
use tidegate_spec::copy::CopySpec;
#[cfg(feature = "get")]
use tidegate_spec::get::GetSpec;
#[cfg(feature = "put")]
use tidegate_spec::put::PutSpec;
#[cfg(feature = "get")]
use tidegate_spec::run::GetRun;
#[cfg(feature = "put")]
use tidegate_spec::run::PutRun;
use tidegate_spec::run::{CopyRun, Run as Told, Setup};

use crate::asked::Task;
use crate::run::{Refused, Run};

/// How long a wait looks at once.
pub(crate) const GLANCE: Duration = Duration::from_secs(3600);

/// A copy between paths of this host, endpoints and hosts that ssh reaches: what `tidegate copy` does.
#[derive(Debug)]
pub struct Transfer;

#[cfg(feature = "get")]
/// A download of accessions and URLs into a directory: what `tidegate get` does.
#[derive(Debug)]
pub struct Get;

#[cfg(feature = "put")]
/// An upload to S3 or WebDAV: what `tidegate put` does.
#[derive(Debug)]
pub struct Put;

impl Transfer {
    /// From a path or an address to another one.
    pub fn builder(from: impl Into<OsString>, to: impl Into<OsString>) -> TransferBuilder {
        let (sources, destination) = (vec![from.into()], to.into());
        TransferBuilder(CopyRun { sources, destination, spec: CopySpec::default(), setup: setup() })
    }
}

#[cfg(feature = "get")]
impl Get {
    /// What has that name, or lies at that URL, into the directory `to`.
    pub fn builder(name: impl Into<String>, to: impl Into<OsString>) -> GetBuilder {
        let (names, outdir) = (vec![name.into()], to.into());
        let spec = GetSpec::default();
        GetBuilder(GetRun { names, urls: Vec::new(), outdir, sidecars: false, spec, setup: setup() })
    }
}

#[cfg(feature = "put")]
impl Put {
    /// From a path of this host, at an endpoint or at a server to `s3://bucket/prefix/` or `https://host/directory/`.
    pub fn builder(from: impl Into<OsString>, to: impl Into<OsString>) -> PutBuilder {
        let (sources, destination) = (vec![from.into()], to.into());
        PutBuilder(PutRun { sources, destination, spec: PutSpec::default(), setup: setup() })
    }
}

fn setup() -> Setup {
    Setup { json: true, quiet: true, ..Setup::default() }
}

/// A copy that is to be begun.
#[derive(Clone)]
pub struct TransferBuilder(CopyRun);

#[cfg(feature = "get")]
/// A download that is to be begun.
#[derive(Clone)]
pub struct GetBuilder(GetRun);

#[cfg(feature = "put")]
/// An upload that is to be begun.
#[derive(Clone)]
pub struct PutBuilder(PutRun);

/// What all of them have.
macro_rules! shared {
    ($builder:ident, $spec:ident, $told:ident, $($rate:ident).+) => {
        impl $builder {
            /// All options at once, in place of those that were set before.
            #[must_use]
            pub fn options(mut self, spec: $spec) -> Self {
                self.0.spec = spec;
                self
            }

            /// The rule that sets the numbers of workers, such as `auto` or `fixed:4`.
            #[must_use]
            pub fn optimizer(mut self, rule: impl Into<String>) -> Self {
                self.control().optimizer = rule.into();
                self
            }

            /// The rate of all streams or connections together.
            #[must_use]
            pub fn limit(mut self, rate: BitRate) -> Self {
                self.0.spec.$($rate).+ = Some(rate);
                self
            }

            /// Where state is kept, in place of the usual directory.
            #[must_use]
            pub fn state(mut self, directory: impl Into<PathBuf>) -> Self {
                self.0.setup.state = Some(directory.into());
                self
            }

            /// Begins it, on a thread of its own.
            ///
            /// # Errors
            /// The options make no sense together.
            pub fn start(self) -> Result<Running, Failure> {
                self.check().map_err(Failure::usage)?;
                Ok(Running { run: Run::start(Task::Told(Told::$told(Box::new(self.0))), || {}) })
            }

            fn control(&mut self) -> &mut ControlSpec {
                &mut self.0.spec.control
            }
        }
    };
}

shared!(TransferBuilder, CopySpec, Copy, plane.limit_link);
#[cfg(feature = "get")]
shared!(GetBuilder, GetSpec, Get, requests.limit_rate);
#[cfg(feature = "put")]
shared!(PutBuilder, PutSpec, Put, requests.limit_rate);

impl TransferBuilder {
    /// One more source, at the same place as the first.
    #[must_use]
    pub fn and(mut self, from: impl Into<OsString>) -> Self {
        self.0.sources.push(from.into());
        self
    }

    /// How long a connection that was lost is made again.
    #[must_use]
    pub fn retry_for(mut self, time: Duration) -> Self {
        self.0.setup.retry_for = Some(time);
        self
    }

    fn check(&self) -> Result<(), String> {
        self.0.spec.check(false)
    }
}

#[cfg(feature = "get")]
impl GetBuilder {
    /// One more accession or URL.
    #[must_use]
    pub fn and(mut self, name: impl Into<String>) -> Self {
        self.0.names.push(name.into());
        self
    }

    /// Writes what is known of the files beside them.
    #[must_use]
    pub fn sidecars(mut self) -> Self {
        self.0.sidecars = true;
        self
    }

    /// How long a server that does not answer is tried again.
    #[must_use]
    pub fn retry_for(mut self, time: Duration) -> Self {
        self.0.setup.retry_for = Some(time);
        self
    }

    fn check(&self) -> Result<(), String> {
        self.0.spec.check()
    }
}

#[cfg(feature = "put")]
impl PutBuilder {
    /// One more source.
    #[must_use]
    pub fn and(mut self, from: impl Into<OsString>) -> Self {
        self.0.sources.push(from.into());
        self
    }

    fn check(&self) -> Result<(), String> {
        self.0.spec.check()
    }
}

/// What is under way; dropped before its end, it is asked to end.
#[derive(Debug)]
pub struct Running {
    run: Run,
}

impl Running {
    /// How it is getting on, once something has begun.
    pub fn progress(&self) -> Option<Progress> {
        self.run.progress()
    }

    /// Asks it to end; what is needed to go on later is kept, and no unverified file gets its name.
    pub fn interrupt(&self) {
        self.run.interrupt();
    }

    /// What it said to people since the last time, a line each.
    pub fn messages(&self) -> Vec<String> {
        self.run.messages()
    }

    /// Whether it has ended; waits for that no longer than `patience`.
    pub fn has_ended(&self, patience: Duration) -> bool {
        self.run.wait(patience)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// Nothing was begun, or not all of it has arrived.
    pub fn wait(self) -> Result<Summary, Failure> {
        while !self.run.wait(GLANCE) {}
        let outcome = self.run.outcome().ok_or_else(|| Failure::of(ErrorKind::Io, "it did not end"))?;
        if let Some(Refused { kind, why, .. }) = outcome.refusal {
            return Err(Failure::of(kind, why));
        }
        let summary = outcome.results.last().and_then(|line| serde_json::from_str::<Summary>(line).ok());
        let summary = summary.ok_or_else(|| Failure::of(ErrorKind::Io, self.messages().join("; ")))?;
        if outcome.code == 0 {
            return Ok(summary);
        }
        let first = summary.failures.first();
        let why = summary.error.clone().or_else(|| first.map(|first| first.message.clone()));
        let kind = summary.error_kind.or_else(|| first.map(|first| first.kind)).unwrap_or(ErrorKind::Io);
        let why = why.unwrap_or_else(|| format!("it ended with {}", outcome.code));
        Err(Failure { kind, why, summary: Some(Box::new(summary)) })
    }
}

/// Why not all has arrived.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Of what kind that is.
    pub kind: ErrorKind,
    /// How it ended, where anything was begun: files that failed are in it.
    pub summary: Option<Box<Summary>>,
    why: String,
}

impl Failure {
    pub(crate) fn of(kind: ErrorKind, why: impl Into<String>) -> Self {
        Self { kind, summary: None, why: why.into() }
    }

    fn usage(why: String) -> Self {
        Self::of(ErrorKind::Usage, why)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_copies_by_values_and_is_told_how_it_ended() {
        let home = tempfile::tempdir().expect("a directory");
        let at = |name: &str| home.path().join(name);
        std::fs::write(at("a"), "content").expect("written");
        let copy = |from: &str| {
            let from = at(from);
            Transfer::builder(from, at("there/"))
                .state(at("state"))
                .optimizer("fixed:1")
                .limit(BitRate::mbps(80))
        };
        let summary = copy("a").start().expect("begun").wait().expect("arrived");
        assert_eq!((summary.files.ok, summary.verified, &*summary.optimizer), (1, true, "fixed:1"));
        assert_eq!(std::fs::read(at("there/a")).expect("there"), b"content");
        let failure = copy("none").start().expect("begun").wait().expect_err("it is not there");
        assert!(failure.kind == ErrorKind::NotFound && failure.to_string().contains("none"), "{failure}");
        let mut spec = CopySpec::default();
        spec.deletion.max_delete = Some(3);
        let refused = copy("a").options(spec).start().expect_err("it makes no sense");
        assert!(refused.kind == ErrorKind::Usage && refused.to_string().contains("--delete"), "{refused}");
        let stopped = copy("a").and(at("a")).start().expect("begun");
        stopped.interrupt();
        // It may have ended before.
        let _ = stopped.wait();
    }

    #[cfg(all(feature = "get", feature = "put"))]
    #[test]
    fn a_download_and_an_upload_are_refused_in_one_line() {
        let home = tempfile::tempdir().expect("a directory");
        let got = Get::builder("nonsense", home.path().join("got")).state(home.path().join("state"));
        let failure = got.start().expect("begun").wait().expect_err("it is no name");
        assert!(failure.kind == ErrorKind::Usage && failure.to_string().contains("nonsense"), "{failure:?}");
        let put = Put::builder("a", "ftp://h/").state(home.path().join("state"));
        let failure = put.start().expect("begun").wait().expect_err("nothing is put there");
        assert!(failure.kind == ErrorKind::Usage && failure.to_string().contains("s3://"), "{failure:?}");
    }
}
