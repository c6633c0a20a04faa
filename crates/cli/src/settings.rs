//! Options shared by everything that moves data, and what they become.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tidegate_control::optimizer::{
    LEARNED_RULES, Optimizer, OptimizerError, OptimizerOptions, build, goes_on_learning, needs_policy,
    with_constants,
};
use tidegate_control::policy::Policy;
use tidegate_control::{BitRate, ByteCount, Share};
use tidegate_train::online::Online;
use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::sys::confined::Root;
use tidegate_transfer::sys::hidden;
use tidegate_transfer::terms::{Compare, DataPlane, Links, Purpose, Terms, Verify};
use tidegate_transfer::throttle::Limits;
use tidegate_transfer::transfer::Pace;
use tidegate_transfer::wire::tls::{Identity, PkiFiles};

use crate::exit::usage;
use crate::own_rule;
use crate::state_place;
use crate::values::{size, time};

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// As it should be.
    On,
    /// For comparison.
    Off,
}

/// How the bulk travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Plane {
    /// TLS 1.3
    Tls,
    /// Not encrypted, bound to the session; the endpoint must allow it too
    Clear,
}

/// How content is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Check {
    /// BLAKE3 end to end, as b3sum prints it
    Blake3,
    /// crc32c of every block: finds accidents, not attackers
    Block,
}

/// What to do about symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LinkRule {
    /// Copy the link itself
    Keep,
    /// Leave links out
    Skip,
    /// Copy what they point to, if that lies within the source
    Follow,
}

/// The rule for symbolic links.
#[derive(Clone, Copy, Debug, Args)]
pub struct LinkArgs {
    /// What to do about symbolic links
    #[arg(long, value_name = "RULE", value_enum, default_value_t = LinkRule::Keep)]
    pub links: LinkRule,
}

/// Who decides, and how often.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Control")]
pub struct ControlArgs {
    /// The rule that sets the numbers of readers, streams and writers: auto, universal,
    /// fixed:N, fixed:READ,NETWORK,WRITE, policy, explore, aimd, falcon, gradient, bayesian, marlin,
    /// model_fit, fts3, or coupled:RULE; constants follow, as in aimd:epsilon=1% (`tidegate rules` lists them).
    /// Or a rule of your own: 'exec:PROGRAM ARGUMENT…' or python:MODULE:NAME (docs/own-rule.md)
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub optimizer: String,
    /// The policy that `--optimizer policy` decides by: its most likely action, or with policy:sampled
    /// one drawn, or with policy:online drawn and learned from; `tidegate train` makes it
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Where what policy:online has learned is kept when the run ends, as a policy to go on from; it may be the file it
    /// began with
    #[arg(long, value_name = "FILE")]
    pub save_policy: Option<PathBuf>,
    /// How hard the rule auto pushes beside the traffic of others: background (one stream, which has
    /// what others leave), fair (no more than the streams get that would fill the path alone), full (as many streams
    /// as still bring something) [default: fair]
    #[arg(long, value_name = "NAME")]
    pub share: Option<Share>,
    /// What the rule aimd takes for a change of throughput, as a share of it: 0.02 or 2%
    #[arg(long, value_name = "SHARE")]
    pub aimd_epsilon: Option<String>,
    /// Length of an epoch [default: 1s; 3s for the published rules]
    #[arg(long, value_name = "TIME", value_parser = epoch_length)]
    pub epoch: Option<Duration>,
    /// Most workers a stage
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub max_workers: u16,
    /// Workers a stage to begin with [default: the rule's own, for auto no more than processors, but 4
    /// streams where a round trip takes 20 ms or more, and 8 connections to a server]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub start: Option<u16>,
    /// Read the most network streams, no more than --max-workers, from FILE anew each epoch, so that whoever
    /// writes it can share a path among transfers
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub bounds: Option<PathBuf>,
    /// Seed of rules that draw at random
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Base K of the utility T/K^n of the rules that climb one (1.02: FastBioDL, table 1)
    #[arg(long, hide_short_help = true, value_name = "K", value_parser = at_least_one)]
    pub utility_k: Option<f64>,
    /// Weight B of lost segments in the utility (10: Falcon)
    #[arg(long, hide_short_help = true, value_name = "B", value_parser = not_negative)]
    pub utility_b: Option<f64>,
    /// Form of the loss term: T·B·L, B·L, or none
    #[arg(long, hide_short_help = true, value_name = "FORM", value_parser = ["falcon", "ldm", "none"])]
    pub utility_loss: Option<String>,
}

