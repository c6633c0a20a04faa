//! A file of checksummed records that survives being cut off anywhere.
//!
//! ```text
//! +------------------+ +--------------+---------------+-------------------+
//! | magic (8 bytes)  | | length (u32) | crc32c (u32)  | record (postcard) |  …
//! +------------------+ +--------------+---------------+-------------------+
//! ```
//! Once records are durable a sync point follows them: a length of 2³² - 1, the crc32c of what is left of it,
//! and where in the file it stands (u64). What is cut off or damaged behind the last sync point is the torn end
//! of a write: reading stops there, and the rest is dropped before anything is appended. Damage before it voids
//! the log, since a later record may say that an earlier one holds no longer. A file that is no log at all is
//! moved aside, never trusted.

use std::marker::PhantomData;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::path::WORK_DIR;
use crate::sys::confined::{Root, path_of};
use crate::sys::fs::{self, FileType, Mode, OFlags, fstat};
use crate::sys::lock::Lock;
use crate::text::show;

/// Longest record; anything longer is damage.
const MAX_RECORD: usize = 1 << 20;

/// How much of a log is in memory at one time, but for a longer record.
const WINDOW: usize = 64 << 10;

/// What stands for the length of a sync point, and how long one is.
const SYNC_POINT: [u8; 4] = [0xff; 4];
const SYNC_POINT_LENGTH: usize = 16;

/// What a log that is opened shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay<R> {
    /// So many bytes of records follow at most.
    Length(u64),
    /// The next record.
    Record(R),
    /// Nothing of what was shown is to be used.
    Void,
}

/// An open log of records of type `R`.
#[derive(Debug)]
pub struct RecordLog<R> {
    file: OwnedFd,
    name: String,
    /// What it is called for people.
    shown: String,
    /// Where the last whole record or sync point ends.
    end: u64,
    synced: bool,
    /// Why records may be missing from the medium for good: the system forgets what it could not write.
    damaged: Option<Errno>,
    lock: Lock,
    records: PhantomData<R>,
}

/// A log that nobody else has now, and that was not read yet.
#[derive(Debug)]
pub(crate) struct LockedLog {
    file: OwnedFd,
    name: String,
    shown: String,
    lock: Lock,
}

/// What the log `name` in `directory` is called for people: beneath the destination, where it lies in one.
fn shown_in(directory: &Root, name: &str) -> String {
    let path = path_of(directory).unwrap_or_default();
    let names: Vec<&[u8]> = path.split(|&b| b == b'/').collect();
    let inner = names.iter().rposition(|name| *name == WORK_DIR).map_or(&[][..], |at| &names[at..]);
    let all = [inner, &[name.as_bytes()]].concat();
    show(&all.join(&b'/')).into_owned()
}

