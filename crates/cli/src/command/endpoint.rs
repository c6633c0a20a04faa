//! `tidegate endpoint`: the daemon that others copy to and from.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread;

use clap::Args;
use tidegate_control::ByteCount;
use tidegate_run::drive::raise_file_limit;
use tidegate_run::ports::port_range;
use tidegate_run::remotes;
use tidegate_run::settings::TrustArgs;
use tidegate_run::ssh::agent;
use tidegate_spec::plane::STAGING;
use tidegate_transfer::endpoint::{Config, Endpoint, ticket_name};
use tidegate_transfer::quota::Allowance;
use tidegate_transfer::sys::memory::keep_few_heaps;
use tidegate_transfer::terms::DataPlane;
use tidegate_transfer::wire::ticket::{Claims, DEFAULT_PORT, Place};

use crate::exit::usage;
use crate::over_http::{HttpArgs, OverHttp, Renewal};
use crate::terminal;
use crate::values::listen_address;

/// Where it listens unless told otherwise.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), DEFAULT_PORT);

/// Serve a directory to those who hold a ticket.
///
/// The first line on standard output is the ticket, a URL to which a path is appended. Key, secret and
/// so the ticket survive a restart. SIGTERM lets running transfers finish and exits 0. SIGHUP reads the
/// certificates of --https and of the site's PKI again and ends nothing.
#[derive(Debug, Args)]
pub struct EndpointArgs {
    /// The directory to serve; nothing outside it can be reached, but by --follow. This program's own state and keys are not
    /// served, wherever they lie
    #[arg(long, value_name = "DIR", required_unless_present = "once")]
    root: Option<PathBuf>,
    /// Be the other end of `tidegate copy … user@host:…`: serve whoever runs ssh, as they say on standard input, until
    /// that ends
    #[arg(
        long, hide_short_help = true, conflicts_with_all = [
            "root", "follow", "listen", "advertise", "read_only", "data_plane", "iperf3", "allow_local_targets",
            "sessions", "threads", "memory", "tls_ca",
        ]
    )]
    once: bool,
    /// A directory outside of it that links in it may lead to, where a peer names them; may be given again. Whoever
    /// may write here can make links, so all of it is open to every ticket
    #[arg(long, value_name = "DIR")]
    follow: Vec<PathBuf>,
    /// Where to listen
    #[arg(long, value_name = "ADDR[:PORT]", default_value = "0.0.0.0:7117")]
    listen: String,
    /// The host name or address to print in the ticket, and the port if others reach it by another one; an IPv6
    /// number stands in brackets [default: what is listened on]
    #[arg(long, value_name = "HOST[:PORT]")]
    advertise: Option<Place>,
    /// Let data be fetched but not put
    #[arg(long)]
    read_only: bool,
    /// Let the ticket that is printed, and whomever a PKI lets in, remove what is there, as `copy --delete` and `--move`
    /// do; `tidegate ticket --delete` makes single tickets that may
    #[arg(long, conflicts_with = "read_only")]
    allow_delete: bool,
    /// Whether peers may ask for data streams that are not encrypted
    #[arg(long, value_name = "PLANE", value_enum, default_value_t)]
    data_plane: DataPlane,
    /// Run an `iperf3 -s` for one test of whoever holds a ticket and asks, so that `tidegate estimate --sampler
    /// iperf3` can measure the path to here, and iperf3 against another such endpoint for whoever asks for that; 0 is any
    /// free port [default ports: 5201-5204]
    #[arg(
        long, value_name = "PORT[-PORT]", num_args = 0..=1, require_equals = true,
        default_missing_value = "5201-5204", value_parser = port_range
    )]
    iperf3: Option<RangeInclusive<u16>>,
    /// Send to loopback and link-local addresses too when a peer asks for a copy from here to another endpoint
    #[arg(long)]
    allow_local_targets: bool,
    /// Most sessions of one ticket at a time; of all tickets together there are half as many again
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    sessions: u32,
    /// Most threads that work for one ticket at a time, beyond the few of each session; likewise
    #[arg(long, value_name = "N", default_value_t = 160, value_parser = clap::value_parser!(u32).range(1..))]
    threads: u32,
    /// Most memory that one ticket takes, half of it for staging; likewise
    #[arg(long, value_name = "SIZE", default_value = "192MiB", value_parser = |text: &str| STAGING.size(text))]
    memory: ByteCount,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    trust: TrustArgs,
}

