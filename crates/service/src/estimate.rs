//! How many streams for a path, how fast they are, and how long so many bytes take: measured by Algorithm 2 and
//! the throughput models, or remembered (Yin, Yildirim, Kosar et al.; EOS).
//!
//! An answer always says what it rests on, what it cost to find out, and whether that pays. Where sampling fails
//! or costs more than it can bring there is an answer all the same, from history if there is any, and it says so.

mod answer;
mod past;
mod request;
mod sampling;
mod waiting;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use thiserror::Error;
use tidegate_contract::text::count;
use tidegate_control::throughput_model::Sample;
use tidegate_control::throughput_model::choice::choose_by;
use tidegate_control::units::duration_in_words;
use tidegate_control::{BitRate, ByteCount};
use tidegate_spec::pair::Pair;
use tokio::sync::{Semaphore, SemaphorePermit, broadcast};

use crate::history::{History, Timestamp};
use crate::names::Names;
use crate::path_mtu::PathMtus;
use crate::sampler::{Amount, Failure, SamplerError};
use crate::traffic::OwnTraffic;

pub use crate::sampler::ours::Program;
pub use answer::{Answer, EstimateOrigin, PlottedCurve, Sampled, time_ms};
pub use request::EstimateRequest;
pub use sampling::SamplingEvent;
pub use waiting::{estimate_and_wait, signalled};

pub(crate) use answer::FEW;
use answer::{of_a_share, refused};
use past::{Past, Window};
use sampling::{Samples, SamplingPlan, WORTH};

/// Estimates that sample at the same time: each loads this host, and more would measure each other.
const AT_ONCE: usize = 4;
/// How long an estimate waits for others to end before it gives up.
const WAITING: Duration = Duration::from_secs(600);
/// Events that who waits for a path may be behind.
const EVENTS: usize = 32;
/// Less than this is moved within a second or so by any path that streams help: it is not sampled for.
const SMALL: ByteCount = ByteCount::mib(16);

/// Why there is no answer: one line, without secrets.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EstimateError {
    /// What was asked makes no sense.
    #[error("{0}")]
    Usage(String),
    /// It cannot be measured, and nothing is known.
    #[error("{0}")]
    Unknown(String),
    /// Too many others came first.
    #[error("other estimates of this path did not end within {} s; try again later", WAITING.as_secs())]
    Busy,
    /// Somebody ended it.
    #[error("interrupted")]
    Interrupted,
}

impl From<SamplerError> for EstimateError {
    fn from(error: SamplerError) -> Self {
        match error.failure {
            Failure::Usage => Self::Usage(error.to_string()),
            _ => Self::Unknown(error.to_string()),
        }
    }
}

/// Answers requests. Clones share everything.
#[derive(Clone, Debug)]
pub struct Estimator {
    shared: Arc<EstimatorState>,
}

#[derive(Debug)]
struct EstimatorState {
    program: Program,
    past: Option<Arc<Past>>,
    names: Names,
    traffic: OwnTraffic,
    mtus: PathMtus,
    /// Whether `traffic` tells of all jobs of this history's service, or only of none.
    knows_jobs: bool,
    /// Who samples a path keeps others from it: two at once would measure each other.
    paths: Mutex<HashMap<Pair, Weak<Sampling>>>,
    slots: Semaphore,
}

impl Estimator {
    /// Measures with `program` and others, and remembers in `history`.
    pub fn new(program: Program, history: Option<History>) -> Self {
        Self::with_names(program, history, Names::default())
    }

    /// The same for a command of its own, which does not know what a service moves meanwhile.
    pub(crate) fn of_command(program: Program, history: Option<History>) -> Self {
        Self::made(program, history, Names::default(), false)
    }

    /// The same where remembered endpoints are known by their names.
    pub fn with_names(program: Program, history: Option<History>, names: Names) -> Self {
        Self::made(program, history, names, true)
    }

