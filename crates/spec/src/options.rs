//! Options as a job has them: each by its name, read strictly by what takes them.

use std::ffi::OsString;
use std::fmt;

use clap::{Args, Command};
use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// Options by their names, as JSON and TOML have them; what they mean is known to a spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Options(Map<String, Value>);

struct OptionsVisitor;

/// Why options are not those of a spec.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionError {
    /// There is none of that name; those that there are.
    Unknown(String, Vec<String>),
    /// The value of one, and why it cannot be read.
    Value(String, Value, String),
    /// Why they cannot be read together.
    Together(String),
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name, known) => {
                let shown: String = name.chars().take(40).collect();
                write!(f, "{shown:?} is no option of this; there are {}", known.join(", "))
            }
            Self::Value(name, _, why) => write!(f, "{name}: {why}"),
            Self::Together(why) => f.write_str(why),
        }
    }
}

impl<V: Into<Value>, const N: usize> From<[(&str, V); N]> for Options {
    fn from(options: [(&str, V); N]) -> Self {
        Self(options.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
    }
}

impl<'de> Deserialize<'de> for Options {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(OptionsVisitor)
    }
}

impl<'de> Visitor<'de> for OptionsVisitor {
    type Value = Options;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of options by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Options, A::Error> {
        let mut options = Map::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            if options.contains_key(&name) {
                return Err(A::Error::custom(format!("{name} is said twice")));
            }
            options.insert(name, value);
        }
        Ok(Options(options))
    }
}

impl Options {
    /// What differs in `spec` from what is usual.
    pub fn of<T: Serialize + Default>(spec: &T) -> Self {
        let usual = fields(&T::default());
        let is_said = |(name, value): &(String, Value)| usual.get(name) != Some(value);
        Self(fields(spec).into_iter().filter(is_said).collect())
    }

    /// Options of `T` as the command line has them.
    ///
    /// # Errors
    /// In one line: an option that there is not, or a value that cannot be read.
    pub fn typed<T: Args + Serialize + Default>(words: &[String]) -> Result<Self, String> {
        let command = T::augment_args(Command::new("job").no_binary_name(true).disable_help_flag(true));
        let words = words.iter().map(OsString::from);
        let matches = command.try_get_matches_from(words).map_err(|error| in_one_line(&error))?;
        T::from_arg_matches(&matches).map(|spec| Self::of(&spec)).map_err(|error| in_one_line(&error))
    }

    /// All that `spec` says, and what is usual with it.
    pub fn all<T: Serialize>(spec: &T) -> Self {
        Self(fields(spec))
    }

    /// The spec that they are.
    ///
    /// # Errors
    /// In one line: an option that there is not, or a value that cannot be read.
    pub fn read<T: Serialize + DeserializeOwned + Default>(&self) -> Result<T, String> {
        self.try_read().map_err(|error| error.to_string())
    }

    /// The same, and which option is wrong otherwise.
    pub fn try_read<T: Serialize + DeserializeOwned + Default>(&self) -> Result<T, OptionError> {
        let spec: T = serde_json::from_value(Value::Object(self.0.clone())).map_err(|error| {
            let why = error.to_string();
            match self.culprit::<T>() {
                Some((name, value)) => OptionError::Value(name.to_owned(), value.clone(), why),
                None => OptionError::Together(why),
            }
        })?;
        let known = fields(&T::default());
        // Another name of an option is known to whoever reads it.
        let is_alias = |name: &str| {
            let alone = Value::Object(Map::from_iter([(name.to_owned(), self.0[name].clone())]));
            serde_json::from_value::<T>(alone).is_ok_and(|spec| fields(&spec) != known)
        };
        match self.0.keys().find(|name| !known.contains_key(*name) && !is_alias(name)) {
            None => Ok(spec),
            Some(name) => Err(OptionError::Unknown(name.clone(), known.keys().cloned().collect())),
        }
    }

