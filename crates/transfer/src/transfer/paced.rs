//! How time is cut into epochs: what is waited for, what is left out, and what is measured, for whatever
//! moves bytes and can count them.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tidegate_control::{
    BitRate, Bounds, Concurrency, Environment, Host, Observation, PathSample, PerStage, Proposal, Ramp,
    RampStep,
};

use crate::counters::Glimpse;
use crate::error::{Error, Result};
use crate::ledger::Ledger;
use crate::pipeline::waits::share_waited;
use crate::sys::clock::Instant;
use crate::sys::processors;
use crate::transfer::pace::Pace;
use crate::transfer::watch::{Judgement, Span, Watch};

/// How often it is looked for the first bytes.
const LOOK: Duration = Duration::from_millis(20);

/// Readers that have no block after so long are slow, if streams waited for more than this share of it.
const READ: Duration = Duration::from_millis(100);
const STARVED: f64 = 0.9;

/// Round trips from which on a ramp comes before the first epoch.
const FAR: Duration = Duration::from_millis(5);

/// No ramp is waited for any longer.
const LONGEST_RAMP: Duration = Duration::from_secs(6);

/// How uncertain the mean of a short epoch may be, as a share of it: a step on the way up is told by a
/// factor of two to four.
const SURE_SHORT: f64 = 0.2;

/// The same of any other.
const SURE: f64 = 0.15;

/// What moves data in epochs and keeps a ledger of it.
pub trait Tracked: Environment<Error = Error> + Send {
    /// Its ledger.
    fn ledger(&self) -> &Arc<Ledger>;
}

/// What is under way and is measured in epochs.
pub trait Running: Send {
    /// Its counters at one moment.
    type Counters: Copy + Send;

    /// What has become of its files.
    fn ledger(&self) -> &Arc<Ledger>;

    /// How many workers it may have by now.
    fn bounds(&self) -> PerStage<Bounds>;

    /// The round trip, and the streams that the other end bears, as far as they were known before anything moved.
    fn other_end(&self) -> (Option<Duration>, Option<u16>) {
        (None, None)
    }

    /// Lets so many workers run.
    fn resize(&mut self, setpoint: Concurrency);

    /// Lets its streams yield to whatever else is on the path, or no more.
    fn yields(&mut self, _yields: bool) {}

    /// What is told of its streams now: by the kernel where they begin here, and else what has arrived.
    fn path_sample(&self) -> Option<PathSample> {
        None
    }

    /// Lets time pass until `until`; `None` once everything has ended.
    fn pass(&mut self, until: Instant) -> Result<Option<()>>;

    /// What was counted so far; `None` if it ended meanwhile.
    fn counters(&mut self) -> Result<Option<Self::Counters>>;

    /// What is seen here of what it has moved so far; costs next to nothing.
    fn glimpse(&self) -> Glimpse;

    /// The round trip, as far as it is known: what comes in between comes in bursts.
    fn round_trip(&self) -> Duration {
        Duration::ZERO
    }

    /// When it stops by itself, if it does: what an epoch has not shown by then it never shows.
    fn stops(&self) -> Option<Instant> {
        None
    }

    /// Bytes that the network has moved.
    fn moved(&self, counters: &Self::Counters) -> u64;

    /// How long a new worker takes to get up to speed, and to show it.
    fn warm_up(&self) -> Duration {
        Duration::ZERO
    }

    /// What the time between two counts showed.
    fn observe(&self, setpoint: Concurrency, before: &Self::Counters, after: &Self::Counters) -> Observation;
}

/// Something that runs, as an [`Environment`]: it is given a set-point, passes an epoch and is counted.
#[derive(Debug)]
pub struct Paced<R: Running> {
    run: R,
    pace: Pace,
    short: bool,
    /// As many streams as may be there, where they may become more within the epoch.
    ramps: Option<u16>,
    setpoint: Option<Concurrency>,
    before: Option<R::Counters>,
    /// What the network moved in the last epoch.
    rate: BitRate,
}

impl<R: Running> Deref for Paced<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.run
    }
}

impl<R: Running> Tracked for Paced<R> {
    fn ledger(&self) -> &Arc<Ledger> {
        self.run.ledger()
    }
}

impl<R: Running> Environment for Paced<R> {
    type Error = Error;

    fn bounds(&self) -> PerStage<Bounds> {
        let mut bounds = self.run.bounds();
        if let Some(now) = self.setpoint.filter(|_| self.ends_soon()) {
            bounds.network = Bounds::new(bounds.network.min, bounds.network.max.min(now.network));
        }
        bounds
    }

    fn host(&self) -> Host {
        let (round_trip, streams) = self.run.other_end();
        Host { round_trip, streams, ..this_host() }
    }

