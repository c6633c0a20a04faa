//! Runs a program to its end, or until enough was seen of it: its output read with a bound, its time bounded, killed when
//! nobody waits any more.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tidegate_spec::run::Run;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use crate::sampler::{Failure, SamplerError};

/// The most standard output that is kept; a report of 512 streams has less than 1 MiB.
const MAX_OUTPUT: usize = 16 << 20;
/// The longest line of standard error that is looked at.
const MAX_LINE: u64 = 16 << 10;

/// How a program ended.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    /// Its status.
    pub status: ExitStatus,
    /// Its standard output.
    pub output: Vec<u8>,
    /// From its start to its end.
    pub spent: Duration,
}

impl ProgramOutput {
    /// How it ended, in words.
    pub fn how(&self) -> String {
        match self.status.code() {
            Some(code) => format!("exit status {code}"),
            None => "killed by a signal".to_owned(),
        }
    }
}

/// How it came to its end.
#[derive(Debug)]
pub(crate) enum ProgramEnd<T> {
    /// By itself.
    Itself(ProgramOutput),
    /// It was stopped, as this was seen.
    Stopped(T),
}

/// A program to be run.
pub(crate) struct Invocation {
    name: String,
    package: &'static str,
    command: Command,
    input: Vec<u8>,
}

impl Invocation {
    /// `program`, which comes with `package`.
    pub fn new(program: impl AsRef<OsStr>, package: &'static str) -> Self {
        let program = program.as_ref();
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // What it prints is read by a program; what the service keeps to itself is none of its business.
        command.env("LC_ALL", "C").env_remove("TIDEGATE_TOKEN").env_remove("TIDEGATE_DATABASE");
        Self { name: program.to_string_lossy().into_owned(), package, command, input: Vec::new() }
    }

    /// Our own `program`, which reads what it is to do: a command line can be read by every user of the host.
    pub fn ours(program: &Path, run: &Run) -> Self {
        let mut ours = Self::new(program, "tidegate");
        // Plain data is always written.
        ours.args(["run", "-"]).input(serde_json::to_vec(run).unwrap_or_default());
        ours
    }

    /// What it reads.
    #[cfg(test)]
    pub fn told(&self) -> String {
        String::from_utf8(self.input.clone()).expect("text")
    }

    /// Adds an argument.
    pub fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Self {
        self.command.arg(argument);
        self
    }

    /// Adds several.
    pub fn args<S: AsRef<OsStr>>(&mut self, arguments: impl IntoIterator<Item = S>) -> &mut Self {
        self.command.args(arguments);
        self
    }

    /// Tells it a secret: other users can read a command line, but not its environment.
    pub fn secret(&mut self, variable: &str, value: &str) -> &mut Self {
        self.command.env(variable, value);
        self
    }

    /// Gives it `input` to read.
    pub fn input(&mut self, input: Vec<u8>) -> &mut Self {
        self.input = input;
        self
    }

    /// Runs it for `limit` at most; every line of its standard error goes to `line` as it comes.
    pub async fn run(
        self,
        limit: Duration,
        line: impl FnMut(&str, Instant) + Send,
    ) -> Result<ProgramOutput, SamplerError> {
        match self.run_until(limit, line, |_| std::future::pending::<Infallible>()).await? {
            ProgramEnd::Itself(output) => Ok(output),
            ProgramEnd::Stopped(never) => match never {},
        }
    }

    /// The same, but it is stopped as soon as there is what `enough` makes of its process.
    pub(crate) async fn run_until<T, Enough: Future<Output = T>>(
        mut self,
        limit: Duration,
        line: impl FnMut(&str, Instant) + Send,
        enough: impl FnOnce(u32) -> Enough,
    ) -> Result<ProgramEnd<T>, SamplerError> {
        let started = Instant::now();
        let mut child = self.command.spawn().map_err(|error| self.not_started(&error))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let input = std::mem::take(&mut self.input);
        let write = async {
            if let Some(mut stdin) = stdin {
                // One that does not read what it is given says so itself.
                let _ = stdin.write_all(&input).await;
            }
        };
        let enough = child.id().map(enough);
        let enough = async {
            match enough {
                Some(enough) => enough.await,
                None => std::future::pending().await,
            }
        };
        let all = async {
            let ((), output, ()) = tokio::join!(write, whole(stdout), lines(stderr, line));
            (child.wait().await, output)
        };
        // The child is killed as it is dropped.
        let (status, output) = tokio::select! {
            ended = all => ended,
            seen = enough => return Ok(ProgramEnd::Stopped(seen)),
            () = tokio::time::sleep(limit) => {
                let why =
                    format!("{} did not end within {:.0} s and was stopped", self.name, limit.as_secs_f64());
                return Err(SamplerError::new(Failure::Late, why));
            }
        };
        let broken = |error: std::io::Error| {
            SamplerError::new(Failure::Failed, format!("cannot follow {}: {error}", self.name))
        };
        let (status, output) = (status.map_err(broken)?, output.map_err(broken)?);
        Ok(ProgramEnd::Itself(ProgramOutput { status, output, spent: started.elapsed() }))
    }

