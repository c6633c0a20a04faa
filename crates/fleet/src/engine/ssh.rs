//! Hosts that ssh reaches: a mover a session. What it is told goes over standard input, never in an argument list.

use std::fs;
use std::process::{Command, ExitStatus};

use tidegate_contract::text::one_line;
use tidegate_run::ssh::target::Target;
use tidegate_run::ssh::{Ssh, SshArgs, search_path};
use tidegate_transfer::error::{Error, Result, Retry, usage};

use crate::engine::children::{Children, Launch};
use crate::engine::quoting::{shell_word, shell_words};
use crate::engine::{Engine, Movers, Started, ending};

/// ssh's own options: nobody is asked for a password, and a host that is gone is noticed within a minute.
const OPTIONS: [&str; 6] =
    ["-o", "BatchMode=yes", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3"];

/// A mover's words, of variables that a shell has read.
const MOVER: &str = r#"mover --service "$service" --token-file - ${ca:+--server-ca "$ca"}"#;

/// Hosts, one after another as movers are wanted.
#[derive(Debug)]
pub struct Hosts {
    /// Where movers run.
    pub hosts: Vec<Target>,
    /// How ssh is run.
    pub args: SshArgs,
}

impl Hosts {
    /// What a shell there runs: it reads what [`told`] says and the token, and ends the mover when its standard input ends,
    /// as it does when we do. One line without single quotes and backslashes, which every login shell hands on alike.
    fn attended(&self) -> Result<String> {
        Ok(format!(
            r#"exec sh -c '{path} IFS= read -r service && IFS= read -r ca && IFS= read -r token || exit {never}; exec 3<&0; echo "$token" | {program} {MOVER} 3<&- & mover=$!; {{ cat; kill "$mover"; }} <&3 >/dev/null 2>&1 & watch=$!; exec 3<&-; wait "$mover"; status=$?; kill "$watch"; exit "$status"'"#,
            path = search_path(),
            program = self.args.remote_tidegate()?,
            never = ending::CONFIGURATION,
        ))
    }
}

impl Engine for Hosts {
    fn render(&self, movers: &Movers) -> Result<String> {
        let remote = format!(
            r#"exec sh -c '{} IFS= read -r service; IFS= read -r ca; exec {} {MOVER}'"#,
            search_path(),
            self.args.remote_tidegate()?,
        );
        let mut sessions = String::new();
        for host in self.placed(movers) {
            // The command as it is run otherwise, so that the two cannot differ.
            let command = Ssh::new(&self.args, host)?.running(&remote, &OPTIONS);
            let words = [command.get_program()].into_iter().chain(command.get_args());
            let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let (_, words) = words.split_last().unwrap_or((&"", &[]));
            sessions += &format!("told | {} \"$remote\" &\n", shell_words(words)?);
        }
        Ok(format!(
            r"#!/bin/sh
# A mover a session. The token goes over standard input; a mover stays until nothing is left for it to do.
told() {{
    printf %s {}
    cat {}
}}
remote={}
{sessions}wait
",
            shell_word(&told(movers)?)?,
            shell_word(&movers.token_file)?,
            shell_word(&remote)?,
        ))
    }

    fn start(&self, movers: &Movers) -> Result<Box<dyn Started>> {
        let remote = self.attended()?;
        let mut launches: Vec<Box<dyn Launch>> = Vec::new();
        for host in self.placed(movers) {
            let ssh = Ssh::new(&self.args, host)?;
            launches.push(Box::new(There { ssh, remote: remote.clone(), movers: movers.clone() }));
        }
        Ok(Box::new(Children::start("movers over ssh".to_owned(), launches)?))
    }
}

impl Hosts {
    /// The host of each mover.
    fn placed(&self, movers: &Movers) -> Vec<&Target> {
        self.hosts.iter().cycle().take(movers.count as usize).collect()
    }
}

/// What each mover is told before the token: the service, and who certifies it, a line each.
fn told(movers: &Movers) -> Result<String> {
    let ca = movers.server_ca.as_deref().unwrap_or_default();
    match [&movers.service, ca].iter().find(|word| word.contains('\n')) {
        Some(word) => Err(usage(format!("{word:?} holds a line break, which ssh: cannot hand on"))),
        None => Ok(format!("{}\n{ca}\n", movers.service)),
    }
}

/// A mover there.
struct There {
    ssh: Ssh,
    remote: String,
    movers: Movers,
}

impl Launch for There {
    fn command(&self) -> Result<(Command, Option<Vec<u8>>)> {
        let path = &self.movers.token_file;
        let token = fs::read_to_string(path).map_err(|error| Error::io("read", path.as_bytes(), error))?;
        let told = format!("{}{}\n", told(&self.movers)?, token.trim());
        Ok((self.ssh.running(&self.remote, &OPTIONS), Some(told.into_bytes())))
    }

    fn explain(&self, status: ExitStatus, complaint: &str) -> (String, bool) {
        let place = self.ssh.place();
        let last = complaint.lines().rev().find(|line| !line.trim().is_empty()).map(one_line);
        let last = last.map_or_else(String::new, |last| format!(": {last}"));
        match status.code() {
            Some(ending::CONFIGURATION) => (format!("the mover at {place} cannot run{last}"), false),
            Some(ending::TRY_AGAIN) => (format!("the mover at {place} left{last}"), true),
            Some(126 | 127 | 255) => {
                let error = self.ssh.failed(status, complaint);
                let may_help = error.kind.retry() != Retry::Never;
                (error.message, may_help)
            }
            _ => (format!("the mover at {place} ended by {status}{last}"), true),
        }
    }
}
