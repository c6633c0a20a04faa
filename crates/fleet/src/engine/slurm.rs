//! Slurm: a job array, a mover a task.

use tidegate_transfer::error::{Error, ErrorKind, Result};

use crate::engine::quoting::{EngineOption, shell_words};
use crate::engine::tool::Tool;
use crate::engine::{Engine, Movers, Started, Status, ending};

const SBATCH: Tool = Tool { program: "sbatch", package: "slurm-client" };
const SQUEUE: Tool = Tool { program: "squeue", package: "slurm-client" };
const SACCT: Tool = Tool { program: "sacct", package: "slurm-client" };
const SCANCEL: Tool = Tool { program: "scancel", package: "slurm-client" };

/// How long before its time is over a mover is told so, in seconds. Slurm may say it a minute earlier.
const NOTICE_S: u32 = 60;

/// How often a task that left work behind goes back into the queue.
const MAX_RESTARTS: u32 = 100;

/// A job array.
#[derive(Debug)]
pub struct Slurm {
    /// The partition, if not the site's default.
    pub partition: Option<String>,
    /// Options of sbatch.
    pub options: Vec<EngineOption>,
}

impl Slurm {
    /// What is said of the array.
    fn array(movers: &Movers) -> String {
        let last = movers.count - 1;
        movers.at_once.map_or_else(|| format!("0-{last}"), |limit| format!("0-{last}%{limit}"))
    }
}

impl Engine for Slurm {
    fn render(&self, movers: &Movers) -> Result<String> {
        let mut options = Vec::new();
        options.extend(self.partition.iter().map(|partition| format!("partition={partition}")));
        options.extend(self.options.iter().map(|option| match &option.value {
            Some(value) => format!("{}={value}", option.name),
            None => option.name.clone(),
        }));
        // The last one holds.
        options.extend([
            format!("job-name={}", movers.name),
            format!("array={}", Self::array(movers)),
            "nodes=1".to_owned(),
            "ntasks=1".to_owned(),
        ]);
        if !movers.share_hosts {
            options.push("exclusive".to_owned());
        }
        options.extend([
            "requeue".to_owned(),
            "open-mode=append".to_owned(),
            "export=NONE".to_owned(),
            format!("signal=B:TERM@{NOTICE_S}"),
            format!("output={}-%A_%a.log", movers.name),
        ]);
        let options: String = options.iter().map(|option| format!("#SBATCH --{option}\n")).collect();
        let mover = shell_words(&movers.words())?;
        let again = ending::TRY_AGAIN;
        Ok(format!(
            r#"#!/bin/sh
{options}
# Any mover takes any shard, so a task that is lost or late holds nothing up. The token is in a file that only its
# owner can read: nothing secret is in this script, on a command line or in the environment.
{mover} &
mover=$!
trap 'kill -TERM "$mover"' TERM
wait "$mover"
status=$?
# A signal ends the wait, not the mover.
while kill -0 "$mover" 2>/dev/null; do
    wait "$mover"
    status=$?
done
# It left while there was more to do, as when its time is over.
if [ "$status" -eq {again} ] && [ "${{SLURM_RESTART_COUNT:-0}}" -lt {MAX_RESTARTS} ]; then
    scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}"
fi
exit "$status"
"#
        ))
    }

    fn start(&self, movers: &Movers) -> Result<Box<dyn Started>> {
        let script = self.render(movers)?;
        // Variables such as SBATCH_EXPORT weigh more than what a script says, and options more than they.
        let array = format!("--array={}", Self::array(movers));
        let said = SBATCH.ask(&["--parsable", "--export=NONE", &array], &script)?;
        // A cluster may follow.
        let job = said.trim().split(';').next().unwrap_or_default();
        if job.is_empty() || !job.chars().all(|c| c.is_ascii_digit()) {
            let why = format!("sbatch named no job: {}", said.trim());
            return Err(Error::new(ErrorKind::Protocol, why));
        }
        Ok(Box::new(Array { job: job.to_owned(), count: movers.count }))
    }
}

/// An array that was submitted.
struct Array {
    job: String,
    count: u32,
}

impl Started for Array {
    fn name(&self) -> String {
        format!("Slurm job {}", self.job)
    }

    fn look(&mut self) -> Result<Status> {
        let options = ["--noheader", "--array", "--states=all", "--format=%T|%r"];
        let output = SQUEUE.run(&[&options[..], &["--jobs", &self.job]].concat(), "")?;
        let said = String::from_utf8_lossy(&output.stdout);
        if output.status.success() && !said.trim().is_empty() {
            return Ok(status(&said, self.count));
        }
        if !output.status.success() && !String::from_utf8_lossy(&output.stderr).contains("Invalid job id") {
            return Err(SQUEUE.complaint(&output));
        }
        // It is over for so long that the controller has forgotten it; not every site keeps accounts.
        let asked =
            ["--noheader", "--parsable2", "--allocations", "--format=State,ExitCode", "--jobs", &self.job];
        let accounts = SACCT.ask(&asked, "").unwrap_or_default();
        Ok(match accounts.trim().is_empty() {
            true => Status { ended: self.count, ..Status::default() },
            false => status(&accounts, self.count),
        })
    }

    fn stop(&mut self) -> Result<()> {
        SCANCEL.ask(&["--quiet", &self.job], "").map(drop)
    }
}

/// A line a task: its state and why it is so. Tasks that are not told of have ended before.
fn status(lines: &str, count: u32) -> Status {
    let mut status = Status::default();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (state, reason) = line.split_once('|').unwrap_or((line, ""));
        // `CANCELLED by 1000`
        let state = state.split_whitespace().next().unwrap_or_default();
        let told = |status: &mut Status| {
            let reason = Some(reason).filter(|reason| !reason.is_empty() && *reason != "None");
            let reason = reason.map(|reason| format!("{}: {reason}", state.to_ascii_lowercase()));
            status.why = reason.or_else(|| Some(state.to_ascii_lowercase()));
        };
        match state {
            "RUNNING" | "COMPLETING" | "STAGE_OUT" | "SIGNALING" => status.running += 1,
            "COMPLETED" | "CANCELLED" => status.ended += 1,
            "FAILED" | "TIMEOUT" | "NODE_FAIL" | "OUT_OF_MEMORY" | "BOOT_FAIL" | "DEADLINE" | "REVOKED" => {
                status.failed += 1;
                told(&mut status);
            }
            // PENDING, CONFIGURING, SUSPENDED, REQUEUED, PREEMPTED, and what later versions may say.
            _ => {
                status.pending += 1;
                told(&mut status);
            }
        }
    }
    let known = status.running + status.pending + status.ended + status.failed;
    status.ended += count.saturating_sub(known);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_squeue_and_sacct_say_is_counted() {
        let said = "RUNNING|None\nPENDING|Resources\nCOMPLETED|None\nCOMPLETING|None\n";
        let seen = status(said, 4);
        assert_eq!((seen.running, seen.pending, seen.ended, seen.failed), (2, 1, 1, 0));
        assert_eq!(seen.why.as_deref(), Some("pending: Resources"));
        let seen = status("FAILED|78:0\nCANCELLED by 1000|0:15\n", 3);
        assert_eq!((seen.running, seen.ended, seen.failed), (0, 2, 1));
        assert_eq!(seen.why.as_deref(), Some("failed: 78:0"));
        assert!(seen.is_over());
        let seen = status("A_STATE_OF_LATER\n", 1);
        assert_eq!((seen.pending, seen.why.as_deref()), (1, Some("a_state_of_later")));
    }
}
