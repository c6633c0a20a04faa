//! What is believed of one stage: how long its workers take for a bit, by their number.
//!
//! With n workers that move T together, z(n) = n/T is the time a worker takes for a bit. It is constant (1/w) while
//! workers do not disturb one another, and grows linearly from some number N on, whatever the reason: a link or a disk
//! that is full (z = n/C), one that is shared evenly with m streams of others (z = (n + m)/C), contention that slows
//! every worker by the same for each one more. So one family holds them all,
//!
//! ```text
//! z(n) = 1/w · max(1, (n + m) / (N + m))
//! ```
//!
//! and the belief is a grid over (N, m), with a Gaussian over ln w in each cell: the update by what was measured
//! is exact and cheap, and that by what was censored (a stage waited) matches mean and variance.

use crate::normal;

/// The largest N that is told from endless.
const MAX_KNEE: f64 = 400.0;
/// N may be less than one, which nothing tells from one: the prior of that one has all from here on, evenly in ln N. One worker
/// may have several times what the path carries as well as a fraction of it.
const MIN_KNEE: f64 = 0.25;
/// Factor between two N of the grid.
const KNEE_STEP: f64 = 1.08;
/// The m of the grid, and its prior weights.
const OTHERS: [(f64, f64); 9] = [
    (0.0, 8.0),
    (1.0, 1.0),
    (2.0, 1.0),
    (3.0, 1.0),
    (5.0, 1.0),
    (8.0, 1.0),
    (12.0, 1.0),
    (20.0, 1.0),
    (40.0, 1.0),
];
/// More workers than N move less in all: m as a share of N, and its prior weight.
const DECLINE: [(f64, f64); 3] = [(-0.4, 0.4), (-0.7, 0.4), (-0.88, 0.2)];

/// √3: the outer nodes of the quadrature over ln w, in standard deviations.
const NODE: f64 = 1.732_050_8;
/// Weights of the outer and the middle nodes.
const NODE_WEIGHTS: [f64; 3] = [1.0 / 6.0, 2.0 / 3.0, 1.0 / 6.0];

/// Cells with less of the likeliest one's weight (its logarithm) do not count.
const NEGLIGIBLE: f64 = -11.0;
/// Standard deviation of ln of N, or of a worker's rate: with less it is known.
const KNOWN: f64 = 0.12;
/// ln of how much likelier something is that is plainly so; also the most that one observation may take from ln of a cell's
/// weight, as it may be wrong for reasons that no error tells.
pub(super) const PLAINLY: f64 = 5.0;

/// What a second without loss and queue takes from ln of the weight of an N that is exceeded, and one with losses in a queue
/// that stands from that of an N that is not; and how sharply N is told.
const TOLD: f64 = 1.5;
const EDGE: f64 = 12.0;

/// One pair of N and m, how likely it is, and what it makes of a worker's rate.
#[derive(Clone, Copy, Debug)]
struct Cell {
    knee: f64,
    others: f64,
    /// ln of the weight, by the likeliest cell's; and the prior weight.
    weight: f64,
    prior: f64,
    /// ln of one worker's rate: mean and variance; infinite before anything was seen.
    rate: f64,
    variance: f64,
    /// The weight, one worker's rate at the nodes of the quadrature, and how many times more it may be.
    share: f64,
    rates: [f64; 3],
    hoped: f64,
}

impl Cell {
    fn new(knee: f64, others: f64, weight: f64) -> Self {
        Self {
            knee,
            others,
            weight: weight.ln(),
            prior: weight,
            rate: 0.0,
            variance: f64::INFINITY,
            share: weight,
            rates: [0.0; 3],
            hoped: 0.0,
        }
    }

