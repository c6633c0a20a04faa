//! Which model to believe, and how many streams follow from it.
//!
//! 1. For each model every combination of as many samples as it has coefficients is solved, what describes
//!    no path is dropped, and the one nearest to *all* samples is kept (Yildirim et al., TPDS 2011).
//! 2. From there least squares over all samples find the nearest curve of that model: three of six samples
//!    hold half of what is known. Alone, the first step errs half as much again (docs/results/models.md).
//! 3. Of the models the one with the least of (m + ν)·ln(Σr² + ν·s²) + 2k wins, r being ln(predicted/measured)
//!    of m samples and k the coefficients: Akaike's criterion, where noise is expected to be about s.
//! 4. The whole number beside the optimum, then fewer streams as long as throughput is as good.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::throughput_model::least_squares::{cost, refine};
use crate::throughput_model::{Curve, Knee, Model, Optimum, Rejection, Sample};
use crate::units::BitRate;

/// The samples combined: of more, evenly chosen ones. 24 have 2,024 triples.
const MOST_COMBINED: usize = 24;
/// Curves worth refining of each model: the nearest may be the end of a valley without a way on.
const REFINED: usize = 3;

/// How to choose.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The models to choose among.
    pub models: Vec<Model>,
    /// Whether the best combination of samples is only the start of least squares over all.
    pub refine: bool,
    /// Throughput this share below a peak is as good. 0.02, what the oracle of our tables forgoes.
    pub same: f64,
    /// The same below the limit of a curve that has no peak. 0.05: the last part costs streams without end.
    pub saturation: f64,
    /// No more streams than so many times the most sampled: beyond, nothing was seen. 2, one doubling.
    pub reach: f64,
    /// A model farther from the samples than this, as a root of the mean square, is not believed.
    pub most_error: f64,
    /// s: the noise expected of a sample. 0.04, what samples of a second show on a quiet path.
    pub noise: f64,
    /// ν: as many samples as that expectation is worth.
    pub confidence: f64,
    /// What a coefficient costs.
    pub price: f64,
    /// What a knee costs beyond its coefficients, without and with decline.
    pub knee_price: [f64; 2],
}

impl Default for Options {
    fn default() -> Self {
        Self {
            models: Model::ALL.to_vec(),
            refine: true,
            same: 0.02,
            saturation: 0.05,
            reach: 2.0,
            most_error: 0.25,
            noise: 0.04,
            confidence: 3.0,
            price: 2.0,
            knee_price: [0.0, 0.0],
        }
    }
}

impl Options {
    /// One model by the published way: the best combination of samples.
    pub fn published(model: Model) -> Self {
        Self { models: vec![model], refine: false, ..Self::default() }
    }
}

/// A curve and how near it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The model and its coefficients.
    #[serde(flatten)]
    pub curve: Curve,
    /// The samples it was solved from.
    pub from: Vec<Sample>,
    /// Whether least squares over all samples moved it from there.
    pub refined: bool,
    /// The root of the mean square of ln(predicted/measured): about its relative error at the samples.
    pub error: f64,
}

/// A model that is not believed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rejected {
    /// Which.
    pub model: Model,
    /// Why.
    pub why: Rejection,
}

/// Why so many streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reason {
    /// The curve has its peak there, or is as good with fewer than there.
    Peak,
    /// More bring next to nothing.
    Saturation,
    /// More only hurt.
    Fewest,
    /// More are not allowed.
    Bound,
    /// More would help, but nothing near was measured.
    Reach,
    /// No model fits: the best that was seen.
    BestSample,
    /// Nothing came through in any sample.
    Nothing,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Peak => "the peak of the curve",
            Self::Saturation => "more streams bring next to nothing",
            Self::Fewest => "more streams only hurt",
            Self::Bound => "more streams are not allowed",
            Self::Reach => "more might help, but so many were never tried",
            Self::BestSample => "no model fits: the best sample",
            Self::Nothing => "nothing came through in any sample",
        })
    }
}

/// How many streams, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// So many.
    pub streams: u16,
    /// What they should move; zero if nothing came through.
    #[serde(rename = "throughput_bps")]
    pub throughput: BitRate,
    /// Why so many.
    pub reason: Reason,
    /// The curve that says so; none if no model fits.
    pub fit: Option<Fit>,
    /// Where that curve is best.
    pub optimum: Option<Optimum>,
    /// The other models' curves, the better first.
    pub others: Vec<Fit>,
    /// The models that fit in no way.
    pub rejected: Vec<Rejected>,
    /// What it was told from: one sample an n, those of nothing left out.
    pub samples: Vec<Sample>,
}

impl Choice {
    /// What `streams` streams would move: by the curve, or between the samples if there is none.
    pub fn predict(&self, streams: u16) -> BitRate {
        let by_curve = self.fit.as_ref().and_then(|fit| fit.curve.predict(streams));
        by_curve.unwrap_or_else(|| between(&self.samples, streams))
    }

