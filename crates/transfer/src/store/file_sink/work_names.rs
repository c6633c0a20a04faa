//! What unfinished files and their directories are called.

use crate::manifest::{Entry, Kind};
use crate::path::RelPath;
use crate::spec::{RunId, TransferId};
use crate::sys::host;
use crate::terms::Verify;

/// What the work directory of transfer `id` is called after. Who may write one name in a directory shares the
/// directory of all work there with those who may write others, and chooses `id`: their work is not found by it.
pub(super) fn work_id(id: &TransferId, new_name: Option<&RelPath>) -> TransferId {
    let Some(name) = new_name else { return *id };
    let mut hasher = blake3::Hasher::new();
    let hash = *hasher.update(id).update(name.as_bytes()).finalize().as_bytes();
    *hash.first_chunk().expect("long enough")
}

/// What the directory is called after in which transfers of one run share the unfinished file for one version of `entry`.
/// Endpoints that run as different users have one each: nobody else can write there.
pub(super) fn split_id(entry: &Entry, place: &RelPath, run: &RunId, verify: Verify) -> TransferId {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"split").update(run).update(&host::user().to_le_bytes()).update(&[verify as u8]);
    hasher.update(place.as_bytes());
    if let Kind::File { size, fingerprint } = entry.kind {
        hasher.update(&size.to_le_bytes()).update(&fingerprint);
    }
    *hasher.finalize().as_bytes().first_chunk().expect("long enough")
}

/// The name of an entry's unfinished file.
pub(super) fn part_name(place: &RelPath) -> String {
    data_encoding::HEXLOWER.encode(&blake3::hash(place.as_bytes()).as_bytes()[..16])
}

/// Whether `name` may be that of an unfinished file.
pub(super) fn is_part_name(name: &[u8]) -> bool {
    name.len() == 32 && name.iter().all(u8::is_ascii_hexdigit)
}
