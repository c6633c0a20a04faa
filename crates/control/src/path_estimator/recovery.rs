//! Streams on their way to what they can move: after a loss, or when others were taken away.
//!
//! A cubic stream whose window is to grow by G segments needs ∛(G / 0.4) seconds, or G / 0.53 round trips where they are
//! short (RFC 9438). After a loss that is 0.3 of its window; and where others were taken away, what is missing from its
//! share of the path's. What they move meanwhile is the least they can.

use std::time::Duration;

use crate::observation::Observation;
use crate::path_estimator::{ERROR, HALF, IDLE, STARVED};

/// Payload of a full TCP segment in bits.
const SEGMENT_BITS: f64 = 1448.0 * 8.0;
/// C of cubic, the segments a round trip by which it grows at least, and the share of its window that a loss takes.
const CUBIC: f64 = 0.4;
const RENO: f64 = 0.53;
const DECREASE: f64 = 0.3;
/// Shorter recoveries are over before they are seen, and longer ones are not waited for, in s.
const SHORTEST: f64 = 0.5;
const LONGEST: f64 = 8.0;
/// So many times as long is waited: windows grow later than they might, and who has recovered is not waited for.
const MARGIN: f64 = 2.0;
/// Share of the segments: so much lost is more than the odd one.
const LOST: f64 = 5e-4;
/// A queue of less, in s, may be one of a host that is busy.
const QUEUE: f64 = 2e-3;
/// Standard deviation of what streams move by its mean: those that a full link holds back differ by more.
const ALIKE: f64 = 0.02;
/// So many degrees of freedom, of one epoch or several running: two that share a queue are alike now and then by chance.
const SURELY: u32 = 3;
/// Segments that come before one is acknowledged, and the longest that it waits for them, in s (RFC 9293).
const ACKNOWLEDGED: f64 = 2.0;
const DELAYED: f64 = 0.04;
/// Streams that go by a model: fewer save nothing, and need seconds to take over what others moved.
const FEW: f64 = 4.0;

/// What the streams are recovering from, if anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovery {
    /// The shortest round trip so far.
    round_trip: Option<Duration>,
    /// Streams, those of the kernel's, which may have been let go, and what they moved, in bit/s, in the epoch before; whether
    /// it lost packets.
    streams: f64,
    open: f64,
    rate: f64,
    lost: bool,
    /// Whether but one epoch was seen, in which windows were on their way up.
    starts: bool,
    /// The share of a round trip that was spent in queues.
    queued: f64,
    /// The longest queue so far, in s, and whether one stood at the end of the epoch.
    longest_queue: f64,
    stands: bool,
    /// Whether streams may still be on their way to fill the path: they never waited, no queue stands, and it is not long
    /// since they were others or lost packets.
    fills: bool,
    /// When that was.
    changed: Duration,
    /// Whether the path has room: nothing was lost or queued, though windows have had the time to fill it.
    spare: bool,
    /// Whether it is full: packets were lost in a queue that stands.
    full: bool,
    /// Whether others are there.
    company: bool,
    /// Whether a queue stands, whatever was lost.
    queueing: bool,
    /// Whether packets were lost by chance: no queue stood then, nor before.
    chance: bool,
    /// Whether it was full and has room now, though the streams are the same.
    emptied: bool,
    /// Whether streams are held back by something of their own, whatever queues: nothing was lost for longer than windows need
    /// to grow to where they lose.
    capped: bool,
    /// For how many degrees of freedom running all streams moved the same.
    alike: u32,
    /// By what share of it one stream differs from another and from time to time, where losses hold them back by chance.
    varies: f64,
    /// Streams whose windows go by a model of the path.
    model_based: f64,
    /// What is recovered from, in which nothing is to be tried, and what only the windows still have to grow by.
    under_way: Option<Regrowth>,
    behind: Option<Regrowth>,
}

/// Windows that grow back to what they were.
#[derive(Clone, Copy, Debug)]
struct Regrowth {
    /// When it should be over, and when it is not waited for any longer.
    until: Duration,
    longest: Duration,
    /// What is moved then, in bit/s.
    goal: f64,
}