    fn made(program: Program, history: Option<History>, names: Names, knows_jobs: bool) -> Self {
        let past = history.map(Past::new);
        let slots = Semaphore::new(AT_ONCE);
        let (traffic, mtus, paths) = (OwnTraffic::default(), PathMtus::default(), Mutex::default());
        let state = EstimatorState { program, past, names, traffic, mtus, knows_jobs, paths, slots };
        Self { shared: Arc::new(state) }
    }

    /// What our own jobs move, as whoever runs them is to tell it.
    pub fn traffic(&self) -> &OwnTraffic {
        &self.shared.traffic
    }

    /// The path MTU between two sites, where this host is one of them and its kernel can tell.
    pub(crate) async fn path_mtu(&self, pair: &Pair) -> Option<ByteCount> {
        self.shared.mtus.of(pair).await
    }

    /// What history says to `request` within the age that it gives. Nothing is measured.
    pub async fn known(&self, request: &EstimateRequest) -> Result<Answer, EstimateError> {
        let named = request.resolved(&self.shared.names).map_err(EstimateError::Usage)?;
        let pair = named.pair()?;
        let mtu = self.path_mtu(&pair).await;
        match self.remembered(&named, (&pair, mtu), &mut Vec::new()).await {
            Remembered::Young(answer) => Ok(*answer),
            older => {
                let nothing = || "history knows nothing of this path".to_owned();
                Err(EstimateError::Unknown(older.in_words().unwrap_or_else(nothing)))
            }
        }
    }

    /// The answer to `request`. Dropping the future ends the sampling; `tell` hears how it goes.
    pub async fn estimate(
        &self,
        request: &EstimateRequest,
        tell: &mut (dyn FnMut(SamplingEvent) + Send),
    ) -> Result<Answer, EstimateError> {
        // Everything that makes no sense is said before anything is looked up or measured.
        let named = request.resolved(&self.shared.names).map_err(EstimateError::Usage)?;
        let request = &*named;
        let pair = request.pair()?;
        let amount = request.amount()?;
        let sampler = request.sampler(&self.shared.program);
        let most = sampler.as_ref().map_or(request.spec.max_streams, |sampler| sampler.max_streams());
        let doubling = request.doubling(most)?;
        let unknown = |why: &str| Answer::unknown(pair.clone(), request.bytes, why);
        let past = self.shared.past.as_ref();
        // As it was before anything was sent: sampling may teach the kernel another one, which it forgets again.
        let mtu = self.path_mtu(&pair).await;
        let path = (&pair, mtu);
        let asked = Timestamp::now();
        let mut notes = Vec::new();

        // History may know of a path that nothing measures: logs of it were imported.
        let mut sampler = match sampler {
            Ok(sampler) => sampler,
            Err(error) if !request.spec.sampling.history.use_history => return Err(error.into()),
            Err(error) => {
                return match self.remembered(request, path, &mut notes).await {
                    Remembered::Young(answer) => Ok(*answer),
                    older => Err(EstimateError::from(error).with(older.in_words())),
                };
            }
        };
        if request.bytes.0 == 0 {
            return Ok(unknown("there is nothing to move"));
        }
        let age_s = request.spec.sampling.history.history_age.as_secs();
        let window = Window::Seconds(age_s);
        if request.spec.sampling.history.use_history
            && let Some(past) = past
            && let Some(answer) = past.answer(request, path, window, &mut notes).await
        {
            return Ok(answer);
        }
        if !request.spec.sampling.always_sample
            && let Some(why) = too_little(request.bytes, amount)
        {
            return Ok(match self.remembered(request, path, &mut notes).await {
                Remembered::Young(known) => known.with_note(why),
                older => {
                    notes.extend(older.in_words());
                    Answer { notes, ..unknown("").of_a_few(doubling.most, why) }
                }
            });
        }

        let turn = self.turn(&pair, tell).await?;
        if turn.waited
            && let Some(past) = past
            // Somebody has just found out.
            && let Some(answer) = past.answer(request, path, Window::Since(asked), &mut notes).await
        {
            return Ok(answer);
        }
        let plan = SamplingPlan {
            doubling,
            amount,
            bytes: request.bytes,
            always: request.spec.sampling.always_sample,
        };
        // Not before: who waited for the path and is answered by what was found out takes nobody's slot.
        let slot = self.slot(tell).await?;
        let watch = self.shared.traffic.watch(&pair);
        let samples = {
            let told = &turn.path.told;
            let mut all = |event: SamplingEvent| {
                // Often nobody waits for it.
                let _ = told.send(event.clone());
                tell(event);
            };
            sampling::take(&mut *sampler, &plan, &mut all).await
        };
        drop(slot);
        let beside = self.shared.knows_jobs.then(|| watch.beside());
        let answer = self.conclude(request, unknown(""), sampler.kind(), samples, doubling.most);
        let mut answer = match answer {
            Ok(mut answer) => {
                answer.beside = beside;
                notes.extend(beside.and_then(of_a_share));
                if let Some(past) = past {
                    past.remember(&answer, request.conditions(Some(sampler.kind()), mtu), &mut notes).await;
                }
                answer
            }
            Err(error) => match self.remembered(request, path, &mut notes).await {
                Remembered::Young(known) => known.with_note(format!("it could not be measured now: {error}")),
                older => return Err(error.with(older.in_words())),
            },
        };
        answer.notes.extend(notes);
        // Who waits for the path finds in history what was found out here.
        drop(turn);
        Ok(answer)
    }

