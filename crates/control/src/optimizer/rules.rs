//! What the rules are and which constants they take: the one table from which names are parsed, errors are worded
//! and listings are made.
//!
//! Constants follow the rule's name: `RULE:KEY=VALUE,KEY=VALUE`; a switch is a word without a value, and
//! of words that a key may be the key can be left out.

use std::ops::{Bound, RangeBounds};
use std::time::Duration;

use serde::Serialize;

use crate::named::is_name;
use crate::throughput_model::ModelSelection;
use crate::throughput_model::sampling::Threshold;
use crate::units::{parse_duration, parse_share};

/// A rule as it is listed.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RuleDescription {
    /// The name by which it is asked for.
    pub name: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    /// Who published it.
    pub source: &'static str,
    /// Whether it decides one number, and can stand behind `coupled:` and `independent:`.
    pub one_number: bool,
    /// Its constants.
    pub keys: &'static [RuleKey],
}

/// A constant of a rule.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RuleKey {
    /// The word before the `=`.
    pub name: &'static str,
    /// What it sets.
    pub summary: &'static str,
    /// What it may be.
    #[serde(skip)]
    pub values: KeyValues,
    /// Its value when nothing is said, as it would be written; none for a switch, which is off.
    pub default: Option<&'static str>,
    /// Where the default comes from.
    pub source: &'static str,
}

/// What a constant may be.
#[derive(Clone, Copy, Debug)]
pub enum KeyValues {
    /// Off unless its name is there.
    Switch,
    /// A number without a unit.
    Number(Bound<f64>, Bound<f64>),
    /// A share, as `0.02` or `2%`.
    Fraction(Bound<f64>, Bound<f64>),
    /// A whole number, from one to another.
    Count(u16, u16),
    /// A time with its unit, from one number of seconds to another.
    Time(u64, u64),
    /// A share of what the first stream moves, or a rate.
    Threshold,
    /// One of these words.
    Word(&'static [&'static str]),
}

use Bound::{Excluded, Included, Unbounded};

const K: RuleKey = RuleKey {
    name: "k",
    summary: "price of one more worker in the utility",
    values: KeyValues::Number(Excluded(1.0), Unbounded),
    default: Some("1.02"),
    source: "published (FastBioDL, table 1)",
};
const B: RuleKey = RuleKey {
    name: "b",
    summary: "weight of lost segments in the utility",
    values: KeyValues::Number(Included(0.0), Unbounded),
    default: Some("10"),
    source: "published (Falcon's program)",
};
const LOSS: RuleKey = RuleKey {
    name: "loss",
    summary: "form of the loss term: T·B·L, B·L, or none",
    values: KeyValues::Word(&["falcon", "ldm", "none"]),
    default: Some("falcon"),
    source: "published (Falcon's program)",
};
const REPAIRED: RuleKey = switch("repaired", "without the flaws of what was published");

const fn switch(name: &'static str, summary: &'static str) -> RuleKey {
    RuleKey { name, summary, values: KeyValues::Switch, default: None, source: "ours" }
}

/// Of a rule that decides by a policy: its K is that of its training, unless it goes on learning.
const LEARNS: RuleKey = switch("online", "draws, and goes on learning while it drives");
const LEARNED_K: RuleKey = RuleKey { summary: "with online: price of one more worker in the reward", ..K };
const LEARNED_B: RuleKey = RuleKey { summary: "with online: weight of lost segments in the reward", ..B };
const LEARNED_LOSS: RuleKey = RuleKey {
    summary: "with online: form of the loss term",
    default: Some("none"),
    source: "published (AutoMDT, FastBioDL)",
    ..LOSS
};

