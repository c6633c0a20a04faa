//! The rules and trained agents that are compared.

use tidegate_control::Optimizer;
use tidegate_control::optimizer::policy::{ActionChoice, Learned};
use tidegate_control::optimizer::{OptimizerOptions, build};
use tidegate_control::policy::{Policy, Recipe};
use tidegate_train::ppo::PpoConfig;
use tidegate_train::practice::PathTask;
use tidegate_train::published::{Constants, Published};
use tidegate_train::session::{Session, Stop, Trainer};

use crate::{Result, scenario};

/// Rules that need no training; names that this build does not know are left out.
const RULES: [&str; 10] = [
    "auto",
    "universal",
    "fixed:8",
    "aimd",
    "falcon",
    "gradient",
    "bayesian",
    "marlin",
    "marlin:repaired",
    "fts3",
];

/// Episodes after which a published training is ended.
const EPISODES: u64 = 8_000;

/// Something that decides.
pub struct Contender {
    /// The rule's name, or the agent's and its path's.
    pub name: String,
    policy: Option<(Policy, ActionChoice)>,
}

impl Contender {
    /// A fresh one.
    pub fn optimizer(&self, seed: u64) -> Result<Box<dyn Optimizer>> {
        Ok(match &self.policy {
            Some((policy, choice)) => Box::new(Learned::new(policy.clone(), *choice, seed)),
            None => build(&self.name, &OptimizerOptions { seed, ..OptimizerOptions::default() })?,
        })
    }
}

fn finish(trainer: &mut dyn Trainer) -> Result<Policy> {
    while !trainer.advance().done {}
    Ok(trainer.policy(Default::default()).ok_or("the training left no policy")?)
}

/// A policy of `recipe` that knows one path.
pub fn trained(recipe: Recipe, path: &str) -> Result<Policy> {
    eprintln!("training {} on {path}", recipe.name());
    let scenario = scenario(path)?;
    if matches!(recipe, Recipe::Ldm | Recipe::Automdt | Recipe::AutomdtDiscrete) {
        let constants = Constants { most: EPISODES, ..Constants::of(recipe) };
        return finish(&mut Published::new(&scenario, recipe, constants, 1));
    }
    let task = PathTask::of(&scenario, recipe, 1.02);
    let scales = (recipe, task.scales);
    finish(&mut Session::new(&task, scales, PpoConfig::default(), Stop::default(), 1))
}

/// The agent with that policy, deciding as its paper does.
fn agent(recipe: Recipe, path: &str) -> Result<Contender> {
    let policy = trained(recipe, path)?;
    let draws = matches!(recipe, Recipe::Ldm | Recipe::Automdt | Recipe::AutomdtDiscrete);
    let choice = if draws { ActionChoice::Sampled } else { ActionChoice::Mean };
    Ok(Contender { name: format!("{}, trained on {path}", recipe.name()), policy: Some((policy, choice)) })
}

/// Those that need no training.
pub fn rules() -> Vec<Contender> {
    let known = |name: &&str| build(name, &OptimizerOptions::default()).is_ok();
    RULES.into_iter().filter(known).map(|name| Contender { name: name.to_owned(), policy: None }).collect()
}

/// All of them; the agents have learned one path and meet every other for the first time.
pub fn all() -> Result<Vec<Contender>> {
    let mut contenders = rules();
    contenders.push(agent(Recipe::DiscreteRl, "ldm-10g")?);
    contenders.push(agent(Recipe::Ldm, "ldm-10g")?);
    contenders.push(agent(Recipe::Automdt, "automdt-read")?);
    contenders.push(agent(Recipe::Fast, "automdt-read")?);
    Ok(contenders)
}
