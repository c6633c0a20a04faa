//! The rule by which a job of `globus-url-copy` chooses its streams, as its options say.

use std::time::Duration;

use tidegate_control::optimizer::{Optimizer, OptimizerOptions, build};
use tidegate_control::units::parse_duration;

/// The options that such a job takes; each has a value.
const OPTIONS: [&str; 3] = ["--optimizer", "--epoch", "--seed"];
/// The longest epoch.
const MAX_EPOCH: Duration = Duration::from_secs(3600);
/// The shortest epoch.
const MIN_EPOCH: Duration = Duration::from_millis(100);

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

    /// The rule that `options` ask for, if they ask for one.
    ///
    /// # Errors
    /// In one line: an option of another kind of job, a value that cannot be read, or no such rule.
    pub fn of(options: &[String]) -> Result<Option<Self>, String> {
        let mut values: [Option<&str>; 3] = [None; 3];
        let mut words = options.iter();
        while let Some(word) = words.next() {
            let (name, value) =
                word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
            let Some(at) = OPTIONS.iter().position(|known| *known == name) else {
                let known = OPTIONS.join(", ");
                return Err(format!("{name} is no option of a job by globus-url-copy; there are {known}"));
            };
            let value = value.or_else(|| words.next().map(String::as_str));
            values[at] = Some(value.ok_or_else(|| format!("{name} needs a value"))?);
        }
        let [name, epoch, seed] = values;
        let Some(name) = name else {
            let Some(option) = options.first() else { return Ok(None) };
            return Err(format!(
                "{option} needs --optimizer with it: without a rule streams stay as they are"
            ));
        };
        let epoch = epoch.map(|text| {
            let epoch = parse_duration(text).map_err(|error| format!("--epoch: {error}"))?;
            match (MIN_EPOCH..=MAX_EPOCH).contains(&epoch) {
                true => Ok(epoch),
                false => Err("--epoch must be from 100ms to 1h".to_owned()),
            }
        });
        let seed = seed.map(|text| text.parse().map_err(|_| format!("--seed: {text:?} is no whole number")));
        let rule =
            Self { name: name.to_owned(), epoch: epoch.transpose()?, seed: seed.transpose()?.unwrap_or(0) };
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

    fn of(options: &[&str]) -> Result<Option<StreamRule>, String> {
        StreamRule::of(&options.iter().map(|option| (*option).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_rule_of_who_names_none_is_one_that_adapts() {
        assert!(StreamRule::auto().adapts() && StreamRule::auto().build().is_ok());
    }

    #[test]
    fn options_are_read_in_both_forms_and_others_refused() {
        assert_eq!(of(&[]), Ok(None));
        let rule = of(&["--optimizer", "aimd", "--epoch=2s", "--seed", "7"]).expect("fine").expect("a rule");
        assert_eq!(rule, StreamRule { name: "aimd".into(), seed: 7, epoch: Some(Duration::from_secs(2)) });
        assert!(rule.adapts());
        for name in ["fixed", "fixed:8"] {
            let rule = of(&["--optimizer", name]).expect("fine").expect("a rule");
            assert!(!rule.adapts() && rule.epoch.is_none(), "{name}");
        }
        for (options, wanted) in [
            (&["--optimizer=fastest"][..], "no optimizer 'fastest'"),
            (&["--optimizer=policy"], "needs a policy"),
            (&["--optimizer"], "needs a value"),
            (&["--epoch=2s"], "needs --optimizer"),
            (&["--optimizer=aimd", "--epoch=1"], "--epoch"),
            (&["--optimizer=aimd", "--epoch=1us"], "from 100ms to 1h"),
            (&["--optimizer=aimd", "--seed=x"], "--seed"),
            (&["--optimizer=aimd", "--staging=1GiB"], "--staging is no option"),
        ] {
            let why = of(options).expect_err("refused");
            assert!(why.contains(wanted) && !why.contains('\n'), "{why}");
        }
    }
}
