//! HTCondor: a cluster of jobs, a mover a job.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use tidegate_run::whole_file::WholeFile;
use tidegate_transfer::error::{Error, ErrorKind, Result, usage};

use crate::engine::quoting::EngineOption;
use crate::engine::tool::Tool;
use crate::engine::{Engine, Movers, Started, Status, ending};

const SUBMIT: Tool = Tool { program: "condor_submit", package: "condor" };
const Q: Tool = Tool { program: "condor_q", package: "condor" };
const RM: Tool = Tool { program: "condor_rm", package: "condor" };

/// How often a mover that left work behind is started again.
const MAX_RETRIES: u32 = 100;

/// Jobs of one cluster.
#[derive(Debug)]
pub struct Condor {
    /// Lines of the submit file.
    pub options: Vec<EngineOption>,
}

impl Engine for Condor {
    fn render(&self, movers: &Movers) -> Result<String> {
        let mut words = movers.words().into_iter();
        let program = value(words.next().unwrap_or_default())?;
        let arguments: Result<Vec<String>> = words.map(argument).collect();
        let mut file = String::from(
            "# Any mover takes any shard, so a job that is lost or late holds nothing up. The token is in a file that only its
# owner can read, on a file system that the hosts share: nothing secret is in this file or among what is transferred.
",
        );
        for option in &self.options {
            let _ = writeln!(file, "{} = {}", option.name, option.value.as_deref().unwrap_or("true"));
        }
        let limit = movers.at_once.map_or_else(String::new, |limit| format!("max_materialize = {limit}\n"));
        let (arguments, again) = (arguments?.join(" "), ending::CONFIGURATION);
        let _ = write!(
            file,
            r#"universe = vanilla
executable = {program}
transfer_executable = false
arguments = "{arguments}"
getenv = false
should_transfer_files = YES
when_to_transfer_output = ON_EXIT
kill_sig = SIGTERM
max_retries = {MAX_RETRIES}
retry_until = ExitCode == {again}
batch_name = {name}
output = {name}.$(Cluster).$(Process).out
error = {name}.$(Cluster).$(Process).err
log = {name}.$(Cluster).log
{limit}queue {count}
"#,
            name = movers.name,
            count = movers.count,
        );
        Ok(file)
    }

    fn start(&self, movers: &Movers) -> Result<Box<dyn Started>> {
        let path = PathBuf::from(format!("{}.submit", movers.name));
        WholeFile::begin(&path)?.commit(self.render(movers)?)?;
        let said = SUBMIT.ask(&["-terse", &path.to_string_lossy()], "");
        let _ = fs::remove_file(&path);
        // `17.0 - 17.7`
        let said = said?;
        let cluster = said.trim().split('.').next().unwrap_or_default();
        if cluster.is_empty() || !cluster.chars().all(|c| c.is_ascii_digit()) {
            return Err(Error::new(
                ErrorKind::Protocol,
                format!("condor_submit named no cluster: {}", said.trim()),
            ));
        }
        Ok(Box::new(Cluster { cluster: cluster.to_owned(), count: movers.count }))
    }
}

/// A value of a line of its own, in which only macros are special.
fn value(text: &str) -> Result<String> {
    if text.contains(['\n', '\r']) || text.trim() != text || text.ends_with('\\') {
        return Err(usage(format!(
            "HTCondor's submit files cannot say {text:?}: it holds the end of a line"
        )));
    }
    Ok(text.replace('$', "$(DOLLAR)"))
}

/// A word of the arguments, which stand in double quotes and split at blanks that are not in single ones.
fn argument(word: &str) -> Result<String> {
    Ok(format!("'{}'", value(word)?.replace('\'', "''").replace('"', "\"\"")))
}

/// A cluster that was submitted.
struct Cluster {
    cluster: String,
    count: u32,
}

impl Started for Cluster {
    fn name(&self) -> String {
        format!("HTCondor cluster {}", self.cluster)
    }

    fn look(&mut self) -> Result<Status> {
        let said = Q.ask(&[&self.cluster, "-autoformat", "JobStatus", "HoldReason"], "")?;
        Ok(status(&said, self.count))
    }

    fn stop(&mut self) -> Result<()> {
        RM.ask(&[&self.cluster], "").map(drop)
    }
}

/// A line a job that is still in the queue: its state's number, and why it is held.
fn status(lines: &str, count: u32) -> Status {
    let mut status = Status::default();
    for line in lines.lines().map(str::trim) {
        let (state, reason) = line.split_once(' ').unwrap_or((line, ""));
        match state {
            "" => {}
            "2" | "6" => status.running += 1,
            "3" | "4" => status.ended += 1,
            "5" => {
                status.failed += 1;
                status.why = Some(format!("held: {}", reason.trim()));
            }
            _ => status.pending += 1,
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
    fn what_condor_q_says_is_counted() {
        let seen = status("2 undefined\n1 undefined\n5 Error from slot1: no such file\n", 5);
        assert_eq!((seen.running, seen.pending, seen.ended, seen.failed), (1, 1, 2, 1));
        assert_eq!(seen.why.as_deref(), Some("held: Error from slot1: no such file"));
        assert!(status("", 3).is_over());
    }
}
