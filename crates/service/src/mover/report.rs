//! How a run of `tidegate` ended, from its exit code and the JSON that it printed.

use tidegate_contract::error_kind::Retry;
use tidegate_contract::exit::Exit as Code;
use tidegate_contract::outage_line::{self, Outage};
use tidegate_contract::redact;
use tidegate_contract::summary::{FailedFile, Files, Summary};

use crate::job::Request;
use crate::queue::GIVEN_UP;

use super::attempt::{Away, Class, Ended, Outcome};
use super::child::Exit;

/// What a line of the log says behind its time if people are to hear of it.
const LEVEL: &str = "WARN";
/// Failures that are kept.
pub(crate) const MAX_FAILURES: usize = 20;

/// How a run of ours ended.
pub(crate) fn ended(exit: &Exit, request: &Request) -> Ended {
    let printed = exit.output.as_deref().and_then(|output| serde_json::from_slice::<Summary>(output).ok());
    let failures = printed.as_ref().map_or(&[][..], |printed| &printed.failures[..]);
    let error_kind = printed.as_ref().and_then(|printed| printed.error_kind);
    let outcome = match exit.code().map(Code::from_code) {
        Ok(Some(Code::Complete)) if printed.is_some() => Outcome::Complete,
        Ok(Some(Code::Interrupted)) if exit.asked => Outcome::Stopped,
        Ok(Some(Code::Usage)) => Outcome::Failed(Class::Usage),
        Ok(Some(Code::NotFound)) => Outcome::Failed(Class::NotFound),
        Ok(Some(Code::NoSpace)) => Outcome::Failed(Class::NoSpace),
        Ok(Some(Code::Refused)) => Outcome::Failed(Class::Denied),
        Ok(Some(Code::SomeFailed)) => Outcome::Failed(match error_kind {
            // Of what else ended it the failures tell. A bucket that does not exist no try will make.
            Some(kind) if let class @ (Class::Unreachable | Class::NotFound) = Class::of(kind) => class,
            _ => of_failures(failures),
        }),
        // Asked to stop and then killed: it goes on later from its journal.
        Err(_) if exit.asked => Outcome::Stopped,
        // Nothing of ours ends well and says nothing.
        _ => Outcome::Failed(Class::Passing),
    };
    let said = printed.as_ref().and_then(|printed| printed.error.clone());
    let said = said.or_else(|| failures.first().map(|failure| failure.message.clone()));
    // The job is not given up with one attempt.
    let said = said.map(|said| match outcome {
        Outcome::Failed(Class::Unreachable) => said.split(GIVEN_UP).next().unwrap_or(&said).to_owned(),
        _ => said,
    });
    let message = match outcome {
        Outcome::Complete => String::new(),
        Outcome::Stopped => "stopped where it can go on".to_owned(),
        Outcome::Failed(_) => said.or_else(|| last_line(&exit.messages)).unwrap_or_else(|| how(exit)),
    };
    // Without what is longer than it is useful, and what is this host's alone.
    let summary = printed.map(|printed| Summary {
        files: Files { refreshed: 0, ..printed.files },
        optimizer: cut(&printed.optimizer, request),
        failures: shown(printed.failures, request),
        error: printed.error.map(|error| cut(&error, request)),
        errno: None,
        log: None,
        sidecars: Vec::new(),
        converted: Vec::new(),
        ..printed
    });
    Ended { outcome, message: cut(&message, request), summary }
}

/// The failures that are kept, fit to be shown.
pub(crate) fn shown(failures: Vec<FailedFile>, request: &Request) -> Vec<FailedFile> {
    let shown = |failure: FailedFile| FailedFile {
        path: cut(&failure.path, request),
        kind: failure.kind,
        message: cut(&failure.message, request),
        // Of another host than that of who asks.
        errno: None,
    };
    failures.into_iter().take(MAX_FAILURES).map(shown).collect()
}

/// The end that a line of standard error says to be away.
pub(crate) fn away(line: &str, request: &Request) -> Option<Away> {
    // A time, a level and what colours them come before it.
    let said = line.split_once(LEVEL)?.1.trim_start_matches("\x1b[0m");
    let Outage { error, is_away } = outage_line::read(said)?;
    Some(Away { why: cut(error, request), is_away })
}

/// The class of a run in which some files failed: if all of them will fail again, so will it.
fn of_failures(failures: &[FailedFile]) -> Class {
    let all = |fits: fn(Class) -> bool| {
        !failures.is_empty() && failures.iter().all(|failure| fits(Class::of(failure.kind)))
    };
    if all(|class| class == Class::NotFound) {
        Class::NotFound
    } else if all(|class| class.retry() == Retry::Never) {
        Class::Denied
    } else if all(|class| class.retry() != Retry::Later) {
        Class::Unreachable
    } else {
        Class::Passing
    }
}

/// How it ended when it said nothing.
pub(crate) fn how(exit: &Exit) -> String {
    match exit.code() {
        Ok(code) => format!("the program ended with exit code {code} and said nothing"),
        Err(signal) => format!("the program was ended by signal {signal}"),
    }
}

/// The last line of what it said on standard error.
pub(crate) fn last_line(messages: &str) -> Option<String> {
    let line = messages.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.strip_prefix("tidegate: ").unwrap_or(line).to_owned())
}

