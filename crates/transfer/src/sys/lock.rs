//! Locks that end with the process that holds them: the kernel's, or owner files where a file system has none (Lustre without
//! `-o flock`, NFS without its daemon).
//!
//! An owner file says which process of which host has the lock, and is touched while that runs. Whoever finds one takes it
//! over if its process is gone for certain, which the same host knows at once; of another host's it is believed once nobody
//! has touched it for [`EXPIRY`].

use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Once, Weak};
use std::time::Duration;

use rustix::fs::{
    FlockOperation, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, flock, fstat, futimens,
};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::confined::{Root, path_of};
use super::fs::{private_directory, read_at};
use super::sync::{Mutex, OnceLock};
use super::{clock, host, random, thread};
use crate::error::plain;
use crate::path::WORK_DIR;
use crate::text::show;

/// How long an owner that cannot be asked for is believed to live after it touched its file.
pub const EXPIRY: Duration = Duration::from_secs(120);

/// How often owners touch their files.
const TOUCH: Duration = Duration::from_secs(10);

/// How long a directory is waited for whose owner does a moment's work, and how often it is looked at.
const MOMENT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(10);

/// How often it is tried while owners come and go.
const ATTEMPTS: usize = 100;

/// Longest owner file that is read.
const MAX_OWNER: usize = 4096;

/// A lock, until dropped.
#[derive(Debug)]
pub struct Lock(Kind);

#[derive(Debug)]
enum Kind {
    /// It goes with the file that it is of.
    Kernel,
    Owner(HeldFile),
}

impl Lock {
    /// Takes the lock of `file`, which is called `name` in `directory`; `None` while another has it.
    pub fn take(directory: &Root, name: &str, file: &impl AsFd) -> Result<Option<Self>, Errno> {
        match lock(file, FlockOperation::NonBlockingLockExclusive) {
            // Another host may see no locks here.
            Ok(()) if judge(directory, &owner_name(name))? == Judgement::Held => {
                let _ = flock(file, FlockOperation::Unlock);
                Ok(None)
            }
            Ok(()) => Ok(Some(Self(Kind::Kernel))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) if knows_none(error) => {
                say_once(directory, error);
                Ok(HeldFile::take(directory, name)?.map(|held| Self(Kind::Owner(held))))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether nobody has the lock that [`take`](Self::take) takes. Nothing is changed where the owner can be asked for.
    pub fn is_free(directory: &Root, name: &str, file: &impl AsFd) -> Result<bool, Errno> {
        match lock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => _ = flock(file, FlockOperation::Unlock),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(error) if knows_none(error) => {}
            Err(error) => return Err(error),
        }
        judge(directory, &owner_name(name)).map(|owner| owner != Judgement::Held)
    }

    /// Has the lock be that of `file`, too, which nobody else has and which gets the other's name.
    pub fn extend(&self, file: &impl AsFd) -> Result<(), Errno> {
        match self.0 {
            Kind::Kernel => lock(file, FlockOperation::NonBlockingLockExclusive),
            Kind::Owner(_) => Ok(()),
        }
    }

    /// Whether another process has taken it over, for whom this one seemed to be gone.
    pub fn is_lost(&self) -> bool {
        matches!(&self.0, Kind::Owner(held) if held.0.lost.load(Relaxed))
    }

    /// Whether taking it changed the directory.
    pub(crate) fn is_owner_file(&self) -> bool {
        matches!(self.0, Kind::Owner(_))
    }
}

/// A directory that no other process holds.
#[derive(Debug)]
pub(crate) struct HeldDirectory {
    _directory: Root,
    _owner: Option<HeldFile>,
}

/// Waits until no other process holds `directory`, which is made if need be; it is held until what is answered is
/// dropped. For a moment's work: who holds it longer is not waited for.
pub(crate) fn hold_directory(directory: &Path) -> std::io::Result<HeldDirectory> {
    private_directory(directory)?;
    let held = Root::open(directory.as_os_str().as_bytes())?;
    let mut owner = None;
    if lock(&held, FlockOperation::LockExclusive).is_err() {
        let since = clock::Instant::now();
        owner = loop {
            match HeldFile::take(&held, "directory") {
                Ok(None) if since.elapsed() < MOMENT => thread::sleep(LOOK),
                // Where nothing can be written either, nothing can be locked.
                taken => break taken.ok().flatten(),
            }
        };
    }
    Ok(HeldDirectory { _directory: held, _owner: owner })
}

fn lock(file: &impl AsFd, how: FlockOperation) -> Result<(), Errno> {
    #[cfg(test)]
    if tests::NO_LOCKS.get() {
        return Err(Errno::NOSYS);
    }
    loop {
        match flock(file, how) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Whether that is how a file system says that it has no locks.
fn knows_none(error: Errno) -> bool {
    matches!(error, Errno::NOSYS | Errno::NOLCK | Errno::OPNOTSUPP)
}

fn say_once(directory: &Root, error: Errno) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let place = path_of(directory).unwrap_or_default();
        // Where people know it.
        let work = [b"/", WORK_DIR, b"/"].concat();
        let end = place.windows(work.len()).position(|part| part == work).unwrap_or(place.len());
        tracing::warn!(
            "the file system of {} has no locks ({}): owner files take their place, and what a host held that is lost is free after {} s",
            show(&place[..end]),
            plain(&error.into()),
            EXPIRY.as_secs()
        );
    });
}

/// An owner file of ours, which goes when this does.
#[derive(Debug)]
struct HeldFile(Arc<OwnerFile>);

/// A file that says who has a lock.
#[derive(Debug)]
struct OwnerFile {
    directory: Root,
    name: String,
    file: OwnedFd,
    lost: AtomicBool,
}

fn owner_name(name: &str) -> String {
    format!("owner-{name}")
}

impl HeldFile {
    /// Takes the lock `name` of `directory`; `None` while another has it.
    fn take(directory: &Root, name: &str) -> Result<Option<Self>, Errno> {
        let name = owner_name(name);
        let next = format!("{name}.next");
        for _ in 0..ATTEMPTS {
            match write_owner(directory, &name) {
                Err(Errno::EXIST) => {}
                made => return made.and_then(|file| Self::keep(directory, name, file)).map(Some),
            }
            let found = Owner::read(directory, &name);
            match judge(directory, &name)? {
                Judgement::None => continue,
                Judgement::Held => return Ok(None),
                Judgement::Gone => {}
            }
            // One of those that find it replaces it, in one step: at no time there is none.
            let file = match write_owner(directory, &next) {
                Err(Errno::EXIST) => {
                    if judge(directory, &next)? == Judgement::Gone {
                        let _ = directory.remove(next.as_bytes());
                    }
                    return Ok(None);
                }
                made => made?,
            };
            if Owner::read(directory, &name) == found {
                directory.rename(next.as_bytes(), directory, name.as_bytes())?;
                return Self::keep(directory, name, file).map(Some);
            }
            directory.remove(next.as_bytes())?;
        }
        // Others come and go, one after the other.
        Ok(None)
    }