    /// So many workers, each at its full rate, would move what `n` do, of which each differs from time to time by this share.
    fn full(&self, n: f64, varies: f64) -> f64 {
        if n + self.others <= 0.0 {
            return n;
        }
        let most = n * (self.knee + self.others) / (n + self.others);
        let step = NODE * varies * n.sqrt();
        if (most - n).abs() >= step {
            return if n <= self.knee { n } else { most };
        }
        // Now and then all together do more than is carried, and at other times less.
        NODE_WEIGHTS.iter().zip([n - step, n, n + step]).map(|(weight, able)| weight * able.min(most)).sum()
    }

    /// Takes in ln of a worker's rate, seen with this variance.
    fn learn(&mut self, rate: f64, variance: f64) {
        if self.variance.is_infinite() {
            (self.rate, self.variance) = (rate, variance);
            return;
        }
        let far = rate - self.rate;
        let spread = self.variance + variance;
        self.weight -= (0.5 * far * far / spread).min(PLAINLY) + 0.5 * spread.ln();
        self.rate += far * self.variance / spread;
        self.variance *= variance / spread;
    }

    /// Takes in that ln of a worker's rate is at least so much, seen with this variance: of a cell that says less what is above it
    /// is left, as a normal distribution of the same mean and variance. One that says plainly less is wrong, by anything up to
    /// twice this `middle`.
    fn learn_at_least(&mut self, rate: f64, variance: f64, middle: f64) {
        if self.variance.is_infinite() {
            (self.rate, self.variance) = (rate + middle, variance + middle * middle);
            return;
        }
        let far = rate - self.rate;
        let spread = self.variance + variance;
        if far > spread.sqrt() {
            self.weight -= (0.5 * far * far / spread).min(PLAINLY);
            (self.rate, self.variance) = (rate + middle, variance + middle * middle);
        } else if far > 0.0 {
            let z = -far / spread.sqrt();
            let left = normal::below(z);
            let pull = normal::density(z) / left;
            self.weight += left.ln();
            self.rate += self.variance / spread.sqrt() * pull;
            self.variance *= 1.0 - self.variance / spread * pull * (pull + z);
        }
    }

    /// With this probability ln of a worker's rate is another one, with this variance: the mean and variance of both. What was
    /// refuted long ago says nothing of what may be by now.
    fn become_another(&mut self, probability: f64, rate: f64, variance: f64) {
        let far = rate - self.rate;
        self.rate += probability * far;
        self.variance += probability * (variance - self.variance + (1.0 - probability) * far * far);
    }
}

/// The posterior of one stage.
#[derive(Clone, Debug)]
pub struct StageCurve {
    cells: Vec<Cell>,
    seen: bool,
    /// Standard deviation of what one worker moves, by its mean: without it the curve has a corner at N.
    varies: f64,
}

impl Default for StageCurve {
    fn default() -> Self {
        let mut cells = Vec::new();
        let mut knee = 1.0;
        let mut stands_for = 1.0 - MIN_KNEE.ln() / KNEE_STEP.ln();
        while knee < MAX_KNEE {
            cells.extend(OTHERS.map(|(others, weight)| Cell::new(knee, others, weight * stands_for)));
            cells.extend(DECLINE.map(|(share, weight)| Cell::new(knee, share * knee, weight * stands_for)));
            knee *= KNEE_STEP;
            stands_for = 1.0;
        }
        Self { cells, seen: false, varies: 0.0 }
    }
}

impl StageCurve {
    /// Whether anything has been seen.
    pub const fn is_known(&self) -> bool {
        self.seen
    }

    /// What one worker moves differs from time to time by this share of it, whatever the others do.
    pub fn set_varying(&mut self, share: f64) {
        self.varies = share;
    }

    /// ln of the density of seeing `n` workers move `total`, with this variance of ln `total`.
    pub fn log_density(&self, n: f64, total: f64, variance: f64) -> f64 {
        let (mut sum, mut shares) = (0.0, 0.0);
        for cell in self.likely() {
            let spread = cell.variance + variance;
            let far = (total / cell.full(n, self.varies)).ln() - cell.rate;
            sum += cell.share * (-0.5 * far * far / spread).exp() / spread.sqrt();
            shares += cell.share;
        }
        (sum / shares).ln()
    }

