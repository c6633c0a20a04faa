//! What history says of a path, and what it is told.
//!
//! A rate is one of a path *under conditions*. So what answers was measured by what would measure now, under the same
//! conditions, the path MTU among them, and while no other job of ours ran over the path. Where nothing such is known,
//! records answer that tell less: those of an MTU that is not known, as older versions left them; then those of older
//! versions and of others, which say nothing of conditions, and those of other samplers. They are taken to be under no
//! limit of a rate, so whoever keeps to one is not answered by them, and the answer says what it is.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tidegate_control::throughput_model::choice::choose_by;
use tidegate_control::throughput_model::{Choice, Curve, ModelSelection, Sample};
use tidegate_control::{BitRate, ByteCount};
use tidegate_database::{READERS, Result};
use tidegate_spec::pair::Pair;
use tokio::sync::Semaphore;

use crate::history::Sample as Kept;
use crate::history::{
    Basis, Beside, Circumstances, Conditions, Estimate, History, Method, Point, Record, Timestamp, median,
};
use crate::sampler::SamplerKind;

use super::answer::{Answer, EstimateOrigin, Sampled, of_a_share, refused};
use super::request::EstimateRequest;

/// What was read is taken for current so long: thousands ask about the same few paths.
const FRESH: Duration = Duration::from_secs(1);
/// So long it answers while it is read anew, so that nobody waits for a database that is busy with what is sampled. Only
/// what other servers found out meanwhile is missed; what was found out here is read at once.
const HELD: Duration = Duration::from_secs(10);
/// Questions whose answers are remembered here; with more, all are read anew.
const QUESTIONS: usize = 4096;

/// Samples that make an estimate by themselves, without one having been made: as many as the models need.
const ENOUGH: usize = 3;

/// Which part of what is known may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Window {
    /// What is not older than so many seconds, and was measured alone.
    Seconds(u64),
    /// What was measured alone, of any age.
    Ever,
    /// What was found out since then, beside whoever ran: who asks now would measure the same.
    Since(Timestamp),
}

impl Window {
    /// Whether what was found out at that moment is young enough still.
    fn admits(self, at: Timestamp) -> bool {
        match self {
            Self::Seconds(age) => at >= Timestamp::now().before(Duration::from_secs(age)),
            Self::Ever => true,
            Self::Since(moment) => at >= moment,
        }
    }
}

/// What is asked: about which path, under which conditions, and what may answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Question {
    pair: Pair,
    /// Most streams of who asks.
    most: u16,
    /// Which models are to tell.
    model: ModelSelection,
    /// What would measure, if anything can.
    kind: Option<SamplerKind>,
    /// Whether that was asked for by its name, so that nothing else will do.
    named: bool,
    conditions: Conditions,
    window: Window,
}

/// History, with what was read a moment ago.
#[derive(Debug)]
pub(crate) struct Past {
    history: History,
    recent: Mutex<HashMap<Question, Recent>>,
    /// Questions that somebody reads the answer to, which others wait for: a thousand clients of a path that nobody
    /// asked about for a while are one question to the database.
    reading: Mutex<HashMap<Question, Weak<tokio::sync::Mutex<()>>>>,
    /// Who reads at the same time: others wait here, in turn and for as long as their clients do. Left to the database's
    /// connections they would be refused after a while, and what is known be sampled.
    readers: Semaphore,
}

/// What was read of a question.
#[derive(Clone, Debug)]
struct Recent {
    at: Instant,
    known: Option<Arc<Known>>,
    /// Whether somebody reads it anew.
    again: bool,
}

/// What is known of a path.
#[derive(Debug)]
struct Known {
    at: Timestamp,
    /// What it comes to, but for the size and the age.
    answer: Answer,
}

/// How well a record fits a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fits {
    Exactly,
    /// But for the path MTU, which is not known, then or now.
    Nearly,
    Loosely,
}

