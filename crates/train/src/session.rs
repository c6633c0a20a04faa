//! Training until it is good enough: the papers' rule, on means per step and on the policy that
//! will be used.
//!
//! The papers stop when the best episode reached 0.9·R_max and 1,000 more brought nothing better.
//! A lucky episode can meet that, so here the mean of the last hundred must, and what counts as
//! better is the deterministic policy's score from random starts. The best policy is kept.

use std::collections::{BTreeMap, VecDeque};

use tidegate_control::Concurrency;
use tidegate_control::policy::{Policy, Recipe, Scales};

use crate::actor::{Actor, Critic};
use crate::ppo::{Exam, ExamResult, Ppo, PpoConfig};
use crate::practice::TrainingTask;

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stop {
    /// The share of R_max that a mean of `window` episodes must reach; 0.9 in the papers.
    pub enough: f32,
    /// Episodes in that mean.
    pub window: usize,
    /// Episodes without a better policy after which nothing more is expected; 1,000 in the papers.
    pub idle: u64,
    /// A gain in score that is none.
    pub margin: f32,
    /// The most episodes.
    pub most: u64,
    /// Episodes between two exams.
    pub exam_every: u64,
    /// Random starts in an exam.
    pub starts: usize,
}

impl Default for Stop {
    fn default() -> Self {
        Self {
            enough: 0.9,
            window: 100,
            idle: 1_000,
            margin: 1e-3,
            most: 60_000,
            exam_every: 160,
            starts: 16,
        }
    }
}

/// Where training stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Episodes so far.
    pub episodes: u64,
    /// Mean score of the last `window` episodes, drawn actions, as a share of R_max.
    pub recent: f32,
    /// The last exam's score of the settled, deterministic policy, as a share of R_max.
    pub greedy: Option<f32>,
    /// The best exam's; the best `recent`, where no exams are held.
    pub best: f32,
    /// The episode at which `recent` first was enough.
    pub converged_at: Option<u64>,
    /// Nothing more is expected.
    pub done: bool,
}

/// Where a policy came from, for whoever reads its file.
pub type Facts = BTreeMap<String, String>;

/// Why a training cannot begin with a policy; always one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BeginError {
    /// Of another recipe.
    #[error("was trained by the recipe {found}, not {wanted}: give --recipe {found}")]
    Recipe {
        /// The policy's.
        found: Recipe,
        /// The training's.
        wanted: Recipe,
    },
    /// Networks of other sizes.
    #[error(
        "its networks have other sizes: give the settings it was trained with, and a path with as many workers"
    )]
    Shape,
}

impl BeginError {
    /// Whether a training by the recipe `wanted` can begin with `policy`, as far as recipes go.
    pub(crate) fn check(policy: &Policy, wanted: Recipe) -> Result<(), Self> {
        let found = policy.recipe;
        if found == wanted { Ok(()) } else { Err(Self::Recipe { found, wanted }) }
    }
}

/// Something that can be trained until it is done.
pub trait Trainer {
    /// One batch of episodes.
    fn advance(&mut self) -> Progress;

    /// The best policy so far; none if it cannot be used.
    fn policy(&mut self, facts: Facts) -> Option<Policy>;

    /// Where the best policy comes to rest, if it was examined.
    fn rest(&self) -> Option<Concurrency>;
}

/// One training of a recipe that acts on its task through `control`'s features.
///
/// ```
/// use tidegate_control::Scenario;
/// use tidegate_control::policy::Recipe;
/// use tidegate_train::ppo::PpoConfig;
/// use tidegate_train::practice::PathTask;
/// use tidegate_train::session::{Session, Stop, Trainer};
///
/// let text = "name = 'memory'\ndescription = ''\n[network]\nworker_rate = '100Mbit/s'\n[link]\nrate = '1Gbit/s'";
/// let task = PathTask::of(&Scenario::from_toml(text)?, Recipe::Fast, 1.02);
/// let stop = Stop { most: 32, ..Stop::default() };
/// let small = PpoConfig { width: 8, threads: 1, ..PpoConfig::default() };
/// let mut session = Session::new(&task, (Recipe::Fast, task.scales), small, stop, 1);
/// while !session.advance().done {}
/// let policy = session.policy(Default::default()).expect("its weights are numbers");
/// assert_eq!(policy.recipe, Recipe::Fast);
/// # Ok::<(), tidegate_control::scenario::ScenarioError>(())
/// ```
pub struct Session<'a> {
    task: &'a dyn TrainingTask,
    recipe: Recipe,
    scales: Scales,
    stop: Stop,
    ppo: Ppo,
    exam: Exam,
    recent: VecDeque<f32>,
    progress: Progress,
    best: Option<(Actor, Critic, ExamResult)>,
    best_at: u64,
    examined_at: u64,
}