    fn likely(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(|cell| cell.weight > NEGLIGIBLE)
    }

    /// Takes into account that `n` workers moved `total`, with this variance of its logarithm.
    pub fn observe(&mut self, n: f64, total: f64, variance: f64) {
        let varies = self.varies;
        for cell in &mut self.cells {
            cell.learn((total / cell.full(n, varies)).ln(), variance);
        }
        self.settle();
    }

    /// Takes into account that `n` workers moved `total` and would have moved more, had they not waited, at most `factor`
    /// times as much.
    pub fn observe_at_least(&mut self, n: f64, total: f64, factor: f64, variance: f64) {
        let middle = factor.ln() / 2.0;
        let varies = self.varies;
        for cell in &mut self.cells {
            cell.learn_at_least((total / cell.full(n, varies)).ln(), variance, middle);
        }
        self.settle();
    }

    /// Takes into account that for so many seconds nothing was lost and nothing queued for `n` workers: seldom so where
    /// as many as N work.
    pub fn observe_spare(&mut self, n: f64, seconds: f64) {
        for cell in &mut self.cells {
            let full = 1.0 / (1.0 + (cell.knee / n).powf(EDGE));
            cell.weight -= TOLD * seconds.min(1.0) * full;
        }
        self.settle();
    }

    /// Takes into account that for so many seconds packets of `n` workers were lost in a queue that stands: seldom so where
    /// fewer than N work.
    pub fn observe_full(&mut self, n: f64, seconds: f64) {
        for cell in &mut self.cells {
            let spare = 1.0 / (1.0 + (n / cell.knee).powf(EDGE));
            cell.weight -= TOLD * seconds.min(1.0) * spare;
        }
        self.settle();
    }

    /// Time passes: with probability `change` the stage is another one by now, of which nothing is known but what its `n`
    /// workers move, which would have been seen; and a worker's rate may have drifted by this variance.
    pub fn forget(&mut self, n: f64, change: f64, drift: f64) {
        if change <= 0.0 {
            // No time has passed.
            return;
        }
        let (moved, error) = self.outlook(n);
        let all: f64 = self.cells.iter().map(|cell| cell.weight.exp()).sum();
        let priors: f64 = self.cells.iter().map(|cell| cell.prior).sum();
        for cell in &mut self.cells {
            let another = change * all * cell.prior / priors;
            let weight = (1.0 - change) * cell.weight.exp() + another;
            cell.become_another(another / weight, (moved / cell.full(n, self.varies)).ln(), error * error);
            cell.variance += drift;
            cell.weight = weight.ln();
        }
        self.settle();
    }

    /// Makes the likeliest cell's weight one, and what is asked for often.
    fn settle(&mut self) {
        self.seen = true;
        let most = self.cells.iter().map(|cell| cell.weight).fold(f64::NEG_INFINITY, f64::max);
        for cell in &mut self.cells {
            cell.weight -= most;
            if cell.weight > NEGLIGIBLE {
                let (middle, deviation) = (cell.rate.exp(), cell.variance.sqrt());
                let step = (NODE * deviation).exp();
                cell.share = cell.weight.exp();
                cell.rates = [middle / step, middle, middle * step];
                cell.hoped = if deviation > KNOWN { deviation.exp() } else { 1.0 };
            }
        }
    }

    /// The expectation of what `n` workers move, at most `limit`.
    pub fn expected(&self, n: f64, limit: f64) -> f64 {
        let (mut sum, mut shares) = (0.0, 0.0);
        for cell in self.likely() {
            let full = cell.full(n, self.varies);
            let moved: f64 = NODE_WEIGHTS
                .iter()
                .zip(cell.rates)
                .map(|(weight, rate)| weight * (full * rate).min(limit))
                .sum();
            sum += cell.share * moved;
            shares += cell.share;
        }
        sum / shares
    }