    /// All curves, the chosen one first.
    pub fn fits(&self) -> impl Iterator<Item = &Fit> {
        self.fit.iter().chain(&self.others)
    }
}

/// Straight lines between samples in logarithms; beyond the last as the last, below the first in proportion.
fn between(samples: &[Sample], streams: u16) -> BitRate {
    let above = samples.partition_point(|sample| sample.streams < streams);
    let line = |from: &Sample, to: &Sample| {
        let (low, high) = (from.throughput.as_mbps(), to.throughput.as_mbps());
        let share = (f64::from(streams) / from.n()).ln() / (to.n() / from.n()).ln();
        BitRate::from_mbps(low * (high / low).powf(share))
    };
    match (above.checked_sub(1).and_then(|i| samples.get(i)), samples.get(above)) {
        (Some(from), Some(to)) => line(from, to),
        (Some(last), None) => last.throughput,
        (None, Some(first)) => {
            BitRate::from_mbps(first.throughput.as_mbps() * f64::from(streams) / first.n())
        }
        (None, None) => BitRate::ZERO,
    }
}

/// One sample an n, by growing n, without those of nothing; the mean of several.
fn merged(samples: &[Sample]) -> Vec<Sample> {
    let mut by_streams: BTreeMap<u16, Vec<f64>> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.is_useful()) {
        by_streams.entry(sample.streams).or_default().push(sample.throughput.0 as f64);
    }
    let mean = |rates: Vec<f64>| BitRate::from_bps(rates.iter().sum::<f64>() / rates.len() as f64);
    by_streams.into_iter().map(|(streams, rates)| Sample::new(streams, mean(rates))).collect()
}

/// Every way to take `count` (1 to 3) of `samples`.
fn combinations(samples: &[Sample], count: usize) -> Vec<Vec<Sample>> {
    let size = samples.len();
    let pairs = |i: usize| (i + 1..size).map(move |j| (i, j));
    match count {
        1 => samples.iter().map(|&sample| vec![sample]).collect(),
        2 => (0..size).flat_map(pairs).map(|(i, j)| vec![samples[i], samples[j]]).collect(),
        _ => (0..size)
            .flat_map(pairs)
            .flat_map(|(i, j)| (j + 1..size).map(move |k| vec![samples[i], samples[j], samples[k]]))
            .collect(),
    }
}

/// At most `MOST_COMBINED` of `samples`, the first and the last among them.
fn thinned(samples: &[Sample]) -> Vec<Sample> {
    let last = samples.len().saturating_sub(1);
    if last < MOST_COMBINED {
        return samples.to_vec();
    }
    (0..MOST_COMBINED).map(|i| samples[i * last / (MOST_COMBINED - 1)]).collect()
}

/// The curve of `model` nearest to `samples`, of those worth a look.
fn fit(model: Model, samples: &[Sample], options: &Options) -> Result<Vec<Fit>, Rejection> {
    let few = || Rejection::TooFewSamples { have: samples.len(), need: model.samples() };
    let mut why = None;
    let mut solved: Vec<(f64, Fit)> = Vec::new();
    let mut consider = |curve: Curve, from: &[Sample], refined: bool| -> Result<(), Rejection> {
        let blind = samples.iter().find(|sample| curve.mbps(sample.n()).is_none());
        if let Some(sample) = blind {
            return Err(Rejection::NoPrediction { streams: sample.streams });
        }
        let cost = cost(&curve, samples).ok_or(Rejection::Spike)?;
        let error = (cost / samples.len() as f64).sqrt();
        solved.push((cost, Fit { curve, from: from.to_vec(), refined, error }));
        Ok(())
    };
    for from in combinations(&thinned(samples), model.samples()) {
        if let Err(rejection) = model.through(&from).and_then(|curve| consider(curve, &from, false)) {
            why.get_or_insert(rejection);
        }
    }
    if model == Model::Knee && options.refine {
        for knee in Knee::candidates(samples) {
            let _ = consider(Curve::Knee(knee), samples, true);
        }
    }
    solved.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let mut nearest: Vec<Fit> = Vec::new();
    for (_, fit) in &solved {
        // One for each number of coefficients: a knee without a decline may do.
        if nearest.iter().all(|other| other.curve.freedom() != fit.curve.freedom()) {
            nearest.push(fit.clone());
        }
    }
    if options.refine {
        for (_, fit) in solved.iter().take(REFINED) {
            let Some(curve) = refine(&fit.curve, samples) else { continue };
            let Some(cost) = cost(&curve, samples) else { continue };
            let error = (cost / samples.len() as f64).sqrt();
            if let Some(best) = nearest.iter_mut().find(|best| best.curve.freedom() == curve.freedom())
                && error < best.error
            {
                *best = Fit { curve, from: fit.from.clone(), refined: true, error };
            }
        }
    }
    if nearest.is_empty() { Err(why.unwrap_or_else(few)) } else { Ok(nearest) }
}

