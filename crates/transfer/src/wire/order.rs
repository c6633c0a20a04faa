//! Who may say what, and when. `docs/protocol.md` has this table; a test compares them.

use crate::error::{Error, Result};
use crate::wire::message::Message;

/// What an end is in a session: an initiator or an endpoint, and in a transfer a sender or a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It dialled, and asks.
    Initiator,
    /// It was dialled, and answers.
    Endpoint,
    /// It has the source.
    Sender,
    /// It has the destination.
    Receiver,
}

/// How far a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The initiator has greeted the endpoint.
    Greeting,
    /// The initiator may ask, or has asked.
    Asking,
    /// Files move.
    Moving,
    /// Everything that was offered has ended: what is left is to be removed, and to be made durable.
    Ending,
    /// Another endpoint is sent to, an epoch at a time.
    Stepping,
    /// Files are asked about.
    Files,
    /// Nothing is said any more.
    Over,
}

/// When a message may be said.
#[derive(Clone, Copy, Debug)]
pub struct MessageRule {
    /// Its name.
    pub name: &'static str,
    /// By whom.
    pub by: &'static [Part],
    /// In which phases.
    pub during: &'static [Phase],
}

use Part::{Endpoint, Initiator, Receiver, Sender};
use Phase::{Asking, Ending, Files, Greeting, Moving, Stepping};

const BOTH: &[Part] = &[Initiator, Endpoint];
/// What crosses `Finish` on its way is heard behind it.
const TRANSFER: &[Phase] = &[Moving, Ending];

/// The rule for a message.
pub const fn rule(message: &Message) -> MessageRule {
    let (name, by, during): (&str, &[Part], &[Phase]) = match message {
        Message::Welcome(_) => ("Welcome", &[Endpoint], &[Greeting]),
        Message::Request(..) => ("Request", &[Initiator], &[Asking]),
        Message::Accepted(_) => ("Accepted", &[Endpoint], &[Asking]),
        Message::Ticket(_) => ("Ticket", &[Endpoint], &[Asking]),
        Message::Shared(_) => ("Shared", &[Endpoint], &[Asking]),
        Message::Refused(_) => ("Refused", BOTH, &[Greeting, Asking, Moving, Ending, Stepping, Files]),
        Message::Iperf3 { .. } => ("Iperf3", &[Endpoint], &[Asking]),
        Message::Iperf3Report(_) => ("Iperf3Report", &[Endpoint], &[Asking]),
        Message::Stop => ("Stop", &[Initiator], &[Moving, Ending, Stepping]),
        Message::Offer { .. } => ("Offer", &[Sender], &[Moving]),
        Message::Replace(_) => ("Replace", &[Sender], &[Moving]),
        Message::Keep(_) => ("Keep", &[Sender], &[Moving]),
        Message::Hashes(_) => ("Hashes", &[Sender], TRANSFER),
        Message::Abandon(..) => ("Abandon", &[Sender], TRANSFER),
        Message::Problem(..) => ("Problem", &[Sender, Endpoint], &[Moving, Stepping]),
        Message::LeftOut(..) => ("LeftOut", &[Sender, Endpoint], &[Moving, Stepping]),
        Message::Overdue { .. } => ("Overdue", &[Sender], TRANSFER),
        Message::Listed => ("Listed", &[Sender], &[Moving]),
        Message::Finish => ("Finish", &[Sender], &[Moving]),
        Message::Names(_) => ("Names", &[Sender], &[Ending]),
        Message::NamesEnd(_) => ("NamesEnd", &[Sender], &[Ending]),
        Message::Permitted(..) => ("Permitted", &[Sender], TRANSFER),
        Message::Have(..) => ("Have", &[Receiver], TRANSFER),
        Message::Verdicts { .. } => ("Verdicts", &[Receiver], TRANSFER),
        Message::Taken(_) => ("Taken", &[Receiver], TRANSFER),
        Message::StreamLost(_) => ("StreamLost", &[Receiver], TRANSFER),
        Message::Again(_) => ("Again", &[Receiver], TRANSFER),
        Message::Done(_) => ("Done", &[Receiver], TRANSFER),
        Message::AskPermit(_) => ("AskPermit", &[Receiver], TRANSFER),
        Message::WantNames(_) => ("WantNames", &[Receiver], &[Ending]),
        Message::Deleted(..) => ("Deleted", &[Receiver], &[Ending]),
        Message::Finished(_) => ("Finished", &[Receiver], &[Ending]),
        Message::Setpoint(_) => ("Setpoint", &[Initiator], TRANSFER),
        Message::Yield(_) => ("Yield", &[Initiator], TRANSFER),
        Message::Poll(_) => ("Poll", &[Initiator], TRANSFER),
        Message::Report(_) => ("Report", &[Endpoint], TRANSFER),
        Message::Step(_) => ("Step", &[Initiator], &[Stepping]),
        Message::Stepped(_) => ("Stepped", &[Endpoint], &[Stepping]),
        Message::Planned(_) => ("Planned", &[Receiver, Endpoint], &[Ending, Stepping]),
        Message::Heard(_) => ("Heard", &[Initiator], &[Stepping]),
        Message::File(..) => ("File", &[Initiator], &[Files]),
        Message::FileReply(..) => ("FileReply", &[Endpoint], &[Files]),
    };
    MessageRule { name, by, during }
}

