//! How many streams a path takes, from its first round trips: the fast loop below the epochs.
//!
//! A new stream doubles its window every round trip until packets are lost or a queue makes it late (slow start, RFC 5681,
//! RFC 9406). While what arrives in a round trip grows so, nothing is known but that the path takes more. Where it
//! grows no more, the kernel tells why within a round trip or two:
//!
//! - Nothing was lost and nothing queues: each stream is held back by something of its own, so more of them move more.
//! - Packets were lost, and far less arrives than just before: windows have collapsed, which takes cubic seconds to
//!   make up for on a far path. New streams fill the gap in a few round trips.
//! - Something queues, or as much arrives as before: the path is full.
//!
//! Where data arrives, nobody tells of losses and queues. There more streams come until they move no more.
//!
//! An epoch that waits for windows to hold still would learn the same many round trips later.

use std::time::Duration;

use crate::look::Look;
use crate::path_sample::PathSample;
use crate::units::BitRate;

/// The shortest time in which what arrives is compared: less is as uneven as the peer's acknowledgements.
const MIN_ROUND: Duration = Duration::from_millis(40);
/// Factor on what arrives in a round: so much more is a slow start; in congestion avoidance it takes many.
const RISES: f64 = 1.2;
/// Share of the most that arrived in a round: with less windows have collapsed.
const COLLAPSED: f64 = 0.75;
/// Share of the shortest round trip, and the least: a queue of so much stands.
const QUEUE: f64 = 0.1;
const MIN_QUEUE: Duration = Duration::from_millis(3);
/// Factor on streams that are held back by something of their own, and the most where windows have collapsed.
const GROWTH: f64 = 2.0;
/// Factor on what arrives: so much more from twice as many streams shows that each has its own limit, ...
const PAYS: f64 = 1.7;
/// ... and less that they have one together.
const NO_MORE: f64 = 1.4;
/// Standard error of what arrived in a round, as a share of it.
const ERROR: f64 = 0.1;
/// Rounds in which nothing rises until that is believed, and in which windows settle after a loss.
const LEVEL: u32 = 2;
const OVERFLOW: u32 = 3;
/// Rounds that a new stream takes to connect.
const CONNECTS: u32 = 3;
/// Segments of a first window (RFC 6928).
const FIRST_WINDOW: f64 = 10.0;

/// What comes of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RampStep {
    /// Nothing yet.
    Waits,
    /// So many streams.
    Asks(u16),
    /// It is known how many the path takes: [`Ramp::streams`], or less.
    Ends(RampEnd),
}

/// Why no more streams are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RampEnd {
    /// The path is full.
    Full,
    /// Packets are lost by chance, so that windows tell nothing of the path.
    Losses,
    /// More streams moved no more, so that they are taken back.
    NoMore,
    /// Streams wait for something to send.
    Idle,
    /// There are as many as may be.
    Most,
}

/// The ramp of one transfer.
#[derive(Clone, Debug)]
pub struct Ramp {
    asked: u16,
    most: u16,
    /// Where the round began, once there was one.
    begun: Option<PathSample>,
    /// Rounds since streams were asked for, and in how many they should be as quick as the others.
    rounds: u32,
    catch_up: u32,
    /// Bytes a second that arrived in the round before, and the most in any.
    before: f64,
    peak: f64,
    /// What was seen of fewer streams, and at the end.
    looks: Vec<Look>,
    /// Rounds running in which nothing rose, and since packets were lost; whether any were.
    level: u32,
    since_loss: Option<u32>,
}

impl Ramp {
    /// A ramp that begins with `asked` streams and ends with `most`.
    pub const fn new(asked: u16, most: u16) -> Self {
        Self {
            asked,
            most,
            begun: None,
            rounds: 0,
            catch_up: 0,
            before: 0.0,
            peak: 0.0,
            looks: Vec::new(),
            level: 0,
            since_loss: None,
        }
    }

    /// So many streams were asked for last.
    pub const fn streams(&self) -> u16 {
        self.asked
    }

    /// What was seen of so many streams.
    pub fn into_looks(self) -> Vec<Look> {
        self.looks
    }

    /// Takes in what the kernel tells; to be asked every few milliseconds.
    pub fn look(&mut self, seen: PathSample) -> RampStep {
        let Some(begun) = self.begun else {
            self.begun = Some(seen);
            return RampStep::Waits;
        };
        let passed = seen.at.saturating_sub(begun.at);
        if passed < seen.rtt.max(MIN_ROUND) {
            return RampStep::Waits;
        }
        self.begun = Some(seen);
        self.round(&begun, &seen, passed)
    }

