//! How well the throughput models predict what was not sampled: the tables of docs/results/models.md.
//!
//! ```text
//! cargo run --release -p tidegate-control --example models -- --write docs/results/models.md
//! cargo run --release -p tidegate-control --example models -- --development   # other seeds, to try things on
//! ```

mod contenders;
mod families;

use std::error::Error;
use std::fmt::Write;
use std::fs;

use contenders::Contender;
use families::Family;
use tidegate_control::Rng;
use tidegate_control::throughput_model::{Choice, Doubling, Sample, sampling};

const SEEDS: u64 = 1000;
/// Standard deviation of a sample, of its throughput.
const NOISE: f64 = 0.05;
/// The most streams there may be.
const MAX_STREAMS: u16 = 64;

/// What one contender made of one family: an entry a seed.
#[derive(Default)]
struct Score {
    /// Mean error at the unsampled n between samples.
    errors: Vec<f64>,
    /// And at those beyond the last sample.
    beyond: Vec<f64>,
    /// Throughput at the chosen n by the best.
    shares: Vec<f64>,
    /// Streams chosen by the fewest that come within 2 % of the best.
    surplus: Vec<f64>,
    /// No model fitted.
    unfit: u32,
}

fn samples_of(curve: &dyn Fn(f64) -> f64, rng: &mut Rng) -> Vec<Sample> {
    let mut doubling = Doubling::new(sampling::SamplingConfig::up_to(MAX_STREAMS));
    while let Some(n) = doubling.next() {
        let strayed = curve(f64::from(n)) * rng.normal(1.0, NOISE).max(0.1);
        doubling.record(tidegate_control::BitRate::from_mbps(strayed));
    }
    doubling.samples().to_vec()
}

impl Score {
    fn add(&mut self, choice: &Choice, samples: &[Sample], curve: &dyn Fn(f64) -> f64) {
        let last = samples.iter().map(|sample| sample.streams).max().unwrap_or(1);
        let sampled = |n: u16| samples.iter().any(|sample| sample.streams == n);
        let error = |n: u16| (choice.predict(n).as_mbps() / curve(f64::from(n)) - 1.0).abs();
        let mean = |errors: Vec<f64>| errors.iter().sum::<f64>() / errors.len() as f64;
        let between: Vec<f64> = (1..=last).filter(|&n| !sampled(n)).map(error).collect();
        let beyond: Vec<f64> = (last + 1..=MAX_STREAMS).map(error).collect();
        self.errors.extend((!between.is_empty()).then(|| mean(between)));
        self.beyond.extend((!beyond.is_empty()).then(|| mean(beyond)));
        let best = (1..=MAX_STREAMS).map(|n| curve(f64::from(n))).fold(0.0, f64::max);
        let fewest = (1..=MAX_STREAMS).find(|&n| curve(f64::from(n)) >= 0.98 * best).unwrap_or(MAX_STREAMS);
        self.shares.push(curve(f64::from(choice.streams)) / best);
        self.surplus.push(f64::from(choice.streams) / f64::from(fewest));
        self.unfit += u32::from(choice.fit.is_none());
    }
}

fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get((share * (sorted.len().max(1) - 1) as f64).round() as usize).copied().unwrap_or(0.0)
}

fn scores(family: &Family, contenders: &[Contender], first_seed: u64) -> Vec<Score> {
    let mut scores: Vec<Score> = contenders.iter().map(|_| Score::default()).collect();
    for seed in first_seed..first_seed + SEEDS {
        let mut rng = Rng::new(seed);
        let curve = (family.draw)(&mut rng);
        let samples = samples_of(&curve, &mut rng);
        for (score, contender) in scores.iter_mut().zip(contenders) {
            let choice = contender.choose(&samples, MAX_STREAMS);
            score.add(&choice, &samples, &curve);
        }
    }
    scores
}

/// A table with a row a family and a column a contender.
fn table(
    families: &[Family],
    contenders: &[Contender],
    all: &[Vec<Score>],
    cell: &dyn Fn(&Score) -> String,
) -> Result<String, std::fmt::Error> {
    let mut out = String::from("| curve |");
    for contender in contenders {
        write!(out, " {} |", contender.name)?;
    }
    write!(out, "\n|---|{}\n", "---:|".repeat(contenders.len()))?;
    for (family, scores) in families.iter().zip(all) {
        write!(out, "| {} |", family.name)?;
        for score in scores {
            write!(out, " {} |", cell(score))?;
        }
        out.push('\n');
    }
    Ok(out)
}

