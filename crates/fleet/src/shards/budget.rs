//! One budget among many: what nobody needs goes to those who can use more.

/// What one of them asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// No more than this.
    pub most: u64,
    /// Its part beside the others'.
    pub weight: f64,
}

/// Divides `capacity`: each gets what it asks for or an equal part by weight of what is left, whichever is less, and at
/// least 1. Whole numbers; what rounding leaves goes to the largest remainders. Where there are more than `capacity`, each
/// has 1 all the same.
pub fn divide(capacity: u64, demands: &[Demand]) -> Vec<u64> {
    let weight = |demand: &Demand| demand.weight.max(f64::MIN_POSITIVE);
    let most = |demand: &Demand| demand.most.max(1);
    let mut order: Vec<usize> = (0..demands.len()).collect();
    let level = |at: &usize| most(&demands[*at]) as f64 / weight(&demands[*at]);
    order.sort_by(|a, b| level(a).total_cmp(&level(b)));
    // The water rises: who is full at this level is taken out with what it holds.
    let mut left = capacity as f64;
    let mut weights: f64 = demands.iter().map(weight).sum();
    let mut shares = vec![0.0; demands.len()];
    for at in order {
        let demand = &demands[at];
        let part = (left * weight(demand) / weights).max(0.0);
        shares[at] = part.min(most(demand) as f64).max(1.0);
        left -= shares[at];
        weights -= weight(demand);
    }
    let mut granted: Vec<u64> = shares.iter().map(|share| (share.floor() as u64).max(1)).collect();
    let mut spare = capacity.saturating_sub(granted.iter().sum());
    let mut order: Vec<usize> = (0..demands.len()).collect();
    let remainder = |at: usize| shares[at] - shares[at].floor();
    order.sort_by(|a, b| remainder(*b).total_cmp(&remainder(*a)).then(a.cmp(b)));
    for at in order {
        if spare > 0 && remainder(at) > 0.0 && granted[at] < most(&demands[at]) {
            granted[at] += 1;
            spare -= 1;
        }
    }
    granted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn equal(capacity: u64, most: &[u64]) -> Vec<u64> {
        let demands: Vec<_> = most.iter().map(|&most| Demand { most, weight: 1.0 }).collect();
        divide(capacity, &demands)
    }

    #[test]
    fn what_one_leaves_the_others_get() {
        assert_eq!(equal(32, &[100, 100, 100, 100]), [8, 8, 8, 8]);
        assert_eq!(equal(32, &[2, 100, 100, 100]), [2, 10, 10, 10]);
        assert_eq!(equal(32, &[2, 3, 4, 100]), [2, 3, 4, 23]);
        assert_eq!(equal(10, &[100, 100, 100]), [4, 3, 3]);
        assert_eq!(equal(2, &[100, 100, 100]), [1, 1, 1]);
        assert_eq!(equal(9, &[]), [0; 0]);
        let heavy = [Demand { most: 100, weight: 3.0 }, Demand { most: 100, weight: 1.0 }];
        assert_eq!(divide(20, &heavy), [15, 5]);
    }

    proptest! {
        #[test]
        fn nobody_has_too_much_and_nothing_lies_idle(
            capacity in 1u64..500,
            most in prop::collection::vec(1u64..80, 1..20),
        ) {
            let granted = equal(capacity, &most);
            let (sum, asked): (u64, u64) = (granted.iter().sum(), most.iter().sum());
            prop_assert!(granted.iter().zip(&most).all(|(granted, most)| (1..=*most).contains(granted)));
            let floor = capacity.max(most.len() as u64);
            prop_assert_eq!(sum, floor.min(asked).max(most.len() as u64));
            // Max-min: who got less than it asked for has no less than anybody else, but for rounding.
            let top = granted.iter().max().copied().unwrap_or(0);
            for (granted, most) in granted.iter().zip(&most) {
                prop_assert!(granted == most || granted + 1 >= top, "{} beside {}", granted, top);
            }
        }
    }
}