impl Question {
    /// How a record fits, if it does.
    fn fits(&self, method: Method, circumstances: &Circumstances) -> Option<Fits> {
        let same = self.kind.is_some_and(|kind| measures(kind, method));
        match &circumstances.conditions {
            Some(conditions) if same && *conditions == self.conditions => Some(Fits::Exactly),
            Some(conditions) if same => {
                let unknown = conditions.mtu_bytes.is_none() || self.conditions.mtu_bytes.is_none();
                let mtu_bytes = self.conditions.mtu_bytes;
                let alike = Conditions { mtu_bytes, ..conditions.clone() } == self.conditions;
                (unknown && alike).then_some(Fits::Nearly)
            }
            _ if self.named && !same => None,
            // Nobody knows what another sampler would have shown under a limit.
            conditions => {
                let free = conditions.as_ref().is_none_or(|conditions| conditions.limits_bps.is_empty());
                (free && self.conditions.limits_bps.is_empty()).then_some(Fits::Loosely)
            }
        }
    }
}

impl Past {
    /// Of `history`.
    pub fn new(history: History) -> Arc<Self> {
        let (recent, reading) = (Mutex::default(), Mutex::default());
        Arc::new(Self { history, recent, reading, readers: Semaphore::new(READERS as usize) })
    }

    /// An answer out of `window` of what was measured at `mtu`; a history that cannot be read is told in `notes`.
    pub async fn answer(
        self: &Arc<Self>,
        request: &EstimateRequest,
        (pair, mtu): (&Pair, Option<ByteCount>),
        window: Window,
        notes: &mut Vec<String>,
    ) -> Option<Answer> {
        let kind = request.kind().ok();
        // Everybody who waited asks the same, whenever each began to.
        let (window, least) = match window {
            Window::Since(moment) => (Window::Since(Timestamp(0)), moment),
            other => (other, Timestamp(i64::MIN)),
        };
        let question = Question {
            pair: pair.clone(),
            most: request.spec.max_streams,
            model: request.model(),
            kind,
            named: request.spec.sampling.sampler.is_some(),
            conditions: request.conditions(kind, mtu),
            window,
        };
        match self.known(question).await {
            Ok(known) => known.filter(|known| known.at >= least).map(|known| known.answer(request.bytes)),
            Err(error) => {
                let note = format!("history was not asked: {error}");
                if !notes.contains(&note) {
                    notes.push(note);
                }
                None
            }
        }
    }

    async fn known(self: &Arc<Self>, question: Question) -> Result<Option<Arc<Known>>> {
        match self.recent().get_mut(&question) {
            Some(recent) if recent.at.elapsed() < FRESH => return Ok(recent.known.clone()),
            // What is not known is soon: somebody samples it.
            Some(Recent { at, known: Some(known), again })
                if at.elapsed() < HELD && question.window.admits(known.at) =>
            {
                let known = Arc::clone(known);
                if !std::mem::replace(again, true) {
                    let past = Arc::clone(self);
                    // What went wrong is told who asks after that.
                    tokio::spawn(async move { past.read_anew(question).await.map(drop) });
                }
                return Ok(Some(known));
            }
            _ => {}
        }
        let reading = self.reading(&question);
        let asked = Instant::now();
        let _turn = reading.lock().await;
        if let Some(recent) = self.recent().get(&question)
            && (recent.at >= asked || recent.at.elapsed() < FRESH)
        {
            return Ok(recent.known.clone());
        }
        self.read_anew(question).await
    }

    /// What those hold in turn who read the answer to `question`.
    fn reading(&self, question: &Question) -> Arc<tokio::sync::Mutex<()>> {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = reading.get(question).and_then(Weak::upgrade) {
            return found;
        }
        reading.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        reading.insert(question.clone(), Arc::downgrade(&turn));
        turn
    }

    async fn read_anew(&self, question: Question) -> Result<Option<Arc<Known>>> {
        // It is never closed.
        let _reader = self.readers.acquire().await;
        let at = Instant::now();
        let known = self.read(&question).await?.map(Arc::new);
        let mut recent = self.recent();
        if recent.len() >= QUESTIONS {
            recent.clear();
        }
        recent.insert(question, Recent { at, known: known.clone(), again: false });
        Ok(known)
    }