    fn not_started(&self, error: &std::io::Error) -> SamplerError {
        match error.kind() {
            ErrorKind::NotFound => SamplerError::new(
                Failure::Missing,
                format!("{} is not installed here: install {}", self.name, self.package),
            ),
            _ => SamplerError::new(Failure::Missing, format!("{} cannot be started: {error}", self.name)),
        }
    }
}

/// As every user of the host sees it: without environment and input.
impl fmt::Debug for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entry(&self.name).entries(self.command.as_std().get_args()).finish()
    }
}

async fn whole(stream: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(MAX_OUTPUT as u64 + 1).read_to_end(&mut bytes).await?;
    }
    if bytes.len() > MAX_OUTPUT {
        return Err(std::io::Error::other(format!("it printed more than {} MiB", MAX_OUTPUT >> 20)));
    }
    Ok(bytes)
}

async fn lines(stream: Option<impl AsyncRead + Unpin>, mut line: impl FnMut(&str, Instant)) {
    let Some(stream) = stream else { return };
    let mut stream = BufReader::new(stream);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        match (&mut stream).take(MAX_LINE).read_until(b'\n', &mut bytes).await {
            Ok(1..) => line(String::from_utf8_lossy(&bytes).trim_end(), Instant::now()),
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, limit: Duration) -> (Result<ProgramOutput, SamplerError>, Vec<String>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let mut seen = Vec::new();
        let mut program = Invocation::new("sh", "dash");
        program.args(["-c", script]).input(b"given\n".to_vec());
        let ended = runtime.block_on(program.run(limit, |line, _| seen.push(line.to_owned())));
        (ended, seen)
    }

    #[test]
    fn output_input_and_messages_are_told_apart() {
        let (ended, seen) = run("read x; echo out $x; echo one >&2; printf two >&2; exit 3", ENOUGH);
        let ended = ended.expect("it ran");
        assert_eq!((ended.output.as_slice(), ended.how().as_str()), (&b"out given\n"[..], "exit status 3"));
        assert_eq!(seen, ["one", "two"]);
    }

    #[test]
    fn what_does_not_end_is_stopped() {
        let (ended, _) = run("exec sleep 600", Duration::from_millis(100));
        assert_eq!(ended.expect_err("too late").failure, Failure::Late);
    }

    #[test]
    fn what_has_shown_enough_is_stopped() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let until = |script: &str| {
            let mut program = Invocation::new("sh", "dash");
            program.args(["-c", script]);
            let seen = |pid| async move {
                tokio::time::sleep(Duration::from_millis(200)).await;
                pid
            };
            runtime.block_on(program.run_until(ENOUGH, |_, _| {}, seen)).expect("it ran")
        };
        let ProgramEnd::Stopped(pid) = until("exec sleep 600") else { panic!("it slept") };
        let gone = Instant::now() + ENOUGH;
        while std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("sleep"))
        {
            assert!(Instant::now() < gone, "{pid} is there still");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(matches!(until("exit 3"), ProgramEnd::Itself(output) if output.status.code() == Some(3)));
    }

    #[test]
    fn what_prints_without_end_is_stopped() {
        let (ended, _) = run("exec cat /dev/zero", ENOUGH);
        assert!(ended.expect_err("too much").to_string().contains("16 MiB"));
        let (ended, seen) = run("head -c 100000 /dev/zero >&2", ENOUGH);
        assert!(ended.is_ok() && seen.iter().all(|line| line.len() as u64 <= MAX_LINE));
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let program = Invocation::new("no-such-program-here", "a package");
        let error = runtime.block_on(program.run(ENOUGH, |_, _| {})).expect_err("missing");
        assert_eq!(error.failure, Failure::Missing);
        assert_eq!(error.to_string(), "no-such-program-here is not installed here: install a package");
    }

    /// Enough for anything here.
    const ENOUGH: Duration = Duration::from_secs(30);
}
