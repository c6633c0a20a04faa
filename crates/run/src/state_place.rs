//! Where state is kept when nobody says where: in the home directory, or where there is none that can be written, as on
//! compute nodes and in containers, in a temporary directory that is the user's alone.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{Access, access};
use rustix::process::geteuid;
use tidegate_contract::home::{base_directory, temporary_directories};
use tidegate_transfer::error::{Result, usage};

use crate::told;

/// What the directory is called in those of the user.
const NAME: &str = "tidegate";

/// The usual place, which may not exist.
pub fn usual() -> Option<PathBuf> {
    base_directory("XDG_STATE_HOME", ".local/state").map(|base| base.join(NAME))
}

/// Makes the directory, for the user alone.
pub fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// The usual place, made and written to, or a temporary one, of which the user is told once.
pub fn made() -> Result<PathBuf> {
    static PLACE: OnceLock<Result<PathBuf>> = OnceLock::new();
    PLACE.get_or_init(find).clone()
}

/// The usual place, made, or why it cannot be used.
pub fn usable() -> std::result::Result<PathBuf, String> {
    let usual = usual().ok_or("HOME names no directory")?;
    match make(&usual).and_then(|()| may_write(&usual)) {
        Ok(()) => Ok(usual),
        Err(error) => Err(format!("{} cannot be written ({error})", usual.display())),
    }
}

fn find() -> Result<PathBuf> {
    let why = match usable() {
        Ok(usual) => return Ok(usual),
        Err(why) => why,
    };
    let name = format!("{NAME}-{}", geteuid().as_raw());
    let found = temporary_directories().map(|base| base.join(&name)).find(|place| own(place).is_ok());
    let place = found.ok_or_else(|| {
        usage(format!("{why}, nor can a temporary directory: name one for its state with --state DIR"))
    })?;
    told::complain(&format!(
        "{why}: state is kept in {}, which may not last; --state DIR names another place",
        place.display()
    ));
    Ok(place)
}

fn may_write(directory: &Path) -> io::Result<()> {
    Ok(access(directory, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Makes a directory where anybody may make others: one that is there is used only if it is the user's alone.
fn own(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    let found = fs::symlink_metadata(directory)?;
    let is_ours = found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0;
    if is_ours { may_write(directory) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_directory_of_others_or_open_to_them_is_not_used() {
        let outer = tempfile::tempdir().expect("a directory");
        let at = |name: &str| outer.path().join(name);
        own(&at("new")).expect("made");
        own(&at("new")).expect("it is ours");
        fs::create_dir(at("open")).expect("made");
        fs::set_permissions(at("open"), fs::Permissions::from_mode(0o755)).expect("opened");
        symlink(at("new"), at("link")).expect("linked");
        fs::write(at("file"), "").expect("written");
        for name in ["open", "link", "file", "missing/inner"] {
            own(&at(name)).expect_err(name);
        }
    }
}