    /// What answers in place of samples: what history knows, if it is no older than the request takes.
    async fn remembered(
        &self,
        request: &EstimateRequest,
        path: (&Pair, Option<ByteCount>),
        notes: &mut Vec<String>,
    ) -> Remembered {
        let Some(past) = &self.shared.past else { return Remembered::Nothing };
        let age_s = request.spec.sampling.history.history_age.as_secs();
        let window = Window::Seconds(age_s);
        if let Some(answer) = past.answer(request, path, window, notes).await {
            return Remembered::Young(Box::new(answer));
        }
        match past.answer(request, path, Window::Ever, notes).await.map(|answer| answer.origin) {
            Some(EstimateOrigin::History { age_ms }) => {
                Remembered::Old { age: Duration::from_millis(age_ms), most_s: age_s }
            }
            _ => Remembered::Nothing,
        }
    }

    /// What follows from `samples`.
    fn conclude(
        &self,
        request: &EstimateRequest,
        empty: Answer,
        kind: crate::sampler::SamplerKind,
        samples: Samples,
        most: u16,
    ) -> Result<Answer, EstimateError> {
        let Samples { taken, cost_bytes, cost_ms, failed, too_little } = samples;
        let points: Vec<Sample> =
            taken.iter().map(|sampled| Sample::new(sampled.streams, sampled.throughput)).collect();
        if points.iter().all(|point| point.throughput == BitRate::ZERO) {
            return Err(failed.map_or_else(
                || EstimateError::Unknown("nothing came through in any sample: is the path up?".to_owned()),
                Into::into,
            ));
        }
        let choice = choose_by(&points, if too_little { 1 } else { most }, &request.model().options());
        let mut answer =
            Answer { origin: EstimateOrigin::Sampled, sampler: Some(kind), cost_bytes, cost_ms, ..empty };
        answer.notes.extend(taken.iter().filter_map(|sampled| {
            sampled.note.as_ref().map(|note| format!("{}: {note}", count(sampled.streams, "stream")))
        }));
        answer.samples = taken;
        if !too_little {
            answer.notes.extend(refused(request.model(), &choice));
        }
        let mut answer = answer.chosen(choice, most);
        if too_little {
            answer =
                answer.of_a_few(most, format!("{} is moved sooner than more samples pay", request.bytes));
        }
        if let Some(error) = failed {
            answer.notes.push(format!("sampling ended early: {error}"));
        }
        Ok(answer)
    }

