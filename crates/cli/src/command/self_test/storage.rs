//! What the file system keeps of what a copy takes along.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context;

use super::Found;

/// A feature and what to try it with: whether it is there.
type Feature = (&'static str, fn(&Path) -> io::Result<bool>);

/// Without these a copy cannot be made whole; of the others it can be told what gets lost.
const NEEDED: [Feature; 2] = [("sync", sync), ("renaming over a file", renaming)];

const KEPT: [Feature; 5] = [
    ("times to the nanosecond", times),
    ("modes", modes),
    ("symbolic links", links),
    ("holes", holes),
    ("names of any bytes", names),
];

/// Tries each in a directory of its own beneath `scratch`.
pub fn features(scratch: &Path) -> anyhow::Result<Found> {
    let home = scratch.join("features");
    fs::create_dir(&home).context("cannot make a directory")?;
    for (name, works) in NEEDED {
        let there = works(&home).with_context(|| format!("{name} does not work here"))?;
        anyhow::ensure!(there, "{name} does not work here: no copy can be made safe in this file system");
    }
    let there = |(_, kept): &&Feature| kept(&home).unwrap_or(false);
    let (kept, lost): (Vec<_>, Vec<_>) = KEPT.iter().partition(there);
    let list = |features: &[&Feature]| features.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    fs::remove_dir_all(&home).context("cannot remove a directory")?;
    Ok(if lost.is_empty() {
        Found::Works(format!("kept here: {}", list(&kept)))
    } else {
        Found::Warning(format!("not kept in this file system: {}", list(&lost)))
    })
}

fn sync(home: &Path) -> io::Result<bool> {
    let file = File::create(home.join("synced"))?;
    file.write_all_at(b"synced", 0)?;
    file.sync_all()?;
    File::open(home)?.sync_all()?;
    Ok(true)
}

fn renaming(home: &Path) -> io::Result<bool> {
    fs::write(home.join("new"), b"new")?;
    fs::write(home.join("old"), b"old")?;
    fs::rename(home.join("new"), home.join("old"))?;
    Ok(fs::read(home.join("old"))? == b"new")
}

fn times(home: &Path) -> io::Result<bool> {
    let time = UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
    let file = File::create(home.join("times"))?;
    file.set_modified(time)?;
    Ok(file.metadata()?.modified()? == time)
}

fn modes(home: &Path) -> io::Result<bool> {
    let file = File::create(home.join("modes"))?;
    let mut kept = true;
    for mode in [0o640, 0o755] {
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        kept &= file.metadata()?.mode() & 0o777 == mode;
    }
    Ok(kept)
}

fn links(home: &Path) -> io::Result<bool> {
    symlink("nowhere", home.join("link"))?;
    Ok(fs::read_link(home.join("link"))? == Path::new("nowhere"))
}

fn holes(home: &Path) -> io::Result<bool> {
    const SIZE: u64 = 16 << 20;
    let file = File::create(home.join("holes"))?;
    file.set_len(SIZE)?;
    // The kernel counts in blocks of 512 bytes, whatever the file system's are.
    Ok(file.metadata()?.blocks() * 512 < SIZE)
}

fn names(home: &Path) -> io::Result<bool> {
    let name = std::ffi::OsStr::from_bytes(b"not UTF-8: \xff");
    fs::write(home.join(name), b"")?;
    Ok(fs::read_dir(home)?.any(|entry| entry.is_ok_and(|entry| entry.file_name() == name)))
}
