//! What is to be read, cut into portions; and the sessions that read them, each some portions ahead of their answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::error::{Error, ErrorKind, Result};
use crate::ledger::Ledger;
use crate::sys::clock::Instant;
use crate::sys::sync::{Condvar, Mutex, MutexGuard};
use crate::transfer::Interrupt;
use crate::transfer::file_client::{FileClient, FileSession, WantedRange, unasked};
use crate::wire::files::{Content, FileRange, FileReply, FileRequest, MAX_CONTENT, MAX_RANGES};

/// So much of one file is asked for by one request, in one range or in many.
const PORTION: usize = MAX_CONTENT / 2;

/// Portions that are asked of one session ahead of their answers: at most 8 MiB, what 1 Gbit/s has under way at 60 ms; and
/// at least so many that an answer is always under way.
const AHEAD: (usize, usize) = (2, 16);

/// One session for so many portions, as far as there may be more.
const PORTIONS_A_SESSION: usize = 4;

/// What one request asks for: ranges of one file, each with whose piece it is.
#[derive(Debug, Default)]
struct Portion {
    /// The one that says which file.
    first: usize,
    ranges: Vec<FileRange>,
    pieces: Vec<(usize, usize)>,
}

/// What is left to be asked for, and by how many.
#[derive(Debug)]
struct Work {
    /// Portions that nobody has asked for.
    waiting: VecDeque<usize>,
    /// Sessions that may take some.
    allowed: u16,
    /// Those that do.
    taking: u16,
    /// Those that have not ended: they take some, or wait for answers.
    under_way: u16,
    /// Most that there may be, as far as the endpoint lets in and networks hold.
    most: u16,
    /// Why it cannot go on, whoever asks.
    failure: Option<Error>,
}

/// A read that several sessions share.
pub(super) struct Reading<'a> {
    client: &'a FileClient,
    wanted: &'a [WantedRange],
    interrupt: &'a Interrupt,
    portions: Vec<Portion>,
    work: Mutex<Work>,
    ended: Condvar,
    /// What is wanted counts as one file.
    ledger: Arc<Ledger>,
    /// The pieces of each that is wanted, or why it cannot be had.
    got: Mutex<Vec<Result<Vec<Vec<u8>>>>>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(client: &'a FileClient, wanted: &'a [WantedRange], interrupt: &'a Interrupt) -> Self {
        let (portions, pieces) = portions(wanted);
        let sessions = u16::try_from(portions.len().div_ceil(PORTIONS_A_SESSION)).unwrap_or(u16::MAX);
        let work = Work {
            waiting: (0..portions.len()).collect(),
            allowed: 0,
            taking: 0,
            under_way: 0,
            most: sessions.clamp(1, client.most),
            failure: None,
        };
        let ledger = Arc::<Ledger>::default();
        ledger.listed(portions.iter().flat_map(|one| &one.ranges).map(|range| u64::from(range.length)).sum());
        ledger.all_listed();
        Self {
            client,
            wanted,
            interrupt,
            portions,
            work: Mutex::new(work),
            ended: Condvar::new(),
            ledger,
            got: Mutex::new(pieces.iter().map(|&count| Ok(vec![Vec::new(); count])).collect()),
        }
    }

    fn work_left(&self) -> MutexGuard<'_, Work> {
        self.work.lock()
    }

    /// Most sessions that may read at once.
    pub(super) fn most_sessions(&self) -> u16 {
        self.work_left().most
    }

    /// What was asked for and has arrived.
    pub(super) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Who asked for it.
    pub(super) fn client(&self) -> &'a FileClient {
        self.client
    }

    /// Lets so many sessions read; answers with how many are to begin now, each by [`serve`](Self::serve).
    pub(super) fn allow(&self, sessions: u16) -> u16 {
        let mut work = self.work_left();
        work.allowed = sessions;
        if work.waiting.is_empty() || work.failure.is_some() {
            return 0;
        }
        let more = sessions.saturating_sub(work.taking);
        work.taking += more;
        work.under_way += more;
        more
    }

    /// Waits until `until`; `None` as soon as no session is under way any more.
    pub(super) fn pass(&self, until: Instant) -> Result<Option<()>> {
        let time = until.saturating_duration_since(Instant::now());
        let work = self.work_left();
        let (work, _) = self.ended.wait_timeout_while(work, time, |work| work.under_way > 0);
        match &work.failure {
            Some(error) => Err(error.clone()),
            // Before the first is allowed, all is still to come.
            None if work.under_way > 0 || work.allowed == 0 => Ok(Some(())),
            None => Ok(None),
        }
    }

    /// One of several sessions: reads until nothing waits, or until there are too many of them.
    pub(super) fn serve(&self) {
        let mut taking = true;
        let at_once = || self.client.take_at_once();
        let ended = self.read_on(at_once, |asked| {
            let mut work = self.work_left();
            if taking && (work.taking > work.allowed || work.waiting.is_empty() || work.failure.is_some()) {
                taking = false;
                work.taking -= 1;
            }
            let fair = work.waiting.len() / usize::from(work.taking.max(1));
            (taking && asked < fair.clamp(AHEAD.0, AHEAD.1)).then(|| work.waiting.pop_front()).flatten()
        });
        let mut work = self.work_left();
        work.taking -= u16::from(taking);
        work.under_way -= 1;
        match ended {
            Ok(()) => {}
            // The others go on with what it left.
            Err(error) if is_refusal_of_more(&error) => work.most = work.under_way.max(1),
            Err(error) => work.failure = Some(error),
        }
        if work.under_way == 0 {
            self.ended.notify_all();
        }
    }

    /// The only session: reads until nothing waits.
    pub(super) fn work(&self) -> Result<()> {
        if self.work_left().waiting.is_empty() {
            return Ok(());
        }
        let patiently = || self.client.take(self.interrupt);
        self.read_on(patiently, |asked| {
            (asked < AHEAD.1).then(|| self.work_left().waiting.pop_front()).flatten()
        })
    }

    /// Asks for what `next` gives to whoever waits for so many, over a session that `take` gives, and over another if one
    /// that worked is lost. What is not answered when that fails waits again.
    fn read_on(
        &self,
        take: impl Fn() -> Result<(bool, FileSession)>,
        mut next: impl FnMut(usize) -> Option<usize>,
    ) -> Result<()> {
        loop {
            let mut asked = VecDeque::new();
            let taken = take();
            let mut worked = taken.as_ref().is_ok_and(|(was_used, _)| *was_used);
            let read = taken.and_then(|(_, mut session)| {
                self.read_over(&mut session, &mut asked, &mut next, &mut worked)?;
                self.client.give_back(session);
                Ok(())
            });
            let Err(error) = read else { return Ok(()) };
            let mut work = self.work_left();
            asked.into_iter().rev().for_each(|portion| work.waiting.push_front(portion));
            if error.kind != ErrorKind::Connection || !worked {
                return Err(error);
            }
        }
    }

    fn read_over(
        &self,
        session: &mut FileSession,
        asked: &mut VecDeque<usize>,
        next: &mut impl FnMut(usize) -> Option<usize>,
        worked: &mut bool,
    ) -> Result<()> {
        let mut numbers = VecDeque::new();
        loop {
            while let Some(portion) = next(asked.len()) {
                asked.push_back(portion);
                numbers.push_back(self.ask(session, portion));
            }
            let (Some(&portion), Some(number)) = (asked.front(), numbers.pop_front()) else { return Ok(()) };
            self.take_in(session, number, &self.portions[portion])?;
            asked.pop_front();
            *worked = true;
        }
    }

    fn ask(&self, session: &mut FileSession, portion: usize) -> u32 {
        let Portion { first, ranges, .. } = &self.portions[portion];
        let WantedRange { path, version, .. } = &self.wanted[*first];
        session.ask(FileRequest::Read { path: path.clone(), version: *version, ranges: ranges.clone() })
    }

    fn take_in(&self, session: &FileSession, number: u32, portion: &Portion) -> Result<()> {
        for (at, range) in portion.ranges.iter().enumerate() {
            match session.reply(number, self.interrupt)? {
                FileReply::Data(Content(content)) if content.len() <= range.length as usize => {
                    self.ledger.bytes_moved.fetch_add(content.len() as u64, Relaxed);
                    let (index, piece) = portion.pieces[at];
                    if let Ok(pieces) = &mut self.got.lock()[index] {
                        pieces[piece] = content;
                    }
                }
                // Of those that are told already too: a file that fails is not read in part.
                FileReply::Failed(error) => {
                    let mut got = self.got.lock();
                    for &(index, _) in &portion.pieces[at..] {
                        got[index] = Err(error.clone());
                    }
                    return Ok(());
                }
                _ => return Err(unasked()),
            }
        }
        Ok(())
    }

    /// What was read, each in its pieces.
    pub(super) fn into_content(self) -> Vec<Result<Vec<Vec<u8>>>> {
        let got = self.got.into_inner();
        got.into_iter().map(|got| got.and_then(whole)).collect()
    }
}

