//! The logic alone, told by hand what is said and what happens.

use super::*;
use crate::counters::NotKept;
use crate::manifest::{Entry, SEGMENT, Timestamp};
use crate::offer::{Again, TOLD_DIRECTORIES, Verdict};
use crate::path::RelPath;
use crate::plan::PlannedChange;
use SenderAction::{Count as Counts, End, Hash, List, ReadNames, Remove, Resend, Say, Send, Tell};

const OURS: Digest = [1; 32];
const THEIRS: Digest = [2; 32];

fn listed(name: &str, kind: Kind) -> Listed {
    let path = RelPath::new(name).expect("a name");
    Listed { entry: Entry::new(path, kind, 0o644, Timestamp::default()), root: 0 }
}

fn file(name: &str, size: u64) -> Listed {
    listed(name, Kind::File { size, fingerprint: [0; 16] })
}

fn directories(count: usize) -> SenderEvent {
    SenderEvent::Listed((0..count).map(|n| listed(&format!("d{n}"), Kind::Directory)).collect())
}

fn verdicts(first: FileId, verdicts: Vec<Verdict>) -> Message {
    Message::Verdicts { first, verdicts }
}

fn want() -> Verdict {
    Verdict::Want { have: Vec::new() }
}

fn committed(id: FileId) -> Message {
    Message::Done(vec![(id, Outcome::Committed)])
}

fn finished() -> Message {
    Message::Finished(NotKept::default())
}

fn error() -> Error {
    Error::new(ErrorKind::Io, "broken")
}

/// What is to be done, but for the files that it is about.
fn read(actions: Vec<SenderAction>) -> Vec<SenderAction> {
    actions.into_iter().filter(|action| !matches!(action, SenderAction::Open(..))).collect()
}

/// A logic, and what it answers.
struct Run(SenderLogic);

impl Run {
    fn new(terms: SenderTerms) -> Self {
        Self(SenderLogic::new(terms))
    }

    fn copying() -> Self {
        Self::new(SenderTerms::default())
    }

    fn moving() -> Self {
        Self::new(SenderTerms { moves: true, ..SenderTerms::default() })
    }

    fn planning() -> Self {
        Self::new(SenderTerms { purpose: Purpose::Plan, ..SenderTerms::default() })
    }

    /// One that has listed these, and nothing else is there.
    fn offering(mut self, entries: Vec<Listed>) -> Self {
        self.happens(SenderEvent::Listed(entries));
        self.happens(SenderEvent::AllListed);
        self
    }

    fn happens(&mut self, event: SenderEvent) -> Vec<SenderAction> {
        let mut out = Vec::new();
        self.0.happened(event, &mut out).expect("it goes on");
        read(out)
    }

    fn hears(&mut self, message: Message) -> Vec<SenderAction> {
        let mut out = Vec::new();
        self.0.hear(message, &mut out).expect("it may say so");
        read(out)
    }

    fn refuses(&mut self, message: Message, why: &str) {
        let refused = self.0.hear(message, &mut Vec::new()).expect_err(why);
        assert!(refused.message.contains(why), "{refused}");
    }
}

#[test]
fn no_more_is_offered_than_the_window_holds() {
    let mut run = Run::copying();
    for _ in 1..WINDOW / OFFER_ENTRIES {
        assert_eq!(run.happens(directories(OFFER_ENTRIES)).last(), Some(&List));
    }
    let last = run.happens(directories(OFFER_ENTRIES));
    assert!(
        matches!(&last[..], [Say(Message::Offer { first, .. })] if *first as usize == WINDOW - OFFER_ENTRIES)
    );
    assert_eq!(run.hears(verdicts(0, vec![Verdict::Made; OFFER_ENTRIES - 1])), []);
    assert_eq!(run.hears(verdicts(255, vec![Verdict::Made])), [List]);
    assert_eq!(run.hears(verdicts(256, vec![Verdict::Made])), [], "the lister was told");
}

#[test]
fn long_names_fill_the_window_sooner() {
    let mut run = Run::copying();
    let long = vec!["n".repeat(250); 240].join("/");
    let mut offered = 0;
    while run.happens(SenderEvent::Listed(vec![listed(&long, Kind::Directory); 4])).contains(&List) {
        offered += 4;
    }
    assert!(offered * long.len() < WINDOW_BYTES && (offered + 8) * long.len() > WINDOW_BYTES - OFFER_BYTES);
    assert_eq!(run.hears(verdicts(0, vec![Verdict::Made; 4])), [List]);
}

