//! Dask: a Python program that has workers of a cluster run movers, a mover a task.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

use serde::Deserialize;
use tidegate_contract::text::one_line;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::sys::sync::Mutex;

use crate::engine::children::{ask_to_end, see_end};
use crate::engine::quoting::double_quoted;
use crate::engine::{Engine, Movers, Started, Status, ending};

/// The program, but for what it is told in its first lines.
const PROGRAM: &str = include_str!("dask/program.py");

/// Tasks of a cluster that runs.
#[derive(Debug)]
pub struct Dask {
    /// Where its scheduler answers.
    pub scheduler: String,
}

impl Engine for Dask {
    fn render(&self, movers: &Movers) -> Result<String> {
        let words = movers.words().into_iter().map(double_quoted).collect::<Vec<_>>().join(", ");
        Ok(format!(
            "{PROGRAM}

if __name__ == \"__main__\":
    sys.exit(main({}, {}, {}, [{words}], again={}, never={}))
",
            double_quoted(&self.scheduler),
            double_quoted(&movers.name),
            movers.count,
            ending::TRY_AGAIN,
            ending::CONFIGURATION,
        ))
    }

    fn start(&self, movers: &Movers) -> Result<Box<dyn Started>> {
        let program = self.render(movers)?;
        let mut child = Command::new("python3")
            .arg("-")
            // As with -P, which an older one does not know.
            .env("PYTHONSAFEPATH", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| Error::io("start", b"python3", error))?;
        // If it ends before it has read it, it says why.
        let _ = child.stdin.take().expect("piped").write_all(program.as_bytes());
        let said = Arc::new(Mutex::new(Said { line: None, complaint: String::new() }));
        let (stdout, stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        let heard = Arc::clone(&said);
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(std::result::Result::ok) {
                let line = serde_json::from_str(&line).ok();
                let mut heard = heard.lock();
                heard.line = line.or(heard.line);
            }
        });
        let heard = Arc::clone(&said);
        thread::spawn(move || {
            for line in BufReader::new(stderr.take(1 << 20)).lines().map_while(std::result::Result::ok) {
                if !line.trim().is_empty() {
                    heard.lock().complaint = line;
                }
            }
        });
        Ok(Box::new(Tasks { child, said, count: movers.count, scheduler: self.scheduler.clone() }))
    }
}

/// What the program prints each time something changes.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Line {
    running: u32,
    pending: u32,
    ended: u32,
    failed: u32,
}

struct Said {
    line: Option<Line>,
    /// The last line of what it complained about.
    complaint: String,
}

/// The program while it runs.
struct Tasks {
    child: Child,
    said: Arc<Mutex<Said>>,
    count: u32,
    scheduler: String,
}

impl Started for Tasks {
    fn name(&self) -> String {
        format!("tasks of Dask at {}", self.scheduler)
    }

    fn look(&mut self) -> Result<Status> {
        let ended = self.child.try_wait().map_err(|error| Error::io("wait for", b"python3", error))?;
        let said = self.said.lock();
        let why = Some(one_line(&said.complaint)).filter(|why| !why.is_empty());
        match (ended, said.line) {
            (Some(status), None) => {
                let why = why.unwrap_or_else(|| status.to_string());
                Err(Error::new(ErrorKind::Usage, format!("the program for Dask ended: {why}")))
            }
            (Some(_), Some(line)) => {
                let failed = self.count.saturating_sub(line.ended);
                Ok(Status { ended: line.ended, failed, why: why.filter(|_| failed > 0), ..Status::default() })
            }
            (None, None) => Ok(Status { pending: self.count, ..Status::default() }),
            (None, Some(line)) => Ok(Status {
                running: line.running,
                pending: line.pending,
                ended: line.ended,
                failed: line.failed,
                why: None,
            }),
        }
    }

    fn stop(&mut self) -> Result<()> {
        if matches!(self.child.try_wait(), Ok(None)) {
            ask_to_end(&self.child);
            see_end(std::slice::from_mut(&mut self.child));
        }
        Ok(())
    }

    fn outlives_us(&self) -> bool {
        false
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}
