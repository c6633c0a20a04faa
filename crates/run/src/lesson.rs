//! What a rule that goes on learning has learned: handed from one try of a job to the next, and kept in a file at its
//! end.

use tidegate_control::optimizer::Optimizer;
use tidegate_control::policy::{Policy, UPDATES};
use tidegate_spec::control::Control;
use tidegate_transfer::error::Result;

use crate::settings::{optimizer_after, policy_of};
use crate::whole_file::WholeFile;

/// Facts of a policy that went on learning: how many runs and epochs it has behind it, and file, program and seed of the
/// last run.
const RUNS: &str = "online.runs";
const EPOCHS: &str = "online.epochs";
const BEGUN_WITH: &str = "online.begun_with";
const PROGRAM: &str = "online.program";
const SEED: &str = "online.seed";

/// What is learned while a job runs.
pub struct Lesson<'a> {
    control: &'a Control,
    /// What was learned so far.
    learned: Option<Policy>,
    /// Updates that the policy had behind it before.
    updates_before: u64,
}

impl<'a> Lesson<'a> {
    /// Of a job under `control`; refused if what is learned could not be kept where that is asked for.
    pub fn begin(control: &'a Control) -> Result<Self> {
        let mut updates_before = 0;
        if let (Some(file), Some(policy)) = (&control.local.save_policy, &control.local.policy) {
            drop(WholeFile::begin(file)?);
            updates_before = number(&policy_of(policy)?, UPDATES);
        }
        Ok(Self { control, learned: None, updates_before })
    }

    /// The rule for the next try.
    pub fn rule(&self) -> Result<Box<dyn Optimizer>> {
        optimizer_after(self.control, self.learned.clone())
    }

    /// Takes over what `rule` learned in a try.
    pub fn take(&mut self, rule: &dyn Optimizer) {
        if let Some(learned) = rule.learned() {
            self.learned = Some(learned);
        }
    }

    /// Keeps what was learned in so many epochs, where that is asked for. What cannot be kept is warned of: the job is
    /// done all the same.
    pub fn keep(self, epochs: usize) {
        let (Some(file), Some(begun_with)) = (&self.control.local.save_policy, &self.control.local.policy)
        else {
            return;
        };
        let shown = file.display();
        let Some(mut policy) = self.learned else {
            tracing::warn!("{shown} is not written: what was learned is no longer numbers");
            return;
        };
        let updates = number(&policy, UPDATES).saturating_sub(self.updates_before);
        for (name, more) in [(RUNS, 1), (EPOCHS, epochs as u64)] {
            let sum = number(&policy, name).saturating_add(more);
            policy.facts.insert(name.to_owned(), sum.to_string());
        }
        let begun_with = begun_with.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for (name, text) in [
            (BEGUN_WITH, begun_with),
            (PROGRAM, format!("tidegate {}", env!("CARGO_PKG_VERSION"))),
            (SEED, self.control.spec.seed.to_string()),
        ] {
            policy.facts.insert(name.to_owned(), text);
        }
        match WholeFile::begin(file).and_then(|whole| whole.commit(policy.to_bytes())) {
            Ok(()) if updates == 0 => {
                tracing::warn!("{shown} is as it was before: {epochs} epochs were too few to learn from");
            }
            Ok(()) => tracing::info!("{shown} has learned from {epochs} epochs, in {updates} updates"),
            Err(error) => tracing::warn!("what was learned is lost: {error}"),
        }
    }
}

/// A count among the facts of `policy`; 0 where it tells none.
fn number(policy: &Policy, fact: &str) -> u64 {
    policy.facts.get(fact).and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use tidegate_control::{Scenario, SimulatorOptions, simulate};

    use super::*;
    use crate::typed::parsed;

    #[test]
    fn what_one_try_taught_the_next_one_knows() {
        let directory = tempfile::tempdir().expect("a directory");
        let saved = directory.path().join("saved");
        let first = concat!(env!("CARGO_MANIFEST_DIR"), "/../control/policies/universal.safetensors");
        let kept_at = saved.to_str().expect("text");
        let words = ["--optimizer=policy:online", "--policy", first, "--save-policy", kept_at];
        let control: Control = parsed(&words);
        let scenario =
            Scenario::from_toml(include_str!("../../../scenarios/automdt-read.toml")).expect("a path");
        let mut lesson = Lesson::begin(&control).expect("it can be kept");
        // Two tries of 25 epochs: two lessons each.
        let mut learned = Vec::new();
        for seed in 0..2 {
            let mut rule = lesson.rule().expect("a rule");
            let options = SimulatorOptions::new(seed, std::time::Duration::from_secs(1), 25);
            simulate(&scenario, rule.as_mut(), None, options);
            lesson.take(rule.as_ref());
            learned.push(rule.learned().expect("numbers"));
        }
        assert_eq!(learned.iter().map(|policy| number(policy, UPDATES)).collect::<Vec<_>>(), [2, 4]);
        assert_ne!(learned[0].actor, learned[1].actor);
        lesson.keep(50);
        let kept = policy_of(&saved).expect("a policy");
        assert_eq!(
            (&kept.actor, &kept.critic, &kept.log_sigma),
            (&learned[1].actor, &learned[1].critic, &learned[1].log_sigma)
        );
        assert_eq!((number(&kept, EPOCHS), number(&kept, RUNS)), (50, 1));
        // Spreading its draws is left to who goes on from it.
        let first = policy_of(std::path::Path::new(first)).expect("a policy");
        let far = kept.log_sigma.iter().zip(&first.log_sigma).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(far < 1e-2 && kept.recipe == first.recipe && kept.scales == first.scales, "{far}");
    }
}