#[test]
fn a_problem_and_what_is_left_out_need_room_too_and_who_asked_hears_of_both() {
    for tells_left_out in [false, true] {
        let mut run = Run::new(SenderTerms { tells_left_out, ..SenderTerms::default() });
        let left_out = run.happens(SenderEvent::LeftOut(b"pipe".to_vec(), LeftOut::Special));
        let told = Say(Message::LeftOut(b"pipe".to_vec(), LeftOut::Special));
        assert_eq!(left_out, if tells_left_out { vec![told, List] } else { vec![List] });
        let failed = Count::Failed { path: b"p".to_vec(), error: error(), was_listed: false };
        let said = Say(Message::Problem(b"p".to_vec(), error()));
        assert_eq!(run.happens(SenderEvent::Problem(b"p".to_vec(), error())), [Counts(failed), said, List]);
    }
}

#[test]
fn each_thing_is_said_of_a_file_once() {
    let again = "a second verdict";
    let mut run = Run::copying().offering(vec![file("a", 5), file("b", 5)]);
    assert_eq!(run.hears(verdicts(0, vec![want()])), [Send(0, vec![0..5])]);
    for verdict in [want(), Verdict::WantRanges(vec![0..5]), Verdict::Exists(OURS), Verdict::Tell] {
        run.refuses(verdicts(0, vec![verdict]), again);
    }
    assert_eq!(run.hears(verdicts(1, vec![Verdict::Exists(THEIRS)])), [Hash(1)]);
    run.refuses(verdicts(1, vec![Verdict::Tell]), again);
    run.refuses(verdicts(1, vec![want()]), again);
    assert_eq!(run.happens(SenderEvent::Hashed(1, Ok(OURS))), [Say(Message::Replace(vec![1]))]);
    run.refuses(verdicts(1, vec![Verdict::Exists(THEIRS)]), again);
    assert_eq!(run.hears(verdicts(1, vec![want()])), [Send(1, vec![0..5])]);
}

#[test]
fn what_was_never_offered_gets_no_verdict_and_what_has_ended_ends_once() {
    let mut run = Run::copying().offering(vec![file("a", 5)]);
    run.refuses(verdicts(1, vec![Verdict::Skip]), "never offered");
    run.refuses(verdicts(FileId::MAX, vec![Verdict::Skip; 2]), "never offered");
    assert_eq!(run.hears(committed(7)), []);
    assert_eq!(run.hears(Message::Have(7, vec![(0, OURS)])), []);
    run.hears(verdicts(0, vec![want()]));
    assert_eq!(run.hears(committed(0)), [End(0), Counts(Count::Done(5)), Say(Message::Finish)]);
    assert_eq!(run.hears(committed(0)), []);
    assert_eq!(run.hears(verdicts(0, vec![Verdict::Skip])), []);
}

#[test]
fn finish_is_said_once_and_ends_it() {
    let mut run = Run::copying();
    run.happens(SenderEvent::Listed(vec![listed("d", Kind::Directory)]));
    assert_eq!(run.hears(verdicts(0, vec![Verdict::Made])), [], "there may be more");
    run.refuses(finished(), "before everything was sent");
    let all = [Counts(Count::AllListed), Say(Message::Listed), Say(Message::Finish)];
    assert_eq!(run.happens(SenderEvent::AllListed), all);
    assert!(run.0.has_finished() && !run.0.is_confirmed());
    assert_eq!(run.hears(committed(0)), []);
    let not_kept = NotKept { modes: 1, times: 2 };
    assert_eq!(run.hears(Message::Finished(not_kept)), [Counts(Count::NotKept(not_kept))]);
    assert!(run.0.is_over());
}

