//! `tidegate endpoint`: the daemon that others copy to and from.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use clap::Args;
use tidegate_transfer::endpoint::{Config, Endpoint};
use tidegate_transfer::error::Error;
use tidegate_transfer::wire::ticket::{Address, Claims, DEFAULT_PORT};

use crate::drive::raise_file_limit;
use crate::exit::usage;
use crate::iperf3_server::Iperf3Server;
use crate::settings::{Plane, TrustArgs};

/// Serve a directory to those who hold a ticket.
///
/// The first line on standard output is the ticket, a URL to which a path is appended. Key, secret and
/// so the ticket survive a restart. SIGTERM lets running transfers finish and exits 0.
#[derive(Debug, Args)]
pub struct EndpointArgs {
    /// The directory to serve; nothing outside it can be reached
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    /// Where to listen
    #[arg(long, value_name = "ADDR[:PORT]", default_value = "0.0.0.0:7117")]
    listen: String,
    /// The host name or address to print in the ticket [default: the one listened on]
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    /// Let data be fetched but not put
    #[arg(long)]
    read_only: bool,
    /// Whether peers may ask for data streams that are not encrypted
    #[arg(long, value_name = "PLANE", value_enum, default_value_t = Plane::Tls)]
    data_plane: Plane,
    /// Run `iperf3 -s` beside it, so that `tidegate estimate --sampler iperf3` can measure the path to here; it
    /// answers whoever reaches the port, without a ticket [default port: 5201]
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "5201")]
    iperf3: Option<u16>,
    #[command(flatten)]
    trust: TrustArgs,
}

/// Runs the command.
pub fn run(args: &EndpointArgs) -> anyhow::Result<ExitCode> {
    raise_file_limit();
    let listen = listen_address(&args.listen)?;
    let config = Config {
        root: args.root.clone(),
        listen,
        state: args.trust.state_dir()?,
        read_only: args.read_only,
        clear: args.data_plane == Plane::Clear,
        pki: args.trust.pki()?,
        advertise: args.advertise.clone(),
    };
    let endpoint = Endpoint::bind(config)?;
    let claims = Claims { write: !args.read_only, ..Claims::FULL };
    {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", endpoint.address(&claims)?)?;
        out.flush()?;
    }
    drain_on_signals(&endpoint);
    // Ends with the endpoint.
    let _beside = args.iperf3.map(|port| Iperf3Server::start(listen, port)).transpose()?;
    endpoint.serve();
    Ok(ExitCode::SUCCESS)
}

fn listen_address(text: &str) -> Result<SocketAddr, Error> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, DEFAULT_PORT));
    }
    text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next()).ok_or_else(|| {
        usage(format!("cannot listen on '{text}': write an address and a port, as in 0.0.0.0:7117"))
    })
}

/// SIGTERM or Ctrl-C: no new sessions, and the end once the running ones are done. A second: at once.
fn drain_on_signals(endpoint: &Arc<Endpoint>) {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let endpoint = Arc::clone(endpoint);
    match signal_hook::iterator::Signals::new([SIGINT, SIGTERM]) {
        Ok(mut signals) => {
            thread::spawn(move || {
                let mut signals = signals.forever();
                signals.next();
                tracing::info!("draining: running transfers may finish, new ones are refused");
                endpoint.drain();
                signals.next();
                std::process::exit(i32::from(crate::exit::INTERRUPTED));
            });
        }
        Err(error) => tracing::warn!("signals will end transfers at once: {error}"),
    }
}

/// An endpoint in this process, for copies from here to here and for the demo.
pub struct Loopback {
    endpoint: Arc<Endpoint>,
    serving: Option<JoinHandle<()>>,
}

impl Loopback {
    /// Serves `root` on the loopback.
    pub fn start(root: &Path, state: &Path) -> Result<Self, Error> {
        let config = Config {
            root: root.to_path_buf(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            state: state.join("loopback"),
            read_only: false,
            clear: true,
            pki: None,
            advertise: None,
        };
        let endpoint = Endpoint::bind(config)?;
        let serving = {
            let endpoint = Arc::clone(&endpoint);
            thread::spawn(move || endpoint.serve())
        };
        Ok(Self { endpoint, serving: Some(serving) })
    }

    /// Its address, with a full ticket.
    pub fn address(&self) -> Result<Address, Error> {
        self.endpoint.address(&Claims::FULL)
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.endpoint.drain();
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}