    /// Waits until nobody else samples the path, and tells what those see who do.
    async fn turn(
        &self,
        pair: &Pair,
        tell: &mut (dyn FnMut(SamplingEvent) + Send),
    ) -> Result<Turn, EstimateError> {
        let path = {
            let mut paths = self.shared.paths.lock().unwrap_or_else(PoisonError::into_inner);
            let known = paths.get(pair).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                paths.retain(|_, path| path.strong_count() > 0);
                let path = Arc::new(Sampling::new());
                paths.insert(pair.clone(), Arc::downgrade(&path));
                path
            })
        };
        let mut told = path.told.subscribe();
        let waited = path.free.available_permits() == 0;
        if waited {
            tell(SamplingEvent::Waiting);
        }
        let mut free = pin!(tokio::time::timeout(WAITING, Arc::clone(&path.free).acquire_owned()));
        loop {
            tokio::select! {
                free = &mut free => {
                    // What was said last came before the path was free.
                    while let Ok(event) = told.try_recv() {
                        tell(event);
                    }
                    return match free {
                        Ok(Ok(permit)) => Ok(Turn { waited, path, _permit: permit }),
                        _ => Err(EstimateError::Busy),
                    };
                }
                // Whoever is too slow misses some.
                Ok(event) = told.recv() => tell(event),
            }
        }
    }

    /// Waits until this host is to take another sample at the same time.
    async fn slot(
        &self,
        tell: &mut (dyn FnMut(SamplingEvent) + Send),
    ) -> Result<SemaphorePermit<'_>, EstimateError> {
        if self.shared.slots.available_permits() == 0 {
            tell(SamplingEvent::Waiting);
        }
        match tokio::time::timeout(WAITING, self.shared.slots.acquire()).await {
            Ok(Ok(slot)) => Ok(slot),
            _ => Err(EstimateError::Busy),
        }
    }
}

/// What is known of a path that is not measured.
enum Remembered {
    /// What answers.
    Young(Box<Answer>),
    /// Something that is older than who asks takes.
    Old { age: Duration, most_s: u64 },
    /// Nothing.
    Nothing,
}

impl Remembered {
    /// That there is something older, and how it is had.
    fn in_words(&self) -> Option<String> {
        let Self::Old { age, most_s } = self else { return None };
        let (most, days) = (Duration::from_secs(*most_s), age.as_secs() / 86_400 + 1);
        Some(format!(
            "history knows this path from {} ago, and nothing older than {} is taken: --use-history={days}d takes it",
            duration_in_words(*age),
            duration_in_words(most)
        ))
    }
}

impl EstimateError {
    /// With what else is to be known of it.
    fn with(self, more: Option<String>) -> Self {
        let Some(more) = more else { return self };
        match self {
            Self::Usage(why) => Self::Usage(format!("{why}; {more}")),
            Self::Unknown(why) => Self::Unknown(format!("{why}; {more}")),
            other => other,
        }
    }
}

/// A path that somebody samples.
#[derive(Debug)]
struct Sampling {
    free: Arc<Semaphore>,
    told: broadcast::Sender<SamplingEvent>,
}

impl Sampling {
    fn new() -> Self {
        Self { free: Arc::new(Semaphore::new(1)), told: broadcast::Sender::new(EVENTS) }
    }
}

/// The right to sample a path.
struct Turn {
    waited: bool,
    path: Arc<Sampling>,
    _permit: tokio::sync::OwnedSemaphorePermit,
}

/// Why so few bytes are not worth a sample, if they are not.
fn too_little(bytes: ByteCount, amount: Option<Amount>) -> Option<String> {
    match amount {
        Some(Amount::Bytes(sample)) => (bytes.0 < sample.0.saturating_mul(WORTH.into()))
            .then(|| format!("{bytes} is less than {WORTH} samples of {sample}: sampling does not pay")),
        _ => (bytes < SMALL).then(|| format!("{bytes} is moved sooner than sampling pays")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_sizes_are_not_worth_a_sample() {
        let ten = Some(Amount::Bytes(ByteCount::mib(10)));
        assert!(too_little(ByteCount::mib(99), ten).is_some_and(|why| why.contains("10 samples of 10 MiB")));
        assert!(too_little(ByteCount::mib(100), ten).is_none());
        assert!(too_little(ByteCount::mib(15), None).is_some());
        assert!(too_little(ByteCount(10_000_000_000_000_000), None).is_none());
    }
}
