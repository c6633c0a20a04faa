//! Follows the epochs that a child writes, one JSON line each, while it writes them; and writes those of a program that
//! knows no epochs.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_contract::epoch_line::{self, EpochReader};
use tidegate_control::Epoch;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

/// How often the file is looked at; an epoch lasts a second.
const LOOK: Duration = Duration::from_millis(200);

/// Reads a file of epochs as it grows.
#[derive(Debug)]
pub(crate) struct Epochs {
    path: PathBuf,
    file: Option<File>,
    reader: EpochReader,
}

impl Epochs {
    /// A file that is to come.
    pub fn new(path: PathBuf) -> Self {
        Self { path, file: None, reader: EpochReader::default() }
    }

    /// Tells of each epoch for as long as this is awaited.
    pub async fn follow(&mut self, epochs: &mpsc::Sender<Epoch>) {
        loop {
            // What cannot be read now may be read later; the transfer does not depend on it.
            let _ = self.catch_up(epochs).await;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Tells of what was written meanwhile.
    pub(crate) async fn catch_up(&mut self, epochs: &mpsc::Sender<Epoch>) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(File::open(&self.path).await?),
        };
        let mut piece = vec![0; 16 << 10];
        loop {
            let count = file.read(&mut piece).await?;
            if count == 0 {
                return Ok(());
            }
            // Nobody waits for a listener.
            self.reader.take_in(&piece[..count], |epoch| drop(epochs.try_send(epoch)));
        }
    }
}

/// Writes each epoch that comes into a file that is made anew, and hands it on, until no more can come.
pub(crate) async fn write(path: &Path, mut from: mpsc::Receiver<Epoch>, to: mpsc::Sender<Epoch>) {
    // What an earlier attempt told is not told again. One that cannot be written is heard all the same.
    let mut file = match File::create(path).await {
        Ok(file) => Some(file),
        Err(error) => {
            tracing::warn!("cannot write {}: {error}; the job's epochs are not kept", path.display());
            None
        }
    };
    while let Some(epoch) = from.recv().await {
        if let Some(open) = &mut file {
            let line = epoch_line::write(&epoch) + "\n";
            if let Err(error) = open.write_all(line.as_bytes()).await {
                tracing::warn!(
                    "cannot write {}: {error}; the job's later epochs are not kept",
                    path.display()
                );
                file = None;
            }
        }
        // Nobody waits for a listener.
        drop(to.try_send(epoch));
    }
    if let Some(mut file) = file {
        let _ = file.flush().await;
    }
}
