//! An engine's own commands: asked, bounded in time, and read leniently.

use std::io::{self, Read, Write};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tidegate_contract::text::one_line;
use tidegate_transfer::error::{Error, ErrorKind, Result, usage};

/// How long a command may take: one that waits for a controller that is gone tries for a minute itself.
const PATIENCE: Duration = Duration::from_secs(90);

/// A command of an engine, which comes with `package`.
pub struct Tool {
    /// Its name.
    pub program: &'static str,
    /// What is to be installed where it is missing.
    pub package: &'static str,
}

impl Tool {
    /// What it prints when it is given `input`. What it complains about is the error.
    pub fn ask(&self, arguments: &[&str], input: &str) -> Result<String> {
        let output = self.run(arguments, input)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(self.complaint(&output))
    }

    /// The same, whatever it comes to.
    pub fn run(&self, arguments: &[&str], input: &str) -> Result<Output> {
        let mut command = Command::new(self.program);
        command.args(arguments).env("LC_ALL", "C");
        // What opens the service's own door is none of an engine's business, which may keep what it sees.
        command.env_remove("TIDEGATE_TOKEN").env_remove("TIDEGATE_DATABASE");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| self.not_started(&error))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (read, reading) = mpsc::channel();
        let whole = |mut stream: Box<dyn Read + Send>, read: mpsc::Sender<(bool, Vec<u8>)>, is_stdout| {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                let _ = stream.read_to_end(&mut bytes);
                let _ = read.send((is_stdout, bytes));
            });
        };
        whole(Box::new(stdout.expect("piped")), read.clone(), true);
        whole(Box::new(stderr.expect("piped")), read, false);
        let written = input.to_owned();
        // One that does not read what it is given says so itself.
        thread::spawn(move || stdin.expect("piped").write_all(written.as_bytes()));
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let Ok((is_stdout, bytes)) = reading.recv_timeout(PATIENCE) else {
                let _ = child.kill();
                let _ = child.wait();
                let why =
                    format!("{} did not end within {} s and was stopped", self.program, PATIENCE.as_secs());
                return Err(Error::new(ErrorKind::Connection, why));
            };
            *(if is_stdout { &mut stdout } else { &mut stderr }) = bytes;
        }
        let status = child.wait().map_err(|error| Error::io("wait for", self.program.as_bytes(), error))?;
        Ok(Output { status, stdout, stderr })
    }

    /// Why it did not do what it was asked.
    pub fn complaint(&self, output: &Output) -> Error {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
        let said = lines.collect::<Vec<_>>().join("; ");
        let why = if said.is_empty() { output.status.to_string() } else { one_line(&said) };
        Error::new(ErrorKind::Connection, format!("{}: {why}", self.program))
    }

    fn not_started(&self, error: &io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::NotFound => {
                usage(format!("{} is not installed here: install {}", self.program, self.package))
            }
            _ => usage(format!("{} cannot be run: {error}", self.program)),
        }
    }
}
