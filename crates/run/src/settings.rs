//! Options shared by everything that moves data, and what they become.

use clap::Args;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_control::optimizer::{
    LEARNED_RULES, MakeOnline, Optimizer, OptimizerError, OptimizerOptions, build, goes_on_learning,
    needs_policy,
};
use tidegate_control::policy::Policy;
use tidegate_spec::control::Control;
use tidegate_spec::form::path_option;
use tidegate_spec::setup::{Pki, Setup};
use tidegate_transfer::error::{Error, Result, usage};
use tidegate_transfer::sys::confined::Root;
use tidegate_transfer::sys::hidden;
use tidegate_transfer::transfer::Pace;
use tidegate_transfer::wire::tls::{Identity, PkiFiles};

use crate::own_rule;
use crate::state_place;

/// Where state lives.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "State and trust")]
pub struct StateArgs {
    /// Directory for keys, records of what was verified, and run logs
    /// [default: $XDG_STATE_HOME/tidegate, or ~/.local/state/tidegate; if neither can be written, a temporary one]
    #[arg(long, value_name = "DIR", env = "TIDEGATE_STATE")]
    #[serde(with = "path_option")]
    state: Option<PathBuf>,
}

/// Where state lives and whom to trust.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "State and trust")]
pub struct TrustArgs {
    /// Where state lives.
    #[command(flatten)]
    #[serde(flatten)]
    pub state: StateArgs,
    /// Certificate authority of the site's own PKI (PEM); replaces tickets by mutual TLS
    #[arg(long, value_name = "FILE", requires = "tls_cert", requires = "tls_key")]
    #[serde(with = "path_option")]
    pub tls_ca: Option<PathBuf>,
    /// Our certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    #[serde(with = "path_option")]
    pub tls_cert: Option<PathBuf>,
    /// Our private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    #[serde(with = "path_option")]
    pub tls_key: Option<PathBuf>,
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
    let options = OptimizerOptions { policy, online: ONLINE, ..options.clone() };
    build(name, &options).map_err(|error| match error {
        OptimizerError::Recipe { name, recipe } => {
            wrong(format!("was trained by the recipe {recipe}, not {name}"))
        }
        error => usage(error.to_string()),
    })
}

/// What makes a rule that goes on learning.
#[cfg(feature = "train")]
const ONLINE: Option<MakeOnline> = Some(tidegate_train::online::Online::boxed);
#[cfg(not(feature = "train"))]
const ONLINE: Option<MakeOnline> = None;

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

/// The rule that is asked for.
pub fn optimizer(control: &Control) -> Result<Box<dyn Optimizer>> {
    optimizer_after(control, None)
}

/// The same; one that goes on learning begins with what it has `learned`, and not with its file.
pub(crate) fn optimizer_after(control: &Control, learned: Option<Policy>) -> Result<Box<dyn Optimizer>> {
    let Control { spec, local } = control;
    let name = spec.named().map_err(usage)?;
    if local.save_policy.is_some() && !goes_on_learning(&name) {
        return Err(usage("--save-policy goes with --optimizer policy:online: no other rule learns"));
    }
    let options = OptimizerOptions { seed: spec.seed, ..OptimizerOptions::default() };
    if let Some(policy) = learned {
        let options = OptimizerOptions { policy: Some(policy), online: ONLINE, ..options };
        return build(&name, &options).map_err(|error| usage(error.to_string()));
    }
    if let Some(own) = own_rule::named(&name, spec.epoch, spec.seed, None)? {
        return Ok(own);
    }
    rule(&name, &options, local.policy.as_deref())
}

/// How a transfer is driven.
pub fn pace(control: &Control, optimizer: &dyn Optimizer) -> Pace {
    Pace::new(control.spec.epoch.unwrap_or_else(|| optimizer.epoch_length()))
}

impl StateArgs {
    /// There, or else where the environment says.
    pub fn at(state: Option<PathBuf>) -> Self {
        let said = || std::env::var_os("TIDEGATE_STATE").filter(|said| !said.is_empty()).map(PathBuf::from);
        Self { state: state.or_else(said) }
    }

    /// The same, or where the environment says.
    pub fn or_said(self) -> Self {
        Self::at(self.state)
    }

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
    /// State in that directory, and nobody's certificates.
    pub fn kept_in(state: &Path) -> Self {
        Self { state: StateArgs::at(Some(state.to_owned())), ..Self::default() }
    }

    /// The same, with state where the environment says if nobody else does.
    ///
    /// # Errors
    /// Some of the files of the site's PKI are named, and others are not.
    pub fn or_said(self) -> Result<Self> {
        match [&self.tls_ca, &self.tls_cert, &self.tls_key].iter().filter(|file| file.is_some()).count() {
            0 | 3 => Ok(Self { state: self.state.or_said(), ..self }),
            _ => Err(usage("--tls-ca, --tls-cert and --tls-key go together: give all three")),
        }
    }

    /// State as `setup` says, or else as the environment does, and the certificates that it names.
    pub fn of(setup: &Setup) -> Self {
        let pki = setup.pki.clone();
        let [tls_ca, tls_cert, tls_key] =
            pki.map_or([None, None, None], |pki| [Some(pki.ca), Some(pki.cert), Some(pki.key)]);
        Self { state: StateArgs::at(setup.state.clone()), tls_ca, tls_cert, tls_key }
    }

    /// The state directory, made if it is missing.
    pub fn state_dir(&self) -> Result<PathBuf> {
        self.state.state_dir()
    }

    /// The same said to a child of ours, whose state directory is `state`.
    pub fn setup(&self, state: &Path) -> Setup {
        let all = self.tls_ca.clone().zip(self.tls_cert.clone()).zip(self.tls_key.clone());
        Setup {
            state: Some(state.to_owned()),
            ca: self.tls_ca.clone(),
            pki: all.map(|((ca, cert), key)| Pki { ca, cert, key }),
            ..Setup::default()
        }
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
    use std::time::Duration;

    use tidegate_control::{
        Bounds, ByteCount, Concurrency, Ends, Environment, Host, Observation, PerStage, Proposal, Remaining,
        Scenario, SimulatorOptions, run, simulate,
    };

    use super::*;
    use crate::typed::parsed;

    /// What the loop asks of this host at first.
    fn start(words: &[&str], host: Host) -> Concurrency {
        let control: Control = parsed(words);
        let mut rule = optimizer(&control).expect("a rule");
        let script = Script { host, bounds: PerStage::all(Bounds::new(1, 32)), seen: VecDeque::new() };
        script.played(&mut *rule, control.local.start.map(PerStage::all))[0].setpoint
    }

    #[test]
    fn only_the_rule_that_knows_how_is_told_how_to_share() {
        let said = |words: &[&str]| optimizer(&parsed(words)).err().map(|error| error.to_string());
        assert_eq!(said(&["--share", "full"]), None);
        assert!(optimizer(&parsed(&["--optimizer", "aimd:hold", "--aimd-epsilon", "0.5%"])).is_ok());
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
        let said = |words: &[&str]| optimizer(&parsed(words)).err().map(|error| error.to_string());
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
    fn a_far_path_begins_with_more_streams() {
        let at =
            |ms| Host { processors: Some(4), round_trip: Some(Duration::from_millis(ms)), ..Host::default() };
        assert!(start(&[], at(1)).network <= 2);
        let far = start(&[], at(100));
        assert_eq!(far, PerStage::all(4), "as many readers and writers as there are processors");
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
            let mut live = optimizer(&parsed(&["--optimizer", name])).expect("a rule");
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
