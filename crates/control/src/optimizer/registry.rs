//! From a name to a rule: the one place where that is decided, for transfers, the simulator and Python.
//!
//! `NAME`, `NAME:KEY=VALUE,KEY=VALUE` (what [`RULES`] tells), or a one-number rule behind `coupled:` (one n for all
//! stages, the default for such rules) or `independent:` (a copy a stage). The [`LEARNED`] ones are told their policy.

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
use crate::optimizer::rules::{Constants, LEARNED_RULES, RULES, RuleDescription, without_prefix};
use crate::optimizer::{Optimizer, StageOptimizer};
use crate::policy::{Policy, Recipe};
use crate::share::Share;
use crate::stage::{Concurrency, PerStage, Stage};
use crate::utility::{LossTerm, Utility};

/// The rules there are that need nothing else, the default first.
pub const NAMES: [&str; RULES.len()] = {
    let mut names = [""; RULES.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = RULES[i].name;
        i += 1;
    }
    names
};

/// The rules that decide by a policy of [`OptimizerOptions::policy`]: its most likely action, or as their papers do in
/// production (and where the name says so) one drawn.
pub const LEARNED: [&str; 7] =
    ["policy", "policy:sampled", "policy:online", "discrete_rl", "ldm", "automdt", "automdt_discrete"];

/// The rule called `name`, if it decides by a policy.
fn learned_rule(name: &str) -> Option<&'static RuleDescription> {
    RuleDescription::of(name).filter(|rule| LEARNED_RULES.iter().any(|learned| learned.name == rule.name))
}

/// Whether the rule called `name` decides by a policy.
pub fn needs_policy(name: &str) -> bool {
    learned_rule(name).is_some()
}

/// Whether the rule called `name` goes on learning while it drives.
pub fn goes_on_learning(name: &str) -> bool {
    let constants = learned_rule(name).map(|rule| Constants::read(rule, text(name)));
    constants.is_some_and(|constants| constants.is_ok_and(|constants| constants.has("online")))
}

/// Makes the rule that goes on learning of a policy, a seed, and what an epoch is worth.
pub type MakeOnline = fn(Policy, u64, Utility) -> Box<dyn Optimizer>;

/// The policy for every path, as `tidegate train --universal` makes it.
const UNIVERSAL: &[u8] = include_bytes!("../../policies/universal.safetensors");

/// What the rules are told beside their constants, which are in their names.
#[derive(Clone, Debug, Default)]
pub struct OptimizerOptions {
    /// Seed of the rules that draw at random.
    pub seed: u64,
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
        "no optimizer '{name}': choose one of {}, fixed:N, fixed:READ,NETWORK,WRITE, RULE:KEY=VALUE,KEY=VALUE (as in \
         aimd:epsilon=1%), or coupled:RULE or independent:RULE of {}, or by a policy {}",
        NAMES.join(", "),
        one_number_rules(),
        LEARNED.join(", ")
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
    /// A constant that the rule does not have, or outside its range.
    #[error("optimizer '{name}': {reason}")]
    Option {
        /// What was asked for.
        name: String,
        /// What is wrong.
        reason: String,
    },
}

