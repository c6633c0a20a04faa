//! What history says of a path, and what it is told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_control::throughput_model::{Choice, Curve, Sample, choose};
use tidegate_control::{BitRate, ByteCount};

use crate::database::Result;
use crate::history::Sample as Kept;
use crate::history::{Basis, Estimate, History, Method, Point, Record, Timestamp};
use crate::pair::Pair;
use crate::sampler::SamplerKind;

use super::answer::{Answer, EstimateOrigin, Sampled};
use super::request::EstimateRequest;

/// What was read is taken for current so long: thousands ask about the same few paths.
const FRESH: Duration = Duration::from_secs(1);
/// Paths that are remembered here; with more, all are read anew.
const PATHS: usize = 4096;

/// Samples that make an estimate by themselves, without one having been made: as many as the models need.
const ENOUGH: usize = 3;

/// A path, and the most streams of those who ask about it.
type Key = (Pair, u16);

/// History, with what was read a moment ago.
#[derive(Debug)]
pub struct Past {
    history: History,
    recent: Mutex<HashMap<Key, (Instant, Option<Arc<Known>>)>>,
}

/// What is known of a path.
#[derive(Debug)]
struct Known {
    at: Timestamp,
    method: Method,
    /// What it comes to, but for the size and the age.
    answer: Answer,
}

impl Past {
    /// Of `history`.
    pub fn new(history: History) -> Self {
        Self { history, recent: Mutex::default() }
    }

    /// An answer that is not older than `since`; a history that cannot be read is told in `notes`.
    pub async fn answer(
        &self,
        request: &EstimateRequest,
        pair: &Pair,
        since: Timestamp,
        notes: &mut Vec<String>,
    ) -> Option<Answer> {
        let known = match self.known(&(pair.clone(), request.most_streams)).await {
            Ok(known) => known?,
            Err(error) => {
                let note = format!("history was not asked: {error}");
                if !notes.contains(&note) {
                    notes.push(note);
                }
                return None;
            }
        };
        let wanted = request.sampler.map(method);
        if known.at < since || wanted.is_some_and(|wanted| wanted != known.method) {
            return None;
        }
        Some(known.answer(request.bytes))
    }

    /// The newest that is known, of any age.
    async fn known(&self, key: &Key) -> Result<Option<Arc<Known>>> {
        if let Some((read, known)) = self.recent.lock().unwrap_or_else(PoisonError::into_inner).get(key)
            && read.elapsed() < FRESH
        {
            return Ok(known.clone());
        }
        let read = Instant::now();
        let known = self.read(key).await?.map(Arc::new);
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() >= PATHS {
            recent.clear();
        }
        recent.insert(key.clone(), (read, known.clone()));
        Ok(known)
    }

    async fn read(&self, (pair, most): &Key) -> Result<Option<Known>> {
        let estimate = self.history.latest_estimate(pair, Timestamp(0)).await?;
        // Imported transfers and benchmarks are samples before anybody has made an estimate of them.
        let since = estimate.as_ref().map_or(Timestamp(0), |estimate| estimate.at);
        let newer = self.history.samples(pair, since).await?;
        let newer: Vec<_> = newer.into_iter().filter(|sample| sample.at > since).collect();
        if let Some(first) = newer.first() {
            let alike = newer.iter().filter(|sample| sample.method == first.method);
            let points: Vec<_> = alike.map(|sample| (sample.streams, sample.throughput)).collect();
            let choice = choose(&samples(&points), *most);
            if choice.samples.len() >= ENOUGH {
                return Ok(Some(Known::new(pair, *most, (first.at, first.method), choice)));
            }
        }
        Ok(estimate.map(|estimate| {
            let points: Vec<_> =
                estimate.samples.iter().map(|point| (point.streams, point.throughput)).collect();
            let choice = choose(&samples(&points), *most);
            Known::new(pair, *most, (estimate.at, estimate.method), choice)
        }))
    }

    /// Keeps what was measured and concluded.
    pub async fn remember(&self, answer: &Answer, notes: &mut Vec<String>) {
        let Some(records) = records(answer) else { return };
        if let Err(error) = self.history.record(&records).await {
            notes.push(format!("it is not remembered: {error}"));
        }
        self.recent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(pair, _), _| *pair != answer.pair);
    }
}

impl Known {
    fn new(pair: &Pair, most: u16, (at, method): (Timestamp, Method), choice: Choice) -> Self {
        let mut answer = Answer::unknown(pair.clone(), ByteCount(1), "");
        answer.sampler = kind(method);
        answer.samples = choice.samples.iter().map(sampled).collect();
        Self { at, method, answer: answer.chosen(choice, most) }
    }

    fn answer(&self, bytes: ByteCount) -> Answer {
        let age = Timestamp::now().0.saturating_sub(self.at.0);
        let origin = EstimateOrigin::History { age_ms: u64::try_from(age).unwrap_or(0) };
        Answer { bytes, origin, ..self.answer.clone() }.timed()
    }
}

fn samples(points: &[(u32, BitRate)]) -> Vec<Sample> {
    let sample = |(streams, rate): &(u32, BitRate)| Some(Sample::new(u16::try_from(*streams).ok()?, *rate));
    points.iter().filter_map(sample).collect()
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
    }
}

fn kind(method: Method) -> Option<SamplerKind> {
    match method {
        Method::Native => Some(SamplerKind::Native),
        Method::Iperf3 => Some(SamplerKind::Iperf3),
        Method::Gridftp => Some(SamplerKind::GridFtp),
        Method::Transfers => None,
    }
}

/// What is kept of an answer that was measured.
fn records(answer: &Answer) -> Option<Vec<Record>> {
    let (method, choice) = (method(answer.sampler?), answer.choice.as_ref()?);
    let at = Timestamp::now();
    let kept = |sampled: &Sampled| {
        Record::from(Kept {
            pair: answer.pair.clone(),
            method,
            streams: sampled.streams.into(),
            throughput: sampled.throughput,
            bytes: sampled.bytes,
            duration: Duration::from_millis(sampled.spent_ms),
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
