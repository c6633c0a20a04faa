//! From a name to a rule: the one place where that is decided, for transfers, the simulator and Python.
//!
//! `NAME`, `NAME:VARIANT`, or a one-number rule behind `coupled:` (one n for all stages, the default
//! for such rules) or `independent:` (a copy a stage). The [`LEARNED`] ones are told their policy.

use crate::optimizer::aimd::{self, Aimd};
use crate::optimizer::bayesian::{self, Bayesian};
use crate::optimizer::explore::{self, Explore};
use crate::optimizer::falcon::{self, Falcon};
use crate::optimizer::fixed::{self, Fixed};
use crate::optimizer::fts3::{self, Fts3};
use crate::optimizer::gradient::{self, Gradient};
use crate::optimizer::model_fit::{self, ModelFit};
use crate::optimizer::optimistic::Optimistic;
use crate::optimizer::per_stage::{Coupled, Independent};
use crate::optimizer::policy::{ActionChoice, Learned};
use crate::optimizer::{Optimizer, StageOptimizer};
use crate::policy::{Policy, Recipe};
use crate::share::Share;
use crate::stage::{Concurrency, PerStage, Stage};
use crate::utility::Utility;

/// The rules there are that need nothing else, the default first.
pub const NAMES: [&str; 11] = [
    "auto",
    "universal",
    "fixed",
    "explore",
    "aimd",
    "falcon",
    "gradient",
    "bayesian",
    "marlin",
    "model_fit",
    "fts3",
];

/// The rules that decide by a policy of [`OptimizerOptions::policy`]: its most likely action, or as their papers do in
/// production (and where the name says so) one drawn.
pub const LEARNED: [&str; 7] =
    ["policy", "policy:sampled", "policy:online", "discrete_rl", "ldm", "automdt", "automdt_discrete"];

/// Whether the rule called `name` decides by a policy.
pub fn needs_policy(name: &str) -> bool {
    LEARNED.contains(&name)
}

/// Makes the rule that goes on learning of a policy and a seed.
pub type MakeOnline = fn(Policy, u64) -> Box<dyn Optimizer>;

/// The policy for every path, as `tidegate train --universal` makes it.
const UNIVERSAL: &[u8] = include_bytes!("../../policies/universal.safetensors");

/// What the rules may be told; each uses what concerns it.
#[derive(Clone, Debug, Default)]
pub struct OptimizerOptions {
    /// Seed of the rules that draw at random.
    pub seed: u64,
    /// The utility of the rules that climb one: form, K and B.
    pub utility: Utility,
    /// How hard `auto` pushes beside the traffic of others; `auto:share=NAME` says it in the name.
    pub share: Share,
    /// AIMD's ε; its default if absent.
    pub epsilon: Option<f64>,
    /// What the [`LEARNED`] rules decide by.
    pub policy: Option<Policy>,
    /// What makes `policy:online`: learning is no business of this crate, so whoever has it hands it in
    /// (`tidegate_train::online::Online::boxed`).
    pub online: Option<MakeOnline>,
}

/// A name that stands for no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptimizerError {
    /// No such rule.
    #[error(
        "no optimizer '{name}': choose one of {}, auto:share=NAME, fixed:N, fixed:READ,NETWORK,WRITE, explore:isolate, aimd:hold, \
         gradient:repaired, bayesian:repaired, marlin:repaired, fts3:aggressive, fts3:interval=TIME, or coupled:RULE \
         or independent:RULE of aimd, falcon, gradient, bayesian, model_fit, fts3",
        NAMES.join(", ")
    )]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// A set-point that could not be read.
    #[error("optimizer '{name}': a set-point is one number or read,network,write, each from 1 to 65535")]
    Setpoint {
        /// What was asked for.
        name: String,
    },
    /// A rule that was learned, without what was learned.
    #[error("optimizer '{name}' needs a policy")]
    NoPolicy {
        /// What was asked for.
        name: String,
    },
    /// A policy that another recipe has made.
    #[error("the policy was trained by the recipe {recipe}, not {name}")]
    Recipe {
        /// What was asked for.
        name: String,
        /// The policy's.
        recipe: Recipe,
    },
    /// A constant outside its range.
    #[error("optimizer '{name}': {reason}")]
    Option {
        /// What was asked for.
        name: String,
        /// What is wrong.
        reason: &'static str,
    },
}

fn setpoint(text: &str) -> Option<Concurrency> {
    let numbers: Vec<u16> =
        text.split(',').map(|n| n.trim().parse().ok().filter(|&n| n > 0)).collect::<Option<_>>()?;
    match numbers[..] {
        [n] => Some(PerStage::all(n)),
        [read, network, write] => Some(PerStage::new(read, network, write)),
        _ => None,
    }
}

