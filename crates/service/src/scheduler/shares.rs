//! Who may run, and with how many streams: limits of jobs, and one budget of streams for each pair of sites, which
//! its jobs share evenly.

use std::collections::BTreeMap;

use tidegate_fetch::host::ceilings::Ceilings;
use tidegate_spec::pair::{Pair, Site};

use crate::job::JobId;
use crate::mover::StreamDemand;

/// How much may run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Jobs in all.
    pub jobs: usize,
    /// Jobs at each site; this host's files are no site.
    pub jobs_per_site: usize,
    /// Jobs between two sites.
    pub jobs_per_pair: usize,
    /// Network streams between two sites, shared by the jobs there; fewer where a public server bears fewer.
    pub streams_per_pair: u16,
}

impl Default for Limits {
    /// Four jobs between two sites keep it busy while one lists, begins or ends; 32 streams are the most that one
    /// transfer uses unless told otherwise.
    fn default() -> Self {
        Self { jobs: 16, jobs_per_site: 8, jobs_per_pair: 4, streams_per_pair: 32 }
    }
}

/// A job that runs.
#[derive(Clone, Debug)]
struct Running {
    pair: Pair,
    most: u16,
    /// What it keeps, if that cannot be changed while it runs.
    kept: Option<u16>,
}

/// The jobs that run.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    limits: Limits,
    /// What others' servers bear, which is no more for many jobs than for one.
    ceilings: Ceilings,
    jobs: BTreeMap<JobId, Running>,
}

