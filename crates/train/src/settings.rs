//! What of a recipe can be set, by name: each with its default, its range, and where the default is from.

use tidegate_control::policy::Recipe;

use crate::ppo::PpoConfig;
use crate::published::Constants;
use crate::session::Stop;

/// Where a default is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The paper's text.
    Paper,
    /// The authors' program; the paper says nothing, or something else.
    Program,
    /// Chosen here.
    Ours,
}

impl Source {
    /// One word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Program => "program",
            Self::Ours => "ours",
        }
    }
}

/// How a recipe is trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Plan {
    /// `ldm`, `automdt` and `automdt_discrete`.
    Published(Constants),
    /// `fast` and `discrete_rl`.
    Ppo(PpoPlan),
}

/// What a training by PPO needs beside its task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PpoPlan {
    /// The algorithm.
    pub config: PpoConfig,
    /// When to stop.
    pub stop: Stop,
    /// K of the utility.
    pub k: f64,
}

/// One thing that can be set.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Its name.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// Where the default is from.
    pub source: Source,
    /// The least and the most it may be.
    pub range: (f64, f64),
    /// What it is.
    pub about: &'static str,
}

/// Why a setting was refused; always one line.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SettingError {
    /// No such key.
    #[error("no setting '{key}' of the recipe {recipe}: choose one of {keys}")]
    Unknown {
        /// What was asked for.
        key: String,
        /// Whose settings they are.
        recipe: Recipe,
        /// All there are.
        keys: String,
    },
    /// Out of range.
    #[error("setting '{key}': must be {kind} from {least} to {most}, not '{value}'")]
    Value {
        /// The key.
        key: &'static str,
        /// A number, or a whole one.
        kind: &'static str,
        /// The least it may be.
        least: f64,
        /// The most.
        most: f64,
        /// What was given.
        value: String,
    },
}