/// Akaike's criterion for `fit` of `count` samples; the least is the best.
fn criterion(fit: &Fit, count: usize, options: &Options) -> f64 {
    let count = count as f64;
    let expected = options.confidence * options.noise.powi(2);
    (count + options.confidence) * (count * fit.error.powi(2) + expected).ln()
        + options.price * fit.curve.freedom() as f64
        + if fit.curve.model() == Model::Knee {
            options.knee_price[usize::from(fit.curve.freedom() == 3)]
        } else {
            0.0
        }
}

/// How many streams up to `most`, told from `samples` in any order.
pub fn choose(samples: &[Sample], most: u16) -> Choice {
    choose_by(samples, most, &Options::default())
}

/// As [`choose`], by `options`.
pub fn choose_by(samples: &[Sample], most: u16, options: &Options) -> Choice {
    let most = most.max(1);
    let samples = merged(samples);
    let (mut fits, mut rejected) = (Vec::new(), Vec::new());
    for &model in &options.models {
        match fit(model, &samples, options) {
            Ok(nearest) => fits.extend(nearest),
            Err(why) => rejected.push(Rejected { model, why }),
        }
    }
    let of = |fit: &Fit| criterion(fit, samples.len(), options);
    fits.sort_by(|one, other| of(one).total_cmp(&of(other)));
    let mut seen = Vec::new();
    fits.retain(|fit| {
        let model = fit.curve.model();
        let first = !seen.contains(&model);
        seen.push(model);
        if first && fit.error > options.most_error {
            rejected.push(Rejected { model, why: Rejection::Misses { error: fit.error } });
        }
        first && fit.error <= options.most_error
    });
    let mut fits = fits.into_iter();
    let fit = fits.next();
    let mut choice = Choice {
        streams: 1,
        throughput: BitRate::ZERO,
        reason: Reason::Nothing,
        optimum: fit.as_ref().map(|fit| fit.curve.optimum()),
        fit,
        others: fits.collect(),
        rejected,
        samples,
    };
    let decided = match &choice.fit {
        Some(fit) => by_curve(&fit.curve, &choice.samples, most, options),
        None => by_samples(&choice.samples, most, options),
    };
    if let Some((sample, reason)) = decided {
        (choice.streams, choice.throughput, choice.reason) = (sample.streams, sample.throughput, reason);
    }
    choice
}

/// The fewest streams with the best of a curve.
fn by_curve(curve: &Curve, samples: &[Sample], most: u16, options: &Options) -> Option<(Sample, Reason)> {
    let sampled = samples.last()?.n();
    let reach = (options.reach * sampled).clamp(1.0, f64::from(u16::MAX)) as u16;
    let limit = most.min(reach);
    let best = curve.best(limit)?;
    let at_limit = if limit < most { Reason::Reach } else { Reason::Bound };
    let (enough, reason) = match curve.optimum() {
        Optimum::Fewest => (best.throughput, Reason::Fewest),
        Optimum::Unbounded => (best.throughput, at_limit),
        Optimum::Peak { streams, .. } => {
            let enough = (1.0 - options.same) * best.throughput.as_mbps();
            let reason = match best.streams {
                1 if limit > 1 => Reason::Fewest,
                _ if streams > f64::from(limit) => at_limit,
                _ => Reason::Peak,
            };
            (BitRate::from_mbps(enough), reason)
        }
        Optimum::Saturates { limit: rate } => {
            let enough = BitRate::from_mbps((1.0 - options.saturation) * rate.as_mbps());
            let reason = if enough > best.throughput { at_limit } else { Reason::Saturation };
            (enough.min(best.throughput), reason)
        }
    };
    let streams = curve.fewest_with(enough, best.streams).unwrap_or(best.streams);
    Some((Sample { streams, throughput: curve.predict(streams)? }, reason))
}

/// The fewest streams that were seen to be as good as the best.
fn by_samples(samples: &[Sample], most: u16, options: &Options) -> Option<(Sample, Reason)> {
    let allowed = || samples.iter().filter(|sample| sample.streams <= most);
    let best = allowed().map(|sample| sample.throughput).max();
    let Some(best) = best else {
        // All have more than is allowed: the least of them, scaled down.
        samples.first()?;
        return Some((Sample::new(most, between(samples, most)), Reason::Bound));
    };
    let enough = BitRate::from_mbps((1.0 - options.same) * best.as_mbps());
    let sample = allowed().find(|sample| sample.throughput >= enough)?;
    Some((*sample, Reason::BestSample))
}
