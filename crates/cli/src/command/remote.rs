//! `tidegate remote`: names for endpoints.

use std::io::{BufRead, IsTerminal, Read, Stdin};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tidegate_run::place::Place;
use tidegate_run::remotes;
use tidegate_run::remotes::Remote;
use tidegate_run::remotes::pool::{Member, Pool};
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::wire::ticket::Address;

use crate::exit::usage;
use crate::signals::interrupt_on_signals;
use crate::terminal;

/// Longest ticket that is read.
const MAX_TICKET: u64 = 64 << 10;

/// How often an interrupt is looked for while nobody types.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Remember endpoints by name.
///
/// A host that is reached by ssh may have a name too: `tidegate remote add dtn ssh://user@host/`, and
/// dtn:/path works as it will once an endpoint is served there.
/// Names and tickets are kept in a file that only you may read. A ticket may also come from the
/// environment: TIDEGATE_REMOTE_DTN=tg://… makes dtn:/path work.
/// `tidegate remote pool NAME dtn1:/archive dtn2:/archive=2` makes a name for endpoints over one file system.
#[derive(Debug, Args)]
pub struct RemoteArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Remember an endpoint; the ticket is read from standard input when left out or '-', unseen on a terminal
    Add {
        /// The name, as in name:/path
        name: String,
        /// The ticket the endpoint printed, or `ssh://USER@HOST/`
        ticket: Option<String>,
        /// Forget another endpoint of that name
        #[arg(long)]
        replace: bool,
    },
    /// Remember several endpoints over one file system as one name, which `tidegate spread` moves to or from
    Pool {
        /// The name, as in name:/path
        name: String,
        /// Where the file system's tree is at each, as in dtn1:/archive; weights, as in dtn2:/archive=2, say how much of
        /// the work each gets beside the others [default: 1]
        #[arg(required = true, value_name = "ENDPOINT[=WEIGHT]")]
        endpoints: Vec<String>,
        /// Forget another endpoint of that name
        #[arg(long)]
        replace: bool,
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
        Action::Add { name, ticket, replace } => add(name, ticket.as_deref(), *replace)?,
        Action::Pool { name, endpoints, replace } => {
            let members = endpoints.iter().map(|word| word.parse::<Member>()).collect::<Result<_, _>>()?;
            let pool = Pool::new(members)?;
            // Said now, and not when something is to be moved.
            for member in &pool.members {
                Place::endpoint(member.place.as_ref(), "a pool")?;
            }
            add(name, Some(&pool.whole()), *replace)?;
        }
        Action::List { json } => {
            let known = remotes::load()?;
            let public = known
                .into_iter()
                .map(|(name, text)| {
                    let shown =
                        Remote::parse(&text).map_or_else(|error| error.to_string(), |remote| remote.public());
                    (name, shown)
                })
                .collect::<std::collections::BTreeMap<_, _>>();
            if *json {
                terminal::print_json(&public)?;
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

/// Remembers an endpoint, and says which.
fn add(name: &str, ticket: Option<&str>, replace: bool) -> anyhow::Result<()> {
    if !remotes::is_name(name) {
        let why = format!("'{name}' cannot be a name: use up to 64 letters, digits, '-', '_' and '.'");
        return Err(usage(why).into());
    }
    let mut known = remotes::load()?;
    let before = known.get(name).filter(|_| !replace).cloned();
    // Whoever may not replace it need not look for a ticket first.
    if let (Some(before), None | Some("-")) = (&before, ticket) {
        return Err(taken(name, before).into());
    }
    let text = match ticket {
        None | Some("-") => typed(name)?,
        Some(text) => text.to_owned(),
    };
    let remote = Remote::parse(text.trim())?;
    let text = remote.whole();
    if let Some(before) = before.filter(|before| *before != text) {
        return Err(taken(name, &before).into());
    }
    known.insert(name.to_owned(), text);
    remotes::save(&known)?;
    let certificate = match &remote {
        Remote::Served(Address { ticket: Some(ticket), .. }) => {
            format!(", certificate SHA-256 {}", data_encoding::HEXLOWER.encode(&ticket.fingerprint))
        }
        Remote::Served(_) => ", without a ticket: for who shows a certificate of its site".to_owned(),
        _ => String::new(),
    };
    terminal::print(&format!("{name}: {}{certificate}", remote.public()))?;
    Ok(())
}

fn taken(name: &str, before: &str) -> Error {
    let public =
        Remote::parse(before).map_or_else(|_| "a damaged entry".to_owned(), |remote| remote.public());
    usage(format!("'{name}' is {public} already: take another name, or replace it with --replace"))
}

/// A line of standard input; what is typed at a terminal is not shown.
fn typed(name: &str) -> anyhow::Result<String> {
    let stdin = std::io::stdin();
    let mut text = String::new();
    if stdin.is_terminal() {
        let interrupt = interrupt_on_signals();
        let _no_echo = NoEcho::new(&stdin);
        terminal::tell(&format!("paste the ticket of {name}, which is not shown, and press Enter:"));
        while poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&POLL_INTERVAL)).unwrap_or(0) == 0 {
            if interrupt.is_raised() {
                return Err(Error::new(ErrorKind::Interrupted, "interrupted; nothing was remembered").into());
            }
        }
    }
    stdin.lock().take(MAX_TICKET).read_line(&mut text)?;
    Ok(text)
}

/// A terminal that shows nothing of what is typed but the end of the line, until this is dropped.
struct NoEcho<'s> {
    stdin: &'s Stdin,
    before: Option<Termios>,
}

impl<'s> NoEcho<'s> {
    fn new(stdin: &'s Stdin) -> Self {
        let before = tcgetattr(stdin).ok();
        if let Some(mut unseen) = before.clone() {
            unseen.local_modes.remove(LocalModes::ECHO);
            unseen.local_modes.insert(LocalModes::ECHONL);
            let _ = tcsetattr(stdin, OptionalActions::Now, &unseen);
        }
        Self { stdin, before }
    }
}

impl Drop for NoEcho<'_> {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(self.stdin, OptionalActions::Now, before);
        }
    }
}
