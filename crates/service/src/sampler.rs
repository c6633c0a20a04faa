//! Measures what a path carries with so many streams, by programs that do nothing else: our own between two
//! endpoints, iperf3 against a server, `globus-url-copy` between two GridFTP servers; and of others' servers by ranges of
//! the files that are to be got.
//!
//! A sample runs in a child process, so that whatever goes wrong in it is one line here. The trait is
//! asynchronous because all it does is wait for that child: a service waits for many at once, and dropping the
//! future kills the child, so every caller can cancel at any moment. Nothing waits without a bound.

pub(crate) mod credential;

pub mod gridftp;
pub(crate) mod growing;
pub mod iperf3;
pub(crate) mod native;
mod omitted;
pub(crate) mod ours;
pub(crate) mod program;
pub(crate) mod ranges;
mod watched;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use thiserror::Error;
use tidegate_control::{BitRate, ByteCount};

use tidegate_contract::redact;
pub use tidegate_spec::estimate::SamplerKind;
use tidegate_spec::estimate::{SAMPLE_SIZE, SAMPLE_TIME};

/// A sample by time is looked at in so many pieces, once its streams are up to speed, ...
const PIECES: u32 = 5;
/// ... of no less than this.
const SHORTEST_PIECE: Duration = Duration::from_millis(100);

/// So long a rate may rise: at 200 ms a stream of 100 Mbit/s takes 3 s, and more where slow start ends too soon.
const RISING: Duration = Duration::from_secs(10);

/// What is said of a rate that had no time to settle.
const STILL_ROSE: &str = "its rate still rose when the sample ended";

/// Most streams that a sampler can open.
pub(crate) const fn max_streams(kind: SamplerKind) -> u16 {
    match kind {
        SamplerKind::Native => native::MAX_STREAMS,
        SamplerKind::Iperf3 => iperf3::MAX_STREAMS,
        SamplerKind::GridFtp => gridftp::MAX_STREAMS,
        SamplerKind::Ranges => ranges::MAX_STREAMS,
    }
}

/// How long, or how much, one sample is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So long, once the streams are up to speed: connecting and slow start are left out.
    Time(Duration),
    /// So much.
    Bytes(ByteCount),
}

impl Default for Amount {
    /// A second: longer samples told the EOS paper's authors no more (its figure 5).
    fn default() -> Self {
        Self::Time(Duration::from_secs(1))
    }
}

impl Amount {
    /// The pieces in which a sample of so long is looked at, from which its halves are told.
    fn piece(time: Duration) -> Duration {
        (time / PIECES).max(SHORTEST_PIECE)
    }

    /// The same, if it is within what a sample may take.
    pub fn checked(self) -> Result<Self, SamplerError> {
        let checked = match self {
            Self::Time(time) => SAMPLE_TIME.within(time).map(Self::Time),
            Self::Bytes(bytes) => SAMPLE_SIZE.within(bytes).map(Self::Bytes),
        };
        checked.map_err(|why| SamplerError::new(Failure::Usage, why))
    }

    /// How long a sample may take before it is given up: starting and connecting, and four times what was
    /// meant; by bytes nobody knows, and two minutes are more than an estimate is worth.
    pub fn limit(self) -> Duration {
        match self {
            Self::Time(time) => Duration::from_secs(20) + time * 4,
            Self::Bytes(_) => Duration::from_secs(120),
        }
    }
}

/// What one sample showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Streams that carried it.
    pub streams: u16,
    /// What they carried together.
    pub throughput: BitRate,
    /// Everything that was moved, whether it was measured or not: the cost.
    pub bytes: ByteCount,
    /// The time that `throughput` is over.
    pub measured: Duration,
    /// The time that went by, starting and connecting included: the cost.
    pub spent: Duration,
    /// What a reader of the figure should know.
    pub note: Option<String>,
}

/// Why there is no sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// What was asked makes no sense.
    Usage,
    /// The program is not there.
    Missing,
    /// The program said why it failed.
    Failed,
    /// The program ended, and what it printed cannot be read.
    Garbage,
    /// The program did not end in time.
    Late,
}

/// One line that says what failed, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{why}")]
pub struct SamplerError {
    /// What kind of failure it is.
    pub failure: Failure,
    why: String,
}

impl SamplerError {
    /// An error of one line, without the secrets of addresses in it.
    pub fn new(failure: Failure, why: impl Into<String>) -> Self {
        let why = why.into().split_whitespace().collect::<Vec<_>>().join(" ");
        Self { failure, why: redact::line(&why, &[]) }
    }
}

/// A sample under way.
pub(crate) type Measuring<'a> = Pin<Box<dyn Future<Output = Result<Measured, SamplerError>> + Send + 'a>>;

/// What measures a path. Dropping the future ends the measurement.
pub trait Sampler: Send {
    /// Which one it is.
    fn kind(&self) -> SamplerKind;

    /// Most streams that it can open.
    fn max_streams(&self) -> u16 {
        max_streams(self.kind())
    }

    /// Measures `streams` for about `amount`; it takes no longer than [`Amount::limit`].
    fn measure(&mut self, streams: u16, amount: Amount) -> Measuring<'_>;
}

#[cfg(test)]
mod tests {
    use tidegate_contract::text::MAX_SHOWN;

    use super::*;

    #[test]
    fn an_error_is_one_line_without_secrets() {
        let error = SamplerError::new(Failure::Failed, "no\n way to\tftp://me:secret@host/x nor 'tg://T@h'");
        assert_eq!(error.to_string(), "no way to ftp://host/x nor 'tg://h'");
        let error =
            SamplerError::new(Failure::Failed, format!("tg://{} {}", "s".repeat(86), "é".repeat(900)));
        assert!(!error.to_string().contains("ss") && error.to_string().len() <= MAX_SHOWN + "…".len());
        let error = SamplerError::new(Failure::Failed, "iperf3: \x1b[2J\u{202e}\u{9b}");
        assert_eq!(error.to_string(), "iperf3: \\x1b[2J\\xe2\\x80\\xae\\xc2\\x9b");
    }

    #[test]
    fn amounts_have_bounds() {
        assert!(Amount::default().checked().is_ok());
        for amount in [
            Amount::Time(Duration::ZERO),
            Amount::Time(Duration::from_secs(61)),
            Amount::Bytes(ByteCount(0)),
            Amount::Bytes(ByteCount(u64::MAX)),
        ] {
            assert!(amount.checked().is_err(), "{amount:?}");
        }
    }
}