impl Regrowth {
    fn new(from: Duration, length: Duration, goal: f64) -> Self {
        Self { until: from + length, longest: from + Duration::from_secs_f64(LONGEST), goal }
    }

    /// Whether it goes on behind an epoch in which so much was moved.
    fn goes_on(&self, at: Duration, rate: f64, rises: bool) -> bool {
        rate < (1.0 - ERROR) * self.goal && (at < self.until || rises && at < self.longest)
    }
}

impl Recovery {
    /// Whether streams are recovering.
    pub const fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Whether they may move more before long than they did in the epoch.
    pub const fn grows(&self) -> bool {
        self.under_way.is_some() || self.behind.is_some()
    }

    /// Whether nothing was lost and nothing queued in the epoch, though windows have had the time to fill the path:
    /// every stream is held back by something that is its own.
    pub const fn is_spare(&self) -> bool {
        self.spare
    }

    /// Whether packets were lost in a queue that stands: what holds streams back is all that is on the path, and nothing of
    /// their own.
    pub const fn is_full(&self) -> bool {
        self.full
    }

    /// Whether a queue stands that streams share: the path is full, whoever fills it.
    pub const fn is_queueing(&self) -> bool {
        self.queueing
    }

    /// Whether others are on the path: streams waited in a queue when they had just begun, and it has not gone since.
    pub const fn has_company(&self) -> bool {
        self.company
    }

    /// Whether the path was full in the epoch before and has room now, though nothing was taken away: it is another one.
    pub const fn has_emptied(&self) -> bool {
        self.emptied
    }

    /// By what share what one stream moves differs from time to time, whatever the others do.
    pub const fn varies(&self) -> f64 {
        self.varies
    }

    /// Whether packets were lost where no queue stood: what holds streams back is neither their own nor what is on the path.
    pub const fn loses_by_chance(&self) -> bool {
        self.chance
    }

    /// Whether nothing was lost for longer than windows need to grow to where they lose: what holds streams back is their own,
    /// whatever queues.
    pub const fn is_capped(&self) -> bool {
        self.capped
    }

