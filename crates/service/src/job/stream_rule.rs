//! The rule by which a job of `globus-url-copy` chooses its streams, as its options say.

use std::time::Duration;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_control::optimizer::{Optimizer, OptimizerOptions, build};
use tidegate_spec::form::time;

/// The longest epoch.
const MAX_EPOCH: Duration = Duration::from_secs(3600);
/// The shortest epoch.
const MIN_EPOCH: Duration = Duration::from_millis(100);

/// The options of such a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Args, JsonSchema)]
#[schemars(rename = "GridFtpOptions", extend("additionalProperties" = false))]
#[serde(default)]
pub struct StreamSpec {
    /// The rule that decides; without one streams stay as they are.
    #[arg(long)]
    pub optimizer: Option<String>,
    /// How long an epoch is to be.
    #[arg(long, value_parser = tidegate_control::units::parse_duration)]
    #[serde(with = "time::option")]
    #[schemars(with = "Option<time::WrittenTime>")]
    pub epoch: Option<Duration>,
    /// The seed of rules that draw.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

/// A rule and how it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRule {
    /// Its name in the registry.
    pub name: String,
    /// The seed of those that draw.
    pub seed: u64,
    /// How long an epoch is to be, if that was said.
    pub epoch: Option<Duration>,
}

impl StreamRule {
    /// The rule of whoever names none.
    pub(crate) fn auto() -> Self {
        Self { name: "auto".to_owned(), seed: 0, epoch: None }
    }

    /// The rule that `spec` asks for, if it asks for one.
    ///
    /// # Errors
    /// In one line: a value that makes no sense, or no such rule.
    pub fn of(spec: &StreamSpec) -> Result<Option<Self>, String> {
        let Some(name) = &spec.optimizer else {
            return match *spec == StreamSpec::default() {
                true => Ok(None),
                false => {
                    Err("it needs optimizer with it: without a rule streams stay as they are".to_owned())
                }
            };
        };
        if spec.epoch.is_some_and(|epoch| !(MIN_EPOCH..=MAX_EPOCH).contains(&epoch)) {
            return Err("epoch must be from 100ms to 1h".to_owned());
        }
        let rule = Self { name: name.clone(), epoch: spec.epoch, seed: spec.seed };
        rule.build().map(|_| Some(rule))
    }

    /// The rule itself.
    ///
    /// # Errors
    /// In one line: a name that stands for no rule that can be had here.
    pub fn build(&self) -> Result<Box<dyn Optimizer>, String> {
        let options = OptimizerOptions { seed: self.seed, ..OptimizerOptions::default() };
        build(&self.name, &options).map_err(|error| error.to_string())
    }

    /// Whether it ever asks for another number of streams.
    pub fn adapts(&self) -> bool {
        self.name.split(':').next() != Some("fixed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(options: &str) -> Result<Option<StreamRule>, String> {
        StreamRule::of(&serde_json::from_str(options).expect("options"))
    }

    #[test]
    fn the_rule_of_who_names_none_is_one_that_adapts() {
        assert!(StreamRule::auto().adapts() && StreamRule::auto().build().is_ok());
    }

    #[test]
    fn a_rule_is_named_or_there_is_none() {
        assert_eq!(of("{}"), Ok(None));
        let rule = of(r#"{"optimizer": "aimd", "epoch": "2s", "seed": 7}"#).expect("fine").expect("a rule");
        assert_eq!(rule, StreamRule { name: "aimd".into(), seed: 7, epoch: Some(Duration::from_secs(2)) });
        assert!(rule.adapts());
        for name in ["fixed", "fixed:8"] {
            let rule = of(&format!("{{\"optimizer\": \"{name}\"}}")).expect("fine").expect("a rule");
            assert!(!rule.adapts() && rule.epoch.is_none(), "{name}");
        }
        for (options, wanted) in [
            (r#"{"optimizer": "fastest"}"#, "no optimizer 'fastest'"),
            (r#"{"optimizer": "policy"}"#, "needs a policy"),
            (r#"{"epoch": "2s"}"#, "needs optimizer"),
            (r#"{"optimizer": "aimd", "epoch": "1us"}"#, "from 100ms to 1h"),
        ] {
            let why = of(options).expect_err("refused");
            assert!(why.contains(wanted) && !why.contains('\n'), "{why}");
        }
    }
}
