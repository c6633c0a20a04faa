//! How a job that runs is doing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_control::{Arrival, BitRate, Epoch, Meter, Stage};
use tokio::sync::broadcast;

use crate::job::Progress;
use crate::mover::Away;

/// The latest epochs that are kept of a job that runs.
pub(crate) const MAX_EPOCHS: usize = 600;
/// How long after an epoch the next one may be heard, if the transfer goes on.
const SILENCE: Duration = Duration::from_secs(3);
/// How long nothing may arrive before that is said.
const QUIET: Duration = Duration::from_secs(5);
/// Epochs that a slow listener may be behind.
const BEHIND: usize = 64;

/// A job that runs, as it stands.
#[derive(Debug)]
pub struct Live {
    /// How far it is.
    pub progress: Progress,
    /// Its latest epochs, the oldest first.
    pub epochs: Vec<Arc<Epoch>>,
    /// Those to come.
    pub(crate) to_come: broadcast::Receiver<Arc<Epoch>>,
    /// What it waits for, if nothing gets on.
    pub stall: Option<Stall>,
}

/// Why nothing gets on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// For how long.
    pub lasted: Duration,
    /// What is known of it.
    pub what: StallKind,
}

/// What is known of why nothing gets on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StallKind {
    /// An end does not answer, or waits itself.
    Away(Away),
    /// The path is measured.
    Measures,
    /// Nothing arrives, and nobody says why.
    Silence,
}

/// Keeps up with a job.
#[derive(Debug)]
pub(crate) struct Tracker {
    arrived: Arrival,
    meter: Meter,
    streams: u16,
    /// The end of the last epoch, and when it was heard.
    last: (Duration, Instant),
    epochs: VecDeque<Arc<Epoch>>,
    sender: broadcast::Sender<Arc<Epoch>>,
    /// When anything was moved last, or else when it was begun.
    moved: Instant,
    has_moved: bool,
    away: Option<Away>,
    /// How long the end was away already when it was begun.
    before: Option<Duration>,
    phase: Phase,
}

/// What a job that runs does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Measures,
    Moves(Telling),
}

/// How a program that moves data tells how it gets on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// Epoch by epoch, as long as the other end answers.
    Always,
    /// Epoch by epoch, but not while it does something else with what arrived.
    Mostly,
    /// Seldom.
    Seldom,
}

impl Tracker {
    /// Nothing was heard yet.
    pub fn new() -> Self {
        let (sender, _) = broadcast::channel(BEHIND);
        Self {
            arrived: Arrival::default(),
            meter: Meter::default(),
            streams: 0,
            last: (Duration::ZERO, Instant::now()),
            epochs: VecDeque::new(),
            sender,
            moved: Instant::now(),
            has_moved: false,
            away: None,
            before: None,
            phase: Phase::Measures,
        }
    }

    /// It goes on with an outage that has lasted so long.
    pub(crate) fn goes_on_with(&mut self, outage: Duration, away: Away) {
        self.before = Some(outage);
        self.away = Some(away);
    }

    /// From now on data is moved.
    pub fn moves(&mut self, telling: Telling) {
        self.phase = Phase::Moves(telling);
        if self.before.is_none() {
            self.moved = Instant::now();
        }
    }

    /// Hears that an end is away; answers with whether that is new.
    pub(crate) fn hear_away(&mut self, away: Away) -> bool {
        self.away.replace(away).is_none()
    }

    /// How long nothing has been moved in this try; zero where that is not seen.
    pub(crate) fn unmoved(&self) -> Duration {
        match self.phase {
            Phase::Moves(Telling::Always | Telling::Mostly) => self.moved.elapsed(),
            Phase::Moves(Telling::Seldom) | Phase::Measures => Duration::ZERO,
        }
    }

    /// What it waits for, if nothing gets on.
    pub fn stall(&self) -> Option<Stall> {
        self.stall_after(self.moved.elapsed(), self.last.1.elapsed())
    }

    /// The same when nothing was moved, and nothing was heard, for so long.
    fn stall_after(&self, unmoved: Duration, unheard: Duration) -> Option<Stall> {
        if let Some(away) = &self.away {
            let before = self.before.filter(|_| !self.has_moved).unwrap_or_default();
            return Some(Stall { lasted: before + unmoved, what: StallKind::Away(away.clone()) });
        }
        let what = match self.phase {
            Phase::Measures => StallKind::Measures,
            Phase::Moves(Telling::Always) => StallKind::Silence,
            Phase::Moves(Telling::Mostly) if self.epochs.is_empty() || unheard < SILENCE => {
                StallKind::Silence
            }
            Phase::Moves(Telling::Mostly | Telling::Seldom) => return None,
        };
        (unmoved >= QUIET).then_some(Stall { lasted: unmoved, what })
    }

    /// Hears an epoch; answers with whether an outage is over with it.
    pub fn hear(&mut self, epoch: Epoch) -> bool {
        let at = Duration::from_millis(epoch.t_ms);
        // What the first one tells may have been there before.
        let more = |arrived: Arrival| arrived.bytes > self.arrived.bytes && !self.epochs.is_empty();
        let arrives = epoch.arrived.is_some_and(more);
        let moves = arrives || Stage::ALL.iter().any(|&stage| epoch.throughput_bps[stage] > BitRate::ZERO);
        if moves {
            (self.moved, self.has_moved) = (Instant::now(), true);
        }
        if let Some(arrived) = epoch.arrived {
            self.arrived = arrived;
            self.meter.hear(at, arrived.new_bytes);
        }
        self.last = (at, Instant::now());
        self.streams = epoch.concurrency.network;
        let heard: Arc<Epoch> = Arc::new(epoch);
        if self.epochs.len() == MAX_EPOCHS {
            self.epochs.pop_front();
        }
        self.epochs.push_back(Arc::clone(&heard));
        // Nobody may be listening.
        let _ = self.sender.send(heard);
        moves && self.away.take().is_some()
    }

