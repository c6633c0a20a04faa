//! Options of every command that moves data between endpoints of ours, and what they become.

use clap::Args;
use serde::{Deserialize, Serialize};
use tidegate_spec::control::Control;
use tidegate_spec::plane::{Patience, PlaneSpec};
use tidegate_transfer::catalogue::Catalogues;
use tidegate_transfer::error::{Result, usage};
use tidegate_transfer::quota::Share;
use tidegate_transfer::selection::{Selection, Taking};
use tidegate_transfer::terms::Terms;
use tidegate_transfer::transfer::route::{STALL, Setup, Sharing, random_run};
use tidegate_transfer::transfer::{Interrupt, Pace};
use tidegate_transfer::wire::way::Carriers;

use crate::settings::{TrustArgs, optimizer, pace};

/// Who decides, how data is moved, and whom to trust.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteArgs {
    /// Who decides.
    #[command(flatten)]
    #[serde(flatten)]
    pub control: Control,
    /// How data is moved.
    #[command(flatten)]
    #[serde(flatten)]
    pub plane: PlaneSpec,
    /// How long who is away is waited for.
    #[command(flatten)]
    #[serde(flatten)]
    pub patience: Patience,
    /// Where state lives and whom to trust.
    #[command(flatten)]
    #[serde(flatten)]
    pub trust: TrustArgs,
}

impl RouteArgs {
    /// The same as a program says it: each value is where the command line has it.
    pub fn asked(self) -> Result<Self> {
        self.control.spec.check().map_err(usage)?;
        self.plane.check().map_err(usage)?;
        self.patience.check().map_err(usage)?;
        Ok(Self { trust: self.trust.or_said()?, ..self })
    }

    /// What both ends agree on.
    pub fn terms(&self) -> Terms {
        let congestion = self.control.spec.congestion_terms();
        Terms { congestion, ..self.plane.terms(self.control.local.max_workers) }
    }

    /// How the transfer is driven; an error if there is no such rule.
    pub fn pace(&self) -> Result<Pace> {
        Ok(pace(&self.control, optimizer(&self.control)?.as_ref()))
    }

    /// Puts everything together.
    pub fn setup(&self, terms: Terms, pace: Pace, interrupt: Interrupt) -> Result<Setup> {
        setup(&self.trust, terms, pace, interrupt)
    }
}

/// A transfer on those terms, of all that there is, by whoever `trust` says we are.
pub fn setup(trust: &TrustArgs, terms: Terms, pace: Pace, interrupt: Interrupt) -> Result<Setup> {
    let root = trust.state.open()?;
    let (pki, catalogues) = (trust.pki()?, Catalogues::new(&root)?);
    Ok(Setup {
        terms,
        selection: Selection::default(),
        taking: Taking::default(),
        plan: None,
        deletion: None,
        moving: false,
        sharing: Sharing::default(),
        pace,
        run: random_run(),
        stall: STALL,
        interrupt,
        pki,
        catalogues,
        share: Share::own(),
        carriers: Carriers::default(),
    })
}