enum Field<'a> {
    Single(&'a mut f32),
    Double(&'a mut f64),
    Count(&'a mut usize),
    Long(&'a mut u64),
}

impl Field<'_> {
    fn text(&self) -> String {
        match self {
            Self::Single(value) => value.to_string(),
            Self::Double(value) => value.to_string(),
            Self::Count(value) => value.to_string(),
            Self::Long(value) => value.to_string(),
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Single(_) | Self::Double(_) => "a number",
            Self::Count(_) | Self::Long(_) => "a whole number",
        }
    }

    /// Sets what `text` says if it is within `range`.
    fn parse(self, text: &str, (least, most): (f64, f64)) -> Option<()> {
        fn within<T: std::str::FromStr>(text: &str, fits: impl Fn(&T) -> bool) -> Option<T> {
            text.parse().ok().filter(fits)
        }
        let whole = |value: u64| (least..=most).contains(&(value as f64));
        match self {
            // Compared as it was written: 0.1 as a single is a little more than 0.1.
            Self::Single(field) => {
                *field = within(text, |value: &f64| (least..=most).contains(value))? as f32;
            }
            Self::Double(field) => *field = within(text, |value: &f64| (least..=most).contains(value))?,
            Self::Count(field) => *field = within(text, |&value: &usize| whole(value as u64))?,
            Self::Long(field) => *field = within(text, |&value: &u64| whole(value))?,
        }
        Some(())
    }
}

struct Key<T: 'static> {
    name: &'static str,
    source: Source,
    range: (f64, f64),
    about: &'static str,
    field: fn(&mut T) -> Field<'_>,
}

const fn key<T>(
    name: &'static str,
    source: Source,
    range: (f64, f64),
    about: &'static str,
    field: fn(&mut T) -> Field<'_>,
) -> Key<T> {
    Key { name, source, range, about, field }
}

const MAX_EPISODES: f64 = 1e9;
const WIDTH: (f64, f64) = (1.0, 1024.0);
const BLOCKS: (f64, f64) = (1.0, 16.0);

const PUBLISHED: &[Key<Constants>] = &[
    key("k", Source::Paper, (1.0, 2.0), "K of the utility T/K^n; LDM's program trains with 1.002", |c| {
        Field::Double(&mut c.k)
    }),
    key("episodes", Source::Program, (1.0, MAX_EPISODES), "the most episodes", |c| Field::Long(&mut c.most)),
    key("enough", Source::Paper, (0.0, 10.0), "share of R_max that counts as converged", |c| {
        Field::Single(&mut c.enough)
    }),
    key("window", Source::Program, (1.0, 100_000.0), "episodes in the mean that is judged", |c| {
        Field::Count(&mut c.window)
    }),
    key("idle", Source::Paper, (0.0, MAX_EPISODES), "episodes without a better mean that end it", |c| {
        Field::Long(&mut c.idle)
    }),
    key("steps", Source::Paper, (2.0, 1000.0), "steps of an episode, which is one batch", |c| {
        Field::Count(&mut c.steps)
    }),
    key("penalty_mbps", Source::Program, (0.0, 1e6), "taken off for each stage at a limit", |c| {
        Field::Double(&mut c.penalty_mbps)
    }),
    key("rate", Source::Program, (1e-7, 1.0), "Adam's step size", |c| Field::Single(&mut c.rate)),
    key("gamma", Source::Program, (0.0, 1.0), "discount of a reward one step later", |c| {
        Field::Single(&mut c.gamma)
    }),
    key("clip", Source::Program, (0.001, 10.0), "PPO's clip", |c| Field::Single(&mut c.objective.clip)),
    key("entropy", Source::Program, (0.0, 10.0), "what a unit of entropy is worth", |c| {
        Field::Single(&mut c.objective.entropy)
    }),
    key("critic_weight", Source::Program, (0.0, 100.0), "weight of the critic's error", |c| {
        Field::Single(&mut c.critic_weight)
    }),
    key("sigma", Source::Program, (0.01, 7.0), "σ of the actions at the beginning", |c| {
        Field::Single(&mut c.sigma)
    }),
    key(
        "production_sigma",
        Source::Program,
        (0.01, 1.0),
        "what σ is multiplied by in transfers; the text: 1",
        |c| Field::Single(&mut c.production_sigma),
    ),
    key("width", Source::Paper, WIDTH, "values between layers", |c| Field::Count(&mut c.width)),
    key("blocks", Source::Paper, BLOCKS, "blocks of the actor; LDM's program has 1", |c| {
        Field::Count(&mut c.blocks)
    }),
    key("critic_blocks", Source::Paper, BLOCKS, "blocks of the critic", |c| {
        Field::Count(&mut c.critic_blocks)
    }),
];

const PPO: &[Key<PpoPlan>] = &[
    key("k", Source::Paper, (1.0, 2.0), "K of the utility T/K^n", |p| Field::Double(&mut p.k)),
    key("episodes", Source::Ours, (1.0, MAX_EPISODES), "the most episodes", |p| {
        Field::Long(&mut p.stop.most)
    }),
    key("enough", Source::Paper, (0.0, 1.0), "share of R_max that counts as converged", |p| {
        Field::Single(&mut p.stop.enough)
    }),
    key("window", Source::Ours, (1.0, 100_000.0), "episodes in the mean that is judged", |p| {
        Field::Count(&mut p.stop.window)
    }),
    key("idle", Source::Paper, (0.0, MAX_EPISODES), "episodes without a better policy that end it", |p| {
        Field::Long(&mut p.stop.idle)
    }),
    key("environments", Source::Ours, (2.0, 1024.0), "episodes a batch, side by side", |p| {
        Field::Count(&mut p.config.environments)
    }),
    key("epochs", Source::Ours, (1.0, 100.0), "times a batch is gone through", |p| {
        Field::Count(&mut p.config.epochs)
    }),
    key("minibatches", Source::Ours, (1.0, 100.0), "parts of a batch that a step is made on", |p| {
        Field::Count(&mut p.config.minibatches)
    }),
    key("rate", Source::Ours, (1e-7, 1.0), "Adam's step size", |p| Field::Single(&mut p.config.rate)),
    key("gamma", Source::Ours, (0.0, 1.0), "discount of a reward one step later", |p| {
        Field::Single(&mut p.config.gae.gamma)
    }),
    key("lambda", Source::Ours, (0.0, 1.0), "λ of the advantages", |p| {
        Field::Single(&mut p.config.gae.lambda)
    }),
    key("clip", Source::Ours, (0.001, 10.0), "PPO's clip", |p| Field::Single(&mut p.config.objective.clip)),
    key("entropy", Source::Ours, (0.0, 10.0), "what a unit of entropy is worth", |p| {
        Field::Single(&mut p.config.objective.entropy)
    }),
    key("sigma", Source::Ours, (0.01, 7.0), "σ of the actions at the beginning; choices have none", |p| {
        Field::Single(&mut p.config.sigma)
    }),
    key("width", Source::Ours, WIDTH, "values between layers", |p| Field::Count(&mut p.config.width)),
    key("blocks", Source::Ours, BLOCKS, "blocks of the actor, the critic has one fewer", |p| {
        Field::Count(&mut p.config.blocks)
    }),
];

fn list<T>(keys: &[Key<T>], of: &mut T, recipe: Recipe) -> Vec<Setting> {
    let setting = |key: &Key<T>| Setting {
        key: key.name,
        value: (key.field)(of).text(),
        // What LDM trains with, its text leaves open.
        source: if (recipe, key.name) == (Recipe::Ldm, "k") { Source::Program } else { key.source },
        range: key.range,
        about: key.about,
    };
    keys.iter().map(setting).collect()
}

/// Whether `name` was a key.
fn assign<T>(keys: &[Key<T>], to: &mut T, name: &str, value: &str) -> Result<bool, SettingError> {
    let Some(key) = keys.iter().find(|key| key.name == name) else { return Ok(false) };
    let field = (key.field)(to);
    let (kind, (least, most)) = (field.kind(), key.range);
    let wrong = || SettingError::Value { key: key.name, kind, least, most, value: value.to_owned() };
    field.parse(value, key.range).ok_or_else(wrong)?;
    Ok(true)
}

impl Plan {
    /// The defaults of `recipe`; none where nothing can be set (`universal`) or learned here (`gymnasium`).
    pub fn of(recipe: Recipe) -> Option<Self> {
        match recipe {
            Recipe::Universal | Recipe::Gymnasium => None,
            Recipe::Fast | Recipe::DiscreteRl => {
                Some(Self::Ppo(PpoPlan { config: PpoConfig::default(), stop: Stop::default(), k: 1.02 }))
            }
            Recipe::Ldm | Recipe::Automdt | Recipe::AutomdtDiscrete => {
                Some(Self::Published(Constants::of(recipe)))
            }
        }
    }

    /// Everything that can be set, with its value now.
    pub fn settings(mut self, recipe: Recipe) -> Vec<Setting> {
        match &mut self {
            Self::Published(constants) => list(PUBLISHED, constants, recipe),
            Self::Ppo(plan) => list(PPO, plan, recipe),
        }
    }

    /// Sets `key` of `recipe` to what `value` says.
    ///
    /// # Errors
    /// An unknown key, and a value out of its range.
    pub fn set(&mut self, recipe: Recipe, key: &str, value: &str) -> Result<(), SettingError> {
        let known = match self {
            Self::Published(constants) => assign(PUBLISHED, constants, key, value)?,
            Self::Ppo(plan) => assign(PPO, plan, key, value)?,
        };
        if !known {
            let keys: Vec<&str> = self.settings(recipe).iter().map(|setting| setting.key).collect();
            let (key, keys) = (key.to_owned(), keys.join(", "));
            return Err(SettingError::Unknown { key, recipe, keys });
        }
        Ok(())
    }
}
