//! What is removed, at the destination or at the source.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use tidegate_transfer::filter::rule::Rule;
use tidegate_transfer::selection::Deletion;

use crate::filters::FilterSpec;
use crate::form::path_option;

/// What is removed at the destination, or moved away from the source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[command(next_help_heading = "What is deleted")]
pub struct DeletionSpec {
    /// Once everything is there and verified, remove what the source does not have, in the directories that were copied;
    /// what rules exclude stays
    #[arg(long)]
    pub delete: bool,
    /// The same, and what rules exclude goes as well, unless they protect it
    #[arg(long)]
    pub delete_excluded: bool,
    /// Remove no more than N files and directories, which also allows to empty the destination or to remove over half
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub max_delete: Option<u64>,
    /// Remove each file at the source once its copy is durable and both were hashed and are the same
    #[arg(id = "move", long, conflicts_with_all = ["delete", "delete_excluded"])]
    #[serde(rename = "move")]
    pub moving: bool,
}

/// Where removed files are kept: anywhere on the destination's host, and so none of a job's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Args)]
#[serde(default)]
#[command(next_help_heading = "What is deleted")]
pub struct BackupDir {
    /// Move files to DIR with their paths in place of removing them, and keep there what is replaced; relative to DST, on the
    /// same file system
    #[arg(long, value_name = "DIR")]
    #[serde(with = "path_option")]
    pub backup_dir: Option<PathBuf>,
}

impl DeletionSpec {
    /// Whether anything is removed at the destination.
    pub fn is_wanted(&self) -> bool {
        self.delete || self.delete_excluded
    }

    /// What a destination removes that has `rules`, and keeps in the directory `backup`; nothing if nothing is to go.
    pub fn at_destination(&self, rules: &[Rule], backup: Option<&Path>) -> Option<Deletion> {
        self.is_wanted().then(|| Deletion {
            rules: rules.to_vec(),
            excluded: self.delete_excluded,
            most: self.max_delete,
            backup: backup.map(|dir| dir.as_os_str().as_bytes().to_vec()),
        })
    }

    /// Whether it goes with what is copied, and how.
    pub fn check(&self, filters: &FilterSpec, has_backup: bool) -> Result<(), String> {
        let lists = filters.files.is_some() || filters.bounds.files_from.is_some();
        let why = match self {
            _ if !self.is_wanted() && (self.max_delete.is_some() || has_backup) => {
                "--max-delete and --backup-dir say how --delete is meant: give it as well"
            }
            _ if self.is_wanted() && lists => {
                "--delete needs whole directories, and --files-from names single files: leave one of them out"
            }
            Self { moving: true, .. } if self.is_wanted() => {
                "--move removes at the source, and --delete at the destination: leave one of them out"
            }
            _ => return Ok(()),
        };
        Err(why.to_owned())
    }
}
