//! Which file system of this host a path lies on: an end of a path that is remembered.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tidegate_contract::text::show;
use tidegate_spec::pair::Site;

/// The file system that `path` lies on, or will.
pub fn site_of(path: &Path) -> Option<Site> {
    let typed = std::path::absolute(path).ok()?;
    let mut at = typed.ancestors().find_map(|path| path.canonicalize().ok())?;
    let device = |path: &Path| path.metadata().map(|about| about.dev()).ok();
    let ours = device(&at)?;
    while let Some(above) = at.parent().filter(|above| device(above) == Some(ours)) {
        at = above.to_path_buf();
    }
    Some(Site::file_system(&show(at.as_os_str().as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_end_is_its_file_system() {
        let directory = tempfile::tempdir().expect("a directory");
        let within = site_of(directory.path());
        assert!(within.as_ref().is_some_and(|site| site.as_str().starts_with("local:/")), "{within:?}");
        assert_eq!(site_of(&directory.path().join("not/yet/there")), within);
        assert_ne!(site_of(Path::new("/proc/self")), within);
    }
}
