//! Which model to believe, and how many streams follow from it.
//!
//! 1. For each model every combination of as many samples as it has coefficients is solved, what describes
//!    no path is dropped, and the one nearest to *all* samples is kept (Yildirim et al., TPDS 2011).
//! 2. From there least squares over all samples find the nearest curve of that model: three of six samples
//!    hold half of what is known.
//! 3. Each curve gets a weight by (m + ν)·ln(Σr² + ν·s²) + 2k, r being ln(predicted/measured) of m samples and k
//!    the coefficients: Akaike's criterion, where noise is expected to be about s. The curve with the greatest is
//!    the chosen one; what is predicted is the mean of all by their weights, since a handful of samples rarely
//!    says which of two models is the true one, and between them is nearer to both.
//! 4. The best whole number by that, then fewer streams as long as throughput is as good.
//!
//! What each step is worth: docs/results/models.md.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::throughput_model::least_squares::{cost, refine};
use crate::throughput_model::{Curve, Knee, Model, Optimum, Rejection, Sample};
use crate::units::BitRate;

/// The samples combined: of more, evenly chosen ones. 24 have 2,024 triples.
const MAX_COMBINED: usize = 24;
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
    /// s: the noise expected of a sample. 0.04, what samples of a second
    /// show on a quiet path.
    pub noise: f64,
    /// ν: as many samples as that expectation is worth.
    pub confidence: f64,
    /// Whether the other curves count too, by their weights, or the best alone.
    pub blend: bool,
    /// Whether no more is told, of streams within those sampled, than the best sample: curves between two samples overshoot
    /// where a link is full, and the best of several is no modest figure by itself.
    pub bounded: bool,
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
            blend: true,
            bounded: true,
        }
    }
}

impl Options {
    /// `models` by the published way: the best combination of samples, the nearest model alone, and the peak of its
    /// curve, however far that is from some sample.
    pub fn published(models: Vec<Model>) -> Self {
        Self {
            models,
            refine: false,
            blend: false,
            bounded: false,
            same: 0.0,
            most_error: f64::INFINITY,
            ..Self::default()
        }
    }
}

/// A curve and how near it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// What it counts for beside the other curves; all weights sum to 1.
    pub weight: f64,
}

/// A model that is not believed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rejected {
    /// Which.
    pub model: Model,
    /// Why.
    pub why: Rejection,
}

/// Why so many streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// What `streams` streams would move: the geometric mean of all curves, by their weights; between the
    /// samples if there is no curve.
    pub fn predict(&self, streams: u16) -> BitRate {
        let (mut sum, mut weights) = (0.0, 0.0);
        for fit in self.fits() {
            if let Some(mbps) = fit.curve.mbps(f64::from(streams)) {
                sum += fit.weight * mbps.ln();
                weights += fit.weight;
            }
        }
        if weights > 0.0 {
            BitRate::from_mbps((sum / weights).exp())
        } else {
            between(&self.samples, streams)
        }
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

/// At most `MAX_COMBINED` of `samples`, the first and the last among them.
fn thinned(samples: &[Sample]) -> Vec<Sample> {
    let last = samples.len().saturating_sub(1);
    if last < MAX_COMBINED {
        return samples.to_vec();
    }
    (0..MAX_COMBINED).map(|i| samples[i * last / (MAX_COMBINED - 1)]).collect()
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
        solved.push((cost, Fit { curve, from: from.to_vec(), refined, error, weight: 0.0 }));
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
                *best = Fit { curve, from: fit.from.clone(), refined: true, error, weight: 0.0 };
            }
        }
    }
    if nearest.is_empty() { Err(why.unwrap_or_else(few)) } else { Ok(nearest) }
}

/// Akaike's criterion for `fit` of `count` samples; the least is the best.
fn criterion(fit: &Fit, count: usize, options: &Options) -> f64 {
    let count = count as f64;
    let expected = options.confidence * options.noise.powi(2);
    (count + options.confidence) * (count * fit.error.powi(2) + expected).ln() + 2.0 * fit.curve.price()
}