    fn keep(directory: &Root, name: String, file: OwnedFd) -> Result<Self, Errno> {
        let directory = directory.dir(b"")?;
        let owner = Arc::new(OwnerFile { directory, name, file, lost: AtomicBool::new(false) });
        keep_touched(&owner);
        Ok(Self(owner))
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        if self.0.is_there() == Some(true) {
            let _ = self.0.directory.remove(self.0.name.as_bytes());
        }
    }
}

impl OwnerFile {
    /// Whether the file of that name is still this one; `None` where that cannot be told.
    fn is_there(&self) -> Option<bool> {
        let ours = fstat(&self.file).ok()?;
        match self.directory.stat(self.name.as_bytes()) {
            Ok(there) => Some(number(&there) == number(&ours)),
            Err(Errno::NOENT) => Some(false),
            Err(_) => None,
        }
    }

    /// Says that its process lives.
    fn touch(&self) {
        match self.is_there() {
            Some(false) => self.lost.store(true, Relaxed),
            _ => _ = futimens(&self.file, &now()),
        }
    }
}

/// Makes an owner file of ours, where none is.
fn write_owner(directory: &Root, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    let file = directory.open_beneath(name.as_bytes(), flags, Mode::RUSR | Mode::WUSR)?;
    let written =
        file.try_clone().map(std::fs::File::from).and_then(|mut file| file.write_all(ours().as_bytes()));
    if let Err(error) = written {
        let _ = directory.remove(name.as_bytes());
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    Ok(file)
}

/// Has the file be touched as long as it is held.
fn keep_touched(owner: &Arc<OwnerFile>) {
    static TOUCHED: Mutex<Vec<Weak<OwnerFile>>> = Mutex::new(Vec::new());
    fn touch_all() {
        loop {
            thread::sleep(TOUCH);
            let mut touched = TOUCHED.lock();
            let held: Vec<Arc<OwnerFile>> = touched.iter().filter_map(Weak::upgrade).collect();
            *touched = held.iter().map(Arc::downgrade).collect();
            if held.is_empty() {
                return;
            }
            drop(touched);
            held.iter().for_each(|owner| owner.touch());
        }
    }
    let mut touched = TOUCHED.lock();
    touched.push(Arc::downgrade(owner));
    if touched.len() == 1 && thread::Builder::new().name("locks".to_owned()).spawn(touch_all).is_err() {
        touched.clear();
    }
}

/// What is known of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    /// There is none.
    None,
    Held,
    /// It is there no more, and its file is.
    Gone,
}

/// What is known of the owner that the file `name` names.
fn judge(directory: &Root, name: &str) -> Result<Judgement, Errno> {
    let stat = match directory.stat(name.as_bytes()) {
        Err(Errno::NOENT) => return Ok(Judgement::None),
        stat => stat?,
    };
    let lives = Owner::read(directory, name).and_then(|owner| owner.lives());
    Ok(match lives {
        Some(true) => Judgement::Held,
        Some(false) => Judgement::Gone,
        None if age(directory, &stat)? > EXPIRY => Judgement::Gone,
        None => Judgement::Held,
    })
}

/// How long ago `stat`'s file was touched, by the clock that the file system goes by.
fn age(directory: &Root, stat: &Stat) -> Result<Duration, Errno> {
    let name = format!("owner-clock-{}", data_encoding::HEXLOWER.encode(&random::bytes()[..8]));
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    let clock = directory.open_beneath(name.as_bytes(), flags, Mode::RUSR | Mode::WUSR)?;
    let _ = futimens(&clock, &now());
    let now = fstat(&clock);
    let _ = directory.remove(name.as_bytes());
    let seconds = now?.st_mtime.saturating_sub(stat.st_mtime);
    Ok(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}

/// Who has a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Owner {
    host: String,
    machine: String,
    boot: String,
    /// The processes among which it has its number: containers have their own.
    among: String,
    process: i32,
    started: u64,
    mark: String,
}

impl Owner {
    fn read(directory: &Root, name: &str) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let file = directory.open_beneath(name.as_bytes(), flags, Mode::empty()).ok()?;
        let mut text = [0; MAX_OWNER];
        let length = read_at(&file, &mut text, 0).ok()?;
        Self::parse(std::str::from_utf8(&text[..length]).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut owner = Self::default();
        for line in text.lines() {
            let (word, value) = line.split_once(' ')?;
            match word {
                "host" => value.clone_into(&mut owner.host),
                "machine" => value.clone_into(&mut owner.machine),
                "boot" => value.clone_into(&mut owner.boot),
                "among" => value.clone_into(&mut owner.among),
                "process" => owner.process = value.parse().ok()?,
                "started" => owner.started = value.parse().ok()?,
                "mark" => value.clone_into(&mut owner.mark),
                _ => {}
            }
        }
        // Its end shows that it is whole.
        (!owner.mark.is_empty()).then_some(owner)
    }

