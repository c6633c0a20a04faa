//! Copies to and from servers of others: `put` and `get` do them, with the options of `copy` that they have.

#[cfg(feature = "servers")]
mod instead;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use tidegate_contract::feature::missing;
use tidegate_run::place::{Place, end, shown};
use tidegate_spec::address::{End, Route};
use tidegate_transfer::error::Error;

use crate::exit::usage;

#[cfg(feature = "servers")]
pub use crate::servers::instead::{Instead, instead, options_typed};

/// What moves the sources to the destination.
///
/// # Errors
/// A server is named, and nothing moves all of them, or what does was left out of this program.
pub fn route(sources: &[OsString], destination: &OsStr) -> Result<Route, Error> {
    if end(destination).is_server() {
        check_put(sources, destination)?;
        is_here(cfg!(feature = "put"), "put", destination)?;
        return Ok(Route::Put);
    }
    let Some(server) = sources.iter().find(|source| end(source).is_server()) else { return Ok(Route::Copy) };
    check_get(sources, destination)?;
    is_here(cfg!(feature = "ftp") || end(server) != End::Ftp, "ftp", server)?;
    is_here(cfg!(feature = "get"), "get", server)?;
    Ok(Route::Get)
}

/// Refuses `place` where the feature that it needs is not here.
fn is_here(is_here: bool, feature: &str, place: &OsStr) -> Result<(), Error> {
    match is_here {
        true => Ok(()),
        false => Err(usage(missing(&shown(place), feature))),
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
