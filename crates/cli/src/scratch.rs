//! A directory for what a command makes to try something, and the files in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tidegate_control::ByteCount;
use tidegate_control::rng::Rng;
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::transfer::Interrupt;

use crate::exit::usage;

/// A directory that is removed at the end, also after an error.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one in the directory `home` for the command `name`, with room for `needed` bytes.
    pub fn new(home: &Path, name: &str, needed: ByteCount) -> Result<Self, Error> {
        use std::os::unix::fs::DirBuilderExt;
        let path = home.join(format!("tidegate-{name}-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(|error| {
            usage(format!("cannot make {}: {error}; choose another place with --directory", path.display()))
        })?;
        let scratch = Self(path);
        scratch.has_room(name, needed)?;
        Ok(scratch)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn has_room(&self, name: &str, needed: ByteCount) -> Result<(), Error> {
        let bytes = self.0.as_os_str().as_encoded_bytes();
        let room = rustix::fs::statvfs(&self.0)
            .map_err(|error| Error::io("look at the file system of", bytes, error))?;
        let free = ByteCount(room.f_bavail.saturating_mul(room.f_frsize));
        if free < needed {
            let place = self.0.display();
            let why = format!(
                "{place} has {free} free and {name} needs {needed}: choose another place with --directory"
            );
            return Err(Error::new(ErrorKind::NoSpace, why));
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Makes `size` bytes of files that do not compress: nine tenths in six large ones, the rest in small ones of 4 KiB to
/// 1 MiB.
pub fn make_files(directory: &Path, size: ByteCount, seed: u64, interrupt: &Interrupt) -> anyhow::Result<()> {
    let mut rng = Rng::new(seed);
    let mut buffer = vec![0; 1 << 20];
    let mut make = |path: PathBuf, mut size: u64, rng: &mut Rng| -> io::Result<()> {
        use std::io::Write;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut file = fs::File::create(path)?;
        while size > 0 && !interrupt.is_raised() {
            let piece = (size as usize).min(buffer.len());
            for word in buffer[..piece].chunks_mut(8) {
                let bytes = rng.next_u64().to_le_bytes();
                word.copy_from_slice(&bytes[..word.len()]);
            }
            file.write_all(&buffer[..piece])?;
            size -= piece as u64;
        }
        Ok(())
    };
    let large = size.0 / 10 * 9 / 6;
    for i in 0..6 {
        make(directory.join(format!("large/{i}.bin")), large, &mut rng)?;
    }
    let mut left = size.0 - 6 * large;
    let mut i = 0;
    while left > 0 {
        let size = (4096 + rng.next_u64() % (1 << 20)).min(left);
        make(directory.join(format!("small/{:02}/{i:05}.bin", i % 20)), size, &mut rng)?;
        left -= size;
        i += 1;
    }
    if interrupt.is_raised() {
        return Err(Error::new(ErrorKind::Interrupted, "interrupted").into());
    }
    Ok(())
}
