//! History for callers that have no runtime: the command line.

use std::future::Future;

use tokio::runtime::{Builder, Runtime};

use tidegate_database::Result;

use super::History;

/// A history with a runtime of its own, on the thread that waits.
///
/// ```
/// use std::time::Duration;
///
/// use tidegate_control::{BitRate, ByteCount};
/// use tidegate_service::history::{Blocking, Circumstances, Method, Record, Sample, Timestamp};
/// use tidegate_spec::pair::Pair;
///
/// let directory = tempfile::tempdir()?;
/// let history = Blocking::open(&format!("sqlite:{}", directory.path().join("history.db").display()))?;
/// let pair = Pair::of("/data", "tg://dtn2/in")?;
/// let record = Record::from(Sample {
///     pair: pair.clone(),
///     method: Method::Native,
///     streams: 4,
///     throughput: BitRate::mbps(900),
///     bytes: ByteCount::mib(100),
///     duration: Duration::from_secs(1),
///     circumstances: Circumstances::default(),
///     at: Timestamp::now(),
/// });
/// // What is there already is known again.
/// assert_eq!(history.wait(history.history().record(&[record.clone()]))?, 1);
/// assert_eq!(history.wait(history.history().record(&[record]))?, 0);
/// assert_eq!(history.wait(history.history().samples(&pair, Timestamp(0), true))?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Blocking {
    history: History,
    runtime: Runtime,
}

impl Blocking {
    /// Opens `sqlite:PATH` or `postgres://…`, and makes or renews its tables.
    ///
    /// # Panics
    ///
    /// Called from within a runtime, or if the system has no descriptors left for one.
    pub fn open(url: &str) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().expect("descriptors for a runtime");
        let history = runtime.block_on(History::open(url))?;
        Ok(Self { history, runtime })
    }

    /// The history, whose answers [`Self::wait`] waits for.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Waits for `work`.
    pub fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        // So that SQLite puts its log away.
        self.runtime.block_on(self.history.close());
    }
}