    fn text(&self) -> String {
        let Self { host, machine, boot, among, process, started, mark } = self;
        format!(
            "host {host}\nmachine {machine}\nboot {boot}\namong {among}\nprocess {process}\nstarted {started}\nmark {mark}\n"
        )
    }

    /// Whether it lives; `None` where only its file can tell.
    fn lives(&self) -> Option<bool> {
        let us = here();
        if self.boot.is_empty() || us.boot.is_empty() {
            return None;
        }
        if self.boot != us.boot {
            // That host has begun anew since, and nothing on it goes on.
            let same_host = self.host == us.host && self.machine == us.machine && !us.machine.is_empty();
            return same_host.then_some(false);
        }
        if self.among != us.among {
            return None;
        }
        match started(&self.process.to_string()) {
            Some(0) => Some(false),
            Some(started) if self.started != 0 => Some(started == self.started),
            // It may be hidden from us, or have been from itself.
            _ => {
                let process = Pid::from_raw(self.process)?;
                Some(test_kill_process(process) != Err(Errno::SRCH))
            }
        }
    }
}

/// This process, without a mark.
fn here() -> &'static Owner {
    static HERE: OnceLock<Owner> = OnceLock::new();
    HERE.get_or_init(|| {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let among = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Owner {
            host: String::from_utf8_lossy(&host::name()).into_owned(),
            machine: read("/etc/machine-id"),
            boot: read("/proc/sys/kernel/random/boot_id"),
            among: among.to_string_lossy().into_owned(),
            process: i32::try_from(std::process::id()).unwrap_or_default(),
            started: started("self").unwrap_or_default(),
            mark: String::new(),
        }
    })
}

/// What an owner file of ours says: each has a mark of its own.
fn ours() -> String {
    let mark = data_encoding::HEXLOWER.encode(&random::bytes()[..16]);
    Owner { mark, ..here().clone() }.text()
}

/// When the process began, in ticks since its host did; `None` if it is not seen, 0 if it is over and nobody asked how it
/// ended.
fn started(process: &str) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program may hold anything, and stands in brackets.
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    match words.next()? {
        "Z" | "X" => Some(0),
        _ => words.nth(18)?.parse().ok(),
    }
}