/// The rules that decide by a policy, which they are told.
pub const LEARNED_RULES: [RuleDescription; 5] = [
    RuleDescription {
        name: "policy",
        summary: "decides by a policy of any recipe: its most likely action",
        source: "ours; LDM; AutoMDT",
        one_number: false,
        keys: &[switch("sampled", "draws its actions"), LEARNS, LEARNED_K, LEARNED_B, LEARNED_LOSS],
    },
    RuleDescription {
        name: "discrete_rl",
        summary: "steps up and down by a policy of that recipe",
        source: "DRL (Hasibul et al.)",
        one_number: false,
        keys: &[LEARNS, LEARNED_K, LEARNED_B, LEARNED_LOSS],
    },
    RuleDescription {
        name: "ldm",
        summary: "draws one number for all stages by a policy of that recipe",
        source: "LDM",
        one_number: false,
        keys: &[LEARNS, LEARNED_K, LEARNED_B, LEARNED_LOSS],
    },
    RuleDescription {
        name: "automdt",
        summary: "draws three numbers by a policy of that recipe",
        source: "AutoMDT",
        one_number: false,
        keys: &[LEARNS, LEARNED_K, LEARNED_B, LEARNED_LOSS],
    },
    RuleDescription {
        name: "automdt_discrete",
        summary: "the same, each number chosen among all of a stage",
        source: "AutoMDT, figure 4",
        one_number: false,
        keys: &[LEARNS, LEARNED_K, LEARNED_B, LEARNED_LOSS],
    },
];

/// The rules that need no policy of their own, the default first.
pub const RULES: [RuleDescription; 11] = [
    RuleDescription {
        name: "auto",
        summary: "believes, tries what may be better, holds",
        source: "ours",
        one_number: false,
        keys: &[RuleKey {
            name: "share",
            summary: "how hard to push beside others",
            values: KeyValues::Word(&["background", "fair", "full"]),
            default: Some("fair"),
            source: "ours",
        }],
    },
    RuleDescription {
        name: "universal",
        summary: "decides by one learned policy for every path",
        source: "ours",
        one_number: false,
        keys: &[],
    },
    RuleDescription {
        name: "fixed",
        summary: "holds a set-point: fixed:N or fixed:READ,NETWORK,WRITE",
        source: "the baselines of all",
        one_number: false,
        keys: &[],
    },
    RuleDescription {
        name: "explore",
        summary: "draws at random, to learn what a path can do",
        source: "LDM; AutoMDT",
        one_number: false,
        keys: &[switch("isolate", "draws that show what one worker of a stage moves")],
    },
    RuleDescription {
        name: "aimd",
        summary: "one more or one less by the relative change of throughput",
        source: "AIMD (Balaprakash et al.)",
        one_number: true,
        keys: &[
            RuleKey {
                name: "epsilon",
                summary: "relative change that is taken for real",
                values: KeyValues::Fraction(Included(0.0), Excluded(1.0)),
                default: Some("2%"),
                source: "ours: the paper leaves it to the user",
            },
            switch("hold", "holds in the second epoch, which the paper leaves open, instead of adding one"),
        ],
    },
    RuleDescription {
        name: "falcon",
        summary: "two-probe gradient descent",
        source: "Falcon (Arifuzzaman, Arslan, SC '21)",
        one_number: true,
        keys: &[K, B, LOSS],
    },
    RuleDescription {
        name: "gradient",
        summary: "one-probe gradient descent",
        source: "FastBioDL; LDM-GD; Marlin",
        one_number: true,
        keys: &[K, B, LOSS, REPAIRED],
    },
    RuleDescription {
        name: "bayesian",
        summary: "Bayesian optimisation",
        source: "Falcon; FastBioDL, figure 4",
        one_number: true,
        keys: &[K, B, LOSS, REPAIRED],
    },
    RuleDescription {
        name: "marlin",
        summary: "one gradient a stage, with a price on full staging",
        source: "Marlin",
        one_number: false,
        keys: &[K, B, LOSS, REPAIRED],
    },
    RuleDescription {
        name: "model_fit",
        summary: "samples, fits a throughput model, holds its optimum",
        source: "EOS (Yin, Yildirim, Kosar et al.; TPDS 2011)",
        one_number: true,
        keys: &[
            RuleKey {
                name: "model",
                summary: "models that are asked: all averaged, EOS's two as published, or one alone",
                values: KeyValues::Word(&ModelSelection::NAMES),
                default: Some("averaged"),
                source: "ours",
            },
            RuleKey {
                name: "threshold",
                summary: "what one more stream must add for sampling to go on",
                values: KeyValues::Threshold,
                default: Some("10%"),
                source: "ours: the paper leaves it to the user",
            },
            RuleKey {
                name: "surprise",
                summary: "how far goodput may be from the prediction before it is a sample to learn from",
                values: KeyValues::Fraction(Excluded(0.0), Included(1.0)),
                default: Some("15%"),
                source: "ours",
            },
            RuleKey {
                name: "change",
                summary: "how far goodput may be from what was held before the path may have changed",
                values: KeyValues::Fraction(Excluded(0.0), Included(1.0)),
                default: Some("20%"),
                source: "ours",
            },
            RuleKey {
                name: "patience",
                summary: "epochs in a row after which it has changed",
                values: KeyValues::Count(1, 3600),
                default: Some("3"),
                source: "ours",
            },
        ],
    },
    RuleDescription {
        name: "fts3",
        summary: "steps by average throughput, queue and file sizes, once an interval",
        source: "FTS3 3.14, its optimizer",
        one_number: true,
        keys: &[
            RuleKey {
                name: "interval",
                summary: "time between two decisions",
                values: KeyValues::Time(1, 3600),
                default: Some("60s"),
                source: "published (OptimizerInterval)",
            },
            RuleKey { source: "published (modes 2 and 3)", ..switch("aggressive", "steps of two up") },
        ],
    },
];

