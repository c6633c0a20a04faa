//! One stage's law, min(n·rate, total), fitted to readings some of which are wrong.
//!
//! LDM and AutoMDT take the largest throughput (and the largest per worker) ever seen; their programs
//! take medians of the top 11 to 101. The first is as wrong as the worst outlier, and with noise of
//! 10 % some 20 % too high; the second depends on how long was explored. Here every division of the
//! readings into "the workers limit" (few) and "the total limits" (many) is tried, each side answers
//! with its median, and the division with the least absolute error wins. Up to half of a side may
//! be wrong before its median is. Then readings beyond three robust deviations are dropped, and
//! the mean of the rest, which noise moves less than a median, is the answer. If epochs to
//! which workers were added read less than the others of a side, they are left out; and so are, of those that
//! should show the total, the ones with hardly enough workers for it: a far stream has no one rate. Where the readings of a total
//! reach far below their middle and hardly above, it is a limit that is often missed, and their upper quartile is it.

/// What one epoch told of a stage that nothing else held back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Workers that ran.
    pub n: f64,
    /// What they moved together.
    pub rate: f64,
    /// Whether some of them were added for this epoch, and may not have been at their rate yet.
    pub grown: bool,
}

/// A stage's law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Law {
    /// What one worker moves.
    pub worker: f64,
    /// What all move at most, if the readings show a limit.
    pub total: Option<f64>,
    /// Readings the worker's rate rests on; without any it is a lower bound.
    pub worker_readings: usize,
    /// Readings the total rests on.
    pub total_readings: usize,
}

/// Errors count up to this much (in logarithms), however large: a stall is one wrong reading.
const WRONG: f64 = 1.0;
/// Measured rates are never more exact than this.
const RESOLUTION: f64 = 0.003;
/// The fewest readings that prove a limit.
const PROOF: usize = 2;
/// How many times the evidence for a limit must exceed Bayes' criterion.
const EVIDENCE: f64 = 3.0;
/// How far below what its workers could move a total must lie to be one, and how little below what
/// was moved in spite of it.
const BELOW: f64 = 0.95;
/// Within this share of the total, what the workers could move is no reading of one worker.
const CORNER: f64 = 0.99;
/// The fewest readings that may be left when those of growing numbers are dropped.
const STEADY: usize = 6;
/// What workers could move, as a multiple of the total, for it to be full although half of them were slow.
const SURELY: f64 = 2.0;
/// Standard deviations by which a majority exceeds half: one of twenty that mean nothing passes.
const BEYOND_CHANCE: f64 = 1.645;
/// How many times as far readings lie below the middle as above for that to be no chance.
const LOPSIDED: f64 = 2.5;
/// By how much those must read less, at least.
pub const SLOW: f64 = 0.01;
/// Readings beyond so many robust deviations are wrong.
const BEYOND: f64 = 3.0;
/// The standard deviation of a normal distribution by its median absolute deviation.
pub const NORMAL: f64 = 1.4826;

impl Law {
    /// What `n` workers move.
    pub fn carried(&self, n: f64) -> f64 {
        (n * self.worker).min(self.total.unwrap_or(f64::INFINITY))
    }

    /// How far `reading` is from the law, as a logarithm.
    pub fn error(&self, reading: Reading) -> f64 {
        (reading.rate / self.carried(reading.n)).max(f64::MIN_POSITIVE).ln()
    }

    fn cost(&self, readings: &[Reading]) -> f64 {
        let sum: f64 = readings.iter().map(|&reading| self.error(reading).abs().min(WRONG)).sum();
        sum / readings.len() as f64 + RESOLUTION
    }

    fn limits_at(&self, n: f64) -> bool {
        self.total.is_some_and(|total| n * self.worker > CORNER * total)
    }
}

