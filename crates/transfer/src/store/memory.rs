//! Memory to memory: zeros from nowhere, and a sink that forgets. For measuring a path alone.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::manifest::{Entry, Kind, Timestamp};
use crate::path::RelPath;
use crate::spec::Memory;
use crate::store::naming::{Durable, Replaced};
use crate::store::{BlockContent, Found, Listed, RangeReader, Sink, SinkFile, Source, Standing};

/// One file of zeros.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ZeroSource(pub Memory);

impl Source for ZeroSource {
    fn list(&self, found: &mut dyn FnMut(Found) -> bool) -> Result<()> {
        let kind = Kind::File { size: self.0.bytes.0, fingerprint: [0; 16] };
        let path = RelPath::new(*b"zero")?;
        let entry = Entry::new(path, kind, 0o600, Timestamp::default());
        found(Found::Entry(Listed { entry, root: 0 }));
        Ok(())
    }

    fn open(&self, _: &Listed, _: Range<u64>) -> Result<Box<dyn RangeReader>> {
        Ok(Box::new(Zeros))
    }

    fn has_read_stage(&self) -> bool {
        false
    }
}

struct Zeros;

impl RangeReader for Zeros {
    fn read(&mut self, _: u64, buffer: &mut [u8]) -> Result<BlockContent> {
        // Bytes, not a hole: the point is to load the network. A staging buffer that only ever held
        // zeros is not cleared again.
        if buffer.first() != Some(&0) || buffer.last() != Some(&0) {
            buffer.fill(0);
        }
        Ok(BlockContent::Data)
    }
}

/// Takes everything and keeps nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NullSink;

impl Sink for NullSink {
    fn prepare(&self, _: &Entry, _: bool) -> Result<Standing> {
        Ok(Standing::Absent)
    }

    fn digest(&self, _: &Entry, _: &dyn Fn() -> bool) -> Result<Digest> {
        Ok([0; 32])
    }

    fn open(&self, _: &Entry, _: bool) -> Result<Box<dyn SinkFile>> {
        Ok(Box::new(Nothing))
    }

    fn has_part(&self, _: &Entry) -> bool {
        false
    }

    fn discard(&self, _: &Entry) {}

    fn publish(&self, _: &Entry, _: Replaced, _: &Durable) -> Result<bool> {
        Ok(true)
    }

    fn sync_names(&self) -> Vec<(Vec<u8>, Error)> {
        Vec::new()
    }

    fn refresh(&self, _: &Entry) -> Result<()> {
        Ok(())
    }

    fn clean_up(&self) {}

    fn has_write_stage(&self) -> bool {
        false
    }
}

struct Nothing;

impl SinkFile for Nothing {
    fn write_at(&self, _: u64, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn zero_at(&self, _: u64, _: u64) -> Result<()> {
        Ok(())
    }

    fn seal(&self, _: &Entry) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}
