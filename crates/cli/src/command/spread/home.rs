//! The service of a run: one that there is, or one that is started for it and ends with it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use clap::Args;
use serde_json::Value;
use tidegate_transfer::error::{Error, ErrorKind};

use crate::exit::usage;
use crate::service::{Service, ServiceArgs};

/// The service that is started where there is none.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Service")]
pub struct HomeArgs {
    /// Where a service that is started for the run listens, so that movers reach it
    #[arg(long, value_name = "ADDR[:PORT]", default_value = "127.0.0.1:0")]
    listen: String,
    /// It answers other hosts without TLS: tokens and tickets can be read on the way
    #[arg(long)]
    insecure: bool,
    /// It keeps history, jobs and shards there: postgres://…
    #[arg(long, value_name = "URL", env = "TIDEGATE_DATABASE", hide_env_values = true)]
    database: Option<String>,
}

/// A service.
pub struct Home {
    service: Service,
    child: Option<Child>,
}

impl HomeArgs {
    /// The one that `args` mean; or, where none answers and none was named, one that is started. Movers elsewhere have to
    /// reach it.
    pub fn service(&self, args: &ServiceArgs, here: bool) -> anyhow::Result<Home> {
        match args.open().and_then(|service| service.get::<Value>("/jobs?limit=1").map(|_| service)) {
            Ok(service) => return Ok(Home { service, child: None }),
            Err(error) if args.is_named() => return Err(error),
            Err(_) => {}
        }
        if !here && self.listen.starts_with("127.") {
            let why = "no service runs, and movers elsewhere would not reach one that listens here alone: start \
                       `tidegate serve`, name one by --server, or give --listen ADDR";
            return Err(usage(why).into());
        }
        let state = args.state_dir()?;
        let this = std::env::current_exe()?;
        let mut command = Command::new(&this);
        // It ends with us, however we end.
        command.arg("with-parent").arg(std::process::id().to_string()).arg(&this);
        command.args(["serve", "--listen", &self.listen]).arg("--state").arg(&state);
        command.args(self.insecure.then_some("--insecure"));
        if let Some(database) = &self.database {
            // Not as an argument, which others can see.
            command.env("TIDEGATE_DATABASE", database);
            command.args(database.starts_with("postgres").then_some("--shared-queue"));
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut url = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut url)?;
        }
        if url.trim().is_empty() {
            let _ = child.wait();
            let why = "the service for this run did not start; it says above why";
            return Err(Error::new(ErrorKind::Io, why).into());
        }
        Ok(Home { service: Service::connect(Some(url.trim()), None, &state)?, child: Some(child) })
    }
}

impl Home {
    /// The service.
    pub fn service(&self) -> &Service {
        &self.service
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            crate::engine::ask_to_end(&child);
            let _ = child.wait();
        }
    }
}