/// The law behind `readings`; none without a reading above zero. What is seen of the stage `while_held`
/// back by another is less than the law, and so keeps a total from being set too low.
pub fn fit(readings: &[Reading], while_held: &[Reading]) -> Option<Law> {
    let mut sorted = readings.to_vec();
    sorted.sort_by(|a, b| a.n.total_cmp(&b.n));
    let unlimited = median(sorted.iter().map(|reading| reading.rate / reading.n))?;
    let unlimited = Law { worker: unlimited, total: None, worker_readings: 0, total_readings: 0 };
    let mut best: Option<(f64, Law)> = None;
    for split in 0..=sorted.len().saturating_sub(PROOF) {
        if split > 0 && sorted[split - 1].n == sorted[split].n {
            continue;
        }
        let Some(total) = median(sorted[split..].iter().map(|reading| reading.rate)) else { continue };
        // If even the fewest workers reach the total, it is all that is known of one.
        let fewest = total / sorted[0].n;
        let worker = median(sorted[..split].iter().map(|reading| reading.rate / reading.n));
        let law = Law { worker: worker.unwrap_or(fewest), total: Some(total), ..unlimited };
        let most = sorted[sorted.len() - 1].n;
        let moved = while_held.iter().filter(|reading| reading.n >= sorted[split].n);
        let moved = quantile(moved.map(|reading| reading.rate), 0.75).unwrap_or(0.0);
        let refuted = BELOW * moved > total * (1.0 + spread(&law, &sorted));
        if refuted || (split > 0 && total > BELOW * most * law.worker) {
            continue;
        }
        let cost = law.cost(&sorted);
        if best.is_none_or(|(least, _)| cost < least) {
            best = Some((cost, law));
        }
    }
    let count = sorted.len() as f64;
    let law = match best {
        // A second parameter has to pay for itself: Bayes' criterion for absolute errors, and several
        // times that because the best of many divisions is looked at. True limits pass by far.
        Some((cost, law)) if 2.0 * count * (unlimited.cost(&sorted) / cost).ln() > EVIDENCE * count.ln() => {
            law
        }
        _ => unlimited,
    };
    let law = refined(refined(law, &sorted), &sorted);
    (law.worker > 0.0 && law.worker.is_finite()).then_some(law)
}

/// The same law from the means of the readings that agree with it.
fn refined(law: Law, readings: &[Reading]) -> Law {
    let scale = spread(&law, readings).max(RESOLUTION);
    let agree = |reading: &&Reading| law.error(**reading).abs() <= BEYOND * scale;
    let (many, few): (Vec<Reading>, Vec<Reading>) =
        readings.iter().filter(agree).partition(|reading| law.limits_at(reading.n));
    // The limit is nobody's who may only have been slow.
    let unsure = |reading: &Reading| law.total.is_some_and(|total| reading.n * law.worker < SURELY * total);
    let many = without(settled(many, &law), unsure, |low, high| {
        let below = median(high.iter().map(|reading| reading.rate)).unwrap_or(0.0);
        outnumber(low.iter().filter(|reading| reading.rate < (1.0 - SLOW) * below).count(), low.len())
    });
    let few = settled(few, &law);
    let mean =
        |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    // Where workers have no one rate, what is far from the law is not far from the total.
    let middle = median(many.iter().map(|reading| reading.rate)).unwrap_or(0.0);
    let far = |rate: f64| (rate / middle).max(f64::MIN_POSITIVE).ln().abs();
    let deviation = NORMAL * median(many.iter().map(|reading| far(reading.rate))).unwrap_or(0.0);
    let near = |rate: &f64| far(*rate) <= BEYOND * deviation.max(RESOLUTION);
    let totals: Vec<f64> = many.iter().map(|reading| reading.rate).filter(near).collect();
    let workers: Vec<f64> = few.iter().map(|reading| reading.rate / reading.n).collect();
    Law {
        worker: mean(&workers).unwrap_or(law.worker),
        total: law.total.map(|total| often_missed(&many).or_else(|| mean(&totals)).unwrap_or(total)),
        worker_readings: workers.len(),
        total_readings: totals.len(),
    }
}

/// The limit that `readings` often fall short of, and so hardly any exceeds: then their mean is not it. None if they
/// spread alike to both sides.
fn often_missed(readings: &[Reading]) -> Option<f64> {
    let at = |share| quantile(readings.iter().map(|reading| reading.rate), share);
    let (low, middle, high) = (at(0.1)?, at(0.5)?, at(0.9)?);
    let skewed = middle - low > LOPSIDED * (high - middle);
    (readings.len() >= 2 * STEADY && skewed).then(|| at(0.75)).flatten()
}

