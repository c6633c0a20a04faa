//! How sure the mean of a rate is, from what was counted in the pieces of an interval.

use std::time::Duration;

/// So many batches at least are made of the pieces, where there are as many, and fewer than twice as many.
const BATCHES: usize = 10;

/// Most of the correlation of neighbouring batches that is believed.
const MAX_CORRELATION: f64 = 0.9;

/// Standard errors by which halves differ that are no chance, and the share of their mean that is worth telling.
const NO_CHANCE: f64 = 2.0;
const NOTABLE: f64 = 0.3;

/// Fewer batches in a half say little of it.
const MIN_HALF: usize = 4;

/// The same, wherever an interval is cut: of so many cuts one is odd by chance, and a stream that has lost a packet moves a third
/// less for a while.
const NO_CHANCE_ANYWHERE: f64 = 4.0;
const NOTABLE_ANYWHERE: f64 = 0.4;

/// Fewer batches before or after a cut say little.
const MIN_PART: usize = 2;

/// Of more pieces two are put together.
const MAX_PIECES: usize = 2048;

/// What one stage moved, piece by piece.
#[derive(Clone, Debug, Default)]
pub(crate) struct RateSamples {
    /// Bytes and seconds.
    pieces: Vec<(f64, f64)>,
    arrivals: u32,
}

impl RateSamples {
    /// So much was moved in the piece that took `time`.
    pub fn add(&mut self, bytes: u64, time: Duration) {
        if self.pieces.len() >= MAX_PIECES {
            let sum = |pair: &[(f64, f64)]| {
                pair.iter().fold((0.0, 0.0), |sum, piece| (sum.0 + piece.0, sum.1 + piece.1))
            };
            self.pieces = self.pieces.chunks(2).map(sum).collect();
        }
        self.arrivals += u32::from(bytes > 0);
        self.pieces.push((bytes as f64, time.as_secs_f64()));
    }

    /// In how many pieces something was moved.
    pub(crate) fn arrivals(&self) -> u32 {
        self.arrivals
    }

    /// The standard error of the mean rate, as a share of it; 1 where nothing can be said.
    ///
    /// Pieces are put together to batches first: what comes in regular small bursts is an even flow, and what goes
    /// up and down slowly shows in batches that are alike. As far as neighbouring batches still are, there are fewer
    /// of them for the error than for the eye.
    pub(crate) fn relative_error(&self) -> f64 {
        let rates = self.batches();
        let count = rates.len() as f64;
        let mean = rates.iter().sum::<f64>() / count;
        if rates.len() < 2 || mean <= 0.0 {
            return 1.0;
        }
        let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
        let products: f64 = rates.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
        let correlation = if squares > 0.0 { (products / squares).clamp(0.0, MAX_CORRELATION) } else { 0.0 };
        let independent = count * (1.0 - correlation) / (1.0 + correlation);
        (squares / (count - 1.0) / independent).sqrt() / mean
    }

    /// Whether the second half of the interval moved plainly more or less than the first: then something was on its way,
    /// or has changed, and the first half says nothing of how it is now.
    pub(crate) fn drifts(&self) -> bool {
        let rates = self.batches();
        let half = rates.len() / 2;
        if half < MIN_HALF {
            return false;
        }
        differ(&rates[..half], &rates[rates.len() - half..], NO_CHANCE, NOTABLE)
    }

    /// Whether plainly more or less was moved from some moment on than before it: the path has changed in between.
    pub fn steps(&self) -> bool {
        let rates = self.batches();
        let differs = |(before, after)| differ(before, after, NO_CHANCE_ANYWHERE, NOTABLE_ANYWHERE);
        (MIN_PART..(rates.len() + 1).saturating_sub(MIN_PART)).map(|cut| rates.split_at(cut)).any(differs)
    }

    fn batches(&self) -> Vec<f64> {
        let each = (self.pieces.len() / BATCHES).max(1);
        let rate = |pieces: &[(f64, f64)]| {
            let (bytes, seconds) =
                pieces.iter().fold((0.0, 0.0), |sum, piece| (sum.0 + piece.0, sum.1 + piece.1));
            bytes / f64::max(seconds, f64::MIN_POSITIVE)
        };
        // A shorter one in the end would stray more than the others.
        self.pieces.chunks_exact(each).map(rate).collect()
    }
}

