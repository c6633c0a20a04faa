//! The command that does a copy to or from a server, and the options of `copy` that it has.

use std::ffi::{OsStr, OsString};

use clap::ArgMatches;
use clap::parser::ValueSource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
#[cfg(feature = "get")]
use tidegate_run::place::end;
use tidegate_run::place::shown;
use tidegate_spec::address::Route;
use tidegate_spec::options::{OptionError, Options};
use tidegate_transfer::error::Error;

use super::route;
use crate::asked::{refused, typed};
use crate::command::copy::CopyArgs;
#[cfg(feature = "get")]
use crate::command::get::GetArgs;
#[cfg(feature = "put")]
use crate::command::put::PutArgs;
use crate::exit::usage;

/// What does a copy to or from a server.
pub enum Instead {
    /// A download.
    #[cfg(feature = "get")]
    Get(Box<GetArgs>),
    /// An upload.
    #[cfg(feature = "put")]
    Put(Box<PutArgs>),
}

/// The options of a copy that were typed, by name.
pub fn options_typed(copy: &CopyArgs, matches: &ArgMatches) -> Options {
    let is_typed = |name: &str| {
        matches.try_contains_id(name).unwrap_or_default()
            && matches.value_source(name) == Some(ValueSource::CommandLine)
    };
    let mut options = Options::default();
    for (name, value) in Options::all(copy).iter() {
        // Rules of several options are one list.
        let are_rules = name == FILTER && value.as_array().is_some_and(|rules| !rules.is_empty());
        if are_rules || is_typed(name) {
            options.set(name, value.clone());
        }
    }
    options
}

/// What does a copy with those options instead of `copy`; `None` where no server is named.
///
/// # Errors
/// Neither of the two does it, or has an option.
pub fn instead(
    options: &Options,
    sources: &[OsString],
    destination: &OsStr,
) -> Result<Option<Instead>, Error> {
    let owned = || (sources.to_vec(), destination.to_owned());
    Ok(match route(sources, destination)? {
        #[cfg(feature = "put")]
        Route::Put => {
            check_options::<PutArgs>(options, "put", destination)?;
            let (sources, destination) = owned();
            Some(Instead::Put(Box::new(PutArgs::asked(options, sources, destination)?)))
        }
        #[cfg(feature = "get")]
        Route::Get => {
            // What it has no option for a copy does itself.
            if first_other::<GetArgs>(options).is_some_and(|(_, error)| is_other(&error)) {
                return Ok(None);
            }
            let server = sources.iter().find(|source| end(source).is_server());
            check_options::<GetArgs>(options, "get", server.map_or(destination, OsString::as_os_str))?;
            let (sources, destination) = owned();
            let mut options = options.clone();
            // A copy leaves what was named, and nothing beside it.
            options.set("no_sidecars", true);
            Some(Instead::Get(Box::new(GetArgs::asked(&options, sources, destination.into())?)))
        }
        _ => None,
    })
}

/// The option that all filter rules are.
const FILTER: &str = "filter";

/// Refuses options of a copy that the command `name`, which does it with the server `place`, has not.
fn check_options<T>(options: &Options, name: &str, place: &OsStr) -> Result<(), Error>
where
    T: clap::Args + Serialize + DeserializeOwned + Default,
{
    let Some((option, error)) = first_other::<T>(options) else { return Ok(()) };
    Err(match is_other(&error) {
        true => usage(format!(
            "{} is for copies between hosts that run Tidegate, and {} is none: leave it out (see `tidegate {name} --help`)",
            typed(option),
            shown(place)
        )),
        false => refused::<T>(&error),
    })
}

/// The first option of a copy that `T` has not, or not with its value.
fn first_other<T>(options: &Options) -> Option<(&str, OptionError)>
where
    T: clap::Args + Serialize + DeserializeOwned + Default,
{
    options.iter().find_map(|(option, value)| {
        let error = Options::from([(option, value.clone())]).try_read::<T>().err()?;
        Some((rule_of(option, value), error))
    })
}

/// Whether an option is none there; what is a switch here and has a value there is another one.
fn is_other(error: &OptionError) -> bool {
    match error {
        OptionError::Unknown(..) => true,
        OptionError::Value(_, value, _) => value.is_boolean(),
        OptionError::Together(_) => false,
    }
}

