//! A job slice by slice, with as many streams each as a rule asks for after the one before.
//!
//! `globus-url-copy` cannot change its streams while it runs, so it is begun anew for each slice: that is how the paper on
//! AIMD drove it. What a slice shows has the beginning in it, with logins and slow starts, as that is what it costs.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_control::{
    Arrival, BitRate, Bounds, ByteCount, Concurrency, Environment, Epoch, Observation, PerStage, Remaining,
    run,
};
use tokio::sync::{mpsc, watch};

use crate::job::StreamRule;
use crate::mover::attempt::{Class, Ended};
use crate::mover::command::Plan;
use crate::sampler::growing::{FIRST, GOOD_PART, GROWTH};

use super::slices::{Piece, Places, Slices};
use super::{Attempt, Known};

/// The length of an epoch where the job does not say it and the rule wants none longer: a slice must be worth a start of
/// the program, with a login at each server.
const EPOCH: Duration = Duration::from_secs(5);
/// How many times as long an epoch may become while its number is kept.
const MAX_STRETCH: u32 = 8;

/// How many streams there may be.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    /// To begin with, if that was estimated.
    pub start: Option<u16>,
    /// At all.
    pub most: u16,
    /// For now.
    pub now: watch::Receiver<u16>,
}

/// The only number that such a job has is that of its streams.
pub const fn bounds(most: u16) -> PerStage<Bounds> {
    let one = Bounds::new(1, 1);
    PerStage { read: one, network: Bounds::new(1, most), write: one }
}

/// What was moved under a rule.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    files: u64,
    bytes: u64,
    /// The sum of the times of all slices, and of their times by their streams, in seconds.
    time: f64,
    stream_time: f64,
}

/// How long epochs are. A start of the program is the price of another number: an epoch takes as long as its number was kept
/// before it, so that one that is to be looked at again is not stayed with.
#[derive(Debug)]
struct Lengths {
    least: Duration,
    streams: u16,
    kept: Duration,
}

impl Lengths {
    const fn new(least: Duration) -> Self {
        Self { least, streams: 0, kept: Duration::ZERO }
    }

    /// The length of the next epoch, with so many streams.
    fn next(&mut self, streams: u16) -> Duration {
        if self.streams != streams {
            (self.streams, self.kept) = (streams, Duration::ZERO);
        }
        let length = self.kept.clamp(self.least, self.least * MAX_STRETCH);
        self.kept += length;
        length
    }
}

/// What the last slice carried, and in what time.
#[derive(Clone, Copy, Debug)]
struct Carried {
    bytes: u64,
    time: f64,
}

impl Carried {
    /// As much as would be carried in so much `time`, and no more than so many times what was.
    fn in_time(self, time: Duration) -> ByteCount {
        let growth = (time.as_secs_f64() / self.time).min(GROWTH);
        ByteCount((self.bytes as f64 * growth) as u64)
    }
}

/// The side of the rule, on a thread of its own: each step asks for a set-point and waits for what it showed.
struct Lockstep {
    shares: Shares,
    asks: mpsc::Sender<Concurrency>,
    seen: mpsc::Receiver<Observation>,
}

impl Environment for Lockstep {
    type Error = Infallible;

    fn bounds(&self) -> PerStage<Bounds> {
        bounds((*self.shares.now.borrow()).min(self.shares.most).max(1))
    }

    fn step(&mut self, setpoint: Concurrency) -> Result<Option<Observation>, Infallible> {
        Ok(self.asks.blocking_send(setpoint).ok().and_then(|()| self.seen.blocking_recv()))
    }
}

/// How many files at a time, with how many connections each, make so many `streams` of so many pieces, or as many as can
/// be made of them.
fn split(streams: u16, pieces: usize) -> (u16, u16) {
    let pieces = u16::try_from(pieces).unwrap_or(u16::MAX).max(1);
    let parallel = streams.div_ceil(pieces).max(1);
    ((streams / parallel).max(1), parallel)
}