/// Whether the means of both differ by more than so many standard errors, by one variance of both, and such a share of
/// what is between them.
fn differ(before: &[f64], after: &[f64], no_chance: f64, notable: f64) -> bool {
    let told = |rates: &[f64]| {
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        (mean, rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>())
    };
    let ((first, strays), (second, also)) = (told(before), told(after));
    let (m, n) = (before.len() as f64, after.len() as f64);
    let error = ((strays + also) / (m + n - 2.0) * (m.recip() + n.recip())).sqrt();
    let apart = (second - first).abs();
    apart > no_chance * error && apart > notable * f64::midpoint(first, second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_control::Rng;

    const PIECE: Duration = Duration::from_millis(20);

    fn samples(count: u64, bytes: impl FnMut(u64) -> u64) -> RateSamples {
        let mut samples = RateSamples::default();
        (0..count).map(bytes).for_each(|bytes| samples.add(bytes, PIECE));
        samples
    }

    #[test]
    fn an_even_flow_is_sure() {
        assert_eq!(samples(50, |_| 1000).relative_error(), 0.0);
        // Of 50 kbit/s, a packet comes with every twelfth piece.
        let slow = samples(240, |at| if at.is_multiple_of(12) { 1448 } else { 0 });
        assert!(slow.relative_error() < 0.01 && slow.arrivals() == 20, "{}", slow.relative_error());
        // Pieces of different length of the same flow.
        let mut uneven = RateSamples::default();
        (1..30).for_each(|n| uneven.add(n * 100, PIECE * n as u32));
        assert!(uneven.relative_error() < 1e-9);
    }

    #[test]
    fn however_long_it_lasts_there_is_an_end_to_the_pieces() {
        let long = samples(10 * MAX_PIECES as u64, |_| 1000);
        assert!(long.pieces.len() <= MAX_PIECES);
        assert!(long.relative_error() < 1e-9);
    }

    #[test]
    fn a_few_bursts_are_not_sure() {
        let one = samples(50, |at| if at == 20 { 50_000 } else { 0 });
        assert!(one.relative_error() > 0.9, "{}", one.relative_error());
        assert_eq!(one.arrivals(), 1);
        let three = samples(50, |at| if [3, 5, 33].contains(&at) { 50_000 } else { 0 });
        assert!(three.relative_error() > 0.3, "{}", three.relative_error());
    }

    #[test]
    fn what_still_grows_is_not_sure() {
        let slow_start = samples(50, |at| 100 * at);
        assert!(slow_start.relative_error() > 0.25, "{}", slow_start.relative_error());
    }

    #[test]
    fn a_ramp_and_a_step_drift_and_chance_seldom_does() {
        assert!(samples(50, |at| 100 * at).drifts());
        assert!(samples(50, |at| if at < 20 { 1000 } else { 400 }).drifts());
        assert!(!samples(50, |_| 1000).drifts() && !samples(7, |at| at).drifts());
        assert!(!samples(50, |at| if at.is_multiple_of(12) { 1448 } else { 0 }).drifts());
        let mut rng = Rng::new(1);
        let chance = |_: u64| samples(50, |_| rng.normal(1e6, 0.7e6).max(0.0) as u64).drifts();
        let drifting = (0..500).map(chance).filter(|&drifts| drifts).count();
        assert!(drifting < 40, "{drifting} of 500");
    }

    #[test]
    fn a_step_shows_wherever_it_is_and_nothing_else_does() {
        for at in [10, 15, 25, 40] {
            assert!(samples(50, |piece| if piece < at { 1000 } else { 500 }).steps(), "down at {at}");
            assert!(samples(50, |piece| if piece < at { 500 } else { 1000 }).steps(), "up at {at}");
        }
        assert!(!samples(50, |at| if at < 25 { 1000 } else { 700 }).steps(), "one loss");
        assert!(!samples(50, |_| 1000).steps() && !samples(2, |at| at).steps());
        assert!(!samples(50, |at| if at.is_multiple_of(12) { 1448 } else { 0 }).steps());
        let mut rng = Rng::new(1);
        let chance = |_: u64| samples(50, |_| rng.normal(1e6, 0.7e6).max(0.0) as u64).steps();
        let stepping = (0..500).map(chance).filter(|&steps| steps).count();
        assert!(stepping < 40, "{stepping} of 500");
    }

    #[test]
    fn of_chance_the_error_falls_with_the_root_of_the_pieces() {
        // Each piece strays by a half.
        let error = |count: u64| {
            let mut rng = Rng::new(1);
            let runs = 200;
            let errors = (0..runs)
                .map(|_| samples(count, |_| rng.normal(1e6, 0.5e6).max(0.0) as u64).relative_error());
            errors.sum::<f64>() / f64::from(runs)
        };
        for count in [25, 100, 400] {
            let ideal = 0.5 / (count as f64).sqrt();
            let ratio = error(count) / ideal;
            assert!((0.9..1.4).contains(&ratio), "{count}: {ratio} times as large");
        }
    }

    #[test]
    fn of_nothing_nothing_is_known() {
        assert_eq!(RateSamples::default().relative_error(), 1.0);
        assert_eq!(samples(1, |_| 1000).relative_error(), 1.0);
        assert_eq!(samples(50, |_| 0).relative_error(), 1.0);
        assert_eq!(samples(50, |_| 0).arrivals(), 0);
    }
}