    fn round(&mut self, begun: &PathSample, seen: &PathSample, passed: Duration) -> RampStep {
        self.rounds += 1;
        let moved = seen.delivered.0.saturating_sub(begun.delivered.0);
        let rate = moved as f64 / passed.as_secs_f64();
        let rises = rate > RISES * self.before;
        self.before = rate;
        self.peak = self.peak.max(rate);
        self.level = if rises { 0 } else { self.level + 1 };
        // The odd packet is lost on any path.
        let lost = seen.retransmits > begun.retransmits + u64::from(self.asked / 2);
        self.since_loss = if lost { Some(0) } else { self.since_loss.map(|rounds| rounds + 1) };
        let fewer = self.looks.last().cloned().unwrap_or_default();
        let gain = rate * 8.0 / (fewer.able_bps.0 as f64).max(1.0);
        let pays = fewer.workers > 0 && gain >= PAYS;
        if seen.tries || !pays && (rises || self.rounds < self.catch_up) {
            return RampStep::Waits;
        }
        if seen.app_limited > 0 && 2 * seen.app_limited >= seen.streams {
            return RampStep::Ends(RampEnd::Idle);
        }
        if seen.model_based > 0 {
            // Losses tell nothing of these, and a few are as quick as many.
            return if self.level > LEVEL { RampStep::Ends(RampEnd::Full) } else { RampStep::Waits };
        }
        let queues = seen.rtt > seen.min_rtt + seen.min_rtt.mul_f64(QUEUE).max(MIN_QUEUE);
        match self.since_loss {
            Some(0) if self.level > LEVEL + 2 * OVERFLOW && !queues => RampStep::Ends(RampEnd::Losses),
            Some(0) if self.level <= LEVEL + 2 * OVERFLOW => RampStep::Waits,
            _ if queues || seen.queued > 0 || (self.level < LEVEL && !pays) => match self.level > LEVEL {
                true => self.end(RampEnd::Full, rate),
                false => RampStep::Waits,
            },
            Some(rounds) if rounds < OVERFLOW => RampStep::Waits,
            Some(_) if rate > COLLAPSED * self.peak => RampStep::Ends(RampEnd::Full),
            Some(_) => {
                let step = self.ask(seen, (self.peak / rate.max(1.0)).min(GROWTH));
                // What collapsed windows moved says nothing of what streams can do.
                self.looks.clear();
                step
            }
            None if fewer.workers > 0 && gain < NO_MORE => {
                let step = self.end(RampEnd::NoMore, rate);
                self.asked = fewer.workers;
                step
            }
            None => self.ask(seen, GROWTH),
        }
    }

    fn end(&mut self, why: RampEnd, rate: f64) -> RampStep {
        if self.since_loss.is_none() {
            self.saw(rate);
        }
        RampStep::Ends(why)
    }

    /// As many as there are moved so many bytes a second.
    fn saw(&mut self, rate: f64) {
        let able_bps = BitRate::from_bps(rate * 8.0);
        self.looks.push(Look { workers: self.asked, able_bps, standard_error: ERROR });
    }