/// The one-number rule called `name`, if there is one; why its options cannot be used. It draws from `seed`.
fn stage_rule(
    name: &str,
    options: &OptimizerOptions,
    seed: u64,
) -> Result<Option<Box<dyn StageOptimizer>>, &'static str> {
    if let Some(variant) = name.strip_prefix("fts3:") {
        return Ok(Some(Box::new(Fts3::new(variant.parse()?))));
    }
    let aimd = |start| {
        let default = aimd::AimdConfig::default();
        Aimd::new(aimd::AimdConfig { epsilon: options.epsilon.unwrap_or(default.epsilon), start })
    };
    let utility = options.utility;
    let gradient = |repaired| {
        Gradient::new(gradient::GradientConfig { utility, repaired, ..gradient::GradientConfig::default() })
    };
    let bayesian = |repaired| Bayesian::new(bayesian::BayesianConfig { utility, repaired }, seed);
    Ok(Some(match name {
        "aimd" => Box::new(aimd(aimd::Start::Step)),
        "aimd:hold" => Box::new(aimd(aimd::Start::Hold)),
        "falcon" => Box::new(Falcon::new(falcon::FalconConfig { utility })),
        "gradient" => Box::new(gradient(false)),
        "gradient:repaired" => Box::new(gradient(true)),
        "bayesian" => Box::new(bayesian(false)),
        "bayesian:repaired" => Box::new(bayesian(true)),
        "model_fit" => Box::new(ModelFit::new(model_fit::ModelFitConfig::default())),
        "fts3" => Box::new(Fts3::new(fts3::Fts3Config::default())),
        _ => return Ok(None),
    }))
}

/// Three independent gradients; the read stage is charged for filling its staging (Marlin).
fn marlin(repaired: bool, options: &OptimizerOptions) -> Independent {
    Independent::new(PerStage::from_fn(|stage| {
        let charge_staging = stage == Stage::Read;
        let config = gradient::GradientConfig { utility: options.utility, repaired, charge_staging };
        Box::new(Gradient::new(config)) as Box<dyn StageOptimizer>
    }))
}

/// A rule of [`LEARNED`].
fn learned(name: &str, options: &OptimizerOptions) -> Result<Box<dyn Optimizer>, OptimizerError> {
    let name_again = || name.to_owned();
    let policy = options.policy.clone().ok_or_else(|| OptimizerError::NoPolicy { name: name_again() })?;
    // Half of them are called by the recipe whose policies they decide by.
    if name.parse::<Recipe>().is_ok_and(|recipe| recipe != policy.recipe) {
        return Err(OptimizerError::Recipe { name: name_again(), recipe: policy.recipe });
    }
    let choice = match name {
        "policy" | "discrete_rl" => ActionChoice::Mean,
        "policy:online" => {
            let reason = "nothing was handed in that learns";
            let make = options.online.ok_or(OptimizerError::Option { name: name_again(), reason })?;
            return Ok(make(policy, options.seed));
        }
        _ => ActionChoice::Sampled,
    };
    Ok(Box::new(Learned::new(policy, choice, options.seed)))
}

