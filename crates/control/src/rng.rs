//! A small seeded generator, the same on every platform and in every version.
//!
//! xoshiro256** filled by splitmix64 (Blackman and Vigna, "Scrambled linear pseudorandom number
//! generators"). A recorded seed must replay a run years later, so the algorithm is part of the
//! contract and is pinned by a test. Not for secrets.

/// A stream of pseudo-random numbers that its seed determines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// The stream of `seed`; every seed is good, zero too.
    pub fn new(seed: u64) -> Self {
        let mut mix = seed;
        Self { state: std::array::from_fn(|_| splitmix64(&mut mix)) }
    }

    /// An independent stream, so that one consumer's draws never shift another's.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let mut next = [a, b, c ^ a, d ^ b];
        next[1] ^= next[2];
        next[0] ^= next[3];
        next[2] ^= b << 17;
        next[3] = next[3].rotate_left(45);
        self.state = next;
        result
    }

    /// A whole number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number in [low, high).
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// A whole number from `low` to `high`, both inclusive; `low` if they are the wrong way round.
    pub fn integer(&mut self, low: u16, high: u16) -> u16 {
        if high <= low {
            return low;
        }
        let span = u64::from(high - low) + 1;
        // The bias of this multiply-and-shift is below 2⁻⁴⁸ for 16-bit spans.
        low + ((u128::from(self.next_u64()) * u128::from(span)) >> 64) as u16
    }

    /// A number whose logarithm is uniform in [ln low, ln high); both must be positive.
    pub fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        self.uniform(low.ln(), high.ln()).exp()
    }

    /// A normally distributed number (Box–Muller, one of the pair).
    pub fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        mean + deviation * radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_matches_its_published_vectors() {
        let mut state = 1_234_567;
        let first: Vec<u64> = (0..3).map(|_| splitmix64(&mut state)).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn xoshiro_matches_its_published_vectors() {
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [11520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            (rng.next_u64(), rng.unit(), rng.integer(1, 30), rng.normal(0.0, 1.0))
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn draws_keep_their_ranges_and_moments() {
        let mut rng = Rng::new(1);
        let count = 20_000;
        let mut seen = [0u32; 5];
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..count {
            seen[usize::from(rng.integer(3, 7) - 3)] += 1;
            assert!((2.0..5.0).contains(&rng.uniform(2.0, 5.0)));
            assert!((1.0..1000.0).contains(&rng.log_uniform(1.0, 1000.0)));
            let x = rng.normal(10.0, 2.0);
            sum += x;
            squares += (x - 10.0).powi(2);
        }
        assert!(seen.iter().all(|&n| (3_600..4_400).contains(&n)), "{seen:?}");
        assert!((sum / f64::from(count) - 10.0).abs() < 0.1);
        assert!(((squares / f64::from(count)).sqrt() - 2.0).abs() < 0.1);
        assert_eq!(rng.integer(9, 2), 9);
    }
}
