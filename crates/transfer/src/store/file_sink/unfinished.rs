//! Where unfinished files lie.

use crate::error::Result;
use crate::spec::TransferId;
use crate::store::abandoned;
use crate::store::work_dir::WorkDir;
use crate::sys::confined::Root;
use crate::terms::Purpose;

/// For a copy, and where what an earlier one left is only looked at.
pub(super) fn work_dirs(
    base: Option<&Root>,
    id: &TransferId,
    purpose: Purpose,
) -> Result<(Option<WorkDir>, Option<WorkDir>)> {
    Ok(match (base, purpose) {
        (Some(base), Purpose::Copy) => {
            abandoned::expire(base, id);
            (Some(WorkDir::make(base, id)?), None)
        }
        (Some(base), Purpose::Plan) => (None, WorkDir::look(base, id)),
        _ => (None, None),
    })
}
