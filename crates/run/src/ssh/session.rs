//! An endpoint on another host that ssh starts and that ends with its session.

use std::io::{self, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_contract::text::one_line;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::wire::ticket::Address;

use crate::ssh::SshArgs;
use crate::ssh::conversation::{Answer, Asked, Order, Question, Ready, Report, SILENCE, Wanted, hear, say};
use crate::ssh::install::{Executable, Placed, SHELL, UNSAFE};
use crate::ssh::noise::skip_noise;
use crate::ssh::target::{SCHEME, Target};

/// This program, beside those of other hosts.
const OURS: &str = concat!("tidegate ", env!("CARGO_PKG_VERSION"));

/// How long somebody may take to type a password.
const TYPING: Duration = Duration::from_secs(300);

/// How long ssh may take where nobody types.
const CONNECTING: Duration = Duration::from_secs(60);

/// How long it may take to end once it is no longer needed.
const LEAVING: Duration = Duration::from_secs(3);

/// How often it is looked whether the user still wants it.
const GLANCE: Duration = Duration::from_millis(50);

/// What is kept of what ssh and the programs behind it complain about.
const MAX_COMPLAINT: usize = 4 << 10;

/// A session of ssh with an endpoint at its other end.
#[derive(Debug)]
pub struct Session {
    child: Mutex<Child>,
    stdin: Mutex<Option<ChildStdin>>,
    /// How ssh is started, for more connections.
    pub ssh: Ssh,
    /// What the endpoint said of itself.
    pub ready: Ready,
    /// Its address; the host is what ssh makes of the one that was typed.
    pub endpoint: Address,
    /// Connections that it was asked for and could not make.
    pub not_dialled: Mutex<Receiver<String>>,
    over: Arc<AtomicBool>,
}

/// How ssh is started.
#[derive(Clone, Debug)]
pub struct Ssh {
    words: Vec<String>,
    target: Target,
    program: String,
}

impl Ssh {
    /// As the user wants it.
    pub fn new(args: &SshArgs, target: &Target) -> Result<Self> {
        let words = args.command.words()?;
        Ok(Self { words, target: target.clone(), program: args.remote_program()? })
    }

    /// Where to, for people.
    pub fn place(&self) -> String {
        self.target.to_string()
    }

    /// A command that runs Tidegate at the other end. `options` stand before ours.
    pub fn command(&self, options: &[&str]) -> Command {
        self.running(&self.program, options)
    }

    /// A command that runs `program` at the other end.
    pub fn running(&self, program: &str, options: &[&str]) -> Command {
        let mut command = prepared(&self.words, options);
        command.args(self.target.arguments()).arg(program);
        command
    }

    /// What ssh makes of the host that was typed, by its configuration.
    fn host(&self) -> String {
        let typed = self.target.host().to_owned();
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).arg("-G").args(self.target.arguments());
        let said = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok();
        let said = said.filter(|said| said.status.success());
        let text = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default();
        let named = text.lines().find_map(|line| line.strip_prefix("hostname "));
        named.filter(|name| !name.is_empty()).map_or(typed, str::to_owned)
    }

    /// Why it ended before anything was said.
    pub fn failed(&self, status: ExitStatus, complaint: &str) -> Error {
        let place = self.place();
        let last = complaint.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let last = one_line(last);
        let because = |words: &str| if words.is_empty() { String::new() } else { format!(": {words}") };
        let with_path =
            "install it there, have --install-remote do that, or name where it is by --remote-path";
        if status.code() == Some(127)
            && let Some((_, path)) = complaint.rsplit_once(UNSAFE)
        {
            let path = one_line(path.lines().next().unwrap_or_default());
            let why = format!(
                "the `tidegate` in ~/.cache/tidegate at {place} is not run, since {path} is a link, belongs to somebody else or can be written to by others: replace it, chmod go-w there, or {with_path}"
            );
            return Error::new(ErrorKind::Denied, why);
        }
        if let Some(error) = refused(&place, status.code(), complaint) {
            return error;
        }
        let (kind, why) = match status.code() {
            Some(127) => (
                ErrorKind::NotFound,
                format!(
                    "there is no `tidegate` at {place} on the PATH of a command, in ~/.local/bin or in ~/.cargo/bin: {with_path}; {}/PATH needs none there",
                    place.replacen(SCHEME, "sftp://", 1)
                ),
            ),
            Some(126) => {
                (ErrorKind::Denied, format!("`tidegate` at {place} cannot be run{}", because(&last)))
            }
            Some(_) if complaint.contains("--once of tidegate") => (
                ErrorKind::Protocol,
                format!(
                    "`tidegate` at {place} does not know what {OURS} asks of it{}: update the older one, or put this one there by --install-remote",
                    because(&last)
                ),
            ),
            Some(_) if complaint.contains("--once") => (
                ErrorKind::Protocol,
                format!(
                    "the `tidegate` at {place} is too old to be started over ssh by {OURS}: update it there, or put this one there by --install-remote"
                ),
            ),
            _ => {
                (ErrorKind::Connection, format!("nothing came from `tidegate` at {place}{}", because(&last)))
            }
        };
        Error::new(kind, why)
    }
}

