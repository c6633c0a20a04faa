//! Epochs in which workers still came up to their rate, left out.
//!
//! A stream that begins, or that others make room for, takes many round trips. Where a set-point was held for several
//! epochs they can be compared with one another: if more of the first ones read less than those that followed
//! them than chance would have it, no first one counts; then the second ones are looked at. It is decided for all of
//! them, since leaving out single ones that read less would favour luck.

use crate::calibration::fit::{SLOW, outnumber};
use crate::control_loop::Epoch;
use crate::stage::Stage;

/// An epoch's place in its hold.
#[derive(Clone, Copy)]
struct Place {
    /// Epochs of the same set-point before it.
    age: usize,
    /// Whether the hold began with more workers of the stage than ran before.
    grown: bool,
    /// Whether another set-point followed. The end of the log says nothing: its last hold was cut off.
    last: bool,
}

/// Those of the epochs `free`, in order, in which the workers of `stage` were at their rate. The last one of
/// each hold is always among them.
pub fn settled(log: &[Epoch], stage: Stage, free: Vec<usize>) -> Vec<usize> {
    let places = places(log, stage);
    let mut slow = [0; 2];
    for (grown, slow) in [false, true].into_iter().zip(&mut slow) {
        while rises(log, stage, &free, &places, (grown, *slow)) {
            *slow += 1;
        }
    }
    let counts = |i: &usize| {
        let Place { age, grown, last } = places[*i];
        last || age >= slow[usize::from(grown)]
    };
    free.into_iter().filter(counts).collect()
}

fn places(log: &[Epoch], stage: Stage) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::with_capacity(log.len());
    for (i, epoch) in log.iter().enumerate() {
        let same = |other: Option<&Epoch>| other.is_some_and(|other| other.concurrency == epoch.concurrency);
        let before = i.checked_sub(1).map(|before| &log[before]);
        let last = log.get(i + 1).is_some() && !same(log.get(i + 1));
        places.push(match places.last() {
            Some(place) if same(before) => Place { age: place.age + 1, last, ..*place },
            _ => {
                let grown = before.is_none_or(|it| it.concurrency[stage] < epoch.concurrency[stage]);
                Place { age: 0, grown, last }
            }
        });
    }
    places
}

/// Whether the epochs at `age` of holds that have `grown`, or have not, read less than the next ones.
fn rises(log: &[Epoch], stage: Stage, free: &[usize], places: &[Place], (grown, age): (bool, usize)) -> bool {
    let rate = |i: usize| log[i].throughput_bps[stage].0 as f64;
    let pairs = free.windows(2).filter(|pair| {
        let (a, b) = (places[pair[0]], places[pair[1]]);
        pair[0] + 1 == pair[1] && (a.age, a.grown) == (age, grown) && b.age == age + 1
    });
    let rates = pairs.map(|pair| (rate(pair[0]), rate(pair[1])));
    let gains: Vec<f64> = rates.filter(|rates| rates.0 > 0.0).map(|(before, after)| after / before).collect();
    // How much they gained differs from hold to hold, so it is counted how many did.
    outnumber(gains.iter().filter(|&&gain| gain > 1.0 + SLOW).count(), gains.len())
}
