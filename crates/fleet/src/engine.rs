//! What starts movers: the engine that a site already runs, or plain processes. Which shard a mover takes is none of an
//! engine's business: the service knows, and a mover that is lost costs a lease.

mod children;
mod condor;
mod dask;
mod kubernetes;
mod local;
mod pbs;
mod quoting;
mod slurm;
mod ssh;
mod tool;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use tidegate_run::ssh::SshArgs;
use tidegate_run::ssh::target::Target;
use tidegate_transfer::error::{Result, usage};

pub use crate::engine::children::ask_to_end;
use crate::engine::kubernetes::Mount;
use crate::engine::quoting::{EngineOption, plain_word};

/// Most movers that are asked for at once.
const MAX_MOVERS: u32 = 10_000;

/// What a mover's exit code tells whoever started it.
pub mod ending {
    /// Nothing is left for it to do.
    pub const DRAINED: i32 = 0;
    /// It left while there was more to do: start it again.
    pub const TRY_AGAIN: i32 = 75;
    /// It never can run so: do not start it again.
    pub const CONFIGURATION: i32 = 78;
}

/// The movers that are wanted.
#[derive(Clone, Debug)]
pub struct Movers {
    /// How many.
    pub count: u32,
    /// How many of them run at a time, if not all.
    pub at_once: Option<u32>,
    /// Whether several may share a host.
    pub share_hosts: bool,
    /// What an engine calls them: letters, digits and `-`.
    pub name: String,
    /// Where this program is, on each host.
    pub program: String,
    /// The service whose shards they move.
    pub service: String,
    /// The file, on each host, of the authority that certifies the service, if it is not one of the system's.
    pub server_ca: Option<String>,
    /// The file that holds their token, on each host; the token itself stands in nothing that is rendered.
    pub token_file: String,
}

impl Movers {
    /// The words that start one.
    fn words(&self) -> Vec<&str> {
        let mut words = vec![&*self.program];
        words.extend(self.arguments(&self.token_file));
        words
    }

    /// The same behind the program, for one that finds the token in `token_file`.
    fn arguments<'a>(&'a self, token_file: &'a str) -> Vec<&'a str> {
        let mut words = vec!["mover", "--service", &self.service, "--token-file", token_file];
        words.extend(self.server_ca.iter().flat_map(|ca| ["--server-ca", ca]));
        words
    }
}

/// Something that starts movers.
pub trait Engine {
    /// The script, manifest or program by which it does, as it can be handed to the engine by hand.
    fn render(&self, movers: &Movers) -> Result<String>;

    /// Starts them.
    fn start(&self, movers: &Movers) -> Result<Box<dyn Started>>;
}

/// Movers that an engine was asked for.
pub trait Started {
    /// What the engine calls them.
    fn name(&self) -> String;

    /// How many of them run. An engine that does not answer now is an error; it may answer later.
    fn look(&mut self) -> Result<Status>;

    /// Ends them; what they hold is given back.
    fn stop(&mut self) -> Result<()>;

    /// Whether they go on without us.
    fn outlives_us(&self) -> bool {
        true
    }
}

/// How many movers do what, as far as their engine tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Run.
    pub running: u32,
    /// Wait for a host.
    pub pending: u32,
    /// Ended well.
    pub ended: u32,
    /// Ended otherwise, and are not started again.
    pub failed: u32,
    /// Why some wait or failed.
    pub why: Option<String>,
}

impl Status {
    /// Whether none runs and none will.
    pub fn is_over(&self) -> bool {
        self.running + self.pending == 0
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} run", self.running)?;
        for (many, what) in [(self.pending, "wait"), (self.ended, "have ended"), (self.failed, "failed")] {
            if many > 0 {
                write!(f, ", {many} {what}")?;
            }
        }
        self.why.as_ref().map_or(Ok(()), |why| write!(f, " ({why})"))
    }
}

/// Which engine.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    Local,
    Ssh(Vec<Target>),
    Slurm,
    Kubernetes,
    Condor,
    Pbs,
    Dask(String),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        match (name, rest) {
            ("local", None) => Ok(Self::Local),
            ("slurm", None) => Ok(Self::Slurm),
            ("kubernetes", None) => Ok(Self::Kubernetes),
            ("condor", None) => Ok(Self::Condor),
            ("pbs", None) => Ok(Self::Pbs),
            ("ssh", Some(hosts)) if !hosts.is_empty() => {
                let targets: Result<_> = hosts.split(',').map(Target::of_host).collect();
                targets.map(Self::Ssh).map_err(|error| error.message)
            }
            ("ssh", _) => Err("name the hosts: ssh:host1,host2".to_owned()),
            ("dask", Some(address)) if plain_word(address) => Ok(Self::Dask(address.to_owned())),
            ("dask", _) => Err("name its scheduler: dask:tcp://host:8786".to_owned()),
            _ => Err("engines are local, ssh:host1,host2, slurm, pbs, condor, kubernetes and dask:ADDRESS"
                .to_owned()),
        }
    }
}

