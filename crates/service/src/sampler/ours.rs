//! Our own program, which measures and asks for us.

use std::path::PathBuf;

use tidegate_contract::own_program;
use tidegate_spec::setup::Setup;

/// Our own executable.
#[derive(Clone, Debug)]
pub struct Program {
    /// Where it is.
    pub path: PathBuf,
    /// What it is always told: the state directory, the keys, and whom to trust.
    pub setup: Setup,
}

impl Program {
    /// The one that is running.
    pub fn ours(setup: Setup) -> Self {
        Self { path: own_program::path(), setup }
    }
}