    /// The option whose value cannot be read.
    fn culprit<T: DeserializeOwned>(&self) -> Option<(&str, &Value)> {
        let is_wrong = |(name, value): &(&String, &Value)| {
            let alone = Map::from_iter([((*name).clone(), (*value).clone())]);
            serde_json::from_value::<T>(Value::Object(alone)).is_err()
        };
        self.0.iter().find(is_wrong).map(|(name, value)| (name.as_str(), value))
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is said, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// A text that is said.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// What was said of `name`, which is said no more.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    /// Says more: lists become longer, and what else was said before of the same is forgotten.
    pub fn extend(&mut self, others: Self) {
        for (name, value) in others.0 {
            match (self.0.get_mut(&name), value) {
                (Some(Value::Array(known)), Value::Array(more)) => known.extend(more),
                (_, value) => {
                    self.0.insert(name, value);
                }
            }
        }
    }

    /// Says `value` of `name`.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }
}

/// A spec from its options, of which it has to know all.
pub(crate) fn strict<'de, D: Deserializer<'de>, T>(from: D) -> Result<T, D::Error>
where
    T: Serialize + DeserializeOwned + Default,
{
    Options::deserialize(from)?.read().map_err(serde::de::Error::custom)
}

/// The fields of a spec, all of them.
fn fields<T: Serialize>(spec: &T) -> Map<String, Value> {
    match serde_json::to_value(spec) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

fn in_one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let reason = text.split("\n\n").next().unwrap_or(&text);
    let reason = reason.strip_prefix("error:").unwrap_or(reason);
    reason.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::CopySpec;
    use crate::get::GetSpec;
    use crate::put::PutSpec;

    fn typed<T: Args + Serialize + Default>(words: &[&str]) -> Result<Options, String> {
        Options::typed::<T>(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    fn json(text: &str) -> Options {
        serde_json::from_str(text).expect("an object")
    }

    #[test]
    fn nothing_typed_is_what_is_usual() {
        assert_eq!(typed::<CopySpec>(&[]), Ok(Options::default()));
        assert_eq!(typed::<GetSpec>(&[]), Ok(Options::default()));
        assert_eq!(typed::<PutSpec>(&[]), Ok(Options::default()));
    }

    #[test]
    fn what_is_typed_is_written_by_name_and_read_again() {
        let words =
            ["--optimizer", "aimd", "--limit-link=80Mbit/s", "--exclude=*.tmp", "-f", "+ a b", "--delete"];
        let options = typed::<CopySpec>(&words).expect("options");
        let text = serde_json::to_string(&options).expect("plain data");
        let wanted = r#"{"delete":true,"filter":[{"exclude":"*.tmp"},"+ a b"],"limit_link":80000000,"optimizer":"aimd"}"#;
        assert_eq!(text, wanted);
        let spec: CopySpec = json(wanted).read().expect("read");
        assert_eq!(Options::of(&spec), options);
        let spec: CopySpec =
            json(r#"{"limit_link": "80Mbit/s", "epoch": "2s", "staging": "8MiB"}"#).read().expect("units");
        assert_eq!(
            Options::of(&spec),
            json(r#"{"limit_link": 80000000, "epoch": "2s", "staging": 8388608}"#)
        );
    }

    #[test]
    fn options_of_a_copy_are_those_of_a_download_where_it_has_them() {
        let spec: GetSpec =
            json(r#"{"limit_link": 8, "staging": "8MiB", "optimizer": "aimd"}"#).read().expect("read");
        assert_eq!(spec.requests.limit_rate.map(|rate| rate.0), Some(8));
        let why = json(r#"{"min_size": 8}"#).read::<GetSpec>().expect_err("no such option");
        assert!(
            why.starts_with("\"min_size\" is no option of this; there are aimd_epsilon, allow_fallback, "),
            "{why}"
        );
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (text, wanted) in [
            (r#"{"limit_read": "fast"}"#, "limit_read: "),
            (r#"{"staging": [8]}"#, "staging: "),
            (r#"{"checksum": "md5"}"#, "checksum: "),
            (r#"{"links": "hard"}"#, "links: "),
            (r#"{"epoch": "soon"}"#, "epoch: "),
            (r#"{"newer_than": "yesterday"}"#, "newer_than: must be an age"),
            (r#"{"seed": -1}"#, "seed: "),
            (r#"{"policy": "/etc/passwd"}"#, "no option"),
            (r#"{"retry_for": "1h"}"#, "no option"),
            (r#"{"backup_dir": "/x"}"#, "no option"),
        ] {
            let why = json(text).read::<CopySpec>().expect_err(text);
            assert!(why.contains(wanted) && !why.contains('\n'), "{text}: {why}");
        }
        for (words, wanted) in [
            (&["--policy=/etc/passwd"][..], "unexpected argument '--policy'"),
            (&["/etc/passwd"], "unexpected argument"),
            (&["--epoch=1us"], "must be from 100ms to 60s"),
            (&["--links=hard"], "keep, skip, follow"),
        ] {
            let why = typed::<CopySpec>(words).expect_err("refused");
            assert!(why.contains(wanted) && !why.contains('\n'), "{words:?}: {why}");
        }
    }
}
