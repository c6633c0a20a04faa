//! A child process: begun so that it dies with the service, asked to stop and then made to, its output bounded.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use super::command::Plan;

/// How long a child may take to stop where it can go on later; then it is killed.
pub(crate) const STOPPING: Duration = Duration::from_secs(10);
/// The most standard output that is kept: the summary of a run with ten thousand failures has some megabytes.
const MAX_OUTPUT: usize = 8 << 20;
/// The last bytes of standard error that are kept.
const MAX_MESSAGES: usize = 64 << 10;

/// How a child ended.
#[derive(Debug)]
pub(crate) struct Exit {
    /// Its status.
    pub status: ExitStatus,
    /// Its standard output; `None` if it was too much.
    pub output: Option<Vec<u8>>,
    /// The end of its standard error.
    pub messages: String,
    /// Whether it was asked to stop.
    pub asked: bool,
}

impl Exit {
    /// The exit code, or the signal that ended it.
    pub fn code(&self) -> Result<i32, i32> {
        self.status.code().ok_or_else(|| self.status.signal().unwrap_or(0))
    }
}

/// Begins children from a thread of its own.
///
/// A child that is to die with its parent dies with the *thread* that began it, and the threads of a runtime come
/// and go. This one stays as long as the service.
#[derive(Clone, Debug)]
pub(crate) struct Spawner {
    orders: mpsc::Sender<Order>,
}

struct Order {
    command: Command,
    begun: oneshot::Sender<io::Result<Child>>,
}

impl Spawner {
    /// Starts the thread; children belong to the current runtime.
    pub fn start() -> io::Result<Self> {
        let (orders, waiting) = mpsc::channel::<Order>();
        let runtime = Handle::current();
        std::thread::Builder::new().name("begins children".to_owned()).spawn(move || {
            let _inside = runtime.enter();
            while let Ok(Order { mut command, begun }) = waiting.recv() {
                // Whoever asked may be gone; the child is killed as it is dropped.
                let _ = begun.send(command.spawn());
            }
        })?;
        Ok(Self { orders })
    }

    async fn spawn(&self, command: Command) -> io::Result<Child> {
        let gone = || io::Error::other("the thread that begins children is gone");
        let (begun, child) = oneshot::channel();
        self.orders.send(Order { command, begun }).map_err(|_| gone())?;
        child.await.map_err(|_| gone())?
    }

    /// Runs `plan` until it ends, by `tidegate with-parent`, which binds its life to ours. Every piece of its
    /// standard output goes to `hear` as well, and every line of its standard error to `listen`, as they come.
    pub async fn run(
        &self,
        tidegate: &Path,
        plan: &Plan,
        mut stop: watch::Receiver<bool>,
        hear: impl FnMut(&[u8]) + Send,
        listen: impl FnMut(&str) + Send,
    ) -> io::Result<Exit> {
        let mut command = Command::new(tidegate);
        command
            .arg("with-parent")
            .arg(std::process::id().to_string())
            .arg(&plan.program)
            .args(&plan.arguments);
        command.envs(plan.environment.iter().map(|(name, value)| (name, value)));
        // What opens the service's own door is none of a job's business.
        command.env_remove("TIDEGATE_TOKEN").env_remove("TIDEGATE_DATABASE").env("LC_ALL", "C");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // Ctrl-C at the service's terminal is for the service, which stops its jobs in its own time.
        command.process_group(0);
        let mut child = self.spawn(command).await?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let write = async {
            if let Some(mut stdin) = stdin {
                // One that does not read what it is given says so itself.
                let _ = stdin.write_all(&plan.input).await;
            }
        };
        let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let wait = async {
            tokio::select! {
                status = child.wait() => return status.map(|status| (status, false)),
                () = asked(&mut stop) => {}
            }
            if let Some(id) = id {
                let _ = kill_process(id, Signal::INT);
            }
            if let Ok(status) = tokio::time::timeout(STOPPING, child.wait()).await {
                return status.map(|status| (status, true));
            }
            child.start_kill()?;
            child.wait().await.map(|status| (status, true))
        };
        let all = async { tokio::join!(wait, write, head(stdout, hear), tail(stderr, listen)) };
        let (ended, (), output, messages) = all.await;
        let (status, asked) = ended?;
        Ok(Exit { status, output, messages: String::from_utf8_lossy(&messages).into_owned(), asked })
    }
}

/// Waits until somebody wants it to stop; for ever if nobody can any more.
async fn asked(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The first bytes of a stream, and `None` if there are more; it is read to its end all the same, so that the
/// child is not held up.
async fn head(stream: Option<impl AsyncRead + Unpin>, mut hear: impl FnMut(&[u8])) -> Option<Vec<u8>> {
    let mut kept = Some(Vec::new());
    let mut stream = stream?;
    let mut piece = vec![0; 16 << 10];
    while let Ok(count @ 1..) = stream.read(&mut piece).await {
        hear(&piece[..count]);
        if let Some(bytes) = &mut kept {
            bytes.extend_from_slice(&piece[..count]);
        }
        kept = kept.filter(|bytes| bytes.len() <= MAX_OUTPUT);
    }
    kept
}

/// The last bytes of a stream, whose lines are handed on as they come; of a longer one the beginning is left out.
async fn tail(stream: Option<impl AsyncRead + Unpin>, mut listen: impl FnMut(&str)) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut line = Vec::new();
    let Some(mut stream) = stream else { return kept };
    let mut piece = vec![0; 4 << 10];
    while let Ok(count @ 1..) = stream.read(&mut piece).await {
        kept.extend_from_slice(&piece[..count]);
        for part in piece[..count].split_inclusive(|&byte| byte == b'\n') {
            line.extend_from_slice(part);
            if line.len() > MAX_MESSAGES {
                line.clear();
            } else if part.ends_with(b"\n") {
                listen(String::from_utf8_lossy(&line).trim_end());
                line.clear();
            }
        }
        if kept.len() > 2 * MAX_MESSAGES {
            kept.drain(..kept.len() - MAX_MESSAGES);
        }
    }
    let surplus = kept.len().saturating_sub(MAX_MESSAGES);
    kept.drain(..surplus);
    kept
}