#[test]
fn what_is_not_asked_for_is_refused() {
    let would = || Verdict::Would(PlannedChange::new(true));
    let removals = || Message::Planned(Vec::new());
    let mut copying = Run::copying().offering(vec![file("a", 5)]);
    copying.refuses(verdicts(0, vec![would()]), "asked to do it");
    copying.refuses(removals(), "was not asked");
    copying.refuses(Message::Listed, "only a sender says");
    copying.refuses(Message::Refused(error()), "broken");
    for verdict in [want(), Verdict::WantRanges(vec![0..5]), Verdict::Skip, Verdict::Made] {
        Run::planning().offering(vec![file("a", 5)]).refuses(verdicts(0, vec![verdict]), "began to copy");
    }
}

#[test]
fn as_long_as_whoever_listens_is_behind_no_more_is_offered() {
    let mut run = Run::planning();
    let mut tells = Vec::new();
    for batch in 0.. {
        let names = (0..OFFER_ENTRIES).map(|n| file(&format!("f{n}"), 5)).collect();
        let has_room = run.happens(SenderEvent::Listed(names)).contains(&List);
        let changes = vec![Verdict::Would(PlannedChange::new(true)); OFFER_ENTRIES];
        let decided = run.hears(verdicts(batch * OFFER_ENTRIES as FileId, changes));
        assert!(!decided.contains(&List));
        tells.extend(decided.into_iter().filter_map(|action| match action {
            Tell { planned, bytes } => Some((planned.len(), bytes)),
            _ => None,
        }));
        if !has_room {
            break;
        }
    }
    assert_eq!(tells.len(), WINDOW / OFFER_ENTRIES);
    run.happens(SenderEvent::AllListed);
    for (n, (entries, bytes)) in tells.into_iter().enumerate() {
        assert!(!run.0.has_finished());
        assert_eq!(run.happens(SenderEvent::Told { entries, bytes }).contains(&List), n == 0);
    }
    assert!(run.0.has_finished());
    assert_eq!(run.0.bytes, 0);
}

#[test]
fn a_plan_is_told_in_order_with_what_is_removed_behind_it() {
    let names = ["same", "new", "left", "broken", "d"];
    let mut entries: Vec<Listed> = names.iter().map(|name| file(name, 5)).collect();
    entries[4] = listed("d", Kind::Directory);
    let mut run = Run::planning().offering(entries.clone());
    let same = PlannedChange::of(Vec::new(), false);
    let would = |change: &PlannedChange| Verdict::Would(change.clone());
    let new = PlannedChange::new(true);
    let answers = vec![would(&same), would(&new), Verdict::Leave, Verdict::Failed(error()), would(&new)];
    let actions = run.hears(verdicts(0, answers));
    let failed = Count::Failed { path: b"broken".to_vec(), error: error(), was_listed: true };
    let planned = [(0, same), (1, new.clone()), (4, new)];
    let planned: Vec<Planned> =
        planned.into_iter().map(|(n, change)| Planned::new(entries[n].entry.clone(), change)).collect();
    let bytes = [0, 1, 4].map(|n: usize| entries[n].entry.memory()).iter().sum();
    let counted = [Count::Skipped(Files::one(5)), Count::LeftOut(5), failed];
    let mut counts = counted.into_iter().map(Counts);
    assert!(counts.all(|count| actions.contains(&count)), "{actions:?}");
    assert_eq!(actions.last(), Some(&Tell { planned: planned.clone(), bytes }));
    let told = run.happens(SenderEvent::Told { entries: 3, bytes });
    assert_eq!(told, [Say(Message::Finish)]);
    let removals = vec![planned[0].clone()];
    assert_eq!(run.hears(Message::Planned(removals.clone())), [Tell { planned: removals, bytes: 0 }]);
    run.hears(finished());
    assert!(run.0.is_confirmed() && !run.0.is_over(), "whoever listens takes their time");
    run.happens(SenderEvent::Told { entries: 1, bytes: 0 });
    assert!(run.0.is_over());
}