/// Where movers run, and how many.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Movers")]
pub struct EngineArgs {
    /// What starts movers: local, ssh:host1,host2, slurm, pbs, condor, kubernetes or dask:ADDRESS
    #[arg(long, value_name = "ENGINE", default_value = "local")]
    engine: Choice,
    /// How many movers [default: one, or one for each host of ssh:]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_MOVERS)))]
    movers: Option<u32>,
    /// How many of them run at a time [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    at_once: Option<u32>,
    /// Let several movers run on one host: without it each has one of its own, where the engine can promise that
    #[arg(long)]
    share_hosts: bool,
    /// The partition of Slurm, the queue of PBS or the namespace of Kubernetes
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// An option of Slurm or PBS, or a line of HTCondor's submit file, as in 'time=4:00:00'
    #[arg(long = "engine-option", value_name = "NAME=VALUE")]
    options: Vec<EngineOption>,
    /// The container's image, with this program, for Kubernetes
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// A directory of the nodes, or CLAIM:DIR of a volume claim, that pods see under that path
    #[arg(long = "mount", value_name = "DIR")]
    mounts: Vec<Mount>,
    /// Where this program is on the hosts of movers [default: as here; with ssh and Kubernetes on the PATH there]
    #[arg(long, value_name = "PATH")]
    mover_path: Option<String>,
}

impl EngineArgs {
    /// The engine that is chosen. What it has no use for is refused.
    pub fn engine(&self, ssh: &SshArgs) -> Result<Box<dyn Engine>> {
        let is_batch = matches!(self.engine, Choice::Slurm | Choice::Pbs | Choice::Condor);
        let is_placed = !matches!(self.engine, Choice::Local | Choice::Ssh(_) | Choice::Dask(_));
        let is_kubernetes = self.engine == Choice::Kubernetes;
        let has_partitions = is_placed && self.engine != Choice::Condor;
        let has_limit =
            matches!(self.engine, Choice::Slurm | Choice::Pbs | Choice::Kubernetes | Choice::Condor);
        for (given, has_use, option) in [
            (!self.options.is_empty(), is_batch, "--engine-option"),
            (self.partition.is_some(), has_partitions, "--partition"),
            (self.share_hosts, is_placed, "--share-hosts"),
            (self.at_once.is_some(), has_limit, "--at-once"),
            (self.image.is_some(), is_kubernetes, "--image"),
            (!self.mounts.is_empty(), is_kubernetes, "--mount"),
        ] {
            if given && !has_use {
                return Err(usage(format!("{option} means nothing to this engine")));
            }
        }
        if let Some(partition) = self.partition.as_ref().filter(|name| !plain_word(name)) {
            return Err(usage(format!(
                "--partition {partition:?} is no name: letters, digits and _.,:@/+=- are"
            )));
        }
        let (partition, options) = (self.partition.clone(), self.options.clone());
        Ok(match &self.engine {
            Choice::Local => Box::new(local::Local),
            Choice::Ssh(hosts) => Box::new(ssh::Hosts { hosts: hosts.clone(), args: ssh.clone() }),
            Choice::Slurm => Box::new(slurm::Slurm { partition, options }),
            Choice::Pbs => Box::new(pbs::Pbs { queue: partition, options }),
            Choice::Condor => Box::new(condor::Condor { options }),
            Choice::Dask(scheduler) => Box::new(dask::Dask { scheduler: scheduler.clone() }),
            Choice::Kubernetes => Box::new(kubernetes::Kubernetes {
                namespace: partition,
                image: self.image.clone().ok_or_else(|| {
                    usage("Kubernetes runs images: name one that has this program by --image")
                })?,
                mounts: self.mounts.clone(),
            }),
        })
    }

    /// Whether they run on this host.
    pub fn is_here(&self) -> bool {
        self.engine == Choice::Local
    }

    /// The movers that are wanted of a service, by a file that holds their token.
    pub fn movers(
        &self,
        name: String,
        service: String,
        server_ca: Option<&Path>,
        token_file: &Path,
    ) -> Result<Movers> {
        let absolute = |path: &Path| {
            let absolute = std::path::absolute(path)
                .map_err(|error| usage(format!("{} is no path: {error}", path.display())))?;
            text(absolute)
        };
        let hosts = match &self.engine {
            Choice::Ssh(hosts) => u32::try_from(hosts.len()).unwrap_or(MAX_MOVERS),
            _ => 1,
        };
        Ok(Movers {
            count: self.movers.unwrap_or(hosts),
            at_once: self.at_once,
            share_hosts: self.share_hosts,
            name,
            program: self.program()?,
            service,
            server_ca: server_ca.map(absolute).transpose()?,
            token_file: absolute(token_file)?,
        })
    }

    fn program(&self) -> Result<String> {
        match (&self.mover_path, &self.engine) {
            (Some(path), _) => Ok(path.clone()),
            (None, Choice::Kubernetes | Choice::Ssh(_)) => Ok("tidegate".to_owned()),
            (None, _) => text(
                std::env::current_exe()
                    .map_err(|error| usage(format!("cannot tell where this program is: {error}")))?,
            ),
        }
    }
}

/// A path as text, which scripts are.
fn text(path: PathBuf) -> Result<String> {
    path.into_os_string()
        .into_string()
        .map_err(|path| usage(format!("{} is no text, as a path in a script must be", path.display())))
}
