//! Another congestion control where packets are lost though nothing queues: when it is tried, kept and given back.
//!
//! A loss-based stream (Reno, cubic) takes each loss for a full queue. Where packets are lost by chance it moves less the more
//! of them are, whatever the path carries. A model-based one (BBR) sends at the rate that it has seen arrive, and does not mind.
//! It does not mind others' losses either: beside loss-based streams it takes nearly all. So it is tried on one stream only where
//! packets are lost and nothing queues, kept on all where it moves far more than the others did, and runs under a pace that the
//! delay of its packets sets, unless whoever uses it wants no bound: as soon as something queues it sends less, and where it
//! is left less than loss-based streams had, they come back.

use std::time::Duration;

use crate::background::BackgroundRate;
use crate::path_sample::PathSample;
use crate::units::BitRate;

/// The shortest time in which what arrives is compared: less is as uneven as the peer's acknowledgements.
const MIN_ROUND: Duration = Duration::from_millis(40);
/// Round trips shorter than this: windows recover at once, and a queue cannot be told from a busy host.
const NEAR: Duration = Duration::from_millis(5);
/// Share of the shortest round trip, and the least: a queue of so much stands.
const QUEUE: f64 = 0.1;
const MIN_QUEUE: Duration = Duration::from_millis(3);
/// Rounds running in which nothing queued: what is lost then was lost by chance.
const CLEAR: u32 = 3;
/// Rounds of that kind with a loss until another kind is tried; more rounds than this without a loss are no evidence any more.
const EVIDENCE: u32 = 2;
const EVIDENCE_LASTS: u32 = 10;
/// Factor on what a loss-based stream moves, and rounds running: so much more is far more.
const FAR_MORE: f64 = 2.0;
const SURELY: u32 = 2;
/// Rounds that a trial may last, and in which less than before must move until it is over.
const TRIAL: u32 = 20;
const BEHIND: u32 = 10;
/// Factor on the share that is lost by chance, and segments: more is lost in a queue that is too short to be seen.
const EXCESS: f64 = 3.0;
const MIN_EXCESS: f64 = 10.0;
/// Rounds with such losses until it is over, and how many of them one without makes up for. As a slow start does, it may overflow
/// a queue once, for some rounds.
const MAX_EXCESS: f64 = 10.0;
const FORGIVEN: f64 = 0.1;
/// Rounds in which model-based streams find out how much the path takes, at most.
const SETTLES: u32 = 40;
/// How long nothing is tried again, each time twice as long as before.
const REST: Duration = Duration::from_secs(60);
const MAX_DOUBLINGS: u32 = 6;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionStep {
    /// Nothing.
    Waits,
    /// One stream becomes a model-based one.
    Tries,
    /// All become so, those that are still to come too.
    Keeps,
    /// All are loss-based again.
    GivesBack,
}

/// The congestion control of one transfer's streams.
#[derive(Clone, Debug)]
pub struct CongestionTrial {
    /// Whether model-based streams run under a pace.
    bounded: bool,
    /// Whether they were asked for, and stay.
    asked: bool,
    state: State,
    /// Where the round began, once there was one.
    begun: Option<PathSample>,
    /// Rounds running in which nothing queued.
    clear: u32,
    /// Segments that were lost while nothing queued, and those that were sent meanwhile.
    lost: f64,
    sent: f64,
    /// What one loss-based stream moves, and what all did that were there, in bytes a second.
    plain: f64,
    all_plain: f64,
    pace: BackgroundRate,
    given_back: u32,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Streams are loss-based; rounds with losses by chance, and those since the last.
    Watches { lossy: u32, since: u32 },
    /// One is model-based; rounds so far, and those running in which it moved far more.
    Tries { rounds: u32, better: u32 },
    /// All are.
    Keeps(Kept),
    /// Nothing is tried before then.
    Rests { until: Duration },
}

/// What was seen since all are model-based.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    rounds: u32,
    /// Rounds running in which they moved less than loss-based ones did.
    behind: u32,
    /// Rounds in which too much was lost, less those that are forgiven.
    excess: f64,
}

/// What moved in a round.
struct Round {
    /// Bytes a second, of all and of model-based streams.
    rate: f64,
    model_rate: f64,
    lost: f64,
    sent: f64,
    /// Whether streams waited for something to send.
    idle: bool,
}

