//! Copies to and from servers of others: `put` and `get` do them, with the options of `copy` that they have.

#[cfg(feature = "servers")]
mod instead;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use tidegate_contract::feature::missing;
use tidegate_run::place::{self, Place, end, shown};
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
        is_here(cfg!(feature = "ssh") || end(destination) != End::Sftp, "ssh", destination)?;
        is_here(cfg!(feature = "put"), "put", destination)?;
        return Ok(Route::Put);
    }
    let Some(server) = check_at_servers(sources)? else { return Ok(Route::Copy) };
    is_here(cfg!(feature = "get"), "get", server)?;
    match is_got(sources, destination)? {
        true => Ok(Route::Get),
        false => Ok(Route::Copy),
    }
}

/// Whether `get` does a copy from servers: of files and of what is in buckets, into a directory of this host.
fn is_got(sources: &[OsString], destination: &OsStr) -> Result<bool, Error> {
    let is_directory = |place: &OsStr| place.as_encoded_bytes().ends_with(b"/");
    let is_here = matches!(Place::parse(destination)?, Place::Local(_));
    // What a name of a host that ssh reaches is of, a copy finds out.
    let are_listed = sources.iter().any(|source| match end(source) {
        End::Sftp => true,
        End::Web | End::Ftp => is_directory(source),
        _ => false,
    });
    Ok(is_here && !are_listed && (is_directory(destination) || Path::new(destination).is_dir()))
}

/// Refuses `place` where the feature that it needs is not here.
fn is_here(is_here: bool, feature: &str, place: &OsStr) -> Result<(), Error> {
    match is_here {
        true => Ok(()),
        false => Err(usage(missing(&shown(place), feature))),
    }
}

/// What is put is all in one place, and goes not to every server.
fn check_put(sources: &[OsString], destination: &OsStr) -> Result<(), Error> {
    let (to, there) = (end(destination), shown(destination));
    if Route::of(End::Local, to) != Some(Route::Put) {
        let other = if to == End::Ftp { ", not by FTP" } else { "" };
        return Err(usage(format!("nothing is put to {there}: files are put to S3, WebDAV and SFTP{other}")));
    }
    match check_at_servers(sources)? {
        Some(server) => is_here(cfg!(feature = "get"), "get", server),
        None => place::sources(sources).map(drop),
    }
}

/// The first source that is at a server, where all are.
///
/// # Errors
/// Some are, and others are not, or what reads them was left out of this program.
fn check_at_servers(sources: &[OsString]) -> Result<Option<&OsStr>, Error> {
    let Some(server) = sources.iter().find(|source| end(source).is_server()) else { return Ok(None) };
    if let Some(other) = sources.iter().find(|source| !end(source).is_server()) {
        let other = Place::parse(other)?.show();
        let why = format!("{other} is at no server, and other sources are: copy them by themselves");
        return Err(usage(why));
    }
    is_here(cfg!(feature = "ftp") || end(server) != End::Ftp, "ftp", server)?;
    is_here(cfg!(feature = "ssh") || end(server) != End::Sftp, "ssh", server)?;
    Ok(Some(server))
}