#[test]
fn a_file_that_is_moved_is_open_until_it_is_gone_from_its_source() {
    let mut run = Run::moving().offering(vec![file("a", 5), file("b", 5), file("c", 5), file("d", 5)]);
    run.hears(verdicts(0, vec![want(), want(), Verdict::Tell]));
    assert_eq!(run.hears(committed(0)), [Remove(0)]);
    assert_eq!(run.hears(committed(0)), []);
    assert_eq!(run.hears(committed(1)), [Remove(1)]);
    assert_eq!(run.happens(SenderEvent::Removed(0, Ok(()))), [Counts(Count::Done(5))]);
    // One that was there is read, and removed once the receiver has made it durable.
    assert_eq!(run.happens(SenderEvent::Hashed(2, Ok(OURS))), [Say(Message::Keep(vec![(2, OURS)]))]);
    assert_eq!(run.hears(verdicts(2, vec![Verdict::Made])), [Remove(2)]);
    assert_eq!(run.happens(SenderEvent::Removed(2, Ok(()))), [Counts(Count::Skipped(Files::one(5)))]);
    let stays = |actions: &[SenderAction], name: &str| {
        let stays = format!("{name} is there and stays at the source: ");
        actions.iter().any(|action| {
            matches!(action, Say(Message::Problem(path, error))
                if path == name.as_bytes() && error.message.starts_with(&stays))
        })
    };
    // One that nobody read stays.
    let skipped = run.hears(verdicts(3, vec![Verdict::Skip]));
    assert!(stays(&skipped, "d") && !run.0.has_finished());
    let failed = run.happens(SenderEvent::Removed(1, Err(error())));
    assert!(stays(&failed, "b") && matches!(failed[1], Counts(Count::Failed { was_listed: true, .. })));
    assert_eq!(failed[2..], [Say(Message::Finish)]);
}

#[test]
fn a_file_that_is_moved_is_made_only_after_it_was_compared() {
    let mut run = Run::moving().offering(vec![file("a", 5)]);
    run.refuses(verdicts(0, vec![Verdict::Made]), "a second verdict");
}

#[test]
fn names_are_told_after_the_end_one_message_at_a_time() {
    let mut run = Run::planning();
    run.refuses(Message::WantNames(1), "before everything was sent");
    run.happens(SenderEvent::AllListed);
    assert_eq!(run.hears(Message::WantNames(u32::MAX)), [ReadNames]);
    assert_eq!(run.hears(Message::WantNames(u32::MAX)), [], "one is being read");
    let names = || vec![DirectoryNames::default(); TOLD_DIRECTORIES];
    for _ in 1..MAX_WANTED {
        assert_eq!(run.happens(SenderEvent::Names(names())), [Say(Message::Names(names())), ReadNames]);
        run.hears(Message::WantNames(1));
    }
    // Whoever listens is behind: nothing is read until they have caught up.
    let removal = Planned::new(file("a", 5).entry, PlannedChange::new(false));
    run.hears(Message::Planned(vec![removal; WINDOW + 1]));
    assert_eq!(run.happens(SenderEvent::Names(names())), [Say(Message::Names(names()))]);
    assert_eq!(run.happens(SenderEvent::Told { entries: WINDOW + 1, bytes: 0 }), [ReadNames]);
    assert_eq!(run.happens(SenderEvent::NamesEnd(None)), [Say(Message::NamesEnd(None))]);
}

#[test]
fn what_an_earlier_run_left_is_kept_and_the_rest_is_sent() {
    let size = 4 * SEGMENT + 1;
    let mut run = Run::copying().offering(vec![file("a", size)]);
    let segments = |numbers: &[u64]| numbers.iter().map(|n| (*n, OURS)).collect::<Vec<_>>();
    let already = |bytes| Counts(Count::Already(bytes));
    let have = |numbers: &[u64]| SenderAction::Have(0, segments(numbers));
    let some = run.hears(Message::Have(0, segments(&[0, 4])));
    assert_eq!(some, [have(&[0, 4]), already(SEGMENT + 1)]);
    assert_eq!(run.hears(Message::Have(0, segments(&[4, 5, u64::MAX]))), [have(&[4, 5, u64::MAX])]);
    let wanted = run.hears(verdicts(0, vec![Verdict::Want { have: segments(&[1]) }]));
    assert_eq!(wanted, [have(&[1]), already(SEGMENT), Send(0, vec![2 * SEGMENT..4 * SEGMENT])]);
    assert_eq!(run.hears(Message::Have(0, segments(&[2]))), [], "it is on its way");
    assert_eq!(run.0.kept().collect::<Vec<_>>(), [(0, 2 * SEGMENT + 1)]);
    assert_eq!(run.hears(committed(0))[1], Counts(Count::Done(2 * SEGMENT)));
    assert_eq!(run.0.kept().count(), 0);
}

