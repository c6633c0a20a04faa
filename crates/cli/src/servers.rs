//! Copies to and from servers of others: `put` and `get` do them, and are told so in their own words.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use tidegate_transfer::error::Error;

use crate::exit::usage;
use crate::place::{Place, server_scheme, shown};

/// Options that a server's command calls otherwise.
const RENAMED: [(&str, &str); 1] = [("limit-link", "limit-rate")];

/// The command line of `put` or `get` that does what `tidegate copy` was asked for; `None` where no server is named.
///
/// # Errors
/// Neither of the two does it, or knows an option.
pub fn reworded(tidegate: &Command, asked: &ArgMatches) -> Result<Option<Vec<OsString>>, Error> {
    let Some(("copy", copy)) = asked.subcommand() else { return Ok(None) };
    let paths: Vec<&OsString> = copy.get_many("paths").into_iter().flatten().collect();
    let Some((destination, sources @ [_, ..])) = paths.split_last() else { return Ok(None) };
    let (name, place) = match sources.iter().find(|source| server_scheme(source).is_some()) {
        _ if server_scheme(destination).is_some() => {
            check_put(sources, destination)?;
            ("put", destination)
        }
        Some(source) => {
            check_get(sources, destination)?;
            ("get", source)
        }
        None => return Ok(None),
    };
    let [from, to] = ["copy", name].map(|name| tidegate.find_subcommand(name));
    let (Some(from), Some(to)) = (from, to) else { return Ok(None) };
    let mut words: Vec<OsString> = vec!["tidegate".into(), name.into()];
    words.extend((0..asked.get_count("verbose")).map(|_| "-v".into()));
    for option in from.get_arguments() {
        let Some(long) = option.get_long() else { continue };
        if copy.value_source(option.get_id().as_str()) != Some(ValueSource::CommandLine) {
            continue;
        }
        let theirs = RENAMED.iter().find(|(ours, _)| *ours == long).map_or(long, |(_, theirs)| *theirs);
        let known = to.get_arguments().find(|known| known.get_long() == Some(theirs));
        if known.is_none_or(|known| takes_value(known) != takes_value(option)) {
            let place = shown(place);
            return Err(usage(format!(
                "--{long} is for copies between hosts that run Tidegate, and {place} is none: leave it out (see `tidegate {name} --help`)"
            )));
        }
        let values = copy.get_raw(option.get_id().as_str()).into_iter().flatten();
        let written = |value: Option<&OsStr>| {
            let mut word = OsString::from(format!("--{theirs}"));
            if let Some(value) = value {
                word.push("=");
                word.push(value);
            }
            word
        };
        match takes_value(option) {
            true => words.extend(values.map(|value| written(Some(value)))),
            false => words.push(written(None)),
        }
    }
    if name == "get" {
        // A copy leaves what was named, and nothing beside it.
        words.extend(["--no-sidecars".into(), "--outdir".into(), (*destination).clone(), "--".into()]);
        words.extend(sources.iter().map(|source| (*source).clone()));
    } else {
        words.push("--".into());
        words.extend(paths.iter().map(|path| (*path).clone()));
    }
    Ok(Some(words))
}

fn takes_value(option: &Arg) -> bool {
    option.get_action().takes_values()
}

/// Only files of this host are put, and not to every server.
fn check_put(sources: &[&OsString], destination: &OsStr) -> Result<(), Error> {
    let there = shown(destination);
    if matches!(server_scheme(destination), Some("ftp" | "ftps")) {
        return Err(usage(format!("nothing is put to {there}: files are put to S3 and WebDAV, not by FTP")));
    }
    for source in sources {
        let elsewhere = match server_scheme(source) {
            Some(_) => shown(source),
            None => match Place::parse(source)? {
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
fn check_get(sources: &[&OsString], destination: &OsStr) -> Result<(), Error> {
    if let Some(other) = sources.iter().find(|source| server_scheme(source).is_none()) {
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
