//! Modes and times, on file systems that keep them and on those that do not: shares of Windows, FAT, views of object
//! stores. What such a file system refuses costs no content; it is counted.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::io::Errno;

use crate::counters::NotKept;
use crate::manifest::{Entry, Kind, Timestamp};
use crate::sys::fs::{Mode, Timespec, Timestamps, UTIME_OMIT, fchmod, fstat, futimens};

/// Sets modes and times, and counts what is refused.
#[derive(Debug, Default)]
pub(super) struct Appearance {
    modes: AtomicU64,
    times: AtomicU64,
}

impl Appearance {
    /// Sets mode and time of what is open as `fd`, and is to be as `entry`.
    pub(super) fn set(&self, fd: &impl AsFd, entry: &Entry) -> Result<(), Errno> {
        match fchmod(fd, mode_of(fd, entry)?) {
            Err(error) if is_refusal(error) => {
                if fstat(fd)?.st_mode & 0o777 != entry.mode & 0o777 {
                    self.modes.fetch_add(1, Relaxed);
                }
            }
            set => set?,
        }
        match futimens(fd, &times(entry.mtime)) {
            Err(error) if is_refusal(error) => {
                self.times.fetch_add(1, Relaxed);
                Ok(())
            }
            set => set,
        }
    }

    /// What was refused so far.
    pub(super) fn not_kept(&self) -> NotKept {
        NotKept { modes: self.modes.load(Relaxed), times: self.times.load(Relaxed) }
    }
}

/// Whether a file system says by `error` that it does not know what is asked, or does not let us.
fn is_refusal(error: Errno) -> bool {
    matches!(error, Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL)
}

/// Read, write and execute. Set-user-ID, set-group-ID and sticky bits of the source are left out: ownership is not
/// kept, so they would mean something else here, and a peer must not make a program of ours privileged. A directory keeps
/// its own: by them what a group shares stays the group's.
pub(super) fn mode_of(fd: &impl AsFd, entry: &Entry) -> Result<Mode, Errno> {
    let special = if entry.kind == Kind::Directory { fstat(fd)?.st_mode & 0o7000 } else { 0 };
    Ok(Mode::from_raw_mode(special | entry.mode & 0o777))
}

/// As the kernel is told them.
pub(super) fn times(mtime: Timestamp) -> Timestamps {
    let time = Timespec { tv_sec: mtime.seconds, tv_nsec: i64::from(mtime.nanoseconds) as _ };
    Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification: time }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::RelPath;

    #[test]
    fn what_a_file_system_refuses_is_counted_and_no_failure() {
        let path = RelPath::new("comm").expect("a name");
        let kind = Kind::File { size: 0, fingerprint: [0; 16] };
        let entry = Entry::new(path, kind, 0o640, Timestamp { seconds: 7, nanoseconds: 0 });
        let appearance = Appearance::default();
        // The kernel's own files have modes of their own.
        let fixed = std::fs::File::open("/proc/self/comm").expect("opened");
        appearance.set(&fixed, &entry).expect("no failure");
        assert_eq!(appearance.not_kept().modes, 1);
        assert!(appearance.not_kept().text().is_some_and(|text| text.contains("modes")));
        let ordinary = tempfile::tempfile().expect("a file");
        appearance.set(&ordinary, &entry).expect("set");
        assert_eq!(fstat(&ordinary).map(|stat| (stat.st_mode & 0o777, stat.st_mtime)), Ok((0o640, 7)));
        assert_eq!(appearance.not_kept().modes, 1);
    }
}
