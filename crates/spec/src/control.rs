//! Who decides, and how often.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Deserializer, Serialize};
use tidegate_control::Share;
use tidegate_control::optimizer::{share_of, with_constants};
use tidegate_transfer::congestion::{Congestion, CongestionTerms};

use crate::form::{path_option, time};
use crate::range::Range;

const EPOCH: Range<Duration> =
    Range::new(Duration::from_millis(100), Duration::from_secs(60), "must be from 100ms to 60s");
const UTILITY_K: Range<f64> = Range::new(1.0, f64::MAX, "must be a number, 1 or more");
const UTILITY_B: Range<f64> = Range::new(0.0, f64::MAX, "must be a number, 0 or more");
const WORKERS: Range<u16> = Range::new(1, 512, "must be from 1 to 512 workers");
const LOSS_TERMS: [&str; 3] = ["falcon", "ldm", "none"];

/// The rule, and how it is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[command(next_help_heading = "Control")]
pub struct ControlSpec {
    /// The rule that sets the numbers of readers, streams and writers: auto, universal,
    /// fixed:N, fixed:READ,NETWORK,WRITE, policy, explore, aimd, falcon, gradient, bayesian, marlin,
    /// model_fit, fts3, or coupled:RULE; constants follow, as in aimd:epsilon=1% (`tidegate rules` lists them).
    /// Or a rule of your own: 'exec:PROGRAM ARGUMENT…' or python:MODULE:NAME (docs/own-rule.md)
    #[arg(long, value_name = "NAME", default_value_t = Self::default().optimizer)]
    pub optimizer: String,
    /// How hard the rule auto pushes beside the traffic of others: background (one stream, which has
    /// what others leave), fair (no more than the streams get that would fill the path alone), full (as many streams
    /// as still bring something) [default: fair]
    #[arg(long, value_name = "NAME")]
    pub share: Option<Share>,
    /// Which congestion control streams have: auto (one that goes by losses; under the rule auto also bbr where packets are lost
    /// though nothing queues, under a pace unless --share is full), system (what the system has), or the name of one that the
    /// kernel knows, such as cubic or bbr
    #[arg(long, value_name = "NAME", default_value_t)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub congestion: Congestion,
    /// What the rule aimd takes for a change of throughput, as a share of it: 0.02 or 2%
    #[arg(long, value_name = "SHARE")]
    pub aimd_epsilon: Option<String>,
    /// Length of an epoch [default: 1s; 3s for the published rules]
    #[arg(long, value_name = "TIME", value_parser = epoch_length)]
    #[serde(with = "time::option")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<time::WrittenTime>"))]
    pub epoch: Option<Duration>,
    /// Seed of rules that draw at random
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = Self::default().seed)]
    pub seed: u64,
    /// Base K of the utility T/K^n of the rules that climb one (1.02: FastBioDL, table 1)
    #[arg(long, hide_short_help = true, value_name = "K", value_parser = |text: &str| UTILITY_K.number(text))]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub utility_k: Option<f64>,
    /// Weight B of lost segments in the utility (10: Falcon)
    #[arg(long, hide_short_help = true, value_name = "B", value_parser = |text: &str| UTILITY_B.number(text))]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub utility_b: Option<f64>,
    /// Form of the loss term: T·B·L, B·L, or none
    #[arg(long, hide_short_help = true, value_name = "FORM", value_parser = LOSS_TERMS)]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = LOSS_TERMS)))]
    pub utility_loss: Option<String>,
}

/// What only whoever runs it says of a rule: files, and how many workers there may be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Args)]
#[serde(default)]
#[command(next_help_heading = "Control")]
pub struct ControlLocal {
    /// The policy that `--optimizer policy` decides by: its most likely action, or with policy:sampled
    /// one drawn, or with policy:online drawn and learned from; `tidegate train` makes it
    #[arg(long, value_name = "FILE")]
    #[serde(with = "path_option")]
    pub policy: Option<PathBuf>,
    /// Where what policy:online has learned is kept when the run ends, as a policy to go on from; it may be the file it
    /// began with
    #[arg(long, value_name = "FILE")]
    #[serde(with = "path_option")]
    pub save_policy: Option<PathBuf>,
    /// Most workers a stage
    #[arg(long, value_name = "N", default_value_t = Self::default().max_workers, value_parser = workers())]
    #[serde(deserialize_with = "some_workers")]
    pub max_workers: u16,
    /// Workers a stage to begin with [default: the rule's own, for auto no more than processors, but 4
    /// streams where a round trip takes 20 ms or more, and 8 connections to a server]
    #[arg(long, value_name = "N", value_parser = workers())]
    #[serde(deserialize_with = "perhaps_workers")]
    pub start: Option<u16>,
    /// Read the most network streams, no more than --max-workers, from FILE anew each epoch, so that whoever
    /// writes it can share a path among transfers
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    #[serde(with = "path_option")]
    pub bounds: Option<PathBuf>,
}

