//! Reads files that the receiver may have, aside from the pipeline.

use super::{SendFile, SenderState};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::{Digest, FileHash, block_digest};
use crate::manifest::BLOCK;
use crate::pipeline::proof::ZEROS;
use crate::store::BlockContent;

impl SenderState {
    /// The root hash of `file`; reading it fails once stopped.
    pub(super) fn root_of(&self, file: &SendFile) -> Result<Digest> {
        let mut reader = self.source.open(&file.listed, 0..file.size)?;
        let mut hash = FileHash::new(file.size);
        let mut buffer = vec![0; BLOCK as usize];
        let mut offset = 0;
        while !hash.is_complete() {
            if self.is_stopped() {
                return Err(Error::new(ErrorKind::Interrupted, "stopped"));
            }
            let length = (file.size - offset).min(BLOCK) as usize;
            let data = match reader.read(offset, &mut buffer[..length])? {
                BlockContent::Data => &buffer[..length],
                BlockContent::Zero => &ZEROS[..length],
            };
            hash.add_block(offset, block_digest(data, offset, file.size));
            offset += length as u64;
        }
        Ok(hash.root().expect("complete"))
    }
}
