//! The threads of a download: started together, resized by the set-point, and let go at the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tidegate_control::Concurrency;
use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::journal::Journal;
use tidegate_transfer::pipeline::pool::Pool;
use tidegate_transfer::pipeline::write_path::{FailOnPanic, WritePath, WriteSettings, WriteThreads, spawn};
use tidegate_transfer::quota::{Quota, Share};
use tidegate_transfer::store::Sink;
use tidegate_transfer::store::apart::Apart;
use tidegate_transfer::store::destination_path::DestinationPath;
use tidegate_transfer::store::file_sink::FileSink;
use tidegate_transfer::sys::confined::Root;
use tidegate_transfer::sys::sync::{Condvar, Mutex};
use tidegate_transfer::terms::Purpose;
use tidegate_transfer::throttle::Throttle;
use tidegate_transfer::transfer::route::transfer_id;

use crate::get::digest_queue::DigestQueue;
use crate::get::event::DownloadListener;
use crate::get::fetch::Worker;
use crate::get::queue::Queue;
use crate::get::settings::DownloadSettings;
use crate::get::state::{DownloadState, Live};
use crate::host::Hosts;
use crate::host::ceilings::CONNECTIONS;
use crate::host::quickest::Quickest;
use crate::record::Names;
use crate::remote::Remotes;
use crate::umask::umask;

/// How long workers that wait for a server are waited for at the end; what they hold is not needed.
const LETTING_GO: Duration = Duration::from_secs(2);

/// Most threads that compute checksums beside the writers.
const DIGESTERS: usize = 4;

/// The threads of a download.
pub(super) struct DownloadThreads {
    shared: Arc<DownloadState>,
    network: Pool,
    writers: WriteThreads<DownloadState>,
    threads: Vec<JoinHandle<()>>,
    feeder: Option<JoinHandle<()>>,
    ended: bool,
}

/// What the user called `typed`.
fn output_directory(typed: &[u8]) -> DestinationPath {
    let path = typed.to_vec();
    let open = move || Root::open(&path).map_err(|error| Error::io("open", &path, error));
    DestinationPath::new(typed.to_vec(), open)
}

impl DownloadThreads {
    pub(super) fn start(
        names: Names,
        remotes: Arc<dyn Remotes>,
        settings: DownloadSettings,
        tell: DownloadListener,
    ) -> Result<Self> {
        let out = settings.out.dir(b"").map_err(|error| Error::io("use", &settings.base, error))?;
        // One an output directory: a later run with another list finds what this one leaves.
        let id = transfer_id(&[b"get", &settings.base]);
        let sink = FileSink::new((&out, b""), false, &id, Purpose::Copy, Apart::default())?;
        let sink = Arc::new(sink.found_by(output_directory(&settings.typed)));
        let journal = sink.work().map(|work| Journal::open(work, &Quota::unlimited())).transpose()?;
        let memory = settings.memory.of(&settings.base);
        let most = settings.max_workers.max(1);
        let share = Share::own();
        let shared = Arc::new(DownloadState {
            hosts: Hosts::new(settings.ceilings.clone(), Arc::clone(&settings.held), most, settings.seed),
            queue: Queue::new(settings.chunk, settings.verify),
            path: WritePath::new(WriteSettings {
                sink: sink.clone(),
                journal,
                catalogue: None,
                permit: None,
                ledger: Arc::default(),
                staging: settings.staging,
                max_workers: most,
                limit: settings.limits.write,
                share: &share,
            }),
            link: Throttle::new(settings.limits.link),
            sink,
            memory,
            digests: DigestQueue::default(),
            network_bytes: AtomicU64::new(0),
            mode: 0o666 & !umask(),
            live: Mutex::new(Live::new(most.min(CONNECTIONS))),
            changed: Condvar::new(),
            spoken_for: Mutex::default(),
            connected: AtomicU16::new(0),
            quickest: Quickest::default(),
            tell,
            settings,
        });
        let network = {
            let shared = Arc::clone(&shared);
            Pool::new("network", most, move |index, gate| {
                let _guard = FailOnPanic(&*shared);
                shared.connected.fetch_add(1, Relaxed);
                Worker::new(&shared, &*remotes).work(index, gate);
                shared.connected.fetch_sub(1, Relaxed);
            })
        };
        let writers = WriteThreads::start(&shared, most, &share);
        let mut threads = Self { shared, network, writers, threads: Vec::new(), feeder: None, ended: false };
        let digesters = thread::available_parallelism().map_or(1, usize::from).clamp(1, DIGESTERS);
        for index in 0..digesters {
            threads.threads.extend(spawn(&threads.shared, &format!("digest-{index}"), DownloadState::digest));
        }
        // It is not waited for at the end, since it may wait for a server.
        threads.feeder = spawn(&threads.shared, "feed", move |shared| shared.feed(names));
        Ok(threads)
    }

    pub(super) fn shared(&self) -> &Arc<DownloadState> {
        &self.shared
    }

    pub(super) fn resize(&self, setpoint: Concurrency) {
        self.network.resize(setpoint.network);
        self.writers.resize(setpoint.write, setpoint.network);
        self.shared.queue.resize(self.network.size());
    }

    /// Everything has ended: what is needed only while it runs is removed.
    ///
    /// # Errors
    /// What was got is not where it was to be.
    pub(super) fn finish(&mut self) -> Result<()> {
        if self.ended {
            return Ok(());
        }
        self.stop();
        self.shared.sink.still_there()?;
        for (_, error) in self.shared.sink.sync_names() {
            tracing::warn!("{error}");
        }
        // Parts of files that failed, or that an earlier list named, may be continued by a later run.
        if let Some(why) = self.shared.sink.not_kept().text() {
            tracing::warn!("{why}");
        }
        if !self.shared.sink.has_parts() {
            self.shared.sink.clean_up();
        }
        Ok(())
    }

    /// Stops all work, records what is safe, and waits for every worker but those that a server holds
    /// up. Afterwards the journal is free for the next run.
    pub(super) fn stop(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        // Who begins a file while all ends finds nothing of what was left of it.
        let left = self.shared.kept();
        self.shared.stop();
        self.network.close();
        let end = Instant::now() + LETTING_GO;
        while self.shared.connected.load(Relaxed) > 0 && Instant::now() < end {
            thread::sleep(Duration::from_millis(2));
        }
        if self.shared.connected.load(Relaxed) == 0 {
            self.network.join();
        }
        self.writers.join();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a worker of the download panicked");
            }
        }
        if self.feeder.as_ref().is_some_and(JoinHandle::is_finished)
            && let Some(feeder) = self.feeder.take()
            && feeder.join().is_err()
        {
            tracing::error!("the list's reader panicked");
        }
        for body in self.shared.bodies().iter().filter(|body| body.resumes) {
            self.shared.path.checkpoint(body);
        }
        self.shared.path.ledger.leaves(self.shared.kept().max(left));
        self.shared.path.release_journal();
        let files = std::mem::take(&mut self.shared.live.lock().files);
        files.into_values().for_each(|file| drop(file.lock().body.take()));
    }
}

impl Drop for DownloadThreads {
    fn drop(&mut self) {
        self.stop();
    }
}