fn number(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

fn now() -> Timestamps {
    let time = |nanoseconds| Timespec { tv_sec: 0, tv_nsec: nanoseconds };
    Timestamps { last_access: time(UTIME_OMIT), last_modification: time(UTIME_NOW) }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::sys::confined::scratch;

    thread_local! {
        /// Whether the file system of this thread has no locks.
        pub(super) static NO_LOCKS: Cell<bool> = const { Cell::new(false) };
    }

    fn take(directory: &Root) -> Option<Lock> {
        let flags = OFlags::RDWR | OFlags::CREATE;
        let file = directory.open_beneath(b"log", flags, Mode::RUSR | Mode::WUSR).expect("opened");
        Lock::take(directory, "log", &file).expect("taken or not")
    }

    fn names(directory: &tempfile::TempDir) -> Vec<String> {
        let entries = directory.path().read_dir().expect("listed");
        let mut names: Vec<_> =
            entries.map(|entry| entry.expect("listed").file_name().into_string().expect("text")).collect();
        names.sort();
        names
    }

    #[test]
    fn without_locks_of_the_kernel_one_has_it_at_a_time() {
        let (directory, root) = scratch();
        NO_LOCKS.set(true);
        let lock = take(&root).expect("free");
        assert!(take(&root).is_none() && lock.is_owner_file());
        // Who sees locks here sees the others' files all the same.
        NO_LOCKS.set(false);
        assert!(take(&root).is_none());
        drop(lock);
        assert_eq!(names(&directory), ["log"]);
        assert!(take(&root).is_some());
    }

    /// Whether the lock is had where an owner file of that owner lies, which was touched so long ago.
    fn is_had(owner: &Owner, touched: Duration) -> bool {
        let (directory, root) = scratch();
        let file = std::fs::File::create(directory.path().join("owner-log")).expect("made");
        (&file).write_all(owner.text().as_bytes()).expect("written");
        file.set_modified(clock::wall() - touched).expect("set");
        let had = take(&root).is_some();
        assert_eq!(names(&directory).len(), if had { 1 } else { 2 }, "{:?}", names(&directory));
        had
    }

    fn eventually_over(process: i32) {
        while started(&process.to_string()) != Some(0) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_lock_is_had_once_its_owner_is_gone_for_certain() {
        NO_LOCKS.set(true);
        let us = Owner { mark: "x".to_owned(), machine: "m".to_owned(), ..here().clone() };
        let (now, long) = (Duration::ZERO, EXPIRY + Duration::from_secs(60));
        let mut child = std::process::Command::new("true").spawn().expect("ran");
        let gone = i32::try_from(child.id()).expect("a number");
        let over = Owner { process: gone, started: 1, ..us.clone() };
        eventually_over(gone);
        assert!(is_had(&over, now), "it is over");
        child.wait().expect("waited for");
        // Of this host and boot: whatever the times say.
        assert!(!is_had(&us, long), "it lives");
        assert!(
            is_had(&Owner { started: us.started + 1, ..us.clone() }, now),
            "its number is another's by now"
        );
        assert!(is_had(&Owner { process: gone, ..us.clone() }, now), "it is gone");
        // Of another boot, another host, other processes than are seen here.
        let boot = Owner { boot: "before".to_owned(), machine: here().machine.clone(), ..us.clone() };
        assert_eq!(is_had(&boot, now), !here().machine.is_empty(), "of this host before it began anew");
        for other in [
            Owner { boot: "other".to_owned(), host: "other".to_owned(), ..us.clone() },
            Owner { among: "others".to_owned(), ..us.clone() },
            Owner { boot: String::new(), ..us.clone() },
            // Not written whole.
            Owner { mark: String::new(), ..us },
        ] {
            assert!(!is_had(&other, now), "{other:?}");
            assert!(is_had(&other, long), "{other:?}");
        }
    }

    #[test]
    fn who_was_taken_for_gone_learns_of_it_and_leaves_the_others_file() {
        let (directory, root) = scratch();
        NO_LOCKS.set(true);
        let lock = take(&root).expect("free");
        let Kind::Owner(HeldFile(owner)) = &lock.0 else { panic!("a lock of the kernel's") };
        owner.touch();
        assert!(!lock.is_lost());
        std::fs::rename(directory.path().join("owner-log"), directory.path().join("away")).expect("renamed");
        let theirs = take(&root).expect("free");
        owner.touch();
        assert!(lock.is_lost() && !theirs.is_lost());
        drop(lock);
        assert!(names(&directory).contains(&"owner-log".to_owned()));
        assert!(take(&root).is_none());
    }
}