fn one_number_rules() -> String {
    let names: Vec<_> = RULES.iter().filter(|rule| rule.one_number).map(|rule| rule.name).collect();
    names.join(", ")
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

/// What stands behind the colon of a name.
fn text(name: &str) -> Option<&str> {
    without_prefix(name).split_once(':').map(|(_, text)| text)
}

/// The utility `default`, with the constants that the name gave.
fn utility(constants: &Constants, default: Utility) -> Utility {
    let Utility { k, b, loss_term } = default;
    Utility {
        k: constants.number("k").unwrap_or(k),
        b: constants.number("b").unwrap_or(b),
        loss_term: match constants.word("loss") {
            Some("none") => LossTerm::None,
            Some("ldm") => LossTerm::Ldm,
            Some(_) => LossTerm::Falcon,
            None => loss_term,
        },
    }
}

fn aimd_config(constants: &Constants) -> aimd::AimdConfig {
    let default = aimd::AimdConfig::default();
    let epsilon = constants.number("epsilon").unwrap_or(default.epsilon);
    let start = if constants.has("hold") { aimd::Start::Hold } else { default.start };
    aimd::AimdConfig { epsilon, start }
}

fn gradient_config(constants: &Constants, charge_staging: bool) -> gradient::GradientConfig {
    let (utility, repaired) = (utility(constants, Utility::default()), constants.has("repaired"));
    gradient::GradientConfig { utility, repaired, charge_staging }
}

fn model_fit_config(constants: &Constants) -> model_fit::ModelFitConfig {
    let default = model_fit::ModelFitConfig::default();
    let models = constants.word("model").and_then(|name| name.parse().ok());
    model_fit::ModelFitConfig {
        models: models.unwrap_or(default.models),
        threshold: constants.threshold("threshold").unwrap_or(default.threshold),
        surprise: constants.number("surprise").unwrap_or(default.surprise),
        change: constants.number("change").unwrap_or(default.change),
        patience: constants.count("patience").map_or(default.patience, u32::from),
    }
}

fn fts3_config(constants: &Constants) -> fts3::Fts3Config {
    let default = fts3::Fts3Config::default();
    fts3::Fts3Config {
        interval: constants.time("interval").unwrap_or(default.interval),
        aggressive: constants.has("aggressive"),
    }
}

fn explore_config(constants: &Constants) -> explore::ExploreConfig {
    match constants.has("isolate") {
        true => explore::ExploreConfig { hold: explore::Hold::Settled, draw: explore::Draw::Isolate },
        false => explore::ExploreConfig::default(),
    }
}

/// The one-number rule called `name`, if there is one. It draws from `seed`.
fn stage_rule(name: &str, constants: &Constants, seed: u64) -> Option<Box<dyn StageOptimizer>> {
    let utility = utility(constants, Utility::default());
    Some(match name {
        "aimd" => Box::new(Aimd::new(aimd_config(constants))),
        "falcon" => Box::new(Falcon::new(falcon::FalconConfig { utility })),
        "gradient" => Box::new(Gradient::new(gradient_config(constants, false))),
        "bayesian" => {
            let repaired = constants.has("repaired");
            Box::new(Bayesian::new(bayesian::BayesianConfig { utility, repaired }, seed))
        }
        "model_fit" => Box::new(ModelFit::new(model_fit_config(constants))),
        "fts3" => Box::new(Fts3::new(fts3_config(constants))),
        _ => return None,
    })
}

/// Three independent gradients; the read stage is charged for filling its staging (Marlin).
fn marlin(constants: &Constants) -> Independent {
    Independent::new(PerStage::from_fn(|stage| {
        let config = gradient_config(constants, stage == Stage::Read);
        Box::new(Gradient::new(config)) as Box<dyn StageOptimizer>
    }))
}

/// The rule called `name` of [`LEARNED_RULES`].
fn learned(
    name: &str,
    rule: &RuleDescription,
    options: &OptimizerOptions,
) -> Result<Box<dyn Optimizer>, OptimizerError> {
    let wrong = |reason: String| OptimizerError::Option { name: name.to_owned(), reason };
    let constants = Constants::read(rule, text(name)).map_err(wrong)?;
    let learns = constants.has("online");
    if let Some(key) = constants.first_of(&["k", "b", "loss"]).filter(|_| !learns) {
        return Err(wrong(format!(
            "{key} goes with {}:online: any other policy has it from its training",
            rule.name
        )));
    }
    if learns && constants.has("sampled") {
        return Err(wrong("sampled and online are two ways to decide: choose one".to_owned()));
    }
    let policy = options.policy.clone().ok_or_else(|| OptimizerError::NoPolicy { name: name.to_owned() })?;
    // All but one are called by the recipe whose policies they decide by.
    if rule.name.parse::<Recipe>().is_ok_and(|recipe| recipe != policy.recipe) {
        return Err(OptimizerError::Recipe { name: rule.name.to_owned(), recipe: policy.recipe });
    }
    if learns {
        let make = options.online.ok_or_else(|| wrong("nothing was handed in that learns".to_owned()))?;
        return Ok(make(policy, options.seed, utility(&constants, Utility::WITHOUT_LOSS)));
    }
    let is_likeliest = rule.name == "discrete_rl" || (rule.name == "policy" && !constants.has("sampled"));
    let choice = if is_likeliest { ActionChoice::Mean } else { ActionChoice::Sampled };
    Ok(Box::new(Learned::new(policy, choice, options.seed)))
}

/// How hard the rule called `name` pushes, if that can be said of it.
pub fn share_of(name: &str) -> Option<Share> {
    let rule = RuleDescription::of(name).filter(|rule| rule.name == "auto")?;
    let constants = Constants::read(rule, text(name)).ok()?;
    constants.word("share").map_or(Some(Share::default()), |word| word.parse().ok())
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
    let wrong = |reason: &str| OptimizerError::Option { name: name.to_owned(), reason: reason.to_owned() };
    if let Some(rule) = learned_rule(name) {
        return learned(name, rule, options);
    }
    if let Some(text) = name.strip_prefix("fixed:") {
        let setpoint = setpoint(text).ok_or_else(|| OptimizerError::Setpoint { name: name.to_owned() })?;
        return Ok(Box::new(Fixed::new(fixed::FixedConfig { setpoint })));
    }
    let rule = RuleDescription::of(name).ok_or_else(unknown)?;
    let constants = Constants::read(rule, text(name)).map_err(|why| wrong(&why))?;
    if name.starts_with("independent:") {
        // A stream of its own for each copy: three stages that draw alike would learn less.
        let copy = |stage: Stage| {
            let seed = options.seed.wrapping_add(stage as u64);
            stage_rule(rule.name, &constants, seed).ok_or_else(unknown)
        };
        let rules = PerStage::new(copy(Stage::Read)?, copy(Stage::Network)?, copy(Stage::Write)?);
        return Ok(Box::new(Independent::new(rules)));
    }
    if let Some(rule) = stage_rule(rule.name, &constants, options.seed) {
        return Ok(Box::new(Coupled::new(rule)));
    }
    Ok(match rule.name {
        "auto" => {
            let share = constants.word("share").map_or(Ok(Share::default()), str::parse);
            Box::new(Optimistic::new(share.map_err(|why: String| wrong(&why))?))
        }
        "fixed" => Box::new(Fixed::new(fixed::FixedConfig::default())),
        "explore" => Box::new(Explore::new(explore_config(&constants), options.seed)),
        "universal" => {
            let policy =
                Policy::from_bytes(UNIVERSAL).map_err(|_| wrong("this program's policy is damaged"))?;
            Box::new(Learned::new(policy, ActionChoice::Mean, options.seed))
        }
        "marlin" => Box::new(marlin(&constants)),
        _ => return Err(unknown()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use crate::optimizer::rules::with_constants;
    use crate::stage::Bounds;
    use crate::throughput_model::ModelSelection;
    use crate::throughput_model::sampling::Threshold;
    use crate::units::BitRate;

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
    fn every_default_that_is_told_is_the_one_that_holds() {
        for rule in RULES.iter().chain(&LEARNED_RULES) {
            let learned = needs_policy(rule.name);
            let usual = if learned { Utility::WITHOUT_LOSS } else { Utility::default() };
            for key in rule.keys {
                let Some(default) = key.default else { continue };
                let text = format!("{}={default}", key.name);
                let told = Constants::read(rule, Some(&text)).expect(&text);
                let of = |c: &Constants| {
                    (
                        (aimd_config(c), utility(c, usual), model_fit_config(c)),
                        (
                            fts3_config(c),
                            explore_config(c),
                            c.word("share").unwrap_or(Share::default().name()),
                        ),
                    )
                };
                assert_eq!(of(&told), of(&Constants::default()), "{}:{text}", rule.name);
            }
        }
    }

    #[test]
    fn constants_behind_a_name_are_read_with_their_units() {
        let read = |name: &str, text| {
            Constants::read(RuleDescription::of(name).expect("a rule"), Some(text)).expect("good")
        };
        for text in ["epsilon=0.5%,hold", "hold, epsilon = 0.005"] {
            let aimd = aimd_config(&read("aimd", text));
            assert_eq!(aimd, aimd::AimdConfig { epsilon: 0.005, start: aimd::Start::Hold });
        }
        let gradient = gradient_config(&read("coupled:gradient", "k=1.05,b=0,loss=ldm,repaired"), false);
        assert_eq!(gradient.utility, Utility { k: 1.05, b: 0.0, loss_term: LossTerm::Ldm });
        assert!(gradient.repaired);
        assert_eq!(fts3_config(&read("fts3", "interval=5s")).interval, std::time::Duration::from_secs(5));
        let fit = model_fit_config(&read("model_fit", "surprise=30%,change=0.4,patience=7,model=published"));
        assert_eq!((fit.surprise, fit.change, fit.patience), (0.3, 0.4, 7));
        assert_eq!(fit.models, ModelSelection::Published);
        for (text, wanted) in [
            ("threshold=5%", Threshold::Relative(0.05)),
            ("threshold=20Mbit/s", Threshold::Absolute(BitRate::mbps(20))),
        ] {
            assert_eq!(model_fit_config(&read("model_fit", text)).threshold, wanted);
        }
        assert_eq!(model_fit_config(&read("model_fit", "published")).models, ModelSelection::Published);
        let one = model_fit_config(&read("model_fit", "full-second-order")).models;
        assert_eq!(one.name(), "full_second_order");
        let gradient = gradient_config(&read("gradient", "none,repaired"), false);
        assert_eq!((gradient.utility.loss_term, gradient.repaired), (LossTerm::None, true));
    }

    #[test]
    fn a_rules_own_options_are_refused_with_what_it_takes() {
        for (name, keys) in [
            ("aimd:", "epsilon"),
            ("aimd:eps=1%", "epsilon"),
            ("aimd:epsilon", "epsilon"),
            ("aimd:epsilon=100%", "less than 1"),
            ("coupled:aimd:epsilon=NaN", "2%"),
            ("aimd:hold=1", "hold"),
            ("aimd:hold,hold", "twice"),
            ("falcon:k=1", "more than 1"),
            ("falcon:k=inf", "more than 1"),
            ("gradient:b=-1", "at least 0"),
            ("bayesian:loss=some", "falcon or ldm or none"),
            ("marlin:k=", "repaired"),
            ("model_fit:patience=0", "from 1 to 3600"),
            (
                "model_fit:model=newton",
                "averaged or published or full_second_order or dynamic_order or dinda",
            ),
            ("model_fit:newton", "no key 'newton'"),
            ("model_fit:published,model=averaged", "twice"),
            ("explore:isolated", "isolate"),
            ("auto:share=half", "background or fair or full"),
            ("universal:k=2", "no keys"),
        ] {
            let error = build(name, &OptimizerOptions::default()).err().map(|error| error.to_string());
            assert!(
                error.as_ref().is_some_and(|text| {
                    text.contains(name) && text.contains(keys) && text.lines().count() == 1
                }),
                "{name}: {error:?}"
            );
        }
        for name in [
            "fts3:",
            "fts3:interval=2h",
            "fts3:aggressive,",
            "fts3:aggressive=1",
            "fts3:interval=0s",
            "coupled:fts3:fast",
            "independent:fts3:interval=5",
        ] {
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
    fn options_of_constants_that_a_rule_does_not_have_are_refused() {
        let k = ("--utility-k", "k", "1.05");
        for (name, option) in [
            ("auto", k),
            ("automdt_of_mine", k),
            ("fixed:4", k),
            ("aimd", k),
            ("coupled:aimd", ("--utility-loss", "loss", "ldm")),
            ("universal", ("--utility-b", "b", "1")),
            ("gradient", ("--share", "share", "full")),
            ("model_fit", ("--aimd-epsilon", "epsilon", "1%")),
        ] {
            let why = with_constants(name, [option]).expect_err(name);
            assert!(why.starts_with(option.0) && why.contains(name) && why.lines().count() == 1, "{why}");
        }
        let why = with_constants("auto", [k]).expect_err("no K");
        assert!(why.contains("falcon, gradient, bayesian, marlin, policy"), "{why}");
        let told = with_constants("independent:gradient:repaired", [k, ("--utility-b", "b", "1")]);
        assert_eq!(told.as_deref(), Ok("independent:gradient:repaired,k=1.05,b=1"));
        // What is there twice is refused, as it is in the name.
        let twice = with_constants("gradient:k=1.01", [k])
            .map(|name| build(&name, &OptimizerOptions::default()).is_ok());
        assert_eq!(twice, Ok(false));
    }

    #[test]
    fn a_rule_that_was_learned_wants_a_policy_of_its_recipe() {
        let policy = Policy::from_bytes(UNIVERSAL).ok();
        let why = |name: &str, options: OptimizerOptions| build(name, &options).err().map(|e| e.to_string());
        let with =
            |online| OptimizerOptions { policy: policy.clone(), online, ..OptimizerOptions::default() };
        let learns: MakeOnline = |policy, seed, utility| {
            assert_eq!((utility.b, utility.loss_term != LossTerm::Ldm), (10.0, utility.k == 1.02));
            Box::new(Learned::new(policy, ActionChoice::Sampled, seed))
        };
        for name in LEARNED {
            let bare = why(name, OptimizerOptions::default());
            assert!(bare.is_some_and(|why| why.contains(name) && why.contains("needs a policy")), "{name}");
            let of_another = why(name, with(Some(learns)));
            assert_eq!(of_another.is_none(), name.starts_with("policy"), "{name}: {of_another:?}");
        }
        assert!(why("ldm", with(None)).is_some_and(|why| why.contains("the recipe universal, not ldm")));
        assert!(why("policy:online", with(None)).is_some_and(|why| why.contains("nothing was handed in")));
        assert_eq!(why("policy:online,k=1.05,loss=ldm", with(Some(learns))), None);
        assert!(goes_on_learning("policy:online,k=1.05") && goes_on_learning("automdt:online"));
        assert!(
            !goes_on_learning("policy") && !goes_on_learning("auto") && !goes_on_learning("policy:online,x")
        );
        for (name, wanted) in [
            ("policy:k=1.05", "k goes with policy:online"),
            ("ldm:loss=ldm", "loss goes with ldm:online"),
            ("policy:sampled,online", "choose one"),
            ("policy:online,k=1", "more than 1"),
            ("automdt:sampled", "no key 'sampled'"),
        ] {
            assert!(why(name, with(Some(learns))).is_some_and(|why| why.contains(wanted)), "{name}");
        }
    }
}