/// The families in which a published model is ahead of ours, by the quantile `share`.
fn behind(families: &[Family], contenders: &[Contender], all: &[Vec<Score>], share: f64) -> String {
    let mut lines = Vec::new();
    for (family, scores) in families.iter().zip(all) {
        let ours = quantile(&scores[0].errors, share);
        for (score, contender) in scores.iter().zip(contenders).skip(contenders::OURS) {
            let theirs = quantile(&score.errors, share);
            if theirs < ours {
                let nearer =
                    score.errors.iter().zip(&scores[0].errors).filter(|(one, other)| one < other).count();
                lines.push(format!(
                    "{}: {} {:.2} against {:.2} %, nearer on {:.0} % of the curves",
                    family.name,
                    contender.name,
                    100.0 * theirs,
                    100.0 * ours,
                    100.0 * nearer as f64 / score.errors.len() as f64
                ));
            }
        }
    }
    if lines.is_empty() { "none".to_owned() } else { lines.join("; ") }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let development = arguments.iter().any(|argument| argument == "--development");
    let (families, contenders) = (families::all(), contenders::all());
    // Development never sees the seeds of the page.
    let first_seed = if development { 1_000_000 } else { 0 };
    let all: Vec<Vec<Score>> =
        families.iter().map(|family| scores(family, &contenders, first_seed)).collect();
    let both = |values: &[f64], second: f64| match values.is_empty() {
        true => "–".to_owned(),
        false => {
            format!("{:.1} ({:.1})", 100.0 * quantile(values, 0.5), 100.0 * quantile(values, second))
        }
    };
    let of = |cell: &dyn Fn(&Score) -> String| table(&families, &contenders, &all, cell);
    let over: Vec<&str> = families
        .iter()
        .zip(&all)
        .filter(|(_, scores)| quantile(&scores[0].errors, 0.5) > 0.05)
        .map(|(family, _)| family.name)
        .collect();
    let worst = all.iter().map(|scores| quantile(&scores[0].errors, 0.5)).fold(0.0, f64::max);
    let page = format!(
        "# Throughput predicted from a few samples\n\n\
         Made by `cargo run --release -p tidegate-control --example models -- --write docs/results/models.md`; do not \
         edit by hand. What the models are: `crates/control/src/throughput_model.rs`.\n\n\
         {SEEDS} curves of each family, each with a scale, a bend or knee at 3 to 48 streams and a shape of its own. \
         Samples at n = 1, 2, 4, … as algorithm 2 of EOS takes them, up to {MAX_STREAMS} streams, with noise of {:.0} %. \
         *Ours* is `choose` as it is by default; the next two columns lack its last steps. The published models stand \
         alone, each solved from every combination of samples and the solution nearest to all of them taken, which is \
         more than Dinda’s and no less than EOS’s authors do; where none describes a path, straight lines join the \
         samples. Hacker’s knows the first sample only. The seeds are others than those that constants were chosen \
         by.\n\n\
         | bar | |\n|---|---|\n\
         | median error at unsampled n ≤ 5 % | {} (at most {:.2} %) |\n\
         | families where a published model has a smaller median error | {} |\n\
         | families where a published model has a smaller 95th percentile | {} |\n\n\
         ## Error between the samples, %\n\n\
         Predicted by true, less 1; the mean over all n that were not sampled up to the last one that was: the median of \
         the curves and (the 95th percentile).\n\n{}\n\
         ## Error beyond the samples, %\n\n\
         The same from the last sample to {MAX_STREAMS} streams: nothing is known there but what the model says.\n\n{}\n\
         ## Throughput at the chosen n, % of the best\n\n\
         True throughput by the best of any n up to {MAX_STREAMS}: the median and (the 5th percentile). A curve that rises \
         without a peak is followed to 95 % of its limit only, by design.\n\n{}\n\
         ## Streams chosen\n\n\
         By the fewest that come within 2 % of the best: the median and (the 95th percentile).\n\n{}\n\
         ## No solution, % of the curves\n\n{}",
        100.0 * NOISE,
        if over.is_empty() {
            "in every family".to_owned()
        } else {
            format!("in all but: {}", over.join(", "))
        },
        100.0 * worst,
        behind(&families, &contenders, &all, 0.5),
        behind(&families, &contenders, &all, 0.95),
        of(&|score| both(&score.errors, 0.95))?,
        of(&|score| both(&score.beyond, 0.95))?,
        of(&|score| both(&score.shares, 0.05))?,
        of(&|score| format!("{:.2} ({:.2})", quantile(&score.surplus, 0.5), quantile(&score.surplus, 0.95)))?,
        of(&|score| format!("{:.1}", 100.0 * f64::from(score.unfit) / SEEDS as f64))?,
    );
    match arguments.as_slice() {
        [flag, file] if flag == "--write" => fs::write(file, page)?,
        _ => print!("{page}"),
    }
    Ok(())
}
