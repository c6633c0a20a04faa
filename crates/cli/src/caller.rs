//! Who has a command run: people and scripts at a terminal, or a program that runs it in its own process.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use serde::Serialize;
use tidegate_contract::redact;
use tidegate_control::Epoch;
use tidegate_run::audience::{Attempt, Audience, Follower};
use tidegate_run::monitor::Monitor;
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::transfer::Interrupt;

use crate::progress::View;
use crate::signals::interrupt_on_signals;
use crate::terminal;

/// Most messages kept for a program that does not ask for them; the oldest are forgotten.
const MAX_MESSAGES: usize = 1000;

/// Who has a command run.
#[derive(Clone, Debug)]
pub enum Caller {
    /// Whoever sits at the terminal: results are printed, and signals stop it.
    Terminal,
    /// A program in whose process it runs: everything is handed over, and nothing is printed.
    Program(Arc<Channel>),
}

/// What a program and the command that it runs have to say to each other.
#[derive(Debug, Default)]
pub struct Channel {
    /// Stops the command.
    pub interrupt: Interrupt,
    /// How it is getting on.
    pub monitor: Monitor,
    results: Mutex<Vec<String>>,
    messages: Mutex<VecDeque<String>>,
}

impl Channel {
    /// What was said to people since the last time.
    pub fn messages(&self) -> Vec<String> {
        self.messages.lock().drain(..).collect()
    }

    /// Keeps what is wrong, in one line.
    fn complain(&self, text: &str) {
        let mut messages = self.messages.lock();
        if messages.len() == MAX_MESSAGES {
            messages.pop_front();
        }
        messages.push_back(redact::text(text).into_owned());
    }

    /// The results: lines, each one JSON object.
    pub fn results(&self) -> Vec<String> {
        std::mem::take(&mut *self.results.lock())
    }
}

impl Caller {
    /// What stops the command.
    pub fn interrupt(&self) -> Interrupt {
        match self {
            Self::Terminal => interrupt_on_signals(),
            Self::Program(channel) => channel.interrupt.clone(),
        }
    }

    /// Hands over a line of the result.
    pub fn print(&self, line: &str) -> io::Result<()> {
        match self {
            Self::Terminal => terminal::print(line)?,
            Self::Program(channel) => {
                channel.results.lock().push(line.to_owned());
            }
        }
        Ok(())
    }

    /// Hands over some lines of it.
    pub fn print_all(&self, lines: &[String]) -> io::Result<()> {
        match self {
            Self::Terminal => self.print(&lines.join("\n")),
            Self::Program(_) => lines.iter().try_for_each(|line| self.print(line)),
        }
    }

    /// Hands over a result for scripts: one JSON object.
    pub fn print_json(&self, value: &impl Serialize) -> io::Result<()> {
        self.print(&serde_json::to_string(value)?)
    }

    /// Tells people what is wrong, in one line.
    pub fn complain(&self, text: &str) {
        match self {
            Self::Terminal => terminal::complain(text),
            Self::Program(channel) => channel.complain(text),
        }
    }

    /// Whoever is told of a run that it has done; a terminal has a view, if one is wanted.
    pub fn audience(&self, view: bool) -> Box<dyn Audience> {
        match self {
            Self::Terminal => Box::new(AtTerminal { view }),
            Self::Program(channel) => Box::new(OverChannel(Arc::clone(channel))),
        }
    }
}

/// People at a terminal.
struct AtTerminal {
    view: bool,
}

impl Audience for AtTerminal {
    fn complain(&self, text: &str) {
        terminal::complain(text);
    }

    fn follow(&self, attempt: Attempt<'_>) -> Box<dyn Follower> {
        Box::new(View::of(attempt, self.view))
    }
}

/// A program that asks when it likes.
struct OverChannel(Arc<Channel>);

impl Audience for OverChannel {
    fn complain(&self, text: &str) {
        self.0.complain(text);
    }

    fn follow(&self, attempt: Attempt<'_>) -> Box<dyn Follower> {
        self.0.monitor.watch(attempt.ledger, attempt.start);
        Box::new(Self(Arc::clone(&self.0)))
    }
}

impl Follower for OverChannel {
    fn show(&self, epoch: &Epoch) {
        self.0.monitor.show(epoch.setpoint);
    }
}