impl LockedLog {
    /// Opens or creates the log `name` in `directory`. Fails with `Busy` while another process holds it.
    pub fn take(directory: &Root, name: &str) -> Result<Self> {
        let shown = shown_in(directory, name);
        let failed = |error: Errno| Error::io("open", shown.as_bytes(), error);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK;
        let file = directory.open_beneath(name.as_bytes(), flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        check_ours(directory, &file, name)?;
        match Lock::take(directory, name, &file) {
            Ok(Some(lock)) => Ok(Self { file, name: name.to_owned(), shown, lock }),
            Ok(None) => Err(Error::new(
                ErrorKind::Busy,
                format!("{name} is in use: another transfer with this destination is running"),
            )),
            Err(error) => Err(Error::io("lock", shown.as_bytes(), error)),
        }
    }

    /// Shows its sound records, and leaves it ready for appending.
    pub fn read<R>(
        self,
        directory: &Root,
        magic: &[u8; 8],
        show: impl FnMut(Replay<R>),
    ) -> Result<RecordLog<R>>
    where
        R: Serialize + for<'a> Deserialize<'a>,
    {
        let Self { mut file, name, shown, mut lock } = self;
        let failed = |error: Errno| Error::io("open", shown.as_bytes(), error);
        let start = magic.len() as u64;
        let head = Walk::new(&file, 0).peek(magic.len()).map_err(failed)?.to_vec();
        let mut sound = 0;
        if head == magic {
            sound = show_sound(&file, &name, start, show).map_err(failed)?;
        } else if !magic.starts_with(&head) {
            tracing::warn!("{name} is not a log of ours or of another version: moved aside to {name}.bad");
            directory.rename(name.as_bytes(), directory, format!("{name}.bad").as_bytes()).map_err(failed)?;
            drop(lock);
            Self { file, lock, .. } = Self::take(directory, &name)?;
        }
        fs::ftruncate(&file, sound).map_err(failed)?;
        if sound == 0 {
            fs::write_at(&file, magic, 0).map_err(failed)?;
            if !head.is_empty() {
                // What is not used now must not be back after a crash.
                fs::fdatasync(&file).map_err(failed)?;
            }
        }
        let end = sound.max(start);
        Ok(RecordLog { file, name, shown, end, synced: false, damaged: None, lock, records: PhantomData })
    }
}

impl<R: Serialize + for<'a> Deserialize<'a>> RecordLog<R> {
    /// Opens or creates the log `name` in `directory`, shows its sound records, and
    /// leaves the log ready for appending. Fails with `Busy` while another process holds it.
    pub fn open(directory: &Root, name: &str, magic: &[u8; 8], show: impl FnMut(Replay<R>)) -> Result<Self> {
        LockedLog::take(directory, name)?.read(directory, magic, show)
    }

    /// Shows each sound record of the log `name` in `directory`, if there is one, and leaves it as it is. Another process
    /// may be writing to it: what it has not written whole is not seen.
    pub fn read(directory: &Root, name: &str, magic: &[u8; 8], show: impl FnMut(Replay<R>)) -> Result<()> {
        let failed = |error: Errno| Error::io("open", name.as_bytes(), error);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let file = match directory.open_beneath(name.as_bytes(), flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(()),
            file => file.map_err(failed)?,
        };
        check_ours(directory, &file, name)?;
        if Walk::new(&file, 0).peek(magic.len()).map_err(failed)? == magic {
            show_sound(&file, name, magic.len() as u64, show).map_err(failed)?;
        }
        Ok(())
    }

    /// Appends records; they are durable after the next [`sync`](Self::sync).
    pub fn append<'r>(&mut self, records: impl IntoIterator<Item = &'r R>) -> Result<()>
    where
        R: 'r,
    {
        let bytes = encode(records);
        if !bytes.is_empty() {
            self.write(&bytes)?;
            self.synced = false;
        }
        Ok(())
    }

