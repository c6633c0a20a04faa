//! `tidegate serve`: the service that estimates, schedules, remembers and shows.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tidegate_control::units::parse_duration;
use tidegate_fleet::shards::TERM;
use tidegate_run::drive::raise_file_limit;
use tidegate_run::remotes::{self, Remote};
use tidegate_run::settings::{StateArgs, history_url};
use tidegate_service::api::{Config, TlsFiles};
use tidegate_service::estimate::Program;
use tidegate_service::history::Retention;
use tidegate_service::mover::Programs;
use tidegate_service::names::Names;
use tidegate_service::scheduler::{Limits, Sizes};
use tidegate_service::server::{Options, Ready, Sharing, run as run_service};
use tidegate_spec::setup::{Pki, Setup};
use tidegate_transfer::wire::ticket::Place;
use tidegate_transfer::wire::tls::{Identity, PkiFiles};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::exit::{INTERRUPTED, usage};
use crate::values::listen_address;

/// Where it listens unless told otherwise; the endpoint's port is 7117.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7118);

/// Serve estimates and transfer jobs over HTTP, with a dashboard.
///
/// Prints its address and, on the second line, once it works, a link that signs a browser in. Jobs are kept on disk: after a
/// crash the next start goes on with them. SIGTERM lets jobs stop where they can go on later, and exits 0.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Where to listen; other hosts need TLS
    #[arg(long, value_name = "ADDR[:PORT]", default_value = "127.0.0.1:7118")]
    listen: String,
    /// The service's certificate chain, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Answer other hosts without TLS, as when a proxy in front encrypts; tokens can be read on the way
    #[arg(long, conflicts_with = "tls_cert")]
    insecure: bool,
    /// Where history is kept: sqlite:PATH or postgres://… [default: history.db in the state directory]
    #[arg(long, value_name = "URL", env = "TIDEGATE_DATABASE", hide_env_values = true)]
    database: Option<String>,
    /// Keep jobs in --database, which is PostgreSQL, too: each of the services that share them can be asked, one works, and
    /// another takes over within seconds when it ends
    #[arg(long, requires = "database")]
    shared_queue: bool,
    /// Where these services reach this one [default: where it listens, by this host's name if that is everywhere]
    #[arg(long, value_name = "HOST[:PORT]", requires = "shared_queue")]
    advertise: Option<Place>,
    /// Forget records of history that are older; more where old logs were imported
    #[arg(long, value_name = "AGE", default_value = "396d", value_parser = parse_duration)]
    keep_history: Duration,
    /// Most jobs at a time
    #[arg(long, value_name = "N", default_value_t = Limits::default().jobs as u32, value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Limits")]
    max_jobs: u32,
    /// Most jobs at a time at each site
    #[arg(long, value_name = "N", default_value_t = Limits::default().jobs_per_site as u32, value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Limits")]
    max_jobs_per_site: u32,
    /// Most jobs at a time between two sites
    #[arg(long, value_name = "N", default_value_t = Limits::default().jobs_per_pair as u32, value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Limits")]
    max_jobs_per_path: u32,
    /// Most network streams between two sites, shared by the jobs there
    #[arg(long, value_name = "N", default_value_t = Limits::default().streams_per_pair, value_parser = clap::value_parser!(u16).range(1..=512), help_heading = "Limits")]
    max_streams_per_path: u16,
    /// Certificates (PEM) that jobs trust: of servers besides the system's, and of endpoints of the site's own PKI
    #[arg(long, value_name = "FILE", help_heading = "Jobs")]
    tls_ca: Option<PathBuf>,
    /// The certificate chain (PEM) that jobs show to such endpoints [default: that of --tls-cert]
    #[arg(long, value_name = "FILE", requires = "tls_ca", requires = "peer_key", help_heading = "Jobs")]
    peer_cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "peer_cert", help_heading = "Jobs")]
    peer_key: Option<PathBuf>,
    /// How long a lease of shards holds without being renewed, for tests of what happens beyond it
    #[arg(long, hide = true, value_name = "TIME", value_parser = parse_duration)]
    lease_term: Option<Duration>,
    /// Seed of the pauses between tries
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    state: StateArgs,
}