    /// So many times as many.
    fn ask(&mut self, seen: &PathSample, factor: f64) -> RampStep {
        if self.asked >= self.most {
            return RampStep::Ends(RampEnd::Most);
        }
        let window = self.before * seen.rtt.as_secs_f64() / f64::from(self.asked);
        let doublings = (window / (FIRST_WINDOW * seen.segment.0.max(1) as f64)).log2().max(0.0);
        self.catch_up = CONNECTS + doublings.ceil() as u32;
        let wanted = (f64::from(self.asked) * factor).ceil().max(f64::from(self.asked) + 1.0);
        self.saw(self.before);
        self.asked = (wanted as u16).min(self.most);
        (self.rounds, self.level, self.since_loss) = (0, 0, None);
        RampStep::Asks(self.asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::ByteCount;

    const TRIP_MS: u64 = 100;
    const SEGMENT: u64 = 1448;

    /// A path of so many bytes a round trip, with streams that double theirs until they have their cap or it overflows.
    struct Path {
        carries: f64,
        cap: f64,
        /// What is left of windows after they have overflowed the path.
        left: f64,
        windows: Vec<f64>,
        grows: bool,
        seen: PathSample,
    }

    impl Path {
        fn new(carries: f64, cap: f64, left: f64) -> Self {
            let seen = PathSample {
                rtt: Duration::from_millis(TRIP_MS),
                min_rtt: Duration::from_millis(TRIP_MS),
                segment: ByteCount(SEGMENT),
                ..PathSample::default()
            };
            Self { carries, cap, left, windows: Vec::new(), grows: true, seen }
        }

        /// A round trip with so many streams.
        fn pass(&mut self, streams: u16) -> PathSample {
            self.windows.resize(usize::from(streams), 10.0 * SEGMENT as f64);
            let sum: f64 = self.windows.iter().sum();
            self.seen.at += Duration::from_millis(TRIP_MS);
            self.seen.delivered.0 += sum.min(self.carries) as u64;
            self.seen.streams = streams;
            if sum > 1.1 * self.carries {
                self.seen.retransmits += 100;
                self.windows.iter_mut().for_each(|window| *window *= self.left);
                self.grows = false;
            }
            for window in &mut self.windows {
                let factor = if self.grows || *window < self.carries / 40.0 { 2.0 } else { 1.01 };
                *window = (*window * factor).min(self.cap);
            }
            self.seen
        }

        /// With how many streams a ramp ends, after how many round trips, and why.
        fn ramp(&mut self, most: u16) -> (u16, u32, RampEnd) {
            let (mut streams, mut ramp) = (1, Ramp::new(1, most));
            for round in 1..200 {
                match ramp.look(self.pass(streams)) {
                    RampStep::Waits => {}
                    RampStep::Asks(more) => streams = more,
                    RampStep::Ends(why) => return (streams, round, why),
                }
            }
            panic!("it does not end");
        }

        /// The same where nobody tells what is lost.
        fn blind(&mut self, most: u16) -> (u16, RampEnd) {
            let (mut streams, mut ramp) = (4, Ramp::new(4, most));
            for _ in 1..200 {
                match ramp.look(PathSample { retransmits: 0, ..self.pass(streams) }) {
                    RampStep::Waits => {}
                    RampStep::Asks(more) => streams = more,
                    RampStep::Ends(why) => return (ramp.streams(), why),
                }
            }
            panic!("it does not end");
        }
    }

    #[test]
    fn where_nobody_tells_of_losses_more_streams_come_until_they_move_no_more() {
        assert_eq!(Path::new(2e6, 1.3e5, 1.0).blind(64), (16, RampEnd::NoMore), "15.4 fill it");
        assert_eq!(Path::new(2e6, 1.3e5, 1.0).blind(16), (16, RampEnd::Most));
        assert_eq!(Path::new(2e6, f64::INFINITY, 0.6).blind(64), (4, RampEnd::NoMore));
    }

    #[test]
    fn one_stream_that_fills_the_path_is_enough() {
        let (streams, rounds, why) = Path::new(2e6, f64::INFINITY, 0.45).ramp(32);
        assert_eq!((streams, why), (1, RampEnd::Full));
        assert!(rounds < 20, "{rounds} round trips");
    }

    #[test]
    fn streams_with_a_cap_of_their_own_become_more_until_the_path_is_full() {
        let (streams, rounds, _) = Path::new(2e6, 1.3e5, 0.8).ramp(64);
        assert!((16..=32).contains(&streams), "{streams} where 15.4 fill it");
        assert!(rounds < 60, "{rounds} round trips");
        let bounded = Path::new(2e6, 1.3e5, 0.8).ramp(4);
        assert_eq!((bounded.0, bounded.2), (4, RampEnd::Most));
    }

    #[test]
    fn where_windows_collapse_others_fill_the_gap() {
        let (mut path, mut streams, mut ramp) = (Path::new(2e6, f64::INFINITY, 0.15), 1, Ramp::new(1, 32));
        for _ in 0..200 {
            match ramp.look(path.pass(streams)) {
                RampStep::Waits => {}
                RampStep::Asks(more) => streams = more,
                RampStep::Ends(_) => break,
            }
        }
        assert!(streams > 1, "{streams}");
        let looks = ramp.into_looks();
        assert!(looks.iter().all(|look| look.workers > 1), "nothing of collapsed windows is told: {looks:?}");
    }

    #[test]
    fn who_waits_for_something_to_send_is_given_no_more_streams() {
        let mut path = Path::new(2e6, 3e4, 1.0);
        path.seen.app_limited = 1;
        let (streams, _, why) = path.ramp(32);
        assert_eq!((streams, why), (1, RampEnd::Idle));
    }

    #[test]
    fn streams_that_wait_in_a_queue_as_they_begin_fill_a_path_with_others() {
        let mut path = Path::new(2e6, 5e4, 1.0);
        path.seen.queued = 1;
        let (streams, _, why) = path.ramp(32);
        assert_eq!((streams, why), (1, RampEnd::Full));
    }
}