    /// # Errors
    /// Another process has the log by now.
    pub(crate) fn check_lock(&self) -> Result<()> {
        if !self.lock.is_lost() {
            return Ok(());
        }
        let why = format!(
            "{} was taken over: this process did not run for a while, and another one goes on here",
            self.name
        );
        Err(Error::new(ErrorKind::Busy, why))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.check_lock()?;
        if let Err(error) = fs::write_at(&self.file, bytes, self.end) {
            // Records behind a part of one would never be read.
            let _ = fs::ftruncate(&self.file, self.end);
            return Err(Error::io("write", self.shown.as_bytes(), error));
        }
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Makes what was appended durable, and says so in the log. Where that failed once it fails from then on: a sync
    /// point behind a hole would void the records before it.
    pub fn sync(&mut self) -> Result<()> {
        if self.synced {
            return Ok(());
        }
        if let Some(error) = self.damaged.or_else(|| fs::fdatasync(&self.file).err()) {
            self.damaged = Some(error);
            return Err(Error::io("write", self.shown.as_bytes(), error));
        }
        self.write(&sync_point(self.end))?;
        self.synced = true;
        Ok(())
    }

    /// Whether all that was appended is durable.
    #[cfg(test)]
    pub(crate) fn is_synced(&self) -> bool {
        self.synced
    }

    /// Replaces the log by one that holds just `records`.
    pub fn rewrite(&mut self, directory: &Root, magic: &[u8; 8], records: &[R]) -> Result<()> {
        let failed = |error: Errno| Error::io("write", self.shown.as_bytes(), error);
        let fresh = format!("{}.new", self.name);
        let _ = directory.remove(fresh.as_bytes());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file =
            directory.open_beneath(fresh.as_bytes(), flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        self.lock.extend(&file).map_err(failed)?;
        let bytes = [&magic[..], &encode(records)].concat();
        fs::write_at(&file, &bytes, 0).map_err(failed)?;
        fs::fdatasync(&file).map_err(failed)?;
        directory.rename(fresh.as_bytes(), directory, self.name.as_bytes()).map_err(failed)?;
        self.file = file;
        self.end = bytes.len() as u64;
        (self.synced, self.damaged) = (false, None);
        Ok(())
    }

    /// Shows every record again, the last one first.
    pub(crate) fn replay_back(&self, magic: &[u8; 8], mut on_record: impl FnMut(R)) -> Result<()> {
        let failed = |error: Errno| Error::io("read", self.shown.as_bytes(), error);
        // Where pieces begin that are small enough to be turned around in memory.
        let mut pieces = Vec::new();
        let mut walk = Walk::new(&self.file, magic.len() as u64);
        loop {
            if pieces.last().is_none_or(|last| walk.at - last >= WINDOW as u64) {
                pieces.push(walk.at);
            }
            if walk.next::<R>().map_err(failed)?.is_none() {
                break;
            }
        }
        let mut end = walk.at;
        for start in pieces.into_iter().rev() {
            let mut walk = Walk::new(&self.file, start);
            let mut records = Vec::new();
            while walk.at < end
                && let Some(step) = walk.next().map_err(failed)?
            {
                if let Step::Record(record) = step {
                    records.push(record);
                }
            }
            records.into_iter().rev().for_each(&mut on_record);
            end = start;
        }
        Ok(())
    }
}

/// What is written to a log that is not ours might be written to somebody else's file, and what it says be somebody
/// else's word.
pub(crate) fn check_ours(directory: &Root, file: &OwnedFd, name: &str) -> Result<()> {
    let failed = |error: Errno| Error::io("open", name.as_bytes(), error);
    let stat = fstat(file).map_err(failed)?;
    let owner = fstat(directory).map_err(failed)?.st_uid;
    if FileType::from_raw_mode(stat.st_mode).is_file() && stat.st_nlink == 1 && stat.st_uid == owner {
        return Ok(());
    }
    let why = format!(
        "{name} is no log of ours: it is no regular file, has another name, or belongs to somebody else; remove it"
    );
    Err(Error::new(ErrorKind::Denied, why))
}

/// Shows each sound record from `start` on; answers with where the last of them ends, with 0 if none is to be used.
fn show_sound<R: for<'a> Deserialize<'a>>(
    file: &OwnedFd,
    name: &str,
    start: u64,
    mut show: impl FnMut(Replay<R>),
) -> Result<u64, Errno> {
    show(Replay::Length((fstat(file)?.st_size as u64).saturating_sub(start)));
    let sound = Walk::new(file, start).each(|record| show(Replay::Record(record)))?;
    if Walk::new(file, sound).finds_sync_point()? {
        tracing::warn!("{name} is damaged before its last sync point: nothing of it is used");
        show(Replay::Void);
        return Ok(0);
    }
    Ok(sound)
}

fn encode<'r, R: Serialize + 'r>(records: impl IntoIterator<Item = &'r R>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        let body = postcard::to_stdvec(record).expect("records are plain data");
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&crc_fast::crc32_iscsi(&body).to_le_bytes());
        bytes.extend_from_slice(&body);
    }
    bytes
}

/// A sync point that stands at `at`.
fn sync_point(at: u64) -> [u8; SYNC_POINT_LENGTH] {
    let place = at.to_le_bytes();
    let mut point = [0; SYNC_POINT_LENGTH];
    point[..4].copy_from_slice(&SYNC_POINT);
    point[4..8].copy_from_slice(&crc_fast::crc32_iscsi(&place).to_le_bytes());
    point[8..].copy_from_slice(&place);
    point
}