    fn recent(&self) -> MutexGuard<'_, HashMap<Question, Recent>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read(&self, question: &Question) -> Result<Option<Known>> {
        let (since, alone) = match question.window {
            Window::Seconds(age) => (Timestamp::now().before(Duration::from_secs(age)), true),
            Window::Ever => (Timestamp(0), true),
            Window::Since(moment) => (moment, false),
        };
        let estimates = self.history.estimates(&question.pair, since, alone).await?;
        let samples = self.history.samples(&question.pair, since, alone).await?;
        for wanted in [Fits::Exactly, Fits::Nearly, Fits::Loosely] {
            let fits = |method, circumstances: &Circumstances| {
                question.fits(method, circumstances).filter(|fits| *fits == wanted)
            };
            let estimate =
                estimates.iter().find(|estimate| fits(estimate.method, &estimate.circumstances).is_some());
            let fitting =
                samples.iter().filter(|sample| fits(sample.method, &sample.circumstances).is_some());
            let known = conclude(question, estimate, &fitting.collect::<Vec<_>>());
            if let Some(mut known) = known {
                known.answer.notes.extend(question.caution(wanted, &known.answer));
                return Ok(Some(known));
            }
        }
        Ok(None)
    }

    /// Keeps what was measured and concluded.
    pub async fn remember(&self, answer: &Answer, conditions: Conditions, notes: &mut Vec<String>) {
        let Some(records) = records(answer, conditions) else { return };
        if let Err(error) = self.history.record(&records).await {
            notes.push(format!("it is not remembered: {error}"));
        }
        self.recent().retain(|question, _| question.pair != answer.pair);
    }
}

impl Question {
    /// What is to be known of an answer that does not fit exactly.
    fn caution(&self, fits: Fits, answer: &Answer) -> Option<String> {
        Some(match (fits, self.kind, answer.sampler) {
            (Fits::Exactly, ..) => return None,
            (Fits::Nearly, ..) if self.conditions.mtu_bytes.is_none() => {
                "the path MTU is not known now: under another one than it was measured at it would differ".to_owned()
            }
            (Fits::Nearly, ..) => "nothing is known of the path MTU when it was measured".to_owned(),
            (_, Some(kind), Some(by)) if kind != by => format!("it was measured by {by}, and not by {kind}"),
            _ => "nothing is known of data plane, verification, buffers, path MTU and company when it was measured"
                .to_owned(),
        })
    }

    /// What its models say of `points`.
    fn choose(&self, points: &[(u32, BitRate)]) -> Choice {
        choose_by(&medians(points), self.most, &self.model.options())
    }
}

/// What the newest estimate and the samples after it come to; both the newest first.
fn conclude(question: &Question, estimate: Option<&Estimate>, samples: &[&Kept]) -> Option<Known> {
    // Imported transfers and benchmarks are samples before anybody has made an estimate of them.
    let since = estimate.map_or(Timestamp(i64::MIN), |estimate| estimate.at);
    let newer: Vec<&&Kept> = samples.iter().filter(|sample| sample.at > since).collect();
    let mut tried: Vec<Method> = Vec::new();
    for first in &newer {
        // One sample of another kind does not hide what there is enough of.
        if tried.iter().any(|method| are_alike(*method, first.method)) {
            continue;
        }
        tried.push(first.method);
        let alike = newer.iter().filter(|sample| are_alike(sample.method, first.method));
        let points: Vec<_> = alike.map(|sample| (sample.streams, sample.throughput)).collect();
        let choice = question.choose(&points);
        if choice.samples.len() >= ENOUGH {
            return Some(Known::new(question, first.at, first.method, first.circumstances.beside, choice));
        }
    }
    estimate.map(|estimate| {
        let points: Vec<_> = estimate.samples.iter().map(|point| (point.streams, point.throughput)).collect();
        let choice = question.choose(&points);
        Known::new(question, estimate.at, estimate.method, estimate.circumstances.beside, choice)
    })
}

impl Known {
    fn new(
        question: &Question,
        at: Timestamp,
        method: Method,
        beside: Option<Beside>,
        choice: Choice,
    ) -> Self {
        let mut answer = Answer::unknown(question.pair.clone(), ByteCount(1), "");
        answer.sampler = kind(method);
        answer.beside = beside;
        answer.notes.extend(beside.and_then(of_a_share));
        answer.samples = choice.samples.iter().map(sampled).collect();
        answer.notes.extend(refused(question.model, &choice));
        Self { at, answer: answer.chosen(choice, question.most) }
    }