/// A command of ssh of those words, to which the host and what is run there are added.
pub(super) fn prepared(words: &[String], options: &[&str]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    // No terminal, which changes bytes; nobody else's agent and windows; no ports that are forwarded already.
    command.args(["-T", "-a", "-x", "-o", "ClearAllForwardings=yes"]).args(options);
    command
}

/// Why ssh itself ended with `code`, if it did and not what it ran.
pub(super) fn refused(place: &str, code: Option<i32>, complaint: &str) -> Option<Error> {
    if code != Some(255) {
        return None;
    }
    let last = complaint.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let because = if last.is_empty() { String::new() } else { format!(": {}", one_line(last)) };
    let (kind, why) = if complaint.contains("Host key verification failed") {
        let why = "its host key is not the known one, or not known yet; `ssh` there says more";
        (ErrorKind::Authentication, format!("ssh does not trust {place}: {why}"))
    } else if complaint.contains("Permission denied") {
        (ErrorKind::Authentication, format!("ssh was not let in at {place}{because}"))
    } else {
        (ErrorKind::Connection, format!("ssh did not reach {place}{because}"))
    };
    Some(Error::new(kind, why))
}

impl Session {
    /// Starts an endpoint at the other end, where `program` is put first if there is one. Nobody is asked for a password
    /// where `quiet`.
    pub fn start(
        ssh: Ssh,
        asked: Asked,
        program: Option<Executable>,
        quiet: bool,
        interrupt: &Interrupt,
    ) -> Result<Arc<Self>> {
        let typed = !quiet && std::fs::File::open("/dev/tty").is_ok();
        let options: &[&str] = if typed { &[] } else { &["-o", "BatchMode=yes"] };
        let mut command = match program {
            Some(_) => ssh.running(SHELL, options),
            None => ssh.command(options),
        };
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| Error::io("start", ssh.words[0].as_bytes(), error))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (stdin, stdout) = (stdin.expect("piped"), stdout.expect("piped"));
        let complaint = thread::spawn(move || complaint(stderr.expect("piped")));
        let host = thread::spawn({
            let ssh = ssh.clone();
            move || ssh.host()
        });
        let question = Question::new(Wanted::Endpoint(asked));
        let (answers, reports) = converse(stdin, stdout, question, program, ssh.place());
        let patience = if typed { TYPING } else { CONNECTING };
        let mut heard = Instant::now();
        let answer = loop {
            if interrupt.is_raised() {
                end(&mut child);
                return Err(Error::new(ErrorKind::Interrupted, "interrupted; nothing was begun"));
            }
            match answers.recv_timeout(GLANCE) {
                Ok(Heard::Busy) => heard = Instant::now(),
                Ok(Heard::Answer(answer, stdin)) => break Some(answer.map(|answer| (answer, stdin))),
                Err(RecvTimeoutError::Timeout) if heard.elapsed() < patience => {}
                Err(RecvTimeoutError::Timeout) => {
                    end(&mut child);
                    let why = format!("ssh to {} said nothing for {} s", ssh.place(), patience.as_secs());
                    return Err(Error::new(ErrorKind::Connection, why));
                }
                Err(RecvTimeoutError::Disconnected) => break None,
            }
        };
        let (ready, stdin) = match answer {
            Some(Ok((Answer::Ready(ready), stdin))) => (ready, stdin),
            Some(Ok((Answer::Refused(error), _))) => {
                end(&mut child);
                return Err(error.within(format!("`tidegate` at {}", ssh.place())));
            }
            Some(Err(error)) => {
                end(&mut child);
                return Err(error);
            }
            // Who interrupts us interrupts ssh, too, where both were started at a terminal.
            None if interrupt.is_raised() => {
                end(&mut child);
                return Err(Error::new(ErrorKind::Interrupted, "interrupted; nothing was begun"));
            }
            None => {
                let status = child.wait().map_err(|error| Error::io("wait for", b"ssh", error))?;
                return Err(ssh.failed(status, &complaint.join().unwrap_or_default()));
            }
        };
        let mut endpoint = Address::parse(ready.endpoint.as_bytes())
            .map_err(|error| error.within(format!("what `tidegate` at {} said", ssh.place())))?;
        endpoint.host = host.join().unwrap_or_else(|_| ssh.target.host().to_owned());
        let session = Arc::new(Self {
            child: Mutex::new(child),
            stdin: Mutex::new(Some(stdin)),
            ssh,
            ready,
            endpoint,
            not_dialled: Mutex::new(reports),
            over: Arc::default(),
        });
        session.keep_alive();
        Ok(session)
    }

    /// Says something to the endpoint's end of ssh.
    pub fn order(&self, order: &Order) -> io::Result<()> {
        let mut stdin = self.stdin.lock();
        let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "the session of ssh has ended");
        say(stdin.as_mut().ok_or_else(gone)?, order)
    }

    /// Where its endpoint may be found, in the order in which that is tried.
    pub fn candidates(&self, advertised: Option<&str>) -> Vec<SocketAddr> {
        use std::net::ToSocketAddrs;
        let hosts: Vec<&str> = match advertised {
            Some(host) => vec![host],
            None => [Some(&*self.endpoint.host), self.ready.host.as_deref()].into_iter().flatten().collect(),
        };
        let found = |host| (host, self.endpoint.port).to_socket_addrs().into_iter().flatten();
        let mut candidates: Vec<SocketAddr> = hosts.into_iter().flat_map(found).collect();
        let mut seen = std::collections::HashSet::new();
        candidates.retain(|candidate| seen.insert(*candidate));
        candidates
    }

    /// Tells the other end now and then that we are here, as long as the session lasts.
    fn keep_alive(self: &Arc<Self>) {
        let (session, over) = (Arc::downgrade(self), Arc::clone(&self.over));
        thread::spawn(move || {
            let mut said = Instant::now();
            while !over.load(Relaxed) {
                thread::sleep(Duration::from_millis(200));
                if said.elapsed() < SILENCE / 6 {
                    continue;
                }
                said = Instant::now();
                let Some(session) = session.upgrade() else { return };
                if session.order(&Order::Alive).is_err() {
                    return;
                }
            }
        });
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        drop(self.stdin.get_mut().take());
        let child = self.child.get_mut();
        let until = Instant::now() + LEAVING;
        while Instant::now() < until {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        end(child);
    }
}