/// Runs the command.
pub fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    raise_file_limit();
    let state = args.state.state_dir()?;
    // Children run elsewhere.
    let state = std::path::absolute(&state)?;
    let database = history_url(args.database.as_deref(), &state);
    if args.shared_queue && database.starts_with("sqlite:") {
        return Err(usage(
            "--shared-queue needs a --database that others reach, as in postgres://USER:PASSWORD@HOST/NAME",
        )
        .into());
    }
    let tls = args.tls_cert.clone().zip(args.tls_key.clone()).map(|(cert, key)| TlsFiles { cert, key });
    let trusted = args.trusted()?;
    let (pki, ca) = (trusted.pki.clone(), trusted.ca.clone());
    let program = Program::ours(Setup { state: Some(state.clone()), pki, ca, ..Setup::default() });
    let mut programs = Programs::new(program.path.clone(), state.clone());
    let sizes = Sizes { program: program.clone(), globus: programs.globus.clone() };
    (programs.pki, programs.ca) = (trusted.pki, trusted.ca);
    let (renew, renewals) = mpsc::channel(1);
    let options = Options {
        api: Config {
            listen: listen_address(&args.listen, DEFAULT_LISTEN)?,
            tls,
            clear: args.insecure,
            state,
        },
        database,
        sharing: args.shared_queue.then(|| Sharing { reached_at: args.advertise.clone() }),
        retention: Retention { age: args.keep_history, ..Retention::default() },
        limits: Limits {
            jobs: args.max_jobs as usize,
            jobs_per_site: args.max_jobs_per_site as usize,
            jobs_per_pair: args.max_jobs_per_path as usize,
            streams_per_pair: args.max_streams_per_path,
        },
        program,
        sizes,
        names: Names::new(|name| match remotes::find(name) {
            Ok(Remote::Served(address)) => Ok(address.with_path([]).to_string()),
            Ok(Remote::Ssh(target, _)) => {
                Err(format!("{name} is {target}, and jobs go to endpoints that are served: no job runs ssh"))
            }
            Ok(Remote::Pool(pool)) => {
                Err(format!("{name} is a {pool}, which only `tidegate spread` moves to or from"))
            }
            Err(error) => Err(error.to_string()),
        }),
        epochs: {
            let programs = programs.clone();
            Box::new(move |id| programs.epochs(id))
        },
        mover: Box::new(move || programs.mover()),
        lease_term: args.lease_term.unwrap_or(TERM),
        seed: args.seed,
        renewals,
    };
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let mut hangup = signal(SignalKind::hangup())?;
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                // One that waits already stands for all.
                let _ = renew.try_send(());
            }
        });
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let stop = async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            tracing::info!("stopping: jobs stop where they can go on, no new ones begin");
            tokio::spawn(async move {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                std::process::exit(i32::from(INTERRUPTED));
            });
        };
        // A file that may not grow is an error to be told, and no reason to end.
        let _grown = signal(SignalKind::from_raw(signal_hook::consts::SIGXFSZ))?;
        let ready = |ready: Ready<'_>| {
            let (Ready::Listens(line) | Ready::Works(line)) = ready;
            let mut out = std::io::stdout().lock();
            // Nobody may read it.
            let _ = writeln!(out, "{line}").and_then(|()| out.flush());
        };
        run_service(options, ready, stop).await.map_err(|error| anyhow::Error::from(usage(error.to_string())))
    });
    // Whatever is still read or written in the background ends with the process.
    runtime.shutdown_background();
    ended.map(|()| ExitCode::SUCCESS)
}

/// What children are told of whom to trust.
#[derive(Debug, Default)]
struct Trusted {
    /// The site's own PKI, for those that speak to endpoints.
    pki: Option<Pki>,
    /// The authority, for those that speak to others' servers.
    ca: Option<PathBuf>,
}

impl ServeArgs {
    /// Looks at the files now: a job would fail by them much later.
    fn trusted(&self) -> anyhow::Result<Trusted> {
        let Some(ca) = &self.tls_ca else { return Ok(Trusted::default()) };
        // Children run elsewhere.
        let absolute = |path: &Path| std::path::absolute(path);
        let ca = absolute(ca)?;
        let shown = self.peer_cert.as_ref().zip(self.peer_key.as_ref());
        let Some((cert, key)) = shown.or(self.tls_cert.as_ref().zip(self.tls_key.as_ref())) else {
            Identity::authorities(&ca)?;
            return Ok(Trusted { pki: None, ca: Some(ca) });
        };
        let files = PkiFiles { ca: ca.clone(), cert: absolute(cert)?, key: absolute(key)? };
        Identity::from_pki(&files)?;
        let PkiFiles { ca: authority, cert, key } = files;
        Ok(Trusted { pki: Some(Pki { ca: authority, cert, key }), ca: Some(ca) })
    }
}
