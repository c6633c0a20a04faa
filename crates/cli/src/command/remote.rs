//! `tidegate remote`: names for endpoints.

use std::io::{BufRead, IsTerminal, Read};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use tidegate_transfer::wire::ticket::Address;

use crate::exit::usage;
use crate::{remotes, terminal};

/// Remember endpoints by name.
///
/// Names and tickets are kept in a file that only you may read. A ticket may also come from the
/// environment: TIDEGATE_REMOTE_DTN=tg://… makes dtn:/path work.
#[derive(Debug, Args)]
pub struct RemoteArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Remember an endpoint; the ticket is read from standard input when left out or '-'
    Add {
        /// The name, as in name:/path
        name: String,
        /// The ticket the endpoint printed
        ticket: Option<String>,
    },
    /// List the remembered endpoints, without their secrets
    List {
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Forget an endpoint
    Remove {
        /// Its name
        name: String,
    },
}

/// Runs the command.
pub fn run(args: &RemoteArgs) -> anyhow::Result<ExitCode> {
    match &args.action {
        Action::Add { name, ticket } => {
            if !remotes::is_name(name) {
                let why =
                    format!("'{name}' cannot be a name: use up to 64 letters, digits, '-', '_' and '.'");
                return Err(usage(why).into());
            }
            let text = match ticket.as_deref() {
                None | Some("-") => {
                    if std::io::stdin().is_terminal() {
                        terminal::tell("paste the ticket and press Enter:");
                    }
                    let mut text = String::new();
                    std::io::stdin().lock().take(64 << 10).read_line(&mut text)?;
                    text
                }
                Some(text) => text.to_owned(),
            };
            let address = Address::parse(text.trim().as_bytes())?;
            let mut known = remotes::load()?;
            known.insert(name.clone(), address.to_string());
            remotes::save(&known)?;
        }
        Action::List { json } => {
            let known = remotes::load()?;
            let public = known
                .into_iter()
                .map(|(name, text)| {
                    let shown =
                        Address::parse(text.as_bytes()).map_or_else(|e| e.to_string(), |a| a.public());
                    (name, shown)
                })
                .collect::<std::collections::BTreeMap<_, _>>();
            if *json {
                terminal::print(&serde_json::to_string(&public)?)?;
            } else {
                let width = public.keys().map(String::len).max().unwrap_or(0);
                for (name, shown) in &public {
                    terminal::print(&format!("{name:width$}  {shown}"))?;
                }
            }
        }
        Action::Remove { name } => {
            let mut known = remotes::load()?;
            if known.remove(name).is_none() {
                return Err(usage(format!("no endpoint is called '{name}'")).into());
            }
            remotes::save(&known)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
