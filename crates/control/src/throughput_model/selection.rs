//! Which models may answer, by name: all of them averaged, or what a paper published.

use serde::{Deserialize, Serialize};

use crate::throughput_model::Model;
use crate::throughput_model::choice::Options;

/// Which models are asked how many streams to take.
///
/// The published ones are solved from the best combination of samples (Yildirim et al., TPDS 2011) and take the peak of
/// their curve. Where a curve has none, where one more stream was never near what was sampled, and where no curve
/// fits, the papers say nothing: there ours decides, as for the average.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(!try_from))]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum ModelSelection {
    /// Ours: every model, refined by least squares, averaged by how near it is; the fewest streams that are as good.
    #[default]
    Averaged,
    /// EOS: the nearer of its two.
    Published,
    /// EOS: p′ = a·n² + b·n + c alone.
    FullSecondOrder,
    /// EOS: p′ = a·nᶜ + b alone.
    DynamicOrder,
    /// Lu, Qiao, Dinda et al.: p′ = a·n² + b alone.
    Dinda,
    /// Hacker, Athey et al.: n times what one stream moves.
    Hacker,
}

/// Documents have it as command lines do: with hyphens, or with underscores.
impl TryFrom<String> for ModelSelection {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

impl ModelSelection {
    /// Every one of them, the default first.
    pub const ALL: [Self; 6] = [
        Self::Averaged,
        Self::Published,
        Self::FullSecondOrder,
        Self::DynamicOrder,
        Self::Dinda,
        Self::Hacker,
    ];

    /// Their names.
    pub const NAMES: [&str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut i = 0;
        while i < names.len() {
            names[i] = Self::ALL[i].name();
            i += 1;
        }
        names
    };

    /// How it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Averaged => "averaged",
            Self::Published => "published",
            Self::FullSecondOrder => Model::FullSecondOrder.name(),
            Self::DynamicOrder => Model::DynamicOrder.name(),
            Self::Dinda => Model::Dinda.name(),
            Self::Hacker => Model::Hacker.name(),
        }
    }

    /// Whether nothing else was asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// How to choose by it.
    pub fn options(self) -> Options {
        let models = match self {
            Self::Averaged => return Options::default(),
            Self::Published => vec![Model::FullSecondOrder, Model::DynamicOrder],
            Self::FullSecondOrder => vec![Model::FullSecondOrder],
            Self::DynamicOrder => vec![Model::DynamicOrder],
            Self::Dinda => vec![Model::Dinda],
            Self::Hacker => vec![Model::Hacker],
        };
        Options::published(models)
    }
}

crate::named!(ModelSelection, "model");
