//! The network's workers: each has a connection that stays warm, and with it begins, sends, completes and aborts.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_contract::outage_line;
use tidegate_control::units::duration_in_words;
use tidegate_transfer::error::{Error, ErrorKind, Retry};
use tidegate_transfer::offer::warn_left_out;
use tidegate_transfer::outage;
use tidegate_transfer::path::RelPath;
use tidegate_transfer::pipeline::pool::Gate;
use tidegate_transfer::selection::Taking;
use tidegate_transfer::throttle::Throttle;

use crate::host::put_off;
use crate::put::queue::{Bytes, Chunk, PartContent, Room, SendTask, UploadPart, UploadQueue};
use crate::put::state::{UploadEvent, UploadState};
use crate::put::target::{
    Content, DEFAULT_PART, PieceSums, Present, Stored, StoredPart, UploadConnection, UploadFile, UploadTries,
};
use crate::remote::{Refusal, WARM, Why};

/// How long one sleep lasts at most while something may end all.
const NAP: Duration = Duration::from_millis(20);

/// How often a server is tried again whose name does not exist: a resolver has bad moments, too.
const MISSPELT: u32 = 2;

/// Most bytes handed over at once, so that a rate is kept evenly.
const SIP: usize = 64 << 10;

/// The same while one of them takes longer than this to leave.
const SLOW_SIP: usize = 16 << 10;
const SLOW: Duration = Duration::from_millis(50);

/// A network worker's life.
pub(crate) fn work(shared: &Arc<UploadState>, index: u16, gate: &Gate) {
    let throttle = Throttle::new(shared.settings.limits.network);
    let mut worker = match shared.target.connection() {
        Ok(connection) => Worker { shared, connection, proven: false },
        Err(error) => return shared.queue.stop(Some(error)),
    };
    while gate.pass_or_rest(index, WARM, || worker.disconnect()) && !shared.is_over() {
        match shared.queue.next_sending(|| gate.is_open(index)) {
            Some(SendTask::Begin(file)) => worker.begin(&file),
            Some(SendTask::UploadPart(piece)) => worker.send(piece, throttle.as_ref()),
            Some(SendTask::Complete(file)) => worker.complete(&file),
            Some(SendTask::Abort(file, id)) => worker.abort(&file, &id),
            Some(SendTask::Remove(path)) => worker.remove(&path),
            Some(SendTask::RemoveDirectory(path)) => worker.remove_directory(&path),
            None => {}
        }
    }
}

/// Asks the target what it has, before the first file; tries again as with everything.
pub(crate) fn survey(shared: &Arc<UploadState>) -> Result<(), Error> {
    let mut worker = Worker { shared, connection: shared.target.connection()?, proven: false };
    let inhabited = worker.again(|connection| connection.survey()).map_err(|refusal| refusal.error)?;
    shared.inhabited.store(inhabited, Relaxed);
    Ok(())
}

/// One worker, its connection, and whether its last request was answered.
struct Worker<'a> {
    shared: &'a Arc<UploadState>,
    connection: Box<dyn UploadConnection>,
    proven: bool,
}