/// How data is moved.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Transfer")]
pub struct TransferArgs {
    /// How the bulk travels
    #[arg(long, value_name = "PLANE", value_enum, default_value_t = Plane::Tls)]
    pub data_plane: Plane,
    /// How content is checked
    #[arg(long, value_name = "CHECK", value_enum, default_value_t = Check::Blake3)]
    pub verify: Check,
    /// Rate of each reader, such as 80Mbit/s
    #[arg(long, value_name = "RATE")]
    pub limit_read: Option<BitRate>,
    /// Rate of each network stream
    #[arg(long, value_name = "RATE")]
    pub limit_network: Option<BitRate>,
    /// Rate of each writer
    #[arg(long, value_name = "RATE")]
    pub limit_write: Option<BitRate>,
    /// Rate of all streams together
    #[arg(long, value_name = "RATE")]
    pub limit_link: Option<BitRate>,
    /// How long a connection that was lost is made again, since the transfer last got on; one that was never made is
    /// given up after 30s at most
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = retry_time)]
    pub retry_for: Duration,
    /// Memory for blocks between the stages, at each end
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = staging_size)]
    pub staging: ByteCount,
    /// Bytes of a large file given to one worker at a time
    #[arg(long, hide_short_help = true, value_name = "SIZE", default_value = "64MiB", value_parser = chunk_size)]
    pub chunk_size: ByteCount,
    /// Whether large files are moved in parallel pieces, or each by one stream that reads it, too
    #[arg(long, value_name = "SWITCH", value_enum, default_value_t = Switch::On, hide_short_help = true)]
    pub chunking: Switch,
    /// Whether a connection serves file after file, or one file each, which it reads itself
    #[arg(long, value_name = "SWITCH", value_enum, default_value_t = Switch::On, hide_short_help = true)]
    pub pipelining: Switch,
}

/// Where state lives.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "State and trust")]
pub struct StateArgs {
    /// Directory for keys, records of what was verified, and run logs
    /// [default: $XDG_STATE_HOME/tidegate, or ~/.local/state/tidegate; if neither can be written, a temporary one]
    #[arg(long, value_name = "DIR", env = "TIDEGATE_STATE")]
    state: Option<PathBuf>,
}

/// Where state lives and whom to trust.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "State and trust")]
pub struct TrustArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// Certificate authority of the site's own PKI (PEM); replaces tickets by mutual TLS
    #[arg(long, value_name = "FILE", requires = "tls_cert", requires = "tls_key")]
    pub tls_ca: Option<PathBuf>,
    /// Our certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    pub tls_cert: Option<PathBuf>,
    /// Our private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    pub tls_key: Option<PathBuf>,
}

/// Reads the length of an epoch.
pub fn epoch_length(text: &str) -> Result<Duration, String> {
    time(text, Duration::from_millis(100)..=Duration::from_secs(60), "must be from 100ms to 60s")
}

fn at_least_one(text: &str) -> Result<f64, String> {
    number(text, |k| k >= 1.0, "1 or more")
}

fn not_negative(text: &str) -> Result<f64, String> {
    number(text, |b| b >= 0.0, "0 or more")
}

fn number(text: &str, fits: impl Fn(f64) -> bool, wanted: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && fits(*number));
    number.ok_or_else(|| format!("must be a number, {wanted}"))
}

/// Reads a time of the option of that name.
pub fn stall_timeout(text: &str) -> Result<Duration, String> {
    time(text, Duration::from_secs(1)..=Duration::from_secs(24 * 3600), "must be from 1s to 24h")
}

/// Reads a time of the option `--retry-for`.
pub fn retry_time(text: &str) -> Result<Duration, String> {
    time(text, Duration::ZERO..=Duration::from_secs(30 * 86_400), "must be from 0s to 30d")
}

/// Reads a size of the option of that name.
pub fn staging_size(text: &str) -> Result<ByteCount, String> {
    size(text, ByteCount::mib(1)..=ByteCount::gib(64), "must be from 1MiB to 64GiB")
}

/// Reads a size of the option of that name.
pub fn chunk_size(text: &str) -> Result<ByteCount, String> {
    size(text, ByteCount::mib(1)..=ByteCount::gib(1 << 20), "must be from 1MiB to 1024TiB")
}

/// The most a policy file may hold; the largest trained here has 3 MB.
const MAX_POLICY: u64 = 64 << 20;

