//! The log of a job in the format of HTCondor's own user logs, which `condor_wait`, DAGMan and `JobEventLog` read: an
//! event begins with its number, `(cluster.proc.subproc)`, a time, here in UTC, and a sentence, and ends with `...`.
//!
//! A job is a cluster with one process. What HTCondor has no event for is a generic one (008), in the words of our own
//! log: estimates, progress, and how it went.

use tidegate_contract::text::one_line;

use crate::history::Timestamp;
use crate::job::JobId;

use super::Logged;

/// The processor time of a job, which nobody counts.
const USAGE: &str = "Usr 0 00:00:00, Sys 0 00:00:00";

/// The most characters of what an event says in a line: readers have buffers.
const MAX_LINE: usize = 1000;

/// What is appended for an event.
pub(crate) fn text(job: JobId, at: Timestamp, event: &Logged) -> String {
    let mut log = Log { job, at, text: String::new() };
    let words = event.to_string();
    match event {
        Logged::Submitted(route) => {
            log.event(0, "Job submitted from host: <tidegate>", &[&format!("    {}", line(route))]);
        }
        Logged::Started { .. } => log.event(1, "Job executing on host: <tidegate>", &[]),
        Logged::Estimate { .. } | Logged::NoEstimate(_) | Logged::Progress(_) | Logged::Waits(_) => {
            log.generic(&words);
        }
        // Our own end of it broke off, and the job is begun again.
        Logged::Retrying { .. } => {
            let message = format!("\t{}", line(&words));
            log.event(
                7,
                "Shadow exception!",
                &[&message, &bytes(0, "Run", "Sent"), &bytes(0, "Run", "Received")],
            );
        }
        Logged::Paused => log.event(12, "Job was held.", &["\tpaused by its user", "\tCode 1 Subcode 0"]),
        Logged::Resumed => log.event(13, "Job was released.", &["\tput back in line"]),
        Logged::Done(summary) => {
            log.generic(&words);
            log.terminated(0, summary.as_ref().map_or(0, |summary| summary.bytes));
        }
        Logged::Failed(_) => {
            log.generic(&words);
            log.terminated(1, 0);
        }
        Logged::Cancelled => log.event(9, "Job was aborted.", &["\tcancelled by its user"]),
    }
    log.text
}

struct Log {
    job: JobId,
    at: Timestamp,
    text: String,
}

impl Log {
    fn event(&mut self, number: u8, sentence: &str, more: &[&str]) {
        // `2026-11-21T22:31:05.120Z`, without its fraction and with a blank.
        let at = self.at.to_string().replacen('T', " ", 1);
        let at = at.split('.').next().unwrap_or(&at);
        self.text.push_str(&format!("{number:03} ({:03}.000.000) {at}Z {sentence}\n", self.job.get()));
        for line in more {
            self.text.push_str(line);
            self.text.push('\n');
        }
        self.text.push_str("...\n");
    }

    fn generic(&mut self, words: &str) {
        self.event(8, &line(words), &[]);
    }

    fn terminated(&mut self, code: u8, sent: u64) {
        let usage = |what: &str| format!("\t\t{USAGE}  -  {what} Usage");
        let lines = [
            format!("\t(1) Normal termination (return value {code})"),
            usage("Run Remote"),
            usage("Run Local"),
            usage("Total Remote"),
            usage("Total Local"),
            bytes(sent, "Run", "Sent"),
            bytes(0, "Run", "Received"),
            bytes(sent, "Total", "Sent"),
            bytes(0, "Total", "Received"),
        ];
        self.event(5, "Job terminated.", &lines.each_ref().map(String::as_str));
    }
}

fn bytes(count: u64, what: &str, way: &str) -> String {
    format!("\t{count}  -  {what} Bytes {way} By Job")
}

/// In one line, of a length that readers take.
fn line(text: &str) -> String {
    one_line(text).chars().take(MAX_LINE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_contract::summary::Summary;

    #[test]
    fn events_are_written_as_htcondor_writes_them() {
        let (job, at) = (JobId::new(12).expect("a number"), Timestamp(1_795_300_265_120));
        let text = |event: &Logged| text(job, at, event);
        assert_eq!(
            text(&Logged::Submitted("tg://h/a → /b".to_owned())),
            "000 (012.000.000) 2026-11-21 22:31:05Z Job submitted from host: <tidegate>\n    tg://h/a → /b\n...\n"
        );
        let failed = text(&Logged::Failed("two\n...\nlines".to_owned()));
        assert!(failed.starts_with("008 (012.000.000) 2026-11-21 22:31:05Z FAILED two"), "{failed}");
        assert!(failed.contains("005 (012.000.000)") && failed.contains("(return value 1)"), "{failed}");
        // Nobody's words end an event before its end.
        assert_eq!(failed.matches("\n...\n").count(), 2, "{failed}");
        let done = text(&Logged::Done(Some(Box::new(Summary { bytes: 77, ..Summary::default() }))));
        assert!(done.contains("\n\t77  -  Total Bytes Sent By Job\n"), "{done}");
    }
}