    /// The expectation of what `n` workers move, and its standard deviation as a share of it.
    pub fn outlook(&self, n: f64) -> (f64, f64) {
        let (mut sum, mut squares, mut shares) = (0.0, 0.0, 0.0);
        for cell in self.likely() {
            let moved = cell.full(n, self.varies) * cell.rates[1];
            sum += cell.share * moved;
            squares += cell.share * moved * moved * (1.0 + cell.variance);
            shares += cell.share;
        }
        let mean = sum / shares;
        (mean, (squares / shares - mean * mean).max(0.0).sqrt() / mean)
    }

    /// The fewest workers that move this share of `total`, or of the most that is in their power where `most` of them
    /// cannot move so much: the (geometric) mean, and the standard deviation of ln.
    pub fn need(&self, total: f64, share: f64, most: f64) -> (f64, f64) {
        let (mut sum, mut squares, mut shares) = (0.0, 0.0, 0.0);
        for cell in self.likely() {
            let power = cell.full(most, self.varies).max(cell.knee.min(most));
            let needed = share * (total / cell.rates[1]).min(power);
            let count = if needed <= cell.knee {
                needed
            } else {
                needed * cell.others / (cell.knee + cell.others - needed)
            };
            let ln = count.max(1.0).ln();
            sum += cell.share * ln;
            squares += cell.share * ln * ln;
            shares += cell.share;
        }
        let mean = sum / shares;
        (mean.exp(), (squares / shares - mean * mean).max(0.0).sqrt())
    }

    /// So many workers would fill the stage if nobody else used it: the (geometric) mean of what is believed, and so many
    /// standard deviations more. Each of N + m has what a worker is seen to do at most; where it is `contended`, others hold
    /// workers back, and one that has the stage for itself may do any more than that: its ln is evenly between N and N + m.
    pub fn fills(&self, deviations: f64, contended: bool) -> f64 {
        let (mean, deviation) = self.ln_of(|cell| {
            let most = (cell.knee + cell.others.max(0.0)).ln();
            let range = if contended { most - cell.knee.ln() } else { 0.0 };
            (most - range / 2.0, range)
        });
        (mean + deviations * deviation).exp()
    }

    /// The fewest that fill it where others hold workers back: of those that have the stage for themselves N do, whatever m is.
    /// Where N is known it is not to be missed.
    pub fn fills_at_least(&self) -> f64 {
        let (mean, deviation) = self.ln_of(|cell| (cell.knee.ln(), 0.0));
        if deviation < KNOWN { (mean + deviation).exp().ceil() } else { mean.exp().round() }
    }

    /// The mean and the standard deviation of what is believed of an ln that is evenly within a range around a middle.
    fn ln_of(&self, of: impl Fn(&Cell) -> (f64, f64)) -> (f64, f64) {
        let (mut sum, mut squares, mut shares) = (0.0, 0.0, 0.0);
        for cell in self.likely() {
            let (middle, range) = of(cell);
            sum += cell.share * middle;
            squares += cell.share * (middle * middle + range * range / 12.0);
            shares += cell.share;
        }
        let mean = sum / shares;
        (mean, (squares / shares - mean * mean).max(0.0).sqrt())
    }

