//! The network's workers: each has a warm connection, and with it begins, sends, completes and aborts.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::pipeline::pool::Gate;
use tidegate_transfer::throttle::Throttle;

use crate::put::desk::{Bulk, Bytes, Chunk, Piece, Room, Sending};
use crate::put::shared::Shared;
use crate::put::target::{Content, DEFAULT_PART, File, Lane, Md5Sum};
use crate::remote::{Refusal, Why};

/// How long one sleep lasts at most while something may end all.
const NAP: Duration = Duration::from_millis(20);

/// Most bytes handed over at once, so that a rate is kept evenly.
const SIP: usize = 64 << 10;

/// A network worker's life.
pub fn work(shared: &Arc<Shared>, index: u16, gate: &Gate) {
    let throttle = Throttle::new(shared.settings.limits.network);
    let mut lane = match shared.target.lane() {
        Ok(lane) => lane,
        Err(error) => return shared.desk.stop(Some(error)),
    };
    while gate.pass(index) && !shared.is_over() {
        match shared.desk.next_sending(|| gate.is_open(index)) {
            Some(Sending::Begin(file)) => begin(shared, lane.as_mut(), &file),
            Some(Sending::Piece(piece)) => send(shared, lane.as_mut(), piece, throttle.as_ref()),
            Some(Sending::Complete(file)) => complete(shared, lane.as_mut(), &file),
            Some(Sending::Abort(file, id)) => {
                let aborted = again(shared, || lane.abort(&file, &id));
                if let Err(refusal) = aborted {
                    tracing::warn!("what was sent of {} stays there: {}", file.path, refusal.error);
                }
                shared.failed(&file);
            }
            None => {}
        }
    }
}

/// Asks the target what it has, before the first file; tries again as with everything.
pub fn survey(shared: &Shared) -> Result<(), Error> {
    let mut lane = shared.target.lane()?;
    let inhabited = again(shared, || lane.survey()).map_err(|refusal| refusal.error)?;
    shared.inhabited.store(inhabited, Relaxed);
    Ok(())
}

/// Does `what`, again after a pause where that may help.
fn again<T>(shared: &Shared, mut what: impl FnMut() -> Result<T, Refusal>) -> Result<T, Refusal> {
    let mut tries = 0;
    loop {
        let refusal = match what() {
            Err(refusal) if matches!(refusal.why, Why::Broken | Why::Busy) => refusal,
            answer => return answer,
        };
        tries += 1;
        if tries > shared.settings.retries || !rest(shared, &refusal, tries) {
            return Err(refusal);
        }
    }
}

/// Waits before try number `tries`; `false` if all is over meanwhile.
fn rest(shared: &Shared, refusal: &Refusal, tries: u32) -> bool {
    if refusal.why == Why::Busy {
        shared.ceiling.lower(Instant::now(), shared.active.load(Relaxed).max(1));
    }
    let end = Instant::now() + shared.ceiling.pause(tries, refusal.retry_after);
    tracing::debug!("{}; trying again", refusal.error);
    while Instant::now() < end && !shared.is_over() && !shared.settings.interrupt.is_raised() {
        thread::sleep(NAP.min(end.saturating_duration_since(Instant::now())));
    }
    !shared.is_over() && !shared.settings.interrupt.is_raised()
}

fn begin(shared: &Arc<Shared>, lane: &mut dyn Lane, file: &Arc<File>) {
    let compared = file.state.lock().expect("not poisoned").differs;
    if shared.inhabited.load(Relaxed) && !compared {
        match again(shared, || lane.look(file)) {
            Ok(Some(present)) if present.bytes == Some(file.size) => {
                if shared.remembers(file, &present) {
                    return shared.same(file, &present);
                }
                if present.is_comparable(file) {
                    return shared.desk.compare(file, present);
                }
            }
            Ok(_) => {}
            // Whoever may write need not be allowed to look.
            Err(refusal) if refusal.why == Why::Denied && refusal.error.kind == ErrorKind::Denied => {}
            Err(refusal) => return shared.give_up(file, refusal.error),
        }
    }
    if shared.settings.dry {
        return shared.would(file);
    }
    if file.is_multipart() {
        let (id, have) = match again(shared, || lane.begin(file)) {
            Ok(begun) => begun,
            Err(refusal) => return shared.give_up(file, refusal.error),
        };
        let mut state = file.state.lock().expect("not poisoned");
        (state.upload, state.have) = (Some(id), have);
        drop(state);
        shared.desk.read_parts(file, 1..=file.plan.count);
    } else if shared.target.takes_streams() && file.size > DEFAULT_PART.0 {
        shared.desk.read_stream(file);
    } else {
        shared.desk.read_parts(file, [1]);
    }
}