/// The rule `name` with what options of a command set: each an option, the constant that it sets, and the value.
///
/// # Errors
/// In one line: an option of a constant that the rule does not have.
///
/// ```
/// use tidegate_control::optimizer::with_constants;
///
/// let epsilon = [("--aimd-epsilon", "epsilon", "1%")];
/// assert_eq!(with_constants("aimd:hold", epsilon).as_deref(), Ok("aimd:hold,epsilon=1%"));
/// assert!(with_constants("auto", epsilon).is_err());
/// ```
pub fn with_constants<'a>(
    name: &str,
    options: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>,
) -> Result<String, String> {
    let rule = RuleDescription::of(name);
    let mut told = name.to_owned();
    for (option, key, value) in options {
        if !rule.is_some_and(|rule| rule.has(key)) {
            let mut having = RULES.iter().chain(&LEARNED_RULES).filter(|rule| rule.has(key));
            let first = having.next().map_or("none", |rule| rule.name).to_owned();
            let others = having.fold(first, |names, rule| format!("{names}, {}", rule.name));
            let rule = short(name);
            return Err(format!("{option} goes with --optimizer {others}: the rule {rule} has no {key}"));
        }
        told = RuleDescription::with(&told, key, value);
    }
    Ok(told)
}

/// The name of a one-number rule without what says how it sets three numbers.
pub(super) fn without_prefix(name: &str) -> &str {
    name.strip_prefix("coupled:").or_else(|| name.strip_prefix("independent:")).unwrap_or(name)
}

impl RuleDescription {
    /// The rule that `name` asks for, whatever stands before and behind the rule's own name.
    pub fn of(name: &str) -> Option<&'static Self> {
        let own = without_prefix(name);
        let word = own.split(':').next()?;
        let mut all = RULES.iter().chain(&LEARNED_RULES);
        all.find(|rule| rule.name == word && (own.len() == name.len() || rule.one_number))
    }

    /// Whether it has a constant of that name.
    pub fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|known| known.name == key)
    }

    /// `name` with `key=value` behind its rule's own name.
    pub fn with(name: &str, key: &str, value: &str) -> String {
        let separator = if without_prefix(name).contains(':') { ',' } else { ':' };
        format!("{name}{separator}{key}={value}")
    }

    /// Its keys and what they may be, for an error.
    fn takes(&self) -> String {
        if self.keys.is_empty() {
            return format!("{} takes no keys", self.name);
        }
        let key = |key: &RuleKey| match key.values {
            KeyValues::Switch => key.name.to_owned(),
            _ => format!("{}={}", key.name, key.range()),
        };
        format!("the keys of {} are {}", self.name, self.keys.iter().map(key).collect::<Vec<_>>().join("; "))
    }
}

impl RuleKey {
    /// What it may be, in words.
    pub fn range(&self) -> String {
        let between = |least: Bound<f64>, most: Bound<f64>, unit: &str| {
            let least = match least {
                Included(least) => format!("at least {least}"),
                Excluded(least) => format!("more than {least}"),
                Unbounded => String::new(),
            };
            match most {
                Included(most) => format!("{unit} {least} and at most {most}"),
                Excluded(most) => format!("{unit} {least} and less than {most}"),
                Unbounded => format!("{unit} {least}"),
            }
        };
        match self.values {
            KeyValues::Switch => "a word without a value".to_owned(),
            KeyValues::Number(least, most) => between(least, most, "a number"),
            KeyValues::Fraction(least, most) => between(least, most, "a share (as 0.02 or 2%)"),
            KeyValues::Count(least, most) => format!("a whole number from {least} to {most}"),
            KeyValues::Time(least, most) => format!("a time from {least}s to {most}s"),
            KeyValues::Threshold => "a share (as 0.1 or 10%) or a rate (as 20Mbit/s)".to_owned(),
            KeyValues::Word(words) => words.join(" or "),
        }
    }