impl CongestionTrial {
    /// Streams are loss-based, and another kind may be tried; `bounded` if that runs under a pace.
    pub fn new(bounded: bool) -> Self {
        Self {
            bounded,
            asked: false,
            state: State::Watches { lossy: 0, since: 0 },
            begun: None,
            clear: 0,
            lost: 0.0,
            sent: 0.0,
            plain: 0.0,
            all_plain: 0.0,
            pace: BackgroundRate::default(),
            given_back: 0,
        }
    }

    /// Streams are model-based because that was asked for, and run under a pace.
    pub fn paced() -> Self {
        Self { asked: true, state: State::Keeps(Kept::default()), ..Self::new(true) }
    }

    /// Whether it will be known before long what streams can do: as many as there are show it.
    pub const fn is_undecided(&self) -> bool {
        match self.state {
            State::Watches { lossy, since } => lossy > 0 && since < EVIDENCE_LASTS,
            State::Tries { .. } => true,
            State::Keeps(kept) => kept.rounds < SETTLES && !self.has_found(),
            State::Rests { .. } => false,
        }
    }

    /// Whether model-based streams have filled the path since they began.
    const fn has_found(&self) -> bool {
        if self.bounded { self.pace.has_found() } else { self.clear == 0 }
    }

    /// Whether model-based streams fill the path: what holds them back is all that is on it, and nothing of their own.
    pub const fn is_full(&self) -> bool {
        match self.state {
            State::Keeps(_) if self.bounded => self.pace.is_full(),
            State::Keeps(_) => self.clear < CLEAR,
            _ => false,
        }
    }

    /// Takes in what the kernel tells; to be asked every few milliseconds.
    pub fn look(&mut self, seen: &PathSample) -> CongestionStep {
        let Some(begun) = self.begun else {
            self.begun = Some(*seen);
            return CongestionStep::Waits;
        };
        let passed = seen.at.saturating_sub(begun.at);
        if passed < seen.rtt.max(MIN_ROUND) {
            return CongestionStep::Waits;
        }
        self.begun = Some(*seen);
        let per_second = |after: u64, before: u64| after.saturating_sub(before) as f64 / passed.as_secs_f64();
        let round = Round {
            rate: per_second(seen.delivered.0, begun.delivered.0),
            model_rate: per_second(seen.model_delivered.0, begun.model_delivered.0),
            lost: seen.retransmits.saturating_sub(begun.retransmits) as f64,
            sent: seen.sent.saturating_sub(begun.sent) as f64,
            idle: seen.app_limited > 0 && 2 * seen.app_limited >= seen.streams,
        };
        let queues = seen.rtt > seen.min_rtt + seen.min_rtt.mul_f64(QUEUE).max(MIN_QUEUE);
        self.clear = if queues { 0 } else { self.clear.saturating_add(1) };
        self.round(&round, seen)
    }

    fn round(&mut self, round: &Round, seen: &PathSample) -> CongestionStep {
        match self.state {
            State::Watches { lossy, since } => self.watch(round, seen, lossy, since),
            State::Tries { rounds, better } => self.compare(round, seen, rounds + 1, better),
            State::Keeps(kept) => self.hold(round, seen, kept),
            State::Rests { until } => {
                if seen.at >= until {
                    self.state = State::Watches { lossy: 0, since: 0 };
                }
                CongestionStep::Waits
            }
        }
    }

    fn watch(&mut self, round: &Round, seen: &PathSample, lossy: u32, since: u32) -> CongestionStep {
        let each = round.rate / f64::from(seen.loss_based.max(1));
        self.plain = if self.plain == 0.0 { each } else { (3.0 * self.plain + each) / 4.0 };
        let by_chance = self.clear >= CLEAR;
        if by_chance {
            self.learn(round);
        }
        let (lossy, since) = match (round.lost > 0.0, by_chance) {
            (false, _) if since >= EVIDENCE_LASTS => (0, since),
            (false, _) => (lossy, since + 1),
            (true, true) if !round.idle => (lossy + 1, 0),
            (true, _) => (0, 0),
        };
        self.state = State::Watches { lossy, since };
        if lossy < EVIDENCE || seen.min_rtt < NEAR || seen.loss_based == 0 {
            return CongestionStep::Waits;
        }
        // No less is wanted of it.
        self.pace = BackgroundRate::guarding(BitRate::from_bps(8.0 * FAR_MORE * each), seen);
        self.state = State::Tries { rounds: 0, better: 0 };
        CongestionStep::Tries
    }

