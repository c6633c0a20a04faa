//! Samples from earlier transfers, so that a path of which there are only logs has an estimate at once.
//!
//! A log's transfer at `n` streams is a measurement of `n` streams if it lasted, ended well and had the path to
//! itself as far as the log knows. The rule:
//!
//! 1. It is complete and lasted [`LONG_ENOUGH`]: in a shorter one the start of the streams weighs too much (the
//!    EOS paper samples for a second).
//! 2. Other transfers of the pair ran during at most [`MAX_SHARED`] of its time: with `-cc 4` each of four files
//!    gets a share, which is no property of its own number of streams.
//! 3. It is at most [`WINDOW`] older than the pair's newest: an older path is another one.
//! 4. Of each number of streams the newest [`NEWEST`] count, by their median: one slow disk does not move it.
//! 5. The pair has [`MIN_POINTS`] different numbers of streams: a model has three unknowns.
//!
//! A sample is as old as the newest transfer behind it, so old logs give old samples, which age like any other.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_contract::summary::Status;
use tidegate_control::ByteCount;

use tidegate_database::Result;
use tidegate_spec::pair::Pair;

use super::History;
use super::record::{Circumstances, Conditions, Method, Origin, Record, Sample, Timestamp, Transfer};
use super::store::{Query, median};

/// What a measurement lasts at least; a second, and a sampler's inexactness.
pub(crate) const LONG_ENOUGH: Duration = Duration::from_millis(900);

/// The share of its time that others may have run in.
pub(crate) const MAX_SHARED: f64 = 0.1;

/// What counts as the same time as the newest.
pub(crate) const WINDOW: Duration = Duration::from_secs(90 * 24 * 3600);

/// Transfers of one number of streams that count.
pub(crate) const NEWEST: usize = 31;

/// Different numbers of streams that a model needs.
pub(crate) const MIN_POINTS: usize = 3;

/// Transfers of a pair that are looked at, the newest.
const MAX_TRANSFERS: usize = 10_000;

/// The samples that the transfers of a pair amount to, in the order of streams; none if the rule is not met.
pub(crate) fn samples_of(transfers: &[Transfer]) -> Vec<Sample> {
    let Some(newest) = transfers.iter().map(|transfer| transfer.at).max() else { return Vec::new() };
    let shared = shared(transfers);
    let mut by_streams: BTreeMap<u32, Vec<&Transfer>> = BTreeMap::new();
    for (transfer, shared) in transfers.iter().zip(shared) {
        let counts = transfer.outcome == Status::Complete
            && transfer.duration >= LONG_ENOUGH
            && transfer.at >= newest.before(WINDOW)
            && shared as f64 <= MAX_SHARED * transfer.duration.as_millis() as f64;
        let streams =
            transfer.concurrency.network.filter(|n| n.fract() == 0.0 && (1.0..65_537.0).contains(n));
        if let Some(streams) = streams.filter(|_| counts) {
            by_streams.entry(streams as u32).or_default().push(transfer);
        }
    }
    if by_streams.len() < MIN_POINTS {
        return Vec::new();
    }
    by_streams.into_iter().map(|(streams, transfers)| sample(streams, transfers)).collect()
}

fn sample(streams: u32, mut transfers: Vec<&Transfer>) -> Sample {
    transfers.sort_by_key(|transfer| std::cmp::Reverse(transfer.at));
    transfers.truncate(NEWEST);
    Sample {
        pair: transfers[0].pair.clone(),
        method: Method::Transfers,
        streams,
        throughput: median(transfers.iter().map(|transfer| transfer.goodput).collect()),
        bytes: ByteCount(transfers.iter().fold(0, |sum, transfer| transfer.bytes.0.saturating_add(sum))),
        duration: transfers
            .iter()
            .fold(Duration::ZERO, |sum, transfer| sum.saturating_add(transfer.duration)),
        circumstances: Circumstances::default(),
        at: transfers[0].at,
    }
}