/// The option of a copy that says `value`: each kind of rule has one of its own.
fn rule_of<'a>(option: &'a str, value: &'a Value) -> &'a str {
    let first = value.as_array().filter(|_| option == FILTER).and_then(|rules| rules.first()?.as_object());
    first.and_then(|rule| rule.keys().next()).map_or(option, String::as_str)
}

#[cfg(all(test, feature = "get", feature = "put"))]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::*;

    /// What does a copy that is typed so.
    fn typed(words: &[&str]) -> Result<Option<Instead>, String> {
        let command = CopyArgs::augment_args(Command::new("copy"));
        let matches = command.try_get_matches_from([&["copy"], words].concat()).expect("understood");
        let copy = CopyArgs::from_arg_matches(&matches).expect("read");
        let (sources, destination) = copy.paths().expect("both");
        instead(&options_typed(&copy, &matches), sources, destination).map_err(|error| error.message)
    }

    #[test]
    fn what_is_typed_for_a_copy_is_said_to_the_command_that_does_it() {
        let words =
            ["--limit-link=8Mbit/s", "--staging", "16MiB", "--max-workers=3", "-q", "--no-memory", "-n"];
        let Ok(Some(Instead::Put(put))) = typed(&[&words[..], &["a", "s3://b/"]].concat()) else {
            panic!("no upload")
        };
        let said = Options::all(&*put);
        let value =
            |name: &str| said.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
        // What is usual for a copy is said all the same: it is not for an upload.
        assert_eq!(value("staging"), Some((16 << 20).into()));
        assert_eq!((value("limit_rate"), value("max_workers")), (Some(8_000_000.into()), Some(3.into())));
        for name in ["quiet", "no_memory", "dry_run"] {
            assert_eq!(value(name), Some(true.into()), "{name}");
        }
        let words = ["--include=x", "-f", "- *", "--max-size=9", "-x", "-u", "a", "s3://b/"];
        let Ok(Some(Instead::Put(put))) = typed(&words) else { panic!("no upload of what is chosen") };
        let chosen = Options::all(&*put);
        let rules = chosen.iter().find(|(name, _)| *name == "filter").map(|(_, rules)| rules.to_string());
        assert_eq!(rules.as_deref(), Some(r#"[{"include":"x"},"- *"]"#));
        for (name, wanted) in
            [("max_size", 9.into()), ("one_file_system", true.into()), ("update", Value::from(true))]
        {
            assert!(chosen.iter().any(|(known, value)| known == name && *value == wanted), "{name}");
        }
        assert_eq!(value("part_size"), Some((8 << 20).into()), "as usual");
        let Ok(Some(Instead::Get(get))) =
            typed(&["--optimizer", "aimd", "--retry-for=3s", "https://h/x", "/d/"])
        else {
            panic!("no download")
        };
        let said = Options::all(&*get);
        assert_eq!((said.text("optimizer"), said.text("retry_for")), (Some("aimd"), Some("3s")));
        for words in [
            &["--exclude=x", "a", "tg://h/"][..],
            &["https://h/x", "tg://h/"],
            &["https://h/d/", "/d/"],
            &["https://h/x", "/d/y"],
            &["--checksum", "http://h/x", "/d/"],
            &["-f", "- x", "s3://b/x/", "/d/"],
        ] {
            assert!(matches!(typed(words), Ok(None)), "{words:?} is a copy");
        }
    }

    #[test]
    fn an_option_that_is_of_copies_alone_is_named() {
        for (words, wanted) in [
            (&["--chunk-size=1GiB", "https://h/a", "s3://b/"][..], "--chunk-size is for copies between"),
            (&["https://h/a", "a", "s3://b/"], "a is at no server, and other sources are"),
            (&["--stall-timeout=9s", "a", "s3://b/"], "--stall-timeout is for copies between"),
            (&["--backup-dir=x", "--delete", "a", "s3://b/"], "is for copies between"),
            (&["--links=keep", "a", "s3://b/"], "'keep' for '--links' [possible values: skip, follow]"),
            (&["a", "gs://b/"], "nothing is put to gs://b/: files are put to S3, WebDAV and SFTP"),
        ] {
            let why = typed(words).err().expect("refused");
            assert!(why.contains(wanted) && !why.contains('\n'), "{words:?}: {why}");
        }
    }
}
