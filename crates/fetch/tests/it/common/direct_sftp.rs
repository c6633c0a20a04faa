//! OpenSSH's server of SFTP without ssh: what it says goes through a socket.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use tidegate_fetch::remote::carrier::{SftpCarrier, SftpChannel, SftpProcess};
use tidegate_fetch::remote::servers::ServerSettings;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::sys::sync::Mutex;
use url::Url;

pub const NO_SFTP: &str = "sftp-server is not installed (Debian package openssh-sftp-server)";

/// Begins servers, each with the same options.
#[derive(Debug)]
pub struct Direct {
    program: PathBuf,
    options: Vec<String>,
    begun: AtomicUsize,
    running: Mutex<Vec<Pid>>,
    refuses: AtomicBool,
    damages: AtomicBool,
    /// The flags by which files are opened that are to be written; 0 for those that are asked for.
    writes_by: AtomicU32,
}

impl Direct {
    /// `None` where there is no such program.
    pub fn new(options: &[&str]) -> Option<Arc<Self>> {
        let places = ["/usr/lib/openssh", "/usr/libexec/openssh", "/usr/lib/ssh"];
        let found = places.iter().map(|place| Path::new(place).join("sftp-server"));
        let program =
            testkit::program("sftp-server").or_else(|| found.into_iter().find(|file| file.is_file()))?;
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let (begun, running, refuses, damages, writes_by) = Default::default();
        Some(Arc::new(Self { program, options, begun, running, refuses, damages, writes_by }))
    }

    /// How many were begun.
    pub fn begun(&self) -> usize {
        self.begun.load(Relaxed)
    }

    /// Ends all that run.
    pub fn end_all(&self) {
        for pid in self.running.lock().drain(..) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Ends all that run, and begins none.
    pub fn refuse_all(&self) {
        self.refuses.store(true, Relaxed);
        self.end_all();
    }

    /// Whether none begins.
    pub fn refuses(&self) -> bool {
        self.refuses.load(Relaxed)
    }

    /// Begins them again.
    pub fn allow_all(&self) {
        self.refuses.store(false, Relaxed);
    }

    /// Whether bytes change on their way to servers that begin from now on.
    pub fn damage(&self, damages: bool) {
        self.damages.store(damages, Relaxed);
    }

    /// Servers that begin from now on open files by these flags that are to be written.
    pub fn write_by(&self, flags: u32) {
        self.writes_by.store(flags, Relaxed);
    }

    /// Settings by which hosts are reached so.
    pub fn settings(self: &Arc<Self>, settings: ServerSettings) -> ServerSettings {
        let ssh: Arc<dyn SftpCarrier> = Arc::clone(self) as _;
        ServerSettings { ssh: Some(ssh), ..settings }
    }
}

/// The URL of a path here.
pub fn url(path: &Path) -> Url {
    let url = Url::from_file_path(path).expect("a path");
    Url::parse(&format!("sftp://host{}", url.path())).expect("a URL")
}

impl SftpCarrier for Direct {
    fn begin(&self, _: &Url, _: bool) -> Result<SftpChannel> {
        if self.refuses.load(Relaxed) {
            return Err(Error::new(ErrorKind::Connection, "no server begins"));
        }
        self.begun.fetch_add(1, Relaxed);
        let (mut stream, theirs) = UnixStream::pair().expect("a pair");
        if self.damages.load(Relaxed) {
            stream = damaging(stream);
        }
        if let flags @ 1.. = self.writes_by.load(Relaxed) {
            stream = writing_by(stream, flags);
        }
        let both = theirs.try_clone().expect("cloned");
        let mut command = Command::new(&self.program);
        command.args(&self.options).stdin(OwnedFd::from(both)).stdout(OwnedFd::from(theirs));
        let child = command.stderr(Stdio::null()).spawn().expect("started");
        self.running.lock().extend(Pid::from_raw(child.id() as i32));
        Ok(SftpChannel { stream, process: Box::new(Running(child)) })
    }
}

/// What is changed where much of it is.
pub const SOFT: u8 = b'S';

/// The other end of `stream`, to which bytes change on their way: some that are [`SOFT`].
fn damaging(stream: UnixStream) -> UnixStream {
    changing(stream, |from, to| {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let middle = count / 2;
            if count > 1 << 10 && buffer[middle - 200..middle + 200].iter().all(|&byte| byte == SOFT) {
                buffer[middle] ^= 1;
            }
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
    })
}

/// That a file is opened to be written, by its flags.
pub const WRITE: u32 = 2;
pub const CREATE: u32 = 8;
pub const EMPTY: u32 = 16;

/// The other end of `stream`, to which files that are to be written are opened by `flags`.
fn writing_by(stream: UnixStream, flags: u32) -> UnixStream {
    const OPEN: u8 = 3;
    changing(stream, move |from, to| {
        let mut length = [0; 4];
        while from.read_exact(&mut length).is_ok() {
            let mut packet = vec![0; u32::from_be_bytes(length) as usize];
            from.read_exact(&mut packet).expect("a packet");
            if packet[0] == OPEN {
                let path = u32::from_be_bytes(packet[5..9].try_into().expect("four bytes")) as usize;
                let asked = &mut packet[9 + path..13 + path];
                if asked[3] & WRITE as u8 != 0 {
                    asked.copy_from_slice(&flags.to_be_bytes());
                }
            }
            if to.write_all(&[&length[..], &packet].concat()).is_err() {
                break;
            }
        }
    })
}

/// The other end of `stream`, to which `change` brings what is written.
fn changing(
    stream: UnixStream,
    change: impl FnOnce(&mut UnixStream, &mut UnixStream) + Send + 'static,
) -> UnixStream {
    let (ours, between) = UnixStream::pair().expect("a pair");
    let (mut from, mut to) = (between.try_clone().expect("cloned"), stream.try_clone().expect("cloned"));
    thread::spawn(move || {
        change(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    thread::spawn(move || {
        let (mut from, mut to) = (stream, between);
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    ours
}

struct Running(Child);

impl SftpProcess for Running {
    fn complaint(&mut self) -> Option<Error> {
        Some(Error::new(ErrorKind::Connection, "the server of SFTP ended"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