    /// How far it is, if it was ever heard of.
    pub(crate) fn progress_heard(&self) -> Option<Progress> {
        (!self.epochs.is_empty()).then(|| self.progress())
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.progress_after(self.last.1.elapsed())
    }

    /// The same when nothing was heard for so long. A transfer that tells nothing any more, as while it waits for who
    /// does not answer, moves nothing.
    fn progress_after(&self, silent: Duration) -> Progress {
        let rate = self.meter.rate(self.last.0 + silent.saturating_sub(SILENCE));
        let left = self.arrived.time_left(rate);
        Progress {
            bytes: self.arrived.bytes,
            total_bytes: self.arrived.total_bytes,
            throughput_bps: rate,
            left_ms: left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            streams: self.streams,
        }
    }

    /// As it stands.
    pub fn live(&self) -> Live {
        Live {
            progress: self.progress(),
            epochs: self.epochs.iter().cloned().collect(),
            to_come: self.sender.subscribe(),
            stall: self.stall(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_control::ByteCount;

    use super::*;

    /// An epoch in which the stages moved so much, after which so much had arrived of 600 MB.
    fn epoch(second: u64, mbps: [u64; 3], arrived: u64) -> Epoch {
        let stages = |[read, network, write]: [u64; 3]| serde_json::json!({ "read": read, "network": network, "write": write });
        let value = serde_json::json!({
            "t_ms": second * 1000, "interval_ms": 1000, "concurrency": stages([1; 3]), "setpoint": stages([1; 3]),
            "throughput_bps": stages(mbps.map(|mbps| mbps * 1_000_000)),
            "staging_free_bytes": { "sender": 0, "receiver": 0 }, "loss": null, "rtt_us": null, "utility": null,
            // The books have no file that is complete.
            "remaining_bytes": 600_000_000,
            "arrived": { "bytes": 100_000_000 + arrived, "new_bytes": arrived, "total_bytes": 700_000_000 },
        });
        serde_json::from_value(value).expect("an epoch")
    }

    #[test]
    fn an_end_that_is_away_is_said_to_be_until_something_moves() {
        let seconds = Duration::from_secs;
        let away = Away { why: "cannot connect to h:1: refused".to_owned(), is_away: true };
        let mut tracker = Tracker::new();
        let stall =
            |tracker: &Tracker, s| tracker.stall_after(seconds(s), seconds(s)).map(|stall| stall.what);
        assert_eq!((stall(&tracker, 4), stall(&tracker, 5)), (None, Some(StallKind::Measures)));
        tracker.moves(Telling::Mostly);
        assert_eq!((stall(&tracker, 4), stall(&tracker, 5)), (None, Some(StallKind::Silence)));
        assert!(tracker.hear_away(away.clone()) && !tracker.hear_away(away.clone()));
        assert_eq!(stall(&tracker, 0), Some(StallKind::Away(away.clone())));
        // Epochs in which nothing moves end no outage.
        assert!(!tracker.hear(epoch(1, [0; 3], 0)) && !tracker.hear(epoch(2, [0; 3], 0)));
        assert!(tracker.hear(epoch(3, [0, 8, 8], 0)));
        assert_eq!(tracker.stall_after(seconds(9), seconds(9)), None, "one that hashes tells nothing");
        assert_eq!(tracker.stall_after(seconds(9), seconds(1)).map(|stall| stall.lasted), Some(seconds(9)));
        // Between ends of ours silence is that of the other end.
        tracker.moves(Telling::Always);
        assert_eq!(stall(&tracker, 9), Some(StallKind::Silence));
        // A try begins where the one before it ended.
        let mut tracker = Tracker::new();
        tracker.goes_on_with(seconds(60), away);
        tracker.moves(Telling::Always);
        assert_eq!(tracker.stall_after(seconds(7), seconds(7)).map(|stall| stall.lasted), Some(seconds(67)));
        // Of a program that tells little nothing is concluded.
        let mut tracker = Tracker::new();
        tracker.moves(Telling::Seldom);
        assert_eq!(stall(&tracker, 99), None);
    }

    #[test]
    fn bursts_of_reading_do_not_hide_what_arrives() {
        let mut tracker = Tracker::new();
        for second in 1..=60 {
            // A disk is read in one second of six, and the network is steady.
            let read = if second % 6 == 0 { 360 } else { 0 };
            tracker.hear(epoch(second, [read, 60, 60], second * 7_500_000));
            let progress = tracker.progress_after(Duration::ZERO);
            assert_eq!(progress.throughput_bps, BitRate::mbps(60), "{second}");
            assert_eq!(progress.bytes, ByteCount(100_000_000 + second * 7_500_000));
            assert_eq!(progress.left_ms, Some((80 - second) * 1000));
        }
        // Silence is not a rate.
        let silent = |seconds| tracker.progress_after(SILENCE + Duration::from_secs(seconds));
        assert_eq!(silent(5).throughput_bps, BitRate::mbps(30));
        assert_eq!((silent(10).throughput_bps, silent(10).left_ms), (BitRate::ZERO, None));
        // A try that begins anew tells what came before it too.
        tracker.hear(epoch(90, [0, 0, 0], 460_000_000));
        assert_eq!(tracker.progress_after(Duration::ZERO).throughput_bps, BitRate(2_666_667));
    }
}