/// Whether a further session was not to be had, or did nothing before it was lost.
fn is_refusal_of_more(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Connection | ErrorKind::Busy)
}

/// Pieces of one range, all but the last of which are as long as can be. A file that ends within it ends it.
fn whole(pieces: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    let ends = pieces.iter().position(|piece| piece.len() < PORTION).unwrap_or(pieces.len());
    match pieces.iter().skip(ends + 1).all(Vec::is_empty) {
        true => Ok(pieces),
        false => Err(Error::new(ErrorKind::Changed, "the file grew while it was read: read it again")),
    }
}

/// Cuts what is wanted into portions; tells into how many pieces each was cut.
fn portions(wanted: &[WantedRange]) -> (Vec<Portion>, Vec<usize>) {
    let mut portions: Vec<Portion> = Vec::new();
    let (mut pieces, mut filled) = (Vec::new(), usize::MAX);
    for (index, one) in wanted.iter().enumerate() {
        let (mut offset, mut count) = (one.range.start, 0);
        while offset < one.range.end {
            let length = (one.range.end - offset).min(PORTION as u64) as usize;
            let same = portions.last().is_some_and(|portion| {
                let first = &wanted[portion.first];
                (&first.path, first.version) == (&one.path, one.version)
            });
            let full = portions.last().is_some_and(|portion| portion.ranges.len() == MAX_RANGES);
            if !same || full || filled.saturating_add(length) > PORTION {
                portions.push(Portion { first: index, ..Portion::default() });
                filled = 0;
            }
            let portion = portions.last_mut().expect("there is one");
            portion.ranges.push(FileRange { offset, length: length as u32 });
            portion.pieces.push((index, count));
            filled += length;
            offset += length as u64;
            count += 1;
        }
        pieces.push(count);
    }
    (portions, pieces)
}
