//! A rule of the user's own: a program that is told of each epoch and answers with a set-point (docs/own-rule.md).
//!
//! It is taken from the command line and from nowhere else: what a job, a service or a file says never starts a program.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, access};
use tidegate_contract::rule_line::{self, Answer, is_program};
use tidegate_contract::text::one_line;
use tidegate_control::optimizer::EPOCH;
use tidegate_control::{Bounds, Concurrency, Host, Observation, Optimizer, PerStage, Proposal};
use tidegate_transfer::error::{Result, usage};

use crate::words;

mod program;

use program::{MAX_AHEAD, Program, Silence};

/// How long the first answer may take: who loads a framework needs seconds.
const STARTING: Duration = Duration::from_secs(20);

/// Characters of its name that are told with every message.
const MAX_NAME: usize = 60;

/// What a rule says that never answered, so that there is nothing to decide by.
pub const NEVER_ANSWERED: &str = "never answered";

/// The rule that `name` asks for, if that is a program; it starts with the transfer. An answer may take so long as
/// `patience` says, half an epoch if it says nothing.
pub fn named(
    name: &str,
    epoch: Option<Duration>,
    seed: u64,
    patience: Option<Duration>,
) -> Result<Option<Box<dyn Optimizer>>> {
    if !is_program(name) {
        return Ok(None);
    }
    let wrong = |why: &str| usage(format!("--optimizer {}: {why}", one_line(name)));
    let words = match name.strip_prefix("exec:") {
        Some(words) => words::split(words),
        None => python(name.strip_prefix("python:").unwrap_or_default()),
    };
    let words = words.map_err(|why| wrong(&why))?;
    let program = words.first().filter(|program| !program.is_empty());
    let program = program.ok_or_else(|| wrong("names no program: write exec:PROGRAM ARGUMENT…"))?;
    if find(program).is_none() {
        return Err(wrong(&format!("there is no program {}", one_line(program))));
    }
    let epoch = epoch.unwrap_or(EPOCH);
    Ok(Some(Box::new(OwnRule {
        name: called(name),
        words,
        epoch,
        seed,
        patience: patience.unwrap_or(epoch / 2),
        state: State::Unborn,
        standing: None,
        told: [false; 3],
    })))
}

/// `name` as it stands in front of messages.
fn called(name: &str) -> String {
    let line = one_line(name);
    match line.char_indices().nth(MAX_NAME) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The command for what Python runs: `MODULE:NAME` and words behind it.
fn python(what: &str) -> Result<Vec<String>, String> {
    let words = words::split(what)?;
    let rule = words.first().and_then(|rule| rule.rsplit_once(':'));
    if rule.is_none_or(|(module, name)| module.is_empty() || name.is_empty()) {
        return Err("write python:MODULE:NAME, a class or a function of that module".to_owned());
    }
    // Not what lies in the working directory, where others may write, in place of Python's own modules.
    Ok(["python3", "-P", "-m", "tidegate.rule"].map(str::to_owned).into_iter().chain(words).collect())
}

/// Where the program called `name` is: a path, or a name that is looked for in `PATH`.
fn find(name: &str) -> Option<PathBuf> {
    let runs = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| runs(path));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| runs(path))
}

/// A rule in a program.
struct OwnRule {
    name: String,
    words: Vec<String>,
    epoch: Duration,
    seed: u64,
    patience: Duration,
    state: State,
    /// What it asked for last.
    standing: Option<Concurrency>,
    /// Which [`Trouble`]s were told.
    told: [bool; 3],
}

/// What has become of the program.
enum State {
    Unborn,
    Running(Box<Program>),
    Gone,
}

/// What is told once each.
#[derive(Clone, Copy)]
enum Trouble {
    Late,
    Wrong,
    Outside,
}

impl OwnRule {
    /// The set-point that stands goes on, and why is told the first time.
    fn keep(&mut self, setpoint: Concurrency, trouble: Trouble, why: &str) -> Proposal {
        let notice = format!("{}: {why}", self.name);
        if std::mem::replace(&mut self.told[trouble as usize], true) {
            tracing::info!("{notice}");
            return setpoint.into();
        }
        Proposal { notice: Some(notice), ..setpoint.into() }
    }

    /// It is gone: what it asked for last stands to the end.
    fn lose(&mut self, setpoint: Concurrency, why: &str) -> Proposal {
        self.end();
        let notice = format!("{}: {why}; its last set-point stands to the end", self.name);
        Proposal { notice: Some(notice), ..setpoint.into() }
    }

    /// Gives the program up.
    fn end(&mut self) {
        if let State::Running(program) = std::mem::replace(&mut self.state, State::Gone) {
            program.kill();
        }
    }

    /// Does as an answer says, as far as the bounds allow.
    fn follow(&mut self, answer: &Answer, bounds: PerStage<Bounds>) -> Proposal {
        let Answer { setpoint: asked, utility, short_epochs } = *answer;
        self.standing = Some(asked);
        let next = bounds.clamp(asked);
        // A stage that there is no choice in may be asked for anything.
        let outside = PerStage::from_fn(|stage| next[stage] != asked[stage] && !bounds[stage].is_fixed());
        let proposal = if outside == PerStage::all(false) {
            Proposal::from(next)
        } else {
            let numbers = |n: Concurrency| format!("{}/{}/{}", n.read, n.network, n.write);
            let why = format!(
                "asked for {} (read/network/write), of which the bounds allow {}",
                numbers(asked),
                numbers(next)
            );
            self.keep(next, Trouble::Outside, &why)
        };
        Proposal { utility, short_epochs, ..proposal }
    }