/// One side's readings without those of added workers, if these read less: workers ramp up slowly then.
fn settled(side: Vec<Reading>, law: &Law) -> Vec<Reading> {
    let of = |readings: &[Reading]| {
        let errors: Vec<f64> = readings.iter().map(|&reading| law.error(reading)).collect();
        let middle = median(errors.iter().copied())?;
        let spread = NORMAL * median(errors.iter().map(|error| (error - middle).abs()))?;
        // The standard error of a median, squared.
        Some((middle, (1.25 * spread).powi(2) / errors.len() as f64))
    };
    let slow = |grown: &[Reading], steady: &[Reading]| match (of(grown), of(steady)) {
        (Some((low, doubt_low)), Some((high, doubt_high))) => {
            high - low > (BEYOND * (doubt_low + doubt_high).sqrt()).max(SLOW)
        }
        _ => false,
    };
    without(side, |reading| reading.grown, slow)
}

/// One side's readings without the `doubtful` ones, if these are `less` than the others and the others enough.
fn without(
    side: Vec<Reading>,
    doubtful: impl Fn(&Reading) -> bool,
    less: impl Fn(&[Reading], &[Reading]) -> bool,
) -> Vec<Reading> {
    let (low, high): (Vec<Reading>, Vec<Reading>) = side.iter().partition(|&reading| doubtful(reading));
    if high.len() >= STEADY && less(&low, &high) { high } else { side }
}

/// Whether `some` of `all` are more than half of them beyond chance.
pub fn outnumber(some: usize, all: usize) -> bool {
    let (some, all) = (some as f64, all as f64);
    2.0 * some - all > BEYOND_CHANCE * all.sqrt()
}

/// The relative standard deviation of `readings` about `law`, wrong ones left out.
pub fn spread(law: &Law, readings: &[Reading]) -> f64 {
    median(readings.iter().map(|&reading| law.error(reading).abs())).map_or(0.0, |mad| NORMAL * mad)
}

/// The middle value; none of nothing.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    quantile(values, 0.5)
}

