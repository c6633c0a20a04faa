//! A command in another program's process, on a thread of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tidegate_contract::error_kind::ErrorKind;
use tidegate_contract::{own_program, redact};
use tidegate_run::monitor::Progress;
use tidegate_transfer::error::Error;

use crate::asked::Task;
use crate::caller::{Caller, Channel};
use crate::command_line::run_for;
use crate::exit;
use crate::warned::heard;

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The exit code that the program would have ended with.
    pub code: u8,
    /// What it would have printed on standard output: lines, each one JSON object where `--json` was asked for.
    pub results: Vec<String>,
    /// Why nothing was begun, if so.
    pub refusal: Option<Refused>,
}

/// Why nothing was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Of what kind that is.
    pub kind: ErrorKind,
    /// The operating system's number for it, if that said so.
    pub errno: Option<i32>,
    /// In one line.
    pub why: String,
}

/// A command that runs, or has run.
///
/// Each is independent of others: a program may have several at the same time. One that is dropped before it has ended is
/// asked to end.
#[derive(Debug)]
pub struct Run {
    channel: Arc<Channel>,
    end: Arc<End>,
}

#[derive(Debug, Default)]
struct End {
    outcome: Mutex<Option<Outcome>>,
    there: Condvar,
}

impl Run {
    /// Begins what is asked for. When it has ended, `over` is called by its thread.
    pub fn start(asked: Task, over: impl FnOnce() + Send + 'static) -> Self {
        let run = Self { channel: Arc::default(), end: Arc::default() };
        let (channel, end) = (Arc::clone(&run.channel), Arc::clone(&run.end));
        thread::spawn(move || {
            let outcome = outcome(&channel, asked);
            *end.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            end.there.notify_all();
            over();
        });
        run
    }

    /// Asks it to end; what is needed to go on later is kept, and no unverified file gets its name.
    pub fn interrupt(&self) {
        self.channel.interrupt.raise();
    }

    /// Waits for its end, and no longer than `patience`; whether it has ended.
    pub fn wait(&self, patience: Duration) -> bool {
        let outcome = self.end.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.end.there.wait_timeout_while(outcome, patience, |outcome| outcome.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_some()
    }

    /// How it ended, if it has.
    pub fn outcome(&self) -> Option<Outcome> {
        self.end.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How it is getting on, once something has begun.
    pub fn progress(&self) -> Option<Progress> {
        self.channel.monitor.progress()
    }

    /// What it said to people since the last time, a line each.
    pub fn messages(&self) -> Vec<String> {
        self.channel.messages()
    }
}

/// Says where the program `tidegate` is, for a process whose own program is another one, such as an interpreter: what is
/// measured and served with programs of ours is begun by that. The first word counts; without one the search path is looked through.
pub fn program_is_at(path: PathBuf) {
    own_program::is_at(path);
}

impl Drop for Run {
    fn drop(&mut self) {
        self.interrupt();
    }
}

/// The same, which ends with an object of JSON, and says nothing to people besides.
fn in_json(mut asked: Task) -> Task {
    match &mut asked {
        Task::Copy(call) => call.quietly_in_json(),
        #[cfg(feature = "get")]
        Task::Get(call) => call.quietly_in_json(),
        #[cfg(feature = "put")]
        Task::Put(call) => call.quietly_in_json(),
        Task::Verify(call) | Task::Ls(call) | Task::Hash(call) => call.in_json(),
        #[cfg(feature = "service")]
        Task::Estimate(call) => call.in_json(),
        Task::Told(_) => {}
    }
    asked
}

/// Runs it to its end.
fn outcome(channel: &Arc<Channel>, asked: Task) -> Outcome {
    let asked = in_json(asked);
    let caller = Caller::Program(Arc::clone(channel));
    let ran = catch_unwind(AssertUnwindSafe(|| heard(&caller, || run_for(asked, &caller))));
    let ran =
        ran.unwrap_or_else(|_| Err(Error::new(ErrorKind::Io, "a thread of the command panicked").into()));
    let results = channel.results();
    match ran {
        Ok(code) => Outcome { code: exit::number(code), results, refusal: None },
        Err(error) => {
            let ours = error.downcast_ref::<Error>();
            let refused = Refused {
                kind: ours.map_or(ErrorKind::Io, |error| error.kind),
                errno: ours.and_then(Error::errno),
                why: redact::text(&exit::in_one_line(&error)).into_owned(),
            };
            Outcome { code: exit::number(exit::code_of(&error)), results, refusal: Some(refused) }
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_spec::options::Options;

    use super::*;
    use crate::asked::Call;

    fn call(options: Options, from: &str) -> Call {
        Call { options, from: vec![from.into()], to: "y".into() }
    }

    fn ended(task: Task) -> Outcome {
        let run = Run::start(task, || {});
        while !run.wait(Duration::from_secs(1)) {}
        run.outcome().expect("it has ended")
    }

    #[test]
    fn what_makes_no_sense_or_belongs_to_a_terminal_is_refused() {
        let none = Options::default;
        for (task, wanted) in [
            (Task::Copy(call([("nonsense", true)].into(), "a")), "\"nonsense\" is no option of this"),
            #[cfg(feature = "get")]
            (Task::Get(call([("pipe", true)].into(), "https://localhost/x")), "this is for a terminal"),
            (Task::Copy(call(none(), "no-such-name:/x")), "no endpoint is called 'no-such-name'"),
        ] {
            let outcome = ended(task);
            let Refused { kind, why, .. } = outcome.refusal.expect("refused");
            assert_eq!((outcome.code, kind), (exit::USAGE, ErrorKind::Usage), "{wanted}");
            assert!(why.contains(wanted), "{why}");
        }
    }
}