/// The rule called `name`; one that was learned decides by what the file `policy` holds.
pub fn rule(name: &str, options: &OptimizerOptions, policy: Option<&Path>) -> Result<Box<dyn Optimizer>> {
    if !needs_policy(name) {
        if let Some(file) = policy {
            let file = file.display();
            let why = format!(
                "--policy {file} goes with --optimizer {}: the rule {name} decides by none",
                learned()
            );
            return Err(usage(why));
        }
        return build(name, options).map_err(|error| usage(error.to_string()));
    }
    let file = policy.ok_or_else(|| usage(format!("--optimizer {name} needs --policy FILE")))?;
    let wrong = |why: String| usage(format!("{}: {why}", file.display()));
    let policy = Some(policy_of(file)?);
    let options = OptimizerOptions { policy, online: Some(Online::boxed), ..options.clone() };
    build(name, &options).map_err(|error| match error {
        OptimizerError::Recipe { name, recipe } => {
            wrong(format!("was trained by the recipe {recipe}, not {name}"))
        }
        error => usage(error.to_string()),
    })
}

/// The rules that decide by a policy, for an error.
fn learned() -> String {
    LEARNED_RULES.map(|rule| rule.name).join(", ")
}

/// The policy that `file` holds.
pub fn policy_of(file: &Path) -> Result<Policy> {
    read_policy(file).map_err(|why| usage(format!("{}: {why}", file.display())))
}

