//! `--refresh-url-with`: a program of the user's gets a fresh link in place of one that a server refuses.
//!
//! It is named on the command line and nowhere else: what a job, a service or a list says never starts a program.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tidegate_contract::text::{one_line, shorten};
use tidegate_fetch::list;
use tidegate_fetch::remote::fresh::Refresh;
use tidegate_transfer::error::{Error, ErrorKind, Result, usage};
use tidegate_transfer::sys::thread;
use tidegate_transfer::transfer::Interrupt;
use url::Url;

use crate::words;

/// How long it may take.
const MAX_TIME: Duration = Duration::from_secs(60);
/// How often a running one is looked at.
const GLANCE: Duration = Duration::from_millis(10);
/// How long what it said is waited for after its end: a child of its own may hold the pipes.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Most that is read of what it says.
const MAX_SAID: u64 = 64 << 10;

/// What runs `command`.
///
/// # Errors
/// It names no program.
pub fn by(command: &str, interrupt: Interrupt) -> Result<Refresh> {
    let wrong = |why: &str| usage(format!("--refresh-url-with {}: {why}", one_line(command)));
    let words = words::split(command).map_err(|why| wrong(&why))?;
    if words.first().is_none_or(String::is_empty) {
        return Err(wrong("it names no program"));
    }
    Ok(Arc::new(move |url| {
        run(&words, url, &interrupt, MAX_TIME)
            .map_err(|why| Error::new(ErrorKind::Denied, format!("{} {why}", one_line(&words[0]))))
    }))
}

/// The URL that the program prints; or what it did instead.
fn run(words: &[String], url: &Url, interrupt: &Interrupt, most: Duration) -> Result<Url, String> {
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .arg(url.as_str())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C is for us.
        .process_group(0)
        .spawn()
        .map_err(|error| format!("does not start: {error}"))?;
    let said = child.stdout.take().map(hear);
    let complaints = child.stderr.take().map(hear);
    let status = ended(&mut child, interrupt, most)?;
    let text = |heard: Option<Receiver<String>>| {
        heard.and_then(|heard| heard.recv_timeout(LAST_WORDS).ok()).unwrap_or_default()
    };
    let (said, complaints) = (text(said), text(complaints));
    let last = complaints.lines().map(str::trim).rfind(|line| !line.is_empty());
    let last = last.map_or_else(String::new, |line| format!(": {}", shorten(one_line(line))));
    if !status.success() {
        return Err(format!("ended with {status}{last}"));
    }
    let line = said.lines().map(str::trim).find(|line| !line.is_empty());
    let line = line.ok_or_else(|| format!("printed no URL{last}"))?;
    match list::url(line) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
        _ => Err(format!("printed what is no http or https URL{last}")),
    }
}

/// How the program ended, if it did within `most`; else it is made to.
fn ended(child: &mut Child, interrupt: &Interrupt, most: Duration) -> Result<ExitStatus, String> {
    let until = Instant::now() + most;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() < until && !interrupt.is_raised() => thread::sleep(GLANCE),
            failed => {
                let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                let _ = group.map(|group| kill_process_group(group, Signal::KILL));
                let _ = child.wait();
                return Err(match failed {
                    Err(error) => format!("cannot be waited for: {error}"),
                    Ok(_) if interrupt.is_raised() => "was interrupted".to_owned(),
                    Ok(_) => format!("printed no URL within {} s", most.as_secs()),
                });
            }
        }
    }
}

/// Reads what comes, no more of it than is kept, to its end.
fn hear(mut from: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, heard) = sync_channel(1);
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.by_ref().take(MAX_SAID).read_to_end(&mut bytes);
        let _ = tell.send(String::from_utf8_lossy(&bytes).into_owned());
        let _ = std::io::copy(&mut from, &mut std::io::sink());
    });
    heard
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_program_that_prints_a_url_in_time_gives_one() {
        let old = Url::parse("https://h/f?sig=1").expect("a URL");
        let of = |script: &str, most| {
            let words = ["sh", "-c", script, "sh"].map(str::to_owned);
            run(&words, &old, &Interrupt::default(), most)
        };
        let long = Duration::from_secs(20);
        assert_eq!(of("echo; echo \" ${1}2 \"", long).expect("a URL").as_str(), "https://h/f?sig=12");
        for (script, wanted) in [
            ("echo first >&2; echo last >&2; exit 3", "ended with exit status: 3: last"),
            ("echo why >&2", "printed no URL: why"),
            ("echo file:///etc/passwd", "printed what is no http or https URL"),
            ("echo nothing", "printed what is no http or https URL"),
            ("yes | head -c 300000", "printed what is no http or https URL"),
        ] {
            assert_eq!(of(script, long), Err(wanted.to_owned()), "{script}");
        }
        assert_eq!(of("sleep 600 & wait", Duration::ZERO), Err("printed no URL within 0 s".to_owned()));
        assert!(by("a 'b", Interrupt::default()).is_err() && by(" ", Interrupt::default()).is_err());
    }
}