/// Ends a child and waits for it.
pub fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// The end of what is complained about.
pub fn complaint(mut from: impl Read) -> String {
    let (mut kept, mut buffer) = (Vec::new(), [0; 1024]);
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..n]);
        tracing::debug!("ssh: {}", one_line(&String::from_utf8_lossy(&buffer[..n])));
        let surplus = kept.len().saturating_sub(MAX_COMPLAINT);
        kept.drain(..surplus);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// What is heard of the other end until it serves.
enum Heard {
    /// It goes on.
    Busy,
    /// How it answered, and what it listens to from then on.
    Answer(Result<Answer>, ChildStdin),
}

/// Puts `program` there if there is one, asks the question, and listens: for the answer, then for what is reported. Where
/// nothing comes the senders are dropped.
fn converse(
    mut stdin: ChildStdin,
    stdout: impl Read + Send + 'static,
    question: Question,
    program: Option<Executable>,
    place: String,
) -> (Receiver<Heard>, Receiver<String>) {
    let (hear_of, answers) = mpsc::channel();
    let (report, reports) = mpsc::channel();
    thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        let mark = question.mark();
        let put = program.map(|program| {
            let busy = || drop(hear_of.send(Heard::Busy));
            program.put((&mut stdin, &mut stdout), &mark, &place, busy)
        });
        match put {
            None | Some(Ok(Placed::Ready)) => {}
            Some(Ok(Placed::Silent)) => return,
            Some(Err(error)) => return drop(hear_of.send(Heard::Answer(Err(error), stdin))),
        }
        // If it has ended already, it says why by its status.
        let _ = say(&mut stdin, &question);
        let answer = match skip_noise(&mut stdout, mark.as_bytes()) {
            Ok(true) => match hear(&mut stdout) {
                Ok(answer) => answer.map(Ok),
                Err(error) => Some(Err(Error::protocol(format!("an answer that cannot be read: {error}")))),
            },
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        };
        let Some(answer) = answer else { return };
        let answer = answer.map_err(|error| error.within(format!("the shell at {place}")));
        let _ = hear_of.send(Heard::Answer(answer, stdin));
        while let Ok(Some(Report::NotDialled(why))) = hear(&mut stdout) {
            let _ = report.send(why);
        }
    });
    (answers, reports)
}
