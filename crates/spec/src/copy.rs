//! A copy between hosts that run Tidegate.

use clap::Args;
use serde::{Deserialize, Serialize};
use tidegate_transfer::terms::{Compare, Terms, Verify};

use crate::control::ControlSpec;
use crate::deletion::DeletionSpec;
use crate::filters::FilterSpec;
use crate::plane::{LinkSpec, PlaneSpec, Stalls};

/// What a copy is to be like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "CopyOptions", extend("additionalProperties" = false)))]
#[serde(default)]
pub struct CopySpec {
    /// Read files that are there already on both sides and compare, instead of trusting size, time
    /// and the recorded hash
    #[arg(long)]
    pub checksum: bool,
    /// Symbolic links.
    #[command(flatten)]
    #[serde(flatten)]
    pub links: LinkSpec,
    /// What is copied.
    #[command(flatten)]
    #[serde(flatten)]
    pub filters: FilterSpec,
    /// What is removed.
    #[command(flatten)]
    #[serde(flatten)]
    pub deletion: DeletionSpec,
    /// When a stream stands still.
    #[command(flatten)]
    #[serde(flatten)]
    pub stalls: Stalls,
    /// Who decides.
    #[command(flatten)]
    #[serde(flatten)]
    pub control: ControlSpec,
    /// How data is moved.
    #[command(flatten)]
    #[serde(flatten)]
    pub plane: PlaneSpec,
}

impl CopySpec {
    /// Whether all of it makes sense together.
    pub fn check(&self, has_backup: bool) -> Result<(), String> {
        self.control.check()?;
        self.plane.check()?;
        self.stalls.check()?;
        self.deletion.check(&self.filters, has_backup)?;
        match self.deletion.moving && self.plane.verify == Verify::Block {
            true => {
                Err("--move removes only what was verified end to end: leave --verify block out".to_owned())
            }
            false => Ok(()),
        }
    }

    /// What both ends agree on.
    pub fn terms(&self, max_workers: u16) -> Terms {
        // What is removed at the source was read and compared before.
        let compares = self.checksum || self.deletion.moving;
        Terms {
            links: self.links.links,
            compare: if compares { Compare::Checksum } else { Compare::Recorded },
            congestion: self.control.congestion_terms(),
            ..self.plane.terms(max_workers)
        }
    }
}