/// Builds the rule called `name`.
///
/// # Errors
/// In one line: a name that stands for no rule, with those that do; or what is wrong with its options.
///
/// ```
/// use tidegate_control::optimizer::{OptimizerOptions, build};
/// use tidegate_control::{Bounds, Host, PerStage};
///
/// let mut rule = build("fixed:4,8,2", &OptimizerOptions::default())?;
/// let start = rule.start(PerStage::all(Bounds::new(1, 32)), &Host::default());
/// assert_eq!(start.setpoint, PerStage::new(4, 8, 2));
/// assert!(build("fastest", &OptimizerOptions::default()).is_err());
/// # Ok::<(), tidegate_control::optimizer::OptimizerError>(())
/// ```
pub fn build(name: &str, options: &OptimizerOptions) -> Result<Box<dyn Optimizer>, OptimizerError> {
    let unknown = || OptimizerError::Unknown { name: name.to_owned() };
    let wrong = |reason| OptimizerError::Option { name: name.to_owned(), reason };
    if needs_policy(name) {
        return learned(name, options);
    }
    if !(options.utility.k.is_finite() && options.utility.k > 1.0) {
        return Err(wrong("K must be more than 1"));
    }
    if !(options.utility.b.is_finite() && options.utility.b >= 0.0) {
        return Err(wrong("B must not be negative"));
    }
    if options.epsilon.is_some_and(|epsilon| !(0.0..1.0).contains(&epsilon)) {
        return Err(wrong("epsilon must be at least 0 and less than 1"));
    }
    if let Some(rule) = name.strip_prefix("independent:") {
        // A stream of its own for each copy: three stages that draw alike would learn less.
        let copy = |stage: Stage| {
            let seed = options.seed.wrapping_add(stage as u64);
            stage_rule(rule, options, seed).map_err(wrong)?.ok_or_else(unknown)
        };
        let rules = PerStage::new(copy(Stage::Read)?, copy(Stage::Network)?, copy(Stage::Write)?);
        return Ok(Box::new(Independent::new(rules)));
    }
    if let Some(text) = name.strip_prefix("auto:") {
        let share = text.strip_prefix("share=").ok_or_else(unknown)?.parse();
        let share = share.map_err(|_: String| wrong("share is background, fair or full"))?;
        return Ok(Box::new(Optimistic::new(share)));
    }
    let one_number = name.strip_prefix("coupled:").unwrap_or(name);
    if let Some(rule) = stage_rule(one_number, options, options.seed).map_err(wrong)? {
        return Ok(Box::new(Coupled::new(rule)));
    }
    if let Some(text) = name.strip_prefix("fixed:") {
        let setpoint = setpoint(text).ok_or_else(|| OptimizerError::Setpoint { name: name.to_owned() })?;
        return Ok(Box::new(Fixed::new(fixed::FixedConfig { setpoint })));
    }
    Ok(match name {
        "auto" => Box::new(Optimistic::new(options.share)),
        "fixed" => Box::new(Fixed::new(fixed::FixedConfig::default())),
        "explore" => Box::new(Explore::new(explore::ExploreConfig::default(), options.seed)),
        "explore:isolate" => {
            let config =
                explore::ExploreConfig { hold: explore::Hold::Settled, draw: explore::Draw::Isolate };
            Box::new(Explore::new(config, options.seed))
        }
        "universal" => {
            let policy =
                Policy::from_bytes(UNIVERSAL).map_err(|_| wrong("this program's policy is damaged"))?;
            Box::new(Learned::new(policy, ActionChoice::Mean, options.seed))
        }
        "marlin" => Box::new(marlin(false, options)),
        "marlin:repaired" => Box::new(marlin(true, options)),
        _ => return Err(unknown()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Host;
    use crate::stage::Bounds;

    fn start(name: &str) -> Option<Concurrency> {
        let mut rule = build(name, &OptimizerOptions::default()).ok()?;
        Some(rule.start(PerStage::all(Bounds::new(1, 30)), &Host::default()).setpoint)
    }

    #[test]
    fn every_name_builds_and_an_unknown_one_lists_them() {
        for name in NAMES {
            assert!(start(name).is_some(), "{name}");
        }
        for name in [
            "auto:share=full",
            "coupled:aimd",
            "independent:gradient:repaired",
            "independent:model_fit",
            "aimd:hold",
            "marlin:repaired",
            "explore:isolate",
            "fts3:aggressive",
            "coupled:fts3:interval=5s",
            "independent:fts3:aggressive,interval=5s",
        ] {
            assert!(start(name).is_some(), "{name}");
        }
        for name in ["", "coupled:auto", "independent:", "gradients", "fixed4", "coupled:coupled:aimd"] {
            let error = build(name, &OptimizerOptions::default()).err().map(|error| error.to_string());
            assert!(error.is_some_and(|text| NAMES.iter().all(|name| text.contains(name))), "{name}");
        }
    }

    #[test]
    fn a_rules_own_options_are_refused_with_what_it_takes() {
        for name in ["fts3:", "fts3:interval=0s", "coupled:fts3:fast", "independent:fts3:interval=5"] {
            let error = build(name, &OptimizerOptions::default()).err().map(|error| error.to_string());
            assert!(error.is_some_and(|text| text.contains(name) && text.contains("interval")), "{name}");
        }
    }

    #[test]
    fn a_set_point_is_one_number_or_three() {
        assert_eq!(start("fixed:4"), Some(PerStage::all(4)));
        assert_eq!(start("fixed:13,7,5"), Some(PerStage::new(13, 7, 5)));
        for bad in ["fixed:", "fixed:0", "fixed:1,2", "fixed:1,2,3,4", "fixed:x", "fixed:70000"] {
            assert_eq!(start(bad), None, "{bad}");
        }
    }

    #[test]
    fn constants_outside_their_range_are_refused() {
        let with = |k, b, epsilon| {
            let utility = Utility { k, b, ..Utility::default() };
            build("aimd", &OptimizerOptions { utility, epsilon, ..OptimizerOptions::default() }).is_ok()
        };
        assert!(with(1.02, 10.0, None) && with(1.02, 0.0, Some(0.0)));
        assert!(!with(1.0, 10.0, None) && !with(f64::NAN, 10.0, None));
        assert!(!with(1.02, -1.0, None) && !with(1.02, 10.0, Some(1.0)));
    }

    #[test]
    fn a_rule_that_was_learned_wants_a_policy_of_its_recipe() {
        let policy = Policy::from_bytes(UNIVERSAL).ok();
        let why = |name: &str, options: OptimizerOptions| build(name, &options).err().map(|e| e.to_string());
        let with =
            |online| OptimizerOptions { policy: policy.clone(), online, ..OptimizerOptions::default() };
        let learns: MakeOnline = |policy, seed| Box::new(Learned::new(policy, ActionChoice::Sampled, seed));
        for name in LEARNED {
            let bare = why(name, OptimizerOptions::default());
            assert!(bare.is_some_and(|why| why.contains(name) && why.contains("needs a policy")), "{name}");
            let of_another = why(name, with(Some(learns)));
            assert_eq!(of_another.is_none(), name.starts_with("policy"), "{name}: {of_another:?}");
        }
        assert!(why("ldm", with(None)).is_some_and(|why| why.contains("the recipe universal, not ldm")));
        assert!(why("policy:online", with(None)).is_some_and(|why| why.contains("nothing was handed in")));
    }
}