    /// What `n` workers move at least with this `probability`, where a worker's rate is so many standard deviations higher
    /// than expected.
    pub fn possible(&self, n: f64, probability: f64, deviations: f64) -> f64 {
        let mut all = 0.0;
        let mut each: Vec<(f64, f64)> = Vec::with_capacity(self.cells.len());
        for cell in self.likely() {
            let hoped = cell.hoped * (deviations * cell.variance.sqrt()).exp();
            each.push((cell.full(n, self.varies) * cell.rates[1] * hoped, cell.share));
            all += cell.share;
        }
        each.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        let mut mass = 0.0;
        let reached = each.iter().find(|(_, share)| {
            mass += share;
            mass >= probability * all
        });
        reached.map_or(0.0, |(total, _)| *total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Variance of ln of what is seen to three percent.
    const CLOSE: f64 = 9e-4;

    #[test]
    fn where_workers_vary_the_curve_has_no_corner() {
        let full = |n, varies| Cell::new(10.0, 0.0, 1.0).full(n, varies);
        assert_eq!([2.0, 10.0, 30.0].map(|n| full(n, 0.0)), [2.0, 10.0, 10.0]);
        assert_eq!([2.0, 30.0].map(|n| full(n, 0.3)), [2.0, 10.0], "far from it");
        // 0.3 ÷ √10 of what ten move: half of the time they would move more than there is.
        assert!((9.6..9.8).contains(&full(10.0, 0.3)), "{}", full(10.0, 0.3));
        let rising: Vec<f64> = (1..=30).map(|n| full(f64::from(n), 0.3)).collect();
        assert!(rising.is_sorted() && rising[10] < 10.0, "{rising:?}");
        // Others, and workers that disturb one another.
        for others in [-4.0, 5.0] {
            let curve = |n, varies| Cell::new(10.0, others, 1.0).full(n, varies);
            for n in [1.0, 3.0, 4.0, 5.0, 200.0] {
                assert_eq!(curve(n, 0.3), curve(n, 0.0), "{n} beside {others}");
            }
            assert!(curve(10.0, 0.3) < curve(10.0, 0.0));
        }
    }

    #[test]
    fn more_workers_are_worth_it_where_each_varies() {
        let close_to_all = |varies| {
            let mut curve = StageCurve::default();
            curve.set_varying(varies);
            for n in [4.0, 8.0, 20.0, 30.0] {
                curve.observe(n, 10.0 * n.min(12.0), CLOSE);
            }
            (1..40).map(f64::from).find(|&n| curve.expected(n, f64::INFINITY) > 117.0)
        };
        assert!(close_to_all(0.3) > close_to_all(0.0), "{:?} {:?}", close_to_all(0.3), close_to_all(0.0));
    }

    /// What is believed after two looks at each of these numbers of workers.
    fn seen(numbers: &[f64], moved: impl Fn(f64) -> f64) -> StageCurve {
        let mut curve = StageCurve::default();
        for n in numbers.iter().flat_map(|&n| [n, n]) {
            curve.observe(n, moved(n), CLOSE);
        }
        curve
    }

    /// Ten to fill it.
    fn link(n: f64) -> f64 {
        (100.0 * n).min(1000.0)
    }

    fn expects(curve: &StageCurve, n: f64) -> f64 {
        curve.expected(n, f64::INFINITY)
    }

    #[test]
    fn that_a_crowd_moves_far_less_says_how_many_are_best() {
        // From 79 on each worker more slows all by a tenth of what one takes alone.
        let truth = |n: f64| 26.0 * n / (1.0 + 0.094 * (n - 79.0).max(0.0));
        let curve = seen(&[6.0, 18.0, 54.0, 129.0, 165.0], truth);
        let best =
            (1..=165).map(f64::from).max_by(|&a, &b| expects(&curve, a).total_cmp(&expects(&curve, b)));
        assert!(best.is_some_and(|n| (60.0..90.0).contains(&n)), "{best:?}");
    }

    #[test]
    fn looks_at_three_numbers_of_workers_tell_where_a_stage_is_full() {
        for (worker, total) in [(100.0, 1000.0), (1000.0, 12_000.0)] {
            let truth = |n: f64| (n * worker).min(total);
            let curve = seen(&[2.0, 8.0, 32.0], truth);
            for n in [4.0, 16.0, 64.0] {
                let error = expects(&curve, n) / truth(n) - 1.0;
                assert!(error.abs() < 0.05, "{n} workers of {worker} within {total}: off by {error}");
            }
            let expected: Vec<f64> = (1..=64_u16).map(|n| expects(&curve, n.into())).collect();
            let most = expected.iter().copied().fold(0.0, f64::max);
            let fewest = (1..).zip(expected).find(|&(_, moved)| moved >= 0.98 * most).map(|(n, _)| n);
            let need = (total / worker) as u16;
            assert!(fewest.is_some_and(|n| (need..2 * need).contains(&n)), "{fewest:?} of {need}");
        }
    }

    #[test]
    fn how_many_it_takes_is_told_with_how_sure_that_is() {
        let known = seen(&[2.0, 8.0, 12.0, 32.0], link);
        let (count, deviation) = known.need(1000.0, 0.98, 64.0);
        assert!((9.8..14.0).contains(&count) && deviation < 0.25, "{count}, {deviation}");
        let (count, _) = known.need(500.0, 0.98, 64.0);
        assert!((4.7..5.2).contains(&count), "{count} for half of it");
        let (count, _) = known.need(5000.0, 0.98, 64.0);
        assert!((9.8..20.0).contains(&count), "{count}: more would bring little");
        let (_, unsure) = seen(&[2.0], link).need(1000.0, 0.98, 64.0);
        assert!(unsure > 2.0 * deviation, "{unsure} before more was tried");
    }

    #[test]
    fn what_was_not_tried_is_expected_with_less_certainty() {
        let curve = seen(&[2.0, 4.0], link);
        for n in [2.0, 4.0, 8.0, 32.0] {
            let moved = curve.outlook(n).0;
            assert!((moved / expects(&curve, n) - 1.0).abs() < 0.05, "{moved} with {n}");
        }
        let spread = |n| curve.outlook(n).1;
        assert!(
            spread(4.0) < 0.1 && spread(32.0) > 3.0 * spread(4.0),
            "{} and {}",
            spread(4.0),
            spread(32.0)
        );
    }

    #[test]
    fn of_a_shared_link_more_streams_are_expected_to_get_more() {
        let share = |n: f64| 1000.0 * n / (n + 10.0);
        let gain = |curve: StageCurve| expects(&curve, 64.0) / expects(&curve, 32.0);
        let (shared, full) = (gain(seen(&[2.0, 8.0, 32.0], share)), gain(seen(&[2.0, 8.0, 32.0], link)));
        assert!(shared > 1.08 && full < 1.03, "shared {shared}, full {full}");
    }

    #[test]
    fn what_was_not_tried_for_long_becomes_credible_again() {
        let mut curve = seen(&[2.0, 8.0, 32.0], link);
        let hoped = |curve: &StageCurve| curve.possible(64.0, 0.05, 0.0);
        let at_first = hoped(&curve);
        assert!(at_first < 1.1 * link(64.0), "{at_first}");
        for second in 1..=30 {
            curve.forget(12.0, 0.02, 1e-4);
            curve.observe(12.0, link(12.0), CLOSE);
            assert!(second > 1 || hoped(&curve) < 1.3 * link(64.0), "after {second} s: {}", hoped(&curve));
        }
        assert!(hoped(&curve) > 2.0 * link(64.0), "{}", hoped(&curve));
        let known = expects(&curve, 12.0) / link(12.0);
        assert!((0.97..1.03).contains(&known), "what is seen all the time: {known}");
    }

    #[test]
    fn what_was_refuted_is_credible_again_as_soon_as_a_change_is() {
        // Two brought no more than one, tried once or again and again.
        let seconds = |tries| {
            let mut curve = StageCurve::default();
            for _ in 0..tries {
                curve.observe(1.0, 1000.0, CLOSE);
                curve.observe(2.0, 1000.0, CLOSE);
            }
            let hopes = |curve: &StageCurve| curve.possible(2.0, 0.1, 0.0) > 1200.0;
            (0..60).find(|&second| {
                curve.forget(1.0, 0.03, 1e-4);
                curve.observe(1.0, 1000.0, CLOSE);
                second > 0 && hopes(&curve)
            })
        };
        let found = [2, 4, 12, 40].map(seconds);
        assert!(
            found.iter().all(|found| found.is_some_and(|seconds| (2..8).contains(&seconds))),
            "{found:?}"
        );
    }

    #[test]
    fn room_makes_more_credible_and_full_less() {
        let hoped = |spare: bool| {
            let mut curve = seen(&[2.0, 8.0, 12.0, 32.0], link);
            for _ in 0..4 {
                curve.forget(12.0, 0.02, 1e-4);
                curve.observe(12.0, link(12.0), CLOSE);
                if spare {
                    curve.observe_spare(12.0, 1.0);
                }
            }
            curve.possible(32.0, 0.05, 0.0)
        };
        assert!(hoped(true) > 1.5 * hoped(false), "{} and {}", hoped(true), hoped(false));
    }

    #[test]
    fn losses_in_a_queue_speak_against_more_and_for_others_on_the_path() {
        // Beside others each worker brings as much as the one before, so far.
        let believed = |full: bool| {
            let mut curve = seen(&[4.0], |n| 30.0 * n);
            for _ in 0..4 {
                curve.observe(4.0, 120.0, CLOSE);
                if full {
                    curve.observe_full(4.0, 1.0);
                }
            }
            curve
        };
        let (full, unknown) = (believed(true), believed(false));
        assert!(full.expected(64.0, f64::INFINITY) < 0.7 * unknown.expected(64.0, f64::INFINITY));
        // That twelve move more is the share of others, of which any one that is alone might have all.
        let mut beside = full;
        beside.observe(12.0, 290.0, CLOSE);
        beside.observe_full(12.0, 1.0);
        let (equal, alone) = (beside.fills(0.0, false), beside.fills(0.0, true));
        assert!(alone < 0.8 * equal && alone > 1.0, "{alone} and {equal}");
        // Where nobody else is, N is what it is.
        let own = seen(&[2.0, 8.0, 16.0, 32.0], |n| 100.0 * n.min(8.0));
        let (equal, alone) = (own.fills(0.0, false), own.fills(0.0, true));
        assert!((equal / alone - 1.0).abs() < 0.1 && (7.0..9.5).contains(&alone), "{alone} and {equal}");
    }

    #[test]
    fn what_was_moved_at_least_lowers_no_belief() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let (worker, total) = (rng.uniform(10.0, 200.0), rng.uniform(100.0, 3000.0));
            let mut curve = seen(&[2.0, 8.0, 32.0], |n| (n * worker).min(total));
            for step in 0..5 {
                let n = f64::from(rng.integer(1, 64));
                let (moved, factor) = (rng.log_uniform(10.0, 5000.0), rng.log_uniform(1.0, 20.0));
                let before = curve.clone();
                curve.observe_at_least(n, moved, factor, CLOSE);
                let fell =
                    before.cells.iter().zip(&curve.cells).any(|(before, after)| after.rate < before.rate);
                assert!(!fell, "seed {seed}: {moved} with {n} lowered a rate");
                let (was, is) = (expects(&before, n), expects(&curve, n));
                assert!(is >= 0.999 * was, "seed {seed}: {moved} with {n} lowered {was} to {is}");
                assert!(is >= 0.9 * moved, "seed {seed}, step {step}: {is} of {moved} with {n}");
            }
        }
    }

    #[test]
    fn one_absurd_look_among_ten_good_ones_spoils_little() {
        let good = [2.0, 8.0, 32.0, 16.0, 4.0, 2.0, 8.0, 32.0, 16.0, 4.0];
        for (at, factor) in (5..10).flat_map(|at| [(at, 0.5), (at, 2.0)]) {
            let mut curve = StageCurve::default();
            for (i, &n) in good.iter().enumerate() {
                if i == at {
                    curve.observe(n, factor * link(n), CLOSE);
                }
                curve.observe(n, link(n), CLOSE);
            }
            for n in [2.0, 4.0, 8.0, 16.0, 32.0, 64.0] {
                let error = expects(&curve, n) / link(n) - 1.0;
                assert!(error.abs() < 0.14, "{factor} before look {at}, {n} workers: off by {error}");
            }
        }
    }
}