/// Whether a sync point stands anywhere in `bytes`, which may have moved.
fn has_sync_point(bytes: &[u8]) -> bool {
    bytes.windows(SYNC_POINT_LENGTH).any(|window| {
        window.starts_with(&SYNC_POINT) && crc_fast::crc32_iscsi(&window[8..]).to_le_bytes() == window[4..8]
    })
}

/// Reads a log a window at a time, however long it is.
struct Walk<'f> {
    file: &'f OwnedFd,
    /// Where the next record begins.
    at: u64,
    window: Vec<u8>,
    window_at: u64,
}

/// What stands in a log.
enum Step<R> {
    Record(R),
    SyncPoint,
}

impl<'f> Walk<'f> {
    fn new(file: &'f OwnedFd, at: u64) -> Self {
        Self { file, at, window: Vec::new(), window_at: at }
    }

    /// The next `length` bytes, or as many as there are.
    fn peek(&mut self, length: usize) -> Result<&[u8], Errno> {
        let mut ahead = (self.at - self.window_at) as usize;
        if self.window.len().saturating_sub(ahead) < length {
            self.window.drain(..ahead.min(self.window.len()));
            (self.window_at, ahead) = (self.at, 0);
            let kept = self.window.len();
            self.window.resize(length.max(WINDOW), 0);
            let read = fs::read_at(self.file, &mut self.window[kept..], self.window_at + kept as u64)?;
            self.window.truncate(kept + read);
        }
        Ok(&self.window[ahead..self.window.len().min(ahead + length)])
    }

    /// What is next; `None` where nothing sound follows.
    fn next<R: for<'a> Deserialize<'a>>(&mut self) -> Result<Option<Step<R>>, Errno> {
        let at = self.at;
        let head = self.peek(SYNC_POINT_LENGTH)?;
        if head.starts_with(&SYNC_POINT) && head == sync_point(at) {
            self.at += SYNC_POINT_LENGTH as u64;
            return Ok(Some(Step::SyncPoint));
        }
        let (Some(length), Some(checksum)) = (number(head, 0), number(head, 4)) else { return Ok(None) };
        let whole = 8 + length as usize;
        if whole > 8 + MAX_RECORD {
            return Ok(None);
        }
        let Some(body) = self.peek(whole)?.get(8..whole) else { return Ok(None) };
        if crc_fast::crc32_iscsi(body) != checksum {
            return Ok(None);
        }
        let Ok(record) = postcard::from_bytes(body) else { return Ok(None) };
        self.at += whole as u64;
        Ok(Some(Step::Record(record)))
    }

    /// Shows each record as far as they are sound; answers with where that ends.
    fn each<R: for<'a> Deserialize<'a>>(mut self, mut on_record: impl FnMut(R)) -> Result<u64, Errno> {
        while let Some(step) = self.next()? {
            if let Step::Record(record) = step {
                on_record(record);
            }
        }
        Ok(self.at)
    }

