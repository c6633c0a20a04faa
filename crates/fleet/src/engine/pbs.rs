//! PBS: a job array, a mover a subjob.

use tidegate_transfer::error::Result;

use crate::engine::quoting::{EngineOption, shell_words};
use crate::engine::tool::Tool;
use crate::engine::{Engine, Movers, Started, Status};

const QSUB: Tool = Tool { program: "qsub", package: "OpenPBS" };
const QSTAT: Tool = Tool { program: "qstat", package: "OpenPBS" };
const QDEL: Tool = Tool { program: "qdel", package: "OpenPBS" };

/// A job array.
#[derive(Debug)]
pub struct Pbs {
    /// The queue, if not the site's default.
    pub queue: Option<String>,
    /// Options of qsub, by their letter.
    pub options: Vec<EngineOption>,
}

impl Engine for Pbs {
    fn render(&self, movers: &Movers) -> Result<String> {
        let mut options: Vec<String> = Vec::new();
        options.extend(self.queue.iter().map(|queue| format!("q {queue}")));
        options.extend(self.options.iter().map(|option| match (&option.value, option.name.len()) {
            (Some(value), 1) => format!("{} {value}", option.name),
            // A resource such as walltime is what is most often wanted.
            (Some(value), _) => format!("l {}={value}", option.name),
            (None, _) => option.name.clone(),
        }));
        let place = if movers.share_hosts { "free" } else { "scatter:excl" };
        options.extend([format!("N {}", movers.name), "r y".to_owned(), "j oe".to_owned()]);
        options.extend(["l select=1:ncpus=1".to_owned(), format!("l place={place}")]);
        // PBS has no array of one.
        if movers.count > 1 {
            let limit = movers.at_once.map_or_else(String::new, |limit| format!("%{limit}"));
            options.push(format!("J 0-{}{limit}", movers.count - 1));
        }
        let options: String = options.iter().map(|option| format!("#PBS -{option}\n")).collect();
        Ok(format!(
            r"#!/bin/sh
{options}#PBS -S /bin/sh

# Any mover takes any shard, so a subjob that is lost or late holds nothing up. The token is in a file that only its
# owner can read: nothing secret is in this script, on a command line or in the environment.
exec {}
",
            shell_words(&movers.words())?
        ))
    }

    fn start(&self, movers: &Movers) -> Result<Box<dyn Started>> {
        let said = QSUB.ask(&["-"], &self.render(movers)?)?;
        Ok(Box::new(Array { job: said.trim().to_owned(), count: movers.count }))
    }
}

/// An array that was submitted: `17[].server`, or `17.server` where it has one mover.
struct Array {
    job: String,
    count: u32,
}

impl Started for Array {
    fn name(&self) -> String {
        format!("PBS job {}", self.job)
    }

    fn look(&mut self) -> Result<Status> {
        let output = QSTAT.run(&["-t", &self.job], "")?;
        if output.status.success() {
            return Ok(status(&String::from_utf8_lossy(&output.stdout), self.count));
        }
        let complaint = String::from_utf8_lossy(&output.stderr).to_ascii_lowercase();
        let is_over = complaint.contains("unknown job") || complaint.contains("has finished");
        if !is_over {
            return Err(QSTAT.complaint(&output));
        }
        Ok(Status { ended: self.count, ..Status::default() })
    }

    fn stop(&mut self) -> Result<()> {
        QDEL.ask(&[&self.job], "").map(drop)
    }
}

/// A line a subjob, whose last word but one is its state. The array itself has a line, too, in state B.
fn status(table: &str, count: u32) -> Status {
    let mut status = Status::default();
    for line in table.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_job = words.first().is_some_and(|id| id.starts_with(|c: char| c.is_ascii_digit()));
        let (true, Some(state)) = (is_job && words.len() > 4, words.iter().rev().nth(1)) else { continue };
        match *state {
            "B" => {}
            "R" | "E" => status.running += 1,
            "X" | "F" => status.ended += 1,
            state => {
                status.pending += 1;
                let held = (state == "H").then(|| "held".to_owned());
                status.why = held.or(status.why);
            }
        }
    }
    let known = status.running + status.pending + status.ended;
    status.ended += count.saturating_sub(known);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_qstat_says_is_counted() {
        let table = "Job id            Name             User              Time Use S Queue
----------------  ---------------- ----------------  -------- - -----
17[].server       tidegate-3       me                       0 B dtn
17[0].server      tidegate-3       me                00:00:01 R dtn
17[1].server      tidegate-3       me                       0 Q dtn
17[2].server      tidegate-3       me                       0 H dtn
17[3].server      tidegate-3       me                00:00:01 X dtn
";
        let seen = status(table, 5);
        assert_eq!((seen.running, seen.pending, seen.ended), (1, 2, 2), "one is not told of any more");
        assert_eq!(seen.why.as_deref(), Some("held"));
        assert!(status("", 2).is_over());
    }
}