impl Table {
    /// Nothing runs.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ceilings: Ceilings::default(), jobs: BTreeMap::new() }
    }

    /// How many jobs run between two sites.
    pub fn between(&self, pair: &Pair) -> usize {
        self.jobs.values().filter(|job| job.pair == *pair).count()
    }

    /// Whether another job may begin between these sites.
    pub(crate) fn admits(&self, pair: &Pair) -> bool {
        let Limits { jobs, jobs_per_site, jobs_per_pair, .. } = self.limits;
        let at = |site: &Site| {
            self.jobs.values().filter(|job| job.pair.source == *site || job.pair.destination == *site).count()
        };
        let site_admits = |site: &Site| site.as_str() == Site::LOCAL || at(site) < jobs_per_site.max(1);
        self.jobs.len() < jobs.max(1)
            && self.between(pair) < jobs_per_pair.max(1)
            && site_admits(&pair.source)
            && site_admits(&pair.destination)
            // Each has one stream at least.
            && self.floor(pair) < self.budget(pair)
    }

    /// How many jobs may run between two sites, by the narrowest of the limits: at least one.
    fn at_once(&self, pair: &Pair) -> usize {
        let Limits { jobs, jobs_per_site, jobs_per_pair, .. } = self.limits;
        let local = |site: &Site| site.as_str() == Site::LOCAL;
        let of_sites = if local(&pair.source) && local(&pair.destination) { jobs } else { jobs_per_site };
        jobs.min(jobs_per_pair).min(of_sites).max(1)
    }

    /// Takes in a job that is admitted. One that cannot change its streams gets the part of a job when all that may
    /// run do, so that it never keeps others from beginning.
    pub fn begin(&mut self, id: JobId, pair: Pair, demand: StreamDemand) {
        let left = self.budget(&pair).saturating_sub(self.floor(&pair));
        let part = self.budget(&pair) / u16::try_from(self.at_once(&pair)).unwrap_or(u16::MAX);
        let most = demand.most.max(1);
        let kept = (!demand.adapts).then(|| part.min(left).min(most).max(1));
        self.jobs.insert(id, Running { pair, most, kept });
    }

    /// Gives back what a job that cannot change its streams does not need.
    pub fn settle(&mut self, id: JobId, streams: u16) {
        if let Some(kept) = self.jobs.get_mut(&id).and_then(|job| job.kept.as_mut()) {
            *kept = (*kept).min(streams.max(1));
        }
    }

    /// A job has ended.
    pub fn end(&mut self, id: JobId) -> Option<Pair> {
        self.jobs.remove(&id).map(|job| job.pair)
    }

    /// The streams of each job between two sites; together no more than the budget.
    pub fn shares(&self, pair: &Pair) -> Vec<(JobId, u16)> {
        let jobs = || self.jobs.iter().filter(|(_, job)| job.pair == *pair);
        let kept: u16 = jobs().filter_map(|(_, job)| job.kept).sum();
        let mut left = self.budget(pair).saturating_sub(kept);
        // Whoever wants least is served first, so that what it leaves is shared by the others.
        let mut hungry: Vec<(u16, JobId)> =
            jobs().filter(|(_, job)| job.kept.is_none()).map(|(id, job)| (job.most, *id)).collect();
        hungry.sort_unstable();
        let mut shares: BTreeMap<JobId, u16> =
            jobs().filter_map(|(id, job)| Some((*id, job.kept?))).collect();
        let count = hungry.len();
        for (i, (most, id)) in hungry.into_iter().enumerate() {
            let others = u16::try_from(count - i).unwrap_or(u16::MAX);
            // The oldest of equals gets what cannot be divided.
            let share = left.div_ceil(others).min(most).max(1);
            left = left.saturating_sub(share);
            shares.insert(id, share);
        }
        shares.into_iter().collect()
    }

    /// The fewest streams that those who run between two sites take.
    fn floor(&self, pair: &Pair) -> u16 {
        self.jobs.values().filter(|job| job.pair == *pair).map(|job| job.kept.unwrap_or(1)).sum()
    }

    /// The streams between two sites.
    pub(crate) fn budget(&self, pair: &Pair) -> u16 {
        let most = self.limits.streams_per_pair.max(1);
        pair.source.public_server().map_or(most, |host| most.min(self.ceilings.of(host)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pair(i: usize) -> Pair {
        let (from, to) = [("/a", "tg://x/b"), ("tg://x/a", "tg://y/b"), ("tg://z/a", "tg://y/b")][i];
        Pair::of(from, to).expect("a pair")
    }

    fn id(n: u64) -> JobId {
        JobId::new(n + 1).expect("a number")
    }

    const ADAPTS: StreamDemand = StreamDemand { most: 512, adapts: true };

    #[test]
    fn a_budget_is_divided_evenly_and_again_when_one_ends() {
        let mut table = Table::new(Limits { streams_per_pair: 10, jobs_per_pair: 3, ..Limits::default() });
        let shares = |table: &Table| table.shares(&pair(0)).into_iter().map(|(_, n)| n).collect::<Vec<_>>();
        table.begin(id(0), pair(0), ADAPTS);
        assert_eq!(shares(&table), [10]);
        table.begin(id(1), pair(0), ADAPTS);
        table.begin(id(2), pair(0), ADAPTS);
        assert_eq!(shares(&table), [4, 3, 3]);
        assert!(!table.admits(&pair(0)) && table.admits(&pair(1)));
        table.end(id(0));
        assert_eq!(shares(&table), [5, 5]);
        // One that is not optimized has one stream, and the others have the rest.
        table.begin(id(3), pair(0), StreamDemand { most: 1, adapts: true });
        assert_eq!(shares(&table), [5, 4, 1]);
        table.end(id(1));
        // One that cannot adapt keeps its part, less what it does not need.
        table.begin(id(4), pair(0), StreamDemand { most: 512, adapts: false });
        assert_eq!(shares(&table), [6, 1, 3]);
        table.settle(id(4), 2);
        assert_eq!(shares(&table), [7, 1, 2]);
    }

    #[test]
    fn a_job_that_keeps_its_streams_has_those_of_all_that_may_run_beside_it() {
        let keeps = StreamDemand { most: 512, adapts: false };
        let eight = Limits { streams_per_pair: 8, ..Limits::default() };
        for (limits, wanted) in [
            (eight, 2),
            (Limits { jobs_per_pair: 2, ..eight }, 4),
            (Limits { jobs: 1, ..eight }, 8),
            (Limits { jobs_per_site: 1, ..eight }, 8),
            (Limits { jobs: 0, ..eight }, 8),
        ] {
            let mut table = Table::new(limits);
            table.begin(id(0), pair(0), keeps);
            assert_eq!(table.shares(&pair(0)), [(id(0), wanted)], "{limits:?}");
        }
    }

    #[test]
    fn many_jobs_ask_no_more_of_a_public_server_than_one() {
        let table = Table::new(Limits::default());
        let budget = |source: &str| table.budget(&Pair::of(source, "/b").expect("a pair"));
        for (source, wanted) in [
            ("SRR390728", 8),
            ("archive://ena", 8),
            ("archive://aws", 32),
            ("archive://ncbi", 32),
            ("https://ftp.sra.ebi.ac.uk/vol1/x", 8),
            ("ftp://ftp.sra.ebi.ac.uk:21/vol1/x", 8),
            ("https://data.example.org/x", 32),
            ("tg://T@ftp.ebi.ac.uk/x", 32),
            ("/a", 32),
        ] {
            assert_eq!(budget(source), wanted, "{source}");
        }
        let pair = Pair::of("SRR390728", "/b").expect("a pair");
        let mut table = Table::new(Limits { jobs_per_pair: 9, jobs_per_site: 9, ..Limits::default() });
        for n in 0..8 {
            assert!(table.admits(&pair));
            table.begin(id(n), pair.clone(), ADAPTS);
        }
        assert!(!table.admits(&pair) && table.shares(&pair).iter().all(|(_, share)| *share == 1));
    }

    proptest! {
        #[test]
        fn limits_and_budget_hold_and_nobody_starves(
            limits in (1..9_usize, 1..6_usize, 1..6_usize, 1..40_u16),
            steps in prop::collection::vec((0..3_usize, 1..40_u16, any::<bool>(), any::<bool>(), any::<prop::sample::Index>()), 0..60),
        ) {
            let limits = Limits { jobs: limits.0, jobs_per_site: limits.1, jobs_per_pair: limits.2, streams_per_pair: limits.3 };
            let mut table = Table::new(limits);
            let mut running: Vec<JobId> = Vec::new();
            for (n, (which, most, adapts, ends, index)) in steps.into_iter().enumerate() {
                if ends && !running.is_empty() {
                    let gone = running.swap_remove(index.index(running.len()));
                    prop_assert!(table.end(gone).is_some());
                } else if table.admits(&pair(which)) {
                    table.begin(id(n as u64), pair(which), StreamDemand { most, adapts });
                    running.push(id(n as u64));
                    if most % 3 == 0 {
                        table.settle(id(n as u64), most / 3);
                    }
                }
                prop_assert!(table.jobs.len() <= limits.jobs);
                for i in 0..3 {
                    let shares = table.shares(&pair(i));
                    prop_assert!(shares.len() <= limits.jobs_per_pair);
                    prop_assert!(shares.iter().all(|(_, share)| *share >= 1));
                    prop_assert!(shares.iter().map(|(_, share)| u32::from(*share)).sum::<u32>() <= u32::from(limits.streams_per_pair));
                }
                // Sites x and y are at one end of two pairs each.
                for (one, other) in [(0, 1), (1, 2)] {
                    prop_assert!(table.between(&pair(one)) + table.between(&pair(other)) <= limits.jobs_per_site);
                }
            }
            for gone in running {
                table.end(gone);
            }
            // Where nothing runs, anybody may.
            prop_assert!(table.admits(&pair(0)) && table.jobs.is_empty());
        }
    }
}
