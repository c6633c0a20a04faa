//! Training as a whole: the same seed gives the same policy, and the policy finds the optimum and
//! drives a path to it.

use std::collections::BTreeMap;

use tidegate_control::optimizer::policy::{ActionChoice, Learned};
use tidegate_control::policy::{Policy, Recipe};
use tidegate_control::{PerStage, Scenario, SimulatorOptions, Utility, simulate};
use tidegate_train::online::Online;
use tidegate_train::ppo::PpoConfig;
use tidegate_train::practice::PathTask;
use tidegate_train::published::{Constants, Published};
use tidegate_train::session::{Session, Stop, Trainer};
use tidegate_train::universal::{self, Universal};

fn scenario() -> Scenario {
    Scenario::from_toml(
        "name = \"short\"\ndescription = \"ten streams fill the link\"\n\
         [network]\nworker_rate = \"100Mbit/s\"\nmax_workers = 32\n[link]\nrate = \"1Gbit/s\"\n",
    )
    .expect("a scenario")
}

/// Few and narrow layers: quick without optimisation too.
fn small(threads: usize) -> PpoConfig {
    PpoConfig { width: 16, blocks: 1, threads, ..PpoConfig::default() }
}

fn trained(threads: usize, seed: u64, batches: usize) -> Policy {
    let task = PathTask::of(&scenario(), Recipe::Fast, 1.02);
    let mut session = Session::new(&task, (Recipe::Fast, task.scales), small(threads), Stop::default(), seed);
    for _ in 0..batches {
        session.advance();
    }
    session.examine();
    session.policy(BTreeMap::new()).expect("examined")
}

#[test]
fn the_same_seed_gives_the_same_weights_with_one_thread_and_with_two() {
    let one = trained(1, 7, 3);
    assert!(one == trained(2, 7, 3));
    assert!(one == trained(2, 7, 3));
    assert!(one.actor != trained(2, 8, 3).actor);
}

#[test]
fn a_policy_learns_its_path_and_drives_it() {
    let seed = 1;
    let task = PathTask::of(&scenario(), Recipe::Fast, 1.02);
    let stop = Stop { idle: 300, most: 6_000, ..Stop::default() };
    let mut session = Session::new(&task, (Recipe::Fast, task.scales), small(2), stop, seed);
    let progress = loop {
        let progress = session.advance();
        if progress.done {
            break progress;
        }
    };
    assert!(progress.best > 0.9, "seed {seed}: {progress:?}");
    let policy = session.policy(BTreeMap::new()).expect("examined");
    let loaded = Policy::from_bytes(&policy.to_bytes()).expect("its own file");
    assert!(loaded == policy);
    let mut rule = Learned::new(loaded, ActionChoice::Mean, 1);
    let options = SimulatorOptions::new(1, std::time::Duration::from_secs(1), 10);
    let run = simulate(&scenario(), &mut rule, Some(PerStage::all(1)), options);
    let last = run.epochs.last().expect("ten epochs").setpoint;
    assert!((9..=12).contains(&last.network), "seed {seed}: {last:?}");
}

#[test]
fn steps_up_and_down_are_learned_too() {
    let seed = 2;
    let task = PathTask::of(&scenario(), Recipe::DiscreteRl, 1.02);
    let stop = Stop { exam_every: 64, ..Stop::default() };
    let mut session = Session::new(&task, (Recipe::DiscreteRl, task.scales), small(2), stop, seed);
    session.examine();
    let before = session.progress().best;
    let mut progress = session.progress();
    while progress.episodes < 1_000 && progress.best < 0.85 {
        progress = session.advance();
    }
    assert!(progress.best > before + 0.1, "seed {seed}: {progress:?} from {before}");
    let policy = session.policy(BTreeMap::new()).expect("examined");
    assert!(Policy::from_bytes(&policy.to_bytes()).is_ok_and(|read| read == policy));
}

#[test]
fn the_published_recipe_with_choices_learns_and_comes_out_the_same_again() {
    let text = include_str!("../../../../scenarios/automdt-read.toml");
    // What it says to expect holds for thirty.
    let path = text.split("[expected]").next().expect("the path");
    let scenario =
        Scenario::from_toml(&path.replace("max_workers = 30", "max_workers = 8")).expect("a scenario");
    let train = |seed, episodes| {
        let constants = Constants { blocks: 1, most: episodes, ..Constants::of(Recipe::AutomdtDiscrete) };
        let mut training = Published::new(&scenario, Recipe::AutomdtDiscrete, constants, seed);
        let mut shares = Vec::new();
        loop {
            let progress = training.advance();
            if progress.episodes.is_multiple_of(100) || progress.done {
                shares.push(progress.recent);
            }
            if progress.done {
                return (shares, training.policy(BTreeMap::new()).expect("finite"));
            }
        }
    };
    let (shares, policy) = train(1, 600);
    let (first, last) = (shares[0], shares[shares.len() - 1]);
    assert!(last > first + 0.05, "{shares:?}");
    assert_eq!(policy.actor.shape().outputs, 24);
    assert!(Policy::from_bytes(&policy.to_bytes()).is_ok_and(|read| read == policy));
    assert_eq!(train(1, 20).1, train(1, 20).1, "the same seed gives the same weights");
    assert_ne!(train(1, 20).1.actor, train(2, 20).1.actor);
    let mut rule = Learned::new(policy, ActionChoice::Sampled, 1);
    let options = SimulatorOptions::new(1, std::time::Duration::from_secs(1), 10);
    let run = simulate(&scenario, &mut rule, None, options);
    assert!(!rule.has_fallen_back() && run.epochs.iter().all(|epoch| epoch.setpoint.read <= 8));
}

#[test]
fn a_policy_goes_on_learning_while_it_drives() {
    let policy = trained(2, 7, 3);
    let run = |seed| {
        let mut rule = Online::new(policy.clone(), seed, Utility::WITHOUT_LOSS);
        let options = SimulatorOptions::new(1, std::time::Duration::from_secs(1), 41);
        let run = simulate(&scenario(), &mut rule, None, options);
        assert_eq!(rule.updates(), 4);
        run.epochs.iter().map(|epoch| epoch.setpoint.network).collect::<Vec<_>>()
    };
    let first = run(1);
    assert!(first.iter().all(|n| (1..=32).contains(n)), "{first:?}");
    assert_eq!(first, run(1), "the same seed gives the same decisions");
    assert_ne!(first, run(2));
}

#[test]
fn the_policy_for_every_path_comes_out_the_same_with_one_thread_and_with_two() {
    let small = |threads, seed| {
        let config = universal::UniversalConfig {
            width: 16,
            blocks: 1,
            environments: 6,
            minibatches: 3,
            batches: 2,
            exam_every: 1,
            exam_paths: 4,
            threads,
            ..universal::UniversalConfig::default()
        };
        let mut training = Universal::new(config, seed);
        while !training.advance().done {}
        assert_eq!(training.progress().episodes, 12, "two batches");
        training.policy(BTreeMap::new()).expect("examined")
    };
    let one = small(1, 7);
    assert_eq!(one, small(2, 7));
    assert_ne!(one.actor, small(2, 8).actor);
    assert_eq!(Policy::from_bytes(&one.to_bytes()), Ok(one));
}
