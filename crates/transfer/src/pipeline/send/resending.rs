//! Sends again what was on its way on streams that are gone, and what arrived damaged.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{SendFile, SenderState};
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::{BLOCK, SEGMENT};

/// How often one file's damaged bytes are sent again before it is given up.
const RESEND_LIMIT: u64 = 64 * SEGMENT;

/// Most ranges that wait to be sent again at the receiver's word: more than all streams of an honest one can lose.
const MAX_URGENT: usize = 64 << 10;

impl SenderState {
    /// The receiver wants a range again.
    pub(super) fn again(&self, file: &Arc<SendFile>, range: Range<u64>) -> Result<()> {
        if self.work.urgent() >= MAX_URGENT {
            return Err(Error::protocol("the receiver wants more again than can have been on its way"));
        }
        self.resend(file, range);
        Ok(())
    }

    /// Sends a range again that was on its way.
    pub(super) fn resend(&self, file: &Arc<SendFile>, range: Range<u64>) {
        // Streams that we cut ourselves at the end lose nothing that will be sent again.
        if file.ended.load(Relaxed) || self.is_stopped() {
            return;
        }
        let length = range.end - range.start;
        self.ledger.bytes_again.fetch_add(length, Relaxed);
        // However little of a block is wanted, it is read.
        if file.resent.fetch_add(length.next_multiple_of(BLOCK), Relaxed) > RESEND_LIMIT.max(4 * file.size) {
            let why = format!("{} arrived damaged again and again: given up", file.listed.entry.path);
            self.give_up(file, Error::new(ErrorKind::Corrupt, why));
            return;
        }
        self.work.push_urgent(Arc::clone(file), range);
    }

    /// A stream is gone: what was on its way comes again.
    pub(super) fn lost(&self, data_stream: u32) {
        for sent in self.data_streams.lose(data_stream) {
            self.resend(&sent.file, sent.offset..sent.offset + u64::from(sent.length));
        }
    }
}
