//! A program that is asked: a line in, a line out. Whatever it does, nobody waits for it longer than he said.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel, sync_channel};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group};
use tidegate_contract::rule_line::MAX_ANSWER;
use tidegate_contract::text::{one_line, shorten};
use tidegate_transfer::sys::thread;

use crate::told;

/// How long a program may take to end once its input has, as long as the service gives its jobs: time to write down
/// what was learned.
const ENDING: Duration = Duration::from_secs(10);
/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_millis(10);
/// How long its last words are waited for after its end.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Lines that it may be ahead of us.
pub const MAX_AHEAD: usize = 16;
/// The most of a line of its messages that is kept, in bytes.
const MAX_MESSAGE: u64 = 4 << 10;

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Silence {
    /// Not yet.
    Late,
    /// There will be none: what became of the program.
    Gone(String),
}

/// A running program.
pub struct Program {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    said_all: Receiver<()>,
    /// Answers that it owes us.
    owed: u32,
    /// How long it may take to end once its input has.
    patience: Duration,
}

impl Program {
    /// Starts `words`, the program and what it is told; its messages are shown behind `name`.
    pub fn start(words: &[String], name: &str) -> io::Result<Self> {
        let (program, arguments) = words.split_first().ok_or(io::ErrorKind::NotFound)?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is for us; it is told by the end of its input.
            .process_group(0)
            .spawn()?;
        let input = child.stdin.take();
        if let Some(input) = &input {
            // One that does not read must not hold us up.
            fcntl_setfl(input, fcntl_getfl(input)? | OFlags::NONBLOCK)?;
        }
        let (tell, lines) = sync_channel(MAX_AHEAD);
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                each_line(output, MAX_ANSWER as u64, |line| tell.send(line.to_vec()).is_ok());
            });
        }
        let (end, said_all) = channel();
        if let Some(messages) = child.stderr.take() {
            let name = name.to_owned();
            thread::spawn(move || {
                each_line(messages, MAX_MESSAGE, |line| {
                    let line = one_line(String::from_utf8_lossy(line).trim_end());
                    told::tell(&format!("{name}: {}", shorten(line)));
                    true
                });
                let _ = end.send(());
            });
        }
        Ok(Self { child, input, lines, said_all, owed: 0, patience: ENDING })
    }

    /// Whether it owes an answer to an earlier line.
    pub const fn is_behind(&self) -> bool {
        self.owed > 0
    }

    /// A line that it has said by now and nobody has heard, unless it has closed its output.
    pub fn heard(&mut self) -> Result<Option<Vec<u8>>, Silence> {
        match self.lines.try_recv() {
            Ok(line) => {
                self.owed = self.owed.saturating_sub(1);
                Ok(Some(line))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(self.gone()),
        }
    }

    /// Tells it a line and waits for the answer; answers to earlier lines are left out.
    pub fn ask(&mut self, line: &str, patience: Duration) -> Result<Vec<u8>, Silence> {
        let until = Instant::now() + patience;
        let text = format!("{line}\n");
        match self.input.as_mut().map(|input| input.write(text.as_bytes())) {
            Some(Ok(written)) if written == text.len() => {}
            // What was said last may explain it.
            Some(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Err(self.gone()),
            _ => return Err(Silence::Gone("does not read what it is told".to_owned())),
        }
        self.owed += 1;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.owed -= 1;
                    if self.owed == 0 {
                        return Ok(line);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Err(Silence::Late),
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
            }
        }
    }

    /// Ends it at once.
    pub fn kill(mut self) {
        self.patience = Duration::ZERO;
    }

    /// What became of a program that says no more.
    fn gone(&mut self) -> Silence {
        Silence::Gone(match self.ended(LAST_WORDS) {
            Some(status) => format!("has ended ({status})"),
            None => "has closed its output".to_owned(),
        })
    }

    /// How it ended, if it does within `patience`.
    fn ended(&mut self, patience: Duration) -> Option<std::process::ExitStatus> {
        let until = Instant::now() + patience;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < until => thread::sleep(LOOK),
                _ => return None,
            }
        }
    }
}

/// Its input ends, and with it the program; what then does not end is made to.
impl Drop for Program {
    fn drop(&mut self) {
        drop(self.input.take());
        if self.ended(self.patience).is_none() {
            let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
            let _ = group.map(|group| kill_process_group(group, Signal::KILL));
            let _ = self.child.wait();
        }
        let _ = self.said_all.recv_timeout(LAST_WORDS);
    }
}

/// Hands each line of `from`, cut to `most` bytes, to `hear` until that does not want more.
fn each_line(from: impl Read, most: u64, mut hear: impl FnMut(&[u8]) -> bool) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = from.by_ref().take(most).read_until(b'\n', &mut line);
        if !read.is_ok_and(|read| read > 0) {
            return;
        }
        if line.last() != Some(&b'\n') && from.skip_until(b'\n').is_err() {
            return;
        }
        if !hear(&line) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_and_the_next_one_is_whole() {
        let text = format!("{}\nshort\n\nend", "x".repeat(100));
        let mut heard = Vec::new();
        each_line(text.as_bytes(), 10, |line| {
            heard.push(String::from_utf8_lossy(line).into_owned());
            true
        });
        assert_eq!(heard, ["xxxxxxxxxx", "short\n", "\n", "end"]);
    }
}