    fn answer(&self, bytes: ByteCount) -> Answer {
        let age = Timestamp::now().0.saturating_sub(self.at.0);
        let origin = EstimateOrigin::History { age_ms: u64::try_from(age).unwrap_or(0) };
        Answer { bytes, origin, ..self.answer.clone() }.timed()
    }
}

/// The median of each number of streams, which one bad sample does not move.
fn medians(points: &[(u32, BitRate)]) -> Vec<Sample> {
    let mut by_streams: BTreeMap<u16, Vec<BitRate>> = BTreeMap::new();
    for (streams, rate) in points {
        if let Ok(streams) = u16::try_from(*streams) {
            by_streams.entry(streams).or_default().push(*rate);
        }
    }
    by_streams.into_iter().map(|(streams, rates)| Sample::new(streams, median(rates))).collect()
}

fn sampled(sample: &Sample) -> Sampled {
    let Sample { streams, throughput } = *sample;
    Sampled { streams, throughput, bytes: ByteCount(0), spent_ms: 0, note: None }
}

fn method(kind: SamplerKind) -> Method {
    match kind {
        SamplerKind::Native => Method::Native,
        SamplerKind::Iperf3 => Method::Iperf3,
        SamplerKind::GridFtp => Method::Gridftp,
        SamplerKind::Ranges => Method::Ranges,
    }
}

/// Whether `method` shows what `kind` would: what GridFTP moved is as good as a sample of GridFTP.
fn measures(kind: SamplerKind, method: Method) -> bool {
    are_alike(self::method(kind), method)
}

fn are_alike(one: Method, other: Method) -> bool {
    let class = |method| if method == Method::Transfers { Method::Gridftp } else { method };
    class(one) == class(other)
}

fn kind(method: Method) -> Option<SamplerKind> {
    match method {
        Method::Native => Some(SamplerKind::Native),
        Method::Iperf3 => Some(SamplerKind::Iperf3),
        Method::Gridftp => Some(SamplerKind::GridFtp),
        Method::Ranges => Some(SamplerKind::Ranges),
        Method::Transfers => None,
    }
}

/// What is kept of an answer that was measured under such conditions.
fn records(answer: &Answer, conditions: Conditions) -> Option<Vec<Record>> {
    let (method, choice) = (method(answer.sampler?), answer.choice.as_ref()?);
    let at = Timestamp::now();
    let circumstances = Circumstances { conditions: Some(conditions), beside: answer.beside };
    let kept = |sampled: &Sampled| {
        Record::from(Kept {
            pair: answer.pair.clone(),
            method,
            streams: sampled.streams.into(),
            throughput: sampled.throughput,
            bytes: sampled.bytes,
            duration: Duration::from_millis(sampled.spent_ms),
            circumstances: circumstances.clone(),
            at,
        })
    };
    let mut records: Vec<Record> = answer.samples.iter().map(kept).collect();
    let point = |sampled: &Sampled| Point { streams: sampled.streams.into(), throughput: sampled.throughput };
    // One sample is no estimate: another, larger request is to measure on.
    if answer.samples.len() > 1 {
        records.push(Record::from(Estimate {
            pair: answer.pair.clone(),
            method,
            streams: choice.streams.into(),
            throughput: choice.throughput,
            basis: basis(choice),
            samples: answer.samples.iter().map(point).collect(),
            cost_bytes: answer.cost_bytes,
            cost: Duration::from_millis(answer.cost_ms),
            circumstances: circumstances.clone(),
            at,
        }));
    }
    Some(records)
}

fn basis(choice: &Choice) -> Basis {
    match &choice.fit {
        Some(fit) => Basis::Model {
            model: fit.curve.model().name().to_owned(),
            coefficients: coefficients(&fit.curve),
        },
        None => Basis::Fallback { reason: choice.reason.to_string() },
    }
}

/// In the order they are written: that of the names.
fn coefficients(curve: &Curve) -> Vec<f64> {
    match serde_json::to_value(curve) {
        Ok(serde_json::Value::Object(fields)) => {
            fields.values().filter_map(serde_json::Value::as_f64).collect()
        }
        _ => Vec::new(),
    }
}
