//! Copies to and from servers of others: `put` and `get` do them, with the options of `copy` that they have.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::ArgMatches;
use clap::parser::ValueSource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_run::place::{Place, end, shown};
use tidegate_spec::address::{End, Route};
use tidegate_spec::options::{OptionError, Options};
use tidegate_transfer::error::Error;

use crate::asked::{refused, typed};
use crate::command::copy::CopyArgs;
use crate::command::get::GetArgs;
use crate::command::put::PutArgs;
use crate::exit::usage;

/// What does a copy to or from a server.
pub enum Instead {
    /// A download.
    Get(Box<GetArgs>),
    /// An upload.
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
        Route::Copy | Route::GridFtp => None,
        Route::Put => {
            check_options::<PutArgs>(options, "put", destination)?;
            let (sources, destination) = owned();
            Some(Instead::Put(Box::new(PutArgs::asked(options, sources, destination)?)))
        }
        Route::Get => {
            let server = sources.iter().find(|source| end(source).is_server());
            check_options::<GetArgs>(options, "get", server.map_or(destination, OsString::as_os_str))?;
            let (sources, destination) = owned();
            let mut options = options.clone();
            // A copy leaves what was named, and nothing beside it.
            options.set("no_sidecars", true);
            Some(Instead::Get(Box::new(GetArgs::asked(&options, sources, destination.into())?)))
        }
    })
}

/// The option that all filter rules are.
const FILTER: &str = "filter";

/// Refuses options of a copy that the command `name`, which does it with the server `place`, has not.
fn check_options<T>(options: &Options, name: &str, place: &OsStr) -> Result<(), Error>
where
    T: clap::Args + Serialize + DeserializeOwned + Default,
{
    for (option, value) in options.iter() {
        let error = match Options::from([(option, value.clone())]).try_read::<T>() {
            Ok(_) => continue,
            Err(error) => error,
        };
        // What is a switch here and has a value there is another option.
        let is_other = match &error {
            OptionError::Unknown(..) => true,
            OptionError::Value(_, value, _) => value.is_boolean(),
            OptionError::Together(_) => false,
        };
        return Err(match is_other {
            true => usage(format!(
                "{} is for copies between hosts that run Tidegate, and {} is none: leave it out (see `tidegate {name} --help`)",
                typed(rule_of(option, value)),
                shown(place)
            )),
            false => refused::<T>(&error),
        });
    }
    Ok(())
}

/// The option of a copy that says `value`: each kind of rule has one of its own.
fn rule_of<'a>(option: &'a str, value: &'a Value) -> &'a str {
    let first = value.as_array().filter(|_| option == FILTER).and_then(|rules| rules.first()?.as_object());
    first.and_then(|rule| rule.keys().next()).map_or(option, String::as_str)
}

/// What moves the sources to the destination.
///
/// # Errors
/// A server is named, and nothing moves all of them.
pub fn route(sources: &[OsString], destination: &OsStr) -> Result<Route, Error> {
    if end(destination).is_server() {
        check_put(sources, destination).map(|()| Route::Put)
    } else if sources.iter().any(|source| end(source).is_server()) {
        check_get(sources, destination).map(|()| Route::Get)
    } else {
        Ok(Route::Copy)
    }
}

/// Only files of this host are put, and not to every server.
fn check_put(sources: &[OsString], destination: &OsStr) -> Result<(), Error> {
    let (to, there) = (end(destination), shown(destination));
    if Route::of(End::Local, to) != Some(Route::Put) {
        let other = if to == End::Ftp { ", not by FTP" } else { "" };
        return Err(usage(format!("nothing is put to {there}: files are put to S3 and WebDAV{other}")));
    }
    for source in sources {
        let elsewhere = match end(source) {
            from if from.is_server() => shown(source),
            _ => match Place::parse(source)? {
                Place::Local(_) => continue,
                place => place.show(),
            },
        };
        return Err(usage(format!(
            "only files of this host are put to {there}: copy {elsewhere} here first"
        )));
    }
    Ok(())
}

/// What servers have is got into a directory of this host.
fn check_get(sources: &[OsString], destination: &OsStr) -> Result<(), Error> {
    if let Some(other) = sources.iter().find(|source| !end(source).is_server()) {
        let other = Place::parse(other)?.show();
        return Err(usage(format!(
            "{other} is at no server, and other sources are: copy them by themselves"
        )));
    }
    let place = Place::parse(destination)?;
    let there = place.show();
    if !matches!(place, Place::Local(_)) {
        let why =
            format!("what a server has is copied to a path of this host, not to {there}: copy it here first");
        return Err(usage(why));
    }
    let is_directory = destination.as_encoded_bytes().ends_with(b"/") || Path::new(destination).is_dir();
    match is_directory {
        true => Ok(()),
        false => Err(usage(format!(
            "what a server has keeps its name: write {there}/ for the directory that it goes into"
        ))),
    }
}

#[cfg(test)]
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
        assert_eq!(value("part_size"), Some((8 << 20).into()), "as usual");
        let Ok(Some(Instead::Get(get))) =
            typed(&["--optimizer", "aimd", "--retry-for=3s", "https://h/x", "/d/"])
        else {
            panic!("no download")
        };
        let said = Options::all(&*get);
        assert_eq!((said.text("optimizer"), said.text("retry_for")), (Some("aimd"), Some("3s")));
        assert!(matches!(typed(&["--exclude=x", "a", "tg://h/"]), Ok(None)), "it is a copy");
    }

    #[test]
    fn an_option_that_is_of_copies_alone_is_named() {
        for (words, wanted) in [
            (&["--include=x", "ftp://h/x", "/d/"][..], "--include is for copies between"),
            (&["-f", "- x", "ftp://h/x", "/d/"], "--filter is for copies between"),
            (&["--checksum", "http://h/x", "/d/"], "--checksum is for copies between"),
            (&["--move", "a", "s3://b/"], "--move is for copies between"),
            (&["--retry-for=3s", "a", "s3://b/"], "--retry-for is for copies between"),
            (&["--via=ssh", "a", "s3://b/"], "--via is for copies between"),
            (&["--backup-dir=x", "--delete", "a", "s3://b/"], "is for copies between"),
            (&["--links=keep", "a", "s3://b/"], "'keep' for '--links' [possible values: skip, follow]"),
            (&["a", "gs://b/"], "nothing is put to gs://b/: files are put to S3 and WebDAV"),
        ] {
            let why = typed(words).err().expect("refused");
            assert!(why.contains(wanted) && !why.contains('\n'), "{words:?}: {why}");
        }
    }
}