impl Worker<'_> {
    /// Closes its connection; the next request opens another.
    fn disconnect(&mut self) {
        match self.shared.target.connection() {
            Ok(connection) => self.connection = connection,
            Err(error) => tracing::debug!("a connection is kept: {error}"),
        }
    }

    /// Does `what` once the server bears another request.
    fn request<T>(
        &mut self,
        what: impl FnOnce(&mut dyn UploadConnection) -> Result<T, Refusal>,
    ) -> Result<T, Failed> {
        let (shared, host) = (self.shared, &self.shared.host);
        // There are no more senders than it bears connections.
        while !host.enter(Instant::now(), self.proven, true) {
            if shared.is_over() || shared.settings.interrupt.is_raised() {
                let error = UploadQueue::stopped_error();
                return Err(Failed { refusal: Refusal::of(Why::Senseless, error), counts: true });
            }
            thread::sleep(NAP);
        }
        let asked_at = Instant::now();
        let result = what(self.connection.as_mut());
        let result = result.map_err(|refusal| self.failed(refusal, asked_at));
        if result.is_ok() {
            host.answered(!self.proven);
            self.proven = true;
        }
        host.leave(self.proven);
        result
    }

    /// What follows from the refusal of a request that was made at `asked_at`.
    fn failed(&mut self, refusal: Refusal, asked_at: Instant) -> Failed {
        let (shared, host, now) = (self.shared, &self.shared.host, Instant::now());
        let retry_for = shared.settings.retry_for;
        let is_nowhere = refusal.names_no_host && !host.has_answered();
        match refusal.why {
            _ if shared.is_over() || shared.settings.interrupt.is_raised() => {
                Failed { refusal, counts: true }
            }
            Why::Busy => {
                let asked = refusal.retry_after;
                let next = host.refused(now, asked_at, self.proven, asked, retry_for);
                self.proven = false;
                let Some(next) = next else { return Failed { refusal, counts: true } };
                put_off::say(&refusal.error, asked, next);
                match next {
                    // Who answers others meanwhile does not answer this.
                    outage::Next::Again { failures, .. } => Failed { refusal, counts: failures == 1 },
                    outage::Next::GiveUp(_) => given_up(refusal, retry_for),
                }
            }
            Why::Unreachable if !is_nowhere => {
                let next = host.unreachable(now, self.proven, retry_for);
                self.proven = false;
                match next {
                    outage::Next::Again { failures, left, tell } => {
                        if tell && shared.settings.retries > 0 {
                            let left = duration_in_words(left);
                            tracing::warn!("{}", outage_line::write(&refusal.error.to_string(), true, &left));
                        }
                        Failed { refusal, counts: failures == 1 }
                    }
                    outage::Next::GiveUp(time) => given_up(refusal, time),
                }
            }
            // A wrong checksum came on a sound connection.
            Why::Broken | Why::Unreachable if refusal.error.kind != ErrorKind::Corrupt => {
                if let Some(wait) = host.lost(now, self.proven).filter(|_| !is_nowhere) {
                    tracing::warn!("{}; trying again in {:.1} s", refusal.error, wait.as_secs_f64());
                }
                self.proven = false;
                Failed { refusal, counts: true }
            }
            _ => {
                host.answered(!self.proven);
                self.proven = true;
                Failed { refusal, counts: true }
            }
        }
    }

    /// Waits before try number `tries`; `false` if all is over meanwhile. After a refusal for too many
    /// requests the host says when.
    fn rest(&self, refusal: &Refusal, tries: u32) -> bool {
        tracing::debug!("{}; trying again", refusal.error);
        let is_over = || self.shared.is_over() || self.shared.settings.interrupt.is_raised();
        if refusal.why != Why::Busy {
            let end = Instant::now() + self.shared.host.jitter(tries);
            while Instant::now() < end && !is_over() {
                thread::sleep(NAP.min(end.saturating_duration_since(Instant::now())));
            }
        }
        !is_over()
    }

    /// Whether another try may help after one that failed.
    fn may_help(&self, failed: &Failed, tries: &mut UploadTries) -> bool {
        let settings = &self.shared.settings;
        let is_nowhere = failed.refusal.names_no_host && !self.shared.host.has_answered();
        let most = if is_nowhere { settings.retries.min(MISSPELT) } else { settings.retries };
        failed.refusal.why.retry() != Retry::Never && tries.failed(failed.counts, most, settings.retry_for)
    }

    /// Does `what`, again after a pause where that may help.
    fn again<T>(
        &mut self,
        mut what: impl FnMut(&mut dyn UploadConnection) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut tries = UploadTries::default();
        loop {
            let failed = match self.request(&mut what) {
                Err(failed) if failed.refusal.why.retry() != Retry::Never => failed,
                answer => return answer.map_err(|failed| failed.refusal),
            };
            if !self.may_help(&failed, &mut tries) || !self.rest(&failed.refusal, tries.count) {
                return Err(failed.refusal);
            }
        }
    }

    /// What bears the file's name.
    fn look(&mut self, file: &UploadFile) -> Result<Option<Present>, Refusal> {
        if !self.shared.inhabited.load(Relaxed) {
            return Ok(None);
        }
        match self.again(|connection| connection.look(file)) {
            // Whoever may write need not be allowed to look, unless it matters what is there.
            Err(refusal)
                if refusal.why == Why::Denied
                    && refusal.error.kind == ErrorKind::Denied
                    && self.shared.settings.taking == Taking::default() =>
            {
                Ok(None)
            }
            looked => looked,
        }
    }

    fn begin(&mut self, file: &Arc<UploadFile>) {
        let shared = self.shared;
        let compared = file.state.lock().differs;
        if !compared {
            let present = match self.look(file) {
                Ok(present) => present,
                Err(refusal) => return shared.give_up(file, refusal.error),
            };
            if shared.leaves(file, present.as_ref()) {
                return shared.leave(file);
            }
            if let Some(present) = present.filter(|present| present.bytes == Some(file.size)) {
                if shared.remembers(file, &present) || shared.is_as_old(file, &present) {
                    return shared.same(file, &present);
                }
                // What comes in one answer is not asked for twice.
                if present.is_comparable(file) && !shared.source.is_undivided(&file.listed) {
                    return shared.queue.compare(file, present);
                }
            }
        }
        if shared.settings.dry {
            return shared.would(file);
        }
        if file.is_multipart() {
            let (id, have) = match self.again(|connection| connection.begin(file)) {
                Ok(started) => started,
                Err(refusal) => return shared.give_up(file, refusal.error),
            };
            file.multipart_started(id, have);
            // What comes in one answer is with one reader at a time, who hands it on.
            match shared.source.is_undivided(&file.listed) {
                true => shared.queue.read_parts(file, [1]),
                false => shared.queue.read_parts(file, 1..=file.plan.count),
            }
        } else if shared.target.takes_streams() && file.size > DEFAULT_PART.0 {
            shared.queue.read_stream(file);
        } else {
            shared.queue.read_parts(file, [1]);
        }
    }

    fn send(&mut self, piece: UploadPart, throttle: Option<&Throttle>) {
        let shared = self.shared;
        let UploadPart { file, number, content, tries } = piece;
        let upload = {
            let state = file.state.lock();
            match state.failed {
                Some(_) => Err(()),
                None => Ok(state.upload.clone()),
            }
        };
        let Ok(upload) = upload else { return shared.part_done(&file) };
        let mut body = Outgoing::new(shared, &content, file.size, throttle);
        shared.active.fetch_add(1, Relaxed);
        let result = self.request(|connection| match (&upload, number) {
            (Some(id), 1..) => connection.put_part(&file, id, number, &mut body).map(Sent::Part),
            _ => connection.put(&file, &mut body).map(Sent::Whole),
        });
        shared.active.fetch_sub(1, Relaxed);
        let (moved, sums) = (body.moved, body.sums());
        drop(body);
        match result {
            Ok(Sent::Part(StoredPart { tag, was_there })) => {
                drop(content);
                if was_there {
                    let range = file.plan.range(number, file.size);
                    shared.already(&file, range.end - range.start);
                }
                shared.confirmed(&file, number, tag, sums.unwrap_or_default());
            }
            Ok(Sent::Whole(stored)) => {
                drop(content);
                file.state.lock().in_flight -= 1;
                shared.stored(&file, &self.proved(&file, stored, sums));
            }
            Err(failed) => {
                shared.ledger.bytes_again.fetch_add(moved, Relaxed);
                // Who takes some of it is there.
                let failed = Failed { counts: failed.counts || moved > 0, ..failed };
                self.send_again(UploadPart { file, number, content, tries }, failed);
            }
        }
    }

    /// Where the file is to be removed at the source, what bears its name by now is read.
    fn proved(&mut self, file: &UploadFile, stored: Stored, sums: Option<PieceSums>) -> Stored {
        if !self.shared.source.is_moved() {
            return stored;
        }
        let Some(sums) = sums else { return Stored { verified: false, ..stored } };
        let verified = match self.again(|connection| connection.proves(file, sums.md5)) {
            Ok(is_same) => is_same,
            Err(refusal) => {
                tracing::debug!("{}", refusal.error);
                false
            }
        };
        Stored { verified: stored.verified && verified, ..stored }
    }

    /// A piece did not arrive: it is sent again, if that may help.
    fn send_again(&self, piece: UploadPart, failed: Failed) {
        let shared = self.shared;
        let UploadPart { file, number, content, tries } = piece;
        let (met, before) = {
            let mut state = file.state.lock();
            (state.met.take(), state.tries)
        };
        if let Some(error) = met {
            drop(content);
            return shared.part_failed(&file, error);
        }
        let mut tries = if before.count > tries.count { before } else { tries };
        if !self.may_help(&failed, &mut tries) {
            drop(content);
            return shared.part_failed(&file, failed.refusal.error);
        }
        if matches!(content, PartContent::Stream(_)) {
            // The stream is lost; the file is read again.
            drop(content);
            file.state.lock().tries = tries;
            if self.rest(&failed.refusal, tries.count) {
                shared.queue.read_stream(&file);
            }
            return shared.part_done(&file);
        }
        if self.rest(&failed.refusal, tries.count) {
            shared.queue.send(SendTask::UploadPart(UploadPart { file, number, content, tries }));
        }
    }

    fn complete(&mut self, file: &Arc<UploadFile>) {
        let shared = self.shared;
        // Nothing may have been written to it between its first part and its last.
        if let Err(error) = shared.source.open(&file.listed, 0..0) {
            return shared.give_up(file, error);
        }
        let (id, parts) = {
            let state = file.state.lock();
            let parts: Option<Vec<_>> = state.confirmed.iter().cloned().collect();
            (state.upload.clone(), parts)
        };
        let (Some(id), Some(parts)) = (id, parts) else {
            let error = Error::new(ErrorKind::Io, format!("{}: parts are missing", file.path));
            return shared.give_up(file, error);
        };
        match self.again(|connection| connection.complete(file, &id, &parts)) {
            Ok(stored) => shared.stored(file, &stored),
            Err(refusal) => shared.give_up(file, refusal.error),
        }
    }

    fn abort(&mut self, file: &Arc<UploadFile>, id: &str) {
        if let Err(refusal) = self.again(|connection| connection.abort(file, id)) {
            tracing::warn!("what was sent of {} stays there: {}", file.path, refusal.error);
        }
        self.shared.failed(file);
    }

    fn remove(&mut self, path: &RelPath) {
        match self.again(|connection| connection.remove(path)) {
            Ok(true) => {
                self.shared.removed.add();
                (self.shared.tell)(UploadEvent::Deleted(path));
            }
            Ok(false) => warn_left_out(path.as_bytes(), &"a directory at the destination, which stays"),
            Err(refusal) => self.shared.removed.fail(refusal.error),
        }
        self.shared.queue.ended();
    }

    fn remove_directory(&mut self, path: &RelPath) {
        match self.again(|connection| connection.remove_directory(path)) {
            Ok(true) => self.shared.removed.add(),
            Ok(false) => {}
            Err(refusal) => self.shared.removed.fail(refusal.error),
        }
        self.shared.queue.ended();
    }
}