impl Attempt<'_> {
    /// Where the list is that is cut.
    pub(super) fn list(&self) -> PathBuf {
        self.dump.with_extension("slices")
    }

    pub(super) fn places(&self) -> Places {
        Places { nowhere: self.nowhere.clone(), pairs: self.pairs.clone() }
    }

    fn moved_so_far(&self) -> MutexGuard<'_, Moved> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn moved_bytes(&self) -> u64 {
        self.moved_so_far().bytes
    }

    /// Who decided, and how many streams there were in the mean.
    pub(super) fn decided(&self) -> (String, f64) {
        let Some(rule) = &self.rule else {
            return (format!("fixed:{}", self.streams), f64::from(self.streams));
        };
        let moved = *self.moved_so_far();
        let mean = if moved.time > 0.0 { moved.stream_time / moved.time } else { f64::from(self.streams) };
        (rule.name.clone(), mean)
    }

    /// Keeps what was written down last, as the list that is cut.
    pub(super) async fn keep_list(&self) -> Result<(), Ended> {
        if self.rule.is_none() {
            return Ok(());
        }
        let kept = match tokio::fs::rename(&self.dump, self.list()).await {
            // Nothing is to be moved.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                tokio::fs::write(self.list(), "").await
            }
            kept => kept,
        };
        kept.map_err(|error| self.no_list(&error))
    }

    fn no_list(&self, error: &dyn std::fmt::Display) -> Ended {
        let list = self.list();
        Ended::failed(
            Class::Passing,
            format!("cannot read or write the job's list {}: {error}", list.display()),
        )
    }

    /// Moves what is in the list under `rule`.
    pub(super) async fn slice_by_slice(
        &self,
        rule: &StreamRule,
        known: Known,
        epochs: mpsc::Sender<Epoch>,
    ) -> Result<(), Ended> {
        let mut optimizer = rule.build().map_err(|why| Ended::failed(Class::Usage, why))?;
        let length = rule.epoch.unwrap_or_else(|| optimizer.epoch_length().max(EPOCH));
        let (asks, mut asked) = mpsc::channel(1);
        let (shown, seen) = mpsc::channel(1);
        let mut lockstep = Lockstep { shares: self.shares.clone(), asks, seen };
        let start = self.shares.start.map(PerStage::all);
        let deciding = tokio::task::spawn_blocking(move || {
            let told = |epoch: Option<&Epoch>, _: &_| {
                let Some(epoch) = epoch else { return };
                let left = epoch.remaining_bytes.map_or(0, |left| left.0);
                let arrived = known.all.1.saturating_sub(left);
                let arrived = Arrival {
                    bytes: ByteCount(arrived),
                    new_bytes: ByteCount(arrived.saturating_sub(known.before.1)),
                    total_bytes: Some(ByteCount(known.all.1)),
                };
                // Nobody waits for a listener.
                drop(epochs.try_send(Epoch { arrived: Some(arrived), ..epoch.clone() }));
            };
            let Ok(()) = run(&mut lockstep, optimizer.as_mut(), start, told);
        });
        let file = File::open(self.list()).map_err(|error| self.no_list(&error))?;
        let mut slices = Slices::new(BufReader::new(file), self.places());
        let (mut last, mut lengths) = (None, Lengths::new(length));
        while let Some(Concurrency { network: streams, .. }) = asked.recv().await {
            let epoch = self.epoch(streams, &mut slices, &mut last, lengths.next(streams), known).await?;
            let Some(epoch) = epoch else { break };
            if shown.send(epoch).await.is_err() {
                break;
            }
        }
        // The rule's thread ends with its channels.
        drop((asked, shown));
        deciding.await.map_err(|error| self.cannot_run(&error))
    }

    /// Moves slices with so many streams until they took a good part of an epoch's `length`; `None` if none is left. A
    /// slice is as large as what the last one showed would carry in an epoch.
    async fn epoch(
        &self,
        streams: u16,
        slices: &mut Slices<BufReader<File>>,
        last: &mut Option<Carried>,
        length: Duration,
        known: Known,
    ) -> Result<Option<Observation>, Ended> {
        let mut sum = Moved::default();
        while sum.time < length.as_secs_f64() * GOOD_PART {
            let size = last.map_or(FIRST, |last: Carried| last.in_time(length));
            let slice = slices.next(size).map_err(|error| self.no_list(&error))?;
            if slice.is_empty() {
                break;
            }
            let (files, parallel) = split(streams, slice.len());
            let begun = Instant::now();
            let exit = self.start(&self.carrying_slice(&slice, files, parallel), |_| {}).await?;
            if exit.code() != Ok(0) {
                return Err(self.broke(&exit, known, self.moved_bytes()));
            }
            let time = begun.elapsed().as_secs_f64().max(1e-6);
            let bytes: u64 = slice.iter().map(|piece| piece.bytes().0).sum();
            let ended = slice.iter().filter(|piece| piece.ends_file()).count() as u64;
            let stream_time = time * f64::from(files) * f64::from(parallel);
            for sum in [&mut sum, &mut *self.moved_so_far()] {
                sum.files += ended;
                sum.bytes += bytes;
                sum.time += time;
                sum.stream_time += stream_time;
            }
            *last = Some(Carried { bytes, time });
        }
        // Empty files show nothing of a path.
        if sum.bytes == 0 {
            return Ok(None);
        }
        let moved = *self.moved_so_far();
        let interval = Duration::from_secs_f64(sum.time);
        let left = |all: u64, before: u64, moved: u64| all.saturating_sub(before).saturating_sub(moved);
        Ok(Some(Observation {
            at: self.started.elapsed(),
            interval,
            concurrency: Concurrency::new(1, (sum.stream_time / sum.time).round() as u16, 1),
            throughput: PerStage::all(BitRate::over(ByteCount(sum.bytes), interval)),
            remaining: Some(Remaining {
                bytes: ByteCount(left(known.all.1, known.before.1, moved.bytes)),
                files: left(known.all.0, known.before.0, moved.files),
            }),
            ..Observation::default()
        }))
    }

    fn carrying_slice(&self, slice: &[Piece], files: u16, parallel: u16) -> Plan {
        let mut plan = self.plan(["-cd", "-cc"]);
        plan.arguments.push(files.to_string().into());
        let bytes: u64 = slice.iter().map(|piece| piece.bytes().0).sum();
        self.carrying(&mut plan, parallel, ByteCount(bytes / slice.len().max(1) as u64));
        plan.arguments.extend(["-f", "/dev/stdin"].map(OsString::from));
        plan.input = slice.iter().map(Piece::line).collect::<String>().into_bytes();
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_files_at_a_time_by_connections_each() {
        for (streams, pieces, wanted) in [
            (1, 1, (1, 1)),
            (8, 1, (1, 8)),
            (8, 100, (8, 1)),
            (8, 5, (4, 2)),
            (7, 6, (3, 2)),
            (5, 3, (2, 2)),
            (512, usize::MAX, (512, 1)),
        ] {
            assert_eq!(split(streams, pieces), wanted, "{streams} of {pieces}");
        }
    }

    #[test]
    fn the_program_is_begun_less_often_while_a_number_is_kept() {
        let mut lengths = Lengths::new(Duration::from_secs(5));
        let asked = [4, 4, 4, 4, 4, 4, 5, 5, 4];
        assert_eq!(asked.map(|streams| lengths.next(streams).as_secs()), [5, 5, 10, 20, 40, 40, 5, 5, 5]);
        // 3 MB in 2 s.
        let last = Carried { bytes: 3_000_000, time: 2.0 };
        assert_eq!(last.in_time(Duration::from_secs(40)), ByteCount(60_000_000));
        assert_eq!(last.in_time(Duration::from_secs(400)), ByteCount(96_000_000));
    }
}