/// One line that is not too long, without the secrets of the job's addresses and fit to be shown.
pub(crate) fn cut(text: &str, request: &Request) -> String {
    let addresses: Vec<&str> =
        request.sources.iter().chain([&request.destination]).map(String::as_str).collect();
    redact::line(text, &addresses)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use tidegate_contract::text::one_line;

    use super::*;

    fn exit(code: i32, output: &str, messages: &str, asked: bool) -> Exit {
        let status = if code < 0 { ExitStatus::from_raw(-code) } else { ExitStatus::from_raw(code << 8) };
        Exit { status, output: Some(output.as_bytes().to_vec()), messages: messages.to_owned(), asked }
    }

    #[test]
    fn exit_codes_are_classes() {
        let request = Request::transfer("https://u:secret@h/x", "/b");
        let some = |kinds: &[&str]| {
            let failures: Vec<String> = kinds
                .iter()
                .map(|kind| format!("{{\"path\":\"x\",\"kind\":\"{kind}\",\"message\":\"no\"}}"))
                .collect();
            format!("{{\"status\":\"incomplete\",\"failures\":[{}]}}", failures.join(","))
        };
        use Outcome::{Complete, Failed, Stopped};
        for (code, output, asked, wanted) in [
            (0, "{\"status\":\"complete\",\"bytes\":7}".to_owned(), false, Complete),
            (0, "{\"status\":\"complete\"}".to_owned(), true, Complete),
            (0, "garbage".to_owned(), false, Failed(Class::Passing)),
            (130, "{}".to_owned(), true, Stopped),
            (130, "{}".to_owned(), false, Failed(Class::Passing)),
            (2, String::new(), false, Failed(Class::Usage)),
            (3, String::new(), false, Failed(Class::NotFound)),
            (4, String::new(), false, Failed(Class::NoSpace)),
            (5, String::new(), false, Failed(Class::Denied)),
            (1, some(&["not_found", "not_found"]), false, Failed(Class::NotFound)),
            (1, some(&["not_found", "denied"]), false, Failed(Class::Denied)),
            (1, some(&["authentication"]), false, Failed(Class::Denied)),
            (1, some(&["not_found", "connection"]), false, Failed(Class::Unreachable)),
            (1, some(&["busy", "usage"]), false, Failed(Class::Unreachable)),
            (1, some(&["corrupt", "connection"]), false, Failed(Class::Passing)),
            (
                1,
                r#"{"error":"nobody","error_kind":"connection"}"#.to_owned(),
                false,
                Failed(Class::Unreachable),
            ),
            (1, r#"{"error":"odd","error_kind":"io"}"#.to_owned(), false, Failed(Class::Passing)),
            (
                1,
                r#"{"error":"no bucket","error_kind":"not_found"}"#.to_owned(),
                false,
                Failed(Class::NotFound),
            ),
            (1, some(&[]), false, Failed(Class::Passing)),
            (-9, String::new(), false, Failed(Class::Passing)),
            (-9, String::new(), true, Stopped),
            (101, String::new(), false, Failed(Class::Passing)),
        ] {
            let ended = ended(&exit(code, &output, "", asked), &request);
            assert_eq!(ended.outcome, wanted, "{code} {output}");
            assert_eq!(ended.message.is_empty(), wanted == Complete, "{code} {output}");
        }
    }

    /// Moves the cursor, rings, changes the direction, is invisible, and ends a line.
    const EVIL: &str = "evil\x1b[2J\x07\x7f\u{9b}31m\u{202e}\u{2066}\u{200b}\u{2028}\r\nforged";

    #[test]
    fn what_a_child_says_is_shown_escaped() {
        let request = Request::transfer(format!("https://u:\u{202e}secret@h/{EVIL}"), "/b");
        let json = serde_json::json!({
            "status": EVIL, "optimizer": EVIL, "error": EVIL,
            "failures": [{"path": EVIL, "kind": EVIL, "message": format!("{} {EVIL}", request.sources[0])}],
        });
        let escaped = one_line(&request.sources[0]);
        for (output, messages) in [
            (json.to_string(), String::new()),
            (String::new(), format!("tidegate: {EVIL}: {}", request.sources[0])),
            (String::new(), format!("tidegate: {EVIL}: {escaped}")),
        ] {
            let said = exit(1, &output, &messages, false);
            let ended = ended(&said, &request);
            let summary = ended.summary.map(|summary| serde_json::to_string(&summary).expect("JSON"));
            for text in [&ended.message, &cut(&said.messages, &request), &summary.unwrap_or_default()] {
                assert_eq!(text, &one_line(text));
                assert!(!text.contains("secret"), "{text}");
            }
        }
    }

    #[test]
    fn what_one_attempt_gives_up_the_job_does_not() {
        let said = r#"{"error":"cannot connect to h:1: refused (given up after 30 seconds)","error_kind":"connection"}"#;
        let ended = ended(&exit(1, said, "", false), &Request::transfer("/a", "tg://h:1/b"));
        assert_eq!(ended.message, "cannot connect to h:1: refused");
    }

    #[test]
    fn an_end_that_is_away_is_read_off_the_log() {
        let request = Request::transfer("https://u:secret@h/x", "/b");
        let said = outage_line::write("cannot connect to https://u:secret@h/x: refused", true, "30 seconds");
        for line in [
            format!("2026-11-21T22:31:05Z  WARN {said}"),
            format!("\x1b[2m2026-11-21\x1b[0m \x1b[33m WARN\x1b[0m {said}"),
        ] {
            let why = "cannot connect to https://h/x: refused".to_owned();
            assert_eq!(away(&line, &request), Some(Away { why, is_away: true }), "{line:?}");
        }
        for other in [&said[..], "2026 WARN a pipe is left out", ""] {
            assert_eq!(away(other, &request), None);
        }
    }

    #[test]
    fn messages_are_one_line_without_secrets() {
        let request = Request::transfer("https://u:secret@h/x?sig=secret", "/b");
        let said = "noise\ntidegate: cannot get https://u:secret@h/x?sig=secret: u:secret@h is\tdown\n\n";
        let ended = ended(&exit(1, "", said, false), &request);
        assert_eq!(ended.message, "cannot get https://h/x: …@h is down");
    }
}