/// A request that was not done.
struct Failed {
    refusal: Refusal,
    /// Whether it is one of the tries that are borne, and not part of an outage, which is borne for a time.
    counts: bool,
}

/// Nobody waits for the server any longer, who did for `time`.
fn given_up(mut refusal: Refusal, time: Duration) -> Failed {
    if !time.is_zero() {
        let how_long = duration_in_words(time);
        refusal.error.message = format!("{} (given up after {how_long})", refusal.error.message);
    }
    refusal.why = Why::Denied;
    Failed { refusal, counts: true }
}

/// What was sent.
enum Sent {
    /// A part.
    Part(StoredPart),
    /// A whole file.
    Whole(Stored),
}

/// A piece's bytes on their way out: counted, and no faster than asked.
struct Outgoing<'a> {
    shared: &'a UploadState,
    throttle: Option<&'a Throttle>,
    length: u64,
    moved: u64,
    /// When bytes were asked for last.
    last: Instant,
    /// Where the next byte lies: in which block, and where in it.
    at: (usize, usize),
    from: From<'a>,
}

enum From<'a> {
    Blocks(&'a [Bytes], PieceSums),
    Stream(&'a Receiver<Chunk>, Option<Room>, Option<PieceSums>),
}

impl<'a> Outgoing<'a> {
    fn new(
        shared: &'a UploadState,
        content: &'a PartContent,
        size: u64,
        throttle: Option<&'a Throttle>,
    ) -> Self {
        let (length, from) = match content {
            PartContent::Whole(room, sums) => (room.length(), From::Blocks(&room.blocks, *sums)),
            PartContent::Stream(receiver) => (size, From::Stream(receiver, None, None)),
        };
        Self { shared, throttle, length, moved: 0, last: Instant::now(), at: (0, 0), from }
    }

    /// What is left of the current block; empty at the end.
    fn front(&mut self) -> io::Result<&[u8]> {
        loop {
            let (blocks, stream): (&[Bytes], _) = match &mut self.from {
                From::Blocks(blocks, _) => (blocks, None),
                From::Stream(receiver, room, end) => {
                    if room.is_none() && end.is_none() {
                        let next = match receiver.try_recv() {
                            Err(TryRecvError::Empty) => {
                                self.shared.queue.while_taking(|| receiver.recv()).map_err(TryRecvError::from)
                            }
                            next => next,
                        };
                        match next {
                            Ok(Chunk::Bytes(next)) => *room = Some(next),
                            Ok(Chunk::End(sums)) => *end = Some(sums),
                            Err(_) => return Err(io::Error::other("the source ended early")),
                        }
                        self.at = (0, 0);
                    }
                    (room.as_ref().map_or(&[], |room| &room.blocks), Some(()))
                }
            };
            let left = blocks.get(self.at.0).map(|block| block.length - self.at.1);
            match (left, stream) {
                (Some(0), _) => self.at = (self.at.0 + 1, 0),
                (Some(_), _) => break,
                (None, None) => return Ok(&[]),
                (None, Some(())) => match &mut self.from {
                    From::Stream(_, _, Some(_)) => return Ok(&[]),
                    From::Stream(_, room, None) => *room = None,
                    From::Blocks(..) => return Ok(&[]),
                },
            }
        }
        let blocks: &[Bytes] = match &self.from {
            From::Blocks(blocks, _) => blocks,
            From::Stream(_, room, _) => room.as_ref().map_or(&[], |room| &room.blocks),
        };
        let block = &blocks[self.at.0];
        Ok(&block.bytes[self.at.1..block.length])
    }
}

impl Read for Outgoing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.shared.is_over() {
            return Err(io::Error::other("stopped"));
        }
        let portions =
            [self.throttle, self.shared.link.as_ref()].into_iter().flatten().map(Throttle::portion);
        // Where the last one took its time the flow is slow, and counts in smaller pieces.
        let piece = if self.last.elapsed() > SLOW { SLOW_SIP } else { SIP };
        self.last = Instant::now();
        let portion = portions.min().unwrap_or(piece).min(piece);
        let front = self.front()?;
        let length = front.len().min(buffer.len()).min(portion);
        buffer[..length].copy_from_slice(&front[..length]);
        self.at.1 += length;
        for throttle in [self.throttle, self.shared.link.as_ref()].into_iter().flatten() {
            throttle.take(length, &self.shared.over);
        }
        self.moved += length as u64;
        self.shared.network.fetch_add(length as u64, Relaxed);
        self.shared.ledger.bytes_moved.fetch_add(length as u64, Relaxed);
        Ok(length)
    }
}

impl Content for Outgoing<'_> {
    fn length(&self) -> u64 {
        self.length
    }

    fn sums(&self) -> Option<PieceSums> {
        match &self.from {
            From::Blocks(_, sums) => Some(*sums),
            From::Stream(_, _, sums) => *sums,
        }
    }

    fn rewind(&mut self) -> bool {
        let again = matches!(self.from, From::Blocks(..));
        if again {
            self.shared.ledger.bytes_again.fetch_add(std::mem::take(&mut self.moved), Relaxed);
            self.at = (0, 0);
        }
        again
    }
}