/// Both, for what is no job of a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Args)]
#[serde(default)]
pub struct Control {
    /// The rule.
    #[command(flatten)]
    #[serde(flatten)]
    pub spec: ControlSpec,
    /// What surrounds it.
    #[command(flatten)]
    #[serde(flatten)]
    pub local: ControlLocal,
}

impl Default for ControlSpec {
    fn default() -> Self {
        Self {
            optimizer: "auto".to_owned(),
            share: None,
            congestion: Congestion::Auto,
            aimd_epsilon: None,
            epoch: None,
            seed: 1,
            utility_k: None,
            utility_b: None,
            utility_loss: None,
        }
    }
}

impl Default for ControlLocal {
    fn default() -> Self {
        Self { policy: None, save_policy: None, max_workers: 32, start: None, bounds: None }
    }
}

/// Reads the length of an epoch.
pub fn epoch_length(text: &str) -> Result<Duration, String> {
    EPOCH.time(text)
}

/// Reads a number of workers.
pub fn workers() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=512)
}

/// The same from JSON.
pub(crate) fn some_workers<'de, D: Deserializer<'de>>(from: D) -> Result<u16, D::Error> {
    let number = u16::deserialize(from)?;
    WORKERS.within(number).map_err(serde::de::Error::custom)
}

/// The same, or null.
pub fn perhaps_workers<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u16>, D::Error> {
    let number = Option::<u16>::deserialize(from)?;
    number.map(|number| WORKERS.within(number)).transpose().map_err(serde::de::Error::custom)
}

impl ControlSpec {
    /// Whether each value lies where the command line has it.
    pub fn check(&self) -> Result<(), String> {
        self.epoch.map_or(Ok(()), |epoch| EPOCH.check("epoch", epoch))?;
        self.utility_k.map_or(Ok(()), |k| UTILITY_K.check("utility_k", k))?;
        self.utility_b.map_or(Ok(()), |b| UTILITY_B.check("utility_b", b))?;
        match &self.utility_loss {
            Some(form) if !LOSS_TERMS.contains(&form.as_str()) => {
                Err(format!("utility_loss is one of {}", LOSS_TERMS.join(", ")))
            }
            _ => Ok(()),
        }
    }

    /// The rule's name, with the constants that options set.
    ///
    /// # Errors
    /// The rule has no such constant.
    pub fn named(&self) -> Result<String, String> {
        let numbers = [("--utility-k", "k", self.utility_k), ("--utility-b", "b", self.utility_b)];
        let words = [
            ("--utility-loss", "loss", self.utility_loss.clone()),
            ("--aimd-epsilon", "epsilon", self.aimd_epsilon.clone()),
            ("--share", "share", self.share.map(|share| share.name().to_owned())),
        ];
        let numbers = numbers.map(|(option, key, value)| (option, key, value.map(|n| n.to_string())));
        let given: Vec<_> =
            numbers.into_iter().chain(words).filter_map(|(o, key, value)| Some((o, key, value?))).collect();
        let given = given.iter().map(|(option, key, value)| (*option, *key, value.as_str()));
        with_constants(&self.optimizer, given)
    }

    /// What streams between endpoints of ours have. Only the rule auto is told of a path on which another congestion control is
    /// tried, and only its share says what others are left.
    pub fn congestion_terms(&self) -> CongestionTerms {
        let share = self.named().ok().and_then(|name| share_of(&name));
        let asked = match (&self.congestion, share) {
            (Congestion::Auto, None | Some(Share::Background)) => Congestion::System,
            (asked, _) => asked.clone(),
        };
        CongestionTerms { asked, bounded: share == Some(Share::Fair) }
    }

    /// Whether the rule ever asks for another number of workers.
    pub fn adapts(&self) -> bool {
        self.optimizer.split(':').next() != Some("fixed")
    }
}
