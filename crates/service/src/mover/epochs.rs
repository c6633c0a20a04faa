//! Follows the epochs that a child writes, one JSON line each, while it writes them.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_control::Epoch;
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

/// How often the file is looked at; an epoch lasts a second.
const LOOK: Duration = Duration::from_millis(200);
/// The longest line; an epoch takes some 500 bytes.
const MAX_LINE: usize = 64 << 10;

/// Reads a file of epochs as it grows.
#[derive(Debug)]
pub struct Epochs {
    path: PathBuf,
    file: Option<File>,
    line: Vec<u8>,
    /// Whether the line in hand is longer than any, and is left out.
    too_long: bool,
}

impl Epochs {
    /// A file that is to come.
    pub const fn new(path: PathBuf) -> Self {
        Self { path, file: None, line: Vec::new(), too_long: false }
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
    pub async fn catch_up(&mut self, epochs: &mpsc::Sender<Epoch>) -> io::Result<()> {
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
            for &byte in &piece[..count] {
                if byte != b'\n' {
                    self.too_long |= self.line.len() >= MAX_LINE;
                    if !self.too_long {
                        self.line.push(byte);
                    }
                    continue;
                }
                if let (false, Ok(epoch)) = (self.too_long, serde_json::from_slice(&self.line)) {
                    // Nobody waits for a listener.
                    let _ = epochs.try_send(epoch);
                }
                self.line.clear();
                self.too_long = false;
            }
        }
    }
}
