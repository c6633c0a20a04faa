//! Options that make a destination a mirror of the source.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use tidegate_transfer::error::Result;
use tidegate_transfer::selection::{Deletion, Selection};
use tidegate_transfer::terms::{Compare, Terms, Verify};

use crate::exit::usage;

/// What is removed at the destination.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "What is deleted")]
pub struct MirrorArgs {
    /// Once everything is there and verified, remove what the source does not have, in the directories that were copied;
    /// what rules exclude stays
    #[arg(long)]
    delete: bool,
    /// The same, and what rules exclude goes as well, unless they protect it
    #[arg(long)]
    delete_excluded: bool,
    /// Remove no more than N files and directories, which also allows to empty the destination or to remove over half
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    max_delete: Option<u64>,
    /// Move files to DIR with their paths in place of removing them, and keep there what is replaced; relative to DST, on the
    /// same file system
    #[arg(long, value_name = "DIR")]
    backup_dir: Option<OsString>,
    /// Remove each file at the source once its copy is durable and both were hashed and are the same
    #[arg(long = "move", conflicts_with_all = ["delete", "delete_excluded", "dry_run"])]
    moving: bool,
}

impl MirrorArgs {
    /// Whether files are moved, for which `terms` are made stricter: what is there is read and compared.
    pub fn moving(&self, terms: &mut Terms) -> Result<bool> {
        if self.moving && terms.verify == Verify::Block {
            return Err(usage("--move removes only what was verified end to end: leave --verify block out"));
        }
        if self.moving {
            terms.compare = Compare::Checksum;
        }
        Ok(self.moving)
    }

    /// What the destination removes of what `selection` does not bring.
    pub fn deletion(&self, selection: &Selection) -> Result<Option<Deletion>> {
        if !self.delete && !self.delete_excluded {
            return match (self.max_delete, &self.backup_dir) {
                (None, None) => Ok(None),
                _ => Err(usage("--max-delete and --backup-dir say how --delete is meant: give it as well")),
            };
        }
        if selection.listed {
            return Err(usage(
                "--delete needs whole directories, and --files-from names single files: leave one of them out",
            ));
        }
        Ok(Some(Deletion {
            rules: selection.rules.clone(),
            excluded: self.delete_excluded,
            most: self.max_delete,
            backup: self.backup_dir.as_ref().map(|dir| dir.as_bytes().to_vec()),
        }))
    }
}
