//! Network streams of a run, shared out among its movers by what each uses. A grant is lowered first and raised when that
//! was obeyed, so that the sum is never more than there are, but for the one stream that each mover needs: one that has just
//! come has it before the others have given it up.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::budget::{Demand, divide};

/// How long a mover that is not heard keeps what it has.
const KEPT: Duration = super::TERM;

/// What one mover has.
#[derive(Debug)]
struct Grant {
    /// The most that it may be using.
    held: u64,
    /// The most that it could use.
    wants: u64,
    heard: Instant,
}

/// The streams of one run.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    movers: HashMap<String, Grant>,
}

impl Grants {
    /// `mover` uses so many of `all` streams at `now`; answers with how many it may use from now on.
    pub fn renew(&mut self, all: u16, mover: &str, used: u16, now: Instant) -> u16 {
        self.movers.retain(|_, grant| now.duration_since(grant.heard) < KEPT);
        let used = u64::from(used);
        let before = self.movers.get(mover).map_or(0, |grant| grant.held);
        // Who is at its bound could use more, and who is not needs little more than it has.
        let wants = if used >= before { used + used / 4 + 1 } else { used + used / 10 + 1 };
        self.movers.insert(mover.to_owned(), Grant { held: used, wants, heard: now });
        let mut names: Vec<&String> = self.movers.keys().collect();
        names.sort();
        let demands: Vec<_> =
            names.iter().map(|name| Demand { most: self.movers[*name].wants, weight: 1.0 }).collect();
        let shares = divide(u64::from(all), &demands);
        let share = names.iter().position(|name| *name == mover).map_or(1, |at| shares[at]);
        let others = self.movers.iter().filter(|(name, _)| *name != mover).map(|(_, grant)| grant.held).sum();
        let granted = share.min(u64::from(all).saturating_sub(others)).max(1);
        if let Some(grant) = self.movers.get_mut(mover) {
            // What it was lowered to it uses only from its next report on.
            grant.held = granted.max(used);
        }
        u16::try_from(granted).unwrap_or(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_control::Rng;

    use super::*;

    #[test]
    fn movers_share_all_streams_and_use_more_only_until_all_were_heard() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let (all, many) = (rng.integer(8, 64), usize::from(rng.integer(2, 6)));
            // What each could use, alone.
            let able: Vec<u16> = (0..many).map(|_| rng.integer(1, 40)).collect();
            let mut used = vec![0u16; many];
            let (mut grants, start) = (Grants::default(), Instant::now());
            for round in 0..200 {
                let at = usize::from(rng.integer(0, u16::try_from(many - 1).expect("few")));
                let now = start + Duration::from_secs(round);
                let granted = grants.renew(all, &format!("mover-{at}"), used[at], now);
                used[at] = granted.min(able[at]);
                let newcomers = if round < 100 { many as u16 - 1 } else { 0 };
                assert!(used.iter().sum::<u16>() <= all + newcomers, "seed {seed}: {used:?} of {all}");
            }
            let (sum, could): (u16, u16) = (used.iter().sum(), able.iter().sum());
            // Each that is not at its bound keeps a tenth and one more than it uses.
            let kept = sum / 10 + many as u16;
            assert!(sum + kept >= all.min(could), "seed {seed}: {used:?} of {all}, {able:?}");
            let top = used.iter().max().copied().unwrap_or(0);
            for (used, able) in used.iter().zip(&able) {
                assert!(used == able || used + 2 >= top, "seed {seed}: {used} beside {top}");
            }
        }
    }

    #[test]
    fn what_nobody_renews_is_given_to_others() {
        let (mut grants, start) = (Grants::default(), Instant::now());
        for _ in 0..12 {
            let used = grants.movers.get("a").map_or(0, |grant| u16::try_from(grant.held).expect("few"));
            grants.renew(10, "a", used, start);
        }
        assert_eq!(grants.renew(10, "b", 0, start), 1, "the other has them");
        for _ in 0..12 {
            let used = grants.movers.get("b").map_or(0, |grant| u16::try_from(grant.held).expect("few"));
            grants.renew(10, "b", used, start + KEPT);
        }
        assert_eq!(grants.movers["b"].held, 10);
    }
}
