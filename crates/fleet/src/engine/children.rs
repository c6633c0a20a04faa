//! Movers that are children of ours: started again while that may help, and ended with us.

use std::io::Write;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tidegate_run::ssh::{complaint, end};
use tidegate_transfer::error::{Error, Result};

use crate::engine::{Started, Status, ending};

/// How long movers may take to give back what they hold.
const LEAVING: Duration = Duration::from_secs(30);

/// How often in a row one that does not last is started.
const MAX_TRIES: u32 = 8;

/// How long one is gone before it is started again; twice as long each time.
const REST: Duration = Duration::from_secs(1);

/// Who ran so long is tried as often as at first.
const LASTING: Duration = Duration::from_secs(60);

/// How one mover is started, and what its end means.
pub trait Launch {
    /// What runs, and what it reads on standard input.
    fn command(&self) -> Result<(Command, Option<Vec<u8>>)>;

    /// Why it ended so, and whether trying again may help.
    fn explain(&self, status: ExitStatus, complaint: &str) -> (String, bool);
}

/// Movers, one for each launch.
pub struct Children {
    name: String,
    places: Vec<Place>,
}

struct Place {
    launch: Box<dyn Launch>,
    state: State,
    tries: u32,
    /// Why the last one ended, where it did not end well.
    why: Option<String>,
}

enum State {
    Running(Running),
    Resting(Instant),
    Ended,
    Failed,
}

struct Running {
    child: Child,
    /// Whoever reads it takes its end as the wish that it ends.
    stdin: Option<ChildStdin>,
    complaint: Option<JoinHandle<String>>,
    begun: Instant,
}

impl Children {
    /// Starts each of them; one that cannot be started at all ends the others.
    pub fn start(name: String, launches: Vec<Box<dyn Launch>>) -> Result<Self> {
        let mut children = Self { name, places: Vec::new() };
        for launch in launches {
            let state = State::Running(begin(&*launch)?);
            children.places.push(Place { launch, state, tries: 1, why: None });
        }
        Ok(children)
    }
}

fn begin(launch: &dyn Launch) -> Result<Running> {
    let (mut command, input) = launch.command()?;
    if input.is_some() {
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
    } else {
        command.stdin(Stdio::null());
    }
    // What a mover has to say is for the service; standard output is the command's that started it.
    command.stdout(Stdio::null());
    let program = command.get_program().to_owned();
    let mut child = command.spawn().map_err(|error| Error::io("start", program.as_encoded_bytes(), error))?;
    let mut stdin = child.stdin.take();
    if let (Some(stdin), Some(input)) = (&mut stdin, input) {
        // If it has ended already, it says why by its status.
        let _ = stdin.write_all(&input);
    }
    let complaint = child.stderr.take().map(|stderr| thread::spawn(move || complaint(stderr)));
    Ok(Running { child, stdin, complaint, begun: Instant::now() })
}

impl Place {
    /// Looks whether it has ended, and starts it again where that is due.
    fn look(&mut self) -> Result<()> {
        match &mut self.state {
            State::Running(running) => {
                let ended = running.child.try_wait();
                let Some(status) = ended.map_err(|error| Error::io("wait for", b"a mover", error))? else {
                    return Ok(());
                };
                let complaint = running.complaint.take().map(|thread| thread.join().unwrap_or_default());
                let lasted = running.begun.elapsed() >= LASTING;
                self.ended(status, &complaint.unwrap_or_default(), lasted);
            }
            State::Resting(until) if Instant::now() >= *until => {
                self.tries += 1;
                self.state = match begin(&*self.launch) {
                    Ok(running) => State::Running(running),
                    Err(error) => {
                        self.why = Some(error.message);
                        State::Failed
                    }
                };
            }
            State::Resting(_) | State::Ended | State::Failed => {}
        }
        Ok(())
    }

    fn ended(&mut self, status: ExitStatus, complaint: &str, lasted: bool) {
        if lasted {
            self.tries = 1;
        }
        if status.code() == Some(ending::DRAINED) {
            (self.state, self.why) = (State::Ended, None);
            return;
        }
        let (why, may_help) = self.launch.explain(status, complaint);
        self.why = Some(why);
        self.state = if may_help && self.tries < MAX_TRIES {
            State::Resting(Instant::now() + REST * 2u32.pow(self.tries - 1))
        } else {
            State::Failed
        };
    }
}

impl Started for Children {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn look(&mut self) -> Result<Status> {
        let mut status = Status::default();
        for place in &mut self.places {
            place.look()?;
            *match place.state {
                State::Running(_) => &mut status.running,
                State::Resting(_) => &mut status.pending,
                State::Ended => &mut status.ended,
                State::Failed => &mut status.failed,
            } += 1;
            if !matches!(place.state, State::Running(_)) {
                status.why = status.why.or_else(|| place.why.clone());
            }
        }
        Ok(status)
    }

    fn stop(&mut self) -> Result<()> {
        let mut leaving = Vec::new();
        for place in &mut self.places {
            if let State::Running(mut running) = std::mem::replace(&mut place.state, State::Ended) {
                // Whoever reads it has the mover end, wherever that is.
                if running.stdin.take().is_none() {
                    ask_to_end(&running.child);
                }
                leaving.push(running.child);
            }
        }
        see_end(&mut leaving);
        Ok(())
    }

    fn outlives_us(&self) -> bool {
        false
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

/// Asks a child to give back what it holds and to end.
pub fn ask_to_end(child: &Child) {
    if let Some(id) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(id, Signal::TERM);
    }
}

/// Waits until they have ended, and has them end where they do not.
pub fn see_end(children: &mut [Child]) {
    let until = Instant::now() + LEAVING;
    for child in children {
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        end(child);
    }
}