/// `fits` with their weights, the best first, and the best of each model only.
fn weighted(mut fits: Vec<Fit>, count: usize, options: &Options) -> Vec<Fit> {
    let criteria: Vec<f64> = fits.iter().map(|fit| criterion(fit, count, options)).collect();
    let least = criteria.iter().copied().fold(f64::INFINITY, f64::min);
    for (fit, criterion) in fits.iter_mut().zip(criteria) {
        fit.weight = (0.5 * (least - criterion)).exp();
    }
    fits.sort_by(|one, other| other.weight.total_cmp(&one.weight));
    let mut best: Vec<Fit> = Vec::new();
    for fit in fits {
        if best.iter().all(|other| other.curve.model() != fit.curve.model()) {
            best.push(fit);
        }
    }
    let sum: f64 = best.iter().map(|fit| fit.weight).sum();
    for (i, fit) in best.iter_mut().enumerate() {
        fit.weight = match options.blend {
            true => fit.weight / sum,
            false => f64::from(u8::from(i == 0)),
        };
    }
    best
}

/// How many streams up to `most`, told from `samples` in any order.
///
/// ```
/// use tidegate_control::BitRate;
/// use tidegate_control::throughput_model::{Sample, choose};
///
/// let sampled = |n, mbps| Sample::new(n, BitRate::mbps(mbps));
/// let samples = [sampled(1, 100), sampled(2, 198), sampled(4, 390), sampled(8, 600), sampled(16, 610)];
/// let choice = choose(&samples, 32);
/// assert!((5..=16).contains(&choice.streams), "{choice:?}");
/// ```
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
    let (fits, far): (Vec<Fit>, Vec<Fit>) = fits.into_iter().partition(|fit| fit.error <= options.most_error);
    for Fit { curve, error, .. } in far {
        let model = curve.model();
        if fits.iter().all(|fit| fit.curve.model() != model)
            && rejected.iter().all(|rejected: &Rejected| rejected.model != model)
        {
            rejected.push(Rejected { model, why: Rejection::Misses { error } });
        }
    }
    let fits = weighted(fits, samples.len(), options);
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
        Some(_) => by_curves(&choice, most, options),
        None => by_samples(&choice.samples, most, options),
    };
    if let Some((sample, reason)) = decided {
        (choice.streams, choice.throughput, choice.reason) = (sample.streams, sample.throughput, reason);
    }
    if let Some(bound) = options.bounded.then(|| most_within(&choice)).flatten() {
        choice.throughput = choice.throughput.min(bound);
    }
    choice
}

/// The most to be told of the streams that were chosen, unless they are more than were sampled.
fn most_within(choice: &Choice) -> Option<BitRate> {
    choice.samples.last().filter(|last| choice.streams <= last.streams)?;
    choice.samples.iter().map(|sample| sample.throughput).max()
}

/// The fewest streams with as good as the best by the curves.
fn by_curves(choice: &Choice, most: u16, options: &Options) -> Option<(Sample, Reason)> {
    let reach = (options.reach * choice.samples.last()?.n()).clamp(1.0, f64::from(u16::MAX)) as u16;
    let limit = most.min(reach);
    let predicted: Vec<Sample> = candidates(limit).map(|n| Sample::new(n, choice.predict(n))).collect();
    let best = *predicted.iter().rev().max_by_key(|sample| sample.throughput)?;
    let share = |share: f64, of: BitRate| BitRate::from_mbps((1.0 - share) * of.as_mbps());
    // Rounding may not ask for more than there is.
    let as_good = share(options.same, best.throughput).min(best.throughput);
    let (enough, reason) = match choice.optimum? {
        Optimum::Saturates { limit } if share(options.saturation, limit) <= best.throughput => {
            (as_good.min(share(options.saturation, limit)), Reason::Saturation)
        }
        _ if best.streams == 1 && limit > 1 => (best.throughput, Reason::Fewest),
        _ if best.streams < limit => (as_good, Reason::Peak),
        Optimum::Unbounded => (best.throughput, bound(limit, most)),
        _ => (as_good, bound(limit, most)),
    };
    predicted.into_iter().find(|sample| sample.throughput >= enough).map(|sample| (sample, reason))
}

/// Why there are no more than `limit`, of `most` that are allowed.
const fn bound(limit: u16, most: u16) -> Reason {
    if limit < most { Reason::Reach } else { Reason::Bound }
}

/// The numbers of streams looked at: all up to 128, then in steps of a hundredth, and `limit`.
fn candidates(limit: u16) -> impl Iterator<Item = u16> {
    let step = move |&n: &u16| n.checked_add((n / 100).max(1)).filter(|&next| next < limit);
    std::iter::successors(Some(1).filter(|&n| n < limit), step).chain([limit])
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
    let enough = BitRate::from_mbps((1.0 - options.same) * best.as_mbps()).min(best);
    let sample = allowed().find(|sample| sample.throughput >= enough)?;
    Some((*sample, Reason::BestSample))
}
