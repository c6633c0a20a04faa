//! Movers on this host, as children of ours.

use std::process::{Command, ExitStatus};

use tidegate_transfer::error::{Result, usage};

use crate::engine::children::{Children, Launch};
use crate::engine::quoting::shell_words;
use crate::engine::{Engine, Movers, Started, ending};

/// This host.
#[derive(Debug)]
pub struct Local;

impl Engine for Local {
    fn render(&self, movers: &Movers) -> Result<String> {
        Ok(format!(
            r#"#!/bin/sh
# Movers on this host. The token is in a file that only its owner can read.
i=0
while [ "$i" -lt {} ]; do
    {} &
    i=$((i + 1))
done
wait
"#,
            movers.count,
            shell_words(&movers.words())?
        ))
    }

    fn start(&self, movers: &Movers) -> Result<Box<dyn Started>> {
        let launch = || Box::new(Here(movers.clone())) as Box<dyn Launch>;
        let launches = (0..movers.count).map(|_| launch()).collect();
        Ok(Box::new(Children::start("movers on this host".to_owned(), launches)?))
    }
}

/// A mover here.
struct Here(Movers);

impl Launch for Here {
    fn command(&self) -> Result<(Command, Option<Vec<u8>>)> {
        let this = std::env::current_exe()
            .map_err(|error| usage(format!("cannot tell where this program is: {error}")))?;
        let mut command = Command::new(this);
        // It dies with us, however we end.
        command.arg("with-parent").arg(std::process::id().to_string()).args(self.0.words());
        Ok((command, None))
    }

    fn explain(&self, status: ExitStatus, _: &str) -> (String, bool) {
        match status.code() {
            Some(ending::CONFIGURATION) => ("it says above why it cannot run".to_owned(), false),
            Some(ending::TRY_AGAIN) => ("left while there was more to do".to_owned(), true),
            _ => (format!("a mover ended by {status}"), true),
        }
    }
}