    /// Takes in an epoch.
    pub fn watch(&mut self, seen: &Observation) {
        // Without the kernel's word nobody knows whose windows they are.
        let Some(kernel) = seen.streams else { return };
        // Nor what windows mean that go by a model: whoever paces them tells whether the path is full.
        if seen.model_based > 0.0 {
            let (round_trip, queueing) = (self.round_trip, seen.queued >= HALF);
            let model_based = f64::from(seen.concurrency.network);
            *self = Self { round_trip, queueing, model_based, ..Self::default() };
            return;
        }
        self.round_trip = self.round_trip.into_iter().chain(kernel.min_rtt).min();
        let (streams, rate) = (f64::from(seen.concurrency.network.max(1)), seen.throughput.network.0 as f64);
        let lost = seen.loss.is_some_and(|loss| loss >= LOST);
        let began = seen.at.saturating_sub(seen.interval);
        let goal = rate.max(self.rate);
        let error = seen.standard_error.network.max(ERROR);
        let same = streams == self.streams;
        // Who moves more than in the epoch before is still on the way up, and who moves less is on none.
        let rises = same && rate > (1.0 + error) * self.rate;
        let falls = same && self.open <= streams && rate < (1.0 - error) * self.rate;
        for regrowth in [&mut self.under_way, &mut self.behind] {
            *regrowth = regrowth.filter(|it| !falls && it.goes_on(seen.at, rate, rises));
        }
        // A path that loses packets all the time is as quick as it will be.
        let packets = rate * seen.interval.as_secs_f64() / SEGMENT_BITS;
        let many = seen.loss.is_some_and(|loss| loss * packets >= HALF * streams);
        let hurt = lost && many && !self.lost && self.streams > 0.0;
        let taken = streams < self.streams && rate < (1.0 - ERROR) * self.rate;
        if hurt || taken {
            let lacking = if hurt { DECREASE * self.window(goal) / streams } else { 0.0 };
            let length = self.growth(if taken { lacking.max(self.gap(streams)) } else { lacking });
            let from = if taken { began } else { seen.at };
            self.under_way = length.map(|length| Regrowth::new(from, length, goal));
        }
        // Where losses have ended windows are not yet what they were.
        if self.lost && !lost {
            let length = self.growth(DECREASE * self.window(goal) / streams);
            let regrowth = length.map(|length| Regrowth::new(began, length, goal));
            self.behind = regrowth.filter(|it| it.goes_on(seen.at, rate, rises));
        }
        self.starts = self.streams == 0.0;
        if lost || streams != self.streams {
            self.changed = began;
        }
        // What was lost early in an epoch may have been so in the queue of the one before, or by streams that had just begun.
        let plain = streams <= self.streams && !self.stands;
        (self.streams, self.open, self.rate, self.lost) = (streams, f64::from(kernel.count), rate, lost);
        let least = self.round_trip.map_or(0.0, |least| least.as_secs_f64());
        self.queued = seen.rtt.map_or(0.0, |now| (1.0 - least / now.as_secs_f64().max(least)).max(0.0));
        let works = seen.waited.network.is_none_or(|waited| waited < STARVED);
        // An acknowledgement waits for a second segment, which is no queue.
        let spacing = (ACKNOWLEDGED * SEGMENT_BITS * streams / rate.max(1.0)).min(DELAYED);
        let queue = seen.rtt.map_or(f64::INFINITY, |now| now.as_secs_f64() - least - spacing);
        self.longest_queue = self.longest_queue.max(seen.rtt.map_or(0.0, |_| queue));
        let refilled = self.changed + self.growth(DECREASE * self.window(rate) / streams).unwrap_or_default();
        let regrown = seen.loss.is_some_and(|loss| loss <= 0.0) && seen.at > refilled;
        self.capped = works && regrown && self.under_way.is_none();
        // Where they are paced, acknowledgements are late without a queue; but then they are all alike and on no way up,
        // whatever is lost.
        let alike = works && kernel.spread < ALIKE && kernel.receiver_limited < IDLE && same && !rises;
        self.alike =
            if alike { self.alike.saturating_add(u32::from(kernel.count.saturating_sub(1))) } else { 0 };
        let alike = self.alike >= SURELY;
        if alike {
            (self.under_way, self.behind, self.capped) = (None, None, true);
        }
        self.spare = self.capped && (queue < ERROR * least || alike);
        let began = works && seen.queued >= HALF;
        self.company = began || self.company && !self.spare;
        self.emptied = same && self.full && self.spare;
        // Where packets are lost at random a short one comes and goes.
        self.stands = queue >= (ERROR * least).max(HALF * self.longest_queue);
        let shared = works && !alike && kernel.receiver_limited < IDLE;
        let told = kernel.app_limited < HALF;
        self.queueing = began || shared && told && self.stands && queue >= QUEUE;
        self.full = shared && lost && self.stands;
        // Those that share a queue differ too, but together they move what it lets through; and those that were let go, or have
        // just begun, by when they did.
        let settled = !self.starts && self.open <= streams;
        let by_chance = works && lost && !self.stands && settled;
        self.chance = by_chance && plain;
        if by_chance {
            self.varies = kernel.spread.min(HALF);
        } else if self.capped {
            self.varies = 0.0;
        }
        let long = Duration::from_secs_f64(LONGEST);
        self.fills = works && self.queued < ERROR && seen.at < self.changed + long;
    }

    /// The fewest streams that may be left: where the others take long to fill the gap, no more are taken away than the
    /// queue makes up for, or one if that is not too long; and none while they may still be on their way to fill the path, or
    /// have just begun.
    pub fn fewest(&self) -> f64 {
        if self.model_based > 0.0 {
            return self.model_based.min(FEW);
        }
        if self.starts {
            return self.streams;
        }
        let one_fewer = (self.streams - 1.0).max(1.0);
        let mut numbers = (1..).map(f64::from).take_while(|&left| left <= one_fewer);
        let unseen = numbers.find(|&left| self.growth(self.gap(left)).is_none());
        let too_long = self.cubic(self.gap(one_fewer)).is_some_and(|seconds| seconds > LONGEST);
        unseen.unwrap_or(if self.fills || too_long { self.streams.max(1.0) } else { one_fewer })
    }

