//! Sessions of the subsystem `sftp`: hosts where nothing of ours runs, and nothing of ours is started.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tidegate_contract::text::one_line;
use tidegate_fetch::remote::carrier::{SftpCarrier, SftpChannel, SftpProcess};
use tidegate_transfer::error::{Error, ErrorKind, Result};
use url::Url;

use crate::ssh::session::{complaint, end, prepared, refused};
use crate::ssh::target::{SCHEME, Target};

/// How long ssh may take to end once its session has.
const LEAVING: Duration = Duration::from_secs(2);

/// The user's ssh. Nobody is asked for a password.
#[derive(Debug)]
pub(super) struct SshSubsystem {
    words: Vec<String>,
}

impl SshSubsystem {
    /// Runs the command of those words.
    pub const fn new(words: Vec<String>) -> Self {
        Self { words }
    }

    /// ssh with a session at `target`; over a connection of its own unless it `shares` one.
    fn command(&self, target: &Target, shares: bool) -> Command {
        let own: &[&str] = if shares { &[] } else { &["-S", "none"] };
        let mut command = prepared(&self.words, own);
        command.args(["-o", "BatchMode=yes", "-s"]).args(target.arguments()).arg("sftp");
        command
    }
}

/// Whom a URL names.
fn target_of(url: &Url) -> Result<Target> {
    let user = match url.username() {
        "" => String::new(),
        user => format!("{user}@"),
    };
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let host = url.host_str().unwrap_or_default();
    Target::of_url(format!("{SCHEME}{user}{host}{port}").as_bytes()).map(|(target, _)| target)
}

impl SftpCarrier for SshSubsystem {
    fn begin(&self, url: &Url, shares: bool) -> Result<SftpChannel> {
        let target = target_of(url)?;
        let (ours, theirs) = UnixStream::pair().map_err(|error| Error::io("connect to", b"ssh", error))?;
        let both = theirs.try_clone().map_err(|error| Error::io("connect to", b"ssh", error))?;
        let mut command = self.command(&target, shares);
        let mut child = command
            .stdin(OwnedFd::from(both))
            .stdout(OwnedFd::from(theirs))
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| Error::io("start", self.words[0].as_bytes(), error))?;
        // The other end is ssh's alone now.
        drop(command);
        let told = child.stderr.take().map(|stderr| thread::spawn(move || complaint(stderr)));
        let process = SubsystemSession { child, told, place: target.to_string() };
        Ok(SftpChannel { stream: ours, process: Box::new(process) })
    }
}

/// A session of ssh.
struct SubsystemSession {
    child: Child,
    told: Option<JoinHandle<String>>,
    place: String,
}

impl SftpProcess for SubsystemSession {
    fn complaint(&mut self) -> Option<Error> {
        let told = self.told.take()?;
        let until = Instant::now() + LEAVING;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        end(&mut self.child);
        let status = self.child.wait().ok()?;
        let told = told.join().unwrap_or_default();
        Some(why(&self.place, status.code(), &told))
    }
}

impl Drop for SubsystemSession {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Why ssh ended with `code`, where it told `complaint`.
fn why(place: &str, code: Option<i32>, complaint: &str) -> Error {
    let last = complaint.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let last = match one_line(last) {
        last if last.is_empty() => last,
        last => format!(": {last}"),
    };
    if complaint.contains("subsystem request failed") || code == Some(127) {
        let why = format!(
            "{place} has no SFTP server, or none for this user: have its sshd say `Subsystem sftp internal-sftp`{last}"
        );
        return Error::new(ErrorKind::Denied, why);
    }
    refused(place, code, complaint).unwrap_or_else(|| {
        Error::new(ErrorKind::Connection, format!("the session of ssh with {place} ended{last}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_whom_ssh_is_told() {
        for (text, arguments) in [
            ("sftp://host/x", &["--", "host"][..]),
            ("sftp://me@host:2222/x", &["-p", "2222", "--", "me@host"]),
            ("sftp://[::1]/x", &["--", "::1"]),
        ] {
            let target = target_of(&Url::parse(text).expect(text)).expect(text);
            assert_eq!(target.arguments(), arguments, "{text}");
        }
        for text in ["sftp://a%24b@host/", "sftp://-oProxyCommand=x/", "sftp://me@a;b/", "sftp:///x"] {
            let error = target_of(&Url::parse(text).expect(text)).expect_err(text);
            assert!(error.message.contains("is no host for ssh"), "{error}");
        }
    }

    #[test]
    fn why_a_session_ended_is_one_line() {
        for (code, complaint, kind, said) in [
            (255, "subsystem request failed on channel 0\n", ErrorKind::Denied, "has no SFTP server"),
            (127, "sh: /usr/lib/sftp: not found\n", ErrorKind::Denied, "has no SFTP server"),
            (255, "a\nHost key verification failed.\n", ErrorKind::Authentication, "does not trust"),
            (255, "me@host: Permission denied (publickey).\n", ErrorKind::Authentication, "not let in"),
            (
                255,
                "ssh: connect to host h port 22: Connection refused\n",
                ErrorKind::Connection,
                "did not reach",
            ),
            (1, "", ErrorKind::Connection, "ended"),
        ] {
            let error = why("ssh://host", Some(code), complaint);
            assert!(error.kind == kind && error.message.contains(said), "{error}");
            assert!(!error.message.contains('\n') && error.message.contains("ssh://host"), "{error}");
        }
    }
}