impl<'a> Session<'a> {
    /// Begins on `task`; `recipe` and `scales` go into the policy.
    pub fn new(
        task: &'a dyn TrainingTask,
        (recipe, scales): (Recipe, Scales),
        config: PpoConfig,
        stop: Stop,
        seed: u64,
    ) -> Self {
        Self {
            recipe,
            scales,
            ppo: Ppo::new(task, config, seed),
            // Starts that training does not see.
            exam: Exam::new(task, stop.starts, seed ^ 0x6578_616d),
            task,
            stop,
            recent: VecDeque::new(),
            progress: Progress::default(),
            best: None,
            best_at: 0,
            examined_at: 0,
        }
    }

    /// Begins with the weights of `policy` in place of random ones, before the first batch.
    ///
    /// # Errors
    /// A policy of another recipe, and one whose networks have other sizes.
    pub fn begin_with(&mut self, policy: &Policy) -> Result<(), BeginError> {
        BeginError::check(policy, self.recipe)?;
        if !self.ppo.adopt(policy) {
            return Err(BeginError::Shape);
        }
        // What it begins with is the best so far.
        self.examine();
        Ok(())
    }

    /// Judges the deterministic policy, and keeps it if it is the best so far.
    pub fn examine(&mut self) {
        self.examined_at = self.progress.episodes;
        let marks = self.exam.hold(self.task, self.ppo.actor());
        self.progress.greedy = Some(marks.settled);
        if self.best.is_none() || marks.settled > self.progress.best {
            if marks.settled > self.progress.best + self.stop.margin {
                self.best_at = self.progress.episodes;
            }
            self.progress.best = marks.settled.max(self.progress.best);
            self.best = Some((self.ppo.actor().clone(), self.ppo.critic().clone(), marks));
        }
    }

    /// Where it stands.
    pub const fn progress(&self) -> Progress {
        self.progress
    }

    /// What the best policy showed in its exam.
    pub fn marks(&self) -> Option<&ExamResult> {
        self.best.as_ref().map(|(_, _, marks)| marks)
    }
}

impl Trainer for Session<'_> {
    fn advance(&mut self) -> Progress {
        for &score in self.ppo.advance() {
            self.recent.push_back(score);
            if self.recent.len() > self.stop.window {
                self.recent.pop_front();
            }
            self.progress.episodes += 1;
        }
        let Stop { enough, window, idle, most, exam_every, .. } = self.stop;
        let progress = &mut self.progress;
        progress.recent = self.recent.iter().sum::<f32>() / self.recent.len().max(1) as f32;
        if self.recent.len() == window && progress.recent >= enough {
            progress.converged_at.get_or_insert(progress.episodes);
        }
        if self.progress.episodes >= (self.examined_at + exam_every).min(most) {
            self.examine();
        }
        let progress = &mut self.progress;
        let exhausted =
            progress.converged_at.is_some_and(|at| progress.episodes > at.max(self.best_at) + idle);
        progress.done = (exhausted && progress.best >= enough) || progress.episodes >= most;
        *progress
    }

    fn policy(&mut self, facts: Facts) -> Option<Policy> {
        if self.best.is_none() {
            self.examine();
        }
        let (actor, critic, marks) = self.best.as_ref()?;
        Some(Policy {
            recipe: self.recipe,
            scales: Scales { start: marks.common_rest(), ..self.scales },
            actor: actor.net.to_network()?,
            log_sigma: actor.log_sigma.clone(),
            critic: critic.net.to_network(),
            facts,
        })
    }

    fn rest(&self) -> Option<Concurrency> {
        self.marks().and_then(ExamResult::common_rest)
    }
}
