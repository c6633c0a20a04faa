//! `tidegate hash`: what files hash to, as every transfer computes it.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use clap::Args;
use serde::{Deserialize, Serialize};
use tidegate_run::place::{Place, end, shown};
use tidegate_spec::options::Options;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::hash::{FileHash, block_digest, hex};
use tidegate_transfer::manifest::BLOCK;
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::text::show;
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::wire::files::FileKind;

use crate::asked::read;
use crate::caller::Caller;
use crate::exit::usage;
use crate::files::{FileAccess, Files};
use crate::output::JsonArgs;

/// Print the BLAKE3 hashes of files, as b3sum does.
///
/// A file of this host is read by all processors at once; one at an endpoint, or at a host that ssh reaches, is read there.
/// The hash is the one that transfers compare.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
#[command(after_help = crate::exit::HELP)]
pub struct HashArgs {
    /// Files: paths of this host, tg://…, name:/path or user@host:path
    #[arg(value_name = "FILE", required = true)]
    #[serde(skip)]
    files: Vec<OsString>,
    #[command(flatten)]
    #[serde(flatten)]
    output: JsonArgs,
    #[command(flatten)]
    #[serde(flatten)]
    access: FileAccess,
}

impl HashArgs {
    /// Hashes with options that are told by their names.
    pub fn asked(options: &Options, files: Vec<OsString>) -> Result<Self> {
        let args: Self = read(options)?;
        Ok(Self { files, access: args.access.asked()?, ..args })
    }
}

/// A file and its hash.
#[derive(Serialize)]
struct Hashed<'a> {
    path: &'a str,
    bytes: u64,
    blake3: &'a str,
}

/// Runs the command.
pub fn run(args: &HashArgs, caller: &Caller) -> anyhow::Result<ExitCode> {
    let interrupt = caller.interrupt();
    for file in &args.files {
        let (path, (bytes, hash)) = match is_here(file) {
            true => (show(file.as_bytes()).into_owned(), hash(file, &interrupt)?),
            false => (shown(file), hash_there(file, &args.access, &interrupt)?),
        };
        let (path, blake3) = (&*path, &*hash);
        match args.output.json {
            true => caller.print_json(&Hashed { path, bytes, blake3 })?,
            false => caller.print(&format!("{blake3}  {path}"))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a file is one of this host.
fn is_here(name: &OsString) -> bool {
    std::fs::symlink_metadata(name).is_ok()
        || (!end(name).is_server() && matches!(Place::parse(name), Ok(Place::Local(_))))
}

/// The same of one that is elsewhere.
fn hash_there(place: &OsString, access: &FileAccess, interrupt: &Interrupt) -> Result<(u64, String)> {
    let files = Files::at(place, access, 1, interrupt)?;
    let status = files.stat(b"", interrupt)?;
    if status.kind != FileKind::File {
        return Err(usage(format!("{} is no regular file", shown(place))));
    }
    Ok((status.size, hex(&files.hash(b"", interrupt)?)))
}

/// The size of a file and what it hashes to.
fn hash(name: &OsString, interrupt: &Interrupt) -> Result<(u64, String)> {
    let failed = |error| Error::io("read", name.as_bytes(), error);
    let file = File::open(name).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(usage(format!("{} is no regular file", show(name.as_bytes()))));
    }
    let size = about.len();
    let (hash, next) = (Mutex::new(FileHash::new(size)), AtomicU64::new(0));
    let read = || -> std::io::Result<()> {
        let mut buffer = vec![0; size.min(BLOCK) as usize];
        loop {
            let offset = next.fetch_add(BLOCK, Relaxed);
            // A file that is empty has one block nevertheless.
            if (offset >= size && offset > 0) || interrupt.is_raised() {
                return Ok(());
            }
            let data = &mut buffer[..(size - offset).min(BLOCK) as usize];
            file.read_exact_at(data, offset)?;
            let digest = block_digest(data, offset, size);
            hash.lock().add_block(offset, digest);
        }
    };
    let workers = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let workers = workers.min(size.div_ceil(BLOCK).max(1) as usize);
    thread::scope(|scope| {
        let reading: Vec<_> = (0..workers).map(|_| scope.spawn(read)).collect();
        reading.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
    .map_err(failed)?;
    if interrupt.is_raised() {
        return Err(Error::new(ErrorKind::Interrupted, "interrupted"));
    }
    let root = hash.into_inner().root();
    // Every block was added.
    Ok((size, hex(&root.unwrap_or_default())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_hash_of_the_content() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("file");
        for size in [0, 1, BLOCK as usize, 40 * BLOCK as usize + 7] {
            let content: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
            std::fs::write(&file, &content).expect("written");
            let (bytes, hash) = hash(&file.clone().into(), &Interrupt::default()).expect("hashed");
            assert_eq!((bytes, hash), (size as u64, blake3::hash(&content).to_hex().to_string()));
        }
        let refused = hash(&directory.path().into(), &Interrupt::default()).expect_err("a directory");
        assert_eq!(refused.kind, ErrorKind::Usage);
    }
}