#[test]
fn ranges_of_a_split_file_are_those_of_its_segments() {
    let size = 3 * SEGMENT;
    let offering = || Run::copying().offering(vec![file("a", size)]);
    for nonsense in [
        vec![1..SEGMENT],
        vec![0..size + 1],
        vec![SEGMENT..SEGMENT],
        vec![SEGMENT..size, 0..SEGMENT],
        vec![0..2 * SEGMENT, SEGMENT..size],
    ] {
        offering()
            .refuses(verdicts(0, vec![Verdict::WantRanges(nonsense)]), "not those of the file's segments");
    }
    let (mut run, ranges) = (offering(), vec![0..SEGMENT, 2 * SEGMENT..size]);
    let wanted = run.hears(verdicts(0, vec![Verdict::WantRanges(ranges.clone())]));
    assert_eq!(wanted, [Counts(Count::Already(SEGMENT)), Send(0, ranges)]);
    assert_eq!(run.hears(committed(0))[1], Counts(Count::Done(2 * SEGMENT)));
}

#[test]
fn what_cannot_be_read_is_abandoned_and_counted_once() {
    let mut run = Run::copying().offering(vec![file("a", 5), file("b", 5)]);
    run.hears(verdicts(0, vec![want(), Verdict::Tell]));
    for (id, name, event) in
        [(0, "a", SenderEvent::GivenUp(0, error())), (1, "b", SenderEvent::Hashed(1, Err(error())))]
    {
        let failed = Count::Failed { path: name.into(), error: error(), was_listed: true };
        let mut abandoned = vec![Say(Message::Abandon(id, error())), End(id), Counts(failed)];
        abandoned.extend((id == 1).then_some(Say(Message::Finish)));
        assert_eq!(run.happens(event), abandoned);
        assert_eq!(run.happens(SenderEvent::GivenUp(id, error())), []);
        assert_eq!(run.hears(committed(id)), []);
    }
}

#[test]
fn what_was_compared_is_kept_or_replaced_as_it_is_asked_for() {
    let compared = |purpose, theirs| {
        let mut run =
            Run::new(SenderTerms { purpose, ..SenderTerms::default() }).offering(vec![file("a", 5)]);
        assert_eq!(run.hears(verdicts(0, vec![theirs])), [Hash(0)]);
        run.happens(SenderEvent::Hashed(0, Ok(OURS)))
    };
    let keep = || Say(Message::Keep(vec![(0, OURS)]));
    let replace = || Say(Message::Replace(vec![0]));
    let ended = |count| [End(0), Counts(count), Say(Message::Finish)];
    let same = || Verdict::Exists(OURS);
    let other = || Verdict::Exists(THEIRS);
    for purpose in [Purpose::Copy, Purpose::Compare] {
        assert_eq!(
            compared(purpose, same()),
            [&[keep()][..], &ended(Count::Skipped(Files::one(5)))].concat()
        );
    }
    for purpose in [Purpose::Copy, Purpose::Compare, Purpose::Plan] {
        assert_eq!(compared(purpose, Verdict::Tell), [keep()], "the receiver has the last word");
    }
    assert_eq!(compared(Purpose::Plan, same()), [keep()]);
    assert_eq!(compared(Purpose::Plan, other()), [replace()]);
    assert_eq!(compared(Purpose::Copy, other()), [replace()]);
    let error = Error::new(ErrorKind::Corrupt, "a differs");
    let failed = Count::Failed { path: b"a".to_vec(), error, was_listed: true };
    assert_eq!(compared(Purpose::Compare, other()), [&[replace()][..], &ended(failed)].concat());
}

#[test]
fn only_what_is_wanted_of_a_file_comes_again() {
    let mut run = Run::copying().offering(vec![file("a", 5)]);
    let again = |range| Message::Again(vec![Again { file: 0, range }]);
    assert_eq!(run.hears(again(0..5)), [], "nothing of it was sent");
    run.hears(verdicts(0, vec![want()]));
    for nonsense in [0..6, 3..5, 5..5, Range { start: 4, end: 2 }] {
        assert_eq!(run.hears(again(nonsense)), []);
    }
    assert_eq!(run.hears(again(0..5)), [Resend(0, 0..5)]);
}