/// For each transfer the milliseconds of its time in which another one ran.
fn shared(transfers: &[Transfer]) -> Vec<i64> {
    let times = |transfer: &Transfer| (transfer.at.before(transfer.duration).0, transfer.at.0);
    let mut changes: Vec<(i64, i64)> = Vec::with_capacity(transfers.len() * 2);
    for (start, end) in transfers.iter().map(times) {
        // At the same moment an end (-1) comes before a start.
        changes.extend([(start, 1), (end, -1)]);
    }
    changes.sort_unstable();
    // The time until each change during which two or more ran; what a transfer shared is a difference of two.
    let (mut running, mut together, mut last) = (0i64, 0i64, 0i64);
    let mut until: Vec<(i64, i64)> = Vec::with_capacity(changes.len());
    for (moment, change) in changes {
        if running >= 2 {
            together += moment - last;
        }
        running += change;
        last = moment;
        until.push((moment, together));
    }
    let at = |moment: i64| {
        let place = until.partition_point(|(change, _)| *change <= moment);
        place.checked_sub(1).map_or(0, |place| until[place].1)
    };
    transfers.iter().map(times).map(|(start, end)| at(end) - at(start)).collect()
}

impl Transfer {
    /// The sample that a GridFTP transfer of ours amounts to, which keeps to one number of streams; none if it was too
    /// short, did not end well, or nobody noted whether others of ours ran. One beside others is kept as what it is, a
    /// share.
    pub(crate) fn as_sample(&self) -> Option<Sample> {
        let rule = self.optimizer.as_deref()?.strip_prefix("fixed:")?;
        let streams: u16 = rule.parse().ok().filter(|streams| *streams > 0)?;
        let beside = self.circumstances.beside?;
        let is_gridftp = [&self.pair.source, &self.pair.destination]
            .iter()
            .any(|site| site.as_str().starts_with("gsiftp:"))
            || self.pair.destination.as_str().starts_with("ftp:");
        let counts = is_gridftp
            && self.origin == Origin::Own
            && self.outcome == Status::Complete
            && self.duration >= LONG_ENOUGH
            && self.bytes.0 > 0;
        // Most streams are a property of the transfer; a sample has its streams and no others.
        let conditions = self.circumstances.conditions.clone();
        let conditions = conditions.map(|all| Conditions { most_streams: None, ..all });
        counts.then(|| Sample {
            pair: self.pair.clone(),
            method: Method::Transfers,
            streams: streams.into(),
            throughput: self.goodput,
            bytes: self.bytes,
            duration: self.duration,
            circumstances: Circumstances { conditions, beside: Some(beside) },
            at: self.at,
        })
    }
}

impl History {
    /// Makes samples of what logs say of `pair`; says how many were new. Doing so again changes nothing.
    pub async fn warm_start(&self, pair: &Pair) -> Result<u64> {
        let (mut transfers, mut query) = (Vec::<Transfer>::new(), Query::of(pair));
        loop {
            let page = self.page::<Transfer>(&query).await?;
            transfers
                .extend(page.records.into_iter().filter(|transfer| transfer.origin == Origin::GridftpLog));
            query.after = page.next;
            let oldest = transfers.last().map_or(Timestamp::LAST, |transfer| transfer.at);
            let newest = transfers.first().map_or(Timestamp::LAST, |transfer| transfer.at);
            if query.after.is_none() || transfers.len() >= MAX_TRANSFERS || oldest < newest.before(WINDOW) {
                break;
            }
        }
        let samples: Vec<Record> = samples_of(&transfers).into_iter().map(Record::from).collect();
        self.record(&samples).await
    }
}

#[cfg(test)]
mod tests {
    use tidegate_control::{BitRate, PerStage};

    use super::super::record::Beside;
    use super::*;

    /// A transfer of `streams` streams from `start` for `length` seconds.
    fn transfer(streams: u32, mbps: u64, start: i64, length: u64) -> Transfer {
        let duration = Duration::from_secs(length);
        Transfer {
            pair: Pair::of("gsiftp://a", "gsiftp://b").expect("a pair"),
            origin: Origin::GridftpLog,
            job: None,
            bytes: ByteCount(mbps * 125_000 * length),
            files: 1,
            concurrency: PerStage::new(None, Some(streams.into()), None),
            optimizer: None,
            goodput: BitRate::mbps(mbps),
            duration,
            loss: None,
            rtt: None,
            retransmits: None,
            outcome: Status::Complete,
            reason: None,
            circumstances: Circumstances::default(),
            at: Timestamp((start + length as i64) * 1000),
        }
    }