fn send(shared: &Arc<Shared>, lane: &mut dyn Lane, piece: Piece, throttle: Option<&Throttle>) {
    let Piece { file, number, content, tries } = piece;
    let upload = {
        let state = file.state.lock().expect("not poisoned");
        match state.failed {
            Some(_) => Err(()),
            None => Ok(state.upload.clone()),
        }
    };
    let Ok(upload) = upload else { return shared.landed(&file) };
    shared.active.fetch_add(1, Relaxed);
    let mut body = Outgoing::new(shared, &content, file.size, throttle);
    let result = match (&upload, number) {
        (Some(id), 1..) => lane.put_part(&file, id, number, &mut body).map(Ok),
        _ => lane.put(&file, &mut body).map(Err),
    };
    let moved = body.moved;
    let md5 = body.md5();
    shared.active.fetch_sub(1, Relaxed);
    let refusal = match result {
        Ok(Ok(tag)) => return shared.confirmed(&file, number, tag, md5.unwrap_or_default()),
        Ok(Err(stored)) => {
            drop(content);
            file.state.lock().expect("not poisoned").flying -= 1;
            return shared.stored(&file, &stored);
        }
        Err(refusal) => refusal,
    };
    shared.ledger.bytes_again.fetch_add(moved, Relaxed);
    let met = file.state.lock().expect("not poisoned").met.take();
    if let Some(error) = met {
        drop(content);
        return shared.fell(&file, error);
    }
    let tries = tries.max(file.state.lock().expect("not poisoned").tries) + 1;
    let may_help = matches!(refusal.why, Why::Broken | Why::Busy);
    if !may_help || tries > shared.settings.retries {
        drop(content);
        return shared.fell(&file, refusal.error);
    }
    if matches!(content, Bulk::Stream(_)) {
        // The stream is lost; the file is read again.
        drop(content);
        file.state.lock().expect("not poisoned").tries = tries;
        if rest(shared, &refusal, tries) {
            shared.desk.read_stream(&file);
        }
        return shared.landed(&file);
    }
    if rest(shared, &refusal, tries) {
        shared.desk.send(Sending::Piece(Piece { file, number, content, tries }));
    }
}

fn complete(shared: &Arc<Shared>, lane: &mut dyn Lane, file: &Arc<File>) {
    // Nothing may have been written to it between its first part and its last.
    if let Err(error) = shared.source.open(&file.listed, 0..0) {
        return shared.give_up(file, error);
    }
    let (id, parts) = {
        let state = file.state.lock().expect("not poisoned");
        let parts: Option<Vec<_>> = state.confirmed.iter().cloned().collect();
        (state.upload.clone(), parts)
    };
    let (Some(id), Some(parts)) = (id, parts) else {
        return shared.give_up(file, Error::new(ErrorKind::Io, format!("{}: parts are missing", file.path)));
    };
    match again(shared, || lane.complete(file, &id, &parts)) {
        Ok(stored) => shared.stored(file, &stored),
        Err(refusal) => shared.give_up(file, refusal.error),
    }
}

/// A piece's bytes on their way out: counted, and no faster than asked.
struct Outgoing<'a> {
    shared: &'a Shared,
    throttle: Option<&'a Throttle>,
    length: u64,
    moved: u64,
    /// Where the next byte lies: in which block, and where in it.
    at: (usize, usize),
    from: From<'a>,
}

enum From<'a> {
    Blocks(&'a [Bytes], Md5Sum),
    Stream(&'a Receiver<Chunk>, Option<Room>, Option<Md5Sum>),
}

impl<'a> Outgoing<'a> {
    fn new(shared: &'a Shared, content: &'a Bulk, size: u64, throttle: Option<&'a Throttle>) -> Self {
        let (length, from) = match content {
            Bulk::Whole(room, md5) => (room.length(), From::Blocks(&room.blocks, *md5)),
            Bulk::Stream(receiver) => (size, From::Stream(receiver, None, None)),
        };
        Self { shared, throttle, length, moved: 0, at: (0, 0), from }
    }

    /// What is left of the current block; empty at the end.
    fn front(&mut self) -> io::Result<&[u8]> {
        loop {
            let (blocks, stream): (&[Bytes], _) = match &mut self.from {
                From::Blocks(blocks, _) => (blocks, None),
                From::Stream(receiver, room, end) => {
                    if room.is_none() && end.is_none() {
                        match receiver.recv() {
                            Ok(Chunk::Bytes(next)) => *room = Some(next),
                            Ok(Chunk::End(md5)) => *end = Some(md5),
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
        let front = self.front()?;
        let length = front.len().min(buffer.len()).min(SIP);
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

    fn md5(&self) -> Option<Md5Sum> {
        match &self.from {
            From::Blocks(_, md5) => Some(*md5),
            From::Stream(_, _, md5) => *md5,
        }
    }
}
