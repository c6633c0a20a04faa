//! File systems of a test's own, where it may mount any.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system, unmounted when dropped.
pub struct Mounted(PathBuf);

impl Mounted {
    /// An empty one in memory; `None` where nothing can be mounted.
    pub fn tmpfs(place: &Path, options: &str) -> Option<Self> {
        Self::new(Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]), place)
    }

    /// `directory`, or a file, once more; `None` where nothing can be mounted.
    pub fn bind(directory: &Path, place: &Path) -> Option<Self> {
        Self::new(Command::new("mount").arg("--bind").arg(directory), place)
    }

    /// An empty one of `size` bytes that `mkfs` makes in a file at `image`; `None` where that cannot be, or be mounted.
    pub fn made(place: &Path, image: &Path, size: u64, mkfs: &[&str]) -> Option<Self> {
        fs::File::create(image).and_then(|file| file.set_len(size)).expect("made");
        let made = Command::new(mkfs[0]).args(&mkfs[1..]).arg(image).output();
        made.is_ok_and(|out| out.status.success()).then_some(())?;
        Self::new(Command::new("mount").args(["-o", "loop"]).arg(image), place)
    }

    fn new(mount: &mut Command, place: &Path) -> Option<Self> {
        if !place.exists() {
            fs::create_dir_all(place).expect("made");
        }
        let mounted = crate::may_use_installed().then(|| mount.arg(place).output())?;
        mounted.is_ok_and(|out| out.status.success()).then(|| Self(place.to_path_buf()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}