/// Refuses what an end that has these `parts` in a session may not say, or not in this phase.
pub fn check(message: &Message, parts: [Part; 2], phase: Phase) -> Result<()> {
    let MessageRule { name, by, during } = rule(message);
    if !by.iter().any(|part| parts.contains(part)) {
        return Err(Error::protocol(format!("the other end said {name}, which is not its part")));
    }
    if !during.contains(&phase) {
        return Err(Error::protocol(format!("the other end said {name} out of turn")));
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use tidegate_control::PerStage;

    use super::*;
    use crate::counters::{Counters, NotKept};
    use crate::record::Record;
    use crate::wire::files::{FileReply, FileRequest};
    use crate::wire::request::{Agreement, Request, RequestKind};

    const PARTS: [Part; 4] = [Initiator, Endpoint, Sender, Receiver];
    const PHASES: [Phase; 7] = [Greeting, Asking, Moving, Ending, Stepping, Files, Phase::Over];

    /// One of each.
    pub(crate) fn all() -> Vec<Message> {
        let error = || Error::protocol("no");
        vec![
            Message::Welcome(Record::default()),
            Request::from(RequestKind::Files).into(),
            Message::accepted(&Agreement::default()),
            Message::Ticket(String::new()),
            Message::Shared(String::new()),
            Message::Refused(error()),
            Message::Iperf3 { port: 1 },
            Message::Iperf3Report(Vec::new()),
            Message::Stop,
            Message::Offer { first: 0, entries: Vec::new() },
            Message::Replace(Vec::new()),
            Message::Keep(Vec::new()),
            Message::Hashes(Vec::new()),
            Message::Abandon(0, error()),
            Message::Problem(Vec::new(), error()),
            Message::LeftOut(Vec::new(), crate::offer::LeftOut::Special),
            Message::Overdue { streams: Vec::new(), for_ms: 1 },
            Message::Listed,
            Message::Finish,
            Message::Names(Vec::new()),
            Message::NamesEnd(None),
            Message::Permitted(1, Ok(1)),
            Message::Have(0, Vec::new()),
            Message::Verdicts { first: 0, verdicts: Vec::new() },
            Message::Taken(Vec::new()),
            Message::StreamLost(0),
            Message::Again(Vec::new()),
            Message::Done(Vec::new()),
            Message::AskPermit(1),
            Message::WantNames(1),
            Message::Deleted(0, None),
            Message::Finished(NotKept::default()),
            Message::Setpoint(PerStage::all(1)),
            Message::Yield(true),
            Message::Poll(1),
            Message::report(1, Counters::default()),
            Message::Step(Record::default()),
            Message::Stepped(Record::default()),
            Message::Planned(Vec::new()),
            Message::Heard(1),
            Message::File(1, FileRequest::Stat { path: Vec::new() }),
            Message::FileReply(1, FileReply::Done),
        ]
    }

    #[test]
    fn every_message_is_said_by_whom_and_when_the_document_says() {
        let document = include_str!("../../../../docs/protocol.md");
        let (_, table) = document.split_once("| message | said by | in phases | says |").expect("a table");
        let documented: BTreeMap<&str, (&str, &str)> = table
            .lines()
            .take_while(|line| line.is_empty() || line.starts_with('|'))
            .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
            .filter_map(|(name, rest)| {
                let mut columns = rest.split(" | ");
                Some((name, (columns.next()?, columns.next()?)))
            })
            .collect();
        let words = |list: &[&dyn std::fmt::Debug]| {
            list.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ")
        };
        for message in all() {
            let MessageRule { name, by, during } = rule(&message);
            assert!(format!("{message:?}").starts_with(name), "{message:?} is called {name}");
            let by = words(&by.iter().map(|part| part as _).collect::<Vec<_>>());
            let during = words(&during.iter().map(|phase| phase as _).collect::<Vec<_>>());
            assert_eq!(documented.get(name), Some(&(&by[..], &during[..])), "{name}");
        }
        assert_eq!(documented.len(), all().len(), "a row for each");
        let numbers: Vec<u8> = all().iter().map(|message| crate::wire::message::encode(message)[4]).collect();
        assert_eq!(numbers, (0..all().len() as u8).collect::<Vec<_>>(), "each has the number of its place");
    }

    #[test]
    fn what_is_not_somebodys_part_or_turn_is_refused_in_one_line() {
        let (mut taken, mut refused) = (0, 0);
        for message in all() {
            let MessageRule { name, by, during } = rule(&message);
            for (part, phase) in PARTS.iter().flat_map(|part| PHASES.map(|phase| (*part, phase))) {
                match check(&message, [part, part], phase) {
                    Ok(()) => {
                        assert!(by.contains(&part) && during.contains(&phase), "{name}");
                        taken += 1;
                    }
                    Err(error) => {
                        assert!(!by.contains(&part) || !during.contains(&phase), "{name}");
                        assert!(error.message.contains(name) && !error.message.contains('\n'), "{error}");
                        refused += 1;
                    }
                }
            }
        }
        assert_eq!(taken + refused, all().len() * PARTS.len() * PHASES.len());
        assert!(taken > all().len() && refused > taken, "{taken} taken, {refused} refused");
    }
}