/// The value that `share` of the values do not exceed, interpolated; none of nothing.
pub fn quantile(values: impl Iterator<Item = f64>, share: f64) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let place = values.len().checked_sub(1)? as f64 * share;
    let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
    Some(low + (high - low) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Readings of min(80n, 1000) for random n, each through `damage`.
    fn readings(
        count: usize,
        seed: u64,
        mut damage: impl FnMut(usize, f64, &mut Rng) -> f64,
    ) -> Vec<Reading> {
        let mut rng = Rng::new(seed);
        let of = |i: usize| {
            let n = f64::from(rng.integer(1, 32));
            Reading { n, rate: damage(i, (80.0 * n).min(1000.0), &mut rng), grown: false }
        };
        (0..count).map(of).collect()
    }

    fn steady(n: i32, rate: f64) -> Reading {
        Reading { n: f64::from(n), rate, grown: false }
    }

    fn near(law: Option<Law>, worker: f64, total: Option<f64>, share: f64) {
        let law = law.expect("a law");
        let close = |a: f64, b: f64| (a / b - 1.0).abs() <= share;
        assert!(close(law.worker, worker), "{law:?}");
        match (law.total, total) {
            (Some(a), Some(b)) => assert!(close(a, b), "{law:?}"),
            (a, b) => assert_eq!(a.is_some(), b.is_some(), "{law:?}"),
        }
    }

    #[test]
    fn exact_readings_give_the_law_back() {
        near(fit(&readings(20, 1, |_, rate, _| rate), &[]), 80.0, Some(1000.0), 1e-9);
        let unlimited: Vec<Reading> = (1..10).map(|n| steady(n, 7.0 * f64::from(n))).collect();
        near(fit(&unlimited, &[]), 7.0, None, 1e-9);
        let one_is_enough: Vec<Reading> = (1..10).map(|n| steady(n, 300.0)).collect();
        near(fit(&one_is_enough, &[]), 300.0, Some(300.0), 1e-9);
        assert_eq!(fit(&one_is_enough, &[]).map(|law| law.worker_readings), Some(0), "a lower bound");
        assert_eq!(fit(&[], &[]), None);
        assert_eq!(fit(&[steady(2, 0.0); 9], &[]), None);
    }

    #[test]
    fn stalls_bursts_and_noise_hardly_move_it() {
        for seed in 0..20 {
            let bad = |i: usize, rate: f64, rng: &mut Rng| match i % 8 {
                0 => 0.0,
                3 => 3.0 * rate,
                _ => rate * rng.normal(1.0, 0.02),
            };
            near(fit(&readings(60, seed, bad), &[]), 80.0, Some(1000.0), 0.03);
            let noisy = |_: usize, rate: f64, rng: &mut Rng| rate * rng.normal(1.0, 0.1);
            near(fit(&readings(100, seed, noisy), &[]), 80.0, Some(1000.0), 0.07);
        }
    }

    #[test]
    fn workers_that_come_up_slowly_are_left_out() {
        for seed in 0..20 {
            let mut readings = readings(120, seed, |_, rate, rng| rate * rng.normal(1.0, 0.02));
            for reading in readings.iter_mut().step_by(2) {
                *reading = Reading { rate: 0.85 * reading.rate, grown: true, ..*reading };
            }
            near(fit(&readings, &[]), 80.0, Some(1000.0), 0.02);
        }
    }

    #[test]
    fn what_was_moved_while_held_back_refutes_a_lower_total() {
        // Up to twelve workers were seen alone, and noise makes the last of them look like a limit.
        let mut readings: Vec<Reading> =
            (1..=10).cycle().take(60).map(|n| steady(n, 80.0 * f64::from(n))).collect();
        readings.extend([steady(12, 830.0); 7]);
        assert!(fit(&readings, &[]).expect("a law").total.is_some());
        let held = [steady(20, 1000.0); 30];
        near(fit(&readings, &held), 80.0, None, 0.01);
    }

    #[test]
    fn a_limit_is_kept_though_workers_were_added_for_all_that_show_it() {
        let mut readings: Vec<Reading> = (0..8).map(|_| steady(1, 80.0)).collect();
        readings.extend((14..26).map(|n| Reading { grown: true, ..steady(n, 500.0) }));
        near(fit(&readings, &[]), 80.0, Some(500.0), 0.01);
    }

    #[test]
    fn a_total_is_what_many_workers_move_where_no_worker_has_one_rate() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let mut readings = Vec::new();
            for n in [1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1, 1, 10, 16, 20, 23, 26, 28, 30, 32] {
                let worker = rng.log_uniform(100.0, 400.0);
                readings.push(steady(n, (f64::from(n) * worker).min(1000.0) * rng.normal(1.0, 0.01)));
            }
            let total = fit(&readings, &[]).and_then(|law| law.total).expect("a limit");
            assert!((950.0..=1050.0).contains(&total), "seed {seed}: {total}");
        }
    }

    #[test]
    fn a_limit_that_is_often_missed_is_not_their_mean() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let mut reading = |i: usize| {
                let missed = if i.is_multiple_of(2) { rng.uniform(0.7, 1.0) } else { 1.0 };
                steady(8 + i as i32, 1000.0 * missed * rng.normal(1.0, 0.005))
            };
            let mut readings: Vec<Reading> = (0..24).map(&mut reading).collect();
            let mean = readings.iter().map(|reading| reading.rate).sum::<f64>() / 24.0;
            assert!(mean < 960.0, "seed {seed}: {mean}");
            readings.extend([steady(1, 200.0); 8]);
            near(fit(&readings, &[]), 200.0, Some(1000.0), 0.02);
        }
    }

    #[test]
    fn the_largest_value_ever_seen_is_no_estimate() {
        let noisy = |_: usize, rate: f64, rng: &mut Rng| rate * rng.normal(1.0, 0.1);
        let readings = readings(100, 1, noisy);
        let largest = readings.iter().map(|reading| reading.rate).fold(0.0, f64::max);
        assert!(largest > 1150.0, "as published: {largest}");
        assert!((spread(&fit(&readings, &[]).expect("a law"), &readings) - 0.1).abs() < 0.03);
    }
}
