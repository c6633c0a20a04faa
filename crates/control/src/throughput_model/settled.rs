//! Whether a rate has stopped rising: what streams move while they get up to speed would pass for what they carry.

use std::time::Duration;

use crate::units::{BitRate, ByteCount};

/// A rate still rises if the later half of what is looked at has more than this beyond the earlier one. Slow start
/// doubles it each round trip; chance hides that only where a half is shorter than one.
const RISE: f64 = 0.05;

/// So many round trips are seen at least: what comes within one comes in bursts, and slow start doubles each.
pub const ROUND_TRIPS: u32 = 4;

/// So many pieces are looked at, or nothing is told of halves of them.
const PIECES: usize = 4;

/// What moved in one piece of time, in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// How long it was.
    pub time: Duration,
    /// What moved in it.
    pub bytes: ByteCount,
}

/// The last pieces, as many as `least` takes or more, if the rate no longer rises in them; `None` while it does, or while
/// there are too few. `least` should have [`ROUND_TRIPS`].
pub fn settled(pieces: &[Piece], least: Duration) -> Option<&[Piece]> {
    tail(pieces, least, |earlier, later| !rises(earlier, later))
}

/// The same, if the rate does not fall in them either: what was on its way when it was lost is acknowledged at once when it
/// has come, and what is acknowledged then is more than a link carries.
pub fn steady(pieces: &[Piece], least: Duration) -> Option<&[Piece]> {
    tail(pieces, least, |earlier, later| !rises(earlier, later) && !rises(later, earlier))
}

/// The most of the last pieces, `least` or more, whose halves are like that.
fn tail(pieces: &[Piece], least: Duration, is: impl Fn(BitRate, BitRate) -> bool) -> Option<&[Piece]> {
    let longest_first = 0..pieces.len();
    longest_first.map(|first| &pieces[first..]).find(|tail| {
        let all: Duration = tail.iter().map(|piece| piece.time).sum();
        let (earlier, later) = halves(tail, all / 2);
        tail.len() >= PIECES && all >= least && is(earlier, later)
    })
}

/// The last pieces, as many as `time` takes: where a rate never settled they are nearest to what it would have got to.
pub fn latest(pieces: &[Piece], time: Duration) -> &[Piece] {
    let mut left = time;
    let taken = pieces.iter().rev().take_while(|piece| {
        let wanted = !left.is_zero();
        left = left.saturating_sub(piece.time);
        wanted
    });
    &pieces[pieces.len() - taken.count()..]
}

/// Whether a rate that was `earlier` and is `later` still rises.
pub fn rises(earlier: BitRate, later: BitRate) -> bool {
    later.0 as f64 > (1.0 + RISE) * earlier.0 as f64
}

/// What moved in `pieces`, by the time they took.
pub fn rate(pieces: &[Piece]) -> BitRate {
    BitRate::over(pieces.iter().map(|piece| piece.bytes).sum(), pieces.iter().map(|piece| piece.time).sum())
}

/// The rates before and after `half` of the time.
fn halves(pieces: &[Piece], half: Duration) -> (BitRate, BitRate) {
    let mut passed = Duration::ZERO;
    let (mut earlier, mut later) = (0.0, 0.0);
    for piece in pieces {
        let before =
            half.saturating_sub(passed).min(piece.time).as_secs_f64() / piece.time.as_secs_f64().max(1e-9);
        earlier += piece.bytes.bits() * before;
        later += piece.bytes.bits() * (1.0 - before);
        passed += piece.time;
    }
    let seconds = half.as_secs_f64().max(1e-9);
    (BitRate::from_bps(earlier / seconds), BitRate::from_bps(later / seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: Duration = Duration::from_millis(100);

    fn pieces(mbps: &[u64]) -> Vec<Piece> {
        let bytes = |rate: &u64| ByteCount(rate * 1_000_000 / 8 / 10);
        mbps.iter().map(|rate| Piece { time: PIECE, bytes: bytes(rate) }).collect()
    }

    #[test]
    fn what_is_flat_from_the_start_is_taken_whole() {
        let flat = pieces(&[100, 98, 101, 100]);
        assert_eq!(settled(&flat, PIECE * 4).map(<[Piece]>::len), Some(4));
        assert_eq!(settled(&flat, PIECE * 5), None, "too few");
        assert_eq!(settled(&[], PIECE), None);
        assert_eq!(settled(&flat[..3], PIECE * 2), None, "what one has beyond the other is chance");
    }

    #[test]
    fn slow_start_is_left_out() {
        // A round trip of 200 ms: it doubles every other piece, and comes in bursts.
        let mut rising = vec![0, 0, 0, 0];
        for round in 0..6 {
            rising.extend([3 << round, 0]);
        }
        for until in 8..=rising.len() {
            assert_eq!(settled(&pieces(&rising[..until]), PIECE * 8), None, "{until}");
        }
        rising.extend([100; 8]);
        let all = pieces(&rising);
        let tail = settled(&all, PIECE * 8).expect("settled");
        let found = rate(tail).as_mbps();
        assert!((95.0..=100.0).contains(&found), "{found}");
    }

    #[test]
    fn a_rate_that_falls_has_settled_too() {
        let tail = pieces(&[0, 50, 200, 200, 120, 100, 100, 100]);
        assert!(settled(&tail, PIECE * 4).is_some());
        assert_eq!(steady(&tail, PIECE * 4), None);
        let later = pieces(&[0, 50, 200, 200, 120, 100, 100, 100, 101, 99]);
        let tail = steady(&later, PIECE * 4).expect("steady");
        assert!((99.0..=105.0).contains(&rate(tail).as_mbps()), "{tail:?}");
    }

    #[test]
    fn the_latest_pieces_are_as_many_as_a_time_takes() {
        let all = pieces(&[1, 2, 3, 4]);
        for (time, count) in [(0, 0), (100, 1), (150, 2), (300, 3), (900, 4)] {
            assert_eq!(latest(&all, Duration::from_millis(time)), &all[4 - count..], "{time} ms");
        }
        assert!(latest(&[], PIECE).is_empty());
    }

    #[test]
    fn a_piece_of_no_time_is_no_fault() {
        let mut odd = pieces(&[100; 6]);
        odd.insert(2, Piece { time: Duration::ZERO, bytes: ByteCount(0) });
        assert_eq!(settled(&odd, PIECE * 4).map(<[Piece]>::len), Some(7));
        assert_eq!(rate(&[]), BitRate::ZERO);
    }
}
