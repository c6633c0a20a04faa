//! What a copy would move, as shards: the plan of a dry run, sent to the service as it is told.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_contract::job_id::JobId;
use tidegate_contract::plan_line::{Action, EntryKind};
use tidegate_control::PerStage;
use tidegate_transfer::error::{Result, Retry};
use tidegate_transfer::plan::{PlanListener, Planned};
use tidegate_transfer::selection::Selection;
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::terms::{Purpose, Terms};
use tidegate_transfer::transfer::Interrupt;

use crate::client::{PATIENCE, Service};
use crate::pools;
use crate::shards::{Packer, ShardContent, Standing};
use crate::shared_copy::{SharedCopy, kind_name, placed_beneath};
use crate::words::{ListedShards, ShardWords, SpreadRequest, encoded};

/// How many shards are sent at once, and how long one may wait for others: movers begin with the first.
const BATCH: usize = 64;
const WAIT: Duration = Duration::from_secs(1);

/// The rest between two questions to a service that does not answer.
const REST: Duration = Duration::from_millis(500);

/// Lists into a job.
pub struct ShardListing<'a> {
    /// The service.
    pub service: &'a Service,
    /// The job.
    pub id: JobId,
    /// Stops it.
    pub interrupt: &'a Interrupt,
    /// How many files the service has taken so far.
    pub listed: Cell<u64>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct ListedSources {
    /// Sources that are directories.
    pub trees: BTreeSet<usize>,
}

/// One source, as its plan is told.
struct Packing {
    packer: Packer,
    prefix: Vec<u8>,
    /// Whether there was a directory, or a name within one.
    is_tree: bool,
    full: Vec<ShardContent>,
    sent: Instant,
}

impl ShardListing<'_> {
    /// Sends everything that is to be moved, source by source.
    pub fn list(
        &self,
        request: &SpreadRequest,
        options: &SharedCopy,
        selection: &Selection,
    ) -> Result<ListedSources> {
        let mut found = ListedSources::default();
        for (number, source) in request.sources.iter().enumerate() {
            if self.source(number, (source, request), options, selection)? {
                found.trees.insert(number);
            }
        }
        self.send(&[], &[], true)?;
        Ok(found)
    }

    /// Sends some, once: a service that was started again tells by what it counts whether it had taken them.
    fn send(&self, shards: &[ShardContent], failed: &[(String, String, String)], all: bool) -> Result<()> {
        let files = shards.iter().map(|content| content.files).sum::<u64>() + failed.len() as u64;
        let listed = self.listed.get() + files;
        let shards = shards.iter().map(|content| ShardWords::of(0, content)).collect();
        let (path, body) =
            (format!("/spreads/{}/shards", self.id), ListedShards { shards, failed: failed.to_vec(), all });
        let is_taken = |standing: &Standing| match all {
            true => standing.state != "listing",
            false => standing.files >= listed,
        };
        let began = Instant::now();
        while let Err(error) = self.service.post::<Standing>(&path, &body) {
            if error.kind.retry() != Retry::Outage || began.elapsed() > PATIENCE || self.interrupt.is_raised()
            {
                return Err(error);
            }
            thread::sleep(REST);
            if is_taken(&self.standing()?) {
                break;
            }
        }
        self.listed.set(listed);
        Ok(())
    }

    /// How the run stands, as soon as the service answers.
    fn standing(&self) -> Result<Standing> {
        let asked = Instant::now();
        loop {
            match self.service.get(&format!("/spreads/{}", self.id)) {
                Err(error)
                    if error.kind.retry() == Retry::Outage
                        && asked.elapsed() < PATIENCE
                        && !self.interrupt.is_raised() =>
                {
                    thread::sleep(REST);
                }
                answered => return answered,
            }
        }
    }

    /// Lists one source; whether it is a directory.
    fn source(
        &self,
        number: usize,
        (source, request): (&str, &SpreadRequest),
        options: &SharedCopy,
        selection: &Selection,
    ) -> Result<bool> {
        let packing = Arc::new(Mutex::new(Packing {
            packer: Packer::new(u32::try_from(number).unwrap_or(u32::MAX)),
            prefix: placed_beneath(source).as_bytes().to_vec(),
            is_tree: source.ends_with('/'),
            full: Vec::new(),
            sent: Instant::now(),
        }));
        let (_ends, _work, mut transfer) = pools::by_way_of_any(request, |endpoint| {
            let source = request.by_way_of(source, endpoint)?;
            let destination = request.by_way_of(&request.destination, endpoint)?;
            let terms = Terms { purpose: Purpose::Plan, ..options.terms() };
            let hearing = Arc::clone(&packing);
            let listener = PlanListener::new(move |planned| {
                let mut packing = hearing.lock();
                planned.iter().for_each(|planned| packing.hear(planned));
            });
            let (ends, mut work) =
                options.work((&source, &destination), terms, self.interrupt.clone(), |setup| {
                    setup.selection = selection.clone();
                    setup.plan = Some(listener);
                })?;
            let transfer = (work.begin)()?.transfer;
            Ok((ends, work, transfer))
        })?;
        let told = |all: bool| {
            let mut packing = packing.lock();
            if all {
                let last = packing.packer.finish();
                packing.full.extend(last);
            }
            let due = all || packing.full.len() >= BATCH || packing.sent.elapsed() >= WAIT;
            if due && !packing.full.is_empty() {
                packing.sent = Instant::now();
                let shards = std::mem::take(&mut packing.full);
                drop(packing);
                return self.send(&shards, &[], false);
            }
            Ok(())
        };
        // Nothing is read or sent, so nobody is needed for it.
        while transfer.step(PerStage::all(0))?.is_some() {
            told(false)?;
        }
        let failures = transfer.ledger().failures();
        drop(transfer);
        told(true)?;
        let packing = packing.lock();
        let failed = failures.iter().map(|failure| {
            let name = packing.beneath(&failure.path).unwrap_or(&failure.path);
            (encoded(name), kind_name(failure.error.kind), failure.error.message.clone())
        });
        let failed: Vec<_> = failed.collect();
        if !failed.is_empty() {
            self.send(&[], &failed, false)?;
        }
        Ok(packing.is_tree)
    }
}

impl Packing {
    /// What a path at the destination is called in the source, if it is a name in it.
    fn beneath<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        match self.prefix.is_empty() {
            true => Some(path),
            false => path.strip_prefix(&self.prefix[..]).and_then(|rest| rest.strip_prefix(b"/")),
        }
    }

    fn hear(&mut self, planned: &Planned) {
        let path = planned.path.as_bytes();
        let beneath = self.beneath(path);
        if planned.kind == EntryKind::Directory || beneath.is_some() {
            self.is_tree = true;
        }
        if planned.kind == EntryKind::Directory || planned.change.action == Action::Same {
            return;
        }
        // A source that is one file has no names in it, and may get another at the destination.
        let name = if self.is_tree { beneath.unwrap_or(path) } else { b"" };
        let bytes = if planned.change.sent { planned.size } else { 0 };
        let full = match name {
            b"" => self.packer.finish().into_iter().chain([self.packer.alone(bytes)]).collect(),
            name => self.packer.add(name, bytes).into_iter().collect::<Vec<_>>(),
        };
        self.full.extend(full);
    }
}
