//! An estimate, for Rust programs: how many streams a path can use, how fast they are, and how long so many bytes take.

use std::ffi::OsString;
use std::path::PathBuf;

use tidegate_contract::error_kind::ErrorKind;
use tidegate_control::ByteCount;
use tidegate_run::settings::StateArgs;
use tidegate_service::estimate::Answer;
use tidegate_spec::estimate::EstimateSpec;
use tidegate_spec::options::Options;

use crate::asked::{Call, Task};
use crate::exit::{INTERRUPTED, USAGE};
use crate::moves::{Failure, GLANCE};
use crate::run::{Outcome, Refused, Run};

/// How many streams a path can use, how fast they are, and how long it takes: what `tidegate estimate` tells.
#[derive(Debug)]
pub struct Estimate;

/// An estimate that is to be made.
#[derive(Clone)]
pub struct EstimateBuilder {
    from: OsString,
    to: OsString,
    spec: EstimateSpec,
    own: Options,
}

impl Estimate {
    /// Of the way from a path or an address to another one.
    pub fn builder(from: impl Into<OsString>, to: impl Into<OsString>) -> EstimateBuilder {
        let (from, to) = (from.into(), to.into());
        EstimateBuilder { from, to, spec: EstimateSpec::default(), own: Options::default() }
    }
}

impl EstimateBuilder {
    /// How much there is; a file of this host is asked itself.
    #[must_use]
    pub fn bytes(mut self, bytes: ByteCount) -> Self {
        self.own.set("bytes", bytes.0);
        self
    }

    /// All options at once, in place of those that were set before.
    #[must_use]
    pub fn options(mut self, spec: EstimateSpec) -> Self {
        self.spec = spec;
        self
    }

    /// Has history answer if it can, before anything is measured.
    #[must_use]
    pub fn use_history(mut self) -> Self {
        self.spec.sampling.history.use_history = true;
        self
    }

    /// Asks the service at that URL, which measures from its host.
    #[must_use]
    pub fn server(mut self, url: impl Into<String>) -> Self {
        self.own.set("server", url.into());
        self
    }

    /// Where state is kept, in place of the usual directory; history is there, too.
    #[must_use]
    pub fn state(mut self, directory: impl Into<PathBuf>) -> Self {
        self.own.extend(Options::all(&StateArgs::at(Some(directory.into()))));
        self
    }

    /// The answer, which may take some seconds.
    ///
    /// # Errors
    /// The options make no sense together, or it could not be measured.
    pub fn answer(self) -> Result<Answer, Failure> {
        let mut options = Options::of(&self.spec);
        options.extend(self.own);
        let run = Run::start(Task::Estimate(Call { options, from: vec![self.from], to: self.to }), || {});
        while !run.wait(GLANCE) {}
        let ended = run.outcome().ok_or_else(|| Failure::of(ErrorKind::Io, "it did not end"))?;
        let Outcome { code, results, refusal } = ended;
        if let Some(Refused { kind, why, .. }) = refusal {
            return Err(Failure::of(kind, why));
        }
        let answer = results.last().and_then(|line| serde_json::from_str(line).ok());
        answer.filter(|_| code == 0).ok_or_else(|| {
            let kind = match code {
                USAGE => ErrorKind::Usage,
                INTERRUPTED => ErrorKind::Interrupted,
                _ => ErrorKind::Io,
            };
            Failure::of(kind, run.messages().join("; "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serving::Endpoint;

    #[test]
    fn a_program_is_told_what_history_knows_and_what_makes_no_sense() {
        let home = tempfile::tempdir().expect("a directory");
        let serving =
            Endpoint::builder(home.path()).state(home.path().join("there")).start().expect("serves");
        let asked = |to: &str| Estimate::builder("/data", to).state(home.path().join("state"));
        let nothing = asked(serving.address()).bytes(ByteCount(0)).answer().expect("nothing to move");
        assert_eq!((nothing.streams, nothing.time_ms), (1, Some(0)));
        // So little is not worth a sample.
        let little = asked(serving.address()).bytes(ByteCount(1000)).answer().expect("little");
        assert!(little.samples.is_empty() && little.streams > 0, "{little:?}");
        let spec = EstimateSpec { max_streams: 0, ..EstimateSpec::default() };
        for (builder, wanted) in [
            (asked("/copy").bytes(ByteCount(1)), "no sampler"),
            (asked(serving.address()), "--bytes"),
            (asked(serving.address()).bytes(ByteCount(1)).options(spec), "from 1 to 512"),
        ] {
            let failure = builder.answer().expect_err(wanted);
            let why = failure.to_string();
            assert_eq!(failure.kind, ErrorKind::Usage, "{why}");
            assert!(why.contains(wanted) && !why.contains('\n'), "{why}");
        }
    }
}
