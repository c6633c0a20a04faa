//! How long a job that failed rests before it is tried again.

use std::time::Duration;

use tidegate_control::Rng;

use crate::mover::Class;

/// The first pause, doubled with each failure.
const FIRST: Duration = Duration::from_secs(1);
/// The first pause where the destination was full: room is made by people.
const FIRST_FULL: Duration = Duration::from_secs(60);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(300);

/// The pause after the `failures`-th failure in a row, which was of `class`: between half of it and all of it by
/// chance, so that jobs that failed together do not come back together.
pub(crate) fn pause(class: Class, failures: u32, rng: &mut Rng) -> Duration {
    let first = if class == Class::NoSpace { FIRST_FULL } else { FIRST };
    let whole = first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST);
    some_of(whole, rng)
}

/// The pause in an outage that has lasted so long: as long again, within the same bounds.
pub fn outage(lasted: Duration, rng: &mut Rng) -> Duration {
    some_of(lasted.clamp(FIRST, LONGEST), rng)
}

fn some_of(whole: Duration, rng: &mut Rng) -> Duration {
    whole.mul_f64(0.5 + 0.5 * rng.unit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ() {
        let mut rng = Rng::new(3);
        for failures in 1..40 {
            let whole = FIRST.saturating_mul(1 << (failures - 1).min(16)).min(LONGEST);
            let found = pause(Class::Passing, failures, &mut rng);
            assert!(found >= whole / 2 && found <= whole, "{failures}: {found:?}");
            assert!(pause(Class::NoSpace, failures, &mut rng) >= FIRST_FULL / 2);
        }
        assert_ne!(pause(Class::Passing, 5, &mut rng), pause(Class::Passing, 5, &mut rng));
    }
}
