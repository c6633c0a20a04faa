//! What a program asks for: options of a command by their names, read as what is typed is read.

use std::ffi::OsString;

use clap::{Args, Command};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_spec::options::{OptionError, Options};
use tidegate_spec::run::Run;
use tidegate_transfer::error::{Error, Result};

use crate::exit::usage;

/// What a program has run in its process.
pub enum Task {
    /// What `copy` does.
    Copy(Call),
    /// What `get` does: names, and a directory.
    #[cfg(feature = "get")]
    Get(Call),
    /// What `put` does.
    #[cfg(feature = "put")]
    Put(Call),
    /// What `verify` does.
    Verify(Call),
    /// What `ls` does: a place.
    Ls(Call),
    /// What `hash` does: files.
    Hash(Call),
    /// What `estimate` does.
    #[cfg(feature = "service")]
    Estimate(Call),
    /// What is told as to `tidegate run -`.
    Told(Run),
}

/// What is moved, and how.
#[derive(Clone, Default)]
pub struct Call {
    /// The command's options by their names, with underscores.
    pub options: Options,
    /// What is moved.
    pub from: Vec<OsString>,
    /// Where to.
    pub to: OsString,
}

impl Call {
    /// Has it end with objects of JSON.
    pub(crate) fn in_json(&mut self) {
        self.options.set("json", true);
    }

    /// The same, and has it say nothing to people besides.
    pub(crate) fn quietly_in_json(&mut self) {
        self.in_json();
        self.options.set("quiet", true);
    }
}

/// The one of what a call is about.
pub(crate) fn only(mut places: Vec<OsString>) -> Result<OsString> {
    match places.len() {
        1 => Ok(places.remove(0)),
        many => Err(usage(format!("one place is needed, and not {many}"))),
    }
}

/// The options as the command has them; an error says which it is as one that is typed does.
pub(crate) fn read<T: Args + Serialize + DeserializeOwned + Default>(options: &Options) -> Result<T> {
    options.try_read().map_err(|error| refused::<T>(&error))
}

/// Why they are not those of `T`, in the words of its command line.
pub(crate) fn refused<T: Args>(error: &OptionError) -> Error {
    let OptionError::Value(name, value, why) = error else { return usage(error.to_string()) };
    let value = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let command = T::augment_args(Command::new("asked"));
    let option = command.get_arguments().find(|option| option.get_id() == name);
    let known = option.map(clap::Arg::get_possible_values).unwrap_or_default();
    let known: Vec<&str> = known.iter().map(clap::builder::PossibleValue::get_name).collect();
    let why = match known.is_empty() {
        true => format!(": {why}"),
        false => format!(" [possible values: {}]", known.join(", ")),
    };
    usage(format!("invalid value '{value}' for '{}'{why}", typed(name)))
}

/// An option as it is typed.
pub(crate) fn typed(name: &str) -> String {
    format!("--{}", name.replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use tidegate_spec::copy::CopySpec;

    use super::*;

    #[test]
    fn what_is_wrong_is_told_as_where_it_is_typed() {
        let read = |name: &str, value: &str| {
            let value: Value = serde_json::from_str(value).expect("JSON");
            read::<CopySpec>(&Options::from([(name, value)])).map(drop).map_err(|error| error.message)
        };
        for (name, value, wanted) in [
            ("links", "\"some\"", "invalid value 'some' for '--links' [possible values: keep, skip, follow]"),
            ("limit_link", "\"fast\"", "invalid value 'fast' for '--limit-link': "),
            ("min_size", "\"much\"", "invalid value 'much' for '--min-size': "),
            ("seed", "-1", "invalid value '-1' for '--seed': "),
            ("nonsense", "1", "\"nonsense\" is no option"),
        ] {
            let why = read(name, value).expect_err(name);
            assert!(why.starts_with(wanted), "{why}");
        }
        assert_eq!(read("min_size", "\"1.5K\""), Ok(()));
    }
}
