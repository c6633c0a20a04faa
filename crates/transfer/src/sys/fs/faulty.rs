//! A disk that fills up, whose calls fail, and that loses at a crash what was not synced, for tests of one thread: what
//! others write does not count. Names are kept, as by a file system that journals them; which of them a sync has made
//! durable is known.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, fstat};
use rustix::io::{Errno, pwrite};
use tidegate_control::Rng;

thread_local! {
    static DISK: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// So many bytes reach the medium together.
const SECTOR: usize = 16;

/// What is asked of a disk and may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Bytes are to be written.
    Write,
    /// What was written is to be made durable.
    Sync,
    /// A file is to get a name.
    Rename,
}

/// Whether a call fails: told what is called, and the name of the file, or the one that it is to get.
type Faults = Box<dyn FnMut(Call, &str) -> bool>;

#[derive(Default)]
struct State {
    /// Bytes that still fit; `None` for any number.
    room: Option<usize>,
    /// Which calls fail; `None` for none.
    faults: Option<Faults>,
    /// By inode: the file, and what of it is durable.
    unsynced: BTreeMap<u64, (OwnedFd, Vec<u8>)>,
    /// By inode of a directory: names that it was given since it was synced.
    names: BTreeMap<u64, BTreeSet<String>>,
}

/// The disk beneath what this thread writes, until dropped.
#[derive(Debug)]
pub(crate) struct Disk(());

/// Puts a disk beneath what this thread writes, on which everything is durable so far.
pub(crate) fn disk() -> Disk {
    DISK.set(Some(State::default()));
    Disk(())
}

/// Runs `test` on a disk of its own for each seed, with what draws a number below another: so many seeds, or in the long
/// mode `long`.
pub(crate) fn each_seed(seeds: u64, long: u64, test: impl Fn(&Disk, &mut dyn FnMut(usize) -> usize)) {
    let seeds = if std::env::var_os("TIDEGATE_LONG").is_some() { long } else { seeds };
    for seed in 0..seeds {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        test(&disk(), &mut |below| (rng.next_u64() % below as u64) as usize);
    }
}

impl Disk {
    /// Lets `room` more bytes be written, and no more; `None` lets any number.
    pub(crate) fn set_room(&self, room: Option<usize>) {
        with(|state| state.room = room);
    }

    /// Lets the calls fail with `EIO` that `fails` names, which must not use the disk itself.
    ///
    /// What cannot be synced is lost, and the next sync of the file knows nothing of it: so Linux does.
    pub(crate) fn set_faults(&self, fails: impl FnMut(Call, &str) -> bool + 'static) {
        with(|state| state.faults = Some(Box::new(fails)));
    }

    /// Names that were given, and that no sync of their directory has made durable.
    pub(crate) fn unsynced_names(&self) -> Vec<String> {
        with(|state| state.names.values().flatten().cloned().collect()).unwrap_or_default()
    }

    /// Lets no call fail from now on.
    pub(crate) fn heal(&self) {
        with(|state| state.faults = None);
    }

    /// Power fails: of what was not synced some sectors are on the medium and others are not, as `draw` has it, which
    /// answers with numbers below the one given.
    pub fn crash(&self, mut draw: impl FnMut(usize) -> usize) {
        let lost = with(|state| std::mem::take(&mut state.unsynced)).unwrap_or_default();
        for (file, durable) in lost.into_values() {
            let written = content(file.as_fd());
            let (least, most) = (durable.len().min(written.len()), durable.len().max(written.len()));
            let mut left = vec![0; least + draw(most - least + 1)];
            for at in (0..left.len()).step_by(SECTOR) {
                let from = if draw(2) == 0 { &durable } else { &written };
                for (to, byte) in left[at..].iter_mut().take(SECTOR).zip(from.iter().skip(at)) {
                    *to = *byte;
                }
            }
            replace(&file, &left);
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        DISK.set(None);
    }
}

fn with<T>(act: impl FnOnce(&mut State) -> T) -> Option<T> {
    DISK.with_borrow_mut(|state| state.as_mut().map(act))
}

fn inode(file: BorrowedFd<'_>) -> u64 {
    fstat(file).expect("an open file").st_ino
}

/// The same file, opened anew: a copy of the descriptor would hold its locks.
fn reopened(file: BorrowedFd<'_>) -> OwnedFd {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).expect("a file that may be written")
}

fn content(file: BorrowedFd<'_>) -> Vec<u8> {
    let mut bytes = vec![0; fstat(file).expect("an open file").st_size as usize];
    let length = super::read_at(file, &mut bytes, 0).expect("read");
    bytes.truncate(length);
    bytes
}

fn replace(file: &OwnedFd, content: &[u8]) {
    rustix::fs::ftruncate(file, 0).expect("truncated");
    assert_eq!(pwrite(file, content, 0), Ok(content.len()));
}

/// What the file or directory is called now.
fn name(file: BorrowedFd<'_>) -> String {
    let path = crate::sys::confined::path_of(&file).expect("an open file");
    String::from_utf8_lossy(path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()).into_owned()
}

fn fails(call: Call, name: impl FnOnce() -> String) -> bool {
    with(|state| state.faults.as_mut().is_some_and(|faults| faults(call, &name()))).unwrap_or(false)
}

/// As much of `data` as fits.
pub(super) fn before_write<'d>(file: BorrowedFd<'_>, data: &'d [u8]) -> Result<&'d [u8], Errno> {
    before_change(file);
    if fails(Call::Write, || name(file)) {
        return Err(Errno::IO);
    }
    let taken = with(|state| {
        let taken = state.room.map_or(data.len(), |room| room.min(data.len()));
        state.room = state.room.map(|room| room - taken);
        taken
    });
    match taken {
        Some(0) if !data.is_empty() => Err(Errno::NOSPC),
        taken => Ok(&data[..taken.unwrap_or(data.len())]),
    }
}

/// Remembers what is durable of `file`, if that is all of it.
pub(super) fn before_change(file: BorrowedFd<'_>) {
    with(|state| {
        state.unsynced.entry(inode(file)).or_insert_with(|| (reopened(file), content(file)));
    });
}

/// Takes what is in `file` for durable; `false` if the real disk is to see to that.
pub(super) fn synced(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    let fails = fails(Call::Sync, || name(file));
    let unsynced = with(|state| state.unsynced.remove(&inode(file))).flatten();
    with(|state| state.names.remove(&inode(file)).filter(|_| !fails));
    if fails {
        // Its length is known already, and where its bytes are lost there is nothing.
        if let Some((file, mut durable)) = unsynced {
            durable.resize(content(file.as_fd()).len(), 0);
            replace(&file, &durable);
        }
        return Err(Errno::IO);
    }
    Ok(unsynced.is_some())
}

/// The directory `directory` has something called `name`.
pub(super) fn named(directory: BorrowedFd<'_>, name: &str) {
    with(|state| state.names.entry(inode(directory)).or_default().insert(name.to_owned()));
}

/// Fails if nothing can be called `name`.
pub(super) fn before_rename(name: &str) -> Result<(), Errno> {
    match fails(Call::Rename, || name.to_owned()) {
        true => Err(Errno::IO),
        false => Ok(()),
    }
}