    fn heed(&mut self, proposal: &Proposal, bounds: PerStage<Bounds>) {
        self.short = proposal.short_epochs;
        self.ramps = proposal.ramps.then_some(bounds.network.max);
        self.run.yields(proposal.yields);
    }

    fn step(&mut self, mut setpoint: Concurrency) -> Result<Option<Observation>> {
        let run = &mut self.run;
        // Whoever is stopped before it begins moves nothing.
        if self.setpoint.is_none() && run.pass(Instant::now())?.is_none() {
            return Ok(None);
        }
        let mut pace = if self.short { self.pace.shortened(run.warm_up()) } else { self.pace };
        let (mut begun, mut looks) = (Instant::now(), Vec::new());
        let changed = self.setpoint != Some(setpoint);
        if changed {
            let first = self.setpoint.replace(setpoint).is_none();
            run.resize(setpoint);
            if first && self.short {
                if wait_for_data(run, begun + self.pace.epoch, setpoint.network)?.is_none() {
                    return Ok(None);
                }
                // Near by, an epoch is as short as a ramp.
                let far = run.path_sample().is_some_and(|seen| seen.min_rtt >= FAR);
                let ramps = self.ramps.filter(|_| far);
                if let Some(most) = ramps {
                    let Some(ramp) = ramp(run, setpoint, most)? else { return Ok(None) };
                    setpoint.network = ramp.streams();
                    self.setpoint = Some(setpoint);
                    looks = ramp.into_looks();
                }
                begun = Instant::now();
                // Only now it is known for sure how long the path is.
                pace = match ramps {
                    Some(_) => self.pace.after_ramp(run.round_trip()),
                    None => self.pace.shortened(run.warm_up()),
                };
            }
            if run.pass(begun + pace.settle)?.is_none() {
                return Ok(None);
            }
        }
        // Without a change the last epoch's end is this one's beginning.
        let before = match self.before.filter(|_| !changed) {
            Some(before) => Some(before),
            None => run.counters()?,
        };
        let soonest = begun + pace.epoch;
        let latest = begun + self.pace.longest().max(pace.epoch);
        // A little before, so that it can still be counted.
        let stops = run.stops().and_then(|stops| stops.checked_sub(LOOK)).unwrap_or(latest);
        let span = Span {
            begun,
            soonest,
            usual: begun + self.pace.epoch.max(pace.epoch),
            latest: latest.min(stops).max(soonest),
            sure: if self.short { SURE_SHORT } else { SURE },
            look: pace.look(run.round_trip()),
            change: (!self.short).then(|| self.pace.shortened(run.warm_up()).epoch),
        };
        let Some((before, watch)) = until_seen(run, setpoint, before, span)? else { return Ok(None) };
        let after = run.counters()?;
        let seen = self.measured(setpoint, before, after)?;
        Ok(seen.map(|seen| Observation {
            standard_error: watch.standard_error(seen.standard_error),
            ramp: looks,
            ..seen
        }))
    }
}

impl<R: Running> Paced<R> {
    /// Nothing has been asked of `run` yet.
    pub const fn new(run: R, pace: Pace) -> Self {
        Self { run, pace, short: false, ramps: None, setpoint: None, before: None, rate: BitRate(0) }
    }

    /// Its ledger.
    pub fn ledger(&self) -> &Arc<Ledger> {
        self.run.ledger()
    }

    /// Whether all has moved before a new stream is up to speed: it would only take what others send sooner.
    fn ends_soon(&self) -> bool {
        let arrival = self.run.ledger().arrival();
        let left = arrival.total_bytes.map(|all| all.0.saturating_sub(arrival.bytes.0));
        left.is_some_and(|left| (left as f64) * 8.0 < self.rate.0 as f64 * self.run.warm_up().as_secs_f64())
    }

    /// What was moved between two counts, of which either may have come too late.
    fn measured(
        &mut self,
        setpoint: Concurrency,
        before: Option<R::Counters>,
        after: Option<R::Counters>,
    ) -> Result<Option<Observation>> {
        self.before = after;
        match (before, after) {
            (Some(before), Some(after)) => {
                let seen = self.run.observe(setpoint, &before, &after);
                self.rate = seen.throughput.network;
                Ok(Some(seen))
            }
            // It ended while we asked.
            _ => Ok(self.run.pass(Instant::now())?.and(None)),
        }
    }
}

/// What is known of the host that we run on.
pub(super) fn this_host() -> Host {
    Host { processors: Some(processors::count().unwrap_or(4)), ..Host::default() }
}

