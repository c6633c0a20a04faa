//! Conversions beside a download: each begins once its archive is there, one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::path::RelPath;

use super::converter::Converter;

/// An archive that is there, and how many reads it has, as far as that is known.
pub type Archive = (RelPath, Option<u64>);

/// What came of all conversions.
#[derive(Default)]
pub struct Converted {
    /// Archives there were.
    pub archives: u64,
    /// Files that are beside them now.
    pub made: Vec<String>,
    /// What could not be converted.
    pub failed: Vec<Error>,
    /// Why they ended early.
    pub interrupted: Option<Error>,
}

/// The thread that converts.
pub struct Converting {
    /// Archives wait here, as many as were named.
    queue: Sender<Archive>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Converted>,
}

impl Converting {
    /// Waits for archives from now on.
    pub fn begin(converter: Converter) -> Result<Self> {
        let (queue, archives) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let thread = thread::Builder::new()
            .name("convert".to_owned())
            .spawn(move || run(&converter, &archives, &ends));
        let thread = thread.map_err(|error| Error::io("start a thread for", b"--convert", error))?;
        Ok(Self { queue, is_over, thread })
    }

    /// Where archives are told of that are there.
    pub fn queue(&self) -> Sender<Archive> {
        self.queue.clone()
    }

    /// Waits until all are converted, or without `all` until the one under way is. Nobody else holds the queue by now.
    pub fn end(self, all: bool) -> Converted {
        let Self { queue, is_over, thread } = self;
        is_over.store(!all, Relaxed);
        drop(queue);
        thread.join().unwrap_or_else(|_| Converted {
            failed: vec![Error::new(ErrorKind::Io, "the conversion ended by a mistake of its own")],
            ..Converted::default()
        })
    }
}

fn run(converter: &Converter, archives: &Receiver<Archive>, is_over: &AtomicBool) -> Converted {
    let mut converted = Converted::default();
    for (archive, reads) in archives {
        converted.archives += 1;
        if is_over.load(Relaxed) || converted.interrupted.is_some() {
            continue;
        }
        match converter.convert(&archive, reads) {
            Ok(made) => converted.made.extend(made),
            Err(error) if error.kind == ErrorKind::Interrupted => converted.interrupted = Some(error),
            Err(error) => converted.failed.push(error),
        }
    }
    converted
}