    /// The window, in segments, that moves so much in bit/s where nothing is queued.
    fn window(&self, rate: f64) -> f64 {
        rate * self.round_trip.unwrap_or_default().as_secs_f64() / SEGMENT_BITS
    }

    /// Segments that each of so many streams lacks of what moves as much as all did, those that were let go and still have a
    /// block to send among them.
    fn gap(&self, left: f64) -> f64 {
        let window = self.window(self.rate);
        window / left - window / (1.0 - self.queued) / self.streams.max(self.open).max(1.0)
    }

    /// How many seconds a window needs to grow by so many segments.
    fn cubic(&self, segments: f64) -> Option<f64> {
        let round_trip = self.round_trip?.as_secs_f64();
        Some((segments / CUBIC).cbrt().min(segments / RENO * round_trip))
    }

    /// How long that is waited for; `None` if it shows nothing.
    fn growth(&self, segments: f64) -> Option<Duration> {
        let seconds = self.cubic(segments)?;
        (seconds >= SHORTEST).then(|| Duration::from_secs_f64((MARGIN * seconds).min(LONGEST)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Streams;
    use crate::stage::PerStage;
    use crate::units::BitRate;

    /// A second that ends `at` s after the start: this many streams, what they moved, and the shortest round trip and
    /// the present one in ms.
    fn second(at: u64, streams: u16, mbps: u64, (least, now): (u64, u64)) -> Observation {
        let ms = |ms| Some(Duration::from_millis(ms));
        Observation {
            at: Duration::from_secs(at),
            interval: Duration::from_secs(1),
            concurrency: PerStage::all(streams),
            throughput: PerStage::all(BitRate::mbps(mbps)),
            loss: Some(0.0),
            rtt: ms(now),
            streams: Some(Streams { min_rtt: ms(least), ..Streams::default() }),
            ..Observation::default()
        }
    }

    fn after(epochs: &[Observation]) -> Recovery {
        let mut recovery = Recovery::default();
        epochs.iter().for_each(|seen| recovery.watch(seen));
        recovery
    }

    const FAR: (u64, u64) = (80, 80);
    const NEAR: (u64, u64) = (1, 1);

    #[test]
    fn streams_taken_away_leave_a_gap_where_round_trips_are_long() {
        let taken = |trip| after(&[second(1, 16, 1000, trip), second(2, 8, 600, trip)]);
        assert!(taken(FAR).is_under_way());
        assert!(!taken(NEAR).is_under_way(), "it is filled before it is seen");
        let filled = after(&[second(1, 16, 1000, FAR), second(2, 8, 990, FAR)]);
        assert!(!filled.is_under_way(), "the others had filled it");
        let few = after(&[second(1, 16, 1000, FAR), second(2, 15, 900, FAR)]);
        assert!(few.is_under_way(), "one is enough to leave one");
    }

    #[test]
    fn without_the_kernels_word_nothing_is_known() {
        let untold = |seen| Observation { streams: None, ..seen };
        let recovery = after(&[second(1, 16, 1000, FAR), second(2, 8, 600, FAR)].map(untold));
        assert!(!recovery.is_under_way());
        assert_eq!(recovery.fewest(), 1.0);
    }

    #[test]
    fn it_is_over_when_as_much_is_moved_or_the_time_has_passed() {
        let mut recovery = after(&[second(1, 16, 1000, FAR), second(2, 8, 600, FAR), second(3, 8, 900, FAR)]);
        assert!(recovery.is_under_way());
        recovery.watch(&second(4, 8, 985, FAR));
        assert!(!recovery.is_under_way(), "98 % are enough");
        // 125 Mbit/s in 80 ms are 863 segments: cubic needs 8.7 s for them, and 8 are waited for.
        let mut recovery = after(&[second(1, 16, 1000, FAR), second(2, 8, 600, FAR)]);
        for at in 3..9 {
            recovery.watch(&second(at, 8, 600, FAR));
            assert!(recovery.is_under_way(), "after {at} s");
        }
        recovery.watch(&second(9, 8, 600, FAR));
        assert!(!recovery.is_under_way(), "8 s after the streams were taken");
    }

    #[test]
    fn a_path_has_room_where_nothing_is_lost_or_queued_once_windows_have_grown() {
        let path =
            |loss, trip| (1..=12).map(move |at| Observation { loss: Some(loss), ..second(at, 8, 100, trip) });
        let spare = |loss, trip| after(&path(loss, trip).collect::<Vec<_>>()).is_spare();
        assert!(spare(0.0, FAR) && spare(0.0, NEAR));
        assert!(!spare(1e-5, FAR), "a single loss");
        assert!(!spare(0.0, (80, 90)), "a queue");
        assert!(!after(&[second(1, 8, 100, FAR)]).is_spare(), "they may still grow");
        // At 1 Mbit/s a stream, segments come 12 ms apart: a few ms are no queue.
        let slow = (1..=12).map(|at| second(at, 8, 8, (2, 10))).collect::<Vec<_>>();
        assert!(after(&slow).is_spare());
    }

    #[test]
    fn streams_that_are_all_alike_are_held_back_by_their_own() {
        let spare = |count, spread, receiver_limited, loss| {
            let of = |seen: Observation| {
                let told = seen.streams.map(|it| Streams { count, spread, receiver_limited, ..it });
                Observation { streams: told, loss: Some(loss), ..seen }
            };
            after(&(1..=12).map(|at| of(second(at, 8, 100, (8, 24)))).collect::<Vec<_>>()).is_spare()
        };
        assert!(spare(8, 0.005, 0.0, 0.0), "paced ones");
        assert!(spare(8, 0.005, 0.0, 0.001), "which may lose packets by chance");
        assert!(!spare(8, 0.3, 0.0, 0.001), "a full link");
        assert!(!spare(8, 0.1, 0.0, 0.0), "those that share a queue");
        assert!(!spare(8, 0.005, 0.5, 0.0), "windows of the receiver's fill a queue too");
        assert!(!spare(1, 0.0, 0.0, 0.0), "one is always like itself");
    }

    #[test]
    fn who_moves_less_each_time_does_not_recover() {
        let path = |at, streams, count, mbps| {
            let seen = second(at, streams, mbps, (120, 183));
            let told = seen.streams.map(|it| Streams { count, spread: 0.4, ..it });
            Observation { loss: Some(5e-4), streams: told, ..seen }
        };
        // Those that were let go still have blocks to send.
        let mut recovery = after(&[path(1, 32, 32, 425), path(2, 14, 32, 399), path(3, 14, 14, 283)]);
        assert!(recovery.is_under_way());
        recovery.watch(&path(4, 14, 14, 230));
        assert!(!recovery.grows());
    }

    #[test]
    fn paced_streams_do_not_recover() {
        // 25 Mbit/s in 125 ms: without one of three, two would need seconds to fill the gap.
        let path = |at, streams, mbps, spread| {
            let seen = second(at, streams, mbps, (125, 147));
            let told = seen.streams.map(|it| Streams { count: streams, spread, ..it });
            Observation { streams: told, ..seen }
        };
        let taken = [path(1, 3, 25, 0.1), path(2, 3, 25, 0.1), path(3, 2, 18, 0.5)];
        assert!(after(&taken).is_under_way());
        let then = |mbps, spread| after(&[taken.to_vec(), vec![path(4, 2, mbps, spread)]].concat());
        let again: Vec<Observation> = (4..=6).map(|at| path(at, 2, 18, 0.001)).collect();
        let paced = after(&[taken.to_vec(), again].concat());
        assert!(!paced.is_under_way() && paced.is_spare(), "both move what they may");
        assert!(then(18, 0.001).is_under_way() && !then(18, 0.001).is_spare(), "once it may be chance");
        assert!(then(18, 0.1).is_under_way() && !then(18, 0.1).is_spare(), "they differ");
        assert!(then(20, 0.001).is_under_way() && !then(20, 0.001).is_spare(), "they are on their way up");
    }

    #[test]
    fn a_loss_is_recovered_from_and_steady_loss_is_not() {
        let lossy = |at, share| Observation { loss: Some(share), ..second(at, 8, 500, FAR) };
        assert!(!after(&[lossy(1, 0.0), lossy(2, 1e-4)]).is_under_way(), "the odd segment");
        assert!(after(&[lossy(1, 0.0), lossy(2, 0.01)]).is_under_way());
        let slow = |at, share| Observation { loss: Some(share), ..second(at, 12, 30, FAR) };
        assert!(
            !after(&[slow(1, 0.0), slow(2, 7e-4)]).is_under_way(),
            "two of twelve streams lost a segment"
        );
        assert!(after(&[slow(1, 0.0), slow(2, 3e-3)]).is_under_way());
        assert!(!after(&[lossy(1, 0.01), lossy(2, 0.01), lossy(3, 0.01)]).is_under_way());
        let near = |at, share| Observation { loss: Some(share), ..second(at, 8, 500, NEAR) };
        assert!(!after(&[near(1, 0.0), near(2, 0.01)]).is_under_way());
    }

    #[test]
    fn streams_that_lose_by_chance_vary() {
        let path = |at, loss, now, count| {
            let seen = second(at, 8, 500, (6, now));
            let told = seen.streams.map(|it| Streams { count, spread: 0.2, ..it });
            Observation { loss: Some(loss), streams: told, ..seen }
        };
        let varies = |more: &[Observation]| {
            after(&[&[path(1, 0.0, 18, 8), path(2, 0.001, 18, 8)], more].concat()).varies()
        };
        assert_eq!(varies(&[]), 0.0, "a full queue");
        assert_eq!(varies(&[path(3, 0.001, 9, 8)]), 0.2);
        assert_eq!(varies(&[path(3, 0.001, 9, 12)]), 0.0, "four were let go");
        assert_eq!(varies(&[path(3, 0.001, 9, 8), path(4, 0.001, 18, 8)]), 0.2, "they would again");
        let longer = [path(3, 0.001, 9, 8), path(4, 0.0, 9, 8), path(12, 0.0, 9, 8)];
        assert_eq!(varies(&longer), 0.0, "nothing is lost any more");
    }

    #[test]
    fn packets_are_lost_by_chance_where_no_queue_stands_nor_stood() {
        let path = |at, streams, loss, now| {
            let seen = second(at, streams, 500, (6, now));
            let told = seen.streams.map(|it| Streams { count: streams, spread: 0.2, ..it });
            Observation { loss: Some(loss), streams: told, ..seen }
        };
        let began = [path(1, 8, 0.0, 18), path(2, 8, 0.001, 18)];
        let chance = |more: &[Observation]| after(&[&began, more].concat()).loses_by_chance();
        assert!(!chance(&[]), "a full queue");
        let then = |next| chance(&[path(3, 8, 0.001, 7), next]);
        assert!(!chance(&[path(3, 8, 0.001, 7)]), "it may have been full until now");
        assert!(then(path(4, 8, 0.001, 7)));
        assert!(then(path(4, 6, 0.01, 7)));
        assert!(!then(path(4, 12, 0.001, 7)), "four have begun, and may have been too quick");
        assert!(!then(path(4, 8, 0.0, 7)), "nothing was lost");
        assert!(!then(path(4, 8, 0.001, 18)), "it is full again");
    }

    #[test]
    fn a_path_is_full_where_packets_are_lost_in_a_queue() {
        let full =
            |share, trip| after(&[Observation { loss: Some(share), ..second(1, 8, 500, trip) }]).is_full();
        assert!(full(0.01, (80, 100)));
        assert!(!full(0.01, (80, 81)), "lost at random, or to a policer");
        assert!(!full(0.0, (80, 100)), "a queue that loses nothing may be a stream's own");
        let then = |now| {
            let lossy = |at, trip| Observation { loss: Some(0.001), ..second(at, 8, 500, trip) };
            after(&[lossy(1, (6, 18)), lossy(2, (6, now))]).is_full()
        };
        assert!(then(14) && !then(9), "it has been four times as long: some are lost by chance");
    }

    #[test]
    fn a_queue_that_goes_by_itself_tells_of_another_path() {
        // Of 13 Mbit/s fourteen streams have 0.9 each, and as much of 31 Mbit/s.
        let path = |at, streams, loss, spread| {
            let seen = second(at, streams, 13, (11, 48));
            let told = seen.streams.map(|it| Streams { count: streams, spread, ..it });
            Observation { loss: Some(loss), streams: told, ..seen }
        };
        let full: Vec<_> = (1..=5).map(|at| path(at, 14, 0.02, 0.05)).collect();
        let then = |more: &[Observation]| after(&[&full, more].concat()).has_emptied();
        assert!(!then(&[]));
        assert!(then(&[path(6, 14, 0.0, 0.01)]));
        assert!(!then(&[path(6, 14, 0.0, 0.01), path(7, 14, 0.0, 0.01)]), "that is known");
        assert!(!then(&[path(6, 14, 0.02, 0.05)]), "it stands");
        assert!(!then(&[path(6, 12, 0.0, 0.01), path(7, 12, 0.0, 0.01)]), "we took two away");
    }

    #[test]
    fn who_still_moves_more_each_time_is_waited_for() {
        // 9 segments are lacking, which takes a second at 60 ms; but others lost packets as well, and it takes longer.
        let path = |at, streams, mbps| second(at, streams, mbps, (60, 74));
        let mut recovery = after(&[path(1, 3, 19), path(2, 2, 13)]);
        for (at, mbps) in [(3, 14), (4, 15), (5, 16), (6, 17)] {
            recovery.watch(&path(at, 2, mbps));
            assert!(recovery.is_under_way(), "after {at} s");
        }
        recovery.watch(&path(7, 2, 17));
        assert!(!recovery.is_under_way(), "no more comes");
    }

    #[test]
    fn behind_losses_windows_are_not_yet_what_they_were() {
        let path = |at, share, mbps| Observation { loss: Some(share), ..second(at, 26, mbps, (150, 152)) };
        let mut recovery = after(&[path(1, 0.01, 735), path(2, 0.01, 730), path(3, 0.01, 732)]);
        assert!(!recovery.grows(), "steady loss");
        recovery.watch(&path(4, 0.0, 685));
        assert!(recovery.grows() && !recovery.is_under_way(), "something may be tried meanwhile");
        recovery.watch(&path(5, 0.0, 740));
        assert!(!recovery.grows(), "it has recovered");
    }

    #[test]
    fn no_more_streams_may_go_than_the_queue_makes_up_for() {
        let fewest = |trip| after(&[second(1, 16, 1000, trip), second(2, 16, 1000, trip)]).fewest();
        assert_eq!(after(&[second(1, 16, 1000, (1, 2))]).fewest(), 16.0, "windows have but begun to grow");
        assert_eq!(fewest((80, 80)), 16.0, "without a queue none, ...");
        let later: Vec<Observation> = (1..=9).map(|at| second(at, 16, 1000, (80, 80))).collect();
        assert_eq!(after(&later).fewest(), 15.0, "... and one at a time where none comes to stand");
        let two: Vec<Observation> = (1..=9).map(|at| second(at, 2, 1000, (80, 80))).collect();
        assert_eq!(after(&two).fewest(), 2.0, "the other would need 20 s to fill the gap");
        assert_eq!(fewest((80, 100)), 13.0, "a fifth of the round trip is queue");
        assert_eq!(fewest((80, 800)), 2.0, "nearly all of it is");
        assert_eq!(fewest((1, 2)), 1.0, "near, the gap is filled at once");
        // Of sixteen half were let go, and still send what they have.
        let ending = |seen: Observation| {
            let told = seen.streams.map(|it| Streams { count: 16, ..it });
            Observation { streams: told, ..seen }
        };
        let let_go = |of: fn(u16) -> u16| {
            let seen = |at| second(at, of(at as u16), 1000, (80, 140));
            after(&(1..=3).map(|at| ending(seen(at))).collect::<Vec<_>>()).fewest()
        };
        assert_eq!(let_go(|_| 16), 10.0, "three sevenths of the round trip are queue");
        assert_eq!(
            let_go(|at| if at < 3 { 16 } else { 8 }),
            8.0,
            "and none when half of them have yet to go"
        );
    }
}