/// Waits for the first bytes, so that connecting is not measured, but not beyond `until`, and not if the streams wait for
/// slow readers: there is no need to connect yet. `None` once everything has ended.
fn wait_for_data<R: Running>(run: &mut R, until: Instant, streams: u16) -> Result<Option<()>> {
    let mut reading = None;
    loop {
        if run.pass(Instant::now() + LOOK)?.is_none() {
            return Ok(None);
        }
        let Some(now) = run.counters()? else { return run.pass(Instant::now()).map(|_| None) };
        let seen = run.glimpse();
        let waited = seen.network.map_or(Duration::ZERO, |network| network.waited);
        if reading.is_none() && seen.read.is_some_and(|read| read.moved > 0) {
            reading = Some((Instant::now(), waited));
        }
        let starved = reading.is_some_and(|(since, before): (Instant, Duration)| {
            let passed = since.elapsed();
            passed >= READ
                && share_waited(passed, (before, waited), streams).is_some_and(|share| share > STARVED)
        });
        if run.moved(&now) > 0 || starved || Instant::now() >= until {
            return Ok(Some(()));
        }
    }
}

/// Lets time pass until it is known how many streams the path takes, and has more of them meanwhile; `None` once everything has
/// ended.
fn ramp<R: Running>(run: &mut R, mut setpoint: Concurrency, most: u16) -> Result<Option<Ramp>> {
    let (mut ramp, begun) = (Ramp::new(setpoint.network, most), Instant::now());
    while begun.elapsed() < LONGEST_RAMP && run.stops().is_none_or(|stops| Instant::now() + LOOK < stops) {
        let Some(seen) = run.path_sample() else { break };
        tracing::trace!("{seen:?}");
        match ramp.look(seen) {
            RampStep::Waits => {}
            RampStep::Asks(streams) => {
                setpoint.network = streams;
                tracing::debug!("{streams} streams: the path takes more");
                run.resize(setpoint);
            }
            RampStep::Ends(why) => {
                tracing::debug!("{} streams are enough to begin with: {why:?}", ramp.streams());
                setpoint.network = ramp.streams();
                run.resize(setpoint);
                break;
            }
        }
        if run.pass(Instant::now() + LOOK)?.is_none() {
            return Ok(None);
        }
    }
    Ok(Some(ramp))
}