    /// Whether a sync point stands anywhere from here on.
    fn finds_sync_point(mut self) -> Result<bool, Errno> {
        loop {
            let window = self.peek(WINDOW)?;
            let length = window.len();
            if has_sync_point(window) {
                return Ok(true);
            }
            if length < WINDOW {
                return Ok(false);
            }
            self.at += (length - SYNC_POINT_LENGTH + 1) as u64;
        }
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sys::confined::scratch;
    use crate::sys::fs::faulty::{self, Call};
    use crate::sys::thread;

    const MAGIC: &[u8; 8] = b"TGTEST01";

    /// What a reader has made of what was shown.
    fn take(seen: &mut Vec<u64>, shown: Replay<u64>) {
        match shown {
            Replay::Length(_) => assert!(seen.is_empty()),
            Replay::Record(record) => seen.push(record),
            Replay::Void => seen.clear(),
        }
    }

    fn open(root: &Root) -> (RecordLog<u64>, Vec<u64>) {
        loop {
            let mut seen = Vec::new();
            match RecordLog::open(root, "log", MAGIC, |shown| take(&mut seen, shown)) {
                // A process that another test starts has our lock for a moment.
                Err(error) if error.kind == ErrorKind::Busy => thread::sleep(Duration::from_millis(1)),
                opened => return (opened.expect("opened"), seen),
            }
        }
    }

    fn read(root: &Root) -> Vec<u64> {
        open(root).1
    }

    #[test]
    fn a_log_cut_off_anywhere_keeps_its_whole_records() {
        let (directory, root) = scratch();
        let path = directory.path().join("log");
        let numbers = [1u64, 300, 70_000, u64::MAX];
        let mut ends = vec![8];
        {
            let mut log = open(&root).0;
            for number in &numbers {
                log.append([number]).expect("appended");
                ends.push(std::fs::metadata(&path).expect("there").len() as usize);
            }
            assert!(RecordLog::<u64>::open(&root, "log", MAGIC, |_| {}).is_err(), "it is locked");
        }
        let whole = std::fs::read(&path).expect("read");
        for cut in 0..=whole.len() {
            for tail in [&b""[..], b"garbage", &[0; 40]] {
                std::fs::write(&path, [&whole[..cut], tail].concat()).expect("written");
                let kept = ends.iter().filter(|&&end| end <= cut).count().saturating_sub(1);
                if cut >= 8 || tail.is_empty() {
                    assert_eq!(read(&root), numbers[..kept], "cut at {cut}");
                    // And appending after the damage works.
                    assert_eq!(read(&root), numbers[..kept]);
                }
            }
        }
        for flipped in 8..whole.len() {
            let mut bytes = whole.clone();
            bytes[flipped] ^= 0x40;
            std::fs::write(&path, &bytes).expect("written");
            let seen = read(&root);
            assert!(numbers.starts_with(&seen) && seen.len() < numbers.len(), "flipped at {flipped}");
        }
    }

    #[test]
    fn damage_before_the_last_sync_point_voids_the_log_and_a_torn_end_does_not() {
        let (directory, root) = scratch();
        let path = directory.path().join("log");
        let (durable, end) = {
            let mut log = open(&root).0;
            log.append([&1, &300]).expect("appended");
            log.sync().expect("synced");
            log.append([&70_000]).expect("appended");
            log.sync().expect("synced");
            log.sync().expect("once is enough");
            let durable = log.end as usize;
            log.append([&5, &6]).expect("appended");
            (durable, log.end as usize)
        };
        let whole = std::fs::read(&path).expect("read");
        assert_eq!(read(&root), [1, 300, 70_000, 5, 6]);
        assert_eq!(whole.len(), end);
        for flipped in 8..end {
            let mut bytes = whole.clone();
            bytes[flipped] ^= 0x40;
            std::fs::write(&path, &bytes).expect("written");
            let seen = read(&root);
            match flipped < durable - SYNC_POINT_LENGTH {
                true => assert!(seen.is_empty(), "flipped at {flipped}: {seen:?}"),
                false => {
                    assert!(seen.starts_with(&[1, 300, 70_000]) && seen.len() < 5, "{flipped}: {seen:?}");
                }
            }
        }
        // Bytes that went missing in between.
        std::fs::write(&path, [&whole[..9], &whole[12..]].concat()).expect("written");
        assert!(read(&root).is_empty());
        // And what is written after the damage is read again.
        let mut log = open(&root).0;
        log.append([&9]).expect("appended");
        drop(log);
        assert_eq!(read(&root), [9]);
    }

    #[test]
    fn a_log_that_is_only_looked_at_stays_as_it_is() {
        let (directory, root) = scratch();
        let path = directory.path().join("log");
        let look = || {
            let mut seen = Vec::new();
            RecordLog::read(&root, "log", MAGIC, |shown| take(&mut seen, shown)).expect("read");
            seen
        };
        assert!(look().is_empty() && !path.exists());
        let mut log = open(&root).0;
        log.append([&1, &300]).expect("appended");
        assert_eq!(look(), [1, 300], "while another has it");
        drop(log);
        let whole = std::fs::read(&path).expect("read");
        for (bytes, seen) in [(&whole[..whole.len() - 1], &[1][..]), (b"nothing of ours", &[])] {
            std::fs::write(&path, bytes).expect("written");
            assert_eq!(look(), seen);
            assert_eq!(std::fs::read(&path).expect("read"), bytes);
        }
        assert_eq!(std::fs::read_dir(directory.path()).expect("listed").count(), 1);
    }

    #[test]
    fn a_log_longer_than_what_is_read_at_once_is_read_both_ways() {
        let (directory, root) = scratch();
        let path = directory.path().join("log");
        let numbers: Vec<u64> = (0..40_000).collect();
        {
            let mut log = open(&root).0;
            for some in numbers.chunks(900) {
                log.append(some).expect("appended");
                log.sync().expect("synced");
            }
            let mut back = Vec::new();
            log.replay_back(MAGIC, |record| back.push(record)).expect("read");
            assert!(back.iter().rev().eq(&numbers));
            // Where it goes on is as before.
            log.append([&7]).expect("appended");
        }
        let whole = std::fs::read(&path).expect("read");
        assert!(whole.len() > 4 * WINDOW);
        assert!(read(&root).into_iter().eq(numbers.iter().copied().chain([7])));
        // Damage far before the last sync point is noticed also from there.
        for flipped in [100, WINDOW, 2 * WINDOW + 1] {
            let mut bytes = whole.clone();
            bytes[flipped] ^= 1;
            std::fs::write(&path, &bytes).expect("written");
            assert!(read(&root).is_empty(), "flipped at {flipped}");
        }
    }

    #[test]
    fn a_foreign_file_is_moved_aside() {
        let (directory, root) = scratch();
        std::fs::write(directory.path().join("log"), "somebody else's data").expect("written");
        assert!(read(&root).is_empty());
        assert!(directory.path().join("log.bad").exists());
    }

    /// One run of a log on `disk` after another, in which calls fail, each ended by a crash; `draw` chooses.
    fn crashes(disk: &faulty::Disk, draw: &mut dyn FnMut(usize) -> usize) {
        let (_directory, root) = scratch();
        let (mut appended, mut next) = (Vec::new(), 0);
        for _ in 0..4 {
            let mut log = open(&root).0;
            let mut durable = appended.len();
            for _ in 0..draw(12) {
                let failing = [Call::Write, Call::Sync, Call::Rename].get(draw(12)).copied();
                disk.set_faults(move |call, _| Some(call) == failing);
                let done = match draw(8) {
                    0..4 => {
                        let done = log.append([&next]);
                        if done.is_ok() {
                            appended.push(next);
                        }
                        next += 1 << draw(40);
                        done
                    }
                    4 => {
                        let kept = appended[draw(appended.len() + 1)..].to_vec();
                        log.rewrite(&root, MAGIC, &kept).map(|()| {
                            durable = kept.len();
                            appended = kept;
                        })
                    }
                    _ => log.sync().map(|()| durable = appended.len()),
                };
                disk.heal();
                if let Err(error) = done {
                    assert_eq!(error.kind, ErrorKind::Io, "{error}");
                }
            }
            drop(log);
            disk.crash(&mut *draw);
            let seen = read(&root);
            assert!(seen.len() >= durable, "{seen:?} of {appended:?}, {durable} of them durable");
            assert_eq!(seen, appended[..seen.len()]);
            appended = seen;
        }
    }

    #[test]
    fn what_was_synced_survives_any_crash() {
        faulty::each_seed(60, 3000, crashes);
    }

    #[test]
    fn a_full_disk_costs_what_did_not_fit_and_no_more() {
        let (_directory, root) = scratch();
        let disk = faulty::disk();
        let mut log = open(&root).0;
        log.append([&1]).expect("appended");
        // Part of a record fits: it must not stay.
        disk.set_room(Some(5));
        assert_eq!(log.append([&2]).expect_err("full").kind, ErrorKind::NoSpace);
        assert_eq!(log.sync().expect_err("full").kind, ErrorKind::NoSpace);
        disk.set_room(None);
        log.append([&3]).expect("there is room again");
        drop(log);
        assert_eq!(read(&root), [1, 3]);
    }
}