    fn compare(&mut self, round: &Round, seen: &PathSample, rounds: u32, better: u32) -> CongestionStep {
        if seen.loss_based > 0 {
            // The others are held back by the same losses, and show it at the same time.
            self.plain = (round.rate - round.model_rate).max(0.0) / f64::from(seen.loss_based);
        }
        let better = if round.model_rate > FAR_MORE * self.plain { better + 1 } else { 0 };
        if better >= SURELY {
            self.pace.raise(BitRate::from_bps(8.0 * FAR_MORE * round.rate), seen);
            self.all_plain = self.plain * f64::from(seen.loss_based + seen.model_based);
            self.state = State::Keeps(Kept::default());
            return CongestionStep::Keeps;
        }
        self.state = State::Tries { rounds, better };
        if rounds < TRIAL { CongestionStep::Waits } else { self.give_back(seen) }
    }

    fn hold(&mut self, round: &Round, seen: &PathSample, mut kept: Kept) -> CongestionStep {
        let by_chance = self.lost / self.sent.max(1.0);
        kept.rounds += 1;
        if round.lost > EXCESS * by_chance * round.sent + MIN_EXCESS {
            kept.excess += 1.0;
        } else {
            self.learn(round);
            kept.excess = (kept.excess - FORGIVEN).max(0.0);
        }
        kept.behind = if !round.idle && round.rate < self.all_plain { kept.behind + 1 } else { 0 };
        self.state = State::Keeps(kept);
        match !self.asked && (kept.behind >= BEHIND || self.bounded && kept.excess >= MAX_EXCESS) {
            true => self.give_back(seen),
            false => CongestionStep::Waits,
        }
    }

    fn give_back(&mut self, seen: &PathSample) -> CongestionStep {
        let rest = REST * 2u32.pow(self.given_back.min(MAX_DOUBLINGS));
        self.given_back += 1;
        self.state = State::Rests { until: seen.at + rest };
        CongestionStep::GivesBack
    }

    fn learn(&mut self, round: &Round) {
        self.lost += round.lost;
        self.sent += round.sent;
    }