    #[test]
    fn a_gridftp_transfer_of_our_own_is_a_sample_and_one_beside_others_a_share() {
        let conditions = Conditions { most_streams: Some(8), ..Conditions::default() };
        let own = |beside: Option<Beside>| Transfer {
            origin: Origin::Own,
            optimizer: Some("fixed:4".to_owned()),
            circumstances: Circumstances { conditions: Some(conditions.clone()), beside },
            ..transfer(4, 340, 1_000, 10)
        };
        let alone = own(Some(Beside::default()));
        let sample = alone.as_sample().expect("a sample");
        assert_eq!((sample.streams, sample.throughput), (4, BitRate::mbps(340)));
        assert_eq!(sample.circumstances.conditions, Some(Conditions::default()));
        let shared = own(Some(Beside { jobs: 2, throughput: BitRate::mbps(500) })).as_sample();
        assert!(
            shared.and_then(|sample| sample.circumstances.beside).is_some_and(|beside| beside.is_shared())
        );
        let adapted = Transfer { optimizer: Some("auto".to_owned()), ..alone.clone() };
        let failed = Transfer { outcome: Status::Failed, ..alone.clone() };
        let short = Transfer { duration: Duration::from_millis(100), ..alone.clone() };
        let ours = Transfer { pair: Pair::of("/a", "tg://b").expect("a pair"), ..alone };
        for other in [own(None), adapted, failed, short, ours] {
            assert_eq!(other.as_sample(), None, "{other:?}");
        }
    }

    fn seen(transfers: &[Transfer]) -> Vec<(u32, f64)> {
        samples_of(transfers).iter().map(|s| (s.streams, s.throughput.as_mbps())).collect()
    }

    #[test]
    fn transfers_one_after_the_other_are_samples() {
        let day = 24 * 3600;
        let mut log = vec![
            transfer(1, 100, 1_000, 10),
            transfer(2, 190, 1_010, 10),
            transfer(4, 340, 1_020, 10),
            transfer(4, 350, 1_030, 10),
            transfer(4, 5, 1_040, 10),
        ];
        assert_eq!(seen(&log), [(1, 100.0), (2, 190.0), (4, 340.0)]);
        // Too short, failed, and shared with others: none of them counts, but for the time it took.
        log.push(Transfer { duration: Duration::from_millis(100), ..transfer(8, 1, 2_000, 1) });
        log.push(Transfer { outcome: Status::Failed, ..transfer(8, 1, 2_010, 10) });
        log.extend([transfer(8, 1, 2_020, 10), transfer(8, 2, 2_025, 10)]);
        assert_eq!(seen(&log), [(1, 100.0), (2, 190.0), (4, 340.0)]);
        let samples = samples_of(&log);
        assert_eq!(samples[2].at, Timestamp(1_050_000));
        assert_eq!((samples[2].duration, samples[2].bytes.0), (Duration::from_secs(30), 695 * 1_250_000));
        // Long before the newest it was another path.
        log.push(transfer(1, 70, 1_000 + 91 * day, 10));
        assert_eq!(seen(&log), []);
    }

    #[test]
    fn two_numbers_of_streams_are_no_model() {
        assert_eq!(seen(&[]), []);
        assert_eq!(seen(&[transfer(1, 100, 0, 10), transfer(2, 190, 10, 10)]), []);
    }

    #[test]
    fn a_little_company_does_no_harm() {
        let long = transfer(1, 100, 0, 100);
        let company = |length| vec![long.clone(), transfer(2, 5, 99, length), transfer(4, 9, 200, 5)];
        assert_eq!(shared(&company(2)), [1_000, 1_000, 0]);
        assert_eq!(seen(&company(20)), [(1, 100.0), (2, 5.0), (4, 9.0)]);
        assert_eq!(seen(&company(5)), []);
    }
}