    /// The value written as `text`; none if it may not be that.
    fn read(&self, text: Option<&str>) -> Option<Value> {
        let Some(text) = text else {
            return matches!(self.values, KeyValues::Switch).then_some(Value::On);
        };
        match self.values {
            KeyValues::Switch => None,
            KeyValues::Number(least, most) => {
                let number: f64 = text.parse().ok()?;
                (number.is_finite() && (least, most).contains(&number)).then_some(Value::Number(number))
            }
            KeyValues::Fraction(least, most) => {
                let share = parse_share(text)?;
                (least, most).contains(&share).then_some(Value::Number(share))
            }
            KeyValues::Count(least, most) => {
                let count: u16 = text.parse().ok()?;
                (least..=most).contains(&count).then_some(Value::Count(count))
            }
            KeyValues::Time(least, most) => {
                let time = parse_duration(text).ok()?;
                let range = Duration::from_secs(least)..=Duration::from_secs(most);
                range.contains(&time).then_some(Value::Time(time))
            }
            KeyValues::Threshold => text.parse().ok().map(Value::Threshold),
            KeyValues::Word(words) => words.iter().find(|word| is_name(word, text)).copied().map(Value::Word),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    On,
    Number(f64),
    Count(u16),
    Time(Duration),
    Threshold(Threshold),
    Word(&'static str),
}

/// The constants that a name gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Constants(Vec<(&'static str, Value)>);

impl Constants {
    /// Reads what follows the colon behind the name of `rule`.
    pub(super) fn read(rule: &RuleDescription, text: Option<&str>) -> Result<Self, String> {
        let mut constants = Self::default();
        for word in text.into_iter().flat_map(|text| text.split(',')) {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name.trim(), Some(value.trim())),
                None => (word.trim(), None),
            };
            let named = rule.keys.iter().find(|key| key.name == name);
            // A word that is what a key may be says which key: `model_fit:published`.
            let is_value =
                |key: &&RuleKey| matches!(key.values, KeyValues::Word(_)) && key.read(Some(name)).is_some();
            let (key, value) = match named {
                None if value.is_none() => (rule.keys.iter().find(is_value), Some(name)),
                key => (key, value),
            };
            let key = key.ok_or_else(|| format!("no key '{}'; {}", short(name), rule.takes()))?;
            if constants.value(key.name).is_some() {
                return Err(format!("{} is there twice", key.name));
            }
            let value = key
                .read(value)
                .ok_or_else(|| format!("{} must be {}; {}", key.name, key.range(), rule.takes()))?;
            constants.0.push((key.name, value));
        }
        Ok(constants)
    }

    fn value(&self, key: &str) -> Option<Value> {
        self.0.iter().find(|(name, _)| *name == key).map(|&(_, value)| value)
    }

    pub(super) fn has(&self, switch: &str) -> bool {
        self.value(switch).is_some()
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        match self.value(key)? {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    pub(super) fn count(&self, key: &str) -> Option<u16> {
        match self.value(key)? {
            Value::Count(count) => Some(count),
            _ => None,
        }
    }

    pub(super) fn time(&self, key: &str) -> Option<Duration> {
        match self.value(key)? {
            Value::Time(time) => Some(time),
            _ => None,
        }
    }

    pub(super) fn threshold(&self, key: &str) -> Option<Threshold> {
        match self.value(key)? {
            Value::Threshold(threshold) => Some(threshold),
            _ => None,
        }
    }

    /// The first of these keys that is there.
    pub(super) fn first_of<'a>(&self, keys: &[&'a str]) -> Option<&'a str> {
        keys.iter().copied().find(|key| self.has(key))
    }

    pub(super) fn word(&self, key: &str) -> Option<&'static str> {
        match self.value(key)? {
            Value::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// What somebody wrote, short enough for an error of one line.
fn short(text: &str) -> String {
    text.chars().take(40).collect::<String>().escape_debug().to_string()
}