    /// What model-based streams together may send now; `None` if nothing bounds them, or there are none.
    pub fn rate(&mut self, seen: &PathSample) -> Option<BitRate> {
        match self.state {
            State::Tries { .. } | State::Keeps(_) if self.bounded => {
                // Losses by chance are no reason to send less.
                let model = PathSample { delivered: seen.model_delivered, retransmits: 0, ..*seen };
                Some(self.pace.next(model))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::ByteCount;

    const SEGMENT: f64 = 1448.0;
    const ROUND: Duration = Duration::from_millis(50);

    /// A path with round trips of 30 ms on which four streams begin, in bytes a second.
    struct Path {
        carries: f64,
        /// What a loss-based stream moves, and the share that is lost by chance.
        plain: f64,
        by_chance: f64,
        /// What model-based streams find at most, whoever else is there.
        left: f64,
        streams: u16,
        model_based: u16,
        queue: Duration,
        lost: f64,
        seen: PathSample,
    }

    impl Path {
        fn new(plain: f64) -> Self {
            let seen = PathSample { segment: ByteCount(SEGMENT as u64), streams: 4, ..PathSample::default() };
            Self {
                carries: 5e7,
                plain,
                by_chance: 3e-3,
                left: 5e7,
                streams: 4,
                model_based: 0,
                queue: Duration::ZERO,
                lost: 0.0,
                seen,
            }
        }

        /// A round, in which model-based streams send so much at most.
        fn pass(&mut self, rate: Option<BitRate>) -> PathSample {
            let plain_streams = self.streams - self.model_based;
            let plain = self.plain * f64::from(plain_streams);
            let wanted = rate.map_or(f64::INFINITY, |rate| rate.0 as f64 / 8.0);
            let model =
                if self.model_based > 0 { wanted.min(self.left).min(self.carries - plain) } else { 0.0 };
            let bytes = (plain + model) * ROUND.as_secs_f64();
            self.lost += bytes / SEGMENT * self.by_chance;
            self.seen.at += ROUND;
            self.seen.delivered.0 += bytes as u64;
            self.seen.model_delivered.0 += (model * ROUND.as_secs_f64()) as u64;
            self.seen.sent += (bytes / SEGMENT) as u64;
            self.seen.retransmits = self.lost as u64;
            (self.seen.loss_based, self.seen.model_based) = (plain_streams, self.model_based);
            self.seen.min_rtt = Duration::from_millis(30);
            self.seen.rtt = self.seen.min_rtt + self.queue;
            self.seen
        }

        /// So many rounds; what was done in them, and what moved in the last, in bytes a second.
        fn run(&mut self, trial: &mut CongestionTrial, rounds: u32) -> (Vec<CongestionStep>, f64) {
            let (mut done, mut rate, mut before) = (Vec::new(), None, 0);
            for _ in 0..rounds {
                before = self.seen.delivered.0;
                let seen = self.pass(rate);
                let step = trial.look(&seen);
                rate = trial.rate(&seen);
                match step {
                    CongestionStep::Waits => continue,
                    Tries => self.model_based = 1,
                    Keeps => self.model_based = self.streams,
                    GivesBack => self.model_based = 0,
                }
                done.push(step);
            }
            (done, (self.seen.delivered.0 - before) as f64 / ROUND.as_secs_f64())
        }
    }

    use CongestionStep::{GivesBack, Keeps, Tries};

    #[test]
    fn where_packets_are_lost_by_chance_another_kind_is_tried_on_one_stream_and_kept() {
        for bounded in [true, false] {
            let (mut path, mut trial) = (Path::new(1e6), CongestionTrial::new(bounded));
            let (done, moved) = path.run(&mut trial, 100);
            assert_eq!(done, [Tries, Keeps], "bounded: {bounded}");
            assert!(moved > 0.95 * path.carries, "{moved}");
        }
    }

    #[test]
    fn what_is_lost_in_a_queue_and_a_path_that_loses_nothing_are_no_reason() {
        let mut path = Path::new(1e6);
        path.queue = Duration::from_millis(20);
        assert_eq!(path.run(&mut CongestionTrial::new(true), 200).0, []);
        let mut clean = Path { by_chance: 0.0, ..Path::new(1e6) };
        assert_eq!(clean.run(&mut CongestionTrial::new(true), 200).0, []);
    }

    #[test]
    fn who_moves_no_more_is_given_back_and_not_tried_again_for_long() {
        let mut path = Path { left: 1.2e6, ..Path::new(1e6) };
        let mut trial = CongestionTrial::new(true);
        let minute = (REST.as_secs_f64() / ROUND.as_secs_f64()) as u32;
        assert_eq!(path.run(&mut trial, minute).0, [Tries, GivesBack]);
        assert_eq!(path.run(&mut trial, minute).0, [Tries, GivesBack]);
        assert_eq!(path.run(&mut trial, minute).0, [], "twice as long");
    }

    #[test]
    fn under_a_pace_it_yields_to_a_queue_until_the_others_would_move_more() {
        let (mut path, mut trial) = (Path::new(1e6), CongestionTrial::new(true));
        path.run(&mut trial, 100);
        path.queue = Duration::from_millis(20);
        let (done, moved) = path.run(&mut trial, 200);
        assert_eq!(done, [GivesBack]);
        assert!(moved < 4.1e6, "{moved}");
        let mut unbounded = CongestionTrial::new(false);
        let mut path = Path::new(1e6);
        path.run(&mut unbounded, 100);
        path.queue = Duration::from_millis(20);
        assert_eq!(path.run(&mut unbounded, 200).0, [], "nothing bounds it");
    }

    #[test]
    fn far_more_losses_than_by_chance_are_those_of_a_queue_that_nobody_sees() {
        let (mut path, mut trial) = (Path::new(1e6), CongestionTrial::new(true));
        path.run(&mut trial, 100);
        path.by_chance = 0.1;
        assert_eq!(path.run(&mut trial, 100).0, [GivesBack]);
    }

    #[test]
    fn what_was_asked_for_stays() {
        let (mut path, mut trial) = (Path::new(1e6), CongestionTrial::paced());
        path.model_based = path.streams;
        path.run(&mut trial, 200);
        path.queue = Duration::from_millis(20);
        let (done, moved) = path.run(&mut trial, 400);
        assert_eq!(done, []);
        assert!(moved < 1e6, "{moved} in a queue");
    }
}