/// Runs the command.
pub fn run(args: &EndpointArgs) -> anyhow::Result<ExitCode> {
    raise_file_limit();
    keep_few_heaps();
    let Some(root) = args.root.clone().filter(|_| !args.once) else {
        return Ok(agent::run(&args.trust)?);
    };
    let listen = listen_address(&args.listen, DEFAULT_LISTEN)?;
    let config = Config {
        root: root.clone(),
        follow: args.follow.clone(),
        listen,
        state: args.trust.state_dir()?,
        private: private(args),
        serves_owner: false,
        read_only: args.read_only,
        allow_delete: args.allow_delete,
        clear: args.data_plane == DataPlane::Clear,
        pki: args.trust.pki()?,
        advertise: args.advertise.clone(),
        iperf3: args.iperf3.clone(),
        allow_local_targets: args.allow_local_targets,
        allowance: Allowance {
            sessions: args.sessions as usize,
            threads: args.threads as usize,
            memory: args.memory,
        },
        fleeting: false,
    };
    if args.iperf3.is_some() {
        let version =
            Command::new("iperf3").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.map_err(|error| {
            usage(format!("--iperf3 needs the program iperf3 (the package iperf3): {error}"))
        })?;
    }
    let endpoint = Endpoint::bind(config)?;
    let claims = Claims { write: !args.read_only, delete: args.allow_delete, ..Claims::FULL };
    let address = endpoint.address(&claims)?;
    let over_http = args.http.serve(&endpoint, &address.host)?;
    // Whoever reads the address may send one.
    let renewal = over_http.as_ref().map(OverHttp::renewal).unwrap_or_default();
    drain_on_signals(&endpoint, renewal, args.trust.clone());
    {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{address}")?;
        out.flush()?;
    }
    let ticket = ticket_name(&address).map_or_else(String::new, |name| format!(", ticket {name}"));
    tracing::info!("serving {} on {listen}, advertised as {}{ticket}", root.display(), address.place());
    say_what_is_not_served(&endpoint);
    endpoint.serve();
    if let Some(over_http) = over_http {
        over_http.stop();
    }
    Ok(ExitCode::SUCCESS)
}

/// Keys and tokens that this endpoint, or another program of the user's, has outside the state directory.
fn private(args: &EndpointArgs) -> Vec<PathBuf> {
    let remotes = remotes::file().ok().and_then(|file| Some(file.parent()?.to_path_buf()));
    args.trust.private().chain(args.http.private()).chain(remotes).collect()
}

/// Says in one line what of the root nobody finds.
fn say_what_is_not_served(endpoint: &Endpoint) {
    let hidden: Vec<_> = endpoint.not_served().iter().map(|path| path.display().to_string()).collect();
    if !hidden.is_empty() {
        terminal::complain(&format!(
            "its state and keys lie beneath the root and are not served: {}",
            hidden.join(", ")
        ));
    }
}

/// Reads the certificates again; what cannot be used stays as it was.
fn read_again(endpoint: &Endpoint, renewal: &Renewal, trust: &TrustArgs) {
    let renewed = trust.pki().and_then(|pki| pki.map(|identity| endpoint.renew(identity)).transpose());
    let has_pki = match renewed {
        Ok(renewed) => {
            renewed.iter().for_each(|()| tracing::info!("the site's certificates were read again"));
            renewed.is_some()
        }
        Err(error) => {
            tracing::warn!("the site's certificates stay those of before: {error}");
            true
        }
    };
    if !has_pki || !renewal.is_none() {
        renewal.renew_and_tell();
    }
}

/// SIGTERM or Ctrl-C: no new sessions, and the end once the running ones are done. A second: at once. SIGHUP: the
/// certificates are read again, and nothing ends.
fn drain_on_signals(endpoint: &Arc<Endpoint>, renewal: Renewal, trust: TrustArgs) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let endpoint = Arc::clone(endpoint);
    match signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]) {
        Ok(mut signals) => {
            thread::spawn(move || {
                let mut drains = false;
                for signal in signals.forever() {
                    match signal {
                        SIGHUP => read_again(&endpoint, &renewal, &trust),
                        _ if drains => std::process::exit(i32::from(crate::exit::INTERRUPTED)),
                        _ => {
                            tracing::info!("draining: running transfers may finish, new ones are refused");
                            endpoint.drain();
                            drains = true;
                        }
                    }
                }
            });
        }
        Err(error) => tracing::warn!("signals will end transfers at once: {error}"),
    }
}