/// Lets time pass until enough is seen; tells the counters from which on it was, and what was. `None` once everything has
/// ended.
fn until_seen<R: Running>(
    run: &mut R,
    setpoint: Concurrency,
    mut before: Option<R::Counters>,
    mut span: Span,
) -> Result<Option<(Option<R::Counters>, Watch)>> {
    let mut watch = Watch::new(run.glimpse(), setpoint);
    loop {
        if run.pass((Instant::now() + span.look).min(span.latest))?.is_none() {
            return Ok(None);
        }
        watch.look(run.glimpse(), Instant::now());
        match watch.judge(&span) {
            Judgement::TooLittle => {}
            Judgement::Enough => return Ok(Some((before, watch))),
            Judgement::Anew(later) => {
                (before, span) = (run.counters()?, later);
                watch = Watch::new(run.glimpse(), setpoint);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::StageGlimpse;
    use crate::sys::clock::manual;
    use crate::sys::thread;

    /// Counts how often it is asked for what; it moves a byte a count and ends after five.
    #[derive(Debug)]
    struct Counted {
        began: Instant,
        ledger: Arc<Ledger>,
        resized: Vec<Concurrency>,
        counts: u64,
    }

    impl Running for Counted {
        type Counters = u64;

        fn ledger(&self) -> &Arc<Ledger> {
            &self.ledger
        }

        fn bounds(&self) -> PerStage<Bounds> {
            PerStage::all(Bounds::new(1, 7))
        }

        fn other_end(&self) -> (Option<Duration>, Option<u16>) {
            (Some(Duration::from_millis(70)), Some(8))
        }

        fn resize(&mut self, setpoint: Concurrency) {
            self.resized.push(setpoint);
        }

        fn pass(&mut self, until: Instant) -> Result<Option<()>> {
            thread::sleep(until.saturating_duration_since(Instant::now()));
            Ok((self.counts < 5).then_some(()))
        }

        fn counters(&mut self) -> Result<Option<u64>> {
            self.counts += 1;
            Ok(Some(self.counts))
        }

        fn glimpse(&self) -> Glimpse {
            let moved = self.began.elapsed().as_micros() as u64;
            PerStage {
                network: Some(StageGlimpse { moved, ..StageGlimpse::default() }),
                ..PerStage::default()
            }
        }

        fn moved(&self, counters: &u64) -> u64 {
            *counters
        }

        fn warm_up(&self) -> Duration {
            Duration::from_millis(500)
        }

        fn observe(&self, concurrency: Concurrency, before: &u64, after: &u64) -> Observation {
            assert_eq!(after - before, 1, "an epoch begins where the last one ended, or after a change");
            Observation { concurrency, ..Observation::default() }
        }
    }

    #[test]
    fn what_was_stopped_before_it_began_is_given_no_workers() {
        let _clock = manual::stop();
        let counted =
            Counted { began: Instant::now(), ledger: Arc::default(), resized: Vec::new(), counts: 5 };
        let mut paced = Paced::new(counted, Pace::new(Duration::from_millis(100)));
        assert!(paced.step(PerStage::all(2)).expect("no error").is_none());
        assert_eq!(paced.resized, []);
    }

    #[test]
    fn no_stream_is_added_that_would_come_too_late() {
        let counted =
            Counted { began: Instant::now(), ledger: Arc::default(), resized: Vec::new(), counts: 0 };
        let mut paced = Paced::new(counted, Pace::new(Duration::from_millis(100)));
        let most = |paced: &Paced<Counted>| paced.bounds().network.max;
        let ledger = Arc::clone(paced.ledger());
        ledger.listed(1000);
        (paced.setpoint, paced.rate) = (Some(PerStage::all(3)), BitRate::from_mbps(8e-3));
        assert_eq!(most(&paced), 7, "who knows how much there is");
        ledger.all_listed();
        assert_eq!(most(&paced), 7, "a second, and a stream needs half of one");
        ledger.bytes_moved.fetch_add(600, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(most(&paced), 3);
        assert_eq!(paced.bounds().read.max, 7, "a reader is up to speed at once");
    }

    /// Reads from the first moment on and sends nothing, as streams wait or do not.
    struct Reading {
        began: Instant,
        ledger: Arc<Ledger>,
        starved: bool,
    }

    impl Running for Reading {
        type Counters = Instant;

        fn ledger(&self) -> &Arc<Ledger> {
            &self.ledger
        }

        fn bounds(&self) -> PerStage<Bounds> {
            PerStage::all(Bounds::new(1, 7))
        }

        fn resize(&mut self, _setpoint: Concurrency) {}

        fn pass(&mut self, until: Instant) -> Result<Option<()>> {
            thread::sleep(until.saturating_duration_since(Instant::now()));
            Ok(Some(()))
        }

        fn counters(&mut self) -> Result<Option<Instant>> {
            Ok(Some(Instant::now()))
        }

        fn glimpse(&self) -> Glimpse {
            let passed = self.began.elapsed();
            let read = StageGlimpse { moved: passed.as_micros() as u64, waited: Duration::ZERO };
            let waited = if self.starved { 2 * passed } else { Duration::ZERO };
            let network = StageGlimpse { moved: 0, waited };
            PerStage { read: Some(read), network: Some(network), write: None }
        }

        fn moved(&self, _counters: &Instant) -> u64 {
            0
        }

        fn observe(&self, concurrency: Concurrency, before: &Instant, _after: &Instant) -> Observation {
            let at = before.saturating_duration_since(self.began);
            Observation { at, concurrency, ..Observation::default() }
        }
    }

    #[test]
    fn slow_readers_are_measured_before_they_have_a_block() {
        let _clock = manual::stop();
        let begins = |starved| {
            let reading = Reading { began: Instant::now(), ledger: Arc::default(), starved };
            let mut paced = Paced::new(reading, Pace::new(Duration::from_secs(1)));
            paced.heed(&Proposal { short_epochs: true, ..Proposal::default() }, paced.bounds());
            paced.step(PerStage::all(2)).expect("no error").expect("an epoch").at
        };
        let slow = begins(true);
        assert!((READ..READ + Duration::from_millis(200)).contains(&slow), "{slow:?}");
        let connecting = begins(false);
        assert!(connecting >= Duration::from_secs(1), "streams that have a block connect: {connecting:?}");
    }

    #[test]
    fn whatever_runs_is_driven_alike() {
        let _clock = manual::stop();
        let counted =
            Counted { began: Instant::now(), ledger: Arc::default(), resized: Vec::new(), counts: 0 };
        let mut paced = Paced::new(counted, Pace::new(Duration::from_millis(100)));
        let host = paced.host();
        assert_eq!((host.round_trip, host.streams), (Some(Duration::from_millis(70)), Some(8)));
        assert!(host.processors.is_some_and(|processors| processors > 0), "the host that decides is ours");
        assert_eq!(paced.bounds(), PerStage::all(Bounds::new(1, 7)));
        let mut seen = Vec::new();
        for n in [2, 2, 4, 4] {
            seen.extend(paced.step(PerStage::all(n)).expect("no error"));
        }
        // Two counts for a change, and one more for each epoch without: the fifth count is the end.
        assert_eq!(paced.resized, [PerStage::all(2), PerStage::all(4)]);
        let ran: Vec<u16> = seen.iter().map(|seen| seen.concurrency.network).collect();
        assert_eq!((ran, paced.counts), (vec![2, 2, 4], 5));
    }
}