fn read_policy(file: &Path) -> Result<Policy, String> {
    let opened = std::fs::File::open(file).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    opened.take(MAX_POLICY + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_POLICY {
        return Err("is too large to be a policy".to_owned());
    }
    Policy::from_bytes(&bytes).map_err(|error| error.to_string())
}

impl ControlArgs {
    /// The rule asked for.
    pub fn optimizer(&self) -> Result<Box<dyn Optimizer>> {
        self.optimizer_after(None)
    }

    /// The same; one that goes on learning begins with what it has `learned`, and not with its file.
    pub fn optimizer_after(&self, learned: Option<Policy>) -> Result<Box<dyn Optimizer>> {
        let name = self.named()?;
        if self.save_policy.is_some() && !goes_on_learning(&name) {
            return Err(usage("--save-policy goes with --optimizer policy:online: no other rule learns"));
        }
        let options = OptimizerOptions { seed: self.seed, ..OptimizerOptions::default() };
        if let Some(policy) = learned {
            let options = OptimizerOptions { policy: Some(policy), online: Some(Online::boxed), ..options };
            return build(&name, &options).map_err(|error| usage(error.to_string()));
        }
        if let Some(own) = own_rule::named(&name, self.epoch, self.seed, None)? {
            return Ok(own);
        }
        rule(&name, &options, self.policy.as_deref())
    }

    /// The rule's name, with the constants that options set.
    fn named(&self) -> Result<String> {
        let numbers = [("--utility-k", "k", self.utility_k), ("--utility-b", "b", self.utility_b)];
        let words = [
            ("--utility-loss", "loss", self.utility_loss.clone()),
            ("--aimd-epsilon", "epsilon", self.aimd_epsilon.clone()),
            ("--share", "share", self.share.map(|share| share.name().to_owned())),
        ];
        let numbers =
            numbers.into_iter().map(|(option, key, value)| (option, key, value.map(|n| n.to_string())));
        let given: Vec<_> =
            numbers.chain(words).filter_map(|(o, key, value)| Some((o, key, value?))).collect();
        let given = given.iter().map(|(option, key, value)| (*option, *key, value.as_str()));
        with_constants(&self.optimizer, given).map_err(usage)
    }

    /// How the transfer is driven.
    pub fn pace(&self, optimizer: &dyn Optimizer) -> Pace {
        Pace::new(self.epoch.unwrap_or_else(|| optimizer.epoch_length()))
    }
}

impl TransferArgs {
    /// What both ends agree on.
    pub fn terms(&self, max_workers: u16) -> Terms {
        Terms {
            data_plane: match self.data_plane {
                Plane::Tls => DataPlane::Tls,
                Plane::Clear => DataPlane::Clear,
            },
            verify: match self.verify {
                Check::Blake3 => Verify::Blake3,
                Check::Block => Verify::Block,
            },
            compare: Compare::Recorded,
            purpose: Purpose::Copy,
            links: Links::Keep,
            chunk: (self.chunking == Switch::On).then_some(self.chunk_size),
            pipelining: self.pipelining == Switch::On,
            limits: Limits {
                read: self.limit_read,
                network: self.limit_network,
                write: self.limit_write,
                link: self.limit_link,
            },
            staging: self.staging,
            max_workers,
        }
    }
}

impl From<LinkRule> for Links {
    fn from(rule: LinkRule) -> Self {
        match rule {
            LinkRule::Keep => Self::Keep,
            LinkRule::Skip => Self::Skip,
            LinkRule::Follow => Self::Follow,
        }
    }
}

impl StateArgs {
    /// The state directory; one that was named may not exist.
    pub fn path(&self) -> Result<PathBuf> {
        self.state.clone().map_or_else(state_place::made, Ok)
    }

    /// The state directory, made if it is missing, and marked as nobody else's.
    pub fn state_dir(&self) -> Result<PathBuf> {
        let directory = self.path()?;
        state_place::make(&directory).map_err(|error| {
            usage(format!("cannot make the state directory {}: {error}", directory.display()))
        })?;
        // Without a mark it is still used.
        let _ = hidden::mark(&directory);
        Ok(directory)
    }

    /// The same, opened.
    pub fn open(&self) -> Result<Root> {
        use std::os::unix::ffi::OsStrExt;
        let state = self.state_dir()?;
        let path = state.as_os_str().as_bytes();
        Root::open(path).map_err(|error| Error::io("use the state directory", path, error))
    }
}

/// The database of history asked for, or else the one in the directory `state`.
pub fn history_url(asked: Option<&str>, state: &Path) -> String {
    asked.map_or_else(|| format!("sqlite:{}", state.join("history.db").display()), str::to_owned)
}

impl TrustArgs {
    /// The state directory, made if it is missing.
    pub fn state_dir(&self) -> Result<PathBuf> {
        self.state.state_dir()
    }

    /// The same said to a child of ours, whose state directory is `state`.
    pub fn arguments(&self, state: &Path) -> Vec<OsString> {
        let files =
            [("--tls-ca", &self.tls_ca), ("--tls-cert", &self.tls_cert), ("--tls-key", &self.tls_key)];
        let given = files.into_iter().filter_map(|(option, file)| Some((option, file.as_deref()?)));
        let all = [("--state", state)].into_iter().chain(given);
        all.flat_map(|(option, path)| [option.into(), path.into()]).collect()
    }

    /// What of it is said to a child of ours that speaks to others' servers.
    pub fn of_servers(&self) -> Vec<OsString> {
        self.tls_ca.iter().flat_map(|ca| ["--ca".into(), ca.into()]).collect()
    }

    /// What of it no endpoint serves, beside the state directory that is used.
    pub fn private(&self) -> impl Iterator<Item = PathBuf> {
        let files = [&self.tls_ca, &self.tls_cert, &self.tls_key].into_iter().filter_map(Clone::clone);
        files.chain(state_place::usual())
    }

    /// The site's own PKI, if asked for.
    pub fn pki(&self) -> Result<Option<Arc<Identity>>> {
        match (&self.tls_ca, &self.tls_cert, &self.tls_key) {
            (Some(ca), Some(cert), Some(key)) => {
                let files = PkiFiles { ca: ca.clone(), cert: cert.clone(), key: key.clone() };
                Identity::from_pki(&files).map(|identity| Some(Arc::new(identity)))
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;

    use tidegate_control::{
        Bounds, Concurrency, Ends, Environment, Host, Observation, PerStage, Proposal, Remaining, Scenario,
        SimulatorOptions, run, simulate,
    };

    use super::*;
    use crate::values::parsed;

    /// What the loop asks of this host at first.
    fn start(words: &[&str], host: Host) -> Concurrency {
        let control: ControlArgs = parsed(words);
        let mut rule = control.optimizer().expect("a rule");
        let script = Script { host, bounds: PerStage::all(Bounds::new(1, 32)), seen: VecDeque::new() };
        script.played(&mut *rule, control.start.map(PerStage::all))[0].setpoint
    }

    #[test]
    fn only_the_rule_that_knows_how_is_told_how_to_share() {
        let said =
            |words: &[&str]| parsed::<ControlArgs>(words).optimizer().err().map(|error| error.to_string());
        assert_eq!(said(&["--share", "full"]), None);
        assert!(
            parsed::<ControlArgs>(&["--optimizer", "aimd:hold", "--aimd-epsilon", "0.5%"])
                .optimizer()
                .is_ok()
        );
        for (rule, epsilon, wanted) in
            [("auto", "1%", "--optimizer aimd"), ("aimd", "200%", "epsilon must be")]
        {
            let refused = said(&["--optimizer", rule, "--aimd-epsilon", epsilon]).unwrap_or_default();
            assert!(refused.contains(wanted), "{refused}");
        }
        let refused = said(&["--optimizer", "aimd", "--share", "full"]).unwrap_or_default();
        assert!(refused.contains("--optimizer auto"), "{refused}");
    }

    #[test]
    fn an_option_that_a_rule_ignores_is_refused_and_one_that_it_has_reaches_it() {
        let said =
            |words: &[&str]| parsed::<ControlArgs>(words).optimizer().err().map(|error| error.to_string());
        let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/../control/policies/universal.safetensors");
        for option in [["--utility-k", "1.05"], ["--utility-b", "1"], ["--utility-loss", "ldm"]] {
            for rule in ["auto", "fixed:4", "aimd", "universal", "model_fit", "fts3", "explore"] {
                let refused = said(&["--optimizer", rule, option[0], option[1]]).unwrap_or_default();
                assert!(refused.contains(option[0]) && refused.contains(rule), "{rule}: {refused}");
                assert!(refused.contains("falcon, gradient, bayesian, marlin, policy"), "{refused}");
            }
            for rule in ["falcon", "gradient:repaired", "independent:bayesian", "marlin"] {
                assert_eq!(said(&["--optimizer", rule, option[0], option[1]]), None, "{rule}");
            }
            let online = ["--optimizer", "policy:online", "--policy", policy, option[0], option[1]];
            assert_eq!(said(&online), None);
            let held = said(&["--optimizer", "policy", "--policy", policy, option[0], option[1]]);
            assert!(held.is_some_and(|why| why.contains("goes with policy:online")));
        }
        for rule in ["auto", "gradient", "universal", "fixed:2"] {
            let refused = said(&["--optimizer", rule, "--policy", policy]).unwrap_or_default();
            assert!(refused.contains("goes with --optimizer policy") && refused.contains(rule), "{refused}");
        }
        // A number beside one in the name.
        let twice = said(&["--optimizer", "gradient:k=1.01", "--utility-k", "1.05"]);
        assert!(twice.is_some_and(|why| why.contains("twice")));
    }

    /// Shows what it was given to show, whatever is asked for.
    struct Script {
        host: Host,
        bounds: PerStage<Bounds>,
        seen: VecDeque<Observation>,
    }

    impl Script {
        /// What `rule` answers to it from its start on.
        fn played(mut self, rule: &mut dyn Optimizer, start: Option<Concurrency>) -> Vec<Proposal> {
            let mut answers = Vec::new();
            let Ok(()) = run(&mut self, rule, start, |_, next| answers.push(next.clone()));
            answers
        }
    }

    /// A rule that remembers what it was shown, and what it answered.
    struct Recorded {
        rule: Box<dyn Optimizer>,
        seen: VecDeque<Observation>,
        answers: Vec<Proposal>,
    }

    impl Recorded {
        /// What was shown, as Python is told it, and the set-points that were answered, an epoch a line.
        fn as_json(&self, scenario: &Scenario) -> String {
            let numbers = |n: &Proposal| [n.setpoint.read, n.setpoint.network, n.setpoint.write];
            let option = |value: Option<f64>| value.map_or("null".to_owned(), |value| format!("{value:?}"));
            let epoch = |(seen, next): (&Observation, &Proposal)| {
                let (at, interval) = (seen.at.as_secs_f64() * 1e3, seen.interval.as_secs_f64() * 1e3);
                let PerStage { read, network, write } = seen.concurrency;
                let rate = seen.throughput;
                let ends = |ends: Ends<ByteCount>| [ends.sender.0, ends.receiver.0];
                let left = |of: fn(Remaining) -> u64| {
                    seen.remaining.map_or("null".to_owned(), |left| of(left).to_string())
                };
                let fields = [
                    format!("\"concurrency\": {:?}", [read, network, write]),
                    format!("\"throughput_bps\": {:?}", [rate.read.0, rate.network.0, rate.write.0]),
                    format!("\"standard_error\": {:?}", seen.standard_error.into_array()),
                    format!("\"waited\": [{}]", seen.waited.into_array().map(option).join(", ")),
                    format!("\"staging_free_bytes\": {:?}", ends(seen.staging_free)),
                    format!("\"staging_capacity_bytes\": {:?}", ends(seen.staging_capacity)),
                    format!("\"at_ms\": {at:?}, \"interval_ms\": {interval:?}"),
                    format!("\"loss\": {}", option(seen.loss)),
                    format!("\"rtt_us\": {}", option(seen.rtt.map(|rtt| rtt.as_secs_f64() * 1e6))),
                    format!("\"remaining_bytes\": {}", left(|left| left.bytes.0)),
                    format!("\"remaining_files\": {}", left(|left| left.files)),
                ];
                format!("{{\"seen\": {{{}}},\n \"next\": {:?}}}", fields.join(", "), numbers(next))
            };
            let PerStage { read, network, write } = scenario.bounds();
            let bounds = [read, network, write].map(|bounds| [bounds.min, bounds.max]);
            let epochs: Vec<String> = self.seen.iter().zip(&self.answers[1..]).map(epoch).collect();
            let (start, epochs) = (numbers(&self.answers[0]), epochs.join(",\n"));
            format!("{{\"bounds\": {bounds:?},\n\"start\": {start:?},\n\"epochs\": [\n{epochs}\n]}}\n")
        }
    }

    impl Optimizer for Recorded {
        fn start(&mut self, bounds: PerStage<Bounds>, host: &Host) -> Proposal {
            self.answers.push(self.rule.start(bounds, host));
            self.answers[0].clone()
        }

        fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Proposal {
            self.seen.push_back(seen.clone());
            let next = self.rule.propose(seen, bounds);
            self.answers.push(next.clone());
            next
        }
    }

    impl Environment for Script {
        type Error = Infallible;

        fn bounds(&self) -> PerStage<Bounds> {
            self.bounds
        }

        fn host(&self) -> Host {
            self.host.clone()
        }

        fn step(&mut self, _: Concurrency) -> Result<Option<Observation>, Infallible> {
            Ok(self.seen.pop_front())
        }
    }

    #[test]
    fn a_far_path_begins_with_more_streams_and_no_more_readers() {
        let at =
            |ms| Host { processors: Some(4), round_trip: Some(Duration::from_millis(ms)), ..Host::default() };
        assert!(start(&[], at(1)).network <= 2);
        let far = start(&[], at(100));
        assert!(far.network == 4 && far.read <= 2 && far.write <= 2, "{far:?}");
        assert_eq!(start(&["--start", "3"], at(100)), PerStage::all(3), "unless another number is asked for");
        let one = |words: &[&str]| start(words, Host { processors: Some(1), ..Host::default() });
        assert_eq!(one(&[]), PerStage::all(1), "one processor, one worker");
    }

    #[test]
    fn a_rule_answers_alike_whoever_asks() {
        let text = include_str!("../../../scenarios/automdt-read.toml");
        let scenario = Scenario::from_toml(text).expect("a scenario");
        for name in ["auto", "universal", "marlin"] {
            // As `tidegate simulate` does.
            let options = OptimizerOptions { seed: 1, ..OptimizerOptions::default() };
            let simulated = rule(name, &options, None);
            let mut simulated =
                Recorded { rule: simulated.expect("a rule"), seen: VecDeque::new(), answers: Vec::new() };
            simulate(&scenario, &mut simulated, None, SimulatorOptions::new(1, Duration::from_secs(1), 40));
            assert_eq!(simulated.seen.len(), 40);
            // As a transfer does.
            let mut live = parsed::<ControlArgs>(&["--optimizer", name]).optimizer().expect("a rule");
            let script =
                Script { host: Host::default(), bounds: scenario.bounds(), seen: simulated.seen.clone() };
            assert_eq!(script.played(&mut *live, None), simulated.answers, "{name}");
            // As Python does.
            let mut python = build(name, &options).expect("a rule");
            let start = python.start(scenario.bounds(), &Host::default());
            let next = simulated.seen.iter().map(|seen| python.propose(seen, scenario.bounds()));
            assert_eq!([start].into_iter().chain(next).collect::<Vec<_>>(), simulated.answers, "{name}");
            // As Python's own tests do, from a file.
            if name == "auto" {
                let (text, file) = (simulated.as_json(&scenario), "../../python/tests/recorded.json");
                assert!(text == include_str!("../../python/tests/recorded.json"), "{file} is to be\n{text}");
            }
        }
    }
}