    /// Starts the program unless it runs, and asks it what to begin with.
    fn first(&mut self, bounds: PerStage<Bounds>, host: &Host) -> Result<Answer, String> {
        if matches!(self.state, State::Unborn) {
            let program = Program::start(&self.words, &self.name);
            let program = program.map_err(|error| format!("cannot be started: {error}"))?;
            self.state = State::Running(Box::new(program));
        }
        let State::Running(program) = &mut self.state else { return Err("has ended".to_owned()) };
        let line = rule_line::start(bounds, host, self.epoch, self.seed);
        match program.ask(&line, STARTING) {
            Ok(line) => rule_line::read(&line),
            Err(Silence::Late) => Err(format!("has not answered within {} s", STARTING.as_secs())),
            Err(Silence::Gone(why)) => Err(format!("{why} before its first answer")),
        }
    }
}

impl Optimizer for OwnRule {
    fn start(&mut self, bounds: PerStage<Bounds>, host: &Host) -> Proposal {
        let begun = self.standing;
        match (self.first(bounds, host), begun) {
            (Ok(answer), _) => self.follow(&answer, bounds),
            // It has decided before: the connection was lost and made again.
            (Err(why), Some(standing)) if !matches!(self.state, State::Gone) => {
                self.lose(bounds.clamp(standing), &why)
            }
            (Err(_), Some(standing)) => bounds.clamp(standing).into(),
            (Err(why), None) => {
                self.end();
                let least = bounds.map(|bounds| bounds.min);
                let notice = Some(format!("--optimizer {}: {why}", self.name));
                Proposal { notice, reason: Some(NEVER_ANSWERED), ..least.into() }
            }
        }
    }

    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Proposal {
        let standing = self.standing.unwrap_or(seen.concurrency);
        let State::Running(program) = &mut self.state else { return bounds.clamp(standing).into() };
        // What it says too late is better than what it said before, and nothing is told to one that is still at it.
        let mut late = None;
        while program.is_behind() {
            match program.heard() {
                Ok(Some(line)) => late = Some(line),
                Ok(None) | Err(Silence::Late) => return bounds.clamp(standing).into(),
                Err(Silence::Gone(why)) => return self.lose(bounds.clamp(standing), &why),
            }
        }
        // One line for each that it is told; more would be taken for answers to what it has not heard yet.
        let unasked = (0..=MAX_AHEAD).take_while(|_| matches!(program.heard(), Ok(Some(_)))).count() > 0;
        let late = late.and_then(|line| rule_line::read(&line).ok());
        let standing = late.map_or(standing, |answer| answer.setpoint);
        let line = rule_line::epoch(seen, standing, bounds);
        let answer = program.ask(&line, self.patience);
        self.standing = Some(standing);
        let stands = bounds.clamp(standing);
        match answer.map(|line| rule_line::read(&line)) {
            Ok(Ok(answer)) if !unasked => self.follow(&answer, bounds),
            Ok(Ok(answer)) => {
                let next = self.follow(&answer, bounds);
                let why = "says more than one line to each that it is told; only the answers count";
                let told = self.keep(next.setpoint, Trouble::Wrong, why);
                Proposal { notice: next.notice.or(told.notice), ..next }
            }
            Ok(Err(why)) => self.keep(stands, Trouble::Wrong, &format!("{why}; its last set-point stands")),
            Err(Silence::Late) => {
                let why = format!("no answer within {} ms", self.patience.as_millis());
                let why = format!("{why}; its last set-point stands until there is one");
                self.keep(stands, Trouble::Late, &why)
            }
            Err(Silence::Gone(why)) => self.lose(stands, &why),
        }
    }

    fn epoch_length(&self) -> Duration {
        self.epoch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(name: &str) -> String {
        let named = named(name, None, 1, None);
        named.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn only_a_program_that_is_there_is_taken() {
        assert!(named("auto", None, 1, None).is_ok_and(|rule| rule.is_none()));
        assert!(named("exec:sh -c 'exit 0'", None, 1, None).is_ok_and(|rule| rule.is_some()));
        assert!(named("exec:/bin/sh", None, 1, None).is_ok_and(|rule| rule.is_some()));
        for (name, wanted) in [
            ("exec:", "names no program"),
            ("exec:  ''", "names no program"),
            ("exec:no-such-program-here x", "there is no program no-such-program-here"),
            ("exec:./no/such", "there is no program ./no/such"),
            ("exec:/etc/passwd", "there is no program /etc/passwd"),
            ("exec:/tmp", "there is no program /tmp"),
            ("exec:'sh", "no second '"),
            ("python:", "python:MODULE:NAME"),
            ("python:module", "python:MODULE:NAME"),
            ("python::name", "python:MODULE:NAME"),
        ] {
            let why = why(name);
            assert!(why.contains(wanted) && why.lines().count() == 1, "{name}: {why}");
        }
        assert_eq!(
            python("a.b:C --gain 2").expect("good"),
            ["python3", "-P", "-m", "tidegate.rule", "a.b:C", "--gain", "2"]
        );
    }
}
